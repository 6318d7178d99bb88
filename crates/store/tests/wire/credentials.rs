//! Tests of the sources of credentials, and of missing and expired ones.
//!
//! The AWS chain reads the environment of its process. Each of these tests starts this program again with a prepared
//! environment, to run one of the tests marked as ignored.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use seqferry_store::error::classify::code;
use seqferry_store::prelude::*;
use seqferry_store::{EndpointOptions, ErrorClass, ListRequest, Scope};
use seqferry_store_testing::connect;

use crate::server::{Reply, Request, Wire, error_body};
use crate::{WriteOperation, get};

/// A folder that is removed at the end.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        let path = std::env::temp_dir().join(format!("seqferry-store-{:016x}", fastrand::u64(..)));
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Runs an ignored test of this program in a process with only this environment; returns its output.
pub(crate) fn in_own_process(test: &str, home: &Path, environment: &[(&str, &str)]) -> String {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--ignored", "--nocapture"])
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("HOME", home)
        .env("AWS_EC2_METADATA_DISABLED", "true")
        .envs(environment.iter().copied())
        .output()
        .unwrap();
    let printed = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && printed.contains("1 passed"), "{test} failed:\n{printed}");
    printed
}

#[test]
fn no_credentials_anywhere() {
    let (home, server) = (Folder::new(), Wire::always(Reply::error(500, "InternalError")));
    in_own_process(
        "credentials::no_credentials_anywhere_inner",
        &home.0,
        &[("AWS_ENDPOINT_URL", &server.url()), ("AWS_REGION", "us-east-1")],
    );

    assert!(server.requests().is_empty(), "nothing is sent unsigned");
}

#[tokio::test]
#[ignore = "run in a process of its own"]
async fn no_credentials_anywhere_inner() {
    let began = Instant::now();
    let store = connect(EndpointOptions::default()).await;
    let request = ListRequest { bucket: "bucket".to_owned(), ..ListRequest::default() };

    for error in [
        store.list(&request).await.unwrap_err(),
        store.head_bucket("bucket").await.unwrap_err(),
        get(&store, "key").await.unwrap_err(),
        WriteOperation::Copy.send(&store).await.unwrap_err(),
        WriteOperation::CopyPart.send(&store).await.unwrap_err(),
    ] {
        let facts = (error.code.as_str(), error.class, error.scope);
        assert_eq!(facts, (code::NO_CREDENTIALS, ErrorClass::Person, Scope::Job), "{error:?}");
        assert_eq!(error.advice(), seqferry_store::Advice::FindCredentials);
        assert!(
            !error.message.contains('\n') && error.message.contains("no credentials"),
            "one line: {}",
            error.message
        );
    }
    assert!(began.elapsed() < Duration::from_secs(20), "found out in {:?}", began.elapsed());
}

#[test]
fn a_profile_that_is_not_there() {
    let (home, server) = (Folder::new(), Wire::always(Reply::error(500, "InternalError")));
    in_own_process(
        "credentials::a_profile_that_is_not_there_inner",
        &home.0,
        &[
            ("AWS_ENDPOINT_URL", &server.url()),
            ("AWS_REGION", "us-east-1"),
            // These credentials exist, but others were selected.
            ("AWS_ACCESS_KEY_ID", "AKIDENV"),
            ("AWS_SECRET_ACCESS_KEY", "secret"),
        ],
    );

    assert!(server.requests().is_empty(), "nothing is sent unsigned");
}

#[tokio::test]
#[ignore = "run in a process of its own"]
async fn a_profile_that_is_not_there_inner() {
    let options = EndpointOptions { profile: Some("sequencing".to_owned()), ..EndpointOptions::default() };
    let error = get(&connect(options).await, "key").await.unwrap_err();

    assert_eq!((error.code.as_str(), error.scope), (code::NO_PROFILE_CREDENTIALS, Scope::Job), "{error:?}");
    assert!(error.to_string().contains("sequencing"), "names the profile: {error}");
}

/// The answer to a GET, a copy and a part copy.
fn answered(request: &Request) -> Reply {
    let element = match (request.method.as_str(), request.query().contains("partNumber")) {
        ("GET", _) => return Reply::new(200, &[("etag", "\"e\"")], "body"),
        (_, true) => "CopyPartResult",
        (_, false) => "CopyObjectResult",
    };
    Reply::xml(&format!("<{element}><ETag>&quot;e&quot;</ETag></{element}>"))
}

#[test]
fn an_anonymous_request_bears_no_signature() {
    let (home, server) = (Folder::new(), Wire::serve(|request, _| answered(request)));
    in_own_process(
        "credentials::an_anonymous_request_bears_no_signature_inner",
        &home.0,
        &[
            ("AWS_ENDPOINT_URL", &server.url()),
            ("AWS_REGION", "us-east-1"),
            // These credentials exist, but must not be used.
            ("AWS_ACCESS_KEY_ID", "AKIDENV"),
            ("AWS_SECRET_ACCESS_KEY", "secret"),
        ],
    );

    let requests = server.requests();
    assert_eq!(requests.iter().map(|request| request.method.as_str()).collect::<Vec<_>>(), ["GET", "PUT", "PUT"]);
    for request in requests {
        assert_eq!(request.header("authorization"), None);
    }
}

#[tokio::test]
#[ignore = "run in a process of its own"]
async fn an_anonymous_request_bears_no_signature_inner() {
    let store = connect(EndpointOptions { anonymous: true, ..EndpointOptions::default() }).await;

    assert_eq!(get(&store, "key").await.unwrap(), "body");
    assert_eq!(WriteOperation::Copy.send(&store).await.unwrap(), "e");
    assert_eq!(WriteOperation::CopyPart.send(&store).await.unwrap(), "e");
    // No credentials can be refreshed, and no attempt is needed to know that.
    assert_eq!(store.refresh_credentials().await.unwrap_err().code, code::NO_CREDENTIALS);
}

#[test]
fn the_specific_endpoint_of_the_environment_wins() {
    let (home, general, specific) = (
        Folder::new(),
        Wire::always(Reply::error(500, "InternalError")),
        Wire::always(Reply::new(200, &[("etag", "\"e\"")], "body")),
    );
    in_own_process(
        "credentials::one_get_inner",
        &home.0,
        &[
            ("AWS_ENDPOINT_URL", &general.url()),
            ("AWS_ENDPOINT_URL_S3", &specific.url()),
            ("AWS_REGION", "eu-west-3"),
            ("AWS_ACCESS_KEY_ID", "AKIDENV"),
            ("AWS_SECRET_ACCESS_KEY", "secret"),
            ("AWS_SESSION_TOKEN", "session"),
        ],
    );

    let request = specific.only_request();
    assert_eq!((request.access_key(), request.signed_region()), (Some("AKIDENV"), Some("eu-west-3")));
    assert_eq!(request.header("x-amz-security-token"), Some("session"));
    assert_eq!(request.path(), "/bucket/key", "path style at an endpoint that is not AWS");
    assert!(general.requests().is_empty());
}

#[test]
fn a_profile_gives_endpoint_region_and_credentials() {
    let (home, server) = (Folder::new(), Wire::always(Reply::new(200, &[("etag", "\"e\"")], "body")));
    let config =
        home.write("config", &format!("[profile lab]\nregion = ap-southeast-2\nendpoint_url = {}\n", server.url()));
    let keys = home.write("credentials", "[lab]\naws_access_key_id = AKIDLAB\naws_secret_access_key = secret\n");
    in_own_process(
        "credentials::one_get_inner",
        &home.0,
        &[
            ("AWS_CONFIG_FILE", config.to_str().unwrap()),
            ("AWS_SHARED_CREDENTIALS_FILE", keys.to_str().unwrap()),
            ("AWS_PROFILE", "lab"),
        ],
    );

    let request = server.only_request();
    assert_eq!((request.access_key(), request.signed_region()), (Some("AKIDLAB"), Some("ap-southeast-2")));
}

#[test]
fn a_named_profile_wins_over_keys_of_the_environment() {
    let (home, server) = (Folder::new(), Wire::always(Reply::new(200, &[("etag", "\"e\"")], "body")));
    let keys = home.write("credentials", "[lab]\naws_access_key_id = AKIDLAB\naws_secret_access_key = secret\n");
    in_own_process(
        "credentials::one_get_as_lab_inner",
        &home.0,
        &[
            ("AWS_ENDPOINT_URL", &server.url()),
            ("AWS_REGION", "us-east-1"),
            ("AWS_SHARED_CREDENTIALS_FILE", keys.to_str().unwrap()),
            ("AWS_ACCESS_KEY_ID", "AKIDENV"),
            ("AWS_SECRET_ACCESS_KEY", "secret"),
            ("AWS_SESSION_TOKEN", "session"),
        ],
    );

    let request = server.only_request();
    assert_eq!((request.access_key(), request.header("x-amz-security-token")), (Some("AKIDLAB"), None));
}

#[tokio::test]
#[ignore = "run in a process of its own"]
async fn one_get_as_lab_inner() {
    let options = EndpointOptions { profile: Some("lab".to_owned()), ..EndpointOptions::default() };
    assert_eq!(get(&connect(options).await, "key").await.unwrap(), "body");
}

#[tokio::test]
#[ignore = "run in a process of its own"]
async fn one_get_inner() {
    assert_eq!(get(&connect(EndpointOptions::default()).await, "key").await.unwrap(), "body");
}

#[test]
fn expired_credentials_are_loaded_anew() {
    let home = Folder::new();
    let count = home.write("count", "0");
    // The script returns new keys each time, like a broker of temporary credentials.
    let script = home.write(
        "broker",
        &format!(
            "n=$(($(cat {count}) + 1))\necho $n > {count}\necho '{{\"Version\": 1, \"AccessKeyId\": \"AKID'$n'\", \
             \"SecretAccessKey\": \"secret'$n'\", \"SessionToken\": \"token'$n'\"}}'\n",
            count = count.display()
        ),
    );
    let server = Wire::serve(|request, _| match request.access_key() {
        Some("AKID1") => Reply::error_with(400, &[], &error_body("ExpiredToken", "<Token-0>token1</Token-0>")),
        _ => answered(request),
    });
    let config = home.write(
        "config",
        &format!("[profile brokered]\nregion = us-east-1\ncredential_process = /bin/sh {}\n", script.display()),
    );
    in_own_process(
        "credentials::expired_credentials_are_loaded_anew_inner",
        &home.0,
        &[
            ("AWS_CONFIG_FILE", config.to_str().unwrap()),
            ("AWS_PROFILE", "brokered"),
            ("AWS_ENDPOINT_URL", &server.url()),
        ],
    );

    let keys: Vec<_> = server.requests().iter().map(|request| request.access_key().unwrap().to_owned()).collect();
    assert_eq!(keys[..4], ["AKID1", "AKID1", "AKID1", "AKID2"]);
    assert!(keys[4..].iter().all(|key| key == "AKID2"), "{keys:?}");
    assert_eq!(std::fs::read_to_string(count).unwrap().trim(), "2", "many wishes cause one load");
    for request in &server.requests()[3..] {
        assert_eq!(request.header("x-amz-security-token"), Some("token2"));
    }
}

#[tokio::test]
#[ignore = "run in a process of its own"]
async fn expired_credentials_are_loaded_anew_inner() {
    let store = connect(EndpointOptions::default()).await;

    for error in [
        get(&store, "key").await.unwrap_err(),
        WriteOperation::Copy.send(&store).await.unwrap_err(),
        WriteOperation::CopyPart.send(&store).await.unwrap_err(),
    ] {
        assert_eq!((error.code.as_str(), error.class), ("ExpiredToken", ErrorClass::Credentials), "{error:?}");
    }
    // All requests in flight notice the expiry at the same time, and each asks for a refresh.
    let refreshed = futures::future::join_all((0..20).map(|_| store.refresh_credentials())).await;
    assert!(refreshed.iter().all(Result::is_ok));

    for _ in 0..3 {
        assert_eq!(get(&store, "key").await.unwrap(), "body");
        assert_eq!(WriteOperation::Copy.send(&store).await.unwrap(), "e");
    }
}
