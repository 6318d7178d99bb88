//! Connections to S3 by hyper, like the SDK's own, but made here for two reasons.
//!
//! - rustls reads 4 KiB at a time from the network, so that over TLS a download of 2 GiB makes half a million system
//!   calls. Here it is served from larger reads ([`ReadAheadStream`](super::dial::ReadAheadStream)).
//! - A server with an untrusted certificate is distinguished from one that does not answer: a retry is useless.
//!
//! Requests through a proxy are left to the SDK's connector.

use std::sync::Arc;

use aws_smithy_runtime_api::client::connection::{CaptureSmithyConnection, ConnectionMetadata};
use aws_smithy_runtime_api::client::http::{
    HttpClient as _, HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpClient, SharedHttpConnector,
    http_client_fn,
};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_types::body::SdkBody;
use http_body_util::{BodyExt as _, Limited};
use hyper::Uri;
use hyper_util::client::legacy::connect::{CaptureConnection, HttpConnector as Tcp, capture_connection};
use hyper_util::client::legacy::{Client, Error as ClientError};
use hyper_util::rt::{TokioExecutor, TokioTimer};

use super::causes::sources;
use super::dial::{CONNECTING, Dialer, Trust, no_connection};
use super::document::LateDeclaration;
use super::http1::{HEADERS, HttpConnections, LONGEST_HEAD};
use super::proxy::{Proxies, ProxyConnectors, credentials_client};
use crate::throttle::ByteThrottle;

/// Largest document in bytes. A listing of 1,000 keys of 1 KiB, each byte encoded as three, has 3 MiB; some services
/// send larger pages.
const LONGEST_DOCUMENT: usize = 32 << 20;
/// The HTTP clients and connections of a store.
pub(super) struct Transport {
    /// The SDK's HTTP client.
    pub(super) client: SharedHttpClient,
    /// The client's connector for requests to S3: its callers share their connections.
    pub(super) connector: SharedHttpConnector,
    /// Connections for requests of the fast path that have bodies.
    pub(super) connections: Arc<HttpConnections>,
}

/// See [`Transport`].
pub(super) fn transport(trust: Arc<Trust>, throttle: ByteThrottle) -> Transport {
    let mut tcp = Tcp::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    let dial = Dialer { tcp, trust };
    let proxies = Proxies::from_env();
    let connections = HttpConnections::new(dial.clone(), Arc::clone(&proxies), throttle);
    let connector = SharedHttpConnector::new(S3Connector::new(dial, proxies));
    // Services that provide credentials have time limits of their own.
    let others = credentials_client();
    let to_s3 = connector.clone();
    let client = http_client_fn(move |settings, components| {
        if settings.connect_timeout() == Some(CONNECTING) && settings.read_timeout().is_none() {
            to_s3.clone()
        } else {
            others.http_connector(settings, components)
        }
    });
    Transport { client, connector, connections }
}

/// The SDK's connector for requests to S3.
#[derive(Debug)]
struct S3Connector {
    client: Client<Dialer, SdkBody>,
    proxies: Arc<Proxies>,
    by_proxy: ProxyConnectors,
}

impl S3Connector {
    fn new(dial: Dialer, proxies: Arc<Proxies>) -> Self {
        Self {
            // Without a timer idle connections would never be closed.
            client: Client::builder(TokioExecutor::new())
                .pool_timer(TokioTimer::new())
                .http1_max_headers(HEADERS)
                .http1_max_buf_size(LONGEST_HEAD)
                .build(dial),
            proxies,
            by_proxy: ProxyConnectors::default(),
        }
    }
}

impl HttpConnector for S3Connector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let bounded = !is_for_object_bytes(&request);
        let to = request.uri().parse::<Uri>().ok();
        if let Some((to, proxy)) = to.as_ref().and_then(|to| Some((to, self.proxies.proxy_of(to)?))) {
            let settings = HttpConnectorSettings::builder().connect_timeout(CONNECTING).build();
            let response = self.by_proxy.get(to, proxy, &settings).call(request);
            return HttpConnectorFuture::new(async move {
                let response = response.await?;
                Ok(if bounded { response.map(without_excess) } else { response })
            });
        }
        let mut request = match request.try_into_http1x() {
            Ok(request) => request,
            Err(error) => return HttpConnectorFuture::ready(Err(ConnectorError::user(error.into()))),
        };
        let connection = capture_connection(&mut request);
        if let Some(wanted) = request.extensions().get::<CaptureSmithyConnection>() {
            wanted.set_connection_retriever(move || of(&connection));
        }
        let response = self.client.request(request);
        HttpConnectorFuture::new(async move {
            let response = response.await.map_err(failed)?;
            let response = HttpResponse::try_from(response.map(SdkBody::from_body_1_x))
                .map_err(|error| ConnectorError::other(error.into(), None))?;
            Ok(if bounded { response.map(without_excess) } else { response })
        })
    }
}

/// True when the body of the answer is an object's, which its caller reads piece by piece.
fn is_for_object_bytes(request: &HttpRequest) -> bool {
    request.method() == "GET" && request.uri().contains("x-id=GetObject")
}

/// Limits a document, which the SDK reads as a whole: an excessive one is an error before it fills the memory. A
/// declaration that follows white space is overwritten ([`LateDeclaration`]).
fn without_excess(body: SdkBody) -> SdkBody {
    let mut declaration = LateDeclaration::default();
    let document = Limited::new(body, LONGEST_DOCUMENT)
        .map_frame(move |frame| frame.map_data(|bytes| declaration.overwrite(bytes)));
    SdkBody::from_body_1_x(document)
}

/// Metadata that allows the SDK to drop a connection. None: there is no connection yet.
fn of(connection: &CaptureConnection) -> Option<ConnectionMetadata> {
    connection.connection_metadata().as_ref()?;
    let connection = connection.clone();
    let give_up = move || {
        if let Some(there) = connection.connection_metadata().as_ref() {
            there.poison();
        }
    };
    Some(ConnectionMetadata::builder().proxied(false).poison_fn(give_up).build())
}

fn failed(error: ClientError) -> ConnectorError {
    if sources(&error).any(|error| error.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_user)) {
        ConnectorError::user(error.into())
    } else {
        no_connection(error.into())
    }
}
