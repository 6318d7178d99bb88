//! The engine of a process: threads, budget, connections and lease, behind calls that block.
//!
//! A process has one engine. Callers are threads that the engine does not own, such as those of Python. The engine
//! keeps no state of an object between calls.

mod buckets;

use std::fs::File;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use seqferry_client::budget::BudgetStats;
use seqferry_client::list::{self, Page};
use seqferry_client::metrics::{Family, snapshot};
use seqferry_client::upload::abort_once;
use seqferry_client::{Budget, BudgetLimits};
use seqferry_client::{
    ClientPool, EndpointSpec, KeyLookup, LookupResult, RequestError, RetryContext, RetryPolicy, RetryingClient,
    RuntimeProbe,
};
use seqferry_store::prelude::*;
use seqferry_store::{ListPage, ListRequest, ListedObject, UploadRef};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::mpsc::Receiver;
use tokio_util::sync::CancellationToken;

use crate::LONGEST_WAIT;
use crate::content_digest::{ContentDigests, DigestRequest};
use crate::job::{Job, JobSpec};
use crate::location_job::LocationOptions;
use crate::object::{JobItem, Policy};
use crate::pack::PackOptions;
use crate::pipe::{InputOptions, InputTarget, OutputSource, Pipe, store_input, write_output};
use crate::remove::remove;
use crate::restore::restore;
use crate::schedule::Scheduler;
use crate::unpack::{self, ArchiveCheck, ArchiveRef, ArchiveScan, ScanOptions, WindowPool};
use crate::verify_job::VerifyOptions;

/// Threads of the runtime. More threads cost more CPU per request; the second takes over when a caller is busy on the
/// first core.
const THREADS: usize = 2;

/// See the module.
#[derive(Debug)]
pub struct Engine {
    runtime: Handle,
    /// Some until the engine is dropped.
    threads: Option<Runtime>,
    pool: ClientPool,
    scheduler: Arc<Scheduler>,
    windows: Arc<WindowPool>,
}

/// Location of a job that copies nothing.
#[derive(Debug)]
pub struct JobLocation<'a> {
    /// Its service, or the disk.
    pub endpoint: &'a EndpointSpec,
    /// Bucket of the objects.
    pub bucket: String,
    /// Prefix of their keys.
    pub prefix: String,
    /// Flow for fair queueing, see [`Policy::transfer`].
    pub transfer: String,
    /// True to process nothing: every object ends as cancelled.
    pub only_clean: bool,
}

impl<'a> JobLocation<'a> {
    /// Creates the request for a job at this location. See [`JobRequest::epoch`].
    pub fn request(self, items: Vec<JobItem>, epoch: Option<u64>) -> JobRequest<'a> {
        let Self { endpoint, bucket, prefix, transfer, only_clean } = self;
        let policy = Policy {
            transfer,
            source_bucket: bucket.clone(),
            target_bucket: bucket,
            source_prefix: prefix.clone(),
            target_prefix: prefix,
            only_clean,
            ..Policy::default()
        };
        JobRequest { source: endpoint, target: endpoint, policy, items, epoch }
    }
}

/// Parameters of a job of any kind.
#[derive(Debug)]
pub struct JobRequest<'a> {
    /// Service of the source, or the disk.
    pub source: &'a EndpointSpec,
    /// Service of the target, or the disk.
    pub target: &'a EndpointSpec,
    /// Rules that apply to all items.
    pub policy: Policy,
    /// Its objects.
    pub items: Vec<JobItem>,
    /// Epoch of the lease: the job writes only within it. None: it may write at any time.
    pub epoch: Option<u64>,
}

/// Statistics of the requests of an engine since it was made.
#[derive(Debug, Clone)]
pub struct EngineStats {
    /// All requests together.
    pub budget: BudgetStats,
    /// All metrics, by prefix class and operation.
    pub metrics: Vec<Family>,
}

impl Drop for Engine {
    /// Shuts the runtime down in the background: waiting for each thread would take a tenth of a second at the end of a
    /// command.
    fn drop(&mut self) {
        self.windows.clear();
        if let Some(threads) = self.threads.take() {
            threads.shutdown_background();
        }
    }
}

impl Engine {
    /// An engine within these limits, with so many threads (None: as many as serve best).
    ///
    /// # Errors
    /// When its threads cannot be started.
    pub fn new(limits: BudgetLimits, threads: Option<usize>) -> io::Result<Self> {
        disable_huge_pages();
        let mut builder = Builder::new_multi_thread();
        builder.enable_all().thread_name("seqferry-engine").worker_threads(threads.unwrap_or(THREADS).max(1));
        let threads = builder.build()?;
        let pool = ClientPool::new(Budget::new(limits));
        let windows = WindowPool::new(pool.budget());
        let scheduler = Scheduler::new(Arc::clone(pool.budget()));
        Ok(Self { runtime: threads.handle().clone(), threads: Some(threads), pool, scheduler, windows })
    }

    /// Checks that a bucket is there and may be used.
    ///
    /// # Errors
    /// When it is not, or the service cannot be reached. Few retries are made, since the user waits for the answer.
    pub fn check_bucket(&self, endpoint: &EndpointSpec, bucket: &str) -> Result<(), RequestError> {
        self.runtime.block_on(async {
            let client = self.pool.client(endpoint, RetryPolicy::impatient()).await;
            client.check_bucket(bucket).await
        })
    }

    /// Looks up each of these keys; the results are in their order.
    ///
    /// # Errors
    /// The first failure but for absence.
    pub fn look_up(
        &self,
        endpoint: &EndpointSpec,
        bucket: &str,
        keys: Vec<String>,
    ) -> Result<Vec<(String, KeyLookup)>, RequestError> {
        self.runtime.block_on(async {
            let client = self.pool.client(endpoint, RetryPolicy::impatient()).await;
            client.look_up(bucket, keys).await
        })
    }

    /// Looks up each of these keys as [`Self::look_up`] does, with a result for each; with as many
    /// retries as a transfer makes.
    ///
    /// # Errors
    /// A failure that applies to every key.
    pub fn look_up_each(
        &self,
        endpoint: &EndpointSpec,
        bucket: &str,
        keys: Vec<String>,
    ) -> Result<Vec<LookupResult>, RequestError> {
        self.runtime.block_on(async {
            let client = self.pool.client(endpoint, RetryPolicy::default()).await;
            client.look_up_each(bucket, keys).await
        })
    }

    /// Removes these keys, those with an `ETag` only while they have it; returns the keys that have another `ETag` now.
    /// With an epoch, removals outside that epoch of the lease fail immediately.
    ///
    /// # Errors
    /// The first failure; removals under way come to their end.
    pub fn remove(
        &self,
        endpoint: &EndpointSpec,
        bucket: &str,
        objects: Vec<(String, Option<String>)>,
        epoch: Option<u64>,
    ) -> Result<Vec<String>, RequestError> {
        self.runtime.block_on(async {
            let client = self.pool.client(endpoint, RetryPolicy::default()).await;
            let client = match epoch {
                Some(epoch) => client.with_lease_or_failure(self.pool.lease_holder(epoch)),
                None => client,
            };
            remove(&client, bucket, objects).await
        })
    }

    /// Begins to list everything below a prefix.
    pub fn list(&self, endpoint: &EndpointSpec, listing: list::ListingScope) -> Listing {
        let pages = self
            .runtime
            .block_on(async { list::list(self.pool.client(endpoint, RetryPolicy::default()).await, listing) });
        Listing { runtime: self.runtime.clone(), pages: Mutex::new(Some(pages)) }
    }

    /// One page of a listing, in the service's order.
    ///
    /// # Errors
    /// When the request fails. A first page has few retries, since a user may wait for it.
    pub fn list_page(&self, endpoint: &EndpointSpec, request: &ListRequest) -> Result<ListPage, RequestError> {
        self.runtime.block_on(async {
            let first = request.continuation.is_none();
            let policy = if first { RetryPolicy::impatient() } else { RetryPolicy::default() };
            let client = self.pool.client(endpoint, policy).await.within(&request.prefix);
            client.list_page(request).await
        })
    }

    /// Begins to copy. `layer` wraps the store of the source, for example with a cache.
    pub fn start(
        &self,
        request: JobRequest<'_>,
        layer: impl FnOnce(Arc<dyn ObjectStore>) -> Arc<dyn ObjectStore>,
    ) -> Job {
        let mut spec = self.job_spec(request);
        spec.source = spec.source.over(layer);
        Job::start(&self.runtime, &self.scheduler, spec)
    }

    /// Begins to pack into one archive. See [`Job::start_pack`].
    pub fn start_pack(&self, request: JobRequest<'_>, options: PackOptions) -> Job {
        Job::start_pack(&self.runtime, &self.scheduler, self.job_spec(request), options)
    }

    /// Begins to copy members of an archive at the source: the version of an item is its location in the archive.
    pub fn start_members(&self, request: JobRequest<'_>, archive: &ArchiveRef) -> Job {
        let mut spec = self.job_spec(request);
        let endpoints = (spec.source, spec.target);
        (spec.source, spec.target) =
            unpack::endpoints(archive, &self.windows, endpoints, &mut spec.policy, &mut spec.items);
        Job::start(&self.runtime, &self.scheduler, spec)
    }

    /// Begins to remove. See [`Job::start_remove`].
    pub fn start_remove(&self, request: JobRequest<'_>, options: LocationOptions) -> Job {
        Job::start_remove(&self.runtime, &self.scheduler, self.job_spec(request), options)
    }

    /// Begins to abort open uploads. See [`Job::start_abort`].
    pub fn start_abort(&self, request: JobRequest<'_>) -> Job {
        Job::start_abort(&self.runtime, &self.scheduler, self.job_spec(request))
    }

    /// Begins to compare objects with their records. See [`Job::start_verify`].
    pub fn start_verify(&self, request: JobRequest<'_>, options: VerifyOptions) -> Job {
        Job::start_verify(&self.runtime, &self.scheduler, self.job_spec(request), options)
    }

    fn job_spec(&self, request: JobRequest<'_>) -> JobSpec {
        let JobRequest { source, target, policy, items, epoch } = request;
        let connections = async { (self.pool.connection(source).await, self.pool.connection(target).await) };
        let (source, target) = self.runtime.block_on(connections);
        let lease = epoch.map(|epoch| self.pool.lease_holder(epoch));
        JobSpec { source, target, policy, retry: RetryPolicy::default(), items, lease }
    }

    /// Begins to write an object, or a range of it, to `sink`.
    pub fn write_output(&self, endpoint: &EndpointSpec, source: OutputSource, sink: File) -> Pipe {
        let (client, cancel) = self.cancellable(endpoint);
        Pipe::start(&self.runtime, cancel, |gone| write_output(client, source, sink, gone))
    }

    /// Begins to store what comes out of `source`, to its end.
    pub fn store_input(
        &self,
        endpoint: &EndpointSpec,
        target: InputTarget,
        options: InputOptions,
        source: File,
    ) -> Pipe {
        let (client, cancel) = self.cancellable(endpoint);
        Pipe::start(&self.runtime, cancel, |gone| store_input(client, target, options, source, gone))
    }

    fn cancellable(&self, endpoint: &EndpointSpec) -> (RetryingClient, CancellationToken) {
        let cancel = CancellationToken::new();
        let client = self.pool.client_until(endpoint, RetryPolicy::default(), cancel.clone());
        (self.runtime.block_on(client), cancel)
    }

    /// Returns for each key whether it can be read now; asks for readable copies of archived objects.
    ///
    /// # Errors
    /// The first failure.
    pub fn restore(
        &self,
        endpoint: &EndpointSpec,
        bucket: &str,
        keys: Vec<String>,
        days: u32,
        tier: &str,
    ) -> Result<Vec<bool>, RequestError> {
        self.runtime.block_on(async {
            let client = self.pool.client(endpoint, RetryPolicy::default()).await;
            restore(&client, bucket, keys, days, tier).await
        })
    }

    /// Aborts an upload. An upload that does not exist counts as aborted.
    ///
    /// # Errors
    /// When the service refuses.
    pub fn abort_upload(&self, endpoint: &EndpointSpec, upload: UploadRef<'_>) -> Result<(), RequestError> {
        self.runtime.block_on(async {
            let client = self.pool.client(endpoint, RetryPolicy::impatient()).await;
            abort_once(&client, &RetryContext::default(), upload).await.map(drop)
        })
    }

    /// Begins to read these objects and to compute a digest over each.
    pub fn read_digests(&self, endpoint: &EndpointSpec, requests: Vec<DigestRequest>) -> ContentDigests {
        let (client, _cancel) = self.cancellable(endpoint);
        ContentDigests::start(&self.runtime, client, requests)
    }

    /// Begins to check an archive against its index.
    pub fn check_archive(&self, endpoint: &EndpointSpec, archive: ArchiveRef, options: ScanOptions) -> ArchiveCheck {
        let client = self.runtime.block_on(self.pool.client(endpoint, RetryPolicy::default()));
        ArchiveCheck::start(&self.runtime, client, archive, options)
    }

    /// Begins to read the members of an archive. With `retain`, the bytes read are kept for jobs over these members
    /// that begin soon, as far as memory allows.
    pub fn scan_archive(
        &self,
        endpoint: &EndpointSpec,
        archive: ArchiveRef,
        options: ScanOptions,
        retain: bool,
    ) -> ArchiveScan {
        let client = self.runtime.block_on(self.pool.client(endpoint, RetryPolicy::default()));
        let pool = retain.then(|| Arc::clone(&self.windows));
        ArchiveScan::start(&self.runtime, client, archive, options, pool)
    }

    /// Writes the index beside an archive, from its headers; returns the number of members.
    ///
    /// # Errors
    /// See [`index_archive`](crate::unpack::index_archive).
    pub fn index_archive(&self, endpoint: &EndpointSpec, archive: ArchiveRef) -> Result<u64, RequestError> {
        self.runtime.block_on(async {
            let client = self.pool.client(endpoint, RetryPolicy::default()).await;
            crate::unpack::index_archive(client, archive).await
        })
    }

    /// Sets the end of the lease to `until`, in nanoseconds by [`now`](seqferry_client::lease::now). Another epoch
    /// stops the writes of all jobs that are not admitted to it.
    pub fn set_lease(&self, until: i64, epoch: u64) {
        self.pool.lease().set(until, epoch);
    }

    /// Sets the limits. None leaves a limit unchanged. Bandwidth is in bytes per second.
    pub fn set_limits(&self, max_requests: Option<usize>, max_bandwidth: Option<u64>) {
        self.pool.budget().retune(max_requests, max_bandwidth.map(Some));
    }

    /// Sets the largest number of requests started per second; None removes the limit.
    pub fn set_request_rate(&self, per_second: Option<u32>) {
        self.pool.budget().limit_starts(per_second);
    }

    /// Reports whether a new task runs within some time: see [`RuntimeProbe::answers`].
    pub fn is_responsive(&self, within: Duration) -> bool {
        RuntimeProbe::new(&self.runtime).answers(within)
    }

    /// Statistics of all requests of the process.
    pub fn stats(&self) -> EngineStats {
        let budget = self.pool.budget();
        EngineStats { budget: budget.stats(), metrics: snapshot(budget) }
    }
}

/// A listing under way.
#[derive(Debug)]
pub struct Listing {
    runtime: Handle,
    /// Receiver of the pages; None once closed.
    pages: Mutex<Option<Receiver<Page>>>,
}

impl Listing {
    /// Returns the next page: empty when none came in time, None after the last. A minute is the longest wait.
    ///
    /// # Errors
    /// When the listing failed, which also closes it.
    pub fn next(&self, timeout: Duration) -> Result<Option<Vec<ListedObject>>, RequestError> {
        let mut pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(receiver) = pages.as_mut() else { return Ok(None) };
        let timeout = timeout.min(LONGEST_WAIT);
        let page = self.runtime.block_on(async { tokio::time::timeout(timeout, receiver.recv()).await });
        match page {
            Err(_elapsed) => Ok(Some(Vec::new())),
            Ok(None) => Ok(None),
            Ok(Some(Ok(objects))) => Ok(Some(objects)),
            Ok(Some(Err(error))) => {
                *pages = None;
                Err(error)
            }
        }
    }

    /// Stops the listing.
    pub fn close(&self) {
        *self.pages.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// Disables huge pages for this process. Thousands of requests in flight hold some kilobytes each, scattered over the
/// memory. In pages of 2 MiB the freed ones leave holes that stay resident (364 instead of 285 MiB with 3,000 small
/// copies in flight).
fn disable_huge_pages() {
    // Best effort: a failure only costs memory.
    #[cfg(target_os = "linux")]
    let _best_effort = rustix::thread::disable_transparent_huge_pages(true);
}
