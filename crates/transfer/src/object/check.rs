//! An object of a job that only compares: nothing is written, and no upload is looked for.

use seqferry_client::RequestError;
use seqferry_store::{ErrorClass, Written};

use super::content::Compared;
use super::{CopyResult, Journal, Object, Trouble, Verify};
use crate::outcome::{FailureClass, Method, ObjectFailure, State, Verified};
use crate::verification::{Side, Verdict, compare};

impl<J: Journal> Object<'_, J> {
    /// Compare the target with the source, and write nothing. Metadata decide where they are enough for the policy;
    /// else the contents of both are read, or with [`Verify::Auto`] equal sizes are enough.
    pub(super) async fn compare_with_target(&mut self) -> Result<CopyResult, Trouble> {
        let target = match self.ask_target().await {
            Ok(target) => target,
            Err(RequestError::Failed(error)) if error.class == ErrorClass::NotFound => {
                let message = format!("{} is not there.", self.target_address());
                return Err(differs("MissingAtTarget", message));
            }
            Err(other) => return Err(other.into()),
        };
        let opaque_etag = self.has_files();
        let listed = Side { size: Some(self.item.size), etag: &self.item.etag, opaque_etag, checksum: None };
        let mut verdict = compare(listed, Side::from(&target), false);
        if !matches!(verdict, Verdict::Proven(_) | Verdict::Differs(_)) {
            let source = self.head_source().await?;
            verdict = self.compare_sides(&source, &target, false, self.policy.verify == Verify::Auto).await?;
        }
        let verified = match (verdict, self.policy.verify) {
            (Verdict::Differs(how), _) => return Err(self.is_different(&how)),
            (Verdict::Proven(verified), Verify::Auto | Verify::Checksum) => verified,
            (Verdict::Unknown, Verify::Auto) => Verified::Size,
            (Verdict::Proven(_) | Verdict::Doubtful(_) | Verdict::Unknown, _) => {
                let there = Written { etag: target.etag.clone(), ..Written::default() };
                match self.compare_content(&there).await? {
                    Compared::Equal => Verified::Content,
                    Compared::Differs(how) => return Err(self.is_different(&how)),
                    Compared::Gone => {
                        let message = format!("{} changed while it was compared.", self.target_address());
                        return Err(Trouble::Again(ObjectFailure::new(
                            FailureClass::Mismatch,
                            "TargetChanged",
                            "Compare",
                            message,
                        )));
                    }
                }
            }
        };
        Ok(CopyResult::found(State::Skipped, Method::None, &target, verified))
    }

    fn is_different(&self, how: &str) -> Trouble {
        let message = format!("{} is not what {} is: {how}.", self.target_address(), self.source_address());
        differs("Differs", message)
    }
}

fn differs(code: &str, message: String) -> Trouble {
    Trouble::Failed(ObjectFailure::new(FailureClass::Mismatch, code, "Compare", message))
}
