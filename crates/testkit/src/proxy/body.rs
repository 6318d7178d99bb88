//! Bodies in transit: counted, checked, and corrupted where a rule says so. No body is buffered as a whole.

use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tokio::time::Sleep;

use super::journal::Ticket;

/// Bytes at the start of a reply that is no object, which are searched for an error code or an upload id.
const MAX_INSPECTED: usize = 4096;

/// Time that bytes already handed to hyper get to reach the socket before the connection is broken.
const FLUSH_TIME: Duration = Duration::from_millis(20);

/// Error that breaks the connection to the client. The text is the reason.
#[derive(Debug)]
pub(super) struct RelayError(pub(super) String);

impl fmt::Display for RelayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for RelayError {}

/// A request's body, counted on its way to the server, and corrupted where a rule says so.
pub(super) struct RequestBody {
    pub(super) source: BodySource,
    pub(super) passed: Arc<AtomicU64>,
    /// Offset of the byte to flip.
    pub(super) flip: Option<u64>,
}

impl Body for RequestBody {
    type Data = Bytes;
    type Error = RelayError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let Some(read) = std::task::ready!(self.source.poll_data(context)) else { return Poll::Ready(None) };
        Poll::Ready(Some(read.map(|data| {
            let passed = self.passed.fetch_add(data.len() as u64, Ordering::Relaxed);
            Frame::data(flip_byte(data, passed, self.flip))
        })))
    }

    fn is_end_stream(&self) -> bool {
        self.source.at_end()
    }

    fn size_hint(&self) -> SizeHint {
        self.source.size_hint()
    }
}

/// Source of a body's bytes.
pub(super) enum BodySource {
    /// Known whole; None when handed over.
    Whole(Option<Bytes>),
    /// Bytes of the other side, as they come.
    Streamed(Incoming),
}

impl BodySource {
    fn poll_data(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Bytes, RelayError>>> {
        match self {
            Self::Whole(bytes) => Poll::Ready(bytes.take().filter(|bytes| !bytes.is_empty()).map(Ok)),
            Self::Streamed(incoming) => loop {
                match std::task::ready!(Pin::new(&mut *incoming).poll_frame(context)) {
                    // HTTP trailers are not passed on: S3 has none (those of aws-chunked are part of the body).
                    Some(Ok(frame)) => {
                        if let Ok(data) = frame.into_data() {
                            return Poll::Ready(Some(Ok(data)));
                        }
                    }
                    Some(Err(error)) => {
                        return Poll::Ready(Some(Err(RelayError(format!("the body broke off: {error}")))));
                    }
                    None => return Poll::Ready(None),
                }
            },
        }
    }

    fn at_end(&self) -> bool {
        match self {
            Self::Whole(bytes) => bytes.as_ref().is_none_or(Bytes::is_empty),
            Self::Streamed(incoming) => incoming.is_end_stream(),
        }
    }

    /// Returns the value of [`Body::size_hint`].
    pub(super) fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
            Self::Streamed(incoming) => incoming.size_hint(),
        }
    }
}

/// Damage that a rule does to a reply's body.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct BodyDamage {
    /// Number of bytes after which the connection is broken.
    pub(super) keep: Option<u64>,
    /// Offset of the byte to flip.
    pub(super) flip: Option<u64>,
}

/// A reply's body. Ends the request's ticket when it is dropped, and says there whether it was written to its end.
pub(super) struct ReplyBody {
    source: BodySource,
    spoil: BodyDamage,
    breaking: Option<Pin<Box<Sleep>>>,
    sent: u64,
    length: Option<u64>,
    ended: bool,
    inspected: BytesMut,
    /// Ticket of the recorded request; None for replies of the proxy's own.
    ticket: Option<Ticket>,
}

impl ReplyBody {
    /// A reply that is not on record.
    pub(super) fn unrecorded(bytes: Bytes) -> Self {
        Self::new(BodySource::Whole(Some(bytes)), BodyDamage::default(), None)
    }

    pub(super) fn new(source: BodySource, spoil: BodyDamage, ticket: Option<Ticket>) -> Self {
        let mut body = Self {
            source,
            spoil,
            breaking: None,
            sent: 0,
            length: None,
            ended: false,
            inspected: BytesMut::new(),
            ticket,
        };
        body.length = body.size_hint().exact();
        if let BodySource::Whole(Some(bytes)) = &body.source {
            body.inspected.extend_from_slice(&bytes[..bytes.len().min(MAX_INSPECTED)]);
        }
        body
    }

    /// The client left before the reply could be handed to its connection.
    pub(super) fn undelivered(mut self) {
        if let Some(ticket) = &mut self.ticket {
            ticket.record.status = None;
            ticket.record.failure = Some("the client had left".to_owned());
        }
        // An empty body counts as written when it is dropped: make sure that this one does not.
        self.length = Some(u64::MAX);
        self.ended = false;
    }

    fn poll_break(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, RelayError>>> {
        let wait = self.breaking.get_or_insert_with(|| Box::pin(tokio::time::sleep(FLUSH_TIME)));
        std::task::ready!(wait.as_mut().poll(context));
        Poll::Ready(Some(Err(self.fail(RelayError("truncated by a rule".to_owned())))))
    }

    fn fail(&mut self, error: RelayError) -> RelayError {
        if let Some(ticket) = &mut self.ticket {
            ticket.record.failure = Some(error.to_string());
        }
        error
    }
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = RelayError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if self.spoil.keep.is_some_and(|keep| self.sent >= keep) {
            return self.poll_break(context);
        }
        let Some(read) = std::task::ready!(self.source.poll_data(context)) else {
            self.ended = true;
            return Poll::Ready(None);
        };
        let mut data = match read {
            Ok(data) => data,
            Err(error) => return Poll::Ready(Some(Err(self.fail(error)))),
        };
        if let Some(keep) = self.spoil.keep {
            data.truncate(usize::try_from(keep - self.sent).unwrap_or(usize::MAX));
        }
        let data = flip_byte(data, self.sent, self.spoil.flip);
        if matches!(self.source, BodySource::Streamed(_)) && self.inspected.len() < MAX_INSPECTED {
            let room = MAX_INSPECTED - self.inspected.len();
            self.inspected.extend_from_slice(&data[..data.len().min(room)]);
        }
        self.sent += data.len() as u64;
        Poll::Ready(Some(Ok(Frame::data(data))))
    }

    fn is_end_stream(&self) -> bool {
        let at_end = self.source.at_end();
        // A body to be broken off never ends by itself, or hyper would take what was sent for the whole.
        at_end && self.spoil.keep.is_none_or(|keep| self.sent < keep || self.length == Some(self.sent))
    }

    fn size_hint(&self) -> SizeHint {
        self.source.size_hint()
    }
}

impl Drop for ReplyBody {
    fn drop(&mut self) {
        let Some(ticket) = &mut self.ticket else { return };
        let record = &mut ticket.record;
        record.complete = self.ended || self.length == Some(self.sent);
        record.reply_bytes = self.sent;
        if record.operation != "GetObject" || record.status.is_some_and(|status| status >= 300) {
            let text = String::from_utf8_lossy(&self.inspected);
            if text.contains("<Error>") {
                record.error_code = element(&text, "Code");
            }
            if record.operation == "CreateMultipartUpload" {
                record.upload_id = element(&text, "UploadId");
            }
        }
    }
}

/// Bytes of a body that begin at offset `first`, with the one at `flip` flipped when it is among them.
fn flip_byte(data: Bytes, first: u64, flip: Option<u64>) -> Bytes {
    let at = flip.and_then(|flip| flip.checked_sub(first)).and_then(|at| usize::try_from(at).ok());
    let Some(at) = at.filter(|at| *at < data.len()) else { return data };
    let mut spoiled = BytesMut::from(&data[..]);
    spoiled[at] ^= 0x01;
    spoiled.freeze()
}

/// The text of the first element of that name.
fn element(xml: &str, name: &str) -> Option<String> {
    let (_, rest) = xml.split_once(&format!("<{name}>"))?;
    let (text, _) = rest.split_once(&format!("</{name}>"))?;
    let plain = text.replace("&quot;", "\"").replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    Some(plain)
}
