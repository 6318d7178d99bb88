//! The tree of names: inodes, lookups and directories, answered from memory where a listing is complete.
//!
//! A directory is listed as a whole and then answers every lookup, hits and misses alike, until its lifetime ends. A
//! directory of more than one page of keys is not listed for one lookup: the name is checked by itself. Inodes stand
//! for object versions: a replaced object is another inode. No lock is held while a request is under way.

mod audit;
mod check;
mod facts;
mod facts_ahead;
mod inodes;
mod listing;
pub mod names;
mod neighbours;
mod saved_names;
mod snapshot;
mod walk;

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::{Duration, SystemTime};

use seqferry_store::StoredMetadata;
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;

use crate::error::{Result, VfsError};
use crate::source::Source;
use crate::version::{ObjectVersion, VersionPin};
pub use audit::AuditReport;
use facts::FactCache;
pub use facts::LONGEST_TARGET;
pub(crate) use facts::{exact_time, upload_time};
use inodes::InodeTable;
pub use inodes::MEMBER_BIT;
use listing::ListingProgress;
pub use names::{HiddenKey, HiddenReason};
pub use neighbours::WalkOrder;
pub use saved_names::RestoreReport;
pub(crate) use saved_names::read_header as read_table_header;
pub use snapshot::FileKind;
use snapshot::{NameFacts, Snapshot};

/// Inode of the root.
pub const ROOT: u64 = 1;

/// Lifetime stated to callers where answers never expire: a year.
pub(crate) const NEVER: Duration = Duration::from_hours(365 * 24);

/// Names of one directory that are remembered from checks of single names.
const CHECKED_NAMES: usize = 1 << 16;

/// Options of a tree: the keys it shows, and the bounds on what it remembers.
#[derive(Debug, Clone)]
pub struct TreeOptions {
    /// Bucket name.
    pub bucket: String,
    /// Keys that are shown: those that start with this. Empty, or ends in a slash.
    pub prefix: String,
    /// Lifetime of an answer. None: it never expires. Zero: every lookup asks the service.
    pub lifetime: Option<Duration>,
    /// Names that are remembered at a time; the directories used least recently are forgotten first. One directory
    /// may have more, and large ones that are being read stay.
    pub max_entries: usize,
    /// The first version that is seen stays: a replaced object is not looked up again.
    pub is_frozen: bool,
}

impl TreeOptions {
    /// A whole bucket with the defaults: 60 s, a million names (some 120 bytes each).
    pub fn bucket(bucket: &str) -> Self {
        Self {
            bucket: bucket.to_owned(),
            prefix: String::new(),
            lifetime: Some(Duration::from_mins(1)),
            max_entries: 1_000_000,
            is_frozen: false,
        }
    }
}

/// Attributes of an inode.
///
/// A listing has names and sizes. The rest is a guess until [`is_known`](Self::is_known): see [`Tree::learned`].
#[derive(Debug, Clone, PartialEq)]
pub struct Attributes {
    /// Number of the inode.
    pub inode: u64,
    /// Type of the inode.
    pub kind: FileKind,
    /// Bytes; of a link those of its target.
    pub size: u64,
    /// Time of the last change: as stored with the object, to the nanosecond, else when the service received it, in
    /// whole seconds. Of a directory that was listed that of its newest object, else the time of the tree's making.
    pub modified: SystemTime,
    /// Permissions that were stored with the object, if known.
    pub permissions: Option<u16>,
    /// Owner that was stored with the object, if known.
    pub uid: Option<u32>,
    /// Group that was stored with the object, if known.
    pub gid: Option<u32>,
    /// The facts that the object states are known: nothing above changes while it is this version.
    pub is_known: bool,
    /// Time for which these attributes may be cached.
    pub valid: Duration,
}

/// The answer to a lookup.
#[derive(Debug, Clone, PartialEq)]
pub struct Lookup {
    /// Attributes of the name. None: it does not exist.
    pub attributes: Option<Attributes>,
    /// Time for which the answer may be cached.
    pub valid: Duration,
}

/// One name of a directory.
#[derive(Debug, Clone, PartialEq)]
pub struct DirectoryEntry {
    /// Its name.
    pub name: String,
    /// Position at which reading continues after this entry.
    pub cookie: u64,
    /// Its attributes.
    pub attributes: Attributes,
}

/// Names of a directory in a row, with their attributes.
#[derive(Debug, Clone, PartialEq)]
pub struct NamePage {
    /// The names, in their order.
    pub entries: Vec<(String, Attributes)>,
    /// The directory ends with them.
    pub is_end: bool,
}

/// The names below one prefix of one bucket.
#[derive(Debug)]
pub struct Tree {
    source: Arc<dyn Source>,
    endpoint: Arc<str>,
    bucket: Arc<str>,
    options: TreeOptions,
    /// The time that directories show of which nothing is known.
    since: SystemTime,
    made: Instant,
    /// The service does not list in the order of keys.
    is_unsorted: AtomicBool,
    /// Directories that were listed so far, and versions of which facts were learned.
    changes: AtomicU64,
    state: RwLock<State>,
    /// Requests for facts under way, by inode.
    fact_requests: Mutex<HashMap<u64, watch::Receiver<Option<facts::FactsResult>>>>,
    requests: Semaphore,
    walks: Mutex<facts_ahead::DirectoryWalks>,
}

#[derive(Debug)]
struct State {
    directories: Vec<Directory>,
    /// Places in `directories` that are free.
    vacant: Vec<u32>,
    places: InodeTable,
    facts: FactCache,
    /// Names in all snapshots.
    entries: usize,
    /// Names of listings under way.
    collected: usize,
    /// Uses of directories so far: orders them by their last use.
    clock: u64,
    /// Directories with a snapshot, by their last use.
    by_use: BTreeMap<u64, u32>,
    /// Flat listings under way.
    flats: Vec<walk::FlatListing>,
    /// Objects that this process has removed so far.
    removals: u64,
}

/// Place of an inode in the state.
#[derive(Debug, Clone)]
enum InodeLocation {
    /// A directory that has been used.
    Directory(u32),
    /// An entry of a snapshot.
    Listed { directory: u32, index: u32 },
    /// A name that was checked by itself.
    Checked(Arc<CheckedEntry>),
}

#[derive(Debug)]
struct CheckedEntry {
    directory: u32,
    name: Box<str>,
    inode: u64,
    facts: NameFacts,
}

#[derive(Debug)]
struct Directory {
    inode: u64,
    parent: u64,
    prefix: Arc<str>,
    snapshot: Option<Arc<Snapshot>>,
    /// Start of the listing behind the snapshot.
    listed: Option<Instant>,
    /// More than one page of keys.
    is_large: bool,
    next_cookie: u32,
    checked: HashMap<Box<str>, CheckResult>,
    /// Directories in it that may have gone with an object that was removed then: they are requested before they show.
    suspects: HashMap<Box<str>, Instant>,
    /// A listing under way.
    listing: Option<watch::Receiver<ListingProgress>>,
    used: u64,
    /// Age of the tree when its names were read last, in milliseconds; 0: never, or to the end.
    read: AtomicU64,
    /// The directory in it that a walk would read next, and how many came as expected.
    walk: (Option<Box<str>>, u32),
    /// Allows the flat listing that has brought this directory to continue, once it is read.
    credit: Option<Arc<Semaphore>>,
}

#[derive(Debug, Clone)]
struct CheckResult {
    entry: Option<Arc<CheckedEntry>>,
    /// Start of the check.
    at: Instant,
}

impl Tree {
    /// A tree that has sent no request yet.
    pub fn new(source: Arc<dyn Source>, options: TreeOptions) -> Arc<Self> {
        let root = Directory::new(ROOT, ROOT, options.prefix.as_str().into());
        let mut places = InodeTable::default();
        places.insert(ROOT, InodeLocation::Directory(0));
        let state = State {
            directories: vec![root],
            vacant: Vec::new(),
            places,
            facts: FactCache::default(),
            entries: 0,
            collected: 0,
            clock: 0,
            by_use: BTreeMap::new(),
            flats: Vec::new(),
            removals: 0,
        };
        Arc::new(Self {
            endpoint: source.endpoint().into(),
            bucket: options.bucket.as_str().into(),
            source,
            options,
            since: SystemTime::now(),
            made: Instant::now(),
            is_unsorted: AtomicBool::new(false),
            changes: AtomicU64::new(0),
            state: RwLock::new(state),
            fact_requests: Mutex::default(),
            requests: Semaphore::new(facts::REQUESTS),
            walks: Mutex::default(),
        })
    }

    /// The source of the objects.
    pub fn source(&self) -> &Arc<dyn Source> {
        &self.source
    }

    /// Look a name up.
    ///
    /// # Errors
    /// When the parent is unknown or no directory, or a request fails. An absent name is no error.
    pub async fn lookup(self: &Arc<Self>, parent: u64, name: &str) -> Result<Lookup> {
        let directory = self.directory(parent)?;
        if names::check_name(name).is_err() {
            return Ok(Lookup { attributes: None, valid: self.options.lifetime.unwrap_or(NEVER) });
        }
        if let Some(found) = self.from_memory(directory, parent, name) {
            return Ok(found);
        }
        if self.options.lifetime == Some(Duration::ZERO) || !self.list_for_lookup(directory, parent).await? {
            return self.check(directory, parent, name).await;
        }
        match self.from_memory(directory, parent, name) {
            Some(found) => Ok(found),
            // The lifetime is shorter than the listing took.
            None => self.check(directory, parent, name).await,
        }
    }

    /// The latest answer about a name, also after its lifetime. None: nothing is known of it. Asks for nothing.
    pub fn lookup_remembered(&self, parent: u64, name: &str) -> Option<Lookup> {
        let state = self.read();
        let directory = state.places.directory(parent)?;
        let (_, found) = state.directories.get(directory as usize)?.remembered(name)?;
        let valid = Duration::ZERO;
        let attributes = found.map(|(inode, facts)| self.attributes_of(&state, inode, &facts, valid));
        Some(Lookup { attributes, valid })
    }

    /// Attributes of an inode.
    ///
    /// # Errors
    /// `Stale` when the tree no longer knows it.
    pub fn attributes(&self, inode: u64) -> Result<Attributes> {
        let state = self.read();
        let place = state.places.get(inode).ok_or(VfsError::Stale)?;
        match place {
            InodeLocation::Directory(_) => {
                Ok(self.attributes_of(&state, inode, &NameFacts::directory(), self.shown_lifetime()))
            }
            InodeLocation::Listed { directory, index } => {
                let directory = state.directories.get(directory as usize).ok_or(VfsError::Stale)?;
                let entry = directory.snapshot.as_ref().and_then(|snapshot| snapshot.entry(index));
                let entry = entry.ok_or(VfsError::Stale)?;
                let valid = directory.listed.and_then(|at| self.remaining(at)).unwrap_or_default();
                Ok(self.attributes_of(&state, inode, &entry.facts(), valid))
            }
            InodeLocation::Checked(entry) => {
                let checked = state.directories.get(entry.directory as usize).and_then(|d| d.checked.get(&entry.name));
                let valid = checked.and_then(|checked| self.remaining(checked.at)).unwrap_or_default();
                Ok(self.attributes_of(&state, inode, &entry.facts, valid))
            }
        }
    }

    /// Inode of the directory that holds a directory.
    ///
    /// # Errors
    /// When the inode is unknown or no directory.
    pub fn parent(&self, inode: u64) -> Result<u64> {
        let directory = self.directory(inode)?;
        Ok(self.read().directories[directory as usize].parent)
    }

    /// The version of the object behind a file or link.
    ///
    /// # Errors
    /// `IsADirectory` for a directory, `Stale` for an unknown inode.
    pub fn version(&self, inode: u64) -> Result<ObjectVersion> {
        let state = self.read();
        let (directory, name, facts) = state.file(inode)?;
        let is_renamed = facts.kind == FileKind::Symlink && !facts.is_plain_link;
        let ending = if is_renamed { names::RCLONE_LINK } else { "" };
        let key = format!("{}{name}{ending}", state.directories[directory as usize].prefix);
        Ok(ObjectVersion {
            endpoint: Arc::clone(&self.endpoint),
            bucket: Arc::clone(&self.bucket),
            key: key.into(),
            pin: VersionPin::Etag(facts.etag.into()),
            size: facts.size,
        })
    }

    /// Upload time of the object behind a file or link, in seconds: with the `ETag` it identifies what the object states.
    ///
    /// # Errors
    /// `IsADirectory` for a directory, `Stale` for an unknown inode.
    pub fn uploaded(&self, inode: u64) -> Result<f64> {
        Ok(self.read().file(inode)?.2.modified)
    }

    /// Returns true when, by the listing, the object has to be restored before it can be read.
    pub fn is_archived(&self, inode: u64) -> bool {
        self.read().file(inode).is_ok_and(|(_, _, facts)| facts.archived)
    }

    /// The parent of a file and its name there.
    ///
    /// # Errors
    /// Errors as of [`Tree::version`].
    pub fn name_of(&self, inode: u64) -> Result<(u64, String)> {
        let state = self.read();
        let (directory, name, _) = state.file(inode)?;
        Ok((state.directories[directory as usize].inode, name))
    }

    /// Entries of a directory after `cookie` (0: from the beginning), at most `most`. The first two are `.` and `..`. A
    /// read from the beginning lists the directory again when its lifetime has ended.
    ///
    /// # Errors
    /// When the inode is unknown or no directory, or the listing fails.
    pub async fn read_directory(self: &Arc<Self>, inode: u64, cookie: u64, most: usize) -> Result<Vec<DirectoryEntry>> {
        let directory = self.directory(inode)?;
        let known = self.read().directories[directory as usize].snapshot.is_some();
        if cookie == 0 || !known {
            self.list_for_reading(directory, inode).await?;
            self.credit_walk(directory);
        }
        let mut entries = Vec::new();
        for (dot_cookie, name, number) in [(1, ".", inode), (2, "..", self.parent(inode)?)] {
            if cookie < dot_cookie {
                let attributes = self.attributes(number)?;
                entries.push(DirectoryEntry { name: name.to_owned(), cookie: dot_cookie, attributes });
            }
        }
        let state = self.read();
        let directory = &state.directories[directory as usize];
        let (Some(snapshot), Some(listed)) = (&directory.snapshot, directory.listed) else { return Ok(entries) };
        let valid = self.remaining(listed).unwrap_or_default();
        for (_, entry) in snapshot.after(cookie) {
            if entries.len() >= most {
                break;
            }
            let name = snapshot.name(entry);
            let attributes = match directory.checked.get(name).filter(|checked| checked.at >= listed) {
                None => self.attributes_of(&state, entry.inode, &entry.facts(), valid),
                Some(CheckResult { entry: Some(newer), at }) => {
                    let valid = self.remaining(*at).unwrap_or_default();
                    self.attributes_of(&state, newer.inode, &newer.facts, valid)
                }
                Some(CheckResult { entry: None, .. }) => continue,
            };
            entries.push(DirectoryEntry { name: name.to_owned(), cookie: u64::from(entry.cookie), attributes });
        }
        directory.note_read(entries.len() < most, self.age());
        Ok(entries)
    }

    /// Names of a directory after `after` in the order of names (None: from the beginning), at most `most`. A position
    /// stays right when the directory changes and after a restart. A read from the beginning lists the directory again
    /// when its lifetime has ended.
    ///
    /// # Errors
    /// When the inode is unknown or no directory, or the listing fails.
    pub async fn read_names(self: &Arc<Self>, inode: u64, after: Option<&str>, most: usize) -> Result<NamePage> {
        let directory = self.directory(inode)?;
        let known = {
            let state = self.read();
            let directory = &state.directories[directory as usize];
            directory.snapshot.is_some() && directory.listed.is_some()
        };
        if after.is_none() || !known {
            self.list_for_reading(directory, inode).await?;
            self.credit_walk(directory);
        }
        let since = Instant::now();
        loop {
            let suspects = self.suspect_names(directory, after, most, since);
            for name in &suspects {
                self.check(directory, inode, name).await?;
            }
            // Each that has gone lets another name into the page.
            if suspects.is_empty() {
                break;
            }
        }
        let state = self.read();
        let directory = &state.directories[directory as usize];
        let (Some(snapshot), Some(listed)) = (&directory.snapshot, directory.listed) else {
            return Err(VfsError::Stale);
        };
        let valid = self.remaining(listed).unwrap_or_default();
        let from = after.map_or(0, |after| snapshot.rank(after).map_or_else(|at| at, |at| at + 1));
        let mut page = NamePage { entries: Vec::new(), is_end: true };
        for entry in snapshot.ranked(from) {
            if page.entries.len() >= most {
                page.is_end = false;
                break;
            }
            let name = snapshot.name(entry);
            let attributes = match directory.checked.get(name).filter(|checked| checked.at >= listed) {
                None => self.attributes_of(&state, entry.inode, &entry.facts(), valid),
                Some(CheckResult { entry: Some(newer), at }) => {
                    let valid = self.remaining(*at).unwrap_or_default();
                    self.attributes_of(&state, newer.inode, &newer.facts, valid)
                }
                Some(CheckResult { entry: None, .. }) => continue,
            };
            page.entries.push((name.to_owned(), attributes));
        }
        directory.note_read(page.is_end, self.age());
        Ok(page)
    }

    /// Number of keys that are hidden in the directories listed so far, and the first thousand of each directory by
    /// name.
    pub fn hidden(&self) -> (u64, Vec<HiddenKey>) {
        let state = self.read();
        let snapshots = state.directories.iter().filter_map(|directory| directory.snapshot.as_ref());
        let mut named: Vec<HiddenKey> = snapshots.clone().flat_map(|snapshot| snapshot.hidden.clone()).collect();
        named.sort_by(|a, b| a.key.cmp(&b.key));
        (snapshots.map(|snapshot| snapshot.hidden_count).sum(), named)
    }

    /// Names that are remembered.
    pub fn entries(&self) -> usize {
        self.read().entries
    }

    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Rest of the lifetime of an answer that was requested at `at`. None: the lifetime has ended.
    fn remaining(&self, at: Instant) -> Option<Duration> {
        match self.options.lifetime {
            None => Some(NEVER),
            Some(lifetime) => lifetime.checked_sub(at.elapsed()).filter(|left| !left.is_zero()),
        }
    }

    /// Milliseconds since the tree was made, at least 1.
    fn age(&self) -> u64 {
        u64::try_from(self.made.elapsed().as_millis()).unwrap_or(u64::MAX).max(1)
    }

    fn shown_lifetime(&self) -> Duration {
        self.options.lifetime.unwrap_or(NEVER)
    }

    /// An answer from memory, within its lifetime. Begins a new listing when less than half of the lifetime is left.
    fn from_memory(self: &Arc<Self>, directory: u32, inode: u64, name: &str) -> Option<Lookup> {
        let mut is_ageing = false;
        let found = {
            let state = self.read();
            let place = state.directories.get(directory as usize).filter(|place| place.inode == inode)?;
            let (at, found) = place.remembered(name)?;
            let valid = self.remaining(at)?;
            if let (Some(lifetime), Some(listed)) = (self.options.lifetime, place.listed) {
                is_ageing = listed == at && !place.is_large && place.listing.is_none() && valid < lifetime / 2;
            }
            let attributes = found.map(|(inode, facts)| self.attributes_of(&state, inode, &facts, valid));
            Lookup { attributes, valid }
        };
        if is_ageing {
            self.refresh(directory);
        }
        Some(found)
    }

    fn attributes_of(&self, state: &State, inode: u64, facts: &NameFacts, valid: Duration) -> Attributes {
        let stored = state.stated(inode, facts);
        let exact = |stored: StoredMetadata| stored.modified.and_then(|(seconds, rest)| exact_time(seconds, rest));
        let modified = match facts.kind {
            FileKind::Directory => state.newest_in(inode).map_or(self.since, upload_time),
            _ => stored.and_then(exact).unwrap_or_else(|| upload_time(facts.modified)),
        };
        Attributes {
            inode,
            kind: facts.kind,
            size: facts.size,
            modified,
            permissions: stored.and_then(|stored| stored.permissions()),
            uid: stored.and_then(|stored| stored.uid),
            gid: stored.and_then(|stored| stored.gid),
            is_known: stored.is_some() || facts.kind == FileKind::Directory,
            valid,
        }
    }
}

impl State {
    /// A directory is used now.
    fn note_use(&mut self, directory: u32) {
        self.clock += 1;
        let place = &mut self.directories[directory as usize];
        self.by_use.remove(&place.used);
        place.used = self.clock;
        if place.snapshot.is_some() {
            self.by_use.insert(place.used, directory);
        }
    }

    /// Upload time of the newest object directly in a directory, where the directory was listed and has one.
    fn newest_in(&self, inode: u64) -> Option<f64> {
        let place = self.places.directory(inode)?;
        let snapshot = self.directories.get(place as usize)?.snapshot.as_ref()?;
        Some(snapshot.newest).filter(|newest| *newest > 0.0)
    }

    /// Directory, name and attributes of a file or link.
    fn file(&self, inode: u64) -> Result<(u32, String, NameFacts)> {
        match self.places.get(inode).ok_or(VfsError::Stale)? {
            InodeLocation::Directory(_) => Err(VfsError::IsADirectory),
            InodeLocation::Listed { directory, index } => {
                let snapshot = self.directories.get(directory as usize).and_then(|place| place.snapshot.as_ref());
                let snapshot = snapshot.ok_or(VfsError::Stale)?;
                let entry = snapshot.entry(index).ok_or(VfsError::Stale)?;
                match entry.kind {
                    FileKind::Directory => Err(VfsError::IsADirectory),
                    _ => Ok((directory, snapshot.name(entry).to_owned(), entry.facts())),
                }
            }
            InodeLocation::Checked(entry) if entry.facts.kind == FileKind::Directory => Err(VfsError::IsADirectory),
            InodeLocation::Checked(entry) => Ok((entry.directory, entry.name.to_string(), entry.facts.clone())),
        }
    }
}

impl Directory {
    fn new(inode: u64, parent: u64, prefix: Arc<str>) -> Self {
        Self {
            inode,
            parent,
            prefix,
            snapshot: None,
            listed: None,
            is_large: false,
            next_cookie: snapshot::FIRST_COOKIE,
            checked: HashMap::new(),
            suspects: HashMap::new(),
            listing: None,
            used: 0,
            read: AtomicU64::new(0),
            walk: (None, 0),
            credit: None,
        }
    }

    /// Names of it were read when the tree was so old, perhaps to the end.
    fn note_read(&self, is_end: bool, age: u64) {
        self.read.store(if is_end { 0 } else { age }, Ordering::Relaxed);
    }

    /// Returns the remembered answer for a name, and its time: from a check of it, or the listing, whichever is newer.
    fn remembered(&self, name: &str) -> Option<(Instant, Option<(u64, NameFacts)>)> {
        self.known(name).filter(|(at, found)| found.is_none() || self.suspects.get(name).is_none_or(|doubt| at > doubt))
    }

    /// True when a directory in this one has to be requested before it shows.
    fn is_suspect(&self, name: &str) -> bool {
        self.known(name).is_some() && self.remembered(name).is_none()
    }

    fn known(&self, name: &str) -> Option<(Instant, Option<(u64, NameFacts)>)> {
        let checked = self.checked.get(name);
        match (checked, self.listed, &self.snapshot) {
            (Some(checked), listed, _) if listed.is_none_or(|listed| checked.at >= listed) => {
                Some((checked.at, checked.entry.as_ref().map(|entry| (entry.inode, entry.facts.clone()))))
            }
            (_, Some(listed), Some(snapshot)) => {
                let entry = snapshot.find(name).and_then(|index| snapshot.entry(index));
                Some((listed, entry.map(|entry| (entry.inode, entry.facts()))))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod saved_names_tests;
#[cfg(test)]
mod tests;
