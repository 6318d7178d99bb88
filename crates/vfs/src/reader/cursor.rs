//! Cursors: the places in a file at which a program reads on, and how far to read ahead of each.
//!
//! The window of a cursor begins at nothing: a first touch fetches what was asked for. Each read that goes on makes it grow,
//! beyond 8 MiB only while the program has to wait; blocks that were evicted unused make it shrink.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::fetch::Stake;
use crate::version::BLOCK_SIZE;

/// Cursors of one handle.
const CURSORS: usize = 4;
/// The kernel's own read-ahead arrives out of order by up to 256 KiB, and twice that with two threads.
const REORDER: u64 = 512 << 10;
/// The first window.
const FIRST_WINDOW: u64 = 512 << 10;
/// Windows grow fourfold up to this, and then only for a program that waits.
const STEADY_WINDOW: u64 = 8 << 20;
/// The largest window: 64 MiB cover a second at 500 Mbit/s.
const LARGEST_WINDOW: u64 = 64 << 20;

#[derive(Debug, Default)]
pub(super) struct Cursors {
    all: Vec<Cursor>,
    clock: u64,
}

#[derive(Debug)]
struct Cursor {
    /// Where the program is expected to read next.
    next: u64,
    /// First block that was not read ahead.
    ahead: u64,
    /// Bytes to be ahead.
    window: u64,
    used: u64,
    wasted: Arc<AtomicU32>,
    /// Fetches that were begun for it.
    stakes: Vec<Stake>,
}

/// What to read ahead.
#[derive(Debug)]
pub(super) struct Ahead {
    pub(super) cursor: usize,
    pub(super) from: u64,
    pub(super) to: u64,
    wasted: Arc<AtomicU32>,
}

impl Ahead {
    pub(super) fn wasted(&self) -> Arc<AtomicU32> {
        Arc::clone(&self.wasted)
    }
}

impl Cursors {
    /// A read of `offset..end` was made in an object of `size` bytes. What to fetch ahead of it, at most `most` bytes.
    pub(super) fn follow(&mut self, offset: u64, end: u64, has_waited: bool, most: u64, size: u64) -> Option<Ahead> {
        self.clock += 1;
        let clock = self.clock;
        let behind = |cursor: &Cursor| offset.abs_diff(cursor.next);
        let found = self
            .all
            .iter()
            .enumerate()
            .filter(|(_, cursor)| {
                let forward = cursor.window.max(BLOCK_SIZE);
                offset + REORDER.min(cursor.next) >= cursor.next && offset <= cursor.next + forward
            })
            .min_by_key(|(_, cursor)| behind(cursor))
            .map(|(index, _)| index);
        let Some(index) = found else {
            self.begin(end, clock);
            return None;
        };
        let cursor = &mut self.all[index];
        cursor.used = clock;
        if end <= cursor.next {
            // Out of order, or read again: the program has not got on.
            return None;
        }
        cursor.next = end;
        if cursor.wasted.swap(0, Ordering::Relaxed) > 0 {
            cursor.window = (cursor.window / 2).max(FIRST_WINDOW);
        }
        let here = end.div_ceil(BLOCK_SIZE);
        cursor.ahead = cursor.ahead.max(here);
        let left = (cursor.ahead - here) * BLOCK_SIZE;
        if cursor.window > 0 && left > cursor.window / 2 && !has_waited {
            return None;
        }
        cursor.window = match cursor.window {
            0 => FIRST_WINDOW,
            small if small < STEADY_WINDOW => small * 4,
            large if has_waited => large * 2,
            steady => steady,
        }
        .min(most.max(FIRST_WINDOW))
        .min(LARGEST_WINDOW);
        let to = (here + cursor.window / BLOCK_SIZE).min(size.div_ceil(BLOCK_SIZE));
        let from = cursor.ahead;
        (from < to).then(|| Ahead { cursor: index, from, to, wasted: Arc::clone(&cursor.wasted) })
    }

    /// The fetches of a cursor go on while they are held here.
    pub(super) fn hold(&mut self, cursor: usize, stakes: Vec<Stake>) {
        let held = &mut self.all[cursor].stakes;
        held.extend(stakes);
        // As many as the largest window has ranges, twice; the older ones have ended.
        let surplus = held.len().saturating_sub(32);
        held.drain(..surplus);
    }

    /// So far has been read ahead.
    pub(super) fn reached(&mut self, cursor: usize, block: u64) {
        let cursor = &mut self.all[cursor];
        cursor.ahead = cursor.ahead.max(block);
    }

    fn begin(&mut self, end: u64, used: u64) {
        let new = Cursor {
            next: end,
            ahead: end.div_ceil(BLOCK_SIZE),
            window: 0,
            used,
            wasted: Arc::default(),
            stakes: Vec::new(),
        };
        if self.all.len() < CURSORS {
            self.all.push(new);
        } else if let Some(oldest) = self.all.iter_mut().min_by_key(|cursor| cursor.used) {
            *oldest = new;
        }
    }
}
