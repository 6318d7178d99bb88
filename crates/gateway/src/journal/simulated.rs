//! A disk in memory that loses power, or whose process is killed, at any step.
//!
//! A killed process loses nothing that was written. A loss of power keeps what was synced; of what was written since,
//! each sector of 512 bytes is there or not, the length is any of those between, and of the changes of names a first
//! part is there. A step at which the power goes may have been done in part.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::disk::Disk;

pub(crate) const SECTOR: usize = 512;
/// Bytes of the disk.
pub(crate) const SPACE: u64 = 100 << 30;

/// Kinds of steps, which the crash tests name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum DiskStep {
    Create,
    Append,
    Sync,
    Rename,
    Remove,
    SyncNames,
    Write,
    SetLength,
}

/// A file: its bytes as they are, as they are on the disk, and the sectors that the next sync brings there.
#[derive(Debug, Clone, Default)]
struct SimulatedFile {
    now: Vec<u8>,
    synced: Vec<u8>,
    dirty: BTreeSet<usize>,
}

impl SimulatedFile {
    fn write(&mut self, offset: usize, bytes: &[u8]) {
        let start = offset.min(self.now.len()) / SECTOR;
        let end = offset + bytes.len();
        self.now.resize(self.now.len().max(end), 0);
        self.now[offset..end].copy_from_slice(bytes);
        self.dirty.extend(start..end.div_ceil(SECTOR));
    }

    fn sync(&mut self) {
        self.synced.resize(self.now.len(), 0);
        for sector in std::mem::take(&mut self.dirty) {
            let end = ((sector + 1) * SECTOR).min(self.now.len());
            let range = (sector * SECTOR).min(end)..end;
            self.synced[range.clone()].copy_from_slice(&self.now[range]);
        }
    }
}

#[derive(Debug, Clone)]
enum NameChange {
    Create(String, usize),
    Rename(String, String),
    Remove(String),
}

#[derive(Debug, Default)]
struct State {
    files: Vec<SimulatedFile>,
    names: BTreeMap<String, usize>,
    synced_names: BTreeMap<String, usize>,
    changes: Vec<NameChange>,
    steps: Vec<DiskStep>,
    /// Steps until the disk does nothing any more.
    steps_left: Option<usize>,
    is_dead: bool,
    /// Hundredths that are free; None: all.
    free: Option<u64>,
    /// Kinds of steps that fail, and have no effect.
    failing_steps: BTreeSet<DiskStep>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct SimulatedDisk {
    state: Arc<Mutex<State>>,
    /// An operation of the disk takes a random time of the clock of the runtime, and no thread of its own.
    is_timed: bool,
}

fn apply(names: &mut BTreeMap<String, usize>, change: &NameChange) {
    match change {
        NameChange::Create(name, file) => drop(names.insert(name.clone(), *file)),
        NameChange::Rename(from, to) => {
            if let Some(file) = names.remove(from) {
                names.insert(to.clone(), file);
            }
        }
        NameChange::Remove(name) => drop(names.remove(name)),
    }
}

impl SimulatedDisk {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A disk on the runtime's clock, with the random numbers of this thread.
    pub(crate) fn timed() -> Self {
        Self { is_timed: true, ..Self::default() }
    }

    /// Another disk of the kind, without files.
    pub(crate) fn fresh(&self) -> Self {
        self.with(State::default())
    }

    fn with(&self, state: State) -> Self {
        Self { state: Arc::new(Mutex::new(state)), is_timed: self.is_timed }
    }

    /// Fail from the step after this many on.
    pub(crate) fn die_after(&self, steps: usize) {
        self.lock().steps_left = Some(steps);
    }

    /// Fail each step of these kinds from now on, as a full or a bad disk does.
    pub(crate) fn fail(&self, kinds: &[DiskStep]) {
        self.lock().failing_steps = kinds.iter().copied().collect();
    }

    /// True from [`SimulatedDisk::die_after`] on.
    pub(crate) fn will_die(&self) -> bool {
        self.lock().steps_left.is_some()
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.lock().is_dead
    }

    /// Show this many hundredths of the disk as free.
    pub(crate) fn set_free(&self, free: u64) {
        self.lock().free = Some(free);
    }

    /// Steps so far.
    pub(crate) fn steps(&self) -> Vec<DiskStep> {
        self.lock().steps.clone()
    }

    /// The disk as the next process finds it.
    pub(crate) fn restarted(&self, random: &mut fastrand::Rng, lost_power: bool) -> Self {
        let mut state = self.lock();
        let mut next = State::default();
        if !lost_power {
            next.files = state.files.clone();
            (next.names, next.synced_names) = (state.names.clone(), state.synced_names.clone());
            next.changes = state.changes.clone();
            return self.with(next);
        }
        next.names = std::mem::take(&mut state.synced_names);
        let kept = random.usize(0..=state.changes.len());
        state.changes[..kept].iter().for_each(|change| apply(&mut next.names, change));
        next.synced_names = next.names.clone();
        next.files = state.files.iter().map(|file| after_power_loss(file, random)).collect();
        self.with(next)
    }

    /// Change a byte of a file permanently.
    pub(crate) fn damage(&self, name: &str, at: usize) {
        let mut state = self.lock();
        let file = state.names[name];
        state.files[file].now[at] ^= 0x10;
    }

    pub(crate) fn bytes(&self, name: &str) -> Vec<u8> {
        let state = self.lock();
        state.files[state.names[name]].now.clone()
    }

    pub(crate) fn set(&self, name: &str, bytes: &[u8]) {
        let mut state = self.lock();
        let file = state.names[name];
        state.files[file] = SimulatedFile { now: bytes.to_vec(), synced: bytes.to_vec(), dirty: BTreeSet::new() };
    }

    /// One step. Err: the disk is dead; a flag tells that it dies within this step, which may be done in part.
    fn step(&self, step: DiskStep) -> io::Result<(MutexGuard<'_, State>, bool)> {
        let mut state = self.lock();
        if state.is_dead {
            return Err(io::Error::other("the disk is gone"));
        }
        if state.failing_steps.contains(&step) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        state.steps.push(step);
        let dies = state.steps_left == Some(0);
        state.is_dead = dies;
        state.steps_left = state.steps_left.map(|steps_left| steps_left.saturating_sub(1));
        Ok((state, dies))
    }

    fn change(&self, step: DiskStep, change: NameChange) -> io::Result<()> {
        let (mut state, dies) = self.step(step)?;
        if dies && fastrand::bool() {
            return Err(io::Error::other("the disk is gone"));
        }
        apply(&mut state.names, &change);
        state.changes.push(change);
        if dies { Err(io::Error::other("the disk is gone")) } else { Ok(()) }
    }
}

fn after_power_loss(file: &SimulatedFile, random: &mut fastrand::Rng) -> SimulatedFile {
    let (short, long) = (file.synced.len().min(file.now.len()), file.synced.len().max(file.now.len()));
    let length = random.usize(short..=long);
    let mut bytes = file.synced.clone();
    bytes.resize(length, 0);
    for start in (0..length.min(file.now.len())).step_by(SECTOR) {
        let end = (start + SECTOR).min(length).min(file.now.len());
        if random.bool() {
            bytes[start..end].copy_from_slice(&file.now[start..end]);
        }
    }
    SimulatedFile { now: bytes.clone(), synced: bytes, dirty: BTreeSet::new() }
}

impl Disk for SimulatedDisk {
    type File = usize;

    fn names(&self) -> io::Result<Vec<String>> {
        Ok(self.lock().names.keys().cloned().collect())
    }

    fn create(&self, name: &str) -> io::Result<usize> {
        let number = {
            let mut state = self.lock();
            state.files.push(SimulatedFile::default());
            state.files.len() - 1
        };
        self.change(DiskStep::Create, NameChange::Create(name.to_owned(), number)).map(|()| number)
    }

    fn open(&self, name: &str) -> io::Result<usize> {
        self.lock().names.get(name).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.change(DiskStep::Rename, NameChange::Rename(from.to_owned(), to.to_owned()))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.change(DiskStep::Remove, NameChange::Remove(name.to_owned()))
    }

    fn sync_names(&self) -> io::Result<()> {
        let (mut state, dies) = self.step(DiskStep::SyncNames)?;
        if dies {
            return Err(io::Error::other("the disk is gone"));
        }
        state.synced_names = state.names.clone();
        state.changes.clear();
        Ok(())
    }

    fn length(&self, file: &usize) -> io::Result<u64> {
        Ok(self.lock().files[*file].now.len() as u64)
    }

    fn read_at(&self, file: &usize, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let start = usize::try_from(offset).unwrap();
        let state = self.lock();
        let found = state.files[*file].now.get(start..start + bytes.len());
        bytes.copy_from_slice(found.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?);
        Ok(())
    }

    fn append(&self, file: &mut usize, bytes: &[u8]) -> io::Result<()> {
        let (mut state, dies) = self.step(DiskStep::Append)?;
        let written = if dies { fastrand::usize(0..=bytes.len()) } else { bytes.len() };
        let file = &mut state.files[*file];
        file.write(file.now.len(), &bytes[..written]);
        if dies { Err(io::Error::other("the disk is gone")) } else { Ok(()) }
    }

    fn write_at(&self, file: &usize, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let (mut state, dies) = self.step(DiskStep::Write)?;
        let written = if dies { fastrand::usize(0..=bytes.len()) } else { bytes.len() };
        state.files[*file].write(usize::try_from(offset).unwrap(), &bytes[..written]);
        if dies { Err(io::Error::other("the disk is gone")) } else { Ok(()) }
    }

    fn set_length(&self, file: &usize, length: u64) -> io::Result<()> {
        let (mut state, _) = self.step(DiskStep::SetLength)?;
        let file = &mut state.files[*file];
        file.now.resize(usize::try_from(length).unwrap(), 0);
        Ok(())
    }

    fn space(&self) -> io::Result<(u64, u64)> {
        let free = self.lock().free.unwrap_or(100);
        Ok((SPACE / 100 * free, SPACE))
    }

    fn sync(&self, file: &usize) -> io::Result<()> {
        if self.lock().failing_steps.contains(&DiskStep::Sync) {
            // The system forgets that these bytes are not on the disk, as Linux does.
            self.lock().files[*file].dirty.clear();
        }
        let (mut state, dies) = self.step(DiskStep::Sync)?;
        let is_done = !dies || fastrand::bool();
        if is_done {
            state.files[*file].sync();
        }
        if dies { Err(io::Error::other("the disk is gone")) } else { Ok(()) }
    }

    async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
        let Some(time) = self.group_delay() else {
            return tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?;
        };
        tokio::time::sleep(time).await;
        work()
    }

    fn group_delay(&self) -> Option<Duration> {
        self.is_timed.then(|| Duration::from_millis(fastrand::u64(0..3)))
    }
}
