//! The path of one request: on record, past the rules, to the server, and back with its reply.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use hyper::header::{AUTHORIZATION, CONNECTION, CONTENT_LENGTH, EXPECT, HeaderMap, HeaderName, TRANSFER_ENCODING};
use hyper::http::request::Parts;
use hyper::http::uri::{Authority, Scheme};
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::sync::oneshot;

use super::body::{BodyDamage, BodySource, RelayError, ReplyBody, RequestBody};
use super::journal::{Journal, Order, Ticket};
use super::rules::{Action, RequestSide};
use crate::classify::classify;

/// Replies up to this length are taken in before they are passed on, so that what the server did is on record
/// whatever becomes of the client.
const SMALL_REPLY: u64 = 64 * 1024;

/// Bodies up to this length are taken in before a rule delays or holds their request.
const READ_AHEAD: u64 = 1024 * 1024;

/// Idle connections to the server are closed before the server would: a request sent into a closing one fails.
const IDLE: Duration = Duration::from_secs(3);

pub(super) type ReplyResult = Result<Response<ReplyBody>, RelayError>;

/// The server behind the proxy.
pub(super) struct Upstream {
    client: Client<HttpConnector, RequestBody>,
    authority: Authority,
}

impl Upstream {
    pub(super) fn new(authority: Authority) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .http1_preserve_header_case(true)
            // The client's own Host header is part of what it signed.
            .set_host(false)
            .build(connector);
        Self { client, authority }
    }

    /// Forwards a request; `ticket` says whether a byte of its body is flipped.
    async fn send(&self, mut parts: Parts, body: BodySource, ticket: &Ticket) -> Result<Response<Incoming>, String> {
        let mut uri = parts.uri.into_parts();
        uri.scheme = Some(Scheme::HTTP);
        uri.authority = Some(self.authority.clone());
        parts.uri = Uri::from_parts(uri).map_err(|error| error.to_string())?;
        // hyper has sent `100 Continue` by itself. Most clients leave this header out of their signatures.
        if !signs(&parts.headers, EXPECT.as_str()) {
            parts.headers.remove(EXPECT);
        }
        drop_hop_by_hop(&mut parts.headers);
        let body =
            RequestBody { source: body, passed: Arc::clone(&ticket.request_bytes), flip: ticket.record.spoiled_at };
        self.client.request(Request::from_parts(parts, body)).await.map_err(|error| format!("the server: {error}"))
    }
}

/// Returns true when the request's signature covers a header.
fn signs(headers: &HeaderMap, name: &str) -> bool {
    let authorization = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let signed = authorization.split_once("SignedHeaders=").map_or("", |(_, rest)| rest);
    signed.split([',', ' ']).next().is_some_and(|names| names.split(';').any(|signed| signed == name))
}

fn drop_hop_by_hop(headers: &mut HeaderMap) {
    for name in [CONNECTION, TRANSFER_ENCODING, HeaderName::from_static("keep-alive")] {
        headers.remove(name);
    }
}

/// A request with what its end needs to know.
struct Passage<'a> {
    journal: &'a Journal,
    ticket: Ticket,
    /// Set to have the connection end by a reset instead of a close.
    reset: &'a AtomicBool,
    /// Closed when the client has left.
    client: &'a mut oneshot::Sender<ReplyResult>,
}

/// Takes one request from a client's connection to its answer.
pub(super) async fn relay(
    journal: &Arc<Journal>,
    upstream: &Upstream,
    reset: &AtomicBool,
    request: Request<Incoming>,
    client: &mut oneshot::Sender<ReplyResult>,
) -> ReplyResult {
    let (mut parts, body) = request.into_parts();
    let call = classify(&parts);
    let (ticket, orders) = journal.begin(&parts, call);
    let mut passage = Passage { journal, ticket, reset, client };
    // hyper notices that a client left only when it has read all that the client sent.
    let read_ahead = !orders.is_empty() && body.size_hint().upper().is_some_and(|length| length <= READ_AHEAD);
    let body = if read_ahead {
        match body.collect().await {
            Ok(collected) => BodySource::Whole(Some(collected.to_bytes())),
            Err(error) => return Err(passage.give_up(&format!("the body broke off: {error}"))),
        }
    } else {
        BodySource::Streamed(body)
    };
    for order in &orders {
        if let Action::DropHeader { name } = &order.action {
            parts.headers.remove(name.as_str());
        }
    }
    for order in &orders {
        if let Err(left) = passage.wait(order, RequestSide::Request).await {
            return Err(passage.give_up(&left));
        }
    }
    let verdict = orders.iter().map(|order| &order.action).find(|action| !action.passes_on());
    let bodyless = parts.method == Method::HEAD;

    match verdict {
        Some(Action::Error { status, code, message, headers, elements }) => {
            drain(body).await;
            let xml = error_xml(code, message, &parts, elements, 0);
            return Ok(passage.own_reply(*status, headers, if bodyless { Bytes::new() } else { xml }));
        }
        Some(Action::ErrorIn200 { code, message, white_space, forward: false }) => {
            drain(body).await;
            let xml = error_xml(code, message, &parts, &BTreeMap::new(), *white_space);
            return Ok(passage.own_reply(200, &BTreeMap::new(), xml));
        }
        Some(Action::Reset) => return Err(passage.give_up("reset by a rule, not forwarded")),
        Some(Action::CorruptRequest { at }) => {
            passage.ticket.record.spoiled_at = match body.size_hint().exact() {
                Some(length) => at.checked_rem(length),
                None => Some(*at),
            };
        }
        _ => {}
    }

    let head = parts.clone();
    let reply = match upstream.send(parts, body, &passage.ticket).await {
        Ok(reply) => reply,
        Err(failure) => return Err(passage.give_up(&failure)),
    };
    passage.ticket.record.upstream_status = Some(reply.status().as_u16());
    let (mut reply_head, reply_body) = reply.into_parts();
    let whole = match verdict {
        Some(Action::LoseReply | Action::ErrorIn200 { .. }) => true,
        _ => reply_body.size_hint().exact().is_some_and(|length| length <= SMALL_REPLY),
    };
    let source = if whole {
        match reply_body.collect().await {
            Ok(collected) => BodySource::Whole(Some(collected.to_bytes())),
            Err(error) => return Err(passage.give_up(&format!("the server's reply broke off: {error}"))),
        }
    } else {
        BodySource::Streamed(reply_body)
    };
    for order in &orders {
        if let Err(left) = passage.wait(order, RequestSide::Reply).await {
            // Through the body, so that what the server said is on record.
            ReplyBody::new(source, BodyDamage::default(), Some(passage.ticket)).undelivered();
            return Err(RelayError(left));
        }
    }
    let spoil = match verdict {
        Some(Action::ErrorIn200 { code, message, white_space, .. }) => {
            let xml = error_xml(code, message, &head, &BTreeMap::new(), *white_space);
            return Ok(passage.own_reply(200, &BTreeMap::new(), xml));
        }
        Some(Action::LoseReply) => return Err(passage.give_up("the reply was lost by a rule")),
        Some(Action::Truncate { keep }) if !bodyless => BodyDamage { keep: Some(*keep), flip: None },
        Some(Action::Corrupt { at }) => BodyDamage { keep: None, flip: Some(*at) },
        _ => BodyDamage::default(),
    };
    drop_hop_by_hop(&mut reply_head.headers);
    passage.ticket.record.status = Some(reply_head.status.as_u16());
    Ok(Response::from_parts(reply_head, ReplyBody::new(source, spoil, Some(passage.ticket))))
}

impl Passage<'_> {
    /// Obeys a rule that delays or holds on this side; fails when the client leaves meanwhile.
    async fn wait(&mut self, order: &Order, side: RequestSide) -> Result<(), String> {
        let journal = self.journal;
        match &order.action {
            Action::Delay { request_ms, reply_ms } => {
                let milliseconds = if side == RequestSide::Request { *request_ms } else { *reply_ms };
                tokio::select! {
                    () = tokio::time::sleep(Duration::from_millis(milliseconds)) => Ok(()),
                    () = self.client.closed() => Err("the client left while its request was delayed".to_owned()),
                }
            }
            Action::Hold { at } if *at == side => {
                journal.hold(&self.ticket, Some(order.rule));
                let waited = tokio::select! {
                    permit = order.permits.acquire() => {
                        // An error says that the rule was removed: its requests are no longer held.
                        if let Ok(permit) = permit {
                            permit.forget();
                        }
                        Ok(())
                    }
                    () = self.client.closed() => Err("the client left while its request was held".to_owned()),
                };
                journal.hold(&self.ticket, None);
                waited
            }
            _ => Ok(()),
        }
    }

    /// Ends the request without a reply.
    fn give_up(&mut self, why: &str) -> RelayError {
        self.reset.store(true, Ordering::Relaxed);
        self.ticket.record.failure = Some(why.to_owned());
        RelayError(why.to_owned())
    }

    /// A reply that the proxy made up.
    fn own_reply(mut self, status: u16, headers: &BTreeMap<String, String>, xml: Bytes) -> Response<ReplyBody> {
        self.ticket.record.status = Some(status);
        let mut reply = Response::builder()
            .status(StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR))
            .header("content-type", "application/xml")
            .header("x-amz-request-id", format!("PROXY{:011}", self.ticket.record.started.to_bits() >> 20));
        for (name, value) in headers {
            reply = reply.header(name, value);
        }
        let length = xml.len();
        let body = ReplyBody::new(BodySource::Whole(Some(xml)), BodyDamage::default(), Some(self.ticket));
        match reply.header(CONTENT_LENGTH, length).body(body) {
            Ok(reply) => reply,
            Err(error) => {
                let text = format!("the rule's headers cannot be sent: {error}");
                let mut reply = Response::new(ReplyBody::unrecorded(text.into()));
                *reply.status_mut() = StatusCode::BAD_GATEWAY;
                reply
            }
        }
    }
}

/// Reads a request's body to its end, as a server does that answers an error.
async fn drain(body: BodySource) {
    if let BodySource::Streamed(mut body) = body {
        while let Some(Ok(_)) = body.frame().await {}
    }
}

fn error_xml(
    code: &str,
    message: &str,
    parts: &Parts,
    elements: &BTreeMap<String, String>,
    white_space: usize,
) -> Bytes {
    let escape = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    xml.extend(std::iter::repeat_n(' ', white_space));
    let _ = write!(xml, "<Error><Code>{}</Code><Message>{}</Message>", escape(code), escape(message));
    for (name, value) in elements {
        let _ = write!(xml, "<{name}>{}</{name}>", escape(value));
    }
    let _ = write!(xml, "<Resource>{}</Resource><RequestId>PROXY</RequestId></Error>", escape(parts.uri.path()));
    Bytes::from(xml)
}
