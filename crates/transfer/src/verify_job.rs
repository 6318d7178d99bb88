//! Jobs that compare the objects of a location with their records, and write nothing.
//!
//! An object is checked with HEAD first. One that has the recorded size and `ETag` is the same, unless the job reads
//! contents and a digest of its bytes is on record: then all of its bytes are read. All others fail, each with what was
//! recorded and what was found.
//!
//! An object that got no answer fails as well, but only if the storage answers otherwise. Else it has no outcome, and
//! neither have those that follow: an outage is no result of a comparison.

use std::ops::ControlFlow;
use std::sync::Arc;

use seqferry_client::{KeyLookup, RequestError, RetryingClient};
use seqferry_store::{ErrorClass, ObjectMeta, ObjectRef, ObjectUri, PinnedObject, Scope, StoreError};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tracing::Instrument as _;

use crate::clock::now;
use crate::content_digest::{self, DigestRequest, DigestTask};
use crate::job::{Job, JobSpec, JobState};
use crate::location_job::{LocationJob, LocationOptions};
use crate::object::JobItem;
use crate::object_outcome::{CopyMethod, FailureClass, ObjectFailure, ObjectState, VerificationLevel};
use crate::progress::ObjectTracker;
use crate::recorded_digest::{RecordedContent, RecordedDigest};
use crate::schedule::Scheduler;

/// Largest number of objects of one job that are checked or read concurrently.
const MAX_CONCURRENT: usize = 256;
/// Operation of a check.
const HEAD: &str = "HeadObject";
/// Operation of a read.
const READ: &str = "GetObject";
/// Code of an object that is not there.
const MISSING: &str = "MissingAtTarget";
/// Code of an object that is another than was recorded.
const CHANGED: &str = "ChangedAtTarget";

/// Settings of a job that compares objects with a record.
#[derive(Debug, Clone, Copy, Default)]
pub struct VerifyOptions {
    /// Objects whose record has a digest of their bytes are read.
    pub content: bool,
    /// The objects are archives: sizes and `ETag`s of items are those of members, and are not compared.
    pub archives: bool,
}

impl Job {
    /// Start comparing the items at the target of `spec` with their records ([`JobItem::recorded`]).
    pub fn start_verify(runtime: &Handle, scheduler: &Arc<Scheduler>, spec: JobSpec, options: VerifyOptions) -> Self {
        let (location_job, job, span) =
            LocationJob::prepare(scheduler, spec, CopyMethod::Head, LocationOptions::default());
        runtime.spawn(verify_items(location_job, options).instrument(span));
        job
    }
}

async fn verify_items(mut job: LocationJob, options: VerifyOptions) {
    let comparison = Arc::new(RecordComparison {
        options,
        opaque_etags: job.client.capabilities().opaque_etags,
        reads: Semaphore::new(content_digest::MAX_CONCURRENT_OBJECTS),
        shared: Arc::clone(&job.shared),
    });
    while !job.is_stopped() {
        let left: Vec<usize> = (0..job.items.len()).filter(|n| !job.has_ended(*n)).collect();
        if left.is_empty() {
            break;
        }
        let mut unanswered = Vec::new();
        let compare = |client, bucket, item| Arc::clone(&comparison).compare(client, bucket, item);
        let report_reachable = |job: &mut LocationJob, n, end| report_reachable(job, n, end, &mut unanswered);
        job.each_settled(left, MAX_CONCURRENT, compare, report_reachable).await;
        if !unanswered.is_empty() && is_reachable(&job).await {
            report_all(&mut job, &mut unanswered);
        }
    }
    job.finish();
}

/// Result of a check at an object.
enum RecordCheck {
    /// It is as recorded, and has this many bytes.
    Same(u64, VerificationLevel),
    /// It is not, or cannot be checked.
    Different(ObjectFailure),
    /// It was not checked because of an error that may be temporary.
    Unanswered(ObjectFailure),
    /// No other object can be checked either.
    Fatal(StoreError),
}

/// The end of a check at an object.
struct ComparedObject {
    result: RecordCheck,
    /// Seconds since the epoch.
    started_at: f64,
    /// Progress of an object that was read.
    active: Option<Arc<ObjectTracker>>,
}

/// Reports a result. Any answer shows that the storage is reachable: objects without an answer then fail.
fn report_reachable(
    job: &mut LocationJob,
    n: usize,
    compared: ComparedObject,
    unanswered: &mut Vec<(usize, ComparedObject)>,
) -> ControlFlow<()> {
    match compared.result {
        // The object has no outcome: the failure applies to all objects.
        RecordCheck::Fatal(error) => {
            if let Some(active) = compared.active {
                job.shared.counters.end(&active, None);
            }
            job.shared.fail(Some(error.into()));
        }
        RecordCheck::Unanswered(_) => {
            unanswered.push((n, compared));
            if unanswered.len() == MAX_CONCURRENT {
                return ControlFlow::Break(());
            }
        }
        RecordCheck::Same(..) | RecordCheck::Different(_) => {
            report_all(job, unanswered);
            report(job, n, compared);
        }
    }
    ControlFlow::Continue(())
}

fn report_all(job: &mut LocationJob, compared: &mut Vec<(usize, ComparedObject)>) {
    for (n, compared) in compared.drain(..) {
        report(job, n, compared);
    }
}

/// Report the end of an object, beside what it was compared with.
fn report(job: &mut LocationJob, n: usize, compared: ComparedObject) {
    let items = Arc::clone(&job.items);
    let item = &items[n];
    let mut outcome = job.outcome(item, ObjectState::Done);
    let recorded = item.recorded.as_deref().cloned().unwrap_or_default();
    outcome.started_at = compared.started_at;
    outcome.target_etag = recorded.target_etag;
    outcome.checksum = recorded.checksum;
    let is_read = match compared.result {
        RecordCheck::Same(size, level) => {
            outcome.size = size;
            outcome.verified = level;
            level == VerificationLevel::Content
        }
        RecordCheck::Different(failure) | RecordCheck::Unanswered(failure) => {
            let is_read = failure.operation == READ;
            outcome.state = ObjectState::Failed;
            outcome.failure = Some(failure);
            is_read
        }
        RecordCheck::Fatal(_) => return,
    };
    outcome.method = if is_read { CopyMethod::Read } else { CopyMethod::Head };
    match compared.active {
        Some(active) => job.shared.counters.end(&active, Some(outcome.state)),
        None => job.shared.counters.count(outcome.state, outcome.size),
    }
    job.report(n, outcome);
}

/// True when the location can be used. Else the job ends, and unreported objects have no outcome.
async fn is_reachable(job: &LocationJob) -> bool {
    let stop = &job.shared.cancel;
    match job.client.uncancelled().until(stop.clone()).check_bucket(&job.bucket).await {
        Ok(()) => true,
        Err(RequestError::Failed(error)) if error.class == ErrorClass::Person && error.is_denied() => true,
        Err(RequestError::Failed(error)) if error.scope == Scope::Job => {
            job.shared.fail(Some(error.into()));
            false
        }
        Err(_) => {
            stop.cancel();
            false
        }
    }
}

/// The comparison of the objects of one location with their records.
struct RecordComparison {
    options: VerifyOptions,
    /// True when `ETag`s have no meaning outside the location, like those of files: they are not compared.
    opaque_etags: bool,
    /// Objects that may be read at a time.
    reads: Semaphore,
    shared: Arc<JobState>,
}

impl RecordComparison {
    async fn compare(
        self: Arc<Self>,
        client: RetryingClient,
        bucket: Arc<str>,
        item: JobItem,
    ) -> Result<ComparedObject, RequestError> {
        let started_at = now();
        let recorded = item.recorded.as_deref().cloned().unwrap_or_default();
        let record = ObjectRecord {
            bucket: &bucket,
            key: &item.source_key,
            is_archive: self.options.archives,
            size: (!self.options.archives).then_some(item.size),
            source_etag: Some(item.etag.as_str()).filter(|_| !self.options.archives),
            etag: recorded.target_etag.as_deref().filter(|etag| !etag.is_empty() && !self.opaque_etags),
            part_size: recorded.part_size.filter(|_| !self.opaque_etags),
            content: &recorded,
        };
        let found = match client.look_up_one(&bucket, &item.source_key).await {
            Ok(KeyLookup::Object(found)) => found,
            Ok(KeyLookup::NoObject(error)) => {
                let result = record.differs(&record.known(), &error.message, CHANGED, HEAD);
                return Ok(ComparedObject { result, started_at, active: None });
            }
            Ok(KeyLookup::Absent) => {
                let result = record.differs(&record.known(), "nothing", MISSING, HEAD);
                return Ok(ComparedObject { result, started_at, active: None });
            }
            Err(RequestError::Failed(error)) => {
                return Ok(ComparedObject { result: record.lookup_failure(error), started_at, active: None });
            }
            Err(RequestError::Cancelled) => return Err(RequestError::Cancelled),
        };
        let compared = ComparedObject { result: record.compare(&found), started_at, active: None };
        match record.digest(found.size) {
            Some(digest) if self.options.content && matches!(compared.result, RecordCheck::Same(..)) => {
                self.read(client, &item, &record, &found, &digest, compared).await
            }
            _ => Ok(compared),
        }
    }

    /// Read an object that is the same so far, and compare the digest of its bytes.
    async fn read(
        &self,
        client: RetryingClient,
        item: &JobItem,
        record: &ObjectRecord<'_>,
        found: &ObjectMeta,
        digest: &RecordedDigest,
        compared: ComparedObject,
    ) -> Result<ComparedObject, RequestError> {
        let _turn = self.reads.acquire().await.map_err(|_| RequestError::Cancelled)?;
        let active = self.shared.counters.begin(item.id, record.key, found.size);
        let object = PinnedObject::listed(ObjectRef::new(record.bucket, record.key), &found.etag, found.size);
        let request = DigestRequest::of(object, digest);
        let task = DigestTask { client: client.within(record.key), request, active: Some(Arc::clone(&active)) };
        let result = match task.start().await {
            Ok(values) => record.compare_content(found.size, digest, &values),
            Err(RequestError::Failed(error)) if error.scope == Scope::Job => RecordCheck::Fatal(error),
            Err(RequestError::Failed(error)) => RecordCheck::Different(record.unreadable(error)),
            Err(RequestError::Cancelled) => {
                self.shared.counters.end(&active, None);
                return Err(RequestError::Cancelled);
            }
        };
        Ok(ComparedObject { result, active: Some(active), ..compared })
    }
}

/// An object, and what of its record is compared.
struct ObjectRecord<'a> {
    bucket: &'a str,
    key: &'a str,
    is_archive: bool,
    /// Bytes of the object. None: unknown.
    size: Option<u64>,
    /// `ETag` of the source that it was copied from. None: the source had other bytes.
    source_etag: Option<&'a str>,
    /// `ETag` of the object, where one can be compared.
    etag: Option<&'a str>,
    part_size: Option<u64>,
    content: &'a RecordedContent,
}

impl ObjectRecord<'_> {
    fn compare(&self, found: &ObjectMeta) -> RecordCheck {
        let etag = self.etag.filter(|_| !found.etag.is_empty());
        if self.size.is_some_and(|size| size != found.size) || etag.is_some_and(|etag| etag != found.etag) {
            let now = describe(Some(found.size), etag.map(|_| found.etag.as_str()));
            return self.differs(&self.known(), &now, CHANGED, HEAD);
        }
        RecordCheck::Same(found.size, if etag.is_some() { VerificationLevel::Etag } else { VerificationLevel::Size })
    }

    /// Compare the digests of the bytes, one for each part size of `digest`.
    fn compare_content(&self, size: u64, digest: &RecordedDigest, values: &[String]) -> RecordCheck {
        if values.contains(&digest.value) {
            return RecordCheck::Same(size, VerificationLevel::Content);
        }
        let was = format!("{}, {} {}", self.known(), digest.name, digest.value);
        let now = format!("{} {}", digest.name, values.first().map_or("", String::as_str));
        self.differs(&was, &now, CHANGED, READ)
    }

    /// The digest on record of an object of `size` bytes. Of a file, which has no `ETag` of its own, it is that of its
    /// source.
    fn digest(&self, size: u64) -> Option<RecordedDigest> {
        let etag = self.etag.or(self.source_etag);
        if self.is_archive {
            // Its checksum on record is that of a member, and its parts may be of different sizes.
            return RecordedDigest::of(size, None, etag.filter(|etag| !etag.contains('-')), None);
        }
        RecordedDigest::of(size, self.content.checksum.as_ref(), etag, self.part_size)
    }

    fn known(&self) -> String {
        describe(self.size, self.etag)
    }

    fn differs(&self, recorded: &str, found: &str, code: &str, operation: &'static str) -> RecordCheck {
        let message = self.message(recorded, found);
        RecordCheck::Different(ObjectFailure::new(FailureClass::Mismatch, code, operation, message))
    }

    fn lookup_failure(&self, error: StoreError) -> RecordCheck {
        if error.scope == Scope::Job {
            return RecordCheck::Fatal(error);
        }
        let may_pass = matches!(error.class, ErrorClass::Retry | ErrorClass::Throttle);
        let mut failure = self.unreadable(error);
        if failure.code == "Forbidden" {
            // An answer to HEAD has no body, and so no better code.
            "AccessDenied".clone_into(&mut failure.code);
        }
        if may_pass { RecordCheck::Unanswered(failure) } else { RecordCheck::Different(failure) }
    }

    fn unreadable(&self, error: StoreError) -> ObjectFailure {
        let failure = ObjectFailure::from(error);
        ObjectFailure { message: self.message(&self.known(), &failure.message), ..failure }
    }

    /// The text that interfaces take apart again (`parse` in `python/seqferry/spec/verification.py`).
    fn message(&self, recorded: &str, found: &str) -> String {
        format!("{}: was {recorded}; now: {found}", ObjectUri(self.bucket, Some(self.key)))
    }
}

fn describe(size: Option<u64>, etag: Option<&str>) -> String {
    match (size, etag) {
        (Some(size), Some(etag)) => format!("{size} bytes, ETag {etag}"),
        (Some(size), None) => format!("{size} bytes"),
        (None, Some(etag)) => format!("ETag {etag}"),
        (None, None) => "an archive".to_owned(),
    }
}
