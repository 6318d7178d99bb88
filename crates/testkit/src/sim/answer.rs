//! Bodies of replies: made as they are sent, at the rate of the model, and corrupted where a fault requires it.

use std::fmt;
use std::future::Future as _;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tokio::time::{Instant, Sleep, sleep_until};

use super::content::Content;
use super::context::Ticket;

/// Bytes made in one step.
const PIECE: u64 = 256 * 1024;
/// Shorter waits are made up for by the next one: timers are not finer.
const SHORTEST_WAIT: Duration = Duration::from_millis(2);

/// Error that ends a connection without a whole answer.
#[derive(Debug)]
pub(super) struct SimulatedDisconnect;

impl fmt::Display for SimulatedDisconnect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("broken by order of the simulation")
    }
}

impl std::error::Error for SimulatedDisconnect {}

/// A body, and the counts to add when it ends.
pub(super) struct AnswerBody {
    source: AnswerSource,
    ticket: Option<Ticket>,
}

enum AnswerSource {
    Once(Option<Bytes>),
    Content(Box<Stream>),
}

/// Range of a content that an answer sends, with its speed and its faults.
pub(super) struct Stream {
    pub(super) content: Content,
    pub(super) offset: u64,
    pub(super) length: u64,
    /// Time at which the first byte could be sent; a stall moves it.
    pub(super) started: Instant,
    /// Real seconds.
    pub(super) seconds_per_byte: f64,
    /// Number of bytes after which the body breaks off.
    pub(super) cut: Option<u64>,
    /// Offset of the byte of which a bit is wrong.
    pub(super) spoilt: Option<u64>,
    /// Offset of the byte at which the body stops, and for how long.
    pub(super) stall: Option<(u64, Duration)>,
    pub(super) sent: u64,
    pub(super) waiting: Option<Pin<Box<Sleep>>>,
}

impl AnswerBody {
    pub(super) fn once(bytes: Bytes, ticket: Option<Ticket>) -> Self {
        Self { source: AnswerSource::Once(Some(bytes).filter(|bytes| !bytes.is_empty())), ticket }
    }

    pub(super) fn stream(stream: Stream, ticket: Ticket) -> Self {
        Self { source: AnswerSource::Content(Box::new(stream)), ticket: Some(ticket) }
    }
}

impl Stream {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, SimulatedDisconnect>>> {
        if self.sent == self.length {
            return Poll::Ready(None);
        }
        if self.cut.is_some_and(|cut| self.sent >= cut) {
            return Poll::Ready(Some(Err(SimulatedDisconnect)));
        }
        let mut end = self.length.min(self.sent + PIECE);
        for at in [self.cut, self.stall.map(|(at, _)| at)].into_iter().flatten().filter(|at| *at > self.sent) {
            end = end.min(at);
        }
        if self.waiting.is_none() {
            let mut due = self.started + Duration::from_secs_f64(self.seconds_per_byte * end as f64);
            if let Some((at, pause)) = self.stall
                && self.sent >= at
            {
                // The pause moves everything that follows.
                self.stall = None;
                self.started += pause;
                due += pause;
            }
            if due > Instant::now() + SHORTEST_WAIT {
                self.waiting = Some(Box::pin(sleep_until(due)));
            }
        }
        if let Some(waiting) = &mut self.waiting {
            if waiting.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            self.waiting = None;
        }
        let mut bytes = vec![0; usize::try_from(end - self.sent).unwrap_or(0)];
        // Asked before the answer began.
        if self.content.read(self.offset + self.sent, &mut bytes).is_err() {
            return Poll::Ready(Some(Err(SimulatedDisconnect)));
        }
        if let Some(at) = self.spoilt.and_then(|at| at.checked_sub(self.sent))
            && let Some(byte) = usize::try_from(at).ok().and_then(|at| bytes.get_mut(at))
        {
            *byte ^= 1;
        }
        self.sent = end;
        Poll::Ready(Some(Ok(Bytes::from(bytes))))
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = SimulatedDisconnect;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, SimulatedDisconnect>>> {
        let polled = match &mut self.source {
            AnswerSource::Once(bytes) => Poll::Ready(bytes.take().map(Ok)),
            AnswerSource::Content(stream) => stream.poll(context),
        };
        if self.is_end_stream()
            && let Some(ticket) = &mut self.ticket
        {
            ticket.complete();
        }
        polled.map(|frame| frame.map(|bytes| bytes.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            AnswerSource::Once(bytes) => bytes.is_none(),
            AnswerSource::Content(stream) => stream.sent == stream.length,
        }
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(match &self.source {
            AnswerSource::Once(bytes) => bytes.as_ref().map_or(0, |bytes| bytes.len() as u64),
            AnswerSource::Content(stream) => stream.length - stream.sent,
        })
    }
}
