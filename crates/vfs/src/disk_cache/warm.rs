//! Warming: everything below a prefix is read into the cache, and what is there already is not fetched again.
//!
//! Ranges are fetched concurrently, each pinned to the version that was listed. Memory is bounded by the ranges in
//! flight. One object that cannot be read does not end the rest; a cache without room does.

use std::ops::Range as Blocks;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bytes::{Bytes, BytesMut};
use futures::StreamExt as _;
use seqferry_store::{ListRequest, ListedObject, Range, StoreError};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::JoinSet;

use super::{Admission, DiskCache, Fill, add, lock};
use crate::source::{Source, Urgency};
use crate::version::{BLOCK_SIZE, ObjectVersion, VersionPin, block_count};

/// Bytes of one request: large enough that its latency does not count.
const RANGE: u64 = 8 << 20;
/// Objects that are checked concurrently: those that are there already cost a look at the disk.
const OBJECTS: usize = 64;
/// Bodies in a row that may break without a whole block.
const BREAKS: u32 = 5;
/// Objects that failed and are named.
const NAMED: usize = 100;

/// Prefix to warm, and the number of ranges in flight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WarmRequest {
    /// Bucket.
    pub bucket: String,
    /// Start of the keys.
    pub prefix: String,
    /// Ranges of 8 MiB in flight.
    pub ranges: usize,
}

/// Progress of warming. All values only grow.
#[derive(Debug, Default)]
pub struct WarmProgress {
    objects: AtomicU64,
    bytes: AtomicU64,
    present: AtomicU64,
    fetched: AtomicU64,
    failed: AtomicU64,
    no_room: AtomicBool,
    failures: Mutex<Vec<(String, String)>>,
}

/// The numbers of a [`WarmProgress`] at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WarmReport {
    /// Objects listed so far.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes that were in the cache already.
    pub present: u64,
    /// Bytes fetched and written.
    pub fetched: u64,
    /// Objects that could not be read or written in full.
    pub failed: u64,
    /// True when warming ended because the cache has no space.
    pub no_room: bool,
    /// The first failed objects, with the reason.
    pub failures: Vec<(String, String)>,
}

impl WarmProgress {
    /// The numbers now.
    pub fn report(&self) -> WarmReport {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        WarmReport {
            objects: read(&self.objects),
            bytes: read(&self.bytes),
            present: read(&self.present),
            fetched: read(&self.fetched),
            failed: read(&self.failed),
            no_room: self.no_room.load(Ordering::Relaxed),
            failures: lock(&self.failures).clone(),
        }
    }

    fn fail(&self, key: &str, reason: String) {
        add(&self.failed, 1);
        let mut failures = lock(&self.failures);
        if failures.len() < NAMED {
            failures.push((key.to_owned(), reason));
        }
    }
}

/// State that the tasks of one warming share.
struct WarmContext {
    cache: Arc<DiskCache>,
    source: Arc<dyn Source>,
    ranges: Semaphore,
    progress: Arc<WarmProgress>,
}

/// Read everything below a prefix into the cache.
///
/// # Errors
/// When the prefix cannot be listed. Objects that cannot be read are in the report.
pub async fn warm(
    cache: Arc<DiskCache>,
    source: Arc<dyn Source>,
    request: &WarmRequest,
    progress: Arc<WarmProgress>,
) -> Result<WarmReport, StoreError> {
    let ranges = Semaphore::new(request.ranges.max(1));
    let warming = Arc::new(WarmContext { cache, source, ranges, progress });
    let mut list =
        ListRequest { bucket: request.bucket.clone(), prefix: request.prefix.clone(), ..ListRequest::default() };
    let mut objects = JoinSet::new();
    loop {
        let page = warming.source.list(&list, Urgency::ReadAhead).await?;
        for listed in page.objects {
            if warming.has_ended() {
                break;
            }
            while objects.len() >= OBJECTS {
                objects.join_next().await;
            }
            objects.spawn(Arc::clone(&warming).object(request.bucket.clone(), listed));
        }
        list.continuation = page.continuation;
        if list.continuation.is_none() || warming.has_ended() {
            break;
        }
    }
    while objects.join_next().await.is_some() {}
    Ok(warming.progress.report())
}

impl WarmContext {
    fn has_ended(&self) -> bool {
        self.progress.no_room.load(Ordering::Relaxed)
    }

    async fn object(self: Arc<Self>, bucket: String, listed: ListedObject) {
        add(&self.progress.objects, 1);
        add(&self.progress.bytes, listed.size);
        if let Some(refusal) = &listed.refusal {
            return self.progress.fail(&listed.key, refusal.message.clone());
        }
        if listed.etag.is_empty() && listed.size > 0 {
            return self.progress.fail(&listed.key, "the service gives no ETag: its version is unknown".to_owned());
        }
        let object = ObjectVersion {
            endpoint: self.source.endpoint().into(),
            bucket: bucket.into(),
            key: listed.key.into(),
            pin: VersionPin::Etag(listed.etag.into()),
            size: listed.size,
        };
        let object = Arc::new(object);
        let (cache, checked) = (Arc::clone(&self.cache), Arc::clone(&object));
        let looking = move || cache.present(&checked, 0, block_count(checked.size));
        let present = tokio::task::spawn_blocking(looking).await.unwrap_or_default();
        let there = |block: &usize| present[*block];
        let bytes = |block: usize| crate::block_length(object.size, block as u64) as u64;
        add(&self.progress.present, (0..present.len()).filter(there).map(bytes).sum());
        let mut fetches = JoinSet::new();
        for blocks in missing(&present) {
            // Waits here, so that one object of many ranges does not fill the memory with tasks.
            while fetches.len() >= OBJECTS {
                fetches.join_next().await;
            }
            fetches.spawn(Arc::clone(&self).range(Arc::clone(&object), blocks));
        }
        let mut failure = None;
        while let Some(fetched) = fetches.join_next().await {
            failure = failure.or(fetched.unwrap_or_else(|error| Err(error.to_string())).err());
        }
        if let Some(reason) = failure {
            self.progress.fail(&object.key, reason);
        }
    }

    /// Fetch a run of blocks and write each when it is complete. A body that breaks is requested again from the block
    /// it reached.
    async fn range(self: Arc<Self>, object: Arc<ObjectVersion>, blocks: Blocks<u64>) -> Result<(), String> {
        let _permit: SemaphorePermit<'_> = self.ranges.acquire().await.map_err(|error| error.to_string())?;
        let (mut block, mut breaks) = (blocks.start, 0);
        while block < blocks.end {
            if self.has_ended() {
                return Err(NO_ROOM.to_owned());
            }
            let before = block;
            let broken = self.attempt(&object, &mut block, blocks.end).await?;
            breaks = if block > before { 0 } else { breaks + 1 };
            if let Some(reason) = broken.filter(|_| breaks >= BREAKS) {
                return Err(reason);
            }
        }
        Ok(())
    }

    /// One request for the blocks from `block` on, which moves with them. Returns why the body ended early, if it did.
    async fn attempt(&self, object: &Arc<ObjectVersion>, block: &mut u64, end: u64) -> Result<Option<String>, String> {
        let range = Range { first: *block * BLOCK_SIZE, last: object.size.min(end * BLOCK_SIZE) - 1 };
        let answer = self.source.get(object, None, range, Urgency::ReadAhead).await;
        let mut body = answer.map_err(|error| error.to_string())?.bytes;
        let mut partial = BytesMut::new();
        while let Some(chunk) = body.next().await {
            match chunk {
                Ok(chunk) => partial.extend_from_slice(&chunk),
                Err(error) => return Ok(Some(error.to_string())),
            }
            while *block < end && partial.len() >= crate::block_length(object.size, *block) {
                let bytes = partial.split_to(crate::block_length(object.size, *block)).freeze();
                self.keep(object, *block, bytes).await?;
                *block += 1;
            }
        }
        Ok((*block < end).then(|| "the answer ended before the end of the range".to_owned()))
    }

    async fn keep(&self, object: &Arc<ObjectVersion>, block: u64, bytes: Bytes) -> Result<(), String> {
        let (cache, object, len) = (Arc::clone(&self.cache), Arc::clone(object), bytes.len() as u64);
        let fill = tokio::task::spawn_blocking(move || {
            let fill = || cache.fill(&object, block, &bytes, Admission::Always);
            match fill() {
                // The evictor of this process may not have come to it yet.
                Fill::NoRoom => {
                    let _ = cache.evict();
                    fill()
                }
                // An evictor looks at the object for a moment.
                Fill::Busy => fill(),
                other => other,
            }
        });
        match fill.await.map_err(|error| error.to_string())? {
            Fill::Stored => {
                add(&self.progress.fetched, len);
                Ok(())
            }
            Fill::AlreadyThere => Ok(()),
            Fill::NoRoom => {
                self.progress.no_room.store(true, Ordering::Relaxed);
                Err(NO_ROOM.to_owned())
            }
            _ => Err(self.cache.take_notes().pop().unwrap_or_else(|| "the cache cannot be written".to_owned())),
        }
    }
}

const NO_ROOM: &str = "the cache has no room";

/// Runs of absent blocks, each of at most [`RANGE`] bytes.
fn missing(present: &[bool]) -> Vec<Blocks<u64>> {
    let mut runs: Vec<Blocks<u64>> = Vec::new();
    for (block, _) in present.iter().enumerate().filter(|(_, there)| !**there) {
        let block = block as u64;
        match runs.last_mut() {
            Some(run) if run.end == block && run.end - run.start < RANGE / BLOCK_SIZE => run.end += 1,
            _ => runs.push(block..block + 1),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_blocks_are_fetched_in_runs() {
        assert_eq!(missing(&[]), []);
        assert_eq!(missing(&[true, false, false, true, false]), [1..3, 4..5]);
        assert_eq!(missing(&[false; 130]), [0..64, 64..128, 128..130]);
    }
}
