//! Tests that no text contains a secret.

use std::net::{Ipv4Addr, TcpListener};

use seqferry_store::prelude::*;
use seqferry_store::{EndpointOptions, ObjectRef, StoreError};
use seqferry_store_testing::connect;

use crate::credentials::{Folder, in_own_process};
use crate::server::{Reply, Wire, error_body};
use crate::{ACCESS_KEY, SECRET_KEY, WriteOperation, get, options_for, store_at};

const SESSION_TOKEN: &str = "t0kenThatNobodyMaySee";

fn texts(error: &StoreError) -> String {
    format!("{error}\n{error:?}\n{error:#?}\n{}", error.advice())
}

fn assert_clean(text: &str, secrets: &[&str]) {
    for secret in secrets {
        assert!(!text.contains(secret), "{secret} is in: {text}");
    }
}

#[tokio::test]
async fn options_and_stores_show_no_secret() {
    let server = Wire::always(Reply::new(200, &[("etag", "\"e\"")], "body"));
    let options = options_for(&server.url());
    let store = connect(options.clone()).await;
    let fresh = format!("{store:?}");
    get(&store, "key").await.unwrap();

    // The credentials are cached somewhere in the clients meanwhile.
    for text in [format!("{options:?}"), format!("{options:#?}"), fresh, format!("{store:?}"), format!("{store:#?}")] {
        assert_clean(&text, &[SECRET_KEY]);
    }
    let short = format!("{store:?}");
    assert!(short.contains(&server.url()) && short.len() < 1000, "says where it leads, and not much else: {short}");
}

#[tokio::test]
async fn errors_show_no_secret_even_where_the_service_repeats_them() {
    // S3 repeats the request that it received, and how it was signed.
    let details = format!(
        "<AWSAccessKeyId>{ACCESS_KEY}</AWSAccessKeyId><SignatureProvided>SIGNATURE</SignatureProvided>\
         <StringToSign>AWS4-HMAC-SHA256 SIGNATURE</StringToSign><Token-0>{SESSION_TOKEN}</Token-0>"
    );
    for (status, code) in
        [(403, "SignatureDoesNotMatch"), (400, "ExpiredToken"), (400, "InvalidToken"), (200, "InternalError")]
    {
        let body = error_body(code, &details);
        let server = Wire::serve(move |request, _| {
            let signature = request.header("authorization").unwrap().rsplit_once("Signature=").unwrap().1.to_owned();
            Reply::error_with(status, &[], &body.replace("SIGNATURE", &signature))
        });
        let store = store_at(&server.url()).await;
        let error = WriteOperation::Copy.send(&store).await.unwrap_err();

        let request = server.only_request();
        let signature = request.header("authorization").unwrap().rsplit_once("Signature=").unwrap().1;
        assert_clean(&texts(&error), &[SECRET_KEY, SESSION_TOKEN, signature]);
        assert!(error.to_string().contains(code), "{error}");
    }
}

#[tokio::test]
async fn errors_of_the_transport_show_no_secret() {
    let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
    // A password does not belong into an endpoint's address, but users put one there.
    let store = store_at(&format!("http://user:{SECRET_KEY}@{address}")).await;
    for error in [get(&store, "key").await.unwrap_err(), WriteOperation::Copy.send(&store).await.unwrap_err()] {
        assert_clean(&texts(&error), &[SECRET_KEY]);
    }
    assert_clean(&format!("{store:?}"), &[SECRET_KEY]);
}

#[test]
fn credentials_of_the_environment_are_not_shown() {
    let (home, server) = (Folder::new(), Wire::always(Reply::error(400, "ExpiredToken")));
    let printed = in_own_process(
        "secrets::credentials_of_the_environment_are_not_shown_inner",
        &home.0,
        &[
            ("AWS_ENDPOINT_URL", &server.url()),
            ("AWS_REGION", "us-east-1"),
            ("AWS_ACCESS_KEY_ID", ACCESS_KEY),
            ("AWS_SECRET_ACCESS_KEY", SECRET_KEY),
            ("AWS_SESSION_TOKEN", SESSION_TOKEN),
        ],
    );

    assert!(printed.contains("ExpiredToken"), "{printed}");
    assert_clean(&printed, &[SECRET_KEY, SESSION_TOKEN]);
}

#[tokio::test]
#[ignore = "run in a process of its own"]
async fn credentials_of_the_environment_are_not_shown_inner() {
    let store = connect(EndpointOptions::default()).await;
    let error = store.head(ObjectRef::new("bucket", "key"), None).await.unwrap_err();
    println!("{}\n{store:?}\n{store:#?}", texts(&error));
}

#[test]
fn a_credential_process_that_fails_is_told_without_what_it_printed() {
    let (home, server) = (Folder::new(), Wire::always(Reply::error(400, "ExpiredToken")));
    let script = home.write(
        "broker",
        &format!("echo '{{\"SecretAccessKey\": \"{SECRET_KEY}\"'\necho {SESSION_TOKEN} >&2\nexit 3\n"),
    );
    let config = home.write(
        "config",
        &format!("[default]\nregion = us-east-1\ncredential_process = /bin/sh {}\n", script.display()),
    );
    let printed = in_own_process(
        "secrets::credentials_of_the_environment_are_not_shown_inner",
        &home.0,
        &[("AWS_ENDPOINT_URL", &server.url()), ("AWS_CONFIG_FILE", config.to_str().unwrap())],
    );

    assert!(printed.contains("NoCredentials"), "{printed}");
    assert_clean(&printed, &[SECRET_KEY, SESSION_TOKEN]);
}
