//! The algebra of extents: whatever is cut and joined reads as the same bytes, and has their checksums.

use std::time::Instant;

use md5::{Digest as _, Md5};
use proptest::prelude::*;
use seqferry_testkit::data::seed;
use seqferry_testkit::sim::content::{BLOCK, Content, fill, stream_crc};
use seqferry_testkit::sim::crc::Crc;

fn bytes_of(content: &Content) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(content.length()).unwrap()];
    content.read(0, &mut bytes).unwrap();
    bytes
}

/// Ends of pieces near the borders of blocks, where mistakes would be.
fn length() -> impl Strategy<Value = u64> {
    prop_oneof![0..40_u64, BLOCK - 20..BLOCK + 20, 0..5 * BLOCK]
}

proptest! {
    #[test]
    fn copies_in_parts_read_back_as_the_same_bytes(
        seeds in prop::collection::vec(any::<u64>(), 1..3),
        pieces in prop::collection::vec((0..3_usize, length(), length()), 0..6),
    ) {
        let parts: Vec<Content> =
            pieces.iter().map(|(i, offset, length)| Content::stream(seeds[i % seeds.len()], *offset, *length)).collect();
        let whole = Content::concat(&parts);
        let expected: Vec<u8> = parts.iter().flat_map(bytes_of).collect();

        prop_assert_eq!(&bytes_of(&whole), &expected);
        for crc in Crc::ALL {
            prop_assert_eq!(whole.crc(crc).unwrap(), crc.of(&expected));
        }
        let md5: [u8; 16] = Md5::digest(&expected).into();
        prop_assert_eq!(whole.md5().unwrap(), md5);
    }

    #[test]
    fn any_cut_of_an_object_joins_to_the_object(
        seed in any::<u64>(), length in length(), cuts in prop::collection::vec(0..5 * BLOCK, 0..6),
    ) {
        let object = Content::stream(seed, 0, length);
        let mut ends: Vec<u64> = cuts.into_iter().map(|cut| cut.min(length)).chain([0, length]).collect();
        ends.sort_unstable();

        let parts: Vec<Content> = ends.windows(2).map(|pair| object.range(pair[0], pair[1] - pair[0])).collect();
        let joined = Content::concat(&parts);

        prop_assert!(joined.equals(&object) && object.equals(&joined));
        prop_assert_eq!(joined.extents().len(), usize::from(length > 0));
        prop_assert_eq!(joined.opaque_digest(), object.opaque_digest());
    }

    #[test]
    fn a_range_of_joined_extents_is_that_range_of_their_bytes(
        lengths in prop::collection::vec(1..3 * BLOCK, 1..4), offset in 0..6 * BLOCK, wanted in length(),
    ) {
        let parts: Vec<Content> =
            lengths.iter().enumerate().map(|(i, length)| Content::stream(i as u64, 7 * i as u64, *length)).collect();
        let whole = Content::concat(&parts);
        let bytes = bytes_of(&whole);
        let from = usize::try_from(offset).unwrap().min(bytes.len());
        let to = usize::try_from(offset + wanted).unwrap().min(bytes.len());

        prop_assert_eq!(bytes_of(&whole.range(offset, wanted)), &bytes[from..to]);
    }

    #[test]
    fn a_part_in_the_wrong_place_is_another_object(seed in any::<u64>(), other in any::<u64>()) {
        let part = |index: u64| Content::stream(seed, index * 5 * BLOCK, 5 * BLOCK);
        let right = Content::concat(&[part(0), part(1), part(2)]);
        let swapped = Content::concat(&[part(0), part(2), part(1)]);
        let foreign = Content::concat(&[part(0), Content::stream(other, 5 * BLOCK, 5 * BLOCK), part(2)]);

        for wrong in [swapped, foreign].iter().filter(|_| other != seed) {
            prop_assert!(!wrong.equals(&right));
            prop_assert_ne!(wrong.opaque_digest(), right.opaque_digest());
            for crc in Crc::ALL {
                prop_assert_ne!(wrong.crc(crc).unwrap(), right.crc(crc).unwrap());
            }
        }
    }
}

#[test]
fn the_crc_of_terabytes_is_that_of_their_parts() {
    let size = 13 * (1_u64 << 40) + 12_345;
    for crc in Crc::ALL {
        let whole = stream_crc(crc, 42, 0, size);
        let part = 117 * (1 << 20) + 3;
        let mut joined = crc.of(&[]);
        for offset in (0..size).step_by(usize::try_from(part).unwrap()) {
            let length = part.min(size - offset);
            joined = crc.combine(joined, stream_crc(crc, 42, offset, length), length);
        }
        assert_eq!(joined, whole, "{crc:?}");
    }
}

#[test]
fn streams_are_not_compressible_by_repetition_within_a_block() {
    let mut bytes = vec![0; usize::try_from(BLOCK).unwrap()];
    fill(seed(), 0, &mut bytes);

    let mut counts = [0_u32; 256];
    for byte in &bytes {
        counts[usize::from(*byte)] += 1;
    }
    assert!(counts.iter().all(|count| (128..512).contains(count)), "each byte about as often");
}

/// Prints a figure and judges nothing.
#[test]
fn the_rate_of_making_bytes_is_printed() {
    let mut bytes = vec![0; 256 * 1024];
    let started = Instant::now();
    for i in 0..4_096_u64 {
        fill(1, i * 256 * 1024, &mut bytes);
    }
    println!("made 1 GiB at {:.1} GiB/s", 1.0 / started.elapsed().as_secs_f64());
    assert_eq!(stream_crc(Crc::Crc64Nvme, 1, 4_095 * 256 * 1024, 256 * 1024), Crc::Crc64Nvme.of(&bytes));
}
