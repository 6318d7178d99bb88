//! One connection: it writes a request, reads the head of the answer, and leaves the body to the caller.
//!
//! The code works over any stream, so that tests can script one. It keeps a bounded number of a server's bytes: a head,
//! or a line of a chunked body.

use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::task::{Poll, ready};

use bytes::{Buf, BufMut as _, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio_util::io::{poll_read_buf, poll_write_buf};

use super::head::{Framing, Head, HeadReader, LONGEST_HEAD, invalid};
use crate::throttle::ByteThrottle;

/// Bytes of one read while the end of a head is searched: more than a head has, and so few that little of a body must
/// be moved.
pub(super) const HEAD: usize = 8 << 10;
/// Longest line between the chunks of a chunked body.
pub(super) const LONGEST_LINE: usize = 8 << 10;

#[derive(Debug)]
pub(super) struct HttpConnection<S> {
    stream: S,
    /// Bytes that were read, and not parsed yet.
    ahead: BytesMut,
}

impl<S: AsyncRead + AsyncWrite + Unpin> HttpConnection<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, ahead: BytesMut::new() }
    }

    /// True when bytes were read ahead that no caller has taken yet.
    pub(super) fn has_bytes_ahead(&self) -> bool {
        !self.ahead.is_empty()
    }

    /// Bytes of memory that are kept for the next reads.
    #[cfg(test)]
    pub(super) fn room_ahead(&self) -> usize {
        self.ahead.capacity()
    }

    /// Releases the memory: thousands of connections may be idle.
    pub(super) fn shrink(&mut self) {
        self.ahead = BytesMut::new();
    }

    /// Sends a request. `head` ends before `body`. With `is_head`, the answer has no body, whatever it announces.
    pub(super) async fn ask(
        &mut self,
        head: Bytes,
        body: Bytes,
        is_head: bool,
        throttle: &ByteThrottle,
    ) -> io::Result<Head> {
        let mut reader = HeadReader::new(is_head);
        let throttle = (!body.is_empty()).then_some(throttle);
        let mut rest = head.chain(body);
        if let Err(error) = self.write(&mut rest, &mut reader, throttle).await {
            // A service that refuses a body may stop reading it, but sends a reason.
            return match self.head(&mut reader).await {
                Ok(head) => Ok(Head { goes_on: false, ..head }),
                Err(_) => Err(error),
            };
        }
        let head = self.head(&mut reader).await?;
        Ok(Head { goes_on: head.goes_on && !rest.has_remaining(), ..head })
    }

    /// Writes all bytes, or stops when an answer arrives.
    async fn write(
        &mut self,
        rest: &mut impl Buf,
        reader: &mut HeadReader,
        throttle: Option<&ByteThrottle>,
    ) -> io::Result<()> {
        if let Some(throttle) = throttle {
            while let Some(piece) = throttle.piece().filter(|piece| *piece < rest.remaining()) {
                throttle.send(piece).await;
                let mut piece = (&mut *rest).take(piece);
                self.write_unthrottled(&mut piece, reader).await?;
                if piece.has_remaining() {
                    return Ok(());
                }
            }
            throttle.send(rest.remaining()).await;
        }
        self.write_unthrottled(rest, reader).await?;
        self.stream.flush().await
    }

    /// Writes without a throttle, as fast as the peer accepts.
    async fn write_unthrottled(&mut self, rest: &mut impl Buf, reader: &mut HeadReader) -> io::Result<()> {
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
                        if reader.find(ahead)?.is_some() {
                            return Poll::Ready(Ok(()));
                        }
                    }
                }
            }
            Poll::Ready(Ok(()))
        })
        .await
    }

    /// Reads the head of the answer.
    async fn head(&mut self, reader: &mut HeadReader) -> io::Result<Head> {
        loop {
            if let Some((head, length)) = reader.find(&mut self.ahead)? {
                self.ahead.advance(length);
                return Ok(head);
            }
            if self.more().await? == 0 {
                return Err(io::Error::new(
                    ErrorKind::UnexpectedEof,
                    "the connection was closed before there was an answer",
                ));
            }
        }
    }

    /// Reads the next bytes ahead.
    async fn more(&mut self) -> io::Result<usize> {
        self.ahead.reserve(HEAD);
        let Self { stream, ahead } = self;
        poll_fn(|cx| poll_read_buf(Pin::new(&mut *stream), cx, ahead)).await
    }

    /// True when the stream has neither bytes nor an end to read, as expected of an idle connection.
    pub(super) async fn is_silent(&mut self) -> bool {
        let Self { stream, ahead } = self;
        ahead.reserve(1);
        let read = poll_fn(|cx| Poll::Ready(poll_read_buf(Pin::new(&mut *stream), cx, ahead).is_pending()));
        read.await
    }

    pub(super) async fn read(&mut self, into: &mut Vec<u8>, at_most: usize) -> io::Result<usize> {
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

    /// Reads a line of a chunked body, without its end.
    pub(super) async fn line(&mut self) -> io::Result<BytesMut> {
        let mut searched = 0;
        loop {
            if let Some(end) = self.ahead[searched..].iter().position(|byte| *byte == b'\n') {
                let end = searched + end;
                if end > LONGEST_LINE {
                    return Err(invalid("a chunk's line has no end"));
                }
                let mut line = self.ahead.split_to(end + 1);
                if !line.ends_with(b"\r\n") {
                    return Err(invalid("a chunk's line does not end as HTTP lines do"));
                }
                line.truncate(end - 1);
                return Ok(line);
            }
            searched = self.ahead.len();
            if searched > LONGEST_LINE {
                return Err(invalid("a chunk's line has no end"));
            }
            if self.more().await? == 0 {
                return Err(early_end());
            }
        }
    }
}

/// Parses the length of a chunk at the start of its line.
fn chunk_length(line: &[u8]) -> Option<u64> {
    let digits = line.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii_end();
    let digits =
        std::str::from_utf8(digits).ok().filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
    u64::from_str_radix(digits, 16).ok()
}

fn early_end() -> io::Error {
    io::Error::new(ErrorKind::UnexpectedEof, "the connection was closed before the end of the body")
}

/// A body that is still on its connection. Dropping it before its end closes the connection.
#[derive(Debug)]
pub(super) struct Body<S> {
    connection: Option<HttpConnection<S>>,
    framing: Framing,
    /// True when another request may follow on the connection.
    goes_on: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Body<S> {
    /// The body that follows this head.
    pub(super) fn new(connection: HttpConnection<S>, head: &Head) -> Self {
        Self { connection: Some(connection), framing: head.framing, goes_on: head.goes_on }
    }

    /// Returns the connection once the body is at its end, if another request may follow. None if further bytes have
    /// arrived.
    pub(super) fn release(&mut self) -> Option<HttpConnection<S>> {
        if self.framing != Framing::Length(0) {
            return None;
        }
        self.connection.take().filter(|connection| self.goes_on && !connection.has_bytes_ahead())
    }

    /// Bytes of memory that are kept for the next reads.
    #[cfg(test)]
    pub(super) fn room_ahead(&self) -> usize {
        self.connection.as_ref().map_or(0, HttpConnection::room_ahead)
    }

    /// Appends the next available bytes, at most `at_most`. 0: the end.
    pub(super) async fn read(&mut self, into: &mut Vec<u8>, at_most: usize) -> io::Result<usize> {
        let Some(connection) = self.connection.as_mut().filter(|_| self.framing != Framing::Length(0)) else {
            return Ok(0);
        };
        if self.framing == Framing::Chunks(None) {
            let line = connection.line().await?;
            let size = chunk_length(&line).ok_or_else(|| invalid("a chunk has no length"))?;
            if size == 0 {
                // Trailers follow the last chunk; no request asks for them.
                let mut room = LONGEST_HEAD;
                loop {
                    let trailer = connection.line().await?;
                    if trailer.is_empty() {
                        break;
                    }
                    room = room.checked_sub(trailer.len()).ok_or_else(|| invalid("the trailers have no end"))?;
                }
                self.framing = Framing::Length(0);
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
            _ if came == 0 => return Err(early_end()),
            Framing::Chunks(_) if left == 0 => {
                if !connection.line().await?.is_empty() {
                    return Err(invalid("a chunk is longer than announced"));
                }
                self.framing = Framing::Chunks(None);
            }
            Framing::Chunks(of_this) => *of_this = Some(left),
            Framing::Length(of_all) => *of_all = left,
        }
        Ok(came)
    }
}
