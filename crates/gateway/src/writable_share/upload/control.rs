//! Control of a share's uploads: which files may be sent now, what is running, what fails, and how much was sent.
//!
//! - **Windows**: outside its upload windows nothing is sent. Removals are made at any time.
//! - **Flush**: changes made before a flush are uploaded immediately, regardless of windows and settle time.
//! - **Markers**: a file that signals a complete folder waits until all older files of that folder and of the folders
//!   below it are in the bucket. Older files were changed before the marker, or created before it and never uploaded.

mod meter;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::SystemTime;

use seqferry_store::ByteThrottle;

use super::UploadError;
pub(crate) use super::plan::is_range_list;
use super::plan::{self, UploadTask};
use crate::file_table::{FileTable, ROOT};
use crate::name_list::NameList;
use crate::overlay::{MADE_HERE, Node, NodeContent, Overlay, is_below, now};
use crate::prefix_claim::PrefixClaim;
use crate::upload_window::{self, UploadWindow};
use meter::RateMeter;

/// Folder of the share for files that lost against another program's.
pub(crate) const CONFLICTS: &str = plan::CONFLICTS;
/// Folder of the parts of files that grow.
pub(crate) const PARTS: &str = plan::PARTS;
/// Flushes of different paths that are remembered; further ones flush the whole share.
const MAX_FLUSHES: usize = 64;
/// Bytes of the text of a failure that are kept.
const MAX_FAILURE_TEXT: usize = 2048;

/// Rules of a share for its uploads.
#[derive(Debug, Default)]
pub(crate) struct UploadRules {
    pub(crate) markers: NameList,
    pub(crate) windows: Vec<UploadWindow>,
    /// Bytes per second at most.
    pub(crate) max_bandwidth: Option<u64>,
}

#[derive(Debug, Default)]
pub(crate) struct UploadControl {
    rules: OnceLock<UploadRules>,
    /// Not set: the prefix is written by this process alone.
    claim: OnceLock<Arc<PrefixClaim>>,
    throttle: ByteThrottle,
    meter: RateMeter,
    files: AtomicU64,
    conflicts: AtomicU64,
    /// Everything goes, whatever window and settle time say.
    drains: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    flushes: Vec<Flush>,
    /// Number of the last flush.
    last_flush: u64,
    /// Files that are sent just now, and since when, in nanoseconds since 1970.
    running: HashMap<u64, u64>,
    failures: HashMap<FailureKey, UploadFailure>,
    /// Markers that wait, and one of the files that each waits for.
    held: HashMap<u64, u64>,
    /// A flush has come: what failed is tried again immediately.
    retries_now: bool,
}

/// A file, or a key to be removed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum FailureKey {
    File(u64),
    Key(Box<str>),
}

impl FailureKey {
    /// None for work that is about no file of a client.
    fn of(work: &UploadTask) -> Option<Self> {
        match work {
            UploadTask::Send(file_upload) => Some(Self::File(file_upload.number)),
            UploadTask::Fetch(number)
            | UploadTask::Resolve(number)
            | UploadTask::Move(number)
            | UploadTask::Grow(number)
            | UploadTask::AbortGrowing(number) => Some(Self::File(*number)),
            UploadTask::Remove { path, .. } => Some(Self::Key(path.clone())),
            UploadTask::Evict => None,
        }
    }
}

/// Files at this path and below it that are uploaded immediately.
#[derive(Debug, Clone)]
struct Flush {
    path: Box<str>,
    /// Changes up to this time count, in nanoseconds since 1970.
    at: u64,
    /// Files that have changed since as well.
    files: Arc<PendingFiles>,
    number: u64,
}

/// Failure of the last attempt at a file or key, which is tried again.
#[derive(Debug, Clone)]
pub(crate) struct UploadFailure {
    /// The cause and the next step.
    pub(crate) text: String,
    pub(crate) since: SystemTime,
    pub(crate) attempts: u32,
}

/// True when the bucket does not have a file as the share shows it, and is to have it.
pub(crate) fn is_dirty(overlay: &Overlay, file_table: &FileTable, node: &Node) -> bool {
    let has_moved =
        || overlay.has_moved() && node.base.is_some() && plan::is_elsewhere(overlay, file_table, node.file.number);
    node.file.number != ROOT && !overlay.is_local_only(node) && (node.is_changed() || has_moved())
}

/// Files that the bucket does not have as they are, and the generation of each.
pub(crate) type PendingFiles = HashMap<u64, u64>;

/// The pending files that are at a path or below it, or were before a rename.
pub(super) fn pending_files(overlay: &Overlay, file_table: &FileTable, path: &str) -> PendingFiles {
    let is_here = |node: &&Node| {
        let now = overlay.path(file_table, node.file.number).unwrap_or_default();
        is_within(&now, path) || node.base.as_ref().is_some_and(|base| is_within(&base.path, path))
    };
    let dirty = overlay.nodes().filter(|node| is_dirty(overlay, file_table, node)).filter(is_here);
    dirty.map(|node| (node.file.number, node.changed)).collect()
}

/// True while the bucket has neither a generation of a file nor a later one. A folder has no generations.
pub(super) fn is_pending(overlay: &Overlay, file_table: &FileTable, node: &Node, generation: u64) -> bool {
    let is_uploaded = match node.content {
        NodeContent::File(_) | NodeContent::Link(_) => node.base.is_some() && node.uploaded >= generation,
        NodeContent::Directory => node.base.is_some(),
    };
    !is_uploaded && is_dirty(overlay, file_table, node)
}

/// True for a path and all below it; everything is below the empty one.
pub(crate) fn is_within(path: &str, top: &str) -> bool {
    top.is_empty() || is_below(path, top)
}

impl UploadControl {
    /// Set the rules, once.
    pub(crate) fn set_rules(&self, rules: UploadRules) {
        self.throttle.set_rate(rules.max_bandwidth);
        let _unused = self.rules.set(rules);
    }

    /// Set the claim without which nothing is written, once.
    pub(crate) fn set_claim(&self, claim: Arc<PrefixClaim>) {
        let _unused = self.claim.set(claim);
    }

    /// Wait until the prefix is known to be claimed by this gateway.
    pub(super) async fn check_claim(&self) -> Result<(), UploadError> {
        match self.claim.get() {
            Some(claim) => claim.confirm().await.map_err(UploadError::not_claimed),
            None => Ok(()),
        }
    }

    /// Nothing is written before the claim was checked again.
    fn look_at_claim(&self) {
        if let Some(claim) = self.claim.get() {
            claim.invalidate();
        }
    }

    /// The line about another gateway's claim, while nothing is uploaded for it.
    pub(crate) fn refusal(&self) -> Option<String> {
        self.claim.get().and_then(|claim| claim.refusal())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn rules(&self) -> &UploadRules {
        self.rules.get_or_init(UploadRules::default)
    }

    /// True when files may be sent without a flush.
    pub(crate) fn is_open(&self) -> bool {
        upload_window::is_open(&self.rules().windows)
    }

    /// Upload immediately what was changed so far at a path and below it; with a marker the files that it may wait for.
    /// Returns these files.
    pub(crate) fn flush(&self, overlay: &Overlay, file_table: &FileTable, path: &str) -> Arc<PendingFiles> {
        self.look_at_claim();
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        let path = if self.rules().markers.matches(name) { folder } else { path };
        // A file that is changed often has a time that runs ahead of the clock.
        let at = overlay.nodes().map(|node| node.changed).max().unwrap_or_default().max(now());
        let mut files = pending_files(overlay, file_table, path);
        let returned = Arc::new(files.clone());
        let mut state = self.lock();
        let path = if state.flushes.len() >= MAX_FLUSHES { "" } else { path };
        state.flushes.retain(|flush| {
            let is_part = is_within(&flush.path, path);
            if is_part {
                files.extend(flush.files.iter().filter(|(number, _)| !returned.contains_key(number)));
            }
            !is_part
        });
        state.last_flush += 1;
        let number = state.last_flush;
        state.flushes.push(Flush { path: path.into(), at, files: Arc::new(files), number });
        state.failures.clear();
        state.retries_now = true;
        returned
    }

    /// Upload everything immediately from now on.
    pub(crate) fn drain(&self) {
        self.look_at_claim();
        self.drains.store(true, Ordering::Relaxed);
        let mut state = self.lock();
        state.failures.clear();
        state.retries_now = true;
    }

    /// True once after each flush: waits after failures end.
    pub(super) fn take_retry_request(&self) -> bool {
        std::mem::take(&mut self.lock().retries_now)
    }

    /// Decide about one search for work.
    pub(super) fn send_filter<'a>(&'a self, overlay: &'a Overlay, file_table: &'a FileTable) -> SendFilter<'a> {
        let (flushes, last_flush) = {
            let mut state = self.lock();
            state.failures.retain(|subject, _| is_wanted(overlay, file_table, subject));
            (state.flushes.clone(), state.last_flush)
        };
        let is_used = vec![false; flushes.len()];
        let (is_open, barriers) = (self.is_open(), self.barriers(overlay, file_table));
        SendFilter {
            control: self,
            overlay,
            file_table,
            is_open,
            flushes,
            is_used,
            last_flush,
            barriers,
            held: HashMap::new(),
        }
    }

    fn is_marker(&self, node: &Node) -> bool {
        matches!(node.content, NodeContent::File(_)) && self.rules().markers.matches(&node.name)
    }

    /// For each folder with a marker that waits: what is oldest in it and below it.
    fn barriers(&self, overlay: &Overlay, file_table: &FileTable) -> HashMap<u64, Barrier> {
        let markers =
            overlay.upload_candidates().filter(|node| self.is_marker(node) && is_dirty(overlay, file_table, node));
        let mut barriers: HashMap<u64, Barrier> = markers.map(|node| (node.parent, Barrier::default())).collect();
        if barriers.is_empty() {
            return barriers;
        }
        for node in overlay.upload_candidates().filter(|node| is_dirty(overlay, file_table, node)) {
            let is_new_file = matches!(node.content, NodeContent::File(_) | NodeContent::Link(_))
                && node.uploaded == 0
                && node.file.generation == MADE_HERE
                && !self.is_marker(node);
            let mut at = node.parent;
            loop {
                if let Some(barrier) = barriers.get_mut(&at) {
                    barrier.add(node, is_new_file);
                }
                if at == ROOT {
                    break;
                }
                at = overlay.parent(file_table, at);
            }
        }
        barriers
    }

    /// Work has begun.
    pub(super) fn begun(&self, work: &UploadTask) {
        if let UploadTask::Send(file_upload) = work {
            self.lock().running.insert(file_upload.number, now());
        }
    }

    /// Work has ended.
    pub(super) fn ended(&self, work: &UploadTask, done: &Result<(), UploadError>) {
        let mut state = self.lock();
        if let UploadTask::Send(file_upload) = work
            && state.running.remove(&file_upload.number).is_some()
            && done.is_ok()
        {
            self.files.fetch_add(1, Ordering::Relaxed);
        }
        let Some(subject) = FailureKey::of(work) else { return };
        match done {
            Ok(()) | Err(UploadError::Superseded | UploadError::NothingToDo) => drop(state.failures.remove(&subject)),
            Err(UploadError::Stopped) => {}
            Err(UploadError::Failed(failure)) => {
                let text = &failure.message;
                let before = state.failures.remove(&subject);
                let (since, attempts) = before.map_or((SystemTime::now(), 0), |before| (before.since, before.attempts));
                let text = text.get(..text.floor_char_boundary(MAX_FAILURE_TEXT)).unwrap_or_default().to_owned();
                state.failures.insert(subject, UploadFailure { text, since, attempts: attempts + 1 });
            }
        }
    }

    /// Time since which a file is sent, in nanoseconds since 1970, and attempts at it that have failed.
    pub(super) fn attempt_of(&self, number: u64) -> (Option<u64>, u32) {
        let state = self.lock();
        let failed = state.failures.get(&FailureKey::File(number)).map_or(0, |failure| failure.attempts);
        (state.running.get(&number).copied(), failed)
    }

    /// A file was kept beside another program's object.
    pub(super) fn note_conflict(&self) {
        self.conflicts.fetch_add(1, Ordering::Relaxed);
        self.look_at_claim();
    }

    /// Conflicts that are known of, counted in the bucket or made since.
    pub(crate) fn conflicts(&self) -> u64 {
        self.conflicts.load(Ordering::Relaxed)
    }

    /// The bucket has so many files that were kept beside others.
    pub(crate) fn set_conflicts(&self, count: u64) {
        self.conflicts.store(count, Ordering::Relaxed);
    }

    /// Files that are in the bucket since the start, folders and links among them.
    pub(crate) fn files(&self) -> u64 {
        self.files.load(Ordering::Relaxed)
    }

    /// Bytes that were sent since the start, and bytes per second lately.
    pub(crate) fn bytes(&self) -> (u64, f64) {
        (self.meter.total(), self.meter.rate())
    }

    /// Wait until so many bytes may be sent.
    pub(super) async fn admit(&self, bytes: u64) {
        self.throttle.admit(bytes).await;
        self.meter.add(bytes);
    }

    /// Files that are sent just now, failures by file, failures by key, and markers that wait, each with a file that it
    /// waits for.
    pub(crate) fn snapshot(&self) -> UploadSnapshot {
        let state = self.lock();
        let mut look =
            UploadSnapshot { running: state.running.clone(), held: state.held.clone(), ..UploadSnapshot::default() };
        for (subject, failure) in &state.failures {
            match subject {
                FailureKey::File(number) => drop(look.files.insert(*number, failure.clone())),
                FailureKey::Key(path) => drop(look.keys.insert(path.clone(), failure.clone())),
            }
        }
        look
    }
}

/// State of the uploads of a share at one moment.
#[derive(Debug, Default)]
pub(crate) struct UploadSnapshot {
    pub(crate) running: HashMap<u64, u64>,
    pub(crate) files: HashMap<u64, UploadFailure>,
    pub(crate) keys: HashMap<Box<str>, UploadFailure>,
    pub(crate) held: HashMap<u64, u64>,
}

/// True while there is work on a file or key.
fn is_wanted(overlay: &Overlay, file_table: &FileTable, subject: &FailureKey) -> bool {
    match subject {
        FailureKey::File(number) => {
            overlay.uploads().contains_key(number)
                || overlay.growing().contains_key(number)
                || overlay.node(*number).is_some_and(|node| is_dirty(overlay, file_table, node))
        }
        FailureKey::Key(path) => overlay.pending_removals().contains_key(path),
    }
}

/// The oldest of the files below a folder that are not in the bucket.
#[derive(Debug, Default)]
struct Barrier {
    /// Time of the change and number of what was changed first.
    oldest: Option<(u64, u64)>,
    /// Number of the file that was made first, of those that were never in the bucket. Numbers grow.
    first: Option<u64>,
}

impl Barrier {
    fn add(&mut self, node: &Node, is_new_file: bool) {
        let place = (node.changed, node.file.number);
        self.oldest = Some(self.oldest.map_or(place, |oldest| oldest.min(place)));
        if is_new_file {
            self.first = Some(self.first.map_or(node.file.number, |first| first.min(node.file.number)));
        }
    }

    /// A file that a marker waits for.
    fn before(&self, marker: &Node) -> Option<u64> {
        let place = (marker.changed, marker.file.number);
        let is_made_here = marker.file.generation == MADE_HERE;
        self.oldest
            .filter(|oldest| *oldest < place)
            .map(|(_, number)| number)
            .or(self.first.filter(|first| is_made_here && *first < marker.file.number))
    }
}

/// Decisions about files in one search for work.
pub(super) struct SendFilter<'a> {
    control: &'a UploadControl,
    overlay: &'a Overlay,
    file_table: &'a FileTable,
    is_open: bool,
    flushes: Vec<Flush>,
    is_used: Vec<bool>,
    last_flush: u64,
    barriers: HashMap<u64, Barrier>,
    held: HashMap<u64, u64>,
}

impl SendFilter<'_> {
    /// True when a file may be sent now. `is_settled`: it was left alone for long enough.
    pub(super) fn may_send_now(&mut self, number: u64, is_settled: bool) -> bool {
        let Some(node) = self.overlay.node(number) else { return false };
        let is_in_flush = self.is_in_flush(node);
        if let Some(barrier) = self.barriers.get(&node.parent)
            && self.control.is_marker(node)
            && let Some(other) = barrier.before(node)
        {
            self.held.insert(number, other);
            return false;
        }
        is_in_flush || is_settled && self.is_open
    }

    fn is_in_flush(&mut self, node: &Node) -> bool {
        if self.control.drains.load(Ordering::Relaxed) {
            return true;
        }
        if self.flushes.is_empty() {
            return false;
        }
        let Ok(path) = self.overlay.path(self.file_table, node.file.number) else { return false };
        // A rename is one of the old path, too. Files of a renamed folder become files of the overlay after the flush.
        let base = node.base.as_ref().map_or(path.as_str(), |base| &base.path);
        let is_in = |flush: &Flush| is_within(&path, &flush.path) || is_within(base, &flush.path);
        let found = self.flushes.iter().position(|flush| {
            if node.changed <= flush.at && is_in(flush) {
                return true;
            }
            let generation = flush.files.get(&node.file.number);
            generation.is_some_and(|generation| is_pending(self.overlay, self.file_table, node, *generation))
        });
        if let Some(found) = found {
            self.is_used[found] = true;
        }
        found.is_some()
    }

    /// End the look. Flushes of which nothing is left are forgotten.
    pub(super) fn close(self) {
        let used = self.flushes.iter().zip(self.is_used).filter(|(_, is_used)| *is_used);
        let used: Vec<u64> = used.map(|(flush, _)| flush.number).collect();
        let mut state = self.control.lock();
        state.held = self.held;
        state.flushes.retain(|flush| flush.number > self.last_flush || used.contains(&flush.number));
    }
}
