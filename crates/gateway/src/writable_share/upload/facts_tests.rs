//! Facts that objects state are shown from the first check to the last, and what was not stated is never uploaded.

use std::collections::BTreeMap;
use std::time::UNIX_EPOCH;

use seqferry_share::{FileKind, TimeUpdate};
use seqferry_store::prelude::*;
use seqferry_store::{ObjectRef, format_mtime};
use seqferry_store_testing::ObjectWriteExt as _;
use seqferry_store_testing::fault::{Fault, Rule};

use super::super::tests::{Setting, random, root};
use super::super::*;
use super::tests::{drained, objects};
use crate::name_list::{IGNORED, NameList};

type Metadata = BTreeMap<String, String>;

fn metadata(pairs: &[(&str, &str)]) -> Metadata {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

async fn put(setting: &Setting, path: &str, pairs: &[(&str, &str)], text: &'static str) {
    let attributes = seqferry_store::Attributes { metadata: metadata(pairs), ..seqferry_store::Attributes::default() };
    let bytes = Bytes::from_static(text.as_bytes());
    setting.store.put("b", &format!("p/{path}"), bytes, &attributes).await.unwrap();
}

/// Facts that the object of a path states. The mark of the upload is not one of them.
async fn stated(setting: &Setting, path: &str) -> Metadata {
    let key = format!("p/{path}");
    let mut found = setting.store.head(ObjectRef::new("b", &key), None).await.unwrap().attributes.metadata;
    found.retain(|name, _| !name.starts_with("seqferry"));
    found
}

/// The upload time of an object, as its file shows it.
async fn upload_time(setting: &Setting, path: &str) -> SystemTime {
    let head = setting.store.head(ObjectRef::new("b", &format!("p/{path}")), None).await.unwrap();
    UNIX_EPOCH + Duration::from_secs_f64(head.last_modified.floor())
}

fn mtime_of(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap();
    format_mtime(i64::try_from(since.as_secs()).unwrap(), since.subsec_nanos())
}

const NOTHING: SetAttributes =
    SetAttributes { mode: None, uid: None, gid: None, size: None, accessed: None, modified: None };

async fn set(setting: &Setting, path: &str, set: SetAttributes) {
    setting.share.set_attributes(&root(), setting.id(path).await, set, None).await.unwrap();
}

async fn rename(setting: &Setting, from: &str, to: &str) {
    let top = setting.share.root();
    setting.share.rename(&root(), top, from.as_bytes(), top, to.as_bytes()).await.unwrap();
}

/// Metadata as other programs write them.
const PROGRAM: &[(&str, &str)] = &[("mode", "0100755"), ("mtime", "1600000000.123456789"), ("sample", "7")];
const S3FS: &[(&str, &str)] = &[("mode", "33261"), ("mtime", "1600000000"), ("uid", "7"), ("gid", "8")];
const FILE_GATEWAY: &[(&str, &str)] =
    &[("file-permissions", "0640"), ("file-mtime", "1600000000123"), ("file-owner", "9"), ("file-group", "10")];
const OLD: &[(&str, &str)] = &[("mtime", "-86400.5"), ("mode", "0100600")];
const CASES: [&[(&str, &str)]; 5] = [PROGRAM, S3FS, FILE_GATEWAY, OLD, &[]];

/// A change of a file that nothing was asked of before, and the facts that it states.
#[tokio::test]
async fn a_change_of_one_fact_leaves_the_others_as_the_object_states_them() {
    for case in CASES {
        let now = SystemTime::UNIX_EPOCH + Duration::from_nanos(1_700_000_000_987_654_321);
        let changes: [(SetAttributes, &[(&str, &str)]); 4] = [
            (SetAttributes { mode: Some(0o775), ..NOTHING }, &[("mode", "0100775"), ("file-permissions", "0100775")]),
            (SetAttributes { uid: Some(70), ..NOTHING }, &[("uid", "70"), ("file-owner", "70")]),
            (SetAttributes { gid: Some(80), ..NOTHING }, &[("gid", "80"), ("file-group", "80")]),
            (
                SetAttributes { modified: Some(TimeUpdate::At(now)), ..NOTHING },
                &[("mtime", "1700000000.987654321"), ("file-mtime", "1700000000987654321ns")],
            ),
        ];
        for (change, expected) in changes {
            let setting = Setting::new(&[]).await;
            put(&setting, "a", case, "bytes").await;
            let uploaded = upload_time(&setting, "a").await;
            let before = setting.find("a").await.unwrap();
            set(&setting, "a", change).await;
            drained(&setting).await;

            let mut wanted = metadata(case);
            if !case.iter().any(|(name, _)| name.ends_with("mtime")) {
                // The copy within the service would lose the time at which the bytes came.
                wanted.insert("mtime".to_owned(), mtime_of(uploaded));
                wanted.insert("file-mtime".to_owned(), format!("{}ns", mtime_nanos(uploaded)));
            }
            wanted.extend(metadata(expected));
            assert_eq!(stated(&setting, "a").await, wanted, "{case:?} {change:?}");
            let setting = setting.restarted(&mut random(), true).await;
            let after = setting.find("a").await.unwrap();
            assert_eq!(after.mode, change.mode.unwrap_or(before.mode), "{case:?} {change:?}");
            if change.modified.is_none() {
                assert_eq!(after.modified, before.modified, "{case:?} {change:?}");
            }
        }
    }
}

fn mtime_nanos(time: SystemTime) -> u128 {
    time.duration_since(UNIX_EPOCH).unwrap().as_nanos()
}

#[tokio::test]
async fn a_rename_keeps_every_fact_as_the_object_states_it() {
    for case in CASES {
        let setting = Setting::new(&[]).await;
        put(&setting, "a", case, "bytes").await;
        put(&setting, "folder/b", case, "bytes").await;
        let (shown, uploaded) = (setting.find("a").await.unwrap(), upload_time(&setting, "folder/b").await);
        rename(&setting, "a", "moved").await;
        rename(&setting, "folder", "other").await;
        drained(&setting).await;
        for path in ["moved", "other/b"] {
            let mut found = stated(&setting, path).await;
            if !case.iter().any(|(name, _)| name.ends_with("mtime")) {
                assert_eq!(found.remove("mtime"), Some(mtime_of(uploaded)), "{path}");
                found.remove("file-mtime");
            }
            assert_eq!(found, metadata(case), "{path}");
        }
        let setting = setting.restarted(&mut random(), true).await;
        let after = setting.find("moved").await.unwrap();
        assert_eq!((after.mode, after.modified, after.uid), (shown.mode, shown.modified, shown.uid), "{case:?}");
    }
}

#[tokio::test]
async fn bytes_that_are_written_change_the_time_alone() {
    for case in CASES {
        let setting = Setting::new(&[]).await;
        put(&setting, "a", case, "bytes").await;
        let file = setting.id("a").await;
        setting.write(file, 2, "new", Stability::File).await.unwrap();
        let written = setting.find("a").await.unwrap().modified;
        drained(&setting).await;
        let mut found = stated(&setting, "a").await;
        assert_eq!(found.remove("mtime"), Some(mtime_of(written)), "{case:?}");
        assert_eq!(found.remove("file-mtime"), Some(format!("{}ns", mtime_nanos(written))));
        let mut wanted = metadata(case);
        wanted.retain(|name, _| !name.ends_with("mtime"));
        assert_eq!(found, wanted);
    }
}

#[tokio::test]
async fn a_set_user_id_bit_that_a_write_clears_is_cleared_in_the_bucket() {
    let setting = Setting::new(&[]).await;
    put(&setting, "a", &[("mode", "0104777")], "bytes").await;
    let file = setting.id("a").await;
    let user = Caller { uid: 7, gid: 7, ..root() };
    setting.share.write(&user, file, 0, Bytes::from_static(b"new"), Stability::File).await.unwrap();
    drained(&setting).await;
    assert_eq!(stated(&setting, "a").await.get("mode").map(String::as_str), Some("0100777"));
}

#[tokio::test]
async fn links_of_both_kinds_are_links_from_the_first_look_on_and_stay_links() {
    let setting = Setting::new(&[]).await;
    put(&setting, "s3fs", &[("mode", "41471"), ("mtime", "5")], "target").await;
    put(&setting, "rclone.rclonelink", &[("mtime", "6.5")], "target").await;
    put(&setting, "gone.rclonelink", &[], "target").await;
    for (path, modified) in [("s3fs", Duration::from_secs(5)), ("rclone", Duration::from_millis(6500))] {
        let found = setting.find(path).await.unwrap();
        assert_eq!((found.kind, found.modified), (FileKind::Symlink, UNIX_EPOCH + modified), "{path}");
        assert_eq!(setting.share.read_link(&root(), found.file).await.unwrap(), "target");
        rename(&setting, path, &format!("{path} moved")).await;
    }
    setting.share.remove(&root(), setting.share.root(), b"gone").await.unwrap();
    drained(&setting).await;
    let setting = setting.restarted(&mut random(), true).await;
    assert_eq!(objects(&setting).await.into_keys().collect::<Vec<_>>(), ["rclone moved", "s3fs moved"]);
    for path in ["s3fs moved", "rclone moved"] {
        let found = setting.find(path).await.unwrap();
        assert_eq!(found.kind, FileKind::Symlink, "{path}");
        assert_eq!(setting.share.read_link(&root(), found.file).await.unwrap(), "target");
    }
    assert_eq!(setting.names("", 10).await, ["rclone moved", "s3fs moved"]);
}

#[tokio::test]
async fn the_marker_of_a_renamed_folder_states_what_the_old_one_did_and_no_default() {
    let setting = Setting::new(&[]).await;
    let of_marker = [("mode", "0040700"), ("uid", "7"), ("mtime", "5.25"), ("extra", "keep")];
    put(&setting, "stated/", &of_marker, "").await;
    put(&setting, "changed/", &[("mode", "0040700"), ("uid", "7")], "").await;
    put(&setting, "plain/", &[], "").await;
    for folder in ["stated", "changed", "plain", "none"] {
        put(&setting, &format!("{folder}/a"), PROGRAM, "a").await;
    }
    set(&setting, "changed", SetAttributes { mode: Some(0o755), ..NOTHING }).await;
    let facts = |found: Attributes| (found.mode, found.uid, found.gid);
    for folder in ["stated", "changed", "plain", "none"] {
        let before = facts(setting.find(folder).await.unwrap());
        rename(&setting, folder, &format!("{folder} moved")).await;
        drained(&setting).await;
        assert_eq!(facts(setting.find(&format!("{folder} moved")).await.unwrap()), before, "{folder}");
    }
    assert_eq!(stated(&setting, "stated moved/").await, metadata(&of_marker));
    assert_eq!(objects(&setting).await.keys().filter(|path| !path.contains("moved")).count(), 0);
    let of_folder =
        [("stated", Some("0040700"), Some("7")), ("changed", Some("040755"), Some("7")), ("plain", None, None)];
    for (folder, mode, uid) in of_folder.into_iter().chain([("none", None, None)]) {
        let found = stated(&setting, &format!("{folder} moved/")).await;
        let found = (found.get("mode").map(String::as_str), found.get("uid").map(String::as_str));
        assert_eq!(found, (mode, uid), "{folder}");
        assert_eq!(stated(&setting, &format!("{folder} moved/a")).await, metadata(PROGRAM), "{folder}");
    }
}

#[tokio::test]
async fn every_call_shows_the_same_facts_of_a_version() {
    for case in CASES {
        let mut setting = Setting::new(&[]).await;
        put(&setting, "a", case, "bytes").await;
        let facts = |found: &Attributes| (found.kind, found.mode, found.uid, found.gid, found.size, found.modified);
        let first = setting.find("a").await.unwrap();
        let file = first.file;
        for lost_power in [false, true] {
            let read = setting.share.read(&root(), file, 0, 100).await.unwrap();
            assert_eq!(facts(&read.attributes.unwrap()), facts(&first), "{case:?} read");
            let (_, accessed) = setting.share.access(&root(), file).await.unwrap();
            assert_eq!(facts(&accessed), facts(&first), "{case:?}");
            let top = setting.share.root();
            let page = setting.share.read_directory(&root(), top, 2, 10, EntryDetail::All).await.unwrap();
            assert_eq!((facts(&page.entries[0].attributes), page.entries[0].is_known), (facts(&first), true));
            assert_eq!(facts(&setting.share.attributes(&root(), file).await.unwrap()), facts(&first), "{case:?}");
            setting = setting.restarted(&mut random(), lost_power).await;
            // A listing that comes first.
            let page = setting.share.read_directory(&root(), top, 2, 10, EntryDetail::Names).await.unwrap();
            assert!(!page.entries[0].is_known);
        }
    }
}

#[tokio::test]
async fn a_file_that_another_program_replaced_shows_the_facts_of_the_new_version() {
    let setting = Setting::new(&[]).await;
    put(&setting, "a", PROGRAM, "bytes").await;
    set(&setting, "a", SetAttributes { uid: Some(70), ..NOTHING }).await;
    drained(&setting).await;
    put(&setting, "a", &[("mode", "0100600"), ("mtime", "7.000000001")], "others").await;
    setting.share.0.looked.lock().unwrap().clear();
    setting.share.0.files.tree().list_again(seqferry_vfs::ROOT).await.unwrap();

    let found = setting.find("a").await.unwrap();
    assert_eq!((found.size, found.mode, found.uid), (6, 0o600, 1000));
    assert_eq!(found.modified, UNIX_EPOCH + Duration::new(7, 1));
    rename(&setting, "a", "b").await;
    drained(&setting).await;
    assert_eq!(stated(&setting, "b").await, metadata(&[("mode", "0100600"), ("mtime", "7.000000001")]));
}

#[tokio::test]
async fn a_guess_is_never_stored_while_the_bucket_does_not_answer() {
    let setting = Setting::new(&[]).await;
    put(&setting, "a", PROGRAM, "bytes").await;
    let top = setting.share.root();
    setting.share.read_directory(&root(), top, 0, 10, EntryDetail::Names).await.unwrap();
    setting.asked.rule(Rule::always("HeadObject", Fault::Fail("ServiceUnavailable", 503)));
    let renamed = setting.share.rename(&root(), top, b"a", top, b"b").await;
    assert_eq!(renamed.unwrap_err(), FileError::TryLater);
    assert_eq!(setting.share.lookup(&root(), top, b"a").await.unwrap_err(), FileError::TryLater);
    let page = setting.share.read_directory(&root(), top, 2, 10, EntryDetail::All).await.unwrap();
    assert_eq!((page.entries.len(), page.entries[0].is_known), (1, false), "names show");
    setting.asked.clear_rules();
    setting.share.rename(&root(), top, b"a", top, b"b").await.unwrap();
    drained(&setting).await;
    assert_eq!(stated(&setting, "b").await, metadata(PROGRAM));
}

#[tokio::test]
async fn files_that_a_mount_removed_while_they_were_open_go_when_the_share_is_opened_again() {
    let ignore = |setting: &Setting| setting.share.0.overlay.note(|overlay| overlay.ignore(NameList::new(IGNORED)));
    let setting = Setting::new(&[("old", b"old".to_vec())]).await;
    ignore(&setting);
    setting.put("new", "new").await;
    setting.put(".nfs-other", "a file of a program").await;
    for name in ["old", "new"] {
        rename(&setting, name, &format!("{REMOVED}{name}")).await;
    }
    assert_eq!(setting.text(".nfs-removed-old").await, "old", "programs read it");
    for lost_power in [false, true] {
        let setting = setting.share_again(lost_power).await;
        ignore(&setting);
        assert_eq!(setting.names("", 10).await, [".nfs-other"]);
        drained(&setting).await;
        assert!(objects(&setting).await.is_empty());
    }
}
