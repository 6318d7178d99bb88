//! Sizes of parts of an object whose size is not known when its upload begins.

/// Parts after which their size doubles.
const DOUBLES_AFTER: u32 = 1000;
/// The largest part that S3 takes: 5 GiB.
const LARGEST: u64 = 5 << 30;

/// Bytes of part `number` (from 1) where the first parts have `first` bytes: twice as many after each 1,000 parts, so
/// that the 10,000 parts of S3 hold a stream of any length. With 8 MiB first they hold 7.8 TiB.
///
/// A small stream then costs little memory, and a large one pays with larger parts. For services only: a disk wants all
/// parts but the last of one size.
pub fn growing_part_size(number: u32, first: u64) -> u64 {
    let doublings = number.saturating_sub(1) / DOUBLES_AFTER;
    first.saturating_mul(1_u64.checked_shl(doublings).unwrap_or(u64::MAX)).min(LARGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn parts_grow_so_that_ten_thousand_hold_the_largest_objects() {
        let all: u64 = (1..=10_000).map(|number| growing_part_size(number, 8 * MIB)).sum();

        assert_eq!(growing_part_size(1, 8 * MIB), 8 * MIB);
        assert_eq!(growing_part_size(1000, 8 * MIB), 8 * MIB);
        assert_eq!(growing_part_size(1001, 8 * MIB), 16 * MIB);
        assert!(all > 5 << 40, "{all}");
        assert!((1..=10_000).all(|number| growing_part_size(number, 64 * MIB) <= LARGEST));
    }
}
