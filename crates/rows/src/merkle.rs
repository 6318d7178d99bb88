//! Merkle trees over rows (RFC 9162), and the text of a row as it is hashed.
//!
//! A leaf is `SHA256(0x00, row)`, a node `SHA256(0x01, left, right)`. The text of a row is a JSON list without spaces, in
//! which only `"`, `\` and control characters are escaped: the form that `json.dumps(row, ensure_ascii=False,
//! separators=(",", ":"))` of Python writes.

use std::io::Write as _;

use sha2::{Digest as _, Sha256};

/// A hash of a leaf, a node or a root.
pub type Hash = [u8; 32];

/// Microseconds of a time in seconds, rounded half to even: texts of floats differ between languages.
fn microseconds(seconds: f64) -> f64 {
    (seconds * 1_000_000.0).round_ties_even() + 0.0 // no negative zero
}

/// Texts of rows, one after another.
#[derive(Debug, Default)]
pub struct RowTexts {
    text: Vec<u8>,
    ends: Vec<usize>,
    is_empty_row: bool,
}

impl RowTexts {
    /// Begin a row.
    pub fn begin(&mut self) {
        self.text.push(b'[');
        self.is_empty_row = true;
    }

    /// End a row.
    pub fn end(&mut self) {
        self.text.push(b']');
        self.ends.push(self.text.len());
    }

    fn separate(&mut self) {
        if !std::mem::take(&mut self.is_empty_row) {
            self.text.push(b',');
        }
    }

    fn write(&mut self, value: std::fmt::Arguments<'_>) {
        let written = self.text.write_fmt(value);
        debug_assert!(written.is_ok(), "a vector takes everything");
    }

    /// Add an empty value.
    pub fn null(&mut self) {
        self.separate();
        self.text.extend_from_slice(b"null");
    }

    /// Add a whole number.
    pub fn number(&mut self, number: i64) {
        self.separate();
        self.write(format_args!("{number}"));
    }

    /// Add a time in seconds, as whole microseconds. False if it is not finite.
    #[must_use]
    pub fn seconds(&mut self, seconds: f64) -> bool {
        self.separate();
        self.write(format_args!("{:.0}", microseconds(seconds)));
        seconds.is_finite()
    }

    /// Add a text in UTF-8, in which surrogates may stand alone.
    pub fn text(&mut self, text: &[u8]) {
        self.separate();
        self.text.push(b'"');
        let mut rest = text;
        while let Some(at) = rest.iter().position(|byte| *byte < b' ' || matches!(byte, b'"' | b'\\')) {
            let (before, from) = rest.split_at(at);
            self.text.extend_from_slice(before);
            match from[0] {
                b'"' => self.text.extend_from_slice(b"\\\""),
                b'\\' => self.text.extend_from_slice(b"\\\\"),
                b'\n' => self.text.extend_from_slice(b"\\n"),
                b'\r' => self.text.extend_from_slice(b"\\r"),
                b'\t' => self.text.extend_from_slice(b"\\t"),
                8 => self.text.extend_from_slice(b"\\b"),
                12 => self.text.extend_from_slice(b"\\f"),
                control => self.write(format_args!("\\u{control:04x}")),
            }
            rest = &from[1..];
        }
        self.text.extend_from_slice(rest);
        self.text.push(b'"');
    }

    /// The rows that have ended.
    pub fn rows(&self) -> impl Iterator<Item = &[u8]> {
        let begins = std::iter::once(0).chain(self.ends.iter().copied());
        begins.zip(&self.ends).map(|(begin, end)| &self.text[begin..*end])
    }
}

/// The leaf of a row.
fn leaf(row: &[u8]) -> Hash {
    Sha256::new().chain_update([0]).chain_update(row).finalize().into()
}

fn node(left: &Hash, right: &Hash) -> Hash {
    Sha256::new().chain_update([1]).chain_update(left).chain_update(right).finalize().into()
}

/// A tree that grows leaf by leaf, and holds one hash for each of its levels.
#[derive(Debug, Default)]
pub struct MerkleTree {
    size: u64,
    peaks: Vec<Hash>,
}

impl MerkleTree {
    /// Add a row; returns its leaf.
    pub fn add(&mut self, row: &[u8]) -> Hash {
        let added = leaf(row);
        let mut hash = added;
        let mut size = self.size;
        while size & 1 == 1 {
            let Some(left) = self.peaks.pop() else { break };
            hash = node(&left, &hash);
            size >>= 1;
        }
        self.peaks.push(hash);
        self.size += 1;
        added
    }

    /// Number of leaves.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The root over all leaves; that of no leaves is the hash of nothing.
    #[must_use]
    pub fn root(&self) -> Hash {
        let root = self.peaks.iter().rev().copied().reduce(|root, peak| node(&peak, &root));
        root.unwrap_or_else(|| Sha256::digest([]).into())
    }
}
