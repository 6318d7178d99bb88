//! Identities of files: numbers for names, which stay the same when an object is replaced and after a restart.
//!
//! A number is a hash of the name and of the number of its directory. The table finds the name of a number again. A
//! file that was made or renamed here and that the bucket has as it is keeps its number and its facts in the table: it
//! is [assigned](FileTable::assign) to its name. The file of the table is appended to, and synced for assignments
//! alone: what a loss of power takes of the rest is a handle that a client has to look up again.

mod record;
mod remembered;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use seqferry_nfs::FileId;
use sha2::{Digest as _, Sha256};

use record::{Record, encode_assigned, encode_name, record};
use remembered::Remembered;

/// Number of the root.
pub(crate) const ROOT: u64 = 1;
/// Numbers below are for `.`, `..` and the root.
pub(crate) const FIRST: u64 = 16;
/// Hashes that are tried for a name whose number another name has.
const SALTS: u32 = 8;
/// Names that are remembered at a time; half of them are forgotten when there are more. About 100 bytes each, and 150
/// bytes more for each that is assigned.
const MOST: usize = 20_000_000;

/// A name in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) parent: u64,
    pub(crate) name: Box<str>,
    /// The file of this machine as the bucket had it last. None: the number is a hash of the name.
    pub(crate) assigned: Option<Box<Assigned>>,
}

/// Facts about a file that the bucket has as it is, as the share shows them while it has that version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Assigned {
    /// Generation of the file's identity.
    pub(crate) generation: u32,
    /// [Hash](version_of) of the object's `ETag`.
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
    places: Remembered<u64, Place>,
    /// Numbers of names that have another one than their hash.
    assigned: Remembered<(u64, Box<str>), u64>,
    file: Option<File>,
}

impl Default for State {
    fn default() -> Self {
        Self { places: Remembered::new(MOST), assigned: Remembered::new(MOST), file: None }
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

/// Hash of an `ETag`.
pub(crate) fn version_of(etag: &str) -> u64 {
    hash(&[etag.as_bytes()])
}

impl FileTable {
    /// A table that ends with the process.
    pub fn in_memory() -> Self {
        Self { state: Arc::default() }
    }

    /// The table in a file. Records behind a damaged one are dropped.
    ///
    /// # Errors
    /// When the file cannot be read or written.
    pub fn open(path: &Path) -> io::Result<Self> {
        let mut bytes = Vec::new();
        match File::open(path) {
            Ok(mut file) => drop(file.read_to_end(&mut bytes)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let mut state = State::default();
        let mut rest: &[u8] = &bytes;
        let mut records = 0;
        while let Some((found, after)) = record(rest) {
            state.apply(found);
            records += 1;
            rest = after;
        }
        let sound = bytes.len() - rest.len();
        if records > 2 * state.places.len() + 1024 || !rest.is_empty() {
            let kept: Vec<u8> = state.places.iter().flat_map(|(number, place)| encode(*number, place)).collect();
            replace(path, if records > 2 * state.places.len() + 1024 { &kept } else { &bytes[..sound] })?;
        }
        state.file = Some(OpenOptions::new().append(true).create(true).open(path)?);
        Ok(Self { state: Arc::new(Mutex::new(state)) })
    }

    /// The number of a name. None: no number is free for it, which a billion names do not bring about.
    pub(crate) fn number(&self, parent: u64, name: &str) -> Option<u64> {
        self.numbers(parent, std::iter::once(name)).pop().flatten()
    }

    /// The numbers of names of one directory.
    pub(crate) fn numbers<'a>(&self, parent: u64, names: impl Iterator<Item = &'a str>) -> Vec<Option<u64>> {
        let mut state = self.lock();
        let mut added = Vec::new();
        let numbers = names.map(|name| state.number(parent, name, &mut added)).collect();
        state.append(&added);
        numbers
    }

    /// The file of a name in the bucket: the one that is assigned to it, or that of its hash. Files that `is_taken`
    /// names have another place by now.
    pub(crate) fn file(&self, parent: u64, name: &str, is_taken: impl Fn(u64) -> bool) -> Option<FileId> {
        let mut state = self.lock();
        if let Some(file) = state.assigned_to(parent, name).filter(|file| !is_taken(file.number)) {
            return Some(file);
        }
        let mut added = Vec::new();
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
    pub(crate) fn place(&self, number: u64) -> Option<Place> {
        self.lock().places.get(&number).cloned()
    }

    /// Have a name show as this file from now on, with these facts. [`FileTable::sync`] brings it to the disk.
    pub(crate) fn assign(&self, number: u64, place: Place) {
        let mut state = self.lock();
        let bytes = encode(number, &place);
        state.assign(number, place);
        state.append(&bytes);
    }

    /// A file is no more: nothing shows under its number.
    pub(crate) fn release(&self, number: u64) {
        let mut state = self.lock();
        if state.places.get(&number).is_some_and(|place| place.assigned.is_some()) {
            state.release(number);
            state.append(&encode_name(number, 0, ""));
        }
    }

    /// Bring all assignments to the disk. Blocks.
    ///
    /// # Errors
    /// When the disk fails.
    pub(crate) fn sync(&self) -> io::Result<()> {
        let file = self.lock().file.as_ref().map(File::try_clone).transpose()?;
        file.map_or(Ok(()), |file| file.sync_data())
    }

    /// The part of a table in memory that a loss of power leaves at least: the assignments.
    #[cfg(test)]
    pub(crate) fn synced(&self) -> Self {
        let table = Self::in_memory();
        let assigned: Vec<(u64, Place)> =
            self.lock().places.iter().map(|(number, place)| (*number, place.clone())).collect();
        for (number, place) in assigned.into_iter().filter(|(_, place)| place.assigned.is_some()) {
            table.assign(number, place);
        }
        table
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn apply(&mut self, record: Record) {
        match record {
            Record::Name(number, place) => self.places.insert(number, place),
            Record::Assigned(number, place) => self.assign(number, place),
            Record::Released(number) => self.release(number),
        }
    }

    fn append(&mut self, bytes: &[u8]) {
        if let Some(file) = &mut self.file
            && !bytes.is_empty()
            && let Err(error) = file.write_all(bytes)
        {
            tracing::warn!("the table of file handles cannot be written: {error}. They end with this process");
            self.file = None;
        }
    }

    /// The number of a name by its hash.
    fn number(&mut self, parent: u64, name: &str, added: &mut Vec<u8>) -> Option<u64> {
        for salt in 0..SALTS {
            let number = number(parent, name, salt);
            match self.places.get(&number) {
                Some(known) if known.parent == parent && &*known.name == name => return Some(number),
                Some(_) => {}
                None => {
                    let place = Place { parent, name: name.into(), assigned: None };
                    added.extend(encode(number, &place));
                    self.places.insert(number, place);
                    return Some(number);
                }
            }
        }
        None
    }

    /// True when the number of a name has gone with a file that was renamed.
    fn is_assigned_elsewhere(&mut self, parent: u64, name: &str) -> bool {
        let is_elsewhere = |place: &Place| place.parent != parent || *place.name != *name;
        let place = self.places.get(&number(parent, name, 0));
        place.is_some_and(|place| place.assigned.is_some() && is_elsewhere(place))
    }

    fn assigned_to(&mut self, parent: u64, name: &str) -> Option<FileId> {
        let number = *self.assigned.get(&(parent, name.into()))?;
        let place = self.places.get(&number)?;
        let generation = place.assigned.as_ref()?.generation;
        Some(FileId { number, generation })
    }

    fn assign(&mut self, file: u64, place: Place) {
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

fn encode(number: u64, place: &Place) -> Vec<u8> {
    match &place.assigned {
        Some(facts) => encode_assigned(number, place, facts),
        None => encode_name(number, place.parent, &place.name),
    }
}

/// Write a file anew; the old one stays until the new one is whole.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let temporary = PathBuf::from(name);
    fs::write(&temporary, bytes)?;
    fs::rename(&temporary, path)
}

#[cfg(test)]
mod tests {
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
        assert_eq!(again.place(file), Some(Place { parent: runs, name: "a.bam".into(), assigned: None }));
        assert_eq!(again.place(runs), Some(Place { parent: ROOT, name: "runs".into(), assigned: None }));
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
}
