//! Errors of files. Interfaces translate these into the errors of their protocol and decide nothing else.

use std::fmt;

use seqferry_store::{Cause, ErrorClass, StoreError};

/// Every operation on files ends in one of these.
pub type Result<T> = std::result::Result<T, VfsError>;

/// Error of an operation on a file.
///
/// Interfaces match it without a `_` arm: a new cause has to be given its number in each protocol.
#[derive(Debug, Clone)]
pub enum VfsError {
    /// No file or directory has this name.
    NotFound,
    /// The inode is unknown, or the version behind it has been replaced: look the name up again.
    Stale,
    /// A directory was requested.
    NotADirectory,
    /// A file was requested.
    IsADirectory,
    /// The operation does not fit the inode, such as reading the target of what is no link.
    Invalid,
    /// The place of the files cannot be written.
    ReadOnly,
    /// The name is in use.
    Exists,
    /// The directory has entries.
    NotEmpty,
    /// There is no space left.
    NoSpace,
    /// A name, or the key that it makes, is longer than the service allows.
    NameTooLong,
    /// Source and target of a rename belong to different places.
    CrossDevice,
    /// It cannot be done now; the same call succeeds later.
    TryLater,
    /// The object is archived: its bytes cannot be read before it has been restored.
    Archived(StoreError),
    /// The service denies it.
    Denied(StoreError),
    /// Any other failure of the service, after all retries.
    Failed(StoreError),
    /// An archive that cannot be read as a folder, or not as its index says: the object, the cause and the next step.
    BadArchive(String),
}

impl VfsError {
    /// The failed request, where one failed.
    pub fn cause(&self) -> Option<&StoreError> {
        match self {
            Self::Archived(error) | Self::Denied(error) | Self::Failed(error) => Some(error),
            Self::NotFound
            | Self::Stale
            | Self::NotADirectory
            | Self::IsADirectory
            | Self::Invalid
            | Self::ReadOnly
            | Self::Exists
            | Self::NotEmpty
            | Self::NoSpace
            | Self::NameTooLong
            | Self::CrossDevice
            | Self::TryLater
            | Self::BadArchive(_) => None,
        }
    }
}

impl From<StoreError> for VfsError {
    fn from(error: StoreError) -> Self {
        match error.class {
            ErrorClass::Precondition => Self::Stale,
            ErrorClass::NotFound => Self::NotFound,
            ErrorClass::Person if error.cause() == Cause::Archived => Self::Archived(error),
            ErrorClass::Person | ErrorClass::Credentials => Self::Denied(error),
            _ => Self::Failed(error),
        }
    }
}

impl fmt::Display for VfsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound => f.write_str("no such file or directory"),
            Self::Stale => f.write_str("the file was replaced or removed"),
            Self::NotADirectory => f.write_str("not a directory"),
            Self::IsADirectory => f.write_str("is a directory"),
            Self::Invalid => f.write_str("invalid argument"),
            Self::ReadOnly => f.write_str("read-only file system"),
            Self::Exists => f.write_str("the name is in use"),
            Self::NotEmpty => f.write_str("the directory is not empty"),
            Self::NoSpace => f.write_str("no space left"),
            Self::NameTooLong => f.write_str("the name is too long"),
            Self::CrossDevice => f.write_str("source and target are in different places"),
            Self::TryLater => f.write_str("not now: try again"),
            Self::BadArchive(text) => f.write_str(text),
            Self::Archived(error) | Self::Denied(error) | Self::Failed(error) => {
                write!(f, "{error}. {}", error.advice())
            }
        }
    }
}

impl std::error::Error for VfsError {}
