//! Segments that were evicted after one use, or passed by in a stream: seen again, they are worth keeping.
//!
//! One table of 65,536 tags in a file, shared by all processes without locks: the place follows from the tag, newer
//! tags replace older ones. A wrong or lost tag costs a worse choice of what is kept and nothing else.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use super::folder::{CacheFolder, FileName, shared_file};
use super::side_file::SEGMENT_BLOCKS;

/// Tags in the table: with segments of 8 MiB, a history of 512 GiB in 512 KiB.
const PLACES: u64 = 1 << 16;

#[derive(Debug)]
pub(super) struct Ghosts {
    file: File,
}

impl Ghosts {
    pub(super) fn open(folder: &CacheFolder) -> io::Result<Self> {
        Ok(Self { file: shared_file(&folder.file("ghosts"))? })
    }

    /// Remember a segment that was evicted.
    pub(super) fn remember(&self, name: FileName, segment: u64) -> io::Result<()> {
        self.write(tag(name, segment) | SEEN)
    }

    /// Returns true when the segment of this block was evicted, or passed by in an earlier pass.
    pub(super) fn contains(&self, name: FileName, block: u64) -> bool {
        let tag = tag(name, block / SEGMENT_BLOCKS);
        let found = self.read(tag);
        if found == tag | (block % SEGMENT_BLOCKS) {
            // The pass that remembered it has begun again: what follows of the segment counts as seen.
            let _ = self.write(tag | SEEN);
            return true;
        }
        found == tag | SEEN
    }

    /// Returns true when the segment of this block, or the one before, was evicted or passed by, even in part.
    pub(super) fn has_any(&self, name: FileName, block: u64) -> bool {
        let segment = block / SEGMENT_BLOCKS;
        (segment.saturating_sub(1)..=segment).any(|segment| {
            let tag = tag(name, segment);
            self.read(tag) & !STATE == tag
        })
    }

    /// Remember the segment of a block that is passed by. The first block of the pass stands for it.
    pub(super) fn remember_bypassed(&self, name: FileName, block: u64) -> io::Result<()> {
        let tag = tag(name, block / SEGMENT_BLOCKS);
        if self.read(tag) & !STATE == tag { Ok(()) } else { self.write(tag | (block % SEGMENT_BLOCKS)) }
    }

    fn read(&self, tag: u64) -> u64 {
        let mut found = [0; 8];
        if self.file.read_exact_at(&mut found, place(tag)).is_ok() { u64::from_le_bytes(found) } else { 0 }
    }

    fn write(&self, tag: u64) -> io::Result<()> {
        self.file.write_all_at(&tag.to_le_bytes(), place(tag))
    }
}

/// Low bits of a tag: the block that a pass remembered, or [`SEEN`].
const STATE: u64 = 0x7f;
/// The whole segment was seen.
const SEEN: u64 = 0x40;

fn place(tag: u64) -> u64 {
    (tag >> 8) % PLACES * 8
}

/// Never zero, with zeros for the state: zeros are empty places.
fn tag(name: FileName, segment: u64) -> u64 {
    let FileName(bytes) = name;
    let first = u64::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], bytes[5], bytes[6], bytes[7]]);
    // Multiplication by an odd number spreads neighbouring segments over the table.
    let mixed = (first ^ (segment.wrapping_add(1)).wrapping_mul(0x9e37_79b9_7f4a_7c15)).rotate_left(31);
    (mixed | 1 << 63) & !STATE
}
