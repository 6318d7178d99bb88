//! Tests of services that compress or decompress objects on the way.

use bytes::Bytes;
use futures::TryStreamExt as _;
use seqferry_store::error::classify::code;
use seqferry_store::prelude::*;
use seqferry_store::{ErrorClass, PinnedObject, Range, Result, S3Store};

use crate::server::{Reply, ReplyEnding, Request, Wire};
use crate::{object, store_at};

const STORED: &str = "gzipped";
const DECOMPRESSED: &str = "sixteen bytes at";

fn pinned() -> PinnedObject {
    PinnedObject { if_match: Some("e".to_owned()), size: STORED.len() as u64, ..object("key") }
}

async fn read(store: &S3Store, range: Option<Range>) -> Result<Bytes> {
    let chunks: Vec<Bytes> = store.get(&pinned(), range).await?.into_stream().try_collect().await?;
    Ok(chunks.concat().into())
}

/// Answers with these bytes, or the range of them that is requested.
fn answer(request: &Request, whole: &str, encoding: Option<&str>) -> Reply {
    let mut headers = vec![("etag", "\"e\"".to_owned())];
    headers.extend(encoding.map(|encoding| ("content-encoding", encoding.to_owned())));
    let range = request.header("range").map(|range| {
        let (first, last) = range.trim_start_matches("bytes=").split_once('-').unwrap();
        (first.parse::<usize>().unwrap(), last.parse::<usize>().unwrap().min(whole.len() - 1))
    });
    headers.extend(range.map(|(first, last)| ("content-range", format!("bytes {first}-{last}/{}", whole.len()))));
    let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    match range {
        Some((first, last)) => Reply::new(206, &headers, &whole[first..=last]),
        None => Reply::new(200, &headers, whole),
    }
}

/// Answers with chunks, which mark the end of the body and state no length.
fn chunked(whole: &str) -> Reply {
    let head = "HTTP/1.1 200 OK\r\netag: \"e\"\r\ntransfer-encoding: chunked\r\n\r\n";
    Reply::raw(&format!("{head}{:x}\r\n{whole}\r\n0\r\n\r\n", whole.len()), ReplyEnding::Next)
}

fn accepts(request: &Request, encoding: &str) -> bool {
    request.header("accept-encoding").is_some_and(|accepted| accepted.contains(encoding))
}

#[tokio::test]
async fn an_object_that_is_decompressed_on_the_way_is_asked_for_as_it_is_stored() {
    for range in [None, Some(Range { first: 2, last: 4 })] {
        let server = Wire::serve(|request, _| {
            if accepts(request, "gzip") {
                answer(request, STORED, Some("gzip"))
            } else {
                answer(request, DECOMPRESSED, None)
            }
        });
        let store = store_at(&server.url()).await;
        let wanted = if range.is_none() { STORED } else { &STORED[2..=4] };

        assert_eq!(read(&store, range).await.unwrap(), wanted);
        assert_eq!(server.requests().len(), 2);
        assert_eq!(read(&store, range).await.unwrap(), wanted);
        assert_eq!(server.requests().len(), 3, "the form is remembered");
    }
}

#[tokio::test]
async fn a_service_that_compresses_unasked_is_asked_not_to() {
    let server = Wire::serve(|request, _| {
        if accepts(request, "identity") {
            answer(request, STORED, None)
        } else {
            answer(request, DECOMPRESSED, Some("gzip"))
        }
    });

    assert_eq!(read(&store_at(&server.url()).await, None).await.unwrap(), STORED);
    assert_eq!(server.only_request().header("accept-encoding"), Some("identity"));
}

#[tokio::test]
async fn an_object_that_comes_in_no_form_as_it_is_stored_is_an_error_that_says_so() {
    for range in [None, Some(Range { first: 2, last: 4 })] {
        let server = Wire::serve(|request, _| answer(request, DECOMPRESSED, None));

        let error = read(&store_at(&server.url()).await, range).await.expect_err("an error");

        assert_eq!((error.code.as_str(), error.class), (code::TRANSFORMED, ErrorClass::Object), "{error}");
        assert!(error.message.contains("7 bytes") && error.message.contains("Content-Encoding"), "{error}");
        assert_eq!(server.requests().len(), 2, "one request for each form");
    }
}

#[tokio::test]
async fn a_shorter_body_that_ends_with_its_last_chunk_was_changed_on_the_way() {
    let server = Wire::serve(|_, _| chunked("gz"));

    let error = read(&store_at(&server.url()).await, None).await.expect_err("an error");

    assert_eq!((error.code.as_str(), error.class), (code::TRANSFORMED, ErrorClass::Object), "{error}");
    assert!(error.message.contains("7 bytes") && error.message.contains("2 bytes came"), "{error}");
}

#[tokio::test]
async fn an_object_of_unknown_size_comes_as_the_service_gives_it_if_its_end_is_marked() {
    let pinned = PinnedObject { size: 0, ..pinned() };
    for is_chunked in [false, true] {
        let server = Wire::serve(
            move |request, _| {
                if is_chunked { chunked(DECOMPRESSED) } else { answer(request, DECOMPRESSED, None) }
            },
        );
        let store = store_at(&server.url()).await;
        let chunks: Vec<Bytes> = store.get(&pinned, None).await.unwrap().into_stream().try_collect().await.unwrap();
        assert_eq!(chunks.concat(), DECOMPRESSED.as_bytes());
        assert_eq!(server.requests().len(), 1);
    }

    let unmarked = format!("HTTP/1.1 200 OK\r\netag: \"e\"\r\n\r\n{DECOMPRESSED}");
    let server = Wire::serve(move |_, _| Reply::raw(&unmarked, ReplyEnding::Close));
    let unmarked = store_at(&server.url()).await.get(&pinned, None).await;
    assert!(unmarked.is_err_and(|error| error.message.contains("Content-Length")));
}
