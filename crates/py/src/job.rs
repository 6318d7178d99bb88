//! A running job.

use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use seqferry_transfer::{self as transfer, StopMode};
use seqferry_vfs::disk_cache::DiskCache;

use crate::values::{Events, Failure, Progress, seconds};

#[pyclass(frozen, module = "seqferry._native")]
pub struct Job {
    running: transfer::Job,
    cache: Option<Arc<DiskCache>>,
    /// Notes of the cache so far: the cache hands out each note only once.
    cache_notes: Mutex<Vec<String>>,
}

impl Job {
    pub(crate) fn new(job: transfer::Job, cache: Option<Arc<DiskCache>>) -> Self {
        Self { running: job, cache, cache_notes: Mutex::default() }
    }
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
        let mut notes = self.cache_notes.lock().unwrap_or_else(PoisonError::into_inner);
        notes.extend(self.cache.iter().flat_map(|cache| cache.take_notes()));
        self.running.notes().into_iter().chain(notes.iter().cloned()).collect()
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
