//! Identities of files: numbers for names, which stay the same when an object is replaced and after a restart.
//!
//! A number is a hash of the name and of the number of its directory. The table maps a number back to its name. A clean
//! file that was created or renamed here keeps its number and attributes in the table: it is
//! [assigned](FileTable::assign) to its name. The file of the table is append-only, and synced for assignments only: a
//! power loss can lose other entries, and a client then looks the handle up again. Names that are absent in the bucket
//! are not in the table. Nothing of it is held in memory, however many names it has: an index on the disk says where the
//! record of a number is.

mod file;
mod index;
mod record;

use std::borrow::Cow;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use seqferry_share::FileId;
use sha2::{Digest as _, Sha256};

use file::{Entry, TableFile};
use record::TableRecord;

/// Number of the root.
pub(crate) const ROOT: u64 = 1;
/// Numbers below are for `.`, `..` and the root.
pub(crate) const FIRST: u64 = 16;
/// Hashes that are tried for a name whose number another name has.
const SALTS: u32 = 8;
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
    file: Arc<Mutex<TableFile>>,
}

/// The first bytes of a hash, as a number.
fn hash(parts: &[&[u8]]) -> u64 {
    start_of(&digest(parts))
}

fn digest(parts: &[&[u8]]) -> [u8; 32] {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update(part);
    }
    hasher.finalize().into()
}

fn start_of(digest: &[u8; 32]) -> u64 {
    let mut start = [0; 8];
    start.copy_from_slice(&digest[..8]);
    u64::from_be_bytes(start)
}

fn of_name(parent: u64, name: &str, salt: u32) -> [u8; 32] {
    digest(&[&parent.to_be_bytes(), &salt.to_be_bytes(), name.as_bytes()])
}

fn number(parent: u64, name: &str, salt: u32) -> u64 {
    number_of(&of_name(parent, name, salt))
}

fn number_of(digest: &[u8; 32]) -> u64 {
    // Clients with signed numbers are spared the sign.
    (start_of(digest) >> 1).max(FIRST)
}

/// The number of a name by its hash, where no other name has it; and 24 further bits of the hash. With a number they say
/// which name it is.
fn first_number(parent: u64, name: &str) -> (u64, u64) {
    let digest = of_name(parent, name, 0);
    let tag = digest[8..11].iter().fold(0, |all, byte| all << 8 | u64::from(*byte));
    (number_of(&digest), tag)
}

/// The key in the index of the file that is assigned to a name. No number is as large.
fn assigned_key(parent: u64, name: &str) -> u64 {
    hash(&[b"assigned", &parent.to_be_bytes(), name.as_bytes()]) | 1 << 63
}

/// Hash of an `ETag` and of the upload time in seconds: a change of metadata alone keeps the `ETag`.
pub(crate) fn version_of(etag: &str, uploaded: f64) -> u64 {
    hash(&[etag.as_bytes(), &uploaded.floor().to_be_bytes()])
}

impl FileTable {
    /// A table that ends with the process.
    #[cfg(test)]
    pub(crate) fn in_memory() -> Self {
        Self::of(TableFile::in_memory().unwrap())
    }

    /// The table in a file. Records behind a damaged one are dropped. A full disk is no failure.
    ///
    /// # Errors
    /// When the file cannot be read or written.
    pub fn open(path: &Path) -> io::Result<Self> {
        TableFile::open(path).map(Self::of)
    }

    fn of(file: TableFile) -> Self {
        Self { file: Arc::new(Mutex::new(file)) }
    }

    /// The number of a name. None: no number is free for it, which a billion names do not bring about.
    pub(crate) fn number(&self, parent: u64, name: &str) -> Option<u64> {
        self.numbers(parent, std::iter::once(name)).pop().flatten()
    }

    /// The numbers of names of one directory.
    pub(crate) fn numbers<'a>(&self, parent: u64, names: impl Iterator<Item = &'a str>) -> Vec<Option<u64>> {
        let mut file = self.lock();
        let mut added = Vec::new();
        let numbers = names.map(|name| file.number(parent, name, &mut added)).collect();
        file.append(&added);
        numbers
    }

    /// The file of a name in the bucket: the one that is assigned to it, with its facts, or that of its hash. Files that
    /// `is_taken` names have another place meanwhile.
    pub(crate) fn file(
        &self,
        parent: u64,
        name: &str,
        is_taken: impl Fn(u64) -> bool,
    ) -> Option<(FileId, Option<AssignedFacts>)> {
        let mut file = self.lock();
        if let Some((number, facts)) = file.assigned(parent, name).filter(|(number, _)| !is_taken(*number)) {
            return Some((FileId { number, generation: facts.generation }, Some(facts)));
        }
        let mut added = Vec::new();
        let mut marked = Cow::Borrowed(name);
        let number = loop {
            let first = file.first_number(parent, &marked);
            if !file.is_assigned_elsewhere(first) {
                match file.number_from(first, parent, &marked, &mut added) {
                    Some(number) if is_taken(number) => {}
                    found => break found,
                }
            }
            // No name has this character.
            marked.to_mut().push('\0');
        };
        file.append(&added);
        number.map(|number| (FileId { number, generation: 0 }, None))
    }

    /// The name of a number.
    pub(crate) fn place(&self, number: u64) -> Option<NamedFile> {
        self.lock().place(number)
    }

    /// Have a name show as this file from now on, with these facts. [`FileTable::sync`] brings it to the disk.
    pub(crate) fn assign(&self, number: u64, place: NamedFile) {
        self.lock().append(&[TableRecord::Place(number, place)]);
    }

    /// A file is no more: nothing shows under its number.
    pub(crate) fn release(&self, number: u64) {
        let mut file = self.lock();
        if file.place(number).is_some_and(|place| place.assigned.is_some()) {
            file.append(&[TableRecord::Released(number)]);
        }
    }

    /// Bring all assignments to the disk. Blocks.
    ///
    /// # Errors
    /// When the disk fails, or is full.
    pub(crate) fn sync(&self) -> io::Result<()> {
        let file = self.lock().prepare_sync()?;
        file.map_or(Ok(()), |file| file.sync_data())
    }

    /// The part of a table in memory that a loss of power leaves at least: the assignments.
    #[cfg(test)]
    pub(crate) fn synced(&self) -> Self {
        let table = Self::in_memory();
        for (number, place) in self.lock().places().into_iter().filter(|(_, place)| place.assigned.is_some()) {
            table.assign(number, place);
        }
        table
    }

    /// Names in the table.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.lock().places().len()
    }

    fn lock(&self) -> MutexGuard<'_, TableFile> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The number of a name by its hash, where no other name has it; further bits of the hash; and the entry of the number.
type FirstNumber = (u64, u64, Option<Entry>);

impl TableFile {
    /// The number of a name by its hash.
    fn number(&mut self, parent: u64, name: &str, added: &mut Vec<TableRecord>) -> Option<u64> {
        self.number_from(self.first_number(parent, name), parent, name, added)
    }

    fn first_number(&self, parent: u64, name: &str) -> FirstNumber {
        let (first, tag) = first_number(parent, name);
        (first, tag, self.entry(first))
    }

    fn number_from(
        &mut self,
        (first, tag, known): FirstNumber,
        parent: u64,
        name: &str,
        added: &mut Vec<TableRecord>,
    ) -> Option<u64> {
        for salt in 0..SALTS {
            let number = if salt == 0 { first } else { number(parent, name, salt) };
            match if salt == 0 { known } else { self.entry(number) } {
                Some(known) if known.tag == tag => return Some(number),
                Some(_) => {}
                None => {
                    added.push(TableRecord::Place(number, NamedFile { parent, name: name.into(), assigned: None }));
                    return Some(number);
                }
            }
        }
        None
    }

    /// True when the number of a name has gone with a file that was renamed.
    fn is_assigned_elsewhere(&self, (_, tag, known): FirstNumber) -> bool {
        let other = known.filter(|known| known.tag != tag);
        other.and_then(|known| self.place_at(known)).is_some_and(|(_, place)| place.assigned.is_some())
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

    /// A loss of the index in this folder, which had these bytes earlier.
    type Loss<'a> = &'a dyn Fn(&Path, &[u8]);

    /// A process that was killed has written all of this, and not closed the index.
    fn kill(table: FileTable) {
        std::mem::forget(table);
    }

    #[test]
    fn all_is_found_again_whatever_the_index_of_an_earlier_process_says() {
        let names: Vec<String> = (0..20_000).map(|number| format!("run_{number:06}.fastq.gz")).collect();
        let index = |folder: &Path| folder.join("share.ids.index");
        let ways: [Loss<'_>; 4] = [
            &|_, _| {},
            &|folder, _| fs::remove_file(index(folder)).unwrap(),
            &|folder, early| fs::write(index(folder), early).unwrap(),
            &|folder, early| fs::write(index(folder), &early[..early.len() / 2]).unwrap(),
        ];
        for (number, lose) in ways.into_iter().enumerate() {
            let folder = scratch();
            let path = folder.join("share.ids");
            let table = FileTable::open(&path).unwrap();
            let early = table.numbers(ROOT, names[..1000].iter().map(String::as_str));
            table.assign(1 << 40, assigned("one", 1));
            let kept = fs::read(index(&folder)).unwrap();
            let late = table.numbers(ROOT, names[1000..].iter().map(String::as_str));
            table.assign(1 << 40, assigned("other", 2));
            table.assign(early[7].unwrap(), assigned("renamed", 3));
            kill(table);
            lose(&folder, &kept);
            let table = FileTable::open(&path).unwrap();
            let found = |name| table.file(ROOT, name, |_| false).unwrap().0.number;
            assert_eq!((found("other"), found("renamed")), (1 << 40, early[7].unwrap()), "way {number}");
            assert_eq!(table.place(1 << 40), Some(assigned("other", 2)), "way {number}");
            assert_ne!((found("one"), found(&names[7])), (1 << 40, early[7].unwrap()), "way {number}");
            for (name, file) in names.iter().zip(early.iter().chain(&late)).skip(8) {
                assert_eq!(table.place(file.unwrap()).unwrap().name.as_ref(), name, "way {number}");
            }
            assert_eq!(table.len(), names.len() + 3, "nothing is recorded twice");
            fs::remove_dir_all(folder).unwrap();
        }
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
        table.lock().room = room;
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
    fn an_assignment_after_a_failed_attempt_to_write_the_file_anew_is_kept() {
        for in_the_way in ["share.ids.new", "share.ids.index"] {
            let folder = scratch();
            let path = folder.join("share.ids");
            let table = FileTable::open(&path).unwrap();
            let _index = fs::remove_file(folder.join(in_the_way));
            fs::create_dir(folder.join(in_the_way)).unwrap();
            for version in 0..2000 {
                table.assign(1 << 40, assigned("same", version));
            }
            table.sync().unwrap();
            let failed_at = table.lock().failed_at;
            assert!(failed_at.is_some(), "{in_the_way}");
            table.assign(1 << 40, assigned("last", 2000));
            table.sync().unwrap();
            assert_eq!(table.lock().failed_at, failed_at, "{in_the_way}: it is not tried again with each sync");
            kill(table);
            fs::remove_dir(folder.join(in_the_way)).unwrap();
            let again = FileTable::open(&path).unwrap();
            assert_eq!(again.place(1 << 40), Some(assigned("last", 2000)), "{in_the_way}");
            fs::remove_dir_all(folder).unwrap();
        }
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
