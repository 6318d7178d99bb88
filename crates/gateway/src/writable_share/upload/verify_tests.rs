//! Objects that look like a file and are not it: no acknowledged byte is lost for them.

use std::time::UNIX_EPOCH;

use bytes::Bytes;
use seqferry_share::{FileError, FileId, SetAttributes, Share as _, Stability, TimeUpdate};
use seqferry_store::prelude::*;
use seqferry_store::{ObjectRef, StoredMetadata};
use seqferry_store_testing::fault::{Fault, Hook, Latch, Rule};
use seqferry_store_testing::{MemoryStore, ObjectWriteExt as _};

use super::super::tests::{Setting, random, root};
use super::tests::{Running, drained, head, keys, objects, store_of};
use super::upload_batch_tests::paths_on_record;
use super::*;
use crate::overlay::{Change, MARK, OpenUpload};

/// Bytes of a file that is sent in parts, and of one that is sent in one request.
const SIZES: [usize; 2] = [2500, 25];

/// Services that show a checksum, only the `ETag`s of parts, and nothing of the bytes.
fn services() -> Vec<(&'static str, MemoryStore)> {
    vec![
        ("checksums", MemoryStore::new(1)),
        ("plain ETags", MemoryStore::new(1).without_checksums()),
        ("opaque ETags", MemoryStore::new(1).without_checksums().with_opaque_etags()),
        ("ETags that only look like digests", MemoryStore::new(1).without_checksums().with_salted_etags()),
    ]
}

/// Write a file again with the size that it had, and set the time that it had, as `cp -p` and `rsync -a` do.
async fn rewrite(setting: &Setting, file: FileId, text: &str) {
    let size = |size| SetAttributes { size: Some(size), ..SetAttributes::default() };
    setting.share.set_attributes(&root(), file, size(0), None).await.unwrap();
    setting.write(file, 0, text, Stability::File).await.unwrap();
    set_time(setting, file).await;
}

async fn set_time(setting: &Setting, file: FileId) {
    let at = UNIX_EPOCH + Duration::from_secs(1_600_000_000);
    let set = SetAttributes { modified: Some(TimeUpdate::At(at)), ..SetAttributes::default() };
    setting.share.set_attributes(&root(), file, set, None).await.unwrap();
}

/// A share of a service with one file of this many bytes that the bucket has.
async fn uploaded(store: MemoryStore, size: usize) -> (Setting, FileId) {
    let setting = Setting::over(store, &[]).await;
    let file = setting.put("run.bam", &"a".repeat(size)).await;
    set_time(&setting, file).await;
    drained(&setting).await;
    (setting, file)
}

/// Requests that begin the upload of a file of this size.
fn first_request(size: usize) -> &'static str {
    if size > 1000 { "CreateMultipartUpload" } else { "PutObject" }
}

#[tokio::test(start_paused = true)]
async fn a_rewrite_with_the_same_size_and_time_is_sent_whatever_failed_before() {
    for size in SIZES {
        for (name, store) in services() {
            let (setting, file) = uploaded(store, size).await;
            let new = "b".repeat(size);
            rewrite(&setting, file, &new).await;
            let store = store_of(&setting);
            store.rule(Rule::once(first_request(size), Fault::Fail("AccessDenied", 403)).key("p/run.bam"));

            Running::start(&setting, Arc::clone(&store) as Arc<dyn ObjectStore>).drain(&setting).await;

            assert_eq!(objects(&setting).await["run.bam"], new.as_bytes(), "{name}, {size} bytes");
            assert_eq!(keys(&setting).await, ["run.bam"], "{name}, {size} bytes");
        }
    }
}

#[tokio::test]
async fn a_rewrite_with_the_same_size_and_time_is_sent_after_a_kill() {
    for size in SIZES {
        for (name, store) in services() {
            let (setting, file) = uploaded(store, size).await;
            let new = "b".repeat(size);
            rewrite(&setting, file, &new).await;
            let (faulty, latch) = (store_of(&setting), Latch::default());
            faulty.rule(Rule::once(first_request(size), Fault::Hold(latch.clone())).key("p/run.bam"));
            let running = Running::start(&setting, Arc::clone(&faulty) as Arc<dyn ObjectStore>);
            latch.reached().await;
            running.kill().await;

            let setting = setting.restarted(&mut random(), true).await;
            drained(&setting).await;

            assert_eq!(objects(&setting).await["run.bam"], new.as_bytes(), "{name}, {size} bytes");
            assert_eq!(keys(&setting).await, ["run.bam"], "{name}, {size} bytes");
        }
    }
}

#[tokio::test]
async fn a_rewrite_that_was_cut_off_is_sent_under_the_name_that_the_file_has_by_then() {
    for (name, store) in services() {
        let (setting, file) = uploaded(store, 2500).await;
        let new = "b".repeat(2500);
        rewrite(&setting, file, &new).await;
        let (faulty, latch) = (store_of(&setting), Latch::default());
        faulty.rule(Rule::once("CreateMultipartUpload", Fault::Hold(latch.clone())));
        let running = Running::start(&setting, Arc::clone(&faulty) as Arc<dyn ObjectStore>);
        latch.reached().await;
        running.kill().await;
        let top = setting.share.root();
        setting.share.rename(&root(), top, b"run.bam", top, b"moved.bam").await.unwrap();

        let setting = setting.restarted(&mut random(), true).await;
        drained(&setting).await;

        assert_eq!(keys(&setting).await, ["moved.bam"], "{name}");
        assert_eq!(objects(&setting).await["moved.bam"], new.as_bytes(), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_whose_answer_was_lost_is_known_by_its_mark_and_not_made_again() {
    for size in SIZES {
        for (name, store) in services() {
            let (setting, file) = uploaded(store, size).await;
            let new = "b".repeat(size);
            rewrite(&setting, file, &new).await;
            let store = store_of(&setting);
            let last = if size > 1000 { "CompleteMultipartUpload" } else { "PutObject" };
            // The first attempt has its effect, and all that the attempt asks afterwards fails.
            store.rule(Rule::once(last, Fault::LoseReply).key("p/run.bam"));
            store.rule(Rule::always(last, Fault::Fail("AccessDenied", 403)).times(1).key("p/run.bam"));

            Running::start(&setting, Arc::clone(&store) as Arc<dyn ObjectStore>).drain(&setting).await;

            assert_eq!(objects(&setting).await["run.bam"], new.as_bytes(), "{name}, {size} bytes");
            assert_eq!(keys(&setting).await, ["run.bam"], "{name}, {size} bytes");
            let made = store.requests().into_iter().filter(|asked| asked.key == "p/run.bam");
            assert_eq!(made.filter(|asked| asked.operation == last).count(), 2, "{name}, {size} bytes");
        }
    }
}

#[tokio::test]
async fn an_object_that_has_inherited_the_metadata_of_an_earlier_write_is_another_programs() {
    for (name, store) in services() {
        let (setting, file) = uploaded(store, 2500).await;
        let new = "b".repeat(2500);
        rewrite(&setting, file, &new).await;
        let (faulty, latch) = (store_of(&setting), Latch::default());
        faulty.rule(Rule::once("CreateMultipartUpload", Fault::Hold(latch.clone())));
        let running = Running::start(&setting, Arc::clone(&faulty) as Arc<dyn ObjectStore>);
        latch.reached().await;
        running.kill().await;
        // Another tool rewrites the bytes and keeps size and metadata, the mark of the earlier write among them.
        let before = head(&setting, "run.bam").await;
        assert!(before.attributes.metadata.contains_key(MARK));
        let object = seqferry_store::PutObject {
            bucket: "b".to_owned(),
            key: "p/run.bam".to_owned(),
            attributes: before.attributes,
            ..seqferry_store::PutObject::default()
        };
        setting.store.put_object(&object, Bytes::from("c".repeat(2500))).await.unwrap();

        let setting = setting.restarted(&mut random(), false).await;
        drained(&setting).await;

        let found = objects(&setting).await;
        assert_eq!(found["run.bam"], "c".repeat(2500).as_bytes(), "{name}: the other program's stays");
        let kept = found.iter().find(|(key, _)| key.starts_with(".seqferry-conflicts/run.bam."));
        assert_eq!(kept.map(|(_, bytes)| bytes.as_slice()), Some(new.as_bytes()), "{name}");
        assert_eq!(found.len(), 2, "{name}");
    }
}

#[tokio::test]
async fn each_write_has_a_mark_of_its_own() {
    let (setting, file) = uploaded(MemoryStore::new(1), 2500).await;
    let top = setting.share.root();
    let mut marks = vec![head(&setting, "run.bam").await.attributes.metadata[MARK].clone()];
    rewrite(&setting, file, &"b".repeat(2500)).await;
    drained(&setting).await;
    marks.push(head(&setting, "run.bam").await.attributes.metadata[MARK].clone());
    let mode = SetAttributes { mode: Some(0o600), ..SetAttributes::default() };
    setting.share.set_attributes(&root(), file, mode, None).await.unwrap();
    drained(&setting).await;
    marks.push(head(&setting, "run.bam").await.attributes.metadata[MARK].clone());
    setting.share.rename(&root(), top, b"run.bam", top, b"moved.bam").await.unwrap();
    drained(&setting).await;
    marks.push(head(&setting, "moved.bam").await.attributes.metadata[MARK].clone());
    setting.share.create_directory(&root(), top, b"d", SetAttributes::default()).await.unwrap();
    drained(&setting).await;
    marks.push(head(&setting, "d/").await.attributes.metadata[MARK].clone());

    let distinct: std::collections::BTreeSet<_> = marks.iter().collect();
    assert_eq!(distinct.len(), marks.len(), "{marks:?}");
}

#[tokio::test]
async fn a_marker_that_another_program_has_put_is_not_taken_for_that_of_an_attempt_before() {
    let setting = Setting::new(&[]).await;
    let top = setting.share.root();
    setting.share.create_directory(&root(), top, b"d", SetAttributes::default()).await.unwrap();
    let (faulty, latch) = (store_of(&setting), Latch::default());
    faulty.rule(Rule::once("PutObject", Fault::Hold(latch.clone())).key("p/d/"));
    let running = Running::start(&setting, Arc::clone(&faulty) as Arc<dyn ObjectStore>);
    latch.reached().await;
    running.kill().await;
    let object = seqferry_store::PutObject {
        bucket: "b".to_owned(),
        key: "p/d/".to_owned(),
        attributes: seqferry_store::Attributes {
            metadata: [("own".to_owned(), "1".to_owned())].into(),
            ..seqferry_store::Attributes::default()
        },
        ..seqferry_store::PutObject::default()
    };
    setting.store.put_object(&object, Bytes::new()).await.unwrap();

    let setting = setting.restarted(&mut random(), true).await;
    drained(&setting).await;

    assert_eq!(head(&setting, "d/").await.attributes.metadata.get("own").map(String::as_str), Some("1"));
    assert_eq!(paths_on_record(&setting).await, [""; 0], "this share has written no version of it");
}

#[tokio::test(start_paused = true)]
async fn a_folder_without_a_marker_that_the_service_shows_as_an_object_gets_its_marker() {
    let setting = Setting::over(MemoryStore::new(1).with_implied_folders(), &[]).await;
    let top = setting.share.root();
    setting.share.create_directory(&root(), top, b"d", SetAttributes::default()).await.unwrap();
    setting.put("d/f", "text").await;
    let store = store_of(&setting);
    // The file is there before the marker: from then on the service answers HEAD of the folder.
    store.rule(Rule::always("PutObject", Fault::Fail("InternalError", 500)).key("p/d/").times(6));
    Running::start(&setting, store as Arc<dyn ObjectStore>).drain(&setting).await;
    assert_eq!(keys(&setting).await, ["d/", "d/f"]);

    setting.share.remove(&root(), setting.id("d").await, b"f").await.unwrap();
    drained(&setting).await;
    assert_eq!(keys(&setting).await, ["d/"], "an empty folder stays");

    setting.share.remove_directory(&root(), top, b"d").await.unwrap();
    drained(&setting).await;
    assert_eq!(keys(&setting).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_folder_that_the_service_alone_shows_is_removed_without_a_request_that_removes() {
    let setting = Setting::over(MemoryStore::new(1).with_implied_folders(), &[("d/f", b"text".to_vec())]).await;
    let top = setting.share.root();
    setting.share.rename(&root(), top, b"d", top, b"e").await.unwrap();

    let store = drained(&setting).await;

    assert_eq!(keys(&setting).await, ["e/", "e/f"]);
    let removed = store.requests().into_iter().filter(|request| request.operation.starts_with("Delete"));
    let removed: Vec<_> = removed.map(|request| request.key).filter(|key| !key.contains("seqferry-probe")).collect();
    assert_eq!(removed, ["p/d/f"]);
}

#[tokio::test(start_paused = true)]
async fn a_marker_whose_removal_was_not_answered_is_gone_though_the_service_shows_the_folder() {
    let setting = Setting::over(MemoryStore::new(1).with_implied_folders(), &[("d/", Vec::new())]).await;
    let top = setting.share.root();
    setting.share.remove_directory(&root(), top, b"d").await.unwrap();
    // Another program's file keeps the folder for as long as the marker is being removed.
    setting.store.put("b", "p/d/other", Bytes::from_static(b"1"), &<_>::default()).await.unwrap();
    let store = store_of(&setting);
    store.rule(Rule::once("DeleteObject", Fault::LoseReply).key("p/d/"));
    let others = Arc::clone(&setting.store);
    let removes = Hook(Arc::new(move || {
        let others = Arc::clone(&others);
        Box::pin(async move { others.delete(ObjectRef::new("b", "p/d/other")).await.unwrap() })
    }));
    store.rule(Rule::once("HeadObject", Fault::Hook(removes)).key("p/d/").after(3));

    Running::start(&setting, Arc::clone(&store) as Arc<dyn ObjectStore>).drain(&setting).await;

    assert_eq!(keys(&setting).await, [""; 0], "{:?}", store.requests());
    setting.share.create_directory(&root(), top, b"d", SetAttributes::default()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_file_arrives_under_a_name_that_the_service_takes_for_a_folder() {
    let setting = Setting::over(MemoryStore::new(1).with_implied_folders(), &[("d/f", b"text".to_vec())]).await;
    let top = setting.share.root();
    setting.share.rename(&root(), top, b"d", top, b"e").await.unwrap();
    setting.put("d", "a file").await;
    // What other programs put there meanwhile keeps the folder in the service.
    setting.store.put("b", "p/d/other", Bytes::from_static(b"1"), &<_>::default()).await.unwrap();

    drained(&setting).await;

    assert_eq!(objects(&setting).await["d"], b"a file");
}

#[tokio::test(start_paused = true)]
async fn bytes_under_the_name_of_a_folder_stay_when_the_folder_is_removed_or_renamed() {
    for is_renamed in [false, true] {
        let setting = Setting::new(&[("d/", b"theirs".to_vec()), ("other", b"1".to_vec())]).await;
        let top = setting.share.root();
        if is_renamed {
            setting.share.rename(&root(), top, b"d", top, b"e").await.unwrap();
        } else {
            setting.share.remove_directory(&root(), top, b"d").await.unwrap();
        }

        drained(&setting).await;

        assert_eq!(objects(&setting).await["d/"], b"theirs", "{is_renamed}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_of_attributes_is_made_though_the_service_fails_for_a_while() {
    let (setting, file) = uploaded(MemoryStore::new(1), 25).await;
    let mode = SetAttributes { mode: Some(0o600), ..SetAttributes::default() };
    setting.share.set_attributes(&root(), file, mode, None).await.unwrap();
    let store = store_of(&setting);
    // The object that the copy is to replace is itself: it looks the same, but for what the copy is made for.
    store.rule(Rule::always("CopyObject", Fault::Fail("InternalError", 500)).times(6));

    Running::start(&setting, Arc::clone(&store) as Arc<dyn ObjectStore>).drain(&setting).await;

    let meta = head(&setting, "run.bam").await;
    assert_eq!(StoredMetadata::of(&meta.attributes.metadata).mode, Some(0o100_600));
}

#[tokio::test]
async fn bytes_of_an_object_with_the_size_and_time_of_an_upload_are_not_mixed_into_its_file() {
    let setting = Setting::new(&[("run.bam", "a".repeat(2500).into_bytes())]).await;
    let file = setting.id("run.bam").await;
    setting.write(file, 100, "0123456789", Stability::File).await.unwrap();
    set_time(&setting, file).await;
    let (faulty, latch) = (store_of(&setting), Latch::default());
    faulty.rule(Rule::once("CreateMultipartUpload", Fault::Hold(latch.clone())));
    let running = Running::start(&setting, Arc::clone(&faulty) as Arc<dyn ObjectStore>);
    latch.reached().await;
    let time = StoredMetadata { modified: Some((1_600_000_000, 0)), ..StoredMetadata::default() };
    let object = seqferry_store::PutObject {
        bucket: "b".to_owned(),
        key: "p/run.bam".to_owned(),
        attributes: seqferry_store::Attributes {
            metadata: time.to_metadata(),
            ..seqferry_store::Attributes::default()
        },
        ..seqferry_store::PutObject::default()
    };
    setting.store.put_object(&object, Bytes::from("z".repeat(2500))).await.unwrap();
    let version = setting.store.head(ObjectRef::new("b", "p/run.bam"), None).await.unwrap();
    assert_eq!(version.size, 2500);
    running.kill().await;

    let setting = setting.restarted(&mut random(), false).await;
    let read = setting.share.read(&root(), file, 0, 100).await;
    assert_eq!(read.unwrap_err(), FileError::Io, "the bytes below are not known any more");
    let own = setting.share.read(&root(), file, 100, 10).await.unwrap();
    assert_eq!(own.slices.concat(), b"0123456789");
}

/// A write as an earlier version announced it.
async fn announced_before(setting: &Setting, file: FileId) {
    let changed = setting.share.0.overlay.read(|overlay| overlay.node(file.number).unwrap().changed);
    let open = OpenUpload {
        number: file.number,
        changed,
        path: "run.bam".into(),
        modified: 1_600_000_000_000_000_000,
        size: 2500,
        upload_id: "".into(),
        part_size: 0,
        token: "".into(),
        is_of_this_process: false,
    };
    setting.share.0.overlay.change(|_| Ok((vec![Change::BeginUpload(open)], ()))).await.unwrap();
}

#[tokio::test]
async fn a_write_that_an_earlier_version_announced_counts_by_the_checksum_of_its_bytes_alone() {
    let (setting, file) = uploaded(MemoryStore::new(1), 2500).await;
    rewrite(&setting, file, &"b".repeat(2500)).await;
    announced_before(&setting, file).await;
    drained(&setting).await;
    assert_eq!(objects(&setting).await["run.bam"], "b".repeat(2500).as_bytes(), "it was not there before");

    // Written by the version before, and killed then.
    let (setting, file) = uploaded(MemoryStore::new(1), 2500).await;
    rewrite(&setting, file, &"b".repeat(2500)).await;
    let attributes = head(&setting, "run.bam").await.attributes;
    let object = seqferry_store::PutObject {
        bucket: "b".to_owned(),
        key: "p/run.bam".to_owned(),
        attributes,
        ..seqferry_store::PutObject::default()
    };
    setting.store.put_object(&object, Bytes::from("b".repeat(2500))).await.unwrap();
    announced_before(&setting, file).await;
    let store = drained(&setting).await;
    assert_eq!(store.count("CreateMultipartUpload"), 0, "it is there");
    assert_eq!(keys(&setting).await, ["run.bam"]);
    assert_eq!(setting.text("run.bam").await, "b".repeat(2500));
}
