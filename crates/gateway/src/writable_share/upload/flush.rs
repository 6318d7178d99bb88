//! The extent of a flush: changes, removals and renames that were acknowledged before it, and what is left of them.

use std::collections::{BTreeSet, HashSet};
use std::ops::Bound;
use std::sync::Arc;

use super::condition_probe::NO_FILE;
use super::control::{PendingFiles, UploadSnapshot, is_dirty, is_pending, is_within};
use super::plan::{self, is_elsewhere};
use crate::file_table::FileTable;
use crate::overlay::{NodeContent, Overlay};

/// Changes, removals and renames that a flush waits for.
#[derive(Debug, Default)]
pub(crate) struct FlushScope {
    /// None: all, those of later changes among them.
    files: Option<Arc<PendingFiles>>,
    /// Objects and folder markers that were to be removed, and their versions.
    pending_removals: Vec<(Box<str>, Box<str>)>,
    /// Objects of files and folders that had other paths by then: each goes when the file is at its new key.
    moved: Vec<MovedObject>,
    /// Writes of files that were no more, by number, with their keys: each object goes when its write has ended.
    written: Vec<(u64, Box<str>)>,
}

#[derive(Debug)]
struct MovedObject {
    number: u64,
    path: Box<str>,
    is_folder: bool,
}

/// Files, and objects to be removed, that are not done.
#[derive(Debug, Default)]
pub(crate) struct FlushRemainder {
    pub(crate) files: BTreeSet<u64>,
    pub(crate) keys: BTreeSet<Box<str>>,
}

impl FlushScope {
    /// These files, and the removals and renames that are not done at a path and below it.
    pub(crate) fn new(overlay: &Overlay, file_table: &FileTable, path: &str, files: Arc<PendingFiles>) -> Self {
        let is_here = |key: &str| is_within(key.trim_end_matches('/'), path);
        let pending_removals = overlay.pending_removals().iter().filter(|(key, _)| is_here(key));
        let pending_removals = pending_removals.map(|(key, etag)| (key.clone(), etag.clone())).collect();
        let mut moved = Vec::new();
        for node in overlay.nodes().filter(|_| overlay.has_moved()) {
            let Some(base) = node.base.as_ref().filter(|_| !overlay.is_local_only(node)) else { continue };
            let number = node.file.number;
            let is_at_new = || overlay.path(file_table, number).is_ok_and(|path| is_here(&path));
            if is_elsewhere(overlay, file_table, number) && (is_here(&base.path) || is_at_new()) {
                moved.push(MovedObject {
                    number,
                    path: base.path.clone(),
                    is_folder: node.content == NodeContent::Directory,
                });
            }
        }
        let written = overlay.uploads().values();
        let written = written.filter(|open| open.number != NO_FILE && overlay.node(open.number).is_none());
        let written = written.filter(|open| is_here(&open.path)).map(|open| (open.number, open.path.clone())).collect();
        Self { files: Some(files), pending_removals, moved, written }
    }

    /// All that is left to do.
    pub(crate) fn everything() -> Self {
        Self::default()
    }

    /// The part of it that the bucket does not have yet.
    pub(crate) fn remaining(&self, overlay: &Overlay, file_table: &FileTable) -> FlushRemainder {
        let mut rest = FlushRemainder::default();
        if let Some(files) = &self.files {
            let pending = files.iter().filter(|(number, generation)| {
                overlay.node(**number).is_some_and(|node| is_pending(overlay, file_table, node, **generation))
            });
            rest.files.extend(pending.map(|(number, _)| *number));
        } else {
            let dirty = overlay.nodes().filter(|node| is_dirty(overlay, file_table, node));
            rest.files.extend(dirty.map(|node| node.file.number));
        }
        let has_to_go = |key: &str| overlay.pending_removals().contains_key(key);
        let pending_removals =
            self.pending_removals.iter().filter(|(key, etag)| overlay.pending_removals().get(key) == Some(etag));
        rest.keys.extend(pending_removals.map(|(key, _)| key.clone()));
        for MovedObject { number, path, is_folder } in &self.moved {
            let is_there =
                overlay.node(*number).is_some_and(|node| node.base.as_ref().is_some_and(|base| base.path == *path));
            if is_there && is_elsewhere(overlay, file_table, *number) {
                rest.files.insert(*number);
            }
            if !is_folder {
                rest.keys.extend(has_to_go(path).then(|| path.clone()));
                continue;
            }
            rest.files
                .extend(overlay.nodes_of_prefix(path).filter(|number| is_elsewhere(overlay, file_table, *number)));
            let below = format!("{path}/");
            let gone = overlay.pending_removals().range::<str, _>((Bound::Included(&*below), Bound::Unbounded));
            rest.keys.extend(gone.map(|(key, _)| key).take_while(|key| key.starts_with(&*below)).cloned());
        }
        for (number, key) in &self.written {
            if overlay.uploads().get(number).is_some_and(|open| open.path == *key) {
                rest.files.insert(*number);
            }
            rest.keys.extend(has_to_go(key).then(|| key.clone()));
        }
        rest
    }
}

impl FlushRemainder {
    /// Number of those that wait after a failure, or for a file that failed.
    pub(crate) fn stuck(&self, overlay: &Overlay, file_table: &FileTable, snapshot: &UploadSnapshot) -> usize {
        let has_failed = |number: &u64| snapshot.files.contains_key(number);
        let waits_for_failed = |number: &u64| {
            overlay.node(*number).is_some_and(|node| {
                let has_failed_key = |key: &str| snapshot.keys.contains_key(key);
                plan::waits_for_failed(overlay, file_table, node, |other| has_failed(&other), has_failed_key)
            })
        };
        let is_stuck = |number: &u64| {
            has_failed(number) || snapshot.held.get(number).is_some_and(has_failed) || waits_for_failed(number)
        };
        let files = self.files.iter().filter(|number| is_stuck(number)).count();
        if self.keys.is_empty() {
            return files;
        }
        // A file that failed stands at the key, or is still to be copied from it.
        let paths = snapshot.files.keys().filter_map(|number| overlay.path(file_table, *number).ok());
        let paths: HashSet<String> = paths.collect();
        let waits = |key: &str| {
            let path = key.trim_end_matches('/');
            snapshot.keys.contains_key(key)
                || paths.contains(path)
                || overlay.nodes_of_object(path).any(|number| has_failed(&number))
        };
        files + self.keys.iter().filter(|key| waits(key)).count()
    }
}
