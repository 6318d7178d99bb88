//! Contents of files: READ, WRITE, COMMIT and truncation. This is where a write is acknowledged.
//!
//! A write goes to the data file. A stable write, or a COMMIT, syncs the data file and then the journal record of its
//! ranges; the call returns after that. Ranges that were not written here are read from the object below.

use bytes::{Bytes, BytesMut};
use seqferry_share::{
    Access, Attributes, Caller, ChangeResult, ChangeStamp, FileError, FileId, FileKind, ReadData, Result,
    SetAttributes, Stability, WriteResult,
};
use seqferry_store::ObjectRef;
use seqferry_vfs::{VersionPin, VfsError};
use std::io;
use std::time::SystemTime;

use super::checks::{apply, check_data, check_set, drop_set_id};
use super::file_lock::FileLock;
use super::find::{BucketEntry, LocatedFile};
use super::{CONFLICTS, Inner};
use crate::journal::Disk;
use crate::overlay::{BaseObject, Change, FileData, FileLocation, Node};
use crate::share::{status, within_call_timeout};

/// Ranges of one file. When there are more, the smallest gaps between them are filled.
const RANGES: usize = 4096;
/// Ranges that are left then.
const FEWER_RANGES: usize = 3072;
/// Bytes of a gap that are filled at a time.
const PIECE: u64 = 1 << 20;
/// Versions of a file of the bucket that one read follows, when each is replaced just then.
const VERSIONS: u32 = 3;

fn summary(node: &Node) -> ChangeStamp {
    ChangeStamp::from(&node.attributes())
}

impl<D: Disk> Inner<D> {
    pub(super) async fn read(&self, caller: &Caller, file: FileId, offset: u64, length: u32) -> Result<ReadData> {
        let mut last = FileError::Stale;
        // While a call has it, the file does not leave the overlay.
        let lock = self.lock_of(file.number);
        for _ in 0..VERSIONS {
            let found = self.find(file).await?;
            match found.attributes.kind {
                FileKind::Directory => return Err(FileError::IsADirectory),
                FileKind::Symlink => return Err(FileError::Invalid),
                FileKind::File => {}
            }
            // A program that may run a file has it read by its client.
            check_data(caller, &found.attributes, &[Access::READ, Access::EXECUTE])?;
            let Some(lower) = found.lower else {
                let _stays = lock.data.read().await;
                match self.read_node(file.number, offset, length).await {
                    Err(FileError::Stale) => last = self.replaced(file.number),
                    read => return read,
                }
                if last != FileError::Stale {
                    return Err(last);
                }
                continue;
            };
            match within_call_timeout(async {
                Ok(self.files.read_at(lower.attributes.inode, offset, length as usize).await)
            })
            .await?
            {
                Ok(slices) => {
                    let is_end = offset.saturating_add(slices.len() as u64) >= found.attributes.size;
                    let attributes = Some(found.attributes);
                    return Ok(ReadData { slices: vec![slices.to_bytes()], is_end, attributes });
                }
                Err(VfsError::Stale) => last = FileError::Stale,
                Err(error) => return Err(status(error)),
            }
        }
        Err(last)
    }

    /// Read from a file of the overlay, while its lock is held. [`FileError::Stale`] also where bytes of it are those
    /// of an object that is not there any more.
    pub(super) async fn read_node(&self, number: u64, offset: u64, length: u32) -> Result<ReadData> {
        self.read_pieces(number, (offset, length), true).await
    }

    /// As [`Inner::read_node`], with zeros in place of the bytes of the object below.
    pub(super) async fn read_written(&self, number: u64, offset: u64, length: u32) -> Result<ReadData> {
        self.read_pieces(number, (offset, length), false).await
    }

    async fn read_pieces(&self, number: u64, (offset, length): (u64, u32), is_over_object: bool) -> Result<ReadData> {
        let (attributes, base, data) = self.overlay.read(|overlay| {
            let node = overlay.node(number).ok_or(FileError::Stale)?;
            let data = node.data().ok_or(FileError::Invalid)?;
            let end = offset.saturating_add(u64::from(length)).min(data.size);
            let pieces = if end > offset { data.written.pieces(offset, end) } else { Vec::new() };
            Ok::<_, FileError>((node.attributes(), node.base.clone(), pieces))
        })?;
        let is_end = offset.saturating_add(u64::from(length)) >= attributes.size;
        let mut slices = Vec::new();
        for (start, end, is_written) in data {
            if is_written {
                let read = self.blocking(move |data| data.read(number, start, end)).await;
                slices.push(read.map_err(|error| self.fail(&error))?);
            } else {
                let below = base.as_ref().filter(|_| is_over_object);
                slices.push(self.read_below(number, below, start, end).await?);
            }
        }
        Ok(ReadData { slices, is_end, attributes: Some(attributes) })
    }

    /// Bytes that were not written here: those of the object below, and zeros behind what shows of it.
    /// [`FileError::Stale`] where that object is not there any more.
    pub(super) async fn read_below(
        &self,
        number: u64,
        base: Option<&BaseObject>,
        start: u64,
        end: u64,
    ) -> Result<Bytes> {
        let mut bytes = BytesMut::new();
        let length = |bytes: u64| usize::try_from(bytes).map_err(|_| FileError::Invalid);
        if let Some(base) = base.filter(|base| start < base.visible) {
            let until = end.min(base.visible);
            // The upload of this file may replace the object meanwhile, with the same bytes in this range.
            let mut attempts = VERSIONS;
            while start + (bytes.len() as u64) < until {
                let found = self.object_below(number, base, attempts < VERSIONS).await?;
                let at = start + bytes.len() as u64;
                let wanted = length(until - at)?;
                match within_call_timeout(async { self.files.read_at(found.inode, at, wanted).await.map_err(status) })
                    .await
                {
                    Ok(slices) if !slices.is_empty() => bytes.extend_from_slice(&slices.to_bytes()),
                    Ok(_) | Err(FileError::Stale | FileError::NotFound) if attempts > 1 => attempts -= 1,
                    Ok(_) | Err(FileError::NotFound) => return Err(FileError::Stale),
                    Err(error) => return Err(error),
                }
            }
        }
        bytes.resize(length(end - start)?, 0);
        Ok(bytes.freeze())
    }

    /// The object below a file: the version that the file was made of, or the file as it was uploaded since. Where the
    /// bucket was read before that was uploaded, it is asked again.
    async fn object_below(&self, number: u64, base: &BaseObject, is_again: bool) -> Result<seqferry_vfs::Attributes> {
        if !is_again {
            match self.walk(&base.path).await {
                Ok(found) if self.is_version(&found, base) || self.is_upload(number, &found, base).await? => {
                    return Ok(found);
                }
                Ok(_) | Err(FileError::Stale) => {}
                Err(error) => return Err(error),
            }
        }
        let again =
            within_call_timeout(async { self.files.tree().check_path(&base.path).await.map_err(status) }).await?;
        match again {
            Some(found) if self.is_version(&found, base) || self.is_upload(number, &found, base).await? => Ok(found),
            _ => Err(FileError::Stale),
        }
    }

    /// True when an object is an upload of a file whose end is not in the journal yet, by the mark of that upload.
    /// Bytes of the object below that still show in the file are in it, at the same place.
    async fn is_upload(&self, number: u64, found: &seqferry_vfs::Attributes, base: &BaseObject) -> Result<bool> {
        let open = self.overlay.read(|overlay| overlay.uploads().get(&number).cloned());
        let Some(open) = open.filter(|open| open.path == base.path && open.size == found.size) else {
            return Ok(false);
        };
        let tree = self.files.tree();
        let Ok(version) = tree.version(found.inode) else { return Ok(false) };
        let object = ObjectRef::new(&version.bucket, &version.key);
        let there =
            within_call_timeout(async { tree.source().head(object).await.map_err(|error| status(error.into())) }).await;
        match there {
            Ok(there) => Ok(version.pin == VersionPin::Etag(there.etag.as_str().into()) && open.has_made(&there)),
            Err(FileError::Stale | FileError::NotFound) => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub(super) fn is_version(&self, found: &seqferry_vfs::Attributes, base: &BaseObject) -> bool {
        let version = self.files.tree().version(found.inode);
        version.is_ok_and(|version| version.pin == VersionPin::Etag((&*base.etag).into()))
    }

    /// The object below a file is not there any more. Stale: the bucket has the file as it was, and nothing is lost; it
    /// is checked again. Else the handle of the file is sound, and bytes of it are not known.
    fn replaced(&self, number: u64) -> FileError {
        let (node, is_sent) =
            self.overlay.read(|overlay| (overlay.node(number).cloned(), overlay.uploads().contains_key(&number)));
        let Some((node, base)) = node.and_then(|node| node.base.clone().map(|base| (node, base))) else {
            return FileError::Stale;
        };
        if !node.is_changed() && is_sent {
            // A rename is under way, and will find out.
            return FileError::TryLater;
        }
        if !node.is_changed() {
            self.invalidate(number);
            return FileError::Stale;
        }
        let path = &base.path;
        if node.gaps().is_empty() {
            tracing::warn!("{path} was replaced or removed in the bucket before what was changed of it here was there");
            return FileError::Io;
        }
        tracing::warn!(
            "{path} was replaced or removed in the bucket after a part of it was changed here: the bytes that were not \
             written here are not known any more. Those that were are kept in {CONFLICTS} when the file is uploaded"
        );
        FileError::Io
    }

    /// The number of a file that can be written; the file becomes a node where it is not one yet.
    async fn writable(&self, caller: &Caller, file: FileId) -> Result<u64> {
        let found = self.find(file).await?;
        match found.attributes.kind {
            FileKind::Directory => return Err(FileError::IsADirectory),
            FileKind::Symlink => return Err(FileError::Invalid),
            FileKind::File => {}
        }
        check_data(caller, &found.attributes, &[Access::MODIFY])?;
        if let Some(lower) = &found.lower {
            self.adopt(file, lower).await?;
        }
        Ok(file.number)
    }

    /// Make a file of the bucket a node. Its record is on the disk before any that follows.
    async fn adopt(&self, file: FileId, lower: &BucketEntry) -> Result<()> {
        let target = if lower.attributes.kind == seqferry_vfs::FileKind::Symlink {
            self.target(file).await?
        } else {
            Bytes::new()
        };
        let (parent, name) = self.place(file)?;
        let adopted = self.overlay.record(|overlay| match overlay.locate(&self.file_table, file)? {
            FileLocation::Node(_) => Ok((Vec::new(), ())),
            FileLocation::Bucket(path) if path == lower.path => {
                let node = self.adopted(file, (parent, &name), lower, &target)?;
                Ok((vec![Change::Put(Box::new(node))], ()))
            }
            // A directory above was renamed meanwhile.
            FileLocation::Bucket(_) => Err(FileError::TryLater),
        });
        adopted.await.map(drop)
    }

    pub(super) async fn write(
        &self,
        caller: &Caller,
        file: FileId,
        offset: u64,
        bytes: Bytes,
        stability: Stability,
    ) -> Result<WriteResult> {
        self.check_disk()?;
        let lock = self.lock_of(file.number);
        let number = self.writable(caller, file).await?;
        let length = u32::try_from(bytes.len()).map_err(|_| FileError::Invalid)?;
        let end = offset.checked_add(u64::from(length)).ok_or(FileError::TooLarge)?;
        let (mut file, is_scattered) = {
            let _stays = lock.data.read().await;
            // The file may have been removed while this call waited.
            self.overlay.read(|overlay| overlay.node(number).map(drop)).ok_or(FileError::Stale)?;
            if !bytes.is_empty() {
                let taken = self.write_bytes(number, offset, bytes).await;
                self.waiting_writers.answered(number, taken == Err(FileError::TryLater));
                taken?;
            }
            let written = |node: &mut Node| {
                let before = Some(summary(node));
                if length > 0 {
                    node.touch_bytes();
                    node.writer = Some(caller.into());
                    drop_set_id(node, caller);
                }
                let data = node.data_mut().ok_or(FileError::Invalid)?;
                if length > 0 {
                    data.size = data.size.max(end);
                    data.written.add(offset, end);
                    data.unsynced.add(offset, end);
                }
                let (is_scattered, size) = (data.written.len() > RANGES, data.size);
                self.recent_writes.note(number, size, offset, end);
                Ok::<_, FileError>((ChangeResult { before, after: Some(node.attributes()) }, is_scattered))
            };
            self.overlay.note(|overlay| overlay.edit(number, written)).ok_or(FileError::Stale)??
        };
        if is_scattered {
            self.fill(number, &lock).await?;
        }
        let stability = if stability == Stability::Unstable { stability } else { Stability::File };
        if stability == Stability::File {
            let after = self.commit_node(number, &lock).await?;
            file.after = Some(after);
        }
        Ok(WriteResult { file, length, stability })
    }

    pub(super) async fn write_bytes(&self, number: u64, offset: u64, bytes: Bytes) -> Result<()> {
        let written = self.blocking(move |data| {
            if data.is_full() {
                return Err(io::ErrorKind::StorageFull.into());
            }
            data.write(number, offset, &bytes)
        });
        written.await.map_err(|error| match error.kind() {
            // Clients ask again until there is room.
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => FileError::TryLater,
            io::ErrorKind::FileTooLarge => FileError::TooLarge,
            _ => self.fail(&error),
        })
    }

    /// Fill the smallest gaps of a file that was written in very many places.
    async fn fill(&self, number: u64, lock: &FileLock) -> Result<()> {
        let _alone = lock.data.write().await;
        loop {
            let (gap, base) = self.overlay.read(|overlay| {
                let node = overlay.node(number).ok_or(FileError::Stale)?;
                let written = node.data().map(|data| &data.written).filter(|written| written.len() > FEWER_RANGES);
                Ok::<_, FileError>((written.and_then(crate::overlay::Extents::smallest_gap), node.base.clone()))
            })?;
            let Some((start, end)) = gap else { return Ok(()) };
            let end = end.min(start + PIECE);
            let bytes = self.read_below(number, base.as_ref(), start, end).await;
            let bytes = bytes.map_err(|error| if error == FileError::Stale { FileError::Io } else { error })?;
            self.write_bytes(number, start, bytes).await?;
            self.overlay.note(|overlay| {
                if let Some(data) = overlay.data_mut(number) {
                    data.written.add(start, end);
                    data.unsynced.add(start, end);
                }
            });
        }
    }

    pub(super) async fn commit(&self, file: FileId) -> Result<ChangeResult> {
        let lock = self.lock_of(file.number);
        let LocatedFile { attributes, lower } = self.find(file).await?;
        if attributes.kind == FileKind::Directory {
            return Err(FileError::IsADirectory);
        }
        if lower.is_some() || attributes.kind == FileKind::Symlink {
            return Ok(ChangeResult { before: Some(ChangeStamp::from(&attributes)), after: Some(attributes) });
        }
        let after = self.commit_node(file.number, &lock).await?;
        Ok(ChangeResult { before: Some(ChangeStamp::from(&after)), after: Some(after) })
    }

    /// Bring all bytes of a file to the disk that were written before, and their record.
    pub(super) async fn commit_node(&self, number: u64, lock: &FileLock) -> Result<Attributes> {
        self.check_disk()?;
        let _one = lock.commit.lock().await;
        let _stays = lock.data.read().await;
        let (pending, size, attributes) = self.overlay.note(|overlay| {
            let attributes = overlay.node(number).ok_or(FileError::Stale)?.attributes();
            let data = overlay.data_mut(number).ok_or(FileError::Invalid)?;
            Ok::<_, FileError>((std::mem::take(&mut data.unsynced), data.size, attributes))
        })?;
        if pending.is_empty() && !self.data.is_left(number) {
            // A record of another call may not be on the disk yet.
            self.overlay.wait_until_durable().await?;
            return Ok(attributes);
        }
        self.blocking(move |data| data.sync(number)).await.map_err(|error| self.fail(&error))?;
        let recorded = self.overlay.change(|overlay| {
            let mut node = overlay.node(number).cloned().ok_or(FileError::Stale)?;
            let data = node.data_mut().ok_or(FileError::Invalid)?;
            data.durable.add_all(&pending);
            data.durable_size = data.durable_size.max(size);
            join_gaps(data);
            Ok((vec![Change::Put(Box::new(node))], ()))
        });
        // The next call commits the bytes that have no record, if the journal works then.
        recorded.await.inspect_err(|_| self.give_back(number, &pending))?;
        Ok(attributes)
    }

    fn give_back(&self, number: u64, pending: &crate::overlay::Extents) {
        self.overlay.note(|overlay| {
            if let Some(data) = overlay.data_mut(number) {
                data.unsynced.add_all(pending);
            }
        });
    }

    pub(super) async fn set(
        &self,
        caller: &Caller,
        file: FileId,
        set: SetAttributes,
        unchanged_since: Option<SystemTime>,
    ) -> Result<ChangeResult> {
        self.check_disk()?;
        let lock = self.lock_of(file.number);
        let found = self.find(file).await?;
        if unchanged_since.is_some_and(|time| time != found.attributes.changed) {
            return Err(FileError::NotSynchronized);
        }
        if set.size.is_some() {
            match found.attributes.kind {
                FileKind::Directory => return Err(FileError::IsADirectory),
                FileKind::Symlink => return Err(FileError::Invalid),
                FileKind::File => {}
            }
        }
        check_set(caller, &found.attributes, &set)?;
        if set == SetAttributes::default() {
            return Ok(ChangeResult {
                before: Some(ChangeStamp::from(&found.attributes)),
                after: Some(found.attributes),
            });
        }
        if let Some(lower) = &found.lower {
            self.adopt(file, lower).await?;
        }
        let alone = if set.size.is_some() { Some(lock.data.write().await) } else { None };
        let changed = self.overlay.change(|overlay| {
            let mut node = overlay.node(file.number).cloned().ok_or(FileError::Stale)?;
            let before = node.attributes();
            if unchanged_since.is_some_and(|time| time != before.changed) {
                return Err(FileError::NotSynchronized);
            }
            check_set(caller, &before, &set)?;
            match set.size {
                Some(size) => resize(&mut node, caller, size),
                None => node.touch(),
            }
            apply(&mut node, caller, &set);
            node.writer = Some(caller.into());
            let after = node.attributes();
            Ok((vec![Change::Put(Box::new(node))], (before, after)))
        });
        let (before, after) = changed.await?;
        if let Some(size) = set.size {
            let number = file.number;
            // Bytes behind the end are unused and only occupy space.
            let _kept = self.blocking(move |data| data.cut(number, size)).await;
        }
        drop(alone);
        Ok(ChangeResult { before: Some(ChangeStamp::from(&before)), after: Some(after) })
    }
}

fn resize(node: &mut Node, caller: &Caller, size: u64) {
    node.touch_bytes();
    drop_set_id(node, caller);
    if let Some(base) = &mut node.base {
        base.visible = base.visible.min(size);
    }
    if let Some(data) = node.data_mut() {
        data.resize(size);
    }
}

/// Ranges on the disk that have become too many for a record join over gaps that were written, and synced, before.
fn join_gaps(data: &mut FileData) {
    if data.durable.len() > RANGES && data.unsynced.is_empty() {
        data.durable = data.written.clone();
    }
}
