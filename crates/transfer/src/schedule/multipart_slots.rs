//! Slots for objects that are streamed in parts: a few at a time, shared fairly by the flows.
//!
//! Memory goes to parts in the order of their requests, so objects that begin together progress together. All of
//! them would be unfinished until the end, and a kill would find none done. A few objects have enough parts to fill the
//! memory.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use seqferry_client::budget::{FairQueue, FlowId};
use tokio::sync::oneshot;

/// Number of slots. With several, the parts of the next object are sent while the last parts of others are, and while
/// the service assembles others.
const AT_A_TIME: usize = 4;

/// See the module.
#[derive(Debug)]
pub(super) struct MultipartSlots {
    state: Mutex<SlotState>,
}

#[derive(Debug)]
struct SlotState {
    free: usize,
    waiting: FairQueue<FlowId, oneshot::Sender<MultipartPermit>>,
}

/// Permit to stream one object in parts; released on drop.
#[derive(Debug)]
pub struct MultipartPermit {
    slots: Arc<MultipartSlots>,
    held: bool,
}

impl Drop for MultipartPermit {
    fn drop(&mut self) {
        if self.held {
            self.slots.end();
        }
    }
}

impl Default for MultipartSlots {
    fn default() -> Self {
        Self { state: Mutex::new(SlotState { free: AT_A_TIME, waiting: FairQueue::default() }) }
    }
}

impl MultipartSlots {
    fn state(&self) -> MutexGuard<'_, SlotState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the permit.
    pub(super) async fn acquire(self: &Arc<Self>, flow: FlowId) -> MultipartPermit {
        let (wake, woken) = oneshot::channel();
        {
            let mut state = self.state();
            state.waiting.push(flow, 0, wake);
            self.start(&mut state);
        }
        // The sender stays in the queue until it is used.
        woken.await.unwrap_or_else(|_| MultipartPermit { slots: Arc::clone(self), held: false })
    }

    fn end(self: &Arc<Self>) {
        let mut state = self.state();
        state.free += 1;
        self.start(&mut state);
    }

    fn start(self: &Arc<Self>, state: &mut SlotState) {
        while state.free > 0
            && let Some(wake) = state.waiting.pop()
        {
            match wake.send(MultipartPermit { slots: Arc::clone(self), held: true }) {
                Ok(()) => state.free -= 1,
                // The waiter is gone. A drop of the permit as it is would take the lock again.
                Err(mut permit) => permit.held = false,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn a_few_at_a_time_and_jobs_in_turn() {
        let (big_flow, small_flow) = (FlowId::named("big"), FlowId::named("small"));
        let slots = Arc::new(MultipartSlots::default());
        let mut under_way = Vec::new();
        for _ in 0..AT_A_TIME {
            under_way.push(slots.acquire(big_flow).await);
        }
        let mut big: Vec<_> = (0..3).map(|_| Box::pin(slots.acquire(big_flow))).collect();
        // In the order in which they are requested, which is when they are first checked.
        assert!(big.iter_mut().all(|slot| slot.now_or_never().is_none()));
        let mut small = Box::pin(slots.acquire(small_flow));
        assert!((&mut small).now_or_never().is_none());

        under_way.pop();
        let first = (&mut big[0]).now_or_never().expect("the first of the big job");
        assert!((&mut small).now_or_never().is_none());
        drop(first);
        let other = small.now_or_never().expect("then the other job");
        assert!((&mut big[1]).now_or_never().is_none());

        // One that gives up is skipped, whether its turn had come or not.
        drop(big.remove(1));
        drop(other);
        drop(big);
        drop(under_way);
        assert_eq!(slots.state().free, AT_A_TIME);
    }
}
