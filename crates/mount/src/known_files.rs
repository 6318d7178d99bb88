//! Files of a share by the inodes that the kernel knows: their identities, lookup counts and open handles.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::UNIX_EPOCH;

use fuser::{FileAttr, FileType, INodeNo};
use seqferry_gateway::REMOVED;
use seqferry_share::{Attributes, FileId, FileKind};

/// A size of blocks that copying programs go by.
pub(crate) const BLOCK_SIZE: u32 = 128 << 10;

/// See the module. Memory grows with what the kernel keeps, which it bounds.
pub(crate) struct KnownFiles {
    root: FileId,
    /// An inode is the identity of its file, and nothing else has to be known.
    is_identity: bool,
    files: Mutex<HashMap<u64, KnownFile>>,
    /// Names at the top of the share that removed files have.
    removed: Mutex<HashSet<String>>,
}

#[derive(Default)]
struct KnownFile {
    generation: u32,
    /// References of the kernel.
    lookups: u64,
    /// Open handles.
    open: u64,
    /// Name at the top of the share of a file that was removed while it was open.
    hidden: Option<String>,
}

impl KnownFiles {
    pub(crate) fn new(root: FileId, is_identity: bool) -> Self {
        Self { root, is_identity, files: Mutex::default(), removed: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, KnownFile>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The file of an inode. None for an inode that the kernel does not know.
    pub(crate) fn file(&self, inode: INodeNo) -> Option<FileId> {
        if inode == INodeNo::ROOT {
            return Some(self.root);
        }
        if self.is_identity {
            return Some(FileId { number: inode.0, generation: 0 });
        }
        self.lock().get(&inode.0).map(|known| FileId { number: inode.0, generation: known.generation })
    }

    /// Count a reference of the kernel to a file.
    pub(crate) fn add_lookup(&self, file: FileId) {
        if self.is_identity {
            return;
        }
        let mut files = self.lock();
        let known = files.entry(file.number).or_default();
        known.generation = file.generation;
        known.lookups += 1;
    }

    /// The kernel gives references back.
    pub(crate) fn forget(&self, inode: INodeNo, lookups: u64) {
        let mut files = self.lock();
        let Some(known) = files.get_mut(&inode.0) else { return };
        known.lookups = known.lookups.saturating_sub(lookups);
        if known.lookups == 0 && known.open == 0 {
            files.remove(&inode.0);
        }
    }

    pub(crate) fn open(&self, file: FileId) {
        if self.is_identity {
            return;
        }
        let mut files = self.lock();
        let known = files.entry(file.number).or_default();
        known.generation = file.generation;
        known.open += 1;
    }

    /// A handle is closed. Returns the name to remove, if it was the last one of a file that was removed meanwhile.
    pub(crate) fn close(&self, inode: INodeNo) -> Option<String> {
        let mut files = self.lock();
        let known = files.get_mut(&inode.0)?;
        known.open = known.open.saturating_sub(1);
        if known.open > 0 {
            return None;
        }
        let hidden = known.hidden.take();
        if known.lookups == 0 {
            files.remove(&inode.0);
        }
        hidden
    }

    pub(crate) fn is_open(&self, file: FileId) -> bool {
        self.lock().get(&file.number).is_some_and(|known| known.open > 0)
    }

    /// A removed file has this name at the top of the share until it is closed. False: it was closed just now.
    pub(crate) fn hide(&self, file: FileId, name: &str) -> bool {
        let mut files = self.lock();
        let Some(known) = files.get_mut(&file.number).filter(|known| known.open > 0) else { return false };
        known.hidden = Some(name.to_owned());
        true
    }

    /// Have a name at the top of the share shown to no program, or to all again.
    pub(crate) fn set_shown(&self, name: &str, is_shown: bool) {
        let mut removed = self.removed.lock().unwrap_or_else(PoisonError::into_inner);
        if is_shown {
            removed.remove(name);
        } else {
            removed.insert(name.to_owned());
        }
    }

    /// True for a name in a directory that no program sees.
    pub(crate) fn is_hidden(&self, directory: FileId, name: &[u8]) -> bool {
        let is_removed = |name| self.removed.lock().unwrap_or_else(PoisonError::into_inner).contains(name);
        directory == self.root
            && name.starts_with(REMOVED.as_bytes())
            && std::str::from_utf8(name).is_ok_and(is_removed)
    }

    pub(crate) fn root(&self) -> FileId {
        self.root
    }

    fn is_removed(&self, file: FileId) -> bool {
        !self.is_identity && self.lock().get(&file.number).is_some_and(|known| known.hidden.is_some())
    }

    /// The entry of a name that does not exist: inode 0, believed for a while.
    pub(crate) fn absent() -> FileAttr {
        let at = UNIX_EPOCH;
        let (ino, kind) = (INodeNo(0), FileType::RegularFile);
        FileAttr {
            ino,
            size: 0,
            blocks: 0,
            atime: at,
            mtime: at,
            ctime: at,
            crtime: at,
            kind,
            perm: 0,
            nlink: 0,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: BLOCK_SIZE,
            flags: 0,
        }
    }

    /// Facts in the form of the kernel. A removed file that is open has no link: programs tell it so from others.
    pub(crate) fn facts(&self, found: &Attributes) -> FileAttr {
        let ino = if found.file == self.root { INodeNo::ROOT } else { INodeNo(found.file.number) };
        FileAttr {
            ino,
            size: found.size,
            blocks: found.used.div_ceil(512),
            atime: found.accessed,
            mtime: found.modified,
            ctime: found.changed,
            crtime: found.modified,
            kind: kind_of(found.kind),
            perm: u16::try_from(found.mode & 0o7777).unwrap_or(0),
            nlink: if self.is_removed(found.file) { 0 } else { found.links },
            uid: found.uid,
            gid: found.gid,
            rdev: 0,
            blksize: BLOCK_SIZE,
            flags: 0,
        }
    }
}

const fn kind_of(kind: FileKind) -> FileType {
    match kind {
        FileKind::File => FileType::RegularFile,
        FileKind::Directory => FileType::Directory,
        FileKind::Symlink => FileType::Symlink,
    }
}

/// A name for a removed file, of which no other file has the number.
pub(crate) fn hidden_name(file: FileId) -> String {
    format!("{REMOVED}{:016x}{:08x}", file.number, file.generation)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: FileId = FileId { number: 77, generation: 0 };
    const FILE: FileId = FileId { number: 5, generation: 3 };

    #[test]
    fn the_root_is_the_first_inode_whatever_its_number() {
        let known = KnownFiles::new(ROOT, false);
        assert_eq!(known.file(INodeNo::ROOT), Some(ROOT));
        assert_eq!(known.file(INodeNo(77)), None, "of which the kernel was never told");
    }

    #[test]
    fn a_file_is_known_until_the_kernel_forgets_it_and_it_is_closed() {
        let known = KnownFiles::new(ROOT, false);
        known.add_lookup(FILE);
        known.add_lookup(FILE);
        known.open(FILE);
        known.forget(INodeNo(5), 2);
        assert_eq!(known.file(INodeNo(5)), Some(FILE), "open");
        assert_eq!(known.close(INodeNo(5)), None);
        assert_eq!(known.file(INodeNo(5)), None);
    }

    #[test]
    fn the_last_handle_of_a_removed_file_tells_the_name_to_remove() {
        let known = KnownFiles::new(ROOT, false);
        known.add_lookup(FILE);
        known.open(FILE);
        known.open(FILE);
        let name = hidden_name(FILE);
        known.set_shown(&name, false);
        assert!(known.hide(FILE, &name));
        assert!(known.is_hidden(ROOT, name.as_bytes()) && !known.is_hidden(FILE, name.as_bytes()));
        assert!(!known.is_hidden(ROOT, hidden_name(ROOT).as_bytes()), "a file of a program");
        assert_eq!(known.close(INodeNo(5)), None, "the other handle still reads it");
        assert_eq!(known.close(INodeNo(5)), Some(name.clone()));
        assert!(!known.is_open(FILE) && !known.hide(FILE, &name));
        known.set_shown(&name, true);
        assert!(!known.is_hidden(ROOT, name.as_bytes()));
    }
}
