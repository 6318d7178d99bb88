//! Reading an archive: windows that neighbouring members share, and long ranges.
//!
//! Small members that lie beside each other come from one ranged read of some MiB. One of the members that want a read
//! makes it, under its own request permit. A member waits for a free window only while all of them are being read:
//! those reads end without it. A window is dropped when all its members were taken; a member that comes later, such as
//! one that failed, is read alone.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::{Bytes, BytesMut};
use seqferry_client::Endpoint;
use seqferry_client::reading::{PinnedReader, fetch_pinned, head_pinned};
use seqferry_store::{Body, ObjectRef, ObjectStore, PinnedObject, Range, StoreError};
use tokio::sync::{Notify, OnceCell, OwnedMutexGuard};

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
    /// Members of each window, by its start, that were not taken. None: they all were.
    left: HashMap<u64, u32>,
}

/// Place where a member is read.
enum WindowUse {
    /// In this window, whose bytes are here or have to be read.
    Shared(Span, Arc<OnceCell<Bytes>>),
    /// By itself.
    Alone,
    /// In a window, once one of those that are being read is there.
    Wait,
}

/// A member reads a window, or waits for its bytes. Wakes the members that wait for a window, however that ends.
struct WindowRead<'a> {
    bytes: Option<Arc<OnceCell<Bytes>>>,
    freed: &'a Notify,
}

impl Drop for WindowRead<'_> {
    fn drop(&mut self) {
        // A window whose read was given up is one that no member holds.
        drop(self.bytes.take());
        self.freed.notify_waiters();
    }
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
    /// A window may have become free.
    freed: Notify,
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
        let joined = if format.is_stream() { Vec::new() } else { windows(wanted, pool.window()) };
        let left = joined.iter().map(|(window, members)| (window.start, *members)).collect();
        let windows = joined.into_iter().map(|(window, _)| window).collect();
        let slots = Mutex::new(WindowSlots { left, ..WindowSlots::default() });
        let (decoding, freed) = (Arc::default(), Notify::new());
        Self { store, archive, format, decoding, windows, pool, retained, slots, freed }
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
        let (window, bytes) = loop {
            let freed = self.freed.notified();
            match self.window(start, end) {
                WindowUse::Shared(window, bytes) => break (window, bytes),
                WindowUse::Alone => return self.read_alone(etag, start, end).await,
                WindowUse::Wait => freed.await,
            }
        };
        let reading = WindowRead { bytes: Some(bytes), freed: &self.freed };
        let Some(bytes) = &reading.bytes else { return Ok(Bytes::new()) };
        let read = bytes.get_or_try_init(|| self.read_alone(etag, window.start, window.end)).await?;
        let (from, to) = (index(start - window.start), index(end - window.start));
        // Copied, so that a window ends when all were taken, and not with the last of its members.
        let taken = read.get(from..to).map(Bytes::copy_from_slice).unwrap_or_default();
        drop(reading);
        self.count_taken(window.start);
        Ok(taken)
    }

    /// A member of a window was taken. The window is dropped with the last of them.
    fn count_taken(&self, window: u64) {
        let mut slots = self.slots();
        let Some(left) = slots.left.get_mut(&window) else { return };
        *left = left.saturating_sub(1);
        if *left == 0 {
            slots.left.remove(&window);
            let before = slots.held.len();
            slots.held.retain(|slot| slot.start != window);
            self.pool.put_back(before - slots.held.len());
            drop(slots);
            self.freed.notify_waiters();
        }
    }

    async fn read_alone(&self, etag: &str, start: u64, end: u64) -> Result<Bytes, StoreError> {
        let pinned = self.pinned_part(etag);
        let body = self.body(etag, start, end).await?;
        Ok(PinnedReader::new(body, &pinned).take(end - start, &[]).await?.bytes)
    }

    /// The window of a range, and its bytes or the place for them.
    fn window(&self, start: u64, end: u64) -> WindowUse {
        let at = self.windows.partition_point(|window| window.start <= start).checked_sub(1);
        let window = at.and_then(|at| self.windows.get(at)).filter(|window| end <= window.end);
        let Some(window) = window.copied() else { return WindowUse::Alone };
        let mut slots = self.slots();
        slots.uses += 1;
        let used = slots.uses;
        if let Some(slot) = slots.held.iter_mut().find(|slot| slot.start == window.start) {
            slot.used = used;
            return WindowUse::Shared(window, Arc::clone(&slot.bytes));
        }
        if !slots.left.contains_key(&window.start) {
            return WindowUse::Alone;
        }
        let slot = WindowSlot { start: window.start, used, bytes: Arc::default() };
        let bytes = Arc::clone(&slot.bytes);
        if self.pool.take() {
            slots.held.push(slot);
            return WindowUse::Shared(window, bytes);
        }
        if slots.held.is_empty() {
            // Other archives have all windows.
            return WindowUse::Alone;
        }
        // One that was read, or whose read was given up.
        let free = slots.held.iter_mut().filter(|slot| slot.bytes.initialized() || Arc::strong_count(&slot.bytes) == 1);
        match free.min_by_key(|slot| slot.used) {
            Some(replaced) => {
                *replaced = slot;
                WindowUse::Shared(window, bytes)
            }
            None => WindowUse::Wait,
        }
    }
}

fn index(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}

/// Neighbours among the small members, joined, each with the number of its members.
fn windows(wanted: impl IntoIterator<Item = Span>, longest: u64) -> Vec<(Span, u32)> {
    let mut joined: Vec<(Span, u32)> = Vec::new();
    for span in wanted {
        if span.end.saturating_sub(span.start) > SHARED.min(longest) {
            continue;
        }
        match joined.last_mut() {
            Some((last, members)) if span.start <= last.end.saturating_add(GAP) && span.end - last.start <= longest => {
                last.end = last.end.max(span.end);
                *members += 1;
            }
            _ => joined.push((span, 1)),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::{StreamExt as _, stream};
    use seqferry_client::{Budget, BudgetLimits};
    use seqferry_store::Attributes;
    use seqferry_store_testing::fault::{Fault, FaultStore, Rule};
    use seqferry_store_testing::{MemoryStore, ObjectWriteExt as _};

    use super::*;

    const MEMBER: u64 = 100_000;
    const MEMBERS: u64 = 200;

    /// An archive of small members, read within 32 MiB of memory: eight windows of 2 MiB.
    struct Setting {
        store: Arc<FaultStore>,
        content: Bytes,
        etag: String,
        pool: Arc<WindowPool>,
        bytes: ArchiveBytes,
    }

    impl Setting {
        async fn new() -> Self {
            let memory = MemoryStore::new(5 << 20);
            memory.create_bucket("b");
            let store = Arc::new(FaultStore::new(Arc::new(memory)));
            let content: Bytes = (0..MEMBERS * MEMBER).map(|at| u8::try_from(at % 251).unwrap()).collect();
            let written = store.put("b", "x.tar", content.clone(), &Attributes::default()).await.unwrap();
            let pool = WindowPool::new(&Budget::new(BudgetLimits { memory: 32 << 20, ..BudgetLimits::default() }));
            let source = Endpoint::new(Arc::clone(&store) as Arc<dyn ObjectStore>);
            let archive = ArchiveRef { bucket: "b".to_owned(), key: "x.tar".to_owned() };
            let spans = (0..MEMBERS).map(|number| Span { start: number * MEMBER, end: (number + 1) * MEMBER });
            let bytes = ArchiveBytes::new(source, archive, Format::Plain, Arc::clone(&pool), spans);
            Self { store, content, etag: written.etag, pool, bytes }
        }

        async fn read(&self, number: u64) -> Result<bool, StoreError> {
            let (start, end) = (number * MEMBER, (number + 1) * MEMBER);
            Ok(self.bytes.read(&self.etag, start, end).await? == self.content[index(start)..index(end)])
        }

        /// Reads all members, so many at a time; returns how many failed.
        async fn read_all(&self, concurrent: usize) -> usize {
            let reads = stream::iter(0..MEMBERS).map(|number| self.read(number)).buffered(concurrent);
            let failed = reads.filter(|read| {
                let is_failed = !matches!(read, Ok(true));
                async move { is_failed }
            });
            failed.count().await
        }
    }

    #[tokio::test(start_paused = true)]
    async fn members_read_side_by_side_wait_for_their_windows_and_leave_none() {
        let setting = Setting::new().await;
        setting.store.rule(Rule::always("GetObject", Fault::Delay(Duration::from_millis(30))));

        assert_eq!(setting.read_all(100).await, 0);

        // 20 members each.
        assert_eq!(setting.store.count("GetObject"), 10);
        assert_eq!(setting.pool.free(), setting.pool.capacity());
        assert!(setting.read(7).await.unwrap());
        assert_eq!((setting.store.count("GetObject"), setting.pool.free()), (11, setting.pool.capacity()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_window_that_fails_or_is_given_up_keeps_no_member_waiting() {
        let setting = Setting::new().await;
        setting.store.rule(Rule::always("GetObject", Fault::Delay(Duration::from_millis(30))));
        // The reads of all windows are cancelled.
        let given_up = futures::future::join_all((0..8).map(|window| setting.read(window * 20)));
        let ended = tokio::time::timeout(Duration::from_millis(10), given_up).await;
        assert!(ended.is_err(), "{ended:?}");
        setting.store.clear_rules();
        setting.store.rule(Rule::always("GetObject", Fault::Fail("ServiceUnavailable", 503)).times(5));

        let failed = tokio::time::timeout(Duration::from_mins(1), setting.read_all(100)).await.unwrap();

        assert_eq!(failed, 5);
    }

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
        let found: Vec<_> = found.iter().map(|(window, members)| (window.start, window.end, *members)).collect();
        assert_eq!(found, [(0, 3000 + GAP, 3), (9 * GAP, 9 * GAP + 10, 2)]);

        let many = windows((0..1000).map(|at| span(at << 20, (at + 1) << 20)), LONGEST);
        assert!(many.iter().all(|(window, _)| window.end - window.start <= LONGEST));
        assert_eq!(many.len(), 125);
    }
}
