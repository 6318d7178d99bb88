//! Times that syncs of a disk have taken lately, for a gauge.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Shortest time that is distinguished; each further step is twice as long.
const SHORTEST: Duration = Duration::from_micros(125);
/// Steps: the last one holds all that took a minute or more.
const STEPS: usize = 20;
/// Length of a window. The figure covers the present window and the one before.
const WINDOW: Duration = Duration::from_mins(1);

type Counts = [u64; STEPS];

/// Counts of syncs by the time that they took.
#[derive(Debug)]
pub struct SyncTimes(Mutex<CountWindows>);

#[derive(Debug)]
struct CountWindows {
    began: Instant,
    now: Counts,
    before: Counts,
}

impl Default for SyncTimes {
    fn default() -> Self {
        Self(Mutex::new(CountWindows { began: Instant::now(), now: Counts::default(), before: Counts::default() }))
    }
}

impl SyncTimes {
    fn lock(&self, at: Instant) -> MutexGuard<'_, CountWindows> {
        let mut windows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let age = at.saturating_duration_since(windows.began);
        if age >= WINDOW {
            windows.before = if age < 2 * WINDOW { windows.now } else { Counts::default() };
            windows.now = Counts::default();
            windows.began = at;
        }
        windows
    }

    /// Do a sync, and count it.
    pub(super) fn measure<T>(&self, sync: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let done = sync();
        let ended = Instant::now();
        self.count(ended - began, ended);
        done
    }

    fn count(&self, took: Duration, at: Instant) {
        let steps = (0..STEPS - 1).take_while(|step| took > bound(*step)).count();
        self.lock(at).now[steps] += 1;
    }

    /// Time within which 99 of 100 syncs of some disks were done in the last one or two minutes, to a factor of two.
    /// None: there was none.
    pub(crate) fn p99<'a>(disks: impl IntoIterator<Item = &'a Self>) -> Option<Duration> {
        Self::p99_at(disks, Instant::now())
    }

    fn p99_at<'a>(disks: impl IntoIterator<Item = &'a Self>, at: Instant) -> Option<Duration> {
        let mut counts = Counts::default();
        for disk in disks {
            let windows = disk.lock(at);
            for (step, count) in counts.iter_mut().enumerate() {
                *count += windows.now[step] + windows.before[step];
            }
        }
        let all: u64 = counts.iter().sum();
        let mut slower = all;
        let step = counts.iter().position(|count| {
            slower -= count;
            slower * 100 <= all
        });
        step.filter(|_| all > 0).map(bound)
    }
}

/// Longest time of a step.
fn bound(step: usize) -> Duration {
    SHORTEST * (1 << step)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_slow_sync_of_a_hundred_is_left_out_and_two_are_told() {
        let (times, began) = (SyncTimes::default(), Instant::now());
        assert_eq!(SyncTimes::p99_at([&times], began), None);
        for _ in 0..198 {
            times.count(MS / 2, began);
        }
        times.count(40 * MS, began);
        assert_eq!(SyncTimes::p99_at([&times], began), Some(MS / 2));
        times.count(40 * MS, began);
        times.count(40 * MS, began);
        assert_eq!(SyncTimes::p99_at([&times], began), Some(64 * MS));
        times.count(Duration::from_hours(1), began);
        let other = SyncTimes::default();
        assert_eq!(SyncTimes::p99_at([&other, &times], began), Some(64 * MS));
    }

    #[test]
    fn what_was_slow_some_minutes_ago_is_forgotten() {
        let (times, began) = (SyncTimes::default(), Instant::now());
        times.count(40 * MS, began);
        let next = began + WINDOW + MS;
        times.count(MS, next);
        assert_eq!(SyncTimes::p99_at([&times], next), Some(64 * MS));
        let later = next + WINDOW;
        assert_eq!(SyncTimes::p99_at([&times], later), Some(MS));
        assert_eq!(SyncTimes::p99_at([&times], later + 2 * WINDOW), None);
    }
}
