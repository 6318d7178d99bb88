//! Files whose writers wait for disk space: they are half-written, however long they do not change.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Time after a write that was refused for which its writer is expected again. Linux asks again after 5 s.
pub(super) const EXPECTED: Duration = Duration::from_secs(15);
/// Files at most; a writer of another one is not known to wait.
const MOST: usize = 4096;

/// Numbers of the files, and when a write of each was refused last.
#[derive(Debug, Default)]
pub(super) struct WaitingWriters(Mutex<HashMap<u64, Instant>>);

impl WaitingWriters {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Instant>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A write of a file had an answer.
    pub(super) fn answered(&self, number: u64, is_refused: bool) {
        let mut refused = self.lock();
        if !is_refused {
            refused.remove(&number);
        } else if refused.len() < MOST || refused.contains_key(&number) {
            refused.insert(number, Instant::now());
        }
    }

    /// Files whose writers are expected again.
    pub(super) fn files(&self) -> HashSet<u64> {
        let mut refused = self.lock();
        refused.retain(|_, at| at.elapsed() < EXPECTED);
        refused.keys().copied().collect()
    }
}
