//! Multipart uploads: parts are written in place into a file that gets its name when all are there.
//!
//! | killed | left behind | what happens next |
//! |---|---|---|
//! | while beginning | `.tmp`, perhaps a record | the next writer in the folder removes them |
//! | between parts | `.part` and its record | resumed: the record says which parts are whole |
//! | before the rename | the same | resumed: completing finds all parts there |
//! | after the rename | the file, and the record | completing again finds the file, says so and removes the record |
//!
//! An upload of another process is read back before its parts count: a disk fault or another program may have changed
//! them.
//!
//! The engine may drop a request at any point. Writes that were handed to the operating system still continue to their
//! end. Therefore completing waits for parts in flight.

mod part;
mod resume;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, Dir, FallocateFlags, FileType, FlockOperation};
use rustix::io::Errno;

use resume::{has_reserved_size, read_record, reopen};

use super::disk_failure::{DiskFailure, Result};
use super::facts::{FileAttributes, file_type};
use super::folders::{self, Folders};
use super::names::{FilePurpose, is_id, path_of_key};
use super::o_direct::ODirectFile;
use super::record::{DiskUploadRecord, OpenUpload, Part, RecordLine};
use super::write::{create, finish, with_fresh_id};
use super::{DiskOptions, base64, full};
use crate::checksum::{ChecksumAlgorithm, CombinedCrc};
use crate::error::classify::code;
use crate::types::{CompleteUpload, CreateUpload, PartInfo, UploadInfo, UploadRef, WrittenObject, WrittenPart};

/// Uploads whose files stay open between requests, with four handles each, one of them for the folder. More uploads are
/// possible, and open their files again.
const OPEN: usize = 64;
/// Largest size of a record in bytes: 10,000 parts, each written several times.
const RECORD_MAX: u64 = 16 << 20;
/// Largest number of parts, as in S3: an upload to a disk could go to a service as well.
const PARTS_MAX: u32 = 10_000;
/// Bytes that are read back in one step.
const READ_BACK: usize = 1 << 20;
/// Parts in one answer, as in S3.
const PAGE: usize = 1000;

/// The open uploads of a store.
#[derive(Debug, Default)]
pub(super) struct Uploads {
    open: Mutex<HashMap<String, Arc<UploadHandles>>>,
    /// Ids of uploads that this process has begun, or read back.
    known: Mutex<HashSet<String>>,
}

/// Open files of one upload, and its state.
#[derive(Debug)]
struct UploadHandles {
    bucket: String,
    key: String,
    id: String,
    folder: OwnedFd,
    /// File of the parts; None when it has its final name already.
    bytes: Option<OwnedFd>,
    /// The same file, opened with `O_DIRECT` when it is first needed.
    o_direct: OnceLock<Option<ODirectFile>>,
    state: Mutex<State>,
    /// Signals that a part is no longer in flight.
    ended: Condvar,
}

#[derive(Debug)]
struct State {
    log: OwnedFd,
    record: DiskUploadRecord,
    /// Parts in flight: each has one writer, and completing waits for them.
    under_way: BTreeSet<u32>,
    /// Parts that are not known to be synced, and their bytes.
    unsynced: Vec<u32>,
    unsynced_bytes: u64,
    /// True after completion or abortion here, or when the record is not trusted any more.
    over: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn gone() -> DiskFailure {
    DiskFailure::new("NoSuchUpload", "there is no such unfinished file")
}

/// `ETag` of a part, made from its content.
fn part_etag(part: Part) -> String {
    format!("{:016x}", part.crc64)
}

impl State {
    fn new(log: OwnedFd, record: DiskUploadRecord) -> Self {
        Self { log, record, under_way: BTreeSet::new(), unsynced: Vec::new(), unsynced_bytes: 0, over: false }
    }

    fn append(&mut self, line: &RecordLine) -> std::result::Result<(), Errno> {
        let mut text = line.text();
        if self.record.torn {
            // The cut-off line must stay unreadable, even if only its end of line is missing: it was ignored, so its
            // part may be overwritten without a `drop`.
            text.insert_str(0, "~\n");
        }
        // One write, at the present end of the file.
        let written = loop {
            match rustix::io::write(&self.log, text.as_bytes()) {
                Err(Errno::INTR) => {}
                other => break other?,
            }
        };
        self.record.torn = written < text.len();
        if self.record.torn { Err(Errno::NOSPC) } else { Ok(()) }
    }

    /// Ends the upload: no earlier write can be relied on.
    fn give_up(&mut self) {
        self.over = true;
        let _best_effort = self.append(&RecordLine::Broken);
    }
}

impl UploadHandles {
    /// Waits until the state satisfies a condition, and returns it.
    fn when(&self, is_so: impl Fn(&State) -> bool) -> MutexGuard<'_, State> {
        let waited = self.ended.wait_while(lock(&self.state), |state| !is_so(state));
        waited.unwrap_or_else(PoisonError::into_inner)
    }

    /// Handle for writing whole blocks past the page cache; None where that is not possible.
    fn past_cache(&self) -> Option<&ODirectFile> {
        let open = || ODirectFile::open(self.bytes.as_ref()?, &self.folder, &FilePurpose::Parts.name(&self.id));
        self.o_direct.get_or_init(open).as_ref().filter(|file| !file.has_refused())
    }
}

impl Uploads {
    pub(super) fn create(&self, folders: &Folders, options: &DiskOptions, request: &CreateUpload) -> Result<String> {
        let place = path_of_key(&request.key)?;
        let Some(name) = place.name else {
            return Err(DiskFailure::new(code::FOLDER_WITH_BYTES, "an upload in parts has bytes"));
        };
        let root = folders::root_for_writing(&request.bucket, options)?;
        let in_root = place.folders.is_empty();
        let folder = folders.descend_and_make(root, &place.folders, options.durable)?;
        // A conflict is reported before any bytes are sent.
        folders.check_free(&folder, name)?;
        let wanted = FileAttributes::of(&request.attributes);
        let (id, (temporary, bytes), (begun_record, log)) = with_fresh_id(|id| {
            let create = |kind: FilePurpose, wanted| create(&folder, kind.name(id), wanted, in_root);
            let Some(bytes) = create(FilePurpose::Whole, &wanted)? else { return Ok(None) };
            let Some(log) = create(FilePurpose::Record, &FileAttributes::default())? else { return Ok(None) };
            Ok(Some((id.to_owned(), bytes, log)))
        })?;
        if request.size > 0 {
            reserve_space(&bytes, request.size)?;
        }
        let begun = OpenUpload {
            name: name.to_owned(),
            part_size: request.part_size,
            size: request.size,
            at: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64()),
            crc64: request.checksum.is_none_or(|(algorithm, _)| algorithm == ChecksumAlgorithm::Crc64Nvme),
            wanted: FileAttributes { kind: None, ..wanted },
        };
        let first = RecordLine::Upload(begun.clone());
        let record = DiskUploadRecord { begun, parts: BTreeMap::new(), done: None, broken: false, torn: false };
        let mut state = State::new(log, record);
        state.append(&first).map_err(DiskFailure::of_write)?;
        if options.durable {
            rustix::fs::fsync(&state.log).map_err(DiskFailure::of_write)?;
        }
        rustix::fs::renameat(&folder, temporary.name.as_str(), &folder, FilePurpose::Parts.name(&id))
            .map_err(DiskFailure::of_write)?;
        temporary.disarm();
        begun_record.disarm();
        // From here on the names mark the files as an upload. Locks mark only files that are useless without their
        // writer.
        for file in [&bytes, &state.log] {
            let _none_offered = rustix::fs::flock(file, FlockOperation::Unlock);
        }
        lock(&self.known).insert(id.clone());
        if options.durable {
            folders.sync(&folder).map_err(DiskFailure::of_write)?;
        }
        self.keep(UploadHandles {
            bucket: request.bucket.clone(),
            key: request.key.clone(),
            o_direct: OnceLock::new(),
            id: id.clone(),
            folder,
            bytes: Some(bytes),
            state: Mutex::new(state),
            ended: Condvar::new(),
        });
        Ok(id)
    }

    fn keep(&self, open: UploadHandles) -> Arc<UploadHandles> {
        let mut all = lock(&self.open);
        while all.len() >= OPEN {
            // An upload that no request uses is closed.
            let Some(idle) = all.iter().find(|(_, open)| Arc::strong_count(open) == 1).map(|(id, _)| id.clone()) else {
                break;
            };
            all.remove(&idle);
        }
        // Two tasks may have opened it at the same time: one record has one writer.
        Arc::clone(all.entry(open.id.clone()).or_insert_with(|| Arc::new(open)))
    }

    fn forget(&self, id: &str) {
        lock(&self.known).remove(id);
        lock(&self.open).remove(id);
    }

    fn find(&self, boot: Option<&str>, upload: UploadRef<'_>) -> Result<Arc<UploadHandles>> {
        let UploadRef { bucket, key, upload_id: id } = upload;
        if !is_id(id) {
            return Err(gone());
        }
        let known = lock(&self.open).get(id).map(Arc::clone);
        let open = if let Some(open) = known {
            open
        } else {
            let is_known = lock(&self.known).contains(id);
            let open = reopen(boot, upload, !is_known)?;
            lock(&self.known).insert(id.to_owned());
            self.keep(open)
        };
        if open.bucket != bucket || open.key != key || lock(&open.state).over { Err(gone()) } else { Ok(open) }
    }

    pub(super) fn list_parts(
        &self,
        boot: Option<&str>,
        upload: UploadRef<'_>,
        after: Option<u32>,
    ) -> Result<(Vec<PartInfo>, Option<u32>)> {
        let open = self.find(boot, upload)?;
        let state = lock(&open.state);
        let begun = &state.record.begun;
        let mut parts: Vec<PartInfo> = state
            .record
            .parts
            .iter()
            .filter(|(number, _)| after.is_none_or(|after| **number > after))
            .take(PAGE + 1)
            .map(|(number, part)| {
                let WrittenPart { etag, checksum, .. } = written_part(begun, *part);
                PartInfo { number: *number, size: part.size, etag, checksum }
            })
            .collect();
        let more = parts.len() > PAGE;
        parts.truncate(PAGE);
        let next = if more { parts.last().map(|part| part.number) } else { None };
        Ok((parts, next))
    }

    pub(super) fn complete(
        &self,
        folders: &Folders,
        options: &DiskOptions,
        boot: Option<&str>,
        request: &CompleteUpload,
    ) -> Result<WrittenObject> {
        let open = self.find(boot, UploadRef::new(&request.bucket, &request.key, &request.upload_id))?;
        let mut state = open.when(|state| state.under_way.is_empty());
        if state.over {
            return Err(gone());
        }
        let crc64 = check(&state.record, request)?;
        let name = state.record.begun.name.clone();
        let etag = match (&open.bytes, &state.record.done) {
            // An earlier attempt has completed the upload.
            (None, Some((etag, _))) => etag.clone(),
            (None, None) => return Err(gone()),
            (Some(bytes), _) => {
                // Another process has truncated the file, and the missing bytes would read as zeros.
                if !has_reserved_size(&rustix::fs::fstat(bytes)?, &state.record.begun) {
                    state.give_up();
                    return Err(gone());
                }
                // More space was reserved than needed when the announced size was wrong.
                rustix::fs::ftruncate(bytes, request.size).map_err(DiskFailure::of_write)?;
                let pin = match finish(bytes, &state.record.begun.wanted, options) {
                    Ok(pin) => pin,
                    Err(errno) => {
                        state.give_up();
                        return Err(DiskFailure::of_write(errno));
                    }
                };
                state.append(&RecordLine::Done(pin.etag(), crc64)).map_err(DiskFailure::of_write)?;
                match folders.rename(&open.folder, &FilePurpose::Parts.name(&open.id), &name, request.if_absent) {
                    Ok(()) => {}
                    // Another process has aborted or completed it.
                    Err(fail) if fail.code == code::FOLDER_VANISHED => {
                        state.over = true;
                        self.forget(&open.id);
                        return Err(gone());
                    }
                    Err(fail) => return Err(fail),
                }
                pin.etag()
            }
        };
        state.over = true;
        self.forget(&open.id);
        if options.durable {
            folders.sync(&open.folder).map_err(DiskFailure::of_write)?;
        }
        let _cleaned_by_the_next_writer =
            rustix::fs::unlinkat(&open.folder, FilePurpose::Record.name(&open.id), AtFlags::empty());
        Ok(WrittenObject { etag, version_id: None, checksum: Some(full(crc64)), encryption: None })
    }

    pub(super) fn abort(&self, upload: UploadRef<'_>) -> Result<()> {
        let UploadRef { bucket, key, upload_id: id } = upload;
        if !is_id(id) {
            return Err(gone());
        }
        let place = path_of_key(key).map_err(|_| gone())?;
        let folder = folders::descend_to_change(folders::root(bucket)?, &place.folders)?.ok_or_else(gone)?;
        // An id belongs to one key only.
        let begun = read_record(&folder, id, None)?.map(|(_, record)| record.begun.name);
        if begun.is_some() && begun.as_deref() != place.name {
            return Err(gone());
        }
        // Two steps avoid a deadlock: a completion holds the state while it takes the lock of the map.
        lock(&self.known).remove(id);
        let open = lock(&self.open).remove(id);
        if let Some(open) = open {
            lock(&open.state).over = true;
        }
        if remove(&folder, id)? { Ok(()) } else { Err(gone()) }
    }
}

/// Remove an upload's two files. Returns true if one existed: another process may be removing them too.
fn remove(folder: &OwnedFd, id: &str) -> Result<bool> {
    let mut found = false;
    // The record is removed last: while it exists, the upload can be found and aborted again.
    for file in [FilePurpose::Parts, FilePurpose::Record] {
        match rustix::fs::unlinkat(folder, file.name(id), AtFlags::empty()) {
            Ok(()) => found = true,
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(found)
}

fn written_part(begun: &OpenUpload, part: Part) -> WrittenPart {
    WrittenPart { etag: part_etag(part), checksum: begun.crc64.then(|| base64(part.crc64)), opaque_etag: true }
}

/// Checks that the recorded parts are those that make the object; returns its CRC64NVME.
fn check(record: &DiskUploadRecord, request: &CompleteUpload) -> Result<u64> {
    let wrong = |code, message: String| Err(DiskFailure::new(code, message));
    let mut end = 0;
    let mut crc = CombinedCrc::crc64nvme();
    for (place, wanted) in (1_u32..).zip(&request.parts) {
        if wanted.number != place {
            return wrong("InvalidPartOrder", format!("part {} stands where part {place} has to", wanted.number));
        }
        let Some(part) = record.parts.get(&place).filter(|part| part_etag(**part) == wanted.etag) else {
            return wrong("InvalidPart", format!("part {place} is not there, or is another"));
        };
        if place as usize != request.parts.len() && part.size != record.begun.part_size {
            return wrong("EntityTooSmall", format!("part {place} has {} bytes and is not the last", part.size));
        }
        end += part.size;
        crc.push(part.crc64, part.size);
    }
    if request.parts.is_empty() {
        return wrong("InvalidPartOrder", "there are no parts".to_owned());
    }
    if end != request.size {
        return wrong("InvalidRequest", format!("the parts have {end} bytes, the object {}", request.size));
    }
    let whole = full(crc.crc());
    if let Some(expected) = &request.whole
        && expected.matches(&whole) == Some(false)
    {
        return wrong("BadDigest", format!("the parts have CRC64NVME {}, expected is {}", whole.value, expected.value));
    }
    Ok(crc.crc())
}

/// Reserves space for all bytes: a full disk shows before the first byte, and the file is contiguous.
fn reserve_space(bytes: &OwnedFd, size: u64) -> Result<()> {
    loop {
        match rustix::fs::fallocate(bytes, FallocateFlags::empty(), 0, size) {
            Ok(()) => return Ok(()),
            Err(Errno::INTR) => {}
            // On file systems without reservation the disk may fill while parts are written.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                return rustix::fs::ftruncate(bytes, size).map_err(DiskFailure::of_write);
            }
            Err(errno) => return Err(DiskFailure::of_write(errno)),
        }
    }
}

/// Uploads below a root whose keys start with `prefix`.
pub(super) fn list(bucket: &str, prefix: &str) -> Result<Vec<UploadInfo>> {
    let (base, start) = prefix.rsplit_once('/').map_or(("", prefix), |(base, start)| (base, start));
    let names: Vec<&str> = base.split('/').filter(|_| !base.is_empty()).collect();
    folders::root(bucket)?;
    // No valid path starts with an invalid one.
    if !base.is_empty() && path_of_key(base).is_err() {
        return Ok(Vec::new());
    }
    let mut uploads = Vec::new();
    let mut folders_to_see = vec![names.into_iter().map(str::to_owned).collect::<Vec<String>>()];
    let mut at_base = true;
    while let Some(path) = folders_to_see.pop() {
        let names: Vec<&str> = path.iter().map(String::as_str).collect();
        let first = std::mem::take(&mut at_base);
        let Some(folder) = folders::descend_to_change(folders::root(bucket)?, &names)? else { continue };
        for entry in Dir::read_from(&folder)?.flatten() {
            let Ok(name) = entry.file_name().to_str() else { continue };
            if let Some((FilePurpose::Record, id)) = FilePurpose::read(name.as_bytes()) {
                let bytes = FilePurpose::Parts.name(id);
                if rustix::fs::statat(&folder, bytes, AtFlags::SYMLINK_NOFOLLOW).is_err() {
                    continue;
                }
                let Some((_, record)) = read_record(&folder, id, None)? else { continue };
                let key: String =
                    names.iter().flat_map(|name| [*name, "/"]).chain([record.begun.name.as_str()]).collect();
                if key.starts_with(prefix) && !record.broken {
                    uploads.push(UploadInfo { key, upload_id: id.to_owned(), initiated: record.begun.at });
                }
            } else if name != "."
                && name != ".."
                && (!first || name.starts_with(start))
                && match entry.file_type() {
                    FileType::Directory => true,
                    FileType::Unknown => rustix::fs::statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW)
                        .is_ok_and(|stat| file_type(&stat) == FileType::Directory),
                    _ => false,
                }
            {
                folders_to_see.push(path.iter().cloned().chain([name.to_owned()]).collect());
            }
        }
    }
    Ok(uploads)
}
