//! Jobs that remove objects or abort uploads: what ends how, also after a stop, a change, or a lapse of the lease.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::common::{TARGET, TransferFixture, drain, job};
use bytes::Bytes;
use seqferry_client::lease::now;
use seqferry_client::{Lease, LeaseHolder};
use seqferry_store::prelude::*;
use seqferry_store::{Attributes, CreateUpload, ObjectRef};
use seqferry_store_testing::ObjectWriteExt as _;
use seqferry_store_testing::fault::{Fault, Latch, Rule};
use seqferry_transfer::{
    CopyMethod, Job, JobItem, JobSpec, LocationOptions, ObjectOutcome, ObjectState, Policy, StopMode,
};
use tokio::runtime::Handle;

const MINUTE: i64 = 60_000_000_000;

fn options() -> LocationOptions {
    LocationOptions { check_first: true, ..LocationOptions::default() }
}

/// Objects with these keys at the target, as items of a removal; their ids count from 0.
async fn objects(fixture: &TransferFixture, keys: &[&str]) -> Vec<JobItem> {
    let mut items = Vec::new();
    for (id, key) in keys.iter().enumerate() {
        let written = fixture.memory.put(TARGET, key, Bytes::from_static(b"x"), &Attributes::default()).await.unwrap();
        let (id, source_key) = (id as u64, (*key).to_owned());
        items.push(JobItem { id, source_key, size: 1, etag: written.etag, ..JobItem::default() });
    }
    items
}

fn start(fixture: &TransferFixture, items: Vec<JobItem>, options: LocationOptions) -> Job {
    start_with(fixture, Policy { target_bucket: TARGET.into(), ..Policy::default() }, items, options, None)
}

fn start_with(
    fixture: &TransferFixture,
    policy: Policy,
    items: Vec<JobItem>,
    options: LocationOptions,
    lease: Option<Arc<LeaseHolder>>,
) -> Job {
    let spec = JobSpec { lease, ..job(fixture.connection.clone(), fixture.connection.clone(), policy, items) };
    Job::start_remove(&Handle::current(), fixture.scheduler(), spec, options)
}

async fn ends(job: Job) -> (HashMap<u64, ObjectOutcome>, Job) {
    drain(job).await
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_removed_and_those_that_are_gone_or_new_are_told_apart() {
    for options in [options(), LocationOptions::default()] {
        let fixture = TransferFixture::new();
        let items = objects(&fixture, &["same", "changed", "gone", " blank ", "new\nline"]).await;
        fixture.memory.put(TARGET, "changed", Bytes::from_static(b"new"), &Attributes::default()).await.unwrap();
        fixture.memory.delete(ObjectRef::new(TARGET, "gone")).await.unwrap();

        let (outcomes, job) = ends(start(&fixture, items.clone(), options)).await;

        let states: Vec<ObjectState> = (0..5).map(|id| outcomes[&id].state).collect();
        assert_eq!(
            states,
            [ObjectState::Done, ObjectState::Failed, ObjectState::Done, ObjectState::Done, ObjectState::Done]
        );
        assert_eq!((outcomes[&0].method, outcomes[&1].method), (CopyMethod::Remove, CopyMethod::None));
        let failure = outcomes[&1].failure.as_ref().expect("left");
        assert_eq!((failure.class.as_str(), failure.code.as_str()), ("source_changed", "SourceChanged"));
        assert_eq!(
            failure.message,
            "DeleteObject s3://target/changed: it was written to after it was listed, and was left. repeat"
        );
        assert_eq!(fixture.read(TARGET, "changed").await, Some(b"new".to_vec()));
        let progress = job.progress();
        assert_eq!((progress.objects_done, progress.objects_failed, progress.bytes_done), (4, 1, 4));
        assert!(progress.requests >= 5, "{progress:?}");

        // Repeated, it finds nothing to do.
        let rest = items.into_iter().filter(|item| item.id != 1).collect();
        let (outcomes, _job) = ends(start(&fixture, rest, options)).await;
        assert!(outcomes.values().all(|outcome| outcome.state == ObjectState::Done), "{outcomes:?}");
        assert_eq!(fixture.budget.stats().in_flight, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_removal_tells_the_truth_of_what_was_under_way() {
    for mode in [StopMode::Cancel, StopMode::Suspend] {
        let fixture = TransferFixture::new();
        let keys: Vec<String> = (0..200).map(|n| format!("k{n:03}")).collect();
        let items = objects(&fixture, &keys.iter().map(String::as_str).collect::<Vec<_>>()).await;
        let latch = Latch::default();
        fixture.store.rule(Rule::once("DeleteObject", Fault::Hold(latch.clone())));
        let job = start(&fixture, items, options());
        latch.reached().await;

        job.stop(mode);
        latch.open();
        let (outcomes, _job) = ends(job).await;

        let mut removed = 0;
        for (id, key) in keys.iter().enumerate() {
            let is_there = fixture.read(TARGET, key).await.is_some();
            removed += usize::from(!is_there);
            let told = outcomes.get(&(id as u64)).map(|outcome| outcome.state);
            match (is_there, mode) {
                (false, _) => assert_eq!(told, Some(ObjectState::Done), "{key}"),
                (true, StopMode::Cancel) => assert_eq!(told, Some(ObjectState::Cancelled), "{key}"),
                (true, StopMode::Suspend) => assert_eq!(told, None, "{key}"),
            }
        }
        assert!(removed >= 1, "the one that was held");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_failure_stops_a_job_that_is_to_stop() {
    let fixture = TransferFixture::new();
    let keys: Vec<String> = (0..300).map(|n| format!("k{n:03}")).collect();
    let items = objects(&fixture, &keys.iter().map(String::as_str).collect::<Vec<_>>()).await;
    fixture.store.rule(Rule::always("DeleteObject", Fault::Fail("AccessDenied", 403)));

    let stopping = LocationOptions { stop_at_failure: true, ..options() };
    let (outcomes, job) = ends(start(&fixture, items.clone(), stopping)).await;

    assert!(!outcomes.is_empty() && outcomes.len() < 300, "{}", outcomes.len());
    assert!(outcomes.values().all(|outcome| outcome.state == ObjectState::Failed));
    assert!(job.failure().is_none(), "it is the failure of an object");

    let (outcomes, _job) = ends(start(&fixture, items, options())).await;
    assert_eq!(outcomes.len(), 300, "without it each object has its end");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_was_written_to_since_stops_nothing() {
    let fixture = TransferFixture::new();
    // More than are removed at a time, so that a stop would leave some.
    let keys: Vec<String> = (0..200).map(|n| format!("k{n:03}")).collect();
    let items = objects(&fixture, &keys.iter().map(String::as_str).collect::<Vec<_>>()).await;
    fixture.memory.put(TARGET, "k000", Bytes::from_static(b"new"), &Attributes::default()).await.unwrap();

    let (ended, job) = ends(start(&fixture, items, LocationOptions { stop_at_failure: true, ..options() })).await;

    assert!(job.failure().is_none());
    assert_eq!(ended[&0].failure.as_ref().unwrap().code, "SourceChanged");
    assert_eq!((1..200).filter(|id| ended.get(id).is_some_and(|end| end.state == ObjectState::Done)).count(), 199);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_of_the_whole_job_is_told_and_begins_nothing_else() {
    let fixture = TransferFixture::new();
    let items = objects(&fixture, &["a", "b"]).await;
    fixture.store.rule(Rule::always("HeadObject", Fault::Fail("NoSuchBucket", 404)));

    let (outcomes, job) = ends(start(&fixture, items, options())).await;

    assert_eq!(job.failure().map(|failure| failure.code), Some("NoSuchBucket".to_owned()));
    assert!(outcomes.values().all(|outcome| outcome.state == ObjectState::Failed), "{outcomes:?}");
    assert_eq!(fixture.store.count("DeleteObject"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_removed_without_the_lease() {
    let (fixture, lease) = (TransferFixture::new(), Arc::new(Lease::default()));
    let items = objects(&fixture, &["a", "b"]).await;
    let policy = || Policy { target_bucket: TARGET.into(), ..Policy::default() };
    let holder = || Some(Arc::new(LeaseHolder::new(Arc::clone(&lease), 1)));

    let failing = LocationOptions { fail_at_lapse: true, ..options() };
    let (outcomes, job) = ends(start_with(&fixture, policy(), items.clone(), failing, holder())).await;
    assert!(outcomes.is_empty(), "a lapse says nothing of an object: {outcomes:?}");
    assert_eq!(job.failure().map(|failure| failure.code), Some("LeaseLapsed".to_owned()));

    let job = start_with(&fixture, policy(), items, options(), holder());
    lease.set(now() + MINUTE, 2);
    assert!(job.wait(Duration::from_millis(100)).is_empty());
    assert!(fixture.read(TARGET, "a").await.is_some());
    job.admit(2);
    let (outcomes, _job) = ends(job).await;
    assert!(outcomes.values().all(|outcome| outcome.state == ObjectState::Done), "{outcomes:?}");
    assert_eq!(outcomes.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_cleans_up_removes_nothing() {
    let fixture = TransferFixture::new();
    let items = objects(&fixture, &["a", "b"]).await;
    let policy = Policy { target_bucket: TARGET.into(), only_clean: true, ..Policy::default() };

    let (outcomes, _job) = ends(start_with(&fixture, policy, items, options(), None)).await;

    assert!(outcomes.values().all(|outcome| outcome.state == ObjectState::Cancelled), "{outcomes:?}");
    assert_eq!(outcomes.len(), 2);
    assert_eq!(fixture.store.count("DeleteObject") + fixture.store.count("HeadObject"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn uploads_are_aborted_and_those_that_are_gone_count_as_aborted() {
    let fixture = TransferFixture::new();
    let mut items = Vec::new();
    for id in 0..3 {
        let upload = CreateUpload { bucket: TARGET.into(), key: format!("k{id}"), ..CreateUpload::default() };
        let upload_id = fixture.memory.create_upload(&upload).await.unwrap();
        items.push(JobItem { id, source_key: upload.key, version_id: Some(upload_id), ..JobItem::default() });
    }
    items.push(JobItem { id: 3, source_key: "gone".into(), version_id: Some("unknown".into()), ..JobItem::default() });
    let policy = Policy { target_bucket: TARGET.into(), ..Policy::default() };
    let spec = job(fixture.connection.clone(), fixture.connection.clone(), policy, items);

    let (outcomes, _job) = ends(Job::start_abort(&Handle::current(), fixture.scheduler(), spec)).await;

    assert_eq!(outcomes.len(), 4);
    assert!(
        outcomes.values().all(|one| (one.state, one.method) == (ObjectState::Done, CopyMethod::Abort)),
        "{outcomes:?}"
    );
    assert_eq!(fixture.open_uploads().await, 0);
}
