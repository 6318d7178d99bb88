//! The format of a side file: a checksummed header, then one record per segment of 64 blocks.
//!
//! | bytes | header |
//! |---|---|
//! | 0..8 | magic `SQFCACHE` |
//! | 8..12, 12..16 | format version, length of the header |
//! | 16..20, 20..24 | block size, kind of the pin (1 `ETag`, 2 version id) |
//! | 24..32, 32..40 | size of the object, id of the data file |
//! | 40.. | endpoint, bucket, key and pin, each after its length (4 bytes) |
//! | last 4 | CRC-32C of the bytes before |
//!
//! A record has 528 bytes: the eviction state of the segment (16 bytes, a hint that may be wrong), and 8 bytes per
//! block: its CRC-32C and a check value over header, block number and CRC. Zeros mean that the block is absent. Numbers
//! are little-endian. An entry with a wrong check value counts as absent. An entry counts only with data that has its
//! CRC.

use std::sync::Arc;

use crate::crc::crc32c;
use crate::version::{BLOCK_SIZE, ObjectVersion, VersionPin, block_count, block_length};

pub(super) const FORMAT: u32 = 1;
const MAGIC: [u8; 8] = *b"SQFCACHE";
const FIXED: usize = 40;
const ETAG: u32 = 1;
const VERSION_ID: u32 = 2;
/// Longest header. Keys have up to 1,024 bytes, bucket and endpoint some hundred.
pub(super) const HEADER_LIMIT: usize = 16 << 10;
/// Blocks of a segment: 8 MiB are evicted and punched in one step.
pub(super) const SEGMENT_BLOCKS: u64 = 64;
pub(super) const STATE_LEN: usize = 16;
pub(super) const ENTRY_LEN: usize = 8;
#[expect(clippy::cast_possible_truncation, reason = "64 blocks")]
pub(super) const RECORD_LEN: usize = STATE_LEN + SEGMENT_BLOCKS as usize * ENTRY_LEN;

/// Header of a side file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SideFileHeader {
    pub(super) object: ObjectVersion,
    /// Names the data file, so that a new side file never adopts the data of a removed one.
    pub(super) data_id: u64,
}

impl SideFileHeader {
    /// The bytes of the header; None when they are more than [`HEADER_LIMIT`].
    pub(super) fn encode(&self) -> Option<Vec<u8>> {
        let (kind, pin) = match &self.object.pin {
            VersionPin::Etag(etag) => (ETAG, etag),
            VersionPin::VersionId(id) => (VERSION_ID, id),
        };
        let texts = [&self.object.endpoint, &self.object.bucket, &self.object.key, pin];
        let len = (FIXED + texts.iter().map(|text| 4 + text.len()).sum::<usize>() + 4).next_multiple_of(8);
        if len > HEADER_LIMIT {
            return None;
        }
        let mut bytes = Vec::with_capacity(len);
        bytes.extend(MAGIC);
        bytes.extend(FORMAT.to_le_bytes());
        bytes.extend(u32::try_from(len).ok()?.to_le_bytes());
        bytes.extend(u32::try_from(BLOCK_SIZE).ok()?.to_le_bytes());
        bytes.extend(kind.to_le_bytes());
        bytes.extend(self.object.size.to_le_bytes());
        bytes.extend(self.data_id.to_le_bytes());
        for text in texts {
            bytes.extend(u32::try_from(text.len()).ok()?.to_le_bytes());
            bytes.extend(text.bytes());
        }
        bytes.resize(len - 4, 0);
        bytes.extend(crc32c(&bytes).to_le_bytes());
        Some(bytes)
    }

    /// The header at the start of these bytes, with its length and CRC. None when it is damaged or of another format.
    pub(super) fn decode(bytes: &[u8]) -> Option<(Self, SideFileLayout)> {
        let len = usize::try_from(number32(bytes, 12)?).ok()?;
        let known = bytes.get(..8)? == MAGIC && number32(bytes, 8)? == FORMAT;
        if !known || !(FIXED + 4..=HEADER_LIMIT).contains(&len) || bytes.len() < len {
            return None;
        }
        let crc = number32(bytes, len - 4)?;
        if crc != crc32c(&bytes[..len - 4]) || u64::from(number32(bytes, 16)?) != BLOCK_SIZE {
            return None;
        }
        let mut rest = &bytes[FIXED..len - 4];
        let mut text = || {
            let len = usize::try_from(number32(rest, 0)?).ok()?;
            let text = std::str::from_utf8(rest.get(4..)?.get(..len)?).ok()?;
            rest = &rest[4 + len..];
            Some(Arc::<str>::from(text))
        };
        let (endpoint, bucket, key, pin) = (text()?, text()?, text()?, text()?);
        let pin = match number32(bytes, 20)? {
            ETAG => VersionPin::Etag(pin),
            VERSION_ID => VersionPin::VersionId(pin),
            _ => return None,
        };
        let object = ObjectVersion { endpoint, bucket, key, pin, size: number64(bytes, 24)? };
        let layout = SideFileLayout { header_len: len as u64, seed: crc, size: object.size };
        Some((Self { object, data_id: number64(bytes, 32)? }, layout))
    }
}

fn number32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn number64(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// Places in a side file and its data file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SideFileLayout {
    pub(super) header_len: u64,
    /// CRC of the header: ties entries to this object.
    pub(super) seed: u32,
    /// Bytes of the object.
    pub(super) size: u64,
}

impl SideFileLayout {
    pub(super) fn blocks(self) -> u64 {
        block_count(self.size)
    }

    pub(super) fn segments(self) -> u64 {
        self.blocks().div_ceil(SEGMENT_BLOCKS)
    }

    /// Bytes of a block: the last one may be shorter.
    pub(super) fn block_len(self, block: u64) -> usize {
        block_length(self.size, block)
    }

    /// Offset of the record of a segment in the side file.
    pub(super) fn record(self, segment: u64) -> u64 {
        self.header_len + segment * RECORD_LEN as u64
    }

    /// Offset of the entry of a block in the side file.
    pub(super) fn entry(self, block: u64) -> u64 {
        let within = (block % SEGMENT_BLOCKS) * ENTRY_LEN as u64;
        self.record(block / SEGMENT_BLOCKS) + STATE_LEN as u64 + within
    }

    /// The segment whose record covers this offset of the side file.
    pub(super) fn segment_at(self, offset: u64) -> u64 {
        offset.saturating_sub(self.header_len) / RECORD_LEN as u64
    }

    /// The entry of a block that has this CRC.
    pub(super) fn encode_entry(self, block: u64, crc: u32) -> [u8; ENTRY_LEN] {
        let mut entry = [0; ENTRY_LEN];
        entry[..4].copy_from_slice(&crc.to_le_bytes());
        entry[4..].copy_from_slice(&self.check(block, crc).to_le_bytes());
        entry
    }

    /// The CRC that the entry of a block states; None for an absent or damaged one.
    pub(super) fn decode_entry(self, block: u64, entry: &[u8]) -> Option<u32> {
        let crc = number32(entry, 0)?;
        (number32(entry, 4)? == self.check(block, crc)).then_some(crc)
    }

    /// Never zero, so that zeros are no entry.
    fn check(self, block: u64, crc: u32) -> u32 {
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&self.seed.to_le_bytes());
        bytes[4..12].copy_from_slice(&block.to_le_bytes());
        bytes[12..].copy_from_slice(&crc.to_le_bytes());
        crc32c(&bytes) | 1
    }
}

/// Queue of a segment in the eviction order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum EvictionQueue {
    /// Filled once and not read again: the first to go.
    #[default]
    Small,
    /// Read again since it was filled.
    Main,
}

/// Eviction state of a segment. A hint: any value is safe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct SegmentState {
    /// Milliseconds since 1970 at the last insertion into a queue, 48 bits.
    pub(super) inserted: u64,
    pub(super) queue: EvictionQueue,
    /// Repeated reads since the insertion, at most [`MOST_REREADS`].
    pub(super) rereads: u8,
    /// Blocks that were filled or read since the last repeated read, one bit each.
    pub(super) touched: u64,
}

/// Largest count of repeated reads: a counter of two bits is enough, as in S3-FIFO.
pub(super) const MOST_REREADS: u8 = 3;

impl SegmentState {
    pub(super) fn encode(self) -> [u8; STATE_LEN] {
        let mut bytes = [0; STATE_LEN];
        bytes[..6].copy_from_slice(&self.inserted.to_le_bytes()[..6]);
        bytes[6] = u8::from(self.queue == EvictionQueue::Main);
        bytes[7] = self.rereads;
        bytes[8..].copy_from_slice(&self.touched.to_le_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Self {
        Self {
            inserted: number64(bytes, 0).unwrap_or_default() & 0xffff_ffff_ffff,
            queue: if bytes.get(6) == Some(&1) { EvictionQueue::Main } else { EvictionQueue::Small },
            rereads: bytes.get(7).copied().unwrap_or_default().min(MOST_REREADS),
            touched: number64(bytes, 8).unwrap_or_default(),
        }
    }

    /// Take note of a read of these blocks (a bit mask). One pass over a segment is no repeated read, a second one is.
    pub(super) fn touch(&mut self, blocks: u64) {
        if self.touched & blocks != 0 {
            self.rereads = (self.rereads + 1).min(MOST_REREADS);
            self.touched = blocks;
        } else {
            self.touched |= blocks;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> SideFileHeader {
        let object = ObjectVersion {
            endpoint: "https://s3.example.com".into(),
            bucket: "b".into(),
            key: "ref/genom\u{e9}.fa".into(),
            pin: VersionPin::Etag("abc-2".into()),
            size: 3 * BLOCK_SIZE + 5,
        };
        SideFileHeader { object, data_id: 7 }
    }

    #[test]
    fn a_header_is_read_back_as_it_was_written() {
        let bytes = header().encode().unwrap();

        let (read, layout) = SideFileHeader::decode(&bytes).unwrap();

        assert_eq!(read, header());
        assert_eq!(layout.header_len, bytes.len() as u64);
        assert_eq!((layout.blocks(), layout.block_len(2), layout.block_len(3)), (4, 128 << 10, 5));
    }

    #[test]
    fn a_header_with_any_flipped_bit_is_refused() {
        let bytes = header().encode().unwrap();
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1 << bit;
                assert_eq!(SideFileHeader::decode(&damaged), None, "byte {at}, bit {bit}");
            }
        }
    }

    #[test]
    fn an_entry_counts_for_its_block_and_its_object_only() {
        let (_, layout) = SideFileHeader::decode(&header().encode().unwrap()).unwrap();
        let entry = layout.encode_entry(2, 99);

        assert_eq!(layout.decode_entry(2, &entry), Some(99));
        assert_eq!(layout.decode_entry(3, &entry), None);
        assert_eq!(SideFileLayout { seed: layout.seed ^ 1, ..layout }.decode_entry(2, &entry), None);
        assert_eq!(layout.decode_entry(2, &[0; ENTRY_LEN]), None);
        for bit in 0..64 {
            let mut damaged = entry;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(layout.decode_entry(2, &damaged), None, "bit {bit}");
        }
    }

    #[test]
    fn one_pass_over_a_segment_is_no_repeated_read() {
        let mut state = SegmentState::default();
        for block in 0..64 {
            state.touch(1 << block);
        }
        assert_eq!(state.rereads, 0);
        for block in 0..64 {
            state.touch(1 << block);
        }
        assert_eq!(state.rereads, 1);
        assert_eq!(SegmentState::decode(&state.encode()), state);
    }
}
