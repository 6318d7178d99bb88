//! The lock of one file.

use tokio::sync::{Mutex, RwLock};

/// Order of calls on one file.
#[derive(Debug, Default)]
pub(super) struct FileLock {
    /// Held for reading by those that write and commit, and for writing by those that cut off or fill.
    pub(super) data: RwLock<()>,
    /// One commit at a time: a second one must not return before the first.
    pub(super) commit: Mutex<()>,
}

impl FileLock {
    /// Exclude calls that truncate or fill.
    pub(super) async fn shared(&self) -> impl Drop + Send + '_ {
        self.data.read().await
    }

    /// Wait for all calls on the bytes of the file.
    pub(super) async fn alone(&self) -> impl Drop + Send + '_ {
        self.data.write().await
    }
}
