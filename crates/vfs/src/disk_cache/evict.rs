//! Freeing space: one pass over all files counts the usage again and evicts segments until the cache is within its
//! limits.
//!
//! The order is S3-FIFO over segments of 8 MiB, with state that all processes keep in the side files. New segments
//! enter a small queue; those that were read again move to the main queue, the others go first and leave a ghost. One
//! long scan therefore pushes out what was read once, never the indexes that are read over and over. Pinned prefixes
//! stay. Files in use are skipped.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustix::fs::FallocateFlags;

use super::folder::{DATA, ExclusiveLock, FileName, NEW, SHARDS, SIDE, shared_file};
use super::object_files::{entry_place, now, open_writable, read_start, remove_damaged};
use super::records::for_each_record;
use super::side_file::{
    ENTRY_LEN, EvictionQueue, HEADER_LIMIT, RECORD_LEN, SEGMENT_BLOCKS, SegmentState, SideFileHeader, SideFileLayout,
};
use super::{ALLOCATION, CacheLimits, CacheState, Prefix, add};
use crate::own_file;
use crate::version::BLOCK_SIZE;

/// Unit of `st_blocks`.
const SECTOR: u64 = 512;
/// Age at which a file without a name is left behind: far beyond any pause of a living process.
const UNFINISHED: Duration = Duration::from_hours(1);

/// The result of a pass.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EvictReport {
    /// Object versions in the cache.
    pub objects: u64,
    /// Bytes on the disk before anything was evicted.
    pub used: u64,
    /// Bytes freed.
    pub freed: u64,
    /// Bytes of pinned objects.
    pub pinned: u64,
    /// Segments that were to go and are in use.
    pub busy: u64,
}

impl CacheLimits {
    /// True when room should be made in advance: more than 95 % are used, or less than half of the slack is free.
    pub(super) fn is_scarce(&self, used: u64, free: u64) -> bool {
        used > self.max_size - self.max_size / 20 || free < self.min_free.saturating_add(self.slack() / 2)
    }

    /// Bytes to free: down to 90 % of the size, and up to the free space with its slack.
    fn excess(&self, used: u64, free: u64) -> u64 {
        if !self.is_scarce(used, free) {
            return 0;
        }
        let size = used.saturating_sub(self.max_size - self.max_size / 10);
        let space = self.min_free.saturating_add(self.slack()).saturating_sub(free);
        size.max(space).min(used)
    }

    /// Free space beyond the minimum that a pass restores, so that the next one is not due immediately.
    fn slack(&self) -> u64 {
        (self.min_free / 4).min(1 << 30).min(self.max_size / 20)
    }
}

#[derive(Debug, Clone, Copy)]
struct SegmentRow {
    file: u32,
    segment: u32,
    bytes: u32,
    state: SegmentState,
    changed: bool,
}

/// A scan of all files. Costs about 40 bytes of memory per segment.
#[derive(Debug, Default)]
struct CacheScan {
    files: Vec<FileName>,
    segments: Vec<SegmentRow>,
    used: u64,
    pinned: u64,
}

impl CacheState {
    pub(super) fn evict(&self) -> io::Result<Option<EvictReport>> {
        let election = shared_file(&self.folder.file("evictor.lock"))?;
        let Some(_elected) = ExclusiveLock::take(&election)? else { return Ok(None) };
        let pins = self.pins.read().inspect_err(|_| {
            self.note("pins", "The list of pinned prefixes is damaged: nothing is evicted; pin them again".to_owned());
        })?;
        let Some(before) = self.usage.snapshot()? else { return Ok(None) };
        let mut inventory = CacheScan::default();
        self.remove_unfinished()?;
        for shard in 0..SHARDS {
            #[expect(clippy::cast_possible_truncation, reason = "256 shards")]
            if !self.scan(shard as u8, &pins, &mut inventory)? {
                return Ok(Some(EvictReport::default()));
            }
        }
        self.usage.rebuild(inventory.used, before)?;
        let mut report = EvictReport {
            objects: inventory.files.len() as u64,
            used: inventory.used,
            pinned: inventory.pinned,
            ..EvictReport::default()
        };
        self.make_room(&mut inventory, &mut report)?;
        Ok(Some(report))
    }

    /// Remove files that dead processes left before they had a name. Living ones give them a name within milliseconds.
    fn remove_unfinished(&self) -> io::Result<()> {
        for entry in std::fs::read_dir(self.folder.root())? {
            let entry = entry?;
            let unfinished = entry.file_name().to_string_lossy().starts_with(NEW);
            let changed = entry.metadata().and_then(|facts| facts.modified());
            let age = changed.ok().and_then(|time| time.elapsed().ok()).unwrap_or_default();
            if unfinished && age > UNFINISHED {
                let _ = std::fs::remove_file(entry.path());
            }
        }
        Ok(())
    }

    /// Adds the files of one shard to the inventory. Returns false when the cache is closing.
    fn scan(&self, shard: u8, pins: &[Prefix], inventory: &mut CacheScan) -> io::Result<bool> {
        let entries = match std::fs::read_dir(self.folder.shard(shard)) {
            Ok(entries) => entries,
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(true),
            Err(cause) => return Err(cause),
        };
        for entry in entries {
            if self.closing.load(Ordering::SeqCst) {
                return Ok(false);
            }
            let entry = entry?;
            let text = entry.file_name();
            let text = text.to_string_lossy();
            if let Some(name) = text.strip_suffix(SIDE).and_then(FileName::parse) {
                self.scan_object(name, pins, inventory)?;
            } else if let Some(data) = text.strip_suffix(DATA) {
                self.remove_orphan(data, &entry.path());
            }
        }
        Ok(true)
    }

    fn scan_object(&self, name: FileName, pins: &[Prefix], inventory: &mut CacheScan) -> io::Result<()> {
        let Some((side, header, layout)) = self.open_side(name)? else { return Ok(()) };
        let file = u32::try_from(inventory.files.len()).map_err(|_| io::Error::other("too many files"))?;
        let pinned = pins.iter().any(|pin| pin.contains(&header.object));
        let data = std::fs::symlink_metadata(self.folder.data(name, header.data_id)).map_or(0, |facts| facts.blocks());
        let bytes = (side.metadata()?.blocks() + data) * SECTOR;
        inventory.used += bytes;
        let before = inventory.segments.len();
        for_each_record(&side, layout, |segment, record| {
            let bytes = record_bytes(layout, segment, record);
            if bytes > 0 && !pinned {
                let state = SegmentState::decode(record);
                let segment = u32::try_from(segment).unwrap_or(u32::MAX);
                inventory.segments.push(SegmentRow { file, segment, bytes, state, changed: false });
            }
        })?;
        if pinned {
            inventory.pinned += bytes;
        } else if inventory.segments.len() == before
            && let Some(exclusive) = ExclusiveLock::take(&side)?
            && is_empty(&side, layout)?
        {
            // No block counts: the process that wrote the object died early, or all its blocks were damaged.
            let (side_path, data_path) = (self.folder.side(name), self.folder.data(name, header.data_id));
            let freed = remove_files(&exclusive, &side_path, &data_path)?;
            inventory.used = inventory.used.saturating_sub(freed);
            return Ok(());
        }
        inventory.files.push(name);
        Ok(())
    }

    /// The side file, if it is sound. A damaged one is removed.
    pub(super) fn open_side(&self, name: FileName) -> io::Result<Option<(File, SideFileHeader, SideFileLayout)>> {
        let side = match open_writable(&self.folder.side(name)) {
            Ok(side) => side,
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(cause) if own_file::is_foreign(&cause) => {
                own_file::discard(&self.folder.side(name));
                return Ok(None);
            }
            Err(cause) => return Err(cause),
        };
        match SideFileHeader::decode(&read_start(&side, HEADER_LIMIT)?) {
            Some((header, layout)) if FileName::of(&header.object) == name => Ok(Some((side, header, layout))),
            _ => {
                remove_damaged(&self.folder, name, &side)?;
                Ok(None)
            }
        }
    }

    /// Remove a data file without a side file that names it. A side file always exists before its data file.
    fn remove_orphan(&self, text: &str, path: &Path) {
        let Some((name, id)) = text.split_once('-') else { return };
        let (Some(name), Ok(id)) = (FileName::parse(name), u64::from_str_radix(id, 16)) else { return };
        let owner = self.open_side(name);
        if owner.is_ok_and(|owner| owner.is_none_or(|(_, header, _)| header.data_id != id)) {
            let _ = std::fs::remove_file(path);
        }
    }

    fn make_room(&self, inventory: &mut CacheScan, report: &mut EvictReport) -> io::Result<()> {
        let excess = self.limits.excess(self.usage.read(), self.folder.space()?);
        if excess == 0 {
            return Ok(());
        }
        let mut queues = EvictionQueues::new(inventory, self.limits.max_size / 10);
        while report.freed < excess && !self.closing.load(Ordering::SeqCst) {
            let Some(row) = queues.next(&mut inventory.segments) else { break };
            let segment = inventory.segments[row];
            let name = inventory.files[segment.file as usize];
            let Some(freed) = self.evict_segment(name, segment.segment)? else {
                report.busy += 1;
                continue;
            };
            report.freed += freed;
            if segment.state.queue == EvictionQueue::Small {
                self.ghosts.remember(name, u64::from(segment.segment))?;
            }
        }
        self.usage.subtract(report.freed)?;
        add(&self.counters.evicted, report.freed);
        if report.freed < excess && report.pinned > 0 {
            self.note(
                "pinned",
                format!(
                    "Pinned prefixes take {} bytes of the cache {}: what has no room beside them is read uncached",
                    report.pinned,
                    self.folder.root().display()
                ),
            );
        }
        self.keep_states(inventory)
    }

    /// Bytes freed; None when the file is in use.
    fn evict_segment(&self, name: FileName, segment: u32) -> io::Result<Option<u64>> {
        let Some((side, header, layout)) = self.open_side(name)? else { return Ok(Some(0)) };
        let (side_path, data_path) = (self.folder.side(name), self.folder.data(name, header.data_id));
        let Some(exclusive) = ExclusiveLock::take(&side)? else { return Ok(None) };
        side.write_all_at(&[0; RECORD_LEN], layout.record(u64::from(segment)))?;
        if is_empty(&side, layout)? {
            return remove_files(&exclusive, &side_path, &data_path).map(Some);
        }
        let Ok(data) = open_writable(&data_path) else { return Ok(Some(0)) };
        let before = data.metadata()?.blocks();
        let len = SEGMENT_BLOCKS * BLOCK_SIZE;
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match rustix::fs::fallocate(&data, flags, u64::from(segment) * len, len) {
            Ok(()) => Ok(Some(before.saturating_sub(data.metadata()?.blocks()) * SECTOR)),
            // A file system without holes: the object goes as a whole.
            Err(rustix::io::Errno::OPNOTSUPP) => remove_files(&exclusive, &side_path, &data_path).map(Some),
            Err(cause) => Err(cause.into()),
        }
    }

    /// Write the states that the queues changed. Reads in between may have changed them too; the states of the queues
    /// are kept, since a state is only a hint.
    fn keep_states(&self, inventory: &CacheScan) -> io::Result<()> {
        for row in inventory.segments.iter().filter(|row| row.changed) {
            let Some((side, _, layout)) = self.open_side(inventory.files[row.file as usize])? else { continue };
            side.write_all_at(&row.state.encode(), layout.record(u64::from(row.segment)))?;
        }
        Ok(())
    }
}

/// The two queues of S3-FIFO over rows of the inventory.
struct EvictionQueues {
    small: VecDeque<usize>,
    main: VecDeque<usize>,
    small_bytes: u64,
    small_share: u64,
}

impl EvictionQueues {
    fn new(inventory: &CacheScan, small_share: u64) -> Self {
        let mut rows: Vec<usize> = (0..inventory.segments.len()).collect();
        rows.sort_by_key(|row| inventory.segments[*row].state.inserted);
        let (small, main): (VecDeque<usize>, VecDeque<usize>) =
            rows.into_iter().partition(|row| inventory.segments[*row].state.queue == EvictionQueue::Small);
        let small_bytes = small.iter().map(|row| u64::from(inventory.segments[*row].bytes)).sum();
        Self { small, main, small_bytes, small_share }
    }

    /// The next segment to evict. Ends: every step takes a row out, promotes it once, or lowers its count.
    fn next(&mut self, segments: &mut [SegmentRow]) -> Option<usize> {
        loop {
            let from_small = !self.small.is_empty() && (self.small_bytes > self.small_share || self.main.is_empty());
            let row = if from_small { self.small.pop_front()? } else { self.main.pop_front()? };
            let segment = &mut segments[row];
            if from_small {
                self.small_bytes -= u64::from(segment.bytes);
            }
            if segment.state.rereads == 0 {
                segment.changed = false;
                return Some(row);
            }
            let rereads = if from_small { 0 } else { segment.state.rereads - 1 };
            segment.state = SegmentState { inserted: now(), queue: EvictionQueue::Main, rereads, ..segment.state };
            segment.changed = true;
            self.main.push_back(row);
        }
    }
}

/// Remove both files of an object. Bytes freed; None when it is in use.
pub(super) fn remove_object(side: &File, side_path: &Path, data_path: &Path) -> io::Result<Option<u64>> {
    match ExclusiveLock::take(side)? {
        Some(exclusive) => remove_files(&exclusive, side_path, data_path).map(Some),
        None => Ok(None),
    }
}

/// Remove both files of an object that is held, the side file first. Bytes freed.
fn remove_files(side: &ExclusiveLock<'_>, side_path: &Path, data_path: &Path) -> io::Result<u64> {
    let facts = side.file().metadata()?;
    if facts.nlink() == 0 {
        return Ok(0);
    }
    let data = std::fs::symlink_metadata(data_path).map_or(0, |facts| facts.blocks());
    std::fs::remove_file(side_path)?;
    match std::fs::remove_file(data_path) {
        Err(cause) if cause.kind() != io::ErrorKind::NotFound => Err(cause),
        _ => Ok((facts.blocks() + data) * SECTOR),
    }
}

fn is_empty(side: &File, layout: SideFileLayout) -> io::Result<bool> {
    let mut empty = true;
    for_each_record(side, layout, |_, _| empty = false)?;
    Ok(empty)
}

/// Bytes that the blocks of a segment take.
pub(super) fn record_bytes(layout: SideFileLayout, segment: u64, record: &[u8]) -> u32 {
    let first = segment * SEGMENT_BLOCKS;
    let blocks = (first..first + SEGMENT_BLOCKS)
        .filter(|block| record[entry_place(*block)..][..ENTRY_LEN].iter().any(|byte| *byte != 0));
    let bytes: u64 = blocks.map(|block| (layout.block_len(block) as u64).next_multiple_of(ALLOCATION)).sum();
    u32::try_from(bytes).unwrap_or(u32::MAX)
}
