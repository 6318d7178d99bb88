//! The traits of object stores, one for each role: reading, writing, multipart uploads.

use std::fmt::Debug;

use async_trait::async_trait;
use bytes::Bytes;

use crate::body::Body;
use crate::error::{Result, StoreError};
use crate::properties::BucketEncryption;
use crate::types::{
    AbortRule, BucketInfo, Capabilities, CompleteUpload, CopyTarget, CreateUpload, Digests, ListPage, ListRequest,
    ObjectMeta, ObjectRef, PartsPage, PinnedObject, PutObject, Range, Removal, RemovedObject, UploadInfo, UploadRef,
    VersionsPage, VersionsRequest, WrittenObject, WrittenPart,
};

/// An answer to GET: attributes of the object, and its bytes (or those of the range).
pub struct FetchedObject {
    /// Attributes of the whole object, whatever the range. The checksum is present only when the whole object was
    /// requested.
    pub meta: ObjectMeta,
    /// Bytes of the object, or of the requested range.
    pub body: Body,
}

/// Reads buckets and objects.
#[async_trait]
pub trait ObjectRead: Send + Sync {
    /// Checks that the bucket is there and may be used.
    async fn head_bucket(&self, bucket: &str) -> Result<()>;

    /// One page of a listing.
    async fn list(&self, request: &ListRequest) -> Result<ListPage>;

    /// Attributes of an object; with `part`, the size is that of this part (1-based).
    async fn head(&self, object: ObjectRef<'_>, part: Option<u32>) -> Result<ObjectMeta>;

    /// Returns an object and its attributes, only while its `ETag` is `if_match`. An answer with another range is an
    /// error ([`RANGE_IGNORED`](crate::error::classify::code::RANGE_IGNORED)) before any of its bytes is read.
    async fn fetch(&self, source: &PinnedObject, range: Option<Range>) -> Result<FetchedObject>;

    /// The tags of an object.
    async fn get_tags(&self, object: ObjectRef<'_>) -> Result<Vec<(String, String)>>;

    /// Returns the encryption that the bucket gives to objects written without encryption options.
    async fn bucket_encryption(&self, bucket: &str) -> Result<BucketEncryption>;

    /// Requests a readable copy of an archived object for a number of days. A copy that exists or is being made is a
    /// success.
    async fn restore(&self, object: ObjectRef<'_>, days: u32, tier: &str) -> Result<()>;

    /// Drops all cached bytes of this version: they differ from what the service promised for it.
    fn invalidate(&self, source: &PinnedObject);
}

/// Writes and removes objects.
#[async_trait]
pub trait ObjectWrite: Send + Sync {
    /// Writes a whole object.
    async fn put_object(&self, object: &PutObject, body: Bytes) -> Result<WrittenObject>;

    /// Removes the current version of an object. An absent one counts as removed.
    async fn delete(&self, object: ObjectRef<'_>) -> Result<()>;

    /// Removes the current version of an object while it has this `ETag`; else `PreconditionFailed`, or `NoSuchKey` if
    /// there is no object. Some services ignore the condition; a store without support for it answers `NotImplemented`.
    async fn delete_if(&self, object: ObjectRef<'_>, etag: &str) -> Result<()>;

    /// Replaces the tags of an object.
    async fn put_tags(&self, object: ObjectRef<'_>, tags: &[(String, String)]) -> Result<()>;

    /// Copies within the service; attributes and tags travel with it.
    async fn copy(&self, source: &PinnedObject, target: CopyTarget<'_>) -> Result<WrittenObject>;
}

/// Makes objects out of parts.
#[async_trait]
pub trait MultipartUpload: Send + Sync {
    /// Begins a multipart upload; returns its id.
    async fn create_upload(&self, upload: &CreateUpload) -> Result<String>;

    /// Copies a range of the source into a part. Sending the same part again replaces it.
    async fn copy_part(
        &self,
        source: &PinnedObject,
        range: Range,
        upload: UploadRef<'_>,
        part: u32,
    ) -> Result<WrittenPart>;

    /// Sends bytes as a part. Sending the same part again replaces it.
    async fn put_part(&self, upload: UploadRef<'_>, part: u32, body: Bytes, digests: &Digests) -> Result<WrittenPart>;

    /// Sends `size` bytes of a stream as a part, like [`put_part`](MultipartUpload::put_part). An error in the stream
    /// is the result. A store that can write them as they arrive holds few of them at a time; others hold the whole
    /// part ([`put_buffered_part`]).
    async fn stream_part(&self, upload: UploadRef<'_>, part: u32, size: u64, body: Body) -> Result<WrittenPart>;

    /// The parts that an upload holds, after part number `after`.
    async fn list_parts(&self, upload: UploadRef<'_>, after: Option<u32>) -> Result<PartsPage>;

    /// Makes the object out of its parts.
    async fn complete_upload(&self, upload: &CompleteUpload) -> Result<WrittenObject>;

    /// Drops an upload and its parts. Parts in flight may survive: call again until the upload is not found.
    async fn abort_upload(&self, upload: UploadRef<'_>) -> Result<()>;

    /// Unfinished uploads whose key starts with `prefix`.
    async fn list_uploads(&self, bucket: &str, prefix: &str) -> Result<Vec<UploadInfo>>;
}

/// Operations on buckets and versions, and removals by the thousand: a service offers them, a disk does not.
#[async_trait]
pub trait BucketService: Send + Sync {
    /// The buckets of the account, in the service's order.
    async fn list_buckets(&self) -> Result<Vec<BucketInfo>>;

    /// Makes a bucket in the region of this store.
    async fn create_bucket(&self, bucket: &str) -> Result<()>;

    /// Removes an empty bucket.
    async fn delete_bucket(&self, bucket: &str) -> Result<()>;

    /// The rules by which a bucket aborts uploads.
    async fn abort_rules(&self, bucket: &str) -> Result<Vec<AbortRule>>;

    /// One page of versions and delete markers.
    async fn list_versions(&self, request: &VersionsRequest) -> Result<VersionsPage>;

    /// Removes at most 1,000 objects in one request. Returns one result for each, in their order; None where the
    /// service gave none. Some services ignore the `ETag`s.
    async fn delete_many(&self, bucket: &str, objects: &[Removal]) -> Result<Vec<Option<Result<RemovedObject>>>>;

    /// Returns a URL that allows its bearer to read (or, with `put`, write) this object for a number of seconds. Makes
    /// no request.
    async fn presign(&self, object: ObjectRef<'_>, put: bool, seconds: u64) -> Result<String>;
}

/// An S3-shaped object store: single requests, each made once.
///
/// No method has a default: a layer that leaves one out does not compile.
/// [`forward_object_read`](crate::forward_object_read) and its siblings write those that only pass a request on.
///
/// All implementations promise: a returned success is the service's own complete success (a 200 that carries an error,
/// or lacks a required field, is an error); keys are passed on byte for byte; an error names its cause and its class. A
/// write whose reply is lost ends as an error although it may have happened.
#[async_trait]
pub trait ObjectStore: ObjectRead + ObjectWrite + MultipartUpload + Debug {
    /// Returns the store's capabilities. They are the same for as long as the store lives.
    fn capabilities(&self) -> Capabilities;

    /// Returns the store's operations on buckets and versions; None where it offers objects only.
    fn bucket_service(&self) -> Option<&dyn BucketService>;

    /// True for Amazon's own service. It encrypts every object by default: `AES256` is then no property of an object.
    fn is_amazon(&self) -> bool;

    /// Returns the number of attempts for a request, including the first, that the user's settings of this service
    /// name. None: the engine's default.
    fn max_attempts(&self) -> Option<u32>;

    /// Returns notes for the user on the settings of this service, each text once. Notes on bodies that are sent are
    /// returned only to a caller that sends some.
    fn take_notes(&self, sends_bodies: bool) -> Vec<String>;

    /// Prepares to write many objects to a bucket and to sync them together. None: each object is durable when its
    /// write has ended. Blocks its thread briefly.
    fn deferred_sync(&self, bucket: &str) -> Option<Box<dyn DeferredSync>>;

    /// Reloads the credentials, after the service has reported that the present ones have expired.
    async fn refresh_credentials(&self) -> Result<()>;
}

/// Syncs the objects that were written to one bucket with [`PutObject::defer_sync`].
pub trait DeferredSync: Send + Sync + Debug {
    /// Returns once all objects that were written before the call are durable. Blocks its thread.
    ///
    /// # Errors
    /// When some objects may not be durable.
    fn sync(&self) -> Result<()>;
}

/// Sends a part for [`MultipartUpload::stream_part`] of a store that takes parts as a whole.
///
/// # Errors
/// Those of the stream and of [`MultipartUpload::put_part`]; `IncompleteBody` when it has not exactly `size` bytes.
pub async fn put_buffered_part<S: MultipartUpload + ?Sized>(
    store: &S,
    upload: UploadRef<'_>,
    part: u32,
    size: u64,
    mut body: Body,
) -> Result<WrittenPart> {
    let bytes = body.take(usize::try_from(size).unwrap_or(usize::MAX), |_| ()).await?;
    if bytes.len() as u64 != size || body.next().await.transpose()?.is_some() {
        return Err(StoreError::new("UploadPart", upload.bucket, Some(upload.key), "IncompleteBody", None)
            .with_message(format!("part {part} was said to have {size} bytes")));
    }
    let digests = Digests::crc64nvme(&bytes);
    store.put_part(upload, part, bytes, &digests).await
}

/// Short forms of [`ObjectRead`].
pub trait ObjectReadExt: ObjectRead {
    /// The bytes of an object alone.
    fn get(&self, source: &PinnedObject, range: Option<Range>) -> impl Future<Output = Result<Body>> + Send {
        async move { Ok(self.fetch(source, range).await?.body) }
    }
}

impl<S: ObjectRead + ?Sized> ObjectReadExt for S {}
