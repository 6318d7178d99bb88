//! Bytes that were written to files of a share: a sparse file each, in a folder of this machine.
//!
//! Only ranges that the journal names count; other bytes of a data file mean nothing.

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use seqferry_store::crash_point::{self, When};

use crate::journal::Disk;

/// Data files that are kept open.
const OPEN: usize = 256;
const ENDING: &str = ".data";
/// Ending of data files that no file of the share has: they are kept, for a person to look at.
const UNKNOWN: &str = ".unknown";

#[derive(Debug)]
pub(crate) struct DataFolder<D: Disk> {
    disk: D,
    state: Mutex<State<D>>,
}

struct State<D: Disk> {
    open: HashMap<u64, Arc<D::File>>,
    /// Data files whose names are not on the disk for sure.
    unnamed: HashSet<u64>,
    /// All data files.
    known: HashSet<u64>,
    /// Those that an earlier process has left. Bytes in the page cache may not be on the disk.
    left: HashSet<u64>,
}

impl<D: Disk> std::fmt::Debug for State<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("known", &self.known.len()).finish_non_exhaustive()
    }
}

fn name_of(number: u64) -> String {
    format!("{number:016x}{ENDING}")
}

fn parse(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(ENDING)?;
    (digits.len() == 16).then(|| u64::from_str_radix(digits, 16).ok())?
}

impl<D: Disk> DataFolder<D> {
    /// The data files of a folder. Those of no file in `used` get another name; returns how many.
    pub(crate) fn open(disk: D, is_used: impl Fn(u64) -> bool) -> io::Result<(Self, usize)> {
        let (used, unknown): (HashSet<u64>, HashSet<u64>) =
            disk.names()?.iter().filter_map(|name| parse(name)).partition(|number| is_used(*number));
        for number in &unknown {
            let name = name_of(*number);
            disk.rename(&name, &format!("{name}{UNKNOWN}"))?;
        }
        // A process that was killed may have made what it did not sync.
        disk.sync_names()?;
        let state = State { open: HashMap::new(), unnamed: HashSet::new(), left: used.clone(), known: used };
        Ok((Self { disk, state: Mutex::new(state) }, unknown.len()))
    }

    pub(crate) fn disk(&self) -> &D {
        &self.disk
    }

    fn lock(&self) -> MutexGuard<'_, State<D>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The data file of a number; a new one where it does not exist.
    fn file(&self, number: u64) -> io::Result<Arc<D::File>> {
        let mut state = self.lock();
        if let Some(file) = state.open.get(&number) {
            return Ok(Arc::clone(file));
        }
        let file = if state.known.contains(&number) {
            self.disk.open(&name_of(number))?
        } else {
            let file = self.disk.create(&name_of(number))?;
            state.known.insert(number);
            state.unnamed.insert(number);
            file
        };
        let file = Arc::new(file);
        if state.open.len() >= OPEN {
            // Those in use are closed when their call ends.
            state.open.clear();
        }
        state.open.insert(number, Arc::clone(&file));
        Ok(file)
    }

    pub(crate) fn write(&self, number: u64, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let file = self.file(number)?;
        crash_point::reach(When::Before, "data-written");
        self.disk.write_at(&*file, offset, bytes)?;
        crash_point::reach(When::After, "data-written");
        Ok(())
    }

    /// Bytes of a range that was written. They are on the disk where an earlier process has left them: what is shown
    /// once is not taken back by a loss of power.
    pub(crate) fn read(&self, number: u64, start: u64, end: u64) -> io::Result<Bytes> {
        if self.is_left(number) {
            self.sync(number)?;
        }
        let length = usize::try_from(end - start).map_err(io::Error::other)?;
        let mut bytes = vec![0; length];
        self.disk.read_at(&*self.file(number)?, start, &mut bytes)?;
        Ok(bytes.into())
    }

    /// Bring what was written to the disk, and the name of the data file.
    pub(crate) fn sync(&self, number: u64) -> io::Result<()> {
        let file = self.file(number)?;
        crash_point::reach(When::Before, "data-synced");
        self.disk.sync(&file)?;
        let is_unnamed = self.lock().unnamed.contains(&number);
        if is_unnamed {
            self.disk.sync_names()?;
            self.lock().unnamed.remove(&number);
        }
        self.lock().left.remove(&number);
        crash_point::reach(When::After, "data-synced");
        Ok(())
    }

    /// Data files that an earlier process has left.
    pub(crate) fn left(&self) -> Vec<u64> {
        self.lock().left.iter().copied().collect()
    }

    /// True until the data file of an earlier process was synced by this one.
    pub(crate) fn is_left(&self, number: u64) -> bool {
        self.lock().left.contains(&number)
    }

    /// Give back the room behind an offset.
    pub(crate) fn cut(&self, number: u64, length: u64) -> io::Result<()> {
        if !self.lock().known.contains(&number) {
            return Ok(());
        }
        let file = self.file(number)?;
        if self.disk.length(&file)? > length { self.disk.set_length(&file, length) } else { Ok(()) }
    }

    /// Remove a data file, if there is one.
    pub(crate) fn remove(&self, number: u64) -> io::Result<()> {
        let is_known = {
            let mut state = self.lock();
            state.open.remove(&number);
            state.unnamed.remove(&number);
            state.left.remove(&number);
            state.known.remove(&number)
        };
        if is_known {
            crash_point::reach(When::Before, "data-removed");
            self.disk.remove(&name_of(number))?;
            crash_point::reach(When::After, "data-removed");
        }
        Ok(())
    }

    /// True when so much of the disk is in use that the rest is for the journal.
    pub(crate) fn is_full(&self) -> bool {
        self.disk.space().is_ok_and(|(free, all)| free < reserved(all))
    }

    /// Bytes that files can still take of the disk, and all that they could.
    pub(crate) fn space(&self) -> io::Result<(u64, u64)> {
        let (free, all) = self.disk.space()?;
        let reserved = reserved(all);
        Ok((free.saturating_sub(reserved), all - reserved))
    }
}

/// Bytes of the disk that data leaves to the journal and to others: 5 %.
fn reserved(all: u64) -> u64 {
    all / 20
}
