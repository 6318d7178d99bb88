//! Texts of rows are JSON, and trees over them have the root of RFC 9162.

use proptest::prelude::*;
use seqferry_rows::merkle::{Hash, MerkleTree, RowTexts};
use sha2::{Digest as _, Sha256};

fn hash(parts: &[&[u8]]) -> Hash {
    let mut state = Sha256::new();
    for part in parts {
        state.update(part);
    }
    state.finalize().into()
}

/// As the RFC defines it.
fn recursive(leaves: &[Hash]) -> Hash {
    match leaves {
        [] => hash(&[]),
        [leaf] => *leaf,
        _ => {
            let (left, right) = leaves.split_at(leaves.len().next_power_of_two() / 2);
            hash(&[&[1], &recursive(left), &recursive(right)])
        }
    }
}

#[test]
fn the_root_is_that_of_the_recursive_form() {
    for size in (0..40).chain([64, 65, 127, 1000]) {
        let mut tree = MerkleTree::default();
        let leaves: Vec<Hash> = (0..size).map(|row: u32| tree.add(&row.to_be_bytes())).collect();

        assert_eq!(leaves, (0..size).map(|row| hash(&[&[0], &row.to_be_bytes()])).collect::<Vec<_>>());
        assert_eq!((tree.size(), tree.root()), (u64::from(size), recursive(&leaves)));
    }
}

proptest! {
    #[test]
    fn texts_are_json_without_spaces(rows in prop::collection::vec(prop::collection::vec(".*", 0..4), 0..4)) {
        let mut texts = RowTexts::default();
        for row in &rows {
            texts.begin();
            for text in row {
                texts.text(text.as_bytes());
            }
            texts.end();
        }

        let found: Vec<Vec<u8>> = texts.rows().map(<[u8]>::to_vec).collect();

        prop_assert_eq!(found, rows.iter().map(|row| serde_json::to_vec(row).unwrap()).collect::<Vec<_>>());
    }
}

#[test]
fn times_are_whole_microseconds_rounded_half_to_even() {
    let mut texts = RowTexts::default();
    texts.begin();
    texts.null();
    texts.number(-3);
    for seconds in [0.0, -0.0, 1.75, 0.000_000_5, 0.000_001_5, -0.000_000_5, 1_764_000_000.123_457] {
        assert!(texts.seconds(seconds));
    }
    texts.text(b"\x01\x7f");
    texts.end();

    let found: Vec<&[u8]> = texts.rows().collect();

    let text = "[null,-3,0,0,1750000,0,2,0,1764000000123457,\"\\u0001\x7f\"]";
    assert_eq!(found, [text.as_bytes()]);
    assert!(!RowTexts::default().seconds(f64::NAN));
}
