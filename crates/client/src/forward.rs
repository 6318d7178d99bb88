//! A reader that goes through an object front to back with jumps.
//!
//! A long jump is followed by one short range; over short jumps, long ranges are read concurrently. The distance of the
//! jump decides which is quicker: a request costs its latency, streaming costs the bytes in between. The latency is
//! that of the quickest short range so far.
//!
//! Invariants: at most `ahead` ranges of `longest` bytes are held or in flight; requested offsets only grow.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

/// Bytes per second that a stream is taken to bring: what one client gets from a near service.
const STREAM_RATE: f64 = 200e6;
/// Distance over which streaming is always, and never, quicker.
const NEAR: f64 = 64e3;
const FAR: f64 = 16e6;

/// Reads ranges of one object.
pub trait RangeSource: Clone + Send + 'static {
    /// Reason why a range cannot be read.
    type Error: Send + 'static;

    /// Bytes `start..end`, all of them.
    fn read(&self, start: u64, end: u64) -> impl Future<Output = Result<Bytes, Self::Error>> + Send;

    /// A read ended without a result: its task was stopped.
    fn stop_error(&self) -> Self::Error;
}

/// Sizes of reads.
#[derive(Debug, Clone, Copy)]
pub struct ForwardSizes {
    /// Bytes of a short range; ranges begin at a multiple of it.
    pub block: u64,
    /// Longest range.
    pub longest: u64,
    /// Most ranges ahead.
    pub ahead: usize,
}

/// A range that is being read.
struct PendingRange<E> {
    start: u64,
    end: u64,
    read: AbortOnDropHandle<Result<Bytes, E>>,
}

/// See the [module](self).
pub struct ForwardReader<S: RangeSource> {
    source: S,
    size: u64,
    sizes: ForwardSizes,
    here: (u64, Bytes),
    ahead: VecDeque<PendingRange<S::Error>>,
    range: u64,
    depth: usize,
    latency: Option<Duration>,
}

impl<S: RangeSource> ForwardReader<S> {
    /// A reader of an object of `size` bytes, at its start.
    pub fn new(source: S, size: u64, sizes: ForwardSizes) -> Self {
        let range = sizes.block;
        Self { source, size, sizes, here: (0, Bytes::new()), ahead: VecDeque::new(), range, depth: 0, latency: None }
    }

    /// Bytes that begin at `offset`: at least one, none behind the end. Offsets only grow.
    ///
    /// # Errors
    /// Errors of the source.
    pub async fn at(&mut self, offset: u64) -> Result<Bytes, S::Error> {
        if let Some(bytes) = self.within(offset) {
            return Ok(bytes);
        }
        if offset >= self.size {
            return Ok(Bytes::new());
        }
        let end = self.here.0 + self.here.1.len() as u64;
        self.ahead.retain(|range| range.end > offset);
        if self.ahead.front().is_none_or(|front| front.start > offset) {
            self.ahead.clear();
            self.choose(offset.saturating_sub(end));
            self.request(offset / self.sizes.block * self.sizes.block);
        } else {
            // What was requested ahead is read.
            self.depth = (self.depth * 2).min(self.sizes.ahead);
        }
        self.request_ahead();
        let began = Instant::now();
        let Some(front) = self.ahead.pop_front() else { return Ok(Bytes::new()) };
        let bytes = front.read.await.unwrap_or_else(|_| Err(self.source.stop_error()))?;
        if front.end - front.start <= self.sizes.block {
            let took = began.elapsed();
            self.latency = Some(self.latency.map_or(took, |latency| latency.min(took)));
        }
        self.here = (front.start, bytes);
        self.request_ahead();
        Ok(self.within(offset).unwrap_or_default())
    }

    /// The range that was read last, and its offset.
    pub fn here(&self) -> (u64, Bytes) {
        self.here.clone()
    }

    fn within(&self, offset: u64) -> Option<Bytes> {
        let at = usize::try_from(offset.checked_sub(self.here.0)?).ok()?;
        (at < self.here.1.len()).then(|| self.here.1.slice(at..))
    }

    /// Hop or stream, after a jump over this many bytes.
    fn choose(&mut self, gap: u64) {
        let latency = self.latency.unwrap_or_default().as_secs_f64();
        let reach = (latency * STREAM_RATE).clamp(NEAR, FAR);
        if gap as f64 <= reach {
            self.range = (self.range * 2).min(self.sizes.longest);
            self.depth = (self.depth + 1).min(self.sizes.ahead);
        } else {
            (self.range, self.depth) = (self.sizes.block, 0);
        }
    }

    fn request_ahead(&mut self) {
        while self.ahead.len() < self.depth {
            let end = self.ahead.back().map_or(self.here.0 + self.here.1.len() as u64, |last| last.end);
            if end >= self.size {
                return;
            }
            self.range = (self.range * 2).min(self.sizes.longest);
            self.request(end);
        }
    }

    fn request(&mut self, start: u64) {
        let end = start.saturating_add(self.range).min(self.size);
        let source = self.source.clone();
        let read = tokio::spawn(async move { source.read(start, end).await });
        self.ahead.push_back(PendingRange { start, end, read: AbortOnDropHandle::new(read) });
    }
}
