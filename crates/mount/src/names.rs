//! The table of names of a mount: taken over from the cache when it begins, written there while it lasts and when it ends.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use seqferry_vfs::Tree;
use seqferry_vfs::disk_cache::DiskCache;
use tokio::runtime::Handle;

use crate::log::note;

/// Pause between two looks at whether there is something to write or to say.
const LOOK: Duration = Duration::from_secs(5);
/// Looks between two writes of the table: once a minute.
const LOOKS: u32 = 12;

/// A tree and the file that keeps it.
#[derive(Debug)]
pub(crate) struct NameTable {
    tree: Arc<Tree>,
    path: PathBuf,
    /// Listings of the tree when it was last written.
    written: AtomicU64,
    /// One write at a time.
    writing: Mutex<()>,
}

impl NameTable {
    /// Take over what the file has.
    pub(crate) fn open(tree: Arc<Tree>, path: PathBuf) -> Self {
        match tree.restore(&path) {
            Ok(report) if report.is_damaged => {
                note(&format!("the table of names {} is damaged: what is missing is listed anew", path.display()));
            }
            Ok(_) => {}
            Err(error) => {
                note(&format!("cannot read the table of names {}: {error}; names are listed anew", path.display()));
            }
        }
        let written = AtomicU64::new(tree.listings());
        Self { tree, path, written, writing: Mutex::new(()) }
    }

    /// Write it if something was listed since the last time.
    pub(crate) fn save(&self) {
        let _one = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let listings = self.tree.listings();
        if self.written.swap(listings, Ordering::Relaxed) == listings {
            return;
        }
        if let Err(error) = self.tree.save(&self.path) {
            note(&format!("cannot write the table of names {}: {error}", self.path.display()));
        }
    }
}

/// Say what the cache has to say, and write the table now and then, for as long as the runtime lives.
pub(crate) fn attend(runtime: &Handle, cache: Arc<DiskCache>, table: Option<Arc<NameTable>>) {
    runtime.spawn(async move {
        for looks in 1_u32.. {
            tokio::time::sleep(LOOK).await;
            cache.take_notes().iter().for_each(|text| note(text));
            if let Some(table) = table.clone().filter(|_| looks % LOOKS == 0) {
                // It fails only when the runtime is being torn down.
                let _written = tokio::task::spawn_blocking(move || table.save()).await;
            }
        }
    });
}
