//! Mutations of the recorded answers in `corpus`, as input of the fuzz tests of this crate.
//!
//! `make fuzz` sets `PROPTEST_CASES` to run more of them than the ordinary tests do.

use std::path::Path;

use proptest::prelude::*;
use proptest::sample::Index;

/// A recorded answer: head and body, byte for byte.
#[derive(Debug, Clone)]
pub(crate) struct RecordedAnswer {
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
}

/// All recorded answers, in the order of their names.
pub(crate) fn corpus() -> Vec<RecordedAnswer> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
    let mut all: Vec<RecordedAnswer> = std::fs::read_dir(folder)
        .expect("the corpus")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "http"))
        .map(|path| RecordedAnswer {
            name: path.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
            bytes: std::fs::read(&path).expect("a recorded answer"),
        })
        .collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    assert!(all.len() > 40, "{} recorded answers", all.len());
    all
}

/// Texts that break readers of heads, chunks and XML.
const SPOILERS: &[&str] = &[
    "\r\n",
    "\n",
    "\r",
    "\r\n\r\n",
    "0\r\n\r\n",
    "5\r\n",
    "ffffffffffffffff\r\n",
    "0",
    "-1",
    "\0",
    "\u{e9}",
    " ",
    ":",
    "content-length: 0\r\n",
    "content-length: 4\r\n",
    "Content-Length: 18446744073709551615\r\n",
    "transfer-encoding: chunked\r\n",
    "connection: keep-alive\r\n",
    "connection: close\r\n",
    "HTTP/1.1 100 Continue\r\n\r\n",
    "HTTP/1.1 200 OK\r\ncontent-length: 6\r\netag: \"f\"\r\n\r\nforged",
    "HTTP/1.0 ",
    "204 No Content",
    "<",
    ">",
    "</",
    "/>",
    "<!--",
    "-->",
    "<![CDATA[",
    "]]>",
    "<?xml ?>",
    "<!DOCTYPE a [<!ENTITY b \"c\">]>",
    "&b;",
    "&#x0;",
    "&#xffffffff;",
    "&amp;",
    "&",
    "xmlns:a=\"b\" ",
    "<a:b>",
    "<IsTruncated>true</IsTruncated>",
    "<Error><Code>SlowDown</Code></Error>",
    "<Part>",
    "<Key>",
    "%",
    "%zz",
    "%00",
    "99999999999999999999999",
];

/// One change to an answer.
#[derive(Debug, Clone)]
pub(crate) enum Mutation {
    Flip(Index, u8),
    Insert(Index, &'static str),
    Noise(Index, Vec<u8>),
    Remove(Index, usize),
    Repeat(Index, usize, usize),
    Cut(Index),
    Splice(Index, Index, Index),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    prop_oneof![
        3 => (any::<Index>(), 0..8_u8).prop_map(|(at, bit)| Mutation::Flip(at, bit)),
        6 => (any::<Index>(), proptest::sample::select(SPOILERS)).prop_map(|(at, text)| Mutation::Insert(at, text)),
        1 => (any::<Index>(), proptest::collection::vec(any::<u8>(), 1..20)).prop_map(|(at, noise)| Mutation::Noise(at, noise)),
        3 => (any::<Index>(), 1..200_usize).prop_map(|(at, length)| Mutation::Remove(at, length)),
        2 => (any::<Index>(), 1..100_usize, 1..200_usize).prop_map(|(at, length, times)| Mutation::Repeat(at, length, times)),
        1 => any::<Index>().prop_map(Mutation::Cut),
        1 => (any::<Index>(), any::<Index>(), any::<Index>()).prop_map(|(at, other, from)| Mutation::Splice(at, other, from)),
    ]
}

/// The number of a recorded answer, and its changes.
pub(crate) fn mutations() -> impl Strategy<Value = (Index, Vec<Mutation>)> {
    (any::<Index>(), proptest::collection::vec(mutation(), 0..6))
}

/// Returns the answer with these changes.
pub(crate) fn mutated(bytes: &[u8], mutations: &[Mutation], corpus: &[RecordedAnswer]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for mutation in mutations {
        let at = |index: &Index, bytes: &[u8]| index.index(bytes.len() + 1);
        match mutation {
            Mutation::Flip(index, bit) if !bytes.is_empty() => {
                let at = index.index(bytes.len());
                bytes[at] ^= 1 << bit;
            }
            Mutation::Flip(..) => {}
            Mutation::Insert(index, text) => {
                let at = at(index, &bytes);
                bytes.splice(at..at, text.bytes());
            }
            Mutation::Noise(index, noise) => {
                let at = at(index, &bytes);
                bytes.splice(at..at, noise.iter().copied());
            }
            Mutation::Remove(index, length) => {
                let at = at(index, &bytes);
                bytes.drain(at..bytes.len().min(at + length));
            }
            Mutation::Repeat(index, length, times) => {
                let at = at(index, &bytes);
                let piece = bytes[at..bytes.len().min(at + length)].repeat(*times);
                bytes.splice(at..at, piece);
            }
            Mutation::Cut(index) => bytes.truncate(at(index, &bytes)),
            Mutation::Splice(index, other, from) => {
                let other = &corpus[other.index(corpus.len())].bytes;
                let at = at(index, &bytes);
                bytes.truncate(at);
                bytes.extend_from_slice(&other[from.index(other.len())..]);
            }
        }
    }
    bytes
}
