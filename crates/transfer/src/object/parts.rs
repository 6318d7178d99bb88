//! Copying in parts, so that a crash costs only the parts in flight.
//!
//! The upload id is on disk before the first part starts. After a crash `ListParts` says which parts are there; those of the
//! right size stay, the others are copied. An upload that is gone was completed by the run that was cut off (the target
//! then is what we meant to write) or aborted by somebody (then the object starts over). An upload that was created but never
//! recorded has no parts, by which it is known and dropped.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock, PoisonError};
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt as _};
use futures::stream::{FuturesUnordered, StreamExt as _};
use seqferry_client::quirks::Trial;
use seqferry_client::{RequestError, RequestSpec, RetryContext, RetryingClient};
use seqferry_store::budget::RequestPermit;
use seqferry_store::error::classify::code::LEASE_LAPSED;
use seqferry_store::{
    Address, CompleteUpload, CompletedPart, CreateUpload, ErrorClass, ObjectMeta, PartInfo, Range, StoreError, Written,
};
use tokio::task::JoinError;

use super::md5::MD5;
use super::{Copy, Journal, LookBack, Object, Trouble, Verify};
use crate::evidence::{PartsRoute, Verdict};
use crate::outcome::{FailureClass, Method, ObjectFailure};
use crate::plan::{PartPlan, etag_parts};

/// Parts of one object that wait for the budget: enough for its turns, while the others cost nothing. How many are under way
/// is the budget's to decide.
const AHEAD: usize = 8;
/// How long parts that were sent are waited for before the last abort.
const LINGER: Duration = Duration::from_mins(1);
/// How long is looked for uploads that nobody knows of, when creating one has failed for good.
const LOOK_AFTER: Duration = Duration::from_secs(15);
/// How often an upload is aborted until the service has forgotten it.
const ABORTS: usize = 10;

pub(super) type Done = BTreeMap<u32, CompletedPart>;

/// Where an object in parts stands.
pub(super) enum Opened {
    /// An upload is open and recorded, and holds these parts.
    Upload(String, Done),
    /// A run that was cut off has completed it.
    Completed(Written),
}

/// A part that may be copied now.
struct Reserved {
    number: u32,
    range: Range,
    permit: RequestPermit,
}

impl<'a, J: Journal> Object<'a, J> {
    pub(super) async fn copy_in_parts(&mut self, mut route: PartsRoute, source: &ObjectMeta) -> Result<Copy, Trouble> {
        let trial = self.try_part_checksums(&route, source).await?;
        if self.target.quirks().useless_part_checksums() {
            (route.checksum, route.whole) = (None, None);
        }
        let recorded = self.item.upload.as_ref().map(|(upload_id, _)| upload_id.clone());
        let (upload_id, done) = match self.open_upload(&mut route, source).await? {
            Opened::Upload(upload_id, done) => (upload_id, done),
            Opened::Completed(written) => {
                return self.verify(Method::Multipart, written, Some(source.clone()), route.same_boundaries).await;
            }
        };
        let is_recorded = recorded.as_ref() == Some(&upload_id);
        // An earlier run has created it, perhaps with an algorithm, before it was known what comes of that. Without one it
        // could not be completed then; while it holds nothing, a new one costs nothing.
        let outdated = is_recorded
            && self.target.quirks().useless_part_checksums()
            && (done.is_empty() || done.values().any(|part| part.checksum.is_some()));
        if is_recorded && !done.is_empty() && done.values().all(|part| part.checksum.is_none()) {
            // Created without an algorithm, or by a service that does not list its checksums: none is to be sent with Complete.
            (route.checksum, route.whole) = (None, None);
        }
        if outdated || done.values().any(|part| is_wrong(part.checksum.as_deref(), source, route.plan)) {
            return Err(Trouble::UselessPartChecksums);
        }
        // One that was perhaps created without an algorithm shows nothing: another object has to find out.
        let trial = trial.filter(|_| !is_recorded);
        let copied: u64 = done.keys().filter_map(|n| route.plan.range(*n)).map(|range| range.len()).sum();
        self.active.add(copied);
        let checked = route.checksum.is_some() || is_recorded;
        let done = self.copy_missing(&route, source, (&upload_id, checked), done, trial).await?;
        let written = self.complete(&route, source, &upload_id, done).await?;
        self.item.upload = None;
        self.see_off(upload_id);
        self.verify(Method::Multipart, written, Some(source.clone()), route.same_boundaries).await
    }

    /// The upload to go on with: the recorded one, whose part size wins over the route's, or a new one.
    pub(super) async fn open_upload(&mut self, route: &mut PartsRoute, source: &ObjectMeta) -> Result<Opened, Trouble> {
        if let Some((upload_id, part_size)) = self.item.upload.clone() {
            let plan = PartPlan { size: self.item.size, part_size: part_size.max(1) };
            if let Some(done) = self.parts_there(&upload_id, plan).await? {
                route.same_boundaries &= route.plan.part_size == part_size;
                route.plan = plan;
                self.note_uncarried(source).await?;
                return Ok(Opened::Upload(upload_id, done));
            }
            self.item.upload = None;
            if let Some(written) = self.completed_before(route, source, part_size).await? {
                self.note_uncarried(source).await?;
                return Ok(Opened::Completed(written));
            }
            // The run that lost this upload may have begun another and died before that was recorded.
            if self.policy.resumed {
                self.drop_stale_uploads(None).await?;
            }
        }
        Ok(Opened::Upload(self.begin(route, source).await?, Done::new()))
    }

    /// Whether this object has to find out if part checksums are of use, so that not every object begins twice where they are
    /// not.
    async fn try_part_checksums(&self, route: &PartsRoute, source: &ObjectMeta) -> Result<Option<Trial<'a>>, Trouble> {
        let Some((algorithm, _)) = route.checksum.filter(|_| route.plan.count() > 1) else { return Ok(None) };
        // Only then can a part's checksum be taken for the whole's.
        let alike = source.checksum.as_ref().is_some_and(|sum| sum.algorithm == algorithm);
        let target = self.target;
        tokio::select! {
            biased;
            () = target.cancel().cancelled() => Err(Trouble::Cancelled),
            trial = target.quirks().try_part_checksums(alike) => Ok(trial),
        }
    }

    /// Create the upload and have it recorded.
    async fn begin(&mut self, route: &mut PartsRoute, source: &ObjectMeta) -> Result<String, Trouble> {
        let tags = self.note_uncarried(source).await?;
        let mut attributes = self.carried(source);
        if self.keeps_md5() {
            attributes.metadata.insert(MD5.to_owned(), self.read_md5().await?);
        }
        let request = CreateUpload {
            bucket: self.policy.target_bucket.clone(),
            key: self.item.target_key.clone(),
            attributes,
            tags,
            storage_class: self.policy.storage_class.clone(),
            checksum: route.checksum,
            part_size: route.plan.part_size,
            size: route.plan.size,
        };
        let again = self.tries.retries();
        let created = self
            .target
            .call(RequestSpec::write("CreateMultipartUpload", &request.bucket), &self.tries, |store| {
                let (request, created) = (request.clone(), Arc::clone(&self.created));
                let sent = self.under_way.spawn(async move {
                    let upload_id = store.create_upload(&request).await?;
                    created.lock().unwrap_or_else(PoisonError::into_inner).push(upload_id.clone());
                    Ok(upload_id)
                });
                ended(sent, "CreateMultipartUpload")
            })
            .await;
        if matches!(&created, Err(RequestError::Failed(_))) && self.tries.retries() > again {
            // What was created by a try whose answer was lost is known to nobody. Best effort: the service may be out of reach.
            let _looked = tokio::time::timeout(LOOK_AFTER, self.drop_stale_uploads(None)).await;
        }
        let upload_id = match created {
            Ok(upload_id) => upload_id,
            Err(RequestError::Failed(error)) if self.streams() => {
                return Err(self.refused_write(error, route.checksum.map(|(algorithm, _)| algorithm)));
            }
            Err(other) => return Err(other.into()),
        };
        self.created.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.item.upload = Some((upload_id.clone(), route.plan.part_size));
        if self.tries.retries() > again {
            // A try whose answer was lost may have created another one.
            self.drop_stale_uploads(Some(&upload_id)).await?;
        }
        if self.journal.begun(self.item.id, &upload_id, route.plan.part_size).await.is_some() {
            return Ok(upload_id);
        }
        // The job was stopped, perhaps since another worker has these objects: then nobody but us knows of this upload.
        self.drop_upload(true).await;
        Err(Trouble::Cancelled)
    }

    /// Note what cannot be carried of the source to a target that is written anew; the tags that can.
    pub(super) async fn note_uncarried(&mut self, source: &ObjectMeta) -> Result<Vec<(String, String)>, Trouble> {
        if source.missing_metadata > 0 {
            self.not_carried
                .push(format!("{} metadata entries that the service cannot put into headers", source.missing_metadata));
        }
        // Files have no tags.
        if source.tag_count == Some(0) || self.source.connection().is_disk() {
            return Ok(Vec::new());
        }
        if self.target.connection().is_disk() {
            self.not_carried.extend(source.tag_count.map(|count| format!("{count} tags, which files do not have")));
            return Ok(Vec::new());
        }
        if source.tag_count.is_none() && self.source.quirks().has_no_tags() {
            return Ok(Vec::new());
        }
        let (bucket, key) = (&self.policy.source_bucket, &self.item.source_key);
        let version = self.item.version_id.as_deref();
        match self
            .source
            .call(RequestSpec::read("GetObjectTagging", bucket), &self.tries, async |store| {
                store.get_tags(bucket, key, version).await
            })
            .await
        {
            Ok(tags) => Ok(tags),
            // A service without tags has none to carry.
            Err(RequestError::Failed(error)) if error.class == ErrorClass::Capability && source.tag_count.is_none() => {
                if self.source.quirks().learn_no_tags() {
                    self.source.note(format!(
                        "s3://{bucket}: the endpoint has no tags of objects ({} {}): none are carried.",
                        error.operation, error.code
                    ));
                }
                Ok(Vec::new())
            }
            // The bytes can be had; the copy says what it lacks.
            Err(RequestError::Failed(error)) if matches!(error.class, ErrorClass::Person | ErrorClass::Capability) => {
                let tags =
                    source.tag_count.map_or("tags, if there are any".to_owned(), |count| format!("{count} tags"));
                self.note(&tags, &error);
                Ok(Vec::new())
            }
            Err(other) => Err(other.into()),
        }
    }

    /// The parts that a recorded upload holds, as far as they fit the plan. None: there is no such upload.
    async fn parts_there(&self, upload_id: &str, plan: PartPlan) -> Result<Option<Done>, Trouble> {
        let parts =
            match list_parts(self.target, &self.policy.target_bucket, &self.item.target_key, upload_id, &self.tries)
                .await
            {
                Ok(parts) => parts,
                Err(RequestError::Failed(error)) if error.class == ErrorClass::NotFound => return Ok(None),
                // Write-only access: nobody can say what the upload holds, so that the object starts over.
                Err(RequestError::Failed(error)) if error.is_denied() => {
                    abort(self.target, &self.policy.target_bucket, &self.item.target_key, upload_id, &self.tries).await;
                    return Ok(None);
                }
                Err(other) => return Err(other.into()),
            };
        let fits = |part: &PartInfo| plan.range(part.number).is_some_and(|range| range.len() == part.size);
        let done = parts
            .into_iter()
            .filter(fits)
            .map(|part| (part.number, CompletedPart { number: part.number, etag: part.etag, checksum: part.checksum }));
        Ok(Some(done.collect()))
    }

    /// Copy every part that is not done; the first of them alone where the service is on trial. The upload may have been created
    /// with a checksum where `checked` says so.
    async fn copy_missing(
        &self,
        route: &PartsRoute,
        source: &ObjectMeta,
        (upload_id, checked): (&str, bool),
        mut done: Done,
        trial: Option<Trial<'_>>,
    ) -> Result<Done, Trouble> {
        let plan = route.plan;
        let missing: Vec<u32> = (1..=plan.count()).filter(|number| !done.contains_key(number)).collect();
        let mut missing = missing.into_iter();
        if let Some(trial) = trial
            && let Some(number) = missing.next()
        {
            match self.copy_part(upload_id, checked, self.reserve_part(plan, number).await?).await {
                Ok(part) if !is_wrong(part.checksum.as_deref(), source, plan) => {
                    trial.found(false);
                    done.insert(number, part);
                }
                Ok(_) | Err(Trouble::UselessPartChecksums) => {
                    trial.found(true);
                    return Err(Trouble::UselessPartChecksums);
                }
                Err(other) => return Err(other),
            }
        }
        let mut next: FuturesUnordered<BoxFuture<'_, Result<Reserved, Trouble>>> = FuturesUnordered::new();
        let mut parts = FuturesUnordered::new();
        loop {
            while next.len() < AHEAD
                && let Some(number) = missing.next()
            {
                next.push(self.reserve_part(plan, number).boxed());
            }
            tokio::select! {
                Some(reserved) = next.next() => {
                    parts.push(self.copy_part(upload_id, checked, reserved?));
                }
                Some(part) = parts.next() => {
                    // The first failure drops the other parts under way.
                    let part: CompletedPart = part?;
                    // Without an algorithm of ours there is nothing more to be learned.
                    if route.checksum.is_some() && is_wrong(part.checksum.as_deref(), source, plan) {
                        return Err(Trouble::UselessPartChecksums);
                    }
                    done.insert(part.number, part);
                }
                else => return Ok(done),
            }
        }
    }

    /// Wait until this part may be copied.
    async fn reserve_part(&self, plan: PartPlan, number: u32) -> Result<Reserved, Trouble> {
        let Some(range) = plan.range(number) else { return Err(Trouble::Cancelled) };
        let permit = self.target.reserve(self.part_call(range), &self.tries).await?;
        Ok(Reserved { number, range, permit })
    }

    fn part_call(&self, range: Range) -> RequestSpec<'_> {
        RequestSpec::write("UploadPartCopy", &self.policy.target_bucket).bytes(range.len())
    }

    async fn copy_part(&self, upload_id: &str, checked: bool, reserved: Reserved) -> Result<CompletedPart, Trouble> {
        let Reserved { number, range, permit } = reserved;
        // The same part twice at a time is safe where the same bytes get the same `ETag`: not known before the first answer, and all
        // parts may be under way by then.
        let safe = || self.plain_etags.load(Ordering::Relaxed) && !self.target.quirks().changing_part_etags();
        let call = self.part_call(range).hedge_if(&safe);
        let source = self.pinned();
        let (bucket, key) = (&self.policy.target_bucket, &self.item.target_key);
        // What the first answer said of this part; a second one that says something else is a lesson.
        let said = Arc::new(OnceLock::new());
        let copied = self
            .target
            .call_reserved(call, permit, &self.tries, |store| {
                let (source, bucket, key, upload_id) =
                    (source.clone(), bucket.clone(), key.clone(), upload_id.to_owned());
                let (said, connection) = (Arc::clone(&said), self.target.connection().clone());
                let sent = self.under_way.spawn(async move {
                    let copied = store.copy_part(&source, range, &bucket, &key, &upload_id, number).await?;
                    if said.get_or_init(|| copied.etag.clone()) != &copied.etag {
                        connection.quirks.learn_changing_part_etags();
                    }
                    Ok(copied)
                });
                ended(sent, "UploadPartCopy")
            })
            .await;
        match copied {
            Ok(copied) => {
                self.active.add(range.len());
                self.plain_etags.store(!copied.opaque_etag, Ordering::Relaxed);
                Ok(CompletedPart { number, etag: copied.etag, checksum: copied.checksum })
            }
            Err(RequestError::Failed(error)) if error.code == "NoSuchUpload" => {
                Err(Trouble::Again(self.upload_lost(&error)))
            }
            // The upload has a checksum, and the service computes none of what it copies.
            Err(RequestError::Failed(error)) if checked && error.is_about_checksums() => {
                if self.target.quirks().learn_useless_part_checksums() {
                    self.target.note(format!(
                        "s3://{bucket}: the endpoint takes no copies of parts into an upload with a checksum ({} {}): objects copied in parts have none there, and are proven by ETag where the parts of the source can be repeated, else by size.",
                        error.operation, error.code
                    ));
                }
                Err(Trouble::UselessPartChecksums)
            }
            Err(RequestError::Failed(error)) => Err(self.refused_copy(error).await),
            Err(RequestError::Cancelled) => Err(Trouble::Cancelled),
        }
    }

    pub(super) fn upload_lost(&self, error: &StoreError) -> ObjectFailure {
        let message = format!(
            "{} {}: the multipart upload was aborted by somebody else ({}), for example by a lifecycle rule. Run the same command again.",
            error.operation,
            self.target_address(),
            error.code
        );
        ObjectFailure::new(FailureClass::Store(ErrorClass::Retry), &error.code, error.operation, message)
    }

    pub(super) async fn complete(
        &mut self,
        route: &PartsRoute,
        source: &ObjectMeta,
        upload_id: &str,
        done: Done,
    ) -> Result<Written, Trouble> {
        let mut request = CompleteUpload {
            bucket: self.policy.target_bucket.clone(),
            key: self.item.target_key.clone(),
            upload_id: upload_id.to_owned(),
            parts: done.into_values().collect(),
            size: if self.target.quirks().refuses_sizes() { 0 } else { self.item.size },
            checksum: route.checksum.map(|(algorithm, _)| algorithm),
            whole: route.whole.clone(),
            if_absent: self.if_absent(),
            if_match: self.if_match(),
        };
        let again = self.tries.retries();
        let mut completed = self.send_complete(&request).await;
        if request.size > 0
            && matches!(&completed, Err(RequestError::Failed(error)) if error.class == ErrorClass::Capability)
        {
            // Perhaps for the size, which only checks what the parts say as well.
            request.size = 0;
            completed = self.send_complete(&request).await;
            if completed.is_ok() {
                self.target.quirks().learn_refused_sizes();
            }
        }
        match completed {
            Ok(written) => Ok(written),
            // A reply was lost: the try before has done it (or somebody aborted the upload).
            Err(RequestError::Failed(error)) if error.code == "NoSuchUpload" => {
                self.item.upload = None;
                match self.completed_before(route, source, route.plan.part_size).await? {
                    Some(written) => Ok(written),
                    None => Err(Trouble::Again(self.upload_lost(&error))),
                }
            }
            Err(RequestError::Failed(error))
                if (request.if_absent || request.if_match.is_some())
                    && let Some(trouble) = self.refused_condition(&error, request.if_match.is_some()) =>
            {
                // A try whose answer was lost may have made it.
                let lost = matches!(trouble, Trouble::Again(_)) && self.tries.retries() > again;
                if lost && let Some(written) = self.completed_before(route, source, route.plan.part_size).await? {
                    self.drop_upload(false).await;
                    return Ok(written);
                }
                Err(trouble)
            }
            // Some services want part checksums that they never told.
            Err(RequestError::Failed(error))
                if route.checksum.is_some()
                    && request.parts.iter().any(|part| part.checksum.is_none())
                    && matches!(error.code.as_str(), "InvalidPart" | "InvalidRequest") =>
            {
                Err(Trouble::UselessPartChecksums)
            }
            // The service and we disagree about a part: worth one more try from the first.
            Err(RequestError::Failed(error)) if matches!(error.code.as_str(), "InvalidPart" | "InvalidPartOrder") => {
                Err(Trouble::Again(error.into()))
            }
            // The service has put the parts together and found other bytes than the source's checksum promises.
            Err(RequestError::Failed(error)) if route.whole.is_some() && error.code == "BadDigest" => {
                let message = format!(
                    "{error}: the parts do not add up to the source's checksum, so the service refused to make the object. Run the same command again."
                );
                Err(Trouble::Again(ObjectFailure::new(
                    FailureClass::Mismatch,
                    "ContentMismatch",
                    error.operation,
                    message,
                )))
            }
            Err(other) => Err(other.into()),
        }
    }

    async fn send_complete(&self, request: &CompleteUpload) -> Result<Written, RequestError> {
        let call = RequestSpec::write("CompleteMultipartUpload", &request.bucket);
        self.target.call(call, &self.tries, async |store| store.complete_upload(request).await).await
    }

    /// After an upload turned out to be gone: the target, when it is what the upload was meant to become.
    async fn completed_before(
        &self,
        route: &PartsRoute,
        source: &ObjectMeta,
        part_size: u64,
    ) -> Result<Option<Written>, Trouble> {
        let LookBack::Found(target) = self.look_back().await? else { return Ok(None) };
        let ours = match self.compare_sides(source, &target, route.same_boundaries, false).await? {
            Verdict::Proven(_) => true,
            Verdict::Differs(_) | Verdict::Doubtful(_) => false,
            // No common evidence: made of as many parts as ours, as long, and after this transfer was begun. Where more is
            // asked for it is copied again.
            Verdict::Unknown => {
                let plan = PartPlan { size: self.item.size, part_size: part_size.max(1) };
                self.policy.verify == Verify::Auto
                    && etag_parts(&target.etag) == Some(plan.count())
                    && self.is_young(target.last_modified)
            }
        };
        let ObjectMeta { etag, version_id, checksum, .. } = *target;
        Ok(ours.then_some(Written { etag, version_id, checksum }))
    }

    /// Drop the uploads that an interrupted run created but did not live to record. They hold no part, since no part starts
    /// before its upload is recorded; an upload of somebody else that is at work does hold one. `except` is in use.
    pub(super) async fn drop_stale_uploads(&self, except: Option<&str>) -> Result<(), Trouble> {
        let small = if self.streams() {
            self.streams_at_once()
        } else {
            crate::evidence::needs_no_look(self.item.size, &self.item.etag, self.policy.wishes, &self.policy.limits)
        };
        if small {
            return Ok(());
        }
        if self.target.quirks().lists_no_uploads() {
            return Ok(());
        }
        let (bucket, key) = (&self.policy.target_bucket, &self.item.target_key);
        let listed = self
            .target
            .call(RequestSpec::read("ListMultipartUploads", bucket), &self.tries, async |store| {
                store.list_uploads(bucket, key).await
            })
            .await;
        let uploads = match listed {
            Ok(uploads) => uploads,
            Err(RequestError::Failed(error)) if error.class == ErrorClass::Capability => {
                if self.target.quirks().learn_unlisted_uploads() {
                    self.target.note(format!(
                        "s3://{bucket}: the endpoint does not list open uploads ({} {}): one that was created right before a crash stays until the bucket's lifecycle rule aborts it.",
                        error.operation, error.code
                    ));
                }
                return Ok(());
            }
            // Not allowed to look: the bucket's lifecycle rule has to do it.
            Err(RequestError::Failed(error)) if matches!(error.class, ErrorClass::Person | ErrorClass::NotFound) => {
                return Ok(());
            }
            Err(other) => return Err(other.into()),
        };
        let stale = uploads.into_iter().filter(|upload| {
            upload.key == *key && self.is_young(upload.initiated) && Some(upload.upload_id.as_str()) != except
        });
        for upload in stale {
            let parts = list_parts(self.target, bucket, key, &upload.upload_id, &self.tries).await;
            if matches!(&parts, Ok(parts) if parts.is_empty()) {
                abort(self.target, bucket, key, &upload.upload_id, &self.tries).await;
            }
        }
        Ok(())
    }

    /// After an upload was completed while a part of it was under way a second time: see to it that a service which takes
    /// that part for a new upload keeps nothing of it. Best effort, and nobody waits for it.
    pub(super) fn see_off(&self, upload_id: String) {
        if self.under_way.is_empty() {
            return;
        }
        let (target, under_way) = (self.target.uncancelled(), self.under_way.clone());
        let (bucket, key) = (self.policy.target_bucket.clone(), self.item.target_key.clone());
        tokio::spawn(async move {
            under_way.close();
            let _over = tokio::time::timeout(LINGER, under_way.wait()).await;
            let tries = RetryContext::default();
            if list_parts(&target, &bucket, &key, &upload_id, &tries).await.is_ok() {
                abort(&target, &bucket, &key, &upload_id, &tries).await;
            }
        });
    }

    /// Abort this object's open uploads, if it has any: the recorded one, and one that was still being created.
    ///
    /// Once at once, so that it costs nothing more, and again when the requests that were sent have come to their end: a
    /// service may keep a part that arrives after the abort. With `to_the_end` also after the job was stopped; else a stop
    /// leaves the upload to whoever comes next.
    pub(crate) async fn drop_upload(&mut self, to_the_end: bool) {
        let recorded = self.item.upload.take();
        let target = self.target.uncancelled();
        let (bucket, key) = (&self.policy.target_bucket, &self.item.target_key);
        if !self.under_way.is_empty() {
            if let Some((upload_id, _)) = &recorded {
                let _first = target
                    .call(RequestSpec::write("AbortMultipartUpload", bucket), &self.tries, async |store| {
                        store.abort_upload(bucket, key, upload_id).await
                    })
                    .await;
            }
            self.under_way.close();
            let stopped = async {
                if to_the_end {
                    std::future::pending::<()>().await;
                }
                self.target.cancel().cancelled().await;
            };
            tokio::select! {
                _over = tokio::time::timeout(LINGER, self.under_way.wait()) => {}
                () = stopped => {
                    self.item.upload = recorded;
                    self.under_way.reopen();
                    return;
                }
            }
            self.under_way.reopen();
        }
        let mut open = std::mem::take(&mut *self.created.lock().unwrap_or_else(PoisonError::into_inner));
        open.extend(recorded.map(|(upload_id, _)| upload_id));
        for upload_id in open {
            abort(&target, bucket, key, &upload_id, &self.tries).await;
        }
    }
}

/// The answer to a request that goes on when nobody waits for it any more.
pub(super) async fn ended<T>(
    sent: impl Future<Output = Result<Result<T, StoreError>, JoinError>>,
    operation: &'static str,
) -> Result<T, StoreError> {
    // It cannot be waited for only when the runtime is being torn down.
    sent.await.unwrap_or_else(|_| Err(StoreError::new(operation, "", None, "Cancelled", None)))
}

/// Whether a part was answered for with the checksum of the whole source, which no part of several has.
fn is_wrong(part: Option<&str>, source: &ObjectMeta, plan: PartPlan) -> bool {
    let whole = source.checksum.as_ref().map(|sum| sum.value.as_str());
    plan.count() > 1 && part.is_some() && part == whole
}

/// Abort until the service has forgotten the upload: parts that were under way may survive the first time. Best effort: what
/// fails here is left to the bucket's lifecycle rule.
async fn abort(requests: &RetryingClient, bucket: &str, key: &str, upload_id: &str, tries: &RetryContext) {
    for _ in 0..ABORTS {
        match requests
            .call(RequestSpec::write("AbortMultipartUpload", bucket), tries, async |store| {
                store.abort_upload(bucket, key, upload_id).await
            })
            .await
        {
            // The next owner has it from the record, or finds it.
            Err(RequestError::Failed(error)) if error.code == LEASE_LAPSED => return,
            Err(RequestError::Failed(error)) if error.class != ErrorClass::NotFound => {
                if !requests.connection().is_disk() {
                    requests.note(format!(
                        "{error}. The upload {upload_id} of {} stays open, and its parts are paid for: abort it when that is possible again (aws s3api abort-multipart-upload), or have the bucket do so (a lifecycle rule).",
                        Address(bucket, Some(key))
                    ));
                }
                return;
            }
            Err(_) => return,
            Ok(()) => {
                if list_parts(requests, bucket, key, upload_id, tries).await.is_err() {
                    return;
                }
            }
        }
    }
}

async fn list_parts(
    requests: &RetryingClient,
    bucket: &str,
    key: &str,
    upload_id: &str,
    tries: &RetryContext,
) -> Result<Vec<PartInfo>, RequestError> {
    let mut parts = Vec::new();
    let mut after = None;
    loop {
        let page = requests
            .call(RequestSpec::read("ListParts", bucket), tries, async |store| {
                store.list_parts(bucket, key, upload_id, after).await
            })
            .await?;
        parts.extend(page.parts);
        match page.next {
            // A marker that does not move would turn for ever.
            Some(next) if Some(next) > after => after = Some(next),
            _ => return Ok(parts),
        }
    }
}
