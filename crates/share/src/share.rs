//! The trait of shares, and the types of its calls.

use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use bytes::Bytes;

use crate::attributes::{Access, Attributes, Caller, ChangeStamp, FileId, SetAttributes};
use crate::error::{FileError, Result};

/// Bounds of a share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileLimits {
    /// Bytes of the largest file.
    pub max_file_size: u64,
    /// Bytes of the longest name.
    pub max_name: u32,
}

impl Default for FileLimits {
    /// The largest object and the longest name of a path on Linux.
    fn default() -> Self {
        Self { max_file_size: 5 << 40, max_name: 255 }
    }
}

/// Room of a share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpaceInfo {
    /// Bytes in all.
    pub total_bytes: u64,
    /// Bytes that are free.
    pub free_bytes: u64,
    /// Files in all.
    pub total_files: u64,
    /// Files that can be added.
    pub free_files: u64,
}

/// The answer to a lookup by a mount, which keeps it for a while.
#[derive(Debug, Clone)]
pub enum NameLookup {
    /// The file of the name.
    Found(Attributes),
    /// The name does not exist, which may be believed for this time.
    Absent(Duration),
}

/// Bytes of a file.
#[derive(Debug, Clone)]
pub struct ReadData {
    /// The bytes, in order.
    pub slices: Vec<Bytes>,
    /// The file ends with them.
    pub is_end: bool,
    /// Attributes of the file, if at hand.
    pub attributes: Option<Attributes>,
}

/// One name of a directory.
#[derive(Debug, Clone)]
pub struct DirectoryEntry {
    /// The name.
    pub name: Bytes,
    /// Position after this entry. It stays valid when the directory changes.
    pub cookie: u64,
    /// Attributes of the file.
    pub attributes: Attributes,
    /// The facts are those of the file. False: identity and size are, and the rest is a guess that must not be shown.
    pub is_known: bool,
}

/// Attributes of the entries of a directory that a caller needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryDetail {
    /// Names and identities.
    Names,
    /// Kinds as well.
    Kinds,
    /// All attributes, as far as they can be had.
    All,
}

/// Entries of a directory in a row.
#[derive(Debug, Clone)]
pub struct DirectoryPage {
    /// The entries.
    pub entries: Vec<DirectoryEntry>,
    /// The directory ends with them.
    pub is_end: bool,
}

/// Attributes of a file or directory around one change.
#[derive(Debug, Clone)]
pub struct ChangeResult {
    /// Facts just before. None where another change may have come between.
    pub before: Option<ChangeStamp>,
    /// Facts just after.
    pub after: Option<Attributes>,
}

/// A file that was created.
#[derive(Debug, Clone)]
pub struct CreateResult {
    /// Its attributes.
    pub attributes: Attributes,
    /// The directory.
    pub directory: ChangeResult,
}

/// Conditions for creating a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CreateMode {
    /// A file of this name is kept, with the new attributes.
    Unchecked(SetAttributes),
    /// `Exists` for a name in use.
    Guarded(SetAttributes),
    /// `Exists` for a name in use, unless the file was created with this very number: the call came twice.
    Exclusive([u8; 8]),
}

/// Condition of a change of an extended attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum XattrCondition {
    /// The file may have the attribute, or not.
    Any,
    /// `Exists` where the file has it.
    Absent,
    /// `NotFound` where the file does not have it.
    Present,
}

/// Durability of bytes that were written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stability {
    /// They may be lost until they are committed.
    Unstable,
    /// The bytes, and what is needed to read them, survive a loss of power.
    Data,
    /// All attributes of the file survive as well.
    File,
}

/// The effect of a write.
#[derive(Debug, Clone)]
pub struct WriteResult {
    /// Attributes of the file.
    pub file: ChangeResult,
    /// Bytes that were taken.
    pub length: u32,
    /// Their durability: at least what was requested.
    pub stability: Stability,
}

/// Files that an interface serves. Permissions are decided here: the interface only says who asks.
///
/// Without the methods for changes a share is read-only.
#[async_trait]
pub trait Share: Send + Sync + 'static {
    /// Identity of the root.
    fn root(&self) -> FileId;

    /// Attributes of a file.
    async fn attributes(&self, caller: &Caller, file: FileId) -> Result<Attributes>;

    /// Attributes of the file of a name; `.` and `..` are names as well.
    async fn lookup(&self, caller: &Caller, directory: FileId, name: &[u8]) -> Result<Attributes>;

    /// The target of a symbolic link.
    async fn read_link(&self, caller: &Caller, link: FileId) -> Result<Bytes>;

    /// At most `length` bytes from `offset`. Fewer only at the end of the file.
    async fn read(&self, caller: &Caller, file: FileId, offset: u64, length: u32) -> Result<ReadData>;

    /// At most `most` entries after a position (0: the beginning), `.` and `..` among them, with these facts.
    async fn read_directory(
        &self,
        caller: &Caller,
        directory: FileId,
        cookie: u64,
        most: usize,
        facts: EntryDetail,
    ) -> Result<DirectoryPage>;

    /// Room that is left.
    async fn space(&self, caller: &Caller) -> Result<SpaceInfo>;

    /// Bounds of names and files.
    fn limits(&self) -> FileLimits {
        FileLimits::default()
    }

    /// True where every change is refused.
    fn is_read_only(&self) -> bool {
        true
    }

    /// True where the identity of a file is that of one version, for as long as the share is served: bytes and links of
    /// a file never change, and identities need not be kept apart by their generation.
    fn identifies_versions(&self) -> bool {
        false
    }

    /// The file that has a number now. None: no file has it, or the share does not find files so.
    fn file_of_number(&self, _number: u64) -> Option<FileId> {
        None
    }

    /// The lookup of a mount.
    async fn lookup_name(&self, caller: &Caller, directory: FileId, name: &[u8]) -> Result<NameLookup> {
        self.lookup(caller, directory, name).await.map(NameLookup::Found)
    }

    /// Open a file for a mount. Returns a handle for [`Share::read_opened`], which [`Share::close`] gives back. A share
    /// whose files can be created has none of its own: the handle is 0.
    async fn open(&self, caller: &Caller, file: FileId) -> Result<u64> {
        self.attributes(caller, file).await.map(|_| 0)
    }

    /// Read as [`Share::read`], from an open file.
    async fn read_opened(
        &self,
        caller: &Caller,
        file: FileId,
        _handle: u64,
        offset: u64,
        length: u32,
    ) -> Result<ReadData> {
        self.read(caller, file, offset, length).await
    }

    /// Close an open file.
    fn close(&self, _handle: u64) {}

    /// Rights of the caller on a file.
    async fn access(&self, caller: &Caller, file: FileId) -> Result<(Access, Attributes)> {
        let attributes = self.attributes(caller, file).await?;
        let access = attributes.access(caller);
        Ok((if self.is_read_only() { access & Access::READ_ONLY } else { access }, attributes))
    }

    /// Set attributes of a file. `unchanged_since` states the time of the last change that it must still have.
    async fn set_attributes(
        &self,
        _caller: &Caller,
        _file: FileId,
        _attributes: SetAttributes,
        _unchanged_since: Option<SystemTime>,
    ) -> Result<ChangeResult> {
        Err(FileError::ReadOnly)
    }

    /// Write bytes, at least as durably as requested.
    async fn write(
        &self,
        _caller: &Caller,
        _file: FileId,
        _offset: u64,
        _data: Bytes,
        _stability: Stability,
    ) -> Result<WriteResult> {
        Err(FileError::ReadOnly)
    }

    /// Make all bytes of a file durable that were written so far.
    async fn commit(&self, _caller: &Caller, _file: FileId) -> Result<ChangeResult> {
        Err(FileError::ReadOnly)
    }

    /// Create a regular file.
    async fn create(
        &self,
        _caller: &Caller,
        _directory: FileId,
        _name: &[u8],
        _how: CreateMode,
    ) -> Result<CreateResult> {
        Err(FileError::ReadOnly)
    }

    /// Create a directory.
    async fn create_directory(
        &self,
        _caller: &Caller,
        _directory: FileId,
        _name: &[u8],
        _attributes: SetAttributes,
    ) -> Result<CreateResult> {
        Err(FileError::ReadOnly)
    }

    /// Create a symbolic link.
    async fn create_link(
        &self,
        _caller: &Caller,
        _directory: FileId,
        _name: &[u8],
        _target: Bytes,
        _attributes: SetAttributes,
    ) -> Result<CreateResult> {
        Err(FileError::ReadOnly)
    }

    /// Remove what is no directory.
    async fn remove(&self, _caller: &Caller, _directory: FileId, _name: &[u8]) -> Result<ChangeResult> {
        Err(FileError::ReadOnly)
    }

    /// Value of an extended attribute. None: the file has no attribute of this name.
    async fn extended_attribute(&self, _caller: &Caller, _file: FileId, _name: &[u8]) -> Result<Option<Bytes>> {
        Ok(None)
    }

    /// Names of the extended attributes of a file.
    async fn extended_attribute_names(&self, _caller: &Caller, _file: FileId) -> Result<Vec<Bytes>> {
        Ok(Vec::new())
    }

    /// Set an extended attribute of a file, or remove it (no value). It is durable when this returns.
    ///
    /// # Errors
    /// `NoSpace` where the file, or the share, has as many bytes of attributes as it may.
    async fn set_extended_attribute(
        &self,
        _caller: &Caller,
        _file: FileId,
        _name: &[u8],
        _value: Option<Bytes>,
        _presence: XattrCondition,
    ) -> Result<()> {
        Err(FileError::NotSupported)
    }

    /// Remove an empty directory.
    async fn remove_directory(&self, _caller: &Caller, _directory: FileId, _name: &[u8]) -> Result<ChangeResult> {
        Err(FileError::ReadOnly)
    }

    /// Rename; returns the directories of the old and the new name.
    async fn rename(
        &self,
        _caller: &Caller,
        _directory: FileId,
        _name: &[u8],
        _new_directory: FileId,
        _new_name: &[u8],
    ) -> Result<(ChangeResult, ChangeResult)> {
        Err(FileError::ReadOnly)
    }
}
