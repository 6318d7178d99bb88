//! Changes of names: create, remove and rename. Each is one record of the journal.

use bytes::Bytes;
use seqferry_share::{
    Access, Attributes, Caller, ChangeResult, ChangeStamp, CreateMode, CreateResult, FileError, FileId, FileKind,
    Result, SetAttributes,
};
use seqferry_vfs::VersionPin;

use super::Inner;
use super::checks::{LONGEST_KEY, apply, check, check_removal, check_set, checked_name, inherited_group, is_refused};
use super::find::{BucketEntry, ChildEntry, NodeGuard, ParentDirectory};
use crate::file_table::ROOT;
use crate::journal::Disk;
use crate::overlay::{
    Change, FileData, FileLocation, MADE_HERE, Node, NodeContent, Overlay, OverlayEntry, STATED_GID, STATED_MODE,
    STATED_MODIFIED, STATED_UID, join, now,
};
use crate::share::status;

/// A file, folder or link that is to be made.
struct NewEntry<'a> {
    name: &'a str,
    content: NodeContent,
    mode: u32,
    set: SetAttributes,
    exclusive: Option<[u8; 8]>,
}

/// A rename, with what has the old and the new name.
struct RenameRequest<'a> {
    old: (&'a ParentDirectory, &'a str),
    new: (&'a ParentDirectory, &'a str),
    source: ChildEntry,
    target: ChildEntry,
}

fn untouched(attributes: &Attributes) -> ChangeResult {
    ChangeResult { before: Some(ChangeStamp::from(attributes)), after: Some(attributes.clone()) }
}

/// Entries of a directory have changed.
fn touched(directory: &mut Node) -> ChangeResult {
    let before = Some(ChangeStamp::from(&directory.attributes()));
    directory.touch_bytes();
    ChangeResult { before, after: Some(directory.attributes()) }
}

/// True when a file may be in the bucket, though the journal does not say so yet.
fn is_being_written(overlay: &Overlay, child: &ChildEntry) -> bool {
    matches!(child, ChildEntry::Node(node) if overlay.uploads().contains_key(&node.number))
}

impl<D: Disk> Inner<D> {
    pub(super) async fn create(
        &self,
        caller: &Caller,
        dir: FileId,
        name: &[u8],
        how: CreateMode,
    ) -> Result<CreateResult> {
        let parent = self.directory(caller, dir, Access::LOOKUP).await?;
        let (set, exclusive) = match how {
            CreateMode::Unchecked(set) | CreateMode::Guarded(set) => (set, None),
            CreateMode::Exclusive(number) => (SetAttributes::default(), Some(number)),
        };
        let name = checked_name(name)?;
        // A name that comes into being meanwhile is found by the second look.
        for _ in 0..2 {
            match self.child(&parent, name).await? {
                ChildEntry::Absent => {}
                child => return self.created_before(caller, &parent, &child, how).await,
            }
            let content = NodeContent::File(FileData::default());
            let new = NewEntry { name, content, mode: self.defaults.file_mode, set, exclusive };
            match self.make(caller, &parent, new).await {
                Err(FileError::Exists) => {}
                made => return made,
            }
        }
        Err(FileError::Exists)
    }

    /// A file that is to be created is there.
    async fn created_before(
        &self,
        caller: &Caller,
        parent: &ParentDirectory,
        child: &ChildEntry,
        how: CreateMode,
    ) -> Result<CreateResult> {
        let (attributes, number) = self
            .overlay
            .read(|overlay| {
                let number = match child {
                    ChildEntry::Node(node) => overlay.node(node.number).and_then(|node| node.exclusive),
                    ChildEntry::Absent | ChildEntry::Bucket(..) => None,
                };
                self.facts(overlay, child).map(|attributes| (attributes, number))
            })
            .ok_or(FileError::Stale)?;
        let directory = ChangeResult {
            before: Some(ChangeStamp::from(&parent.attributes)),
            after: Some(parent.attributes.clone()),
        };
        match how {
            CreateMode::Exclusive(mine) if number == Some(mine) => {
                // The first call may still wait for the disk.
                self.overlay.wait_until_durable().await?;
                Ok(CreateResult { attributes, directory })
            }
            CreateMode::Unchecked(set) if attributes.kind == FileKind::File => {
                let set = SetAttributes { size: set.size, ..SetAttributes::default() };
                let changed = self.set(caller, attributes.file, set, None).await?;
                Ok(CreateResult { attributes: changed.after.unwrap_or(attributes), directory })
            }
            CreateMode::Exclusive(_) | CreateMode::Guarded(_) | CreateMode::Unchecked(_) => Err(FileError::Exists),
        }
    }

    pub(super) async fn make_directory(
        &self,
        caller: &Caller,
        dir: FileId,
        name: &[u8],
        set: SetAttributes,
    ) -> Result<CreateResult> {
        let parent = self.directory(caller, dir, Access::LOOKUP).await?;
        let name = checked_name(name)?;
        let set = SetAttributes { size: None, ..set };
        let new = NewEntry {
            name,
            content: NodeContent::Directory,
            mode: self.defaults.directory_mode,
            set,
            exclusive: None,
        };
        self.make_absent(caller, &parent, new).await
    }

    pub(super) async fn make_link(
        &self,
        caller: &Caller,
        dir: FileId,
        name: &[u8],
        target: Bytes,
        set: SetAttributes,
    ) -> Result<CreateResult> {
        let parent = self.directory(caller, dir, Access::LOOKUP).await?;
        let name = checked_name(name)?;
        let set = SetAttributes { size: None, mode: None, ..set };
        let new = NewEntry { name, content: NodeContent::Link(target), mode: 0o777, set, exclusive: None };
        self.make_absent(caller, &parent, new).await
    }

    async fn make_absent(&self, caller: &Caller, parent: &ParentDirectory, new: NewEntry<'_>) -> Result<CreateResult> {
        match self.child(parent, new.name).await? {
            ChildEntry::Absent => self.make(caller, parent, new).await,
            ChildEntry::Node(_) | ChildEntry::Bucket(..) => Err(FileError::Exists),
        }
    }

    /// Make what the bucket does not have.
    async fn make(&self, caller: &Caller, parent: &ParentDirectory, new: NewEntry<'_>) -> Result<CreateResult> {
        self.check_disk()?;
        check(caller, &parent.attributes, Access::MODIFY)?;
        if self.data.is_full() {
            // The rest of the disk is for the journal, which must be able to record uploads and removals.
            return Err(FileError::TryLater);
        }
        self.overlay.change(|overlay| self.made(overlay, caller, parent, new)).await
    }

    /// Changes that make a file, folder or link.
    fn made(
        &self,
        overlay: &Overlay,
        caller: &Caller,
        parent: &ParentDirectory,
        new: NewEntry<'_>,
    ) -> Result<(Vec<Change>, CreateResult)> {
        let mut directory = self.directory_now(overlay, parent)?;
        if matches!(overlay.entry(parent.file.number, new.name), Some(OverlayEntry::Node(_))) {
            return Err(FileError::Exists);
        }
        let is_directory = new.content == NodeContent::Directory;
        if is_refused(parent.file.number, new.name, is_directory) {
            return Err(FileError::AccessDenied);
        }
        self.check_key(overlay, parent, new.name, usize::from(is_directory))?;
        let (number, next) = overlay.free_number(&self.file_table);
        let (gid, inherited) = inherited_group(&directory.attributes(), caller);
        let now = now();
        let mut node = Node {
            file: FileId { number, generation: MADE_HERE },
            parent: parent.file.number,
            name: new.name.into(),
            mode: new.mode,
            uid: caller.uid,
            gid,
            accessed: now,
            modified: now,
            changed: now,
            uploaded: 0,
            stated: STATED_MODE | STATED_UID | STATED_GID | STATED_MODIFIED,
            exclusive: new.exclusive,
            writer: Some(caller.into()),
            base: None,
            content: new.content,
        };
        check_set(caller, &node.attributes(), &new.set)?;
        apply(&mut node, caller, &new.set);
        if is_directory {
            node.mode |= inherited;
        }
        if let (Some(size), Some(data)) = (new.set.size, node.data_mut()) {
            data.resize(size);
        }
        let attributes = node.attributes();
        let around = touched(&mut directory);
        let put = |node| Change::Put(Box::new(node));
        Ok((vec![Change::Next(next), put(directory), put(node)], CreateResult { attributes, directory: around }))
    }

    /// The node of a directory that a call changes, if the directory is still what it was when the call began.
    fn directory_now(&self, overlay: &Overlay, parent: &ParentDirectory) -> Result<Node> {
        match overlay.locate(&self.file_table, parent.file)? {
            FileLocation::Node(number) => overlay.node(number).cloned().ok_or(FileError::Stale),
            FileLocation::Bucket(path) if Some(&path) == parent.prefix.as_ref() => {
                let (holder, name) = self.place(parent.file)?;
                let attributes = &parent.attributes;
                let mut node = Node {
                    file: parent.file,
                    parent: holder,
                    name: name.into(),
                    mode: attributes.mode,
                    uid: attributes.uid,
                    gid: attributes.gid,
                    accessed: 0,
                    modified: crate::overlay::nanoseconds(attributes.modified),
                    changed: crate::overlay::nanoseconds(attributes.changed),
                    uploaded: 0,
                    stated: 0,
                    exclusive: None,
                    writer: None,
                    base: Some(crate::overlay::BaseObject { path: path.into(), etag: "".into(), size: 0, visible: 0 }),
                    content: NodeContent::Directory,
                };
                node.accessed = node.modified;
                Ok(node)
            }
            // A directory above was renamed meanwhile.
            FileLocation::Bucket(_) => Err(FileError::TryLater),
        }
    }

    /// Refuse what would have too long a key. `more` bytes follow the name in the longest key.
    fn check_key(&self, overlay: &Overlay, parent: &ParentDirectory, name: &str, more: usize) -> Result<()> {
        let path = overlay.path(&self.file_table, parent.file.number)?;
        let slash = usize::from(!path.is_empty());
        if self.prefix_length + path.len() + slash + name.len() + more > LONGEST_KEY {
            return Err(FileError::NameTooLong);
        }
        Ok(())
    }

    pub(super) async fn remove(
        &self,
        caller: &Caller,
        dir: FileId,
        name: &[u8],
        is_directory: bool,
    ) -> Result<ChangeResult> {
        self.check_disk()?;
        let parent = self.directory(caller, dir, Access::LOOKUP).await?;
        check(caller, &parent.attributes, Access::MODIFY)?;
        let name = std::str::from_utf8(name).map_err(|_| FileError::NotFound)?;
        let seen = self.child(&parent, name).await?;
        if is_directory {
            self.check_empty(&seen).await?;
        }
        let removed = self.overlay.change(|overlay| {
            let child = self.child_now(overlay, &parent, name, &seen);
            let (changes, around) = self.removed(overlay, caller, (&parent, name), &child, is_directory)?;
            Ok((changes, (around, child)))
        });
        let (around, child) = removed.await?;
        self.drop_data(&child).await;
        Ok(around)
    }

    /// Changes that remove a name.
    fn removed(
        &self,
        overlay: &Overlay,
        caller: &Caller,
        (parent, name): (&ParentDirectory, &str),
        child: &ChildEntry,
        is_directory: bool,
    ) -> Result<(Vec<Change>, ChangeResult)> {
        let mut directory = self.directory_now(overlay, parent)?;
        let gone = self.facts(overlay, child).ok_or(FileError::NotFound)?;
        match (gone.kind, is_directory) {
            (FileKind::Directory, false) => return Err(FileError::IsADirectory),
            (FileKind::File | FileKind::Symlink, true) => return Err(FileError::NotADirectory),
            (FileKind::Directory, true) | (FileKind::File | FileKind::Symlink, false) => {}
        }
        if overlay.has_nodes(gone.file.number) {
            return Err(FileError::NotEmpty);
        }
        check_removal(caller, &directory.attributes(), &gone)?;
        let mut changes = self.taken_away(overlay, child)?;
        if self.has_prefix(overlay, parent) || is_being_written(overlay, child) {
            changes.push(Change::Hide { parent: parent.file.number, name: name.into() });
        }
        let around = touched(&mut directory);
        changes.push(Change::Put(Box::new(directory)));
        Ok((changes, around))
    }

    /// True when names of the bucket show in a directory, which may have come there since the call began.
    fn has_prefix(&self, overlay: &Overlay, parent: &ParentDirectory) -> bool {
        let now = overlay.lower(&self.file_table, parent.file.number);
        parent.prefix.is_some() || now.is_ok_and(|prefix| prefix.is_some())
    }

    /// Refuse a directory with names in it.
    async fn check_empty(&self, child: &ChildEntry) -> Result<()> {
        let (number, prefix) = match child {
            ChildEntry::Absent => return Ok(()),
            ChildEntry::Bucket(file, lower) => (file.number, Some(lower.path.clone())),
            ChildEntry::Node(NodeGuard { number, .. }) => {
                let is_directory = |node: &Node| node.content == NodeContent::Directory;
                if !self.overlay.read(|overlay| overlay.node(*number).is_some_and(is_directory)) {
                    return Ok(());
                }
                (*number, self.overlay.read(|overlay| overlay.lower(&self.file_table, *number))?)
            }
        };
        if self.is_empty(number, prefix.as_deref()).await? { Ok(()) } else { Err(FileError::NotEmpty) }
    }

    /// Changes that remove a file, and what is left to do in the bucket.
    fn taken_away(&self, overlay: &Overlay, child: &ChildEntry) -> Result<Vec<Change>> {
        let doom = |path: &str, kind: FileKind, etag: &str| {
            let slash = if kind == FileKind::Directory { "/" } else { "" };
            Change::AddRemoval { path: format!("{path}{slash}").into(), etag: etag.into() }
        };
        match child {
            ChildEntry::Absent => Ok(Vec::new()),
            ChildEntry::Node(NodeGuard { number, .. }) => {
                let node = overlay.node(*number).ok_or(FileError::Stale)?;
                let below = node.base.as_ref().map(|base| doom(&base.path, node.kind(), &base.etag));
                let dropped = std::iter::once(Change::Remove(*number)).chain(below);
                Ok(dropped.chain(overlay.without_attributes(*number)).collect())
            }
            ChildEntry::Bucket(file, lower) => {
                let etag = self.etag(lower)?;
                let kind = self.defaults.attributes(0, &lower.attributes).kind;
                let pending_removals = std::iter::once(doom(&self.object_path(lower)?, kind, &etag));
                Ok(pending_removals.chain(overlay.without_attributes(file.number)).collect())
            }
        }
    }

    /// The version of an object. Empty for a prefix.
    fn etag(&self, lower: &BucketEntry) -> Result<String> {
        if lower.attributes.kind == seqferry_vfs::FileKind::Directory {
            return Ok(String::new());
        }
        match self.files.tree().version(lower.attributes.inode).map_err(status)?.pin {
            VersionPin::Etag(etag) => Ok(etag.to_string()),
            VersionPin::VersionId(_) => Err(FileError::Io),
        }
    }

    /// Forget the identity of a file that is no more, and remove its data file.
    async fn drop_data(&self, child: &ChildEntry) {
        match child {
            ChildEntry::Absent => {}
            ChildEntry::Node(NodeGuard { number, .. }) => self.file_table.release(*number),
            ChildEntry::Bucket(file, _) => self.file_table.release(file.number),
        }
        if let ChildEntry::Node(NodeGuard { number, .. }) = *child {
            let lock = self.lock_of(number);
            // Those that write now have found the file before it was removed.
            let _alone = lock.alone().await;
            if let Err(error) = self.blocking(move |data| data.remove(number)).await {
                tracing::warn!("a data file cannot be removed: {error}");
            }
        }
    }

    pub(super) async fn rename(
        &self,
        caller: &Caller,
        from: (FileId, &[u8]),
        to: (FileId, &[u8]),
    ) -> Result<(ChangeResult, ChangeResult)> {
        self.check_disk()?;
        let old = self.directory(caller, from.0, Access::LOOKUP).await?;
        let new = self.directory(caller, to.0, Access::LOOKUP).await?;
        check(caller, &old.attributes, Access::MODIFY)?;
        check(caller, &new.attributes, Access::MODIFY)?;
        let old_name = std::str::from_utf8(from.1).map_err(|_| FileError::NotFound)?;
        let new_name = checked_name(to.1)?;
        let source = self.child(&old, old_name).await?;
        let target_of_link = match &source {
            ChildEntry::Bucket(file, lower) if lower.attributes.kind == seqferry_vfs::FileKind::Symlink => {
                self.target(*file).await?
            }
            ChildEntry::Absent | ChildEntry::Node(_) | ChildEntry::Bucket(..) => Bytes::new(),
        };
        let target = self.child(&new, new_name).await?;
        let is_same = (old.file, old_name) == (new.file, new_name);
        let is_directory = |attributes: Attributes| attributes.kind == FileKind::Directory;
        if !is_same && self.overlay.read(|overlay| self.facts(overlay, &source).is_some_and(is_directory)) {
            self.check_empty(&target).await?;
        }
        let renamed = self.overlay.change(|overlay| {
            let source = self.child_now(overlay, &old, old_name, &source);
            let target = self.child_now(overlay, &new, new_name, &target);
            let renaming = RenameRequest { old: (&old, old_name), new: (&new, new_name), source, target };
            let (changes, around) = self.renamed(overlay, caller, &renaming, &target_of_link)?;
            Ok((changes, (around, renaming.target)))
        });
        let (around, target) = renamed.await?;
        if !is_same {
            self.drop_data(&target).await;
        }
        Ok(around)
    }

    /// Changes that rename.
    fn renamed(
        &self,
        overlay: &Overlay,
        caller: &Caller,
        renaming: &RenameRequest<'_>,
        target_of_link: &Bytes,
    ) -> Result<(Vec<Change>, (ChangeResult, ChangeResult))> {
        let RenameRequest { old: (old, old_name), new: (new, new_name), source, target } = renaming;
        let (mut old_node, mut new_node) = (self.directory_now(overlay, old)?, self.directory_now(overlay, new)?);
        let moved = self.facts(overlay, source).ok_or(FileError::NotFound)?;
        if (old.file, old_name) == (new.file, new_name) {
            return Ok((Vec::new(), (untouched(&old_node.attributes()), untouched(&new_node.attributes()))));
        }
        let is_directory = moved.kind == FileKind::Directory;
        if is_refused(new.file.number, new_name, is_directory) {
            return Err(FileError::AccessDenied);
        }
        check_removal(caller, &old_node.attributes(), &moved)?;
        if let Some(replaced) = self.facts(overlay, target) {
            Self::check_replaced(overlay, &moved, &replaced)?;
            check_removal(caller, &new_node.attributes(), &replaced)?;
        }
        if is_directory && self.is_below(overlay, new.file.number, moved.file.number) {
            return Err(FileError::Invalid);
        }
        let more = if is_directory { overlay.depth_below(moved.file.number).max(1) } else { 0 };
        self.check_key(overlay, new, new_name, more)?;
        let mut node = match source {
            ChildEntry::Node(node) => overlay.node(node.number).cloned().ok_or(FileError::Stale)?,
            ChildEntry::Bucket(file, lower) => {
                self.adopted(*file, (old.file.number, old_name), lower, target_of_link)?
            }
            ChildEntry::Absent => return Err(FileError::NotFound),
        };
        node.touch();
        let before = match &node.base {
            Some(base) => base.path.to_string(),
            None => join(&overlay.path(&self.file_table, old.file.number)?, old_name),
        };
        (node.parent, node.name) = (new.file.number, (*new_name).into());
        let mut changes = self.taken_away(overlay, target)?;
        changes.extend(overlay.begin_rename(&node, &before).filter(|_| is_directory));
        changes.push(Change::Put(Box::new(node)));
        if self.has_prefix(overlay, old) || is_being_written(overlay, source) {
            changes.push(Change::Hide { parent: old.file.number, name: (*old_name).into() });
        }
        let first = touched(&mut old_node);
        let second = if old.file == new.file { first.clone() } else { touched(&mut new_node) };
        let is_one = old.file == new.file;
        changes.push(Change::Put(Box::new(old_node)));
        if !is_one {
            changes.push(Change::Put(Box::new(new_node)));
        }
        Ok((changes, (first, second)))
    }

    fn check_replaced(overlay: &Overlay, moved: &Attributes, replaced: &Attributes) -> Result<()> {
        match (moved.kind, replaced.kind) {
            (FileKind::Directory, FileKind::Directory) if overlay.has_nodes(replaced.file.number) => {
                Err(FileError::NotEmpty)
            }
            (FileKind::Directory, FileKind::File | FileKind::Symlink) => Err(FileError::NotADirectory),
            (FileKind::File | FileKind::Symlink, FileKind::Directory) => Err(FileError::IsADirectory),
            (FileKind::Directory, FileKind::Directory)
            | (FileKind::File | FileKind::Symlink, FileKind::File | FileKind::Symlink) => Ok(()),
        }
    }

    /// True for a directory and what is below it.
    fn is_below(&self, overlay: &Overlay, mut number: u64, above: u64) -> bool {
        loop {
            if number == above {
                return true;
            }
            if number == ROOT {
                return false;
            }
            number = overlay.parent(&self.file_table, number);
        }
    }
}
