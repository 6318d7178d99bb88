//! Upload of a share to its bucket: one version of an object for each file that was left alone for a while.
//!
//! 1. **Settle**: a file is uploaded when it was not changed for the quiet time. One whose writer waits for space on
//!    the disk is not left alone: it goes while half-written only where nothing else can free space.
//! 2. **Freeze**: its generation is its `changed`. Bytes are read for an upload only while that is the same; else the
//!    upload is abandoned, and begins again when the file has settled.
//! 3. **Upload** ([`send`]): one request, or parts, whose upload is in the journal before its first part. The write has
//!    the condition that the bucket still has what it had.
//! 4. **Clean** ([`finish`]): the file is that object from now on, under its number, if its generation is the same.
//!
//! 5. **Leave** ([`evict`]): clean files beyond some are the bucket's alone.
//!
//! Parts of long files go before all that, while the file is written ([`growing`]).
//!
//! The order of work on a key stands in [`plan`]. Killed at any point, the next process finds in the journal what is
//! left to do, and each write whose outcome is not known: an object with the mark of that write, or with the checksum
//! of its bytes, is the file; else the file is sent again ([`verify`]).

mod condition_probe;
mod conflict;
pub(super) mod control;
mod copy_parts;
mod evict;
mod fetch;
mod finish;
pub(super) mod flush;
mod folder;
mod generation;
mod growing;
mod metadata;
mod outcomes;
mod plan;
mod remove;
mod resolve;
mod schedule;
mod send;
mod verify;

use std::sync::Arc;
use std::time::Duration;

use seqferry_client::RetryingClient;
use seqferry_store::{ErrorClass, ObjectUri};
use seqferry_transfer::{FailureClass, ObjectFailure};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Inner, WritableShare};
use crate::journal::Disk;
use crate::object_properties::ObjectProperties;
use condition_probe::ConditionProbe;
use growing::SentParts;
use plan::{FileUpload, UploadTask, find_tasks, has_any_moved};
use schedule::{Schedule, SettleTracker};

/// Files that are uploaded at a time. The budget of the process decides how many requests are under way.
const MAX_UPLOADS: usize = 16;
/// Files that are planned at a time: the plan is made again when they have begun.
const PLANNED: usize = 1024;
/// Longest interval between checks for work.
const LOOK: Duration = Duration::from_secs(1);

/// Bucket that a share is uploaded to, and when.
#[derive(Debug, Clone)]
pub struct UploadSpec {
    /// Client of the bucket.
    pub client: RetryingClient,
    /// Bucket name.
    pub bucket: String,
    /// Keys are this and the path. Empty, or ends in a slash.
    pub prefix: String,
    /// Properties of objects besides their bytes and the facts of their files.
    pub objects: ObjectProperties,
    /// Time for which a file must not change before it is uploaded.
    pub quiet: Duration,
    /// Bytes of the first parts; a file that is smaller goes in one request. None: 8 MiB.
    pub part_size: Option<u64>,
    /// Bytes of a file from which on its parts are sent while it grows. None: 256 MiB.
    pub long: Option<u64>,
    /// Bytes of the largest object that is copied in one request; a larger one is copied in parts. None: that of `cp`.
    pub largest_copy: Option<u64>,
}

/// Reason why work was not done.
#[derive(Debug)]
enum UploadError {
    /// The file has changed meanwhile: it is checked again.
    Superseded,
    /// The share stops.
    Stopped,
    /// There was nothing to do. It is checked again later.
    NothingToDo,
    /// The cause and the next step. It is tried again later.
    Failed(Box<ObjectFailure>),
}

impl UploadError {
    /// Of this machine: its disk, or its memory.
    fn local(text: String) -> Self {
        let class = FailureClass::Store(ErrorClass::Person);
        Self::Failed(Box::new(ObjectFailure::new(class, "LocalDisk", "upload", text)))
    }

    /// The prefix is not known to be this gateway's: another one has it, or the bucket cannot be asked.
    fn not_claimed(text: String) -> Self {
        let class = FailureClass::Store(ErrorClass::Retry);
        Self::Failed(Box::new(ObjectFailure::new(class, "NotClaimed", "upload", text)))
    }

    /// The bucket has refused one generation again and again, though it was asked each time what it has.
    fn refused(work: &UploadTask, attempts: u32) -> Self {
        let path = match work {
            UploadTask::Send(FileUpload { path, .. }) | UploadTask::Remove { path, .. } => path,
            UploadTask::Fetch(_)
            | UploadTask::Resolve(_)
            | UploadTask::Move(_)
            | UploadTask::Grow(_)
            | UploadTask::AbortGrowing(_)
            | UploadTask::Evict => "a file",
        };
        let text = format!(
            "{path}: the bucket had another object than it said, {attempts} times in a row. See whether another program \
             writes there all the time, or whether the service keeps conditions wrongly: seqferry doctor."
        );
        let class = FailureClass::Store(ErrorClass::Precondition);
        Self::Failed(Box::new(ObjectFailure::new(class, "KeepsChanging", "upload", text)))
    }
}

/// One share and its bucket.
struct Uploader<D: Disk> {
    inner: Arc<Inner<D>>,
    /// Its client looks before writes.
    spec: UploadSpec,
    conditions: ConditionProbe,
    sent_parts: SentParts,
}

impl<D: Disk> WritableShare<D> {
    /// Upload what is written, until `stop`. Returns when nothing is under way any more.
    pub async fn upload(&self, spec: UploadSpec, stop: CancellationToken) {
        let inner = Arc::clone(&self.0);
        let conditions = ConditionProbe::new(spec.client.clone());
        let spec = UploadSpec { client: spec.client.checking_before_writes(), ..spec };
        let uploader = Arc::new(Uploader { inner, spec, conditions, sent_parts: SentParts::default() });
        uploader.watch_long_files();
        uploader.run(&stop).await;
    }

    /// Files and keys that the bucket does not have as the share shows them, settled or not.
    pub fn waiting(&self) -> usize {
        let inner = &self.0;
        inner.overlay.read(|overlay| find_tasks(overlay, &inner.file_table, true, usize::MAX, |_, _| true).len())
    }
}

impl<D: Disk> Uploader<D> {
    async fn run(self: Arc<Self>, stop: &CancellationToken) {
        let mut schedule = Schedule::new();
        let mut tasks: JoinSet<(UploadTask, Result<(), UploadError>)> = JoinSet::new();
        loop {
            if stop.is_cancelled() {
                tasks.shutdown().await;
                self.show_again().await;
                return;
            }
            let room = MAX_UPLOADS.saturating_sub(tasks.len());
            if tasks.is_empty() {
                self.show_again().await;
            }
            for work in self.next_work(&mut schedule, room) {
                let uploader = Arc::clone(&self);
                tasks.spawn(async move {
                    let done = Box::pin(uploader.work(&work)).await;
                    (work, done)
                });
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => {}
                Some(ended) = tasks.join_next(), if !tasks.is_empty() => {
                    if let Ok((work, done)) = ended {
                        let done = schedule.limit_changes(&work, done);
                        self.inner.control.ended(&work, &done);
                        if let Err(UploadError::Failed(failure)) = &done {
                            self.note_failure(&work, failure).await;
                        }
                        schedule.end(&work, done);
                    }
                }
                () = tokio::time::sleep(self.poll_interval()) => {}
            }
        }
    }

    /// Work that may begin now. It is marked as under way.
    fn next_work(&self, schedule: &mut Schedule, room: usize) -> Vec<UploadTask> {
        if room == 0 || self.inner.check_disk().is_err() {
            return Vec::new();
        }
        if self.inner.control.take_retry_request() {
            schedule.retry_now();
        }
        if schedule.needs_plan(self.poll_interval()) {
            self.plan(schedule);
        }
        let begun = schedule.begin(room);
        for work in &begun {
            self.inner.control.begun(work);
        }
        begun
    }

    /// Find all work that could begin now.
    fn plan(&self, schedule: &mut Schedule) {
        let now = Instant::now();
        let takes_outcomes = self.inner.takes_outcomes();
        let mut settle_tracker = SettleTracker::new(schedule, self.spec.quiet, now);
        let found = self.inner.overlay.note(|overlay| {
            if overlay.has_moved() && !has_any_moved(overlay, &self.inner.file_table) {
                overlay.clear_moved();
            }
            let evict = evict::is_due(overlay, self.inner.clean_files).then_some(UploadTask::Evict);
            let may_resolve = settle_tracker.may_resolve();
            let mut send_filter = self.inner.control.send_filter(overlay, &self.inner.file_table);
            let found = find_tasks(overlay, &self.inner.file_table, may_resolve, PLANNED, |number, changed| {
                let is_settled = settle_tracker.is_settled(number, changed);
                takes_outcomes && send_filter.may_send_now(number, is_settled) && settle_tracker.may_begin(number)
            });
            send_filter.close();
            let growing = self.growing_files(overlay, &settle_tracker);
            evict.into_iter().chain(found).chain(growing).collect::<Vec<_>>()
        });
        let seen = settle_tracker.generations();
        let found = self.without_half_written(found, schedule.is_any_busy());
        schedule.plan(found, seen, now);
    }

    /// Work without files whose writers wait for space, as long as other work frees space, or has made some that the
    /// writers have not requested yet.
    fn without_half_written(&self, mut found: Vec<UploadTask>, is_any_busy: bool) -> Vec<UploadTask> {
        let waiting = self.inner.waiting_writers.files();
        if waiting.is_empty() {
            return found;
        }
        let is_half_written =
            |work: &UploadTask| matches!(work, UploadTask::Send(FileUpload { number, .. }) if waiting.contains(number));
        let is_other = |work: &UploadTask| matches!(work, UploadTask::Send(_)) && !is_half_written(work);
        if is_any_busy || found.iter().any(is_other) || !self.inner.data.is_full() {
            found.retain(|work| !is_half_written(work));
        }
        found
    }

    /// Interval between checks for work.
    fn poll_interval(&self) -> Duration {
        LOOK.min(self.spec.quiet / 4).max(Duration::from_millis(5))
    }

    async fn work(&self, work: &UploadTask) -> Result<(), UploadError> {
        // The bucket must not be ahead of the journal: a loss of power would bring back a file whose object has gone.
        self.inner.overlay.wait_until_durable().await.map_err(send::local)?;
        if *work != UploadTask::Evict {
            self.inner.control.check_claim().await?;
        }
        match work {
            UploadTask::Send(file_upload) => Box::pin(self.send(file_upload)).await,
            UploadTask::Fetch(number) => self.fetch(*number).await,
            UploadTask::Resolve(number) => self.resolve(*number).await,
            UploadTask::Move(number) => self.move_folder(*number).await,
            UploadTask::Remove { path, etag } => self.remove(path, etag).await,
            UploadTask::Grow(number) => Box::pin(self.grow(*number)).await,
            UploadTask::AbortGrowing(number) => self.abort_growing(*number).await,
            UploadTask::Evict => Box::pin(self.evict()).await,
        }
    }

    fn key(&self, path: &str) -> String {
        format!("{}{path}", self.spec.prefix)
    }

    /// The object of a path, as texts name it.
    fn address(&self, path: &str) -> String {
        ObjectUri(&self.spec.bucket, Some(&self.key(path))).to_string()
    }
}

#[cfg(test)]
mod condition_probe_tests;
#[cfg(test)]
mod conflict_tests;
#[cfg(test)]
mod control_tests;
#[cfg(test)]
mod evict_tests;
#[cfg(test)]
mod facts_tests;
#[cfg(test)]
mod folder_rename_tests;
#[cfg(test)]
mod growing_tests;
#[cfg(test)]
mod history;
#[cfg(test)]
mod order_tests;
#[cfg(test)]
mod room_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod upload_batch_tests;
#[cfg(test)]
mod verify_tests;
