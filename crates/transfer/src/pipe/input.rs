//! A descriptor to an object: bytes are uploaded as they arrive, in parts that are sent concurrently.
//!
//! | killed | left behind | what happens next |
//! |---|---|---|
//! | before the upload is recorded | perhaps an empty upload | the bucket's lifecycle rule, or a cleanup |
//! | before it is completed | an upload with parts, on record in [`InputOptions::journal`] | a reader of it aborts it |
//! | after that | the object, and the record | aborting finds no upload |

mod growing;
mod journal;
mod source;
mod uploaded_parts;
mod verify;

use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;

use bytes::Bytes;
use futures::stream::{FuturesUnordered, StreamExt as _};
use seqferry_client::budget::MemoryPermit;
use seqferry_client::upload::{Completion, PartBody, growing_part_size};
use seqferry_client::{
    ChecksumSupport, RecordedUpload, RequestError, RequestSpec, RetryContext, RetryingClient, UploadJournal,
    UploadSession,
};
use seqferry_store::checksum::{base64, hex};
use seqferry_store::{
    Advice, Checksum, ChecksumAlgorithm, ChecksumKind, CompleteUpload, CompletedPart, CreateUpload, DigestAlgorithm,
    Digester, Digests, ErrorClass, ObjectMeta, ObjectRef, ObjectUri, PutObject, StoreError, WrittenObject, WrittenPart,
};

pub use growing::{GrowingInput, PartBytes, send_parts};
use journal::FileJournal;
use source::Descriptor;
pub use source::{InputBytes, RateLimited, ReplaceCondition, ResumableInput, store_resumable};
use uploaded_parts::UploadedParts;

use super::{ByteCounter, PipeError, PipeReport, PipeResult};
use crate::clock::now;
use crate::object::{IfExists, Properties};
use crate::object_outcome::{FailureClass, ObjectFailure, VerificationLevel};
use crate::verification::{CopySide, Verdict, compare, is_digest, join_digests, joined_etag};

/// Default size of the first parts: small, so that little memory is held and the upload begins early.
pub const FIRST_PART: u64 = 8 << 20;
/// Largest number of concurrent parts.
const MAX_CONCURRENT_PARTS: usize = 8;
/// Largest number of attempts with other checksums, for services that refuse them.
const MAX_CHECKSUM_ATTEMPTS: usize = 3;

/// Target object of an input.
#[derive(Debug, Clone)]
pub struct InputTarget {
    /// Bucket name.
    pub bucket: String,
    /// Key.
    pub key: String,
}

/// Options of an input.
#[derive(Debug, Clone, Default)]
pub struct InputOptions {
    /// Bytes of the first parts.
    pub part_size: Option<u64>,
    /// Storage class of the object; None for the bucket's default.
    pub storage_class: Option<String>,
    /// Properties that the object carries.
    pub properties: Properties,
    /// Rule for an existing target. The input cannot be compared with it, so that [`IfExists::Same`] overwrites.
    pub if_exists: IfExists,
    /// File that the upload's id is written to, and synced, before the first part.
    pub journal: Option<PathBuf>,
}

/// Bytes of a part, read and not sent.
struct FilledPart {
    bytes: Bytes,
    memory: Option<MemoryPermit>,
    /// True for the last part of the input.
    is_last: bool,
}

/// A part that was uploaded.
struct UploadedPart {
    part: CompletedPart,
    size: u64,
    sum: Option<String>,
    /// MD5, where the `ETag` is that.
    md5: Option<Vec<u8>>,
}

struct InputUpload<S, J> {
    client: RetryingClient,
    retry_context: Arc<RetryContext>,
    target: InputTarget,
    options: InputOptions,
    source: S,
    journal: J,
    recorded: Option<RecordedUpload>,
    replaces: ReplaceCondition,
    /// True when a failed upload stays open, since it is recorded and can be resumed.
    stays_open: bool,
    passed: ByteCounter,
}

pub(crate) async fn store_input(
    client: RetryingClient,
    target: InputTarget,
    options: InputOptions,
    source: File,
    passed: ByteCounter,
) -> PipeResult {
    let source = Descriptor { source: Arc::new(source), cancel: client.cancel().clone() };
    let journal = FileJournal { path: options.journal.clone(), target: target.clone() };
    let input = ResumableInput { bytes: source, journal, recorded: None, replaces: ReplaceCondition::Anything };
    let upload = InputUpload::new(client, target, options, input);
    InputUpload { stays_open: false, passed, ..upload }.store().await
}

impl<S, J> InputUpload<S, J> {
    fn new(client: RetryingClient, target: InputTarget, options: InputOptions, input: ResumableInput<S, J>) -> Self {
        let ResumableInput { bytes: source, journal, recorded, replaces } = input;
        Self {
            client,
            retry_context: Arc::default(),
            target,
            options,
            source,
            journal,
            recorded,
            replaces,
            stays_open: true,
            passed: ByteCounter::default(),
        }
    }
}

impl<S: InputBytes, J: UploadJournal + Send> InputUpload<S, J> {
    async fn store(self) -> PipeResult {
        if matches!(self.options.if_exists, IfExists::Skip | IfExists::Fail)
            && let Some(there) = self.head_target().await?
        {
            if self.options.if_exists == IfExists::Fail {
                return Err(self.exists_failure().into());
            }
            return Ok(PipeReport {
                bytes: 0,
                etag: there.etag,
                version_id: there.version_id,
                checksum: there.checksum,
                verified: VerificationLevel::No,
            });
        }
        let first = self.fill(self.part_size(1)).await?;
        if first.is_last { self.put(first).await } else { self.in_parts(first).await }
    }

    /// The next bytes: all that a part has, or all that is left.
    async fn fill(&self, size: u64) -> Result<FilledPart, PipeError> {
        let memory = self.client.reserve_bytes(size).await?;
        self.fill_reserved(size, memory).await
    }

    async fn fill_reserved(&self, size: u64, memory: Option<MemoryPermit>) -> Result<FilledPart, PipeError> {
        let bytes = self.source.next(size).await?;
        let is_last = (bytes.len() as u64) < size;
        Ok(FilledPart { bytes, memory, is_last })
    }

    async fn in_parts(&self, first: FilledPart) -> PipeResult {
        let InputTarget { bucket, key } = &self.target;
        let session = UploadSession::new(self.client.clone(), bucket, key, now(), Arc::clone(&self.retry_context));
        let mut session = session.recorded(self.recorded.clone());
        let end = self.through(&mut session, first).await;
        if end.is_err() && !self.stays_open {
            session.abort(true).await;
        }
        end
    }

    async fn through(&self, session: &mut UploadSession, first: FilledPart) -> PipeResult {
        let uploaded = self.adopt(session).await?;
        let (sum, first) = match &uploaded {
            Some(uploaded) => (uploaded.sum, self.send(session, 1, uploaded.sum, first, Some(uploaded)).await?),
            None => self.begin(session, 1, first).await?,
        };
        let mut sent = BTreeMap::from([(1, first)]);
        self.send_remaining(session, sum, &mut sent, uploaded.as_ref()).await?;
        let size = sent.values().map(|part| part.size).sum();
        let whole = sum.and_then(|algorithm| {
            let values: Option<Vec<(&str, u64)>> =
                sent.values().map(|part| Some((part.sum.as_deref()?, part.size))).collect();
            let value = algorithm.combine(values?)?;
            Some(Checksum { algorithm, value, kind: ChecksumKind::FullObject })
        });
        let md5s: Option<Vec<&[u8]>> = sent.values().map(|part| part.md5.as_deref()).collect();
        let etag = md5s.map(|md5s| join_digests(DigestAlgorithm::Md5, md5s));
        let joined = joined_etag(sent.values().map(|part| part.part.etag.as_str()));
        let request = CompleteUpload {
            parts: sent.into_values().map(|part| part.part).collect(),
            size,
            checksum: sum,
            whole: whole.clone(),
            if_absent: self.if_absent(),
            if_match: self.if_match(),
            ..CompleteUpload::default()
        };
        match session.complete(request).await? {
            Completion::Object(written) => self.verify_target(size, whole, etag, written).await,
            Completion::Gone(error) => {
                // An attempt whose answer was lost may have completed the upload: the object is that of these very
                // parts, or its checksum is that of these bytes.
                let found = self.head_target().await?.filter(|found| found.size == size);
                let is_ours = |found: &ObjectMeta| {
                    let proof = proof(size, whole.as_ref(), etag.as_deref(), found);
                    matches!(proof, Verdict::Verified(_)) || joined.as_ref() == Some(&found.etag)
                };
                let Some(found) = found.filter(is_ours) else {
                    return Err(RequestError::Failed(error).into());
                };
                session.confirm_completed();
                let ObjectMeta { etag: made, version_id, checksum, encryption, .. } = found;
                self.verify_target(size, whole, etag, WrittenObject { etag: made, version_id, checksum, encryption })
                    .await
            }
        }
    }

    /// All parts after the first.
    async fn send_remaining(
        &self,
        session: &UploadSession,
        sum: Option<ChecksumAlgorithm>,
        sent: &mut BTreeMap<u32, UploadedPart>,
        uploaded: Option<&UploadedParts>,
    ) -> Result<(), PipeError> {
        let mut under_way = FuturesUnordered::new();
        for number in 2.. {
            let size = self.part_size(number);
            let mut filled = pin!(self.fill(size));
            let filled = loop {
                tokio::select! {
                    // Parts give their memory back: without that none may be there for the next one.
                    Some(part) = under_way.next(), if !under_way.is_empty() => {
                        let (number, part) = part?;
                        sent.insert(number, part);
                    }
                    filled = &mut filled => break filled?,
                }
            };
            let is_last = filled.is_last;
            if !filled.bytes.is_empty() {
                let going_up = async move {
                    Ok::<_, RequestError>((number, self.send(session, number, sum, filled, uploaded).await?))
                };
                under_way.push(going_up);
            }
            while is_last || under_way.len() >= MAX_CONCURRENT_PARTS {
                let Some(part) = under_way.next().await else { return Ok(()) };
                let (number, part) = part?;
                sent.insert(number, part);
            }
        }
        Ok(())
    }
}

impl<S: RateLimited, J: UploadJournal + Send> InputUpload<S, J> {
    fn address(&self) -> ObjectUri<'_> {
        ObjectUri(&self.target.bucket, Some(&self.target.key))
    }

    fn part_size(&self, number: u32) -> u64 {
        growing_part_size(number, self.options.part_size.unwrap_or(FIRST_PART))
    }

    async fn head_target(&self) -> Result<Option<ObjectMeta>, RequestError> {
        let object = ObjectRef::new(&self.target.bucket, &self.target.key);
        let call = RequestSpec::read("HeadObject", &self.target.bucket);
        match self.client.call(call, &self.retry_context, async |store| store.head(object, None).await).await {
            Ok(found) => Ok(Some(found)),
            Err(RequestError::Failed(error)) if error.class == ErrorClass::NotFound => Ok(None),
            Err(other) => Err(other),
        }
    }

    fn exists_failure(&self) -> ObjectFailure {
        let message = format!("{} exists, and {}", self.address(), Advice::OverwriteTarget);
        ObjectFailure::new(FailureClass::Exists, "TargetExists", "HeadObject", message)
    }

    /// Checksum algorithm that the service accepts with bytes; None: MD5 is sent instead.
    fn sum(&self) -> Option<ChecksumAlgorithm> {
        match self.client.quirks().sums() {
            ChecksumSupport::Any => Some(
                self.options
                    .properties
                    .checksum
                    .filter(|wanted| wanted.supports_full_object())
                    .unwrap_or(ChecksumAlgorithm::Crc64Nvme),
            ),
            ChecksumSupport::Crc32C => Some(ChecksumAlgorithm::Crc32C),
            ChecksumSupport::Md5 => None,
        }
    }

    fn digests(sum: Option<ChecksumAlgorithm>, bytes: &[u8]) -> Digests {
        match sum {
            Some(algorithm) => {
                let value = base64(&Digester::of(DigestAlgorithm::Checksum(algorithm), bytes));
                Digests { checksum: Some((algorithm, value)), md5: None }
            }
            None => Digests { checksum: None, md5: Some(base64(&Digester::of(DigestAlgorithm::Md5, bytes))) },
        }
    }

    /// True when a write was refused for the checksum sent with it; the algorithm is then recorded as unsupported.
    fn refuses_sum(&self, error: &StoreError, sum: Option<ChecksumAlgorithm>) -> bool {
        let Some(sum) = sum else { return false };
        let about = error.class == ErrorClass::Capability || error.is_about_checksums();
        if about && !error.is_about_bytes() {
            self.client.quirks().learn_refused_sum(sum);
            return true;
        }
        false
    }

    fn if_absent(&self) -> bool {
        let is_wanted = matches!(self.options.if_exists, IfExists::Skip | IfExists::Fail)
            || self.replaces == ReplaceCondition::Nothing;
        // A client that checks before writes drops conditions that the service refuses, and checks them with HEAD.
        is_wanted && (self.client.looks_before_writes() || !self.client.quirks().refuses_conditions())
    }

    fn if_match(&self) -> Option<String> {
        match &self.replaces {
            ReplaceCondition::Version(etag)
                if self.client.looks_before_writes() || !self.client.quirks().refuses_matches() =>
            {
                Some(etag.clone())
            }
            ReplaceCondition::Version(_) | ReplaceCondition::Anything | ReplaceCondition::Nothing => None,
        }
    }

    /// Stores the whole input with one request.
    async fn put(&self, only: FilledPart) -> PipeResult {
        let FilledPart { bytes, memory: _memory, .. } = only;
        let size = bytes.len() as u64;
        for tried in 1.. {
            let sum = self.sum();
            let body = bytes.clone();
            let digests = tokio::task::spawn_blocking(move || Self::digests(sum, &body)).await;
            let object = PutObject {
                bucket: self.target.bucket.clone(),
                key: self.target.key.clone(),
                attributes: self.options.properties.attributes_of(&ObjectMeta::default()),
                tags: self.options.properties.tags.clone().unwrap_or_default(),
                storage_class: self.options.storage_class.clone(),
                write: self.options.properties.explicit_options(),
                digests: digests.map_err(|_| PipeError::Cancelled)?,
                if_absent: self.if_absent(),
                if_match: self.if_match(),
                defer_sync: false,
            };
            self.source.admit(size).await;
            let put = self.client.put_object(&object, &bytes, &self.retry_context);
            let written = match put.await {
                Ok(written) => written,
                Err(RequestError::Failed(error)) if tried < MAX_CHECKSUM_ATTEMPTS && self.refuses_sum(&error, sum) => {
                    continue;
                }
                Err(other) => return Err(other.into()),
            };
            self.passed.add(size);
            let sum = object.digests.checksum.map(|(algorithm, value)| Checksum {
                algorithm,
                value,
                kind: ChecksumKind::FullObject,
            });
            let etag = hex(&Digester::of(DigestAlgorithm::Md5, &bytes));
            return self.verify_target(size, sum, Some(etag), written).await;
        }
        Err(PipeError::Cancelled)
    }

    /// Creates the upload and sends a part, whose reply shows which checksums the service accepts.
    async fn begin(
        &self,
        session: &mut UploadSession,
        number: u32,
        mut first: FilledPart,
    ) -> Result<(Option<ChecksumAlgorithm>, UploadedPart), PipeError> {
        for tried in 1.. {
            let sum = self.sum();
            let request = CreateUpload {
                attributes: self.options.properties.attributes_of(&ObjectMeta::default()),
                tags: self.options.properties.tags.clone().unwrap_or_default(),
                storage_class: self.options.storage_class.clone(),
                write: self.options.properties.explicit_options(),
                checksum: sum.map(|algorithm| (algorithm, ChecksumKind::FullObject)),
                part_size: self.part_size(1),
                ..session.request()
            };
            let refused = match session.begin(&request, &self.journal).await {
                Ok(()) => {
                    let again = first.bytes.clone();
                    match self.send(session, number, sum, first, None).await {
                        Ok(sent) => return Ok((sum, sent)),
                        Err(RequestError::Failed(error)) => {
                            first = FilledPart { bytes: again, memory: None, is_last: false };
                            error
                        }
                        Err(cancelled) => return Err(cancelled.into()),
                    }
                }
                Err(RequestError::Failed(error)) => error,
                Err(cancelled) => return Err(cancelled.into()),
            };
            session.abort(true).await;
            if tried >= MAX_CHECKSUM_ATTEMPTS || !self.refuses_sum(&refused, sum) {
                return Err(RequestError::Failed(refused).into());
            }
        }
        Err(PipeError::Cancelled)
    }

    async fn send(
        &self,
        session: &UploadSession,
        number: u32,
        sum: Option<ChecksumAlgorithm>,
        filled: FilledPart,
        uploaded: Option<&UploadedParts>,
    ) -> Result<UploadedPart, RequestError> {
        let FilledPart { bytes, memory, .. } = filled;
        let body = bytes.clone();
        let digests = tokio::task::spawn_blocking(move || Self::digests(sum, &body)).await;
        let digests = digests.map_err(|_| RequestError::Cancelled)?;
        let ours = digests.checksum.as_ref().map(|(_, value)| value.clone());
        let found = uploaded.and_then(|uploaded| uploaded.find(number, &bytes, ours.as_deref()));
        let WrittenPart { etag, checksum, opaque_etag } = if let Some(found) = found {
            found
        } else {
            self.source.admit(bytes.len() as u64).await;
            session.put_part(number, PartBody { bytes: bytes.clone(), digests, memory }).await?
        };
        if let (Some(ours), Some(theirs)) = (&ours, &checksum)
            && ours != theirs
        {
            let InputTarget { bucket, key } = &self.target;
            let error = StoreError::new("UploadPart", bucket, Some(key), "BadDigest", None)
                .with_message(format!("part {number} was sent with checksum {ours}, and the service holds {theirs}"));
            return Err(RequestError::Failed(error));
        }
        let size = bytes.len() as u64;
        // MD5 is needed only where no checksum was compared.
        let md5 = if checksum.is_none() && !opaque_etag && is_digest(&etag) {
            let hashed = tokio::task::spawn_blocking(move || Digester::of(DigestAlgorithm::Md5, &bytes)).await;
            hashed.ok()
        } else {
            None
        };
        self.passed.add(size);
        let part = CompletedPart { number, etag, checksum: checksum.or_else(|| ours.clone()) };
        Ok(UploadedPart { part, size, sum: ours, md5 })
    }
}

fn report(bytes: u64, checksum: Option<Checksum>, written: WrittenObject, verified: VerificationLevel) -> PipeReport {
    PipeReport { bytes, etag: written.etag, version_id: written.version_id, checksum, verified }
}

/// Compares the target with the bytes that were sent.
fn proof(size: u64, sum: Option<&Checksum>, etag: Option<&str>, there: &ObjectMeta) -> Verdict {
    let sent =
        CopySide { size: Some(size), etag: etag.unwrap_or_default(), opaque_etag: etag.is_none(), checksum: sum };
    compare(sent, CopySide::from(there), true)
}

#[cfg(test)]
mod tests;
