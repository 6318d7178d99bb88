//! An object of a job that only compares: nothing is written, and no uploads are listed.

use seqferry_client::{RequestError, UploadJournal};
use seqferry_store::{ErrorClass, WrittenObject};

use super::content::ContentComparison;
use super::{AttemptError, CopyResult, Object, VerificationRule};
use crate::object_outcome::{CopyMethod, FailureClass, ObjectFailure, ObjectState, VerificationLevel};
use crate::verification::{CopySide, Verdict, compare};

impl<J: UploadJournal> Object<'_, J> {
    /// Compares the target with the source, and writes nothing. Metadata decide where they are enough for the policy.
    /// Otherwise the contents of both are read, or with [`VerificationRule::Auto`] equal sizes are enough.
    pub(super) async fn compare_with_target(&mut self) -> Result<CopyResult, AttemptError> {
        let target = match self.head_target().await {
            Ok(target) => target,
            Err(RequestError::Failed(error)) if error.class == ErrorClass::NotFound => {
                let message = format!("{} is not there.", self.target_address());
                return Err(differs("MissingAtTarget", message));
            }
            Err(other) => return Err(other.into()),
        };
        let opaque_etag = self.has_opaque_etags();
        let listed = CopySide { size: Some(self.item.size), etag: &self.item.etag, opaque_etag, checksum: None };
        let mut verdict = compare(listed, CopySide::from(&target), false);
        if !matches!(verdict, Verdict::Verified(_) | Verdict::Differs(_)) {
            let source = self.head_source().await?;
            verdict = self.compare_sides(&source, &target, false, self.policy.verify == VerificationRule::Auto).await?;
        }
        let verified = match (verdict, self.policy.verify) {
            (Verdict::Differs(how), _) => return Err(self.is_different(&how)),
            (Verdict::Verified(verified), VerificationRule::Auto | VerificationRule::Checksum) => verified,
            (Verdict::Unknown, VerificationRule::Auto) => VerificationLevel::Size,
            (Verdict::Verified(_) | Verdict::Doubtful(_) | Verdict::Unknown, _) => {
                let there = WrittenObject { etag: target.etag.clone(), ..WrittenObject::default() };
                match Box::pin(self.compare_content(&there)).await? {
                    ContentComparison::Equal => VerificationLevel::Content,
                    ContentComparison::Differs(how) => return Err(self.is_different(&how)),
                    ContentComparison::Gone => {
                        let message = format!("{} changed while it was compared.", self.target_address());
                        return Err(AttemptError::Again(ObjectFailure::new(
                            FailureClass::Mismatch,
                            "TargetChanged",
                            "Compare",
                            message,
                        )));
                    }
                }
            }
        };
        Ok(CopyResult::found(ObjectState::Skipped, CopyMethod::None, &target, verified))
    }

    fn is_different(&self, how: &str) -> AttemptError {
        let message = format!("{} is not what {} is: {how}.", self.target_address(), self.source_address());
        differs("Differs", message)
    }
}

fn differs(code: &str, message: String) -> AttemptError {
    AttemptError::Failed(ObjectFailure::new(FailureClass::Mismatch, code, "Compare", message))
}
