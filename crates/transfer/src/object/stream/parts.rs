//! Streaming in parts: as many side by side as the budget of memory allows. On its way to a service each is held from its first
//! byte read to its last one written, since it may have to be sent again; on its way to a disk only a window of it is.
//!
//! The upload is begun, recorded and resumed as that of a copy in parts is ([`super::super::upload`]); only how a part comes
//! about differs. Where ranges are ignored, one read of the whole object feeds the parts in order.

use std::collections::BTreeMap;

use futures::stream::{FuturesUnordered, StreamExt as _};
use seqferry_client::reading::{DigestedBytes, PinnedReader, check_pin, with_digests};
use seqferry_client::request::join_request;
use seqferry_client::upload::PartBody;
use seqferry_client::{RequestError, RequestSpec, Sums};
use seqferry_store::budget::MemoryPermit;
use seqferry_store::checksum::{base64, hex, unbase64};
use seqferry_store::error::classify::code;
use seqferry_store::{
    Checksum, ChecksumAlgorithm, ChecksumKind, CompletedPart, Copied, DigestAlgorithm, Digests, ErrorClass, Fetched,
    ObjectMeta, Range, StoreError,
};
use tokio_util::task::AbortOnDropHandle;

use super::super::upload::Opened;
use super::super::{CopyResult, Journal, Object, Trouble};
use super::order::InOrder;
use super::{Streamed, evidence};
use crate::evidence::{Reference, StreamRoute, Verdict, assembled, is_digest, shown};
use crate::outcome::{FailureClass, Method, ObjectFailure, Verified};
use crate::plan::PartPlan;

/// Memory for a part that is written while it is read: what the way from the service holds, and what is on its way to the disk.
const WINDOW: u64 = 2 << 20;
/// How often one read of the whole object is begun.
const WHOLE_READS: u32 = 4;

/// A part that is at the target.
#[derive(Debug, Clone)]
struct Sent {
    part: CompletedPart,
    /// The upload's checksum of it, Base64; unknown for parts of an earlier run where the service does not list it.
    sum: Option<String>,
    /// What the reference wants to know of it, where its stretches are the parts.
    stretch: Option<Vec<u8>>,
    /// Whether its `ETag` is the MD5 of what was sent. None: nobody has looked.
    plain: Option<bool>,
}

/// What all parts of an object have in common.
struct Sending<'a> {
    route: &'a StreamRoute,
    /// To be computed while a part is read.
    algorithms: Vec<DigestAlgorithm>,
    /// To be sent with each.
    sum: Option<ChecksumAlgorithm>,
}

impl Sending<'_> {
    fn plan(&self) -> PartPlan {
        self.route.parts.plan
    }
}

impl<J: Journal> Object<'_, J> {
    pub(in crate::object) async fn stream_in_parts(&mut self, source: &ObjectMeta) -> Result<CopyResult, Trouble> {
        let mut route = self.stream_route(source).await?;
        let memory = self.source.budget().memory_limit();
        if self.holds(&route) && self.upload.open().is_some_and(|upload| upload.part_size > memory) {
            // Begun by a copy, in parts that are too large to pass through here.
            self.upload.abort(false).await;
        }
        let done = match self.open_upload(&mut route.parts, source).await? {
            Opened::Upload(done) => done,
            Opened::Completed(written) => {
                let same_boundaries = route.parts.same_boundaries;
                return self.verify(Method::Stream, written, Some(source.clone()), same_boundaries).await;
            }
        };
        let sum = route.parts.checksum.map(|(algorithm, _)| algorithm);
        let mut sending =
            Sending { route: &route, algorithms: sum.into_iter().map(DigestAlgorithm::Checksum).collect(), sum };
        let md5 = (self.target.capabilities().digests && (sum.is_none() || self.target.quirks().silent_sums()))
            .then_some(DigestAlgorithm::Md5);
        for wanted in [sending.route.by_parts().map(|reference| reference.algorithm), md5].into_iter().flatten() {
            if !sending.algorithms.contains(&wanted) {
                sending.algorithms.push(wanted);
            }
        }
        let mut sent: BTreeMap<u32, Sent> =
            done.into_iter().map(|(number, part)| (number, found(part, &sending))).collect();
        let there: u64 = sent.keys().filter_map(|n| route.parts.plan.range(*n)).map(|range| range.len()).sum();
        self.active.add(there);

        // What was sent in an earlier run cannot be read in order with the rest.
        let order = sending.route.in_order().filter(|_| sent.is_empty()).map(InOrder::new);
        let order = if self.source.quirks().ignores_ranges() && route.parts.plan.count() > 1 {
            self.stream_whole(&sending, &mut sent).await?
        } else {
            self.stream_ranges(&sending, order.as_ref(), &mut sent).await?;
            order.and_then(|order| order.finish())
        };
        let read = self.what_was_read(&sending, &sent, order);
        if let Verdict::Differs(how) = &read {
            return Err(self.misread(how));
        }

        let whole = whole_sum(&sending, &sent);
        if let Some(trouble) = self.differs_from_before(whole.as_ref()) {
            return Err(trouble);
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
        self.settle(Streamed { read, sum: whole, etag, doubt }, written, source, same_boundaries).await
    }

    async fn stream_route(&self, source: &ObjectMeta) -> Result<StreamRoute, Trouble> {
        let reference = self.reference(source).await?;
        let memory = self.source.budget().memory_limit();
        let (wishes, limits) = (self.policy.wishes, &self.policy.limits);
        let target = self.target.capabilities();
        let held = if target.streamed_parts { u64::MAX } else { memory };
        let mut route = evidence::choose_stream(source.size, reference, wishes, limits, held)
            .map_err(|error| self.too_large(&error))?;
        let part_size = route.parts.plan.part_size;
        if part_size.min(source.size) > memory && self.holds(&route) {
            let message = format!(
                "{} has {} bytes and needs parts of {part_size} bytes, more than may be buffered ({memory} bytes). Run the same command again with a larger --memory{}.",
                self.source_address(),
                source.size,
                if wishes.part_size.is_some() { " or a smaller --part-size" } else { "" }
            );
            return Err(Trouble::Failed(ObjectFailure::new(
                FailureClass::Store(ErrorClass::Object),
                "PartTooLarge",
                "UploadPart",
                message,
            )));
        }
        match self.target.quirks().sums() {
            Sums::Any if !target.digests => {
                // The one that records of uploads have.
                route.parts.checksum = Some((ChecksumAlgorithm::Crc64Nvme, ChecksumKind::FullObject));
            }
            Sums::Any => {}
            Sums::Crc32C => {
                route.parts.checksum = Some((ChecksumAlgorithm::Crc32C, ChecksumKind::FullObject));
            }
            Sums::Md5 => route.parts.checksum = None,
        }
        Ok(route)
    }

    /// Send every part that is not there, each from a read of its own.
    async fn stream_ranges(
        &self,
        sending: &Sending<'_>,
        order: Option<&InOrder>,
        sent: &mut BTreeMap<u32, Sent>,
    ) -> Result<(), Trouble> {
        let plan = sending.plan();
        let missing: Vec<u32> = (1..=plan.count()).filter(|number| !sent.contains_key(number)).collect();
        let mut missing = missing.into_iter().filter_map(|number| Some((number, plan.range(number)?))).peekable();
        if !self.source.capabilities().sure_ranges
            && plan.count() > 1
            && let Some((number, range)) = missing.peek().copied()
        {
            // The first read of a range may be answered with the whole object: not by all at a time.
            let source = self.source;
            let trial = tokio::select! {
                biased;
                () = source.cancel().cancelled() => return Err(Trouble::Cancelled),
                trial = source.quirks().try_ranges() => trial,
            };
            if let Some(trial) = trial {
                missing.next();
                let memory = self.reserve(range, order).await?;
                let part = self.stream_part(sending, order, number, range, memory).await?;
                trial.kept();
                sent.insert(number, part);
            } else if self.source.quirks().ignores_ranges() {
                // Found out by another object while this one waited.
                return Err(Trouble::RangesIgnored);
            }
        }
        let mut turn = Some(self.source.stream_turn().await?);
        let mut next = FuturesUnordered::new();
        let mut parts = FuturesUnordered::new();
        loop {
            if next.is_empty() {
                match missing.next() {
                    // One at a time, and in order: whose turn it is has its memory before those that wait for it.
                    Some((number, range)) => {
                        next.push(async move { Ok::<_, Trouble>((number, range, self.reserve(range, order).await?)) });
                    }
                    // The last parts are under way: another object's may follow them.
                    None => drop(turn.take()),
                }
            }
            tokio::select! {
                Some(reserved) = next.next() => {
                    let (number, range, memory) = reserved?;
                    parts.push(async move {
                        let part = self.stream_part(sending, order, number, range, memory).await?;
                        Ok::<_, Trouble>((number, part))
                    });
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

    /// Whether whole parts are in memory.
    fn holds(&self, route: &StreamRoute) -> bool {
        !self.target.capabilities().streamed_parts || route.in_order().is_some()
    }

    /// Wait until a part may be read.
    async fn reserve(&self, range: Range, order: Option<&InOrder>) -> Result<Option<MemoryPermit>, Trouble> {
        let held = if self.writes_as_it_reads(order) { range.len().min(WINDOW) } else { range.len() };
        Ok(self.source.reserve_passing(held, range.len()).await?)
    }

    /// Whether parts are written while they are read: a disk takes bytes in any number. What has to wait for its turn to be
    /// computed is held meanwhile.
    fn writes_as_it_reads(&self, order: Option<&InOrder>) -> bool {
        self.target.capabilities().streamed_parts && order.is_none()
    }

    /// Read a part, and send it.
    async fn stream_part(
        &self,
        sending: &Sending<'_>,
        order: Option<&InOrder>,
        number: u32,
        range: Range,
        memory: Option<MemoryPermit>,
    ) -> Result<Sent, Trouble> {
        if self.writes_as_it_reads(order) {
            let part = self.write_range(sending, number, range).await;
            drop(memory);
            return part;
        }
        let piece = self.read_range(sending, range).await?;
        self.send(sending, order, number, piece, memory).await
    }

    /// Send every part that is not there, from one read of the whole object. What came out of the reference that has to be
    /// computed in order.
    async fn stream_whole(
        &self,
        sending: &Sending<'_>,
        sent: &mut BTreeMap<u32, Sent>,
    ) -> Result<Option<String>, Trouble> {
        let mut reads = 1;
        loop {
            let order = sending.route.in_order().map(InOrder::new);
            match self.feed(sending, order.as_ref(), sent).await {
                Ok(()) => return Ok(order.and_then(|order| order.finish())),
                Err(Interrupt::Broken(error)) if reads < WHOLE_READS && error.class == ErrorClass::Retry => {
                    reads += 1;
                    self.tries.count_retry();
                }
                Err(Interrupt::Broken(error)) => return Err(self.copy_trouble(error)),
                Err(Interrupt::Other(trouble)) => return Err(trouble),
            }
        }
    }

    /// One read of the whole object.
    async fn feed(
        &self,
        sending: &Sending<'_>,
        order: Option<&InOrder>,
        sent: &mut BTreeMap<u32, Sent>,
    ) -> Result<(), Interrupt> {
        let pinned = self.pinned();
        let call = RequestSpec::read("GetObject", &pinned.bucket).bytes(self.item.size).once();
        let fetched = self.source.call(call, &self.tries, async |store| store.fetch(&pinned, None).await).await;
        let Fetched { meta, body } = match fetched {
            Ok(fetched) => fetched,
            Err(RequestError::Failed(error)) => return Err(Interrupt::Other(self.copy_trouble(error))),
            Err(RequestError::Cancelled) => return Err(Interrupt::Other(Trouble::Cancelled)),
        };
        check_pin(&pinned, &meta).map_err(Interrupt::Broken)?;
        let mut reader = PinnedReader::new(body, &pinned);
        let mut parts = FuturesUnordered::new();
        let plan = sending.plan();
        for number in 1..=plan.count() {
            let Some(range) = plan.range(number) else { break };
            let read = async {
                let memory =
                    self.source.reserve_bytes(range.len()).await.map_err(|why| Interrupt::Other(why.into()))?;
                let piece = reader.take(range.len(), &sending.algorithms).await.map_err(Interrupt::Broken)?;
                Ok::<_, Interrupt>((memory, piece))
            };
            let mut read = std::pin::pin!(read);
            let read = loop {
                tokio::select! {
                    biased;
                    () = self.source.cancel().cancelled() => return Err(Interrupt::Other(Trouble::Cancelled)),
                    Some(part) = parts.next() => {
                        let part: Result<(u32, Sent), Trouble> = part;
                        let (number, part) = part.map_err(Interrupt::Other)?;
                        sent.insert(number, part);
                    }
                    read = &mut read => break read,
                }
            };
            let (memory, piece) = match read {
                Ok(read) => read,
                Err(why) => {
                    // What was read whole is sent all the same: it need not be read again.
                    while let Some(part) = parts.next().await {
                        let (number, part): (u32, Sent) = part.map_err(Interrupt::Other)?;
                        sent.insert(number, part);
                    }
                    return Err(why);
                }
            };
            if sent.contains_key(&number) {
                if let Some(order) = order {
                    order.feed(number, piece.bytes).await;
                }
                continue;
            }
            parts.push(
                async move { Ok::<_, Trouble>((number, self.send(sending, order, number, piece, memory).await?)) },
            );
        }
        while let Some(part) = parts.next().await {
            let part: Result<(u32, Sent), Trouble> = part;
            let (number, part) = part.map_err(Interrupt::Other)?;
            sent.insert(number, part);
        }
        reader.end().await.map_err(Interrupt::Broken)
    }

    async fn read_range(&self, sending: &Sending<'_>, range: Range) -> Result<DigestedBytes, Trouble> {
        let pinned = self.pinned();
        let call = RequestSpec::read("GetObject", &pinned.bucket).bytes(range.len()).once();
        // Reading and computing is work: on any thread, and none of it when nobody waits any more.
        let read = self
            .source
            .call(call, &self.tries, |store| {
                let (pinned, algorithms) = (pinned.clone(), sending.algorithms.clone());
                let reading = AbortOnDropHandle::new(tokio::spawn(async move {
                    let fetched = store.fetch(&pinned, Some(range)).await?;
                    check_pin(&pinned, &fetched.meta)?;
                    PinnedReader::new(fetched.body, &pinned).take(range.len(), &algorithms).await
                }));
                join_request(reading, "GetObject")
            })
            .await;
        match read {
            Ok(piece) => Ok(piece),
            Err(RequestError::Failed(error)) => Err(self.unread(error)),
            Err(RequestError::Cancelled) => Err(Trouble::Cancelled),
        }
    }

    /// Write a part as it is read. Trouble with the reading is tried again from its first byte, and so is trouble with the writing.
    async fn write_range(&self, sending: &Sending<'_>, number: u32, range: Range) -> Result<Sent, Trouble> {
        let pinned = self.pinned();
        let call = RequestSpec::read("GetObject", &pinned.bucket).bytes(range.len()).once();
        let of_target = sending.sum.map(DigestAlgorithm::Checksum);
        let written = self
            .source
            .call(call, &self.tries, |from| {
                let pinned = pinned.clone();
                // The target's own is over the same bytes, and in this process: once is enough.
                let algorithms: Vec<DigestAlgorithm> =
                    sending.algorithms.iter().copied().filter(|wanted| Some(*wanted) != of_target).collect();
                let writer = self.upload.part_writer();
                let writing = AbortOnDropHandle::new(tokio::spawn(async move {
                    let fetched = from.fetch(&pinned, Some(range)).await?;
                    check_pin(&pinned, &fetched.meta)?;
                    let (body, digests) = with_digests(fetched.body, &algorithms);
                    let copied = writer.write(number, range.len(), body).await?;
                    let mut digests = digests.finish();
                    let told = copied.checksum.as_deref().and_then(unbase64);
                    digests.extend(of_target.zip(told));
                    Ok((copied, digests))
                }));
                join_request(writing, "GetObject")
            })
            .await;
        match written {
            Ok((copied, digests)) => {
                self.sent(sending, number, range.len(), copied, |algorithm| digests.get(&algorithm).cloned())
            }
            Err(RequestError::Failed(error)) if error.operation == "UploadPart" => {
                Err(self.unwritten(error, sending.sum))
            }
            Err(RequestError::Failed(error)) => Err(self.unread(error)),
            Err(RequestError::Cancelled) => Err(Trouble::Cancelled),
        }
    }

    /// What a range that could not be read means.
    fn unread(&self, error: StoreError) -> Trouble {
        if error.code == code::RANGE_IGNORED {
            self.source.note_ignored_ranges(&error);
            return Trouble::RangesIgnored;
        }
        self.copy_trouble(error)
    }

    /// What a part that could not be written means.
    fn unwritten(&self, error: StoreError, sum: Option<ChecksumAlgorithm>) -> Trouble {
        if error.code == "NoSuchUpload" {
            Trouble::Again(self.upload_lost(&error))
        } else {
            self.refused_write(error, sum)
        }
    }

    /// Send a part that was read. Its memory is given back when nothing holds its bytes any more.
    async fn send(
        &self,
        sending: &Sending<'_>,
        order: Option<&InOrder>,
        number: u32,
        piece: DigestedBytes,
        memory: Option<MemoryPermit>,
    ) -> Result<Sent, Trouble> {
        let in_order = async {
            if let Some(order) = order {
                order.feed(number, piece.bytes.clone()).await;
            }
        };
        let sent = self.send_piece(sending, number, &piece, memory);
        let (sent, ()) = futures::future::join(sent, in_order).await;
        sent
    }

    async fn send_piece(
        &self,
        sending: &Sending<'_>,
        number: u32,
        piece: &DigestedBytes,
        memory: Option<MemoryPermit>,
    ) -> Result<Sent, Trouble> {
        let sum = sending.sum.map(|algorithm| (algorithm, base64(&piece.digest(DigestAlgorithm::Checksum(algorithm)))));
        let keeps_digests = self.target.capabilities().digests;
        let md5 = keeps_digests && (sum.is_none() || self.target.quirks().silent_sums());
        let md5 = md5.then(|| piece.digest(DigestAlgorithm::Md5));
        let digests = Digests { checksum: sum.clone(), md5: md5.as_deref().map(base64) };
        let len = piece.bytes.len() as u64;
        let body = PartBody { bytes: piece.bytes.clone(), digests, memory };
        let copied = self.upload.put_part(number, body).await;
        match copied {
            Ok(copied) => self.sent(sending, number, len, copied, |algorithm| Some(piece.digest(algorithm))),
            Err(RequestError::Failed(error)) => Err(self.unwritten(error, sending.sum)),
            Err(RequestError::Cancelled) => Err(Trouble::Cancelled),
        }
    }

    /// A part that is at the target, as the target tells it.
    fn sent(
        &self,
        sending: &Sending<'_>,
        number: u32,
        len: u64,
        copied: Copied,
        digest: impl Fn(DigestAlgorithm) -> Option<Vec<u8>>,
    ) -> Result<Sent, Trouble> {
        let keeps_digests = self.target.capabilities().digests;
        let sum = sending.sum.and_then(|algorithm| digest(DigestAlgorithm::Checksum(algorithm))).as_deref().map(base64);
        if let (Some(ours), Some(theirs)) = (&sum, &copied.checksum)
            && ours != theirs
        {
            let message = format!(
                "UploadPart {}: part {number} was sent with checksum {ours}, and the service holds {theirs}. Run the same command again; if it happens again, report it to the storage's operator.",
                self.target_address()
            );
            return Err(Trouble::Again(ObjectFailure::new(
                FailureClass::Mismatch,
                "ContentMismatch",
                "UploadPart",
                message,
            )));
        }
        self.active.add(len);
        if keeps_digests && sum.is_some() && copied.checksum.is_none() {
            self.target.quirks().learn_silent_sums();
        }
        // Only where no checksum has told.
        let plain = (keeps_digests && copied.checksum.is_none() && !copied.opaque_etag && is_digest(&copied.etag))
            .then(|| digest(DigestAlgorithm::Md5).as_deref().map(hex).as_ref() == Some(&copied.etag));
        let stretch = sending.route.by_parts().filter(|reference| {
            reference.cut.is_some() || Some(reference.algorithm) != sending.sum.map(DigestAlgorithm::Checksum)
        });
        Ok(Sent {
            // Some services want part checksums that they do not tell.
            part: CompletedPart { number, etag: copied.etag, checksum: copied.checksum.or_else(|| sum.clone()) },
            stretch: stretch.and_then(|reference| digest(reference.algorithm)),
            sum,
            plain,
        })
    }

    /// What the source's promise makes of what was read.
    fn what_was_read(&self, sending: &Sending<'_>, sent: &BTreeMap<u32, Sent>, in_order: Option<String>) -> Verdict {
        if !self.source.capabilities().digests {
            return Verdict::Proven(Verified::Checksum);
        }
        let Some(reference) = &sending.route.reference else { return Verdict::Unknown };
        let computed = match (sending.route.by_parts(), reference.algorithm) {
            (None, _) => in_order,
            (Some(Reference { cut: Some(_), algorithm, .. }), _) => {
                let stretches: Option<Vec<&[u8]>> = sent.values().map(|sent| sent.stretch.as_deref()).collect();
                stretches.map(|stretches| assembled(*algorithm, stretches))
            }
            (Some(_), DigestAlgorithm::Checksum(algorithm)) if Some(algorithm) == sending.sum => {
                joined(sending, sent, algorithm)
            }
            // The target has another algorithm than the source: kept apart.
            (Some(_), _) => {
                let stretches: Option<Vec<(String, u64)>> = sent
                    .iter()
                    .map(|(number, sent)| {
                        let digest = sent.stretch.as_deref()?;
                        Some((shown(reference.algorithm, digest), sending.plan().range(*number)?.len()))
                    })
                    .collect();
                match (stretches, reference.algorithm) {
                    (Some(all), DigestAlgorithm::Checksum(algorithm)) => {
                        algorithm.joined(all.iter().map(|(value, len)| (value.as_str(), *len)))
                    }
                    _ => None,
                }
            }
        };
        computed.map_or(Verdict::Unknown, |computed| reference.verdict(&computed))
    }
}

/// Why one read of the whole object did not come to its end.
enum Interrupt {
    /// The read broke.
    Broken(StoreError),
    /// Anything else.
    Other(Trouble),
}

/// A part of an earlier run, as the target lists it.
fn found(part: CompletedPart, sending: &Sending<'_>) -> Sent {
    let stretch = sending.route.by_parts().and_then(|reference| match reference.algorithm {
        DigestAlgorithm::Md5 => unhexed(&part.etag),
        DigestAlgorithm::Checksum(algorithm) if Some(algorithm) == sending.sum => unbase64(part.checksum.as_deref()?),
        DigestAlgorithm::Checksum(_) => None,
    });
    Sent { sum: part.checksum.clone().filter(|_| sending.sum.is_some()), stretch, plain: None, part }
}

fn unhexed(etag: &str) -> Option<Vec<u8>> {
    if !is_digest(etag) {
        return None;
    }
    (0..etag.len()).step_by(2).map(|at| u8::from_str_radix(etag.get(at..at + 2)?, 16).ok()).collect()
}

fn joined(sending: &Sending<'_>, sent: &BTreeMap<u32, Sent>, algorithm: ChecksumAlgorithm) -> Option<String> {
    let values: Option<Vec<(&str, u64)>> =
        sent.iter().map(|(number, sent)| Some((sent.sum.as_deref()?, sending.plan().range(*number)?.len()))).collect();
    algorithm.joined(values?)
}

/// What the target's checksum must be.
fn whole_sum(sending: &Sending<'_>, sent: &BTreeMap<u32, Sent>) -> Option<Checksum> {
    let (algorithm, kind) = sending.route.parts.checksum?;
    let value = match kind {
        ChecksumKind::FullObject => joined(sending, sent, algorithm),
        ChecksumKind::Composite => {
            let sums: Option<Vec<&str>> = sent.values().map(|sent| sent.sum.as_deref()).collect();
            sums.and_then(|sums| algorithm.composite(sums))
        }
    };
    value.map(|value| Checksum { algorithm, value, kind })
}

/// What the target's `ETag` must be, where those of all parts were seen to be digests.
fn whole_etag(sent: &BTreeMap<u32, Sent>) -> Option<String> {
    if !sent.values().all(|sent| sent.plain == Some(true)) {
        return None;
    }
    let digests: Option<Vec<Vec<u8>>> = sent.values().map(|sent| unhexed(&sent.part.etag)).collect();
    Some(assembled(DigestAlgorithm::Md5, digests?.iter().map(Vec::as_slice)))
}
