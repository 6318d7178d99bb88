//! The one place that makes requests: waits for the budget, retries by error class, stops on cancel.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use seqferry_store::budget::Ended;
use seqferry_store::{Budget, ErrorClass, ObjectStore, StoreError};
use tokio_util::sync::CancellationToken;

use crate::progress::Counters;
use crate::quirks::{Connection, Quirks};

/// How often and after what pause a request is sent again. Pauses are drawn evenly from zero to the ceiling ("full
/// jitter"), so that many requests that failed together do not come back together.
#[derive(Debug, Clone, Copy)]
pub struct RetryPolicy {
    /// Tries of a request that fails for passing reasons, the first included.
    pub attempts: u32,
    /// Tries of a request that the service turns down for want of capacity, the first included.
    pub throttled_attempts: u32,
    /// First ceiling for passing failures; doubles with each.
    pub base: Duration,
    /// First ceiling for throttled requests; doubles with each.
    pub throttled_base: Duration,
    /// No ceiling goes above this.
    pub most: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            // About half a minute in all: longer outages are the control plane's.
            attempts: 8,
            // About two minutes: the ramp-up of a prefix takes minutes.
            throttled_attempts: 12,
            base: Duration::from_millis(100),
            throttled_base: Duration::from_millis(500),
            most: Duration::from_secs(20),
        }
    }
}

impl RetryPolicy {
    /// Few tries for a question that a person is waiting on.
    #[must_use]
    pub fn impatient() -> Self {
        Self { attempts: 4, throttled_attempts: 4, most: Duration::from_secs(2), ..Self::default() }
    }

    /// The pause before try number `attempt` (2-based), drawn by `share` in 0..1. None: no further try.
    pub fn pause(&self, error: &StoreError, attempt: u32, share: f64) -> Option<Duration> {
        let (attempts, base) = match error.class {
            ErrorClass::Retry => (self.attempts, self.base),
            ErrorClass::Throttle => (self.throttled_attempts, self.throttled_base),
            // Once, after the credentials were loaded anew.
            ErrorClass::Credentials => (3, self.base),
            _ => return None,
        };
        if attempt > attempts {
            return None;
        }
        let ceiling = base.saturating_mul(1 << (attempt - 2).min(20)).min(self.most);
        Some(ceiling.mul_f64(share).max(error.retry_after.unwrap_or_default().min(self.most)))
    }
}

/// Why a request has no answer.
#[derive(Debug)]
pub enum Interrupted {
    /// The job was stopped.
    Cancelled,
    /// It failed for good.
    Failed(StoreError),
}

impl From<StoreError> for Interrupted {
    fn from(error: StoreError) -> Self {
        Self::Failed(error)
    }
}

/// Makes requests to one store on behalf of one job.
#[derive(Debug, Clone)]
pub struct Requests {
    connection: Connection,
    budget: Arc<Budget>,
    policy: RetryPolicy,
    cancel: CancellationToken,
    counters: Arc<Counters>,
}

impl Requests {
    /// Requests to one service, within `budget`, until `cancel`.
    pub fn new(
        connection: Connection,
        budget: Arc<Budget>,
        policy: RetryPolicy,
        cancel: CancellationToken,
        counters: Arc<Counters>,
    ) -> Self {
        Self { connection, budget, policy, cancel, counters }
    }

    /// The same requests with a token of their own: what must be cleaned up after a cancel is cleaned up through these.
    #[must_use]
    pub fn uncancelled(&self) -> Self {
        Self { cancel: CancellationToken::new(), policy: RetryPolicy::impatient(), ..self.clone() }
    }

    /// The budget they draw from.
    pub fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// What was learned of the service.
    pub fn quirks(&self) -> &Quirks {
        &self.connection.quirks
    }

    /// The token that stops them.
    pub fn cancel(&self) -> &CancellationToken {
        &self.cancel
    }

    /// Make a request that does `bytes` of work, again while its class allows. `retries` counts the further tries.
    pub async fn call<T, F, Fut>(
        &self,
        bucket: &str,
        bytes: u64,
        retries: &AtomicU32,
        request: F,
    ) -> Result<T, Interrupted>
    where
        F: Fn(Arc<dyn ObjectStore>) -> Fut,
        Fut: Future<Output = Result<T, StoreError>>,
    {
        let mut attempt = 1;
        loop {
            let error = tokio::select! {
                biased;
                () = self.cancel.cancelled() => return Err(Interrupted::Cancelled),
                answer = self.once(bucket, bytes, &request) => match answer {
                    Ok(answer) => return Ok(answer),
                    Err(error) => error,
                },
            };
            attempt += 1;
            let Some(pause) = self.policy.pause(&error, attempt, fastrand::f64()) else {
                return Err(Interrupted::Failed(error));
            };
            retries.fetch_add(1, Ordering::Relaxed);
            self.counters.retries.fetch_add(1, Ordering::Relaxed);
            let again = async {
                if error.class == ErrorClass::Credentials {
                    self.connection.store.refresh_credentials().await?;
                }
                tokio::time::sleep(pause).await;
                Ok::<(), StoreError>(())
            };
            tokio::select! {
                biased;
                () = self.cancel.cancelled() => return Err(Interrupted::Cancelled),
                ready = again => if ready.is_err() { return Err(Interrupted::Failed(error)) },
            }
        }
    }

    async fn once<T, F, Fut>(&self, bucket: &str, bytes: u64, request: &F) -> Result<T, StoreError>
    where
        F: Fn(Arc<dyn ObjectStore>) -> Fut,
        Fut: Future<Output = Result<T, StoreError>>,
    {
        let permit = self.budget.request(bucket).await;
        self.counters.requests.fetch_add(1, Ordering::Relaxed);
        self.counters.in_flight.fetch_add(1, Ordering::Relaxed);
        // Also when this future is dropped by a cancel.
        let _under_way = UnderWay(&self.counters);
        let answer = request(Arc::clone(&self.connection.store)).await;
        permit.end(match &answer {
            Ok(_) => Ended::Worked(bytes),
            Err(error) if error.class == ErrorClass::Throttle => {
                self.counters.throttled.fetch_add(1, Ordering::Relaxed);
                Ended::Throttled
            }
            Err(_) => Ended::Failed,
        });
        answer
    }
}

struct UnderWay<'a>(&'a Counters);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(code: &str, status: u16) -> StoreError {
        StoreError::new("CopyObject", "b", Some("k"), code, Some(status))
    }

    #[test]
    fn passing_failures_are_retried_with_growing_pauses_up_to_a_ceiling() {
        let policy = RetryPolicy::default();
        let failed = error("InternalError", 500);

        assert_eq!(policy.pause(&failed, 2, 1.0), Some(Duration::from_millis(100)));
        assert_eq!(policy.pause(&failed, 3, 1.0), Some(Duration::from_millis(200)));
        assert_eq!(policy.pause(&failed, 3, 0.5), Some(Duration::from_millis(100)));
        assert_eq!(policy.pause(&failed, 8, 1.0), Some(Duration::from_millis(6400)));
        assert_eq!(policy.pause(&failed, 9, 1.0), None);
    }

    #[test]
    fn throttled_requests_wait_longer_and_as_long_as_the_service_asks() {
        let policy = RetryPolicy::default();
        let mut failed = error("SlowDown", 503);

        assert_eq!(policy.pause(&failed, 2, 1.0), Some(Duration::from_millis(500)));
        assert_eq!(policy.pause(&failed, 12, 1.0), Some(Duration::from_secs(20)));
        assert_eq!(policy.pause(&failed, 13, 1.0), None);
        failed.retry_after = Some(Duration::from_secs(3));
        assert_eq!(policy.pause(&failed, 2, 0.0), Some(Duration::from_secs(3)));
    }

    #[test]
    fn what_cannot_pass_is_not_retried() {
        for (code, status) in [
            ("AccessDenied", 403),
            ("NoSuchKey", 404),
            ("PreconditionFailed", 412),
            ("NotImplemented", 501),
            ("InvalidArgument", 400),
        ] {
            assert_eq!(RetryPolicy::default().pause(&error(code, status), 2, 0.5), None, "{code}");
        }
    }
}
