//! S3 and compatible services.
//!
//! One [`S3Store`] exists per endpoint and identity. It keeps a client per region. The region of a bucket is learned
//! from the first redirect, and that request is then sent once more. The time limit of a request depends on the bytes
//! that it moves. Credentials and settings are found by the AWS SDK (`connect`).

mod accept_encoding;
pub mod address;
mod client;
mod connect;
mod credentials;
mod dial;
mod encoding;
mod endpoint;
mod errors;
#[cfg(test)]
mod fuzz;
mod headers;
mod http1;
mod object_meta;
mod operations;
mod profile_files;
mod proxy;
mod reply;
mod request;
mod settings;
mod sign;
mod xml;

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use address::without_userinfo;
use client::Client;
use connect::EndpointConfig;
pub use connect::{Credentials, EndpointOptions};
use reply::WholeReply;
use request::Request;
pub use settings::ResolvedSettings;

use crate::error::Result;
use crate::error::classify::code;
use crate::error::{ErrorClass, StoreError};
use crate::throttle::ByteThrottle;

/// Store at an endpoint, used with one identity.
pub struct S3Store {
    options: EndpointOptions,
    throttle: ByteThrottle,
    state: RwLock<State>,
    /// Time of the last load of new credentials; held during a load, so that many expired requests cause one.
    reloaded: tokio::sync::Mutex<Option<Instant>>,
    /// Notes for the user on the settings, until they are taken.
    notes: Mutex<Vec<String>>,
    /// Attempts for a request, if the AWS settings name a number.
    max_attempts: Option<u32>,
    /// `Accept-Encoding` of requests for objects.
    preferred_encoding: accept_encoding::PreferredEncoding,
    /// Order of the listings under way.
    page_orders: operations::PageOrders,
    /// True while a warning is due that bodies can be changed in transit unnoticed.
    body_warning_due: AtomicBool,
}

struct State {
    base: Arc<EndpointConfig>,
    /// Clients by region.
    regions: HashMap<String, Arc<Client>>,
    /// Regions of buckets, learned from redirects.
    bucket_regions: HashMap<String, String>,
}

/// Largest number of regions, and of buckets with their region, that are remembered; above it they are learned again.
/// The bound holds against a service that names a new region each time.
const MAX_REGIONS: usize = 64;
const MAX_BUCKETS: usize = 1000;

/// Shows endpoint, region and options. The clients are left out: they hold credentials.
impl fmt::Debug for S3Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let base = Arc::clone(&self.state.read().unwrap_or_else(PoisonError::into_inner).base);
        f.debug_struct("S3Store")
            .field("endpoint", &base.endpoint.as_deref().map(without_userinfo))
            .field("region", &base.region)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

/// Expired answers that arrive within this time of a load belong to requests that were sent before it.
const RELOAD_PAUSE: Duration = Duration::from_secs(2);

impl S3Store {
    /// Resolves the options through the AWS chain; contacts no service yet. Bodies pass at the rate of this throttle.
    pub async fn connect_throttled(options: EndpointOptions, throttle: ByteThrottle) -> Self {
        let base = EndpointConfig::load(&options, throttle.clone()).await;
        let (notes, max_attempts) = (Mutex::new(base.notes.clone()), base.max_attempts);
        let body_warning_due = AtomicBool::new(base.bodies_unprotected && !options.anonymous);
        let state = State { base: Arc::new(base), regions: HashMap::new(), bucket_regions: HashMap::new() };
        let (state, reloaded) = (RwLock::new(state), tokio::sync::Mutex::default());
        Self {
            options,
            throttle,
            state,
            reloaded,
            notes,
            max_attempts,
            preferred_encoding: accept_encoding::PreferredEncoding::default(),
            page_orders: operations::PageOrders::default(),
            body_warning_due,
        }
    }

    fn client(&self, bucket: &str) -> Arc<Client> {
        {
            let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
            let region = state.bucket_regions.get(bucket).unwrap_or(&state.base.region);
            if let Some(client) = state.regions.get(region) {
                return Arc::clone(client);
            }
        }
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let region = state.bucket_regions.get(bucket).unwrap_or(&state.base.region).clone();
        let base = Arc::clone(&state.base);
        if state.regions.len() >= MAX_REGIONS && !state.regions.contains_key(&region) {
            state.regions.clear();
        }
        Arc::clone(state.regions.entry(region).or_insert_with_key(|region| Arc::new(base.client(region))))
    }

    /// True when the endpoint is AWS itself.
    fn is_aws(&self) -> bool {
        self.state.read().unwrap_or_else(PoisonError::into_inner).base.endpoint.is_none()
    }

    fn learn_region(&self, bucket: &str, region: &str) {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if state.bucket_regions.len() >= MAX_BUCKETS && !state.bucket_regions.contains_key(bucket) {
            state.bucket_regions.clear();
        }
        state.bucket_regions.insert(bucket.to_owned(), region.to_owned());
    }

    /// A request with the headers of this store's options.
    fn request<'a>(
        &self,
        method: &'static str,
        operation: &'static str,
        bucket: &'a str,
        key: Option<&'a str>,
    ) -> Request<'a> {
        let mut request = Request::new(method, operation, bucket, key);
        request.headers.add_all(self.options.headers(operation));
        request
    }

    /// Makes a request, and reads the whole reply.
    async fn call(&self, request: &Request<'_>, limit: impl Into<ReplyTimeout>) -> Result<WholeReply> {
        self.in_region(request, limit, |client| async move { client.call(request).await }).await
    }

    /// Makes a request in the region of its bucket. If another region serves the bucket, that region is remembered and
    /// the request is repeated there.
    async fn in_region<T, F>(
        &self,
        request: &Request<'_>,
        limit: impl Into<ReplyTimeout>,
        make: impl Fn(Arc<Client>) -> F,
    ) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        let (timeout, bucket) = (limit.into(), request.context.bucket);
        let timed = async |client| {
            let late = |after: Duration| {
                let error = request.context.error(code::TIMED_OUT, None);
                Err(error.with_message(format!("no answer within {} s", after.as_secs())))
            };
            let answer = self.with_timeout(timeout, make(client)).await.unwrap_or_else(late);
            answer.map_err(|error| self.add_setting_hint(error))
        };
        let client = self.client(bucket);
        let error = match timed(Arc::clone(&client)).await {
            Err(error) if error.class == ErrorClass::Redirect => error,
            other => return other,
        };
        match &error.region {
            Some(right) if *right != client.region => self.learn_region(bucket, right),
            _ => return Err(error),
        }
        timed(self.client(bucket)).await
    }

    /// Waits for the end of a request; the error is the time spent waiting.
    async fn with_timeout<T>(
        &self,
        timeout: ReplyTimeout,
        request: impl Future<Output = T>,
    ) -> std::result::Result<T, Duration> {
        let (mut request, mut spent) = (pin!(request), Duration::ZERO);
        loop {
            // The limit is read again each time, since it may have changed since the request began.
            let most = timeout.limit.saturating_add(self.throttle.extra_time(timeout.sent_bytes));
            let Some(left) = most.checked_sub(spent).filter(|left| !left.is_zero()) else { return Err(spent) };
            match tokio::time::timeout(left, &mut request).await {
                Ok(answer) => return Ok(answer),
                Err(_) => spent = most,
            }
        }
    }

    /// Adds to an error the setting to check: the profile without credentials, the address without an answer.
    fn add_setting_hint(&self, error: StoreError) -> StoreError {
        let message = match (error.code.as_str(), &self.options.profile) {
            (code::NO_CREDENTIALS, Some(profile)) => {
                let error = StoreError { code: code::NO_PROFILE_CREDENTIALS.to_owned(), ..error };
                let cause = error.message.replace("other: ", "").replace("the credential provider was not enabled", "");
                let cause = cause.trim_start_matches([':', ' ']);
                let why = if cause.is_empty() { "it names no keys, role or login" } else { cause };
                let message = format!("profile {profile:?} gives no credentials: {why}");
                return error.with_message(message);
            }
            (code::NO_CREDENTIALS, None) => match profile_files::profile_of_environment() {
                Some(profile) => {
                    let nowhere = error.message.contains("no credentials found in chain");
                    let why = if nowhere { "it is not there, or names no keys, role or login" } else { &error.message };
                    format!("profile {profile:?}, which AWS_PROFILE names, gives no credentials: {why}")
                }
                None => return error,
            },
            (code::CONNECTION_FAILED | code::TIMED_OUT | code::NOT_TRUSTED, _) => {
                let base = Arc::clone(&self.state.read().unwrap_or_else(PoisonError::into_inner).base);
                match base.endpoint.as_deref() {
                    Some(endpoint) => format!("{}: {}", without_userinfo(endpoint), error.message),
                    None => format!("AWS, region {}: {}", base.region, error.message),
                }
            }
            _ => return error,
        };
        error.with_message(message)
    }

    async fn reload_credentials(&self) {
        let mut reloaded = self.reloaded.lock().await;
        if reloaded.is_some_and(|at| at.elapsed() < RELOAD_PAUSE) {
            return;
        }
        let base = Arc::new(EndpointConfig::load(&self.options, self.throttle.clone()).await);
        {
            let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
            state.base = base;
            state.regions.clear();
        }
        *reloaded = Some(Instant::now());
    }
}

/// Longest wait for the answer to a request.
#[derive(Debug, Clone, Copy)]
struct ReplyTimeout {
    limit: Duration,
    /// Bytes to send, for which a limit of bandwidth extends the wait.
    sent_bytes: u64,
}

impl From<Duration> for ReplyTimeout {
    fn from(limit: Duration) -> Self {
        Self { limit, sent_bytes: 0 }
    }
}

impl ReplyTimeout {
    fn to_send(bytes: u64) -> Self {
        Self { limit: time_limit(bytes), sent_bytes: bytes }
    }
}

/// Longest wait for the answer to a request that moves `bytes`.
///
/// A part copy runs at 70-90 MiB/s on AWS; a busy small server may reach only 2 MiB/s. The fixed minute covers queues.
fn time_limit(bytes: u64) -> Duration {
    Duration::from_secs(60 + bytes / (2 << 20))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_request_that_a_limit_of_bandwidth_makes_slow_is_not_given_up() {
        let throttle = ByteThrottle::new(Some(1000), tokio::time::Instant::now());
        let store = S3Store::connect_throttled(EndpointOptions::default(), throttle).await;
        let takes = |seconds| tokio::time::sleep(Duration::from_secs(seconds));

        // 100 s by itself, and other requests share the limit.
        assert!(store.with_timeout(ReplyTimeout::to_send(100_000), takes(300)).await.is_ok());
        assert!(store.with_timeout(ReplyTimeout::to_send(100_000), takes(1000)).await.is_err());
        assert!(store.with_timeout(Duration::from_mins(1).into(), takes(61)).await.is_err());
    }

    #[tokio::test]
    async fn no_more_regions_are_remembered_than_a_service_can_have() {
        let options = EndpointOptions { anonymous: true, ..EndpointOptions::default() };
        let store = S3Store::connect_throttled(options, ByteThrottle::default()).await;

        for number in 0..2 * MAX_BUCKETS {
            let (bucket, region) = (format!("bucket-{number}"), format!("region-{number}"));
            store.learn_region(&bucket, &region);
            assert_eq!(store.client(&bucket).region, region);
            let state = store.state.read().unwrap();
            assert!(state.regions.len() <= MAX_REGIONS && state.bucket_regions.len() <= MAX_BUCKETS);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_limit_that_comes_meanwhile_is_waited_for() {
        let throttle = ByteThrottle::default();
        let store = S3Store::connect_throttled(EndpointOptions::default(), throttle.clone()).await;
        let request = async {
            throttle.set_rate(Some(1000));
            tokio::time::sleep(Duration::from_mins(5)).await;
        };

        assert!(store.with_timeout(ReplyTimeout::to_send(100_000), request).await.is_ok());
    }
}
