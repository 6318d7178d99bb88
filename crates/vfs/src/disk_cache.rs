//! Disk cache: blocks of objects in one folder on a local disk.
//!
//! Any number of processes share the folder. It is kept over unmounts, kills and reboots.
//!
//! | module | holds |
//! |---|---|
//! | `folder`, `cache_open_error` | which folders are accepted, and the paths in them |
//! | `side_file` | the format of side files: header, entries of blocks, eviction state |
//! | `object_files`, `open_files` | the two files of an object version, and the bounded table of open ones |
//! | `usage`, `ghosts`, `pins` | what all processes share: bytes in use, segments seen before, prefixes to keep |
//! | `fill` | whether a block is worth keeping, and space for it |
//! | `evict` | rebuilding the usage and freeing space |
//! | `inspect` | listing, verifying and removing |
//! | `warm`, `warm_task` | reading a prefix into the cache; the same in the background |
//! | `store` | an object store whose reads go through the cache |
//! | `tier` | the cache as a [`BlockTier`](crate::BlockTier), with file I/O off the async threads |
//!
//! Each object version has one sparse data file and one side file with a CRC-32C per block. Bytes are served only if
//! they have that CRC: a crash, a damaged disk or another process can cause misses, never wrong bytes. Nothing is
//! written with fsync. A full or failing disk causes misses and one note, never an error of a read.

mod cache_open_error;
mod evict;
mod fill;
mod folder;
mod ghosts;
mod inspect;
mod object_files;
mod open_files;
mod pins;
mod records;
mod side_file;
mod store;
mod tier;
mod usage;
mod warm;
mod warm_task;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::Bytes;

pub use cache_open_error::CacheOpenError;
pub use evict::EvictReport;
pub use fill::{Admission, Fill};
pub use folder::unsafe_file_system;
pub use inspect::{CachedObject, RemoveReport, VerifiedObject};
pub use pins::Prefix;
pub use store::{CachedStore, SourceCache};
pub use tier::{CacheTier, TierOptions};
pub use warm::{WarmProgress, WarmReport, WarmRequest, warm};
pub use warm_task::WarmTask;

use crate::version::ObjectVersion;
use folder::CacheFolder;
use ghosts::Ghosts;
use object_files::BlockLookup;
use open_files::OpenFiles;
use pins::Pins;
use usage::Usage;

/// Bytes of the file system's own unit, to which every block is rounded up.
const ALLOCATION: u64 = 4096;
/// Bytes that a segment costs beside its blocks: its record, and the file system's list of extents.
const SEGMENT_OVERHEAD: u64 = 2 * ALLOCATION;
/// Folder of the tables of names.
const NAMES: &str = "names";
/// Pause of writing after an error of the disk.
const ERROR_PAUSE: Duration = Duration::from_secs(30);
/// Pause of writing after the disk was full: the evictor may need a moment.
const FULL_PAUSE: Duration = Duration::from_millis(500);

/// Bounds of a cache. Processes may use different ones; the smallest decides in effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheLimits {
    /// Most bytes on the disk. Reserved before writing.
    pub max_size: u64,
    /// Bytes of the file system that stay free.
    pub min_free: u64,
    /// A single pass over an object is kept up to this many bytes where the rest has no space without evicting
    /// something; what follows is kept when it is read again. `u64::MAX` keeps everything.
    pub stream_bypass: u64,
}

impl CacheLimits {
    /// The defaults with this size; None: without a limit of the size.
    pub fn of_size(max_size: Option<u64>) -> Self {
        let defaults = Self::default();
        Self { max_size: max_size.unwrap_or(defaults.max_size), ..defaults }
    }
}

impl Default for CacheLimits {
    /// The defaults: no limit but 1 GiB of free space. 64 MiB of a stream are kept: most references and indexes are
    /// smaller, most sequence files larger.
    fn default() -> Self {
        Self { max_size: u64::MAX, min_free: 1 << 30, stream_bypass: 64 << 20 }
    }
}

/// Counters of this process, and the usage of all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// Blocks served.
    pub hits: u64,
    /// Requested blocks that the cache did not have.
    pub misses: u64,
    /// Blocks with other bytes than their CRC says; dropped, counted as misses as well.
    pub damaged: u64,
    /// Blocks written.
    pub stored: u64,
    /// Blocks not written because they belong to long streams.
    pub bypassed: u64,
    /// Blocks not written for lack of space.
    pub no_room: u64,
    /// Blocks not written because the queue of writes was full.
    pub dropped: u64,
    /// Bytes served.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// Bytes that evictions of this process freed.
    pub evicted: u64,
    /// Errors of the disk.
    pub errors: u64,
    /// Bytes that all processes use, reserved ones included. Corrected by each scan of all files.
    pub used: u64,
}

/// A cache of blocks in a folder. All calls block on the disk; async code uses [`CacheTier`].
///
/// # Examples
///
/// ```
/// use seqferry_vfs::disk_cache::{Admission, CacheLimits, DiskCache, Fill};
/// use seqferry_vfs::{ObjectVersion, VersionPin};
///
/// # let folder = std::env::temp_dir().join(format!("seqferry-cache-example-{}", std::process::id()));
/// let cache = DiskCache::open(&folder, CacheLimits { max_size: 1 << 30, ..CacheLimits::default() })?;
/// let object = ObjectVersion {
///     endpoint: "https://s3.example.com".into(),
///     bucket: "references".into(),
///     key: "genome.fa.fai".into(),
///     pin: VersionPin::Etag("9e107d9d372bb6826bd81d3542a419d6".into()),
///     size: 5,
/// };
/// assert_eq!(cache.fill(&object, 0, b"chr1\n", Admission::Always), Fill::Stored);
/// assert_eq!(cache.read(&object, 0, 1), [Some("chr1\n".into())]);
/// # drop(cache);
/// # std::fs::remove_dir_all(&folder).unwrap();
/// # Ok::<(), seqferry_vfs::disk_cache::CacheOpenError>(())
/// ```
#[derive(Debug)]
pub struct DiskCache {
    shared: Arc<CacheState>,
    evictor: Option<JoinHandle<()>>,
}

/// State that the handle of the cache shares with its evictor thread.
#[derive(Debug)]
struct CacheState {
    folder: CacheFolder,
    limits: CacheLimits,
    files: OpenFiles,
    usage: Usage,
    ghosts: Ghosts,
    pins: Pins,
    counters: CacheCounters,
    /// Set by [`Drop`]: a pass of the evictor ends at the next file.
    closing: AtomicBool,
    wanted: Mutex<bool>,
    wake: Condvar,
    /// No writing before this time.
    paused_until: Mutex<Option<Instant>>,
    notes: Mutex<WarningTexts>,
}

/// Texts for the user, one of each kind.
#[derive(Debug, Default)]
struct WarningTexts {
    /// Each text by its kind. None: it was taken.
    texts: BTreeMap<&'static str, Option<String>>,
}

#[derive(Debug, Default)]
struct CacheCounters {
    hits: AtomicU64,
    misses: AtomicU64,
    damaged: AtomicU64,
    stored: AtomicU64,
    bypassed: AtomicU64,
    no_room: AtomicU64,
    dropped: AtomicU64,
    bytes_read: AtomicU64,
    bytes_written: AtomicU64,
    evicted: AtomicU64,
    errors: AtomicU64,
}

fn add(counter: &AtomicU64, amount: u64) {
    counter.fetch_add(amount, Ordering::Relaxed);
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl DiskCache {
    /// Open or make a cache. Looks at no file in it: a thread of its own counts what is there and frees space.
    ///
    /// # Errors
    /// When the folder cannot be used.
    pub fn open(path: &Path, limits: CacheLimits) -> Result<Self, CacheOpenError> {
        let mut cache = Self::open_passive(path, limits)?;
        let shared = Arc::clone(&cache.shared);
        let thread = std::thread::Builder::new().name("cache-evictor".to_owned());
        let spawned = thread.spawn(move || evictor(&shared));
        cache.evictor = Some(spawned.map_err(|cause| CacheOpenError::Io { path: path.to_owned(), cause })?);
        Ok(cache)
    }

    /// Open a cache without a thread that frees space: for looking at it. Room is made by [`DiskCache::evict`] only.
    ///
    /// # Errors
    /// When the folder cannot be used.
    pub fn open_passive(path: &Path, limits: CacheLimits) -> Result<Self, CacheOpenError> {
        let folder = CacheFolder::open(path)?;
        let error = |cause| CacheOpenError::Io { path: path.to_owned(), cause };
        let shared = CacheState {
            usage: Usage::open(&folder).map_err(error)?,
            ghosts: Ghosts::open(&folder).map_err(error)?,
            pins: Pins::new(&folder),
            folder,
            limits,
            files: OpenFiles::default(),
            counters: CacheCounters::default(),
            closing: AtomicBool::new(false),
            wanted: Mutex::new(true),
            wake: Condvar::new(),
            paused_until: Mutex::new(None),
            notes: Mutex::new(WarningTexts::default()),
        };
        Ok(Self { shared: Arc::new(shared), evictor: None })
    }

    /// Open a cache: one that frees space as it fills, or one to be checked.
    ///
    /// # Errors
    /// When the folder cannot be used.
    pub fn open_as(path: &Path, limits: CacheLimits, makes_room: bool) -> Result<Self, CacheOpenError> {
        if makes_room { Self::open(path, limits) } else { Self::open_passive(path, limits) }
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        self.shared.folder.root()
    }

    /// Place of the table of names of a mounted prefix. Makes the folder of the tables; one that cannot be made shows
    /// when the table is written.
    pub fn table_of_names(&self, place: &Prefix) -> PathBuf {
        use std::os::unix::fs::DirBuilderExt as _;
        let folder = self.shared.folder.file(NAMES);
        let _exists = std::fs::DirBuilder::new().mode(0o700).create(&folder);
        folder.join(format!("{:016x}.names", place.digest()))
    }

    /// Its limits.
    pub fn limits(&self) -> &CacheLimits {
        &self.shared.limits
    }

    /// Blocks from `first` on, at most `count` and none past the end; None for a miss. Needs memory for `count` blocks.
    pub fn read(&self, object: &ObjectVersion, first: u64, count: u64) -> Vec<Option<Bytes>> {
        let count = object.blocks().saturating_sub(first).min(count);
        let counters = &self.shared.counters;
        let found = self.shared.files.with(&self.shared.folder, object, false, |files| files.read(first, count));
        let found = self.shared.checked("read from", found).flatten();
        let missing = || vec![None; usize::try_from(count).unwrap_or_default()];
        let blocks = found.map_or_else(missing, |lookups| {
            let block = |lookup| match lookup {
                BlockLookup::Hit(bytes) => Some(bytes),
                BlockLookup::Absent => None,
                BlockLookup::Damaged => {
                    add(&counters.damaged, 1);
                    None
                }
            };
            lookups.into_iter().map(block).collect()
        });
        let hits = blocks.iter().flatten().count() as u64;
        add(&counters.hits, hits);
        add(&counters.misses, blocks.len() as u64 - hits);
        add(&counters.bytes_read, blocks.iter().flatten().map(|bytes| bytes.len() as u64).sum());
        blocks
    }

    /// Presence of each block of a range in the cache. The bytes are not read: some may still turn out as misses.
    pub fn present(&self, object: &ObjectVersion, first: u64, count: u64) -> Vec<bool> {
        let count = object.blocks().saturating_sub(first).min(count);
        let found = self.shared.files.with(&self.shared.folder, object, false, |files| files.present(first, count));
        let found = self.shared.checked("read from", found).flatten();
        found.unwrap_or_else(|| vec![false; usize::try_from(count).unwrap_or_default()])
    }

    /// Keep a block.
    pub fn fill(&self, object: &ObjectVersion, block: u64, bytes: &[u8], admission: Admission) -> Fill {
        let fill = self.shared.fill(object, block, bytes, admission);
        let counters = &self.shared.counters;
        match fill {
            Fill::Stored => {
                add(&counters.stored, 1);
                add(&counters.bytes_written, bytes.len() as u64);
            }
            Fill::Bypassed => add(&counters.bypassed, 1),
            Fill::NoRoom => add(&counters.no_room, 1),
            _ => {}
        }
        fill
    }

    /// Keep the objects of a prefix until it is unpinned. Does not fetch anything.
    pub fn pin(&self, prefix: Prefix) -> io::Result<()> {
        self.shared.pins.update(&self.shared.folder, |pins| pins.push(prefix))
    }

    /// Let the objects of a prefix be evicted again. Returns whether the prefix was pinned.
    pub fn unpin(&self, prefix: &Prefix) -> io::Result<bool> {
        let mut found = false;
        self.shared.pins.update(&self.shared.folder, |pins| {
            found = pins.contains(prefix);
            pins.retain(|pin| pin != prefix);
        })?;
        Ok(found)
    }

    /// The pinned prefixes.
    pub fn pins(&self) -> io::Result<Vec<Prefix>> {
        self.shared.pins.read()
    }

    /// Count what is there and free space, as the evictor does by itself. None while another process does.
    pub fn evict(&self) -> io::Result<Option<EvictReport>> {
        self.shared.evict()
    }

    /// Counters of this process, and the usage of all.
    pub fn stats(&self) -> CacheStats {
        let counters = &self.shared.counters;
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        CacheStats {
            hits: read(&counters.hits),
            misses: read(&counters.misses),
            damaged: read(&counters.damaged),
            stored: read(&counters.stored),
            bypassed: read(&counters.bypassed),
            no_room: read(&counters.no_room),
            dropped: read(&counters.dropped),
            bytes_read: read(&counters.bytes_read),
            bytes_written: read(&counters.bytes_written),
            evicted: read(&counters.evicted),
            errors: read(&counters.errors),
            used: self.shared.usage.read(),
        }
    }

    /// Takes the warnings for the user, each kind once per process: that the disk is full or fails.
    pub fn take_notes(&self) -> Vec<String> {
        lock(&self.shared.notes).texts.values_mut().filter_map(Option::take).collect()
    }
}

impl Drop for DiskCache {
    fn drop(&mut self) {
        self.shared.closing.store(true, Ordering::SeqCst);
        *lock(&self.shared.wanted) = true;
        self.shared.wake.notify_all();
        if let Some(thread) = self.evictor.take() {
            // A panic there was shown already.
            let _ = thread.join();
        }
        self.shared.usage.close();
    }
}

impl CacheState {
    fn is_paused(&self) -> bool {
        let mut until = lock(&self.paused_until);
        if until.is_some_and(|until| until <= Instant::now()) {
            *until = None;
        }
        until.is_some()
    }

    /// The result, or None after an error of the disk, of which note is taken.
    fn checked<T>(&self, verb: &'static str, result: io::Result<T>) -> Option<T> {
        result.map_err(|cause| self.failed(verb, &cause)).ok()
    }

    fn failed(&self, verb: &'static str, cause: &io::Error) {
        add(&self.counters.errors, 1);
        let path = self.folder.root().display();
        if is_full(cause) {
            *lock(&self.paused_until) = Some(Instant::now() + FULL_PAUSE);
            self.wake_evictor();
            self.note(
                "full",
                format!("The disk of the cache {path} is full: reading goes on, uncached where there is no room"),
            );
            return;
        }
        if verb == "write to" {
            *lock(&self.paused_until) = Some(Instant::now() + ERROR_PAUSE);
        }
        self.note(verb, format!("Cannot {verb} the cache {path}: {cause}. Reading goes on without it"));
    }

    fn note(&self, kind: &'static str, text: String) {
        lock(&self.notes).texts.entry(kind).or_insert(Some(text));
    }

    fn wake_evictor(&self) {
        *lock(&self.wanted) = true;
        self.wake.notify_all();
    }
}

fn is_full(cause: &io::Error) -> bool {
    matches!(cause.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// The thread that frees space. Its first pass counts what is there.
fn evictor(shared: &CacheState) {
    loop {
        let mut wanted = lock(&shared.wanted);
        while !*wanted {
            wanted = shared.wake.wait(wanted).unwrap_or_else(PoisonError::into_inner);
        }
        *wanted = false;
        drop(wanted);
        if shared.closing.load(Ordering::SeqCst) {
            return;
        }
        shared.checked("make room in", shared.evict());
        // One pass scan of all files: when nothing can be freed, a full cache must not keep a processor busy.
        let waiting = lock(&shared.wanted);
        let closing = |_: &mut bool| !shared.closing.load(Ordering::SeqCst);
        let _ = shared.wake.wait_timeout_while(waiting, Duration::from_millis(200), closing);
    }
}
