//! Counters of requests and outcomes.

use std::collections::{HashMap, VecDeque};

use serde::Serialize;

/// Seconds of the timeline that are kept.
const LONGEST: usize = 3_600;

/// Requests of one kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct RequestCounts {
    /// All that arrived.
    pub requests: u64,
    /// Answered with success.
    pub succeeded: u64,
    /// Requests refused by the model's rates.
    pub throttled: u64,
    /// Requests answered with another error.
    pub failed: u64,
    /// Requests without an answer: the connection broke, by a fault or by the client.
    pub unanswered: u64,
}

/// Bytes of work that came to nothing or were done more than once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct WastedWork {
    /// Parts that a later one of the same number took the place of.
    pub parts_written_again: u64,
    /// Parts of uploads that were aborted, or that were left out when their upload was completed.
    pub parts_thrown_away: u64,
    /// Objects that were written over by the same content.
    pub objects_written_again: u64,
}

/// One second of the model's time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct SecondCounts {
    /// Counted from the start.
    pub second: u64,
    /// Requests that the model let pass, by their arrival.
    pub admitted: u64,
    /// Requests that it refused.
    pub throttled: u64,
}

/// All counters.
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) operations: HashMap<&'static str, RequestCounts>,
    pub(super) in_flight: u64,
    pub(super) peak_in_flight: u64,
    pub(super) bytes_received: u64,
    pub(super) bytes_sent: u64,
    pub(super) bytes_copied: u64,
    pub(super) wasted: WastedWork,
    timeline: VecDeque<SecondCounts>,
}

impl Counters {
    /// Resets all counts but those of requests under way.
    pub(super) fn reset(&mut self) {
        *self = Self { in_flight: self.in_flight, peak_in_flight: self.in_flight, ..Self::default() };
    }

    pub(super) fn begin(&mut self, operation: &'static str) {
        self.operations.entry(operation).or_default().requests += 1;
        self.in_flight += 1;
        self.peak_in_flight = self.peak_in_flight.max(self.in_flight);
    }

    pub(super) fn end(&mut self, operation: &'static str, count: impl FnOnce(&mut RequestCounts)) {
        count(self.operations.entry(operation).or_default());
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    pub(super) fn tick(&mut self, second: u64, throttled: bool) {
        let current = match self.timeline.back_mut() {
            Some(last) if last.second >= second => last,
            _ => {
                if self.timeline.len() == LONGEST {
                    self.timeline.pop_front();
                }
                self.timeline.push_back(SecondCounts { second, ..SecondCounts::default() });
                let at = self.timeline.len() - 1;
                &mut self.timeline[at]
            }
        };
        if throttled {
            current.throttled += 1;
        } else {
            current.admitted += 1;
        }
    }

    pub(super) fn timeline(&self) -> Vec<SecondCounts> {
        self.timeline.iter().copied().collect()
    }
}
