//! Names that are made, removed and renamed: one record of the journal each.

use bytes::Bytes;
use seqferry_nfs::{
    Access, Attributes, Caller, Changed, Created, Creation, FileError, FileId, FileKind, Result, SetAttributes, Summary,
};
use seqferry_vfs::VersionPin;

use super::Inner;
use super::checks::{LONGEST_KEY, apply, check, check_removal, check_set, checked_name, inherited_group, is_refused};
use super::find::{Child, HeldNode, Lower, Parent};
use crate::ids::ROOT;
use crate::journal::Disk;
use crate::overlay::{
    Change, Content, Data, Entry, MADE_HERE, Node, Overlay, STATED_GID, STATED_MODE, STATED_MODIFIED, STATED_UID, Spot,
    now,
};
use crate::share::status;

/// A file, folder or link that is to be made.
struct New<'a> {
    name: &'a str,
    content: Content,
    mode: u32,
    set: SetAttributes,
    exclusive: Option<[u8; 8]>,
}

/// A rename, with what has the old and the new name.
struct Renaming<'a> {
    old: (&'a Parent, &'a str),
    new: (&'a Parent, &'a str),
    source: Child,
    target: Child,
}

fn untouched(attributes: &Attributes) -> Changed {
    Changed { before: Some(Summary::from(attributes)), after: Some(attributes.clone()) }
}

/// Entries of a directory have changed.
fn touched(directory: &mut Node) -> Changed {
    let before = Some(Summary::from(&directory.attributes()));
    directory.touch_bytes();
    Changed { before, after: Some(directory.attributes()) }
}

/// True when a file may be in the bucket, though the journal does not say so yet.
fn is_being_written(overlay: &Overlay, child: &Child) -> bool {
    matches!(child, Child::Node(node) if overlay.uploads().contains_key(&node.number))
}

impl<D: Disk> Inner<D> {
    pub(super) async fn create(&self, caller: &Caller, dir: FileId, name: &[u8], how: Creation) -> Result<Created> {
        let parent = self.directory(caller, dir, Access::LOOKUP).await?;
        let (set, exclusive) = match how {
            Creation::Unchecked(set) | Creation::Guarded(set) => (set, None),
            Creation::Exclusive(number) => (SetAttributes::default(), Some(number)),
        };
        let name = checked_name(name)?;
        // A name that comes into being meanwhile is found by the second look.
        for _ in 0..2 {
            match self.child(&parent, name).await? {
                Child::Absent => {}
                child => return self.created_before(caller, &parent, &child, how).await,
            }
            let content = Content::File(Data::default());
            let new = New { name, content, mode: self.defaults.file_mode, set, exclusive };
            match self.make(caller, &parent, new).await {
                Err(FileError::Exists) => {}
                made => return made,
            }
        }
        Err(FileError::Exists)
    }

    /// A file that is to be created is there.
    async fn created_before(&self, caller: &Caller, parent: &Parent, child: &Child, how: Creation) -> Result<Created> {
        let (attributes, number) = self
            .ledger
            .read(|overlay| {
                let number = match child {
                    Child::Node(node) => overlay.node(node.number).and_then(|node| node.exclusive),
                    Child::Absent | Child::Bucket(..) => None,
                };
                self.facts(overlay, child).map(|attributes| (attributes, number))
            })
            .ok_or(FileError::Stale)?;
        let directory =
            Changed { before: Some(Summary::from(&parent.attributes)), after: Some(parent.attributes.clone()) };
        match how {
            Creation::Exclusive(mine) if number == Some(mine) => {
                // The first call may still wait for the disk.
                self.ledger.settled().await?;
                Ok(Created { attributes, directory })
            }
            Creation::Unchecked(set) if attributes.kind == FileKind::File => {
                let set = SetAttributes { size: set.size, ..SetAttributes::default() };
                let changed = self.set(caller, attributes.file, set, None).await?;
                Ok(Created { attributes: changed.after.unwrap_or(attributes), directory })
            }
            Creation::Exclusive(_) | Creation::Guarded(_) | Creation::Unchecked(_) => Err(FileError::Exists),
        }
    }

    pub(super) async fn make_directory(
        &self,
        caller: &Caller,
        dir: FileId,
        name: &[u8],
        set: SetAttributes,
    ) -> Result<Created> {
        let parent = self.directory(caller, dir, Access::LOOKUP).await?;
        let name = checked_name(name)?;
        let set = SetAttributes { size: None, ..set };
        let new = New { name, content: Content::Directory, mode: self.defaults.directory_mode, set, exclusive: None };
        self.make_absent(caller, &parent, new).await
    }

    pub(super) async fn make_link(
        &self,
        caller: &Caller,
        dir: FileId,
        name: &[u8],
        target: Bytes,
        set: SetAttributes,
    ) -> Result<Created> {
        let parent = self.directory(caller, dir, Access::LOOKUP).await?;
        let name = checked_name(name)?;
        let set = SetAttributes { size: None, mode: None, ..set };
        let new = New { name, content: Content::Link(target), mode: 0o777, set, exclusive: None };
        self.make_absent(caller, &parent, new).await
    }

    async fn make_absent(&self, caller: &Caller, parent: &Parent, new: New<'_>) -> Result<Created> {
        match self.child(parent, new.name).await? {
            Child::Absent => self.make(caller, parent, new).await,
            Child::Node(_) | Child::Bucket(..) => Err(FileError::Exists),
        }
    }

    /// Make what the bucket does not have.
    async fn make(&self, caller: &Caller, parent: &Parent, new: New<'_>) -> Result<Created> {
        self.check_disk()?;
        check(caller, &parent.attributes, Access::MODIFY)?;
        if self.data.is_full() {
            // The rest of the disk is for the journal, which must be able to record uploads and removals.
            return Err(FileError::TryLater);
        }
        self.ledger.change(|overlay| self.made(overlay, caller, parent, new)).await
    }

    /// Changes that make a file, folder or link.
    fn made(
        &self,
        overlay: &Overlay,
        caller: &Caller,
        parent: &Parent,
        new: New<'_>,
    ) -> Result<(Vec<Change>, Created)> {
        let mut directory = self.directory_now(overlay, parent)?;
        if matches!(overlay.entry(parent.file.number, new.name), Some(Entry::Node(_))) {
            return Err(FileError::Exists);
        }
        let is_directory = new.content == Content::Directory;
        if is_refused(parent.file.number, new.name, is_directory) {
            return Err(FileError::AccessDenied);
        }
        self.check_key(overlay, parent, new.name, usize::from(is_directory))?;
        let (number, next) = overlay.free_number(&self.ids);
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
        Ok((vec![Change::Next(next), put(directory), put(node)], Created { attributes, directory: around }))
    }

    /// The node of a directory that a call changes, if the directory is still what it was when the call began.
    fn directory_now(&self, overlay: &Overlay, parent: &Parent) -> Result<Node> {
        match overlay.spot(&self.ids, parent.file)? {
            Spot::Node(number) => overlay.node(number).cloned().ok_or(FileError::Stale),
            Spot::Bucket(path) if Some(&path) == parent.prefix.as_ref() => {
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
                    base: Some(crate::overlay::Base { path: path.into(), etag: "".into(), size: 0, visible: 0 }),
                    content: Content::Directory,
                };
                node.accessed = node.modified;
                Ok(node)
            }
            // A directory above was renamed meanwhile.
            Spot::Bucket(_) => Err(FileError::TryLater),
        }
    }

    /// Refuse what would have too long a key. `more` bytes follow the name in the longest key.
    fn check_key(&self, overlay: &Overlay, parent: &Parent, name: &str, more: usize) -> Result<()> {
        let path = overlay.path(&self.ids, parent.file.number)?;
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
    ) -> Result<Changed> {
        self.check_disk()?;
        let parent = self.directory(caller, dir, Access::LOOKUP).await?;
        check(caller, &parent.attributes, Access::MODIFY)?;
        let name = std::str::from_utf8(name).map_err(|_| FileError::NotFound)?;
        let seen = self.child(&parent, name).await?;
        if is_directory {
            self.check_empty(&seen).await?;
        }
        let removed = self.ledger.change(|overlay| {
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
        (parent, name): (&Parent, &str),
        child: &Child,
        is_directory: bool,
    ) -> Result<(Vec<Change>, Changed)> {
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
    fn has_prefix(&self, overlay: &Overlay, parent: &Parent) -> bool {
        let now = overlay.lower(&self.ids, parent.file.number);
        parent.prefix.is_some() || now.is_ok_and(|prefix| prefix.is_some())
    }

    /// Refuse a directory with names in it.
    async fn check_empty(&self, child: &Child) -> Result<()> {
        let (number, prefix) = match child {
            Child::Absent => return Ok(()),
            Child::Bucket(file, lower) => (file.number, Some(lower.path.clone())),
            Child::Node(HeldNode { number, .. }) => {
                let is_directory = |node: &Node| node.content == Content::Directory;
                if !self.ledger.read(|overlay| overlay.node(*number).is_some_and(is_directory)) {
                    return Ok(());
                }
                (*number, self.ledger.read(|overlay| overlay.lower(&self.ids, *number))?)
            }
        };
        if self.is_empty(number, prefix.as_deref()).await? { Ok(()) } else { Err(FileError::NotEmpty) }
    }

    /// Changes that take a file away, and what is left to do in the bucket.
    fn taken_away(&self, overlay: &Overlay, child: &Child) -> Result<Vec<Change>> {
        let doom = |path: &str, kind: FileKind, etag: &str| {
            let slash = if kind == FileKind::Directory { "/" } else { "" };
            Change::Doom { path: format!("{path}{slash}").into(), etag: etag.into() }
        };
        match child {
            Child::Absent => Ok(Vec::new()),
            Child::Node(HeldNode { number, .. }) => {
                let node = overlay.node(*number).ok_or(FileError::Stale)?;
                let below = node.base.as_ref().map(|base| doom(&base.path, node.kind(), &base.etag));
                let dropped = std::iter::once(Change::Drop(*number)).chain(below);
                Ok(dropped.chain(overlay.without_attributes(*number)).collect())
            }
            Child::Bucket(file, lower) => {
                let etag = self.etag(lower)?;
                let kind = self.defaults.attributes(0, &lower.attributes).kind;
                let doomed = std::iter::once(doom(&self.object_path(lower)?, kind, &etag));
                Ok(doomed.chain(overlay.without_attributes(file.number)).collect())
            }
        }
    }

    /// The version of an object. Empty for a prefix.
    fn etag(&self, lower: &Lower) -> Result<String> {
        if lower.attributes.kind == seqferry_vfs::FileKind::Directory {
            return Ok(String::new());
        }
        match self.files.tree().version(lower.attributes.inode).map_err(status)?.pin {
            VersionPin::Etag(etag) => Ok(etag.to_string()),
            VersionPin::VersionId(_) => Err(FileError::Io),
        }
    }

    /// Forget the identity of a file that is no more, and remove its data file.
    async fn drop_data(&self, child: &Child) {
        match child {
            Child::Absent => {}
            Child::Node(HeldNode { number, .. }) => self.ids.release(*number),
            Child::Bucket(file, _) => self.ids.release(file.number),
        }
        if let Child::Node(HeldNode { number, .. }) = *child {
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
    ) -> Result<(Changed, Changed)> {
        self.check_disk()?;
        let old = self.directory(caller, from.0, Access::LOOKUP).await?;
        let new = self.directory(caller, to.0, Access::LOOKUP).await?;
        check(caller, &old.attributes, Access::MODIFY)?;
        check(caller, &new.attributes, Access::MODIFY)?;
        let old_name = std::str::from_utf8(from.1).map_err(|_| FileError::NotFound)?;
        let new_name = checked_name(to.1)?;
        let source = self.child(&old, old_name).await?;
        let target_of_link = match &source {
            Child::Bucket(file, lower) if lower.attributes.kind == seqferry_vfs::FileKind::Symlink => {
                self.target(*file).await?
            }
            Child::Absent | Child::Node(_) | Child::Bucket(..) => Bytes::new(),
        };
        let target = self.child(&new, new_name).await?;
        let is_same = (old.file, old_name) == (new.file, new_name);
        let is_directory = |attributes: Attributes| attributes.kind == FileKind::Directory;
        if !is_same && self.ledger.read(|overlay| self.facts(overlay, &source).is_some_and(is_directory)) {
            self.check_empty(&target).await?;
        }
        let renamed = self.ledger.change(|overlay| {
            let source = self.child_now(overlay, &old, old_name, &source);
            let target = self.child_now(overlay, &new, new_name, &target);
            let renaming = Renaming { old: (&old, old_name), new: (&new, new_name), source, target };
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
        renaming: &Renaming<'_>,
        target_of_link: &Bytes,
    ) -> Result<(Vec<Change>, (Changed, Changed))> {
        let Renaming { old: (old, old_name), new: (new, new_name), source, target } = renaming;
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
            Child::Node(node) => overlay.node(node.number).cloned().ok_or(FileError::Stale)?,
            Child::Bucket(file, lower) => self.adopted(*file, (old.file.number, old_name), lower, target_of_link)?,
            Child::Absent => return Err(FileError::NotFound),
        };
        node.touch();
        (node.parent, node.name) = (new.file.number, (*new_name).into());
        let mut changes = self.taken_away(overlay, target)?;
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
            number = overlay.parent(&self.ids, number);
        }
    }
}
