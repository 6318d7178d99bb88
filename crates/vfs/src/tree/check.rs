//! Checks of single names, for directories too large to be listed for one lookup and for objects found replaced.

use std::sync::Arc;

use seqferry_store::{ErrorClass, ListRequest, ObjectMeta, ObjectRef, StoredMetadata};
use tokio::time::Instant;

use super::facts::{as_link, may_be_link};
use super::names::{LONGEST_NAME, RCLONE_LINK};
use super::snapshot::is_archive_class;
use super::{CHECKED_NAMES, CheckResult, CheckedEntry, FileKind, Lookup, NameFacts, State, Tree};
use crate::error::{Result, VfsError};
use crate::source::Urgency;

impl NameFacts {
    fn of_head(meta: &ObjectMeta) -> Self {
        let archived = meta.archived || meta.storage_class.as_deref().is_some_and(is_archive_class);
        let (kind, etag) = (FileKind::File, meta.etag.clone());
        Self { kind, size: meta.size, modified: meta.last_modified.floor(), etag, archived, is_plain_link: false }
    }
}

impl Tree {
    /// Ask the service about one name: HEAD of the object and a listing below it, concurrently. Where there is neither,
    /// HEAD of the object that stands for a link of this name.
    pub(super) async fn check(&self, directory: u32, inode: u64, name: &str) -> Result<Lookup> {
        let at = Instant::now();
        let key = {
            let state = self.read();
            let place = &state.directories[directory as usize];
            if place.inode != inode {
                return Err(VfsError::Stale);
            }
            format!("{}{name}", place.prefix)
        };
        let below = ListRequest {
            bucket: self.bucket.to_string(),
            prefix: format!("{key}/"),
            max_keys: Some(1),
            ..ListRequest::default()
        };
        let object = ObjectRef::new(&self.bucket, &key);
        let (head, below) = tokio::join!(self.source.head(object), self.source.list(&below, Urgency::Demand));
        let below = below?;
        let has_below = !below.objects.is_empty() || !below.common_prefixes.is_empty();
        // An object of rclone that stands for a link shows by the name of the link alone.
        let is_link_key = name.strip_suffix(RCLONE_LINK).is_some_and(|target| !target.is_empty());
        let (facts, meta) = match head {
            _ if has_below => (Some(NameFacts::directory()), None),
            Ok(meta) if !is_link_key => (Some(NameFacts::of_head(&meta)), Some(meta)),
            Err(error) if error.class != ErrorClass::NotFound => return Err(error.into()),
            Ok(_) | Err(_) if is_link_key || name.len() + RCLONE_LINK.len() > LONGEST_NAME => (None, None),
            Ok(_) | Err(_) => {
                let key = format!("{key}{RCLONE_LINK}");
                match self.source.head(ObjectRef::new(&self.bucket, &key)).await {
                    Ok(meta) => (Some(NameFacts { kind: FileKind::Symlink, ..NameFacts::of_head(&meta) }), Some(meta)),
                    Err(error) if error.class == ErrorClass::NotFound => (None, None),
                    Err(error) => return Err(error.into()),
                }
            }
        };
        self.remember_check(directory, inode, name, facts, meta.as_ref(), at)
    }

    pub(super) fn remember_check(
        &self,
        directory: u32,
        inode: u64,
        name: &str,
        facts: Option<NameFacts>,
        meta: Option<&ObjectMeta>,
        at: Instant,
    ) -> Result<Lookup> {
        let entry = {
            let mut state = self.write();
            if state.directories[directory as usize].inode != inode {
                return Err(VfsError::Stale);
            }
            // What was found out later counts: a removal, or another check.
            let later = state.directories[directory as usize].checked.get(name).filter(|known| known.at > at);
            if let Some(known) = later.map(|known| known.entry.clone()) {
                let valid = self.remaining(at).unwrap_or_default();
                let attributes = known.map(|entry| self.attributes_of(&state, entry.inode, &entry.facts, valid));
                return Ok(Lookup { attributes, valid });
            }
            let entry = facts.map(|facts| {
                let number = self.number(&state.directories[directory as usize].prefix, name, &facts, 0);
                if let Some(meta) = meta.filter(|_| facts.kind != FileKind::Directory) {
                    state.facts.restore(number, StoredMetadata::of(&meta.attributes.metadata), facts.modified);
                }
                let is_file = facts.kind == FileKind::File && may_be_link(facts.size);
                let is_link = is_file && state.facts.is_link(number, facts.modified);
                let (facts, hash) = if is_link { (facts.into_plain_link(), as_link(number)) } else { (facts, number) };
                let inode = self.free_number(&state, directory, name, &facts, hash);
                let entry = CheckedEntry { directory, name: name.into(), inode, facts };
                Arc::new(entry)
            });
            if state.directories[directory as usize].checked.len() >= CHECKED_NAMES {
                let checked = std::mem::take(&mut state.directories[directory as usize].checked);
                for old in checked.into_values().filter_map(|checked| checked.entry) {
                    if old.facts.kind != FileKind::Directory {
                        state.forget(old.inode);
                    }
                }
            }
            let place = &mut state.directories[directory as usize];
            if place.suspects.get(name).is_some_and(|doubt| at > *doubt) {
                place.suspects.remove(name);
            }
            let checked = &mut place.checked;
            let old = checked.insert(name.into(), CheckResult { entry: entry.clone(), at });
            let old = old.and_then(|old| old.entry).filter(|old| entry.as_ref().is_none_or(|e| e.inode != old.inode));
            if let Some(old) = old {
                state.forget(old.inode);
            }
            // The inode of the version before is unknown from now on: an open of it fails with `Stale`, so that the
            // name is looked up again.
            let listed = state.directories[directory as usize].snapshot.as_ref();
            let listed = listed.and_then(|snapshot| Some(snapshot.entry(snapshot.find(name)?)?.inode));
            if let Some(old) = listed.filter(|old| entry.as_ref().is_none_or(|entry| entry.inode != *old)) {
                state.remove_listed(directory, old);
            }
            if let Some(entry) = &entry {
                state.add_checked(entry);
            }
            entry
        };
        let valid = self.remaining(at).unwrap_or_default();
        let state = self.read();
        let attributes = entry.map(|entry| self.attributes_of(&state, entry.inode, &entry.facts, valid));
        Ok(Lookup { attributes, valid })
    }

    /// Ask the service what a path below the tree has now, whatever is remembered of it.
    ///
    /// # Errors
    /// When a request fails. An absent path is no error.
    pub async fn check_path(self: &Arc<Self>, path: &str) -> Result<Option<super::Attributes>> {
        let Some((inode, name)) = self.holder(path).await? else { return Ok(None) };
        let directory = self.directory(inode)?;
        Ok(self.check(directory, inode, name).await?.attributes)
    }

    /// Have the directory that holds a path listed: a listing counts that began at `since` or later.
    ///
    /// # Errors
    /// When a request fails. An absent directory is no error.
    pub async fn list_parent(self: &Arc<Self>, path: &str, since: Instant) -> Result<()> {
        let Some((inode, _)) = self.holder(path).await? else { return Ok(()) };
        let directory = self.directory(inode)?;
        self.list_since(directory, inode, since, Urgency::ReadAhead).await
    }

    /// The directory that holds a path below the tree, and the last name of the path. None: there is no such directory.
    async fn holder<'a>(self: &Arc<Self>, path: &'a str) -> Result<Option<(u64, &'a str)>> {
        let (mut parent, mut rest) = (super::ROOT, path);
        while let Some((name, below)) = rest.split_once('/') {
            let is_directory = |found: &super::Attributes| found.kind == FileKind::Directory;
            let mut found = self.lookup(parent, name).await?.attributes.filter(is_directory);
            if found.is_none() {
                // It may be one meanwhile.
                let directory = self.directory(parent)?;
                found = self.check(directory, parent, name).await?.attributes.filter(is_directory);
            }
            let Some(found) = found else { return Ok(None) };
            (parent, rest) = (found.inode, below);
        }
        Ok(Some((parent, rest)))
    }

    /// This process has removed the object of a path below the tree: its name does not show any more, nor does a
    /// directory that has become empty. No request is made; what is not remembered is requested when it is needed.
    pub fn note_removed(self: &Arc<Self>, path: &str) {
        let at = Instant::now();
        // Flat listings that began before know nothing of it.
        self.write().removals += 1;
        let (mut parent, mut rest) = (super::ROOT, path);
        let mut holders = Vec::new();
        while let Ok(directory) = self.directory(parent) {
            let Some((name, below)) = rest.split_once('/') else {
                // A directory that was forgotten meanwhile is listed again.
                let _noted = self.remember_check(directory, parent, rest, None, None, at);
                break;
            };
            let prefix = Arc::clone(&self.read().directories[directory as usize].prefix);
            let child = self.number(&prefix, name, &NameFacts::directory(), 0);
            holders.push((directory, parent, name, child));
            (parent, rest) = (child, below);
        }
        let mut state = self.write();
        for (directory, inode, name, child) in holders.into_iter().rev() {
            if state.shows_any(child) || state.directories[directory as usize].inode != inode {
                return;
            }
            let place = &mut state.directories[directory as usize];
            if place.suspects.len() >= CHECKED_NAMES {
                // Listed as a whole again.
                place.suspects.clear();
                place.listed = None;
            }
            place.suspects.insert(name.into(), at);
        }
    }

    /// Directories among the next `most` names of a directory that may have gone, and were not requested since `since`.
    pub(super) fn suspect_names(
        &self,
        directory: u32,
        after: Option<&str>,
        most: usize,
        since: Instant,
    ) -> Vec<Box<str>> {
        let state = self.read();
        let directory = &state.directories[directory as usize];
        let Some(snapshot) = directory.snapshot.as_ref().filter(|_| !directory.suspects.is_empty()) else {
            return Vec::new();
        };
        let from = after.map_or(0, |after| snapshot.rank(after).map_or_else(|at| at, |at| at + 1));
        let names = snapshot.ranked(from).map(|entry| snapshot.name(entry));
        // Names that are known to have gone take no space in the page.
        let shown = names.filter(|name| directory.known(name).is_some_and(|(_, found)| found.is_some())).take(most);
        let is_asked = |name: &str| directory.checked.get(name).is_some_and(|checked| checked.at >= since);
        shown.filter(|name| directory.is_suspect(name) && !is_asked(name)).map(Box::from).collect()
    }

    /// An inode's object was found replaced or removed: find out what has its name now.
    ///
    /// # Errors
    /// When the request fails.
    pub async fn replaced(&self, inode: u64) -> Result<Lookup> {
        let (parent, name) = self.name_of(inode)?;
        let directory = self.directory(parent)?;
        self.check(directory, parent, &name).await
    }
}

impl State {
    /// True when a directory is known to show a name.
    fn shows_any(&self, inode: u64) -> bool {
        let Some(place) = self.places.directory(inode) else { return false };
        let directory = &self.directories[place as usize];
        let is_there = |name: &str| directory.remembered(name).is_some_and(|(_, found)| found.is_some());
        let listed = directory.snapshot.iter().flat_map(|snapshot| {
            // Objects are removed in the order of their names: those at the end are there for the longest time.
            snapshot.entries().iter().rev().map(|entry| snapshot.name(entry))
        });
        listed.chain(directory.checked.keys().map(|name| &**name)).any(is_there)
    }
}
