//! S3 and what speaks like it, through the AWS SDK.
//!
//! One [`S3Store`] per endpoint and identity. It keeps a client per region: which region serves a bucket is learned from the
//! first redirect, and that request is then sent again, once. Requests are bounded in time by the bytes they move. The SDK
//! retries nothing but a wrong clock; see `connect`.

mod connect;
mod convert;
mod requests;

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use aws_sdk_s3::Client;
use connect::Base;
pub use connect::{Credentials, EndpointOptions};

use crate::error::classify::code;
use crate::error::{ErrorClass, StoreError};
use crate::store::Result;

/// An endpoint as one identity.
#[derive(Debug)]
pub struct S3Store {
    options: EndpointOptions,
    state: RwLock<State>,
    /// When credentials were loaded last; held while they are, so that many expired requests cause one load.
    loaded: tokio::sync::Mutex<Instant>,
}

#[derive(Debug)]
struct State {
    base: Arc<Base>,
    /// By region.
    clients: HashMap<String, Client>,
    /// Learned from redirects.
    bucket_regions: HashMap<String, String>,
}

/// Expired answers that arrive within this time of a load belong to requests that were sent before it.
const RELOAD_PAUSE: Duration = Duration::from_secs(2);

impl S3Store {
    /// Resolve the options through the AWS chain; contacts no service yet.
    pub async fn connect(options: EndpointOptions) -> Self {
        let base = Arc::new(Base::load(&options).await);
        let state = State { base, clients: HashMap::new(), bucket_regions: HashMap::new() };
        Self { options, state: RwLock::new(state), loaded: tokio::sync::Mutex::new(Instant::now()) }
    }

    fn client(&self, bucket: &str) -> (Client, String) {
        {
            let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
            let region = state.bucket_regions.get(bucket).unwrap_or(&state.base.region);
            if let Some(client) = state.clients.get(region) {
                return (client.clone(), region.clone());
            }
        }
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let region = state.bucket_regions.get(bucket).unwrap_or(&state.base.region).clone();
        let base = Arc::clone(&state.base);
        let client = state.clients.entry(region.clone()).or_insert_with(|| base.client(&region)).clone();
        (client, region)
    }

    /// Make a request; when the answer is that another region serves the bucket, learn that and make it there.
    async fn at_home<T, F, Fut>(&self, bucket: &str, limit: Duration, request: F) -> Result<T>
    where
        F: Fn(Client) -> Fut,
        Fut: Future<Output = Result<T>>,
    {
        let (client, region) = self.client(bucket);
        let error = match timed(bucket, limit, request(client)).await {
            Err(error) if error.class == ErrorClass::Redirect => error,
            other => return other,
        };
        match &error.region {
            Some(right) if *right != region => {
                let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
                state.bucket_regions.insert(bucket.to_owned(), right.clone());
            }
            _ => return Err(error),
        }
        let (client, _) = self.client(bucket);
        timed(bucket, limit, request(client)).await
    }

    async fn reload(&self) {
        let mut loaded = self.loaded.lock().await;
        if loaded.elapsed() < RELOAD_PAUSE {
            return;
        }
        let base = Arc::new(Base::load(&self.options).await);
        {
            let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
            state.base = base;
            state.clients.clear();
        }
        *loaded = Instant::now();
    }
}

async fn timed<T>(bucket: &str, limit: Duration, request: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::time::timeout(limit, request).await.unwrap_or_else(|_| {
        let error = StoreError::new("Request", bucket, None, code::TIMED_OUT, None);
        Err(error.with_message(format!("no answer within {} s", limit.as_secs())))
    })
}

/// How long to wait for the answer to a request that moves so many bytes.
///
/// A part copy runs at 70-90 MiB/s on AWS; 2 MiB/s is what a busy small server may still do. The fixed minute covers queues.
fn time_limit(bytes: u64) -> Duration {
    Duration::from_secs(60 + bytes / (2 << 20))
}
