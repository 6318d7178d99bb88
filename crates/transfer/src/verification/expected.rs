//! The digest that a side states of its bytes, and its computation while they are read.

use std::sync::Arc;

use seqferry_store::checksum::{base64, hex};
use seqferry_store::{Checksum, ChecksumKind, DigestAlgorithm, Digester, ObjectMeta};

use super::{Verdict, is_digest, is_same_digest};
use crate::limits::CopyLimits;
use crate::object_outcome::VerificationLevel;
use crate::plan::{etag_parts, uniform_part_size};

/// Lengths of the segments whose digests are joined to one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SegmentLengths {
    /// All but the last have this length, as the first part suggests.
    Even(u64),
    /// The length of each, as the service states it.
    Stated(Arc<[u64]>),
}

impl SegmentLengths {
    /// Length of a segment, counted from 0.
    fn length(&self, segment: usize) -> u64 {
        match self {
            Self::Even(length) => *length,
            Self::Stated(lengths) => lengths.get(segment).copied().unwrap_or(u64::MAX),
        }
    }
}

/// The digest that the source states for its bytes, and how to compute it while they are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpectedDigest {
    /// Algorithm of the digest.
    pub algorithm: DigestAlgorithm,
    /// Segments whose digests are joined, as for multipart `ETag`s and composite checksums. None: one digest over all
    /// bytes.
    pub cut: Option<SegmentLengths>,
    /// Expected value, as headers have it.
    pub value: String,
}

impl ExpectedDigest {
    /// Returns the strongest digest that the metadata `source` state; `first_part` is the length of its part 1 where
    /// that is known.
    pub fn of(source: &ObjectMeta, first_part: Option<u64>, limits: &CopyLimits) -> Option<Self> {
        let cut = first_part
            .zip(etag_parts(&source.etag))
            .and_then(|(first, parts)| uniform_part_size(source.size, parts, first, limits))
            .filter(|_| source.size > 0)
            .map(SegmentLengths::Even);
        match &source.checksum {
            Some(Checksum { algorithm, value, kind: ChecksumKind::FullObject }) => {
                let algorithm = DigestAlgorithm::Checksum(*algorithm);
                return Some(Self { algorithm, cut: None, value: value.clone() });
            }
            Some(Checksum { algorithm, value, kind: ChecksumKind::Composite }) if cut.is_some() => {
                let algorithm = DigestAlgorithm::Checksum(*algorithm);
                return Some(Self { algorithm, cut, value: value.clone() });
            }
            _ => {}
        }
        let digest = !source.opaque_etag && (is_digest(&source.etag) || cut.is_some());
        digest.then(|| Self { algorithm: DigestAlgorithm::Md5, cut, value: source.etag.clone() })
    }

    /// The digest over parts of these lengths that the metadata `source` state; None where they state none over parts.
    pub fn over(source: &ObjectMeta, lengths: Arc<[u64]>) -> Option<Self> {
        let cut = Some(SegmentLengths::Stated(lengths));
        match &source.checksum {
            Some(Checksum { kind: ChecksumKind::FullObject, .. }) => None,
            Some(Checksum { algorithm, value, kind: ChecksumKind::Composite }) => {
                Some(Self { algorithm: DigestAlgorithm::Checksum(*algorithm), cut, value: value.clone() })
            }
            None if source.opaque_etag || etag_parts(&source.etag).is_none() => None,
            None => Some(Self { algorithm: DigestAlgorithm::Md5, cut, value: source.etag.clone() }),
        }
    }

    /// True when nothing about the boundaries of parts was guessed.
    pub fn is_exact(&self) -> bool {
        matches!(self.cut, Some(SegmentLengths::Stated(_)))
    }

    /// Verdict on the computed value.
    pub fn verdict(&self, computed: &str) -> Verdict {
        // Some services leave the number of parts out of composite checksums.
        let base = |value: &str| value.split_once('-').map_or(value, |(base, _)| base).to_owned();
        let (stated, computed_base) = (base(&self.value), base(computed));
        let (name, level, is_equal) = match self.algorithm {
            DigestAlgorithm::Md5 => ("ETag", VerificationLevel::Etag, is_same_digest(&stated, &computed_base)),
            DigestAlgorithm::Checksum(algorithm) => {
                (algorithm.name(), VerificationLevel::Checksum, stated == computed_base)
            }
        };
        if is_equal {
            return Verdict::Verified(level);
        }
        let how = format!("the {name} is {}, and the bytes as they were read give {computed}", self.value);
        // Not every `ETag` that looks like a digest is one, and parts may have other boundaries than the first shows.
        let may_err = self.algorithm == DigestAlgorithm::Md5 || matches!(self.cut, Some(SegmentLengths::Even(_)));
        if may_err { Verdict::Doubtful(how) } else { Verdict::Differs(how) }
    }
}

/// Digests of segments, joined as S3 does for multipart `ETag`s and composite checksums.
pub fn join_digests<'a>(algorithm: DigestAlgorithm, digests: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut digester = Digester::new(algorithm);
    let mut count = 0;
    for digest in digests {
        digester.update(digest);
        count += 1;
    }
    format!("{}-{count}", format_digest(algorithm, &digester.finish()))
}

/// `ETag` of the object that a service makes of parts with these `ETag`s. None: they have not the form of digests, and
/// the service makes it in another way.
pub fn joined_etag<'a>(parts: impl Iterator<Item = &'a str>) -> Option<String> {
    let digest = |etag: &str| -> Option<Vec<u8>> {
        let digits = etag.as_bytes().chunks(2).map(|pair| {
            let pair = std::str::from_utf8(pair).ok()?;
            u8::from_str_radix(pair, 16).ok()
        });
        if is_digest(etag) { digits.collect() } else { None }
    };
    let digests: Vec<Vec<u8>> = parts.map(digest).collect::<Option<_>>()?;
    Some(join_digests(DigestAlgorithm::Md5, digests.iter().map(Vec::as_slice)))
}

/// A digest as headers have it: `ETag`s in hexadecimal digits, checksums in Base64.
pub fn format_digest(algorithm: DigestAlgorithm, digest: &[u8]) -> String {
    match algorithm {
        DigestAlgorithm::Md5 => hex(digest),
        DigestAlgorithm::Checksum(_) => base64(digest),
    }
}

/// Computes an [`ExpectedDigest`] from bytes that come in order.
#[derive(Debug)]
pub struct SegmentedDigest {
    algorithm: DigestAlgorithm,
    cut: Option<SegmentLengths>,
    digester: Digester,
    /// Bytes of the current segment.
    seen: u64,
    ended: Vec<Vec<u8>>,
}

impl SegmentedDigest {
    /// Creates a digest to compare with `reference`, before the first byte.
    pub fn new(reference: &ExpectedDigest) -> Self {
        Self::of(reference.algorithm, reference.cut.clone())
    }

    /// Creates a digest over all bytes, or over the digests of segments.
    pub fn of(algorithm: DigestAlgorithm, cut: Option<SegmentLengths>) -> Self {
        Self { algorithm, cut, digester: Digester::new(algorithm), seen: 0, ended: Vec::new() }
    }

    /// Adds the next bytes.
    pub fn update(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let Some(cut) = &self.cut else { return self.digester.update(bytes) };
            let length = cut.length(self.ended.len());
            if self.seen == length {
                self.end();
                continue;
            }
            let room = usize::try_from(length - self.seen).unwrap_or(usize::MAX);
            let (here, rest) = bytes.split_at(room.min(bytes.len()));
            self.digester.update(here);
            self.seen += here.len() as u64;
            bytes = rest;
        }
    }

    fn end(&mut self) {
        let ended = std::mem::replace(&mut self.digester, Digester::new(self.algorithm));
        self.ended.push(ended.finish());
        self.seen = 0;
    }

    /// Value of the digest, as headers have it.
    pub fn finish(mut self) -> String {
        if self.cut.is_none() {
            return format_digest(self.algorithm, &self.digester.finish());
        }
        self.end();
        if let Some(SegmentLengths::Stated(lengths)) = &self.cut {
            // Parts without a byte at the end.
            let missing = lengths.len().saturating_sub(self.ended.len());
            (0..missing).for_each(|_| self.end());
        }
        join_digests(self.algorithm, self.ended.iter().map(Vec::as_slice))
    }
}
