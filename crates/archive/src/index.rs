//! The sidecar index of a tar: where every member lies, so that one can be read without the others.
//!
//! The file `X.tar.sfidx` beside `X.tar` is NDJSON: a [`IndexHead`] that says which tar it belongs to, one line per
//! member in the order of the archive, and a tail with the count and a CRC-64 of the lines before it. It is written
//! last, so that its presence means that it is complete. Compression is the caller's.
//!
//! An index is a hint, never a proof: [`Index::matches`] compares it with the live object, and [`verify_member`] parses
//! the headers at the offset of a member with the same strict reader before its bytes are used. [`GapCheck`] does so
//! with the bytes that lie between the members it lists: they must hold none.

mod build;
mod check;
mod format;
mod gaps;
mod read;

pub use build::{IndexBuilder, IndexWriter, build_by_hops, build_from_stream};
pub use check::{IndexMatch, same_member, spot_checks, verify_member};
pub use format::{IndexHead, IndexMember, MemberSource, TarIdentity};
pub use gaps::{Gap, GapCheck, GapFault, GapStep, Gaps};
pub use read::{Index, IndexError, IndexFault, IndexLimits, IndexReader};

/// Suffix that turns the name of a tar into the name of its index.
pub const SUFFIX: &str = ".sfidx";
