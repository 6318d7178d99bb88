//! Tests of the guarantees of a budget, in virtual time.

use super::limiters::LimiterStats;
use super::*;

impl Budget {
    /// Present state of each prefix limiter.
    fn limiters(&self) -> Vec<LimiterStats> {
        self.lock().limiters.stats()
    }
}

fn budget(max_requests: usize) -> Arc<Budget> {
    Budget::new(BudgetLimits { max_requests, memory: 1 << 20, max_bandwidth: None })
}

fn wanted(job: FlowId, bucket: &str) -> PermitRequest<'_> {
    PermitRequest {
        priority: Priority::Bulk,
        job,
        rank: 0,
        bucket,
        prefix: "",
        access: AccessKind::Write,
        operation: "PutObject",
        bytes: 0,
        is_retry: false,
    }
}

async fn one(budget: &Arc<Budget>, bucket: &str) -> RequestPermit {
    budget.request(wanted(budget.job(), bucket)).await
}

/// True when a request has to wait.
async fn waits(budget: &Arc<Budget>, bucket: &str) -> bool {
    tokio::time::timeout(Duration::from_millis(20), one(budget, bucket)).await.is_err()
}

#[tokio::test(start_paused = true)]
async fn never_more_requests_than_the_cap() {
    let budget = budget(2);
    let first = one(&budget, "a").await;
    let _second = one(&budget, "b").await;

    assert!(waits(&budget, "c").await);
    first.end(RequestOutcome::Worked);
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
    let wait = |job: FlowId, name: &'static str| {
        let (budget, order) = (Arc::clone(&budget), Arc::clone(&order));
        tokio::spawn(async move {
            let permit = budget.request(wanted(job, "a")).await;
            order.lock().unwrap_or_else(PoisonError::into_inner).push(name);
            permit.end(RequestOutcome::Worked);
        })
    };
    let (big, small) = (budget.job(), budget.job());
    let mut waiting: Vec<_> = (0..1000).map(|_| wait(big, "big")).collect();
    waiting.extend([wait(small, "small"), wait(small, "small")]);
    while budget.limiters()[0].waiting < waiting.len() {
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

    assert!(budget.limiters()[0].waiting <= 2, "{:?}", budget.limiters());
    drop(held);
    assert_eq!(budget.stats().in_flight, 0);
    drop(one(&budget, "a").await);
    assert_eq!(budget.stats().in_flight, 0);
    assert_eq!(budget.stats().requests, 2);
}

#[tokio::test(start_paused = true)]
async fn reads_and_writes_and_prefixes_have_limiters_of_their_own() {
    let budget = budget(100);
    let job = budget.job();
    for (prefix, access) in
        [("a/", AccessKind::Read), ("a/", AccessKind::Write), ("b/", AccessKind::Read), ("a/", AccessKind::Read)]
    {
        budget.request(PermitRequest { prefix, access, ..wanted(job, "bucket") }).await.end(RequestOutcome::Worked);
    }

    assert_eq!(budget.limiters().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn limiters_that_are_not_used_are_forgotten() {
    let budget = budget(100);
    let kept = one(&budget, "kept").await;

    for n in 0..1000 {
        drop(one(&budget, &format!("bucket-{n}")).await);
    }

    assert!(budget.limiters().len() <= 64);
    assert!(budget.limiters().iter().any(|limiter| limiter.bucket == "kept" && limiter.in_flight == 1));
    drop(kept);
    assert_eq!(budget.stats().in_flight, 0);
}

#[tokio::test]
async fn memory_is_given_back_and_more_than_all_waits_for_all() {
    let budget = budget(1);
    let huge = budget.memory(Priority::Bulk, u64::MAX).await;
    assert_eq!(budget.memory_reserved(), 1 << 20);

    assert!(tokio::time::timeout(Duration::from_millis(20), budget.memory(Priority::Bulk, 1)).await.is_err());
    drop(huge);

    assert_eq!(budget.memory_reserved(), 0);
    drop(budget.memory(Priority::Bulk, 1).await);
}

#[tokio::test(start_paused = true)]
async fn bandwidth_is_paid_for_in_advance() {
    let budget = Budget::new(BudgetLimits { max_bandwidth: Some(1000), ..BudgetLimits::default() });
    let start = Instant::now();

    budget.bandwidth(Priority::Bulk, 1000).await;
    assert_eq!(start.elapsed(), Duration::ZERO);
    budget.bandwidth(Priority::Bulk, 1).await;

    assert_eq!(start.elapsed(), Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_a_slow_limit_is_woken_when_it_is_lifted() {
    let budget = Budget::new(BudgetLimits { max_bandwidth: Some(1), ..BudgetLimits::default() });
    let start = Instant::now();
    budget.bandwidth(Priority::Bulk, 1 << 30).await;
    let waiting = tokio::spawn({
        let budget = Arc::clone(&budget);
        async move { budget.bandwidth(Priority::Bulk, 1 << 30).await }
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

    one(&budget, "a").await.end(RequestOutcome::Throttled);
    drop(one(&budget, "a").await);

    assert_eq!(budget.stats().throttled, 1);
    assert_eq!(budget.stats().in_flight, 0);
}

#[tokio::test(start_paused = true)]
async fn requests_are_kept_for_interactive_work_as_long_as_it_is_present() {
    let budget = budget(8);
    let present = [budget.interactive(), budget.interactive()];
    let mut bulk = Vec::new();
    for _ in 0..7 {
        bulk.push(one(&budget, "a").await);
    }
    assert!(waits(&budget, "a").await);

    // The read is in another bucket: below one prefix the window would change as well.
    let read = PermitRequest { priority: Priority::Interactive, ..wanted(budget.job(), "b") };
    let read = budget.request(read).await;
    read.end(RequestOutcome::Worked);
    let [first, second] = present;
    drop(first);
    assert!(waits(&budget, "a").await);
    drop(second);

    bulk.push(one(&budget, "a").await);
    assert_eq!(budget.stats().in_flight, 8);
}

#[tokio::test(start_paused = true)]
async fn waits_latencies_bytes_and_outcomes_are_counted_by_prefix_class() {
    let budget = budget(1);
    let write = |is_retry| PermitRequest { bytes: 10, prefix: "a/", is_retry, ..wanted(budget.job(), "bucket") };
    let first = budget.request(write(false)).await;
    let second = tokio::spawn({
        let (budget, job) = (Arc::clone(&budget), budget.job());
        async move {
            let retry = PermitRequest { is_retry: true, prefix: "a/", ..wanted(job, "bucket") };
            budget.request(retry).await.waited()
        }
    });
    tokio::time::sleep(Duration::from_millis(300)).await;
    first.end(RequestOutcome::Worked);
    assert_eq!(second.await.expect("a permit").as_millis(), 300);
    budget.request(write(false)).await.end(RequestOutcome::Throttled);

    let classes = budget.classes();

    assert_eq!(classes.len(), 1);
    let (class, put) = (&classes[0], &classes[0].counted.operations[0]);
    assert_eq!((class.bucket.as_str(), class.prefix.as_str(), class.access), ("bucket", "a/", AccessKind::Write));
    assert_eq!((class.counted.begun, class.counted.retries, class.in_flight), (3, 1, 0));
    assert_eq!((put.worked, put.abandoned, put.throttled, put.bytes), (1, 1, 1, 10));
    assert_eq!((put.latency.total(), put.latency.sum.as_millis()), (1, 300));
    assert_eq!(class.counted.wait.total(), 3);
    assert_eq!(class.counted.wait.sum, budget.stats().waited);
    assert!(class.counted.wait.sum.as_millis() >= 300, "{:?}", class.counted.wait);
    assert_eq!((budget.stats().bytes, budget.stats().retries), (10, 1));
}

#[tokio::test(start_paused = true)]
async fn prefix_classes_are_bounded_and_nothing_that_was_counted_is_lost() {
    let budget = budget(10);
    for round in 0..3 {
        for number in 0..200 {
            let prefix = format!("{round}-{number}/");
            let write = PermitRequest { prefix: &prefix, bytes: 1, ..wanted(budget.job(), "bucket") };
            budget.request(write).await.end(RequestOutcome::Worked);
        }
        tokio::time::sleep(Duration::from_mins(2)).await;
    }
    let read = PermitRequest { access: AccessKind::Read, ..wanted(budget.job(), "other") };
    let _under_way = budget.request(read).await;

    let classes = budget.classes();

    assert!(classes.len() <= stats::PREFIX_CLASSES + 2, "{}", classes.len());
    assert_eq!(classes.iter().map(|class| class.counted.bytes()).sum::<u64>(), 600);
    assert_eq!(classes.iter().map(|class| class.counted.begun).sum::<u64>(), 601);
    assert_eq!(classes.iter().map(|class| class.in_flight).sum::<usize>(), 1);
    let named = |bucket: &str| classes.iter().any(|class| class.bucket == bucket);
    assert!(named("other"), "a new class has a name once an old one is idle");
    assert!(classes.iter().any(|class| class.prefix.starts_with("2-")), "the last round too");
}

#[tokio::test(start_paused = true)]
async fn waits_for_memory_and_bandwidth_are_counted_by_priority() {
    let limits = BudgetLimits { memory: 10, max_bandwidth: Some(10), ..BudgetLimits::default() };
    let budget = Budget::new(limits);
    let held = budget.memory(Priority::Bulk, 10).await;
    let waiting = tokio::spawn({
        let budget = Arc::clone(&budget);
        async move { drop(budget.memory(Priority::Bulk, 10).await) }
    });
    budget.bandwidth(Priority::Bulk, 10).await;
    budget.bandwidth(Priority::Bulk, 10).await;
    drop(held);
    waiting.await.expect("memory");

    let waits = budget.shared_waits(Priority::Bulk);

    assert_eq!((waits.memory.total(), waits.bandwidth.total()), (2, 2));
    assert!((900..1100).contains(&waits.memory.sum.as_millis()), "{waits:?}");
    assert!((900..1100).contains(&waits.bandwidth.sum.as_millis()), "{waits:?}");
    assert_eq!(budget.shared_waits(Priority::Interactive), stats::SharedWaits::default());
}

#[tokio::test(start_paused = true)]
async fn no_more_requests_start_per_second_than_the_limit_whatever_their_prefix() {
    let budget = budget(1000);
    budget.limit_starts(Some(10));
    let begun = Instant::now();
    let mut starts = Vec::new();

    for n in 0..100 {
        let bucket = ["a", "b", "c"][n % 3];
        let permit = one(&budget, bucket).await;
        starts.push(begun.elapsed());
        permit.end(if n % 7 == 0 { RequestOutcome::Failed } else { RequestOutcome::Worked });
    }

    // The first starts immediately, and each of the others a tenth of a second later.
    assert!(starts[99] >= Duration::from_millis(9_900 - 5), "{:?}", starts[99]);
    assert!(starts[99] <= Duration::from_secs(11), "{:?}", starts[99]);
    for pair in starts.windows(11) {
        assert!(pair[10].saturating_sub(pair[0]) >= Duration::from_millis(1_000 - 5), "{pair:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn requests_that_wait_begin_when_the_limit_of_starts_is_lifted() {
    let budget = budget(1000);
    budget.limit_starts(Some(1));
    drop(one(&budget, "a").await);
    assert!(waits(&budget, "a").await);
    let waiting = tokio::spawn({
        let budget = Arc::clone(&budget);
        async move { drop(one(&budget, "a").await) }
    });
    tokio::task::yield_now().await;
    let begun = Instant::now();

    budget.limit_starts(None);

    assert!(waiting.await.is_ok());
    assert!(begun.elapsed() < Duration::from_millis(5));
    assert!(!waits(&budget, "b").await);
}

#[tokio::test(start_paused = true)]
async fn a_pause_lets_no_burst_start_under_a_limit_of_starts() {
    let budget = budget(1000);
    budget.limit_starts(Some(10));
    drop(one(&budget, "a").await);
    tokio::time::advance(Duration::from_mins(1)).await;

    drop(one(&budget, "a").await);

    assert!(waits(&budget, "a").await);
}
