//! Division of an object into parts.

use std::fmt;

use seqferry_store::Range;

use crate::limits::CopyLimits;

/// Equal parts, but for a shorter last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartPlan {
    /// Bytes of the object.
    pub size: u64,
    /// Bytes of every part but the last.
    pub part_size: u64,
}

/// Error for an object that cannot be divided into parts that the service accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlanError {
    /// Bytes of the object.
    pub size: u64,
    /// Largest size that the service accepts.
    pub maximum: u64,
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes are more than an object may have ({})", self.size, self.maximum)
    }
}

impl std::error::Error for PlanError {}

impl PartPlan {
    /// Number of parts; none for an empty object.
    pub fn count(&self) -> u32 {
        u32::try_from(self.size.div_ceil(self.part_size)).unwrap_or(u32::MAX)
    }

    /// Bytes of part `number` (1-based); None beyond the last.
    pub fn range(&self, number: u32) -> Option<Range> {
        let first = u64::from(number.checked_sub(1)?).checked_mul(self.part_size)?;
        (first < self.size).then(|| Range { first, last: (first + self.part_size).min(self.size) - 1 })
    }
}

/// Divides an object of `size` bytes into parts.
///
/// The part size is the requested one (or the default), grown in steps of 1 MiB where the object would need too many
/// parts.
///
/// # Errors
/// When even the largest parts are too small.
pub fn plan_parts(size: u64, requested: Option<u64>, limits: &CopyLimits) -> Result<PartPlan, PlanError> {
    const STEP: u64 = 1 << 20;
    let maximum = limits.maximum_object.min(limits.maximum_part.saturating_mul(limits.maximum_parts));
    if size > maximum {
        return Err(PlanError { size, maximum });
    }
    let requested = requested.unwrap_or(limits.part_size).clamp(limits.minimum_part, limits.maximum_part);
    let least = size.div_ceil(limits.maximum_parts);
    let part_size = if requested >= least { requested } else { least.next_multiple_of(STEP).min(limits.maximum_part) };
    Ok(PartPlan { size, part_size })
}

/// Returns the part size of a finished multipart object, if all its parts but the last have it. None if the limits do
/// not allow the same parts again: other services allow smaller and more of them.
///
/// `etag_parts` is the number after the dash of its `ETag`, `first_part` the length of its part 1.
pub fn uniform_part_size(size: u64, etag_parts: u32, first_part: u64, limits: &CopyLimits) -> Option<u64> {
    let plan = PartPlan { size, part_size: first_part.max(1) };
    let usable =
        etag_parts == 1 && first_part == size || (limits.minimum_part..=limits.maximum_part).contains(&first_part);
    (usable && plan.count() == etag_parts && u64::from(etag_parts) <= limits.maximum_parts).then_some(first_part)
}

/// The number of parts that a multipart `ETag` names.
pub fn etag_parts(etag: &str) -> Option<u32> {
    let (digest, parts) = etag.rsplit_once('-')?;
    (digest.len() == 32).then(|| parts.parse().ok()).flatten().filter(|n| *n > 0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MIB: u64 = 1 << 20;

    fn ranges(plan: PartPlan) -> impl Iterator<Item = Range> {
        (1..).map_while(move |n| plan.range(n))
    }

    proptest! {
        #[test]
        fn parts_cover_every_object_exactly_once(
            size in prop_oneof![0..100 * MIB, 0..(1u64 << 42), 0..=CopyLimits::default().maximum_object],
            requested in proptest::option::of(0..6u64 << 30),
        ) {
            let limits = CopyLimits::default();
            let plan = plan_parts(size, requested, &limits).unwrap();

            let mut next = 0;
            let mut count = 0;
            for range in ranges(plan) {
                prop_assert_eq!(range.first, next);
                next = range.last + 1;
                count += 1;
                prop_assert!(range.len() <= limits.maximum_part);
                prop_assert!(range.len() >= limits.minimum_part || next == size);
            }
            prop_assert_eq!(next, size);
            prop_assert_eq!(count, plan.count());
            prop_assert!(u64::from(count) <= limits.maximum_parts);
        }

        #[test]
        fn a_wish_within_the_limits_is_kept(size in 1..(1u64 << 40), requested in 128 * MIB..5 << 30) {
            prop_assert_eq!(plan_parts(size, Some(requested), &CopyLimits::default()).unwrap().part_size, requested);
        }

        #[test]
        fn small_limits_hold_too(
            size in 0..100_000u64,
            minimum in 1..50u64,
            parts in 1..200u64,
            requested in proptest::option::of(0..500u64),
        ) {
            let limits = CopyLimits {
                minimum_part: minimum,
                maximum_part: 1000,
                maximum_parts: parts,
                maximum_object: u64::MAX,
                part_size: 64,
                ..CopyLimits::default()
            };
            match plan_parts(size, requested, &limits) {
                Err(error) => prop_assert!(size > error.maximum && error.maximum == 1000 * parts),
                Ok(plan) => {
                    prop_assert_eq!(ranges(plan).map(|r| r.len()).sum::<u64>(), size);
                    prop_assert!(u64::from(plan.count()) <= parts);
                }
            }
        }

        #[test]
        fn the_part_size_of_a_uniform_upload_is_found_again(size in 1..(1u64 << 40), part in 5 * MIB..5 << 30) {
            let plan = PartPlan { size, part_size: part };
            let first = plan.range(1).unwrap().len();
            let found = uniform_part_size(size, plan.count(), first, &CopyLimits::default());
            let allowed = u64::from(plan.count()) <= CopyLimits::default().maximum_parts;
            prop_assert_eq!(found, allowed.then_some(first));
            prop_assert_eq!(PartPlan { size, part_size: first }.count(), plan.count());
        }
    }

    #[test]
    fn the_largest_object_needs_the_largest_parts() {
        let limits = CopyLimits::default();

        let plan = plan_parts(limits.maximum_object, None, &limits).unwrap();

        assert_eq!((plan.part_size, plan.count()), (5 << 30, 10_000));
        assert!(plan_parts(limits.maximum_object + 1, None, &limits).is_err());
    }

    #[test]
    fn an_empty_object_has_no_parts() {
        assert_eq!(plan_parts(0, None, &CopyLimits::default()).unwrap().count(), 0);
    }

    #[test]
    fn uneven_parts_are_not_taken_for_even_ones() {
        let limits = CopyLimits::default();

        assert_eq!(uniform_part_size(100 * MIB, 3, 10 * MIB, &limits), None);
        assert_eq!(uniform_part_size(100 * MIB, 100, MIB, &limits), None);
        assert_eq!(uniform_part_size(10_000 * 5 * MIB, 10_000, 5 * MIB, &limits), Some(5 * MIB));
        assert_eq!(uniform_part_size(10_001 * 5 * MIB, 10_001, 5 * MIB, &limits), None, "more parts than are allowed");
        assert_eq!(uniform_part_size(MIB, 1, MIB, &limits), Some(MIB));
    }

    #[test]
    fn only_multipart_etags_name_parts() {
        assert_eq!(etag_parts("d41d8cd98f00b204e9800998ecf8427e-12"), Some(12));
        for other in [
            "d41d8cd98f00b204e9800998ecf8427e",
            "d41d8cd98f00b204e9800998ecf8427e-",
            "x-1",
            "d41d8cd98f00b204e9800998ecf8427e-0",
            "",
        ] {
            assert_eq!(etag_parts(other), None, "{other}");
        }
    }
}
