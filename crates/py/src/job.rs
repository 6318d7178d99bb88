//! A running job.

use std::time::Duration;

use pyo3::prelude::*;
use seqferry_transfer::{self as transfer, Stop};

use crate::values::{Events, Failure, Progress};

#[pyclass(frozen, module = "seqferry._native")]
pub struct Job(pub(crate) transfer::Job);

#[pymethods]
impl Job {
    fn wait(&self, py: Python<'_>, timeout: f64) -> Events {
        // Negative, infinite and absurd times are bounded: a caller that must stop is heard within a minute.
        let timeout = Duration::try_from_secs_f64(timeout.clamp(0.0, 60.0)).unwrap_or_default();
        py.detach(|| Events::of(self.0.wait(timeout)))
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
