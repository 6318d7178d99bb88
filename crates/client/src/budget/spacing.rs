//! The user's limit on requests started per second, over all prefixes and priorities.
//!
//! Starts are spaced evenly. In any `t` seconds at most `rate * (t + CATCH_UP) + 1` requests start.

use std::time::Duration;

/// Resolution of timers: starts that are late by up to this much are made up for immediately.
const CATCH_UP: Duration = Duration::from_millis(5);

/// See the module. Times count from any fixed start and never go back.
#[derive(Debug, Default)]
pub(super) struct StartSpacing {
    /// Time between two starts; None without a limit.
    interval: Option<Duration>,
    /// Time from which the next request may start.
    next: Duration,
}

impl StartSpacing {
    /// Set the limit; None or 0 lifts it. The next start waits for the new interval at most.
    pub(super) fn limit(&mut self, now: Duration, per_second: Option<u32>) {
        self.interval = per_second.filter(|rate| *rate > 0).map(|rate| Duration::from_secs(1) / rate);
        self.next = self.next.min(now + self.interval.unwrap_or_default());
    }

    /// Time at which the next request may start; None: now.
    pub(super) fn due(&self, now: Duration) -> Option<Duration> {
        self.interval.filter(|_| self.next > now).map(|_| self.next)
    }

    /// Records the start of a request.
    pub(super) fn note_start(&mut self, now: Duration) {
        if let Some(interval) = self.interval {
            self.next = self.next.max(now.saturating_sub(CATCH_UP)) + interval;
        }
    }
}
