//! State that all connections of the simulator share, and the requests that are counted in it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::counters::RequestCounts;
use super::intake::Terms;
use super::model;
use super::scenario::Capability;
use super::state::SimState;

/// State that all connections share.
pub(super) struct ServerContext {
    state: Mutex<SimState>,
    pub(super) terms: Terms,
    time_scale: f64,
}

impl ServerContext {
    pub(super) fn new(state: SimState) -> Self {
        let options = &state.options;
        let terms = Terms {
            kept: Arc::clone(&state.kept),
            memory: options.memory.0,
            md5: options.upload_md5,
            checksums: !state.lacks(Capability::Checksums),
        };
        Self { time_scale: options.time_scale, terms, state: Mutex::new(state) }
    }

    /// No request leaves a half-made change behind, so a panic of one does not spoil the state for the others.
    pub(super) fn state(&self) -> MutexGuard<'_, SimState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Real time that this time of the model takes.
    pub(super) fn real(&self, time: Duration) -> Duration {
        Duration::try_from_secs_f64(time.as_secs_f64() / self.time_scale).unwrap_or(Duration::MAX)
    }
}

/// Returns the model's options, for the administration.
pub(super) fn model_options(state: &SimState) -> &model::ModelOptions {
    state.model.options()
}

/// A request that is counted as under way; when dropped, as ended.
pub(super) struct Ticket {
    shared: Arc<ServerContext>,
    operation: &'static str,
    pub(super) end: End,
    complete: bool,
}

/// End of a request.
#[derive(Clone, Copy)]
pub(super) enum End {
    Succeeded,
    Throttled,
    Failed,
}

impl Ticket {
    /// A request under way. Until its end is set, it counts as failed.
    pub(super) fn new(shared: Arc<ServerContext>, operation: &'static str) -> Self {
        Self { shared, operation, end: End::Failed, complete: false }
    }

    /// The whole answer was handed over.
    pub(super) fn complete(&mut self) {
        self.complete = true;
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let (end, complete) = (self.end, self.complete);
        self.shared.state().counters.end(self.operation, |count: &mut RequestCounts| {
            *match end {
                _ if !complete => &mut count.unanswered,
                End::Succeeded => &mut count.succeeded,
                End::Throttled => &mut count.throttled,
                End::Failed => &mut count.failed,
            } += 1;
        });
    }
}
