//! Tar archives, without I/O: the mount, `pack` and `unpack` share this crate.
//!
//! | module | holds |
//! |---|---|
//! | [`scan`] | [`Scanner`], the one strict header reader; it names the bytes that it needs and never reads contents |
//! | [`stream`] | [`StreamReader`]: the scanner over a stream of chunks, with the contents of members as events |
//! | [`member`], [`refusal`], [`error`] | a member, the reasons to refuse one member, the reasons to refuse the archive |
//! | [`path`], [`tree`] | safe relative paths, and the tree of all members with its links resolved inside |
//! | [`mod@write`] | deterministic headers, the layout of a whole archive before a byte is read, upload parts, shards |
//! | [`index`] | the sidecar index: format, writer, strict reader, builder |
//!
//! The crate does no I/O and knows no object store. A caller hands over byte slices at offsets, so that the same parser
//! streams a download or hops from header to header with ranged reads.
//!
//! Two rules hold everywhere. Readers that disagree about one archive are an attack: an archive whose next header could
//! be found at two places is refused as a whole, and a member whose name or type is ambiguous is refused alone. Memory
//! is bounded by [`ArchiveLimits`], never by the numbers that an archive states.

mod block;
pub mod error;
mod header;
pub mod index;
pub mod member;
mod number;
pub mod path;
mod pax;
mod prelude;
pub mod refusal;
pub mod scan;
mod sparse;
pub mod stream;
pub mod tree;
pub mod write;

pub use block::BLOCK;
pub use error::{ArchiveError, ArchiveFault};
pub use member::{Member, MemberKind, SparseMap};
pub use path::MemberPath;
pub use refusal::MemberRefusal;
pub use scan::{ArchiveLimits, ReadOptions, ScanStep, Scanner};
pub use stream::{ArchiveEvent, StreamReader};
pub use tree::{MemberTree, TreePolicy};
