//! The cache below the memory of a reader: file I/O on threads of its own, and a bounded queue of blocks to keep.
//!
//! Reads wait for the disk on blocking threads, a bounded number concurrently. Blocks to keep go through one queue to a
//! writer thread; when it is full they are dropped, so that a slow disk never holds up the network. Long single passes
//! over an object are recognised by their blocks and passed by.

use std::collections::HashMap;
use std::fmt;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::sync::{Semaphore, oneshot};
use tracing::debug_span;

use super::{Admission, DiskCache, add, lock};
use crate::source::{BlockTier, TierUse};
use crate::version::{BLOCK_SIZE, ObjectVersion, VersionDigest};

/// Bounds of a [`CacheTier`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TierOptions {
    /// Concurrent reads of the disk: enough for a solid-state disk to be busy.
    pub reads: usize,
    /// Blocks that wait to be written: 256 are 32 MiB of memory.
    pub queued: usize,
}

impl Default for TierOptions {
    fn default() -> Self {
        Self { reads: 16, queued: 256 }
    }
}

/// A [`DiskCache`] for asynchronous readers.
pub struct CacheTier {
    cache: Arc<DiskCache>,
    reads: Semaphore,
    queue: Mutex<Option<SyncSender<WriterCommand>>>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

/// Command to the writer thread.
enum WriterCommand {
    Keep { object: ObjectVersion, block: u64, bytes: Bytes },
    Flush(oneshot::Sender<()>),
}

impl fmt::Debug for CacheTier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CacheTier").field("cache", &self.cache).finish_non_exhaustive()
    }
}

impl CacheTier {
    /// A tier over this cache.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn new(cache: Arc<DiskCache>, options: TierOptions) -> std::io::Result<Self> {
        let (sender, receiver) = sync_channel(options.queued);
        let writing = Arc::clone(&cache);
        let writer = std::thread::Builder::new().name("cache-writer".to_owned());
        let writer = writer.spawn(move || write(&writing, &receiver))?;
        Ok(Self {
            cache,
            reads: Semaphore::new(options.reads),
            queue: Mutex::new(Some(sender)),
            writer: Mutex::new(Some(writer)),
        })
    }

    /// The cache itself.
    pub fn cache(&self) -> &Arc<DiskCache> {
        &self.cache
    }

    /// Wait until all blocks that were handed over so far are written or dropped.
    pub async fn flush(&self) {
        let (done, written) = oneshot::channel();
        let Some(queue) = lock(&self.queue).clone() else { return };
        if tokio::task::spawn_blocking(move || queue.send(WriterCommand::Flush(done))).await.is_ok() {
            let _ = written.await;
        }
    }
}

#[async_trait]
impl BlockTier for CacheTier {
    async fn load(&self, version: &ObjectVersion, first: u64, count: u64) -> Vec<Option<Bytes>> {
        let span = debug_span!("cache_read", key = &*version.key, block = first, blocks = count, hits = 0);
        let Ok(_permit) = self.reads.acquire().await else { return Vec::new() };
        let (cache, version) = (Arc::clone(&self.cache), version.clone());
        let read = tokio::task::spawn_blocking(move || cache.read(&version, first, count));
        let blocks = read.await.unwrap_or_default();
        span.record("hits", blocks.iter().flatten().count());
        blocks
    }

    fn keep(&self, version: &ObjectVersion, block: u64, bytes: &Bytes) {
        let work = WriterCommand::Keep { object: version.clone(), block, bytes: bytes.clone() };
        if let Some(queue) = &*lock(&self.queue)
            && let Err(TrySendError::Full(_)) = queue.try_send(work)
        {
            add(&self.cache.shared.counters.dropped, 1);
        }
    }

    fn usage(&self) -> TierUse {
        TierUse { used: self.cache.stats().used, limit: self.cache.limits().max_size }
    }
}

impl Drop for CacheTier {
    fn drop(&mut self) {
        // The writer ends when it has written what is queued.
        lock(&self.queue).take();
        if let Some(writer) = lock(&self.writer).take() {
            let _ = writer.join();
        }
    }
}

fn write(cache: &DiskCache, queue: &Receiver<WriterCommand>) {
    let mut passes = PassTracker::default();
    for work in queue {
        match work {
            WriterCommand::Keep { object, block, bytes } => {
                let admission = passes.note(&object, block);
                cache.fill(&object, block, &bytes, admission);
            }
            WriterCommand::Flush(done) => {
                let _ = done.send(());
            }
        }
    }
}

/// Blocks between which reading counts as one pass: windows of read-ahead arrive out of order, 96 MiB at the most.
const REACH: u64 = (128 << 20) / BLOCK_SIZE;
/// Passes that are followed concurrently.
const FOLLOWED: usize = 256;

/// Recognises passes over objects from the blocks that arrive.
#[derive(Debug, Default)]
struct PassTracker {
    /// First and highest block of the pass, and when it was seen last.
    passes: HashMap<VersionDigest, (u64, u64, u64)>,
    seen: u64,
}

impl PassTracker {
    fn note(&mut self, object: &ObjectVersion, block: u64) -> Admission {
        self.seen += 1;
        let digest = object.digest();
        if self.passes.len() >= FOLLOWED && !self.passes.contains_key(&digest) {
            let oldest = self.passes.iter().min_by_key(|(_, (_, _, seen))| *seen).map(|(digest, _)| *digest);
            if let Some(oldest) = oldest {
                self.passes.remove(&oldest);
            }
        }
        let (first, highest, seen) = self.passes.entry(digest).or_insert((block, block, 0));
        if block.saturating_add(REACH) < *highest || block > highest.saturating_add(REACH) {
            (*first, *highest) = (block, block);
        }
        *first = block.min(*first);
        *highest = block.max(*highest);
        *seen = self.seen;
        Admission::Stream { passed: (*highest - *first + 1) * BLOCK_SIZE }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::version::VersionPin;

    fn object(key: &str) -> ObjectVersion {
        let (endpoint, bucket) = ("e".into(), "b".into());
        ObjectVersion { endpoint, bucket, key: key.into(), pin: VersionPin::Etag("t".into()), size: u64::MAX }
    }

    #[test]
    fn a_pass_grows_out_of_order_and_ends_with_a_jump() {
        let mut passes = PassTracker::default();
        let mut blocks_after = |block| match passes.note(&object("a"), block) {
            Admission::Stream { passed } => passed / BLOCK_SIZE,
            Admission::Always => 0,
        };
        assert_eq!(blocks_after(100), 1);
        assert_eq!(blocks_after(103), 4);
        assert_eq!(blocks_after(101), 4);
        assert_eq!(blocks_after(100 + REACH), REACH + 1);
        assert_eq!(blocks_after(10_000_000), 1);
        assert_eq!(blocks_after(100), 1);
    }

    #[test]
    fn the_passes_that_are_followed_are_bounded() {
        let mut passes = PassTracker::default();
        for number in 0..2 * FOLLOWED {
            passes.note(&object(&number.to_string()), 0);
        }
        assert_eq!(passes.passes.len(), FOLLOWED);
    }
}
