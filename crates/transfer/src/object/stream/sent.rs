//! Parts that are at the target, and their verification together. It consists of the checksum and the `ETag` that
//! the target must have, and of the verdict on the bytes that were read, by the digest that the source states.

use std::collections::BTreeMap;

use seqferry_client::UploadJournal;
use seqferry_store::checksum::decode_base64;
use seqferry_store::{Checksum, ChecksumAlgorithm, ChecksumKind, CompletedPart, DigestAlgorithm};

use super::super::Object;
use crate::plan::PartPlan;
use crate::verification::{ExpectedDigest, StreamRoute, Verdict, format_digest, is_digest, join_digests};

/// A part that is at the target.
#[derive(Debug, Clone)]
pub(super) struct StreamedPart {
    pub(super) part: CompletedPart,
    /// The upload's checksum of it, Base64; unknown for parts of an earlier run where the service does not list it.
    pub(super) sum: Option<String>,
    /// Digest of the part by the reference's algorithm, where the reference can be joined from those of parts.
    pub(super) segment_digest: Option<Vec<u8>>,
    /// True when its `ETag` is the MD5 of the bytes sent. None: not compared.
    pub(super) plain: Option<bool>,
}

/// Settings shared by all parts of one object.
pub(super) struct StreamSettings<'a> {
    pub(super) route: &'a StreamRoute,
    /// Algorithms of the digests to compute while a part is read.
    pub(super) algorithms: Vec<DigestAlgorithm>,
    /// Algorithm of the checksum to send with each part.
    pub(super) sum: Option<ChecksumAlgorithm>,
}

impl StreamSettings<'_> {
    pub(super) fn plan(&self) -> PartPlan {
        self.route.parts.plan
    }
}

impl<J: UploadJournal> Object<'_, J> {
    /// Compare the bytes that were read with the digest that the source states. A disk states none and counts as
    /// proven.
    pub(super) fn what_was_read(
        &self,
        sending: &StreamSettings<'_>,
        sent: &BTreeMap<u32, StreamedPart>,
        in_order: Option<String>,
    ) -> Verdict {
        let Some(reference) = &sending.route.reference else { return self.without_reference() };
        let computed = match (sending.route.by_parts(), reference.algorithm) {
            (None, _) => in_order,
            (Some(ExpectedDigest { cut: Some(_), algorithm, .. }), _) => {
                let segments: Option<Vec<&[u8]>> = sent.values().map(|sent| sent.segment_digest.as_deref()).collect();
                segments.map(|segments| join_digests(*algorithm, segments))
            }
            (Some(_), DigestAlgorithm::Checksum(algorithm)) if Some(algorithm) == sending.sum => {
                join_checksums(sending, sent, algorithm)
            }
            // The target has another algorithm than the source: join the parts' digests by the source's algorithm.
            (Some(_), _) => {
                let segments: Option<Vec<(String, u64)>> = sent
                    .iter()
                    .map(|(number, sent)| {
                        let digest = sent.segment_digest.as_deref()?;
                        Some((format_digest(reference.algorithm, digest), sending.plan().range(*number)?.len()))
                    })
                    .collect();
                match (segments, reference.algorithm) {
                    (Some(all), DigestAlgorithm::Checksum(algorithm)) => {
                        algorithm.combine(all.iter().map(|(value, len)| (value.as_str(), *len)))
                    }
                    _ => None,
                }
            }
        };
        computed.map_or(Verdict::Unknown, |computed| reference.verdict(&computed))
    }
}

/// A part of an earlier run, as the target lists it.
pub(super) fn of_listed_part(part: CompletedPart, sending: &StreamSettings<'_>) -> StreamedPart {
    let segment_digest = sending.route.by_parts().and_then(|reference| match reference.algorithm {
        DigestAlgorithm::Md5 => unhex_etag(&part.etag),
        DigestAlgorithm::Checksum(algorithm) if Some(algorithm) == sending.sum => {
            decode_base64(part.checksum.as_deref()?)
        }
        DigestAlgorithm::Checksum(_) => None,
    });
    StreamedPart { sum: part.checksum.clone().filter(|_| sending.sum.is_some()), segment_digest, plain: None, part }
}

fn unhex_etag(etag: &str) -> Option<Vec<u8>> {
    if !is_digest(etag) {
        return None;
    }
    (0..etag.len()).step_by(2).map(|at| u8::from_str_radix(etag.get(at..at + 2)?, 16).ok()).collect()
}

fn join_checksums(
    sending: &StreamSettings<'_>,
    sent: &BTreeMap<u32, StreamedPart>,
    algorithm: ChecksumAlgorithm,
) -> Option<String> {
    let values: Option<Vec<(&str, u64)>> =
        sent.iter().map(|(number, sent)| Some((sent.sum.as_deref()?, sending.plan().range(*number)?.len()))).collect();
    algorithm.combine(values?)
}

/// Compute the checksum that the target must have. None where its upload has none, or that of a part is unknown.
pub(super) fn whole_sum(sending: &StreamSettings<'_>, sent: &BTreeMap<u32, StreamedPart>) -> Option<Checksum> {
    let (algorithm, kind) = sending.route.parts.checksum?;
    let value = match kind {
        ChecksumKind::FullObject => join_checksums(sending, sent, algorithm),
        ChecksumKind::Composite => {
            let sums: Option<Vec<&str>> = sent.values().map(|sent| sent.sum.as_deref()).collect();
            sums.and_then(|sums| algorithm.composite(sums))
        }
    };
    value.map(|value| Checksum { algorithm, value, kind })
}

/// Compute the `ETag` that the target must have. None unless those of all parts were seen to be digests.
pub(super) fn whole_etag(sent: &BTreeMap<u32, StreamedPart>) -> Option<String> {
    if !sent.values().all(|sent| sent.plain == Some(true)) {
        return None;
    }
    let digests: Option<Vec<Vec<u8>>> = sent.values().map(|sent| unhex_etag(&sent.part.etag)).collect();
    Some(join_digests(DigestAlgorithm::Md5, digests?.iter().map(Vec::as_slice)))
}
