//! A digest over all bytes, in order, of parts that are read concurrently.
//!
//! MD5 and SHA digests of parts cannot be joined to one over the whole object, or over segments other than the parts.
//! So each part waits here for its turn, while it is being sent. A part that waits holds its memory. The part at its
//! turn never waits for memory, since parts get memory in their order.

use bytes::Bytes;
use tokio::sync::watch;

use crate::verification::{ExpectedDigest, SegmentedDigest};

/// Order in which parts feed one digest over the whole object.
pub(super) struct PartOrder {
    /// Number of the part at its turn.
    turn: watch::Sender<u32>,
    digest: std::sync::Mutex<Option<SegmentedDigest>>,
}

impl PartOrder {
    /// Creates the order; part 1 is the first at its turn.
    pub(super) fn new(reference: &ExpectedDigest) -> Self {
        Self { turn: watch::Sender::new(1), digest: std::sync::Mutex::new(Some(SegmentedDigest::new(reference))) }
    }

    fn digest(&self) -> std::sync::MutexGuard<'_, Option<SegmentedDigest>> {
        self.digest.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Hashes the bytes of this part as soon as all parts before it are hashed.
    pub(super) async fn feed(&self, number: u32, bytes: Bytes) {
        // The sender lives as long as this.
        let _ = self.turn.subscribe().wait_for(|turn| *turn == number).await;
        let Some(mut digest) = self.digest().take() else { return };
        // A part takes tens of milliseconds: too long to keep others from this thread.
        let hashed = tokio::task::spawn_blocking(move || {
            digest.update(&bytes);
            digest
        })
        .await;
        // It fails only when the runtime is being torn down.
        *self.digest() = hashed.ok();
        self.turn.send_replace(number + 1);
    }

    /// Returns the digest over all parts. None when the hashing of a part did not finish.
    pub(super) fn finish(&self) -> Option<String> {
        self.digest().take().map(SegmentedDigest::finish)
    }
}
