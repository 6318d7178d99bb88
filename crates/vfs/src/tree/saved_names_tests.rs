//! Names that outlive a mount, links that reading finds, and the walk that finds hidden keys.

use std::collections::BTreeMap;
use std::path::PathBuf;

use bytes::Bytes;
use seqferry_store::ObjectRef;
use seqferry_store::prelude::*;
use seqferry_store_testing::{MemoryStore, ObjectWriteExt as _};

use super::*;
use crate::filesystem::{FileSystem, Freshness};
use crate::pool::Pool;
use crate::reader::Reader;
use crate::testing::StoreSource;

/// A file that goes with the test.
struct Table(PathBuf);

impl Table {
    fn new() -> Self {
        let folder = std::env::temp_dir().join(format!("seqferry-names-{:016x}", fastrand::u64(..)));
        std::fs::create_dir(&folder).unwrap();
        Self(folder.join("table.names"))
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(self.0.parent().unwrap());
    }
}

const KEYS: &[&str] = &["a", "d/b", "d/e/c", "d//x", "é/\u{1f9ec}", "f", "f/g", "link.rclonelink", "../h"];

async fn filled() -> (Arc<MemoryStore>, Arc<StoreSource>) {
    let store = MemoryStore::with_buckets(&["b"]);
    let source = StoreSource::over(&store);
    for key in KEYS {
        store.put("b", key, Bytes::from((*key).to_owned()), &seqferry_store::Attributes::default()).await.unwrap();
    }
    (store, source)
}

fn tree_of(source: &Arc<StoreSource>, lifetime: Option<Duration>) -> Arc<Tree> {
    let options = TreeOptions { lifetime, ..TreeOptions::bucket("b") };
    Tree::new(Arc::clone(source) as Arc<dyn Source>, options)
}

/// Inode, kind and size by path.
type PathList = BTreeMap<String, (u64, FileKind, u64)>;

/// Every path with its attributes.
async fn everything(tree: &Arc<Tree>) -> PathList {
    let (mut found, mut todo) = (BTreeMap::new(), vec![(String::new(), ROOT)]);
    while let Some((path, inode)) = todo.pop() {
        for entry in tree.read_directory(inode, 0, usize::MAX).await.unwrap().into_iter().skip(2) {
            let path = format!("{path}/{}", entry.name);
            let Attributes { inode, kind, size, .. } = entry.attributes;
            found.insert(path.clone(), (inode, kind, size));
            if kind == FileKind::Directory {
                todo.push((path, inode));
            }
        }
    }
    found
}

/// Save a tree of so many directories, and have another one know all of it without a request. Returns what it knows.
async fn known_again(source: &Arc<StoreSource>, table: &Table, directories: u64) -> PathList {
    let before = tree_of(source, None);
    let expected = everything(&before).await;
    before.save(&table.0, 1000).unwrap();
    let requests = source.counters.requests();

    let after = tree_of(source, None);
    let report = after.restore(&table.0).unwrap();

    assert_eq!((report.is_damaged, report.directories), (false, directories));
    assert_eq!((everything(&after).await, after.hidden()), (expected.clone(), before.hidden()));
    assert_eq!(usize::try_from(report.names), Ok(after.entries()));
    assert_eq!(source.counters.requests(), requests);
    expected
}

#[tokio::test]
async fn names_are_known_again_without_a_request() {
    let (_, source) = filled().await;
    known_again(&source, &Table::new(), 5).await;
}

#[tokio::test]
async fn a_large_directory_is_known_again_as_a_whole_or_not_at_all() {
    let store = MemoryStore::with_buckets(&["b"]);
    for key in (0..super::saved_names::NAMES + 1500).map(|at| format!("d/{at:06}")).chain(["d//x".to_owned()]) {
        store.put("b", &key, Bytes::new(), &seqferry_store::Attributes::default()).await.unwrap();
    }
    let source = StoreSource::over(&store);
    let table = Table::new();
    let expected = known_again(&source, &table, 2).await;

    // Without its last part.
    let mut bytes = std::fs::read(&table.0).unwrap();
    bytes.truncate(bytes.len() - 20_000);
    std::fs::write(&table.0, &bytes).unwrap();
    let after = tree_of(&source, None);
    let report = after.restore(&table.0).unwrap();
    assert!(report.is_damaged && report.directories == 1, "{report:?}");
    assert_eq!(everything(&after).await, expected);
}

#[tokio::test]
async fn names_are_believed_for_what_is_left_of_their_lifetime() {
    let (_, source) = filled().await;
    let table = Table::new();
    let before = tree_of(&source, Some(Duration::from_mins(1)));
    let expected = everything(&before).await;
    before.save(&table.0, 1000).unwrap();

    assert_eq!(tree_of(&source, Some(Duration::ZERO)).restore(&table.0).unwrap().directories, 0);
    let short = tree_of(&source, Some(Duration::from_nanos(1)));
    assert_eq!(short.restore(&table.0).unwrap().directories, 0);
    let after = tree_of(&source, Some(Duration::from_mins(1)));
    assert_eq!(after.restore(&table.0).unwrap().directories, 5);
    let requests = source.counters.requests();
    assert_eq!(everything(&after).await, expected);
    assert_eq!(source.counters.requests(), requests);
    assert!(after.attributes(expected["/a"].0).unwrap().valid < Duration::from_mins(1));
}

#[tokio::test]
async fn a_damaged_table_is_never_believed() {
    let (_, source) = filled().await;
    let table = Table::new();
    let before = tree_of(&source, None);
    let expected = everything(&before).await;
    before.save(&table.0, 1000).unwrap();
    let sound = std::fs::read(&table.0).unwrap();
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..200 {
        let mut bytes = sound.clone();
        if random.bool() {
            bytes.truncate(random.usize(..bytes.len()));
        } else {
            bytes[random.usize(..sound.len())] ^= 1 << random.u8(..8);
        }
        std::fs::write(&table.0, &bytes).unwrap();
        let after = tree_of(&source, None);
        assert!(after.restore(&table.0).unwrap().is_damaged, "seed {seed}");
        assert_eq!(everything(&after).await, expected, "seed {seed}");
    }
    std::fs::write(&table.0, &sound).unwrap();
    let other = Tree::new(source as Arc<dyn Source>, TreeOptions { prefix: "d/".into(), ..TreeOptions::bucket("b") });
    assert_eq!(other.restore(&table.0).unwrap(), RestoreReport::default(), "it is about another prefix");
    assert_eq!(other.restore(&table.0.with_extension("absent")).unwrap(), RestoreReport::default());
}

#[tokio::test]
async fn a_link_of_s3fs_that_only_its_listing_tells_of_is_a_link_before_it_is_read() {
    let store = MemoryStore::with_buckets(&["b"]);
    let source = StoreSource::over(&store);
    let link = seqferry_store::Attributes {
        metadata: [("mode".to_owned(), "41471".to_owned())].into(),
        ..seqferry_store::Attributes::default()
    };
    store.put("b", "d/link", Bytes::from_static(b"../target"), &link).await.unwrap();
    store.put("b", "d/file", Bytes::from_static(b"../target"), &seqferry_store::Attributes::default()).await.unwrap();
    let tree = tree_of(&source, Some(Duration::from_mins(1)));
    let reader = Reader::new(Arc::clone(&source) as Arc<dyn Source>, Pool::new(0), None);
    let files = FileSystem::new(Arc::clone(&tree), reader, Freshness::Ttl);

    let listed = everything(&tree).await;
    assert_eq!(listed["/d/link"].1, FileKind::File);
    assert_eq!(source.counters.requests().1, 0, "a listing sends no HEAD for its files");
    // Opened by an inode that was never shown: its name leads to a link from then on.
    assert!(matches!(files.open(listed["/d/link"].0).await, Err(VfsError::Stale)));
    files.open(listed["/d/file"].0).await.unwrap();

    let directory = listed["/d"].0;
    let found = files.lookup(directory, "link").await.unwrap().attributes.unwrap();
    assert_eq!(found.kind, FileKind::Symlink);
    assert_ne!(found.inode, listed["/d/link"].0);
    assert_eq!(files.read_link(found.inode).await.unwrap(), "../target");
    assert!(matches!(tree.attributes(listed["/d/link"].0), Err(VfsError::Stale)));

    // Also when it is listed again, here or in a later mount.
    let table = Table::new();
    tree.save(&table.0, 1000).unwrap();
    let later = tree_of(&source, Some(Duration::from_mins(1)));
    later.restore(&table.0).unwrap();
    for tree in [&tree, &later] {
        let inode = tree.lookup(ROOT, "d").await.unwrap().attributes.unwrap().inode;
        assert_eq!(everything(tree).await["/d/link"].1, FileKind::Symlink);
        let place = tree.directory(inode).unwrap();
        tree.write().directories[place as usize].listed = None;
        assert_eq!(everything(tree).await["/d/link"], (found.inode, FileKind::Symlink, 9));
    }
    store.delete(ObjectRef::new("b", "d/link")).await.unwrap();
    store.put("b", "d/link", Bytes::from_static(b"a file now"), &seqferry_store::Attributes::default()).await.unwrap();
    let place = tree.directory(directory).unwrap();
    tree.write().directories[place as usize].listed = None;
    assert_eq!(everything(&tree).await["/d/link"].1, FileKind::File);
}

#[tokio::test]
async fn a_walk_counts_everything_and_names_what_is_hidden() {
    let (_, source) = filled().await;

    let report = tree_of(&source, None).audit(2).await.unwrap();

    assert_eq!((report.directories, report.files, report.links, report.hidden), (5, 5, 1, 3));
    let named: Vec<&str> = report.named.iter().map(|hidden| hidden.key.as_str()).collect();
    assert_eq!(named, ["../", "f"]);
}
