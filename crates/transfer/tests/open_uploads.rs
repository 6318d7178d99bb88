//! Uploads that are open when a job fails, is stopped or continues: each is used, aborted or reported.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::pairs::{assert_whole, pair};
use crate::common::{TARGET, TransferFixture, bytes, drain, policy, small_limits};
use bytes::Bytes;
use seqferry_client::{Budget, BudgetLimits, RecordedUpload};
use seqferry_store::prelude::*;
use seqferry_store::{CreateUpload, Digests, UploadRef};
use seqferry_store_testing::MemoryStore;
use seqferry_store_testing::fault::{Fault, Hook, Latch, Rule};
use seqferry_transfer::{IfExists, JobEvent, JobItem, ObjectState, Policy, StopMode};

#[tokio::test(flavor = "multi_thread")]
async fn uploads_that_no_answer_told_of_are_not_left_open() {
    let fixture = TransferFixture::new();
    let items = pair(&fixture).await;
    fixture.store.rule(Rule::always("CreateMultipartUpload", Fault::LoseReply));

    let outcomes = fixture.run(policy(), items).await;

    let failed: Vec<_> = outcomes.values().filter(|o| o.state == ObjectState::Failed).collect();
    assert_eq!(failed.len(), 1, "{outcomes:?}");
    assert!(fixture.store.count("CreateMultipartUpload") > 1, "it was tried again");
    assert_eq!(fixture.open_uploads().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_may_not_be_aborted_is_told_of() {
    let fixture = TransferFixture::new();
    let items = pair(&fixture).await;
    for operation in ["UploadPartCopy", "AbortMultipartUpload"] {
        fixture.store.rule(Rule::always(operation, Fault::Fail("AccessDenied", 403)));
    }

    let (outcomes, job) = drain(fixture.start(policy(), items)).await;

    assert_eq!(outcomes.values().filter(|o| o.state == ObjectState::Failed).count(), 1, "{outcomes:?}");
    assert_eq!(fixture.open_uploads().await, 1);
    let notes = job.notes();
    assert!(notes.iter().any(|note| note.contains("s3://target/copy/large stays open")), "{notes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_aborted_by_somebody_else_is_started_over() {
    let fixture = TransferFixture::new();
    let items = pair(&fixture).await;
    let memory = Arc::clone(&fixture.memory);
    let abort = Hook(Arc::new(move || {
        let memory = Arc::clone(&memory);
        Box::pin(async move {
            for upload in memory.list_uploads(TARGET, "").await.unwrap() {
                memory.abort_upload(UploadRef::new(TARGET, &upload.key, &upload.upload_id)).await.unwrap();
            }
        })
    }));
    fixture.store.rule(Rule::once("UploadPartCopy", Fault::Hook(abort)).part(3));

    let outcomes = fixture.run(policy(), items).await;

    assert!(outcomes.values().all(|o| o.state == ObjectState::Done), "{outcomes:?}");
    assert_whole(&fixture).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cancel_waits_for_an_upload_that_is_being_created_and_drops_it() {
    for hold in [Fault::Hold, Fault::HoldReply] {
        let fixture = TransferFixture::new();
        let item = fixture.object(1, "large", &bytes(7, 300)).await;
        let latch = Latch::default();
        fixture.store.rule(Rule::once("CreateMultipartUpload", hold(latch.clone())));
        let job = fixture.start(policy(), vec![item]);
        latch.reached().await;

        job.stop(StopMode::Cancel);
        latch.open();
        let (outcomes, _) = drain(job).await;

        assert_eq!(outcomes[&1].state, ObjectState::Cancelled);
        assert_eq!(fixture.open_uploads().await, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_was_never_acknowledged_is_not_left_to_anybody() {
    let fixture = TransferFixture::new();
    let item = fixture.object(1, "large", &bytes(7, 300)).await;
    let job = fixture.start(policy(), vec![item]);
    let job = tokio::task::spawn_blocking(move || {
        while job.wait(Duration::from_secs(5)).is_empty() {}
        job
    })
    .await
    .unwrap();
    assert_eq!(fixture.open_uploads().await, 1);

    job.stop(StopMode::Suspend);
    let (outcomes, _) = drain(job).await;

    assert!(outcomes.is_empty(), "{outcomes:?}");
    assert_eq!(fixture.open_uploads().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn cleaning_aborts_what_is_open_and_copies_nothing() {
    let fixture = TransferFixture::new();
    let items = [
        fixture.object(1, "recorded", &bytes(1, 300)).await,
        fixture.object(2, "unrecorded", &bytes(2, 300)).await,
        fixture.object(3, "plain and at once", &bytes(3, 50)).await,
    ];
    let create = |key: &'static str| {
        let upload = CreateUpload { bucket: TARGET.into(), key: key.into(), ..CreateUpload::default() };
        let memory = Arc::clone(&fixture.memory);
        async move { memory.create_upload(&upload).await.unwrap() }
    };
    let recorded = create("copy/recorded").await;
    fixture
        .memory
        .put_part(
            UploadRef::new(TARGET, "copy/recorded", &recorded),
            1,
            Bytes::from_static(b"part of ours"),
            &Digests::default(),
        )
        .await
        .unwrap();
    create("copy/unrecorded").await;
    let [first, second, third] = items;
    let items = vec![
        JobItem { upload: Some(RecordedUpload { upload_id: recorded, part_size: 50, etag: None }), ..first },
        second,
        third,
    ];

    let outcomes = fixture.run(Policy { only_clean: true, resumed: true, ..policy() }, items).await;

    assert!(outcomes.len() == 3 && outcomes.values().all(|o| o.state == ObjectState::Cancelled), "{outcomes:?}");
    assert_eq!(fixture.open_uploads().await, 0);
    assert_eq!(fixture.store.count("CopyObject") + fixture.store.count("UploadPartCopy"), 0);
    assert_eq!(fixture.read(TARGET, "copy/plain and at once").await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn cancel_stops_at_once_and_leaves_nothing_open() {
    const WIDTH: usize = 8;
    let budget = Budget::new(BudgetLimits { max_requests: WIDTH, ..BudgetLimits::default() });
    let fixture = TransferFixture { budget, ..TransferFixture::new() };
    let mut items = pair(&fixture).await;
    for id in 10..50 {
        items.push(fixture.object(id, &format!("k{id}"), &bytes(id, 300)).await);
    }
    let latch = Latch::default();
    // The first part goes through: until it has shown whether part checksums are of use, no other object begins.
    fixture.store.rule(Rule::always("UploadPartCopy", Fault::Hold(latch.clone())).after(1));
    let job = Arc::new(fixture.start(policy(), items));
    // When parts hold every permit, nothing else can begin but by a permit that the cancel gives back.
    let ended = acknowledge_until(&job, || fixture.store.count("UploadPartCopy") == WIDTH + 1).await.1;

    let asked = Instant::now();
    job.stop(StopMode::Cancel);
    latch.open();
    let outcomes = drain(Arc::into_inner(job).unwrap()).await.0;

    assert!(asked.elapsed() < Duration::from_secs(1), "{:?}", asked.elapsed());
    assert!(outcomes.values().any(|o| o.state == ObjectState::Cancelled));
    assert_eq!(outcomes.len() + ended, 42);
    assert_eq!(fixture.open_uploads().await, 0);
    assert_eq!(fixture.store.count("UploadPartCopy"), WIDTH + 1, "parts were begun after the cancel");
}

#[tokio::test(flavor = "multi_thread")]
async fn suspend_leaves_uploads_for_a_later_job() {
    let fixture = TransferFixture::new();
    let item = fixture.object(1, "large", &bytes(7, 300)).await;
    let latch = Latch::default();
    fixture.store.rule(Rule::always("UploadPartCopy", Fault::Hold(latch.clone())).after(2));
    let job = Arc::new(fixture.start(policy(), vec![item.clone()]));
    let (upload, _) = acknowledge_until(&job, || fixture.store.count("UploadPartCopy") == 6).await;

    job.stop(StopMode::Suspend);
    latch.open();
    let outcomes = drain(Arc::into_inner(job).unwrap()).await.0;

    assert!(outcomes.is_empty(), "{outcomes:?}");
    assert_eq!(fixture.open_uploads().await, 1);
    fixture.store.clear_rules();
    let outcomes = fixture.run(Policy { resumed: true, ..policy() }, vec![JobItem { upload, ..item }]).await;
    assert_eq!(outcomes[&1].state, ObjectState::Done);
    assert_eq!(fixture.read(TARGET, "copy/large").await, Some(bytes(7, 300)));
    assert_eq!(fixture.open_uploads().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_replaced_a_lost_one_and_was_never_recorded_is_dropped() {
    let fixture = TransferFixture::new();
    let item = fixture.object(1, "large", &bytes(7, 300)).await;
    let create = || {
        let upload = CreateUpload { bucket: TARGET.into(), key: "copy/large".into(), ..CreateUpload::default() };
        let memory = Arc::clone(&fixture.memory);
        async move { memory.create_upload(&upload).await.unwrap() }
    };
    let lost = create().await;
    fixture.memory.abort_upload(UploadRef::new(TARGET, "copy/large", &lost)).await.unwrap();
    create().await;
    // Another program's upload to the same key, at work: it holds a part.
    let theirs = create().await;
    fixture
        .memory
        .put_part(UploadRef::new(TARGET, "copy/large", &theirs), 1, Bytes::from_static(b"part"), &Digests::default())
        .await
        .unwrap();

    let resumed = Policy { resumed: true, ..policy() };
    let outcomes = fixture
        .run(
            resumed,
            vec![JobItem { upload: Some(RecordedUpload { upload_id: lost, part_size: 50, etag: None }), ..item }],
        )
        .await;

    assert_eq!(outcomes[&1].state, ObjectState::Done);
    let open = fixture.memory.list_uploads(TARGET, "").await.unwrap();
    assert_eq!(open.iter().map(|upload| &upload.upload_id).collect::<Vec<_>>(), [&theirs]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_found_after_a_kill_is_ours_by_the_recorded_etag_alone() {
    let fixture = TransferFixture::of(MemoryStore::new(small_limits().minimum_part).without_checksums());
    let item = fixture.object(1, "large", &bytes(7, 300)).await;
    let job = Arc::new(fixture.start(policy(), vec![item.clone()]));
    let recorded = acknowledge_until(&job, || job.is_finished()).await.0.unwrap();
    let parts = fixture.store.count("UploadPartCopy");
    let resume = async |etag: Option<&String>| {
        let upload = RecordedUpload { etag: etag.cloned(), ..recorded.clone() };
        let policy = Policy { resumed: true, if_exists: IfExists::Overwrite, ..policy() };
        let outcomes = fixture.run(policy, vec![JobItem { upload: Some(upload), ..item.clone() }]).await;
        assert_eq!(outcomes[&1].state, ObjectState::Done);
        assert_eq!(fixture.read(TARGET, "copy/large").await, Some(bytes(7, 300)));
        fixture.store.count("UploadPartCopy")
    };

    assert_eq!(resume(recorded.etag.as_ref()).await, parts, "what was finished is not repeated");
    assert_eq!(resume(None).await, 2 * parts, "it was not about to be completed");
    let theirs = fixture.object(2, "theirs", &bytes(8, 300)).await;
    let theirs = JobItem { target_key: item.target_key.clone(), ..theirs };
    fixture.run(Policy { if_exists: IfExists::Overwrite, ..policy() }, vec![theirs]).await;
    assert_eq!(resume(recorded.etag.as_ref()).await, 4 * parts, "of the same size and as many parts");
}

/// Acknowledge uploads until something has come about; the upload recorded last, and how many objects ended before.
async fn acknowledge_until(
    job: &Arc<seqferry_transfer::Job>,
    reached: impl Fn() -> bool,
) -> (Option<RecordedUpload>, usize) {
    let (mut upload, mut ended) = (None, 0);
    while !reached() {
        let waiting = Arc::clone(job);
        let events = tokio::task::spawn_blocking(move || waiting.wait(Duration::from_millis(20))).await.unwrap();
        for event in events {
            match event {
                JobEvent::RecordUpload { id, upload: recorded } => {
                    upload = Some(recorded);
                    job.acknowledge(&[id]);
                }
                JobEvent::Ended(_) => ended += 1,
            }
        }
    }
    (upload, ended)
}

#[tokio::test(flavor = "multi_thread")]
async fn no_part_starts_before_its_upload_is_recorded() {
    let fixture = TransferFixture::new();
    let items = pair(&fixture).await;
    let job = fixture.start(policy(), items);
    let (job, id) = tokio::task::spawn_blocking(move || {
        loop {
            for event in job.wait(Duration::from_secs(5)) {
                if let JobEvent::RecordUpload { id, .. } = event {
                    return (job, id);
                }
            }
        }
    })
    .await
    .unwrap();

    assert_eq!(fixture.store.count("UploadPartCopy"), 0);
    job.acknowledge(&[id]);
    drain(job).await;

    assert_eq!(fixture.store.count("UploadPartCopy"), 6);
}

#[tokio::test(flavor = "multi_thread")]
async fn few_objects_are_begun_before_their_first_request_may_start() {
    const WIDTH: usize = 8;
    let budget = Budget::new(BudgetLimits { max_requests: WIDTH, ..BudgetLimits::default() });
    let fixture = TransferFixture { budget, ..TransferFixture::new() };
    let mut items = Vec::new();
    for id in 0..1000 {
        items.push(JobItem { target_absent: true, ..fixture.object(id, &format!("k{id}"), b"small").await });
    }
    let latch = Latch::default();
    fixture.store.rule(Rule::always("CopyObject", Fault::Hold(latch.clone())));
    let job = Arc::new(fixture.start(policy(), items));
    acknowledge_until(&job, || fixture.store.count("CopyObject") == WIDTH).await;

    let begun = job.progress().objects_active;
    latch.open();
    let outcomes = drain(Arc::into_inner(job).unwrap()).await.0;

    assert!(begun <= WIDTH as u64 + 128, "{begun} begun for {WIDTH} requests");
    assert!(outcomes.len() == 1000 && outcomes.values().all(|o| o.state == ObjectState::Done));
}
