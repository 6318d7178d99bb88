//! Faults of streamed copies: changed bytes, broken reads, changing sources, and targets that others write.

use std::sync::Arc;
use std::time::Duration;

use crate::common::streams::{assert_done, memory};
use crate::common::{self, SOURCE, ServicePair, TARGET, bytes, small_limits, streaming};
use bytes::Bytes;
use seqferry_store::Attributes;
use seqferry_store_testing::ObjectWriteExt as _;
use seqferry_store_testing::fault::{Fault, Hook, Rule};
use seqferry_transfer::verification::PartOptions;
use seqferry_transfer::{FailureClass, IfExists, JobItem, ObjectState, Policy, VerificationLevel};

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
            if outcome.state == ObjectState::Done {
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

            // Refused immediately, or found out by the answers and by reading both sides.
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
            assert_eq!(outcome.state, ObjectState::Failed, "{outcome:?}");
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

        assert_eq!((outcomes[&1].state, outcomes[&1].attempts), (ObjectState::Done, 2), "{:?}", outcomes[&1]);
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
    let items: Vec<JobItem> = items.into_iter().map(|item| JobItem { target_absent: true, ..item }).collect();

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
    assert!(notes[0].contains("pass_ranges"), "{notes:?}");
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
    services.from.store.inject_randomly(seed, 0.1, faults.clone());
    services.to.store.inject_randomly(seed ^ 1, 0.1, faults);

    let outcomes = services.run(streaming(), items.clone()).await;

    assert_eq!(outcomes.len(), 200);
    for item in &items {
        let outcome = &outcomes[&item.id];
        match outcome.state {
            ObjectState::Done => assert!(services.is_copied(item).await, "seed {seed}: {outcome:?}"),
            ObjectState::Failed => {
                let class = outcome.failure.as_ref().unwrap().class.as_str();
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
        for (if_exists, expected) in [(IfExists::Skip, ObjectState::Skipped), (IfExists::Fail, ObjectState::Failed)] {
            let services = ServicePair::new();
            let item = services.from.object(1, "k", &bytes(1, size)).await;
            let memory = Arc::clone(&services.to.memory);
            let theirs = Fault::Hook(Hook(Arc::new(move || {
                let memory = Arc::clone(&memory);
                Box::pin(async move {
                    memory.put(TARGET, "copy/k", Bytes::from_static(b"theirs"), &Attributes::default()).await.unwrap();
                })
            })));
            // The target was checked by then, and the bytes are on their way.
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
            assert_eq!((outcome.state, failure.class), (ObjectState::Failed, FailureClass::Exists), "{outcome:?}");
            assert_eq!(failure.code, "TargetUnreadable");
            assert!(failure.message.contains("see_target"), "{failure}");
        }
        assert_eq!(services.to.open_uploads().await, 0);
    }
}
