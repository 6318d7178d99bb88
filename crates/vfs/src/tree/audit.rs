//! A walk over everything, to find the keys that cannot be files before a mount is used.

use std::sync::Arc;

use super::names::HiddenKey;
use super::{FileKind, ROOT, Tree};
use crate::error::Result;

/// Entries that are checked at a time.
const ENTRIES: usize = 4096;

/// The result of a walk over everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditReport {
    /// Directories, the root included.
    pub directories: u64,
    /// Files.
    pub files: u64,
    /// Symbolic links, as far as their names tell.
    pub links: u64,
    /// Bytes of the files.
    pub bytes: u64,
    /// Hidden keys; what is below a prefix that cannot be a directory counts once.
    pub hidden: u64,
    /// The first of them by name, with the reason.
    pub named: Vec<HiddenKey>,
}

impl Tree {
    /// Walk over everything and count, naming up to `most` hidden keys. Needs the memory of the names.
    ///
    /// # Errors
    /// When a directory cannot be listed.
    pub async fn audit(self: &Arc<Self>, most: usize) -> Result<AuditReport> {
        let mut report = AuditReport::default();
        let mut todo = vec![ROOT];
        while let Some(inode) = todo.pop() {
            report.directories += 1;
            let (mut cookie, mut below) = (0, Vec::new());
            loop {
                let entries = self.read_directory(inode, cookie, ENTRIES).await?;
                let Some(last) = entries.last() else { break };
                cookie = last.cookie;
                for entry in entries.iter().filter(|entry| entry.name != "." && entry.name != "..") {
                    match entry.attributes.kind {
                        FileKind::Directory => below.push((entry.name.clone(), entry.attributes.inode)),
                        FileKind::Symlink => report.links += 1,
                        FileKind::File => {
                            report.files += 1;
                            report.bytes += entry.attributes.size;
                        }
                    }
                }
            }
            let directory = self.directory(inode)?;
            if let Some(snapshot) = &self.read().directories[directory as usize].snapshot {
                report.hidden += snapshot.hidden_count;
                let room = most.saturating_sub(report.named.len());
                report.named.extend(snapshot.hidden.iter().take(room).cloned());
            }
            // In the order of the names, so that the walk is recognised and listed flat.
            below.sort_unstable_by(|a, b| b.0.cmp(&a.0));
            todo.extend(below.into_iter().map(|(_, inode)| inode));
        }
        report.named.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(report)
    }
}
