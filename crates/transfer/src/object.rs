//! The way of one object: look, choose, copy, verify.
//!
//! 1. **Look** at the target when the policy or an earlier, cut-off run makes it matter. What is there already and proven equal
//!    is not copied again.
//! 2. **Choose** the route ([`crate::evidence`]). A small object with a plain `ETag` needs no look at its source at all: one
//!    request copies it, pinned, and the answer proves it.
//! 3. **Copy**, pinned to the `ETag` that was listed: at once here, in parts in [`parts`], or through this process in
//!    [`stream`]. A source that changes meanwhile is started over once, from what it is now.
//! 4. **Verify**. Proven different means failed, and the target is removed: it must not look whole.

mod content;
mod disk;
mod md5;
mod parts;
mod stream;

use std::borrow::Cow;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use seqferry_client::{RequestError, RequestSpec, RetryContext, RetryingClient};
use seqferry_store::{
    Address, ChecksumAlgorithm, ChecksumKind, ErrorClass, ObjectMeta, PinnedObject, Scope, StoreError, Written,
};

use tokio_util::task::TaskTracker;

use crate::evidence::{self, Route, Side, Verdict, Wishes, compare};
use crate::limits::Limits;
use crate::outcome::{FailureClass, Method, ObjectFailure, Outcome, State, Verified};
use crate::plan::{PlanError, etag_parts};
use crate::progress::Active;
use content::Compared;
pub use stream::Way;

/// Clocks of the service and of this machine may differ by so many seconds.
const CLOCK_SLACK: f64 = 15.0 * 60.0;

/// What to do where the target exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IfExists {
    /// Skip it only if it holds the same bytes, else copy.
    #[default]
    Same,
    /// Skip it whatever it holds.
    Skip,
    /// Copy without looking.
    Overwrite,
    /// Fail the object.
    Fail,
}

/// How strong the proof must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Verify {
    /// The strongest that costs no second read.
    #[default]
    Auto,
    /// A checksum or a digest; where there is none, both sides are read.
    Checksum,
    /// Both sides are read and compared.
    Content,
}

/// What holds for all objects of a job.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    /// Whose job it is: those of one transfer take turns with others' as one. Empty: this job for itself.
    pub transfer: String,
    /// Bucket to read from.
    pub source_bucket: String,
    /// Bucket to write to.
    pub target_bucket: String,
    /// What the transfer reads below; empty: anything in the bucket. Services limit prefixes apart.
    pub source_prefix: String,
    /// What the transfer writes below; empty: anything in the bucket.
    pub target_prefix: String,
    /// Which way the bytes go.
    pub way: Way,
    /// What to do where the target exists.
    pub if_exists: IfExists,
    /// How strong the proof must be.
    pub verify: Verify,
    /// Part size and threshold.
    pub wishes: Wishes,
    /// Storage class of the targets; None for the bucket's default.
    pub storage_class: Option<String>,
    /// Keep the MD5 of each file with its object, as rclone does. Of files; a service's objects keep what they carry.
    pub md5: bool,
    /// An earlier run of these items may have been cut off.
    pub resumed: bool,
    /// When the transfer was born, seconds since the epoch.
    pub since: f64,
    /// Copy nothing: abort the uploads that earlier runs left open; every object ends as cancelled.
    pub only_clean: bool,
    /// The service's limits.
    pub limits: Limits,
}

/// One object to copy.
#[derive(Debug, Clone, Default)]
pub struct Item {
    /// Chosen by the caller; comes back in events.
    pub id: u64,
    /// Key to read.
    pub source_key: String,
    /// Key to write.
    pub target_key: String,
    /// Bytes, as listed.
    pub size: u64,
    /// As listed: the source is pinned to it.
    pub etag: String,
    /// Copy this version.
    pub version_id: Option<String>,
    /// A listing showed nothing at the target.
    pub target_absent: bool,
    /// Recorded from an earlier run.
    pub upload: Option<(String, u64)>,
}

/// Where an object says that it has begun an upload, and waits until that is on disk.
pub(crate) trait Journal: Sync {
    /// Returns once the upload id is recorded; None when the job was stopped first.
    fn begun(&self, id: u64, upload_id: &str, part_size: u64) -> impl Future<Output = Option<()>> + Send;
}

/// Why an attempt at an object did not end well.
pub(crate) enum Trouble {
    /// The job was stopped.
    Cancelled,
    /// The source is not what was listed, or the target vanished: worth one more try from scratch.
    Again(ObjectFailure),
    /// The service answers part copies with wrong checksums, refuses them without, or misses those that it never told: worth an
    /// upload without.
    UselessPartChecksums,
    /// The target's service cannot copy from the source, and this process can read it.
    StreamInstead,
    /// Ranges are answered with something else, which is known by now. The upload is in order.
    RangesIgnored,
    /// The target's service does not know this checksum.
    UnknownChecksum(ChecksumAlgorithm),
    /// Something is at the target that these credentials may not read, and the write that was to replace nothing was refused.
    ExistsUnseen(ObjectFailure),
    /// The target's service does not know the condition of a write, which is remembered.
    UnknownCondition,
    /// For good.
    Failed(ObjectFailure),
}

/// The target as it is after a write.
pub(crate) enum LookBack {
    /// There, with these facts.
    Found(Box<ObjectMeta>),
    /// Not there.
    Gone,
    /// The credentials may write to the target and not read it: the reply to the write is all the evidence there is.
    Denied,
}

impl From<RequestError> for Trouble {
    fn from(interrupted: RequestError) -> Self {
        match interrupted {
            RequestError::Cancelled => Self::Cancelled,
            RequestError::Failed(error) => Self::Failed(error.into()),
        }
    }
}

/// Why an object cannot even be tried again.
enum Stopped {
    Cancelled,
    Failed(ObjectFailure),
}

/// A finished copy before it is reported.
pub(crate) struct Copy {
    state: State,
    method: Method,
    target: Written,
    verified: Verified,
}

impl Copy {
    /// What is at the target already.
    fn found(state: State, method: Method, target: &ObjectMeta, verified: Verified) -> Self {
        let (etag, version_id, checksum) = (target.etag.clone(), target.version_id.clone(), target.checksum.clone());
        Self { state, method, target: Written { etag, version_id, checksum }, verified }
    }
}

/// What is known to be at the target before it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum There {
    /// It was not looked at.
    Unknown,
    /// Nothing.
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
    pub(crate) active: Arc<Active>,
    pub(crate) item: Item,
    pub(crate) tries: RetryContext,
    pub(crate) not_carried: Vec<String>,
    /// The first try at it has failed.
    pub(crate) again: bool,
    /// Creates and part copies that were sent. They go on when we stop waiting for them, as the service does: an upload is
    /// gone for good only when it was aborted after the last of them.
    pub(crate) under_way: TaskTracker,
    /// Uploads that were created while nobody waited for the answer any more.
    pub(crate) created: Arc<Mutex<Vec<String>>>,
    /// Writes are made on condition that this is so still, where the service knows conditions.
    pub(crate) there: There,
    /// CRC64NVME of the file when it was read for its MD5, before its parts were.
    pub(crate) read_before: Option<String>,
    /// The last part that was copied got an `ETag` that is a digest of its bytes.
    pub(crate) plain_etags: AtomicBool,
    /// The credentials may not read the target, so that nobody knows whether anything is there.
    pub(crate) unreadable_target: bool,
    /// Streamed although the service could copy it: a copy in one request cannot be told to replace nothing.
    pub(crate) streams_unseen: bool,
}

/// Seconds since the epoch, by our clock.
pub(crate) fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |d| d.as_secs_f64())
}

impl<J: Journal> Object<'_, J> {
    /// Copy it. None: the job was stopped before the end; what is open stays open and `item.upload` names it.
    pub(crate) async fn run(&mut self) -> Option<Outcome> {
        let started_at = now();
        let mut attempts = 1;
        let end = loop {
            match self.attempt().await {
                Err(Trouble::Cancelled) => return None,
                // Not the object's fault, and cannot come twice: uploads go without from now on.
                Err(Trouble::UselessPartChecksums) => {
                    self.target.quirks().learn_useless_part_checksums();
                    self.active.reset();
                    self.drop_upload(false).await;
                }
                // The second comes at most twice: from then on no condition is sent.
                Err(Trouble::StreamInstead | Trouble::UnknownCondition) => {
                    self.active.reset();
                    self.drop_upload(false).await;
                }
                Err(Trouble::RangesIgnored) => self.active.reset(),
                // Comes at most twice: from then on no checksum is sent.
                Err(Trouble::UnknownChecksum(refused)) => {
                    self.target.quirks().learn_refused_sum(refused);
                    self.active.reset();
                    self.drop_upload(false).await;
                }
                Err(Trouble::Again(failure)) if attempts == 1 => {
                    attempts += 1;
                    self.again = true;
                    self.active.reset();
                    self.drop_upload(false).await;
                    match self.look_again(failure).await {
                        Ok(()) => {}
                        Err(Stopped::Cancelled) => return None,
                        Err(Stopped::Failed(failure)) => break Err(failure),
                    }
                }
                // Refused because it is there: that much is known.
                Err(Trouble::ExistsUnseen(_)) if self.policy.if_exists == IfExists::Skip => {
                    self.drop_upload(false).await;
                    break Ok(Copy::found(State::Skipped, Method::None, &ObjectMeta::default(), Verified::No));
                }
                Err(Trouble::Again(failure) | Trouble::Failed(failure) | Trouble::ExistsUnseen(failure)) => {
                    // What stops the whole job is told at once, so that no other object runs into it meanwhile.
                    if failure.scope != Scope::Job {
                        self.drop_upload(false).await;
                    }
                    break Err(failure);
                }
                Ok(copy) => break Ok(copy),
            }
        };
        let (copy, failure) = match end {
            Ok(copy) => (copy, None),
            Err(failure) => {
                let copy = Copy {
                    state: State::Failed,
                    method: Method::None,
                    target: Written::default(),
                    verified: Verified::No,
                };
                (copy, Some(failure))
            }
        };
        Some(Outcome {
            id: self.item.id,
            size: self.item.size,
            source_etag: self.item.etag.clone(),
            state: copy.state,
            method: copy.method,
            started_at,
            ended_at: now(),
            attempts,
            retries: self.tries.retries(),
            target_etag: Some(copy.target.etag).filter(|etag| !etag.is_empty()),
            target_version_id: copy.target.version_id,
            checksum: copy.target.checksum,
            verified: copy.verified,
            not_carried: std::mem::take(&mut self.not_carried),
            failure,
        })
    }

    async fn attempt(&mut self) -> Result<Copy, Trouble> {
        self.not_carried.clear();
        let mut looked: Option<ObjectMeta> = None;
        if self.policy.only_clean {
            self.drop_upload(false).await;
            // Best effort, but for what no other object would get through either.
            return match self.drop_stale_uploads(None).await {
                Err(Trouble::Failed(failure)) if failure.scope == Scope::Job => Err(Trouble::Failed(failure)),
                _ => Err(Trouble::Cancelled),
            };
        }
        self.there = if self.item.target_absent && !self.may_be_ours() { There::Nothing } else { There::Unknown };
        if self.item.upload.is_none() {
            if self.must_look()
                && let Some(done) = self.look_at_target(&mut looked).await?
            {
                return Ok(done);
            }
            if self.policy.resumed {
                self.drop_stale_uploads(None).await?;
            }
            let at_once =
                evidence::needs_no_look(self.item.size, &self.item.etag, self.policy.wishes, &self.policy.limits);
            self.streams_unseen = at_once && self.is_unseen();
            if self.streams() {
                if self.streams_at_once() {
                    return self.stream_at_once().await;
                }
            } else if at_once {
                return self.copy_at_once(None, looked).await;
            }
        } else if matches!(self.policy.if_exists, IfExists::Same | IfExists::Overwrite)
            && !self.target.connection().is_disk()
        {
            // The run that began the upload has looked at the target; what it saw is not on record.
            match self.look_back().await {
                Ok(LookBack::Found(target)) => self.there = There::Object(target.etag),
                Ok(LookBack::Gone) => self.there = There::Nothing,
                Ok(LookBack::Denied) => self.unreadable_target = true,
                Err(Trouble::Cancelled) => return Err(Trouble::Cancelled),
                Err(_) => {} // the write shows what is wrong; it is made without a condition
            }
            if self.is_unseen() && self.target.quirks().refuses_conditions() {
                return Err(self.cannot_be_seen("HeadObject"));
            }
        }
        let source = match looked {
            Some(source) => source,
            None => self.head_source().await?,
        };
        if self.streams() {
            if source.archived {
                return Err(self.archived(&source));
            }
            return self.stream_in_parts(&source).await;
        }
        match self.route(&source).await? {
            Route::Copy(_) if self.is_unseen() => {
                self.streams_unseen = true;
                self.stream_in_parts(&source).await
            }
            Route::Copy(checksum) => {
                self.drop_upload(false).await;
                self.copy_at_once(checksum, Some(source)).await
            }
            Route::Parts(route) => self.copy_in_parts(route, &source).await,
        }
    }

    /// After a try that met another source than was listed: take the source as it is now.
    async fn look_again(&mut self, failure: ObjectFailure) -> Result<(), Stopped> {
        if self.item.version_id.is_some() && failure.class == FailureClass::SourceChanged {
            // A version never changes: looking again would find the same.
            return Err(Stopped::Failed(failure));
        }
        let (bucket, key) = (&self.policy.source_bucket, &self.item.source_key);
        let version = self.item.version_id.as_deref();
        let head = self
            .source
            .call(RequestSpec::read("HeadObject", bucket), &self.tries, async |store| {
                store.head(bucket, key, version, None).await
            })
            .await;
        match head {
            Ok(now) => {
                (self.item.size, self.item.etag) = (now.size, now.etag);
                Ok(())
            }
            Err(RequestError::Failed(error)) if error.class == ErrorClass::NotFound => {
                Err(Stopped::Failed(self.source_changed(&error, "it was deleted while it was copied")))
            }
            Err(RequestError::Failed(error)) => Err(Stopped::Failed(error.into())),
            Err(RequestError::Cancelled) => Err(Stopped::Cancelled),
        }
    }

    /// The source, as texts name it.
    fn source_address(&self) -> Address<'_> {
        Address(&self.policy.source_bucket, Some(&self.item.source_key))
    }

    /// The target, as texts name it.
    fn target_address(&self) -> Address<'_> {
        Address(&self.policy.target_bucket, Some(&self.item.target_key))
    }

    fn source_changed(&self, error: &StoreError, how: &str) -> ObjectFailure {
        let message = format!(
            "{} {}: the source is not what was listed: {how} ({}). Run the same command again when the sender has finished.",
            error.operation,
            self.source_address(),
            error.code
        );
        ObjectFailure::new(FailureClass::SourceChanged, &error.code, error.operation, message)
    }

    /// Whether the target may have been written for this item before: by a run that was cut off, or by another worker while
    /// this one was held up.
    fn may_be_ours(&self) -> bool {
        self.policy.resumed || self.again
    }

    fn must_look(&self) -> bool {
        match self.policy.if_exists {
            IfExists::Overwrite => self.may_be_ours(),
            IfExists::Same => self.may_be_ours() || !self.item.target_absent,
            IfExists::Skip | IfExists::Fail => true,
        }
    }

    /// Decide by what is at the target already. None: copy. `looked` receives what was learned of the source.
    async fn look_at_target(&mut self, looked: &mut Option<ObjectMeta>) -> Result<Option<Copy>, Trouble> {
        let target = match self.ask_target().await {
            Ok(target) => target,
            // A link that is not followed, or a device: what is written there takes its place, or fails.
            Err(RequestError::Failed(error)) if error.is_of_no_object() => match self.policy.if_exists {
                IfExists::Skip => ObjectMeta::default(),
                IfExists::Fail => return Err(self.target_exists()),
                IfExists::Same | IfExists::Overwrite => return Ok(None),
            },
            Err(RequestError::Failed(error)) if error.class == ErrorClass::NotFound => {
                self.there = There::Nothing;
                return Ok(None);
            }
            // Write-only access. What is there stays: the write is to replace nothing, unless that was asked for.
            Err(RequestError::Failed(error)) if error.is_denied() => {
                self.unreadable_target = true;
                return if self.is_unseen() && self.target.quirks().refuses_conditions() {
                    Err(self.cannot_be_seen(error.operation))
                } else {
                    Ok(None)
                };
            }
            Err(other) => return Err(other.into()),
        };
        self.there = There::Object(target.etag.clone());
        if self.policy.if_exists == IfExists::Skip {
            return Ok(Some(Copy::found(State::Skipped, Method::None, &target, Verified::No)));
        }
        let opaque_etag = self.has_disk();
        let listed = Side { size: Some(self.item.size), etag: &self.item.etag, opaque_etag, checksum: None };
        let mut verdict = compare(listed, Side::from(&target), false);
        // What the listing tells is not enough to compare checksums, nor times.
        let hopeless = self.item.size != target.size || target.checksum.is_none() && !opaque_etag;
        if !matches!(verdict, Verdict::Proven(_)) && !hopeless {
            let source = self.head_source().await?;
            // A time says nothing of what an earlier run of ours has written: it may have been cut off.
            let trust_times = self.policy.verify == Verify::Auto && !self.may_be_ours();
            verdict = self.compare_sides(&source, &target, false, trust_times).await?;
            *looked = Some(source);
        }
        if matches!(verdict, Verdict::Proven(_)) && self.policy.verify == Verify::Content {
            let there = Written { etag: target.etag.clone(), ..Written::default() };
            verdict = match self.compare_content(&there).await? {
                Compared::Equal => Verdict::Proven(Verified::Content),
                Compared::Differs(how) => Verdict::Differs(how),
                Compared::Gone => return Ok(None),
            };
        }
        // Written by an earlier try, as far as the service's clock can tell.
        let ours = self.may_be_ours() && self.is_young(target.last_modified);
        match (verdict, self.policy.if_exists) {
            (Verdict::Proven(verified), IfExists::Same) => {
                Ok(Some(Copy::found(State::Skipped, Method::None, &target, verified)))
            }
            (Verdict::Proven(verified), IfExists::Overwrite) if ours => {
                Ok(Some(Copy::found(State::Skipped, Method::None, &target, verified)))
            }
            (Verdict::Proven(verified), IfExists::Fail) if ours => {
                Ok(Some(Copy::found(State::Done, Method::None, &target, verified)))
            }
            (_, IfExists::Fail) => Err(self.target_exists()),
            _ => Ok(None),
        }
    }

    fn target_exists(&self) -> Trouble {
        let message = format!(
            "{} exists, and --if-exists fail was asked for. Choose same, skip or overwrite, or another target.",
            self.target_address()
        );
        Trouble::Failed(ObjectFailure::new(FailureClass::Exists, "TargetExists", "HeadObject", message))
    }

    /// Whether something may be at the target that cannot be compared, and must not be replaced.
    pub(crate) fn is_unseen(&self) -> bool {
        self.unreadable_target && self.policy.if_exists != IfExists::Overwrite
    }

    /// Something may be at a target that these credentials cannot read, and the service would replace it.
    fn cannot_be_seen(&self, operation: &'static str) -> Trouble {
        let message = format!(
            "{} may exist: these credentials may not look, and the storage refuses writes that replace nothing. Nothing was written. Give them s3:GetObject on the target, or choose --if-exists overwrite.",
            self.target_address()
        );
        Trouble::Failed(ObjectFailure::new(FailureClass::Exists, "TargetUnreadable", operation, message))
    }

    /// Something is at a target that these credentials cannot read.
    pub(crate) fn cannot_be_compared(&self, operation: &'static str) -> Trouble {
        if self.policy.if_exists == IfExists::Fail {
            return self.target_exists();
        }
        let message = format!(
            "{} exists, and cannot be compared: these credentials may not read it. It was not replaced. Give them s3:GetObject on the target, or choose --if-exists overwrite (a run that was cut off may have written it).",
            self.target_address()
        );
        Trouble::ExistsUnseen(ObjectFailure::new(FailureClass::Exists, "TargetExists", operation, message))
    }

    /// Whether something was made since the transfer was born, by the service's clock.
    pub(crate) fn is_young(&self, at: f64) -> bool {
        at >= self.policy.since - CLOCK_SLACK
    }

    /// Facts about the source, which must be what was listed.
    async fn head_source(&self) -> Result<ObjectMeta, Trouble> {
        let (bucket, key) = (&self.policy.source_bucket, &self.item.source_key);
        let version = self.item.version_id.as_deref();
        let head = self
            .source
            .call(RequestSpec::read("HeadObject", bucket), &self.tries, async |store| {
                store.head(bucket, key, version, None).await
            })
            .await;
        match head {
            Ok(source) if source.etag == self.item.etag && source.size == self.item.size => Ok(source),
            Ok(source) => {
                let error = StoreError::new("HeadObject", bucket, Some(key), "SourceChanged", None);
                let how = format!(
                    "ETag {} ({} bytes) became {} ({} bytes)",
                    self.item.etag, self.item.size, source.etag, source.size
                );
                Err(Trouble::Again(self.source_changed(&error, &how)))
            }
            Err(RequestError::Failed(error)) if error.class == ErrorClass::NotFound => {
                Err(Trouble::Failed(self.source_changed(&error, "it is gone")))
            }
            Err(other) => Err(other.into()),
        }
    }

    /// Facts about the target, as far as the credentials may read it.
    async fn look_back(&self) -> Result<LookBack, Trouble> {
        match self.ask_target().await {
            Ok(target) => Ok(LookBack::Found(Box::new(target))),
            Err(RequestError::Failed(error)) if error.class == ErrorClass::NotFound => Ok(LookBack::Gone),
            Err(RequestError::Failed(error)) if error.is_denied() => Ok(LookBack::Denied),
            Err(other) => Err(other.into()),
        }
    }

    async fn ask_target(&self) -> Result<ObjectMeta, RequestError> {
        let (bucket, key) = (&self.policy.target_bucket, &self.item.target_key);
        self.target
            .call(RequestSpec::read("HeadObject", bucket), &self.tries, async |store| {
                store.head(bucket, key, None, None).await
            })
            .await
    }

    async fn route(&self, source: &ObjectMeta) -> Result<Route, Trouble> {
        if source.archived {
            return Err(self.archived(source));
        }
        let (wishes, limits) = (self.policy.wishes, &self.policy.limits);
        let mut source = Cow::Borrowed(source);
        let kept = source.checksum.as_ref().map(|sum| sum.algorithm);
        if self.target.quirks().useless_part_checksums() && !evidence::fits_one_copy(source.size, wishes, limits) {
            // An object made of parts there has no checksum to compare: the boundaries of the source's parts prove more.
            source.to_mut().checksum = None;
        }
        let first_part = if wishes.part_size.is_none() { self.first_part(&source).await? } else { None };
        match evidence::choose(&source, first_part, wishes, limits).map_err(|error| self.too_large(&error))? {
            Route::Copy(_) => Ok(Route::Copy(kept)),
            parts @ Route::Parts(_) => Ok(parts),
        }
    }

    fn archived(&self, source: &ObjectMeta) -> Trouble {
        let (bucket, key) = (&self.policy.source_bucket, &self.item.source_key);
        let error = StoreError::new("HeadObject", bucket, Some(key), "InvalidObjectState", None)
            .with_message(format!("storage class {}", source.storage_class.as_deref().unwrap_or("archive")));
        Trouble::Failed(error.into())
    }

    fn too_large(&self, error: &PlanError) -> Trouble {
        let message = format!("{}: {error}. Choose another --part-size, or leave it out.", self.source_address());
        Trouble::Failed(ObjectFailure::new(
            FailureClass::Store(ErrorClass::Object),
            "EntityTooLarge",
            "CreateMultipartUpload",
            message,
        ))
    }

    /// The length of the source's first part, where its evidence rests on the boundaries of its parts.
    async fn first_part(&self, source: &ObjectMeta) -> Result<Option<u64>, Trouble> {
        let (bucket, key) = (&self.policy.source_bucket, &self.item.source_key);
        self.first_part_of(self.source, bucket, key, self.item.version_id.as_deref(), source).await
    }

    /// The same of any side.
    async fn first_part_of(
        &self,
        side: &RetryingClient,
        bucket: &str,
        key: &str,
        version: Option<&str>,
        meta: &ObjectMeta,
    ) -> Result<Option<u64>, Trouble> {
        let by_boundaries = etag_parts(&meta.etag).is_some()
            && !meta.opaque_etag
            && meta.checksum.as_ref().is_none_or(|sum| sum.kind == ChecksumKind::Composite);
        if !by_boundaries {
            return Ok(None);
        }
        let part = side
            .call(RequestSpec::read("HeadObject", bucket), &self.tries, async |store| {
                store.head(bucket, key, version, Some(1)).await
            })
            .await;
        match part {
            Ok(part) if part.etag == meta.etag => Ok(Some(part.size)),
            // A service that cannot tell parts leaves us without boundaries, which is no failure.
            Ok(_) | Err(RequestError::Failed(_)) => Ok(None),
            Err(other) => Err(other.into()),
        }
    }

    /// The source, pinned to what was listed.
    pub(crate) fn pinned(&self) -> PinnedObject {
        PinnedObject {
            bucket: self.policy.source_bucket.clone(),
            key: self.item.source_key.clone(),
            version_id: self.item.version_id.clone(),
            if_match: Some(self.item.etag.clone()).filter(|etag| !etag.is_empty()),
            size: self.item.size,
        }
    }

    /// What a refused copy means: the condition is ours, and it is about the source.
    pub(crate) fn copy_trouble(&self, error: StoreError) -> Trouble {
        match error.class {
            ErrorClass::Precondition => {
                Trouble::Again(self.source_changed(&error, "it was overwritten while it was copied"))
            }
            ErrorClass::NotFound if matches!(error.code.as_str(), "NoSuchKey" | "NoSuchVersion" | "NotFound") => {
                Trouble::Failed(self.source_changed(&error, "it is gone"))
            }
            _ => Trouble::Failed(error.into()),
        }
    }

    async fn copy_at_once(
        &mut self,
        checksum: Option<seqferry_store::ChecksumAlgorithm>,
        source: Option<ObjectMeta>,
    ) -> Result<Copy, Trouble> {
        let pinned = self.pinned();
        let (bucket, key, class) =
            (&self.policy.target_bucket, &self.item.target_key, self.policy.storage_class.as_deref());
        let written = self
            .target
            .call(RequestSpec::write("CopyObject", bucket).bytes(self.item.size), &self.tries, async |store| {
                store.copy(&pinned, bucket, key, class, checksum).await
            })
            .await;
        let written = match written {
            Ok(written) => written,
            Err(RequestError::Failed(error)) => return Err(self.refused_copy(error).await),
            Err(RequestError::Cancelled) => return Err(Trouble::Cancelled),
        };
        self.active.add(self.item.size);
        // CopyObject makes a single-part object: its ETag can equal only that of a source made at once.
        self.verify(Method::Copy, written, source, false).await
    }

    /// Prove the target that was just written, or remove it.
    pub(crate) async fn verify(
        &mut self,
        method: Method,
        written: Written,
        source: Option<ObjectMeta>,
        same_boundaries: bool,
    ) -> Result<Copy, Trouble> {
        let etag = written.etag.clone();
        let proven = self.prove(method, written, source, same_boundaries).await;
        self.without_strays(proven, &etag).await
    }

    /// What was proven; when the source turned out to be no more, the target that was written with this `ETag` is removed.
    async fn without_strays(&self, proven: Result<Copy, Trouble>, etag: &str) -> Result<Copy, Trouble> {
        if let Err(Trouble::Again(failure) | Trouble::Failed(failure)) = &proven
            && failure.class == FailureClass::SourceChanged
        {
            // Made of a source that is no more, perhaps of two of them.
            self.remove_ours(etag).await;
        }
        proven
    }

    async fn prove(
        &mut self,
        method: Method,
        mut written: Written,
        mut source: Option<ObjectMeta>,
        same_boundaries: bool,
    ) -> Result<Copy, Trouble> {
        let listed = Side { size: None, etag: &self.item.etag, opaque_etag: false, checksum: None };
        let answered =
            Side { size: None, etag: &written.etag, opaque_etag: false, checksum: written.checksum.as_ref() };
        let mut verdict = compare(source.as_ref().map_or(listed, Side::from), answered, same_boundaries);
        if !matches!(verdict, Verdict::Proven(_) | Verdict::Differs(_)) {
            // The answers do not settle it: look at both sides.
            if source.is_none() {
                source = Some(self.head_source().await?);
            }
            verdict = match (self.look_back().await?, source.as_ref()) {
                (LookBack::Gone, _) => return Err(self.target_changed("is gone")),
                (LookBack::Found(target), _) if target.etag != written.etag => {
                    return Err(self.target_changed("holds something else"));
                }
                (LookBack::Found(target), Some(source)) => {
                    let verdict = self.compare_sides(source, &target, same_boundaries, false).await?;
                    written.checksum = target.checksum.or(written.checksum);
                    verdict
                }
                (LookBack::Denied, Some(source)) => compare(Side::from(source), answered, same_boundaries),
                (_, None) => Verdict::Unknown,
            };
        }
        self.conclude(method, verdict, written).await
    }

    /// What a verdict means to the policy: done, a mismatch, or both sides must be read.
    async fn conclude(&mut self, method: Method, verdict: Verdict, written: Written) -> Result<Copy, Trouble> {
        let must_read = match (&verdict, self.policy.verify) {
            (Verdict::Differs(_), _) => false,
            (Verdict::Doubtful(_), _) | (_, Verify::Content) | (Verdict::Unknown, Verify::Checksum) => true,
            (Verdict::Proven(_) | Verdict::Unknown, _) => false,
        };
        let verified = if must_read {
            match self.compare_content(&written).await? {
                Compared::Equal => Verified::Content,
                Compared::Differs(how) => return Err(self.mismatch(method, &written, &how).await),
                Compared::Gone => return Err(self.target_changed("holds something else")),
            }
        } else {
            match verdict {
                Verdict::Proven(verified) => verified,
                Verdict::Differs(how) => return Err(self.mismatch(method, &written, &how).await),
                Verdict::Doubtful(_) | Verdict::Unknown => {
                    // Nothing but the pin says that all parts are of one version, and some services ignore it.
                    self.head_source().await?;
                    Verified::Size
                }
            }
        };
        Ok(Copy { state: State::Done, method, target: written, verified })
    }

    /// What we wrote is not there any more: whatever is there now is not ours to judge, nor to remove.
    fn target_changed(&self, now: &str) -> Trouble {
        let message = format!(
            "{} was written, and now {now}: somebody else writes or removes objects at the target. Run the same command again when that has stopped.",
            self.target_address()
        );
        Trouble::Again(ObjectFailure::new(FailureClass::Mismatch, "TargetChanged", "HeadObject", message))
    }

    /// The target is proven wrong: it must not look whole. Bytes that passed through here may have been spoiled on the way, and
    /// are sent once more.
    async fn mismatch(&self, method: Method, written: &Written, how: &str) -> Trouble {
        let left = self.remove_ours(&written.etag).await;
        let message = format!(
            "{} is not what {} is: {how}. {left} Run the same command again; if it happens again, report it to the storage's operator.",
            self.target_address(),
            self.source_address()
        );
        let failure = ObjectFailure::new(FailureClass::Mismatch, "ContentMismatch", "Verify", message);
        if method == Method::Stream { Trouble::Again(failure) } else { Trouble::Failed(failure) }
    }

    /// Remove the target, but only while it is what we wrote. Says what became of it.
    async fn remove_ours(&self, etag: &str) -> &'static str {
        let (bucket, key) = (&self.policy.target_bucket, &self.item.target_key);
        let target = self.target.uncancelled();
        let there = target
            .call(RequestSpec::read("HeadObject", bucket), &self.tries, async |store| {
                store.head(bucket, key, None, None).await
            })
            .await;
        match there {
            Ok(now) if now.etag == etag => {
                let removed = target
                    .call(RequestSpec::write("DeleteObject", bucket), &self.tries, async |store| {
                        store.delete(bucket, key).await
                    })
                    .await;
                match removed {
                    Ok(()) => "The target was removed.",
                    Err(_) => "The target could NOT be removed: do not use it.",
                }
            }
            Ok(_) => "Somebody else has replaced the target meanwhile.",
            Err(RequestError::Failed(error)) if error.class == ErrorClass::NotFound => "The target is gone.",
            Err(_) => "The target could NOT be removed: do not use it.",
        }
    }

    pub(crate) fn note(&mut self, what: &str, error: &StoreError) {
        self.not_carried.push(format!("{what}: {} ({}). {}", error.code, error.operation, error.advice()));
    }
}
