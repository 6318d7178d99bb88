//! Errors of files as statuses of the protocol, and errors of the server itself.

use std::fmt;

use nfs3_types::nfs3::nfsstat3;
use seqferry_share::FileError;

/// The status of the protocol for an error of a share.
pub(crate) const fn status_of(error: FileError) -> nfsstat3 {
    match error {
        FileError::NotPermitted => nfsstat3::NFS3ERR_PERM,
        FileError::NotFound => nfsstat3::NFS3ERR_NOENT,
        FileError::Io => nfsstat3::NFS3ERR_IO,
        FileError::AccessDenied => nfsstat3::NFS3ERR_ACCES,
        FileError::Exists => nfsstat3::NFS3ERR_EXIST,
        FileError::CrossDevice => nfsstat3::NFS3ERR_XDEV,
        FileError::NotADirectory => nfsstat3::NFS3ERR_NOTDIR,
        FileError::IsADirectory => nfsstat3::NFS3ERR_ISDIR,
        FileError::Invalid => nfsstat3::NFS3ERR_INVAL,
        FileError::TooLarge => nfsstat3::NFS3ERR_FBIG,
        FileError::NoSpace => nfsstat3::NFS3ERR_NOSPC,
        FileError::ReadOnly => nfsstat3::NFS3ERR_ROFS,
        FileError::NameTooLong => nfsstat3::NFS3ERR_NAMETOOLONG,
        FileError::NotEmpty => nfsstat3::NFS3ERR_NOTEMPTY,
        FileError::QuotaExceeded => nfsstat3::NFS3ERR_DQUOT,
        FileError::Stale => nfsstat3::NFS3ERR_STALE,
        FileError::NotSynchronized => nfsstat3::NFS3ERR_NOT_SYNC,
        FileError::BadCookie => nfsstat3::NFS3ERR_BAD_COOKIE,
        FileError::NotSupported => nfsstat3::NFS3ERR_NOTSUPP,
        FileError::TryLater => nfsstat3::NFS3ERR_JUKEBOX,
    }
}

/// Cause for which no server was started: one sentence or two, for the person who configures it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerError(pub String);

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ServerError {}
