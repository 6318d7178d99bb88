//! Eviction of clean files from the overlay, which otherwise would grow with all files ever written.
//!
//! 1. The folder of the file is listed again: from then on the tree of the bucket shows the object.
//! 2. The file table gets the number and the attributes of the file, and is synced. Its handle stays valid.
//! 3. The node is removed by a journal record, if it is unchanged and no call uses it.
//!
//! After a kill before step 3 the next process has the node, which counts. After step 3 the bucket and the table have
//! everything.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::time::Instant;

use super::plan::{is_clean, may_evict};
use super::send::local;
use super::{UploadError, Uploader};
use crate::file_table::{AssignedFacts, NamedFile, version_of};
use crate::journal::Disk;
use crate::overlay::{BaseObject, Change, Node, Overlay};
use crate::share::{status, within_call_timeout};

/// Files that leave at a time: a record of the journal has space for them.
const MAX_FILES: usize = 4096;

/// A file that may leave.
struct EvictionCandidate {
    number: u64,
    changed: u64,
    base: BaseObject,
    /// Upload time of the object, in seconds, once the tree of the bucket shows it.
    uploaded: f64,
}

/// True when so many files are clean that some leave: a quarter more than stay.
pub(super) fn is_due(overlay: &Overlay, kept: usize) -> bool {
    let most = kept + kept / 4;
    // Those that the bucket has as they are may wait for something else.
    overlay.unchanged_files() > most && overlay.nodes().filter(|node| is_clean(overlay, node)).nth(most).is_some()
}

fn is_same(node: &Node, candidate: &EvictionCandidate) -> bool {
    node.changed == candidate.changed && node.base.as_ref() == Some(&candidate.base)
}

fn table_entry(node: &Node, candidate: &EvictionCandidate) -> NamedFile {
    let facts = AssignedFacts {
        generation: node.file.generation,
        version: version_of(&candidate.base.etag, candidate.uploaded),
        mode: node.mode,
        uid: node.uid,
        gid: node.gid,
        accessed: node.accessed,
        modified: node.modified,
        changed: node.changed,
        stated: node.stated,
    };
    NamedFile { parent: node.parent, name: node.name.clone(), assigned: Some(Box::new(facts)) }
}

impl<D: Disk> Uploader<D> {
    /// The clean files that changed last stay.
    pub(super) async fn evict(&self) -> Result<(), UploadError> {
        let inner = &self.inner;
        let candidate = self.shown(self.candidate()).await;
        if candidate.is_empty() {
            return Err(UploadError::NothingToDo);
        }
        let places: Vec<(u64, NamedFile)> = inner.overlay.read(|overlay| {
            let same = candidate.iter().filter_map(|candidate| {
                let node = overlay.node(candidate.number).filter(|node| is_same(node, candidate))?;
                Some((candidate.number, table_entry(node, candidate)))
            });
            same.collect()
        });
        for (number, place) in places {
            inner.file_table.assign(number, place);
        }
        let file_table = inner.file_table.clone();
        // Data files whose removal is not on the disk would be of no file after a loss of power.
        let synced = inner.blocking(move |data| data.disk().sync_names().and_then(|()| file_table.sync())).await;
        synced.map_err(|error| UploadError::local(format!("the table of file handles cannot be written: {error}.")))?;
        let dropped = inner.overlay.change(|overlay| {
            let may_go = |candidate: &&EvictionCandidate| {
                let node = overlay.node(candidate.number).filter(|node| is_same(node, candidate));
                node.is_some_and(|node| may_evict(overlay, &inner.file_table, node))
                    && !inner.is_in_use(candidate.number)
            };
            let dropped: Vec<Change> =
                candidate.iter().filter(may_go).map(|candidate| Change::Remove(candidate.number)).collect();
            let is_any = !dropped.is_empty();
            Ok((dropped, is_any))
        });
        if dropped.await.map_err(local)? { Ok(()) } else { Err(UploadError::NothingToDo) }
    }

    /// Clean files by their folders, those first that were changed first.
    fn candidate(&self) -> BTreeMap<Box<str>, Vec<EvictionCandidate>> {
        let inner = &self.inner;
        let mut clean: Vec<EvictionCandidate> = inner.overlay.read(|overlay| {
            let clean = overlay.nodes().filter(|node| may_evict(overlay, &inner.file_table, node));
            let candidate = clean.filter_map(|node| {
                let base = node.base.clone()?;
                Some(EvictionCandidate { number: node.file.number, changed: node.changed, base, uploaded: 0.0 })
            });
            candidate.collect()
        });
        clean.sort_unstable_by_key(|candidate| candidate.changed);
        clean.truncate(clean.len().saturating_sub(inner.clean_files).min(MAX_FILES));
        let mut folders: BTreeMap<Box<str>, Vec<EvictionCandidate>> = BTreeMap::new();
        for candidate in clean {
            let (above, _) = candidate.base.path.rsplit_once('/').unwrap_or(("", &candidate.base.path));
            folders.entry(above.into()).or_default().push(candidate);
        }
        folders
    }

    /// Those that the tree of the bucket shows, by listings from now on.
    async fn shown(&self, folders: BTreeMap<Box<str>, Vec<EvictionCandidate>>) -> Vec<EvictionCandidate> {
        let inner = &self.inner;
        let tree = Arc::clone(inner.files.tree());
        let since = Instant::now();
        let mut shown = Vec::new();
        for (_, files) in folders {
            let Some(first) = files.first() else { continue };
            let listed =
                within_call_timeout(async { tree.list_parent(&first.base.path, since).await.map_err(status) }).await;
            if listed.is_err() {
                continue;
            }
            for candidate in files {
                if let Ok(found) = inner.walk(&candidate.base.path).await
                    && inner.is_version(&found, &candidate.base)
                    && let Ok(uploaded) = tree.uploaded(found.inode)
                {
                    shown.push(EvictionCandidate { uploaded, ..candidate });
                }
            }
        }
        shown
    }
}
