//! Failures of an archive, and the reaction: another attempt, an attempt without a feature, or the end.

use seqferry_client::RequestError;
use seqferry_store::{Advice, Cause, ChecksumAlgorithm, ErrorClass, ObjectRef, ObjectUri, StoreError};

use super::job::PackJob;
use super::parts::{PartError, is_change};
use super::plan::PlanRefusal;
use crate::object_outcome::{FailureClass, ObjectFailure};

/// Reason why an attempt at an archive ended without one.
pub(super) enum PackError {
    /// The job was stopped.
    Cancelled,
    /// A member or the target has changed since it was found: worth one more attempt from scratch.
    Again(Box<ArchiveFailure>),
    /// The service has refused a feature, which is remembered: worth an attempt without it. No feature causes this
    /// again.
    Relearned,
    /// Final failure: no further attempt is made.
    Failed(Box<ArchiveFailure>),
}

/// Failure of an archive. `member` is the ordinal of the member that caused it, if one did.
pub(super) struct ArchiveFailure {
    pub(super) member: Option<usize>,
    pub(super) failure: ObjectFailure,
}

impl PackError {
    pub(super) fn failed(member: Option<usize>, failure: impl Into<ObjectFailure>) -> Self {
        Self::Failed(Box::new(ArchiveFailure { member, failure: failure.into() }))
    }

    pub(super) fn again(member: Option<usize>, failure: ObjectFailure) -> Self {
        Self::Again(Box::new(ArchiveFailure { member, failure }))
    }
}

impl From<RequestError> for PackError {
    fn from(request: RequestError) -> Self {
        match request {
            RequestError::Cancelled => Self::Cancelled,
            RequestError::Failed(error) => Self::failed(None, error),
        }
    }
}

impl PackJob {
    pub(super) fn plan_refusal(&self, refused: &PlanRefusal) -> PackError {
        let address = self.address();
        let (member, code, cause) = match refused {
            PlanRefusal::Member(member, cause) => {
                let source = ObjectUri(&self.policy.source_bucket, Some(&self.members.items()[*member].source_key));
                let cause = format!("{source} cannot be a member of {address}: {cause}");
                (Some(*member), "MemberRefused", cause)
            }
            PlanRefusal::Archive(code, cause) => (None, *code, format!("{address} cannot be made: {cause}")),
        };
        let message = format!("{cause}. Nothing was written.");
        PackError::failed(member, ObjectFailure::new(FailureClass::Store(ErrorClass::Object), code, "plan", message))
    }

    /// Returns the failure of a refused write. Where it is about the checksum, the service is not sent that one again.
    pub(super) fn explain_refused_write(&self, error: StoreError, sum: Option<ChecksumAlgorithm>) -> PackError {
        let about_sums = error.class == ErrorClass::Capability || error.is_about_checksums();
        match sum {
            Some(algorithm) if about_sums && !error.is_about_bytes() && self.target.capabilities().digests => {
                self.target.quirks().learn_refused_sum(algorithm);
                PackError::Relearned
            }
            _ => PackError::failed(None, error),
        }
    }

    pub(super) async fn part_error(&self, error: PartError, sum: Option<ChecksumAlgorithm>) -> PackError {
        match error {
            PartError::Cancelled => PackError::Cancelled,
            PartError::Member(member, error) | PartError::Copy(member, error) if is_change(&error) => {
                PackError::again(Some(member), self.change_failure(member, &error))
            }
            PartError::Member(member, error) => PackError::failed(Some(member), error),
            PartError::Misread(member, how) => self.content_mismatch(member, "GetObject", &how),
            PartError::Miscopied(member, how) => self.content_mismatch(member, "UploadPartCopy", &how),
            PartError::NoSums => {
                self.target.quirks().learn_copied_sums(false);
                PackError::Relearned
            }
            PartError::Copy(member, error) => self.explain_refused_copy(member, error).await,
            PartError::Write(error) if error.cause() == Cause::UploadGone => {
                PackError::again(None, self.lost_upload_failure(&error))
            }
            PartError::Write(error) => self.explain_refused_write(error, sum),
        }
    }

    fn content_mismatch(&self, member: usize, operation: &'static str, how: &str) -> PackError {
        let source = ObjectUri(&self.policy.source_bucket, Some(&self.members.items()[member].source_key));
        let message = format!("{source}: {how}. No archive was made. {}", Advice::RepeatOrAskAboutObject);
        let failure = ObjectFailure::new(FailureClass::Mismatch, "ContentMismatch", operation, message);
        PackError::again(Some(member), failure)
    }

    /// Explains a refused copy: if this process can read the member, it is streamed, and the refusal is remembered.
    async fn explain_refused_copy(&self, member: usize, error: StoreError) -> PackError {
        let (source, bucket) = (self.source.connection(), &self.policy.source_bucket);
        let elsewhere = !source.is_same(self.target.connection())
            && matches!(error.class, ErrorClass::Person | ErrorClass::NotFound);
        let key = &self.members.items()[member].source_key;
        if (elsewhere || error.class == ErrorClass::Capability)
            && self.source.head(ObjectRef::new(bucket, key)).await.is_ok()
        {
            self.target.quirks().learn_uncopyable(source, bucket);
            return PackError::Relearned;
        }
        PackError::failed(Some(member), error)
    }

    pub(super) fn change_failure(&self, member: usize, error: &StoreError) -> ObjectFailure {
        let source = ObjectUri(&self.policy.source_bucket, Some(&self.members.items()[member].source_key));
        let how = if error.class == ErrorClass::NotFound { "it is gone" } else { "it was overwritten" };
        let settle = if self.source.capabilities().in_place_changes {
            format!(" {}", Advice::WaitForFiles)
        } else {
            String::new()
        };
        let message = format!(
            "{} {source}: a member of {} is not what was found: {how} while it was packed ({}). No archive was made. {}{settle}",
            error.operation,
            self.address(),
            error.code,
            Advice::RepeatAfterSender
        );
        ObjectFailure::new(FailureClass::SourceChanged, &error.code, error.operation, message)
    }

    pub(super) fn lost_upload_failure(&self, error: &StoreError) -> ObjectFailure {
        let message = format!(
            "{} {}: the multipart upload was aborted by another program ({}), for example by a lifecycle rule. {}",
            error.operation,
            self.address(),
            error.code,
            Advice::Repeat
        );
        ObjectFailure::new(FailureClass::Store(ErrorClass::Retry), &error.code, error.operation, message)
    }
}
