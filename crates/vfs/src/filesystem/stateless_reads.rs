//! Reads that name an inode and no handle, as protocols without an open file send them.
//!
//! The handle of such a read is kept for the next one, with its cursors: a file that is read in order is read ahead.

use std::collections::HashMap;
use std::sync::Arc;

use super::{FileSystem, lock};
use crate::error::{Result, VfsError};
use crate::reader::Slices;

/// Handles that are kept; one at rest holds no bytes.
const KEPT: usize = 1024;

/// Open handles by inode, each with its last use.
#[derive(Debug, Default)]
pub(super) struct HandleCache {
    handles: HashMap<u64, (u64, u64)>,
    uses: u64,
}

impl HandleCache {
    fn find(&mut self, inode: u64) -> Option<u64> {
        self.uses += 1;
        let (handle, used) = self.handles.get_mut(&inode)?;
        *used = self.uses;
        Some(*handle)
    }

    /// Keep a handle. Returns one that has to be closed: that of another open of the inode, or the one used least
    /// recently.
    fn keep(&mut self, inode: u64, handle: u64) -> Option<u64> {
        self.uses += 1;
        if let Some((before, _)) = self.handles.insert(inode, (handle, self.uses)) {
            return Some(before);
        }
        if self.handles.len() <= KEPT {
            return None;
        }
        let oldest = self.handles.iter().min_by_key(|(_, (_, used))| *used).map(|(inode, _)| *inode)?;
        self.handles.remove(&oldest).map(|(handle, _)| handle)
    }
}

impl FileSystem {
    /// Read from a file that the caller has not opened.
    ///
    /// # Errors
    /// Those of [`FileSystem::open`] and [`FileSystem::read`].
    pub async fn read_at(self: &Arc<Self>, inode: u64, offset: u64, length: usize) -> Result<Slices> {
        let known = lock(&self.kept).find(inode);
        let handle = match known {
            Some(handle) => handle,
            None => self.open_kept(inode).await?,
        };
        match self.read(handle, offset, length).await {
            // Another read has closed the handle meanwhile.
            Err(VfsError::Invalid) if known.is_some() => {
                let handle = self.open_kept(inode).await?;
                self.read(handle, offset, length).await
            }
            Err(error) => {
                self.forget_kept(inode);
                Err(error)
            }
            Ok(slices) => Ok(slices),
        }
    }

    async fn open_kept(&self, inode: u64) -> Result<u64> {
        let handle = self.open(inode).await?;
        let closed = lock(&self.kept).keep(inode, handle);
        if let Some(closed) = closed {
            self.close(closed);
        }
        Ok(handle)
    }

    /// The version may be gone: the next read opens the file again.
    fn forget_kept(&self, inode: u64) {
        let gone = lock(&self.kept).handles.remove(&inode);
        if let Some((handle, _)) = gone {
            self.close(handle);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_handle_used_least_recently_is_closed() {
        let mut kept = HandleCache::default();
        for inode in 0..KEPT as u64 {
            assert_eq!(kept.keep(inode, 10_000 + inode), None);
        }
        assert_eq!(kept.find(0), Some(10_000));
        assert_eq!(kept.keep(5_000, 1), Some(10_001));
        assert_eq!(kept.keep(5_000, 2), Some(1), "two reads have opened the same file");
        assert_eq!((kept.find(5_000), kept.find(1)), (Some(2), None));
    }
}
