//! Tests of the tree.

use bytes::Bytes;
use seqferry_store::ObjectRef;
use seqferry_store::prelude::*;
use seqferry_store_testing::{MemoryStore, ObjectWriteExt as _};

use super::*;
use crate::testing::StoreSource;

async fn put(store: &MemoryStore, keys: &[&str]) {
    for key in keys {
        let body = if key.ends_with('/') { Bytes::new() } else { Bytes::from((*key).to_owned()) };
        store.put("b", key, body, &seqferry_store::Attributes::default()).await.unwrap();
    }
}

async fn tree(keys: &[&str], options: TreeOptions) -> (Arc<MemoryStore>, Arc<StoreSource>, Arc<Tree>) {
    let store = MemoryStore::with_buckets(&["b"]);
    let source = StoreSource::over(&store);
    put(&store, keys).await;
    let tree = Tree::new(Arc::clone(&source) as Arc<dyn Source>, options);
    (store, source, tree)
}

async fn inode(tree: &Arc<Tree>, path: &str) -> Option<u64> {
    let mut inode = ROOT;
    for name in path.split('/') {
        inode = tree.lookup(inode, name).await.unwrap().attributes?.inode;
    }
    Some(inode)
}

async fn names(tree: &Arc<Tree>, inode: u64) -> Vec<String> {
    let entries = tree.read_directory(inode, 0, usize::MAX).await.unwrap();
    entries.into_iter().skip(2).map(|entry| entry.name).collect()
}

#[tokio::test(start_paused = true)]
async fn one_listing_answers_all_hits_and_misses_of_a_directory() {
    let (_, source, tree) = tree(&["d/a.bam", "d/a.bam.bai", "d/e/f"], TreeOptions::bucket("b")).await;

    for (path, found) in [("d/a.bam", true), ("d/a.csi", false), ("d/a.bam.bai", true), ("d/e", true), ("x", false)] {
        assert_eq!(inode(&tree, path).await.is_some(), found, "{path}");
    }

    assert_eq!(source.counters.requests(), (2, 0, 0), "one for the root, one for d");
    assert_eq!(names(&tree, inode(&tree, "d").await.unwrap()).await, ["a.bam", "a.bam.bai", "e"]);
    assert_eq!(source.counters.requests(), (2, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_listed_directory_has_the_time_of_its_newest_object() {
    let (_, _, tree) = tree(&["d/a", "d/b", "d/e/f"], TreeOptions::bucket("b")).await;
    let directory = inode(&tree, "d").await.unwrap();
    assert_eq!(tree.attributes(directory).unwrap().modified, tree.since, "not listed");

    let entries = tree.read_directory(directory, 0, usize::MAX).await.unwrap();

    let files = entries.iter().filter(|entry| entry.attributes.kind == FileKind::File);
    let newest = files.map(|entry| entry.attributes.modified).max();
    assert_eq!(newest, Some(tree.attributes(directory).unwrap().modified));
}

#[tokio::test(start_paused = true)]
async fn a_listed_directory_that_holds_its_marker_alone_has_the_time_of_the_marker() {
    for keys in [&["d/"][..], &["d/", "d/e/f"]] {
        let (_, source, tree) = tree(keys, TreeOptions::bucket("b")).await;
        let directory = inode(&tree, "d").await.unwrap();
        names(&tree, directory).await;

        let marker = source.head(ObjectRef::new("b", "d/")).await.unwrap().last_modified;
        assert!(marker > 0.0);
        assert_eq!(tree.attributes(directory).unwrap().modified, upload_time(marker), "{keys:?}");
        assert_eq!(tree.hidden().0, 0, "{keys:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn lookups_at_the_same_time_share_one_listing() {
    let (_, source, tree) = tree(&["a", "b"], TreeOptions::bucket("b")).await;

    let (a, b, c) = tokio::join!(inode(&tree, "a"), inode(&tree, "b"), inode(&tree, "c"));

    assert!(a.is_some() && b.is_some() && c.is_none());
    assert_eq!(source.counters.requests(), (1, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_believed_for_its_lifetime_and_no_longer() {
    let (store, source, tree) = tree(&["a"], TreeOptions::bucket("b")).await;
    assert_eq!(inode(&tree, "b").await, None);
    put(&store, &["b"]).await;

    tokio::time::advance(Duration::from_secs(29)).await;
    assert_eq!(inode(&tree, "b").await, None);
    tokio::time::advance(Duration::from_secs(32)).await;
    assert!(inode(&tree, "b").await.is_some());

    assert_eq!(source.counters.requests(), (2, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_directory_in_use_is_listed_again_before_its_lifetime_ends() {
    let (_, source, tree) = tree(&["a"], TreeOptions::bucket("b")).await;
    inode(&tree, "a").await;
    tokio::time::advance(Duration::from_secs(40)).await;
    inode(&tree, "a").await;
    tokio::time::sleep(Duration::from_millis(1)).await;
    tokio::time::advance(Duration::from_secs(25)).await;
    assert_eq!(source.counters.requests(), (2, 0, 0));

    inode(&tree, "a").await;
    assert_eq!(source.counters.requests(), (2, 0, 0), "it was listed 25 s ago");
}

#[tokio::test(start_paused = true)]
async fn an_indefinite_lifetime_asks_once_and_none_asks_each_time() {
    let forever = TreeOptions { lifetime: None, ..TreeOptions::bucket("b") };
    let (_, source, tree) = tree(&["a"], forever).await;
    for _ in 0..3 {
        let found = tree.lookup(ROOT, "a").await.unwrap();
        assert_eq!(found.valid, NEVER);
        tokio::time::advance(Duration::from_secs(1 << 20)).await;
    }
    assert_eq!(source.counters.requests(), (1, 0, 0));

    let never = TreeOptions { lifetime: Some(Duration::ZERO), ..TreeOptions::bucket("b") };
    let tree = Tree::new(Arc::clone(&source) as Arc<dyn Source>, never);
    for _ in 0..3 {
        assert!(inode(&tree, "a").await.is_some());
    }
    assert_eq!(source.counters.requests(), (4, 3, 0));
    for _ in 0..2 {
        assert_eq!(names(&tree, ROOT).await, ["a"]);
        tokio::time::advance(Duration::from_millis(1)).await;
    }
    assert_eq!(source.counters.requests(), (6, 3, 0));
}

#[tokio::test(start_paused = true)]
async fn one_lookup_does_not_list_a_large_directory() {
    let store = MemoryStore::with_buckets(&["b"]);
    let source = StoreSource::over(&store);
    let keys: Vec<String> = (0..2500).map(|number| format!("d/{number:04}")).collect();
    put(&store, &keys.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let tree = Tree::new(Arc::clone(&source) as Arc<dyn Source>, TreeOptions::bucket("b"));

    assert!(inode(&tree, "d/2400").await.is_some());
    assert_eq!(inode(&tree, "d/x").await, None);
    // The root, the first page of d, then a HEAD and a listing below for each name. One that is absent may be a link.
    assert_eq!(source.counters.requests(), (4, 3, 0));
    inode(&tree, "d/x").await;
    assert_eq!(source.counters.requests(), (4, 3, 0), "the miss is remembered");

    let d = inode(&tree, "d").await.unwrap();
    assert_eq!(names(&tree, d).await.len(), 2500);
    assert_eq!(source.counters.requests(), (7, 3, 0));
    assert!(inode(&tree, "d/0001").await.is_some());
    assert_eq!(source.counters.requests(), (7, 3, 0));
}

#[tokio::test(start_paused = true)]
async fn a_replaced_object_is_another_inode_and_an_unchanged_one_is_not() {
    let (store, source, tree) = tree(&["a", "b"], TreeOptions::bucket("b")).await;
    let (a, b) = (inode(&tree, "a").await.unwrap(), inode(&tree, "b").await.unwrap());
    let old = tree.version(a).unwrap();
    store.put("b", "a", Bytes::from_static(b"other"), &seqferry_store::Attributes::default()).await.unwrap();

    let found = tree.replaced(a).await.unwrap().attributes.unwrap();

    assert_ne!(found.inode, a);
    assert_eq!((found.size, inode(&tree, "a").await), (5, Some(found.inode)));
    assert_ne!(tree.version(found.inode).unwrap().pin, old.pin);
    let listed = tree.read_directory(ROOT, 0, 100).await.unwrap();
    assert_eq!(listed[2].attributes.inode, found.inode);
    assert!(matches!(tree.attributes(a), Err(VfsError::Stale)), "the old inode is stale");
    tokio::time::advance(Duration::from_secs(61)).await;
    assert_eq!(inode(&tree, "b").await, Some(b));
    assert!(matches!(tree.attributes(a), Err(VfsError::Stale)));
    assert_eq!(inode(&tree, "a").await, Some(found.inode));

    let again = Tree::new(source as Arc<dyn Source>, TreeOptions::bucket("b"));
    assert_eq!(inode(&again, "b").await, Some(b), "inodes are the same after a remount");
}

#[tokio::test(start_paused = true)]
async fn reading_a_directory_goes_on_where_it_was_under_change() {
    let (store, _, tree) = tree(&["a", "b", "c/x", "d", "e"], TreeOptions::bucket("b")).await;
    let first = tree.read_directory(ROOT, 0, 4).await.unwrap();
    assert_eq!(first.iter().map(|entry| entry.name.as_str()).collect::<Vec<_>>(), [".", "..", "a", "b"]);
    store.delete(ObjectRef::new("b", "a")).await.unwrap();
    store.delete(ObjectRef::new("b", "d")).await.unwrap();
    put(&store, &["aa", "z"]).await;
    tokio::time::advance(Duration::from_secs(61)).await;
    inode(&tree, "aa").await;

    let rest = tree.read_directory(ROOT, first[3].cookie, 100).await.unwrap();

    assert_eq!(rest.iter().map(|entry| entry.name.as_str()).collect::<Vec<_>>(), ["c", "e", "aa", "z"]);
}

#[tokio::test(start_paused = true)]
async fn directories_used_least_recently_are_forgotten_first() {
    let options = TreeOptions { max_entries: 6, ..TreeOptions::bucket("b") };
    let (_, source, tree) = tree(&["a/1", "a/2", "c/1", "c/2", "d/1", "d/2"], options).await;
    for path in ["a/1", "c/1", "d/1"] {
        assert!(inode(&tree, path).await.is_some());
    }
    assert!(tree.entries() <= 6);
    let before = source.counters.requests().0;
    assert!(inode(&tree, "d/2").await.is_some());
    assert!(source.counters.requests().0 <= before + 1);
    assert!(inode(&tree, "a/2").await.is_some());
    uses_are_those_of_snapshots(&tree);
}

/// The order of uses holds the directories with a snapshot, each once.
fn uses_are_those_of_snapshots(tree: &Tree) {
    let state = tree.read();
    let mut listed: Vec<u32> = state.by_use.values().copied().collect();
    listed.sort_unstable();
    let places = (0_u32..).zip(&state.directories);
    let with_snapshot = places.filter(|(_, directory)| directory.snapshot.is_some()).map(|(place, _)| place);
    assert_eq!(listed, with_snapshot.collect::<Vec<_>>());
    assert!(state.by_use.iter().all(|(used, place)| state.directories[*place as usize].used == *used));
}

#[tokio::test(start_paused = true)]
async fn a_large_directory_stays_while_its_pages_are_read() {
    let keys: Vec<String> =
        ["a", "c", "d"].iter().flat_map(|name| (0..1500).map(move |at| format!("{name}/{at:04}"))).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    for (max_entries, stays) in [(2000, true), (700, false)] {
        let (_, source, tree) = tree(&keys, TreeOptions { max_entries, ..TreeOptions::bucket("b") }).await;
        let (mut inodes, mut last) = (Vec::new(), String::new());
        for name in ["a", "c"] {
            inodes.push(inode(&tree, name).await.unwrap());
            last = tree.read_names(*inodes.last().unwrap(), None, 10).await.unwrap().entries[9].0.clone();
        }
        let before = source.counters.requests().0;
        for inode in &inodes {
            let page = tree.read_names(*inode, Some(&last), 10).await.unwrap();
            assert_eq!(page.entries[0].0, "0010");
        }
        // At four times as many names as are allowed, none stays but the one that was listed last.
        assert_eq!(source.counters.requests().0 == before, stays, "{max_entries}");
        if stays {
            assert!(tree.entries() >= 3000);
            // One that was read to its end is the first to go.
            tree.read_names(inodes[1], Some(&last), 2000).await.unwrap();
            tree.read_names(inodes[0], Some(&last), 10).await.unwrap();
            let third = inode(&tree, "d").await.unwrap();
            tree.read_names(third, None, 10).await.unwrap();
            assert!(tree.entries() >= 3000);
            let before = source.counters.requests().0;
            tree.read_names(inodes[0], Some(&last), 10).await.unwrap();
            assert_eq!(source.counters.requests().0, before);
        }

        tokio::time::advance(Duration::from_secs(6)).await;
        let third = inode(&tree, "d").await.unwrap();
        tree.read_names(third, None, 10).await.unwrap();
        assert!(tree.entries() <= 1500 + 3, "{max_entries}: {}", tree.entries());
        assert_eq!(tree.read().collected, 0);
        uses_are_those_of_snapshots(&tree);
        assert_eq!(tree.read_names(inodes[0], Some(&last), 10).await.unwrap().entries[0].0, "0010", "listed again");
    }
}

#[tokio::test(start_paused = true)]
async fn files_that_follow_are_those_of_the_same_order() {
    let (_, _, tree) = tree(&["a", "b", "c/x", "d", "e", "f"], TreeOptions::bucket("b")).await;
    let mut inodes = Vec::new();
    for name in ["a", "b", "d", "e", "f"] {
        inodes.push(inode(&tree, name).await.unwrap());
    }

    let following = tree.following(inodes[1], WalkOrder::Name, 2).unwrap();
    assert_eq!(following.iter().map(|(inode, _)| *inode).collect::<Vec<_>>(), inodes[2..4]);
    let mut sorted = inodes.clone();
    sorted.sort_unstable();
    let following = tree.following(sorted[0], WalkOrder::Inode, 10).unwrap();
    assert_eq!(following.iter().map(|(inode, _)| *inode).collect::<Vec<_>>(), sorted[1..]);
    assert_eq!(tree.sibling(inodes[0], "b"), Some((inodes[1], 1)));
    assert_eq!(tree.sibling(inodes[0], "c"), None);
}

#[tokio::test]
async fn a_failed_listing_is_an_error_and_the_next_one_is_tried() {
    let store = MemoryStore::with_buckets(&[]);
    let source = StoreSource::over(&store);
    let tree = Tree::new(source as Arc<dyn Source>, TreeOptions::bucket("b"));
    assert!(matches!(tree.lookup(ROOT, "a").await, Err(VfsError::Denied(_))));
    store.create_bucket("b");
    assert_eq!(inode(&tree, "a").await, None);
}

/// Everything below the root in the order of readdir, as `find` goes through it.
async fn find(tree: &Arc<Tree>) -> Vec<String> {
    let mut found = Vec::new();
    let mut todo = vec![(String::new(), ROOT)];
    while let Some((path, inode)) = todo.pop() {
        let entries = tree.read_directory(inode, 0, usize::MAX).await.unwrap();
        let mut below = Vec::new();
        for entry in entries.into_iter().skip(2) {
            let whole = format!("{path}/{}", entry.name);
            match entry.attributes.kind {
                FileKind::Directory => below.push((whole, entry.attributes.inode)),
                _ => found.push(whole[1..].to_owned()),
            }
        }
        below.reverse();
        todo.extend(below);
    }
    found.sort();
    found
}

fn nested_keys(directories: usize, files: usize) -> Vec<String> {
    let mut keys: Vec<String> = (0..directories)
        .flat_map(|directory| {
            (0..files).map(move |file| match file % 3 {
                0 => format!("d{directory:03}/sub/{file:03}"),
                1 => format!("d{directory:03}/sub/deeper-{file}/x"),
                _ => format!("d{directory:03}/{file:03}"),
            })
        })
        .chain(["d001-".to_owned(), "d001.x".to_owned()])
        .collect();
    keys.sort();
    keys
}

#[tokio::test(start_paused = true)]
async fn a_walk_lists_flat_and_finds_the_same() {
    let keys = nested_keys(60, 50);
    let (_, source, tree) = tree(&keys.iter().map(String::as_str).collect::<Vec<_>>(), TreeOptions::bucket("b")).await;

    assert_eq!(find(&tree).await, keys);

    let (lists, heads, gets) = source.counters.requests();
    assert!(lists <= 60 && (heads, gets) == (0, 0), "{lists} listings for 1,082 directories");
}

#[tokio::test(start_paused = true)]
async fn a_long_walk_is_listed_by_ranges_of_keys_side_by_side() {
    // Files between the directories, and names that sort otherwise than the keys below them.
    let mut keys = nested_keys(200, 10);
    keys.extend((0..200).flat_map(|at| [format!("d{at:03}.txt"), format!("d{at:03}-/x"), format!("d{at:03}//hidden")]));
    let store = Arc::new(MemoryStore::new(1).with_page_size(50));
    store.create_bucket("b");
    put(&store, &keys.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let source = Arc::new(StoreSource::new(store));
    let tree = Tree::new(Arc::clone(&source) as Arc<dyn Source>, TreeOptions::bucket("b"));
    // A file has the name of a folder.
    keys.retain(|key| !key.contains("//") && key != "d001-");
    keys.sort();

    assert!(find(&tree).await == keys);

    assert_eq!(tree.hidden().0, 201);
    let pages = (keys.len() as u64 + 200).div_ceil(50);
    let (lists, ..) = source.counters.requests();
    assert!(lists < 2 * pages + 60, "{lists} listings for {pages} pages");
    tokio::time::sleep(Duration::from_mins(1)).await;
    assert!(tree.read().flats.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_service_that_lists_out_of_order_is_not_listed_flat() {
    let keys = nested_keys(20, 30);
    let store = Arc::new(MemoryStore::new(1).with_list_order(|key| key.chars().rev().collect()).with_page_size(100));
    store.create_bucket("b");
    put(&store, &keys.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let source = Arc::new(StoreSource::new(store));
    let tree = Tree::new(source as Arc<dyn Source>, TreeOptions::bucket("b"));

    assert_eq!(find(&tree).await, keys);
}

#[tokio::test(start_paused = true)]
async fn a_flat_listing_ends_when_nobody_follows() {
    let keys = nested_keys(60, 50);
    let store = Arc::new(MemoryStore::new(1).with_page_size(20));
    store.create_bucket("b");
    put(&store, &keys.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let source = Arc::new(StoreSource::new(store));
    let tree = Tree::new(Arc::clone(&source) as Arc<dyn Source>, TreeOptions::bucket("b"));
    for path in ["d000", "d001"] {
        let inode = inode(&tree, path).await.unwrap();
        names(&tree, inode).await;
    }
    tokio::time::sleep(Duration::from_mins(1)).await;

    assert!(source.counters.requests().0 < 20, "{:?}", source.counters.requests());
    assert!(tree.read().flats.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_page_of_names_has_no_directory_whose_last_object_was_removed() {
    let keys = ["d/a", "d/b", "d/c", "d/e/1", "d/f/1", "d/g/1", "d/h"];
    let (store, _, tree) = tree(&keys, TreeOptions::bucket("b")).await;
    let directory = inode(&tree, "d").await.unwrap();
    assert_eq!(inode(&tree, "d/e/1").await.is_some(), inode(&tree, "d/f/1").await.is_some());
    for key in ["d/a", "d/b", "d/e/1", "d/f/1"] {
        store.delete(ObjectRef::new("b", key)).await.unwrap();
        tree.note_removed(key);
    }

    let mut found = Vec::new();
    let mut after: Option<String> = None;
    loop {
        let page = tree.read_names(directory, after.as_deref(), 2).await.unwrap();
        found.extend(page.entries.into_iter().map(|(name, _)| name));
        after = found.last().cloned();
        if page.is_end {
            break;
        }
    }

    assert_eq!(found, ["c", "g", "h"]);
}
