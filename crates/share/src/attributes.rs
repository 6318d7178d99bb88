//! Files of a share: identities, attributes, and the rights of a caller.

use std::net::IpAddr;
use std::ops::{BitAnd, BitOr};
use std::time::{Duration, SystemTime};

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

/// Time for which a mount believes names and attributes of a share that others may change.
pub const ATTRIBUTE_TTL: Duration = Duration::from_secs(1);

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
    /// Time for which a mount may believe them.
    pub valid: Duration,
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
