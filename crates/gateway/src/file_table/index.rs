//! Index of the records of a table: a hash table on the disk, with linear probing, from keys to offsets.
//!
//! It holds what a scan of the records finds, so that a start need not scan them. It is never synced but in the end:
//! after a kill of the process the kernel still has its pages, and records behind [`Index::covered`] are indexed again.
//! After a restart of the machine, [`Index::open`] gives it up unless it was [closed](Index::close).

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, MemfdFlags, fallocate, memfd_create};
use rustix::io::Errno;

use super::hash;
use super::record::long;
use crate::journal::is_full;

/// First bytes of the file.
const MAGIC: u64 = u64::from_be_bytes(*b"SFIDS\0\0\x01");
/// Bytes before the slots, and of a page.
const PAGE: usize = 4096;
/// Bytes of a slot: a key (0: none), and its value.
const SLOT: usize = 16;
const SLOTS_IN_PAGE: u64 = (PAGE / SLOT) as u64;
/// Slots that are read first: nearly every key is in one of them.
const FEW_SLOTS: u64 = 8;
/// A new index has two to this power slots.
const FIRST_BITS: u32 = 12;
/// Value of a key that was removed.
const REMOVED: u64 = u64::MAX;
/// Bytes of the head of the file before their hash.
const HEAD: usize = 8 * 8;

/// The head of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Head {
    /// Identity of the file of records.
    records: u64,
    /// The start of the machine in which it is written to. 0: it was closed.
    boot: u64,
    bits: u32,
    /// Slots with a key, and those of them whose key was not removed.
    used: u64,
    live: u64,
    covered: Covered,
}

/// The part of the file of records that is indexed.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Covered {
    /// Bytes of whole records, from the start.
    pub(super) bytes: u64,
    /// Number of these records.
    pub(super) records: u64,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Index {
    /// None: it is in memory.
    path: Option<PathBuf>,
    file: File,
    head: Head,
}

/// A slot: where a key is, or would be.
struct Slot {
    at: u64,
    value: Option<u64>,
}

impl Index {
    /// The index of a file of records, as it was left. None: it has to be made anew.
    pub(super) fn open(path: &Path, records: u64) -> io::Result<Option<Self>> {
        let file = match OpenOptions::new().read(true).write(true).open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut bytes = [0; HEAD + 8];
        let is_whole = file.read_exact_at(&mut bytes, 0).is_ok();
        let Some(mut head) = Head::decode(&bytes).filter(|_| is_whole) else { return Ok(None) };
        let is_of_this_start = head.boot == 0 || head.boot == boot();
        if head.records != records || !is_of_this_start || file.metadata()?.len() != length(head.bits) {
            return Ok(None);
        }
        head.boot = boot();
        let index = Self { path: Some(path.to_owned()), file, head };
        index.write_head()?;
        // Before a slot is written: what a loss of power leaves of it must not pass for closed.
        index.file.sync_data()?;
        Ok(Some(index))
    }

    /// An empty index in a new file, or in memory.
    pub(super) fn create(path: Option<&Path>, records: u64) -> io::Result<Self> {
        let (boot, covered) = (boot(), Covered::default());
        Self::with_bits(path, Head { records, boot, bits: FIRST_BITS, used: 0, live: 0, covered })
    }

    fn with_bits(path: Option<&Path>, head: Head) -> io::Result<Self> {
        let file = match path {
            Some(path) => {
                // A new file: a process that has the old one open keeps it.
                let _before = fs::remove_file(path);
                OpenOptions::new().create_new(true).read(true).write(true).open(path)?
            }
            None => memfd_create(c"seqferry-file-table", MemfdFlags::CLOEXEC)?.into(),
        };
        file.set_len(length(head.bits))?;
        // An entry must find room where the disk has none.
        if path.is_some() && fallocate(&file, FallocateFlags::empty(), 0, length(head.bits)) == Err(Errno::NOSPC) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let index = Self { path: path.map(Path::to_owned), file, head };
        index.write_head()?;
        Ok(index)
    }

    /// Take the place of another file.
    pub(super) fn rename(&mut self, path: &Path) -> io::Result<()> {
        if let Some(before) = &self.path {
            fs::rename(before, path)?;
            self.path = Some(path.to_owned());
        }
        Ok(())
    }

    /// A later process makes it anew, unless it is [trusted](Index::trust) again.
    pub(super) fn distrust(&mut self) -> io::Result<()> {
        self.head.boot = !boot();
        self.write_head()
    }

    pub(super) fn trust(&mut self) -> io::Result<()> {
        self.head.boot = boot();
        self.write_head()
    }

    /// Number of keys.
    pub(super) fn len(&self) -> u64 {
        self.head.live
    }

    pub(super) fn covered(&self) -> Covered {
        self.head.covered
    }

    pub(super) fn cover(&mut self, covered: Covered) -> io::Result<()> {
        self.head.covered = covered;
        self.write_head()
    }

    /// The value of a key.
    pub(super) fn get(&self, key: u64) -> io::Result<Option<u64>> {
        Ok(self.find(key)?.and_then(|slot| slot.value).filter(|value| *value != REMOVED))
    }

    /// Set the value of a key.
    pub(super) fn set(&mut self, key: u64, value: u64) -> io::Result<()> {
        if 2 * self.head.used >= capacity(self.head.bits) {
            self.grow()?;
        }
        let slot = loop {
            match self.find(key)? {
                Some(slot) => break slot,
                None => self.grow()?,
            }
        };
        let mut bytes = [0; SLOT];
        bytes[..8].copy_from_slice(&key.to_be_bytes());
        bytes[8..].copy_from_slice(&value.to_be_bytes());
        self.file.write_all_at(&bytes, offset_of(slot.at))?;
        let was_live = slot.value.is_some_and(|before| before != REMOVED);
        self.head.used += u64::from(slot.value.is_none());
        self.head.live = self.head.live + u64::from(value != REMOVED) - u64::from(was_live);
        Ok(())
    }

    /// Remove a key.
    pub(super) fn remove(&mut self, key: u64) -> io::Result<()> {
        if self.get(key)?.is_some() {
            self.set(key, REMOVED)?;
        }
        Ok(())
    }

    /// Bring it to the disk, so that the machine may be restarted.
    pub(super) fn close(&mut self) -> io::Result<()> {
        self.file.sync_data()?;
        self.head.boot = 0;
        self.write_head()?;
        self.file.sync_data()
    }

    fn write_head(&self) -> io::Result<()> {
        self.file.write_all_at(&self.head.encode(), 0)
    }

    /// The slot of a key, or the free one that it would have. None: all slots are taken.
    fn find(&self, key: u64) -> io::Result<Option<Slot>> {
        let slots = capacity(self.head.bits);
        let mut at = home(key, self.head.bits);
        let mut page = [0; PAGE];
        let (mut seen, mut most) = (0, FEW_SLOTS);
        while seen < slots {
            let end = ((at / SLOTS_IN_PAGE + 1) * SLOTS_IN_PAGE).min(slots).min(at + most);
            most = SLOTS_IN_PAGE;
            let count = usize::try_from(end - at).unwrap_or(0);
            let bytes = &mut page[..count * SLOT];
            self.file.read_exact_at(bytes, offset_of(at))?;
            for (number, slot) in (at..).zip(bytes.chunks_exact(SLOT)) {
                match long_at(slot, 0) {
                    0 => return Ok(Some(Slot { at: number, value: None })),
                    found if found == key => return Ok(Some(Slot { at: number, value: Some(long_at(slot, 8)) })),
                    _ => {}
                }
            }
            seen += end - at;
            at = end % slots;
        }
        Ok(None)
    }

    /// Double the slots. Between two free slots are all keys with a home between them: in that order the new file is
    /// written from its start to its end.
    fn grow(&mut self) -> io::Result<()> {
        let head = Head { bits: self.head.bits + 1, used: 0, live: 0, ..self.head };
        let new = self.path.as_deref().map(|path| with_suffix(path, ".new"));
        let mut grown = match self.copy_to(new.as_deref(), head) {
            Err(error) if is_full(&error) => {
                let _left = new.map(fs::remove_file);
                self.copy_to(None, head)?
            }
            copied => copied?,
        };
        if let Some(path) = &self.path {
            grown.rename(path)?;
        }
        *self = grown;
        Ok(())
    }

    fn copy_to(&self, path: Option<&Path>, head: Head) -> io::Result<Self> {
        let mut grown = Self::with_bits(path, head)?;
        let mut writer = SlotWriter::new(&grown.file, head.bits)?;
        // Keys of the first slots whose homes are the last ones.
        let (mut around, mut cluster) = (Vec::new(), Vec::new());
        let mut page = vec![0; 64 * PAGE];
        let (mut at, slots) = (0, capacity(self.head.bits));
        while at < slots {
            let end = (at + 64 * SLOTS_IN_PAGE).min(slots);
            let bytes = &mut page[..usize::try_from(end - at).unwrap_or(0) * SLOT];
            self.file.read_exact_at(bytes, offset_of(at))?;
            for (number, slot) in (at..end).zip(bytes.chunks_exact(SLOT)) {
                let (key, value) = (long_at(slot, 0), long_at(slot, 8));
                match key {
                    0 => writer.write_all(&mut cluster)?,
                    _ if value == REMOVED => {}
                    _ if home(key, self.head.bits) > number => around.push((key, value)),
                    _ => cluster.push((key, value)),
                }
            }
            at = end;
        }
        cluster.append(&mut around);
        writer.write_all(&mut cluster)?;
        let (count, rest) = writer.finish()?;
        (grown.head.used, grown.head.live) = (count, count);
        for (key, value) in rest {
            grown.set(key, value)?;
        }
        grown.write_head()?;
        Ok(grown)
    }
}

/// Writes keys to slots, in the order of their homes.
struct SlotWriter<'a> {
    file: BufWriter<&'a File>,
    bits: u32,
    /// The next slot, and the number of keys before it.
    next: u64,
    count: u64,
    /// Keys for which the slots up to the end have no place.
    rest: Vec<(u64, u64)>,
}

impl<'a> SlotWriter<'a> {
    fn new(mut file: &'a File, bits: u32) -> io::Result<Self> {
        file.seek(SeekFrom::Start(offset_of(0)))?;
        let file = BufWriter::with_capacity(64 * PAGE, file);
        Ok(Self { file, bits, next: 0, count: 0, rest: Vec::new() })
    }

    fn write_all(&mut self, keys: &mut Vec<(u64, u64)>) -> io::Result<()> {
        keys.sort_by_key(|(key, _)| home(*key, self.bits));
        for (key, value) in keys.drain(..) {
            let at = home(key, self.bits).max(self.next);
            if at >= capacity(self.bits) {
                self.rest.push((key, value));
                continue;
            }
            while self.next < at {
                self.file.write_all(&[0; SLOT])?;
                self.next += 1;
            }
            self.file.write_all(&key.to_be_bytes())?;
            self.file.write_all(&value.to_be_bytes())?;
            self.next += 1;
            self.count += 1;
        }
        Ok(())
    }

    fn finish(mut self) -> io::Result<(u64, Vec<(u64, u64)>)> {
        self.file.flush()?;
        Ok((self.count, self.rest))
    }
}

impl Head {
    fn encode(&self) -> [u8; HEAD + 8] {
        let Covered { bytes: covered, records: count } = self.covered;
        let bits = u64::from(self.bits);
        let fields = [MAGIC, self.records, self.boot, bits, self.used, self.live, covered, count];
        let mut bytes = [0; HEAD + 8];
        for (into, field) in bytes.chunks_exact_mut(8).zip(fields) {
            into.copy_from_slice(&field.to_be_bytes());
        }
        let sum = hash(&[&bytes[..HEAD]]);
        bytes[HEAD..].copy_from_slice(&sum.to_be_bytes());
        bytes
    }

    fn decode(bytes: &[u8; HEAD + 8]) -> Option<Self> {
        let field = |number: usize| long_at(bytes, 8 * number);
        let bits = u32::try_from(field(3)).ok().filter(|bits| (FIRST_BITS..48).contains(bits))?;
        (field(0) == MAGIC && field(8) == hash(&[&bytes[..HEAD]])).then_some(Self {
            records: field(1),
            boot: field(2),
            bits,
            used: field(4),
            live: field(5),
            covered: Covered { bytes: field(6), records: field(7) },
        })
    }
}

fn capacity(bits: u32) -> u64 {
    1 << bits
}

fn length(bits: u32) -> u64 {
    offset_of(capacity(bits))
}

fn offset_of(slot: u64) -> u64 {
    PAGE as u64 + slot * SLOT as u64
}

/// The first slot that is tried for a key. Doubling the slots doubles it, or one more.
fn home(key: u64, bits: u32) -> u64 {
    // Fibonacci hashing: keys that were assigned follow one another.
    key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - bits)
}

fn long_at(bytes: &[u8], at: usize) -> u64 {
    long(&bytes[at..at + 8])
}

/// The start of the machine, as a number. It changes from process to process where the system does not say.
fn boot() -> u64 {
    let id = fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_else(|_| fastrand::u64(..).to_be_bytes().into());
    hash(&[&id]).max(1)
}

/// A path with something behind its name.
pub(super) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn scratch() -> PathBuf {
        std::env::temp_dir().join(format!("seqferry-index-{:016x}", fastrand::u64(..)))
    }

    #[test]
    fn it_is_a_map_of_any_size_that_survives_its_process() {
        let path = scratch();
        let mut index = Index::create(Some(&path), 7).unwrap();
        let mut model = HashMap::new();
        let mut rng = fastrand::Rng::with_seed(1);
        for round in 0..60_000_u64 {
            // Keys that follow one another, keys at random, and keys whose homes are the last slots.
            let key = match rng.u8(..4) {
                0 => 16 + round,
                1 => u64::MAX.wrapping_div(0x9e37_79b9_7f4a_7c15).wrapping_add(rng.u64(..64)).max(1),
                _ => rng.u64(16..50_000),
            };
            if rng.u8(..4) == 0 {
                index.remove(key).unwrap();
                model.remove(&key);
            } else {
                index.set(key, round).unwrap();
                model.insert(key, round);
            }
            if round % 10_000 == 0 {
                let covered = Covered { bytes: 9 * round, records: round };
                index.cover(covered).unwrap();
                drop(index);
                index = Index::open(&path, 7).unwrap().unwrap();
                assert_eq!(index.covered(), covered);
            }
        }
        assert_eq!(index.len(), model.len() as u64);
        for key in 1..120_000 {
            assert_eq!(index.get(key).unwrap(), model.get(&key).copied(), "{key}");
        }
        fs::remove_file(path).unwrap();
    }

    #[test]
    fn one_of_other_records_or_of_an_earlier_start_of_the_machine_is_given_up() {
        let path = scratch();
        let mut index = Index::create(Some(&path), 7).unwrap();
        index.set(16, 1).unwrap();
        assert!(Index::open(&path, 8).unwrap().is_none());
        index.distrust().unwrap();
        assert!(Index::open(&path, 7).unwrap().is_none(), "the machine was restarted");
        index.close().unwrap();
        drop(index);
        let again = Index::open(&path, 7).unwrap().unwrap();
        assert_eq!(again.get(16).unwrap(), Some(1), "it was closed");
        again.file.write_all_at(b"x", 20).unwrap();
        assert!(Index::open(&path, 7).unwrap().is_none(), "its head is damaged");
        fs::remove_file(path).unwrap();
    }
}
