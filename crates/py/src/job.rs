//! A running job, and the place of one that copies nothing.

use pyo3::prelude::*;
use seqferry_client::EndpointSpec;
use seqferry_transfer::{JobItem, JobLocation, JobRequest, StopMode};
use seqferry_vfs::disk_cache::SourceCache;

use crate::failure::Failure;
use crate::values::{Events, Progress, PyEndpoint, seconds};

#[pyclass(frozen, name = "JobPlace", module = "seqferry._native")]
pub struct PyJobPlace {
    endpoint: EndpointSpec,
    bucket: String,
    prefix: String,
    transfer: String,
    only_clean: bool,
}

#[pymethods]
impl PyJobPlace {
    #[new]
    #[pyo3(signature = (endpoint, bucket, *, prefix="", transfer="", only_clean=false))]
    fn new(endpoint: &PyEndpoint, bucket: String, prefix: &str, transfer: &str, only_clean: bool) -> Self {
        let (prefix, transfer) = (prefix.to_owned(), transfer.to_owned());
        Self { endpoint: endpoint.0.clone(), bucket, prefix, transfer, only_clean }
    }
}

impl PyJobPlace {
    /// A job of these items, which writes only within this epoch of the lease.
    pub(crate) fn request(&self, items: Vec<JobItem>, epoch: Option<u64>) -> JobRequest<'_> {
        let Self { endpoint, bucket, prefix, transfer, only_clean } = self;
        let (bucket, prefix, transfer) = (bucket.clone(), prefix.clone(), transfer.clone());
        JobLocation { endpoint, bucket, prefix, transfer, only_clean: *only_clean }.request(items, epoch)
    }
}

#[pyclass(frozen, module = "seqferry._native")]
pub struct Job {
    pub(crate) running: seqferry_transfer::Job,
    pub(crate) cache: SourceCache,
}

#[pymethods]
impl Job {
    fn wait(&self, py: Python<'_>, timeout: f64) -> Events {
        py.detach(|| Events::of(self.running.wait(seconds(timeout))))
    }

    fn finished(&self) -> bool {
        self.running.is_finished()
    }

    fn failure(&self) -> Option<Failure> {
        self.running.failure().map(Failure::from)
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = self.running.notes();
        notes.extend(self.cache.notes());
        notes
    }

    fn progress(&self, py: Python<'_>) -> Progress {
        Progress(py.detach(|| self.running.progress()))
    }

    fn acknowledge(&self, ids: Vec<u64>) {
        self.running.acknowledge(&ids);
    }

    fn admit(&self, epoch: u64) {
        self.running.admit(epoch);
    }

    fn disown(&self) {
        self.running.disown();
    }

    fn cancel(&self, abort_uploads: bool) {
        self.running.stop(if abort_uploads { StopMode::Cancel } else { StopMode::Suspend });
    }
}
