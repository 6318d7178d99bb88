//! A running job.

use pyo3::prelude::*;
use seqferry_transfer::StopMode;
use seqferry_vfs::disk_cache::SourceCache;

use crate::values::{Events, Failure, Progress, seconds};

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
        self.running.finished()
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
