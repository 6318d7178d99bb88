//! A store whose reads go through the cache: the same answers, and fewer bytes fetched.

use std::sync::Arc;

use bytes::Bytes;
use seqferry_store::prelude::*;
use seqferry_store::{Attributes, ErrorClass, PinnedObject, Range};
use seqferry_store_testing::conformance::{ServiceQuirks, conformance};
use seqferry_store_testing::fault::FaultStore;
use seqferry_store_testing::{MemoryStore, ObjectWriteExt as _, methods_not_forwarded};
use seqferry_testkit::data::{self, odd_keys, seed};
use seqferry_vfs::BLOCK_SIZE;
use seqferry_vfs::disk_cache::{CachedStore, DiskCache, SourceCache};

use crate::support::{Scratch, files, limits};

struct Setting {
    store: Arc<FaultStore>,
    cached: Arc<CachedStore>,
    cache: Arc<DiskCache>,
}

fn setting(scratch: &Scratch) -> Setting {
    let memory = MemoryStore::new(1);
    memory.create_bucket("b");
    let store = Arc::new(FaultStore::new(Arc::new(memory)));
    let cache = Arc::new(scratch.open(limits(1 << 30)));
    let inner = Arc::clone(&store) as Arc<dyn ObjectStore>;
    let cached = Arc::new(CachedStore::new(inner, Arc::clone(&cache), "memory"));
    Setting { store, cached, cache }
}

async fn read(store: &CachedStore, source: &PinnedObject, range: Option<Range>) -> Vec<u8> {
    let mut body = store.fetch(source, range).await.unwrap().body;
    let mut all = Vec::new();
    while let Some(chunk) = body.next().await {
        all.extend_from_slice(&chunk.unwrap());
    }
    all
}

async fn put(setting: &Setting, key: &str, size: usize) -> (PinnedObject, Bytes) {
    let bytes = Bytes::from(data::bytes(size as u64, size));
    let written = setting.store.put("b", key, bytes.clone(), &Attributes::default()).await.unwrap();
    let source = PinnedObject {
        bucket: "b".into(),
        key: key.into(),
        if_match: Some(written.etag),
        size: size as u64,
        ..PinnedObject::default()
    };
    (source, bytes)
}

fn part(bytes: &[u8], range: Range) -> &[u8] {
    &bytes[usize::try_from(range.first).unwrap()..=usize::try_from(range.last).unwrap()]
}

#[tokio::test]
async fn a_store_behind_a_cache_is_reached_by_every_method() {
    let scratch = Scratch::new();
    let cache = Arc::new(scratch.open(limits(1 << 30)));

    let saved_names = methods_not_forwarded(|store| CachedStore::new(store, cache, "memory")).await;

    assert!(saved_names.is_empty(), "{saved_names:?}");
}

#[tokio::test]
async fn a_store_behind_a_cache_answers_as_the_store_does() {
    let scratch = Scratch::new();
    let memory = Arc::new(MemoryStore::new(1000));
    memory.create_bucket("bucket");
    let cache = Arc::new(scratch.open(limits(1 << 30)));
    let store = CachedStore::new(memory as Arc<dyn ObjectStore>, cache, "memory");
    let keys = odd_keys(None).into_iter().map(|odd| odd.key).collect();
    let quirks = ServiceQuirks { name: "cached", minimum_part: 1000, keys, seed: seed(), ..ServiceQuirks::default() };

    conformance(&store, "bucket", &quirks).await;
}

#[tokio::test]
async fn what_was_read_is_not_fetched_again_whatever_the_ranges() {
    let scratch = Scratch::new();
    let setting = setting(&scratch);
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let (source, bytes) = put(&setting, "k", 3_000_001).await;

    for _ in 0..200 {
        let first = random.u64(0..source.size);
        let range = Range { first, last: random.u64(first..source.size) };
        assert!(read(&setting.cached, &source, Some(range)).await == part(&bytes, range), "seed {seed} {range:?}");
    }
    assert!(read(&setting.cached, &source, None).await == bytes);
    let fetched = setting.store.count("GetObject");
    assert!(fetched < 60, "{fetched} requests for 23 blocks");

    assert!(read(&setting.cached, &source, None).await == bytes);
    assert!(read(&setting.cached, &source, Some(Range { first: 5, last: 2_000_000 })).await == bytes[5..=2_000_000]);
    assert_eq!(setting.store.count("GetObject"), fetched);
}

#[tokio::test]
async fn an_answer_for_the_whole_object_has_the_facts_of_the_service() {
    let scratch = Scratch::new();
    let setting = setting(&scratch);
    let attributes = Attributes { content_type: Some("text/x".into()), ..Attributes::default() };
    let written = setting.store.put("b", "k", Bytes::from_static(b"12345"), &attributes).await.unwrap();
    let source = PinnedObject {
        bucket: "b".into(),
        key: "k".into(),
        if_match: Some(written.etag.clone()),
        size: 5,
        ..PinnedObject::default()
    };
    for _ in 0..2 {
        let fetched = setting.cached.fetch(&source, None).await.unwrap();
        assert_eq!((fetched.meta.etag, fetched.meta.size), (written.etag.clone(), 5));
        assert_eq!(fetched.meta.attributes.content_type.as_deref(), Some("text/x"));
        let mut body = fetched.body;
        assert_eq!(body.take(5, |_| ()).await.unwrap(), "12345");
    }
    assert_eq!((setting.store.count("GetObject"), setting.store.count("HeadObject")), (1, 1));
}

#[tokio::test]
async fn a_replaced_object_is_refused_and_never_mixed() {
    let scratch = Scratch::new();
    let setting = setting(&scratch);
    let (old, bytes) = put(&setting, "k", 1_000_000).await;
    let first = Range { first: 0, last: 2 * BLOCK_SIZE - 1 };
    assert!(read(&setting.cached, &old, Some(first)).await == part(&bytes, first));
    let (new, newer) = put(&setting, "k", 1_000_001).await;

    let rest = Range { first: 3 * BLOCK_SIZE, last: old.size - 1 };
    let refused = setting.cached.fetch(&old, Some(rest)).await.err().unwrap();
    assert_eq!(refused.class, ErrorClass::Precondition);
    // Its beginning is in the cache, and its end exists nowhere.
    let mut body = setting.cached.fetch(&old, Some(Range { first: 0, last: old.size - 1 })).await.unwrap().body;
    let refused = loop {
        match body.next().await.expect("an error, not an end") {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert_eq!(refused.class, ErrorClass::Precondition);
    assert!(read(&setting.cached, &new, None).await == newer);
}

#[tokio::test]
async fn a_damaged_block_is_fetched_and_forgotten_bytes_are_too() {
    let scratch = Scratch::new();
    let setting = setting(&scratch);
    let (source, bytes) = put(&setting, "k", 2_000_000).await;
    assert!(read(&setting.cached, &source, None).await == bytes);
    let data = files(&scratch.cache()).into_iter().find(|path| path.extension().is_some_and(|it| it == "data"));
    let file = std::fs::OpenOptions::new().write(true).open(data.unwrap()).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, b"damage", 5 * BLOCK_SIZE + 7).unwrap();

    let whole = Range { first: 0, last: source.size - 1 };
    assert!(read(&setting.cached, &source, Some(whole)).await == bytes);
    assert_eq!((setting.cache.stats().damaged, setting.store.count("GetObject")), (1, 2));

    setting.cached.invalidate(&source);
    assert_eq!(setting.cache.read(&crate::support::object("k", 1), 0, 1), [None]);
    assert!(read(&setting.cached, &source, Some(whole)).await == bytes);
    assert_eq!(setting.store.count("GetObject"), 3);
}

#[tokio::test]
async fn a_cache_that_fails_changes_nothing_but_the_requests() {
    let scratch = Scratch::new();
    let setting = setting(&scratch);
    let (source, bytes) = put(&setting, "k", 2_000_000).await;
    // The folders of the blocks are gone: nothing can be kept.
    std::fs::remove_dir_all(scratch.cache()).unwrap();

    for requests in 1..3 {
        assert!(read(&setting.cached, &source, None).await == bytes);
        assert_eq!(setting.store.count("GetObject"), requests);
    }
    assert!(!setting.cache.take_notes().is_empty());
}

#[tokio::test]
async fn a_source_keeps_the_notes_of_its_cache() {
    let scratch = Scratch::new();
    let setting = setting(&scratch);
    let (source, bytes) = put(&setting, "k", 2_000_000).await;
    let through = SourceCache::new(Some((Arc::clone(&setting.cache), "memory".to_owned())));
    let store = through.over(Arc::clone(&setting.store) as Arc<dyn ObjectStore>);
    std::fs::remove_dir_all(scratch.cache()).unwrap();

    assert!(store.get(&source, None).await.unwrap().take(bytes.len(), |_| ()).await.unwrap() == bytes);

    let notes = through.notes();
    assert!(!notes.is_empty());
    assert_eq!(through.notes(), notes);
    assert_eq!(SourceCache::default().notes(), Vec::<String>::new());
}
