//! Values that go into and come out of an [`ObjectStore`](crate::ObjectStore).
//!
//! `ETag`s are kept without their quotes. Times are seconds since the epoch, as the service's clock has them.

use std::collections::BTreeMap;

use crate::checksum::{Checksum, ChecksumAlgorithm, ChecksumKind, crc64nvme};
use crate::properties::{Encryption, ObjectLock, WriteOptions};

/// Capabilities of a store, declared by the store: nothing above asks what is behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)] // facts that do not depend on each other
pub struct Capabilities {
    /// It keeps digests of objects, and tells them in checksums or `ETag`s. Without: what was written or read is all there is
    /// to compare.
    pub digests: bool,
    /// Writes and removals can be made on condition of what is at their key.
    pub conditions: bool,
    /// Objects have tags.
    pub tags: bool,
    /// Ranged reads are always honoured. A service, or a proxy before it, has to show that first.
    pub sure_ranges: bool,
    /// Parts are written as their bytes come. Without: a part is held whole, since it may have to be sent again.
    pub streamed_parts: bool,
    /// Copies are made by the store itself, from another of its kind: no byte passes through this process.
    pub server_copies: bool,
    /// Objects have encryption, locks, and checksums of a chosen algorithm.
    pub protection: bool,
    /// Parts of unfinished uploads are paid for until the upload is aborted.
    pub paid_uploads: bool,
    /// Objects are files: their times can be set, they may change while they are read, and reading them costs no request
    /// to a service.
    pub files: bool,
}

impl Capabilities {
    /// Of a service that is asked over a network. What a service turns out to lack is learned from its answers.
    pub const SERVICE: Self = Self {
        digests: true,
        conditions: true,
        tags: true,
        sure_ranges: false,
        streamed_parts: false,
        server_copies: true,
        protection: true,
        paid_uploads: true,
        files: false,
    };
    /// Of a file system: a bucket is the absolute path of a folder, a key the path of a file below it.
    pub const DISK: Self = Self {
        digests: false,
        conditions: false,
        tags: false,
        sure_ranges: true,
        streamed_parts: true,
        server_copies: false,
        protection: false,
        paid_uploads: false,
        files: true,
    };
}

/// An object, or one version of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ObjectRef<'a> {
    /// Bucket name.
    pub bucket: &'a str,
    /// Key.
    pub key: &'a str,
    /// None: the current version.
    pub version: Option<&'a str>,
}

impl<'a> ObjectRef<'a> {
    /// The current version.
    pub fn new(bucket: &'a str, key: &'a str) -> Self {
        Self { bucket, key, version: None }
    }

    /// This version; None for the current one.
    #[must_use]
    pub fn at_version(self, version: Option<&'a str>) -> Self {
        Self { version, ..self }
    }
}

/// An open multipart upload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct UploadRef<'a> {
    /// Bucket name.
    pub bucket: &'a str,
    /// Key of the object to be.
    pub key: &'a str,
    /// The service's id of the upload.
    pub upload_id: &'a str,
}

impl<'a> UploadRef<'a> {
    /// The upload of this id.
    pub fn new(bucket: &'a str, key: &'a str, upload_id: &'a str) -> Self {
        Self { bucket, key, upload_id }
    }
}

/// Target of a copy within the service.
#[derive(Debug, Clone, Copy)]
pub struct CopyTarget<'a> {
    /// The object to write.
    pub object: ObjectRef<'a>,
    /// None for the bucket's default.
    pub storage_class: Option<&'a str>,
    /// Checksum that the service shall keep. None: the service's own choice.
    pub checksum: Option<ChecksumAlgorithm>,
    /// These attributes. None: those of the source.
    pub attributes: Option<&'a Attributes>,
    /// These tags. None: those of the source.
    pub tags: Option<&'a [(String, String)]>,
    /// Encryption, access and retention. None: the bucket's defaults.
    pub write: Option<&'a WriteOptions>,
}

impl<'a> CopyTarget<'a> {
    /// A copy in the bucket's default storage class.
    pub fn new(bucket: &'a str, key: &'a str) -> Self {
        Self {
            object: ObjectRef::new(bucket, key),
            storage_class: None,
            checksum: None,
            attributes: None,
            tags: None,
            write: None,
        }
    }
}

/// A closed byte range: `first..=last`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// Offset of the first byte.
    pub first: u64,
    /// Offset of the last byte, inclusive.
    pub last: u64,
}

impl Range {
    /// The form that HTTP and `x-amz-copy-source-range` use.
    pub fn header(&self) -> String {
        format!("bytes={}-{}", self.first, self.last)
    }

    /// Bytes in the range.
    pub fn len(&self) -> u64 {
        self.last - self.first + 1
    }

    /// A closed range always holds a byte.
    pub fn is_empty(&self) -> bool {
        false
    }
}

/// Parameters of one page of a listing.
#[derive(Debug, Clone, Default)]
pub struct ListRequest {
    /// Bucket name.
    pub bucket: String,
    /// Only keys that start with this.
    pub prefix: String,
    /// Group keys at the first occurrence after the prefix.
    pub delimiter: Option<String>,
    /// Begin after this key. Ignored with a continuation.
    pub start_after: Option<String>,
    /// Token from the page before.
    pub continuation: Option<String>,
    /// At most so many entries (the service has a ceiling of its own, usually 1,000).
    pub max_keys: Option<i32>,
}

/// One object as a listing shows it.
#[derive(Debug, Clone, PartialEq)]
pub struct ListedObject {
    /// The whole key.
    pub key: String,
    /// Bytes.
    pub size: u64,
    /// Without quotes; empty when the service gave none.
    pub etag: String,
    /// Seconds since the epoch.
    pub last_modified: f64,
    /// Present where it is not the default one.
    pub storage_class: Option<String>,
    /// Reason why this cannot be read as an object (a special file, say). The other facts are then for show: the key
    /// may be escaped.
    pub refusal: Option<Refusal>,
}

/// Reason why an entry of a listing is no object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// One of ours, in [`code`](crate::error::classify::code).
    pub code: &'static str,
    /// Cause and next step, to be shown after the key.
    pub message: String,
}

/// One page of a listing.
#[derive(Debug, Clone, Default)]
pub struct ListPage {
    /// In the service's order, which need not be sorted.
    pub objects: Vec<ListedObject>,
    /// Groups made by the delimiter, each ending in it.
    pub common_prefixes: Vec<String>,
    /// Token for the next page; none at the end.
    pub continuation: Option<String>,
}

/// Everything of an object besides its bytes that a writer can set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Attributes {
    /// `Content-Type`.
    pub content_type: Option<String>,
    /// `Content-Encoding`, without the transport token `aws-chunked`.
    pub content_encoding: Option<String>,
    /// `Content-Language`.
    pub content_language: Option<String>,
    /// `Content-Disposition`.
    pub content_disposition: Option<String>,
    /// `Cache-Control`.
    pub cache_control: Option<String>,
    /// `Expires`, as the text it was given as.
    pub expires: Option<String>,
    /// `x-amz-website-redirect-location`.
    pub website_redirect: Option<String>,
    /// `x-amz-meta-*`: names without the prefix, in lower case.
    pub metadata: BTreeMap<String, String>,
}

/// Facts about an object, as HEAD reports them.
#[derive(Debug, Clone, Default)]
pub struct ObjectMeta {
    /// Bytes of the object, or of the part when one was asked for.
    pub size: u64,
    /// Without quotes.
    pub etag: String,
    /// Seconds since the epoch.
    pub last_modified: f64,
    /// Time of the last change to a file or its inode (`ctime`), by this machine's clock; no program can set it back.
    /// Seconds since the epoch; 0 from a service.
    pub changed: f64,
    /// None without versioning.
    pub version_id: Option<String>,
    /// None for the default class.
    pub storage_class: Option<String>,
    /// The strongest checksum that the service keeps for the object.
    pub checksum: Option<Checksum>,
    /// Algorithms of all checksums that a service shows, also of those whose value proves nothing.
    pub shown_checksums: Vec<ChecksumAlgorithm>,
    /// Number of parts, answered only when a part number was asked for.
    pub parts_count: Option<u32>,
    /// Settable attributes.
    pub attributes: Attributes,
    /// Number of tags. None: the service does not say. AWS is silent for 0 tags, and to callers that may not read tags.
    pub tag_count: Option<u32>,
    /// Metadata entries that the service could not put into headers.
    pub missing_metadata: u32,
    /// True when the `ETag` is no digest of the content (SSE-KMS, SSE-C).
    pub opaque_etag: bool,
    /// True for an archived object that must be restored before it can be read.
    pub archived: bool,
    /// A restore of an archived object is under way.
    pub restoring: bool,
    /// None: not encrypted, or the service does not say.
    pub encryption: Option<Encryption>,
    /// As far as the credentials may read it.
    pub lock: ObjectLock,
}

/// One version of an object, to read or to copy from: the answer is about that version, or an error.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PinnedObject {
    /// Bucket name.
    pub bucket: String,
    /// Key.
    pub key: String,
    /// This version. None: the current one.
    pub version_id: Option<String>,
    /// Only while the `ETag` is this one.
    pub if_match: Option<String>,
    /// Bytes of the whole object: bounds how long the answer to a copy is waited for.
    pub size: u64,
}

impl PinnedObject {
    /// The object of which HEAD or a listing told `meta`, pinned to its `ETag`; to its version where it has no `ETag`.
    ///
    /// The version id is not sent otherwise: reading by version id takes a permission of its own.
    pub fn of(bucket: &str, key: &str, meta: &ObjectMeta) -> Self {
        let if_match = Some(meta.etag.clone()).filter(|etag| !etag.is_empty());
        let version_id = meta.version_id.clone().filter(|_| if_match.is_none());
        Self { bucket: bucket.to_owned(), key: key.to_owned(), version_id, if_match, size: meta.size }
    }
}

/// Facts that a finished write reports about the object it made.
#[derive(Debug, Clone, Default)]
pub struct WrittenObject {
    /// Without quotes.
    pub etag: String,
    /// None without versioning.
    pub version_id: Option<String>,
    /// As far as the service returns one.
    pub checksum: Option<Checksum>,
    /// As far as the service tells.
    pub encryption: Option<Encryption>,
}

/// Digests of the bytes to be sent, known before sending. A service refuses (`BadDigest`) bytes that do not match.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Digests {
    /// A checksum, Base64, which the service keeps as well.
    pub checksum: Option<(ChecksumAlgorithm, String)>,
    /// MD5, Base64: for services that know no checksum.
    pub md5: Option<String>,
}

impl Digests {
    /// CRC64NVME of these bytes alone.
    pub fn crc64nvme(bytes: &[u8]) -> Self {
        Self { checksum: Some((ChecksumAlgorithm::Crc64Nvme, crc64nvme(bytes))), md5: None }
    }
}

/// An object to be written at once.
#[derive(Debug, Clone, Default)]
pub struct PutObject {
    /// Bucket name.
    pub bucket: String,
    /// Key.
    pub key: String,
    /// Settable attributes.
    pub attributes: Attributes,
    /// Its tags.
    pub tags: Vec<(String, String)>,
    /// None for the bucket's default.
    pub storage_class: Option<String>,
    /// Encryption, access and retention.
    pub write: WriteOptions,
    /// Expected digests of its bytes.
    pub digests: Digests,
    /// Only if there is no object of this key: else `PreconditionFailed`. Some services pass over that.
    pub if_absent: bool,
    /// Only if the object of this key has this `ETag`: else `PreconditionFailed`, or `NoSuchKey` where there is none. Some
    /// services pass over that; a disk does.
    pub if_match: Option<String>,
}

/// Facts that a finished write reports about the part that was copied or sent.
#[derive(Debug, Clone, Default)]
pub struct WrittenPart {
    /// Without quotes. Opaque: not every service computes it from the part's bytes.
    pub etag: String,
    /// Value of the upload's checksum algorithm over this part, Base64.
    pub checksum: Option<String>,
    /// True when the `ETag` is no digest of the content (SSE-KMS, SSE-C): the same bytes may get another one.
    pub opaque_etag: bool,
}

/// Parameters of a new multipart upload.
#[derive(Debug, Clone, Default)]
pub struct CreateUpload {
    /// Bucket name.
    pub bucket: String,
    /// Key of the object to be.
    pub key: String,
    /// Attributes of the object to be.
    pub attributes: Attributes,
    /// Tags of the object to be.
    pub tags: Vec<(String, String)>,
    /// None for the bucket's default.
    pub storage_class: Option<String>,
    /// Encryption, access and retention.
    pub write: WriteOptions,
    /// Checksum that the service shall compute over every part.
    pub checksum: Option<(ChecksumAlgorithm, ChecksumKind)>,
    /// Bytes of each part but the last: a disk writes part `n` at `(n - 1) * part_size`. Services take the parts as they come.
    pub part_size: u64,
    /// Bytes of the object to be: a disk makes room for them at once.
    pub size: u64,
}

/// A part as the service holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartInfo {
    /// 1 to 10,000.
    pub number: u32,
    /// Bytes.
    pub size: u64,
    /// Without quotes.
    pub etag: String,
    /// Value of the upload's checksum algorithm, Base64.
    pub checksum: Option<String>,
}

/// A page of parts, in order of their number.
#[derive(Debug, Clone, Default)]
pub struct PartsPage {
    /// The parts.
    pub parts: Vec<PartInfo>,
    /// Marker for the next page; none at the end.
    pub next: Option<u32>,
}

/// A part as Complete wants it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompletedPart {
    /// 1 to 10,000.
    pub number: u32,
    /// Without quotes.
    pub etag: String,
    /// Value of the upload's checksum algorithm, Base64.
    pub checksum: Option<String>,
}

/// Parameters for completing a multipart upload.
#[derive(Debug, Clone, Default)]
pub struct CompleteUpload {
    /// Bucket name.
    pub bucket: String,
    /// Key of the object to be.
    pub key: String,
    /// Upload id.
    pub upload_id: String,
    /// All parts, in order of their number.
    pub parts: Vec<CompletedPart>,
    /// Size of the object to be: the service refuses the upload when its parts add up to another. 0: it is not said.
    pub size: u64,
    /// The algorithm that the upload was created with: names the field of the parts' checksums.
    pub checksum: Option<ChecksumAlgorithm>,
    /// Expected checksum over the full object: a service that can checks it before the object exists.
    pub whole: Option<Checksum>,
    /// As of [`PutObject`].
    pub if_absent: bool,
    /// As of [`PutObject`].
    pub if_match: Option<String>,
}

/// An unfinished multipart upload.
#[derive(Debug, Clone)]
pub struct UploadInfo {
    /// Key of the object to be.
    pub key: String,
    /// Upload id.
    pub upload_id: String,
    /// Seconds since the epoch, by the service's clock.
    pub initiated: f64,
}

/// A bucket of the account.
#[derive(Debug, Clone)]
pub struct BucketInfo {
    /// Its name.
    pub name: String,
    /// Seconds since the epoch; 0 when the service gave no time.
    pub created: f64,
}

/// Parameters of one page of versions.
#[derive(Debug, Clone, Default)]
pub struct VersionsRequest {
    /// Bucket name.
    pub bucket: String,
    /// Only keys that start with this.
    pub prefix: String,
    /// Key and version of the page before, where it named them.
    pub after: Option<(String, Option<String>)>,
}

/// A version of an object, or a delete marker.
#[derive(Debug, Clone, PartialEq)]
pub struct ListedVersion {
    /// The object. A delete marker has no bytes and no `ETag`.
    pub object: ListedObject,
    /// `null` where the bucket had no versions when it was written.
    pub version_id: String,
    /// It is what the key holds now.
    pub is_latest: bool,
    /// It says that the object was removed.
    pub is_delete_marker: bool,
}

/// One page of versions, in the service's order.
#[derive(Debug, Clone, Default)]
pub struct VersionsPage {
    /// Versions and delete markers.
    pub versions: Vec<ListedVersion>,
    /// Start of the next page; none at the end.
    pub next: Option<(String, Option<String>)>,
}

/// An object to be removed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Removal {
    /// Key.
    pub key: String,
    /// This version, for good. None: the current one, of which a delete marker remains where the bucket keeps versions.
    pub version: Option<String>,
    /// Only while this is its `ETag`.
    pub etag: Option<String>,
}

/// Result of removing one object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RemovedObject {
    /// Version of the delete marker that hides it now.
    pub marker: Option<String>,
}
