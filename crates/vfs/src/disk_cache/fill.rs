//! Admission of blocks to the cache: the decision to keep a block, the reservation of space, and the result.

use super::folder::FileName;
use super::side_file::EvictionQueue;
use super::usage::SpaceReservation;
use super::{ALLOCATION, CacheState, SEGMENT_OVERHEAD, is_full};
use crate::crc::crc32c;
use crate::version::{ObjectVersion, VersionPin};

/// Access pattern by which a block was read, for the decision to keep it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// Part of one pass over the object that has read this many bytes so far.
    Stream {
        /// Bytes of the pass so far.
        passed: u64,
    },
    /// Kept in any case: the cache is being warmed.
    Always,
}

/// The fate of a block that was offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fill {
    /// Written.
    Stored,
    /// The cache had the block with the same bytes.
    AlreadyThere,
    /// Part of a long single pass.
    Bypassed,
    /// The cache is at its limit or the disk is full.
    NoRoom,
    /// Another process is evicting this object.
    Busy,
    /// The disk fails, or failed a moment ago.
    Failed,
    /// The version has no pin, or the bytes have another length than the block.
    Refused,
}

impl CacheState {
    pub(super) fn fill(&self, object: &ObjectVersion, block: u64, bytes: &[u8], admission: Admission) -> Fill {
        let (VersionPin::Etag(pin) | VersionPin::VersionId(pin)) = &object.pin;
        let expected = crate::block_length(object.size, block);
        if pin.is_empty() || bytes.is_empty() || bytes.len() != expected {
            return Fill::Refused;
        }
        if self.is_paused() {
            return Fill::Failed;
        }
        let crc = crc32c(bytes);
        let there = self.files.with(&self.folder, object, false, |files| files.has(block, crc));
        let there = self.checked("read from", there);
        match there {
            None => return Fill::Failed,
            Some(Some((true, _))) => return Fill::AlreadyThere,
            Some(_) => {}
        }
        let new_segment = !matches!(there, Some(Some((_, true))));
        let name = FileName::of(object);
        let seen_before = self.ghosts.contains(name, block);
        if !seen_before && self.is_bypassed(object, name, block, admission) {
            let _ = self.checked("write to", self.ghosts.remember_bypassed(name, block));
            return Fill::Bypassed;
        }
        let needed = (bytes.len() as u64).next_multiple_of(ALLOCATION) + if new_segment { SEGMENT_OVERHEAD } else { 0 };
        match self.checked("write to", self.usage.reserve(needed, &self.limits)) {
            Some(SpaceReservation::Granted { scarce }) => {
                if scarce {
                    self.wake_evictor();
                }
            }
            Some(SpaceReservation::None) => {
                self.wake_evictor();
                return Fill::NoRoom;
            }
            None => return Fill::Failed,
        }
        let queue = if seen_before { EvictionQueue::Main } else { EvictionQueue::Small };
        let filled = self.files.with(&self.folder, object, true, |files| files.fill(block, bytes, crc, queue));
        match filled {
            Ok(Some(())) => {
                self.usage.written(needed);
                Fill::Stored
            }
            Ok(None) => {
                self.usage.release(needed);
                Fill::Busy
            }
            Err(cause) => {
                self.usage.release(needed);
                let full = is_full(&cause);
                self.failed("write to", &cause);
                if full { Fill::NoRoom } else { Fill::Failed }
            }
        }
    }

    fn is_bypassed(&self, object: &ObjectVersion, name: FileName, block: u64, admission: Admission) -> bool {
        match admission {
            Admission::Stream { passed } if passed > self.limits.stream_bypass => {
                // Once it is passed by, it is to its end, though less and less of it is left.
                (self.ghosts.has_any(name, block) || !self.has_room_for_rest(object, passed))
                    && !self.pins.read().is_ok_and(|pins| pins.iter().any(|pin| pin.contains(object)))
            }
            _ => false,
        }
    }

    /// Returns true when the rest of an object fits without eviction and leaves as much of the disk free as it takes.
    fn has_room_for_rest(&self, object: &ObjectVersion, passed: u64) -> bool {
        let rest = object.size.saturating_sub(passed);
        let used = self.usage.read().saturating_add(rest);
        self.folder.space().is_ok_and(|free| !self.limits.is_scarce(used, free.saturating_sub(rest.saturating_mul(2))))
    }
}
