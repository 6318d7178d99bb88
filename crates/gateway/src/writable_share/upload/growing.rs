//! Long files while they are written.
//!
//! A part is uploaded when no byte of it has changed for the settle time, and the next part is begun. It goes to a key
//! below [`PARTS`], since key and metadata of an upload are those with which it began, while the name, time and mode of
//! a file come last. When the file has settled, each part is compared with its bytes; those that differ, and the rest,
//! are sent. The object is then copied to the path of the file, within the service, under the condition and with the
//! facts of any upload, and removed.
//!
//! | killed | found in the journal | next |
//! |---|---|---|
//! | before the upload is recorded | the path | uploads there are aborted |
//! | while parts are sent | the upload | it continues with the parts that it holds |
//! | while it is completed | the upload | it is made anew at the same path |
//! | before or while the object is copied | the object | the copy is found by its mark, or made again |
//! | afterwards | the removal of the object | it is removed |

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use seqferry_client::upload::growing_part_size;
use seqferry_client::{RecordedUpload, RequestError, UploadJournal};
use seqferry_share::FileError;
use seqferry_store::crash_point::{self, When};
use seqferry_store::{ErrorClass, ObjectMeta, StoreError};
use seqferry_transfer::pipe::{
    FIRST_PART, GrowingInput, InputOptions, InputTarget, PartBytes, PipeError, RateLimited, ReplaceCondition,
    ResumableInput, send_parts, store_resumable,
};
use seqferry_transfer::{FailureClass, IfExists, Properties};
use tokio::time::Instant;

use super::super::Inner;
use super::generation::{GenerationReader, read_range};
use super::plan::{FileUpload, PARTS, UploadTask, needs_parts};
use super::schedule::SettleTracker;
use super::send::local;
use super::verify::ContentMatch;
use super::{UploadError, Uploader};
use crate::journal::Disk;
use crate::overlay::{Change, FileData, GrowingUpload, GrownObject, Node, Overlay, new_token};

/// Bytes of a file from which on its parts are sent while it grows.
pub(super) const LONG: u64 = 256 << 20;
/// Parts that S3 takes.
const MOST_PARTS: u32 = 10_000;
/// Parts of a file that are sent before it is checked again.
const MOST_IN_A_PASS: usize = 64;
/// Times that a part is sent while its file grows. One that changes again is sent at the end.
const MOST_TIMES: u8 = 2;

/// Parts that this process has sent of files that grow.
#[derive(Debug, Default)]
pub(super) struct SentParts(Mutex<HashMap<u64, BTreeMap<u32, SentPart>>>);

#[derive(Debug, Clone, Copy)]
struct SentPart {
    /// Before its bytes were read.
    at: Instant,
    times: u8,
}

impl SentParts {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, BTreeMap<u32, SentPart>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_known(&self, number: u64) -> bool {
        self.lock().contains_key(&number)
    }

    fn add(&self, number: u64, parts: &[u32], at: Instant) {
        let mut files = self.lock();
        let sent = files.entry(number).or_default();
        for part in parts {
            let times = sent.get(part).map_or(0, |sent| sent.times);
            sent.insert(*part, SentPart { at, times: times + 1 });
        }
    }

    fn forget(&self, number: u64) {
        self.lock().remove(&number);
    }

    /// Forget files of which the journal has no parts.
    fn retain(&self, growing: &BTreeMap<u64, GrowingUpload>) {
        self.lock().retain(|number, _| growing.contains_key(number));
    }
}

impl<D: Disk> Uploader<D> {
    fn long(&self) -> u64 {
        self.spec.long.unwrap_or(LONG)
    }

    fn first_part(&self, growing: Option<&GrowingUpload>) -> u64 {
        let recorded = growing.map(|growing| growing.part_size).filter(|size| *size > 0);
        recorded.or(self.spec.part_size).unwrap_or(FIRST_PART)
    }

    /// Prepare for files that grow.
    pub(super) fn watch_long_files(&self) {
        self.inner.recent_writes.watch(self.long() / 2, self.spec.quiet);
    }

    /// Files of which parts can be sent. Those that have settled are sent as a whole.
    pub(super) fn growing_files(&self, overlay: &Overlay, settle_tracker: &SettleTracker<'_>) -> Vec<UploadTask> {
        self.inner.recent_writes.forget_older(2 * self.spec.quiet);
        self.sent_parts.retain(overlay.growing());
        // An upload that a process before was creating may be there later.
        if !self.inner.control.is_open() || !settle_tracker.may_resolve() {
            return Vec::new();
        }
        let grows = |node: &&Node| {
            let number = node.file.number;
            node.data().is_some_and(|data| data.size >= self.long())
                && needs_parts(overlay, number)
                && node.gaps().is_empty()
                && !overlay.uploads().contains_key(&number)
                && !settle_tracker.has_settled(number, node.changed)
        };
        let growing = overlay.upload_candidates().filter(grows);
        let has_parts = |node: &&Node| !self.ready_parts(overlay, node).is_empty();
        growing.filter(has_parts).map(|node| UploadTask::Grow(node.file.number)).collect()
    }

    /// Whole parts of a file that have not changed for the settle time, and were not sent as they are.
    fn ready_parts(&self, overlay: &Overlay, node: &Node) -> Vec<u32> {
        let (number, writes) = (node.file.number, &self.inner.recent_writes);
        let Some(data) = node.data() else { return Vec::new() };
        let first = self.first_part(overlay.growing().get(&number));
        let sent = self.sent_parts.lock().get(&number).cloned().unwrap_or_default();
        let (mut ready, mut start) = (Vec::new(), 0);
        for part in 1..=MOST_PARTS {
            let range = (start, start + growing_part_size(part, first));
            // The writer is beyond it.
            if range.1 >= data.size || ready.len() >= MOST_IN_A_PASS {
                break;
            }
            start = range.1;
            let is_sent = sent
                .get(&part)
                .is_some_and(|sent| sent.times >= MOST_TIMES || !writes.is_newer(number, range, sent.at));
            if !is_sent && !writes.is_recent(number, range, self.spec.quiet) {
                ready.push(part);
            }
        }
        ready
    }

    /// Send parts of a file that still grows.
    pub(super) async fn grow(&self, number: u64) -> Result<(), UploadError> {
        let Some(growing) = self.announce_growing(number).await? else { return Ok(()) };
        // Only bytes that are on the disk with their record go early.
        let is_unsynced = |node: &Node| node.data().is_some_and(|data: &FileData| !data.unsynced.is_empty());
        if self.inner.overlay.read(|overlay| overlay.node(number).is_some_and(is_unsynced)) {
            let order = self.inner.lock_of(number);
            self.inner.commit_node(number, &order).await.map_err(local)?;
        }
        let parts = self.inner.overlay.read(|overlay| {
            let node = overlay.node(number).filter(|_| needs_parts(overlay, number));
            node.map(|node| self.ready_parts(overlay, node)).unwrap_or_default()
        });
        if parts.is_empty() {
            return Ok(());
        }
        let at = Instant::now();
        let recorded = recorded(&growing);
        let input = GrowingInput {
            bytes: PartReader { inner: Arc::clone(&self.inner), number },
            journal: GrowingJournal { inner: Arc::clone(&self.inner), number },
            is_resumed: recorded.is_some() && !self.sent_parts.is_known(number),
            recorded,
        };
        let (target, options) = self.parts_target(&growing);
        match send_parts(self.spec.client.clone(), target, options, input, &parts).await {
            Ok(true) => {
                self.sent_parts.add(number, &parts, at);
                Ok(())
            }
            // The bucket's rule for incomplete uploads has aborted it.
            Ok(false) => self.abort_growing(number).await,
            Err(PipeError::Failed(failure)) if failure.class == FailureClass::Store(ErrorClass::NotFound) => {
                self.abort_growing(number).await
            }
            Err(error) => Err(self.part_error(&growing, error)),
        }
    }

    fn part_error(&self, growing: &GrowingUpload, error: PipeError) -> UploadError {
        match error {
            PipeError::Cancelled => UploadError::Stopped,
            PipeError::Descriptor(error) => UploadError::local(format!("{}: {error}.", self.address(&growing.path))),
            PipeError::Failed(failure) => UploadError::Failed(failure),
        }
    }

    /// Target of the parts. They have no facts: those of the file are given to the copy.
    fn parts_target(&self, growing: &GrowingUpload) -> (InputTarget, InputOptions) {
        let target = InputTarget { bucket: self.spec.bucket.clone(), key: self.key(&growing.path) };
        let Properties { encryption, checksum, .. } = self.spec.objects.properties.clone();
        let properties =
            Properties { carry_attributes: false, carry_tags: false, encryption, checksum, ..<_>::default() };
        let part_size = Some(self.first_part(Some(growing)));
        (target, InputOptions { part_size, properties, if_exists: IfExists::Overwrite, ..<_>::default() })
    }

    /// Record that parts of a file are about to be sent. None: the file is not to be sent any more.
    async fn announce_growing(&self, number: u64) -> Result<Option<GrowingUpload>, UploadError> {
        let found = self.inner.overlay.read(|overlay| overlay.growing().get(&number).cloned());
        if let Some(found) = found {
            if found.object.is_some() {
                // It is of a generation that is no more.
                self.abort_growing(number).await?;
                return Ok(None);
            }
            if found.upload_id.is_empty() {
                // A process before may have created one that it did not record.
                self.session(&found.path, found.since).sweep(None).await?;
            }
            return Ok(Some(found));
        }
        let growing = GrowingUpload {
            number,
            path: format!("{PARTS}/{}", new_token()).into(),
            upload_id: "".into(),
            part_size: self.first_part(None),
            since: crate::overlay::now(),
            object: None,
        };
        crash_point::reach(When::Before, "parts-announced");
        let announced = growing.clone();
        let recorded = self.inner.overlay.change(|overlay| {
            let is_free = !overlay.uploads().contains_key(&number) && needs_parts(overlay, number);
            Ok(if is_free { (vec![Change::Grow(announced)], true) } else { (Vec::new(), false) })
        });
        let is_recorded = recorded.await.map_err(local)?;
        crash_point::reach(When::After, "parts-announced");
        Ok(is_recorded.then_some(growing))
    }

    /// The object that has all bytes of a file that grew, at the path of its parts. None: the file is to be sent as any
    /// other.
    pub(super) async fn grown(
        &self,
        file_upload: &FileUpload,
        node: &Node,
    ) -> Result<Option<(Box<str>, ObjectMeta)>, UploadError> {
        let number = file_upload.number;
        let found = self.inner.overlay.read(|overlay| overlay.growing().get(&number).cloned());
        let Some(mut growing) = found else { return Ok(None) };
        let is_same = |object: &GrownObject| object.changed == file_upload.changed;
        // A file that was cut off to less than a part goes in one request.
        let is_in_parts = node.attributes().size > self.first_part(Some(&growing));
        if growing.object.is_none() && !growing.upload_id.is_empty() && is_in_parts {
            growing = self.complete_parts(file_upload, growing).await?;
        }
        if let Some(object) = growing.object.as_ref().filter(|object| is_same(object))
            && let Some(there) = self.head(&growing.path).await?.filter(|there| *there.etag == *object.etag)
            && (object.is_of_this_process
                || self.compare(file_upload, growing.part_size, &there).await? == ContentMatch::Same)
        {
            return Ok(Some((growing.path, there)));
        }
        self.abort_growing(number).await?;
        Ok(None)
    }

    /// Compare the parts with the file, send what differs and what is missing, and complete the upload.
    async fn complete_parts(
        &self,
        file_upload: &FileUpload,
        growing: GrowingUpload,
    ) -> Result<GrowingUpload, UploadError> {
        let number = file_upload.number;
        let bytes = GenerationReader::new(Arc::clone(&self.inner), number, file_upload.changed);
        let has_changed = Arc::clone(&bytes.has_changed);
        let input = ResumableInput {
            bytes,
            journal: GrowingJournal { inner: Arc::clone(&self.inner), number },
            recorded: recorded(&growing),
            replaces: ReplaceCondition::Anything,
        };
        let (target, options) = self.parts_target(&growing);
        let report = match store_resumable(self.spec.client.clone(), target, options, input).await {
            Ok(report) => report,
            // What was sent stays: the file grows again.
            Err(_) if has_changed.load(Ordering::Acquire) => {
                self.abort(number).await?;
                return Err(UploadError::Superseded);
            }
            Err(error) => return Err(self.part_error(&growing, error)),
        };
        // A process before may have created another that it did not record.
        self.session(&growing.path, growing.since).sweep(None).await?;
        crash_point::reach(When::Before, "parts-completed");
        let object =
            Some(GrownObject { changed: file_upload.changed, etag: report.etag.into(), is_of_this_process: true });
        let grown = GrowingUpload { upload_id: "".into(), object, ..growing };
        let recorded = grown.clone();
        self.inner.overlay.change(|_| Ok((vec![Change::Grow(recorded)], ()))).await.map_err(local)?;
        crash_point::reach(When::After, "parts-completed");
        self.sent_parts.forget(number);
        Ok(grown)
    }

    /// Leave nothing of the parts of a file in the bucket.
    pub(super) async fn abort_growing(&self, number: u64) -> Result<(), UploadError> {
        let found = self.inner.overlay.read(|overlay| overlay.growing().get(&number).cloned());
        let Some(growing) = found else { return Ok(()) };
        let session = self.session(&growing.path, growing.since);
        session.sweep(None).await?;
        if let Some(upload) = recorded(&growing) {
            session.recorded(Some(upload)).abort(true).await;
        }
        // A process before may have completed it and not said so.
        let there = self.head(&growing.path).await?;
        let ended = self.inner.overlay.change(|overlay| {
            let is_same = overlay.growing().get(&number).is_some_and(|now| now.path == growing.path);
            if !is_same {
                return Ok((Vec::new(), ()));
            }
            let removal = there.map(|there| Change::AddRemoval { path: growing.path, etag: there.etag.into() });
            Ok((removal.into_iter().chain([Change::EndGrowing(number)]).collect(), ()))
        });
        ended.await.map_err(local)?;
        self.sent_parts.forget(number);
        Ok(())
    }
}

/// Changes after which the object of a file that grew is to be removed: the file has its own.
pub(super) fn end_grown(overlay: &Overlay, number: u64) -> Vec<Change> {
    let Some(growing) = overlay.growing().get(&number) else { return Vec::new() };
    let Some(object) = &growing.object else { return Vec::new() };
    let removal = Change::AddRemoval { path: growing.path.clone(), etag: object.etag.clone() };
    vec![removal, Change::EndGrowing(number)]
}

fn recorded(growing: &GrowingUpload) -> Option<RecordedUpload> {
    let (upload_id, part_size) = (growing.upload_id.clone().into(), growing.part_size);
    (!growing.upload_id.is_empty()).then_some(RecordedUpload { upload_id, part_size, etag: None })
}

/// Bytes of a file that still grows, whatever generation they are of.
struct PartReader<D: Disk> {
    inner: Arc<Inner<D>>,
    number: u64,
}

impl<D: Disk> RateLimited for PartReader<D> {
    async fn admit(&self, bytes: u64) {
        self.inner.control.admit(bytes).await;
    }
}

impl<D: Disk> PartBytes for PartReader<D> {
    async fn read(&self, offset: u64, size: u64) -> Result<Bytes, PipeError> {
        let bytes = read_range(&self.inner, self.number, (offset, size), false).await;
        bytes.map_err(|error| match error {
            FileError::Stale => PipeError::Cancelled,
            other => {
                PipeError::Descriptor(std::io::Error::other(format!("the bytes of the file cannot be had ({other})")))
            }
        })
    }
}

/// The journal of the share, which has the upload of the parts before the first of them.
struct GrowingJournal<D: Disk> {
    inner: Arc<Inner<D>>,
    number: u64,
}

impl<D: Disk> UploadJournal for GrowingJournal<D> {
    async fn record(&self, upload: &RecordedUpload) -> Result<(), RequestError> {
        crash_point::reach(When::Before, "parts-recorded");
        let mut path: Box<str> = "".into();
        let recorded = self.inner.overlay.change(|overlay| {
            let growing = overlay.growing().get(&self.number).ok_or(FileError::Stale)?;
            path = growing.path.clone();
            let (upload_id, part_size) = (upload.upload_id.as_str().into(), upload.part_size);
            Ok((vec![Change::Grow(GrowingUpload { upload_id, part_size, ..growing.clone() })], ()))
        });
        recorded.await.map_err(|_| {
            let error = StoreError::new("RecordUpload", "", Some(&path), "JournalFailed", None);
            RequestError::Failed(error.with_message("the journal of the share cannot be written"))
        })?;
        crash_point::reach(When::After, "parts-recorded");
        Ok(())
    }
}
