//! Content of objects: lists of extents, of which nearly all are made up rather than kept.
//!
//! A seed stands for a stream of bytes. The stream is made of [`BLOCK`]s: one random block that all share, whose first
//! 16 bytes are the seed and the number of the block. So any byte of it costs no more than a copy, and a block in the
//! wrong place or of the wrong object is another block. Since the head enters a CRC linearly, the CRC of any range is a
//! sum of a few precomputed terms.
//!
//! Copies and multipart uploads make lists of extents, joined where one continues where the last ended: two contents
//! are the same by construction when their lists are equal.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use md5::{Digest as _, Md5};

use super::crc::Crc;

/// Length of a block of a stream in bytes: more than the window of gzip, less than the cache of a core.
pub const BLOCK: u64 = 64 * 1024;
#[expect(clippy::cast_possible_truncation, reason = "64 KiB")]
const BLOCK_LENGTH: usize = BLOCK as usize;
/// Length of what differs between blocks.
pub(super) const HEAD: usize = 16;
/// Length of a stream: 2^30 blocks, 64 TiB, above the largest object of S3.
const LEVELS: usize = 31;

fn base() -> &'static [u8] {
    static BASE: OnceLock<Vec<u8>> = OnceLock::new();
    BASE.get_or_init(|| {
        let mut bytes = crate::data::bytes(0x5eed_0fb1_0cc5, BLOCK_LENGTH);
        bytes[..HEAD].fill(0);
        bytes
    })
}

fn head(seed: u64, block: u64) -> [u8; HEAD] {
    let mut head = [0; HEAD];
    head[..8].copy_from_slice(&seed.to_le_bytes());
    head[8..].copy_from_slice(&block.to_le_bytes());
    head
}

/// Seed and offset of the stream that bytes at the start of a block claim to be from.
pub(super) fn recognise(bytes: &[u8]) -> Option<(u64, u64)> {
    let seed = u64::from_le_bytes(bytes.get(..8)?.try_into().ok()?);
    let block = u64::from_le_bytes(bytes.get(8..HEAD)?.try_into().ok()?);
    // Short bodies beyond the head would not prove anything: any 16 bytes look like one.
    let offset = block.checked_mul(BLOCK).filter(|offset| *offset < BLOCK << (LEVELS - 1))?;
    Some((seed, offset))
}

/// Bytes of the stream of `seed` from `offset` on.
pub fn fill(seed: u64, offset: u64, bytes: &mut [u8]) {
    let (mut offset, mut rest) = (offset, bytes);
    while !rest.is_empty() {
        let start = (offset % BLOCK) as usize;
        let length = rest.len().min(BLOCK_LENGTH - start);
        let (piece, after) = rest.split_at_mut(length);
        piece.copy_from_slice(&base()[start..start + length]);
        if start < HEAD {
            let end = HEAD.min(start + length);
            piece[..end - start].copy_from_slice(&head(seed, offset / BLOCK)[start..end]);
        }
        offset += length as u64;
        rest = after;
    }
}

/// CRCs of aligned runs of 2^k blocks, as a function of seed and first block: linear in the bits of both.
struct Runs {
    /// Seed 0, first block 0.
    constant: [u64; LEVELS],
    /// Change of the CRC by each bit of the seed.
    seed: [[u64; 64]; LEVELS],
    /// Change of the CRC by each bit of the first block's number.
    block: [[u64; 64]; LEVELS],
    /// The shift over the run.
    shift: [u64; LEVELS],
}

impl Runs {
    fn of(crc: Crc) -> &'static Self {
        static MADE: [OnceLock<Runs>; 3] = [const { OnceLock::new() }; 3];
        MADE[crc.index()].get_or_init(|| Self::new(crc))
    }

    fn new(crc: Crc) -> Self {
        let none = [[0; 64]; LEVELS];
        let mut runs = Self { constant: [0; LEVELS], seed: none, block: none, shift: [0; LEVELS] };
        let mut bytes = base().to_vec();
        runs.constant[0] = crc.of(&bytes);
        for bit in 0..64 {
            let mut flipped = |head: [u8; HEAD]| {
                bytes[..HEAD].copy_from_slice(&head);
                crc.of(&bytes) ^ runs.constant[0]
            };
            runs.seed[0][bit] = flipped(head(1 << bit, 0));
            runs.block[0][bit] = flipped(head(0, 1 << bit));
        }
        // A run of 2^(k+1) is two runs of 2^k; the second one's number has bit k set.
        for level in 0..LEVELS {
            let shift = crc.shift(BLOCK << level);
            runs.shift[level] = shift;
            if level + 1 < LEVELS {
                let twice = |value: u64| crc.advance(value, shift) ^ value;
                runs.constant[level + 1] = twice(runs.constant[level]) ^ runs.block[level][level];
                runs.seed[level + 1] = runs.seed[level].map(twice);
                runs.block[level + 1] = runs.block[level].map(twice);
            }
        }
        runs
    }

    fn value(&self, level: usize, seed: u64, block: u64) -> u64 {
        let sum = |columns: &[u64; 64], mut bits: u64| {
            let mut sum = 0;
            while bits != 0 {
                sum ^= columns[bits.trailing_zeros() as usize];
                bits &= bits - 1;
            }
            sum
        };
        self.constant[level] ^ sum(&self.seed[level], seed) ^ sum(&self.block[level], block)
    }
}

/// CRC of a range of the stream of `seed`, without making it: at most two blocks are.
pub fn stream_crc(crc: Crc, seed: u64, offset: u64, length: u64) -> u64 {
    let made = |from: u64, to: u64| {
        #[expect(clippy::cast_possible_truncation, reason = "at most a block")]
        let mut bytes = vec![0; (to - from) as usize];
        fill(seed, from, &mut bytes);
        crc.of(&bytes)
    };
    let end = offset + length;
    let (first, last) = (offset.next_multiple_of(BLOCK), end / BLOCK * BLOCK);
    if first >= last {
        // Less than one whole block, yet perhaps parts of two.
        let middle = first.min(end);
        return crc.combine(made(offset, middle), made(middle, end), end - middle);
    }
    let runs = Runs::of(crc);
    let mut value = if offset < first { made(offset, first) } else { crc.of(&[]) };
    let (mut block, until) = (first / BLOCK, last / BLOCK);
    while block < until {
        let fits = (until - block).ilog2() as usize;
        let aligned = if block == 0 { LEVELS - 1 } else { block.trailing_zeros() as usize };
        let level = fits.min(aligned).min(LEVELS - 1);
        value = crc.advance(value, runs.shift[level]) ^ runs.value(level, seed, block);
        block += 1 << level;
    }
    if last < end { crc.combine(value, made(last, end), end - last) } else { value }
}

/// Bytes that clients sent and that are kept; they count against a common allowance until dropped.
#[derive(Debug)]
pub struct StoredBody {
    bytes: Box<[u8]>,
    used: Arc<AtomicU64>,
}

impl StoredBody {
    /// `used` has been raised by the length already.
    pub(super) fn new(bytes: Box<[u8]>, used: Arc<AtomicU64>) -> Arc<Self> {
        Arc::new(Self { bytes, used })
    }
}

impl Drop for StoredBody {
    fn drop(&mut self) {
        self.used.fetch_sub(self.bytes.len() as u64, Ordering::Relaxed);
    }
}

/// A body that was not kept: its length and checksums are known, its bytes are not.
#[derive(Debug)]
pub struct DiscardedBody {
    pub(super) length: u64,
    /// Two bodies are the same when these and the lengths are.
    pub(super) sha256: [u8; 32],
    /// CRCs in the order of [`Crc::ALL`].
    pub(super) crcs: [u64; 3],
}

/// Source of an extent's bytes.
#[derive(Debug, Clone)]
pub enum ContentSource {
    /// The stream of a seed.
    Stream(u64),
    /// A body that was sent.
    Kept(Arc<StoredBody>),
    /// A body that was sent and thrown away.
    Forgotten(Arc<DiscardedBody>),
}

impl ContentSource {
    fn equals(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Stream(a), Self::Stream(b)) => a == b,
            (Self::Kept(a), Self::Kept(b)) => Arc::ptr_eq(a, b) || a.bytes == b.bytes,
            (Self::Forgotten(a), Self::Forgotten(b)) => {
                Arc::ptr_eq(a, b) || (a.length, a.sha256) == (b.length, b.sha256)
            }
            _ => false,
        }
    }
}

/// `length` bytes of a source from `offset` on.
#[derive(Debug, Clone)]
pub struct Extent {
    /// Source of the bytes.
    pub source: ContentSource,
    /// Offset in the source, in bytes.
    pub offset: u64,
    /// Length in bytes; never 0.
    pub length: u64,
}

impl Extent {
    fn equals(&self, other: &Self) -> bool {
        self.offset == other.offset && self.length == other.length && self.source.equals(&other.source)
    }
}

/// The bytes of an object or part. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Content(List);

#[derive(Debug, Clone, Default)]
enum List {
    #[default]
    Empty,
    /// A single extent: by far the most common list, hence without an allocation.
    One(Extent),
    Many(Arc<[Extent]>),
}

/// Error of an operation that needs bytes which were not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiscardedBodyError;

impl Content {
    /// A range of the stream of `seed`.
    pub fn stream(seed: u64, offset: u64, length: u64) -> Self {
        Self::whole(ContentSource::Stream(seed), offset, length)
    }

    pub(super) fn kept(kept: Arc<StoredBody>) -> Self {
        let length = kept.bytes.len() as u64;
        Self::whole(ContentSource::Kept(kept), 0, length)
    }

    pub(super) fn forgotten(forgotten: Arc<DiscardedBody>) -> Self {
        let length = forgotten.length;
        Self::whole(ContentSource::Forgotten(forgotten), 0, length)
    }

    fn whole(source: ContentSource, offset: u64, length: u64) -> Self {
        Self(if length == 0 { List::Empty } else { List::One(Extent { source, offset, length }) })
    }

    /// Its extents, no two of which could be one.
    pub fn extents(&self) -> &[Extent] {
        match &self.0 {
            List::Empty => &[],
            List::One(extent) => std::slice::from_ref(extent),
            List::Many(extents) => extents,
        }
    }

    /// Length in bytes.
    pub fn length(&self) -> u64 {
        self.extents().iter().map(|extent| extent.length).sum()
    }

    /// One after the other.
    pub fn concat<'a>(parts: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut all: Vec<Extent> = Vec::new();
        for extent in parts.into_iter().flat_map(Self::extents) {
            match all.last_mut() {
                Some(last) if last.offset + last.length == extent.offset && last.source.equals(&extent.source) => {
                    last.length += extent.length;
                }
                _ => all.push(extent.clone()),
            }
        }
        Self(match all.len() {
            0 => List::Empty,
            1 => all.pop().map_or(List::Empty, List::One),
            _ => List::Many(all.into()),
        })
    }

    /// Returns `length` bytes from `offset` on, or fewer at the end of the content.
    #[must_use]
    pub fn range(&self, offset: u64, length: u64) -> Self {
        let end = offset.saturating_add(length);
        let mut all = Vec::new();
        let mut position = 0;
        for extent in self.extents() {
            let (from, to) = (position.max(offset), (position + extent.length).min(end));
            if from < to {
                let offset = extent.offset + (from - position);
                all.push(Extent { source: extent.source.clone(), offset, length: to - from });
            }
            position += extent.length;
        }
        Self(match all.len() {
            0 => List::Empty,
            1 => all.pop().map_or(List::Empty, List::One),
            _ => List::Many(all.into()),
        })
    }

    /// Returns true when both hold the same bytes by construction. Bytes that were kept are compared as well.
    pub fn equals(&self, other: &Self) -> bool {
        let (a, b) = (self.extents(), other.extents());
        if a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.equals(b)) {
            return true;
        }
        self.length() == other.length() && self.same_pieces(other)
    }

    /// Cut at the ends of both lists' extents; kept bytes are compared by reading, with each other and with streams.
    fn same_pieces(&self, other: &Self) -> bool {
        let (mut a, mut b) = (self.extents().iter(), other.extents().iter());
        let (mut left, mut right): (Option<Extent>, Option<Extent>) = (a.next().cloned(), b.next().cloned());
        loop {
            let (Some(x), Some(y)) = (&mut left, &mut right) else { return left.is_none() && right.is_none() };
            let length = x.length.min(y.length);
            let piece = |extent: &Extent| Extent { length, ..extent.clone() };
            if !same_bytes(&piece(x), &piece(y)) {
                return false;
            }
            for (extent, rest) in [(&mut left, &mut a), (&mut right, &mut b)] {
                if let Some(now) = extent {
                    now.offset += length;
                    now.length -= length;
                    if now.length == 0 {
                        *extent = rest.next().cloned();
                    }
                }
            }
        }
    }

    /// Returns true when no extent's bytes were thrown away.
    pub fn is_readable(&self) -> bool {
        !self.extents().iter().any(|extent| matches!(extent.source, ContentSource::Forgotten(_)))
    }

    /// Bytes from `offset` on into the whole of `bytes`.
    ///
    /// # Errors
    /// When some were not kept.
    ///
    /// # Panics
    /// When the content has fewer bytes.
    pub fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<(), DiscardedBodyError> {
        let mut done = 0;
        for extent in self.range(offset, bytes.len() as u64).extents() {
            let length = usize::try_from(extent.length).unwrap_or(usize::MAX);
            let piece = &mut bytes[done..done + length];
            match &extent.source {
                ContentSource::Stream(seed) => fill(*seed, extent.offset, piece),
                ContentSource::Kept(kept) => {
                    let from = usize::try_from(extent.offset).unwrap_or(usize::MAX);
                    piece.copy_from_slice(&kept.bytes[from..from + length]);
                }
                ContentSource::Forgotten(_) => return Err(DiscardedBodyError),
            }
            done += length;
        }
        assert_eq!(done, bytes.len(), "read beyond the end");
        Ok(())
    }

    /// Hands all bytes to `take`, in pieces.
    ///
    /// # Errors
    /// When some were not kept.
    pub fn for_each_block(&self, mut take: impl FnMut(&[u8])) -> Result<(), DiscardedBodyError> {
        let mut buffer = vec![0; usize::try_from(self.length().min(4 * BLOCK)).unwrap_or(0)];
        let (mut offset, length) = (0, self.length());
        while offset < length {
            let piece = usize::try_from(length - offset).map_or(buffer.len(), |left| left.min(buffer.len()));
            self.read(offset, &mut buffer[..piece])?;
            take(&buffer[..piece]);
            offset += piece as u64;
        }
        Ok(())
    }

    /// Returns the true CRC of the bytes; that of a stream without making its bytes.
    ///
    /// # Errors
    /// For a part of a body that was not kept.
    pub fn crc(&self, crc: Crc) -> Result<u64, DiscardedBodyError> {
        let mut all = crc.of(&[]);
        for extent in self.extents() {
            let value = match &extent.source {
                ContentSource::Stream(seed) => stream_crc(crc, *seed, extent.offset, extent.length),
                ContentSource::Kept(kept) => {
                    let from = usize::try_from(extent.offset).unwrap_or(usize::MAX);
                    crc.of(&kept.bytes[from..from + usize::try_from(extent.length).unwrap_or(0)])
                }
                ContentSource::Forgotten(body) if extent.length == body.length => body.crcs[crc.index()],
                ContentSource::Forgotten(_) => return Err(DiscardedBodyError),
            };
            all = crc.combine(all, value, extent.length);
        }
        Ok(all)
    }

    pub(super) fn known_sha256(&self) -> Option<[u8; 32]> {
        match &self.0 {
            List::One(Extent { source: ContentSource::Forgotten(body), length, .. }) if *length == body.length => {
                Some(body.sha256)
            }
            _ => None,
        }
    }

    /// The true MD5 of the bytes, by reading them.
    ///
    /// # Errors
    /// When some were not kept.
    pub fn md5(&self) -> Result<[u8; 16], DiscardedBodyError> {
        let mut digest = Md5::new();
        self.for_each_block(|bytes| digest.update(bytes))?;
        Ok(digest.finalize().into())
    }

    /// 16 bytes that are equal for equal lists of extents, and look like an MD5 without being the one of the bytes.
    pub fn opaque_digest(&self) -> [u8; 16] {
        let mut digest = Md5::new();
        digest.update(b"s3sim extents");
        for extent in self.extents() {
            match &extent.source {
                ContentSource::Stream(seed) => {
                    digest.update([0]);
                    digest.update(seed.to_le_bytes());
                }
                ContentSource::Kept(kept) => {
                    digest.update([1]);
                    digest.update(Md5::digest(&kept.bytes));
                }
                ContentSource::Forgotten(body) => {
                    digest.update([2]);
                    digest.update(body.sha256);
                }
            }
            digest.update(extent.offset.to_le_bytes());
            digest.update(extent.length.to_le_bytes());
        }
        digest.finalize().into()
    }
}

/// Compares the bytes of two extents of equal length.
fn same_bytes(a: &Extent, b: &Extent) -> bool {
    if a.offset == b.offset && a.source.equals(&b.source) {
        return true;
    }
    if matches!((&a.source, &b.source), (ContentSource::Stream(_), ContentSource::Stream(_))) {
        // Different places of streams: could only be equal between two heads, which no client's copy comes to.
        return false;
    }
    let [a, b] = [a, b].map(|extent| Content(List::One(extent.clone())));
    let (mut one, mut other) = (vec![0; BLOCK_LENGTH], vec![0; BLOCK_LENGTH]);
    let (mut offset, length) = (0, a.length());
    while offset < length {
        let piece = usize::try_from(length - offset).map_or(BLOCK_LENGTH, |left| left.min(BLOCK_LENGTH));
        let read = a.read(offset, &mut one[..piece]).and_then(|()| b.read(offset, &mut other[..piece]));
        if read.is_err() || one[..piece] != other[..piece] {
            return false;
        }
        offset += piece as u64;
    }
    true
}
