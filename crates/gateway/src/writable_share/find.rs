//! Lookup of files by identity and name, and listing of directories: the bucket with the overlay on top.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, PoisonError};
use std::time::Instant;

use bytes::Bytes;
use seqferry_share::{
    Access, Attributes, Caller, DirectoryEntry, DirectoryPage, EntryDetail, FileError, FileId, FileKind, Result,
};
use seqferry_vfs::{NamePage, VersionPin};

use super::checks::{check, is_reserved};
use super::file_lock::FileLock;
use super::{Inner, MAX_LOCKS};
use crate::file_table::{AssignedFacts, ROOT, version_of};
use crate::journal::Disk;
use crate::overlay::{
    ALL_AS_BASE, BaseObject, Change, FileData, FileLocation, Node, NodeContent, OF_BUCKET, Overlay, OverlayEntry,
    STATED_GID, STATED_MODE, STATED_MODIFIED, STATED_UID, join, nanoseconds, system_time,
};
use crate::share::{read_page, status, within_call_timeout};

/// Moves of a folder in the bucket that one call follows.
const MOVES: u32 = 3;

/// A file as it is now.
#[derive(Debug, Clone)]
pub(super) struct LocatedFile {
    pub(super) attributes: Attributes,
    /// Answer of the bucket, with its path. None: the overlay has it.
    pub(super) lower: Option<BucketEntry>,
}

/// An object or prefix of the bucket.
#[derive(Debug, Clone)]
pub(super) struct BucketEntry {
    pub(super) path: String,
    pub(super) attributes: seqferry_vfs::Attributes,
}

/// A directory that a call changes or reads.
#[derive(Debug, Clone)]
pub(super) struct ParentDirectory {
    pub(super) file: FileId,
    pub(super) attributes: Attributes,
    /// Its prefix in the bucket, without a slash. None: it is not there.
    pub(super) prefix: Option<String>,
}

/// The file of a name.
#[derive(Debug, Clone)]
pub(super) enum ChildEntry {
    Absent,
    Node(NodeGuard),
    Bucket(FileId, BucketEntry),
}

/// A node that a call works on: it does not leave the overlay meanwhile.
#[derive(Debug, Clone)]
pub(super) struct NodeGuard {
    pub(super) number: u64,
    _lock: Arc<FileLock>,
}

/// Facts that an object states, all of which are as it has them. Its time is that of the service where it states none.
fn stated(found: &seqferry_vfs::Attributes) -> u8 {
    let stated = [
        (found.permissions.is_some(), STATED_MODE),
        (found.uid.is_some(), STATED_UID),
        (found.gid.is_some(), STATED_GID),
        (true, STATED_MODIFIED),
    ];
    stated.iter().filter(|(is_stated, _)| *is_stated).fold(ALL_AS_BASE, |all, (_, bit)| all | bit)
}

impl<D: Disk> Inner<D> {
    /// The file of an identity.
    pub(super) async fn find(&self, file: FileId) -> Result<LocatedFile> {
        for _ in 0..MOVES {
            let before = self.overlay.read(|overlay| overlay.locate(&self.file_table, file));
            match self.find_once(file).await {
                // Its folder may have been moved in the bucket while the bucket was asked: the overlay has the file
                // now.
                Err(FileError::Stale)
                    if before != self.overlay.read(|overlay| overlay.locate(&self.file_table, file)) => {}
                found => return found,
            }
        }
        Err(FileError::TryLater)
    }

    async fn find_once(&self, file: FileId) -> Result<LocatedFile> {
        self.follow(file.number).await?;
        let locate = self.overlay.read(|overlay| {
            let locate = overlay.locate(&self.file_table, file)?;
            let attributes = match &locate {
                FileLocation::Node(number) => overlay.node(*number).map(Node::attributes),
                FileLocation::Bucket(_) => None,
            };
            Ok((locate, attributes))
        })?;
        match locate {
            (_, Some(attributes)) => Ok(LocatedFile { attributes, lower: None }),
            (FileLocation::Node(_), None) => Err(FileError::Stale),
            (FileLocation::Bucket(path), None) => {
                let mut attributes = self.walk(&path).await?;
                if self.assigned(file.number, &attributes).is_none() {
                    attributes = self.learned(attributes).await?;
                }
                let lower = Some(BucketEntry { path, attributes: attributes.clone() });
                Ok(LocatedFile { attributes: self.shown(file, &attributes), lower })
            }
        }
    }

    /// A file that the bucket has as it is follows the bucket, as other files do: another program may have replaced or
    /// removed its object.
    async fn follow(&self, number: u64) -> Result<()> {
        let is_clean = |node: &Node| !node.is_changed() && node.data().is_some_and(|data| data.written.is_empty());
        let clean = self.overlay.read(|overlay| {
            // One that is being copied has two objects, of which either may be the only one soon.
            let node =
                overlay.node(number).filter(|node| is_clean(node) && !overlay.uploads().contains_key(&number))?;
            Some((node.changed, node.base.clone()?))
        });
        let Some((changed, base)) = clean else { return Ok(()) };
        let is_fresh = {
            let looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
            looked.get(&number).is_some_and(|at| at.elapsed() < self.stale_after)
        };
        if is_fresh || self.walk(&base.path).await.is_ok_and(|found| self.is_version(&found, &base)) {
            return Ok(());
        }
        let asked = within_call_timeout(async { self.files.tree().check_path(&base.path).await.map_err(status) }).await;
        // It shows as it was last known.
        let Ok(found) = asked else { return Ok(()) };
        let found = found.filter(|found| found.kind == seqferry_vfs::FileKind::File);
        let replaced = self.overlay.record(|overlay| {
            // Its object may be another one meanwhile, without a change of the file: that of a folder that was moved.
            let is_same = |node: &Node| node.changed == changed && node.base.as_ref() == Some(&base) && is_clean(node);
            let is_sent = overlay.uploads().contains_key(&number);
            let node = overlay.node(number).filter(|node| is_same(node) && !is_sent);
            let Some(mut node) = node.cloned() else { return Ok((Vec::new(), ())) };
            let Some(found) = &found else {
                let dropped = std::iter::once(Change::Remove(number)).chain(overlay.without_attributes(number));
                return Ok((dropped.collect(), ()));
            };
            if self.is_version(found, &base) {
                return Ok((Vec::new(), ()));
            }
            let version = self.files.tree().version(found.inode).map_err(status)?;
            let VersionPin::Etag(etag) = version.pin else { return Err(FileError::Io) };
            node.touch();
            self.take_facts(&mut node, found);
            node.uploaded = node.changed;
            let (path, size) = (base.path.clone(), version.size);
            node.base = Some(BaseObject { path, etag: (&*etag).into(), size, visible: size });
            node.content = NodeContent::File(FileData { size, durable_size: size, ..FileData::default() });
            Ok((vec![Change::Put(Box::new(node))], ()))
        });
        replaced.await?;
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        if looked.len() >= MAX_LOCKS {
            looked.retain(|_, at| at.elapsed() < self.stale_after / 2);
        }
        looked.insert(number, Instant::now());
        Ok(())
    }

    /// A directory in which the caller has a right.
    pub(super) async fn directory(&self, caller: &Caller, file: FileId, right: Access) -> Result<ParentDirectory> {
        let found = self.find(file).await?;
        if found.attributes.kind != FileKind::Directory {
            return Err(FileError::NotADirectory);
        }
        check(caller, &found.attributes, right)?;
        let prefix = match found.lower {
            Some(lower) => Some(lower.path),
            None => self.overlay.read(|overlay| overlay.lower(&self.file_table, file.number))?,
        };
        Ok(ParentDirectory { file, attributes: found.attributes, prefix })
    }

    /// The file of a name.
    pub(super) async fn child(&self, parent: &ParentDirectory, name: &str) -> Result<ChildEntry> {
        let number = parent.file.number;
        if is_reserved(number, name) {
            return Ok(ChildEntry::Absent);
        }
        let decided = |overlay: &Overlay| match overlay.entry(number, name)? {
            OverlayEntry::Node(number) => Some(ChildEntry::Node(self.held(number))),
            OverlayEntry::Hidden => Some(ChildEntry::Absent),
        };
        let mut prefix = parent.prefix.clone();
        for _ in 0..MOVES {
            if let Some(child) = self.overlay.read(decided) {
                return Ok(child);
            }
            let Some(path) = prefix.as_ref().map(|prefix| join(prefix, name)) else { return Ok(ChildEntry::Absent) };
            let found = match self.walk_in(number, name, &path).await {
                Ok(attributes) => Some(attributes),
                Err(FileError::Stale) => None,
                Err(error) => return Err(error),
            };
            // The folder may have been moved in the bucket while the bucket was asked: what is in it are nodes now.
            let (now, id) = self.overlay.read(|overlay| {
                if let Some(child) = decided(overlay) {
                    return (Ok(child), None);
                }
                let now = overlay.lower(&self.file_table, number).unwrap_or_else(|_| prefix.clone());
                // Looking for a name that does not exist leaves nothing.
                (Err(now), found.as_ref().and_then(|_| overlay.bucket_file(&self.file_table, number, name)))
            });
            match (now, found) {
                (Ok(child), _) => return Ok(child),
                (Err(now), _) if now != prefix => prefix = now,
                (Err(_), None) => return Ok(ChildEntry::Absent),
                (Err(_), Some(attributes)) => {
                    return Ok(ChildEntry::Bucket(id.ok_or(FileError::Io)?, BucketEntry { path, attributes }));
                }
            }
        }
        Err(FileError::TryLater)
    }

    /// The bucket's entry for a name of a directory, with its attributes.
    async fn walk_in(&self, parent: u64, name: &str, path: &str) -> Result<seqferry_vfs::Attributes> {
        let found = self.walk(path).await?;
        let file = self.overlay.read(|overlay| overlay.bucket_file(&self.file_table, parent, name));
        if file.is_some_and(|file| self.assigned(file.number, &found).is_some()) {
            return Ok(found);
        }
        self.learned(found).await
    }

    /// The file of a name, seen again while the overlay is held.
    pub(super) fn child_now(
        &self,
        overlay: &Overlay,
        parent: &ParentDirectory,
        name: &str,
        seen: &ChildEntry,
    ) -> ChildEntry {
        match (overlay.entry(parent.file.number, name), seen) {
            (Some(OverlayEntry::Node(number)), _) => ChildEntry::Node(self.held(number)),
            (None, ChildEntry::Bucket(file, lower)) => ChildEntry::Bucket(*file, lower.clone()),
            (Some(OverlayEntry::Hidden), _) | (None, ChildEntry::Absent | ChildEntry::Node(_)) => ChildEntry::Absent,
        }
    }

    fn held(&self, number: u64) -> NodeGuard {
        NodeGuard { number, _lock: self.lock_of(number) }
    }

    /// Attributes of a file of the bucket that was made or changed here, while the bucket has it as it was then.
    fn assigned(&self, number: u64, found: &seqferry_vfs::Attributes) -> Option<Box<AssignedFacts>> {
        let facts = self.file_table.place(number)?.assigned?;
        self.is_of_version(found, &facts).then_some(facts)
    }

    /// True while the bucket has the version that these facts are of.
    fn is_of_version(&self, found: &seqferry_vfs::Attributes, facts: &AssignedFacts) -> bool {
        let tree = self.files.tree();
        let (Ok(version), Ok(uploaded)) = (tree.version(found.inode), tree.uploaded(found.inode)) else { return false };
        matches!(version.pin, VersionPin::Etag(etag) if version_of(&etag, uploaded) == facts.version)
    }

    /// Attributes of a file of the bucket.
    fn shown(&self, file: FileId, found: &seqferry_vfs::Attributes) -> Attributes {
        self.shown_with(file, found, self.assigned(file.number, found).as_deref())
    }

    /// Attributes of a file of the bucket. `facts`: those of its version that were assigned here.
    fn shown_with(&self, file: FileId, found: &seqferry_vfs::Attributes, facts: Option<&AssignedFacts>) -> Attributes {
        let shown = Attributes { file, ..self.defaults.attributes(file.number, found) };
        let Some(facts) = facts else { return shown };
        Attributes {
            mode: facts.mode,
            uid: facts.uid,
            gid: facts.gid,
            accessed: system_time(facts.accessed),
            modified: system_time(facts.modified),
            changed: system_time(facts.changed),
            ..shown
        }
    }

    /// Attributes of the file of a name.
    pub(super) fn facts(&self, overlay: &Overlay, child: &ChildEntry) -> Option<Attributes> {
        match child {
            ChildEntry::Absent => None,
            ChildEntry::Node(node) => overlay.node(node.number).map(Node::attributes),
            ChildEntry::Bucket(file, lower) => Some(self.shown(*file, &lower.attributes)),
        }
    }

    /// Give a node the attributes of another version of its object.
    pub(super) fn take_facts(&self, node: &mut Node, found: &seqferry_vfs::Attributes) {
        let shown = self.defaults.attributes(node.file.number, found);
        (node.mode, node.uid, node.gid) = (shown.mode, shown.uid, shown.gid);
        (node.modified, node.stated) = (nanoseconds(shown.modified), stated(found));
    }

    /// Give a folder the attributes of its marker that were not stated here.
    pub(super) fn take_unstated(&self, node: &mut Node, marker: &seqferry_vfs::Attributes) {
        let shown = self.defaults.attributes(node.file.number, marker);
        let is_new = |bit: u8, is_stated: bool| is_stated && node.stated & bit == 0;
        let (mode, uid, gid) = (
            is_new(STATED_MODE, marker.permissions.is_some()),
            is_new(STATED_UID, marker.uid.is_some()),
            is_new(STATED_GID, marker.gid.is_some()),
        );
        if mode {
            node.mode = shown.mode;
            node.state(STATED_MODE);
        }
        if uid {
            node.uid = shown.uid;
            node.state(STATED_UID);
        }
        if gid {
            node.gid = shown.gid;
            node.state(STATED_GID);
        }
    }

    /// Path of the object of a file: links of rclone have an ending that they do not show.
    pub(super) fn object_path(&self, lower: &BucketEntry) -> Result<String> {
        if lower.attributes.kind != seqferry_vfs::FileKind::Symlink {
            return Ok(lower.path.clone());
        }
        let version = self.files.tree().version(lower.attributes.inode).map_err(status)?;
        version.key.get(self.prefix_length..).map(str::to_owned).ok_or(FileError::Io)
    }

    /// A file of the bucket as a node that can be changed. `target` is that of a link.
    pub(super) fn adopted(
        &self,
        file: FileId,
        place: (u64, &str),
        lower: &BucketEntry,
        target: &Bytes,
    ) -> Result<Node> {
        let assigned = self.assigned(file.number, &lower.attributes);
        if !lower.attributes.is_known && assigned.is_none() {
            // A guess must not become a fact.
            return Err(FileError::TryLater);
        }
        let shown = self.shown_with(file, &lower.attributes, assigned.as_deref());
        let (content, base) = if shown.kind == FileKind::Directory {
            (
                NodeContent::Directory,
                BaseObject { path: lower.path.as_str().into(), etag: "".into(), size: 0, visible: 0 },
            )
        } else {
            let version = self.files.tree().version(lower.attributes.inode).map_err(status)?;
            let VersionPin::Etag(etag) = version.pin else { return Err(FileError::Io) };
            let (path, size) = (self.object_path(lower)?.into(), version.size);
            let content = match shown.kind {
                FileKind::Symlink => NodeContent::Link(target.clone()),
                _ => NodeContent::File(FileData { size, durable_size: size, ..FileData::default() }),
            };
            (content, BaseObject { path, etag: (&*etag).into(), size, visible: size })
        };
        Ok(Node {
            file,
            parent: place.0,
            name: place.1.into(),
            mode: shown.mode,
            uid: shown.uid,
            gid: shown.gid,
            accessed: nanoseconds(shown.accessed),
            modified: nanoseconds(shown.modified),
            changed: nanoseconds(shown.changed),
            uploaded: nanoseconds(shown.changed),
            stated: assigned.map_or_else(|| stated(&lower.attributes), |facts| facts.stated | ALL_AS_BASE),
            exclusive: None,
            writer: None,
            base: Some(base),
            content,
        })
    }

    pub(super) async fn lookup(&self, caller: &Caller, directory: FileId, name: &[u8]) -> Result<Attributes> {
        let parent = self.directory(caller, directory, Access::LOOKUP).await?;
        match name {
            b"." => return Ok(parent.attributes),
            b".." => return Ok(self.find(self.holder(directory)).await?.attributes),
            _ => {}
        }
        // Keys are text: no object has another name.
        let name = std::str::from_utf8(name).map_err(|_| FileError::NotFound)?;
        let mut child = self.child(&parent, name).await?;
        if let ChildEntry::Node(NodeGuard { number, .. }) = child {
            // The bucket may have another version of it meanwhile.
            self.follow(number).await?;
            child = self.child(&parent, name).await?;
        }
        self.overlay.read(|overlay| self.facts(overlay, &child)).ok_or(FileError::NotFound)
    }

    /// The next question about a file goes to the bucket.
    pub(super) fn invalidate(&self, number: u64) {
        self.looked.lock().unwrap_or_else(PoisonError::into_inner).remove(&number);
    }

    /// The directory that holds a file.
    fn holder(&self, file: FileId) -> FileId {
        self.overlay.read(|overlay| {
            let number = overlay.parent(&self.file_table, file.number);
            overlay.node(number).map_or(FileId { number, generation: OF_BUCKET }, |node| node.file)
        })
    }

    /// The target of a link.
    pub(super) async fn target(&self, link: FileId) -> Result<Bytes> {
        let found = self.find(link).await?;
        match found.lower {
            Some(lower) => {
                within_call_timeout(async { self.files.read_link(lower.attributes.inode).await.map_err(status) }).await
            }
            None => self.overlay.read(|overlay| match overlay.node(link.number).map(|node| &node.content) {
                Some(NodeContent::Link(target)) => Ok(target.clone()),
                Some(NodeContent::File(_) | NodeContent::Directory) => Err(FileError::Invalid),
                None => Err(FileError::Stale),
            }),
        }
    }

    /// Names of a directory in the bucket, with these facts.
    pub(super) async fn lower_names(
        &self,
        prefix: Option<&str>,
        (after, most): (Option<&str>, usize),
        facts: EntryDetail,
    ) -> Result<NamePage> {
        let nothing = NamePage { entries: Vec::new(), is_end: true };
        let Some(prefix) = prefix else { return Ok(nothing) };
        let found = match self.walk(prefix).await {
            Ok(found) if found.kind == seqferry_vfs::FileKind::Directory => found,
            // A prefix without objects is no directory of the bucket any more.
            Ok(_) | Err(FileError::Stale) => return Ok(nothing),
            Err(error) => return Err(error),
        };
        // Names show while the bucket does not answer; their attributes are requested one by one.
        let facts = if self.outage.is_recent() { EntryDetail::Names } else { facts };
        within_call_timeout(read_page(&self.files, found.inode, (after, most), facts)).await
    }

    /// Names that are hidden when a page of the bucket is requested: one that is removed and shown again meanwhile is
    /// still on the page.
    fn hidden_names(&self, number: u64, after: Option<&str>) -> HashSet<String> {
        self.overlay.read(|overlay| {
            let hidden = overlay.names(number, after).filter(|(_, entry)| *entry == OverlayEntry::Hidden);
            hidden.map(|(name, _)| name.to_owned()).collect()
        })
    }

    /// True when a directory shows no name.
    pub(super) async fn is_empty(&self, number: u64, prefix: Option<&str>) -> Result<bool> {
        if self.overlay.read(|overlay| overlay.has_nodes(number)) {
            return Ok(false);
        }
        let mut after: Option<String> = None;
        loop {
            let hidden_before = self.hidden_names(number, after.as_deref());
            let page = self.lower_names(prefix, (after.as_deref(), 1024), EntryDetail::Names).await?;
            let hidden = |(name, _): &(String, _)| {
                hidden_before.contains(name) || self.overlay.read(|overlay| overlay.entry(number, name).is_some())
            };
            if !page.entries.iter().all(hidden) {
                return Ok(false);
            }
            after = page.entries.into_iter().last().map(|(name, _)| name);
            if page.is_end || after.is_none() {
                return Ok(true);
            }
        }
    }

    /// Entries of a directory after a position: that of a name, which stays when the name has gone.
    pub(super) async fn list(
        &self,
        caller: &Caller,
        directory: FileId,
        (cookie, most): (u64, usize),
        facts: EntryDetail,
    ) -> Result<DirectoryPage> {
        let parent = self.directory(caller, directory, Access::READ).await?;
        let mut entries = Vec::new();
        if cookie < 1 {
            let attributes = parent.attributes.clone();
            entries.push(DirectoryEntry { name: Bytes::from_static(b"."), cookie: 1, attributes, is_known: true });
        }
        if cookie < 2 {
            let attributes = self.find(self.holder(directory)).await?.attributes;
            entries.push(DirectoryEntry { name: Bytes::from_static(b".."), cookie: 2, attributes, is_known: true });
        }
        let mut after = match cookie {
            0..=2 => None,
            number => {
                let place = self.file_table.place(number).filter(|place| place.parent == directory.number);
                Some(place.ok_or(FileError::BadCookie)?.name.trim_end_matches('\0').to_owned())
            }
        };
        let most = most.saturating_sub(entries.len()).max(1);
        loop {
            let hidden_before = self.hidden_names(directory.number, after.as_deref());
            let mut lower = self.lower_names(parent.prefix.as_deref(), (after.as_deref(), most), facts).await?;
            // Immediately: each by itself would be a write to the table of its own.
            drop(self.file_table.numbers(directory.number, lower.entries.iter().map(|(name, _)| name.as_str())));
            let last = lower.entries.last().map(|(name, _)| name.clone());
            let bound = if lower.is_end { None } else { last };
            lower.entries.retain(|(name, _)| !hidden_before.contains(name));
            let (names, is_end) = self.merged(&parent, after.as_deref(), (lower, bound.as_deref()), most);
            if names.is_empty() && !is_end {
                after = bound;
                continue;
            }
            let cookies = self.file_table.numbers(directory.number, names.iter().map(|(name, ..)| name.as_str()));
            for ((name, attributes, is_known), cookie) in names.into_iter().zip(cookies) {
                let Some(cookie) = cookie else { continue };
                entries.push(DirectoryEntry { name: Bytes::from(name), cookie, attributes, is_known });
            }
            return Ok(DirectoryPage { entries, is_end });
        }
    }

    /// Names of bucket and overlay after one, in their order, and whether there are no more. Names of the bucket are
    /// known up to `bound` (None: all).
    fn merged(
        &self,
        parent: &ParentDirectory,
        after: Option<&str>,
        (lower, bound): (NamePage, Option<&str>),
        most: usize,
    ) -> (Vec<(String, Attributes, bool)>, bool) {
        let number = parent.file.number;
        self.overlay.read(|overlay| {
            let mut merged = BTreeMap::new();
            for (name, attributes) in lower.entries {
                if overlay.entry(number, &name).is_none()
                    && !is_reserved(number, &name)
                    && let Some((file, facts)) = overlay.bucket_file_with_facts(&self.file_table, number, &name)
                {
                    let facts = facts.filter(|facts| self.is_of_version(&attributes, facts));
                    let is_known = attributes.is_known || facts.is_some();
                    merged.insert(name, (self.shown_with(file, &attributes, facts.as_ref()), is_known));
                }
            }
            let is_known = |name: &str| bound.is_none_or(|bound| name <= bound);
            let mut made = 0;
            for (name, entry) in overlay.names(number, after).take_while(|(name, _)| is_known(name)) {
                let OverlayEntry::Node(child) = entry else { continue };
                if made > most {
                    break;
                }
                if let Some(node) = overlay.node(child) {
                    merged.insert(name.to_owned(), (node.attributes(), true));
                    made += 1;
                }
            }
            let is_end = bound.is_none() && merged.len() <= most;
            let merged = merged.into_iter().take(most);
            (merged.map(|(name, (attributes, is_known))| (name, attributes, is_known)).collect(), is_end)
        })
    }

    /// Place of a file of the bucket: its directory and its name there.
    pub(super) fn place(&self, file: FileId) -> Result<(u64, String)> {
        if file.number == ROOT {
            return Ok((ROOT, String::new()));
        }
        let place = self.file_table.place(file.number).ok_or(FileError::Stale)?;
        Ok((place.parent, place.name.trim_end_matches('\0').to_owned()))
    }
}
