//! Proxies that the environment names, on the way to a service.

use seqferry_store::error::classify::code;
use seqferry_store::{EndpointOptions, S3Store};

use super::credentials::{Folder, in_own_process};
use super::get;
use super::server::{Reply, Wire};

const KEYS: [(&str, &str); 3] =
    [("AWS_REGION", "us-east-1"), ("AWS_ACCESS_KEY_ID", "AKIDENV"), ("AWS_SECRET_ACCESS_KEY", "secret")];

fn object() -> Reply {
    Reply::new(200, &[("etag", "\"e\"")], "body")
}

#[test]
fn plain_requests_go_through_the_http_proxy() {
    let (home, proxy) = (Folder::new(), Wire::always(object()));
    let url = proxy.url();
    let way = [("AWS_ENDPOINT_URL", "http://s3.lab.invalid"), ("HTTP_PROXY", url.as_str())];
    in_own_process("credentials::one_get_inner", &home.0, &[&KEYS[..], &way].concat());

    let request = proxy.only_request();
    assert_eq!(request.path(), "http://s3.lab.invalid/bucket/key");
    assert_eq!(request.header("host"), Some("s3.lab.invalid"));
}

#[test]
fn tls_is_tunnelled_through_the_https_proxy() {
    let (home, proxy) = (Folder::new(), Wire::always(Reply::error(502, "BadGateway")));
    let url = proxy.url();
    let way = [("AWS_ENDPOINT_URL", "https://s3.lab.invalid"), ("HTTPS_PROXY", url.as_str())];
    in_own_process("proxies::refused_tunnel_inner", &home.0, &[&KEYS[..], &way].concat());

    let request = proxy.only_request();
    assert_eq!((request.method.as_str(), request.path()), ("CONNECT", "s3.lab.invalid:443"));
}

#[tokio::test]
#[ignore = "run in a process of its own"]
async fn refused_tunnel_inner() {
    let error = get(&S3Store::connect(EndpointOptions::default()).await, "key").await.unwrap_err();

    assert_eq!(error.code, code::CONNECTION_FAILED, "{error:?}");
}

#[test]
fn hosts_that_need_no_proxy_are_reached_directly() {
    let (home, proxy, server) = (Folder::new(), Wire::always(Reply::error(502, "BadGateway")), Wire::always(object()));
    let (proxy_url, server_url) = (proxy.url(), server.url());
    let way =
        [("AWS_ENDPOINT_URL", server_url.as_str()), ("HTTP_PROXY", proxy_url.as_str()), ("NO_PROXY", "127.0.0.1")];
    in_own_process("credentials::one_get_inner", &home.0, &[&KEYS[..], &way].concat());

    assert_eq!(server.only_request().path(), "/bucket/key");
    assert!(proxy.requests().is_empty());
}
