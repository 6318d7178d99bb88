//! The time of day.

use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds since the epoch, by this machine's clock.
pub(crate) fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |d| d.as_secs_f64())
}
