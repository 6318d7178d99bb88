//! Bytes that a scan has read of an archive, kept for the members that are unpacked next. With them a small archive
//! without an index, or a compressed one, is read once.
//!
//! Invariants: the bytes are of the version that was scanned, and are used for that version only. They count against
//! the windows of the process ([`WindowPool`]), at most half of these. Bytes that no member asks for are dropped
//! after a minute.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use seqferry_client::{Budget, Endpoint};
use seqferry_store::PinnedObject;
use tokio::time::Instant;

use super::ArchiveRef;
use super::member_location::Format;

/// Longest window: long enough that the latency of a request does not count, short enough that many are read at a time.
const WINDOW: u64 = 8 << 20;
/// Windows of a pool at least: some are being read while the members of others are written.
const FEWEST: usize = 8;
/// Time after which bytes that no member needs are dropped: a transfer begins within seconds of its scan.
const IDLE: Duration = Duration::from_mins(1);

/// Pool of the windows that the jobs of a process share.
#[derive(Debug)]
pub struct WindowPool {
    free: AtomicUsize,
    capacity: usize,
    window: u64,
    retained: Mutex<Option<Arc<RetainedBytes>>>,
}

impl WindowPool {
    /// A pool of windows of at most 8 MiB: as many as a quarter of the memory for buffers holds, and [`FEWEST`] at least.
    pub fn new(budget: &Budget) -> Arc<Self> {
        let room = budget.memory_limit() / 4;
        let window = (room / 4).clamp(1 << 20, WINDOW);
        let capacity = usize::try_from(room / window).unwrap_or(usize::MAX).max(FEWEST);
        Arc::new(Self { free: AtomicUsize::new(capacity), capacity, window, retained: Mutex::default() })
    }

    /// Windows of the pool.
    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Bytes of a window at most.
    pub(super) fn window(&self) -> u64 {
        self.window
    }

    /// Keep what a scan reads, in place of what another one has read.
    pub(super) fn retain(&self, retained: Option<Arc<RetainedBytes>>) {
        // The old one gives its windows back when it is dropped, after the lock.
        let _old = std::mem::replace(&mut *self.retained.lock().unwrap_or_else(PoisonError::into_inner), retained);
    }

    /// Drop what a scan has kept.
    pub fn clear(&self) {
        self.retain(None);
    }

    /// Returns the bytes that the last scan has kept, if it was of this archive in this format.
    pub(super) fn retained(
        &self,
        source: &Endpoint,
        archive: &ArchiveRef,
        format: Format,
    ) -> Option<Arc<RetainedBytes>> {
        let retained = self.retained.lock().unwrap_or_else(PoisonError::into_inner);
        retained.clone().filter(|retained| retained.is_of(source, archive, format))
    }

    #[cfg(test)]
    pub(super) fn free(&self) -> usize {
        self.free.load(Ordering::Relaxed)
    }

    pub(super) fn take(&self) -> bool {
        self.free.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |free| free.checked_sub(1)).is_ok()
    }

    pub(super) fn put_back(&self, windows: usize) {
        self.free.fetch_add(windows, Ordering::Relaxed);
    }
}

#[derive(Debug)]
struct RetainedBlock {
    bytes: Bytes,
    /// Bytes that no member has taken.
    left: u64,
}

#[derive(Debug)]
struct RetainedState {
    blocks: BTreeMap<u64, RetainedBlock>,
    /// Bytes of all blocks.
    held: u64,
    /// Windows that they stand for.
    windows: usize,
    used: Instant,
    /// All of the archive was read, and nothing of it dropped.
    complete: bool,
    /// True when no more bytes are taken in.
    closed: bool,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct RetainedBytes {
    source: Endpoint,
    archive: ArchiveRef,
    etag: String,
    format: Format,
    pool: Arc<WindowPool>,
    state: Mutex<RetainedState>,
}

impl Drop for RetainedBytes {
    fn drop(&mut self) {
        let windows = self.state().windows;
        self.pool.put_back(windows);
    }
}

impl RetainedBytes {
    /// Creates an empty store for this version of an archive. It replaces what another scan has kept in the pool.
    pub(super) fn of(pool: &Arc<WindowPool>, source: Endpoint, archive: &PinnedObject, format: Format) -> Arc<Self> {
        let state = RetainedState {
            blocks: BTreeMap::new(),
            held: 0,
            windows: 0,
            used: Instant::now(),
            complete: false,
            closed: false,
        };
        let retained = Arc::new(Self {
            source,
            archive: ArchiveRef { bucket: archive.bucket.clone(), key: archive.key.clone() },
            etag: archive.if_match.clone().unwrap_or_default(),
            format,
            pool: Arc::clone(pool),
            state: Mutex::new(state),
        });
        pool.retain(Some(Arc::clone(&retained)));
        tokio::spawn(drop_idle(Arc::downgrade(&retained)));
        retained
    }

    fn state(&self) -> MutexGuard<'_, RetainedState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True when the bytes are of this archive, read in this format.
    pub(super) fn is_of(&self, source: &Endpoint, archive: &ArchiveRef, format: Format) -> bool {
        self.archive == *archive && self.format == format && self.source.is_same(source)
    }

    /// Take bytes in, while there is room. A stream is kept whole or not at all: it is decoded from its start.
    pub(super) fn offer(&self, start: u64, bytes: &Bytes) {
        let mut state = self.state();
        if state.closed || bytes.is_empty() {
            return;
        }
        let len = bytes.len() as u64;
        let needed = usize::try_from((state.held + len).div_ceil(self.pool.window())).unwrap_or(usize::MAX);
        while state.windows < needed {
            if needed > self.pool.capacity() / 2 || !self.pool.take() {
                state.closed = true;
                if self.format.is_stream() {
                    self.clear(&mut state);
                }
                return;
            }
            state.windows += 1;
        }
        state.held += len;
        // A copy: the bytes may be part of a larger buffer, all of which would stay.
        state.blocks.insert(start, RetainedBlock { bytes: Bytes::copy_from_slice(bytes), left: len });
    }

    /// Records that the scan has come to the end of the archive, which has `size` bytes.
    pub(super) fn ended(&self, size: u64) {
        let mut state = self.state();
        state.complete = !state.closed && state.held >= size;
        state.closed = true;
        state.used = Instant::now();
    }

    /// True when all of the archive is here.
    pub(super) fn is_complete(&self) -> bool {
        self.state().complete
    }

    /// Returns bytes `start..end` in pieces, if all of them are here and the archive has this `ETag`. A block of a
    /// plain archive is dropped when all of it was taken.
    pub(super) fn take(&self, etag: &str, start: u64, end: u64) -> Option<Vec<Bytes>> {
        if etag != self.etag || start >= end {
            return None;
        }
        let mut state = self.state();
        let first = *state.blocks.range(..=start).next_back()?.0;
        let mut found = Vec::new();
        let mut position = start;
        for (offset, block) in state.blocks.range(first..end) {
            let from = usize::try_from(position.checked_sub(*offset)?).ok()?;
            let to = usize::try_from(end - offset).ok()?.min(block.bytes.len());
            if from >= to {
                return None;
            }
            found.push(block.bytes.slice(from..to));
            position = offset + to as u64;
        }
        if position < end {
            return None;
        }
        state.used = Instant::now();
        if !self.format.is_stream() {
            self.release(&mut state, start, end);
        }
        Some(found)
    }

    /// Takes bytes like [`take`](Self::take), in one piece.
    pub(super) fn joined(&self, etag: &str, start: u64, end: u64) -> Option<Bytes> {
        let pieces = self.take(etag, start, end)?;
        let mut joined = BytesMut::with_capacity(usize::try_from(end - start).ok()?);
        for piece in pieces {
            joined.extend_from_slice(&piece);
        }
        Some(joined.freeze())
    }

    /// Drop blocks that were taken, but for padding between members.
    fn release(&self, state: &mut RetainedState, start: u64, end: u64) {
        // Behind a member lies padding up to the next multiple of 512.
        let end = end.next_multiple_of(512);
        let mut empty = Vec::new();
        for (offset, block) in state.blocks.range_mut(..end) {
            let len = block.bytes.len() as u64;
            let taken = end.min(offset + len).saturating_sub(start.max(*offset));
            block.left = block.left.saturating_sub(taken);
            if block.left <= len / 64 {
                empty.push(*offset);
            }
        }
        for offset in empty {
            let block = state.blocks.remove(&offset);
            state.held -= block.map_or(0, |block| block.bytes.len() as u64);
            state.complete = false;
        }
        let needed = usize::try_from(state.held.div_ceil(self.pool.window())).unwrap_or(0);
        if needed < state.windows {
            self.pool.put_back(state.windows - needed);
            state.windows = needed;
        }
    }

    fn clear(&self, state: &mut RetainedState) {
        state.blocks.clear();
        self.pool.put_back(state.windows);
        (state.held, state.windows, state.complete, state.closed) = (0, 0, false, true);
    }
}

/// Drop bytes that were not requested.
async fn drop_idle(retained: Weak<RetainedBytes>) {
    loop {
        tokio::time::sleep(IDLE / 2).await;
        let Some(retained) = retained.upgrade() else { return };
        let mut state = retained.state();
        if state.closed && state.used.elapsed() >= IDLE {
            retained.clear(&mut state);
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use seqferry_client::BudgetLimits;
    use seqferry_store_testing::MemoryStore;

    use super::*;

    fn retained(format: Format) -> Arc<RetainedBytes> {
        let limits = BudgetLimits { memory: 32 << 20, ..BudgetLimits::default() };
        let pool = WindowPool::new(&Budget::new(limits));
        let archive = PinnedObject {
            bucket: "b".to_owned(),
            key: "x.tar".to_owned(),
            version_id: None,
            if_match: Some("v1".to_owned()),
            size: 10 << 20,
        };
        RetainedBytes::of(&pool, Endpoint::new(Arc::new(MemoryStore::new(5 << 20))), &archive, format)
    }

    #[tokio::test]
    async fn bytes_are_given_again_across_blocks_and_only_of_this_version() {
        let kept = retained(Format::Plain);
        for (start, byte) in [(0, b'a'), (512, b'b'), (2048, b'c')] {
            kept.offer(start, &Bytes::from(vec![byte; 512]));
        }
        assert_eq!(kept.joined("v2", 0, 4), None);
        for (start, end) in [(1000, 1025), (1000, 2100), (1500, 1600), (2560, 2561), (3, 3)] {
            assert_eq!(kept.joined("v1", start, end), None, "{start}..{end}");
        }
        assert_eq!(kept.joined("v1", 510, 514), Some(Bytes::from_static(b"aabb")));
        assert_eq!(kept.joined("v1", 2048, 2050), Some(Bytes::from_static(b"cc")));
        assert_eq!(kept.joined("v1", 0, 1), Some(Bytes::from_static(b"a")));
    }

    #[tokio::test]
    async fn no_more_than_half_of_the_windows_is_kept_and_what_was_taken_is_free_again() {
        let kept = retained(Format::Plain);
        let free = kept.pool.free();
        for mib in 0..40 {
            kept.offer(mib << 20, &Bytes::from(vec![0; 1 << 20]));
        }
        assert_eq!(kept.pool.free(), free - free / 2);
        assert!(!kept.is_complete());
        kept.ended(40 << 20);
        assert!(!kept.is_complete());
        assert!(kept.joined("v1", 0, 2 << 20).is_some());
        assert!(kept.joined("v1", 0, 2 << 20).is_none());
        assert_eq!(kept.pool.free(), free - free / 2 + 1);
        let pool = Arc::clone(&kept.pool);
        pool.retain(None);
        drop(kept);
        assert_eq!(pool.free(), free);
    }

    #[tokio::test]
    async fn a_stream_is_kept_whole_or_not_at_all() {
        let short = retained(Format::Gzip);
        short.offer(0, &Bytes::from_static(b"0123"));
        short.ended(4);
        assert!(short.is_complete());
        assert_eq!(short.joined("v1", 0, 4), short.joined("v1", 0, 4));

        let long = retained(Format::Gzip);
        for mib in 0..40 {
            long.offer(mib << 20, &Bytes::from(vec![0; 1 << 20]));
        }
        long.ended(40 << 20);
        assert!(!long.is_complete());
        assert!(long.joined("v1", 0, 1).is_none());
        assert_eq!(long.pool.free(), long.pool.capacity());
    }

    #[tokio::test(start_paused = true)]
    async fn what_no_one_asks_for_is_dropped() {
        let kept = retained(Format::Plain);
        kept.offer(0, &Bytes::from_static(b"0123"));
        kept.ended(4);
        tokio::time::sleep(IDLE * 3).await;
        assert_eq!((kept.joined("v1", 0, 4), kept.pool.free()), (None, kept.pool.capacity()));
    }
}
