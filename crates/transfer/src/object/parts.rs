//! Copying in parts, so that a crash costs only the parts in flight.
//!
//! The service copies several parts at a time. The first part shows whether the service returns wrong checksums of
//! copied parts, while other objects wait; the result is remembered. [`super::upload`] begins uploads, resumes them
//! after a crash, and ends them.

use futures::future::{BoxFuture, FutureExt as _};
use futures::stream::{FuturesUnordered, StreamExt as _};
use seqferry_client::quirks::PartCopyTrial;
use seqferry_client::upload::ReservedCopy;
use seqferry_client::{RequestError, UploadJournal};
use seqferry_store::{Cause, CompletedPart, ObjectMeta};
use tracing::{Instrument as _, debug_span};

use super::upload::{CompletedParts, OpenedUpload};
use super::{AttemptError, CopyResult, Object};
use crate::object_outcome::CopyMethod;
use crate::plan::PartPlan;
use crate::verification::PartsRoute;

/// Parts of one object that wait for the budget: enough that the object uses its share. Further parts cost nothing. The
/// budget decides how many are under way.
const AHEAD: usize = 8;

/// Largest part that is copied alone where the service is on trial: a copy of 16 MiB takes a fraction of a second. Of
/// larger ones, those of the object on trial are copied concurrently.
const TRIED_ALONE: u64 = 16 << 20;

/// True when the result of a part shows whether the service states right checksums of copied parts.
fn is_answer(part: &Result<CompletedPart, AttemptError>) -> bool {
    matches!(part, Ok(_) | Err(AttemptError::UselessPartChecksums))
}

impl<'a, J: UploadJournal> Object<'a, J> {
    pub(super) async fn copy_in_parts(
        &mut self,
        mut route: PartsRoute,
        source: &ObjectMeta,
    ) -> Result<CopyResult, AttemptError> {
        let trial = self.try_part_checksums(&route, source).await?;
        if self.target.quirks().useless_part_checksums() {
            (route.checksum, route.whole) = (None, None);
        }
        let recorded = self.upload.open().cloned();
        let done = match self.open_upload(&mut route, source).await? {
            OpenedUpload::Upload(done) => done,
            OpenedUpload::Completed(written) => {
                return self.verify(CopyMethod::Multipart, written, Some(source.clone()), route.same_boundaries).await;
            }
        };
        if done.is_empty() && recorded.is_some() && recorded.as_ref() == self.upload.open() && route.checksum.is_some()
        {
            // No reply shows whether it was created with an algorithm, and Complete has to know. A new upload costs
            // nothing.
            self.upload.abort(false).await;
            self.begin(&route, source).await?;
        }
        let is_recorded = recorded.is_some() && recorded.as_ref() == self.upload.open();
        // An earlier run has created it, perhaps with an algorithm, before the service was known to get part checksums
        // wrong. Complete without an algorithm would fail then. A new upload costs nothing while this one is empty.
        let outdated = is_recorded
            && self.target.quirks().useless_part_checksums()
            && (done.is_empty() || done.values().any(|part| part.checksum.is_some()));
        if is_recorded && !done.is_empty() && done.values().all(|part| part.checksum.is_none()) {
            // The upload has no algorithm, or the service does not list its checksums: Complete must not send any.
            (route.checksum, route.whole) = (None, None);
        }
        if outdated || done.values().any(|part| is_wrong(part.checksum.as_deref(), source, route.plan)) {
            return Err(AttemptError::UselessPartChecksums);
        }
        // One that was perhaps created without an algorithm shows nothing: another object has to find out.
        let trial = trial.filter(|_| !is_recorded);
        let copied: u64 = done.keys().filter_map(|n| route.plan.range(*n)).map(|range| range.len()).sum();
        self.active.add(copied);
        let checked = route.checksum.is_some() || is_recorded;
        let done = self.copy_missing(&route, source, checked, done, trial).await?;
        let written = self.complete(&route, source, done).await?;
        self.verify(CopyMethod::Multipart, written, Some(source.clone()), route.same_boundaries).await
    }

    /// Waits for the trial of part checksums, so that not every object starts over where they are useless. Some: this
    /// object makes the trial with its first part. None: the result is known, or the object needs no trial.
    async fn try_part_checksums(
        &self,
        route: &PartsRoute,
        source: &ObjectMeta,
    ) -> Result<Option<PartCopyTrial<'a>>, AttemptError> {
        if self.target.connection().store.is_amazon() {
            return Ok(None);
        }
        let Some((algorithm, _)) = route.checksum.filter(|_| route.plan.count() > 1) else { return Ok(None) };
        // Only then can a part's checksum be taken for the whole's.
        let alike = source.checksum.as_ref().is_some_and(|sum| sum.algorithm == algorithm);
        let target = self.target;
        tokio::select! {
            biased;
            () = target.cancel().cancelled() => Err(AttemptError::Cancelled),
            trial = target.quirks().try_part_checksums(alike) => Ok(trial),
        }
    }

    /// Copy every part that is not done; where the service is on trial, a small one first, alone. `checked`: the upload
    /// may have been created with a checksum.
    async fn copy_missing(
        &self,
        route: &PartsRoute,
        source: &ObjectMeta,
        checked: bool,
        mut done: CompletedParts,
        mut trial: Option<PartCopyTrial<'_>>,
    ) -> Result<CompletedParts, AttemptError> {
        let plan = route.plan;
        let missing: Vec<u32> = (1..=plan.count()).filter(|number| !done.contains_key(number)).collect();
        let mut missing = missing.into_iter();
        let mut next: FuturesUnordered<BoxFuture<'_, Result<ReservedCopy, AttemptError>>> = FuturesUnordered::new();
        let mut parts = FuturesUnordered::new();
        loop {
            let alone = trial.is_some() && plan.part_size <= TRIED_ALONE;
            while next.len() < if alone { 1 } else { AHEAD }
                && (parts.is_empty() || !alone)
                && let Some(number) = missing.next()
            {
                next.push(self.reserve_part(plan, number).boxed());
            }
            tokio::select! {
                Some(reserved) = next.next() => {
                    parts.push(self.copy_part(checked, reserved?));
                }
                Some(part) = parts.next() => {
                    if let Some(trial) = trial.take_if(|_| is_answer(&part)) {
                        let is_right = |part: &CompletedPart| !is_wrong(part.checksum.as_deref(), source, plan);
                        trial.found(!part.as_ref().is_ok_and(is_right));
                    }
                    // The first failure drops the other parts under way.
                    let part = part?;
                    // Without an algorithm of ours there is nothing more to be learned.
                    if route.checksum.is_some() && is_wrong(part.checksum.as_deref(), source, plan) {
                        return Err(AttemptError::UselessPartChecksums);
                    }
                    done.insert(part.number, part);
                }
                else => return Ok(done),
            }
        }
    }

    /// Wait until this part may be copied.
    async fn reserve_part(&self, plan: PartPlan, number: u32) -> Result<ReservedCopy, AttemptError> {
        let Some(range) = plan.range(number) else { return Err(AttemptError::Cancelled) };
        Ok(self.upload.reserve_copy(number, range).await?)
    }

    async fn copy_part(&self, checked: bool, reserved: ReservedCopy) -> Result<CompletedPart, AttemptError> {
        let (number, range, bucket) = (reserved.number, reserved.range, &self.policy.target_bucket);
        let span = debug_span!("part", part = number, size = range.len());
        let copied = self.upload.copy_part(&self.pinned_source(), reserved).instrument(span).await;
        match copied {
            Ok(copied) => {
                self.active.add(range.len());
                Ok(CompletedPart { number, etag: copied.etag, checksum: copied.checksum })
            }
            Err(RequestError::Failed(error)) if error.cause() == Cause::UploadGone => {
                Err(AttemptError::Again(self.lost_upload_failure(&error)))
            }
            // The upload has a checksum, and the service computes none of what it copies.
            Err(RequestError::Failed(error)) if checked && error.is_about_checksums() => {
                if self.target.quirks().learn_useless_part_checksums() {
                    self.target.note(format!(
                        "s3://{bucket}: the endpoint takes no copies of parts into an upload with a checksum ({} {}): objects copied in parts have none there, and are proven by ETag where the parts of the source can be repeated, else by size.",
                        error.operation, error.code
                    ));
                }
                Err(AttemptError::UselessPartChecksums)
            }
            Err(RequestError::Failed(error)) => Err(self.explain_refused_copy(error).await),
            Err(RequestError::Cancelled) => Err(AttemptError::Cancelled),
        }
    }
}

/// True when the service answered a part with the checksum of the whole source, which no part of several has.
fn is_wrong(part: Option<&str>, source: &ObjectMeta, plan: PartPlan) -> bool {
    let whole = source.checksum.as_ref().map(|sum| sum.value.as_str());
    plan.count() > 1 && part.is_some() && part == whole
}
