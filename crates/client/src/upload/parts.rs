//! The parts of an upload: sent from memory, copied within the service, or written while they are read.

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use seqferry_store::budget::{MemoryPermit, RequestPermit};
use seqferry_store::prelude::*;
use seqferry_store::{Body, Digests, PinnedObject, Range, StoreError, UploadRef, WrittenPart};

use super::UploadSession;
use crate::request::{RequestError, RequestSpec, join_request};

/// A part that is in memory.
#[derive(Debug)]
pub struct PartBody {
    /// Its bytes.
    pub bytes: Bytes,
    /// Expected digests of the bytes: sent along, so that the service refuses bytes that differ.
    pub digests: Digests,
    /// Given back when nothing holds the bytes any more, retries and abandoned requests included.
    pub memory: Option<MemoryPermit>,
}

/// A part that may be copied now.
#[derive(Debug)]
pub struct ReservedCopy {
    /// 1 to 10,000.
    pub number: u32,
    /// Range of the source that is copied.
    pub range: Range,
    permit: RequestPermit,
}

impl UploadSession {
    fn upload_id(&self) -> String {
        self.open.as_ref().map(|upload| upload.upload_id.clone()).unwrap_or_default()
    }

    /// Sends a part. Sending the same number again replaces it.
    ///
    /// # Errors
    /// Code `NoSuchUpload` when the upload was aborted from outside, by a lifecycle rule for example.
    pub async fn put_part(&self, number: u32, part: PartBody) -> Result<WrittenPart, RequestError> {
        let spec = RequestSpec::write("UploadPart", &self.bucket).bytes(part.bytes.len() as u64);
        let (memory, upload_id) = (Arc::new(part.memory), self.upload_id());
        self.client
            .call(spec, &self.retry_context, |store| {
                let (bucket, key, upload_id) = (self.bucket.clone(), self.key.clone(), upload_id.clone());
                let (bytes, digests, memory) = (part.bytes.clone(), part.digests.clone(), Arc::clone(&memory));
                let sent = self.under_way.spawn(async move {
                    let _memory = memory;
                    store.put_part(UploadRef::new(&bucket, &key, &upload_id), number, bytes, &digests).await
                });
                join_request(sent, "UploadPart")
            })
            .await
    }

    fn copy_spec(&self, range: Range) -> RequestSpec<'_> {
        RequestSpec::write("UploadPartCopy", &self.bucket).bytes(range.len())
    }

    /// Waits until a part may be copied.
    ///
    /// # Errors
    /// When the client was cancelled.
    pub async fn reserve_copy(&self, number: u32, range: Range) -> Result<ReservedCopy, RequestError> {
        let permit = self.client.reserve(self.copy_spec(range), &self.retry_context).await?;
        Ok(ReservedCopy { number, range, permit })
    }

    /// Copies a part from `source` within the service. A slow copy is hedged where the same bytes get the same `ETag`.
    ///
    /// # Errors
    /// Errors as of [`UploadSession::put_part`]; class [`ErrorClass::Precondition`](seqferry_store::ErrorClass) when
    /// the source is another version by now.
    pub async fn copy_part(&self, source: &PinnedObject, reserved: ReservedCopy) -> Result<WrittenPart, RequestError> {
        let ReservedCopy { number, range, permit } = reserved;
        // The same part twice at a time is safe where the same bytes get the same `ETag`: not known before the first
        // answer, and all parts may be under way by then.
        let quirks = self.client.quirks();
        let safe = || self.plain_etags.load(Ordering::Relaxed) && !quirks.changing_part_etags();
        let spec = self.copy_spec(range).hedge_if(&safe);
        let upload_id = self.upload_id();
        // What the first answer said of this part; a second one that says something else is a lesson.
        let first_etag = Arc::new(OnceLock::new());
        let copied = self
            .client
            .call_reserved(spec, permit, &self.retry_context, |store| {
                let (source, upload_id) = (source.clone(), upload_id.clone());
                let (bucket, key) = (self.bucket.clone(), self.key.clone());
                let (first_etag, connection) = (Arc::clone(&first_etag), self.client.connection().clone());
                let sent = self.under_way.spawn(async move {
                    let copied =
                        store.copy_part(&source, range, UploadRef::new(&bucket, &key, &upload_id), number).await?;
                    if first_etag.get_or_init(|| copied.etag.clone()) != &copied.etag {
                        connection.quirks.learn_changing_part_etags();
                    }
                    Ok(copied)
                });
                join_request(sent, "UploadPartCopy")
            })
            .await?;
        self.plain_etags.store(!copied.opaque_etag, Ordering::Relaxed);
        Ok(copied)
    }

    /// Writes parts while they are read: for targets that take bytes as they come, such as disks. The read makes the
    /// retries.
    pub fn part_writer(&self) -> PartWriter {
        PartWriter {
            store: Arc::clone(&self.client.connection().store),
            bucket: self.bucket.clone(),
            key: self.key.clone(),
            upload_id: self.upload_id(),
        }
    }
}

/// See [`UploadSession::part_writer`].
#[derive(Debug, Clone)]
pub struct PartWriter {
    store: Arc<dyn ObjectStore>,
    bucket: String,
    key: String,
    upload_id: String,
}

impl PartWriter {
    /// Writes part `number` of `size` bytes from `body`, once.
    ///
    /// # Errors
    /// Errors of the body and of the write.
    pub async fn write(&self, number: u32, size: u64, body: Body) -> Result<WrittenPart, StoreError> {
        self.store.stream_part(UploadRef::new(&self.bucket, &self.key, &self.upload_id), number, size, body).await
    }
}
