//! Tests of the request governor against a model of S3, in virtual time. They include the real budget with its timers
//! and queues. `docs/develop/governor.md` shows the same runs as plots.

#[path = "governor/service.rs"]
mod service;

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use seqferry_testkit::sim::model::{ModelOptions, ModelWork};
use service::{MIB, Second, Service, Worker};

const LIMIT: f64 = 3_500.0;
/// A part copy, which takes 2.4 s: 8,500 in flight at the limit.
const PART: ModelWork = ModelWork::PartCopy { bytes: 128 * MIB };
/// A small copy, which takes 0.15 s: 530 in flight at the limit.
const SMALL: ModelWork = ModelWork::Copy { bytes: 1024 };

/// The model of S3, with the limit of one partition that never splits by itself.
fn limited(writes_per_second: f64) -> ModelOptions {
    ModelOptions { writes_per_second, split_after_seconds: None, ..ModelOptions::default() }
}

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Seeds, printed so that a failure can be repeated.
fn seeds() -> impl Iterator<Item = u64> {
    (1..=3).inspect(|seed| println!("seed {seed}"))
}

/// Accepted requests per second, and the refused share of all.
fn rates(seen: &[Second], range: Range<usize>) -> (f64, f64) {
    let length = range.len() as f64;
    let sum = |count: fn(&Second) -> &Vec<u32>| -> f64 {
        seen[range.clone()].iter().flat_map(count).map(|count| f64::from(*count)).sum()
    };
    let (taken, refused) = (sum(|second| &second.taken), sum(|second| &second.refused));
    (taken / length, refused / (taken + refused).max(1.0))
}

/// Asserts that in every five seconds of the range the accepted requests are within 5 % of the limit, and hardly any
/// are refused.
#[track_caller]
fn assert_held(seen: &[Second], limit: f64, range: Range<usize>) {
    for start in range.clone().step_by(5).filter(|start| start + 5 <= range.end) {
        let (rate, _) = rates(seen, start..start + 5);
        assert!((0.95 * limit..=1.05 * limit).contains(&rate), "{rate} requests/s from second {start} on: {seen:?}");
    }
    let (_, refused) = rates(seen, range);
    assert!(refused < 0.01, "{refused} of the requests were refused");
}

/// Jain's index of the workers' shares: 1 when all are equal, 1/n when one worker has all.
fn fairness(seen: &[Second], workers: usize, range: Range<usize>) -> f64 {
    let got = |worker: usize| -> f64 {
        seen[range.clone()].iter().map(|second| f64::from(second.taken.get(worker).copied().unwrap_or(0))).sum()
    };
    let shares: Vec<f64> = (0..workers).map(got).collect();
    shares.iter().sum::<f64>().powi(2) / (workers as f64 * shares.iter().map(|share| share * share).sum::<f64>())
}

#[tokio::test(start_paused = true)]
async fn big_parts_reach_the_limit_in_seconds_and_hold_it() {
    for seed in seeds() {
        let service = Service::model(limited(LIMIT), seed);

        Worker::new(&service, 0).work(seconds(90), |_| PART).await;

        let seen = service.seen();
        assert_held(&seen, LIMIT, 30..90);
        // Requests above the limit while it was being found: half a second of it.
        assert!(rates(&seen, 0..30).1 < 0.02);
    }
}

#[tokio::test(start_paused = true)]
async fn small_copies_reach_the_limit_at_once_and_hold_it() {
    for seed in seeds() {
        let service = Service::model(limited(LIMIT), seed);

        Worker::new(&service, 0).work(seconds(60), |_| SMALL).await;

        assert_held(&service.seen(), LIMIT, 3..60);
        // 530 are in flight at the limit.
        assert!(service.peak() < 2_000, "{}", service.peak());
    }
}

#[tokio::test(start_paused = true)]
async fn a_limit_that_falls_is_followed_at_once_and_one_that_rises_in_seconds() {
    for seed in seeds() {
        let phases =
            vec![(Duration::ZERO, limited(LIMIT)), (seconds(40), limited(LIMIT / 2.0)), (seconds(80), limited(LIMIT))];
        let service = Service::changing(phases, seed);

        Worker::new(&service, 0).work(seconds(130), |_| SMALL).await;

        let seen = service.seen();
        assert_held(&seen, LIMIT / 2.0, 42..80);
        let refused: u32 = seen[40..42].iter().flat_map(|second| &second.refused).sum();
        assert!(refused < 500, "{refused} were refused when the limit fell");
        assert_held(&seen, LIMIT, 100..130);
    }
}

#[tokio::test(start_paused = true)]
async fn a_split_partition_is_found_and_used() {
    for seed in seeds() {
        let service = Service::model(limited(LIMIT), seed);
        let splitting = Arc::clone(&service);
        tokio::spawn(async move {
            tokio::time::sleep(seconds(30)).await;
            splitting.split("8");
        });

        Worker::new(&service, 0).work(seconds(100), |_| SMALL).await;

        assert_held(&service.seen(), 2.0 * LIMIT, 60..100);
    }
}

#[tokio::test(start_paused = true)]
async fn the_service_splits_since_it_is_kept_busy() {
    // The partition splits only while it keeps refusing: a governor that stayed below the limit would never see a
    // higher one.
    let options = ModelOptions { split_after_seconds: Some(60.0), maximum_partitions: 2, ..limited(LIMIT) };
    let service = Service::model(options, 1);

    Worker::new(&service, 0).work(seconds(180), |_| SMALL).await;

    let (rate, refused) = rates(&service.seen(), 120..180);
    assert!(rate > 1.5 * LIMIT && refused < 0.01, "{rate} requests/s, {refused} refused");
}

/// Runs independent workers that begin ten seconds after one another.
async fn workers(count: usize, seed: u64, until: u64) -> Vec<Second> {
    let service = Service::model(limited(LIMIT), seed);
    let begin = |number: usize| {
        let worker = Worker::new(&service, number);
        tokio::spawn(async move {
            tokio::time::sleep(seconds(10 * number as u64)).await;
            worker.work(seconds(until), |_| SMALL).await;
        })
    };
    let working: Vec<_> = (0..count).map(begin).collect();
    for worker in working {
        worker.await.unwrap_or_else(|error| panic!("{error}"));
    }
    service.seen()
}

async fn assert_equal_shares(count: usize) {
    for seed in seeds() {
        let seen = workers(count, seed, 150).await;

        let fair = fairness(&seen, count, 100..150);
        assert!(fair >= 0.95, "{count} workers: {fair}");
        assert_held(&seen, LIMIT, 100..150);
    }
}

#[tokio::test(start_paused = true)]
async fn two_workers_come_to_equal_shares_by_the_services_signals_alone() {
    assert_equal_shares(2).await;
}

#[tokio::test(start_paused = true)]
async fn four_workers_come_to_equal_shares() {
    assert_equal_shares(4).await;
}

#[tokio::test(start_paused = true)]
async fn eight_workers_come_to_equal_shares() {
    assert_equal_shares(8).await;
}

#[tokio::test(start_paused = true)]
async fn jobs_of_one_process_share_evenly_and_a_small_one_is_done_at_once() {
    let service = Service::model(limited(LIMIT), 1);
    let big = Worker::new(&service, 0);
    let other = Worker { number: 1, ..big.clone() };
    let small = Worker { number: 2, ..big.clone() };
    let jobs = [(&big, big.budget.job()), (&other, other.budget.job())];
    for (worker, job) in jobs {
        // Several of each wait at the same time, like the parts of an object.
        for _ in 0..16 {
            tokio::spawn(worker.clone().work_as(job, seconds(60), |_| SMALL));
        }
    }
    tokio::time::sleep(seconds(30)).await;

    let (job, begun) = (small.budget.job(), service.now());
    for number in 0..100 {
        small.start(job, number, SMALL).await;
    }
    let took = service.now().saturating_sub(begun);
    tokio::time::sleep_until(tokio::time::Instant::now() + seconds(31)).await;

    let fair = fairness(&service.seen(), 2, 10..60);
    assert!(fair > 0.999, "{fair}");
    // A third of 3,500/s.
    assert!(took < Duration::from_millis(200), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn requests_that_take_another_time_make_no_storm() {
    for seed in seeds() {
        let service = Service::model(limited(LIMIT), seed);

        // The load changes between 8,500 and 530 in flight every half minute.
        let work = |now: Duration| if (now.as_secs() / 30).is_multiple_of(2) { PART } else { SMALL };
        Worker::new(&service, 0).work(seconds(180), work).await;

        assert_held(&service.seen(), LIMIT, 35..180);
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_only_queues_is_kept_busy_and_not_flooded() {
    for (at_a_time, flood) in [(4, 100), (16, 128), (400, 1_200)] {
        let per_request = Duration::from_millis(50);
        let service = Service::queue(at_a_time, per_request);

        Worker::new(&service, 0).work(seconds(180), |_| SMALL).await;

        let possible = at_a_time as f64 / per_request.as_secs_f64();
        let (rate, _) = rates(&service.seen(), 5..180);
        assert!(rate > 0.95 * possible, "{rate} requests/s of {possible}");
        assert!(service.peak() <= flood, "{} in flight at a server that works on {at_a_time}", service.peak());
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_that_becomes_slower_is_not_taken_for_a_crowded_one_for_ever() {
    let slower = |factor: f64| {
        let mut options = limited(1e6);
        options.copy.base_seconds *= factor;
        options
    };
    let service = Service::changing(vec![(Duration::ZERO, slower(1.0)), (seconds(20), slower(4.0))], 1);
    let worker = Worker::new(&service, 0);
    worker.budget.retune(Some(1_000), None);

    worker.work(seconds(120), |_| SMALL).await;

    // 1,000 in flight at 0.6 s each (and 1 % of them at 2.4 s).
    let (rate, _) = rates(&service.seen(), 100..120);
    assert!(rate > 1_400.0, "{rate}");
}

#[tokio::test(start_paused = true)]
async fn sending_slow_requests_again_shortens_the_tail_for_little() {
    for seed in seeds() {
        // The tail is a little larger than in S3's guidelines, so that it begins before the 99th percentile.
        let options = ModelOptions { tail_probability: 0.014, ..limited(LIMIT) };
        let run = async |hedges: bool| {
            let service = Service::model(options.clone(), seed);
            let worker = Worker { hedges, ..Worker::new(&service, 0) };
            let budget = Arc::clone(&worker.budget);
            worker.work(seconds(90), |_| PART).await;
            tokio::time::sleep(seconds(60)).await;
            let stats = budget.stats();
            assert_eq!(stats.in_flight, 0);
            (service.quantile(0.99), stats.hedges as f64 / stats.requests as f64)
        };

        let (without, none) = run(false).await;
        let (with, extra) = run(true).await;

        assert!(none.abs() < f64::EPSILON && extra < 0.02, "{extra} of the requests were second ones");
        assert!(with < 0.8 * without, "99 % within {with} s, without {without} s");
    }
}
