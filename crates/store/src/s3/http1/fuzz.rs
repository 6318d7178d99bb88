//! Tests of the reader of answers with mutations of recorded ones, over a scripted connection.
//!
//! For any input the reader does not panic, memory stays bounded, the division into pieces makes no difference, and no
//! byte of one answer is taken for the answer to another request.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::LazyLock;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::FutureExt as _;
use proptest::prelude::*;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::connection::{Body, HEAD_READ_SIZE, HttpConnection};
use super::head::MAX_HEAD;
use crate::s3::fuzz::mutate::{RecordedAnswer, corpus, mutated, mutations};
use crate::throttle::ByteThrottle;

static CORPUS: LazyLock<Vec<RecordedAnswer>> = LazyLock::new(corpus);

/// The answer to the second request on a connection.
const SECOND: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nsecond";
/// Largest size of a buffer, which grows by doubling.
const MAX_BUFFERED: usize = 2 * (MAX_HEAD + 2 * HEAD_READ_SIZE);

/// A server that answers each request with the next bytes, in pieces, and then is silent or closes the connection.
#[derive(Debug)]
struct Script {
    answers: VecDeque<Vec<u8>>,
    to_send: VecDeque<u8>,
    pieces: Vec<usize>,
    reads: usize,
    closes: bool,
    asked: bool,
}

impl Script {
    fn new(answers: &[&[u8]], pieces: &[usize], closes: bool) -> Self {
        let answers = answers.iter().map(|answer| answer.to_vec()).collect();
        Self { answers, to_send: VecDeque::new(), pieces: pieces.to_vec(), reads: 0, closes, asked: false }
    }
}

impl AsyncRead for Script {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.to_send.is_empty() {
            return if self.closes { Poll::Ready(Ok(())) } else { Poll::Pending };
        }
        let piece = self.pieces[self.reads % self.pieces.len()];
        self.reads += 1;
        let length = piece.min(into.remaining()).min(self.to_send.len());
        into.put_slice(&self.to_send.drain(..length).collect::<Vec<u8>>());
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Script {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.asked = true;
        Poll::Ready(Ok(bytes.len()))
    }

    /// The flush marks the end of the request.
    fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        if std::mem::take(&mut self.asked) {
            let answer = self.answers.pop_front().unwrap_or_default();
            self.to_send.extend(answer);
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Outcome of a request.
#[derive(Debug, PartialEq)]
enum Outcome {
    /// The reader waits for more bytes; in production, until a deadline.
    Waits,
    Refused,
    /// Status and body; None: the body was refused, or is incomplete.
    Answered(u16, Option<Vec<u8>>),
}

/// Makes a request. Returns the connection if it can be used again.
fn request(mut connection: HttpConnection<Script>, is_head: bool) -> (Outcome, Option<HttpConnection<Script>>) {
    let throttle = ByteThrottle::default();
    let asked = connection.send(Bytes::from_static(b"GET / HTTP/1.1\r\n\r\n"), Bytes::new(), is_head, &throttle);
    let head = match asked.now_or_never() {
        None => return (Outcome::Waits, None),
        Some(Err(_)) => return (Outcome::Refused, None),
        Some(Ok(head)) => head,
    };
    assert!(connection.buffer_capacity() <= MAX_BUFFERED, "{} bytes ahead", connection.buffer_capacity());
    let status = head.status;
    let (mut body, mut bytes, mut ended) = (Body::new(connection, &head), Vec::new(), false);
    loop {
        if let Some(mut connection) = body.take_connection() {
            let silent = connection.is_idle().now_or_never() == Some(true);
            return (Outcome::Answered(status, Some(bytes)), silent.then_some(connection));
        }
        if ended {
            return (Outcome::Answered(status, Some(bytes)), None);
        }
        match body.read(&mut bytes, 1000).now_or_never() {
            Some(Ok(came)) => ended = came == 0,
            Some(Err(_)) | None => return (Outcome::Answered(status, None), None),
        }
        assert!(body.buffer_capacity() <= MAX_BUFFERED, "{} bytes ahead", body.buffer_capacity());
    }
}

fn exchange(first: &[u8], pieces: &[usize], closes: bool) -> (Outcome, Option<Outcome>) {
    exchange_for(first, false, pieces, closes)
}

fn exchange_for(first: &[u8], is_head: bool, pieces: &[usize], closes: bool) -> (Outcome, Option<Outcome>) {
    let (outcome, again) = request(HttpConnection::new(Script::new(&[first, SECOND], pieces, closes)), is_head);
    if let Outcome::Answered(_, Some(body)) = &outcome {
        assert!(body.len() <= first.len(), "{} bytes out of {}", body.len(), first.len());
    }
    (outcome, again.map(|connection| request(connection, false).0))
}

#[test]
fn every_recorded_answer_is_read_to_its_end_and_its_connection_used_again() {
    let second = Outcome::Answered(200, Some(b"second".to_vec()));
    for recorded in CORPUS.iter() {
        let is_head = recorded.name.ends_with("-head");
        let (outcome, after) = exchange_for(&recorded.bytes, is_head, &[1 << 20], false);

        let keeps_alive = !recorded.name.starts_with("haproxy-");
        if keeps_alive {
            assert!(matches!(outcome, Outcome::Answered(200..=599, Some(_))), "{}: {outcome:?}", recorded.name);
            assert_eq!(after.as_ref(), Some(&second), "{}", recorded.name);
        } else {
            assert_eq!((outcome, after), (Outcome::Answered(503, None), None), "{}", recorded.name);
        }
        let in_drips = exchange_for(&recorded.bytes, is_head, &[1], false).1;
        assert_eq!(in_drips, after_of(keeps_alive), "{} in drips", recorded.name);
    }
}

fn after_of(keeps_alive: bool) -> Option<Outcome> {
    keeps_alive.then(|| Outcome::Answered(200, Some(b"second".to_vec())))
}

#[test]
fn the_bodies_of_recorded_answers_are_what_the_server_sent() {
    for name in ["aws-get", "seaweedfs-get", "versitygw-get", "nginx-get"] {
        let recorded = CORPUS.iter().find(|recorded| recorded.name == name).expect(name);
        let (outcome, _) = exchange(&recorded.bytes, &[3], false);
        assert_eq!(outcome, Outcome::Answered(200, Some(b"hello world".to_vec())), "{name}");
    }
}

#[test]
fn endless_answers_are_refused_in_bounded_memory() {
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    let endless = [
        ("interim answers", "", "HTTP/1.1 100 Continue\r\n\r\n"),
        ("headers", "HTTP/1.1 200 OK\r\n", "x-amz-meta-a: b\r\n"),
        ("a header", "HTTP/1.1 200 OK\r\nx-amz-meta-a: ", "b"),
        ("a status line", "HTTP/1.1 200 ", "OK "),
        ("the line of a chunk", chunked, "0"),
        ("an extension of a chunk", &format!("{chunked}5;"), "x"),
        ("trailers", &format!("{chunked}0\r\n"), "trailer: value\r\n"),
    ];
    for (what, start, again) in endless {
        let text = start.to_owned() + &again.repeat((1 << 20) / again.len());
        for pieces in [&[1 << 20][..], &[1], &[1000, 1, 7]] {
            let (outcome, after) = exchange(text.as_bytes(), pieces, false);
            assert!(matches!(outcome, Outcome::Refused | Outcome::Answered(_, None)), "{what}: {outcome:?}");
            assert_eq!(after, None, "{what}");
        }
    }
}

proptest! {
    #[test]
    fn mutated_answers_never_reach_another_request((index, changes) in mutations(), pieces in proptest::collection::vec(1..3000_usize, 1..8)) {
        let answer = mutated(&CORPUS[index.index(CORPUS.len())].bytes, &changes, &CORPUS);

        let whole = exchange(&answer, &[usize::MAX], false);

        if let Some(second) = &whole.1 {
            prop_assert_eq!(second, &Outcome::Answered(200, Some(b"second".to_vec())));
        }
        let in_pieces = exchange(&answer, &pieces, false);
        // Invalid bytes are noticed earlier or later, depending on how many have arrived at a check.
        let no_head = |outcome: &Outcome| matches!(outcome, Outcome::Refused | Outcome::Waits);
        let later = no_head(&whole.0) && no_head(&in_pieces.0);
        prop_assert!(later || whole == in_pieces, "{:?} in one piece, {:?} in pieces of {:?}", whole, in_pieces, pieces);
    }

    #[test]
    fn mutated_answers_end_with_their_connection((index, changes) in mutations(), pieces in proptest::collection::vec(1..3000_usize, 1..8)) {
        let answer = mutated(&CORPUS[index.index(CORPUS.len())].bytes, &changes, &CORPUS);

        let whole = exchange(&answer, &[usize::MAX], true);

        prop_assert_ne!(&whole.0, &Outcome::Waits);
        let in_pieces = exchange(&answer, &pieces, true);
        prop_assert!(whole == in_pieces, "{:?} in one piece, {:?} in pieces of {:?}", whole, in_pieces, pieces);
    }
}
