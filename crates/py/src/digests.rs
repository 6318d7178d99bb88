//! Digests of the contents of objects, as Python sees them.

use std::num::NonZeroU64;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use seqferry_store::{DigestAlgorithm, ObjectRef, PinnedObject};

use crate::engine::Engine;
use crate::request_failure::RequestFailure;
use crate::values::{PyEndpoint, seconds};

/// An object, and the digest to compute over it.
#[pyclass(frozen, module = "seqferry._native")]
pub struct DigestRequest(seqferry_transfer::DigestRequest);

#[pymethods]
impl DigestRequest {
    #[new]
    #[pyo3(signature = (key, *, etag, size, algorithm, part_sizes))]
    fn new(key: &str, etag: &str, size: u64, algorithm: &str, part_sizes: Vec<NonZeroU64>) -> PyResult<Self> {
        let unknown = || PyValueError::new_err(format!("no digest: {algorithm}"));
        let algorithm = DigestAlgorithm::named(algorithm).ok_or_else(unknown)?;
        // Its bucket is that of the call.
        let object = PinnedObject::listed(ObjectRef::new("", key), etag, size);
        Ok(Self(seqferry_transfer::DigestRequest { object, algorithm, part_sizes }))
    }
}

/// Digests that are being computed.
#[pyclass(frozen, module = "seqferry._native")]
pub struct ContentDigests(seqferry_transfer::ContentDigests);

#[pymethods]
impl ContentDigests {
    fn next(&self, py: Python<'_>, timeout: f64) -> Option<Vec<(Vec<String>, Option<RequestFailure>)>> {
        let page = py.detach(|| self.0.next(seconds(timeout)))?;
        let row = |found: seqferry_transfer::ObjectDigest| match found {
            Ok(values) => (values, None),
            Err(error) => (Vec::new(), Some(RequestFailure::from(&error))),
        };
        Some(page.into_iter().map(row).collect())
    }

    fn close(&self, py: Python<'_>) {
        py.detach(|| self.0.close());
    }
}

#[pyfunction]
pub fn digest_objects(
    py: Python<'_>,
    engine: &Engine,
    endpoint: &PyEndpoint,
    bucket: &str,
    requests: Vec<PyRef<'_, DigestRequest>>,
) -> PyResult<ContentDigests> {
    let engine = engine.here()?;
    let within = |request: PyRef<'_, DigestRequest>| {
        let mut request = request.0.clone();
        bucket.clone_into(&mut request.object.bucket);
        request
    };
    let requests = requests.into_iter().map(within).collect();
    Ok(ContentDigests(py.detach(|| engine.digests(&endpoint.0, requests))))
}
