//! Reading the headers of an archive: one block at each hop over large members, long ranges side by side over small ones.
//!
//! Which is quicker follows from the distance to the next header: a hop costs the latency of a request, streaming costs the
//! bytes in between. Both go through the reader, so that the blocks are there when members are read.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use crate::error::{Result, VfsError};
use crate::fetch::OpenObject;
use crate::reader::{ReadHandle, Reader};
use crate::version::BLOCK_SIZE;

/// Bytes per second that a stream is taken to bring: what one client gets from a near service.
const STREAM_RATE: f64 = 200e6;
/// Longest range, and ranges ahead: 8 MiB of the pool.
const LONGEST: u64 = 2 << 20;
const AHEAD: usize = 4;
/// Distance over which streaming is always, and never, quicker.
const NEAR: f64 = 64e3;
const FAR: f64 = 16e6;

/// A range that is being read.
struct Ahead {
    start: u64,
    end: u64,
    read: AbortOnDropHandle<Result<Bytes>>,
}

/// Bytes of an archive, front to back.
pub(super) struct Windows {
    reader: Arc<Reader>,
    object: Arc<OpenObject>,
    here: (u64, Bytes),
    ahead: VecDeque<Ahead>,
    range: u64,
    depth: usize,
    /// Time that the quickest block took.
    latency: Option<Duration>,
}

impl Windows {
    pub(super) fn new(reader: Arc<Reader>, object: Arc<OpenObject>) -> Self {
        Self {
            reader,
            object,
            here: (0, Bytes::new()),
            ahead: VecDeque::new(),
            range: BLOCK_SIZE,
            depth: 0,
            latency: None,
        }
    }

    /// Bytes that begin at `offset`: at least one, none behind the end. Offsets only grow.
    pub(super) async fn at(&mut self, offset: u64) -> Result<Bytes> {
        if let Some(bytes) = self.within(offset) {
            return Ok(bytes);
        }
        if offset >= self.object.version.size {
            return Ok(Bytes::new());
        }
        let end = self.here.0 + self.here.1.len() as u64;
        self.ahead.retain(|range| range.end > offset);
        if self.ahead.front().is_none_or(|front| front.start > offset) {
            self.ahead.clear();
            self.choose(offset.saturating_sub(end));
            self.request(offset / BLOCK_SIZE * BLOCK_SIZE);
        }
        self.request_ahead();
        let began = Instant::now();
        let Some(front) = self.ahead.pop_front() else { return Ok(Bytes::new()) };
        let bytes = front.read.await.map_err(|_| VfsError::Stale)??;
        if front.end - front.start <= BLOCK_SIZE {
            let took = began.elapsed();
            self.latency = Some(self.latency.map_or(took, |latency| latency.min(took)));
        }
        self.here = (front.start, bytes);
        self.request_ahead();
        Ok(self.within(offset).unwrap_or_default())
    }

    fn within(&self, offset: u64) -> Option<Bytes> {
        let at = usize::try_from(offset.checked_sub(self.here.0)?).ok()?;
        (at < self.here.1.len()).then(|| self.here.1.slice(at..))
    }

    /// Hop or stream, after a jump over so many bytes.
    fn choose(&mut self, gap: u64) {
        let latency = self.latency.unwrap_or_default().as_secs_f64();
        let reach = (latency * STREAM_RATE).clamp(NEAR, FAR);
        if gap as f64 <= reach {
            self.range = (self.range * 2).min(LONGEST);
            self.depth = (self.depth + 1).min(AHEAD);
        } else {
            (self.range, self.depth) = (BLOCK_SIZE, 0);
        }
    }

    fn request_ahead(&mut self) {
        while self.ahead.len() < self.depth {
            let end = self.ahead.back().map_or(self.here.0 + self.here.1.len() as u64, |last| last.end);
            if end >= self.object.version.size {
                return;
            }
            self.range = (self.range * 2).min(LONGEST);
            self.request(end);
        }
    }

    fn request(&mut self, start: u64) {
        let end = start.saturating_add(self.range).min(self.object.version.size);
        let (reader, object) = (Arc::clone(&self.reader), Arc::clone(&self.object));
        let read = tokio::spawn(async move {
            // A handle of its own: ranges side by side are no pattern to follow.
            let handle = ReadHandle::new(object);
            let length = usize::try_from(end - start).unwrap_or_default();
            Ok(reader.read(&handle, start, length).await?.to_bytes())
        });
        self.ahead.push_back(Ahead { start, end, read: AbortOnDropHandle::new(read) });
    }
}
