//! Errors of files, as a share states them.

use std::fmt;

/// Result of an operation on a file.
pub type Result<T> = std::result::Result<T, FileError>;

/// Cause for which an operation on a file is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileError {
    /// Only the owner, or root, may do this.
    NotPermitted,
    /// No file or directory has this name.
    NotFound,
    /// The storage failed after all retries.
    Io,
    /// The permissions of the file or directory, or those of the storage, do not allow it.
    AccessDenied,
    /// The name is in use.
    Exists,
    /// Source and target of a rename belong to different shares.
    CrossDevice,
    /// A directory is needed.
    NotADirectory,
    /// A directory is not possible here.
    IsADirectory,
    /// An argument has no meaning here.
    Invalid,
    /// The file would be larger than the share allows.
    TooLarge,
    /// There is no space, and waiting does not help.
    NoSpace,
    /// The share is read-only.
    ReadOnly,
    /// The name is longer than the share allows.
    NameTooLong,
    /// The directory is not empty.
    NotEmpty,
    /// The quota of the owner is used up.
    QuotaExceeded,
    /// The file of this handle no longer exists.
    Stale,
    /// The condition of the caller on the time of the last change does not hold.
    NotSynchronized,
    /// The position in the directory is unknown: read it from the beginning.
    BadCookie,
    /// The share has no such operation.
    NotSupported,
    /// The operation takes longer than a client waits for an answer: it asks again later.
    TryLater,
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotPermitted => "operation not permitted",
            Self::NotFound => "no such file or directory",
            Self::Io => "input/output error",
            Self::AccessDenied => "permission denied",
            Self::Exists => "file exists",
            Self::CrossDevice => "invalid cross-device link",
            Self::NotADirectory => "not a directory",
            Self::IsADirectory => "is a directory",
            Self::Invalid => "invalid argument",
            Self::TooLarge => "file too large",
            Self::NoSpace => "no space left on device",
            Self::ReadOnly => "read-only file system",
            Self::NameTooLong => "file name too long",
            Self::NotEmpty => "directory not empty",
            Self::QuotaExceeded => "disk quota exceeded",
            Self::Stale => "stale file handle",
            Self::NotSynchronized => "the file was changed meanwhile",
            Self::BadCookie => "unknown position in a directory",
            Self::NotSupported => "operation not supported",
            Self::TryLater => "try again later",
        })
    }
}

impl std::error::Error for FileError {}
