//! The fast path: copies, GETs and PUTs built and signed without the SDK, because they are the most frequent requests.
//!
//! The SDK assembles each request out of some sixty plug-ins, which costs several times the request itself
//! (`docs/develop/performance.md`). Here a request is built and signed by hand. It shares with the SDK's requests the
//! connections (`super::transport`; GETs and PUTs have their own, `super::http1`), the chain of credentials, the rules
//! from bucket and region to address, the signing algorithm and the XML reader. Buckets for which those rules give no
//! ordinary address and signature (ARNs, directory buckets, outposts) go through the SDK: [`FastPath::bucket_endpoint`]
//! decides. The decisions and their figures are in
//! `docs/develop/adr/20261121-copies-without-the-sdk.md` and `docs/develop/adr/20261122-downloads.md`.

pub(in crate::s3) mod answer;

use std::borrow::Cow;
use std::collections::HashMap;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_credential_types::Credentials;
use aws_sdk_s3::config::endpoint::{DefaultResolver, ParamsBuilder, ResolveEndpoint as _};
use aws_sdk_s3::primitives::{ByteStream, SdkBody};
use aws_sdk_s3::types::ChecksumType;
use aws_smithy_runtime_api::client::http::{HttpConnector as _, SharedHttpConnector};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::http::Headers;
use aws_smithy_types::DateTime;
use aws_smithy_types::date_time::Format;
use bytes::{BufMut as _, Bytes};
use hyper::Uri;
use tokio::io::AsyncRead;
use tokio_util::io::poll_read_buf;

use answer::{Answer, connection_error, read, read_all, read_write_answer};

use super::clock::SKEW;
use super::convert::path;
use super::credentials::CredentialCache;
use super::failures::{whole, without_output};
use super::http1::{HttpConnections, PooledBody};
use super::sign::{Payload, SignatureInput, Signer};
use crate::checksum::ChecksumAlgorithm;
use crate::error::Result;
use crate::error::StoreError;
use crate::error::classify::code;
use crate::properties::Encryption;

/// Largest accepted reply to a copy. S3 pads replies with white space while it copies; anything longer is rejected.
const LONGEST_ANSWER: usize = 1 << 20;
/// Bytes of one read of a reply. Most replies are shorter.
const ANSWER: usize = 1 << 10;
/// The name of the client in the service's logs.
const USER_AGENT: &str = concat!("seqferry/", env!("CARGO_PKG_VERSION"));

/// Headers of a request, names in lower case.
#[derive(Default)]
pub(super) struct RequestHeaders(Vec<(Cow<'static, str>, String)>);

/// The output has names only: a value may be a signature or a session token.
impl std::fmt::Debug for RequestHeaders {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

impl RequestHeaders {
    /// Adds a header, if there is a value for it.
    pub(super) fn add(&mut self, name: impl Into<Cow<'static, str>>, value: Option<String>) {
        self.0.extend(value.map(|value| (name.into(), value)));
    }

    /// Adds all of these headers.
    pub(super) fn add_all(&mut self, headers: Vec<(String, String)>) {
        self.0.extend(headers.into_iter().map(|(name, value)| (name.into(), value)));
    }
}

/// Connections, credentials and settings that requests to all regions share.
#[derive(Clone)]
pub(super) struct ClientContext {
    /// The SDK's connections to the service.
    pub(super) connector: SharedHttpConnector,
    /// Connections for requests and replies with bodies.
    pub(super) connections: Arc<HttpConnections>,
    /// Credentials. None: requests are sent unsigned.
    pub(super) credentials: Option<CredentialCache>,
    /// Parameters of the endpoint rules, without bucket and region.
    pub(super) params: ParamsBuilder,
    /// True when signatures cover bodies too.
    pub(super) sign_bodies: bool,
    /// Seconds by which the service's clock is ahead of ours, set once a signature was refused for its time.
    pub(super) skew: Arc<AtomicI64>,
}

/// Makes requests to one region.
pub(super) struct FastPath {
    common: ClientContext,
    region: String,
    signer: Signer,
    /// Endpoints by bucket; None for buckets that only the SDK can serve.
    endpoints: RwLock<HashMap<String, Option<Arc<BucketEndpoint>>>>,
}

/// Address and signing region of a bucket.
#[derive(Debug)]
pub(super) struct BucketEndpoint {
    /// URL up to the slash before the key.
    url: String,
    signing_region: String,
}

impl BucketEndpoint {
    /// Address of an object, its key byte for byte.
    pub(super) fn address(&self, key: &str) -> String {
        format!("{}/{}", self.url, path(key))
    }
}

/// A request before it is signed.
#[derive(Clone, Copy)]
struct UnsignedRequest<'a> {
    method: &'static str,
    url: &'a str,
    headers: &'a RequestHeaders,
    payload: Payload,
}

/// A signed request that can be sent.
struct SignedRequest {
    request: HttpRequest,
    uri: Uri,
    /// The time in its signature.
    signed_at: SystemTime,
}

/// Operation, bucket and key, as errors name them.
#[derive(Clone, Copy)]
pub(super) struct ErrorContext<'a> {
    pub(super) operation: &'static str,
    pub(super) bucket: &'a str,
    pub(super) key: &'a str,
}

impl ErrorContext<'_> {
    fn failed(self, code: &str, status: Option<u16>) -> StoreError {
        StoreError::new(self.operation, self.bucket, Some(self.key), code, status)
    }
}

/// A success of a write, of a whole object or of a part.
#[derive(Debug, Default)]
pub(super) struct WriteAnswer {
    pub(super) etag: Option<String>,
    /// The strongest checksum in the reply.
    pub(super) checksum: Option<(ChecksumAlgorithm, String)>,
    pub(super) checksum_kind: Option<ChecksumType>,
    pub(super) version_id: Option<String>,
    pub(super) opaque_etag: bool,
    pub(super) encryption: Option<Encryption>,
}

/// A reply whose body is still being received.
pub(super) struct PendingReply {
    status: u16,
    pub(super) headers: Headers,
    pub(super) body: BodyReader,
}

/// The body of a reply, by the type of its connection.
pub(super) enum BodyReader {
    /// Over a connection of ours.
    FastPath(PooledBody),
    /// Through the SDK.
    Sdk(Pin<Box<dyn AsyncRead + Send>>),
}

impl BodyReader {
    pub(super) fn by_sdk(body: ByteStream) -> Self {
        Self::Sdk(Box::pin(body.into_async_read()))
    }

    /// Appends the next available bytes, at most `at_most`; 0: the end.
    pub(super) async fn read(&mut self, into: &mut Vec<u8>, at_most: usize) -> io::Result<usize> {
        match self {
            Self::FastPath(incoming) => incoming.read(into, at_most).await,
            Self::Sdk(body) => {
                into.reserve(at_most);
                poll_fn(|cx| poll_read_buf(body.as_mut(), cx, &mut (&mut *into).limit(at_most))).await
            }
        }
    }
}

impl FastPath {
    pub(super) fn new(common: ClientContext, region: &str) -> Self {
        Self { common, region: region.to_owned(), signer: Signer::default(), endpoints: RwLock::default() }
    }

    /// Returns address and signing region of a bucket. None: only the SDK can reach the bucket, or explain what is
    /// wrong with the request.
    pub(super) async fn bucket_endpoint(&self, bucket: &str, key: &str) -> Option<Arc<BucketEndpoint>> {
        // The SDK refuses such keys with a reason.
        if key.trim().is_empty() {
            return None;
        }
        if let Some(known) = self.endpoints.read().unwrap_or_else(PoisonError::into_inner).get(bucket) {
            return known.clone();
        }
        let bucket_endpoint = self.resolve(bucket).await.map(Arc::new);
        self.endpoints
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(bucket.to_owned(), bucket_endpoint.clone());
        bucket_endpoint
    }

    async fn resolve(&self, bucket: &str) -> Option<BucketEndpoint> {
        if bucket.trim().is_empty() {
            return None;
        }
        let params = self.common.params.clone().bucket(bucket).region(&self.region).build().ok()?;
        let endpoint = DefaultResolver::new().resolve_endpoint(&params).await.ok()?;
        // Express sessions, outposts and multi-region signatures use other schemes, which the SDK knows.
        let [scheme] = endpoint.auth_schemes() else { return None };
        let says = |property| scheme.get(property).and_then(aws_smithy_types::Document::as_string);
        let ordinary = scheme.name() == "sigv4" && says("signingName") == Some("s3");
        if !ordinary || bucket.starts_with("arn:") || endpoint.headers().next().is_some() {
            return None;
        }
        let signing_region = says("signingRegion").unwrap_or(&self.region).to_owned();
        Some(BucketEndpoint { url: endpoint.url().trim_end_matches('/').to_owned(), signing_region })
    }

    /// Sends a copy: PUT without a body. `query` starts with its question mark, or is empty; `element` is the root of a
    /// success.
    pub(super) async fn copy(
        &self,
        bucket_endpoint: &BucketEndpoint,
        about: ErrorContext<'_>,
        query: &str,
        headers: &RequestHeaders,
        element: &str,
    ) -> Result<WriteAnswer> {
        let url = bucket_endpoint.address(about.key) + query;
        let mut corrected = false;
        loop {
            let asked = UnsignedRequest { method: "PUT", url: &url, headers, payload: Payload::Empty };
            let SignedRequest { request, signed_at, .. } = self.signed(bucket_endpoint, about, asked).await?;
            let answer = read(about, self.send(about, request).await?).await?;
            if !corrected && answer.status == 403 && self.learn_skew(&answer.headers, signed_at) {
                corrected = true;
                continue;
            }
            return answer.into_copy_result(about, element);
        }
    }

    /// Requests an object, or a range of one.
    pub(super) async fn get(
        &self,
        bucket_endpoint: &BucketEndpoint,
        about: ErrorContext<'_>,
        query: &str,
        headers: &RequestHeaders,
    ) -> Result<PendingReply> {
        let asked = UnsignedRequest {
            method: "GET",
            url: &(bucket_endpoint.address(about.key) + query),
            headers,
            payload: Payload::Empty,
        };
        self.ask(bucket_endpoint, about, asked, Bytes::new()).await
    }

    /// Write an object, or a part of one.
    pub(super) async fn put(
        &self,
        bucket_endpoint: &BucketEndpoint,
        about: ErrorContext<'_>,
        query: &str,
        headers: &RequestHeaders,
        body: Bytes,
    ) -> Result<WriteAnswer> {
        // A checksum covers the body already: hashing it for the signature would cost ten times as much.
        let payload = if self.common.sign_bodies { Payload::digest(&body) } else { Payload::Unsigned };
        let asked =
            UnsignedRequest { method: "PUT", url: &(bucket_endpoint.address(about.key) + query), headers, payload };
        let PendingReply { status, headers, body } = self.ask(bucket_endpoint, about, asked, body).await?;
        read_all(about, status, body).await?;
        Ok(read_write_answer(&headers))
    }

    /// Send a request that has a body, or whose answer has one. Any status but a success is an error.
    async fn ask(
        &self,
        bucket_endpoint: &BucketEndpoint,
        about: ErrorContext<'_>,
        asked: UnsignedRequest<'_>,
        body: Bytes,
    ) -> Result<PendingReply> {
        let mut corrected = false;
        loop {
            let ready = self.signed(bucket_endpoint, about, asked).await?;
            let signed_at = ready.signed_at;
            let PendingReply { status, headers, body: came } = self.exchange(about, ready, body.clone()).await?;
            if (200..300).contains(&status) {
                return Ok(PendingReply { status, headers, body: came });
            }
            let answer = Answer { status, headers, body: read_all(about, status, came).await? };
            if !corrected && status == 403 && self.learn_skew(&answer.headers, signed_at) {
                corrected = true;
                continue;
            }
            return Err(answer.refusal(about));
        }
    }

    /// Exchanges a request and a reply of any status, over a connection of ours or through the proxy.
    async fn exchange(&self, about: ErrorContext<'_>, ready: SignedRequest, body: Bytes) -> Result<PendingReply> {
        let SignedRequest { mut request, uri, .. } = ready;
        if self.common.connections.is_proxied(&uri) {
            *request.body_mut() = SdkBody::from(body);
            let response = self.send(about, request).await?;
            let (status, headers) = (response.status().as_u16(), response.headers().clone());
            let body = BodyReader::by_sdk(ByteStream::new(response.into_body()));
            return Ok(PendingReply { status, headers, body });
        }
        let answer = self
            .common
            .connections
            .send(&request, &uri, body)
            .await
            .map_err(|error| connection_error(about, &error))?;
        Ok(PendingReply { status: answer.status, headers: answer.headers, body: BodyReader::FastPath(answer.body) })
    }

    /// Builds and signs a request with the present time.
    async fn signed(
        &self,
        bucket_endpoint: &BucketEndpoint,
        about: ErrorContext<'_>,
        asked: UnsignedRequest<'_>,
    ) -> Result<SignedRequest> {
        let credentials = match &self.common.credentials {
            None => None,
            Some(credentials) => Some(credentials.now().await.map_err(|error| {
                about.failed(code::NO_CREDENTIALS, None).with_message(without_output(&whole(&error)))
            })?),
        };
        let signed_at = self.service_time(SystemTime::now());
        let (request, uri) = self
            .request(bucket_endpoint, asked, credentials.as_ref(), signed_at)
            .map_err(|text| about.failed("InvalidRequest", None).with_message(text))?;
        Ok(SignedRequest { request, uri, signed_at })
    }

    fn request(
        &self,
        bucket_endpoint: &BucketEndpoint,
        UnsignedRequest { method, url, headers, payload }: UnsignedRequest<'_>,
        credentials: Option<&Credentials>,
        time: SystemTime,
    ) -> std::result::Result<(HttpRequest, Uri), String> {
        let uri: Uri = url.parse().map_err(|error| whole(&error))?;
        let mut request = HttpRequest::new(SdkBody::empty());
        request.set_method(method).map_err(|error| whole(&error))?;
        request.set_uri(uri.clone()).map_err(|error| whole(&error))?;
        let to_send = request.headers_mut();
        for (name, value) in &headers.0 {
            to_send.try_insert(name.clone(), value.clone()).map_err(|error| format!("{name}: {}", whole(&error)))?;
        }
        to_send.insert("user-agent", USER_AGENT);
        if let Some(credentials) = credentials {
            let asked = SignatureInput { method, uri: &uri, headers: &headers.0, payload };
            for (name, value) in self.signer.sign(&asked, credentials, &bucket_endpoint.signing_region, time) {
                to_send.try_insert(name, value).map_err(|_| format!("{name} holds what no header can"))?;
            }
        }
        Ok((request, uri))
    }

    async fn send(&self, about: ErrorContext<'_>, request: HttpRequest) -> Result<HttpResponse> {
        self.common.connector.call(request).await.map_err(|error| connection_error(about, &error))
    }

    fn service_time(&self, ours: SystemTime) -> SystemTime {
        let skew = self.common.skew.load(Ordering::Relaxed);
        let by = Duration::from_secs(skew.unsigned_abs());
        let theirs = if skew < 0 { ours.checked_sub(by) } else { ours.checked_add(by) };
        theirs.unwrap_or(ours)
    }

    /// Returns true when a refusal may be due to the time in the signature; later signatures then bear the service's
    /// time.
    fn learn_skew(&self, headers: &Headers, signed_at: SystemTime) -> bool {
        let date = headers.get("date").and_then(|date| DateTime::from_str(date, Format::HttpDate).ok());
        let Some(theirs) = date.and_then(|date| SystemTime::try_from(date).ok()) else { return false };
        let off = theirs.duration_since(signed_at).or_else(|_| signed_at.duration_since(theirs)).unwrap_or_default();
        if off <= SKEW {
            return false;
        }
        self.common.skew.store(seconds(theirs) - seconds(SystemTime::now()), Ordering::Relaxed);
        true
    }
}

/// Whole seconds since the epoch.
fn seconds(time: SystemTime) -> i64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
}
