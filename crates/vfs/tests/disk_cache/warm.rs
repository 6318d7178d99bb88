//! Reading a prefix into the cache.

use std::sync::Arc;

use bytes::Bytes;
use seqferry_store::Attributes;
use seqferry_store_testing::{MemoryStore, ObjectWriteExt as _};
use seqferry_testkit::data;
use seqferry_vfs::disk_cache::{DiskCache, WarmProgress, WarmReport, WarmRequest, warm};
use seqferry_vfs::testing::StoreSource;
use seqferry_vfs::{ObjectVersion, Source, VersionPin};

use crate::support::{Scratch, limits};

async fn run(cache: &Arc<DiskCache>, source: &Arc<StoreSource>, prefix: &str) -> WarmReport {
    let request = WarmRequest { bucket: "b".into(), prefix: prefix.into(), ranges: 4 };
    let source = Arc::clone(source) as Arc<dyn Source>;
    warm(Arc::clone(cache), source, &request, Arc::new(WarmProgress::default())).await.unwrap()
}

async fn put(store: &MemoryStore, key: &str, size: usize) -> (ObjectVersion, Bytes) {
    let bytes = Bytes::from(data::bytes(size as u64, size));
    let written = store.put("b", key, bytes.clone(), &Attributes::default()).await.unwrap();
    let (endpoint, bucket, size) = ("memory".into(), "b".into(), size as u64);
    (ObjectVersion { endpoint, bucket, key: key.into(), pin: VersionPin::Etag(written.etag.into()), size }, bytes)
}

fn cached(cache: &DiskCache, object: &ObjectVersion) -> Option<Vec<u8>> {
    let blocks: Option<Vec<Bytes>> = cache.read(object, 0, u64::MAX).into_iter().collect();
    blocks.map(|blocks| blocks.concat())
}

#[tokio::test]
async fn everything_below_a_prefix_is_fetched_once() {
    let scratch = Scratch::new();
    let cache = Arc::new(scratch.open(limits(1 << 30)));
    let store = MemoryStore::with_buckets(&["b"]);
    let source = StoreSource::over(&store);
    let mut objects = Vec::new();
    for (key, size) in [("ref/a", 20_000_000), ("ref/b/c", 131_072), ("ref/d", 1), ("ref/empty", 0)] {
        objects.push(put(&store, key, size).await);
    }
    let (other, _) = put(&store, "other", 1000).await;
    let total: u64 = objects.iter().map(|(object, _)| object.size).sum();

    let first = run(&cache, &source, "ref/").await;
    assert_eq!(first, WarmReport { objects: 4, bytes: total, fetched: total, ..WarmReport::default() });
    for (object, bytes) in &objects {
        assert!(cached(&cache, object).unwrap() == *bytes, "{}", object.key);
    }
    assert_eq!(cached(&cache, &other), None);

    let gets = source.counters.requests().2;
    let second = run(&cache, &source, "ref/").await;
    assert_eq!(second, WarmReport { objects: 4, bytes: total, present: total, ..WarmReport::default() });
    assert_eq!(source.counters.requests().2, gets);

    // A new version of one of them.
    let (changed, bytes) = put(&store, "ref/d", 700).await;
    assert_eq!(run(&cache, &source, "ref/").await.fetched, 700);
    assert!(cached(&cache, &changed).unwrap() == bytes);
}

#[tokio::test]
async fn a_cache_without_room_ends_it_with_a_report() {
    let scratch = Scratch::new();
    let cache = Arc::new(scratch.open(limits(8 << 20)));
    let prefix =
        seqferry_vfs::disk_cache::Prefix { endpoint: "memory".into(), bucket: "b".into(), prefix: String::new() };
    cache.pin(prefix).unwrap();
    let store = MemoryStore::with_buckets(&["b"]);
    let source = StoreSource::over(&store);
    put(&store, "a", 40_000_000).await;

    let report = run(&cache, &source, "").await;

    assert!(report.no_room && report.failed == 1, "{report:?}");
    assert!(report.fetched > 4 << 20 && report.fetched < 8 << 20, "{report:?}");
    assert!(report.failures[0].1.contains("no room"), "{report:?}");
}
