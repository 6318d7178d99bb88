//! The tree against a simple reference: random keys and changes, then names, kinds, sizes and bytes compared.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use seqferry_store::prelude::*;
use seqferry_store::{Attributes, ObjectRef};
use seqferry_store_testing::{MemoryStore, ObjectWriteExt as _};
use seqferry_vfs::testing::StoreSource;
use seqferry_vfs::{FileKind, FileSystem, Freshness, Pool, ROOT, Reader, Source, Tree, TreeOptions, VfsError};

/// Result of a walk by path: bytes of files, None for directories.
type WalkResult = BTreeMap<String, Option<Bytes>>;

/// The rules of the mount, written as a loop over all keys.
fn expected(objects: &BTreeMap<String, Bytes>) -> WalkResult {
    let is_name = |segment: &str| {
        !segment.is_empty() && segment != "." && segment != ".." && segment.len() <= 255 && !segment.contains('\0')
    };
    let mut directories = Vec::new();
    let mut files = Vec::new();
    for (key, bytes) in objects {
        let segments: Vec<&str> = key.split('/').collect();
        let named = segments.iter().take_while(|segment| is_name(segment)).count();
        for depth in 1..segments.len().min(named + 1) {
            directories.push(segments[..depth].join("/"));
        }
        if named == segments.len() {
            files.push((key.clone(), Some(bytes.clone())));
        }
    }
    let mut found: WalkResult = files.into_iter().collect();
    found.extend(directories.into_iter().map(|directory| (directory, None)));
    found
}

async fn walk(files: &Arc<FileSystem>, inodes: &mut BTreeMap<String, u64>) -> WalkResult {
    let mut found = WalkResult::new();
    let mut todo = vec![(String::new(), ROOT)];
    inodes.clear();
    while let Some((path, inode)) = todo.pop() {
        let mut cookie = 0;
        loop {
            // A few at a time, as the kernel asks.
            let entries = files.tree().read_directory(inode, cookie, 3).await.unwrap();
            let Some(last) = entries.last() else { break };
            cookie = last.cookie;
            for entry in entries.into_iter().filter(|entry| entry.name != "." && entry.name != "..") {
                let name = if path.is_empty() { entry.name.clone() } else { format!("{path}/{}", entry.name) };
                let looked_up = files.tree().lookup(inode, &entry.name).await.unwrap().attributes.unwrap();
                assert_eq!(looked_up.inode, entry.attributes.inode, "{name}");
                if entry.attributes.kind == FileKind::Directory {
                    assert!(found.insert(name.clone(), None).is_none(), "{name} twice");
                    todo.push((name, looked_up.inode));
                    continue;
                }
                let handle = files.open(looked_up.inode).await.unwrap();
                let bytes = files.read(handle, 0, 1 << 20).await.unwrap().to_bytes();
                files.close(handle);
                assert_eq!(bytes.len() as u64, looked_up.size, "{name}");
                inodes.insert(name.clone(), looked_up.inode);
                assert!(found.insert(name.clone(), Some(bytes)).is_none(), "{name} twice");
            }
        }
    }
    found
}

fn random_key(random: &mut fastrand::Rng) -> String {
    let segments = ["a", "b", "a-", "a.b", "é", "", ".", "..", "zz", " "];
    let long = "n".repeat(256);
    let depth = random.usize(1..5);
    let mut key: Vec<&str> = (0..depth).map(|_| segments[random.usize(0..segments.len())]).collect();
    if random.u8(..) == 0 {
        key.push(&long);
    }
    if random.u8(..) < 20 {
        key.push("");
    }
    let key = key.join("/");
    if key.is_empty() { "a".to_owned() } else { key }
}

#[tokio::test(start_paused = true)]
async fn the_tree_shows_what_the_bucket_holds_after_any_changes() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    for round in 0..30 {
        let store = MemoryStore::with_buckets(&["b"]);
        let source = StoreSource::over(&store);
        let tree = Tree::new(Arc::clone(&source) as Arc<dyn Source>, TreeOptions::bucket("b"));
        let reader = Reader::new(Arc::clone(&source) as Arc<dyn Source>, Pool::new(0), None);
        let files = FileSystem::new(tree, reader, Freshness::Ttl);
        let mut objects = BTreeMap::new();
        let mut inodes = BTreeMap::new();
        for step in 0..8 {
            let before = inodes.clone();
            let mut changed = Vec::new();
            for _ in 0..random.usize(1..20) {
                let known: Vec<String> = objects.keys().cloned().collect();
                let key = match random.u8(0..3) {
                    0 if !known.is_empty() => known[random.usize(0..known.len())].clone(),
                    _ => random_key(&mut random),
                };
                changed.push(key.clone());
                if random.u8(0..3) == 0 {
                    store.delete(ObjectRef::new("b", &key)).await.unwrap();
                    objects.remove(&key);
                } else {
                    let size = if key.ends_with('/') && random.bool() { 0 } else { random.usize(1..300) };
                    let bytes: Bytes = (0..size).map(|_| random.u8(..)).collect::<Vec<_>>().into();
                    store.put("b", &key, bytes.clone(), &Attributes::default()).await.unwrap();
                    objects.insert(key, bytes);
                }
            }
            tokio::time::advance(Duration::from_secs(61)).await;

            let found = walk(&files, &mut inodes).await;

            assert_eq!(found, expected(&objects), "seed {seed} round {round} step {step}");
            for (path, inode) in before.iter().filter(|(path, _)| !changed.contains(path)) {
                assert!(inodes.get(path).is_none_or(|now| now == inode), "{path} is the same object");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_file_is_one_version_from_open_to_close_under_any_changes() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let store = MemoryStore::with_buckets(&["b"]);
    let source = StoreSource::over(&store);
    let tree = Tree::new(Arc::clone(&source) as Arc<dyn Source>, TreeOptions::bucket("b"));
    let reader = Reader::new(Arc::clone(&source) as Arc<dyn Source>, Pool::new(0), None);
    let files = FileSystem::new(tree, reader, Freshness::Ttl);
    let mut versions: Vec<Bytes> = Vec::new();
    let mut handles: Vec<(u64, Option<usize>)> = Vec::new();
    for _ in 0..500 {
        if versions.is_empty() || random.u8(0..5) == 0 {
            // Each version has one byte everywhere, and its own length.
            let (byte, size) = (random.u8(..), 3 * 1024 * 1024 + versions.len());
            let bytes = Bytes::from(vec![byte; size]);
            store.put("b", "k", bytes.clone(), &Attributes::default()).await.unwrap();
            versions.push(bytes);
        }
        let found = files.tree().lookup(ROOT, "k").await.unwrap().attributes.unwrap();
        match files.open(found.inode).await {
            Ok(handle) => handles.push((handle, None)),
            Err(VfsError::Stale) => {}
            Err(other) => panic!("{other}"),
        }
        let chosen = random.usize(0..handles.len().max(1));
        if let Some((handle, version)) = handles.get_mut(chosen) {
            let offset = random.u64(0..3 * 1024 * 1024);
            match files.read(*handle, offset, 100_000).await {
                Ok(slices) => {
                    let bytes = slices.to_bytes();
                    let of = |index: &usize| {
                        let all = &versions[*index];
                        let start = usize::try_from(offset).unwrap();
                        bytes == all[start..all.len().min(start + 100_000)]
                    };
                    match version {
                        Some(version) => assert!(of(version), "seed {seed}"),
                        None => *version = Some((0..versions.len()).rev().find(of).expect("bytes of one version")),
                    }
                }
                Err(VfsError::Stale) => files.close(handles.swap_remove(chosen).0),
                Err(other) => panic!("{other}"),
            }
        }
        tokio::time::advance(Duration::from_secs(random.u64(0..40))).await;
    }
}
