//! The progress of a transfer job: counters of objects and bytes that any thread may read at any time. The client
//! counts requests.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use seqferry_client::RequestMetrics;

use crate::object_outcome::ObjectState;

/// A snapshot.
#[derive(Debug, Clone, Default)]
pub struct Progress {
    /// Bytes copied, those of parts of unfinished objects included.
    pub bytes_done: u64,
    /// Objects copied and verified.
    pub objects_done: u64,
    /// Objects that failed.
    pub objects_failed: u64,
    /// Objects that were skipped.
    pub objects_skipped: u64,
    /// Objects in progress.
    pub objects_active: u64,
    /// Requests made.
    pub requests: u64,
    /// Requests in flight.
    pub in_flight: u64,
    /// Retries.
    pub retries: u64,
    /// Requests that the service has throttled.
    pub throttled: u64,
    /// The longest-running objects, at most 5.
    pub slowest: Vec<ActiveObject>,
}

/// An object in progress.
#[derive(Debug, Clone)]
pub struct ActiveObject {
    /// Item id.
    pub id: u64,
    /// Source key.
    pub key: String,
    /// Bytes.
    pub size: u64,
    /// Bytes copied.
    pub bytes_done: u64,
    /// Seconds since it was begun.
    pub seconds: f64,
}

/// The counters behind [`Progress`], but for those of requests.
#[derive(Debug, Default)]
pub struct Counters {
    bytes_ended: AtomicU64,
    done: AtomicU64,
    failed: AtomicU64,
    skipped: AtomicU64,
    active: Mutex<HashMap<u64, Arc<ObjectTracker>>>,
}

/// Progress of one object.
#[derive(Debug)]
pub struct ObjectTracker {
    id: u64,
    key: String,
    size: u64,
    bytes: AtomicU64,
    since: Instant,
}

impl ObjectTracker {
    /// Adds bytes that have reached the target.
    pub fn add(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Resets the progress of an object that starts over.
    pub fn reset(&self) {
        self.bytes.store(0, Ordering::Relaxed);
    }
}

impl Counters {
    /// Counts an object that begins.
    pub fn begin(&self, id: u64, key: &str, size: u64) -> Arc<ObjectTracker> {
        let active =
            Arc::new(ObjectTracker { id, key: key.to_owned(), size, bytes: AtomicU64::new(0), since: Instant::now() });
        self.active.lock().unwrap_or_else(PoisonError::into_inner).insert(id, Arc::clone(&active));
        active
    }

    /// Counts an object that has ended (None: it was interrupted and has no outcome).
    pub fn end(&self, active: &ObjectTracker, state: Option<ObjectState>) {
        self.active.lock().unwrap_or_else(PoisonError::into_inner).remove(&active.id);
        if let Some(state) = state {
            self.count(state, active.size);
        }
    }

    /// Counts an object of this size that ended without a call of [`Self::begin`].
    pub fn count(&self, state: ObjectState, size: u64) {
        match state {
            ObjectState::Done => {
                self.done.fetch_add(1, Ordering::Relaxed);
                self.bytes_ended.fetch_add(size, Ordering::Relaxed);
            }
            ObjectState::Skipped => _ = self.skipped.fetch_add(1, Ordering::Relaxed),
            ObjectState::Failed => _ = self.failed.fetch_add(1, Ordering::Relaxed),
            ObjectState::Cancelled => {}
        }
    }

    /// A snapshot, with the counters of the job's requests.
    pub fn snapshot(&self, requests: &RequestMetrics) -> Progress {
        let mut slowest: Vec<ActiveObject> = {
            let active = self.active.lock().unwrap_or_else(PoisonError::into_inner);
            active
                .values()
                .map(|object| ActiveObject {
                    id: object.id,
                    key: object.key.clone(),
                    size: object.size,
                    bytes_done: object.bytes.load(Ordering::Relaxed).min(object.size),
                    seconds: object.since.elapsed().as_secs_f64(),
                })
                .collect()
        };
        let bytes_under_way: u64 = slowest.iter().map(|object| object.bytes_done).sum();
        let objects_active = slowest.len() as u64;
        slowest.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        slowest.truncate(5);
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Progress {
            bytes_done: get(&self.bytes_ended) + bytes_under_way,
            objects_done: get(&self.done),
            objects_failed: get(&self.failed),
            objects_skipped: get(&self.skipped),
            objects_active,
            requests: requests.requests(),
            in_flight: requests.in_flight(),
            retries: requests.retries(),
            throttled: requests.throttled(),
            slowest,
        }
    }
}
