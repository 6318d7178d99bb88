//! The servers that tests run against, and what their ends leave behind.

use std::net::TcpStream;
use std::time::{Duration, Instant};

use seqferry_testkit::servers::{ADMIN, Credentials, MOVER, S3Server, ServerKind, StartError, server};

#[test]
fn admin_and_mover_share_a_fresh_bucket() {
    for server in ServerKind::ALL.into_iter().filter_map(server) {
        let bucket = server.fresh_bucket();
        let target = format!("/{bucket}/a%20b");

        let put = server.request(MOVER, "PUT", &target, &[("x-amz-meta-x", "1")], b"content");

        assert_eq!(put.status, 200, "{}", put.text());
        for who in [ADMIN, MOVER] {
            let got = server.request(who, "GET", &target, &[], b"");
            assert_eq!(
                (got.status, got.header("x-amz-meta-x"), got.body.as_slice()),
                (200, Some("1"), &b"content"[..])
            );
        }
    }
}

#[test]
fn a_wrong_secret_is_refused() {
    for server in ServerKind::ALL.into_iter().filter_map(server) {
        let stranger = Credentials { secret_key: "wrong", ..MOVER };

        let reply = server.request(stranger, "GET", "/", &[], b"");

        assert_eq!(reply.status, 403, "{}", reply.text());
        assert!(reply.text().contains("SignatureDoesNotMatch"), "{}", reply.text());
    }
}

#[test]
fn a_dropped_server_is_gone() {
    let server = match S3Server::start(ServerKind::Versitygw) {
        Ok(server) => server,
        Err(StartError::Missing(_)) => return,
        Err(StartError::Failed(why)) => panic!("{why}"),
    };
    let address = server.endpoint_url().trim_start_matches("http://").to_owned();
    assert!(TcpStream::connect(&address).is_ok());

    drop(server);

    let deadline = Instant::now() + Duration::from_secs(10);
    while TcpStream::connect(&address).is_ok() {
        assert!(Instant::now() < deadline, "{address} still answers");
        std::thread::sleep(Duration::from_millis(20));
    }
}
