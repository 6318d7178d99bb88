//! Times, permissions and owners of files that tools keep in the metadata of objects.
//!
//! Two dialects are read and written. That of s3fs and rclone: `mtime` in seconds with a fraction, `mode` in octal
//! digits with a leading 0, which rclone reads as octal and s3fs by the rules of C, `uid` and `gid`. That of AWS File
//! Gateway, `DataSync` and `FSx`: `file-mtime` in nanoseconds with the suffix `ns`, or in milliseconds without one;
//! `file-permissions` in octal digits; `file-owner` and `file-group`. Where an object has both, the first one counts.

use std::collections::BTreeMap;

/// Metadata key of the time of the last change.
pub const MTIME: &str = "mtime";
const MODE: &str = "mode";
const UID: &str = "uid";
const GID: &str = "gid";
const FILE_MTIME: &str = "file-mtime";
const FILE_PERMISSIONS: &str = "file-permissions";
const FILE_OWNER: &str = "file-owner";
const FILE_GROUP: &str = "file-group";

/// Types of files in a mode, and the bits of all types.
const TYPES: u32 = 0o170_000;
const REGULAR: u32 = 0o100_000;
const LINK: u32 = 0o120_000;
const DIRECTORY: u32 = 0o040_000;
const PERMISSIONS: u32 = 0o7777;

/// Attributes of a file in the metadata of an object. Values that cannot be read are left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StoredMetadata {
    /// Seconds and nanoseconds since the epoch. Before it, the nanoseconds count upwards from the second before.
    pub modified: Option<(i64, u32)>,
    /// Type and permissions as in `st_mode`, or permissions alone.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
}

impl StoredMetadata {
    /// Read the metadata of an object. Names are in lower case.
    pub fn of(metadata: &BTreeMap<String, String>) -> Self {
        let text = |name: &str| metadata.get(name).map(|text| text.trim());
        let number = |names: [&str; 2]| names.iter().find_map(|name| text(name)?.parse().ok());
        Self {
            modified: text(MTIME).and_then(parse_mtime).or_else(|| text(FILE_MTIME).and_then(read_file_mtime)),
            mode: text(MODE).and_then(read_mode).or_else(|| text(FILE_PERMISSIONS).and_then(read_octal)),
            uid: number([UID, FILE_OWNER]),
            gid: number([GID, FILE_GROUP]),
        }
    }

    /// Write what is known into the metadata of an object, in both dialects. The rest of the metadata stays.
    pub fn write(&self, metadata: &mut BTreeMap<String, String>) {
        let mut set = |name: &str, value: String| drop(metadata.insert(name.to_owned(), value));
        if let Some((seconds, nanoseconds)) = self.modified {
            set(MTIME, format_mtime(seconds, nanoseconds));
            set(FILE_MTIME, file_mtime_text(seconds, nanoseconds));
        }
        if let Some(mode) = self.mode {
            set(MODE, format!("0{mode:o}"));
            set(FILE_PERMISSIONS, format!("0{mode:o}"));
        }
        for (value, names) in [(self.uid, [UID, FILE_OWNER]), (self.gid, [GID, FILE_GROUP])] {
            if let Some(value) = value {
                for name in names {
                    set(name, value.to_string());
                }
            }
        }
    }

    /// The metadata of an object that has no other.
    pub fn to_metadata(self) -> BTreeMap<String, String> {
        let mut metadata = BTreeMap::new();
        self.write(&mut metadata);
        metadata
    }

    /// Permission bits, with setuid, setgid and sticky.
    pub fn permissions(&self) -> Option<u16> {
        self.mode.and_then(|mode| u16::try_from(mode & PERMISSIONS).ok())
    }

    /// Bits of the type of the file, where the mode has them.
    pub fn file_type(&self) -> Option<u32> {
        self.mode.map(|mode| mode & TYPES).filter(|kind| *kind != 0)
    }

    /// Returns true when the mode is that of a symbolic link: the bytes of the object are its target.
    pub fn is_link(&self) -> bool {
        self.file_type() == Some(LINK)
    }
}

/// Formats a time as `seconds.nanoseconds` without trailing zeros, as rclone does.
pub fn format_mtime(seconds: i64, nanoseconds: u32) -> String {
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
pub fn parse_mtime(text: &str) -> Option<(i64, u32)> {
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

/// Nanoseconds with their unit, as AWS File Gateway writes them. 128 bits hold any number of seconds.
fn file_mtime_text(seconds: i64, nanoseconds: u32) -> String {
    format!("{}ns", i128::from(seconds) * 1_000_000_000 + i128::from(nanoseconds))
}

/// Nanoseconds with their unit, or milliseconds without one.
fn read_file_mtime(text: &str) -> Option<(i64, u32)> {
    let count = |text: &str| {
        // A sign before the digits, but no plus.
        let digits = text.strip_prefix('-').unwrap_or(text);
        (!digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())).then(|| text.parse::<i128>().ok())?
    };
    let nanoseconds = match text.strip_suffix("ns") {
        Some(nanoseconds) => count(nanoseconds)?,
        None => count(text)?.checked_mul(1_000_000)?,
    };
    let seconds = i64::try_from(nanoseconds.div_euclid(1_000_000_000)).ok()?;
    Some((seconds, u32::try_from(nanoseconds.rem_euclid(1_000_000_000)).ok()?))
}

/// Permissions alone, or with the type of a file, a link or a folder.
fn is_known_mode(mode: u32) -> bool {
    mode <= PERMISSIONS || (mode >> 16 == 0 && matches!(mode & TYPES, REGULAR | LINK | DIRECTORY))
}

fn read_octal(text: &str) -> Option<u32> {
    u32::from_str_radix(text, 8).ok().filter(|mode| is_known_mode(*mode))
}

/// Reads a mode: octal as Seqferry and rclone write it, or decimal as s3fs does. A decimal mode has five digits, no
/// leading 0, and a known type of file.
fn read_mode(text: &str) -> Option<u32> {
    let decimal = || text.parse().ok().filter(|mode| is_known_mode(*mode));
    if text.len() == 5 && !text.starts_with('0') { decimal().or_else(|| read_octal(text)) } else { read_octal(text) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(pairs: &[(&str, &str)]) -> StoredMetadata {
        StoredMetadata::of(&pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    const WHOLE: StoredMetadata =
        StoredMetadata { modified: Some((1_600_000_000, 0)), mode: Some(0o100_644), uid: Some(1000), gid: Some(100) };

    #[test]
    fn the_dialects_of_known_tools_are_read() {
        let rclone = read(&[("mtime", "1600000000.5")]);
        assert_eq!(rclone, StoredMetadata { modified: Some((1_600_000_000, 500_000_000)), ..Default::default() });

        let s3fs = read(&[("mtime", "1600000000"), ("mode", "33188"), ("uid", "1000"), ("gid", "100")]);
        assert_eq!(s3fs, WHOLE);
        assert!(read(&[("mode", "41471")]).is_link() && read(&[("mode", "0120777")]).is_link());
        assert_eq!(read(&[("mtime", "1600000000"), ("mode", "0100755")]).permissions(), Some(0o755));

        for time in ["1600000000000000000ns", "1600000000000"] {
            let owner = [("file-owner", "1000"), ("file-group", "100")];
            let others = [("file-mtime", time), ("file-permissions", "0100644")];
            assert_eq!(read(&[&owner[..], &others].concat()), WHOLE, "{time}");
        }
        assert_eq!(read(&[("file-permissions", "0644")]).permissions(), Some(0o644));
        assert!(read(&[("file-permissions", "0120777")]).is_link());
        assert_eq!(read(&[("file-mtime", "-1500")]).modified, Some((-2, 500_000_000)));
        assert_eq!(read(&[("file-mtime", "1600000000123456789ns")]).modified, Some((1_600_000_000, 123_456_789)));
    }

    #[test]
    fn the_first_dialect_counts_where_it_can_be_read() {
        let both = [("file-mtime", "5ns"), ("file-permissions", "0600"), ("file-owner", "5"), ("mode", "0100644")];
        let own = [("mtime", "7"), ("uid", "8")];
        let expected = StoredMetadata { modified: Some((7, 0)), mode: Some(0o100_644), uid: Some(8), gid: None };
        assert_eq!(read(&[&both[..], &own].concat()), expected);
        let broken = [("mtime", "soon"), ("mode", "rw"), ("uid", "root")];
        let expected = StoredMetadata { modified: Some((0, 5)), mode: Some(0o600), uid: Some(5), gid: None };
        assert_eq!(read(&[&both[..3], &broken].concat()), expected);
    }

    #[test]
    fn what_cannot_be_read_is_left_out() {
        for bad in ["", "x", "-", "1e9", "9999999999999999999999999999999999999999", "+5", "ns", "-ns", "5 ns", "5.5ms"]
        {
            for name in ["mtime", "mode", "uid", "gid", "file-mtime", "file-permissions", "file-owner", "file-group"] {
                let found = read(&[(name, bad)]);
                // A plus before an owner or an octal number is read by the standard library.
                assert!(found == StoredMetadata::default() || bad == "+5", "{name} {bad:?} {found:?}");
                assert_eq!(found.modified, None, "{name} {bad:?}");
            }
        }
        assert_eq!(
            read(&[("file-mtime", "9223372036854775807999ns")]).modified,
            Some((9_223_372_036_854, 775_807_999))
        );
    }

    #[test]
    fn both_dialects_are_written_and_other_metadata_stay() {
        let mut metadata = BTreeMap::from([("sample".to_owned(), "7".to_owned()), (MTIME.to_owned(), "1".to_owned())]);
        WHOLE.write(&mut metadata);
        let written: Vec<_> = metadata.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(
            written,
            [
                ("file-group", "100"),
                ("file-mtime", "1600000000000000000ns"),
                ("file-owner", "1000"),
                ("file-permissions", "0100644"),
                ("gid", "100"),
                ("mode", "0100644"),
                ("mtime", "1600000000"),
                ("sample", "7"),
                ("uid", "1000"),
            ]
        );
        assert!(StoredMetadata::default().to_metadata().is_empty());
    }

    #[test]
    fn times_are_written_as_rclone_does() {
        assert_eq!(format_mtime(1_600_000_000, 123_456_789), "1600000000.123456789");
        assert_eq!(format_mtime(1_600_000_000, 500_000_000), "1600000000.5");
        assert_eq!(format_mtime(1_600_000_000, 0), "1600000000");
        assert_eq!(format_mtime(0, 0), "0");
        assert_eq!(format_mtime(-1, 750_000_000), "-0.25");
    }

    #[test]
    fn times_that_are_none_are_ignored() {
        for text in ["", "-", ".", ".5", "yesterday", "1e9", "1.2.3", "99999999999999999999", "+5"] {
            assert_eq!(parse_mtime(text), None, "{text}");
        }
        assert_eq!(parse_mtime("1600000000.1234567891"), Some((1_600_000_000, 123_456_789)));
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

    proptest! {
        #[test]
        fn attributes_that_were_written_are_read_back_in_either_dialect(
            seconds in -10_000_000_000_i64..10_000_000_000,
            nanoseconds in 0..1_000_000_000_u32,
            permissions in 0..=0o7777_u32,
            kind in prop::sample::select(vec![REGULAR, LINK, DIRECTORY]),
            (uid, gid) in any::<(u32, u32)>(),
        ) {
            let (modified, mode) = (Some((seconds, nanoseconds)), Some(kind | permissions));
            let stored = StoredMetadata { modified, mode, uid: Some(uid), gid: Some(gid) };
            let metadata = stored.to_metadata();
            let (file, own): (BTreeMap<_, _>, BTreeMap<_, _>) =
                metadata.clone().into_iter().partition(|(name, _)| name.starts_with("file-"));
            for dialect in [metadata, file, own] {
                prop_assert_eq!(StoredMetadata::of(&dialect), stored);
            }
        }
    }
}
