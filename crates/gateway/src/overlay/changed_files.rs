//! Dirty files, indexed: a search for uploads visits only files that have changed, however many there are in all.

use std::collections::BTreeSet;

use super::node::Node;

#[derive(Debug, Default)]
pub(super) struct ChangedFiles {
    /// Files, links and folders that the bucket does not have as they are.
    changed: BTreeSet<u64>,
    /// Files that it has.
    unchanged_files: usize,
}

impl ChangedFiles {
    pub(super) fn add(&mut self, node: &Node) {
        if node.is_changed() {
            self.changed.insert(node.file.number);
        } else if node.data().is_some() {
            self.unchanged_files += 1;
        }
    }

    /// A node goes, as it was when it was added.
    pub(super) fn remove(&mut self, node: &Node) {
        if node.is_changed() {
            self.changed.remove(&node.file.number);
        } else if node.data().is_some() {
            self.unchanged_files -= 1;
        }
    }

    pub(super) fn changed(&self) -> impl Iterator<Item = u64> {
        self.changed.iter().copied()
    }

    pub(super) fn unchanged_files(&self) -> usize {
        self.unchanged_files
    }
}
