//! Sources and targets that change while they are copied: what is written is of one version, and is judged as such.

use std::sync::Arc;

use crate::common::pairs::{FLAVOURS, pair};
use crate::common::{SOURCE, TARGET, TransferFixture, bytes, policy};
use bytes::Bytes;
use seqferry_store::prelude::*;
use seqferry_store::{Attributes, ObjectRef};
use seqferry_store_testing::ObjectWriteExt as _;
use seqferry_store_testing::fault::{Fault, Hook, Rule};
use seqferry_transfer::{CopyMethod, IfExists, JobItem, ObjectState, Policy, VerificationLevel, VerificationRule};

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

        assert!(outcomes.values().all(|o| o.state == ObjectState::Done), "{operation}: {outcomes:?}");
        let copied = fixture.read(TARGET, &format!("copy/{key}")).await.unwrap();
        assert_eq!(copied, newer, "{operation}");
        assert_eq!(outcomes.values().map(|o| o.attempts).max(), Some(2));
        assert_eq!(fixture.open_uploads().await, 0);
    }
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
    assert_eq!(failure.class.as_str(), "source_changed");
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
        assert_eq!(failure.class.as_str(), "source_changed");
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

    let outcomes = fixture.run(multi, vec![JobItem { target_absent: true, ..item }]).await;

    assert_eq!((outcomes[&1].state, outcomes[&1].attempts), (ObjectState::Done, 2), "{outcomes:?}");
    assert_eq!(fixture.read(TARGET, "copy/k").await.unwrap(), b"content");
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
            assert_eq!(
                (outcome.state, outcome.verified),
                (ObjectState::Done, VerificationLevel::Content),
                "{outcome:?}"
            );
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
            assert_eq!((outcomes[&1].state, copied), (ObjectState::Failed, None), "{outcomes:?}");
        } else {
            assert_eq!((outcomes[&1].state, copied), (ObjectState::Done, Some(newer)), "{if_exists:?}: {outcomes:?}");
        }
    }
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
    assert_eq!((outcome.state, outcome.size, &outcome.source_etag), (ObjectState::Done, 20, &now.etag));
    assert_eq!(fixture.read(TARGET, "copy/large").await, Some(newer));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_run_after_another_finds_identical_is_done_where_nothing_was_before() {
    for (resumed, target_was_empty, expected) in [
        (false, false, ObjectState::Skipped),
        (false, true, ObjectState::Skipped),
        (true, false, ObjectState::Skipped),
        (true, true, ObjectState::Done),
    ] {
        let fixture = TransferFixture::new();
        let items = pair(&fixture).await;
        fixture.run(policy(), items.clone()).await;

        let outcomes = fixture.run(Policy { resumed, target_was_empty, ..policy() }, items).await;

        assert!(outcomes.values().all(|o| o.state == expected), "{resumed} {target_was_empty}: {outcomes:?}");
        assert!(outcomes.values().all(|o| o.method == CopyMethod::None), "{outcomes:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_restart_targets_from_before_the_transfer_are_no_work_of_ours() {
    for (if_exists, since, expected) in [
        (IfExists::Overwrite, f64::MAX, ObjectState::Done),
        (IfExists::Overwrite, 0.0, ObjectState::Skipped),
        (IfExists::Fail, f64::MAX, ObjectState::Failed),
        (IfExists::Fail, 0.0, ObjectState::Done),
    ] {
        let fixture = TransferFixture::new();
        let items = pair(&fixture).await;
        fixture.run(policy(), items.clone()).await;
        let written = fixture.store.count("CopyObject") + fixture.store.count("CompleteMultipartUpload");

        let outcomes = fixture.run(Policy { if_exists, since, resumed: true, ..policy() }, items).await;

        assert!(outcomes.values().all(|o| o.state == expected), "{if_exists:?} since {since}: {outcomes:?}");
        let again = fixture.store.count("CopyObject") + fixture.store.count("CompleteMultipartUpload") - written;
        assert_eq!(again, if expected == ObjectState::Done && if_exists == IfExists::Overwrite { 2 } else { 0 });
    }
}
