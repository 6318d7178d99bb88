//! A bucket mounted by this process: values in, one handle out.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use seqferry_gateway::{GatewayMonitor, GatewaySpec};
use seqferry_mount::{BucketMount, MountOptions, MountedBucket, MountedShare};
use seqferry_vfs::disk_cache::CacheLimits;
use seqferry_vfs::{Freshness, TreeOptions};

use crate::gateway::GatewayShare;
use crate::upload_batches::{self, UploadBatch};
use crate::values::PyEndpoint;

#[pyclass(frozen, module = "seqferry._native")]
pub struct Mount(Mutex<MountedBucket>);

#[pymethods]
impl Mount {
    #[new]
    #[pyo3(signature = (endpoint, *, endpoint_name, bucket, prefix, directory, source, lifetime, freshness, memory,
                        max_requests, max_bandwidth, archive, cache, max_cache_size, pin, manifest, allow_other,
                        allow_non_empty, uid, gid, file_mode, directory_mode))]
    #[allow(clippy::too_many_arguments)] // keyword arguments, one fact each
    fn new(
        py: Python<'_>,
        endpoint: &PyEndpoint,
        endpoint_name: String,
        bucket: String,
        prefix: String,
        directory: String,
        source: String,
        lifetime: Option<f64>,
        freshness: &str,
        memory: u64,
        max_requests: usize,
        max_bandwidth: Option<u64>,
        archive: Option<String>,
        cache: Option<String>,
        max_cache_size: Option<u64>,
        pin: bool,
        manifest: Option<String>,
        allow_other: bool,
        allow_non_empty: bool,
        uid: u32,
        gid: u32,
        file_mode: u16,
        directory_mode: u16,
    ) -> PyResult<Self> {
        let freshness = match freshness {
            "ttl" => Freshness::Ttl,
            "open" => Freshness::Open,
            "frozen" => Freshness::Frozen,
            other => {
                return Err(PyValueError::new_err(format!("freshness must be ttl, open or frozen, and is {other}")));
            }
        };
        let lifetime = lifetime.map(Duration::try_from_secs_f64).transpose();
        let lifetime = lifetime.map_err(|error| PyValueError::new_err(error.to_string()))?;
        let mount = BucketMount {
            endpoint: endpoint.0.clone(),
            endpoint_name,
            tree: TreeOptions { prefix, lifetime, ..TreeOptions::bucket(&bucket) },
            freshness,
            memory,
            archive,
            manifest: manifest.map(Into::into),
            cache: cache.map(|path| (path.into(), CacheLimits::of_size(max_cache_size))),
            pin,
            max_requests,
            max_bandwidth,
            options: MountOptions {
                directory: directory.into(),
                source,
                allow_other,
                allow_non_empty,
                uid,
                gid,
                file_mode,
                directory_mode,
            },
        };
        let mounted = py.detach(|| mount.start()).map_err(|error| PyOSError::new_err(error.to_string()))?;
        Ok(Self(Mutex::new(mounted)))
    }

    fn wait(&self, py: Python<'_>, seconds: f64) -> PyResult<bool> {
        let limit = seconds_of(seconds)?;
        Ok(py.detach(|| self.0.lock().unwrap_or_else(PoisonError::into_inner).wait(limit)))
    }

    fn unmount(&self, py: Python<'_>) -> PyResult<()> {
        let unmount = || self.0.lock().unwrap_or_else(PoisonError::into_inner).unmount();
        py.detach(unmount).map_err(|error| PyOSError::new_err(error.to_string()))
    }
}

#[pyclass(frozen, module = "seqferry._native")]
pub struct ShareMount {
    // First: nothing is asked of a gateway that has ended.
    monitor: Option<GatewayMonitor>,
    mounted: Mutex<MountedShare>,
}

impl ShareMount {
    fn with<T: Send>(&self, py: Python<'_>, call: impl FnOnce(&mut MountedShare) -> T + Send) -> T {
        py.detach(|| call(&mut self.mounted.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}

#[pymethods]
impl ShareMount {
    #[new]
    #[pyo3(signature = (share, *, state, cache, max_cache_size, unsafe_cache, take_over, memory, max_requests,
                        max_bandwidth, directory, source, allow_other, allow_non_empty))]
    #[allow(clippy::too_many_arguments, clippy::fn_params_excessive_bools)] // keyword arguments, one fact each
    fn new(
        py: Python<'_>,
        share: &GatewayShare,
        state: String,
        cache: String,
        max_cache_size: Option<u64>,
        unsafe_cache: bool,
        take_over: bool,
        memory: u64,
        max_requests: usize,
        max_bandwidth: Option<u64>,
        directory: String,
        source: String,
        allow_other: bool,
        allow_non_empty: bool,
    ) -> PyResult<Self> {
        let share = share.0.clone();
        let mode = |mode: u32| u16::try_from(mode).map_err(|error| PyValueError::new_err(error.to_string()));
        let options = MountOptions {
            directory: directory.into(),
            source,
            allow_other,
            allow_non_empty,
            uid: share.defaults.uid,
            gid: share.defaults.gid,
            file_mode: mode(share.defaults.file_mode)?,
            directory_mode: mode(share.defaults.directory_mode)?,
        };
        let gateway = GatewaySpec {
            address: None,
            port_mapping: None,
            state: state.into(),
            cache: Some((cache.into(), CacheLimits::of_size(max_cache_size))),
            unsafe_cache,
            take_over,
            memory,
            max_requests,
            max_bandwidth,
            shares: vec![share],
        };
        let mount = seqferry_mount::ShareMount { gateway, options };
        let mut mounted = py.detach(|| mount.start()).map_err(|error| PyOSError::new_err(error.to_string()))?;
        Ok(Self { monitor: mounted.gateway().monitor(), mounted: Mutex::new(mounted) })
    }

    fn wait(&self, py: Python<'_>, seconds: f64) -> PyResult<bool> {
        let limit = seconds_of(seconds)?;
        Ok(self.with(py, |mounted| mounted.wait(limit)))
    }

    fn unmount(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |mounted| mounted.unmount()).map_err(|error| PyOSError::new_err(error.to_string()))
    }

    /// Upload batches that are not on record, also after the end.
    fn upload_batches(&self, py: Python<'_>) -> Vec<UploadBatch> {
        upload_batches::pending(py, self.monitor.as_ref())
    }

    fn freeze_upload_batches(&self, py: Python<'_>) -> PyResult<()> {
        upload_batches::freeze(py, self.monitor.as_ref())
    }

    fn drain(&self, py: Python<'_>) {
        self.with(py, |mounted| mounted.gateway().drain());
    }

    fn wait_for_drain(&self, py: Python<'_>, seconds: f64) -> PyResult<bool> {
        let limit = seconds_of(seconds)?;
        Ok(self.with(py, |mounted| mounted.gateway().wait(limit)))
    }
}

fn seconds_of(seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// Counts of a walk over everything that a mount would show, and the keys that it would hide.
#[pyclass(frozen, get_all, module = "seqferry._native")]
pub struct NameAudit {
    directories: u64,
    files: u64,
    links: u64,
    bytes: u64,
    hidden: u64,
    /// Key and reason.
    named: Vec<(String, String)>,
}

#[pyfunction]
#[pyo3(signature = (endpoint, *, endpoint_name, bucket, prefix, most))]
pub fn audit_names(
    py: Python<'_>,
    endpoint: &PyEndpoint,
    endpoint_name: String,
    bucket: &str,
    prefix: String,
    most: usize,
) -> PyResult<NameAudit> {
    let tree = TreeOptions { prefix, ..TreeOptions::bucket(bucket) };
    let audited = py.detach(|| seqferry_mount::audit(&endpoint.0, endpoint_name, tree, most));
    let report = audited.map_err(|error| PyOSError::new_err(error.to_string()))?;
    Ok(NameAudit {
        directories: report.directories,
        files: report.files,
        links: report.links,
        bytes: report.bytes,
        hidden: report.hidden,
        named: report.named.into_iter().map(|hidden| (hidden.key, hidden.reason.to_string())).collect(),
    })
}
