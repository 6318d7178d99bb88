//! Writing whole files, and removing them.
//!
//! A kill before the rename leaves a `.tmp` file, which the next writer in that folder removes. After a kill following
//! the rename the file is whole under its name, and the request can be repeated. At no moment has half a file the final
//! name.

use std::os::fd::OwnedFd;

use bytes::Bytes;
use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags, Timestamps};
use rustix::io::Errno;

use super::disk_failure::{DiskFailure, Result};
use super::facts::{FileAttributes, Pin, file_type, timespec};
use super::folders::{self, Folders, of_target};
use super::names::{FilePurpose, fresh_id, path_of_key};
use super::positioned::write_at;
use super::{DiskOptions, PageCache, Permissions, Symlinks, crc64_of, full, o_direct, sparse};
use crate::body::WORTH_PASSING;
use crate::error::classify::code;
use crate::types::{ObjectRef, PutObject, WrittenObject};

/// Attempts to create a file under a new name. A name is lost only to a cleaner that visits the folder within
/// microseconds.
const ATTEMPTS: u32 = 16;

/// The longest text of a symbolic link on Linux.
const LINK_MAX: usize = 4095;

/// An unfinished file, removed when it is dropped unfinished.
pub(super) struct UnfinishedFile<'a> {
    pub(super) folder: &'a OwnedFd,
    pub(super) name: String,
    finished: bool,
}

impl UnfinishedFile<'_> {
    pub(super) fn disarm(mut self) {
        self.finished = true;
    }
}

impl Drop for UnfinishedFile<'_> {
    fn drop(&mut self) {
        if !self.finished {
            let _best_effort = rustix::fs::unlinkat(self.folder, self.name.as_str(), AtFlags::empty());
        }
    }
}

/// Makes unfinished files under an id that no other writer has. `make` returns None when a cleaner has removed one of
/// them as abandoned: then all are made again under another id.
pub(super) fn with_fresh_id<T>(mut make: impl FnMut(&str) -> Result<Option<T>>) -> Result<T> {
    for _ in 0..ATTEMPTS {
        if let Some(made) = make(&fresh_id())? {
            return Ok(made);
        }
    }
    Err(DiskFailure::of_write(Errno::AGAIN))
}

/// Makes an unfinished file that is locked by us while it is open. None: a cleaner removed it between its creation and
/// its lock.
pub(super) fn create<'a>(
    folder: &'a OwnedFd,
    name: String,
    wanted: &FileAttributes,
    in_root: bool,
) -> Result<Option<(UnfinishedFile<'a>, OwnedFd)>> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    // The file is never readable by more users than when it is finished. Without a mode the umask applies.
    let mode = Mode::from_raw_mode(wanted.permissions.map_or(0o666, |mode| mode | 0o600));
    let file = rustix::fs::openat(folder, name.as_str(), flags, mode).map_err(if in_root {
        of_target
    } else {
        DiskFailure::of_write
    })?;
    let temporary = UnfinishedFile { folder, name, finished: false };
    #[cfg(test)]
    super::folders::interleave::run(super::folders::interleave::Moment::WriterCreated, folder);
    // The lock shows cleaners that the writer is alive. A cleaner that was faster holds it until the name is gone.
    let is_ours = match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => rustix::fs::statat(folder, temporary.name.as_str(), AtFlags::SYMLINK_NOFOLLOW).is_ok(),
        Err(Errno::WOULDBLOCK) => false,
        // On a file system without locks no cleaner treats a file as abandoned.
        Err(_) => true,
    };
    Ok(is_ours.then_some((temporary, file)))
}

/// Writes a new file. A write past the page cache leaves nothing for the sync to write, and needs no page of it.
fn write_whole(file: &OwnedFd, bytes: &[u8], past_cache: bool) -> std::result::Result<(), Errno> {
    if sparse::has_run(bytes) {
        rustix::fs::ftruncate(file, bytes.len() as u64)?;
        return sparse::write_with_holes(file, bytes, 0);
    }
    let past_cache = past_cache && bytes.len() >= WORTH_PASSING;
    let done = if past_cache { o_direct::write_first(file, bytes)? } else { 0 };
    write_at(file, &bytes[done..], done as u64)
}

/// Sets times and permissions of a written file, and sync it; returns its pinned facts.
pub(super) fn finish(
    file: &OwnedFd,
    wanted: &FileAttributes,
    options: &DiskOptions,
) -> std::result::Result<Pin, Errno> {
    set_attributes(file, wanted, options)?;
    sync_file(file, options.durable)
}

/// Permissions only narrow those that a new file or folder got here from the umask or the folder's default ACL; with
/// [`Permissions::Preserve`] they are set unchanged.
fn set_attributes(file: &OwnedFd, wanted: &FileAttributes, options: &DiskOptions) -> std::result::Result<(), Errno> {
    if let Some(wanted) = wanted.permissions {
        let now = rustix::fs::fstat(file)?.st_mode & 0o7777;
        let allowed = if options.permissions == Permissions::Preserve { 0o777 } else { now };
        // Other bits of a folder (setgid) are inherited from its parent.
        let mode = (wanted & allowed) | (now & 0o7000);
        if mode != now {
            ignore_unsupported(rustix::fs::fchmod(file, Mode::from_raw_mode(mode)))?;
        }
    }
    if let Some(mtime) = wanted.mtime {
        let times = Timestamps { last_access: timespec(mtime), last_modification: timespec(mtime) };
        ignore_unsupported(rustix::fs::futimens(file, &times))?;
    }
    Ok(())
}

fn sync_file(file: &OwnedFd, durable: bool) -> std::result::Result<Pin, Errno> {
    if durable {
        rustix::fs::fsync(file)?;
    }
    Ok(Pin::of(&rustix::fs::fstat(file)?))
}

/// Ignores refusals of permissions or times. Some file systems (FAT, SMB) do not keep all of them, and refuse them even
/// to the file's owner; the bytes are worth keeping without them.
fn ignore_unsupported(set: std::result::Result<(), Errno>) -> std::result::Result<(), Errno> {
    match set {
        Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => Ok(()),
        other => other,
    }
}

/// A whole file, folder or link to be written.
#[derive(Debug)]
pub(super) struct PutRequest {
    pub(super) object: PutObject,
    pub(super) body: Bytes,
}

/// A folder that is written to.
struct TargetFolder<'a> {
    bucket: &'a str,
    names: Vec<&'a str>,
    handle: OwnedFd,
    past_cache: bool,
    /// The folder is on the file system of the root, which a sync of the root reaches.
    is_of_root: bool,
}

/// An entry whose bytes are written.
enum OpenWrite<'a> {
    File {
        temporary: UnfinishedFile<'a>,
        file: OwnedFd,
        name: &'a str,
    },
    /// An empty folder that got its time and permissions.
    Folder(&'a OwnedFd),
    /// A link, or another folder: no further step is needed.
    Other(SyncedWrite<'a>),
}

/// A synced entry whose name is not synced yet.
struct SyncedWrite<'a> {
    pin: Pin,
    /// The temporary file or link, the file itself, held open for its lock, and the final name. None: a folder, which
    /// has its name.
    unnamed: Option<(UnfinishedFile<'a>, Option<OwnedFd>, &'a str)>,
}

/// Writes all objects of a group; returns the result of each.
///
/// All objects finish one step before any begins the next. A sync waits for the file system's journal; the first sync
/// waits for all files that were changed before it.
pub(super) fn put_all(folders: &Folders, options: &DiskOptions, group: &[PutRequest]) -> Vec<Result<WrittenObject>> {
    let mut reached = Vec::new();
    let places: Vec<_> = group.iter().map(|whole| open_target(folders, options, &mut reached, whole)).collect();
    let at_work: Vec<Result<_>> = places
        .into_iter()
        .zip(group)
        .map(|(place, whole)| {
            let (at, name) = place?;
            Ok((at, begin(options, &reached[at], name, whole)?))
        })
        .collect();
    let at_work: Vec<Result<_>> = at_work
        .into_iter()
        .zip(group)
        .map(|(one, whole)| {
            let (at, begun) = one?;
            Ok((at, begun.sync(&reached[at].handle, options.durable, reached[at].defers_sync(whole))?))
        })
        .collect();
    let at_work: Vec<Result<_>> = at_work
        .into_iter()
        .zip(group)
        .map(|(one, whole)| {
            let (at, sure) = one?;
            Ok((at, sure.rename_final(folders, &reached[at].handle, whole.object.if_absent)?))
        })
        .collect();
    let mut synced = vec![None; reached.len()];
    at_work
        .into_iter()
        .zip(group)
        .map(|(one, whole)| {
            let (at, pin) = one?;
            // A folder itself was synced when it was made.
            let now = options.durable && !reached[at].defers_sync(whole);
            if now && !whole.object.key.ends_with('/') {
                synced[at].get_or_insert_with(|| folders.sync(&reached[at].handle)).map_err(DiskFailure::of_write)?;
            }
            let crc64 = crc64_of(&whole.object.digests, &whole.body);
            Ok(WrittenObject { etag: pin.etag(), version_id: None, checksum: Some(full(crc64)), encryption: None })
        })
        .collect()
}

impl TargetFolder<'_> {
    /// True when the caller syncs an object later, with others.
    fn defers_sync(&self, whole: &PutRequest) -> bool {
        whole.object.defer_sync && self.is_of_root
    }
}

/// Opens the target folder of an object, unless it is open for another one of the group. Returns its index in
/// `reached`, and the name in it.
fn open_target<'a>(
    folders: &Folders,
    options: &DiskOptions,
    reached: &mut Vec<TargetFolder<'a>>,
    whole: &'a PutRequest,
) -> Result<(usize, Option<&'a str>)> {
    let bucket = whole.object.bucket.as_str();
    let place = path_of_key(&whole.object.key)?;
    let known = reached.iter().position(|one| one.bucket == bucket && one.names == place.folders);
    if place.name.is_none() && !whole.body.is_empty() {
        let message = format!("the object has {} bytes", whole.body.len());
        return Err(DiskFailure::new(code::FOLDER_WITH_BYTES, message));
    }
    if let Some(at) = known {
        return Ok((at, place.name));
    }
    let root = folders::root_for_writing(bucket, options)?;
    let device = rustix::fs::fstat(&root)?.st_dev;
    let handle = folders.descend_and_make(root, &place.folders, options.durable)?;
    let past_cache = options.cache == PageCache::Bypass && o_direct::takes_blocks(&handle);
    let is_of_root = rustix::fs::fstat(&handle)?.st_dev == device;
    reached.push(TargetFolder { bucket, names: place.folders, handle, past_cache, is_of_root });
    Ok((reached.len() - 1, place.name))
}

/// Writes one object of a group to an unfinished file or link.
fn begin<'a>(
    options: &DiskOptions,
    folder: &'a TargetFolder<'_>,
    name: Option<&'a str>,
    whole: &PutRequest,
) -> Result<OpenWrite<'a>> {
    let wanted = FileAttributes::of(&whole.object.attributes);
    let Some(name) = name else {
        // Times and permissions of a folder that is not empty were set on purpose.
        if wanted.kind == Some(FileType::Directory) && folders::is_empty(&folder.handle) {
            // Other writers may be about to put files into it.
            let wanted = FileAttributes { permissions: wanted.permissions.map(|mode| mode | 0o700), ..wanted };
            set_attributes(&folder.handle, &wanted, options).map_err(DiskFailure::of_write)?;
            return Ok(OpenWrite::Folder(&folder.handle));
        }
        return Ok(OpenWrite::Other(SyncedWrite { pin: Pin::of(&rustix::fs::fstat(&folder.handle)?), unnamed: None }));
    };
    if wanted.kind == Some(FileType::Symlink) && options.symlinks == Symlinks::Keep {
        let temporary = FilePurpose::Whole.name(&fresh_id());
        let (temporary, pin) = make_link(&folder.handle, temporary, &whole.body, &wanted)?;
        return Ok(OpenWrite::Other(SyncedWrite { pin, unnamed: Some((temporary, None, name)) }));
    }
    let (temporary, file) =
        with_fresh_id(|id| create(&folder.handle, FilePurpose::Whole.name(id), &wanted, folder.names.is_empty()))?;
    write_whole(&file, &whole.body, folder.past_cache).map_err(DiskFailure::of_write)?;
    set_attributes(&file, &wanted, options).map_err(DiskFailure::of_write)?;
    Ok(OpenWrite::File { temporary, file, name })
}

impl<'a> OpenWrite<'a> {
    fn sync(self, folder: &OwnedFd, durable: bool, later: bool) -> Result<SyncedWrite<'a>> {
        match self {
            Self::File { temporary, file, name } => {
                // A file that is replaced must not be lost for one whose bytes are not on the disk.
                let replaces = || rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).is_ok();
                let pin = sync_file(&file, durable && (!later || replaces())).map_err(DiskFailure::of_write)?;
                Ok(SyncedWrite { pin, unnamed: Some((temporary, Some(file), name)) })
            }
            Self::Folder(handle) => Ok(SyncedWrite {
                pin: sync_file(handle, durable && !later).map_err(DiskFailure::of_write)?,
                unnamed: None,
            }),
            Self::Other(sure) => Ok(sure),
        }
    }
}

impl SyncedWrite<'_> {
    fn rename_final(self, folders: &Folders, folder: &OwnedFd, if_absent: bool) -> Result<Pin> {
        if let Some((temporary, _locked, name)) = self.unnamed {
            folders.rename(folder, &temporary.name, name, if_absent)?;
            temporary.disarm();
        }
        Ok(self.pin)
    }
}

fn make_link<'a>(
    folder: &'a OwnedFd,
    name: String,
    body: &[u8],
    wanted: &FileAttributes,
) -> Result<(UnfinishedFile<'a>, Pin)> {
    if body.is_empty() || body.len() > LINK_MAX || body.contains(&0) {
        let message = format!("{} bytes cannot be what a symbolic link points to", body.len());
        return Err(DiskFailure::new(code::NAME_NOT_ALLOWED, message));
    }
    rustix::fs::symlinkat(body, folder, name.as_str()).map_err(DiskFailure::of_write)?;
    let temporary = UnfinishedFile { folder, name, finished: false };
    let name = temporary.name.as_str();
    if let Some(mtime) = wanted.mtime {
        let times = Timestamps { last_access: timespec(mtime), last_modification: timespec(mtime) };
        rustix::fs::utimensat(folder, name, &times, AtFlags::SYMLINK_NOFOLLOW)?;
    }
    let pin = Pin::of(&rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).map_err(DiskFailure::of_write)?);
    Ok((temporary, pin))
}

/// Removes a file, or an empty folder. A missing one counts as removed; a folder that is not empty stays.
pub(super) fn delete(folders: &Folders, options: &DiskOptions, object: ObjectRef<'_>) -> Result<()> {
    let place = path_of_key(object.key)?;
    let Some((name, above)) = place.name.map(|name| (name, &place.folders[..])).or_else(|| {
        let (name, above) = place.folders.split_last()?;
        Some((*name, above))
    }) else {
        return Ok(());
    };
    let Some(folder) = folders::descend_to_change(folders::root(object.bucket)?, above)? else { return Ok(()) };
    let flags = if place.name.is_none() { AtFlags::REMOVEDIR } else { AtFlags::empty() };
    if place.name.is_some() {
        match rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) {
            // No object has this key.
            Ok(stat) if file_type(&stat) == FileType::Directory => return Ok(()),
            _ => {}
        }
    }
    match rustix::fs::unlinkat(&folder, name, flags) {
        Ok(()) if options.durable => folders.sync(&folder).map_err(DiskFailure::of_write),
        Ok(()) | Err(Errno::NOENT | Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => Ok(()),
        Err(errno) if above.is_empty() => Err(of_target(errno)),
        Err(errno) => Err(errno.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::folders::interleave::{Moment, all_done, at};
    use super::*;

    /// A folder that is removed on drop.
    struct Scratch(std::path::PathBuf);

    impl Scratch {
        fn new() -> Self {
            let path = std::env::temp_dir().join(format!("seqferry-write-{}", fresh_id()));
            std::fs::create_dir(&path).unwrap();
            Self(path)
        }

        fn open(&self) -> OwnedFd {
            folders::root(self.0.to_str().unwrap()).map_err(|fail| fail.code).unwrap()
        }

        fn names(&self) -> Vec<String> {
            let mut names: Vec<String> = std::fs::read_dir(&self.0)
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            names.sort();
            names
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _best_effort = std::fs::remove_dir_all(&self.0);
        }
    }

    fn put(scratch: &Scratch) -> Result<WrittenObject> {
        let object = PutObject {
            bucket: scratch.0.to_str().unwrap().to_owned(),
            key: "file".to_owned(),
            ..PutObject::default()
        };
        let whole = PutRequest { object, body: Bytes::from_static(b"body") };
        put_all(&Folders::default(), &DiskOptions::default(), &[whole]).pop().unwrap()
    }

    /// Acts like another process that begins to write to the folder.
    fn clean(folder: &OwnedFd) {
        Folders::default().clean_once(folder);
    }

    #[test]
    fn a_cleaner_between_the_creation_of_a_file_and_its_lock_takes_no_file() {
        let scratch = Scratch::new();
        for _ in 0..3 {
            at(Moment::WriterCreated, clean);
        }

        put(&scratch).map_err(|fail| fail.code).unwrap();

        assert!(all_done());
        assert_eq!(scratch.names(), ["file"]);
    }

    #[test]
    fn a_cleaner_that_has_locked_a_new_file_and_not_removed_it_takes_no_file() {
        let scratch = Scratch::new();
        let folder = scratch.open();
        std::fs::write(scratch.0.join(FilePurpose::Whole.name(&fresh_id())), b"of a writer that is gone").unwrap();
        let name = scratch.0.join(scratch.names().remove(0));
        at(Moment::CleanerLocked, move |_| {
            // The writer of this file, which had created it and locks it now.
            let file = std::fs::File::options().write(true).open(&name).unwrap();
            assert_eq!(
                rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive),
                Err(Errno::WOULDBLOCK),
                "held until the name is gone"
            );
        });

        clean(&folder);

        assert!(all_done());
        assert!(scratch.names().is_empty());
    }

    #[test]
    fn a_record_whose_bytes_come_while_a_cleaner_looks_at_it_stays() {
        let scratch = Scratch::new();
        let id = fresh_id();
        std::fs::write(scratch.0.join(FilePurpose::Record.name(&id)), b"upload").unwrap();
        let bytes = scratch.0.join(FilePurpose::Parts.name(&id));
        at(Moment::CleanerOpened, move |_| std::fs::write(&bytes, b"bytes").unwrap());

        clean(&scratch.open());

        assert!(all_done());
        assert_eq!(scratch.names(), [FilePurpose::Parts.name(&id), FilePurpose::Record.name(&id)]);
    }

    #[test]
    fn an_upload_is_begun_again_when_a_cleaner_takes_one_of_its_files() {
        for cleaned in [1, 2] {
            let scratch = Scratch::new();
            for _ in 1..cleaned {
                at(Moment::WriterCreated, |_| {});
            }
            at(Moment::WriterCreated, clean);
            let request = crate::types::CreateUpload {
                bucket: scratch.0.to_str().unwrap().to_owned(),
                key: "file".to_owned(),
                part_size: 4,
                size: 4,
                ..Default::default()
            };
            let uploads = super::super::upload::Uploads::default();

            let id = uploads.create(&Folders::default(), &DiskOptions::default(), &request);

            let id = id.map_err(|fail| fail.code).unwrap();
            assert!(all_done());
            assert_eq!(scratch.names(), [FilePurpose::Parts.name(&id), FilePurpose::Record.name(&id)], "{cleaned}");
        }
    }
}
