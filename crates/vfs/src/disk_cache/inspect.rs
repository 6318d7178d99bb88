//! Content of a cache: listing, verifying and removing objects, one at a time and in bounded memory.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::time::SystemTime;

use super::evict::{record_bytes, remove_object};
use super::folder::{FileName, SHARDS, SIDE};
use super::object_files::BlockLookup;
use super::records::for_each_record;
use super::side_file::{ENTRY_LEN, SEGMENT_BLOCKS, STATE_LEN};
use super::{DiskCache, NAMES, Prefix, add};
use crate::tree::read_table_header;
use crate::version::ObjectVersion;

/// An object version in the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CachedObject {
    /// The object version.
    pub object: ObjectVersion,
    /// Blocks that the cache has, unverified.
    pub blocks: u64,
    /// Bytes of these blocks.
    pub bytes: u64,
    /// Bytes on the disk, side file included.
    pub disk_bytes: u64,
    /// Last change of the side file: blocks were added, or read for the first times.
    pub last_used: Option<SystemTime>,
    /// True when the object lies below a pinned prefix.
    pub pinned: bool,
}

/// The result of verifying an object version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedObject {
    /// The object version.
    pub object: ObjectVersion,
    /// Blocks with the bytes that their CRC says.
    pub sound: u64,
    /// Blocks with other bytes. They were dropped.
    pub damaged: u64,
    /// An evictor holds the files: nothing was checked.
    pub busy: bool,
}

/// The result of removing objects.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RemoveReport {
    /// Object versions that were removed.
    pub objects: u64,
    /// Bytes freed.
    pub bytes: u64,
    /// Object versions that are in use and stayed.
    pub busy: u64,
}

impl DiskCache {
    /// All object versions of a prefix, or of the whole cache, in no certain order.
    pub fn list(&self, prefix: Option<&Prefix>, mut each: impl FnMut(CachedObject)) -> io::Result<()> {
        let pins = self.shared.pins.read()?;
        self.for_each_object(|name| {
            let Some((side, header, layout)) = self.shared.open_side(name)? else { return Ok(()) };
            if prefix.is_some_and(|prefix| !prefix.contains(&header.object)) {
                return Ok(());
            }
            let facts = side.metadata()?;
            let data = std::fs::symlink_metadata(self.shared.folder.data(name, header.data_id));
            let (mut blocks, mut bytes) = (0, 0);
            for_each_record(&side, layout, |segment, record| {
                for (at, entry) in record[STATE_LEN..].chunks_exact(ENTRY_LEN).enumerate() {
                    let block = segment * SEGMENT_BLOCKS + at as u64;
                    if layout.decode_entry(block, entry).is_some() {
                        blocks += 1;
                        bytes += layout.block_len(block) as u64;
                    }
                }
            })?;
            each(CachedObject {
                blocks,
                bytes,
                disk_bytes: 512 * (facts.blocks() + data.map_or(0, |facts| facts.blocks())),
                last_used: facts.modified().ok(),
                pinned: pins.iter().any(|pin| pin.contains(&header.object)),
                object: header.object,
            });
            Ok(())
        })
    }

    /// Read every block of a prefix, or of the whole cache, and drop those that are damaged.
    pub fn verify(&self, prefix: Option<&Prefix>, mut each: impl FnMut(VerifiedObject)) -> io::Result<()> {
        self.for_each_object(|name| {
            let Some((side, header, layout)) = self.shared.open_side(name)? else { return Ok(()) };
            if prefix.is_some_and(|prefix| !prefix.contains(&header.object)) {
                return Ok(());
            }
            let mut segments = Vec::new();
            for_each_record(&side, layout, |segment, record| {
                if record_bytes(layout, segment, record) > 0 {
                    segments.push(segment);
                }
            })?;
            drop(side);
            let mut result = VerifiedObject { object: header.object, sound: 0, damaged: 0, busy: false };
            for segment in segments {
                self.verify_segment(segment, &mut result)?;
            }
            add(&self.shared.counters.damaged, result.damaged);
            each(result);
            Ok(())
        })
    }

    fn verify_segment(&self, segment: u64, result: &mut VerifiedObject) -> io::Result<()> {
        let first = segment * SEGMENT_BLOCKS;
        for block in first..first + SEGMENT_BLOCKS {
            let files = &self.shared.files;
            let read = files.with(&self.shared.folder, &result.object, false, |files| files.check(block))?;
            match read {
                Some(BlockLookup::Hit(_)) => result.sound += 1,
                Some(BlockLookup::Damaged) => result.damaged += 1,
                Some(BlockLookup::Absent) => {}
                None => result.busy = true,
            }
        }
        Ok(())
    }

    /// Remove the objects of a prefix, or all, pinned or not. Those in use stay.
    pub fn remove(&self, prefix: Option<&Prefix>) -> io::Result<RemoveReport> {
        let mut report = RemoveReport::default();
        self.for_each_object(|name| {
            let Some((side, header, _)) = self.shared.open_side(name)? else { return Ok(()) };
            if prefix.is_some_and(|prefix| !prefix.contains(&header.object)) {
                return Ok(());
            }
            let folder = &self.shared.folder;
            match remove_object(&side, &folder.side(name), &folder.data(name, header.data_id))? {
                Some(bytes) => {
                    report.objects += 1;
                    report.bytes += bytes;
                }
                None => report.busy += 1,
            }
            Ok(())
        })?;
        self.shared.usage.subtract(report.bytes)?;
        self.remove_names(prefix);
        Ok(report)
    }

    /// Remove the tables of names that show something of a prefix: mounts list it again.
    fn remove_names(&self, prefix: Option<&Prefix>) {
        let Ok(entries) = std::fs::read_dir(self.shared.folder.file(NAMES)) else { return };
        for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
            let shows = |prefix: &Prefix| {
                // A damaged table is of no use.
                read_table_header(&path).is_none_or(|table| {
                    let meets = table.prefix.starts_with(&prefix.prefix) || prefix.prefix.starts_with(&table.prefix);
                    table.endpoint == prefix.endpoint && table.bucket == prefix.bucket && meets
                })
            };
            if prefix.is_none_or(shows) {
                let _ = std::fs::remove_file(&path);
            }
        }
    }

    fn for_each_object(&self, mut each: impl FnMut(FileName) -> io::Result<()>) -> io::Result<()> {
        for shard in 0..SHARDS {
            #[expect(clippy::cast_possible_truncation, reason = "256 shards")]
            let entries = match std::fs::read_dir(self.shared.folder.shard(shard as u8)) {
                Ok(entries) => entries,
                Err(cause) if cause.kind() == io::ErrorKind::NotFound => continue,
                Err(cause) => return Err(cause),
            };
            for entry in entries {
                let text = entry?.file_name();
                if let Some(name) = text.to_string_lossy().strip_suffix(SIDE).and_then(FileName::parse) {
                    each(name)?;
                }
            }
        }
        Ok(())
    }
}
