//! Tests of the time that reading a file takes from a service with latency, by a paused clock.

// Sizes of tests fit.
#![allow(clippy::cast_possible_truncation)]

use std::collections::HashSet;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt as _, stream};
use seqferry_store::{ListPage, ListRequest, ObjectMeta, ObjectRef, StoreError};
use tokio::time::{Instant, sleep_until};

use super::*;
use crate::ahead::PageCache;
use crate::source::RangeBody;
use crate::version::VersionPin;

const MIB: u64 = 1 << 20;
/// Bytes of a chunk of a body: 10 ms at the rate of one answer, since the timers of tokio have whole milliseconds.
const CHUNK: u64 = 1 << 20;
/// One read of the kernel; it has two on their way.
const READ: u64 = 128 << 10;

/// A service with a latency, a rate for each answer, and a rate for all of them together.
#[derive(Debug)]
struct PacedSource {
    latency: Duration,
    /// Bytes per second of one answer, and of all together.
    rates: (u64, u64),
    /// Time from which the line is free.
    line: Mutex<Instant>,
    under_way: Arc<AtomicUsize>,
    most: AtomicUsize,
}

/// Counts an answer as under way until it is dropped.
struct Guard(Arc<AtomicUsize>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

fn time_of(bytes: u64, rate: u64) -> Duration {
    Duration::from_nanos(bytes * 1_000_000_000 / rate)
}

impl PacedSource {
    fn new(latency: Duration, rates: (u64, u64)) -> Arc<Self> {
        let line = Mutex::new(Instant::now());
        Arc::new(Self { latency, rates, line, under_way: Arc::default(), most: AtomicUsize::new(0) })
    }

    /// Time at which a chunk has come over the line, which it asks for now.
    fn over_the_line(&self, bytes: u64) -> Instant {
        let mut free = self.line.lock().unwrap();
        *free = Instant::now().max(*free) + time_of(bytes, self.rates.1);
        *free
    }
}

/// The source, which a body holds.
#[derive(Debug)]
struct Shared(Arc<PacedSource>);

#[async_trait]
impl Source for Shared {
    fn endpoint(&self) -> &'static str {
        "paced"
    }

    async fn list(&self, _: &ListRequest, _: Urgency) -> std::result::Result<ListPage, StoreError> {
        unreachable!("nothing is listed")
    }

    async fn head(&self, _: ObjectRef<'_>) -> std::result::Result<ObjectMeta, StoreError> {
        unreachable!("nothing is looked up")
    }

    async fn get(
        &self,
        version: &ObjectVersion,
        _: Option<&str>,
        range: seqferry_store::Range,
        _: Urgency,
    ) -> std::result::Result<RangeBody, StoreError> {
        let source = Arc::clone(&self.0);
        let now = source.under_way.fetch_add(1, Ordering::SeqCst) + 1;
        source.most.fetch_max(now, Ordering::SeqCst);
        let guard = Guard(Arc::clone(&source.under_way));
        sleep_until(Instant::now() + source.latency).await;
        let begun = Instant::now();
        let body = stream::unfold((0, guard), move |(sent, guard)| {
            let source = Arc::clone(&source);
            async move {
                let chunk = CHUNK.min(range.len() - sent);
                if chunk == 0 {
                    return None;
                }
                let own = begun + time_of(sent + chunk, source.rates.0);
                sleep_until(source.over_the_line(chunk).max(own)).await;
                Some((Ok(Bytes::from(vec![0; chunk as usize])), (sent + chunk, guard)))
            }
        });
        let meta = ObjectMeta { size: version.size, ..ObjectMeta::default() };
        Ok(RangeBody { meta, bytes: body.boxed() })
    }
}

fn version(size: u64) -> ObjectVersion {
    ObjectVersion {
        endpoint: "paced".into(),
        bucket: "b".into(),
        key: "k".into(),
        pin: VersionPin::Etag("e".into()),
        size,
    }
}

/// A kernel that keeps all pages, and takes them immediately.
#[derive(Debug, Default)]
struct Pages(Mutex<HashSet<u64>>);

impl PageCache for Pages {
    fn keep(&self, _: u64, offset: u64, bytes: Bytes, _: Box<dyn Send>) -> bool {
        assert_eq!((offset % BLOCK_SIZE, bytes.len() as u64), (0, BLOCK_SIZE));
        self.0.lock().unwrap().insert(offset / BLOCK_SIZE)
    }

    fn is_ready(&self) -> bool {
        true
    }
}

/// Seconds for 500 random reads of 4 KiB, and bytes fetched for them.
async fn read_at_random(size: u64, latency_ms: u64, rates: (u64, u64)) -> (f64, u64) {
    let source = PacedSource::new(Duration::from_millis(latency_ms), rates);
    let pool = Pool::new(32 * MIB);
    let pages = Arc::new(Pages::default());
    pool.set_page_cache(Arc::clone(&pages) as Arc<dyn PageCache>);
    let reader = Reader::new(Arc::new(Shared(source)), pool, None);
    let handle = reader.open(version(size)).with_pages(7);
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let begun = Instant::now();
    for _ in 0..500 {
        let offset = random.u64(0..size / 4096) * 4096;
        // What a program has read the kernel keeps as well, without being handed it.
        if !pages.0.lock().unwrap().contains(&(offset / BLOCK_SIZE)) {
            assert_eq!(reader.read(&handle, offset, 4096).await.unwrap().len(), 4096);
        }
    }
    (begun.elapsed().as_secs_f64(), reader.stats().bytes_fetched)
}

#[tokio::test(start_paused = true)]
async fn random_reads_on_a_fast_link_fetch_the_file_and_stop_waiting() {
    let (took, fetched) = read_at_random(256 * MIB, 20, (100 * MIB, 600 * MIB)).await;

    println!("{took:.3} s, {} MiB", fetched / MIB);
    // Alone they take 10 s and more.
    assert!(took <= 4.0, "{took:.3} s");
    assert!(fetched <= 300 * MIB, "{} MiB of 256 MiB", fetched / MIB);
}

#[tokio::test(start_paused = true)]
async fn random_reads_on_a_slow_link_fetch_their_blocks_and_one_sample() {
    let (_, fetched) = read_at_random(256 * MIB, 20, (100 * MIB, 100 * MIB)).await;

    assert!(fetched <= 500 * BLOCK_SIZE + random_reads::PROBE, "{} MiB", fetched / MIB);
}

/// Seconds for reading an object of this size as the kernel does for one program, and most requests under way.
async fn read_in_sequence(size: u64, pool: u64, latency_ms: u64, rates: (u64, u64)) -> (f64, usize, u64) {
    let source = PacedSource::new(Duration::from_millis(latency_ms), rates);
    let reader = Reader::new(Arc::new(Shared(Arc::clone(&source))), Pool::new(pool), None);
    let handle = reader.open(version(size));
    let begun = Instant::now();
    let reads =
        stream::iter((0..size).step_by(READ as usize)).map(|offset| reader.read(&handle, offset, READ as usize));
    let mut reads = reads.buffered(2);
    let mut length = 0;
    while let Some(read) = reads.next().await {
        length += read.unwrap().len() as u64;
    }
    assert_eq!(length, size);
    (begun.elapsed().as_secs_f64(), source.most.load(Ordering::SeqCst), reader.stats().requests)
}

#[tokio::test(start_paused = true)]
async fn a_file_is_read_at_the_rate_of_the_line_and_not_of_one_answer() {
    // Answers of S3 have some 90 MB/s each.
    for (latency, seconds) in [(20, 0.70), (100, 1.35)] {
        let (took, most, requests) = read_in_sequence(256 * MIB, 512 * MIB, latency, (100 * MIB, 600 * MIB)).await;

        println!("{latency} ms: {took:.3} s, {most} under way, {requests} requests");
        assert!(took <= seconds, "{latency} ms: {took:.3} s");
        assert!(requests <= 50, "{requests} requests for 256 MiB");
    }
}

#[tokio::test(start_paused = true)]
async fn a_short_file_takes_two_round_trips() {
    let (took, ..) = read_in_sequence(MIB + MIB / 8, 512 * MIB, 20, (100 * MIB, 600 * MIB)).await;

    assert!(took <= 0.05, "{took:.3} s");
}

#[tokio::test(start_paused = true)]
async fn a_small_pool_is_read_within() {
    let (took, _, requests) = read_in_sequence(256 * MIB, 64 * MIB, 20, (100 * MIB, 600 * MIB)).await;

    println!("{took:.3} s, {requests} requests");
    assert!(took <= 1.1, "{took:.3} s");
    assert!(requests <= 70, "{requests} requests for 256 MiB");
}
