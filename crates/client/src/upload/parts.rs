//! The parts of an upload: sent from memory, copied within the service, or written while they are read.

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use crate::budget::{MemoryPermit, RequestPermit};
use bytes::Bytes;
use seqferry_store::checksum::{decode_base64, hex};
use seqferry_store::prelude::*;
use seqferry_store::{Body, Digests, PartInfo, PinnedObject, Range, StoreError, UploadRef, WrittenPart};

use super::UploadSession;
use crate::request::{RequestError, RequestSpec, join_request};
use crate::retry::is_unclear;

/// Patience of a look at the parts of an upload.
#[derive(Debug, Clone, Copy)]
enum ListingPatience {
    /// The service fails just now, and the next attempt at the part tells when it is back.
    Once,
    /// The service answers.
    UntilAnswered,
}

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
    /// The id of the open upload for a request that sends a part, or asks for one.
    fn id_for_part(&self) -> String {
        self.may_hold_parts.store(true, Ordering::Relaxed);
        self.open.as_ref().map(|upload| upload.upload_id.clone()).unwrap_or_default()
    }

    /// Sends a part. Sending the same number again replaces it.
    ///
    /// # Errors
    /// Code `NoSuchUpload` when the upload was aborted from outside, by a lifecycle rule for example.
    pub async fn put_part(&self, number: u32, part: PartBody) -> Result<WrittenPart, RequestError> {
        let memory = Arc::new(part.memory);
        let mut is_last = false;
        loop {
            let unclear = match self.send_part(number, &part.bytes, &part.digests, &memory).await {
                Err(RequestError::Failed(error)) if is_unclear(&error) => error,
                answer => return answer,
            };
            match self.find_part(number, part.bytes.len() as u64, &part.digests, ListingPatience::UntilAnswered).await?
            {
                Some(found) => return Ok(found),
                None if is_last => return Err(RequestError::Failed(unclear)),
                None => self.retry_context.count_retry(),
            }
            is_last = true;
        }
    }

    async fn send_part(
        &self,
        number: u32,
        bytes: &Bytes,
        digests: &Digests,
        memory: &Arc<Option<MemoryPermit>>,
    ) -> Result<WrittenPart, RequestError> {
        let spec = RequestSpec::write("UploadPart", &self.bucket).bytes(bytes.len() as u64);
        let upload_id = self.id_for_part();
        let send = |store: Arc<dyn ObjectStore>| {
            let (bucket, key, upload_id) = (self.bucket.clone(), self.key.clone(), upload_id.clone());
            let (bytes, digests, memory) = (bytes.clone(), digests.clone(), Arc::clone(memory));
            let sent = self.send_on("UploadPart", async move {
                let _memory = memory;
                store.put_part(UploadRef::new(&bucket, &key, &upload_id), number, bytes, &digests).await
            });
            join_request(sent, "UploadPart")
        };
        let look = || self.find_part(number, bytes.len() as u64, digests, ListingPatience::Once);
        let permit = self.client.reserve(spec, &self.retry_context).await?;
        let written = self.client.call_looking(spec, permit, &self.retry_context, send, look).await?;
        self.plain_etags.store(!written.opaque_etag, Ordering::Relaxed);
        Ok(written)
    }

    /// The part as the upload holds it, after an answer that was not understood, or none but failures. None: it holds
    /// no such part, another one, or cannot be asked.
    ///
    /// A list of parts does not name the encryption. The `ETag` of a found part is taken as a digest where the latest
    /// answer of this upload was one, or where it is the MD5 that was sent.
    async fn find_part(
        &self,
        number: u32,
        size: u64,
        sent: &Digests,
        asked: ListingPatience,
    ) -> Result<Option<WrittenPart>, RequestError> {
        let upload_id = self.id_for_part();
        let upload = UploadRef::new(&self.bucket, &self.key, &upload_id);
        let before = number.checked_sub(1).filter(|before| *before > 0);
        let spec = RequestSpec::read("ListParts", &self.bucket);
        let list = async |store: Arc<dyn ObjectStore>| match (store.list_parts(upload, before).await, asked) {
            (Err(_), ListingPatience::Once) => Ok(None),
            (answer, _) => answer.map(Some),
        };
        let page = match self.client.call(spec, &self.retry_context, list).await {
            Ok(Some(page)) => page,
            Ok(None) | Err(RequestError::Failed(_)) => return Ok(None),
            Err(RequestError::Cancelled) => return Err(RequestError::Cancelled),
        };
        let part = page.parts.into_iter().find(|part| part.number == number && part.size == size);
        let is_sent = |part: &PartInfo| match (sent.checksum.as_ref(), part.checksum.as_deref()) {
            (Some((_, sent)), Some(kept)) => sent == kept,
            _ => true,
        };
        let is_plain = |etag: &str| {
            let is_md5 = || sent.md5.as_deref().and_then(decode_base64).is_some_and(|md5| hex(&md5) == etag);
            self.plain_etags.load(Ordering::Relaxed) || is_md5()
        };
        Ok(part.filter(is_sent).map(|part| WrittenPart {
            opaque_etag: !is_plain(&part.etag),
            etag: part.etag,
            checksum: part.checksum,
        }))
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
    /// the source is another version meanwhile.
    pub async fn copy_part(&self, source: &PinnedObject, reserved: ReservedCopy) -> Result<WrittenPart, RequestError> {
        let ReservedCopy { number, range, permit } = reserved;
        // The same part twice at a time is safe where the same bytes get the same `ETag`: not known before the first
        // answer, and all parts may be under way by then.
        let quirks = self.client.quirks();
        let safe = || self.plain_etags.load(Ordering::Relaxed) && !quirks.changing_part_etags();
        let spec = self.copy_spec(range).hedge_if(&safe);
        let upload_id = self.id_for_part();
        // The checksum that the first answer stated of this part; a different one in a second answer reveals a quirk.
        let first_etag = Arc::new(OnceLock::new());
        let send = |store: Arc<dyn ObjectStore>| {
            let (source, upload_id) = (source.clone(), upload_id.clone());
            let (bucket, key) = (self.bucket.clone(), self.key.clone());
            let (first_etag, connection) = (Arc::clone(&first_etag), self.client.connection().clone());
            let sent = self.send_on("UploadPartCopy", async move {
                let copied = store.copy_part(&source, range, UploadRef::new(&bucket, &key, &upload_id), number).await?;
                if first_etag.get_or_init(|| copied.etag.clone()) != &copied.etag {
                    connection.quirks.learn_changing_part_etags();
                }
                Ok(copied)
            });
            join_request(sent, "UploadPartCopy")
        };
        // The pin of the source holds for a part that is found as for the one that was requested.
        let unsent = Digests::default();
        let look = || self.find_part(number, range.len(), &unsent, ListingPatience::Once);
        let copied = match self.client.call_looking(spec, permit, &self.retry_context, send, look).await {
            Err(RequestError::Failed(error)) if is_unclear(&error) => {
                let found = self.find_part(number, range.len(), &unsent, ListingPatience::UntilAnswered).await?;
                found.ok_or(RequestError::Failed(error))?
            }
            answer => answer?,
        };
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
            upload_id: self.id_for_part(),
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
