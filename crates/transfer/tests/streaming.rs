//! Objects that pass through this process: data paths, memory, and how they end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::common::streams::assert_done;
use crate::common::{self, SOURCE, ServicePair, TARGET, TransferFixture, bytes, small_limits, streaming};
use bytes::Bytes;
use seqferry_client::RecordedUpload;
use seqferry_store::prelude::*;
use seqferry_store::{ChecksumAlgorithm, ChecksumKind, CreateUpload, Digests, ObjectRef, UploadRef};
use seqferry_store_testing::MemoryStore;
use seqferry_store_testing::fault::{Fault, Hook, Latch, Rule};
use seqferry_transfer::{IfExists, JobItem, ObjectState, Policy, StopMode, VerificationLevel};

const SIZES: [usize; 17] = [0, 1, 9, 10, 49, 50, 51, 99, 100, 101, 149, 150, 151, 499, 500, 501, 4999];

#[tokio::test(flavor = "multi_thread")]
async fn objects_of_all_sizes_arrive_whole_and_proven() {
    let services = ServicePair::new();
    let mut items = Vec::new();
    for (id, size) in (0..).zip(SIZES) {
        items.push(services.from.object(id, &format!("k{size}"), &bytes(size as u64, size)).await);
    }

    let outcomes = services.run(streaming(), items.clone()).await;

    for item in &items {
        let outcome = &outcomes[&item.id];
        assert_done(&services, item, outcome, VerificationLevel::Checksum).await;
        let head = services.to.head(&item.target_key).await;
        assert_eq!(head.attributes.metadata["sample"], item.source_key);
        assert_eq!(head.attributes.content_type.as_deref(), Some("application/gzip"));
        assert_eq!(outcome.target_etag.as_ref(), Some(&head.etag));
        assert_eq!(outcome.checksum, head.checksum);
        assert_eq!(head.etag.contains('-'), item.size > 100, "{}", item.size);
    }
    assert_eq!(services.to.open_uploads().await, 0);
    assert_eq!(services.to.store.count("CopyObject") + services.to.store.count("UploadPartCopy"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_small_object_costs_one_read_and_one_write() {
    let services = ServicePair::new();
    let item = JobItem { target_absent: true, ..services.from.object(1, "k", b"small").await };

    services.run(streaming(), vec![item]).await;

    assert_eq!(services.from.store.counts().into_iter().collect::<Vec<_>>(), [("GetObject", 1)]);
    assert_eq!(services.to.store.counts().into_iter().collect::<Vec<_>>(), [("PutObject", 1)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_byte_of_a_large_object_is_read_once() {
    let services = ServicePair::new();
    let item = JobItem { target_absent: true, ..services.from.object(1, "k", &bytes(1, 1234)).await };

    services.run(streaming(), vec![item]).await;

    assert_eq!(services.from.store.count("GetObject"), 25);
    assert_eq!(services.to.store.count("UploadPart"), 25);
    assert_eq!(services.from.store.count("HeadObject"), 1);
    assert_eq!(services.to.store.count("HeadObject") + services.to.store.count("GetObject"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_head_of_the_first_answer_shows_that_ranges_are_honoured() {
    let services = ServicePair::new();
    let item = JobItem { target_absent: true, ..services.from.object(1, "k", &bytes(1, 1234)).await };
    let (first, second) = (Latch::default(), Latch::default());
    services.from.store.rule(Rule::once("GetObject", Fault::HoldBody(first.clone())));
    services.from.store.rule(Rule::once("GetObject", Fault::Hold(second.clone())));
    let job = services.start(streaming(), vec![item.clone()]);

    let (outcomes, _job) = tokio::join!(common::drain(job), async {
        // The bytes of the first range are not there yet.
        second.reached().await;
        second.open();
        first.open();
    })
    .0;

    assert_done(&services, &item, &outcomes[&1], VerificationLevel::Checksum).await;
    assert_eq!(services.from.store.count("GetObject"), 25);
}

/// The item, looked up a moment before by a HEAD that took so long.
async fn looked_up(services: &ServicePair, item: &JobItem, latency: Duration) {
    let object = ObjectRef::new(SOURCE, &item.source_key);
    let meta = services.from.memory.head(object, None).await.unwrap();
    services.from.connection.quirks.note_head(object, &meta, latency);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_was_just_looked_up_costs_no_other_head() {
    let services = ServicePair::new();
    let item = JobItem { target_absent: true, ..services.from.object(1, "k", &bytes(1, 1234)).await };
    looked_up(&services, &item, Duration::ZERO).await;

    let outcomes = services.run(streaming(), vec![item.clone()]).await;

    assert_done(&services, &item, &outcomes[&1], VerificationLevel::Checksum).await;
    assert_eq!(services.from.store.count("HeadObject"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_looked_up_does_not_count_after_the_object_was_replaced() {
    let services = ServicePair::new();
    let before = services.from.object(1, "k", &bytes(1, 1234)).await;
    looked_up(&services, &before, Duration::ZERO).await;
    let item = JobItem { target_absent: true, ..services.from.object(1, "k", &bytes(2, 1234)).await };

    let outcomes = services.run(streaming(), vec![item.clone()]).await;

    assert_done(&services, &item, &outcomes[&1], VerificationLevel::Checksum).await;
    assert_eq!(services.from.store.count("HeadObject"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_small_object_far_away_is_read_by_several_requests_and_written_by_one() {
    let services = ServicePair::new();
    let item = JobItem { target_absent: true, ..services.from.object(1, "k", &bytes(1, 100)).await };
    looked_up(&services, &item, Duration::from_millis(30)).await;

    let outcomes = services.run(streaming(), vec![item.clone()]).await;

    assert_done(&services, &item, &outcomes[&1], VerificationLevel::Checksum).await;
    assert_eq!(services.from.store.counts().into_iter().collect::<Vec<_>>(), [("GetObject", 4)]);
    assert_eq!(services.to.store.counts().into_iter().collect::<Vec<_>>(), [("PutObject", 1)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_small_object_far_away_is_read_whole_where_ranges_are_ignored() {
    let services = ServicePair::of(common::streams::memory().ignoring_ranges(), common::streams::memory());
    let item = JobItem { target_absent: true, ..services.from.object(1, "k", &bytes(1, 100)).await };
    looked_up(&services, &item, Duration::from_millis(30)).await;

    let outcomes = services.run(streaming(), vec![item.clone()]).await;

    assert_done(&services, &item, &outcomes[&1], VerificationLevel::Checksum).await;
    assert_eq!(outcomes[&1].attempts, 1);
    assert_eq!(services.to.store.count("PutObject"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn tags_and_storage_class_travel() {
    let services = ServicePair::new();
    let items =
        vec![services.from.object(1, "small", b"x").await, services.from.object(2, "large", &bytes(2, 300)).await];
    let tags = [("a b".to_owned(), "c&d".to_owned()), ("e".to_owned(), String::new())];
    for item in &items {
        services.from.memory.put_tags(ObjectRef::new(SOURCE, &item.source_key), &tags).await.unwrap();
    }

    let outcomes = services.run(Policy { storage_class: Some("STANDARD_IA".into()), ..streaming() }, items).await;

    for key in ["copy/small", "copy/large"] {
        assert_eq!(services.to.memory.get_tags(ObjectRef::new(TARGET, key)).await.unwrap(), tags);
        assert_eq!(services.to.head(key).await.storage_class.as_deref(), Some("STANDARD_IA"));
    }
    assert!(outcomes.values().all(|outcome| outcome.not_carried.is_empty()));
}

#[tokio::test(flavor = "multi_thread")]
async fn copies_that_are_refused_are_streamed_and_the_way_is_remembered() {
    for (code, status) in [("AccessDenied", 403), ("NoSuchBucket", 404), ("NoSuchKey", 404), ("NotImplemented", 501)] {
        let services = ServicePair::new();
        let mut items = Vec::new();
        for id in 0..20 {
            items
                .push(services.from.object(id, &format!("k{id}"), &bytes(id, 20 * usize::try_from(id).unwrap())).await);
        }
        for operation in ["CopyObject", "UploadPartCopy"] {
            services.to.store.rule(Rule::always(operation, Fault::Fail(code, status)));
        }

        let outcomes = services.run(common::policy(), items.clone()).await;
        let asked = services.to.store.count("CopyObject") + services.to.store.count("UploadPartCopy");
        let again = services.run(Policy { if_exists: IfExists::Overwrite, ..common::policy() }, items.clone()).await;

        for item in &items {
            assert_done(&services, item, &outcomes[&item.id], VerificationLevel::Checksum).await;
            assert_done(&services, item, &again[&item.id], VerificationLevel::Checksum).await;
        }
        assert_eq!(services.to.store.count("CopyObject") + services.to.store.count("UploadPartCopy"), asked, "{code}");
        assert_eq!(services.to.open_uploads().await, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_that_streaming_cannot_help_stays_one() {
    let fixture = TransferFixture::new();
    let item = fixture.object(1, "k", b"abc").await;
    fixture.store.rule(Rule::always("CopyObject", Fault::Fail("AccessDenied", 403)));

    // Both sides have the same credentials: they may write no object that they may not copy.
    let outcomes = fixture.run(common::policy(), vec![item]).await;

    assert_eq!(outcomes[&1].failure.as_ref().unwrap().code, "AccessDenied");
    assert_eq!(fixture.store.count("GetObject"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn never_more_bytes_are_held_than_the_budget_allows() {
    const MEMORY: u64 = 40 << 12;
    // Parts of one unit of memory: the gauge sees what the budget counts.
    let unit = 1 << 12;
    let services = ServicePair::of(MemoryStore::new(10), MemoryStore::new(10)).with_memory(MEMORY);
    let limits = seqferry_transfer::CopyLimits {
        maximum_part: unit,
        maximum_parts: 10_000,
        maximum_object: 1 << 30,
        stream_part: unit,
        stream_part_grown: unit,
        stream_threshold: unit,
        ..small_limits()
    };
    let mut items = Vec::new();
    for id in 0..12 {
        items.push(
            services.from.object(id, &format!("k{id}"), &bytes(id, 4096 * (1 + 25 * usize::from(id % 3 != 0)))).await,
        );
    }
    // Bytes that were requested and not yet taken by the target.
    let (held, most) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (held_by_reads, seen) = (Arc::clone(&held), Arc::clone(&most));
    let read = Hook(Arc::new(move || {
        let now = held_by_reads.fetch_add(unit, Ordering::Relaxed) + unit;
        seen.fetch_max(now, Ordering::Relaxed);
        Box::pin(async {})
    }));
    let written = Hook(Arc::new(move || {
        let held = Arc::clone(&held);
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(1)).await;
            held.fetch_sub(unit, Ordering::Relaxed);
        })
    }));
    services.from.store.rule(Rule::always("GetObject", Fault::Hook(read)));
    services.to.store.rule(Rule::always("UploadPart", Fault::Hook(written.clone())));
    services.to.store.rule(Rule::always("PutObject", Fault::Hook(written)));

    let outcomes = services.run(Policy { limits, ..streaming() }, items.clone()).await;

    for item in &items {
        assert_done(&services, item, &outcomes[&item.id], VerificationLevel::Checksum).await;
    }
    let most = most.load(Ordering::Relaxed);
    assert!(most <= MEMORY, "{most}");
    assert!(most > MEMORY / 2, "the budget was not used: {most}");
}

#[tokio::test(flavor = "multi_thread")]
async fn parts_that_do_not_fit_into_memory_are_refused_with_advice() {
    let services = ServicePair::new().with_memory(4096);
    let item = services.from.object(1, "k", &bytes(1, 20_000)).await;
    let limits = seqferry_transfer::CopyLimits { maximum_part: 10_000, maximum_parts: 3, ..small_limits() };

    let outcomes = services.run(Policy { limits, ..streaming() }, vec![item]).await;

    let failure = outcomes[&1].failure.as_ref().unwrap();
    assert_eq!(failure.code, "PartTooLarge");
    assert!(failure.message.contains("raise_memory"), "{failure}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_whose_parts_just_fit_into_memory_is_kept_when_it_is_resumed() {
    const PART: usize = 3000;
    let services = ServicePair::new().with_memory(4096);
    let content = bytes(1, 3 * PART);
    let item = services.from.object(1, "k", &content).await;
    let create = CreateUpload {
        bucket: TARGET.into(),
        key: item.target_key.clone(),
        checksum: Some((ChecksumAlgorithm::Crc64Nvme, ChecksumKind::FullObject)),
        ..CreateUpload::default()
    };
    let upload_id = services.to.memory.create_upload(&create).await.unwrap();
    let first = Bytes::copy_from_slice(&content[..PART]);
    services
        .to
        .memory
        .put_part(UploadRef::new(TARGET, &item.target_key, &upload_id), 1, first, &Digests::default())
        .await
        .unwrap();
    let limits = seqferry_transfer::CopyLimits { maximum_part: PART as u64, maximum_parts: 3, ..small_limits() };
    let resumed = Policy { limits, resumed: true, ..streaming() };

    let outcomes = services
        .run(
            resumed,
            vec![JobItem {
                upload: Some(RecordedUpload { upload_id, part_size: PART as u64, etag: None }),
                ..item.clone()
            }],
        )
        .await;

    assert_eq!(outcomes[&1].state, ObjectState::Done, "{:?}", outcomes[&1]);
    assert!(services.is_copied(&item).await);
    assert_eq!((services.to.store.count("CreateMultipartUpload"), services.to.store.count("UploadPart")), (0, 2));
    assert_eq!(services.to.open_uploads().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_stream_leaves_nothing_behind() {
    let services = ServicePair::new();
    let mut items = Vec::new();
    for id in 0..10 {
        items.push(services.from.object(id, &format!("k{id}"), &bytes(id, 600)).await);
    }
    let latch = seqferry_store_testing::fault::Latch::default();
    services.to.store.rule(Rule::always("UploadPart", Fault::Hold(latch.clone())).after(15));
    let job = services.start(streaming(), items);
    let (job, reached) = (Arc::new(job), latch.clone());
    let acknowledging = {
        let job = Arc::clone(&job);
        tokio::task::spawn_blocking(move || {
            while !job.is_finished() {
                for event in job.wait(Duration::from_millis(10)) {
                    if let seqferry_transfer::JobEvent::RecordUpload { id, .. } = event {
                        job.acknowledge(&[id]);
                    }
                }
            }
        })
    };
    reached.reached().await;

    job.stop(StopMode::Cancel);
    latch.open();
    acknowledging.await.unwrap();

    assert_eq!(services.to.open_uploads().await, 0);
    assert_eq!(services.to.budget.memory_reserved(), 0);
}
