//! Liveness of a runtime, for the watchdog of the process that it is in.

use std::sync::mpsc;
use std::time::Duration;

use tokio::runtime::Handle;

/// Handle of a runtime that is asked from outside whether it still runs tasks.
#[derive(Debug, Clone)]
pub struct RuntimeProbe(Handle);

impl RuntimeProbe {
    /// A probe of the runtime of this handle.
    pub fn new(runtime: &Handle) -> Self {
        Self(runtime.clone())
    }

    /// Reports whether a new task runs within some time: false when all threads of the runtime are blocked, and after
    /// its end. Blocks the caller that long at most.
    pub fn answers(&self, within: Duration) -> bool {
        let (sender, receiver) = mpsc::sync_channel(1); // has room: sending blocks no thread
        self.0.spawn(async move { sender.send(()).ok() });
        receiver.recv_timeout(within).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Barrier};

    use tokio::runtime::Builder;

    use super::*;

    const SOON: Duration = Duration::from_secs(30);
    const BRIEFLY: Duration = Duration::from_millis(50);

    #[test]
    fn a_runtime_answers_unless_all_its_threads_are_blocked() {
        let runtime = Builder::new_multi_thread().worker_threads(2).build().expect("threads");
        let probe = RuntimeProbe::new(runtime.handle());
        let (begun, end) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(3)));
        let block = || {
            let (begun, end) = (Arc::clone(&begun), Arc::clone(&end));
            runtime.spawn(async move {
                begun.wait();
                end.wait();
            });
        };

        assert!(probe.answers(SOON));
        block();
        begun.wait();
        assert!(probe.answers(SOON), "one thread is free");
        block();
        begun.wait();
        assert!(!probe.answers(BRIEFLY));
        end.wait();
        assert!(probe.answers(SOON));
    }

    #[test]
    fn a_runtime_that_has_ended_does_not_answer() {
        let runtime = Builder::new_multi_thread().worker_threads(1).build().expect("threads");
        let probe = RuntimeProbe::new(runtime.handle());
        runtime.shutdown_background();

        assert!(!probe.answers(SOON));
    }
}
