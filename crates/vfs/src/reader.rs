//! Reading: open handles, their cursors, and the plan of what to fetch for each read.
//!
//! A read is answered from blocks in memory, blocks on their way and blocks that it has fetched, in one plan. Adjacent
//! missing blocks become one request. A handle follows up to four places at which a program reads on, and reads ahead
//! of each by as much as proved useful. A handle at rest holds no memory of the pool.

mod random_reads;
mod read_ahead;

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;

use crate::access::AccessCache;
use crate::ahead::AheadUse;
use crate::block::{Block, PoolReservation};
use crate::error::{Result, VfsError};
use crate::fetch::{self, FetchCounters, FetchPlan, MAX_GAP, OpenObject, Origin};
use crate::in_flight::{FetchError, FetchGuard, FetchWaiter};
use crate::link::LinkMeter;
use crate::pool::{BlockSlot, BlockTable, Pool, PoolUse};
use crate::source::{BlockTier, Source, TierUse, Urgency};
use crate::version::{BLOCK_SIZE, ObjectVersion};
use random_reads::RandomReads;
pub(crate) use read_ahead::Pattern;
use read_ahead::{Cursors, ReadStep};

/// Share of the memory that one window may take.
const WINDOW_SHARE: u64 = 4;
/// Blocks of one request for an object that is fetched as a whole: 8 MiB.
const WHOLE_RANGE: usize = 64;

/// Objects up to this size are fetched whole with the first read: one request.
pub const WHOLE_OBJECT: u64 = 1 << 20;

/// Rounds of a read, which starts over when blocks that it counted on have gone. Each time another read continued.
const ROUNDS: u32 = 1000;

/// Reads objects in blocks.
#[derive(Debug)]
pub struct Reader {
    origin: Arc<Origin>,
    wanted: AtomicU64,
    hits: AtomicU64,
    misses: AtomicU64,
}

/// Counters of reads and fetches so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadStats {
    /// Bytes that programs have requested.
    pub bytes_wanted: u64,
    /// Bytes that came from the service.
    pub bytes_fetched: u64,
    /// GET requests.
    pub requests: u64,
    /// Blocks that were in memory when they were requested.
    pub block_hits: u64,
    /// Blocks that had to be waited for.
    pub block_misses: u64,
    /// Blocks that came from the tier below the memory.
    pub tier_blocks: u64,
    /// Use of the pool.
    pub pool: PoolUse,
    /// Use of the tier below the memory.
    pub tier: TierUse,
}

/// An object that is open for reading.
#[derive(Debug)]
pub struct ReadHandle {
    object: Arc<OpenObject>,
    cursors: Mutex<Cursors>,
    random: Mutex<RandomReads>,
}

impl ReadHandle {
    /// A handle at rest.
    pub fn new(object: Arc<OpenObject>) -> Self {
        Self::with_pattern(object, Pattern::Unknown)
    }

    /// An unused handle of an object that is likely to be read with this pattern.
    pub(crate) fn with_pattern(object: Arc<OpenObject>, pattern: Pattern) -> Self {
        Self { object, cursors: Mutex::new(Cursors::new(pattern)), random: Mutex::default() }
    }

    /// The same handle, for an inode whose pages an interface can keep.
    #[must_use]
    pub(crate) fn with_pages(self, inode: u64) -> Self {
        Self { random: Mutex::new(RandomReads::with_pages(inode)), ..self }
    }

    /// The object.
    pub fn object(&self) -> &Arc<OpenObject> {
        &self.object
    }
}

/// The answer to a read: slices of blocks in order, and zeros for the holes of sparse files.
#[derive(Debug, Default)]
pub struct Slices(Vec<Slice>);

#[derive(Debug)]
enum Slice {
    Block(Arc<Block>, Range<usize>),
    Copy(Bytes),
    Zeros(usize),
}

/// Zeros for the holes of sparse files.
static ZEROS: [u8; 128 << 10] = [0; 128 << 10];

impl Slice {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Block(block, range) => &block.bytes()[range.clone()],
            Self::Copy(bytes) => bytes,
            Self::Zeros(len) => &ZEROS[..*len],
        }
    }
}

impl Slices {
    /// The slices.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().map(Slice::bytes)
    }

    /// Bytes in all slices.
    pub fn len(&self) -> usize {
        self.iter().map(<[u8]>::len).sum()
    }

    /// Returns true when the read was past the end.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All bytes in one piece.
    pub fn to_bytes(&self) -> Bytes {
        if let [Slice::Block(block, range)] = self.0.as_slice() {
            return block.bytes().slice(range.clone());
        }
        let mut all = Vec::with_capacity(self.len());
        for slice in self.iter() {
            all.extend_from_slice(slice);
        }
        all.into()
    }

    /// Let a copy of other slices follow: a read that waits for more must not hold blocks of the pool.
    pub(crate) fn push_copy(&mut self, others: &Self) {
        self.0.extend(others.iter().map(|slice| Slice::Copy(Bytes::copy_from_slice(slice))));
    }

    /// Let zeros follow.
    pub(crate) fn push_zeros(&mut self, mut len: u64) {
        while len > 0 {
            let step = usize::try_from(len).unwrap_or(usize::MAX).min(ZEROS.len());
            self.0.push(Slice::Zeros(step));
            len -= step as u64;
        }
    }
}

/// A block that a read needs.
enum NeededBlock {
    Ready(Arc<Block>),
    Coming(FetchWaiter, u64),
}

impl Reader {
    /// A reader that fetches from `source` into `pool`, with an optional tier of blocks between them.
    pub fn new(source: Arc<dyn Source>, pool: Arc<Pool>, tier: Option<Arc<dyn BlockTier>>) -> Arc<Self> {
        Self::with_lifetime(source, pool, tier, Some(Duration::ZERO))
    }

    /// A reader that believes for `lifetime` (None: for as long as it lives) that it may read what the service has let
    /// it read: bytes of the tier are shown without another request meanwhile.
    pub fn with_lifetime(
        source: Arc<dyn Source>,
        pool: Arc<Pool>,
        tier: Option<Arc<dyn BlockTier>>,
        lifetime: Option<Duration>,
    ) -> Arc<Self> {
        let proofs = AccessCache::new(lifetime);
        let origin = Arc::new(Origin {
            source,
            tier,
            pool,
            counters: FetchCounters::default(),
            proofs,
            meter: LinkMeter::default(),
        });
        Arc::new(Self { origin, wanted: AtomicU64::new(0), hits: AtomicU64::new(0), misses: AtomicU64::new(0) })
    }

    /// Counters of reads and fetches so far.
    pub fn stats(&self) -> ReadStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ReadStats {
            bytes_wanted: read(&self.wanted),
            bytes_fetched: read(&self.origin.counters.bytes),
            requests: read(&self.origin.counters.requests),
            block_hits: read(&self.hits),
            block_misses: read(&self.misses),
            tier_blocks: read(&self.origin.counters.tier_blocks),
            pool: self.origin.pool.usage(),
            tier: self.origin.tier.as_ref().map(|tier| tier.usage()).unwrap_or_default(),
        }
    }

    pub(crate) fn pool(&self) -> &Arc<Pool> {
        &self.origin.pool
    }

    /// Make sure that this identity may read an object, before something of it is shown that was kept on a disk.
    ///
    /// # Errors
    /// `Stale` when the service no longer has this version; else why it may not be read.
    pub async fn check_access(&self, object: &OpenObject) -> Result<()> {
        self.origin.check_access(object, Urgency::Demand).await.map_err(gone_is_stale)
    }

    /// Open a version.
    pub fn open(&self, version: ObjectVersion) -> ReadHandle {
        ReadHandle::new(OpenObject::new(version))
    }

    /// Read up to `length` bytes at `offset`; fewer only at the end of the object. Waits for memory and never fails for
    /// want of it. Dropping the future gives the read up.
    ///
    /// # Errors
    /// `Stale` when the service no longer has this version; else why the service did not answer.
    pub async fn read(&self, handle: &ReadHandle, offset: u64, length: usize) -> Result<Slices> {
        let object = &handle.object;
        let end = object.version.size.min(offset.saturating_add(length as u64));
        if offset >= end {
            return Ok(Slices::default());
        }
        self.wanted.fetch_add(end - offset, Ordering::Relaxed);
        let wanted = offset / BLOCK_SIZE..end.div_ceil(BLOCK_SIZE);
        // Before the read itself: what it lacks is one request with what is read ahead.
        let mut around = self.read_ahead(handle, offset, end, &wanted);
        for _ in 0..ROUNDS {
            let needs = self.plan(object, &wanted).await;
            if std::mem::take(&mut around) {
                self.fetch_around(handle, &wanted);
            }
            let count = |counter: &AtomicU64, blocks: usize| counter.fetch_add(blocks as u64, Ordering::Relaxed);
            let ready = needs.iter().filter(|need| matches!(need, NeededBlock::Ready(_))).count();
            count(&self.hits, ready);
            count(&self.misses, needs.len() - ready);
            match collect(needs).await {
                Ok(blocks) => return Ok(slices(blocks, &wanted, offset, end)),
                Err(FetchError::Cancelled) => {}
                Err(FetchError::Failed(error)) => return Err(gone_is_stale(error)),
            }
        }
        let message = "the read started over too often";
        Err(VfsError::Failed(
            seqferry_store::StoreError::new(
                "GetObject",
                &object.version.bucket,
                Some(&object.version.key),
                "Busy",
                None,
            )
            .with_message(message),
        ))
    }

    /// Have the blocks of a read, or have them on their way.
    async fn plan(&self, object: &Arc<OpenObject>, wanted: &Range<u64>) -> Vec<NeededBlock> {
        let pool = &self.origin.pool;
        let mut memory = None;
        let mut reserved = 0;
        loop {
            let needed = {
                let mut blocks = pool.lock();
                let runs = missing_runs(&blocks, object, wanted);
                let needed: u64 = runs.iter().map(|run| object.shares(run.clone())).sum();
                if needed <= reserved {
                    let mut started = Vec::new();
                    for run in runs {
                        let Some(memory) = memory
                            .as_mut()
                            .and_then(|memory: &mut PoolReservation| memory.split(object.shares(run.clone())))
                        else {
                            continue;
                        };
                        let plan = FetchPlan {
                            object: Arc::clone(object),
                            blocks: run,
                            memory,
                            priority: Urgency::Demand,
                            ahead: None,
                        };
                        started.push(fetch::begin(&self.origin, &mut blocks, plan));
                    }
                    let needs = wanted.clone().filter_map(|block| match blocks.slots.get(&object.key(block)) {
                        Some(BlockSlot::Ready(block)) => Some(NeededBlock::Ready(Arc::clone(block))),
                        Some(BlockSlot::Fetching(fetch)) => Some(NeededBlock::Coming(FetchWaiter::new(fetch), block)),
                        None => None,
                    });
                    let needs = needs.collect();
                    drop(blocks);
                    // Each block that is wanted has an interest of its own now; those in gaps need none.
                    drop(started);
                    return needs;
                }
                needed
            };
            // Nothing is held while this waits: what was reserved before goes back first.
            drop(memory.take());
            memory = Some(pool.reserve(needed).await);
            reserved = needed;
        }
    }

    /// Follow the program, and fetch ahead of it along with what it lacks. Returns true for a read that misses at a
    /// place of its own.
    fn read_ahead(&self, handle: &ReadHandle, offset: u64, end: u64, wanted: &Range<u64>) -> bool {
        let object = &handle.object;
        let read = ReadStep {
            offset,
            end,
            waits: !self.has_blocks(object, wanted),
            size: object.version.size,
            most: self.origin.pool.capacity() / WINDOW_SHARE,
        };
        let mut cursors = handle.cursors.lock().unwrap_or_else(PoisonError::into_inner);
        let followed = cursors.follow(&read);
        let misses = followed.is_new && read.waits;
        let Some(ahead) = followed.plan else { return misses };
        let mut begin = ahead.blocks.start;
        while begin < ahead.blocks.end {
            let stop = (begin + ahead.range).min(ahead.blocks.end);
            let priority = if begin < wanted.end { Urgency::Demand } else { Urgency::ReadAhead };
            let Ok(guards) = self.fetch_ahead(object, begin..stop, priority, &ahead.ahead_use) else {
                cursors.cut_short(ahead.cursor, begin);
                break;
            };
            cursors.hold(ahead.cursor, guards);
            begin = stop;
        }
        misses
    }

    /// Fetch around a read that has missed at a place of its own, as far as that is useful and there is memory for it.
    fn fetch_around(&self, handle: &ReadHandle, wanted: &Range<u64>) {
        let object = &handle.object;
        let mut random = handle.random.lock().unwrap_or_else(PoisonError::into_inner);
        let length = random.miss(self.origin.meter.link(self.origin.source.max_bandwidth()), wanted);
        if length == 0 {
            return;
        }
        let window = {
            let table = self.origin.pool.lock();
            random.window(wanted, length, object.version.blocks(), |block| table.slots.contains_key(&object.key(block)))
        };
        for range in random_reads::ranges(&window, wanted, length) {
            let blocks = range.end - range.start;
            match self.fetch_ahead(object, range, Urgency::ReadAhead, random.ahead_use()) {
                Ok(guards) => random.hold(blocks, guards),
                Err(()) => break,
            }
        }
    }

    /// Returns true when all of these blocks are in memory.
    fn has_blocks(&self, object: &OpenObject, wanted: &Range<u64>) -> bool {
        let blocks = self.origin.pool.lock();
        wanted.clone().all(|block| matches!(blocks.slots.get(&object.key(block)), Some(BlockSlot::Ready(_))))
    }

    /// Read blocks ahead, as far as there is memory for them.
    fn fetch_ahead(
        &self,
        object: &Arc<OpenObject>,
        blocks: Range<u64>,
        priority: Urgency,
        ahead: &Arc<AheadUse>,
    ) -> std::result::Result<Vec<FetchGuard>, ()> {
        let runs = missing_runs(&self.origin.pool.lock(), object, &blocks);
        let needed: u64 = runs.iter().map(|run| object.shares(run.clone())).sum();
        if needed == 0 {
            return Ok(Vec::new());
        }
        let mut memory = self.origin.pool.try_reserve(needed).ok_or(())?;
        let mut slots = self.origin.pool.lock();
        let mut guards = Vec::new();
        for run in missing_runs(&slots, object, &blocks) {
            let Some(memory) = memory.split(object.shares(run.clone())) else { break };
            let plan =
                FetchPlan { object: Arc::clone(object), blocks: run, memory, priority, ahead: Some(Arc::clone(ahead)) };
            guards.push(fetch::begin(&self.origin, &mut slots, plan).into_guard());
        }
        Ok(guards)
    }

    /// Fetch a small object that will probably be read next. The fetch continues while the returned value is kept. None
    /// where there is no memory for it, or nothing to fetch.
    pub fn prefetch(&self, object: &Arc<OpenObject>) -> Option<Prefetch> {
        let blocks = 0..object.version.blocks();
        let guards = self.fetch_ahead(object, blocks, Urgency::ReadAhead, &Arc::default()).ok()?;
        Some(Prefetch { _guards: guards })
    }

    /// Fetch all of an object of which much was read, in ranges concurrently; what there is no memory for is left out.
    /// None for an object that is larger than the memory for read-ahead. The fetches continue while the returned value is
    /// kept.
    pub fn prefetch_whole(&self, object: &Arc<OpenObject>) -> Option<Prefetch> {
        if object.version.size > self.origin.pool.ahead_capacity() {
            return None;
        }
        let mut guards = Vec::new();
        for first in (0..object.version.blocks()).step_by(WHOLE_RANGE) {
            let range = first..object.version.blocks().min(first + WHOLE_RANGE as u64);
            let Ok(more) = self.fetch_ahead(object, range, Urgency::ReadAhead, &Arc::default()) else { break };
            guards.extend(more);
        }
        Some(Prefetch { _guards: guards })
    }
}

/// A read-ahead fetch; it ends with this value.
#[derive(Debug)]
pub struct Prefetch {
    _guards: Vec<FetchGuard>,
}

/// Turns `NotFound` into `Stale`: a reader cannot distinguish an object that is gone from a replaced one. A lookup can.
fn gone_is_stale(error: seqferry_store::StoreError) -> VfsError {
    match VfsError::from(error) {
        VfsError::NotFound => VfsError::Stale,
        other => other,
    }
}

/// Missing blocks within `wanted` as runs to fetch: small objects whole, short gaps along with what is around them.
fn missing_runs(blocks: &BlockTable, object: &OpenObject, wanted: &Range<u64>) -> Vec<Range<u64>> {
    let is_missing = |block: &u64| !blocks.slots.contains_key(&object.key(*block));
    let is_ready = |block: u64| matches!(blocks.slots.get(&object.key(block)), Some(BlockSlot::Ready(_)));
    let mut runs: Vec<Range<u64>> = Vec::new();
    let is_small = object.version.size <= WHOLE_OBJECT;
    let span = if is_small && wanted.clone().any(|block| is_missing(&block)) {
        0..object.version.blocks()
    } else {
        wanted.clone()
    };
    for block in span.filter(is_missing) {
        match runs.last_mut() {
            Some(run) if block - run.end <= MAX_GAP && (run.end..block).all(is_ready) => run.end = block + 1,
            _ => runs.push(block..block + 1),
        }
    }
    runs
}

/// The blocks in order. The interests in later ones are kept while earlier ones are waited for.
async fn collect(needs: Vec<NeededBlock>) -> std::result::Result<Vec<Arc<Block>>, FetchError> {
    let mut blocks = Vec::with_capacity(needs.len());
    for need in &needs {
        blocks.push(match need {
            NeededBlock::Ready(block) => Arc::clone(block),
            NeededBlock::Coming(interest, block) => interest.block(*block).await?,
        });
    }
    Ok(blocks)
}

fn slices(blocks: Vec<Arc<Block>>, wanted: &Range<u64>, offset: u64, end: u64) -> Slices {
    let parts = wanted.clone().zip(blocks).map(|(number, block)| {
        block.touch();
        let start = number * BLOCK_SIZE;
        let clip = |at: u64| usize::try_from(at.saturating_sub(start)).unwrap_or(usize::MAX).min(block.bytes().len());
        let range = clip(offset)..clip(end);
        Slice::Block(block, range)
    });
    Slices(parts.collect())
}

#[cfg(test)]
mod rate_tests;
#[cfg(test)]
mod tests;
