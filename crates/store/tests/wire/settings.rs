//! Tests of settings of the AWS tools, from the environment and `~/.aws/config`: the host, the number of attempts, the
//! signed parts.

use std::collections::BTreeSet;

use bytes::Bytes;
use seqferry_store::error::classify::code;
use seqferry_store::prelude::*;
use seqferry_store::{Attributes, EndpointOptions, ObjectRef};
use seqferry_store_testing::{ObjectWriteExt as _, connect};

use crate::credentials::{Folder, in_own_process};
use crate::get;
use crate::server::{Reply, Wire};

const KEYS: [(&str, &str); 3] =
    [("AWS_REGION", "us-east-1"), ("AWS_ACCESS_KEY_ID", "AKIDENV"), ("AWS_SECRET_ACCESS_KEY", "secret")];

/// Output of an inner test with this `~/.aws/config` and these variables.
fn run(test: &str, config: &str, environment: &[(&str, &str)]) -> String {
    let home = Folder::new();
    let config = home.write("config", config);
    let file = [("AWS_CONFIG_FILE", config.to_str().unwrap())];
    in_own_process(&format!("settings::{test}"), &home.0, &[&KEYS[..], &file, environment].concat())
}

/// The AWS host of requests to `bucket`.
fn host(config: &str, environment: &[(&str, &str)]) -> String {
    let proxy = Wire::always(Reply::error(502, "BadGateway"));
    let url = proxy.url();
    run("one_get_and_one_head_inner", config, &[environment, &[("HTTPS_PROXY", url.as_str())]].concat());
    let hosts: BTreeSet<String> = proxy.requests().iter().map(|request| request.path().to_owned()).collect();
    assert_eq!((hosts.len(), proxy.requests().len()), (1, 2), "{hosts:?}");
    hosts.into_iter().next().unwrap()
}

#[tokio::test]
#[ignore = "run in a process of its own"]
async fn one_get_and_one_head_inner() {
    let store = connect(EndpointOptions::default()).await;
    let head = store.head(ObjectRef::new("bucket", "key"), None).await.map(|_| ());

    for error in [get(&store, "key").await.unwrap_err(), head.unwrap_err()] {
        assert_eq!(error.code, code::CONNECTION_FAILED, "{error:?}");
    }
}

#[test]
fn the_settings_of_aws_choose_its_host() {
    let section = |line: &str| format!("[default]\ns3 =\n  {line}\n");
    assert_eq!(host("", &[]), "bucket.s3.us-east-1.amazonaws.com:443");
    assert_eq!(host("", &[("AWS_USE_FIPS_ENDPOINT", "true")]), "bucket.s3-fips.us-east-1.amazonaws.com:443");
    assert_eq!(host("", &[("AWS_USE_DUALSTACK_ENDPOINT", "true")]), "bucket.s3.dualstack.us-east-1.amazonaws.com:443");
    assert_eq!(
        host("[default]\nuse_fips_endpoint = true\nuse_dualstack_endpoint = true\n", &[]),
        "bucket.s3-fips.dualstack.us-east-1.amazonaws.com:443"
    );
    assert_eq!(host(&section("use_dualstack_endpoint = true"), &[]), "bucket.s3.dualstack.us-east-1.amazonaws.com:443");
    assert_eq!(host(&section("use_accelerate_endpoint = true"), &[]), "bucket.s3-accelerate.amazonaws.com:443");
    assert_eq!(host(&section("addressing_style = path"), &[]), "s3.us-east-1.amazonaws.com:443");
}

#[test]
fn the_style_of_addresses_can_be_chosen_for_any_endpoint() {
    for (style, url) in [("virtual", "http://bucket.s3.lab.invalid/key"), ("auto", "http://s3.lab.invalid/bucket/key")]
    {
        let proxy = Wire::always(Reply::new(200, &[("etag", "\"e\"")], "body"));
        let environment = [("AWS_ENDPOINT_URL", "http://s3.lab.invalid"), ("HTTP_PROXY", &proxy.url())];
        run("one_get_inner", &format!("[default]\ns3 =\n  addressing_style = {style}\n"), &environment);
        assert_eq!(proxy.only_request().path(), url);
    }
}

#[tokio::test]
#[ignore = "run in a process of its own"]
async fn one_get_inner() {
    assert_eq!(get(&connect(EndpointOptions::default()).await, "key").await.unwrap(), "body");
}

#[test]
fn the_number_of_attempts_is_read_and_no_mode_of_retries_is_an_error() {
    for (config, environment, attempts) in [
        ("", &[][..], "attempts None"),
        ("", &[("AWS_MAX_ATTEMPTS", "1"), ("AWS_RETRY_MODE", "legacy")], "attempts Some(1)"),
        ("[default]\nmax_attempts = 20\nretry_mode = adaptive\n", &[], "attempts Some(20)"),
        ("[default]\nmax_attempts = 20\n", &[("AWS_MAX_ATTEMPTS", "3")], "attempts Some(3)"),
        ("", &[("AWS_MAX_ATTEMPTS", "many"), ("AWS_RETRY_MODE", "of my own")], "attempts None"),
    ] {
        let printed = run("settings_inner", config, environment);
        assert!(printed.contains(attempts), "{environment:?}: {printed}");
        assert_eq!(
            printed.contains("AWS_MAX_ATTEMPTS"),
            environment.contains(&("AWS_MAX_ATTEMPTS", "many")),
            "{printed}"
        );
    }
}

#[test]
fn what_has_no_effect_is_said_once() {
    let config = "[default]\ns3 =\n  max_bandwidth = 50MB/s\n";
    let printed = run("settings_inner", config, &[("AWS_ENDPOINT_URL", "http://storage.lab.invalid")]);

    let said: Vec<&str> = printed.lines().filter(|line| line.starts_with("note ")).collect();
    assert_eq!(said.len(), 2, "{printed}");
    assert!(said[0].contains("use_max_bandwidth") && said[1].contains("payload_signing_enabled"), "{printed}");
}

#[tokio::test]
#[ignore = "run in a process of its own"]
async fn settings_inner() {
    let store = connect(EndpointOptions::default()).await;
    println!("attempts {:?}", store.max_attempts());
    for sends_bodies in [false, true, true] {
        for note in store.take_notes(sends_bodies) {
            println!("note {note}");
        }
    }
}

#[test]
fn bodies_are_signed_when_that_is_asked_for() {
    // SHA-256 of "body".
    let digest = "230d8358dc8e8890b4c58deeb62912ee2f20357ae92a5cc861b98e68fe31acb5";
    for (enabled, signed) in [("true", digest), ("false", "UNSIGNED-PAYLOAD")] {
        let server = Wire::always(Reply::new(200, &[("etag", "\"e\"")], ""));
        let config = format!("[default]\ns3 =\n  payload_signing_enabled = {enabled}\n");
        run("one_put_inner", &config, &[("AWS_ENDPOINT_URL", &server.url())]);
        assert_eq!(server.only_request().header("x-amz-content-sha256"), Some(signed));
    }
}

#[tokio::test]
#[ignore = "run in a process of its own"]
async fn one_put_inner() {
    let store = connect(EndpointOptions::default()).await;
    store.put("bucket", "key", Bytes::from_static(b"body"), &Attributes::default()).await.unwrap();
}

#[test]
fn fips_is_not_promised_for_an_address_that_was_given() {
    let server = Wire::always(Reply::error(500, "InternalError"));
    let url = server.url();
    run("fips_inner", "", &[("AWS_ENDPOINT_URL", url.as_str()), ("AWS_USE_FIPS_ENDPOINT", "true")]);

    assert!(server.requests().is_empty());
}

#[tokio::test]
#[ignore = "run in a process of its own"]
async fn fips_inner() {
    let store = connect(EndpointOptions::default()).await;
    let head = store.head(ObjectRef::new("bucket", "key"), None).await.map(|_| ());

    for error in [get(&store, "key").await.unwrap_err(), head.unwrap_err()] {
        assert!(error.to_string().contains("FIPS"), "{error:?}");
    }
}
