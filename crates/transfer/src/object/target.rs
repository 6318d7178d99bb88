//! The target of one object before it is written: its state, and the decision of the policy on it.

use seqferry_client::upload::CLOCK_SLACK;
use seqferry_client::{RequestError, RequestSpec, UploadJournal};
use seqferry_store::{Advice, ErrorClass, ObjectMeta, ObjectRef, ObjectUri, WrittenObject};

use super::content::ContentComparison;
use super::{AttemptError, CopyResult, IfExists, Object, TargetAfterWrite, TargetState, VerificationRule};
use crate::object_outcome::{CopyMethod, FailureClass, ObjectFailure, ObjectState, VerificationLevel};
use crate::verification::{CopySide, Verdict, compare};

impl<J: UploadJournal> Object<'_, J> {
    /// URI of the target, for messages.
    pub(super) fn target_address(&self) -> ObjectUri<'_> {
        ObjectUri(&self.policy.target_bucket, Some(&self.item.target_key))
    }

    /// True when the target may have been written for this item before: by a run that was cut off, or by another worker
    /// while this one was held up.
    pub(super) fn may_be_ours(&self) -> bool {
        self.policy.resumed || self.again
    }

    pub(super) fn must_check_target(&self) -> bool {
        match self.policy.if_exists {
            IfExists::Overwrite => self.may_be_ours(),
            IfExists::Same | IfExists::Size => self.may_be_ours() || !self.item.target_absent,
            IfExists::Skip | IfExists::Fail => true,
        }
    }

    /// Decides by the state of the target. None: copy. `source_meta` receives the metadata of the source if it was
    /// checked.
    pub(super) async fn check_target(
        &mut self,
        source_meta: &mut Option<ObjectMeta>,
    ) -> Result<Option<CopyResult>, AttemptError> {
        let target = match self.head_target().await {
            Ok(target) => target,
            // A link that is not followed, or a device: the written file takes its place, or the write fails.
            Err(RequestError::Failed(error)) if error.is_not_an_object() => match self.policy.if_exists {
                IfExists::Skip => ObjectMeta::default(),
                IfExists::Fail => return Err(self.target_exists()),
                IfExists::Same | IfExists::Size | IfExists::Overwrite => return Ok(None),
            },
            Err(RequestError::Failed(error)) if error.class == ErrorClass::NotFound => {
                self.target_state = TargetState::Nothing;
                return Ok(None);
            }
            // Write-only access. The write must replace nothing, unless overwriting was requested.
            Err(RequestError::Failed(error)) if error.is_denied() => {
                self.unreadable_target = true;
                return if self.is_target_unreadable() && self.target.quirks().refuses_conditions() {
                    Err(self.unreadable_target_error(error.operation))
                } else {
                    Ok(None)
                };
            }
            Err(other) => return Err(other.into()),
        };
        self.target_state = TargetState::Object(target.etag.clone());
        if self.policy.if_exists == IfExists::Skip {
            return Ok(Some(CopyResult::found(ObjectState::Skipped, CopyMethod::None, &target, VerificationLevel::No)));
        }
        if self.policy.if_exists == IfExists::Size {
            let same = self.item.size == target.size;
            let found = || CopyResult::found(ObjectState::Skipped, CopyMethod::None, &target, VerificationLevel::Size);
            return Ok(same.then(found));
        }
        let opaque_etag = self.has_opaque_etags();
        let listed = CopySide { size: Some(self.item.size), etag: &self.item.etag, opaque_etag, checksum: None };
        let mut verdict = compare(listed, CopySide::from(&target), false);
        // A listing has neither checksums nor exact times.
        let hopeless = self.item.size != target.size || target.checksum.is_none() && !opaque_etag;
        if !matches!(verdict, Verdict::Verified(_)) && !hopeless {
            let source = self.head_source().await?;
            // The time of a target that an earlier run wrote decides nothing: that run may have been interrupted.
            let by_rule = self.policy.verify == VerificationRule::Auto && !self.policy.ignore_times;
            let trust_times = by_rule && !self.may_be_ours();
            verdict = self.compare_sides(&source, &target, false, trust_times).await?;
            *source_meta = Some(source);
        }
        if matches!(verdict, Verdict::Verified(_)) && self.policy.verify == VerificationRule::Content {
            let there = WrittenObject { etag: target.etag.clone(), ..WrittenObject::default() };
            verdict = match Box::pin(self.compare_content(&there)).await? {
                ContentComparison::Equal => Verdict::Verified(VerificationLevel::Content),
                ContentComparison::Differs(how) => Verdict::Differs(how),
                ContentComparison::Gone => return Ok(None),
            };
        }
        // An earlier attempt wrote it, by the service's clock.
        let ours = self.may_be_ours() && self.is_young(target.last_modified);
        match (verdict, self.policy.if_exists) {
            (Verdict::Verified(verified), IfExists::Same) => {
                Ok(Some(CopyResult::found(ObjectState::Skipped, CopyMethod::None, &target, verified)))
            }
            (Verdict::Verified(verified), IfExists::Overwrite) if ours => {
                Ok(Some(CopyResult::found(ObjectState::Skipped, CopyMethod::None, &target, verified)))
            }
            (Verdict::Verified(verified), IfExists::Fail) if ours => {
                Ok(Some(CopyResult::found(ObjectState::Done, CopyMethod::None, &target, verified)))
            }
            (_, IfExists::Fail) => Err(self.target_exists()),
            _ => Ok(None),
        }
    }

    pub(super) fn target_exists(&self) -> AttemptError {
        let message = format!("{} exists, and {}", self.target_address(), Advice::ReplaceTarget);
        AttemptError::Failed(ObjectFailure::new(FailureClass::Exists, "TargetExists", "HeadObject", message))
    }

    /// True when the target may hold an object that cannot be compared, and must not be replaced.
    pub(crate) fn is_target_unreadable(&self) -> bool {
        self.unreadable_target && self.policy.if_exists != IfExists::Overwrite
    }

    /// Error for a target that may exist, cannot be read, and would be replaced by the service.
    pub(super) fn unreadable_target_error(&self, operation: &'static str) -> AttemptError {
        let message = format!(
            "{} may exist: these credentials may not read it, and the storage refuses writes that replace nothing. Nothing was written. {}",
            self.target_address(),
            Advice::SeeTarget
        );
        AttemptError::Failed(ObjectFailure::new(FailureClass::Exists, "TargetUnreadable", operation, message))
    }

    /// Error for a target that exists and cannot be read.
    pub(crate) fn uncomparable_target_error(&self, operation: &'static str) -> AttemptError {
        if self.policy.if_exists == IfExists::Fail {
            return self.target_exists();
        }
        let message = format!(
            "{} exists, and cannot be compared: these credentials may not read it. It was not replaced. {}",
            self.target_address(),
            Advice::ReplaceUnseen
        );
        AttemptError::ExistsUnreadable(ObjectFailure::new(FailureClass::Exists, "TargetExists", operation, message))
    }

    /// True when `at`, a time by the service's clock, is not earlier than the creation of the transfer less
    /// `CLOCK_SLACK`.
    pub(crate) fn is_young(&self, at: f64) -> bool {
        at >= self.policy.since - CLOCK_SLACK
    }

    /// HEAD of the target after a write, as far as the credentials may read it.
    pub(super) async fn head_written_target(&self) -> Result<TargetAfterWrite, AttemptError> {
        match self.head_target().await {
            Ok(target) => Ok(TargetAfterWrite::Found(Box::new(target))),
            Err(RequestError::Failed(error)) if error.class == ErrorClass::NotFound => Ok(TargetAfterWrite::Gone),
            Err(RequestError::Failed(error)) if error.is_denied() => Ok(TargetAfterWrite::Denied),
            Err(other) => Err(other.into()),
        }
    }

    pub(super) async fn head_target(&self) -> Result<ObjectMeta, RequestError> {
        let (bucket, key) = (&self.policy.target_bucket, &self.item.target_key);
        self.target
            .call(RequestSpec::read("HeadObject", bucket), &self.retry_context, async |store| {
                store.head(ObjectRef::new(bucket, key), None).await
            })
            .await
    }
}
