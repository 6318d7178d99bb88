//! The files that come after one in its directory, for read-ahead over small files.

use super::Tree;
use super::snapshot::{FileKind, Snapshot, SnapshotEntry};
use crate::error::Result;

/// Order in which a program goes through a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WalkOrder {
    /// Order of names, as in `diff -r` and shells.
    Name,
    /// Order of inodes, as in `cp -r` and `tar`.
    Inode,
}

impl Tree {
    /// Inodes and sizes of up to `most` files that follow this one in its directory. Empty where that is not listed.
    ///
    /// # Errors
    /// When the inode is unknown or no file.
    pub fn following(&self, inode: u64, order: WalkOrder, most: usize) -> Result<Vec<(u64, u64)>> {
        let (parent, name) = self.name_of(inode)?;
        let state = self.read();
        let Some(directory) = state.places.directory(parent) else { return Ok(Vec::new()) };
        let Some(snapshot) = state.directories[directory as usize].snapshot.as_ref() else { return Ok(Vec::new()) };
        let files = |entry: &&SnapshotEntry| entry.kind == FileKind::File;
        let facts = |entry: &SnapshotEntry| (entry.inode, entry.size);
        Ok(match order {
            WalkOrder::Name => {
                let from = snapshot.rank(&name).map_or_else(|at| at, |at| at + 1);
                snapshot.ranked(from).filter(files).take(most).map(facts).collect()
            }
            WalkOrder::Inode => {
                let sorted = snapshot.by_inode();
                let from = sorted.partition_point(|(other, _)| *other <= inode);
                let entries = sorted[from..].iter().filter_map(|(_, index)| snapshot.entry(*index));
                entries.filter(files).take(most).map(facts).collect()
            }
        })
    }

    /// A file beside this one, by its name, if the directory is listed and holds it: inode and size.
    pub fn sibling(&self, inode: u64, name: &str) -> Option<(u64, u64)> {
        let (parent, _) = self.name_of(inode).ok()?;
        let state = self.read();
        let directory = state.places.directory(parent)?;
        let snapshot: &Snapshot = state.directories[directory as usize].snapshot.as_ref()?;
        let entry = snapshot.entry(snapshot.find(name)?)?;
        (entry.kind == FileKind::File).then_some((entry.inode, entry.size))
    }
}
