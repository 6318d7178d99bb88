//! Places for clients of the control: those that wait for long, or that send nothing, keep no other one out.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_util::sync::CancellationToken;

use super::requests::Request;

/// Clients that have not sent their request yet. Another one takes the place of the oldest.
const READERS: usize = 64;
/// Requests under way that are answered from memory and the disk of this machine.
const QUICK: usize = 16;
/// Requests under way that ask the bucket.
const BUCKET: usize = 16;
/// Requests under way that wait for uploads.
const WAITS: usize = 64;

/// Kind of a request, by what it waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Quick,
    Bucket,
    Wait,
}

fn kind(request: &Request) -> Kind {
    match request {
        Request::Status
        | Request::Epochs
        | Request::Freeze
        | Request::Epoch { .. }
        | Request::Forget { .. }
        | Request::HandOver { .. } => Kind::Quick,
        Request::Ls { .. } | Request::Refresh { .. } | Request::Conflicts | Request::Flush { wait: false, .. } => {
            Kind::Bucket
        }
        Request::Flush { wait: true, .. } | Request::Drain => Kind::Wait,
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Places {
    readers: Mutex<VecDeque<CancellationToken>>,
    quick: Semaphore,
    bucket: Semaphore,
    waits: Semaphore,
}

impl Default for Places {
    fn default() -> Self {
        Self {
            readers: Mutex::default(),
            quick: Semaphore::new(QUICK),
            bucket: Semaphore::new(BUCKET),
            waits: Semaphore::new(WAITS),
        }
    }
}

/// A client whose request is read. It gives its place up when this is dropped.
pub(super) struct Reading<'a> {
    places: &'a Places,
    /// Cancelled when another client takes the place.
    pub(super) close: CancellationToken,
}

impl Places {
    /// Begin to read the request of a client.
    pub(super) fn read(&self) -> Reading<'_> {
        let close = CancellationToken::new();
        let mut readers = self.readers.lock().unwrap_or_else(PoisonError::into_inner);
        readers.retain(|reader| !reader.is_cancelled());
        if readers.len() >= READERS
            && let Some(oldest) = readers.pop_front()
        {
            oldest.cancel();
        }
        readers.push_back(close.clone());
        Reading { places: self, close }
    }

    /// The place of a request, held until it is answered.
    ///
    /// # Errors
    /// A sentence for the client, when as many of the kind are under way as there may be.
    pub(super) fn take(&self, request: &Request) -> Result<SemaphorePermit<'_>, String> {
        let (places, what) = match kind(request) {
            Kind::Quick => (&self.quick, "commands"),
            Kind::Bucket => (&self.bucket, "commands that ask the bucket"),
            Kind::Wait => (&self.waits, "commands that wait for uploads"),
        };
        places.try_acquire().map_err(|_| format!("too many {what} are under way: try again when one of them has ended"))
    }

    /// Wait until no request is under way.
    pub(super) async fn idle(&self) {
        for (places, all) in [(&self.quick, QUICK), (&self.bucket, BUCKET), (&self.waits, WAITS)] {
            let all = u32::try_from(all).unwrap_or(u32::MAX);
            let _idle = places.acquire_many(all).await;
        }
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        // Those that are cancelled leave with the next one that comes.
        self.close.cancel();
        let mut readers = self.places.readers.lock().unwrap_or_else(PoisonError::into_inner);
        readers.retain(|reader| !reader.is_cancelled());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(text: &str) -> Request {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn requests_of_one_kind_leave_room_for_the_others() {
        let places = Places::default();
        let wait = request(r#"{"command": "flush", "path": null, "wait": true}"#);
        let ask = request(r#"{"command": "ls", "path": "/runs"}"#);
        let waiting: Vec<_> = (0..WAITS).map(|_| places.take(&wait).unwrap()).collect();
        let asking: Vec<_> = (0..BUCKET).map(|_| places.take(&ask).unwrap()).collect();
        assert!(places.take(&wait).unwrap_err().contains("too many commands that wait for uploads"));
        assert!(places.take(&request(r#"{"command": "drain"}"#)).is_err());
        assert!(places.take(&request(r#"{"command": "conflicts"}"#)).unwrap_err().contains("that ask the bucket"));
        for quick in ["status", "epochs", "freeze"] {
            drop(places.take(&request(&format!(r#"{{"command": "{quick}"}}"#))).unwrap());
        }
        drop((waiting, asking));
        drop(places.take(&wait).unwrap());
        drop(places.take(&ask).unwrap());
    }

    #[test]
    fn a_client_that_sends_nothing_gives_its_place_to_a_new_one() {
        let places = Places::default();
        let silent: Vec<_> = (0..READERS).map(|_| places.read()).collect();
        let new = places.read();
        assert!(silent[0].close.is_cancelled());
        assert!(silent[1..].iter().chain([&new]).all(|reader| !reader.close.is_cancelled()));
        drop(silent);
        let more: Vec<_> = (1..READERS).map(|_| places.read()).collect();
        assert!(more.iter().chain([&new]).all(|reader| !reader.close.is_cancelled()));
        drop((more, new));
        assert!(places.readers.lock().unwrap().is_empty());
    }
}
