//! Limits on clients of the control socket: slow clients, and clients that send nothing, do not block the others.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_util::sync::CancellationToken;

use super::requests::ControlRequest;

/// Clients that have not sent their request yet. Another one takes the place of the oldest.
const MAX_READERS: usize = 64;
/// Requests under way that are answered from memory and the disk of this machine.
const MAX_QUICK: usize = 16;
/// Requests under way that ask the bucket.
const MAX_BUCKET: usize = 16;
/// Requests under way that wait for uploads.
const MAX_WAITS: usize = 64;

/// Kind of a request, by what it waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RequestKind {
    Quick,
    Bucket,
    Wait,
}

fn kind_of(request: &ControlRequest) -> RequestKind {
    match request {
        ControlRequest::Status | ControlRequest::HandOver { .. } => RequestKind::Quick,
        ControlRequest::Ls { .. }
        | ControlRequest::Files { .. }
        | ControlRequest::Refresh { .. }
        | ControlRequest::Conflicts
        | ControlRequest::Flush { wait: false, .. } => RequestKind::Bucket,
        ControlRequest::Flush { wait: true, .. } | ControlRequest::Drain => RequestKind::Wait,
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct ClientLimits {
    readers: Mutex<VecDeque<CancellationToken>>,
    quick: Semaphore,
    bucket: Semaphore,
    waits: Semaphore,
}

impl Default for ClientLimits {
    fn default() -> Self {
        Self {
            readers: Mutex::default(),
            quick: Semaphore::new(MAX_QUICK),
            bucket: Semaphore::new(MAX_BUCKET),
            waits: Semaphore::new(MAX_WAITS),
        }
    }
}

/// A client whose request is read. It gives its place up when this is dropped.
pub(super) struct RequestSlot<'a> {
    client_limits: &'a ClientLimits,
    /// Cancelled when another client takes the place.
    pub(super) close: CancellationToken,
}

impl ClientLimits {
    /// Begin to read the request of a client.
    pub(super) fn begin_read(&self) -> RequestSlot<'_> {
        let close = CancellationToken::new();
        let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        readers.retain(|reader| !reader.is_cancelled());
        if readers.len() >= MAX_READERS
            && let Some(oldest) = readers.pop_front()
        {
            oldest.cancel();
        }
        readers.push_back(close.clone());
        RequestSlot { client_limits: self, close }
    }

    /// The place of a request, held until it is answered.
    ///
    /// # Errors
    /// A sentence for the client, when as many of the kind are under way as there may be.
    pub(super) fn admit(&self, request: &ControlRequest) -> Result<SemaphorePermit<'_>, String> {
        let (client_limits, what) = match kind_of(request) {
            RequestKind::Quick => (&self.quick, "commands"),
            RequestKind::Bucket => (&self.bucket, "commands that ask the bucket"),
            RequestKind::Wait => (&self.waits, "commands that wait for uploads"),
        };
        client_limits
            .try_acquire()
            .map_err(|_| format!("too many {what} are under way: try again when one of them has ended"))
    }

    /// Wait until no request is under way.
    pub(super) async fn wait_until_idle(&self) {
        for (client_limits, all) in [(&self.quick, MAX_QUICK), (&self.bucket, MAX_BUCKET), (&self.waits, MAX_WAITS)] {
            let all = u32::try_from(all).unwrap_or(u32::MAX);
            let _idle = client_limits.acquire_many(all).await;
        }
    }
}

impl Drop for RequestSlot<'_> {
    fn drop(&mut self) {
        // Those that are cancelled leave with the next one that comes.
        self.close.cancel();
        let mut readers = self.client_limits.readers.lock().unwrap_or_else(PoisonError::into_inner);
        readers.retain(|reader| !reader.is_cancelled());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(text: &str) -> ControlRequest {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn requests_of_one_kind_leave_room_for_the_others() {
        let client_limits = ClientLimits::default();
        let wait = request(r#"{"command": "flush", "path": null, "wait": true}"#);
        let ask = request(r#"{"command": "ls", "path": "/runs"}"#);
        let waiting: Vec<_> = (0..MAX_WAITS).map(|_| client_limits.admit(&wait).unwrap()).collect();
        let asking: Vec<_> = (0..MAX_BUCKET).map(|_| client_limits.admit(&ask).unwrap()).collect();
        assert!(client_limits.admit(&wait).unwrap_err().contains("too many commands that wait for uploads"));
        assert!(client_limits.admit(&request(r#"{"command": "drain"}"#)).is_err());
        assert!(
            client_limits.admit(&request(r#"{"command": "conflicts"}"#)).unwrap_err().contains("that ask the bucket")
        );
        drop(client_limits.admit(&request(r#"{"command": "status"}"#)).unwrap());
        drop((waiting, asking));
        drop(client_limits.admit(&wait).unwrap());
        drop(client_limits.admit(&ask).unwrap());
    }

    #[test]
    fn a_client_that_sends_nothing_gives_its_place_to_a_new_one() {
        let client_limits = ClientLimits::default();
        let silent: Vec<_> = (0..MAX_READERS).map(|_| client_limits.begin_read()).collect();
        let new = client_limits.begin_read();
        assert!(silent[0].close.is_cancelled());
        assert!(silent[1..].iter().chain([&new]).all(|reader| !reader.close.is_cancelled()));
        drop(silent);
        let more: Vec<_> = (1..MAX_READERS).map(|_| client_limits.begin_read()).collect();
        assert!(more.iter().chain([&new]).all(|reader| !reader.close.is_cancelled()));
        drop((more, new));
        assert!(client_limits.readers.lock().unwrap().is_empty());
    }
}
