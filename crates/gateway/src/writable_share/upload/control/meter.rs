//! Bytes in all, and their rate over the last seconds.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Seconds that a rate is averaged over.
const SECONDS: u64 = 30;

#[derive(Debug)]
pub(super) struct RateMeter {
    start: Instant,
    state: Mutex<MeterState>,
}

#[derive(Debug, Default)]
struct MeterState {
    total: u64,
    /// Seconds since the start, with their bytes.
    recent: VecDeque<(u64, u64)>,
}

impl Default for RateMeter {
    fn default() -> Self {
        Self { start: Instant::now(), state: Mutex::default() }
    }
}

impl RateMeter {
    pub(super) fn add(&self, bytes: u64) {
        self.add_at(self.start.elapsed().as_secs(), bytes);
    }

    pub(super) fn total(&self) -> u64 {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).total
    }

    /// Bytes per second.
    pub(super) fn rate(&self) -> f64 {
        self.rate_at(self.start.elapsed().as_secs())
    }

    fn add_at(&self, second: u64, bytes: u64) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.total += bytes;
        match state.recent.back_mut() {
            Some((last, sum)) if *last >= second => *sum += bytes,
            _ => state.recent.push_back((second, bytes)),
        }
        while state.recent.front().is_some_and(|(first, _)| first + SECONDS < second) {
            state.recent.pop_front();
        }
    }

    fn rate_at(&self, second: u64) -> f64 {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let recent = state.recent.iter().filter(|(at, _)| at + SECONDS > second);
        let bytes: u64 = recent.map(|(_, bytes)| bytes).sum();
        bytes as f64 / SECONDS.min(second).max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_of_the_last_seconds_and_the_total_stays() {
        let meter = RateMeter::default();
        meter.add_at(0, 300);
        meter.add_at(3, 600);
        assert!((meter.rate_at(3) - 300.0).abs() < 1e-9);

        meter.add_at(100, 3000);

        assert_eq!(meter.total(), 3900);
        assert!((meter.rate_at(100) - 100.0).abs() < 1e-9);
        assert!(meter.rate_at(200).abs() < 1e-9);
        assert_eq!(meter.state.lock().unwrap().recent.len(), 1, "what is older is forgotten");
    }
}
