//! Reading files.
//!
//! A read is pinned at both ends: the file is opened once, and its status is checked before and after the bytes are
//! read. A file that was modified meanwhile ends the body with an error, so bytes of two versions never pass for one.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt as _;
use rustix::buffer::spare_capacity;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use rustix::path::Arg;

use super::disk_failure::{DiskFailure, Result};
use super::facts::{Pin, file_type, meta};
use super::names::{DiskPath, path_of_key};
use super::{Disk, Symlinks, folders, sparse};
use crate::body::{Body, ByteStream};
use crate::error::classify::code;
use crate::store::FetchedObject;
use crate::types::{ObjectMeta, ObjectRef, PinnedObject, Range};

/// Bytes that are read in one step: large enough to hide the cost of the switch to a blocking thread.
const CHUNK: u64 = 1 << 20;
/// Largest range that is read in one piece: the caller has space for a part and then need not join pieces.
const PIECE: u64 = 8 << 20;

const GET: &str = "GetObject";

/// Converts a key into a path for reading; a key that cannot be a path counts as missing.
fn readable(key: &str) -> Result<DiskPath<'_>> {
    path_of_key(key).map_err(|fail| DiskFailure::new("NoSuchKey", fail.message))
}

fn open(folder: &OwnedFd, name: &str, symlinks: Symlinks) -> Result<OwnedFd> {
    // Opening a pipe for reading must not wait for its writer.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let flags = if symlinks == Symlinks::Follow { flags } else { flags | OFlags::NOFOLLOW };
    rustix::fs::openat(folder, name, flags, Mode::empty()).map_err(|errno| match errno {
        // A socket.
        Errno::NXIO => DiskFailure::from(Errno::NOENT),
        Errno::LOOP if symlinks != Symlinks::Follow => DiskFailure::from(Errno::NOENT),
        other => other.into(),
    })
}

/// Returns the status of a name; a link that leads nowhere is an error of its own.
pub(super) fn stat_at(folder: &OwnedFd, name: impl Arg + Copy, follow: bool) -> Result<Stat> {
    let flags = if follow { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
    rustix::fs::statat(folder, name, flags).map_err(|errno| match errno {
        Errno::LOOP => DiskFailure::no_object(code::SYMLINK_LOOP),
        Errno::NOENT if follow && rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).is_ok() => {
            DiskFailure::no_object(code::SYMLINK_DANGLING)
        }
        other => other.into(),
    })
}

/// Attributes of a key.
pub(super) fn head(disk: &Arc<Disk>, object: ObjectRef<'_>, part: Option<u32>) -> Result<ObjectMeta> {
    let place = readable(object.key)?;
    let follow = disk.options.symlinks == Symlinks::Follow;
    let folder = folders::descend(folders::root(object.bucket)?, &place.folders, follow)?;
    let stat = match place.name {
        None => rustix::fs::fstat(&folder)?,
        Some(name) => stat_at(&folder, name, follow)?,
    };
    match file_type(&stat) {
        FileType::RegularFile if place.name.is_some() => {}
        FileType::Directory if place.name.is_none() => {}
        FileType::RegularFile | FileType::Directory => return Err(Errno::NOENT.into()),
        FileType::Symlink if disk.options.symlinks == Symlinks::Keep => {}
        FileType::Symlink => return Err(DiskFailure::no_object(code::SYMLINK_SKIPPED)),
        _ => return Err(DiskFailure::no_object(code::SPECIAL_FILE)),
    }
    if part.is_some_and(|part| part != 1) {
        return Err(DiskFailure::new("InvalidRange", "a file has one part"));
    }
    Ok(meta(&stat, place.name.unwrap_or("")))
}

/// One read: the open file, and the rest of the range.
#[derive(Debug)]
struct RangeReader {
    disk: Arc<Disk>,
    source: PinnedObject,
    file: OwnedFd,
    pin: Pin,
    at: u64,
    end: u64,
    /// Bytes per chunk.
    chunk: u64,
    /// True when the file has holes, which are not read.
    is_sparse: bool,
}

/// Open a file and read its first chunk.
pub(super) fn fetch(disk: &Arc<Disk>, source: &PinnedObject, range: Option<Range>) -> Result<FetchedObject> {
    let place = readable(&source.key)?;
    let follow = disk.options.symlinks == Symlinks::Follow;
    let folder = folders::descend(folders::root(&source.bucket)?, &place.folders, follow)?;
    let Some(name) = place.name else {
        let stat = rustix::fs::fstat(&folder)?;
        check_pin(&Pin::of(&stat), source)?;
        return Ok(FetchedObject { meta: meta(&stat, ""), body: Body::from_stream(whole(Bytes::new(), range)?) });
    };
    let file = match open(&folder, name, disk.options.symlinks) {
        Err(fail) if disk.options.symlinks == Symlinks::Keep => {
            let stat = rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
            if file_type(&stat) != FileType::Symlink {
                return Err(fail);
            }
            check_pin(&Pin::of(&stat), source)?;
            let text = rustix::fs::readlinkat(&folder, name, Vec::new())?;
            return Ok(FetchedObject {
                meta: meta(&stat, name),
                body: Body::from_stream(whole(text.into_bytes().into(), range)?),
            });
        }
        other => other?,
    };
    let stat = rustix::fs::fstat(&file)?;
    if file_type(&stat) != FileType::RegularFile {
        return Err(Errno::NOENT.into());
    }
    let pin = Pin::of(&stat);
    check_pin(&pin, source)?;
    let (at, end) = match range {
        None => (0, pin.size),
        Some(range) if range.last >= pin.size => return Err(outside(range, pin.size)),
        Some(range) => (range.first, range.last + 1),
    };
    let meta = meta(&stat, name);
    let chunk = if range.is_some() && end - at <= PIECE { end - at } else { CHUNK };
    let is_sparse = sparse::is_sparse(&stat);
    let mut body = RangeReader { disk: Arc::clone(disk), source: source.clone(), file, pin, at, end, chunk, is_sparse };
    if at == end {
        return Ok(FetchedObject { meta, body: Body::from_stream(futures::stream::empty().boxed()) });
    }
    let first = body.chunk()?;
    let first = futures::stream::once(async move { Ok(first) });
    if body.at == body.end {
        return Ok(FetchedObject { meta, body: Body::from_stream(first.boxed()) });
    }
    Ok(FetchedObject { meta, body: Body::from_stream(first.chain(remaining_bytes(body)).boxed()) })
}

fn check_pin(pin: &Pin, source: &PinnedObject) -> Result<()> {
    match &source.if_match {
        Some(etag) if *etag != pin.etag() => {
            Err(DiskFailure::new("PreconditionFailed", "the file's size, time or inode is another than was listed"))
        }
        _ => Ok(()),
    }
}

fn outside(range: Range, size: u64) -> DiskFailure {
    DiskFailure::new("InvalidRange", format!("bytes {} to {} of a file of {size}", range.first, range.last))
}

fn whole(bytes: Bytes, range: Option<Range>) -> Result<ByteStream> {
    let size = bytes.len() as u64;
    let bytes = match range {
        None => bytes,
        Some(range) if range.last >= size => return Err(outside(range, size)),
        // Both are within the length of a text in memory.
        Some(range) => bytes.slice(
            usize::try_from(range.first).unwrap_or(usize::MAX)..=usize::try_from(range.last).unwrap_or(usize::MAX),
        ),
    };
    Ok(futures::stream::iter((!bytes.is_empty()).then_some(Ok(bytes))).boxed())
}

/// The chunks after the first, each read on a blocking thread.
fn remaining_bytes(body: RangeReader) -> ByteStream {
    let body = Arc::new(std::sync::Mutex::new(body));
    futures::stream::unfold(Some(body), |state| async move {
        let body = state?;
        let (disk, source) = {
            let body = body.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            if body.at == body.end {
                return None;
            }
            (Arc::clone(&body.disk), body.source.clone())
        };
        let reader = Arc::clone(&body);
        let chunk = disk
            .blocking(GET, &source.bucket, Some(&source.key), move |_| {
                reader.lock().unwrap_or_else(std::sync::PoisonError::into_inner).chunk()
            })
            .await;
        // The stream ends after an error.
        let next = chunk.is_ok().then_some(body);
        Some((chunk, next))
    })
    .boxed()
}

impl RangeReader {
    fn chunk(&mut self) -> Result<Bytes> {
        let wanted = (self.end - self.at).min(self.chunk);
        let mut bytes = Vec::with_capacity(usize::try_from(wanted).unwrap_or(0));
        while (bytes.len() as u64) < wanted {
            let at = self.at + bytes.len() as u64;
            let read = if self.is_sparse {
                self.read_data(&mut bytes, at)
            } else {
                rustix::io::pread(&self.file, spare_capacity(&mut bytes), at)
            };
            match read {
                Ok(0) => return Err(change_error()),
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        bytes.truncate(usize::try_from(wanted).unwrap_or(0));
        self.at += wanted;
        if self.at == self.end && Pin::of(&rustix::fs::fstat(&self.file)?) != self.pin {
            return Err(change_error());
        }
        Ok(bytes.into())
    }
}

impl RangeReader {
    /// Appends the next bytes of this chunk: zeros for a hole, or else the data up to the next hole.
    fn read_data(&self, bytes: &mut Vec<u8>, at: u64) -> std::result::Result<usize, Errno> {
        let (before, end) = (bytes.len(), (self.at + self.chunk).min(self.end));
        let (data, hole) = sparse::next_data(&self.file, at, end);
        let upto = if data > at { data } else { hole };
        bytes.resize(before + usize::try_from(upto - at).unwrap_or(0), 0);
        if data > at {
            return Ok(bytes.len() - before);
        }
        let read = rustix::io::pread(&self.file, &mut bytes[before..], at);
        bytes.truncate(before + read.unwrap_or(0));
        read
    }
}

fn change_error() -> DiskFailure {
    DiskFailure::new("PreconditionFailed", "the file was written to while it was read")
}
