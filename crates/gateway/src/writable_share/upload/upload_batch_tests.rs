//! Outcomes of uploads: each version is in one batch, until the record has it.

use std::io::ErrorKind;
use std::net::IpAddr;

use bytes::Bytes;
use seqferry_share::{Caller, SetAttributes, Share as _, Stability};
use seqferry_store::ObjectStore;
use seqferry_store_testing::ObjectWriteExt as _;
use seqferry_store_testing::fault::{Fault, Rule};

use super::super::tests::{Setting, random};
use super::tests::{Running, drained, head, store_of};
use crate::overlay::UploadOutcome;
use crate::upload_batches;

async fn outcomes(setting: &Setting, batch: u64) -> Vec<UploadOutcome> {
    setting.share.read_upload_batch(batch).await.unwrap().0
}

fn paths(outcomes: &[UploadOutcome]) -> Vec<&str> {
    let mut paths: Vec<&str> = outcomes.iter().map(|one| one.path.as_str()).collect();
    paths.sort_unstable();
    paths
}

/// Paths of the ends of uploads that are on record.
pub(super) async fn paths_on_record(setting: &Setting) -> Vec<String> {
    setting.share.freeze_upload_batch().await.unwrap();
    let mut found = Vec::new();
    for batch in numbers(setting) {
        found.extend(outcomes(setting, batch).await);
    }
    paths(&found).into_iter().map(str::to_owned).collect()
}

fn numbers(setting: &Setting) -> Vec<u64> {
    setting.share.pending_upload_batches().map(|(_, numbers)| numbers).unwrap_or_default()
}

#[tokio::test]
async fn each_version_is_in_one_epoch_until_it_is_taken_whatever_is_killed_between() {
    let setting = Setting::new(&[]).await;
    let file = setting.put("a", "0").await;
    let client = Caller { address: IpAddr::from([10, 1, 2, 3]), uid: 0, gid: 0, groups: Vec::new() };
    setting.share.write(&client, file, 0, Bytes::from_static(b"first"), Stability::File).await.unwrap();
    setting.share.create_directory(&client, setting.share.root(), b"d", SetAttributes::default()).await.unwrap();
    drained(&setting).await;
    assert_eq!((numbers(&setting), setting.share.write_status().await.unrecorded), (vec![], 2));

    // A loss of power before anything was frozen.
    let setting = setting.restarted(&mut random(), true).await;
    setting.share.freeze_upload_batch().await.unwrap();
    setting.share.freeze_upload_batch().await.unwrap();

    assert_eq!((numbers(&setting), setting.share.write_status().await.unrecorded), (vec![0], 2));
    let found = outcomes(&setting, 0).await;
    assert_eq!(paths(&found), ["a", "d/"]);
    let a = found.iter().find(|one| one.path == "a").unwrap();
    let meta = head(&setting, "a").await;
    assert_eq!((a.uid, a.address.as_deref(), a.size), (Some(0), Some("10.1.2.3"), 5));
    assert!(a.failure.is_none() && a.started <= a.ended);
    let (version, checksum) = (a.version.as_ref().unwrap(), meta.checksum.unwrap());
    assert_eq!(version.etag, meta.etag);
    assert_eq!(version.checksum_algorithm.as_deref(), Some(checksum.algorithm.name()));
    assert_eq!(version.checksum, Some(checksum.value));

    // A process that is killed between the file and the journal leaves a file that nothing was promised of.
    upload_batches::write(&setting.journal, "other", 1, &["{}".into()], None).unwrap();
    let setting = setting.restarted(&mut random(), true).await;
    assert_eq!(numbers(&setting), [0]);
    setting.put("b", "second").await;
    drained(&setting).await;
    setting.share.freeze_upload_batch().await.unwrap();
    assert_eq!((numbers(&setting), paths(&outcomes(&setting, 1).await)), (vec![0, 1], vec!["b"]));

    // The record has one: it is forgotten, and its number is not used again.
    for batch in [0, 1, 1] {
        setting.share.forget_upload_batch(batch).await.unwrap();
    }
    let setting = setting.restarted(&mut random(), true).await;
    assert_eq!((numbers(&setting), setting.share.write_status().await.unrecorded), (vec![], 0));
    setting.put("c", "third").await;
    drained(&setting).await;
    setting.share.freeze_upload_batch().await.unwrap();
    assert_eq!((numbers(&setting), paths(&outcomes(&setting, 2).await)), (vec![2], vec!["c"]));
    assert_eq!(setting.share.read_upload_batch(1).await.unwrap_err().kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn an_upload_whose_process_was_killed_before_it_was_recorded_has_one_outcome() {
    let setting = Setting::new(&[]).await;
    setting.put("a", "first").await;
    let (store, latch) = (store_of(&setting), seqferry_store_testing::fault::Latch::default());
    store.rule(Rule::once("PutObject", Fault::HoldReply(latch.clone())).key("p/a"));
    let running = Running::start(&setting, std::sync::Arc::clone(&store) as std::sync::Arc<dyn ObjectStore>);
    latch.reached().await;
    running.kill().await;

    let setting = setting.restarted(&mut random(), true).await;
    drained(&setting).await;
    setting.share.freeze_upload_batch().await.unwrap();

    let found = outcomes(&setting, 0).await;
    assert_eq!(paths(&found), ["a"]);
    assert_eq!(found[0].version.as_ref().unwrap().etag, head(&setting, "a").await.etag);
}

#[tokio::test]
async fn a_conflict_is_a_failure_of_the_key_and_a_version_beside_it() {
    let setting = Setting::new(&[]).await;
    setting.put("new", "my new").await;
    setting.store.put("b", "p/new", Bytes::from_static(b"their new"), &<_>::default()).await.unwrap();
    drained(&setting).await;
    setting.share.freeze_upload_batch().await.unwrap();

    let found = outcomes(&setting, 0).await;

    let [kept, lost] = &found[..] else { panic!("{found:?}") };
    assert!(kept.path.starts_with(".seqferry-conflicts/new."), "{kept:?}");
    assert!(kept.version.is_some() && lost.version.is_none());
    assert_eq!((lost.path.as_str(), lost.failure.as_ref().unwrap().code.as_str()), ("new", "Conflict"));
}

#[tokio::test(start_paused = true)]
async fn a_service_that_refuses_what_should_hold_is_asked_with_pauses_and_told() {
    let setting = Setting::new(&[]).await;
    setting.put("refused", "x").await;
    let store = store_of(&setting);
    store.rule(Rule::always("PutObject", Fault::Fail("PreconditionFailed", 412)).key("p/refused"));
    let running = Running::start(&setting, std::sync::Arc::clone(&store) as std::sync::Arc<dyn ObjectStore>);
    let failing = async || setting.share.write_status().await.files.failing;
    while failing().await.first().is_none_or(|one| one.attempts < 5) {
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    running.kill().await;

    let [one] = &failing().await[..] else { panic!("not one file fails") };
    assert!(one.cause.contains("times in a row"), "{}", one.cause);
    // Two attempts before the first failure, and one for each.
    assert!(store.count("PutObject") <= 2 * 8, "{} requests", store.count("PutObject"));
}

#[tokio::test(start_paused = true)]
async fn a_file_that_goes_on_failing_is_one_outcome() {
    let setting = Setting::new(&[]).await;
    setting.put("denied", "x").await;
    let store = store_of(&setting);
    store.rule(Rule::always("PutObject", Fault::Fail("AccessDenied", 403)).key("p/denied"));
    let running = Running::start(&setting, std::sync::Arc::clone(&store) as std::sync::Arc<dyn ObjectStore>);
    let attempts = async || setting.share.write_status().await.files.failing.first().map_or(0, |one| one.attempts);
    while attempts().await < 5 {
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    running.kill().await;
    setting.share.freeze_upload_batch().await.unwrap();

    let found = outcomes(&setting, 0).await;

    assert_eq!(paths(&found), ["denied"]);
    assert!(found[0].failure.as_ref().unwrap().message.contains("AccessDenied"), "{found:?}");
    assert_eq!(found[0].attempts, 3);
}
