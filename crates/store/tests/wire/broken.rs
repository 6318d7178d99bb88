//! Tests of missing and incomplete answers.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;

use futures::StreamExt as _;
use seqferry_store::error::classify::code;
use seqferry_store::prelude::*;
use seqferry_store::{ErrorClass, Range, Scope, StoreError};

use crate::server::{Reply, ReplyEnding, Wire};
use crate::{WriteOperation, get, object, store_at};

fn may_pass_later(error: &StoreError, code: &str) {
    let facts = (error.code.as_str(), error.class, error.scope);
    assert_eq!(facts, (code, ErrorClass::Retry, Scope::Object), "{error:?}");
}

#[tokio::test]
async fn nobody_listens() {
    // A port that was free a moment ago.
    let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
    let store = store_at(&format!("http://{address}")).await;

    for error in [get(&store, "key").await.unwrap_err(), WriteOperation::Copy.send(&store).await.unwrap_err()] {
        may_pass_later(&error, code::CONNECTION_FAILED);
        assert!(error.message.to_lowercase().contains("connection refused"), "names the cause: {}", error.message);
        assert!(error.message.contains(&address.to_string()), "names the endpoint: {}", error.message);
        assert_eq!(error.status, None);
    }
}

#[tokio::test]
async fn the_host_has_no_address() {
    let store = store_at("http://no-such-host.invalid").await;
    let error = get(&store, "key").await.unwrap_err();

    may_pass_later(&error, code::CONNECTION_FAILED);
    assert!(error.message.contains("lookup") || error.message.contains("dns"), "names the cause: {}", error.message);
}

#[tokio::test]
async fn the_connection_is_reset_before_an_answer() {
    let server = Wire::always(Reply::none(ReplyEnding::Reset));
    let store = store_at(&server.url()).await;

    may_pass_later(&get(&store, "key").await.unwrap_err(), code::CONNECTION_FAILED);
    for write in WriteOperation::ALL {
        may_pass_later(&write.send(&store).await.unwrap_err(), code::CONNECTION_FAILED);
    }
    assert_eq!(server.requests().len(), 4, "each made once");
}

#[tokio::test]
async fn the_connection_is_closed_before_an_answer() {
    let server = Wire::always(Reply::none(ReplyEnding::Close));
    let store = store_at(&server.url()).await;

    may_pass_later(&get(&store, "key").await.unwrap_err(), code::CONNECTION_FAILED);
    for write in WriteOperation::ALL {
        may_pass_later(&write.send(&store).await.unwrap_err(), code::CONNECTION_FAILED);
    }
    assert_eq!(server.requests().len(), 4, "each made once");
}

#[tokio::test]
async fn what_listens_speaks_no_http() {
    let server = Wire::always(Reply::raw("220 mail.example.org ESMTP\r\n", ReplyEnding::Close));
    let error = get(&store_at(&server.url()).await, "key").await.unwrap_err();

    may_pass_later(&error, code::CONNECTION_FAILED);
    assert!(!error.message.is_empty());
}

#[tokio::test]
async fn the_answer_breaks_off_in_its_head() {
    let server = Wire::always(Reply::raw("HTTP/1.1 200 OK\r\ncontent-le", ReplyEnding::Close));
    let store = store_at(&server.url()).await;

    may_pass_later(&get(&store, "key").await.unwrap_err(), code::CONNECTION_FAILED);
    may_pass_later(&WriteOperation::Copy.send(&store).await.unwrap_err(), code::CONNECTION_FAILED);
}

#[tokio::test]
async fn the_answer_to_a_write_breaks_off_in_its_body() {
    for write in WriteOperation::ALL {
        let element = write.element();
        let whole = Reply::xml(&format!("<{element}><ETag>&quot;0123&quot;</ETag></{element}>"));
        for missing in [1, 20, 40] {
            for then in [ReplyEnding::Close, ReplyEnding::Reset] {
                let server = Wire::always(whole.clone().cut(missing, then));
                let error = write.send(&store_at(&server.url()).await).await.unwrap_err();

                assert_eq!(
                    (error.class, error.scope),
                    (ErrorClass::Retry, Scope::Object),
                    "{write:?} {missing}: {error:?}"
                );
                assert!([code::TRUNCATED, code::CONNECTION_FAILED].contains(&error.code.as_str()), "{error:?}");
            }
        }
    }
}

#[tokio::test]
async fn an_error_answer_that_breaks_off_still_counts_by_its_status() {
    let server = Wire::always(Reply::error(503, "SlowDown").cut(30, ReplyEnding::Close));
    let error = get(&store_at(&server.url()).await, "key").await.unwrap_err();

    assert!(matches!(error.class, ErrorClass::Retry | ErrorClass::Throttle), "{error:?}");
}

#[tokio::test]
async fn a_body_that_ends_early_is_an_error_at_its_end() {
    let body = "0123456789".repeat(10_000);
    for then in [ReplyEnding::Close, ReplyEnding::Reset] {
        let server = Wire::always(Reply::new(200, &[("etag", "\"e\"")], &body).cut(1, then));
        let error = get(&store_at(&server.url()).await, "key").await.unwrap_err();

        may_pass_later(&error, code::TRUNCATED);
        assert_eq!(error.key.as_deref(), Some("key"));
    }
}

#[tokio::test]
async fn a_range_that_ends_early_is_an_error_at_its_end() {
    let headers = [("etag", "\"e\""), ("content-range", "bytes 10-19/100")];
    let server = Wire::always(Reply::new(206, &headers, "0123456789").cut(4, ReplyEnding::Close));
    let store = store_at(&server.url()).await;

    let chunks: Vec<_> =
        store.get(&object("key"), Some(Range { first: 10, last: 19 })).await.unwrap().into_stream().collect().await;

    let (last, before) = chunks.split_last().unwrap();
    let received: usize = before.iter().map(|chunk| chunk.as_ref().unwrap().len()).sum();
    assert_eq!(received, 6);
    may_pass_later(last.as_ref().unwrap_err(), code::TRUNCATED);
}

#[tokio::test]
async fn a_body_that_stalls_is_given_up() {
    let server = Wire::always(Reply::new(200, &[("etag", "\"e\"")], "0123456789").cut(4, ReplyEnding::Stall));
    let store = store_at(&server.url()).await;
    let mut body = store.get(&object("key"), None).await.unwrap().into_stream();
    let mut received = 0;
    while received < 6 {
        received += body.next().await.unwrap().unwrap().len();
    }

    // No further event happens from here on: the clock jumps to the next deadline.
    tokio::time::pause();
    let error = body.next().await.unwrap().unwrap_err();

    may_pass_later(&error, code::TRUNCATED);
    assert!(error.message.contains("stalled"), "{}", error.message);
    assert!(body.next().await.is_none());
}

#[tokio::test]
async fn an_answer_that_never_comes_is_given_up() {
    for write in WriteOperation::ALL {
        let server = Wire::always(Reply::none(ReplyEnding::Stall));
        let store = Arc::new(store_at(&server.url()).await);
        let request = tokio::spawn({
            let store = Arc::clone(&store);
            async move { write.send(&store).await }
        });
        server.arrived(1).await;

        tokio::time::pause();
        let error = request.await.unwrap().unwrap_err();
        tokio::time::resume();

        may_pass_later(&error, code::TIMED_OUT);
        assert!(error.message.contains("no answer within"), "{}", error.message);
        let operation = match write {
            WriteOperation::Copy => "CopyObject",
            WriteOperation::CopyPart => "UploadPartCopy",
            WriteOperation::Complete => "CompleteMultipartUpload",
        };
        assert_eq!((error.operation, error.key.as_deref()), (operation, Some("target")));
    }
}
