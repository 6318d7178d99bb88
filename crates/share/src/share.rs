//! The trait of shares, and the types of its calls.

use std::net::IpAddr;
use std::ops::{BitAnd, BitOr};
use std::time::SystemTime;

use async_trait::async_trait;
use bytes::Bytes;

use crate::error::{FileError, Result};

/// Identity of a file within its share. It outlives versions, renames and restarts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId {
    /// Number of the file; clients see it as its inode.
    pub number: u64,
    /// Distinguishes files that had the same number one after another.
    pub generation: u32,
}

/// Type of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    /// Regular file.
    File,
    /// Directory.
    Directory,
    /// Symbolic link.
    Symlink,
}

/// Attributes of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attributes {
    /// Identity.
    pub file: FileId,
    /// Type.
    pub kind: FileKind,
    /// Permission bits, with those for set-user-id, set-group-id and sticky.
    pub mode: u32,
    /// Names that it has.
    pub links: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Bytes; of a link those of its target.
    pub size: u64,
    /// Bytes that it takes up.
    pub used: u64,
    /// Time of the last access.
    pub accessed: SystemTime,
    /// Time of the last change of its bytes or entries.
    pub modified: SystemTime,
    /// Time of the last change of any kind.
    pub changed: SystemTime,
}

impl Attributes {
    /// Rights of a caller by owner, group and permission bits. Root has all, but executes only what anyone may.
    pub fn access(&self, caller: &Caller) -> Access {
        let is_directory = self.kind == FileKind::Directory;
        let bits = if caller.uid == 0 {
            let executes = is_directory || self.mode & 0o111 != 0;
            0o6 | u32::from(executes)
        } else if caller.uid == self.uid {
            self.mode >> 6
        } else if caller.is_in_group(self.gid) {
            self.mode >> 3
        } else {
            self.mode
        };
        let mut access = Access::NONE;
        if bits & 0o4 != 0 {
            access = access | Access::READ;
        }
        if bits & 0o2 != 0 {
            access = access | Access::MODIFY | Access::EXTEND;
        }
        if bits & 0o2 != 0 && is_directory {
            access = access | Access::DELETE;
        }
        if bits & 0o1 != 0 {
            access = access | if is_directory { Access::LOOKUP } else { Access::EXECUTE };
        }
        access
    }
}

/// Rights on a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access(u32);

impl Access {
    /// No right.
    pub const NONE: Self = Self(0);
    /// Read a file or list a directory.
    pub const READ: Self = Self(1 << 0);
    /// Look up a name in a directory.
    pub const LOOKUP: Self = Self(1 << 1);
    /// Rewrite a file, or change entries of a directory.
    pub const MODIFY: Self = Self(1 << 2);
    /// Append to a file, or add entries to a directory.
    pub const EXTEND: Self = Self(1 << 3);
    /// Remove an entry of a directory.
    pub const DELETE: Self = Self(1 << 4);
    /// Run a file.
    pub const EXECUTE: Self = Self(1 << 5);
    /// The rights that a read-only share can grant.
    pub const READ_ONLY: Self = Self(Self::READ.0 | Self::LOOKUP.0 | Self::EXECUTE.0);

    /// True when all rights of `other` are among these.
    pub const fn includes(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitAnd for Access {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

impl BitOr for Access {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// The user of a client, after squash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// Address of the client.
    pub address: IpAddr,
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Further groups.
    pub groups: Vec<u32>,
}

impl Caller {
    /// True when the user belongs to this group.
    pub fn is_in_group(&self, gid: u32) -> bool {
        self.gid == gid || self.groups.contains(&gid)
    }
}

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

/// Facts by which a client recognizes that a file has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChangeStamp {
    /// Bytes.
    pub size: u64,
    /// Time of the last change of its bytes or entries.
    pub modified: SystemTime,
    /// Time of the last change of any kind.
    pub changed: SystemTime,
}

impl From<&Attributes> for ChangeStamp {
    fn from(attributes: &Attributes) -> Self {
        Self { size: attributes.size, modified: attributes.modified, changed: attributes.changed }
    }
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

/// A time to set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeUpdate {
    /// The time of this machine.
    Now,
    /// A time that the client states.
    At(SystemTime),
}

/// Facts to set; None leaves one as it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SetAttributes {
    /// Permission bits.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Bytes.
    pub size: Option<u64>,
    /// Time of the last access.
    pub accessed: Option<TimeUpdate>,
    /// Time of the last change of the bytes.
    pub modified: Option<TimeUpdate>,
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
