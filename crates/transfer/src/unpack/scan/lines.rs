//! The lines of an index, and their claims compared with the archive.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use seqferry_archive::MemberKind;
use seqferry_archive::index::{
    Gap, GapCheck, GapFault, GapStep, Index, IndexHead, IndexLimits, IndexMatch, IndexMember, IndexReader, SUFFIX,
    TarIdentity, verify_member,
};
use seqferry_client::forward::{ForwardReader, ForwardSizes, RangeSource};
use seqferry_client::{RequestError, RetryingClient};
use seqferry_store::{ErrorClass, ObjectRef, PinnedObject, Range, StoreError};

use super::{FOREIGN, Scan, ScanError, ScanOptions};
use crate::unpack::retained::RetainedBytes;

/// Bytes of an index that are read at a time.
const CHUNK: u64 = 4 << 20;
/// Reads of headers: at most 34 MiB are held or under way.
pub(in crate::unpack) const SIZES: ForwardSizes = ForwardSizes { block: 64 << 10, longest: 4 << 20, ahead: 8 };
/// Members whose headers are compared with their lines before the first one is unpacked, besides the first and the
/// last.
const SAMPLES: usize = 16;

/// The lines of an index.
pub(in crate::unpack) enum Lines {
    /// An object of its own.
    Beside(PinnedObject),
    /// Made here.
    Made(Bytes),
}

impl Lines {
    /// The index beside the archive.
    pub(in crate::unpack) async fn beside(scan: &Scan, archive: &PinnedObject) -> Result<Option<Self>, ScanError> {
        let key = format!("{}{SUFFIX}", archive.key);
        match scan.client.head(ObjectRef::new(&archive.bucket, &key)).await {
            Ok(meta) => Ok(Some(Self::Beside(PinnedObject::of(&archive.bucket, &key, &meta)))),
            // Reading it may be denied where reading the archive is not.
            Err(RequestError::Failed(error)) if matches!(error.class, ErrorClass::NotFound | ErrorClass::Person) => {
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The lines, some at a time.
    pub(in crate::unpack) fn chunks<'a>(&'a self, scan: &'a Scan) -> Chunks<'a> {
        Chunks { lines: self, client: &scan.client, offset: 0 }
    }
}

/// Hands out the lines of an index in order.
pub(in crate::unpack) struct Chunks<'a> {
    lines: &'a Lines,
    client: &'a RetryingClient,
    offset: u64,
}

impl Chunks<'_> {
    pub(in crate::unpack) async fn next(&mut self) -> Result<Option<Bytes>, RequestError> {
        let size = match self.lines {
            Lines::Beside(object) => object.size,
            Lines::Made(bytes) => bytes.len() as u64,
        };
        let end = size.min(self.offset + CHUNK);
        if self.offset >= end {
            return Ok(None);
        }
        let (start, first) = (self.offset, usize::try_from(self.offset).unwrap_or(usize::MAX));
        self.offset = end;
        match self.lines {
            Lines::Beside(object) => {
                let read = self.client.read_range(object, Range { first: start, last: end - 1 }).await?;
                Ok(Some(read.bytes))
            }
            Lines::Made(bytes) => {
                let last = usize::try_from(end).unwrap_or(usize::MAX).min(bytes.len());
                Ok(Some(bytes.slice(first.min(last)..last)))
            }
        }
    }
}

pub(in crate::unpack) fn reader(options: &ScanOptions) -> IndexReader {
    IndexReader::new(IndexLimits { members: options.members, ..IndexLimits::default() })
}

pub(super) fn identity(archive: &PinnedObject) -> TarIdentity {
    let (etag, version_id) = (archive.if_match.clone(), archive.version_id.clone());
    TarIdentity { size: archive.size, etag, version_id, ..TarIdentity::default() }
}

/// Compare the archive that an index names with the live one.
pub(super) fn belongs(head: &IndexHead, live: &TarIdentity) -> IndexMatch {
    Index { head: head.clone(), members: Vec::new() }.matches(live)
}

/// Compare a line with the headers at its place.
pub(super) async fn check(scan: &Scan, archive: &PinnedObject, entry: &IndexMember) -> Result<(), ScanError> {
    let member = &entry.member;
    let range = Range { first: member.header_offset, last: member.data_offset.saturating_sub(1) };
    if range.last < range.first || range.last >= archive.size {
        return Err(scan.other_archive().into());
    }
    let read = scan.client.read_range(archive, range).await?;
    verify_member(entry, &read.bytes, &scan.options.read)
        .map_err(|error| ScanError::from(scan.error(FOREIGN, error.to_string())))
}

/// Something that an index claims and that no later read of members shows.
pub(super) enum UnprovenClaim {
    /// No member lies here.
    Gap(Gap),
    /// The member is of a kind that is left out.
    Member(Box<IndexMember>),
}

/// True when the index alone would leave the member out, without a failure.
pub(super) fn is_left_out(entry: &IndexMember) -> bool {
    matches!(entry.member.kind, MemberKind::CharacterDevice | MemberKind::BlockDevice | MemberKind::Fifo)
}

/// True when the index states no checksum of a file that has bytes, in one piece.
pub(super) fn lacks_sum(entry: &IndexMember) -> bool {
    let IndexMember { member, crc32c, .. } = entry;
    let has_bytes = member.kind == MemberKind::File && member.stored_size > 0 && member.sparse.is_none();
    has_bytes && crc32c.is_none()
}

/// Holds the claims of an index against the archive, front to back.
pub(super) struct ClaimCheck<'a> {
    scan: &'a Scan,
    size: u64,
    bytes: ForwardReader<Ranges>,
}

impl<'a> ClaimCheck<'a> {
    pub(super) fn new(scan: &'a Scan, archive: &PinnedObject) -> Self {
        let source = Ranges { client: scan.client.clone(), object: archive.clone(), retained: None };
        Self { scan, size: archive.size, bytes: ForwardReader::new(source, archive.size, SIZES) }
    }

    pub(super) async fn check_claim(&mut self, claim: UnprovenClaim) -> Result<(), ScanError> {
        match claim {
            UnprovenClaim::Gap(gap) => self.is_empty(gap).await,
            UnprovenClaim::Member(entry) => self.is_there(&entry).await,
        }
    }

    async fn is_empty(&mut self, gap: Gap) -> Result<(), ScanError> {
        let mut check = GapCheck::new(gap, self.size, &self.scan.options.read);
        loop {
            match check.step() {
                Ok(GapStep::Empty) => return Ok(()),
                Ok(GapStep::Need { offset }) => {
                    let bytes = self.bytes.at(offset).await?;
                    check.supply(offset, &bytes);
                }
                Err(GapFault::Index(error)) => return Err(self.scan.foreign(&error).into()),
                Err(GapFault::Archive(error)) => return Err(self.scan.bad(&error).into()),
            }
        }
    }

    async fn is_there(&mut self, entry: &IndexMember) -> Result<(), ScanError> {
        let (mut offset, end) = (entry.member.header_offset, entry.member.data_offset);
        let mut headers = BytesMut::new();
        while offset < end {
            let bytes = self.bytes.at(offset).await?;
            let len = bytes.len().min(usize::try_from(end - offset).unwrap_or(usize::MAX));
            if len == 0 {
                return Err(self.scan.other_archive().into());
            }
            headers.extend_from_slice(&bytes[..len]);
            offset += len as u64;
        }
        verify_member(entry, &headers, &self.scan.options.read).map_err(|error| self.scan.foreign(&error).into())
    }
}

/// The first and the last member, and some between them.
#[derive(Default)]
pub(super) struct Samples {
    seen: u64,
    first: Option<IndexMember>,
    last: Option<IndexMember>,
    between: VecDeque<IndexMember>,
}

impl Samples {
    /// Every member with the same chance (reservoir sampling).
    pub(super) fn offer(&mut self, entry: &IndexMember) {
        // Times and owners of global headers are not compared, and all of these have a header of their own.
        let plain = matches!(entry.member.kind, MemberKind::File | MemberKind::Directory);
        if !plain || entry.member.refusal.is_some() {
            return;
        }
        self.seen += 1;
        if self.first.is_none() {
            self.first = Some(entry.clone());
        } else if self.between.len() < SAMPLES {
            self.between.push_back(entry.clone());
        } else if let Some(location) = usize::try_from(mixed(self.seen) % self.seen).ok()
            && let Some(sample) = self.between.get_mut(location)
        {
            *sample = entry.clone();
        }
        self.last = Some(entry.clone());
    }

    pub(super) fn take(self) -> impl Iterator<Item = IndexMember> {
        self.first.into_iter().chain(self.between).chain(self.last)
    }
}

/// `SplitMix64`.
fn mixed(seed: u64) -> u64 {
    let mixed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Ranges of a pinned object.
#[derive(Clone)]
pub(in crate::unpack) struct Ranges {
    pub(in crate::unpack) client: RetryingClient,
    pub(in crate::unpack) object: PinnedObject,
    /// Keeps the bytes that were read.
    pub(in crate::unpack) retained: Option<Arc<RetainedBytes>>,
}

impl RangeSource for Ranges {
    type Error = RequestError;

    async fn read(&self, start: u64, end: u64) -> Result<Bytes, RequestError> {
        let read = self.client.read_range(&self.object, Range { first: start, last: end - 1 }).await?;
        if let Some(retained) = &self.retained {
            retained.offer(start, &read.bytes);
        }
        Ok(read.bytes)
    }

    fn stop_error(&self) -> RequestError {
        StoreError::new("GetObject", &self.object.bucket, Some(&self.object.key), "Cancelled", None).into()
    }
}
