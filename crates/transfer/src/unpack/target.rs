//! The store of the target, which copies ranges of an archive for parts of its members.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use seqferry_store::BucketEncryption;
use seqferry_store::Result;
use seqferry_store::{
    Body, CompleteUpload, CopyTarget, CreateUpload, Digests, FetchedObject, ListPage, ListRequest, MultipartUpload,
    ObjectMeta, ObjectRead, ObjectRef, ObjectStore, ObjectWrite, PartsPage, PinnedObject, PutObject, Range, StoreError,
    UploadInfo, UploadRef, WrittenObject, WrittenPart,
};

use super::ArchiveRef;
use super::place::{Format, MemberPlace, PlaceKind, archive_etag};

/// A store whose copies read members of an archive in the same service. All else is that of the store.
#[derive(Debug)]
pub struct RangeTarget {
    store: Arc<dyn ObjectStore>,
    archive: ArchiveRef,
}

impl RangeTarget {
    /// The store of the target of members of `archive`.
    pub fn new(store: Arc<dyn ObjectStore>, archive: ArchiveRef) -> Self {
        Self { store, archive }
    }
}

#[async_trait]
impl ObjectRead for RangeTarget {
    async fn head_bucket(&self, bucket: &str) -> Result<()> {
        self.store.head_bucket(bucket).await
    }

    async fn list(&self, request: &ListRequest) -> Result<ListPage> {
        self.store.list(request).await
    }

    async fn head(&self, object: ObjectRef<'_>, part: Option<u32>) -> Result<ObjectMeta> {
        self.store.head(object, part).await
    }

    async fn fetch(&self, source: &PinnedObject, range: Option<Range>) -> Result<FetchedObject> {
        self.store.fetch(source, range).await
    }

    async fn bucket_encryption(&self, bucket: &str) -> Result<BucketEncryption> {
        self.store.bucket_encryption(bucket).await
    }

    async fn get_tags(&self, object: ObjectRef<'_>) -> Result<Vec<(String, String)>> {
        self.store.get_tags(object).await
    }
}

#[async_trait]
impl ObjectWrite for RangeTarget {
    async fn put_object(&self, object: &PutObject, body: Bytes) -> Result<WrittenObject> {
        self.store.put_object(object, body).await
    }

    async fn delete(&self, object: ObjectRef<'_>) -> Result<()> {
        self.store.delete(object).await
    }

    async fn delete_if(&self, object: ObjectRef<'_>, etag: &str) -> Result<()> {
        self.store.delete_if(object, etag).await
    }

    async fn put_tags(&self, object: ObjectRef<'_>, tags: &[(String, String)]) -> Result<()> {
        self.store.put_tags(object, tags).await
    }

    async fn copy(&self, source: &PinnedObject, _target: CopyTarget<'_>) -> Result<WrittenObject> {
        // CopyObject takes whole objects only.
        Err(StoreError::new("CopyObject", &source.bucket, Some(&source.key), "NotImplemented", None))
    }
}

#[async_trait]
impl MultipartUpload for RangeTarget {
    async fn create_upload(&self, upload: &CreateUpload) -> Result<String> {
        self.store.create_upload(upload).await
    }

    async fn copy_part(
        &self,
        source: &PinnedObject,
        range: Range,
        upload: UploadRef<'_>,
        part: u32,
    ) -> Result<WrittenPart> {
        let place = source.version_id.as_deref().and_then(MemberPlace::parse);
        let place = place.filter(|place| {
            place.format == Format::Plain && place.kind == PlaceKind::File && range.last < place.stored
        });
        let (Some(place), Some(etag)) = (place, source.if_match.as_deref().and_then(archive_etag)) else {
            return Err(StoreError::new("UploadPartCopy", &source.bucket, Some(&source.key), "NotImplemented", None));
        };
        let archive = PinnedObject {
            bucket: self.archive.bucket.clone(),
            key: self.archive.key.clone(),
            version_id: None,
            if_match: Some(etag.to_owned()),
            size: source.size,
        };
        let range = Range { first: place.data + range.first, last: place.data + range.last };
        self.store.copy_part(&archive, range, upload, part).await
    }

    async fn put_part(&self, upload: UploadRef<'_>, part: u32, body: Bytes, digests: &Digests) -> Result<WrittenPart> {
        self.store.put_part(upload, part, body, digests).await
    }

    async fn stream_part(&self, upload: UploadRef<'_>, part: u32, size: u64, body: Body) -> Result<WrittenPart> {
        self.store.stream_part(upload, part, size, body).await
    }

    async fn list_parts(&self, upload: UploadRef<'_>, after: Option<u32>) -> Result<PartsPage> {
        self.store.list_parts(upload, after).await
    }

    async fn complete_upload(&self, upload: &CompleteUpload) -> Result<WrittenObject> {
        self.store.complete_upload(upload).await
    }

    async fn abort_upload(&self, upload: UploadRef<'_>) -> Result<()> {
        self.store.abort_upload(upload).await
    }

    async fn list_uploads(&self, bucket: &str, prefix: &str) -> Result<Vec<UploadInfo>> {
        self.store.list_uploads(bucket, prefix).await
    }
}

seqferry_store::forward_object_store!(RangeTarget, store);
