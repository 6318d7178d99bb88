//! The steps of one archive: inspect the target, open the upload, send, complete, verify, write the index.
//!
//! After a kill before Complete, a later run finds the recorded upload and sends the missing parts. After a kill behind
//! Complete, the archive has the `ETag` that was recorded before it. It is not made again, and only the index is
//! written. An earlier archive of the same members is known by its metadata [`MADE_OF`], the digest of its members.

use std::collections::BTreeMap;
use std::sync::Arc;

use seqferry_client::upload::CLOCK_SLACK;
use seqferry_client::{
    ChecksumSupport, KeyLookup, RequestError, RequestSpec, RetryContext, RetryingClient, UploadSession,
};
use seqferry_store::{
    Advice, Attributes, ChecksumAlgorithm, ChecksumKind, CompletedPart, CreateUpload, ErrorClass, ObjectMeta,
    ObjectRef, ObjectUri, PartInfo, Scope, StoreError,
};
use tokio::sync::RwLock;

use super::PackOptions;
use super::complete::{recording, written_object};
use super::error::{ArchiveFailure, PackError};
use super::job::{MADE_OF, PackJob, PackedArchive};
use super::member_report::MemberReport;
use super::parts::{Sender, SentPart, StatedCrcs};
use super::plan::{Members, PartRules, Plan};
use super::recent_members::RecentMembers;
use super::sidecar;
use super::split_members::SplitMembers;
use crate::clock::now;
use crate::job::JobState;
use crate::object::{DataPath, IfExists, JobItem, Policy, TargetState, was_rewritten};
use crate::object_outcome::{CopyMethod, FailureClass, ObjectFailure, ObjectState, VerificationLevel};
use crate::verification::{is_digest, unhex};

const CONTENT_TYPE: &str = "application/x-tar";

/// Makes one archive of `items`, and reports the outcome of each.
pub(super) async fn run(
    shared: Arc<JobState>,
    source: RetryingClient,
    target: RetryingClient,
    policy: Policy,
    options: PackOptions,
    mut items: Vec<JobItem>,
) {
    let Some(first) = items.first() else { return shared.end() };
    let (id, key) = (first.id, first.target_key.clone());
    let recorded = items.iter_mut().find_map(|item| item.upload.take());
    let active = shared.counters.begin(id, &key, items.iter().map(|item| item.size).sum());
    let members = Arc::new(Members::new(items, &options.strip));
    let retry_context = Arc::new(RetryContext::default());
    let mut pack = PackJob {
        shared: Arc::clone(&shared),
        source,
        target,
        policy,
        options,
        key,
        members,
        retry_context,
        id,
        active,
        again: false,
        thrice: false,
        archives: 0,
        there: TargetState::Unknown,
        rejected: None,
        recorded,
    };
    let started_at = now();
    let end = if shared.cancel.is_cancelled() && !pack.policy.only_clean { None } else { pack.make().await };
    pack.report(end, started_at).await;
    shared.end();
}

impl PackJob {
    /// Makes the archive. None: the job was stopped before the end; an open upload stays open, and recorded.
    async fn make(&mut self) -> Option<Result<PackedArchive, ArchiveFailure>> {
        loop {
            match self.attempt().await {
                Ok(packed) => return Some(Ok(packed)),
                Err(PackError::Cancelled) => return None,
                Err(PackError::Relearned) => {
                    self.active.reset();
                    self.abort(false).await;
                }
                // An attempt that met other members than were listed does not use up the one archive that may follow
                // another.
                Err(PackError::Again(_)) if !self.again || !self.thrice && self.archives == 1 => {
                    self.thrice = self.again;
                    self.again = true;
                    self.active.reset();
                    self.abort(false).await;
                    match self.recheck_source().await {
                        Ok(()) => {}
                        Err(PackError::Failed(failed) | PackError::Again(failed)) => return Some(Err(*failed)),
                        Err(PackError::Cancelled | PackError::Relearned) => return None,
                    }
                }
                Err(PackError::Again(failed) | PackError::Failed(failed)) => {
                    if failed.failure.scope != Scope::Job {
                        self.abort(false).await;
                    }
                    return Some(Err(*failed));
                }
            }
        }
    }

    async fn report(mut self, end: Option<Result<PackedArchive, ArchiveFailure>>, started_at: f64) {
        let report = MemberReport { pack: &self, started_at };
        match end {
            Some(Ok(packed)) => report.report_packed(&packed),
            Some(Err(failed)) if failed.failure.scope == Scope::Job => {
                self.shared.fail(Some(failed.failure));
                self.abort(true).await;
            }
            Some(Err(failed)) => report.report_failed(&failed),
            None if self.policy.only_clean || self.shared.aborts() => {
                self.abort(true).await;
                if self.shared.may_write() {
                    MemberReport { pack: &self, started_at }.report_cancelled();
                }
            }
            None if self.shared.has_failed() => self.abort(true).await,
            None => {}
        }
        self.shared.counters.end(&self.active, None);
    }

    pub(super) fn session(&self) -> UploadSession {
        let (bucket, retry_context) = (&self.policy.target_bucket, Arc::clone(&self.retry_context));
        let session = UploadSession::new(self.target.clone(), bucket, &self.key, self.policy.since, retry_context);
        session.recorded(self.recorded.clone())
    }

    pub(super) async fn abort(&mut self, to_the_end: bool) {
        let mut session = self.session();
        session.abort(to_the_end).await;
        self.recorded = session.open().cloned();
    }

    async fn attempt(&mut self) -> Result<PackedArchive, PackError> {
        if self.policy.only_clean {
            self.abort(false).await;
            let _best_effort = self.session().sweep(None).await;
            return Err(PackError::Cancelled);
        }
        let copies = self.source.capabilities().server_copies && self.target.capabilities().server_copies;
        let uncopyable = self.target.quirks().cannot_copy_from(self.source.connection(), &self.policy.source_bucket);
        let rules = PartRules {
            copies: self.policy.data_path == DataPath::Copy && copies && !uncopyable,
            uniform: self.target.capabilities().uniform_parts,
            memory: self.source.budget().memory_limit(),
        };
        let mut plan = Plan::new(&self.members, &self.policy, rules).map_err(|refused| self.plan_refusal(&refused))?;
        if self.recorded.is_some() && self.may_have_other_bytes().await? {
            self.abort(false).await;
        }
        if let Some(found) = self.check_target(&plan).await? {
            return Ok(found);
        }
        let mut sum = self.sum();
        let stated = self.choose_copies(&mut plan, sum).await?;
        let recorded = self.recorded.as_ref().is_some_and(|upload| upload.part_size == plan.fingerprint);
        let plan = Arc::new(plan);
        let mut session = self.session();
        let done = self.open(&plan, &mut session, sum).await?;
        if done.values().any(|part| part.part.checksum.is_none()) {
            // Created without an algorithm, or by a service that does not list its checksums.
            sum = sum.filter(|_| !self.target.capabilities().digests);
        }
        let unproven = plan.copied_members().into_iter().any(|member| !stated.contains_key(&member));
        if recorded && plan.copies() && (done.is_empty() || unproven && sum.is_some()) {
            // No answer says whether it was created with a checksum, which copies need. A new one costs nothing.
            session.abort(false).await;
            self.recorded = session.open().cloned();
            return Err(PackError::Relearned);
        }
        self.recorded = session.open().cloned();
        let sums = self.source.capabilities().digests;
        let split = if sums { SplitMembers::of(&plan, &self.members, &done) } else { SplitMembers::default() };
        let sender = Arc::new(Sender {
            source: self.source.clone(),
            source_bucket: self.policy.source_bucket.clone(),
            target: self.target.clone(),
            session: RwLock::new(session),
            members: Arc::clone(&self.members),
            split,
            plan,
            sum,
            stated,
            limits: self.policy.limits,
            active: Arc::clone(&self.active),
            retry_context: Arc::clone(&self.retry_context),
            slots: self.shared.slots.clone(),
            young: RecentMembers::new(self.settling_time()),
        });
        let mut sent = done;
        let read = match sender.send_missing(&mut sent).await {
            Ok(()) => sender.verify_split_members(&mut sent).await,
            failed => failed,
        };
        let result = match read.and_then(|()| sender.verify_copied_members(&sent)) {
            Ok(proven) => {
                self.archives += u32::from(!self.settling_time().is_zero());
                self.require_rest(&sender).await.map(|()| proven)
            }
            Err(error) => Err(self.part_error(error, sum).await),
        };
        let proven = match result {
            Ok(proven) => proven,
            Err(error) => {
                // Parts that were sent are waited for before the upload is aborted.
                let mut session = sender.session.write().await;
                if !matches!(error, PackError::Cancelled) || self.shared.aborts() {
                    session.abort(self.shared.aborts()).await;
                }
                self.recorded = session.open().cloned();
                return Err(error);
            }
        };
        self.complete(&sender, &sent, proven).await
    }

    /// Decides which members the storage copies: those whose copies can be verified. Returns what their sources state.
    async fn choose_copies(
        &mut self,
        plan: &mut Plan,
        sum: Option<ChecksumAlgorithm>,
    ) -> Result<StatedCrcs, PackError> {
        let recorded = self.recorded.as_ref().map(|upload| upload.part_size);
        let stated = self.stated_crcs(plan, sum).await?;
        if !plan.copies() || recorded == Some(plan.fingerprint) {
            // The run that began this upload has checked the replies to copies, or is of a version that copied all.
            return Ok(stated);
        }
        plan.copy_only(|member| stated.contains_key(&member)).map_err(|refused| self.plan_refusal(&refused))?;
        if !plan.copies() || recorded == Some(plan.fingerprint) {
            return Ok(stated);
        }
        // The run that began an upload without copies has found that they cannot be verified.
        let is_streamed = recorded.is_some() && recorded == plan.streamed_fingerprint();
        if is_streamed || !self.try_copied_sums(&stated).await? {
            plan.copy_only(|_| false).map_err(|refused| self.plan_refusal(&refused))?;
            return Ok(StatedCrcs::new());
        }
        Ok(stated)
    }

    /// Returns the upload's checksum. It also covers copied parts, which are verified by the replies.
    fn sum(&self) -> Option<ChecksumAlgorithm> {
        match self.target.quirks().sums() {
            _ if !self.target.capabilities().digests => Some(ChecksumAlgorithm::Crc64Nvme),
            ChecksumSupport::Any => Some(ChecksumAlgorithm::Crc64Nvme),
            ChecksumSupport::Crc32C => Some(ChecksumAlgorithm::Crc32C),
            ChecksumSupport::Md5 => None,
        }
    }

    pub(super) fn address(&self) -> ObjectUri<'_> {
        ObjectUri(&self.policy.target_bucket, Some(&self.key))
    }

    /// Decides by the object at the target. None: make the archive.
    async fn check_target(&mut self, plan: &Plan) -> Result<Option<PackedArchive>, PackError> {
        let target = match self.head_target().await {
            Ok(target) => target,
            Err(RequestError::Failed(error)) if error.class == ErrorClass::NotFound => {
                self.there = TargetState::Nothing;
                return Ok(None);
            }
            // Write-only access: the write itself is made on condition then.
            Err(RequestError::Failed(error)) if error.is_denied() && self.policy.if_exists == IfExists::Overwrite => {
                return Ok(None);
            }
            Err(other) => return Err(other.into()),
        };
        self.there = TargetState::Object(target.etag.clone());
        if self.rejected.as_ref() == Some(&target.etag) {
            return Ok(None);
        }
        let made_of = match target.attributes.metadata.get(MADE_OF) {
            None if !self.target.capabilities().metadata => self.read_identity(&target).await?,
            kept => kept.cloned(),
        };
        let has_size = target.size == plan.total();
        let is_same = made_of.as_ref() == Some(&plan.digest) && has_size;
        let is_ours = if self.target.capabilities().metadata {
            let completed = self.recorded.as_ref().and_then(|upload| upload.etag.as_ref());
            has_size && completed == Some(&target.etag)
        } else {
            is_same && self.policy.resumed && target.last_modified >= self.policy.since - CLOCK_SLACK
        };
        let state = match self.policy.if_exists {
            _ if is_ours => ObjectState::Done,
            IfExists::Same if is_same => ObjectState::Skipped,
            IfExists::Size if has_size => ObjectState::Skipped,
            IfExists::Skip => ObjectState::Skipped,
            IfExists::Fail => {
                let message = format!("{} exists, and {}", self.address(), Advice::ReplaceTarget);
                let failure = ObjectFailure::new(FailureClass::Exists, "TargetExists", "HeadObject", message);
                return Err(PackError::failed(None, failure));
            }
            IfExists::Same | IfExists::Size | IfExists::Overwrite => return Ok(None),
        };
        let written = written_object(&target);
        if (is_ours || is_same) && self.options.index && !self.has_index().await? {
            self.write_index(plan, &target, None, &[]).await?;
        }
        let verified = match self.policy.if_exists {
            _ if is_ours || is_same => VerificationLevel::Etag,
            IfExists::Size => VerificationLevel::Size,
            _ => VerificationLevel::No,
        };
        let method = if is_ours { CopyMethod::Multipart } else { CopyMethod::None };
        self.abort(false).await;
        Ok(Some(PackedArchive { state, method, target: written, verified, contents: Vec::new() }))
    }

    pub(super) async fn head_target(&self) -> Result<ObjectMeta, RequestError> {
        self.head(&self.key).await
    }

    pub(super) async fn head(&self, key: &str) -> Result<ObjectMeta, RequestError> {
        let bucket = &self.policy.target_bucket;
        self.target
            .call(RequestSpec::read("HeadObject", bucket), &self.retry_context, async |store| {
                store.head(ObjectRef::new(bucket, key), None).await
            })
            .await
    }

    /// The upload to continue with, and the parts that it holds.
    async fn open(
        &self,
        plan: &Plan,
        session: &mut UploadSession,
        sum: Option<ChecksumAlgorithm>,
    ) -> Result<BTreeMap<u32, SentPart>, PackError> {
        if session.open().is_some_and(|upload| upload.part_size != plan.fingerprint) {
            // Of other members, or cut in another way.
            session.abort(false).await;
        }
        if let Some(parts) = session.adopt().await? {
            let found: BTreeMap<u32, SentPart> =
                parts.into_iter().filter_map(|part| Some((part.number, of_listed_part(plan, part)?))).collect();
            let there = found.keys().filter_map(|number| plan.part(*number)).map(|part| plan.contents(&part.range));
            self.active.add(there.sum());
            return Ok(found);
        }
        if self.policy.resumed {
            session.sweep(None).await?;
        }
        let mut attributes = Attributes { content_type: Some(CONTENT_TYPE.to_owned()), ..Attributes::default() };
        attributes.metadata.insert(MADE_OF.to_owned(), plan.digest.clone());
        let request = CreateUpload {
            attributes,
            storage_class: self.policy.storage_class.clone(),
            write: self.policy.properties.explicit_options(),
            checksum: sum.map(|algorithm| (algorithm, ChecksumKind::FullObject)),
            part_size: plan.part_size,
            size: plan.total(),
            ..session.request()
        };
        let journal = self.shared.journal(self.id);
        match session.begin(&request, &recording(&journal, plan)).await {
            Ok(()) => Ok(BTreeMap::new()),
            Err(RequestError::Failed(error)) => Err(self.explain_refused_write(error, sum)),
            Err(RequestError::Cancelled) => Err(PackError::Cancelled),
        }
    }

    /// True when an earlier run may have read other bytes than the files hold now: see [`was_rewritten`].
    async fn may_have_other_bytes(&self) -> Result<bool, PackError> {
        if !self.source.capabilities().in_place_changes {
            return Ok(false);
        }
        let keys = self.members.items().iter().map(|item| item.source_key.clone()).collect();
        let found = self.source.look_up(&self.policy.source_bucket, keys).await?;
        let rewritten =
            |lookup: &KeyLookup| matches!(lookup, KeyLookup::Object(meta) if was_rewritten(meta, &self.policy));
        Ok(found.iter().any(|(_, lookup)| rewritten(lookup)))
    }

    /// Updates all members to their present state.
    async fn recheck_source(&mut self) -> Result<(), PackError> {
        let Some(members) = Arc::get_mut(&mut self.members) else { return Err(PackError::Cancelled) };
        let bucket = &self.policy.source_bucket;
        // A version never changes.
        let current = |item: &&mut JobItem| item.version_id.is_none();
        let keys = members.items_mut().iter_mut().filter(current).map(|item| item.source_key.clone()).collect();
        let found = self.source.look_up(bucket, keys).await?;
        let mut gone = None;
        for (item, (_, lookup)) in members.items_mut().iter_mut().filter(current).zip(found) {
            match lookup {
                KeyLookup::Object(meta) => (item.size, item.etag) = (meta.size, meta.etag),
                KeyLookup::NoObject(error) => return Err(PackError::failed(None, *error)),
                KeyLookup::Absent => gone = gone.or_else(|| Some(item.source_key.clone())),
            }
        }
        let Some(key) = gone else { return Ok(()) };
        let member = self.members.items().iter().position(|item| item.source_key == key).unwrap_or_default();
        let error = StoreError::new("HeadObject", bucket, Some(&key), "NoSuchKey", Some(404));
        Err(PackError::failed(Some(member), self.change_failure(member, &error)))
    }

    pub(super) async fn has_index(&self) -> Result<bool, PackError> {
        match self.head(&sidecar::key(&self.key)).await {
            Ok(_) => Ok(true),
            Err(RequestError::Failed(error)) if error.class == ErrorClass::NotFound => Ok(false),
            Err(other) => Err(other.into()),
        }
    }
}

/// A part of an earlier run, if it is as long as the plan's.
fn of_listed_part(plan: &Plan, part: PartInfo) -> Option<SentPart> {
    let range = &plan.part(part.number)?.range;
    let fits = range.end - range.start == part.size;
    let md5 = unhex(&part.etag).filter(|_| is_digest(&part.etag));
    let sum = part.checksum.clone();
    let part = CompletedPart { number: part.number, etag: part.etag, checksum: part.checksum };
    fits.then_some(SentPart { part, sum, md5, is_sent: false, fetches: Vec::new() })
}
