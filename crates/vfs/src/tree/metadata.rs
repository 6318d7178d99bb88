//! Times, permissions and owners that tools store in the metadata of objects.

use std::collections::BTreeMap;

use seqferry_store::{MTIME, read_mtime};

/// File attributes from the metadata of an object. Unreadable values are left out.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct StoredMetadata {
    /// Seconds since the epoch.
    pub modified: Option<f64>,
    /// Permission bits.
    pub permissions: Option<u16>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// True when the mode is that of a symbolic link: the bytes of the object are its target.
    pub is_link: bool,
}

/// The file type of a symbolic link in a mode, and the bits of all types.
const LINK: u32 = 0o120_000;
const TYPES: u32 = 0o170_000;

impl StoredMetadata {
    /// Read the metadata of Seqferry's own uploads and of rclone (`mtime`, `mode`), s3fs and goofys (`mtime`, `mode`,
    /// `uid`, `gid`) and AWS File Gateway (`file-mtime`, `file-permissions`, `file-owner`, `file-group`). Names are in
    /// lower case.
    pub fn of(metadata: &BTreeMap<String, String>) -> Self {
        let text = |name: &str| metadata.get(name).map(|text| text.trim());
        let number = |names: [&str; 2]| names.iter().find_map(|name| text(name)?.parse().ok());
        let mode = text("mode").and_then(mode);
        Self {
            is_link: mode.is_some_and(|mode| mode & TYPES == LINK),
            modified: text(MTIME).and_then(seconds).or_else(|| text("file-mtime").and_then(nanoseconds)),
            permissions: mode
                .or_else(|| text("file-permissions").and_then(|octal| u32::from_str_radix(octal, 8).ok()))
                .and_then(|mode| u16::try_from(mode & 0o7777).ok()),
            uid: number(["uid", "file-owner"]),
            gid: number(["gid", "file-group"]),
        }
    }
}

fn seconds(text: &str) -> Option<f64> {
    let (seconds, nanoseconds) = read_mtime(text)?;
    Some(seconds as f64 + f64::from(nanoseconds) / 1e9)
}

/// The gateway writes nanoseconds with their unit.
fn nanoseconds(text: &str) -> Option<f64> {
    text.strip_suffix("ns")?.parse::<i64>().ok().map(|count| count as f64 / 1e9)
}

/// Octal with a leading 0, else decimal.
fn mode(text: &str) -> Option<u32> {
    match text.strip_prefix('0') {
        Some(octal) if !octal.is_empty() => u32::from_str_radix(octal, 8).ok(),
        _ => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> StoredMetadata {
        StoredMetadata::of(&pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    #[test]
    fn the_dialects_of_known_tools_are_read() {
        let rclone = read(&[("mtime", "1600000000.5")]);
        assert_eq!(rclone, StoredMetadata { modified: Some(1_600_000_000.5), ..StoredMetadata::default() });

        let s3fs = read(&[("mtime", "1600000000"), ("mode", "33188"), ("uid", "1000"), ("gid", "100")]);
        let whole = StoredMetadata {
            modified: Some(1.6e9),
            permissions: Some(0o644),
            uid: Some(1000),
            gid: Some(100),
            is_link: false,
        };
        assert!(read(&[("mode", "41471")]).is_link && read(&[("mode", "0120777")]).is_link);
        assert_eq!(s3fs, whole);

        let ours = read(&[("mtime", "1600000000"), ("mode", "0100755")]);
        assert_eq!(ours.permissions, Some(0o755));

        let gateway = read(&[
            ("file-mtime", "1600000000000000000ns"),
            ("file-permissions", "0644"),
            ("file-owner", "1000"),
            ("file-group", "100"),
        ]);
        assert_eq!(gateway, whole);
    }

    #[test]
    fn what_cannot_be_read_is_left_out() {
        for bad in ["", "x", "-", "1e9", "9999999999999999999999"] {
            let names = ["mtime", "mode", "uid", "gid", "file-mtime", "file-permissions", "file-owner", "file-group"];
            assert_eq!(read(&names.map(|name| (name, bad))), StoredMetadata::default(), "{bad:?}");
        }
    }
}
