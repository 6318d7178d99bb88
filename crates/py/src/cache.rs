//! A disk cache, as Python sees it: listing, verifying, removing and warming.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use seqferry_client::RequestError;
use seqferry_vfs::VersionPin;
use seqferry_vfs::disk_cache::{self, CacheLimits, Prefix, WarmReport, WarmRequest, WarmTask};

use crate::values::{PyEndpoint, request_error};

/// A prefix as Python writes it: endpoint, bucket, start of the keys.
type PrefixFacts = (String, String, String);

#[pyclass(frozen, get_all, module = "seqferry._native")]
pub struct CachedObject {
    endpoint: String,
    bucket: String,
    key: String,
    version: String,
    size: u64,
    cached: u64,
    disk: u64,
    used: f64,
    pinned: bool,
}

#[pyclass(frozen, get_all, module = "seqferry._native")]
pub struct VerifiedObject {
    bucket: String,
    key: String,
    sound: u64,
    damaged: u64,
    busy: bool,
}

#[pyclass(frozen, module = "seqferry._native")]
pub struct DiskCache(Arc<disk_cache::DiskCache>);

impl DiskCache {
    pub(crate) fn shared(&self) -> Arc<disk_cache::DiskCache> {
        Arc::clone(&self.0)
    }
}

fn prefix(facts: Option<PrefixFacts>) -> Option<Prefix> {
    facts.map(|(endpoint, bucket, prefix)| Prefix { endpoint, bucket, prefix })
}

fn failed(error: impl std::fmt::Display) -> PyErr {
    PyOSError::new_err(error.to_string())
}

#[pymethods]
impl DiskCache {
    #[new]
    #[pyo3(signature = (path, *, max_size=None, makes_room=false))]
    fn new(py: Python<'_>, path: String, max_size: Option<u64>, makes_room: bool) -> PyResult<Self> {
        let limits = CacheLimits::of_size(max_size);
        let opened = py.detach(|| disk_cache::DiskCache::open_as(Path::new(&path), limits, makes_room));
        Ok(Self(Arc::new(opened.map_err(failed)?)))
    }

    fn list(&self, py: Python<'_>, place: Option<PrefixFacts>) -> PyResult<Vec<CachedObject>> {
        let mut found = Vec::new();
        let place = prefix(place);
        let listed = py.detach(|| {
            self.0.list(place.as_ref(), |entry| {
                let (VersionPin::Etag(version) | VersionPin::VersionId(version)) = &entry.object.pin;
                let used = entry.last_used.and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
                found.push(CachedObject {
                    endpoint: entry.object.endpoint.to_string(),
                    bucket: entry.object.bucket.to_string(),
                    key: entry.object.key.to_string(),
                    version: version.to_string(),
                    size: entry.object.size,
                    cached: entry.bytes,
                    disk: entry.disk_bytes,
                    used: used.unwrap_or_default().as_secs_f64(),
                    pinned: entry.pinned,
                });
            })
        });
        listed.map_err(failed)?;
        Ok(found)
    }

    fn verify(&self, py: Python<'_>, place: Option<PrefixFacts>) -> PyResult<Vec<VerifiedObject>> {
        let mut found = Vec::new();
        let place = prefix(place);
        let verified = py.detach(|| {
            self.0.verify(place.as_ref(), |each| {
                let (bucket, key) = (each.object.bucket.to_string(), each.object.key.to_string());
                let (sound, damaged, busy) = (each.sound, each.damaged, each.busy);
                found.push(VerifiedObject { bucket, key, sound, damaged, busy });
            })
        });
        verified.map_err(failed)?;
        Ok(found)
    }

    fn remove(&self, py: Python<'_>, place: Option<PrefixFacts>) -> PyResult<(u64, u64, u64)> {
        let place = prefix(place);
        let report = py.detach(|| self.0.remove(place.as_ref())).map_err(failed)?;
        Ok((report.objects, report.bytes, report.busy))
    }

    fn pin(&self, place: PrefixFacts) -> PyResult<()> {
        let (endpoint, bucket, prefix) = place;
        self.0.pin(Prefix { endpoint, bucket, prefix }).map_err(failed)
    }

    fn unpin(&self, place: PrefixFacts) -> PyResult<bool> {
        let (endpoint, bucket, prefix) = place;
        self.0.unpin(&Prefix { endpoint, bucket, prefix }).map_err(failed)
    }

    #[pyo3(signature = (endpoint, place, *, ranges, max_bandwidth))]
    fn warm(
        &self,
        py: Python<'_>,
        endpoint: &PyEndpoint,
        place: PrefixFacts,
        ranges: usize,
        max_bandwidth: Option<u64>,
    ) -> PyResult<CacheWarming> {
        let (name, bucket, prefix) = place;
        let request = WarmRequest { bucket, prefix, ranges };
        let task = py.detach(|| WarmTask::start(self.shared(), &endpoint.0, name, request, max_bandwidth));
        Ok(CacheWarming(task.map_err(failed)?))
    }
}

#[pyclass(frozen, module = "seqferry._native")]
pub struct CacheWarming(WarmTask);

#[pyclass(frozen, get_all, module = "seqferry._native")]
pub struct Warmed {
    objects: u64,
    bytes: u64,
    present: u64,
    fetched: u64,
    failed: u64,
    no_room: bool,
    failures: Vec<(String, String)>,
}

#[pymethods]
impl CacheWarming {
    /// Waits at most `seconds`; true when the warming has ended. Raises an error when the prefix cannot be listed.
    fn wait(&self, py: Python<'_>, seconds: f64) -> PyResult<bool> {
        let limit = Duration::try_from_secs_f64(seconds).map_err(|error| PyValueError::new_err(error.to_string()))?;
        match py.detach(|| self.0.wait(limit)) {
            None => Ok(false),
            Some(Ok(listed)) => listed.map(|()| true).map_err(|error| request_error(&RequestError::Failed(error))),
            Some(Err(error)) => Err(failed(error)),
        }
    }

    fn report(&self) -> Warmed {
        let report = self.0.report();
        let WarmReport { objects, bytes, present, fetched, failed, no_room, failures } = report;
        Warmed { objects, bytes, present, fetched, failed, no_room, failures }
    }

    /// End immediately.
    fn cancel(&self) {
        self.0.cancel();
    }
}
