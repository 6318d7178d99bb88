//! Which way of copying leaves the strongest proof, and what two sides prove about each other.
//!
//! Best first: equal checksums over the full object; equal composite checksums or equal `ETag`s of copies with the same part
//! boundaries; equal plain `ETag`s of copies made at once; equal sizes. No choice here costs a second read of the bytes.

use seqferry_store::{Checksum, ChecksumAlgorithm, ChecksumKind, ObjectMeta};

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
    /// Checksum of the upload. There is one unless the service is known to get it wrong (see [`crate::quirks`]): some services
    /// answer part copies with an `ETag` that is no digest unless the upload has a checksum.
    pub checksum: Option<(ChecksumAlgorithm, ChecksumKind)>,
    /// The source's checksum over the full object, which the service shall check at the end.
    pub whole: Option<Checksum>,
    /// Whether the cut is the source's own, so that `ETag`s and composite checksums can be compared.
    pub same_boundaries: bool,
}

/// What the caller wishes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wishes {
    /// Part size; None lets the evidence decide.
    pub part_size: Option<u64>,
    /// Size up to which an object is copied at once; None for the default.
    pub copy_threshold: Option<u64>,
}

/// Whether a plain `ETag` can be a digest of the content.
pub fn is_digest(etag: &str) -> bool {
    etag.len() == 32 && etag.bytes().all(|b| b.is_ascii_hexdigit())
}

fn threshold(wishes: Wishes, limits: &Limits) -> u64 {
    wishes.copy_threshold.unwrap_or(limits.copy_threshold).min(limits.maximum_copy)
}

/// Whether an object can be copied and proven with what the listing told: at once, by its plain `ETag`.
pub fn needs_no_look(size: u64, etag: &str, wishes: Wishes, limits: &Limits) -> bool {
    size <= threshold(wishes, limits) && is_digest(etag)
}

/// Choose the route for a source of which HEAD told `source`; `first_part` is the length of its part 1 where that is known.
///
/// # Errors
/// When the object is too large to be cut.
pub fn choose(
    source: &ObjectMeta,
    first_part: Option<u64>,
    wishes: Wishes,
    limits: &Limits,
) -> Result<Route, PlanError> {
    let size = source.size;
    let whole =
        source.checksum.clone().filter(|sum| sum.kind == ChecksumKind::FullObject && sum.algorithm.spans_parts());
    let kept = source.checksum.as_ref().map(|sum| sum.algorithm);
    let boundaries = (!source.opaque_etag && wishes.part_size.is_none())
        .then(|| uniform_part_size(size, etag_parts(&source.etag)?, first_part?, limits))
        .flatten()
        .filter(|_| size > 0);
    let small = size <= threshold(wishes, limits);
    if small && (whole.is_some() || boundaries.is_none()) {
        return Ok(Route::Copy(kept));
    }
    if let Some(whole) = whole {
        let plan = plan_parts(size, wishes.part_size, limits)?;
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
    if by_etag && size <= limits.etag_copy && wishes.part_size.is_none() && wishes.copy_threshold.is_none() {
        return Ok(Route::Copy(kept));
    }
    let plan = plan_parts(size, wishes.part_size, limits)?;
    let checksum = Some((ChecksumAlgorithm::Crc64Nvme, ChecksumKind::FullObject));
    Ok(Route::Parts(PartsRoute { plan, checksum, whole: None, same_boundaries: false }))
}

/// What is known of one side of a copy.
#[derive(Debug, Clone, Copy)]
pub struct Side<'a> {
    /// None while nobody has asked.
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
    let comparable = is_digest(source.etag) && is_digest(target.etag) || same_boundaries && digests;
    if comparable {
        return Verdict::Doubtful(format!("the source has ETag {}, the target {}", source.etag, target.etag));
    }
    Verdict::Unknown
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
        choose(source, first_part, Wishes::default(), &Limits::default()).unwrap()
    }

    #[test]
    fn small_objects_go_at_once() {
        assert!(needs_no_look(128 * MIB, PLAIN, Wishes::default(), &Limits::default()));
        assert!(!needs_no_look(128 * MIB + 1, PLAIN, Wishes::default(), &Limits::default()));
        assert!(!needs_no_look(1, &format!("{PLAIN}-1"), Wishes::default(), &Limits::default()));
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
        let wishes = Wishes { part_size: Some(16 * MIB), copy_threshold: Some(10 * MIB) };

        let Route::Parts(parts) = choose(&meta(100 * MIB, PLAIN, None), None, wishes, &limits).unwrap() else {
            panic!("not in parts")
        };
        assert_eq!(parts.plan.part_size, 16 * MIB);

        let source = meta(100 * MIB, &format!("{PLAIN}-13"), None);
        let Route::Parts(parts) = choose(&source, Some(8 * MIB), wishes, &limits).unwrap() else {
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
            match choose(&source, parts.map(|(_, p)| p), Wishes { part_size, copy_threshold }, &limits).unwrap() {
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
