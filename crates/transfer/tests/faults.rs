//! Faults on the way: every object ends verified, or failed with the right class, and nothing is left behind.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::common::{SOURCE, TARGET, TransferFixture, bytes, drain, policy, small_limits};
use bytes::Bytes;
use seqferry_client::RecordedUpload;
use seqferry_client::{Budget, BudgetLimits};
use seqferry_store::prelude::*;
use seqferry_store::{
    Attributes, ChecksumAlgorithm, ChecksumKind, CompleteUpload, CompletedPart, CreateUpload, Digests, ObjectRef,
    PinnedObject, Range, UploadRef,
};
use seqferry_store_testing::fault::{Fault, Hook, Latch, Rule};
use seqferry_store_testing::{MemoryStore, ObjectWriteExt as _};
use seqferry_transfer::{
    Event, FailureClass, IfExists, Item, Method, Policy, State, StopMode, VerificationLevel, VerificationRule,
};

const FLAVOURS: [(&str, usize); 2] = [("small", 80), ("large", 300)];

async fn pair(fixture: &TransferFixture) -> Vec<Item> {
    let mut items = Vec::new();
    for (id, (key, size)) in FLAVOURS.into_iter().enumerate() {
        items.push(fixture.object(id as u64, key, &bytes(7, size)).await);
    }
    items
}

async fn assert_whole(fixture: &TransferFixture) {
    for (key, size) in FLAVOURS {
        assert_eq!(fixture.read(TARGET, &format!("copy/{key}")).await, Some(bytes(7, size)), "{key}");
    }
    assert_eq!(fixture.open_uploads().await, 0, "open uploads are left");
}

#[tokio::test(flavor = "multi_thread")]
async fn passing_failures_of_every_request_are_retried() {
    for operation in ["CopyObject", "HeadObject", "CreateMultipartUpload", "UploadPartCopy", "CompleteMultipartUpload"]
    {
        for (code, status) in
            [("InternalError", 500), ("SlowDown", 503), ("RequestTimeout", 400), ("ConnectionFailed", 0)]
        {
            let fixture = TransferFixture::new();
            let items = pair(&fixture).await;
            fixture.store.rule(Rule::once(operation, Fault::Fail(code, status)).times(3));

            let outcomes = fixture.run(policy(), items).await;

            assert!(outcomes.values().all(|o| o.state == State::Done), "{operation} {code}: {outcomes:?}");
            assert!(outcomes.values().map(|o| o.retries).sum::<u32>() >= 3);
            assert_whole(&fixture).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_reply_does_no_harm() {
    for operation in ["CopyObject", "CreateMultipartUpload", "UploadPartCopy", "CompleteMultipartUpload"] {
        let fixture = TransferFixture::new();
        let items = pair(&fixture).await;
        fixture.store.rule(Rule::once(operation, Fault::LoseReply));

        let outcomes = fixture.run(policy(), items).await;

        assert!(outcomes.values().all(|o| o.state == State::Done), "{operation}: {outcomes:?}");
        assert_whole(&fixture).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_never_passes_fails_with_its_class_and_leaves_no_upload() {
    for (operation, code, status, class) in [
        ("UploadPartCopy", "InternalError", 500, "retry"),
        ("UploadPartCopy", "SlowDown", 503, "throttle"),
        ("UploadPartCopy", "AccessDenied", 403, "person"),
        ("CreateMultipartUpload", "NotImplemented", 501, "capability"),
        ("CompleteMultipartUpload", "InternalError", 500, "retry"),
        ("CompleteMultipartUpload", "InvalidPart", 400, "object"),
        ("CreateMultipartUpload", "AccessDenied", 403, "person"),
        ("CopyObject", "KMS.DisabledException", 400, "person"),
        ("CopyObject", "InvalidObjectState", 403, "person"),
    ] {
        let fixture = TransferFixture::new();
        let items = pair(&fixture).await;
        fixture.store.rule(Rule::always(operation, Fault::Fail(code, status)));

        let outcomes = fixture.run(policy(), items).await;

        let failed: Vec<_> = outcomes.values().filter_map(|o| o.failure.as_ref()).collect();
        assert_eq!(failed.len(), 1, "{operation} {code}: {outcomes:?}");
        assert_eq!((failed[0].class.word(), failed[0].code.as_str()), (class, code));
        assert!(
            failed[0].message.contains(operation) && failed[0].message.contains("s3://target/copy/"),
            "{}",
            failed[0].message
        );
        assert_eq!(fixture.open_uploads().await, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_wide_failure_stops_the_job_and_is_no_objects_fault() {
    for (code, status) in
        [("InvalidAccessKeyId", 403), ("NoSuchBucket", 404), ("SignatureDoesNotMatch", 403), ("ExpiredToken", 400)]
    {
        let fixture = TransferFixture::new();
        let mut items = pair(&fixture).await;
        for id in 10..200 {
            items.push(fixture.object(id, &format!("k{id}"), b"x").await);
        }
        fixture.store.rule(Rule::always("CopyObject", Fault::Fail(code, status)));

        let job = fixture.start(policy(), items);
        let (outcomes, job) = drain(job).await;

        assert_eq!(job.failure().unwrap().code, code);
        assert!(outcomes.values().all(|o| o.state != State::Failed), "{outcomes:?}");
        assert_eq!(fixture.open_uploads().await, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn expired_credentials_are_loaded_anew() {
    let fixture = TransferFixture::new();
    let items = pair(&fixture).await;
    fixture.store.rule(Rule::once("UploadPartCopy", Fault::Fail("ExpiredToken", 400)));

    let outcomes = fixture.run(policy(), items).await;

    assert!(outcomes.values().all(|o| o.state == State::Done), "{outcomes:?}");
    assert_eq!(fixture.store.count("RefreshCredentials"), 1);
    assert_whole(&fixture).await;
}

/// A hook that overwrites the source past the faults, once.
fn overwrite(fixture: &TransferFixture, key: &'static str, body: Vec<u8>) -> Fault {
    let memory = Arc::clone(&fixture.memory);
    Fault::Hook(Hook(Arc::new(move || {
        let (memory, body) = (Arc::clone(&memory), Bytes::from(body.clone()));
        Box::pin(async move { _ = memory.put(SOURCE, key, body, &Attributes::default()).await.unwrap() })
    })))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_overwritten_meanwhile_is_started_over_and_versions_are_never_mixed() {
    for (operation, key) in [("CopyObject", "small"), ("UploadPartCopy", "large"), ("CreateMultipartUpload", "large")] {
        let fixture = TransferFixture::new();
        let items = pair(&fixture).await;
        let size = FLAVOURS.iter().find(|(k, _)| *k == key).unwrap().1;
        let newer = bytes(8, size + 20);
        let rule = Rule::once(operation, overwrite(&fixture, key, newer.clone())).key(&format!("copy/{key}"));
        fixture.store.rule(if operation == "UploadPartCopy" { rule.part(4) } else { rule });

        let outcomes = fixture.run(policy(), items).await;

        assert!(outcomes.values().all(|o| o.state == State::Done), "{operation}: {outcomes:?}");
        let copied = fixture.read(TARGET, &format!("copy/{key}")).await.unwrap();
        assert_eq!(copied, newer, "{operation}");
        assert_eq!(outcomes.values().map(|o| o.attempts).max(), Some(2));
        assert_eq!(fixture.open_uploads().await, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn uploads_that_no_answer_told_of_are_not_left_open() {
    let fixture = TransferFixture::new();
    let items = pair(&fixture).await;
    fixture.store.rule(Rule::always("CreateMultipartUpload", Fault::LoseReply));

    let outcomes = fixture.run(policy(), items).await;

    let failed: Vec<_> = outcomes.values().filter(|o| o.state == State::Failed).collect();
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

    assert_eq!(outcomes.values().filter(|o| o.state == State::Failed).count(), 1, "{outcomes:?}");
    assert_eq!(fixture.open_uploads().await, 1);
    let notes = job.notes();
    assert!(notes.iter().any(|note| note.contains("s3://target/copy/large stays open")), "{notes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_keeps_changing_fails_as_changed() {
    let fixture = TransferFixture::new();
    let items = pair(&fixture).await;
    let counter = Arc::new(std::sync::atomic::AtomicU64::new(100));
    let memory = Arc::clone(&fixture.memory);
    let hook = Hook(Arc::new(move || {
        let (memory, counter) = (Arc::clone(&memory), Arc::clone(&counter));
        Box::pin(async move {
            let seed = counter.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            _ = memory.put(SOURCE, "large", Bytes::from(bytes(seed, 300)), &Attributes::default()).await.unwrap();
        })
    }));
    fixture.store.rule(Rule::always("UploadPartCopy", Fault::Hook(hook)));

    let outcomes = fixture.run(policy(), items).await;

    let failure = outcomes[&1].failure.as_ref().unwrap();
    assert_eq!(failure.class.word(), "source_changed");
    assert!(failure.message.contains("s3://source/large"), "{failure}");
    assert_eq!(fixture.read(TARGET, "copy/large").await, None);
    assert_eq!(fixture.open_uploads().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_deleted_meanwhile_is_told_from_others() {
    let fixture = TransferFixture::new();
    let items = pair(&fixture).await;
    for key in ["small", "large"] {
        fixture.memory.delete(ObjectRef::new(SOURCE, key)).await.unwrap();
    }

    let outcomes = fixture.run(policy(), items).await;

    for outcome in outcomes.values() {
        let failure = outcome.failure.as_ref().unwrap();
        assert_eq!(failure.class.word(), "source_changed");
        assert!(failure.message.contains("gone"), "{failure}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_that_vanishes_is_written_again() {
    let fixture = TransferFixture::new();
    let item = fixture.object(1, "k", b"content").await;
    let memory = Arc::clone(&fixture.memory);
    let remove = Hook(Arc::new(move || {
        let memory = Arc::clone(&memory);
        Box::pin(async move { memory.delete(ObjectRef::new(TARGET, "copy/k")).await.unwrap() })
    }));
    // The first read of the written object.
    fixture.store.rule(Rule::once("GetObject", Fault::Hook(remove)).key("copy/k"));
    let multi = Policy {
        part_options: seqferry_transfer::verification::PartOptions { part_size: None, copy_threshold: Some(0) },
        verify: VerificationRule::Content,
        ..policy()
    };

    let outcomes = fixture.run(multi, vec![Item { target_absent: true, ..item }]).await;

    assert_eq!((outcomes[&1].state, outcomes[&1].attempts), (State::Done, 2), "{outcomes:?}");
    assert_eq!(fixture.read(TARGET, "copy/k").await.unwrap(), b"content");
}

#[tokio::test(flavor = "multi_thread")]
async fn corrupted_content_is_caught_and_the_target_removed() {
    let fixture = TransferFixture::new();
    let items = pair(&fixture).await;
    fixture.store.rule(Rule::always("GetObject", Fault::Corrupt).key("copy/large"));

    let outcomes = fixture.run(Policy { verify: VerificationRule::Content, ..policy() }, items).await;

    assert_eq!(outcomes[&0].verified, VerificationLevel::Content);
    let failure = outcomes[&1].failure.as_ref().unwrap();
    assert_eq!(failure.class, FailureClass::Mismatch);
    assert!(failure.message.contains("offset 0") && failure.message.contains("removed"), "{failure}");
    assert_eq!(fixture.read(TARGET, "copy/large").await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn truncated_bodies_are_read_again() {
    let fixture = TransferFixture::new();
    let items = pair(&fixture).await;
    fixture.store.rule(Rule::once("GetObject", Fault::Truncate).times(3));

    let outcomes = fixture.run(Policy { verify: VerificationRule::Content, ..policy() }, items).await;

    assert!(outcomes.values().all(|o| o.verified == VerificationLevel::Content), "{outcomes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn tags_that_may_not_be_read_are_reported_and_the_bytes_copied() {
    let fixture = TransferFixture::new();
    let items = pair(&fixture).await;
    fixture.memory.put_tags(ObjectRef::new(SOURCE, "large"), &[("a".into(), "b".into())]).await.unwrap();
    fixture.store.rule(Rule::always("GetObjectTagging", Fault::Fail("AccessDenied", 403)));

    let outcomes = fixture.run(policy(), items).await;

    assert_eq!(outcomes[&1].state, State::Done);
    assert!(outcomes[&1].not_carried[0].contains("1 tags: AccessDenied"), "{:?}", outcomes[&1].not_carried);
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

    assert!(outcomes.values().all(|o| o.state == State::Done), "{outcomes:?}");
    assert_whole(&fixture).await;
}

/// Fault at which another writer puts an object at the target.
fn takes_over(fixture: &TransferFixture, key: &'static str) -> Fault {
    let memory = Arc::clone(&fixture.memory);
    Fault::Hook(Hook(Arc::new(move || {
        let memory = Arc::clone(&memory);
        Box::pin(async move {
            _ = memory.put(TARGET, key, Bytes::from_static(b"theirs"), &Attributes::default()).await.unwrap();
        })
    })))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_target_that_somebody_else_replaces_is_neither_judged_nor_removed() {
    for times in [1, 100] {
        let fixture = TransferFixture::new();
        let item = fixture.object(1, "large", &bytes(7, 300)).await;
        // The first read of the written object.
        let rule = Rule::always("GetObject", takes_over(&fixture, "copy/large")).key("copy/large").times(times);
        fixture.store.rule(rule);

        let outcomes = fixture.run(Policy { verify: VerificationRule::Content, ..policy() }, vec![item]).await;

        let outcome = &outcomes[&1];
        assert_eq!(outcome.attempts, 2);
        if times == 1 {
            assert_eq!((outcome.state, outcome.verified), (State::Done, VerificationLevel::Content), "{outcome:?}");
            assert_eq!(fixture.read(TARGET, "copy/large").await, Some(bytes(7, 300)));
        } else {
            assert_eq!(outcome.failure.as_ref().unwrap().code, "TargetChanged", "{outcome:?}");
            assert_eq!(fixture.read(TARGET, "copy/large").await, Some(b"theirs".to_vec()));
        }
        assert_eq!(fixture.open_uploads().await, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_of_a_source_that_changed_before_it_was_proven_is_not_left_for_whole() {
    for (if_exists, gone) in
        [(IfExists::Skip, false), (IfExists::Fail, false), (IfExists::Same, false), (IfExists::Skip, true)]
    {
        let fixture = TransferFixture::new();
        let item = fixture.object(1, "large", &bytes(7, 300)).await;
        let newer = bytes(8, 320);
        let fault = if gone {
            let memory = Arc::clone(&fixture.memory);
            Fault::Hook(Hook(Arc::new(move || {
                let memory = Arc::clone(&memory);
                Box::pin(async move { memory.delete(ObjectRef::new(SOURCE, "large")).await.unwrap() })
            })))
        } else {
            overwrite(&fixture, "large", newer.clone())
        };
        // The first read of the source, when the target has been written.
        fixture.store.rule(Rule::once("GetObject", fault).key("large"));

        let outcomes =
            fixture.run(Policy { if_exists, verify: VerificationRule::Content, ..policy() }, vec![item]).await;

        let copied = fixture.read(TARGET, "copy/large").await;
        if gone {
            assert_eq!((outcomes[&1].state, copied), (State::Failed, None), "{outcomes:?}");
        } else {
            assert_eq!((outcomes[&1].state, copied), (State::Done, Some(newer)), "{if_exists:?}: {outcomes:?}");
        }
    }
}

/// Creations, copies of parts and abortions that it took to copy 30 objects of 6 parts.
async fn cost_of_thirty(memory: MemoryStore) -> [usize; 3] {
    let fixture = TransferFixture::of(memory);
    let mut items = Vec::new();
    for id in 0..30 {
        items.push(fixture.object(id, &format!("object-{id}"), &bytes(id, 300)).await);
    }

    let outcomes = fixture.run(policy(), items).await;

    assert!(outcomes.values().all(|outcome| outcome.state == State::Done), "{outcomes:?}");
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
    let memory = MemoryStore::new(small_limits().minimum_part).demanding_part_checksums();

    assert_eq!(cost_of_thirty(memory).await, [31, 181, 1]);
}

/// A source of six parts of 50 bytes with a checksum, as clients upload it.
async fn made_of_parts(fixture: &TransferFixture, id: u64, kind: ChecksumKind) -> Item {
    let (key, body) = (format!("parts-{id}"), bytes(id, 300));
    let checksum = Some((ChecksumAlgorithm::Crc32, kind));
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
    Item { id, target_key: format!("copy/{key}"), source_key: key, size: 300, etag, ..Item::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn where_copies_of_parts_keep_no_checksum_the_boundaries_of_the_source_prove_them() {
    let fixture = TransferFixture::of(MemoryStore::new(small_limits().minimum_part).demanding_part_checksums());
    let items = [
        made_of_parts(&fixture, 1, ChecksumKind::FullObject).await,
        made_of_parts(&fixture, 2, ChecksumKind::Composite).await,
    ];

    let outcomes = fixture.run(policy(), items.to_vec()).await;

    for item in &items {
        let outcome = &outcomes[&item.id];
        assert_eq!((outcome.state, outcome.verified), (State::Done, VerificationLevel::Etag), "{outcome:?}");
        assert_eq!(outcome.target_etag.as_ref(), Some(&item.etag));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_without_a_checksum_is_gone_on_with_by_a_process_that_knows_nothing_of_the_service() {
    let fixture = TransferFixture::of(MemoryStore::new(small_limits().minimum_part).demanding_part_checksums());
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

    let item = Item { upload: Some(RecordedUpload { upload_id: recorded, part_size: 50 }), ..item };
    let outcomes = fixture.run(Policy { resumed: true, ..policy() }, vec![item]).await;

    assert_eq!(outcomes[&1].state, State::Done, "{outcomes:?}");
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
        outcomes
            .values()
            .chain(more.values())
            .all(|outcome| { outcome.state == State::Done && outcome.not_carried.is_empty() && outcome.retries == 0 }),
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
    assert_eq!((outcome.state, outcome.method, outcome.retries), (State::Done, Method::Stream, 0), "{outcome:?}");
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
            vec![Item { upload: Some(RecordedUpload { upload_id: old, part_size: 50 }), ..item }],
        )
        .await;

    assert_eq!(outcomes[&1].state, State::Done, "{outcomes:?}");
    assert_eq!(fixture.read(TARGET, "copy/large").await, Some(bytes(7, 300)));
    assert_eq!((fixture.store.count("CreateMultipartUpload"), fixture.open_uploads().await), (1, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_that_changed_is_reported_as_it_was_copied() {
    let fixture = TransferFixture::new();
    let items = pair(&fixture).await;
    let newer = bytes(8, 20);
    _ = fixture.memory.put(SOURCE, "large", Bytes::from(newer.clone()), &Attributes::default()).await.unwrap();
    let now = fixture.memory.head(ObjectRef::new(SOURCE, "large"), None).await.unwrap();

    let outcomes = fixture.run(policy(), items).await;

    let outcome = outcomes.values().find(|o| o.attempts == 2).unwrap();
    assert_eq!((outcome.state, outcome.size, &outcome.source_etag), (State::Done, 20, &now.etag));
    assert_eq!(fixture.read(TARGET, "copy/large").await, Some(newer));
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_restart_targets_from_before_the_transfer_are_no_work_of_ours() {
    for (if_exists, since, expected) in [
        (IfExists::Overwrite, f64::MAX, State::Done),
        (IfExists::Overwrite, 0.0, State::Skipped),
        (IfExists::Fail, f64::MAX, State::Failed),
        (IfExists::Fail, 0.0, State::Done),
    ] {
        let fixture = TransferFixture::new();
        let items = pair(&fixture).await;
        fixture.run(policy(), items.clone()).await;
        let written = fixture.store.count("CopyObject") + fixture.store.count("CompleteMultipartUpload");

        let outcomes = fixture.run(Policy { if_exists, since, resumed: true, ..policy() }, items).await;

        assert!(outcomes.values().all(|o| o.state == expected), "{if_exists:?} since {since}: {outcomes:?}");
        let again = fixture.store.count("CopyObject") + fixture.store.count("CompleteMultipartUpload") - written;
        assert_eq!(again, if expected == State::Done && if_exists == IfExists::Overwrite { 2 } else { 0 });
    }
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

        assert_eq!(outcomes[&1].state, State::Cancelled);
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
    let items =
        vec![Item { upload: Some(RecordedUpload { upload_id: recorded, part_size: 50 }), ..first }, second, third];

    let outcomes = fixture.run(Policy { only_clean: true, resumed: true, ..policy() }, items).await;

    assert!(outcomes.len() == 3 && outcomes.values().all(|o| o.state == State::Cancelled), "{outcomes:?}");
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
    assert!(outcomes.values().any(|o| o.state == State::Cancelled));
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
    fixture.store.heal();
    let outcomes = fixture.run(Policy { resumed: true, ..policy() }, vec![Item { upload, ..item }]).await;
    assert_eq!(outcomes[&1].state, State::Done);
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
        .run(resumed, vec![Item { upload: Some(RecordedUpload { upload_id: lost, part_size: 50 }), ..item }])
        .await;

    assert_eq!(outcomes[&1].state, State::Done);
    let open = fixture.memory.list_uploads(TARGET, "").await.unwrap();
    assert_eq!(open.iter().map(|upload| &upload.upload_id).collect::<Vec<_>>(), [&theirs]);
}

/// Acknowledge uploads until something has come about; the upload begun last, and how many objects ended before.
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
                Event::MultipartBegun { id, upload_id, part_size } => {
                    upload = Some(RecordedUpload { upload_id, part_size });
                    job.acknowledge(&[id]);
                }
                Event::Ended(_) => ended += 1,
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
                if let Event::MultipartBegun { id, .. } = event {
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
async fn random_faults_end_every_object_verified_or_failed() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let fixture = TransferFixture::new();
    let mut items = Vec::new();
    for id in 0..200 {
        items.push(fixture.object(id, &format!("k{id}"), &bytes(id, usize::try_from(id * 7 % 450).unwrap())).await);
    }
    // No SlowDown among them: a service that refuses one request in 25 at any rate gets few requests.
    let faults = vec![
        Fault::Fail("InternalError", 500),
        Fault::Fail("RequestTimeout", 400),
        Fault::LoseReply,
        Fault::Delay(Duration::from_millis(1)),
    ];
    fixture.store.at_random(seed, 0.2, faults);

    let outcomes = fixture.run(policy(), items.clone()).await;

    assert_eq!(outcomes.len(), 200);
    for item in items {
        let outcome = &outcomes[&item.id];
        let copied = fixture.read(TARGET, &item.target_key).await;
        match outcome.state {
            State::Done => assert_eq!(copied, fixture.read(SOURCE, &item.source_key).await),
            State::Failed => {
                assert!(matches!(outcome.failure.as_ref().unwrap().class.word(), "retry" | "throttle"), "{outcome:?}");
            }
            other => panic!("seed {seed}: {other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn few_objects_are_begun_before_their_first_request_may_start() {
    const WIDTH: usize = 8;
    let budget = Budget::new(BudgetLimits { max_requests: WIDTH, ..BudgetLimits::default() });
    let fixture = TransferFixture { budget, ..TransferFixture::new() };
    let mut items = Vec::new();
    for id in 0..1000 {
        items.push(Item { target_absent: true, ..fixture.object(id, &format!("k{id}"), b"small").await });
    }
    let latch = Latch::default();
    fixture.store.rule(Rule::always("CopyObject", Fault::Hold(latch.clone())));
    let job = Arc::new(fixture.start(policy(), items));
    acknowledge_until(&job, || fixture.store.count("CopyObject") == WIDTH).await;

    let begun = job.progress().objects_active;
    latch.open();
    let outcomes = drain(Arc::into_inner(job).unwrap()).await.0;

    assert!(begun <= WIDTH as u64 + 128, "{begun} begun for {WIDTH} requests");
    assert!(outcomes.len() == 1000 && outcomes.values().all(|o| o.state == State::Done));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_whose_objects_wait_for_those_of_other_jobs_begins_none_and_stops_at_once() {
    let fixture = TransferFixture::new();
    let mut items = Vec::new();
    for id in 0..50 {
        items.push(fixture.object(id, &format!("k{id}"), b"small").await);
    }
    let mut others = Vec::new();
    while let Ok(place) = tokio::time::timeout(Duration::from_millis(50), fixture.scheduler().object()).await {
        others.push(place);
    }
    let job = fixture.start(policy(), items);
    assert!(job.wait(Duration::from_millis(20)).is_empty());
    assert_eq!((others.len(), job.progress().requests), (1536, 0));

    job.stop(StopMode::Cancel);
    let (outcomes, _) = drain(job).await;

    assert!(outcomes.len() == 50 && outcomes.values().all(|o| o.state == State::Cancelled));
    assert_eq!(others.len(), 1536, "held to the end");
}
