//! Files with holes: runs of zeros are not written, and holes are not read.
//!
//! A hole reads as zeros and takes no space. Space that was allocated is released where a run of zeros comes. File
//! systems without holes get the zeros.

use std::os::fd::OwnedFd;

use rustix::fs::{FallocateFlags, SeekFrom, Stat};
use rustix::io::Errno;

use super::positioned::write_at;

/// Length in bytes of the shortest run of zeros that becomes a hole, at a multiple of itself. Shorter holes cost more
/// in extents than they save in space.
const RUN: usize = 64 << 10;

/// True when all bytes are zeros. The first bytes nearly always decide.
fn is_zero(bytes: &[u8]) -> bool {
    let (words, rest) = bytes.as_chunks::<16>();
    words.iter().all(|word| u128::from_ne_bytes(*word) == 0) && rest.iter().all(|byte| *byte == 0)
}

/// True when a part of these bytes, which start a file, becomes a hole.
pub(super) fn has_run(bytes: &[u8]) -> bool {
    bytes.chunks_exact(RUN).any(is_zero)
}

/// Writes all bytes at an offset of a file that is long enough, and leaves holes for runs of zeros.
pub(super) fn write_with_holes(file: &OwnedFd, bytes: &[u8], offset: u64) -> Result<(), Errno> {
    // The bytes before the first multiple of a run.
    let lead = usize::try_from(offset.next_multiple_of(RUN as u64) - offset).unwrap_or(0).min(bytes.len());
    let (mut done, mut at) = (0, lead);
    while at < bytes.len() {
        let zeros = bytes[at..].chunks_exact(RUN).take_while(|run| is_zero(run)).count() * RUN;
        if zeros > 0 {
            write_at(file, &bytes[done..at], offset + done as u64)?;
            if !punch(file, offset + at as u64, zeros as u64)? {
                return write_at(file, &bytes[at..], offset + at as u64);
            }
            done = at + zeros;
        }
        at = (at + zeros.max(RUN)).min(bytes.len());
    }
    write_at(file, &bytes[done..], offset + done as u64)
}

/// Makes a hole instead of writing zeros. False: the bytes are not all zeros, or the file system has no holes.
pub(super) fn punch_zeros(file: &OwnedFd, bytes: &[u8], offset: u64) -> Result<bool, Errno> {
    if bytes.len() < RUN || !is_zero(bytes) {
        return Ok(false);
    }
    punch(file, offset, bytes.len() as u64)
}

/// Releases the space of a range, which then reads as zeros. False: the file system cannot.
fn punch(file: &OwnedFd, offset: u64, length: u64) -> Result<bool, Errno> {
    loop {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match rustix::fs::fallocate(file, flags, offset, length) {
            Ok(()) => return Ok(true),
            Err(Errno::INTR) => {}
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => return Ok(false),
            Err(errno) => return Err(errno),
        }
    }
}

/// True when a file takes less space than it has bytes.
pub(super) fn is_sparse(stat: &Stat) -> bool {
    u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512) < u64::try_from(stat.st_size).unwrap_or(0)
}

/// Offset of the next bytes of a file that are not in a hole, and of the next hole after them, both within `at..end`.
pub(super) fn next_data(file: &OwnedFd, at: u64, end: u64) -> (u64, u64) {
    let data = match rustix::fs::seek(file, SeekFrom::Data(at)) {
        Ok(data) => data.clamp(at, end),
        // The rest up to the end is a hole.
        Err(Errno::NXIO) => return (end, end),
        // The file system has no holes.
        Err(_) => return (at, end),
    };
    let hole = rustix::fs::seek(file, SeekFrom::Hole(data)).map_or(end, |hole| hole.clamp(data, end));
    // The range of data is never empty, even if the file changes between the two calls.
    if hole == data && data < end { (data, end) } else { (data, hole) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{FileExt as _, MetadataExt as _};

    use super::*;

    fn file(name: &str) -> (std::path::PathBuf, std::fs::File) {
        let path = std::env::temp_dir().join(format!("seqferry-sparse-{}-{name}", std::process::id()));
        let file = std::fs::File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        (path, file)
    }

    #[test]
    fn runs_of_zeros_become_holes_wherever_they_are_and_nothing_else_changes() {
        let mut rng = fastrand::Rng::with_seed(7);
        for case in 0..40 {
            let (path, file) = file(&format!("runs-{case}"));
            let offset = rng.u64(..3 * RUN as u64);
            let mut bytes: Vec<u8> = (0..rng.usize(..8 * RUN)).map(|_| rng.u8(1..)).collect();
            for _ in 0..rng.usize(..4) {
                let (first, last) = (rng.usize(..=bytes.len()), rng.usize(..=bytes.len()));
                bytes[first.min(last)..first.max(last)].fill(0);
            }
            let before = vec![9; 12 * RUN];
            file.write_all_at(&before, 0).unwrap();
            let handle = OwnedFd::from(file.try_clone().unwrap());

            write_with_holes(&handle, &bytes, offset).unwrap();

            let mut expected = before;
            let at = usize::try_from(offset).unwrap();
            expected[at..at + bytes.len()].copy_from_slice(&bytes);
            let mut found = vec![1; expected.len()];
            file.read_exact_at(&mut found, 0).unwrap();
            std::fs::remove_file(path).unwrap();
            assert!(found == expected, "case {case}");
        }
    }

    #[test]
    fn a_hole_takes_no_room_and_is_found_again() {
        let (path, file) = file("room");
        let mut bytes = vec![0; 64 * RUN];
        bytes[..10].fill(1);
        bytes[40 * RUN] = 1;
        file.set_len(bytes.len() as u64).unwrap();
        let handle = OwnedFd::from(file.try_clone().unwrap());

        write_with_holes(&handle, &bytes, 0).unwrap();

        let (blocks, stat) = (file.metadata().unwrap().blocks(), rustix::fs::fstat(&handle).unwrap());
        let (data, hole) = next_data(&handle, RUN as u64, bytes.len() as u64);
        std::fs::remove_file(path).unwrap();
        assert!(blocks * 512 <= 4 * RUN as u64, "{blocks} blocks");
        assert!(is_sparse(&stat));
        assert!(data > RUN as u64 && data <= 40 * RUN as u64 && hole > data);
    }
}
