//! Which way of copying leaves the strongest proof, and what two sides prove about each other.
//!
//! Best first: equal checksums over the full object; equal composite checksums or equal `ETag`s of copies with the same part
//! boundaries; equal plain `ETag`s of copies made at once; equal sizes. No choice here costs a second read of the bytes.

use seqferry_store::checksum::{base64, hex};
use seqferry_store::{Checksum, ChecksumAlgorithm, ChecksumKind, DigestAlgorithm, Digester, ObjectMeta};

use crate::limits::Limits;
use crate::outcome::Verified;
use crate::plan::{PartPlan, PlanError, etag_parts, plan_parts, uniform_part_size};

/// How an object is to be copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route {
    /// At once. The service is asked to keep this checksum.
    Copy(Option<ChecksumAlgorithm>),
    /// In parts.
    Parts(PartsRoute),
}

/// How an object is to be copied in parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartsRoute {
    /// The cut.
    pub plan: PartPlan,
    /// Checksum of the upload. There is one unless the service is known to get it wrong (see [`seqferry_client::quirks`]): some services
    /// answer part copies with an `ETag` that is no digest unless the upload has a checksum.
    pub checksum: Option<(ChecksumAlgorithm, ChecksumKind)>,
    /// The source's checksum over the full object, which the service shall check at the end.
    pub whole: Option<Checksum>,
    /// Whether the cut is the source's own, so that `ETag`s and composite checksums can be compared.
    pub same_boundaries: bool,
}

/// Part size and copy threshold that the caller asked for.
#[derive(Debug, Clone, Copy, Default)]
pub struct PartOptions {
    /// Part size; None lets the evidence decide.
    pub part_size: Option<u64>,
    /// Size up to which an object is copied at once; None for the default.
    pub copy_threshold: Option<u64>,
}

/// Whether a plain `ETag` can be a digest of the content.
pub fn is_digest(etag: &str) -> bool {
    etag.len() == 32 && etag.bytes().all(|b| b.is_ascii_hexdigit())
}

fn threshold(part_options: PartOptions, limits: &Limits) -> u64 {
    part_options.copy_threshold.unwrap_or(limits.copy_threshold).min(limits.maximum_copy)
}

/// Whether an object can be copied and proven with what the listing told: at once, by its plain `ETag`.
pub fn needs_no_look(size: u64, etag: &str, part_options: PartOptions, limits: &Limits) -> bool {
    size <= threshold(part_options, limits) && is_digest(etag)
}

/// Whether one request copies an object of this size.
pub fn fits_one_copy(size: u64, part_options: PartOptions, limits: &Limits) -> bool {
    size <= threshold(part_options, limits)
}

/// Choose the route for a source of which HEAD told `source`; `first_part` is the length of its part 1 where that is known.
///
/// # Errors
/// When the object is too large to be cut.
pub fn choose(
    source: &ObjectMeta,
    first_part: Option<u64>,
    part_options: PartOptions,
    limits: &Limits,
) -> Result<Route, PlanError> {
    let size = source.size;
    let whole =
        source.checksum.clone().filter(|sum| sum.kind == ChecksumKind::FullObject && sum.algorithm.spans_parts());
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
        // The source's own algorithm can be compared; without one the upload needs some checksum all the same.
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

/// The digest that the source states for its bytes, and how to compute it while they are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpectedDigest {
    /// What to compute.
    pub algorithm: DigestAlgorithm,
    /// Some: the digests of stretches of so many bytes are put together, as multipart `ETag`s and composite checksums are.
    pub cut: Option<u64>,
    /// What must come out.
    pub value: String,
}

impl ExpectedDigest {
    /// The strongest promise of a source of which HEAD or GET told `source`; `first_part` is the length of its part 1 where that
    /// is known.
    pub fn of(source: &ObjectMeta, first_part: Option<u64>, limits: &Limits) -> Option<Self> {
        let cut = first_part
            .zip(etag_parts(&source.etag))
            .and_then(|(first, parts)| uniform_part_size(source.size, parts, first, limits))
            .filter(|_| source.size > 0);
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

    /// What the value that came out means.
    pub fn verdict(&self, computed: &str) -> Verdict {
        // Some services leave the number of parts out of composite checksums.
        let base = |value: &str| value.split_once('-').map_or(value, |(base, _)| base).to_owned();
        let (name, equal) = match self.algorithm {
            DigestAlgorithm::Md5 => ("ETag", Verified::Etag),
            DigestAlgorithm::Checksum(algorithm) => (algorithm.name(), Verified::Checksum),
        };
        if base(&self.value) == base(computed) {
            return Verdict::Proven(equal);
        }
        let how = format!("the source has {name} {}, and its bytes as they were read give {computed}", self.value);
        // Not every `ETag` that looks like a digest is one.
        if equal == Verified::Etag { Verdict::Doubtful(how) } else { Verdict::Differs(how) }
    }
}

/// Digests of stretches, put together as S3 does for multipart `ETag`s and composite checksums.
pub fn assembled<'a>(algorithm: DigestAlgorithm, digests: impl IntoIterator<Item = &'a [u8]>) -> String {
    let mut digester = Digester::new(algorithm);
    let mut count = 0;
    for digest in digests {
        digester.update(digest);
        count += 1;
    }
    format!("{}-{count}", shown(algorithm, &digester.finish()))
}

/// A digest as headers have it: `ETag`s in hexadecimal digits, checksums in Base64.
pub fn shown(algorithm: DigestAlgorithm, digest: &[u8]) -> String {
    match algorithm {
        DigestAlgorithm::Md5 => hex(digest),
        DigestAlgorithm::Checksum(_) => base64(digest),
    }
}

/// Computes an [`ExpectedDigest`] from bytes that come in order.
#[derive(Debug)]
pub struct SegmentedDigest {
    algorithm: DigestAlgorithm,
    cut: Option<u64>,
    digester: Digester,
    /// Bytes of the present stretch.
    seen: u64,
    ended: Vec<Vec<u8>>,
}

impl SegmentedDigest {
    /// Before the first byte.
    pub fn new(reference: &ExpectedDigest) -> Self {
        let (algorithm, cut) = (reference.algorithm, reference.cut);
        Self { algorithm, cut, digester: Digester::new(algorithm), seen: 0, ended: Vec::new() }
    }

    /// These bytes come next.
    pub fn update(&mut self, mut bytes: &[u8]) {
        let Some(cut) = self.cut else { return self.digester.update(bytes) };
        while !bytes.is_empty() {
            if self.seen == cut {
                self.end();
            }
            let room = usize::try_from(cut - self.seen).unwrap_or(usize::MAX);
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

    /// What came out.
    pub fn finish(mut self) -> String {
        if self.cut.is_none() {
            return shown(self.algorithm, &self.digester.finish());
        }
        self.end();
        assembled(self.algorithm, self.ended.iter().map(Vec::as_slice))
    }
}

/// How an object is to be streamed in parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamRoute {
    /// The upload. What its full-object checksum must be is known when all was read.
    pub parts: PartsRoute,
    /// What the bytes must be.
    pub reference: Option<ExpectedDigest>,
}

impl StreamRoute {
    /// The reference, when what it wants can be put together from its parts in any order.
    pub fn by_parts(&self) -> Option<&ExpectedDigest> {
        self.reference.as_ref().filter(|reference| match (reference.cut, reference.algorithm) {
            (Some(cut), _) => cut == self.parts.plan.part_size,
            (None, DigestAlgorithm::Checksum(algorithm)) => algorithm.spans_parts(),
            (None, DigestAlgorithm::Md5) => false,
        })
    }

    /// The reference, when all parts have to be computed one after another.
    pub fn in_order(&self) -> Option<&ExpectedDigest> {
        self.reference.as_ref().filter(|_| self.by_parts().is_none())
    }
}

/// Up to which size an object is streamed at once, when `memory` bytes of buffers are there for all.
pub fn streams_at_once(size: u64, part_options: PartOptions, limits: &Limits, memory: u64) -> bool {
    let wish = part_options.copy_threshold.unwrap_or(limits.stream_threshold);
    size <= wish.min(limits.maximum_copy).min(memory / 4)
}

/// Choose how to stream a source of `size` bytes that promises `reference`, when `memory` bytes of buffers are there for all.
///
/// The boundaries of the source's own parts are kept where its promise rests on them, so that parts can be read in any order
/// and the target gets the same `ETag`. The upload has the source's algorithm, so that both can be compared later.
///
/// # Errors
/// When the object is too large to be cut.
pub fn choose_stream(
    size: u64,
    reference: Option<ExpectedDigest>,
    part_options: PartOptions,
    limits: &Limits,
    memory: u64,
) -> Result<StreamRoute, PlanError> {
    const STEPS: u64 = 1000;
    const MIB: u64 = 1 << 20;
    let boundaries = reference
        .as_ref()
        .and_then(|reference| Some((reference.cut?, reference.algorithm)))
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
        let checksum = match reference.as_ref().map(|reference| (reference.algorithm, reference.cut)) {
            Some((DigestAlgorithm::Checksum(algorithm), None)) if algorithm.spans_parts() => full(algorithm),
            _ => full(ChecksumAlgorithm::Crc64Nvme),
        };
        PartsRoute { plan, checksum, whole: None, same_boundaries: false }
    };
    Ok(StreamRoute { parts, reference })
}

/// The weaker of two verdicts: what a copy rests on that was proven in two steps.
pub fn weaker(first: Verdict, second: Verdict) -> Verdict {
    let rank = |verified: Verified| match verified {
        Verified::No => 0,
        Verified::Size => 1,
        Verified::Time => 2,
        Verified::Etag => 3,
        Verified::Checksum => 4,
        Verified::Content => 5,
    };
    match (first, second) {
        (Verdict::Differs(how), _) | (_, Verdict::Differs(how)) => Verdict::Differs(how),
        (Verdict::Doubtful(how), _) | (_, Verdict::Doubtful(how)) => Verdict::Doubtful(how),
        (Verdict::Proven(a), Verdict::Proven(b)) => Verdict::Proven(if rank(a) < rank(b) { a } else { b }),
        (Verdict::Unknown, _) | (_, Verdict::Unknown) => Verdict::Unknown,
    }
}

/// What is known of one side of a copy.
#[derive(Debug, Clone, Copy)]
pub struct Side<'a> {
    /// None until it was asked for.
    pub size: Option<u64>,
    /// Without quotes.
    pub etag: &'a str,
    /// Whether the `ETag` is known to be no digest.
    pub opaque_etag: bool,
    /// What the service keeps.
    pub checksum: Option<&'a Checksum>,
}

impl<'a> From<&'a ObjectMeta> for Side<'a> {
    fn from(meta: &'a ObjectMeta) -> Self {
        Self {
            size: Some(meta.size),
            etag: &meta.etag,
            opaque_etag: meta.opaque_etag,
            checksum: meta.checksum.as_ref(),
        }
    }
}

fn unhex(digest: &str) -> Option<Vec<u8>> {
    let pairs = digest.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).ok());
    pairs.map(|pair| u8::from_str_radix(pair?, 16).ok()).collect()
}

/// What the `ETag` of an object begins with that has one part with this digest.
fn of_part(digest: &[u8]) -> String {
    hex(&Digester::of(DigestAlgorithm::Md5, digest))
}

/// What two sides say about each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// They hold the same bytes, proven so.
    Proven(Verified),
    /// They do not: both values.
    Differs(String),
    /// Their `ETag`s should be equal and are not; only reading can tell why.
    Doubtful(String),
    /// Nothing can be compared but (perhaps) the size.
    Unknown,
}

/// Compare two sides. `same_boundaries`: both were made of the same parts (or both at once).
pub fn compare(source: Side<'_>, target: Side<'_>, same_boundaries: bool) -> Verdict {
    if let (Some(a), Some(b)) = (source.size, target.size)
        && a != b
    {
        return Verdict::Differs(format!("the source has {a} bytes, the target {b}"));
    }
    if let (Some(a), Some(b)) = (source.checksum, target.checksum) {
        match a.agrees(b) {
            Some(true) => return Verdict::Proven(Verified::Checksum),
            Some(false) => {
                let name = a.algorithm.name();
                return Verdict::Differs(format!("the source has {name} {}, the target {}", a.value, b.value));
            }
            None => {}
        }
        let composite = a.kind == ChecksumKind::Composite && b.kind == ChecksumKind::Composite;
        // Equal composite values need equal boundaries; unequal ones may come from unequal boundaries.
        if composite && a.algorithm == b.algorithm && a.value == b.value {
            return Verdict::Proven(Verified::Checksum);
        }
    }
    if source.opaque_etag || target.opaque_etag {
        return Verdict::Unknown;
    }
    let digests = is_digest(source.etag) && is_digest(target.etag)
        || etag_parts(source.etag).is_some() && etag_parts(source.etag) == etag_parts(target.etag);
    if digests && source.etag == target.etag {
        return Verdict::Proven(Verified::Etag);
    }
    // One part has the digest of a whole object's digest.
    let of_one_part = |whole: &str, parts: &str| {
        is_digest(whole)
            && etag_parts(parts) == Some(1)
            && unhex(whole).is_some_and(|digest| parts.starts_with(&of_part(&digest)))
    };
    if of_one_part(source.etag, target.etag) || of_one_part(target.etag, source.etag) {
        return Verdict::Proven(Verified::Etag);
    }
    let comparable = is_digest(source.etag) && is_digest(target.etag) || same_boundaries && digests;
    if comparable {
        return Verdict::Doubtful(format!("the source has ETag {}, the target {}", source.etag, target.etag));
    }
    Verdict::Unknown
}

/// What proves two objects equal by what listings say of them; None when that is not enough.
pub fn equal_as_listed(source: (u64, &str), target: (u64, &str)) -> Option<Verified> {
    let side = |(size, etag)| Side { size: Some(size), etag, opaque_etag: false, checksum: None };
    match compare(side(source), side(target), false) {
        Verdict::Proven(verified) => Some(verified),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MIB: u64 = 1 << 20;
    const PLAIN: &str = "d41d8cd98f00b204e9800998ecf8427e";

    fn meta(size: u64, etag: &str, checksum: Option<(ChecksumAlgorithm, &str)>) -> ObjectMeta {
        let checksum = checksum.map(|(algorithm, value)| Checksum::read(algorithm, value, None));
        ObjectMeta { size, etag: etag.to_owned(), checksum, ..ObjectMeta::default() }
    }

    fn route(source: &ObjectMeta, first_part: Option<u64>) -> Route {
        choose(source, first_part, PartOptions::default(), &Limits::default()).unwrap()
    }

    #[test]
    fn equal_digests_in_listings_prove_equal_objects() {
        let parts = format!("{PLAIN}-3");

        assert_eq!(equal_as_listed((3, PLAIN), (3, PLAIN)), Some(Verified::Etag));
        assert_eq!(equal_as_listed((3, &parts), (3, &parts)), Some(Verified::Etag));
        assert_eq!(equal_as_listed((3, PLAIN), (4, PLAIN)), None);
        assert_eq!(equal_as_listed((3, "opaque"), (3, "opaque")), None);
        assert_eq!(equal_as_listed((3, ""), (3, "")), None);
    }

    #[test]
    fn small_objects_go_at_once() {
        assert!(needs_no_look(128 * MIB, PLAIN, PartOptions::default(), &Limits::default()));
        assert!(!needs_no_look(128 * MIB + 1, PLAIN, PartOptions::default(), &Limits::default()));
        assert!(!needs_no_look(1, &format!("{PLAIN}-1"), PartOptions::default(), &Limits::default()));
        assert_eq!(route(&meta(1, "odd", None), None), Route::Copy(None));
        let checksum = Some((ChecksumAlgorithm::Crc64Nvme, "AAAA"));
        assert_eq!(
            route(&meta(20 * MIB, &format!("{PLAIN}-3"), checksum), Some(8 * MIB)),
            Route::Copy(Some(ChecksumAlgorithm::Crc64Nvme))
        );
    }

    #[test]
    fn a_full_object_checksum_is_the_first_choice_and_frees_the_part_size() {
        let source = meta(1000 * MIB, &format!("{PLAIN}-125"), Some((ChecksumAlgorithm::Crc32, "AAAA")));

        let Route::Parts(parts) = route(&source, Some(8 * MIB)) else { panic!("not in parts") };

        assert_eq!(parts.checksum, Some((ChecksumAlgorithm::Crc32, ChecksumKind::FullObject)));
        assert_eq!(parts.whole, source.checksum);
        assert_eq!(parts.plan.part_size, 128 * MIB);
    }

    #[test]
    fn without_one_the_sources_own_boundaries_are_used() {
        for size in [20 * MIB, 1000 * MIB] {
            let count = size.div_ceil(8 * MIB);
            let source =
                meta(size, &format!("{PLAIN}-{count}"), Some((ChecksumAlgorithm::Sha256, &format!("AAAA-{count}"))));

            let Route::Parts(parts) = route(&source, Some(8 * MIB)) else { panic!("not in parts") };

            assert_eq!(parts.checksum, Some((ChecksumAlgorithm::Sha256, ChecksumKind::Composite)));
            assert_eq!((parts.plan.part_size, parts.same_boundaries), (8 * MIB, true));
        }
    }

    #[test]
    fn a_plain_etag_is_worth_one_longer_copy_but_not_a_very_long_one() {
        assert_eq!(route(&meta(1024 * MIB, PLAIN, None), None), Route::Copy(None));
        let Route::Parts(parts) = route(&meta(1025 * MIB, PLAIN, None), None) else { panic!("not in parts") };
        assert_eq!(parts.checksum, Some((ChecksumAlgorithm::Crc64Nvme, ChecksumKind::FullObject)));
        assert!(!parts.same_boundaries);
    }

    #[test]
    fn wishes_win_over_evidence() {
        let limits = Limits::default();
        let part_options = PartOptions { part_size: Some(16 * MIB), copy_threshold: Some(10 * MIB) };

        let Route::Parts(parts) = choose(&meta(100 * MIB, PLAIN, None), None, part_options, &limits).unwrap() else {
            panic!("not in parts")
        };
        assert_eq!(parts.plan.part_size, 16 * MIB);

        let source = meta(100 * MIB, &format!("{PLAIN}-13"), None);
        let Route::Parts(parts) = choose(&source, Some(8 * MIB), part_options, &limits).unwrap() else {
            panic!("not in parts")
        };
        assert_eq!((parts.plan.part_size, parts.same_boundaries), (16 * MIB, false));
    }

    fn side<'a>(etag: &'a str, checksum: Option<&'a Checksum>) -> Side<'a> {
        Side { size: Some(7), etag, opaque_etag: false, checksum }
    }

    #[test]
    fn checksums_decide_before_etags() {
        let (a, b) =
            (Checksum::read(ChecksumAlgorithm::Crc32, "a", None), Checksum::read(ChecksumAlgorithm::Crc32, "b", None));

        assert_eq!(compare(side("x", Some(&a)), side("y", Some(&a)), false), Verdict::Proven(Verified::Checksum));
        assert!(matches!(compare(side(PLAIN, Some(&a)), side(PLAIN, Some(&b)), false), Verdict::Differs(_)));
    }

    #[test]
    fn sizes_decide_before_everything() {
        let (mut a, b) = (side(PLAIN, None), side(PLAIN, None));
        a.size = Some(8);
        assert!(matches!(compare(a, b, true), Verdict::Differs(_)));
    }

    #[test]
    fn unequal_etags_are_doubtful_only_where_they_should_be_equal() {
        let other = "00000000000000000000000000000000";
        let (multi, other_multi) = (format!("{PLAIN}-3"), format!("{other}-3"));

        assert_eq!(compare(side(PLAIN, None), side(PLAIN, None), false), Verdict::Proven(Verified::Etag));
        assert!(matches!(compare(side(PLAIN, None), side(other, None), false), Verdict::Doubtful(_)));
        assert_eq!(compare(side(&multi, None), side(&multi, None), false), Verdict::Proven(Verified::Etag));
        assert!(matches!(compare(side(&multi, None), side(&other_multi, None), true), Verdict::Doubtful(_)));
        assert_eq!(compare(side(&multi, None), side(&other_multi, None), false), Verdict::Unknown);
        assert_eq!(compare(side(&multi, None), side(PLAIN, None), true), Verdict::Unknown);
        let opaque = Side { opaque_etag: true, ..side(PLAIN, None) };
        assert_eq!(compare(opaque, side(other, None), true), Verdict::Unknown);
    }

    proptest! {
        #[test]
        fn every_stream_covers_the_object_in_parts_that_can_be_held(
            size in prop_oneof![1..100 * MIB, 1..(1u64 << 42)],
            parts in proptest::option::of((1..10_000u32, 5 * MIB..(6u64 << 30))),
            full in proptest::option::of(proptest::sample::select(&ChecksumAlgorithm::ALL[..])),
            composite in any::<bool>(),
            part_size in proptest::option::of(5 * MIB..5 << 30),
            memory in (16 * MIB)..(1 << 31),
        ) {
            let limits = Limits::default();
            let (etag, first_part) = match parts {
                // A source that was made in equal parts.
                Some((_, part)) => (format!("{PLAIN}-{}", size.div_ceil(part)), Some(part.min(size))),
                None => (PLAIN.to_owned(), None),
            };
            let value = if composite && parts.is_some() { "AAAA-2" } else { "AAAA" };
            let source = meta(size, &etag, full.map(|algorithm| (algorithm, value)));
            let reference = ExpectedDigest::of(&source, first_part, &limits);
            let part_options = PartOptions { part_size, copy_threshold: None };

            let route = choose_stream(size, reference.clone(), part_options, &limits, memory).unwrap();

            let plan = route.parts.plan;
            prop_assert_eq!(plan.size, size);
            prop_assert!(plan.count() >= 1 && u64::from(plan.count()) <= limits.maximum_parts);
            let mut next = 0;
            for number in [1, 2, plan.count() / 2 + 1, plan.count()] {
                if let Some(range) = plan.range(number) {
                    prop_assert!(range.len() <= plan.part_size && range.first == u64::from(number - 1) * plan.part_size);
                    next = next.max(range.last + 1);
                }
            }
            prop_assert_eq!(next, size);
            if part_size.is_none() {
                // Never larger than advised, but for the source's own boundaries and for too many parts.
                let most = limits.stream_part_grown.max(size.div_ceil(limits.maximum_parts) + MIB);
                let own = route.parts.same_boundaries && plan.part_size <= (memory / 4).min(limits.stream_boundaries);
                prop_assert!(own || plan.part_size <= most, "{}", plan.part_size);
            } else {
                prop_assert!(!route.parts.same_boundaries);
            }
            // A composite checksum is promised only of the source's own parts.
            if let Some((_, ChecksumKind::Composite)) = route.parts.checksum {
                prop_assert!(route.parts.same_boundaries);
            }
            prop_assert_eq!(route.reference, reference);
        }

        #[test]
        fn stretches_come_out_as_the_service_computes_them(
            body in proptest::collection::vec(any::<u8>(), 1..600),
            cut in proptest::option::of(1..300_usize),
            pieces in proptest::collection::vec(1..97_usize, 1..9),
            which in 0..6_usize,
        ) {
            let algorithm =
                ChecksumAlgorithm::ALL.get(which).map_or(DigestAlgorithm::Md5, |sum| DigestAlgorithm::Checksum(*sum));
            let reference = ExpectedDigest { algorithm, cut: cut.map(|cut| cut as u64), value: String::new() };

            let mut stretches = SegmentedDigest::new(&reference);
            let (mut rest, mut next) = (&body[..], pieces.iter().cycle());
            while !rest.is_empty() {
                let (piece, left) = rest.split_at((*next.next().unwrap()).min(rest.len()));
                stretches.update(piece);
                rest = left;
            }

            let expected = match cut {
                None => shown(algorithm, &Digester::of(algorithm, &body)),
                Some(cut) => {
                    let digests: Vec<Vec<u8>> = body.chunks(cut).map(|part| Digester::of(algorithm, part)).collect();
                    let whole = Digester::of(algorithm, &digests.concat());
                    format!("{}-{}", shown(algorithm, &whole), digests.len())
                }
            };
            prop_assert_eq!(stretches.finish(), expected);
        }

        #[test]
        fn every_route_covers_the_object(
            size in 0..(1u64 << 45),
            parts in proptest::option::of((1..10_000u32, 1..(6u64 << 30))),
            full in any::<bool>(),
            part_size in proptest::option::of(5 * MIB..5 << 30),
            copy_threshold in proptest::option::of(0..6u64 << 30),
        ) {
            let etag = parts.map_or(PLAIN.to_owned(), |(n, _)| format!("{PLAIN}-{n}"));
            let source = meta(size, &etag, full.then_some((ChecksumAlgorithm::Crc64Nvme, "AAAA")));
            let limits = Limits::default();
            match choose(&source, parts.map(|(_, p)| p), PartOptions { part_size, copy_threshold }, &limits).unwrap() {
                Route::Copy(_) => prop_assert!(size <= limits.maximum_copy),
                Route::Parts(route) => {
                    prop_assert_eq!(route.plan.size, size);
                    prop_assert!(size > 0 && u64::from(route.plan.count()) <= limits.maximum_parts);
                    prop_assert!(route.whole.is_some() == full);
                }
            }
        }
    }
}
