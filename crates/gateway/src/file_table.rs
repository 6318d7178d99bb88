//! Identities of files: numbers for names, which stay the same when an object is replaced and after a restart.
//!
//! A number is a hash of the name and of the number of its directory. The table maps a number back to its name. A clean
//! file that was created or renamed here keeps its number and attributes in the table: it is
//! [assigned](FileTable::assign) to its name. The file of the table is append-only, and synced for assignments only: a
//! power loss can lose other entries, and a client then looks the handle up again. Names that are absent in the bucket
//! are not in the table.

mod file;
mod lru_map;
mod record;

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use seqferry_share::FileId;
use sha2::{Digest as _, Sha256};

use file::{RecordBuffer, TableFile};
use lru_map::LruMap;
use record::{TableRecord, encode_assigned, encode_name, record};

/// Number of the root.
pub(crate) const ROOT: u64 = 1;
/// Numbers below are for `.`, `..` and the root.
pub(crate) const FIRST: u64 = 16;
/// Hashes that are tried for a name whose number another name has.
const SALTS: u32 = 8;
/// Names that are remembered at a time; half of them are forgotten when there are more. About 100 bytes each, and 150
/// bytes more for each that is assigned.
const MAX_NAMES: usize = 20_000_000;

/// A name in a directory, the value of the file table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NamedFile {
    pub(crate) parent: u64,
    pub(crate) name: Box<str>,
    /// The file of this machine as the bucket had it last. None: the number is a hash of the name.
    pub(crate) assigned: Option<Box<AssignedFacts>>,
}

/// Attributes of a file that the bucket has as it is, as the share shows them while it has that version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AssignedFacts {
    /// Generation of the file's identity.
    pub(crate) generation: u32,
    /// [Hash](version_of) of the object's `ETag` and upload time.
    pub(crate) version: u64,
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    /// Nanoseconds since 1970, as the two that follow.
    pub(crate) accessed: u64,
    pub(crate) modified: u64,
    pub(crate) changed: u64,
    pub(crate) stated: u8,
}

/// Names by number. Clones are the same table.
#[derive(Debug, Clone)]
pub struct FileTable {
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    places: LruMap<u64, NamedFile>,
    /// Numbers of names that have another one than their hash.
    assigned: LruMap<(u64, Box<str>), u64>,
    /// None: the table ends with the process.
    file: Option<TableFile>,
}

impl Default for State {
    fn default() -> Self {
        Self { places: LruMap::new(MAX_NAMES), assigned: LruMap::new(MAX_NAMES), file: None }
    }
}

/// The first bytes of a hash, as a number.
fn hash(parts: &[&[u8]]) -> u64 {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update(part);
    }
    let mut start = [0; 8];
    start.copy_from_slice(&hasher.finalize()[..8]);
    u64::from_be_bytes(start)
}

fn number(parent: u64, name: &str, salt: u32) -> u64 {
    let hash = hash(&[&parent.to_be_bytes(), &salt.to_be_bytes(), name.as_bytes()]);
    // Clients with signed numbers are spared the sign.
    (hash >> 1).max(FIRST)
}

/// Hash of an `ETag` and of the upload time in seconds: a change of metadata alone keeps the `ETag`.
pub(crate) fn version_of(etag: &str, uploaded: f64) -> u64 {
    hash(&[etag.as_bytes(), &uploaded.floor().to_be_bytes()])
}

impl FileTable {
    /// A table that ends with the process.
    pub fn in_memory() -> Self {
        Self { state: Arc::default() }
    }

    /// The table in a file. Records behind a damaged one are dropped. A full disk is no failure.
    ///
    /// # Errors
    /// When the file cannot be read or written.
    pub fn open(path: &Path) -> io::Result<Self> {
        let bytes = file::read(path)?;
        let mut state = State::default();
        let mut rest: &[u8] = &bytes;
        let mut records = 0;
        while let Some((found, after)) = record(rest) {
            state.apply(found);
            records += 1;
            rest = after;
        }
        state.file = Some(TableFile::open(path, (bytes.len() - rest.len()) as u64, records)?);
        state.write_anew_if_due();
        Ok(Self { state: Arc::new(Mutex::new(state)) })
    }

    /// The number of a name. None: no number is free for it, which a billion names do not bring about.
    pub(crate) fn number(&self, parent: u64, name: &str) -> Option<u64> {
        self.numbers(parent, std::iter::once(name)).pop().flatten()
    }

    /// The numbers of names of one directory.
    pub(crate) fn numbers<'a>(&self, parent: u64, names: impl Iterator<Item = &'a str>) -> Vec<Option<u64>> {
        let mut state = self.lock();
        let mut added = RecordBuffer::default();
        let numbers = names.map(|name| state.number(parent, name, &mut added)).collect();
        state.append(&added);
        numbers
    }

    /// The file of a name in the bucket: the one that is assigned to it, or that of its hash. Files that `is_taken`
    /// names have another place meanwhile.
    pub(crate) fn file(&self, parent: u64, name: &str, is_taken: impl Fn(u64) -> bool) -> Option<FileId> {
        let mut state = self.lock();
        if let Some(file) = state.assigned_to(parent, name).filter(|file| !is_taken(file.number)) {
            return Some(file);
        }
        let mut added = RecordBuffer::default();
        let mut marked = name.to_owned();
        let number = loop {
            if !state.is_assigned_elsewhere(parent, &marked) {
                match state.number(parent, &marked, &mut added) {
                    Some(number) if is_taken(number) => {}
                    found => break found,
                }
            }
            // No name has this character.
            marked.push('\0');
        };
        state.append(&added);
        number.map(|number| FileId { number, generation: 0 })
    }

    /// The name of a number.
    pub(crate) fn place(&self, number: u64) -> Option<NamedFile> {
        self.lock().places.get(&number).cloned()
    }

    /// Have a name show as this file from now on, with these facts. [`FileTable::sync`] brings it to the disk.
    pub(crate) fn assign(&self, number: u64, place: NamedFile) {
        let mut state = self.lock();
        let record = encode(number, &place);
        state.assign(number, place);
        state.append_one(&record);
    }

    /// A file is no more: nothing shows under its number.
    pub(crate) fn release(&self, number: u64) {
        let mut state = self.lock();
        if state.places.get(&number).is_some_and(|place| place.assigned.is_some()) {
            state.release(number);
            state.append_one(&encode_name(number, 0, ""));
        }
    }

    /// Bring all assignments to the disk. Blocks.
    ///
    /// # Errors
    /// When the disk fails, or is full.
    pub(crate) fn sync(&self) -> io::Result<()> {
        let file = {
            let mut state = self.lock();
            if state.file.as_ref().is_some_and(TableFile::is_behind) {
                state.write_anew()?;
            }
            state.write_anew_if_due();
            state.file.as_ref().map(TableFile::to_sync).transpose()?.flatten()
        };
        file.map_or(Ok(()), |file| file.sync_data())
    }

    /// The part of a table in memory that a loss of power leaves at least: the assignments.
    #[cfg(test)]
    pub(crate) fn synced(&self) -> Self {
        let table = Self::in_memory();
        let assigned: Vec<(u64, NamedFile)> =
            self.lock().places.iter().map(|(number, place)| (*number, place.clone())).collect();
        for (number, place) in assigned.into_iter().filter(|(_, place)| place.assigned.is_some()) {
            table.assign(number, place);
        }
        table
    }

    /// Names in the table.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.lock().places.len()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn apply(&mut self, record: TableRecord) {
        match record {
            TableRecord::Name(number, place) => self.places.insert(number, place),
            TableRecord::AssignedFacts(number, place) => self.assign(number, place),
            TableRecord::Released(number) => self.release(number),
        }
    }

    fn append(&mut self, records: &RecordBuffer) {
        if let Some(file) = &mut self.file {
            file.append(records);
        }
        if self.file.as_ref().is_some_and(TableFile::is_behind) {
            self.write_anew_if_due();
        }
    }

    fn append_one(&mut self, record: &[u8]) {
        let mut records = RecordBuffer::default();
        records.push(record);
        self.append(&records);
    }

    /// Write the file again, if that is due. The file stays as it is where the disk has no space for two.
    fn write_anew_if_due(&mut self) {
        if self.file.as_ref().is_some_and(|file| file.is_due(self.places.len()))
            && let Err(error) = self.write_anew()
        {
            tracing::debug!("the table of file handles stays as it is: {error}");
        }
    }

    fn write_anew(&mut self) -> io::Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        let mut records = RecordBuffer::default();
        for (number, place) in self.places.iter() {
            records.push(&encode(*number, place));
        }
        file.replace(&records)
    }

    /// The number of a name by its hash.
    fn number(&mut self, parent: u64, name: &str, added: &mut RecordBuffer) -> Option<u64> {
        for salt in 0..SALTS {
            let number = number(parent, name, salt);
            match self.places.get(&number) {
                Some(known) if known.parent == parent && &*known.name == name => return Some(number),
                Some(_) => {}
                None => {
                    let place = NamedFile { parent, name: name.into(), assigned: None };
                    added.push(&encode(number, &place));
                    self.places.insert(number, place);
                    return Some(number);
                }
            }
        }
        None
    }

    /// True when the number of a name has gone with a file that was renamed.
    fn is_assigned_elsewhere(&mut self, parent: u64, name: &str) -> bool {
        let is_elsewhere = |place: &NamedFile| place.parent != parent || *place.name != *name;
        let place = self.places.get(&number(parent, name, 0));
        place.is_some_and(|place| place.assigned.is_some() && is_elsewhere(place))
    }

    fn assigned_to(&mut self, parent: u64, name: &str) -> Option<FileId> {
        let number = *self.assigned.get(&(parent, name.into()))?;
        let place = self.places.get(&number)?;
        let generation = place.assigned.as_ref()?.generation;
        Some(FileId { number, generation })
    }

    fn assign(&mut self, file: u64, place: NamedFile) {
        self.release(file);
        let name = (place.parent, place.name.clone());
        if let Some(before) = self.assigned.get(&name).copied() {
            self.release(before);
        }
        if number(place.parent, &place.name, 0) != file {
            self.assigned.insert(name, file);
        }
        self.places.insert(file, place);
    }

    fn release(&mut self, number: u64) {
        let Some(place) = self.places.get(&number).filter(|place| place.assigned.is_some()).cloned() else { return };
        self.places.remove(&number);
        let name = (place.parent, place.name);
        if self.assigned.get(&name) == Some(&number) {
            self.assigned.remove(&name);
        }
    }
}

fn encode(number: u64, place: &NamedFile) -> Vec<u8> {
    match &place.assigned {
        Some(facts) => encode_assigned(number, place, facts),
        None => encode_name(number, place.parent, &place.name),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::record::HEAD;
    use super::*;

    fn scratch() -> PathBuf {
        let folder = std::env::temp_dir().join(format!("seqferry-ids-{:016x}", fastrand::u64(..)));
        fs::create_dir(&folder).unwrap();
        folder
    }

    #[test]
    fn numbers_are_the_same_after_a_restart_and_find_their_names() {
        let folder = scratch();
        let path = folder.join("share.ids");
        let table = FileTable::open(&path).unwrap();
        let runs = table.number(ROOT, "runs").unwrap();
        let file = table.number(runs, "a.bam").unwrap();
        assert_eq!(table.number(runs, "a.bam"), Some(file));
        assert_ne!(table.number(ROOT, "a.bam"), Some(file));
        drop(table);
        let again = FileTable::open(&path).unwrap();
        assert_eq!(again.place(file), Some(NamedFile { parent: runs, name: "a.bam".into(), assigned: None }));
        assert_eq!(again.place(runs), Some(NamedFile { parent: ROOT, name: "runs".into(), assigned: None }));
        assert_eq!(again.place(file ^ 1), None);
        assert_eq!(FileTable::in_memory().number(runs, "a.bam"), Some(file), "a number comes from the name alone");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_damaged_end_is_cut_off_and_the_rest_is_kept() {
        let folder = scratch();
        let path = folder.join("share.ids");
        let (first, second) = {
            let table = FileTable::open(&path).unwrap();
            (table.number(ROOT, "first").unwrap(), table.number(ROOT, "second").unwrap())
        };
        let whole = fs::read(&path).unwrap();
        for length in 0..whole.len() {
            fs::write(&path, &whole[..length]).unwrap();
            let table = FileTable::open(&path).unwrap();
            assert_eq!(table.place(first).is_some(), length >= HEAD + 5, "{length} bytes");
            assert_eq!(table.place(second), None, "{length} bytes");
            assert_eq!(table.number(ROOT, "second"), Some(second));
            drop(table);
            assert!(FileTable::open(&path).unwrap().place(second).is_some(), "{length} bytes");
        }
        let mut changed = whole.clone();
        changed[HEAD + 2] ^= 1;
        fs::write(&path, &changed).unwrap();
        assert_eq!(FileTable::open(&path).unwrap().place(first), None, "a name must be that of its number");
        fs::remove_dir_all(folder).unwrap();
    }

    fn assigned(name: &str, version: u64) -> NamedFile {
        let facts = AssignedFacts {
            generation: 1,
            version,
            mode: 0o600,
            uid: 1,
            gid: 2,
            accessed: 3,
            modified: 4,
            changed: 5,
            stated: 6,
        };
        NamedFile { parent: ROOT, name: name.into(), assigned: Some(Box::new(facts)) }
    }

    fn set_room(table: &FileTable, room: Option<u64>) {
        table.lock().file.as_mut().unwrap().room = room;
    }

    #[test]
    fn the_file_does_not_grow_with_files_that_are_written_again_or_removed() {
        let folder = scratch();
        let path = folder.join("share.ids");
        let table = FileTable::open(&path).unwrap();
        for version in 0..20_000 {
            table.assign(1 << 40, assigned("same", version));
            table.assign((1 << 41) + version, assigned("removed", version));
            table.release((1 << 41) + version);
            if version % 100 == 0 {
                table.sync().unwrap();
            }
        }
        let length = fs::metadata(&path).unwrap().len();
        assert!(length < 200_000, "{length} bytes for one file");
        drop(table);
        assert_eq!(FileTable::open(&path).unwrap().place(1 << 40), Some(assigned("same", 19_999)));
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_full_disk_keeps_the_table_in_memory_and_no_assignment_counts_until_there_is_room() {
        let folder = scratch();
        let path = folder.join("share.ids");
        let table = FileTable::open(&path).unwrap();
        let first = table.number(ROOT, "first").unwrap();
        set_room(&table, Some(fs::metadata(&path).unwrap().len() + 3));
        let second = table.number(ROOT, "second").unwrap();
        table.assign(1 << 40, assigned("file", 1));
        assert_eq!(table.sync().unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(*table.place(second).unwrap().name, *"second");
        // The next process finds what the disk has taken.
        let again = FileTable::open(&path).unwrap();
        assert_eq!((again.place(first).is_some(), again.place(second)), (true, None));
        drop(again);
        set_room(&table, None);
        table.sync().unwrap();
        let again = FileTable::open(&path).unwrap();
        assert_eq!((again.place(second).is_some(), again.place(1 << 40)), (true, Some(assigned("file", 1))));
        fs::remove_dir_all(folder).unwrap();
    }

    /// A kernel would answer `StorageFull` to each write and each new file of a disk that is full; cutting off is free.
    #[test]
    fn a_table_that_was_cut_by_a_full_disk_is_opened_without_room() {
        let folder = scratch();
        let path = folder.join("share.ids");
        let first = FileTable::open(&path).unwrap().number(ROOT, "first").unwrap();
        let mut bytes = fs::read(&path).unwrap();
        let sound = bytes.len();
        bytes.extend_from_within(..HEAD + 2);
        fs::write(&path, &bytes).unwrap();
        // A folder in the place of the new file: nothing can be written beside the table.
        fs::create_dir(folder.join("share.ids.new")).unwrap();
        let table = FileTable::open(&path).unwrap();
        assert!(table.place(first).is_some());
        assert_eq!(fs::metadata(&path).unwrap().len(), sound as u64);
        let second = table.number(ROOT, "second").unwrap();
        drop(table);
        assert!(FileTable::open(&path).unwrap().place(second).is_some());
        fs::remove_dir_all(folder).unwrap();
    }
}
