//! Multipart uploads: parts written in place into a file that gets its name when all are there.
//!
//! | killed | left behind | what happens next |
//! |---|---|---|
//! | while beginning | `.tmp`, perhaps a record | the next writer in the folder removes them |
//! | between parts | `.part` and its record | resumed: the record says which parts are whole |
//! | before the rename | the same | resumed: completing finds all parts there |
//! | after the rename | the file, and the record | completing again finds the file, says so and removes the record |
//!
//! An upload that another process has begun is read back before its parts count: a disk fault or another program may have changed them.
//!
//! The engine may drop a request at any point; what was handed to the operating system then still goes on to its end.
//! Completing therefore waits for parts under way.

mod part;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, Dir, FallocateFlags, FileType, FlockOperation, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::facts::{FileAttributes, Pin, file_type};
use super::fail::{DiskFailure, Result};
use super::folders::{self, Folders};
use super::names::{FilePurpose, is_id, place};
use super::o_direct::DirectFile;
use super::record::{self, Line, OpenUpload, Part, Record};
use super::write::{create, finish, with_fresh_id};
use super::{DiskOptions, base64, full};
use crate::checksum::{ChecksumAlgorithm, JoinedCrc};
use crate::error::classify::code;
use crate::types::{CompleteUpload, CreateUpload, PartInfo, UploadInfo, WrittenObject, WrittenPart};

/// Uploads whose files stay open between requests. Four handles each, with a folder's; more uploads work, and open theirs anew.
const OPEN: usize = 64;
/// A record is never longer: 10,000 parts, written several times each.
const RECORD_MAX: u64 = 16 << 20;
/// As S3: so that an upload that goes to a disk could go to a service as well.
const PARTS_MAX: u32 = 10_000;
/// Bytes that are read back at a time.
const READ_BACK: usize = 1 << 20;
/// Parts in one answer, as S3.
const PAGE: usize = 1000;

/// The open uploads of a store.
#[derive(Debug, Default)]
pub(super) struct Uploads {
    open: Mutex<HashMap<String, Arc<UploadHandles>>>,
    /// Those that this process has begun, or read back.
    known: Mutex<HashSet<String>>,
}

/// Open files of one upload, and its state.
#[derive(Debug)]
struct UploadHandles {
    bucket: String,
    key: String,
    id: String,
    folder: OwnedFd,
    /// None when the file has its name already.
    bytes: Option<OwnedFd>,
    /// The same, past the system's cache; opened when it is first wanted.
    direct: OnceLock<Option<DirectFile>>,
    state: Mutex<State>,
    /// A part is not under way any more.
    ended: Condvar,
}

#[derive(Debug)]
struct State {
    log: OwnedFd,
    record: Record,
    /// Parts that are being written: each by one writer, and completing waits for them.
    under_way: BTreeSet<u32>,
    /// Parts that are not known to be on the disk itself, and their bytes.
    unsynced: Vec<u32>,
    unsynced_bytes: u64,
    /// Completed or aborted by us, or not to be trusted any more.
    over: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn gone() -> DiskFailure {
    DiskFailure::new("NoSuchUpload", "there is no such unfinished file")
}

/// A part is known by what it holds.
fn part_etag(part: Part) -> String {
    format!("{:016x}", part.crc64)
}

impl State {
    fn new(log: OwnedFd, record: Record) -> Self {
        Self { log, record, under_way: BTreeSet::new(), unsynced: Vec::new(), unsynced_bytes: 0, over: false }
    }

    fn append(&mut self, line: &Line) -> std::result::Result<(), Errno> {
        let mut text = line.text();
        if self.record.torn {
            // The line that was cut off must stay unreadable, even if nothing but its end of line is missing: it was passed
            // over, so what it says may be written over without a `drop`.
            text.insert_str(0, "~\n");
        }
        // One write, at the end wherever that is by now.
        let written = loop {
            match rustix::io::write(&self.log, text.as_bytes()) {
                Err(Errno::INTR) => {}
                other => break other?,
            }
        };
        self.record.torn = written < text.len();
        if self.record.torn { Err(Errno::NOSPC) } else { Ok(()) }
    }

    /// Nothing that was written before can be relied on.
    fn give_up(&mut self) {
        self.over = true;
        let _best_effort = self.append(&Line::Broken);
    }
}

impl UploadHandles {
    /// The state, as soon as it is so.
    fn when(&self, is_so: impl Fn(&State) -> bool) -> MutexGuard<'_, State> {
        let waited = self.ended.wait_while(lock(&self.state), |state| !is_so(state));
        waited.unwrap_or_else(PoisonError::into_inner)
    }

    /// Handle for writing whole blocks past the system's cache; None where that cannot be done.
    fn past_cache(&self) -> Option<&DirectFile> {
        let open = || DirectFile::open(self.bytes.as_ref()?, &self.folder, &FilePurpose::Parts.name(&self.id));
        self.direct.get_or_init(open).as_ref().filter(|direct| !direct.has_refused())
    }
}

impl Uploads {
    pub(super) fn create(&self, folders: &Folders, options: &DiskOptions, request: &CreateUpload) -> Result<String> {
        let place = place(&request.key)?;
        let Some(name) = place.name else {
            return Err(DiskFailure::new(code::FOLDER_WITH_BYTES, "an upload in parts has bytes"));
        };
        let root = folders::root_for_writing(&request.bucket, options)?;
        let in_root = place.folders.is_empty();
        let folder = folders.descend_and_make(root, &place.folders, options.durable)?;
        // Better now than after all the bytes.
        folders.is_free(&folder, name)?;
        let wanted = FileAttributes::of(&request.attributes);
        let (id, (temporary, bytes), (begun_record, log)) = with_fresh_id(|id| {
            let create = |kind: FilePurpose, wanted| create(&folder, kind.name(id), wanted, in_root);
            let Some(bytes) = create(FilePurpose::Whole, &wanted)? else { return Ok(None) };
            let Some(log) = create(FilePurpose::Record, &FileAttributes::default())? else { return Ok(None) };
            Ok(Some((id.to_owned(), bytes, log)))
        })?;
        if request.size > 0 {
            make_room(&bytes, request.size)?;
        }
        let begun = OpenUpload {
            name: name.to_owned(),
            part_size: request.part_size,
            size: request.size,
            at: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64()),
            crc64: request.checksum.is_none_or(|(algorithm, _)| algorithm == ChecksumAlgorithm::Crc64Nvme),
            wanted: FileAttributes { kind: None, ..wanted },
        };
        let first = Line::Upload(begun.clone());
        let record = Record { begun, parts: BTreeMap::new(), done: None, broken: false, torn: false };
        let mut state = State::new(log, record);
        state.append(&first).map_err(DiskFailure::of_write)?;
        if options.durable {
            rustix::fs::fsync(&state.log).map_err(DiskFailure::of_write)?;
        }
        rustix::fs::renameat(&folder, temporary.name.as_str(), &folder, FilePurpose::Parts.name(&id))
            .map_err(DiskFailure::of_write)?;
        temporary.finished();
        begun_record.finished();
        // From here on the names tell what they are: locks are for what is of no use without its writer.
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
            direct: OnceLock::new(),
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
            // One that no request works with.
            let Some(idle) = all.iter().find(|(_, open)| Arc::strong_count(open) == 1).map(|(id, _)| id.clone()) else {
                break;
            };
            all.remove(&idle);
        }
        // Opened by two at a time: one record has one writer.
        Arc::clone(all.entry(open.id.clone()).or_insert_with(|| Arc::new(open)))
    }

    fn forget(&self, id: &str) {
        lock(&self.known).remove(id);
        lock(&self.open).remove(id);
    }

    fn find(&self, boot: Option<&str>, bucket: &str, key: &str, id: &str) -> Result<Arc<UploadHandles>> {
        if !is_id(id) {
            return Err(gone());
        }
        let known = lock(&self.open).get(id).map(Arc::clone);
        let open = if let Some(open) = known {
            open
        } else {
            let is_known = lock(&self.known).contains(id);
            let open = reopen(boot, bucket, key, id, !is_known)?;
            lock(&self.known).insert(id.to_owned());
            self.keep(open)
        };
        if open.bucket != bucket || open.key != key || lock(&open.state).over { Err(gone()) } else { Ok(open) }
    }

    pub(super) fn list_parts(
        &self,
        boot: Option<&str>,
        (bucket, key, id): (&str, &str, &str),
        after: Option<u32>,
    ) -> Result<(Vec<PartInfo>, Option<u32>)> {
        let open = self.find(boot, bucket, key, id)?;
        let state = lock(&open.state);
        let begun = &state.record.begun;
        let mut parts: Vec<PartInfo> = state
            .record
            .parts
            .iter()
            .filter(|(number, _)| after.is_none_or(|after| **number > after))
            .take(PAGE + 1)
            .map(|(number, part)| {
                let WrittenPart { etag, checksum, .. } = copied(begun, *part);
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
        let open = self.find(boot, &request.bucket, &request.key, &request.upload_id)?;
        let mut state = open.when(|state| state.under_way.is_empty());
        if state.over {
            return Err(gone());
        }
        let crc64 = check(&state.record, request)?;
        let name = state.record.begun.name.clone();
        let etag = match (&open.bytes, &state.record.done) {
            // An earlier try has done it.
            (None, Some((etag, _))) => etag.clone(),
            (None, None) => return Err(gone()),
            (Some(bytes), _) => {
                // Another process has cut it, and what is missing would come back as zeros.
                if !has_its_room(&rustix::fs::fstat(bytes)?, &state.record.begun) {
                    state.give_up();
                    return Err(gone());
                }
                // More room was made than is needed when the size was not told truly.
                rustix::fs::ftruncate(bytes, request.size).map_err(DiskFailure::of_write)?;
                let pin = match finish(bytes, &state.record.begun.wanted, options) {
                    Ok(pin) => pin,
                    Err(errno) => {
                        state.give_up();
                        return Err(DiskFailure::of_write(errno));
                    }
                };
                state.append(&Line::Done(pin.etag(), crc64)).map_err(DiskFailure::of_write)?;
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

    pub(super) fn abort(&self, bucket: &str, key: &str, id: &str) -> Result<()> {
        if !is_id(id) {
            return Err(gone());
        }
        let place = place(key).map_err(|_| gone())?;
        let folder = folders::descend_to_change(folders::root(bucket)?, &place.folders)?.ok_or_else(gone)?;
        // An id belongs to one key only.
        let begun = read_record(&folder, id, None)?.map(|(_, record)| record.begun.name);
        if begun.is_some() && begun.as_deref() != place.name {
            return Err(gone());
        }
        // Two steps: a completion holds the state, and then wants the map.
        lock(&self.known).remove(id);
        let open = lock(&self.open).remove(id);
        if let Some(open) = open {
            lock(&open.state).over = true;
        }
        if remove(&folder, id)? { Ok(()) } else { Err(gone()) }
    }
}

/// Remove an upload's two files; whether any was there: another process may be removing them too.
fn remove(folder: &OwnedFd, id: &str) -> Result<bool> {
    let mut found = false;
    // The record last: while it is there, the upload can be found and aborted again.
    for file in [FilePurpose::Parts, FilePurpose::Record] {
        match rustix::fs::unlinkat(folder, file.name(id), AtFlags::empty()) {
            Ok(()) => found = true,
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(found)
}

fn copied(begun: &OpenUpload, part: Part) -> WrittenPart {
    WrittenPart { etag: part_etag(part), checksum: begun.crc64.then(|| base64(part.crc64)), opaque_etag: true }
}

/// Checks that the parts that are there are those that make the object; returns its CRC64NVME.
fn check(record: &Record, request: &CompleteUpload) -> Result<u64> {
    let wrong = |code, message: String| Err(DiskFailure::new(code, message));
    let mut end = 0;
    let mut crc = JoinedCrc::crc64nvme();
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
        && expected.agrees(&whole) == Some(false)
    {
        return wrong("BadDigest", format!("the parts have CRC64NVME {}, expected is {}", whole.value, expected.value));
    }
    Ok(crc.crc())
}

/// Room for all bytes at once: a full disk is found out before the first byte, and the file lies in one piece.
fn make_room(bytes: &OwnedFd, size: u64) -> Result<()> {
    loop {
        match rustix::fs::fallocate(bytes, FallocateFlags::empty(), 0, size) {
            Ok(()) => return Ok(()),
            Err(Errno::INTR) => {}
            // File systems that cannot: the disk fills while parts are written.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                return rustix::fs::ftruncate(bytes, size).map_err(DiskFailure::of_write);
            }
            Err(errno) => return Err(DiskFailure::of_write(errno)),
        }
    }
}

/// A record that lies in a folder. None: there is none that can be read.
fn read_record(folder: &OwnedFd, id: &str, boot: Option<&str>) -> Result<Option<(OwnedFd, Record)>> {
    let flags = OFlags::RDWR | OFlags::APPEND | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = match rustix::fs::openat(folder, FilePurpose::Record.name(id), flags, Mode::empty()) {
        Ok(file) => file,
        Err(Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(errno.into()),
    };
    let mut text = Vec::new();
    let file = std::fs::File::from(file);
    (&file)
        .take(RECORD_MAX)
        .read_to_end(&mut text)
        .map_err(|error| DiskFailure::from(Errno::from_io_error(&error).unwrap_or(Errno::IO)))?;
    Ok(record::read(&text, boot).map(|record| (file.into(), record)))
}

/// Take up an upload that another process has begun (`read_back`), or we a while ago.
///
/// The record tells which parts were whole when their writer ended. Whether they still are, only their bytes can tell.
fn reopen(boot: Option<&str>, bucket: &str, key: &str, id: &str, read_back: bool) -> Result<UploadHandles> {
    let place = place(key).map_err(|_| gone())?;
    let folder = folders::descend_to_change(folders::root(bucket)?, &place.folders)?.ok_or_else(gone)?;
    let (log, record) = read_record(&folder, id, boot)?
        .filter(|(_, record)| Some(record.begun.name.as_str()) == place.name && !record.broken)
        .ok_or_else(gone)?;
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let bytes = match rustix::fs::openat(&folder, FilePurpose::Parts.name(id), flags, Mode::empty()) {
        Ok(bytes) => Some(bytes),
        Err(Errno::NOENT) => {
            // It has its name, unless another program removed it or put another file there.
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
        if !is_as_made(bytes, &state.record.begun)? {
            // What is written to it would be in another file too, or is somewhere else already.
            remove(&folder, id)?;
            return Err(gone());
        }
        for number in spoilt(bytes, &state.record)? {
            state.append(&Line::Drop(number)).map_err(DiskFailure::of_write)?;
            state.record.parts.remove(&number);
        }
    }
    Ok(UploadHandles {
        bucket: bucket.to_owned(),
        key: key.to_owned(),
        direct: OnceLock::new(),
        id: id.to_owned(),
        folder,
        bytes,
        state: Mutex::new(state),
        ended: Condvar::new(),
    })
}

/// True when a file is still the one that an upload has made room for: neither truncated nor linked to another name.
fn is_as_made(bytes: &OwnedFd, begun: &OpenUpload) -> Result<bool> {
    let stat = rustix::fs::fstat(bytes)?;
    Ok(file_type(&stat) == FileType::RegularFile && stat.st_nlink == 1 && has_its_room(&stat, begun))
}

/// True when nothing was cut off of the room that was made. Without a size none was made.
fn has_its_room(stat: &Stat, begun: &OpenUpload) -> bool {
    begun.size == 0 || u64::try_from(stat.st_size).unwrap_or(0) >= begun.size
}

/// Parts whose bytes are not what the record says.
fn spoilt(bytes: &OwnedFd, record: &Record) -> Result<Vec<u32>> {
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

/// Uploads below a root whose keys start with `prefix`.
pub(super) fn list(bucket: &str, prefix: &str) -> Result<Vec<UploadInfo>> {
    let (base, start) = prefix.rsplit_once('/').map_or(("", prefix), |(base, start)| (base, start));
    let names: Vec<&str> = base.split('/').filter(|_| !base.is_empty()).collect();
    folders::root(bucket)?;
    // No key that is a path starts with what is none.
    if !base.is_empty() && place(base).is_err() {
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
