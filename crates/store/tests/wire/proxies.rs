//! Tests of proxies from the environment.

use seqferry_store::error::classify::code;
use seqferry_store::prelude::*;
use seqferry_store::{CopyTarget, EndpointOptions, ResolvedSettings};
use seqferry_store_testing::connect;

use super::credentials::{Folder, in_own_process};
use super::server::{Reply, Wire};
use super::{WriteOperation, get, object};

const KEYS: [(&str, &str); 3] =
    [("AWS_REGION", "us-east-1"), ("AWS_ACCESS_KEY_ID", "AKIDENV"), ("AWS_SECRET_ACCESS_KEY", "secret")];

fn body() -> Reply {
    Reply::new(200, &[("etag", "\"e\"")], "body")
}

#[test]
fn plain_requests_go_through_the_http_proxy() {
    let (home, proxy) = (Folder::new(), Wire::always(body()));
    let url = proxy.url();
    let environment = [("AWS_ENDPOINT_URL", "http://s3.lab.invalid"), ("HTTP_PROXY", url.as_str())];
    in_own_process("credentials::one_get_inner", &home.0, &[&KEYS[..], &environment].concat());

    let request = proxy.only_request();
    assert_eq!(request.path(), "http://s3.lab.invalid/bucket/key");
    assert_eq!(request.header("host"), Some("s3.lab.invalid"));
}

#[test]
fn copies_go_through_the_http_proxy() {
    let copied = Reply::xml("<CopyObjectResult><ETag>&quot;e&quot;</ETag></CopyObjectResult>");
    let (home, proxy) = (Folder::new(), Wire::always(copied));
    // The usual form of a user name and password for a proxy.
    let url = proxy.url().replace("http://", "http://user:word@");
    let environment = [("AWS_ENDPOINT_URL", "http://s3.lab.invalid"), ("HTTP_PROXY", url.as_str())];
    in_own_process("proxies::one_copy_inner", &home.0, &[&KEYS[..], &environment].concat());

    let request = proxy.only_request();
    assert_eq!(request.path(), "http://s3.lab.invalid/bucket/target");
    assert_eq!(request.header("host"), Some("s3.lab.invalid"));
    assert_eq!(request.header("proxy-authorization"), Some("Basic dXNlcjp3b3Jk"));
}

#[tokio::test]
#[ignore = "run in a process of its own"]
async fn one_copy_inner() {
    assert_eq!(WriteOperation::Copy.send(&connect(EndpointOptions::default()).await).await.unwrap(), "e");
}

#[test]
fn access_points_have_hosts_of_their_own() {
    let (home, proxy) = (Folder::new(), Wire::always(Reply::error(502, "BadGateway")));
    let url = proxy.url();
    in_own_process(
        "proxies::copy_to_an_access_point_inner",
        &home.0,
        &[&KEYS[..], &[("HTTPS_PROXY", url.as_str())]].concat(),
    );

    let request = proxy.only_request();
    let host = "lab-123456789012.s3-accesspoint.eu-west-1.amazonaws.com:443";
    assert_eq!((request.method.as_str(), request.path()), ("CONNECT", host));
}

#[tokio::test]
#[ignore = "run in a process of its own"]
async fn copy_to_an_access_point_inner() {
    let store = connect(EndpointOptions::default()).await;
    let access_point = "arn:aws:s3:eu-west-1:123456789012:accesspoint/lab";
    let error = store.copy(&object("source"), CopyTarget::new(access_point, "target")).await.unwrap_err();

    assert_eq!(error.code, code::CONNECTION_FAILED, "{error:?}");
}

#[test]
fn tls_is_tunnelled_through_the_https_proxy() {
    let (home, proxy) = (Folder::new(), Wire::always(Reply::error(502, "BadGateway")));
    let url = proxy.url();
    let environment = [("AWS_ENDPOINT_URL", "https://s3.lab.invalid"), ("HTTPS_PROXY", url.as_str())];
    in_own_process("proxies::refused_tunnel_inner", &home.0, &[&KEYS[..], &environment].concat());

    for request in proxy.requests() {
        assert_eq!((request.method.as_str(), request.path()), ("CONNECT", "s3.lab.invalid:443"));
    }
    assert_eq!(proxy.requests().len(), 2);
}

#[tokio::test]
#[ignore = "run in a process of its own"]
async fn refused_tunnel_inner() {
    let store = connect(EndpointOptions::default()).await;

    for error in [get(&store, "key").await.unwrap_err(), WriteOperation::Copy.send(&store).await.unwrap_err()] {
        assert_eq!(error.code, code::CONNECTION_FAILED, "{error:?}");
    }
}

#[test]
fn hosts_that_need_no_proxy_are_reached_directly() {
    let (home, proxy, server) = (Folder::new(), Wire::always(Reply::error(502, "BadGateway")), Wire::always(body()));
    let (proxy_url, server_url) = (proxy.url(), server.url());
    let environment =
        [("AWS_ENDPOINT_URL", server_url.as_str()), ("HTTP_PROXY", proxy_url.as_str()), ("NO_PROXY", "127.0.0.1")];
    in_own_process("credentials::one_get_inner", &home.0, &[&KEYS[..], &environment].concat());

    assert_eq!(server.only_request().path(), "/bucket/key");
    assert!(proxy.requests().is_empty());
}

#[test]
fn each_form_of_no_proxy_reaches_a_host_directly() {
    let (home, proxy, server) = (Folder::new(), Wire::always(Reply::error(502, "BadGateway")), Wire::always(body()));
    let (proxy_url, server_url) = (proxy.url(), server.url());
    let with_port = server_url.replace("http://", "");
    for (number, no_proxy) in ["*", "127.0.0.0/8", "a.org 127.0.0.1", with_port.as_str()].into_iter().enumerate() {
        let environment = [
            ("AWS_ENDPOINT_URL", server_url.as_str()),
            ("HTTP_PROXY", proxy_url.as_str()),
            // The lower-case variable counts.
            ("NO_PROXY", "a.org"),
            ("no_proxy", no_proxy),
        ];
        in_own_process("credentials::one_get_inner", &home.0, &[&KEYS[..], &environment].concat());
        in_own_process("proxies::one_head_inner", &home.0, &[&KEYS[..], &environment].concat());
        assert_eq!(server.requests().len(), 2 * (number + 1), "{no_proxy}");
    }
    assert!(proxy.requests().is_empty());
}

#[tokio::test]
#[ignore = "run in a process of its own"]
async fn one_head_inner() {
    let store = connect(EndpointOptions::default()).await;
    let _found = store.head(seqferry_store::ObjectRef::new("bucket", "key"), None).await;
}

#[test]
fn resolved_settings_leave_the_environment_only_the_credentials() {
    let (home, proxy) = (Folder::new(), Wire::always(Reply::error(502, "BadGateway")));
    let (url, elsewhere) = (proxy.url(), "http://s3.elsewhere.invalid");
    let config = home.0.join("aws-config");
    std::fs::write(&config, "[default]\ns3 =\n  addressing_style = path\n  use_accelerate_endpoint = true\n").unwrap();
    in_own_process(
        "proxies::resolved_settings_inner",
        &home.0,
        &[
            ("AWS_ENDPOINT_URL", elsewhere),
            ("AWS_ENDPOINT_URL_S3", elsewhere),
            ("AWS_REGION", "ap-south-1"),
            ("AWS_USE_DUALSTACK_ENDPOINT", "true"),
            ("AWS_CONFIG_FILE", config.to_str().unwrap()),
            ("AWS_ACCESS_KEY_ID", "AKIDENV"),
            ("AWS_SECRET_ACCESS_KEY", "secret"),
            ("HTTP_PROXY", &url),
            ("HTTPS_PROXY", &url),
        ],
    );

    let asked: Vec<_> = proxy.requests().iter().map(|request| request.path().to_owned()).collect();
    assert_eq!(asked, ["bucket.s3.eu-west-1.amazonaws.com:443", "bucket.s3.eu-west-1.amazonaws.com:443"]);
}

#[tokio::test]
#[ignore = "run in a process of its own"]
async fn resolved_settings_inner() {
    let options = EndpointOptions {
        region: Some("eu-west-1".to_owned()),
        resolved: Some(ResolvedSettings::default()),
        ..EndpointOptions::default()
    };
    let store = connect(options).await;

    for error in [get(&store, "key").await.unwrap_err(), WriteOperation::Copy.send(&store).await.unwrap_err()] {
        assert_eq!(error.code, code::CONNECTION_FAILED, "{error:?}");
    }
}
