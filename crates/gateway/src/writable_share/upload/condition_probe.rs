//! Probes of conditional writes. Some services silently ignore conditions, for some kinds of requests only. So each
//! kind of request is probed once, before the first of its kind is sent.
//!
//! Until a probe has shown that a condition is enforced, each attempt at a write first checks its target
//! ([`RetryingClient::checking_before_writes`]).

use std::sync::Arc;

use bytes::Bytes;
use seqferry_client::{ConditionalRequest, RequestError, RequestSpec, RetryContext, RetryingClient};
use seqferry_store::{
    CompleteUpload, CompletedPart, CopyTarget, CreateUpload, Digests, ErrorClass, ObjectStore, PinnedObject, PutObject,
    StoreError, UploadRef,
};
use seqferry_transfer::pipe::FIRST_PART;
use tokio::sync::{Mutex, OnceCell};

use super::super::checks::{COPIED_PROBE, PROBE};
use super::send::local;
use super::{UploadError, Uploader};
use crate::journal::Disk;
use crate::overlay::{Change, Node, OpenUpload, new_token};

/// Number in the journal of a write that is of no file: that of the probe.
pub(super) const NO_FILE: u64 = 0;
/// An `ETag` that no object has.
const NO_ETAG: &str = "00000000000000000000000000000000";

/// Treatment of conditions of writes by the service.
#[derive(Debug)]
pub(super) struct ConditionProbe {
    /// A client that does not look: the service is to answer.
    client: RetryingClient,
    put: OnceCell<bool>,
    copy: OnceCell<bool>,
    complete: OnceCell<bool>,
    /// One probe at a time: they have the same objects.
    one: Mutex<()>,
}

/// Answer to a write whose condition does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ConditionResult {
    /// It was made.
    Made,
    /// It was refused for its condition.
    Kept,
    /// The service does not know the condition.
    Unknown,
}

impl ConditionProbe {
    pub(super) fn new(client: RetryingClient) -> Self {
        let (put, copy, complete) = (OnceCell::new(), OnceCell::new(), OnceCell::new());
        Self { client, put, copy, complete, one: Mutex::default() }
    }

    async fn ask<T, Fut: Future<Output = Result<T, StoreError>>>(
        &self,
        operation: &'static str,
        bucket: &str,
        request: impl Fn(Arc<dyn ObjectStore>) -> Fut,
    ) -> Result<T, RequestError> {
        self.client.call(RequestSpec::write(operation, bucket), &RetryContext::default(), request).await
    }
}

fn condition_result<T>(condition_result: Result<T, RequestError>) -> Result<ConditionResult, RequestError> {
    match condition_result {
        Ok(_) => Ok(ConditionResult::Made),
        Err(RequestError::Failed(error)) => match error.class {
            ErrorClass::Precondition => Ok(ConditionResult::Kept),
            ErrorClass::Capability => Ok(ConditionResult::Unknown),
            _ => Err(RequestError::Failed(error)),
        },
        Err(cancelled) => Err(cancelled),
    }
}

impl<D: Disk> Uploader<D> {
    /// The request that makes the object of a file.
    pub(super) fn request_of(&self, node: &Node) -> ConditionalRequest {
        let size = node.attributes().size;
        let is_grown = self.inner.overlay.read(|overlay| overlay.growing().contains_key(&node.file.number));
        let (is_large, request) = if node.is_as_base() || is_grown {
            (size > self.largest_copy(), ConditionalRequest::Copy)
        } else {
            (size >= self.spec.part_size.unwrap_or(FIRST_PART), ConditionalRequest::Put)
        };
        if is_large { ConditionalRequest::Complete } else { request }
    }

    /// True when the service keeps the conditions of a request, found out once.
    pub(super) async fn keeps_conditions(&self, request: ConditionalRequest) -> Result<bool, UploadError> {
        let quirks = self.spec.client.quirks();
        let known = match request {
            ConditionalRequest::Put => &self.conditions.put,
            ConditionalRequest::Copy => &self.conditions.copy,
            ConditionalRequest::Complete => &self.conditions.complete,
        };
        let find_out = || async {
            if quirks.keeps_conditions(request) {
                return Ok(true);
            }
            let _one = self.conditions.one.lock().await;
            let is_kept = self.condition_probe(request).await?;
            if is_kept {
                quirks.learn_kept_conditions(request);
            } else {
                let operation = match request {
                    ConditionalRequest::Put => "PutObject",
                    ConditionalRequest::Copy => "CopyObject",
                    ConditionalRequest::Complete => "CompleteMultipartUpload",
                };
                tracing::warn!(
                    "{}: the endpoint ignores the condition of {operation}. The target is checked right before each \
                     attempt; let no other program write below the share",
                    self.address("")
                );
            }
            Ok::<bool, UploadError>(is_kept)
        };
        known.get_or_try_init(find_out).await.copied()
    }

    async fn condition_probe(&self, request: ConditionalRequest) -> Result<bool, UploadError> {
        // A process that is killed leaves it to the next one.
        let open = OpenUpload {
            number: NO_FILE,
            changed: 0,
            path: PROBE.into(),
            modified: 0,
            size: 0,
            upload_id: "".into(),
            part_size: 0,
            token: new_token(),
            is_of_this_process: true,
        };
        self.inner.overlay.change(|_| Ok((vec![Change::BeginUpload(open)], ()))).await.map_err(local)?;
        let is_kept = match request {
            ConditionalRequest::Put => self.probe_put().await?,
            ConditionalRequest::Copy => self.probe_copy().await?,
            ConditionalRequest::Complete => self.probe_complete().await?,
        };
        self.remove_probe().await?;
        Ok(is_kept)
    }

    /// Remove what a killed process has left of a probe. One that is under way comes to its end first.
    pub(super) async fn end_probe(&self) -> Result<(), UploadError> {
        let _one = self.conditions.one.lock().await;
        let is_left = self.inner.overlay.read(|overlay| overlay.uploads().contains_key(&NO_FILE));
        if is_left { self.remove_probe().await } else { Ok(()) }
    }

    /// Remove what a probe has put.
    async fn remove_probe(&self) -> Result<(), UploadError> {
        let (bucket, key) = (self.spec.bucket.as_str(), self.key(PROBE));
        let list = async |store: Arc<dyn ObjectStore>| store.list_uploads(bucket, &key).await;
        let open = match self.conditions.ask("ListMultipartUploads", bucket, list).await {
            Ok(open) => open,
            // It cannot be known what is open: the bucket's lifecycle rule removes it.
            Err(RequestError::Failed(error)) if matches!(error.class, ErrorClass::Capability | ErrorClass::Person) => {
                Vec::new()
            }
            Err(other) => return Err(other.into()),
        };
        for upload in open.iter().filter(|upload| upload.key == key) {
            self.abort_probe(UploadRef::new(bucket, &key, &upload.upload_id)).await?;
        }
        let probes = [PROBE, COPIED_PROBE].map(|path| (self.key(path), None)).to_vec();
        seqferry_transfer::remove::remove(&self.spec.client, &self.spec.bucket, probes).await?;
        self.inner.overlay.change(|_| Ok((vec![Change::EndUpload(NO_FILE)], ()))).await.map_err(local)
    }

    /// Put a probe. `condition`: absent, or the `ETag` that is to be there.
    async fn put_probe(&self, path: &str, bytes: &'static [u8], condition: PutObject) -> Result<String, RequestError> {
        let (bytes, bucket) = (Bytes::from_static(bytes), self.spec.bucket.as_str());
        let (key, digests) = (self.key(path), Digests::crc64nvme(&bytes));
        let write = self.spec.objects.write_options();
        let object = PutObject { bucket: bucket.to_owned(), key, digests, write, ..condition };
        let put = async |store: Arc<dyn ObjectStore>| store.put_object(&object, bytes.clone()).await;
        Ok(self.conditions.ask("PutObject", bucket, put).await?.etag)
    }

    async fn probe_put(&self) -> Result<bool, UploadError> {
        let absent = || PutObject { if_absent: true, ..PutObject::default() };
        // The first makes it, unless a killed process has left it.
        let mut found = condition_result(self.put_probe(PROBE, b"", absent()).await)?;
        if found == ConditionResult::Made {
            found = condition_result(self.put_probe(PROBE, b"", absent()).await)?;
        }
        let other = PutObject { if_match: Some(NO_ETAG.to_owned()), ..PutObject::default() };
        let of_other = condition_result(self.put_probe(PROBE, b"", other).await)?;
        let quirks = self.spec.client.quirks();
        if found == ConditionResult::Unknown {
            quirks.learn_refused_conditions();
        }
        if of_other == ConditionResult::Unknown {
            quirks.learn_refused_matches();
        }
        Ok(found == ConditionResult::Kept && of_other == ConditionResult::Kept)
    }

    async fn probe_copy(&self) -> Result<bool, UploadError> {
        let etag = self.put_probe(PROBE, b"", PutObject::default()).await?;
        self.put_probe(COPIED_PROBE, b"1", PutObject::default()).await?;
        let bucket = self.spec.bucket.as_str();
        let (from, to) = (self.key(PROBE), self.key(COPIED_PROBE));
        let source = PinnedObject { bucket: bucket.to_owned(), key: from, if_match: Some(etag), ..<_>::default() };
        let copy = async |target: CopyTarget<'_>| {
            let copy = async |store: Arc<dyn ObjectStore>| store.copy(&source, target).await;
            condition_result(self.conditions.ask("CopyObject", bucket, copy).await)
        };
        let write = self.spec.objects.write_options();
        let target = CopyTarget { write: Some(&write), ..CopyTarget::new(bucket, &to) };
        let absent = CopyTarget { if_absent: true, ..target };
        if copy(absent).await? != ConditionResult::Kept
            || copy(CopyTarget { if_match: Some(NO_ETAG), ..target }).await? != ConditionResult::Kept
        {
            return Ok(false);
        }
        // A service that takes a condition for one of the source refuses what holds.
        let there = self.put_probe(COPIED_PROBE, b"2", PutObject::default()).await?;
        if copy(CopyTarget { if_match: Some(&there), ..target }).await? != ConditionResult::Made {
            return Ok(false);
        }
        let gone = vec![(to.clone(), None)];
        seqferry_transfer::remove::remove(&self.spec.client, bucket, gone).await?;
        Ok(copy(absent).await? == ConditionResult::Made)
    }

    async fn probe_complete(&self) -> Result<bool, UploadError> {
        self.put_probe(PROBE, b"", PutObject::default()).await?;
        let (bucket, key) = (self.spec.bucket.as_str(), self.key(PROBE));
        let absent = CompleteUpload { if_absent: true, ..CompleteUpload::default() };
        let other = CompleteUpload { if_match: Some(NO_ETAG.to_owned()), ..CompleteUpload::default() };
        for condition in [absent, other] {
            let write = self.spec.objects.write_options();
            let request =
                CreateUpload { bucket: bucket.to_owned(), key: key.clone(), write, size: 1, ..<_>::default() };
            let create = async |store: Arc<dyn ObjectStore>| store.create_upload(&request).await;
            let upload_id = self.conditions.ask("CreateMultipartUpload", bucket, create).await?;
            let upload = UploadRef::new(bucket, &key, &upload_id);
            let (byte, digests) = (Bytes::from_static(b"1"), Digests::default());
            let put = async |store: Arc<dyn ObjectStore>| store.put_part(upload, 1, byte.clone(), &digests).await;
            let part = self.conditions.ask("UploadPart", bucket, put).await?;
            let parts = vec![CompletedPart { number: 1, etag: part.etag, checksum: None }];
            let (bucket_name, key_name) = (bucket.to_owned(), key.clone());
            let upload_id = upload_id.clone();
            let request = CompleteUpload { bucket: bucket_name, key: key_name, upload_id, parts, ..condition };
            let complete = async |store: Arc<dyn ObjectStore>| store.complete_upload(&request).await;
            let condition_result =
                condition_result(self.conditions.ask("CompleteMultipartUpload", bucket, complete).await)?;
            if condition_result != ConditionResult::Made {
                self.abort_probe(upload).await?;
            }
            if condition_result != ConditionResult::Kept {
                return Ok(false);
            }
        }
        Ok(true)
    }

    async fn abort_probe(&self, upload: UploadRef<'_>) -> Result<(), RequestError> {
        let abort = async |store: Arc<dyn ObjectStore>| store.abort_upload(upload).await;
        match self.conditions.ask("AbortMultipartUpload", upload.bucket, abort).await {
            Err(RequestError::Failed(error)) if error.class == ErrorClass::NotFound => Ok(()),
            aborted => aborted,
        }
    }
}
