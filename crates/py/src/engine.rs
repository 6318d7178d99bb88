//! The process-wide engine: one runtime, one budget, one store per endpoint and identity.

use std::sync::{Arc, Mutex};

use futures::stream::{StreamExt as _, TryStreamExt as _};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use seqferry_client::list::{self, Listing as ListingOptions};
use seqferry_client::{
    Connection, ConnectionCache, Lease, LeaseHolder, RequestError, RequestMetrics, RequestSpec, RetryContext,
    RetryPolicy, RetryingClient,
};
use seqferry_store::{Budget, BudgetLimits, ErrorClass};
use seqferry_transfer as transfer;
use seqferry_transfer::remove::remove;
use tokio::runtime::{Handle, Runtime};
use tokio_util::sync::CancellationToken;

use crate::job::Job;
use crate::listing::Listing;
use crate::values::{CopyItem, CopyPolicy, Endpoint, ObjectInfo, Reached, interrupted};

/// HEAD requests of one `head` call that may wait at a time; the budget decides how many are under way.
const HEADS: usize = 256;
/// Endpoints and identities to which connections are kept while nobody uses them.
const IDLE_CONNECTIONS: usize = 64;
/// Runs of a listing.
const RUNS: usize = 16;

#[pyclass(frozen, module = "seqferry._native")]
pub struct Engine {
    runtime: Handle,
    threads: Option<Runtime>,
    budget: Arc<Budget>,
    counters: Arc<RequestMetrics>,
    lease: Arc<Lease>,
    connections: ConnectionCache<Reached>,
    pid: Mutex<u32>,
}

#[pyclass(frozen, get_all, module = "seqferry._native")]
pub struct EngineStats {
    requests: u64,
    in_flight: u64,
    throttled: u64,
    hedges: u64,
    max_requests: u64,
    max_bandwidth: Option<u64>,
}

impl Drop for Engine {
    /// Nobody asks for anything any more. To wait for each thread to end would take a tenth of a second at the end of a command.
    fn drop(&mut self) {
        if let Some(threads) = self.threads.take() {
            threads.shutdown_background();
        }
    }
}

impl Engine {
    async fn connection(&self, options: &Reached) -> Connection {
        self.connections.get(options, || options.connect(self.budget.pace())).await
    }

    async fn requests(&self, options: &Reached, policy: RetryPolicy) -> RetryingClient {
        let connection = self.connection(options).await;
        RetryingClient::new(
            connection,
            Arc::clone(&self.budget),
            policy,
            CancellationToken::new(),
            Arc::clone(&self.counters),
        )
    }

    fn holder(&self, epoch: Option<u64>) -> Option<Arc<LeaseHolder>> {
        epoch.map(|epoch| Arc::new(LeaseHolder::new(Arc::clone(&self.lease), epoch)))
    }

    /// A forked child has the memory but not the threads of the runtime: calls would hang for ever.
    fn here(&self) -> PyResult<()> {
        let pid = *self.pid.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if pid == std::process::id() {
            return Ok(());
        }
        Err(PyRuntimeError::new_err("this engine was made in another process; make one after forking"))
    }
}

/// No huge pages for this process: thousands of requests in flight hold some kilobytes each here and there, and in pages of
/// 2 MiB those that have gone leave holes that stay resident (364 instead of 285 MiB with 3,000 small copies in flight).
fn keep_pages_small() {
    // Where it cannot be said, more memory is used and nothing else changes.
    #[cfg(target_os = "linux")]
    let _best_effort = rustix::thread::disable_transparent_huge_pages(true);
}

#[pymethods]
impl Engine {
    #[new]
    #[pyo3(signature = (*, max_requests=10_000, memory=268_435_456, max_bandwidth=None, threads=None))]
    fn new(max_requests: usize, memory: u64, max_bandwidth: Option<u64>, threads: Option<usize>) -> PyResult<Self> {
        keep_pages_small();
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.enable_all().thread_name("seqferry-engine");
        // More threads cost more CPU per request; a second one takes over when Python is busy on the first core.
        builder.worker_threads(threads.unwrap_or(2).max(1));
        let threads = builder
            .build()
            .map_err(|e| PyRuntimeError::new_err(format!("the engine's threads cannot be started: {e}")))?;
        let budget = Budget::new(BudgetLimits { max_requests, memory, max_bandwidth });
        Ok(Self {
            runtime: threads.handle().clone(),
            threads: Some(threads),
            budget,
            counters: Arc::default(),
            lease: Arc::default(),
            connections: ConnectionCache::new(IDLE_CONNECTIONS),
            pid: Mutex::new(std::process::id()),
        })
    }

    fn check_bucket(&self, py: Python<'_>, endpoint: &Endpoint, bucket: &str) -> PyResult<()> {
        self.here()?;
        py.detach(|| {
            self.runtime.block_on(async {
                let requests = self.requests(&endpoint.0, RetryPolicy::impatient()).await;
                let check = async || {
                    requests
                        .call(RequestSpec::read("HeadBucket", bucket), &RetryContext::default(), async |store| {
                            store.head_bucket(bucket).await
                        })
                        .await
                };
                match check().await {
                    // They may have been put right since this process has read them.
                    Err(RequestError::Failed(error)) if error.is_about_credentials() => {
                        if self.connection(&endpoint.0).await.store.refresh_credentials().await.is_err() {
                            return Err(error.into());
                        }
                        check().await
                    }
                    other => other,
                }
            })
        })
        .map_err(|error| interrupted(&error))
    }

    fn head(
        &self,
        py: Python<'_>,
        endpoint: &Endpoint,
        bucket: &str,
        keys: Vec<String>,
    ) -> PyResult<Vec<Option<ObjectInfo>>> {
        self.here()?;
        let found = py.detach(|| {
            self.runtime.block_on(async {
                let requests = self.requests(&endpoint.0, RetryPolicy::impatient()).await;
                let head = |key: String| {
                    let requests = requests.clone();
                    async move {
                        let answer = requests
                            .call(RequestSpec::read("HeadObject", bucket), &RetryContext::default(), async |store| {
                                store.head(bucket, &key, None, None).await
                            })
                            .await;
                        match answer {
                            Ok(meta) => Ok(Some(ObjectInfo::of_head(key, meta))),
                            Err(RequestError::Failed(error)) if error.is_of_no_object() => {
                                Ok(Some(ObjectInfo::of_none(key, error)))
                            }
                            Err(RequestError::Failed(error)) if error.class == ErrorClass::NotFound => Ok(None),
                            Err(error) => Err(error),
                        }
                    }
                };
                futures::stream::iter(keys).map(head).buffered(HEADS).try_collect::<Vec<_>>().await
            })
        });
        found.map_err(|error| interrupted(&error))
    }

    #[pyo3(signature = (endpoint, bucket, objects, *, epoch=None))]
    fn delete(
        &self,
        py: Python<'_>,
        endpoint: &Endpoint,
        bucket: &str,
        objects: Vec<(String, Option<String>)>,
        epoch: Option<u64>,
    ) -> PyResult<Vec<String>> {
        self.here()?;
        let holder = self.holder(epoch);
        let kept = py.detach(|| {
            self.runtime.block_on(async {
                let requests = self.requests(&endpoint.0, RetryPolicy::default()).await;
                let requests = match holder {
                    Some(holder) => requests.leased_or_failed(holder),
                    None => requests,
                };
                remove(&requests, bucket, objects).await
            })
        });
        kept.map_err(|error| interrupted(&error))
    }

    #[pyo3(signature = (endpoint, bucket, prefix, *, limit=None))]
    fn list(
        &self,
        py: Python<'_>,
        endpoint: &Endpoint,
        bucket: &str,
        prefix: &str,
        limit: Option<usize>,
    ) -> PyResult<Listing> {
        self.here()?;
        let options = ListingOptions { bucket: bucket.to_owned(), prefix: prefix.to_owned(), parallel: RUNS, limit };
        let pages = py.detach(|| {
            self.runtime
                .block_on(async { list::list(self.requests(&endpoint.0, RetryPolicy::default()).await, options) })
        });
        Ok(Listing { runtime: self.runtime.clone(), pages: Mutex::new(Some(pages)) })
    }

    #[staticmethod]
    fn lease_clock() -> i64 {
        seqferry_client::lease::now()
    }

    fn lease(&self, until: i64, epoch: u64) {
        self.lease.set(until, epoch);
    }

    #[pyo3(signature = (policy, items, *, epoch=None))]
    fn start(
        &self,
        py: Python<'_>,
        policy: &CopyPolicy,
        items: Vec<PyRef<'_, CopyItem>>,
        epoch: Option<u64>,
    ) -> PyResult<Job> {
        self.here()?;
        let holder = self.holder(epoch);
        let items = items.iter().map(|item| item.0.clone()).collect();
        Ok(py.detach(|| {
            let (source, target) = self
                .runtime
                .block_on(async { (self.connection(&policy.source).await, self.connection(&policy.target).await) });
            Job(transfer::Job::start_leased(
                &self.runtime,
                &self.budget,
                source,
                target,
                policy.policy.clone(),
                RetryPolicy::default(),
                items,
                holder,
            ))
        }))
    }

    #[pyo3(signature = (*, max_requests=None, max_bandwidth=None))]
    fn retune(&self, max_requests: Option<usize>, max_bandwidth: Option<u64>) {
        self.budget.retune(max_requests, max_bandwidth.map(Some));
    }

    fn stats(&self) -> EngineStats {
        let stats = self.budget.stats();
        EngineStats {
            requests: stats.requests,
            in_flight: stats.in_flight as u64,
            throttled: stats.throttled,
            hedges: stats.hedges,
            max_requests: stats.max_requests as u64,
            max_bandwidth: stats.max_bandwidth,
        }
    }
}
