//! Tests of false successes, and of answers with more information than a code.

use std::time::Duration;

use seqferry_store::error::classify::code;
use seqferry_store::prelude::*;
use seqferry_store::{
    Attributes, BucketEncryption, BucketService as _, CreateUpload, Digests, ErrorClass, ListRequest, ObjectRef, Range,
    UploadRef,
};
use seqferry_store_testing::ObjectWriteExt as _;

use crate::server::{Reply, Wire, error_body};
use crate::{WriteOperation, get, object, store_at};

const DECLARATION: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>";

/// An XML document with blanks after its declaration, as S3 sends to keep a connection alive, and with blanks before
/// it, as MinIO does.
fn after_white_space(xml: &str) -> [String; 3] {
    let rest = xml.strip_prefix(DECLARATION).unwrap_or(xml);
    let blanks = " \n".repeat(500);
    [
        format!("{DECLARATION}\n{blanks}{rest}"),
        format!("{blanks}{DECLARATION}\n{rest}"),
        format!("\r\n\u{feff}\t{DECLARATION}{rest}"),
    ]
}

#[tokio::test]
async fn an_error_in_a_200_is_an_error_of_its_class() {
    let codes = [
        ("InternalError", ErrorClass::Retry),
        ("SlowDown", ErrorClass::Throttle),
        ("ServiceUnavailable", ErrorClass::Throttle),
        ("RequestTimeout", ErrorClass::Retry),
        ("ExpiredToken", ErrorClass::Credentials),
        ("AccessDenied", ErrorClass::Person),
        ("PreconditionFailed", ErrorClass::Precondition),
        ("NoSuchUpload", ErrorClass::NotFound),
        // An unlisted code: the write may or may not have happened.
        ("Mystery", ErrorClass::Retry),
    ];

    for write in WriteOperation::ALL {
        for (code, class) in codes {
            let plain = error_body(code, "");
            for body in after_white_space(&plain).into_iter().chain([plain.clone()]) {
                let server = Wire::always(Reply::xml(&body));
                let error = write.send(&store_at(&server.url()).await).await.expect_err("an error");

                assert_eq!((error.code.as_str(), error.class), (code, class), "{write:?}: {error:?}");
                assert_eq!(error.message, format!("the text of {code}"));
                assert_eq!(server.requests().len(), 1, "made once");
            }
        }
    }
}

#[tokio::test]
async fn a_success_may_come_after_white_space() {
    for write in WriteOperation::ALL {
        let element = write.element();
        for body in after_white_space(&format!("<{element}><ETag>&quot;0123456789abcdef&quot;</ETag></{element}>")) {
            let server = Wire::always(Reply::xml(&body));

            assert_eq!(write.send(&store_at(&server.url()).await).await.unwrap(), "0123456789abcdef", "{write:?}");
        }
    }
}

#[tokio::test]
async fn a_success_without_its_result_is_an_error_to_try_again() {
    for write in WriteOperation::ALL {
        let element = write.element();
        let bodies = [
            String::new(),
            " \n ".repeat(20),
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n".to_owned(),
            format!("<{element}></{element}>"),
            format!("<{element}><ETag></ETag></{element}>"),
            format!("<{element}><LastModified>2026-01-01T00:00:00.000Z</LastModified></{element}>"),
            "<html><body>a captive portal</body></html>".to_owned(),
            "no XML at all".to_owned(),
        ];
        for body in bodies {
            let server = Wire::always(Reply::xml(&body));
            let error = write.send(&store_at(&server.url()).await).await.expect_err("an error");

            assert_eq!(
                (error.code.as_str(), error.class),
                (code::MALFORMED, ErrorClass::Retry),
                "{write:?} {body:?}: {error:?}"
            );
        }
    }
}

#[tokio::test]
async fn an_answer_to_another_request_says_that_the_operation_is_not_offered() {
    let long = "x".repeat(2 << 20);
    for body in [
        "",
        " \n ",
        "bytes of the object",
        "<html><body>bytes of the object</body></html>",
        "<ListBucketResult/>",
        &long,
    ] {
        let server = Wire::always(Reply::new(200, &[("content-type", "application/octet-stream")], body));
        let store = store_at(&server.url()).await;

        let tags = store.get_tags(ObjectRef::new("bucket", "key")).await.expect_err("an error");
        let uploads = store.list_uploads("bucket", "key").await.expect_err("an error");
        let encryption = store.bucket_encryption("bucket").await.expect("an answer");

        for error in [tags, uploads] {
            assert_eq!(
                (error.code.as_str(), error.class),
                (code::UNEXPECTED_ANSWER, ErrorClass::Capability),
                "{error}"
            );
            assert!(!error.message.contains("bytes of"), "{error}");
        }
        // An empty body is no refusal: sources are checked one by one.
        let expected = if body.is_empty() { BucketEncryption::None } else { BucketEncryption::Unsupported };
        assert_eq!(encryption, expected, "{body:.40}");
        assert_eq!(server.requests().len(), 3, "made once");
    }
}

#[tokio::test]
async fn rules_that_abort_uploads_are_read_from_all_versions_of_the_format() {
    let abort =
        "<AbortIncompleteMultipartUpload><DaysAfterInitiation>7</DaysAfterInitiation></AbortIncompleteMultipartUpload>";
    let rule = |status: &str, rest: &str| format!("<Rule><ID>x</ID><Status>{status}</Status>{rest}</Rule>");
    let rules = [
        rule("Enabled", &format!("<Filter><Prefix>a/</Prefix></Filter>{abort}")),
        rule("Enabled", &format!("<Filter><And><Prefix>b/</Prefix></And></Filter>{abort}")),
        rule("Enabled", &format!("<Prefix>c/</Prefix>{abort}")),
        rule("Enabled", &format!("<Filter/>{abort}")),
        rule("Disabled", &format!("<Filter><Prefix>d/</Prefix></Filter>{abort}")),
        rule("Enabled", "<Filter><Prefix>e/</Prefix></Filter><Expiration><Days>3</Days></Expiration>"),
    ];
    let body = format!("<LifecycleConfiguration>{}</LifecycleConfiguration>", rules.concat());
    let server = Wire::always(Reply::xml(&body));
    let store = store_at(&server.url()).await;
    let found = store.abort_rules("bucket").await.unwrap();
    let found: Vec<_> = found.iter().map(|rule| (rule.prefix.as_str(), rule.days)).collect();
    assert_eq!(found, [("a/", 7), ("b/", 7), ("c/", 7), ("", 7)]);

    let none = "<Error><Code>NoSuchLifecycleConfiguration</Code></Error>";
    let server = Wire::always(Reply::new(404, &[("content-type", "application/xml")], none));
    assert_eq!(store_at(&server.url()).await.abort_rules("bucket").await.unwrap(), []);
    for body in ["", "<ListBucketResult/>"] {
        let server = Wire::always(Reply::new(200, &[("content-type", "application/xml")], body));
        let error = store_at(&server.url()).await.abort_rules("bucket").await.expect_err("another answer");
        assert_eq!(error.class, ErrorClass::Capability, "{error}");
    }
}

#[tokio::test]
async fn documents_whose_root_has_another_name_are_read() {
    let server = Wire::serve(|request, _| match request.method.as_str() {
        "POST" => Reply::xml(
            "<InitiateMultipartUpload><Bucket>bucket</Bucket><UploadId>id</UploadId></InitiateMultipartUpload>",
        ),
        _ => Reply::xml(
            "<ListPartsResponse><IsTruncated>true</IsTruncated><Part><PartNumber>1</PartNumber><ETag>&quot;0a&quot;</ETag>\
             <Size>7</Size></Part><Owner><ID>x</ID></Owner></ListPartsResponse>",
        ),
    });
    let store = store_at(&server.url()).await;
    let upload = CreateUpload { bucket: "bucket".to_owned(), key: "key".to_owned(), ..CreateUpload::default() };

    assert_eq!(store.create_upload(&upload).await.unwrap(), "id");
    let page = store.list_parts(UploadRef::new("bucket", "key", "id"), None).await.unwrap();
    let part = &page.parts[0];
    assert_eq!((part.number, part.size, part.etag.as_str(), page.next), (1, 7, "0a", Some(1)));
}

#[tokio::test]
async fn a_checksum_of_several_parts_counts_only_when_it_says_what_it_spans() {
    for (etag, value, kind, counts) in [
        ("\"aa-3\"", "DvpCZA==", None, false),
        ("\"aa-3\"", "DvpCZA==-3", None, true),
        ("\"aa-3\"", "DvpCZA==", Some("FULL_OBJECT"), true),
        ("\"aa\"", "DvpCZA==", None, true),
    ] {
        let mut headers = vec![("etag", etag), ("x-amz-checksum-crc32", value)];
        headers.extend(kind.map(|kind| ("x-amz-checksum-type", kind)));
        let server = Wire::always(Reply::head(200, &headers));

        let meta = store_at(&server.url()).await.head(ObjectRef::new("bucket", "key"), None).await.unwrap();

        assert_eq!(meta.checksum.is_some(), counts, "{etag} {value} {kind:?}");
    }
}

#[tokio::test]
async fn a_copy_that_was_taken_for_an_upload_says_that_the_operation_is_not_offered() {
    for write in [WriteOperation::Copy, WriteOperation::CopyPart] {
        let server = Wire::always(Reply::new(200, &[("etag", "\"d41d8cd98f00b204e9800998ecf8427e\"")], ""));
        let error = write.send(&store_at(&server.url()).await).await.expect_err("an error");

        assert_eq!((error.code.as_str(), error.class), (code::UNEXPECTED_ANSWER, ErrorClass::Capability), "{error}");
    }
}

#[tokio::test]
async fn an_upload_without_an_id_is_malformed() {
    let server = Wire::always(Reply::xml("<InitiateMultipartUploadResult></InitiateMultipartUploadResult>"));
    let upload = CreateUpload { bucket: "bucket".to_owned(), key: "key".to_owned(), ..CreateUpload::default() };
    let error = store_at(&server.url()).await.create_upload(&upload).await.expect_err("an error");

    assert_eq!(error.code, code::MALFORMED);
}

#[tokio::test]
async fn a_part_without_an_etag_is_malformed() {
    let server = Wire::always(Reply::new(200, &[], ""));
    let store = store_at(&server.url()).await;

    let part = store
        .put_part(UploadRef::new("bucket", "key", "upload"), 1, "body".into(), &Digests::default())
        .await
        .expect_err("an error");
    let whole = store.put("bucket", "key", "body".into(), &Attributes::default()).await.expect_err("an error");

    assert_eq!((part.code.as_str(), whole.code.as_str()), (code::MALFORMED, code::MALFORMED));
}

#[tokio::test]
async fn a_listing_that_goes_on_without_a_token_is_contradictory() {
    let server = Wire::always(Reply::xml("<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>"));
    let request = ListRequest { bucket: "bucket".to_owned(), ..ListRequest::default() };
    let error = store_at(&server.url()).await.list(&request).await.expect_err("an error");

    assert_eq!(error.code, code::CONTRADICTORY_LISTING);
}

#[tokio::test]
async fn a_range_that_is_answered_with_something_else_is_said_to_be_ignored() {
    for (status, headers) in
        [(200, vec![("etag", "\"e\"")]), (206, vec![("etag", "\"e\""), ("content-range", "bytes 0-15/16")])]
    {
        let server = Wire::always(Reply::new(status, &headers, "the whole object"));
        let range = Some(Range { first: 4, last: 8 });
        let error = store_at(&server.url()).await.get(&object("key"), range).await.err().expect("an error");

        assert_eq!((error.code.as_str(), error.class), (code::RANGE_IGNORED, ErrorClass::Capability));
        assert!(error.message.contains("16 bytes"), "{error}");
    }
}

#[tokio::test]
async fn what_the_service_asks_to_wait_is_passed_on_within_bounds() {
    for (header, seconds) in [("7", Some(7)), ("86400", Some(60)), ("soon", None)] {
        let server = Wire::always(Reply::error_with(503, &[("retry-after", header)], &error_body("SlowDown", "")));
        let error = get(&store_at(&server.url()).await, "key").await.expect_err("an error");

        assert_eq!(error.class, ErrorClass::Throttle);
        assert_eq!(error.retry_after, seconds.map(Duration::from_secs), "Retry-After: {header}");
    }
}

#[tokio::test]
async fn a_head_that_is_refused_without_a_word_learns_why_from_a_get_of_one_byte() {
    for (status, code, class) in [
        (403, "AccessDenied", ErrorClass::Person),
        (403, "InvalidAccessKeyId", ErrorClass::Person),
        (403, "InvalidObjectState", ErrorClass::Person),
        (400, "ExpiredToken", ErrorClass::Credentials),
        (400, "KMS.DisabledException", ErrorClass::Person),
    ] {
        let server = Wire::serve(move |request, _| match request.method.as_str() {
            "HEAD" => Reply::head(status, &[]),
            _ => Reply::error(status, code),
        });
        let error =
            store_at(&server.url()).await.head(ObjectRef::new("bucket", "key"), None).await.expect_err("an error");

        assert_eq!((error.code.as_str(), error.class), (code, class), "{error:?}");
        let requests = server.requests();
        assert_eq!(requests.len(), 2, "{requests:#?}");
        assert_eq!((requests[1].method.as_str(), requests[1].header("range")), ("GET", Some("bytes=0-0")));
    }
}

#[tokio::test]
async fn a_head_that_only_head_is_refused_stays_an_error() {
    let server = Wire::serve(|request, _| match request.method.as_str() {
        "HEAD" => Reply::head(403, &[]),
        _ => Reply::new(206, &[("etag", "\"e\""), ("content-range", "bytes 0-0/5")], "x"),
    });
    let error = store_at(&server.url()).await.head(ObjectRef::new("bucket", "key"), None).await.expect_err("an error");

    assert_eq!((error.status, error.class), (Some(403), ErrorClass::Person));
}

#[tokio::test]
async fn a_head_of_an_absent_key_is_not_found_at_once() {
    let server = Wire::always(Reply::head(404, &[]));
    let error = store_at(&server.url()).await.head(ObjectRef::new("bucket", "key"), None).await.expect_err("an error");

    assert_eq!((error.class, error.status), (ErrorClass::NotFound, Some(404)));
    assert_eq!(server.only_request().method, "HEAD");
}

#[tokio::test]
async fn services_whose_copies_keep_etags_are_known_by_name() {
    for (name, keeps) in [
        ("SeaweedFS 30GB 4.47", true),
        ("Ceph Object Gateway (squid)", true),
        ("AmazonS3", false),
        ("VERSITYGW", false),
        ("", false),
    ] {
        let server = Wire::always(Reply::new(200, &[("server", name), ("etag", "\"e-2\"")], ""));

        let found = store_at(&server.url()).await.head(ObjectRef::new("bucket", "key"), None).await.expect("an answer");

        assert_eq!(found.copies_keep_etag, keeps, "{name}");
    }
}
