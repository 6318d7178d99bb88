//! Cursors: the places in a file at which a program reads on, and how far to read ahead of each.
//!
//! A first touch fetches only the bytes of the read. The first read that continues fetches a probe with it. Only a read
//! past the end of the probe begins a window: an index leads a program to a few hundred KiB, and the kernel requests
//! the second 128 KiB before the first have come. A window is followed by the next one when half of it was read. It
//! grows each time, beyond 8 MiB only while the program has to wait. It shrinks where blocks were evicted unused or
//! memory is short. Where a file is read through an index, the first touch of a place fetches the probe.
//!
//! A program that begins at the start of a file is likely to read all of it: its probe and first window are larger, and
//! windows grow up to 32 MiB without a wait. Windows come in several requests concurrently: a single answer of S3 has
//! some 90 MB/s.

use std::ops::Range;
use std::sync::Arc;

use crate::ahead::AheadUse;
use crate::in_flight::FetchGuard;
use crate::version::BLOCK_SIZE;

/// Cursors of one handle.
const CURSORS: usize = 4;
/// The kernel's own read-ahead arrives out of order by up to 256 KiB, and twice that with two threads.
const REORDER: u64 = 512 << 10;
/// A read that skips more than this begins a place of its own.
const LONGEST_SKIP: u64 = 32 << 20;
/// Bytes fetched with the first read that continues: two requests of the kernel, and their parts of blocks.
const PROBE: u64 = 384 << 10;
/// The same at the start of a file.
const PROBE_OF_START: u64 = 1 << 20;
/// The first window.
pub(super) const FIRST_WINDOW: u64 = 1 << 20;
/// The same for a program that began at the start of the file.
pub(super) const FIRST_WINDOW_OF_START: u64 = 8 << 20;
/// Windows grow fourfold up to this, and then twofold for a program that waits ...
const STEADY_WINDOW: u64 = 8 << 20;
/// ... or began at the start of the file, for which they grow up to this without a wait.
const STEADY_WINDOW_OF_START: u64 = 32 << 20;
/// The largest window. With half of the one before, 96 MiB are ahead: eleven requests, 1 GB/s from S3.
const LARGEST_WINDOW: u64 = 64 << 20;

/// Bytes of one request of a probe at the start of a file.
const PROBE_RANGE: u64 = 512 << 10;
/// Requests of a window ...
const RANGES: u64 = 4;
/// ... of at least this many bytes each: each costs CPU and money ...
const SHORTEST_RANGE: u64 = 2 << 20;
/// ... and at most so many: the advice of AWS for ranged reads.
const LONGEST_RANGE: u64 = 8 << 20;

/// Bytes of one request of a window of this size.
fn range_of(window: u64) -> u64 {
    if window <= PROBE_OF_START { window } else { (window / RANGES).clamp(SHORTEST_RANGE, LONGEST_RANGE) }
}

/// Expected access pattern of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pattern {
    /// No expectation.
    Unknown,
    /// Reads through an index beside the file: at each place some hundred KiB in sequence.
    Regions,
}

#[derive(Debug)]
pub(super) struct Cursors {
    pattern: Pattern,
    all: Vec<Cursor>,
    clock: u64,
}

#[derive(Debug)]
struct Cursor {
    /// Offset at which the program is expected to read next.
    next: u64,
    /// First block that was not requested, neither by the program nor ahead of it.
    ahead: u64,
    /// A read that touches this block is followed by the next read-ahead.
    mark: u64,
    /// Bytes of the last read-ahead; none before the probe.
    window: u64,
    /// The program has read past the probe.
    past_probe: bool,
    /// The program has begun at the start of the file.
    is_from_start: bool,
    /// The program has waited since the last read-ahead.
    waited: bool,
    used: u64,
    ahead_use: Arc<AheadUse>,
    /// Fetches that were started for it.
    guards: Vec<FetchGuard>,
}

/// Blocks to fetch with a read and ahead of it.
#[derive(Debug)]
pub(super) struct ReadAheadPlan {
    pub(super) cursor: usize,
    pub(super) blocks: Range<u64>,
    /// Blocks of one request.
    pub(super) range: u64,
    pub(super) ahead_use: Arc<AheadUse>,
}

/// A read as the cursors see it.
#[derive(Debug)]
pub(super) struct FollowedRead {
    /// The read begins at a place of its own.
    pub(super) is_new: bool,
    /// Blocks to fetch for it and ahead of it. None: only the read itself is fetched.
    pub(super) plan: Option<ReadAheadPlan>,
}

/// A read, as it comes to a cursor.
#[derive(Debug)]
pub(super) struct ReadStep {
    pub(super) offset: u64,
    pub(super) end: u64,
    /// True when a part of the read is not in memory.
    pub(super) waits: bool,
    /// Size of the object.
    pub(super) size: u64,
    /// Largest window that memory allows.
    pub(super) most: u64,
}

impl Cursors {
    pub(super) fn new(pattern: Pattern) -> Self {
        Self { pattern, all: Vec::new(), clock: 0 }
    }

    /// A program makes a read.
    pub(super) fn follow(&mut self, step: &ReadStep) -> FollowedRead {
        self.clock += 1;
        let clock = self.clock;
        let found = self.all.iter().enumerate().filter(|(_, cursor)| cursor.leads_to(step.offset));
        let nearest = found.min_by_key(|(_, cursor)| step.offset.abs_diff(cursor.next)).map(|(index, _)| index);
        let is_new = nearest.is_none();
        let index = nearest.unwrap_or_else(|| self.begin(step, clock));
        let cursor = &mut self.all[index];
        cursor.used = clock;
        let blocks = if is_new && self.pattern == Pattern::Unknown { None } else { cursor.advance(step) };
        let plan = blocks.map(|blocks| {
            let ahead_use = Arc::clone(&cursor.ahead_use);
            ReadAheadPlan { cursor: index, blocks, range: cursor.range(), ahead_use }
        });
        FollowedRead { is_new, plan }
    }

    /// The fetches of a cursor continue while they are held here.
    pub(super) fn hold(&mut self, cursor: usize, guards: Vec<FetchGuard>) {
        let held = &mut self.all[cursor].guards;
        held.extend(guards);
        // As many as the largest window has ranges, four times; the older ones have ended.
        let surplus = held.len().saturating_sub(32);
        held.drain(..surplus);
    }

    /// Memory had space for the blocks before this one only.
    pub(super) fn cut_short(&mut self, cursor: usize, block: u64) {
        let cursor = &mut self.all[cursor];
        cursor.ahead = block.max(cursor.next.div_ceil(BLOCK_SIZE));
        cursor.mark = cursor.mark.min(cursor.ahead);
        cursor.shrink();
    }

    /// The place of a new cursor. Of a file that is read by regions it takes its first read for one that continues.
    fn begin(&mut self, step: &ReadStep, used: u64) -> usize {
        let next = if self.pattern == Pattern::Regions { step.offset } else { step.end };
        let here = if self.pattern == Pattern::Regions { next / BLOCK_SIZE } else { next.div_ceil(BLOCK_SIZE) };
        let new = Cursor {
            next,
            ahead: here,
            mark: here,
            window: 0,
            past_probe: false,
            is_from_start: step.offset == 0 && self.pattern == Pattern::Unknown,
            waited: false,
            used,
            ahead_use: Arc::default(),
            guards: Vec::new(),
        };
        if self.all.len() < CURSORS {
            self.all.push(new);
            return self.all.len() - 1;
        }
        let oldest = self.all.iter().enumerate().min_by_key(|(_, cursor)| cursor.used).map_or(0, |(index, _)| index);
        self.all[oldest] = new;
        oldest
    }
}

impl Cursor {
    /// True when a read at `offset` continues from here: a little before, or skipping no more than was read ahead.
    fn leads_to(&self, offset: u64) -> bool {
        let forward = self.window.clamp(BLOCK_SIZE, LONGEST_SKIP);
        offset + REORDER.min(self.next) >= self.next && offset <= self.next + forward
    }

    /// Go on to the end of a read. Returns the blocks to fetch with it.
    fn advance(&mut self, step: &ReadStep) -> Option<Range<u64>> {
        if step.end <= self.next {
            // Out of order, or read again: the program has not got on.
            return None;
        }
        self.next = step.end;
        self.waited |= step.waits;
        let here = step.end.div_ceil(BLOCK_SIZE);
        // Blocks that were not requested yet are fetched in one request with those ahead.
        let from = self.ahead.max(step.offset / BLOCK_SIZE);
        self.ahead = self.ahead.max(here);
        if here <= self.mark {
            return None;
        }
        let is_probe = self.window == 0;
        self.window = if is_probe { self.probe() } else { self.next_window(step.most) };
        self.past_probe = !is_probe;
        self.waited = false;
        let last = step.size.div_ceil(BLOCK_SIZE);
        let to = (from + self.window / BLOCK_SIZE).max(here).min(last);
        self.ahead = to;
        self.mark = if is_probe { to } else { from.max(here).midpoint(to) };
        (from < to).then_some(from..to)
    }

    fn probe(&self) -> u64 {
        if self.is_from_start { PROBE_OF_START } else { PROBE }
    }

    /// Blocks of one request of the window.
    fn range(&self) -> u64 {
        let is_probe = !self.past_probe;
        let bytes = if is_probe && self.is_from_start { PROBE_RANGE } else { range_of(self.window) };
        bytes.div_ceil(BLOCK_SIZE)
    }

    fn next_window(&mut self, most: u64) -> u64 {
        if self.ahead_use.take_wasted() > 0 {
            self.shrink();
            return self.window;
        }
        let grown = match self.window {
            _ if !self.past_probe && self.is_from_start => FIRST_WINDOW_OF_START,
            _ if !self.past_probe => FIRST_WINDOW,
            small if small < STEADY_WINDOW => (small * 4).min(STEADY_WINDOW),
            large if self.waited || (self.is_from_start && large < STEADY_WINDOW_OF_START) => large * 2,
            steady => steady,
        };
        grown.min(most.max(FIRST_WINDOW)).min(LARGEST_WINDOW)
    }

    fn shrink(&mut self) {
        self.window = (self.window / 2).max(PROBE);
    }
}
