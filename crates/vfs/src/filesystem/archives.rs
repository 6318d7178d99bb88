//! Archives among the files: `x.tar` is also the folder `x.tar.d`, and a single archive can be the root.
//!
//! The folder of an archive is found by its name and not listed beside it: a walk over a bucket does not read every
//! archive. A real folder of that name comes first. Members have inodes of their own, and are read as ranges of the
//! archive.

use std::sync::Arc;
use std::time::SystemTime;

use super::{FileSystem, Handle};
use crate::error::{Result, VfsError};
use crate::reader::{ReadHandle, Slices};
use crate::tar::{ArchiveContents, MemberNodeKind, MemberPiece, TarFolder, TarFolders, archive_name};
use crate::tree::{Attributes, DirectoryEntry, FileKind, Lookup, NEVER, ROOT};
use crate::version::ObjectVersion;

/// The archives of a file system.
#[derive(Debug)]
pub struct Archives {
    folders: Arc<TarFolders>,
    /// The archive whose folder is the root, if one is.
    root: Option<Arc<TarFolder>>,
}

impl Archives {
    /// Archives below their own names.
    pub fn new(folders: Arc<TarFolders>) -> Self {
        Self { folders, root: None }
    }

    /// One archive as the root. Reads its list of members.
    ///
    /// # Errors
    /// `BadArchive` for an object that is no sound archive.
    pub async fn rooted(folders: Arc<TarFolders>, archive: &ObjectVersion, modified: SystemTime) -> Result<Self> {
        let root = folders.folder(archive);
        root.set_origin(ROOT, modified);
        folders.contents(&root).await?;
        Ok(Self { folders, root: Some(root) })
    }
}

/// An open member.
#[derive(Debug)]
pub(super) struct MemberHandle {
    contents: Arc<ArchiveContents>,
    node: u32,
}

impl FileSystem {
    /// Look a name up in a directory.
    ///
    /// # Errors
    /// When the parent is unknown or no directory, or a request fails. An absent name is no error.
    pub async fn lookup(&self, parent: u64, name: &str) -> Result<Lookup> {
        if let Some((folder, node)) = self.member(parent) {
            return self.lookup_member(&folder, node, name).await;
        }
        let found = self.learned_lookup(parent, name).await?;
        match (archive_name(name), &found.attributes, &self.archives) {
            (Some(archive), None, Some(archives)) => {
                let beside = self.learned_lookup(parent, archive).await?;
                let Some(file) = beside.attributes.filter(|found| found.kind == FileKind::File) else {
                    return Ok(found);
                };
                let folder = archives.folders.folder(&self.tree.version(file.inode)?);
                folder.set_origin(file.inode, file.modified);
                let attributes = Attributes { valid: beside.valid, ..folder_attributes(&folder, folder.inode(0)) };
                Ok(Lookup { attributes: Some(attributes), valid: beside.valid })
            }
            _ => Ok(found),
        }
    }

    async fn learned_lookup(&self, parent: u64, name: &str) -> Result<Lookup> {
        let found = self.tree.lookup(parent, name).await?;
        let Some(attributes) = found.attributes else { return Ok(found) };
        match self.tree.learned(attributes).await {
            Ok(learned) => Ok(Lookup { valid: learned.valid, attributes: Some(learned) }),
            Err(VfsError::NotFound) => Ok(Lookup { attributes: None, valid: found.valid }),
            Err(error) => Err(error),
        }
    }

    /// Entries of a directory after `cookie` (0: from the beginning), at most `most`. The first two are `.` and `..`.
    /// Their kinds are not guesses; other attributes may be.
    ///
    /// # Errors
    /// When the inode is unknown or no directory, or the listing fails.
    pub async fn read_directory(&self, inode: u64, cookie: u64, most: usize) -> Result<Vec<DirectoryEntry>> {
        let Some((folder, number)) = self.member(inode) else {
            let entries = self.tree.read_directory(inode, cookie, most).await?;
            let guesses = entries.iter().map(|entry| &entry.attributes).filter(|found| !found.has_kind());
            let guesses: Vec<u64> = guesses.map(|found| found.inode).collect();
            if guesses.is_empty() {
                return Ok(entries);
            }
            self.tree.learn_all(guesses).await?;
            let entries = self.tree.read_directory(inode, cookie, most).await?;
            let are_known = entries.iter().all(|entry| entry.attributes.has_kind());
            return if are_known { Ok(entries) } else { Err(VfsError::TryLater) };
        };
        let contents = self.contents(&folder).await?;
        let node = contents.node(number).ok_or(VfsError::Stale)?;
        if node.kind() != MemberNodeKind::Directory {
            return Err(VfsError::NotADirectory);
        }
        let mut entries = Vec::new();
        for (dot_cookie, name, number) in [(1, ".", number), (2, "..", node.parent())] {
            if cookie < dot_cookie {
                let attributes = self.attributes_of(&folder, &contents, number)?;
                entries.push(DirectoryEntry { name: name.to_owned(), cookie: dot_cookie, attributes });
            }
        }
        let from = u32::try_from(cookie.saturating_sub(2)).unwrap_or(u32::MAX);
        for (place, child) in (u64::from(from) + 3..).zip(node.children(from)) {
            if entries.len() >= most {
                break;
            }
            let attributes = self.attributes_of(&folder, &contents, child.number())?;
            entries.push(DirectoryEntry { name: child.name().to_owned(), cookie: place, attributes });
        }
        Ok(entries)
    }

    /// The archive that an inode belongs to, and its node there.
    pub(super) fn member(&self, inode: u64) -> Option<(Arc<TarFolder>, u32)> {
        let archives = self.archives.as_ref()?;
        match &archives.root {
            Some(root) if inode == ROOT => Some((Arc::clone(root), 0)),
            _ => archives.folders.find(inode),
        }
    }

    /// Attributes of a member. The list of members must have been read, as it was when its inode was given out.
    pub(super) fn member_attributes(&self, folder: &TarFolder, node: u32) -> Result<Attributes> {
        match folder.loaded() {
            Some(contents) => self.attributes_of(folder, &contents, node),
            None if node == 0 => Ok(folder_attributes(folder, folder.inode(0))),
            None => Err(VfsError::Stale),
        }
    }

    /// Open a member for reading.
    pub(super) async fn open_member(&self, inode: u64, folder: &TarFolder, number: u32) -> Result<Handle> {
        let contents = self.contents(folder).await?;
        match contents.node(number).ok_or(VfsError::Stale)?.kind() {
            MemberNodeKind::Directory => return Err(VfsError::IsADirectory),
            MemberNodeKind::Symlink => return Err(VfsError::Invalid),
            MemberNodeKind::File => {}
        }
        let read = ReadHandle::new(Arc::clone(folder.object()));
        let checked = match self.validate(&read).await {
            Ok(()) => self.folders()?.check(folder, number).await,
            stale => stale,
        };
        self.or_replaced(folder, checked).await?;
        Ok(Handle { read, inode, member: Some(MemberHandle { contents, node: number }) })
    }

    /// Read from an open member.
    pub(super) async fn read_member(
        &self,
        handle: &Handle,
        member: &MemberHandle,
        offset: u64,
        length: usize,
    ) -> Result<Slices> {
        let node = member.contents.node(member.node).ok_or(VfsError::Stale)?;
        if let Some((folder, _)) = self.member(handle.inode) {
            let wanted = node.size().saturating_sub(offset).min(length as u64);
            self.folders()?.note_read(&folder, wanted);
        }
        let pieces = node.pieces(offset, length as u64);
        if let [MemberPiece::Stored { offset, len }] = pieces.as_slice() {
            return self.reader.read(&handle.read, *offset, usize::try_from(*len).unwrap_or(usize::MAX)).await;
        }
        let mut slices = Slices::default();
        for piece in pieces {
            match piece {
                MemberPiece::Zeros(len) => slices.push_zeros(len),
                MemberPiece::Stored { offset, len } => {
                    let len = usize::try_from(len).unwrap_or(usize::MAX);
                    slices.push_copy(&self.reader.read(&handle.read, offset, len).await?);
                }
            }
        }
        Ok(slices)
    }

    /// The target of a link in an archive.
    pub(super) fn member_target(folder: &TarFolder, number: u32) -> Result<Vec<u8>> {
        let contents = folder.loaded().ok_or(VfsError::Stale)?;
        let node = contents.node(number).ok_or(VfsError::Stale)?;
        if node.kind() != MemberNodeKind::Symlink {
            return Err(VfsError::Invalid);
        }
        Ok(node.target().to_vec())
    }

    /// The members of an archive that do not appear, as text; None for what is not the folder of an archive.
    pub(super) async fn refused_text(&self, inode: u64) -> Result<Option<String>> {
        let Some((folder, 0)) = self.member(inode) else { return Ok(None) };
        let contents = self.contents(&folder).await?;
        let (count, named) = contents.refused();
        let lines = named.iter().map(|member| format!("\n{}: {}", member.name.escape_debug(), member.reason));
        Ok(Some(lines.fold(count.to_string(), |text, line| text + &line)))
    }

    async fn lookup_member(&self, folder: &TarFolder, parent: u32, name: &str) -> Result<Lookup> {
        let contents = self.contents(folder).await?;
        let node = contents.node(parent).ok_or(VfsError::Stale)?;
        if node.kind() != MemberNodeKind::Directory {
            return Err(VfsError::NotADirectory);
        }
        let child = node.child(name).map(|child| self.attributes_of(folder, &contents, child.number()));
        Ok(Lookup { attributes: child.transpose()?, valid: NEVER })
    }

    async fn contents(&self, folder: &TarFolder) -> Result<Arc<ArchiveContents>> {
        let contents = self.folders()?.contents(folder).await;
        self.or_replaced(folder, contents).await
    }

    /// The result; where it is that the archive was replaced, its name shows the new one from its next lookup on.
    async fn or_replaced<T>(&self, folder: &TarFolder, result: Result<T>) -> Result<T> {
        if matches!(result, Err(VfsError::Stale))
            && let Some(file) = folder.origin().filter(|inode| *inode != ROOT)
        {
            // Unknown meanwhile: then its name is looked up again in any case.
            let _ = self.tree.replaced(file).await;
        }
        result
    }

    fn folders(&self) -> Result<&Arc<TarFolders>> {
        self.archives.as_ref().map(|archives| &archives.folders).ok_or(VfsError::Stale)
    }

    fn attributes_of(&self, folder: &TarFolder, contents: &ArchiveContents, number: u32) -> Result<Attributes> {
        let node = contents.node(number).ok_or(VfsError::Stale)?;
        let is_root = self
            .archives
            .as_ref()
            .and_then(|archives| archives.root.as_deref())
            .is_some_and(|root| number == 0 && std::ptr::eq(root, folder));
        let inode = if is_root { ROOT } else { folder.inode(number) };
        let mut attributes = folder_attributes(folder, inode);
        attributes.kind = match node.kind() {
            MemberNodeKind::Directory => FileKind::Directory,
            MemberNodeKind::File => FileKind::File,
            MemberNodeKind::Symlink => FileKind::Symlink,
        };
        attributes.size = node.size();
        attributes.modified = node.modified().unwrap_or(attributes.modified);
        attributes.permissions = node.permissions();
        (attributes.uid, attributes.gid) = node.owner().unzip();
        Ok(attributes)
    }
}

/// Attributes of the folder of an archive, without its list of members. They stay valid, since an archive never
/// changes.
fn folder_attributes(folder: &TarFolder, inode: u64) -> Attributes {
    Attributes {
        inode,
        kind: FileKind::Directory,
        size: 0,
        modified: folder.modified(),
        permissions: None,
        uid: None,
        gid: None,
        is_known: true,
        valid: NEVER,
    }
}
