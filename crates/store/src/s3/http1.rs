//! GET and PUT over HTTP/1.1; the bodies of replies are read straight to their destination.
//!
//! hyper reads bodies into memory of its own. A copy of every byte is needed to have them anywhere else, and a download
//! consists of little but such copies. Here a request is written, and the head of its answer is read. The body stays on
//! the connection, and the caller reads it straight into place. No task and no queue stands between a request and its
//! connection. Connections are made like hyper's (see `super::transport`), and kept for the next request once an answer
//! has been read to its end.

mod connection;
#[cfg(test)]
mod fuzz;
mod head;

use std::collections::HashMap;
use std::error::Error;
use std::future::poll_fn;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use aws_smithy_runtime_api::client::orchestrator::HttpRequest;
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::http::Headers;
use bytes::Bytes;
use hyper::Uri;
use hyper_rustls::MaybeHttpsStream;
use hyper_util::rt::TokioIo;
use tokio::time::Instant;
use tower_service::Service as _;

use super::dial::{Dialer, ReadAheadStream, no_connection};
use super::proxy::Proxies;
use super::sign::host;
use crate::throttle::ByteThrottle;
use connection::{Body, HttpConnection};
use head::Head;
pub(super) use head::{HEADERS, LONGEST_HEAD, OversizedHead};

/// Idle time after which a connection is closed. Services close theirs after 5 to 60 s.
const IDLE: Duration = Duration::from_mins(1);

/// Stream of a connection, boxed because it is large, in particular with TLS.
type Stream = Box<TokioIo<MaybeHttpsStream<ReadAheadStream>>>;

/// Idle connections, and the means to make new ones.
#[derive(Debug)]
pub(super) struct HttpConnections {
    dial: Dialer,
    proxies: Arc<Proxies>,
    /// Throttle of the bytes that are sent.
    throttle: ByteThrottle,
    idle: Mutex<IdleConnections>,
}

/// Idle connections by origin.
#[derive(Debug, Default)]
struct IdleConnections {
    /// Connections by scheme and authority, the most recently used last.
    by_origin: HashMap<String, Vec<(Instant, HttpConnection<Stream>)>>,
    /// True while a task runs that closes idle connections.
    is_swept: bool,
}

/// An answer whose body has not been read.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: Headers,
    pub(super) body: PooledBody,
}

impl HttpConnections {
    pub(super) fn new(dial: Dialer, proxies: Arc<Proxies>, throttle: ByteThrottle) -> Arc<Self> {
        Arc::new(Self { dial, proxies, throttle, idle: Mutex::default() })
    }

    /// True when requests to this address go through a proxy, and so not over these connections.
    pub(super) fn is_proxied(&self, uri: &Uri) -> bool {
        self.proxies.proxy_of(uri).is_some()
    }

    fn idle(&self) -> MutexGuard<'_, IdleConnections> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a request to the address `uri`. `body` replaces the body in `request`.
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
                // The server closed the connection while it was idle, as it may at any time. It is unknown whether it
                // has seen the request.
                Err(_) if used && may_be_repeated && !connection.has_bytes_ahead() => {}
                Err(error) => return Err(ConnectorError::io(error.into())),
            }
        }
    }

    async fn connect(&self, to: &Uri) -> Result<HttpConnection<Stream>, Box<dyn Error + Send + Sync>> {
        let mut dial = self.dial.clone();
        poll_fn(|cx| dial.poll_ready(cx)).await?;
        Ok(HttpConnection::new(Box::new(TokioIo::new(dial.call(to.clone()).await?))))
    }

    /// Takes an idle connection that is still open.
    async fn take(&self, origin: &str) -> Option<HttpConnection<Stream>> {
        loop {
            let (since, mut connection) = self.idle().by_origin.get_mut(origin)?.pop()?;
            if since.elapsed() < IDLE && connection.is_silent().await {
                return Some(connection);
            }
        }
    }

    fn keep(self: Arc<Self>, origin: String, mut connection: HttpConnection<Stream>) {
        connection.shrink();
        let mut idle = self.idle();
        idle.by_origin.entry(origin).or_default().push((Instant::now(), connection));
        if !std::mem::replace(&mut idle.is_swept, true) {
            tokio::spawn(sweep(Arc::downgrade(&self)));
        }
    }

    fn answer(self: &Arc<Self>, origin: String, connection: HttpConnection<Stream>, head: Head) -> Answer {
        let mut body = PooledBody { body: Body::new(connection, &head), return_to: Some((origin, Arc::clone(self))) };
        body.keep_if_done();
        let Head { status, headers, .. } = head;
        Answer { status, headers, body }
    }
}

/// Close idle connections, until none is left.
async fn sweep(connections: Weak<HttpConnections>) {
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

/// The text of a request, up to its body.
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

/// A body on a connection that returns to the pool after its end.
#[derive(Debug)]
pub(super) struct PooledBody {
    body: Body<Stream>,
    return_to: Option<(String, Arc<HttpConnections>)>,
}

impl PooledBody {
    /// Appends the next available bytes, at most `at_most`. 0: the end.
    pub(super) async fn read(&mut self, into: &mut Vec<u8>, at_most: usize) -> io::Result<usize> {
        let came = self.body.read(into, at_most).await?;
        self.keep_if_done();
        Ok(came)
    }

    fn keep_if_done(&mut self) {
        if let Some(connection) = self.body.release()
            && let Some((origin, connections)) = self.return_to.take()
        {
            connections.keep(origin, connection);
        }
    }
}
