//! Members that the storage copies, compared with the CRC that their source states.
//!
//! The bytes of a copied part do not pass through this process. In an upload with a CRC, a service answers each copy
//! with the CRC of the copied bytes. Those of a member are joined with the CRCs of its ranges that pass through, and
//! compared with the CRC that the source states of the whole member. A member whose source states none is not copied,
//! nor is any member where the service answers copies without such a CRC. They pass through this process, which
//! verifies them.

use std::collections::{BTreeMap, HashMap};

use futures::stream::{self, StreamExt as _};
use seqferry_archive::write::PartSource;
use seqferry_client::upload::ReservedCopy;
use seqferry_client::{RequestError, UploadSession};
use seqferry_store::checksum::base64;
use seqferry_store::{
    Cause, Checksum, ChecksumAlgorithm, ChecksumKind, CompletedPart, CreateUpload, DigestAlgorithm, Digester,
    Range as ByteRange, WrittenPart,
};

use super::error::PackError;
use super::job::PackJob;
use super::parts::{PartError, Sender, SentPart, StatedCrcs};
use super::plan::Plan;
use super::split::head_member;
use crate::verification::{is_digest, unhex};

/// Members that are checked concurrently. The budget decides how many requests are in flight.
const HEADS: usize = 64;

/// Start and length of a range of a member, with its CRC where that is known.
type RangeCrc<'a> = (u64, u64, Option<&'a str>);

impl PackJob {
    /// Requests the CRC by `algorithm` of each member that the plan copies. Members without one are left out, and all
    /// are where the service is known to answer copies without CRCs.
    pub(super) async fn stated_crcs(
        &self,
        plan: &Plan,
        algorithm: Option<ChecksumAlgorithm>,
    ) -> Result<StatedCrcs, PackError> {
        let proves = self.target.quirks().states_copied_sums() != Some(false);
        let Some(algorithm) = algorithm.filter(|_| proves) else { return Ok(StatedCrcs::new()) };
        let members = plan.copied_members().into_iter().map(|member| self.stated_crc(member, algorithm));
        let mut found = stream::iter(members).buffer_unordered(HEADS);
        let mut crcs = StatedCrcs::new();
        while let Some(crc) = found.next().await {
            match crc {
                Ok(crc) => crcs.extend(crc),
                Err(error) => return Err(self.part_error(error, None).await),
            }
        }
        Ok(crcs)
    }

    async fn stated_crc(
        &self,
        member: usize,
        algorithm: ChecksumAlgorithm,
    ) -> Result<Option<(usize, Checksum)>, PartError> {
        let pinned = self.members.pin(&self.policy.source_bucket, member);
        let head = head_member(&self.source, &pinned, &self.retry_context).await;
        let meta = head.map_err(|request| PartError::of(request, |error| PartError::Member(member, error)))?;
        let is_joined = |sum: &Checksum| sum.algorithm == algorithm && sum.kind == ChecksumKind::FullObject;
        Ok(meta.and_then(|meta| meta.checksum).filter(is_joined).map(|crc| (member, crc)))
    }

    /// Probes whether the service returns the CRC of the copied bytes, unless this is known: it copies one byte of a
    /// member into an upload that is aborted. A copy of a whole member would show nothing, since the CRC may be that
    /// which the service keeps for the source.
    pub(super) async fn try_copied_sums(&mut self, crcs: &StatedCrcs) -> Result<bool, PackError> {
        let Some((member, stated)) = crcs.iter().min_by_key(|(member, _)| **member) else { return Ok(false) };
        let target = self.target.clone();
        let turn = tokio::select! {
            biased;
            () = target.cancel().cancelled() => return Err(PackError::Cancelled),
            turn = target.quirks().try_copied_sums() => turn,
        };
        if turn.is_some() {
            // Only one upload is recorded at a time: one of other parts is of no use.
            self.abort(false).await;
            let mut session = self.session();
            let tried = self.copy_byte(&mut session, *member, stated.algorithm).await;
            if !matches!(tried, Err(PackError::Cancelled)) || self.shared.aborts() {
                session.abort(self.shared.aborts()).await;
            }
            self.recorded = session.open().cloned();
            target.quirks().learn_copied_sums(tried?);
        }
        Ok(target.quirks().states_copied_sums() == Some(true))
    }

    /// Returns true when the answer to the copy of one byte has the CRC of one byte.
    async fn copy_byte(
        &self,
        session: &mut UploadSession,
        member: usize,
        algorithm: ChecksumAlgorithm,
    ) -> Result<bool, PackError> {
        let request = CreateUpload {
            write: self.policy.properties.explicit_options(),
            checksum: Some((algorithm, ChecksumKind::FullObject)),
            ..session.request()
        };
        // Recorded as an upload of no plan, so that a kill leaves nothing.
        match session.begin(&request, &self.shared.journal(self.id)).await {
            Ok(()) => {}
            Err(RequestError::Failed(error)) => return Err(self.explain_refused_write(error, Some(algorithm))),
            Err(RequestError::Cancelled) => return Err(PackError::Cancelled),
        }
        let number = u32::try_from(self.policy.limits.maximum_parts).unwrap_or(u32::MAX);
        let reserved = session.reserve_copy(number, ByteRange { first: 0, last: 0 }).await?;
        let pinned = self.members.pin(&self.policy.source_bucket, member);
        match session.copy_part(&pinned, reserved).await {
            Ok(copied) => {
                let of = |byte: u8| base64(&Digester::of(DigestAlgorithm::Checksum(algorithm), &[byte]));
                let is_right = copied.checksum.as_ref().map(|sum| (0..=u8::MAX).any(|byte| of(byte) == *sum));
                if is_right == Some(false) {
                    self.target.quirks().learn_useless_part_checksums();
                }
                Ok(is_right == Some(true))
            }
            Err(RequestError::Failed(error)) if error.is_about_checksums() => {
                self.target.quirks().learn_useless_part_checksums();
                Ok(false)
            }
            Err(request) => {
                let error = PartError::of(request, |error| PartError::Copy(member, error));
                Err(self.part_error(error, Some(algorithm)).await)
            }
        }
    }
}

impl Sender {
    /// The CRC that the service must state of copied parts. None: the upload has no CRC, as one of an earlier version.
    fn copied_sum(&self) -> Option<ChecksumAlgorithm> {
        self.sum.filter(|_| self.target.capabilities().digests)
    }

    pub(super) async fn reserve_copy(&self, number: u32) -> Result<(usize, ReservedCopy), PartError> {
        let Some(PartSource::Copied { member, range }) = self.plan.part(number).map(|part| part.source.clone()) else {
            return Err(PartError::Cancelled);
        };
        let range = ByteRange { first: range.start, last: range.end - 1 };
        let reserved = self.session.read().await.reserve_copy(number, range).await;
        Ok((member, reserved.map_err(|request| PartError::of(request, PartError::Write))?))
    }

    pub(super) async fn copy(&self, member: usize, reserved: ReservedCopy) -> Result<SentPart, PartError> {
        let (number, len) = (reserved.number, reserved.range.len());
        let copied = self.copy_part(member, reserved).await?;
        if self.copied_sum().is_some() && copied.checksum.is_none() {
            return Err(PartError::NoSums);
        }
        self.active.add(len);
        let md5 = unhex(&copied.etag).filter(|_| !copied.opaque_etag && is_digest(&copied.etag));
        let sum = copied.checksum.clone().filter(|_| self.sum.is_some());
        let part = CompletedPart { number, etag: copied.etag, checksum: copied.checksum };
        Ok(SentPart { part, sum, md5, is_sent: false, fetches: Vec::new() })
    }

    async fn copy_part(&self, member: usize, reserved: ReservedCopy) -> Result<WrittenPart, PartError> {
        let pinned = self.members.pin(&self.source_bucket, member);
        let copied = self.session.read().await.copy_part(&pinned, reserved).await;
        copied.map_err(|request| {
            PartError::of(request, |error| {
                if error.cause() == Cause::UploadGone {
                    return PartError::Write(error);
                }
                if self.copied_sum().is_some() && error.is_about_checksums() {
                    self.target.quirks().learn_useless_part_checksums();
                    return PartError::NoSums;
                }
                PartError::Copy(member, error)
            })
        })
    }

    /// Compares each copied member with the CRC that its source states. Returns the CRCs of those that have it: of
    /// members that an earlier run has read in part nothing is known.
    pub(super) fn verify_copied_members(&self, sent: &BTreeMap<u32, SentPart>) -> Result<StatedCrcs, PartError> {
        let mut members: HashMap<usize, Vec<RangeCrc<'_>>> = HashMap::new();
        for (number, part) in sent {
            match self.plan.part(*number).map(|part| &part.source) {
                Some(PartSource::Copied { member, range }) => {
                    let copied = (range.start, range.end - range.start, part.sum.as_deref());
                    members.entry(*member).or_default().push(copied);
                }
                _ => {
                    for fetch in &part.fetches {
                        let Some(stated) = self.stated.get(&fetch.member) else { continue };
                        let crc = fetch.crc(stated.algorithm);
                        let read = (fetch.range.start, fetch.range.end - fetch.range.start, crc);
                        members.entry(fetch.member).or_default().push(read);
                    }
                }
            }
        }
        let mut proven = StatedCrcs::new();
        for (member, mut ranges) in members {
            let Some(stated) = self.stated.get(&member) else { continue };
            ranges.sort_unstable_by_key(|(start, _, _)| *start);
            let is_whole = ranges.iter().map(|(_, len, _)| len).sum::<u64>() == self.members.items()[member].size;
            let crcs: Option<Vec<(&str, u64)>> = ranges.iter().map(|(_, len, crc)| Some(((*crc)?, *len))).collect();
            let joined = crcs.filter(|_| is_whole).and_then(|crcs| stated.algorithm.combine(crcs));
            match joined {
                Some(joined) if joined != stated.value => {
                    let (name, value) = (stated.algorithm.name(), &stated.value);
                    let how = format!("the source states {name} {value}, and the parts of its copy have {joined}");
                    return Err(PartError::Miscopied(member, how));
                }
                Some(_) => {
                    proven.insert(member, stated.clone());
                }
                None => {}
            }
        }
        Ok(proven)
    }
}
