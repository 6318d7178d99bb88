//! Paths of the bucket walked to their objects, also while the bucket does not answer.
//!
//! An outage must not stop writers: each new name is looked up in the bucket first. The last known answer about a name
//! counts then; uploads have conditions, so that an object that came meanwhile is not replaced.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use seqferry_share::{FileError, Result};
use seqferry_vfs::VfsError;
use tokio::time::Instant;

use super::Inner;
use crate::journal::Disk;
use crate::share::{CALL_TIMEOUT, status, within_timeout};

/// Wait for an answer of the bucket where an older one is remembered. Clients that write continue after it.
const SHORT_TIMEOUT: Duration = Duration::from_secs(5);
/// Time after an outage was noticed in which remembered answers count immediately.
const OUTAGE_MEMORY: Duration = Duration::from_secs(30);

/// The latest time at which the bucket did not answer.
#[derive(Debug, Default)]
pub(super) struct LastOutage(Mutex<Option<Instant>>);

impl LastOutage {
    pub(super) fn is_recent(&self) -> bool {
        let noticed = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        noticed.is_some_and(|at| at.elapsed() < OUTAGE_MEMORY)
    }

    fn note(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }
}

impl<D: Disk> Inner<D> {
    /// Object or folder of the bucket at a path, answered from memory while that is fresh. While the bucket does not
    /// answer, what was last known of the path counts.
    pub(super) async fn walk(&self, path: &str) -> Result<seqferry_vfs::Attributes> {
        let lru_map = self.walk_remembered(path);
        if let Some(found) = lru_map.clone().filter(|_| self.outage.is_recent()) {
            return found;
        }
        let patience = if lru_map.is_some() { SHORT_TIMEOUT } else { CALL_TIMEOUT };
        let found = within_timeout(patience, self.walk_anew(path)).await;
        match lru_map {
            Some(lru_map) if matches!(found, Err(FileError::TryLater)) => {
                self.outage.note();
                // The answer may have come just now.
                self.walk_remembered(path).unwrap_or(lru_map)
            }
            _ => found,
        }
    }

    /// The same object with the facts that it states, which are requested where they are not known.
    pub(super) async fn learned(&self, found: seqferry_vfs::Attributes) -> Result<seqferry_vfs::Attributes> {
        let patience = if self.outage.is_recent() && !found.is_known { SHORT_TIMEOUT } else { CALL_TIMEOUT };
        let learned = async {
            self.files.tree().learned(found).await.map_err(|error| match error {
                VfsError::NotFound => FileError::Stale,
                error => status(error),
            })
        };
        within_timeout(patience, learned).await
    }

    async fn walk_anew(&self, path: &str) -> Result<seqferry_vfs::Attributes> {
        let tree = self.files.tree();
        let mut found = tree.attributes(seqferry_vfs::ROOT).map_err(status)?;
        for name in path.split('/').filter(|name| !name.is_empty()) {
            found = match tree.lookup(found.inode, name).await.map(|lookup| lookup.attributes) {
                Ok(Some(attributes)) => attributes,
                // The name has gone since, or it is a file where a directory was.
                Ok(None) | Err(VfsError::NotADirectory | VfsError::NotFound) => return Err(FileError::Stale),
                Err(error) => return Err(status(error)),
            };
        }
        Ok(found)
    }

    /// As [`Self::walk`], by the latest answers alone. None: nothing is known of the path.
    fn walk_remembered(&self, path: &str) -> Option<Result<seqferry_vfs::Attributes>> {
        let tree = self.files.tree();
        let mut found = tree.attributes(seqferry_vfs::ROOT).ok()?;
        for name in path.split('/').filter(|name| !name.is_empty()) {
            match tree.lookup_remembered(found.inode, name)?.attributes {
                Some(attributes) => found = attributes,
                None => return Some(Err(FileError::Stale)),
            }
        }
        Some(Ok(found))
    }
}
