//! The right to make one request.

use std::sync::Arc;
use std::time::Duration;

use super::limiters::StartedRequest;
use super::{Budget, RequestOutcome};

/// The right to make one request; given back on drop (a dropped one counts as [`RequestOutcome::Abandoned`]).
#[derive(Debug)]
pub struct RequestPermit {
    budget: Arc<Budget>,
    request: StartedRequest,
    ended: RequestOutcome,
    /// False for a permit that could not be handed over and was taken back.
    held: bool,
}

impl RequestPermit {
    pub(super) fn new(budget: Arc<Budget>, request: StartedRequest) -> Self {
        Self { budget, request, ended: RequestOutcome::Abandoned, held: true }
    }

    /// Drop a permit that the caller has accounted for.
    pub(super) fn take_back(mut self) {
        self.held = false;
    }

    /// Record how the request ended, and give the permit back.
    pub fn end(mut self, ended: RequestOutcome) {
        self.ended = ended;
    }

    /// Time that the request waited for this permit.
    pub fn waited(&self) -> Duration {
        self.request.waited
    }

    /// Time after the start from which this request is much slower than its peers. None: there are too few to compare
    /// with.
    pub fn slow_after(&self) -> Option<Duration> {
        self.budget.lock().limiters.slow_after(self.request.limiter, self.request.class)
    }

    /// Returns the right to make a hedged request beside this one, if there is space for it now. Only a small share of
    /// requests is hedged, and none shortly after the service has throttled. The permit counts like any other request.
    pub fn hedge(&self) -> Option<Self> {
        let now = self.budget.now();
        let may = self.budget.lock().limiters.hedge(now, self.request.limiter, self.request.priority);
        let request = StartedRequest { at: now, waited: Duration::ZERO, ..self.request };
        may.then(|| Self::new(Arc::clone(&self.budget), request))
    }
}

impl Drop for RequestPermit {
    fn drop(&mut self) {
        if !self.held {
            return;
        }
        let now = self.budget.now();
        let mut requests = self.budget.lock();
        requests.limiters.note_end(now, self.request, self.ended);
        self.budget.start_waiting(&mut requests, now);
    }
}
