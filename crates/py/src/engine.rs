//! The process-wide engine, as Python sees it.

use std::process;
use std::time::Duration;

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use seqferry_client::BudgetLimits;
use seqferry_client::list;
use seqferry_store::ListRequest;
use seqferry_transfer::unpack::ArchiveRef;
use seqferry_transfer::{JobRequest, LocationOptions, PackOptions, VerifyOptions};
use seqferry_vfs::disk_cache::SourceCache;

use crate::cache::DiskCache;
use crate::failure::Failure;
use crate::job::{Job, PyJobPlace};
use crate::listing::Listing;
use crate::recorded::RecordedObjects;
use crate::stats::EngineStats;
use crate::unpack::{ArchiveCheck, ArchiveScan, ScanOptions};
use crate::values::{CopyItem, CopyPolicy, ObjectInfo, PyEndpoint, request_error};

#[pyclass(frozen, module = "seqferry._native")]
pub struct Engine {
    engine: seqferry_transfer::Engine,
    pid: u32,
}

impl Engine {
    /// A forked child has the memory but not the threads of the runtime: calls would hang forever.
    pub(crate) fn here(&self) -> PyResult<&seqferry_transfer::Engine> {
        if self.pid == process::id() {
            return Ok(&self.engine);
        }
        Err(PyRuntimeError::new_err("this engine was made in another process; make one after forking"))
    }

    /// Begins a job without a cache.
    fn begin(
        &self,
        py: Python<'_>,
        request: JobRequest<'_>,
        start: impl FnOnce(&seqferry_transfer::Engine, JobRequest<'_>) -> seqferry_transfer::Job + Send,
    ) -> PyResult<Job> {
        let engine = self.here()?;
        Ok(Job { running: py.detach(|| start(engine, request)), cache: SourceCache::default() })
    }
}

#[pymethods]
impl Engine {
    #[new]
    #[pyo3(signature = (*, max_requests=None, memory=None, max_bandwidth=None, threads=None))]
    fn new(
        max_requests: Option<usize>,
        memory: Option<u64>,
        max_bandwidth: Option<u64>,
        threads: Option<usize>,
    ) -> PyResult<Self> {
        let defaults = BudgetLimits::default();
        let limits = BudgetLimits {
            max_requests: max_requests.unwrap_or(defaults.max_requests),
            memory: memory.unwrap_or(defaults.memory),
            max_bandwidth,
        };
        let engine = seqferry_transfer::Engine::new(limits, threads)
            .map_err(|e| PyRuntimeError::new_err(format!("the engine's threads cannot be started: {e}")))?;
        Ok(Self { engine, pid: process::id() })
    }

    fn check_bucket(&self, py: Python<'_>, endpoint: &PyEndpoint, bucket: &str) -> PyResult<()> {
        let engine = self.here()?;
        py.detach(|| engine.check_bucket(&endpoint.0, bucket)).map_err(|error| request_error(&error))
    }

    fn head(
        &self,
        py: Python<'_>,
        endpoint: &PyEndpoint,
        bucket: &str,
        keys: Vec<String>,
    ) -> PyResult<Vec<Option<ObjectInfo>>> {
        let engine = self.here()?;
        let found = py.detach(|| engine.look_up(&endpoint.0, bucket, keys)).map_err(|error| request_error(&error))?;
        Ok(found.into_iter().map(|(key, found)| ObjectInfo::of(key, found)).collect())
    }

    #[allow(clippy::type_complexity)] // a pair: the object, or the failure
    fn head_each(
        &self,
        py: Python<'_>,
        endpoint: &PyEndpoint,
        bucket: &str,
        keys: Vec<String>,
    ) -> PyResult<Vec<(Option<ObjectInfo>, Option<Failure>)>> {
        let engine = self.here()?;
        let found =
            py.detach(|| engine.look_up_each(&endpoint.0, bucket, keys)).map_err(|error| request_error(&error))?;
        let outcome = |(key, found)| match found {
            Ok(found) => (ObjectInfo::of(key, found), None),
            Err(error) => (None, Some(Failure::from(&error))),
        };
        Ok(found.into_iter().map(outcome).collect())
    }

    #[pyo3(signature = (endpoint, bucket, objects, *, epoch=None))]
    fn delete(
        &self,
        py: Python<'_>,
        endpoint: &PyEndpoint,
        bucket: &str,
        objects: Vec<(String, Option<String>)>,
        epoch: Option<u64>,
    ) -> PyResult<Vec<String>> {
        let engine = self.here()?;
        py.detach(|| engine.remove(&endpoint.0, bucket, objects, epoch)).map_err(|error| request_error(&error))
    }

    #[pyo3(signature = (endpoint, bucket, prefix, *, limit=None, transfer=""))]
    fn list(
        &self,
        py: Python<'_>,
        endpoint: &PyEndpoint,
        bucket: &str,
        prefix: &str,
        limit: Option<usize>,
        transfer: &str,
    ) -> PyResult<Listing> {
        let engine = self.here()?;
        let listing =
            list::ListingScope { limit, transfer: transfer.to_owned(), ..list::ListingScope::new(bucket, prefix) };
        Ok(Listing(py.detach(|| engine.list(&endpoint.0, listing))))
    }

    #[pyo3(signature = (endpoint, bucket, prefix, *, delimiter=None, start_after=None, continuation=None,
                        max_keys=None))]
    #[allow(clippy::too_many_arguments, clippy::type_complexity)] // keyword arguments, one fact each
    fn list_page(
        &self,
        py: Python<'_>,
        endpoint: &PyEndpoint,
        bucket: String,
        prefix: String,
        delimiter: Option<String>,
        start_after: Option<String>,
        continuation: Option<String>,
        max_keys: Option<i32>,
    ) -> PyResult<(Vec<ObjectInfo>, Vec<String>, Option<String>)> {
        let engine = self.here()?;
        let request = ListRequest { bucket, prefix, delimiter, start_after, continuation, max_keys };
        let page = py.detach(|| engine.list_page(&endpoint.0, &request)).map_err(|error| request_error(&error))?;
        let objects = page.objects.into_iter().map(ObjectInfo::from).collect();
        Ok((objects, page.common_prefixes, page.continuation))
    }

    #[staticmethod]
    fn lease_clock() -> i64 {
        seqferry_client::lease::now()
    }

    #[staticmethod]
    fn arm_crash(name: &str, visit: u64) -> bool {
        seqferry_store::crash_point::arm(name, visit)
    }

    fn lease(&self, until: i64, epoch: u64) {
        self.engine.set_lease(until, epoch);
    }

    #[pyo3(signature = (policy, items, *, epoch=None, cache=None))]
    fn start(
        &self,
        py: Python<'_>,
        policy: &CopyPolicy,
        items: Vec<PyRef<'_, CopyItem>>,
        epoch: Option<u64>,
        cache: Option<(PyRef<'_, DiskCache>, String)>,
    ) -> PyResult<Job> {
        let cache = SourceCache::new(cache.map(|(cache, endpoint)| (cache.shared(), endpoint)));
        let job = self.begin(py, policy.request(&items, epoch), |engine, request| {
            engine.start(request, |store| cache.over(store))
        })?;
        Ok(Job { cache, ..job })
    }

    #[pyo3(signature = (policy, archive, items, *, epoch=None))]
    fn start_members(
        &self,
        py: Python<'_>,
        policy: &CopyPolicy,
        archive: String,
        items: Vec<PyRef<'_, CopyItem>>,
        epoch: Option<u64>,
    ) -> PyResult<Job> {
        let archive = ArchiveRef { bucket: policy.policy.source_bucket.clone(), key: archive };
        self.begin(py, policy.request(&items, epoch), |engine, request| engine.start_members(request, &archive))
    }

    #[pyo3(signature = (place, items, *, careful=false, stop_at_failure=false, fail_at_lapse=false, epoch=None))]
    #[allow(clippy::too_many_arguments, clippy::fn_params_excessive_bools)] // keyword arguments, one fact each
    fn start_remove(
        &self,
        py: Python<'_>,
        place: &PyJobPlace,
        items: Vec<PyRef<'_, CopyItem>>,
        careful: bool,
        stop_at_failure: bool,
        fail_at_lapse: bool,
        epoch: Option<u64>,
    ) -> PyResult<Job> {
        let options = LocationOptions { check_first: careful, stop_at_failure, fail_at_lapse };
        let request = place.request(CopyItem::all(&items), epoch);
        self.begin(py, request, |engine, request| engine.start_remove(request, options))
    }

    #[pyo3(signature = (place, items, *, epoch=None))]
    fn start_abort(
        &self,
        py: Python<'_>,
        place: &PyJobPlace,
        items: Vec<PyRef<'_, CopyItem>>,
        epoch: Option<u64>,
    ) -> PyResult<Job> {
        let request = place.request(CopyItem::all(&items), epoch);
        self.begin(py, request, seqferry_transfer::Engine::start_abort)
    }

    #[pyo3(signature = (place, objects, *, content=false, archives=false, epoch=None))]
    fn start_verify(
        &self,
        py: Python<'_>,
        place: &PyJobPlace,
        objects: &RecordedObjects,
        content: bool,
        archives: bool,
        epoch: Option<u64>,
    ) -> PyResult<Job> {
        let options = VerifyOptions { content, archives };
        let request = place.request(objects.0.clone(), epoch);
        self.begin(py, request, |engine, request| engine.start_verify(request, options))
    }

    fn check_archive(
        &self,
        py: Python<'_>,
        endpoint: &PyEndpoint,
        bucket: String,
        key: String,
        options: &ScanOptions,
    ) -> PyResult<ArchiveCheck> {
        let engine = self.here()?;
        let archive = ArchiveRef { bucket, key };
        Ok(ArchiveCheck(py.detach(|| engine.check_archive(&endpoint.0, archive, options.0.clone()))))
    }

    #[pyo3(signature = (policy, items, *, strip, index, epoch=None))]
    fn pack(
        &self,
        py: Python<'_>,
        policy: &CopyPolicy,
        items: Vec<PyRef<'_, CopyItem>>,
        strip: String,
        index: bool,
        epoch: Option<u64>,
    ) -> PyResult<Job> {
        let options = PackOptions { strip, index };
        self.begin(py, policy.request(&items, epoch), |engine, request| engine.start_pack(request, options))
    }

    #[pyo3(signature = (endpoint, bucket, key, options, *, retain=false))]
    fn scan_archive(
        &self,
        py: Python<'_>,
        endpoint: &PyEndpoint,
        bucket: String,
        key: String,
        options: &ScanOptions,
        retain: bool,
    ) -> PyResult<ArchiveScan> {
        let engine = self.here()?;
        let archive = ArchiveRef { bucket, key };
        Ok(ArchiveScan(py.detach(|| engine.scan_archive(&endpoint.0, archive, options.0.clone(), retain))))
    }

    fn index_archive(&self, py: Python<'_>, endpoint: &PyEndpoint, bucket: String, key: String) -> PyResult<u64> {
        let engine = self.here()?;
        let archive = ArchiveRef { bucket, key };
        py.detach(|| engine.index_archive(&endpoint.0, archive)).map_err(|error| request_error(&error))
    }

    #[pyo3(signature = (*, max_requests=None, max_bandwidth=None))]
    fn retune(&self, max_requests: Option<usize>, max_bandwidth: Option<u64>) {
        self.engine.set_limits(max_requests, max_bandwidth);
    }

    #[pyo3(signature = (per_second))]
    fn limit_starts(&self, per_second: Option<u32>) {
        self.engine.set_request_rate(per_second);
    }

    fn answers(&self, py: Python<'_>, seconds: f64) -> PyResult<bool> {
        let within = Duration::try_from_secs_f64(seconds).map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(py.detach(|| self.engine.is_responsive(within)))
    }

    fn stats(&self, py: Python<'_>) -> EngineStats {
        py.detach(|| self.engine.stats()).into()
    }
}
