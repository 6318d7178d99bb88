//! Choice of the route of one object by the verification that it allows, and the copy of an object in one request.

use std::borrow::Cow;

use seqferry_client::{RequestError, UploadJournal};
use seqferry_store::{Advice, ChecksumAlgorithm, ChecksumKind, CopyTarget, ErrorClass, ObjectMeta};

use super::{AttemptError, CopyResult, Object, TargetAfterWrite};
use crate::object_outcome::{CopyMethod, FailureClass, ObjectFailure};
use crate::plan::{PlanError, etag_parts};
use crate::verification::{self, PartOptions, Route};

impl<J: UploadJournal> Object<'_, J> {
    pub(super) async fn route(&self, source: &ObjectMeta) -> Result<Route, AttemptError> {
        if source.archived {
            return Err(self.archived_error(source));
        }
        let (part_options, limits) = (self.policy.part_options, &self.policy.limits);
        let mut source = Cow::Borrowed(source);
        let kept = source.checksum.as_ref().map(|sum| sum.algorithm);
        if self.keeps_etag(&source) {
            return Ok(Route::Copy(kept));
        }
        if self.target.quirks().useless_part_checksums()
            && !verification::fits_one_copy(source.size, part_options, limits)
        {
            // An object made of parts there has no checksum to compare: its `ETag` can be compared if it has the
            // source's part boundaries.
            source.to_mut().checksum = None;
        }
        let first_part = if part_options.part_size.is_none() { self.first_part(&source).await? } else { None };
        match verification::choose_route(&source, first_part, part_options, limits)
            .map_err(|error| self.too_large(&error))?
        {
            Route::Copy(_) => Ok(Route::Copy(kept)),
            Route::Parts(mut parts) => {
                if let Some(requested) = self.policy.properties.checksum {
                    parts.keep(requested);
                }
                Ok(Route::Parts(parts))
            }
        }
    }

    /// True when an object of many parts, without a checksum over the full object, is copied in one request: the service
    /// gives the copy its `ETag`.
    fn keeps_etag(&self, source: &ObjectMeta) -> bool {
        let PartOptions { part_size, copy_threshold } = self.policy.part_options;
        source.copies_keep_etag
            && !self.target.quirks().changes_copied_etags()
            && etag_parts(&source.etag).is_some()
            && source.checksum.as_ref().is_none_or(|sum| sum.kind == ChecksumKind::Composite)
            && source.size <= self.policy.limits.maximum_copy
            && part_size.is_none()
            && copy_threshold.is_none()
    }

    pub(super) fn too_large(&self, error: &PlanError) -> AttemptError {
        let message = format!("{}: {error}. {}", self.source_address(), Advice::ChoosePartSize);
        AttemptError::Failed(ObjectFailure::new(
            FailureClass::Store(ErrorClass::Object),
            "EntityTooLarge",
            "CreateMultipartUpload",
            message,
        ))
    }

    pub(super) async fn copy_in_one_request(
        &mut self,
        checksum: Option<ChecksumAlgorithm>,
        source: Option<ObjectMeta>,
    ) -> Result<CopyResult, AttemptError> {
        let pinned = self.pinned_source();
        let write = self.write_options(source.as_ref()).await?;
        let (bucket, key) = (&self.policy.target_bucket, &self.item.target_key);
        let properties = &self.policy.properties;
        let attributes = properties.replaced_attributes(source.as_ref());
        let if_match = self.if_match();
        let target = CopyTarget {
            storage_class: self.policy.storage_class.as_deref(),
            checksum: properties.checksum.or(checksum),
            attributes: attributes.as_ref(),
            tags: properties.replaced_tags(),
            write: Some(&write),
            if_absent: self.if_absent(),
            if_match: if_match.as_deref(),
            ..CopyTarget::new(bucket, key)
        };
        let written = self.target.copy_object(&pinned, target, &self.retry_context).await;
        let mut written = match written {
            Ok(written) => written,
            // The HEAD before a retry has found another object than the first attempt was to replace.
            Err(RequestError::Failed(error)) if error.operation == "HeadObject" => {
                let refused = self.explain_refused_condition(&error, if_match.is_some());
                return Err(refused.unwrap_or_else(|| RequestError::Failed(error).into()));
            }
            Err(RequestError::Failed(error)) => return Err(self.explain_refused_copy(error).await),
            Err(RequestError::Cancelled) => return Err(AttemptError::Cancelled),
        };
        if let Some(encrypted) = self.encrypted_on_arrival(&written).await? {
            // It has arrived without, and the next copy says so.
            return Box::pin(self.copy_in_one_request(checksum, Some(encrypted))).await;
        }
        if let Some(source) = source.as_ref().filter(|source| self.keeps_etag(source)) {
            if source.etag != written.etag {
                self.target.quirks().learn_changed_copied_etags();
                let message = format!("{}: the copy has another ETag than its source", self.target_address());
                let failure = ObjectFailure::new(FailureClass::Mismatch, "ETagChanged", "CopyObject", message);
                return Err(AttemptError::Again(failure));
            }
            if source.checksum.is_some()
                && let TargetAfterWrite::Found(target) = self.head_written_target().await?
                && target.etag == written.etag
            {
                // The answer states no checksum of parts.
                written.checksum = target.checksum;
            }
        }
        self.active.add(self.item.size);
        // CopyObject makes a single-part object: its ETag can equal only that of a source made in one request, but where
        // the service keeps that of the source.
        self.verify(CopyMethod::Copy, written, source, false).await
    }
}
