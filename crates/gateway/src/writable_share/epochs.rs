//! Outcomes of uploads on their way to the record of transfers: frozen into epochs, handed out, and forgotten.

use std::sync::Arc;
use std::time::Duration;

use seqferry_store::crash_point::{self, When};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::{Inner, WritableShare};
use crate::epochs::{self, EpochPage};
use crate::journal::Disk;
use crate::overlay::{Change, now};

/// Outcomes of an epoch that is not asked for: as many rows are one transaction of half a second.
const OUTCOMES: usize = 10_000;
/// Outcomes in the journal after which no upload is planned until an epoch takes them. Each has some 600 bytes of memory.
const MOST_OUTCOMES: usize = 2 * OUTCOMES;
/// Longest time for which an outcome is in no epoch.
const LONGEST: Duration = Duration::from_mins(15);
/// Time between two looks.
const LOOK: Duration = Duration::from_secs(1);
/// Wait after an epoch could not be written.
const PAUSE: Duration = Duration::from_secs(30);
/// Numbers of epochs that are handed out at a time.
const NUMBERS: usize = 100;

/// The epochs of a share that the record has not taken.
#[derive(Debug, Serialize)]
pub(crate) struct WaitingEpochs {
    /// Name of the journal. None: nothing was frozen yet.
    pub(crate) journal: Option<String>,
    /// The oldest of them.
    pub(crate) epochs: Vec<u64>,
}

impl<D: Disk> Inner<D> {
    /// True while the journal takes outcomes of further uploads.
    pub(super) fn takes_outcomes(&self) -> bool {
        self.ledger.read(|overlay| overlay.outcomes().lines.len() < MOST_OUTCOMES)
    }

    /// Outcomes that are not on record.
    pub(super) fn unrecorded(&self) -> u64 {
        self.ledger.read(|overlay| overlay.outcomes().lines.len() as u64) + self.epochs.waiting()
    }

    fn is_due(&self) -> bool {
        self.ledger.read(|overlay| {
            let outcomes = overlay.outcomes();
            let age = outcomes.since.map_or(Duration::ZERO, |since| Duration::from_nanos(now().saturating_sub(since)));
            outcomes.lines.len() >= OUTCOMES || age >= LONGEST
        })
    }

    /// Put all outcomes into an epoch.
    async fn freeze(&self) -> Result<(), String> {
        let failed = |error: &dyn std::fmt::Display| {
            format!("the outcomes of uploads cannot be kept for the record: {error}. Look at the disk of the cache")
        };
        let _one = self.epochs.freezing.lock().await;
        let named = self.ledger.change(|overlay| {
            if overlay.outcomes().lines.is_empty() || overlay.outcomes().journal.is_some() {
                return Ok((Vec::new(), ()));
            }
            Ok((vec![Change::Journal(format!("{:032x}", fastrand::u128(..)).into())], ()))
        });
        named.await.map_err(|error| failed(&error))?;
        let (journal, epoch, lines) = self.ledger.read(|overlay| {
            let outcomes = overlay.outcomes();
            (outcomes.journal.clone(), outcomes.epoch, outcomes.lines.clone())
        });
        let Some(journal) = journal.filter(|_| !lines.is_empty()) else { return Ok(()) };
        let (count, disk) = (lines.len() as u64, self.epochs.disk().clone());
        let written = self.epochs.disk().run(move || epochs::write(&disk, &journal, epoch, &lines)).await;
        written.map_err(|error| failed(&error))?;
        let frozen = self.ledger.change(|_| Ok((vec![Change::Frozen { epoch, outcomes: count }], ())));
        frozen.await.map_err(|error| failed(&error))?;
        crash_point::reach(When::After, "epoch-frozen");
        self.epochs.add(epoch, count);
        Ok(())
    }
}

impl<D: Disk> WritableShare<D> {
    /// Freeze epochs in their time, until `stop`.
    pub(crate) async fn keep_epochs(&self, stop: CancellationToken) {
        let mut pause = LOOK;
        while stop.run_until_cancelled(tokio::time::sleep(pause)).await.is_some() {
            pause = LOOK;
            if !self.0.is_due() {
                continue;
            }
            if let Err(text) = self.freeze_epoch().await {
                tracing::warn!("{text}. It is tried again in {} s", PAUSE.as_secs());
                pause = PAUSE;
            }
        }
    }

    /// Put all outcomes into an epoch now.
    ///
    /// # Errors
    /// When the disk does not take it: they stay in the journal.
    pub(crate) async fn freeze_epoch(&self) -> Result<(), String> {
        let inner = Arc::clone(&self.0);
        // To its end, whatever becomes of the caller.
        let frozen = tokio::spawn(async move { inner.freeze().await });
        frozen.await.unwrap_or_else(|error| Err(error.to_string()))
    }

    /// Epochs that the record has not taken, the oldest first.
    pub(crate) fn waiting_epochs(&self) -> WaitingEpochs {
        let journal = self.0.ledger.read(|overlay| overlay.outcomes().journal.as_deref().map(str::to_owned));
        WaitingEpochs { journal, epochs: self.0.epochs.numbers(NUMBERS) }
    }

    /// Outcomes of an epoch from an offset on. None: it was taken.
    pub(crate) async fn epoch_page(&self, epoch: u64, offset: u64) -> std::io::Result<Option<EpochPage>> {
        if !self.0.epochs.has(epoch) {
            return Ok(None);
        }
        let disk = self.0.epochs.disk().clone();
        self.0.epochs.disk().run(move || epochs::page(&disk, epoch, offset)).await.map(Some)
    }

    /// Forget an epoch that the record has taken; one that is not known is forgotten already.
    pub(crate) async fn forget_epoch(&self, epoch: u64) -> std::io::Result<()> {
        if !self.0.epochs.has(epoch) {
            return Ok(());
        }
        let disk = self.0.epochs.disk().clone();
        self.0.epochs.disk().run(move || epochs::forget(&disk, epoch)).await?;
        self.0.epochs.taken(epoch);
        Ok(())
    }
}
