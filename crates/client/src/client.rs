//! The client that makes all requests to a store.
//!
//! The client waits for the budget, retries by error class, hedges slow requests and stops on cancel.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::budget::Budget;
use crate::budget::{
    FlowId, InteractivePresence, MemoryPermit, PermitRequest, Priority, RequestOutcome, RequestPermit,
};
use futures::future::{Either, select};
use seqferry_store::crash_point::When;
use seqferry_store::prelude::*;
use seqferry_store::{Capabilities, Cause, ErrorClass, StoreError};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::field::Empty;
use tracing::{Span, debug, debug_span};

use crate::lease::{LeaseHolder, LeasedStore};
use crate::metrics::RequestMetrics;
use crate::quirks::{Endpoint, Quirks};
use crate::request::{RequestError, RequestSpec, RetryContext};
use crate::retry::{ATTEMPTS_BEFORE_LOOK, RetryPolicy, is_passing};

/// Interval between checks of a request that is not answered: it may have become slow, or a hedged request be allowed.
const HEDGE_LOOK: Duration = Duration::from_secs(1);

/// Makes requests to one store on behalf of one job.
#[derive(Debug, Clone)]
pub struct RetryingClient {
    connection: Endpoint,
    budget: Arc<Budget>,
    job: FlowId,
    priority: Priority,
    /// Keeps the reserves of the budget for interactive requests.
    presence: Option<Arc<InteractivePresence>>,
    prefix: Arc<str>,
    policy: RetryPolicy,
    cancel: CancellationToken,
    metrics: Arc<RequestMetrics>,
    lease: Option<WriteLease>,
    looks_before_writes: bool,
}

/// The lease that writes need, and the token that ends the wait for it.
#[derive(Debug, Clone)]
struct WriteLease {
    holder: Arc<LeaseHolder>,
    job: CancellationToken,
}

impl RetryingClient {
    /// Requests to one service, within `budget`, until `cancel`. The fair queue serves them beside those of others.
    pub fn new(
        connection: Endpoint,
        budget: Arc<Budget>,
        policy: RetryPolicy,
        cancel: CancellationToken,
        metrics: Arc<RequestMetrics>,
    ) -> Self {
        let job = budget.job();
        let policy = policy.with_attempts(connection.store.max_attempts());
        Self {
            connection,
            budget,
            job,
            priority: Priority::Bulk,
            presence: None,
            prefix: Arc::from(""),
            policy,
            cancel,
            metrics,
            lease: None,
            looks_before_writes: false,
        }
    }

    /// The same requests. Each attempt at a write with a condition looks at its target first, until
    /// [`Quirks::keeps_conditions`] says that the service keeps the condition.
    #[must_use]
    pub fn checking_before_writes(mut self) -> Self {
        self.looks_before_writes = true;
        self
    }

    /// True when attempts at writes with a condition look at their targets first.
    pub fn looks_before_writes(&self) -> bool {
        self.looks_before_writes
    }

    /// The same requests with interactive priority: they start before bulk requests, and the budget keeps space for
    /// them while this client or a clone of it exists. The store of its connection has the throttle of interactive
    /// requests (see [`ClientPool::interactive_client`](crate::ClientPool::interactive_client)).
    #[must_use]
    pub fn interactive(mut self) -> Self {
        self.priority = Priority::Interactive;
        self.presence = Some(Arc::new(self.budget.interactive()));
        self
    }

    /// The same requests; writes among them start only within the lease, and wait for it while the job continues.
    #[must_use]
    pub fn with_lease(mut self, holder: Arc<LeaseHolder>) -> Self {
        self.connection.store = Arc::new(LeasedStore::new(self.connection.store, Arc::clone(&holder)));
        self.lease = Some(WriteLease { holder, job: self.cancel.clone() });
        self
    }

    /// The same requests, known to go to keys below this prefix: services limit prefixes apart.
    #[must_use]
    pub fn within(mut self, prefix: &str) -> Self {
        self.prefix = Arc::from(prefix.rfind('/').map_or("", |last| &prefix[..=last]));
        self
    }

    /// The same requests, in the flow of this job.
    #[must_use]
    pub fn of(mut self, job: FlowId) -> Self {
        self.job = job;
        self
    }

    /// The same requests under a lease, as by [`RetryingClient::with_lease`]; without the lease writes fail
    /// immediately.
    #[must_use]
    pub fn with_lease_or_failure(self, holder: Arc<LeaseHolder>) -> Self {
        self.with_lease(holder).fail_at_lapse()
    }

    /// The same requests; writes among them fail when the lease has lapsed.
    #[must_use]
    pub fn fail_at_lapse(mut self) -> Self {
        if let Some(lease) = &mut self.lease {
            lease.job = CancellationToken::new();
            lease.job.cancel();
        }
        self
    }

    /// The same requests until this token is cancelled. A wait for the lease ends as before.
    #[must_use]
    pub fn until(mut self, cancel: CancellationToken) -> Self {
        self.cancel = cancel;
        self
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
    pub fn connection(&self) -> &Endpoint {
        &self.connection
    }

    /// Capabilities of the store.
    pub fn capabilities(&self) -> Capabilities {
        self.connection.store.capabilities()
    }

    /// Faults and limits learned of the service.
    pub fn quirks(&self) -> &Quirks {
        &self.connection.quirks
    }

    /// Say something about the service, once for the job.
    pub fn note(&self, text: String) {
        self.metrics.note(text);
    }

    /// Remember that ranges are ignored, and say so once.
    fn note_ignored_ranges(&self, error: &StoreError) {
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

    /// Wait until this many bytes may be buffered and pass through this process.
    pub async fn reserve_bytes(&self, bytes: u64) -> Result<Option<MemoryPermit>, RequestError> {
        self.reserve_passing(bytes, bytes).await
    }

    /// Wait until `bytes` may pass through this process, of which it holds no more than `held` at a time.
    pub async fn reserve_passing(&self, held: u64, bytes: u64) -> Result<Option<MemoryPermit>, RequestError> {
        let ready = async {
            let permit = Some(self.budget.memory(self.priority, held).await);
            self.budget.bandwidth(self.priority, bytes).await;
            permit
        };
        self.unless_cancelled(ready).await
    }

    /// Wait until `bytes` may pass through this process. Their memory is reserved elsewhere.
    pub async fn reserve_bandwidth(&self, bytes: u64) -> Result<(), RequestError> {
        self.unless_cancelled(self.budget.bandwidth(self.priority, bytes)).await
    }

    /// Wait until this many bytes may be buffered. Reserves no bandwidth.
    pub async fn reserve_memory(&self, bytes: u64) -> Result<Option<MemoryPermit>, RequestError> {
        self.unless_cancelled(async { Some(self.budget.memory(self.priority, bytes).await) }).await
    }

    async fn unless_cancelled<T>(&self, ready: impl Future<Output = T>) -> Result<T, RequestError> {
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => Err(RequestError::Cancelled),
            ready = ready => Ok(ready),
        }
    }

    /// Makes a request, and sends it again while the class of its error allows. `retry_context` counts the retries.
    pub async fn call<T, F, Fut>(
        &self,
        spec: RequestSpec<'_>,
        retry_context: &RetryContext,
        request: F,
    ) -> Result<T, RequestError>
    where
        F: Fn(Arc<dyn ObjectStore>) -> Fut,
        Fut: Future<Output = Result<T, StoreError>>,
    {
        let permit = self.reserve(spec, retry_context).await?;
        self.call_reserved(spec, permit, retry_context, request).await
    }

    /// Wait for the right to make this request. A caller with thousands to make holds no more than this while it waits.
    pub async fn reserve(
        &self,
        spec: RequestSpec<'_>,
        retry_context: &RetryContext,
    ) -> Result<RequestPermit, RequestError> {
        self.permit(spec, retry_context, false).await
    }

    async fn permit(
        &self,
        spec: RequestSpec<'_>,
        retry_context: &RetryContext,
        is_retry: bool,
    ) -> Result<RequestPermit, RequestError> {
        let wanted = PermitRequest {
            priority: self.priority,
            job: self.job,
            rank: retry_context.rank,
            bucket: spec.bucket,
            prefix: &self.prefix,
            access: spec.access,
            operation: spec.operation,
            bytes: spec.bytes,
            is_retry,
        };
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => Err(RequestError::Cancelled),
            permit = self.budget.request(wanted) => Ok(permit),
        }
    }

    /// Makes a request as [`RetryingClient::call`] does; the first attempt uses a permit that was reserved before.
    pub async fn call_reserved<T, F, Fut>(
        &self,
        spec: RequestSpec<'_>,
        permit: RequestPermit,
        retry_context: &RetryContext,
        request: F,
    ) -> Result<T, RequestError>
    where
        F: Fn(Arc<dyn ObjectStore>) -> Fut,
        Fut: Future<Output = Result<T, StoreError>>,
    {
        self.call_looking(spec, permit, retry_context, request, async || Ok(None)).await
    }

    /// Makes a write as [`RetryingClient::call_reserved`] does. After a few attempts that failed for passing reasons,
    /// and after the last, `look` tells whether one of them had its effect: a proxy may lose the answers of a service
    /// that has done its work. Its result is the result of the request, and its error ends the attempts.
    pub(crate) async fn call_looking<T, F, Fut, L, LookFut>(
        &self,
        spec: RequestSpec<'_>,
        mut permit: RequestPermit,
        retry_context: &RetryContext,
        request: F,
        look: L,
    ) -> Result<T, RequestError>
    where
        F: Fn(Arc<dyn ObjectStore>) -> Fut,
        Fut: Future<Output = Result<T, StoreError>>,
        L: Fn() -> LookFut,
        LookFut: Future<Output = Result<Option<T>, RequestError>>,
    {
        retry_context.start();
        let (mut attempt, mut has_looked) = (1, false);
        loop {
            // Not entered: nothing below has spans, and to wrap the future would cost its size in copies.
            let span = request_span(spec, attempt, &permit);
            spec.reach(When::Before);
            let error = tokio::select! {
                biased;
                () = self.cancel.cancelled() => return Err(RequestError::Cancelled),
                answer = self.once(spec, permit, &request) => match answer {
                    Ok(answer) => {
                        spec.reach(When::After);
                        span.record("outcome", "ok");
                        return Ok(answer);
                    }
                    Err(error) => error,
                },
            };
            record_failure(&span, &error);
            drop(span);
            if error.cause() == Cause::LeaseLapsed {
                // The service did not fail: this is not counted as one of its attempts.
                self.await_lease(error).await?;
                retry_context.count_retry();
                permit = self.reserve(spec, retry_context).await?;
                continue;
            }
            attempt += 1;
            let Some(pause) = self.policy.pause(&error, attempt, fastrand::f64()) else {
                if error.cause() == Cause::RangeIgnored {
                    self.note_ignored_ranges(&error);
                }
                // Boxed: it is rare, and the future of every request would have its size.
                let found = if is_passing(&error) { Box::pin(look()).await? } else { None };
                return found.ok_or(RequestError::Failed(error));
            };
            retry_context.count_retry();
            self.metrics.retries.fetch_add(1, Ordering::Relaxed);
            debug!(name: "retry", operation = spec.operation, attempt, code = error.code, pause_ms = milliseconds(pause));
            let again = async {
                if self.policy.renews_credentials(&error) {
                    self.connection.store.refresh_credentials().await?;
                }
                tokio::time::sleep(pause).await;
                Ok::<(), StoreError>(())
            };
            tokio::select! {
                biased;
                () = self.cancel.cancelled() => return Err(RequestError::Cancelled),
                ready = again => if ready.is_err() { return Err(RequestError::Failed(error)) },
            }
            if attempt > ATTEMPTS_BEFORE_LOOK && !has_looked && is_passing(&error) {
                has_looked = true;
                if let Some(found) = Box::pin(look()).await? {
                    return Ok(found);
                }
            }
            permit = self.permit(spec, retry_context, true).await?;
        }
    }

    /// Wait until writes may start again; the error when the job ends first.
    async fn await_lease(&self, error: StoreError) -> Result<(), RequestError> {
        let Some(lease) = &self.lease else { return Err(RequestError::Failed(error)) };
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => Err(RequestError::Cancelled),
            // The next owner cleans up after a stop.
            () = lease.job.cancelled() => Err(RequestError::Failed(error)),
            () = lease.holder.wait_until_regained() => Ok(()),
        }
    }

    /// One attempt: a request, and a hedged one beside it when that is allowed and the first is much slower than its
    /// peers. The first good answer counts; the other request is cancelled.
    async fn once<T, F, Fut>(&self, spec: RequestSpec<'_>, permit: RequestPermit, request: &F) -> Result<T, StoreError>
    where
        F: Fn(Arc<dyn ObjectStore>) -> Fut,
        Fut: Future<Output = Result<T, StoreError>>,
    {
        let mut first = pin!(request(Arc::clone(&self.connection.store)));
        let first_try = self.under_way(permit);
        let Some(may_be_hedged) = spec.hedge else { return first_try.note_answer(first.await) };
        let started = Instant::now();
        let mut patience = first_try.permit.slow_after().unwrap_or(HEDGE_LOOK);
        let second_try = loop {
            tokio::select! {
                biased;
                answer = &mut first => return first_try.note_answer(answer),
                () = tokio::time::sleep_until(started + patience) => {}
            }
            // The latency of its peers may have become known, or have changed, since it was sent.
            let slow = first_try.permit.slow_after();
            if slow.is_some_and(|slow| slow <= patience)
                && may_be_hedged()
                && let Some(permit) = first_try.permit.hedge()
            {
                debug!(name: "hedge", operation = spec.operation);
                break self.under_way(permit);
            }
            patience = slow.filter(|slow| *slow > patience).unwrap_or(patience + HEDGE_LOOK);
        };
        let second = pin!(request(Arc::clone(&self.connection.store)));
        // After an error of one, the other still counts.
        match select(first, second).await {
            Either::Left((Err(error), second)) => {
                let _slow = first_try.note_answer::<T>(Err(error));
                second_try.note_answer(second.await)
            }
            Either::Right((Err(error), first)) => {
                let _second = second_try.note_answer::<T>(Err(error));
                first_try.note_answer(first.await)
            }
            Either::Left((answer, _)) => first_try.note_answer(answer),
            Either::Right((answer, _)) => second_try.note_answer(answer),
        }
    }

    fn under_way(&self, permit: RequestPermit) -> InFlightRequest<'_> {
        self.metrics.requests.fetch_add(1, Ordering::Relaxed);
        self.metrics.in_flight.fetch_add(1, Ordering::Relaxed);
        InFlightRequest { permit, in_flight: InFlightGuard(&self.metrics) }
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn request_span(spec: RequestSpec<'_>, attempt: u32, permit: &RequestPermit) -> Span {
    debug_span!(
        "request",
        operation = spec.operation,
        bucket = spec.bucket,
        bytes = spec.bytes,
        attempt,
        waited_ms = milliseconds(permit.waited()),
        // As long as nothing else is known: the request was dropped.
        outcome = "abandoned",
        code = Empty,
    )
}

fn record_failure(span: &Span, error: &StoreError) {
    let outcome = if error.class == ErrorClass::Throttle { "throttled" } else { "failed" };
    span.record("outcome", outcome).record("code", error.code.as_str());
}

/// A request that was sent. Dropped without an answer, after a cancel or a faster hedged request, it reports nothing
/// about the service.
struct InFlightRequest<'a> {
    permit: RequestPermit,
    in_flight: InFlightGuard<'a>,
}

impl InFlightRequest<'_> {
    fn note_answer<T>(self, answer: Result<T, StoreError>) -> Result<T, StoreError> {
        self.permit.end(match &answer {
            Ok(_) => RequestOutcome::Worked,
            Err(error) if error.class == ErrorClass::Throttle => {
                self.in_flight.0.throttled.fetch_add(1, Ordering::Relaxed);
                RequestOutcome::Throttled
            }
            Err(_) => RequestOutcome::Failed,
        });
        answer
    }
}

/// Decrements the count of requests in flight when it is dropped.
struct InFlightGuard<'a>(&'a RequestMetrics);

impl Drop for InFlightGuard<'_> {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}
