//! Parameters and results of multipart uploads.

use super::Attributes;
use crate::checksum::{Checksum, ChecksumAlgorithm, ChecksumKind};
use crate::properties::WriteOptions;

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

/// Facts that a finished write reports about the part that was copied or sent.
#[derive(Debug, Clone, Default)]
pub struct WrittenPart {
    /// `ETag`, without quotes. Opaque: not every service computes it from the part's bytes.
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
    /// Storage class. None: the bucket's default.
    pub storage_class: Option<String>,
    /// Encryption, access and retention.
    pub write: WriteOptions,
    /// Checksum that the service is asked to compute over every part.
    pub checksum: Option<(ChecksumAlgorithm, ChecksumKind)>,
    /// Bytes of each part but the last. A disk writes part `n` at `(n - 1) * part_size`; services do not need it.
    pub part_size: u64,
    /// Bytes of the object to be; a disk reserves space for them immediately.
    pub size: u64,
}

/// A part as the service holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartInfo {
    /// 1 to 10,000.
    pub number: u32,
    /// Bytes.
    pub size: u64,
    /// `ETag`, without quotes.
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

/// A part in the list that completes an upload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompletedPart {
    /// 1 to 10,000.
    pub number: u32,
    /// `ETag`, without quotes.
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
    /// Size of the object to be: the service refuses the upload when its parts add up to another size. 0: not given.
    pub size: u64,
    /// Algorithm that the upload was created with. It selects the field of the parts' checksums.
    pub checksum: Option<ChecksumAlgorithm>,
    /// Expected checksum over the full object. A service that supports it checks it before the object exists.
    pub whole: Option<Checksum>,
    /// True to write only if no object has this key, as in [`PutObject`](super::PutObject).
    pub if_absent: bool,
    /// `ETag` that the object at this key must have, as in [`PutObject`](super::PutObject).
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
