//! GET and PUT over HTTP/1.1, with bodies where they are wanted.
//!
//! hyper reads bodies into memory of its own. To have them anywhere else costs a copy of every byte, and a download is little but such
//! copies. Here a request is written, the head of its answer read, and the rest left on the connection for whoever wants the bytes to read
//! it straight into place. Between a request and its connection stands no task and no queue. Connections are made as hyper's are
//! (see `super::transport`), and kept for the next request once an answer has been read to its end.

use std::collections::HashMap;
use std::error::Error;
use std::fmt;
use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Poll, ready};
use std::time::Duration;

use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::http::Headers;
use bytes::{Buf, BufMut as _, Bytes, BytesMut};
use hyper::Uri;
use hyper_rustls::MaybeHttpsStream;
use hyper_util::client::proxy::matcher::Matcher;
use hyper_util::rt::TokioIo;
use tokio::io::AsyncWriteExt as _;
use tokio::time::Instant;
use tokio_util::io::{poll_read_buf, poll_write_buf};
use tower_service::Service as _;

use super::sign::host;
use super::transport::{Dial, Wide, no_connection};
use crate::budget::ByteThrottle;

/// What is read to find the end of a head: more than a head has, little enough that few bytes of a body have to be moved.
const HEAD: usize = 8 << 10;
/// Bytes and lines that a head may have. S3 sends some twenty lines of its own and 2 KiB of metadata, which is at most some 600 more.
pub(super) const LONGEST_HEAD: usize = 64 << 10;
pub(super) const HEADERS: usize = 1024;
/// Lines for which there is room without an allocation.
const USUAL_HEADERS: usize = 100;
/// A line between the chunks of a chunked body.
const LONGEST_LINE: usize = 8 << 10;
/// A connection that nobody has used for so long is closed. Services close theirs after 5 to 60 s.
const IDLE: Duration = Duration::from_mins(1);

type Stream = TokioIo<MaybeHttpsStream<Wide>>;

/// Connections that wait for their next request.
#[derive(Debug)]
pub(super) struct Connections {
    dial: Dial,
    proxies: Matcher,
    /// Of what is sent.
    throttle: ByteThrottle,
    idle: Mutex<Idle>,
}

#[derive(Debug, Default)]
struct Idle {
    /// By scheme and authority; those that were used last stand last.
    by_origin: HashMap<String, Vec<(Instant, Connection)>>,
    /// Somebody closes those that nobody uses.
    is_swept: bool,
}

/// An answer whose body has not been read.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: Headers,
    pub(super) body: Incoming,
}

impl Connections {
    pub(super) fn new(dial: Dial, throttle: ByteThrottle) -> Arc<Self> {
        Arc::new(Self { dial, proxies: Matcher::from_env(), throttle, idle: Mutex::default() })
    }

    /// Whether requests to this address go through a proxy, and so not this way.
    pub(super) fn is_proxied(&self, uri: &Uri) -> bool {
        self.proxies.intercept(uri).is_some()
    }

    fn idle(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Send a request, whose address is `uri`. `body` stands for the one that it holds.
    pub(super) async fn send(
        self: &Arc<Self>,
        request: &HttpRequest,
        uri: &Uri,
        body: Bytes,
    ) -> Result<Answer, ConnectorError> {
        let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            return Err(ConnectorError::user("the address has no host".into()));
        };
        let origin = format!("{scheme}://{authority}");
        let text = Bytes::from(text(request, uri, body.len()));
        let may_be_repeated = request.method() == "GET";
        loop {
            let kept = self.take(&origin).await;
            let used = kept.is_some();
            let mut connection = match kept {
                Some(connection) => connection,
                None => self.connect(uri).await.map_err(no_connection)?,
            };
            match connection.ask(text.clone(), body.clone(), &self.throttle).await {
                Ok(head) => return Ok(self.answer(origin, connection, head)),
                // The other side has closed it while nobody used it, as it may at any time. Whether it has seen the request cannot be
                // known.
                Err(_) if used && may_be_repeated && connection.ahead.is_empty() => {}
                Err(error) => return Err(ConnectorError::io(error.into())),
            }
        }
    }

    async fn connect(&self, to: &Uri) -> Result<Connection, Box<dyn Error + Send + Sync>> {
        let mut dial = self.dial.clone();
        poll_fn(|cx| dial.poll_ready(cx)).await?;
        Ok(Connection { stream: Box::new(TokioIo::new(dial.call(to.clone()).await?)), ahead: BytesMut::new() })
    }

    /// A connection that is still there.
    async fn take(&self, origin: &str) -> Option<Connection> {
        loop {
            let (since, mut connection) = self.idle().by_origin.get_mut(origin)?.pop()?;
            if since.elapsed() < IDLE && connection.is_silent().await {
                return Some(connection);
            }
        }
    }

    fn keep(self: Arc<Self>, origin: String, mut connection: Connection) {
        // There may be thousands that wait.
        connection.ahead = BytesMut::new();
        let mut idle = self.idle();
        idle.by_origin.entry(origin).or_default().push((Instant::now(), connection));
        if !std::mem::replace(&mut idle.is_swept, true) {
            tokio::spawn(sweep(Arc::downgrade(&self)));
        }
    }

    fn answer(self: &Arc<Self>, origin: String, connection: Connection, head: Head) -> Answer {
        let Head { status, headers, framing, goes_on } = head;
        let home = goes_on.then(|| (origin, Arc::clone(self)));
        let mut body = Incoming { connection: Some(connection), framing, home };
        body.end_if_done();
        Answer { status, headers, body }
    }
}

/// Close what nobody uses, until there is nothing left.
async fn sweep(connections: Weak<Connections>) {
    loop {
        tokio::time::sleep(IDLE).await;
        let Some(connections) = connections.upgrade() else { return };
        let mut idle = connections.idle();
        idle.by_origin.retain(|_, kept| {
            kept.retain(|(since, _)| since.elapsed() < IDLE);
            !kept.is_empty()
        });
        if idle.by_origin.is_empty() {
            idle.is_swept = false;
            return;
        }
    }
}

/// The request as it is sent, up to its body.
fn text(request: &HttpRequest, uri: &Uri, length: usize) -> String {
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let mut text = format!("{} {path} HTTP/1.1\r\nhost: {}", request.method(), host(uri));
    for (name, value) in request.headers() {
        text.push_str("\r\n");
        text.push_str(name);
        text.push_str(": ");
        text.push_str(value);
    }
    if request.method() == "PUT" {
        text.push_str("\r\ncontent-length: ");
        text.push_str(&length.to_string());
    }
    text.push_str("\r\n\r\n");
    text
}

#[derive(Debug)]
struct Connection {
    /// It is large, with TLS above all.
    stream: Box<Stream>,
    /// Bytes that were read, and not looked at yet.
    ahead: BytesMut,
}

/// What stands before a body.
#[derive(Debug)]
struct Head {
    status: u16,
    headers: Headers,
    framing: Framing,
    /// Whether another request may follow on the same connection.
    goes_on: bool,
}

/// Where a body ends.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Framing {
    /// After so many more bytes.
    Length(u64),
    /// After a chunk of no bytes; so many are left of this one. None: the line that tells comes next.
    Chunks(Option<u64>),
    /// With the connection.
    Close,
}

impl Connection {
    async fn ask(&mut self, head: Bytes, body: Bytes, throttle: &ByteThrottle) -> io::Result<Head> {
        let throttle = (!body.is_empty()).then_some(throttle);
        let mut rest = head.chain(body);
        if let Err(error) = self.write(&mut rest, throttle).await {
            // Whoever refuses a body need not read it to its end, but says why.
            return match self.head().await {
                Ok(head) => Ok(Head { goes_on: false, ..head }),
                Err(_) => Err(error),
            };
        }
        let head = self.head().await?;
        Ok(Head { goes_on: head.goes_on && !rest.has_remaining(), ..head })
    }

    /// Write all, or until an answer comes.
    async fn write(&mut self, rest: &mut impl Buf, throttle: Option<&ByteThrottle>) -> io::Result<()> {
        if let Some(throttle) = throttle {
            while let Some(piece) = throttle.piece().filter(|piece| *piece < rest.remaining()) {
                throttle.send(piece).await;
                let mut piece = (&mut *rest).take(piece);
                self.write_at_once(&mut piece).await?;
                if piece.has_remaining() {
                    return Ok(());
                }
            }
            throttle.send(rest.remaining()).await;
        }
        self.write_at_once(rest).await?;
        self.stream.flush().await
    }

    /// As fast as the other side takes it.
    async fn write_at_once(&mut self, rest: &mut impl Buf) -> io::Result<()> {
        let Self { stream, ahead } = self;
        poll_fn(|cx| {
            while rest.has_remaining() {
                match poll_write_buf(Pin::new(&mut *stream), cx, rest) {
                    Poll::Ready(Ok(0)) => return Poll::Ready(Err(ErrorKind::WriteZero.into())),
                    Poll::Ready(Ok(_)) => {}
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                    Poll::Pending => {
                        ahead.reserve(HEAD);
                        if ready!(poll_read_buf(Pin::new(&mut *stream), cx, ahead))? == 0 {
                            return Poll::Ready(Err(ErrorKind::UnexpectedEof.into()));
                        }
                        while let Some((head, length)) = read_head(ahead)? {
                            if head.status >= 200 {
                                return Poll::Ready(Ok(()));
                            }
                            ahead.advance(length);
                        }
                    }
                }
            }
            Poll::Ready(Ok(()))
        })
        .await
    }

    /// The head of the answer.
    async fn head(&mut self) -> io::Result<Head> {
        loop {
            if let Some((head, length)) = read_head(&self.ahead)? {
                self.ahead.advance(length);
                // Those that announce another: the answer comes after them.
                if head.status >= 200 {
                    return Ok(head);
                }
                continue;
            }
            if self.more().await? == 0 {
                return Err(io::Error::new(
                    ErrorKind::UnexpectedEof,
                    "the connection was closed before there was an answer",
                ));
            }
        }
    }

    /// Read whatever comes next ahead.
    async fn more(&mut self) -> io::Result<usize> {
        self.ahead.reserve(HEAD);
        let Self { stream, ahead } = self;
        poll_fn(|cx| poll_read_buf(Pin::new(&mut *stream), cx, ahead)).await
    }

    /// Whether nothing comes, not even an end: what is expected of a connection that nobody uses.
    async fn is_silent(&mut self) -> bool {
        let Self { stream, ahead } = self;
        ahead.reserve(1);
        let read = poll_fn(|cx| Poll::Ready(poll_read_buf(Pin::new(&mut *stream), cx, ahead).is_pending()));
        read.await
    }

    async fn read(&mut self, into: &mut Vec<u8>, at_most: usize) -> io::Result<usize> {
        if !self.ahead.is_empty() {
            let length = at_most.min(self.ahead.len());
            into.extend_from_slice(&self.ahead[..length]);
            self.ahead.advance(length);
            return Ok(length);
        }
        self.ahead = BytesMut::new();
        into.reserve(at_most);
        let stream = &mut self.stream;
        poll_fn(|cx| poll_read_buf(Pin::new(&mut *stream), cx, &mut (&mut *into).limit(at_most))).await
    }

    /// A line of a chunked body, without its end.
    async fn line(&mut self) -> io::Result<BytesMut> {
        loop {
            if let Some(end) = self.ahead.iter().position(|byte| *byte == b'\n') {
                let mut line = self.ahead.split_to(end + 1);
                if !line.ends_with(b"\r\n") {
                    return Err(invalid("a chunk's line does not end as HTTP lines do"));
                }
                line.truncate(end - 1);
                return Ok(line);
            }
            if self.ahead.len() > LONGEST_LINE {
                return Err(invalid("a chunk's line has no end"));
            }
            if self.more().await? == 0 {
                return Err(ended_early());
            }
        }
    }
}

/// The head of an answer has more than [`LONGEST_HEAD`] bytes or [`HEADERS`] lines.
#[derive(Debug)]
pub(super) struct HeadTooLarge;

impl fmt::Display for HeadTooLarge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the answer has more than {HEADERS} headers, or more than {} KiB of them", LONGEST_HEAD >> 10)
    }
}

impl Error for HeadTooLarge {}

/// A number of decimal digits and nothing else: neither a sign nor blanks.
fn plain_number(text: &str) -> Option<u64> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}

/// The length of a chunk, which its line begins with.
fn chunk_length(line: &[u8]) -> Option<u64> {
    let digits = line.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii_end();
    let digits =
        std::str::from_utf8(digits).ok().filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
    u64::from_str_radix(digits, 16).ok()
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what)
}

fn ended_early() -> io::Error {
    io::Error::new(ErrorKind::UnexpectedEof, "the connection was closed before the end of the body")
}

/// A head and its length, once it is all there. Where it leaves in doubt what belongs to this answer it is refused, so that no bytes of
/// one answer are taken for another's.
fn read_head(bytes: &[u8]) -> io::Result<Option<(Head, usize)>> {
    let (mut few, mut many) = ([const { MaybeUninit::uninit() }; USUAL_HEADERS], Vec::new());
    let mut answer = httparse::Response::new(&mut []);
    let parser = httparse::ParserConfig::default();
    let mut parsed = parser.parse_response_with_uninit_headers(&mut answer, bytes, &mut few);
    if matches!(parsed, Err(httparse::Error::TooManyHeaders)) {
        many.resize(HEADERS, MaybeUninit::uninit());
        answer = httparse::Response::new(&mut []);
        parsed = parser.parse_response_with_uninit_headers(&mut answer, bytes, &mut many);
    }
    let length = match parsed {
        Ok(httparse::Status::Complete(length)) if length <= LONGEST_HEAD => length,
        Ok(httparse::Status::Partial) if bytes.len() < LONGEST_HEAD => return Ok(None),
        Ok(_) | Err(httparse::Error::TooManyHeaders) => {
            return Err(io::Error::new(ErrorKind::InvalidData, HeadTooLarge));
        }
        Err(error) => return Err(invalid(&format!("the answer is no HTTP: {error}"))),
    };
    let status = answer.code.unwrap_or_default();
    let mut headers = Headers::new();
    let (mut told, mut chunked, mut goes_on) = (None, false, answer.version == Some(1));
    for header in answer.headers.iter() {
        let value =
            std::str::from_utf8(header.value).map_err(|_| invalid(&format!("header {} is no text", header.name)))?;
        if header.name.eq_ignore_ascii_case("content-length") {
            let length =
                plain_number(value.trim_matches([' ', '\t'])).ok_or_else(|| invalid("Content-Length is no number"))?;
            if told.is_some_and(|before| before != length) {
                return Err(invalid("there are two lengths"));
            }
            told = Some(length);
        } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
            if !value.trim().eq_ignore_ascii_case("chunked") {
                return Err(invalid(&format!("transfer encoding {value:?}, which was not asked for")));
            }
            if chunked || answer.version != Some(1) {
                return Err(invalid("the transfer encoding stands twice, or in an answer of HTTP/1.0"));
            }
            chunked = true;
        } else if header.name.eq_ignore_ascii_case("connection") {
            let says = |word| value.split(',').any(|token| token.trim().eq_ignore_ascii_case(word));
            goes_on = !says("close") && (goes_on || says("keep-alive"));
        }
        headers
            .try_append(header.name.to_ascii_lowercase(), value.trim().to_owned())
            .map_err(|error| invalid(&format!("header {}: {error}", header.name)))?;
    }
    if chunked && told.is_some() {
        return Err(invalid("the answer has a length and chunks, and only one of them can be right"));
    }
    if status == 101 {
        return Err(invalid("another protocol, which was not asked for"));
    }
    let has_no_body = matches!(status, 100..=199 | 204 | 304);
    if has_no_body && (chunked || told.is_some_and(|length| length > 0)) {
        // None can come, and yet one is announced: what comes next would be taken for the next answer.
        goes_on = false;
    }
    let framing = match told {
        _ if has_no_body => Framing::Length(0),
        _ if chunked => Framing::Chunks(None),
        Some(length) => Framing::Length(length),
        None => Framing::Close,
    };
    Ok(Some((Head { status, headers, framing, goes_on: goes_on && framing != Framing::Close }, length)))
}

/// A body that is still on its connection. Dropped before its end it takes the connection with it.
#[derive(Debug)]
pub(super) struct Incoming {
    connection: Option<Connection>,
    framing: Framing,
    /// Where the connection goes afterwards.
    home: Option<(String, Arc<Connections>)>,
}

impl Incoming {
    /// Append the next bytes, `at_most` so many. 0: that was all.
    pub(super) async fn read(&mut self, into: &mut Vec<u8>, at_most: usize) -> io::Result<usize> {
        let Some(connection) = &mut self.connection else { return Ok(0) };
        if self.framing == Framing::Chunks(None) {
            let line = connection.line().await?;
            let size = chunk_length(&line).ok_or_else(|| invalid("a chunk has no length"))?;
            if size == 0 {
                // What stands after the last chunk are headers, which nobody has asked for.
                let mut room = LONGEST_HEAD;
                loop {
                    let trailer = connection.line().await?;
                    if trailer.is_empty() {
                        break;
                    }
                    room = room.checked_sub(trailer.len()).ok_or_else(|| invalid("the trailers have no end"))?;
                }
                self.framing = Framing::Length(0);
                self.end_if_done();
                return Ok(0);
            }
            self.framing = Framing::Chunks(Some(size));
        }
        let left = match self.framing {
            Framing::Length(left) | Framing::Chunks(Some(left)) => left,
            Framing::Close | Framing::Chunks(None) => u64::MAX,
        };
        let came = connection.read(into, at_most.min(usize::try_from(left).unwrap_or(usize::MAX))).await?;
        let left = left - came as u64;
        match &mut self.framing {
            Framing::Close if came == 0 => self.framing = Framing::Length(0),
            Framing::Close => {}
            _ if came == 0 => return Err(ended_early()),
            Framing::Chunks(_) if left == 0 => {
                if !connection.line().await?.is_empty() {
                    return Err(invalid("a chunk is longer than was told"));
                }
                self.framing = Framing::Chunks(None);
            }
            Framing::Chunks(of_this) => *of_this = Some(left),
            Framing::Length(of_all) => *of_all = left,
        }
        self.end_if_done();
        Ok(came)
    }

    fn end_if_done(&mut self) {
        if self.framing == Framing::Length(0)
            && let Some(connection) = self.connection.take()
            && let Some((origin, connections)) = self.home.take()
            && connection.ahead.is_empty()
        {
            connections.keep(origin, connection);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What heads are made of, and what breaks readers of them.
    const PIECES: &[&str] = &[
        "HTTP/1.1 200 OK\r\n",
        "HTTP/1.0 404 \r\n",
        "HTTP/1.1 100 Continue\r\n\r\n",
        "content-length: 5\r\n",
        "Content-Length: +5\r\n",
        "transfer-encoding: chunked\r\n",
        "transfer-encoding: gzip, chunked\r\n",
        "connection: close\r\n",
        "etag: \"e\"\r\n",
        "\r\n",
        "\n",
        "\r",
        ":",
        " ",
        "\0",
        "\u{e9}",
        "x",
        "content-length:18446744073709551616\r\n",
        "x-amz-meta-a: b\r\n c\r\n",
    ];

    proptest! {
        #[test]
        fn a_head_is_read_the_same_however_much_of_it_has_come(
            pieces in proptest::collection::vec(proptest::sample::select(PIECES), 0..12),
            noise in proptest::collection::vec(any::<u8>(), 0..40),
            noise_first: bool,
        ) {
            let mut bytes = pieces.concat().into_bytes();
            if noise_first { bytes.splice(0..0, noise); } else { bytes.extend(noise); }
            let whole = read_head(&bytes);
            if let Ok(Some((head, length))) = &whole {
                prop_assert!(*length <= bytes.len());
                for end in 0..*length {
                    prop_assert!(!matches!(read_head(&bytes[..end]), Ok(Some(_))), "{end} of {length} bytes are no head");
                }
                let again = read_head(&bytes[..*length]).unwrap().unwrap();
                prop_assert_eq!((again.0.status, again.0.framing, again.1), (head.status, head.framing, *length));
            }
        }

        #[test]
        fn only_plain_numbers_are_lengths(text in "[0-9a-fxX+ \\-_]{0,20}") {
            let decimal = !text.is_empty() && text.chars().all(|one| one.is_ascii_digit());
            prop_assert!(plain_number(&text).is_none() || decimal);
            let hexadecimal = !text.is_empty() && text.trim_ascii_end().chars().all(|one| one.is_ascii_hexdigit());
            prop_assert!(chunk_length(text.as_bytes()).is_none() || hexadecimal);
        }
    }
}
