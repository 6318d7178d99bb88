//! A modelled service for tests of a budget, in virtual time: minutes at 3,500 requests per second take a second or
//! two.

#![allow(dead_code, missing_docs, unreachable_pub)] // the tests and the plots use a part of it each
#![allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // counts

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use seqferry_client::budget::{AccessKind, FlowId, PermitRequest, Priority, RequestOutcome};
use seqferry_client::{Budget, BudgetLimits};
use seqferry_testkit::sim::model::{Load, Model, ModelOptions, ModelVerdict, ModelWork};
use tokio::time::Instant;

pub const MIB: u64 = 1 << 20;

/// Requests of a test: copies of parts of `bytes`.
pub fn part_copy(bytes: u64) -> ModelWork {
    ModelWork::PartCopy { bytes }
}

/// A service, and statistics of its requests.
pub struct Service {
    start: Instant,
    state: Mutex<State>,
}

struct State {
    phases: Vec<(Duration, Phase)>,
    seen: Vec<Second>,
    in_flight: usize,
    peak: usize,
    /// Seconds until a request had an answer, the first of two for a hedged request.
    waits: Vec<f64>,
    random: fastrand::Rng,
}

enum Phase {
    Model(Box<Model>),
    Queue(Queue),
}

/// Statistics of one second.
#[derive(Debug, Clone, Default)]
pub struct Second {
    /// Accepted requests, by worker.
    pub taken: Vec<u32>,
    /// Refused requests, by worker.
    pub refused: Vec<u32>,
    /// Largest number of requests in flight.
    pub in_flight: usize,
}

/// A server that works on a fixed number of requests at a time, in the order of their arrival, and refuses none.
struct Queue {
    free_at: BinaryHeap<Reverse<Duration>>,
    per_request: Duration,
}

impl Service {
    /// A modelled service whose options change at these times.
    pub fn changing(phases: Vec<(Duration, ModelOptions)>, seed: u64) -> Arc<Self> {
        let phases = phases
            .into_iter()
            .map(|(from, options)| (from, Phase::Model(Box::new(Model::new(options, seed)))))
            .collect();
        Self::of(phases, seed)
    }

    /// A modelled service.
    pub fn model(options: ModelOptions, seed: u64) -> Arc<Self> {
        Self::changing(vec![(Duration::ZERO, options)], seed)
    }

    /// A server that queues.
    pub fn queue(at_a_time: usize, per_request: Duration) -> Arc<Self> {
        let free_at = std::iter::repeat_n(Reverse(Duration::ZERO), at_a_time).collect();
        Self::of(vec![(Duration::ZERO, Phase::Queue(Queue { free_at, per_request }))], 1)
    }

    fn of(phases: Vec<(Duration, Phase)>, seed: u64) -> Arc<Self> {
        let state = State {
            phases,
            seen: Vec::new(),
            in_flight: 0,
            peak: 0,
            waits: Vec::new(),
            random: fastrand::Rng::with_seed(seed),
        };
        Arc::new(Self { start: Instant::now(), state: Mutex::new(state) })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes one request and waits for its answer.
    pub async fn request(&self, worker: usize, load: Load, key: &str, work: ModelWork) -> RequestOutcome {
        // The delay of the network. Without it the workers' timers would always serve the same worker first.
        tokio::time::sleep(Duration::from_micros(self.random())).await;
        let now = self.now();
        let (after, ended) = self.lock().arrive(now, worker, load, key, work);
        let _under_way = InFlightCount(self);
        tokio::time::sleep(after).await;
        ended
    }

    /// Time since the service was made.
    pub fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// Seconds within which this share of all requests had an answer.
    pub fn quantile(&self, share: f64) -> f64 {
        let mut waits = self.lock().waits.clone();
        waits.sort_by(f64::total_cmp);
        waits[((waits.len() - 1) as f64 * share) as usize]
    }

    fn random(&self) -> u64 {
        self.lock().random.u64(200..8_000)
    }

    /// Splits a partition, like the service after long load.
    pub fn split(&self, key: &str) {
        let now = self.now();
        if let Phase::Model(model) = self.lock().phase(now) {
            model.split(now, "bucket", key);
        }
    }

    /// Statistics of each second.
    pub fn seen(&self) -> Vec<Second> {
        self.lock().seen.clone()
    }

    /// Largest number of requests in flight.
    pub fn peak(&self) -> usize {
        self.lock().peak
    }
}

/// Removes a request from the count of those in flight on drop, also when its caller has stopped waiting.
struct InFlightCount<'a>(&'a Service);

impl Drop for InFlightCount<'_> {
    fn drop(&mut self) {
        self.0.lock().in_flight -= 1;
    }
}

impl State {
    fn phase(&mut self, now: Duration) -> &mut Phase {
        let index = self.phases.iter().rposition(|(from, _)| *from <= now).unwrap_or(0);
        &mut self.phases[index].1
    }

    fn arrive(
        &mut self,
        now: Duration,
        worker: usize,
        load: Load,
        key: &str,
        work: ModelWork,
    ) -> (Duration, RequestOutcome) {
        let (after, ended) = match self.phase(now) {
            Phase::Model(model) => match model.arrive(now, load, "bucket", key, work) {
                ModelVerdict::Serve { after, .. } => (after, RequestOutcome::Worked),
                ModelVerdict::SlowDown { after } => (after, RequestOutcome::Throttled),
            },
            Phase::Queue(queue) => {
                let begin = queue.free_at.pop().map_or(now, |Reverse(free)| free.max(now));
                queue.free_at.push(Reverse(begin + queue.per_request));
                ((begin + queue.per_request).saturating_sub(now), RequestOutcome::Worked)
            }
        };
        self.in_flight += 1;
        self.peak = self.peak.max(self.in_flight);
        let second = usize::try_from(now.as_secs()).unwrap_or(0);
        if self.seen.len() <= second {
            self.seen.resize(second + 1, Second::default());
        }
        let in_flight = self.in_flight;
        let seen = &mut self.seen[second];
        seen.in_flight = seen.in_flight.max(in_flight);
        let counts = if ended == RequestOutcome::Worked { &mut seen.taken } else { &mut seen.refused };
        if counts.len() <= worker {
            counts.resize(worker + 1, 0);
        }
        counts[worker] += 1;
        (after, ended)
    }
}

/// A client with more requests than the service accepts.
#[derive(Clone)]
pub struct Worker {
    pub service: Arc<Service>,
    pub budget: Arc<Budget>,
    /// Number by which the service counts its requests.
    pub number: usize,
    /// True when slow requests are hedged.
    pub hedges: bool,
    /// Priority of the requests.
    pub priority: Priority,
}

impl Worker {
    /// A worker with a budget of its own.
    pub fn new(service: &Arc<Service>, number: usize) -> Self {
        Self::within(service, number, BudgetLimits::default())
    }

    /// A worker with a budget of these limits.
    pub fn within(service: &Arc<Service>, number: usize, limits: BudgetLimits) -> Self {
        let (service, budget) = (Arc::clone(service), Budget::new(limits));
        Self { service, budget, number, hedges: false, priority: Priority::Bulk }
    }

    /// Makes request after request until this time; `work` returns the work for a time.
    pub async fn work(self, until: Duration, work: impl Fn(Duration) -> ModelWork) {
        let job = self.budget.job();
        self.work_as(job, until, work).await;
    }

    /// Works like [`Self::work`] for a job that other workers may share.
    pub async fn work_as(self, job: FlowId, until: Duration, work: impl Fn(Duration) -> ModelWork) {
        let mut number = 0_u64;
        loop {
            let now = self.service.now();
            if now >= until {
                return;
            }
            number += 1;
            self.start(job, number, work(now)).await;
        }
    }

    /// Waits until a request may start; the request continues in a task.
    pub async fn start(&self, job: FlowId, number: u64, work: ModelWork) {
        let (load, key) = (load_of(work), key(number));
        let permit = self.budget.request(self.wanted(job, work)).await;
        let worker = self.clone();
        tokio::spawn(async move {
            let begun = Instant::now();
            let slow = permit.slow_after().filter(|_| worker.hedges);
            let mut first = std::pin::pin!(worker.service.request(worker.number, load, &key, work));
            let early = tokio::time::timeout(slow.unwrap_or(Duration::MAX), &mut first).await;
            match early {
                Ok(ended) => permit.end(ended),
                Err(_slow) => match permit.hedge() {
                    None => permit.end(first.await),
                    Some(second) => tokio::select! {
                        ended = first => permit.end(ended),
                        ended = worker.service.request(worker.number, load, &key, work) => second.end(ended),
                    },
                },
            }
            worker.service.lock().waits.push(begun.elapsed().as_secs_f64());
        });
    }

    fn wanted(&self, job: FlowId, work: ModelWork) -> PermitRequest<'static> {
        let (operation, bytes) = match work {
            ModelWork::Small => ("DeleteObject", 0),
            ModelWork::List => ("ListObjectsV2", 0),
            ModelWork::Get { bytes } => ("GetObject", bytes),
            ModelWork::Put { bytes } => ("PutObject", bytes),
            ModelWork::Copy { bytes } => ("CopyObject", bytes),
            ModelWork::PartCopy { bytes } => ("UploadPartCopy", bytes),
        };
        let access = if load_of(work) == Load::Read { AccessKind::Read } else { AccessKind::Write };
        PermitRequest {
            priority: self.priority,
            job,
            rank: 0,
            bucket: "bucket",
            prefix: "",
            access,
            operation,
            bytes,
            is_retry: false,
        }
    }

    /// Makes one request from the reservation of its memory to its end, again while the service refuses it.
    pub async fn whole(&self, job: FlowId, number: u64, work: ModelWork) {
        let wanted = self.wanted(job, work);
        let _memory = self.budget.memory(self.priority, wanted.bytes).await;
        self.budget.bandwidth(self.priority, wanted.bytes).await;
        loop {
            let permit = self.budget.request(wanted).await;
            let ended = self.service.request(self.number, load_of(work), &key(number), work).await;
            permit.end(ended);
            if ended == RequestOutcome::Worked {
                return;
            }
        }
    }
}

fn load_of(work: ModelWork) -> Load {
    if matches!(work, ModelWork::Get { .. } | ModelWork::List) { Load::Read } else { Load::Write }
}

/// A key; numbers are spread over all partitions.
fn key(number: u64) -> String {
    format!("{:04x}/part", number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 48)
}
