//! Tests of the reader.

// Sizes of tests fit.
#![allow(clippy::cast_possible_truncation)]

use std::time::Duration;

use bytes::Bytes;
use seqferry_store::prelude::*;
use seqferry_store::{Attributes, ObjectRef};
use seqferry_store_testing::{MemoryStore, ObjectWriteExt as _};

use super::*;
use crate::pool::SMALLEST_POOL;
use crate::testing::StoreSource;
use crate::version::VersionPin;

fn content(size: usize) -> Bytes {
    (0..size).map(|at| (at / 1000 + at % 251) as u8).collect::<Vec<u8>>().into()
}

struct Setting {
    store: Arc<MemoryStore>,
    source: Arc<StoreSource>,
    reader: Arc<Reader>,
    pool: Arc<Pool>,
}

impl Setting {
    fn new(pool: u64) -> Self {
        let store = MemoryStore::with_buckets(&["b"]);
        let source = StoreSource::over(&store);
        let pool = Pool::new(pool);
        let reader = Reader::new(Arc::clone(&source) as Arc<dyn Source>, Arc::clone(&pool), None);
        Self { store, source, reader, pool }
    }

    async fn put(&self, key: &str, bytes: &Bytes) -> ObjectVersion {
        let written = self.store.put("b", key, bytes.clone(), &Attributes::default()).await.unwrap();
        ObjectVersion {
            endpoint: "memory".into(),
            bucket: "b".into(),
            key: key.into(),
            pin: VersionPin::Etag(written.etag.into()),
            size: bytes.len() as u64,
        }
    }

    async fn read(&self, handle: &ReadHandle, offset: u64, length: usize) -> Bytes {
        self.reader.read(handle, offset, length).await.unwrap().to_bytes()
    }

    fn gets(&self) -> u64 {
        self.source.counters.requests().2
    }
}

const MIB: usize = 1 << 20;

#[tokio::test]
async fn any_range_has_the_bytes_of_the_object() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    for size in [0, 1, 4096, BLOCK_SIZE as usize, MIB + 1, 3 * MIB + 4567] {
        let setting = Setting::new(SMALLEST_POOL);
        let bytes = content(size);
        let handle = setting.reader.open(setting.put("k", &bytes).await);
        for _ in 0..200 {
            let offset = random.usize(0..size + 10);
            let length = random.usize(0..MIB);
            let expected = &bytes[offset.min(size)..(offset + length).min(size)];
            assert!(setting.read(&handle, offset as u64, length).await == expected, "{offset} {length} of {size}");
        }
        assert!(setting.read(&handle, u64::MAX, 1).await.is_empty());
    }
}

#[tokio::test]
async fn an_isolated_read_fetches_its_block_and_nothing_else() {
    let setting = Setting::new(SMALLEST_POOL);
    let bytes = content(8 * MIB);
    let handle = setting.reader.open(setting.put("k", &bytes).await);

    for offset in [5 * MIB, MIB, 7 * MIB] {
        setting.read(&handle, offset as u64, 4096).await;
    }

    assert_eq!((setting.gets(), setting.source.counters.bytes_fetched()), (3, 3 * BLOCK_SIZE));
    setting.read(&handle, MIB as u64 + 4096, 4096).await;
    assert_eq!(setting.gets(), 3, "the block is in memory, and the read stays in it");
}

/// Reads of the kernel for a program that reads some 70 KiB at a place: 4 KiB, and then two of 128 KiB concurrently.
async fn read_region(setting: &Setting, handle: &ReadHandle, bytes: &Bytes, offset: usize) {
    const AHEAD: usize = 128 << 10;
    let first = setting.read(handle, offset as u64, 4096).await;
    let second = setting.read(handle, offset as u64 + 4096, AHEAD);
    let third = setting.read(handle, (offset + 4096 + AHEAD) as u64, AHEAD);
    let (second, third) = tokio::join!(second, third);
    for (place, read) in [(offset, first), (offset + 4096, second), (offset + 4096 + AHEAD, third)] {
        assert!(read == bytes[place..place + read.len()]);
    }
}

#[tokio::test]
async fn a_region_takes_two_requests_and_four_blocks() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let setting = Setting::new(64 << 20);
    let bytes = content(120 * MIB);
    let version = setting.put("k", &bytes).await;
    // None at the head of the object, where a program is taken to read on.
    let mut places: Vec<usize> =
        (0..40).map(|number| (3 * number * MIB) + random.usize(4096..2 * MIB) / 4096 * 4096).collect();
    random.shuffle(&mut places);
    // Half of them in one open file, each of the others in one of its own.
    let (together, alone) = places.split_at(20);
    let handle = setting.reader.open(version.clone());

    for offset in together {
        read_region(&setting, &handle, &bytes, *offset).await;
    }
    for offset in alone {
        read_region(&setting, &setting.reader.open(version.clone()), &bytes, *offset).await;
    }

    assert_eq!(setting.gets(), 2 * 40);
    assert!(setting.source.counters.bytes_fetched() <= 4 * BLOCK_SIZE * 40);
}

#[tokio::test]
async fn a_region_of_a_file_with_an_index_takes_one_request() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let setting = Setting::new(64 << 20);
    let bytes = content(60 * MIB);
    let object = OpenObject::new(setting.put("k.bam", &bytes).await);
    let handle = ReadHandle::with_pattern(object, Pattern::Regions);
    // Such that two requests of the kernel end within three blocks.
    let place = |number: usize, random: &mut fastrand::Rng| 3 * number * MIB + random.usize(0..30) * 4096;
    let mut places: Vec<usize> = (0..20).map(|number| place(number, &mut random)).collect();
    random.shuffle(&mut places);

    for offset in places {
        read_region(&setting, &handle, &bytes, offset).await;
    }

    assert_eq!((setting.gets(), setting.source.counters.bytes_fetched()), (20, 3 * BLOCK_SIZE * 20));
}

/// Requests and blocks fetched after each read of a block, from this one on.
async fn steps_from(first: u64, reads: u64) -> Vec<(u64, u64)> {
    let setting = Setting::new(512 << 20);
    let bytes = content(40 * MIB);
    let handle = setting.reader.open(setting.put("k", &bytes).await);
    let mut steps = Vec::new();
    for block in first..first + reads {
        setting.read(&handle, block * BLOCK_SIZE, BLOCK_SIZE as usize).await;
        steps.push((setting.gets(), setting.source.counters.bytes_fetched() / BLOCK_SIZE));
    }
    steps
}

#[tokio::test]
async fn a_window_opens_only_past_the_probe() {
    let steps = steps_from(40, 6).await;

    let window = super::read_ahead::FIRST_WINDOW / BLOCK_SIZE;
    assert_eq!(steps, [(1, 1), (2, 4), (2, 4), (2, 4), (3, 4 + window), (3, 4 + window)]);
}

#[tokio::test]
async fn from_the_start_of_a_file_several_requests_are_made_at_once() {
    let steps = steps_from(0, 10).await;

    let window = super::read_ahead::FIRST_WINDOW_OF_START / BLOCK_SIZE;
    // A block; a probe of 8 blocks in two requests; a window in four.
    assert_eq!(steps[..2], [(1, 1), (3, 9)]);
    assert_eq!(steps[8..], [(3, 9), (7, 9 + window)]);
}

#[tokio::test]
async fn a_small_object_is_one_request() {
    let setting = Setting::new(SMALLEST_POOL);
    let bytes = content(MIB);
    let handle = setting.reader.open(setting.put("k", &bytes).await);

    for offset in (0..MIB).step_by(100_000) {
        setting.read(&handle, offset as u64, 100_000).await;
    }

    assert_eq!((setting.gets(), setting.source.counters.bytes_fetched()), (1, MIB as u64));
}

#[tokio::test]
async fn reading_on_takes_few_requests_and_no_byte_twice() {
    let setting = Setting::new(64 << 20);
    let bytes = content(40 * MIB);
    let handle = setting.reader.open(setting.put("k", &bytes).await);

    for offset in (0..bytes.len()).step_by(BLOCK_SIZE as usize) {
        let read = setting.read(&handle, offset as u64, BLOCK_SIZE as usize).await;
        assert!(read == bytes[offset..offset + BLOCK_SIZE as usize]);
    }

    assert_eq!(setting.source.counters.bytes_fetched(), bytes.len() as u64);
    assert!(setting.gets() <= 25, "{} requests for 40 MiB", setting.gets());
}

#[tokio::test]
async fn readers_of_the_same_blocks_share_one_request() {
    let setting = Setting::new(SMALLEST_POOL);
    let bytes = content(4 * MIB);
    let version = setting.put("k", &bytes).await;
    let handles: Vec<_> = (0..20).map(|_| setting.reader.open(version.clone())).collect();

    let reads = handles.iter().map(|handle| setting.read(handle, 2 * MIB as u64, 100_000));
    for read in futures::future::join_all(reads).await {
        assert!(read == bytes[2 * MIB..2 * MIB + 100_000]);
    }

    assert_eq!(setting.gets(), 1);
}

#[tokio::test]
async fn missing_blocks_with_a_short_gap_are_one_request() {
    let setting = Setting::new(SMALLEST_POOL);
    let bytes = content(4 * MIB);
    let version = setting.put("k", &bytes).await;
    setting.read(&setting.reader.open(version.clone()), BLOCK_SIZE * 11, 1).await;
    let handle = setting.reader.open(version);

    let offset = BLOCK_SIZE * 10;
    let read = setting.read(&handle, offset, 3 * BLOCK_SIZE as usize).await;

    assert!(read == bytes[offset as usize..offset as usize + 3 * BLOCK_SIZE as usize]);
    assert_eq!(setting.gets(), 2);
}

#[tokio::test]
async fn many_readers_in_a_small_pool_all_finish_within_it() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let setting = Setting::new(SMALLEST_POOL);
    let bytes = content(64 * MIB);
    let version = setting.put("k", &bytes).await;
    let reads = (0..1000_u64).map(|number| {
        let (setting, bytes) = (&setting, &bytes);
        let mut random = fastrand::Rng::with_seed(seed ^ number);
        let handle = setting.reader.open(version.clone());
        async move {
            for _ in 0..5 {
                let offset = random.usize(0..64 * MIB - MIB);
                let length = random.usize(1..MIB);
                let read = setting.read(&handle, offset as u64, length).await;
                assert!(read == bytes[offset..offset + length]);
                assert!(setting.pool.usage().used <= SMALLEST_POOL);
            }
        }
    });

    futures::future::join_all(reads).await;

    assert!(setting.pool.usage().used <= SMALLEST_POOL);
}

#[tokio::test]
async fn a_read_that_is_given_up_cancels_its_request_and_frees_its_memory() {
    let setting = Setting::new(SMALLEST_POOL);
    let handle = setting.reader.open(setting.put("k", &content(8 * MIB)).await);
    {
        let _network_down = setting.source.hold().await;
        for _ in 0..100 {
            let read = setting.reader.read(&handle, 5 * MIB as u64, MIB);
            assert!(tokio::time::timeout(Duration::from_millis(1), read).await.is_err());
        }
        while setting.pool.usage().used > 0 {
            tokio::task::yield_now().await;
        }
    }

    assert!(setting.read(&handle, 5 * MIB as u64, MIB).await == content(8 * MIB)[5 * MIB..6 * MIB]);
}

#[tokio::test]
async fn versions_are_never_mixed_in_one_handle() {
    let setting = Setting::new(SMALLEST_POOL);
    let bytes = content(8 * MIB);
    let handle = setting.reader.open(setting.put("k", &bytes).await);
    setting.read(&handle, 0, 1000).await;
    let other = Bytes::from(vec![7; 8 * MIB]);
    let newer = setting.put("k", &other).await;

    assert!(setting.read(&handle, 0, 1000).await == bytes[..1000], "what is in memory stays");
    let later = setting.reader.read(&handle, 6 * MIB as u64, 10).await;
    assert!(matches!(later, Err(VfsError::Stale)), "{later:?}");
    let handle = setting.reader.open(newer);
    assert!(setting.read(&handle, 0, 1000).await == other[..1000]);
    setting.store.delete(ObjectRef::new("b", "k")).await.unwrap();
    assert!(matches!(setting.reader.read(&handle, 6 * MIB as u64, 10).await, Err(VfsError::Stale)));
}

#[tokio::test]
async fn two_places_in_one_file_are_read_ahead_side_by_side() {
    let setting = Setting::new(64 << 20);
    let bytes = content(32 * MIB);
    let handle = setting.reader.open(setting.put("k", &bytes).await);
    let step = BLOCK_SIZE as usize;

    for at in (0..8 * MIB).step_by(step) {
        for offset in [at, at + 16 * MIB] {
            let read = setting.read(&handle, offset as u64, step).await;
            assert!(read == bytes[offset..offset + step]);
        }
    }

    assert!(setting.gets() <= 20, "{} requests", setting.gets());
    let fetched = setting.source.counters.bytes_fetched();
    assert!(fetched <= 32 * MIB as u64, "{fetched} bytes for twice 8 MiB");
}

#[tokio::test]
async fn a_handle_at_rest_holds_no_memory() {
    let setting = Setting::new(SMALLEST_POOL);
    let bytes = content(12 * MIB);
    let first = setting.put("k", &bytes).await;
    let mut handles = Vec::new();
    for _ in 0..50 {
        let handle = setting.reader.open(first.clone());
        for at in (0..4 * MIB).step_by(MIB) {
            setting.read(&handle, at as u64, MIB).await;
        }
        handles.push(handle);
    }

    // Nearly the whole pool is available while all of them are open.
    let room = setting.pool.reserve(SMALLEST_POOL - MIB as u64).await;
    drop(room);
}
