//! Tests of requests on the wire: paths, headers and bodies in S3's form.

use bytes::Bytes;
use proptest::prelude::{Strategy as _, any, proptest};
use proptest::test_runner::{Config, FileFailurePersistence};
use seqferry_store::checksum::crc64nvme;
use seqferry_store::prelude::*;
use seqferry_store::{
    Attributes, Checksum, ChecksumAlgorithm, ChecksumKind, CompleteUpload, CompletedPart, CopyTarget, CreateUpload,
    Digests, ErrorClass, ListRequest, ObjectRef, PinnedObject, Range, S3Store, Scope, UploadRef,
};
use seqferry_store_testing::ObjectWriteExt as _;

use crate::server::{Reply, Request, Wire};
use crate::{get, object, store_at};

/// Keys that HTTP libraries tend to normalize.
fn keys() -> Vec<String> {
    let mut keys: Vec<String> = [
        "plain",
        "a//b",
        "x/./y",
        "x/../y",
        "../up",
        "..",
        ".",
        "/leading",
        "//two",
        "trailing/",
        "trailing//",
        "/",
        "a%2Fb",
        "100%",
        "a b",
        "a+b",
        "a?b=c",
        "a#b",
        "a&b=c;d",
        "a\\b",
        "tab\there",
        "line\nfeed",
        "carriage\rreturn",
        "\u{1}",
        "\u{7f}",
        "'\"<>[]{}|^`",
        "!$()*,:;=@~",
        "caf\u{e9}",
        "cafe\u{301}",
        "\u{1f9ec}.gz",
        "https://elsewhere.example/path",
    ]
    .map(str::to_owned)
    .to_vec();
    keys.push("k".repeat(1024));
    keys.push("\u{1f9ec}".repeat(256));
    keys
}

/// Encodes a key by RFC 3986: all but unreserved characters and slashes, in upper case.
fn encoded(key: &str) -> String {
    key.bytes()
        .map(|byte| match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => char::from(byte).to_string(),
            other => format!("%{other:02X}"),
        })
        .collect()
}

fn decoded(text: &str) -> Vec<u8> {
    let (mut bytes, mut decoded) = (text.bytes(), Vec::new());
    while let Some(byte) = bytes.next() {
        decoded.push(if byte == b'%' {
            let digits = [bytes.next().unwrap(), bytes.next().unwrap()];
            u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap()
        } else {
            byte
        });
    }
    decoded
}

/// Answers every request with success.
fn obliging(request: &Request) -> Reply {
    match request.method.as_str() {
        "GET" if request.query().contains("list-type") => {
            Reply::xml("<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>")
        }
        "GET" => Reply::new(200, &[("etag", "\"e\"")], "body"),
        "POST" if request.query().contains("uploadId") => {
            Reply::xml("<CompleteMultipartUploadResult><ETag>&quot;e-1&quot;</ETag></CompleteMultipartUploadResult>")
        }
        "POST" => {
            Reply::xml("<InitiateMultipartUploadResult><UploadId>upload</UploadId></InitiateMultipartUploadResult>")
        }
        "PUT" if request.header("x-amz-copy-source").is_some() && request.query().contains("partNumber") => {
            Reply::xml("<CopyPartResult><ETag>&quot;e&quot;</ETag></CopyPartResult>")
        }
        "PUT" if request.header("x-amz-copy-source").is_some() => {
            Reply::xml("<CopyObjectResult><ETag>&quot;e&quot;</ETag></CopyObjectResult>")
        }
        "DELETE" => Reply::new(204, &[], ""),
        _ => Reply::new(200, &[("etag", "\"e\"")], ""),
    }
}

async fn obliging_server() -> (Wire, S3Store) {
    let server = Wire::serve(|request, _| obliging(request));
    let store = store_at(&server.url()).await;
    (server, store)
}

fn last(server: &Wire) -> Request {
    server.requests().pop().expect("a request")
}

#[tokio::test]
async fn keys_go_out_byte_for_byte() {
    let (server, store) = obliging_server().await;

    for key in keys() {
        let path = format!("/bucket/{}", encoded(&key));
        let part = Range { first: 0, last: 9 };
        let create = CreateUpload { bucket: "bucket".into(), key: key.clone(), ..CreateUpload::default() };
        let complete = CompleteUpload {
            bucket: "bucket".into(),
            key: key.clone(),
            upload_id: "upload".into(),
            parts: vec![CompletedPart { number: 1, etag: "e".into(), checksum: None }],
            ..CompleteUpload::default()
        };
        let before = server.requests().len();
        store.head(ObjectRef::new("bucket", &key), None).await.unwrap();
        get(&store, &key).await.unwrap();
        store.put("bucket", &key, Bytes::from("body"), &Attributes::default()).await.unwrap();
        store.delete(ObjectRef::new("bucket", &key)).await.unwrap();
        store.copy(&object("source"), CopyTarget::new("bucket", &key)).await.unwrap();
        store.create_upload(&create).await.unwrap();
        store.copy_part(&object("source"), part, UploadRef::new("bucket", &key, "upload"), 1).await.unwrap();
        store
            .put_part(UploadRef::new("bucket", &key, "upload"), 1, Bytes::from("body"), &Digests::default())
            .await
            .unwrap();
        store.complete_upload(&complete).await.unwrap();
        store.abort_upload(UploadRef::new("bucket", &key, "upload")).await.unwrap();

        let requests = server.requests();
        assert_eq!(requests.len(), before + 10);
        for request in &requests[before..] {
            assert_eq!(request.path(), path, "{} of {key:?}", request.method);
        }
    }
}

#[tokio::test]
async fn copy_sources_go_out_byte_for_byte() {
    let (server, store) = obliging_server().await;

    for key in keys() {
        store.copy(&object(&key), CopyTarget::new("bucket", "target")).await.unwrap();
        let whole = last(&server).header("x-amz-copy-source").unwrap().to_owned();
        store
            .copy_part(&object(&key), Range { first: 5, last: 9 }, UploadRef::new("bucket", "target", "upload"), 1)
            .await
            .unwrap();
        let part = last(&server);

        assert_eq!(whole, format!("bucket/{}", encoded(&key)), "{key:?}");
        assert_eq!(part.header("x-amz-copy-source"), Some(whole.as_str()));
        assert_eq!(part.header("x-amz-copy-source-range"), Some("bytes=5-9"));
    }
}

#[tokio::test]
async fn reads_and_copies_are_pinned() {
    let (server, store) = obliging_server().await;
    let source =
        PinnedObject { version_id: Some("3-L4kqtJl.v_1~".into()), if_match: Some("abc-3".into()), ..object("key") };

    let _ = store.get(&source, Some(Range { first: 0, last: 3 })).await.unwrap();
    let read = last(&server);
    assert_eq!((read.header("if-match"), read.header("range")), (Some("\"abc-3\""), Some("bytes=0-3")));
    assert!(read.query().contains("versionId=3-L4kqtJl.v_1~"), "{}", read.query());

    store
        .copy(
            &source,
            CopyTarget {
                storage_class: Some("STANDARD_IA"),
                checksum: Some(ChecksumAlgorithm::Crc64Nvme),
                ..CopyTarget::new("bucket", "target")
            },
        )
        .await
        .unwrap();
    let copy = last(&server);
    assert_eq!(copy.header("x-amz-copy-source-if-match"), Some("\"abc-3\""));
    assert_eq!(copy.header("x-amz-copy-source"), Some("bucket/key?versionId=3-L4kqtJl.v_1~"));
    assert_eq!(copy.header("x-amz-storage-class"), Some("STANDARD_IA"));
    assert_eq!(copy.header("x-amz-checksum-algorithm"), Some("CRC64NVME"));
    // Without attributes in the request the service copies metadata and tags.
    assert_eq!((copy.header("x-amz-metadata-directive"), copy.header("x-amz-tagging-directive")), (None, None));
    assert_eq!((copy.header("if-none-match"), copy.header("if-match")), (None, None));
    for (if_absent, if_match) in [(true, None), (false, Some("abc"))] {
        store.copy(&source, CopyTarget { if_absent, if_match, ..CopyTarget::new("bucket", "target") }).await.unwrap();
        let copy = last(&server);
        let sent = (copy.header("if-none-match"), copy.header("if-match"));
        assert_eq!(sent, (if_absent.then_some("*"), if_match.map(|_| "\"abc\"")));
        assert_eq!(copy.header("x-amz-copy-source-if-match"), Some("\"abc-3\""), "that of the source stays");
    }

    store
        .copy_part(&source, Range { first: 0, last: 9 }, UploadRef::new("bucket", "target", "upload"), 7)
        .await
        .unwrap();
    let part = last(&server);
    assert_eq!(part.header("x-amz-copy-source-if-match"), Some("\"abc-3\""));
    assert!(part.query().contains("partNumber=7") && part.query().contains("uploadId=upload"), "{}", part.query());
}

#[tokio::test]
async fn bodies_are_checksummed_instead_of_hashed() {
    let (server, store) = obliging_server().await;

    for size in [0, 1, 70_000, 3 << 20] {
        let body = Bytes::from(seqferry_testkit::data::bytes(size as u64, size));
        store.put("bucket", "key", body.clone(), &Attributes::default()).await.unwrap();
        let whole = last(&server);
        let digests = Digests::crc64nvme(&body);
        store.put_part(UploadRef::new("bucket", "key", "upload"), 1, body.clone(), &digests).await.unwrap();
        let part = last(&server);

        for request in [whole, part] {
            assert_eq!(request.header("x-amz-content-sha256"), Some("UNSIGNED-PAYLOAD"));
            assert_eq!(request.header("x-amz-checksum-crc64nvme"), Some(crc64nvme(&body).as_str()));
            assert_eq!(request.header("content-length"), Some(size.to_string().as_str()));
            // The body has no chunked form, since several services do not know it.
            assert_eq!((request.header("content-encoding"), request.header("x-amz-trailer")), (None, None));
            assert_eq!(request.body, body);
        }
    }
}

#[tokio::test]
async fn requests_without_an_object_body_carry_no_checksum_that_nobody_asked_for() {
    let (server, store) = obliging_server().await;

    store.head(ObjectRef::new("bucket", "key"), None).await.unwrap();
    store.copy(&object("source"), CopyTarget::new("bucket", "key")).await.unwrap();
    store
        .create_upload(&CreateUpload { bucket: "bucket".into(), key: "key".into(), ..CreateUpload::default() })
        .await
        .unwrap();

    for request in server.requests() {
        let sent = request
            .headers
            .iter()
            .filter(|(name, _)| name.starts_with("x-amz-checksum-") || name == "x-amz-sdk-checksum-algorithm");
        let sent: Vec<_> = sent.filter(|(name, _)| name != "x-amz-checksum-mode").collect();
        assert!(sent.is_empty(), "{sent:?}");
    }
}

#[tokio::test]
async fn keys_of_blanks_alone_are_refused_for_what_they_are() {
    let (server, store) = obliging_server().await;

    for key in [" ", "\n", "\u{2003} "] {
        for error in [
            get(&store, key).await.unwrap_err(),
            store.copy(&object("source"), CopyTarget::new("bucket", key)).await.unwrap_err(),
        ] {
            assert_eq!((error.class, error.scope), (ErrorClass::Object, Scope::Object), "{error:?}");
            assert!(!error.message.is_empty());
        }
    }
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn keys_of_uploads_are_told_by_the_prefix_where_the_service_claims_an_encoding() {
    let page = |key: &str| {
        format!(
            "<ListMultipartUploadsResult><EncodingType>url</EncodingType><Upload><Key>{key}</Key>\
             <UploadId>id</UploadId></Upload></ListMultipartUploadsResult>"
        )
    };
    // SeaweedFS sends keys of uploads unencoded, and claims to encode them.
    for (sent, prefix, meant) in [
        ("a+b", "a+b", "a+b"),
        ("a%2Bb", "a+b", "a+b"),
        ("a+b", "a b", "a b"),
        ("a%20b", "a b", "a b"),
        ("a%20b", "a%20b", "a%20b"),
        ("a%2520b", "a%20b", "a%20b"),
        ("x%20y", "", "x y"),
    ] {
        let server = Wire::always(Reply::xml(&page(sent)));
        let uploads = store_at(&server.url()).await.list_uploads("bucket", prefix).await.unwrap();
        assert_eq!(uploads[0].key, meant, "{sent} below {prefix}");
    }
}

fn attributes() -> Attributes {
    Attributes {
        content_type: Some("application/gzip".into()),
        content_encoding: Some("gzip".into()),
        content_language: Some("de".into()),
        content_disposition: Some("attachment; filename=\"a.gz\"".into()),
        cache_control: Some("max-age=60".into()),
        // The text is no standard time: it is still passed on.
        expires: Some("Thu, 1 Dec 2994 16:00:00 GMT+1".into()),
        website_redirect: Some("/elsewhere".into()),
        metadata: [("sample".to_owned(), "s 1".to_owned()), ("run".to_owned(), "42".to_owned())].into(),
    }
}

#[tokio::test]
async fn attributes_go_out_with_both_ways_of_writing() {
    let (server, store) = obliging_server().await;
    let create = CreateUpload {
        bucket: "bucket".into(),
        key: "key".into(),
        attributes: attributes(),
        tags: vec![("project".into(), "a b&c=d/\u{fc}".into()), ("empty".into(), String::new())],
        storage_class: Some("STANDARD_IA".into()),
        checksum: Some((ChecksumAlgorithm::Crc64Nvme, ChecksumKind::FullObject)),
        ..CreateUpload::default()
    };

    store.put("bucket", "key", Bytes::from("body"), &attributes()).await.unwrap();
    let put = last(&server);
    store.create_upload(&create).await.unwrap();
    let created = last(&server);

    for request in [&put, &created] {
        for (name, value) in [
            ("content-type", "application/gzip"),
            ("content-encoding", "gzip"),
            ("content-language", "de"),
            ("content-disposition", "attachment; filename=\"a.gz\""),
            ("cache-control", "max-age=60"),
            ("expires", "Thu, 1 Dec 2994 16:00:00 GMT+1"),
            ("x-amz-website-redirect-location", "/elsewhere"),
            ("x-amz-meta-sample", "s 1"),
            ("x-amz-meta-run", "42"),
        ] {
            assert_eq!(request.header(name), Some(value), "{name} of {} {}", request.method, request.query());
        }
    }
    assert_eq!(created.header("x-amz-tagging"), Some("project=a%20b%26c%3Dd%2F%C3%BC&empty="));
    assert_eq!(created.header("x-amz-storage-class"), Some("STANDARD_IA"));
    assert_eq!(created.header("x-amz-checksum-algorithm"), Some("CRC64NVME"));
    assert_eq!(created.header("x-amz-checksum-type"), Some("FULL_OBJECT"));
}

#[tokio::test]
async fn completion_tells_size_and_checksums() {
    let (server, store) = obliging_server().await;
    let sum = |value: &str| Some(value.to_owned());
    let upload = CompleteUpload {
        bucket: "bucket".into(),
        key: "key".into(),
        upload_id: "up load+1".into(),
        parts: vec![
            CompletedPart { number: 1, etag: "aa".into(), checksum: sum("AAAAAAAAAAA=") },
            CompletedPart { number: 3, etag: "bb".into(), checksum: sum("BBBBBBBBBBB=") },
        ],
        size: 12_345,
        checksum: Some(ChecksumAlgorithm::Crc64Nvme),
        whole: Some(Checksum::from_header(ChecksumAlgorithm::Crc64Nvme, "CCCCCCCCCCC=", Some(false))),
        if_absent: true,
        if_match: None,
    };

    assert_eq!(store.complete_upload(&upload).await.unwrap().etag, "e-1");

    let request = last(&server);
    assert_eq!(request.query().split('&').find(|pair| pair.starts_with("uploadId")), Some("uploadId=up%20load%2B1"));
    assert_eq!(request.header("x-amz-mp-object-size"), Some("12345"));
    assert_eq!(request.header("if-none-match"), Some("*"));
    assert_eq!(request.header("x-amz-checksum-crc64nvme"), Some("CCCCCCCCCCC="));
    assert_eq!(request.header("x-amz-checksum-type"), Some("FULL_OBJECT"));
    let body = String::from_utf8(request.body).unwrap();
    for wanted in ["<PartNumber>1</PartNumber>", "<PartNumber>3</PartNumber>", "AAAAAAAAAAA=", "BBBBBBBBBBB="] {
        assert!(body.contains(wanted), "{body}");
    }
}

const TIME: &str = "<LastModified>2026-01-01T00:00:00Z</LastModified>";

/// A page of a listing with these keys, in the form of `encoding-type=url`, and perhaps with a group of each.
fn page_of(keys: &[String], query_encoding: bool, grouped: bool) -> String {
    let entries = keys.iter().map(|key| {
        // A plus encodes a space in MinIO and older services.
        let text = if query_encoding { encoded(key).replace("%20", "+") } else { encoded(key) };
        let group = format!("<CommonPrefixes><Prefix>{text}/</Prefix></CommonPrefixes>");
        let object = format!("<Contents><Key>{text}</Key><Size>1</Size><ETag>&quot;e&quot;</ETag>{TIME}</Contents>");
        if grouped { object + &group } else { object }
    });
    let entries = entries.collect::<Vec<_>>().concat();
    format!(
        "<ListBucketResult><IsTruncated>false</IsTruncated><EncodingType>url</EncodingType>{entries}</ListBucketResult>"
    )
}

#[tokio::test]
async fn listed_keys_are_read_byte_for_byte() {
    for query_encoding in [false, true] {
        let prefix = "a b+c%&\u{fc}";
        // Those with the delimiter would be grouped.
        let names = keys().into_iter().filter(|key| !key.contains('/'));
        let keys: Vec<String> = names.map(|key| format!("{prefix}{key}")).collect();
        assert!(keys.len() > 10, "{keys:?}");
        let server = Wire::always(Reply::xml(&page_of(&keys, query_encoding, true)));
        let store = store_at(&server.url()).await;
        let request = ListRequest {
            bucket: "bucket".into(),
            prefix: prefix.into(),
            delimiter: Some("/".into()),
            start_after: Some("a b+c%&\u{fc}\n".into()),
            ..ListRequest::default()
        };

        let page = store.list(&request).await.unwrap();

        assert_eq!(page.objects.iter().map(|object| object.key.clone()).collect::<Vec<_>>(), keys);
        assert_eq!(page.common_prefixes, keys.iter().map(|key| format!("{key}/")).collect::<Vec<_>>());
        let query = last(&server).query().to_owned();
        for wanted in [
            "encoding-type=url",
            "prefix=a%20b%2Bc%25%26%C3%BC",
            "start-after=a%20b%2Bc%25%26%C3%BC%0A",
            "delimiter=%2F",
        ] {
            assert!(query.split('&').any(|pair| pair == wanted), "{wanted} in {query}");
        }
    }
}

#[tokio::test]
async fn keys_listed_without_an_encoding_are_taken_as_they_are() {
    let server = Wire::always(Reply::xml(
        "<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>a+b%20c &amp; d&#13;</Key><Size>1</Size>\
         <LastModified>2026-01-01T00:00:00Z</LastModified></Contents></ListBucketResult>",
    ));
    let request = ListRequest { bucket: "bucket".into(), ..ListRequest::default() };
    let page = store_at(&server.url()).await.list(&request).await.unwrap();

    assert_eq!(page.objects[0].key, "a+b%20c & d\r");
}

#[tokio::test]
async fn tags_survive_the_way_as_xml() {
    let (server, store) = obliging_server().await;
    let tags = [("a&b".to_owned(), "<c> \"d\" + %20 \u{fc}".to_owned()), ("empty".to_owned(), String::new())];
    store.put_tags(ObjectRef::new("bucket", "key"), &tags).await.unwrap();
    let sent = String::from_utf8(last(&server).body).unwrap();

    let echo = Wire::always(Reply::xml(&sent));
    assert_eq!(store_at(&echo.url()).await.get_tags(ObjectRef::new("bucket", "key")).await.unwrap(), tags);
}

proptest! {
    #![proptest_config(Config {
        cases: 300,
        failure_persistence: Some(Box::new(FileFailurePersistence::Off)),
        ..Config::default()
    })]

    /// Checks a batch of keys per case: each case has a server and a store of its own, since sharing them would need a
    /// runtime for all cases.
    #[test]
    fn any_key_goes_out_and_comes_back(
        keys in proptest::collection::vec(any::<String>().prop_filter("bytes, not all of them blank", |key| key.len() <= 1024 && !key.trim().is_empty()), 1..20)
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let listing = page_of(&keys, false, false);
            let server = Wire::serve(move |request, _| {
                if request.query().contains("list-type") { Reply::xml(&listing) } else { obliging(request) }
            });
            let store = store_at(&server.url()).await;

            for key in &keys {
                store.copy(&object(key), CopyTarget::new("bucket", key)).await.unwrap();
                let request = last(&server);
                let source = request.header("x-amz-copy-source").unwrap();
                assert_eq!(decoded(source.strip_prefix("bucket/").unwrap()), key.as_bytes());
                assert_eq!(decoded(request.path().strip_prefix("/bucket/").unwrap()), key.as_bytes());
            }
            let page = store.list(&ListRequest { bucket: "bucket".into(), ..ListRequest::default() }).await.unwrap();
            assert_eq!(page.objects.into_iter().map(|object| object.key).collect::<Vec<_>>(), keys);
        });
    }
}
