//! Shares of buckets served by this process: values in, one handle out.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use seqferry_client::{Budget, RuntimeProbe};
use seqferry_gateway::WriteSettings;
use seqferry_gateway::{GatewayMonitor, GatewaySpec, ObjectProperties, ShareDefaults, ShareSpec, UploadWindow};
use seqferry_nfs::{PortMapping, Published, Squash};
use seqferry_vfs::TreeOptions;
use seqferry_vfs::disk_cache::CacheLimits;

use crate::properties::PyProperties;
use crate::upload_batches::{self, UploadBatch};
use crate::values::PyEndpoint;

#[pyclass(frozen, module = "seqferry._native")]
pub struct GatewayWrites(WriteSettings);

#[pymethods]
impl GatewayWrites {
    #[new]
    #[pyo3(signature = (*, settle, storage_classes, properties, ignore, markers, windows, max_bandwidth))]
    fn new(
        settle: f64,
        storage_classes: Vec<(String, String)>,
        properties: PyRef<'_, PyProperties>,
        ignore: Option<Vec<String>>,
        markers: Option<Vec<String>>,
        windows: Vec<(u16, u16)>,
        max_bandwidth: Option<u64>,
    ) -> PyResult<Self> {
        let settle = Duration::try_from_secs_f64(settle).map_err(|error| PyValueError::new_err(error.to_string()))?;
        let windows = windows.into_iter().map(|(start, end)| UploadWindow { start, end }).collect();
        let defaults = WriteSettings::default();
        let (ignore, markers) = (ignore.unwrap_or(defaults.ignore), markers.unwrap_or(defaults.markers));
        let objects = ObjectProperties { properties: properties.0.clone(), storage_classes };
        Ok(Self(WriteSettings { settle, objects, ignore, markers, windows, max_bandwidth }))
    }
}

#[pyclass(frozen, module = "seqferry._native")]
pub struct GatewayShare(pub(crate) ShareSpec);

#[pymethods]
impl GatewayShare {
    #[new]
    #[pyo3(signature = (endpoint, *, endpoint_name, bucket, prefix, name, lifetime, clients, squash, anonymous_uid,
                        anonymous_gid, uid, gid, file_mode, directory_mode, free_space, writes))]
    #[allow(clippy::too_many_arguments, clippy::similar_names)] // keyword arguments, one fact each, of users and groups
    fn new(
        endpoint: &PyEndpoint,
        endpoint_name: String,
        bucket: String,
        prefix: String,
        name: String,
        lifetime: Option<f64>,
        clients: Vec<String>,
        squash: &str,
        anonymous_uid: u32,
        anonymous_gid: u32,
        uid: u32,
        gid: u32,
        file_mode: u32,
        directory_mode: u32,
        free_space: u64,
        writes: Option<PyRef<'_, GatewayWrites>>,
    ) -> PyResult<Self> {
        let squash = match squash {
            "root" => Squash::Root,
            "all" => Squash::All,
            "none" => Squash::None,
            other => return Err(PyValueError::new_err(format!("squash must be root, all or none, not {other}"))),
        };
        let lifetime = lifetime.map(Duration::try_from_secs_f64).transpose();
        let lifetime = lifetime.map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(Self(ShareSpec {
            name,
            endpoint: endpoint.0.clone(),
            endpoint_name,
            tree: TreeOptions { prefix, lifetime, ..TreeOptions::bucket(&bucket) },
            clients,
            squash,
            anonymous: (anonymous_uid, anonymous_gid),
            defaults: ShareDefaults { uid, gid, file_mode, directory_mode, free_space },
            writes: writes.map(|writes| writes.0.clone()),
        }))
    }
}

#[pyclass(frozen, module = "seqferry._native")]
pub struct Gateway {
    served: Mutex<seqferry_gateway::Gateway>,
    /// Outside the lock, which `wait` holds until the end.
    address: SocketAddr,
    published: Option<Result<&'static str, String>>,
    budget: Arc<Budget>,
    monitor: Option<GatewayMonitor>,
    probe: Option<RuntimeProbe>,
}

#[pymethods]
impl Gateway {
    #[new]
    #[pyo3(signature = (shares, *, host, port, port_mapper, state, cache, max_cache_size, unsafe_cache, take_over, memory,
                        max_requests, max_bandwidth))]
    #[allow(clippy::too_many_arguments)] // keyword arguments, one fact each
    fn new(
        py: Python<'_>,
        shares: Vec<PyRef<'_, GatewayShare>>,
        host: &str,
        port: u16,
        port_mapper: bool,
        state: String,
        cache: Option<String>,
        max_cache_size: Option<u64>,
        unsafe_cache: bool,
        take_over: bool,
        memory: u64,
        max_requests: usize,
        max_bandwidth: Option<u64>,
    ) -> PyResult<Self> {
        let host: IpAddr = host.parse().map_err(|_| PyValueError::new_err(format!("'{host}' is no IP address")))?;
        let spec = GatewaySpec {
            address: Some((host, port).into()),
            port_mapping: port_mapper.then(PortMapping::default),
            state: state.into(),
            cache: cache.map(|path| (path.into(), CacheLimits::of_size(max_cache_size))),
            unsafe_cache,
            take_over,
            memory,
            max_requests,
            max_bandwidth,
            shares: shares.iter().map(|share| share.0.clone()).collect(),
        };
        let started = py.detach(|| spec.start()).map_err(|error| PyOSError::new_err(error.to_string()))?;
        let address = started.address().unwrap_or_else(|| (host, port).into());
        let budget = Arc::clone(started.budget());
        let (probe, monitor) = (started.probe(), started.monitor());
        let published = started.published().map(|published| match published {
            Ok(Published::Itself) => Ok("itself"),
            Ok(Published::Rpcbind) => Ok("rpcbind"),
            Err(error) => Err(error.to_string()),
        });
        Ok(Self { served: Mutex::new(started), address, published, budget, monitor, probe })
    }

    /// Host and port.
    #[getter]
    fn address(&self) -> (String, u16) {
        (self.address.ip().to_string(), self.address.port())
    }

    /// Way in which clients find the port: "itself" or "rpcbind"; None if they name it.
    #[getter]
    fn published(&self) -> Option<&'static str> {
        self.published.as_ref()?.as_ref().ok().copied()
    }

    /// Reason why clients have to name the port, if they were to find it.
    #[getter]
    fn publish_error(&self) -> Option<&str> {
        self.published.as_ref()?.as_ref().err().map(String::as_str)
    }

    /// Requests to the storage under way.
    #[getter]
    fn in_flight(&self) -> usize {
        self.budget.stats().in_flight
    }

    /// The state of all shares, as JSON.
    fn status(&self, py: Python<'_>) -> String {
        py.detach(|| self.monitor.as_ref().map(GatewayMonitor::status).unwrap_or_default())
    }

    /// Upload batches that are not on record, also after the end.
    fn upload_batches(&self, py: Python<'_>) -> Vec<UploadBatch> {
        upload_batches::pending(py, self.monitor.as_ref())
    }

    fn freeze_upload_batches(&self, py: Python<'_>) -> PyResult<()> {
        upload_batches::freeze(py, self.monitor.as_ref())
    }

    fn answers(&self, py: Python<'_>, seconds: f64) -> PyResult<bool> {
        let within = Duration::try_from_secs_f64(seconds).map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(py.detach(|| self.probe.as_ref().is_some_and(|probe| probe.answers(within))))
    }

    fn wait(&self, py: Python<'_>, seconds: f64) -> PyResult<bool> {
        let limit = Duration::try_from_secs_f64(seconds).map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(py.detach(|| self.served.lock().unwrap_or_else(PoisonError::into_inner).wait(limit)))
    }

    fn stop(&self, py: Python<'_>) {
        py.detach(|| self.served.lock().unwrap_or_else(PoisonError::into_inner).stop());
    }
}
