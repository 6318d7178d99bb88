//! Folders that are renamed after they were uploaded: one batch of outcomes, and their progress until it is there.

use std::sync::Arc;

use seqferry_share::{Share as _, Stability};
use seqferry_store::ObjectStore;
use seqferry_store_testing::fault::{Fault, Latch, Rule};

use super::super::tests::{Setting, random, root};
use super::super::upload_batches::{RecentRenames, SMALL_RENAMES_AN_HOUR};
use super::control_tests::until;
use super::tests::{Running, drained, keys, store_of};
use crate::overlay::is_below;
use crate::upload_batches::RenamedFolder;

const FILES: [&str; 4] = ["d/a", "d/b", "d/sub/c", "d/sub/d"];

async fn setting() -> Setting {
    let objects: Vec<(&str, Vec<u8>)> = FILES.iter().map(|path| (*path, b"text".to_vec())).collect();
    Setting::new(&objects).await
}

async fn rename(setting: &Setting, from: &str, to: &str) {
    let top = setting.share.root();
    setting.share.rename(&root(), top, from.as_bytes(), top, to.as_bytes()).await.unwrap();
}

/// Folder before and after, and the paths of the files, of each batch that has any. Markers of folders are with the
/// others.
async fn batches(setting: &Setting) -> Vec<(Option<(String, String)>, Vec<String>)> {
    setting.share.freeze_upload_batch().await.unwrap();
    let mut found = Vec::new();
    for batch in setting.share.pending_upload_batches().map(|(_, numbers)| numbers).unwrap_or_default() {
        let (outcomes, renamed) = setting.share.read_upload_batch(batch).await.unwrap();
        let paths = outcomes.into_iter().map(|one| one.path);
        let mut paths: Vec<String> = paths.filter(|path| !path.ends_with('/')).collect();
        if paths.is_empty() {
            continue;
        }
        paths.sort_unstable();
        found.push((renamed.map(|RenamedFolder { from, to }| (from, to)), paths));
    }
    found
}

async fn files(setting: &Setting) -> Vec<String> {
    keys(setting).await.into_iter().filter(|key| !key.ends_with('/')).collect()
}

fn owned<const COUNT: usize>(paths: [&str; COUNT]) -> Vec<String> {
    paths.map(str::to_owned).to_vec()
}

/// Files, and those of them that wait, of the renames that go on.
async fn progress(setting: &Setting) -> Vec<(u64, u64)> {
    let renames = setting.share.write_status().await.files.renames;
    renames.iter().map(|one| (one.files, one.waiting_files)).collect()
}

#[tokio::test]
async fn the_files_of_a_renamed_folder_are_one_batch_and_others_are_in_another() {
    let setting = setting().await;
    setting.put("other", "x").await;
    rename(&setting, "d", "e").await;
    assert_eq!((progress(&setting).await, setting.text("e/sub/c").await.as_str()), (vec![(0, 0)], "text"));
    setting.put("e/new", "x").await;
    drained(&setting).await;

    // The journal says it after a loss of power, too.
    let setting = setting.restarted(&mut random(), true).await;
    assert_eq!(progress(&setting).await, [(4, 0)]);
    let renamed = (Some(("d".to_owned(), "e".to_owned())), owned(["e/a", "e/b", "e/sub/c", "e/sub/d"]));
    assert_eq!(batches(&setting).await, [(None, owned(["e/new", "other"])), renamed]);
    assert_eq!((progress(&setting).await, setting.share.write_status().await.unrecorded), (vec![], 8));
    assert_eq!(files(&setting).await, ["e/a", "e/b", "e/new", "e/sub/c", "e/sub/d", "other"]);
}

#[tokio::test]
async fn a_folder_that_is_renamed_back_before_anything_was_copied_is_nothing() {
    let setting = setting().await;
    rename(&setting, "d", "e").await;
    rename(&setting, "e", "d").await;
    let store = drained(&setting).await;

    assert_eq!((batches(&setting).await, progress(&setting).await), (vec![], vec![]));
    let writes = ["CopyObject", "PutObject", "DeleteObject"];
    assert_eq!(writes.map(|operation| store.count(operation)), [0; 3]);
}

#[tokio::test]
async fn a_process_that_was_killed_goes_on_and_each_file_is_on_record_once() {
    let mut setting = setting().await;
    rename(&setting, "d", "e").await;
    for hold in [Fault::Hold, Fault::HoldReply] {
        let (store, latch) = (store_of(&setting), Latch::default());
        store.rule(Rule::always("CopyObject", hold(latch.clone())).after(1));
        let running = Running::start(&setting, Arc::clone(&store) as Arc<dyn ObjectStore>);
        latch.reached().await;
        assert_eq!(batches(&setting).await, [], "it goes on");
        running.kill().await;
        setting = setting.restarted(&mut random(), true).await;
    }
    drained(&setting).await;

    let renamed = (Some(("d".to_owned(), "e".to_owned())), owned(["e/a", "e/b", "e/sub/c", "e/sub/d"]));
    assert_eq!((batches(&setting).await, files(&setting).await), (vec![renamed.clone()], renamed.1));
}

#[tokio::test]
async fn files_that_were_written_here_count_from_the_rename_on() {
    let setting = Setting::new(&[]).await;
    let top = setting.share.root();
    setting.share.create_directory(&root(), top, b"run", <_>::default()).await.unwrap();
    for name in ["run/a", "run/b"] {
        setting.put(name, "text").await;
    }
    drained(&setting).await;
    batches(&setting).await;
    rename(&setting, "run", "done").await;
    assert_eq!(progress(&setting).await, [(2, 2)]);
    setting.share.remove(&root(), setting.id("done").await, b"b").await.unwrap();
    drained(&setting).await;

    let found = batches(&setting).await.pop().unwrap();
    assert_eq!(found.0, Some(("run".to_owned(), "done".to_owned())));
    assert!(found.1.contains(&"done/a".to_owned()) && !found.1.contains(&"done/b".to_owned()), "{found:?}");
    assert_eq!(progress(&setting).await, []);
}

#[tokio::test]
async fn of_many_small_folders_that_are_renamed_few_have_a_batch_each() {
    let all = SMALL_RENAMES_AN_HOUR + 3;
    let paths: Vec<String> = (0..all).map(|number| format!("d{number:02}/a")).collect();
    let objects: Vec<(&str, Vec<u8>)> = paths.iter().map(|path| (path.as_str(), b"text".to_vec())).collect();
    let setting = Setting::new(&objects).await;
    for number in 0..all {
        rename(&setting, &format!("d{number:02}"), &format!("e{number:02}")).await;
    }
    drained(&setting).await;
    setting.share.0.join_small_renames(&mut RecentRenames::default()).await.unwrap();

    // The journal says it after a loss of power, too.
    let setting = setting.restarted(&mut random(), true).await;
    let found = batches(&setting).await;
    let joined: Vec<String> = (SMALL_RENAMES_AN_HOUR..all).map(|number| format!("e{number:02}/a")).collect();
    assert_eq!((found.len(), &found[0]), (SMALL_RENAMES_AN_HOUR + 1, &(None, joined)));
    assert!(found[1..].iter().all(|(renamed, files)| renamed.is_some() && files.len() == 1), "{found:?}");
    assert_eq!(progress(&setting).await, []);
}

/// Files below `e` that the bucket has as the share shows them, and those that wait.
async fn counted(setting: &Setting) -> (usize, usize) {
    let (status, filter) = setting.share.file_status("e");
    let keys = keys(setting).await;
    let current = keys.iter().filter(|key| is_below(key, "e") && filter.is_current(key)).count();
    let is_former = |key: &str| filter.to_move().iter().any(|former| is_below(key, former));
    let to_move = keys.iter().filter(|key| is_former(key) && filter.is_to_move(key)).count();
    (current, status.dirty_files - status.dirty_folders + to_move)
}

#[tokio::test]
async fn each_file_of_a_renamed_folder_counts_once_while_its_copies_go_on() {
    let setting = setting().await;
    rename(&setting, "d", "e").await;
    // Another folder gets the old name.
    let top = setting.share.root();
    setting.share.create_directory(&root(), top, b"d", <_>::default()).await.unwrap();
    setting.put("d/a", "another").await;
    assert_eq!(counted(&setting).await, (0, 4));

    let (store, latch) = (store_of(&setting), Latch::default());
    store.rule(Rule::always("CopyObject", Fault::Hold(latch.clone())).after(2));
    let running = Running::start(&setting, Arc::clone(&store) as Arc<dyn ObjectStore>);
    latch.reached().await;
    until("two copies", async || counted(&setting).await == (2, 2)).await;
    running.kill().await;

    let setting = setting.restarted(&mut random(), true).await;
    drained(&setting).await;
    assert_eq!(counted(&setting).await, (4, 0));
    let changed = setting.id("e/a").await;
    setting.write(changed, 0, "changed", Stability::File).await.unwrap();
    assert_eq!(counted(&setting).await, (3, 1), "its object is that of before");
    assert_eq!(setting.share.file_status("d").0.dirty_files, 0);
}
