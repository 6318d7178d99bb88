//! The simulator in a Rust test: requests by hand, and faults and limits as they show on the wire.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use seqferry_testkit::data::seed;
use seqferry_testkit::signed::{Credentials, Reply, request};
use seqferry_testkit::sim::Simulator;
use seqferry_testkit::sim::faults::{Fault, FaultRule};
use seqferry_testkit::sim::model::{ModelOptions, Timing};
use seqferry_testkit::sim::scenario::{ByteSize, Scenario, parse_bucket};

const ANYBODY: Credentials = Credentials { access_key: "anybody", secret_key: "anything" };
const MIB: u64 = 1 << 20;

fn start(buckets: &[&str]) -> Simulator {
    start_with(buckets, Scenario::instant())
}

fn start_with(buckets: &[&str], scenario: Scenario) -> Simulator {
    let buckets = buckets.iter().map(|bucket| parse_bucket(bucket).expect("a bucket")).collect();
    Simulator::start(Scenario { seed: seed(), buckets, ..scenario }).expect("a simulator")
}

fn send(simulator: &Simulator, method: &str, target: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
    request(&simulator.endpoint_url(), ANYBODY, method, target, headers, body).expect("an answer")
}

fn element(reply: &Reply, name: &str) -> Option<String> {
    let text = reply.text();
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    rest.split_once(&format!("</{name}>")).map(|(value, _)| value.replace("&quot;", ""))
}

/// Waits for what other threads bring about, with a deadline.
fn eventually(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !holds() {
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Copies `src/k` to `dst/k` in parts, with a checksum over the full object; the answer to the last request.
fn copy_in_parts(simulator: &Simulator, size: u64, part_size: u64, whole: &str) -> Reply {
    let algorithm = [("x-amz-checksum-algorithm", "CRC64NVME"), ("x-amz-checksum-type", "FULL_OBJECT")];
    let created = send(simulator, "POST", "/dst/k?uploads=", &algorithm, b"");
    let upload = element(&created, "UploadId").expect("an upload");
    let mut document = String::from("<CompleteMultipartUpload>");
    for (number, first) in (1..).zip((0..size).step_by(usize::try_from(part_size).unwrap())) {
        let range = format!("bytes={first}-{}", (first + part_size).min(size) - 1);
        let copied = send(
            simulator,
            "PUT",
            &format!("/dst/k?partNumber={number}&uploadId={upload}"),
            &[("x-amz-copy-source", "src/k"), ("x-amz-copy-source-range", &range)],
            b"",
        );
        assert_eq!(copied.status, 200, "{}", copied.text());
        let (etag, crc) = (element(&copied, "ETag").unwrap(), element(&copied, "ChecksumCRC64NVME").unwrap());
        for text in [
            &format!("<Part><PartNumber>{number}</PartNumber><ETag>\"{etag}\"</ETag>"),
            &format!("<ChecksumCRC64NVME>{crc}</ChecksumCRC64NVME></Part>"),
        ] {
            document.push_str(text);
        }
    }
    document += "</CompleteMultipartUpload>";
    let size = size.to_string();
    let headers = [("x-amz-checksum-crc64nvme", whole), ("x-amz-mp-object-size", &size)];
    send(simulator, "POST", &format!("/dst/k?uploadId={upload}"), &headers, document.as_bytes())
}

#[test]
fn a_terabyte_is_copied_in_parts_and_proven_by_its_true_checksum() {
    let simulator = start(&["src=keys=k;size=1TiB", "dst"]);
    let head = send(&simulator, "HEAD", "/src/k", &[("x-amz-checksum-mode", "ENABLED")], b"");
    let crc = head.header("x-amz-checksum-crc64nvme").expect("a checksum").to_owned();

    let wrong = copy_in_parts(&simulator, 1 << 40, 1 << 32, "AAAAAAAAAAA=");
    assert_eq!((wrong.status, element(&wrong, "Code").as_deref()), (400, Some("BadDigest")));
    let done = copy_in_parts(&simulator, 1 << 40, 1 << 32, &crc);

    assert_eq!(done.status, 200, "{}", done.text());
    assert_eq!(element(&done, "ChecksumCRC64NVME").as_deref(), Some(crc.as_str()));
    let check = simulator.check("src/", "dst/").unwrap();
    assert_eq!((check.objects, check.same, check.bytes), (1, 1, 1 << 40));
    let stats = simulator.stats();
    assert_eq!(stats.operations["UploadPartCopy"].succeeded, 512);
    assert_eq!(stats.open_uploads, 1, "the refused one is still there");
}

#[test]
fn the_sources_boundaries_give_the_sources_etag_and_others_another() {
    let simulator = start(&["src=keys=k;size=100MiB;part-size=8MiB", "dst"]);
    let head = send(&simulator, "HEAD", "/src/k", &[("x-amz-checksum-mode", "ENABLED")], b"");
    let crc = head.header("x-amz-checksum-crc64nvme").unwrap().to_owned();
    let etag = head.header("etag").unwrap().trim_matches('"').to_owned();
    assert!(etag.ends_with("-13"), "{etag}");

    assert_eq!(element(&copy_in_parts(&simulator, 100 * MIB, 8 * MIB, &crc), "ETag"), Some(etag.clone()));
    assert_ne!(element(&copy_in_parts(&simulator, 100 * MIB, 16 * MIB, &crc), "ETag"), Some(etag));
    // A request with a part number shows the layout.
    let part = send(&simulator, "HEAD", "/src/k?partNumber=13", &[], b"");
    assert_eq!(part.header("content-length"), Some((4 * MIB).to_string().as_str()));
    assert_eq!(part.header("x-amz-mp-parts-count"), Some("13"));
}

#[test]
fn a_checksum_is_that_of_the_bytes_that_are_read() {
    let simulator = start(&["src=keys=k;size=3MiB"]);
    let get = send(&simulator, "GET", "/src/k", &[("x-amz-checksum-mode", "ENABLED")], b"");

    let crc = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Nvme, &get.body);
    let expected = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, crc.to_be_bytes());
    assert_eq!(get.header("x-amz-checksum-crc64nvme"), Some(expected.as_str()));
}

#[test]
fn what_s3_refuses_of_an_upload_is_refused() {
    let simulator = start(&["src=keys=k;size=100MiB", "small=keys=k;size=1MiB", "dst"]);
    let created = send(&simulator, "POST", "/dst/k?uploads=", &[], b"");
    let upload = element(&created, "UploadId").unwrap();
    let part = |number: u32, source: &str, range: &str| {
        let target = format!("/dst/k?partNumber={number}&uploadId={upload}");
        let reply =
            send(&simulator, "PUT", &target, &[("x-amz-copy-source", source), ("x-amz-copy-source-range", range)], b"");
        (reply.status, element(&reply, "Code").or_else(|| element(&reply, "ETag")).unwrap_or_default())
    };
    let complete = |parts: &[(u32, &str)]| {
        let parts: Vec<String> = parts
            .iter()
            .map(|(number, etag)| format!("<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part>"))
            .collect();
        let parts = parts.concat();
        let document = format!("<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>");
        let reply = send(&simulator, "POST", &format!("/dst/k?uploadId={upload}"), &[], document.as_bytes());
        element(&reply, "Code").unwrap_or_default()
    };

    assert_eq!(part(0, "src/k", "bytes=0-9"), (400, "InvalidArgument".to_owned()));
    assert_eq!(part(1, "src/k", "bytes=0-104857600"), (400, "InvalidArgument".to_owned()));
    assert_eq!(part(1, "small/k", "bytes=0-9"), (400, "InvalidRequest".to_owned()));
    assert_eq!(part(1, "src/none", "bytes=0-9"), (404, "NoSuchKey".to_owned()));
    assert_eq!(part(1, "none/k", "bytes=0-9"), (404, "NoSuchBucket".to_owned()));
    let (_, one) = part(1, "src/k", "bytes=0-9");
    let (_, two) = part(2, "src/k", "bytes=10-19");

    assert_eq!(complete(&[]), "MalformedXML");
    assert_eq!(complete(&[(2, &two), (1, &one)]), "InvalidPartOrder");
    assert_eq!(complete(&[(1, &two)]), "InvalidPart");
    assert_eq!(complete(&[(3, &one)]), "InvalidPart");
    assert_eq!(complete(&[(1, &one), (2, &two)]), "EntityTooSmall");
    assert_eq!(complete(&[(2, &two)]), "", "a single part may be small");
    assert_eq!(complete(&[(2, &two)]), "NoSuchUpload");
}

#[test]
fn a_client_that_leaves_does_not_stop_its_write() {
    let slow = Timing { base_seconds: 0.3, mib_per_second: 0.0, jitter: 0.0 };
    let model = ModelOptions { copy: slow, ..ModelOptions::instant() };
    let simulator = start_with(&["src=keys=k;size=1MiB", "dst"], Scenario { model, ..Scenario::default() });

    let mut stream = TcpStream::connect(simulator.address()).unwrap();
    stream
        .write_all(b"PUT /dst/k HTTP/1.1\r\nhost: x\r\nx-amz-copy-source: src/k\r\ncontent-length: 0\r\n\r\n")
        .unwrap();
    eventually("its arrival", || simulator.stats().in_flight == 1);
    drop(stream);

    eventually("the copy", || simulator.stats().written_objects == 1);
    eventually("its end", || simulator.stats().in_flight == 0);
    assert_eq!(simulator.stats().operations["CopyObject"].unanswered, 1);
}

#[test]
fn faults_of_chance_strike_as_often_as_told() {
    let simulator = start(&["src=keys=k/{i:04};count=1000;size=1"]);
    let rule = |fault| FaultRule {
        fault,
        operation: Some("HeadObject".to_owned()),
        bucket: None,
        key_prefix: None,
        access_key: None,
        probability: 0.2,
        times: None,
    };
    simulator.set_faults(vec![rule(Fault::InternalError)]);

    let failed =
        (0..1_000).filter(|i| send(&simulator, "HEAD", &format!("/src/k/{i:04}"), &[], b"").status == 500).count();

    assert!((140..260).contains(&failed), "{failed}");
    assert_eq!(simulator.stats().faults, failed as u64);
    simulator.set_faults(vec![FaultRule { times: Some(3), probability: 1.0, ..rule(Fault::SlowDown) }]);
    let failed = (0..10).filter(|_| send(&simulator, "HEAD", "/src/k/0000", &[], b"").status == 503).count();
    assert_eq!(failed, 3);
}

#[test]
fn an_error_in_200_stands_behind_white_space() {
    let simulator = start(&["src=keys=k;size=1", "dst"]);
    simulator.set_faults(vec![FaultRule {
        fault: Fault::ErrorIn200,
        operation: Some("CopyObject".to_owned()),
        bucket: None,
        key_prefix: None,
        access_key: None,
        probability: 1.0,
        times: None,
    }]);

    let reply = send(&simulator, "PUT", "/dst/k", &[("x-amz-copy-source", "src/k")], b"");

    assert_eq!((reply.status, element(&reply, "Code").as_deref()), (200, Some("InternalError")));
    assert_eq!(simulator.stats().written_objects, 0);
}

#[test]
fn bytes_of_a_client_that_breaks_off_are_not_kept() {
    let simulator = start(&["dst"]);
    let mut stream = TcpStream::connect(simulator.address()).unwrap();
    stream.write_all(b"PUT /dst/k HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000\r\n\r\n").unwrap();
    stream.write_all(&vec![7; 500_000]).unwrap();
    eventually("its bytes", || simulator.stats().kept_bytes > 0);

    drop(stream);

    eventually("them to go", || simulator.stats().kept_bytes == 0 && simulator.stats().in_flight == 0);
    assert_eq!(simulator.stats().written_objects, 0);
}

#[test]
fn objects_written_by_the_thousand_are_listed_between_the_counted_ones() {
    let simulator = start(&["b=keys=k/{i:03}/x;count=500;size=0"]);
    for i in (0..500).step_by(7) {
        assert_eq!(send(&simulator, "PUT", &format!("/b/k/{i:03}/y"), &[], b"").status, 200);
        assert_eq!(send(&simulator, "DELETE", &format!("/b/k/{i:03}/x"), &[], b"").status, 204);
    }
    let mut expected: Vec<String> =
        (0..500).map(|i| format!("k/{i:03}/{}", if i % 7 == 0 { "y" } else { "x" })).collect();
    expected.sort();

    let (mut keys, mut token) = (Vec::new(), String::new());
    loop {
        let query = if token.is_empty() { String::new() } else { format!("continuation-token={token}&") };
        let page = send(&simulator, "GET", &format!("/b?{query}list-type=2&max-keys=37"), &[], b"").text();
        keys.extend(page.split("<Key>").skip(1).filter_map(|rest| Some(rest.split_once('<')?.0.to_owned())));
        match page.split_once("<NextContinuationToken>") {
            Some((_, rest)) => token = rest.split_once('<').unwrap().0.to_owned(),
            None => break,
        }
    }

    assert_eq!(keys, expected);
}

#[test]
fn impossible_scenarios_and_taken_ports_are_named() {
    let refused = |scenario| Simulator::start(scenario).expect_err("refused");
    assert!(refused(Scenario { time_scale: -1.0, ..Scenario::default() }).contains("time_scale"));
    let twice = vec![parse_bucket("b").unwrap(), parse_bucket("b").unwrap()];
    assert!(refused(Scenario { buckets: twice, ..Scenario::default() }).contains("bucket b"));
    let first = start(&[]);
    let second = Simulator::listen(first.address(), Scenario::default(), 1);
    assert!(second.err().unwrap().contains(&first.address().to_string()));
    assert_eq!("5 GB".parse(), Ok(ByteSize(5_000_000_000)));
}

#[test]
fn a_download_is_paced_by_the_model() {
    let get = Timing { base_seconds: 0.0, mib_per_second: 4.0, jitter: 0.0 };
    let model = ModelOptions { get, ..ModelOptions::instant() };
    let simulator = start_with(&["src=keys=k;size=1MiB"], Scenario { model, ..Scenario::default() });

    let started = Instant::now();
    let mut stream = TcpStream::connect(simulator.address()).unwrap();
    stream.write_all(b"GET /src/k HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();

    // At least: a busy machine may take longer.
    assert!(started.elapsed() >= Duration::from_millis(240) && answer.len() > 1 << 20);
}
