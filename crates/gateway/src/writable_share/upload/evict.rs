//! Clean files leave the overlay, so that it does not grow with all files that were ever written.
//!
//! 1. The folder of the file is listed anew: from then on the tree of the bucket shows the object.
//! 2. The table of names gets the number and the facts of the file, and is synced. Its handle stays valid.
//! 3. The node is dropped from the journal, if it is still the same, and no call works on it.
//!
//! Killed before the last step, the next process has the node, which counts. After it the bucket and the table have
//! all.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::time::Instant;

use super::plan::{is_clean, may_leave};
use super::send::local;
use super::{Trouble, Uploader};
use crate::ids::{Assigned, Place, version_of};
use crate::journal::Disk;
use crate::overlay::{Base, Change, Node, Overlay};
use crate::share::{soon, status};

/// Files that leave at a time: a record of the journal has room for them.
const AT_ONCE: usize = 4096;

/// A file that may leave.
struct Leaving {
    number: u64,
    changed: u64,
    base: Base,
}

/// True when so many files are clean that some leave: a quarter more than stay.
pub(super) fn is_due(overlay: &Overlay, kept: usize) -> bool {
    let most = kept + kept / 4;
    // Those that the bucket has as they are may wait for something else.
    overlay.unchanged_files() > most && overlay.nodes().filter(|node| is_clean(overlay, node)).nth(most).is_some()
}

fn is_same(node: &Node, leaving: &Leaving) -> bool {
    node.changed == leaving.changed && node.base.as_ref() == Some(&leaving.base)
}

fn place_of(node: &Node, base: &Base) -> Place {
    let facts = Assigned {
        generation: node.file.generation,
        version: version_of(&base.etag),
        mode: node.mode,
        uid: node.uid,
        gid: node.gid,
        accessed: node.accessed,
        modified: node.modified,
        changed: node.changed,
        stated: node.stated,
    };
    Place { parent: node.parent, name: node.name.clone(), assigned: Some(Box::new(facts)) }
}

impl<D: Disk> Uploader<D> {
    /// The clean files that changed last stay.
    pub(super) async fn evict(&self) -> Result<(), Trouble> {
        let inner = &self.inner;
        let leaving = self.shown(self.leaving()).await;
        if leaving.is_empty() {
            return Err(Trouble::Nothing);
        }
        let places: Vec<(u64, Place)> = inner.ledger.read(|overlay| {
            let same = leaving.iter().filter_map(|leaving| {
                let node = overlay.node(leaving.number).filter(|node| is_same(node, leaving))?;
                Some((leaving.number, place_of(node, &leaving.base)))
            });
            same.collect()
        });
        for (number, place) in places {
            inner.ids.assign(number, place);
        }
        let ids = inner.ids.clone();
        // Data files whose removal is not on the disk would be of no file after a loss of power.
        let synced = inner.blocking(move |data| data.disk().sync_names().and_then(|()| ids.sync())).await;
        synced.map_err(|error| Trouble::local(format!("the table of file handles cannot be written: {error}.")))?;
        let dropped = inner.ledger.change(|overlay| {
            let may_go = |leaving: &&Leaving| {
                let node = overlay.node(leaving.number).filter(|node| is_same(node, leaving));
                node.is_some_and(|node| may_leave(overlay, &inner.ids, node)) && !inner.is_in_use(leaving.number)
            };
            let dropped: Vec<Change> =
                leaving.iter().filter(may_go).map(|leaving| Change::Drop(leaving.number)).collect();
            let is_any = !dropped.is_empty();
            Ok((dropped, is_any))
        });
        if dropped.await.map_err(local)? { Ok(()) } else { Err(Trouble::Nothing) }
    }

    /// Clean files by their folders, those first that were changed first.
    fn leaving(&self) -> BTreeMap<Box<str>, Vec<Leaving>> {
        let inner = &self.inner;
        let mut clean: Vec<Leaving> = inner.ledger.read(|overlay| {
            let clean = overlay.nodes().filter(|node| may_leave(overlay, &inner.ids, node));
            let leaving = clean.filter_map(|node| {
                let base = node.base.clone()?;
                Some(Leaving { number: node.file.number, changed: node.changed, base })
            });
            leaving.collect()
        });
        clean.sort_unstable_by_key(|leaving| leaving.changed);
        clean.truncate(clean.len().saturating_sub(inner.clean_files).min(AT_ONCE));
        let mut folders: BTreeMap<Box<str>, Vec<Leaving>> = BTreeMap::new();
        for leaving in clean {
            let (above, _) = leaving.base.path.rsplit_once('/').unwrap_or(("", &leaving.base.path));
            folders.entry(above.into()).or_default().push(leaving);
        }
        folders
    }

    /// Those that the tree of the bucket shows, by listings from now on.
    async fn shown(&self, folders: BTreeMap<Box<str>, Vec<Leaving>>) -> Vec<Leaving> {
        let inner = &self.inner;
        let tree = Arc::clone(inner.files.tree());
        let since = Instant::now();
        let mut shown = Vec::new();
        for (_, files) in folders {
            let Some(first) = files.first() else { continue };
            let listed = soon(async { tree.list_holder(&first.base.path, since).await.map_err(status) }).await;
            if listed.is_err() {
                continue;
            }
            for leaving in files {
                let found = inner.walk(&leaving.base.path).await;
                if found.is_ok_and(|found| inner.is_version(&found, &leaving.base)) {
                    shown.push(leaving);
                }
            }
        }
        shown
    }
}
