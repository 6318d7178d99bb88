//! Members that lie in several parts of the archive, compared with the digest that the source states of the whole.
//!
//! Services state digests of whole objects only. A CRC is joined from those of the parts. MD5 and SHA digests cannot be
//! joined: the parts of a member feed one digest in their order, while they are being sent. A part that waits for its
//! turn holds its memory. The part at its turn never waits for memory, since parts get memory in their order.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use bytes::Bytes;
use futures::stream::{self, StreamExt as _};
use seqferry_archive::write::ArchivePiece;
use seqferry_client::reading::head_pinned;
use seqferry_client::{RequestError, RequestSpec, RetryContext, RetryingClient};
use seqferry_store::{Checksum, ChecksumKind, ErrorClass, ObjectMeta, PinnedObject};

use super::parts::{FetchedRange, PartError, Sender, SentPart};
use super::split_members::{MemberDigests, SplitMember};
use crate::object_outcome::VerificationLevel;
use crate::stated_digest::{DigestComparison, LookupCost, StatedDigest, hash};

/// Largest number of members that are compared concurrently. The budget decides how many requests are in flight.
const COMPARISONS: usize = 64;

impl Sender {
    /// Adds the members in a part of the archive to their digests, each as soon as the ranges before it are in.
    pub(super) async fn feed_split_members(&self, part: &Range<u64>, bytes: &Bytes) -> Result<(), PartError> {
        let mut at = 0;
        for piece in self.plan.layout().pieces(part.clone()) {
            let start = at;
            at += usize::try_from(piece.size()).unwrap_or(usize::MAX);
            if let ArchivePiece::Contents { member, range } = piece
                && let Some(split) = self.split.get(member)
            {
                self.feed(member, split, &range, bytes.slice(start..at)).await?;
            }
        }
        Ok(())
    }

    async fn feed(
        &self,
        member: usize,
        split: &SplitMember,
        range: &Range<u64>,
        bytes: Bytes,
    ) -> Result<(), PartError> {
        // The sender lives as long as this.
        let _ = split.turn.subscribe().wait_for(|turn| *turn == range.start).await;
        if range.start == 0 {
            let digests = self.stated_of(member).await?;
            *split.digests() = digests;
        }
        let read = split.digests().read.take();
        let read = hash(read, bytes).await;
        split.digests().read = read;
        split.turn.send_replace(range.end);
        Ok(())
    }

    /// Requests the digest that the source states of a member, before its first byte is hashed.
    async fn stated_of(&self, member: usize) -> Result<MemberDigests, PartError> {
        let pinned = self.members.pin(&self.source_bucket, member);
        let head = head_member(&self.source, &pinned, &self.retry_context).await;
        let meta = head.map_err(|request| PartError::of(request, |error| PartError::Member(member, error)))?;
        let Some(meta) = meta else { return Ok(MemberDigests::default()) };
        if let Some(crc) = meta.checksum.clone().filter(|sum| sum.kind == ChecksumKind::FullObject)
            && crc.algorithm.supports_full_object()
        {
            return Ok(MemberDigests { crc: Some(crc), ..MemberDigests::default() });
        }
        let stated = StatedDigest::of(&self.source, &pinned, &meta, &self.limits, LookupCost::Whole).await;
        let stated = stated.map_err(|request| PartError::of(request, |error| PartError::Member(member, error)))?;
        Ok(MemberDigests { crc: None, read: stated.digest(), stated: Some(stated) })
    }

    /// Compares each member that was read for several parts with the digest that the source states of it. Members
    /// without one, and those that an earlier run has read in part, keep their level.
    pub(super) async fn verify_split_members(&self, sent: &mut BTreeMap<u32, SentPart>) -> Result<(), PartError> {
        let ranges = self.split_members(sent);
        let checks: Vec<_> = ranges.iter().map(|(member, ranges)| self.verify_split_member(*member, ranges)).collect();
        let mut checks = stream::iter(checks).buffer_unordered(COMPARISONS);
        let mut levels = HashMap::new();
        while let Some(level) = checks.next().await {
            levels.extend(level?);
        }
        drop(checks);
        for fetch in sent.values_mut().flat_map(|part| &mut part.fetches) {
            if let Some(level) = levels.get(&fetch.member) {
                fetch.verified = *level;
            }
        }
        Ok(())
    }

    /// Ranges, in order, of each member whose bytes this run has read for several parts.
    fn split_members(&self, sent: &BTreeMap<u32, SentPart>) -> HashMap<usize, Vec<FetchedRange>> {
        let mut members: HashMap<usize, Vec<FetchedRange>> = HashMap::new();
        for fetch in sent.values().flat_map(|part| &part.fetches) {
            if self.split.get(fetch.member).is_some() {
                members.entry(fetch.member).or_default().push(fetch.clone());
            }
        }
        for ranges in members.values_mut() {
            ranges.sort_by_key(|fetch| fetch.range.start);
        }
        members
    }

    /// Returns the member with its level, if its source states a digest, and its ranges have that.
    async fn verify_split_member(
        &self,
        member: usize,
        ranges: &[FetchedRange],
    ) -> Result<Option<(usize, VerificationLevel)>, PartError> {
        let Some(split) = self.split.get(member) else { return Ok(None) };
        let MemberDigests { crc, stated, read } = std::mem::take(&mut *split.digests());
        if let Some(stated) = crc {
            return has_stated_crc(member, ranges, &stated);
        }
        let Some(stated) = stated else { return Ok(None) };
        let compared = stated.compare(read).await;
        match compared.map_err(|request| PartError::of(request, |error| PartError::Member(member, error)))? {
            DigestComparison::Equal(level) => Ok(Some((member, level))),
            DigestComparison::Nothing => Ok(None),
            DigestComparison::Differs(how) => Err(PartError::Misread(member, how)),
        }
    }
}

/// Attributes of a member, which must be what was found. None: these credentials may not ask for them.
pub(super) async fn head_member(
    source: &RetryingClient,
    pinned: &PinnedObject,
    retry_context: &RetryContext,
) -> Result<Option<ObjectMeta>, RequestError> {
    let spec = RequestSpec::read("HeadObject", &pinned.bucket);
    match source.call(spec, retry_context, async |store| head_pinned(&*store, pinned).await).await {
        Err(RequestError::Failed(error)) if error.is_denied() || error.class == ErrorClass::Capability => Ok(None),
        head => head.map(Some),
    }
}

/// Compares the CRC that is joined from those of the ranges of a member with the stated one.
fn has_stated_crc(
    member: usize,
    ranges: &[FetchedRange],
    stated: &Checksum,
) -> Result<Option<(usize, VerificationLevel)>, PartError> {
    let values: Option<Vec<(&str, u64)>> =
        ranges.iter().map(|fetch| Some((fetch.crc(stated.algorithm)?, fetch.range.end - fetch.range.start))).collect();
    let Some(value) = values.and_then(|values| stated.algorithm.combine(values)) else { return Ok(None) };
    let read = Checksum { algorithm: stated.algorithm, value, kind: ChecksumKind::FullObject };
    match read.matches(stated) {
        Some(false) => {
            let (name, value) = (stated.algorithm.name(), &stated.value);
            let how = format!("the source states {name} {value}, and the bytes read in parts have {}", read.value);
            Err(PartError::Misread(member, how))
        }
        agrees => Ok(agrees.and(Some((member, VerificationLevel::Checksum)))),
    }
}
