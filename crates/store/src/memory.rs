//! An object store in memory, as strict as S3: the oracle of the conformance suite and the base of fault tests.
//!
//! It computes `ETag`s and checksums from the bytes, keeps CRC64NVME for every object as AWS does, honours conditions, and
//! has the limits of multipart uploads (the minimum part size is an option, so that tests can be small). It has no versions.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt as _;
use md5::{Digest as _, Md5};

use crate::checksum::{Checksum, ChecksumAlgorithm, ChecksumKind, crc64nvme, hex};
use crate::error::StoreError;
use crate::store::{ByteStream, ObjectStore, Result};
use crate::types::{
    Attributes, CompleteUpload, Copied, CopySource, CreateUpload, ListPage, ListRequest, ListedObject, ObjectMeta,
    PartInfo, PartsPage, Range, UploadInfo, Written,
};

/// See the module.
#[derive(Debug)]
pub struct MemoryStore {
    minimum_part: u64,
    page: usize,
    order: fn(&str) -> String,
    opaque_etags: bool,
    misread_parts: bool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    buckets: HashMap<String, BTreeMap<String, Object>>,
    uploads: BTreeMap<String, Upload>,
    next_upload: u64,
}

#[derive(Debug, Clone)]
struct Object {
    body: Bytes,
    etag: String,
    /// Lengths of the parts it was made of; empty for an object written at once.
    parts: Vec<u64>,
    modified: f64,
    attributes: Attributes,
    tags: Vec<(String, String)>,
    storage_class: Option<String>,
    checksum: Checksum,
}

#[derive(Debug)]
struct Upload {
    bucket: String,
    request: CreateUpload,
    initiated: f64,
    parts: BTreeMap<u32, Bytes>,
}

fn md5_hex(bytes: &[u8]) -> String {
    hex(&Md5::digest(bytes))
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |d| d.as_secs_f64())
}

fn full(body: &[u8]) -> Checksum {
    Checksum { algorithm: ChecksumAlgorithm::Crc64Nvme, value: crc64nvme(body), kind: ChecksumKind::FullObject }
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new(5 << 20)
    }
}

impl MemoryStore {
    /// An empty store whose parts, but the last of an upload, have at least so many bytes.
    pub fn new(minimum_part: u64) -> Self {
        Self {
            minimum_part,
            page: 1000,
            order: str::to_owned,
            opaque_etags: false,
            misread_parts: false,
            state: Mutex::default(),
        }
    }

    /// The same with listing pages of so many entries.
    #[must_use]
    pub fn with_page(mut self, page: usize) -> Self {
        self.page = page.max(1);
        self
    }

    /// The same, listing keys in the order of what `order` makes of them: some services do not sort by bytes.
    #[must_use]
    pub fn with_list_order(mut self, order: fn(&str) -> String) -> Self {
        self.order = order;
        self
    }

    /// The same, saying of parts that their `ETag`s are no digests, as a bucket does that encrypts with KMS.
    #[must_use]
    pub fn with_opaque_etags(mut self) -> Self {
        self.opaque_etags = true;
        self
    }

    /// The same, answering copies of parts with the checksum of the whole source, as versitygw 1.8 does.
    #[must_use]
    pub fn with_whole_checksums_of_parts(mut self) -> Self {
        self.misread_parts = true;
        self
    }

    /// Create a bucket.
    pub fn create_bucket(&self, bucket: &str) {
        self.state().buckets.entry(bucket.to_owned()).or_default();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn bucket(&self, operation: &'static str, bucket: &str) -> Result<&BTreeMap<String, Object>> {
        self.buckets.get(bucket).ok_or_else(|| StoreError::new(operation, bucket, None, "NoSuchBucket", Some(404)))
    }

    fn object(&self, operation: &'static str, bucket: &str, key: &str) -> Result<&Object> {
        self.bucket(operation, bucket)?
            .get(key)
            .ok_or_else(|| StoreError::new(operation, bucket, Some(key), "NoSuchKey", Some(404)))
    }

    fn source(&self, operation: &'static str, source: &CopySource) -> Result<&Object> {
        let object = self.object(operation, &source.bucket, &source.key)?;
        if source.if_match.as_ref().is_some_and(|etag| *etag != object.etag) {
            return Err(StoreError::new(operation, &source.bucket, Some(&source.key), "PreconditionFailed", Some(412)));
        }
        Ok(object)
    }

    fn write(&mut self, operation: &'static str, bucket: &str, key: &str, object: Object) -> Result<Written> {
        let written = Written { etag: object.etag.clone(), version_id: None, checksum: Some(object.checksum.clone()) };
        self.buckets
            .get_mut(bucket)
            .ok_or_else(|| StoreError::new(operation, bucket, None, "NoSuchBucket", Some(404)))?
            .insert(key.to_owned(), object);
        Ok(written)
    }

    fn upload(&mut self, operation: &'static str, bucket: &str, key: &str, id: &str) -> Result<&mut Upload> {
        self.uploads
            .get_mut(id)
            .filter(|upload| upload.bucket == bucket && upload.request.key == key)
            .ok_or_else(|| StoreError::new(operation, bucket, Some(key), "NoSuchUpload", Some(404)))
    }

    fn put_part(
        &mut self,
        operation: &'static str,
        bucket: &str,
        key: &str,
        id: &str,
        part: u32,
        body: Bytes,
    ) -> Result<Copied> {
        let upload = self.upload(operation, bucket, key, id)?;
        if !(1..=10_000).contains(&part) {
            return Err(StoreError::new(operation, bucket, Some(key), "InvalidArgument", Some(400)));
        }
        let copied = Copied {
            etag: md5_hex(&body),
            checksum: upload
                .request
                .checksum
                .filter(|(a, _)| *a == ChecksumAlgorithm::Crc64Nvme)
                .map(|_| crc64nvme(&body)),
            opaque_etag: false,
        };
        upload.parts.insert(part, body);
        Ok(copied)
    }
}

fn slice(object: &Object, range: Option<Range>) -> Option<Bytes> {
    let Some(range) = range else { return Some(object.body.clone()) };
    let (first, end) = (usize::try_from(range.first).ok()?, usize::try_from(range.last).ok()?.checked_add(1)?);
    (first < end && end <= object.body.len()).then(|| object.body.slice(first..end))
}

#[async_trait]
impl ObjectStore for MemoryStore {
    async fn head_bucket(&self, bucket: &str) -> Result<()> {
        self.state().bucket("HeadBucket", bucket).map(|_| ())
    }

    async fn list(&self, request: &ListRequest) -> Result<ListPage> {
        let state = self.state();
        let objects = state.bucket("ListObjectsV2", &request.bucket)?;
        let after = request.continuation.as_ref().or(request.start_after.as_ref());
        let most = request.max_keys.and_then(|n| usize::try_from(n).ok()).unwrap_or(self.page).min(self.page);
        let mut page = ListPage::default();
        let mut last: Option<String> = None;
        let mut keys: Vec<(String, &String)> =
            objects.keys().filter(|key| key.starts_with(&request.prefix)).map(|key| ((self.order)(key), key)).collect();
        keys.sort();
        let after_place = after.map(|after| (self.order)(after));
        for (place, key) in keys {
            if after_place.as_ref().is_some_and(|after| place <= *after) {
                continue;
            }
            let Some(object) = objects.get(key) else { continue };
            let group = request.delimiter.as_ref().and_then(|delimiter| {
                let rest = &key[request.prefix.len()..];
                rest.find(delimiter.as_str()).map(|at| key[..request.prefix.len() + at + delimiter.len()].to_owned())
            });
            // A group that the page before ended with is not opened again.
            if let Some(group) = &group
                && (page.common_prefixes.last() == Some(group)
                    || request.continuation.as_ref().is_some_and(|after| after.starts_with(group.as_str())))
            {
                last = Some(key.clone());
                continue;
            }
            if page.objects.len() + page.common_prefixes.len() == most {
                page.continuation = last;
                return Ok(page);
            }
            match group {
                Some(group) => page.common_prefixes.push(group),
                None => page.objects.push(ListedObject {
                    key: key.clone(),
                    size: object.body.len() as u64,
                    etag: object.etag.clone(),
                    last_modified: object.modified,
                    storage_class: object.storage_class.clone(),
                    refusal: None,
                }),
            }
            last = Some(key.clone());
        }
        Ok(page)
    }

    async fn head(&self, bucket: &str, key: &str, _version: Option<&str>, part: Option<u32>) -> Result<ObjectMeta> {
        let state = self.state();
        let object = state.object("HeadObject", bucket, key)?;
        let size = match part {
            None => object.body.len() as u64,
            Some(1) if object.parts.is_empty() => object.body.len() as u64,
            Some(n) => *object
                .parts
                .get(n as usize - 1)
                .ok_or_else(|| StoreError::new("HeadObject", bucket, Some(key), "InvalidPartNumber", Some(416)))?,
        };
        Ok(ObjectMeta {
            size,
            etag: object.etag.clone(),
            last_modified: object.modified,
            storage_class: object.storage_class.clone(),
            checksum: Some(object.checksum.clone()),
            parts_count: part.and(u32::try_from(object.parts.len()).ok()).filter(|n| *n > 0),
            attributes: object.attributes.clone(),
            tag_count: u32::try_from(object.tags.len()).ok(),
            archived: matches!(object.storage_class.as_deref(), Some("GLACIER" | "DEEP_ARCHIVE")),
            ..ObjectMeta::default()
        })
    }

    async fn get(&self, source: &CopySource, range: Option<Range>) -> Result<ByteStream> {
        let state = self.state();
        let object = state.source("GetObject", source)?;
        let body = slice(object, range).ok_or_else(|| {
            StoreError::new("GetObject", &source.bucket, Some(&source.key), "InvalidRange", Some(416))
        })?;
        // Several chunks, as a network would bring them.
        let chunks: Vec<Result<Bytes>> = body.chunks(1 << 16).map(|chunk| Ok(body.slice_ref(chunk))).collect();
        Ok(futures::stream::iter(chunks).boxed())
    }

    async fn put(&self, bucket: &str, key: &str, body: Bytes, attributes: &Attributes) -> Result<Written> {
        let object = Object {
            etag: md5_hex(&body),
            checksum: full(&body),
            body,
            parts: Vec::new(),
            modified: now(),
            attributes: attributes.clone(),
            tags: Vec::new(),
            storage_class: None,
        };
        self.state().write("PutObject", bucket, key, object)
    }

    async fn delete(&self, bucket: &str, key: &str) -> Result<()> {
        let mut state = self.state();
        state.bucket("DeleteObject", bucket)?;
        if let Some(objects) = state.buckets.get_mut(bucket) {
            objects.remove(key);
        }
        Ok(())
    }

    async fn get_tags(&self, bucket: &str, key: &str, _version: Option<&str>) -> Result<Vec<(String, String)>> {
        Ok(self.state().object("GetObjectTagging", bucket, key)?.tags.clone())
    }

    async fn put_tags(&self, bucket: &str, key: &str, tags: &[(String, String)]) -> Result<()> {
        let mut state = self.state();
        state.object("PutObjectTagging", bucket, key)?;
        if let Some(object) = state.buckets.get_mut(bucket).and_then(|objects| objects.get_mut(key)) {
            object.tags = tags.to_vec();
        }
        Ok(())
    }

    async fn copy(
        &self,
        source: &CopySource,
        bucket: &str,
        key: &str,
        storage_class: Option<&str>,
        _checksum: Option<ChecksumAlgorithm>,
    ) -> Result<Written> {
        let mut state = self.state();
        let object = state.source("CopyObject", source)?;
        if matches!(object.storage_class.as_deref(), Some("GLACIER" | "DEEP_ARCHIVE")) {
            return Err(StoreError::new(
                "CopyObject",
                &source.bucket,
                Some(&source.key),
                "InvalidObjectState",
                Some(403),
            ));
        }
        let mut object = object.clone();
        // A copy is written at once: a multipart ETag becomes a plain one.
        object.etag = md5_hex(&object.body);
        object.parts = Vec::new();
        object.modified = now();
        object.storage_class = storage_class.map(str::to_owned);
        state.write("CopyObject", bucket, key, object)
    }

    async fn create_upload(&self, upload: &CreateUpload) -> Result<String> {
        let mut state = self.state();
        state.bucket("CreateMultipartUpload", &upload.bucket)?;
        state.next_upload += 1;
        let id = format!("upload-{:08}", state.next_upload);
        let open =
            Upload { bucket: upload.bucket.clone(), request: upload.clone(), initiated: now(), parts: BTreeMap::new() };
        state.uploads.insert(id.clone(), open);
        Ok(id)
    }

    async fn copy_part(
        &self,
        source: &CopySource,
        range: Range,
        bucket: &str,
        key: &str,
        upload_id: &str,
        part: u32,
    ) -> Result<Copied> {
        let mut state = self.state();
        let object = state.source("UploadPartCopy", source)?;
        let body = slice(object, Some(range))
            .ok_or_else(|| StoreError::new("UploadPartCopy", bucket, Some(key), "InvalidRange", Some(416)))?;
        let whole = object.checksum.value.clone();
        let mut copied = state.put_part("UploadPartCopy", bucket, key, upload_id, part, body)?;
        if self.misread_parts && copied.checksum.is_some() {
            copied.checksum = Some(whole);
        }
        Ok(Copied { opaque_etag: self.opaque_etags, ..copied })
    }

    async fn put_part(&self, bucket: &str, key: &str, upload_id: &str, part: u32, body: Bytes) -> Result<Copied> {
        let copied = self.state().put_part("UploadPart", bucket, key, upload_id, part, body)?;
        Ok(Copied { opaque_etag: self.opaque_etags, ..copied })
    }

    async fn list_parts(&self, bucket: &str, key: &str, upload_id: &str, after: Option<u32>) -> Result<PartsPage> {
        let mut state = self.state();
        let upload = state.upload("ListParts", bucket, key, upload_id)?;
        let checksums = upload.request.checksum.is_some_and(|(a, _)| a == ChecksumAlgorithm::Crc64Nvme);
        let mut parts: Vec<PartInfo> = upload
            .parts
            .iter()
            .filter(|(number, _)| after.is_none_or(|after| **number > after))
            .map(|(number, body)| PartInfo {
                number: *number,
                size: body.len() as u64,
                etag: md5_hex(body),
                checksum: checksums.then(|| crc64nvme(body)),
            })
            .collect();
        let more = parts.len() > self.page;
        parts.truncate(self.page);
        let next = if more { parts.last().map(|part| part.number) } else { None };
        Ok(PartsPage { parts, next })
    }

    async fn complete_upload(&self, upload: &CompleteUpload) -> Result<Written> {
        let operation = "CompleteMultipartUpload";
        let (bucket, key) = (upload.bucket.as_str(), upload.key.as_str());
        let bad = |code: &str| Err(StoreError::new(operation, bucket, Some(key), code, Some(400)));
        let mut state = self.state();
        let open = state.upload(operation, bucket, key, &upload.upload_id)?;
        if upload.parts.is_empty() || upload.parts.windows(2).any(|pair| pair[0].number >= pair[1].number) {
            return bad("InvalidPartOrder");
        }
        let (mut body, mut digests, mut lengths) = (Vec::new(), Vec::new(), Vec::new());
        for (i, part) in upload.parts.iter().enumerate() {
            let Some(bytes) = open.parts.get(&part.number).filter(|bytes| md5_hex(bytes) == part.etag) else {
                return bad("InvalidPart");
            };
            if i + 1 < upload.parts.len() && (bytes.len() as u64) < self.minimum_part {
                return bad("EntityTooSmall");
            }
            body.extend_from_slice(bytes);
            digests.extend_from_slice(&Md5::digest(bytes));
            lengths.push(bytes.len() as u64);
        }
        if body.len() as u64 != upload.size {
            return bad("InvalidRequest");
        }
        let checksum = full(&body);
        if upload.whole.as_ref().is_some_and(|expected| expected.agrees(&checksum) == Some(false)) {
            return bad("BadDigest");
        }
        let request = open.request.clone();
        state.uploads.remove(&upload.upload_id);
        let object = Object {
            etag: format!("{}-{}", md5_hex(&digests), lengths.len()),
            checksum,
            body: body.into(),
            parts: lengths,
            modified: now(),
            attributes: request.attributes,
            tags: request.tags,
            storage_class: request.storage_class,
        };
        state.write(operation, bucket, key, object)
    }

    async fn abort_upload(&self, bucket: &str, key: &str, upload_id: &str) -> Result<()> {
        let mut state = self.state();
        state.upload("AbortMultipartUpload", bucket, key, upload_id)?;
        state.uploads.remove(upload_id);
        Ok(())
    }

    async fn list_uploads(&self, bucket: &str, prefix: &str) -> Result<Vec<UploadInfo>> {
        let state = self.state();
        state.bucket("ListMultipartUploads", bucket)?;
        let uploads = state.uploads.iter().filter(|(_, u)| u.bucket == bucket && u.request.key.starts_with(prefix));
        Ok(uploads
            .map(|(id, u)| UploadInfo { key: u.request.key.clone(), upload_id: id.clone(), initiated: u.initiated })
            .collect())
    }

    async fn refresh_credentials(&self) -> Result<()> {
        Ok(())
    }
}
