//! The second check of files that were changed a moment before they were read.
//!
//! A writer that appends to a file may rest between two appends. The file then has the same facts before and after it
//! is read, and a part of it would pass for the whole. So a file that was younger than the settling time when it was
//! opened is checked again after its copy, and not before the settling time has passed since.
//!
//! Times of files have the resolution of their file system. A file with a time in whole seconds may be up to two
//! seconds younger than its time says, and a later write within the same tick leaves no trace.

use std::time::Duration;

use seqferry_client::RequestError;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::clock::now;

/// The moment at which a file was opened, or a moment before that.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FileOpening {
    /// Seconds since the epoch, by this machine's clock.
    at: f64,
    instant: Instant,
    settle: Duration,
}

impl FileOpening {
    /// An opening at this moment, with the settling time of the policy.
    pub(crate) fn now(settle: Duration) -> Self {
        Self { at: now(), instant: Instant::now(), settle }
    }

    /// True when a file with this modification time (seconds since the epoch) had been changed within the settling time
    /// before it was opened. A time in the future counts as recent.
    pub(crate) fn is_young(&self, modified: f64) -> bool {
        !self.settle.is_zero() && modified + tick(modified) > self.at - self.settle.as_secs_f64()
    }

    /// True when a write after the opening could have left a file its modification time: both fell into the same tick
    /// of a coarse clock.
    pub(crate) fn is_within_tick(&self, modified: f64) -> bool {
        modified <= self.at && self.at < modified + tick(modified)
    }

    /// Waits until the settling time has passed since the opening.
    pub(crate) async fn wait_until_settled(&self, cancel: &CancellationToken) -> Result<(), RequestError> {
        tokio::select! {
            biased;
            () = cancel.cancelled() => Err(RequestError::Cancelled),
            () = tokio::time::sleep_until(self.instant + self.settle) => Ok(()),
        }
    }

    /// True when the settling time has passed since the opening.
    pub(crate) fn is_past(&self) -> bool {
        self.instant.elapsed() >= self.settle
    }
}

/// Resolution of the clock that gave this time, in seconds: FAT counts even seconds, older file systems and some
/// network shares whole ones.
fn tick(modified: f64) -> f64 {
    if modified.fract() != 0.0 {
        0.0
    } else if modified % 2.0 == 0.0 {
        2.0
    } else {
        1.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opened(at: f64) -> FileOpening {
        FileOpening { at, instant: Instant::now(), settle: Duration::from_secs(2) }
    }

    #[test]
    fn a_file_is_young_for_the_settling_time_and_the_tick_of_its_clock() {
        for (modified, young) in [
            (1000.5, true),
            (998.6, true),
            (998.4, false),
            (1_000_000.5, true), // in the future
            (997.0, false),      // whole seconds: at most 997.999
            (998.0, true),       // even seconds: at most 999.999
            (996.0, false),
        ] {
            assert_eq!(opened(1000.5).is_young(modified), young, "{modified}");
        }
        assert!(!FileOpening { settle: Duration::ZERO, ..opened(1000.5) }.is_young(1000.4));
    }

    #[test]
    fn writes_within_one_tick_of_a_coarse_clock_leave_no_trace() {
        for (modified, hidden) in [(1000.0, true), (999.0, false), (1000.25, false), (1002.0, false)] {
            assert_eq!(opened(1000.5).is_within_tick(modified), hidden, "{modified}");
        }
    }
}
