//! Jobs on the objects of one location that copy nothing: removals, aborts of open uploads, and comparisons with a
//! record.
//!
//! Their requests draw from the budget of the process as those of copies do. A stop begins no other object. Removals
//! and aborts under way have [`STOP_GRACE`] to be answered, so that an object that was removed is not reported as
//! cancelled. An object without an answer has no outcome, and a later job processes it again: the work may
//! be repeated.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{FuturesUnordered, StreamExt as _};
use seqferry_client::{RequestError, RetryingClient};
use seqferry_store::{Cause, Scope, StoreError};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;
use tracing::Span;

use crate::clock::now;
use crate::job::{Job, JobEvent, JobSpec, JobState, PreparedJob};
use crate::object::JobItem;
use crate::object_outcome::{CopyMethod, FailureClass, ObjectFailure, ObjectOutcome, ObjectState};
use crate::schedule::Scheduler;

/// Time that requests under way have after a stop. A choice: longer than most answers take, and short for a waiting
/// user.
const STOP_GRACE: Duration = Duration::from_secs(5);

/// Settings of a job at one location.
#[derive(Debug, Clone, Copy, Default)]
pub struct LocationOptions {
    /// True to check each object with HEAD before its removal, since some services ignore `ETag`s: for a run that
    /// follows another one.
    pub check_first: bool,
    /// True when the first failure stops the job, except for an object that was overwritten since and stays. Removals
    /// under way are completed.
    pub stop_at_failure: bool,
    /// True when the job fails once its lease has lapsed, and does not wait to be admitted again.
    pub fail_at_lapse: bool,
}

/// Result for one object.
#[derive(Debug)]
pub(crate) enum LocationResult {
    /// Success, with the version of the delete marker if there is one.
    Done(Option<String>),
    /// Failure.
    Failed(ObjectFailure),
}

/// The work of a job in one location, and the reports of its objects. When it is dropped, the job has ended.
pub(crate) struct LocationJob {
    /// Client of the location.
    pub(crate) client: RetryingClient,
    pub(crate) bucket: String,
    pub(crate) items: Arc<[JobItem]>,
    pub(crate) options: LocationOptions,
    pub(crate) shared: Arc<JobState>,
    method: CopyMethod,
    only_clean: bool,
    started_at: f64,
    ended: Vec<bool>,
}

impl LocationJob {
    /// The work at the target of `spec`, with the span that it runs in.
    pub(crate) fn prepare(
        scheduler: &Arc<Scheduler>,
        spec: JobSpec,
        method: CopyMethod,
        options: LocationOptions,
    ) -> (Self, Job, Span) {
        let PreparedJob { shared, target, policy, items, span, .. } = spec.prepare(scheduler);
        let job = Job::of(Arc::clone(&shared));
        let location_job = Self {
            client: if options.fail_at_lapse { target.fail_at_lapse() } else { target },
            bucket: policy.target_bucket,
            ended: vec![false; items.len()],
            items: items.into(),
            options,
            shared,
            method,
            only_clean: policy.only_clean,
            started_at: now(),
        };
        (location_job, job, span)
    }

    /// Gives the objects under way [`STOP_GRACE`] after a stop. Must be called within the runtime.
    pub(crate) fn grant_grace(&mut self) -> AbortOnDropHandle<()> {
        let (stop, grace) = (self.shared.cancel.clone(), CancellationToken::new());
        self.client = self.client.clone().until(grace.clone());
        AbortOnDropHandle::new(tokio::spawn(async move {
            stop.cancelled().await;
            tokio::time::sleep(STOP_GRACE).await;
            grace.cancel();
        }))
    }

    /// True when no other object may begin.
    pub(crate) fn is_stopped(&self) -> bool {
        self.only_clean || self.shared.cancel.is_cancelled()
    }

    /// True when the object has ended.
    pub(crate) fn has_ended(&self, n: usize) -> bool {
        self.ended[n]
    }

    /// Processes these objects, `concurrency` at a time, until a stop.
    pub(crate) async fn each<F>(
        &mut self,
        wanted: Vec<usize>,
        concurrency: usize,
        act: impl Fn(RetryingClient, Arc<str>, JobItem) -> F,
    ) where
        F: Future<Output = Result<LocationResult, RequestError>>,
    {
        let settle = |job: &mut Self, n, end| {
            job.end(n, end);
            ControlFlow::Continue(())
        };
        self.each_settled(wanted, concurrency, act, settle).await;
    }

    /// Processes these objects, `concurrency` at a time, until a stop or a break of `settle`, which gets the results of
    /// `act`. After a break the objects under way are completed.
    pub(crate) async fn each_settled<F, T>(
        &mut self,
        wanted: Vec<usize>,
        concurrency: usize,
        act: impl Fn(RetryingClient, Arc<str>, JobItem) -> F,
        mut settle: impl FnMut(&mut Self, usize, T) -> ControlFlow<()>,
    ) where
        F: Future<Output = Result<T, RequestError>>,
    {
        let (stop, bucket) = (self.shared.cancel.clone(), Arc::<str>::from(self.bucket.as_str()));
        let mut under_way = FuturesUnordered::new();
        let mut wanted = wanted.into_iter();
        let mut flow = ControlFlow::Continue(());
        loop {
            while under_way.len() < concurrency && flow.is_continue() && !stop.is_cancelled() {
                let Some(n) = wanted.next() else { break };
                let end = act(self.client.clone(), Arc::clone(&bucket), self.items[n].clone());
                under_way.push(async move { (n, end.await) });
            }
            match under_way.next().await {
                None => return,
                Some((n, Ok(found))) => {
                    if settle(self, n, found).is_break() {
                        flow = ControlFlow::Break(());
                    }
                }
                Some((n, Err(RequestError::Failed(error)))) => self.fail(n, error),
                Some((_, Err(RequestError::Cancelled))) => {}
            }
        }
    }

    /// Reports an object that failed with an error of the store.
    pub(crate) fn fail(&mut self, n: usize, error: StoreError) {
        if error.cause() != Cause::LeaseLapsed {
            self.end(n, LocationResult::Failed(error.into()));
        } else if !self.is_stopped() {
            // The lease is lost for all objects of the job.
            self.shared.fail(Some(error.into()));
        }
    }

    /// Reports the result of an object.
    pub(crate) fn end(&mut self, n: usize, end: LocationResult) {
        let item = &self.items[n];
        let mut outcome = self.outcome(item, ObjectState::Done);
        match end {
            LocationResult::Done(version) => {
                outcome.method = self.method;
                outcome.target_version_id = version;
            }
            LocationResult::Failed(failure) => {
                outcome.state = ObjectState::Failed;
                outcome.failure = Some(failure);
            }
        }
        let failure = outcome.failure.clone();
        self.shared.counters.count(outcome.state, item.size);
        self.report(n, outcome);
        match failure {
            Some(failure) if failure.scope == Scope::Job => self.shared.fail(Some(failure)),
            // An object that was overwritten since stays; the others can still be processed.
            Some(failure) if self.options.stop_at_failure && failure.class != FailureClass::SourceChanged => {
                self.shared.cancel.cancel();
            }
            _ => {}
        }
    }

    /// Reports this outcome of an object, which is counted already.
    pub(crate) fn report(&mut self, n: usize, outcome: ObjectOutcome) {
        self.shared.report(JobEvent::Ended(Box::new(outcome)));
        self.ended[n] = true;
    }

    /// Ends the job: after a cancel the remaining objects end as cancelled.
    pub(crate) fn finish(self) {
        if self.only_clean || self.shared.aborts() {
            for (item, _) in self.items.iter().zip(&self.ended).filter(|(_, ended)| !**ended) {
                self.shared.report(JobEvent::Ended(Box::new(self.outcome(item, ObjectState::Cancelled))));
            }
        }
    }

    /// The outcome of an object in this state, without a method.
    pub(crate) fn outcome(&self, item: &JobItem, state: ObjectState) -> ObjectOutcome {
        ObjectOutcome {
            size: item.size,
            source_etag: item.etag.clone(),
            state,
            started_at: self.started_at,
            ..ObjectOutcome::of(item.id, now())
        }
    }
}

impl Drop for LocationJob {
    fn drop(&mut self) {
        self.shared.end();
    }
}
