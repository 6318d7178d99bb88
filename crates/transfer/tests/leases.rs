//! Jobs that write only while they hold the lease, and writes on condition that the target is as it was seen.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{SOURCE, ServicePair, TARGET, TransferFixture, bytes, drain, job, policy, quick, streaming};
use bytes::Bytes;
use seqferry_client::lease::now;
use seqferry_client::{Lease, LeaseHolder, RetryingClient};
use seqferry_store::prelude::*;
use seqferry_store::{Attributes, ObjectRef};
use seqferry_store_testing::ObjectWriteExt as _;
use seqferry_store_testing::fault::{Fault, Hook, Latch, Rule};
use seqferry_transfer::remove::remove;
use seqferry_transfer::{IfExists, Job, JobItem, JobSpec, ObjectState, Policy, StopMode};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

const MINUTE: i64 = 60_000_000_000;
const WRITES: [&str; 8] = [
    "PutObject",
    "CopyObject",
    "CreateMultipartUpload",
    "UploadPart",
    "UploadPartCopy",
    "CompleteMultipartUpload",
    "AbortMultipartUpload",
    "DeleteObject",
];

fn writes(fixture: &TransferFixture) -> usize {
    WRITES.iter().map(|operation| fixture.store.count(operation)).sum()
}

fn start(fixture: &TransferFixture, lease: &Arc<Lease>, policy: Policy, items: Vec<JobItem>) -> Job {
    let (source, target) = (fixture.connection.clone(), fixture.connection.clone());
    let holder = Some(Arc::new(LeaseHolder::new(Arc::clone(lease), 1)));
    let spec = JobSpec { lease: holder, ..job(source, target, policy, items) };
    Job::start(&Handle::current(), fixture.scheduler(), spec)
}

async fn sources(fixture: &TransferFixture) -> Vec<JobItem> {
    vec![fixture.object(1, "small", &bytes(1, 50)).await, fixture.object(2, "big", &bytes(2, 700)).await]
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_written_without_the_lease_and_all_is_when_it_is_back() {
    for policy in [policy(), streaming()] {
        let (fixture, lease) = (TransferFixture::new(), Arc::new(Lease::default()));
        let items = sources(&fixture).await;

        let job = start(&fixture, &lease, policy, items);
        // Back, but in another epoch: the job may have been taken over meanwhile.
        lease.set(now() + MINUTE, 2);
        assert!(job.wait(Duration::from_millis(200)).is_empty());
        assert_eq!(writes(&fixture), 0);

        job.admit(2);
        let (outcomes, _job) = drain(job).await;
        assert!(outcomes.values().all(|outcome| outcome.state == ObjectState::Done), "{outcomes:?}");
        assert_eq!(outcomes.len(), 2);
        assert_eq!(fixture.open_uploads().await, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_was_taken_over_aborts_and_removes_nothing() {
    let (fixture, lease) = (TransferFixture::new(), Arc::new(Lease::default()));
    lease.set(now() + MINUTE, 1);
    let latch = Latch::default();
    fixture.store.rule(Rule::always("UploadPartCopy", Fault::Hold(latch.clone())));
    let item = fixture.object(1, "big", &bytes(2, 700)).await;
    let job = start(&fixture, &lease, policy(), vec![item]);
    for event in job.wait(Duration::from_secs(30)) {
        if let seqferry_transfer::JobEvent::RecordUpload { id, .. } = event {
            job.acknowledge(&[id]);
        }
    }
    latch.reached().await;

    job.disown();
    job.stop(StopMode::Cancel);
    latch.open();
    let (outcomes, _job) = drain(job).await;

    assert!(outcomes.is_empty(), "what may have an open upload has no outcome: {outcomes:?}");
    assert_eq!(fixture.store.count("AbortMultipartUpload"), 0);
    assert_eq!(fixture.open_uploads().await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removal_without_the_lease_fails_at_once_and_removes_nothing() {
    let (fixture, lease) = (TransferFixture::new(), Arc::new(Lease::default()));
    fixture.memory.put(TARGET, "k", Bytes::from_static(b"x"), &Attributes::default()).await.unwrap();
    let requests = RetryingClient::new(
        fixture.connection.clone(),
        Arc::clone(&fixture.budget),
        quick(),
        CancellationToken::new(),
        Arc::default(),
    )
    .with_lease_or_failure(Arc::new(LeaseHolder::new(lease, 1)));

    remove(&requests, TARGET, vec![("k".to_owned(), None)]).await.expect_err("lapsed");

    assert!(fixture.read(TARGET, "k").await.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn only_what_was_listed_is_removed() {
    for refuses in [false, true] {
        let fixture = TransferFixture::new();
        if refuses {
            fixture.store.rule(Rule::once("DeleteObject", Fault::Fail("NotImplemented", 501)));
        }
        let mut objects = Vec::new();
        for key in ["same", "changed", "gone"] {
            let written =
                fixture.memory.put(TARGET, key, Bytes::from_static(b"x"), &Attributes::default()).await.unwrap();
            objects.push((key.to_owned(), Some(written.etag)));
        }
        fixture.memory.put(TARGET, "changed", Bytes::from_static(b"new"), &Attributes::default()).await.unwrap();
        fixture.memory.delete(ObjectRef::new(TARGET, "gone")).await.unwrap();
        let requests = RetryingClient::new(
            fixture.connection.clone(),
            Arc::clone(&fixture.budget),
            quick(),
            CancellationToken::new(),
            Arc::default(),
        );

        let kept = remove(&requests, TARGET, objects).await.expect("removed");

        assert_eq!(kept, ["changed"]);
        assert!(fixture.read(TARGET, "same").await.is_none());
        assert_eq!(fixture.read(TARGET, "changed").await, Some(b"new".to_vec()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removal_is_not_repeated_for_an_object_that_came_after_its_first_attempt() {
    for refuses in [false, true] {
        let fixture = TransferFixture::new();
        if refuses {
            fixture.connection.quirks.learn_refused_delete_matches();
        }
        let before = fixture.memory.put(TARGET, "k", Bytes::from_static(b"x"), &Attributes::default()).await.unwrap();
        let memory = Arc::clone(&fixture.memory);
        let hook = Hook(Arc::new(move || {
            let memory = Arc::clone(&memory);
            Box::pin(async move {
                memory.put(TARGET, "k", Bytes::from_static(b"new"), &Attributes::default()).await.unwrap();
            })
        }));
        fixture.store.rule(Rule::once("DeleteObject", Fault::FailAfter(hook, "InternalError", 500)));
        let (cancel, metrics) = (CancellationToken::new(), Arc::default());
        let budget = Arc::clone(&fixture.budget);
        let requests = RetryingClient::new(fixture.connection.clone(), budget, quick(), cancel, metrics);

        let kept = remove(&requests, TARGET, vec![("k".to_owned(), Some(before.etag))]).await.expect("looked at");

        assert_eq!(kept, ["k"], "the condition is refused: {refuses}");
        assert_eq!(fixture.read(TARGET, "k").await, Some(b"new".to_vec()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_whose_answer_was_lost_is_known_by_its_bytes_when_its_condition_fails() {
    for (size, operation) in [(50, "PutObject"), (300, "CompleteMultipartUpload")] {
        for (if_exists, target_absent) in [(IfExists::Same, true), (IfExists::Same, false), (IfExists::Overwrite, true)]
        {
            let services = ServicePair::new();
            let item = JobItem { target_absent, ..services.from.object(1, "k", &bytes(1, size)).await };
            services.to.store.rule(Rule::once(operation, Fault::LoseReply));

            let outcomes = services.run(Policy { if_exists, ..streaming() }, vec![item.clone()]).await;

            assert_eq!((outcomes[&1].state, outcomes[&1].attempts), (ObjectState::Done, 1), "{outcomes:?}");
            assert!(services.is_copied(&item).await);
            assert_eq!(services.to.open_uploads().await, 0);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_came_to_the_target_after_it_was_looked_at_is_looked_at_before_it_is_replaced() {
    for (size, there) in [(50, false), (50, true), (300, false), (300, true)] {
        let services = ServicePair::new();
        let item = services.from.object(1, "k", &bytes(1, size)).await;
        if there {
            services.to.memory.put(TARGET, "copy/k", Bytes::from_static(b"old"), &Attributes::default()).await.unwrap();
        }
        let (from, to) = (Arc::clone(&services.from.memory), Arc::clone(&services.to.memory));
        // Another worker has this item as well, and is done first.
        let other = Fault::Hook(Hook(Arc::new(move || {
            let (from, to) = (Arc::clone(&from), Arc::clone(&to));
            Box::pin(async move {
                let source = seqferry_store::PinnedObject {
                    bucket: SOURCE.into(),
                    key: "k".into(),
                    version_id: None,
                    if_match: None,
                    size: 0,
                };
                let body = from.get(&source, None).await.unwrap().take(1000, |_| ()).await.unwrap();
                to.put(TARGET, "copy/k", body, &Attributes::default()).await.unwrap();
            })
        })));
        services.from.store.rule(Rule::once("GetObject", other));

        let outcomes = services.run(streaming(), vec![item.clone()]).await;

        assert_eq!(outcomes[&1].state, ObjectState::Skipped, "found equal at the second look: {outcomes:?}");
        assert_eq!(outcomes[&1].attempts, 2);
        assert!(services.is_copied(&item).await);
        assert_eq!(services.to.open_uploads().await, 0);
    }
}
