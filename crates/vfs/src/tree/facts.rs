//! Facts that objects state about their files: kind, permissions, owner and time, which no listing has.
//!
//! Facts belong to a version. They are learned once, by a HEAD, or by any other answer about the object, before they
//! are shown: a version shows one kind, mode and time from first to last. A link that only its metadata tells apart
//! from a file, as s3fs stores them, has an inode of its own.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use seqferry_store::{ErrorClass, ObjectMeta, ObjectRef, StoreError, StoredMetadata};
use tokio::sync::watch;

use super::{Attributes, FileKind, NameFacts, NamePage, State, Tree};
use crate::error::{Result, VfsError};
use crate::fetch::is_version;

/// Longest target of a link, as the kernel limits it. A longer object is no link, nor is an empty one.
pub const LONGEST_TARGET: u64 = 4095;
/// Versions whose attributes are remembered: as many as two hash tables of half a million places take.
pub(super) const MOST: usize = (1 << 20) / 8 * 7;
/// Different owners with different permissions that are remembered.
const MOST_OWNERS: usize = 1 << 16;
/// Requests for facts under way at a time. The budget of the process bounds them as well.
pub(super) const REQUESTS: usize = 128;
/// Versions of a file that one call follows, when each is replaced just then.
const VERSIONS: u32 = 3;
/// The bit by which the inode of a link differs from that of the file that its object is without metadata.
const LINK_BIT: u64 = 1 << 62;

/// Seconds by which the upload times in a listing and in an answer about an object may differ: services round them.
const ROUNDING: f64 = 1.0;

/// Attributes of one version.
#[derive(Debug, Clone, Copy)]
struct VersionFacts {
    stored: StoredMetadata,
    /// Upload time of the object, in seconds. A copy of an object onto itself changes it, and keeps the `ETag`.
    uploaded: f64,
    /// The service does not let this identity see what is stored.
    is_denied: bool,
}

/// Attributes of one version in few bytes: of a million files, nearly all have one of a few owners.
#[derive(Debug, Clone, Copy)]
struct CompactFacts {
    /// Seconds of the time that is stored.
    seconds: i64,
    /// Its nanoseconds. `NO_TIME`: none is stored.
    nanoseconds: u32,
    /// Upload time in whole seconds. 0: not stated.
    uploaded: u32,
    /// Place in `FactCache::owners`.
    owner: u32,
}

const NO_TIME: u32 = u32::MAX;

/// Mode, owner and group as stored, and whether they are denied.
type Owner = (Option<u32>, Option<u32>, Option<u32>, bool);

/// Facts by the inode of the version as a file. Half of them are forgotten when there are too many.
#[derive(Debug, Default)]
pub(super) struct FactCache {
    recent: HashMap<u64, CompactFacts>,
    older: HashMap<u64, CompactFacts>,
    owners: Vec<Owner>,
    owner_places: HashMap<Owner, u32>,
}

impl FactCache {
    fn get(&self, number: u64) -> Option<VersionFacts> {
        let found = self.recent.get(&number).or_else(|| self.older.get(&number))?;
        self.whole(found)
    }

    fn whole(&self, facts: &CompactFacts) -> Option<VersionFacts> {
        let (mode, uid, gid, is_denied) = *self.owners.get(facts.owner as usize)?;
        let modified = (facts.nanoseconds != NO_TIME).then_some((facts.seconds, facts.nanoseconds));
        let stored = StoredMetadata { modified, mode, uid, gid };
        Some(VersionFacts { stored, uploaded: f64::from(facts.uploaded), is_denied })
    }

    /// Facts of the object that was uploaded at this time.
    pub(super) fn of_upload(&self, number: u64, uploaded: f64) -> Option<StoredMetadata> {
        self.get(number).filter(|learned| is_same_upload(learned.uploaded, uploaded)).map(|learned| learned.stored)
    }

    fn insert(&mut self, number: u64, learned: VersionFacts) {
        if self.recent.len() >= MOST / 2 {
            self.older = std::mem::take(&mut self.recent);
        }
        let StoredMetadata { modified, mode, uid, gid } = learned.stored;
        let owner = self.owner((mode, uid, gid, learned.is_denied));
        let (seconds, nanoseconds) = modified.unwrap_or((0, NO_TIME));
        let uploaded = whole_seconds(learned.uploaded);
        self.recent.insert(number, CompactFacts { seconds, nanoseconds, uploaded, owner });
    }

    /// Place of an owner. Where there are too many, all facts are forgotten.
    fn owner(&mut self, owner: Owner) -> u32 {
        if let Some(place) = self.owner_places.get(&owner) {
            return *place;
        }
        if self.owners.len() >= MOST_OWNERS {
            *self = Self::default();
        }
        let place = u32::try_from(self.owners.len()).unwrap_or(u32::MAX);
        self.owners.push(owner);
        self.owner_places.insert(owner, place);
        place
    }

    /// Take over what was kept on a disk.
    pub(super) fn restore(&mut self, number: u64, stored: StoredMetadata, uploaded: f64) {
        self.insert(number, VersionFacts { stored, uploaded, is_denied: false });
    }

    /// Versions of which something is known, those that were learned last first.
    pub(super) fn numbers(&self) -> impl Iterator<Item = u64> {
        self.recent.keys().chain(self.older.keys()).copied()
    }

    /// Facts of a version that are worth keeping: what is stored, and the upload time.
    pub(super) fn to_keep(&self, number: u64) -> Option<(StoredMetadata, f64)> {
        self.get(number).filter(|learned| !learned.is_denied).map(|learned| (learned.stored, learned.uploaded))
    }

    pub(super) fn is_link(&self, number: u64, uploaded: f64) -> bool {
        self.of_upload(number, uploaded).is_some_and(|stored| stored.is_link())
    }
}

/// An upload time in whole seconds. 0: not stated.
pub(super) fn whole_seconds(uploaded: f64) -> u32 {
    let seconds = Duration::try_from_secs_f64(uploaded).unwrap_or_default().as_secs();
    u32::try_from(seconds).unwrap_or(u32::MAX)
}

/// True when two statements of an upload time can be about one upload. 0: not stated.
fn is_same_upload(one: f64, other: f64) -> bool {
    one <= 0.0 || other <= 0.0 || (one.floor() - other.floor()).abs() <= ROUNDING
}

/// The inode of an object as a link, by that as a file, and the other way round.
pub(super) fn as_link(inode: u64) -> u64 {
    inode ^ LINK_BIT
}

/// True for sizes that the target of a link can have.
pub(super) fn may_be_link(size: u64) -> bool {
    (1..=LONGEST_TARGET).contains(&size)
}

/// A time of the service. Whole seconds: an answer about an object has no more, and listings of some services do.
pub(crate) fn upload_time(seconds: f64) -> SystemTime {
    let span = Duration::try_from_secs_f64(seconds.abs().floor()).unwrap_or_default();
    let time = if seconds < 0.0 { UNIX_EPOCH.checked_sub(span) } else { UNIX_EPOCH.checked_add(span) };
    time.unwrap_or(UNIX_EPOCH)
}

/// A time in seconds and nanoseconds, which count upwards. Times before 1970 become 1970: NFS 3 has no others. None: this
/// machine has no such time.
pub(crate) fn exact_time(seconds: i64, nanoseconds: u32) -> Option<SystemTime> {
    let Ok(seconds) = u64::try_from(seconds) else { return Some(UNIX_EPOCH) };
    UNIX_EPOCH.checked_add(Duration::new(seconds, nanoseconds))
}

impl Attributes {
    /// Attributes of a file by an answer about its object, without an inode.
    pub fn of_object(meta: &ObjectMeta) -> Self {
        let stored = StoredMetadata::of(&meta.attributes.metadata);
        let exact = stored.modified.and_then(|(seconds, nanoseconds)| exact_time(seconds, nanoseconds));
        Self {
            inode: 0,
            kind: if stored.is_link() && may_be_link(meta.size) { FileKind::Symlink } else { FileKind::File },
            size: meta.size,
            modified: exact.unwrap_or_else(|| upload_time(meta.last_modified)),
            permissions: stored.permissions(),
            uid: stored.uid,
            gid: stored.gid,
            is_known: true,
            valid: Duration::ZERO,
        }
    }

    /// True when the kind is not a guess. The rest may be.
    pub fn has_kind(&self) -> bool {
        self.is_known || self.kind != FileKind::File || !may_be_link(self.size)
    }
}

impl Tree {
    /// Remember what was stored with the object of an inode, from an answer about it. A file that turns out to be a
    /// link has another inode from now on.
    pub fn learn(&self, inode: u64, meta: &ObjectMeta) {
        self.note_facts(inode, StoredMetadata::of(&meta.attributes.metadata), Some(meta.last_modified.floor()));
    }

    /// `uploaded`: the upload time of the answer. None: the service does not let this identity see the facts.
    fn note_facts(&self, inode: u64, stored: StoredMetadata, uploaded: Option<f64>) {
        let place = self.read().file(inode).ok();
        let number = match &place {
            Some((_, _, facts)) if facts.is_plain_link => as_link(inode),
            _ => inode,
        };
        let shown = place.as_ref().map_or(0.0, |(_, _, facts)| facts.modified);
        let (is_denied, uploaded) = (uploaded.is_none(), uploaded.filter(|at| *at > 0.0).unwrap_or(shown));
        {
            let mut state = self.write();
            if !is_denied && state.facts.of_upload(number, uploaded) == Some(stored) && is_same_upload(shown, uploaded)
            {
                return;
            }
            state.facts.insert(number, VersionFacts { stored, uploaded, is_denied });
        }
        self.changes.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let Some((directory, name, facts)) = place else { return };
        let is_new_link = facts.kind == FileKind::File && stored.is_link() && may_be_link(facts.size);
        if is_new_link || !is_same_upload(shown, uploaded) {
            let (parent, listed) = {
                let state = self.read();
                let directory = &state.directories[directory as usize];
                (directory.inode, directory.listed)
            };
            // As old as the listing that showed it: this says nothing about the object being there still.
            let at = listed.unwrap_or_else(tokio::time::Instant::now);
            let facts = NameFacts { modified: uploaded, ..facts };
            // A directory that was forgotten meanwhile is listed again.
            let _shown = self.remember_check(directory, parent, &name, Some(facts), None, at);
        }
    }

    /// The same file with the facts that its object states. They are requested where they are not known: one request
    /// for each version, however many callers wait for it.
    ///
    /// # Errors
    /// `NotFound` when the object has gone; else why the service did not answer.
    pub async fn learned(self: &Arc<Self>, mut found: Attributes) -> Result<Attributes> {
        for _ in 0..VERSIONS {
            if found.kind == FileKind::Directory {
                return Ok(found);
            }
            let Ok((parent, name)) = self.name_of(found.inode) else {
                // An open file whose name has gone: what is known of it stays.
                return if found.is_known { Ok(found) } else { Err(VfsError::Stale) };
            };
            self.ask_ahead(parent, &name);
            if found.is_known {
                return Ok(found);
            }
            self.ask(found.inode).await?;
            found = self.lookup(parent, &name).await?.attributes.ok_or(VfsError::NotFound)?;
        }
        if found.is_known { Ok(found) } else { Err(VfsError::TryLater) }
    }

    /// As [`Tree::read_names`], with the attributes of the names: their kinds, or all. They are learned concurrently. A
    /// name whose attributes cannot be had within `patience` comes without them.
    ///
    /// # Errors
    /// Those of [`Tree::read_names`].
    pub async fn read_known_names(
        self: &Arc<Self>,
        inode: u64,
        (after, most): (Option<&str>, usize),
        only_kinds: bool,
        patience: Duration,
    ) -> Result<NamePage> {
        let page = self.read_names(inode, after, most).await?;
        let is_guess = |found: &Attributes| if only_kinds { !found.has_kind() } else { !found.is_known };
        let guesses = page.entries.iter().map(|(_, found)| found).filter(|found| is_guess(found));
        let guesses: Vec<u64> = guesses.map(|found| found.inode).collect();
        let answers: Vec<_> = guesses.iter().map(|inode| self.begin_request(*inode)).collect();
        if !only_kinds
            && !page.is_end
            && let Some((last, _)) = page.entries.last()
        {
            self.learn_after(inode, last);
        }
        if answers.is_empty() {
            return Ok(page);
        }
        // A name without its attributes says so.
        let _in_time = tokio::time::timeout(patience, all(answers)).await;
        self.read_names(inode, after, most).await
    }

    /// Learn the attributes of these inodes concurrently.
    ///
    /// # Errors
    /// Why the service did not answer about one of them.
    pub async fn learn_all(self: &Arc<Self>, inodes: impl IntoIterator<Item = u64>) -> Result<()> {
        Ok(all(inodes.into_iter().map(|inode| self.begin_request(inode)).collect()).await?)
    }

    async fn ask(self: &Arc<Self>, inode: u64) -> Result<()> {
        let mut answer = self.begin_request(inode);
        let answered = answer.wait_for(Option::is_some).await.map_err(|_| VfsError::TryLater)?.clone();
        answered.unwrap_or(Ok(())).map_err(VfsError::from)
    }

    /// The request for the attributes of an inode that is under way, or a new one.
    pub(super) fn begin_request(self: &Arc<Self>, inode: u64) -> watch::Receiver<Option<FactsResult>> {
        let mut fact_requests = self.fact_requests.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(answer) = fact_requests.get(&inode) {
            return answer.clone();
        }
        let (sender, answer) = watch::channel(None);
        fact_requests.insert(inode, answer.clone());
        let tree = Arc::clone(self);
        tokio::spawn(async move {
            let answered = tree.ask_service(inode).await;
            tree.fact_requests.lock().unwrap_or_else(std::sync::PoisonError::into_inner).remove(&inode);
            sender.send_replace(Some(answered));
        });
        answer
    }

    async fn ask_service(&self, inode: u64) -> FactsResult {
        let _one = self.requests.acquire().await;
        // Unknown meanwhile: its name is looked up again.
        let Ok(version) = self.version(inode) else { return Ok(()) };
        match self.source.head(ObjectRef::new(&version.bucket, &version.key)).await {
            Ok(meta) if is_version(&version, &meta) => self.learn(inode, &meta),
            Err(error) if matches!(error.class, ErrorClass::Retry | ErrorClass::Throttle) => return Err(error),
            Err(error) if error.class != ErrorClass::NotFound => {
                // Neither can its bytes be read: what would be shown of it stays as it is.
                self.note_facts(inode, StoredMetadata::default(), None);
            }
            // Replaced or removed.
            Ok(_) | Err(_) if self.options.is_frozen => self.note_facts(inode, StoredMetadata::default(), None),
            Ok(_) | Err(_) => {
                if let Err(VfsError::Failed(error) | VfsError::Denied(error)) = self.replaced(inode).await {
                    return Err(error);
                }
            }
        }
        Ok(())
    }
}

/// Wait for all answers. Returns the first failure.
async fn all(answers: Vec<watch::Receiver<Option<FactsResult>>>) -> FactsResult {
    let mut first = Ok(());
    for mut answer in answers {
        // A request whose task has ended without an answer is made again when its attributes are needed.
        let Ok(answered) = answer.wait_for(Option::is_some).await else { continue };
        first = first.and_then(|()| answered.clone().unwrap_or(Ok(())));
    }
    first
}

/// End of a request for facts.
pub(super) type FactsResult = std::result::Result<(), StoreError>;

impl State {
    /// Facts that the object of an inode states. None: not known.
    pub(super) fn stated(&self, inode: u64, facts: &NameFacts) -> Option<StoredMetadata> {
        self.facts.of_upload(if facts.is_plain_link { as_link(inode) } else { inode }, facts.modified)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_exact_to_the_nanosecond_and_an_upload_time_to_the_second() {
        let nanos = |time: SystemTime| i128::try_from(time.duration_since(UNIX_EPOCH).unwrap().as_nanos()).unwrap();
        for (seconds, nanoseconds) in [(1_600_000_000, 123_456_789), (1_764_300_000, 999_999_999), (0, 1)] {
            let expected = i128::from(seconds) * 1_000_000_000 + i128::from(nanoseconds);
            assert_eq!(nanos(exact_time(seconds, nanoseconds).unwrap()), expected);
        }
        assert_eq!(exact_time(-2, 7), Some(UNIX_EPOCH));
        assert_eq!(exact_time(i64::MAX, 999_999_999).and_then(|time| time.checked_add(Duration::from_nanos(1))), None);
        for (listed, shown) in [(1_764_300_000.987, 1_764_300_000), (1_764_300_000.0, 1_764_300_000), (0.5, 0)] {
            assert_eq!(nanos(upload_time(listed)), i128::from(shown) * 1_000_000_000);
        }
    }

    #[test]
    fn half_of_the_facts_are_forgotten_when_there_are_too_many() {
        let mut facts = FactCache::default();
        for number in 0..=MOST as u64 {
            facts.restore(number, StoredMetadata { mode: Some(0o644), ..StoredMetadata::default() }, 1.0);
        }
        assert!(facts.get(MOST as u64).is_some() && facts.get(MOST as u64 / 2).is_some());
        assert!(facts.get(0).is_none());
        assert!(facts.numbers().count() <= MOST);
        assert!(size_of::<(u64, CompactFacts)>() <= 32, "{}", size_of::<(u64, CompactFacts)>());
    }

    #[test]
    fn facts_come_back_as_they_were() {
        let times = [None, Some((1_764_300_000, 999_999_999)), Some((-1, 0)), Some((i64::MAX, 1))];
        let owners = [(None, None, None), (Some(0o100_644), Some(0), Some(u32::MAX)), (Some(0), None, Some(7))];
        let mut facts = FactCache::default();
        let mut expected = Vec::new();
        for modified in times {
            for (mode, uid, gid) in owners {
                let stored = StoredMetadata { modified, mode, uid, gid };
                facts.restore(expected.len() as u64, stored, 1_764_300_001.0);
                expected.push(stored);
            }
        }
        for (number, stored) in (0..).zip(expected) {
            assert_eq!(facts.of_upload(number, 1_764_300_001.9), Some(stored));
            assert_eq!(facts.of_upload(number, 1_764_300_009.0), None);
        }
        for (number, uploaded) in [(100, 0.0), (101, -5.0)] {
            facts.restore(number, StoredMetadata::default(), uploaded);
            assert!(facts.of_upload(number, 1_764_300_001.0).is_some(), "{uploaded}: no upload time");
        }
    }

    #[test]
    fn very_many_owners_take_no_more_memory() {
        let mut facts = FactCache::default();
        for number in 0..=MOST_OWNERS {
            let stored = StoredMetadata { uid: u32::try_from(number).ok(), ..StoredMetadata::default() };
            facts.restore(number as u64, stored, 1.0);
        }
        assert_eq!(facts.get(MOST_OWNERS as u64).and_then(|learned| learned.stored.uid), Some(1 << 16));
        assert!(facts.get(0).is_none());
        assert_eq!((facts.owners.len(), facts.owner_places.len()), (1, 1));
    }
}
