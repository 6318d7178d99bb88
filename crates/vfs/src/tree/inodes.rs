//! Numbers of inodes, and the table from numbers to places.
//!
//! A number is a hash of what it stands for, so it is the same after a remount. Where two things have the same hash the
//! one that comes later gets the next hash.

use std::collections::HashMap;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use super::snapshot::{FileKind, Snapshot};
use super::{CheckedEntry, Directory, InodeLocation, NameFacts, ROOT, State, Tree};
use crate::error::{Result, VfsError};
use crate::version::VersionDigest;

/// Bit that inodes of members of archives have and others do not.
pub const MEMBER_BIT: u64 = 1 << 63;

/// Hash of a name in a directory with this prefix. For a file it includes the version of its object.
pub(super) fn number(endpoint: &str, bucket: &str, prefix: &str, name: &str, facts: &NameFacts, salt: u32) -> u64 {
    let mut hasher = Sha256::new();
    for part in [endpoint, bucket, prefix, name] {
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
    }
    hasher.update(salt.to_le_bytes());
    match facts.kind {
        FileKind::Directory => hasher.update(b"d"),
        FileKind::File => hasher.update(b"f"),
        FileKind::Symlink => hasher.update(b"l"),
    }
    if facts.kind != FileKind::Directory {
        hasher.update(facts.size.to_le_bytes());
        hasher.update(facts.etag.as_bytes());
        if facts.etag.is_empty() {
            hasher.update(facts.modified.to_le_bytes());
        }
    }
    // Above the few numbers that interfaces and kernels reserve, and apart from those of members of archives.
    (VersionDigest(hasher.finalize().into()).short() & !MEMBER_BIT).max(ROOT + 1)
}

impl Tree {
    pub(super) fn number(&self, prefix: &str, name: &str, facts: &NameFacts, salt: u32) -> u64 {
        number(&self.endpoint, &self.bucket, prefix, name, facts, salt)
    }

    /// A number that no other thing has.
    pub(super) fn free_number(&self, state: &State, directory: u32, name: &str, facts: &NameFacts, hash: u64) -> u64 {
        let (mut number, mut salt) = (hash, 0);
        while !state.is_same(number, directory, name) {
            salt += 1;
            number = self.number(&state.directories[directory as usize].prefix, name, facts, salt);
        }
        number
    }

    /// Place of a directory. Its first use makes it a place of its own.
    pub(super) fn directory(&self, inode: u64) -> Result<u32> {
        if let Some(directory) = self.read().places.directory(inode) {
            return Ok(directory);
        }
        let mut state = self.write();
        let (parent, name) = match state.places.get(inode).ok_or(VfsError::Stale)? {
            InodeLocation::Directory(directory) => return Ok(directory),
            InodeLocation::Listed { directory, index } => {
                let snapshot = state.directories.get(directory as usize).and_then(|place| place.snapshot.clone());
                let snapshot = snapshot.ok_or(VfsError::Stale)?;
                let entry = snapshot.entry(index).ok_or(VfsError::Stale)?;
                if entry.kind != FileKind::Directory {
                    return Err(VfsError::NotADirectory);
                }
                (directory, snapshot.name(entry).to_owned())
            }
            InodeLocation::Checked(entry) if entry.facts.kind != FileKind::Directory => {
                return Err(VfsError::NotADirectory);
            }
            InodeLocation::Checked(entry) => (entry.directory, entry.name.to_string()),
        };
        let parent = &state.directories[parent as usize];
        let directory = Directory::new(inode, parent.inode, format!("{}{name}/", parent.prefix).into());
        Ok(state.add_directory(directory))
    }
}

/// Places of inodes, 17 bytes each: of nearly all, the entry of a snapshot.
#[derive(Debug, Default)]
pub(super) struct InodeTable {
    places: HashMap<u64, PackedLocation>,
    checked: HashMap<u64, Arc<CheckedEntry>>,
}

/// An [`InodeLocation`] without its entry: its kind is in two bits of the first number.
#[derive(Debug, Clone, Copy)]
struct PackedLocation(u32, u32);

const DIRECTORY: u32 = 1 << 30;
const CHECKED: u32 = 2 << 30;
const KIND: u32 = 3 << 30;

impl InodeTable {
    pub(super) fn get(&self, inode: u64) -> Option<InodeLocation> {
        let PackedLocation(first, index) = *self.places.get(&inode)?;
        Some(match first & KIND {
            DIRECTORY => InodeLocation::Directory(index),
            CHECKED => InodeLocation::Checked(Arc::clone(self.checked.get(&inode)?)),
            _ => InodeLocation::Listed { directory: first, index },
        })
    }

    /// Place of a directory that has been used.
    pub(super) fn directory(&self, inode: u64) -> Option<u32> {
        let PackedLocation(first, place) = self.places.get(&inode)?;
        (first & KIND == DIRECTORY).then_some(*place)
    }

    pub(super) fn insert(&mut self, inode: u64, location: InodeLocation) {
        let (packed, checked) = match location {
            InodeLocation::Directory(place) => (PackedLocation(DIRECTORY, place), None),
            InodeLocation::Checked(entry) => (PackedLocation(CHECKED, 0), Some(entry)),
            // A thousand million directories need more memory than there is.
            InodeLocation::Listed { directory, index } => (PackedLocation(directory & !KIND, index), None),
        };
        match checked {
            Some(entry) => drop(self.checked.insert(inode, entry)),
            None => drop(self.checked.remove(&inode)),
        }
        self.places.insert(inode, packed);
    }

    fn remove(&mut self, inode: u64) {
        self.places.remove(&inode);
        self.checked.remove(&inode);
    }
}

impl State {
    fn add_directory(&mut self, directory: Directory) -> u32 {
        let inode = directory.inode;
        let place = if let Some(place) = self.vacant.pop() {
            self.directories[place as usize] = directory;
            place
        } else {
            self.directories.push(directory);
            u32::try_from(self.directories.len() - 1).unwrap_or(u32::MAX)
        };
        self.places.insert(inode, InodeLocation::Directory(place));
        place
    }

    /// Returns true when a number is free, or stands for this name already.
    fn is_same(&self, number: u64, directory: u32, name: &str) -> bool {
        let prefix = &self.directories[directory as usize].prefix;
        match self.places.get(number) {
            None => true,
            Some(InodeLocation::Directory(other)) => {
                let whole = &self.directories[other as usize].prefix;
                whole.strip_prefix(&**prefix).and_then(|rest| rest.strip_suffix('/')) == Some(name)
            }
            Some(InodeLocation::Listed { directory: other, index }) => {
                let snapshot = self.directories[other as usize].snapshot.as_ref();
                let entry = snapshot.and_then(|snapshot| Some((snapshot, snapshot.entry(index)?)));
                other == directory && entry.is_none_or(|(snapshot, entry)| snapshot.name(entry) == name)
            }
            Some(InodeLocation::Checked(entry)) => entry.directory == directory && *entry.name == *name,
        }
    }

    /// Forget an inode that a directory no longer shows, with everything below it. The place of a directory that is
    /// used is kept where `keep` is its inode.
    pub(super) fn forget(&mut self, inode: u64) {
        let mut todo = vec![inode];
        while let Some(inode) = todo.pop() {
            let place = self.places.directory(inode);
            self.places.remove(inode);
            let Some(place) = place else { continue };
            let empty = Directory::new(0, 0, Arc::from(""));
            let gone = std::mem::replace(&mut self.directories[place as usize], empty);
            self.vacant.push(place);
            if let Some(snapshot) = gone.snapshot {
                self.by_use.remove(&gone.used);
                self.entries -= snapshot.len();
                todo.extend(snapshot.entries().iter().map(|entry| entry.inode));
            }
            todo.extend(gone.checked.into_values().filter_map(|checked| Some(checked.entry?.inode)));
        }
    }

    /// Drop the snapshot of a directory; directories below it that are in use stay.
    pub(super) fn drop_snapshot(&mut self, directory: u32) {
        let place = &mut self.directories[directory as usize];
        place.listed = None;
        let Some(snapshot) = place.snapshot.take() else { return };
        self.by_use.remove(&place.used);
        self.entries -= snapshot.len();
        for entry in snapshot.entries() {
            self.remove_listed(directory, entry.inode);
        }
    }

    /// Remove an inode from the table if it is an entry of this directory's snapshot.
    pub(super) fn remove_listed(&mut self, directory: u32, inode: u64) {
        if matches!(self.places.get(inode), Some(InodeLocation::Listed { directory: other, .. }) if other == directory)
        {
            self.places.remove(inode);
        }
    }

    /// Put a checked name into the table.
    pub(super) fn add_checked(&mut self, entry: &Arc<CheckedEntry>) {
        if self.places.directory(entry.inode).is_none() {
            self.places.insert(entry.inode, InodeLocation::Checked(Arc::clone(entry)));
        }
    }

    /// Put the entries of a new snapshot into the table. Directories in use keep their places.
    pub(super) fn add_listed(&mut self, directory: u32, snapshot: &Snapshot) {
        for (index, entry) in (0_u32..).zip(snapshot.entries()) {
            if self.places.directory(entry.inode).is_none() {
                self.places.insert(entry.inode, InodeLocation::Listed { directory, index });
            }
        }
    }
}
