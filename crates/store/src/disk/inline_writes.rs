//! The choice of the thread that writes.
//!
//! A write into the page cache takes as long as copying the bytes. Handing them to another thread takes more CPU than
//! that, since they are in the cache of this processor only. A write that blocks, on a slow disk or a file server,
//! holds up every other task on the thread. Therefore bytes are written on the thread that received them while such
//! blocking takes at most a quarter of the time, all threads together. Beyond that they go to a thread where blocking
//! is allowed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Time that counts as copying: several times the copy of one read from the network. The rest of a longer write was
/// blocking.
const COPYING: Duration = Duration::from_millis(1);
/// Divisor of the share of blocking: 1/4 of the time.
const SHARE: u32 = 4;
/// Length of a single block that does not indicate a slow disk: Linux pauses a process that writes faster than the disk
/// for up to 200 ms.
const TOLERATED_BLOCK: Duration = Duration::from_millis(250);

#[derive(Debug)]
pub(super) struct InlineWrites {
    begun: Instant,
    /// Time at which all blocking so far amounts to the allowed share, in microseconds after `begun`.
    allowed_from: AtomicU64,
}

impl InlineWrites {
    pub(super) fn new() -> Self {
        Self { begun: Instant::now(), allowed_from: AtomicU64::new(0) }
    }

    /// Run a write on this thread if that is allowed now; else return it.
    pub(super) fn here<T, W: FnOnce() -> T>(&self, write: W) -> Result<T, W> {
        let from = self.begun.elapsed();
        if !self.is_allowed(from) {
            return Err(write);
        }
        let done = write();
        self.count(from, self.begun.elapsed());
        Ok(done)
    }

    fn is_allowed(&self, at: Duration) -> bool {
        self.allowed_from.load(Ordering::Relaxed) <= micros(at + TOLERATED_BLOCK * SHARE)
    }

    fn count(&self, from: Duration, to: Duration) {
        let waited = to.saturating_sub(from).saturating_sub(COPYING);
        if waited > Duration::ZERO {
            let later = |allowed_from: u64| Some(allowed_from.max(micros(from)).saturating_add(micros(waited * SHARE)));
            let _always_some = self.allowed_from.fetch_update(Ordering::Relaxed, Ordering::Relaxed, later);
        }
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Counts the writes that are made on this thread, each taking `lasting`, between `from` and `until`.
    fn made_here(writes: &InlineWrites, lasting: Duration, from: Duration, until: Duration) -> u32 {
        let (mut at, mut here) = (from, 0);
        while at < until {
            if writes.is_allowed(at) {
                writes.count(at, at + lasting);
                here += 1;
            }
            at += lasting;
        }
        here
    }

    #[test]
    fn quick_writes_are_all_made_here() {
        assert_eq!(made_here(&InlineWrites::new(), COPYING, Duration::ZERO, 10_000 * MS), 10_000);
    }

    #[test]
    fn a_pause_now_and_then_changes_nothing() {
        let writes = InlineWrites::new();
        for second in 0..60 {
            let at = second * 1000 * MS;
            assert!(writes.is_allowed(at));
            writes.count(at, at + 100 * MS);
        }
    }

    #[test]
    fn writes_that_always_wait_are_made_here_for_a_quarter_of_the_time() {
        let writes = InlineWrites::new();
        let (all, one) = (60_000 * MS, 49 * MS);

        let waited = made_here(&writes, one + COPYING, Duration::ZERO, all) * one;

        assert!(waited >= all / SHARE, "{waited:?}: what is not tried is not found out");
        assert!(waited <= all / SHARE + TOLERATED_BLOCK + one, "{waited:?}");
    }

    #[test]
    fn when_the_disk_is_quick_again_so_are_we() {
        let writes = InlineWrites::new();
        made_here(&writes, 200 * MS, Duration::ZERO, 60_000 * MS);

        assert!(made_here(&writes, COPYING, 60_000 * MS, 70_000 * MS) > 7_000);
    }

    #[test]
    fn what_may_not_be_written_here_is_given_back_undone() {
        let writes = InlineWrites::new();
        writes.count(Duration::ZERO, 10_000 * MS);
        let mut done = false;

        let Err(write) = writes.here(|| done = true) else { panic!("it was done here") };

        write();
        assert!(done);
    }
}
