//! A request much slower than its peers is sent a second time, where that is safe, and the first answer counts.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{SOURCE, TARGET, TransferFixture, bytes, policy, quick, small_limits};
use bytes::Bytes;
use seqferry_client::{RequestMetrics, RequestSpec, RetryContext, RetryingClient};
use seqferry_store::{Attributes, ObjectRef};
use seqferry_store_testing::fault::{Fault, Latch, Rule};
use seqferry_store_testing::{MemoryStore, ObjectWriteExt as _};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Longer than any test waits.
const FOR_EVER: Duration = Duration::from_hours(1);

fn requests(fixture: &TransferFixture) -> RetryingClient {
    RetryingClient::new(
        fixture.connection.clone(),
        Arc::clone(&fixture.budget),
        quick(),
        CancellationToken::new(),
        Arc::new(RequestMetrics::default()),
    )
}

async fn heads(fixture: &TransferFixture, requests: &RetryingClient, count: usize) {
    for _ in 0..count {
        let head = requests
            .call(RequestSpec::read("HeadObject", SOURCE), &RetryContext::default(), async |store| {
                store.head(ObjectRef::new(SOURCE, "k"), None).await
            })
            .await;
        assert!(head.is_ok());
    }
    assert_eq!(fixture.budget.stats().in_flight, 0, "a request permit leaked");
}

async fn fixture() -> TransferFixture {
    let fixture = TransferFixture::new();
    fixture.memory.put(SOURCE, "k", Bytes::from_static(b"bytes"), &Attributes::default()).await.unwrap();
    fixture
}

#[tokio::test(start_paused = true)]
async fn a_read_that_hangs_is_answered_by_a_second_one() {
    let fixture = fixture().await;
    let requests = requests(&fixture);
    heads(&fixture, &requests, 100).await;
    fixture.store.rule(Rule::once("HeadObject", Fault::Delay(FOR_EVER)));

    let begun = Instant::now();
    heads(&fixture, &requests, 1).await;

    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    assert_eq!(fixture.budget.stats().hedges, 1);
    assert_eq!(fixture.store.count("HeadObject"), 102);
}

#[tokio::test(start_paused = true)]
async fn only_few_requests_are_sent_a_second_time() {
    let fixture = fixture().await;
    let requests = requests(&fixture);
    heads(&fixture, &requests, 128).await;
    fixture.store.rule(Rule::always("HeadObject", Fault::Delay(Duration::from_mins(1))));

    heads(&fixture, &requests, 20).await;

    assert!(fixture.budget.stats().hedges <= 2, "{:?}", fixture.budget.stats());
}

#[tokio::test(start_paused = true)]
async fn the_second_one_may_fail_and_the_first_one_counts() {
    let fixture = fixture().await;
    let requests = requests(&fixture);
    heads(&fixture, &requests, 100).await;
    fixture.store.rule(Rule::once("HeadObject", Fault::Delay(Duration::from_secs(10))));
    fixture.store.rule(Rule::once("HeadObject", Fault::Fail("AccessDenied", 403)));

    let begun = Instant::now();
    heads(&fixture, &requests, 1).await;

    assert_eq!(begun.elapsed().as_secs(), 10);
    assert_eq!(fixture.store.count("HeadObject"), 102);
}

#[tokio::test(start_paused = true)]
async fn what_changes_something_is_never_under_way_twice() {
    let fixture = fixture().await;
    let requests = requests(&fixture);
    let delete = async || {
        let deleted = requests
            .call(RequestSpec::write("DeleteObject", TARGET), &RetryContext::default(), async |store| {
                store.delete(ObjectRef::new(TARGET, "k")).await
            })
            .await;
        assert!(deleted.is_ok());
    };
    for _ in 0..200 {
        delete().await;
    }
    fixture.store.rule(Rule::once("DeleteObject", Fault::Delay(FOR_EVER)));

    let begun = Instant::now();
    delete().await;

    assert!(begun.elapsed() >= FOR_EVER);
    assert_eq!(fixture.budget.stats().hedges, 0);
}

/// Parts enough to know what a part takes.
const PARTS: u32 = 90;

#[tokio::test]
async fn a_part_that_hangs_is_copied_by_a_second_request_and_the_object_is_whole() {
    let fixture = TransferFixture::new();
    let content = bytes(1, PARTS as usize * 50);
    let item = fixture.object(1, "big", &content).await;
    let hung = Latch::default();
    fixture.store.rule(Rule::once("UploadPartCopy", Fault::Hold(hung.clone())).part(PARTS));

    let outcomes = fixture.run(policy(), vec![item]).await;

    assert!(outcomes[&1].failure.is_none(), "{:?}", outcomes[&1].failure);
    assert_eq!(fixture.read(TARGET, "copy/big").await, Some(content.clone()));
    assert_eq!(fixture.store.count("UploadPartCopy"), PARTS as usize + 1);
    assert_eq!(fixture.store.count("CompleteMultipartUpload"), 1);
    assert_eq!(fixture.budget.stats().hedges, 1);
    // The one that hung comes too late to change anything.
    hung.open();
    assert_eq!(fixture.open_uploads().await, 0);
    assert_eq!(fixture.read(TARGET, "copy/big").await, Some(content));
}

#[tokio::test]
async fn parts_that_were_under_way_before_the_first_answer_are_sent_again_as_well() {
    let fixture = TransferFixture::new();
    let before = fixture.object(1, "before", &bytes(1, PARTS as usize * 50)).await;
    // Few enough to begin all concurrently.
    let content = bytes(2, 3 * 50);
    let item = fixture.object(2, "few", &content).await;
    let hung = Latch::default();
    fixture.store.rule(Rule::once("UploadPartCopy", Fault::Hold(hung.clone())).key("copy/few").part(3));
    fixture.run(policy(), vec![before]).await;

    let outcomes = fixture.run(policy(), vec![item]).await;

    assert!(outcomes[&2].failure.is_none(), "{:?}", outcomes[&2].failure);
    assert_eq!(fixture.read(TARGET, "copy/few").await, Some(content));
    assert_eq!(fixture.budget.stats().hedges, 1);
    hung.open();
}

#[tokio::test]
async fn a_part_is_not_copied_twice_at_a_time_where_the_same_bytes_may_get_another_etag() {
    let fixture = TransferFixture::of(MemoryStore::new(small_limits().minimum_part).with_opaque_etags());
    let content = bytes(1, PARTS as usize * 50);
    let item = fixture.object(1, "big", &content).await;
    fixture.store.rule(Rule::once("UploadPartCopy", Fault::Delay(Duration::from_millis(1500))).part(PARTS));

    let outcomes = fixture.run(policy(), vec![item]).await;

    assert!(outcomes[&1].failure.is_none(), "{:?}", outcomes[&1].failure);
    assert_eq!(fixture.store.count("UploadPartCopy"), PARTS as usize);
    assert_eq!(fixture.budget.stats().hedges, 0);
}
