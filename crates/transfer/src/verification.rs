//! Verification of a copy: the choice of the strongest verification, and the comparison of two sides.
//!
//! Verifications, the strongest first: equal checksums over the full object; equal composite checksums or equal `ETag`s
//! of copies with the same part boundaries; equal plain `ETag`s of copies made in one request; equal sizes. No choice
//! here costs another read of the bytes.

use seqferry_store::checksum::hex;
use seqferry_store::{
    Checksum, ChecksumAlgorithm, ChecksumKind, DigestAlgorithm, Digester, Encryption, ObjectMeta, WrittenObject,
};

pub use self::expected::{ExpectedDigest, SegmentLengths, SegmentedDigest, format_digest, join_digests, joined_etag};
use crate::limits::CopyLimits;
use crate::object_outcome::VerificationLevel;
use crate::plan::{PartPlan, PlanError, etag_parts, plan_parts, uniform_part_size};

mod expected;

/// Route of a copy: one request, or parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route {
    /// One request. The service is asked to keep this checksum.
    Copy(Option<ChecksumAlgorithm>),
    /// A copy in parts.
    Parts(PartsRoute),
}

/// Route of a copy in parts: the cut, and the checksums of the upload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartsRoute {
    /// The cut.
    pub plan: PartPlan,
    /// Checksum of the upload; None where the service is known to get it wrong (see [`seqferry_client::quirks`]). Some
    /// services answer part copies with an `ETag` that is no digest unless the upload has a checksum.
    pub checksum: Option<(ChecksumAlgorithm, ChecksumKind)>,
    /// The source's checksum over the full object, which the service shall check at the end.
    pub whole: Option<Checksum>,
    /// True when the cut is the source's own, so that `ETag`s and composite checksums can be compared.
    pub same_boundaries: bool,
}

/// Part size and copy threshold that the caller requested.
#[derive(Debug, Clone, Copy, Default)]
pub struct PartOptions {
    /// Part size. None: chosen for the strongest verification.
    pub part_size: Option<u64>,
    /// Size up to which an object is copied in one request; None for the default.
    pub copy_threshold: Option<u64>,
}

/// True when a plain `ETag` can be a digest of the content.
pub fn is_digest(etag: &str) -> bool {
    etag.len() == 32 && etag.bytes().all(|b| b.is_ascii_hexdigit())
}

/// True when two `ETag`s are one digest: some services write hexadecimal digits in upper case.
fn is_same_digest(one: &str, other: &str) -> bool {
    one.eq_ignore_ascii_case(other)
}

fn threshold(part_options: PartOptions, limits: &CopyLimits) -> u64 {
    part_options.copy_threshold.unwrap_or(limits.copy_threshold).min(limits.maximum_copy)
}

/// True when the listing is enough to copy an object in one request and to verify the copy by its plain `ETag`.
pub fn needs_no_head(size: u64, etag: &str, part_options: PartOptions, limits: &CopyLimits) -> bool {
    size <= threshold(part_options, limits) && is_digest(etag)
}

/// True when one request copies an object of this size.
pub fn fits_one_copy(size: u64, part_options: PartOptions, limits: &CopyLimits) -> bool {
    size <= threshold(part_options, limits)
}

impl PartsRoute {
    /// The target is to keep this checksum, which need not be one that the source has.
    pub fn keep(&mut self, requested: ChecksumAlgorithm) {
        if self.checksum.is_some_and(|(algorithm, _)| algorithm == requested) {
            return;
        }
        let kind = if requested.supports_full_object() { ChecksumKind::FullObject } else { ChecksumKind::Composite };
        self.checksum = Some((requested, kind));
        self.whole = None;
    }
}

/// Choose the route for a source with the metadata `source`; `first_part` is the length of its part 1 where that is
/// known.
///
/// # Errors
/// When the object is too large to be cut.
pub fn choose_route(
    source: &ObjectMeta,
    first_part: Option<u64>,
    part_options: PartOptions,
    limits: &CopyLimits,
) -> Result<Route, PlanError> {
    let size = source.size;
    let whole = source
        .checksum
        .clone()
        .filter(|sum| sum.kind == ChecksumKind::FullObject && sum.algorithm.supports_full_object());
    let kept = source.checksum.as_ref().map(|sum| sum.algorithm);
    let boundaries = (!source.opaque_etag && part_options.part_size.is_none())
        .then(|| uniform_part_size(size, etag_parts(&source.etag)?, first_part?, limits))
        .flatten()
        .filter(|_| size > 0);
    let small = size <= threshold(part_options, limits);
    if small && (whole.is_some() || boundaries.is_none()) {
        return Ok(Route::Copy(kept));
    }
    if let Some(whole) = whole {
        let plan = plan_parts(size, part_options.part_size, limits)?;
        let checksum = Some((whole.algorithm, ChecksumKind::FullObject));
        return Ok(Route::Parts(PartsRoute { plan, checksum, whole: Some(whole), same_boundaries: false }));
    }
    if let Some(part_size) = boundaries {
        // The source's own algorithm can be compared; without one the upload still needs a checksum.
        let checksum = Some(match source.checksum.as_ref() {
            Some(sum) if sum.kind == ChecksumKind::Composite => (sum.algorithm, ChecksumKind::Composite),
            _ => (ChecksumAlgorithm::Crc64Nvme, ChecksumKind::FullObject),
        });
        let plan = PartPlan { size, part_size };
        return Ok(Route::Parts(PartsRoute { plan, checksum, whole: None, same_boundaries: true }));
    }
    let by_etag = is_digest(&source.etag) && !source.opaque_etag;
    if by_etag && size <= limits.etag_copy && part_options.part_size.is_none() && part_options.copy_threshold.is_none()
    {
        return Ok(Route::Copy(kept));
    }
    let plan = plan_parts(size, part_options.part_size, limits)?;
    let checksum = Some((ChecksumAlgorithm::Crc64Nvme, ChecksumKind::FullObject));
    Ok(Route::Parts(PartsRoute { plan, checksum, whole: None, same_boundaries: false }))
}

/// Route of an object that is streamed in parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamRoute {
    /// The upload. Its full-object checksum is known when all bytes were read.
    pub parts: PartsRoute,
    /// Digest that the bytes must have; None when the source states none.
    pub reference: Option<ExpectedDigest>,
}

impl StreamRoute {
    /// Returns the reference, if its value can be joined from digests of parts in any order.
    pub fn by_parts(&self) -> Option<&ExpectedDigest> {
        self.reference.as_ref().filter(|reference| match (&reference.cut, reference.algorithm) {
            (Some(SegmentLengths::Even(cut)), _) => *cut == self.parts.plan.part_size,
            (None, DigestAlgorithm::Checksum(algorithm)) => algorithm.supports_full_object(),
            (Some(SegmentLengths::Stated(_)), _) | (None, DigestAlgorithm::Md5) => false,
        })
    }

    /// The reference, when all parts have to be computed one after another.
    pub fn in_order(&self) -> Option<&ExpectedDigest> {
        self.reference.as_ref().filter(|_| self.by_parts().is_none())
    }
}

/// True when an object of this size is streamed in one request; `memory` is the size of all buffers in bytes.
pub fn streams_in_one_request(size: u64, part_options: PartOptions, limits: &CopyLimits, memory: u64) -> bool {
    let threshold = part_options.copy_threshold.unwrap_or(limits.stream_threshold);
    size <= threshold.min(limits.maximum_copy).min(memory / 4)
}

/// Choose how to stream a source of `size` bytes that states `reference`. `memory` is the size of all buffers in bytes.
///
/// The boundaries of the source's own parts are kept where its digest depends on them, so that parts can be read in any
/// order and the target gets the same `ETag`. The upload has the source's algorithm, so that both can be compared
/// later.
///
/// # Errors
/// When the object is too large to be cut.
pub fn choose_stream_route(
    size: u64,
    reference: Option<ExpectedDigest>,
    part_options: PartOptions,
    limits: &CopyLimits,
    memory: u64,
) -> Result<StreamRoute, PlanError> {
    const STEPS: u64 = 1000;
    const MIB: u64 = 1 << 20;
    let boundaries = reference
        .as_ref()
        .and_then(|reference| match reference.cut {
            Some(SegmentLengths::Even(cut)) => Some((cut, reference.algorithm)),
            _ => None,
        })
        .filter(|(cut, _)| *cut <= limits.stream_boundaries.min(memory / 4) && part_options.part_size.is_none());
    let full = |algorithm| Some((algorithm, ChecksumKind::FullObject));
    let parts = if let Some((part_size, algorithm)) = boundaries {
        let checksum = match algorithm {
            DigestAlgorithm::Checksum(algorithm) => Some((algorithm, ChecksumKind::Composite)),
            DigestAlgorithm::Md5 => full(ChecksumAlgorithm::Crc64Nvme),
        };
        PartsRoute { plan: PartPlan { size, part_size }, checksum, whole: None, same_boundaries: true }
    } else {
        let grown = size
            .div_ceil(STEPS)
            .next_multiple_of(MIB)
            .clamp(limits.stream_part, limits.stream_part_grown.max(limits.stream_part));
        let plan = plan_parts(size, Some(part_options.part_size.unwrap_or(grown)), limits)?;
        let checksum = match reference.as_ref().map(|reference| (reference.algorithm, &reference.cut)) {
            Some((DigestAlgorithm::Checksum(algorithm), None)) if algorithm.supports_full_object() => full(algorithm),
            _ => full(ChecksumAlgorithm::Crc64Nvme),
        };
        PartsRoute { plan, checksum, whole: None, same_boundaries: false }
    };
    Ok(StreamRoute { parts, reference })
}

/// The weaker of two verdicts: that of a copy verified in two steps.
pub fn weaker_verdict(first: Verdict, second: Verdict) -> Verdict {
    let rank = |verified: VerificationLevel| match verified {
        VerificationLevel::No => 0,
        VerificationLevel::Size => 1,
        VerificationLevel::Time => 2,
        VerificationLevel::Etag => 3,
        VerificationLevel::Checksum => 4,
        VerificationLevel::Content => 5,
    };
    match (first, second) {
        (Verdict::Differs(how), _) | (_, Verdict::Differs(how)) => Verdict::Differs(how),
        (Verdict::Doubtful(how), _) | (_, Verdict::Doubtful(how)) => Verdict::Doubtful(how),
        (Verdict::Verified(a), Verdict::Verified(b)) => Verdict::Verified(if rank(a) < rank(b) { a } else { b }),
        (Verdict::Unknown, _) | (_, Verdict::Unknown) => Verdict::Unknown,
    }
}

/// Known attributes of one side of a copy.
#[derive(Debug, Clone, Copy)]
pub struct CopySide<'a> {
    /// Size in bytes; None until it is known.
    pub size: Option<u64>,
    /// `ETag` without quotes.
    pub etag: &'a str,
    /// True when the `ETag` is known to be no digest.
    pub opaque_etag: bool,
    /// Checksum that the service keeps.
    pub checksum: Option<&'a Checksum>,
}

impl<'a> From<&'a ObjectMeta> for CopySide<'a> {
    fn from(meta: &'a ObjectMeta) -> Self {
        Self {
            size: Some(meta.size),
            etag: &meta.etag,
            opaque_etag: meta.opaque_etag,
            checksum: meta.checksum.as_ref(),
        }
    }
}

impl<'a> From<&'a WrittenObject> for CopySide<'a> {
    fn from(written: &'a WrittenObject) -> Self {
        Self {
            size: None,
            etag: &written.etag,
            opaque_etag: written.encryption.as_ref().is_some_and(Encryption::has_opaque_etag),
            checksum: written.checksum.as_ref(),
        }
    }
}

/// The bytes of hexadecimal digits; None where there are others.
pub(crate) fn unhex(digest: &str) -> Option<Vec<u8>> {
    let pairs = digest.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).ok());
    pairs.map(|pair| u8::from_str_radix(pair?, 16).ok()).collect()
}

/// Beginning of the `ETag` of an object whose only part has this digest.
fn of_part(digest: &[u8]) -> String {
    hex(&Digester::of(DigestAlgorithm::Md5, digest))
}

/// Result of comparing two sides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Both sides hold the same bytes, by this verification.
    Verified(VerificationLevel),
    /// The sides differ; the text names both values.
    Differs(String),
    /// The `ETag` or checksum contradicts the bytes: a difference, unless the `ETag` is no digest or the parts have
    /// other boundaries ([`crate::etags`] decides which). The text names both values.
    Doubtful(String),
    /// No values can be compared, except perhaps the sizes.
    Unknown,
}

/// Compare two sides. `same_boundaries`: both were made of the same parts (or both in one request).
pub fn compare(source: CopySide<'_>, target: CopySide<'_>, same_boundaries: bool) -> Verdict {
    if let (Some(a), Some(b)) = (source.size, target.size)
        && a != b
    {
        return Verdict::Differs(format!("the source has {a} bytes, the target {b}"));
    }
    if let (Some(a), Some(b)) = (source.checksum, target.checksum) {
        match a.matches(b) {
            Some(true) => return Verdict::Verified(VerificationLevel::Checksum),
            Some(false) => {
                let name = a.algorithm.name();
                return Verdict::Differs(format!("the source has {name} {}, the target {}", a.value, b.value));
            }
            None => {}
        }
        let composite = a.kind == ChecksumKind::Composite && b.kind == ChecksumKind::Composite;
        // Equal composite values need equal boundaries; unequal ones may come from unequal boundaries.
        if composite && a.algorithm == b.algorithm && a.value == b.value {
            return Verdict::Verified(VerificationLevel::Checksum);
        }
    }
    if source.opaque_etag || target.opaque_etag {
        return Verdict::Unknown;
    }
    let digests = is_digest(source.etag) && is_digest(target.etag)
        || etag_parts(source.etag).is_some() && etag_parts(source.etag) == etag_parts(target.etag);
    if digests && is_same_digest(source.etag, target.etag) {
        return Verdict::Verified(VerificationLevel::Etag);
    }
    // One part has the digest of a whole object's digest.
    let of_one_part = |whole: &str, parts: &str| {
        is_digest(whole)
            && etag_parts(parts) == Some(1)
            && unhex(whole).is_some_and(|digest| parts.to_ascii_lowercase().starts_with(&of_part(&digest)))
    };
    if of_one_part(source.etag, target.etag) || of_one_part(target.etag, source.etag) {
        return Verdict::Verified(VerificationLevel::Etag);
    }
    let comparable = is_digest(source.etag) && is_digest(target.etag) || same_boundaries && digests;
    if comparable {
        return Verdict::Doubtful(format!("the source has ETag {}, the target {}", source.etag, target.etag));
    }
    Verdict::Unknown
}

/// Verification by listings that two objects are equal; None when listings do not suffice.
pub fn equal_as_listed(source: (u64, &str), target: (u64, &str)) -> Option<VerificationLevel> {
    let side = |(size, etag)| CopySide { size: Some(size), etag, opaque_etag: false, checksum: None };
    match compare(side(source), side(target), false) {
        Verdict::Verified(verified) => Some(verified),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
