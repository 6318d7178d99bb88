//! Outcomes of uploads on their way to the control plane: frozen into upload batches, read, and deleted.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use seqferry_store::crash_point::{self, When};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Inner, WritableShare};
use crate::journal::Disk;
use crate::overlay::{Change, FolderRename, Overlay, UploadOutcome, now};
use crate::upload_batches::{self, RenamedFolder};

/// Outcomes of a batch that is not requested: as many rows are one transaction of half a second.
const BATCH_OUTCOMES: usize = 10_000;
/// Outcomes in the journal after which no upload is planned until a batch takes them. Each has some 600 bytes of
/// memory.
const MAX_UNBATCHED_OUTCOMES: usize = 2 * BATCH_OUTCOMES;
/// Longest time for which an outcome is in no batch.
const MAX_BATCH_AGE: Duration = Duration::from_mins(15);
/// Interval between checks.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Wait after a batch could not be written.
const RETRY_PAUSE: Duration = Duration::from_secs(30);
/// Numbers of batches that are handed out at a time.
const MAX_NUMBERS: usize = 100;
/// Files of a renamed folder that is small: each has a batch of its own as long as few end in an hour. A batch is a
/// transfer on record, and a notice.
const SMALL_RENAME_FILES: u64 = 1000;
pub(super) const SMALL_RENAMES_AN_HOUR: usize = 20;

/// True when so many outcomes, the oldest of this age, become a batch without a request.
fn is_due(outcomes: usize, age: Duration) -> bool {
    outcomes >= BATCH_OUTCOMES || age >= MAX_BATCH_AGE
}

/// True when so many outcomes of a rename that goes on, of so many of all kinds, become a batch: as many as one holds, or
/// any where the journal takes no more. Uploads wait for that, and without them no rename ends.
fn is_rename_full(outcomes: usize, all: usize) -> bool {
    outcomes >= BATCH_OUTCOMES || outcomes > 0 && all >= MAX_UNBATCHED_OUTCOMES
}

fn not_kept(error: &dyn std::fmt::Display) -> String {
    format!("the outcomes of uploads cannot be kept for the record: {error}. Check the disk of the cache")
}

/// Ends of small renames that had batches of their own, within the last hour.
#[derive(Debug, Default)]
pub(super) struct RecentRenames(VecDeque<Instant>);

impl RecentRenames {
    /// True when one that ends now may have a batch of its own.
    fn add(&mut self, now: Instant) -> bool {
        self.0.retain(|end| now.duration_since(*end) < Duration::from_hours(1));
        let is_few = self.0.len() < SMALL_RENAMES_AN_HOUR;
        if is_few {
            self.0.push_back(now);
        }
        is_few
    }
}

impl<D: Disk> Inner<D> {
    /// True while the journal takes outcomes of further uploads.
    pub(super) fn takes_outcomes(&self) -> bool {
        self.overlay.read(|overlay| overlay.outcomes().count() < MAX_UNBATCHED_OUTCOMES)
    }

    /// Outcomes that are not on record.
    pub(super) fn unrecorded(&self) -> u64 {
        self.overlay.read(|overlay| overlay.outcomes().count() as u64) + self.upload_batches.outcome_count()
    }

    fn is_due(&self) -> bool {
        self.overlay.read(|overlay| {
            let outcomes = overlay.outcomes();
            let age = outcomes.since.map_or(Duration::ZERO, |since| Duration::from_nanos(now().saturating_sub(since)));
            is_due(outcomes.lines.len(), age) || self.due_renames(overlay).next().is_some()
        })
    }

    /// Renames of folders that have ended, or whose outcomes have to leave the journal.
    fn due_renames<'a>(&'a self, overlay: &'a Overlay) -> impl Iterator<Item = &'a FolderRename> {
        let outcomes = overlay.outcomes();
        let is_full = move |since| is_rename_full(outcomes.lines_of(Some(since)).len(), outcomes.count());
        overlay.renames().filter(move |rename| is_full(rename.since) || overlay.has_ended(&self.file_table, rename))
    }

    /// End small renames for which there are too many batches: their outcomes wait with those of other files.
    pub(super) async fn join_small_renames(&self, recent: &mut RecentRenames) -> Result<(), String> {
        let ended = |overlay: &Overlay, rename: &FolderRename| {
            rename.files < SMALL_RENAME_FILES && overlay.has_ended(&self.file_table, rename)
        };
        let small: Vec<FolderRename> =
            self.overlay.read(|overlay| overlay.renames().filter(|rename| ended(overlay, rename)).cloned().collect());
        for rename in small {
            if !recent.add(Instant::now()) {
                let end = |overlay: &Overlay| ended(overlay, &rename).then_some(Change::EndRename(rename.since));
                let ended = self.overlay.change(|overlay| Ok((end(overlay).into_iter().collect(), ())));
                ended.await.map_err(|error| not_kept(&error))?;
            }
        }
        Ok(())
    }

    /// Put all outcomes into a batch, and those of each renamed folder that is done into one of its own.
    async fn freeze(&self) -> Result<(), String> {
        let _one = self.upload_batches.freezing.lock().await;
        let named = self.overlay.change(|overlay| {
            if overlay.outcomes().count() == 0 || overlay.outcomes().journal.is_some() {
                return Ok((Vec::new(), ()));
            }
            Ok((vec![Change::Journal(format!("{:032x}", fastrand::u128(..)).into())], ()))
        });
        named.await.map_err(|error| not_kept(&error))?;
        self.freeze_lines(None).await?;
        let due = self.overlay.read(|overlay| self.due_renames(overlay).cloned().collect::<Vec<_>>());
        for rename in due {
            self.freeze_lines(Some(&rename)).await?;
            let ended = self.overlay.change(|overlay| {
                let has_ended = overlay.outcomes().lines_of(Some(rename.since)).is_empty()
                    && overlay.has_ended(&self.file_table, &rename);
                Ok((has_ended.then_some(Change::EndRename(rename.since)).into_iter().collect(), ()))
            });
            ended.await.map_err(|error| not_kept(&error))?;
        }
        Ok(())
    }

    /// Put the outcomes of a rename, or of none, into a batch.
    async fn freeze_lines(&self, rename: Option<&FolderRename>) -> Result<(), String> {
        let since = rename.map(|rename| rename.since);
        let (journal, batch, lines, renamed) = self.overlay.read(|overlay| {
            let outcomes = overlay.outcomes();
            let renamed = rename.map(|FolderRename { number, from, .. }| RenamedFolder {
                from: from.to_string(),
                to: overlay.path(&self.file_table, *number).unwrap_or_default(),
            });
            (outcomes.journal.clone(), outcomes.next_batch, outcomes.lines_of(since).to_vec(), renamed)
        });
        let Some(journal) = journal.filter(|_| !lines.is_empty()) else { return Ok(()) };
        let (count, disk) = (lines.len() as u64, self.upload_batches.disk().clone());
        let write = move || upload_batches::write(&disk, &journal, batch, &lines, renamed);
        self.upload_batches.disk().run(write).await.map_err(|error| not_kept(&error))?;
        let change = Change::Batched { batch, rename: since, outcomes: count };
        self.overlay.change(|_| Ok((vec![change], ()))).await.map_err(|error| not_kept(&error))?;
        crash_point::reach(When::After, "epoch-frozen");
        self.upload_batches.insert(batch, count);
        Ok(())
    }
}

impl<D: Disk> WritableShare<D> {
    /// Freeze batches in their time, until `stop`.
    pub(crate) async fn run_batching(&self, stop: CancellationToken) {
        let (mut pause, mut recent) = (POLL_INTERVAL, RecentRenames::default());
        while stop.run_until_cancelled(tokio::time::sleep(pause)).await.is_some() {
            pause = POLL_INTERVAL;
            let joined = self.0.join_small_renames(&mut recent).await;
            if joined.is_ok() && !self.0.is_due() {
                continue;
            }
            let frozen = match joined {
                Ok(()) => self.freeze_upload_batch().await,
                Err(text) => Err(text),
            };
            if let Err(text) = frozen {
                tracing::warn!("{text}. It is tried again in {} s", RETRY_PAUSE.as_secs());
                pause = RETRY_PAUSE;
            }
        }
    }

    /// Put all outcomes into a batch now.
    ///
    /// # Errors
    /// When the disk does not take it: they stay in the journal.
    pub(crate) async fn freeze_upload_batch(&self) -> Result<(), String> {
        let inner = Arc::clone(&self.0);
        // To its end, whatever becomes of the caller.
        let frozen = tokio::spawn(async move { inner.freeze().await });
        frozen.await.unwrap_or_else(|error| Err(error.to_string()))
    }

    /// Name of the journal, and the oldest batches that the record has not taken. None: nothing was frozen yet.
    pub(crate) fn pending_upload_batches(&self) -> Option<(String, Vec<u64>)> {
        let journal = self.0.overlay.read(|overlay| overlay.outcomes().journal.as_deref().map(str::to_owned));
        Some((journal?, self.0.upload_batches.numbers(MAX_NUMBERS)))
    }

    /// Outcomes of a batch, and the folder by whose rename they came.
    pub(crate) async fn read_upload_batch(
        &self,
        batch: u64,
    ) -> std::io::Result<(Vec<UploadOutcome>, Option<RenamedFolder>)> {
        let disk = self.0.upload_batches.disk().clone();
        self.0.upload_batches.disk().run(move || upload_batches::read(&disk, batch)).await
    }

    /// Forget a batch that the record has taken; one that is not known is forgotten already.
    pub(crate) async fn forget_upload_batch(&self, batch: u64) -> std::io::Result<()> {
        if !self.0.upload_batches.contains(batch) {
            return Ok(());
        }
        let disk = self.0.upload_batches.disk().clone();
        self.0.upload_batches.disk().run(move || upload_batches::delete(&disk, batch)).await?;
        self.0.upload_batches.remove(batch);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_due_by_the_number_of_its_outcomes_or_by_the_age_of_the_oldest() {
        let before = Duration::from_nanos(1);
        for (outcomes, age, expected) in [
            (0, Duration::ZERO, false),
            (1, MAX_BATCH_AGE.saturating_sub(before), false),
            (1, MAX_BATCH_AGE, true),
            (BATCH_OUTCOMES - 1, Duration::ZERO, false),
            (BATCH_OUTCOMES, Duration::ZERO, true),
        ] {
            assert_eq!(is_due(outcomes, age), expected, "{outcomes} outcomes, {age:?}");
        }
    }

    /// Several renames, each with less than a batch, must not stop the uploads that would end them.
    #[test]
    fn a_rename_that_goes_on_is_due_when_it_fills_a_batch_or_all_together_fill_the_journal() {
        for (outcomes, all, expected) in [
            (BATCH_OUTCOMES - 1, BATCH_OUTCOMES, false),
            (BATCH_OUTCOMES, BATCH_OUTCOMES, true),
            (1, MAX_UNBATCHED_OUTCOMES - 1, false),
            (1, MAX_UNBATCHED_OUTCOMES, true),
            (0, MAX_UNBATCHED_OUTCOMES, false),
        ] {
            assert_eq!(is_rename_full(outcomes, all), expected, "{outcomes} outcomes of {all}");
        }
    }
}
