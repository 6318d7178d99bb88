//! An object, or a range of it, to a descriptor: ranges are read concurrently, and written in order.

use std::collections::VecDeque;
use std::fs::File;
use std::io::Write as _;
use std::pin::pin;
use std::sync::Arc;

use bytes::Bytes;
use seqferry_client::budget::MemoryPermit;
use seqferry_client::reading::{PinnedReader, WholeReads, fetch_pinned, fetch_whole, read_pinned};
use seqferry_client::request::join_request;
use seqferry_client::{RequestError, RequestSpec, RetryContext, RetryingClient};
use seqferry_store::checksum::base64;
use seqferry_store::{
    Advice, Cause, ChecksumKind, DigestAlgorithm, ErrorClass, ObjectMeta, ObjectRef, ObjectUri, PinnedObject, Range,
    StoreError,
};
use tokio_util::task::AbortOnDropHandle;

use super::{ByteCounter, PipeError, PipeReport, PipeResult};
use crate::etags::{ObjectOrigin, StatedEtag, resolve_contradiction};
use crate::limits::CopyLimits;
use crate::object_outcome::{FailureClass, ObjectFailure, VerificationLevel};
use crate::plan::etag_parts;
use crate::verification::{ExpectedDigest, SegmentedDigest, Verdict};

/// Bytes that are read at a time: AWS's advice for ranged reads.
const RANGE: u64 = 8 << 20;
/// An object up to this size is verified as a whole before its first byte is written.
const WHOLE_OBJECT: u64 = 16 << 20;
/// Largest size of parts whose checksums are compared one by one: each is held in memory as a whole.
const LONGEST_PART: u64 = 64 << 20;
/// Largest number of concurrent ranges.
const RANGES_AHEAD: usize = 12;

/// Object that is written to the descriptor.
#[derive(Debug, Clone)]
pub struct OutputSource {
    /// Bucket name.
    pub bucket: String,
    /// Key.
    pub key: String,
    /// Version to read. None: the current one.
    pub version_id: Option<String>,
}

/// A range that is being read.
type PieceTask = AbortOnDropHandle<Result<OutputPiece, RequestError>>;

struct OutputPiece {
    bytes: Bytes,
    /// Checksum of the part: computed, and as the service states it.
    part: Option<(String, String)>,
    _memory: Option<MemoryPermit>,
}

struct OutputWriter {
    client: RetryingClient,
    retry_context: Arc<RetryContext>,
    source: OutputSource,
    meta: ObjectMeta,
    pinned: PinnedObject,
    passed: ByteCounter,
}

pub(crate) async fn write_output(
    client: RetryingClient,
    source: OutputSource,
    sink: File,
    passed: ByteCounter,
) -> PipeResult {
    let retry_context = Arc::<RetryContext>::default();
    let object = ObjectRef::new(&source.bucket, &source.key).at_version(source.version_id.as_deref());
    let call = RequestSpec::read("HeadObject", &source.bucket);
    let meta = client.call(call, &retry_context, async |store| store.head(object, None).await).await?;
    if meta.archived {
        let error = StoreError::new("HeadObject", &source.bucket, Some(&source.key), "InvalidObjectState", None)
            .with_message(format!("storage class {}", meta.storage_class.as_deref().unwrap_or("archive")));
        return Err(RequestError::Failed(error).into());
    }
    let mut pinned = PinnedObject::of(&source.bucket, &source.key, &meta);
    if source.version_id.is_some() {
        pinned.version_id.clone_from(&source.version_id);
    }
    let sink = Arc::new(sink);
    OutputWriter { client, retry_context, source, meta, pinned, passed }.whole(&sink).await
}

impl OutputWriter {
    async fn whole(&self, sink: &Arc<File>) -> PipeResult {
        let first_part = self.first_part().await?;
        let expected = match ExpectedDigest::of(&self.meta, first_part, &CopyLimits::default()) {
            None if first_part.is_some() => {
                let lengths = self.stated_etag().part_sizes(&self.retry_context).await?;
                lengths.and_then(|lengths| ExpectedDigest::over(&self.meta, lengths))
            }
            found => found,
        };
        let mut digest = expected.as_ref().map(SegmentedDigest::new);
        let size = self.meta.size;
        if size <= WHOLE_OBJECT {
            let piece = self.read_whole().await?;
            if let Some(digest) = &mut digest {
                digest.update(&piece.bytes);
            }
            // No byte is written before all have the digest that the service states.
            let verified = self.verify(expected.as_ref(), digest.take().map(SegmentedDigest::finish)).await?;
            self.write(sink, piece, None).await?;
            return Ok(self.report(verified));
        }
        let parts = first_part.filter(|_| self.has_part_checksums());
        let digest = match self.ranges(parts, digest, sink).await {
            Err(PipeError::Failed(failure)) if failure.cause == Cause::RangeIgnored => {
                let digest = expected.as_ref().map(SegmentedDigest::new);
                self.in_order(digest, sink).await?
            }
            other => other?,
        };
        let verified = self.verify(expected.as_ref(), digest.map(SegmentedDigest::finish)).await?;
        Ok(self.report(verified))
    }

    fn report(&self, verified: VerificationLevel) -> PipeReport {
        PipeReport {
            bytes: self.passed.so_far(),
            etag: self.meta.etag.clone(),
            version_id: self.meta.version_id.clone(),
            checksum: self.meta.checksum.clone(),
            verified,
        }
    }

    /// Verifies the digest of all bytes; an error when it differs from the digest that the service states.
    async fn verify(
        &self,
        expected: Option<&ExpectedDigest>,
        computed: Option<String>,
    ) -> Result<VerificationLevel, PipeError> {
        let Some((expected, computed)) = expected.zip(computed) else { return Ok(VerificationLevel::Size) };
        let stated = StatedEtag { is_exact: expected.is_exact(), ..self.stated_etag() };
        match resolve_contradiction(expected.verdict(&computed), &[stated], &self.retry_context).await? {
            Verdict::Differs(how) => Err(self.mismatch(&how)),
            Verdict::Verified(verified) => Ok(verified),
            Verdict::Doubtful(_) | Verdict::Unknown => Ok(VerificationLevel::Size),
        }
    }

    /// The object, with its size, `ETag` and checksum, for a comparison.
    fn stated_etag(&self) -> StatedEtag<'_> {
        let object =
            ObjectRef::new(&self.source.bucket, &self.source.key).at_version(self.source.version_id.as_deref());
        let (etag, size) = (&self.meta.etag, self.meta.size);
        StatedEtag { client: &self.client, object, etag, size, origin: ObjectOrigin::Found, is_exact: false }
    }

    fn mismatch(&self, how: &str) -> PipeError {
        let printed = self.passed.so_far();
        let left = if printed == 0 {
            "Nothing was written.".to_owned()
        } else {
            format!("Do not use the {printed} bytes that were written.")
        };
        let address = ObjectUri(&self.source.bucket, Some(&self.source.key));
        let message = format!("GetObject {address}: {how}. {left} {}", Advice::RepeatOrAskAboutObject);
        ObjectFailure::new(FailureClass::Mismatch, "ContentMismatch", "GetObject", message).into()
    }

    /// Returns the length of the first part, where the digest depends on parts.
    async fn first_part(&self) -> Result<Option<u64>, PipeError> {
        let meta = &self.meta;
        let by_parts = etag_parts(&meta.etag).is_some_and(|parts| parts > 1);
        let rests = self.has_part_checksums() || meta.checksum.is_none() && !meta.opaque_etag;
        if !by_parts || !rests {
            return Ok(None);
        }
        match self.head_part(1).await {
            Ok(part) if part.etag == meta.etag => Ok(Some(part.size)),
            Ok(_) | Err(RequestError::Failed(_)) => Ok(None),
            Err(cancelled) => Err(cancelled.into()),
        }
    }

    fn has_part_checksums(&self) -> bool {
        self.meta.checksum.as_ref().is_some_and(|sum| sum.kind == ChecksumKind::Composite)
    }

    async fn head_part(&self, number: u32) -> Result<ObjectMeta, RequestError> {
        let version = self.pinned.version_id.as_deref();
        let object = ObjectRef::new(&self.source.bucket, &self.source.key).at_version(version);
        let call = RequestSpec::read("HeadObject", &self.source.bucket);
        self.client.call(call, &self.retry_context, async |store| store.head(object, Some(number)).await).await
    }

    /// Reads the whole object with one request.
    async fn read_whole(&self) -> Result<OutputPiece, PipeError> {
        let size = self.meta.size;
        let memory = self.client.reserve_bytes(size).await?;
        let call = RequestSpec::read("GetObject", &self.pinned.bucket).bytes(size).once();
        let read = self
            .client
            .call(call, &self.retry_context, async |store| {
                let fetched = fetch_pinned(&*store, &self.pinned, None).await?;
                let mut reader = PinnedReader::new(fetched.body, &self.pinned);
                let piece = reader.take(size, &[]).await?;
                reader.end().await?;
                Ok(piece.bytes)
            })
            .await;
        let bytes = read.map_err(|error| self.read_error(error))?;
        Ok(OutputPiece { bytes, part: None, _memory: memory })
    }

    /// Writes all bytes in order. `parts` is the length of the object's parts: with it, each part is compared
    /// with its own checksum first.
    async fn ranges(
        &self,
        parts: Option<u64>,
        mut digest: Option<SegmentedDigest>,
        sink: &Arc<File>,
    ) -> Result<Option<SegmentedDigest>, PipeError> {
        let parts = parts.filter(|part| (1..=LONGEST_PART).contains(part));
        let (mut at, end, step) = (0, self.meta.size, parts.unwrap_or(RANGE));
        let mut ahead: VecDeque<PieceTask> = VecDeque::new();
        while at < end || !ahead.is_empty() {
            if at < end && ahead.len() < RANGES_AHEAD {
                let range = Range { first: at, last: (at + step).min(end) - 1 };
                let mut reserved = pin!(self.client.reserve_bytes(range.len()));
                // Pieces read ahead hold memory until they are written.
                let memory = match ahead.front_mut() {
                    None => reserved.await?,
                    Some(front) => tokio::select! {
                        biased;
                        memory = &mut reserved => memory?,
                        piece = front => {
                            ahead.pop_front();
                            digest = self.print(piece, digest, sink).await?;
                            continue;
                        }
                    },
                };
                let number = parts.map(|part| u32::try_from(at / part + 1).unwrap_or(u32::MAX));
                ahead.push_back(self.read(range, number, memory));
                at = range.last + 1;
            } else if let Some(front) = ahead.pop_front() {
                digest = self.print(front.await, digest, sink).await?;
            }
        }
        Ok(digest)
    }

    /// Reads a range; of a part with a checksum of its own also that.
    fn read(&self, range: Range, part: Option<u32>, memory: Option<MemoryPermit>) -> PieceTask {
        let (client, retry_context, pinned) =
            (self.client.clone(), Arc::clone(&self.retry_context), self.pinned.clone());
        let algorithm = self.meta.checksum.as_ref().map(|sum| sum.algorithm);
        let part = part.zip(algorithm);
        AbortOnDropHandle::new(tokio::spawn(async move {
            let algorithms = part.map(|(_, algorithm)| DigestAlgorithm::Checksum(algorithm));
            let call = RequestSpec::read("GetObject", &pinned.bucket).bytes(range.len()).once();
            let got = client.call(call, &retry_context, |store| {
                let (pinned, algorithms) = (pinned.clone(), Vec::from_iter(algorithms));
                let reading = AbortOnDropHandle::new(tokio::spawn(async move {
                    read_pinned(&*store, &pinned, range, &algorithms).await
                }));
                join_request(reading, "GetObject")
            });
            let kept = async {
                let (number, algorithm) = part?;
                let object = ObjectRef::new(&pinned.bucket, &pinned.key).at_version(pinned.version_id.as_deref());
                let call = RequestSpec::read("HeadObject", &pinned.bucket);
                let head =
                    client.call(call, &retry_context, async |store| store.head(object, Some(number)).await).await;
                // Without checksums of parts from the service, the bytes are verified at the end.
                let sum = head.ok().filter(|head| head.size == range.len())?.checksum?;
                (sum.algorithm == algorithm && !sum.value.contains('-')).then_some(sum.value)
            };
            let (got, kept) = futures::future::join(got, kept).await;
            let got = got?;
            let computed = algorithms.map(|algorithm| base64(&got.digest(algorithm)));
            Ok(OutputPiece { part: computed.zip(kept), bytes: got.bytes, _memory: memory })
        }))
    }

    /// The next range in order.
    async fn print(
        &self,
        piece: Result<Result<OutputPiece, RequestError>, tokio::task::JoinError>,
        digest: Option<SegmentedDigest>,
        sink: &Arc<File>,
    ) -> Result<Option<SegmentedDigest>, PipeError> {
        let piece = piece.map_err(|_| PipeError::Cancelled)?.map_err(|error| self.read_error(error))?;
        if let Some((ours, kept)) = &piece.part
            && ours != kept
        {
            return Err(self.mismatch(&format!("a part was read with checksum {ours}, and the service keeps {kept}")));
        }
        self.write(sink, piece, digest).await
    }

    /// Writes a piece while its digest is computed.
    async fn write(
        &self,
        sink: &Arc<File>,
        piece: OutputPiece,
        digest: Option<SegmentedDigest>,
    ) -> Result<Option<SegmentedDigest>, PipeError> {
        let (bytes, sink) = (piece.bytes.clone(), Arc::clone(sink));
        let writing = tokio::task::spawn_blocking(move || (&*sink).write_all(&bytes));
        let bytes = piece.bytes.clone();
        let hashing = tokio::task::spawn_blocking(move || {
            digest.map(|mut digest| {
                digest.update(&bytes);
                digest
            })
        });
        let (written, digest) = futures::future::join(writing, hashing).await;
        written.map_err(|_| PipeError::Cancelled)?.map_err(PipeError::Descriptor)?;
        self.passed.add(piece.bytes.len() as u64);
        digest.map_err(|_| PipeError::Cancelled)
    }

    /// Reads all bytes by one request, where ranges are ignored. A broken read starts over and skips the bytes that
    /// were written.
    async fn in_order(
        &self,
        mut digest: Option<SegmentedDigest>,
        sink: &Arc<File>,
    ) -> Result<Option<SegmentedDigest>, PipeError> {
        let size = self.meta.size;
        let mut reads = WholeReads::default();
        'read: loop {
            let fetched = fetch_whole(&self.client, &self.retry_context, &self.pinned, size).await;
            let (_, mut reader) = fetched.map_err(|error| self.read_error(error))?;
            let (mut at, written) = (0, self.passed.so_far());
            while at < size {
                let length = RANGE.min(size - at);
                let memory = self.client.reserve_bytes(length).await?;
                let taken = tokio::select! {
                    biased;
                    () = self.client.cancel().cancelled() => return Err(PipeError::Cancelled),
                    taken = reader.take(length, &[]) => taken,
                };
                match taken {
                    Ok(taken) if at >= written => {
                        let piece = OutputPiece { bytes: taken.bytes, part: None, _memory: memory };
                        digest = self.write(sink, piece, digest).await?;
                    }
                    Ok(_) => {}
                    Err(error) => {
                        reads.repeat(error, &self.retry_context).map_err(|error| self.read_error(error.into()))?;
                        continue 'read;
                    }
                }
                at += length;
            }
            // A longer body is not the object as it is stored.
            if let Err(error) = reader.end().await {
                reads.repeat(error, &self.retry_context).map_err(|error| self.read_error(error.into()))?;
                continue 'read;
            }
            return Ok(digest);
        }
    }

    /// Error of the pipe for a failed read.
    fn read_error(&self, error: RequestError) -> PipeError {
        let RequestError::Failed(error) = error else { return PipeError::Cancelled };
        if error.class != ErrorClass::Precondition {
            return RequestError::Failed(error).into();
        }
        let printed = self.passed.so_far();
        let message = format!(
            "GetObject {}: the object was overwritten while it was read ({}). Do not use the {printed} bytes that were written. {}",
            ObjectUri(&self.source.bucket, Some(&self.source.key)),
            error.code,
            Advice::Repeat
        );
        ObjectFailure::new(FailureClass::SourceChanged, &error.code, "GetObject", message).into()
    }
}
