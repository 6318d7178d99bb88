//! Errors of opening a folder as a cache, each with the next step.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// A folder that cannot be used as a cache.
#[derive(Debug)]
#[non_exhaustive]
pub enum CacheOpenError {
    /// An error of the file system.
    Io {
        /// The folder.
        path: PathBuf,
        /// The error.
        cause: io::Error,
    },
    /// The path is that of a file.
    NotFolder(PathBuf),
    /// The folder belongs to another user.
    Foreign {
        /// The folder.
        path: PathBuf,
        /// Id of its owner.
        user: u32,
    },
    /// Something in the folder is a link, or another user's: what is written to it would go elsewhere.
    Planted {
        /// The folder.
        folder: PathBuf,
        /// The path in it.
        path: PathBuf,
    },
    /// The folder holds other files.
    NotEmpty {
        /// The folder.
        path: PathBuf,
        /// One of them.
        name: String,
    },
    /// The folder is on a network or user-space file system.
    Remote {
        /// The folder.
        path: PathBuf,
        /// Name of the file system.
        system: &'static str,
    },
}

impl fmt::Display for CacheOpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { path, cause } => write!(f, "Cannot use {} as a cache: {cause}", path.display()),
            Self::NotFolder(path) => {
                write!(f, "Cannot use {} as a cache: it is not a folder. Name another one.", path.display())
            }
            Self::Foreign { path, user } => write!(
                f,
                "Cannot use {} as a cache: it belongs to another user (id {user}), who could change what is read from \
                 it. Name a folder of your own.",
                path.display()
            ),
            Self::Planted { folder, path } => write!(
                f,
                "Cannot use {} as a cache: {} is a link, or not yours alone, and what is written to it could go \
                 elsewhere. Remove it, or name another folder.",
                folder.display(),
                path.display()
            ),
            Self::NotEmpty { path, name } => write!(
                f,
                "Cannot use {} as a cache: it holds other files ({name:?}). Name an empty or new folder.",
                path.display()
            ),
            Self::Remote { path, system } => write!(
                f,
                "Cannot use {} as a cache: it is on {system}, and a cache must be on a local disk. Name a folder on a \
                 local disk.",
                path.display()
            ),
        }
    }
}

impl std::error::Error for CacheOpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { cause, .. } => Some(cause),
            _ => None,
        }
    }
}
