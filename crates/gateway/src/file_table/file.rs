//! The file of a table of names, and the index of its records. The file is no larger than twice the records that count,
//! and some more.
//!
//! A disk that takes no more is no reason to serve nothing: records continue in memory, and are appended when the disk
//! takes them again. Until then the file is behind, and no assignment counts as synced.
//!
//! Order: a record is appended before it is indexed, and covered by the index after that. A kill between the two is made
//! up for by the next process, which indexes what is not covered.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, UNIX_EPOCH};

use super::index::{Covered, Index, with_suffix};
use super::record::{LONGEST, TableRecord, record};
use super::{AssignedFacts, NamedFile, assigned_key, first_number, hash};
use crate::journal::is_full;

/// Records beyond twice those that count after which the file is written again.
const SPARE_RECORDS: u64 = 1024;
/// Time between two attempts to bring the file up to date, where nothing waits for it.
const RETRY_PAUSE: Duration = Duration::from_mins(1);
/// Bytes of names that are kept while the disk takes none. Later ones have new handles after a restart.
const MAX_TAIL: usize = 128 * 1024 * 1024;
/// Bytes of one read: of a record, which is mostly shorter, and of all records.
const PIECE: usize = 256;
const STRETCH: usize = 1024 * 1024;
/// Bits of an offset in an entry of the index; those above are the tag of the name.
const OFFSET_BITS: u32 = 40;

/// Offset of a record, and the tag of its name: see [`first_number`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) offset: u64,
    pub(super) tag: u64,
}

/// See the module.
#[derive(Debug)]
pub(super) struct TableFile {
    /// None: all is in memory.
    path: Option<PathBuf>,
    /// None: it cannot be opened now.
    disk: Option<File>,
    /// Bytes of whole records on the disk.
    length: u64,
    /// Records that follow them.
    tail: Vec<u8>,
    /// Number of all records.
    records: u64,
    index: Index,
    /// The index lacks records that it was to have.
    is_index_damaged: bool,
    /// The disk lacks the tail.
    is_behind: bool,
    /// The last attempt to bring the file up to date has failed then.
    pub(super) failed_at: Option<Instant>,
    /// A loss of power cannot undo that the file has its name.
    is_name_synced: bool,
    /// Bytes that the disk takes, in tests.
    #[cfg(test)]
    pub(super) room: Option<u64>,
}

impl TableFile {
    #[cfg(test)]
    pub(super) fn in_memory() -> io::Result<Self> {
        Ok(Self::of(None, None, Index::create(None, 0)?))
    }

    fn of(path: Option<PathBuf>, disk: Option<File>, index: Index) -> Self {
        let Covered { bytes: length, records } = index.covered();
        Self {
            path,
            disk,
            length,
            tail: Vec::new(),
            records,
            index,
            is_index_damaged: false,
            is_behind: false,
            failed_at: None,
            is_name_synced: length > 0,
            #[cfg(test)]
            room: None,
        }
    }

    /// The table in a file. Records behind a damaged one are dropped. A full disk is no failure.
    ///
    /// # Errors
    /// When the file cannot be read or written.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let disk = match open_file(path) {
            Ok(file) => file,
            Err(error) if is_full(&error) => {
                let mut table = Self::of(Some(path.to_owned()), None, Index::create(None, 0)?);
                table.fall_behind(&error);
                return Ok(table);
            }
            Err(error) => return Err(error),
        };
        let (reader, length) = (disk.try_clone()?, disk.metadata()?.len());
        let index = open_index(path, identity(&disk)?, length)?;
        let mut table = Self::of(Some(path.to_owned()), Some(disk), index);
        let end = scan(&reader, table.length, length, |offset, found, bytes| {
            table.length = offset + bytes.len() as u64;
            table.apply(offset, &found)
        })?;
        table.length = end;
        if end < length {
            reader.set_len(end)?;
        }
        table.cover()?;
        Ok(table)
    }

    /// Bytes of all records.
    fn end(&self) -> u64 {
        self.length + self.tail.len() as u64
    }

    fn cover(&mut self) -> io::Result<()> {
        self.index.cover(Covered { bytes: self.length, records: self.records })
    }

    /// The record of a number, or of an [assigned name](assigned_key). A disk that cannot be read has none.
    pub(super) fn entry(&self, key: u64) -> Option<Entry> {
        let value = self.index.get(key).unwrap_or_else(|error| {
            tracing::warn!("the index of the table of file handles cannot be read: {error}");
            None
        })?;
        Some(Entry { offset: value & ((1 << OFFSET_BITS) - 1), tag: value >> OFFSET_BITS })
    }

    /// The name of a number.
    pub(super) fn place(&mut self, number: u64) -> Option<NamedFile> {
        let found = self.place_at(self.entry(number)?).filter(|(found, _)| *found == number);
        if found.is_none() {
            // Its record is damaged. The name gets another one when it is looked up again.
            let _removed = self.index.remove(number);
        }
        found.map(|(_, place)| place)
    }

    /// The number and the name in the record of an entry.
    pub(super) fn place_at(&self, entry: Entry) -> Option<(u64, NamedFile)> {
        match self.read(entry.offset) {
            Ok(Some(TableRecord::Place(number, place))) => Some((number, place)),
            Ok(_) => None,
            Err(error) => {
                tracing::warn!("the table of file handles cannot be read: {error}");
                None
            }
        }
    }

    /// The number that is assigned to a name, and its facts.
    pub(super) fn assigned(&self, parent: u64, name: &str) -> Option<(u64, AssignedFacts)> {
        let entry = self.entry(assigned_key(parent, name))?;
        let (number, place) = self.place_at(entry)?;
        let is_of_name = place.parent == parent && *place.name == *name;
        let is_last = self.entry(number).is_some_and(|last| last.offset == entry.offset);
        Some((number, *place.assigned.filter(|_| is_of_name && is_last)?))
    }

    fn read(&self, offset: u64) -> io::Result<Option<TableRecord>> {
        if offset >= self.length {
            let at = usize::try_from(offset - self.length).unwrap_or(usize::MAX);
            return Ok(self.tail.get(at..).and_then(record).map(|(found, _)| found));
        }
        let Some(disk) = &self.disk else { return Ok(None) };
        let mut piece = [0; PIECE];
        let count = read_at(disk, &mut piece, offset)?;
        if let Some((found, _)) = record(&piece[..count]) {
            return Ok(Some(found));
        }
        let mut whole = vec![0; LONGEST];
        let count = read_at(disk, &mut whole, offset)?;
        Ok(record(&whole[..count]).map(|(found, _)| found))
    }

    /// Append records, and index them. Where the disk does not take them the file is behind.
    pub(super) fn append(&mut self, added: &[TableRecord]) {
        if added.is_empty() {
            return;
        }
        let (mut bytes, mut offsets) = (Vec::new(), Vec::with_capacity(added.len()));
        for one in added {
            offsets.push(self.end() + bytes.len() as u64);
            bytes.extend(one.encode());
        }
        if self.path.is_none() || self.is_behind {
            self.keep(&bytes, added);
        } else if let Err(error) = self.write(&bytes) {
            self.fall_behind(&error);
            self.keep(&bytes, added);
        }
        let end = self.end();
        for (offset, one) in offsets.into_iter().zip(added).filter(|(offset, _)| *offset < end) {
            self.index(offset, one);
        }
        if self.path.is_some() && !self.is_behind {
            self.cover().unwrap_or_else(|error| self.give_index_up(&error));
        }
        if self.is_behind && self.may_try() {
            self.catch_up().unwrap_or_else(|error| tracing::debug!("the table of file handles is behind: {error}"));
        }
    }

    /// Keep records in memory. Names beyond the bound are lost, assignments are not.
    fn keep(&mut self, bytes: &[u8], added: &[TableRecord]) {
        let is_name = |one: &TableRecord| matches!(one, TableRecord::Place(_, place) if place.assigned.is_none());
        if self.path.is_none() || self.tail.len() < MAX_TAIL || !added.iter().all(is_name) {
            self.tail.extend(bytes);
        }
    }

    fn index(&mut self, offset: u64, found: &TableRecord) {
        self.apply(offset, found).unwrap_or_else(|error| self.give_index_up(&error));
    }

    fn give_index_up(&mut self, error: &io::Error) {
        if !self.is_index_damaged {
            tracing::warn!("the index of the table of file handles cannot be written: {error}");
        }
        self.is_index_damaged = true;
        let _distrusted = self.index.distrust();
    }

    /// Have the index say what a record states.
    fn apply(&mut self, offset: u64, found: &TableRecord) -> io::Result<()> {
        match found {
            TableRecord::Released(number) => {
                self.records += 1;
                self.release(*number)
            }
            TableRecord::Place(number, place) => {
                if place.assigned.is_some() {
                    self.release(*number)?;
                    if let Some((before, _)) = self.assigned(place.parent, &place.name) {
                        self.release(before)?;
                    }
                }
                self.set(offset, *number, place)
            }
        }
    }

    /// Index a record of a number and a name that have no other record that counts.
    fn set(&mut self, offset: u64, number: u64, place: &NamedFile) -> io::Result<()> {
        let (first, tag) = first_number(place.parent, &place.name);
        let value = tag << OFFSET_BITS | offset;
        self.records += 1;
        if place.assigned.is_some() && first != number {
            self.index.set(assigned_key(place.parent, &place.name), value)?;
        }
        self.index.set(number, value)
    }

    /// Nothing is assigned to a number any more.
    fn release(&mut self, number: u64) -> io::Result<()> {
        let Some(entry) = self.entry(number) else { return Ok(()) };
        let Some((_, place)) =
            self.place_at(entry).filter(|(found, place)| *found == number && place.assigned.is_some())
        else {
            return Ok(());
        };
        let key = assigned_key(place.parent, &place.name);
        if self.entry(key).is_some_and(|of_name| of_name.offset == entry.offset) {
            self.index.remove(key)?;
        }
        self.index.remove(number)
    }

    /// Write records to the end of the file.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        #[cfg(test)]
        if self.room.is_some_and(|room| self.length + bytes.len() as u64 > room) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let disk = self.disk.as_ref().ok_or(io::ErrorKind::StorageFull)?;
        if let Err(error) = disk.write_all_at(bytes, self.length) {
            // A part of a record at the end is cut off by the next process at the latest.
            let _cut = disk.set_len(self.length);
            return Err(error);
        }
        self.length += bytes.len() as u64;
        Ok(())
    }

    fn fall_behind(&mut self, error: &io::Error) {
        if !self.is_behind {
            tracing::warn!(
                "the table of file handles {} cannot be written: {error}. Names that clients see from now on have new \
                 handles after a restart, until the disk has room again",
                self.name()
            );
            // It will know records that the disk may never have.
            let _distrusted = self.index.distrust();
        }
        (self.is_behind, self.failed_at) = (true, Some(Instant::now()));
    }

    fn name(&self) -> std::path::Display<'_> {
        self.path.as_deref().unwrap_or(Path::new("in memory")).display()
    }

    /// True when the last attempt to bring the file up to date was not just now, or did not fail.
    fn may_try(&self) -> bool {
        self.failed_at.is_none_or(|at| at.elapsed() >= RETRY_PAUSE)
    }

    /// Append what the disk did not take.
    fn catch_up(&mut self) -> io::Result<()> {
        let tail = std::mem::take(&mut self.tail);
        let written = self.reopen().and_then(|()| self.write(&tail));
        if let Err(error) = written {
            self.tail = tail;
            self.fall_behind(&error);
            return Err(error);
        }
        (self.is_behind, self.failed_at) = (false, None);
        tracing::warn!("the table of file handles {} is whole again", self.name());
        self.cover()?;
        if self.is_index_damaged { Ok(()) } else { self.index.trust() }
    }

    fn reopen(&mut self) -> io::Result<()> {
        if let (None, Some(path)) = (&self.disk, &self.path) {
            self.disk = Some(open_file(path)?);
        }
        Ok(())
    }

    /// Write the records that count to a new file. The old one stays until the new one is on the disk.
    fn write_anew(&mut self, path: PathBuf) -> io::Result<()> {
        let (new, new_index) = (with_suffix(&path, ".new"), with_suffix(&path, ".index.new"));
        let renamed = self.copy_to(&new, &new_index).and_then(|copy| fs::rename(&new, &path).map(|()| copy));
        if renamed.is_err() {
            // They occupy space that is missing.
            let _left = (fs::remove_file(&new), fs::remove_file(&new_index));
        }
        let mut copy = renamed?;
        // From here on the old file has no name: whatever fails, the new one is written to.
        let renamed = copy.index.rename(&with_suffix(&path, ".index"));
        copy.path = Some(path);
        // The old index is gone, and need not be brought to the disk.
        self.path = None;
        *self = copy;
        renamed
    }

    fn copy_to(&self, path: &Path, index: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).truncate(true).read(true).write(true).open(path)?;
        let index = Index::create(Some(index), identity(&file)?)?;
        let mut copy = Self::of(None, Some(file), index);
        #[cfg(test)]
        {
            copy.room = self.room;
        }
        let mut bytes = Vec::new();
        self.visit(|offset, found, of_record| {
            if let TableRecord::Place(number, place) = &found
                && self.counts(offset, &found)
            {
                copy.set(copy.length + bytes.len() as u64, *number, place)?;
                bytes.extend(of_record);
            }
            if bytes.len() >= STRETCH {
                copy.write(&bytes)?;
                bytes.clear();
            }
            Ok(())
        })?;
        copy.write(&bytes)?;
        if let Some(file) = &copy.disk {
            file.sync_all()?;
        }
        copy.cover()?;
        Ok(copy)
    }

    /// Go through all records.
    fn visit(&self, mut visit: impl FnMut(u64, TableRecord, &[u8]) -> io::Result<()>) -> io::Result<()> {
        if let Some(disk) = &self.disk {
            scan(disk, 0, self.length, &mut visit)?;
        }
        let (mut at, mut rest) = (self.length, self.tail.as_slice());
        while let Some((found, after)) = record(rest) {
            let length = rest.len() - after.len();
            visit(at, found, &rest[..length])?;
            (at, rest) = (at + length as u64, after);
        }
        Ok(())
    }

    /// True for the record that its number has in the index.
    fn counts(&self, offset: u64, found: &TableRecord) -> bool {
        matches!(found, TableRecord::Place(number, _) if self.entry(*number).is_some_and(|entry| entry.offset == offset))
    }

    /// Bring the file up to date. Returns it for a sync of all assignments. None: there is none.
    ///
    /// # Errors
    /// When the disk does not take what is missing on it.
    pub(super) fn prepare_sync(&mut self) -> io::Result<Option<File>> {
        let Some(path) = self.path.clone() else { return Ok(None) };
        if self.is_behind {
            self.catch_up()?;
        }
        if self.records > 2 * self.index.len() + SPARE_RECORDS && self.may_try() {
            // It stays as it is where the disk has no space for two.
            if let Err(error) = self.write_anew(path.clone()) {
                tracing::debug!("the table of file handles {} is not written anew: {error}", path.display());
                self.failed_at = Some(Instant::now());
            }
        }
        if !self.is_name_synced {
            if let Some(folder) = path.parent() {
                File::open(folder)?.sync_all()?;
            }
            self.is_name_synced = true;
        }
        self.disk.as_ref().map(File::try_clone).transpose()
    }

    /// All names that count.
    #[cfg(test)]
    pub(super) fn places(&self) -> Vec<(u64, NamedFile)> {
        let mut found = Vec::new();
        self.visit(|offset, one, _| {
            if let (true, TableRecord::Place(number, place)) = (self.counts(offset, &one), one) {
                found.push((number, place));
            }
            Ok(())
        })
        .unwrap();
        found
    }
}

impl Drop for TableFile {
    fn drop(&mut self) {
        if self.path.is_some() && !self.is_behind && !self.is_index_damaged {
            // Without it the next start of the machine makes the index anew.
            let _closed = self.index.close();
        }
    }
}

/// The index of a file of this many bytes, or an empty one: in memory where the disk has no room.
fn open_index(path: &Path, records: u64, length: u64) -> io::Result<Index> {
    let path = with_suffix(path, ".index");
    if let Some(index) = Index::open(&path, records)?.filter(|index| index.covered().bytes <= length) {
        return Ok(index);
    }
    match Index::create(Some(&path), records) {
        Err(error) if is_full(&error) => {
            let _left = fs::remove_file(&path);
            Index::create(None, records)
        }
        created => created,
    }
}

/// A file to be read and written, which may be there.
fn open_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)
}

/// A number for a file, which no other at its path has.
fn identity(file: &File) -> io::Result<u64> {
    let found = file.metadata()?;
    let born = found.created().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
    Ok(hash(&[&found.ino().to_be_bytes(), &born.as_nanos().to_be_bytes()]))
}

/// Read up to the end of a buffer or of the file.
fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], offset + filled as u64)? {
            0 => break,
            count => filled += count,
        }
    }
    Ok(filled)
}

/// Go through the records of a file between two offsets, up to a damaged one. Returns the end of the last.
fn scan(
    file: &File,
    from: u64,
    until: u64,
    mut visit: impl FnMut(u64, TableRecord, &[u8]) -> io::Result<()>,
) -> io::Result<u64> {
    let mut bytes = vec![0; STRETCH];
    let mut at = from;
    while at < until {
        let count = read_at(file, &mut bytes, at)?.min(usize::try_from(until - at).unwrap_or(usize::MAX));
        let mut rest = &bytes[..count];
        while let Some((found, after)) = record(rest) {
            let length = rest.len() - after.len();
            visit(at, found, &rest[..length])?;
            at += length as u64;
            rest = after;
        }
        // What is left may be the begin of a record that was cut off by the end of what was read.
        if rest.len() == count || rest.len() >= LONGEST || count < STRETCH {
            break;
        }
    }
    Ok(at)
}
