//! A digest over all bytes, in order, of parts that are read side by side.
//!
//! MD5 and SHA digests of parts cannot be put together to one over the whole object, or over other stretches than the parts.
//! So each part waits here for its turn, while it is being sent. A part that waits holds its memory. The part at its
//! turn never waits for memory, since parts get memory in their order.

use bytes::Bytes;
use tokio::sync::watch;

use crate::verification::{ExpectedDigest, SegmentedDigest};

/// Order in which parts feed one digest over the whole object.
pub(super) struct PartOrder {
    /// Number of the part at its turn.
    turn: watch::Sender<u32>,
    stretches: std::sync::Mutex<Option<SegmentedDigest>>,
}

impl PartOrder {
    /// Before part 1.
    pub(super) fn new(reference: &ExpectedDigest) -> Self {
        Self { turn: watch::Sender::new(1), stretches: std::sync::Mutex::new(Some(SegmentedDigest::new(reference))) }
    }

    fn stretches(&self) -> std::sync::MutexGuard<'_, Option<SegmentedDigest>> {
        self.stretches.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// The bytes of this part, as soon as all before it have come.
    pub(super) async fn feed(&self, number: u32, bytes: Bytes) {
        // The sender lives as long as this.
        let _ = self.turn.subscribe().wait_for(|turn| *turn == number).await;
        let Some(mut stretches) = self.stretches().take() else { return };
        // A part takes tens of milliseconds: too long to keep others from this thread.
        let hashed = tokio::task::spawn_blocking(move || {
            stretches.update(&bytes);
            stretches
        })
        .await;
        // It fails only when the runtime is being torn down.
        *self.stretches() = hashed.ok();
        self.turn.send_replace(number + 1);
    }

    /// Returns the digest over all parts. None when the hashing of a part did not finish.
    pub(super) fn finish(&self) -> Option<String> {
        self.stretches().take().map(SegmentedDigest::finish)
    }
}
