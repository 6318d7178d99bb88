//! A store that only records which of its methods are called, to show that a layer passes each of them on.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use futures::StreamExt as _;
use seqferry_store::{
    AbortRule, Body, BucketEncryption, BucketInfo, BucketService, Bytes, Capabilities, CompleteUpload, CopyTarget,
    CreateUpload, DeferredSync, Digests, FetchedObject, ListPage, ListRequest, MultipartUpload, ObjectMeta, ObjectRead,
    ObjectRef, ObjectStore, ObjectWrite, PartsPage, PinnedObject, PutObject, Range, Removal, RemovedObject, Result,
    StoreError, UploadInfo, UploadRef, VersionsPage, VersionsRequest, WrittenObject, WrittenPart, async_trait,
};

/// All methods of [`ObjectStore`] and its roles, and of [`BucketService`].
const METHODS: [&str; 35] = [
    "head_bucket",
    "list",
    "head",
    "fetch",
    "get_tags",
    "bucket_encryption",
    "restore",
    "invalidate",
    "put_object",
    "delete",
    "delete_if",
    "put_tags",
    "copy",
    "create_upload",
    "copy_part",
    "put_part",
    "stream_part",
    "list_parts",
    "complete_upload",
    "abort_upload",
    "list_uploads",
    "list_buckets",
    "create_bucket",
    "delete_bucket",
    "abort_rules",
    "list_versions",
    "delete_many",
    "presign",
    "capabilities",
    "bucket_service",
    "is_amazon",
    "max_attempts",
    "take_notes",
    "deferred_sync",
    "refresh_credentials",
];

/// Returns the methods that a layer does not pass on to the store below it, in the order of the traits.
///
/// # Panics
/// When a method of the store is called that the list of methods lacks.
pub async fn methods_not_forwarded<L: ObjectStore>(layer: impl FnOnce(Arc<dyn ObjectStore>) -> L) -> Vec<&'static str> {
    let below = Arc::new(RecordingStore::default());
    call_all(&layer(Arc::clone(&below) as Arc<dyn ObjectStore>)).await;
    let called = below.called.lock().unwrap_or_else(PoisonError::into_inner);
    assert!(called.iter().all(|method| METHODS.contains(method)), "{called:?}");
    METHODS.into_iter().filter(|method| !called.contains(method)).collect()
}

/// Calls each method once, of an object that is not pinned. Results do not count.
async fn call_all(store: &impl ObjectStore) {
    let (object, upload) = (ObjectRef::new("b", "k"), UploadRef::new("b", "k", "u"));
    let source = PinnedObject { bucket: "b".to_owned(), key: "k".to_owned(), ..PinnedObject::default() };
    let range = Range { first: 0, last: 0 };
    drop(store.head_bucket("b").await);
    drop(store.list(&ListRequest::default()).await);
    drop(store.head(object, None).await);
    drop(store.fetch(&source, None).await);
    drop(store.get_tags(object).await);
    drop(store.bucket_encryption("b").await);
    drop(store.restore(object, 1, "Standard").await);
    store.invalidate(&source);
    drop(store.put_object(&PutObject::default(), Bytes::new()).await);
    drop(store.delete(object).await);
    drop(store.delete_if(object, "e").await);
    drop(store.put_tags(object, &[]).await);
    let target = CopyTarget::new(object.bucket, object.key);
    drop(store.copy(&source, target).await);
    drop(store.create_upload(&CreateUpload::default()).await);
    drop(store.copy_part(&source, range, upload, 1).await);
    drop(store.put_part(upload, 1, Bytes::new(), &Digests::default()).await);
    drop(store.stream_part(upload, 1, 0, Body::from_stream(futures::stream::empty().boxed())).await);
    drop(store.list_parts(upload, None).await);
    drop(store.complete_upload(&CompleteUpload::default()).await);
    drop(store.abort_upload(upload).await);
    drop(store.list_uploads("b", "").await);
    if let Some(service) = store.bucket_service() {
        drop(service.list_buckets().await);
        drop(service.create_bucket("b").await);
        drop(service.delete_bucket("b").await);
        drop(service.abort_rules("b").await);
        drop(service.list_versions(&VersionsRequest::default()).await);
        drop(service.delete_many("b", &[]).await);
        drop(service.presign(object, false, 1).await);
    }
    store.capabilities();
    store.is_amazon();
    store.max_attempts();
    store.take_notes(true);
    drop(store.deferred_sync("b"));
    drop(store.refresh_credentials().await);
}

/// See the [module](self). Every request fails once it is recorded.
#[derive(Debug, Default)]
struct RecordingStore {
    called: Mutex<BTreeSet<&'static str>>,
}

impl RecordingStore {
    fn note(&self, method: &'static str) {
        self.called.lock().unwrap_or_else(PoisonError::into_inner).insert(method);
    }

    fn refuse<T>(&self, method: &'static str) -> Result<T> {
        self.note(method);
        Err(StoreError::new(method, "b", None, "NotImplemented", None))
    }
}

#[async_trait]
impl ObjectRead for RecordingStore {
    async fn head_bucket(&self, _bucket: &str) -> Result<()> {
        self.refuse("head_bucket")
    }

    async fn list(&self, _request: &ListRequest) -> Result<ListPage> {
        self.refuse("list")
    }

    async fn head(&self, _object: ObjectRef<'_>, _part: Option<u32>) -> Result<ObjectMeta> {
        self.refuse("head")
    }

    async fn fetch(&self, _source: &PinnedObject, _range: Option<Range>) -> Result<FetchedObject> {
        self.refuse("fetch")
    }

    async fn get_tags(&self, _object: ObjectRef<'_>) -> Result<Vec<(String, String)>> {
        self.refuse("get_tags")
    }

    async fn bucket_encryption(&self, _bucket: &str) -> Result<BucketEncryption> {
        self.refuse("bucket_encryption")
    }

    async fn restore(&self, _object: ObjectRef<'_>, _days: u32, _tier: &str) -> Result<()> {
        self.refuse("restore")
    }

    fn invalidate(&self, _source: &PinnedObject) {
        self.note("invalidate");
    }
}

#[async_trait]
impl ObjectWrite for RecordingStore {
    async fn put_object(&self, _object: &PutObject, _body: Bytes) -> Result<WrittenObject> {
        self.refuse("put_object")
    }

    async fn delete(&self, _object: ObjectRef<'_>) -> Result<()> {
        self.refuse("delete")
    }

    async fn delete_if(&self, _object: ObjectRef<'_>, _etag: &str) -> Result<()> {
        self.refuse("delete_if")
    }

    async fn put_tags(&self, _object: ObjectRef<'_>, _tags: &[(String, String)]) -> Result<()> {
        self.refuse("put_tags")
    }

    async fn copy(&self, _source: &PinnedObject, _target: CopyTarget<'_>) -> Result<WrittenObject> {
        self.refuse("copy")
    }
}

#[async_trait]
impl MultipartUpload for RecordingStore {
    async fn create_upload(&self, _upload: &CreateUpload) -> Result<String> {
        self.refuse("create_upload")
    }

    async fn copy_part(
        &self,
        _source: &PinnedObject,
        _range: Range,
        _upload: UploadRef<'_>,
        _part: u32,
    ) -> Result<WrittenPart> {
        self.refuse("copy_part")
    }

    async fn put_part(
        &self,
        _upload: UploadRef<'_>,
        _part: u32,
        _body: Bytes,
        _digests: &Digests,
    ) -> Result<WrittenPart> {
        self.refuse("put_part")
    }

    async fn stream_part(&self, _upload: UploadRef<'_>, _part: u32, _size: u64, _body: Body) -> Result<WrittenPart> {
        self.refuse("stream_part")
    }

    async fn list_parts(&self, _upload: UploadRef<'_>, _after: Option<u32>) -> Result<PartsPage> {
        self.refuse("list_parts")
    }

    async fn complete_upload(&self, _upload: &CompleteUpload) -> Result<WrittenObject> {
        self.refuse("complete_upload")
    }

    async fn abort_upload(&self, _upload: UploadRef<'_>) -> Result<()> {
        self.refuse("abort_upload")
    }

    async fn list_uploads(&self, _bucket: &str, _prefix: &str) -> Result<Vec<UploadInfo>> {
        self.refuse("list_uploads")
    }
}

#[async_trait]
impl BucketService for RecordingStore {
    async fn list_buckets(&self) -> Result<Vec<BucketInfo>> {
        self.refuse("list_buckets")
    }

    async fn create_bucket(&self, _bucket: &str) -> Result<()> {
        self.refuse("create_bucket")
    }

    async fn delete_bucket(&self, _bucket: &str) -> Result<()> {
        self.refuse("delete_bucket")
    }

    async fn abort_rules(&self, _bucket: &str) -> Result<Vec<AbortRule>> {
        self.refuse("abort_rules")
    }

    async fn list_versions(&self, _request: &VersionsRequest) -> Result<VersionsPage> {
        self.refuse("list_versions")
    }

    async fn delete_many(&self, _bucket: &str, _objects: &[Removal]) -> Result<Vec<Option<Result<RemovedObject>>>> {
        self.refuse("delete_many")
    }

    async fn presign(&self, _object: ObjectRef<'_>, _put: bool, _seconds: u64) -> Result<String> {
        self.refuse("presign")
    }
}

#[async_trait]
impl ObjectStore for RecordingStore {
    fn capabilities(&self) -> Capabilities {
        self.note("capabilities");
        Capabilities::SERVICE
    }

    fn bucket_service(&self) -> Option<&dyn BucketService> {
        self.note("bucket_service");
        Some(self)
    }

    fn is_amazon(&self) -> bool {
        self.note("is_amazon");
        true
    }

    fn max_attempts(&self) -> Option<u32> {
        self.note("max_attempts");
        None
    }

    fn take_notes(&self, _sends_bodies: bool) -> Vec<String> {
        self.note("take_notes");
        Vec::new()
    }

    fn deferred_sync(&self, _bucket: &str) -> Option<Box<dyn DeferredSync>> {
        self.note("deferred_sync");
        None
    }

    async fn refresh_credentials(&self) -> Result<()> {
        self.refuse("refresh_credentials")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::FaultStore;

    #[tokio::test]
    async fn a_store_that_injects_faults_passes_every_method_on() {
        assert!(methods_not_forwarded(FaultStore::new).await.is_empty());
    }
}
