//! Jobs: many objects concurrently, with commands from and results to the control plane.
//!
//! A job runs on the engine's runtime and talks through a queue of [`JobEvent`]s, drained in bulk by [`Job::wait`] from
//! any thread. The queue is bounded by the job: two events per item at most (and one more for an item that starts
//! over).

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use seqferry_client::budget::FlowId;
use seqferry_client::{
    Endpoint, LeaseHolder, RecordedUpload, RequestError, RequestMetrics, RetryContext, RetryPolicy, RetryingClient,
    UploadJournal,
};
use seqferry_store::{DeferredSync, Scope};
use tokio::runtime::Handle;
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::CancellationToken;
use tracing::field::Empty;
use tracing::{Instrument as _, Span, debug_span};

use crate::LONGEST_WAIT;
use crate::clock::now;
use crate::history::VersionHistory;
use crate::object::{DataPath, JobItem, Object, Policy};
use crate::object_outcome::{CopyMethod, ObjectFailure, ObjectOutcome, ObjectState, VerificationLevel};
use crate::progress::{Counters, Progress};
use crate::schedule::{JobSlots, ObjectTurn, Scheduler};

/// Objects of one job under way at a time: two thirds of the bound for a process, so that a job whose service has
/// stopped answering leaves space for others.
const MAX_JOB_OBJECTS: usize = 1024;
/// Objects among them that wait for their first request: enough that the budget always has one to start. An object that
/// only waits costs memory, so there are no more.
const MAX_QUEUED: usize = 128;
/// Number of queued events that wakes the control plane.
const EVENT_BATCH: usize = 500;

/// Event that a job reports to its caller.
#[derive(Debug, Clone)]
pub enum JobEvent {
    /// An upload was created, or is about to be completed: record it, then acknowledge it.
    RecordUpload {
        /// Item id.
        id: u64,
        /// Record of the upload.
        upload: RecordedUpload,
    },
    /// An object has ended.
    Ended(Box<ObjectOutcome>),
}

/// Treatment of open uploads and unfinished items when a job is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopMode {
    /// Leave uploads open for a later job; unfinished items have no outcome.
    Suspend,
    /// Abort uploads; unfinished items end as cancelled.
    Cancel,
}

/// See the module.
#[derive(Debug)]
pub struct Job {
    shared: Arc<JobState>,
}

/// State shared by the work of a job and its caller.
#[derive(Debug)]
pub(crate) struct JobState {
    events: Mutex<EventQueue>,
    came: Condvar,
    acknowledged: Mutex<HashMap<u64, Arc<Notify>>>,
    pub(crate) slots: JobSlots,
    pub(crate) cancel: CancellationToken,
    abort: AtomicBool,
    failure: Mutex<Option<ObjectFailure>>,
    pub(crate) counters: Counters,
    metrics: Arc<RequestMetrics>,
    /// Lease that the job needs to write. None: this process is the only one that could write.
    lease: Option<Arc<LeaseHolder>>,
    /// Sync of what the job writes, which comes before an end is reported. None: each write is synced by itself.
    deferred_sync: Option<Box<dyn DeferredSync>>,
}

#[derive(Debug, Default)]
struct EventQueue {
    events: VecDeque<JobEvent>,
    /// A waiting acknowledgement is worth waking the control plane for immediately.
    urgent: bool,
    ended: bool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl JobState {
    /// The journal of the uploads of an item.
    pub(crate) fn journal(&self, id: u64) -> ItemJournal<'_> {
        ItemJournal { state: self, id }
    }

    /// Stop the job for the first such reason.
    pub(crate) fn fail(&self, failure: Option<ObjectFailure>) {
        let mut first = lock(&self.failure);
        *first = first.take().or(failure);
        self.cancel.cancel();
    }

    /// True when a write may start now: the lease allows it, or the job has none.
    pub(crate) fn may_write(&self) -> bool {
        self.lease.as_ref().is_none_or(|lease| lease.may_write())
    }

    /// True when open uploads are to be aborted because the job was cancelled.
    pub(crate) fn aborts(&self) -> bool {
        self.abort.load(Ordering::SeqCst)
    }

    /// True when a failure has stopped the job as a whole.
    pub(crate) fn has_failed(&self) -> bool {
        lock(&self.failure).is_some()
    }

    /// Ends the job after all work has ended and every event was reported.
    pub(crate) fn end(&self) {
        lock(&self.events).ended = true;
        self.came.notify_all();
    }

    pub(crate) fn report(&self, event: JobEvent) {
        let mut queue = lock(&self.events);
        queue.urgent |= matches!(event, JobEvent::RecordUpload { .. });
        queue.events.push_back(event);
        if queue.urgent || queue.events.len() >= EVENT_BATCH {
            self.came.notify_all();
        }
    }
}

impl JobState {
    /// Sync the files that are about to be reported as done. Those that cannot be made sure of have failed.
    fn sync_written(&self, events: &mut [JobEvent]) {
        let Some(deferred_sync) = &self.deferred_sync else { return };
        let written = events.iter_mut().filter_map(|event| match event {
            JobEvent::Ended(outcome) if outcome.state == ObjectState::Done => Some(outcome),
            _ => None,
        });
        let mut written = written.peekable();
        if written.peek().is_none() {
            return;
        }
        if let Err(error) = deferred_sync.sync() {
            for outcome in written {
                outcome.state = ObjectState::Failed;
                outcome.failure = Some(error.clone().into());
            }
        }
    }
}

/// Journal of the uploads of one item: hands the upload to the caller, and waits until it is on disk.
#[derive(Debug)]
pub(crate) struct ItemJournal<'a> {
    state: &'a JobState,
    id: u64,
}

impl UploadJournal for ItemJournal<'_> {
    async fn record(&self, upload: &RecordedUpload) -> Result<(), RequestError> {
        let recorded = Arc::new(Notify::new());
        lock(&self.state.acknowledged).insert(self.id, Arc::clone(&recorded));
        self.state.report(JobEvent::RecordUpload { id: self.id, upload: upload.clone() });
        tokio::select! {
            biased;
            () = self.state.cancel.cancelled() => Err(RequestError::Cancelled),
            () = recorded.notified() => Ok(()),
        }
    }
}

/// Specification of a job: endpoints, policies, items and lease.
#[derive(Debug)]
pub struct JobSpec {
    /// Endpoint of the source objects.
    pub source: Endpoint,
    /// Endpoint of the target objects.
    pub target: Endpoint,
    /// Rules that apply to all items.
    pub policy: Policy,
    /// Retry policy of the job's requests.
    pub retry: RetryPolicy,
    /// Its objects.
    pub items: Vec<JobItem>,
    /// Lease of the job: it writes only while it holds the lease, and waits while it does not.
    pub lease: Option<Arc<LeaseHolder>>,
}

/// Clients, items and shared state of a job whose work has not begun.
pub(crate) struct PreparedJob {
    /// State shared with the caller. The work calls [`JobState::end`] last.
    pub(crate) shared: Arc<JobState>,
    pub(crate) source: RetryingClient,
    pub(crate) target: RetryingClient,
    pub(crate) policy: Policy,
    pub(crate) items: Vec<JobItem>,
    /// Tracing span that the work runs in.
    pub(crate) span: Span,
}

impl JobSpec {
    /// The clients of both sides and the state shared with the caller.
    pub(crate) fn prepare(self, scheduler: &Arc<Scheduler>) -> PreparedJob {
        let Self { source, target, mut policy, retry, items, lease } = self;
        let together = policy.defer_sync && !policy.no_sync;
        let deferred_sync = if together { target.store.deferred_sync(&policy.target_bucket) } else { None };
        policy.defer_sync = policy.no_sync || deferred_sync.is_some();
        let budget = scheduler.budget();
        let metrics = Arc::new(RequestMetrics::default());
        let cancel = CancellationToken::new();
        let flow = if policy.transfer.is_empty() { budget.job() } else { FlowId::named(&policy.transfer) };
        let requests = |endpoint| {
            RetryingClient::new(endpoint, Arc::clone(budget), retry, cancel.clone(), Arc::clone(&metrics)).of(flow)
        };
        let sends_bodies = policy.data_path == DataPath::Stream;
        for note in source.store.take_notes(false).into_iter().chain(target.store.take_notes(sends_bodies)) {
            metrics.note(note);
        }
        let (source, mut target) = (requests(source), requests(target));
        if let Some(holder) = &lease {
            target = target.with_lease(Arc::clone(holder));
        }
        let (source, target) = (source.within(&policy.source_prefix), target.within(&policy.target_prefix));
        let shared = Arc::new(JobState {
            events: Mutex::default(),
            came: Condvar::new(),
            acknowledged: Mutex::default(),
            slots: JobSlots::new(Arc::clone(scheduler), flow, cancel.clone()),
            cancel,
            abort: AtomicBool::new(false),
            failure: Mutex::default(),
            counters: Counters::default(),
            metrics,
            lease,
            deferred_sync,
        });
        let span = debug_span!("job", transfer = policy.transfer, objects = items.len());
        PreparedJob { shared, source, target, policy, items, span }
    }
}

impl Job {
    /// Start copying.
    pub fn start(runtime: &Handle, scheduler: &Arc<Scheduler>, spec: JobSpec) -> Self {
        let PreparedJob { shared, source, target, policy, items, span } = spec.prepare(scheduler);
        let run = Arc::new(JobRun { scheduler: Arc::clone(scheduler), policy, source, target });
        runtime.spawn(run_all(Arc::clone(&shared), run, items).instrument(span));
        Self::of(shared)
    }

    /// The job of work that has begun.
    pub(crate) fn of(shared: Arc<JobState>) -> Self {
        Self { shared }
    }

    /// Events in bulk: immediately when an acknowledgement is waited for, else when there are many, the job has ended,
    /// or `timeout` is over. A minute is the longest wait.
    ///
    /// An object is handed out as done only once it is on the disk.
    pub fn wait(&self, timeout: Duration) -> Vec<JobEvent> {
        let mut events = self.next_events(timeout);
        self.shared.sync_written(&mut events);
        events
    }

    fn next_events(&self, timeout: Duration) -> Vec<JobEvent> {
        let deadline = Instant::now() + timeout.min(LONGEST_WAIT);
        let mut queue = lock(&self.shared.events);
        while !(queue.urgent || queue.events.len() >= EVENT_BATCH || queue.ended) {
            let Some(left) = deadline.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) else {
                break;
            };
            queue = self.shared.came.wait_timeout(queue, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        queue.urgent = false;
        queue.events.drain(..).collect()
    }

    /// True when all work has ended and all events were handed out.
    pub fn is_finished(&self) -> bool {
        let queue = lock(&self.shared.events);
        queue.ended && queue.events.is_empty()
    }

    /// Failure that stopped the job as a whole, if any.
    pub fn failure(&self) -> Option<ObjectFailure> {
        lock(&self.shared.failure).clone()
    }

    /// A snapshot.
    pub fn progress(&self) -> Progress {
        self.shared.counters.snapshot(&self.shared.metrics)
    }

    /// Notes for the user about the job as a whole, such as workarounds for faults of a service.
    pub fn notes(&self) -> Vec<String> {
        self.shared.metrics.notes()
    }

    /// The uploads of these items are on disk.
    pub fn acknowledge(&self, ids: &[u64]) {
        let mut waiting = lock(&self.shared.acknowledged);
        for id in ids {
            if let Some(recorded) = waiting.remove(id) {
                recorded.notify_one();
            }
        }
    }

    /// The job's work was found to be this process's own in this epoch of the lease: it may write.
    pub fn admit(&self, epoch: u64) {
        if let Some(lease) = &self.shared.lease {
            lease.admit(epoch);
        }
    }

    /// Ends all writes of this job here, aborts of uploads included, because another process has its work. A stop must
    /// follow.
    pub fn disown(&self) {
        if let Some(lease) = &self.shared.lease {
            lease.disown();
        }
    }

    /// Stop within a second. A later [`StopMode::Cancel`] overrules an earlier [`StopMode::Suspend`] for items that
    /// have not ended.
    pub fn stop(&self, how: StopMode) {
        if how == StopMode::Cancel {
            self.shared.abort.store(true, Ordering::SeqCst);
        }
        self.shared.cancel.cancel();
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        // The receiver has gone: leave everything as a kill would, resumable.
        self.shared.cancel.cancel();
    }
}

struct JobRun {
    scheduler: Arc<Scheduler>,
    policy: Policy,
    source: RetryingClient,
    target: RetryingClient,
}

async fn run_all(shared: Arc<JobState>, run: Arc<JobRun>, items: Vec<JobItem>) {
    let slots = ObjectSlots {
        room: Arc::new(Semaphore::new(run.policy.max_objects.unwrap_or(MAX_JOB_OBJECTS))),
        queue: Arc::new(Semaphore::new(MAX_QUEUED)),
    };
    let mut tasks = tokio::task::JoinSet::new();
    let histories: Box<dyn Iterator<Item = VersionHistory> + Send> = if run.policy.in_order {
        Box::new(VersionHistory::of_each(items).into_iter())
    } else {
        Box::new(items.into_iter().map(VersionHistory::of_one))
    };
    for history in histories {
        let Some(start) = slots.acquire(&shared, &run).await else { break };
        // Reap as we go, so that finished tasks do not pile up.
        while tasks.try_join_next().is_some() {}
        let (shared, run, slots) = (Arc::clone(&shared), Arc::clone(&run), slots.clone());
        tasks.spawn(run_history(shared, run, slots, history, start).in_current_span());
    }
    while tasks.join_next().await.is_some() {}
    shared.end();
}

/// Bounds of the objects of a job that are under way.
#[derive(Clone)]
struct ObjectSlots {
    room: Arc<Semaphore>,
    queue: Arc<Semaphore>,
}

impl ObjectSlots {
    /// Wait until one more object may begin.
    async fn acquire(&self, shared: &JobState, run: &JobRun) -> Option<(RetryContext, ObjectTurn)> {
        let under_way = Arc::clone(&self.room).acquire_owned().await.ok()?;
        let queued = Arc::clone(&self.queue).acquire_owned().await.ok()?;
        // A stopped job only tidies up, and does not wait for other jobs' objects.
        let of_process = tokio::select! {
            biased;
            () = shared.cancel.cancelled() => None,
            permit = run.scheduler.object() => permit,
        };
        let retry_context = RetryContext::queued(queued, run.scheduler.rank());
        let turn = ObjectTurn::new(Arc::clone(&self.room), Arc::clone(&run.scheduler), under_way, of_process);
        Some((retry_context, turn))
    }
}

/// Copy the versions of an object, each after the one before it.
async fn run_history(
    shared: Arc<JobState>,
    run: Arc<JobRun>,
    slots: ObjectSlots,
    mut history: VersionHistory,
    start: (RetryContext, ObjectTurn),
) {
    let mut start = Some(start);
    while let Some(item) = history.next() {
        let Some((retry_context, turn)) = (match start.take() {
            Some(start) => Some(start),
            None => slots.acquire(&shared, &run).await,
        }) else {
            return;
        };
        let span = object_span(&item);
        let outcome = run_one(&shared, &run, item, retry_context, turn).instrument(span).await;
        let Some(outcome) = outcome else { continue };
        let given_up = history.note_outcome(&outcome);
        shared.report(JobEvent::Ended(Box::new(outcome)));
        for outcome in given_up {
            shared.counters.count(outcome.state, outcome.size);
            shared.report(JobEvent::Ended(Box::new(outcome)));
        }
    }
}

fn object_span(item: &JobItem) -> Span {
    let (key, size) = (item.source_key.as_str(), item.size);
    debug_span!("object", id = item.id, key, size, state = Empty, method = Empty, attempts = Empty, code = Empty)
}

/// Note in the span of the object how it has ended.
fn trace_outcome(outcome: &ObjectOutcome) {
    let span = Span::current();
    span.record("state", outcome.state.as_str()).record("method", outcome.method.as_str());
    span.record("attempts", outcome.attempts);
    if let Some(failure) = &outcome.failure {
        span.record("code", failure.code.as_str());
    }
}

/// Returns the outcome of the object, to be reported; None when it was stopped before its end.
async fn run_one(
    shared: &JobState,
    run: &JobRun,
    item: JobItem,
    retry_context: RetryContext,
    turn: ObjectTurn,
) -> Option<ObjectOutcome> {
    let started_at = now();
    let active = shared.counters.begin(item.id, &item.source_key, item.size);
    if let Some(found) = item.written.as_ref().filter(|_| !shared.cancel.is_cancelled() && !run.policy.only_clean) {
        let outcome = found.outcome(&item);
        shared.counters.end(&active, Some(outcome.state));
        trace_outcome(&outcome);
        return Some(outcome);
    }
    let journal = shared.journal(item.id);
    let mut object = Object::new(
        &run.policy,
        (&run.source, &run.target),
        (&journal, &shared.slots, turn),
        Arc::clone(&active),
        item,
        retry_context,
    );
    let stopped = if shared.cancel.is_cancelled() { None } else { object.run().await };
    let outcome = match stopped {
        Some(outcome) if outcome.failure.as_ref().is_some_and(|failure| failure.scope == Scope::Job) => {
            // The failure applies to all objects, and is not this object's own: it has no outcome.
            shared.fail(outcome.failure);
            object.upload.abort(true).await;
            None
        }
        Some(outcome) => Some(outcome),
        None if run.policy.only_clean || shared.aborts() => {
            object.upload.abort(true).await;
            if !shared.may_write() {
                // Its upload may still be open: the object has no outcome, and the next job of its owner cleans up.
                shared.counters.end(&active, None);
                return None;
            }
            Some(ObjectOutcome {
                id: object.item.id,
                size: object.item.size,
                source_etag: object.item.etag.clone(),
                state: ObjectState::Cancelled,
                method: CopyMethod::None,
                started_at,
                ended_at: now(),
                attempts: 1,
                retries: object.retry_context.retries(),
                target_etag: None,
                target_version_id: None,
                checksum: None,
                verified: VerificationLevel::No,
                not_carried: Vec::new(),
                failure: None,
            })
        }
        None => {
            if shared.has_failed() {
                object.upload.abort(true).await;
            }
            None
        }
    };
    shared.counters.end(&active, outcome.as_ref().map(|outcome| outcome.state));
    if let Some(outcome) = &outcome {
        trace_outcome(outcome);
    }
    outcome
}
