//! Read-only share over the files of `seqferry-vfs`, for a mount: the identity of a file is its inode, which stands for
//! one version of an object.

use std::sync::Arc;
use std::time::SystemTime;

use async_trait::async_trait;
use bytes::Bytes;
use seqferry_share::{
    Attributes, Caller, ChangeResult, DirectoryEntry, DirectoryPage, EntryDetail, FileError, FileId, FileKind,
    NameLookup, ReadData, Result, Share, SpaceInfo,
};
use seqferry_vfs::{FileSystem, ROOT, Slices, VfsError};

use crate::log::RateLimitedLog;
use crate::options::MountOptions;

/// Bytes that the share shows as free: a bucket has no size and is never full. `df` shows an exabyte with 0 % in use.
/// Monitors would report a disk that is full. Writes fail since the share is read-only, and not for lack of space.
const SPACE: u64 = 1 << 60;

/// See the module.
pub(crate) struct ReadOnlyShare {
    files: Arc<FileSystem>,
    uid: u32,
    gid: u32,
    file_mode: u16,
    directory_mode: u16,
    /// Time of the mount: the change time of directories. Programs such as tar compare it before and after they read a
    /// directory, and the modification time becomes another one when a directory is listed.
    since: SystemTime,
    log: RateLimitedLog,
}

impl ReadOnlyShare {
    pub(crate) fn new(files: Arc<FileSystem>, options: &MountOptions) -> Self {
        let MountOptions { uid, gid, file_mode, directory_mode, .. } = *options;
        let (since, log) = (SystemTime::now(), RateLimitedLog::default());
        Self { files, uid, gid, file_mode, directory_mode, since, log }
    }

    fn shown(&self, found: &seqferry_vfs::Attributes) -> Attributes {
        let modified = found.modified;
        let (kind, mode, changed) = match found.kind {
            seqferry_vfs::FileKind::File => (FileKind::File, found.permissions.unwrap_or(self.file_mode), modified),
            seqferry_vfs::FileKind::Directory => (FileKind::Directory, self.directory_mode, self.since),
            seqferry_vfs::FileKind::Symlink => (FileKind::Symlink, 0o777, modified),
        };
        Attributes {
            file: FileId { number: found.inode, generation: 0 },
            kind,
            mode: u32::from(mode),
            // For directories 1 says that their subdirectories were not counted.
            links: 1,
            uid: self.uid,
            gid: self.gid,
            size: found.size,
            used: found.size,
            accessed: modified,
            modified,
            changed,
            valid: found.valid,
        }
    }

    fn data(&self, read: seqferry_vfs::Result<Slices>, length: u32) -> Result<ReadData> {
        let slices = read.map_err(|error| self.error(&error))?;
        let is_end = slices.len() < length as usize;
        Ok(ReadData { slices: vec![slices.to_bytes()], is_end, attributes: None })
    }

    fn error(&self, error: &VfsError) -> FileError {
        let (status, is_worth_a_line) = match error {
            VfsError::NotFound => (FileError::NotFound, false),
            VfsError::Stale => (FileError::Stale, false),
            VfsError::NotADirectory => (FileError::NotADirectory, false),
            VfsError::IsADirectory => (FileError::IsADirectory, false),
            VfsError::Invalid => (FileError::Invalid, false),
            VfsError::Denied(_) => (FileError::AccessDenied, true),
            VfsError::ReadOnly => (FileError::ReadOnly, false),
            VfsError::Exists => (FileError::Exists, false),
            VfsError::NotEmpty => (FileError::NotEmpty, false),
            VfsError::NoSpace => (FileError::NoSpace, true),
            VfsError::NameTooLong => (FileError::NameTooLong, false),
            VfsError::CrossDevice => (FileError::CrossDevice, false),
            VfsError::TryLater => (FileError::TryLater, false),
            VfsError::Archived(_) | VfsError::Failed(_) | VfsError::BadArchive(_) => (FileError::Io, true),
        };
        if is_worth_a_line {
            self.log.line(&error.to_string());
        }
        status
    }
}

#[async_trait]
impl Share for ReadOnlyShare {
    fn root(&self) -> FileId {
        FileId { number: ROOT, generation: 0 }
    }

    fn identifies_versions(&self) -> bool {
        true
    }

    async fn attributes(&self, _caller: &Caller, file: FileId) -> Result<Attributes> {
        let found = self.files.learned_attributes(file.number).await;
        found.map(|found| self.shown(&found)).map_err(|error| self.error(&error))
    }

    async fn lookup(&self, caller: &Caller, directory: FileId, name: &[u8]) -> Result<Attributes> {
        match self.lookup_name(caller, directory, name).await? {
            NameLookup::Found(found) => Ok(found),
            NameLookup::Absent(_) => Err(FileError::NotFound),
        }
    }

    async fn lookup_name(&self, _caller: &Caller, directory: FileId, name: &[u8]) -> Result<NameLookup> {
        // Keys are UTF-8: no object has another name.
        let name = std::str::from_utf8(name).map_err(|_| FileError::NotFound)?;
        let found = self.files.lookup(directory.number, name).await.map_err(|error| self.error(&error))?;
        Ok(match found.attributes {
            Some(attributes) => NameLookup::Found(Attributes { valid: found.valid, ..self.shown(&attributes) }),
            None => NameLookup::Absent(found.valid),
        })
    }

    async fn read_link(&self, _caller: &Caller, link: FileId) -> Result<Bytes> {
        self.files.read_link(link.number).await.map_err(|error| self.error(&error))
    }

    async fn open(&self, _caller: &Caller, file: FileId) -> Result<u64> {
        self.files.open(file.number).await.map_err(|error| self.error(&error))
    }

    async fn read(&self, _caller: &Caller, file: FileId, offset: u64, length: u32) -> Result<ReadData> {
        self.data(self.files.read_at(file.number, offset, length as usize).await, length)
    }

    async fn read_opened(&self, _: &Caller, _: FileId, handle: u64, offset: u64, length: u32) -> Result<ReadData> {
        self.data(self.files.read(handle, offset, length as usize).await, length)
    }

    fn close(&self, handle: u64) {
        self.files.close(handle);
    }

    async fn read_directory(
        &self,
        _caller: &Caller,
        directory: FileId,
        cookie: u64,
        most: usize,
        _facts: EntryDetail,
    ) -> Result<DirectoryPage> {
        let found = self.files.read_directory(directory.number, cookie, most).await;
        let entries = found.map_err(|error| self.error(&error))?.into_iter().map(|entry| DirectoryEntry {
            name: Bytes::from(entry.name),
            cookie: entry.cookie,
            is_known: entry.attributes.is_known,
            attributes: self.shown(&entry.attributes),
        });
        let entries: Vec<DirectoryEntry> = entries.collect();
        Ok(DirectoryPage { is_end: entries.is_empty(), entries })
    }

    async fn commit(&self, _caller: &Caller, _file: FileId) -> Result<ChangeResult> {
        // As on a disk that is mounted read-only, fsync has nothing to do.
        Ok(ChangeResult { before: None, after: None })
    }

    async fn space(&self, _caller: &Caller) -> Result<SpaceInfo> {
        let files = u64::from(u32::MAX);
        Ok(SpaceInfo { total_bytes: SPACE, free_bytes: SPACE, total_files: files, free_files: files })
    }

    async fn extended_attribute(&self, _caller: &Caller, file: FileId, name: &[u8]) -> Result<Option<Bytes>> {
        let Ok(name) = std::str::from_utf8(name) else { return Ok(None) };
        let value = self.files.xattr(file.number, name).await.map_err(|error| self.error(&error))?;
        Ok(value.map(Bytes::from))
    }

    async fn extended_attribute_names(&self, _caller: &Caller, file: FileId) -> Result<Vec<Bytes>> {
        let names = self.files.list_xattrs(file.number).map_err(|error| self.error(&error))?;
        Ok(names.into_iter().map(Bytes::from).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::time::Duration;

    use seqferry_store_testing::{MemoryStore, ObjectWriteExt as _};
    use seqferry_vfs::testing::StoreSource;
    use seqferry_vfs::{Freshness, Pool, Reader, Source, Tree, TreeOptions};

    use super::*;

    #[tokio::test]
    async fn a_file_is_read_by_its_handle_and_an_absent_name_is_believed_as_long_as_its_listing() {
        let store = MemoryStore::with_buckets(&["b"]);
        store.put("b", "k", Bytes::from_static(b"bytes"), &seqferry_store::Attributes::default()).await.unwrap();
        let source = StoreSource::over(&store) as Arc<dyn Source>;
        let lifetime = Duration::from_hours(1);
        let tree = TreeOptions { lifetime: Some(lifetime), ..TreeOptions::bucket("b") };
        let tree = Tree::new(Arc::clone(&source), tree);
        let files = FileSystem::new(tree, Reader::new(source, Pool::new(0), None), Freshness::Ttl);
        let options = MountOptions {
            directory: "/mnt".into(),
            source: "s3://b/".to_owned(),
            allow_other: false,
            allow_non_empty: false,
            uid: 1000,
            gid: 1001,
            file_mode: 0o640,
            directory_mode: 0o750,
        };
        let share = ReadOnlyShare::new(Arc::clone(&files), &options);
        let caller = Caller { address: Ipv4Addr::LOCALHOST.into(), uid: 0, gid: 0, groups: Vec::new() };

        let found = share.lookup(&caller, share.root(), b"k").await.unwrap();
        assert_eq!((found.uid, found.gid, found.mode, found.links, found.size), (1000, 1001, 0o640, 1, 5));
        let root = share.attributes(&caller, share.root()).await.unwrap();
        assert_eq!((root.mode, root.changed), (0o750, share.since));
        let NameLookup::Absent(valid) = share.lookup_name(&caller, share.root(), b"none").await.unwrap() else {
            panic!("no object has this name");
        };
        assert!(valid > Duration::ZERO && valid <= lifetime, "{valid:?}");

        let handle = share.open(&caller, found.file).await.unwrap();
        let read = share.read_opened(&caller, found.file, handle, 1, 100).await.unwrap();
        assert_eq!((read.slices.concat(), read.is_end), (b"ytes".to_vec(), true));
        share.commit(&caller, found.file).await.unwrap();
        share.close(handle);
        assert_eq!(files.open_handles(), 0);
        let removed = share.remove(&caller, share.root(), b"k").await;
        assert_eq!(removed.unwrap_err(), FileError::ReadOnly);
    }
}
