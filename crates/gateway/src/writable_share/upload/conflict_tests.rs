//! Files whose objects another program has replaced or removed: what was acknowledged is kept, and nothing is stuck.

use std::collections::BTreeMap;

use bytes::Bytes;
use seqferry_share::{FileError, SetAttributes, Share as _, Stability};
use seqferry_store::prelude::*;
use seqferry_store::{ObjectRef, StoredMetadata};
use seqferry_store_testing::ObjectWriteExt as _;
use seqferry_store_testing::fault::{Fault, Latch, Rule};

use super::super::tests::{Setting, random, root};
use super::tests::{Running, drained, keys, objects, store_of};
use super::*;

/// A share with one large object of which a few bytes are changed here, and not uploaded.
async fn changed_in_part() -> Setting {
    let setting = Setting::new(&[("d/large", b"a".repeat(3000)), ("d/other", b"other".to_vec())]).await;
    let file = setting.id("d/large").await;
    setting.write(file, 1000, "0123456789", Stability::File).await.unwrap();
    setting.write(file, 2000, "xyz", Stability::File).await.unwrap();
    setting
}

/// The file as it is kept: zeros in place of the bytes of the object that has gone.
fn with_zeros() -> Vec<u8> {
    let mut kept = vec![0; 3000];
    kept[1000..1010].copy_from_slice(b"0123456789");
    kept[2000..2003].copy_from_slice(b"xyz");
    kept
}

/// The objects in the folder of conflicts: the file that is kept, and the list of ranges.
fn kept(found: &BTreeMap<String, Vec<u8>>, path: &str) -> (Vec<u8>, String) {
    let start = format!(".seqferry-conflicts/{path}.");
    let kept: Vec<_> = found.iter().filter(|(key, _)| key.starts_with(&start)).collect();
    let [(file, bytes), (list, text)] = &kept[..] else { panic!("{:?}", found.keys()) };
    assert_eq!(**list, format!("{file}.unknown"));
    ((*bytes).clone(), String::from_utf8((*text).clone()).unwrap())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OtherWrite {
    Replaces,
    Removes,
}

async fn another_program(setting: &Setting, other: OtherWrite, key: &str) {
    match other {
        OtherWrite::Replaces => {
            setting.store.put("b", key, Bytes::from_static(b"theirs"), &<_>::default()).await.unwrap();
        }
        OtherWrite::Removes => setting.store.delete(ObjectRef::new("b", key)).await.unwrap(),
    }
}

#[tokio::test]
async fn a_file_changed_in_part_whose_object_is_gone_becomes_a_conflict_with_all_its_bytes() {
    for other in [OtherWrite::Replaces, OtherWrite::Removes] {
        for is_killed in [false, true] {
            let mut setting = changed_in_part().await;
            another_program(&setting, other, "p/d/large").await;
            if is_killed {
                setting = setting.restarted(&mut random(), true).await;
            }

            drained(&setting).await;

            let found = objects(&setting).await;
            let (bytes, list) = kept(&found, "d/large");
            assert!(bytes == with_zeros(), "{other:?}");
            let ranges: Vec<&str> = list.lines().filter(|line| !line.starts_with('#')).collect();
            assert_eq!(ranges, ["0 999", "1010 1999", "2003 2999"], "{other:?}");
            assert!(list.starts_with("# Ranges of s3://b/p/d/large"), "{list}");
            assert_eq!(
                found.get("d/large").map(Vec::as_slice),
                (other == OtherWrite::Replaces).then_some(&b"theirs"[..])
            );
            match other {
                OtherWrite::Replaces => assert_eq!(setting.text("d/large").await, "theirs"),
                OtherWrite::Removes => assert_eq!(setting.find("d/large").await.unwrap_err(), FileError::NotFound),
            }
            assert!(setting.share.is_drained(), "nothing is stuck");
            let setting = setting.restarted(&mut random(), true).await;
            assert!(setting.share.is_drained(), "nor in the next process");
        }
    }
}

#[tokio::test]
async fn a_renamed_file_changed_in_part_whose_object_is_gone_becomes_a_conflict() {
    for other in [OtherWrite::Replaces, OtherWrite::Removes] {
        let setting = changed_in_part().await;
        let directory = setting.id("d").await;
        setting.share.rename(&root(), directory, b"large", directory, b"moved").await.unwrap();
        another_program(&setting, other, "p/d/large").await;

        drained(&setting).await;

        let found = objects(&setting).await;
        assert!(kept(&found, "d/moved").0 == with_zeros(), "{other:?}");
        assert_eq!(found.get("d/large").map(Vec::as_slice), (other == OtherWrite::Replaces).then_some(&b"theirs"[..]));
        assert!(!found.contains_key("d/moved") && setting.share.is_drained());
    }
}

#[tokio::test]
async fn a_file_that_waits_in_a_circle_for_an_object_that_is_gone_holds_up_no_other() {
    for other in [OtherWrite::Replaces, OtherWrite::Removes] {
        let setting = changed_in_part().await;
        let directory = setting.id("d").await;
        for (from, to) in [("large", "between"), ("other", "large"), ("between", "other")] {
            setting.share.rename(&root(), directory, from.as_bytes(), directory, to.as_bytes()).await.unwrap();
        }
        another_program(&setting, other, "p/d/large").await;

        drained(&setting).await;

        let found = objects(&setting).await;
        assert!(kept(&found, "d/other").0 == with_zeros(), "{other:?}");
        let values: Vec<&[u8]> = found.values().map(Vec::as_slice).collect();
        assert!(values.contains(&&b"other"[..]), "{other:?}: {:?}", found.keys());
        assert!(setting.share.is_drained());
    }
}

#[tokio::test]
async fn an_object_replaced_while_the_file_is_sent_ends_in_a_conflict() {
    let setting = changed_in_part().await;
    let (store, latch) = (store_of(&setting), Latch::default());
    store.rule(Rule::once("CreateMultipartUpload", Fault::Hold(latch.clone())));
    let running = Running::start(&setting, Arc::clone(&store) as Arc<dyn ObjectStore>);
    latch.reached().await;
    another_program(&setting, OtherWrite::Replaces, "p/d/large").await;
    latch.open();
    running.drain(&setting).await;

    let found = objects(&setting).await;
    let start = ".seqferry-conflicts/d/large.";
    let (_, bytes) = found.iter().find(|(key, _)| key.starts_with(start) && !key.ends_with(".unknown")).unwrap();
    assert!(bytes[1000..1010] == *b"0123456789" && bytes[2000..2003] == *b"xyz");
    assert_eq!(found["d/large"], b"theirs");
    assert!(setting.store.list_uploads("b", "").await.unwrap().is_empty());
}

#[tokio::test]
async fn a_name_in_the_folder_of_conflicts_that_is_taken_is_not_written_over() {
    let setting = Setting::new(&[]).await;
    let file = setting.put("new", "mine").await;
    let changed = setting.share.0.overlay.read(|overlay| overlay.node(file.number).unwrap().changed);
    let taken = format!("p/.seqferry-conflicts/new.{changed}");
    for key in ["p/new", &taken] {
        another_program(&setting, OtherWrite::Replaces, key).await;
    }

    drained(&setting).await;

    let found = objects(&setting).await;
    assert_eq!(found["new"], b"theirs");
    assert_eq!(found[&taken["p/".len()..]], b"theirs");
    assert_eq!(found[&format!(".seqferry-conflicts/new.1.{changed}")], b"mine");
}

#[tokio::test]
async fn a_conflict_that_was_cut_off_is_finished_and_kept_once() {
    let setting = Setting::new(&[]).await;
    setting.put("new", &"m".repeat(2500)).await;
    another_program(&setting, OtherWrite::Replaces, "p/new").await;
    let (store, latch) = (store_of(&setting), Latch::default());
    store.rule(Rule::once("CompleteMultipartUpload", Fault::HoldReply(latch.clone())));
    let running = Running::start(&setting, Arc::clone(&store) as Arc<dyn ObjectStore>);
    latch.reached().await;
    running.kill().await;

    let setting = setting.restarted(&mut random(), true).await;
    drained(&setting).await;

    let found = objects(&setting).await;
    assert_eq!((found.len(), &found["new"][..]), (2, &b"theirs"[..]), "{:?}", found.keys());
    assert_eq!(setting.text("new").await, "theirs");
}

#[tokio::test]
async fn a_file_that_is_in_the_bucket_and_replaced_there_is_read_as_it_is_there() {
    let setting = Setting::new(&[("d/there", b"1".to_vec())]).await;
    let file = setting.put("d/file", "uploaded").await;
    drained(&setting).await;
    // The share remembers the object that was.
    setting.share.0.files.tree().check_path("d/file").await.unwrap().unwrap();
    another_program(&setting, OtherWrite::Replaces, "p/d/file").await;
    let seen = Warnings::default();
    let recorded = tracing::subscriber::set_default(seen.subscriber());

    assert_eq!(setting.bytes(file).await.unwrap(), b"theirs");

    drop(recorded);
    assert_eq!(seen.texts(), [""; 0], "nothing is lost");
    assert_eq!(keys(&setting).await, ["d/file", "d/there"]);
}

#[tokio::test]
async fn attributes_of_a_file_whose_object_is_replaced_are_given_up_for_it() {
    let setting = Setting::new(&[("d/file", b"before".to_vec())]).await;
    let file = setting.id("d/file").await;
    let mode = SetAttributes { mode: Some(0o600), ..SetAttributes::default() };
    setting.share.set_attributes(&root(), file, mode, None).await.unwrap();
    another_program(&setting, OtherWrite::Replaces, "p/d/file").await;
    drained(&setting).await;
    assert_eq!(setting.text("d/file").await, "theirs");
    let meta = setting.store.head(ObjectRef::new("b", "p/d/file"), None).await.unwrap();
    assert_eq!(StoredMetadata::of(&meta.attributes.metadata).mode, None);
    assert_eq!(keys(&setting).await, ["d/file"]);
}

/// Warnings of a test.
#[derive(Debug, Clone, Default)]
struct Warnings(Arc<std::sync::Mutex<Vec<String>>>);

impl Warnings {
    fn subscriber(&self) -> impl tracing::Subscriber + Send + Sync + 'static {
        use tracing_subscriber::layer::SubscriberExt as _;
        tracing_subscriber::registry().with(self.clone())
    }

    fn texts(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

impl<S: tracing::Subscriber> tracing_subscriber::layer::Layer<S> for Warnings {
    fn on_event(&self, event: &tracing::Event<'_>, _: tracing_subscriber::layer::Context<'_, S>) {
        if *event.metadata().level() <= tracing::Level::WARN {
            self.0.lock().unwrap().push(format!("{event:?}"));
        }
    }
}

#[tokio::test]
async fn a_file_with_a_long_name_is_kept_under_a_short_one() {
    let name = "n".repeat(240);
    let path: &'static str = format!("d/{name}").leak();
    let setting = Setting::new(&[(path, b"a".repeat(3000))]).await;
    let file = setting.id(path).await;
    setting.write(file, 1000, "0123456789", Stability::File).await.unwrap();
    another_program(&setting, OtherWrite::Replaces, format!("p/{path}").leak()).await;

    drained(&setting).await;

    let found = objects(&setting).await;
    assert_eq!(found[path], b"theirs");
    let kept: Vec<_> = found.keys().filter(|key| key.starts_with(".seqferry-conflicts/")).collect();
    assert_eq!(kept.len(), 2, "{kept:?}");
    assert!(kept.iter().flat_map(|key| key.split('/')).all(|name| name.len() <= 255), "{kept:?}");
    assert!(found[kept[0]][1000..].starts_with(b"0123456789"));
}
