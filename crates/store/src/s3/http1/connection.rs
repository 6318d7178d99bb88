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

use super::head::{Framing, Head, HeadReader, MAX_HEAD, invalid_data};
use crate::throttle::ByteThrottle;

/// Bytes of one read while the end of a head is searched: more than a head has, and so few that little of a body must
/// be moved.
pub(super) const HEAD_READ_SIZE: usize = 8 << 10;
/// Longest line between the chunks of a chunked body.
pub(super) const MAX_LINE: usize = 8 << 10;

#[derive(Debug)]
pub(super) struct HttpConnection<S> {
    stream: S,
    /// Bytes that were read, and not parsed yet.
    buffered: BytesMut,
}

impl<S: AsyncRead + AsyncWrite + Unpin> HttpConnection<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, buffered: BytesMut::new() }
    }

    /// True when bytes were read ahead that no caller has taken yet.
    pub(super) fn has_buffered_bytes(&self) -> bool {
        !self.buffered.is_empty()
    }

    /// Bytes of memory that are kept for the next reads.
    #[cfg(test)]
    pub(super) fn buffer_capacity(&self) -> usize {
        self.buffered.capacity()
    }

    /// Releases the memory: thousands of connections may be idle.
    pub(super) fn shrink(&mut self) {
        self.buffered = BytesMut::new();
    }

    /// Sends a request. `head` ends before `body`. With `is_head`, the answer has no body, whatever it announces.
    pub(super) async fn send(
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
                Ok(head) => Ok(Head { keep_alive: false, ..head }),
                Err(_) => Err(error),
            };
        }
        let head = self.head(&mut reader).await?;
        Ok(Head { keep_alive: head.keep_alive && !rest.has_remaining(), ..head })
    }

    /// Writes all bytes, or stops when an answer arrives.
    async fn write(
        &mut self,
        rest: &mut impl Buf,
        reader: &mut HeadReader,
        throttle: Option<&ByteThrottle>,
    ) -> io::Result<()> {
        if let Some(throttle) = throttle {
            while let Some(piece) = throttle.max_piece().filter(|piece| *piece < rest.remaining()) {
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
        let Self { stream, buffered } = self;
        poll_fn(|cx| {
            while rest.has_remaining() {
                match poll_write_buf(Pin::new(&mut *stream), cx, rest) {
                    Poll::Ready(Ok(0)) => return Poll::Ready(Err(ErrorKind::WriteZero.into())),
                    Poll::Ready(Ok(_)) => {}
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                    Poll::Pending => {
                        buffered.reserve(HEAD_READ_SIZE);
                        if ready!(poll_read_buf(Pin::new(&mut *stream), cx, buffered))? == 0 {
                            return Poll::Ready(Err(ErrorKind::UnexpectedEof.into()));
                        }
                        if reader.find(buffered)?.is_some() {
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
            if let Some((head, length)) = reader.find(&mut self.buffered)? {
                self.buffered.advance(length);
                return Ok(head);
            }
            if self.fill().await? == 0 {
                return Err(io::Error::new(
                    ErrorKind::UnexpectedEof,
                    "the connection was closed before there was an answer",
                ));
            }
        }
    }

    /// Reads the next bytes into the buffer. It has no memory while it waits for the first ones: thousands of requests
    /// may wait for their answers.
    async fn fill(&mut self) -> io::Result<usize> {
        let Self { stream, buffered } = self;
        poll_fn(|cx| {
            buffered.reserve(HEAD_READ_SIZE);
            let read = poll_read_buf(Pin::new(&mut *stream), cx, buffered);
            if read.is_pending() && buffered.is_empty() {
                *buffered = BytesMut::new();
            }
            read
        })
        .await
    }

    /// True when the stream has neither bytes nor an end to read, as expected of an idle connection.
    pub(super) async fn is_idle(&mut self) -> bool {
        let Self { stream, buffered } = self;
        buffered.reserve(1);
        let read = poll_fn(|cx| Poll::Ready(poll_read_buf(Pin::new(&mut *stream), cx, buffered).is_pending()));
        read.await
    }

    pub(super) async fn read(&mut self, into: &mut Vec<u8>, at_most: usize) -> io::Result<usize> {
        if !self.buffered.is_empty() {
            let length = at_most.min(self.buffered.len());
            into.extend_from_slice(&self.buffered[..length]);
            self.buffered.advance(length);
            return Ok(length);
        }
        self.buffered = BytesMut::new();
        into.reserve(at_most);
        let stream = &mut self.stream;
        poll_fn(|cx| poll_read_buf(Pin::new(&mut *stream), cx, &mut (&mut *into).limit(at_most))).await
    }

    /// Reads a line of a chunked body, without its end.
    pub(super) async fn line(&mut self) -> io::Result<BytesMut> {
        let mut searched = 0;
        loop {
            if let Some(end) = self.buffered[searched..].iter().position(|byte| *byte == b'\n') {
                let end = searched + end;
                if end > MAX_LINE {
                    return Err(invalid_data("a chunk's line has no end"));
                }
                let mut line = self.buffered.split_to(end + 1);
                if !line.ends_with(b"\r\n") {
                    return Err(invalid_data("a chunk's line does not end as HTTP lines do"));
                }
                line.truncate(end - 1);
                return Ok(line);
            }
            searched = self.buffered.len();
            if searched > MAX_LINE {
                return Err(invalid_data("a chunk's line has no end"));
            }
            if self.fill().await? == 0 {
                return Err(early_end_error());
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

fn early_end_error() -> io::Error {
    io::Error::new(ErrorKind::UnexpectedEof, "the connection was closed before the end of the body")
}

/// A body that is still on its connection. Dropping it before its end closes the connection.
#[derive(Debug)]
pub(super) struct Body<S> {
    connection: Option<HttpConnection<S>>,
    framing: Framing,
    /// True when another request may follow on the connection.
    keep_alive: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Body<S> {
    /// The body that follows this head.
    pub(super) fn new(connection: HttpConnection<S>, head: &Head) -> Self {
        Self { connection: Some(connection), framing: head.framing, keep_alive: head.keep_alive }
    }

    /// Returns the connection once the body is at its end, if another request may follow. None if further bytes have
    /// arrived.
    pub(super) fn take_connection(&mut self) -> Option<HttpConnection<S>> {
        if self.framing != Framing::Length(0) {
            return None;
        }
        self.connection.take().filter(|connection| self.keep_alive && !connection.has_buffered_bytes())
    }

    /// Bytes of memory that are kept for the next reads.
    #[cfg(test)]
    pub(super) fn buffer_capacity(&self) -> usize {
        self.connection.as_ref().map_or(0, HttpConnection::buffer_capacity)
    }

    /// Appends the next available bytes, at most `at_most`. 0: the end.
    pub(super) async fn read(&mut self, into: &mut Vec<u8>, at_most: usize) -> io::Result<usize> {
        let Some(connection) = self.connection.as_mut().filter(|_| self.framing != Framing::Length(0)) else {
            return Ok(0);
        };
        if self.framing == Framing::Chunks(None) {
            let line = connection.line().await?;
            let size = chunk_length(&line).ok_or_else(|| invalid_data("a chunk has no length"))?;
            if size == 0 {
                // Trailers follow the last chunk; no request asks for them.
                let mut room = MAX_HEAD;
                loop {
                    let trailer = connection.line().await?;
                    if trailer.is_empty() {
                        break;
                    }
                    room = room.checked_sub(trailer.len()).ok_or_else(|| invalid_data("the trailers have no end"))?;
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
            _ if came == 0 => return Err(early_end_error()),
            Framing::Chunks(_) if left == 0 => {
                if !connection.line().await?.is_empty() {
                    return Err(invalid_data("a chunk is longer than announced"));
                }
                self.framing = Framing::Chunks(None);
            }
            Framing::Chunks(of_this) => *of_this = Some(left),
            Framing::Length(of_all) => *of_all = left,
        }
        Ok(came)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_connection_that_waits_for_an_answer_keeps_no_memory() {
        let (here, mut there) = tokio::io::duplex(64);
        let mut connection = HttpConnection::new(here);

        let waits = futures::poll!(std::pin::pin!(connection.fill())).is_pending();
        assert!(waits);
        assert_eq!(connection.buffer_capacity(), 0);

        there.write_all(b"answer").await.unwrap();
        assert_eq!(connection.fill().await.unwrap(), 6);
    }
}
