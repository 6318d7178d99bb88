//! One part: read, sent or written while it is read, and compared with what the target answers.

use std::sync::Arc;

use seqferry_client::budget::MemoryPermit;
use seqferry_client::reading::{DigestedBytes, PinnedReader, fetch_pinned, with_digests};
use seqferry_client::request::join_request;
use seqferry_client::upload::PartBody;
use seqferry_client::{RequestError, RequestSpec, UploadJournal};
use seqferry_store::checksum::{base64, decode_base64, hex};
use seqferry_store::{
    Advice, Cause, ChecksumAlgorithm, CompletedPart, DigestAlgorithm, Digests, FetchedObject, ObjectStore,
    PinnedObject, Range, StoreError, WrittenPart,
};
use tokio::sync::Notify;
use tokio_util::task::AbortOnDropHandle;

use super::super::{AttemptError, Object};
use super::order::PartOrder;
use super::sent::{StreamSettings, StreamedPart};
use crate::object_outcome::{FailureClass, ObjectFailure};
use crate::verification::is_digest;

impl<J: UploadJournal> Object<'_, J> {
    /// Read a part into memory. `answered` is notified when the service answers with the range.
    pub(super) async fn read_range(
        &self,
        algorithms: &[DigestAlgorithm],
        range: Range,
        answered: Option<Arc<Notify>>,
    ) -> Result<DigestedBytes, AttemptError> {
        let pinned = self.pinned_source();
        let call = RequestSpec::read("GetObject", &pinned.bucket).bytes(range.len()).once();
        // Reading and computing is work: on any thread, and none of it after a stop.
        let read = self
            .source
            .call(call, &self.retry_context, |store| {
                let (pinned, algorithms, answered) = (pinned.clone(), algorithms.to_vec(), answered.clone());
                let reading = AbortOnDropHandle::new(tokio::spawn(async move {
                    let fetched = fetch_range(&*store, &pinned, range, answered).await?;
                    PinnedReader::new(fetched.body, &pinned).take(range.len(), &algorithms).await
                }));
                join_request(reading, "GetObject")
            })
            .await;
        match read {
            Ok(piece) => Ok(piece),
            Err(RequestError::Failed(error)) => Err(self.read_error(error)),
            Err(RequestError::Cancelled) => Err(AttemptError::Cancelled),
        }
    }

    /// Write a part as it is read. A failed read or write is retried from the first byte of the part. `answered` is
    /// notified when the service answers with the range.
    pub(super) async fn write_range(
        &self,
        sending: &StreamSettings<'_>,
        number: u32,
        range: Range,
        answered: Option<Arc<Notify>>,
    ) -> Result<StreamedPart, AttemptError> {
        let pinned = self.pinned_source();
        let call = RequestSpec::read("GetObject", &pinned.bucket).bytes(range.len()).once();
        let of_target = sending.sum.map(DigestAlgorithm::Checksum);
        let written = self
            .source
            .call(call, &self.retry_context, |from| {
                let (pinned, answered) = (pinned.clone(), answered.clone());
                // The target's own is over the same bytes, and in this process: once is enough.
                let algorithms: Vec<DigestAlgorithm> =
                    sending.algorithms.iter().copied().filter(|wanted| Some(*wanted) != of_target).collect();
                let writer = self.upload.part_writer();
                let writing = AbortOnDropHandle::new(tokio::spawn(async move {
                    let fetched = fetch_range(&*from, &pinned, range, answered).await?;
                    let (body, digests) = with_digests(fetched.body, &algorithms);
                    let copied = writer.write(number, range.len(), body).await?;
                    let mut digests = digests.finish();
                    let returned = copied.checksum.as_deref().and_then(decode_base64);
                    digests.extend(of_target.zip(returned));
                    Ok((copied, digests))
                }));
                join_request(writing, "GetObject")
            })
            .await;
        match written {
            Ok((copied, digests)) => {
                self.check_sent(sending, number, range.len(), copied, |algorithm| digests.get(&algorithm).cloned())
            }
            Err(RequestError::Failed(error)) if error.operation == "UploadPart" => {
                Err(self.write_error(error, sending.sum))
            }
            Err(RequestError::Failed(error)) => Err(self.read_error(error)),
            Err(RequestError::Cancelled) => Err(AttemptError::Cancelled),
        }
    }

    /// Returns the failure of a range that could not be read.
    fn read_error(&self, error: StoreError) -> AttemptError {
        if error.cause() == Cause::RangeIgnored {
            return AttemptError::RangesIgnored;
        }
        self.stream_error(error)
    }

    /// Returns the failure of a part that could not be written: its upload is gone, or the write was refused.
    fn write_error(&self, error: StoreError, sum: Option<ChecksumAlgorithm>) -> AttemptError {
        if error.cause() == Cause::UploadGone {
            AttemptError::Again(self.lost_upload_failure(&error))
        } else {
            self.explain_refused_write(error, sum)
        }
    }

    /// Send a part that was read. Its memory is given back when nothing holds its bytes any more.
    pub(super) async fn send(
        &self,
        sending: &StreamSettings<'_>,
        order: Option<&PartOrder>,
        number: u32,
        piece: DigestedBytes,
        memory: Option<MemoryPermit>,
    ) -> Result<StreamedPart, AttemptError> {
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
        sending: &StreamSettings<'_>,
        number: u32,
        piece: &DigestedBytes,
        memory: Option<MemoryPermit>,
    ) -> Result<StreamedPart, AttemptError> {
        let sum = sending.sum.map(|algorithm| (algorithm, base64(&piece.digest(DigestAlgorithm::Checksum(algorithm)))));
        let keeps_digests = self.target.capabilities().digests;
        let md5 = keeps_digests && (sum.is_none() || self.target.quirks().silent_sums());
        let md5 = md5.then(|| piece.digest(DigestAlgorithm::Md5));
        let digests = Digests { checksum: sum.clone(), md5: md5.as_deref().map(base64) };
        let len = piece.bytes.len() as u64;
        let body = PartBody { bytes: piece.bytes.clone(), digests, memory };
        let copied = self.upload.put_part(number, body).await;
        match copied {
            Ok(copied) => self.check_sent(sending, number, len, copied, |algorithm| Some(piece.digest(algorithm))),
            Err(RequestError::Failed(error)) => Err(self.write_error(error, sending.sum)),
            Err(RequestError::Cancelled) => Err(AttemptError::Cancelled),
        }
    }

    /// Returns a written part as the target's reply describes it.
    fn check_sent(
        &self,
        sending: &StreamSettings<'_>,
        number: u32,
        len: u64,
        copied: WrittenPart,
        digest: impl Fn(DigestAlgorithm) -> Option<Vec<u8>>,
    ) -> Result<StreamedPart, AttemptError> {
        let keeps_digests = self.target.capabilities().digests;
        let sum = sending.sum.and_then(|algorithm| digest(DigestAlgorithm::Checksum(algorithm))).as_deref().map(base64);
        if let (Some(ours), Some(theirs)) = (&sum, &copied.checksum)
            && ours != theirs
        {
            let message = format!(
                "UploadPart {}: part {number} was sent with checksum {ours}, and the service holds {theirs}. {}",
                self.target_address(),
                Advice::RepeatOrReport
            );
            return Err(AttemptError::Again(ObjectFailure::new(
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
        // MD5 is needed only where no checksum was compared.
        let plain = (keeps_digests && copied.checksum.is_none() && !copied.opaque_etag && is_digest(&copied.etag))
            .then(|| digest(DigestAlgorithm::Md5).as_deref().map(hex).as_ref() == Some(&copied.etag));
        let segment_digest = sending.route.by_parts().filter(|reference| {
            reference.cut.is_some() || Some(reference.algorithm) != sending.sum.map(DigestAlgorithm::Checksum)
        });
        Ok(StreamedPart {
            // Some services require part checksums that they do not return.
            part: CompletedPart { number, etag: copied.etag, checksum: copied.checksum.or_else(|| sum.clone()) },
            segment_digest: segment_digest.and_then(|reference| digest(reference.algorithm)),
            sum,
            plain,
        })
    }
}

/// Requests a range, and notifies `answered` of the head of the answer.
async fn fetch_range(
    store: &dyn ObjectStore,
    source: &PinnedObject,
    range: Range,
    answered: Option<Arc<Notify>>,
) -> Result<FetchedObject, StoreError> {
    let fetched = fetch_pinned(store, source, Some(range)).await?;
    if let Some(answered) = answered {
        answered.notify_one();
    }
    Ok(fetched)
}
