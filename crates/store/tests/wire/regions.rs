//! Tests of buckets in other regions, and of wrong clocks.

use std::time::{Duration, SystemTime};

use aws_smithy_types::DateTime;
use aws_smithy_types::date_time::Format as DateTimeFormat;
use seqferry_store::prelude::*;
use seqferry_store::{ErrorClass, ObjectRef, Scope};

use crate::server::{Reply, Request, Wire, error_body};
use crate::{WriteOperation, get, store_at};

const BUCKET_REGION: &str = "eu-central-1";

/// A bucket in [`BUCKET_REGION`], which refuses requests that are signed for another region.
fn bucket_in_frankfurt(refusal: fn(&Request) -> Reply) -> Wire {
    Wire::serve(move |request, _| {
        if request.signed_region() != Some(BUCKET_REGION) {
            return refusal(request);
        }
        match request.method.as_str() {
            "HEAD" => Reply::head(200, &[("etag", "\"e\"")]),
            "GET" if request.header("range").is_some() => Reply::new(206, &[("etag", "\"e\"")], "b"),
            "GET" => Reply::new(200, &[("etag", "\"e\"")], "body"),
            _ => Reply::xml("<CopyObjectResult><ETag>&quot;e&quot;</ETag></CopyObjectResult>"),
        }
    })
}

fn signed_for(server: &Wire) -> Vec<String> {
    server.requests().iter().map(|request| request.signed_region().unwrap().to_owned()).collect()
}

fn moved(request: &Request) -> Reply {
    let body = if request.method == "HEAD" { String::new() } else { error_body("PermanentRedirect", "") };
    Reply::error_with(301, &[("x-amz-bucket-region", BUCKET_REGION)], &body)
}

fn malformed(_: &Request) -> Reply {
    Reply::error_with(400, &[], &error_body("AuthorizationHeaderMalformed", "<Region>eu-central-1</Region>"))
}

fn mute(_: &Request) -> Reply {
    Reply::head(400, &[("x-amz-bucket-region", BUCKET_REGION)])
}

#[tokio::test]
async fn a_request_is_made_again_in_the_right_region_which_is_remembered() {
    for refusal in [moved, malformed] {
        let server = bucket_in_frankfurt(refusal);
        let store = store_at(&server.url()).await;

        assert_eq!(get(&store, "key").await.unwrap(), "body");
        assert_eq!(signed_for(&server), ["us-east-1", BUCKET_REGION]);

        assert_eq!(WriteOperation::Copy.send(&store).await.unwrap(), "e");
        assert_eq!(signed_for(&server)[2..], [BUCKET_REGION]);
    }
}

#[tokio::test]
async fn a_copy_is_made_again_in_the_right_region_which_is_remembered() {
    for refusal in [moved, malformed] {
        let server = bucket_in_frankfurt(refusal);
        let store = store_at(&server.url()).await;

        assert_eq!(WriteOperation::Copy.send(&store).await.unwrap(), "e");
        assert_eq!(WriteOperation::Copy.send(&store).await.unwrap(), "e");
        assert_eq!(get(&store, "key").await.unwrap(), "body");

        assert_eq!(signed_for(&server), ["us-east-1", BUCKET_REGION, BUCKET_REGION, BUCKET_REGION]);
    }
}

#[tokio::test]
async fn a_head_learns_the_region_without_a_body() {
    for refusal in [moved, mute] {
        let server = bucket_in_frankfurt(refusal);
        let store = store_at(&server.url()).await;

        store.head_bucket("bucket").await.unwrap();
        store.head(ObjectRef::new("bucket", "key"), None).await.unwrap();

        assert_eq!(signed_for(&server), ["us-east-1", BUCKET_REGION, BUCKET_REGION]);
    }
}

#[tokio::test]
async fn a_head_that_is_told_nothing_learns_the_region_from_a_get() {
    let server = bucket_in_frankfurt(|request| match request.method.as_str() {
        "HEAD" => Reply::head(400, &[]),
        _ => malformed(request),
    });
    let store = store_at(&server.url()).await;

    assert_eq!(store.head(ObjectRef::new("bucket", "key"), None).await.unwrap().etag, "e");
    // The requests are a refused HEAD, a GET of one byte that is refused and then repeated in the right region, and a
    // HEAD there.
    assert_eq!(signed_for(&server), ["us-east-1", "us-east-1", BUCKET_REGION, BUCKET_REGION]);
}

#[tokio::test]
async fn regions_are_remembered_by_bucket() {
    let server = bucket_in_frankfurt(moved);
    let store = store_at(&server.url()).await;

    store.head(ObjectRef::new("one", "key"), None).await.unwrap();
    store.head(ObjectRef::new("two", "key"), None).await.unwrap();
    store.head(ObjectRef::new("one", "key"), None).await.unwrap();

    assert_eq!(signed_for(&server), ["us-east-1", BUCKET_REGION, "us-east-1", BUCKET_REGION, BUCKET_REGION]);
}

#[tokio::test]
async fn regions_are_still_known_after_credentials_were_loaded_anew() {
    let server = bucket_in_frankfurt(moved);
    let store = store_at(&server.url()).await;

    get(&store, "key").await.unwrap();
    store.refresh_credentials().await.unwrap();
    get(&store, "key").await.unwrap();

    assert_eq!(signed_for(&server), ["us-east-1", BUCKET_REGION, BUCKET_REGION]);
}

#[tokio::test]
async fn a_redirect_that_leads_nowhere_ends_after_one_more_try() {
    let elsewhere = Wire::always(Reply::error_with(
        301,
        &[("x-amz-bucket-region", "ap-south-1")],
        &error_body("PermanentRedirect", ""),
    ));
    let unknown = Wire::always(Reply::error(301, "PermanentRedirect"));
    let same = Wire::always(Reply::error_with(
        400,
        &[],
        &error_body("AuthorizationHeaderMalformed", "<Region>us-east-1</Region>"),
    ));

    for (server, attempts) in [(elsewhere, 2), (unknown, 1), (same, 1)] {
        let error = get(&store_at(&server.url()).await, "key").await.unwrap_err();

        assert_eq!((error.class, error.scope), (ErrorClass::Redirect, Scope::Job), "{error:?}");
        assert_eq!(server.requests().len(), attempts);
    }
}

#[tokio::test]
async fn what_is_no_name_of_a_region_leads_nowhere() {
    let long = "a".repeat(65);
    for name in ["evil.example.org/", "eu central", "eu_central_1", "a%2fb", "[::1]", "", long.as_str()] {
        let by_header = Reply::error_with(301, &[("x-amz-bucket-region", name)], &error_body("PermanentRedirect", ""));
        let by_body = error_body("AuthorizationHeaderMalformed", &format!("<Region>{name}</Region>"));
        for reply in [by_header, Reply::error_with(400, &[], &by_body)] {
            let server = Wire::always(reply);
            let store = store_at(&server.url()).await;
            let refused = [get(&store, "key").await.unwrap_err(), store.head_bucket("bucket").await.unwrap_err()];

            for error in refused {
                assert_eq!(error.region, None, "{name:?}: {error:?}");
            }
            assert!(signed_for(&server).iter().all(|region| region == "us-east-1"), "{name:?}");
        }
    }
}

#[tokio::test]
async fn an_unsolved_redirect_names_the_region() {
    let server = Wire::always(Reply::error_with(
        301,
        &[("x-amz-bucket-region", "ap-south-1")],
        &error_body("PermanentRedirect", ""),
    ));
    let error = get(&store_at(&server.url()).await, "key").await.unwrap_err();

    assert!(error.to_string().contains("ap-south-1"), "{error}");
    assert_eq!(error.advice(), seqferry_store::Advice::GiveRegion);
}

/// A server whose clock differs from ours, and which, like S3, refuses signatures that are off by more than 15 minutes.
fn with_clock(offset: Duration, ahead: bool) -> Wire {
    let theirs = move || if ahead { SystemTime::now() + offset } else { SystemTime::now() - offset };
    Wire::serve(move |request, _| {
        let now = DateTime::from(theirs());
        let date = now.fmt(DateTimeFormat::HttpDate).unwrap();
        let signed = request.header("x-amz-date").unwrap();
        let text = format!(
            "{}-{}-{}T{}:{}:{}Z",
            &signed[..4],
            &signed[4..6],
            &signed[6..8],
            &signed[9..11],
            &signed[11..13],
            &signed[13..15]
        );
        let signed = DateTime::from_str(&text, DateTimeFormat::DateTime).unwrap();
        if (signed.secs() - now.secs()).abs() > 15 * 60 {
            return Reply::error_with(403, &[("date", &date)], &error_body("RequestTimeTooSkewed", ""));
        }
        match request.method.as_str() {
            "HEAD" => Reply::head(200, &[("date", &date), ("etag", "\"e\"")]),
            "GET" => Reply::new(200, &[("date", &date), ("etag", "\"e\"")], "body"),
            _ => Reply::new(200, &[("date", &date)], "<CopyObjectResult><ETag>&quot;e&quot;</ETag></CopyObjectResult>"),
        }
    })
}

#[tokio::test]
async fn a_clock_that_is_off_is_corrected_from_the_answer() {
    for (hours, ahead) in [(1, true), (1, false), (30, true)] {
        let server = with_clock(Duration::from_hours(hours), ahead);
        let store = store_at(&server.url()).await;

        assert_eq!(get(&store, "key").await.unwrap(), "body");
        assert_eq!(server.requests().len(), 2, "one refused, one corrected");
        assert_eq!(WriteOperation::Copy.send(&store).await.unwrap(), "e");
    }
}

#[tokio::test]
async fn copies_correct_the_clock_once() {
    for (hours, ahead) in [(1, true), (1, false), (30, true)] {
        let server = with_clock(Duration::from_hours(hours), ahead);
        let store = store_at(&server.url()).await;

        for _ in 0..3 {
            assert_eq!(WriteOperation::Copy.send(&store).await.unwrap(), "e");
        }
        assert_eq!(server.requests().len(), 4, "one refused, three with the service's time");
    }
}

#[tokio::test]
async fn a_skew_that_cannot_be_corrected_is_an_error_after_one_more_try() {
    let date = DateTime::from(SystemTime::now() - Duration::from_hours(1)).fmt(DateTimeFormat::HttpDate).unwrap();
    let server = Wire::always(Reply::error_with(403, &[("date", &date)], &error_body("RequestTimeTooSkewed", "")));
    let (got, copied) = (
        get(&store_at(&server.url()).await, "key").await.unwrap_err(),
        WriteOperation::Copy.send(&store_at(&server.url()).await).await.unwrap_err(),
    );

    for error in [got, copied] {
        assert_eq!((error.code.as_str(), error.class), ("RequestTimeTooSkewed", ErrorClass::Retry));
    }
    assert_eq!(server.requests().len(), 4);
}
