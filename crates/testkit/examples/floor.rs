//! The least work that a client can do with whole files: it measures the server and the system by themselves.
//!
//! Usage: `floor upload|download HOST:PORT BUCKET PREFIX FOLDER FILES`, as `benches/bench_transfer.py --only floor`
//! calls it, with credentials in the environment.
//!
//! Each file takes one request, on connections that stay open, each with a thread of its own. A download also lists the
//! files, as a client that does not know the names has to. No file waits for the listing, since the names are known
//! here (`000000.bin` and so on). Nothing is recorded, compared, retried or synced to the disk: no tool could do less,
//! and none should. The first error ends the program.

use std::fs::File;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::fs::{OFlags, fcntl_setfl};
use seqferry_testkit::signed::{self, Credentials, authorization, timestamp};

const CONNECTIONS: usize = 16;
const BUFFER: usize = 1 << 20;
const BLOCK: usize = 4096;
const PAGE: usize = 1000;

struct Job {
    upload: bool,
    host: String,
    bucket: String,
    prefix: String,
    folder: String,
    files: usize,
    credentials: Credentials,
}

fn request(job: &Job, name: &str, length: u64) -> String {
    let method = if job.upload { "PUT" } else { "GET" };
    let target = format!("/{}/{}{name}", job.bucket, job.prefix);
    let headers = [
        ("host".to_owned(), job.host.clone()),
        ("x-amz-content-sha256".to_owned(), "UNSIGNED-PAYLOAD".to_owned()),
        ("x-amz-date".to_owned(), timestamp()),
    ];
    let authorization = authorization(job.credentials, method, &target, &headers);
    let lines: String =
        headers.iter().fold(String::new(), |lines, (name, value)| lines + &format!("{name}: {value}\r\n"));
    let length = if job.upload { format!("content-length: {length}\r\n") } else { String::new() };
    format!("{method} {target} HTTP/1.1\r\n{lines}authorization: {authorization}\r\n{length}\r\n")
}

/// Read to the end of a head. How many bytes of the body follow it, and where what came of them stands in the buffer.
fn read_head(stream: &mut TcpStream, buffer: &mut [u8]) -> (usize, std::ops::Range<usize>) {
    let mut filled = 0;
    loop {
        let came = stream.read(&mut buffer[filled..]).expect("an answer");
        assert!(came > 0, "the server closed the connection");
        filled += came;
        let Some(end) = buffer[..filled].windows(4).position(|window| window == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&buffer[..end]).to_ascii_lowercase();
        assert!(head.starts_with("http/1.1 200"), "{head}");
        let length = head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next()).expect("a length");
        return (length.trim().parse().expect("a length"), end + 4..filled);
    }
}

fn send(job: &Job, stream: &mut TcpStream, name: &str, buffer: &mut [u8]) {
    let mut file = File::open(Path::new(&job.folder).join(name)).expect("a file");
    let mut left = usize::try_from(file.metadata().expect("a file").len()).expect("64 bits");
    // Head and body of a small file are one write.
    let head = request(job, name, left as u64);
    buffer[..head.len()].copy_from_slice(head.as_bytes());
    let mut filled = head.len();
    loop {
        let most = left.min(buffer.len() - filled);
        file.read_exact(&mut buffer[filled..filled + most]).expect("what is in it");
        stream.write_all(&buffer[..filled + most]).expect("sent");
        left -= most;
        filled = 0;
        if left == 0 {
            break;
        }
    }
    let (length, body) = read_head(stream, buffer);
    assert!(length == body.len(), "an answer without a body");
}

fn receive(job: &Job, stream: &mut TcpStream, name: &str, buffer: &mut [u8]) {
    stream.write_all(request(job, name, 0).as_bytes()).expect("sent");
    let mut file = File::create_new(Path::new(&job.folder).join(name)).expect("a new file");
    let (length, body) = read_head(stream, buffer);
    let mut left = length - body.len();
    // What came with the head is where the rest is to be, so that a small file is one write.
    buffer.copy_within(body.clone(), 0);
    let mut filled = body.len();
    while left > 0 {
        let most = left.min(buffer.len() - filled);
        let came = stream.read(&mut buffer[filled..filled + most]).expect("a body");
        assert!(came > 0, "the server closed the connection");
        (left, filled) = (left - came, filled + came);
        if filled == buffer.len() {
            write(&mut file, &buffer[..filled]);
            filled = 0;
        }
    }
    write(&mut file, &buffer[..filled]);
}

/// Whole blocks go past the system's cache where they can: nothing gets a file onto the disk for less.
fn write(file: &mut File, bytes: &[u8]) {
    let (blocks, rest) = bytes.split_at(bytes.len() - bytes.len() % BLOCK);
    if fcntl_setfl(&*file, OFlags::DIRECT).is_ok() {
        file.write_all(blocks).expect("written");
        fcntl_setfl(&*file, OFlags::empty()).expect("an open file");
        file.write_all(rest).expect("written");
    } else {
        file.write_all(bytes).expect("written");
    }
}

/// Ask for all pages, one after another, as S3 gives them.
fn list(job: &Job) {
    let prefix = job.prefix.replace('/', "%2F");
    for begin in (0..job.files).step_by(PAGE) {
        let after = if begin == 0 { String::new() } else { format!("&start-after={prefix}{:06}.bin", begin - 1) };
        let target = format!("/{}?list-type=2&max-keys={PAGE}&prefix={prefix}{after}", job.bucket);
        let reply = signed::request(&job.host, job.credentials, "GET", &target, &[], &[]).expect("a page");
        assert_eq!(reply.text().matches("<Key>").count(), PAGE.min(job.files - begin), "{}", reply.status);
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the entry point")]
fn variable(name: &str) -> &'static str {
    std::env::var(name).expect("credentials in the environment").leak()
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [direction, host, bucket, prefix, folder, files] = &words[..] else { panic!("six words") };
    let job = Job {
        upload: direction == "upload",
        host: host.clone(),
        bucket: bucket.clone(),
        prefix: prefix.clone(),
        folder: folder.clone(),
        files: files.parse().expect("a number"),
        credentials: Credentials {
            access_key: variable("AWS_ACCESS_KEY_ID"),
            secret_key: variable("AWS_SECRET_ACCESS_KEY"),
        },
    };
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        if !job.upload {
            scope.spawn(|| list(&job));
        }
        for _ in 0..CONNECTIONS.min(job.files) {
            scope.spawn(|| {
                let mut stream = TcpStream::connect(&job.host).expect("the server");
                stream.set_nodelay(true).expect("a socket");
                // It begins where a block can begin.
                let mut memory = vec![0; BUFFER + BLOCK];
                let begin = memory.as_ptr().align_offset(BLOCK);
                let buffer = &mut memory[begin..begin + BUFFER];
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= job.files {
                        return;
                    }
                    let act = if job.upload { send } else { receive };
                    act(&job, &mut stream, &format!("{number:06}.bin"), buffer);
                }
            });
        }
    });
}
