//! The overlay together with its journal: changes are applied and recorded in the same order.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use seqferry_share::{FileError, Result};

use crate::file_table::ROOT;
use crate::journal::{Disk, Journal, JournalError, JournalReservation, RecordPosition};
use crate::overlay::{Change, Node, Overlay, decode, encode};

/// Bytes of a record at most: a file in as many ranges as are allowed, with names and folders.
const RECORD: usize = 192 << 10;
/// Bytes of a segment after which a checkpoint is written: it is read in a second.
pub(crate) const SEGMENT: u64 = 64 << 20;

#[derive(Debug)]
struct State {
    overlay: Overlay,
    /// The last record.
    last: Option<RecordPosition>,
}

#[derive(Debug)]
pub(crate) struct JournaledOverlay<D: Disk> {
    state: Mutex<State>,
    journal: Journal<D>,
    disk: D,
    segment: u64,
}

impl<D: Disk> JournaledOverlay<D> {
    /// Read the journal of a share. A checkpoint is written when a segment has this many bytes.
    ///
    /// # Errors
    /// When it belongs to another share, or cannot be read.
    pub(crate) async fn open(disk: D, share: &str, segment: u64) -> std::result::Result<Self, JournalError> {
        let mut overlay = Overlay::default();
        let (journal, _) = Journal::over(disk.clone(), |record| {
            for change in decode(record)? {
                overlay.apply(change);
            }
            Ok(())
        })?;
        let is_new = match overlay.share() {
            Some(known) if known != share => {
                return Err(JournalError(format!(
                    "the journal belongs to another share ({}): name another folder for this one",
                    known.replace('\n', " ")
                )));
            }
            known => known.is_none(),
        };
        let journaled_overlay = Self { state: Mutex::new(State { overlay, last: None }), journal, disk, segment };
        if is_new {
            let change = Change::Share(share.to_owned());
            let written = journaled_overlay.change(|_| Ok((vec![change], ()))).await;
            written.map_err(|_| JournalError("the journal cannot be written".to_owned()))?;
        }
        Ok(journaled_overlay)
    }

    /// The overlay as it is.
    pub(crate) fn read<T>(&self, look: impl FnOnce(&Overlay) -> T) -> T {
        look(&self.lock().overlay)
    }

    /// Change what only this process has to know.
    pub(crate) fn note<T>(&self, change: impl FnOnce(&mut Overlay) -> T) -> T {
        change(&mut self.lock().overlay)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Change the overlay as `decide` says while it is held. Returns when the record of the changes is on the disk.
    pub(crate) async fn change<T>(&self, decide: impl FnOnce(&Overlay) -> Result<(Vec<Change>, T)>) -> Result<T> {
        let (position, value) = self.record(decide).await?;
        if let Some(position) = position {
            self.journal.durable(position).await.map_err(|error| failed(&error))?;
        }
        Ok(value)
    }

    /// As [`JournaledOverlay::change`], without waiting for the disk: the record is there before any that follows. No
    /// position: there was nothing to change.
    pub(crate) async fn record<T>(
        &self,
        decide: impl FnOnce(&Overlay) -> Result<(Vec<Change>, T)>,
    ) -> Result<(Option<RecordPosition>, T)> {
        if self.journal.failure().is_some() {
            return Err(FileError::Io);
        }
        let room = self.journal.reserve(1, RECORD).await.map_err(|error| failed(&error))?;
        self.record_in(room, decide)
    }

    fn record_in<T>(
        &self,
        mut room: JournalReservation,
        decide: impl FnOnce(&Overlay) -> Result<(Vec<Change>, T)>,
    ) -> Result<(Option<RecordPosition>, T)> {
        let mut state = self.lock();
        let (changes, value) = decide(&state.overlay)?;
        if changes.is_empty() {
            return Ok((None, value));
        }
        let position = self.journal.append(&mut room, &encode(&changes)).map_err(|error| failed(&error))?;
        tracing::debug!(?changes, "recorded");
        for change in changes {
            state.overlay.apply(change);
        }
        state.last = Some(position);
        if self.journal.stats().segment > self.segment
            && let Some(checkpoint) = self.journal.begin_checkpoint()
        {
            let records = state.overlay.records();
            let disk = self.disk.clone();
            tokio::spawn(async move {
                let written = disk.run(move || Ok(checkpoint.write(records))).await;
                if let Ok(Err(error)) = written {
                    tracing::warn!("{error}. The journal goes on and takes more room");
                }
            });
        }
        Ok((Some(position), value))
    }

    /// The cause, once the journal cannot be written any more.
    pub(crate) fn failure(&self) -> Option<String> {
        self.journal.failure().map(|error| error.0)
    }

    /// Wait until all that was recorded so far is on the disk.
    pub(crate) async fn wait_until_durable(&self) -> Result<()> {
        let last = self.lock().last;
        match last {
            Some(position) => self.journal.durable(position).await.map_err(|error| failed(&error)),
            None => Ok(()),
        }
    }
}

/// Changes in the journal of a share that is not served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LeftoverJournal {
    /// Identity of the share.
    pub(crate) share: String,
    /// Files and removals that the bucket does not have.
    pub(crate) changes: usize,
}

/// Read the journal in a folder. None: there is none, or it is of no share.
///
/// # Errors
/// When it is in use, or cannot be read.
pub(crate) fn read_leftover_journal(folder: &Path) -> std::result::Result<Option<LeftoverJournal>, JournalError> {
    if !folder.is_dir() {
        return Ok(None);
    }
    let mut overlay = Overlay::default();
    let journal = Journal::open(folder, |record| {
        for change in decode(record)? {
            overlay.apply(change);
        }
        Ok(())
    })?;
    drop(journal);
    let waits = |node: &&Node| node.file.number != ROOT && node.is_changed() && !overlay.is_local_only(node);
    let changes = overlay.nodes().filter(waits).count() + overlay.pending_removals().len();
    Ok(overlay.share().map(|share| LeftoverJournal { share: share.to_owned(), changes }))
}

fn failed(error: &JournalError) -> FileError {
    tracing::warn!("{error}");
    FileError::Io
}
