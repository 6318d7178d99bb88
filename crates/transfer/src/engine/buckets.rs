//! Calls of the engine for buckets, single objects and open uploads.

use bytes::Bytes;
use futures::stream::{self, StreamExt as _};
use seqferry_client::upload::{abort_once, for_each_page_of_parts};
use seqferry_client::{EndpointSpec, RequestError, RequestSpec, RetryContext, RetryPolicy, RetryingClient};
use seqferry_store::{
    AbortRule, BucketInfo, BucketService, ErrorClass, ObjectMeta, ObjectRef, PartInfo, PinnedObject, Range, Result,
    StoreError, UploadInfo, UploadRef, VersionsPage, VersionsRequest,
};

use super::Engine;

/// Largest number of concurrent requests of one call.
const MAX_CONCURRENT: usize = 32;

/// Bytes and number of the parts that an open upload holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UploadSize {
    /// Bytes of all parts together.
    pub bytes: u64,
    /// Number of the parts.
    pub parts: u64,
}

impl Engine {
    /// The buckets of the account.
    ///
    /// # Errors
    /// When they cannot be listed.
    pub fn list_buckets(&self, endpoint: &EndpointSpec) -> std::result::Result<Vec<BucketInfo>, RequestError> {
        self.ask(endpoint, RequestSpec::read("ListBuckets", ""), &async |service: &dyn BucketService| {
            service.list_buckets().await
        })
    }

    /// The rules by which a bucket aborts uploads that are not completed.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn abort_rules(
        &self,
        endpoint: &EndpointSpec,
        bucket: &str,
    ) -> std::result::Result<Vec<AbortRule>, RequestError> {
        let spec = RequestSpec::read("GetBucketLifecycleConfiguration", bucket);
        self.ask(endpoint, spec, &async |service: &dyn BucketService| service.abort_rules(bucket).await)
    }

    /// Makes a bucket.
    ///
    /// # Errors
    /// When it cannot be made, or exists.
    pub fn create_bucket(&self, endpoint: &EndpointSpec, bucket: &str) -> std::result::Result<(), RequestError> {
        let spec = RequestSpec::write("CreateBucket", bucket);
        self.ask(endpoint, spec, &async |service: &dyn BucketService| service.create_bucket(bucket).await)
    }

    /// Removes an empty bucket.
    ///
    /// # Errors
    /// When it cannot be removed, or is not empty.
    pub fn delete_bucket(&self, endpoint: &EndpointSpec, bucket: &str) -> std::result::Result<(), RequestError> {
        let spec = RequestSpec::write("DeleteBucket", bucket);
        self.ask(endpoint, spec, &async |service: &dyn BucketService| service.delete_bucket(bucket).await)
    }

    /// One page of versions and delete markers.
    ///
    /// # Errors
    /// When the request fails.
    pub fn versions_page(
        &self,
        endpoint: &EndpointSpec,
        request: &VersionsRequest,
    ) -> std::result::Result<VersionsPage, RequestError> {
        self.runtime
            .block_on(async { self.pool.client(endpoint, RetryPolicy::impatient()).await.versions_page(request).await })
    }

    /// Returns an address that lets its bearer read, or with `put` write, an object for a number of seconds.
    ///
    /// # Errors
    /// When there are no credentials.
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

    /// Attributes of an object, or a version of it.
    ///
    /// # Errors
    /// [`ErrorClass::NotFound`] where there is none.
    pub fn head_object(
        &self,
        endpoint: &EndpointSpec,
        object: ObjectRef<'_>,
    ) -> std::result::Result<ObjectMeta, RequestError> {
        self.runtime.block_on(async { self.pool.client(endpoint, RetryPolicy::impatient()).await.head(object).await })
    }

    /// Reads a range of an object while it has this `ETag`; with an empty one, of the present object.
    ///
    /// # Errors
    /// When they cannot be read, or the object has changed.
    pub fn read_range(
        &self,
        endpoint: &EndpointSpec,
        object: ObjectRef<'_>,
        etag: &str,
        range: Range,
    ) -> std::result::Result<Bytes, RequestError> {
        // The whole size is not known.
        let object = PinnedObject::listed(object, etag, 0);
        self.runtime.block_on(async {
            let client = self.pool.client(endpoint, RetryPolicy::default()).await;
            let _reserved = client.reserve_memory(range.len()).await?;
            client.read_range(&object, range).await.map(|read| read.bytes)
        })
    }

    /// Open uploads whose key starts with `prefix`.
    ///
    /// # Errors
    /// When they cannot be listed.
    pub fn list_uploads(
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

    /// Sizes of these open uploads, in their order; None for one that is gone.
    ///
    /// # Errors
    /// The first failure.
    pub fn upload_sizes(
        &self,
        endpoint: &EndpointSpec,
        uploads: &[UploadRef<'_>],
    ) -> std::result::Result<Vec<Option<UploadSize>>, RequestError> {
        self.runtime.block_on(async {
            let client = &self.pool.client(endpoint, RetryPolicy::default()).await;
            let sizes = uploads.iter().map(|upload| upload_size(client, *upload));
            stream::iter(sizes).buffered(MAX_CONCURRENT).collect::<Vec<_>>().await.into_iter().collect()
        })
    }

    /// Aborts open uploads; returns the error of each that could not be aborted, in their order. An upload
    /// that is gone counts as aborted.
    ///
    /// # Errors
    /// When all was cancelled.
    pub fn abort_uploads(
        &self,
        endpoint: &EndpointSpec,
        uploads: &[UploadRef<'_>],
        epoch: Option<u64>,
    ) -> std::result::Result<Vec<Option<StoreError>>, RequestError> {
        self.runtime.block_on(async {
            let client = &self.writing(endpoint, epoch).await;
            let aborts = uploads.iter().map(|upload| abort(client, *upload));
            stream::iter(aborts).buffered(MAX_CONCURRENT).collect::<Vec<_>>().await.into_iter().collect()
        })
    }

    async fn writing(&self, endpoint: &EndpointSpec, epoch: Option<u64>) -> RetryingClient {
        let client = self.pool.client(endpoint, RetryPolicy::default()).await;
        match epoch {
            Some(epoch) => client.with_lease_or_failure(self.pool.lease_holder(epoch)),
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
            self.pool.client(endpoint, RetryPolicy::impatient()).await.call_service(spec, question).await
        })
    }
}

async fn upload_size(
    client: &RetryingClient,
    upload: UploadRef<'_>,
) -> std::result::Result<Option<UploadSize>, RequestError> {
    let mut size = UploadSize::default();
    let add = |parts: Vec<PartInfo>| {
        size.bytes += parts.iter().map(|part| part.size).sum::<u64>();
        size.parts += parts.len() as u64;
    };
    match for_each_page_of_parts(client, &RetryContext::default(), upload, add).await {
        Ok(()) => Ok(Some(size)),
        Err(RequestError::Failed(error)) if error.class == ErrorClass::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

async fn abort(
    client: &RetryingClient,
    upload: UploadRef<'_>,
) -> std::result::Result<Option<StoreError>, RequestError> {
    match abort_once(client, &RetryContext::default(), upload).await {
        Ok(_) => Ok(None),
        Err(RequestError::Failed(error)) => Ok(Some(error)),
        Err(RequestError::Cancelled) => Err(RequestError::Cancelled),
    }
}
