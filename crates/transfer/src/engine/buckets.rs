//! Calls of the engine about buckets as a whole, about single objects, and about uploads that were left open.

use bytes::Bytes;
use futures::stream::{self, StreamExt as _};
use seqferry_client::{EndpointSpec, RequestError, RequestSpec, RetryContext, RetryPolicy, RetryingClient};
use seqferry_store::{
    BucketInfo, BucketService, ErrorClass, ObjectMeta, ObjectRef, PinnedObject, Range, Removal, Result, StoreError,
    UploadInfo, UploadRef, VersionsPage, VersionsRequest,
};

use super::Engine;
use crate::remove::{RemovalOutcome, remove_each};

/// Uploads of one call that are asked for, or aborted, at a time.
const AT_ONCE: usize = 32;

/// Bytes and number of the parts that an open upload holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UploadSize {
    /// Of all parts together.
    pub bytes: u64,
    /// Number of the parts.
    pub parts: u64,
}

impl Engine {
    /// Removes objects, or versions of them; what became of each, in their order. `careful`: each is looked at first. With an
    /// epoch only within that epoch of the lease.
    ///
    /// # Errors
    /// When all was cancelled; failures are those of objects.
    pub fn remove_each(
        &self,
        endpoint: &EndpointSpec,
        bucket: &str,
        objects: &[Removal],
        careful: bool,
        epoch: Option<u64>,
    ) -> std::result::Result<Vec<RemovalOutcome>, RequestError> {
        self.runtime.block_on(async {
            let client = self.writing(endpoint, epoch).await;
            remove_each(&client, bucket, objects, careful).await
        })
    }

    /// The buckets of the account.
    ///
    /// # Errors
    /// When they cannot be listed.
    pub fn buckets(&self, endpoint: &EndpointSpec) -> std::result::Result<Vec<BucketInfo>, RequestError> {
        self.ask(endpoint, RequestSpec::read("ListBuckets", ""), &async |service: &dyn BucketService| {
            service.list_buckets().await
        })
    }

    /// Makes a bucket.
    ///
    /// # Errors
    /// When it cannot be made, or is there.
    pub fn create_bucket(&self, endpoint: &EndpointSpec, bucket: &str) -> std::result::Result<(), RequestError> {
        let spec = RequestSpec::write("CreateBucket", bucket);
        self.ask(endpoint, spec, &async |service: &dyn BucketService| service.create_bucket(bucket).await)
    }

    /// Removes an empty bucket.
    ///
    /// # Errors
    /// When it cannot be removed, or holds something.
    pub fn delete_bucket(&self, endpoint: &EndpointSpec, bucket: &str) -> std::result::Result<(), RequestError> {
        let spec = RequestSpec::write("DeleteBucket", bucket);
        self.ask(endpoint, spec, &async |service: &dyn BucketService| service.delete_bucket(bucket).await)
    }

    /// One page of versions and delete markers.
    ///
    /// # Errors
    /// When it cannot be had.
    pub fn versions_page(
        &self,
        endpoint: &EndpointSpec,
        request: &VersionsRequest,
    ) -> std::result::Result<VersionsPage, RequestError> {
        let spec = RequestSpec::read("ListObjectVersions", &request.bucket);
        let ask = async |service: &dyn BucketService| service.list_versions(request).await;
        let mut page = self.ask(endpoint, spec, &ask)?;
        // Services that normalise keys may answer with names that cannot start with the prefix.
        page.versions.retain(|version| version.object.key.starts_with(&request.prefix));
        Ok(page)
    }

    /// An address that lets its bearer read, or with `put` write, an object for so many seconds.
    ///
    /// # Errors
    /// When nothing can be signed.
    pub fn presign(
        &self,
        endpoint: &EndpointSpec,
        object: ObjectRef<'_>,
        put: bool,
        seconds: u64,
    ) -> std::result::Result<String, RequestError> {
        let spec = RequestSpec::read("Presign", object.bucket).once();
        self.ask(endpoint, spec, &async |service: &dyn BucketService| service.presign(object, put, seconds).await)
    }

    /// Facts about an object, or a version of it.
    ///
    /// # Errors
    /// [`ErrorClass::NotFound`] where there is none.
    pub fn facts(
        &self,
        endpoint: &EndpointSpec,
        object: ObjectRef<'_>,
    ) -> std::result::Result<ObjectMeta, RequestError> {
        self.runtime.block_on(async { self.pool.client(endpoint, RetryPolicy::impatient()).await.head(object).await })
    }

    /// The bytes of a range of an object that is pinned.
    ///
    /// # Errors
    /// When they cannot be read, or the object has changed.
    pub fn read_range(
        &self,
        endpoint: &EndpointSpec,
        object: &PinnedObject,
        range: Range,
    ) -> std::result::Result<Bytes, RequestError> {
        self.runtime.block_on(async {
            let client = self.pool.client(endpoint, RetryPolicy::default()).await;
            let _reserved = client.reserve_memory(range.len()).await?;
            client.read_range(object, range).await.map(|read| read.bytes)
        })
    }

    /// Open uploads whose key starts with `prefix`.
    ///
    /// # Errors
    /// When they cannot be listed.
    pub fn uploads(
        &self,
        endpoint: &EndpointSpec,
        bucket: &str,
        prefix: &str,
    ) -> std::result::Result<Vec<UploadInfo>, RequestError> {
        self.runtime.block_on(async {
            let client = self.pool.client(endpoint, RetryPolicy::default()).await;
            let spec = RequestSpec::read("ListMultipartUploads", bucket);
            client.call(spec, &RetryContext::default(), async |store| store.list_uploads(bucket, prefix).await).await
        })
    }

    /// Sizes of these open uploads (key, id), in their order; None for one that is gone.
    ///
    /// # Errors
    /// The first failure.
    pub fn upload_sizes(
        &self,
        endpoint: &EndpointSpec,
        bucket: &str,
        uploads: &[(String, String)],
    ) -> std::result::Result<Vec<Option<UploadSize>>, RequestError> {
        self.runtime.block_on(async {
            let client = &self.pool.client(endpoint, RetryPolicy::default()).await;
            let sizes = uploads.iter().map(|(key, id)| upload_size(client, UploadRef::new(bucket, key, id)));
            stream::iter(sizes).buffered(AT_ONCE).collect::<Vec<_>>().await.into_iter().collect()
        })
    }

    /// Drops open uploads (key, id) with their parts; why one could not be, in their order. One that is gone counts as dropped.
    ///
    /// # Errors
    /// When all was cancelled.
    pub fn abort_uploads(
        &self,
        endpoint: &EndpointSpec,
        bucket: &str,
        uploads: &[(String, String)],
        epoch: Option<u64>,
    ) -> std::result::Result<Vec<Option<StoreError>>, RequestError> {
        self.runtime.block_on(async {
            let client = &self.writing(endpoint, epoch).await;
            let aborts = uploads.iter().map(|(key, id)| abort(client, UploadRef::new(bucket, key, id)));
            stream::iter(aborts).buffered(AT_ONCE).collect::<Vec<_>>().await.into_iter().collect()
        })
    }

    async fn writing(&self, endpoint: &EndpointSpec, epoch: Option<u64>) -> RetryingClient {
        let client = self.pool.client(endpoint, RetryPolicy::default()).await;
        match epoch {
            Some(epoch) => client.leased_or_failed(self.pool.lease_holder(epoch)),
            None => client,
        }
    }

    fn ask<T>(
        &self,
        endpoint: &EndpointSpec,
        spec: RequestSpec<'_>,
        question: &impl AsyncFn(&dyn BucketService) -> Result<T>,
    ) -> std::result::Result<T, RequestError> {
        self.runtime.block_on(async {
            let client = self.pool.client(endpoint, RetryPolicy::impatient()).await;
            let service = client.connection().store.clone();
            let Some(service) = service.bucket_service() else {
                return Err(StoreError::new("ListBuckets", "", None, "NotImplemented", None).into());
            };
            client.call(spec, &RetryContext::default(), async |_| question(service).await).await
        })
    }
}

async fn upload_size(
    client: &RetryingClient,
    upload: UploadRef<'_>,
) -> std::result::Result<Option<UploadSize>, RequestError> {
    let mut size = UploadSize::default();
    let mut after = None;
    loop {
        let spec = RequestSpec::read("ListParts", upload.bucket);
        let page =
            client.call(spec, &RetryContext::default(), async |store| store.list_parts(upload, after).await).await;
        let page = match page {
            Ok(page) => page,
            Err(RequestError::Failed(error)) if error.class == ErrorClass::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        size.bytes += page.parts.iter().map(|part| part.size).sum::<u64>();
        size.parts += page.parts.len() as u64;
        if page.next.is_none() || page.next <= after {
            return Ok(Some(size));
        }
        after = page.next;
    }
}

async fn abort(
    client: &RetryingClient,
    upload: UploadRef<'_>,
) -> std::result::Result<Option<StoreError>, RequestError> {
    let spec = RequestSpec::write("AbortMultipartUpload", upload.bucket);
    let dropped = client.call(spec, &RetryContext::default(), async |store| store.abort_upload(upload).await).await;
    match dropped {
        Ok(()) => Ok(None),
        Err(RequestError::Failed(error)) if error.class == ErrorClass::NotFound => Ok(None),
        Err(RequestError::Failed(error)) => Ok(Some(error)),
        Err(RequestError::Cancelled) => Err(RequestError::Cancelled),
    }
}
