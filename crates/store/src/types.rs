//! Parameters and results of an [`ObjectStore`](crate::ObjectStore).
//!
//! `ETag`s are kept without their quotes. Times are seconds since the epoch, as the service's clock has them.

mod uploads;

use std::collections::BTreeMap;

use crate::checksum::{Checksum, ChecksumAlgorithm, crc64nvme};
use crate::properties::{Encryption, ObjectLock, WriteOptions};

pub use uploads::{
    CompleteUpload, CompletedPart, CreateUpload, PartInfo, PartsPage, UploadInfo, UploadRef, WrittenPart,
};

/// Capabilities that a store declares. Layers above read them and do not depend on the kind of store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)] // facts that do not depend on each other
pub struct Capabilities {
    /// True when the store keeps digests of objects and reports them as checksums or `ETag`s. False: only the bytes
    /// that were written or read can be compared.
    pub digests: bool,
    /// True when writes and removals can depend on the object that is at their key.
    pub conditions: bool,
    /// True when objects have tags.
    pub tags: bool,
    /// True when ranged reads are always honoured. False for services: only their answers show whether the service, or
    /// a proxy before it, honours them.
    pub reliable_ranges: bool,
    /// True when parts are written as their bytes arrive. False: a part is held whole, since it may have to be sent
    /// again.
    pub streamed_parts: bool,
    /// True when the store itself makes copies, from another store of its kind: no byte passes through this process.
    pub server_copies: bool,
    /// True when objects have encryption, locks, and checksums of a chosen algorithm.
    pub protection: bool,
    /// True when parts of unfinished uploads are paid for until the upload is aborted.
    pub paid_uploads: bool,
    /// True when reads cost no request to a service and no money: an object may be read again to compare it.
    pub local_reads: bool,
    /// True when objects may be changed in place, also while they are read. False: a reader sees one version or
    /// another, never both.
    pub in_place_changes: bool,
    /// True when the time of an object is that of the last write to it. False: an archive states it of a member.
    pub write_times: bool,
    /// True when `ETag`s are no digests and have no meaning outside the store.
    pub opaque_etags: bool,
    /// True when times of objects can be set, as the metadata entry [`MTIME`](crate::MTIME).
    pub settable_times: bool,
    /// True when any metadata is kept with an object.
    pub metadata: bool,
    /// True when all parts of an upload but the last must have the size that was given when the upload was created.
    pub uniform_parts: bool,
}

impl Capabilities {
    /// Capabilities of a service on a network. Features that one service lacks are learned from its answers.
    pub const SERVICE: Self = Self {
        digests: true,
        conditions: true,
        tags: true,
        reliable_ranges: false,
        streamed_parts: false,
        server_copies: true,
        protection: true,
        paid_uploads: true,
        local_reads: false,
        in_place_changes: false,
        write_times: true,
        opaque_etags: false,
        settable_times: false,
        metadata: true,
        uniform_parts: false,
    };
    /// Capabilities of a file system: a bucket is the absolute path of a folder, a key the path of a file below it.
    pub const DISK: Self = Self {
        digests: false,
        conditions: false,
        tags: false,
        reliable_ranges: true,
        streamed_parts: true,
        server_copies: false,
        protection: false,
        paid_uploads: false,
        local_reads: true,
        in_place_changes: true,
        write_times: true,
        opaque_etags: true,
        settable_times: true,
        metadata: false,
        uniform_parts: true,
    };
}

/// An object, or one version of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ObjectRef<'a> {
    /// Bucket name.
    pub bucket: &'a str,
    /// Key.
    pub key: &'a str,
    /// Version id. None: the current version.
    pub version: Option<&'a str>,
}

impl<'a> ObjectRef<'a> {
    /// The current version.
    pub fn new(bucket: &'a str, key: &'a str) -> Self {
        Self { bucket, key, version: None }
    }

    /// Selects a version; None selects the current one.
    #[must_use]
    pub fn at_version(self, version: Option<&'a str>) -> Self {
        Self { version, ..self }
    }
}

/// Target of a copy within the service.
#[derive(Debug, Clone, Copy)]
pub struct CopyTarget<'a> {
    /// The object to write.
    pub object: ObjectRef<'a>,
    /// Storage class. None: the bucket's default.
    pub storage_class: Option<&'a str>,
    /// Checksum that the service is asked to keep. None: the service's own choice.
    pub checksum: Option<ChecksumAlgorithm>,
    /// Attributes of the copy. None: those of the source.
    pub attributes: Option<&'a Attributes>,
    /// Tags of the copy. None: those of the source.
    pub tags: Option<&'a [(String, String)]>,
    /// Encryption, access and retention. None: the bucket's defaults.
    pub write: Option<&'a WriteOptions>,
    /// True to write only if no object has the key of the target, as in [`PutObject`]. Fewer services know this of
    /// copies.
    pub if_absent: bool,
    /// `ETag` that the object at the key of the target must have, as in [`PutObject`].
    pub if_match: Option<&'a str>,
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
            if_absent: false,
            if_match: None,
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
    /// Prefix of the keys to list.
    pub prefix: String,
    /// Delimiter: keys are grouped at its first occurrence after the prefix.
    pub delimiter: Option<String>,
    /// Key after which the listing begins. Ignored with a continuation.
    pub start_after: Option<String>,
    /// Token from the page before.
    pub continuation: Option<String>,
    /// Largest number of entries. The service has a maximum of its own, usually 1,000.
    pub max_keys: Option<i32>,
}

/// One object as a listing shows it.
#[derive(Debug, Clone, PartialEq)]
pub struct ListedObject {
    /// The whole key.
    pub key: String,
    /// Bytes.
    pub size: u64,
    /// `ETag`, without quotes; empty when the service gave none.
    pub etag: String,
    /// Seconds since the epoch.
    pub last_modified: f64,
    /// Storage class, where it is not the default one.
    pub storage_class: Option<String>,
    /// Reason why the entry cannot be read as an object (a special file, for example). The other attributes then serve
    /// for display only: the key may be escaped.
    pub refusal: Option<EntryRefusal>,
}

/// Reason why an entry of a listing is no object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryRefusal {
    /// Error code of ours, from [`code`](crate::error::classify::code).
    pub code: &'static str,
    /// Cause and next step, to be shown after the key.
    pub message: String,
}

/// One page of a listing.
#[derive(Debug, Clone, Default)]
pub struct ListPage {
    /// Objects in the service's order, which need not be sorted.
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
    /// `Expires`, in the text form in which it was set.
    pub expires: Option<String>,
    /// `x-amz-website-redirect-location`.
    pub website_redirect: Option<String>,
    /// `x-amz-meta-*`: names without the prefix, in lower case.
    pub metadata: BTreeMap<String, String>,
}

/// Attributes of an object, as HEAD reports them.
#[derive(Debug, Clone, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
pub struct ObjectMeta {
    /// Bytes of the object, or of the part when one was requested.
    pub size: u64,
    /// `ETag`, without quotes.
    pub etag: String,
    /// Seconds since the epoch.
    pub last_modified: f64,
    /// Time of the last change to a file or its inode (`ctime`), by this machine's clock; no program can set it back.
    /// Seconds since the epoch; 0 from a service.
    pub changed: f64,
    /// Version id; None without versioning.
    pub version_id: Option<String>,
    /// Storage class; None for the default one.
    pub storage_class: Option<String>,
    /// The strongest checksum that the service keeps for the object.
    pub checksum: Option<Checksum>,
    /// Algorithms of all checksums that a service shows, also of those whose value cannot be compared.
    pub shown_checksums: Vec<ChecksumAlgorithm>,
    /// Number of parts; known only when the request named a part number.
    pub parts_count: Option<u32>,
    /// Settable attributes.
    pub attributes: Attributes,
    /// Number of tags. None: the service does not say. AWS is silent for 0 tags, and to callers that may not read tags.
    pub tag_count: Option<u32>,
    /// Metadata entries that the service could not put into headers.
    pub missing_metadata: u32,
    /// True when the `ETag` is no digest of the content (SSE-KMS, SSE-C).
    pub opaque_etag: bool,
    /// True when the service is one that gives a copy of the whole object its `ETag`, also that of many parts.
    pub copies_keep_etag: bool,
    /// True for an archived object that must be restored before it can be read.
    pub archived: bool,
    /// True while an archived object is being restored.
    pub restoring: bool,
    /// Server-side encryption. None: the object is not encrypted, or the service does not report it.
    pub encryption: Option<Encryption>,
    /// Object Lock, as far as the credentials may read it.
    pub lock: ObjectLock,
}

/// One version of an object as a source. The answer is about that version, or it is an error.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PinnedObject {
    /// Bucket name.
    pub bucket: String,
    /// Key.
    pub key: String,
    /// Version id. None: the current version.
    pub version_id: Option<String>,
    /// `ETag` that the object must still have; else the request fails. None: any.
    pub if_match: Option<String>,
    /// Bytes of the whole object; 0: not known, as where a part of it is read. They determine how long a request waits
    /// for the answer to a copy, and show an answer of another length. A pinned object of unknown size comes in the
    /// form that the service gives; the answer must then mark the end of the body.
    pub size: u64,
}

impl PinnedObject {
    /// Pins the object that HEAD or a listing described by `meta` to its `ETag`, or to its version where it has no
    /// `ETag`.
    ///
    /// The version id is sent only in the second case: reading by version id needs an additional permission.
    pub fn of(bucket: &str, key: &str, meta: &ObjectMeta) -> Self {
        let if_match = Some(meta.etag.clone()).filter(|etag| !etag.is_empty());
        let version_id = meta.version_id.clone().filter(|_| if_match.is_none());
        Self { bucket: bucket.to_owned(), key: key.to_owned(), version_id, if_match, size: meta.size }
    }

    /// The object as a listing showed it: `size` bytes, pinned to this `ETag`. An empty `ETag` pins nothing.
    pub fn listed(object: ObjectRef<'_>, etag: &str, size: u64) -> Self {
        Self {
            bucket: object.bucket.to_owned(),
            key: object.key.to_owned(),
            version_id: object.version.map(str::to_owned),
            if_match: (!etag.is_empty()).then(|| etag.to_owned()),
            size,
        }
    }
}

/// Facts that a finished write reports about the object it made.
#[derive(Debug, Clone, Default)]
pub struct WrittenObject {
    /// `ETag`, without quotes.
    pub etag: String,
    /// Version id; None without versioning.
    pub version_id: Option<String>,
    /// Checksum of the object, if the service returns one.
    pub checksum: Option<Checksum>,
    /// Server-side encryption, if the service reports it.
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

/// An object to be written in one request.
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
    /// Storage class. None: the bucket's default.
    pub storage_class: Option<String>,
    /// Encryption, access and retention.
    pub write: WriteOptions,
    /// Expected digests of its bytes.
    pub digests: Digests,
    /// True to write only if no object has this key; else the write fails with `PreconditionFailed`. Some services
    /// ignore this.
    pub if_absent: bool,
    /// `ETag` that the object at this key must have: else the write fails with `PreconditionFailed`, or with
    /// `NoSuchKey` if there is no object. Some services ignore this; a disk does not check it.
    pub if_match: Option<String>,
    /// True when the writer syncs this object later, with others, by a [`DeferredSync`](crate::DeferredSync): a disk
    /// does not sync it alone.
    pub defer_sync: bool,
}

/// A bucket of the account.
#[derive(Debug, Clone)]
pub struct BucketInfo {
    /// Its name.
    pub name: String,
    /// Seconds since the epoch; 0 when the service gave no time.
    pub created: f64,
}

/// Rule of a bucket that aborts uploads which are not completed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AbortRule {
    /// Keys that it applies to: those that start with this.
    pub prefix: String,
    /// Days after an upload began.
    pub days: u32,
}

/// Parameters of one page of versions.
#[derive(Debug, Clone, Default)]
pub struct VersionsRequest {
    /// Bucket name.
    pub bucket: String,
    /// Prefix of the keys to list.
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
    /// True for the current version of the key.
    pub is_latest: bool,
    /// True for a delete marker: the object was removed.
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
    /// Version to remove permanently. None: the current version; a delete marker takes its place where the bucket keeps
    /// versions.
    pub version: Option<String>,
    /// `ETag` that the object must have to be removed. None: any.
    pub etag: Option<String>,
}

/// Result of removing one object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RemovedObject {
    /// Version of the delete marker that hides it now.
    pub marker: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_etag_pins_nothing() {
        let object = ObjectRef::new("bucket", "key").at_version(Some("version"));

        let pinned = PinnedObject::listed(object, "etag", 7);
        assert_eq!((pinned.bucket.as_str(), pinned.key.as_str(), pinned.size), ("bucket", "key", 7));
        assert_eq!((pinned.version_id.as_deref(), pinned.if_match.as_deref()), (Some("version"), Some("etag")));
        assert_eq!(PinnedObject::listed(object, "", 7).if_match, None);
    }
}
