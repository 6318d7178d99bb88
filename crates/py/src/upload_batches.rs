//! Outcomes of uploads of shares, for the code that puts them on record.

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use seqferry_gateway::{GatewayError, GatewayMonitor, OutcomeFailure};

/// The end of an upload, or of the attempts at it.
#[pyclass(frozen, get_all, module = "seqferry._native")]
pub struct UploadOutcome {
    path: String,
    size: u64,
    modified: f64,
    started: f64,
    ended: f64,
    attempts: u32,
    uid: Option<u32>,
    address: Option<String>,
    etag: Option<String>,
    version_id: Option<String>,
    checksum_algorithm: Option<String>,
    checksum: Option<String>,
    method: Option<String>,
    verified: Option<String>,
    /// Class, code, operation and message.
    failure: Option<(String, String, String, String)>,
}

impl From<seqferry_gateway::UploadOutcome> for UploadOutcome {
    fn from(outcome: seqferry_gateway::UploadOutcome) -> Self {
        let seqferry_gateway::UploadOutcome { path, size, modified, started, ended, attempts, .. } = outcome;
        let failure = |failure: OutcomeFailure| (failure.class, failure.code, failure.operation, failure.message);
        let mut found = Self {
            path,
            size,
            modified,
            started,
            ended,
            attempts,
            uid: outcome.uid,
            address: outcome.address,
            etag: None,
            version_id: None,
            checksum_algorithm: None,
            checksum: None,
            method: None,
            verified: None,
            failure: outcome.failure.map(failure),
        };
        if let Some(version) = outcome.version {
            found.etag = Some(version.etag);
            found.version_id = Some(version.version_id).filter(|id| !id.is_empty());
            (found.checksum_algorithm, found.checksum) = (version.checksum_algorithm, version.checksum);
            (found.method, found.verified) = (Some(version.method), Some(version.verified));
        }
        found
    }
}

/// Paths of a folder before and after its rename.
type RenamedPaths = (String, String);

#[pyclass(frozen, module = "seqferry._native")]
pub struct UploadBatch(seqferry_gateway::UploadBatch);

#[pymethods]
impl UploadBatch {
    #[getter]
    fn share(&self) -> &str {
        &self.0.share
    }

    #[getter]
    fn prefix(&self) -> &str {
        &self.0.prefix
    }

    #[getter]
    fn journal(&self) -> &str {
        &self.0.journal
    }

    #[getter]
    fn number(&self) -> u64 {
        self.0.number
    }

    fn outcomes(&self, py: Python<'_>) -> PyResult<(Vec<UploadOutcome>, Option<RenamedPaths>)> {
        let (outcomes, renamed) = py.detach(|| self.0.outcomes()).map_err(os_error)?;
        Ok((outcomes.into_iter().map(Into::into).collect(), renamed.map(|folder| (folder.from, folder.to))))
    }

    fn forget(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.0.forget()).map_err(os_error)
    }
}

fn os_error(error: GatewayError) -> PyErr {
    PyOSError::new_err(error.0)
}

/// Upload batches of a gateway that are not on record.
pub(crate) fn pending(py: Python<'_>, monitor: Option<&GatewayMonitor>) -> Vec<UploadBatch> {
    let batches = py.detach(|| monitor.map(GatewayMonitor::upload_batches).unwrap_or_default());
    batches.into_iter().map(UploadBatch).collect()
}

/// Put the outcomes of all uploads of a gateway into batches.
pub(crate) fn freeze(py: Python<'_>, monitor: Option<&GatewayMonitor>) -> PyResult<()> {
    py.detach(|| monitor.map_or(Ok(()), GatewayMonitor::freeze_upload_batches)).map_err(os_error)
}
