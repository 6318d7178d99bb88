//! New objects under keys that were removed are written where a service counts their delete markers as objects, and
//! nothing that is there is replaced.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use seqferry_client::upload::{Completion, PartBody, RecordedUpload, UploadJournal, UploadSession};
use seqferry_client::{Budget, BudgetLimits, Endpoint, RequestError, RequestMetrics, RetryContext, RetryPolicy};
use seqferry_client::{Quirks, RetryingClient};
use seqferry_store::prelude::*;
use seqferry_store::{
    AbortRule, Attributes, BucketInfo, BucketService, Bytes, CompleteUpload, CompletedPart, Digests, ErrorClass,
    ListedObject, ListedVersion, ObjectRef, PinnedObject, PutObject, Removal, RemovedObject, StoreError, VersionsPage,
    VersionsRequest, WrittenObject, async_trait,
};
use seqferry_store_testing::fault::{Fault, FaultStore, Hook, Rule};
use seqferry_store_testing::{MemoryStore, ObjectWriteExt as _};
use tokio_util::sync::CancellationToken;

const BUCKET: &str = "b";
const KEY: &str = "run/k";
const PART: u64 = 4;
const THEIRS: Bytes = Bytes::from_static(b"theirs");

/// A bucket with versions, of a service that counts delete markers as objects, if it is to.
#[derive(Debug)]
struct MarkerStore {
    store: MemoryStore,
    counts_markers: bool,
    /// True where versions may not be listed.
    hides_versions: bool,
    /// True while the latest version of [`KEY`] is a delete marker.
    is_removed: Mutex<bool>,
    listings: Mutex<u32>,
}

impl MarkerStore {
    fn new(is_removed: bool) -> Self {
        Self::over(MemoryStore::new(PART), is_removed)
    }

    fn over(store: MemoryStore, is_removed: bool) -> Self {
        store.create_bucket(BUCKET);
        let (is_removed, listings) = (Mutex::new(is_removed), Mutex::new(0));
        Self { store, counts_markers: true, hides_versions: false, is_removed, listings }
    }

    fn remove(&self) {
        *self.is_removed.lock().unwrap() = true;
    }

    fn check(&self, operation: &'static str, key: &str, if_absent: bool) -> Result<(), StoreError> {
        if self.counts_markers && if_absent && key == KEY && *self.is_removed.lock().unwrap() {
            return Err(StoreError::new(operation, BUCKET, Some(key), "PreconditionFailed", Some(412)));
        }
        Ok(())
    }

    fn wrote(&self, key: &str) {
        if key == KEY {
            *self.is_removed.lock().unwrap() = false;
        }
    }

    async fn body(&self) -> Option<Vec<u8>> {
        let meta = self.store.head(ObjectRef::new(BUCKET, KEY), None).await.ok()?;
        let mut body = self.store.get(&PinnedObject::of(BUCKET, KEY, &meta), None).await.unwrap();
        Some(body.take(1000, |_| ()).await.unwrap().to_vec())
    }
}

seqferry_store::forward_object_read!(
    MarkerStore,
    store,
    [head_bucket, list, head, fetch, get_tags, bucket_encryption, restore, invalidate]
);

seqferry_store::forward_object_write! {
    MarkerStore, store, [delete, delete_if, put_tags, copy]

    async fn put_object(&self, object: &PutObject, body: Bytes) -> Result<WrittenObject, StoreError> {
        self.check("PutObject", &object.key, object.if_absent)?;
        let written = self.store.put_object(object, body).await?;
        self.wrote(&object.key);
        Ok(written)
    }
}

seqferry_store::forward_multipart_upload! {
    MarkerStore, store, [create_upload, copy_part, put_part, stream_part, list_parts, abort_upload, list_uploads]

    async fn complete_upload(&self, upload: &CompleteUpload) -> Result<WrittenObject, StoreError> {
        self.check("CompleteMultipartUpload", &upload.key, upload.if_absent)?;
        let written = self.store.complete_upload(upload).await?;
        self.wrote(&upload.key);
        Ok(written)
    }
}

fn version(key: &str, is_latest: bool, is_delete_marker: bool) -> ListedVersion {
    let object = ListedObject {
        key: key.to_owned(),
        size: 0,
        etag: String::new(),
        last_modified: 0.0,
        storage_class: None,
        refusal: None,
    };
    ListedVersion { object, version_id: "v".to_owned(), is_latest, is_delete_marker }
}

#[async_trait]
impl BucketService for MarkerStore {
    async fn list_buckets(&self) -> Result<Vec<BucketInfo>, StoreError> {
        unimplemented!()
    }

    async fn create_bucket(&self, _: &str) -> Result<(), StoreError> {
        unimplemented!()
    }

    async fn delete_bucket(&self, _: &str) -> Result<(), StoreError> {
        unimplemented!()
    }

    async fn abort_rules(&self, _: &str) -> Result<Vec<AbortRule>, StoreError> {
        unimplemented!()
    }

    async fn list_versions(&self, request: &VersionsRequest) -> Result<VersionsPage, StoreError> {
        *self.listings.lock().unwrap() += 1;
        if self.hides_versions {
            return Err(StoreError::new("ListObjectVersions", BUCKET, None, "AccessDenied", Some(403)));
        }
        assert_eq!(request.prefix, KEY);
        let is_removed = *self.is_removed.lock().unwrap();
        // An older marker of the key, and the marker of another key, show nothing of the key.
        let versions = vec![version(KEY, true, is_removed), version(KEY, false, true), version("run/k2", true, true)];
        Ok(VersionsPage { versions, next: None })
    }

    async fn delete_many(
        &self,
        _: &str,
        _: &[Removal],
    ) -> Result<Vec<Option<Result<RemovedObject, StoreError>>>, StoreError> {
        unimplemented!()
    }

    async fn presign(&self, _: ObjectRef<'_>, _: bool, _: u64) -> Result<String, StoreError> {
        unimplemented!()
    }
}

seqferry_store::forward_object_store!(MarkerStore, store, |layer| Some(layer as &dyn BucketService));

struct Fixture {
    markers: Arc<MarkerStore>,
    faults: Arc<FaultStore>,
    client: RetryingClient,
}

impl Fixture {
    fn of(markers: MarkerStore) -> Self {
        let markers = Arc::new(markers);
        let faults = Arc::new(FaultStore::new(Arc::clone(&markers) as Arc<dyn ObjectStore>));
        let endpoint = Endpoint::new(Arc::clone(&faults) as Arc<dyn ObjectStore>);
        let moment = Duration::from_millis(1);
        let policy = RetryPolicy { base: moment, throttled_base: moment, most: moment, ..RetryPolicy::default() };
        let budget = Budget::new(BudgetLimits::default());
        let metrics = Arc::new(RequestMetrics::default());
        let client = RetryingClient::new(endpoint, budget, policy, CancellationToken::new(), metrics);
        Self { markers, faults, client }
    }

    fn removed() -> Self {
        Self::of(MarkerStore::new(true))
    }

    /// A service that shows a folder under the name of the key.
    async fn folder() -> Self {
        let fixture = Self::of(MarkerStore::over(MemoryStore::new(PART).with_implied_folders(), false));
        fixture.markers.put(BUCKET, &format!("{KEY}/below"), THEIRS, &Attributes::default()).await.unwrap();
        fixture
    }

    fn quirks(&self) -> &Quirks {
        self.client.quirks()
    }

    fn listings(&self) -> u32 {
        *self.markers.listings.lock().unwrap()
    }

    async fn put(&self, bytes: &'static [u8]) -> Result<WrittenObject, RequestError> {
        let object = PutObject {
            bucket: BUCKET.to_owned(),
            key: KEY.to_owned(),
            digests: Digests::crc64nvme(bytes),
            if_absent: true,
            ..PutObject::default()
        };
        self.client.put_object(&object, &Bytes::from_static(bytes), &RetryContext::default()).await
    }
}

fn class(answer: Result<WrittenObject, RequestError>) -> ErrorClass {
    match answer {
        Err(RequestError::Failed(error)) => error.class,
        other => panic!("not refused: {other:?}"),
    }
}

struct NoJournal;

impl UploadJournal for NoJournal {
    async fn record(&self, _: &RecordedUpload) -> Result<(), RequestError> {
        Ok(())
    }
}

#[tokio::test]
async fn an_object_is_written_under_a_key_that_was_removed_and_the_service_is_known_from_then_on() {
    let fixture = Fixture::removed();

    fixture.put(b"one").await.unwrap();

    assert_eq!(fixture.markers.body().await.unwrap(), b"one");
    assert_eq!(fixture.faults.count("PutObject"), 3, "two refusals before the service is known");
    assert!(fixture.quirks().counts_delete_markers());
    fixture.markers.store.delete(ObjectRef::new(BUCKET, KEY)).await.unwrap();
    fixture.markers.remove();

    fixture.put(b"two").await.unwrap();

    assert_eq!(fixture.markers.body().await.unwrap(), b"two");
    assert_eq!((fixture.faults.count("PutObject"), fixture.listings()), (5, 3));
}

#[tokio::test]
async fn an_upload_in_parts_is_completed_under_a_key_that_was_removed() {
    let fixture = Fixture::removed();
    let context = Arc::new(RetryContext::default());
    let mut session = UploadSession::new(fixture.client.clone(), BUCKET, KEY, 0.0, context);
    session.begin(&session.request(), &NoJournal).await.unwrap();
    let body = PartBody { bytes: Bytes::from_static(b"part"), digests: Digests::crc64nvme(b"part"), memory: None };
    let part = session.put_part(1, body).await.unwrap();
    let parts = vec![CompletedPart { number: 1, etag: part.etag, checksum: part.checksum }];

    let completed =
        session.complete(CompleteUpload { parts, size: 4, if_absent: true, ..CompleteUpload::default() }).await;

    assert!(matches!(completed, Ok(Completion::Object(_))), "{completed:?}");
    assert_eq!(fixture.markers.body().await.unwrap(), b"part");
}

#[tokio::test]
async fn nothing_that_is_there_is_replaced_also_where_the_service_is_known() {
    for is_known in [false, true] {
        let fixture = Fixture::of(MarkerStore::new(false));
        if is_known {
            fixture.quirks().learn_counted_delete_markers();
        }
        fixture.markers.put(BUCKET, KEY, THEIRS, &Attributes::default()).await.unwrap();

        assert_eq!(class(fixture.put(b"ours").await), ErrorClass::Precondition);

        assert_eq!(fixture.markers.body().await.unwrap(), b"theirs");
        assert_eq!(fixture.faults.count("PutObject"), 1);
    }
}

#[tokio::test]
async fn an_object_that_comes_between_two_refusals_stays() {
    let fixture = Fixture::removed();
    let markers = Arc::clone(&fixture.markers);
    let hook = Hook(Arc::new(move || {
        let markers = Arc::clone(&markers);
        Box::pin(async move { markers.put(BUCKET, KEY, THEIRS, &Attributes::default()).await.map(drop).unwrap() })
    }));
    fixture.faults.rule(Rule::once("PutObject", Fault::Hook(hook)).after(1));

    assert_eq!(class(fixture.put(b"ours").await), ErrorClass::Precondition);

    assert_eq!(fixture.markers.body().await.unwrap(), b"theirs");
    assert!(!fixture.quirks().counts_delete_markers());
}

#[tokio::test]
async fn a_service_whose_object_was_removed_after_a_refusal_keeps_the_condition() {
    let fixture = Fixture::of(MarkerStore { counts_markers: false, ..MarkerStore::new(true) });
    fixture.faults.rule(Rule::once("PutObject", Fault::Fail("PreconditionFailed", 412)));

    fixture.put(b"ours").await.unwrap();

    assert_eq!(fixture.markers.body().await.unwrap(), b"ours");
    assert_eq!(fixture.faults.count("PutObject"), 2);
    assert!(!fixture.quirks().counts_delete_markers());
}

#[tokio::test]
async fn a_refusal_stays_where_versions_cannot_be_listed() {
    let fixture = Fixture::of(MarkerStore { hides_versions: true, ..MarkerStore::new(true) });

    assert_eq!(class(fixture.put(b"ours").await), ErrorClass::Precondition);

    assert_eq!(fixture.markers.body().await, None);
    assert_eq!((fixture.faults.count("PutObject"), fixture.listings()), (1, 1));
}

#[tokio::test]
async fn an_object_is_written_under_a_key_that_the_service_shows_as_a_folder() {
    let fixture = Fixture::folder().await;

    fixture.put(b"ours").await.unwrap();

    assert_eq!(fixture.markers.body().await.unwrap(), b"ours");
    assert_eq!(fixture.faults.count("PutObject"), 3, "two refusals first");
    assert_eq!(class(fixture.put(b"again").await), ErrorClass::Precondition);
    assert_eq!(fixture.markers.body().await.unwrap(), b"ours");
}

#[tokio::test]
async fn an_object_that_comes_beside_a_folder_between_two_refusals_stays() {
    let fixture = Fixture::folder().await;
    let markers = Arc::clone(&fixture.markers);
    let hook = Hook(Arc::new(move || {
        let markers = Arc::clone(&markers);
        Box::pin(async move { markers.put(BUCKET, KEY, THEIRS, &Attributes::default()).await.map(drop).unwrap() })
    }));
    fixture.faults.rule(Rule::once("PutObject", Fault::Hook(hook)).after(1));

    assert_eq!(class(fixture.put(b"ours").await), ErrorClass::Precondition);

    assert_eq!(fixture.markers.body().await.unwrap(), b"theirs");
}
