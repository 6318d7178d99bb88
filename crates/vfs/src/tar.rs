//! Tar archives as folders: the members of `x.tar` below `x.tar.d`, read as ranges of the archive.
//!
//! | module | holds |
//! |---|---|
//! | `contents` | the members of one archive as a fixed tree of names |
//! | `load` | where the list of members comes from: the disk cache, a sidecar index, or the archive itself |
//! | `windows` | reading headers: hopping over large members, streaming over small ones |
//! | `index_cache` | indexes in the disk cache |
//!
//! An archive is one object version: its tree never changes, and a replaced archive is another one. All bytes of
//! members come through the same [`Reader`] and its tiers as those of objects. Names and offsets are those of the
//! strict reader of the archive crate. Where another program wrote the index, they are compared with the headers in the
//! archive before a byte of a member is shown. Links that lead out of the archive, and names that climb, do not exist.

mod contents;
mod index_cache;
mod load;
mod windows;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::sync::OnceCell;

pub use contents::{ArchiveContents, MemberNode, MemberNodeKind, RefusedMember};
pub use seqferry_archive::member::MemberPiece;

use crate::disk_cache::DiskCache;
use crate::error::{Result, VfsError};
use crate::fetch::OpenObject;
use crate::reader::{Prefetch, Reader};
use crate::source::Source;
use crate::tree::MEMBER_BIT;
use crate::version::ObjectVersion;

/// Suffix that makes the name of an archive the name of its folder.
pub const FOLDER_SUFFIX: &str = ".d";

/// Ending of archives that have a folder.
pub const ARCHIVE_SUFFIX: &str = ".tar";

/// Archives that are known at a time. The oldest unused are forgotten first; a list of members costs about 100
/// bytes per member.
const KNOWN: usize = 256;

/// A quarter: after this share of an archive was read, the rest is fetched as well.
const FETCH_ALL: u64 = 4;

/// Bounds of archives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TarOptions {
    /// Members of an archive.
    pub members: usize,
    /// Bytes of a sidecar index.
    pub index_size: u64,
}

impl Default for TarOptions {
    fn default() -> Self {
        Self { members: 10_000_000, index_size: 4 << 30 }
    }
}

/// The archives that are used as folders.
#[derive(Debug)]
pub struct TarFolders {
    pub(crate) reader: Arc<Reader>,
    pub(crate) source: Arc<dyn Source>,
    pub(crate) cache: Option<Arc<DiskCache>>,
    pub(crate) options: TarOptions,
    known: Mutex<FolderTable>,
}

/// The folders of archives by number, each with its last use.
#[derive(Debug, Default)]
struct FolderTable {
    by_number: HashMap<u32, (u64, Arc<TarFolder>)>,
    uses: u64,
}

/// One archive as a folder.
#[derive(Debug)]
pub struct TarFolder {
    number: u32,
    object: Arc<OpenObject>,
    contents: OnceCell<Arc<ArchiveContents>>,
    /// Inode of the archive as a file, and its time.
    origin: OnceLock<(u64, SystemTime)>,
    /// Bytes of members that were requested so far.
    requested: AtomicU64,
    /// Fetch of the whole archive, once they are a quarter of it. None: the memory has no space for it.
    whole: OnceLock<Option<Prefetch>>,
}

impl TarFolders {
    /// No archives yet. Lists of members are kept in `cache`, where there is one.
    pub fn new(
        reader: Arc<Reader>,
        source: Arc<dyn Source>,
        cache: Option<Arc<DiskCache>>,
        options: TarOptions,
    ) -> Arc<Self> {
        Arc::new(Self { reader, source, cache, options, known: Mutex::default() })
    }

    /// The folder of an archive. Reads nothing.
    pub fn folder(&self, version: &ObjectVersion) -> Arc<TarFolder> {
        // Follows from the version, so that inodes are the same after a remount.
        let digest = version.digest();
        let mut number = u32::try_from(digest.short() >> 33).unwrap_or_default();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.uses += 1;
        let now = known.uses;
        while let Some((used, folder)) = known.by_number.get_mut(&number) {
            if folder.object.version == *version {
                *used = now;
                return Arc::clone(folder);
            }
            number = (number + 1) & 0x7fff_ffff;
        }
        if known.by_number.len() >= KNOWN {
            let unused = known.by_number.iter().filter(|(_, (_, folder))| Arc::strong_count(folder) == 1);
            if let Some(oldest) = unused.min_by_key(|(_, (used, _))| *used).map(|(number, _)| *number) {
                known.by_number.remove(&oldest);
            }
        }
        let object = OpenObject::new(version.clone());
        let folder = Arc::new(TarFolder {
            number,
            object,
            contents: OnceCell::new(),
            origin: OnceLock::new(),
            requested: AtomicU64::new(0),
            whole: OnceLock::new(),
        });
        known.by_number.insert(number, (now, Arc::clone(&folder)));
        folder
    }

    /// The archive of an inode, and the node in it. None for inodes of objects, and of archives that were forgotten.
    pub fn find(&self, inode: u64) -> Option<(Arc<TarFolder>, u32)> {
        if inode & MEMBER_BIT == 0 {
            return None;
        }
        let (number, node) =
            (u32::try_from((inode & !MEMBER_BIT) >> 32).ok()?, u32::try_from(inode & 0xffff_ffff).ok()?);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.uses += 1;
        let now = known.uses;
        let (used, folder) = known.by_number.get_mut(&number)?;
        *used = now;
        Some((Arc::clone(folder), node))
    }

    /// The members of an archive. The first call reads the list; calls at the same time wait for it, and one that is
    /// abandoned leaves the work to the next.
    ///
    /// # Errors
    /// `BadArchive` for an object that is no sound archive; `Stale` for one that was replaced.
    pub async fn contents(&self, folder: &TarFolder) -> Result<Arc<ArchiveContents>> {
        folder.contents.get_or_try_init(|| load::load(self, &folder.object)).await.cloned()
    }

    /// Counts requested bytes of a member. Once they are a quarter of the archive the rest of it is fetched, where the
    /// memory has space: many small requests cost more than the bytes between them.
    pub(crate) fn note_read(&self, folder: &TarFolder, bytes: u64) {
        let size = folder.object.version.size;
        let before = folder.requested.fetch_add(bytes, Ordering::Relaxed);
        if before < size / FETCH_ALL && before + bytes >= size / FETCH_ALL {
            folder.whole.get_or_init(|| self.reader.prefetch_whole(&folder.object));
        }
    }

    /// Compare a member with the headers in the archive, where another program wrote the index that gives its place.
    ///
    /// # Errors
    /// `BadArchive` when the archive has something else there.
    pub async fn check(&self, folder: &TarFolder, node: u32) -> Result<()> {
        let contents = self.contents(folder).await?;
        if contents.is_proven() {
            return Ok(());
        }
        let member = contents.node(node).ok_or(VfsError::Stale)?;
        load::check(self, &folder.object, &member).await
    }
}

impl TarFolder {
    /// The object of the archive.
    pub fn object(&self) -> &Arc<OpenObject> {
        &self.object
    }

    /// The members, if they were read.
    pub fn loaded(&self) -> Option<Arc<ArchiveContents>> {
        self.contents.get().cloned()
    }

    /// Remember the inode of the archive as a file, and its time. The first call counts.
    pub(crate) fn set_origin(&self, inode: u64, modified: SystemTime) {
        let _ = self.origin.set((inode, modified));
    }

    /// Inode of the archive as a file, if known.
    pub(crate) fn origin(&self) -> Option<u64> {
        self.origin.get().map(|(inode, _)| *inode)
    }

    /// Time of the archive: that of folders without a member of their own.
    pub(crate) fn modified(&self) -> SystemTime {
        self.origin.get().map_or(UNIX_EPOCH, |(_, modified)| *modified)
    }

    /// The inode of a node of this archive.
    pub fn inode(&self, node: u32) -> u64 {
        MEMBER_BIT | u64::from(self.number) << 32 | u64::from(node)
    }
}

/// The name of the archive with this folder name.
pub fn archive_name(folder: &str) -> Option<&str> {
    folder
        .strip_suffix(FOLDER_SUFFIX)
        .filter(|name| name.len() > ARCHIVE_SUFFIX.len() && name.ends_with(ARCHIVE_SUFFIX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_named_after_archives() {
        assert_eq!(archive_name("x.tar.d"), Some("x.tar"));
        for name in ["x.tar", "x.d", ".tar.d", "x.tar.gz.d", "x.tar.d.d", ""] {
            assert_eq!(archive_name(name), None, "{name}");
        }
    }
}
