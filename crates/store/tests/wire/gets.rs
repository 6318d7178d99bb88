//! Tests of the answers to GETs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use seqferry_store::error::classify::code;
use seqferry_store::prelude::*;
use seqferry_store::{ErrorClass, ObjectRef, PinnedObject, Range, S3Store, StoreError};

use crate::server::{Reply, ReplyEnding, Wire, error_body};
use crate::{get, object, store_at};

/// All headers of S3 with attributes of an object.
const FACTS: [(&str, &str); 26] = [
    ("ETag", "\"d41d8cd98f00b204e9800998ecf8427e-7\""),
    ("Last-Modified", "Wed, 21 Oct 2015 07:28:00 GMT"),
    ("x-amz-version-id", "3-L4kqtJl"),
    ("x-amz-storage-class", "STANDARD_IA"),
    ("x-amz-checksum-crc64nvme", "rosUhgp5mIE="),
    ("x-amz-checksum-crc32c", "4waSgw=="),
    ("x-amz-checksum-crc32", "y/Q5Jg=="),
    ("x-amz-checksum-sha256", "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="),
    ("x-amz-checksum-sha1", "2jmj7l5rSw0yVb/vlWAYkK/YBwk="),
    ("x-amz-checksum-type", "COMPOSITE"),
    ("x-amz-mp-parts-count", "7"),
    ("Content-Type", "application/gzip"),
    ("Content-Encoding", "gzip,aws-chunked, br"),
    ("Content-Language", "de, en"),
    ("Content-Disposition", "attachment; filename=\"a b.fastq.gz\""),
    ("Cache-Control", "max-age=30, no-transform"),
    ("Expires", "no date at all"),
    ("x-amz-website-redirect-location", "/other"),
    ("x-amz-meta-Sample", "NA12878"),
    ("x-amz-meta-mtime", "1500000000.25"),
    ("x-amz-meta-empty", ""),
    ("x-amz-meta-quoted", "=?UTF-8?Q?=C3=A4?="),
    ("x-amz-tagging-count", "3"),
    ("x-amz-missing-meta", "2"),
    ("x-amz-server-side-encryption", "aws:kms"),
    ("x-amz-delete-marker", "false"),
];

#[tokio::test]
async fn a_get_tells_the_facts_that_a_head_tells() {
    // The answers have all headers, each header left out, and each header empty.
    let mut answers = vec![FACTS.to_vec()];
    for missing in 0..FACTS.len() {
        let mut facts = FACTS.to_vec();
        facts.remove(missing);
        answers.push(facts);
        let mut facts = FACTS.to_vec();
        facts[missing].1 = "";
        answers.push(facts);
    }
    let now = Arc::new(Mutex::new(Vec::new()));
    let answer = Arc::clone(&now);
    let server = Wire::serve(move |_, _| Reply::new(200, &answer.lock().unwrap(), "twelve bytes"));
    let store = store_at(&server.url()).await;

    for facts in answers {
        now.lock().unwrap().clone_from(&facts);
        let from_head = store.head(ObjectRef::new("bucket", "key"), None).await.unwrap();
        let fetched = store.fetch(&object("key"), None).await.unwrap().meta;

        assert_eq!(format!("{fetched:?}"), format!("{from_head:?}"), "{facts:?}");
        assert_eq!(fetched.size, 12);
    }
}

/// Returns the bytes of an answer's body.
async fn came(reply: Reply) -> Result<Vec<u8>, StoreError> {
    let server = Wire::always(reply);
    get(&store_at(&server.url()).await, "key").await.map(|bytes| bytes.to_vec())
}

#[tokio::test]
async fn bodies_end_where_their_head_says() {
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
                   5\r\nfirst\r\n00006 ; name=value\r\n, then\r\nB\r\n the others\r\n0\r\nx-amz-trailer: t\r\n\r\n";
    assert_eq!(came(Reply::raw(chunked, ReplyEnding::Next)).await.unwrap(), b"first, then the others");

    // The body ends with the connection: no length is announced, so no missing bytes can be noticed.
    let closed = "HTTP/1.0 200 OK\r\nServer: old\r\n\r\nuntil here";
    assert_eq!(came(Reply::raw(closed, ReplyEnding::Close)).await.unwrap(), b"until here");

    let announced = "HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nbody";
    assert_eq!(came(Reply::raw(announced, ReplyEnding::Next)).await.unwrap(), b"body");

    let bare = "HTTP/1.1 200 OK\ncontent-length: 4\n\nbody";
    assert_eq!(came(Reply::raw(bare, ReplyEnding::Next)).await.unwrap(), b"body");
}

#[tokio::test]
async fn refusals_are_understood_however_their_body_is_sent() {
    let body = error_body("AccessDenied", "");
    let chunked =
        format!("HTTP/1.1 403 Forbidden\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    let closed = format!("HTTP/1.1 403 Forbidden\r\nconnection: close\r\n\r\n{body}");
    for reply in [
        Reply::raw(&chunked, ReplyEnding::Next),
        Reply::raw(&closed, ReplyEnding::Close),
        Reply::error(403, "AccessDenied"),
    ] {
        let error = came(reply).await.unwrap_err();
        assert_eq!((error.code.as_str(), error.status), ("AccessDenied", Some(403)));
        assert_eq!(error.message, "the text of AccessDenied");
    }
}

#[tokio::test]
async fn bodies_whose_framing_makes_no_sense_never_pass_for_whole() {
    let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    let long = "x".repeat(100_000);
    for rest in [
        "zz\r\nbody",
        "5\r\nbody and more\r\n0\r\n\r\n",
        "4\r\nbody",
        "4\r\nbody\r\n",
        "-4\r\nbody\r\n0\r\n\r\n",
        "",
        "4\r\nbody\r\n0\r\n",
        &long,
    ] {
        let error = came(Reply::raw(&format!("{head}{rest}"), ReplyEnding::Close)).await.unwrap_err();
        assert_eq!((error.code.as_str(), error.class), (code::TRUNCATED, ErrorClass::Retry), "{rest:.20}: {error:?}");
    }
    for head in [
        "HTTP/1.1 200 OK\r\ncontent-length: 4\r\ncontent-length: 5\r\n\r\nbody",
        "HTTP/1.1 200 OK\r\ncontent-length: four\r\n\r\nbody",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\nbody",
        "HTTP/2 200 OK\r\ncontent-length: 4\r\n\r\nbody",
    ] {
        let error = came(Reply::raw(head, ReplyEnding::Close)).await.unwrap_err();
        assert_eq!(
            (error.code.as_str(), error.class),
            (code::CONNECTION_FAILED, ErrorClass::Retry),
            "{head:.60}: {error:?}"
        );
    }
}

async fn whole(store: &S3Store) {
    assert_eq!(get(store, "key").await.unwrap(), "body");
}

#[tokio::test]
async fn a_connection_serves_one_get_after_the_other() {
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n";
    let server = Wire::serve(move |_, before| match before % 3 {
        0 => Reply::new(200, &[], "body"),
        1 => Reply::raw(chunked, ReplyEnding::Next),
        _ => Reply::error(404, "NoSuchKey"),
    });
    let store = store_at(&server.url()).await;

    for _ in 0..3 {
        whole(&store).await;
        whole(&store).await;
        get(&store, "key").await.unwrap_err();
    }

    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn a_connection_that_cannot_be_trusted_serves_no_other() {
    for reply in [
        "HTTP/1.1 200 OK\r\nConnection: keep-alive, Close\r\ncontent-length: 4\r\n\r\nbody",
        "HTTP/1.0 200 OK\r\ncontent-length: 4\r\n\r\nbody",
        // Surplus bytes: they would become the start of the next answer.
        "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nbodyHTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil",
    ] {
        let server = Wire::always(Reply::raw(reply, ReplyEnding::Next));
        let store = store_at(&server.url()).await;
        whole(&store).await;
        whole(&store).await;
        assert_eq!(server.connections(), 2, "{reply}");
    }

    // A connection with an unread body.
    let server = Wire::always(Reply::new(200, &[], "body"));
    let store = store_at(&server.url()).await;
    drop(store.get(&object("key"), None).await.unwrap());
    whole(&store).await;
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn a_connection_that_was_closed_while_nobody_used_it_is_no_error() {
    for then in [ReplyEnding::Close, ReplyEnding::Reset] {
        let leaves = Arc::new(AtomicBool::new(true));
        let left = Arc::clone(&leaves);
        // The second request on a connection is not answered, as if the connection had been closing.
        let server = Wire::serve(move |_, before| match before {
            0 => Reply::new(200, &[], "body"),
            _ if left.swap(false, Ordering::Relaxed) => Reply::none(then),
            _ => Reply::new(200, &[], "body"),
        });
        let store = store_at(&server.url()).await;

        whole(&store).await;
        whole(&store).await;

        assert_eq!((server.connections(), server.requests().len()), (2, 3), "{then:?}");
    }
}

#[tokio::test]
async fn a_range_tells_the_size_of_the_whole_object() {
    let head = "HTTP/1.1 206 Partial Content\r\ncontent-range: bytes 5-8/100\r\nETag: \"e\"\r\n";
    let server = Wire::always(Reply::raw(&format!("{head}content-length: 4\r\n\r\nbody"), ReplyEnding::Next));
    let store = store_at(&server.url()).await;
    let source = PinnedObject { if_match: Some("e".to_owned()), ..object("key") };
    let fetched = store.fetch(&source, Some(Range { first: 5, last: 8 })).await.unwrap();

    assert_eq!((fetched.meta.size, fetched.meta.etag.as_str()), (100, "e"));
    assert_eq!(server.only_request().header("if-match"), Some("\"e\""));
    assert_eq!(server.only_request().header("range"), Some("bytes=5-8"));
}
