//! The record of an upload: the parts that are whole.
//!
//! The record is a text file beside the upload's bytes. Lines are only appended, each by one write, and each ends in a
//! checksum of itself. A line that is not whole is ignored, so a record that was cut off by a crash says less, never
//! something wrong.
//!
//! ```text
//! upload 1 <part size> <size> <begun> <crc64 wanted: 0|1> <mtime|-> <permissions|-> <name, percent-encoded>
//! part <number> <length> <crc64nvme> <boot>   its bytes were handed to the operating system
//! safe <number> <length> <crc64nvme>          its bytes are on the disk itself
//! drop <number>                               this part is about to be rewritten
//! done <etag> <crc64nvme>                     the file is complete and about to get its name
//! broken                                      bytes were lost: nothing above holds
//! ```
//!
//! **Invariant**: a part that is read from a record is intact. Bytes handed to the operating system outlive the
//! process, but outlive the machine only when they were synced. So `part` holds until the machine is restarted (it
//! names the boot id), `safe` permanently. This costs one sync for many parts instead of one for each. A `drop` is on
//! the disk before the bytes that it announces.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use super::facts::FileAttributes;

/// Parameters of an upload, from its start.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct OpenUpload {
    /// Name of the file to be.
    pub(super) name: String,
    /// Bytes of each part but the last; 0 for an upload of one part.
    pub(super) part_size: u64,
    /// Bytes of the file to be; 0 when unknown.
    pub(super) size: u64,
    /// Seconds since the epoch.
    pub(super) at: f64,
    /// True when parts are answered with their CRC64NVME; false when another algorithm was requested.
    pub(super) crc64: bool,
    pub(super) wanted: FileAttributes,
}

/// A whole part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) size: u64,
    pub(super) crc64: u64,
}

/// A record as read.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct DiskUploadRecord {
    pub(super) begun: OpenUpload,
    /// Parts that are intact.
    pub(super) parts: BTreeMap<u32, Part>,
    /// `ETag` and CRC64NVME of the finished file.
    pub(super) done: Option<(String, u64)>,
    pub(super) broken: bool,
    /// True when the last line was cut off: the next one must begin on a new line.
    pub(super) torn: bool,
}

/// One line.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum RecordLine {
    Upload(OpenUpload),
    Part(u32, Part, String),
    Safe(u32, Part),
    Drop(u32),
    Done(String, u64),
    Broken,
}

impl RecordLine {
    pub(super) fn text(&self) -> String {
        let mut text = match self {
            Self::Upload(begun) => {
                let mtime = begun.wanted.mtime.map_or("-".to_owned(), |(s, n)| format!("{s},{n}"));
                let permissions = begun.wanted.permissions.map_or("-".to_owned(), |mode| format!("{mode:o}"));
                format!(
                    "upload 1 {} {} {} {} {mtime} {permissions} {}",
                    begun.part_size,
                    begun.size,
                    begun.at,
                    u8::from(begun.crc64),
                    utf8_percent_encode(&begun.name, NON_ALPHANUMERIC)
                )
            }
            Self::Part(number, part, boot) => format!("part {number} {} {:016x} {boot}", part.size, part.crc64),
            Self::Safe(number, part) => format!("safe {number} {} {:016x}", part.size, part.crc64),
            Self::Drop(number) => format!("drop {number}"),
            Self::Done(etag, crc64) => format!("done {etag} {crc64:016x}"),
            Self::Broken => "broken".to_owned(),
        };
        let sum = sum(&text);
        // Writing to a text cannot fail.
        let _ = writeln!(text, " {sum:08x}");
        text
    }

    fn read(line: &str) -> Option<Self> {
        let (text, written) = line.rsplit_once(' ')?;
        if u32::from_str_radix(written, 16).ok()? != sum(text) {
            return None;
        }
        let part = |size: &str, crc64: &str| {
            Some(Part { size: size.parse().ok()?, crc64: u64::from_str_radix(crc64, 16).ok()? })
        };
        let words: Vec<&str> = text.split(' ').collect();
        Some(match *words.as_slice() {
            ["upload", "1", part_size, size, at, crc64, mtime, permissions, name] => {
                let mtime = match mtime {
                    "-" => None,
                    text => {
                        let (seconds, nanoseconds) = text.split_once(',')?;
                        Some((seconds.parse().ok()?, nanoseconds.parse().ok()?))
                    }
                };
                let permissions = match permissions {
                    "-" => None,
                    text => Some(u32::from_str_radix(text, 8).ok()?),
                };
                Self::Upload(OpenUpload {
                    name: percent_decode_str(name).decode_utf8().ok()?.into_owned(),
                    part_size: part_size.parse().ok()?,
                    size: size.parse().ok()?,
                    at: at.parse().ok()?,
                    crc64: crc64 == "1",
                    wanted: FileAttributes { mtime, permissions, kind: None },
                })
            }
            ["part", number, size, crc64, boot] => {
                Self::Part(number.parse().ok()?, part(size, crc64)?, boot.to_owned())
            }
            ["safe", number, size, crc64] => Self::Safe(number.parse().ok()?, part(size, crc64)?),
            ["drop", number] => Self::Drop(number.parse().ok()?),
            ["done", etag, crc64] => Self::Done(etag.to_owned(), u64::from_str_radix(crc64, 16).ok()?),
            ["broken"] => Self::Broken,
            _ => return None,
        })
    }
}

fn sum(text: &str) -> u32 {
    // The value of a 32-bit algorithm fits.
    u32::try_from(crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, text.as_bytes())).unwrap_or(0)
}

/// Read a record. None: its first line is not whole. `boot` is the machine's present boot id, if known.
pub(super) fn read(bytes: &[u8], boot: Option<&str>) -> Option<DiskUploadRecord> {
    let mut lines = bytes
        .split_inclusive(|byte| *byte == b'\n')
        .map(|line| line.strip_suffix(b"\n").and_then(|line| RecordLine::read(std::str::from_utf8(line).ok()?)));
    let Some(Some(RecordLine::Upload(begun))) = lines.next() else { return None };
    let torn = !bytes.ends_with(b"\n");
    let mut record = DiskUploadRecord { begun, parts: BTreeMap::new(), done: None, broken: false, torn };
    for line in lines.flatten() {
        match line {
            RecordLine::Safe(number, part) => {
                record.parts.insert(number, part);
            }
            RecordLine::Part(number, part, then) if boot == Some(then.as_str()) => {
                record.parts.insert(number, part);
            }
            // A part that is no longer valid still replaces the one before it, whose bytes were overwritten.
            RecordLine::Part(number, ..) | RecordLine::Drop(number) => {
                record.parts.remove(&number);
            }
            RecordLine::Done(etag, crc64) => record.done = Some((etag, crc64)),
            RecordLine::Broken => record.broken = true,
            RecordLine::Upload(_) => {}
        }
    }
    Some(record)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn begun() -> OpenUpload {
        OpenUpload {
            name: "a b%\n\u{e9}".to_owned(),
            part_size: 8,
            size: 20,
            at: 1_600_000_000.25,
            crc64: true,
            wanted: FileAttributes { mtime: Some((-5, 7)), permissions: Some(0o640), kind: None },
        }
    }

    fn text(lines: &[RecordLine]) -> Vec<u8> {
        lines.iter().map(RecordLine::text).collect::<String>().into_bytes()
    }

    fn part(size: u64) -> Part {
        Part { size, crc64: size * 3 }
    }

    fn written(number: u32, size: u64) -> RecordLine {
        RecordLine::Part(number, part(size), "one".to_owned())
    }

    #[test]
    fn parts_hold_while_the_machine_runs_and_later_when_synced() {
        let lines = [
            RecordLine::Upload(begun()),
            written(1, 8),
            written(2, 8),
            RecordLine::Safe(1, part(8)),
            RecordLine::Safe(2, part(8)),
            written(3, 4),
        ];

        let same = read(&text(&lines), Some("one")).unwrap();
        assert_eq!((same.begun.clone(), same.parts.len()), (begun(), 3));
        for boot in [Some("two"), None] {
            assert_eq!(read(&text(&lines), boot).unwrap().parts.into_keys().collect::<Vec<_>>(), [1, 2], "{boot:?}");
        }
    }

    #[test]
    fn a_part_written_anew_counts_only_by_its_last_line() {
        let mut lines =
            vec![RecordLine::Upload(begun()), written(1, 8), RecordLine::Safe(1, part(8)), RecordLine::Drop(1)];
        assert!(read(&text(&lines), Some("one")).unwrap().parts.is_empty());

        lines.push(written(1, 7));
        assert_eq!(read(&text(&lines), Some("one")).unwrap().parts, BTreeMap::from([(1, part(7))]));
        // After a power cut neither the first bytes nor the second are known to be there.
        assert!(read(&text(&lines), Some("two")).unwrap().parts.is_empty());
    }

    proptest! {
        #[test]
        fn a_record_that_is_cut_or_spoilt_says_less_but_nothing_wrong(
            count in 1..20_u32,
            at in any::<proptest::sample::Index>(),
            flip in proptest::option::of((any::<proptest::sample::Index>(), 0..8_u32)),
        ) {
            let mut lines = vec![RecordLine::Upload(begun())];
            lines.extend((1..=count).map(|n| written(n, u64::from(n))));
            let mut bytes = text(&lines);
            bytes.truncate(at.index(bytes.len() + 1));
            if let Some((flip, bit)) = flip.filter(|_| !bytes.is_empty()) {
                let at = flip.index(bytes.len());
                bytes[at] ^= 1 << bit;
            }
            let Some(record) = read(&bytes, Some("one")) else { return Ok(()) };
            prop_assert_eq!(&record.begun, &begun());
            for (number, found) in &record.parts {
                prop_assert_eq!(*found, part(u64::from(*number)));
            }
            // A line of 20 bytes and more is lost by the cut, and two at most by the flip of a bit.
            let whole = bytes.split(|byte| *byte == b'\n').count() - 1;
            prop_assert!(record.parts.len() + 3 >= whole, "{} of {whole}", record.parts.len());
        }
    }
}
