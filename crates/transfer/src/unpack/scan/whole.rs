//! A plain tar of which all bytes go by in order: the CRC-32C of each member, and the digest of the whole.

use bytes::Bytes;
use seqferry_archive::index::{IndexBuilder, IndexHead};
use seqferry_archive::{ArchiveError, ArchiveEvent, Member, Scanner, StreamReader};
use seqferry_client::RequestError;
use seqferry_client::forward::ForwardReader;
use seqferry_store::PinnedObject;

use super::admission::MemberAdmission;
use super::lines::{Lines, Ranges, SIZES, identity};
use super::{Scan, ScanError};
use crate::stated_digest::{StatedDigest, first, hash};
use crate::unpack::member_location::Format;
use crate::verification::SegmentedDigest;

/// Most bytes at the end of an archive that are read for its digest alone: zeros behind the last header.
const TAIL: u64 = 1 << 20;

/// Archive whose bytes go by.
pub(super) struct WholePass {
    reader: StreamReader,
    builder: IndexBuilder,
    digest: Option<SegmentedDigest>,
}

impl WholePass {
    pub(super) fn new(scan: &Scan, archive: &PinnedObject, digest: SegmentedDigest) -> Self {
        let mut options = scan.options.read.clone();
        options.limits.members = scan.options.members;
        let head = IndexHead::new(concat!("seqferry ", env!("CARGO_PKG_VERSION")), identity(archive), None);
        Self {
            reader: StreamReader::with_scanner(Scanner::new(Some(archive.size), options)),
            builder: IndexBuilder::new(&head),
            digest: Some(digest),
        }
    }

    /// Offset of the next byte.
    pub(super) fn position(&self) -> u64 {
        self.reader.position()
    }

    /// Takes the next bytes of the archive.
    ///
    /// # Errors
    /// When the archive is refused.
    async fn feed(&mut self, chunk: Bytes, mut found: impl FnMut(&Member)) -> Result<(), ArchiveError> {
        let (mut input, before) = (&chunk[..], self.position());
        while let Some(event) = self.reader.next(&mut input)? {
            match &event {
                ArchiveEvent::End(_) => break,
                ArchiveEvent::Member(member) => found(member),
                _ => {}
            }
            self.builder.event(&event);
        }
        self.digest = hash(self.digest.take(), first(&chunk, self.position() - before)).await;
        Ok(())
    }

    /// Returns the lines of the index and the digest, once all bytes have gone by.
    ///
    /// # Errors
    /// When the archive is refused.
    async fn finish(mut self, found: impl FnMut(&Member)) -> Result<(Lines, Option<SegmentedDigest>), ArchiveError> {
        // Contents of zero bytes end without further input.
        self.feed(Bytes::new(), found).await?;
        self.reader.finish()?;
        Ok((Lines::Made(self.builder.finish().into()), self.digest))
    }
}

impl Lines {
    /// The index of an archive that is read whole, with the CRC-32C of every member, compared with the digest that its
    /// storage states.
    pub(super) async fn of_whole(
        scan: &Scan,
        archive: &PinnedObject,
        (stated, digest): (&StatedDigest, SegmentedDigest),
        admission: &mut MemberAdmission,
    ) -> Result<Self, ScanError> {
        let retained = scan.retained(archive, Format::Plain);
        let source = Ranges { client: scan.client.clone(), object: archive.clone(), retained: retained.clone() };
        let mut bytes = ForwardReader::new(source, archive.size, SIZES);
        let mut pass = WholePass::new(scan, archive, digest);
        while pass.position() < archive.size {
            let chunk = bytes.at(pass.position()).await?;
            pass.feed(chunk, |member| admission.admit(member)).await.map_err(|error| scan.bad(&error))?;
            if scan.pages.is_closed() {
                return Err(ScanError::Closed);
            }
        }
        let (lines, digest) = pass.finish(|member| admission.admit(member)).await.map_err(|error| scan.bad(&error))?;
        admission.sums = scan.is_proven(stated, digest).await?;
        if let Some(retained) = retained {
            retained.ended(archive.size);
        }
        Ok(lines)
    }
}

/// Follows a reader of headers, as long as all bytes go by on the way.
pub(super) struct Follower {
    pass: Option<WholePass>,
    /// Bytes of the archive.
    size: u64,
}

impl Follower {
    /// Without a digest there is nothing to follow for.
    pub(super) fn new(scan: &Scan, archive: &PinnedObject, digest: Option<SegmentedDigest>) -> Self {
        Self { pass: digest.map(|digest| WholePass::new(scan, archive, digest)), size: archive.size }
    }

    /// The reader has come to this range.
    pub(super) async fn observe(&mut self, (start, bytes): (u64, Bytes)) {
        let Some(pass) = &mut self.pass else { return };
        let Some(known) = pass.position().checked_sub(start) else {
            self.pass = None;
            return;
        };
        let known = usize::try_from(known).unwrap_or(usize::MAX);
        // The reader of the headers reports faults of the archive.
        if known < bytes.len() && pass.feed(bytes.slice(known..), |_| ()).await.is_err() {
            self.pass = None;
        }
    }

    /// Returns the lines with checksums, if all bytes have gone by and are those that the storage states.
    pub(super) async fn finish(
        self,
        scan: &Scan,
        stated: &StatedDigest,
        bytes: &mut ForwardReader<Ranges>,
    ) -> Result<Option<Lines>, RequestError> {
        let Self { pass, size } = self;
        let Some(mut pass) = pass.filter(|pass| size - pass.position() <= TAIL) else { return Ok(None) };
        while pass.position() < size {
            let chunk = bytes.at(pass.position()).await?;
            if chunk.is_empty() || pass.feed(chunk, |_| ()).await.is_err() {
                return Ok(None);
            }
        }
        let Ok((lines, digest)) = pass.finish(|_| ()).await else { return Ok(None) };
        Ok(scan.is_proven(stated, digest).await?.then_some(lines))
    }
}
