//! Tests of PUTs with bodies.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use bytes::Bytes;
use seqferry_store::error::classify::code;
use seqferry_store::prelude::*;
use seqferry_store::{Attributes, ByteThrottle, ChecksumAlgorithm, Digests, ErrorClass, S3Store, UploadRef};
use seqferry_store_testing::ObjectWriteExt as _;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::server::{Reply, ReplyEnding, Wire, error_body};
use crate::{options_for, store_at};

#[tokio::test]
async fn answers_to_puts_tell_what_was_written() {
    let headers = [
        ("ETag", "\"e\""),
        ("x-amz-version-id", "v1"),
        ("x-amz-checksum-crc32", "y/Q5Jg=="),
        ("x-amz-checksum-crc64nvme", "rosUhgp5mIE="),
        ("x-amz-checksum-type", "FULL_OBJECT"),
        ("x-amz-server-side-encryption", "aws:kms"),
    ];
    let server = Wire::always(Reply::new(200, &headers, ""));
    let store = store_at(&server.url()).await;

    let written = store.put("bucket", "key", Bytes::from("body"), &Attributes::default()).await.unwrap();
    assert_eq!((written.etag.as_str(), written.version_id.as_deref()), ("e", Some("v1")));
    let checksum = written.checksum.unwrap();
    assert_eq!((checksum.algorithm, checksum.value.as_str()), (ChecksumAlgorithm::Crc64Nvme, "rosUhgp5mIE="));

    let copied = store
        .put_part(UploadRef::new("bucket", "key", "upload"), 1, Bytes::from("body"), &Digests::default())
        .await
        .unwrap();
    assert_eq!((copied.etag.as_str(), copied.checksum.as_deref()), ("e", Some("rosUhgp5mIE=")));
    assert!(copied.opaque_etag);

    // A success without an ETag is an error.
    let server = Wire::always(Reply::new(200, &[], ""));
    let store = store_at(&server.url()).await;
    let error = store.put("bucket", "key", Bytes::from("body"), &Attributes::default()).await.unwrap_err();
    assert_eq!((error.code.as_str(), error.class), (code::MALFORMED, ErrorClass::Retry));
}

#[tokio::test]
async fn puts_share_a_connection_and_none_is_sent_twice() {
    let server = Wire::serve(|_, before| match before {
        3 => Reply::none(ReplyEnding::Close),
        _ => Reply::new(200, &[("etag", "\"e\"")], ""),
    });
    let store = store_at(&server.url()).await;
    let put = async || store.put("bucket", "key", Bytes::from("body"), &Attributes::default()).await;

    for _ in 0..3 {
        put().await.unwrap();
    }
    assert_eq!(server.connections(), 1);

    // The connection ended after the request was sent: it is unknown whether it was carried out.
    let error = put().await.unwrap_err();
    assert_eq!((error.code.as_str(), error.class), (code::CONNECTION_FAILED, ErrorClass::Retry));
    assert_eq!(server.requests().len(), 4);
    put().await.unwrap();
    assert_eq!(server.connections(), 2);
}

/// Reads up to the start of a body.
fn read_head(stream: &mut TcpStream) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.extend(byte);
    }
}

/// Answers after the head of a request, and reads no body. The connection ends when the returned sender is dropped.
fn hasty(answer: String) -> (String, Sender<()>) {
    let (leave, left) = channel::<()>();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        read_head(&mut stream);
        stream.write_all(answer.as_bytes()).unwrap();
        let _until_it_is_dropped = left.recv();
    });
    (format!("http://{address}"), leave)
}

#[tokio::test]
async fn a_body_that_is_refused_before_it_is_sent_is_refused_for_what_it_is() {
    let body = error_body("AccessDenied", "");
    let refusal =
        format!("HTTP/1.1 403 Forbidden\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let announced = format!("HTTP/1.1 100 Continue\r\n\r\n{refusal}");
    for answer in [refusal, announced] {
        let (url, _stays) = hasty(answer);
        let store = store_at(&url).await;
        // The body is larger than the buffers of the connection.
        let error =
            store.put("bucket", "key", Bytes::from(vec![1; 64 << 20]), &Attributes::default()).await.unwrap_err();

        assert_eq!((error.code.as_str(), error.status), ("AccessDenied", Some(403)), "{error:?}");
    }
}

#[tokio::test]
async fn a_connection_that_ends_amid_a_body_is_an_error_to_try_again() {
    let (url, stays) = hasty(String::new());
    let store = store_at(&url).await;
    drop(stays);
    let error = store.put("bucket", "key", Bytes::from(vec![1; 64 << 20]), &Attributes::default()).await.unwrap_err();

    assert_eq!((error.code.as_str(), error.class), (code::CONNECTION_FAILED, ErrorClass::Retry), "{error:?}");
}

/// Takes a body of `size` bytes, reports the arrival of the first, and answers once all have arrived.
fn patient(size: usize) -> (String, UnboundedReceiver<()>) {
    let (arrived, arrivals) = unbounded_channel();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        read_head(&mut stream);
        let mut body = vec![0; size];
        stream.read_exact(&mut body[..1]).unwrap();
        arrived.send(()).unwrap();
        stream.read_exact(&mut body[1..]).unwrap();
        assert!(body.iter().all(|byte| *byte == 1));
        stream.write_all(b"HTTP/1.1 200 OK\r\netag: \"e\"\r\ncontent-length: 0\r\n\r\n").unwrap();
    });
    (format!("http://{address}"), arrivals)
}

#[tokio::test]
async fn a_body_is_sent_at_the_pace_of_the_limit() {
    const SIZE: usize = 400_000;
    let (url, _arrivals) = patient(SIZE);
    let throttle = ByteThrottle::new(Some(1_000_000), tokio::time::Instant::now());
    let store = S3Store::connect_throttled(options_for(&url), throttle).await;
    let start = Instant::now();

    store.put("bucket", "key", Bytes::from(vec![1; SIZE]), &Attributes::default()).await.unwrap();

    // The transfer takes at least as long as the limit requires, except for the last piece and the allowed delay of
    // timers.
    let took = start.elapsed();
    assert!(took >= Duration::from_millis(300), "{took:?}");
}

#[tokio::test]
async fn a_body_on_its_way_goes_at_once_when_the_limit_is_lifted() {
    const SIZE: usize = 400_000;
    let (url, mut arrivals) = patient(SIZE);
    let throttle = ByteThrottle::new(Some(100), tokio::time::Instant::now());
    let store = S3Store::connect_throttled(options_for(&url), throttle.clone()).await;
    let body = Bytes::from(vec![1; SIZE]);
    let sending = tokio::spawn(async move { store.put("bucket", "key", body, &Attributes::default()).await });

    arrivals.recv().await.unwrap();
    assert!(!sending.is_finished());
    throttle.set_rate(None);

    // The old limit would have taken an hour.
    sending.await.unwrap().unwrap();
}
