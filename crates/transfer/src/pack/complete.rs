//! The end of an archive's upload: completion, comparison with the bytes sent, and the index.

use std::collections::BTreeMap;

use seqferry_client::RequestError;
use seqferry_client::upload::{Completion, RecordedWith};
use seqferry_store::{
    Advice, Cause, Checksum, ChecksumKind, CompleteUpload, CompletedPart, DigestAlgorithm, ErrorClass, ObjectMeta,
    ObjectRef, StoreError, WrittenObject,
};

use super::error::PackError;
use super::job::{PackJob, PackedArchive};
use super::parts::{PackedContents, Sender, SentPart, StatedCrcs};
use super::plan::Plan;
use crate::etags::{ObjectOrigin, StatedEtag, resolve_contradiction};
use crate::job::ItemJournal;
use crate::object::{IfExists, TargetState};
use crate::object_outcome::{CopyMethod, FailureClass, ObjectFailure, ObjectState, VerificationLevel};
use crate::verification::{CopySide, Verdict, compare, join_digests, joined_etag};

impl PackJob {
    pub(super) async fn complete(
        &mut self,
        sender: &Sender,
        sent: &BTreeMap<u32, SentPart>,
        copied: StatedCrcs,
    ) -> Result<PackedArchive, PackError> {
        let plan = &sender.plan;
        let whole = sender.sum.and_then(|algorithm| {
            let values: Option<Vec<(&str, u64)>> = sent
                .iter()
                .map(|(number, part)| {
                    let range = &plan.part(*number)?.range;
                    Some((part.sum.as_deref()?, range.end - range.start))
                })
                .collect();
            let value = algorithm.combine(values?)?;
            Some(Checksum { algorithm, value, kind: ChecksumKind::FullObject })
        });
        let etag = whole_etag(sent);
        let joined = joined_etag(sent.values().map(|part| part.part.etag.as_str()));
        if let Some(joined) = &joined {
            let journal = self.shared.journal(self.id);
            sender.session.write().await.record_etag(joined, &recording(&journal, plan)).await?;
        }
        let written = self.send_complete(sender, sent, whole.as_ref(), joined.as_deref()).await?;
        let target = match self.head_target().await {
            Ok(target) => target,
            Err(RequestError::Failed(error)) if error.is_denied() => ObjectMeta {
                size: plan.total(),
                etag: written.etag.clone(),
                version_id: written.version_id.clone(),
                checksum: written.checksum.clone(),
                ..ObjectMeta::default()
            },
            Err(other) => return Err(other.into()),
        };
        let is_sent = sent.values().all(|part| part.is_sent);
        let verified = match self.verify(plan, &target, whole.as_ref(), etag.as_deref(), is_sent).await {
            Ok(verified) => verified,
            Err(error) => {
                self.rejected = Some(target.etag);
                return Err(error);
            }
        };
        let contents = PackedContents::of(&self.members, sent, copied).of;
        // One that is there is of an earlier archive: it would belong to none.
        if self.options.index || self.has_index().await? {
            self.write_index(plan, &target, whole.as_ref(), &contents).await?;
        }
        let method = if plan.copies() { CopyMethod::Multipart } else { CopyMethod::Stream };
        Ok(PackedArchive { state: ObjectState::Done, method, target: written_object(&target), verified, contents })
    }

    /// Complete the upload, without a condition that the service does not know.
    async fn send_complete(
        &self,
        sender: &Sender,
        sent: &BTreeMap<u32, SentPart>,
        whole: Option<&Checksum>,
        joined: Option<&str>,
    ) -> Result<WrittenObject, PackError> {
        let parts: Vec<CompletedPart> = sent.values().map(|part| part.part.clone()).collect();
        let retries = self.retry_context.retries();
        loop {
            let conditions = self.target.capabilities().conditions;
            let quirks = self.target.quirks();
            let (if_absent, if_match) = match (&self.there, self.policy.if_exists) {
                (TargetState::Nothing, _) => (conditions && !quirks.refuses_conditions(), None),
                (TargetState::Object(etag), IfExists::Same | IfExists::Size | IfExists::Overwrite)
                    if conditions && !etag.is_empty() && !quirks.refuses_matches() =>
                {
                    (false, Some(etag.clone()))
                }
                _ => (false, None),
            };
            let matches = if_match.is_some();
            let request = CompleteUpload {
                parts: parts.clone(),
                size: sender.plan.total(),
                checksum: sender.sum,
                whole: whole.cloned(),
                if_absent,
                if_match,
                ..CompleteUpload::default()
            };
            let completed = sender.session.write().await.complete(request).await;
            match completed {
                Ok(Completion::Object(written)) => return Ok(written),
                Ok(Completion::Gone(error)) => {
                    let Some(written) = self.find_completed(&sender.plan, whole, joined).await? else {
                        return Err(PackError::again(None, self.lost_upload_failure(&error)));
                    };
                    sender.session.write().await.confirm_completed();
                    return Ok(written);
                }
                Err(RequestError::Failed(error)) if if_absent || matches => {
                    let name = if matches { "if-match" } else { "if-none-match" };
                    if error.class == ErrorClass::Capability || error.message.to_ascii_lowercase().contains(name) {
                        if matches {
                            quirks.learn_refused_matches();
                        } else {
                            quirks.learn_refused_conditions();
                        }
                        continue;
                    }
                    let lost = error.class == ErrorClass::Precondition && self.retry_context.retries() > retries;
                    if lost && let Some(written) = self.find_completed(&sender.plan, whole, joined).await? {
                        return Ok(written);
                    }
                    return Err(self.explain_refused_completion(error));
                }
                Err(RequestError::Failed(error)) => return Err(self.explain_refused_completion(error)),
                Err(RequestError::Cancelled) => return Err(PackError::Cancelled),
            }
        }
    }

    fn explain_refused_completion(&self, error: StoreError) -> PackError {
        if error.class == ErrorClass::Precondition {
            let message = format!(
                "{error}: another program has written or removed {} since it was checked. {}",
                self.address(),
                Advice::RepeatAfterWriter
            );
            let failure = ObjectFailure::new(FailureClass::Mismatch, "TargetChanged", error.operation, message);
            return PackError::failed(None, failure);
        }
        // The service and we disagree about a part: worth one more attempt from the first.
        if matches!(error.cause(), Cause::BadPart | Cause::BadPartOrder | Cause::BadDigest) {
            return PackError::again(None, error.into());
        }
        PackError::failed(None, error)
    }

    /// The archive as it is at the target, when it holds the bytes that were sent: by its checksum, or by the `ETag` that
    /// the service makes of the parts.
    async fn find_completed(
        &self,
        plan: &Plan,
        whole: Option<&Checksum>,
        joined: Option<&str>,
    ) -> Result<Option<WrittenObject>, PackError> {
        match self.head_target().await {
            Ok(target) => {
                let same = whole.zip(target.checksum.as_ref()).and_then(|(ours, theirs)| ours.matches(theirs));
                let ours = target.size == plan.total() && same.unwrap_or(joined == Some(target.etag.as_str()));
                Ok(ours.then(|| written_object(&target)))
            }
            Err(RequestError::Failed(error)) if error.class == ErrorClass::NotFound => Ok(None),
            Err(other) => Err(other.into()),
        }
    }

    /// Compare the archive at the target with the bytes that were sent. Returns the level of the verification.
    async fn verify(
        &self,
        plan: &Plan,
        target: &ObjectMeta,
        whole: Option<&Checksum>,
        etag: Option<&str>,
        is_sent: bool,
    ) -> Result<VerificationLevel, PackError> {
        let differs = |what: &str, ours: &str, theirs: &str| {
            let message = format!(
                "{}: the archive was sent with {what} {ours}, and the storage holds {theirs}. {}",
                self.address(),
                Advice::RepeatOrReport
            );
            let failure = ObjectFailure::new(FailureClass::Mismatch, "ContentMismatch", "HeadObject", message);
            PackError::again(None, failure)
        };
        if target.size != plan.total() {
            return Err(differs("size", &plan.total().to_string(), &target.size.to_string()));
        }
        match (whole, &target.checksum) {
            (Some(ours), Some(theirs)) => match ours.matches(theirs) {
                Some(true) => return Ok(VerificationLevel::Checksum),
                Some(false) => return Err(differs(ours.algorithm.name(), &ours.value, &theirs.value)),
                None => {}
            },
            // Bytes written to a disk count as what it was given.
            (Some(_), None) if !self.target.capabilities().digests => return Ok(VerificationLevel::Checksum),
            _ => {}
        }
        let Some(ours) = etag else { return Ok(VerificationLevel::Size) };
        let sent = CopySide { size: None, etag: ours, opaque_etag: false, checksum: None };
        let object = ObjectRef::new(&self.policy.target_bucket, &self.key);
        let (etag, size) = (&target.etag, target.size);
        let (client, origin) = (&self.target, ObjectOrigin::Sent);
        let stated = StatedEtag { client, object, etag, size, origin, is_exact: false };
        match resolve_contradiction(compare(sent, CopySide::from(target), true), &[stated], &self.retry_context).await?
        {
            Verdict::Verified(verified) => Ok(verified),
            // The ETags that the storage states of parts that it copied may be of another kind.
            Verdict::Differs(_) if is_sent => Err(differs("ETag", ours, &target.etag)),
            Verdict::Differs(_) | Verdict::Doubtful(_) | Verdict::Unknown => Ok(VerificationLevel::Size),
        }
    }
}

/// The journal of an archive's upload: it stands with the first item, and the fingerprint of the plan in place of a part
/// size.
pub(super) fn recording<'a, 'b>(journal: &'a ItemJournal<'b>, plan: &Plan) -> RecordedWith<'a, ItemJournal<'b>> {
    RecordedWith { journal, part_size: plan.fingerprint }
}

pub(super) fn written_object(target: &ObjectMeta) -> WrittenObject {
    let ObjectMeta { etag, version_id, checksum, encryption, .. } = target.clone();
    WrittenObject { etag, version_id, checksum, encryption }
}

/// Compute the `ETag` that the target has if it is made of the MD5s of its parts. None unless all of those are known.
fn whole_etag(sent: &BTreeMap<u32, SentPart>) -> Option<String> {
    let digests: Option<Vec<&[u8]>> = sent.values().map(|part| part.md5.as_deref()).collect();
    Some(join_digests(DigestAlgorithm::Md5, digests?))
}
