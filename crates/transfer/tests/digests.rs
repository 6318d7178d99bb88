//! Digests of contents: every kind over objects of every shape, in bounded memory, in the order that was requested.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use crate::common::{SOURCE, TransferFixture, bytes, quick};
use bytes::Bytes;
use seqferry_client::{Budget, BudgetLimits};
use seqferry_client::{Endpoint, RequestMetrics, RetryingClient};
use seqferry_store::checksum::{base64, hex};
use seqferry_store::prelude::*;
use seqferry_store::{
    Attributes, ChecksumAlgorithm, DigestAlgorithm, Digester, DiskOptions, DiskStore, ObjectRef, PinnedObject,
};
use seqferry_store_testing::fault::{Fault, Hook, Latch, Rule};
use seqferry_store_testing::{MemoryStore, ObjectWriteExt as _};
use seqferry_transfer::{ContentDigests, DigestRequest, ObjectDigest};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

const MIB: usize = 1 << 20;
const MD5: DigestAlgorithm = DigestAlgorithm::Md5;
const SHA256: DigestAlgorithm = DigestAlgorithm::Checksum(ChecksumAlgorithm::Sha256);
const CRC64NVME: DigestAlgorithm = DigestAlgorithm::Checksum(ChecksumAlgorithm::Crc64Nvme);

fn algorithms() -> impl Iterator<Item = DigestAlgorithm> {
    ChecksumAlgorithm::ALL.into_iter().map(DigestAlgorithm::Checksum).chain([MD5])
}

fn shown(algorithm: DigestAlgorithm, digest: &[u8]) -> String {
    if algorithm == MD5 { hex(digest) } else { base64(digest) }
}

/// The digest by its definition: over all bytes, or over the digests of parts.
fn defined(algorithm: DigestAlgorithm, content: &[u8], part_size: Option<usize>) -> String {
    let Some(part_size) = part_size else { return shown(algorithm, &Digester::of(algorithm, content)) };
    let parts: Vec<Vec<u8>> = if content.is_empty() {
        vec![Digester::of(algorithm, b"")]
    } else {
        content.chunks(part_size).map(|part| Digester::of(algorithm, part)).collect()
    };
    format!("{}-{}", shown(algorithm, &Digester::of(algorithm, &parts.concat())), parts.len())
}

fn started(connection: &Endpoint, budget: &Arc<Budget>, requests: Vec<DigestRequest>) -> ContentDigests {
    let metrics = Arc::new(RequestMetrics::default());
    let client =
        RetryingClient::new(connection.clone(), Arc::clone(budget), quick(), CancellationToken::new(), metrics);
    ContentDigests::start(&Handle::current(), client, requests)
}

/// All results.
async fn results(digests: ContentDigests) -> Vec<ObjectDigest> {
    tokio::task::spawn_blocking(move || {
        std::iter::from_fn(|| digests.next(Duration::from_secs(30))).flatten().collect()
    })
    .await
    .unwrap()
}

/// Puts an object, and asks for a digest of it.
async fn request(
    fixture: &TransferFixture,
    key: &str,
    content: &[u8],
    algorithm: DigestAlgorithm,
    part_sizes: &[usize],
) -> DigestRequest {
    let body = Bytes::copy_from_slice(content);
    fixture.memory.put(SOURCE, key, body, &Attributes::default()).await.unwrap();
    let meta = fixture.memory.head(ObjectRef::new(SOURCE, key), None).await.unwrap();
    let part_sizes = part_sizes.iter().filter_map(|size| NonZeroU64::new(*size as u64)).collect();
    DigestRequest { object: PinnedObject::of(SOURCE, key, &meta), algorithm, part_sizes }
}

async fn computed(fixture: &TransferFixture, requests: Vec<DigestRequest>) -> Vec<Vec<String>> {
    let found = results(started(&fixture.connection, &fixture.budget, requests)).await;
    found.into_iter().map(|digest| digest.unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn digests_have_their_published_check_values() {
    let fixture = TransferFixture::new();
    let mut requests = Vec::new();
    for (n, algorithm) in algorithms().enumerate() {
        requests.push(request(&fixture, &format!("{n}"), b"123456789", algorithm, &[]).await);
    }
    requests.push(request(&fixture, "empty", b"", MD5, &[]).await);
    requests.push(request(&fixture, "empty", b"", SHA256, &[]).await);

    let found = computed(&fixture, requests).await.concat();

    assert_eq!(
        found,
        [
            "rosUhgp5mIg=",
            "4waSgw==",
            "y/Q5Jg==",
            "FeKw08M4keuw8e9gnsQZQgwg4yDOlMZfvIwzEkSOsiU=",
            "98O8HYCOBHMq32eZZczDTKeuNEE=",
            "25f9e794323b453885f5181f1b624d0b",
            "d41d8cd98f00b204e9800998ecf8427e",
            "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=",
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn digests_of_any_kind_and_cut_are_those_of_their_definition() {
    let fixture = TransferFixture::new();
    // Ranges are of 8 MiB: none, a part of one, exactly one, several that end within parts.
    let sizes = [0, 1, 8 * MIB, 21 * MIB + 3];
    let (mut requests, mut wanted) = (Vec::new(), Vec::new());
    for (seed, size) in sizes.into_iter().enumerate() {
        let content = bytes(seed as u64, size);
        for algorithm in algorithms() {
            let key = format!("{size}");
            requests.push(request(&fixture, &key, &content, algorithm, &[]).await);
            wanted.push(vec![defined(algorithm, &content, None)]);
            let part_sizes = [5 * MIB, 7 * MIB, 32 * MIB];
            requests.push(request(&fixture, &key, &content, algorithm, &part_sizes).await);
            wanted.push(part_sizes.map(|part_size| defined(algorithm, &content, Some(part_size))).to_vec());
        }
    }

    assert_eq!(computed(&fixture, requests).await, wanted);
    assert_eq!(fixture.budget.memory_reserved(), 0, "buffer bytes leaked");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_of_ten_thousand_parts_has_the_etag_of_its_parts() {
    let fixture = TransferFixture::new();
    let content = bytes(1, 10_000 * 1000 - 1);
    let requests = vec![request(&fixture, "parts", &content, MD5, &[1000]).await];

    let found = computed(&fixture, requests).await;

    assert!(found[0][0].ends_with("-10000"));
    assert_eq!(found, [[defined(MD5, &content, Some(1000))]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn results_are_in_order_and_a_failure_is_that_of_its_object() {
    let fixture = TransferFixture::new();
    let mut requests = Vec::new();
    for n in 0..100 {
        // The first is the slowest.
        let size = if n == 0 { 20 * MIB } else { n };
        requests.push(request(&fixture, &format!("{n:03}"), &bytes(n as u64, size), CRC64NVME, &[]).await);
    }
    fixture.memory.delete(ObjectRef::new(SOURCE, "040")).await.unwrap();
    fixture.store.rule(Rule::once("GetObject", Fault::Fail("InternalError", 500)).key("007"));
    fixture.store.rule(Rule::once("GetObject", Fault::Truncate).key("000"));

    let found = results(started(&fixture.connection, &fixture.budget, requests)).await;

    assert_eq!(found.len(), 100);
    for (n, found) in found.into_iter().enumerate() {
        let size = if n == 0 { 20 * MIB } else { n };
        match found {
            Ok(values) => assert_eq!(values, [defined(CRC64NVME, &bytes(n as u64, size), None)], "{n}"),
            Err(error) => assert_eq!((n, error.operation, error.key.as_deref()), (40, "GetObject", Some("040"))),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_was_replaced_since_it_was_looked_at_is_read_as_it_is_now() {
    let fixture = TransferFixture::new();
    let requests = vec![request(&fixture, "replaced", b"before", MD5, &[]).await];
    request(&fixture, "replaced", b"after that", MD5, &[]).await;

    assert_eq!(computed(&fixture, requests).await, [[defined(MD5, b"after that", None)]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_of_two_versions_never_pass_for_one() {
    let fixture = TransferFixture::new();
    let (old, new) = (bytes(1, 20 * MIB), bytes(2, 20 * MIB));
    let requests = vec![request(&fixture, "changing", &old, MD5, &[]).await];
    let memory = Arc::clone(&fixture.memory);
    let body = Bytes::from(new.clone());
    let overwrite = Hook(Arc::new(move || {
        let (memory, body) = (Arc::clone(&memory), body.clone());
        Box::pin(async move {
            memory.put(SOURCE, "changing", body, &Attributes::default()).await.unwrap();
        })
    }));
    fixture.store.rule(Rule::once("GetObject", Fault::Hook(overwrite)).after(1));

    assert_eq!(computed(&fixture, requests).await, [[defined(MD5, &new, None)]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_is_read_as_one_stream_where_ranges_are_ignored() {
    let fixture = TransferFixture::of(MemoryStore::new(1).ignoring_ranges());
    let content = bytes(1, 20 * MIB + 1);
    let mut requests = Vec::new();
    for key in ["a", "b"] {
        requests.push(request(&fixture, key, &content, SHA256, &[5 * MIB]).await);
    }
    // A stream that breaks is hashed again from its first byte.
    fixture.store.rule(Rule::once("GetObject", Fault::Truncate).key("b").after(4));

    let wanted = defined(SHA256, &content, Some(5 * MIB));
    assert_eq!(computed(&fixture, requests).await, [[wanted.clone()], [wanted]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_large_objects_are_read_within_the_memory_of_one_range() {
    let mut fixture = TransferFixture::new();
    fixture.budget = Budget::new(BudgetLimits { memory: 8 << 20, ..BudgetLimits::default() });
    let content = bytes(1, 20 * MIB);
    let mut requests = Vec::new();
    for n in 0..8 {
        requests.push(request(&fixture, &format!("{n}"), &content, CRC64NVME, &[]).await);
    }

    let found = computed(&fixture, requests).await;

    assert_eq!(found, vec![vec![defined(CRC64NVME, &content, None)]; 8]);
    assert_eq!(fixture.budget.memory_reserved(), 0, "buffer bytes leaked");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_closed_stops_and_gives_its_memory_back() {
    let fixture = TransferFixture::new();
    let mut requests = Vec::new();
    for n in 0..40 {
        requests.push(request(&fixture, &format!("{n}"), &bytes(n, 9 * MIB), MD5, &[]).await);
    }
    let latch = Latch::default();
    fixture.store.rule(Rule::always("GetObject", Fault::Hold(latch.clone())));
    let digests = started(&fixture.connection, &fixture.budget, requests);
    latch.reached().await;

    digests.close();

    assert!(results(digests).await.is_empty());
    let given_back = async {
        while fixture.budget.memory_reserved() > 0 || fixture.budget.stats().in_flight > 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), given_back).await.expect("requests are still held");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_read_like_an_object() {
    let folder = std::env::temp_dir().join(format!("seqferry-digests-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let content = bytes(1, 17 * MIB);
    std::fs::write(folder.join(".file"), &content).unwrap();
    let store: Arc<dyn ObjectStore> = Arc::new(DiskStore::new(DiskOptions::default()));
    let bucket = folder.to_str().unwrap();
    let meta = store.head(ObjectRef::new(bucket, ".file"), None).await.unwrap();
    let object = PinnedObject::of(bucket, ".file", &meta);
    let request = DigestRequest { object, algorithm: CRC64NVME, part_sizes: Vec::new() };

    let found = results(started(&Endpoint::new(store), &Budget::new(BudgetLimits::default()), vec![request])).await;

    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(
        found.into_iter().map(|digest| digest.unwrap()).collect::<Vec<_>>(),
        [[defined(CRC64NVME, &content, None)]]
    );
}
