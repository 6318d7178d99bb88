//! Writing archives: entries, their headers, the layout of all bytes, and how an upload is cut.
//!
//! Everything is planned from names, sizes and times alone. The bytes of an archive depend on its entries only: not on
//! part sizes, users, host or clock. Owner and group are 0 without names; PAX headers appear only where ustar cannot
//! hold a value; the archive ends with exactly two blocks of zeros.

mod entry;
mod layout;
mod parts;
mod shards;

pub use entry::{ArchiveEntry, EntryKind};
pub use layout::{ArchivePiece, Layout, LayoutError, Placement};
pub use parts::{PartSource, UploadLimits, UploadPart, plan_upload};
pub use shards::{shard_name, split};
