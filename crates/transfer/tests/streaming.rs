//! Objects that pass through this process: data paths, verification, faults, bounds.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::common::{self, SOURCE, ServicePair, TARGET, TransferFixture, bytes, small_limits, streaming};
use bytes::Bytes;
use seqferry_client::RecordedUpload;
use seqferry_store::checksum::base64;
use seqferry_store::prelude::*;
use seqferry_store::{
    Attributes, ChecksumAlgorithm, ChecksumKind, CompleteUpload, CompletedPart, CreateUpload, DigestAlgorithm,
    Digester, Digests, ObjectRef, PutObject, UploadRef,
};
use seqferry_store_testing::fault::{Fault, Hook, Rule};
use seqferry_store_testing::{MemoryStore, ObjectWriteExt as _};
use seqferry_transfer::verification::PartOptions;
use seqferry_transfer::{
    FailureClass, IfExists, Item, Method, Outcome, Policy, State, StopMode, VerificationLevel, VerificationRule,
};

const SIZES: [usize; 17] = [0, 1, 9, 10, 49, 50, 51, 99, 100, 101, 149, 150, 151, 499, 500, 501, 4999];

fn memory() -> MemoryStore {
    MemoryStore::new(small_limits().minimum_part)
}

fn value(algorithm: ChecksumAlgorithm, body: &[u8]) -> String {
    base64(&Digester::of(DigestAlgorithm::Checksum(algorithm), body))
}

/// A source that was written at once, with this checksum.
async fn put(fixture: &TransferFixture, id: u64, algorithm: ChecksumAlgorithm, body: &[u8]) -> Item {
    let key = format!("k{id}");
    let object = PutObject {
        bucket: SOURCE.into(),
        key: key.clone(),
        digests: Digests { checksum: Some((algorithm, value(algorithm, body))), md5: None },
        ..PutObject::default()
    };
    let written = fixture.memory.put_object(&object, Bytes::copy_from_slice(body)).await.unwrap();
    item(id, &key, body, written.etag)
}

/// A source that was written in parts.
async fn upload(
    fixture: &TransferFixture,
    id: u64,
    checksum: Option<(ChecksumAlgorithm, ChecksumKind)>,
    body: &[u8],
    part_size: usize,
) -> Item {
    let key = format!("k{id}");
    let create = CreateUpload { bucket: SOURCE.into(), key: key.clone(), checksum, ..CreateUpload::default() };
    let upload_id = fixture.memory.create_upload(&create).await.unwrap();
    let mut parts = Vec::new();
    for (number, part) in (1..).zip(body.chunks(part_size)) {
        let sent = Bytes::copy_from_slice(part);
        let sent = fixture
            .memory
            .put_part(UploadRef::new(SOURCE, &key, &upload_id), number, sent, &Digests::default())
            .await
            .unwrap();
        parts.push(CompletedPart { number, etag: sent.etag, checksum: sent.checksum });
    }
    let complete = CompleteUpload {
        bucket: SOURCE.into(),
        key: key.clone(),
        upload_id,
        parts,
        size: body.len() as u64,
        ..CompleteUpload::default()
    };
    let written = fixture.memory.complete_upload(&complete).await.unwrap();
    item(id, &key, body, written.etag)
}

fn item(id: u64, key: &str, body: &[u8], etag: String) -> Item {
    let target_key = format!("copy/{key}");
    Item { id, source_key: key.into(), target_key, size: body.len() as u64, etag, ..Item::default() }
}

async fn assert_done(services: &ServicePair, item: &Item, outcome: &Outcome, verified: VerificationLevel) {
    assert_eq!((outcome.state, outcome.method), (State::Done, Method::Stream), "{outcome:?}");
    assert_eq!(outcome.verified, verified, "{outcome:?}");
    assert!(services.is_copied(item).await, "{outcome:?}");
}

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
    let item = Item { target_absent: true, ..services.from.object(1, "k", b"small").await };

    services.run(streaming(), vec![item]).await;

    assert_eq!(services.from.store.counts().into_iter().collect::<Vec<_>>(), [("GetObject", 1)]);
    assert_eq!(services.to.store.counts().into_iter().collect::<Vec<_>>(), [("PutObject", 1)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_byte_of_a_large_object_is_read_once() {
    let services = ServicePair::new();
    let item = Item { target_absent: true, ..services.from.object(1, "k", &bytes(1, 1234)).await };

    services.run(streaming(), vec![item]).await;

    assert_eq!(services.from.store.count("GetObject"), 25);
    assert_eq!(services.to.store.count("UploadPart"), 25);
    assert_eq!(services.from.store.count("HeadObject"), 1);
    assert_eq!(services.to.store.count("HeadObject") + services.to.store.count("GetObject"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_evidence_is_used_and_named() {
    use ChecksumAlgorithm::{Crc32, Crc32C, Crc64Nvme, Sha1, Sha256};
    use ChecksumKind::{Composite, FullObject};
    let services = ServicePair::new();
    let mut items = Vec::new();
    let mut id = 0;
    for size in [1, 60, 333, 1000] {
        for algorithm in ChecksumAlgorithm::ALL {
            id += 1;
            items.push((put(&services.from, id, algorithm, &bytes(id, size)).await, algorithm, FullObject));
        }
        for (checksum, part_size) in [
            (Some((Crc64Nvme, FullObject)), 40),
            (Some((Crc32, FullObject)), 300),
            (Some((Crc32C, Composite)), 40),
            (Some((Sha256, Composite)), 60),
            // Too long to be read as one part: computed in order across several.
            (Some((Sha1, Composite)), 300),
        ] {
            id += 1;
            let (algorithm, kind) = checksum.unwrap();
            items.push((upload(&services.from, id, checksum, &bytes(id, size), part_size).await, algorithm, kind));
        }
    }

    let outcomes = services.run(streaming(), items.iter().map(|(item, ..)| item.clone()).collect()).await;

    for (item, algorithm, kind) in &items {
        let outcome = &outcomes[&item.id];
        assert_done(&services, item, outcome, VerificationLevel::Checksum).await;
        let kept = services.to.head(&item.target_key).await.checksum.unwrap();
        // The same algorithm on both sides, where it can be had: so that they can be compared later.
        if *kind == FullObject && (algorithm.spans_parts() || item.size <= 100) {
            assert_eq!(kept.algorithm, *algorithm, "{outcome:?}");
        }
    }
    // Once everything is there it is known to be the same, by headers alone.
    let again = services.run(streaming(), items.iter().map(|(item, ..)| item.clone()).collect()).await;
    for (item, algorithm, kind) in items {
        if kind == FullObject && (algorithm.spans_parts() || item.size <= 100) {
            assert_eq!(again[&item.id].state, State::Skipped, "{:?}", again[&item.id]);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn where_there_are_no_checksums_etags_prove_the_bytes() {
    let services = ServicePair::of(memory().without_checksums(), memory().without_checksums());
    let mut items = Vec::new();
    for (id, size) in (0..).zip([1, 99, 101, 500, 1234]) {
        items.push(services.from.object(id, &format!("plain{id}"), &bytes(id, size)).await);
    }
    for (id, part_size) in (10..).zip([40, 60, 300]) {
        items.push(upload(&services.from, id, None, &bytes(id, 777), part_size).await);
    }

    let outcomes = services.run(streaming(), items.clone()).await;

    for item in &items {
        assert_done(&services, item, &outcomes[&item.id], VerificationLevel::Etag).await;
    }
    // Parts that are the source's own give the target its ETag.
    assert_eq!(outcomes[&10].target_etag.as_ref(), Some(&items[5].etag));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nothing_proves_is_said_to_be_of_the_same_size_unless_more_is_asked_for() {
    for (verify, verified) in [
        (VerificationRule::Auto, VerificationLevel::Size),
        (VerificationRule::Checksum, VerificationLevel::Content),
        (VerificationRule::Content, VerificationLevel::Content),
    ] {
        let services = ServicePair::of(memory().without_checksums().with_odd_etags(), memory());
        let items =
            vec![services.from.object(1, "small", b"x").await, services.from.object(2, "large", &bytes(2, 300)).await];

        let outcomes = services.run(Policy { verify, ..streaming() }, items.clone()).await;

        for item in &items {
            assert_done(&services, item, &outcomes[&item.id], verified).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_is_read_once_and_its_checksums_are_the_targets() {
    let services = ServicePair::of(memory().as_disk(), memory());
    let items =
        vec![services.from.object(1, "small", b"x").await, services.from.object(2, "large", &bytes(2, 300)).await];

    let outcomes = services.run(streaming(), items.clone()).await;

    for item in &items {
        assert_done(&services, item, &outcomes[&item.id], VerificationLevel::Checksum).await;
        assert_eq!(outcomes[&item.id].checksum.as_ref().unwrap().algorithm, ChecksumAlgorithm::Crc64Nvme);
    }
    assert_eq!(services.from.store.count("GetObject"), 7);
    assert_eq!(services.from.store.count("GetObjectTagging"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_gets_the_time_of_the_object_and_rests_on_its_evidence() {
    let services = ServicePair::of(memory(), memory().as_disk());
    let timed = Attributes {
        metadata: [("mtime".to_owned(), "1700000000.123456789".to_owned())].into(),
        ..Attributes::default()
    };
    let body = bytes(1, 20);
    let written = services.from.memory.put(SOURCE, "timed", body.clone().into(), &timed).await.unwrap();
    let items = vec![
        item(1, "timed", &body, written.etag),
        services.from.object(2, "large", &bytes(2, 300)).await,
        upload(&services.from, 3, Some((ChecksumAlgorithm::Sha256, ChecksumKind::Composite)), &bytes(3, 200), 60).await,
    ];

    let outcomes = services.run(streaming(), items.clone()).await;

    for item in &items {
        assert_done(&services, item, &outcomes[&item.id], VerificationLevel::Checksum).await;
    }
    assert_eq!(services.to.head("copy/timed").await.attributes.metadata["mtime"], "1700000000.123456789");
    let made = services.from.memory.head(ObjectRef::new(SOURCE, "large"), None).await.unwrap().last_modified;
    let kept: f64 = services.to.head("copy/large").await.attributes.metadata["mtime"].parse().unwrap();
    assert!((made - kept).abs() < 0.001, "{made} {kept}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_of_the_same_size_and_time_is_the_same_and_is_not_read() {
    for disk_at_source in [true, false] {
        let (from, to) = if disk_at_source { (memory().as_disk(), memory()) } else { (memory(), memory().as_disk()) };
        let services = ServicePair::of(from, to);
        let items =
            vec![services.from.object(1, "small", b"x").await, services.from.object(2, "large", &bytes(2, 300)).await];
        for item in &items {
            // Not of the second in which it is downloaded.
            services.from.memory.age(SOURCE, &item.source_key, 10.0);
        }
        services.run(streaming(), items.clone()).await;
        let reads = services.from.store.count("GetObject") + services.to.store.count("GetObject");

        let again = services.run(streaming(), items.clone()).await;

        for outcome in again.values() {
            assert_eq!((outcome.state, outcome.verified), (State::Skipped, VerificationLevel::Time), "{outcome:?}");
        }
        assert_eq!(services.from.store.count("GetObject") + services.to.store.count("GetObject"), reads);
        // More than a time when more is asked for: the file is read, the object is not.
        let checked = services.run(Policy { verify: VerificationRule::Checksum, ..streaming() }, items).await;
        for outcome in checked.values() {
            assert_eq!((outcome.state, outcome.verified), (State::Skipped, VerificationLevel::Checksum), "{outcome:?}");
        }
        let (disk, service) =
            if disk_at_source { (&services.from, &services.to) } else { (&services.to, &services.from) };
        let uploaded = if disk_at_source { 7 } else { 0 };
        assert_eq!(disk.store.count("GetObject"), uploaded + 2);
        assert_eq!(service.store.count("GetObject"), if disk_at_source { 0 } else { 7 });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_of_another_time_is_read_and_copied_only_when_its_bytes_differ() {
    let services = ServicePair::of(memory().as_disk(), memory());
    let items =
        vec![services.from.object(1, "same", &bytes(1, 300)).await, services.from.object(2, "other", b"old").await];
    services.run(streaming(), items).await;
    let touched =
        |time: &str| Attributes { metadata: [("mtime".to_owned(), time.to_owned())].into(), ..Attributes::default() };
    let mut items = Vec::new();
    for (id, key, body) in [(1, "same", bytes(1, 300)), (2, "other", b"new".to_vec())] {
        let written = services.from.memory.put(SOURCE, key, body.clone().into(), &touched("17.5")).await.unwrap();
        items.push(item(id, key, &body, written.etag));
    }

    let outcomes = services.run(streaming(), items.clone()).await;

    assert_eq!((outcomes[&1].state, outcomes[&1].verified), (State::Skipped, VerificationLevel::Checksum));
    assert_eq!(outcomes[&2].state, State::Done);
    assert!(services.is_copied(&items[1]).await);
    assert_eq!(services.to.head("copy/other").await.attributes.metadata["mtime"], "17.5");
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
async fn bytes_that_change_on_the_way_never_stay_at_the_target() {
    for (from, to) in [
        (memory(), memory()),
        (memory().without_checksums(), memory()),
        (memory(), memory().without_checksums()),
        (memory().without_checksums(), memory().without_checksums()),
        (memory(), memory().as_disk()),
    ] {
        let services = ServicePair::of(from, to);
        let items = vec![
            services.from.object(1, "small", b"abc").await,
            services.from.object(2, "large", &bytes(2, 300)).await,
        ];
        services.from.store.rule(Rule::always("GetObject", Fault::Corrupt));
        let disk = !services.to.connection.store.capabilities().digests;

        let outcomes = services.run(streaming(), items.clone()).await;

        for item in &items {
            let outcome = &outcomes[&item.id];
            let kept = services.to.read(TARGET, &item.target_key).await;
            // Both sides are read again where there is only an `ETag`: if both are read wrong in the same way, they
            // look alike. A real fault does not strike the same byte twice.
            if outcome.state == State::Done {
                assert_eq!(outcome.verified, VerificationLevel::Content, "{outcome:?} {disk}");
                continue;
            }
            assert_eq!(outcome.failure.as_ref().unwrap().class, FailureClass::Mismatch, "{outcome:?}");
            assert_eq!(kept, None, "{outcome:?}");
        }
        assert_eq!(services.to.open_uploads().await, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_that_change_once_are_read_again() {
    for without in [false, true] {
        for (key, size) in [("small", 50), ("large", 300)] {
            let services = ServicePair::of(if without { memory().without_checksums() } else { memory() }, memory());
            let item = services.from.object(1, key, &bytes(1, size)).await;
            services.from.store.rule(Rule::once("GetObject", Fault::Corrupt).after(u32::from(size > 100) * 2));

            let outcomes = services.run(streaming(), vec![item.clone()]).await;

            let verified = if without { VerificationLevel::Etag } else { VerificationLevel::Checksum };
            assert_done(&services, &item, &outcomes[&1], verified).await;
            assert_eq!(outcomes[&1].attempts, 2);
            assert_eq!(services.to.open_uploads().await, 0);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_that_are_spoiled_once_on_their_way_to_the_target_are_sent_again() {
    for checks in [true, false] {
        for (key, size) in [("small", 50), ("large", 300)] {
            let services = ServicePair::of(memory(), if checks { memory() } else { memory().without_checksums() });
            let item = services.from.object(1, key, &bytes(1, size)).await;
            for operation in ["PutObject", "UploadPart"] {
                services.to.store.rule(Rule::once(operation, Fault::Corrupt));
            }

            let outcomes = services.run(streaming(), vec![item.clone()]).await;

            // Refused at once, or found out by the answers and by reading both sides.
            let verified = if checks { VerificationLevel::Checksum } else { VerificationLevel::Etag };
            assert_done(&services, &item, &outcomes[&1], verified).await;
            assert_eq!(outcomes[&1].attempts, if checks { 1 } else { 2 }, "{:?}", outcomes[&1]);
            assert_eq!(services.to.open_uploads().await, 0);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_that_are_spoiled_every_time_on_their_way_to_the_target_fail_as_a_mismatch() {
    for to in [memory(), memory().without_checksums(), memory().with_checksums(None)] {
        let services = ServicePair::of(memory(), to);
        let items = vec![
            services.from.object(1, "small", b"abc").await,
            services.from.object(2, "large", &bytes(2, 300)).await,
        ];
        for operation in ["PutObject", "UploadPart"] {
            services.to.store.rule(Rule::always(operation, Fault::Corrupt));
        }

        let outcomes = services.run(streaming(), items.clone()).await;

        for item in &items {
            let outcome = &outcomes[&item.id];
            assert_eq!(outcome.state, State::Failed, "{outcome:?}");
            let failure = outcome.failure.as_ref().unwrap();
            assert_eq!(
                (failure.class, failure.code.as_str()),
                (FailureClass::Mismatch, "ContentMismatch"),
                "{outcome:?}"
            );
            assert_eq!(services.to.read(TARGET, &item.target_key).await, None, "{outcome:?}");
        }
        assert_eq!(services.to.open_uploads().await, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn passing_faults_are_passed() {
    for (fault, operations) in [
        (Fault::Fail("InternalError", 500), vec!["GetObject", "PutObject", "UploadPart", "CreateMultipartUpload"]),
        (Fault::Fail("BadDigest", 400), vec!["PutObject", "UploadPart"]),
        (Fault::LoseReply, vec!["PutObject", "UploadPart", "CreateMultipartUpload", "CompleteMultipartUpload"]),
        (Fault::Truncate, vec!["GetObject"]),
    ] {
        let services = ServicePair::new();
        let items = vec![
            services.from.object(1, "small", b"abc").await,
            services.from.object(2, "large", &bytes(2, 300)).await,
        ];
        for operation in operations {
            services.from.store.rule(Rule::once(operation, fault.clone()).after(1).times(2));
            services.to.store.rule(Rule::once(operation, fault.clone()));
        }

        let outcomes = services.run(streaming(), items.clone()).await;

        for item in &items {
            assert_done(&services, item, &outcomes[&item.id], VerificationLevel::Checksum).await;
        }
        assert_eq!(services.to.open_uploads().await, 0, "{fault:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_changes_starts_over_and_is_never_mixed() {
    for (size, skip) in [(80, 0), (300, 3)] {
        let services = ServicePair::new();
        let item = services.from.object(1, "k", &bytes(1, size)).await;
        let memory = Arc::clone(&services.from.memory);
        let hook = Hook(Arc::new(move || {
            let memory = Arc::clone(&memory);
            Box::pin(async move {
                memory.put(SOURCE, "k", bytes(9, 280).into(), &Attributes::default()).await.unwrap();
            })
        }));
        services.from.store.rule(Rule::once("GetObject", Fault::Hook(hook)).after(skip));

        let outcomes = services.run(streaming(), vec![item.clone()]).await;

        assert_eq!((outcomes[&1].state, outcomes[&1].attempts), (State::Done, 2), "{:?}", outcomes[&1]);
        assert_eq!(services.to.read(TARGET, "copy/k").await, Some(bytes(9, 280)));
        assert_eq!(services.to.open_uploads().await, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ignored_ranges_cost_one_question_and_then_one_read_per_object() {
    let services = ServicePair::of(memory().ignoring_ranges(), memory());
    let mut items = Vec::new();
    for id in 1..=3 {
        items.push(services.from.object(id, &format!("k{id}"), &bytes(id, 1000)).await);
    }
    let items: Vec<Item> = items.into_iter().map(|item| Item { target_absent: true, ..item }).collect();

    let (outcomes, job) = common::drain(services.start(streaming(), items.clone())).await;

    for item in &items {
        assert_done(&services, item, &outcomes[&item.id], VerificationLevel::Checksum).await;
        assert_eq!(outcomes[&item.id].attempts, 1);
    }
    assert_eq!(services.from.store.count("GetObject"), 1 + 3);
    assert_eq!(services.to.store.count("UploadPart"), 3 * 20);
    assert_eq!(services.to.store.count("CreateMultipartUpload"), 3);
    let notes = job.notes();
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(notes[0].contains("Range header"), "{notes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_read_of_the_whole_that_breaks_is_begun_again_and_no_part_is_sent_twice() {
    let from = memory().ignoring_ranges().without_checksums();
    let services = ServicePair::of(from, memory());
    // Long enough to come in several chunks.
    let body = bytes(1, 200_000);
    let part_options = PartOptions { part_size: Some(5_000), copy_threshold: None };
    let item = services.from.object(1, "k", &body).await;
    services.from.store.rule(Rule::once("GetObject", Fault::Truncate).after(1));
    let limits = seqferry_transfer::CopyLimits { maximum_part: 10_000, maximum_object: 1 << 20, ..small_limits() };

    let outcomes = services.run(Policy { part_options, limits, ..streaming() }, vec![item.clone()]).await;

    assert_done(&services, &item, &outcomes[&1], VerificationLevel::Etag).await;
    assert_eq!(services.from.store.count("GetObject"), 3);
    assert_eq!(services.to.store.count("UploadPart"), 40);
}

#[tokio::test(flavor = "multi_thread")]
async fn services_that_refuse_a_checksum_get_an_older_one() {
    for (known, verified) in
        [(Some(ChecksumAlgorithm::Crc32C), VerificationLevel::Checksum), (None, VerificationLevel::Etag)]
    {
        let services = ServicePair::of(memory(), memory().with_checksums(known));
        let items = vec![
            services.from.object(1, "small", b"abc").await,
            services.from.object(2, "large", &bytes(2, 300)).await,
        ];

        let outcomes = services.run(streaming(), items.clone()).await;

        for item in &items {
            assert_done(&services, item, &outcomes[&item.id], verified).await;
        }
        assert_eq!(services.to.open_uploads().await, 0);
    }
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
    // Bytes that were asked for and not yet taken by the target.
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
    assert!(failure.message.contains("--memory"), "{failure}");
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
        .run(resumed, vec![Item { upload: Some(RecordedUpload { upload_id, part_size: PART as u64 }), ..item.clone() }])
        .await;

    assert_eq!(outcomes[&1].state, State::Done, "{:?}", outcomes[&1]);
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
            while !job.finished() {
                for event in job.wait(Duration::from_millis(10)) {
                    if let seqferry_transfer::Event::MultipartBegun { id, .. } = event {
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

#[tokio::test(flavor = "multi_thread")]
async fn random_faults_on_both_sides_end_every_object_verified_or_failed() {
    for to in [memory(), memory().without_checksums()] {
        random_faults(ServicePair::of(memory(), to)).await;
    }
}

async fn random_faults(services: ServicePair) {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut items = Vec::new();
    for id in 0..200 {
        items.push(
            services.from.object(id, &format!("k{id}"), &bytes(id, usize::try_from(id * 7 % 450).unwrap())).await,
        );
    }
    let faults = vec![
        Fault::Fail("InternalError", 500),
        Fault::Fail("RequestTimeout", 400),
        Fault::LoseReply,
        Fault::Truncate,
        Fault::Corrupt,
        Fault::Delay(Duration::from_millis(1)),
    ];
    services.from.store.at_random(seed, 0.1, faults.clone());
    services.to.store.at_random(seed ^ 1, 0.1, faults);

    let outcomes = services.run(streaming(), items.clone()).await;

    assert_eq!(outcomes.len(), 200);
    for item in &items {
        let outcome = &outcomes[&item.id];
        match outcome.state {
            State::Done => assert!(services.is_copied(item).await, "seed {seed}: {outcome:?}"),
            State::Failed => {
                let class = outcome.failure.as_ref().unwrap().class.word();
                assert!(matches!(class, "retry" | "throttle" | "mismatch"), "seed {seed}: {outcome:?}");
                assert_ne!(services.to.read(TARGET, &item.target_key).await.map(|b| b.len() as u64), Some(item.size));
            }
            other => panic!("seed {seed}: {other:?}"),
        }
    }
    assert_eq!(services.to.open_uploads().await, 0, "seed {seed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_comes_to_the_target_meanwhile_is_not_replaced_where_nothing_is_to_be() {
    for (size, refuses) in [(50, false), (300, false), (50, true), (300, true)] {
        for (if_exists, expected) in [(IfExists::Skip, State::Skipped), (IfExists::Fail, State::Failed)] {
            let services = ServicePair::new();
            let item = services.from.object(1, "k", &bytes(1, size)).await;
            let memory = Arc::clone(&services.to.memory);
            let theirs = Fault::Hook(Hook(Arc::new(move || {
                let memory = Arc::clone(&memory);
                Box::pin(async move {
                    memory.put(TARGET, "copy/k", Bytes::from_static(b"theirs"), &Attributes::default()).await.unwrap();
                })
            })));
            // The target was looked at by then, and the bytes are on their way.
            services.from.store.rule(Rule::once("GetObject", theirs));
            if refuses {
                // A service that does not know the condition: the write then follows one more look at the target.
                let operation = if size == 50 { "PutObject" } else { "CompleteMultipartUpload" };
                services.to.store.rule(Rule::once(operation, Fault::Fail("NotImplemented", 501)));
            }

            let outcomes = services.run(Policy { if_exists, ..streaming() }, vec![item]).await;

            let outcome = &outcomes[&1];
            assert_eq!(outcome.state, expected, "{outcome:?}");
            if let Some(failure) = &outcome.failure {
                assert_eq!(failure.code, "TargetExists");
            }
            assert_eq!(services.to.read(TARGET, "copy/k").await, Some(b"theirs".to_vec()));
            assert_eq!(services.to.open_uploads().await, 0);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_may_be_at_a_target_that_cannot_be_read_fails_where_conditions_are_refused() {
    for if_exists in [IfExists::Same, IfExists::Skip, IfExists::Fail] {
        let services = ServicePair::new();
        let mut items = Vec::new();
        for (id, size) in (1..).zip([50, 300, 50, 300]) {
            items.push(services.from.object(id, &format!("k{id}"), &bytes(id, size)).await);
        }
        services.to.store.rule(Rule::always("HeadObject", Fault::Fail("Forbidden", 403)));
        for operation in ["PutObject", "CompleteMultipartUpload"] {
            services.to.store.rule(Rule::always(operation, Fault::Fail("NotImplemented", 501)));
        }

        let outcomes = services.run(Policy { if_exists, ..streaming() }, items).await;

        for outcome in outcomes.values() {
            let failure = outcome.failure.as_ref().unwrap();
            assert_eq!((outcome.state, failure.class), (State::Failed, FailureClass::Exists), "{outcome:?}");
            assert_eq!(failure.code, "TargetUnreadable");
            assert!(failure.message.contains("s3:GetObject"), "{failure}");
        }
        assert_eq!(services.to.open_uploads().await, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_small_object_made_of_parts_is_known_again() {
    for part_size in [40, 80] {
        let services = ServicePair::of(memory().without_checksums(), memory().without_checksums());
        let item = upload(&services.from, 1, None, &bytes(1, 80), part_size).await;

        let first = services.run(streaming(), vec![item.clone()]).await;
        let second = services.run(Policy { if_exists: IfExists::Same, ..streaming() }, vec![item]).await;

        assert_eq!(first[&1].state, State::Done, "{first:?}");
        assert_eq!((second[&1].state, second[&1].verified), (State::Skipped, VerificationLevel::Etag), "{second:?}");
    }
}
