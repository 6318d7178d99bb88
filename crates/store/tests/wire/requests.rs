//! Tests that each operation sends the request that is recorded in `requests.txt`, with a valid signature.
//!
//! The records were made with the AWS SDK for Rust (aws-sdk-s3 1.157) in place of this client. Three things differ: the
//! SDK adds `x-id` to queries, leaves out `Content-Length: 0`, and gives `CreateBucket` a `Content-Type` without a
//! body.

use std::fmt::Write as _;
use std::path::Path;

use bytes::Bytes;
use seqferry_store::prelude::*;
use seqferry_store::{
    Attributes, BucketService, Checksum, ChecksumAlgorithm, ChecksumKind, CompleteUpload, CompletedPart, CopyTarget,
    CreateUpload, CustomerKey, Digests, Encryption, EndpointOptions, ListRequest, ObjectLock, ObjectRef, PinnedObject,
    PutObject, Range, Removal, S3Store, UploadRef, VersionsRequest, WriteOptions,
};
use seqferry_store_testing::connect;
use seqferry_testkit::signed;

use crate::server::{Reply, Request, Wire};
use crate::{ACCESS_KEY, SECRET_KEY, object, options_for, store_at};

const RANGE: Range = Range { first: 5, last: 1 << 40 };
/// Keys and values that XML and queries have to escape.
const ODD: &str = "a b+c%20&<d>\"'e\r\n\t\u{e9}\u{85}\u{2028}\u{1f9ec}";

/// The answer to each request is a success, or what the caller takes for one.
fn answer(request: &Request) -> Reply {
    let etag = [("etag", "\"e\"")];
    let xml = |root: &str, more: &str| Reply::xml(&format!("<{root}>{more}</{root}>"));
    let has = |name: &str| request.query().split('&').any(|pair| pair.split('=').next() == Some(name));
    match request.method.as_str() {
        "GET" if has("list-type") => xml("ListBucketResult", "<IsTruncated>false</IsTruncated>"),
        "GET" if has("versions") => xml("ListVersionsResult", "<IsTruncated>false</IsTruncated>"),
        "GET" if has("uploads") => xml("ListMultipartUploadsResult", "<IsTruncated>false</IsTruncated>"),
        "GET" if has("uploadId") => xml("ListPartsResult", "<IsTruncated>false</IsTruncated>"),
        "GET" if has("tagging") => xml("Tagging", "<TagSet></TagSet>"),
        "GET" if has("encryption") => xml("ServerSideEncryptionConfiguration", ""),
        "GET" if request.path() == "/" => xml("ListAllMyBucketsResult", "<Buckets></Buckets>"),
        "POST" if has("uploadId") => xml("CompleteMultipartUploadResult", "<ETag>\"e-1\"</ETag>"),
        "POST" if has("uploads") => xml("InitiateMultipartUploadResult", "<UploadId>upload</UploadId>"),
        "POST" if has("delete") => xml("DeleteResult", ""),
        "PUT" if request.header("x-amz-copy-source").is_some() => {
            let part = request.query().contains("partNumber");
            xml(if part { "CopyPartResult" } else { "CopyObjectResult" }, "<ETag>\"e\"</ETag>")
        }
        "DELETE" => Reply::new(204, &[], ""),
        _ => Reply::new(200, &etag, ""),
    }
}

/// Sources of copies, and objects of other requests.
fn sources() -> Vec<PinnedObject> {
    let version_id = Some("3-L4kqtJl.v_1~".to_owned());
    ["plain", "a b+c%20?d=e&f#g", "x/../y//z/.", "/leading", "\u{1f9ec}\n\u{7f}'\"<>[]{}|^`!$()*,:;=@~\\"]
        .into_iter()
        .flat_map(|key| {
            [
                object(key),
                PinnedObject { version_id: version_id.clone(), if_match: Some("abc-3".to_owned()), ..object(key) },
            ]
        })
        .collect()
}

/// Asserts that the signature is valid and covers everything of importance. It is checked with code that is independent
/// of the signer.
pub(crate) fn assert_signed(request: &Request) {
    let authorization = request.header("authorization").unwrap();
    let names = authorization.split("SignedHeaders=").nth(1).unwrap().split(',').next().unwrap();
    let signed_headers: Vec<(String, String)> = names
        .split(';')
        .map(|name| (name, request.header(name).expect("what is signed is sent")))
        // Signatures cover values with single blanks.
        .map(|(name, value)| {
            (name.to_owned(), value.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" "))
        })
        .collect();
    let credentials = signed::Credentials { access_key: ACCESS_KEY, secret_key: SECRET_KEY };
    let mut query: Vec<String> =
        request.query().split('&').filter(|pair| !pair.is_empty()).map(str::to_owned).collect();
    query.iter_mut().filter(|pair| !pair.contains('=')).for_each(|pair| pair.push('='));
    query.sort_unstable();
    let target = format!("{}?{}", request.path(), query.join("&"));
    let right = signed::authorization(credentials, &request.method, target.trim_end_matches('?'), &signed_headers);
    assert_eq!(authorization.replace(", ", ","), right.replace(", ", ","), "{}", request.target);
    // The signature covers every header that changes the operation or its identity.
    for (name, _) in request.headers.iter().filter(|(name, _)| name.starts_with("x-amz-") || name == "host") {
        assert!(names.split(';').any(|signed| signed == name), "{name} is not signed: {names}");
    }
}

/// What a request is made of, without the time, the signature, and the names and ports of this run.
fn record(of: &str, request: &Request) -> String {
    let mut query: Vec<&str> = request.query().split('&').filter(|pair| !pair.is_empty()).collect();
    query.sort_unstable();
    query.retain(|pair| !pair.starts_with("x-id="));
    let mark = if query.is_empty() { "" } else { "?" };
    let mut text = format!("# {of}\n{} {}{mark}{}\n", request.method, request.path(), query.join("&"));
    let mut headers = request.headers.clone();
    headers.sort();
    for (name, value) in headers {
        let is_own = ["user-agent", "x-amz-user-agent", "x-amz-date", "authorization", "host"].contains(&name.as_str());
        if !is_own && !name.starts_with("amz-sdk-") {
            let _ = writeln!(text, "{name}: {}", value.escape_debug());
        }
    }
    let body = String::from_utf8_lossy(&request.body);
    if !body.is_empty() {
        let _ = writeln!(text, "\n{}", body.escape_debug());
    }
    text + "\n"
}

fn attributes() -> Attributes {
    Attributes {
        content_type: Some("application/gzip".to_owned()),
        content_encoding: Some("gzip".to_owned()),
        content_language: Some("de, en".to_owned()),
        content_disposition: Some("attachment; filename=\"a b.gz\"".to_owned()),
        cache_control: Some("max-age=60".to_owned()),
        expires: Some("Thu, 1 Dec 1994 16:00:00 GMT+1".to_owned()),
        website_redirect: Some("/elsewhere".to_owned()),
        metadata: [("sample", "s  1"), ("mtime", "1500000000.25"), ("empty", ""), ("latin", "\u{e4}")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
    }
}

fn tags() -> Vec<(String, String)> {
    vec![("a b".to_owned(), "c=d&e/\u{fc}".to_owned()), ("empty".to_owned(), String::new())]
}

fn write_options() -> [WriteOptions; 3] {
    let lock = ObjectLock {
        retention: Some("GOVERNANCE".to_owned()).zip(Some("2030-01-01T00:00:00Z".to_owned())),
        legal_hold: true,
    };
    let grants = vec![("read".to_owned(), "id=\"1\", id=\"2\"".to_owned())];
    [
        WriteOptions::default(),
        WriteOptions {
            encryption: Some(Encryption::new("aws:kms", Some("alias/lab".to_owned()))),
            acl: Some("private".to_owned()),
            ..WriteOptions::default()
        },
        WriteOptions { lock, grants, ..WriteOptions::default() },
    ]
}

/// All digests that a body can be sent with.
fn digests() -> Vec<Digests> {
    let md5 = Some("hBotaJrYa9FhFEdFPCLG/A==".to_owned());
    let with = |algorithm, value: &str| Digests { checksum: Some((algorithm, value.to_owned())), md5: None };
    vec![
        Digests::default(),
        Digests { checksum: None, md5: md5.clone() },
        with(ChecksumAlgorithm::Crc64Nvme, "rosUhgp5mIE="),
        with(ChecksumAlgorithm::Crc32C, "4waSgw=="),
        with(ChecksumAlgorithm::Crc32, "y/Q5Jg=="),
        with(ChecksumAlgorithm::Sha256, "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="),
        Digests { md5, ..with(ChecksumAlgorithm::Sha1, "2jmj7l5rSw0yVb/vlWAYkK/YBwk=") },
    ]
}

async fn read_objects(store: &S3Store, sources: &[PinnedObject]) {
    for source in sources {
        for range in [None, Some(RANGE)] {
            let _not_the_range = store.get(source, range).await;
        }
        let object = ObjectRef::new("bucket", &source.key).at_version(source.version_id.as_deref());
        store.head(object, None).await.unwrap();
        store.head(object, Some(7)).await.unwrap();
        store.get_tags(object).await.unwrap();
        store.restore(object, 3, "Bulk").await.unwrap();
    }
    store.head(ObjectRef::new("bucket", ODD), None).await.unwrap();
}

async fn write_objects(store: &S3Store, sources: &[PinnedObject]) {
    for (turn, (source, digests)) in sources.iter().zip(digests().into_iter().cycle()).enumerate() {
        let object = PutObject {
            write: write_options()[turn % 3].clone(),
            bucket: "bucket".to_owned(),
            key: source.key.clone(),
            attributes: if turn % 2 == 0 { attributes() } else { Attributes::default() },
            tags: if turn % 3 == 0 { tags() } else { Vec::new() },
            storage_class: (turn % 2 == 0).then(|| "STANDARD_IA".to_owned()),
            digests,
            if_absent: turn % 4 == 1,
            if_match: (turn % 4 == 2).then(|| "0123abcd".to_owned()),
            defer_sync: false,
        };
        store.put_object(&object, Bytes::from("body")).await.unwrap();
        let (tags, attributes) = (tags(), attributes());
        for target in [
            CopyTarget::new("bucket", &source.key),
            CopyTarget {
                storage_class: Some("STANDARD_IA"),
                checksum: Some(ChecksumAlgorithm::Crc64Nvme),
                if_match: Some("e"),
                ..CopyTarget::new("bucket", &source.key)
            },
            CopyTarget {
                attributes: Some(&attributes),
                tags: Some(&tags),
                write: Some(&object.write),
                if_absent: true,
                ..CopyTarget::new("bucket", &source.key)
            },
        ] {
            store.copy(source, target).await.unwrap();
        }
        let target = ObjectRef::new("bucket", &source.key).at_version(source.version_id.as_deref());
        store.put_tags(target, &tags).await.unwrap();
        store.delete(target).await.unwrap();
        store.delete_if(target, "abc").await.unwrap();
    }
    store.put_tags(ObjectRef::new("bucket", "key"), &[(ODD.to_owned(), ODD.to_owned())]).await.unwrap();
    store.put_tags(ObjectRef::new("bucket", "key"), &[]).await.unwrap();
}

async fn upload(store: &S3Store, sources: &[PinnedObject]) {
    for (turn, (source, digests)) in sources.iter().zip(digests().into_iter().cycle()).enumerate() {
        let checksums = [
            None,
            Some((ChecksumAlgorithm::Crc64Nvme, ChecksumKind::FullObject)),
            Some((ChecksumAlgorithm::Sha256, ChecksumKind::Composite)),
        ];
        let create = CreateUpload {
            bucket: "bucket".to_owned(),
            key: source.key.clone(),
            attributes: if turn % 2 == 0 { attributes() } else { Attributes::default() },
            tags: if turn % 3 == 0 { tags() } else { Vec::new() },
            storage_class: (turn % 2 == 1).then(|| "GLACIER_IR".to_owned()),
            write: write_options()[turn % 3].clone(),
            checksum: checksums[turn % 3],
            ..CreateUpload::default()
        };
        store.create_upload(&create).await.unwrap();
        for id in ["upload", "up load+1/=&?%"] {
            let upload = UploadRef::new("bucket", &source.key, id);
            store.put_part(upload, 9_999, Bytes::from_static(b"body"), &digests).await.unwrap();
            store.copy_part(source, RANGE, upload, 9_999).await.unwrap();
            store.list_parts(upload, None).await.unwrap();
            store.list_parts(upload, Some(7)).await.unwrap();
            store.abort_upload(upload).await.unwrap();
            let algorithm = [
                None,
                Some(ChecksumAlgorithm::Crc64Nvme),
                Some(ChecksumAlgorithm::Sha1),
                Some(ChecksumAlgorithm::Crc32),
            ][turn % 4];
            let part = |number| CompletedPart {
                number,
                etag: format!("e{number}&<"),
                checksum: algorithm.and(Some("AAAA+/=".to_owned())),
            };
            let complete = CompleteUpload {
                bucket: "bucket".to_owned(),
                key: source.key.clone(),
                upload_id: id.to_owned(),
                parts: vec![part(1), part(3)],
                size: 1000 * turn as u64,
                checksum: algorithm,
                whole: algorithm.map(|algorithm| Checksum::from_header(algorithm, "CCCC+/=", Some(false))),
                if_absent: turn % 4 == 1,
                if_match: (turn % 4 == 2).then(|| "0123abcd".to_owned()),
            };
            store.complete_upload(&complete).await.unwrap();
        }
    }
}

async fn list(store: &S3Store) {
    let request =
        |prefix: &str| ListRequest { bucket: "bucket".to_owned(), prefix: prefix.to_owned(), ..ListRequest::default() };
    for request in [
        request(""),
        ListRequest { delimiter: Some("/".to_owned()), max_keys: Some(7), ..request("run/") },
        ListRequest { start_after: Some(ODD.to_owned()), ..request(ODD) },
        ListRequest {
            start_after: Some("run/a".to_owned()),
            continuation: Some("to+ken=/ &".to_owned()),
            ..request("run/")
        },
        ListRequest { delimiter: Some(String::new()), start_after: Some(String::new()), ..request("run/") },
    ] {
        let _whatever = store.list(&request).await;
    }
    for prefix in ["", "run/", ODD] {
        let _whatever = store.list_uploads("bucket", prefix).await;
    }
    let service: &dyn BucketService = store;
    for after in [
        None,
        Some((ODD.to_owned(), None)),
        Some(("k".to_owned(), Some("v+1".to_owned()))),
        Some((String::new(), Some(String::new()))),
    ] {
        for prefix in ["", "run/ +"] {
            let request =
                VersionsRequest { bucket: "bucket".to_owned(), prefix: prefix.to_owned(), after: after.clone() };
            let _whatever = service.list_versions(&request).await;
        }
    }
}

async fn manage(store: &S3Store) {
    let service: &dyn BucketService = store;
    service.list_buckets().await.unwrap();
    let _whatever = service.abort_rules("bucket").await;
    service.create_bucket("bucket").await.unwrap();
    service.delete_bucket("bucket").await.unwrap();
    store.head_bucket("bucket").await.unwrap();
    store.bucket_encryption("bucket").await.unwrap();
    let removal =
        |key: &str, version: Option<String>, etag: Option<String>| Removal { key: key.to_owned(), version, etag };
    let all = [
        removal("plain", None, None),
        removal(ODD, Some("v&1".to_owned()), Some("abc".to_owned())),
        removal(" blank ", None, None),
    ];
    service.delete_many("bucket", &all).await.unwrap();
    service.delete_many("bucket", &all[..1]).await.unwrap();
}

#[tokio::test]
async fn requests_are_what_they_are_recorded_to_be() {
    let server = Wire::serve(|request, _| answer(request));
    let plain = store_at(&server.url()).await;
    let with_keys = connect(EndpointOptions {
        request_payer: true,
        customer_key: Some(CustomerKey::new([7; 32])),
        copy_source_key: Some(CustomerKey::new([8; 32])),
        ..options_for(&server.url())
    })
    .await;
    let anonymous = connect(EndpointOptions { anonymous: true, ..options_for(&server.url()) }).await;
    let (mut records, mut seen, sources) = (String::new(), 0, sources());
    for (name, store, count) in
        [("plain", &plain, 10), ("with keys, paid by the caller", &with_keys, 2), ("anonymous", &anonymous, 1)]
    {
        let sources = &sources[..count];
        read_objects(store, sources).await;
        write_objects(store, sources).await;
        upload(store, sources).await;
        list(store).await;
        manage(store).await;
        let requests = server.requests();
        for request in &requests[seen..] {
            records.push_str(&record(name, request));
            if name == "anonymous" { assert_eq!(request.header("authorization"), None) } else { assert_signed(request) }
        }
        seen = requests.len();
    }
    let recorded = include_str!("requests.txt");
    let written = Path::new(env!("CARGO_TARGET_TMPDIR")).join("requests.txt");
    std::fs::write(&written, &records).unwrap();
    for (now, before) in records.split("\n# ").zip(recorded.split("\n# ")) {
        assert_eq!(now, before, "if this is right, {} is the new requests.txt", written.display());
    }
    assert_eq!(records.len(), recorded.len());
}
