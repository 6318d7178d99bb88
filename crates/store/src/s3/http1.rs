//! HTTP/1.1; the bodies of replies are read straight to their destination.
//!
//! hyper reads bodies into its own buffers: every byte is copied once more, which is most of the work of a download.
//! This module writes a request and reads the head of the reply. The body stays on the connection, and the caller reads
//! it into its own buffer, without a task or a queue in between. A connection returns to the pool once its reply has
//! been read to the end.

mod connection;
#[cfg(test)]
mod fuzz;
mod head;

use std::borrow::Cow;
use std::collections::HashMap;
use std::error::Error;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use aws_smithy_runtime_api::http::Headers;
use bytes::Bytes;
use hyper::Uri;
use tokio::time::Instant;

use super::dial::{Dialer, Stream, TrustStore};
use super::proxy::{Proxies, Proxy};
use super::sign::host;
use crate::throttle::ByteThrottle;
use connection::{Body, HttpConnection};
use head::Head;
pub(super) use head::OversizedHead;

/// Idle time after which a connection is closed. Services close theirs after 5 to 60 s.
const IDLE: Duration = Duration::from_mins(1);

/// Idle connections, and the means to make new ones.
#[derive(Debug)]
pub(super) struct HttpConnections {
    dialer: Dialer,
    proxies: Proxies,
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
    has_sweeper: bool,
}

/// A reply whose body has not been read.
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) headers: Headers,
    pub(super) body: PooledBody,
}

impl HttpConnections {
    pub(super) fn new(trust: Arc<TrustStore>, throttle: ByteThrottle) -> Arc<Self> {
        let (dialer, proxies) = (Dialer::new(trust), Proxies::from_env());
        Arc::new(Self { dialer, proxies, throttle, idle: Mutex::default() })
    }

    fn idle(&self) -> MutexGuard<'_, IdleConnections> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a request to the address `uri`.
    pub(super) async fn send(
        self: &Arc<Self>,
        method: &'static str,
        uri: &Uri,
        headers: &[(Cow<'static, str>, String)],
        body: Bytes,
    ) -> Result<Reply, Box<dyn Error + Send + Sync>> {
        let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            return Err("the address has no host".into());
        };
        let origin = format!("{scheme}://{authority}");
        let proxy = self.proxies.proxy_of(uri);
        let head_bytes = Bytes::from(request_head(method, uri, headers, proxy, body.len()));
        let is_head = method == "HEAD";
        let may_be_repeated = is_head || method == "GET";
        loop {
            let kept = self.take_idle(&origin).await;
            let used = kept.is_some();
            let mut connection = match kept {
                Some(connection) => connection,
                None => HttpConnection::new(self.dialer.connect(uri, proxy).await?),
            };
            match connection.send(head_bytes.clone(), body.clone(), is_head, &self.throttle).await {
                Ok(head) => return Ok(self.reply(origin, connection, head)),
                // The server closed the connection while it was idle, as it may at any time. It is unknown whether it
                // has seen the request.
                Err(_) if used && may_be_repeated && !connection.has_buffered_bytes() => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Takes an idle connection that is still open.
    async fn take_idle(&self, origin: &str) -> Option<HttpConnection<Stream>> {
        loop {
            let (since, mut connection) = self.idle().by_origin.get_mut(origin)?.pop()?;
            if since.elapsed() < IDLE && connection.is_idle().await {
                return Some(connection);
            }
        }
    }

    fn return_idle(self: Arc<Self>, origin: String, mut connection: HttpConnection<Stream>) {
        connection.shrink();
        let mut idle = self.idle();
        idle.by_origin.entry(origin).or_default().push((Instant::now(), connection));
        if !std::mem::replace(&mut idle.has_sweeper, true) {
            tokio::spawn(sweep(Arc::downgrade(&self)));
        }
    }

    fn reply(self: &Arc<Self>, origin: String, connection: HttpConnection<Stream>, head: Head) -> Reply {
        let mut body = PooledBody { body: Body::new(connection, &head), return_to: Some((origin, Arc::clone(self))) };
        body.return_if_complete();
        let Head { status, headers, .. } = head;
        Reply { status, headers, body }
    }
}

/// Closes idle connections until none is left.
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
            idle.has_sweeper = false;
            return;
        }
    }
}

/// The text of a request, up to its body. A proxy reads requests without TLS, and gets the whole address.
fn request_head(
    method: &str,
    uri: &Uri,
    headers: &[(Cow<'static, str>, String)],
    proxy: Option<&Proxy>,
    length: usize,
) -> String {
    let host = host(uri);
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let proxy = proxy.filter(|_| uri.scheme_str() == Some("http"));
    let origin = proxy.map(|_| format!("http://{host}")).unwrap_or_default();
    let mut text = format!("{method} {origin}{path} HTTP/1.1\r\nhost: {host}");
    let mut add = |name: &str, value: &str| {
        for part in ["\r\n", name, ": ", value] {
            text.push_str(part);
        }
    };
    for (name, value) in headers {
        add(name, value);
    }
    if let Some(login) = proxy.and_then(|proxy| proxy.login.as_deref()) {
        add("proxy-authorization", login);
    }
    if ["PUT", "POST"].contains(&method) {
        add("content-length", &length.to_string());
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
    /// A body of all that a stream holds.
    #[cfg(test)]
    pub(super) fn from_stream(stream: Stream) -> Self {
        let (status, headers, framing, keep_alive) = (200, Headers::new(), head::Framing::Close, false);
        let head = Head { status, headers, framing, keep_alive };
        Self { body: Body::new(HttpConnection::new(stream), &head), return_to: None }
    }

    /// Appends the next available bytes, at most `at_most`. 0: the end.
    pub(super) async fn read(&mut self, into: &mut Vec<u8>, at_most: usize) -> io::Result<usize> {
        let came = self.body.read(into, at_most).await?;
        self.return_if_complete();
        Ok(came)
    }

    fn return_if_complete(&mut self) {
        if let Some(connection) = self.body.take_connection()
            && let Some((origin, connections)) = self.return_to.take()
        {
            connections.return_idle(origin, connection);
        }
    }
}
