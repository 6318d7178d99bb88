//! One version of an object shows one kind, mode and time from first to last.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use seqferry_store::prelude::*;
use seqferry_store::{ObjectRef, StoredMetadata};
use seqferry_store_testing::fault::{Fault, FaultStore, Rule};
use seqferry_store_testing::{MemoryStore, ObjectWriteExt as _};

use super::*;
use crate::pool::{Pool, SMALLEST_POOL};
use crate::source::Source;
use crate::testing::StoreSource;
use crate::tree::{ROOT, TreeOptions, exact_time, upload_time};

struct Setting {
    store: Arc<MemoryStore>,
    asked: Arc<FaultStore>,
    source: Arc<StoreSource>,
    files: Arc<FileSystem>,
}

/// Metadata of an object, its bytes, and what its file shows: kind, permissions, time.
type Case = (&'static str, &'static [(&'static str, &'static str)], &'static [u8], Shown);
type Shown = (FileKind, Option<u16>, Option<(i64, u32)>);

const CASES: &[Case] = &[
    (
        "program",
        &[("mtime", "1600000000.123456789"), ("mode", "0100755"), ("uid", "7")],
        b"#!/bin/sh",
        (FileKind::File, Some(0o755), Some((1_600_000_000, 123_456_789))),
    ),
    ("old", &[("mtime", "-1.5")], b"before 1970", (FileKind::File, None, Some((0, 0)))),
    (
        "of File Gateway",
        &[("file-mtime", "1600000000123456717ns"), ("file-permissions", "0640")],
        b"x",
        (FileKind::File, Some(0o640), Some((1_600_000_000, 123_456_717))),
    ),
    ("plain", &[], b"no statement", (FileKind::File, None, None)),
    ("empty", &[("mode", "0120777")], b"", (FileKind::File, Some(0o777), None)),
    ("link of s3fs", &[("mode", "41471"), ("mtime", "5")], b"target", (FileKind::Symlink, Some(0o777), Some((5, 0)))),
    ("link.rclonelink", &[("mtime", "6.25")], b"target", (FileKind::Symlink, None, Some((6, 250_000_000)))),
    ("far future", &[("mtime", "99999999999.5")], b"y", (FileKind::File, None, Some((99_999_999_999, 500_000_000)))),
    ("no time", &[("mtime", "soon")], b"z", (FileKind::File, None, None)),
];

fn name_of(key: &str) -> &str {
    key.strip_suffix(".rclonelink").unwrap_or(key)
}

impl Setting {
    fn new(options: TreeOptions) -> Self {
        let store = MemoryStore::with_buckets(&["b"]);
        let asked = Arc::new(FaultStore::new(Arc::clone(&store) as Arc<dyn ObjectStore>));
        let source = StoreSource::over(&asked);
        let files = Self::files(&source, options);
        Self { store, asked, source, files }
    }

    fn files(source: &Arc<StoreSource>, options: TreeOptions) -> Arc<FileSystem> {
        let tree = Tree::new(Arc::clone(source) as Arc<dyn Source>, options);
        let reader = Reader::new(Arc::clone(source) as Arc<dyn Source>, Pool::new(SMALLEST_POOL), None);
        FileSystem::new(tree, reader, Freshness::Ttl)
    }

    async fn put(&self, key: &str, metadata: &[(&str, &str)], bytes: &'static [u8]) {
        let metadata = metadata.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let attributes = seqferry_store::Attributes { metadata, ..seqferry_store::Attributes::default() };
        self.store.put("b", key, Bytes::from_static(bytes), &attributes).await.unwrap();
    }

    /// Files that say nothing, with names in their order.
    async fn many(&self, count: usize) -> Vec<String> {
        let names: Vec<String> = (0..count).map(|number| format!("{number:05}")).collect();
        for name in &names {
            self.put(&format!("d/{name}"), &[("mode", "0100640")], b"small").await;
        }
        names
    }

    fn heads(&self) -> u64 {
        self.source.counters.heads.load(Ordering::SeqCst)
    }

    async fn expected(&self, (key, _, _, shown): &Case) -> (FileKind, Option<u16>, SystemTime) {
        let head = self.store.head(ObjectRef::new("b", key), None).await.unwrap();
        let stated = shown.2.and_then(|(seconds, nanoseconds)| exact_time(seconds, nanoseconds));
        (shown.0, shown.1, stated.unwrap_or_else(|| upload_time(head.last_modified)))
    }
}

fn shown(found: &Attributes) -> (FileKind, Option<u16>, SystemTime) {
    assert!(found.is_known);
    (found.kind, found.permissions, found.modified)
}

async fn lookup(files: &FileSystem, parent: u64, name: &str) -> Attributes {
    files.lookup(parent, name).await.unwrap().attributes.unwrap()
}

#[tokio::test]
async fn a_change_of_metadata_alone_shows_when_the_listing_is_read_again() {
    let setting = Setting::new(TreeOptions::bucket("b"));
    setting.put("f", &[("mode", "0100644"), ("mtime", "1000000000")], b"same").await;
    setting.store.backdate("b", "f", 60.0);
    assert_eq!(lookup(&setting.files, ROOT, "f").await.permissions, Some(0o644));
    let before = setting.heads();

    setting.put("f", &[("mode", "0100600"), ("mtime", "1000000001")], b"same").await;
    setting.files.tree().list_again(ROOT).await.unwrap();
    let found = lookup(&setting.files, ROOT, "f").await;

    let time = exact_time(1_000_000_001, 0).unwrap();
    assert_eq!(shown(&found), (FileKind::File, Some(0o600), time));
    for _ in 0..3 {
        assert_eq!(lookup(&setting.files, ROOT, "f").await.permissions, Some(0o600));
    }
    assert_eq!(setting.heads() - before, 1, "a version is asked about once");
}

#[tokio::test]
async fn a_version_shows_what_it_states_from_the_first_lookup_to_the_last() {
    for lifetime in [None, Some(Duration::from_mins(1)), Some(Duration::ZERO)] {
        let options = TreeOptions { lifetime, ..TreeOptions::bucket("b") };
        let setting = Setting::new(options.clone());
        for (key, metadata, bytes, _) in CASES {
            setting.put(key, metadata, bytes).await;
        }
        let folder = std::env::temp_dir().join(format!("seqferry-facts-{:016x}", fastrand::u64(..)));
        std::fs::create_dir(&folder).unwrap();
        let table = folder.join("table");
        let files = &setting.files;
        for case in CASES {
            let (name, expected) = (name_of(case.0), setting.expected(case).await);
            let first = lookup(files, ROOT, name).await;
            assert_eq!(shown(&first), expected, "{name}, {lifetime:?}");
            if first.kind == FileKind::Symlink {
                files.read_link(first.inode).await.unwrap();
            } else {
                let handle = files.open(first.inode).await.unwrap();
                files.read(handle, 0, 100).await.unwrap();
                assert_eq!(shown(&files.attributes(first.inode).unwrap()), expected, "{name} open");
                files.close(handle);
            }
            let again = lookup(files, ROOT, name).await;
            assert_eq!((again.inode, shown(&again)), (first.inode, expected), "{name} read");
            assert_eq!(shown(&files.learned_attributes(first.inode).await.unwrap()), expected, "{name} by its inode");
        }
        if lifetime != Some(Duration::ZERO) {
            files.tree().list_again(ROOT).await.unwrap();
            assert_eq!(setting.heads(), CASES.len() as u64, "one request for each version");
        }
        files.tree().save(&table, 1000).unwrap();
        let later = Setting::files(&setting.source, options);
        later.tree().restore(&table).unwrap();
        let heads = setting.heads();
        for files in [files, &later] {
            for case in CASES {
                let entries = files.read_directory(ROOT, 0, 100).await.unwrap();
                let entry = entries.into_iter().find(|entry| entry.name == name_of(case.0)).unwrap();
                assert_eq!(shown(&entry.attributes), setting.expected(case).await, "{} listed", entry.name);
                if lifetime != Some(Duration::ZERO) {
                    let found = lookup(files, ROOT, name_of(case.0)).await;
                    assert_eq!(shown(&found), setting.expected(case).await, "{}", entry.name);
                }
            }
        }
        if lifetime != Some(Duration::ZERO) {
            assert_eq!(setting.heads(), heads, "facts are on the disk");
        }
        std::fs::remove_dir_all(folder).unwrap();
    }
}

#[tokio::test]
async fn names_and_kinds_cost_no_request_where_an_object_cannot_be_a_link() {
    let setting = Setting::new(TreeOptions::bucket("b"));
    setting.put("large", &[("mode", "0120777")], &[b'x'; 4096]).await;
    setting.put("empty", &[], b"").await;
    setting.put("folder/a", &[], b"a").await;
    setting.put("l.rclonelink", &[], b"target").await;
    let kinds = async || {
        let entries = setting.files.read_directory(ROOT, 2, 100).await.unwrap();
        assert!(entries.iter().all(|entry| entry.attributes.has_kind()));
        entries.into_iter().map(|entry| (entry.name, entry.attributes.kind)).collect::<Vec<_>>()
    };
    let expected = [
        ("empty".to_owned(), FileKind::File),
        ("folder".to_owned(), FileKind::Directory),
        ("l".to_owned(), FileKind::Symlink),
        ("large".to_owned(), FileKind::File),
    ];
    assert_eq!(kinds().await, expected);
    assert_eq!(setting.heads(), 0);

    setting.put("possible", &[("mode", "0120777")], &[b'x'; 4095]).await;
    setting.files.tree().list_again(ROOT).await.unwrap();
    assert_eq!(kinds().await.last(), Some(&("possible".to_owned(), FileKind::Symlink)));
    assert_eq!(setting.heads(), 1);
}

#[tokio::test]
async fn all_who_ask_for_the_facts_of_a_version_share_one_request() {
    let setting = Setting::new(TreeOptions::bucket("b"));
    setting.put("a", &[("mode", "0100755")], b"x").await;
    let asked = (0..50).map(|_| {
        let files = Arc::clone(&setting.files);
        tokio::spawn(async move { lookup(&files, ROOT, "a").await.permissions })
    });
    for answer in asked.collect::<Vec<_>>() {
        assert_eq!(answer.await.unwrap(), Some(0o755));
    }
    assert_eq!(setting.heads(), 1);
}

#[tokio::test]
async fn an_object_that_was_replaced_since_it_was_listed_shows_as_it_is_now() {
    let setting = Setting::new(TreeOptions::bucket("b"));
    for key in ["replaced", "removed", "folder now", "link now"] {
        setting.put(key, &[("mode", "0100600")], b"before").await;
    }
    setting.files.tree().list_again(ROOT).await.unwrap();
    setting.put("replaced", &[("mode", "0100755")], b"and after").await;
    setting.put("link now", &[("mode", "0120777")], b"target").await;
    for key in ["removed", "folder now"] {
        setting.store.delete(ObjectRef::new("b", key)).await.unwrap();
    }
    setting.put("folder now/a", &[], b"x").await;

    let found = lookup(&setting.files, ROOT, "replaced").await;
    assert_eq!((found.size, found.permissions), (9, Some(0o755)));
    assert_eq!(lookup(&setting.files, ROOT, "link now").await.kind, FileKind::Symlink);
    assert_eq!(lookup(&setting.files, ROOT, "folder now").await.kind, FileKind::Directory);
    assert_eq!(setting.files.lookup(ROOT, "removed").await.unwrap().attributes, None);
}

#[tokio::test]
async fn facts_that_cannot_be_had_are_an_error_and_denied_ones_are_defaults() {
    let setting = Setting::new(TreeOptions::bucket("b"));
    setting.put("a", &[("mode", "0100755")], b"x").await;
    setting.put("denied", &[("mode", "0100755")], b"x").await;
    setting.asked.rule(Rule::always("HeadObject", Fault::Fail("AccessDenied", 403)).key("denied"));
    setting.asked.rule(Rule::once("HeadObject", Fault::Fail("SlowDown", 503)).key("a"));

    assert!(matches!(setting.files.lookup(ROOT, "a").await, Err(VfsError::Failed(_))));
    assert_eq!(lookup(&setting.files, ROOT, "a").await.permissions, Some(0o755), "it is asked for again");
    for _ in 0..3 {
        let found = lookup(&setting.files, ROOT, "denied").await;
        assert_eq!((found.permissions, found.is_known), (None, true));
    }
    assert_eq!(setting.heads(), 3, "a denied object is asked for once");
}

#[tokio::test]
async fn a_frozen_view_keeps_the_version_that_was_listed() {
    let setting = Setting::new(TreeOptions { is_frozen: true, lifetime: None, ..TreeOptions::bucket("b") });
    setting.put("a", &[], b"before").await;
    setting.files.tree().list_again(ROOT).await.unwrap();
    setting.put("a", &[("mode", "0100755")], b"and after").await;
    let found = lookup(&setting.files, ROOT, "a").await;
    assert_eq!((found.size, found.permissions), (6, None));
}

/// Latency of each request. The clock is that of the runtime: nothing is waited for.
fn distant(setting: &Setting) {
    for operation in ["HeadObject", "ListObjectsV2"] {
        setting.asked.rule(Rule::always(operation, Fault::DelayReply(Duration::from_millis(20))));
    }
}

#[tokio::test(start_paused = true)]
async fn files_that_are_asked_for_in_order_are_learned_ahead() {
    let setting = Setting::new(TreeOptions::bucket("b"));
    let names = setting.many(1000).await;
    let directory = lookup(&setting.files, ROOT, "d").await.inode;
    distant(&setting);
    let began = tokio::time::Instant::now();
    setting.files.read_directory(directory, 0, usize::MAX).await.unwrap();
    for name in &names {
        assert_eq!(lookup(&setting.files, directory, name).await.permissions, Some(0o640));
    }
    assert!(began.elapsed() < Duration::from_millis(600), "{:?}", began.elapsed());
    assert_eq!(setting.heads(), 1000, "each once");
}

#[tokio::test(start_paused = true)]
async fn a_page_of_names_is_learned_side_by_side_and_the_next_one_ahead() {
    let setting = Setting::new(TreeOptions::bucket("b"));
    setting.many(10_000).await;
    let directory = lookup(&setting.files, ROOT, "d").await.inode;
    distant(&setting);
    let began = tokio::time::Instant::now();
    let (mut after, mut seen): (Option<String>, usize) = (None, 0);
    loop {
        let place = (after.as_deref(), 600);
        let tree = setting.files.tree();
        let page = tree.read_known_names(directory, place, false, Duration::from_secs(5)).await.unwrap();
        assert!(page.entries.iter().all(|(_, found)| found.permissions == Some(0o640)));
        seen += page.entries.len();
        after = page.entries.into_iter().last().map(|(name, _)| name);
        if page.is_end {
            break;
        }
    }
    assert_eq!((seen, setting.heads()), (10_000, 10_000));
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn names_come_without_facts_that_do_not_come_in_time() {
    let setting = Setting::new(TreeOptions::bucket("b"));
    setting.many(10).await;
    setting.asked.rule(Rule::always("HeadObject", Fault::Delay(Duration::from_hours(1))));
    let directory = lookup(&setting.files, ROOT, "d").await.inode;
    let page = setting.files.tree().read_known_names(directory, (None, 100), false, Duration::from_secs(5)).await;
    let page = page.unwrap();
    assert_eq!(page.entries.len(), 10);
    assert!(page.entries.iter().all(|(_, found)| !found.is_known));
}

#[test]
fn a_stored_time_passes_through_no_float() {
    for text in ["1600000000.123456789", "1764300000.999999999", "0.000000001"] {
        let metadata = [("mtime".to_owned(), text.to_owned())].into();
        let (seconds, nanoseconds) = StoredMetadata::of(&metadata).modified.unwrap();
        let time = exact_time(seconds, nanoseconds).unwrap();
        let again = time.duration_since(SystemTime::UNIX_EPOCH).unwrap();
        let whole = i64::try_from(again.as_secs()).unwrap();
        assert_eq!(seqferry_store::format_mtime(whole, again.subsec_nanos()), text);
    }
}
