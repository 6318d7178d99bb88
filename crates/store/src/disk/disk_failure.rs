//! Errors of the operating system as codes of the error table.

use std::io;

use rustix::io::Errno;

use crate::error::classify::code;
use crate::error::{ObjectUri, StoreError};

/// Cause of a failure, before it is known which request failed.
#[derive(Debug)]
pub(super) struct DiskFailure {
    pub(super) code: &'static str,
    pub(super) message: String,
}

pub(super) type Result<T> = std::result::Result<T, DiskFailure>;

impl DiskFailure {
    pub(super) fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    /// Converts an error of the folder that the whole transfer reads from or writes to.
    pub(super) fn of_root(errno: Errno) -> Self {
        let code = match errno {
            Errno::NOENT | Errno::NOTDIR | Errno::LOOP => code::NO_SUCH_FOLDER,
            Errno::ACCESS | Errno::PERM => code::FOLDER_DENIED,
            _ => return errno.into(),
        };
        Self::new(code, errno.to_string())
    }

    /// Converts an error of a file or folder that existed a moment ago, and that a write depends on.
    pub(super) fn of_write(errno: Errno) -> Self {
        match errno {
            Errno::NOENT => Self::new(code::FOLDER_VANISHED, errno.to_string()),
            _ => errno.into(),
        }
    }

    /// Error for a name that exists and is no object.
    pub(super) fn no_object(code: &'static str) -> Self {
        Self::new(
            code,
            match code {
                code::SYMLINK_LOOP => "A symbolic link that leads back to itself.",
                code::SYMLINK_DANGLING => "A symbolic link to what is not there.",
                code::SYMLINK_SKIPPED => "A symbolic link, while links are skipped.",
                _ => "A device, socket or pipe: there are no bytes to copy.",
            },
        )
    }

    pub(super) fn into_error(self, operation: &'static str, bucket: &str, key: Option<&str>) -> StoreError {
        StoreError::new(operation, bucket, key, self.code, None).with_message(self.message)
    }
}

/// Error of a file that a request for this object depends on, such as a journal. `what` names the action on the file
/// that failed.
pub fn file_error(operation: &'static str, object: ObjectUri<'_>, what: &str, cause: &io::Error) -> StoreError {
    let ObjectUri(bucket, key) = object;
    let code = Errno::from_io_error(cause).map_or(code::DISK_ERROR, |errno| DiskFailure::of_root(errno).code);
    StoreError::new(operation, bucket, key, code, None).with_message(format!("{what}: {cause}"))
}

impl From<Errno> for DiskFailure {
    fn from(errno: Errno) -> Self {
        let code = match errno {
            Errno::NOSPC | Errno::DQUOT => code::DISK_FULL,
            Errno::ROFS => code::READ_ONLY,
            Errno::ACCESS | Errno::PERM => code::PERMISSION_DENIED,
            Errno::NOENT => "NoSuchKey",
            Errno::NAMETOOLONG => code::NAME_TOO_LONG,
            // File systems with rules of their own (FAT, case folding) refuse a name with these errors.
            Errno::INVAL | Errno::ILSEQ => code::NAME_NOT_ALLOWED,
            Errno::FBIG => code::FILE_TOO_LARGE,
            Errno::MFILE | Errno::NFILE | Errno::NOMEM => code::TOO_MANY_OPEN_FILES,
            Errno::NOTDIR => code::FILE_IN_THE_WAY,
            Errno::ISDIR | Errno::EXIST | Errno::NOTEMPTY => code::FOLDER_IN_THE_WAY,
            Errno::LOOP => code::SYMLINK_LOOP,
            _ => code::DISK_ERROR,
        };
        Self::new(code, errno.to_string())
    }
}
