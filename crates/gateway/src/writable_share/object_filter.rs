//! Filter of a listing of the bucket: objects that are files of a folder as the share shows them at one moment.

use std::collections::HashSet;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;

use super::checks::is_reserved;
use super::upload::control::{is_dirty, is_within};
use crate::file_table::{FileTable, ROOT};
use crate::overlay::{FolderRename, Overlay};

/// See the module. It keeps eight bytes for each path.
#[derive(Debug, Default)]
pub(crate) struct ObjectFilter {
    hashes: RandomState,
    /// Paths of files that wait.
    pending: HashSet<u64>,
    /// Paths of objects that are to be replaced, moved or removed.
    outdated: HashSet<u64>,
    /// Paths of files below the former path of a renamed folder that were uploaded there since.
    clean: HashSet<u64>,
    /// Former paths of renamed folders that hold files of the folder, or held them.
    former: Vec<String>,
    /// Parts of those that show in the folder now.
    to_move: Vec<String>,
}

impl ObjectFilter {
    /// The filter of what is at a path and below it, as the overlay has it now.
    pub(super) fn new(overlay: &Overlay, file_table: &FileTable, top: &str) -> Self {
        let mut filter = Self::default();
        for rename in overlay.renames().filter(|rename| touches(overlay, file_table, rename, top)) {
            filter.former.push(rename.from.to_string());
            let now = overlay.path(file_table, rename.number).unwrap_or_default();
            if !now.is_empty() && is_within(&now, top) {
                filter.to_move.push(rename.from.to_string());
            } else if let Some(rest) = top.strip_prefix(&*now).filter(|rest| !now.is_empty() && rest.starts_with('/')) {
                filter.to_move.push(format!("{}{rest}", rename.from));
            }
        }
        for node in overlay.nodes() {
            let base = node.base.as_ref().map(|base| &*base.path);
            if is_dirty(overlay, file_table, node) {
                let now = overlay.path(file_table, node.file.number).unwrap_or_default();
                filter.pending.insert(filter.hashes.hash_one(&*now));
                filter.outdated.extend(base.map(|path| filter.hashes.hash_one(path)));
            } else if let Some(base) = base.filter(|base| filter.is_former(base)) {
                filter.clean.insert(filter.hashes.hash_one(base));
            }
        }
        let removals = overlay.pending_removals().keys();
        filter.outdated.extend(removals.map(|path| filter.hashes.hash_one(&**path)));
        filter
    }

    fn is_former(&self, path: &str) -> bool {
        self.former.iter().any(|former| is_within(path, former))
    }

    /// True for the path of an object that is a file of the share as it shows there.
    pub(crate) fn is_current(&self, path: &str) -> bool {
        let hash = self.hashes.hash_one(path);
        let is_its_own = !path.ends_with('/') && !is_reserved(ROOT, path.split('/').next().unwrap_or(path));
        let waits = self.pending.contains(&hash) || self.outdated.contains(&hash);
        is_its_own && !waits && (!self.is_former(path) || self.clean.contains(&hash))
    }

    /// Paths of the bucket that have files of the folder from before a rename.
    pub(crate) fn to_move(&self) -> &[String] {
        &self.to_move
    }

    /// True for the path of an object there that waits for its copy, and that the overlay does not count as waiting.
    pub(crate) fn is_to_move(&self, path: &str) -> bool {
        let hash = self.hashes.hash_one(path);
        !path.ends_with('/') && !self.outdated.contains(&hash) && !self.clean.contains(&hash)
    }
}

/// True when a rename concerns what is at a path and below it.
pub(super) fn touches(overlay: &Overlay, file_table: &FileTable, rename: &FolderRename, top: &str) -> bool {
    let now = overlay.path(file_table, rename.number).unwrap_or_default();
    let concerns = |path: &str| !path.is_empty() && (is_within(path, top) || is_within(top, path));
    concerns(&now) || concerns(&rename.from)
}
