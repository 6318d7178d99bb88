//! Bytes that one identity has read into the cache are shown to another one only if the service lets that one read it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use seqferry_store::prelude::*;
use seqferry_store::{Attributes, PinnedObject, Range};
use seqferry_store_testing::fault::{Fault, FaultStore, Rule};
use seqferry_store_testing::{MemoryStore, ObjectWriteExt as _};
use seqferry_testkit::data;
use seqferry_vfs::disk_cache::{CacheTier, CachedStore, DiskCache, TierOptions};
use seqferry_vfs::testing::StoreSource;
use seqferry_vfs::{BlockTier, ObjectVersion, Pool, Reader, Source, VersionPin};

use crate::support::{Scratch, limits};

const SIZE: usize = 3_000_001;

/// A store as one identity: requests of others are not counted, and not refused.
fn identity(store: &Arc<MemoryStore>) -> Arc<FaultStore> {
    Arc::new(FaultStore::new(Arc::clone(store) as Arc<dyn ObjectStore>))
}

async fn filled() -> (Arc<MemoryStore>, String, Bytes) {
    let store = MemoryStore::with_buckets(&["b"]);
    let bytes = Bytes::from(data::bytes(7, SIZE));
    let written = store.put("b", "k", bytes.clone(), &Attributes::default()).await.unwrap();
    (store, written.etag, bytes)
}

fn reader(store: &Arc<FaultStore>, tier: &Arc<CacheTier>, lifetime: Option<Duration>) -> Arc<Reader> {
    let source = StoreSource::over(store) as Arc<dyn Source>;
    Reader::with_lifetime(source, Pool::new(64 << 20), Some(Arc::clone(tier) as Arc<dyn BlockTier>), lifetime)
}

fn version(etag: &str) -> ObjectVersion {
    let pin = VersionPin::Etag(etag.into());
    ObjectVersion { endpoint: "memory".into(), bucket: "b".into(), key: "k".into(), pin, size: SIZE as u64 }
}

#[tokio::test]
async fn an_identity_without_the_right_reads_nothing_from_a_mounts_cache() {
    let scratch = Scratch::new();
    let (store, etag, bytes) = filled().await;
    let tier = Arc::new(CacheTier::new(Arc::new(scratch.open(limits(1 << 30))), TierOptions::default()).unwrap());
    let admin = reader(&identity(&store), &tier, None);
    let read = admin.read(&admin.open(version(&etag)), 0, SIZE).await.unwrap();
    assert!(read.to_bytes() == bytes);
    tier.flush().await;

    let other = identity(&store);
    let other_reader = reader(&other, &tier, None);
    other.rule(Rule::always("GetObject", Fault::Fail("AccessDenied", 403)));
    for _ in 0..2 {
        let denied = other_reader.read(&other_reader.open(version(&etag)), 1 << 20, 4096).await;
        assert!(denied.is_err(), "shown to an identity that may not read it");
    }

    // Allowed, each open costs one byte, and none while the answer is believed.
    for (lifetime, requests) in [(Some(Duration::ZERO), 3), (Some(Duration::from_hours(1)), 1), (None, 1)] {
        let allowed = identity(&store);
        let allowed_reader = reader(&allowed, &tier, lifetime);
        for open in 0..3 {
            let handle = allowed_reader.open(version(&etag));
            for offset in [0, 2 << 20] {
                let at = offset + (open << 18);
                let read = allowed_reader.read(&handle, at as u64, 4096).await.unwrap();
                assert!(read.to_bytes() == bytes.slice(at..at + 4096));
            }
        }
        assert_eq!(allowed.count("GetObject"), requests, "{lifetime:?}");
        assert_eq!(allowed_reader.stats().bytes_fetched, requests as u64, "{lifetime:?}");
    }
}

#[tokio::test]
async fn an_identity_without_the_right_copies_nothing_from_the_cache() {
    let scratch = Scratch::new();
    let (store, etag, bytes) = filled().await;
    let cache: Arc<DiskCache> = Arc::new(scratch.open(limits(1 << 30)));
    let cached = |store: &Arc<FaultStore>| {
        CachedStore::new(Arc::clone(store) as Arc<dyn ObjectStore>, Arc::clone(&cache), "memory")
    };
    let source = PinnedObject {
        bucket: "b".into(),
        key: "k".into(),
        if_match: Some(etag),
        size: SIZE as u64,
        ..PinnedObject::default()
    };
    let whole = cached(&identity(&store)).fetch(&source, None).await.unwrap();
    assert!(whole.body.into_stream().collect_all().await == bytes);

    let other = identity(&store);
    let other_store = cached(&other);
    other.rule(Rule::always("GetObject", Fault::Fail("AccessDenied", 403)));
    other.rule(Rule::always("HeadObject", Fault::Fail("AccessDenied", 403)));
    for range in [None, Some(Range { first: 0, last: 5 }), Some(Range { first: 1 << 20, last: 2 << 20 })] {
        assert!(other_store.fetch(&source, range).await.is_err(), "{range:?}");
    }

    let allowed = identity(&store);
    let allowed_store = cached(&allowed);
    for first in [0, 1 << 20, 2 << 20] {
        let range = Range { first, last: first + 4095 };
        let read = allowed_store.fetch(&source, Some(range)).await.unwrap();
        assert_eq!(read.meta.size, SIZE as u64);
        let at = usize::try_from(first).unwrap();
        assert!(read.body.into_stream().collect_all().await == bytes.slice(at..at + 4096));
    }
    assert_eq!((allowed.count("GetObject"), allowed.count("HeadObject")), (1, 0));
}

/// All bytes of a body.
trait CollectAll {
    async fn collect_all(self) -> Bytes;
}

impl CollectAll for seqferry_store::ByteStream {
    async fn collect_all(mut self) -> Bytes {
        use futures::StreamExt as _;
        let mut all = Vec::new();
        while let Some(chunk) = self.next().await {
            all.extend_from_slice(&chunk.unwrap());
        }
        all.into()
    }
}
