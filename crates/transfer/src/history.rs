//! The versions of one object in a job, which are copied in their order.
//!
//! Invariant: a version begins after the one before it has succeeded, so that the target gets the same history. After
//! a version that failed, or that the target does not keep as a version, the later ones are not copied.

use std::collections::HashMap;
use std::vec;

use crate::clock::now;
use crate::object::JobItem;
use crate::object_outcome::{FailureClass, ObjectFailure, ObjectOutcome, ObjectState};

/// Versions of one object that have not begun, oldest first.
#[derive(Debug)]
pub(crate) struct VersionHistory(vec::IntoIter<JobItem>);

impl VersionHistory {
    /// An object of which one version is copied.
    pub(crate) fn of_one(item: JobItem) -> Self {
        Self(vec![item].into_iter())
    }

    /// The items of each target, in their order.
    pub(crate) fn of_each(items: Vec<JobItem>) -> Vec<Self> {
        let mut position_of: HashMap<String, usize> = HashMap::new();
        let mut found: Vec<Vec<JobItem>> = Vec::new();
        for item in items {
            let position = *position_of.entry(item.target_key.clone()).or_insert(found.len());
            if position == found.len() {
                found.push(Vec::new());
            }
            found[position].push(item);
        }
        found.into_iter().map(|versions| Self(versions.into_iter())).collect()
    }

    /// Records the outcome of a version. Returns the outcomes of the later versions that cannot be copied after it.
    pub(crate) fn note_outcome(&mut self, outcome: &ObjectOutcome) -> Vec<ObjectOutcome> {
        let (code, why) = match outcome.state {
            ObjectState::Failed => ("EarlierVersionFailed", "an earlier version of it has failed; retry that one"),
            ObjectState::Done if outcome.target_version_id.is_none() => {
                ("NoVersions", "its target keeps no versions; switch that on")
            }
            ObjectState::Done | ObjectState::Skipped | ObjectState::Cancelled => return Vec::new(),
        };
        let failed = |item: JobItem| {
            let version = item.version_id.as_deref().unwrap_or_default();
            let message = format!("Version {version} of {} was not copied: {why}.", item.source_key);
            let class = FailureClass::Store(seqferry_store::ErrorClass::Object);
            let failure = Some(ObjectFailure::new(class, code, "plan", message));
            let (size, source_etag) = (item.size, item.etag);
            ObjectOutcome {
                state: ObjectState::Failed,
                size,
                source_etag,
                failure,
                ..ObjectOutcome::of(item.id, now())
            }
        };
        self.0.by_ref().map(failed).collect()
    }
}

impl Iterator for VersionHistory {
    type Item = JobItem;

    fn next(&mut self) -> Option<JobItem> {
        self.0.next()
    }
}
