//! A request much slower than its peers is sent a second time, where that is safe, and the first answer counts.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{SOURCE, TARGET, World, bytes, policy, quick, small_limits};
use bytes::Bytes;
use seqferry_client::{RequestMetrics, RequestSpec, RetryContext, RetryingClient};
use seqferry_store::prelude::*;
use seqferry_store::{Attributes, ObjectRef};
use seqferry_store_testing::MemoryStore;
use seqferry_store_testing::fault::{Fault, Gate, Rule};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Longer than anybody waits.
const FOR_EVER: Duration = Duration::from_hours(1);

fn requests(world: &World) -> RetryingClient {
    RetryingClient::new(
        world.connection.clone(),
        Arc::clone(&world.budget),
        quick(),
        CancellationToken::new(),
        Arc::new(RequestMetrics::default()),
    )
}

async fn heads(world: &World, requests: &RetryingClient, count: usize) {
    for _ in 0..count {
        let head = requests
            .call(RequestSpec::read("HeadObject", SOURCE), &RetryContext::default(), async |store| {
                store.head(ObjectRef::new(SOURCE, "k"), None).await
            })
            .await;
        assert!(head.is_ok());
    }
    assert_eq!(world.budget.stats().in_flight, 0, "a request permit leaked");
}

async fn world() -> World {
    let world = World::new();
    world.memory.put(SOURCE, "k", Bytes::from_static(b"bytes"), &Attributes::default()).await.unwrap();
    world
}

#[tokio::test(start_paused = true)]
async fn a_read_that_hangs_is_answered_by_a_second_one() {
    let world = world().await;
    let requests = requests(&world);
    heads(&world, &requests, 100).await;
    world.store.rule(Rule::once("HeadObject", Fault::Delay(FOR_EVER)));

    let begun = Instant::now();
    heads(&world, &requests, 1).await;

    assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    assert_eq!(world.budget.stats().hedges, 1);
    assert_eq!(world.store.count("HeadObject"), 102);
}

#[tokio::test(start_paused = true)]
async fn only_few_requests_are_sent_a_second_time() {
    let world = world().await;
    let requests = requests(&world);
    heads(&world, &requests, 128).await;
    world.store.rule(Rule::always("HeadObject", Fault::Delay(Duration::from_mins(1))));

    heads(&world, &requests, 20).await;

    assert!(world.budget.stats().hedges <= 2, "{:?}", world.budget.stats());
}

#[tokio::test(start_paused = true)]
async fn the_second_one_may_fail_and_the_first_one_counts() {
    let world = world().await;
    let requests = requests(&world);
    heads(&world, &requests, 100).await;
    world.store.rule(Rule::once("HeadObject", Fault::Delay(Duration::from_secs(10))));
    world.store.rule(Rule::once("HeadObject", Fault::Fail("AccessDenied", 403)));

    let begun = Instant::now();
    heads(&world, &requests, 1).await;

    assert_eq!(begun.elapsed().as_secs(), 10);
    assert_eq!(world.store.count("HeadObject"), 102);
}

#[tokio::test(start_paused = true)]
async fn what_changes_something_is_never_under_way_twice() {
    let world = world().await;
    let requests = requests(&world);
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
    world.store.rule(Rule::once("DeleteObject", Fault::Delay(FOR_EVER)));

    let begun = Instant::now();
    delete().await;

    assert!(begun.elapsed() >= FOR_EVER);
    assert_eq!(world.budget.stats().hedges, 0);
}

/// Parts enough to know what a part takes.
const PARTS: u32 = 90;

#[tokio::test]
async fn a_part_that_hangs_is_copied_by_a_second_request_and_the_object_is_whole() {
    let world = World::new();
    let content = bytes(1, PARTS as usize * 50);
    let item = world.object(1, "big", &content).await;
    let hung = Gate::default();
    world.store.rule(Rule::once("UploadPartCopy", Fault::Hold(hung.clone())).part(PARTS));

    let outcomes = world.run(policy(), vec![item]).await;

    assert!(outcomes[&1].failure.is_none(), "{:?}", outcomes[&1].failure);
    assert_eq!(world.read(TARGET, "copy/big").await, Some(content.clone()));
    assert_eq!(world.store.count("UploadPartCopy"), PARTS as usize + 1);
    assert_eq!(world.store.count("CompleteMultipartUpload"), 1);
    assert_eq!(world.budget.stats().hedges, 1);
    // The one that hung comes too late to change anything.
    hung.open();
    assert_eq!(world.open_uploads().await, 0);
    assert_eq!(world.read(TARGET, "copy/big").await, Some(content));
}

#[tokio::test]
async fn parts_that_were_under_way_before_the_first_answer_are_sent_again_as_well() {
    let world = World::new();
    let before = world.object(1, "before", &bytes(1, PARTS as usize * 50)).await;
    // Few enough to begin all at once.
    let content = bytes(2, 3 * 50);
    let item = world.object(2, "few", &content).await;
    let hung = Gate::default();
    world.store.rule(Rule::once("UploadPartCopy", Fault::Hold(hung.clone())).key("copy/few").part(3));
    world.run(policy(), vec![before]).await;

    let outcomes = world.run(policy(), vec![item]).await;

    assert!(outcomes[&2].failure.is_none(), "{:?}", outcomes[&2].failure);
    assert_eq!(world.read(TARGET, "copy/few").await, Some(content));
    assert_eq!(world.budget.stats().hedges, 1);
    hung.open();
}

#[tokio::test]
async fn a_part_is_not_copied_twice_at_a_time_where_the_same_bytes_may_get_another_etag() {
    let world = World::of(MemoryStore::new(small_limits().minimum_part).with_opaque_etags());
    let content = bytes(1, PARTS as usize * 50);
    let item = world.object(1, "big", &content).await;
    world.store.rule(Rule::once("UploadPartCopy", Fault::Delay(Duration::from_millis(1500))).part(PARTS));

    let outcomes = world.run(policy(), vec![item]).await;

    assert!(outcomes[&1].failure.is_none(), "{:?}", outcomes[&1].failure);
    assert_eq!(world.store.count("UploadPartCopy"), PARTS as usize);
    assert_eq!(world.budget.stats().hedges, 0);
}
