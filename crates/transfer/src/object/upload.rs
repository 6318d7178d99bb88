//! The upload of one object in parts: begun and recorded, resumed after a crash, completed.
//!
//! Parts of the right size survive a crash; the others are sent again. An upload that is gone was completed by the
//! interrupted run (the target then is what we meant to write) or aborted from outside (then the object starts over).

use std::collections::BTreeMap;

use seqferry_client::upload::{Completion, RecordedWith};
use seqferry_client::{RecordedUpload, RequestError, RequestSpec, UploadJournal};
use seqferry_store::{
    Advice, Cause, CompleteUpload, CompletedPart, CreateUpload, ErrorClass, ObjectMeta, ObjectRef, PartInfo,
    StoreError, WrittenObject,
};

use super::md5::MD5;
use super::{AttemptError, Object, Policy, TargetAfterWrite, VerificationRule};
use crate::object_outcome::{FailureClass, ObjectFailure};
use crate::plan::PartPlan;
use crate::verification::{self, PartsRoute, Verdict, joined_etag};

/// Parts that the upload holds, by part number.
pub(super) type CompletedParts = BTreeMap<u32, CompletedPart>;

/// Result of opening the upload of an object in parts.
pub(super) enum OpenedUpload {
    /// An upload is open and recorded, and holds these parts.
    Upload(CompletedParts),
    /// A run that was cut off has completed it.
    Completed(WrittenObject),
}

/// Seconds by which the time of a change may be before it: kernels take that of the last tick of their timer.
const CLOCK_TICK: f64 = 0.05;

impl<'a, J: UploadJournal> Object<'a, J> {
    /// The upload to continue with: the recorded one, whose part size takes precedence over the route's, or a new one.
    pub(super) async fn open_upload(
        &mut self,
        route: &mut PartsRoute,
        source: &ObjectMeta,
    ) -> Result<OpenedUpload, AttemptError> {
        if self.upload.open().is_some() && self.may_have_other_bytes(source) {
            self.upload.abort(false).await;
        }
        if let Some(RecordedUpload { part_size, etag, .. }) = self.upload.open().cloned() {
            if let Some(parts) = self.upload.adopt().await? {
                let plan = PartPlan { size: self.item.size, part_size: part_size.max(1) };
                route.same_boundaries &= route.plan.part_size == part_size;
                route.plan = plan;
                self.note_uncarried(source).await?;
                self.write_options(Some(source)).await?;
                return Ok(OpenedUpload::Upload(fitting(parts, plan)));
            }
            if let Some(written) = self.find_completed(route, source, etag.as_deref()).await? {
                self.note_uncarried(source).await?;
                self.write_options(Some(source)).await?;
                return Ok(OpenedUpload::Completed(written));
            }
            // The run that lost this upload may have begun another and died before that was recorded.
            if self.policy.resumed {
                self.sweep_uploads().await?;
            }
        }
        self.begin(route, source).await?;
        Ok(OpenedUpload::Upload(CompletedParts::new()))
    }

    /// True when the parts of an upload may hold other bytes than the source has now.
    fn may_have_other_bytes(&self, source: &ObjectMeta) -> bool {
        self.source.capabilities().in_place_changes && was_rewritten(source, self.policy)
    }

    /// Creates the upload, and has it recorded.
    pub(super) async fn begin(&mut self, route: &PartsRoute, source: &ObjectMeta) -> Result<(), AttemptError> {
        let tags = self.note_uncarried(source).await?;
        let write = self.write_options(Some(source)).await?;
        let mut attributes = self.carried_attributes(source);
        if self.keeps_md5() {
            attributes.metadata.insert(MD5.to_owned(), self.read_md5().await?);
        }
        let request = CreateUpload {
            attributes,
            tags,
            storage_class: self.policy.storage_class.clone(),
            write,
            checksum: route.checksum,
            part_size: route.plan.part_size,
            size: route.plan.size,
            ..self.upload.request()
        };
        let journal = self.recording(route);
        match self.upload.begin(&request, &journal).await {
            Err(RequestError::Failed(error)) if self.streams() => {
                Err(self.explain_refused_write(error, route.checksum.map(|(algorithm, _)| algorithm)))
            }
            begun => Ok(begun?),
        }
    }

    /// The journal of the upload. No later run can use the parts of an object that is decompressed on the way: it is
    /// recorded without their size.
    fn recording(&self, route: &PartsRoute) -> RecordedWith<'a, J> {
        let part_size = if self.stored_size.is_none() { route.plan.part_size } else { 0 };
        RecordedWith { journal: self.journal, part_size }
    }

    /// Notes the properties of the source that are not carried to the target; returns the tags to set.
    pub(super) async fn note_uncarried(&mut self, source: &ObjectMeta) -> Result<Vec<(String, String)>, AttemptError> {
        if source.missing_metadata > 0 {
            self.not_carried
                .push(format!("{} metadata entries that the service cannot put into headers", source.missing_metadata));
        }
        if let Some(tags) = self.policy.properties.replaced_tags() {
            return Ok(tags.to_vec());
        }
        // Files have no tags.
        if source.tag_count == Some(0) || !self.source.capabilities().tags {
            return Ok(Vec::new());
        }
        if !self.target.capabilities().tags {
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
            .call(RequestSpec::read("GetObjectTagging", bucket), &self.retry_context, async |store| {
                store.get_tags(ObjectRef::new(bucket, key).at_version(version)).await
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
            // The bytes are readable; the outcome names what is missing.
            Err(RequestError::Failed(error)) if matches!(error.class, ErrorClass::Person | ErrorClass::Capability) => {
                let tags =
                    source.tag_count.map_or("tags, if there are any".to_owned(), |count| format!("{count} tags"));
                self.note(&tags, &error);
                Ok(Vec::new())
            }
            Err(other) => Err(other.into()),
        }
    }

    pub(super) async fn complete(
        &mut self,
        route: &PartsRoute,
        source: &ObjectMeta,
        done: CompletedParts,
    ) -> Result<WrittenObject, AttemptError> {
        let request = CompleteUpload {
            parts: done.into_values().collect(),
            size: self.item.size,
            checksum: route.checksum.map(|(algorithm, _)| algorithm),
            whole: route.whole.clone(),
            if_absent: self.if_absent(),
            if_match: self.if_match(),
            ..CompleteUpload::default()
        };
        let (if_absent, if_match) = (request.if_absent, request.if_match.is_some());
        let joined = joined_etag(request.parts.iter().map(|part| part.etag.as_str()));
        let lacks_checksums = request.parts.iter().any(|part| part.checksum.is_none());
        // By the `ETag` of the source itself the object is known after a kill as well.
        let unknown = |joined: &&str| *joined != source.etag && self.policy.verify == VerificationRule::Auto;
        if let Some(joined) = joined.as_deref().filter(unknown) {
            let journal = self.recording(route);
            self.upload.record_etag(joined, &journal).await?;
        }
        let retries = self.retry_context.retries();
        match self.upload.complete(request).await {
            Ok(Completion::Object(written)) => Ok(written),
            Ok(Completion::Gone(error)) => {
                match self.find_completed(route, source, joined.as_deref()).await? {
                    // A reply was lost: the attempt before has completed it.
                    Some(written) => {
                        self.upload.confirm_completed();
                        Ok(written)
                    }
                    None => Err(AttemptError::Again(self.lost_upload_failure(&error))),
                }
            }
            Err(RequestError::Failed(error))
                if (if_absent || if_match)
                    && let Some(refused) = self.explain_refused_condition(&error, if_match) =>
            {
                // An attempt whose answer was lost may have completed the upload.
                let lost = matches!(refused, AttemptError::Again(_)) && self.retry_context.retries() > retries;
                if lost && let Some(written) = self.find_completed(route, source, joined.as_deref()).await? {
                    self.upload.abort(false).await;
                    self.upload.forget();
                    return Ok(written);
                }
                Err(refused)
            }
            // Some services require part checksums that they never returned.
            Err(RequestError::Failed(error))
                if route.checksum.is_some()
                    && lacks_checksums
                    && matches!(error.cause(), Cause::BadPart | Cause::BadRequest) =>
            {
                Err(AttemptError::UselessPartChecksums)
            }
            // The service and we disagree about a part: worth one more attempt from the first.
            Err(RequestError::Failed(error)) if matches!(error.cause(), Cause::BadPart | Cause::BadPartOrder) => {
                Err(AttemptError::Again(error.into()))
            }
            // The service has joined the parts and found bytes that do not have the source's checksum.
            Err(RequestError::Failed(error)) if route.whole.is_some() && error.cause() == Cause::BadDigest => {
                let message = format!(
                    "{error}: the parts do not add up to the source's checksum, so the service refused to make the object. {}",
                    Advice::Repeat
                );
                Err(AttemptError::Again(ObjectFailure::new(
                    FailureClass::Mismatch,
                    "ContentMismatch",
                    error.operation,
                    message,
                )))
            }
            Err(other) => Err(other.into()),
        }
    }

    /// Returns the target after an upload turned out to be gone, if it is what the upload was meant to become. `joined`
    /// is the `ETag` that the service makes of its parts: as they were sent, or as a run that was killed had it
    /// recorded.
    async fn find_completed(
        &self,
        route: &PartsRoute,
        source: &ObjectMeta,
        joined: Option<&str>,
    ) -> Result<Option<WrittenObject>, AttemptError> {
        let TargetAfterWrite::Found(target) = self.head_written_target().await? else { return Ok(None) };
        let ours = match self.compare_sides(source, &target, route.same_boundaries, false).await? {
            Verdict::Verified(_) => true,
            Verdict::Differs(_) | Verdict::Doubtful(_) => false,
            // No common digest: the target is ours if it was made of these very parts. Where more verification is
            // required, the object is copied again.
            Verdict::Unknown => self.policy.verify == VerificationRule::Auto && joined == Some(target.etag.as_str()),
        };
        let ObjectMeta { etag, version_id, checksum, encryption, .. } = *target;
        Ok(ours.then_some(WrittenObject { etag, version_id, checksum, encryption }))
    }

    pub(super) fn lost_upload_failure(&self, error: &StoreError) -> ObjectFailure {
        let message = format!(
            "{} {}: the multipart upload was aborted by another program ({}), for example by a lifecycle rule. {}",
            error.operation,
            self.target_address(),
            error.code,
            Advice::Repeat
        );
        ObjectFailure::new(FailureClass::Store(ErrorClass::Retry), &error.code, error.operation, message)
    }

    /// Aborts the uploads that an interrupted run created and did not record, unless this object needs none.
    pub(super) async fn sweep_uploads(&self) -> Result<(), AttemptError> {
        let small = if self.streams() {
            self.streams_in_one_request()
        } else {
            verification::needs_no_head(self.item.size, &self.item.etag, self.policy.part_options, &self.policy.limits)
        };
        if !small {
            self.upload.sweep(None).await?;
        }
        Ok(())
    }
}

/// True when a file may have been rewritten in place since its transfer began. Its size and its modification time can be
/// set as they were; the time of its last change cannot.
pub(crate) fn was_rewritten(file: &ObjectMeta, policy: &Policy) -> bool {
    file.changed >= policy.since - CLOCK_TICK
}

/// The parts that fit the plan; others are sent again.
fn fitting(parts: Vec<PartInfo>, plan: PartPlan) -> CompletedParts {
    let fits = |part: &PartInfo| plan.range(part.number).is_some_and(|range| range.len() == part.size);
    parts
        .into_iter()
        .filter(fits)
        .map(|part| (part.number, CompletedPart { number: part.number, etag: part.etag, checksum: part.checksum }))
        .collect()
}
