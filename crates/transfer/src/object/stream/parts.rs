//! Streaming in parts: as many concurrently as the budget of memory allows. A part for a service is held from its first
//! byte read to its last one written, since it may have to be sent again. Only a window of a part for a disk is held.
//!
//! The upload is begun, recorded and resumed like that of a copy in parts ([`super::super::upload`]). Only the way in
//! which a part is made differs ([`super::piece`]). Where ranges are ignored, one read of the whole object feeds the
//! parts in order ([`super::whole`]).

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::stream::{FuturesUnordered, StreamExt as _};
use seqferry_client::budget::MemoryPermit;
use seqferry_client::{ChecksumSupport, UploadJournal};
use seqferry_store::{Advice, ChecksumAlgorithm, ChecksumKind, DigestAlgorithm, ErrorClass, ObjectMeta, Range};
use tokio::sync::Notify;
use tracing::{Instrument as _, debug_span};

use super::super::upload::OpenedUpload;
use super::super::{AttemptError, CopyResult, Object};
use super::order::PartOrder;
use super::sent::{StreamSettings, StreamedPart, of_listed_part, whole_etag, whole_sum};
use super::{StreamResult, verification};
use crate::etags::{ObjectOrigin, StatedEtag, resolve_contradiction};
use crate::object_outcome::{CopyMethod, FailureClass, ObjectFailure};
use crate::verification::{ExpectedDigest, PartsRoute, StreamRoute, Verdict};

/// Memory for a part that is written while it is read: bytes that arrive from the service and bytes that go to the
/// disk.
const WINDOW: u64 = 2 << 20;
impl<J: UploadJournal> Object<'_, J> {
    pub(in crate::object) async fn stream_in_parts(&mut self, source: &ObjectMeta) -> Result<CopyResult, AttemptError> {
        let mut route = self.stream_route(source).await?;
        let memory = self.source.budget().memory_limit();
        if self.holds(&route) && self.upload.open().is_some_and(|upload| upload.part_size > memory) {
            // Begun by a copy, in parts that are too large to pass through here.
            self.upload.abort(false).await;
        }
        let done = match self.open_upload(&mut route.parts, source).await? {
            OpenedUpload::Upload(done) => done,
            OpenedUpload::Completed(written) => {
                let same_boundaries = route.parts.same_boundaries;
                return self.verify(CopyMethod::Stream, written, Some(source.clone()), same_boundaries).await;
            }
        };
        let sum = route.parts.checksum.map(|(algorithm, _)| algorithm);
        let mut sending =
            StreamSettings { route: &route, algorithms: sum.into_iter().map(DigestAlgorithm::Checksum).collect(), sum };
        let md5 = (self.target.capabilities().digests && (sum.is_none() || self.target.quirks().silent_sums()))
            .then_some(DigestAlgorithm::Md5);
        for wanted in [sending.route.by_parts().map(|reference| reference.algorithm), md5].into_iter().flatten() {
            if !sending.algorithms.contains(&wanted) {
                sending.algorithms.push(wanted);
            }
        }
        let mut sent: BTreeMap<u32, StreamedPart> =
            done.into_iter().map(|(number, part)| (number, of_listed_part(part, &sending))).collect();
        let there: u64 = sent.keys().filter_map(|n| route.parts.plan.range(*n)).map(|range| range.len()).sum();
        self.active.add(there);

        // Parts of an earlier run cannot be read in order with the rest.
        let order = sending.route.in_order().filter(|_| sent.is_empty()).map(PartOrder::new);
        let order = if self.source.quirks().ignores_ranges() && route.parts.plan.count() > 1 {
            self.stream_whole(&sending, &mut sent).await?
        } else {
            self.stream_ranges(&sending, order.as_ref(), &mut sent).await?;
            order.and_then(|order| order.finish())
        };
        // Parts of an earlier run count by the ETags that the target states of them.
        let is_exact = sending.route.reference.as_ref().is_some_and(ExpectedDigest::is_exact);
        let stated_source = StatedEtag { is_exact, ..self.stated_source() };
        let stated = [stated_source, self.stated_target(ObjectOrigin::Sent)];
        let stated = if there > 0 { &stated[..] } else { &stated[..1] };
        let read =
            resolve_contradiction(self.what_was_read(&sending, &sent, order), stated, &self.retry_context).await?;
        if let Verdict::Differs(how) = &read {
            return Err(self.misread_error(how));
        }

        let whole = whole_sum(&sending, &sent);
        if let Some(error) = self.differs_from_before(whole.as_ref()) {
            return Err(error);
        }
        let etag = whole_etag(&sent);
        let doubt = sent.iter().find(|(_, sent)| sent.plain == Some(false)).map(|(number, sent)| {
            format!("part {number} was answered with ETag {}, which is not the MD5 of what was sent", sent.part.etag)
        });
        let mut parts = route.parts.clone();
        parts.whole = whole.clone().filter(|sum| sum.kind == ChecksumKind::FullObject);
        let completed = sent.into_iter().map(|(number, sent)| (number, sent.part)).collect();
        let written = self.complete(&parts, source, completed).await?;
        let same_boundaries = parts.same_boundaries;
        self.verify_stream(StreamResult { read, sum: whole, etag, doubt }, written, source, same_boundaries).await
    }

    async fn stream_route(&self, source: &ObjectMeta) -> Result<StreamRoute, AttemptError> {
        let reference = self.reference(source).await?;
        let memory = self.source.budget().memory_limit();
        let (part_options, limits) = (self.policy.part_options, &self.policy.limits);
        let target = self.target.capabilities();
        let held = if target.streamed_parts { u64::MAX } else { memory };
        let mut route = verification::choose_stream_route(source.size, reference, part_options, limits, held)
            .map_err(|error| self.too_large(&error))?;
        let part_size = route.parts.plan.part_size;
        if part_size.min(source.size) > memory && self.holds(&route) {
            let message = format!(
                "{} has {} bytes and needs parts of {part_size} bytes, more than may be buffered ({memory} bytes). {}",
                self.source_address(),
                source.size,
                if part_options.part_size.is_some() { Advice::RaiseMemoryOrCutParts } else { Advice::RaiseMemory }
            );
            return Err(AttemptError::Failed(ObjectFailure::new(
                FailureClass::Store(ErrorClass::Object),
                "PartTooLarge",
                "UploadPart",
                message,
            )));
        }
        self.choose_checksum(&mut route.parts);
        Ok(route)
    }

    /// Chooses the checksum that is sent with the parts, by what the target takes and the policy asks for.
    pub(super) fn choose_checksum(&self, parts: &mut PartsRoute) {
        match self.target.quirks().sums() {
            ChecksumSupport::Any if !self.target.capabilities().digests => {
                // The one that records of uploads have.
                parts.checksum = Some((ChecksumAlgorithm::Crc64Nvme, ChecksumKind::FullObject));
            }
            ChecksumSupport::Any => {
                if let Some(requested) = self.policy.properties.checksum {
                    parts.keep(requested);
                }
            }
            ChecksumSupport::Crc32C => {
                parts.checksum = Some((ChecksumAlgorithm::Crc32C, ChecksumKind::FullObject));
            }
            ChecksumSupport::Md5 => parts.checksum = None,
        }
    }

    /// Send every part that is not there, each from a read of its own.
    async fn stream_ranges(
        &self,
        sending: &StreamSettings<'_>,
        order: Option<&PartOrder>,
        sent: &mut BTreeMap<u32, StreamedPart>,
    ) -> Result<(), AttemptError> {
        let plan = sending.plan();
        let missing: Vec<u32> = (1..=plan.count()).filter(|number| !sent.contains_key(number)).collect();
        let mut missing = missing.into_iter().filter_map(|number| Some((number, plan.range(number)?))).peekable();
        let mut parts = FuturesUnordered::new();
        let stream = |number, range, memory, answered| async move {
            let part = self.stream_part(sending, order, (number, range), memory, answered).await?;
            Ok::<_, AttemptError>((number, part))
        };
        if !self.source.capabilities().reliable_ranges
            && plan.count() > 1
            && let Some((number, range)) = missing.peek().copied()
        {
            // The first read of a range may be answered with the whole object: not by all at a time.
            let source = self.source;
            let trial = tokio::select! {
                biased;
                () = source.cancel().cancelled() => return Err(AttemptError::Cancelled),
                trial = source.quirks().try_ranges() => trial,
            };
            if let Some(trial) = trial {
                missing.next();
                let memory = self.reserve(range, order).await?;
                let answered = Arc::new(Notify::new());
                parts.push(stream(number, range, memory, Some(Arc::clone(&answered))));
                // Its head shows it: the other parts need not wait for its bytes.
                tokio::select! {
                    Some(part) = parts.next() => {
                        let (number, part) = part?;
                        sent.insert(number, part);
                    }
                    () = answered.notified() => {}
                }
                trial.kept();
            } else if self.source.quirks().ignores_ranges() {
                // Found out by another object while this one waited.
                return Err(AttemptError::RangesIgnored);
            }
        }
        let mut turn = Some(self.slots.multipart().await?);
        let mut next = FuturesUnordered::new();
        loop {
            if next.is_empty() {
                match missing.next() {
                    // One at a time, and in order: each part has its memory before the parts that wait for it.
                    Some((number, range)) => {
                        next.push(
                            async move { Ok::<_, AttemptError>((number, range, self.reserve(range, order).await?)) },
                        );
                    }
                    // The last parts are under way: another object's may follow them.
                    None => drop(turn.take()),
                }
            }
            tokio::select! {
                Some(reserved) = next.next() => {
                    let (number, range, memory) = reserved?;
                    parts.push(stream(number, range, memory, None));
                }
                Some(part) = parts.next() => {
                    // The first failure drops the other parts under way.
                    let (number, part) = part?;
                    sent.insert(number, part);
                }
                else => return Ok(()),
            }
        }
    }

    /// True when parts are held in memory whole: to be sent again, or until their turn in a digest over all of them.
    fn holds(&self, route: &StreamRoute) -> bool {
        !self.target.capabilities().streamed_parts || route.in_order().is_some()
    }

    /// Wait until a part may be read.
    async fn reserve(&self, range: Range, order: Option<&PartOrder>) -> Result<Option<MemoryPermit>, AttemptError> {
        let held = if self.writes_as_it_reads(order) { range.len().min(WINDOW) } else { range.len() };
        Ok(self.source.reserve_passing(held, range.len()).await?)
    }

    /// True when parts are written while they are read: a disk takes bytes in any number. A part that waits for its
    /// turn in a digest over all of them is held in memory instead.
    fn writes_as_it_reads(&self, order: Option<&PartOrder>) -> bool {
        self.target.capabilities().streamed_parts && order.is_none()
    }

    /// Read a part, and send it. `answered` is notified when the service answers the read with the range.
    async fn stream_part(
        &self,
        sending: &StreamSettings<'_>,
        order: Option<&PartOrder>,
        (number, range): (u32, Range),
        memory: Option<MemoryPermit>,
        answered: Option<Arc<Notify>>,
    ) -> Result<StreamedPart, AttemptError> {
        let span = debug_span!("part", part = number, size = range.len());
        let sent = async {
            if self.writes_as_it_reads(order) {
                let part = self.write_range(sending, number, range, answered).await;
                drop(memory);
                return part;
            }
            let piece = self.read_range(&sending.algorithms, range, answered).await?;
            self.send(sending, order, number, piece, memory).await
        };
        sent.instrument(span).await
    }
}
