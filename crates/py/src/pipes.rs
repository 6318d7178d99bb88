//! Standard input and output as Python sees them.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::PathBuf;

use pyo3::prelude::*;
use seqferry_store::UploadRef;
use seqferry_transfer::pipe::{self, InputOptions, InputTarget, OutputSource, PipeError};

use crate::EngineError;
use crate::engine::Engine;
use crate::properties::PyProperties;
use crate::values::{PyEndpoint, exists_policy, request_error, seconds};

#[pyclass(frozen, module = "seqferry._native")]
pub struct Pipe(pipe::Pipe);

#[pyclass(frozen, get_all, module = "seqferry._native")]
pub struct PipeReport {
    bytes: u64,
    etag: String,
    version_id: Option<String>,
    verified: &'static str,
}

#[pymethods]
impl Pipe {
    fn wait(&self, py: Python<'_>, timeout: f64) -> bool {
        py.detach(|| self.0.wait(seconds(timeout)))
    }

    #[getter]
    fn bytes(&self) -> u64 {
        self.0.bytes()
    }

    fn cancel(&self) {
        self.0.cancel();
    }

    fn end(&self) -> PyResult<Option<PipeReport>> {
        match self.0.take_result() {
            None | Some(Err(PipeError::Cancelled)) => Ok(None),
            Some(Ok(report)) => Ok(Some(PipeReport {
                bytes: report.bytes,
                etag: report.etag,
                version_id: report.version_id,
                verified: report.verified.as_str(),
            })),
            Some(Err(PipeError::Descriptor(error))) => Err(error.into()),
            Some(Err(PipeError::Failed(failure))) => {
                let job_wide = failure.scope == seqferry_store::Scope::Job;
                let word = failure.class.as_str();
                Err(EngineError::new_err((failure.message, word, failure.code, failure.operation, job_wide)))
            }
        }
    }
}

fn own(descriptor: io::Result<OwnedFd>) -> PyResult<File> {
    Ok(File::from(descriptor?))
}

#[pyfunction]
#[pyo3(signature = (engine, endpoint, bucket, key, *, version_id=None))]
pub fn write_output(
    py: Python<'_>,
    engine: &Engine,
    endpoint: &PyEndpoint,
    bucket: String,
    key: String,
    version_id: Option<String>,
) -> PyResult<Pipe> {
    let (engine, sink) = (engine.here()?, own(io::stdout().as_fd().try_clone_to_owned())?);
    let source = OutputSource { bucket, key, version_id };
    Ok(Pipe(py.detach(|| engine.write_output(&endpoint.0, source, sink))))
}

#[pyfunction]
#[pyo3(signature = (engine, endpoint, bucket, key, *, if_exists="same", part_size=None, storage_class=None,
                    properties=None, journal=None))]
#[allow(clippy::too_many_arguments)] // keyword arguments, one fact each
pub fn store_input(
    py: Python<'_>,
    engine: &Engine,
    endpoint: &PyEndpoint,
    bucket: String,
    key: String,
    if_exists: &str,
    part_size: Option<u64>,
    storage_class: Option<String>,
    properties: Option<&PyProperties>,
    journal: Option<PathBuf>,
) -> PyResult<Pipe> {
    let (engine, source) = (engine.here()?, own(io::stdin().as_fd().try_clone_to_owned())?);
    let if_exists = exists_policy(if_exists)?;
    let properties = properties.map(|found| found.0.clone()).unwrap_or_default();
    let options = InputOptions { part_size, storage_class, properties, if_exists, journal };
    let target = InputTarget { bucket, key };
    Ok(Pipe(py.detach(|| engine.store_input(&endpoint.0, target, options, source))))
}

#[pyfunction]
pub fn restore(
    py: Python<'_>,
    engine: &Engine,
    endpoint: &PyEndpoint,
    bucket: &str,
    keys: Vec<String>,
    days: u32,
    tier: &str,
) -> PyResult<Vec<bool>> {
    let engine = engine.here()?;
    py.detach(|| engine.restore(&endpoint.0, bucket, keys, days, tier)).map_err(|error| request_error(&error))
}

#[pyfunction]
pub fn abort_upload(
    py: Python<'_>,
    engine: &Engine,
    endpoint: &PyEndpoint,
    bucket: &str,
    key: &str,
    upload_id: &str,
) -> PyResult<()> {
    let (engine, upload) = (engine.here()?, UploadRef::new(bucket, key, upload_id));
    py.detach(|| engine.abort_upload(&endpoint.0, upload)).map_err(|error| request_error(&error))
}
