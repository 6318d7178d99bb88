//! The fault proxy, before a server that shows exactly what reaches it and before a real one.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use seqferry_testkit::data;
use seqferry_testkit::proxy::{Action, Condition, Proxy, ProxyRule, RequestSide};
use seqferry_testkit::servers::{MOVER, ServerKind, server};
use seqferry_testkit::signed::{self, Reply};

const DEADLINE: Duration = Duration::from_secs(30);

/// Answers every request with the same bytes, and reports each as it came in, after the number of its connection.
fn canned(reply: &'static [u8]) -> (String, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let (tell, told) = channel();
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().flatten().enumerate() {
            let tell = tell.clone();
            std::thread::spawn(move || {
                let mut reader = BufReader::new(stream);
                loop {
                    let mut head = format!("connection {number}\r\n");
                    let mut length = 0;
                    loop {
                        let mut line = String::new();
                        if reader.read_line(&mut line).unwrap_or(0) == 0 {
                            return;
                        }
                        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                            length = value.trim().parse().unwrap_or(0);
                        }
                        head += &line;
                        if line == "\r\n" {
                            break;
                        }
                    }
                    let mut body = vec![0; length];
                    if reader.read_exact(&mut body).is_err() {
                        return;
                    }
                    if tell.send(head + &String::from_utf8_lossy(&body)).is_err() {
                        return;
                    }
                    if reader.get_mut().write_all(reply).is_err() {
                        return;
                    }
                }
            });
        }
    });
    (url, told)
}

const EMPTY_200: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

fn ask(proxy: &Proxy, method: &str, target: &str) -> std::io::Result<Reply> {
    signed::request(&proxy.endpoint_url(), MOVER, method, target, &[], b"")
}

#[test]
fn path_query_host_and_authorization_arrive_as_sent() {
    let (url, told) = canned(EMPTY_200);
    let proxy = Proxy::start(&url).expect("a proxy");
    let address = proxy.address();
    let head = format!(
        "PUT /b/a%2Fb/%C3%BC+%20//x/../y?partNumber=2&uploadId=u%2B1 HTTP/1.1\r\nHost: {address}\r\n\
         X-Amz-Copy-Source: /src/%20k\r\nAuthorization: AWS4-HMAC-SHA256 Credential=KEY/x, SignedHeaders=host\r\n\
         Content-Length: 0\r\nConnection: close\r\n\r\n"
    );

    let mut stream = TcpStream::connect(address).expect("a connection");
    stream.write_all(head.as_bytes()).expect("sent");
    stream.read_to_end(&mut Vec::new()).expect("an answer");

    let arrived = told.recv_timeout(DEADLINE).expect("a request");
    assert!(arrived.contains("PUT /b/a%2Fb/%C3%BC+%20//x/../y?partNumber=2&uploadId=u%2B1 HTTP/1.1\r\n"), "{arrived}");
    assert!(arrived.contains(&format!("Host: {address}\r\n")), "{arrived}");
    assert!(arrived.contains("X-Amz-Copy-Source: /src/%20k\r\n"), "{arrived}");
    assert!(arrived.contains("Authorization: AWS4-HMAC-SHA256 Credential=KEY/x, SignedHeaders=host\r\n"), "{arrived}");
    let log = proxy.log();
    assert_eq!(log.len(), 1);
    assert_eq!(log[0].operation, "UploadPartCopy");
    assert_eq!(log[0].key.as_deref(), Some("a/b/ü+ //x/../y"));
    assert_eq!((log[0].part_number, log[0].access_key.as_deref()), (Some(2), Some("KEY")));
    assert!(log[0].succeeded());
}

#[test]
fn a_signed_expect_header_is_kept_and_any_other_is_not() {
    let (url, told) = canned(EMPTY_200);
    let proxy = Proxy::start(&url).expect("a proxy");
    let send = |headers: &[(&str, &str)]| {
        let reply = signed::request(&proxy.endpoint_url(), MOVER, "PUT", "/b/k", headers, b"body").expect("an answer");
        assert_eq!(reply.status, 200);
        told.recv_timeout(DEADLINE).expect("a request")
    };

    let with = send(&[("expect", "100-continue")]);

    assert!(with.contains("expect: 100-continue"), "{with}");
    let address = proxy.address();
    let mut stream = TcpStream::connect(address).expect("a connection");
    let head = format!("PUT /b/k HTTP/1.1\r\nHost: {address}\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n");
    stream.write_all(head.as_bytes()).expect("sent");
    let mut go_on = [0; 25];
    stream.read_exact(&mut go_on).expect("an answer");
    assert_eq!(&go_on, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(b"x").expect("sent");
    let without = told.recv_timeout(DEADLINE).expect("a request");
    assert!(!without.to_ascii_lowercase().contains("expect"), "{without}");
}

#[test]
fn connections_to_the_server_are_kept() {
    let (url, told) = canned(EMPTY_200);
    let proxy = Proxy::start(&url).expect("a proxy");

    let connections: Vec<String> = (0..3)
        .map(|_| {
            ask(&proxy, "HEAD", "/b/k").expect("an answer");
            told.recv_timeout(DEADLINE).expect("a request").lines().next().expect("a line").to_owned()
        })
        .collect();

    assert_eq!(connections, ["connection 0"; 3]);
}

#[test]
fn a_reset_or_an_error_reaches_no_server() {
    let (url, told) = canned(EMPTY_200);
    let proxy = Proxy::start(&url).expect("a proxy");
    proxy.add_rule(ProxyRule::on("PutObject", Action::Reset).key("reset"));
    proxy.add_rule(
        ProxyRule::on("PutObject", Action::error(503, "SlowDown").with_header("retry-after", "2")).key("slow"),
    );
    proxy.add_rule(ProxyRule::on("PutObject", Action::error_in_200("InternalError")).key("hidden"));

    let reset = ask(&proxy, "PUT", "/b/reset");
    let slow = ask(&proxy, "PUT", "/b/slow").expect("an answer");
    let hidden = ask(&proxy, "PUT", "/b/hidden").expect("an answer");

    assert_eq!(reset.expect_err("a broken connection").kind(), std::io::ErrorKind::ConnectionReset);
    assert_eq!((slow.status, slow.header("retry-after")), (503, Some("2")));
    assert!(slow.text().contains("<Code>SlowDown</Code>"), "{}", slow.text());
    assert_eq!(hidden.status, 200);
    assert!(hidden.text().contains("<Error><Code>InternalError</Code>"), "{}", hidden.text());
    assert!(told.try_recv().is_err(), "a request was forwarded");
    let stats = proxy.stats();
    assert_eq!(stats.operations["PutObject"].failed, 3);
    assert_eq!(stats.rules.iter().map(|rule| rule.fired).collect::<Vec<_>>(), [1, 1, 1]);
}

#[test]
fn a_lost_reply_leaves_the_effect_on_record() {
    let (url, told) = canned(EMPTY_200);
    let proxy = Proxy::start(&url).expect("a proxy");
    proxy.add_rule(ProxyRule::on("CompleteMultipartUpload", Action::LoseReply).times(1));

    let lost = ask(&proxy, "POST", "/b/k?uploadId=u");
    let second = ask(&proxy, "POST", "/b/k?uploadId=u").expect("an answer");

    assert!(lost.is_err());
    assert_eq!(second.status, 200);
    assert_eq!(told.try_iter().count(), 2);
    let log = proxy.log();
    assert!(log[0].took_effect() && !log[0].succeeded());
    assert_eq!(log[0].status, None);
    assert!(log[1].succeeded());
}

#[test]
fn a_truncated_reply_breaks_the_connection_after_so_many_bytes() {
    let (url, _told) = canned(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n0123456789");
    let proxy = Proxy::start(&url).expect("a proxy");
    proxy.add_rule(ProxyRule::on("GetObject", Action::Truncate { keep: 4 }).times(1));
    proxy.add_rule(ProxyRule::on("GetObject", Action::Corrupt { at: 9 }));

    let cut = ask(&proxy, "GET", "/b/k");
    let flipped = ask(&proxy, "GET", "/b/k").expect("an answer");

    assert_eq!(cut.expect_err("a broken reply").kind(), std::io::ErrorKind::UnexpectedEof);
    assert_eq!(flipped.body, b"0123456788");
    assert!(proxy.wait_blocking(&Condition::Idle, DEADLINE));
    let log = proxy.log();
    assert_eq!((log[0].reply_bytes, log[0].complete), (4, false));
    assert!(log[1].complete);
}

#[test]
fn one_byte_of_a_requests_body_is_flipped_and_its_headers_stay() {
    let (url, told) = canned(EMPTY_200);
    let proxy = Proxy::start(&url).expect("a proxy");
    proxy.add_rule(ProxyRule::on("PutObject", Action::CorruptRequest { at: 2_000_009 }).after(1));
    let headers = [("content-md5", "of what was meant")];
    let put = |body: &[u8]| {
        let reply = signed::request(&proxy.endpoint_url(), MOVER, "PUT", "/b/k", &headers, body).expect("an answer");
        assert_eq!(reply.status, 200);
        let arrived = told.recv_timeout(DEADLINE).expect("a request");
        assert!(arrived.contains("content-md5: of what was meant\r\n"), "{arrived}");
        arrived.split_once("\r\n\r\n").expect("a body").1.to_owned()
    };

    assert_eq!(put(b"0000"), "0000");
    // Taken in whole, or passed on as it comes; never past the end.
    assert_eq!(put(b"0000"), "0100");
    let long = put("0".repeat(3_000_000).as_bytes());
    assert_eq!(put(b""), "");

    assert_eq!(long.len(), 3_000_000);
    assert_eq!(long.find('1'), Some(2_000_009));
    assert_eq!(long.rfind('1'), Some(2_000_009));
    assert!(proxy.wait_blocking(&Condition::Idle, DEADLINE));
    let spoiled: Vec<_> = proxy.log().iter().map(|record| record.spoiled_at).collect();
    assert_eq!(spoiled, [None, Some(1), Some(2_000_009), None]);
}

#[test]
fn an_unreachable_server_breaks_the_clients_connection() {
    let free = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    let proxy = Proxy::start(&format!("http://{free}")).expect("a proxy");

    assert!(ask(&proxy, "GET", "/b/k").is_err());

    assert!(proxy.log()[0].failure.as_deref().is_some_and(|failure| failure.starts_with("the server")));
}

#[tokio::test]
async fn held_requests_go_on_one_by_one() {
    let (url, told) = canned(EMPTY_200);
    let proxy = Proxy::start(&url).expect("a proxy");
    let rule = proxy.add_rule(ProxyRule::on("CopyObject", Action::Hold { at: RequestSide::Request }));
    let endpoint = proxy.endpoint_url();
    let askers: Vec<_> = (0..3)
        .map(|number| {
            let endpoint = endpoint.clone();
            let target = format!("/b/{number}");
            let headers = [("x-amz-copy-source", "/b/k")];
            std::thread::spawn(move || signed::request(&endpoint, MOVER, "PUT", &target, &headers, b""))
        })
        .collect();

    assert!(proxy.wait(Condition::Held { rule: Some(rule), count: 3 }, DEADLINE).await);
    assert!(told.try_recv().is_err());
    assert!(!proxy.wait(Condition::Idle, Duration::from_millis(20)).await);
    assert_eq!(proxy.release(Some(rule), Some(2)), 2);
    assert!(proxy.wait(Condition::Succeeded { operation: "CopyObject".to_owned(), count: 2 }, DEADLINE).await);
    assert_eq!(proxy.in_flight().len(), 1);
    proxy.remove_rule(rule);

    for asker in askers {
        assert_eq!(asker.join().expect("an asker").expect("an answer").status, 200);
    }
    assert_eq!(proxy.stats().peak_in_flight, 3);
}

#[tokio::test(start_paused = true)]
async fn waiting_ends_at_its_deadline_even_where_the_clock_is_paused() {
    let (url, _told) = canned(EMPTY_200);
    let proxy = Proxy::start(&url).expect("a proxy");

    assert!(!proxy.wait(Condition::Held { rule: None, count: 1 }, Duration::from_millis(50)).await);
    assert!(proxy.wait(Condition::Idle, DEADLINE).await);
}

#[test]
fn a_client_that_leaves_does_not_stop_the_server() {
    let (url, told) = canned(EMPTY_200);
    let proxy = Proxy::start(&url).expect("a proxy");
    let rule = proxy.add_rule(ProxyRule::on("UploadPartCopy", Action::Hold { at: RequestSide::Reply }));
    let address = proxy.address();
    let mut stream = TcpStream::connect(address).expect("a connection");
    let head =
        format!("PUT /b/k?partNumber=1&uploadId=u HTTP/1.1\r\nHost: {address}\r\nX-Amz-Copy-Source: b/s\r\n\r\n");
    stream.write_all(head.as_bytes()).expect("sent");
    assert!(proxy.wait_blocking(&Condition::Held { rule: Some(rule), count: 1 }, DEADLINE));

    drop(stream);

    assert!(proxy.wait_blocking(&Condition::Idle, DEADLINE));
    assert_eq!(told.try_iter().count(), 1);
    let log = proxy.log();
    assert!(log[0].took_effect() && !log[0].succeeded());
}

#[test]
fn a_real_server_takes_signatures_through_the_proxy() {
    for server in ServerKind::ALL.into_iter().filter_map(server) {
        let proxy = Proxy::start(server.endpoint_url()).expect("a proxy");
        let bucket = server.fresh_bucket();
        let content = data::bytes(data::seed(), 3_000_000);
        let target = format!("/{bucket}/k%2B%C3%BC");
        let send = |method: &str, body: &[u8]| {
            signed::request(&proxy.endpoint_url(), MOVER, method, &target, &[], body).expect("an answer")
        };

        assert_eq!(send("PUT", &content).status, 200);
        let got = send("GET", b"");

        assert_eq!(got.status, 200, "{}", got.text());
        assert!(got.body == content, "{} gave other bytes", server.kind().name());
        let head = send("HEAD", b"");
        assert_eq!(head.header("content-length"), Some("3000000"));
        assert!(proxy.wait_blocking(&Condition::Idle, DEADLINE));
        let log = proxy.log();
        let sizes: Vec<_> = log.iter().map(|record| (record.request_bytes, record.reply_bytes)).collect();
        assert_eq!(sizes[..], [(3_000_000, 0), (0, 3_000_000), (0, 0)]);
        assert!(log.iter().all(|record| record.succeeded() && record.key.as_deref() == Some("k+ü")));
    }
}
