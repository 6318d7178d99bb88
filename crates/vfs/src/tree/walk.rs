//! Walks: when the directories of a parent are read one after another, the rest of it is listed flat.
//!
//! One flat listing, without a delimiter, brings a thousand keys a page, whatever directories they are in. A directory
//! is known as a whole once the listing has gone past it. That holds for services that list in the order of keys. Where
//! a service does not, the results are dropped and nothing is listed flat again. A flat listing runs a few pages ahead
//! of its reader and ends when there is no reader.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use seqferry_store::{ListRequest, ListedObject};
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;

use super::snapshot::{Snapshot, SnapshotBuilder, SnapshotEntry};
use super::{FileKind, Tree};
use crate::source::Urgency;

/// Siblings in a row that make a walk.
const RUN: u32 = 1;
/// Pages that a flat listing may bring before any of it was read, and how many more each directory that is read allows.
const FIRST_PAGES: usize = 2;
const PAGES_PER_DIRECTORY: usize = 2;
/// Pages ahead of the reader at most.
const PAGES_AHEAD: usize = 16;
/// Pages of one directory after which it is left to be listed by itself.
const PAGES_OF_ONE: u64 = 8;
/// Siblings in a row after which the rest is listed by several flat listings concurrently, and how many those are.
const SURE_RUN: u32 = 8;
const RANGES: usize = 4;
/// Directories that a range of keys has at least: fewer are one or two pages in any case.
const DIRECTORIES_PER_RANGE: usize = 8;
/// Longest wait of a flat listing for its reader.
const READER_TIMEOUT: Duration = Duration::from_secs(10);

/// A flat listing under way: keys below a prefix in order, without a delimiter.
#[derive(Debug)]
pub(super) struct FlatListing {
    prefix: Arc<str>,
    /// The key after which the listing began.
    after: String,
    /// The last key that it lists. None: all that follow.
    until: Option<String>,
    position: watch::Receiver<FlatPosition>,
    /// Pages that it may bring.
    credit: Arc<Semaphore>,
}

/// Progress of a flat listing.
#[derive(Debug, Clone, Default)]
struct FlatPosition {
    pages: u64,
    /// All keys up to this one are known.
    last: String,
    is_done: bool,
}

/// The last key that could begin with a prefix.
fn end_of(prefix: &str) -> String {
    format!("{prefix}\u{10FFFF}")
}

impl Tree {
    /// A directory is about to be listed: begin a flat listing of what follows if its siblings are read in order.
    pub(super) fn follow_walk(self: &Arc<Self>, inode: u64) {
        if self.is_unsorted.load(Ordering::Relaxed) {
            return;
        }
        let mut state = self.write();
        let state = &mut *state;
        let Some(place) = state.places.directory(inode) else { return };
        let (prefix, parent) = {
            let directory = &state.directories[place as usize];
            (Arc::clone(&directory.prefix), directory.parent)
        };
        let Some(parent) = state.places.directory(parent) else { return };
        let parent = &mut state.directories[parent as usize];
        let Some(snapshot) = parent.snapshot.clone() else { return };
        let Some(name) = prefix.strip_prefix(&*parent.prefix).and_then(|name| name.strip_suffix('/')) else { return };
        let from = snapshot.rank(name).map_or_else(|at| at, |at| at + 1);
        let next = snapshot.ranked(from).find(|entry| entry.kind == FileKind::Directory);
        let next = next.map(|entry| Box::from(snapshot.name(entry)));
        let (expected, run) = &mut parent.walk;
        *run = if expected.as_deref() == Some(name) { *run + 1 } else { 0 };
        let is_last = next.is_none();
        *expected = next;
        let after = end_of(&prefix);
        if *run < RUN || is_last {
            return;
        }
        let (run, prefix) = (*run, Arc::clone(&parent.prefix));
        let covers = |flat: &&mut FlatListing| {
            let ends_later = flat.until.as_deref().is_none_or(|until| after.as_str() < until);
            after.starts_with(&*flat.prefix) && after >= flat.after && ends_later
        };
        let started = match state.flats.iter_mut().find(covers) {
            None => vec![self.begin_flat(&prefix, after, None, FIRST_PAGES)],
            Some(flat) if run == SURE_RUN && flat.until.is_none() && flat.prefix == prefix => {
                let last = flat.position.borrow().last.clone().max(after);
                let bounds = bounds(&snapshot, &prefix, &last);
                let Some(first) = bounds.first() else { return };
                flat.until = Some(first.clone());
                let ends = bounds[1..].iter().cloned().map(Some).chain([None]);
                let ranges = bounds.iter().cloned().zip(ends);
                ranges.map(|(after, until)| self.begin_flat(&prefix, after, until, PAGES_AHEAD)).collect()
            }
            Some(_) => return,
        };
        state.flats.extend(started);
    }

    /// Begin a flat listing, which lists once the state is unlocked.
    fn begin_flat(
        self: &Arc<Self>,
        prefix: &Arc<str>,
        after: String,
        until: Option<String>,
        pages: usize,
    ) -> FlatListing {
        let (sender, position) = watch::channel(FlatPosition::default());
        let credit = Arc::new(Semaphore::new(pages));
        let (tree, allowed, prefix) = (Arc::clone(self), Arc::clone(&credit), Arc::clone(prefix));
        let flat = FlatListing { prefix: Arc::clone(&prefix), after: after.clone(), until, position, credit };
        tokio::spawn(async move {
            tree.list_flat(&prefix, &after, &sender, &allowed).await;
            tree.write().flats.retain(|flat| flat.after != after || flat.prefix != prefix);
            sender.send_modify(|position| position.is_done = true);
        });
        flat
    }

    /// The last key that a flat listing under way lists, as it is now.
    fn until(&self, prefix: &str, after: &str) -> Option<String> {
        let state = self.read();
        let flat = state.flats.iter().find(|flat| flat.after == after && *flat.prefix == *prefix)?;
        flat.until.clone()
    }

    /// Wait for a flat listing that is about to bring this directory: one page at most.
    pub(super) async fn wait_for_flat(&self, prefix: &str) {
        let position = {
            let state = self.read();
            let covers = |flat: &&FlatListing| {
                let ends_later = flat.until.as_deref().is_none_or(|until| prefix < until);
                prefix.starts_with(&*flat.prefix) && prefix > flat.after.as_str() && ends_later
            };
            state.flats.iter().find(covers).map(|flat| (flat.position.clone(), Arc::clone(&flat.credit)))
        };
        let Some((mut position, credit)) = position else { return };
        // A waiter is a reader: it must not wait for pages that are not allowed yet.
        allow(&credit);
        let end = end_of(prefix);
        let first = position.borrow().pages;
        let is_over = |position: &FlatPosition| position.is_done || position.last > end || position.pages > first + 1;
        let _over = position.wait_for(is_over).await;
    }

    async fn list_flat(
        self: &Arc<Self>,
        prefix: &Arc<str>,
        after: &str,
        position: &watch::Sender<FlatPosition>,
        credit: &Arc<Semaphore>,
    ) {
        let (began, removals) = (Instant::now(), self.read().removals);
        let mut collected = ChildCollector::default();
        let mut request = ListRequest {
            bucket: self.bucket.to_string(),
            prefix: prefix.to_string(),
            start_after: Some(after.to_owned()),
            ..ListRequest::default()
        };
        let mut last = after.to_owned();
        loop {
            match tokio::time::timeout(READER_TIMEOUT, credit.acquire()).await {
                Ok(Ok(permit)) => permit.forget(),
                _ => return,
            }
            // Where it fails, each directory is listed by itself and says so.
            let Ok(page) = self.source.list(&request, Urgency::ReadAhead).await else { return };
            if self.read().removals != removals {
                return;
            }
            let until = self.until(prefix, after);
            let mut is_last = page.continuation.is_none();
            for object in &page.objects {
                if until.as_deref().is_some_and(|until| object.key.as_str() > until) {
                    is_last = true;
                    break;
                }
                if object.key <= last {
                    return self.forget_flat(collected.installed);
                }
                last.clone_from(&object.key);
                if let Some((child, parts)) = collected.add(prefix, object) {
                    self.install_flat(&child, parts, began, credit, &mut collected.installed);
                }
            }
            if is_last && let Some((child, parts)) = collected.take() {
                self.install_flat(&child, parts, began, credit, &mut collected.installed);
            }
            position.send_modify(|position| {
                position.pages += 1;
                position.last.clone_from(&last);
            });
            collected.pages += 1;
            if is_last || collected.pages > PAGES_OF_ONE {
                return;
            }
            request.continuation = page.continuation;
        }
    }

    /// The service does not list in the order of keys: nothing that rests on it is believed.
    fn forget_flat(&self, installed: Vec<u64>) {
        self.is_unsorted.store(true, Ordering::Relaxed);
        let mut state = self.write();
        for inode in installed {
            if let Some(directory) = state.places.directory(inode) {
                state.drop_snapshot(directory);
            }
        }
    }

    /// Put a directory that is known as a whole, and those below it, into the tree.
    fn install_flat(
        &self,
        child: &str,
        parts: BTreeMap<String, SnapshotBuilder>,
        began: Instant,
        credit: &Arc<Semaphore>,
        installed: &mut Vec<u64>,
    ) {
        // From the top down: the inode of a directory is found in the one that holds it.
        for (prefix, builder) in parts {
            let Some(inode) = self.inode_of_prefix(&prefix) else { continue };
            let Ok(directory) = self.directory(inode) else { continue };
            {
                let mut state = self.write();
                let place = &mut state.directories[directory as usize];
                let is_newer = place.listed.is_some_and(|listed| listed >= began);
                if place.inode != inode || is_newer || place.listing.is_some() {
                    continue;
                }
                place.credit = (prefix == child).then(|| Arc::clone(credit));
            }
            self.install(directory, inode, &prefix, builder, began);
            installed.push(inode);
        }
    }

    /// The inode of a directory that is in the tree, by its prefix.
    pub(super) fn inode_of_prefix(&self, prefix: &str) -> Option<u64> {
        let state = self.read();
        let mut inode = super::ROOT;
        let below = prefix.strip_prefix(self.options.prefix.as_str())?.strip_suffix('/')?;
        for name in below.split('/') {
            let directory = state.places.directory(inode)?;
            let snapshot = state.directories[directory as usize].snapshot.as_ref()?;
            inode = snapshot.entry(snapshot.find(name)?)?.inode;
        }
        Some(inode)
    }

    /// A directory is read: its flat listing may continue.
    pub(super) fn credit_walk(&self, directory: u32) {
        let has_credit = self.read().directories[directory as usize].credit.is_some();
        if has_credit && let Some(credit) = self.write().directories[directory as usize].credit.take() {
            allow(&credit);
        }
    }
}

/// Keys that cut the keys after `last` into ranges of about as many directories each; each is the last possible key of
/// a directory. Empty where there are too few directories.
fn bounds(snapshot: &Snapshot, prefix: &str, last: &str) -> Vec<String> {
    let name = last.strip_prefix(prefix).and_then(|rest| rest.split('/').next()).unwrap_or_default();
    let from = snapshot.rank(name).map_or_else(|at| at, |at| at + 1);
    let is_directory = |entry: &&SnapshotEntry| entry.kind == FileKind::Directory;
    let count = snapshot.ranked(from).filter(is_directory).count();
    if count < RANGES * DIRECTORIES_PER_RANGE {
        return Vec::new();
    }
    let chosen = snapshot.ranked(from).filter(is_directory).enumerate();
    let chosen = chosen.filter(|(at, _)| (1..RANGES).any(|range| *at == count * range / RANGES));
    let mut bounds: Vec<String> =
        chosen.map(|(_, entry)| end_of(&format!("{prefix}{}/", snapshot.name(entry)))).collect();
    // Names sort otherwise than the keys below them: `a-` comes before `a/`, and `a` before `a-`.
    bounds.sort_unstable();
    bounds
}

/// Allow some more pages.
fn allow(credit: &Semaphore) {
    if credit.available_permits() < PAGES_AHEAD {
        credit.add_permits(PAGES_PER_DIRECTORY);
    }
}

/// Collects the keys of one child of the walked directory, by the directory that holds them.
#[derive(Default)]
struct ChildCollector {
    child: Option<String>,
    parts: BTreeMap<String, SnapshotBuilder>,
    pages: u64,
    installed: Vec<u64>,
}

impl ChildCollector {
    /// Add a key. Returns the child before when this key is the first of another one.
    fn add(&mut self, prefix: &str, object: &ListedObject) -> Option<(String, BTreeMap<String, SnapshotBuilder>)> {
        let rest = object.key.strip_prefix(prefix)?;
        let child = rest.find('/').map(|slash| format!("{prefix}{}", &rest[..=slash]));
        let before = if child == self.child { None } else { self.take() };
        if let Some(child) = &child {
            let mut at = child.len();
            self.parts.entry(child.clone()).or_default();
            while let Some(slash) = object.key[at..].find('/') {
                let whole = &object.key[..=at + slash];
                if let Some(builder) = self.parts.get_mut(&object.key[..at]) {
                    builder.add_directory(&object.key[..at], whole);
                }
                at += slash + 1;
                self.parts.entry(object.key[..at].to_owned()).or_default();
            }
            if let Some(builder) = self.parts.get_mut(&object.key[..at]) {
                builder.add_object(&object.key[..at], object);
            }
        }
        self.child = child;
        before
    }

    /// The child that was collected last.
    fn take(&mut self) -> Option<(String, BTreeMap<String, SnapshotBuilder>)> {
        self.pages = 0;
        let child = self.child.take()?;
        Some((child, std::mem::take(&mut self.parts)))
    }
}
