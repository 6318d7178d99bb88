//! The bytes of a journal's files: a header, then frames of records.
//!
//! A frame is what one group commit wrote. The next frame is written after it was synced: a damaged frame at the end
//! was never acknowledged, and a damaged one before a sound frame was.

use std::io;

use crc_fast::{CrcAlgorithm, Digest};

use super::disk::Disk;

/// Format that this program writes and reads.
pub(super) const VERSION: u32 = 1;
/// Begins each file of a journal.
const NAME: &[u8; 16] = b"SEQFERRY-JOURNAL";
/// Bytes of a header: name, version, kind, segment, first record, salt, CRC.
pub(super) const HEADER: usize = 52;
/// Begins each frame.
const MARK: [u8; 4] = *b"\xf5JF1";
/// Bytes before the records of a frame: mark, length, first record, count, salt, CRC.
pub(super) const FRAME: usize = 32;
/// Records of one frame, in bytes: this much is read into memory at a time.
pub(super) const LARGEST_FRAME: usize = 16 << 20;
/// Bytes before a record: its length.
pub(super) const RECORD: usize = 4;

/// Contents of a file of a journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JournalFileKind {
    /// Records in the order in which they came.
    Log,
    /// Records that stand for all those before a segment.
    Checkpoint,
}

/// Facts at the beginning of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct JournalFileHeader {
    pub(super) kind: JournalFileKind,
    pub(super) segment: u64,
    /// Number of the first record of the segment.
    pub(super) first: u64,
    /// Number of this file alone: bytes of other files are no frames of it.
    pub(super) salt: u64,
}

/// A header that cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum BadHeader {
    /// Of another version of this program.
    Version(u32),
    Damaged,
}

fn crc(pieces: &[&[u8]]) -> u32 {
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    for piece in pieces {
        digest.update(piece);
    }
    u32::try_from(digest.finalize() & 0xffff_ffff).unwrap_or_default()
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4].iter().rev().fold(0, |all, byte| all << 8 | u32::from(*byte))
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from(word(bytes, at + 4)) << 32 | u64::from(word(bytes, at))
}

impl JournalFileHeader {
    pub(super) fn encode(&self) -> Vec<u8> {
        let kind = u32::from(self.kind == JournalFileKind::Checkpoint);
        let mut bytes = [&NAME[..], &VERSION.to_le_bytes(), &kind.to_le_bytes()].concat();
        for number in [self.segment, self.first, self.salt] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(crc(&[&bytes]).to_le_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, BadHeader> {
        if bytes.len() < HEADER || !bytes.starts_with(NAME) {
            return Err(BadHeader::Damaged);
        }
        // Only the name and the version have a place that never changes.
        let version = word(bytes, 16);
        if version != VERSION {
            return Err(BadHeader::Version(version));
        }
        if crc(&[&bytes[..HEADER - 4]]) != word(bytes, HEADER - 4) {
            return Err(BadHeader::Damaged);
        }
        let kind = match word(bytes, 20) {
            0 => JournalFileKind::Log,
            1 => JournalFileKind::Checkpoint,
            _ => return Err(BadHeader::Damaged),
        };
        Ok(Self { kind, segment: long(bytes, 24), first: long(bytes, 32), salt: long(bytes, 40) })
    }
}

/// Records that are written and synced together, with space for the head before them.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RecordGroup {
    bytes: Vec<u8>,
    pub(super) first: u64,
    pub(super) count: u32,
}

impl RecordGroup {
    pub(super) fn new(first: u64) -> Self {
        Self { bytes: vec![0; FRAME], first, count: 0 }
    }

    /// Bytes of the records and their lengths.
    pub(super) fn len(&self) -> usize {
        self.bytes.len() - FRAME
    }

    pub(super) fn has_room(&self, record: usize) -> bool {
        self.len() + RECORD + record <= LARGEST_FRAME
    }

    pub(super) fn push(&mut self, record: &[u8]) {
        let length = u32::try_from(record.len()).unwrap_or(u32::MAX);
        self.bytes.extend(length.to_le_bytes());
        self.bytes.extend_from_slice(record);
        self.count += 1;
    }

    /// The frame with its head.
    pub(super) fn frame(mut self, salt: u64) -> Vec<u8> {
        let length = u32::try_from(self.len()).unwrap_or(u32::MAX);
        let (head, records) = self.bytes.split_at_mut(FRAME);
        head[..4].copy_from_slice(&MARK);
        head[4..8].copy_from_slice(&length.to_le_bytes());
        head[8..16].copy_from_slice(&self.first.to_le_bytes());
        head[16..20].copy_from_slice(&self.count.to_le_bytes());
        head[20..28].copy_from_slice(&salt.to_le_bytes());
        let sum = crc(&[&head[..28], records]);
        head[28..].copy_from_slice(&sum.to_le_bytes());
        self.bytes
    }
}

/// A frame that was read.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) first: u64,
    pub(super) count: u32,
    pub(super) records: Vec<u8>,
}

impl Frame {
    /// The records one by one. None: their lengths do not fit, which the CRC of a frame rules out.
    pub(super) fn records(&self) -> Option<Vec<&[u8]>> {
        let mut found = Vec::new();
        let mut rest = self.records.as_slice();
        while !rest.is_empty() {
            let length = usize::try_from(word(rest.get(..RECORD)?, 0)).ok()?;
            found.push(rest.get(RECORD..RECORD + length)?);
            rest = &rest[RECORD + length..];
        }
        (found.len() as u64 == u64::from(self.count)).then_some(found)
    }
}

/// The frame at an offset, or None where there is no sound one. At most [`LARGEST_FRAME`] bytes of memory.
pub(super) fn read_frame<D: Disk>(
    disk: &D,
    file: &D::File,
    offset: u64,
    length: u64,
    salt: u64,
) -> io::Result<Option<Frame>> {
    let mut head = [0; FRAME];
    if length.saturating_sub(offset) < FRAME as u64 {
        return Ok(None);
    }
    disk.read_at(file, offset, &mut head)?;
    let size = word(&head, 4);
    let fits = u64::from(size) <= length - offset - FRAME as u64 && size as usize <= LARGEST_FRAME;
    if head[..4] != MARK || long(&head, 20) != salt || !fits {
        return Ok(None);
    }
    let mut records = vec![0; size as usize];
    disk.read_at(file, offset + FRAME as u64, &mut records)?;
    let is_sound = crc(&[&head[..28], &records]) == word(&head, 28);
    Ok(is_sound.then(|| Frame { first: long(&head, 8), count: word(&head, 16), records }))
}

/// Looks for a sound frame behind an offset. Where there is one, the damaged bytes before it had been acknowledged.
pub(super) fn is_followed<D: Disk>(disk: &D, file: &D::File, offset: u64, length: u64, salt: u64) -> io::Result<bool> {
    /// Bytes that are searched at a time.
    const WINDOW: u64 = 1 << 20;
    let mut start = offset + 1;
    while start + FRAME as u64 <= length {
        let end = length.min(start + WINDOW + FRAME as u64);
        let mut bytes = vec![0; usize::try_from(end - start).unwrap_or(0)];
        disk.read_at(file, start, &mut bytes)?;
        for at in 0..=bytes.len() - FRAME {
            let is_head = bytes[at..at + 4] == MARK && long(&bytes, at + 20) == salt;
            if is_head && read_frame(disk, file, start + at as u64, length, salt)?.is_some() {
                return Ok(true);
            }
        }
        start += (bytes.len() - FRAME + 1) as u64;
    }
    Ok(false)
}
