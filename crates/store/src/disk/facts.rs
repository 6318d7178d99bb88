//! A file's status as the metadata of an object, and the metadata that a file can keep.
//!
//! Times and modes are kept as metadata under the keys that rclone and s3fs use: `mtime` in seconds with a fraction,
//! which both read; `mode` in octal digits with a leading 0, which rclone reads as octal and s3fs by the rules of C.

use std::collections::BTreeMap;

use rustix::fs::{FileType, Stat, Timespec};

use crate::types::{Attributes, ObjectMeta};

/// Metadata key of the time of the last change.
pub const MTIME: &str = "mtime";
/// Metadata key of type and permissions.
pub(super) const MODE: &str = "mode";

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

/// Returns the facts about a file, or about a link that is kept as an object.
pub(super) fn meta(stat: &Stat, name: &str) -> ObjectMeta {
    let pin = Pin::of(stat);
    let metadata = BTreeMap::from([
        (MTIME.to_owned(), mtime_text(pin.seconds, pin.nanoseconds)),
        (MODE.to_owned(), format!("0{:o}", stat.st_mode)),
    ]);
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

/// Content type by the ending of a name. None: the ending is ambiguous, and the service's default applies.
fn content_type(name: &str) -> Option<&'static str> {
    let (stem, ending) = name.rsplit_once('.')?;
    if stem.is_empty() {
        return None;
    }
    Some(match ending.to_ascii_lowercase().as_str() {
        "gz" => "application/gzip",
        "zip" => "application/zip",
        "tar" => "application/x-tar",
        "json" => "application/json",
        "xml" => "application/xml",
        "pdf" => "application/pdf",
        "txt" | "log" | "md5" => "text/plain",
        "csv" => "text/csv",
        "tsv" => "text/tab-separated-values",
        "html" | "htm" => "text/html",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "svg" => "image/svg+xml",
        _ => return None,
    })
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
        let mode = attributes.metadata.get(MODE).and_then(|text| read_mode(text));
        let kind = mode.filter(|mode| *mode > 0o7777).map(FileType::from_raw_mode);
        Self {
            mtime: attributes.metadata.get(MTIME).and_then(|text| read_mtime(text)),
            // The permissions of a link have no effect: every user has all of them.
            permissions: mode.filter(|_| kind != Some(FileType::Symlink)).map(|mode| mode & 0o777),
            kind,
        }
    }
}

/// Formats a time as `seconds.nanoseconds` without trailing zeros, as rclone does.
pub fn mtime_text(seconds: i64, nanoseconds: u32) -> String {
    // A time before 1970 has its fraction counted upwards from the second before.
    let (sign, whole, fraction) = match (seconds, nanoseconds) {
        (0.., _) => ("", seconds.unsigned_abs(), nanoseconds),
        (_, 0) => ("-", seconds.unsigned_abs(), 0),
        (_, n) => ("-", seconds.unsigned_abs() - 1, 1_000_000_000 - n),
    };
    let text = format!("{sign}{whole}.{fraction:09}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Reads a time exactly to the nanosecond, which a floating point number could not hold.
pub fn read_mtime(text: &str) -> Option<(i64, u32)> {
    let (negative, digits) = text.trim().strip_prefix('-').map_or((false, text.trim()), |rest| (true, rest));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !is_digits(whole) || !is_digits(fraction) {
        return None;
    }
    let seconds: i64 = whole.parse().ok()?;
    let nanoseconds: u32 = format!("{fraction:0<9}").get(..9)?.parse().ok()?;
    Some(match (negative, nanoseconds) {
        (false, n) => (seconds, n),
        (true, 0) => (-seconds, 0),
        (true, n) => (-seconds - 1, 1_000_000_000 - n),
    })
}

/// Reads a mode: octal as Seqferry and rclone write it, or decimal as s3fs does. A decimal mode has five digits, no
/// leading 0, and a known type of file.
fn read_mode(text: &str) -> Option<u32> {
    let text = text.trim();
    let known = |mode: &u32| {
        let file =
            matches!(FileType::from_raw_mode(*mode), FileType::RegularFile | FileType::Symlink | FileType::Directory);
        *mode <= 0o7777 || (file && mode >> 16 == 0)
    };
    let octal = || u32::from_str_radix(text, 8).ok().filter(known);
    let decimal = || text.parse().ok().filter(known);
    if text.len() == 5 && !text.starts_with('0') { decimal().or_else(octal) } else { octal() }
}

pub(super) fn timespec((seconds, nanoseconds): (i64, u32)) -> Timespec {
    Timespec { tv_sec: seconds, tv_nsec: nanoseconds.into() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn times_are_written_as_rclone_does() {
        assert_eq!(mtime_text(1_600_000_000, 123_456_789), "1600000000.123456789");
        assert_eq!(mtime_text(1_600_000_000, 500_000_000), "1600000000.5");
        assert_eq!(mtime_text(1_600_000_000, 0), "1600000000");
        assert_eq!(mtime_text(0, 0), "0");
        assert_eq!(mtime_text(-1, 750_000_000), "-0.25");
    }

    #[test]
    fn times_that_are_none_are_ignored() {
        for text in ["", "-", ".", ".5", "yesterday", "1e9", "1.2.3", "99999999999999999999", "+5"] {
            assert_eq!(read_mtime(text), None, "{text}");
        }
        assert_eq!(read_mtime("1600000000.1234567891"), Some((1_600_000_000, 123_456_789)));
    }

    #[test]
    fn modes_are_read_as_either_tool_writes_them() {
        assert_eq!(read_mode("0100644"), Some(0o100_644));
        assert_eq!(read_mode("100664"), Some(0o100_664));
        assert_eq!(read_mode("33188"), Some(0o100_644));
        assert_eq!(read_mode("33133"), Some(0o100_555));
        assert_eq!(read_mode("41471"), Some(0o120_777));
        assert_eq!(read_mode("16877"), Some(0o040_755));
        assert_eq!(read_mode("40755"), Some(0o040_755));
        assert_eq!(read_mode("0644"), Some(0o644));
        for text in ["", "rw-r--r--", "-1", "99999999"] {
            assert_eq!(read_mode(text), None, "{text}");
        }
    }

    #[test]
    fn nobody_gets_more_rights_than_permissions() {
        let attributes =
            Attributes { metadata: BTreeMap::from([(MODE.to_owned(), "0106777".to_owned())]), ..Attributes::default() };
        assert_eq!(FileAttributes::of(&attributes).permissions, Some(0o777));
    }

    proptest! {
        #[test]
        fn a_time_that_was_written_is_read_back(seconds in -10_000_000_000_i64..10_000_000_000, nanoseconds in 0..1_000_000_000_u32) {
            prop_assert_eq!(read_mtime(&mtime_text(seconds, nanoseconds)), Some((seconds, nanoseconds)));
        }
    }
}
