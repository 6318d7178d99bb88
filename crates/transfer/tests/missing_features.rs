//! Features that a service lacks: it is asked once, and objects are copied in another way.

use crate::common::pairs::pair;
use crate::common::{SOURCE, TARGET, TransferFixture, bytes, drain, policy, small_limits};
use bytes::Bytes;
use seqferry_client::RecordedUpload;
use seqferry_store::prelude::*;
use seqferry_store::{
    ChecksumAlgorithm, ChecksumKind, CompleteUpload, CompletedPart, CreateUpload, Digests, ObjectRef, PinnedObject,
    Range, UploadRef,
};
use seqferry_store_testing::MemoryStore;
use seqferry_store_testing::fault::{Fault, Rule};
use seqferry_transfer::{CopyMethod, JobItem, ObjectState, Policy, VerificationLevel};

#[tokio::test(flavor = "multi_thread")]
async fn tags_that_may_not_be_read_are_reported_and_the_bytes_copied() {
    let fixture = TransferFixture::new();
    let items = pair(&fixture).await;
    fixture.memory.put_tags(ObjectRef::new(SOURCE, "large"), &[("a".into(), "b".into())]).await.unwrap();
    fixture.store.rule(Rule::always("GetObjectTagging", Fault::Fail("AccessDenied", 403)));

    let outcomes = fixture.run(policy(), items).await;

    assert_eq!(outcomes[&1].state, ObjectState::Done);
    assert!(outcomes[&1].not_carried[0].contains("1 tags: AccessDenied"), "{:?}", outcomes[&1].not_carried);
}

/// Creations, copies of parts and abortions that it took to copy 30 objects of 6 parts.
async fn cost_of_thirty(memory: MemoryStore) -> [usize; 3] {
    let fixture = TransferFixture::of(memory);
    let mut items = Vec::new();
    for id in 0..30 {
        items.push(fixture.object(id, &format!("object-{id}"), &bytes(id, 300)).await);
    }

    let outcomes = fixture.run(policy(), items).await;

    assert!(outcomes.values().all(|outcome| outcome.state == ObjectState::Done), "{outcomes:?}");
    for id in 0..30 {
        assert_eq!(fixture.read(TARGET, &format!("copy/object-{id}")).await, Some(bytes(id, 300)));
    }
    ["CreateMultipartUpload", "UploadPartCopy", "AbortMultipartUpload"].map(|operation| fixture.store.count(operation))
}

#[tokio::test(flavor = "multi_thread")]
async fn one_part_finds_out_that_part_checksums_are_useless() {
    let minimum = small_limits().minimum_part;

    let [begun, copied, aborted] = cost_of_thirty(MemoryStore::new(minimum).with_whole_checksums_of_parts()).await;
    assert_eq!((begun, copied, aborted), (31, 181, 1));
    assert_eq!(cost_of_thirty(MemoryStore::new(minimum)).await, [30, 180, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_refuses_part_copies_for_their_missing_checksums_is_asked_once() {
    let memory = MemoryStore::new(small_limits().minimum_part).requiring_part_checksums();

    assert_eq!(cost_of_thirty(memory).await, [31, 181, 1]);
}

/// A source of six parts of 50 bytes, with a checksum of this kind or none, as clients upload it.
async fn made_of_parts(fixture: &TransferFixture, id: u64, kind: impl Into<Option<ChecksumKind>>) -> JobItem {
    let (key, body) = (format!("parts-{id}"), bytes(id, 300));
    let checksum = kind.into().map(|kind| (ChecksumAlgorithm::Crc32, kind));
    let upload = CreateUpload { bucket: SOURCE.into(), key: key.clone(), checksum, ..CreateUpload::default() };
    let upload_id = fixture.memory.create_upload(&upload).await.unwrap();
    let mut parts = Vec::new();
    for (number, part) in (1..).zip(body.chunks(50)) {
        let body = Bytes::copy_from_slice(part);
        let sent = fixture
            .memory
            .put_part(UploadRef::new(SOURCE, &key, &upload_id), number, body, &Digests::default())
            .await
            .unwrap();
        parts.push(CompletedPart { number, etag: sent.etag, checksum: sent.checksum });
    }
    let upload = CompleteUpload { bucket: SOURCE.into(), key: key.clone(), upload_id, parts, ..Default::default() };
    let etag = fixture.memory.complete_upload(&upload).await.unwrap().etag;
    JobItem { id, target_key: format!("copy/{key}"), source_key: key, size: 300, etag, ..JobItem::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn where_a_copy_keeps_the_etag_an_object_of_many_parts_is_copied_in_one_request() {
    for truly in [true, false] {
        let memory = MemoryStore::new(small_limits().minimum_part).without_checksums().keeping_copied_etags(truly);
        let fixture = TransferFixture::of(memory);
        let items = [made_of_parts(&fixture, 1, None).await, made_of_parts(&fixture, 2, None).await];

        for item in items {
            let outcome = fixture.run(policy(), vec![item.clone()]).await.remove(&item.id).expect("an outcome");

            let method = if truly { CopyMethod::Copy } else { CopyMethod::Multipart };
            assert_eq!((outcome.state, outcome.method), (ObjectState::Done, method), "{outcome:?}");
            assert_eq!(outcome.verified, VerificationLevel::Etag, "{outcome:?}");
            assert_eq!(outcome.target_etag.as_ref(), Some(&item.etag));
            assert_eq!(fixture.read(TARGET, &item.target_key).await, Some(bytes(item.id, 300)));
        }
        // A service that does not do what its name says is believed once.
        assert_eq!(fixture.store.count("CopyObject"), if truly { 2 } else { 1 });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn where_copies_of_parts_keep_no_checksum_the_boundaries_of_the_source_prove_them() {
    let fixture = TransferFixture::of(MemoryStore::new(small_limits().minimum_part).requiring_part_checksums());
    let items = [
        made_of_parts(&fixture, 1, ChecksumKind::FullObject).await,
        made_of_parts(&fixture, 2, ChecksumKind::Composite).await,
    ];

    let outcomes = fixture.run(policy(), items.to_vec()).await;

    for item in &items {
        let outcome = &outcomes[&item.id];
        assert_eq!((outcome.state, outcome.verified), (ObjectState::Done, VerificationLevel::Etag), "{outcome:?}");
        assert_eq!(outcome.target_etag.as_ref(), Some(&item.etag));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_without_a_checksum_is_gone_on_with_by_a_process_that_knows_nothing_of_the_service() {
    let fixture = TransferFixture::of(MemoryStore::new(small_limits().minimum_part).requiring_part_checksums());
    let item = fixture.object(1, "large", &bytes(7, 300)).await;
    let upload = CreateUpload { bucket: TARGET.into(), key: "copy/large".into(), ..CreateUpload::default() };
    let recorded = fixture.memory.create_upload(&upload).await.unwrap();
    let source =
        PinnedObject { bucket: SOURCE.into(), key: "large".into(), version_id: None, if_match: None, size: 50 };
    for part in [1, 2] {
        let first = u64::from(part - 1) * 50;
        let range = Range { first, last: first + 49 };
        fixture.memory.copy_part(&source, range, UploadRef::new(TARGET, "copy/large", &recorded), part).await.unwrap();
    }

    let item = JobItem { upload: Some(RecordedUpload { upload_id: recorded, part_size: 50, etag: None }), ..item };
    let outcomes = fixture.run(Policy { resumed: true, ..policy() }, vec![item]).await;

    assert_eq!(outcomes[&1].state, ObjectState::Done, "{outcomes:?}");
    assert_eq!(fixture.read(TARGET, "copy/large").await, Some(bytes(7, 300)));
    assert_eq!((fixture.store.count("CreateMultipartUpload"), fixture.store.count("UploadPartCopy")), (0, 4));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_service_does_not_offer_is_asked_for_once_and_named() {
    let fixture = TransferFixture::of(MemoryStore::new(small_limits().minimum_part).without_sub_resources());
    let resumed = Policy { resumed: true, ..policy() };
    let first = fixture.object(0, "object-0", &bytes(0, 300)).await;
    let (outcomes, job) = drain(fixture.start(resumed.clone(), vec![first])).await;
    let mut items = Vec::new();
    for id in 1..10 {
        items.push(fixture.object(id, &format!("object-{id}"), &bytes(id, 300)).await);
    }

    let more = fixture.run(resumed, items).await;

    assert!(
        outcomes.values().chain(more.values()).all(|outcome| {
            outcome.state == ObjectState::Done && outcome.not_carried.is_empty() && outcome.retries == 0
        }),
        "{outcomes:?} {more:?}"
    );
    let notes = job.notes().join(" ");
    for operation in ["GetObjectTagging", "ListMultipartUploads"] {
        assert_eq!(fixture.store.count(operation), 1, "{operation}");
        assert!(notes.contains(operation), "{notes}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn parts_that_are_taken_for_uploads_pass_through_this_process() {
    let fixture = TransferFixture::new();
    fixture.store.rule(Rule::always("UploadPartCopy", Fault::Fail("UnexpectedAnswer", 200)));
    let item = fixture.object(1, "large", &bytes(7, 300)).await;

    let outcomes = fixture.run(policy(), vec![item]).await;

    let outcome = &outcomes[&1];
    assert_eq!(
        (outcome.state, outcome.method, outcome.retries),
        (ObjectState::Done, CopyMethod::Stream, 0),
        "{outcome:?}"
    );
    assert_eq!(fixture.read(TARGET, "copy/large").await, Some(bytes(7, 300)));
    assert_eq!(fixture.open_uploads().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_upload_from_before_part_checksums_were_known_to_be_useless_is_not_gone_on_with() {
    let fixture = TransferFixture::of(MemoryStore::new(small_limits().minimum_part).with_whole_checksums_of_parts());
    assert!(fixture.connection.quirks.learn_useless_part_checksums());
    let item = fixture.object(1, "large", &bytes(7, 300)).await;
    let upload = CreateUpload {
        bucket: TARGET.into(),
        key: "copy/large".into(),
        checksum: Some((ChecksumAlgorithm::Crc64Nvme, ChecksumKind::FullObject)),
        ..CreateUpload::default()
    };
    let old = fixture.memory.create_upload(&upload).await.unwrap();

    let outcomes = fixture
        .run(
            Policy { resumed: true, ..policy() },
            vec![JobItem { upload: Some(RecordedUpload { upload_id: old, part_size: 50, etag: None }), ..item }],
        )
        .await;

    assert_eq!(outcomes[&1].state, ObjectState::Done, "{outcomes:?}");
    assert_eq!(fixture.read(TARGET, "copy/large").await, Some(bytes(7, 300)));
    assert_eq!((fixture.store.count("CreateMultipartUpload"), fixture.open_uploads().await), (1, 0));
}
