//! Reading an archive: windows that neighbouring members share, and long ranges.
//!
//! Small members that lie beside each other come from one ranged read of some MiB. No read waits for a free window:
//! where all are being filled, a member is read alone, so that members that wait for each other cannot block. One of
//! the members that want a read makes it, under its own request permit.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::{Bytes, BytesMut};
use seqferry_client::Endpoint;
use seqferry_client::reading::{PinnedReader, fetch_pinned, head_pinned};
use seqferry_store::{Body, ObjectRef, ObjectStore, PinnedObject, Range, StoreError};
use tokio::sync::{OnceCell, OwnedMutexGuard};

use super::ArchiveRef;
use super::member_location::Format;
use super::plain::PlainStream;
use super::retained::{RetainedBytes, WindowPool};

/// Longest gap between two members of a window. Its bytes are read without use; another request costs about as much.
const GAP: u64 = 1 << 20;
/// Members up to this size share windows.
const SHARED: u64 = 4 << 20;

/// Plain bytes of a compressed tar that are kept behind the decoder, in blocks.
const BLOCK: u64 = 1 << 20;
const BLOCKS: usize = 16;

/// Range `start..end` of an archive: a member, or a window that neighbouring members share.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    pub(super) start: u64,
    pub(super) end: u64,
}

#[derive(Debug)]
struct WindowSlot {
    start: u64,
    used: u64,
    bytes: Arc<OnceCell<Bytes>>,
}

#[derive(Debug, Default)]
struct WindowSlots {
    uses: u64,
    held: Vec<WindowSlot>,
}

/// A compressed tar that is being read.
#[derive(Debug)]
struct DecodedArchive {
    etag: String,
    stream: PlainStream,
    /// The last blocks, the newest at the end; they lie beside each other.
    kept: VecDeque<(u64, Bytes)>,
}

impl DecodedArchive {
    /// The first offset that can still be read.
    fn first(&self) -> u64 {
        self.kept.front().map_or(self.stream.position(), |(start, _)| *start)
    }

    /// Returns the bytes of `start..end` that are kept.
    fn copy_kept(&self, start: u64, end: u64) -> Bytes {
        let mut found = BytesMut::new();
        for (offset, block) in &self.kept {
            let (from, to) = (start.max(*offset), end.min(offset + block.len() as u64));
            if from < to {
                found.extend_from_slice(&block[index(from - offset)..index(to - offset)]);
            }
        }
        found.freeze()
    }

    async fn read(&mut self, start: u64, end: u64) -> Result<Bytes, StoreError> {
        if start > self.stream.position() + BLOCK * BLOCKS as u64 {
            self.kept.clear();
            self.stream.skip_to(start).await?;
        }
        let mut kept = self.copy_kept(start, end);
        while self.stream.position() < end {
            let offset = self.stream.position();
            let bytes = self.stream.next(BLOCK).await?;
            if bytes.is_empty() {
                return Ok(kept);
            }
            let (from, to) = (start.max(offset), end.min(offset + bytes.len() as u64));
            if from < to {
                let mut joined = BytesMut::from(kept);
                joined.extend_from_slice(&bytes[index(from - offset)..index(to - offset)]);
                kept = joined.freeze();
            }
            self.kept.push_back((offset, bytes));
            if self.kept.len() > BLOCKS * 4 {
                self.kept.pop_front();
            }
        }
        Ok(kept)
    }
}

/// The bytes of one archive.
#[derive(Debug)]
pub(super) struct ArchiveBytes {
    store: Arc<dyn ObjectStore>,
    archive: ArchiveRef,
    format: Format,
    decoding: Arc<tokio::sync::Mutex<Option<DecodedArchive>>>,
    windows: Vec<Span>,
    pool: Arc<WindowPool>,
    retained: Option<Arc<RetainedBytes>>,
    slots: Mutex<WindowSlots>,
}

impl Drop for ArchiveBytes {
    fn drop(&mut self) {
        self.pool.put_back(self.slots().held.len());
    }
}

impl ArchiveBytes {
    /// `wanted`: what members will be read, in order.
    pub(super) fn new(
        source: Endpoint,
        archive: ArchiveRef,
        format: Format,
        pool: Arc<WindowPool>,
        wanted: impl IntoIterator<Item = Span>,
    ) -> Self {
        let retained = pool.retained(&source, &archive, format);
        let store = source.store;
        let windows = if format.is_stream() { Vec::new() } else { windows(wanted, pool.window()) };
        Self { store, archive, format, decoding: Arc::default(), windows, pool, retained, slots: Mutex::default() }
    }

    fn slots(&self) -> MutexGuard<'_, WindowSlots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The archive, pinned to this `ETag`, of which a part is read: its whole size is not known here.
    pub(super) fn pinned_part(&self, etag: &str) -> PinnedObject {
        self.pin(etag, 0)
    }

    /// The archive, pinned to this `ETag`.
    fn pin(&self, etag: &str, size: u64) -> PinnedObject {
        PinnedObject::listed(ObjectRef::new(&self.archive.bucket, &self.archive.key), etag, size)
    }

    /// Bytes `start..end` as they come.
    pub(super) async fn body(&self, etag: &str, start: u64, end: u64) -> Result<Body, StoreError> {
        if start >= end {
            return Ok(Body::from_stream(Box::pin(futures::stream::empty())));
        }
        if let Some(pieces) = self.retained.as_ref().and_then(|retained| retained.take(etag, start, end)) {
            return Ok(Body::from_stream(Box::pin(futures::stream::iter(pieces.into_iter().map(Ok)))));
        }
        if self.format.is_stream() {
            return self.plain_body(etag, start, end).await;
        }
        let pinned = self.pinned_part(etag);
        Ok(fetch_pinned(&*self.store, &pinned, Some(Range { first: start, last: end - 1 })).await?.body)
    }

    /// The decoder of a compressed tar, at a place from which `start` can be read.
    async fn decoder(&self, etag: &str, start: u64) -> Result<OwnedMutexGuard<Option<DecodedArchive>>, StoreError> {
        let mut decoding = Arc::clone(&self.decoding).lock_owned().await;
        if decoding.as_ref().is_none_or(|there| there.etag != etag || there.first() > start) {
            let meta = head_pinned(&*self.store, &self.pinned_part(etag)).await?;
            let object = self.pin(etag, meta.size);
            let stream = PlainStream::open(Arc::clone(&self.store), object, (0, meta.size), self.format);
            *decoding = Some(DecodedArchive { etag: etag.to_owned(), stream, kept: VecDeque::new() });
        }
        Ok(decoding)
    }

    /// Bytes of the plain tar; the next producer waits until they are taken.
    async fn plain_body(&self, etag: &str, start: u64, end: u64) -> Result<Body, StoreError> {
        let mut guard = self.decoder(etag, start).await?;
        let Some(decoding) = guard.as_mut() else { return self.body_of_nothing() };
        decoding.stream.skip_to(start).await?;
        let kept = decoding.copy_kept(start, end);
        let left = end - start - kept.len() as u64;
        let rest = futures::stream::unfold(Some((guard, left)), async |state| {
            let (mut guard, left) = state.filter(|(_, left)| *left > 0)?;
            let decoding = guard.as_mut()?;
            decoding.kept.clear();
            match decoding.stream.next(left).await {
                Ok(bytes) if bytes.is_empty() => None,
                Ok(bytes) => {
                    let left = left - bytes.len() as u64;
                    Some((Ok(bytes), Some((guard, left))))
                }
                Err(error) => {
                    // It gives nothing more: the next reader starts over.
                    *guard = None;
                    Some((Err(error), None))
                }
            }
        });
        let first = futures::stream::iter((!kept.is_empty()).then_some(Ok(kept)));
        Ok(Body::from_stream(Box::pin(futures::StreamExt::chain(first, rest))))
    }

    fn body_of_nothing(&self) -> Result<Body, StoreError> {
        let (bucket, key) = (&self.archive.bucket, &self.archive.key);
        Err(StoreError::new("GetObject", bucket, Some(key), "Cancelled", None))
    }

    async fn read_plain(&self, etag: &str, start: u64, end: u64) -> Result<Bytes, StoreError> {
        if let Some(bytes) = self.retained.as_ref().and_then(|retained| retained.joined(etag, start, end)) {
            return Ok(bytes);
        }
        let mut guard = self.decoder(etag, start).await?;
        let Some(decoding) = guard.as_mut() else { return Ok(Bytes::new()) };
        let read = decoding.read(start, end).await;
        if read.is_err() {
            *guard = None;
        }
        read
    }

    /// The store that the archive lies in.
    pub(super) fn store(&self) -> Arc<dyn ObjectStore> {
        Arc::clone(&self.store)
    }

    /// Bytes `start..end` of the archive as it is now, and its `ETag`.
    pub(super) async fn current(&self, start: u64, end: u64) -> Result<(String, Bytes), StoreError> {
        if self.format.is_stream() {
            let meta = self.store.head(ObjectRef::new(&self.archive.bucket, &self.archive.key), None).await?;
            let bytes = self.read_plain(&meta.etag, start, end).await?;
            return Ok((meta.etag, bytes));
        }
        let pinned = self.pinned_part("");
        let range = Range { first: start, last: end.saturating_sub(1).max(start) };
        let fetched = self.store.fetch(&pinned, Some(range)).await?;
        let bytes = PinnedReader::new(fetched.body, &pinned).take(range.len(), &[]).await?.bytes;
        Ok((fetched.meta.etag, bytes))
    }

    /// Bytes `start..end`, out of a window where there is one.
    pub(super) async fn read(&self, etag: &str, start: u64, end: u64) -> Result<Bytes, StoreError> {
        if start >= end {
            return Ok(Bytes::new());
        }
        if self.format.is_stream() {
            return self.read_plain(etag, start, end).await;
        }
        let Some((window, bytes)) = self.window(start, end) else { return self.read_alone(etag, start, end).await };
        let read = bytes.get_or_try_init(|| self.read_alone(etag, window.start, window.end)).await?;
        let (from, to) = (index(start - window.start), index(end - window.start));
        // Copied, so that a window ends when it is replaced, and not with the last of its members.
        Ok(read.get(from..to).map(Bytes::copy_from_slice).unwrap_or_default())
    }

    async fn read_alone(&self, etag: &str, start: u64, end: u64) -> Result<Bytes, StoreError> {
        let pinned = self.pinned_part(etag);
        let body = self.body(etag, start, end).await?;
        Ok(PinnedReader::new(body, &pinned).take(end - start, &[]).await?.bytes)
    }

    /// The window of a range, and its bytes or the place for them.
    fn window(&self, start: u64, end: u64) -> Option<(Span, Arc<OnceCell<Bytes>>)> {
        let at = self.windows.partition_point(|window| window.start <= start).checked_sub(1)?;
        let window = *self.windows.get(at).filter(|window| end <= window.end)?;
        let mut slots = self.slots();
        slots.uses += 1;
        let used = slots.uses;
        if let Some(slot) = slots.held.iter_mut().find(|slot| slot.start == window.start) {
            slot.used = used;
            return Some((window, Arc::clone(&slot.bytes)));
        }
        let slot = WindowSlot { start: window.start, used, bytes: Arc::default() };
        let bytes = Arc::clone(&slot.bytes);
        if self.pool.take() {
            slots.held.push(slot);
        } else {
            let filled = slots.held.iter_mut().filter(|slot| slot.bytes.initialized());
            *filled.min_by_key(|slot| slot.used)? = slot;
        }
        Some((window, bytes))
    }
}

fn index(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}

/// Neighbours among the small members, joined.
fn windows(wanted: impl IntoIterator<Item = Span>, longest: u64) -> Vec<Span> {
    let mut joined: Vec<Span> = Vec::new();
    for span in wanted {
        if span.end.saturating_sub(span.start) > SHARED.min(longest) {
            continue;
        }
        match joined.last_mut() {
            Some(last) if span.start <= last.end.saturating_add(GAP) && span.end - last.start <= longest => {
                last.end = last.end.max(span.end);
            }
            _ => joined.push(span),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Longest window of these tests.
    const LONGEST: u64 = 8 << 20;

    #[test]
    fn neighbours_are_joined_up_to_the_longest_window() {
        let span = |start, end| Span { start, end };
        let found = windows(
            [
                span(0, 1000),
                span(1000, 2000),
                span(2000 + GAP, 3000 + GAP),
                span(4 * GAP, 4 * GAP + SHARED + 1),
                span(9 * GAP, 9 * GAP + 10),
                span(9 * GAP, 9 * GAP + 10),
            ],
            LONGEST,
        );
        let found: Vec<_> = found.iter().map(|window| (window.start, window.end)).collect();
        assert_eq!(found, [(0, 3000 + GAP), (9 * GAP, 9 * GAP + 10)]);

        let many = windows((0..1000).map(|at| span(at << 20, (at + 1) << 20)), LONGEST);
        assert!(many.iter().all(|window| window.end - window.start <= LONGEST));
        assert_eq!(many.len(), 125);
    }
}
