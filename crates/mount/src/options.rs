//! Options of a mount, and reasons why it cannot be made.

use std::fmt;
use std::path::PathBuf;

/// Options of a mount: folder, access, and the owner and permissions of files.
#[derive(Debug, Clone)]
pub struct MountOptions {
    /// The folder that becomes the mount.
    pub directory: PathBuf,
    /// Source that the table of mounts shows, such as `s3://bucket/prefix/`.
    pub source: String,
    /// Access for other users than the one that mounts. The kernel then checks permissions.
    pub allow_other: bool,
    /// Mount over a folder that has files in it; they are out of sight meanwhile.
    pub allow_non_empty: bool,
    /// Owner of everything.
    pub uid: u32,
    /// Group of everything.
    pub gid: u32,
    /// Permissions of files whose object stores none.
    pub file_mode: u16,
    /// Permissions of directories.
    pub directory_mode: u16,
}

/// Reason why a folder cannot be mounted: one sentence with the cause, and one with the next step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountError(pub String);

impl fmt::Display for MountError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for MountError {}
