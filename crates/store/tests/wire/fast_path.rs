//! Tests of copies on the fast path: they equal the SDK's requests except for the client's name.

use std::collections::BTreeMap;

use aws_sdk_s3::config::{
    BehaviorVersion, Credentials, Region, RequestChecksumCalculation, ResponseChecksumValidation,
};
use aws_sdk_s3::types::{ChecksumAlgorithm as SdkAlgorithm, StorageClass};
use seqferry_store::error::classify::code;
use seqferry_store::prelude::*;
use seqferry_store::{ChecksumAlgorithm, CopyTarget, ErrorClass, ObjectRef, PinnedObject, Range, UploadRef};
use seqferry_testkit::signed;

use crate::server::{Reply, Request, Wire};
use crate::{ACCESS_KEY, SECRET_KEY, WriteOperation, object, store_at};

fn copied(request: &Request) -> Reply {
    let element = if request.query().contains("partNumber") { "CopyPartResult" } else { "CopyObjectResult" };
    Reply::xml(&format!("<{element}><ETag>&quot;e&quot;</ETag></{element}>"))
}

pub(crate) fn sdk_at(url: &str) -> aws_sdk_s3::Client {
    let config = aws_sdk_s3::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .endpoint_url(url)
        .region(Region::new("us-east-1"))
        .credentials_provider(Credentials::new(ACCESS_KEY, SECRET_KEY, None, None, "test"))
        .force_path_style(true)
        .request_checksum_calculation(RequestChecksumCalculation::WhenRequired)
        .response_checksum_validation(ResponseChecksumValidation::WhenRequired)
        .build();
    aws_sdk_s3::Client::from_conf(config)
}

/// The parts of a request that must be equal: all but the client's name, its count of attempts, the time, and the
/// signature over these.
pub(crate) fn essence(request: &Request) -> (String, String, Vec<String>, BTreeMap<String, String>, Vec<u8>) {
    let mut query: Vec<String> = request
        .query()
        .split('&')
        .filter(|pair| !pair.is_empty() && !pair.starts_with("x-id="))
        .map(str::to_owned)
        .collect();
    query.sort();
    let clients_own = ["user-agent", "x-amz-user-agent", "x-amz-date", "authorization"];
    let headers = request
        .headers
        .iter()
        .filter(|(name, _)| !clients_own.contains(&name.as_str()) && !name.starts_with("amz-sdk-"))
        .cloned()
        .collect();
    (request.method.clone(), request.path().to_owned(), query, headers, request.body.clone())
}

pub(crate) fn sources() -> Vec<PinnedObject> {
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

#[tokio::test]
async fn copies_are_what_the_sdk_would_send() {
    let server = Wire::serve(|request, _| copied(request));
    let (store, sdk) = (store_at(&server.url()).await, sdk_at(&server.url()));

    for source in sources() {
        for chosen in [false, true] {
            let class = chosen.then_some("STANDARD_IA");
            let sum = chosen.then_some(ChecksumAlgorithm::Crc64Nvme);
            store
                .copy(
                    &source,
                    CopyTarget { storage_class: class, checksum: sum, ..CopyTarget::new("bucket", &source.key) },
                )
                .await
                .unwrap();
            let header = server.requests().pop().unwrap().header("x-amz-copy-source").unwrap().to_owned();
            sdk.copy_object()
                .bucket("bucket")
                .key(&source.key)
                .copy_source(header)
                .set_copy_source_if_match(source.if_match.as_ref().map(|etag| format!("\"{etag}\"")))
                .set_storage_class(class.map(StorageClass::from))
                .set_checksum_algorithm(sum.map(|_| SdkAlgorithm::Crc64Nvme))
                .send()
                .await
                .unwrap();
            let requests = server.requests();
            let [.., ours, theirs] = requests.as_slice() else { panic!("two requests") };
            assert_eq!(essence(ours), essence(theirs));
        }
    }
}

#[tokio::test]
async fn part_copies_are_what_the_sdk_would_send() {
    let server = Wire::serve(|request, _| copied(request));
    let (store, sdk) = (store_at(&server.url()).await, sdk_at(&server.url()));

    for source in sources() {
        for upload in ["upload", "up load+1/=&?%"] {
            let range = Range { first: 5, last: 1 << 40 };
            store.copy_part(&source, range, UploadRef::new("bucket", &source.key, upload), 9_999).await.unwrap();
            let header = server.requests().pop().unwrap().header("x-amz-copy-source").unwrap().to_owned();
            sdk.upload_part_copy()
                .bucket("bucket")
                .key(&source.key)
                .upload_id(upload)
                .part_number(9_999)
                .copy_source(header)
                .set_copy_source_if_match(source.if_match.as_ref().map(|etag| format!("\"{etag}\"")))
                .copy_source_range(range.header())
                .send()
                .await
                .unwrap();
            let requests = server.requests();
            let [.., ours, theirs] = requests.as_slice() else { panic!("two requests") };
            assert_eq!(essence(ours), essence(theirs));
        }
    }
}

/// Checks the signature with code that is independent of the signer.
#[tokio::test]
async fn copies_are_signed_over_all_that_matters() {
    let server = Wire::serve(|request, _| copied(request));
    let store = store_at(&server.url()).await;

    for source in sources() {
        store
            .copy(&source, CopyTarget { storage_class: Some("STANDARD_IA"), ..CopyTarget::new("bucket", &source.key) })
            .await
            .unwrap();
        let range = Range { first: 0, last: 9 };
        store.copy_part(&source, range, UploadRef::new("bucket", &source.key, "up load+1"), 7).await.unwrap();
    }

    server.requests().iter().for_each(assert_signed);
}

/// Asserts that the signature is valid and covers everything of importance.
pub(crate) fn assert_signed(request: &Request) {
    let authorization = request.header("authorization").unwrap();
    let names = authorization.split("SignedHeaders=").nth(1).unwrap().split(',').next().unwrap();
    let signed_headers: Vec<(String, String)> = names
        .split(';')
        .map(|name| (name.to_owned(), request.header(name).expect("what is signed is sent").to_owned()))
        .collect();
    let credentials = signed::Credentials { access_key: ACCESS_KEY, secret_key: SECRET_KEY };
    let right = signed::authorization(credentials, &request.method, &request.target, &signed_headers);
    assert_eq!(authorization.replace(", ", ","), right.replace(", ", ","), "{}", request.target);
    // The signature covers every header that changes the operation or its identity.
    for (name, _) in request.headers.iter().filter(|(name, _)| name.starts_with("x-amz-") || name == "host") {
        assert!(names.split(';').any(|signed| signed == name), "{name} is not signed: {names}");
    }
}

#[tokio::test]
async fn copies_share_the_connections_of_other_requests() {
    let server = Wire::serve(|request, _| match request.method.as_str() {
        "HEAD" => Reply::head(200, &[("etag", "\"e\"")]),
        _ => copied(request),
    });
    let store = store_at(&server.url()).await;

    for _ in 0..5 {
        store.head(ObjectRef::new("bucket", "key"), None).await.unwrap();
        WriteOperation::Copy.send(&store).await.unwrap();
        WriteOperation::CopyPart.send(&store).await.unwrap();
    }

    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn an_answer_without_an_end_is_given_up() {
    let endless = format!("<CopyObjectResult>{}<ETag>e</ETag></CopyObjectResult>", " ".repeat(2 << 20));
    let server = Wire::always(Reply::xml(&endless));
    let error = WriteOperation::Copy.send(&store_at(&server.url()).await).await.unwrap_err();

    assert_eq!((error.code.as_str(), error.class), (code::MALFORMED, ErrorClass::Retry), "{error:?}");
}

#[tokio::test]
async fn the_strongest_checksum_of_an_answer_counts() {
    let answer = "<CopyObjectResult><ETag>e</ETag><ChecksumSHA1>s1</ChecksumSHA1><ChecksumCRC64NVME>c64</ChecksumCRC64NVME>\
                  <ChecksumCRC32>c32</ChecksumCRC32><ChecksumMD5>unknown</ChecksumMD5><ChecksumType>COMPOSITE</ChecksumType>\
                  </CopyObjectResult>";
    let headers = [("x-amz-version-id", "v1"), ("content-type", "application/xml")];
    let server = Wire::always(Reply::new(200, &headers, answer));
    let copied = store_at(&server.url()).await.copy(&object("source"), CopyTarget::new("bucket", "key")).await.unwrap();

    let checksum = copied.checksum.unwrap();
    assert_eq!((checksum.algorithm, checksum.value.as_str()), (ChecksumAlgorithm::Crc64Nvme, "c64"));
    assert_eq!(checksum.kind, seqferry_store::ChecksumKind::Composite);
    assert_eq!(copied.version_id.as_deref(), Some("v1"));
}

#[tokio::test]
async fn a_part_says_whether_its_etag_is_a_digest() {
    for (header, value, opaque) in [
        ("x-amz-server-side-encryption", "AES256", false),
        ("x-amz-server-side-encryption", "aws:kms", true),
        ("x-amz-server-side-encryption", "aws:kms:dsse", true),
        ("x-amz-server-side-encryption", "aws:fsx", true),
        ("x-amz-server-side-encryption", "KMS", true),
        ("x-amz-server-side-encryption", "None", false),
        ("x-amz-server-side-encryption", "AES-256", false),
        ("x-amz-server-side-encryption", "an unknown word", false),
        ("x-amz-server-side-encryption-customer-algorithm", "None", false),
        ("x-amz-server-side-encryption-customer-algorithm", "AES256", true),
    ] {
        let body = "<CopyPartResult><ETag>\"e\"</ETag><ChecksumCRC64NVME>c64</ChecksumCRC64NVME></CopyPartResult>";
        let server = Wire::always(Reply::new(200, &[(header, value)], body));
        let range = Range { first: 0, last: 9 };
        let store = store_at(&server.url()).await;
        let part =
            store.copy_part(&object("source"), range, UploadRef::new("bucket", "key", "upload"), 1).await.unwrap();

        assert_eq!((part.opaque_etag, part.checksum.as_deref()), (opaque, Some("c64")), "{header}: {value}");
    }
}

#[tokio::test]
async fn what_no_header_can_hold_is_refused_before_anything_is_sent() {
    let server = Wire::serve(|request, _| copied(request));
    let store = store_at(&server.url()).await;
    let error = store
        .copy(
            &object("source"),
            CopyTarget { storage_class: Some("STANDARD\r\nx-evil: 1"), ..CopyTarget::new("bucket", "key") },
        )
        .await
        .unwrap_err();

    assert_eq!((error.code.as_str(), error.class), ("InvalidRequest", ErrorClass::Object), "{error:?}");
    assert!(error.message.contains("x-amz-storage-class"), "{error}");
    assert!(server.requests().is_empty());
}
