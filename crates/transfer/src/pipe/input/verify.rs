//! Verification of the object that an input has made. It is removed if it does not hold the bytes that were sent.

use seqferry_client::{RequestError, RequestSpec, UploadJournal};
use seqferry_store::{Checksum, ErrorClass, ObjectRef, WrittenObject};

use super::{InputUpload, RateLimited, proof, report};
use crate::etags::{ObjectOrigin, StatedEtag, resolve_contradiction};
use crate::object::EncryptionRule;
use crate::object_outcome::{FailureClass, ObjectFailure, VerificationLevel};
use crate::pipe::{PipeError, PipeResult};
use crate::verification::Verdict;

impl<S: RateLimited, J: UploadJournal + Send> InputUpload<S, J> {
    /// Checks the new object, and removes it if it does not hold the bytes that were sent.
    pub(super) async fn verify_target(
        &self,
        size: u64,
        sum: Option<Checksum>,
        etag: Option<String>,
        written: WrittenObject,
    ) -> PipeResult {
        let there = match self.head_target().await {
            Ok(Some(there)) if there.etag == written.etag => Some(there),
            Ok(_) => {
                let message = format!(
                    "{} was written, and now holds something else or is gone: another program writes or removes objects at the target.",
                    self.address()
                );
                return Err(ObjectFailure::new(FailureClass::Mismatch, "TargetChanged", "HeadObject", message).into());
            }
            // Write-only access: the answer is all there is.
            Err(RequestError::Failed(error)) if error.is_denied() => None,
            Err(other) => return Err(other.into()),
        };
        let encryption = there.as_ref().map_or(&written.encryption, |there| &there.encryption);
        if let EncryptionRule::Explicit(requested) = &self.options.properties.encryption
            && !encryption.as_ref().is_some_and(|found| found.satisfies(requested))
        {
            let shown = encryption.as_ref().map_or_else(|| "no encryption".to_owned(), ToString::to_string);
            let how = format!("{requested} was requested, and the target shows {shown}");
            return Err(self
                .remove_written(&written.etag, "NotEncrypted", FailureClass::Store(ErrorClass::Capability), &how)
                .await);
        }
        if let Some(there) = &there
            && !there.lock.satisfies(&self.options.properties.explicit_options().lock)
        {
            let how = "Object Lock was requested, and the target does not show it";
            return Err(self
                .remove_written(&written.etag, "NotLocked", FailureClass::Store(ErrorClass::Capability), how)
                .await);
        }
        let Some(there) = there else {
            let verified =
                if written.checksum.is_some() { VerificationLevel::Checksum } else { VerificationLevel::Size };
            return Ok(report(size, sum, written, verified));
        };
        let object = ObjectRef::new(&self.target.bucket, &self.target.key);
        let (client, origin) = (&self.client, ObjectOrigin::Sent);
        let stated = StatedEtag { client, object, etag: &written.etag, size, origin, is_exact: false };
        let proof =
            resolve_contradiction(proof(size, sum.as_ref(), etag.as_deref(), &there), &[stated], &self.retry_context)
                .await?;
        let verified = match proof {
            Verdict::Verified(verified) => verified,
            Verdict::Doubtful(_) | Verdict::Unknown => VerificationLevel::Size,
            Verdict::Differs(how) => {
                return Err(self.remove_written(&written.etag, "ContentMismatch", FailureClass::Mismatch, &how).await);
            }
        };
        Ok(report(size, there.checksum.or(sum), written, verified))
    }

    async fn remove_written(&self, etag: &str, code: &str, class: FailureClass, how: &str) -> PipeError {
        let object = ObjectRef::new(&self.target.bucket, &self.target.key);
        let call = RequestSpec::write("DeleteObject", &self.target.bucket);
        let still = self.head_target().await.is_ok_and(|there| there.is_some_and(|there| there.etag == etag));
        let removed = still
            && self.client.call(call, &self.retry_context, async |store| store.delete(object).await).await.is_ok();
        let left = if removed { "The target was removed." } else { "The target could NOT be removed: do not use it." };
        let message = format!("{}: {how}. {left}", self.address());
        ObjectFailure::new(class, code, "Verify", message).into()
    }
}
