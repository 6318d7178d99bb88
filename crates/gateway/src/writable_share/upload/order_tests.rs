//! Order of uploads, renames, removals, kills and questions to the bucket, one interleaving each: those that random
//! histories have found.

use std::collections::BTreeMap;

use bytes::Bytes;
use seqferry_share::{CreateMode, FileError, SetAttributes, Share as _, Stability, TimeUpdate};
use seqferry_store::prelude::*;
use seqferry_store::{ObjectRef, StoredMetadata};
use seqferry_store_testing::ObjectWriteExt as _;
use seqferry_store_testing::fault::{Fault, Latch, Rule};

use super::super::tests::{Setting, random, root};
use super::tests::{QUIET, Running, drained, head, keys, objects, store_of};
use super::*;

/// Wait for a state of the bucket, while the uploader runs.
async fn until(setting: &Setting, expected: &[&str]) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while keys(setting).await != expected {
        assert!(Instant::now() < deadline, "{:?} and not {expected:?}", keys(setting).await);
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

#[tokio::test]
async fn a_file_stays_when_its_folder_is_moved_while_the_bucket_is_asked_for_it() {
    let setting = Setting::new(&[("d/other", b"1".to_vec())]).await;
    let file = setting.put("d/file", "text").await;
    drained(&setting).await;
    let latch = Latch::default();
    setting.asked.rule(Rule::once("HeadObject", Fault::Hold(latch.clone())).key("p/d/file"));
    let share = setting.share.clone();
    let asking = tokio::spawn(async move { share.attributes(&root(), file).await });
    latch.reached().await;
    let top = setting.share.root();
    setting.share.rename(&root(), top, b"d", top, b"e").await.unwrap();
    drained(&setting).await;
    latch.open();
    assert_eq!(asking.await.unwrap().unwrap().file, file);
    assert_eq!((setting.text("e/file").await.as_str(), setting.id("e/file").await), ("text", file));
}

#[tokio::test]
async fn a_file_at_the_name_of_a_folder_waits_for_a_write_below_it_that_begins_late() {
    let setting = Setting::new(&[]).await;
    let top = setting.share.root();
    setting.share.create_directory(&root(), top, b"d", SetAttributes::default()).await.unwrap();
    setting.put("d/file", "below").await;
    let (store, probe, copy) = (store_of(&setting), Latch::default(), Latch::default());
    store.rule(Rule::once("PutObject", Fault::Hold(probe.clone())).key("p/.seqferry-probe"));
    store.rule(Rule::always("CopyObject", Fault::Hold(copy.clone())).key("p/e/file"));
    let running = Running::start(&setting, Arc::clone(&store) as Arc<dyn ObjectStore>);
    probe.reached().await;
    setting.share.rename(&root(), top, b"d", top, b"e").await.unwrap();
    let file = setting.put("d", "a file").await;
    // It has settled before the write of the other file begins.
    tokio::time::sleep(QUIET * 4).await;
    probe.open();
    let deadline = Instant::now() + Duration::from_secs(30);
    while !keys(&setting).await.contains(&"e/".to_owned()) && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    tokio::time::sleep(QUIET * 4).await;
    assert_eq!(setting.share.attributes(&root(), file).await.unwrap().size, 6);
    copy.open();
    running.drain(&setting).await;
    assert_eq!((setting.text("d").await, setting.text("e/file").await), ("a file".to_owned(), "below".to_owned()));
    assert_eq!(keys(&setting).await, ["d", "e/", "e/file"]);
}

#[tokio::test]
async fn a_folder_that_is_made_anew_does_not_show_folders_that_were_moved_away_from_it() {
    let setting = Setting::new(&[("d/e/file", b"1".to_vec())]).await;
    let top = setting.share.root();
    setting.put("large", &"a".repeat(2500)).await;
    assert_eq!(setting.names("d/e", 9).await, ["file"]);
    setting.share.rename(&root(), top, b"d", top, b"z").await.unwrap();
    let (store, latch) = (store_of(&setting), Latch::default());
    // Names show again when nothing is under way.
    store.rule(Rule::always("UploadPart", Fault::Hold(latch.clone())));
    let running = Running::start(&setting, Arc::clone(&store) as Arc<dyn ObjectStore>);
    until(&setting, &["z/", "z/e/", "z/e/file"]).await;
    setting.share.create_directory(&root(), top, b"d", SetAttributes::default()).await.unwrap();
    until(&setting, &["d/", "z/", "z/e/", "z/e/file"]).await;
    tokio::time::sleep(QUIET * 2).await;
    assert_eq!(setting.names("d", 9).await, [""; 0]);
    latch.open();
    running.drain(&setting).await;
    assert_eq!(setting.names("d", 9).await, [""; 0]);
}

#[tokio::test]
async fn an_object_is_not_removed_before_its_copy_is_in_the_journal() {
    let setting = Setting::new(&[("d/file", b"text".to_vec())]).await;
    let top = setting.share.root();
    let file = setting.id("d/file").await;
    setting.share.rename(&root(), setting.id("d").await, b"file", top, b"moved").await.unwrap();
    let (store, latch) = (store_of(&setting), Latch::default());
    store.rule(Rule::once("CopyObject", Fault::HoldReply(latch.clone())));
    let running = Running::start(&setting, Arc::clone(&store) as Arc<dyn ObjectStore>);
    latch.reached().await;
    // The disk of the journal fails: what it has not is not to be acted upon.
    setting.journal.die_after(0);
    latch.open();
    tokio::time::sleep(QUIET * 5).await;
    assert_eq!(keys(&setting).await, ["d/file", "moved"]);
    running.kill().await;
    let setting = setting.restarted(&mut random(), true).await;
    assert_eq!((setting.id("moved").await, setting.text("moved").await.as_str()), (file, "text"));
    drained(&setting).await;
    assert_eq!(keys(&setting).await, ["moved"]);
    assert_eq!(setting.text("moved").await, "text");
}

#[tokio::test]
async fn files_are_uploaded_after_a_loss_of_the_table_of_names_before_a_client_asks_for_them() {
    let setting = Setting::new(&[("a/b/c/file", b"0123456789".to_vec()), ("a/b/other", b"1".to_vec())]).await;
    setting.write(setting.id("a/b/c/file").await, 3, "xyz", Stability::File).await.unwrap();
    let b = setting.id("a/b").await;
    setting.share.rename(&root(), b, b"other", b, b"moved").await.unwrap();
    setting.put("a/b/c/new", "new").await;
    // Its table is in memory.
    let setting = setting.restarted(&mut random(), true).await;
    assert!(setting.share.waiting() > 0);
    drained(&setting).await;
    let found = objects(&setting).await;
    let texts: Vec<(&str, &[u8])> = found.iter().map(|(key, body)| (key.as_str(), &body[..])).collect();
    assert_eq!(texts, [("a/b/c/file", &b"012xyz6789"[..]), ("a/b/c/new", b"new"), ("a/b/moved", b"1")]);
}

#[tokio::test]
async fn a_probe_that_a_kill_has_left_never_shows_and_is_removed() {
    let setting = Setting::new(&[]).await;
    setting.put("file", "1").await;
    let (store, latch) = (store_of(&setting), Latch::default());
    store.rule(Rule::once("PutObject", Fault::HoldReply(latch.clone())).key("p/.seqferry-probe"));
    let running = Running::start(&setting, Arc::clone(&store) as Arc<dyn ObjectStore>);
    latch.reached().await;
    assert_eq!(keys(&setting).await, [".seqferry-probe"]);
    running.kill().await;
    let setting = setting.restarted(&mut random(), true).await;
    assert_eq!(setting.names("", 9).await, ["file"]);
    assert_eq!(setting.find(".seqferry-probe").await.unwrap_err(), seqferry_share::FileError::NotFound);
    let top = setting.share.root();
    let plain = SetAttributes::default();
    let made = setting.share.create_directory(&root(), top, b".seqferry-probe", plain).await;
    assert_eq!(made.unwrap_err(), seqferry_share::FileError::AccessDenied);
    let renamed = setting.share.rename(&root(), top, b"file", top, b".seqferry-probe").await;
    assert_eq!(renamed.unwrap_err(), seqferry_share::FileError::AccessDenied);
    setting.share.remove(&root(), top, b"file").await.unwrap();
    drained(&setting).await;
    assert_eq!(keys(&setting).await, [""; 0]);
    // Below the top it is a name like others.
    setting.share.create_directory(&root(), top, b"d", plain).await.unwrap();
    setting.put("d/.seqferry-probe", "1").await;
    drained(&setting).await;
    assert_eq!(keys(&setting).await, ["d/", "d/.seqferry-probe"]);
}

#[tokio::test]
async fn an_upload_that_was_cut_off_and_whose_file_was_renamed_leaves_nothing_open() {
    let setting = Setting::new(&[]).await;
    let top = setting.share.root();
    let text = "0123456789".repeat(150);
    let file = setting.put("large", &text).await;
    drained(&setting).await;
    // Bytes and time stay, and another mode makes it another generation; the object before looks like this one.
    setting.write(file, 0, "0", Stability::File).await.unwrap();
    drained(&setting).await;
    let found = setting.share.attributes(&root(), file).await.unwrap();
    setting.write(file, 0, "0", Stability::File).await.unwrap();
    let set = SetAttributes { mode: Some(0o600), modified: Some(TimeUpdate::At(found.modified)), ..<_>::default() };
    setting.share.set_attributes(&root(), file, set, None).await.unwrap();
    let (store, latch) = (store_of(&setting), Latch::default());
    store.rule(Rule::always("UploadPart", Fault::Hold(latch.clone())));
    let running = Running::start(&setting, Arc::clone(&store) as Arc<dyn ObjectStore>);
    latch.reached().await;
    running.kill().await;
    setting.share.rename(&root(), top, b"large", top, b"renamed").await.unwrap();
    let setting = setting.restarted(&mut random(), true).await;
    drained(&setting).await;
    assert_eq!(setting.store.list_uploads("b", "").await.unwrap().len(), 0);
    assert_eq!(keys(&setting).await, ["renamed"]);
    assert_eq!(StoredMetadata::of(&head(&setting, "renamed").await.attributes.metadata).mode, Some(0o100_600));
    assert_eq!(setting.text("renamed").await, text);
}

#[tokio::test]
async fn an_open_file_that_a_client_has_hidden_keeps_its_bytes_when_its_name_is_used_again() {
    let setting = Setting::new(&[("log", b"old".to_vec())]).await;
    let top = setting.share.root();
    let open = setting.id("log").await;
    // As NFS clients do when a file is removed that a program still has open.
    setting.share.rename(&root(), top, b"log", top, b".nfs0001").await.unwrap();
    setting.put("log", "new").await;
    drained(&setting).await;
    assert_eq!(objects(&setting).await["log"], b"new");
    assert_eq!(setting.bytes(open).await.unwrap(), b"old");
    setting.share.remove(&root(), top, b".nfs0001").await.unwrap();
    drained(&setting).await;
    assert_eq!(keys(&setting).await, ["log"]);
}

#[tokio::test]
async fn a_write_that_ends_after_its_folder_was_renamed_is_moved_there_by_the_next_process() {
    let setting = Setting::new(&[]).await;
    let top = setting.share.root();
    setting.share.create_directory(&root(), top, b"b", SetAttributes::default()).await.unwrap();
    let file = setting.put("b/file", "text").await;
    let (store, latch) = (store_of(&setting), Latch::default());
    store.rule(Rule::once("PutObject", Fault::HoldReply(latch.clone())).key("p/b/file"));
    let running = Running::start(&setting, Arc::clone(&store) as Arc<dyn ObjectStore>);
    latch.reached().await;
    running.kill().await;
    setting.share.rename(&root(), top, b"b", top, b"x").await.unwrap();
    let setting = setting.restarted(&mut random(), true).await;
    drained(&setting).await;
    assert_eq!(keys(&setting).await, ["x/", "x/file"]);
    assert_eq!((setting.id("x/file").await, setting.text("x/file").await.as_str()), (file, "text"));
}

#[tokio::test]
async fn an_upload_in_parts_is_aborted_when_the_object_is_found_to_have_its_bytes() {
    let setting = Setting::new(&[]).await;
    let text = "0123456789".repeat(150);
    let file = setting.put("large", &text).await;
    drained(&setting).await;
    let found = setting.share.attributes(&root(), file).await.unwrap();
    setting.write(file, 0, "0", Stability::File).await.unwrap();
    let set = SetAttributes { modified: Some(TimeUpdate::At(found.modified)), ..<_>::default() };
    setting.share.set_attributes(&root(), file, set, None).await.unwrap();
    let (store, latch) = (store_of(&setting), Latch::default());
    store.rule(Rule::once("CompleteMultipartUpload", Fault::Hold(latch.clone())));
    let running = Running::start(&setting, Arc::clone(&store) as Arc<dyn ObjectStore>);
    latch.reached().await;
    running.kill().await;
    let setting = setting.restarted(&mut random(), true).await;
    drained(&setting).await;
    assert_eq!(setting.store.list_uploads("b", "").await.unwrap().len(), 0);
    assert_eq!(setting.text("large").await, text);
}

#[tokio::test]
async fn a_name_that_is_looked_up_while_its_folder_is_moved_has_one_identity() {
    for _ in 0..20 {
        let setting = Setting::new(&[("sub/a", b"text".to_vec())]).await;
        let top = setting.share.root();
        setting.share.rename(&root(), top, b"sub", top, b"x").await.unwrap();
        let folder = setting.id("x").await;
        let latch = Latch::default();
        setting.asked.rule(Rule::always("ListObjectsV2", Fault::Hold(latch.clone())).key("p/sub/"));
        let running = Running::start(&setting, store_of(&setting) as Arc<dyn ObjectStore>);
        latch.reached().await;
        let share = setting.share.clone();
        let asking = tokio::spawn(async move { share.lookup(&root(), folder, b"a").await });
        tokio::task::yield_now().await;
        latch.open();
        let found = asking.await.unwrap().unwrap();
        assert_eq!(setting.bytes(found.file).await.unwrap(), b"text");
        running.drain(&setting).await;
        assert_eq!((setting.id("x/a").await, setting.text("x/a").await.as_str()), (found.file, "text"));
    }
}

#[tokio::test]
async fn other_facts_of_an_object_stay_when_a_write_of_it_that_was_cut_off_is_made_again() {
    let setting = Setting::new(&[]).await;
    let attributes = seqferry_store::Attributes {
        content_type: Some("text/x".to_owned()),
        metadata: BTreeMap::from([("own".to_owned(), "value".to_owned())]),
        ..seqferry_store::Attributes::default()
    };
    setting.store.put("b", "p/facts", Bytes::from_static(b"0123456789"), &attributes).await.unwrap();
    let file = setting.id("facts").await;
    setting.write(file, 3, "xyz", Stability::File).await.unwrap();
    let (store, latch) = (store_of(&setting), Latch::default());
    store.rule(Rule::once("PutObject", Fault::HoldReply(latch.clone())).key("p/facts"));
    let running = Running::start(&setting, Arc::clone(&store) as Arc<dyn ObjectStore>);
    latch.reached().await;
    running.kill().await;
    // Bytes that were written over it and never acknowledged: the time and size in the journal are those of before.
    let data = setting.data.names().unwrap();
    let mut bytes = setting.data.bytes(&data[0]);
    bytes[4] = b'!';
    setting.data.set(&data[0], &bytes);
    let setting = setting.restarted(&mut random(), false).await;
    drained(&setting).await;
    assert_eq!(objects(&setting).await["facts"], b"012x!z6789");
    let meta = head(&setting, "facts").await;
    assert_eq!(meta.attributes.content_type.as_deref(), Some("text/x"));
    assert_eq!(meta.attributes.metadata["own"], "value");
}

#[tokio::test]
async fn a_large_object_is_renamed_by_copies_of_parts_which_go_on_after_a_kill() {
    let text = "0123456789".repeat(450);
    let setting = Setting::new(&[]).await;
    let attributes = seqferry_store::Attributes {
        content_type: Some("text/x".to_owned()),
        metadata: BTreeMap::from([("own".to_owned(), "value".to_owned())]),
        ..seqferry_store::Attributes::default()
    };
    setting.store.put("b", "p/large", Bytes::from(text.clone()), &attributes).await.unwrap();
    let (top, file) = (setting.share.root(), setting.id("large").await);
    setting.share.rename(&root(), top, b"large", top, b"renamed").await.unwrap();
    let (store, latch) = (store_of(&setting), Latch::default());
    store.rule(Rule::once("CompleteMultipartUpload", Fault::Hold(latch.clone())));
    let running = Running::start(&setting, Arc::clone(&store) as Arc<dyn ObjectStore>);
    latch.reached().await;
    assert_eq!((store.count("UploadPartCopy"), store.count("CopyObject"), store.count("GetObject")), (5, 0, 0));
    running.kill().await;
    let setting = setting.restarted(&mut random(), true).await;
    let store = drained(&setting).await;
    assert_eq!((store.count("CreateMultipartUpload"), store.count("UploadPartCopy")), (0, 0));
    assert_eq!(objects(&setting).await, BTreeMap::from([("renamed".to_owned(), text.clone().into_bytes())]));
    let meta = head(&setting, "renamed").await;
    assert_eq!((meta.attributes.content_type.as_deref(), &*meta.attributes.metadata["own"]), (Some("text/x"), "value"));
    assert!(setting.store.list_uploads("b", "").await.unwrap().is_empty());
    assert_eq!((setting.id("renamed").await, setting.text("renamed").await), (file, text));
    // Other attributes of it are another copy, onto itself.
    let set = SetAttributes { mode: Some(0o600), ..<_>::default() };
    setting.share.set_attributes(&root(), file, set, None).await.unwrap();
    let store = drained(&setting).await;
    assert_eq!((store.count("UploadPartCopy"), store.count("UploadPart")), (5, 0));
    assert_eq!(StoredMetadata::of(&head(&setting, "renamed").await.attributes.metadata).mode, Some(0o100_600));
}

#[tokio::test]
async fn the_folder_of_conflicts_shows_and_its_files_are_as_others() {
    let setting = Setting::new(&[]).await;
    let top = setting.share.root();
    setting.share.create_directory(&root(), top, b".seqferry-conflicts", SetAttributes::default()).await.unwrap();
    setting.put(".seqferry-conflicts/own", "1").await;
    assert_eq!(setting.names("", 9).await, [".seqferry-conflicts"]);
    let (store, latch) = (store_of(&setting), Latch::default());
    store.rule(Rule::once("PutObject", Fault::HoldReply(latch.clone())).key("p/.seqferry-conflicts/own"));
    let running = Running::start(&setting, Arc::clone(&store) as Arc<dyn ObjectStore>);
    latch.reached().await;
    running.kill().await;
    let folder = setting.id(".seqferry-conflicts").await;
    setting.share.remove(&root(), folder, b"own").await.unwrap();
    let setting = setting.restarted(&mut random(), true).await;
    drained(&setting).await;
    assert_eq!(keys(&setting).await, [".seqferry-conflicts/"]);
}

#[tokio::test]
async fn the_name_of_the_folder_of_conflicts_is_given_to_folders_alone() {
    let setting = Setting::new(&[("there", b"1".to_vec())]).await;
    let (top, name) = (setting.share.root(), b".seqferry-conflicts");
    let how = CreateMode::Guarded(SetAttributes::default());
    let made = setting.share.create(&root(), top, name, how).await;
    assert_eq!(made.unwrap_err(), FileError::AccessDenied);
    let linked =
        setting.share.create_link(&root(), top, name, Bytes::from_static(b"there"), SetAttributes::default()).await;
    assert_eq!(linked.unwrap_err(), FileError::AccessDenied);
    let renamed = setting.share.rename(&root(), top, b"there", top, name).await;
    assert_eq!(renamed.unwrap_err(), FileError::AccessDenied);
    setting.share.create_directory(&root(), top, b"folder", SetAttributes::default()).await.unwrap();
    setting.put("folder/.seqferry-conflicts", "a file").await;
    setting.share.rename(&root(), top, b"folder", top, name).await.unwrap();
    drained(&setting).await;
    assert_eq!(keys(&setting).await, [".seqferry-conflicts/", ".seqferry-conflicts/.seqferry-conflicts", "there"]);
}

#[tokio::test]
async fn a_folder_with_the_name_of_a_local_file_is_moved_as_others() {
    let setting = Setting::new(&[("d/file", b"1".to_vec())]).await;
    let top = setting.share.root();
    setting.share.rename(&root(), top, b"d", top, b"._d").await.unwrap();
    setting.put("d", "a file").await;
    setting.put("._file", "stays here").await;
    drained(&setting).await;
    let found = objects(&setting).await;
    let texts: Vec<(&str, &[u8])> = found.iter().map(|(key, body)| (key.as_str(), &body[..])).collect();
    assert_eq!(texts, [("._d/", &b""[..]), ("._d/file", b"1"), ("d", b"a file")]);
    assert_eq!(setting.names("", 9).await, ["._d", "._file", "d"]);
}

#[tokio::test(start_paused = true)]
async fn an_upload_whose_creation_reaches_the_service_after_a_kill_does_not_stay_open() {
    let setting = Setting::new(&[]).await;
    setting.put("large", &"0123456789".repeat(150)).await;
    let (store, latch) = (store_of(&setting), Latch::default());
    store.rule(Rule::once("CreateMultipartUpload", Fault::Hold(latch.clone())));
    let running = Running::start(&setting, Arc::clone(&store) as Arc<dyn ObjectStore>);
    latch.reached().await;
    running.kill().await;
    setting.share.remove(&root(), setting.share.root(), b"large").await.unwrap();
    let setting = setting.restarted(&mut random(), true).await;
    let running = Running::start(&setting, store_of(&setting) as Arc<dyn ObjectStore>);
    tokio::time::sleep(QUIET / 2).await;
    latch.open();
    running.drain(&setting).await;
    assert_eq!(setting.store.list_uploads("b", "").await.unwrap().len(), 0);
}

#[tokio::test]
async fn an_upload_that_was_cut_off_does_not_stay_open_when_another_program_writes_its_object() {
    let setting = Setting::new(&[]).await;
    let text = "0123456789".repeat(150);
    setting.put("large", &text).await;
    let (store, latch) = (store_of(&setting), Latch::default());
    store.rule(Rule::once("UploadPart", Fault::Hold(latch.clone())));
    let running = Running::start(&setting, Arc::clone(&store) as Arc<dyn ObjectStore>);
    latch.reached().await;
    running.kill().await;
    setting.store.put("b", "p/large", Bytes::from_static(b"theirs"), &<_>::default()).await.unwrap();
    let setting = setting.restarted(&mut random(), true).await;
    drained(&setting).await;
    assert_eq!(setting.store.list_uploads("b", "").await.unwrap().len(), 0);
    let found = objects(&setting).await;
    assert_eq!((found.len(), &found["large"][..]), (2, &b"theirs"[..]));
    assert!(found.iter().any(|(key, body)| key.starts_with(".seqferry-conflicts/large.") && *body == text.as_bytes()));
}

#[tokio::test]
async fn a_copy_that_was_cut_off_does_not_stay_open_when_another_program_removes_its_source() {
    let setting = Setting::new(&[("large", vec![b'1'; 4500])]).await;
    let top = setting.share.root();
    setting.share.rename(&root(), top, b"large", top, b"renamed").await.unwrap();
    let (store, latch) = (store_of(&setting), Latch::default());
    store.rule(Rule::once("CompleteMultipartUpload", Fault::Hold(latch.clone())));
    let running = Running::start(&setting, Arc::clone(&store) as Arc<dyn ObjectStore>);
    latch.reached().await;
    running.kill().await;
    setting.store.delete(ObjectRef::new("b", "p/large")).await.unwrap();
    let setting = setting.restarted(&mut random(), true).await;
    drained(&setting).await;
    assert_eq!(setting.store.list_uploads("b", "").await.unwrap().len(), 0);
    assert_eq!(keys(&setting).await, [""; 0]);
    assert_eq!(setting.names("", 9).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_folder_below_a_renamed_one_stays_when_its_last_object_could_be_moved_first() {
    let setting = Setting::new(&[("d/e/file", b"1".to_vec()), ("d/other", b"2".to_vec())]).await;
    let top = setting.share.root();
    let file = setting.id("d/e/file").await;
    setting.write(file, 0, "text", Stability::File).await.unwrap();
    setting.share.rename(&root(), top, b"d", top, b"z").await.unwrap();
    let (store, latch) = (store_of(&setting), Latch::default());
    setting.asked.rule(Rule::always("HeadObject", Fault::Hold(latch.clone())).key("p/d"));
    let running = Running::start(&setting, Arc::clone(&store) as Arc<dyn ObjectStore>);
    latch.reached().await;
    // The clock stands still: all that can happen before the folder above has been looked at has happened.
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(setting.names("z", 9).await, ["e", "other"]);
    assert_eq!((setting.id("z/e/file").await, setting.text("z/e/file").await), (file, "text".to_owned()));
    latch.open();
    running.drain(&setting).await;
    assert_eq!(setting.names("z", 9).await, ["e", "other"]);
    assert_eq!((setting.id("z/e/file").await, setting.text("z/e/file").await), (file, "text".to_owned()));
    assert_eq!(keys(&setting).await, ["z/", "z/e/", "z/e/file", "z/other"]);
}

#[tokio::test]
async fn a_folder_made_anew_does_not_show_folders_that_were_below_it_whatever_the_size_of_a_page() {
    let before = [("d/a", b"1".to_vec()), ("d/b", b"2".to_vec()), ("d/e/file", b"3".to_vec())];
    let setting = Setting::new(&before).await;
    let top = setting.share.root();
    assert_eq!((setting.names("d", 9).await.len(), setting.names("d/e", 9).await), (3, vec!["file".to_owned()]));
    setting.share.rename(&root(), top, b"d", top, b"z").await.unwrap();
    let (store, copy, marker) = (store_of(&setting), Latch::default(), Latch::default());
    store.rule(Rule::once("CopyObject", Fault::Hold(copy.clone())).key("p/z/e/file"));
    store.rule(Rule::once("PutObject", Fault::Hold(marker.clone())).key("p/d/"));
    let running = Running::start(&setting, Arc::clone(&store) as Arc<dyn ObjectStore>);
    until(&setting, &["d/e/file", "z/", "z/a", "z/b", "z/e/"]).await;
    copy.reached().await;
    setting.share.create_directory(&root(), top, b"d", SetAttributes::default()).await.unwrap();
    marker.reached().await;
    // The last object of the old folder goes before the marker of the new one is there.
    copy.open();
    until(&setting, &["z/", "z/a", "z/b", "z/e/", "z/e/file"]).await;
    let deadline = Instant::now() + Duration::from_secs(30);
    while setting.share.pending_removals().iter().any(|(path, _)| path != "d/") && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    marker.open();
    running.drain(&setting).await;
    // The tree of the bucket knows two names of its last listing to have gone, and has to ask for the third.
    assert_eq!(setting.names("d", 2).await, [""; 0]);
    assert_eq!(setting.find("d/e").await.unwrap_err(), seqferry_share::FileError::NotFound);
}

#[tokio::test]
async fn a_file_whose_folder_was_renamed_keeps_bytes_that_were_written_when_its_process_was_killed() {
    let setting = Setting::new(&[]).await;
    let top = setting.share.root();
    let text = "0123456789".repeat(150);
    setting.share.create_directory(&root(), top, b"d", SetAttributes::default()).await.unwrap();
    let file = setting.put("d/large", &text).await;
    let (store, latch) = (store_of(&setting), Latch::default());
    store.rule(Rule::once("CompleteMultipartUpload", Fault::HoldReply(latch.clone())));
    let running = Running::start(&setting, Arc::clone(&store) as Arc<dyn ObjectStore>);
    latch.reached().await;
    running.kill().await;
    setting.share.rename(&root(), top, b"d", top, b"e").await.unwrap();
    // A write over it was never acknowledged: its bytes are there, and nothing in the journal says so.
    let data = setting.data.names().unwrap();
    let mut bytes = setting.data.bytes(&data[0]);
    bytes[4] = b'!';
    setting.data.set(&data[0], &bytes);
    let setting = setting.restarted(&mut random(), false).await;
    let shown = setting.bytes(file).await.unwrap();
    assert_eq!((shown.len(), shown[4]), (1500, b'!'));
    drained(&setting).await;
    assert_eq!((setting.bytes(file).await.unwrap() == shown, setting.id("e/large").await), (true, file));
    assert_eq!(keys(&setting).await, ["e/", "e/large"]);
    assert_eq!(objects(&setting).await["e/large"], shown);
}
