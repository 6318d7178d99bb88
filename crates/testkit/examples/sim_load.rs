//! Part copies, small copies and bytes per second that one core of the simulator serves, by its own CPU time.
//!
//! Usage: `sim_load PATH-OF-s3sim [SECONDS [COPIES]]`, as `benches/bench_simulator.py` calls it. The client writes
//! prepared bytes over plain sockets and only looks for the ends of replies, so that it takes little of the machine. It
//! prints one JSON object per load. A load takes SECONDS (4). With COPIES, the small copies continue until their number
//! is reached, ten minutes at most.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const CONNECTIONS: usize = 64;

/// CPU time of all threads of a process, in seconds, by the scheduler's clock: ticks of 10 ms would be too coarse for
/// short loads on a busy machine.
fn cpu_seconds(pid: u32) -> f64 {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).expect("Linux");
    let nanoseconds = threads.filter_map(|thread| {
        let text = std::fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<f64>().ok()
    });
    nanoseconds.sum::<f64>() / 1e9
}

fn resident_mib(pid: u32) -> f64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("Linux");
    let line = text.lines().find(|line| line.starts_with("VmRSS")).unwrap_or_default();
    line.split_ascii_whitespace().nth(1).and_then(|kib| kib.parse::<f64>().ok()).unwrap_or(0.0) / 1024.0
}

/// One answer; its body's length.
async fn answer(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> (u64, Vec<u8>) {
    buffer.clear();
    loop {
        if let Some(end) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&buffer[..end]).to_ascii_lowercase();
            assert!(head.starts_with("http/1.1 20"), "{head}");
            let length = head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next());
            let length: usize = length.and_then(|length| length.trim().parse().ok()).unwrap_or(0);
            let mut body = buffer[end + 4..].to_vec();
            let mut left = length - body.len();
            let mut sink = vec![0; 256 << 10];
            while left > 0 {
                let read = stream.read(&mut sink).await.expect("a whole answer");
                left -= read;
                if length < 100_000 {
                    body.extend_from_slice(&sink[..read]);
                }
            }
            return (length as u64, body);
        }
        assert!(stream.read_buf(buffer).await.expect("an answer") > 0, "the server closed the connection");
    }
}

fn head(method: &str, target: &str, headers: &str) -> String {
    let credential = "AKIAEXAMPLE/20261121/us-east-1/s3/aws4_request";
    format!(
        "{method} {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: AWS4-HMAC-SHA256 Credential={credential}, \
         SignedHeaders=host, Signature={:064}\r\nx-amz-date: 20261121T000000Z\r\nx-amz-content-sha256: UNSIGNED-PAYLOAD\r\n\
         User-Agent: sim_load\r\nContent-Length: 0\r\n{headers}\r\n",
        0
    )
}

async fn create_upload(address: &str, key: &str) -> String {
    let mut stream = TcpStream::connect(address).await.expect("the simulator");
    let request = head("POST", &format!("/dst/{key}?uploads="), "x-amz-checksum-algorithm: CRC64NVME\r\n");
    stream.write_all(request.as_bytes()).await.expect("sent");
    let (_, body) = answer(&mut stream, &mut Vec::new()).await;
    let text = String::from_utf8_lossy(&body).into_owned();
    text.split("<UploadId>").nth(1).and_then(|rest| rest.split('<').next()).expect("an upload id").to_owned()
}

/// Sends the requests of `make(connection, number)` on all connections; how many were answered, and their bytes.
async fn load(
    address: &str,
    make: impl Fn(usize, u64) -> String + Send + Clone + 'static,
    most: u64,
    length: Duration,
) -> (u64, u64, Duration) {
    let started = Instant::now();
    let tasks: Vec<_> = (0..CONNECTIONS)
        .map(|connection| {
            let (address, make) = (address.to_owned(), make.clone());
            tokio::spawn(async move {
                let mut stream = TcpStream::connect(address).await.expect("the simulator");
                stream.set_nodelay(true).expect("a socket");
                let (mut buffer, mut requests, mut bytes) = (Vec::new(), 0, 0);
                // One request each, however late the connection was made: a load of nothing has no cost.
                while requests == 0 || (started.elapsed() < length && requests < most) {
                    stream.write_all(make(connection, requests).as_bytes()).await.expect("sent");
                    bytes += answer(&mut stream, &mut buffer).await.0;
                    requests += 1;
                }
                (requests, bytes)
            })
        })
        .collect();
    let mut sum = (0, 0);
    for task in tasks {
        let (requests, bytes) = task.await.expect("a task");
        sum = (sum.0 + requests, sum.1 + bytes);
    }
    (sum.0, sum.1, started.elapsed())
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let program = std::env::args().nth(1).expect("the path of s3sim");
    let seconds: f64 = std::env::args().nth(2).map_or(4.0, |word| word.parse().expect("seconds"));
    let copies: u64 = std::env::args().nth(3).map_or(0, |word| word.parse().expect("a number of copies"));
    let length = Duration::from_secs_f64(seconds);
    let mut server = Command::new(program)
        .args(["--instant", "--bucket", "dst"])
        .args(["--bucket", "src=keys=run42/sample_{i:04}_R{1,2}.fastq.gz;count=448;total=11.88TiB;part-size=8MiB"])
        .args(["--bucket", "small=keys=k/{i:08};count=100000000;size=1 KiB"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("s3sim");
    let mut line = String::new();
    BufReader::new(server.stdout.take().expect("its output")).read_line(&mut line).expect("its first line");
    let address = line.split("http://").nth(1).and_then(|rest| rest.split('"').next()).expect("its address").to_owned();
    let mut uploads = Vec::new();
    for connection in 0..CONNECTIONS {
        uploads.push(create_upload(&address, &format!("part/{connection}")).await);
    }
    let report = |name: &str, (requests, bytes, wall): (u64, u64, Duration), cpu: f64| {
        println!(
            "{{\"load\": \"{name}\", \"requests\": {requests}, \"per_second\": {:.0}, \"per_core_second\": {:.0}, \
             \"cpu_us_per_request\": {:.1}, \"gib_per_core_second\": {:.2}, \"resident_mib\": {:.0}}}",
            requests as f64 / wall.as_secs_f64(),
            requests as f64 / cpu,
            cpu * 1e6 / requests as f64,
            bytes as f64 / cpu / f64::from(1 << 30),
            resident_mib(server.id()),
        );
    };
    let part_copy = move |connection: usize, request: u64| {
        let part = request % 200;
        let (first, last) = (part << 27, ((part + 1) << 27) - 1);
        let source = format!(
            "x-amz-copy-source: src/run42/sample_{connection:04}_R1.fastq.gz\r\n\
             x-amz-copy-source-range: bytes={first}-{last}\r\n"
        );
        let target = format!("/dst/part/{connection}?partNumber={}&uploadId={}", part + 1, uploads[connection]);
        head("PUT", &target, &source)
    };
    let copy = |connection: usize, request: u64| {
        let number = connection as u64 * 1_000_000 + request;
        head("PUT", &format!("/dst/copy/{number:08}"), &format!("x-amz-copy-source: small/k/{number:08}\r\n"))
    };
    let head_object = |connection: usize, request: u64| {
        head("HEAD", &format!("/small/k/{:08}", connection as u64 * 1_000_000 + request), "").replace("HEAD", "GET")
    };
    let list = |connection: usize, request: u64| {
        let after = (connection as u64 * 1_000_000) + request * 1_000;
        head("GET", &format!("/small?encoding-type=url&list-type=2&start-after=k%2F{after:08}"), "")
    };
    let get = |connection: usize, request: u64| {
        let first = request << 24;
        let range = format!("range: bytes={first}-{}\r\n", first + (1 << 24) - 1);
        head("GET", &format!("/src/run42/sample_{connection:04}_R1.fastq.gz"), &range)
    };
    let before = cpu_seconds(server.id());
    let result = load(&address, part_copy, u64::MAX, length).await;
    report("UploadPartCopy of 128 MiB, CRC64NVME", result, cpu_seconds(server.id()) - before);
    let before = cpu_seconds(server.id());
    let result = load(&address, head_object, u64::MAX, length).await;
    report("GetObject of 1 KiB", result, cpu_seconds(server.id()) - before);
    let before = cpu_seconds(server.id());
    let result = load(&address, list, u64::MAX, length).await;
    report("ListObjectsV2, pages of 1,000 out of 10^8", result, cpu_seconds(server.id()) - before);
    let before = cpu_seconds(server.id());
    let result = load(&address, get, u64::MAX, length).await;
    report("GetObject of 16 MiB", result, cpu_seconds(server.id()) - before);
    let before = cpu_seconds(server.id());
    let (most, copying) = match copies {
        0 => (u64::MAX, length),
        copies => (copies.div_ceil(CONNECTIONS as u64), Duration::from_mins(10)),
    };
    let result = load(&address, copy, most, copying).await;
    report("CopyObject of 1 KiB", result, cpu_seconds(server.id()) - before);
    drop(server.stdin.take());
    server.wait().expect("its end");
}
