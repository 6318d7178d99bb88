//! Questions about buckets and objects, and pinned reads: one call each, retried within the budget.

use std::time::Instant;

use bytes::Bytes;
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use seqferry_store::{
    BucketService, ErrorClass, ListPage, ListRequest, ObjectMeta, ObjectRef, PinnedObject, Range, Scope, StoreError,
    VersionsPage, VersionsRequest,
};

use crate::client::RetryingClient;
use crate::pages::Pages;
use crate::reading::{PinnedReader, fetch_pinned};
use crate::request::{RequestError, RequestSpec, RetryContext};

/// HEAD requests of one call that wait at a time; the budget decides how many are under way.
const HEADS: usize = 256;

/// Result of a check-up of one key.
#[derive(Debug, Clone)]
pub enum KeyLookup {
    /// An object.
    Object(Box<ObjectMeta>),
    /// Something that is no object: a link that is not followed, a device. The error says what.
    NoObject(Box<StoreError>),
    /// No object with this key.
    Absent,
}

/// A key, and what its look-up has shown or why it failed.
pub type LookupResult = (String, Result<KeyLookup, StoreError>);

/// The answer to a ranged read.
#[derive(Debug, Clone)]
pub struct RangeRead {
    /// Attributes of the whole object, as the service gave them with the bytes.
    pub meta: ObjectMeta,
    /// Exactly the bytes of the range.
    pub bytes: Bytes,
}

impl RetryingClient {
    /// Checks that the bucket exists and may be used.
    ///
    /// A refusal of the credentials is asked again with credentials loaded again: they may have been put right since
    /// this process has read them.
    ///
    /// # Errors
    /// When the bucket is missing, the credentials may not use it, or the service cannot be reached.
    pub async fn check_bucket(&self, bucket: &str) -> Result<(), RequestError> {
        let check = async || {
            let spec = RequestSpec::read("HeadBucket", bucket);
            self.call(spec, &RetryContext::default(), async |store| store.head_bucket(bucket).await).await
        };
        match check().await {
            Err(RequestError::Failed(error)) if error.is_about_credentials() => {
                if self.connection().store.refresh_credentials().await.is_err() {
                    return Err(error.into());
                }
                check().await
            }
            answer => answer,
        }
    }

    /// Attributes of an object.
    ///
    /// # Errors
    /// [`ErrorClass::NotFound`] where there is none.
    pub async fn head(&self, object: ObjectRef<'_>) -> Result<ObjectMeta, RequestError> {
        let spec = RequestSpec::read("HeadObject", object.bucket);
        self.call(spec, &RetryContext::default(), async |store| store.head(object, None).await).await
    }

    /// Looks up each of these keys with a HEAD. The results are in the order of the keys.
    ///
    /// # Errors
    /// The first failure but for absence.
    pub async fn look_up(&self, bucket: &str, keys: Vec<String>) -> Result<Vec<(String, KeyLookup)>, RequestError> {
        let look_up = async |key: String| self.look_up_one(bucket, &key).await.map(|found| (key, found));
        stream::iter(keys).map(look_up).buffered(HEADS).try_collect().await
    }

    /// Looks up each of these keys with a HEAD, each with its own outcome. The results are in the order of the keys.
    ///
    /// # Errors
    /// The first failure with which no other key can fare better; or the client was cancelled.
    pub async fn look_up_each(&self, bucket: &str, keys: Vec<String>) -> Result<Vec<LookupResult>, RequestError> {
        let look_up = async |key: String| match self.look_up_one(bucket, &key).await {
            Ok(found) => Ok((key, Ok(found))),
            Err(RequestError::Failed(error)) if error.scope != Scope::Job => Ok((key, Err(error))),
            Err(error) => Err(error),
        };
        stream::iter(keys).map(look_up).buffered(HEADS).try_collect().await
    }

    /// Looks up this key with a HEAD.
    ///
    /// # Errors
    /// Any failure but absence; or the client was cancelled.
    pub async fn look_up_one(&self, bucket: &str, key: &str) -> Result<KeyLookup, RequestError> {
        let begun = Instant::now();
        match self.head(ObjectRef::new(bucket, key)).await {
            Ok(meta) => {
                if !self.capabilities().in_place_changes {
                    self.quirks().note_head(ObjectRef::new(bucket, key), &meta, begun.elapsed());
                }
                if meta.encryption.is_none() {
                    self.quirks().note_plain_object(PinnedObject::of(bucket, key, &meta));
                }
                Ok(KeyLookup::Object(Box::new(meta)))
            }
            Err(RequestError::Failed(error)) if error.is_not_an_object() => Ok(KeyLookup::NoObject(Box::new(error))),
            Err(RequestError::Failed(error)) if error.class == ErrorClass::NotFound => Ok(KeyLookup::Absent),
            Err(error) => Err(error),
        }
    }

    /// The bytes of `range` of an object, exactly as many as it has.
    ///
    /// Waits for bandwidth and for the right to make a request. The caller reserves the memory
    /// ([`RetryingClient::reserve_memory`]), since it decides how long the bytes stay. A slow read may be hedged: both
    /// answers are of the pinned version. A body that breaks is read again from the start of the range.
    ///
    /// # Errors
    /// [`ErrorClass::Precondition`] where the object is another version meanwhile. [`Cause::RangeIgnored`] where the
    /// service answers ranges with something else; [`Quirks::ignores_ranges`](crate::Quirks::ignores_ranges) then says
    /// so, and the remark is kept.
    pub async fn read_range(&self, object: &PinnedObject, range: Range) -> Result<RangeRead, RequestError> {
        self.reserve_bandwidth(range.len()).await?;
        let spec = RequestSpec::read("GetObject", &object.bucket).bytes(range.len());
        self.call(spec, &RetryContext::default(), async |store| {
            let fetched = fetch_pinned(&*store, object, Some(range)).await?;
            let piece = PinnedReader::new(fetched.body, object).take(range.len(), &[]).await?;
            Ok(RangeRead { meta: fetched.meta, bytes: piece.bytes })
        })
        .await
    }

    /// One page of a listing. Each key and common prefix starts with the prefix of the request: a service that
    /// normalises keys may answer with others, which are left out here. A page may thus be empty and not be the last.
    ///
    /// # Errors
    /// When the page cannot be had.
    pub async fn list_page(&self, request: &ListRequest) -> Result<ListPage, RequestError> {
        let spec = RequestSpec::read("ListObjectsV2", &request.bucket);
        let context = RetryContext::default();
        let mut page = self.call(spec, &context, async |store| store.list(request).await).await?;
        page.objects.retain(|object| object.key.starts_with(&request.prefix));
        page.common_prefixes.retain(|group| group.starts_with(&request.prefix));
        Ok(page)
    }

    /// One page of versions and delete markers. As in [`RetryingClient::list_page`], each key starts with the prefix.
    ///
    /// # Errors
    /// When the page cannot be had, or the store has no versions.
    pub async fn versions_page(&self, request: &VersionsRequest) -> Result<VersionsPage, RequestError> {
        let spec = RequestSpec::read("ListObjectVersions", &request.bucket);
        let list = async |service: &dyn BucketService| service.list_versions(request).await;
        let mut page = self.call_service(spec, &list).await?;
        page.versions.retain(|version| version.object.key.starts_with(&request.prefix));
        Ok(page)
    }

    /// Makes a request about buckets or versions, again while the class of its error allows.
    ///
    /// # Errors
    /// Errors of the request. Class [`ErrorClass::Capability`] where the store offers objects only.
    pub async fn call_service<T>(
        &self,
        spec: RequestSpec<'_>,
        request: &impl AsyncFn(&dyn BucketService) -> Result<T, StoreError>,
    ) -> Result<T, RequestError> {
        let store = self.connection().store.clone();
        let Some(service) = store.bucket_service() else {
            return Err(StoreError::new(spec.operation, spec.bucket, None, "NotImplemented", None).into());
        };
        self.call(spec, &RetryContext::default(), async |_| request(service).await).await
    }

    /// A listing by pages, one after another, in the service's order.
    pub fn pages(&self, request: ListRequest) -> Pages {
        Pages::new(self.clone().within(&request.prefix), request)
    }
}
