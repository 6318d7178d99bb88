//! The budget of a process: requests in flight, bytes of buffers, bandwidth. All work draws from one [`Budget`].
//!
//! **Requests.** A hard cap holds for the process. Below it, each prefix in use has one prefix limiter for reads and
//! one for writes, since a service limits those separately. A limiter finds by itself how many requests may be in
//! flight (`congestion_window`) and, once the service has throttled, how many may start per second (`request_rate`).
//! Flows that wait at a limiter are served in turn (`fair_queue`), so that a small one does not wait for a big one.
//! Within a flow the lowest rank goes first. The user can also limit the requests started per second
//! ([`Budget::limit_starts`]).
//!
//! **Memory.** Object bytes are reserved before they are buffered (`memory`).
//!
//! **Bandwidth.** Object bytes that pass through this process pass at the rate of one [`ByteThrottle`]; server-side
//! copies move none.
//!
//! **Priorities.** Interactive work goes before bulk work at each of the three, and bulk work keeps a quarter
//! ([`Priority`]). While an [`InteractivePresence`] exists, bulk work also leaves a reserve of requests and memory
//! alone.

mod congestion_window;
mod fair_queue;
mod latency;
mod limiter_control;
mod limiters;
mod memory;
mod permit;
mod priority_shares;
mod request_rate;
mod spacing;
pub mod stats;

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

pub use fair_queue::FairQueue;
pub use memory::MemoryPermit;
pub use permit::RequestPermit;
pub use seqferry_store::ByteThrottle;
pub use seqferry_store::Priority;

use limiters::{LimiterStep, PrefixLimiters};
use memory::MemoryPool;
use seqferry_store::priority::PriorityMap;
use stats::{LatencyHistogram, PrefixClassStats, SharedWaits};

/// The hard limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetLimits {
    /// Requests in flight.
    pub max_requests: usize,
    /// Bytes of buffers.
    pub memory: u64,
    /// Bytes per second through this process; None for no limit.
    pub max_bandwidth: Option<u64>,
}

/// Default cap of the requests in flight. S3 takes 3,500 writes per second and prefix, and a part copy of 128 MiB takes
/// about 2.4 s: 8,500 in flight, and some room. The limiters find how many are useful below that.
pub const MAX_REQUESTS: usize = 10_000;

impl Default for BudgetLimits {
    fn default() -> Self {
        Self { max_requests: MAX_REQUESTS, memory: 256 << 20, max_bandwidth: None }
    }
}

/// Counters of a budget, for progress and metrics.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BudgetStats {
    /// Requests begun.
    pub requests: u64,
    /// Requests that have not ended.
    pub in_flight: usize,
    /// Requests that the service refused for lack of capacity.
    pub throttled: u64,
    /// Requests sent a second time because the first was slow.
    pub hedges: u64,
    /// Requests sent again after a failure.
    pub retries: u64,
    /// Object bytes that requests which did their work moved, within the service or through this process.
    pub bytes: u64,
    /// Sum of the times that requests waited for the right to begin.
    pub waited: Duration,
    /// Sum of the times that requests were in flight. Its growth per second is the mean number in flight.
    pub busy: Duration,
    /// The hard cap of requests in flight.
    pub max_requests: usize,
    /// Bytes per second; None without a limit.
    pub max_bandwidth: Option<u64>,
}

/// Class of access: services limit reads and writes separately.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AccessKind {
    /// GET, HEAD, listings.
    Read,
    /// PUT, COPY, POST, DELETE.
    Write,
}

/// A flow of the fair queues: a job, a listing. Flows are served in turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FlowId(u64);

impl FlowId {
    /// One flow for all jobs that give this name.
    pub fn named(name: &str) -> Self {
        // Two names of one hash would share one flow.
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        Self(hasher.finish())
    }
}

/// Description of a request, with the facts that decide when it may start.
#[derive(Debug, Clone, Copy)]
pub struct PermitRequest<'a> {
    /// Interactive when a program waits for the reply, else bulk.
    pub priority: Priority,
    /// The flow it belongs to.
    pub job: FlowId,
    /// Rank within the flow, the lowest first: the number of the request's object, in the order in which objects began.
    pub rank: u64,
    /// Bucket it goes to.
    pub bucket: &'a str,
    /// Prefix of the job, as given to it; empty for the whole bucket.
    pub prefix: &'a str,
    /// Limit that it counts against: reads or writes.
    pub access: AccessKind,
    /// Operation, by its S3 name.
    pub operation: &'static str,
    /// Object bytes that it moves.
    pub bytes: u64,
    /// True for a request that is sent again after a failure.
    pub is_retry: bool,
}

/// Outcome of a request, for its limiter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestOutcome {
    /// The request succeeded.
    Worked,
    /// The service throttled.
    Throttled,
    /// The request failed for a reason that does not concern capacity.
    Failed,
    /// The request was cancelled before its answer.
    Abandoned,
}

/// Gives a waiter its permit.
type PermitSender = oneshot::Sender<RequestPermit>;

/// See the module.
#[derive(Debug)]
pub struct Budget {
    start: Instant,
    requests: Mutex<RequestLimits>,
    /// Wakes the timer when a request is due earlier than it knows.
    earlier: Notify,
    jobs: AtomicU64,
    memory: Arc<MemoryPool>,
    interactive: AtomicUsize,
    throttle: ByteThrottle,
    bandwidth_waits: Mutex<PriorityMap<LatencyHistogram>>,
}

#[derive(Debug)]
struct RequestLimits {
    limiters: PrefixLimiters<PermitSender>,
    /// Time at which the timer task wakes next; None: there is no such task.
    timer: Option<Duration>,
    /// Runtime for the timer task.
    runtime: Option<Handle>,
}

/// Removes a waiter from its queue when it is dropped.
struct WaiterGuard<'a> {
    budget: &'a Budget,
    limiter: u64,
    waits: bool,
}

impl Drop for WaiterGuard<'_> {
    fn drop(&mut self) {
        if self.waits {
            self.budget.lock().limiters.abandon(self.limiter);
        }
    }
}

/// Presence of interactive work: while one of these exists, bulk work leaves a reserve alone. A component that serves
/// reads holds one for as long as it is open.
#[derive(Debug)]
pub struct InteractivePresence {
    budget: Arc<Budget>,
}

impl Drop for InteractivePresence {
    fn drop(&mut self) {
        if self.budget.interactive.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.budget.apply_presence();
        }
    }
}

impl Budget {
    /// A budget with these limits.
    pub fn new(limits: BudgetLimits) -> Arc<Self> {
        let start = Instant::now();
        Arc::new(Self {
            start,
            requests: Mutex::new(RequestLimits {
                limiters: PrefixLimiters::new(limits.max_requests, PermitSender::is_closed),
                timer: None,
                runtime: None,
            }),
            earlier: Notify::new(),
            jobs: AtomicU64::new(0),
            memory: MemoryPool::new(limits.memory),
            interactive: AtomicUsize::new(0),
            throttle: ByteThrottle::new(limits.max_bandwidth, start),
            bandwidth_waits: Mutex::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, RequestLimits> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// Announces interactive work until the returned value is dropped.
    pub fn interactive(self: &Arc<Self>) -> InteractivePresence {
        let presence = InteractivePresence { budget: Arc::clone(self) };
        if self.interactive.fetch_add(1, Ordering::SeqCst) == 0 {
            self.apply_presence();
        }
        presence
    }

    /// Turns the reserves on or off, depending on the presence of interactive work.
    fn apply_presence(self: &Arc<Self>) {
        let now = self.now();
        let mut requests = self.lock();
        // Read under the lock, so that the last change is the one that stays.
        let present = self.interactive.load(Ordering::SeqCst) > 0;
        requests.limiters.set_interactive_present(present);
        self.memory.set_interactive_present(present);
        self.start_waiting(&mut requests, now);
    }

    /// A new flow.
    pub fn job(&self) -> FlowId {
        FlowId(self.jobs.fetch_add(1, Ordering::Relaxed))
    }

    /// Wait for the right to make one request. Must be called on a runtime.
    pub async fn request(self: &Arc<Self>, wanted: PermitRequest<'_>) -> RequestPermit {
        loop {
            let (wake, woken) = oneshot::channel();
            let limiter = {
                let now = self.now();
                let mut requests = self.lock();
                if requests.runtime.is_none() {
                    requests.runtime = Handle::try_current().ok();
                }
                let limiter = requests.limiters.wait(now, wanted, wake);
                self.start_waiting(&mut requests, now);
                limiter
            };
            // Declared before `woken` is moved into the await, so that the sender is closed when this is dropped.
            let mut place = WaiterGuard { budget: self, limiter, waits: true };
            let permit = woken.await;
            place.waits = false;
            // A sender leaves its queue unused only when its receiver is gone.
            if let Ok(permit) = permit {
                return permit;
            }
        }
    }

    /// Start every waiter that the limits allow now, and have the timer look again when the next one is due.
    fn start_waiting(self: &Arc<Self>, requests: &mut RequestLimits, now: Duration) {
        let due = self.start_due(requests, now);
        let Some(due) = due else { return };
        match requests.timer {
            Some(timer) if timer <= due => {}
            Some(_) => {
                requests.timer = Some(due);
                self.earlier.notify_one();
            }
            None => {
                if let Some(runtime) = Handle::try_current().ok().or_else(|| requests.runtime.clone()) {
                    requests.timer = Some(due);
                    runtime.spawn(timer(Arc::downgrade(self)));
                }
            }
        }
    }

    /// Start every waiter that the limits allow now. Returns when the next one is due, if it waits for the time alone.
    fn start_due(self: &Arc<Self>, requests: &mut RequestLimits, now: Duration) -> Option<Duration> {
        loop {
            match requests.limiters.next(now) {
                LimiterStep::Wait => return None,
                LimiterStep::At(due) => return Some(due),
                LimiterStep::Start(wake, request) => {
                    let permit = RequestPermit::new(Arc::clone(self), request);
                    if let Err(permit) = wake.send(permit) {
                        // The waiter is gone. A drop of the permit as it is would take the lock again.
                        permit.take_back();
                        requests.limiters.note_end(now, request, RequestOutcome::Abandoned);
                    }
                }
            }
        }
    }

    /// Wait until `bytes` may be buffered. A request above the priority's maximum waits for that maximum.
    pub async fn memory(&self, priority: Priority, bytes: u64) -> MemoryPermit {
        self.memory.reserve(priority, bytes).await
    }

    /// Wait until a request that moves `bytes` through this process may begin. A change of the limit also applies to
    /// waiting requests.
    pub async fn bandwidth(&self, priority: Priority, bytes: u64) {
        let begun = Instant::now();
        self.throttle.with_priority(priority).admit(bytes).await;
        let waited = begun.elapsed();
        self.bandwidth_waits.lock().unwrap_or_else(PoisonError::into_inner)[priority].count(waited);
    }

    /// The same limit for bytes that pass over the connections of a store.
    pub fn throttle(&self, priority: Priority) -> ByteThrottle {
        self.throttle.with_priority(priority)
    }

    /// Change the hard limits while requests are in flight. None keeps a limit.
    pub fn retune(self: &Arc<Self>, max_requests: Option<usize>, max_bandwidth: Option<Option<u64>>) {
        if let Some(most) = max_requests {
            let now = self.now();
            let mut requests = self.lock();
            requests.limiters.limit(most);
            self.start_waiting(&mut requests, now);
        }
        if let Some(per_second) = max_bandwidth {
            self.throttle.set_rate(per_second);
        }
    }

    /// Limit the requests that start per second over all prefixes, including hedges and retries. None lifts the limit.
    pub fn limit_starts(self: &Arc<Self>, per_second: Option<u32>) {
        let now = self.now();
        let mut requests = self.lock();
        requests.limiters.limit_starts(now, per_second);
        self.start_waiting(&mut requests, now);
    }

    /// Counters.
    pub fn stats(&self) -> BudgetStats {
        let requests = self.lock();
        let limiters = &requests.limiters;
        BudgetStats {
            requests: limiters.requests,
            in_flight: usize::try_from(limiters.in_flight()).unwrap_or(usize::MAX),
            throttled: limiters.throttled,
            hedges: limiters.hedges,
            retries: limiters.retries,
            bytes: limiters.bytes,
            waited: limiters.waited,
            busy: limiters.busy,
            max_requests: limiters.most,
            max_bandwidth: self.throttle.rate(),
        }
    }

    /// Counts of each prefix class since this budget was made. The number of classes is bounded (see [`stats`]).
    pub fn classes(&self) -> Vec<PrefixClassStats> {
        self.lock().limiters.classes()
    }

    /// Waits of a priority's work for memory and for bandwidth.
    pub fn shared_waits(&self, priority: Priority) -> SharedWaits {
        let bandwidth = self.bandwidth_waits.lock().unwrap_or_else(PoisonError::into_inner)[priority];
        SharedWaits { memory: self.memory.waits(priority), bandwidth }
    }

    /// Largest number of buffer bytes.
    pub fn memory_limit(&self) -> u64 {
        self.memory.total()
    }

    /// Buffer bytes that are reserved now.
    pub fn memory_reserved(&self) -> u64 {
        self.memory.reserved()
    }
}

/// Starts requests that wait for time alone. Ends when there are none.
async fn timer(budget: Weak<Budget>) {
    /// Marks the timer as ended on drop, also when the task is dropped with its runtime.
    struct TimerGuard(Weak<Budget>);
    impl Drop for TimerGuard {
        fn drop(&mut self) {
            if let Some(budget) = self.0.upgrade() {
                budget.lock().timer = None;
            }
        }
    }
    let mut ends = TimerGuard(Weak::clone(&budget));
    loop {
        // Held while sleeping: a request that waits for the timer holds the budget as well.
        let Some(budget) = budget.upgrade() else { return };
        let due = {
            let now = budget.now();
            let mut requests = budget.lock();
            let due = budget.start_due(&mut requests, now);
            requests.timer = due;
            due
        };
        let Some(due) = due else {
            // The end is recorded already, and another timer may have begun since.
            ends.0 = Weak::new();
            return;
        };
        tokio::select! {
            () = tokio::time::sleep_until(budget.start + due) => {}
            () = budget.earlier.notified() => {}
        }
    }
}

#[cfg(test)]
mod tests;
