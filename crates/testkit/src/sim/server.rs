//! The simulator over HTTP/1.1: the path of one request, from its head to the last byte of its reply.
//!
//! The simulator decides on a request at its arrival, under the lock: it refuses a request without permission, the
//! model admits or throttles it and sets its time, and a fault may strike. Then the body is read and the time passes.
//! Only then, under the lock again, the request takes effect: as with S3, a copy shows up when it is answered. A client
//! that leaves meanwhile does not stop a request that writes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::header::HeaderValue;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep_until};

use super::admin;
use super::answer::{AnswerBody, SimulatedDisconnect, Stream};
use super::context::{End, ServerContext, Ticket};
use super::faults::Fault;
use super::intake::{self, ReceivedBody};
use super::model::{Load, ModelVerdict};
use super::operations::{self, Body};
use super::reply::{ErrorReply, Payload, Reply, ReplyResult};
use super::state::{SimRequest, fault, slow_down};
use crate::classify::classify;
use crate::connection::ClientStream;

type ServerReply = Result<Response<AnswerBody>, SimulatedDisconnect>;

/// Takes connections until dropped.
pub(super) async fn accept(listener: TcpListener, shared: Arc<ServerContext>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                tokio::spawn(serve(stream, Arc::clone(&shared)));
            }
            // Out of files, say: some will be free again.
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

async fn serve(stream: TcpStream, shared: Arc<ServerContext>) {
    let _ = stream.set_nodelay(true);
    let reset = Arc::new(AtomicBool::new(false));
    let io = TokioIo::new(ClientStream { stream, reset: Arc::clone(&reset) });
    let service = service_fn(|request: Request<Incoming>| {
        let (shared, reset) = (Arc::clone(&shared), &reset);
        async move {
            if request.uri().path().starts_with(admin::PREFIX) {
                return Ok(admin::answer(&shared, request).await);
            }
            answer(shared, request, reset).await
        }
    });
    // An error here is a connection that broke, by the client or by a fault; the counters count both.
    let _ = hyper::server::conn::http1::Builder::new().serve_connection(io, service).await;
}

/// A request that waits until its time has passed. A write takes effect even if the client leaves and this is dropped.
struct PendingRequest {
    shared: Arc<ServerContext>,
    writes: bool,
    request: Option<SimRequest>,
    at: Instant,
}

impl Drop for PendingRequest {
    fn drop(&mut self) {
        let Some(request) = self.request.take().filter(|_| self.writes) else { return };
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let (shared, at) = (Arc::clone(&self.shared), self.at);
            runtime.spawn(async move {
                sleep_until(at).await;
                let _ = operations::perform(&mut shared.state(), &request);
            });
        }
    }
}

/// Decision on a request, made at its arrival.
struct Decision {
    verdict: ModelVerdict,
    fault: Option<Fault>,
    refusal: Option<ErrorReply>,
    load: Load,
}

fn decide(shared: &ServerContext, request: &SimRequest, body_length: u64) -> Decision {
    let mut state = shared.state();
    let state = &mut *state;
    let operation = request.call.operation;
    state.counters.begin(operation);
    let (load, work) = operations::cost(state, request, body_length);
    let now = state.now();
    let verdict = if request.call.bucket.is_some() {
        // A listing counts where it reads.
        let prefix = request.call.key.is_none().then(|| request.query().get("prefix").map(str::to_owned)).flatten();
        state.model.arrive(now, load, request.bucket(), prefix.as_deref().unwrap_or(request.key()), work)
    } else {
        ModelVerdict::Serve { after: Duration::ZERO, first_byte: Duration::ZERO }
    };
    state.counters.tick(now.as_secs(), matches!(verdict, ModelVerdict::SlowDown { .. }));
    Decision { verdict, fault: state.faults.strike(&request.call), refusal: state.admit(request).err(), load }
}

async fn answer(shared: Arc<ServerContext>, request: Request<Incoming>, reset: &AtomicBool) -> ServerReply {
    let arrived = Instant::now();
    let (parts, body) = request.into_parts();
    let call = classify(&parts);
    let head_only = parts.method == hyper::Method::HEAD;
    let query = parts.uri.query().map(str::to_owned);
    let mut request = SimRequest { call, query, headers: parts.headers, received: ReceivedBody::Nothing };
    let length = ["x-amz-decoded-content-length", "content-length"];
    let body_length = length.iter().find_map(|name| request.header(name)?.parse().ok()).unwrap_or(0);
    let decision = decide(&shared, &request, body_length);
    let operation = request.call.operation;
    let mut ticket = Ticket::new(Arc::clone(&shared), operation);
    let resource = parts.uri.path();

    if decision.fault == Some(Fault::Reset) {
        reset.store(true, Ordering::Relaxed);
        return Err(SimulatedDisconnect);
    }
    let (after, first_byte) = match decision.verdict {
        ModelVerdict::Serve { after, first_byte } => (after, first_byte),
        ModelVerdict::SlowDown { after } => {
            ticket.end = End::Throttled;
            drain(body).await;
            sleep_until(arrived + shared.real(after)).await;
            return Ok(failed(&slow_down(), head_only, resource, ticket));
        }
    };
    // Read whatever becomes of it: a client in the middle of sending does not look for an answer.
    let received = match operations::body_of(operation) {
        _ if decision.refusal.is_some() => {
            drain(body).await;
            Ok(ReceivedBody::Nothing)
        }
        Body::Object => intake::object(&request.headers, body, shared.terms.clone()).await,
        Body::Document => intake::document(body).await,
        Body::None => {
            drain(body).await;
            Ok(ReceivedBody::Nothing)
        }
    };
    let at = arrived + shared.real(first_byte);
    let refusal = match (decision.refusal, &decision.fault) {
        (Some(refusal), _) => Some(refusal),
        (None, Some(struck)) if !happens(struck) => Some(fault(struck, shared.state().date())),
        _ => None,
    };
    let (received, refusal) = match (received, refusal) {
        (_, Some(refusal)) | (Err(refusal), None) => (ReceivedBody::Nothing, Some(refusal)),
        (Ok(received), None) => (received, None),
    };
    let fault_in_200 = decision.fault == Some(Fault::ErrorIn200) && can_fail_in_200(operation);
    if let Some(refusal) = refusal {
        sleep_until(at).await;
        if fault_in_200 {
            return Ok(error_in_200(&refusal, resource, ticket));
        }
        return Ok(failed(&refusal, head_only, resource, ticket));
    }
    request.received = received;
    let outcome = if at > Instant::now() {
        let mut pending = PendingRequest {
            shared: Arc::clone(&shared),
            writes: decision.load == Load::Write,
            request: Some(request),
            at,
        };
        sleep_until(at).await;
        match pending.request.take() {
            Some(request) => operations::perform(&mut shared.state(), &request),
            None => Err(ErrorReply::new(500, "InternalError", "The request was lost.")),
        }
    } else {
        operations::perform(&mut shared.state(), &request)
    };
    finish(&shared, outcome, decision.fault, (head_only, resource, at, after.saturating_sub(first_byte)), ticket).await
}

/// Returns true when a request that this fault strikes still takes effect.
fn happens(fault: &Fault) -> bool {
    matches!(fault, Fault::LostReply | Fault::Stall(_) | Fault::Truncate | Fault::Corrupt | Fault::WrongEtag)
}

fn can_fail_in_200(operation: &str) -> bool {
    matches!(operation, "CopyObject" | "UploadPartCopy" | "CompleteMultipartUpload")
}

async fn finish(
    shared: &ServerContext,
    outcome: ReplyResult,
    struck: Option<Fault>,
    (head_only, resource, at, body_time): (bool, &str, Instant, Duration),
    mut ticket: Ticket,
) -> ServerReply {
    let mut reply = match outcome {
        Ok(reply) => reply,
        Err(fail) => return Ok(failed(&fail, head_only, resource, ticket)),
    };
    ticket.end = End::Succeeded;
    let stall = match &struck {
        Some(Fault::LostReply) => return Err(SimulatedDisconnect),
        Some(Fault::WrongEtag) => {
            wrong_etag(&mut reply);
            None
        }
        Some(Fault::Stall(seconds)) => Some(shared.real(Duration::from_secs_f64(*seconds))),
        _ => None,
    };
    let Reply { status, headers, body } = reply;
    let length = body.length();
    if let Some(pause) = stall
        && !matches!(body, Payload::Content { .. })
    {
        tokio::time::sleep(pause).await;
    }
    let mut head_length = None;
    let body = match body {
        Payload::Empty(length) => {
            head_length = length;
            ticket.complete();
            AnswerBody::once(Bytes::new(), Some(ticket))
        }
        Payload::Text(text) => AnswerBody::once(text, Some(ticket)),
        Payload::Content { content, offset, length } => {
            if length == 0 {
                ticket.complete();
            }
            let seconds = shared.real(body_time).as_secs_f64();
            let stream = Stream {
                content,
                offset,
                length,
                started: at,
                seconds_per_byte: seconds / (length.max(1)) as f64,
                cut: (struck == Some(Fault::Truncate)).then_some(length / 2),
                spoilt: (struck == Some(Fault::Corrupt)).then_some(length / 2),
                stall: stall.map(|pause| (length / 2, pause)),
                sent: 0,
                waiting: None,
            };
            AnswerBody::stream(stream, ticket)
        }
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    stamp(&mut response);
    // An answer of 204 has no length.
    if status != StatusCode::NO_CONTENT && status != StatusCode::NOT_MODIFIED {
        let length = head_length.unwrap_or(length);
        response.headers_mut().insert("content-length", HeaderValue::from(length));
    }
    Ok(response)
}

async fn drain(mut body: Incoming) {
    while let Some(Ok(_)) = body.frame().await {}
}

const REQUEST_ID: &str = "S3SIM00000000000";

fn stamp(response: &mut Response<AnswerBody>) {
    response.headers_mut().insert("x-amz-request-id", HeaderValue::from_static(REQUEST_ID));
    response.headers_mut().insert("server", HeaderValue::from_static("s3sim"));
}

fn failed(fail: &ErrorReply, head_only: bool, resource: &str, mut ticket: Ticket) -> Response<AnswerBody> {
    let text = if head_only { String::new() } else { fail.xml(resource, REQUEST_ID) };
    if head_only {
        ticket.complete();
    }
    let mut response = Response::new(AnswerBody::once(Bytes::from(text), Some(ticket)));
    *response.status_mut() = StatusCode::from_u16(fail.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    stamp(&mut response);
    let headers = response.headers_mut();
    headers.insert("content-type", HeaderValue::from_static("application/xml"));
    for (name, value) in &fail.headers {
        if let Ok(value) = HeaderValue::try_from(value) {
            headers.insert(*name, value);
        }
    }
    response
}

/// Builds the reply of S3 when it fails after the reply has begun: white space, then the error.
fn error_in_200(fail: &ErrorReply, resource: &str, ticket: Ticket) -> Response<AnswerBody> {
    let text = fail.xml(resource, REQUEST_ID);
    // White space may only stand behind the declaration.
    let text = text.replacen("?>\n", "?>\n      \n", 1);
    let mut response = Response::new(AnswerBody::once(Bytes::from(text), Some(ticket)));
    stamp(&mut response);
    response.headers_mut().insert("content-type", HeaderValue::from_static("application/xml"));
    response
}

/// Turns the first digit of the `ETag`, in a header or in a body.
fn wrong_etag(reply: &mut Reply) {
    let turned = |text: &str, at: usize| {
        let digit = if text[at..].starts_with('0') { "1" } else { "0" };
        format!("{}{digit}{}", &text[..at], &text[at + 1..])
    };
    if let Some(etag) = reply.headers.get("etag").and_then(|etag| etag.to_str().ok()).map(|etag| turned(etag, 1)) {
        reply.set("etag", &etag);
    }
    if let Payload::Text(text) = &reply.body
        && let Ok(text) = std::str::from_utf8(text)
        && let Some(at) = text.find("<ETag>&quot;")
    {
        reply.body = Payload::Text(Bytes::from(turned(text, at + "<ETag>&quot;".len())));
    }
}
