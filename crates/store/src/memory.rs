//! An object store in memory, as strict as S3: the oracle of the conformance suite and the base of fault tests.
//!
//! It computes `ETag`s and checksums from the bytes, keeps CRC64NVME as AWS does for every object that came with no other
//! checksum, checks what senders say of their bytes, honours conditions, and has the limits of multipart uploads (the minimum
//! part size is an option, so that tests can be small). It has no versions.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt as _;
use md5::{Digest as _, Md5};
use sha2::Sha256;

use crate::body::Body;
use crate::checksum::{Checksum, ChecksumAlgorithm, ChecksumKind, DigestAlgorithm, Digester, base64, hex};
use crate::error::StoreError;
use crate::error::classify::code;
use crate::store::{Fetched, MultipartUpload, ObjectRead, ObjectStore, ObjectWrite, Result};
use crate::types::{
    Attributes, Capabilities, CompleteUpload, Copied, CopyTarget, CreateUpload, Digests, ListPage, ListRequest,
    ListedObject, ObjectMeta, ObjectRef, PartInfo, PartsPage, PinnedObject, PutObject, Range, UploadInfo, UploadRef,
    Written,
};

/// See the module.
#[derive(Debug)]
pub struct MemoryStore {
    minimum_part: u64,
    page: usize,
    order: fn(&str) -> String,
    etags: Etags,
    copied_parts: CopiedParts,
    sub_resources: bool,
    as_files: bool,
    checksums: Checksums,
    ignores_ranges: bool,
    state: Mutex<State>,
}

/// What its `ETag`s are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Etags {
    /// Digests.
    Plain,
    /// No digests, and said to be none.
    Opaque,
    /// No digests, where nothing says so.
    Odd,
}

/// What becomes of copies of parts into an upload with a checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CopiedParts {
    /// Their own checksums are computed.
    Checked,
    /// They are answered with the checksum of the whole source.
    Misread,
    /// They are refused, since they bring no checksum.
    Refused,
}

/// Which checksums it knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Checksums {
    All,
    /// Requests that name another are refused, as some services do.
    Only(ChecksumAlgorithm),
    /// Requests that name any are refused, and none is kept.
    Refused,
    /// What requests say of them is not even looked at, as services do that have never heard of them.
    Unheard,
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
    checksum: Option<Checksum>,
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

fn value(algorithm: ChecksumAlgorithm, body: &[u8]) -> String {
    base64(&Digester::of(DigestAlgorithm::Checksum(algorithm), body))
}

fn full(algorithm: ChecksumAlgorithm, body: &[u8]) -> Checksum {
    Checksum { algorithm, value: value(algorithm, body), kind: ChecksumKind::FullObject }
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
            etags: Etags::Plain,
            copied_parts: CopiedParts::Checked,
            sub_resources: true,
            as_files: false,
            checksums: Checksums::All,
            ignores_ranges: false,
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
        self.etags = Etags::Opaque;
        self
    }

    /// The same, answering copies of parts with the checksum of the whole source, as versitygw 1.8 does.
    #[must_use]
    pub fn with_whole_checksums_of_parts(mut self) -> Self {
        self.copied_parts = CopiedParts::Misread;
        self
    }

    /// The same, refusing copies of parts into an upload with a checksum, since they bring none: as MinIO does.
    #[must_use]
    pub fn demanding_part_checksums(mut self) -> Self {
        self.copied_parts = CopiedParts::Refused;
        self
    }

    /// The same, answering `?tagging` and `?uploads` with something else: as `rclone serve s3` does.
    #[must_use]
    pub fn without_sub_resources(mut self) -> Self {
        self.sub_resources = false;
        self
    }

    fn sub_resource(&self, operation: &'static str, bucket: &str, key: &str) -> Result<()> {
        let other = || StoreError::new(operation, bucket, Some(key), code::UNEXPECTED_ANSWER, Some(200));
        self.sub_resources.then_some(()).ok_or_else(other)
    }

    /// The same, passing for a disk: it keeps no checksum, and its `ETag`s are no digests.
    #[must_use]
    pub fn as_disk(mut self) -> Self {
        (self.as_files, self.etags, self.checksums) = (true, Etags::Opaque, Checksums::Unheard);
        self
    }

    /// The same, refusing requests that name a checksum other than this one; with None it refuses any, and keeps none.
    #[must_use]
    pub fn with_checksums(mut self, known: Option<ChecksumAlgorithm>) -> Self {
        self.checksums = known.map_or(Checksums::Refused, Checksums::Only);
        self
    }

    /// The same, never having heard of checksums: it keeps and answers none.
    #[must_use]
    pub fn without_checksums(mut self) -> Self {
        self.checksums = Checksums::Unheard;
        self
    }

    /// The same, with `ETag`s of objects written at once that are no digests.
    #[must_use]
    pub fn with_odd_etags(mut self) -> Self {
        self.etags = Etags::Odd;
        self
    }

    /// The same, behind a proxy that drops `Range`.
    #[must_use]
    pub fn ignoring_ranges(mut self) -> Self {
        self.ignores_ranges = true;
        self
    }

    /// Whether bytes are what their sender says.
    fn are_sent(&self, digests: &Digests, body: &[u8]) -> bool {
        let checksum = digests.checksum.as_ref().filter(|_| self.checksums != Checksums::Unheard);
        checksum.is_none_or(|(algorithm, sent)| value(*algorithm, body) == *sent)
            && digests.md5.as_ref().is_none_or(|sent| base64(&Md5::digest(body)) == *sent)
    }

    fn keeps(&self, checksum: Checksum) -> Option<Checksum> {
        (!matches!(self.checksums, Checksums::Unheard | Checksums::Refused)).then_some(checksum)
    }

    fn answered(&self, copied: Copied) -> Copied {
        // A disk tells what it was given, and keeps it no longer than the upload.
        let tells = self.checksums != Checksums::Unheard || self.as_files;
        let checksum = copied.checksum.filter(|_| tells);
        Copied { checksum, opaque_etag: self.etags == Etags::Opaque, ..copied }
    }

    fn know(&self, operation: &'static str, bucket: &str, key: &str, named: Option<ChecksumAlgorithm>) -> Result<()> {
        match (self.checksums, named) {
            (Checksums::Only(known), Some(named)) if known != named => {}
            (Checksums::Refused, Some(_)) => {}
            _ => return Ok(()),
        }
        Err(StoreError::new(operation, bucket, Some(key), "NotImplemented", Some(501)))
    }

    fn meta(&self, object: &Object) -> ObjectMeta {
        let mut attributes = object.attributes.clone();
        if self.as_files {
            attributes.metadata.entry("mtime".to_owned()).or_insert_with(|| format!("{:.6}", object.modified));
        }
        ObjectMeta {
            size: object.body.len() as u64,
            etag: object.etag.clone(),
            last_modified: object.modified,
            changed: if self.as_files { object.modified } else { 0.0 },
            storage_class: object.storage_class.clone(),
            checksum: object.checksum.clone(),
            attributes,
            tag_count: u32::try_from(object.tags.len()).ok().filter(|_| self.sub_resources),
            archived: object.is_archived(),
            opaque_etag: self.as_files,
            ..ObjectMeta::default()
        }
    }

    /// From now on an object is as many seconds older.
    pub fn age(&self, bucket: &str, key: &str, seconds: f64) {
        if let Some(object) = self.state().buckets.get_mut(bucket).and_then(|objects| objects.get_mut(key)) {
            object.modified -= seconds;
        }
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

    fn source(&self, operation: &'static str, source: &PinnedObject) -> Result<&Object> {
        let object = self.object(operation, &source.bucket, &source.key)?;
        if source.if_match.as_ref().is_some_and(|etag| *etag != object.etag) {
            return Err(StoreError::new(operation, &source.bucket, Some(&source.key), "PreconditionFailed", Some(412)));
        }
        Ok(object)
    }

    fn may_be_written(
        &self,
        operation: &'static str,
        bucket: &str,
        key: &str,
        if_absent: bool,
        if_match: Option<&str>,
    ) -> Result<()> {
        let there = self.buckets.get(bucket).and_then(|objects| objects.get(key));
        if if_match.is_some() && there.is_none() {
            return Err(StoreError::new(operation, bucket, Some(key), "NoSuchKey", Some(404)));
        }
        if there.is_some_and(|there| if_absent || if_match.is_some_and(|etag| etag != there.etag)) {
            return Err(StoreError::new(operation, bucket, Some(key), "PreconditionFailed", Some(412)));
        }
        Ok(())
    }

    fn write(&mut self, operation: &'static str, bucket: &str, key: &str, object: Object) -> Result<Written> {
        let written = Written { etag: object.etag.clone(), version_id: None, checksum: object.checksum.clone() };
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
            checksum: upload.request.checksum.map(|(algorithm, _)| value(algorithm, &body)),
            opaque_etag: false,
        };
        upload.parts.insert(part, body);
        Ok(copied)
    }
}

impl Object {
    fn is_archived(&self) -> bool {
        matches!(self.storage_class.as_deref(), Some("GLACIER" | "DEEP_ARCHIVE"))
    }
}

fn slice(object: &Object, range: Option<Range>) -> Option<Bytes> {
    let Some(range) = range else { return Some(object.body.clone()) };
    let (first, end) = (usize::try_from(range.first).ok()?, usize::try_from(range.last).ok()?.checked_add(1)?);
    (first < end && end <= object.body.len()).then(|| object.body.slice(first..end))
}

#[async_trait]
impl ObjectRead for MemoryStore {
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

    async fn head(&self, object: ObjectRef<'_>, part: Option<u32>) -> Result<ObjectMeta> {
        let ObjectRef { bucket, key, .. } = object;
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
        let parts_count = part.and(u32::try_from(object.parts.len()).ok()).filter(|n| *n > 0);
        Ok(ObjectMeta { size, parts_count, ..self.meta(object) })
    }

    async fn fetch(&self, source: &PinnedObject, range: Option<Range>) -> Result<Fetched> {
        let state = self.state();
        let object = state.source("GetObject", source)?;
        if object.is_archived() {
            return Err(StoreError::new(
                "GetObject",
                &source.bucket,
                Some(&source.key),
                "InvalidObjectState",
                Some(403),
            ));
        }
        if let Some(range) = range
            && self.ignores_ranges
            && range.len() < object.body.len() as u64
        {
            let error = StoreError::new("GetObject", &source.bucket, Some(&source.key), code::RANGE_IGNORED, None);
            return Err(error.with_message(format!("{} was asked for, and the whole object came", range.header())));
        }
        let body = slice(object, range).ok_or_else(|| {
            StoreError::new("GetObject", &source.bucket, Some(&source.key), "InvalidRange", Some(416))
        })?;
        // Several chunks, as a network would bring them.
        let chunks: Vec<Result<Bytes>> = body.chunks(1 << 16).map(|chunk| Ok(body.slice_ref(chunk))).collect();
        let checksum = object.checksum.clone().filter(|_| range.is_none());
        let meta = ObjectMeta { checksum, ..self.meta(object) };
        Ok(Fetched { meta, body: Body::of_chunks(futures::stream::iter(chunks).boxed()) })
    }

    async fn get_tags(&self, object: ObjectRef<'_>) -> Result<Vec<(String, String)>> {
        let ObjectRef { bucket, key, .. } = object;
        self.sub_resource("GetObjectTagging", bucket, key)?;
        Ok(self.state().object("GetObjectTagging", bucket, key)?.tags.clone())
    }
}

#[async_trait]
impl ObjectWrite for MemoryStore {
    async fn put_object(&self, object: &PutObject, body: Bytes) -> Result<Written> {
        let named = object.digests.checksum.as_ref().map(|(algorithm, _)| *algorithm);
        self.know("PutObject", &object.bucket, &object.key, named)?;
        if !self.are_sent(&object.digests, &body) {
            return Err(StoreError::new("PutObject", &object.bucket, Some(&object.key), "BadDigest", Some(400)));
        }
        let etag =
            if self.etags == Etags::Odd { format!("odd-{}", hex(&Sha256::digest(&body))) } else { md5_hex(&body) };
        let made = Object {
            etag,
            checksum: self.keeps(full(named.unwrap_or(ChecksumAlgorithm::Crc64Nvme), &body)),
            body,
            parts: Vec::new(),
            modified: now(),
            attributes: object.attributes.clone(),
            tags: object.tags.clone(),
            storage_class: object.storage_class.clone(),
        };
        let mut state = self.state();
        state.may_be_written("PutObject", &object.bucket, &object.key, object.if_absent, object.if_match.as_deref())?;
        state.write("PutObject", &object.bucket, &object.key, made)
    }

    async fn delete(&self, object: ObjectRef<'_>) -> Result<()> {
        let ObjectRef { bucket, key, .. } = object;
        let mut state = self.state();
        state.bucket("DeleteObject", bucket)?;
        if let Some(objects) = state.buckets.get_mut(bucket) {
            objects.remove(key);
        }
        Ok(())
    }

    async fn delete_if(&self, object: ObjectRef<'_>, etag: &str) -> Result<()> {
        let ObjectRef { bucket, key, .. } = object;
        self.state().may_be_written("DeleteObject", bucket, key, false, Some(etag))?;
        self.delete(ObjectRef::new(bucket, key)).await
    }

    async fn put_tags(&self, object: ObjectRef<'_>, tags: &[(String, String)]) -> Result<()> {
        let ObjectRef { bucket, key, .. } = object;
        let mut state = self.state();
        state.object("PutObjectTagging", bucket, key)?;
        if let Some(object) = state.buckets.get_mut(bucket).and_then(|objects| objects.get_mut(key)) {
            object.tags = tags.to_vec();
        }
        Ok(())
    }

    async fn copy(&self, source: &PinnedObject, target: CopyTarget<'_>) -> Result<Written> {
        let CopyTarget { object: ObjectRef { bucket, key, .. }, storage_class, .. } = target;
        let mut state = self.state();
        let object = state.source("CopyObject", source)?;
        if object.is_archived() {
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
}

#[async_trait]
impl MultipartUpload for MemoryStore {
    async fn create_upload(&self, upload: &CreateUpload) -> Result<String> {
        self.know(
            "CreateMultipartUpload",
            &upload.bucket,
            &upload.key,
            upload.checksum.map(|(algorithm, _)| algorithm),
        )?;
        let mut state = self.state();
        state.bucket("CreateMultipartUpload", &upload.bucket)?;
        state.next_upload += 1;
        let id = format!("upload-{:08}", state.next_upload);
        let open =
            Upload { bucket: upload.bucket.clone(), request: upload.clone(), initiated: now(), parts: BTreeMap::new() };
        state.uploads.insert(id.clone(), open);
        Ok(id)
    }

    async fn copy_part(&self, source: &PinnedObject, range: Range, upload: UploadRef<'_>, part: u32) -> Result<Copied> {
        let UploadRef { bucket, key, upload_id } = upload;
        let mut state = self.state();
        let object = state.source("UploadPartCopy", source)?;
        let body = slice(object, Some(range))
            .ok_or_else(|| StoreError::new("UploadPartCopy", bucket, Some(key), "InvalidRange", Some(416)))?;
        let whole = object.checksum.as_ref().map(|sum| sum.value.clone());
        if let Some((algorithm, _)) = state.upload("UploadPartCopy", bucket, key, upload_id)?.request.checksum
            && self.copied_parts == CopiedParts::Refused
        {
            return Err(StoreError::new("UploadPartCopy", bucket, Some(key), "InvalidArgument", Some(400))
                .with_message(format!("checksum missing, want {:?}, got \"\"", algorithm.name())));
        }
        let mut copied = state.put_part("UploadPartCopy", bucket, key, upload_id, part, body)?;
        if self.copied_parts == CopiedParts::Misread && copied.checksum.is_some() {
            copied.checksum = whole;
        }
        Ok(self.answered(copied))
    }

    async fn put_part(&self, upload: UploadRef<'_>, part: u32, body: Bytes, digests: &Digests) -> Result<Copied> {
        let UploadRef { bucket, key, upload_id } = upload;
        self.know("UploadPart", bucket, key, digests.checksum.as_ref().map(|(algorithm, _)| *algorithm))?;
        if !self.are_sent(digests, &body) {
            return Err(StoreError::new("UploadPart", bucket, Some(key), "BadDigest", Some(400)));
        }
        let copied = self.state().put_part("UploadPart", bucket, key, upload_id, part, body)?;
        Ok(self.answered(copied))
    }

    async fn list_parts(&self, upload: UploadRef<'_>, after: Option<u32>) -> Result<PartsPage> {
        let UploadRef { bucket, key, upload_id } = upload;
        let checksums = self.checksums != Checksums::Unheard;
        let mut state = self.state();
        let upload = state.upload("ListParts", bucket, key, upload_id)?;
        let algorithm = upload.request.checksum.map(|(algorithm, _)| algorithm).filter(|_| checksums);
        let mut parts: Vec<PartInfo> = upload
            .parts
            .iter()
            .filter(|(number, _)| after.is_none_or(|after| **number > after))
            .map(|(number, body)| PartInfo {
                number: *number,
                size: body.len() as u64,
                etag: md5_hex(body),
                checksum: algorithm.map(|algorithm| value(algorithm, body)),
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
        let (mut body, mut digests, mut lengths, mut sums) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
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
            sums.extend(open.request.checksum.map(|(algorithm, _)| value(algorithm, bytes)));
        }
        if self.copied_parts == CopiedParts::Refused && upload.size > 0 {
            // As S3Proxy does.
            return Err(StoreError::new(operation, bucket, Some(key), "NotImplemented", Some(501)));
        }
        if upload.size > 0 && body.len() as u64 != upload.size {
            return bad("InvalidRequest");
        }
        let checksum = match open.request.checksum {
            Some((algorithm, ChecksumKind::Composite)) => {
                let value = algorithm.composite(sums.iter().map(String::as_str)).unwrap_or_default();
                Checksum { algorithm, value, kind: ChecksumKind::Composite }
            }
            Some((algorithm, ChecksumKind::FullObject)) => full(algorithm, &body),
            None if self.copied_parts == CopiedParts::Refused && upload.whole.is_some() => {
                return bad("InvalidRequest");
            }
            None => full(ChecksumAlgorithm::Crc64Nvme, &body),
        };
        let unkept = self.copied_parts == CopiedParts::Refused && open.request.checksum.is_none();
        if upload.whole.as_ref().is_some_and(|expected| expected.agrees(&checksum) == Some(false)) {
            return bad("BadDigest");
        }
        let request = open.request.clone();
        state.may_be_written(operation, bucket, key, upload.if_absent, upload.if_match.as_deref())?;
        state.uploads.remove(&upload.upload_id);
        let object = Object {
            etag: format!("{}-{}", md5_hex(&digests), lengths.len()),
            checksum: self.keeps(checksum).filter(|_| !unkept),
            body: body.into(),
            parts: lengths,
            modified: now(),
            attributes: request.attributes,
            tags: request.tags,
            storage_class: request.storage_class,
        };
        state.write(operation, bucket, key, object)
    }

    async fn abort_upload(&self, upload: UploadRef<'_>) -> Result<()> {
        let UploadRef { bucket, key, upload_id } = upload;
        let mut state = self.state();
        state.upload("AbortMultipartUpload", bucket, key, upload_id)?;
        state.uploads.remove(upload_id);
        Ok(())
    }

    async fn list_uploads(&self, bucket: &str, prefix: &str) -> Result<Vec<UploadInfo>> {
        self.sub_resource("ListMultipartUploads", bucket, prefix)?;
        let state = self.state();
        state.bucket("ListMultipartUploads", bucket)?;
        let uploads = state.uploads.iter().filter(|(_, u)| u.bucket == bucket && u.request.key.starts_with(prefix));
        Ok(uploads
            .map(|(id, u)| UploadInfo { key: u.request.key.clone(), upload_id: id.clone(), initiated: u.initiated })
            .collect())
    }
}

#[async_trait]
impl ObjectStore for MemoryStore {
    fn capabilities(&self) -> Capabilities {
        if self.as_files { Capabilities::DISK } else { Capabilities::SERVICE }
    }

    async fn refresh_credentials(&self) -> Result<()> {
        Ok(())
    }
}
