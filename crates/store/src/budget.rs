//! What a process may use: requests in flight, bytes of buffers, bandwidth. One [`Budget`] per process; all jobs draw from it.
//!
//! **Requests.** A hard cap over everything, and below it one gate per bucket whose width is found by itself: it starts
//! modest, widens while that brings more work done per second, is cut when the service says slow down, and recovers slowly.
//! The law is in [`control`]; it is plain arithmetic over given times, so that it is tested without a clock.
//! **Memory.** Whoever buffers object bytes reserves them first. **Bandwidth.** Whoever moves object bytes through this
//! process pays for them first; server-side copies move none.

pub mod control;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use control::Control;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

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

impl Default for BudgetLimits {
    fn default() -> Self {
        // 512 requests of 128 MiB parts at 78 MiB/s each are far beyond what one prefix takes.
        Self { max_requests: 512, memory: 256 << 20, max_bandwidth: None }
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
    /// The hard cap of requests in flight.
    pub max_requests: usize,
}

/// See the module.
#[derive(Debug)]
pub struct Budget {
    all: Arc<Width>,
    gates: Mutex<HashMap<String, Arc<Gate>>>,
    /// In [`MEMORY_UNIT`]s.
    memory: Arc<Semaphore>,
    memory_units: u32,
    bandwidth: Mutex<Bandwidth>,
    requests: AtomicU64,
    in_flight: AtomicUsize,
    throttled: AtomicU64,
}

/// Semaphores count in u32: 4 KiB units reach 16 TiB.
const MEMORY_UNIT: u64 = 4096;

/// A semaphore whose width can change: a cut takes effect as permits come back.
#[derive(Debug)]
struct Width {
    permits: Arc<Semaphore>,
    /// Width now, and permits to swallow on their return.
    state: Mutex<(usize, usize)>,
}

impl Width {
    fn new(width: usize) -> Self {
        Self { permits: Arc::new(Semaphore::new(width)), state: Mutex::new((width, 0)) }
    }

    fn get(&self) -> usize {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).0
    }

    fn set(&self, width: usize) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (old, owed) = *state;
        let owed = if width >= old {
            let more = width - old;
            let forgiven = more.min(owed);
            self.permits.add_permits(more - forgiven);
            owed - forgiven
        } else {
            let less = old - width;
            owed + less - self.permits.forget_permits(less)
        };
        *state = (width, owed);
    }

    fn give_back(&self, permit: OwnedSemaphorePermit) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.1 > 0 {
            state.1 -= 1;
            permit.forget();
        }
    }
}

#[derive(Debug)]
struct Gate {
    width: Width,
    control: Mutex<Control>,
}

#[derive(Debug)]
struct Bandwidth {
    per_second: Option<u64>,
    /// When what was paid for so far has gone out.
    paid_until: Instant,
}

/// How a request ended, for the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It did so many bytes of work.
    Worked(u64),
    /// The service asked for fewer requests.
    Throttled,
    /// It failed in a way that says nothing of capacity.
    Failed,
}

/// The right to make one request; given back on drop (a dropped one counts as [`Ended::Failed`]).
#[derive(Debug)]
pub struct RequestPermit {
    budget: Arc<Budget>,
    gate: Arc<Gate>,
    permits: Option<(OwnedSemaphorePermit, OwnedSemaphorePermit)>,
    ended: Ended,
}

impl RequestPermit {
    /// Say how the request ended, and give the permit back.
    pub fn end(mut self, ended: Ended) {
        self.ended = ended;
    }
}

impl Drop for RequestPermit {
    fn drop(&mut self) {
        self.budget.in_flight.fetch_sub(1, Ordering::Relaxed);
        if self.ended == Ended::Throttled {
            self.budget.throttled.fetch_add(1, Ordering::Relaxed);
        }
        let width = self.gate.control.lock().unwrap_or_else(PoisonError::into_inner).ended(Instant::now(), self.ended);
        if let Some(width) = width {
            self.gate.width.set(width);
        }
        if let Some((gate, all)) = self.permits.take() {
            self.gate.width.give_back(gate);
            self.budget.all.give_back(all);
        }
    }
}

/// Reserved buffer bytes; given back on drop.
#[derive(Debug)]
pub struct MemoryPermit {
    _permit: OwnedSemaphorePermit,
}

impl Budget {
    /// A budget with these limits.
    pub fn new(limits: BudgetLimits) -> Arc<Self> {
        let memory_units = u32::try_from((limits.memory / MEMORY_UNIT).max(1)).unwrap_or(u32::MAX >> 3);
        Arc::new(Self {
            all: Arc::new(Width::new(limits.max_requests.max(1))),
            gates: Mutex::new(HashMap::new()),
            memory: Arc::new(Semaphore::new(memory_units as usize)),
            memory_units,
            bandwidth: Mutex::new(Bandwidth { per_second: limits.max_bandwidth, paid_until: Instant::now() }),
            requests: AtomicU64::new(0),
            in_flight: AtomicUsize::new(0),
            throttled: AtomicU64::new(0),
        })
    }

    fn gate(&self, bucket: &str) -> Arc<Gate> {
        let mut gates = self.gates.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(gate) = gates.get(bucket) {
            return Arc::clone(gate);
        }
        let control = Control::new(Instant::now(), self.all.get());
        let gate = Arc::new(Gate { width: Width::new(control.width()), control: Mutex::new(control) });
        gates.insert(bucket.to_owned(), Arc::clone(&gate));
        gate
    }

    /// Wait for the right to make one request to a bucket.
    pub async fn request(self: &Arc<Self>, bucket: &str) -> RequestPermit {
        let gate = self.gate(bucket);
        let first = Arc::clone(&gate.width.permits).acquire_owned().await;
        let second = Arc::clone(&self.all.permits).acquire_owned().await;
        // Neither semaphore is ever closed.
        let permits = first.ok().zip(second.ok());
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        RequestPermit { budget: Arc::clone(self), gate, permits, ended: Ended::Failed }
    }

    /// Wait until so many bytes may be buffered. More than the whole budget waits for the whole budget.
    pub async fn memory(&self, bytes: u64) -> Option<MemoryPermit> {
        let units = u32::try_from(bytes.div_ceil(MEMORY_UNIT)).unwrap_or(u32::MAX).clamp(1, self.memory_units);
        Arc::clone(&self.memory).acquire_many_owned(units).await.ok().map(|permit| MemoryPermit { _permit: permit })
    }

    /// Wait until so many bytes may pass through this process.
    pub async fn bandwidth(&self, bytes: u64) {
        let wait = {
            let mut bandwidth = self.bandwidth.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(per_second) = bandwidth.per_second.filter(|rate| *rate > 0) else { return };
            let now = Instant::now();
            let start = bandwidth.paid_until.max(now);
            bandwidth.paid_until = start + Duration::from_secs_f64(bytes as f64 / per_second as f64);
            start - now
        };
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
    }

    /// Change the hard limits while requests are in flight. None keeps a limit.
    pub fn retune(&self, max_requests: Option<usize>, max_bandwidth: Option<Option<u64>>) {
        if let Some(most) = max_requests.map(|n| n.max(1)) {
            self.all.set(most);
            let gates = self.gates.lock().unwrap_or_else(PoisonError::into_inner);
            for gate in gates.values() {
                let width = gate.control.lock().unwrap_or_else(PoisonError::into_inner).limit(most);
                gate.width.set(width);
            }
        }
        if let Some(per_second) = max_bandwidth {
            self.bandwidth.lock().unwrap_or_else(PoisonError::into_inner).per_second = per_second;
        }
    }

    /// Counters.
    pub fn stats(&self) -> BudgetStats {
        BudgetStats {
            requests: self.requests.load(Ordering::Relaxed),
            in_flight: self.in_flight.load(Ordering::Relaxed),
            throttled: self.throttled.load(Ordering::Relaxed),
            max_requests: self.all.get(),
        }
    }

    /// Buffer bytes that are reserved now.
    pub fn memory_reserved(&self) -> u64 {
        (self.memory_units as usize - self.memory.available_permits()) as u64 * MEMORY_UNIT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(max_requests: usize) -> Arc<Budget> {
        Budget::new(BudgetLimits { max_requests, memory: 1 << 20, max_bandwidth: None })
    }

    #[tokio::test]
    async fn never_more_requests_than_the_cap() {
        let budget = budget(2);
        let first = budget.request("a").await;
        let _second = budget.request("b").await;

        let third = tokio::time::timeout(Duration::from_millis(20), budget.request("c")).await;
        assert!(third.is_err());
        first.end(Ended::Worked(1));
        let _third = budget.request("c").await;

        assert_eq!(budget.stats().in_flight, 2);
        assert_eq!(budget.stats().requests, 3);
    }

    #[tokio::test]
    async fn a_cut_takes_effect_as_permits_come_back_and_nothing_leaks() {
        let budget = budget(4);
        let held: Vec<_> = [budget.request("a").await, budget.request("a").await, budget.request("a").await].into();

        budget.retune(Some(1), None);
        drop(held);

        let _one = budget.request("a").await;
        assert!(tokio::time::timeout(Duration::from_millis(20), budget.request("a")).await.is_err());
        budget.retune(Some(2), None);
        let _two = budget.request("a").await;
        assert!(tokio::time::timeout(Duration::from_millis(20), budget.request("a")).await.is_err());
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
        // tokio's clock is paused and std's is not: the second payment is due about a second after the first.
        let budget = Budget::new(BudgetLimits { max_bandwidth: Some(1000), ..BudgetLimits::default() });
        let start = tokio::time::Instant::now();

        budget.bandwidth(1000).await;
        assert!(start.elapsed() < Duration::from_millis(5));
        budget.bandwidth(1).await;

        assert!(start.elapsed() > Duration::from_millis(900), "{:?}", start.elapsed());
    }

    #[tokio::test]
    async fn throttled_requests_are_counted() {
        let budget = budget(8);

        budget.request("a").await.end(Ended::Throttled);
        drop(budget.request("a").await);

        assert_eq!(budget.stats().throttled, 1);
        assert_eq!(budget.stats().in_flight, 0);
    }
}
