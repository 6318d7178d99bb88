//! One multipart upload, from its creation to its end. A kill at any moment costs at most the parts in flight.
//!
//! | step | what it guarantees |
//! |---|---|
//! | [`begin`](UploadSession::begin) | the id is recorded by the caller's [`UploadJournal`] before the first part starts |
//! | [`adopt`](UploadSession::adopt) | a recorded upload continues with the parts that it holds |
//! | [`put_part`](UploadSession::put_part), [`copy_part`](UploadSession::copy_part), [`part_writer`](UploadSession::part_writer) | parts in any order, several at a time |
//! | [`complete`](UploadSession::complete) | the object is there, or [`Completion::Gone`] says that the upload is not |
//! | [`abort`](UploadSession::abort) | nothing of the upload stays, parts in flight included |
//! | [`sweep`](UploadSession::sweep) | an upload that was created and never recorded is found and aborted |
//!
//! Invariants: creates and parts that were sent continue when their caller stops waiting, as they do at the service, so
//! that an abort waits for them: a minute, or a few seconds after a cancel. An upload that holds parts is never swept,
//! since a part proves that it was recorded.
//!
//! The size of the object need not be known when an upload begins: [`growing_part_size`] cuts a stream of any length.
//!
//! ```
//! use std::sync::Arc;
//!
//! use seqferry_client::upload::{Completion, PartBody, RecordedUpload, UploadJournal, UploadSession};
//! use seqferry_client::{Endpoint, RequestError, RequestMetrics, RetryPolicy, RetryingClient};
//! use seqferry_client::{Budget, BudgetLimits};
//! use seqferry_store::{CompleteUpload, CompletedPart, CreateUpload, Digests};
//! use seqferry_store_testing::MemoryStore;
//! use tokio_util::sync::CancellationToken;
//!
//! /// A real one writes to a database, and returns when the row is on disk.
//! struct Rows;
//!
//! impl UploadJournal for Rows {
//!     async fn record(&self, upload: &RecordedUpload) -> Result<(), RequestError> {
//!         println!("INSERT {upload:?}");
//!         Ok(())
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let store = MemoryStore::new(4);
//! # store.create_bucket("runs");
//! # let (budget, metrics) = (Budget::new(BudgetLimits::default()), Arc::new(RequestMetrics::default()));
//! # let (endpoint, cancel) = (Endpoint::new(Arc::new(store)), CancellationToken::new());
//! # let client = RetryingClient::new(endpoint, budget, RetryPolicy::default(), cancel, metrics);
//! # let began_at = 0.0;
//! let mut session = UploadSession::new(client, "runs", "r1/s1.fastq", began_at, Arc::default());
//! session.begin(&CreateUpload { part_size: 4, ..session.request() }, &Rows).await?;
//! let mut parts = Vec::new();
//! for (number, bytes) in [(1, &b"ACGT"[..]), (2, &b"AC"[..])] {
//!     let body = PartBody { bytes: bytes.into(), digests: Digests::crc64nvme(bytes), memory: None };
//!     let answer = session.put_part(number, body).await?;
//!     parts.push(CompletedPart { number, etag: answer.etag, checksum: answer.checksum });
//! }
//! let made = session.complete(CompleteUpload { parts, size: 6, ..CompleteUpload::default() }).await?;
//! assert!(matches!(made, Completion::Object(_)));
//! # Ok(())
//! # }
//! ```

mod abort;
mod parts;
mod sizes;

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use seqferry_store::{
    Cause, CompleteUpload, CreateUpload, ErrorClass, ObjectRef, ObjectStore, PartInfo, StoreError, UploadRef,
    WrittenObject,
};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::absent::AbsentCondition;
use crate::client::RetryingClient;
use crate::quirks::ConditionalRequest;
use crate::request::{RequestError, RequestSpec, RetryContext, join_request};
use crate::retry::is_unclear;
use crate::target_check::{TargetCheck, WriteCondition};

pub use abort::{AbortResult, CLOCK_SLACK, abort_once, for_each_page_of_parts};
pub use parts::{PartBody, PartWriter, ReservedCopy};
pub use sizes::growing_part_size;

/// Longest search for unrecorded uploads after creating one has failed permanently.
const LOOK_AFTER: Duration = Duration::from_secs(15);

/// An upload as its journal keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedUpload {
    /// The service's id of the upload.
    pub upload_id: String,
    /// Bytes of each part but the last. 0 where parts have sizes of their own.
    pub part_size: u64,
    /// `ETag` of the object that its parts make, recorded before the upload is completed. None: it was not.
    pub etag: Option<String>,
}

impl RecordedUpload {
    /// The upload by the columns of a record. None without an id: the record keeps the part size of an upload that is
    /// gone.
    ///
    /// # Errors
    /// A sentence, when the part size of an upload is missing: its parts could not be distinguished.
    pub fn of(
        upload_id: Option<String>,
        part_size: Option<u64>,
        etag: Option<String>,
    ) -> Result<Option<Self>, &'static str> {
        match (upload_id, part_size) {
            (None, _) => Ok(None),
            (Some(upload_id), Some(part_size)) => Ok(Some(Self { upload_id, part_size, etag })),
            (Some(_), None) => Err("an upload is recorded with its part size"),
        }
    }
}

/// Journal in which the caller records uploads before their first part starts, and before they are completed.
pub trait UploadJournal: Sync {
    /// Returns once the upload is recorded durably.
    ///
    /// # Errors
    /// When it cannot be recorded: an error that names the operation, the target and the cause.
    /// [`RequestError::Cancelled`] when the caller was stopped first. The session aborts a new upload in both cases.
    fn record(&self, upload: &RecordedUpload) -> impl Future<Output = Result<(), RequestError>> + Send;
}

/// Journal that records uploads with another number in place of their part size.
#[derive(Debug)]
pub struct RecordedWith<'a, J> {
    /// The journal itself.
    pub journal: &'a J,
    /// The number that is recorded.
    pub part_size: u64,
}

impl<J: UploadJournal> UploadJournal for RecordedWith<'_, J> {
    async fn record(&self, upload: &RecordedUpload) -> Result<(), RequestError> {
        self.journal.record(&RecordedUpload { part_size: self.part_size, ..upload.clone() }).await
    }
}

/// Outcome of a completion.
#[derive(Debug)]
pub enum Completion {
    /// The object is there.
    Object(WrittenObject),
    /// The upload is gone: an earlier attempt completed it and its answer was lost, or it was aborted. The target
    /// object shows which; see [`UploadSession::confirm_completed`].
    Gone(StoreError),
}

/// One multipart upload to one key. It may begin again after it was aborted.
#[derive(Debug)]
pub struct UploadSession {
    client: RetryingClient,
    bucket: String,
    key: String,
    /// Seconds since the epoch: older uploads belong to other programs.
    since: f64,
    retry_context: Arc<RetryContext>,
    open: Option<RecordedUpload>,
    /// The upload that Complete did not find.
    gone: Option<String>,
    /// Create and part requests under way. They continue after their caller was dropped: an upload is removed
    /// permanently only by an abort after the last of them.
    under_way: TaskTracker,
    /// Ends the create and part requests under way.
    give_up: CancellationToken,
    /// Uploads that were created and are not open here yet, for example because their caller was dropped.
    created: Arc<Mutex<Vec<String>>>,
    /// The latest answer to a part had an `ETag` that is a digest of its bytes. False before the first answer.
    plain_etags: AtomicBool,
    /// The open upload may hold parts: some were sent, or an earlier run may have sent some.
    may_hold_parts: AtomicBool,
}

impl UploadSession {
    /// A session for work that began at `since` (seconds since the epoch): younger uploads of this key without parts
    /// count as its own. Its requests count their retries in `retry_context`.
    pub fn new(client: RetryingClient, bucket: &str, key: &str, since: f64, retry_context: Arc<RetryContext>) -> Self {
        Self {
            client,
            bucket: bucket.to_owned(),
            key: key.to_owned(),
            since,
            retry_context,
            open: None,
            gone: None,
            under_way: TaskTracker::new(),
            give_up: CancellationToken::new(),
            created: Arc::default(),
            plain_etags: AtomicBool::new(false),
            may_hold_parts: AtomicBool::new(false),
        }
    }

    /// The same session, which continues with an upload that an earlier run has recorded.
    #[must_use]
    pub fn recorded(mut self, upload: Option<RecordedUpload>) -> Self {
        self.may_hold_parts = AtomicBool::new(upload.is_some());
        self.open = upload;
        self
    }

    /// The upload that is open, as recorded.
    pub fn open(&self) -> Option<&RecordedUpload> {
        self.open.as_ref()
    }

    /// The upload that is open is no longer this session's.
    pub fn forget(&mut self) {
        self.open = None;
    }

    /// Sends a request in a task of its own: it continues when its caller has gone, until the session gives it up.
    fn send_on<T: Send + 'static>(
        &self,
        operation: &'static str,
        request: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> JoinHandle<Result<T, StoreError>> {
        let given_up = self.give_up.clone().cancelled_owned();
        self.under_way.spawn(async move {
            tokio::select! {
                biased;
                ended = request => ended,
                () = given_up => Err(StoreError::new(operation, "", None, "Cancelled", None)),
            }
        })
    }

    /// A request to create this upload, without attributes.
    pub fn request(&self) -> CreateUpload {
        CreateUpload { bucket: self.bucket.clone(), key: self.key.clone(), ..CreateUpload::default() }
    }

    /// Creates the upload and has it recorded.
    ///
    /// # Errors
    /// When it cannot be created. Those of the journal when it is not recorded; it is then aborted.
    pub async fn begin(&mut self, request: &CreateUpload, journal: &impl UploadJournal) -> Result<(), RequestError> {
        let retries = self.retry_context.retries();
        let created = self
            .client
            .call(RequestSpec::write("CreateMultipartUpload", &self.bucket), &self.retry_context, |store| {
                let (request, created) = (request.clone(), Arc::clone(&self.created));
                let sent = self.send_on("CreateMultipartUpload", async move {
                    let upload_id = store.create_upload(&request).await?;
                    created.lock().unwrap_or_else(PoisonError::into_inner).push(upload_id.clone());
                    Ok(upload_id)
                });
                join_request(sent, "CreateMultipartUpload")
            })
            .await;
        if matches!(&created, Err(RequestError::Failed(_))) && self.retry_context.retries() > retries {
            // An attempt with a lost answer may have created an upload. Best effort: the service may be unreachable.
            let _looked = tokio::time::timeout(LOOK_AFTER, self.sweep(None)).await;
        }
        let upload_id = created?;
        self.created.lock().unwrap_or_else(PoisonError::into_inner).clear();
        let upload = RecordedUpload { upload_id, part_size: request.part_size, etag: None };
        self.open = Some(upload.clone());
        self.may_hold_parts.store(false, Ordering::Relaxed);
        if self.retry_context.retries() > retries {
            // An attempt with a lost answer may have created another upload.
            self.sweep(Some(&upload.upload_id)).await?;
        }
        let recorded = journal.record(&upload).await;
        if recorded.is_err() {
            // No later run would find it: the journal has failed, or the caller was stopped and another worker has its
            // work.
            self.abort(true).await;
        }
        recorded
    }

    /// The parts that the recorded upload holds, in order of their number. None: there is no such upload, and this
    /// session has none open any more.
    ///
    /// Where the credentials may not list parts, the upload is aborted: what it holds cannot be known.
    ///
    /// # Errors
    /// When the parts cannot be listed for another reason.
    pub async fn adopt(&mut self) -> Result<Option<Vec<PartInfo>>, RequestError> {
        let Some(upload) = &self.open else { return Ok(None) };
        match self.list_parts(&self.client, &upload.upload_id).await {
            Ok(parts) => return Ok(Some(parts)),
            Err(RequestError::Failed(error)) if error.class == ErrorClass::NotFound => {}
            Err(RequestError::Failed(error)) if error.is_denied() => {
                self.abort_upload(&self.client, &upload.upload_id, true).await;
            }
            Err(other) => return Err(other),
        }
        self.open = None;
        Ok(None)
    }

    /// Has the `ETag` recorded of the object that completing the upload makes: only by that it is known again after a
    /// kill.
    ///
    /// # Errors
    /// Those of the journal. The upload stays open.
    pub async fn record_etag(&mut self, etag: &str, journal: &impl UploadJournal) -> Result<(), RequestError> {
        let Some(open) = self.open.as_mut().filter(|open| open.etag.as_deref() != Some(etag)) else { return Ok(()) };
        open.etag = Some(etag.to_owned());
        journal.record(open).await
    }

    /// Completes the upload from the parts in `request`. Bucket, key and upload id are those of the session.
    ///
    /// # Errors
    /// When the service refuses. The upload stays open.
    pub async fn complete(&mut self, mut request: CompleteUpload) -> Result<Completion, RequestError> {
        let Some(upload) = self.open.clone() else {
            let error = StoreError::new("CompleteMultipartUpload", &self.bucket, Some(&self.key), "NoSuchUpload", None);
            return Ok(Completion::Gone(error));
        };
        request.bucket.clone_from(&self.bucket);
        request.key.clone_from(&self.key);
        request.upload_id.clone_from(&upload.upload_id);
        if self.client.quirks().refuses_sizes() {
            request.size = 0;
        }
        let mut completed = self.send_complete(&request).await;
        if matches!(&completed, Err(RequestError::Failed(error)) if is_unclear(error)) && self.is_open(&upload).await? {
            // It was not completed: the upload is there.
            self.retry_context.count_retry();
            completed = self.send_complete(&request).await;
        }
        if request.size > 0
            && matches!(&completed, Err(RequestError::Failed(error)) if error.class == ErrorClass::Capability)
        {
            // The size may be the cause. It is redundant: the parts give it as well.
            request.size = 0;
            completed = self.send_complete(&request).await;
            if completed.is_ok() {
                self.client.quirks().learn_refused_sizes();
            }
        }
        match completed {
            Ok(written) => {
                self.open = None;
                self.clean_up_late_parts(upload.upload_id);
                Ok(Completion::Object(written))
            }
            // Not understood, or no answer but failures, and the upload is gone: the target shows whether it became the
            // object.
            Err(RequestError::Failed(error))
                if error.cause() == Cause::UploadGone || is_unclear(&error) && !self.is_open(&upload).await? =>
            {
                self.open = None;
                self.gone = Some(upload.upload_id);
                Ok(Completion::Gone(error))
            }
            Err(other) => Err(other),
        }
    }

    /// Confirms, after [`Completion::Gone`], that the target holds the completed object.
    pub fn confirm_completed(&mut self) {
        if let Some(upload_id) = self.gone.take() {
            self.clean_up_late_parts(upload_id);
        }
    }

    /// True when the service still has the upload.
    async fn is_open(&self, upload: &RecordedUpload) -> Result<bool, RequestError> {
        let upload = UploadRef::new(&self.bucket, &self.key, &upload.upload_id);
        let spec = RequestSpec::read("ListParts", &self.bucket);
        match self.client.call(spec, &self.retry_context, async |store| store.list_parts(upload, None).await).await {
            Ok(_) => Ok(true),
            Err(RequestError::Failed(_)) => Ok(false),
            Err(RequestError::Cancelled) => Err(RequestError::Cancelled),
        }
    }

    /// Ends the attempts to complete an upload that the service no longer has. Asked once: what fails now has failed
    /// before.
    async fn end_if_gone(&self, upload: UploadRef<'_>) -> Result<Option<WrittenObject>, RequestError> {
        let spec = RequestSpec::read("ListParts", &self.bucket).once();
        let look = async |store: Arc<dyn ObjectStore>| Ok(store.list_parts(upload, None).await.err());
        match self.client.call(spec, &self.retry_context, look).await? {
            Some(refusal) if refusal.cause() == Cause::UploadGone => Err(refusal.into()),
            _ => Ok(None),
        }
    }

    async fn send_complete(&self, request: &CompleteUpload) -> Result<WrittenObject, RequestError> {
        let target = ObjectRef::new(&self.bucket, &self.key);
        let wanted = WriteCondition { if_absent: request.if_absent, if_match: request.if_match.as_deref() };
        let mut sent = Cow::Borrowed(request);
        if self.client.looks_before_writes() {
            let known = self.client.sent_condition(ConditionalRequest::Complete, wanted);
            if known != wanted {
                let request = sent.to_mut();
                (request.if_absent, request.if_match) = (known.if_absent, known.if_match.map(str::to_owned));
            }
        }
        let mut condition = AbsentCondition::new(target, sent.if_absent);
        loop {
            let has = WriteCondition { if_absent: sent.if_absent, if_match: sent.if_match.as_deref() };
            let look = self.client.target_check(ConditionalRequest::Complete, target, wanted, has);
            let answer = self.send_complete_once(&sent, look.as_ref()).await;
            if !condition.is_sent_again(&self.client, &answer).await? {
                return answer;
            }
            if !condition.is_sent() {
                sent.to_mut().if_absent = false;
            }
        }
    }

    async fn send_complete_once(
        &self,
        request: &CompleteUpload,
        target_check: Option<&TargetCheck<'_>>,
    ) -> Result<WrittenObject, RequestError> {
        let spec = RequestSpec::write("CompleteMultipartUpload", &request.bucket);
        let permit = self.client.reserve(spec, &self.retry_context).await?;
        let send = async |store: Arc<dyn ObjectStore>| {
            TargetCheck::look_if_any(target_check, &store).await?;
            store.complete_upload(request).await
        };
        let look = || self.end_if_gone(UploadRef::new(&self.bucket, &self.key, &request.upload_id));
        self.client.call_looking(spec, permit, &self.retry_context, send, look).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upload_is_recorded_with_its_part_size() {
        let upload = RecordedUpload { upload_id: "id".to_owned(), part_size: 5, etag: None };

        assert_eq!(RecordedUpload::of(Some("id".to_owned()), Some(5), None), Ok(Some(upload)));
        assert_eq!(RecordedUpload::of(None, Some(5), None), Ok(None), "aborted since");
        assert_eq!(RecordedUpload::of(None, None, None), Ok(None));
        assert!(RecordedUpload::of(Some("id".to_owned()), None, None).is_err());
    }
}
