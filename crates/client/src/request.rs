//! The description of a request, why it failed, and the retries that the requests of one object share.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::budget::AccessKind;
use seqferry_store::crash_point::{self, When};
use seqferry_store::{ErrorClass, StoreError};
use tokio::sync::OwnedSemaphorePermit;
use tokio::task::JoinError;

/// Reason why a request has no answer.
#[derive(Debug)]
pub enum RequestError {
    /// The client was cancelled.
    Cancelled,
    /// The request failed permanently: no retry can help, or all retries were used.
    Failed(StoreError),
}

impl RequestError {
    /// Class of the failure. A cancelled request may be made again.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Cancelled => ErrorClass::Retry,
            Self::Failed(error) => error.class,
        }
    }
}

impl From<StoreError> for RequestError {
    fn from(error: StoreError) -> Self {
        Self::Failed(error)
    }
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cancelled => f.write_str("the request was cancelled"),
            Self::Failed(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for RequestError {}

/// Answers whether a request may be hedged: asked when it has turned out to be slow.
pub(crate) type HedgeCheck<'a> = &'a (dyn Fn() -> bool + Send + Sync);

/// A request before it is made: what the budget needs to know of it, and whether it may be hedged.
#[derive(Clone, Copy)]
pub struct RequestSpec<'a> {
    pub(crate) operation: &'static str,
    pub(crate) bucket: &'a str,
    pub(crate) access: AccessKind,
    pub(crate) bytes: u64,
    /// Check before a hedged request. None: the request is never hedged.
    pub(crate) hedge: Option<HedgeCheck<'a>>,
}

impl<'a> RequestSpec<'a> {
    /// A request that changes nothing, by S3's name of the operation. It is hedged when it is slow.
    pub fn read(operation: &'static str, bucket: &'a str) -> Self {
        Self { operation, bucket, access: AccessKind::Read, bytes: 0, hedge: Some(&|| true) }
    }

    /// A request that changes something. It is never hedged.
    pub fn write(operation: &'static str, bucket: &'a str) -> Self {
        Self { operation, bucket, access: AccessKind::Write, bytes: 0, hedge: None }
    }

    /// Comes to the crash point of this request, if it changes something.
    pub(crate) fn reach(&self, when: When) {
        if self.access == AccessKind::Write {
            crash_point::reach(when, self.operation);
        }
    }

    /// The same request with the number of object bytes that it moves.
    #[must_use]
    pub fn bytes(mut self, bytes: u64) -> Self {
        self.bytes = bytes;
        self
    }

    /// The same request, never hedged.
    #[must_use]
    pub fn once(mut self) -> Self {
        self.hedge = None;
        self
    }

    /// The same request, hedged when it is slow and `safe` returns true at that moment.
    #[must_use]
    pub fn hedge_if(mut self, safe: HedgeCheck<'a>) -> Self {
        self.hedge = Some(safe);
        self
    }
}

/// State that the requests of one object share: their count of retries, their rank, and their place in a queue.
#[derive(Debug, Default)]
pub struct RetryContext {
    retries: AtomicU32,
    pub(crate) rank: u64,
    place: Mutex<Option<OwnedSemaphorePermit>>,
}

impl RetryContext {
    /// Requests of an object that holds a place in a queue until its first request starts. Lower ranks go first.
    pub fn queued(place: OwnedSemaphorePermit, rank: u64) -> Self {
        Self { retries: AtomicU32::new(0), rank, place: Mutex::new(Some(place)) }
    }

    /// Requests that were sent again so far.
    pub fn retries(&self) -> u32 {
        self.retries.load(Ordering::Relaxed)
    }

    /// Counts one more request that is sent again.
    pub fn count_retry(&self) {
        self.retries.fetch_add(1, Ordering::Relaxed);
    }

    /// The first request starts: gives the place in the queue back.
    pub(crate) fn start(&self) {
        drop(self.place.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

/// The answer to a request that runs in a task of its own, and so continues when its caller has gone.
///
/// # Errors
/// Errors of the request. Code `Cancelled` while the runtime is torn down, which ends the task.
pub async fn join_request<T>(
    task: impl Future<Output = Result<Result<T, StoreError>, JoinError>>,
    operation: &'static str,
) -> Result<T, StoreError> {
    task.await.unwrap_or_else(|_| Err(StoreError::new(operation, "", None, "Cancelled", None)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cancelled_request_may_be_made_again() {
        let error = StoreError::new("GetObject", "bucket", Some("key"), "NoSuchKey", Some(404));

        assert_eq!(RequestError::Cancelled.class(), ErrorClass::Retry);
        assert_eq!(RequestError::from(error).class(), ErrorClass::NotFound);
    }
}
