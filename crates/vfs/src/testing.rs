//! A source over any object store, without retries, for tests.
//!
//! [`StoreSource`] counts requests and bytes and can hold requests back. Tests state how many requests an operation
//! costs, and what happens while one is in flight. The module is always compiled: behind a feature, this crate and
//! those above it would be compiled once for the wheel and again for the tests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use futures::StreamExt as _;
use seqferry_store::prelude::*;
use seqferry_store::{ListPage, ListRequest, ObjectMeta, ObjectRef, PinnedObject, Range, StoreError};
use tokio::sync::Semaphore;

use crate::source::{RangeBody, Source, Urgency};
use crate::version::{ObjectVersion, VersionPin};

/// Single requests to a store.
#[derive(Debug)]
pub struct StoreSource {
    store: Arc<dyn ObjectStore>,
    endpoint: String,
    /// Each request takes a permit and gives it back; none are left while requests are held back.
    open: Semaphore,
    /// Requests and bytes so far.
    pub counters: SourceCounters,
}

/// Requests and bytes that went through a source.
#[derive(Debug, Default)]
pub struct SourceCounters {
    /// Listing pages.
    pub lists: AtomicU64,
    /// HEAD requests.
    pub heads: AtomicU64,
    /// GET requests.
    pub gets: AtomicU64,
    /// Bytes requested by GET requests.
    pub bytes: AtomicU64,
}

impl SourceCounters {
    /// Lists, heads and gets so far.
    pub fn requests(&self) -> (u64, u64, u64) {
        let read = |counter: &AtomicU64| counter.load(Ordering::SeqCst);
        (read(&self.lists), read(&self.heads), read(&self.gets))
    }

    /// Bytes requested so far.
    pub fn bytes_fetched(&self) -> u64 {
        self.bytes.load(Ordering::SeqCst)
    }
}

/// Far above what a test has under way.
const OPEN: u32 = 10_000;

impl StoreSource {
    /// Requests to this store.
    pub fn new(store: Arc<dyn ObjectStore>) -> Self {
        let open = Semaphore::new(OPEN as usize);
        Self { store, endpoint: "memory".to_owned(), open, counters: SourceCounters::default() }
    }

    /// Requests to this store, shared.
    pub fn over<S: ObjectStore + 'static>(store: &Arc<S>) -> Arc<Self> {
        Arc::new(Self::new(Arc::clone(store) as Arc<dyn ObjectStore>))
    }

    /// Hold back every request from now on, as a network that is down, until the guard is dropped.
    ///
    /// # Panics
    /// Never: the semaphore is not closed.
    pub async fn hold(&self) -> impl Drop + Send {
        self.open.acquire_many(OPEN).await.expect("it is never closed")
    }

    async fn pass(&self, counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::SeqCst);
        drop(self.open.acquire().await);
    }
}

#[async_trait]
impl Source for StoreSource {
    fn endpoint(&self) -> &str {
        &self.endpoint
    }

    async fn list(&self, request: &ListRequest, _priority: Urgency) -> Result<ListPage, StoreError> {
        self.pass(&self.counters.lists).await;
        self.store.list(request).await
    }

    async fn head(&self, object: ObjectRef<'_>) -> Result<ObjectMeta, StoreError> {
        self.pass(&self.counters.heads).await;
        self.store.head(object, None).await
    }

    async fn get(
        &self,
        version: &ObjectVersion,
        version_id: Option<&str>,
        range: Range,
        _priority: Urgency,
    ) -> Result<RangeBody, StoreError> {
        self.counters.bytes.fetch_add(range.len(), Ordering::SeqCst);
        self.pass(&self.counters.gets).await;
        let (version_id, if_match) = match &version.pin {
            VersionPin::VersionId(id) => (Some(id.to_string()), None),
            VersionPin::Etag(etag) => (version_id.map(str::to_owned), Some(etag.to_string())),
        };
        let source = PinnedObject {
            bucket: version.bucket.to_string(),
            key: version.key.to_string(),
            version_id,
            if_match,
            size: version.size,
        };
        let fetched = self.store.fetch(&source, Some(range)).await?;
        Ok(RangeBody { meta: fetched.meta, bytes: fetched.body.into_stream().boxed() })
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use seqferry_store::{Attributes, ErrorClass};
    use seqferry_store_testing::{MemoryStore, ObjectWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn a_replaced_version_is_refused_and_requests_are_counted() {
        let store = MemoryStore::with_buckets(&["b"]);
        let source = StoreSource::over(&store);
        let written = store.put("b", "k", Bytes::from_static(b"0123456789"), &Attributes::default()).await.unwrap();
        let version = ObjectVersion {
            endpoint: source.endpoint().into(),
            bucket: "b".into(),
            key: "k".into(),
            pin: VersionPin::Etag(written.etag.into()),
            size: 10,
        };
        let range = Range { first: 2, last: 5 };
        let body = source.get(&version, None, range, Urgency::Demand).await.unwrap();
        assert_eq!(body.collect().await.unwrap(), "2345");

        store.put("b", "k", Bytes::from_static(b"9876543210"), &Attributes::default()).await.unwrap();
        let refused = source.get(&version, None, range, Urgency::Demand).await.err().unwrap();

        assert_eq!(refused.class, ErrorClass::Precondition);
        assert_eq!((source.counters.requests(), source.counters.bytes_fetched()), ((0, 0, 2), 8));
    }
}
