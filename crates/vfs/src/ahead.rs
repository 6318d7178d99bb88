//! Blocks that were fetched ahead of a reader: how many of them were used, and where those go that memory has no space
//! for.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

/// Pages of files that an interface keeps outside of this process, such as the page cache of the kernel.
pub trait PageCache: Send + Sync + std::fmt::Debug + 'static {
    /// Keep these bytes of a file. Returns immediately; false when they are dropped. `lease` is held until the bytes
    /// were copied: it is the memory that they take.
    fn keep(&self, inode: u64, offset: u64, bytes: Bytes, lease: Box<dyn Send>) -> bool;

    /// Returns false while bytes would be dropped.
    fn is_ready(&self) -> bool;
}

/// Use of the blocks that were fetched ahead of one reader.
#[derive(Debug, Default)]
pub(crate) struct AheadUse {
    /// Blocks that were read.
    used: AtomicU64,
    /// Blocks that were evicted unused.
    wasted: AtomicU32,
    /// Inode whose pages the interface can keep. None: blocks are kept in the pool only.
    inode: Option<u64>,
    /// Blocks that the interface keeps.
    handed_over: Mutex<HashSet<u64>>,
}

impl AheadUse {
    /// No blocks yet. Where memory is short, unused ones become pages of this inode.
    pub(crate) fn with_pages(inode: Option<u64>) -> Arc<Self> {
        Arc::new(Self { inode, ..Self::default() })
    }

    /// Inode whose pages the interface can keep.
    pub(crate) fn inode(&self) -> Option<u64> {
        self.inode
    }

    pub(crate) fn count_used(&self) {
        self.used.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_wasted(&self) {
        self.wasted.fetch_add(1, Ordering::Relaxed);
    }

    /// Blocks that were read so far.
    pub(crate) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Blocks that were evicted unused since the last call.
    pub(crate) fn take_wasted(&self) -> u32 {
        self.wasted.swap(0, Ordering::Relaxed)
    }

    /// Blocks that the interface keeps.
    pub(crate) fn handed_over(&self) -> MutexGuard<'_, HashSet<u64>> {
        self.handed_over.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
