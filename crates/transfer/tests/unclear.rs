//! Writes whose answer is a success and holds no result: one check of the target decides, and nothing is repeated
//! blindly.

use seqferry_store::error::classify::code;
use seqferry_store_testing::MemoryStore;
use seqferry_store_testing::fault::{Fault, Rule};
use seqferry_transfer::{ObjectState, VerificationLevel};

use crate::common::{ServicePair, TARGET, TransferFixture, bytes, policy, small_limits, streaming};

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_had_its_effect_is_found_by_one_look_and_not_repeated() {
    for (operation, policy, size, times) in [
        ("PutObject", streaming(), 50, 1),
        ("CopyObject", policy(), 50, 1),
        ("UploadPart", streaming(), 300, 6),
        ("UploadPartCopy", policy(), 300, 6),
        ("CompleteMultipartUpload", streaming(), 300, 1),
        ("CompleteMultipartUpload", policy(), 300, 1),
    ] {
        let fixture = TransferFixture::new();
        let content = bytes(1, size);
        let item = fixture.object(1, "k", &content).await;
        fixture.store.rule(Rule::always(operation, Fault::Garble));

        let outcomes = fixture.run(policy, vec![item]).await;

        let outcome = &outcomes[&1];
        assert_eq!(outcome.state, ObjectState::Done, "{outcome:?}");
        assert!(matches!(outcome.verified, VerificationLevel::Checksum | VerificationLevel::Etag), "{outcome:?}");
        assert_eq!(fixture.store.count(operation), times, "{operation}");
        assert_eq!(fixture.read(TARGET, "copy/k").await, Some(content));
        assert_eq!(fixture.open_uploads().await, 0, "{operation}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_without_effect_is_made_once_more_and_no_more() {
    for (operation, policy, size, most) in [
        ("PutObject", streaming(), 50, 2),
        ("CopyObject", policy(), 50, 2),
        ("CompleteMultipartUpload", streaming(), 300, 2),
        ("CreateMultipartUpload", streaming(), 300, 2),
    ] {
        let fixture = TransferFixture::new();
        let item = fixture.object(1, "k", &bytes(1, size)).await;
        let unclear = Fault::Fail(code::MALFORMED, 200);
        fixture.store.rule(Rule::always(operation, unclear));

        let outcomes = fixture.run(policy, vec![item]).await;

        let failure = outcomes[&1].failure.as_ref().unwrap();
        assert_eq!(failure.code, code::MALFORMED, "{failure}");
        assert!(fixture.store.count(operation) <= most, "{operation}: {}", fixture.store.count(operation));
        assert_eq!(fixture.read(TARGET, "copy/k").await, None);
        assert_eq!(fixture.open_uploads().await, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_garbled_answer_before_the_effect_costs_one_more_attempt() {
    let unclear = Fault::Fail(code::MALFORMED, 200);
    for (operation, policy, size) in [
        ("PutObject", streaming(), 50),
        ("CopyObject", policy(), 50),
        ("UploadPart", streaming(), 300),
        ("CompleteMultipartUpload", policy(), 300),
    ] {
        let fixture = TransferFixture::new();
        let item = fixture.object(1, "k", &bytes(1, size)).await;
        fixture.store.rule(Rule::once(operation, unclear.clone()));

        let outcomes = fixture.run(policy, vec![item]).await;

        assert_eq!(outcomes[&1].state, ObjectState::Done, "{operation}: {:?}", outcomes[&1]);
        assert_eq!(outcomes[&1].attempts, 1, "{operation}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_whose_answers_are_all_lost_is_found_at_the_target_after_a_few_attempts() {
    for (operation, policy, size, parts) in [
        ("PutObject", streaming(), 50, 1),
        ("CopyObject", policy(), 50, 1),
        ("UploadPart", streaming(), 300, 6),
        ("UploadPartCopy", policy(), 300, 6),
        ("CompleteMultipartUpload", streaming(), 300, 1),
        ("CompleteMultipartUpload", policy(), 300, 1),
    ] {
        let fixture = TransferFixture::new();
        let content = bytes(1, size);
        let item = fixture.object(1, "k", &content).await;
        fixture.store.rule(Rule::always(operation, Fault::LoseReply));

        let outcomes = fixture.run(policy, vec![item]).await;

        let outcome = &outcomes[&1];
        assert_eq!(outcome.state, ObjectState::Done, "{operation}: {outcome:?}");
        assert!(matches!(outcome.verified, VerificationLevel::Checksum | VerificationLevel::Etag), "{outcome:?}");
        assert!(fixture.store.count(operation) <= 3 * parts, "{operation}: {}", fixture.store.count(operation));
        assert_eq!(fixture.read(TARGET, "copy/k").await, Some(content));
        assert_eq!(fixture.open_uploads().await, 0, "{operation}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_is_refused_for_good_is_a_failure_after_all_attempts() {
    for (operation, policy, size) in
        [("PutObject", streaming(), 50), ("CopyObject", policy(), 50), ("CompleteMultipartUpload", policy(), 300)]
    {
        let fixture = TransferFixture::new();
        let item = fixture.object(1, "k", &bytes(1, size)).await;
        fixture.store.rule(Rule::always(operation, Fault::Fail("InternalError", 500)));

        let outcomes = fixture.run(policy, vec![item]).await;

        let failure = outcomes[&1].failure.as_ref().unwrap();
        assert_eq!(failure.code, "InternalError", "{failure}");
        assert_eq!(fixture.store.count(operation), 11, "{operation}");
        assert_eq!(fixture.read(TARGET, "copy/k").await, None);
        assert_eq!(fixture.open_uploads().await, 0, "{operation}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_look_does_not_wait_for_a_service_that_throttles() {
    let fixture = TransferFixture::new();
    let item = fixture.object(1, "k", &bytes(1, 300)).await;
    fixture.store.rule(Rule::always("UploadPart", Fault::Fail("InternalError", 500)).part(1).times(4));
    fixture.store.rule(Rule::always("ListParts", Fault::Fail("SlowDown", 503)));

    let outcomes = fixture.run(streaming(), vec![item]).await;

    assert_eq!(outcomes[&1].state, ObjectState::Done, "{:?}", outcomes[&1]);
    assert_eq!(fixture.store.count("ListParts"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_part_found_on_a_target_whose_etags_are_no_digests_is_no_contradiction() {
    let plain = || MemoryStore::new(small_limits().minimum_part).without_checksums();
    let mut levels = Vec::new();
    for lost in [None, Some(1), Some(2)] {
        let services = ServicePair::of(plain(), plain().with_opaque_etags());
        let item = services.from.object(1, "k", &bytes(1, 300)).await;
        // Another bucket of this endpoint has shown that plain ETags are digests.
        services.to.connection.quirks.learn_etags(true);
        if let Some(part) = lost {
            services.to.store.rule(Rule::always("UploadPart", Fault::LoseReply).part(part));
        }

        let outcomes = services.run(streaming(), vec![item.clone()]).await;

        let outcome = &outcomes[&1];
        assert_eq!(outcome.state, ObjectState::Done, "{lost:?}: {outcome:?}");
        assert!(services.is_copied(&item).await);
        levels.push(outcome.verified);
    }
    assert_eq!(levels, [levels[0]; 3]);
}
