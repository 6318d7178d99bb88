//! Digests of the contents of objects as they are now, for a caller that knows the expected values.
//!
//! Many objects are read at a time, and some ranges of each concurrently. Ranges are hashed in order while later ones
//! are read, so that one path serves every kind of digest. Where ranges are ignored, an object is read as one stream.
//! Objects are pinned; an object that was replaced since it was checked is read as it is now.
//!
//! Memory: each range is reserved before it is requested, ranges of one object in their order. The range that is hashed
//! next therefore never waits for memory that later ranges of its object hold.

use std::num::NonZeroU64;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{self, StreamExt as _};
use seqferry_client::budget::MemoryPermit;
use seqferry_client::reading::{PinnedReader, fetch_pinned};
use seqferry_client::{RequestError, RequestSpec, RetryContext, RetryingClient};
use seqferry_store::{Cause, DigestAlgorithm, ErrorClass, ObjectRef, PinnedObject, Range, StoreError};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::AbortOnDropHandle;

use crate::LONGEST_WAIT;
use crate::progress::ObjectTracker;
use crate::recorded_digest::RecordedDigest;
use crate::verification::{SegmentLengths, SegmentedDigest};

/// Bytes of one ranged read: AWS's advice for ranged reads.
const RANGE: u64 = 8 << 20;
/// Ranges of one object that are under way or wait to be hashed.
const PARALLEL_RANGES: usize = 4;
/// Objects that are read at a time. The budget decides how many requests and bytes are under way.
pub(crate) const MAX_CONCURRENT_OBJECTS: usize = 32;
/// Bytes of a stream that are hashed at a time: about 2 ms of a thread of the engine.
const PIECE: u64 = 1 << 20;
/// Results of one page at most.
const PAGE: usize = 1000;

/// An object, and the digest to compute over it.
#[derive(Debug, Clone)]
pub struct DigestRequest {
    /// The object as it was when it was checked.
    pub object: PinnedObject,
    /// Algorithm of the digest.
    pub algorithm: DigestAlgorithm,
    /// Sizes that the parts of the object may have: one digest over the digests of parts for each size. Empty: one
    /// digest over all bytes.
    pub part_sizes: Vec<NonZeroU64>,
}

impl DigestRequest {
    /// The digest of an object as it is, to be compared with a digest on record.
    pub fn of(object: PinnedObject, recorded: &RecordedDigest) -> Self {
        Self { object, algorithm: recorded.algorithm, part_sizes: recorded.part_sizes.clone() }
    }

    fn begin(&self) -> Vec<SegmentedDigest> {
        if self.part_sizes.is_empty() {
            return vec![SegmentedDigest::of(self.algorithm, None)];
        }
        self.part_sizes
            .iter()
            .map(|size| SegmentedDigest::of(self.algorithm, Some(SegmentLengths::Even(size.get()))))
            .collect()
    }
}

/// The digests of one object as headers have them, one for each part size that was requested.
pub type ObjectDigest = Result<Vec<String>, StoreError>;

/// Digests that are being computed. Dropped, it is cancelled.
#[derive(Debug)]
pub struct ContentDigests {
    runtime: Handle,
    /// Receiver of the results; None once closed.
    found: Mutex<Option<mpsc::Receiver<ObjectDigest>>>,
    cancel: CancellationToken,
    _cancelled_on_drop: DropGuard,
}

impl ContentDigests {
    /// Begins to read these objects. The token of `client` is cancelled in the end.
    pub fn start(runtime: &Handle, client: RetryingClient, requests: Vec<DigestRequest>) -> Self {
        let (sender, found) = mpsc::channel(MAX_CONCURRENT_OBJECTS);
        let cancel = client.cancel().clone();
        runtime.spawn(run(client, requests, sender));
        Self {
            runtime: runtime.clone(),
            found: Mutex::new(Some(found)),
            _cancelled_on_drop: cancel.clone().drop_guard(),
            cancel,
        }
    }

    /// Returns the next results, in the order of the requests: no results when none came in time, None after the last.
    /// A minute is the longest wait.
    pub fn next(&self, timeout: Duration) -> Option<Vec<ObjectDigest>> {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let receiver = found.as_mut()?;
        let mut page = Vec::new();
        let timeout = timeout.min(LONGEST_WAIT);
        let some =
            self.runtime.block_on(async { tokio::time::timeout(timeout, receiver.recv_many(&mut page, PAGE)).await });
        (some != Ok(0)).then_some(page)
    }

    /// Stops reading.
    pub fn close(&self) {
        self.cancel.cancel();
        *self.found.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

async fn run(client: RetryingClient, requests: Vec<DigestRequest>, sender: mpsc::Sender<ObjectDigest>) {
    let digests = stream::iter(requests)
        .map(|request| {
            let reading = DigestTask { client: client.clone().within(&request.object.key), request, active: None };
            reading.start()
        })
        .buffered(MAX_CONCURRENT_OBJECTS);
    let mut digests = pin!(digests);
    while let Some(digest) = digests.next().await {
        let found = match digest {
            Ok(values) => Ok(values),
            Err(RequestError::Failed(error)) => Err(error),
            Err(RequestError::Cancelled) => return,
        };
        if sender.send(found).await.is_err() {
            return;
        }
    }
}

/// One object that is read.
pub(crate) struct DigestTask {
    pub(crate) client: RetryingClient,
    pub(crate) request: DigestRequest,
    /// Progress that counts the bytes read, where it is shown.
    pub(crate) active: Option<Arc<ObjectTracker>>,
}

impl DigestTask {
    /// Begins to read, in a task of its own that ends when its result is no longer waited for. Called within the
    /// runtime.
    pub(crate) fn start(self) -> impl Future<Output = Result<Vec<String>, RequestError>> {
        let (bucket, key) = (self.request.object.bucket.clone(), self.request.object.key.clone());
        let digest = AbortOnDropHandle::new(tokio::spawn(async move { self.digest().await }));
        async move {
            let stopped = |_| Err(StoreError::new("GetObject", &bucket, Some(&key), "Cancelled", None).into());
            digest.await.unwrap_or_else(stopped)
        }
    }

    /// Counts bytes that were read and hashed.
    fn count(&self, bytes: u64) {
        if let Some(active) = &self.active {
            active.add(bytes);
        }
    }

    /// The object is read from its first byte, perhaps again.
    fn begin(&self) -> Vec<SegmentedDigest> {
        if let Some(active) = &self.active {
            active.reset();
        }
        self.request.begin()
    }

    async fn digest(&self) -> Result<Vec<String>, RequestError> {
        let object = &self.request.object;
        match self.read(object).await {
            Err(RequestError::Failed(error)) if error.class == ErrorClass::Precondition => {
                let meta = self.client.head(ObjectRef::new(&object.bucket, &object.key)).await?;
                self.read(&PinnedObject::of(&object.bucket, &object.key, &meta)).await
            }
            read => read,
        }
    }

    async fn read(&self, object: &PinnedObject) -> Result<Vec<String>, RequestError> {
        if object.size > RANGE && self.client.quirks().ignores_ranges() {
            return self.read_as_one_stream(object).await;
        }
        match self.read_ranges(object).await {
            Err(RequestError::Failed(error)) if error.cause() == Cause::RangeIgnored => {
                self.read_as_one_stream(object).await
            }
            read => read,
        }
    }

    async fn read_ranges(&self, object: &PinnedObject) -> Result<Vec<String>, RequestError> {
        let pieces = stream::iter(ranges(object.size, RANGE))
            .then(|range| {
                let client = self.client.clone();
                async move { client.reserve_memory(range.len()).await.map(|memory| (range, memory)) }
            })
            .map(|reserved| {
                let (client, object) = (self.client.clone(), object.clone());
                async move {
                    let (range, memory) = reserved?;
                    let read = tokio::spawn(async move { client.read_range(&object, range).await });
                    let read = AbortOnDropHandle::new(read).await.map_err(|_| RequestError::Cancelled)??;
                    Ok::<_, RequestError>((read.bytes, memory))
                }
            })
            .buffered(PARALLEL_RANGES);
        let mut pieces = pin!(pieces);
        let mut digests = self.begin();
        while let Some(piece) = pieces.next().await {
            let (bytes, memory) = piece?;
            let read = bytes.len() as u64;
            digests = update_aside(digests, bytes, memory).await?;
            self.count(read);
        }
        Ok(finish_all(digests))
    }

    /// The same with one request, which is made again from the first byte when its body breaks.
    async fn read_as_one_stream(&self, object: &PinnedObject) -> Result<Vec<String>, RequestError> {
        let client = &self.client;
        let _memory = client.reserve_memory(PIECE).await?;
        let call = RequestSpec::read("GetObject", &object.bucket).bytes(object.size).once();
        client
            .call(call, &RetryContext::default(), async |store| {
                let fetched = fetch_pinned(&*store, object, None).await?;
                let mut reader = PinnedReader::new(fetched.body, object);
                let mut digests = self.begin();
                for range in ranges(object.size, PIECE) {
                    let cancelled = |_| StoreError::new("GetObject", &object.bucket, None, "Cancelled", None);
                    client.reserve_bandwidth(range.len()).await.map_err(cancelled)?;
                    let piece = reader.take(range.len(), &[]).await?;
                    update(&mut digests, &piece.bytes);
                    self.count(range.len());
                }
                reader.end().await?;
                Ok(finish_all(digests))
            })
            .await
    }
}

/// Hashing takes milliseconds: too long to keep others from a thread of the engine.
async fn update_aside(
    mut digests: Vec<SegmentedDigest>,
    bytes: Bytes,
    memory: Option<MemoryPermit>,
) -> Result<Vec<SegmentedDigest>, RequestError> {
    let hashing = tokio::task::spawn_blocking(move || {
        // Given back after the bytes are gone.
        let _memory = memory;
        let bytes = bytes;
        update(&mut digests, &bytes);
        digests
    });
    // It fails only when the runtime is being torn down.
    hashing.await.map_err(|_| RequestError::Cancelled)
}

fn update(digests: &mut [SegmentedDigest], bytes: &[u8]) {
    for digest in digests {
        digest.update(bytes);
    }
}

fn finish_all(digests: Vec<SegmentedDigest>) -> Vec<String> {
    digests.into_iter().map(SegmentedDigest::finish).collect()
}

fn ranges(size: u64, length: u64) -> impl Iterator<Item = Range> {
    (0..size.div_ceil(length)).map(move |n| Range { first: n * length, last: ((n + 1) * length).min(size) - 1 })
}
