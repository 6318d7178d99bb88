//! The pool of memory that all blocks come from: one per process, with a hard limit.
//!
//! A block holds its share of the pool until its last user drops it. Reads that a program waits for wait for memory in
//! order and evict what was used least recently; read-ahead never waits, leaves an eighth to them and does not evict
//! blocks that were read ahead and not used yet, unless the interface keeps their pages. No reader waits for memory
//! while holding some, so reads always continue.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tokio::sync::Semaphore;

use crate::ahead::PageCache;
use crate::block::{Block, BlockKey, GRAIN, PoolReservation, grains};
use crate::in_flight::Fetch;
use crate::version::BLOCK_SIZE;

/// The least that a pool can have: some reads of 1 MiB at a time.
pub const SMALLEST_POOL: u64 = 16 << 20;

/// State of a block: in memory or on its way.
#[derive(Debug, Clone)]
pub(crate) enum BlockSlot {
    Ready(Arc<Block>),
    Fetching(Arc<Fetch>),
}

#[derive(Debug, Default)]
pub(crate) struct BlockTable {
    pub(crate) slots: HashMap<BlockKey, BlockSlot>,
    /// Ready blocks in the order in which they came; a block that was touched gets a second chance.
    queue: VecDeque<BlockKey>,
}

/// All blocks in memory and on their way, and the memory for them.
#[derive(Debug)]
pub struct Pool {
    memory: Arc<Semaphore>,
    capacity: u64,
    /// Left to reads that a program waits for.
    reserve: u64,
    /// Bytes that are waited for.
    waiting: AtomicU64,
    blocks: Mutex<BlockTable>,
    pages: OnceLock<Arc<dyn PageCache>>,
}

/// Subtracts the bytes of a wait from the count when it is dropped, also when the wait is abandoned.
struct WaitGuard<'a>(&'a AtomicU64, u64);

impl Drop for WaitGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(self.1, Ordering::Relaxed);
    }
}

/// Use of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolUse {
    /// Bytes it may have.
    pub capacity: u64,
    /// Bytes of blocks and of requests under way.
    pub used: u64,
}

impl Pool {
    /// A pool of this many bytes, at least [`SMALLEST_POOL`].
    pub fn new(capacity: u64) -> Arc<Self> {
        let capacity = capacity.max(SMALLEST_POOL).min(u64::from(u32::MAX) * GRAIN);
        let permits = usize::try_from(capacity / GRAIN).unwrap_or(Semaphore::MAX_PERMITS);
        Arc::new(Self {
            memory: Arc::new(Semaphore::new(permits)),
            capacity: capacity / GRAIN * GRAIN,
            reserve: capacity / 8,
            waiting: AtomicU64::new(0),
            blocks: Mutex::default(),
            pages: OnceLock::new(),
        })
    }

    /// Use of the pool in bytes.
    pub fn usage(&self) -> PoolUse {
        PoolUse { capacity: self.capacity, used: self.capacity - self.available() }
    }

    /// Let the interface keep unused pages that memory has no space for. The first call counts.
    pub fn set_page_cache(&self, pages: Arc<dyn PageCache>) {
        let _ = self.pages.set(pages);
    }

    pub(crate) fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Bytes that read-ahead may take.
    pub(crate) fn ahead_capacity(&self) -> u64 {
        self.capacity - self.reserve
    }

    fn available(&self) -> u64 {
        self.memory.available_permits() as u64 * GRAIN
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, BlockTable> {
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Memory for a read that a program waits for. Waits its turn. Every block takes whole grains: ask for
    /// [`share`](crate::block::share)s.
    pub(crate) async fn reserve(&self, bytes: u64) -> PoolReservation {
        let wanted = grains(bytes.min(self.capacity));
        self.waiting.fetch_add(wanted * GRAIN, Ordering::Relaxed);
        let _waiting = WaitGuard(&self.waiting, wanted * GRAIN);
        self.serve_waiting();
        let wanted = u32::try_from(wanted).unwrap_or(u32::MAX);
        let permit = Arc::clone(&self.memory).acquire_many_owned(wanted).await;
        match permit {
            Ok(permit) => PoolReservation(permit),
            // It is never closed.
            Err(_) => std::future::pending().await,
        }
    }

    /// Memory for read-ahead, if there is some without taking it from reads.
    pub(crate) fn try_reserve(&self, bytes: u64) -> Option<PoolReservation> {
        let wanted = grains(bytes) * GRAIN;
        self.make_room(wanted + self.reserve, false);
        if self.available() < wanted + self.reserve {
            return None;
        }
        let permits = u32::try_from(grains(bytes)).ok()?;
        Arc::clone(&self.memory).try_acquire_many_owned(permits).ok().map(PoolReservation)
    }

    /// Evict until this many bytes are free, or nothing is left to evict.
    fn make_room(&self, bytes: u64, for_demand: bool) {
        if self.available() >= bytes {
            return;
        }
        let mut evicted = Vec::new();
        let mut freed = self.available();
        {
            let mut blocks = self.lock();
            // Two rounds: the first one may only clear the marks of blocks that were touched.
            let mut looks = 2 * blocks.queue.len();
            while freed < bytes && looks > 0 {
                looks -= 1;
                let Some(key) = blocks.queue.pop_front() else { break };
                let Some(BlockSlot::Ready(block)) = blocks.slots.get(&key) else { continue };
                let keep = block.touched.swap(false, Ordering::Relaxed)
                    || (!for_demand && block.is_unused() && !self.has_pages_for(block));
                if keep {
                    blocks.queue.push_back(key);
                    continue;
                }
                freed += grains(block.bytes().len() as u64) * GRAIN;
                if let Some(BlockSlot::Ready(block)) = blocks.slots.remove(&key) {
                    evicted.push((key.block, block));
                }
            }
        }
        for (number, block) in evicted {
            self.release(number, block);
        }
    }

    fn has_pages_for(&self, block: &Block) -> bool {
        let has_inode = block.ahead.as_ref().is_some_and(|ahead| ahead.inode().is_some());
        has_inode && self.pages.get().is_some_and(|pages| pages.is_ready())
    }

    /// An evicted block: one that was fetched ahead and not used goes to the interface, if that keeps pages.
    fn release(&self, number: u64, block: Arc<Block>) {
        let Some(ahead) = block.ahead.as_ref().filter(|_| block.is_unused()).map(Arc::clone) else { return };
        if let (Some(pages), Some(inode)) = (self.pages.get(), ahead.inode()) {
            let bytes = block.bytes().clone();
            if pages.keep(inode, number * BLOCK_SIZE, bytes, Box::new(block)) {
                ahead.handed_over().insert(number);
                return;
            }
        }
        ahead.count_wasted();
    }

    /// Make space for all waiting reads. Called when a read begins to wait, and when a block has come, which can be
    /// evicted.
    pub(crate) fn serve_waiting(&self) {
        let waiting = self.waiting.load(Ordering::Relaxed);
        if waiting > 0 {
            self.make_room(waiting, true);
        }
    }
}

impl BlockTable {
    /// A block has come.
    pub(crate) fn add_ready(&mut self, key: BlockKey, block: Arc<Block>) {
        if !matches!(self.slots.insert(key, BlockSlot::Ready(block)), Some(BlockSlot::Ready(_))) {
            self.queue.push_back(key);
        }
    }
}
