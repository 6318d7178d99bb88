//! Writing with `O_DIRECT`, past the page cache.
//!
//! A written byte is copied into the page cache, and from there to the disk. For files that come from the network by
//! the gigabyte this is the most expensive part of the data path (`docs/develop/performance.md`), and it evicts the
//! data of other programs from the cache. With `O_DIRECT` a disk takes whole blocks straight from memory. Only whole
//! blocks can be written like this: the ends of a part go through the cache. The two never share a block.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::positioned::write_at;
use super::sparse::{punch_zeros, write_with_holes};
use crate::body::BLOCK;

/// Bytes written past the cache in one step: enough for the full speed of a disk.
pub(super) const PIECE: usize = 1 << 20;
/// Bytes written through the cache in one step: few enough to be still in the processor's cache.
pub(super) const CACHED_PIECE: usize = 256 << 10;

/// Magic numbers of local file systems with a good `O_DIRECT`. Others emulate it (memory), or pay for it with a round
/// trip (file servers).
const EXT: u64 = 0xEF53;
const XFS: u64 = 0x5846_5342;

/// A second handle to a file, opened with `O_DIRECT` for whole blocks.
#[derive(Debug)]
pub(super) struct ODirectFile {
    pub(super) file: OwnedFd,
    refused: AtomicBool,
}

impl ODirectFile {
    /// Opens the handle. None: the file system has no good `O_DIRECT`, or the name belongs to another file now.
    pub(super) fn open(file: &OwnedFd, folder: &OwnedFd, name: &str) -> Option<Self> {
        if !takes_blocks(file) {
            return None;
        }
        let flags = OFlags::WRONLY | OFlags::DIRECT | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let o_direct = rustix::fs::openat(folder, name, flags, Mode::empty()).ok()?;
        let (known, opened) = (rustix::fs::fstat(file).ok()?, rustix::fs::fstat(&o_direct).ok()?);
        let same = (known.st_dev, known.st_ino) == (opened.st_dev, opened.st_ino);
        same.then_some(Self { file: o_direct, refused: AtomicBool::new(false) })
    }

    /// Records that the file refuses `O_DIRECT` writes, so that none is attempted again.
    pub(super) fn note_refusal(&self) {
        self.refused.store(true, Ordering::Relaxed);
    }

    pub(super) fn has_refused(&self) -> bool {
        self.refused.load(Ordering::Relaxed)
    }
}

/// True when a file or folder is on a file system that is known to do `O_DIRECT` well: ext or XFS.
pub(super) fn takes_blocks(file: &OwnedFd) -> bool {
    rustix::fs::fstatfs(file).is_ok_and(|about| matches!(u64::try_from(about.f_type), Ok(EXT | XFS)))
}

/// Writes the whole, aligned blocks at the start of a file that no other task has open. Returns how many bytes were
/// written.
pub(super) fn write_first(file: &OwnedFd, bytes: &[u8]) -> Result<usize, Errno> {
    let blocks = &bytes[..bytes.len() - bytes.len() % BLOCK];
    if bytes.as_ptr().align_offset(BLOCK) != 0 || rustix::fs::fcntl_setfl(file, OFlags::DIRECT).is_err() {
        return Ok(0);
    }
    let taken = write_blocks(file, blocks, 0);
    rustix::fs::fcntl_setfl(file, OFlags::empty())?;
    Ok(taken?.unwrap_or_default())
}

/// A buffer of consecutive bytes, which are written when there are enough of them.
#[derive(Debug)]
pub(super) struct WriteBuffer {
    /// Bytes at the same offset within a block as on the disk. The bytes before them have no meaning.
    memory: Vec<u8>,
    begin: usize,
    /// Offset in the file at which the first byte goes.
    offset: u64,
    piece: usize,
}

impl WriteBuffer {
    /// A buffer for bytes that begin at `offset`, to be written in pieces of `piece` bytes, a multiple of whole blocks.
    pub(super) fn new(offset: u64, piece: usize) -> Self {
        let mut kept = Self { memory: Vec::new(), begin: 0, offset, piece };
        kept.begin = kept.indent();
        kept
    }

    /// Offset of the first byte within its block.
    fn indent(&self) -> usize {
        usize::try_from(self.offset % BLOCK as u64).unwrap_or(0)
    }

    /// Buffer to append the next bytes to, and the number of bytes that fit. Full pieces end where a block does.
    pub(super) fn room(&mut self) -> (&mut Vec<u8>, usize) {
        if self.memory.is_empty() {
            self.memory.reserve_exact(self.piece + BLOCK);
            self.begin = self.memory.as_ptr().align_offset(BLOCK) + self.indent();
            self.memory.resize(self.begin, 0);
        }
        let room = self.begin - self.indent() + self.piece - self.memory.len();
        (&mut self.memory, room)
    }

    pub(super) fn bytes(&self) -> &[u8] {
        self.memory.get(self.begin..).unwrap_or_default()
    }

    pub(super) fn is_full(&self) -> bool {
        self.bytes().len() == self.piece - self.indent()
    }

    /// Write the buffered bytes through the cache.
    pub(super) fn write(&mut self, file: &OwnedFd) -> Result<(), Errno> {
        write_with_holes(file, self.bytes(), self.offset)?;
        self.clear();
        Ok(())
    }

    /// Write the buffered bytes, whole blocks past the cache. False: the file takes no blocks past the cache.
    pub(super) fn write_past_cache(&mut self, file: &OwnedFd, o_direct: &OwnedFd) -> Result<bool, Errno> {
        let bytes = self.bytes();
        let first = (BLOCK - self.indent()) % BLOCK;
        let (before, rest) = bytes.split_at(first.min(bytes.len()));
        let (blocks, after) = rest.split_at(rest.len() - rest.len() % BLOCK);
        let blocks_at = self.offset + before.len() as u64;
        write_at(file, before, self.offset)?;
        let is_hole = punch_zeros(file, blocks, blocks_at)?;
        let taken = if is_hole { Some(blocks.len()) } else { write_blocks(o_direct, blocks, blocks_at)? };
        let done = taken.unwrap_or_default();
        write_at(file, &blocks[done..], blocks_at + done as u64)?;
        write_at(file, after, blocks_at + blocks.len() as u64)?;
        self.clear();
        Ok(taken.is_some())
    }

    fn clear(&mut self) {
        self.offset += self.bytes().len() as u64;
        self.memory.clear();
    }
}

/// Write whole blocks. Returns how many bytes were taken: fewer than given when the disk is full, for example. None:
/// this file takes no blocks.
fn write_blocks(o_direct: &OwnedFd, blocks: &[u8], offset: u64) -> Result<Option<usize>, Errno> {
    if blocks.is_empty() {
        return Ok(Some(0));
    }
    loop {
        match rustix::io::pwrite(o_direct, blocks, offset) {
            Ok(taken) => return Ok(Some(taken)),
            Err(Errno::INTR) => {}
            Err(Errno::INVAL | Errno::OPNOTSUPP) => return Ok(None),
            Err(errno) => return Err(errno),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt as _;

    use proptest::prelude::*;

    use super::*;

    /// A file, and its `O_DIRECT` handle where there is one.
    fn file(folder: &std::path::Path) -> (OwnedFd, Option<ODirectFile>) {
        let path = folder.join("bytes");
        let file = std::fs::File::options().read(true).write(true).create_new(true).open(path).unwrap();
        let opened = OwnedFd::from(std::fs::File::open(folder).unwrap());
        let o_direct = ODirectFile::open(&OwnedFd::from(file.try_clone().unwrap()), &opened, "bytes");
        (file.into(), o_direct)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn bytes_get_where_they_belong_wherever_they_begin_and_however_they_come(
            offset in 0..3 * BLOCK,
            length in 0_usize..10 * BLOCK,
            pieces in 1_usize..4,
            reads in proptest::collection::vec(1_usize..3 * BLOCK, 1..8),
            seed: u64,
            cached: bool,
        ) {
            let folder = std::env::temp_dir().join(format!("seqferry-direct-{}-{seed:x}", std::process::id()));
            std::fs::create_dir(&folder).unwrap();
            let (file, o_direct) = file(&folder);
            let mut rng = fastrand::Rng::with_seed(seed);
            let bytes: Vec<u8> = (0..length).map(|_| rng.u8(..)).collect();
            // Neighbouring parts, whose bytes share the same blocks.
            let around = vec![7; 16 * BLOCK];
            write_at(&file, &around, 0).unwrap();

            let mut kept = WriteBuffer::new(offset as u64, pieces * BLOCK);
            let write = |kept: &mut WriteBuffer| match &o_direct {
                Some(o_direct) if !cached => assert!(kept.write_past_cache(&file, &o_direct.file).unwrap(), "it is taken"),
                _ => kept.write(&file).unwrap(),
            };
            let mut rest = &bytes[..];
            for read in reads.iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                let (into, room) = kept.room();
                prop_assert!(room > 0);
                let (now, later) = rest.split_at(room.min(*read).min(rest.len()));
                into.extend_from_slice(now);
                rest = later;
                if kept.is_full() {
                    write(&mut kept);
                }
            }
            write(&mut kept);

            let mut written = vec![0; 16 * BLOCK];
            std::fs::File::from(file).read_exact_at(&mut written, 0).unwrap();
            let mut expected = around;
            expected[offset..offset + length].copy_from_slice(&bytes);
            std::fs::remove_dir_all(&folder).unwrap();
            prop_assert!(written == expected);
        }
    }
}
