//! A server that sends scripted answers, byte for byte, and records the requests.
//!
//! The server reads HTTP/1.1 with `Content-Length` itself: an HTTP library would normalize the paths, and would not
//! send the broken answers that these tests need. It runs on threads, so that tests can pause their clock.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use tokio::sync::watch;

/// A request as it arrived.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    /// `GET`, `PUT`, ...
    pub(crate) method: String,
    /// Path and query, byte for byte.
    pub(crate) target: String,
    /// Headers, with names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Request {
    /// The path, byte for byte.
    pub(crate) fn path(&self) -> &str {
        self.target.split_once('?').map_or(self.target.as_str(), |(path, _)| path)
    }

    pub(crate) fn query(&self) -> &str {
        self.target.split_once('?').map_or("", |(_, query)| query)
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The region that the signature is for.
    pub(crate) fn signed_region(&self) -> Option<&str> {
        self.credential().split('/').nth(2)
    }

    /// The access key id that signed.
    pub(crate) fn access_key(&self) -> Option<&str> {
        self.credential().split('/').next().filter(|key| !key.is_empty())
    }

    fn credential(&self) -> &str {
        let authorization = self.header("authorization").unwrap_or_default();
        authorization.split_once("Credential=").map_or("", |(_, rest)| rest.split(',').next().unwrap_or_default())
    }
}

/// Event after the last byte of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReplyEnding {
    /// The next request on the same connection.
    Next,
    /// An orderly end of the connection.
    Close,
    /// A reset of the connection.
    Reset,
    /// Silence, for as long as the client waits.
    Stall,
}

/// An answer.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    bytes: Vec<u8>,
    then: ReplyEnding,
}

impl Reply {
    /// A whole answer.
    pub(crate) fn new(status: u16, headers: &[(&str, &str)], body: impl AsRef<[u8]>) -> Self {
        let body = body.as_ref();
        let mut head = format!("HTTP/1.1 {status} Status\r\ncontent-length: {}\r\n", body.len());
        for (name, value) in headers {
            let _ = write!(head, "{name}: {value}\r\n");
        }
        head.push_str("\r\n");
        let mut bytes = head.into_bytes();
        // Answers of these statuses end with their head.
        if status != 304 && status != 204 {
            bytes.extend_from_slice(body);
        }
        Self { bytes, then: ReplyEnding::Next }
    }

    /// A success with an XML body.
    pub(crate) fn xml(body: &str) -> Self {
        Self::new(200, &[("content-type", "application/xml")], body)
    }

    /// An error in S3's form.
    pub(crate) fn error(status: u16, code: &str) -> Self {
        Self::error_with(status, &[], &error_body(code, ""))
    }

    /// An error with headers and a body of choice.
    pub(crate) fn error_with(status: u16, headers: &[(&str, &str)], body: &str) -> Self {
        let mut all = vec![("content-type", "application/xml"), ("x-amz-request-id", "REQUEST0001")];
        all.extend_from_slice(headers);
        Self::new(status, &all, body)
    }

    /// The answer to a HEAD, which has no body.
    pub(crate) fn head(status: u16, headers: &[(&str, &str)]) -> Self {
        Self::new(status, headers, "")
    }

    /// Bytes that need not be HTTP.
    pub(crate) fn raw(bytes: &str, then: ReplyEnding) -> Self {
        Self::of_bytes(bytes.as_bytes(), then)
    }

    /// Bytes that need not be text.
    pub(crate) fn of_bytes(bytes: &[u8], then: ReplyEnding) -> Self {
        Self { bytes: bytes.to_vec(), then }
    }

    /// An empty answer.
    pub(crate) fn none(then: ReplyEnding) -> Self {
        Self { bytes: Vec::new(), then }
    }

    /// Removes the last `missing` bytes, and sets the event that follows.
    pub(crate) fn cut(mut self, missing: usize, then: ReplyEnding) -> Self {
        self.bytes.truncate(self.bytes.len() - missing);
        self.then = then;
        self
    }
}

/// The body of an error; `more` are further elements.
pub(crate) fn error_body(code: &str, more: &str) -> String {
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>{code}</Code><Message>the text of {code}</Message>\
         {more}<RequestId>REQUEST0001</RequestId></Error>"
    )
}

type Answer = dyn Fn(&Request, usize) -> Reply + Send + Sync;

struct ServerState {
    answer: Box<Answer>,
    requests: Mutex<Vec<Request>>,
    connections: AtomicUsize,
    arrived: watch::Sender<usize>,
    stop: AtomicBool,
}

/// A running server; takes no more connections when dropped.
pub(crate) struct Wire {
    address: SocketAddr,
    shared: Arc<ServerState>,
    thread: Option<JoinHandle<()>>,
}

impl Wire {
    /// Starts a server that answers by a function of the request and the number of requests before it.
    pub(crate) fn serve(answer: impl Fn(&Request, usize) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a loopback port");
        let address = listener.local_addr().expect("its address");
        let shared = Arc::new(ServerState {
            answer: Box::new(answer),
            requests: Mutex::default(),
            connections: AtomicUsize::new(0),
            arrived: watch::Sender::new(0),
            stop: AtomicBool::new(false),
        });
        let for_thread = Arc::clone(&shared);
        let thread = std::thread::spawn(move || {
            for connection in listener.incoming() {
                if for_thread.stop.load(Ordering::Relaxed) {
                    return;
                }
                let shared = Arc::clone(&for_thread);
                shared.connections.fetch_add(1, Ordering::Relaxed);
                if let Ok(connection) = connection {
                    std::thread::spawn(move || connection_loop(connection, &shared));
                }
            }
        });
        Self { address, shared, thread: Some(thread) }
    }

    /// Starts a server that always gives the same answer.
    pub(crate) fn always(reply: Reply) -> Self {
        Self::serve(move |_, _| reply.clone())
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Number of connections made so far.
    pub(crate) fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::Relaxed)
    }

    /// All requests so far.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.shared.requests.lock().unwrap().clone()
    }

    /// The only request so far.
    pub(crate) fn only_request(&self) -> Request {
        let mut requests = self.requests();
        assert_eq!(requests.len(), 1, "one request, not {requests:#?}");
        requests.remove(0)
    }

    /// Waits until `count` requests have arrived.
    pub(crate) async fn arrived(&self, count: usize) {
        let mut arrived = self.shared.arrived.subscribe();
        arrived.wait_for(|now| *now >= count).await.expect("the server runs");
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Serves a connection until either side closes it.
fn connection_loop(mut stream: TcpStream, shared: &ServerState) {
    let _ = stream.set_nodelay(true);
    while let Some(request) = next_request(&mut stream) {
        let before = {
            let mut requests = shared.requests.lock().unwrap();
            requests.push(request.clone());
            requests.len() - 1
        };
        let reply = (shared.answer)(&request, before);
        shared.arrived.send_replace(before + 1);
        let mut reply = reply;
        if request.method == "HEAD"
            && let Some(end) = reply.bytes.windows(4).position(|four| four == b"\r\n\r\n")
        {
            // The length is announced, and the body is not sent.
            reply.bytes.truncate(end + 4);
        }
        if reply.then == ReplyEnding::Reset {
            // The last byte of the request was left unread, so closing now makes the system send a reset. The bytes
            // that the client is to read must have been sent before.
            if !reply.bytes.is_empty() {
                let _ = stream.write_all(&reply.bytes);
            }
            return;
        }
        let _ = stream.read_exact(&mut [0]);
        if stream.write_all(&reply.bytes).is_err() {
            return;
        }
        match reply.then {
            ReplyEnding::Next => {}
            ReplyEnding::Close | ReplyEnding::Reset => {
                let _ = stream.shutdown(Shutdown::Write);
                return;
            }
            ReplyEnding::Stall => {
                // Until the client leaves.
                let _ = stream.read(&mut [0]);
                return;
            }
        }
    }
}

/// Reads a whole request; its last byte is only peeked at.
fn next_request(stream: &mut TcpStream) -> Option<Request> {
    let mut seen = vec![0; 1 << 16];
    let head_end = loop {
        let got = stream.peek(&mut seen).ok()?;
        if got == 0 {
            return None;
        }
        if let Some(at) = seen[..got].windows(4).position(|four| four == b"\r\n\r\n") {
            break at;
        }
        // More of the head will arrive; peeking does not wait for it.
        std::thread::yield_now();
    };
    let head = String::from_utf8_lossy(&seen[..head_end]).into_owned();
    let mut lines = head.split("\r\n");
    let mut first = lines.next()?.split(' ');
    let (method, target) = (first.next()?.to_owned(), first.next()?.to_owned());
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.trim().to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    assert!(!headers.iter().any(|(name, _)| name == "transfer-encoding"), "bodies come with their length");
    let length =
        headers.iter().find(|(name, _)| name == "content-length").map_or(0, |(_, value)| value.parse().unwrap());

    let mut message = vec![0; head_end + 4 + length];
    let (last, rest) = message.split_last_mut().expect("a head has bytes");
    stream.read_exact(rest).ok()?;
    let mut one = [0];
    if stream.peek(&mut one).ok()? == 0 {
        return None;
    }
    *last = one[0];
    let body = message.split_off(head_end + 4);
    Some(Request { method, target, headers, body })
}
