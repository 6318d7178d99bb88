//! A cache that is warmed in the background, on threads and with a budget of its own: `seqferry cache warm` is a
//! process of its own.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use seqferry_client::{Budget, BudgetLimits};
use seqferry_client::{ClientPool, EndpointSpec, RetryPolicy};
use seqferry_store::StoreError;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

use super::{DiskCache, WarmProgress, WarmReport, WarmRequest, warm};
use crate::ClientSource;

/// Threads that fetch: two serve a saturated link.
const THREADS: usize = 2;

type Task = JoinHandle<Result<WarmReport, StoreError>>;

/// A prefix that is being read into a cache.
pub struct WarmTask {
    work: Mutex<Option<(Runtime, Task)>>,
    progress: Arc<WarmProgress>,
}

impl WarmTask {
    /// Starts to read a prefix of this endpoint, which the cache knows by `name`, with at most this many bytes per
    /// second.
    ///
    /// # Errors
    /// When its threads cannot be started.
    pub fn start(
        cache: Arc<DiskCache>,
        endpoint: &EndpointSpec,
        name: String,
        request: WarmRequest,
        max_bandwidth: Option<u64>,
    ) -> io::Result<Self> {
        let runtime = Builder::new_multi_thread().enable_all().worker_threads(THREADS).build()?;
        let limits = BudgetLimits { max_bandwidth, ..BudgetLimits::default() };
        let clients = ClientPool::new(Budget::new(limits));
        let client = runtime.block_on(clients.client(endpoint, RetryPolicy::default()));
        let source = Arc::new(ClientSource::new(client.clone(), client, name));
        let progress = Arc::new(WarmProgress::default());
        let seen = Arc::clone(&progress);
        let task = runtime.spawn(async move { warm(cache, source, &request, seen).await });
        Ok(Self { work: Mutex::new(Some((runtime, task))), progress })
    }

    /// Waits for the end of the task, at most for `limit`; `None` when it continues.
    ///
    /// # Errors
    /// The outer error when the task panicked; the inner one when the prefix cannot be listed. Each is returned once.
    pub fn wait(&self, limit: Duration) -> Option<io::Result<Result<(), StoreError>>> {
        let mut work = self.work.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((runtime, task)) = work.as_mut() else { return Some(Ok(Ok(()))) };
        let ended = runtime.block_on(async { tokio::time::timeout(limit, task).await }).ok()?;
        *work = None;
        Some(ended.map(|listed| listed.map(drop)).map_err(io::Error::other))
    }

    /// Objects and bytes so far.
    pub fn report(&self) -> WarmReport {
        self.progress.report()
    }

    /// Ends it immediately.
    pub fn cancel(&self) {
        if let Some((runtime, _)) = self.work.lock().unwrap_or_else(PoisonError::into_inner).take() {
            runtime.shutdown_background();
        }
    }
}
