//! Blocks on their way, and the reads that wait for them. [`fetch`](crate::fetch) gets them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use seqferry_store::StoreError;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::block::Block;

/// Reason why a fetch has ended without all its blocks.
#[derive(Debug, Clone)]
pub(crate) enum FetchError {
    /// No read needs it any longer.
    Cancelled,
    Failed(StoreError),
}

/// Blocks of one object on their way: those from `first` on, without gaps.
#[derive(Debug)]
pub(crate) struct Fetch {
    pub(crate) first: u64,
    pub(crate) blocks: Vec<OnceLock<Arc<Block>>>,
    /// Changes with each block; holds the error of a fetch that ended before its last block.
    pub(crate) progress: watch::Sender<Option<FetchError>>,
    pub(crate) control: Arc<FetchControl>,
}

/// Count of the reads that need a fetch, and its end.
#[derive(Debug, Default)]
pub(crate) struct FetchControl {
    interested: AtomicUsize,
    pub(crate) cancel: CancellationToken,
}

/// Keeps a fetch going; the fetch is cancelled when its last guard is dropped. It holds no blocks.
#[derive(Debug)]
pub(crate) struct FetchGuard(Arc<FetchControl>);

impl FetchGuard {
    fn new(control: &Arc<FetchControl>) -> Self {
        control.interested.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(control))
    }
}

impl Drop for FetchGuard {
    fn drop(&mut self) {
        if self.0.interested.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.cancel.cancel();
        }
    }
}

/// Interest of a read in the blocks of a fetch, which it keeps going.
#[derive(Debug)]
pub(crate) struct FetchWaiter(Arc<Fetch>, FetchGuard);

impl FetchWaiter {
    pub(crate) fn new(fetch: &Arc<Fetch>) -> Self {
        Self(Arc::clone(fetch), FetchGuard::new(&fetch.control))
    }

    /// The guard of the fetch, without its blocks.
    pub(crate) fn into_guard(self) -> FetchGuard {
        self.1
    }

    /// Wait for a block.
    pub(crate) async fn block(&self, block: u64) -> Result<Arc<Block>, FetchError> {
        let index = usize::try_from(block - self.0.first).unwrap_or(usize::MAX);
        let Some(place) = self.0.blocks.get(index) else { return Err(FetchError::Cancelled) };
        let mut progress = self.0.progress.subscribe();
        loop {
            if let Some(block) = place.get() {
                return Ok(Arc::clone(block));
            }
            if let Some(broken) = progress.borrow_and_update().clone() {
                return Err(broken);
            }
            // The fetch holds the sender as long as this interest holds the fetch.
            let _changed = progress.changed().await;
        }
    }
}

impl Fetch {
    pub(crate) fn is_complete(&self) -> bool {
        self.blocks.iter().all(|block| block.get().is_some())
    }

    pub(crate) fn number(&self, index: usize) -> u64 {
        self.first + index as u64
    }
}
