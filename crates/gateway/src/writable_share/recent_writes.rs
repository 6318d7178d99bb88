//! Ranges of long files that were written just now: a part that holds none of them may be uploaded while the file grows.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Time within which writes that follow each other are one range, at most.
const JOINED_WITHIN: Duration = Duration::from_millis(250);
/// Ranges of a file: the two oldest become one when there are more.
const MOST_RANGES: usize = 256;
/// Files: those beyond have no ranges, and their parts may be sent more than once.
const MOST_FILES: usize = 1024;

#[derive(Debug, Clone, Copy)]
struct WrittenRange {
    start: u64,
    end: u64,
    first: Instant,
    last: Instant,
}

/// Ranges by the number of the file, the oldest first.
#[derive(Debug)]
pub(super) struct RecentWrites {
    /// Bytes from which on a file is long.
    long: AtomicU64,
    /// Nanoseconds within which writes that follow each other are one range.
    joined: AtomicU64,
    files: Mutex<HashMap<u64, VecDeque<WrittenRange>>>,
}

impl Default for RecentWrites {
    /// No file is long until it is set.
    fn default() -> Self {
        Self { long: AtomicU64::new(u64::MAX), joined: AtomicU64::default(), files: Mutex::default() }
    }
}

impl RecentWrites {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, VecDeque<WrittenRange>>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Files are long from so many bytes on, and their parts are uploaded when they have not changed for `quiet`.
    pub(super) fn watch(&self, long: u64, quiet: Duration) {
        let joined = JOINED_WITHIN.min(quiet / 8).as_nanos();
        self.joined.store(u64::try_from(joined).unwrap_or(u64::MAX), Ordering::Relaxed);
        self.long.store(long, Ordering::Relaxed);
    }

    /// A range of a file was written, which has so many bytes then.
    pub(super) fn note(&self, number: u64, size: u64, start: u64, end: u64) {
        if size < self.long.load(Ordering::Relaxed) {
            return;
        }
        let now = Instant::now();
        let mut files = self.lock();
        if files.len() >= MOST_FILES && !files.contains_key(&number) {
            return;
        }
        let ranges = files.entry(number).or_default();
        if let Some(range) = ranges.back_mut()
            && now.duration_since(range.first) < Duration::from_nanos(self.joined.load(Ordering::Relaxed))
            && start <= range.end
            && range.start <= end
        {
            (range.start, range.end, range.last) = (range.start.min(start), range.end.max(end), now);
            return;
        }
        if ranges.len() >= MOST_RANGES
            && let Some(oldest) = ranges.pop_front()
            && let Some(next) = ranges.front_mut()
        {
            (next.start, next.end) = (next.start.min(oldest.start), next.end.max(oldest.end));
        }
        ranges.push_back(WrittenRange { start, end, first: now, last: now });
    }

    /// True when a part of a range was written within this time.
    pub(super) fn is_recent(&self, number: u64, (start, end): (u64, u64), within: Duration) -> bool {
        self.any(number, (start, end), |range| range.last.elapsed() < within)
    }

    /// True when a part of a range was written at this time or later, as far as it is known.
    pub(super) fn is_newer(&self, number: u64, (start, end): (u64, u64), since: Instant) -> bool {
        self.any(number, (start, end), |range| range.last >= since)
    }

    fn any(&self, number: u64, (start, end): (u64, u64), holds: impl Fn(&WrittenRange) -> bool) -> bool {
        let files = self.lock();
        let mut ranges = files.get(&number).into_iter().flatten();
        ranges.any(|range| range.start < end && start < range.end && holds(range))
    }

    /// Forget what was written longer ago than this.
    pub(super) fn forget_older(&self, than: Duration) {
        self.lock().retain(|_, ranges| {
            ranges.retain(|range| range.last.elapsed() < than);
            !ranges.is_empty()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn ranges_are_recent_for_a_while_and_bounded() {
        let quiet = Duration::from_secs(5);
        let writes = RecentWrites::default();
        writes.note(1, u64::MAX - 1, 0, 10);
        assert!(!writes.is_recent(1, (0, 10), quiet), "no file is long yet");
        writes.watch(100, quiet);
        writes.note(1, 99, 0, 10);
        assert!(!writes.is_recent(1, (0, 10), quiet), "it is short");
        let began = Instant::now();
        for at in 0..50 {
            writes.note(1, 1000, 10 * at, 10 * at + 10);
            tokio::time::advance(Duration::from_millis(100)).await;
        }
        assert!(writes.lock()[&1].len() < 25, "writes that follow each other are one range");
        assert!(writes.is_recent(1, (490, 600), quiet) && !writes.is_recent(1, (500, 600), quiet));
        assert!(!writes.is_recent(2, (0, 600), quiet));
        assert!(writes.is_newer(1, (0, 10), began) && !writes.is_newer(1, (0, 10), Instant::now()));
        tokio::time::advance(Duration::from_secs(3)).await;
        writes.forget_older(quiet);
        assert!(!writes.is_recent(1, (0, 100), quiet) && writes.is_recent(1, (450, 500), quiet));
        for at in 0..10_000_u64 {
            writes.note(1, 1000, 1_000_000 - 20 * at, 1_000_010 - 20 * at);
        }
        assert!(writes.lock()[&1].len() <= MOST_RANGES);
        assert!((0..10_000_u64).all(|at| writes.is_recent(1, (1_000_000 - 20 * at, 1_000_001 - 20 * at), quiet)));
        tokio::time::advance(quiet).await;
        writes.forget_older(quiet);
        assert!(writes.lock().is_empty());
    }
}
