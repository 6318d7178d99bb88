//! Overlay of names: changes, renames and removals made here, over the names of a bucket.
//!
//! The overlay is the sum of the changes in the journal. A file of the bucket that is changed gets a node with the
//! number that it had; a file that is made gets the next number of a counter. A folder of the bucket that is renamed
//! keeps its number, and what is below it shows under the new name. Names of the bucket that were removed or renamed
//! are hidden.

mod attributes;
mod changed_files;
mod extents;
mod node;
mod record;
mod rename;
mod token;
mod upload_outcome;

use std::collections::BTreeMap;

use seqferry_share::{FileError, FileId, Result};

use crate::file_table::{AssignedFacts, FIRST, FileTable, ROOT};
use crate::name_list::{IGNORED, NameList};
use attributes::FileAttributes;
use changed_files::ChangedFiles;
pub(crate) use extents::Extents;
pub(crate) use node::{
    ALL_AS_BASE, BaseObject, FileData, Node, NodeContent, STATED_GID, STATED_MODE, STATED_MODIFIED, STATED_UID,
    nanoseconds, now, system_time,
};
pub(crate) use record::{Change, GrowingUpload, GrownObject, OpenUpload, decode, encode};
pub(crate) use rename::{FolderRename, is_below};
pub(crate) use token::{MARK, new_token};
pub(crate) use upload_outcome::UnbatchedOutcomes;
pub use upload_outcome::{OutcomeFailure, OutcomeVersion, UploadOutcome};

/// Generation of files of the bucket, and of those made here.
pub(crate) const OF_BUCKET: u32 = 0;
pub(crate) const MADE_HERE: u32 = 1;
/// Directories above a file: a key has 1,024 bytes.
const DEPTH: usize = 512;

/// A name that the overlay decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OverlayEntry {
    /// The file of this number.
    Node(u64),
    /// Nothing, whatever the bucket has.
    Hidden,
}

/// Location of a file: in the overlay or in the bucket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FileLocation {
    /// The file of this number in the overlay.
    Node(u64),
    /// A path of the bucket below the share.
    Bucket(String),
}

#[derive(Debug)]
pub(crate) struct Overlay {
    nodes: BTreeMap<u64, Node>,
    changed_files: ChangedFiles,
    names: BTreeMap<u64, BTreeMap<Box<str>, OverlayEntry>>,
    pending_removals: BTreeMap<Box<str>, Box<str>>,
    /// Files, links and folders by their path in the bucket.
    bases: BTreeMap<Box<str>, Vec<u64>>,
    uploads: BTreeMap<u64, OpenUpload>,
    growing: BTreeMap<u64, GrowingUpload>,
    /// By their time.
    renames: BTreeMap<u64, FolderRename>,
    outcomes: UnbatchedOutcomes,
    attributes: FileAttributes,
    /// A folder may have been renamed: files below it may have other paths than their objects.
    has_moved: bool,
    /// Number of the next file that is made.
    next: u64,
    share: Option<String>,
    /// Names of files that stay on this machine.
    ignored: NameList,
}

impl Default for Overlay {
    fn default() -> Self {
        Self {
            nodes: BTreeMap::new(),
            changed_files: ChangedFiles::default(),
            names: BTreeMap::new(),
            pending_removals: BTreeMap::new(),
            bases: BTreeMap::new(),
            uploads: BTreeMap::new(),
            growing: BTreeMap::new(),
            renames: BTreeMap::new(),
            outcomes: UnbatchedOutcomes::default(),
            attributes: FileAttributes::default(),
            // The journal does not say.
            has_moved: true,
            next: FIRST,
            share: None,
            ignored: NameList::new(IGNORED),
        }
    }
}

pub(crate) fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") }
}

impl Overlay {
    /// Apply a change.
    pub(crate) fn apply(&mut self, change: Change) {
        match change {
            Change::Share(identity) => self.share = Some(identity),
            Change::Next(number) => self.next = number,
            Change::Put(node) => self.put(*node),
            Change::Remove(number) => {
                if let Some(gone) = self.nodes.remove(&number) {
                    self.changed_files.remove(&gone);
                    self.forget_name(&gone);
                    self.forget_base(&gone);
                }
                self.names.remove(&number);
            }
            Change::Hide { parent, name } => {
                self.names.entry(parent).or_default().insert(name, OverlayEntry::Hidden);
            }
            Change::AddRemoval { path, etag } => drop(self.pending_removals.insert(path, etag)),
            Change::Show { parent, name } => {
                if let Some(names) = self.names.get_mut(&parent)
                    && names.get(&name) == Some(&OverlayEntry::Hidden)
                {
                    names.remove(&name);
                }
            }
            Change::EndRemoval { path } => drop(self.pending_removals.remove(&path)),
            Change::BeginUpload(upload) => drop(self.uploads.insert(upload.number, upload)),
            Change::EndUpload(number) => drop(self.uploads.remove(&number)),
            Change::Journal(name) => self.outcomes.journal = Some(name),
            Change::UploadOutcome { at, rename, line } => self.outcomes.add(at, rename, line),
            Change::Batched { batch, rename, outcomes } => self.outcomes.freeze(batch, rename, outcomes),
            Change::Attribute { number, name, value } => self.attributes.set(number, name, value),
            Change::NoAttributes(number) => self.attributes.clear(number),
            Change::Grow(growing) => drop(self.growing.insert(growing.number, growing)),
            Change::EndGrowing(number) => drop(self.growing.remove(&number)),
            Change::Rename(rename) => drop(self.renames.insert(rename.since, rename)),
            Change::EndRename(since) => {
                self.renames.remove(&since);
                self.outcomes.end_rename(since);
            }
        }
    }

    fn put(&mut self, node: Node) {
        let number = node.file.number;
        let is_folder = node.content == NodeContent::Directory;
        let is_new = !self.nodes.contains_key(&number);
        self.has_moved |= is_folder && is_new && node.base.is_some();
        // Its folder may have been renamed while it was written to the bucket.
        let is_elsewhere = node.base.as_ref().is_some_and(|base| !self.is_beside_parent(&node, &base.path));
        self.has_moved |= is_elsewhere;
        if let Some(before) = self.nodes.remove(&number) {
            self.changed_files.remove(&before);
            self.has_moved |= is_folder && (before.parent, &before.name) != (node.parent, &node.name);
            self.forget_name(&before);
            self.forget_base(&before);
        }
        if let Some(base) = &node.base {
            self.bases.entry(base.path.clone()).or_default().push(number);
        }
        if number != ROOT {
            self.names.entry(node.parent).or_default().insert(node.name.clone(), OverlayEntry::Node(number));
        }
        self.changed_files.add(&node);
        self.nodes.insert(number, node);
    }

    /// True when the path of a file in the bucket is known to be that of its folder there with its name.
    fn is_beside_parent(&self, node: &Node, path: &str) -> bool {
        let (above, name) = path.rsplit_once('/').unwrap_or(("", path));
        let prefix = match self.nodes.get(&node.parent) {
            _ if node.parent == ROOT => Some(""),
            Some(parent) => parent.base.as_ref().map(|base| &*base.path),
            None => None,
        };
        name == &*node.name && prefix == Some(above)
    }

    fn forget_base(&mut self, node: &Node) {
        let Some(path) = node.base.as_ref().map(|base| &base.path) else { return };
        let Some(numbers) = self.bases.get_mut(path) else { return };
        numbers.retain(|number| *number != node.file.number);
        if numbers.is_empty() {
            self.bases.remove(path);
        }
    }

    /// Files, links and folders that the bucket has at a path.
    pub(crate) fn nodes_of_object(&self, path: &str) -> impl Iterator<Item = u64> {
        self.bases.get(path).into_iter().flatten().copied()
    }

    /// Files, links and folders that the bucket has below a path.
    pub(crate) fn nodes_of_prefix(&self, path: &str) -> impl Iterator<Item = u64> {
        use std::ops::Bound::{Included, Unbounded};
        let below = format!("{path}/");
        let rest = self.bases.range::<str, _>((Included(&*below), Unbounded));
        rest.take_while(move |(at, _)| at.starts_with(&*below)).flat_map(|(_, numbers)| numbers).copied()
    }

    fn forget_name(&mut self, node: &Node) {
        let Some(names) = self.names.get_mut(&node.parent) else { return };
        if names.get(&node.name) == Some(&OverlayEntry::Node(node.file.number)) {
            names.remove(&node.name);
        }
    }

    /// Changes that make this overlay from an empty one, a record each.
    pub(crate) fn records(&self) -> Vec<Vec<u8>> {
        let mut records = vec![encode(&[Change::Next(self.next)])];
        records.extend(self.share.iter().map(|share| encode(&[Change::Share(share.clone())])));
        records.extend(self.nodes.values().map(|node| encode(&[Change::Put(Box::new(node.clone()))])));
        for (parent, names) in &self.names {
            let hidden = names.iter().filter(|(_, entry)| **entry == OverlayEntry::Hidden);
            let hide = |name: &str| encode(&[Change::Hide { parent: *parent, name: name.into() }]);
            records.extend(hidden.map(|(name, _)| hide(name)));
        }
        for (path, etag) in &self.pending_removals {
            records.push(encode(&[Change::AddRemoval { path: path.clone(), etag: etag.clone() }]));
        }
        records.extend(self.uploads.values().map(|upload| encode(&[Change::BeginUpload(upload.clone())])));
        records.extend(self.growing.values().map(|growing| encode(&[Change::Grow(growing.clone())])));
        records.extend(self.renames.values().map(|rename| encode(&[Change::Rename(rename.clone())])));
        let UnbatchedOutcomes { journal, next_batch, lines, renames, since } = &self.outcomes;
        records.extend(journal.iter().map(|name| encode(&[Change::Journal(name.clone())])));
        if let Some(batch) = next_batch.checked_sub(1) {
            records.push(encode(&[Change::Batched { batch, rename: None, outcomes: 0 }]));
        }
        let at = since.unwrap_or_default();
        let outcome = |rename, line: &str| encode(&[Change::UploadOutcome { at, rename, line: line.into() }]);
        records.extend(lines.iter().map(|line| outcome(None, line)));
        for (rename, lines) in renames {
            records.extend(lines.iter().map(|line| outcome(Some(*rename), line)));
        }
        for (number, _) in self.attributes.files() {
            let attributes = self.attributes.of(number).map(|(name, value)| Change::Attribute {
                number,
                name: name.into(),
                value: Some(value.clone()),
            });
            records.push(encode(&attributes.collect::<Vec<_>>()));
        }
        records
    }

    /// The share that the journal belongs to.
    pub(crate) fn share(&self) -> Option<&str> {
        self.share.as_deref()
    }

    /// Set the names of files that stay on this machine.
    pub(crate) fn ignore(&mut self, names: NameList) {
        self.ignored = names;
    }

    /// True for a file that never goes to the bucket.
    pub(crate) fn is_local_only(&self, node: &Node) -> bool {
        node.content != NodeContent::Directory && self.ignored.matches(&node.name)
    }

    /// Objects and folder markers of the bucket to be removed, and their version.
    pub(crate) fn pending_removals(&self) -> &BTreeMap<Box<str>, Box<str>> {
        &self.pending_removals
    }

    /// Writes to the bucket whose outcome is not known, by their file.
    pub(crate) fn uploads(&self) -> &BTreeMap<u64, OpenUpload> {
        &self.uploads
    }

    /// Uploads of parts of files that grow, by their file.
    pub(crate) fn growing(&self) -> &BTreeMap<u64, GrowingUpload> {
        &self.growing
    }

    /// Outcomes of uploads that no batch holds yet.
    pub(crate) fn outcomes(&self) -> &UnbatchedOutcomes {
        &self.outcomes
    }

    /// Extended attributes of files.
    pub(crate) fn attributes(&self) -> &FileAttributes {
        &self.attributes
    }

    /// Change by which a file that is removed loses its attributes.
    pub(crate) fn without_attributes(&self, number: u64) -> Option<Change> {
        self.attributes.has_any(number).then_some(Change::NoAttributes(number))
    }

    pub(crate) fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.values()
    }

    /// Files, links and folders that the bucket may not have as they are, and where they are, by their numbers.
    pub(crate) fn upload_candidates(&self) -> impl Iterator<Item = &Node> {
        let all = self.has_moved.then(|| self.nodes.values());
        let changed =
            (!self.has_moved).then(|| self.changed_files.changed().filter_map(|number| self.nodes.get(&number)));
        all.into_iter().flatten().chain(changed.into_iter().flatten())
    }

    /// Number of clean files.
    pub(crate) fn unchanged_files(&self) -> usize {
        self.changed_files.unchanged_files()
    }

    pub(crate) fn has_moved(&self) -> bool {
        self.has_moved
    }

    /// All files have the paths of their objects, as far as they have any.
    pub(crate) fn clear_moved(&mut self) {
        self.has_moved = false;
    }

    /// Names of the bucket that do not show, by their directory.
    pub(crate) fn hidden(&self) -> impl Iterator<Item = (u64, &str)> {
        self.names.iter().flat_map(|(parent, names)| {
            names.iter().filter_map(|(name, entry)| (*entry == OverlayEntry::Hidden).then_some((*parent, &**name)))
        })
    }

    /// A number that no file has, and the one after it.
    pub(crate) fn free_number(&self, file_table: &FileTable) -> (u64, u64) {
        let is_free = |number: &u64| !self.nodes.contains_key(number) && file_table.place(*number).is_none();
        let number = (self.next..u64::MAX).find(is_free).unwrap_or(u64::MAX);
        (number, number.saturating_add(1))
    }

    pub(crate) fn node(&self, number: u64) -> Option<&Node> {
        self.nodes.get(&number)
    }

    /// Change attributes of a file that no record has to say, apart from its name and its object. None: there is no
    /// such file.
    pub(crate) fn edit<T>(&mut self, number: u64, change: impl FnOnce(&mut Node) -> T) -> Option<T> {
        let node = self.nodes.get_mut(&number)?;
        self.changed_files.remove(node);
        let changed = change(node);
        self.changed_files.add(node);
        Some(changed)
    }

    /// The bytes of a file, for changes that leave it as new or as old as it is.
    pub(crate) fn data_mut(&mut self, number: u64) -> Option<&mut FileData> {
        self.nodes.get_mut(&number).and_then(Node::data_mut)
    }

    /// Answer of the overlay about a name. None: the bucket decides.
    pub(crate) fn entry(&self, parent: u64, name: &str) -> Option<OverlayEntry> {
        self.names.get(&parent)?.get(name).copied()
    }

    /// Names after one (None: from the beginning) that the overlay decides.
    pub(crate) fn names(&self, parent: u64, after: Option<&str>) -> impl Iterator<Item = (&str, OverlayEntry)> {
        use std::ops::Bound::{Excluded, Unbounded};
        let from = after.map_or(Unbounded, Excluded);
        let names = self.names.get(&parent);
        names.into_iter().flat_map(move |names| names.range::<str, _>((from, Unbounded))).map(|(name, e)| (&**name, *e))
    }

    /// True when a directory has a name that was made or changed here.
    pub(crate) fn has_nodes(&self, parent: u64) -> bool {
        self.names(parent, None).any(|(_, entry)| entry != OverlayEntry::Hidden)
    }

    /// Identity of a file of the bucket: that of its name, unless a file that was renamed has taken it along.
    pub(crate) fn bucket_file(&self, file_table: &FileTable, parent: u64, name: &str) -> Option<FileId> {
        self.bucket_file_with_facts(file_table, parent, name).map(|(file, _)| file)
    }

    /// The same, with the facts of a file that was made or changed here.
    pub(crate) fn bucket_file_with_facts(
        &self,
        file_table: &FileTable,
        parent: u64,
        name: &str,
    ) -> Option<(FileId, Option<AssignedFacts>)> {
        file_table.file(parent, name, |number| self.nodes.contains_key(&number))
    }

    /// The file that has a number.
    pub(crate) fn file_of_number(&self, file_table: &FileTable, number: u64) -> Option<FileId> {
        if let Some(node) = self.nodes.get(&number) {
            return Some(node.file);
        }
        let assigned = if number == ROOT { None } else { file_table.place(number)?.assigned };
        Some(FileId { number, generation: assigned.map_or(OF_BUCKET, |facts| facts.generation) })
    }

    /// The place of a file as it is now.
    pub(crate) fn locate(&self, file_table: &FileTable, file: FileId) -> Result<FileLocation> {
        if self.nodes.get(&file.number).is_some_and(|node| node.file == file) {
            return Ok(FileLocation::Node(file.number));
        }
        if self.file_of_number(file_table, file.number).is_none_or(|found| found != file) {
            return Err(FileError::Stale);
        }
        self.bucket_path(file_table, file.number, 0)
            .and_then(|path| path.ok_or(FileError::Stale))
            .map(FileLocation::Bucket)
    }

    /// The path of a directory in the bucket. None: the bucket has no such directory.
    pub(crate) fn lower(&self, file_table: &FileTable, number: u64) -> Result<Option<String>> {
        self.bucket_path(file_table, number, 0)
    }

    fn bucket_path(&self, file_table: &FileTable, number: u64, depth: usize) -> Result<Option<String>> {
        if number == ROOT {
            return Ok(Some(String::new()));
        }
        if let Some(node) = self.nodes.get(&number) {
            return Ok(node.base.as_ref().map(|base| base.path.to_string()));
        }
        let place = file_table.place(number).filter(|_| depth < DEPTH).ok_or(FileError::Stale)?;
        let name = place.name.trim_end_matches('\0');
        if self.entry(place.parent, name).is_some() {
            return Err(FileError::Stale);
        }
        let parent = self.bucket_path(file_table, place.parent, depth + 1)?;
        Ok(parent.map(|parent| join(&parent, name)))
    }

    /// Number of the directory that holds a file.
    pub(crate) fn parent(&self, file_table: &FileTable, number: u64) -> u64 {
        match self.nodes.get(&number) {
            Some(node) => node.parent,
            None => file_table.place(number).map_or(ROOT, |place| place.parent),
        }
    }

    /// The path of a file as it shows, which is its key once it is uploaded.
    pub(crate) fn path(&self, file_table: &FileTable, number: u64) -> Result<String> {
        let mut names = Vec::new();
        let mut at = number;
        while at != ROOT {
            if names.len() >= DEPTH {
                return Err(FileError::NameTooLong);
            }
            if let Some(node) = self.nodes.get(&at) {
                names.push(node.name.to_string());
                at = node.parent;
            } else {
                let place = file_table.place(at).ok_or(FileError::Stale)?;
                names.push(place.name.trim_end_matches('\0').to_owned());
                at = place.parent;
            }
        }
        names.reverse();
        Ok(names.join("/"))
    }

    /// Folders of the bucket in a directory that hold files of the overlay, and are not in it themselves. Their last
    /// object may have been moved: then the bucket does not show them any more.
    pub(crate) fn holders_in(&self, file_table: &FileTable, directory: u64) -> BTreeMap<u64, Box<str>> {
        let mut holders = BTreeMap::new();
        for node in self.nodes.values() {
            let mut at = node.parent;
            for _ in 0..DEPTH {
                if self.nodes.contains_key(&at) {
                    break;
                }
                let Some(place) = file_table.place(at) else { break };
                if place.parent == directory {
                    holders.insert(at, place.name.trim_end_matches('\0').into());
                    break;
                }
                at = place.parent;
            }
        }
        holders
    }

    /// Longest path of what was made or changed below a directory, in bytes behind that of the directory.
    pub(crate) fn depth_below(&self, number: u64) -> usize {
        let mut deepest = 0;
        let mut todo = vec![(number, 0)];
        while let Some((number, length)) = todo.pop() {
            deepest = deepest.max(length);
            for (name, entry) in self.names(number, None) {
                if let OverlayEntry::Node(child) = entry {
                    todo.push((child, length + 1 + name.len()));
                }
            }
        }
        deepest
    }
}
