//! Uploads under control: completion markers, flushes, windows and failures.

use std::sync::Arc;
use std::time::Duration;

use seqferry_share::{FileError, SetAttributes, Share as _, Stability};
use seqferry_store::ObjectStore;
use seqferry_store_testing::fault::{Fault, FaultStore, Latch, Rule};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::super::tests::{Setting, root};
use super::control::UploadRules;
use super::tests::{Running, keys, objects, spec, store_of};
use super::{UploadSpec, WritableShare};
use crate::journal::simulated::SimulatedDisk;
use crate::name_list::{IGNORED, NameList};
use crate::upload_window::UploadWindow;

fn markers() -> UploadRules {
    UploadRules { markers: NameList::new(["Complete.txt", "End*"]), ..UploadRules::default() }
}

async fn ruled(rules: UploadRules) -> Setting {
    let setting = Setting::new(&[]).await;
    setting.share.set_rules(NameList::new(IGNORED), rules);
    setting
}

async fn folder(setting: &Setting, path: &str) {
    let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
    let parent = setting.id(parent).await;
    setting.share.create_directory(&root(), parent, name.as_bytes(), SetAttributes::default()).await.unwrap();
}

/// Uploads that never settle by themselves.
fn unsettled(share: &WritableShare<SimulatedDisk>, store: &Arc<FaultStore>) {
    let quiet = Duration::from_hours(24);
    let spec = UploadSpec { quiet, ..spec(Arc::clone(store) as Arc<dyn ObjectStore>) };
    let share = share.clone();
    tokio::spawn(async move { share.upload(spec, CancellationToken::new()).await });
}

pub(super) async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !holds().await {
        assert!(Instant::now() < deadline, "waited for {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn refuses(store: &FaultStore, path: &str) {
    store.rule(Rule::always("PutObject", Fault::Fail("AccessDenied", 403)).key(&format!("p/{path}")));
}

fn writes(store: &FaultStore, path: &str) -> usize {
    let key = format!("p/{path}");
    store.requests().iter().filter(|request| request.operation == "PutObject" && request.key == key).count()
}

#[tokio::test]
async fn a_marker_waits_for_older_files_below_its_folder_and_for_no_others() {
    let setting = ruled(markers()).await;
    for path in ["run", "run/deep", "other"] {
        folder(&setting, path).await;
    }
    setting.put("run/deep/old", "1").await;
    setting.put("run/Complete.txt", "2").await;
    setting.put("run/young", "3").await;
    setting.put("other/Complete.txt", "4").await;
    let store = store_of(&setting);
    refuses(&store, "run/deep/old");
    refuses(&store, "run/young");
    let running = Running::start(&setting, Arc::clone(&store) as Arc<dyn ObjectStore>);

    until("both failures", async || {
        let status = setting.share.write_status().await;
        status.files.failing_files == 2 && !status.files.held.is_empty()
    })
    .await;

    let status = setting.share.write_status().await;
    assert_eq!(status.files.held[0].path, "run/Complete.txt");
    assert_eq!(status.files.held[0].waits_for, "run/deep/old");
    assert!(status.files.held[0].cause.as_ref().unwrap().contains("AccessDenied"));
    assert!(keys(&setting).await.contains(&"other/Complete.txt".to_owned()));
    assert_eq!(writes(&store, "run/Complete.txt"), 0);

    // A file that was removed holds it no more, whatever becomes of a younger one.
    let deep = setting.id("run/deep").await;
    setting.share.remove(&root(), deep, b"old").await.unwrap();
    until("the marker", async || keys(&setting).await.contains(&"run/Complete.txt".to_owned())).await;
    assert!(setting.share.write_status().await.files.held.is_empty());
    running.kill().await;
}

#[tokio::test]
async fn a_marker_waits_for_a_file_that_was_made_before_it_and_is_written_still() {
    let setting = ruled(markers()).await;
    let log = setting.put("log", "1").await;
    setting.put("Complete.txt", "2").await;
    setting.write(log, 1, " more", Stability::File).await.unwrap();
    let store = store_of(&setting);
    refuses(&store, "log");
    let running = Running::start(&setting, Arc::clone(&store) as Arc<dyn ObjectStore>);

    until("the failure", async || setting.share.write_status().await.files.failing_files == 1).await;
    assert_eq!(writes(&store, "Complete.txt"), 0);

    store.clear_rules();
    setting.share.flush("");
    running.drain(&setting).await;
    let order: Vec<String> =
        store.requests().into_iter().filter(|r| r.operation == "PutObject").map(|r| r.key).collect();
    assert_eq!(order.last().unwrap(), "p/Complete.txt");
}

#[tokio::test]
async fn markers_of_one_folder_wait_for_each_other_in_their_order_without_an_end() {
    let setting = ruled(markers()).await;
    let first = setting.put("Complete.txt", "1").await;
    setting.put("End1", "2").await;
    // The older of the two is now the younger one by its time.
    setting.write(first, 1, "more", Stability::File).await.unwrap();

    let store = store_of(&setting);
    Running::start(&setting, Arc::clone(&store) as Arc<dyn ObjectStore>).drain(&setting).await;

    assert_eq!(keys(&setting).await, ["Complete.txt", "End1"]);
}

#[tokio::test]
async fn a_flush_of_a_marker_sends_the_files_that_it_waits_for() {
    let setting = ruled(markers()).await;
    setting.put("a", "1").await;
    setting.put("Complete.txt", "2").await;
    let store = store_of(&setting);
    unsettled(&setting.share, &store);

    let scope = setting.share.flush("Complete.txt");
    until("the flush", async || setting.share.left(&scope).waiting == 0).await;

    assert_eq!(keys(&setting).await, ["Complete.txt", "a"]);
}

#[tokio::test]
async fn a_flush_covers_what_was_changed_before_it_below_its_path() {
    let setting = ruled(UploadRules::default()).await;
    folder(&setting, "run").await;
    setting.put("run/a", "1").await;
    setting.put("beside", "2").await;
    let store = store_of(&setting);
    unsettled(&setting.share, &store);

    let scope = setting.share.flush("run");
    until("the flush", async || setting.share.left(&scope).waiting == 0).await;
    setting.put("run/later", "3").await;

    assert_eq!(keys(&setting).await, ["run/", "run/a"]);
    let status = setting.share.write_status().await;
    assert_eq!((status.files.dirty_files, status.uploaded_files), (2, 2));
    assert_eq!(status.uploaded_bytes, 1);
    setting.share.drain();
    until("the drain", async || setting.share.is_drained()).await;
    assert_eq!(keys(&setting).await, ["beside", "run/", "run/a", "run/later"]);
}

#[tokio::test]
async fn a_share_that_drains_has_clients_repeat_changes_and_commits_what_it_accepted() {
    let setting = Setting::new(&[]).await;
    let file = setting.put("a", "first").await;
    setting.write(file, 5, " more", Stability::Unstable).await.unwrap();
    assert_eq!(setting.share.repeats().get(), 0);

    setting.share.drain();

    assert_eq!(setting.write(file, 0, "later", Stability::File).await.unwrap_err(), FileError::TryLater);
    assert!(setting.share.is_idle());
    setting.share.commit(&root(), file).await.unwrap();
    assert_eq!(setting.share.repeats().get(), 1);
    assert_eq!(setting.text("a").await, "first more");
}

/// A share of these objects whose files never settle by themselves.
async fn with_objects(objects: &[&str]) -> (Setting, Arc<FaultStore>) {
    let objects: Vec<(&str, Vec<u8>)> = objects.iter().map(|key| (*key, b"x".to_vec())).collect();
    let setting = Setting::new(&objects).await;
    setting.share.set_rules(NameList::default(), UploadRules::default());
    let store = store_of(&setting);
    (setting, store)
}

#[tokio::test]
async fn a_flush_waits_for_removals_before_it_and_not_for_those_after_it() {
    let (setting, store) = with_objects(&["a", "b", "run/c"]).await;
    let (share, top) = (&setting.share, setting.share.root());
    let (first, later) = (Latch::default(), Latch::default());
    store.rule(Rule::always("DeleteObject", Fault::Hold(first.clone())).key("p/a"));
    store.rule(Rule::always("DeleteObject", Fault::Hold(later.clone())).key("p/b"));
    share.remove(&root(), top, b"a").await.unwrap();
    unsettled(share, &store);
    first.reached().await;

    let (all, below) = (share.flush(""), share.flush("run"));
    share.remove(&root(), top, b"b").await.unwrap();
    later.reached().await;

    assert_eq!((share.left(&all).waiting, share.left(&all).stuck, share.left(&below).waiting), (1, 0, 0));
    first.open();
    until("the flush", async || share.left(&all).waiting == 0).await;
    assert_eq!(keys(&setting).await, ["b", "run/c"]);
    later.open();
}

#[tokio::test]
async fn a_flush_of_the_old_or_the_new_name_waits_for_a_rename_to_its_end() {
    for flushed in ["", "old", "new"] {
        let (setting, store) = with_objects(&["old/a", "old/deep/b"]).await;
        let (share, top) = (&setting.share, setting.share.root());
        share.rename(&root(), top, b"old", top, b"new").await.unwrap();
        unsettled(share, &store);

        let scope = share.flush(flushed);
        assert!(share.left(&scope).waiting > 0, "{flushed}");
        until("the flush", async || share.left(&scope).waiting == 0).await;

        let files: Vec<String> = keys(&setting).await.into_iter().filter(|key| !key.ends_with('/')).collect();
        assert_eq!(files, ["new/a", "new/deep/b"], "{flushed}");
    }
}

#[tokio::test]
async fn a_flush_ends_when_a_removal_or_a_rename_fails_and_names_it() {
    let (setting, store) = with_objects(&["gone", "old"]).await;
    let (share, top) = (&setting.share, setting.share.root());
    store.rule(Rule::always("DeleteObject", Fault::Fail("AccessDenied", 403)).key("p/gone"));
    store.rule(Rule::always("CopyObject", Fault::Fail("AccessDenied", 403)).key("p/new"));
    share.remove(&root(), top, b"gone").await.unwrap();
    share.rename(&root(), top, b"old", top, b"new").await.unwrap();
    unsettled(share, &store);

    let scope = share.flush("");
    until("the end", async || share.left(&scope).stuck == 2).await;

    let left = share.left(&scope);
    let paths: Vec<&str> = left.failing.iter().map(|failing| failing.path.as_str()).collect();
    assert_eq!((left.waiting, paths), (2, vec!["new", "gone"]));
    assert!(left.failing.iter().all(|failing| failing.cause.contains("AccessDenied")));
}

#[tokio::test]
async fn a_flush_waits_for_a_file_that_was_removed_while_it_was_written() {
    let (setting, store) = with_objects(&[]).await;
    let (share, top) = (&setting.share, setting.share.root());
    let latch = Latch::default();
    store.rule(Rule::always("PutObject", Fault::Hold(latch.clone())).key("p/a"));
    setting.put("a", "1").await;
    unsettled(share, &store);
    share.flush("");
    latch.reached().await;
    share.remove(&root(), top, b"a").await.unwrap();

    let scope = share.flush("");

    assert_eq!(share.left(&scope).waiting, 1);
    latch.open();
    until("the flush", async || share.left(&scope).waiting == 0).await;
    assert!(keys(&setting).await.is_empty());
}

#[tokio::test]
async fn a_flush_tries_again_at_once_what_waits_after_a_failure() {
    let setting = ruled(UploadRules::default()).await;
    setting.put("a", "1").await;
    let store = store_of(&setting);
    refuses(&store, "a");
    let running = Running::start(&setting, Arc::clone(&store) as Arc<dyn ObjectStore>);
    // The wait is 4 s by then.
    until("failures", async || {
        setting.share.write_status().await.files.failing.first().is_some_and(|failing| failing.attempts >= 3)
    })
    .await;
    store.clear_rules();

    let (began, scope) = (Instant::now(), setting.share.flush("a"));
    until("the flush", async || setting.share.left(&scope).waiting == 0).await;

    assert!(began.elapsed() < Duration::from_secs(2));
    running.kill().await;
}

#[tokio::test]
async fn outside_its_windows_nothing_is_sent_and_removals_go() {
    let closed = chrono::Local::now() + Duration::from_hours(2);
    let start = u16::try_from(chrono::Timelike::hour(&closed) * 60).unwrap();
    let windows = vec![UploadWindow { start, end: start + 1 }];
    let setting = Setting::new(&[("old", b"x".to_vec())]).await;
    setting.share.set_rules(NameList::default(), UploadRules { windows, ..UploadRules::default() });
    setting.put("new", "1").await;
    setting.share.remove(&root(), setting.share.root(), b"old").await.unwrap();
    let store = store_of(&setting);
    let running = Running::start(&setting, Arc::clone(&store) as Arc<dyn ObjectStore>);

    until("the removal", async || keys(&setting).await.is_empty()).await;

    assert_eq!(writes(&store, "new"), 0);
    assert!(!setting.share.write_status().await.window_is_open);
    setting.share.flush("");
    until("the flush", async || keys(&setting).await == ["new"]).await;
    running.kill().await;
}

#[tokio::test]
async fn a_flush_waits_for_a_file_that_is_changed_again_meanwhile() {
    for change in ["mode", "bytes", "name"] {
        let setting = ruled(UploadRules::default()).await;
        let (share, store, latch) = (&setting.share, store_of(&setting), Latch::default());
        folder(&setting, "run").await;
        let file = setting.put("run/a", "1").await;
        store.rule(Rule::once("PutObject", Fault::Hold(latch.clone())).key("p/run/a"));
        unsettled(share, &store);
        let scope = share.flush("run");
        latch.reached().await;

        match change {
            "mode" => {
                let mode = SetAttributes { mode: Some(0o600), ..SetAttributes::default() };
                share.set_attributes(&root(), file, mode, None).await.unwrap();
            }
            "bytes" => drop(setting.write(file, 1, "2", Stability::File).await.unwrap()),
            _ => drop(share.rename(&root(), setting.id("run").await, b"a", share.root(), b"b").await.unwrap()),
        }

        assert!(share.left(&scope).waiting > 0, "{change}");
        latch.open();
        until("the flush", async || share.left(&scope).waiting == 0).await;
        let found = objects(&setting).await;
        let there = found.get("run/a").or_else(|| found.get("b"));
        assert!(there.is_some_and(|bytes| bytes.starts_with(b"1")), "{change}: {found:?}");
    }
}

#[tokio::test]
async fn a_file_that_is_changed_after_its_upload_is_no_part_of_the_flush() {
    let setting = ruled(UploadRules::default()).await;
    let (share, store) = (&setting.share, store_of(&setting));
    let file = setting.put("a", "1").await;
    unsettled(share, &store);
    let scope = share.flush("");
    until("the flush", async || share.left(&scope).waiting == 0).await;

    setting.write(file, 1, "2", Stability::File).await.unwrap();

    assert_eq!(share.left(&scope).waiting, 0);
    share.flush("elsewhere");
    assert_eq!(objects(&setting).await["a"], b"1");
}

#[tokio::test]
async fn a_folder_whose_marker_is_refused_holds_back_no_file_in_it() {
    let setting = ruled(UploadRules::default()).await;
    let (share, store) = (&setting.share, store_of(&setting));
    refuses(&store, "f/");
    folder(&setting, "f").await;
    setting.put("f/g", "1").await;
    folder(&setting, "f/h").await;
    setting.put("f/h/i", "2").await;
    unsettled(share, &store);

    let scope = share.flush("");
    until("the end", async || share.left(&scope).waiting == share.left(&scope).stuck).await;

    let left = share.left(&scope);
    assert_eq!((left.waiting, left.failing[0].path.as_str()), (1, "f"));
    assert_eq!(keys(&setting).await, ["f/g", "f/h/", "f/h/i"]);
}

#[tokio::test]
async fn a_flush_ends_when_a_file_waits_for_one_that_fails() {
    let (setting, store) = with_objects(&["a"]).await;
    let (share, top) = (&setting.share, setting.share.root());
    store.rule(Rule::always("CopyObject", Fault::Fail("AccessDenied", 403)).key("p/b"));
    share.rename(&root(), top, b"a", top, b"b").await.unwrap();
    setting.put("a", "new").await;
    unsettled(share, &store);

    let scope = share.flush("");
    until("the end", async || share.left(&scope).waiting == share.left(&scope).stuck).await;

    assert_eq!(share.left(&scope).failing.first().map(|failing| failing.path.as_str()), Some("b"));
}
