//! Versions of one object are copied in their order, each after the one before it has ended well.

use std::collections::HashMap;
use std::time::Duration;

use seqferry_transfer::{
    FoundCopy, JobEvent, JobItem, ObjectOutcome, ObjectState, Policy, StopMode, VerificationLevel,
};

use crate::common::{TransferFixture, drain, policy};

fn in_order() -> Policy {
    Policy { in_order: true, ..policy() }
}

/// Version `id` of `key`, whose bytes are an object of their own in memory.
async fn version(fixture: &TransferFixture, id: u64, key: &str) -> JobItem {
    let item = fixture.object(id, &format!("{key}/{id}"), &[u8::try_from(id).unwrap(); 20]).await;
    JobItem { target_key: key.into(), version_id: None, ..item }
}

fn found(version_id: &str) -> FoundCopy {
    FoundCopy { etag: "e".into(), version_id: Some(version_id.into()), verified: VerificationLevel::Etag }
}

fn codes(outcomes: &HashMap<u64, ObjectOutcome>) -> Vec<(u64, ObjectState, &str)> {
    let code =
        |outcome: &ObjectOutcome| outcome.failure.as_ref().map_or("", |failure| failure.code.as_str()).to_owned();
    let mut found: Vec<_> = outcomes.values().map(|outcome| (outcome.id, outcome.state, code(outcome))).collect();
    found.sort_by_key(|(id, ..)| *id);
    found.into_iter().map(|(id, state, code)| (id, state, &*code.leak())).collect()
}

#[tokio::test]
async fn a_version_that_an_earlier_run_has_written_is_not_copied_and_the_next_one_follows() {
    let fixture = TransferFixture::new();
    let first = JobItem { written: Some(found("v1")), ..version(&fixture, 1, "k").await };
    let second = version(&fixture, 2, "k").await;
    let outcomes = fixture.run(in_order(), vec![first, second]).await;
    assert_eq!(codes(&outcomes), [(1, ObjectState::Done, ""), (2, ObjectState::Done, "")]);
    assert_eq!(outcomes[&1].target_version_id.as_deref(), Some("v1"));
    assert_eq!(outcomes[&1].target_etag.as_deref(), Some("e"));
    assert_eq!(fixture.read("target", "k").await.unwrap(), [2; 20]);
}

#[tokio::test]
async fn no_version_follows_one_that_failed_and_other_objects_go_on() {
    let fixture = TransferFixture::new();
    let mut items = Vec::new();
    for (id, key) in [(1, "a"), (2, "a"), (3, "b"), (4, "a")] {
        items.push(version(&fixture, id, key).await);
    }
    items[0].source_key = "gone".into();
    let outcomes = fixture.run(in_order(), items).await;
    let failed = |id| (id, ObjectState::Failed, "EarlierVersionFailed");
    let ends = codes(&outcomes);
    assert_eq!((ends[0].1, &ends[1..]), (ObjectState::Failed, &[failed(2), (3, ObjectState::Done, ""), failed(4)][..]));
    assert!(fixture.read("target", "a").await.is_none(), "no version of it was copied");
    assert_eq!(fixture.read("target", "b").await.unwrap(), [3; 20]);
}

#[tokio::test]
async fn no_version_follows_one_that_the_target_does_not_keep() {
    let fixture = TransferFixture::new();
    let items = vec![version(&fixture, 1, "k").await, version(&fixture, 2, "k").await];
    let outcomes = fixture.run(in_order(), items).await;
    assert_eq!(codes(&outcomes), [(1, ObjectState::Done, ""), (2, ObjectState::Failed, "NoVersions")]);
    assert_eq!(fixture.read("target", "k").await.unwrap(), [1; 20]);
    let message = &outcomes[&2].failure.as_ref().unwrap().message;
    assert!(message.ends_with("was not copied: its target keeps no versions; switch that on."), "{message}");
}

#[tokio::test]
async fn a_cancelled_job_ends_all_versions_as_cancelled_and_a_suspended_one_ends_none() {
    for (stop, ends) in [(StopMode::Cancel, vec![ObjectState::Cancelled; 3]), (StopMode::Suspend, vec![])] {
        let fixture = TransferFixture::new();
        let mut items = Vec::new();
        for id in 1..4 {
            items.push(JobItem { written: Some(found("v")), ..version(&fixture, id, "k").await });
        }
        let job = fixture.start(in_order(), items);
        job.stop(stop);
        let outcomes = drain(job).await.0;
        assert_eq!(codes(&outcomes).into_iter().map(|(_, state, _)| state).collect::<Vec<_>>(), ends, "{stop:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_versions_of_an_object_end_in_their_order() {
    let fixture = TransferFixture::new();
    let mut items = Vec::new();
    for id in 1..20 {
        let written = if id < 19 { Some(found("v")) } else { None };
        items.push(JobItem { written, ..version(&fixture, id, "k").await });
    }
    let job = fixture.start(in_order(), items);
    let mut ended = Vec::new();
    while !job.is_finished() {
        let events = tokio::task::block_in_place(|| job.wait(Duration::from_secs(1)));
        ended.extend(events.into_iter().filter_map(|event| match event {
            JobEvent::Ended(outcome) => Some((outcome.id, outcome.state)),
            JobEvent::RecordUpload { .. } => None,
        }));
    }
    assert_eq!(ended, (1..20).map(|id| (id, ObjectState::Done)).collect::<Vec<_>>());
    assert_eq!(fixture.read("target", "k").await.unwrap(), [19; 20]);
}
