//! Blocks: bytes of objects in memory, each with its share of the pool.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use tokio::sync::OwnedSemaphorePermit;

use crate::ahead::AheadUse;
use crate::version::VersionDigest;

/// Bytes that one permit stands for.
pub(crate) const GRAIN: u64 = 4096;

/// Key of a block: the version and the number of the block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct BlockKey {
    pub(crate) version: VersionDigest,
    pub(crate) block: u64,
}

/// The bytes of a block, with their share of the pool.
#[derive(Debug)]
pub(crate) struct Block {
    bytes: Bytes,
    /// The block was read since eviction last checked it.
    pub(crate) touched: AtomicBool,
    /// The block was read, or is not from read-ahead.
    used: AtomicBool,
    /// The reader that the block was fetched ahead of. None: the block is not from read-ahead.
    pub(crate) ahead: Option<Arc<AheadUse>>,
    _memory: Option<PoolReservation>,
}

impl Block {
    pub(crate) fn new(bytes: Bytes, memory: Option<PoolReservation>, ahead: Option<Arc<AheadUse>>) -> Arc<Self> {
        let used = AtomicBool::new(ahead.is_none());
        Arc::new(Self { bytes, touched: AtomicBool::new(true), used, ahead, _memory: memory })
    }

    /// The bytes.
    pub(crate) fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    pub(crate) fn touch(&self) {
        self.touched.store(true, Ordering::Relaxed);
        if !self.used.swap(true, Ordering::Relaxed)
            && let Some(ahead) = &self.ahead
        {
            ahead.count_used();
        }
    }

    pub(crate) fn is_unused(&self) -> bool {
        !self.used.load(Ordering::Relaxed)
    }
}

/// A share of the pool. It goes back when this is dropped.
#[derive(Debug)]
pub(crate) struct PoolReservation(pub(crate) OwnedSemaphorePermit);

impl PoolReservation {
    /// Part of this share; None where it has less.
    pub(crate) fn split(&mut self, bytes: u64) -> Option<Self> {
        self.0.split(usize::try_from(grains(bytes)).ok()?).map(Self)
    }
}

/// Permits for this many bytes.
pub(crate) fn grains(bytes: u64) -> u64 {
    bytes.div_ceil(GRAIN)
}

/// Bytes that a block of this length takes from the pool.
pub(crate) fn share(length: usize) -> u64 {
    grains(length as u64) * GRAIN
}
