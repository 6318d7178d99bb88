//! A read-only share of a bucket: files of an export by lasting identities, and who may do what.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use seqferry_share::{
    ATTRIBUTE_TTL, Access, Attributes, Caller, DirectoryEntry, DirectoryPage, EntryDetail, FileError, FileId, FileKind,
    ReadData, Result, Share, SpaceInfo,
};
use seqferry_store::ErrorClass;
use seqferry_vfs::{FileSystem, NamePage, VfsError};

use crate::file_table::{FileTable, ROOT};
use crate::overlay::{nanoseconds, system_time};

/// Clients wait a minute for an answer, and send the call again over another connection. Before that the reply is "try
/// later", which a hard mount does for as long as it takes.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_secs(25);
/// Wait for the attributes of a page of names. Names whose attributes come later are shown without them.
pub(crate) const PAGE_TIMEOUT: Duration = Duration::from_secs(5);
/// Versions of a file that one call follows, when each is replaced just then.
const VERSIONS: u32 = 3;
/// Directories above a file: a key has 1,024 bytes.
const DEPTH: usize = 512;

/// Attributes of files that store none, and the room that a share shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShareDefaults {
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Permissions of files.
    pub file_mode: u32,
    /// Permissions of directories.
    pub directory_mode: u32,
    /// Bytes that are shown as free: a bucket is never full, and some programs refuse a disk that is.
    pub free_space: u64,
}

impl ShareDefaults {
    /// Attributes of a file of a bucket.
    pub(crate) fn attributes(&self, number: u64, found: &seqferry_vfs::Attributes) -> Attributes {
        let is_directory = found.kind == seqferry_vfs::FileKind::Directory;
        let (kind, mode) = match found.kind {
            seqferry_vfs::FileKind::Directory => (FileKind::Directory, self.directory_mode),
            seqferry_vfs::FileKind::File => (FileKind::File, self.file_mode),
            seqferry_vfs::FileKind::Symlink => (FileKind::Symlink, 0o777),
        };
        // The journal, and NFS, have no earlier times than 1970: they are the same before and after a change.
        let modified = system_time(nanoseconds(found.modified));
        Attributes {
            file: FileId { number, generation: 0 },
            kind,
            mode: found.permissions.map_or(mode, u32::from),
            links: if is_directory { 2 } else { 1 },
            uid: found.uid.unwrap_or(self.uid),
            gid: found.gid.unwrap_or(self.gid),
            size: found.size,
            used: found.size,
            accessed: modified,
            modified,
            changed: modified,
            valid: ATTRIBUTE_TTL,
        }
    }
}

impl Default for ShareDefaults {
    fn default() -> Self {
        Self { uid: 65534, gid: 65534, file_mode: 0o644, directory_mode: 0o755, free_space: 1 << 60 }
    }
}

/// Number of calls that clients were asked to repeat later.
#[derive(Debug, Default)]
pub(crate) struct RepeatCount(AtomicU64);

impl RepeatCount {
    /// Count an answer if it is "try later".
    pub(crate) fn count<T>(&self, answer: Result<T>) -> Result<T> {
        if matches!(answer, Err(FileError::TryLater)) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
        answer
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The files of a bucket or prefix.
#[derive(Debug)]
pub struct BucketShare {
    files: Arc<FileSystem>,
    file_table: FileTable,
    defaults: ShareDefaults,
    repeats: Arc<RepeatCount>,
}

/// A file as it is now.
struct ResolvedFile {
    inode: u64,
    attributes: Attributes,
}

impl BucketShare {
    /// Share these files. They must have no archives as folders.
    pub fn new(files: Arc<FileSystem>, file_table: FileTable, defaults: ShareDefaults) -> Self {
        Self { files, file_table, defaults, repeats: Arc::default() }
    }

    pub(crate) fn repeats(&self) -> Arc<RepeatCount> {
        Arc::clone(&self.repeats)
    }

    /// Answer before the client gives the connection up.
    async fn answer<T>(&self, answer: impl Future<Output = Result<T>>) -> Result<T> {
        self.repeats.count(within_call_timeout(answer).await)
    }

    /// The file of an identity: each name on the way is looked up, which is answered from memory while it is fresh.
    async fn resolve(&self, file: FileId) -> Result<ResolvedFile> {
        let mut names = Vec::new();
        let mut number = file.number;
        while number != ROOT {
            let place = self.file_table.place(number).filter(|_| names.len() < DEPTH).ok_or(FileError::Stale)?;
            number = place.parent;
            names.push(place.name);
        }
        let tree = self.files.tree();
        let mut found = tree.attributes(seqferry_vfs::ROOT).map_err(status)?;
        for name in names.iter().rev() {
            let looked_up = tree.lookup(found.inode, name).await;
            found = match looked_up.map(|lookup| lookup.attributes) {
                Ok(Some(attributes)) => attributes,
                // The name has gone since, or it is a file where a directory was.
                Ok(None) | Err(VfsError::NotADirectory | VfsError::NotFound) => return Err(FileError::Stale),
                Err(error) => return Err(status(error)),
            };
        }
        let found = match tree.learned(found).await {
            Err(VfsError::NotFound) => return Err(FileError::Stale),
            learned => learned.map_err(status)?,
        };
        Ok(ResolvedFile { inode: found.inode, attributes: self.defaults.attributes(file.number, &found) })
    }

    /// The file of an identity, if the caller has one of these rights.
    async fn allowed(&self, caller: &Caller, file: FileId, rights: &[Access]) -> Result<ResolvedFile> {
        let found = self.resolve(file).await?;
        let granted = found.attributes.access(caller);
        let is_allowed = rights.iter().any(|right| granted.includes(*right));
        if is_allowed { Ok(found) } else { Err(FileError::AccessDenied) }
    }

    async fn read_now(&self, caller: &Caller, file: FileId, offset: u64, length: u32) -> Result<ReadData> {
        let mut last = FileError::Stale;
        for _ in 0..VERSIONS {
            // A program that may run a file has it read by its client.
            let found = self.allowed(caller, file, &[Access::READ, Access::EXECUTE]).await?;
            match found.attributes.kind {
                FileKind::Directory => return Err(FileError::IsADirectory),
                FileKind::Symlink => return Err(FileError::Invalid),
                FileKind::File => {}
            }
            match self.files.read_at(found.inode, offset, length as usize).await {
                Ok(slices) => {
                    let end = offset.saturating_add(slices.len() as u64);
                    let is_end = end >= found.attributes.size;
                    return Ok(ReadData {
                        slices: vec![slices.to_bytes()],
                        is_end,
                        attributes: Some(found.attributes),
                    });
                }
                Err(VfsError::Stale) => last = FileError::Stale,
                Err(error) => return Err(status(error)),
            }
        }
        Err(last)
    }

    async fn list(
        &self,
        caller: &Caller,
        directory: FileId,
        (cookie, most): (u64, usize),
        facts: EntryDetail,
    ) -> Result<DirectoryPage> {
        let found = self.allowed(caller, directory, &[Access::READ]).await?;
        if found.attributes.kind != FileKind::Directory {
            return Err(FileError::NotADirectory);
        }
        let mut entries = Vec::new();
        if cookie < 1 {
            let attributes = found.attributes.clone();
            entries.push(DirectoryEntry { name: Bytes::from_static(b"."), cookie: 1, attributes, is_known: true });
        }
        if cookie < 2 {
            let attributes = self.resolve(FileId { number: self.parent(directory), generation: 0 }).await?.attributes;
            entries.push(DirectoryEntry { name: Bytes::from_static(b".."), cookie: 2, attributes, is_known: true });
        }
        let after = match cookie {
            0..=2 => None,
            number => {
                let place = self.file_table.place(number).filter(|place| place.parent == directory.number);
                Some(place.ok_or(FileError::BadCookie)?.name)
            }
        };
        let most = most.saturating_sub(entries.len()).max(1);
        let page = read_page(&self.files, found.inode, (after.as_deref(), most), facts).await?;
        let numbers = self.file_table.numbers(directory.number, page.entries.iter().map(|(name, _)| name.as_str()));
        for ((name, attributes), number) in page.entries.iter().zip(numbers) {
            let Some(number) = number else { continue };
            let is_known = attributes.is_known;
            let attributes = self.defaults.attributes(number, attributes);
            entries.push(DirectoryEntry { name: Bytes::from(name.clone()), cookie: number, attributes, is_known });
        }
        Ok(DirectoryPage { entries, is_end: page.is_end })
    }

    fn parent(&self, file: FileId) -> u64 {
        if file.number == ROOT { ROOT } else { self.file_table.place(file.number).map_or(ROOT, |place| place.parent) }
    }
}

/// Answer before the client gives the connection up.
pub(crate) async fn within_call_timeout<T>(answer: impl Future<Output = Result<T>>) -> Result<T> {
    within_timeout(CALL_TIMEOUT, answer).await
}

/// Answer within this time, or have the client ask later.
pub(crate) async fn within_timeout<T>(patience: Duration, answer: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::time::timeout(patience, answer).await.unwrap_or(Err(FileError::TryLater))
}

/// Names of a directory of the bucket with these facts.
pub(crate) async fn read_page(
    files: &FileSystem,
    inode: u64,
    (after, most): (Option<&str>, usize),
    facts: EntryDetail,
) -> Result<NamePage> {
    let tree = files.tree();
    let read = match facts {
        EntryDetail::Names => tree.read_names(inode, after, most).await,
        EntryDetail::Kinds => tree.read_known_names(inode, (after, most), true, PAGE_TIMEOUT).await,
        EntryDetail::All => tree.read_known_names(inode, (after, most), false, PAGE_TIMEOUT).await,
    };
    read.map_err(status)
}

/// The status of a failed operation. Outages are waited out by the client.
pub(crate) fn status(error: VfsError) -> FileError {
    match error {
        VfsError::NotFound => FileError::NotFound,
        VfsError::Stale => FileError::Stale,
        VfsError::NotADirectory => FileError::NotADirectory,
        VfsError::IsADirectory => FileError::IsADirectory,
        VfsError::Invalid => FileError::Invalid,
        VfsError::ReadOnly => FileError::ReadOnly,
        VfsError::Exists => FileError::Exists,
        VfsError::NotEmpty => FileError::NotEmpty,
        VfsError::NoSpace => FileError::NoSpace,
        VfsError::NameTooLong => FileError::NameTooLong,
        VfsError::CrossDevice => FileError::CrossDevice,
        VfsError::TryLater => FileError::TryLater,
        VfsError::Denied(error) => {
            tracing::warn!("{error}. {}", error.advice());
            FileError::AccessDenied
        }
        VfsError::Failed(error) if matches!(error.class, ErrorClass::Retry | ErrorClass::Throttle) => {
            tracing::warn!("{error}. Clients ask again");
            FileError::TryLater
        }
        VfsError::Archived(error) | VfsError::Failed(error) => {
            tracing::warn!("{error}. {}", error.advice());
            FileError::Io
        }
        VfsError::BadArchive(text) => {
            tracing::warn!("{text}");
            FileError::Io
        }
    }
}

#[async_trait]
impl Share for BucketShare {
    fn root(&self) -> FileId {
        FileId { number: ROOT, generation: 0 }
    }

    async fn attributes(&self, _caller: &Caller, file: FileId) -> Result<Attributes> {
        Ok(self.answer(self.resolve(file)).await?.attributes)
    }

    async fn lookup(&self, caller: &Caller, directory: FileId, name: &[u8]) -> Result<Attributes> {
        self.answer(async {
            let found = self.resolve(directory).await?;
            if found.attributes.kind != FileKind::Directory {
                return Err(FileError::NotADirectory);
            }
            if !found.attributes.access(caller).includes(Access::LOOKUP) {
                return Err(FileError::AccessDenied);
            }
            match name {
                b"." => return Ok(found.attributes),
                b".." => {
                    let parent = FileId { number: self.parent(directory), generation: 0 };
                    return Ok(self.resolve(parent).await?.attributes);
                }
                _ => {}
            }
            // Keys are text: no object has another name.
            let name = std::str::from_utf8(name).map_err(|_| FileError::NotFound)?;
            let looked_up = self.files.tree().lookup(found.inode, name).await.map_err(status)?;
            let attributes = looked_up.attributes.ok_or(FileError::NotFound)?;
            let attributes = self.files.tree().learned(attributes).await.map_err(status)?;
            let number = self.file_table.number(directory.number, name).ok_or(FileError::Io)?;
            Ok(self.defaults.attributes(number, &attributes))
        })
        .await
    }

    async fn read_link(&self, _caller: &Caller, link: FileId) -> Result<Bytes> {
        self.answer(async {
            let found = self.resolve(link).await?;
            self.files.read_link(found.inode).await.map_err(status)
        })
        .await
    }

    async fn read(&self, caller: &Caller, file: FileId, offset: u64, length: u32) -> Result<ReadData> {
        self.answer(Box::pin(self.read_now(caller, file, offset, length))).await
    }

    async fn read_directory(
        &self,
        caller: &Caller,
        directory: FileId,
        cookie: u64,
        most: usize,
        facts: EntryDetail,
    ) -> Result<DirectoryPage> {
        self.answer(self.list(caller, directory, (cookie, most), facts)).await
    }

    async fn space(&self, _caller: &Caller) -> Result<SpaceInfo> {
        let free = self.defaults.free_space;
        let files = u64::from(u32::MAX);
        Ok(SpaceInfo { total_bytes: free, free_bytes: free, total_files: files, free_files: files })
    }
}

#[cfg(test)]
mod tests;
