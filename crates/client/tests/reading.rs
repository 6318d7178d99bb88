//! A pinned read returns bytes of the pinned version or an error; listings by pages are complete or fail.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use seqferry_client::{Budget, BudgetLimits};
use seqferry_client::{Endpoint, KeyLookup, RequestError, RequestMetrics, RetryPolicy, RetryingClient};
use seqferry_store::error::classify::code;
use seqferry_store::prelude::*;
use seqferry_store::{Attributes, ErrorClass, ListRequest, ObjectRef, PinnedObject, Range};
use seqferry_store_testing::fault::{Fault, FaultStore, Rule};
use seqferry_store_testing::{MemoryStore, ObjectWriteExt as _};
use tokio_util::sync::CancellationToken;

const BUCKET: &str = "b";

struct ReadFixture {
    memory: Arc<MemoryStore>,
    store: Arc<FaultStore>,
    budget: Arc<Budget>,
    metrics: Arc<RequestMetrics>,
    cancel: CancellationToken,
    client: RetryingClient,
}

fn fixture() -> ReadFixture {
    let memory = Arc::new(MemoryStore::default().with_page_size(2));
    memory.create_bucket(BUCKET);
    let store = Arc::new(FaultStore::new(Arc::clone(&memory) as Arc<dyn ObjectStore>));
    let connection = Endpoint::new(Arc::clone(&store) as Arc<dyn ObjectStore>);
    let (budget, cancel) = (Budget::new(BudgetLimits::default()), CancellationToken::new());
    let metrics = Arc::new(RequestMetrics::default());
    let moment = Duration::from_millis(1);
    let policy =
        RetryPolicy { base: moment, throttled_base: moment, most: Duration::from_millis(4), ..RetryPolicy::default() };
    let client = RetryingClient::new(connection, Arc::clone(&budget), policy, cancel.clone(), Arc::clone(&metrics));
    ReadFixture { memory, store, budget, metrics, cancel, client }
}

impl ReadFixture {
    async fn put(&self, key: &str, bytes: &'static [u8]) {
        self.memory.put(BUCKET, key, Bytes::from_static(bytes), &Attributes::default()).await.unwrap();
    }

    async fn pinned(&self, key: &str) -> PinnedObject {
        PinnedObject::of(BUCKET, key, &self.client.head(ObjectRef::new(BUCKET, key)).await.unwrap())
    }
}

fn failure(error: RequestError) -> seqferry_store::StoreError {
    match error {
        RequestError::Failed(error) => error,
        RequestError::Cancelled => panic!("the request was not cancelled"),
    }
}

const MIDDLE: Range = Range { first: 2, last: 5 };

#[tokio::test]
async fn a_range_is_read_exactly_and_read_again_where_its_body_breaks() {
    let fixture = fixture();
    let bytes: Vec<u8> = (0..=250).cycle().take(300_000).collect();
    fixture.memory.put(BUCKET, "k", bytes.clone().into(), &Attributes::default()).await.unwrap();
    let object = fixture.pinned("k").await;
    fixture.store.rule(Rule::once("GetObject", Fault::Truncate));

    let read = fixture.client.read_range(&object, Range { first: 2, last: 250_001 }).await.unwrap();

    assert_eq!((read.bytes.len(), read.meta.size), (250_000, 300_000));
    assert!(read.bytes[..] == bytes[2..250_002]);
    assert_eq!(fixture.metrics.retries(), 1);
    assert_eq!(fixture.budget.stats().in_flight, 0, "a request permit leaked");
}

#[tokio::test]
async fn an_object_that_was_overwritten_is_not_read() {
    let fixture = fixture();
    fixture.put("k", b"0123456789").await;
    let object = fixture.pinned("k").await;
    fixture.put("k", b"9876543210").await;

    let error = failure(fixture.client.read_range(&object, MIDDLE).await.unwrap_err());

    assert_eq!(error.class, ErrorClass::Precondition);
    assert_eq!(fixture.metrics.retries(), 0, "no retry can help");
}

#[tokio::test]
async fn a_service_that_ignores_ranges_is_remembered_and_named() {
    let fixture = fixture();
    fixture.put("k", b"0123456789").await;
    let object = fixture.pinned("k").await;
    fixture.store.rule(Rule::always("GetObject", Fault::Fail(code::RANGE_IGNORED, 200)));

    let error = failure(fixture.client.read_range(&object, MIDDLE).await.unwrap_err());

    assert_eq!(error.code, code::RANGE_IGNORED);
    assert!(fixture.client.quirks().ignores_ranges());
    assert_eq!(fixture.metrics.notes().len(), 1);
}

#[tokio::test]
async fn a_cancelled_client_makes_no_request() {
    let fixture = fixture();
    fixture.put("k", b"0123456789").await;
    let object = fixture.pinned("k").await;
    fixture.cancel.cancel();

    let error = fixture.client.read_range(&object, MIDDLE).await.unwrap_err();

    assert!(matches!(error, RequestError::Cancelled));
    assert_eq!(fixture.store.count("GetObject"), 0);
}

#[tokio::test]
async fn a_bucket_that_refuses_the_credentials_is_asked_again_with_fresh_ones() {
    let fixture = fixture();
    fixture.store.rule(Rule::once("HeadBucket", Fault::Fail("InvalidAccessKeyId", 403)));

    fixture.client.check_bucket(BUCKET).await.unwrap();

    assert_eq!(fixture.store.count("HeadBucket"), 2);
}

#[tokio::test]
async fn keys_are_looked_up_in_their_order_and_absence_is_no_failure() {
    let fixture = fixture();
    fixture.put("a", b"1").await;
    fixture.put("c", b"333").await;

    let keys = ["a", "b", "c"].map(str::to_owned).to_vec();
    let found = fixture.client.look_up(BUCKET, keys.clone()).await.unwrap();

    assert_eq!(found.iter().map(|(key, _)| key.clone()).collect::<Vec<_>>(), keys);
    assert!(matches!(&found[0].1, KeyLookup::Object(meta) if meta.size == 1));
    assert!(matches!(&found[1].1, KeyLookup::Absent));
    assert!(matches!(&found[2].1, KeyLookup::Object(meta) if meta.size == 3));
    fixture.store.rule(Rule::always("HeadObject", Fault::Fail("AccessDenied", 403)));
    assert_eq!(failure(fixture.client.look_up(BUCKET, keys).await.unwrap_err()).code, "AccessDenied");
}

#[tokio::test]
async fn a_key_that_cannot_be_looked_up_keeps_no_other_from_it() {
    let fixture = fixture();
    fixture.put("a", b"1").await;
    fixture.put("b", b"22").await;
    fixture.store.rule(Rule::once("HeadObject", Fault::Fail("AccessDenied", 403)).key("b"));

    let keys = ["a", "b", "c"].map(str::to_owned).to_vec();
    let found = fixture.client.look_up_each(BUCKET, keys).await.unwrap();

    assert!(matches!(&found[0].1, Ok(KeyLookup::Object(meta)) if meta.size == 1));
    assert!(matches!(&found[1].1, Err(error) if error.code == "AccessDenied"));
    assert!(matches!(&found[2].1, Ok(KeyLookup::Absent)));
}

#[tokio::test]
async fn pages_show_the_folders_of_one_level_or_every_key() {
    let fixture = fixture();
    for key in ["r1/a", "r1/b", "r1/deep/c", "r2/a", "top", "other/x"] {
        fixture.put(key, b"x").await;
    }
    let listed = async |prefix: &str, delimiter: Option<&str>| {
        let (prefix, delimiter) = (prefix.to_owned(), delimiter.map(str::to_owned));
        let request = ListRequest { bucket: BUCKET.into(), prefix, delimiter, ..ListRequest::default() };
        let (mut pages, mut keys, mut folders) = (fixture.client.pages(request), Vec::new(), Vec::new());
        while let Some(page) = pages.next().await.unwrap() {
            keys.extend(page.objects.into_iter().map(|object| object.key));
            folders.extend(page.common_prefixes);
        }
        assert!(pages.next().await.unwrap().is_none(), "it ends once and for all");
        (keys, folders)
    };

    assert_eq!(listed("r1/", Some("/")).await, (vec!["r1/a".into(), "r1/b".into()], vec!["r1/deep/".to_owned()]));
    assert_eq!(listed("", Some("/")).await.1, ["other/", "r1/", "r2/"]);
    assert_eq!(listed("r1/", None).await.0, ["r1/a", "r1/b", "r1/deep/c"]);
}

#[tokio::test]
async fn a_page_that_failed_can_be_asked_for_again() {
    let fixture = fixture();
    for key in ["a", "b", "c"] {
        fixture.put(key, b"x").await;
    }
    let mut pages = fixture.client.pages(ListRequest { bucket: BUCKET.into(), ..ListRequest::default() });
    assert_eq!(pages.next().await.unwrap().unwrap().objects.len(), 2);
    fixture.store.rule(Rule::once("ListObjectsV2", Fault::Fail("AccessDenied", 403)));

    assert_eq!(failure(pages.next().await.unwrap_err()).code, "AccessDenied");

    let rest = pages.next().await.unwrap().unwrap();
    assert_eq!(rest.objects[0].key, "c");
    assert!(pages.next().await.unwrap().is_none());
}
