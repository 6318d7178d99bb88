//! Tests of the answers to copies.

use seqferry_store::error::classify::code;
use seqferry_store::prelude::*;
use seqferry_store::{ChecksumAlgorithm, CopyTarget, ErrorClass, ObjectRef, Range, UploadRef};

use crate::server::{Reply, Request, Wire};
use crate::{WriteOperation, object, store_at};

fn copied(request: &Request) -> Reply {
    let element = if request.query().contains("partNumber") { "CopyPartResult" } else { "CopyObjectResult" };
    Reply::xml(&format!("<{element}><ETag>&quot;e&quot;</ETag></{element}>"))
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
