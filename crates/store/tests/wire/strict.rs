//! Tests of heads and bodies with an ambiguous end: they are refused, and no bytes of one answer are taken for
//! another's.

use std::fmt::Write as _;
use std::time::Duration;

use proptest::prelude::*;
use seqferry_store::error::classify::code;
use seqferry_store::prelude::*;
use seqferry_store::{ErrorClass, ObjectRef, Scope, StoreError};

use crate::server::{Reply, ReplyEnding, Wire};
use crate::{get, store_at};

fn metadata(entries: usize) -> Vec<(String, String)> {
    (0..entries).map(|nth| (format!("x-amz-meta-{nth:x}"), "v".to_owned())).collect()
}

fn with_metadata(entries: usize) -> Reply {
    let metadata = metadata(entries);
    let mut headers = vec![("etag", "\"e\"")];
    headers.extend(metadata.iter().map(|(name, value)| (name.as_str(), value.as_str())));
    Reply::new(200, &headers, "body")
}

#[tokio::test]
async fn as_much_metadata_as_s3_takes_is_read() {
    // The names and values have 2 KiB, in entries of one or two bytes and one.
    for entries in [110, 700] {
        let server = Wire::always(with_metadata(entries));
        let store = store_at(&server.url()).await;

        assert_eq!(store.head(ObjectRef::new("bucket", "key"), None).await.unwrap().attributes.metadata.len(), entries);
        assert_eq!(get(&store, "key").await.unwrap(), "body");
    }
}

#[tokio::test]
async fn a_head_that_is_too_large_is_a_fault_of_its_object_and_is_not_asked_for_again() {
    let long = "v".repeat(600 << 10);
    for reply in [with_metadata(1100), Reply::new(200, &[("etag", "\"e\""), ("x-amz-meta-long", &long)], "body")] {
        let server = Wire::always(reply);
        let store = store_at(&server.url()).await;
        let is_final = |error: &StoreError| {
            let facts = (error.code.as_str(), error.class, error.scope);
            assert_eq!(facts, (code::HEAD_TOO_LARGE, ErrorClass::Object, Scope::Object), "{:.200}", error.to_string());
        };

        is_final(&store.head(ObjectRef::new("bucket", "key"), None).await.map(|_| ()).unwrap_err());
        is_final(&get(&store, "key").await.unwrap_err());

        assert_eq!(server.requests().len(), 2);
    }
}

const LENGTH: &str = "HTTP/1.1 200 OK\r\netag: \"e\"\r\ncontent-length: 5\r\n\r\nfirst";
const CHUNKS: &str = "HTTP/1.1 200 OK\r\netag: \"e\"\r\ntransfer-encoding: chunked\r\n\r\n5\r\nfirst\r\n0\r\n\r\n";

/// Answers whose end two readers may find at different places.
fn doubtful() -> Vec<String> {
    let mut all: Vec<String> =
        ["+5", "0x5", "5 5", "5, 5", "-5", "five", "", "99999999999999999999", "5\r\ncontent-length: 6"]
            .map(|length| LENGTH.replacen("content-length: 5", &format!("content-length: {length}"), 1))
            .into();
    all.extend(
        ["+5", " 5", "0x5", "-5", "", "fffffffffffffffff", "5 5"]
            .map(|size| CHUNKS.replacen("\r\n5\r\n", &format!("\r\n{size}\r\n"), 1)),
    );
    all.push(CHUNKS.replacen("\r\n5\r\n", "\r\n5\n", 1));
    all.push(CHUNKS.replacen("first\r\n", "firstly\r\n", 1));
    all.push(CHUNKS.replacen("transfer-encoding", "content-length: 5\r\ntransfer-encoding", 1));
    all.push(CHUNKS.replacen("transfer-encoding", "transfer-encoding: chunked\r\ntransfer-encoding", 1));
    all.push(CHUNKS.replacen("chunked", "gzip, chunked", 1));
    all.push(CHUNKS.replacen("HTTP/1.1", "HTTP/1.0", 1));
    all.push(CHUNKS.replacen("200 OK", "101 Switching", 1));
    // The trailers are longer than the client reads in search of an end.
    all.push(CHUNKS.replacen("0\r\n\r\n", &format!("0\r\n{}\r\n", "trailer: value\r\n".repeat(100_000)), 1));
    all.push(CHUNKS.replacen("\r\n5\r\n", &format!("\r\n5;{}\r\n", "x".repeat(1 << 20)), 1));
    all
}

#[tokio::test]
async fn answers_without_a_certain_end_are_refused_and_their_connection_is_closed() {
    for text in doubtful() {
        let shown = text.chars().take(200).collect::<String>();
        let server = Wire::serve(move |request, before| match before {
            0 => Reply::raw(&text, ReplyEnding::Next),
            _ => Reply::new(200, &[("etag", "\"e\"")], request.path()),
        });
        let store = store_at(&server.url()).await;

        let error = get(&store, "first").await.expect_err(&shown);
        assert_eq!((error.class, error.scope), (ErrorClass::Retry, Scope::Object), "{shown}: {error:?}");
        assert_eq!(get(&store, "second").await.unwrap(), "/bucket/second", "{shown}");
        assert_eq!(server.connections(), 2, "{shown}");
    }
}

#[tokio::test]
async fn the_same_length_said_twice_and_blanks_around_it_are_no_reason_to_refuse() {
    for lengths in ["content-length: 5\r\ncontent-length: 5", "content-length:\t 5 \t"] {
        let server = Wire::always(Reply::raw(&LENGTH.replacen("content-length: 5", lengths, 1), ReplyEnding::Next));
        assert_eq!(get(&store_at(&server.url()).await, "key").await.unwrap(), "first");
    }
}

#[tokio::test]
async fn what_follows_an_answer_is_nobodys_answer() {
    let forged = "HTTP/1.1 200 OK\r\netag: \"e\"\r\ncontent-length: 6\r\n\r\nforged";
    for first in [LENGTH, CHUNKS, "HTTP/1.1 204 No Content\r\netag: \"e\"\r\n\r\n"] {
        for after in [forged, "\r\n", "x"] {
            let reply = format!("{first}{after}");
            let server = Wire::serve(move |request, before| match before {
                0 => Reply::raw(&reply, ReplyEnding::Next),
                _ => Reply::new(200, &[("etag", "\"e\"")], request.path()),
            });
            let store = store_at(&server.url()).await;

            let _whatever = get(&store, "first").await;

            assert_eq!(get(&store, "second").await.unwrap(), "/bucket/second", "{first:?} {after:?}");
            assert_eq!(server.connections(), 2, "{first:?} {after:?}");
        }
    }
}

#[tokio::test]
async fn an_answer_that_has_no_body_and_announces_one_ends_its_connection() {
    for status in ["204 No Content", "304 Not Modified"] {
        for (announced, connections) in
            [("", 1), ("content-length: 0\r\n", 1), ("content-length: 5\r\n", 2), ("transfer-encoding: chunked\r\n", 2)]
        {
            let reply = format!("HTTP/1.1 {status}\r\netag: \"e\"\r\n{announced}\r\n");
            let server = Wire::serve(move |request, before| match before {
                0 => Reply::raw(&reply, ReplyEnding::Next),
                _ => Reply::new(200, &[("etag", "\"e\"")], request.path()),
            });
            let store = store_at(&server.url()).await;

            let _whatever = get(&store, "first").await;

            assert_eq!(get(&store, "second").await.unwrap(), "/bucket/second", "{status} {announced:?}");
            assert_eq!(server.connections(), connections, "{status} {announced:?}");
        }
    }
}

/// Texts that make an answer invalid.
const SPOILERS: &[&str] = &[
    "\r\n",
    "\n",
    "\r",
    "0\r\n\r\n",
    "5\r\n",
    "a",
    "\0",
    "\u{e9}",
    "content-length: 0\r\n",
    "content-length: 4\r\n",
    "transfer-encoding: chunked\r\n",
    "connection: keep-alive\r\n",
    "HTTP/1.1 100 Continue\r\n\r\n",
    "HTTP/1.1 200 OK\r\ncontent-length: 6\r\netag: \"f\"\r\n\r\nforged",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn whatever_is_answered_no_answer_is_taken_for_that_of_another_request(
        chunked: bool,
        spoilers in proptest::collection::vec((any::<proptest::sample::Index>(), proptest::sample::select(SPOILERS), 0_usize..6), 1..4),
        after in proptest::option::of(proptest::sample::select(SPOILERS)),
    ) {
        let mut text: Vec<char> = if chunked { CHUNKS } else { LENGTH }.chars().collect();
        for (at, spoiler, instead_of) in spoilers {
            let at = at.index(text.len());
            let end = text.len().min(at + instead_of);
            text.splice(at..end, spoiler.chars());
        }
        let mut text: String = text.into_iter().collect();
        let _never_fails = write!(text, "{}", after.unwrap_or_default());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();

        let second = runtime.block_on(async {
            let server = Wire::serve(move |request, before| match before {
                0 => Reply::raw(&text, ReplyEnding::Next),
                _ => Reply::new(200, &[("etag", "\"e\"")], request.path()),
            });
            let store = store_at(&server.url()).await;
            // The bytes that the request still waits for never arrive.
            let _whatever = tokio::time::timeout(Duration::from_millis(100), get(&store, "first")).await;
            get(&store, "second").await
        });

        prop_assert_eq!(second.unwrap(), "/bucket/second");
    }
}
