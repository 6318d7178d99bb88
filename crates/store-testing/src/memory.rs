//! An object store in memory, as strict as S3: the oracle of the conformance suite and the base of fault tests.
//!
//! The store computes `ETag`s and checksums from the bytes. Like AWS it keeps CRC64NVME for every object that was sent
//! without another checksum. It checks the digests of senders, honours conditions, and has the limits of multipart
//! uploads (the minimum part size is an option, so that tests can be small). It has no versions.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use bytes::Bytes;
use md5::{Digest as _, Md5};
use seqferry_store::checksum::{base64, hex};
use seqferry_store::error::classify::code;
use seqferry_store::{
    Attributes, Capabilities, Checksum, ChecksumAlgorithm, ChecksumKind, CreateUpload, DigestAlgorithm, Digester,
    Digests, ObjectMeta, ObjectStore, PinnedObject, Range, Result, StoreError, UploadRef, WrittenObject, WrittenPart,
};
use seqferry_store::{BucketService, DeferredSync};

mod multipart;
mod read;
mod write;

/// See the module.
#[derive(Debug)]
pub struct MemoryStore {
    minimum_part: u64,
    page: usize,
    order: fn(&str) -> String,
    etags: Etags,
    copied_parts: CopiedParts,
    copied_etags: CopiedEtags,
    sub_resources: bool,
    as_files: bool,
    checksums: Checksums,
    ignores_ranges: bool,
    ignores_conditions: &'static [ConditionalWrite],
    folders: Folders,
    state: Mutex<State>,
}

/// A request that makes an object, and may have a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConditionalWrite {
    /// `PutObject`.
    Put,
    /// `CopyObject`.
    Copy,
    /// `CompleteMultipartUpload`.
    Complete,
}

/// Nature of the `ETag`s of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Etags {
    /// `ETag`s are digests.
    Plain,
    /// `ETag`s are no digests, and answers say so.
    Opaque,
    /// `ETag`s look like digests but are not, and no answer says so.
    Salted,
    /// `ETag`s are no digests, and no answer says so.
    Odd,
}

/// Folders that have objects, and none of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Folders {
    /// They are no objects.
    Absent,
    /// HEAD and conditions take them for objects.
    Implied,
}

/// Treatment of copies of parts into an upload with a checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CopiedParts {
    /// The checksum of each part is computed.
    Checked,
    /// The answer has the checksum of the whole source.
    Misread,
    /// Copies of parts are refused, since they carry no checksum.
    Refused,
}

/// `ETag`s of copies in one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CopiedEtags {
    /// They are those of objects written in one request.
    New,
    /// They are those of the sources, also of many parts.
    Kept,
    /// The store passes for one that keeps them, and gives new ones.
    SaidKept,
}

/// Checksums that the store knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Checksums {
    All,
    /// Requests that name another checksum are refused, as by some services.
    Only(ChecksumAlgorithm),
    /// Requests that name any checksum are refused, and none is kept.
    Refused,
    /// Checksums in requests are ignored, as by services that do not know them.
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
    /// Lengths of the object's parts; empty for an object written in one request.
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
    /// An empty store with these buckets.
    pub fn with_buckets(buckets: &[&str]) -> Arc<Self> {
        let store = Self::new(1);
        for bucket in buckets {
            store.create_bucket(bucket);
        }
        Arc::new(store)
    }

    /// An empty store with a minimum size of parts, except the last of an upload.
    pub fn new(minimum_part: u64) -> Self {
        Self {
            minimum_part,
            page: 1000,
            order: str::to_owned,
            etags: Etags::Plain,
            copied_parts: CopiedParts::Checked,
            copied_etags: CopiedEtags::New,
            sub_resources: true,
            as_files: false,
            checksums: Checksums::All,
            ignores_ranges: false,
            ignores_conditions: &[],
            folders: Folders::Absent,
            state: Mutex::default(),
        }
    }

    /// Limits the pages of listings to this number of entries.
    #[must_use]
    pub fn with_page_size(mut self, page: usize) -> Self {
        self.page = page.max(1);
        self
    }

    /// Lists keys in the order of the results of `order`: some services do not sort by bytes.
    #[must_use]
    pub fn with_list_order(mut self, order: fn(&str) -> String) -> Self {
        self.order = order;
        self
    }

    /// Reports the `ETag`s of parts as no digests, like a bucket that encrypts with KMS.
    #[must_use]
    pub fn with_opaque_etags(mut self) -> Self {
        self.etags = Etags::Opaque;
        self
    }

    /// Answers copies of parts with the checksum of the whole source, like versitygw 1.8.
    #[must_use]
    pub fn with_whole_checksums_of_parts(mut self) -> Self {
        self.copied_parts = CopiedParts::Misread;
        self
    }

    /// Refuses copies of parts into an upload with a checksum, since they carry none, like MinIO.
    #[must_use]
    pub fn requiring_part_checksums(mut self) -> Self {
        self.copied_parts = CopiedParts::Refused;
        self
    }

    /// Gives copies the `ETag`s of their sources, like `SeaweedFS` and Ceph; `truly` false: only its name says so.
    #[must_use]
    pub fn keeping_copied_etags(mut self, truly: bool) -> Self {
        self.copied_etags = if truly { CopiedEtags::Kept } else { CopiedEtags::SaidKept };
        self
    }

    /// Answers `?tagging` and `?uploads` with other documents, like `rclone serve s3`.
    #[must_use]
    pub fn without_sub_resources(mut self) -> Self {
        self.sub_resources = false;
        self
    }

    fn sub_resource(&self, operation: &'static str, bucket: &str, key: &str) -> Result<()> {
        let other = || StoreError::new(operation, bucket, Some(key), code::UNEXPECTED_ANSWER, Some(200));
        self.sub_resources.then_some(()).ok_or_else(other)
    }

    /// Behaves like a disk: keeps no checksum, and its `ETag`s are no digests.
    #[must_use]
    pub fn as_disk(mut self) -> Self {
        (self.as_files, self.etags, self.checksums) = (true, Etags::Opaque, Checksums::Unheard);
        self
    }

    /// Refuses requests that name another checksum than this one; with None it refuses any, and keeps none.
    #[must_use]
    pub fn with_checksums(mut self, known: Option<ChecksumAlgorithm>) -> Self {
        self.checksums = known.map_or(Checksums::Refused, Checksums::Only);
        self
    }

    /// Ignores checksums, like a service without support for them: it keeps and returns none.
    #[must_use]
    pub fn without_checksums(mut self) -> Self {
        self.checksums = Checksums::Unheard;
        self
    }

    /// Makes `ETag`s of objects written in one request that are no digests.
    #[must_use]
    pub fn with_odd_etags(mut self) -> Self {
        self.etags = Etags::Odd;
        self
    }

    /// Makes `ETag`s that look like digests but are not, without saying so.
    #[must_use]
    pub fn with_salted_etags(mut self) -> Self {
        self.etags = Etags::Salted;
        self
    }

    /// The `ETag` of bytes that are written or copied in one request, or as a part.
    fn etag_of(&self, body: &[u8]) -> String {
        if matches!(self.etags, Etags::Salted | Etags::Opaque) {
            md5_hex(&[b"salt", body].concat())
        } else {
            md5_hex(body)
        }
    }

    /// Behaves like a service behind a proxy that drops `Range`.
    #[must_use]
    pub fn ignoring_ranges(mut self) -> Self {
        self.ignores_ranges = true;
        self
    }

    /// Answers HEAD for the key of a folder that has objects, and takes it for an object in conditions, as SeaweedFS
    /// does.
    #[must_use]
    pub fn with_implied_folders(mut self) -> Self {
        self.folders = Folders::Implied;
        self
    }

    /// True when a condition meets a folder in place of an object.
    fn is_refused_by_folder(&self, state: &State, bucket: &str, key: &str) -> bool {
        let folder = if key.ends_with('/') { key.to_owned() } else { format!("{key}/") };
        self.implied_folder(state, bucket, &folder).is_some()
    }

    /// The object that the service shows for a folder that has none of its own.
    fn implied_folder(&self, state: &State, bucket: &str, key: &str) -> Option<Object> {
        let objects = state.buckets.get(bucket).filter(|_| self.folders == Folders::Implied && key.ends_with('/'))?;
        let next = objects
            .range::<str, _>((Bound::Included(key), Bound::Unbounded))
            .next()
            .is_some_and(|(next, _)| next != key && next.starts_with(key));
        next.then(|| Object {
            body: Bytes::new(),
            etag: format!("{}-0", md5_hex(b"")),
            parts: Vec::new(),
            modified: now(),
            attributes: Attributes::default(),
            tags: Vec::new(),
            storage_class: None,
            checksum: None,
        })
    }

    /// Passes over conditions of these requests without a word, as some services do.
    #[must_use]
    pub fn ignoring_conditions_of(mut self, requests: &'static [ConditionalWrite]) -> Self {
        self.ignores_conditions = requests;
        self
    }

    /// The conditions of a request that count.
    fn conditions_of<'a>(
        &self,
        request: ConditionalWrite,
        if_absent: bool,
        if_match: Option<&'a str>,
    ) -> (bool, Option<&'a str>) {
        if self.ignores_conditions.contains(&request) { (false, None) } else { (if_absent, if_match) }
    }

    /// True when bytes match the checksum and the MD5 of their sender.
    fn are_sent(&self, digests: &Digests, body: &[u8]) -> bool {
        let checksum = digests.checksum.as_ref().filter(|_| self.checksums != Checksums::Unheard);
        checksum.is_none_or(|(algorithm, sent)| value(*algorithm, body) == *sent)
            && digests.md5.as_ref().is_none_or(|sent| base64(&Md5::digest(body)) == *sent)
    }

    fn keeps(&self, checksum: Checksum) -> Option<Checksum> {
        (!matches!(self.checksums, Checksums::Unheard | Checksums::Refused)).then_some(checksum)
    }

    fn answered(&self, copied: WrittenPart) -> WrittenPart {
        // A disk returns the checksum of the request, and keeps it only until the upload ends.
        let tells = self.checksums != Checksums::Unheard || self.as_files;
        let checksum = copied.checksum.filter(|_| tells);
        WrittenPart { checksum, opaque_etag: self.etags == Etags::Opaque, ..copied }
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
            shown_checksums: object.checksum.iter().map(|sum| sum.algorithm).collect(),
            attributes,
            tag_count: u32::try_from(object.tags.len()).ok().filter(|_| self.sub_resources),
            archived: object.is_archived(),
            opaque_etag: self.as_files || self.etags == Etags::Opaque,
            copies_keep_etag: self.copied_etags != CopiedEtags::New,
            ..ObjectMeta::default()
        }
    }

    /// Makes an object older by `seconds`.
    pub fn backdate(&self, bucket: &str, key: &str, seconds: f64) {
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

    fn write(&mut self, operation: &'static str, bucket: &str, key: &str, object: Object) -> Result<WrittenObject> {
        let written = WrittenObject {
            etag: object.etag.clone(),
            version_id: None,
            checksum: object.checksum.clone(),
            encryption: None,
        };
        self.buckets
            .get_mut(bucket)
            .ok_or_else(|| StoreError::new(operation, bucket, None, "NoSuchBucket", Some(404)))?
            .insert(key.to_owned(), object);
        Ok(written)
    }

    fn upload(&mut self, operation: &'static str, upload: UploadRef<'_>) -> Result<&mut Upload> {
        let UploadRef { bucket, key, upload_id } = upload;
        self.uploads
            .get_mut(upload_id)
            .filter(|upload| upload.bucket == bucket && upload.request.key == key)
            .ok_or_else(|| StoreError::new(operation, bucket, Some(key), "NoSuchUpload", Some(404)))
    }

    fn put_part(
        &mut self,
        operation: &'static str,
        upload: UploadRef<'_>,
        part: u32,
        body: Bytes,
    ) -> Result<WrittenPart> {
        let UploadRef { bucket, key, .. } = upload;
        let upload = self.upload(operation, upload)?;
        if !(1..=10_000).contains(&part) {
            return Err(StoreError::new(operation, bucket, Some(key), "InvalidArgument", Some(400)));
        }
        let copied = WrittenPart {
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
impl ObjectStore for MemoryStore {
    fn capabilities(&self) -> Capabilities {
        if self.as_files { Capabilities::DISK } else { Capabilities::SERVICE }
    }

    fn bucket_service(&self) -> Option<&dyn BucketService> {
        None
    }

    fn is_amazon(&self) -> bool {
        false
    }

    fn max_attempts(&self) -> Option<u32> {
        None
    }

    fn take_notes(&self, _sends_bodies: bool) -> Vec<String> {
        Vec::new()
    }

    fn deferred_sync(&self, _bucket: &str) -> Option<Box<dyn DeferredSync>> {
        None
    }

    async fn refresh_credentials(&self) -> Result<()> {
        Ok(())
    }
}
