//! Folders of the bucket that were renamed here, until all that they hold is at its new keys.

use std::ops::Bound;

use super::node::now;
use super::{Change, Node, NodeContent, Overlay};
use crate::file_table::FileTable;

/// A folder that was renamed, with files in the bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FolderRename {
    /// Time of the rename, in nanoseconds since 1970. No other of the journal has it.
    pub(crate) since: u64,
    /// The folder.
    pub(crate) number: u64,
    /// Its path in the bucket before.
    pub(crate) from: Box<str>,
    /// Files that were found in it so far, and their bytes.
    pub(crate) files: u64,
    pub(crate) bytes: u64,
}

impl Overlay {
    /// Renames that have not ended, the oldest first.
    pub(crate) fn renames(&self) -> impl Iterator<Item = &FolderRename> {
        self.renames.values()
    }

    /// The change by which the rename of a folder begins. `from`: its path in the bucket. None: the bucket has nothing of
    /// it, or an earlier rename goes on.
    pub(crate) fn begin_rename(&self, folder: &Node, from: &str) -> Option<Change> {
        let number = folder.file.number;
        let files = self.nodes_of_prefix(from).filter_map(|number| self.nodes.get(&number));
        let (mut count, mut bytes, mut is_there) = (0, 0, folder.base.is_some());
        for base in files.filter(|node| node.content != NodeContent::Directory).filter_map(|node| node.base.as_ref()) {
            (count, bytes, is_there) = (count + 1, bytes + base.size, true);
        }
        let is_known = self.renames().any(|rename| rename.number == number && *rename.from == *from);
        let after = self.renames.keys().next_back().map_or(0, |last| last + 1);
        let rename = FolderRename { since: now().max(after), number, from: from.into(), files: count, bytes };
        (is_there && !is_known).then_some(Change::Rename(rename))
    }

    /// The rename that brings a file to its key: that of the folder in which the bucket has it.
    pub(crate) fn rename_of(&self, node: &Node) -> Option<&FolderRename> {
        let path = node.base.as_ref().map(|base| &*base.path)?;
        self.renames().find(|rename| is_below(path, &rename.from))
    }

    /// The change by which a file that is found in a renamed folder counts.
    pub(crate) fn count_renamed(&self, node: &Node) -> Option<Change> {
        let rename = self.rename_of(node).filter(|_| node.content != NodeContent::Directory)?;
        let size = node.base.as_ref().map_or(0, |base| base.size);
        Some(Change::Rename(FolderRename { files: rename.files + 1, bytes: rename.bytes + size, ..rename.clone() }))
    }

    /// Files and folders that the bucket has at their paths before the rename.
    pub(crate) fn not_renamed<'a>(
        &'a self,
        file_table: &'a FileTable,
        rename: &'a FolderRename,
    ) -> impl Iterator<Item = &'a Node> {
        let found = self.nodes_of_prefix(&rename.from).filter_map(|number| self.nodes.get(&number));
        found.filter(|node| !self.is_local_only(node) && self.is_elsewhere(file_table, node))
    }

    /// Objects at the paths before the rename that are to be removed.
    pub(crate) fn removals_of<'a>(&'a self, rename: &'a FolderRename) -> impl Iterator<Item = &'a str> {
        let rest = self.pending_removals.range::<str, _>((Bound::Included(&*rename.from), Bound::Unbounded));
        let below = rest.map(|(path, _)| &**path).take_while(|path| path.starts_with(&*rename.from));
        below.filter(|path| is_below(path, &rename.from))
    }

    /// True when nothing of a rename is left to do.
    pub(crate) fn has_ended(&self, file_table: &FileTable, rename: &FolderRename) -> bool {
        let is_there = |folder: &Node| {
            let base = folder.base.as_ref().filter(|base| base.path == rename.from);
            base.is_some() && self.is_elsewhere(file_table, folder)
        };
        !self.nodes.get(&rename.number).is_some_and(is_there)
            && self.not_renamed(file_table, rename).next().is_none()
            && self.removals_of(rename).next().is_none()
    }

    /// True when a file, link or folder has another path than it has in the bucket, or has none there.
    pub(crate) fn is_elsewhere(&self, file_table: &FileTable, node: &Node) -> bool {
        let path = self.path(file_table, node.file.number);
        !path.is_ok_and(|path| node.base.as_ref().is_some_and(|base| *base.path == *path))
    }
}

/// True for a path and all below it.
pub(crate) fn is_below(path: &str, top: &str) -> bool {
    path.strip_prefix(top).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
