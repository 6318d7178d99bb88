//! Writing whole files, and removing them.
//!
//! Killed before the rename: a `.tmp` file is left, which the next writer in that folder removes. Killed after: the file is
//! whole under its name, and the request can be made again. There is no moment at which half a file has the final name.

use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags, Timestamps};
use rustix::io::Errno;

use super::direct::{BLOCK, Direct, Kept, PIECE};
use super::facts::{Pin, Wanted, file_type, timespec};
use super::fail::{Fail, Result};
use super::folders::{self, Folders, of_target};
use super::names::{Unfinished, fresh_id, place};
use super::{DiskOptions, PageCache, Symlinks, full};
use crate::error::classify::code;
use crate::types::{Attributes, Written};

/// From so many bytes on it pays to write a whole file past the system's cache (`docs/performance.md`).
const WORTH_PASSING: usize = 64 << 10;

/// The longest text of a symbolic link on Linux.
const LINK_MAX: usize = 4095;

/// An unfinished file, removed when it is dropped unfinished.
pub(super) struct Temporary<'a> {
    pub(super) folder: &'a OwnedFd,
    pub(super) name: String,
    finished: bool,
}

impl Temporary<'_> {
    pub(super) fn finished(mut self) {
        self.finished = true;
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if !self.finished {
            let _best_effort = rustix::fs::unlinkat(self.folder, self.name.as_str(), AtFlags::empty());
        }
    }
}

/// Make an unfinished file that is ours alone while it is open.
pub(super) fn create<'a>(
    folder: &'a OwnedFd,
    name: String,
    wanted: &Wanted,
    in_root: bool,
) -> Result<(Temporary<'a>, OwnedFd)> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    // From the first byte nobody may read it who may not read it when it is finished. Without a wish: as the user's umask says.
    let mode = Mode::from_raw_mode(wanted.permissions.map_or(0o666, |mode| mode | 0o600));
    let file = rustix::fs::openat(folder, name.as_str(), flags, mode).map_err(if in_root {
        of_target
    } else {
        Fail::of_write
    })?;
    let temporary = Temporary { folder, name, finished: false };
    // Says to others that its writer lives. Where there are no locks, nobody can take it for abandoned either.
    let _none_offered = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive);
    Ok((temporary, file))
}

/// Write all bytes at an offset.
pub(super) fn write_at(file: &OwnedFd, mut bytes: &[u8], mut offset: u64) -> std::result::Result<(), Errno> {
    while !bytes.is_empty() {
        match rustix::io::pwrite(file, bytes, offset) {
            Ok(0) => return Err(Errno::IO),
            Ok(n) => {
                bytes = &bytes[n..];
                offset += n as u64;
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Write a new file. Past the system's cache, there is nothing left for the sync to write, and no page to be made for it.
fn write_whole(
    (temporary, file): (&Temporary<'_>, &OwnedFd),
    bytes: &[u8],
    cache: PageCache,
) -> std::result::Result<(), Errno> {
    let past = cache == PageCache::Past && bytes.len() >= WORTH_PASSING;
    let direct = if past { Direct::open(file, temporary.folder, &temporary.name) } else { None };
    let Some(direct) = direct else { return write_at(file, bytes, 0) };
    // A copy, to where blocks have to lie; a cheap one, as it stays in the processor's cache.
    let mut kept = Kept::new(0, PIECE.min(bytes.len().next_multiple_of(BLOCK)));
    let mut rest = bytes;
    while !rest.is_empty() {
        let (into, room) = kept.room();
        let (now, later) = rest.split_at(room.min(rest.len()));
        into.extend_from_slice(now);
        rest = later;
        kept.write_past_cache(file, &direct.file)?;
    }
    Ok(())
}

/// Give a written file its times and permissions, and make sure of it; returns what pins it.
pub(super) fn finish(file: &OwnedFd, wanted: &Wanted, durable: bool) -> std::result::Result<Pin, Errno> {
    if let Some(mode) = wanted.permissions {
        where_there_are_any(rustix::fs::fchmod(file, Mode::from_raw_mode(mode)))?;
    }
    if let Some(mtime) = wanted.mtime {
        let times = Timestamps { last_access: timespec(mtime), last_modification: timespec(mtime) };
        where_there_are_any(rustix::fs::futimens(file, &times))?;
    }
    if durable {
        rustix::fs::fsync(file)?;
    }
    Ok(Pin::of(&rustix::fs::fstat(file)?))
}

/// Some file systems (FAT, SMB) keep no permissions, or not all times, and refuse them even to the file's owner: the bytes are
/// worth keeping without.
fn where_there_are_any(set: std::result::Result<(), Errno>) -> std::result::Result<(), Errno> {
    match set {
        Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => Ok(()),
        other => other,
    }
}

pub(super) fn put(
    folders: &Folders,
    options: &DiskOptions,
    bucket: &str,
    key: &str,
    (body, crc64): (&[u8], u64),
    attributes: &Attributes,
) -> Result<Written> {
    let place = place(key)?;
    let root = folders::root_for_writing(bucket, options)?;
    let Some(name) = place.name else {
        if !body.is_empty() {
            let message = format!("the object has {} bytes", body.len());
            return Err(Fail::new(code::FOLDER_WITH_BYTES, message));
        }
        let folder = folders.descend_and_make(root, &place.folders, options.durable)?;
        let etag = Pin::of(&rustix::fs::fstat(&folder)?).etag();
        return Ok(Written { etag, version_id: None, checksum: Some(full(crc64)) });
    };
    let folder = folders.descend_and_make(root, &place.folders, options.durable)?;
    let wanted = Wanted::of(attributes);
    let temporary = Unfinished::Whole.name(&fresh_id());
    let pin = if wanted.link && options.symlinks == Symlinks::Keep {
        put_link(&folder, &temporary, body, &wanted, |temporary| folders.rename(&folder, temporary, name))?
    } else {
        let (temporary, file) = create(&folder, temporary, &wanted, place.folders.is_empty())?;
        write_whole((&temporary, &file), body, options.cache).map_err(Fail::of_write)?;
        let pin = finish(&file, &wanted, options.durable).map_err(Fail::of_write)?;
        folders.rename(&folder, &temporary.name, name)?;
        temporary.finished();
        pin
    };
    if options.durable {
        folders.sync(&folder).map_err(Fail::of_write)?;
    }
    Ok(Written { etag: pin.etag(), version_id: None, checksum: Some(full(crc64)) })
}

fn put_link(
    folder: &OwnedFd,
    name: &str,
    body: &[u8],
    wanted: &Wanted,
    rename: impl FnOnce(&str) -> Result<()>,
) -> Result<Pin> {
    if body.is_empty() || body.len() > LINK_MAX || body.contains(&0) {
        let message = format!("{} bytes cannot be what a symbolic link points to", body.len());
        return Err(Fail::new(code::NAME_NOT_ALLOWED, message));
    }
    rustix::fs::symlinkat(body, folder, name).map_err(Fail::of_write)?;
    let temporary = Temporary { folder, name: name.to_owned(), finished: false };
    if let Some(mtime) = wanted.mtime {
        let times = Timestamps { last_access: timespec(mtime), last_modification: timespec(mtime) };
        rustix::fs::utimensat(folder, name, &times, AtFlags::SYMLINK_NOFOLLOW)?;
    }
    let pin = Pin::of(&rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).map_err(Fail::of_write)?);
    rename(name)?;
    temporary.finished();
    Ok(pin)
}

/// Remove a file, or an empty folder. What is not there counts as removed; a folder that holds something stays.
pub(super) fn delete(folders: &Folders, options: &DiskOptions, bucket: &str, key: &str) -> Result<()> {
    let place = place(key)?;
    let Some((name, above)) = place.name.map(|name| (name, &place.folders[..])).or_else(|| {
        let (name, above) = place.folders.split_last()?;
        Some((*name, above))
    }) else {
        return Ok(());
    };
    let Some(folder) = folders::descend_to_change(folders::root(bucket)?, above)? else { return Ok(()) };
    let flags = if place.name.is_none() { AtFlags::REMOVEDIR } else { AtFlags::empty() };
    if place.name.is_some() {
        match rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            // No object has this key.
            Ok(stat) if file_type(&stat) == FileType::Directory => return Ok(()),
            _ => {}
        }
    }
    match rustix::fs::unlinkat(&folder, name, flags) {
        Ok(()) if options.durable => folders.sync(&folder).map_err(Fail::of_write),
        Ok(()) | Err(Errno::NOENT | Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => Ok(()),
        Err(errno) if above.is_empty() => Err(of_target(errno)),
        Err(errno) => Err(errno.into()),
    }
}
