//! What a process may use: requests in flight, bytes of buffers, bandwidth. One [`Budget`] per process; all jobs draw from it.
//!
//! **Requests.** A hard cap over everything, and below it gates: one for reads and one for writes of each prefix that is
//! worked on, since a service limits those apart. What a gate lets through is found by itself ([`control`]): how many
//! requests may be in flight, and, once the service has asked for fewer, how many may start per second. Jobs that wait at a
//! gate take turns, so that a small one does not wait for a big one. Within a job what began first goes first: its objects end
//! one after another, not all at the same time, and the last parts of one are under way beside the first of the next.
//! **Memory.** Whoever buffers object bytes reserves them first. **Bandwidth.** Whoever moves object bytes through this
//! process pays for them first; server-side copies move none.

mod bandwidth;
pub mod control;
mod gates;
pub mod latency;
mod pace;
mod streams;
mod turns;
mod window;

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::Instant;

pub use streams::StreamPermit;

use bandwidth::Bandwidth;
pub use bandwidth::Pace;
use gates::{Gates, Next, Waiter};
use latency::Kind;
use streams::Streams;

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

/// Requests in flight at most, unless told otherwise. S3 takes 3,500 writes per second and prefix, and a part copy of
/// 128 MiB takes about 2.4 s: 8,500 in flight, and some room. The gates find how many are of use below that.
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
    /// Requests that the service turned down for want of capacity.
    pub throttled: u64,
    /// Requests sent a second time because the first was slow.
    pub hedges: u64,
    /// The hard cap of requests in flight.
    pub max_requests: usize,
    /// Bytes per second; None without a limit.
    pub max_bandwidth: Option<u64>,
}

/// Services limit reads and writes apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    /// GET, HEAD, listings.
    Read,
    /// PUT, COPY, POST, DELETE.
    Write,
}

/// What one gate does just now.
#[derive(Debug, Clone, PartialEq)]
pub struct GateStats {
    /// Bucket.
    pub bucket: String,
    /// Keys that begin with this.
    pub prefix: String,
    /// Reads or writes.
    pub access: Access,
    /// Requests that have not ended.
    pub in_flight: usize,
    /// Requests that wait to begin.
    pub waiting: usize,
    /// Requests that may be in flight.
    pub window: usize,
    /// Requests that may begin per second; None as long as the service has never throttled.
    pub rate: Option<f64>,
    /// Requests begun.
    pub requests: u64,
    /// Those of them that the service turned down for want of capacity.
    pub throttled: u64,
}

/// Whoever takes turns with others at the gates: a job, a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct JobId(u64);

impl JobId {
    /// The same for all who give this name, and another for everybody else.
    pub fn named(name: &str) -> Self {
        // Two names of one hash would share their turns, no more.
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        Self(hasher.finish())
    }
}

/// What a request is, as far as it matters when it may begin.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// Whose it is.
    pub job: JobId,
    /// Of the requests of a job the lowest goes first: which object it is for, in the order in which they began.
    pub rank: u64,
    /// Bucket it goes to.
    pub bucket: &'a str,
    /// What the job works on there: the prefix it was told, empty for the whole bucket.
    pub prefix: &'a str,
    /// What it counts as.
    pub access: Access,
    /// Operation, by S3's name.
    pub operation: &'static str,
    /// Object bytes that it moves.
    pub bytes: u64,
}

/// How a request ended, for the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It did its work.
    Worked,
    /// The service asked for fewer requests.
    Throttled,
    /// It failed in a way that says nothing of capacity.
    Failed,
}

type Wake = oneshot::Sender<RequestPermit>;

/// See the module.
#[derive(Debug)]
pub struct Budget {
    start: Instant,
    requests: Mutex<Requests>,
    /// Tells the timer that something is due earlier than it thinks.
    earlier: Notify,
    jobs: AtomicU64,
    objects_begun: AtomicU64,
    /// In [`MEMORY_UNIT`]s.
    memory: Arc<Semaphore>,
    memory_units: u32,
    objects: Arc<Semaphore>,
    streams: Arc<Streams>,
    bandwidth: Bandwidth,
    pace: Pace,
}

#[derive(Debug)]
struct Requests {
    gates: Gates<Wake>,
    /// When the timer task will look again; None: there is no such task.
    timer: Option<Duration>,
    /// Where it can run.
    runtime: Option<Handle>,
}

/// Objects under way at a time. 1,536 small ones of 0.15 s each are 10,000 per second, more than a process can do; large ones
/// have many requests each. Without this bound a service that answers slowly would fill the memory with small requests.
const OBJECTS: usize = 1536;
/// Semaphores count in u32: 4 KiB units reach 16 TiB.
const MEMORY_UNIT: u64 = 4096;

/// The right to make one request; given back on drop (a dropped one counts as [`Ended::Failed`]).
#[derive(Debug)]
pub struct RequestPermit {
    budget: Arc<Budget>,
    gate: u64,
    kind: Kind,
    started: Duration,
    ended: Ended,
    /// False for one that could not be handed over and was taken back.
    held: bool,
}

impl RequestPermit {
    /// Say how the request ended, and give the permit back.
    pub fn end(mut self, ended: Ended) {
        self.ended = ended;
    }

    /// How long after its start this request is much slower than its peers. None: there are too few to tell.
    pub fn slow_after(&self) -> Option<Duration> {
        self.budget.lock().gates.slow_after(self.gate, self.kind)
    }

    /// The right to make the same request a second time beside this one, if there is room for that now: of few requests
    /// only, and never where the service has just throttled. Counts as any other request.
    pub fn hedge(&self) -> Option<Self> {
        let now = self.budget.now();
        let may = self.budget.lock().gates.hedge(now, self.gate);
        may.then(|| Self {
            budget: Arc::clone(&self.budget),
            gate: self.gate,
            kind: self.kind,
            started: now,
            ended: Ended::Failed,
            held: true,
        })
    }
}

impl Drop for RequestPermit {
    fn drop(&mut self) {
        if !self.held {
            return;
        }
        let now = self.budget.now();
        let mut requests = self.budget.lock();
        requests.gates.ended(now, self.gate, self.started, self.kind, self.ended);
        self.budget.start_waiting(&mut requests, now);
    }
}

/// Takes a place in a queue back when who waits there goes away.
struct Place<'a> {
    budget: &'a Budget,
    gate: u64,
    waits: bool,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if self.waits {
            self.budget.lock().gates.abandoned(self.gate);
        }
    }
}

/// Reserved buffer bytes; given back on drop.
#[derive(Debug)]
pub struct MemoryPermit {
    _permit: OwnedSemaphorePermit,
}

/// The right to have one object under way; given back on drop.
#[derive(Debug)]
pub struct ObjectPermit {
    _permit: OwnedSemaphorePermit,
}

impl Budget {
    /// A budget with these limits.
    pub fn new(limits: BudgetLimits) -> Arc<Self> {
        let memory_units = u32::try_from((limits.memory / MEMORY_UNIT).max(1)).unwrap_or(u32::MAX >> 3);
        let start = Instant::now();
        Arc::new(Self {
            start,
            requests: Mutex::new(Requests {
                gates: Gates::new(limits.max_requests, Wake::is_closed),
                timer: None,
                runtime: None,
            }),
            earlier: Notify::new(),
            jobs: AtomicU64::new(0),
            objects_begun: AtomicU64::new(0),
            memory: Arc::new(Semaphore::new(memory_units as usize)),
            memory_units,
            objects: Arc::new(Semaphore::new(OBJECTS)),
            streams: Arc::default(),
            bandwidth: Bandwidth::new(limits.max_bandwidth, start),
            pace: Pace::new(limits.max_bandwidth, start),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Requests> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// Somebody new who takes turns with all others.
    pub fn job(&self) -> JobId {
        JobId(self.jobs.fetch_add(1, Ordering::Relaxed))
    }

    /// The rank of an object that begins now.
    pub fn rank(&self) -> u64 {
        self.objects_begun.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Wait for the right to make one request. Must be called on a runtime.
    pub async fn request(self: &Arc<Self>, wanted: Wanted<'_>) -> RequestPermit {
        loop {
            let (wake, woken) = oneshot::channel();
            let gate = {
                let now = self.now();
                let mut requests = self.lock();
                if requests.runtime.is_none() {
                    requests.runtime = Handle::try_current().ok();
                }
                let gate = requests.gates.wait(now, wanted, wake);
                self.start_waiting(&mut requests, now);
                gate
            };
            // Declared before `woken` is moved into the await, so that the sender is closed when this is dropped.
            let mut place = Place { budget: self, gate, waits: true };
            let permit = woken.await;
            place.waits = false;
            // A sender goes away unused only with its gate, which does not happen while somebody waits there.
            if let Ok(permit) = permit {
                return permit;
            }
        }
    }

    /// Let start whoever may, and have the timer look again when the next one may.
    fn start_waiting(self: &Arc<Self>, requests: &mut Requests, now: Duration) {
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

    /// Let start whoever may. Returns when the next one may, if that is only a matter of time.
    fn start_due(self: &Arc<Self>, requests: &mut Requests, now: Duration) -> Option<Duration> {
        loop {
            match requests.gates.next(now) {
                Next::Wait => return None,
                Next::At(due) => return Some(due),
                Next::Start(gate, Waiter { wake, kind }) => {
                    let permit = RequestPermit {
                        budget: Arc::clone(self),
                        gate,
                        kind,
                        started: now,
                        ended: Ended::Failed,
                        held: true,
                    };
                    if let Err(mut permit) = wake.send(permit) {
                        // Who waited has gone. Dropping it as it is would take the lock again.
                        permit.held = false;
                        requests.gates.ended(now, gate, now, kind, Ended::Failed);
                    }
                }
            }
        }
    }

    /// Wait until one more object of this job may be streamed in parts.
    pub async fn stream(&self, job: JobId) -> StreamPermit {
        self.streams.turn(job).await
    }

    /// Wait until one more object may be under way. Those who wait are served in the order in which they came.
    pub async fn object(&self) -> Option<ObjectPermit> {
        Arc::clone(&self.objects).acquire_owned().await.ok().map(|permit| ObjectPermit { _permit: permit })
    }

    /// Wait until so many bytes may be buffered. More than the whole budget waits for the whole budget.
    pub async fn memory(&self, bytes: u64) -> Option<MemoryPermit> {
        let units = u32::try_from(bytes.div_ceil(MEMORY_UNIT)).unwrap_or(u32::MAX).clamp(1, self.memory_units);
        Arc::clone(&self.memory).acquire_many_owned(units).await.ok().map(|permit| MemoryPermit { _permit: permit })
    }

    /// Wait until so many bytes may pass through this process. A limit that changes meanwhile holds for those who wait as well.
    pub async fn bandwidth(&self, bytes: u64) {
        self.bandwidth.pass(bytes).await;
    }

    /// The same limit for bytes that pass over a connection.
    pub fn pace(&self) -> Pace {
        self.pace.clone()
    }

    /// Change the hard limits while requests are in flight. None keeps a limit.
    pub fn retune(self: &Arc<Self>, max_requests: Option<usize>, max_bandwidth: Option<Option<u64>>) {
        if let Some(most) = max_requests {
            let now = self.now();
            let mut requests = self.lock();
            requests.gates.limit(most);
            self.start_waiting(&mut requests, now);
        }
        if let Some(per_second) = max_bandwidth {
            self.bandwidth.limit(per_second);
            self.pace.limit(per_second);
        }
    }

    /// Counters.
    pub fn stats(&self) -> BudgetStats {
        let requests = self.lock();
        let gates = &requests.gates;
        BudgetStats {
            requests: gates.requests,
            in_flight: gates.in_flight,
            throttled: gates.throttled,
            hedges: gates.hedges,
            max_requests: gates.most,
            max_bandwidth: self.bandwidth.rate(),
        }
    }

    /// What each gate does just now. Gates that were not used for long are forgotten.
    pub fn gates(&self) -> Vec<GateStats> {
        self.lock().gates.stats()
    }

    /// Bytes of buffers at most.
    pub fn memory_limit(&self) -> u64 {
        u64::from(self.memory_units) * MEMORY_UNIT
    }

    /// Buffer bytes that are reserved now.
    pub fn memory_reserved(&self) -> u64 {
        (self.memory_units as usize - self.memory.available_permits()) as u64 * MEMORY_UNIT
    }
}

/// Starts requests that wait for nothing but the time. Ends when there are none.
async fn timer(budget: Weak<Budget>) {
    /// Also when the task is thrown away with its runtime.
    struct Ends(Weak<Budget>);
    impl Drop for Ends {
        fn drop(&mut self) {
            if let Some(budget) = self.0.upgrade() {
                budget.lock().timer = None;
            }
        }
    }
    let mut ends = Ends(Weak::clone(&budget));
    loop {
        // Held while sleeping: who waits for the timer holds the budget as well.
        let Some(budget) = budget.upgrade() else { return };
        let due = {
            let now = budget.now();
            let mut requests = budget.lock();
            let due = budget.start_due(&mut requests, now);
            requests.timer = due;
            due
        };
        let Some(due) = due else {
            // Said already, and another timer may have begun since.
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
mod tests {
    use super::*;

    fn budget(max_requests: usize) -> Arc<Budget> {
        Budget::new(BudgetLimits { max_requests, memory: 1 << 20, max_bandwidth: None })
    }

    fn wanted(job: JobId, bucket: &str) -> Wanted<'_> {
        Wanted { job, rank: 0, bucket, prefix: "", access: Access::Write, operation: "PutObject", bytes: 0 }
    }

    async fn one(budget: &Arc<Budget>, bucket: &str) -> RequestPermit {
        budget.request(wanted(budget.job(), bucket)).await
    }

    /// Whether a request has to wait.
    async fn waits(budget: &Arc<Budget>, bucket: &str) -> bool {
        tokio::time::timeout(Duration::from_millis(20), one(budget, bucket)).await.is_err()
    }

    #[tokio::test(start_paused = true)]
    async fn never_more_requests_than_the_cap() {
        let budget = budget(2);
        let first = one(&budget, "a").await;
        let _second = one(&budget, "b").await;

        assert!(waits(&budget, "c").await);
        first.end(Ended::Worked);
        let _third = one(&budget, "c").await;

        assert_eq!(budget.stats().in_flight, 2);
        assert_eq!(budget.stats().requests, 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_cut_takes_effect_as_permits_come_back_and_nothing_leaks() {
        let budget = budget(4);
        let held = [one(&budget, "a").await, one(&budget, "a").await, one(&budget, "a").await];

        budget.retune(Some(1), None);
        assert!(waits(&budget, "a").await);
        drop(held);

        let _one = one(&budget, "a").await;
        assert!(waits(&budget, "a").await);
        budget.retune(Some(2), None);
        let _two = one(&budget, "a").await;
        assert!(waits(&budget, "a").await);
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_is_woken_by_a_wider_cap() {
        let budget = budget(1);
        let _held = one(&budget, "a").await;
        let waiting = tokio::spawn({
            let budget = Arc::clone(&budget);
            async move { drop(one(&budget, "a").await) }
        });
        tokio::task::yield_now().await;

        budget.retune(Some(2), None);

        assert!(waiting.await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_small_job_does_not_wait_for_all_of_a_big_one() {
        let budget = budget(1);
        let held = one(&budget, "a").await;
        let order = Arc::new(Mutex::new(Vec::new()));
        let wait = |job: JobId, name: &'static str| {
            let (budget, order) = (Arc::clone(&budget), Arc::clone(&order));
            tokio::spawn(async move {
                let permit = budget.request(wanted(job, "a")).await;
                order.lock().unwrap_or_else(PoisonError::into_inner).push(name);
                permit.end(Ended::Worked);
            })
        };
        let (big, small) = (budget.job(), budget.job());
        let mut waiting: Vec<_> = (0..1000).map(|_| wait(big, "big")).collect();
        waiting.extend([wait(small, "small"), wait(small, "small")]);
        while budget.gates()[0].waiting < waiting.len() {
            tokio::task::yield_now().await;
        }

        drop(held);
        for waiter in waiting {
            waiter.await.unwrap_or_else(|error| panic!("{error}"));
        }

        let order = order.lock().unwrap_or_else(PoisonError::into_inner);
        assert_eq!(order[..5], ["big", "small", "big", "small", "big"]);
    }

    #[tokio::test(start_paused = true)]
    async fn those_who_give_up_leave_nothing_behind() {
        let budget = budget(1);
        let held = one(&budget, "a").await;
        let job = budget.job();

        for _ in 0..1000 {
            let gave_up = tokio::time::timeout(Duration::from_millis(1), budget.request(wanted(job, "a"))).await;
            assert!(gave_up.is_err());
        }

        assert!(budget.gates()[0].waiting <= 2, "{:?}", budget.gates());
        drop(held);
        assert_eq!(budget.stats().in_flight, 0);
        drop(one(&budget, "a").await);
        assert_eq!(budget.stats().in_flight, 0);
        assert_eq!(budget.stats().requests, 2);
    }

    #[tokio::test(start_paused = true)]
    async fn reads_and_writes_and_prefixes_have_gates_of_their_own() {
        let budget = budget(100);
        let job = budget.job();
        for (prefix, access) in
            [("a/", Access::Read), ("a/", Access::Write), ("b/", Access::Read), ("a/", Access::Read)]
        {
            budget.request(Wanted { prefix, access, ..wanted(job, "bucket") }).await.end(Ended::Worked);
        }

        assert_eq!(budget.gates().len(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn gates_that_are_not_used_are_forgotten() {
        let budget = budget(100);
        let kept = one(&budget, "kept").await;

        for n in 0..1000 {
            drop(one(&budget, &format!("bucket-{n}")).await);
        }

        assert!(budget.gates().len() <= 64);
        assert!(budget.gates().iter().any(|gate| gate.bucket == "kept" && gate.in_flight == 1));
        drop(kept);
        assert_eq!(budget.stats().in_flight, 0);
    }

    #[tokio::test]
    async fn memory_is_given_back_and_more_than_all_waits_for_all() {
        let budget = budget(1);
        let huge = budget.memory(u64::MAX).await;
        assert_eq!(budget.memory_reserved(), 1 << 20);

        assert!(tokio::time::timeout(Duration::from_millis(20), budget.memory(1)).await.is_err());
        drop(huge);

        assert_eq!(budget.memory_reserved(), 0);
        assert!(budget.memory(1).await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn bandwidth_is_paid_for_in_advance() {
        let budget = Budget::new(BudgetLimits { max_bandwidth: Some(1000), ..BudgetLimits::default() });
        let start = Instant::now();

        budget.bandwidth(1000).await;
        assert_eq!(start.elapsed(), Duration::ZERO);
        budget.bandwidth(1).await;

        assert_eq!(start.elapsed(), Duration::from_secs(1));
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_for_a_slow_limit_is_woken_when_it_is_lifted() {
        let budget = Budget::new(BudgetLimits { max_bandwidth: Some(1), ..BudgetLimits::default() });
        let start = Instant::now();
        budget.bandwidth(1 << 30).await;
        let waiting = tokio::spawn({
            let budget = Arc::clone(&budget);
            async move { budget.bandwidth(1 << 30).await }
        });
        tokio::time::sleep(Duration::from_secs(5)).await;

        budget.retune(None, Some(None));

        assert!(waiting.await.is_ok());
        assert_eq!(start.elapsed(), Duration::from_secs(5));
        assert_eq!(budget.stats().max_bandwidth, None);
    }

    #[tokio::test(start_paused = true)]
    async fn throttled_requests_are_counted() {
        let budget = budget(8);

        one(&budget, "a").await.end(Ended::Throttled);
        drop(one(&budget, "a").await);

        assert_eq!(budget.stats().throttled, 1);
        assert_eq!(budget.stats().in_flight, 0);
    }
}
