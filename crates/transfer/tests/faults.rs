//! Faults on the way: every object ends verified, or failed with the right class, and nothing is left behind.

use std::time::Duration;

use crate::common::pairs::{assert_whole, pair};
use crate::common::{SOURCE, TARGET, TransferFixture, bytes, drain, policy};
use seqferry_store_testing::fault::{Fault, Rule};
use seqferry_transfer::{FailureClass, ObjectState, Policy, StopMode, VerificationLevel, VerificationRule};

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

            assert!(outcomes.values().all(|o| o.state == ObjectState::Done), "{operation} {code}: {outcomes:?}");
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

        assert!(outcomes.values().all(|o| o.state == ObjectState::Done), "{operation}: {outcomes:?}");
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
        assert_eq!((failed[0].class.as_str(), failed[0].code.as_str()), (class, code));
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
        assert!(outcomes.values().all(|o| o.state != ObjectState::Failed), "{outcomes:?}");
        assert_eq!(fixture.open_uploads().await, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn expired_credentials_are_loaded_anew() {
    let fixture = TransferFixture::new();
    let items = pair(&fixture).await;
    fixture.store.rule(Rule::once("UploadPartCopy", Fault::Fail("ExpiredToken", 400)));

    let outcomes = fixture.run(policy(), items).await;

    assert!(outcomes.values().all(|o| o.state == ObjectState::Done), "{outcomes:?}");
    assert_eq!(fixture.store.count("RefreshCredentials"), 1);
    assert_whole(&fixture).await;
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
    fixture.store.inject_randomly(seed, 0.2, faults);

    let outcomes = fixture.run(policy(), items.clone()).await;

    assert_eq!(outcomes.len(), 200);
    for item in items {
        let outcome = &outcomes[&item.id];
        let copied = fixture.read(TARGET, &item.target_key).await;
        match outcome.state {
            ObjectState::Done => assert_eq!(copied, fixture.read(SOURCE, &item.source_key).await),
            ObjectState::Failed => {
                assert!(
                    matches!(outcome.failure.as_ref().unwrap().class.as_str(), "retry" | "throttle"),
                    "{outcome:?}"
                );
            }
            other => panic!("seed {seed}: {other:?}"),
        }
    }
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

    assert!(outcomes.len() == 50 && outcomes.values().all(|o| o.state == ObjectState::Cancelled));
    assert_eq!(others.len(), 1536, "held to the end");
}
