//! Files, folders and links that were made or changed here.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use seqferry_share::{ATTRIBUTE_TTL, Attributes, FileId, FileKind};

use super::extents::Extents;
use super::upload_outcome::FileWriter;

/// The object that a file was before it was changed here, or the prefix that a folder was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BaseObject {
    /// Path below the share, without a slash at its end.
    pub(crate) path: Box<str>,
    /// The version, and its bytes. Empty for a folder.
    pub(crate) etag: Box<str>,
    pub(crate) size: u64,
    /// Bytes of it that show where nothing was written: truncation makes them fewer.
    pub(crate) visible: u64,
}

/// Bytes of a file. Durable ranges survive a loss of power.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FileData {
    pub(crate) size: u64,
    /// Ranges whose bytes are in the data file.
    pub(crate) written: Extents,
    pub(crate) durable_size: u64,
    pub(crate) durable: Extents,
    /// Ranges that were written since the last commit began.
    pub(crate) unsynced: Extents,
}

impl FileData {
    /// Cut off or extend; bytes that were not written are zeros.
    pub(crate) fn resize(&mut self, size: u64) {
        (self.size, self.durable_size) = (size, size);
        for extents in [&mut self.written, &mut self.durable, &mut self.unsynced] {
            extents.cut(size);
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NodeContent {
    File(FileData),
    Directory,
    Link(Bytes),
}

/// Facts that were stated, by a caller or by the object: the others are defaults of the share.
pub(crate) const STATED_MODE: u8 = 1;
pub(crate) const STATED_UID: u8 = 2;
pub(crate) const STATED_GID: u8 = 4;
pub(crate) const STATED_MODIFIED: u8 = 8;
/// Facts that are as the object below has them: its metadata stay as they are. The bits of the others are those above.
pub(crate) const AS_BASE: u32 = 4;
pub(crate) const ALL_AS_BASE: u8 = (STATED_MODE | STATED_UID | STATED_GID | STATED_MODIFIED) << AS_BASE;

/// A file, folder or link. Times are nanoseconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) file: FileId,
    pub(crate) parent: u64,
    pub(crate) name: Box<str>,
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) accessed: u64,
    pub(crate) modified: u64,
    pub(crate) changed: u64,
    /// The value of `changed` with which the bucket has the file as it is. 0: it never had it.
    pub(crate) uploaded: u64,
    pub(crate) stated: u8,
    /// Number of the call that made the file exclusively.
    pub(crate) exclusive: Option<[u8; 8]>,
    /// The caller who changed it last. None: the bucket had it as it is, or an earlier version of this program wrote
    /// it.
    pub(crate) writer: Option<FileWriter>,
    pub(crate) base: Option<BaseObject>,
    pub(crate) content: NodeContent,
}

impl Node {
    pub(crate) fn kind(&self) -> FileKind {
        match self.content {
            NodeContent::File(_) => FileKind::File,
            NodeContent::Directory => FileKind::Directory,
            NodeContent::Link(_) => FileKind::Symlink,
        }
    }

    /// True when the bucket does not have the file as it is. Of a folder: when it was made here.
    pub(crate) fn is_changed(&self) -> bool {
        match self.content {
            NodeContent::File(_) | NodeContent::Link(_) => self.base.is_none() || self.uploaded != self.changed,
            NodeContent::Directory => self.base.is_none(),
        }
    }

    /// True when all bytes are those of the object below.
    pub(crate) fn is_as_base(&self) -> bool {
        let Some(base) = &self.base else { return false };
        match &self.content {
            NodeContent::File(data) => data.written.is_empty() && data.size == base.size && base.visible == base.size,
            // A link never changes its target.
            NodeContent::Link(_) => true,
            NodeContent::Directory => false,
        }
    }

    /// Ranges of a file in part rewritten here whose bytes are those of the object below. None of a file that is as
    /// that object.
    pub(crate) fn gaps(&self) -> Vec<(u64, u64)> {
        let (Some(base), Some(data)) = (&self.base, self.data()) else { return Vec::new() };
        if self.is_as_base() {
            return Vec::new();
        }
        let below = data.written.pieces(0, data.size.min(base.visible));
        below.into_iter().filter(|(_, _, is_written)| !is_written).map(|(start, end, _)| (start, end)).collect()
    }

    /// The bytes of a file.
    pub(crate) fn data(&self) -> Option<&FileData> {
        match &self.content {
            NodeContent::File(data) => Some(data),
            NodeContent::Directory | NodeContent::Link(_) => None,
        }
    }

    pub(crate) fn data_mut(&mut self) -> Option<&mut FileData> {
        match &mut self.content {
            NodeContent::File(data) => Some(data),
            NodeContent::Directory | NodeContent::Link(_) => None,
        }
    }

    pub(crate) fn attributes(&self) -> Attributes {
        let (size, links) = match &self.content {
            NodeContent::File(data) => (data.size, 1),
            NodeContent::Directory => (0, 2),
            NodeContent::Link(target) => (target.len() as u64, 1),
        };
        Attributes {
            file: self.file,
            kind: self.kind(),
            mode: self.mode,
            links,
            uid: self.uid,
            gid: self.gid,
            size,
            used: size,
            accessed: system_time(self.accessed),
            modified: system_time(self.modified),
            changed: system_time(self.changed),
            valid: ATTRIBUTE_TTL,
        }
    }

    /// Facts have changed. Clients tell changes apart by this time: it always moves.
    pub(crate) fn touch(&mut self) {
        self.changed = now().max(self.changed + 1);
    }

    /// Bytes or entries have changed.
    pub(crate) fn touch_bytes(&mut self) {
        self.touch();
        self.modified = self.changed;
        self.state(STATED_MODIFIED);
    }

    /// Facts are stated here from now on, whatever the object below has.
    pub(crate) fn state(&mut self, facts: u8) {
        self.stated = (self.stated | facts) & !(facts << AS_BASE);
    }

    /// True when a fact is as the object below has it.
    pub(crate) fn is_fact_as_base(&self, fact: u8) -> bool {
        self.base.is_some() && self.stated & fact << AS_BASE != 0
    }
}

pub(crate) fn now() -> u64 {
    nanoseconds(SystemTime::now())
}

/// Times before 1970 become 1970.
pub(crate) fn nanoseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

pub(crate) fn system_time(nanoseconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_nanos(nanoseconds)
}
