//! The steps of one object: inspect, choose a route, copy, verify.
//!
//! 1. **Check** the target with HEAD when the policy or an earlier, interrupted run requires it ([`target`]). A target
//!    that is verified as equal is not copied again.
//! 2. **Choose** the route ([`choose`], [`crate::verification`]). A small object with a plain `ETag` needs no HEAD of
//!    its source: one request copies it, pinned, and the reply verifies it.
//! 3. **Copy**, pinned to the `ETag` that was listed ([`source`]): in one request, in parts in [`parts`], or through
//!    this process in [`stream`]. The copy of a source that changes meanwhile starts over once, from its new state.
//! 4. **Verify** ([`verify`]). A target with other bytes is a failure, and is removed: it must not look whole.
//! 5. **Recheck** ([`recheck`]) a file that was changed a moment before it was opened.
//!
//! Uploads of copies and streams alike are begun, resumed and completed in [`upload`].

mod check;
mod choose;
mod content;
mod disk;
mod md5;
mod parts;
mod policy;
mod properties;
mod recheck;
mod source;
mod stream;
mod target;
mod upload;
mod verify;

use std::sync::Arc;

use seqferry_client::{RequestError, RetryContext, RetryingClient, UploadJournal, UploadSession};
use seqferry_store::{ChecksumAlgorithm, ObjectMeta, Scope, WrittenObject};

use crate::clock::now;
use crate::object_outcome::{CopyMethod, ObjectFailure, ObjectOutcome, ObjectState, VerificationLevel};
use crate::progress::ObjectTracker;
use crate::recheck::FileOpening;
use crate::schedule::{JobSlots, ObjectTurn};
use crate::verification::{self, Route};
pub use policy::{FoundCopy, IfExists, JobItem, Policy, VerificationRule};
use properties::Protection;
pub use properties::{EncryptionRule, LockRule, Properties, PropertyConflict};
pub use stream::DataPath;
pub(crate) use upload::was_rewritten;

/// Cause that ended an attempt at an object without a result.
pub(crate) enum AttemptError {
    /// The job was stopped.
    Cancelled,
    /// The source has changed since it was listed, or the target vanished: worth one more attempt from scratch.
    Again(ObjectFailure),
    /// The service answers part copies with wrong checksums, refuses parts without checksums, or misses checksums that
    /// it never returned: worth an upload without them.
    UselessPartChecksums,
    /// The target's service cannot copy from the source, and this process can read it.
    StreamInstead,
    /// Ranges are answered with something else, which is known meanwhile. The upload is in order.
    RangesIgnored,
    /// The source comes in no form as it is stored: worth a check whether the service decompresses it.
    Transformed(ObjectFailure),
    /// The target's service does not know this checksum.
    UnknownChecksum(ChecksumAlgorithm),
    /// The target holds something that these credentials may not read, and the write that was to replace nothing was
    /// refused.
    ExistsUnreadable(ObjectFailure),
    /// The target's service does not know the condition of a write, which is remembered.
    UnknownCondition,
    /// Final failure: no further attempt is made.
    Failed(ObjectFailure),
}

/// The target as it is after a write.
pub(crate) enum TargetAfterWrite {
    /// The object, with these facts.
    Found(Box<ObjectMeta>),
    /// No object.
    Gone,
    /// The credentials may write to the target and not read it: only the reply to the write can be verified.
    Denied,
}

impl From<RequestError> for AttemptError {
    fn from(interrupted: RequestError) -> Self {
        match interrupted {
            RequestError::Cancelled => Self::Cancelled,
            RequestError::Failed(error) => Self::Failed(error.into()),
        }
    }
}

/// Reason why an object is not copied again after a recheck of its source.
enum RecheckError {
    Cancelled,
    Failed(ObjectFailure),
}

/// A finished copy before it is reported.
pub(crate) struct CopyResult {
    state: ObjectState,
    method: CopyMethod,
    target: WrittenObject,
    verified: VerificationLevel,
}

impl CopyResult {
    /// Result for an object that is at the target already.
    fn found(state: ObjectState, method: CopyMethod, target: &ObjectMeta, verified: VerificationLevel) -> Self {
        let ObjectMeta { etag, version_id, checksum, encryption, .. } = target.clone();
        Self { state, method, target: WrittenObject { etag, version_id, checksum, encryption }, verified }
    }
}

/// Known state of the target before it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TargetState {
    /// The target was not checked.
    Unknown,
    /// No object is at the target.
    Nothing,
    /// An object with this `ETag`.
    Object(String),
}

/// Copies one object.
pub(crate) struct Object<'a, J> {
    pub(crate) policy: &'a Policy,
    pub(crate) source: &'a RetryingClient,
    pub(crate) target: &'a RetryingClient,
    pub(crate) journal: &'a J,
    pub(crate) slots: &'a JobSlots,
    /// The right to be under way, released while nothing but time is waited for.
    pub(crate) turn: ObjectTurn,
    pub(crate) active: Arc<ObjectTracker>,
    pub(crate) item: JobItem,
    pub(crate) retry_context: Arc<RetryContext>,
    pub(crate) not_carried: Vec<String>,
    /// True when the first attempt has failed.
    pub(crate) again: bool,
    /// The upload of an object in parts.
    pub(crate) upload: UploadSession,
    /// State of the target that writes require, where the service supports conditional writes.
    pub(crate) target_state: TargetState,
    /// CRC64NVME of the file when it was read for its MD5, before its parts were.
    pub(crate) read_before: Option<String>,
    /// True when the credentials may not read the target: it is unknown whether an object exists.
    pub(crate) unreadable_target: bool,
    /// True when the object is streamed although the service could copy it: a copy in one request has no condition to
    /// replace nothing.
    pub(crate) streams_unreadable: bool,
    /// Copies of a file that were made.
    pub(crate) copies: u32,
    /// Start of the present attempt: its file is opened later.
    pub(crate) opening: FileOpening,
    /// Modification time of the file when its copy was verified, in seconds since the epoch.
    pub(crate) modified: Option<f64>,
    /// Known encryption and Object Lock of both sides.
    pub(crate) protection: Protection,
    /// Bytes of the source as it is stored, where its decompressed body is copied ([`stream`]) and `item.size` is that
    /// of the body.
    pub(crate) stored_size: Option<u64>,
}

impl<'a, J: UploadJournal> Object<'a, J> {
    /// An object that is not begun.
    pub(crate) fn new(
        policy: &'a Policy,
        (source, target): (&'a RetryingClient, &'a RetryingClient),
        (journal, slots, turn): (&'a J, &'a JobSlots, ObjectTurn),
        active: Arc<ObjectTracker>,
        mut item: JobItem,
        retry_context: RetryContext,
    ) -> Self {
        let retry_context = Arc::new(retry_context);
        let recorded = item.upload.take();
        let (bucket, key) = (&policy.target_bucket, &item.target_key);
        let upload = UploadSession::new(target.clone(), bucket, key, policy.since, Arc::clone(&retry_context));
        Self {
            policy,
            source,
            target,
            journal,
            slots,
            turn,
            active,
            item,
            retry_context,
            not_carried: Vec::new(),
            again: false,
            upload: upload.recorded(recorded),
            target_state: TargetState::Unknown,
            read_before: None,
            unreadable_target: false,
            streams_unreadable: false,
            copies: 0,
            opening: FileOpening::now(policy.settle),
            modified: None,
            protection: Protection::default(),
            stored_size: None,
        }
    }

    /// Copy the object. None: the job was stopped before the end; an open upload stays open, and recorded.
    pub(crate) async fn run(&mut self) -> Option<ObjectOutcome> {
        let started_at = now();
        let mut attempts = 1;
        let end = loop {
            match self.attempt_settled().await {
                Err(AttemptError::Cancelled) => return None,
                // Not the object's fault, and occurs once: later uploads have no part checksums.
                Err(AttemptError::UselessPartChecksums) => {
                    self.target.quirks().learn_useless_part_checksums();
                    self.active.reset();
                    self.upload.abort(false).await;
                }
                // The second occurs at most twice: from then on no condition is sent.
                Err(AttemptError::StreamInstead | AttemptError::UnknownCondition) => {
                    self.active.reset();
                    self.upload.abort(false).await;
                }
                Err(AttemptError::RangesIgnored) => self.active.reset(),
                // Occurs at most twice: from then on no checksum is sent.
                Err(AttemptError::UnknownChecksum(refused)) => {
                    self.target.quirks().learn_refused_sum(refused);
                    self.active.reset();
                    self.upload.abort(false).await;
                }
                // An attempt that met another file than was listed has copied nothing: a second copy may still follow.
                Err(AttemptError::Again(failure)) if attempts == 1 || attempts == 2 && self.copies == 1 => {
                    attempts += 1;
                    self.again = true;
                    self.active.reset();
                    self.upload.abort(false).await;
                    match self.recheck_source(failure).await {
                        Ok(()) => {}
                        Err(RecheckError::Cancelled) => return None,
                        Err(RecheckError::Failed(failure)) => break Err(failure),
                    }
                }
                // The refused write shows that the target exists.
                Err(AttemptError::ExistsUnreadable(_)) if self.policy.if_exists == IfExists::Skip => {
                    self.upload.abort(false).await;
                    break Ok(CopyResult::found(
                        ObjectState::Skipped,
                        CopyMethod::None,
                        &ObjectMeta::default(),
                        VerificationLevel::No,
                    ));
                }
                Err(
                    AttemptError::Again(failure)
                    | AttemptError::Failed(failure)
                    | AttemptError::ExistsUnreadable(failure)
                    | AttemptError::Transformed(failure),
                ) => {
                    // A failure that stops the whole job is reported immediately, so that no other object runs into it
                    // meanwhile.
                    if failure.scope != Scope::Job {
                        self.upload.abort(false).await;
                    }
                    break Err(failure);
                }
                Ok(copy) => break Ok(copy),
            }
        };
        let (copy, failure) = match end {
            Ok(copy) => (copy, None),
            Err(failure) => {
                let copy = CopyResult {
                    state: ObjectState::Failed,
                    method: CopyMethod::None,
                    target: WrittenObject::default(),
                    verified: VerificationLevel::No,
                };
                (copy, Some(failure))
            }
        };
        Some(ObjectOutcome {
            id: self.item.id,
            size: self.item.size,
            source_etag: self.item.etag.clone(),
            state: self.policy.ended_state(copy.state),
            method: copy.method,
            started_at,
            ended_at: now(),
            attempts,
            retries: self.retry_context.retries(),
            target_etag: Some(copy.target.etag).filter(|etag| !etag.is_empty()),
            target_version_id: copy.target.version_id,
            checksum: copy.target.checksum,
            verified: copy.verified,
            not_carried: std::mem::take(&mut self.not_carried),
            failure,
        })
    }

    async fn attempt(&mut self) -> Result<CopyResult, AttemptError> {
        self.not_carried.clear();
        let mut source_meta: Option<ObjectMeta> = None;
        if self.upload.open().is_some_and(|upload| upload.part_size == 0) {
            // It holds parts of a decompressed body, which cannot be read from the middle.
            self.upload.abort(false).await;
        }
        if self.policy.only_clean {
            self.upload.abort(false).await;
            // Best effort, but for what no other object would get through either.
            return match self.sweep_uploads().await {
                Err(AttemptError::Failed(failure)) if failure.scope == Scope::Job => Err(AttemptError::Failed(failure)),
                _ => Err(AttemptError::Cancelled),
            };
        }
        if self.policy.compare_only {
            return self.compare_with_target().await;
        }
        self.target_state =
            if self.item.target_absent && !self.may_be_ours() { TargetState::Nothing } else { TargetState::Unknown };
        if self.upload.open().is_none() {
            if self.must_check_target()
                && let Some(done) = self.check_target(&mut source_meta).await?
            {
                return Ok(done);
            }
            if self.policy.resumed {
                self.sweep_uploads().await?;
            }
            let needs_no_head = verification::needs_no_head(
                self.item.size,
                &self.item.etag,
                self.policy.part_options,
                &self.policy.limits,
            );
            self.streams_unreadable = needs_no_head && self.is_target_unreadable();
            if self.streams() {
                if self.streams_in_one_request() {
                    return self.stream_in_one_request().await;
                }
            } else if needs_no_head {
                if source_meta.is_none() && self.policy.properties.needs_source() {
                    source_meta = Some(self.head_source().await?);
                }
                return self.copy_in_one_request(None, source_meta).await;
            }
        } else if matches!(self.policy.if_exists, IfExists::Same | IfExists::Size | IfExists::Overwrite)
            && self.target.capabilities().conditions
        {
            // The run that began the upload has checked the target, but that state is not recorded.
            match self.head_written_target().await {
                Ok(TargetAfterWrite::Found(target)) => self.target_state = TargetState::Object(target.etag),
                Ok(TargetAfterWrite::Gone) => self.target_state = TargetState::Nothing,
                Ok(TargetAfterWrite::Denied) => self.unreadable_target = true,
                Err(AttemptError::Cancelled) => return Err(AttemptError::Cancelled),
                Err(_) => {} // the write shows what is wrong; it is made without a condition
            }
            if self.is_target_unreadable() && self.target.quirks().refuses_conditions() {
                return Err(self.unreadable_target_error("HeadObject"));
            }
        }
        let source = match source_meta.or_else(|| self.take_looked_up().map(|(source, _)| source)) {
            Some(source) => source,
            None => self.head_source().await?,
        };
        if self.streams() {
            if source.archived {
                return Err(self.archived_error(&source));
            }
            return self.stream_in_parts(&source).await;
        }
        match self.route(&source).await? {
            Route::Copy(_) if self.is_target_unreadable() => {
                self.streams_unreadable = true;
                self.stream_in_parts(&source).await
            }
            Route::Copy(checksum) => {
                self.upload.abort(false).await;
                self.copy_in_one_request(checksum, Some(source)).await
            }
            Route::Parts(route) => self.copy_in_parts(route, &source).await,
        }
    }
}
