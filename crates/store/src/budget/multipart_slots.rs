//! Which objects may be streamed in parts: a few at a time, and jobs in turn.
//!
//! Memory goes to parts in the order in which they ask for it, so objects that are begun together come forward together: all would
//! be in the making until the end, and a kill would find none of them done. A few have parts enough to fill the memory.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use super::FlowId;
use super::fair_queue::FairQueue;

/// At a time: the next one's parts are on their way while the last parts of others are, and while the service puts others together.
const AT_A_TIME: usize = 4;

/// See the module.
#[derive(Debug)]
pub(super) struct MultipartSlots {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    free: usize,
    waiting: FairQueue<FlowId, oneshot::Sender<MultipartPermit>>,
}

/// The right to read one object in parts. Given back when it is dropped.
#[derive(Debug)]
pub struct MultipartPermit {
    streams: Arc<MultipartSlots>,
    held: bool,
}

impl Drop for MultipartPermit {
    fn drop(&mut self) {
        if self.held {
            self.streams.end();
        }
    }
}

impl Default for MultipartSlots {
    fn default() -> Self {
        Self { state: Mutex::new(State { free: AT_A_TIME, waiting: FairQueue::default() }) }
    }
}

impl MultipartSlots {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wait for the right.
    pub(super) async fn turn(self: &Arc<Self>, job: FlowId) -> MultipartPermit {
        let (wake, woken) = oneshot::channel();
        {
            let mut state = self.state();
            state.waiting.push(job, 0, wake);
            self.start(&mut state);
        }
        // The sender stays in the queue until it is used.
        woken.await.unwrap_or_else(|_| MultipartPermit { streams: Arc::clone(self), held: false })
    }

    fn end(self: &Arc<Self>) {
        let mut state = self.state();
        state.free += 1;
        self.start(&mut state);
    }

    fn start(self: &Arc<Self>, state: &mut State) {
        while state.free > 0
            && let Some(wake) = state.waiting.pop()
        {
            match wake.send(MultipartPermit { streams: Arc::clone(self), held: true }) {
                Ok(()) => state.free -= 1,
                // Who waited has gone. Dropping it as it is would take the lock again.
                Err(mut permit) => permit.held = false,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    const BIG: FlowId = FlowId(1);
    const SMALL: FlowId = FlowId(2);

    #[tokio::test]
    async fn a_few_at_a_time_and_jobs_in_turn() {
        let streams = Arc::new(MultipartSlots::default());
        let mut under_way = Vec::new();
        for _ in 0..AT_A_TIME {
            under_way.push(streams.turn(BIG).await);
        }
        let mut big: Vec<_> = (0..3).map(|_| Box::pin(streams.turn(BIG))).collect();
        // In the order in which they are asked for, which is when they are first looked at.
        assert!(big.iter_mut().all(|turn| turn.now_or_never().is_none()));
        let mut small = Box::pin(streams.turn(SMALL));
        assert!((&mut small).now_or_never().is_none());

        under_way.pop();
        let first = (&mut big[0]).now_or_never().expect("the first of the big job");
        assert!((&mut small).now_or_never().is_none());
        drop(first);
        let other = small.now_or_never().expect("then the other job");
        assert!((&mut big[1]).now_or_never().is_none());

        // One that gives up is passed over, whether its turn had come or not.
        drop(big.remove(1));
        drop(other);
        drop(big);
        drop(under_way);
        assert_eq!(streams.state().free, AT_A_TIME);
    }
}
