//! Fetches: blocks on their way, from the tier below or from the service, shared by all reads that need them.
//!
//! A block is fetched by at most one fetch at a time. A fetch is cancelled when its last `FetchGuard` is dropped. A
//! body that breaks is requested again from the first missing block. Bytes of another version are rejected.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use bytes::Bytes;
use futures::StreamExt as _;
use seqferry_client::reading::Resumption;
use seqferry_store::error::classify::code;
use seqferry_store::{ErrorClass, ObjectMeta, Range, StoreError};
use tokio::sync::{OnceCell, watch};
use tracing::{Instrument as _, debug_span};

use crate::access::AccessCache;
use crate::ahead::AheadUse;
use crate::block::{Block, BlockKey, PoolReservation, share};
use crate::in_flight::{Fetch, FetchError, FetchWaiter};
use crate::link::LinkMeter;
use crate::pool::{BlockSlot, Pool};
use crate::source::{BlockTier, Source, Urgency};
use crate::version::{BLOCK_SIZE, ObjectVersion, VersionDigest, VersionPin, block_length};

/// Longest gap between missing blocks, in blocks, that is fetched along: another request costs more than 256 KiB.
pub(crate) const MAX_GAP: u64 = 2;

/// Blocks that the tier below loads at a time: 1 MiB, so that handing work to its thread costs little.
const TIER_RUN: usize = 8;

/// Breaks of a body in a row, without a block gained, after which the read fails. Each request is retried below.
const MAX_BREAKS: u32 = 5;

/// An object as it is read: its version, and what answers have said about it.
#[derive(Debug)]
pub struct OpenObject {
    /// The version.
    pub version: ObjectVersion,
    pub(crate) digest: VersionDigest,
    version_id: OnceLock<String>,
    meta: OnceLock<ObjectMeta>,
    /// Set once the service has let this identity read the version.
    access: OnceCell<()>,
}

/// Returns true when an answer is about this version.
pub(crate) fn is_version(version: &ObjectVersion, meta: &ObjectMeta) -> bool {
    let is_pinned = match &version.pin {
        VersionPin::Etag(etag) => etag.is_empty() || meta.etag.is_empty() || **etag == *meta.etag,
        VersionPin::VersionId(id) => meta.version_id.as_deref().is_none_or(|other| *other == **id),
    };
    is_pinned && meta.size == version.size
}

impl OpenObject {
    /// An object that nothing was asked about yet.
    pub fn new(version: ObjectVersion) -> Arc<Self> {
        let digest = version.digest();
        Arc::new(Self { version, digest, version_id: OnceLock::new(), meta: OnceLock::new(), access: OnceCell::new() })
    }

    /// Attributes of the object that came with its bytes; None before the first answer.
    pub fn meta(&self) -> Option<&ObjectMeta> {
        self.meta.get()
    }

    pub(crate) fn key(&self, block: u64) -> BlockKey {
        BlockKey { version: self.digest, block }
    }

    pub(crate) fn block_length(&self, block: u64) -> usize {
        block_length(self.version.size, block)
    }

    /// Bytes that blocks take from the pool.
    pub(crate) fn shares(&self, blocks: impl Iterator<Item = u64>) -> u64 {
        blocks.map(|block| share(self.block_length(block))).sum()
    }

    /// Returns true when an answer is about this version.
    pub(crate) fn is_same(&self, meta: &ObjectMeta) -> bool {
        is_version(&self.version, meta)
    }

    /// An answer is about this version, or it is an error.
    fn check(&self, meta: &ObjectMeta) -> Result<(), StoreError> {
        if !self.is_same(meta) {
            let mut error = self.error("SourceChanged", "the service answered with another version of the object");
            error.class = ErrorClass::Precondition;
            return Err(error);
        }
        if let Some(id) = meta.version_id.as_ref().filter(|id| *id != "null") {
            let _first = self.version_id.set(id.clone());
        }
        self.meta.get_or_init(|| meta.clone());
        Ok(())
    }

    fn error(&self, code: &str, message: &str) -> StoreError {
        StoreError::new("GetObject", &self.version.bucket, Some(&self.version.key), code, None).with_message(message)
    }
}

/// Source, tier and pool of all blocks, with the counters of fetches.
#[derive(Debug)]
pub(crate) struct Origin {
    pub(crate) source: Arc<dyn Source>,
    pub(crate) tier: Option<Arc<dyn BlockTier>>,
    pub(crate) pool: Arc<Pool>,
    pub(crate) counters: FetchCounters,
    pub(crate) proofs: AccessCache,
    pub(crate) meter: LinkMeter,
}

impl Origin {
    /// Make sure that this identity may read the version before bytes are shown that came without an answer of the
    /// service: one GET of its first byte for each open, and none while an earlier answer holds.
    pub(crate) async fn check_access(&self, object: &OpenObject, priority: Urgency) -> Result<(), StoreError> {
        let prove = async || {
            if object.version.size == 0 || self.proofs.holds(object.digest) {
                return Ok(());
            }
            self.counters.requests.fetch_add(1, Ordering::Relaxed);
            let version_id = object.version_id.get().map(String::as_str);
            let first = Range { first: 0, last: 0 };
            let answer = self.source.get(&object.version, version_id, first, priority).await?;
            object.check(&answer.meta)?;
            self.counters.bytes.fetch_add(1, Ordering::Relaxed);
            self.proofs.add(object.digest);
            Ok(())
        };
        object.access.get_or_try_init(prove).await?;
        Ok(())
    }
}

/// Counters of fetches so far.
#[derive(Debug, Default)]
pub(crate) struct FetchCounters {
    pub(crate) requests: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) tier_blocks: AtomicU64,
}

/// Plan of one fetch: adjacent blocks of an object, within the memory that was reserved for them.
pub(crate) struct FetchPlan {
    pub(crate) object: Arc<OpenObject>,
    pub(crate) blocks: std::ops::Range<u64>,
    pub(crate) memory: PoolReservation,
    pub(crate) priority: Urgency,
    /// The reader that the blocks are fetched ahead of. None: the fetch is not read-ahead.
    pub(crate) ahead: Option<Arc<AheadUse>>,
}

/// Begin a fetch. The caller holds the lock of the blocks and has made sure that none of these is there or on its way.
pub(crate) fn begin(origin: &Arc<Origin>, slots: &mut crate::pool::BlockTable, plan: FetchPlan) -> FetchWaiter {
    let count = usize::try_from(plan.blocks.end - plan.blocks.start).unwrap_or(0);
    let fetch = Arc::new(Fetch {
        first: plan.blocks.start,
        blocks: (0..count).map(|_| OnceLock::new()).collect(),
        progress: watch::Sender::new(None),
        control: Arc::default(),
    });
    for block in plan.blocks.clone() {
        // A gap that is fetched along may hold blocks that are there: those stay.
        slots.slots.entry(plan.object.key(block)).or_insert_with(|| BlockSlot::Fetching(Arc::clone(&fetch)));
    }
    let interest = FetchWaiter::new(&fetch);
    let run = FetchRun {
        origin: Arc::clone(origin),
        fetch,
        memory: Mutex::new(plan.memory),
        plan: FetchRunPlan { object: plan.object, priority: plan.priority, ahead: plan.ahead },
    };
    let span = debug_span!("fetch", key = &*run.plan.object.version.key, block = run.fetch.first, blocks = count);
    tokio::spawn(run.run().instrument(span));
    interest
}

struct FetchRunPlan {
    object: Arc<OpenObject>,
    priority: Urgency,
    ahead: Option<Arc<AheadUse>>,
}

/// A fetch that is under way. When it ends, however that is, no slot points to it any more.
struct FetchRun {
    origin: Arc<Origin>,
    fetch: Arc<Fetch>,
    memory: Mutex<PoolReservation>,
    plan: FetchRunPlan,
}

impl FetchRun {
    async fn run(self) {
        let broken = tokio::select! {
            biased;
            () = self.fetch.control.cancel.cancelled() => Some(FetchError::Cancelled),
            outcome = self.fetch_all() => outcome.err().map(FetchError::Failed),
        };
        self.end(broken);
    }

    /// Take what has not come out of the table, and wake the waiting reads.
    fn end(&self, broken: Option<FetchError>) {
        {
            let mut blocks = self.origin.pool.lock();
            for index in 0..self.fetch.blocks.len() {
                let key = self.plan.object.key(self.fetch.number(index));
                let is_mine = matches!(blocks.slots.get(&key), Some(BlockSlot::Fetching(fetch)) if Arc::ptr_eq(fetch, &self.fetch));
                if is_mine {
                    blocks.slots.remove(&key);
                }
            }
        }
        if !self.fetch.is_complete() {
            let broken = broken.unwrap_or(FetchError::Cancelled);
            self.fetch.progress.send_if_modified(|state| {
                let is_first = state.is_none();
                state.get_or_insert(broken);
                is_first
            });
        }
    }

    async fn fetch_all(&self) -> Result<(), StoreError> {
        self.load_from_tier().await?;
        let mut resumption = Resumption::new(MAX_BREAKS);
        while let Some(missing) = self.next_missing() {
            let before = self.count();
            if let Err(error) = self.fetch_range(&missing).await {
                tokio::time::sleep(resumption.pause(error, self.count() > before)?).await;
            }
        }
        Ok(())
    }

    fn count(&self) -> usize {
        self.fetch.blocks.iter().filter(|block| block.get().is_some()).count()
    }

    async fn load_from_tier(&self) -> Result<(), StoreError> {
        let Some(tier) = &self.origin.tier else { return Ok(()) };
        for first in (0..self.fetch.blocks.len()).step_by(TIER_RUN) {
            let count = TIER_RUN.min(self.fetch.blocks.len() - first) as u64;
            let loaded = tier.load(&self.plan.object.version, self.fetch.number(first), count).await;
            for (index, bytes) in (first..).zip(loaded) {
                let length = self.plan.object.block_length(self.fetch.number(index));
                if let Some(bytes) = bytes.filter(|bytes| bytes.len() == length) {
                    self.origin.check_access(&self.plan.object, self.plan.priority).await?;
                    self.origin.counters.tier_blocks.fetch_add(1, Ordering::Relaxed);
                    self.put(index, bytes);
                }
            }
        }
        Ok(())
    }

    /// The next run of blocks that have not come; short gaps between them are fetched along.
    fn next_missing(&self) -> Option<std::ops::Range<usize>> {
        let is_missing = |index: &usize| self.fetch.blocks[*index].get().is_none();
        let all = 0..self.fetch.blocks.len();
        let start = all.clone().find(is_missing)?;
        let mut end = start + 1;
        for index in start + 1..all.end {
            if is_missing(&index) {
                if (index - end) as u64 > MAX_GAP {
                    break;
                }
                end = index + 1;
            }
        }
        Some(start..end)
    }

    async fn fetch_range(&self, blocks: &std::ops::Range<usize>) -> Result<(), StoreError> {
        let object = &self.plan.object;
        let (first, last) = (self.fetch.number(blocks.start), self.fetch.number(blocks.end - 1));
        let end = last * BLOCK_SIZE + object.block_length(last) as u64;
        let range = Range { first: first * BLOCK_SIZE, last: end - 1 };
        self.origin.counters.requests.fetch_add(1, Ordering::Relaxed);
        let version_id = object.version_id.get().map(String::as_str);
        let request = self.origin.meter.send();
        let answer = self.origin.source.get(&object.version, version_id, range, self.plan.priority).await?;
        request.begun();
        object.check(&answer.meta)?;
        self.origin.proofs.add(object.digest);
        let mut bytes = answer.bytes;
        let mut rest = Bytes::new();
        for index in blocks.clone() {
            let length = object.block_length(self.fetch.number(index));
            let mut block = Vec::with_capacity(length);
            while block.len() < length {
                if rest.is_empty() {
                    let Some(chunk) = bytes.next().await else {
                        return Err(object.error(code::TRUNCATED, "the body ended early"));
                    };
                    rest = chunk?;
                    self.origin.counters.bytes.fetch_add(rest.len() as u64, Ordering::Relaxed);
                    request.received(rest.len() as u64);
                }
                block.extend_from_slice(&rest.split_to(rest.len().min(length - block.len())));
            }
            let block = Bytes::from(block);
            if let Some(tier) = &self.origin.tier {
                tier.keep(&object.version, self.fetch.number(index), &block);
            }
            self.put(index, block);
        }
        Ok(())
    }

    /// A block has arrived: hand it to waiting reads and put it into the table.
    fn put(&self, index: usize, bytes: Bytes) {
        let number = self.fetch.number(index);
        let memory = {
            let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
            memory.split(share(bytes.len()))
        };
        let block = Block::new(bytes, memory, self.plan.ahead.clone());
        if self.fetch.blocks[index].set(Arc::clone(&block)).is_err() {
            return;
        }
        {
            let mut blocks = self.origin.pool.lock();
            let key = self.plan.object.key(number);
            if !matches!(blocks.slots.get(&key), Some(BlockSlot::Ready(_))) {
                blocks.add_ready(key, block);
            }
        }
        self.origin.pool.serve_waiting();
        self.fetch.progress.send_modify(|_| ());
    }
}
