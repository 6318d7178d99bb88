//! Digests of the contents of objects, as Python sees them.

use pyo3::prelude::*;
use seqferry_store::{ObjectRef, PinnedObject};

use crate::engine::Engine;
use crate::failure::Failure;
use crate::recorded::PyRecordedDigest;
use crate::values::{PyEndpoint, seconds};

/// An object, and the digest to compute over it.
#[pyclass(frozen, module = "seqferry._native")]
pub struct DigestRequest(seqferry_transfer::DigestRequest);

#[pymethods]
impl DigestRequest {
    #[new]
    #[pyo3(signature = (key, *, etag, size, digest))]
    fn new(key: &str, etag: &str, size: u64, digest: &PyRecordedDigest) -> Self {
        // Its bucket is that of the call.
        let object = PinnedObject::listed(ObjectRef::new("", key), etag, size);
        Self(seqferry_transfer::DigestRequest::of(object, &digest.0))
    }
}

/// Digests that are being computed.
#[pyclass(frozen, module = "seqferry._native")]
pub struct ContentDigests(seqferry_transfer::ContentDigests);

#[pymethods]
impl ContentDigests {
    fn next(&self, py: Python<'_>, timeout: f64) -> Option<Vec<(Vec<String>, Option<Failure>)>> {
        let page = py.detach(|| self.0.next(seconds(timeout)))?;
        let row = |found: seqferry_transfer::ObjectDigest| match found {
            Ok(values) => (values, None),
            Err(error) => (Vec::new(), Some(Failure::from(&error))),
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
    Ok(ContentDigests(py.detach(|| engine.read_digests(&endpoint.0, requests))))
}
