//! Links that only the metadata of their objects tells apart from files, as s3fs stores them.
//!
//! A listing has no metadata, and that of every file is not requested: such a link is a small file until it is read for
//! the first time. From then on it is a link with an inode of its own, in later listings too.

use tokio::time::Instant;

use super::snapshot::Facts;
use super::{FileKind, State, Tree};
use crate::error::Result;

/// Links that are remembered.
const MOST: usize = 1 << 20;

impl Tree {
    /// A file was read and is a link: its name leads to a link from now on.
    ///
    /// # Errors
    /// When the inode is unknown.
    pub fn found_link(&self, inode: u64) -> Result<()> {
        let (directory, name, facts) = self.read().file(inode)?;
        if facts.kind != FileKind::File {
            return Ok(());
        }
        let parent = {
            let mut state = self.write();
            if state.links.len() >= MOST {
                state.links.clear();
            }
            state.links.insert(inode);
            state.directories[directory as usize].inode
        };
        let listed = self.read().directories[directory as usize].listed;
        // As old as the listing that showed it: this says nothing about the object being there still.
        let at = listed.unwrap_or_else(Instant::now);
        self.remember_check(directory, parent, &name, Some(facts), None, at).map(drop)
    }

    /// The facts, as a link where the file is known to be one.
    pub(super) fn known_link(&self, state: &State, directory: u32, name: &str, facts: Facts) -> Facts {
        if facts.kind != FileKind::File || state.links.is_empty() {
            return facts;
        }
        let inode = self.number(&state.directories[directory as usize].prefix, name, &facts, 0);
        if state.links.contains(&inode) { facts.into_plain_link() } else { facts }
    }
}
