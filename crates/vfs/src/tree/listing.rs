//! Listing whole directories, once for all waiting lookups, and putting the outcome into the tree.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use seqferry_store::{ListRequest, StoreError};
use tokio::sync::watch;
use tokio::time::Instant;

use super::snapshot::{SnapshotBuilder, inodes};
use super::{Directory, FileKind, Tree};
use crate::error::{Result, VfsError};
use crate::source::Urgency;

/// Milliseconds after which the reader of a large directory has gone, or does something else between its pages.
const READER_PAUSE: u64 = 5_000;
/// Times `max_entries` that are remembered at most while large directories are read.
const READ_FACTOR: usize = 4;

/// Progress of a listing.
#[derive(Debug, Clone)]
pub(super) enum ListingProgress {
    /// The first page is under way.
    Running,
    /// The first page was not the last.
    Large,
    /// The listing has ended. The directory is known as a whole unless only its first page was wanted.
    Done(std::result::Result<(), StoreError>),
}

/// Extent of a directory that is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ListingExtent {
    FirstPage,
    All,
}

/// The names of a listing under way. They take memory as those of finished ones do.
struct CollectedNames<'a> {
    tree: &'a Tree,
    count: usize,
}

impl CollectedNames<'_> {
    fn set(&mut self, count: usize, directory: u32) {
        let mut state = self.tree.write();
        state.collected = state.collected - self.count + count;
        self.count = count;
        self.tree.evict(&mut state, directory);
    }
}

impl Drop for CollectedNames<'_> {
    fn drop(&mut self) {
        if self.count > 0 {
            self.tree.write().collected -= self.count;
        }
    }
}

impl Tree {
    /// List a directory for a lookup in it. False: it is too large for that.
    pub(super) async fn list_for_lookup(self: &Arc<Self>, directory: u32, inode: u64) -> Result<bool> {
        if self.read().directories[directory as usize].is_large {
            return Ok(false);
        }
        let prefix = Arc::clone(&self.read().directories[directory as usize].prefix);
        self.wait_for_flat(&prefix).await;
        let is_known = {
            let state = self.read();
            let place = &state.directories[directory as usize];
            place.inode == inode && place.listed.is_some_and(|at| self.remaining(at).is_some())
        };
        if is_known {
            return Ok(true);
        }
        let mut progress = self.begin(directory, inode, ListingExtent::FirstPage, Urgency::Demand)?;
        loop {
            let now = progress.borrow_and_update().clone();
            match now {
                ListingProgress::Running => {}
                ListingProgress::Large => return Ok(false),
                ListingProgress::Done(outcome) => {
                    outcome?;
                    return Ok(!self.read().directories[directory as usize].is_large);
                }
            }
            progress.changed().await.map_err(|_| VfsError::Stale)?;
        }
    }

    /// Have all names of a directory, listed within its lifetime.
    pub(super) async fn list_for_reading(self: &Arc<Self>, directory: u32, inode: u64) -> Result<()> {
        let since = Instant::now();
        let mut is_first = true;
        loop {
            let prefix = {
                let state = self.read();
                let place = &state.directories[directory as usize];
                if place.inode != inode {
                    return Err(VfsError::Stale);
                }
                // With no lifetime at all, a listing that began after the call is believed.
                let is_known = |at| self.remaining(at).is_some() || at >= since;
                if place.snapshot.is_some() && place.listed.is_some_and(is_known) {
                    return Ok(());
                }
                Arc::clone(&place.prefix)
            };
            if std::mem::take(&mut is_first) && self.options.lifetime != Some(Duration::ZERO) {
                self.wait_for_flat(&prefix).await;
                self.follow_walk(inode);
                continue;
            }
            let mut progress = self.begin(directory, inode, ListingExtent::All, Urgency::Demand)?;
            let done = progress.wait_for(|progress| matches!(progress, ListingProgress::Done(_))).await;
            let done = done.map_err(|_| VfsError::Stale)?.clone();
            if let ListingProgress::Done(outcome) = done {
                outcome?;
            }
        }
    }

    /// List a directory now, however young the listing is that is known. Returns when a listing that began after the
    /// call is the one that shows.
    ///
    /// # Errors
    /// When the inode is unknown or no directory, or the listing fails.
    pub async fn list_again(self: &Arc<Self>, inode: u64) -> Result<()> {
        let directory = self.directory(inode)?;
        self.list_since(directory, inode, Instant::now(), Urgency::Demand).await
    }

    /// Have all names of a directory by a listing that began at `since` or later.
    pub(super) async fn list_since(
        self: &Arc<Self>,
        directory: u32,
        inode: u64,
        since: Instant,
        urgency: Urgency,
    ) -> Result<()> {
        loop {
            {
                let state = self.read();
                let place = &state.directories[directory as usize];
                if place.inode != inode {
                    return Err(VfsError::Stale);
                }
                if place.snapshot.is_some() && place.listed.is_some_and(|at| at >= since) {
                    return Ok(());
                }
            }
            // One that is under way may have begun before.
            let mut progress = self.begin(directory, inode, ListingExtent::All, urgency)?;
            let done = progress.wait_for(|progress| matches!(progress, ListingProgress::Done(_))).await;
            if let ListingProgress::Done(outcome) = done.map_err(|_| VfsError::Stale)?.clone() {
                outcome?;
            }
        }
    }

    /// Lists a directory again that soon expires.
    pub(super) fn refresh(self: &Arc<Self>, directory: u32) {
        let inode = self.read().directories[directory as usize].inode;
        // After a failure the next caller that needs the directory lists it again and reports the error.
        let _under_way = self.begin(directory, inode, ListingExtent::All, Urgency::ReadAhead);
    }

    /// The listing of a directory that is under way, or a new one.
    fn begin(
        self: &Arc<Self>,
        directory: u32,
        inode: u64,
        extent: ListingExtent,
        priority: Urgency,
    ) -> Result<watch::Receiver<ListingProgress>> {
        let (sender, prefix) = {
            let mut state = self.write();
            if state.directories[directory as usize].inode != inode {
                return Err(VfsError::Stale);
            }
            state.note_use(directory);
            let place = &mut state.directories[directory as usize];
            if let Some(listing) = place.listing.as_ref().filter(|listing| listing.has_changed().is_ok()) {
                return Ok(listing.clone());
            }
            let (sender, receiver) = watch::channel(ListingProgress::Running);
            place.listing = Some(receiver);
            (sender, Arc::clone(&place.prefix))
        };
        let receiver = sender.subscribe();
        let tree = Arc::clone(self);
        tokio::spawn(async move {
            let outcome = tree.list_pages(directory, inode, &prefix, extent, priority, &sender).await;
            {
                let mut state = tree.write();
                let place = &mut state.directories[directory as usize];
                if place.inode == inode {
                    place.listing = None;
                }
            }
            sender.send_replace(ListingProgress::Done(outcome));
        });
        Ok(receiver)
    }

    async fn list_pages(
        &self,
        directory: u32,
        inode: u64,
        prefix: &str,
        extent: ListingExtent,
        priority: Urgency,
        progress: &watch::Sender<ListingProgress>,
    ) -> std::result::Result<(), StoreError> {
        let began = Instant::now();
        let mut builder = SnapshotBuilder::default();
        let mut collected = CollectedNames { tree: self, count: 0 };
        let mut continuation = None;
        let mut pages = 0_u64;
        loop {
            let request = ListRequest {
                bucket: self.bucket.to_string(),
                prefix: prefix.to_owned(),
                delimiter: Some("/".to_owned()),
                continuation: continuation.take(),
                ..ListRequest::default()
            };
            let page = self.source.list(&request, priority).await?;
            pages += 1;
            page.common_prefixes.iter().for_each(|whole| builder.add_directory(prefix, whole));
            page.objects.iter().for_each(|object| builder.add_object(prefix, object));
            let Some(token) = page.continuation else { break };
            collected.set(builder.len(), directory);
            continuation = Some(token);
            if pages == 1 {
                self.set_large(directory, inode, true);
                progress.send_replace(ListingProgress::Large);
                if extent == ListingExtent::FirstPage {
                    return Ok(());
                }
            }
        }
        self.set_large(directory, inode, pages > 1);
        drop(collected);
        self.install(directory, inode, prefix, builder, began);
        Ok(())
    }

    fn set_large(&self, directory: u32, inode: u64, is_large: bool) {
        let mut state = self.write();
        let place = &mut state.directories[directory as usize];
        if place.inode == inode {
            place.is_large = is_large;
        }
    }

    /// Make a snapshot of what was found and put it in the place of the one before.
    pub(super) fn install(&self, directory: u32, inode: u64, prefix: &str, builder: SnapshotBuilder, began: Instant) {
        let (old, mut next_cookie) = {
            let state = self.read();
            let place = &state.directories[directory as usize];
            (place.snapshot.clone(), place.next_cookie)
        };
        // Only one listing of a directory runs at a time: nothing else changes its cookies meanwhile.
        let number = |name: &str, facts: &_| self.number(prefix, name, facts, 0);
        let mut snapshot = builder.finish(prefix, old.as_deref(), &mut next_cookie, number);

        let mut state = self.write();
        if state.directories[directory as usize].inode != inode {
            return;
        }
        snapshot.make_links(|inode, uploaded| state.facts.is_link(inode, uploaded));
        snapshot.renumber(|name, facts, hash| self.free_number(&state, directory, name, facts, hash));
        self.changes.fetch_add(1, Ordering::Relaxed);
        // A first listing has nothing to compare with.
        let is_first = old.is_none() && state.directories[directory as usize].checked.is_empty();
        let new = if is_first { HashSet::new() } else { inodes(&snapshot) };
        let gone: Vec<(u64, FileKind)> = old
            .iter()
            .flat_map(|old| old.entries())
            .filter(|entry| !new.contains(&entry.inode))
            .map(|entry| (entry.inode, entry.kind))
            .collect();
        for (inode, kind) in gone {
            match kind {
                FileKind::Directory => state.forget(inode),
                _ => state.remove_listed(directory, inode),
            }
        }
        let place = &mut state.directories[directory as usize];
        place.next_cookie = next_cookie;
        place.listed = Some(began);
        place.suspects.retain(|_, doubt| *doubt >= began);
        let outdated: Vec<_> = place.checked.extract_if(|_, checked| checked.at < began).collect();
        for entry in outdated.into_iter().filter_map(|(_, checked)| checked.entry) {
            if !new.contains(&entry.inode) {
                state.forget(entry.inode);
            }
        }
        state.entries += snapshot.len();
        state.entries -= old.map_or(0, |old| old.len());
        state.add_listed(directory, &snapshot);
        state.directories[directory as usize].snapshot = Some(Arc::new(snapshot));
        state.note_use(directory);
        self.evict(&mut state, directory);
    }

    /// Forget the listings used least recently while there are too many names. One whose pages are being read stays:
    /// each further page would list the directory again.
    fn evict(&self, state: &mut super::State, except: u32) {
        let most = self.options.max_entries;
        while state.entries + state.collected > most {
            let is_read_on = |directory: &Directory| {
                let read = directory.read.load(Ordering::Relaxed);
                directory.is_large && read > 0 && self.age() - read < READER_PAUSE
            };
            let is_beyond = state.entries + state.collected > most.saturating_mul(READ_FACTOR);
            let may_go =
                |place: &u32| *place != except && (is_beyond || !is_read_on(&state.directories[*place as usize]));
            let Some(oldest) = state.by_use.values().copied().find(may_go) else { return };
            state.drop_snapshot(oldest);
        }
    }
}
