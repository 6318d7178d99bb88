//! Scheduling of transfers: how many objects are under way, which of them come first, and which are streamed in parts.
//!
//! One [`Scheduler`] for each process. The budget of `crates/store` serves requests, memory and bandwidth for every
//! transfer alike. This module decides how many objects make requests at a time, and in which order.

mod multipart_slots;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use seqferry_client::Budget;
use seqferry_client::RequestError;
use seqferry_client::budget::FlowId;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use multipart_slots::MultipartSlots;

pub use multipart_slots::MultipartPermit;

/// Objects under way at a time. 1,536 small ones of 0.15 s each are 10,000 per second, more than a process can do;
/// large ones have many requests each. Without this bound a service that answers slowly would fill the memory with
/// small requests.
const OBJECTS: usize = 1536;

/// See the module.
#[derive(Debug)]
pub struct Scheduler {
    budget: Arc<Budget>,
    objects: Arc<Semaphore>,
    begun: AtomicU64,
    slots: Arc<MultipartSlots>,
}

/// Permit for one object in progress; released on drop.
#[derive(Debug)]
pub struct ObjectPermit {
    _permit: OwnedSemaphorePermit,
}

impl Scheduler {
    /// A scheduler of transfers within this budget.
    pub fn new(budget: Arc<Budget>) -> Arc<Self> {
        let (objects, slots) = (Arc::new(Semaphore::new(OBJECTS)), Arc::default());
        Arc::new(Self { budget, objects, begun: AtomicU64::new(0), slots })
    }

    /// Budget that all requests draw from.
    pub fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// Waits for the permit of one more object. Waiters are served in their order.
    pub async fn object(&self) -> Option<ObjectPermit> {
        Arc::clone(&self.objects).acquire_owned().await.ok().map(|permit| ObjectPermit { _permit: permit })
    }

    /// Rank of an object that begins now. Requests of a flow with the lowest rank are sent first.
    pub fn rank(&self) -> u64 {
        self.begun.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// Permit of one object, within its job and within the process. It is released while the object only waits.
#[derive(Debug)]
pub(crate) struct ObjectTurn {
    room: Arc<Semaphore>,
    scheduler: Arc<Scheduler>,
    held: Option<(OwnedSemaphorePermit, Option<ObjectPermit>)>,
}

impl ObjectTurn {
    /// Combines these permits. `room` is the semaphore of the job.
    pub(crate) fn new(
        room: Arc<Semaphore>,
        scheduler: Arc<Scheduler>,
        of_job: OwnedSemaphorePermit,
        of_process: Option<ObjectPermit>,
    ) -> Self {
        Self { room, scheduler, held: Some((of_job, of_process)) }
    }

    /// Releases the permit until [`Self::take`].
    pub(crate) fn give_up(&mut self) {
        self.held = None;
    }

    /// Waits for the permit again.
    pub(crate) async fn take(&mut self, cancel: &CancellationToken) -> Result<(), RequestError> {
        if self.held.is_some() {
            return Ok(());
        }
        let permits = async {
            let of_job = Arc::clone(&self.room).acquire_owned().await.map_err(|_closed| RequestError::Cancelled)?;
            Ok((of_job, self.scheduler.object().await))
        };
        let held = tokio::select! {
            biased;
            () = cancel.cancelled() => Err(RequestError::Cancelled),
            held = permits => held,
        };
        self.held = Some(held?);
        Ok(())
    }
}

/// The multipart slots as one job uses them.
#[derive(Debug, Clone)]
pub(crate) struct JobSlots {
    scheduler: Arc<Scheduler>,
    flow: FlowId,
    cancel: CancellationToken,
}

impl JobSlots {
    /// Slots for the objects of a flow, until `cancel`.
    pub(crate) fn new(scheduler: Arc<Scheduler>, flow: FlowId, cancel: CancellationToken) -> Self {
        Self { scheduler, flow, cancel }
    }

    /// Waits until one more object may be streamed in parts.
    pub(crate) async fn multipart(&self) -> Result<MultipartPermit, RequestError> {
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => Err(RequestError::Cancelled),
            permit = self.scheduler.slots.acquire(self.flow) => Ok(permit),
        }
    }
}
