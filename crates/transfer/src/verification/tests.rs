//! Tests of verification.

use proptest::prelude::*;

use super::*;

const MIB: u64 = 1 << 20;
const PLAIN: &str = "d41d8cd98f00b204e9800998ecf8427e";

fn meta(size: u64, etag: &str, checksum: Option<(ChecksumAlgorithm, &str)>) -> ObjectMeta {
    let checksum = checksum.map(|(algorithm, value)| Checksum::from_header(algorithm, value, None));
    ObjectMeta { size, etag: etag.to_owned(), checksum, ..ObjectMeta::default() }
}

fn route(source: &ObjectMeta, first_part: Option<u64>) -> Route {
    choose_route(source, first_part, PartOptions::default(), &CopyLimits::default()).unwrap()
}

#[test]
fn equal_digests_in_listings_prove_equal_objects() {
    let parts = format!("{PLAIN}-3");

    assert_eq!(equal_as_listed((3, PLAIN), (3, PLAIN)), Some(VerificationLevel::Etag));
    assert_eq!(equal_as_listed((3, &parts), (3, &parts)), Some(VerificationLevel::Etag));
    assert_eq!(equal_as_listed((3, PLAIN), (4, PLAIN)), None);
    assert_eq!(equal_as_listed((3, "opaque"), (3, "opaque")), None);
    assert_eq!(equal_as_listed((3, ""), (3, "")), None);
}

#[test]
fn small_objects_go_at_once() {
    assert!(needs_no_head(128 * MIB, PLAIN, PartOptions::default(), &CopyLimits::default()));
    assert!(!needs_no_head(128 * MIB + 1, PLAIN, PartOptions::default(), &CopyLimits::default()));
    assert!(!needs_no_head(1, &format!("{PLAIN}-1"), PartOptions::default(), &CopyLimits::default()));
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
    let limits = CopyLimits::default();
    let part_options = PartOptions { part_size: Some(16 * MIB), copy_threshold: Some(10 * MIB) };

    let Route::Parts(parts) = choose_route(&meta(100 * MIB, PLAIN, None), None, part_options, &limits).unwrap() else {
        panic!("not in parts")
    };
    assert_eq!(parts.plan.part_size, 16 * MIB);

    let source = meta(100 * MIB, &format!("{PLAIN}-13"), None);
    let Route::Parts(parts) = choose_route(&source, Some(8 * MIB), part_options, &limits).unwrap() else {
        panic!("not in parts")
    };
    assert_eq!((parts.plan.part_size, parts.same_boundaries), (16 * MIB, false));
}

fn side<'a>(etag: &'a str, checksum: Option<&'a Checksum>) -> CopySide<'a> {
    CopySide { size: Some(7), etag, opaque_etag: false, checksum }
}

#[test]
fn checksums_decide_before_etags() {
    let (a, b) = (
        Checksum::from_header(ChecksumAlgorithm::Crc32, "a", None),
        Checksum::from_header(ChecksumAlgorithm::Crc32, "b", None),
    );

    assert_eq!(
        compare(side("x", Some(&a)), side("y", Some(&a)), false),
        Verdict::Verified(VerificationLevel::Checksum)
    );
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

    assert_eq!(compare(side(PLAIN, None), side(PLAIN, None), false), Verdict::Verified(VerificationLevel::Etag));
    assert!(matches!(compare(side(PLAIN, None), side(other, None), false), Verdict::Doubtful(_)));
    assert_eq!(compare(side(&multi, None), side(&multi, None), false), Verdict::Verified(VerificationLevel::Etag));
    assert!(matches!(compare(side(&multi, None), side(&other_multi, None), true), Verdict::Doubtful(_)));
    assert_eq!(compare(side(&multi, None), side(&other_multi, None), false), Verdict::Unknown);
    assert_eq!(compare(side(&multi, None), side(PLAIN, None), true), Verdict::Unknown);
    let opaque = CopySide { opaque_etag: true, ..side(PLAIN, None) };
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
        let limits = CopyLimits::default();
        let (etag, first_part) = match parts {
            // A source that was made in equal parts.
            Some((_, part)) => (format!("{PLAIN}-{}", size.div_ceil(part)), Some(part.min(size))),
            None => (PLAIN.to_owned(), None),
        };
        let value = if composite && parts.is_some() { "AAAA-2" } else { "AAAA" };
        let source = meta(size, &etag, full.map(|algorithm| (algorithm, value)));
        let reference = ExpectedDigest::of(&source, first_part, &limits);
        let part_options = PartOptions { part_size, copy_threshold: None };

        let route = choose_stream_route(size, reference.clone(), part_options, &limits, memory).unwrap();

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
        let reference = ExpectedDigest { algorithm, cut: cut.map(|cut| SegmentLengths::Even(cut as u64)), value: String::new() };

        let mut segments = SegmentedDigest::new(&reference);
        let (mut rest, mut next) = (&body[..], pieces.iter().cycle());
        while !rest.is_empty() {
            let (piece, left) = rest.split_at((*next.next().unwrap()).min(rest.len()));
            segments.update(piece);
            rest = left;
        }

        let expected = match cut {
            None => format_digest(algorithm, &Digester::of(algorithm, &body)),
            Some(cut) => {
                let digests: Vec<Vec<u8>> = body.chunks(cut).map(|part| Digester::of(algorithm, part)).collect();
                let whole = Digester::of(algorithm, &digests.concat());
                format!("{}-{}", format_digest(algorithm, &whole), digests.len())
            }
        };
        prop_assert_eq!(segments.finish(), expected);
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
        let limits = CopyLimits::default();
        match choose_route(&source, parts.map(|(_, p)| p), PartOptions { part_size, copy_threshold }, &limits).unwrap() {
            Route::Copy(_) => prop_assert!(size <= limits.maximum_copy),
            Route::Parts(route) => {
                prop_assert_eq!(route.plan.size, size);
                prop_assert!(size > 0 && u64::from(route.plan.count()) <= limits.maximum_parts);
                prop_assert!(route.whole.is_some() == full);
            }
        }
    }
}

#[test]
fn a_checksum_that_was_asked_for_is_kept_of_parts_in_the_form_that_it_can_have() {
    let source = meta(1024 * MIB, PLAIN, Some((ChecksumAlgorithm::Crc64Nvme, "AAAAAAAAAAA=")));
    for (asked, kind, whole) in [
        (ChecksumAlgorithm::Crc64Nvme, ChecksumKind::FullObject, true),
        (ChecksumAlgorithm::Crc32, ChecksumKind::FullObject, false),
        (ChecksumAlgorithm::Sha256, ChecksumKind::Composite, false),
    ] {
        let Route::Parts(mut parts) = route(&source, None) else { panic!("not in parts") };
        parts.keep(asked);
        assert_eq!((parts.checksum, parts.whole.is_some()), (Some((asked, kind)), whole));
    }
}
