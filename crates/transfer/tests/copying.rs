//! One object and many, without faults: routes, policies, what travels, what proves it.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{self, SOURCE, TARGET, TransferFixture, bytes, policy, small_limits};
use bytes::Bytes;
use seqferry_store::prelude::*;
use seqferry_store::{Attributes, ChecksumAlgorithm, CopyTarget, ObjectRef};
use seqferry_store_testing::fault::{Fault, Hook, Rule};
use seqferry_store_testing::{MemoryStore, ObjectWriteExt as _};
use seqferry_transfer::verification::PartOptions;
use seqferry_transfer::{
    CopyMethod, FailureClass, IfExists, JobItem, ObjectState, Policy, Properties, VerificationLevel, VerificationRule,
};

#[tokio::test(flavor = "multi_thread")]
async fn objects_of_all_sizes_arrive_whole_and_proven() {
    let fixture = TransferFixture::new();
    let mut items = Vec::new();
    for (id, size) in
        [0, 1, 9, 10, 49, 50, 51, 99, 100, 101, 149, 150, 151, 499, 500, 501, 4999].into_iter().enumerate()
    {
        items.push(fixture.object(id as u64, &format!("k{size}"), &bytes(size as u64, size)).await);
    }

    let outcomes = fixture.run(policy(), items.clone()).await;

    for item in &items {
        let outcome = &outcomes[&item.id];
        assert_eq!(outcome.state, ObjectState::Done, "{outcome:?}");
        assert_eq!(
            outcome.method,
            if item.size <= 100 { CopyMethod::Copy } else { CopyMethod::Multipart },
            "{}",
            item.size
        );
        // The answer to a small object's one request proves it by checksum too, but the listing knew only its ETag.
        let proof = if item.size <= 100 { VerificationLevel::Etag } else { VerificationLevel::Checksum };
        assert_eq!(outcome.verified, proof, "{outcome:?}");
        assert_eq!(fixture.read(TARGET, &item.target_key).await, fixture.read(SOURCE, &item.source_key).await);
        let head = fixture.head(&item.target_key).await;
        assert_eq!(head.attributes.metadata["sample"], item.source_key);
        assert_eq!(head.attributes.content_type.as_deref(), Some("application/gzip"));
        assert_eq!(outcome.target_etag.as_ref(), Some(&head.etag));
    }
    assert_eq!(fixture.open_uploads().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_small_object_costs_one_request() {
    let fixture = TransferFixture::new();
    let item = JobItem { target_absent: true, ..fixture.object(1, "k", b"small").await };

    fixture.run(policy(), vec![item]).await;

    let mut counts = fixture.store.counts();
    // One for each job, not for each object.
    counts.remove("GetBucketEncryption");
    assert_eq!(counts.into_iter().collect::<Vec<_>>(), [("CopyObject", 1)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_encryption_of_a_bucket_is_asked_once_by_objects_side_by_side() {
    let fixture = TransferFixture::new();
    let mut items = Vec::new();
    for id in 0..16 {
        items.push(JobItem { target_absent: true, ..fixture.object(id, &format!("k{id}"), b"small").await });
    }
    // All copies are made before the first answer.
    fixture.store.rule(Rule::always("GetBucketEncryption", Fault::Delay(Duration::from_millis(200))));

    let outcomes = fixture.run(policy(), items).await;

    assert!(outcomes.values().all(|outcome| outcome.state == ObjectState::Done));
    assert_eq!((fixture.store.count("CopyObject"), fixture.store.count("GetBucketEncryption")), (16, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn tags_and_storage_class_travel_both_ways() {
    let fixture = TransferFixture::new();
    let items = vec![fixture.object(1, "small", b"x").await, fixture.object(2, "large", &bytes(2, 300)).await];
    let tags = [("a b".to_owned(), "c&d".to_owned()), ("e".to_owned(), String::new())];
    for item in &items {
        fixture.memory.put_tags(ObjectRef::new(SOURCE, &item.source_key), &tags).await.unwrap();
    }

    let outcomes = fixture.run(Policy { storage_class: Some("STANDARD_IA".into()), ..policy() }, items).await;

    for key in ["copy/small", "copy/large"] {
        assert_eq!(fixture.memory.get_tags(ObjectRef::new(TARGET, key)).await.unwrap(), tags);
        assert_eq!(fixture.head(key).await.storage_class.as_deref(), Some("STANDARD_IA"));
    }
    assert!(outcomes.values().all(|outcome| outcome.not_carried.is_empty()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_checksum_that_was_asked_for_and_is_not_kept_is_named() {
    let memory = || MemoryStore::new(small_limits().minimum_part);
    for (memory, shown) in [
        (memory(), None),
        (memory().with_whole_checksums_of_parts(), Some("CRC64NVME")),
        (memory().requiring_part_checksums(), Some("none")),
    ] {
        let fixture = TransferFixture::of(memory);
        let items = vec![fixture.object(1, "small", b"x").await, fixture.object(2, "large", &bytes(2, 300)).await];
        let properties = Properties { checksum: Some(ChecksumAlgorithm::Sha256), ..Properties::default() };

        let outcomes = fixture.run(Policy { properties, ..policy() }, items).await;

        let named: Vec<String> =
            shown.iter().map(|shown| format!("checksum SHA256: the target shows {shown}")).collect();
        assert_eq!(outcomes[&2].state, ObjectState::Done, "{outcomes:?}");
        assert_eq!(outcomes[&2].not_carried, named);
        let head = fixture.head("copy/large").await;
        assert_eq!(head.checksum.map_or("none", |sum| sum.algorithm.name()), shown.unwrap_or("SHA256"));
        // A copy in one request keeps the source's here, and its answer says so.
        assert_eq!(outcomes[&1].not_carried, ["checksum SHA256: the target shows CRC64NVME"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_again_is_skipped_and_a_changed_object_is_copied_again() {
    let fixture = TransferFixture::new();
    let items = vec![
        fixture.object(1, "small", b"x").await,
        fixture.object(2, "large", &bytes(2, 300)).await,
        fixture.object(3, "changes", &bytes(3, 300)).await,
    ];
    fixture.run(policy(), items.clone()).await;
    let changed = fixture.object(3, "changes", &bytes(4, 300)).await;
    let before = fixture.store.count("CopyObject") + fixture.store.count("CompleteMultipartUpload");

    let outcomes = fixture.run(policy(), vec![items[0].clone(), items[1].clone(), changed]).await;

    assert_eq!(outcomes[&1].state, ObjectState::Skipped);
    assert_eq!(outcomes[&2].state, ObjectState::Skipped);
    assert_eq!(outcomes[&2].verified, VerificationLevel::Checksum);
    assert_eq!(outcomes[&3].state, ObjectState::Done);
    assert_eq!(fixture.store.count("CopyObject") + fixture.store.count("CompleteMultipartUpload"), before + 1);
    assert_eq!(fixture.read(TARGET, "copy/changes").await, Some(bytes(4, 300)));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_exists_is_treated_as_the_policy_says() {
    for (if_exists, same, other) in [
        (IfExists::Same, ObjectState::Skipped, ObjectState::Done),
        (IfExists::Skip, ObjectState::Skipped, ObjectState::Skipped),
        (IfExists::Overwrite, ObjectState::Done, ObjectState::Done),
        (IfExists::Fail, ObjectState::Failed, ObjectState::Failed),
    ] {
        let fixture = TransferFixture::new();
        let items = vec![
            fixture.object(1, "same", b"abc").await,
            fixture.object(2, "other", b"def").await,
            fixture.object(3, "new", b"ghi").await,
        ];
        for (key, body) in [("copy/same", "abc"), ("copy/other", "xyz")] {
            fixture.memory.put(TARGET, key, Bytes::from(body), &Attributes::default()).await.unwrap();
        }

        let outcomes = fixture.run(Policy { if_exists, ..policy() }, items).await;

        assert_eq!(
            (outcomes[&1].state, outcomes[&2].state, outcomes[&3].state),
            (same, other, ObjectState::Done),
            "{if_exists:?}"
        );
        let kept = matches!(other, ObjectState::Skipped | ObjectState::Failed);
        assert_eq!(fixture.read(TARGET, "copy/other").await.unwrap(), if kept { b"xyz" } else { b"def" });
        if if_exists == IfExists::Fail {
            assert_eq!(outcomes[&1].failure.as_ref().unwrap().class, FailureClass::Exists);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn content_is_compared_when_asked_for() {
    let fixture = TransferFixture::new();
    let items = vec![
        fixture.object(1, "small", b"x").await,
        fixture.object(2, "large", &bytes(2, 3000)).await,
        fixture.object(3, "empty", b"").await,
    ];

    let outcomes = fixture.run(Policy { verify: VerificationRule::Content, ..policy() }, items).await;

    assert!(outcomes.values().all(|outcome| outcome.verified == VerificationLevel::Content), "{outcomes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn wishes_for_part_size_and_threshold_are_kept() {
    let fixture = TransferFixture::new();
    let items = vec![fixture.object(1, "k", &bytes(1, 95)).await];
    let part_options = PartOptions { part_size: Some(20), copy_threshold: Some(0) };

    let outcomes = fixture.run(Policy { part_options, ..policy() }, items).await;

    assert_eq!(outcomes[&1].method, CopyMethod::Multipart);
    assert!(outcomes[&1].target_etag.as_ref().unwrap().ends_with("-5"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_is_too_large_fails_alone() {
    let fixture = TransferFixture::new();
    let mut huge = fixture.object(1, "huge", &bytes(1, 200)).await;
    let small = fixture.object(2, "small", b"x").await;
    let mut limits = common::small_limits();
    limits.maximum_object = 150;
    huge.target_absent = true;

    let outcomes = fixture.run(Policy { limits, ..policy() }, vec![huge, small]).await;

    assert_eq!(outcomes[&1].failure.as_ref().unwrap().code, "EntityTooLarge");
    assert_eq!(outcomes[&2].state, ObjectState::Done);
}

#[tokio::test(flavor = "multi_thread")]
async fn archived_objects_need_a_person_and_the_others_are_copied() {
    let fixture = TransferFixture::new();
    let items = vec![
        fixture.object(1, "a", b"x").await,
        fixture.object(2, "b", &bytes(2, 300)).await,
        fixture.object(3, "c", b"y").await,
    ];
    for key in ["a", "b"] {
        let own = seqferry_store::PinnedObject {
            bucket: SOURCE.into(),
            key: key.into(),
            version_id: None,
            if_match: None,
            size: 0,
        };
        fixture
            .memory
            .copy(&own, CopyTarget { storage_class: Some("DEEP_ARCHIVE"), ..CopyTarget::new(SOURCE, key) })
            .await
            .unwrap();
    }

    let outcomes = fixture.run(policy(), items).await;

    for id in [1, 2] {
        let failure = outcomes[&id].failure.as_ref().unwrap();
        assert_eq!((failure.class.as_str(), failure.code.as_str()), ("person", "InvalidObjectState"));
        assert!(failure.message.contains("restore"), "{failure}");
    }
    assert_eq!(outcomes[&3].state, ObjectState::Done);
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_counts_what_is_done() {
    let fixture = TransferFixture::new();
    let items = vec![fixture.object(1, "a", &bytes(1, 60)).await, fixture.object(2, "b", &bytes(2, 300)).await];

    let job = fixture.start(policy(), items);
    let (_, job) = common::drain(job).await;

    let progress = job.progress();
    assert_eq!(progress.bytes_done, 360);
    assert_eq!((progress.objects_done, progress.objects_active, progress.in_flight), (2, 0, 0));
    assert!(progress.slowest.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_is_not_repeated_over_an_object_that_came_after_its_first_attempt() {
    for (if_exists, state) in [(IfExists::Skip, ObjectState::Skipped), (IfExists::Fail, ObjectState::Failed)] {
        let fixture = TransferFixture::new();
        let item = fixture.object(1, "k", b"small").await;
        let memory = Arc::clone(&fixture.memory);
        let hook = Hook(Arc::new(move || {
            let memory = Arc::clone(&memory);
            Box::pin(async move {
                memory.put(TARGET, "copy/k", Bytes::from_static(b"theirs"), &Attributes::default()).await.unwrap();
            })
        }));
        fixture.store.rule(Rule::once("CopyObject", Fault::FailAfter(hook, "InternalError", 500)));

        let outcomes = fixture.run(Policy { if_exists, ..policy() }, vec![item]).await;

        assert_eq!(outcomes[&1].state, state, "{if_exists:?}: {:?}", outcomes[&1]);
        assert_eq!(fixture.read(TARGET, "copy/k").await, Some(b"theirs".to_vec()), "{if_exists:?}");
        assert_eq!(fixture.store.count("CopyObject"), 1, "{if_exists:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_changes_the_metadata_alone_is_made_though_its_target_has_the_bytes_already() {
    let fixture = TransferFixture::new();
    let item = fixture.object(1, "k", b"small").await;
    let before = Attributes { content_type: Some("text/before".into()), ..Attributes::default() };
    fixture.memory.put(TARGET, "copy/k", Bytes::from_static(b"small"), &before).await.unwrap();
    let replaced = Attributes { content_type: Some("text/after".into()), ..Attributes::default() };
    let properties = Properties { carry_attributes: false, attributes: replaced, ..Properties::default() };
    fixture.store.rule(Rule::always("CopyObject", Fault::Fail("InternalError", 500)).times(6));

    let outcomes = fixture.run(Policy { if_exists: IfExists::Overwrite, properties, ..policy() }, vec![item]).await;

    assert_eq!(outcomes[&1].state, ObjectState::Done, "{:?}", outcomes[&1]);
    assert_eq!(fixture.head("copy/k").await.attributes.content_type.as_deref(), Some("text/after"));
}
