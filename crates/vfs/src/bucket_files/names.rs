//! The table of names of an export: read from the cache at its start, written there at intervals and at its end.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;

use crate::disk_cache::DiskCache;
use crate::tree::Tree;

/// Pause between two checks for notes of the cache.
const LOOK: Duration = Duration::from_secs(5);
/// Checks between two writes of the table: once a minute.
const LOOKS: u32 = 12;
/// Part of the limit of the cache that learned attributes may take, and bytes on the disk for those of one version.
const FACTS_SHARE: u64 = 20;
const FACT_BYTES: u64 = 64;

/// A tree and the file that keeps it.
#[derive(Debug)]
pub(super) struct NameTable {
    tree: Arc<Tree>,
    path: PathBuf,
    most_facts: usize,
    /// Changes of the tree when it was last written.
    written: AtomicU64,
    /// One write at a time.
    writing: Mutex<()>,
    note: fn(&str),
}

impl NameTable {
    /// Take over the names in the file.
    pub(super) fn open(tree: Arc<Tree>, path: PathBuf, cache_size: u64, note: fn(&str)) -> Self {
        let most_facts = usize::try_from(cache_size / FACTS_SHARE / FACT_BYTES).unwrap_or(usize::MAX);
        match tree.restore(&path) {
            Ok(report) if report.is_damaged => {
                note(&format!("the table of names {} is damaged: what is missing is listed anew", path.display()));
            }
            Ok(_) => {}
            Err(error) => {
                note(&format!("cannot read the table of names {}: {error}; names are listed anew", path.display()));
            }
        }
        let written = AtomicU64::new(tree.changes());
        Self { tree, path, most_facts, written, writing: Mutex::new(()), note }
    }

    /// Write the table if something was listed or learned since it was last written.
    pub(super) fn save(&self) {
        let _one = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let changes = self.tree.changes();
        if self.written.swap(changes, Ordering::Relaxed) == changes {
            return;
        }
        if let Err(error) = self.tree.save(&self.path, self.most_facts) {
            (self.note)(&format!("cannot write the table of names {}: {error}", self.path.display()));
        }
    }
}

/// Log the notes of the cache and write the table at intervals, for as long as the runtime lives.
pub(super) fn maintain(runtime: &Handle, cache: Arc<DiskCache>, table: Option<Arc<NameTable>>, note: fn(&str)) {
    runtime.spawn(async move {
        for looks in 1_u32.. {
            tokio::time::sleep(LOOK).await;
            cache.take_notes().iter().for_each(|text| note(text));
            if let Some(table) = table.clone().filter(|_| looks % LOOKS == 0) {
                // Fails only when the runtime is being torn down.
                let _written = tokio::task::spawn_blocking(move || table.save()).await;
            }
        }
    });
}
