//! A file's status as the metadata of an object, and the metadata that a file can keep.

use rustix::fs::{FileType, Stat, Timespec};

use super::content_type::content_type;
use crate::stored_metadata::StoredMetadata;
use crate::types::{Attributes, ObjectMeta};

/// Facts that pin the bytes of a file: while they are unchanged, the file was neither modified nor replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pin {
    pub(super) size: u64,
    pub(super) seconds: i64,
    pub(super) nanoseconds: u32,
    pub(super) inode: u64,
}

impl Pin {
    pub(super) fn of(stat: &Stat) -> Self {
        Self {
            // A folder has no bytes; the size of its list of names does not count.
            size: if file_type(stat) == FileType::Directory { 0 } else { u64::try_from(stat.st_size).unwrap_or(0) },
            seconds: stat.st_mtime,
            nanoseconds: u32::try_from(stat.st_mtime_nsec).unwrap_or(0),
            inode: stat.st_ino,
        }
    }

    /// Formats the facts as an `ETag` that does not look like a digest.
    pub(super) fn etag(&self) -> String {
        format!("{:x}.{:x}.{:x}.{:x}", self.size, self.seconds, self.nanoseconds, self.inode)
    }

    pub(super) fn last_modified(&self) -> f64 {
        self.seconds as f64 + f64::from(self.nanoseconds) / 1e9
    }
}

pub(super) fn file_type(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

/// Returns the attributes of a file, or about a link that is kept as an object.
pub(super) fn meta(stat: &Stat, name: &str) -> ObjectMeta {
    let pin = Pin::of(stat);
    // Owners are not kept: numbers of users mean nothing on other machines.
    let stored = StoredMetadata {
        modified: Some((pin.seconds, pin.nanoseconds)),
        mode: Some(stat.st_mode),
        ..StoredMetadata::default()
    };
    let metadata = stored.to_metadata();
    let content_type = (file_type(stat) == FileType::RegularFile).then(|| content_type(name)).flatten();
    ObjectMeta {
        size: pin.size,
        etag: pin.etag(),
        last_modified: pin.last_modified(),
        changed: stat.st_ctime as f64 + stat.st_ctime_nsec as f64 / 1e9,
        attributes: Attributes { content_type: content_type.map(str::to_owned), metadata, ..Attributes::default() },
        tag_count: Some(0),
        opaque_etag: true,
        ..ObjectMeta::default()
    }
}

/// Time, permissions and type from an object's metadata.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct FileAttributes {
    /// Seconds and nanoseconds.
    pub(super) mtime: Option<(i64, u32)>,
    /// Permission bits without setuid, setgid and sticky.
    pub(super) permissions: Option<u32>,
    /// Type of the original file, where the metadata names it.
    pub(super) kind: Option<FileType>,
}

impl FileAttributes {
    pub(super) fn of(attributes: &Attributes) -> Self {
        let stored = StoredMetadata::of(&attributes.metadata);
        let kind = stored.file_type().map(FileType::from_raw_mode);
        Self {
            mtime: stored.modified,
            // The permissions of a link have no effect: every user has all of them.
            permissions: stored.mode.filter(|_| kind != Some(FileType::Symlink)).map(|mode| mode & 0o777),
            kind,
        }
    }
}

pub(super) fn timespec((seconds, nanoseconds): (i64, u32)) -> Timespec {
    Timespec { tv_sec: seconds, tv_nsec: nanoseconds.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_user_gets_more_rights_than_permissions() {
        for name in ["mode", "file-permissions"] {
            let metadata = [(name.to_owned(), "0106777".to_owned())].into();
            let attributes = Attributes { metadata, ..Attributes::default() };
            assert_eq!(FileAttributes::of(&attributes).permissions, Some(0o777), "{name}");
        }
    }
}
