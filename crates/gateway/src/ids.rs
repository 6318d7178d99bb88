//! Identities of files: numbers for names, which stay the same when an object is replaced and after a restart.
//!
//! A number is a hash of the name and of the number of its directory. The table finds the name of a number again. Its
//! file is appended to and never synced: what a loss of power takes is a handle that a client has to look up again.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use sha2::{Digest as _, Sha256};

/// Number of the root.
pub(crate) const ROOT: u64 = 1;
/// Numbers below are for `.`, `..` and the root.
pub(crate) const FIRST: u64 = 16;
/// Hashes that are tried for a name whose number another name has.
const SALTS: u32 = 8;
/// Names that are remembered at a time; half of them are forgotten when there are more. About 100 bytes each.
const MOST: usize = 20_000_000;
/// Bytes of a record before its name: number, number of the directory, length.
const HEAD: usize = 18;

/// A name in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) parent: u64,
    pub(crate) name: Box<str>,
}

/// Names by number.
#[derive(Debug)]
pub struct FileTable {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Names that were used lately, and those before.
    recent: HashMap<u64, Place>,
    older: HashMap<u64, Place>,
    file: Option<File>,
}

fn number(parent: u64, name: &str, salt: u32) -> u64 {
    let mut hasher = Sha256::new();
    hasher.update(parent.to_be_bytes());
    hasher.update(salt.to_be_bytes());
    hasher.update(name.as_bytes());
    let mut start = [0; 8];
    start.copy_from_slice(&hasher.finalize()[..8]);
    // Clients with signed numbers are spared the sign.
    (u64::from_be_bytes(start) >> 1).max(FIRST)
}

impl FileTable {
    /// A table that ends with the process.
    pub fn in_memory() -> Self {
        Self { state: Mutex::default() }
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
        while let Some((place, found, after)) = record(rest) {
            state.recent.insert(found, place);
            records += 1;
            rest = after;
            state.rotate();
        }
        let sound = bytes.len() - rest.len();
        if records > 2 * state.len() + 1024 || !rest.is_empty() {
            let kept: Vec<u8> = state.all().flat_map(|(number, place)| encode(number, place)).collect();
            replace(path, if records > 2 * state.len() + 1024 { &kept } else { &bytes[..sound] })?;
        }
        state.file = Some(OpenOptions::new().append(true).create(true).open(path)?);
        Ok(Self { state: Mutex::new(state) })
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
        if let Some(file) = &mut state.file
            && !added.is_empty()
            && let Err(error) = file.write_all(&added)
        {
            tracing::warn!("the table of file handles cannot be written: {error}. They end with this process");
            state.file = None;
        }
        numbers
    }

    /// The name of a number.
    pub(crate) fn place(&self, number: u64) -> Option<Place> {
        self.lock().place(number).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn len(&self) -> usize {
        self.recent.len() + self.older.len()
    }

    fn all(&self) -> impl Iterator<Item = (u64, &Place)> {
        self.older.iter().chain(&self.recent).map(|(number, place)| (*number, place))
    }

    /// Names that were not used for long are forgotten when there are too many.
    fn rotate(&mut self) {
        if self.recent.len() > MOST / 2 {
            self.older = std::mem::take(&mut self.recent);
        }
    }

    fn place(&mut self, number: u64) -> Option<&Place> {
        if let Some(place) = self.older.remove(&number) {
            self.recent.insert(number, place);
            self.rotate();
        }
        self.recent.get(&number).or_else(|| self.older.get(&number))
    }

    fn number(&mut self, parent: u64, name: &str, added: &mut Vec<u8>) -> Option<u64> {
        for salt in 0..SALTS {
            let number = number(parent, name, salt);
            match self.place(number) {
                Some(known) if known.parent == parent && &*known.name == name => return Some(number),
                Some(_) => {}
                None => {
                    let place = Place { parent, name: name.into() };
                    added.extend(encode(number, &place));
                    self.recent.insert(number, place);
                    self.rotate();
                    return Some(number);
                }
            }
        }
        None
    }
}

fn encode(number: u64, place: &Place) -> Vec<u8> {
    // Names are parts of keys, which have at most 1,024 bytes.
    let length = u16::try_from(place.name.len()).unwrap_or(u16::MAX);
    [&number.to_be_bytes()[..], &place.parent.to_be_bytes(), &length.to_be_bytes(), place.name.as_bytes()].concat()
}

/// The first record of these bytes, with its number and what follows. A number is that of its name: this is checked.
fn record(bytes: &[u8]) -> Option<(Place, u64, &[u8])> {
    let head: &[u8; HEAD] = bytes.first_chunk()?;
    let long = |from: usize| head[from..from + 8].iter().fold(0_u64, |all, byte| all << 8 | u64::from(*byte));
    let (found, parent) = (long(0), long(8));
    let length = usize::from(u16::from_be_bytes([head[16], head[17]]));
    let name = std::str::from_utf8(bytes.get(HEAD..HEAD + length)?).ok()?;
    if !(0..SALTS).any(|salt| number(parent, name, salt) == found) {
        return None;
    }
    Some((Place { parent, name: name.into() }, found, &bytes[HEAD + length..]))
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
        assert_eq!(again.place(file), Some(Place { parent: runs, name: "a.bam".into() }));
        assert_eq!(again.place(runs), Some(Place { parent: ROOT, name: "runs".into() }));
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
