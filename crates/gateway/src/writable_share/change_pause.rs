//! Pause of a share's changes: clients ask again until another process serves the share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use seqferry_share::{FileError, Result};

/// Changes under way, and whether further ones begin.
#[derive(Debug, Default)]
pub(super) struct ChangePause {
    is_paused: AtomicBool,
    under_way: AtomicUsize,
}

/// A change under way.
pub(super) struct RunningChange(Arc<ChangePause>);

impl ChangePause {
    /// Begin a change. `TryLater` while changes are paused.
    pub(super) fn begin(self: &Arc<Self>) -> Result<RunningChange> {
        // Counted before the check: a caller of `pause` sees every change that was admitted.
        self.under_way.fetch_add(1, Ordering::SeqCst);
        let begun = RunningChange(Arc::clone(self));
        if self.is_paused.load(Ordering::SeqCst) { Err(FileError::TryLater) } else { Ok(begun) }
    }

    /// Let no change begin any more.
    pub(super) fn pause(&self) {
        self.is_paused.store(true, Ordering::SeqCst);
    }

    /// True when no change is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.under_way.load(Ordering::SeqCst) == 0
    }
}

impl Drop for RunningChange {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::SeqCst);
    }
}
