//! Tests of interactive reads beside saturating bulk work, in virtual time: the cost of each priority for the other.

#[path = "governor/service.rs"]
mod service;

use std::sync::Arc;
use std::time::Duration;

use seqferry_client::BudgetLimits;
use seqferry_store::Priority;
use seqferry_testkit::sim::model::{ModelOptions, ModelWork, Timing};
use service::{MIB, Service, Worker};
use tokio::time::Instant;

/// A single read of a mount.
const READ: ModelWork = ModelWork::Get { bytes: 128 << 10 };
const PART: ModelWork = ModelWork::Get { bytes: 64 * MIB };
/// Mean number of reads that begin per second.
const READS: f64 = 50.0;
const WARM_UP: Duration = Duration::from_secs(20);
const END: Duration = Duration::from_secs(80);
/// Measured seconds, after the warm-up.
const SECONDS: f64 = 60.0;

/// A nearby service: a first byte after 20 ms, so that waits of a few milliseconds show.
fn nearby() -> ModelOptions {
    let get = Timing { base_seconds: 0.02, ..ModelOptions::default().get };
    ModelOptions { get, tail_probability: 0.0, split_after_seconds: None, ..ModelOptions::default() }
}

/// A run that saturates resources of both priorities.
struct Run {
    limits: BudgetLimits,
    service: fn(u64) -> Arc<Service>,
    bulk: ModelWork,
    /// Bulk requests in flight at the same time.
    bulk_at_a_time: usize,
}

/// Makes request after request, `at_a_time` at the same time. Returns how many ended per second after the warm-up.
async fn saturate(worker: &Worker, at_a_time: usize, work: ModelWork) -> f64 {
    let task = async |task: usize| {
        let (job, mut count) = (worker.budget.job(), 0_u32);
        for number in 0.. {
            worker.whole(job, number * 10_000 + task as u64, work).await;
            if worker.service.now() >= END {
                break;
            }
            count += u32::from(worker.service.now() >= WARM_UP);
        }
        f64::from(count)
    };
    let counts = futures::future::join_all((0..at_a_time).map(task)).await;
    counts.into_iter().sum::<f64>() / SECONDS
}

/// Makes reads at random times, like a mount. Returns their 99th percentile in seconds after the warm-up.
async fn p99_of_reads(mount: &Worker, seed: u64) -> f64 {
    let mut random = fastrand::Rng::with_seed(seed);
    let (job, mut reading, mut at) = (mount.budget.job(), Vec::new(), Instant::now());
    for number in 0.. {
        at += Duration::from_secs_f64(-random.f64().max(1e-9).ln() / READS);
        tokio::time::sleep_until(at).await;
        if mount.service.now() >= END {
            break;
        }
        let mount = mount.clone();
        reading.push(tokio::spawn(async move {
            let (warm, begun) = (mount.service.now() >= WARM_UP, Instant::now());
            mount.whole(job, number, READ).await;
            warm.then(|| begun.elapsed().as_secs_f64())
        }));
    }
    let took = futures::future::join_all(reading).await;
    let mut took: Vec<f64> = took.into_iter().filter_map(Result::unwrap).collect();
    took.sort_by(f64::total_cmp);
    took[took.len() * 99 / 100]
}

impl Run {
    fn workers(&self, seed: u64) -> (Worker, Worker) {
        let transfers = Worker::within(&(self.service)(seed), 0, self.limits);
        let mount = Worker { priority: Priority::Interactive, ..transfers.clone() };
        (transfers, mount)
    }

    /// Requests per second of bulk work without other work.
    async fn bulk_alone(&self, seed: u64) -> f64 {
        let (transfers, _) = self.workers(seed);
        saturate(&transfers, self.bulk_at_a_time, self.bulk).await
    }
}

const fn limits(max_requests: usize, memory: u64, max_bandwidth: Option<u64>) -> BudgetLimits {
    BudgetLimits { max_requests, memory, max_bandwidth }
}

const NONE: BudgetLimits = limits(10_000, 64 << 30, None);

/// Runs that each saturate one resource of both priorities, and one run for all of them.
fn runs_at_s3() -> Vec<(&'static str, Run)> {
    let run = |limits, bulk, bulk_at_a_time| Run {
        limits,
        service: |seed| Service::model(nearby(), seed),
        bulk,
        bulk_at_a_time,
    };
    vec![
        ("the service's limit on requests per second", run(NONE, ModelWork::Get { bytes: 8 << 10 }, 400)),
        ("requests in flight", run(limits(32, 64 << 30, None), PART, 100)),
        ("memory", run(limits(10_000, 256 << 20, None), PART, 100)),
        ("bandwidth", run(limits(10_000, 64 << 30, Some(100_000_000)), PART, 100)),
        ("all limits", run(limits(32, 256 << 20, Some(200_000_000)), PART, 100)),
    ]
}

/// Servers that refuse no requests and work on 16 and on 400 requests at a time.
fn runs_at_servers_that_queue() -> Vec<(&'static str, Run)> {
    let run = |service, bulk_at_a_time| Run { limits: NONE, service, bulk: READ, bulk_at_a_time };
    vec![
        ("a small server", run(|_| Service::queue(16, Duration::from_millis(50)), 400)),
        ("a large server", run(|_| Service::queue(400, Duration::from_millis(50)), 2_000)),
    ]
}

#[tokio::test(start_paused = true)]
async fn reads_take_at_most_twice_as_long_beside_bulk_work_that_saturates_everything() {
    for (saturated, run) in runs_at_s3().into_iter().chain(runs_at_servers_that_queue()) {
        for seed in 1..=2 {
            let (_, mount) = run.workers(seed);
            let idle = p99_of_reads(&mount, seed).await;

            let (transfers, mount) = run.workers(seed);
            let _present = transfers.budget.interactive();
            let bulk = saturate(&transfers, run.bulk_at_a_time, run.bulk);
            let (beside, bulk) = tokio::join!(p99_of_reads(&mount, seed), bulk);

            println!("{saturated}, seed {seed}: p99 {idle} s idle, {beside} s beside {bulk} bulk requests/s");
            assert!(beside <= 2.0 * idle, "{saturated}, seed {seed}: {idle} s idle, {beside} s");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn bulk_work_keeps_nearly_all_beside_few_reads() {
    for (saturated, run) in runs_at_s3() {
        let alone = run.bulk_alone(1).await;

        let (transfers, mount) = run.workers(1);
        let _present = transfers.budget.interactive();
        let bulk = saturate(&transfers, run.bulk_at_a_time, run.bulk);
        let (_, beside) = tokio::join!(p99_of_reads(&mount, 1), bulk);

        println!("{saturated}: {alone} requests/s alone, {beside} beside reads");
        // A quarter of the memory is reserved, an eighth of the requests in flight.
        let least = if saturated == "memory" { 0.70 } else { 0.85 };
        assert!(beside >= least * alone, "{saturated}: {alone} requests/s alone, {beside} beside reads");
    }
}

#[tokio::test(start_paused = true)]
async fn bulk_work_keeps_a_share_beside_reads_that_saturate_everything() {
    for (saturated, run) in runs_at_s3() {
        let alone = run.bulk_alone(1).await;

        let (transfers, mount) = run.workers(1);
        let _present = transfers.budget.interactive();
        let reads = saturate(&mount, 4_000, READ);
        let bulk = saturate(&transfers, run.bulk_at_a_time, run.bulk);
        let (reads, beside) = tokio::join!(reads, bulk);

        println!("{saturated}: {alone} requests/s alone, {beside} beside {reads} reads/s");
        assert!(beside >= 0.2 * alone, "{saturated}: {alone} requests/s alone, {beside} beside {reads} reads/s");
    }
}
