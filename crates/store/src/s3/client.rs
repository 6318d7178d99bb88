//! The client of one region: it signs requests and sends them, each once.
//!
//! A request is sent again only after its signature was refused for its time, then with the service's time. The
//! decisions and their figures are in `docs/develop/adr/20261129-one-s3-client.md`.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_smithy_runtime_api::http::Headers;
use aws_smithy_types::DateTime;
use aws_smithy_types::date_time::Format;
use hyper::Uri;

use super::MAX_BUCKETS;
use super::credentials::CredentialCache;
use super::endpoint::{BucketEndpoint, EndpointRules};
use super::http1::{HttpConnections, Reply};
use super::reply::WholeReply;
use super::request::{Request, RequestBodyKind, RequestHeaders};
use super::sign::{Payload, SignatureInput, Signer};
use crate::error::{Result, StoreError};

/// The name of the client in the service's logs.
const USER_AGENT: &str = concat!("seqferry/", env!("CARGO_PKG_VERSION"));
/// Clock skew from which signatures are corrected. S3 refuses signatures that are off by more than 15 minutes.
const MIN_SKEW: Duration = Duration::from_mins(4);

/// Connections, credentials and settings that the clients of all regions share.
#[derive(Clone)]
pub(super) struct ClientContext {
    pub(super) connections: Arc<HttpConnections>,
    /// Credentials. None: requests are sent unsigned.
    pub(super) credentials: Option<CredentialCache>,
    pub(super) rules: EndpointRules,
    /// True when signatures cover bodies of objects too.
    pub(super) sign_bodies: bool,
    /// Seconds by which the service's clock is ahead of ours, set once a signature was refused for its time.
    pub(super) skew: Arc<AtomicI64>,
}

/// Makes requests to one region.
pub(super) struct Client {
    context: ClientContext,
    pub(super) region: String,
    signer: Signer,
    endpoints: RwLock<HashMap<String, Arc<BucketEndpoint>>>,
}

/// A signed request that can be sent.
struct SignedRequest {
    uri: Uri,
    headers: RequestHeaders,
    /// The time in its signature.
    signed_at: SystemTime,
}

impl Client {
    pub(super) fn new(context: ClientContext, region: &str) -> Self {
        Self { context, region: region.to_owned(), signer: Signer::default(), endpoints: RwLock::default() }
    }

    /// Sends a request. Any status but a success is an error. The body of the reply is still on its connection.
    pub(super) async fn send(&self, request: &Request<'_>) -> Result<Reply> {
        let endpoint = self.endpoint(request)?;
        let mut corrected = false;
        loop {
            let SignedRequest { uri, headers, signed_at } = self.sign(&endpoint, request).await?;
            let sent = self.context.connections.send(request.method, &uri, &headers.0, request.body.clone());
            let reply = sent.await.map_err(|error| request.context.transport_error(error.as_ref()))?;
            if (200..300).contains(&reply.status) {
                return Ok(reply);
            }
            let refusal = WholeReply::read(request.context, reply).await?;
            if !corrected && refusal.status == 403 && self.update_skew(&refusal.headers, signed_at) {
                corrected = true;
                continue;
            }
            return Err(refusal.error(request.context));
        }
    }

    /// Sends a request, and reads the whole reply.
    pub(super) async fn call(&self, request: &Request<'_>) -> Result<WholeReply> {
        WholeReply::read(request.context, self.send(request).await?).await
    }

    /// Address with which a holder can make the request within so many seconds. The holder has to send the headers that
    /// the request has here.
    pub(super) async fn presign(&self, request: &Request<'_>, seconds: u64) -> Result<String> {
        let endpoint = self.endpoint(request)?;
        let uri = request_uri(&endpoint, request)?;
        let Some(credentials) = &self.context.credentials else { return Ok(uri.to_string()) };
        let credentials = credentials.get().await.map_err(|error| request.context.credentials_error(&error))?;
        let input = SignatureInput {
            method: request.method,
            uri: &uri,
            headers: &request.headers.0,
            payload: Payload::Unsigned,
        };
        let time = self.service_time(SystemTime::now());
        Ok(self.signer.presign(&input, &credentials, &endpoint.signing_region, time, seconds))
    }

    fn endpoint(&self, request: &Request<'_>) -> Result<Arc<BucketEndpoint>> {
        if let Some(fault) = request.find_fault() {
            return Err(invalid_request(request, "InvalidRequest", fault));
        }
        let bucket = request.context.bucket;
        if let Some(known) = self.endpoints.read().unwrap_or_else(PoisonError::into_inner).get(bucket) {
            return Ok(Arc::clone(known));
        }
        let resolved = self.context.rules.resolve(&self.region, bucket);
        let endpoint = Arc::new(resolved.map_err(|(code, text)| invalid_request(request, code, text))?);
        let mut endpoints = self.endpoints.write().unwrap_or_else(PoisonError::into_inner);
        if endpoints.len() >= MAX_BUCKETS {
            endpoints.clear();
        }
        endpoints.insert(bucket.to_owned(), Arc::clone(&endpoint));
        Ok(endpoint)
    }

    /// Signs a request with the present time.
    async fn sign(&self, endpoint: &BucketEndpoint, request: &Request<'_>) -> Result<SignedRequest> {
        let uri = request_uri(endpoint, request)?;
        let mut headers = request.headers.clone();
        let signed_at = self.service_time(SystemTime::now());
        if let Some(credentials) = &self.context.credentials {
            let credentials = credentials.get().await.map_err(|error| request.context.credentials_error(&error))?;
            let payload = match request.kind {
                RequestBodyKind::None => Payload::Empty,
                // A checksum covers the body already: hashing it for the signature would cost ten times as much.
                RequestBodyKind::Object if !self.context.sign_bodies => Payload::Unsigned,
                RequestBodyKind::Object | RequestBodyKind::Document => Payload::of_body(&request.body),
            };
            let input = SignatureInput { method: request.method, uri: &uri, headers: &request.headers.0, payload };
            for (name, value) in self.signer.sign(&input, &credentials, &endpoint.signing_region, signed_at) {
                headers.add(name, Some(value));
            }
        }
        headers.add("user-agent", Some(USER_AGENT.to_owned()));
        Ok(SignedRequest { uri, headers, signed_at })
    }

    fn service_time(&self, ours: SystemTime) -> SystemTime {
        let skew = self.context.skew.load(Ordering::Relaxed);
        let by = Duration::from_secs(skew.unsigned_abs());
        let theirs = if skew < 0 { ours.checked_sub(by) } else { ours.checked_add(by) };
        theirs.unwrap_or(ours)
    }

    /// Returns true when a refusal may be due to the time in the signature; later signatures then bear the service's
    /// time.
    fn update_skew(&self, headers: &Headers, signed_at: SystemTime) -> bool {
        let date = headers.get("date").and_then(|date| DateTime::from_str(date, Format::HttpDate).ok());
        let Some(theirs) = date.and_then(|date| SystemTime::try_from(date).ok()) else { return false };
        let off = theirs.duration_since(signed_at).or_else(|_| signed_at.duration_since(theirs)).unwrap_or_default();
        if off <= MIN_SKEW {
            return false;
        }
        self.context.skew.store(seconds(theirs) - seconds(SystemTime::now()), Ordering::Relaxed);
        true
    }
}

/// Address of a request.
fn request_uri(endpoint: &BucketEndpoint, request: &Request<'_>) -> Result<Uri> {
    let url = endpoint.address(request.key) + &request.query;
    url.parse()
        .map_err(|error: hyper::http::uri::InvalidUri| invalid_request(request, "InvalidRequest", error.to_string()))
}

/// Error for a request that is not sent.
fn invalid_request(request: &Request<'_>, code: &str, text: String) -> StoreError {
    request.context.error(code, None).with_message(text)
}

/// Whole seconds since the epoch.
fn seconds(time: SystemTime) -> i64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| i64::try_from(since.as_secs()).unwrap_or(i64::MAX))
}
