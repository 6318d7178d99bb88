//! The versions of one object in a job, which are copied in their order.
//!
//! What must stay true: a version begins when the one before it has ended well, so that the target has the same history.
//! None follows one that has failed, or that the target does not keep as a version.

use std::collections::HashMap;
use std::vec;

use crate::clock::now;
use crate::object::Item;
use crate::outcome::{FailureClass, ObjectFailure, Outcome, State};

/// Versions of one object that have not begun, oldest first.
#[derive(Debug)]
pub(crate) struct History(vec::IntoIter<Item>);

impl History {
    /// An object of which one version is copied.
    pub(crate) fn of_one(item: Item) -> Self {
        Self(vec![item].into_iter())
    }

    /// The items of each target, in their order.
    pub(crate) fn of_each(items: Vec<Item>) -> Vec<Self> {
        let mut position_of: HashMap<String, usize> = HashMap::new();
        let mut found: Vec<Vec<Item>> = Vec::new();
        for item in items {
            let position = *position_of.entry(item.target_key.clone()).or_insert(found.len());
            if position == found.len() {
                found.push(Vec::new());
            }
            found[position].push(item);
        }
        found.into_iter().map(|versions| Self(versions.into_iter())).collect()
    }

    /// Take note of the end of a version. Returns the ends of those that cannot follow it.
    pub(crate) fn see(&mut self, outcome: &Outcome) -> Vec<Outcome> {
        let (code, why) = match outcome.state {
            State::Failed => ("EarlierVersionFailed", "an earlier version of it has failed; retry that one"),
            State::Done if outcome.target_version_id.is_none() => {
                ("NoVersions", "its target keeps no versions; switch that on")
            }
            State::Done | State::Skipped | State::Cancelled => return Vec::new(),
        };
        let failed = |item: Item| {
            let version = item.version_id.as_deref().unwrap_or_default();
            let message = format!("Version {version} of {} was not copied: {why}.", item.source_key);
            let class = FailureClass::Store(seqferry_store::ErrorClass::Object);
            let failure = Some(ObjectFailure::new(class, code, "plan", message));
            let (size, source_etag) = (item.size, item.etag);
            Outcome { state: State::Failed, size, source_etag, failure, ..Outcome::of(item.id, now()) }
        };
        self.0.by_ref().map(failed).collect()
    }
}

impl Iterator for History {
    type Item = Item;

    fn next(&mut self) -> Option<Item> {
        self.0.next()
    }
}
