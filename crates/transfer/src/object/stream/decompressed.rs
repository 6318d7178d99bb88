//! Objects that the service decompresses on the way (`Content-Encoding`), whatever a request accepts: the body is
//! copied as it comes, from one read of the whole object.
//!
//! The stored bytes cannot be read, so that no digest of the source covers the body: the copy is reported without a
//! verification and with a note, and the target gets no `Content-Encoding`. Where a verification is required, the
//! object fails.
//!
//! A body counts as decompressed only if the object is labelled with known codings, and its body begins with none of
//! them and has a length that they could have made of it. Anything else that has another length than is stored fails.
//!
//! Its upload is recorded without a part size: no later run can continue with it, since the body has no ranges.

use std::collections::BTreeMap;

use futures::stream::{FuturesUnordered, StreamExt as _};
use seqferry_client::budget::MemoryPermit;
use seqferry_client::reading::{DigestedBytes, PinnedReader, WholeReads, fetch_whole};
use seqferry_client::{RequestError, UploadJournal};
use seqferry_store::{Advice, ChecksumKind, DigestAlgorithm, ObjectMeta, PinnedObject};

use super::super::md5::MD5;
use super::super::{AttemptError, CopyResult, Object, VerificationRule};
use super::sent::{StreamSettings, StreamedPart, whole_etag, whole_sum};
use super::whole::Interrupt;
use super::{StreamResult, verification};
use crate::object_outcome::{ObjectFailure, VerificationLevel};
use crate::plan::PlanError;
use crate::verification::{StreamRoute, Verdict};

/// Bytes of each part of a body whose length is not stated: 10,000 of them make 312 GiB.
const UNKNOWN_LENGTH_PART: u64 = 32 << 20;

/// A piece of the body, with the memory that it takes.
type HeldPiece = (Option<MemoryPermit>, DigestedBytes);

impl<J: UploadJournal> Object<'_, J> {
    /// Copies the body that the service gives in place of the stored bytes. `failure` is that of an object that comes
    /// in no form as it is stored; it remains where the body is not the decompressed object.
    pub(in crate::object) async fn take_decompressed(
        &mut self,
        failure: ObjectFailure,
    ) -> Result<CopyResult, AttemptError> {
        if self.policy.verify != VerificationRule::Auto {
            let message = format!(
                "{} Its bytes as they are stored cannot be verified, which {}",
                failure.message,
                Advice::CopyUnverified
            );
            return Err(AttemptError::Failed(ObjectFailure { message, ..failure }));
        }
        let stored = self.item.size;
        self.stored_size = Some(stored);
        self.active.reset();
        self.upload.abort(false).await;
        let taken = self.take_body(&failure).await;
        if taken.is_err() {
            (self.item.size, self.stored_size) = (stored, None);
        }
        let (mut copy, encoding) = taken?;
        copy.verified = VerificationLevel::No;
        self.not_carried.push(format!(
            "the {stored} bytes as they are stored, and Content-Encoding: {encoding}: the service gives the object decompressed only; the {} bytes that came were copied, and nothing verifies them",
            self.item.size
        ));
        self.source.note(format!(
            "s3://{}: the endpoint decompresses objects on the way (Content-Encoding: {encoding}): they were copied decompressed, without a verification.",
            self.policy.source_bucket
        ));
        Ok(copy)
    }

    /// The copy, and the encoding that was removed.
    async fn take_body(&mut self, failure: &ObjectFailure) -> Result<(CopyResult, String), AttemptError> {
        let source = self.head_source().await?;
        if source.archived {
            return Err(self.archived_error(&source));
        }
        let encoding = source.attributes.content_encoding.clone().unwrap_or_default();
        if !is_known(&encoding) {
            return Err(AttemptError::Failed(failure.clone()));
        }
        let source = describe_decompressed(source);
        let mut reads = WholeReads::default();
        loop {
            match self.read_body(&source, &encoding, failure).await {
                Ok(copy) => return Ok((copy, encoding)),
                Err(Interrupt::Broken(error)) => {
                    reads.repeat(error, &self.retry_context).map_err(|error| self.copy_error(error))?;
                    self.active.reset();
                    self.upload.abort(false).await;
                }
                Err(Interrupt::Other(error)) => return Err(error),
            }
        }
    }

    /// One read of the body.
    async fn read_body(
        &mut self,
        source: &ObjectMeta,
        encoding: &str,
        failure: &ObjectFailure,
    ) -> Result<CopyResult, Interrupt> {
        let pinned = PinnedObject { size: 0, ..self.pinned_source() };
        let stored = self.stored_size.unwrap_or_default();
        let fetched = fetch_whole(self.source, &self.retry_context, &pinned, stored).await;
        let (meta, mut reader) = fetched.map_err(|request| match request {
            RequestError::Failed(error) => Interrupt::Other(self.copy_error(error)),
            RequestError::Cancelled => Interrupt::Other(AttemptError::Cancelled),
        })?;
        let mut route = self.route_of_body(meta.size).map_err(Interrupt::Other)?;
        let algorithms = self.algorithms_of_body(&route);
        let part_size = route.parts.plan.part_size;
        let (memory, first) = self.next_piece(&mut reader, part_size, &algorithms).await?;
        if codings(encoding).any(|coding| begins_with(&first.bytes, &coding)) {
            return Err(Interrupt::Other(AttemptError::Failed(failure.clone())));
        }
        let read = Verdict::Verified(VerificationLevel::Size);
        if (first.bytes.len() as u64) < part_size {
            self.item.size = first.bytes.len() as u64;
            self.check_length(encoding, failure)?;
            let source = ObjectMeta { size: self.item.size, ..source.clone() };
            let put = self.put_piece(source, first, read).await;
            drop(memory);
            return put.map_err(Interrupt::Other);
        }
        // Its length where that is stated, else 0: a disk frees space for it.
        self.item.size = meta.size;
        self.begin(&route.parts, source).await.map_err(Interrupt::Other)?;
        let sum = route.parts.checksum.map(|(algorithm, _)| algorithm);
        let sending = StreamSettings { route: &route, algorithms: algorithms.clone(), sum };
        let (sent, came) = self.send_body(&sending, &mut reader, (memory, first)).await?;
        self.item.size = came;
        self.check_length(encoding, failure)?;
        route.parts.plan.size = came;
        let sending = StreamSettings { route: &route, algorithms, sum };
        let whole = whole_sum(&sending, &sent);
        let etag = whole_etag(&sent);
        let mut parts = route.parts.clone();
        parts.whole = whole.clone().filter(|sum| sum.kind == ChecksumKind::FullObject);
        let completed = sent.into_iter().map(|(number, sent)| (number, sent.part)).collect();
        let source = ObjectMeta { size: came, ..source.clone() };
        let settled = async {
            let written = self.complete(&parts, &source, completed).await?;
            self.verify_stream(StreamResult { read, sum: whole, etag, doubt: None }, written, &source, false).await
        };
        settled.await.map_err(Interrupt::Other)
    }

    /// Sends the body in parts, `first` before the rest. Returns the parts, and the bytes of all of them.
    async fn send_body(
        &self,
        sending: &StreamSettings<'_>,
        reader: &mut PinnedReader<'_>,
        first: HeldPiece,
    ) -> Result<(BTreeMap<u32, StreamedPart>, u64), Interrupt> {
        let part_size = sending.plan().part_size;
        let mut parts = FuturesUnordered::new();
        let (mut sent, mut came, mut number, mut held) = (BTreeMap::new(), 0, 1, first);
        loop {
            let (memory, piece) = held;
            let size = piece.bytes.len() as u64;
            came += size;
            if size > 0 {
                let number = number;
                parts.push(async move {
                    Ok::<_, AttemptError>((number, self.send(sending, None, number, piece, memory).await?))
                });
            }
            if size < part_size {
                break;
            }
            number += 1;
            if u64::from(number) > self.policy.limits.maximum_parts {
                let maximum = part_size.saturating_mul(self.policy.limits.maximum_parts);
                return Err(Interrupt::Other(self.too_large(&PlanError { size: came + 1, maximum })));
            }
            let next = self.next_piece(reader, part_size, &sending.algorithms);
            let mut next = std::pin::pin!(next);
            held = loop {
                tokio::select! {
                    biased;
                    () = self.source.cancel().cancelled() => return Err(Interrupt::Other(AttemptError::Cancelled)),
                    Some(part) = parts.next() => {
                        let (number, part) = part.map_err(Interrupt::Other)?;
                        sent.insert(number, part);
                    }
                    next = &mut next => break next?,
                }
            };
        }
        while let Some(part) = parts.next().await {
            let (number, part) = part.map_err(Interrupt::Other)?;
            sent.insert(number, part);
        }
        Ok((sent, came))
    }

    async fn next_piece(
        &self,
        reader: &mut PinnedReader<'_>,
        size: u64,
        algorithms: &[DigestAlgorithm],
    ) -> Result<HeldPiece, Interrupt> {
        let memory = self.source.reserve_bytes(size).await.map_err(|why| Interrupt::Other(why.into()))?;
        let piece = reader.take_up_to(size, algorithms).await.map_err(Interrupt::Broken)?;
        Ok((memory, piece))
    }

    /// The cut of a body of `declared` bytes; 0: its length is not stated.
    fn route_of_body(&self, declared: u64) -> Result<StreamRoute, AttemptError> {
        let (part_options, limits) = (self.policy.part_options, &self.policy.limits);
        let memory = self.source.budget().memory_limit();
        let mut route = verification::choose_stream_route(declared, None, part_options, limits, memory)
            .map_err(|error| self.too_large(&error))?;
        let plan = &mut route.parts.plan;
        if declared == 0 {
            plan.part_size = part_options.part_size.unwrap_or(UNKNOWN_LENGTH_PART).max(limits.minimum_part);
        }
        plan.part_size = plan.part_size.min(memory).max(limits.minimum_part);
        if u64::from(plan.count()) > limits.maximum_parts {
            let error = PlanError { size: declared, maximum: plan.part_size.saturating_mul(limits.maximum_parts) };
            return Err(self.too_large(&error));
        }
        self.choose_checksum(&mut route.parts);
        Ok(route)
    }

    fn algorithms_of_body(&self, route: &StreamRoute) -> Vec<DigestAlgorithm> {
        let sum = route.parts.checksum.map(|(algorithm, _)| DigestAlgorithm::Checksum(algorithm));
        let md5 = self.target.capabilities().digests && (sum.is_none() || self.target.quirks().silent_sums());
        sum.into_iter().chain(md5.then_some(DigestAlgorithm::Md5)).collect()
    }

    /// A compressed file is hardly longer than its content. A body that is much shorter was truncated.
    fn check_length(&self, encoding: &str, failure: &ObjectFailure) -> Result<(), Interrupt> {
        /// Header and trailer of a compressed file, with a name of usual length.
        const ENVELOPE: u64 = 64;
        let (came, stored) = (self.item.size, self.stored_size.unwrap_or_default());
        // Blocks that do not shrink cost 26 bytes in 64 KiB with bgzip and less with others; LZW has no such blocks.
        let longest = if codings(encoding).any(|coding| coding.ends_with("compress")) { came / 2 } else { came / 512 };
        if came + longest + ENVELOPE >= stored {
            return Ok(());
        }
        Err(Interrupt::Other(AttemptError::Failed(failure.clone())))
    }
}

/// The decompressed object: its attributes, without what describes the stored bytes.
fn describe_decompressed(source: ObjectMeta) -> ObjectMeta {
    let mut body = ObjectMeta { checksum: None, opaque_etag: true, ..source };
    body.attributes.content_encoding = None;
    body.attributes.metadata.remove(MD5);
    body
}

/// The codings that an encoding names, in lower case. `aws-chunked` is a coding of requests that some services keep.
fn codings(encoding: &str) -> impl Iterator<Item = String> {
    let named = encoding.split(',').map(|coding| coding.trim().to_ascii_lowercase());
    named.filter(|coding| !matches!(coding.as_str(), "" | "identity" | "aws-chunked"))
}

/// True when all codings are known, and there is one.
fn is_known(encoding: &str) -> bool {
    const KNOWN: [&str; 7] = ["gzip", "x-gzip", "deflate", "br", "zstd", "compress", "x-compress"];
    codings(encoding).next().is_some() && codings(encoding).all(|coding| KNOWN.contains(&coding.as_str()))
}

/// True when a body begins as what this coding has made. Brotli has no mark.
fn begins_with(body: &[u8], coding: &str) -> bool {
    match coding {
        "gzip" | "x-gzip" => body.starts_with(&[0x1f, 0x8b]),
        "zstd" => body.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]),
        "compress" | "x-compress" => body.starts_with(&[0x1f, 0x9d]),
        // The header of zlib: deflate with a window of up to 32 KiB, and a check of both bytes.
        "deflate" => matches!(body, [first, second, ..]
            if first & 0x8f == 8 && (u16::from(*first) << 8 | u16::from(*second)).is_multiple_of(31)),
        _ => false,
    }
}
