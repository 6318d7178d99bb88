//! The one place that makes requests: waits for the budget, retries by error class, sends slow ones a second time, stops on
//! cancel.

use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::{Either, select};
use seqferry_store::budget::{Access, Ended, JobId, MemoryPermit, RequestPermit, StreamPermit, Wanted};
use seqferry_store::error::classify::code::LEASE_LAPSED;
use seqferry_store::{Budget, ErrorClass, ObjectStore, StoreError};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::lease::{LeaseHolder, LeasedStore};
use crate::progress::Counters;
use crate::quirks::{Connection, Quirks};

/// How often a request that is not answered is looked at again: whether it has become slow, whether a second is allowed.
const HEDGE_LOOK: Duration = Duration::from_secs(1);

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
            // Half a minute on average, a minute at most: a service that is started again is back by then.
            attempts: 11,
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

    /// The same with as many tries as the user's settings ask for, if they do.
    #[must_use]
    pub fn with_attempts(self, attempts: Option<u32>) -> Self {
        attempts.map_or(self, |attempts| Self { attempts, throttled_attempts: attempts, ..self })
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

/// Whether a request may be sent a second time while the first is under way: asked when it has turned out to be slow.
type Twice<'a> = &'a (dyn Fn() -> bool + Send + Sync);

/// A request before it is made: what the budget needs to know of it.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    operation: &'static str,
    bucket: &'a str,
    access: Access,
    bytes: u64,
    /// None: never.
    twice: Option<Twice<'a>>,
}

impl<'a> Call<'a> {
    /// One that changes nothing, by S3's name of it: may be sent a second time when it is slow.
    pub fn read(operation: &'static str, bucket: &'a str) -> Self {
        Self { operation, bucket, access: Access::Read, bytes: 0, twice: Some(&|| true) }
    }

    /// One that changes something: never two of them at a time.
    pub fn write(operation: &'static str, bucket: &'a str) -> Self {
        Self { operation, bucket, access: Access::Write, bytes: 0, twice: None }
    }

    /// Object bytes that it moves.
    #[must_use]
    pub fn bytes(mut self, bytes: u64) -> Self {
        self.bytes = bytes;
        self
    }

    /// Never two of them at a time.
    #[must_use]
    pub fn once(mut self) -> Self {
        self.twice = None;
        self
    }

    /// Two of them at a time where this says so when one has become slow.
    #[must_use]
    pub fn twice_if(mut self, safe: Twice<'a>) -> Self {
        self.twice = Some(safe);
        self
    }
}

/// What requests that belong together, those of one object, have in common.
#[derive(Debug, Default)]
pub struct Tries {
    again: AtomicU32,
    rank: u64,
    place: Mutex<Option<OwnedSemaphorePermit>>,
}

impl Tries {
    /// Requests of an object that has a place in a queue until the first of them may start. Those of a lower rank go first.
    pub fn queued(place: OwnedSemaphorePermit, rank: u64) -> Self {
        Self { again: AtomicU32::new(0), rank, place: Mutex::new(Some(place)) }
    }

    /// How many requests were sent again so far.
    pub fn again(&self) -> u32 {
        self.again.load(Ordering::Relaxed)
    }

    /// One is sent again.
    pub fn count_again(&self) {
        self.again.fetch_add(1, Ordering::Relaxed);
    }

    fn started(&self) {
        drop(self.place.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

/// Makes requests to one store on behalf of one job.
#[derive(Debug, Clone)]
pub struct Requests {
    connection: Connection,
    budget: Arc<Budget>,
    job: JobId,
    prefix: Arc<str>,
    policy: RetryPolicy,
    cancel: CancellationToken,
    counters: Arc<Counters>,
    lease: Option<Leased>,
}

/// The lease that writes wait for, and the token that ends the wait.
#[derive(Debug, Clone)]
struct Leased {
    holder: Arc<LeaseHolder>,
    job: CancellationToken,
}

impl Requests {
    /// Requests to one service, within `budget`, until `cancel`. They take turns with those of others.
    pub fn new(
        connection: Connection,
        budget: Arc<Budget>,
        policy: RetryPolicy,
        cancel: CancellationToken,
        counters: Arc<Counters>,
    ) -> Self {
        let job = budget.job();
        let policy = policy.with_attempts(connection.store.max_attempts());
        Self { connection, budget, job, prefix: Arc::from(""), policy, cancel, counters, lease: None }
    }

    /// The same requests; writes among them start only within the lease, and wait for it while the job goes on.
    #[must_use]
    pub fn leased(mut self, holder: Arc<LeaseHolder>) -> Self {
        self.connection.store = Arc::new(LeasedStore::new(self.connection.store, Arc::clone(&holder)));
        self.lease = Some(Leased { holder, job: self.cancel.clone() });
        self
    }

    /// The same requests, known to go to keys below this prefix: services limit prefixes apart.
    #[must_use]
    pub fn within(mut self, prefix: &str) -> Self {
        self.prefix = Arc::from(prefix.rfind('/').map_or("", |last| &prefix[..=last]));
        self
    }

    /// The same requests, which take turns as those of this job.
    #[must_use]
    pub fn of(mut self, job: JobId) -> Self {
        self.job = job;
        self
    }

    /// As [`Requests::leased`]; without the lease writes fail at once.
    #[must_use]
    pub fn leased_or_failed(self, holder: Arc<LeaseHolder>) -> Self {
        let mut leased = self.leased(holder);
        if let Some(lease) = &mut leased.lease {
            lease.job = CancellationToken::new();
            lease.job.cancel();
        }
        leased
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

    /// The service.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// What was learned of the service.
    pub fn quirks(&self) -> &Quirks {
        &self.connection.quirks
    }

    /// Say something about the service, once for the job.
    pub fn note(&self, text: String) {
        self.counters.note(text);
    }

    /// Remember that ranges are ignored, and say so once.
    pub fn note_ignored_ranges(&self, error: &StoreError) {
        if self.quirks().learn_ignored_ranges() {
            self.note(format!(
                "s3://{}: {}. From now on each object there is read as one stream, which is slower. {}",
                error.bucket,
                error.message,
                error.advice()
            ));
        }
    }

    /// The token that stops them.
    pub fn cancel(&self) -> &CancellationToken {
        &self.cancel
    }

    /// Wait until so many bytes may be buffered and pass through this process.
    pub async fn reserve_bytes(&self, bytes: u64) -> Result<Option<MemoryPermit>, Interrupted> {
        self.reserve_passing(bytes, bytes).await
    }

    /// Wait until `bytes` may pass through this process, of which it holds no more than `held` at a time.
    pub async fn reserve_passing(&self, held: u64, bytes: u64) -> Result<Option<MemoryPermit>, Interrupted> {
        let ready = async {
            let permit = self.budget.memory(held).await;
            self.budget.bandwidth(bytes).await;
            permit
        };
        self.unless_cancelled(ready).await
    }

    /// Wait until so many bytes may be buffered that go nowhere.
    pub async fn reserve_memory(&self, bytes: u64) -> Result<Option<MemoryPermit>, Interrupted> {
        self.unless_cancelled(self.budget.memory(bytes)).await
    }

    /// Wait until one more object may be streamed in parts.
    pub async fn stream_turn(&self) -> Result<StreamPermit, Interrupted> {
        self.unless_cancelled(self.budget.stream(self.job)).await
    }

    async fn unless_cancelled<T>(&self, ready: impl Future<Output = T>) -> Result<T, Interrupted> {
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => Err(Interrupted::Cancelled),
            ready = ready => Ok(ready),
        }
    }

    /// Make a request, again while the class of its error allows. `tries` counts the further ones.
    pub async fn call<T, F, Fut>(&self, call: Call<'_>, tries: &Tries, request: F) -> Result<T, Interrupted>
    where
        F: Fn(Arc<dyn ObjectStore>) -> Fut,
        Fut: Future<Output = Result<T, StoreError>>,
    {
        let permit = self.reserve(call, tries).await?;
        self.call_reserved(call, permit, tries, request).await
    }

    /// Wait for the right to make this request. Whoever has thousands to make holds no more than this while they wait.
    pub async fn reserve(&self, call: Call<'_>, tries: &Tries) -> Result<RequestPermit, Interrupted> {
        let wanted = Wanted {
            job: self.job,
            rank: tries.rank,
            bucket: call.bucket,
            prefix: &self.prefix,
            access: call.access,
            operation: call.operation,
            bytes: call.bytes,
        };
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => Err(Interrupted::Cancelled),
            permit = self.budget.request(wanted) => Ok(permit),
        }
    }

    /// As [`Requests::call`], the first time with a right that was waited for already.
    pub async fn call_reserved<T, F, Fut>(
        &self,
        call: Call<'_>,
        mut permit: RequestPermit,
        tries: &Tries,
        request: F,
    ) -> Result<T, Interrupted>
    where
        F: Fn(Arc<dyn ObjectStore>) -> Fut,
        Fut: Future<Output = Result<T, StoreError>>,
    {
        tries.started();
        let mut attempt = 1;
        loop {
            let error = tokio::select! {
                biased;
                () = self.cancel.cancelled() => return Err(Interrupted::Cancelled),
                answer = self.once(call, permit, &request) => match answer {
                    Ok(answer) => return Ok(answer),
                    Err(error) => error,
                },
            };
            if error.code == LEASE_LAPSED {
                // Says nothing of the service: not one of the tries that it has.
                self.lease_regained(error).await?;
                tries.count_again();
                permit = self.reserve(call, tries).await?;
                continue;
            }
            attempt += 1;
            let Some(pause) = self.policy.pause(&error, attempt, fastrand::f64()) else {
                return Err(Interrupted::Failed(error));
            };
            tries.count_again();
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
            permit = self.reserve(call, tries).await?;
        }
    }

    /// Wait until writes may start again; the error when the job ends first.
    async fn lease_regained(&self, error: StoreError) -> Result<(), Interrupted> {
        let Some(lease) = &self.lease else { return Err(Interrupted::Failed(error)) };
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => Err(Interrupted::Cancelled),
            // What is cleaned up after a stop is left to the next owner.
            () = lease.job.cancelled() => Err(Interrupted::Failed(error)),
            () = lease.holder.regained() => Ok(()),
        }
    }

    /// One try: a request, and a second one beside it when that is allowed and the first is much slower than its peers. The
    /// first good answer counts; the other request is given up.
    async fn once<T, F, Fut>(&self, call: Call<'_>, permit: RequestPermit, request: &F) -> Result<T, StoreError>
    where
        F: Fn(Arc<dyn ObjectStore>) -> Fut,
        Fut: Future<Output = Result<T, StoreError>>,
    {
        let mut first = pin!(request(Arc::clone(&self.connection.store)));
        let first_try = self.under_way(permit);
        let Some(may_be_twice) = call.twice else { return first_try.answered(first.await) };
        let begun = Instant::now();
        let mut patience = first_try.permit.slow_after().unwrap_or(HEDGE_LOOK);
        let second_try = loop {
            tokio::select! {
                biased;
                answer = &mut first => return first_try.answered(answer),
                () = tokio::time::sleep_until(begun + patience) => {}
            }
            // What its peers take may have been learned, or have changed, since it was sent.
            let slow = first_try.permit.slow_after();
            if slow.is_some_and(|slow| slow <= patience)
                && may_be_twice()
                && let Some(permit) = first_try.permit.hedge()
            {
                break self.under_way(permit);
            }
            patience = slow.filter(|slow| *slow > patience).unwrap_or(patience + HEDGE_LOOK);
        };
        let second = pin!(request(Arc::clone(&self.connection.store)));
        // An error of one leaves the other its chance.
        match select(first, second).await {
            Either::Left((Err(error), second)) => {
                let _slow = first_try.answered::<T>(Err(error));
                second_try.answered(second.await)
            }
            Either::Right((Err(error), first)) => {
                let _second = second_try.answered::<T>(Err(error));
                first_try.answered(first.await)
            }
            Either::Left((answer, _)) => first_try.answered(answer),
            Either::Right((answer, _)) => second_try.answered(answer),
        }
    }

    fn under_way(&self, permit: RequestPermit) -> UnderWay<'_> {
        self.counters.requests.fetch_add(1, Ordering::Relaxed);
        self.counters.in_flight.fetch_add(1, Ordering::Relaxed);
        UnderWay { permit, counted: Counted(&self.counters) }
    }
}

/// A request that was sent. Dropped without an answer, by a cancel or by a faster one, it says nothing of the service.
struct UnderWay<'a> {
    permit: RequestPermit,
    counted: Counted<'a>,
}

impl UnderWay<'_> {
    fn answered<T>(self, answer: Result<T, StoreError>) -> Result<T, StoreError> {
        self.permit.end(match &answer {
            Ok(_) => Ended::Worked,
            Err(error) if error.class == ErrorClass::Throttle => {
                self.counted.0.throttled.fetch_add(1, Ordering::Relaxed);
                Ended::Throttled
            }
            Err(_) => Ended::Failed,
        });
        answer
    }
}

struct Counted<'a>(&'a Counters);

impl Drop for Counted<'_> {
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
        assert_eq!(policy.pause(&failed, 11, 1.0), Some(Duration::from_secs(20)));
        assert_eq!(policy.pause(&failed, 12, 1.0), None);
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
