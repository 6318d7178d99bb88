//! Long files whose parts are uploaded while they are written.

use std::collections::BTreeMap;

use bytes::Bytes;
use seqferry_share::{FileId, SetAttributes, Share as _, Stability, TimeUpdate};
use seqferry_store::prelude::*;
use seqferry_store::{StoredMetadata, UploadRef};
use seqferry_store_testing::ObjectWriteExt as _;
use seqferry_store_testing::fault::{Fault, FaultStore, Latch, Rule};

use super::super::tests::{Setting, random, root};
use super::tests::{QUIET, Running, head, keys, objects, spec, store_of};
use super::*;

/// Bytes of a part, and of a file whose parts go early.
const PART: usize = 1000;
const LONG: u64 = 3000;
/// Bytes that are written at a time, and the time to the next.
const PIECE: usize = 100;
const PAUSE: Duration = Duration::from_millis(10);

fn uploader(setting: &Setting, store: &Arc<FaultStore>) -> Running {
    let spec = spec(Arc::clone(store) as Arc<dyn ObjectStore>);
    Running::with(setting, UploadSpec { long: Some(LONG), ..spec })
}

/// Write so many pieces to the end of a file. It does not settle meanwhile.
async fn grow(setting: &Setting, path: &str, text: &mut String, pieces: usize) {
    let file = setting.id(path).await;
    for _ in 0..pieces {
        let piece = format!("{:0>PIECE$}", text.len());
        write(setting, file, text.len() as u64, &piece, Stability::File).await;
        text.push_str(&piece);
        tokio::time::sleep(PAUSE).await;
    }
}

/// The result of a call while time stands still, which would pass while the journal's own thread writes: a task that
/// blocks holds the paused clock.
async fn without_time<T>(call: impl Future<Output = T>) -> T {
    let (done, wait) = std::sync::mpsc::channel::<()>();
    let holds_clock = tokio::task::spawn_blocking(move || wait.recv());
    let result = call.await;
    drop(done);
    let _ended = holds_clock.await.unwrap();
    result
}

async fn write(setting: &Setting, file: FileId, offset: u64, text: &str, stability: Stability) {
    without_time(setting.write(file, offset, text, stability)).await.unwrap();
}

/// Times that each part was sent.
fn sent(store: &FaultStore) -> BTreeMap<u32, usize> {
    let mut sent = BTreeMap::new();
    for request in store.requests().iter().filter(|request| request.operation == "UploadPart") {
        *sent.entry(request.part.unwrap()).or_default() += 1;
    }
    sent
}

async fn open_uploads(setting: &Setting) -> usize {
    setting.store.list_uploads("b", "").await.unwrap().len()
}

#[tokio::test(start_paused = true)]
async fn parts_go_up_while_a_file_is_written_and_it_is_one_version_under_its_last_name() {
    for largest_copy in [None, Some(2000)] {
        let setting = Setting::new(&[]).await;
        let store = store_of(&setting);
        let spec = spec(Arc::clone(&store) as Arc<dyn ObjectStore>);
        let running = Running::with(&setting, UploadSpec { long: Some(LONG), largest_copy, ..spec });
        without_time(setting.put("run.tmp", "")).await;
        let mut text = String::new();
        grow(&setting, "run.tmp", &mut text, 95).await;
        assert_eq!(sent(&store).keys().copied().collect::<Vec<_>>(), (1..=9).collect::<Vec<_>>());
        assert_eq!(keys(&setting).await, [""; 0], "no object before it is whole");
        assert_eq!(setting.names("", 9).await, ["run.tmp"]);

        let top = setting.share.root();
        let at = std::time::UNIX_EPOCH + Duration::from_nanos(1_600_000_000_123_456_789);
        let facts = SetAttributes { mode: Some(0o640), modified: Some(TimeUpdate::At(at)), ..<_>::default() };
        setting.share.set_attributes(&root(), setting.id("run.tmp").await, facts, None).await.unwrap();
        setting.share.rename(&root(), top, b"run.tmp", top, b"run").await.unwrap();
        running.drain(&setting).await;

        assert_eq!(objects(&setting).await, BTreeMap::from([("run".to_owned(), text.clone().into_bytes())]));
        assert_eq!(sent(&store), (1..=10).map(|part| (part, 1)).collect(), "each part was sent once");
        let made = store.requests().into_iter().filter(|request| request.key == "p/run");
        let made: Vec<_> = made.map(|request| request.operation).filter(|made| *made != "HeadObject").collect();
        let expected: &[&str] = if largest_copy.is_none() {
            &["CopyObject"]
        } else {
            &["CreateMultipartUpload", "UploadPartCopy", "CompleteMultipartUpload"]
        };
        assert!(expected.iter().all(|operation| made.contains(operation)), "{made:?}");
        let stored = StoredMetadata::of(&head(&setting, "run").await.attributes.metadata);
        assert_eq!((stored.mode, stored.modified), (Some(0o100_640), Some((1_600_000_000, 123_456_789))));
        assert_eq!(open_uploads(&setting).await, 0);
        let setting = setting.restarted(&mut random(), true).await;
        assert_eq!((setting.text("run").await, setting.share.waiting()), (text, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_part_that_changes_is_sent_again_and_one_that_changes_all_the_time_only_at_the_end() {
    let setting = Setting::new(&[]).await;
    let store = store_of(&setting);
    let running = uploader(&setting, &store);
    let file = without_time(setting.put("run", "")).await;
    let mut text = String::new();
    for round in 0..20 {
        grow(&setting, "run", &mut text, 5).await;
        // A header that is written anew, every 50 ms.
        let header = format!("header {round:03}");
        write(&setting, file, 0, &header, Stability::File).await;
        text.replace_range(..header.len(), &header);
    }
    assert_eq!(sent(&store)[&3], 1);
    write(&setting, file, 2500, "changed", Stability::File).await;
    text.replace_range(2500..2507, "changed");
    grow(&setting, "run", &mut text, 10).await;
    let before = sent(&store);
    assert_eq!((before[&1], before[&3], before[&4]), (2, 2, 1), "{before:?}");
    running.drain(&setting).await;
    assert_eq!(objects(&setting).await["run"], text.as_bytes());
    let after = sent(&store);
    assert_eq!((after[&1], after[&3], after[&4]), (3, 2, 1), "{after:?}");
    assert_eq!(open_uploads(&setting).await, 0);
}

#[tokio::test(start_paused = true)]
async fn only_bytes_on_the_disk_go_early() {
    let setting = Setting::new(&[]).await;
    let store = store_of(&setting);
    let running = uploader(&setting, &store);
    let file = without_time(setting.put("run", "")).await;
    for at in 0..50 {
        let piece = format!("{at:0>PIECE$}");
        write(&setting, file, at * PIECE as u64, &piece, Stability::Unstable).await;
        tokio::time::sleep(PAUSE).await;
    }
    let parts = sent(&store).len();
    assert!(parts >= 3);
    running.kill().await;
    let setting = setting.restarted(&mut random(), true).await;
    let durable = setting.find("run").await.unwrap().size;
    assert!(
        durable >= (parts * PART) as u64,
        "{parts} parts went, and {durable} bytes are there after a loss of power"
    );
}

#[tokio::test(start_paused = true)]
async fn a_file_that_goes_leaves_nothing_in_the_bucket() {
    let setting = Setting::new(&[]).await;
    let store = store_of(&setting);
    let running = uploader(&setting, &store);
    without_time(setting.put("run", "")).await;
    grow(&setting, "run", &mut String::new(), 60).await;
    assert_eq!(open_uploads(&setting).await, 1);
    setting.share.remove(&root(), setting.share.root(), b"run").await.unwrap();
    running.drain(&setting).await;
    assert_eq!((open_uploads(&setting).await, keys(&setting).await.len()), (0, 0));

    // Cut off to a short one.
    let running = uploader(&setting, &store);
    let file = without_time(setting.put("run", "")).await;
    grow(&setting, "run", &mut String::new(), 60).await;
    assert_eq!(open_uploads(&setting).await, 1);
    let short = SetAttributes { size: Some(500), ..<_>::default() };
    setting.share.set_attributes(&root(), file, short, None).await.unwrap();
    running.drain(&setting).await;
    assert_eq!(open_uploads(&setting).await, 0);
    assert_eq!(objects(&setting).await["run"].len(), 500);
}

#[tokio::test(start_paused = true)]
async fn an_upload_that_the_bucket_has_aborted_begins_anew() {
    let setting = Setting::new(&[]).await;
    let store = store_of(&setting);
    let running = uploader(&setting, &store);
    without_time(setting.put("run", "")).await;
    let mut text = String::new();
    for _ in 0..2 {
        grow(&setting, "run", &mut text, 50).await;
        let uploads = setting.store.list_uploads("b", "").await.unwrap();
        let [upload] = &uploads[..] else { panic!("{uploads:?}") };
        setting.store.abort_upload(UploadRef::new("b", &upload.key, &upload.upload_id)).await.unwrap();
    }
    running.drain(&setting).await;
    assert_eq!(objects(&setting).await, BTreeMap::from([("run".to_owned(), text.into_bytes())]));
    assert_eq!(open_uploads(&setting).await, 0);
}

#[tokio::test(start_paused = true)]
async fn without_copies_in_the_service_the_bytes_are_sent_once_more() {
    let setting = Setting::new(&[]).await;
    let store = store_of(&setting);
    store.rule(Rule::always("CopyObject", Fault::Fail("NotImplemented", 501)));
    let spec = spec(Arc::clone(&store) as Arc<dyn ObjectStore>);
    let running = Running::with(&setting, UploadSpec { long: Some(LONG), largest_copy: None, ..spec });
    without_time(setting.put("run", "")).await;
    let mut text = String::new();
    grow(&setting, "run", &mut text, 50).await;
    running.drain(&setting).await;
    assert_eq!(objects(&setting).await, BTreeMap::from([("run".to_owned(), text.into_bytes())]));
    assert_eq!(open_uploads(&setting).await, 0);
}

#[tokio::test(start_paused = true)]
async fn another_program_that_takes_the_name_meanwhile_keeps_it() {
    let setting = Setting::new(&[]).await;
    let (store, latch) = (store_of(&setting), Latch::default());
    store.rule(Rule::once("CopyObject", Fault::Hold(latch.clone())).key("p/run"));
    let spec = spec(Arc::clone(&store) as Arc<dyn ObjectStore>);
    let running = Running::with(&setting, UploadSpec { long: Some(LONG), largest_copy: None, ..spec });
    without_time(setting.put("run", "")).await;
    let mut text = String::new();
    grow(&setting, "run", &mut text, 50).await;
    latch.reached().await;
    setting.store.put("b", "p/run", Bytes::from_static(b"theirs"), &<_>::default()).await.unwrap();
    latch.open();
    running.drain(&setting).await;
    let found = objects(&setting).await;
    assert_eq!((&found["run"][..], found.len()), (&b"theirs"[..], 2));
    let kept = found.iter().find(|(key, _)| key.starts_with(".seqferry-conflicts/run.")).unwrap();
    assert_eq!(kept.1, text.as_bytes());
    assert_eq!(open_uploads(&setting).await, 0);
}

/// Kills at any moment, with and without a loss of power, while a file grows, is completed, copied and cleaned up.
#[tokio::test(start_paused = true)]
async fn a_kill_at_any_moment_loses_nothing_and_leaves_nothing_behind() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    for round in 0..40 {
        let mut setting = Setting::new(&[]).await;
        without_time(setting.put("run", "")).await;
        let mut text = String::new();
        for _ in 0..3 {
            let store = store_of(&setting);
            let after = random.u32(0..12);
            let operation = *random
                .choice(&[
                    "CreateMultipartUpload",
                    "UploadPart",
                    "CompleteMultipartUpload",
                    "CopyObject",
                    "UploadPartCopy",
                    "HeadObject",
                    "DeleteObject",
                ])
                .unwrap();
            let latch = Latch::default();
            let hold = if random.bool() { Fault::Hold(latch.clone()) } else { Fault::HoldReply(latch.clone()) };
            store.rule(Rule::always(operation, hold).after(after));
            let running = uploader(&setting, &store);
            grow(&setting, "run", &mut text, random.usize(0..40)).await;
            // At times it settles, and is completed and copied.
            tokio::time::sleep(random.u32(0..5) * QUIET).await;
            running.kill().await;
            let loses_power = random.bool();
            setting = setting.restarted(&mut random, loses_power).await;
            assert_eq!(setting.text("run").await, text, "seed {seed}, round {round}");
        }
        let store = store_of(&setting);
        uploader(&setting, &store).drain(&setting).await;
        let expected = BTreeMap::from([("run".to_owned(), text.into_bytes())]);
        assert!(objects(&setting).await == expected, "seed {seed}, round {round}: {:?}", keys(&setting).await);
        assert_eq!(open_uploads(&setting).await, 0, "seed {seed}, round {round}");
        assert!(setting.share.pending_removals().is_empty());
    }
}
