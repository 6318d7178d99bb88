//! Listing in parallel is complete, whatever the order of the service; where it is sorted, every key comes once.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use proptest::prelude::*;
use seqferry_client::list::{ListingScope, list};
use seqferry_client::{Budget, BudgetLimits};
use seqferry_client::{Endpoint, RequestError, RequestMetrics, RetryPolicy, RetryingClient};
use seqferry_store::prelude::*;
use seqferry_store::{Attributes, Credentials, EndpointOptions, ListRequest, VersionsRequest};
use seqferry_store_testing::fault::{Fault, FaultStore, Rule};
use seqferry_store_testing::{MemoryStore, ObjectWriteExt as _, connect};
use tokio_util::sync::CancellationToken;

const BUCKET: &str = "b";

/// Retries without noticeable pauses.
fn quick() -> RetryPolicy {
    let moment = Duration::from_millis(1);
    RetryPolicy { base: moment, throttled_base: moment, most: Duration::from_millis(4), ..RetryPolicy::default() }
}

async fn store(keys: impl IntoIterator<Item = String>, page: usize, order: fn(&str) -> String) -> Arc<FaultStore> {
    let memory = MemoryStore::default().with_page_size(page).with_list_order(order);
    memory.create_bucket(BUCKET);
    for key in keys {
        memory.put(BUCKET, &key, Bytes::new(), &Attributes::default()).await.unwrap();
    }
    Arc::new(FaultStore::new(Arc::new(memory)))
}

async fn listed(
    store: &Arc<FaultStore>,
    prefix: &str,
    parallel: usize,
    limit: Option<usize>,
) -> Result<Vec<String>, String> {
    let connection = Endpoint::new(Arc::clone(store) as Arc<dyn ObjectStore>);
    let budget = Budget::new(BudgetLimits::default());
    let requests =
        RetryingClient::new(connection, budget, quick(), CancellationToken::new(), Arc::new(RequestMetrics::default()));
    let mut pages = list(
        requests,
        ListingScope { bucket: BUCKET.into(), prefix: prefix.into(), parallel, limit, transfer: String::new() },
    );
    let mut keys = Vec::new();
    while let Some(page) = pages.recv().await {
        match page {
            Ok(objects) => keys.extend(objects.into_iter().map(|object| object.key)),
            Err(RequestError::Failed(error)) => return Err(error.code),
            Err(RequestError::Cancelled) => return Err("cancelled".into()),
        }
    }
    Ok(keys)
}

fn sorted(key: &str) -> String {
    key.to_owned()
}

/// Directory-walk order: `a/1` comes before `a-1`.
fn walked(key: &str) -> String {
    key.replace('/', "\u{0}")
}

/// An arbitrary order, neither sorted nor reversed.
fn scrambled(key: &str) -> String {
    format!(
        "{:016x}",
        key.bytes().fold(14_695_981_039_346_656_037_u64, |hash, byte| (hash ^ u64::from(byte))
            .wrapping_mul(1_099_511_628_211))
    )
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

fn key() -> impl Strategy<Value = String> {
    prop_oneof!["[ab/_-]{0,4}[0-9]{1,3}", "run/s[0-9]{2}/[rR][12](\\.fq)?", "[a-c]/[a-c]/[a-c]/x[0-9]", "\\PC{1,6}",]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn every_key_is_listed_whatever_the_order(
        keys in proptest::collection::btree_set(key(), 0..120),
        page in 1..20_usize,
        parallel in 1..9_usize,
        prefix in prop_oneof![Just(""), Just("a"), Just("run/"), Just("a/b")],
    ) {
        let expected: BTreeSet<String> = keys.iter().filter(|key| key.starts_with(prefix)).cloned().collect();
        for order in [sorted, walked, scrambled] {
            let found = runtime().block_on(async { listed(&store(keys.clone(), page, order).await, prefix, parallel, None).await.unwrap() });
            let set: BTreeSet<String> = found.iter().cloned().collect();
            prop_assert_eq!(&set, &expected);
        }
    }

    #[test]
    fn a_sorted_service_lists_every_key_once(
        keys in proptest::collection::btree_set(key(), 0..200),
        page in 1..20_usize,
        parallel in 1..9_usize,
    ) {
        let found = runtime().block_on(async { listed(&store(keys.clone(), page, sorted).await, "", parallel, None).await.unwrap() });
        prop_assert_eq!(found.len(), keys.len());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_pages_are_fetched_side_by_side() {
    for (name, keys) in [
        ("folders", (0..3000).map(|n| format!("run/s{:03}/f{n:05}", n / 10)).collect::<Vec<_>>()),
        ("flat", (0..3000).map(|n| format!("run/f{n:05}")).collect()),
    ] {
        let store = store(keys.clone(), 50, sorted).await;
        store.rule(Rule::always("ListObjectsV2", Fault::Delay(std::time::Duration::from_millis(5))));

        let alone = std::time::Instant::now();
        assert_eq!(listed(&store, "", 1, None).await.unwrap().len(), 3000);
        let alone = alone.elapsed();
        let pages = store.count("ListObjectsV2");
        let together = std::time::Instant::now();
        assert_eq!(listed(&store, "", 8, None).await.unwrap().len(), 3000, "{name}");
        let (together, more) = (together.elapsed(), store.count("ListObjectsV2") - pages);

        println!("{name}: {pages} pages in {alone:?} alone, {more} in {together:?} together");
        assert!(more < pages * 2, "{name}: {more} requests instead of {pages}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_limit_stops_early_and_an_empty_prefix_ends_at_once() {
    let store = store((0..1000).map(|n| format!("k{n:04}")), 10, sorted).await;

    assert!(listed(&store, "", 8, Some(1)).await.unwrap().len() <= 20);
    assert!(store.count("ListObjectsV2") <= 2);
    assert!(listed(&store, "nothing", 8, None).await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listing_that_fails_says_so_and_is_not_taken_for_complete() {
    let store = store((0..1000).map(|n| format!("k{n:04}")), 10, sorted).await;
    store.rule(Rule::always("ListObjectsV2", Fault::Fail("AccessDenied", 403)).after(20));

    assert_eq!(listed(&store, "", 8, None).await, Err("AccessDenied".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn passing_failures_of_a_listing_are_retried() {
    let store = store((0..500).map(|n| format!("k{n:04}")), 10, sorted).await;
    store.inject_randomly(7, 0.3, vec![Fault::Fail("SlowDown", 503), Fault::Fail("InternalError", 500)]);

    assert_eq!(listed(&store, "", 8, None).await.unwrap().len(), 500);
}

/// A client of a service that answers each request with this document.
async fn client_of_answer(document: &str) -> RetryingClient {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let answer =
        format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{document}", document.len());
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = BufReader::new(connection.unwrap());
            let mut line = String::new();
            while connection.read_line(&mut line).unwrap() > 2 {
                line.clear();
            }
            connection.get_mut().write_all(answer.as_bytes()).unwrap();
        }
    });
    client_at(url).await
}

/// A client of the service at this address.
async fn client_at(url: String) -> RetryingClient {
    let key = "unused".to_owned();
    let store = connect(EndpointOptions {
        endpoint_url: Some(url),
        region: Some("us-east-1".to_owned()),
        credentials: Some(Credentials { access_key: key.clone(), secret_key: key }),
        ..EndpointOptions::default()
    });
    let endpoint = Endpoint::new(Arc::new(store.await));
    let (budget, metrics) = (Budget::new(BudgetLimits::default()), Arc::default());
    RetryingClient::new(endpoint, budget, quick(), CancellationToken::new(), metrics)
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_a_service_has_normalised_are_in_no_listing() {
    let client = client_of_answer(
        "<ListBucketResult><IsTruncated>false</IsTruncated>\
         <Contents><Key>p/a</Key><Size>1</Size><LastModified>2026-01-01T00:00:00Z</LastModified></Contents>\
         <Contents><Key>p//b</Key><Size>1</Size><LastModified>2026-01-01T00:00:00Z</LastModified></Contents>\
         <CommonPrefixes><Prefix>p/c/</Prefix></CommonPrefixes><CommonPrefixes><Prefix>p//d/</Prefix></CommonPrefixes>\
         </ListBucketResult>",
    )
    .await;
    let delimiter = Some("/".to_owned());
    let request = ListRequest { bucket: BUCKET.into(), prefix: "p//".into(), delimiter, ..ListRequest::default() };

    let page = client.list_page(&request).await.unwrap();
    let mut pages = client.pages(request);
    let next = pages.next().await.unwrap().unwrap();
    for page in [page, next] {
        let keys: Vec<_> = page.objects.iter().map(|object| object.key.as_str()).collect();
        assert_eq!((keys, page.common_prefixes), (vec!["p//b"], vec!["p//d/".to_owned()]));
    }
    let client = client_of_answer(
        "<ListBucketResult><IsTruncated>false</IsTruncated>\
         <Contents><Key>p/a</Key><Size>1</Size><LastModified>2026-01-01T00:00:00Z</LastModified></Contents>\
         <Contents><Key>p//b</Key><Size>1</Size><LastModified>2026-01-01T00:00:00Z</LastModified></Contents>\
         </ListBucketResult>",
    )
    .await;
    let mut listing = list(client, ListingScope::new(BUCKET, "p//"));
    let keys: Vec<_> = listing.recv().await.unwrap().unwrap().into_iter().map(|object| object.key).collect();
    assert_eq!(keys, ["p//b"]);
    assert!(listing.recv().await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_a_service_has_normalised_are_in_no_page_of_versions() {
    let client = client_of_answer(
        "<ListVersionsResult><IsTruncated>false</IsTruncated><Version><Key>p/a</Key><Size>1</Size></Version>\
         <Version><Key>p//b</Key><Size>1</Size></Version>\
         <DeleteMarker><Key>p/c</Key></DeleteMarker><DeleteMarker><Key>p//d</Key></DeleteMarker></ListVersionsResult>",
    )
    .await;

    let request = VersionsRequest { bucket: BUCKET.into(), prefix: "p//".into(), after: None };
    let page = client.versions_page(&request).await.unwrap();

    let keys: Vec<_> = page.versions.iter().map(|version| version.object.key.as_str()).collect();
    assert_eq!(keys, ["p//b", "p//d"]);
}

#[tokio::test]
async fn a_store_without_versions_says_so() {
    let store: Arc<dyn ObjectStore> = Arc::new(MemoryStore::default());
    let (budget, metrics) = (Budget::new(BudgetLimits::default()), Arc::default());
    let client = RetryingClient::new(Endpoint::new(store), budget, quick(), CancellationToken::new(), metrics);

    let request = VersionsRequest { bucket: BUCKET.into(), ..VersionsRequest::default() };
    let Err(RequestError::Failed(error)) = client.versions_page(&request).await else { panic!("a page of nothing") };

    assert_eq!(error.to_string(), "ListObjectVersions s3://b: NotImplemented");
}

/// A service that ignores tokens: a page in turn of each of these keys, each with a token that was not seen before.
async fn client_of_circle(length: usize) -> RetryingClient {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for (n, connection) in listener.incoming().enumerate() {
            let mut connection = BufReader::new(connection.unwrap());
            let mut line = String::new();
            while connection.read_line(&mut line).unwrap() > 2 {
                line.clear();
            }
            let document = format!(
                "<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>t{n}</NextContinuationToken>\
                 <Contents><Key>k{}</Key><Size>1</Size><LastModified>2026-01-01T00:00:00Z</LastModified></Contents>\
                 </ListBucketResult>",
                n % length
            );
            let head = format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", document.len());
            connection.get_mut().write_all((head + &document).as_bytes()).unwrap();
        }
    });
    client_at(url).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listing_that_goes_round_in_circles_ends() {
    for length in [1, 3, 10] {
        let mut pages =
            client_of_circle(length).await.pages(ListRequest { bucket: BUCKET.into(), ..ListRequest::default() });
        let error = loop {
            match pages.next().await {
                Ok(page) => assert!(page.is_some(), "taken for complete"),
                Err(RequestError::Failed(error)) => break error,
                Err(RequestError::Cancelled) => panic!("cancelled"),
            }
        };
        assert_eq!(error.code, "ContradictoryListing", "{error}");

        let sequential = ListingScope { parallel: 1, ..ListingScope::new(BUCKET, "") };
        let mut listing = list(client_of_circle(length).await, sequential);
        let end = loop {
            match listing.recv().await {
                Some(Ok(_)) => {}
                other => break other,
            }
        };
        assert!(matches!(end, Some(Err(RequestError::Failed(error))) if error.code == "ContradictoryListing"));
    }
}
