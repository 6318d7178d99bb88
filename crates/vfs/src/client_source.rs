//! The source that asks S3: every request through the retrying client, within the one budget of the process.

use async_trait::async_trait;
use seqferry_client::reading::fetch_pinned;
use seqferry_client::{RequestError, RequestSpec, RetryContext, RetryingClient};
use seqferry_store::{ErrorClass, ListPage, ListRequest, ObjectMeta, ObjectRef, PinnedObject, Range, StoreError};

use crate::source::{RangeBody, Source, Urgency};
use crate::version::{ObjectVersion, VersionPin};

/// Objects of one endpoint as one identity.
#[derive(Debug)]
pub struct ClientSource {
    /// Asks for what a program waits for.
    demand: RetryingClient,
    /// Sends read-ahead requests.
    ahead: RetryingClient,
    endpoint: String,
}

impl ClientSource {
    /// A source that asks through `demand` for what a program waits for, and through `ahead` for the rest. `endpoint`
    /// names the endpoint in caches and inodes: its URL, or a name for AWS.
    pub fn new(demand: RetryingClient, ahead: RetryingClient, endpoint: String) -> Self {
        Self { demand, ahead, endpoint }
    }

    fn client(&self, priority: Urgency) -> &RetryingClient {
        match priority {
            Urgency::Demand => &self.demand,
            Urgency::ReadAhead => &self.ahead,
        }
    }
}

fn failed(error: RequestError, operation: &'static str, bucket: &str) -> StoreError {
    match error {
        RequestError::Failed(error) => error,
        RequestError::Cancelled => StoreError::new(operation, bucket, None, "Cancelled", None),
    }
}

#[async_trait]
impl Source for ClientSource {
    fn endpoint(&self) -> &str {
        &self.endpoint
    }

    fn max_bandwidth(&self) -> Option<u64> {
        self.demand.budget().stats().max_bandwidth
    }

    async fn list(&self, request: &ListRequest, priority: Urgency) -> Result<ListPage, StoreError> {
        self.client(priority).list_page(request).await.map_err(|error| failed(error, "ListObjectsV2", &request.bucket))
    }

    async fn head(&self, object: ObjectRef<'_>) -> Result<ObjectMeta, StoreError> {
        self.demand.head(object).await.map_err(|error| failed(error, "HeadObject", object.bucket))
    }

    async fn get(
        &self,
        version: &ObjectVersion,
        version_id: Option<&str>,
        range: Range,
        priority: Urgency,
    ) -> Result<RangeBody, StoreError> {
        let (id, etag) = match &version.pin {
            VersionPin::VersionId(id) => (Some(id.to_string()), None),
            // A listing of some services has none.
            VersionPin::Etag(etag) => (None, Some(etag.to_string()).filter(|etag| !etag.is_empty())),
        };
        let object = PinnedObject {
            bucket: version.bucket.to_string(),
            key: version.key.to_string(),
            version_id: id,
            if_match: etag,
            size: version.size,
        };
        match self.get_pinned(&object, range, priority).await {
            // The object was replaced or removed; the version is still there. Reading versions needs a permission of
            // its own.
            Err(error) if matches!(error.class, ErrorClass::Precondition | ErrorClass::NotFound) => match version_id {
                Some(id) if object.version_id.is_none() => {
                    let object = PinnedObject { version_id: Some(id.to_owned()), ..object };
                    self.get_pinned(&object, range, priority).await.map_err(|_| error)
                }
                _ => Err(error),
            },
            other => other,
        }
    }
}

impl ClientSource {
    async fn get_pinned(
        &self,
        object: &PinnedObject,
        range: Range,
        priority: Urgency,
    ) -> Result<RangeBody, StoreError> {
        let client = self.client(priority);
        let reserved = client.reserve_bandwidth(range.len()).await;
        reserved.map_err(|error| failed(error, "GetObject", &object.bucket))?;
        let spec = RequestSpec::read("GetObject", &object.bucket).bytes(range.len());
        // Retried until the answer begins. Where the body breaks, the reader requests the missing rest.
        let fetched = client
            .call(spec, &RetryContext::default(), async |store| fetch_pinned(&*store, object, Some(range)).await)
            .await;
        match fetched {
            Ok(fetched) => Ok(RangeBody { meta: fetched.meta, bytes: fetched.body.into_stream() }),
            Err(error) => {
                let error = failed(error, "GetObject", &object.bucket);
                Err(error)
            }
        }
    }
}
