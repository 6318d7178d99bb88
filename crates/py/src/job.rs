//! A running job.

use pyo3::prelude::*;
use seqferry_transfer::{self as transfer, Stop};

use crate::values::{Events, Failure, Progress, seconds};

#[pyclass(frozen, module = "seqferry._native")]
pub struct Job(pub(crate) transfer::Job);

#[pymethods]
impl Job {
    fn wait(&self, py: Python<'_>, timeout: f64) -> Events {
        py.detach(|| Events::of(self.0.wait(seconds(timeout))))
    }

    fn finished(&self) -> bool {
        self.0.finished()
    }

    fn failure(&self) -> Option<Failure> {
        self.0.failure().map(Failure::from)
    }

    fn notes(&self) -> Vec<String> {
        self.0.notes()
    }

    fn progress(&self, py: Python<'_>) -> Progress {
        Progress(py.detach(|| self.0.progress()))
    }

    fn acknowledge(&self, ids: Vec<u64>) {
        self.0.acknowledge(&ids);
    }

    fn admit(&self, epoch: u64) {
        self.0.admit(epoch);
    }

    fn disown(&self) {
        self.0.disown();
    }

    fn cancel(&self, abort_uploads: bool) {
        self.0.stop(if abort_uploads { Stop::Cancel } else { Stop::Suspend });
    }
}
