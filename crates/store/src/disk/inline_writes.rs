//! The choice of the thread that writes.
//!
//! A write that the system takes into its cache lasts as long as copying the bytes. Handing them to another thread takes more
//! CPU than that, since they are in the cache of this processor only. A write that waits, for a slow disk or a file
//! server, holds up every other task on the thread. So bytes are written on the thread that received them while such
//! waits take at most a quarter of the time, all threads together; beyond that they go to a thread where blocking is
//! allowed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Several times what copying the bytes of one read from the network takes. What is longer was waiting.
const COPYING: Duration = Duration::from_millis(1);
/// Of so many parts of the time one may be waited.
const SHARE: u32 = 4;
/// A wait of this length alone is no sign of a slow disk: Linux pauses a process that writes faster than the disk for
/// up to 200 ms.
const AT_ONCE: Duration = Duration::from_millis(250);

#[derive(Debug)]
pub(super) struct InlineWrites {
    begun: Instant,
    /// Time at which all waiting so far will be the allowed share of the time: microseconds after `begun`.
    even_at: AtomicU64,
}

impl InlineWrites {
    pub(super) fn new() -> Self {
        Self { begun: Instant::now(), even_at: AtomicU64::new(0) }
    }

    /// Do a write here if that may be done now; else give it back.
    pub(super) fn here<T, W: FnOnce() -> T>(&self, write: W) -> Result<T, W> {
        let from = self.begun.elapsed();
        if !self.may(from) {
            return Err(write);
        }
        let done = write();
        self.took(from, self.begun.elapsed());
        Ok(done)
    }

    fn may(&self, at: Duration) -> bool {
        self.even_at.load(Ordering::Relaxed) <= micros(at + AT_ONCE * SHARE)
    }

    fn took(&self, from: Duration, to: Duration) {
        let waited = to.saturating_sub(from).saturating_sub(COPYING);
        if waited > Duration::ZERO {
            let later = |even_at: u64| Some(even_at.max(micros(from)).saturating_add(micros(waited * SHARE)));
            let _always_some = self.even_at.fetch_update(Ordering::Relaxed, Ordering::Relaxed, later);
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

    /// Of all writes, those that are made here, each lasting so long; from when on, and until when.
    fn made_here(pace: &InlineWrites, lasting: Duration, from: Duration, until: Duration) -> u32 {
        let (mut at, mut here) = (from, 0);
        while at < until {
            if pace.may(at) {
                pace.took(at, at + lasting);
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
        let pace = InlineWrites::new();
        for second in 0..60 {
            let at = second * 1000 * MS;
            assert!(pace.may(at));
            pace.took(at, at + 100 * MS);
        }
    }

    #[test]
    fn writes_that_always_wait_are_made_here_for_a_quarter_of_the_time() {
        let pace = InlineWrites::new();
        let (all, one) = (60_000 * MS, 49 * MS);

        let waited = made_here(&pace, one + COPYING, Duration::ZERO, all) * one;

        assert!(waited >= all / SHARE, "{waited:?}: what is not tried is not found out");
        assert!(waited <= all / SHARE + AT_ONCE + one, "{waited:?}");
    }

    #[test]
    fn when_the_disk_is_quick_again_so_are_we() {
        let pace = InlineWrites::new();
        made_here(&pace, 200 * MS, Duration::ZERO, 60_000 * MS);

        assert!(made_here(&pace, COPYING, 60_000 * MS, 70_000 * MS) > 7_000);
    }

    #[test]
    fn what_may_not_be_written_here_is_given_back_undone() {
        let pace = InlineWrites::new();
        pace.took(Duration::ZERO, 10_000 * MS);
        let mut done = false;

        let Err(write) = pace.here(|| done = true) else { panic!("it was done here") };

        write();
        assert!(done);
    }
}
