//! The two files of one cached object version, open: reading, filling and dropping blocks.
//!
//! Data are written before the entry that promises them, without fsync. Bytes are returned only if they have the CRC of
//! their entry, so that no order of crashes, evictions and writes of other processes can make them wrong: locks save
//! work and nothing else. A use holds a shared `flock` on the side file; the evictor takes an exclusive one.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use rustix::io::Errno;

use super::folder::{CacheFolder, ExclusiveLock, FileName, new_file};
use super::records::for_each_record;
use super::side_file::{
    ENTRY_LEN, EvictionQueue, HEADER_LIMIT, MOST_REREADS, RECORD_LEN, SEGMENT_BLOCKS, STATE_LEN, SegmentState,
    SideFileHeader, SideFileLayout,
};
use crate::crc::crc32c;
use crate::own_file;
use crate::version::{BLOCK_SIZE, ObjectVersion};

/// Open files of an object version.
#[derive(Debug)]
pub(super) struct ObjectFiles {
    pub(super) name: FileName,
    pub(super) layout: SideFileLayout,
    side: File,
    data: File,
    /// Uses of this process under way. The first takes the lock, the last gives it back.
    uses: Mutex<u32>,
    /// Side file or data file are known to be removed.
    gone: AtomicBool,
    /// Time of the last use, as a count of uses of the table.
    pub(super) last_use: AtomicU64,
}

/// Holds a use of the files: while it exists, no evictor of any process touches them.
#[derive(Debug)]
pub(super) struct UseGuard<'a>(&'a ObjectFiles);

/// Reason why no use of the files can begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UseError {
    /// An evictor holds the files.
    Busy,
    /// The files were removed: open them again.
    Gone,
}

/// A block that was requested.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum BlockLookup {
    /// The bytes of the block, checked.
    Hit(Bytes),
    /// A block that is not in the cache.
    Absent,
    /// A block whose bytes do not have its CRC. It is dropped.
    Damaged,
}

/// Reads the beginning of a file, up to `most` bytes.
pub(super) fn read_start(file: &File, most: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; most];
    let mut len = 0;
    while len < most {
        match file.read_at(&mut bytes[len..], len as u64) {
            Ok(0) => break,
            Ok(read) => len += read,
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
            Err(cause) => return Err(cause),
        }
    }
    bytes.truncate(len);
    Ok(bytes)
}

/// Reads up to the end of the buffer or of the file. The rest of the buffer stays as it is.
fn read_up_to(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut len = 0;
    while len < buffer.len() {
        match file.read_at(&mut buffer[len..], offset + len as u64) {
            Ok(0) => break,
            Ok(read) => len += read,
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
            Err(cause) => return Err(cause),
        }
    }
    Ok(len)
}

pub(super) fn open_writable(path: &std::path::Path) -> io::Result<File> {
    own_file::open(path, OpenOptions::new().read(true).write(true))
}

/// Milliseconds since 1970.
pub(super) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or_default()
}

impl ObjectFiles {
    /// The files of this object version, if the cache has them and they are sound.
    pub(super) fn open(folder: &CacheFolder, object: &ObjectVersion) -> io::Result<Option<Self>> {
        let name = FileName::of(object);
        let side = match open_writable(&folder.side(name)) {
            Ok(side) => side,
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(cause) if own_file::is_foreign(&cause) => {
                own_file::discard(&folder.side(name));
                return Ok(None);
            }
            Err(cause) => return Err(cause),
        };
        let Some((header, layout)) = SideFileHeader::decode(&read_start(&side, HEADER_LIMIT)?) else {
            remove_damaged(folder, name, &side)?;
            return Ok(None);
        };
        // Two versions with the same digest: the one that came first stays.
        if header.object != *object {
            return Ok(None);
        }
        let data = match open_writable(&folder.data(name, header.data_id)) {
            Ok(data) => data,
            // Removed since, or the process that made the side file died before it made this one.
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => match new_file(&folder.data(name, header.data_id))
            {
                Ok(data) => data,
                Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists => return Ok(None),
                Err(cause) => return Err(cause),
            },
            Err(cause) if own_file::is_foreign(&cause) => {
                own_file::discard(&folder.data(name, header.data_id));
                return Ok(None);
            }
            Err(cause) => return Err(cause),
        };
        Ok(Some(Self {
            name,
            layout,
            side,
            data,
            uses: Mutex::new(0),
            gone: AtomicBool::new(false),
            last_use: AtomicU64::new(0),
        }))
    }

    /// Make the side file of this object version if there is none. The caller opens it then.
    pub(super) fn create(folder: &CacheFolder, object: &ObjectVersion) -> io::Result<()> {
        let header = SideFileHeader { object: object.clone(), data_id: super::folder::random_id() };
        let bytes =
            header.encode().ok_or_else(|| io::Error::other("the name of the object is too long for the cache"))?;
        let name = FileName::of(object);
        let new = folder.new_path();
        let made = new_file(&new).and_then(|file| {
            file.write_all_at(&bytes, 0)?;
            let named = match rename_to_nothing(&new, &folder.side(name)) {
                Err(cause) if cause.kind() == io::ErrorKind::NotFound => {
                    make_shard(folder, name)?;
                    rename_to_nothing(&new, &folder.side(name))
                }
                result => result,
            };
            match named {
                // Another process was first.
                Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists => Ok(()),
                result => result,
            }
        });
        let _ = std::fs::remove_file(&new);
        made
    }

    /// Begin a use.
    pub(super) fn enter(&self) -> Result<UseGuard<'_>, UseError> {
        let mut uses = self.uses.lock().unwrap_or_else(PoisonError::into_inner);
        if *uses == 0 {
            match self.side.try_lock_shared() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock | TryLockError::Error(_)) => return Err(UseError::Busy),
            }
            let there = |file: &File| file.metadata().is_ok_and(|facts| facts.nlink() > 0);
            if self.gone.load(Ordering::Relaxed) || !there(&self.side) || !there(&self.data) {
                self.gone.store(true, Ordering::Relaxed);
                let _ = self.side.unlock();
                return Err(UseError::Gone);
            }
        }
        *uses += 1;
        Ok(UseGuard(self))
    }

    fn leave(&self) {
        let mut uses = self.uses.lock().unwrap_or_else(PoisonError::into_inner);
        *uses -= 1;
        if *uses == 0 {
            let _ = self.side.unlock();
        }
    }

    fn read_entry(&self, block: u64) -> io::Result<[u8; ENTRY_LEN]> {
        let mut entry = [0; ENTRY_LEN];
        read_up_to(&self.side, &mut entry, self.layout.entry(block))?;
        Ok(entry)
    }
}

impl Drop for UseGuard<'_> {
    fn drop(&mut self) {
        self.0.leave();
    }
}

impl UseGuard<'_> {
    /// Blocks from `first` on; at most `count` and none past the end of the object.
    pub(super) fn read(&self, first: u64, count: u64) -> io::Result<Vec<BlockLookup>> {
        let layout = self.0.layout;
        let end = layout.blocks().min(first.saturating_add(count));
        let mut blocks = Vec::new();
        let mut block = first;
        while block < end {
            let segment = block / SEGMENT_BLOCKS;
            let segment_end = end.min((segment + 1) * SEGMENT_BLOCKS);
            let mut record = [0; RECORD_LEN];
            read_up_to(&self.0.side, &mut record, layout.record(segment))?;
            let mut touched = 0_u64;
            for block in block..segment_end {
                let at = entry_place(block);
                let lookup = self.read_block(block, &record[at..at + ENTRY_LEN])?;
                if matches!(lookup, BlockLookup::Hit(_)) {
                    touched |= 1 << (block % SEGMENT_BLOCKS);
                }
                blocks.push(lookup);
            }
            self.touch(segment, &record[..STATE_LEN], touched)?;
            block = segment_end;
        }
        Ok(blocks)
    }

    fn read_block(&self, block: u64, entry: &[u8]) -> io::Result<BlockLookup> {
        if entry.iter().all(|byte| *byte == 0) {
            return Ok(BlockLookup::Absent);
        }
        let Some(crc) = self.0.layout.decode_entry(block, entry) else {
            self.drop_entry(block, entry)?;
            return Ok(BlockLookup::Damaged);
        };
        let len = self.0.layout.block_len(block);
        let mut bytes = Vec::with_capacity(len);
        while bytes.len() < len {
            let offset = block * BLOCK_SIZE + bytes.len() as u64;
            match rustix::io::pread(&self.0.data, rustix::buffer::spare_capacity(&mut bytes), offset) {
                Ok(0) => break,
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(cause) => return Err(cause.into()),
            }
        }
        // The buffer may be larger than requested.
        bytes.truncate(len);
        if bytes.len() == len && crc32c(&bytes) == crc {
            return Ok(BlockLookup::Hit(Bytes::from(bytes)));
        }
        self.drop_entry(block, entry)?;
        Ok(BlockLookup::Damaged)
    }

    /// Drop an entry that promises other bytes than there are. Another process may have filled the block again.
    fn drop_entry(&self, block: u64, entry: &[u8]) -> io::Result<()> {
        if self.0.read_entry(block)? == entry {
            self.0.side.write_all_at(&[0; ENTRY_LEN], self.0.layout.entry(block))?;
        }
        Ok(())
    }

    fn touch(&self, segment: u64, state: &[u8], blocks: u64) -> io::Result<()> {
        let before = SegmentState::decode(state);
        if blocks == 0 || before.rereads == MOST_REREADS {
            return Ok(());
        }
        let mut after = before;
        after.touch(blocks);
        if after == before {
            return Ok(());
        }
        self.0.side.write_all_at(&after.encode(), self.0.layout.record(segment))
    }

    /// A block, without counting as a read of it.
    pub(super) fn check(&self, block: u64) -> io::Result<BlockLookup> {
        if block >= self.0.layout.blocks() {
            return Ok(BlockLookup::Absent);
        }
        self.read_block(block, &self.0.read_entry(block)?)
    }

    /// Returns two facts: the block is in the cache with this CRC; its segment was ever filled. No bytes are read.
    pub(super) fn has(&self, block: u64, crc: u32) -> io::Result<(bool, bool)> {
        let mut state = [0; STATE_LEN];
        read_up_to(&self.0.side, &mut state, self.0.layout.record(block / SEGMENT_BLOCKS))?;
        let there = self.0.layout.decode_entry(block, &self.0.read_entry(block)?) == Some(crc);
        Ok((there, state != [0; STATE_LEN]))
    }

    /// Drop all entries. The space of their bytes comes back with the next scan of all files.
    pub(super) fn drop_all(&self) -> io::Result<()> {
        let (layout, side) = (self.0.layout, &self.0.side);
        let mut segments = Vec::new();
        for_each_record(side, layout, |segment, _| segments.push(segment))?;
        segments.into_iter().try_for_each(|segment| side.write_all_at(&[0; RECORD_LEN], layout.record(segment)))
    }

    /// Blocks of a range that have an entry; the bytes are not checked.
    pub(super) fn present(&self, first: u64, count: u64) -> io::Result<Vec<bool>> {
        let layout = self.0.layout;
        let end = layout.blocks().min(first.saturating_add(count));
        let mut present = Vec::new();
        let mut block = first;
        while block < end {
            let segment = block / SEGMENT_BLOCKS;
            let mut record = [0; RECORD_LEN];
            read_up_to(&self.0.side, &mut record, layout.record(segment))?;
            let segment_end = end.min((segment + 1) * SEGMENT_BLOCKS);
            present.extend((block..segment_end).map(|block| {
                let at = entry_place(block);
                layout.decode_entry(block, &record[at..at + ENTRY_LEN]).is_some()
            }));
            block = segment_end;
        }
        Ok(present)
    }

    /// Write a block: first the data, then the entry. `bytes` has the length of the block and this CRC.
    pub(super) fn fill(&self, block: u64, bytes: &[u8], crc: u32, queue: EvictionQueue) -> io::Result<()> {
        let (layout, side) = (self.0.layout, &self.0.side);
        let at = layout.entry(block);
        if self.0.read_entry(block)? != [0; ENTRY_LEN] {
            side.write_all_at(&[0; ENTRY_LEN], at)?;
        }
        self.0.data.write_all_at(bytes, block * BLOCK_SIZE)?;
        side.write_all_at(&layout.encode_entry(block, crc), at)?;

        let segment = block / SEGMENT_BLOCKS;
        let mut state = [0; STATE_LEN];
        read_up_to(side, &mut state, layout.record(segment))?;
        let before = SegmentState::decode(&state);
        let mut after = before;
        if before.inserted == 0 {
            after = SegmentState { inserted: now(), queue, ..SegmentState::default() };
        }
        after.touched |= 1 << (block % SEGMENT_BLOCKS);
        if after != before {
            side.write_all_at(&after.encode(), layout.record(segment))?;
        }
        Ok(())
    }
}

/// Place of the entry of a block in the record of its segment.
pub(super) fn entry_place(block: u64) -> usize {
    STATE_LEN + (block % SEGMENT_BLOCKS) as usize * ENTRY_LEN
}

/// Give a file a name that nothing has. It never has two, as a file does that another user has linked.
fn rename_to_nothing(from: &std::path::Path, to: &std::path::Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags};
    match rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // The file system has no such call.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            std::fs::hard_link(from, to)?;
            std::fs::remove_file(from)
        }
        result => Ok(result?),
    }
}

fn make_shard(folder: &CacheFolder, name: FileName) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    match std::fs::DirBuilder::new().mode(0o700).create(folder.shard(name.0[0])) {
        Err(cause) if cause.kind() != io::ErrorKind::AlreadyExists => Err(cause),
        _ => Ok(()),
    }
}

/// Remove a side file that cannot be read, unless it is in use. The next eviction removes its data file, which has no
/// owner.
pub(super) fn remove_damaged(folder: &CacheFolder, name: FileName, side: &File) -> io::Result<()> {
    let Some(_exclusive) = ExclusiveLock::take(side)? else { return Ok(()) };
    let path = folder.side(name);
    let same = std::fs::symlink_metadata(&path).ok().zip(side.metadata().ok()).is_some_and(|(a, b)| a.ino() == b.ino());
    if same { std::fs::remove_file(&path) } else { Ok(()) }
}
