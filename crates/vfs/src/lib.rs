//! Files over objects, free of any protocol.
//!
//! Interfaces (the FUSE mount, the NFS gateway) translate their requests into calls of this crate and its errors into
//! theirs. S3 is reached through one trait, [`Source`]; bytes are identified everywhere by [`ObjectVersion`] and read
//! in blocks of [`BLOCK_SIZE`]. A second tier of blocks below the memory is a [`BlockTier`]; [`disk_cache`] is one.

mod access;
mod ahead;
mod block;
mod bucket_files;
mod client_source;
mod crc;
pub mod disk_cache;
mod error;
mod fetch;
pub mod filesystem;
mod in_flight;
mod link;
mod manifest;
mod own_file;
pub mod pool;
pub mod reader;
mod source;
pub mod tar;
pub mod testing;
pub mod tree;
mod version;

pub use ahead::PageCache;
pub use bucket_files::{ArchiveView, BucketFiles, BucketFilesError, BucketFilesSpec, FILE_RETRIES, check_bucket};
pub use client_source::ClientSource;
pub use error::{Result, VfsError};
pub use fetch::OpenObject;
pub use filesystem::{Archives, FileSystem, Freshness};
pub use manifest::{Manifest, ManifestError, ManifestSource};
pub use pool::Pool;
pub use reader::{ReadHandle, ReadStats, Reader, Slices};
pub use source::{BlockTier, RangeBody, Source, TierUse, Urgency};
pub use tree::{
    Attributes, AuditReport, DirectoryEntry, FileKind, HiddenKey, HiddenReason, LONGEST_TARGET, Lookup, NamePage, ROOT,
    RestoreReport, Tree, TreeOptions,
};
pub use version::{BLOCK_SIZE, ObjectVersion, VersionDigest, VersionPin, block_count, block_length};
