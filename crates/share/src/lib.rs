//! Shares: files as NFS and FUSE serve them, without either protocol.
//!
//! An interface (the NFS server, a FUSE mount) translates its requests into calls of a [`Share`], and results and errors
//! into its protocol. `seqferry-gateway` implements shares over buckets.

mod error;
mod share;

pub use error::{FileError, Result};
pub use share::{
    Access, Attributes, Caller, ChangeResult, ChangeStamp, CreateMode, CreateResult, DirectoryEntry, DirectoryPage,
    EntryDetail, FileId, FileKind, FileLimits, ReadData, SetAttributes, Share, SpaceInfo, Stability, TimeUpdate,
    WriteResult, XattrCondition,
};
