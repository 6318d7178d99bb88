//! A complete listing of one directory, compact, with stable cookies.
//!
//! Entries are ordered by cookie. A name keeps its cookie from one snapshot of the directory to the next, and new names
//! get higher ones: a reader that continues at a cookie after a refresh neither skips nor repeats a name that stayed.
//! Once a snapshot is made it does not change.

use std::collections::{HashMap, HashSet};
use std::sync::OnceLock;

use seqferry_store::ListedObject;

use super::facts::{as_link, may_be_link};
use super::names::{HiddenKey, HiddenReason, RCLONE_LINK, check_name};

/// Cookies 1 and 2 are those of `.` and `..`.
pub(crate) const FIRST_COOKIE: u32 = 3;

/// Hidden keys of one directory that are kept by name; the rest are counted.
const NAMED: usize = 1000;

/// Type of an inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileKind {
    /// An object.
    File,
    /// A common prefix.
    Directory,
    /// An object that stands for a symbolic link.
    Symlink,
}

/// An `ETag` in few bytes: nearly all are an MD5, or one with a number of parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CompactEtag {
    Md5([u8; 16]),
    Parts([u8; 16], u32),
    Other(Box<str>),
}

impl CompactEtag {
    pub(crate) fn new(text: &str) -> Self {
        let (digest, parts) = text.split_once('-').map_or((text, None), |(digest, parts)| (digest, Some(parts)));
        let exact = |etag: Self| if etag.text() == text { etag } else { Self::Other(text.into()) };
        match (md5(digest), parts.map(str::parse)) {
            (Some(digest), None) => exact(Self::Md5(digest)),
            (Some(digest), Some(Ok(parts))) => exact(Self::Parts(digest, parts)),
            _ => Self::Other(text.into()),
        }
    }

    pub(crate) fn text(&self) -> String {
        let hex = |digest: &[u8; 16]| format!("{:032x}", u128::from_be_bytes(*digest));
        match self {
            Self::Md5(digest) => hex(digest),
            Self::Parts(digest, parts) => format!("{}-{parts}", hex(digest)),
            Self::Other(text) => text.to_string(),
        }
    }
}

fn md5(text: &str) -> Option<[u8; 16]> {
    (text.len() == 32 && text.is_ascii()).then(|| u128::from_str_radix(text, 16).ok())?.map(u128::to_be_bytes)
}

/// One name in a directory.
#[derive(Debug, Clone)]
pub(crate) struct SnapshotEntry {
    pub(crate) inode: u64,
    pub(crate) size: u64,
    /// Seconds since the epoch.
    pub(crate) modified: f64,
    pub(crate) etag: CompactEtag,
    pub(crate) cookie: u32,
    name_start: u32,
    name_length: u16,
    pub(crate) kind: FileKind,
    /// The object is in a class that has to be restored before it can be read.
    pub(crate) archived: bool,
    /// A link whose key is its name.
    is_plain_link: bool,
}

/// Attributes of a name before it is in a snapshot.
#[derive(Debug, Clone)]
pub(crate) struct NameFacts {
    pub(crate) kind: FileKind,
    pub(crate) size: u64,
    pub(crate) modified: f64,
    pub(crate) etag: String,
    pub(crate) archived: bool,
    /// A link whose key is its name, as s3fs stores them; those of rclone have an ending.
    pub(crate) is_plain_link: bool,
}

impl NameFacts {
    pub(crate) fn directory() -> Self {
        let (etag, size, modified) = (String::new(), 0, 0.0);
        Self { kind: FileKind::Directory, size, modified, etag, archived: false, is_plain_link: false }
    }

    /// The same object as a link.
    pub(crate) fn into_plain_link(self) -> Self {
        Self { kind: FileKind::Symlink, is_plain_link: true, ..self }
    }

    pub(crate) fn of_listed(object: &ListedObject) -> Self {
        let archived = object.storage_class.as_deref().is_some_and(is_archive_class);
        Self {
            kind: FileKind::File,
            size: object.size,
            // An answer about the object has whole seconds.
            modified: object.last_modified.floor(),
            etag: object.etag.clone(),
            archived,
            is_plain_link: false,
        }
    }
}

/// Returns true when objects of this class must be restored before a read. Objects of Intelligent-Tiering need it only
/// sometimes: their GET tells.
pub(crate) fn is_archive_class(class: &str) -> bool {
    matches!(class, "GLACIER" | "DEEP_ARCHIVE")
}

/// All names of a directory at one time.
#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    entries: Vec<SnapshotEntry>,
    by_name: Vec<u32>,
    names: String,
    pub(crate) hidden: Vec<HiddenKey>,
    /// All hidden keys, the named ones included.
    pub(crate) hidden_count: u64,
    /// Upload time of the newest object directly in it, in seconds since the epoch; 0 where there is none.
    pub(crate) newest: f64,
    /// Upload time of the object that stands for the directory itself (`key/`); 0 where there is none.
    pub(crate) marker: f64,
    /// Inodes in order with the places of their entries, made on first use.
    sorted: OnceLock<Vec<(u64, u32)>>,
}

impl SnapshotEntry {
    pub(crate) fn facts(&self) -> NameFacts {
        NameFacts {
            kind: self.kind,
            size: self.size,
            modified: self.modified,
            etag: self.etag.text(),
            archived: self.archived,
            is_plain_link: self.is_plain_link,
        }
    }
}

impl Snapshot {
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn name(&self, entry: &SnapshotEntry) -> &str {
        let start = entry.name_start as usize;
        &self.names[start..start + usize::from(entry.name_length)]
    }

    pub(crate) fn entry(&self, index: u32) -> Option<&SnapshotEntry> {
        self.entries.get(index as usize)
    }

    pub(crate) fn entries(&self) -> &[SnapshotEntry] {
        &self.entries
    }

    /// Place of a name in [`Snapshot::entries`].
    pub(crate) fn find(&self, name: &str) -> Option<u32> {
        let found = self.rank(name).ok()?;
        Some(self.by_name[found])
    }

    /// Place of a name among the sorted names, or where it would be.
    pub(crate) fn rank(&self, name: &str) -> Result<usize, usize> {
        self.by_name.binary_search_by(|index| self.name(&self.entries[*index as usize]).cmp(name))
    }

    /// Entries in order of their names, from this rank on.
    pub(crate) fn ranked(&self, from: usize) -> impl Iterator<Item = &SnapshotEntry> {
        self.by_name.get(from..).unwrap_or_default().iter().map(|index| &self.entries[*index as usize])
    }

    /// Inodes in order, with the places of their entries.
    pub(crate) fn by_inode(&self) -> &[(u64, u32)] {
        self.sorted.get_or_init(|| {
            let mut sorted: Vec<(u64, u32)> =
                (0_u32..).zip(&self.entries).map(|(index, entry)| (entry.inode, index)).collect();
            sorted.sort_unstable();
            sorted
        })
    }

    /// Give each entry the inode that `number` chooses, from its name, its attributes and the hash that it has now.
    pub(crate) fn renumber(&mut self, number: impl Fn(&str, &NameFacts, u64) -> u64) {
        let mut taken = HashSet::with_capacity(self.entries.len());
        for at in 0..self.entries.len() {
            let entry = &self.entries[at];
            let mut inode = number(self.name(entry), &entry.facts(), entry.inode);
            while !taken.insert(inode) {
                inode = inode.wrapping_add(1).max(2);
            }
            self.entries[at].inode = inode;
        }
    }

    /// Make links of the files that `is_link` knows by their inodes.
    pub(crate) fn make_links(&mut self, is_link: impl Fn(u64, f64) -> bool) {
        for entry in &mut self.entries {
            if entry.kind == FileKind::File && may_be_link(entry.size) && is_link(entry.inode, entry.modified) {
                (entry.kind, entry.is_plain_link) = (FileKind::Symlink, true);
                entry.inode = as_link(entry.inode);
            }
        }
    }

    /// Entries whose cookie is greater than this one, with their place.
    pub(crate) fn after(&self, cookie: u64) -> impl Iterator<Item = (u32, &SnapshotEntry)> {
        let start = self.entries.partition_point(|entry| u64::from(entry.cookie) <= cookie);
        (0_u32..).zip(&self.entries).skip(start)
    }
}

/// Collects the pages of a listing with the delimiter `/` and makes the snapshot.
#[derive(Debug, Default)]
pub(crate) struct SnapshotBuilder {
    found: HashMap<String, NameFacts>,
    hidden: Vec<HiddenKey>,
    hidden_count: u64,
    marker: f64,
}

impl SnapshotBuilder {
    fn hide(&mut self, key: &str, reason: HiddenReason) {
        self.hidden_count += 1;
        if self.hidden.len() < NAMED {
            self.hidden.push(HiddenKey { key: key.to_owned(), reason });
        }
    }

    /// Add an object directly below `prefix`.
    pub(crate) fn add_object(&mut self, prefix: &str, object: &ListedObject) {
        let Some(name) = object.key.strip_prefix(prefix) else { return };
        if name.is_empty() {
            self.marker = object.last_modified.floor();
            if object.size > 0 {
                self.hide(&object.key, HiddenReason::DirectoryWithBytes);
            }
            return;
        }
        // Some services list folders as objects. Bytes of one have no name.
        if name.ends_with('/') {
            if object.size > 0 {
                self.hide(&object.key, HiddenReason::DirectoryWithBytes);
            }
            self.add_directory(prefix, &object.key);
            return;
        }
        match check_name(name) {
            Err(reason) => self.hide(&object.key, reason),
            Ok(()) => self.add(prefix, name, NameFacts::of_listed(object)),
        }
    }

    /// Add a common prefix directly below `prefix`.
    pub(crate) fn add_directory(&mut self, prefix: &str, whole: &str) {
        let Some(name) = whole.strip_prefix(prefix).and_then(|name| name.strip_suffix('/')) else { return };
        match check_name(name) {
            Err(reason) => self.hide(whole, reason),
            Ok(()) => self.add(prefix, name, NameFacts::directory()),
        }
    }

    /// The time of the directory's own object as a snapshot had it.
    pub(crate) fn restore_marker(&mut self, marker: f64) {
        self.marker = marker;
    }

    /// Add a name as a snapshot had it.
    pub(crate) fn restore(&mut self, name: String, facts: NameFacts) {
        self.found.insert(name, facts);
    }

    /// The hidden keys as a snapshot had them.
    pub(crate) fn restore_hidden(&mut self, hidden: Vec<HiddenKey>, count: u64) {
        (self.hidden, self.hidden_count) = (hidden, count);
    }

    fn add(&mut self, prefix: &str, name: &str, facts: NameFacts) {
        use std::collections::hash_map::Entry::{Occupied, Vacant};
        match self.found.entry(name.to_owned()) {
            Vacant(place) => {
                place.insert(facts);
            }
            Occupied(mut place) => {
                if facts.kind == FileKind::Directory {
                    if place.get().kind != FileKind::Directory {
                        place.insert(facts);
                        self.hide(&format!("{prefix}{name}"), HiddenReason::ShadowedByDirectory);
                    }
                } else if place.get().kind == FileKind::Directory {
                    self.hide(&format!("{prefix}{name}"), HiddenReason::ShadowedByDirectory);
                }
            }
        }
    }

    /// Objects of rclone that stand for links get the names of the links.
    fn rename_links(&mut self, prefix: &str) {
        let links: Vec<String> = self.found.keys().filter(|name| link_name(name).is_some()).cloned().collect();
        for name in links {
            let Some(target) = link_name(&name) else { continue };
            let is_file = self.found.get(&name).is_some_and(|facts| facts.kind == FileKind::File);
            if !is_file {
                continue;
            }
            if self.found.contains_key(target) {
                self.found.remove(&name);
                self.hide(&format!("{prefix}{name}"), HiddenReason::ShadowedByFile);
            } else if let Some(facts) = self.found.remove(&name) {
                self.found.insert(target.to_owned(), NameFacts { kind: FileKind::Symlink, ..facts });
            }
        }
    }

    /// The snapshot. Names of `old` keep their cookies; new ones begin at `next_cookie`, which continues. `inode` gives
    /// each name its number.
    pub(crate) fn finish(
        mut self,
        prefix: &str,
        old: Option<&Snapshot>,
        next_cookie: &mut u32,
        mut inode: impl FnMut(&str, &NameFacts) -> u64,
    ) -> Snapshot {
        self.rename_links(prefix);
        let mut found: Vec<(String, NameFacts)> = self.found.into_iter().collect();
        found.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        let mut names = String::with_capacity(found.iter().map(|(name, _)| name.len()).sum());
        let mut entries: Vec<SnapshotEntry> = Vec::with_capacity(found.len());
        for (name, facts) in found {
            // A listing whose names need more than 4 GiB is beyond what one directory can show.
            let (Ok(name_start), Ok(name_length)) = (u32::try_from(names.len()), u16::try_from(name.len())) else {
                break;
            };
            let saved_names = old.and_then(|old| Some(old.entry(old.find(&name)?)?.cookie));
            let cookie = saved_names.unwrap_or_else(|| {
                let cookie = *next_cookie;
                *next_cookie = cookie.saturating_add(1);
                cookie
            });
            names.push_str(&name);
            entries.push(SnapshotEntry {
                inode: inode(&name, &facts),
                size: facts.size,
                modified: facts.modified,
                etag: CompactEtag::new(&facts.etag),
                cookie,
                name_start,
                name_length,
                kind: facts.kind,
                archived: facts.archived,
                is_plain_link: facts.is_plain_link,
            });
        }
        entries.sort_unstable_by_key(|entry| entry.cookie);
        let text = |entry: &SnapshotEntry| {
            let start = entry.name_start as usize;
            &names[start..start + usize::from(entry.name_length)]
        };
        let mut by_name: Vec<u32> = (0..u32::try_from(entries.len()).unwrap_or(u32::MAX)).collect();
        by_name.sort_unstable_by(|a, b| text(&entries[*a as usize]).cmp(text(&entries[*b as usize])));
        let (hidden, hidden_count, marker) = (self.hidden, self.hidden_count, self.marker);
        let newest = entries.iter().map(|entry| entry.modified).fold(marker, f64::max);
        Snapshot { entries, by_name, names, hidden, hidden_count, newest, marker, sorted: OnceLock::new() }
    }
}

/// The name of the link that an object of rclone stands for.
fn link_name(name: &str) -> Option<&str> {
    name.strip_suffix(RCLONE_LINK).filter(|rest| !rest.is_empty())
}

/// Inodes of a snapshot, to find out which of them are gone in the next one.
pub(crate) fn inodes(snapshot: &Snapshot) -> HashSet<u64> {
    snapshot.entries.iter().map(|entry| entry.inode).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(key: &str, size: u64) -> ListedObject {
        let etag = "d41d8cd98f00b204e9800998ecf8427e".to_owned();
        ListedObject { key: key.to_owned(), size, etag, last_modified: 1.0, storage_class: None, refusal: None }
    }

    fn snapshot(keys: &[&str], old: Option<&Snapshot>, next: &mut u32) -> Snapshot {
        let mut builder = SnapshotBuilder::default();
        for key in keys {
            if key.ends_with('/') {
                builder.add_directory("p/", key);
            } else {
                builder.add_object("p/", &object(key, 1));
            }
        }
        builder.finish("p/", old, next, |name, _| name.len() as u64)
    }

    fn names(snapshot: &Snapshot) -> Vec<&str> {
        snapshot.entries().iter().map(|entry| snapshot.name(entry)).collect()
    }

    #[test]
    fn etags_come_back_as_they_were() {
        let md5 = "d41d8cd98f00b204e9800998ecf8427e";
        for text in [md5, &format!("{md5}-17"), &md5.to_uppercase(), "", "odd-etag", &format!("{md5}-017"), "é"] {
            assert_eq!(CompactEtag::new(text).text(), text);
        }
        assert!(matches!(CompactEtag::new(md5), CompactEtag::Md5(_)));
        assert!(size_of::<SnapshotEntry>() <= 64, "{}", size_of::<SnapshotEntry>());
    }

    #[test]
    fn names_keep_their_cookies_and_new_ones_come_last() {
        let mut next = FIRST_COOKIE;
        let first = snapshot(&["p/b", "p/d", "p/c/"], None, &mut next);
        let second = snapshot(&["p/a", "p/d", "p/b"], Some(&first), &mut next);

        assert_eq!(names(&first), ["b", "c", "d"]);
        assert_eq!(names(&second), ["b", "d", "a"]);
        let at_b = u64::from(first.entries()[0].cookie);
        let rest: Vec<_> = second.after(at_b).map(|(_, entry)| second.name(entry)).collect();
        assert_eq!(rest, ["d", "a"]);
        assert_eq!(second.find("a"), Some(2));
        assert_eq!(second.find("c"), None);
    }

    #[test]
    fn what_cannot_be_a_file_is_hidden_and_named() {
        let mut builder = SnapshotBuilder::default();
        for key in ["p/a", "p/..", "p/", "p/l.rclonelink", "p/m", "p/m.rclonelink"] {
            builder.add_object("p/", &object(key, 3));
        }
        for prefix in ["p/a/", "p//", "p/./"] {
            builder.add_directory("p/", prefix);
        }
        let snapshot = builder.finish("p/", None, &mut 3, |_, _| 1);

        assert_eq!(names(&snapshot), ["a", "l", "m"]);
        let kinds: Vec<_> = snapshot.entries().iter().map(|entry| entry.kind).collect();
        assert_eq!(kinds, [FileKind::Directory, FileKind::Symlink, FileKind::File]);
        let hidden: Vec<_> = snapshot.hidden.iter().map(|hidden| (hidden.key.as_str(), hidden.reason)).collect();
        assert_eq!(
            hidden,
            [
                ("p/..", HiddenReason::DotSegment),
                ("p/", HiddenReason::DirectoryWithBytes),
                ("p/a", HiddenReason::ShadowedByDirectory),
                ("p//", HiddenReason::EmptySegment),
                ("p/./", HiddenReason::DotSegment),
                ("p/m.rclonelink", HiddenReason::ShadowedByFile),
            ]
        );
    }
}
