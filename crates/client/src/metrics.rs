//! Metrics of requests. [`RequestMetrics`] counts what the clients of one job do, with remarks for people; [`snapshot`]
//! reads what all clients of a budget have done. Any thread may read both at any time.
//!
//! The names of all metrics are in [`names`].

pub mod names;
mod snapshot;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

pub use names::{Metric, MetricKind};
pub use snapshot::{Family, Sample, Value, snapshot};

/// Remarks that are kept; later ones are dropped.
const NOTES: usize = 16;

/// Counters of requests, and remarks about the services that they went to. Shared by the clients of one job.
#[derive(Debug, Default)]
pub struct RequestMetrics {
    pub(crate) requests: AtomicU64,
    pub(crate) in_flight: AtomicU64,
    pub(crate) retries: AtomicU64,
    pub(crate) throttled: AtomicU64,
    notes: Mutex<Vec<String>>,
}

impl RequestMetrics {
    /// Requests made, retries and hedges included.
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Requests under way.
    pub fn in_flight(&self) -> u64 {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Requests sent again after a failure.
    pub fn retries(&self) -> u64 {
        self.retries.load(Ordering::Relaxed)
    }

    /// Requests that the service turned down for want of capacity.
    pub fn throttled(&self) -> u64 {
        self.throttled.load(Ordering::Relaxed)
    }

    /// Keeps a remark for a person. The same text is kept once.
    pub fn note(&self, text: String) {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        if notes.len() < NOTES && !notes.contains(&text) {
            notes.push(text);
        }
    }

    /// The remarks so far: ways round what a service gets wrong, and settings that a person should know of.
    pub fn notes(&self) -> Vec<String> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
