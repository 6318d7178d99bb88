//! Streaming of objects: bytes are read from the source store and written to the target store. The digests
//! that verify them are computed on the way. Nothing is read twice.
//!
//! Bytes that were read are compared with the digest that the source states. The digest that the target keeps, or
//! replies with, is compared with the bytes that were sent. The weaker of both results counts. A disk states and keeps
//! no digest: bytes read from it count as what it holds, and bytes written to it as what it was given. Bytes that
//! differ from the source's digest never become an object.
//!
//! This module streams a small object by one GET and one PUT; [`parts`] streams a larger one.

mod decompressed;
mod order;
mod parts;
mod piece;
mod sent;
mod whole;

use std::time::Duration;

use futures::future::try_join_all;
use seqferry_client::reading::{DigestedBytes, PinnedReader, fetch_pinned};
use seqferry_client::{ChecksumSupport, RequestError, RequestSpec, UploadJournal};
use seqferry_store::checksum::{base64, hex};
use seqferry_store::error::classify::code;
use seqferry_store::{
    Advice, Attributes, Cause, Checksum, ChecksumAlgorithm, ChecksumKind, DigestAlgorithm, Digests, ErrorClass, MTIME,
    ObjectMeta, PutObject, StoreError, StoredMetadata, WrittenObject, join_aligned,
};

use super::disk::time_text;
use super::md5::MD5;
use super::{AttemptError, CopyResult, IfExists, Object, TargetAfterWrite, TargetState};
use crate::etags::{ObjectOrigin, StatedEtag, resolve_contradiction};
use crate::object_outcome::{CopyMethod, FailureClass, ObjectFailure, VerificationLevel};
use crate::plan::{PartPlan, etag_parts};
use crate::verification::{
    self, CopySide, ExpectedDigest, SegmentedDigest, Verdict, compare, is_digest, weaker_verdict,
};

/// Memory of an object that goes in one request besides its bytes: its requests, their connections and the
/// attributes of the object (measured: some 200 KiB). Without it a thousand small objects would count as nothing.
const BESIDES_BYTES: u64 = 192 << 10;

/// Time of a HEAD from which a source is far enough for several reads of such an object to end sooner than one: at a
/// shorter distance one connection is as fast as the network.
const FAR: Duration = Duration::from_millis(10);

/// The path of the bytes: inside the service, or through this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DataPath {
    /// The service copies them; streamed where it turns out that it cannot, and this process can read them.
    #[default]
    Copy,
    /// Through this process.
    Stream,
}

/// Digests and verdicts from reading and sending an object, before it is compared with the target.
struct StreamResult {
    /// Verdict on the bytes that were read, by the digest that the source states.
    read: Verdict,
    /// Checksum of the bytes sent.
    sum: Option<Checksum>,
    /// The `ETag` that the target should have, where that is known.
    etag: Option<String>,
    /// Doubt from the replies to the parts: one has an `ETag` that is not the MD5 of the bytes sent.
    doubt: Option<String>,
}

impl<J: UploadJournal> Object<'_, J> {
    /// True when the bytes of this object pass through this process.
    pub(super) fn streams(&self) -> bool {
        self.policy.data_path == DataPath::Stream
            || self.streams_unreadable
            || self.item.streamed
            || self.target.quirks().cannot_copy_from(self.source.connection(), &self.policy.source_bucket)
    }

    /// True when the bytes, if they pass through this process, go with one GET and one PUT and not in parts.
    pub(super) fn streams_in_one_request(&self) -> bool {
        let memory = self.source.budget().memory_limit();
        verification::streams_in_one_request(self.item.size, self.policy.part_options, &self.policy.limits, memory)
            && !self.has_parts_to_keep()
    }

    /// True when the source's `ETag` rests on several parts and no option changes them: with the same parts the
    /// target's `ETag` can be compared with it, now and later.
    fn has_parts_to_keep(&self) -> bool {
        let part_options = self.policy.part_options;
        part_options.part_size.is_none()
            && part_options.copy_threshold.is_none()
            && !self.has_opaque_etags()
            && etag_parts(&self.item.etag).is_some_and(|parts| parts > 1)
    }

    /// True when the write is made on condition that there is no target: none was found, or none may be replaced.
    pub(super) fn if_absent(&self) -> bool {
        // Even if the service refuses the condition: a target that cannot be read must not be replaced.
        if self.is_target_unreadable() {
            return true;
        }
        let wanted = match self.policy.if_exists {
            IfExists::Skip | IfExists::Fail => true,
            // A late write of this process must not replace what came after its work was done by another.
            IfExists::Same | IfExists::Size | IfExists::Overwrite => {
                self.target_state == TargetState::Nothing && self.target.capabilities().conditions
            }
        };
        wanted && !self.target.quirks().refuses_conditions()
    }

    /// Returns the `ETag` that the target had when it was checked: nothing else may be replaced.
    pub(super) fn if_match(&self) -> Option<String> {
        match (&self.target_state, self.policy.if_exists) {
            (TargetState::Object(etag), IfExists::Same | IfExists::Size | IfExists::Overwrite)
                if !etag.is_empty()
                    && self.target.capabilities().conditions
                    && !self.target.quirks().refuses_matches() =>
            {
                Some(etag.clone())
            }
            _ => None,
        }
    }

    /// Returns the cause of a write that was refused for its condition: something else is at the target now, or the
    /// service does not support the condition.
    pub(super) fn explain_refused_condition(&self, error: &StoreError, if_match: bool) -> Option<AttemptError> {
        let name = if if_match { "if-match" } else { "if-none-match" };
        if error.class == ErrorClass::Capability || error.message.to_ascii_lowercase().contains(name) {
            if if_match {
                self.target.quirks().learn_refused_matches();
            } else {
                self.target.quirks().learn_refused_conditions();
            }
            return Some(AttemptError::UnknownCondition);
        }
        let gone = if_match && error.class == ErrorClass::NotFound && error.cause() != Cause::UploadGone;
        if error.class != ErrorClass::Precondition && !gone {
            return None;
        }
        if self.is_target_unreadable() {
            return Some(self.uncomparable_target_error(error.operation));
        }
        // The next check of the target shows whether this transfer wrote it.
        let failure = match self.policy.if_exists {
            IfExists::Skip | IfExists::Fail => ObjectFailure { class: FailureClass::Exists, ..error.clone().into() },
            IfExists::Same | IfExists::Size | IfExists::Overwrite => {
                let message = format!(
                    "{error}: another program has written or removed {} since it was checked. {}",
                    self.target_address(),
                    Advice::RepeatAfterWriter
                );
                ObjectFailure::new(FailureClass::Mismatch, "TargetChanged", error.operation, message)
            }
        };
        Some(AttemptError::Again(failure))
    }

    /// Returns the target after a write was refused for its condition, if an attempt whose reply was lost has written
    /// it.
    async fn find_written(&self, sent: CopySide<'_>) -> Result<Option<WrittenObject>, AttemptError> {
        let TargetAfterWrite::Found(target) = self.head_written_target().await? else { return Ok(None) };
        if target.etag.is_empty() && target.checksum.is_none() && self.target.capabilities().digests {
            // Another attempt would get the same answers.
            let message = format!(
                "{} was written, and the answers state neither an ETag nor a checksum: it is not proven to be there. Have the endpoint, or the proxy before it, pass these headers on.",
                self.target_address()
            );
            let class = FailureClass::Store(ErrorClass::Object);
            return Err(AttemptError::Failed(ObjectFailure::new(class, code::MALFORMED, "PutObject", message)));
        }
        if !matches!(compare(sent, CopySide::from(&*target), true), Verdict::Verified(_)) {
            return Ok(None);
        }
        let ObjectMeta { etag, version_id, checksum, encryption, .. } = *target;
        Ok(Some(WrittenObject { etag, version_id, checksum, encryption }))
    }

    /// Explains a refused copy: if this process can read the source, the object is streamed, and the refusal is
    /// remembered.
    pub(super) async fn explain_refused_copy(&self, error: StoreError) -> AttemptError {
        let (source, target) = (self.source.connection(), self.target.connection());
        // To the target's credentials the source may be forbidden, or its bucket not there at all.
        let elsewhere = !source.is_same(target) && matches!(error.class, ErrorClass::Person | ErrorClass::NotFound);
        if (elsewhere || error.class == ErrorClass::Capability) && self.head_source().await.is_ok() {
            if self.target.quirks().learn_uncopyable(source, &self.policy.source_bucket)
                && error.class == ErrorClass::Capability
            {
                self.target.note(format!(
                    "s3://{}: the endpoint does not offer this copy ({} {}): the bytes pass through this process.",
                    self.policy.target_bucket, error.operation, error.code
                ));
            }
            return AttemptError::StreamInstead;
        }
        self.copy_error(error)
    }

    /// Choose the checksum that is sent with the bytes for the target to check and keep; `own` is the source's
    /// algorithm.
    fn sum_to_send(&self, own: Option<ChecksumAlgorithm>) -> Option<ChecksumAlgorithm> {
        if !self.target.capabilities().digests {
            // The one that records of uploads have.
            return Some(ChecksumAlgorithm::Crc64Nvme);
        }
        match self.target.quirks().sums() {
            ChecksumSupport::Any => {
                Some(self.policy.properties.checksum.or(own).unwrap_or(ChecksumAlgorithm::Crc64Nvme))
            }
            ChecksumSupport::Crc32C => Some(ChecksumAlgorithm::Crc32C),
            ChecksumSupport::Md5 => None,
        }
    }

    /// Returns the failure of a refused write. If a checksum was sent with it, the service may not support that
    /// checksum, or bytes are corrupted in transit.
    pub(super) fn explain_refused_write(&self, error: StoreError, sent: Option<ChecksumAlgorithm>) -> AttemptError {
        if error.is_about_bytes() {
            let message = format!(
                "{error}. What arrives is not what is sent, however often it is sent: something on the way to the storage changes bytes, and the storage has refused them. {}",
                Advice::FindFault
            );
            return AttemptError::Failed(ObjectFailure::new(
                FailureClass::Mismatch,
                "ContentMismatch",
                error.operation,
                message,
            ));
        }
        let about_sums = error.class == ErrorClass::Capability || error.is_about_checksums();
        match sent {
            Some(algorithm) if about_sums && self.target.capabilities().digests => {
                AttemptError::UnknownChecksum(algorithm)
            }
            _ => AttemptError::Failed(error.into()),
        }
    }

    /// Returns the attributes of the target; a file without a modification time gets the source's.
    pub(super) fn carried_attributes(&self, source: &ObjectMeta) -> Attributes {
        let mut attributes = self.policy.properties.attributes_of(source);
        let has_time = StoredMetadata::of(&attributes.metadata).modified.is_some();
        if self.target.capabilities().settable_times && source.last_modified > 0.0 && !has_time {
            attributes.metadata.insert(MTIME.to_owned(), time_text(source.last_modified));
        }
        attributes
    }

    /// Returns the failure of a read whose bytes do not have the digest that the source states: nothing was written, or
    /// nothing that is visible.
    fn misread_error(&self, how: &str) -> AttemptError {
        self.source.connection().store.invalidate(&self.pinned_source());
        let message =
            format!("{}: {how}. Nothing was written. {}", self.source_address(), Advice::RepeatOrAskAboutObject);
        AttemptError::Again(ObjectFailure::new(FailureClass::Mismatch, "ContentMismatch", "GetObject", message))
    }

    pub(super) async fn stream_in_one_request(&mut self) -> Result<CopyResult, AttemptError> {
        let size = self.item.size;
        let far = self.take_looked_up().filter(|(_, latency)| *latency >= FAR).map(|(meta, _)| meta);
        let has_ranges = size >= 2 * self.policy.limits.stream_range && !self.source.quirks().ignores_ranges();
        let ranged = far.filter(|_| has_ranges);
        // Ranges are joined in memory of their own.
        let held = if ranged.is_some() { 2 * size } else { size };
        let _memory = self.source.reserve_passing(held + BESIDES_BYTES, size).await?;
        let (meta, piece) = match ranged {
            Some(meta) => self.read_ranges(meta).await?,
            None => self.read_all().await?,
        };
        let reference = self.reference(&meta).await?;
        let read = match &reference {
            None => self.without_reference(),
            Some(reference) => {
                let verdict = reference.verdict(&compute_digest(reference, &piece));
                let stated = StatedEtag { is_exact: reference.is_exact(), ..self.stated_source() };
                resolve_contradiction(verdict, &[stated], &self.retry_context).await?
            }
        };
        if let Verdict::Differs(how) = &read {
            return Err(self.misread_error(how));
        }
        self.put_piece(meta, piece, read).await
    }

    /// Writes an object that is in memory as a whole, and verifies it. `read` is the verdict on its bytes.
    async fn put_piece(
        &mut self,
        meta: ObjectMeta,
        piece: DigestedBytes,
        read: Verdict,
    ) -> Result<CopyResult, AttemptError> {
        let size = piece.bytes.len() as u64;
        let tags = self.note_uncarried(&meta).await?;
        let write = self.write_options(Some(&meta)).await?;
        let algorithm = self.sum_to_send(full_object(&meta));
        let md5 = algorithm.is_none() || self.target.quirks().silent_sums();
        let mut attributes = self.carried_attributes(&meta);
        if self.keeps_md5() {
            attributes.metadata.insert(MD5.to_owned(), base64(&piece.digest(DigestAlgorithm::Md5)));
        }
        let object = PutObject {
            bucket: self.policy.target_bucket.clone(),
            key: self.item.target_key.clone(),
            attributes,
            tags,
            storage_class: self.policy.storage_class.clone(),
            write,
            digests: Digests {
                checksum: algorithm
                    .map(|algorithm| (algorithm, base64(&piece.digest(DigestAlgorithm::Checksum(algorithm))))),
                md5: md5.then(|| base64(&piece.digest(DigestAlgorithm::Md5))),
            },
            if_absent: self.if_absent(),
            if_match: self.if_match(),
            defer_sync: self.policy.defer_sync,
        };
        let again = self.retry_context.retries();
        let written = self.target.put_object(&object, &piece.bytes, &self.retry_context).await;
        let written = match written {
            Ok(written) => written,
            Err(RequestError::Failed(error)) => {
                let on_condition = object.if_absent || object.if_match.is_some();
                let refused =
                    if on_condition { self.explain_refused_condition(&error, object.if_match.is_some()) } else { None };
                let before = match &refused {
                    Some(AttemptError::Again(_)) if self.retry_context.retries() > again => {
                        let sum = object.digests.checksum.clone().map(|(algorithm, value)| Checksum {
                            algorithm,
                            value,
                            kind: ChecksumKind::FullObject,
                        });
                        let etag = hex(&piece.digest(DigestAlgorithm::Md5));
                        let sent =
                            CopySide { size: Some(size), etag: &etag, opaque_etag: false, checksum: sum.as_ref() };
                        self.find_written(sent).await?
                    }
                    _ => None,
                };
                match (before, refused) {
                    (Some(written), _) => written,
                    (None, Some(refused)) => return Err(refused),
                    (None, None) => return Err(self.explain_refused_write(error, algorithm)),
                }
            }
            Err(RequestError::Cancelled) => return Err(AttemptError::Cancelled),
        };
        self.active.add(size);
        let sum = object.digests.checksum.map(|(algorithm, value)| Checksum {
            algorithm,
            value,
            kind: ChecksumKind::FullObject,
        });
        if written.checksum.is_none() && self.target.capabilities().digests {
            self.target.quirks().learn_silent_sums();
        }
        // MD5 is needed only where the reply has no checksum.
        let etag =
            (written.checksum.is_none() && is_digest(&written.etag)).then(|| hex(&piece.digest(DigestAlgorithm::Md5)));
        drop(piece);
        self.verify_stream(StreamResult { read, sum, etag, doubt: None }, written, &meta, false).await
    }

    /// The whole object, with its attributes.
    async fn read_all(&self) -> Result<(ObjectMeta, DigestedBytes), AttemptError> {
        let size = self.item.size;
        let pinned = self.pinned_source();
        let call = RequestSpec::read("GetObject", &pinned.bucket).bytes(size).once();
        let read = self
            .source
            .call(call, &self.retry_context, async |store| {
                let fetched = fetch_pinned(&*store, &pinned, None).await?;
                let algorithms = self.digests_of_piece(&fetched.meta);
                let mut reader = PinnedReader::new(fetched.body, &pinned);
                let piece = reader.take(size, &algorithms).await?;
                reader.end().await?;
                Ok((fetched.meta, piece))
            })
            .await;
        match read {
            Ok(read) => Ok(read),
            Err(RequestError::Failed(error)) => Err(self.stream_error(error)),
            Err(RequestError::Cancelled) => Err(AttemptError::Cancelled),
        }
    }

    /// The whole object, read by several requests at a time. `meta` are its attributes, which no answer with a range
    /// states in full.
    async fn read_ranges(&self, meta: ObjectMeta) -> Result<(ObjectMeta, DigestedBytes), AttemptError> {
        let plan = PartPlan { size: self.item.size, part_size: self.policy.limits.stream_range };
        let ranges = (1..=plan.count()).filter_map(|number| plan.range(number));
        let pieces = try_join_all(ranges.map(|range| self.read_range(&[], range, None))).await?;
        let bytes = join_aligned(pieces.iter().map(|piece| &piece.bytes));
        let algorithms = self.digests_of_piece(&meta);
        Ok((meta, DigestedBytes::of(bytes, &algorithms)))
    }

    /// Digests that an object in one piece is verified by, or sent with.
    fn digests_of_piece(&self, meta: &ObjectMeta) -> Vec<DigestAlgorithm> {
        let checksum = self.sum_to_send(full_object(meta)).map(DigestAlgorithm::Checksum);
        let reference = ExpectedDigest::of(meta, None, &self.policy.limits).filter(|_| self.states_digests(meta));
        let mut algorithms: Vec<DigestAlgorithm> = checksum.into_iter().collect();
        algorithms.extend(reference.map(|r| r.algorithm).filter(|algorithm| Some(*algorithm) != checksum));
        algorithms.extend(self.keeps_md5().then_some(DigestAlgorithm::Md5));
        algorithms
    }

    /// True when the source may state a digest of its bytes. A disk states none, but an archive on it may.
    fn states_digests(&self, source: &ObjectMeta) -> bool {
        self.source.capabilities().digests || source.checksum.is_some()
    }

    /// Verdict on bytes of which the source states no digest: those of a disk count as what it holds.
    fn without_reference(&self) -> Verdict {
        if self.source.capabilities().digests {
            Verdict::Unknown
        } else {
            Verdict::Verified(VerificationLevel::Checksum)
        }
    }

    /// Returns the digest that the source states of its bytes. Requests the length of the first part if the digest
    /// depends on part boundaries, and the lengths of all parts if the first one does not determine them.
    pub(super) async fn reference(&self, source: &ObjectMeta) -> Result<Option<ExpectedDigest>, AttemptError> {
        if !self.states_digests(source) {
            return Ok(None);
        }
        let first_part = self.first_part(source).await?;
        match ExpectedDigest::of(source, first_part, &self.policy.limits) {
            None if first_part.is_some() => self.exact_reference(source).await,
            found => Ok(found),
        }
    }

    /// The digest over parts of the lengths that the source states; None where it states none.
    pub(super) async fn exact_reference(&self, source: &ObjectMeta) -> Result<Option<ExpectedDigest>, AttemptError> {
        let lengths = self.stated_source().part_sizes(&self.retry_context).await?;
        Ok(lengths.and_then(|lengths| ExpectedDigest::over(source, lengths)))
    }

    /// Verifies the target that was just written, or removes it.
    async fn verify_stream(
        &mut self,
        streamed: StreamResult,
        written: WrittenObject,
        source: &ObjectMeta,
        same_boundaries: bool,
    ) -> Result<CopyResult, AttemptError> {
        let etag = written.etag.clone();
        let settled = self.compare_stream(streamed, written, source, same_boundaries).await;
        self.remove_on_source_change(settled, &etag).await
    }

    async fn compare_stream(
        &mut self,
        streamed: StreamResult,
        mut written: WrittenObject,
        source: &ObjectMeta,
        same_boundaries: bool,
    ) -> Result<CopyResult, AttemptError> {
        let StreamResult { mut read, sum, etag, doubt } = streamed;
        let sent = CopySide {
            size: Some(self.item.size),
            etag: etag.as_deref().unwrap_or_default(),
            opaque_etag: etag.is_none(),
            checksum: sum.as_ref(),
        };
        let kept = if self.target.capabilities().digests {
            let mut kept = compare(sent, CopySide::from(&written), true);
            let mut seen = None;
            if !matches!(kept, Verdict::Verified(_) | Verdict::Differs(_)) {
                // The reply does not decide: HEAD of the target.
                match self.head_written_target().await? {
                    TargetAfterWrite::Gone => return Err(self.target_change_error("is gone")),
                    TargetAfterWrite::Found(target) if target.etag != written.etag => {
                        return Err(self.target_change_error("holds something else"));
                    }
                    TargetAfterWrite::Found(target) => {
                        kept = compare(sent, CopySide::from(&*target), true);
                        // Parts of an earlier run may have left gaps in the digests: the metadata of both sides may
                        // still verify them as equal.
                        let metadata_verdict =
                            compare(CopySide::from(source), CopySide::from(&*target), same_boundaries);
                        if self.source.capabilities().digests && matches!(metadata_verdict, Verdict::Verified(_)) {
                            (read, kept) = (metadata_verdict.clone(), metadata_verdict);
                        }
                        seen = Some(target);
                    }
                    TargetAfterWrite::Denied => {}
                }
            }
            self.note_checksum(&written, seen.as_deref());
            written.checksum = seen.and_then(|target| target.checksum).or(written.checksum);
            let kept = match (kept, doubt) {
                (Verdict::Unknown, Some(how)) => Verdict::Doubtful(how),
                (kept, _) => kept,
            };
            resolve_contradiction(kept, &[self.stated_target(ObjectOrigin::Sent)], &self.retry_context).await?
        } else {
            if matches!(read, Verdict::Unknown) {
                // Parts of an earlier run have left gaps in the digests, and a file is cheap to read.
                let TargetAfterWrite::Found(target) = self.head_written_target().await? else {
                    return Err(self.target_change_error("is gone"));
                };
                read = self.compare_sides(source, &target, same_boundaries, false).await?;
            }
            Verdict::Verified(VerificationLevel::Checksum)
        };
        written.checksum = written.checksum.or(sum);
        self.conclude(CopyMethod::Stream, weaker_verdict(read, kept), written).await
    }
}

/// The source's algorithm, when its value is one over the full object.
fn full_object(source: &ObjectMeta) -> Option<ChecksumAlgorithm> {
    source.checksum.as_ref().filter(|sum| sum.kind == ChecksumKind::FullObject).map(|sum| sum.algorithm)
}

/// Computes the digest of a reference over bytes that are in memory as a whole.
fn compute_digest(reference: &ExpectedDigest, piece: &DigestedBytes) -> String {
    if reference.cut.is_none() {
        return verification::format_digest(reference.algorithm, &piece.digest(reference.algorithm));
    }
    let mut segments = SegmentedDigest::new(reference);
    segments.update(&piece.bytes);
    segments.finish()
}
