//! The journal of a share: a synced log on a local disk of every acknowledged change.
//!
//! Records are opaque bytes in order. One thread writes them: all waiting records become one frame, written and synced
//! together (group commit). A call may be acknowledged when [`Journal::durable`] has returned for its record. After a
//! disk error nothing is acknowledged any more.
//!
//! Memory: at most [`MAX_PENDING_BYTES`] bytes of records wait to be written; [`Journal::reserve`] waits for space.

mod disk;
mod frame;
mod log;
mod sync_times;

use std::collections::VecDeque;
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::JoinHandle;

use tokio::sync::{Semaphore, watch};

pub use disk::{Disk, Folder};
pub(crate) use disk::{is_full, make_folder};
use frame::{RECORD, RecordGroup};
use log::SegmentLog;
pub use log::{CheckpointWriter, ReplaySummary};
pub use sync_times::SyncTimes;

/// Largest record: a file that lives in the journal, with its name and attributes.
pub const LARGEST_RECORD: usize = 1 << 20;
/// Bytes of records that wait to be written at most.
pub const MAX_PENDING_BYTES: usize = 8 << 20;

/// Reason why a journal cannot be used: a sentence with the cause, and one with the next step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalError(pub String);

impl fmt::Display for JournalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for JournalError {}

fn check_size(record: &[u8]) -> Result<(), JournalError> {
    if record.len() <= LARGEST_RECORD {
        return Ok(());
    }
    Err(JournalError(format!("a record of {} bytes is larger than {LARGEST_RECORD}", record.len())))
}

/// A journal that is open.
#[derive(Debug)]
pub struct Journal<D: Disk = Folder> {
    shared: Arc<JournalShared<D>>,
    room: Arc<Semaphore>,
    progress: watch::Receiver<DurableState>,
    writer: JournalWriter<D>,
}

/// The part of a journal that writes.
enum JournalWriter<D: Disk> {
    /// None once it has ended.
    Thread(Option<JoinHandle<()>>),
    /// A task of the runtime, on a disk that never blocks.
    Task(Arc<Mutex<(SegmentLog<D>, watch::Sender<DurableState>)>>, D),
}

impl<D: Disk> fmt::Debug for JournalWriter<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Thread(_) => "Thread",
            Self::Task(..) => "Task",
        })
    }
}

/// Records that are on the disk, or why no more will be.
#[derive(Debug, Clone, Default)]
struct DurableState {
    next: u64,
    failure: Option<JournalError>,
}

#[derive(Debug)]
struct JournalShared<D: Disk> {
    queue: Mutex<RecordQueue<D>>,
    wake: Condvar,
    is_checkpointing: AtomicBool,
    counters: JournalCounters,
}

#[derive(Debug)]
struct RecordQueue<D: Disk> {
    work: VecDeque<WriterCommand<D>>,
    /// Number of the next record.
    next: u64,
    is_stopping: bool,
}

#[derive(Debug)]
enum WriterCommand<D: Disk> {
    Write(RecordGroup),
    Rotate(mpsc::SyncSender<Result<CheckpointWriter<D>, JournalError>>),
}

#[derive(Debug, Default)]
struct JournalCounters {
    syncs: AtomicU64,
    groups: AtomicU64,
    bytes: AtomicU64,
    segment: AtomicU64,
}

/// Counters of a journal since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JournalStats {
    /// Calls of `fsync` and `fdatasync`.
    pub syncs: u64,
    /// Groups of records that were synced together.
    pub groups: u64,
    /// Bytes that were written to segments.
    pub bytes: u64,
    /// Bytes in the segment that is written: a checkpoint makes it short again.
    pub segment: u64,
}

/// Reserved space for records in the queue of the journal, held until they are on the disk.
#[derive(Debug)]
pub struct JournalReservation {
    permit: tokio::sync::OwnedSemaphorePermit,
    bytes: usize,
}

/// The number of a record in the journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RecordPosition(u64);

impl Journal<Folder> {
    /// Open the journal in a folder, and hand all its records to `replay` in their order. Blocks on the disk.
    ///
    /// # Errors
    /// When another process uses the folder, a file is damaged or of another version, or `replay` refuses a record.
    pub fn open(
        path: &Path,
        replay: impl FnMut(&[u8]) -> Result<(), String>,
    ) -> Result<(Self, ReplaySummary), JournalError> {
        let folder = Folder::claim(path).map_err(|error| match error.kind() {
            std::io::ErrorKind::WouldBlock => JournalError(format!(
                "another gateway uses the journal in {}: stop it, or name another folder",
                path.display()
            )),
            _ => JournalError(format!("the folder {} of the journal cannot be used: {error}", path.display())),
        })?;
        Self::over(folder, replay)
    }
}

impl<D: Disk> Journal<D> {
    pub(crate) fn over(
        disk: D,
        replay: impl FnMut(&[u8]) -> Result<(), String>,
    ) -> Result<(Self, ReplaySummary), JournalError> {
        let group_delay = disk.group_delay();
        let (log, replayed) = SegmentLog::open(disk.clone(), replay)?;
        let (sender, progress) = watch::channel(DurableState { next: log.next(), failure: None });
        let queue = RecordQueue { work: VecDeque::new(), next: log.next(), is_stopping: false };
        let shared = Arc::new(JournalShared {
            queue: Mutex::new(queue),
            wake: Condvar::new(),
            is_checkpointing: AtomicBool::new(false),
            counters: JournalCounters::default(),
        });
        shared.count(&log);
        let room = Arc::new(Semaphore::new(MAX_PENDING_BYTES));
        if group_delay.is_some() {
            let writer = JournalWriter::Task(Arc::new(Mutex::new((log, sender))), disk);
            return Ok((Self { shared, room, progress, writer }, replayed));
        }
        let (writing, freed) = (Arc::clone(&shared), Arc::clone(&room));
        let thread = std::thread::Builder::new().name("seqferry-journal".to_owned());
        let thread = thread.spawn(move || writing.write_all(log, &sender, &freed));
        let thread = thread.map_err(|error| JournalError(format!("no thread can be started: {error}")))?;
        let writer = JournalWriter::Thread(Some(thread));
        Ok((Self { shared, room, progress, writer }, replayed))
    }

    /// Wait for space for records of this many bytes in all, each with [`LARGEST_RECORD`] at most.
    ///
    /// # Errors
    /// When they are more than a group may have.
    pub async fn reserve(&self, records: usize, bytes: usize) -> Result<JournalReservation, JournalError> {
        let all = bytes + records * RECORD;
        let count = u32::try_from(all).ok().filter(|_| all <= MAX_PENDING_BYTES);
        let count = count
            .ok_or_else(|| JournalError(format!("{bytes} bytes are too many for one record group of the journal")))?;
        let permit = Arc::clone(&self.room).acquire_many_owned(count).await;
        let permit = permit.map_err(|_| JournalError("the journal is closed".to_owned()))?;
        Ok(JournalReservation { permit, bytes: all })
    }

    /// Add a record after all those before. It is on the disk when [`Journal::durable`] says so. Does not block.
    ///
    /// # Errors
    /// When the record is too large, or the space for it too small.
    pub fn append(&self, room: &mut JournalReservation, record: &[u8]) -> Result<RecordPosition, JournalError> {
        check_size(record)?;
        let size = record.len() + RECORD;
        if size > room.bytes {
            return Err(JournalError("a record is larger than the room that was reserved for it".to_owned()));
        }
        // Given back by the writer, once the record is on the disk.
        if let Some(permit) = room.permit.split(size) {
            permit.forget();
        }
        room.bytes -= size;
        let mut queue = self.shared.lock();
        let number = queue.next;
        queue.next += 1;
        match queue.work.back_mut() {
            Some(WriterCommand::Write(group)) if group.has_room(record.len()) => group.push(record),
            _ => {
                let mut group = RecordGroup::new(number);
                group.push(record);
                queue.work.push_back(WriterCommand::Write(group));
            }
        }
        drop(queue);
        self.wake();
        Ok(RecordPosition(number))
    }

    fn wake(&self) {
        let JournalWriter::Task(log, disk) = &self.writer else {
            self.shared.wake.notify_one();
            return;
        };
        let (shared, log, room, disk) =
            (Arc::clone(&self.shared), Arc::clone(log), Arc::clone(&self.room), disk.clone());
        tokio::spawn(async move {
            tokio::time::sleep(disk.group_delay().unwrap_or_default()).await;
            shared.write_now(&log, &room);
        });
    }

    /// Wait until a record, and all before it, are on the disk.
    ///
    /// # Errors
    /// When the disk has failed: the record may be lost, and must not be acknowledged.
    pub async fn durable(&self, position: RecordPosition) -> Result<(), JournalError> {
        let mut progress = self.progress.clone();
        let reached = progress.wait_for(|now| now.next > position.0 || now.failure.is_some()).await;
        let reached = reached.map_err(|_| JournalError("the journal is closed".to_owned()))?;
        match (&reached.failure, reached.next > position.0) {
            (_, true) => Ok(()),
            (failure, false) => {
                Err(failure.clone().unwrap_or_else(|| JournalError("the journal is closed".to_owned())))
            }
        }
    }

    /// Reason why the journal takes no records any more. None: it takes them.
    pub fn failure(&self) -> Option<JournalError> {
        self.progress.borrow().failure.clone()
    }

    /// Begin a checkpoint that stands for all records appended before this call: call it while the state is as they
    /// have made it. None while another one is written. Does not block.
    pub fn begin_checkpoint(&self) -> Option<Checkpoint<D>> {
        if self.shared.is_checkpointing.swap(true, Ordering::AcqRel) {
            return None;
        }
        let (sender, writer) = mpsc::sync_channel(1);
        self.shared.lock().work.push_back(WriterCommand::Rotate(sender));
        match &self.writer {
            JournalWriter::Thread(_) => self.shared.wake.notify_one(),
            JournalWriter::Task(log, _) => self.shared.write_now(log, &self.room),
        }
        Some(Checkpoint { shared: Arc::clone(&self.shared), writer })
    }

    /// Counters since the journal was opened.
    pub fn stats(&self) -> JournalStats {
        let counters = &self.shared.counters;
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (syncs, groups) = (read(&counters.syncs), read(&counters.groups));
        JournalStats { syncs, groups, bytes: read(&counters.bytes), segment: read(&counters.segment) }
    }
}

impl<D: Disk> Drop for Journal<D> {
    /// Records that wait are written.
    fn drop(&mut self) {
        self.shared.lock().is_stopping = true;
        self.shared.wake.notify_one();
        match &mut self.writer {
            JournalWriter::Thread(thread) => {
                if let Some(thread) = thread.take() {
                    // It has panicked: nothing more can be written.
                    let _panicked = thread.join();
                }
            }
            JournalWriter::Task(log, _) => self.shared.write_now(log, &self.room),
        }
    }
}

/// A checkpoint that was begun.
#[derive(Debug)]
pub struct Checkpoint<D: Disk = Folder> {
    shared: Arc<JournalShared<D>>,
    writer: mpsc::Receiver<Result<CheckpointWriter<D>, JournalError>>,
}

impl<D: Disk> Checkpoint<D> {
    /// Write the records that stand for all those before. Blocks on the disk; the journal continues meanwhile.
    ///
    /// # Errors
    /// When they cannot be written; the records before stay.
    pub fn write<R: AsRef<[u8]>>(self, records: impl IntoIterator<Item = R>) -> Result<(), JournalError> {
        let writer = self.writer.recv().map_err(|_| JournalError("the journal is closed".to_owned()))?;
        let mut writer = writer?;
        records.into_iter().try_for_each(|record| writer.add(record.as_ref()))?;
        writer.finish()
    }
}

impl<D: Disk> Drop for Checkpoint<D> {
    fn drop(&mut self) {
        self.shared.is_checkpointing.store(false, Ordering::Release);
    }
}

impl<D: Disk> JournalShared<D> {
    fn lock(&self) -> MutexGuard<'_, RecordQueue<D>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next piece of work; None when the journal is closed and all is written.
    fn take(&self) -> Option<WriterCommand<D>> {
        let mut queue = self.lock();
        loop {
            if let Some(work) = queue.work.pop_front() {
                return Some(work);
            }
            if queue.is_stopping {
                return None;
            }
            queue = self.wake.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn count(&self, log: &SegmentLog<D>) {
        self.counters.syncs.store(log.syncs(), Ordering::Relaxed);
        self.counters.segment.store(log.length(), Ordering::Relaxed);
    }

    /// Write what comes until the journal is closed.
    fn write_all(&self, mut log: SegmentLog<D>, progress: &watch::Sender<DurableState>, room: &Semaphore) {
        while let Some(work) = self.take() {
            self.write(work, &mut log, progress, room);
        }
    }

    /// Write what waits.
    fn write_now(&self, writer: &Mutex<(SegmentLog<D>, watch::Sender<DurableState>)>, room: &Semaphore) {
        let mut writer = writer.lock().unwrap_or_else(PoisonError::into_inner);
        let (log, progress) = &mut *writer;
        loop {
            let next = self.lock().work.pop_front();
            let Some(work) = next else { return };
            self.write(work, log, progress, room);
        }
    }

    /// After a failure what comes is refused.
    fn write(
        &self,
        work: WriterCommand<D>,
        log: &mut SegmentLog<D>,
        progress: &watch::Sender<DurableState>,
        room: &Semaphore,
    ) {
        {
            let failure = match work {
                WriterCommand::Write(group) => {
                    let bytes = group.len();
                    let written = log.write(group);
                    room.add_permits(bytes);
                    if written.is_ok() {
                        self.counters.groups.fetch_add(1, Ordering::Relaxed);
                        self.counters.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
                        // Before the calls continue: they may look at the counters.
                        self.count(log);
                        progress.send_modify(|now| now.next = log.next());
                    }
                    written.err()
                }
                WriterCommand::Rotate(sender) => {
                    let writer = log.rotate();
                    // On a full disk the log continues without it.
                    let failure = writer.as_ref().err().filter(|_| log.is_broken()).cloned();
                    // The receiver has gone: the checkpoint is not written, and the log continues.
                    let _given_up = sender.send(writer);
                    failure
                }
            };
            self.count(log);
            if let Some(failure) = failure {
                progress.send_modify(|now| {
                    now.failure.get_or_insert(failure);
                });
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod simulated;
#[cfg(test)]
mod tests;
