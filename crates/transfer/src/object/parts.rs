//! Copying in parts, so that a crash costs only the parts in flight.
//!
//! The upload id is on disk before the first part starts. After a crash `ListParts` says which parts are there; those of the
//! right size stay, the others are copied. An upload that is gone was completed by the run that was cut off (the target
//! then is what we meant to write) or aborted by somebody (then the object starts over). An upload that was created but never
//! recorded has no parts, by which it is known and dropped.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::stream::{self, StreamExt as _};
use seqferry_store::{
    CompleteUpload, CompletedPart, CreateUpload, ErrorClass, ObjectMeta, PartInfo, StoreError, Written,
};

use super::{Copy, Journal, Object, Trouble};
use crate::evidence::{PartsRoute, Side, Verdict, compare};
use crate::outcome::{FailureClass, Method, ObjectFailure, State, Verified};
use crate::plan::{PartPlan, etag_parts};
use crate::requests::{Interrupted, Requests};

/// Parts of one object that may be under way; the budget decides how many really are.
const FAN_OUT: usize = 1024;
/// Clocks of the service and of this machine may differ by so many seconds.
const CLOCK_SLACK: f64 = 15.0 * 60.0;
/// How long parts that were sent are waited for before the last abort.
const LINGER: Duration = Duration::from_mins(1);
/// How often an upload is aborted until the service has forgotten it.
const ABORTS: usize = 10;

type Done = BTreeMap<u32, CompletedPart>;

impl<J: Journal> Object<'_, J> {
    pub(super) async fn copy_in_parts(&mut self, mut route: PartsRoute, source: &ObjectMeta) -> Result<Copy, Trouble> {
        if self.target.quirks().wrong_part_checksums() {
            (route.checksum, route.whole) = (None, None);
        }
        let recorded = self.item.upload.clone();
        let (upload_id, done) = match recorded {
            Some((upload_id, part_size)) => {
                let plan = PartPlan { size: self.item.size, part_size: part_size.max(1) };
                if let Some(done) = self.parts_there(&upload_id, plan).await? {
                    if done.values().any(|part| is_wrong(part.checksum.as_deref(), source, plan)) {
                        return Err(Trouble::WrongPartChecksums);
                    }
                    route.same_boundaries &= route.plan.part_size == part_size;
                    route.plan = plan;
                    (upload_id, done)
                } else {
                    self.item.upload = None;
                    if let Some(copy) = self.completed_before(&route, source, part_size).await? {
                        return Ok(copy);
                    }
                    // The run that lost this upload may have begun another and died before that was recorded.
                    if self.policy.resumed {
                        self.drop_stale_uploads().await?;
                    }
                    (self.begin(&mut route, source).await?, Done::new())
                }
            }
            None => (self.begin(&mut route, source).await?, Done::new()),
        };
        let copied: u64 = done.keys().filter_map(|n| route.plan.range(*n)).map(|range| range.len()).sum();
        self.active.add(copied);
        let done = self.copy_missing(&route, source, &upload_id, done).await?;
        let written = self.complete(&route, source, &upload_id, done).await?;
        self.item.upload = None;
        self.verify(Method::Multipart, written, Some(source.clone()), route.same_boundaries).await
    }

    /// Create the upload and have it recorded.
    async fn begin(&mut self, route: &mut PartsRoute, source: &ObjectMeta) -> Result<String, Trouble> {
        let tags = self.tags(source).await?;
        if source.missing_metadata > 0 {
            self.not_carried
                .push(format!("{} metadata entries that the service cannot put into headers", source.missing_metadata));
        }
        let request = CreateUpload {
            bucket: self.policy.target_bucket.clone(),
            key: self.item.target_key.clone(),
            attributes: source.attributes.clone(),
            tags,
            storage_class: self.policy.storage_class.clone(),
            checksum: route.checksum,
        };
        let created = self
            .target
            .call(&request.bucket, 0, &self.retries, async |store| store.create_upload(&request).await)
            .await;
        let upload_id = created?;
        self.item.upload = Some((upload_id.clone(), route.plan.part_size));
        match self.journal.begun(self.item.id, &upload_id, route.plan.part_size).await {
            Some(()) => Ok(upload_id),
            None => Err(Trouble::Cancelled),
        }
    }

    async fn tags(&mut self, source: &ObjectMeta) -> Result<Vec<(String, String)>, Trouble> {
        if source.tag_count == 0 {
            return Ok(Vec::new());
        }
        let (bucket, key) = (&self.policy.source_bucket, &self.item.source_key);
        let version = self.item.version_id.as_deref();
        match self.source.call(bucket, 0, &self.retries, async |store| store.get_tags(bucket, key, version).await).await
        {
            Ok(tags) => Ok(tags),
            // The bytes can be had; the copy says what it lacks.
            Err(Interrupted::Failed(error)) if matches!(error.class, ErrorClass::Person | ErrorClass::Capability) => {
                self.note(&format!("{} tags", source.tag_count), &error);
                Ok(Vec::new())
            }
            Err(other) => Err(other.into()),
        }
    }

    /// The parts that a recorded upload holds, as far as they fit the plan. None: there is no such upload.
    async fn parts_there(&self, upload_id: &str, plan: PartPlan) -> Result<Option<Done>, Trouble> {
        let parts =
            match list_parts(self.target, &self.policy.target_bucket, &self.item.target_key, upload_id, &self.retries)
                .await
            {
                Ok(parts) => parts,
                Err(Interrupted::Failed(error)) if error.class == ErrorClass::NotFound => return Ok(None),
                Err(other) => return Err(other.into()),
            };
        let fits = |part: &PartInfo| plan.range(part.number).is_some_and(|range| range.len() == part.size);
        let done = parts
            .into_iter()
            .filter(fits)
            .map(|part| (part.number, CompletedPart { number: part.number, etag: part.etag, checksum: part.checksum }));
        Ok(Some(done.collect()))
    }

    /// Copy every part that is not done.
    async fn copy_missing(
        &self,
        route: &PartsRoute,
        source: &ObjectMeta,
        upload_id: &str,
        mut done: Done,
    ) -> Result<Done, Trouble> {
        let plan = route.plan;
        let missing: Vec<u32> = (1..=plan.count()).filter(|number| !done.contains_key(number)).collect();
        let mut parts =
            stream::iter(missing).map(|number| self.copy_part(plan, upload_id, number)).buffer_unordered(FAN_OUT);
        while let Some(part) = parts.next().await {
            // The first failure drops the other parts under way.
            let part = part?;
            if is_wrong(part.checksum.as_deref(), source, plan) {
                return Err(Trouble::WrongPartChecksums);
            }
            done.insert(part.number, part);
        }
        Ok(done)
    }

    async fn copy_part(&self, plan: PartPlan, upload_id: &str, number: u32) -> Result<CompletedPart, Trouble> {
        let Some(range) = plan.range(number) else { return Err(Trouble::Cancelled) };
        let source = self.pinned(range.len());
        let (bucket, key) = (&self.policy.target_bucket, &self.item.target_key);
        let copied = self
            .target
            .call(bucket, range.len(), &self.retries, |store| {
                let (source, bucket, key, upload_id) =
                    (source.clone(), bucket.clone(), key.clone(), upload_id.to_owned());
                let sent = self
                    .under_way
                    .spawn(async move { store.copy_part(&source, range, &bucket, &key, &upload_id, number).await });
                async move {
                    sent.await.unwrap_or_else(|_| {
                        // Only when the runtime is being torn down.
                        Err(StoreError::new("UploadPartCopy", "", None, "Cancelled", None))
                    })
                }
            })
            .await;
        match copied {
            Ok(copied) => {
                self.active.add(range.len());
                Ok(CompletedPart { number, etag: copied.etag, checksum: copied.checksum })
            }
            Err(Interrupted::Failed(error)) if error.code == "NoSuchUpload" => {
                Err(Trouble::Again(self.upload_lost(&error)))
            }
            Err(Interrupted::Failed(error)) => Err(self.copy_trouble(error)),
            Err(Interrupted::Cancelled) => Err(Trouble::Cancelled),
        }
    }

    fn upload_lost(&self, error: &StoreError) -> ObjectFailure {
        let message = format!(
            "{} s3://{}/{}: the multipart upload was aborted by somebody else ({}), for example by a lifecycle rule. Run the same command again.",
            error.operation, self.policy.target_bucket, self.item.target_key, error.code
        );
        ObjectFailure::new(FailureClass::Store(ErrorClass::Retry), &error.code, error.operation, message)
    }

    async fn complete(
        &mut self,
        route: &PartsRoute,
        source: &ObjectMeta,
        upload_id: &str,
        done: Done,
    ) -> Result<Written, Trouble> {
        let request = CompleteUpload {
            bucket: self.policy.target_bucket.clone(),
            key: self.item.target_key.clone(),
            upload_id: upload_id.to_owned(),
            parts: done.into_values().collect(),
            size: self.item.size,
            checksum: route.checksum.map(|(algorithm, _)| algorithm),
            whole: route.whole.clone(),
        };
        let completed = self
            .target
            .call(&request.bucket, 0, &self.retries, async |store| store.complete_upload(&request).await)
            .await;
        match completed {
            Ok(written) => Ok(written),
            // A reply was lost: the try before has done it (or somebody aborted the upload).
            Err(Interrupted::Failed(error)) if error.code == "NoSuchUpload" => {
                self.item.upload = None;
                match self.completed_before(route, source, route.plan.part_size).await? {
                    Some(copy) => Ok(copy.target),
                    None => Err(Trouble::Again(self.upload_lost(&error))),
                }
            }
            // The service and we disagree about a part: worth one more try from the first.
            Err(Interrupted::Failed(error)) if matches!(error.code.as_str(), "InvalidPart" | "InvalidPartOrder") => {
                Err(Trouble::Again(error.into()))
            }
            // The service has put the parts together and found other bytes than the source's checksum promises.
            Err(Interrupted::Failed(error)) if route.whole.is_some() && error.code == "BadDigest" => {
                let message = format!(
                    "{error}: the parts do not add up to the source's checksum, so the service refused to make the object. Run the same command again."
                );
                Err(Trouble::Again(ObjectFailure::new(
                    FailureClass::Mismatch,
                    "ContentMismatch",
                    error.operation,
                    message,
                )))
            }
            Err(other) => Err(other.into()),
        }
    }

    /// After an upload turned out to be gone: whether the target is what it was meant to become.
    async fn completed_before(
        &self,
        route: &PartsRoute,
        source: &ObjectMeta,
        part_size: u64,
    ) -> Result<Option<Copy>, Trouble> {
        let Some(target) = self.head_target().await? else { return Ok(None) };
        let verified = match compare(Side::from(source), Side::from(&target), route.same_boundaries) {
            Verdict::Proven(verified) => verified,
            Verdict::Differs(_) | Verdict::Doubtful(_) => return Ok(None),
            // No common evidence: made of as many parts as ours, as long, and after this transfer was begun.
            Verdict::Unknown => {
                let plan = PartPlan { size: self.item.size, part_size: part_size.max(1) };
                let ours = etag_parts(&target.etag) == Some(plan.count())
                    && target.last_modified >= self.policy.since - CLOCK_SLACK;
                if !ours {
                    return Ok(None);
                }
                Verified::Size
            }
        };
        Ok(Some(Copy::found(State::Done, Method::Multipart, &target, verified)))
    }

    /// Drop the uploads that an interrupted run created but did not live to record. They hold no part, since no part starts
    /// before its upload is recorded; an upload of somebody else that is at work does hold one.
    pub(super) async fn drop_stale_uploads(&self) -> Result<(), Trouble> {
        let small =
            crate::evidence::needs_no_look(self.item.size, &self.item.etag, self.policy.wishes, &self.policy.limits);
        if small {
            return Ok(());
        }
        let (bucket, key) = (&self.policy.target_bucket, &self.item.target_key);
        let listed =
            self.target.call(bucket, 0, &self.retries, async |store| store.list_uploads(bucket, key).await).await;
        let uploads = match listed {
            Ok(uploads) => uploads,
            // Not allowed to look: the bucket's lifecycle rule has to do it.
            Err(Interrupted::Failed(error))
                if matches!(error.class, ErrorClass::Person | ErrorClass::Capability | ErrorClass::NotFound) =>
            {
                return Ok(());
            }
            Err(other) => return Err(other.into()),
        };
        let young = |initiated: f64| initiated >= self.policy.since - CLOCK_SLACK;
        for upload in uploads.into_iter().filter(|upload| upload.key == *key && young(upload.initiated)) {
            let parts = list_parts(self.target, bucket, key, &upload.upload_id, &self.retries).await;
            if matches!(&parts, Ok(parts) if parts.is_empty()) {
                abort(self.target, bucket, key, &upload.upload_id, &self.retries).await;
            }
        }
        Ok(())
    }

    /// Abort this object's open upload, if it has one.
    ///
    /// Once at once, so that it costs nothing more, and again when the parts that were sent have come to their end: a
    /// service may keep a part that arrives after the abort. With `to_the_end` also after the job was stopped; else a stop
    /// leaves the upload to whoever comes next.
    pub(crate) async fn drop_upload(&mut self, to_the_end: bool) {
        let Some((upload_id, part_size)) = self.item.upload.take() else { return };
        let target = self.target.uncancelled();
        let (bucket, key) = (&self.policy.target_bucket, &self.item.target_key);
        if !self.under_way.is_empty() {
            let _first = target
                .call(bucket, 0, &self.retries, async |store| store.abort_upload(bucket, key, &upload_id).await)
                .await;
            self.under_way.close();
            let stopped = async {
                if to_the_end {
                    std::future::pending::<()>().await;
                }
                self.target.cancel().cancelled().await;
            };
            tokio::select! {
                _over = tokio::time::timeout(LINGER, self.under_way.wait()) => {}
                () = stopped => {
                    self.item.upload = Some((upload_id, part_size));
                    self.under_way.reopen();
                    return;
                }
            }
            self.under_way.reopen();
        }
        abort(&target, bucket, key, &upload_id, &self.retries).await;
    }
}

/// Whether a part was answered for with the checksum of the whole source, which no part of several has.
fn is_wrong(part: Option<&str>, source: &ObjectMeta, plan: PartPlan) -> bool {
    let whole = source.checksum.as_ref().map(|sum| sum.value.as_str());
    plan.count() > 1 && part.is_some() && part == whole
}

/// Abort until the service has forgotten the upload: parts that were under way may survive the first time. Best effort: what
/// fails here is left to the bucket's lifecycle rule.
async fn abort(requests: &Requests, bucket: &str, key: &str, upload_id: &str, retries: &std::sync::atomic::AtomicU32) {
    for _ in 0..ABORTS {
        match requests.call(bucket, 0, retries, async |store| store.abort_upload(bucket, key, upload_id).await).await {
            Err(_) => return,
            Ok(()) => {
                if list_parts(requests, bucket, key, upload_id, retries).await.is_err() {
                    return;
                }
            }
        }
    }
}

async fn list_parts(
    requests: &Requests,
    bucket: &str,
    key: &str,
    upload_id: &str,
    retries: &std::sync::atomic::AtomicU32,
) -> Result<Vec<PartInfo>, Interrupted> {
    let mut parts = Vec::new();
    let mut after = None;
    loop {
        let page = requests
            .call(bucket, 0, retries, async |store| store.list_parts(bucket, key, upload_id, after).await)
            .await?;
        parts.extend(page.parts);
        match page.next {
            // A marker that does not move would turn for ever.
            Some(next) if Some(next) > after => after = Some(next),
            _ => return Ok(parts),
        }
    }
}
