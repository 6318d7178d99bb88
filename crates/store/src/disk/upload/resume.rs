//! Uploads that are opened again: what their records and their bytes say.

use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::sync::{Condvar, Mutex, OnceLock};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::{READ_BACK, RECORD_MAX, State, UploadHandles, gone, remove};
use crate::disk::disk_failure::{DiskFailure, Result};
use crate::disk::facts::{Pin, file_type};
use crate::disk::folders;
use crate::disk::names::{FilePurpose, path_of_key};
use crate::disk::record::{self, DiskUploadRecord, OpenUpload, RecordLine};
use crate::types::UploadRef;

/// Reads the record of an upload in a folder. None: there is no readable one.
pub(super) fn read_record(
    folder: &OwnedFd,
    id: &str,
    boot: Option<&str>,
) -> Result<Option<(OwnedFd, DiskUploadRecord)>> {
    // A pipe is not waited for.
    let flags = OFlags::RDWR | OFlags::APPEND | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::openat(folder, FilePurpose::Record.name(id), flags, Mode::empty()) {
        Ok(file) => file,
        Err(Errno::NOENT | Errno::LOOP | Errno::ISDIR | Errno::NXIO) => return Ok(None),
        Err(errno) => return Err(errno.into()),
    };
    let stat = rustix::fs::fstat(&file)?;
    if file_type(&stat) != FileType::RegularFile || stat.st_nlink > 1 {
        // Lines would go into a file of another name.
        return Ok(None);
    }
    let mut text = Vec::new();
    let file = std::fs::File::from(file);
    (&file)
        .take(RECORD_MAX)
        .read_to_end(&mut text)
        .map_err(|error| DiskFailure::from(Errno::from_io_error(&error).unwrap_or(Errno::IO)))?;
    Ok(record::read(&text, boot).map(|record| (file.into(), record)))
}

/// Resume an upload that another process has begun (`read_back`), or this one some time ago.
///
/// The record names the parts that were whole when their writer ended. Only reading their bytes shows whether they
/// still are.
pub(super) fn reopen(boot: Option<&str>, upload: UploadRef<'_>, read_back: bool) -> Result<UploadHandles> {
    let UploadRef { bucket, key, upload_id: id } = upload;
    let place = path_of_key(key).map_err(|_| gone())?;
    let folder = folders::descend_to_change(folders::root(bucket)?, &place.folders)?.ok_or_else(gone)?;
    let (log, record) = read_record(&folder, id, boot)?
        .filter(|(_, record)| Some(record.begun.name.as_str()) == place.name && !record.broken)
        .ok_or_else(gone)?;
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let bytes = match rustix::fs::openat(&folder, FilePurpose::Parts.name(id), flags, Mode::empty()) {
        Ok(bytes) => Some(bytes),
        Err(Errno::NOENT) => {
            // The file has its final name, unless another program removed or replaced it.
            let done = record.done.as_ref().map(|(etag, _)| etag.as_str());
            let there = rustix::fs::statat(&folder, record.begun.name.as_str(), AtFlags::SYMLINK_NOFOLLOW);
            if !there.is_ok_and(|stat| Some(Pin::of(&stat).etag().as_str()) == done) {
                return Err(gone());
            }
            None
        }
        Err(errno) => return Err(errno.into()),
    };
    let mut state = State::new(log, record);
    if read_back && let Some(bytes) = &bytes {
        if !is_unmodified(bytes, &state.record.begun)? {
            // Writes to it would go into another file too, or into a file that was moved away.
            remove(&folder, id)?;
            return Err(gone());
        }
        for number in find_corrupt_parts(bytes, &state.record)? {
            state.append(&RecordLine::Drop(number)).map_err(DiskFailure::of_write)?;
            state.record.parts.remove(&number);
        }
    }
    Ok(UploadHandles {
        bucket: bucket.to_owned(),
        key: key.to_owned(),
        o_direct: OnceLock::new(),
        id: id.to_owned(),
        folder,
        bytes,
        state: Mutex::new(state),
        ended: Condvar::new(),
    })
}

/// True when a file is unchanged since its space was reserved: neither truncated nor linked to another name.
pub(super) fn is_unmodified(bytes: &OwnedFd, begun: &OpenUpload) -> Result<bool> {
    let stat = rustix::fs::fstat(bytes)?;
    Ok(file_type(&stat) == FileType::RegularFile && stat.st_nlink == 1 && has_reserved_size(&stat, begun))
}

/// True when the reserved space was not truncated. Without a size no space was reserved.
pub(super) fn has_reserved_size(stat: &Stat, begun: &OpenUpload) -> bool {
    begun.size == 0 || u64::try_from(stat.st_size).unwrap_or(0) >= begun.size
}

/// Parts whose bytes differ from the record.
pub(super) fn find_corrupt_parts(bytes: &OwnedFd, record: &DiskUploadRecord) -> Result<Vec<u32>> {
    let mut buffer = vec![0; READ_BACK];
    let mut spoilt = Vec::new();
    for (number, part) in &record.parts {
        let mut crc64 = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc64Nvme);
        let (mut at, mut left) = (u64::from(number - 1) * record.begun.part_size, part.size);
        while left > 0 {
            let at_most = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            match rustix::io::pread(bytes, &mut buffer[..at_most], at) {
                Ok(0) => break,
                Ok(came) => {
                    crc64.update(&buffer[..came]);
                    (at, left) = (at + came as u64, left - came as u64);
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        if left > 0 || crc64.finalize() != part.crc64 {
            spoilt.push(*number);
        }
    }
    Ok(spoilt)
}
