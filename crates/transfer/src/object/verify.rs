//! Verification of the target that was written. A target with other bytes is removed: it must not look whole.

use seqferry_client::{RequestError, RequestSpec, UploadJournal};
use seqferry_store::{Advice, ErrorClass, ObjectMeta, ObjectRef, StoreError, WrittenObject};

use super::content::ContentComparison;
use super::{AttemptError, CopyResult, Object, TargetAfterWrite, VerificationRule};
use crate::etags::{ObjectOrigin, resolve_contradiction};
use crate::object_outcome::{CopyMethod, FailureClass, ObjectFailure, ObjectState, VerificationLevel};
use crate::verification::{CopySide, Verdict, compare};

impl<J: UploadJournal> Object<'_, J> {
    /// Verifies the target that was just written, or removes it.
    pub(crate) async fn verify(
        &mut self,
        method: CopyMethod,
        written: WrittenObject,
        source: Option<ObjectMeta>,
        same_boundaries: bool,
    ) -> Result<CopyResult, AttemptError> {
        let etag = written.etag.clone();
        let verified = self.compare_written(method, written, source, same_boundaries).await;
        self.remove_on_source_change(verified, &etag).await
    }

    /// Returns `verified`. After a failure because the source has changed or is gone, the target that was written with
    /// this `ETag` is removed.
    pub(super) async fn remove_on_source_change(
        &self,
        verified: Result<CopyResult, AttemptError>,
        etag: &str,
    ) -> Result<CopyResult, AttemptError> {
        if let Err(AttemptError::Again(failure) | AttemptError::Failed(failure)) = &verified
            && failure.class == FailureClass::SourceChanged
        {
            // It was made of a source that is gone, perhaps of two versions of it.
            self.remove_ours(etag).await;
        }
        verified
    }

    pub(super) async fn compare_written(
        &mut self,
        method: CopyMethod,
        mut written: WrittenObject,
        mut source: Option<ObjectMeta>,
        same_boundaries: bool,
    ) -> Result<CopyResult, AttemptError> {
        let listed = CopySide { size: None, etag: &self.item.etag, opaque_etag: false, checksum: None };
        let answered = CopySide::from(&written);
        let mut seen = None;
        let mut verdict = compare(source.as_ref().map_or(listed, CopySide::from), answered, same_boundaries);
        if !matches!(verdict, Verdict::Verified(_) | Verdict::Differs(_)) {
            // The replies do not decide: HEAD of both sides.
            if source.is_none() {
                source = Some(self.head_source().await?);
            }
            verdict = match (self.head_written_target().await?, source.as_ref()) {
                (TargetAfterWrite::Gone, _) => return Err(self.target_change_error("is gone")),
                (TargetAfterWrite::Found(target), _) if target.etag != written.etag => {
                    return Err(self.target_change_error("holds something else"));
                }
                (TargetAfterWrite::Found(target), Some(source)) => {
                    let verdict = self.compare_sides(source, &target, same_boundaries, false).await?;
                    seen = Some(target);
                    verdict
                }
                (TargetAfterWrite::Denied, Some(source)) => compare(CopySide::from(source), answered, same_boundaries),
                (_, None) => Verdict::Unknown,
            };
        }
        let pinned = self.pinned_source();
        let origin = if method == CopyMethod::Stream { ObjectOrigin::Sent } else { ObjectOrigin::Copied(&pinned) };
        let stated = [self.stated_source(), self.stated_target(origin)];
        verdict = resolve_contradiction(verdict, &stated, &self.retry_context).await?;
        self.note_checksum(&written, seen.as_deref());
        written.checksum = seen.and_then(|target| target.checksum).or(written.checksum);
        self.conclude(method, verdict, written).await
    }

    /// Checks encryption and lock, and applies the policy to a verdict: success, a mismatch, or both sides are read.
    pub(super) async fn conclude(
        &mut self,
        method: CopyMethod,
        verdict: Verdict,
        written: WrittenObject,
    ) -> Result<CopyResult, AttemptError> {
        self.require_encryption(method, &written).await?;
        self.require_lock(method, &written).await?;
        let must_read = match (&verdict, self.policy.verify) {
            (Verdict::Differs(_), _) => false,
            (Verdict::Doubtful(_), _)
            | (_, VerificationRule::Content)
            | (Verdict::Unknown, VerificationRule::Checksum) => true,
            (Verdict::Verified(_) | Verdict::Unknown, _) => false,
        };
        let verified = if must_read {
            match Box::pin(self.compare_content(&written)).await? {
                ContentComparison::Equal => VerificationLevel::Content,
                ContentComparison::Differs(how) => return Err(self.mismatch(method, &written, &how).await),
                ContentComparison::Gone => return Err(self.target_change_error("holds something else")),
            }
        } else {
            match verdict {
                Verdict::Verified(verified) => verified,
                Verdict::Differs(how) => return Err(self.mismatch(method, &written, &how).await),
                Verdict::Doubtful(_) | Verdict::Unknown => {
                    // Nothing but the pin says that all parts are of one version, and some services ignore it.
                    self.head_source().await?;
                    VerificationLevel::Size
                }
            }
        };
        if self.source.capabilities().in_place_changes {
            self.copies += 1;
            // The file may have grown since its last byte was read: the target then holds only its start.
            self.modified = Some(self.head_source().await?.last_modified);
        }
        Ok(CopyResult { state: ObjectState::Done, method, target: written, verified })
    }

    /// Returns the failure of a target that is no longer what was written: its object now is not ours to judge or
    /// remove.
    pub(super) fn target_change_error(&self, now: &str) -> AttemptError {
        let message = format!(
            "{} was written, and now {now}: another program writes or removes objects at the target. {}",
            self.target_address(),
            Advice::RepeatAfterWriter
        );
        AttemptError::Again(ObjectFailure::new(FailureClass::Mismatch, "TargetChanged", "HeadObject", message))
    }

    /// Removes a target with other bytes, since it must not look whole. Bytes that passed through this process may
    /// have been corrupted on the way, and are sent again.
    pub(super) async fn mismatch(&self, method: CopyMethod, written: &WrittenObject, how: &str) -> AttemptError {
        let left = self.remove_ours(&written.etag).await;
        let message = format!(
            "{} is not what {} is: {how}. {left} {}",
            self.target_address(),
            self.source_address(),
            Advice::RepeatOrReport
        );
        let failure = ObjectFailure::new(FailureClass::Mismatch, "ContentMismatch", "Verify", message);
        if method == CopyMethod::Stream { AttemptError::Again(failure) } else { AttemptError::Failed(failure) }
    }

    /// Removes the target if it is the object that this process wrote. Returns the result as a sentence.
    pub(super) async fn remove_ours(&self, etag: &str) -> &'static str {
        let (bucket, key) = (&self.policy.target_bucket, &self.item.target_key);
        let target = self.target.uncancelled();
        let there = target
            .call(RequestSpec::read("HeadObject", bucket), &self.retry_context, async |store| {
                store.head(ObjectRef::new(bucket, key), None).await
            })
            .await;
        match there {
            Ok(now) if now.etag == etag => {
                let removed = target
                    .call(RequestSpec::write("DeleteObject", bucket), &self.retry_context, async |store| {
                        store.delete(ObjectRef::new(bucket, key)).await
                    })
                    .await;
                match removed {
                    Ok(()) => "The target was removed.",
                    Err(_) => "The target could NOT be removed: do not use it.",
                }
            }
            Ok(_) => "Another program has replaced the target meanwhile.",
            Err(RequestError::Failed(error)) if error.class == ErrorClass::NotFound => "The target is gone.",
            Err(_) => "The target could NOT be removed: do not use it.",
        }
    }

    pub(crate) fn note(&mut self, what: &str, error: &StoreError) {
        self.not_carried.push(format!("{what}: {} ({}). {}", error.code, error.operation, error.advice()));
    }
}
