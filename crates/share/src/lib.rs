//! Shares: files as NFS and FUSE serve them, without either protocol.
//!
//! An interface (the NFS server, a FUSE mount) translates its requests into calls of a [`Share`], and results and errors
//! into its protocol. `seqferry-gateway` implements shares over buckets.

mod attributes;
mod error;
mod share;

pub use attributes::{
    ATTRIBUTE_TTL, Access, Attributes, Caller, ChangeStamp, FileId, FileKind, SetAttributes, TimeUpdate,
};
pub use error::{FileError, Result};
pub use share::{
    ChangeResult, CreateMode, CreateResult, DirectoryEntry, DirectoryPage, EntryDetail, FileLimits, NameLookup,
    ReadData, Share, SpaceInfo, Stability, WriteResult, XattrCondition,
};
