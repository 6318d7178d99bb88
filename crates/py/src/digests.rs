//! Digests of the contents of objects, as Python sees them.

use std::num::NonZeroU64;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use seqferry_store::{ChecksumAlgorithm, DigestAlgorithm, PinnedObject};
use seqferry_transfer as transfer;

use crate::buckets::{FailureRow, failure_row};
use crate::engine::Engine;
use crate::values::{PyEndpoint, seconds};

/// An object, and the digest to compute over it.
#[pyclass(frozen, module = "seqferry._native")]
pub struct DigestRequest(transfer::DigestRequest);

#[pymethods]
impl DigestRequest {
    #[new]
    #[pyo3(signature = (key, *, etag, size, algorithm, part_sizes))]
    fn new(key: String, etag: String, size: u64, algorithm: &str, part_sizes: Vec<NonZeroU64>) -> PyResult<Self> {
        let if_match = Some(etag).filter(|etag| !etag.is_empty());
        let object = PinnedObject { key, if_match, size, ..PinnedObject::default() };
        Ok(Self(transfer::DigestRequest { object, algorithm: digest_algorithm(algorithm)?, part_sizes }))
    }
}

fn digest_algorithm(name: &str) -> PyResult<DigestAlgorithm> {
    if name == "MD5" {
        return Ok(DigestAlgorithm::Md5);
    }
    let found = ChecksumAlgorithm::ALL.into_iter().find(|algorithm| algorithm.name() == name);
    found.map(DigestAlgorithm::Checksum).ok_or_else(|| PyValueError::new_err(format!("no digest: {name}")))
}

/// Digests that are being computed.
#[pyclass(frozen, module = "seqferry._native")]
pub struct ContentDigests(transfer::ContentDigests);

#[pymethods]
impl ContentDigests {
    fn next(&self, py: Python<'_>, timeout: f64) -> Option<Vec<(Vec<String>, Option<FailureRow>)>> {
        let page = py.detach(|| self.0.next(seconds(timeout)))?;
        let row = |found: transfer::ObjectDigest| match found {
            Ok(values) => (values, None),
            Err(error) => (Vec::new(), Some(failure_row(&error))),
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
