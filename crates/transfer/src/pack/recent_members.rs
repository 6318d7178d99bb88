//! Members that were changed a moment before they were read.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::recheck::FileOpening;

/// Members that were changed a moment before they were read, by ordinal, with their last opening.
#[derive(Debug)]
pub(super) struct RecentMembers {
    settle: Duration,
    openings: Mutex<BTreeMap<usize, FileOpening>>,
}

impl RecentMembers {
    /// No members yet. A settling time of zero: no member is ever young.
    pub(super) fn new(settle: Duration) -> Self {
        Self { settle, openings: Mutex::default() }
    }

    /// An opening at this moment.
    pub(super) fn opening(&self) -> FileOpening {
        FileOpening::now(self.settle)
    }

    /// Remembers a member that had this modification time (seconds since the epoch) when it was opened, if it was
    /// young.
    pub(super) fn note(&self, member: usize, modified: f64, opening: FileOpening) {
        if opening.is_young(modified) {
            self.openings.lock().unwrap_or_else(PoisonError::into_inner).insert(member, opening);
        }
    }

    /// Takes all that were young out.
    pub(super) fn take(&self) -> BTreeMap<usize, FileOpening> {
        std::mem::take(&mut *self.openings.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
