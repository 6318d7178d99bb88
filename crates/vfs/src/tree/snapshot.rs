//! A complete listing of one directory, compact, with stable cookies.
//!
//! Entries are ordered by cookie. A name keeps its cookie from one snapshot of the directory to the next, and new names
//! get higher ones: a reader that continues at a cookie after a refresh neither skips nor repeats a name that stayed.
//! Once a snapshot is made it does not change.

use std::collections::HashSet;
use std::sync::OnceLock;

use seqferry_store::ListedObject;

use super::facts::{as_link, may_be_link, whole_seconds};
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
    pub(crate) etag: CompactEtag,
    /// Seconds since the epoch.
    modified: u32,
    pub(crate) cookie: u32,
    name_start: u32,
    name_length: u8,
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
            modified: f64::from(self.modified),
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
        name_in(&self.names, entry)
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
        for at in 0..self.entries.len() {
            let entry = &self.entries[at];
            self.entries[at].inode = number(self.name(entry), &entry.facts(), entry.inode);
        }
        let mut sorted: Vec<u64> = self.entries.iter().map(|entry| entry.inode).collect();
        sorted.sort_unstable();
        if sorted.is_sorted_by(|a, b| a < b) {
            return;
        }
        let mut taken = HashSet::with_capacity(self.entries.len());
        for entry in &mut self.entries {
            while !taken.insert(entry.inode) {
                entry.inode = entry.inode.wrapping_add(1).max(2);
            }
        }
    }

    /// Make links of the files that `is_link` knows by their inodes.
    pub(crate) fn make_links(&mut self, is_link: impl Fn(u64, f64) -> bool) {
        for entry in &mut self.entries {
            if entry.kind == FileKind::File
                && may_be_link(entry.size)
                && is_link(entry.inode, f64::from(entry.modified))
            {
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
    names: String,
    /// In the order in which they came, without inodes and cookies. A name may be there more than once.
    entries: Vec<SnapshotEntry>,
    hidden: HiddenKeys,
    marker: f64,
}

/// The hidden keys of a directory: the first of them by name, and how many they are.
#[derive(Debug, Default)]
struct HiddenKeys {
    named: Vec<HiddenKey>,
    count: u64,
}

impl HiddenKeys {
    fn add(&mut self, key: &str, reason: HiddenReason) {
        self.count += 1;
        if self.named.len() < NAMED {
            self.named.push(HiddenKey { key: key.to_owned(), reason });
        }
    }
}

impl SnapshotBuilder {
    /// Names so far.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Add an object directly below `prefix`.
    pub(crate) fn add_object(&mut self, prefix: &str, object: &ListedObject) {
        let Some(name) = object.key.strip_prefix(prefix) else { return };
        if name.is_empty() {
            self.marker = object.last_modified.floor();
            if object.size > 0 {
                self.hidden.add(&object.key, HiddenReason::DirectoryWithBytes);
            }
            return;
        }
        // Some services list folders as objects. Bytes of one have no name.
        if name.ends_with('/') {
            if object.size > 0 {
                self.hidden.add(&object.key, HiddenReason::DirectoryWithBytes);
            }
            self.add_directory(prefix, &object.key);
            return;
        }
        match check_name(name) {
            Err(reason) => self.hidden.add(&object.key, reason),
            Ok(()) => self.add(name, &NameFacts::of_listed(object)),
        }
    }

    /// Add a common prefix directly below `prefix`.
    pub(crate) fn add_directory(&mut self, prefix: &str, whole: &str) {
        let Some(name) = whole.strip_prefix(prefix).and_then(|name| name.strip_suffix('/')) else { return };
        match check_name(name) {
            Err(reason) => self.hidden.add(whole, reason),
            Ok(()) => self.add(name, &NameFacts::directory()),
        }
    }

    /// The time of the directory's own object as a snapshot had it.
    pub(crate) fn restore_marker(&mut self, marker: f64) {
        self.marker = marker;
    }

    /// The hidden keys as a snapshot had them.
    pub(crate) fn restore_hidden(&mut self, named: Vec<HiddenKey>, count: u64) {
        self.hidden = HiddenKeys { named, count };
    }

    /// Add a name with what is known of it.
    pub(crate) fn add(&mut self, name: &str, facts: &NameFacts) {
        // A listing whose names need more than 4 GiB is beyond what one directory can show; no name is longer than 255.
        let (Ok(name_start), Ok(name_length)) = (u32::try_from(self.names.len()), u8::try_from(name.len())) else {
            return;
        };
        self.names.push_str(name);
        self.entries.push(SnapshotEntry {
            inode: 0,
            size: facts.size,
            etag: CompactEtag::new(&facts.etag),
            modified: whole_seconds(facts.modified),
            cookie: 0,
            name_start,
            name_length,
            kind: facts.kind,
            archived: facts.archived,
            is_plain_link: facts.is_plain_link,
        });
    }

    /// Sort by name, and let each name be there once: a directory hides the objects that have its name.
    fn sort(&mut self, prefix: &str) {
        let Self { names, entries, hidden, .. } = self;
        let rank = |entry: &SnapshotEntry| (entry.kind != FileKind::Directory, entry.name_start);
        entries.sort_unstable_by(|a, b| name_in(names, a).cmp(name_in(names, b)).then_with(|| rank(a).cmp(&rank(b))));
        entries.dedup_by(|later, kept| {
            let is_again = name_in(names, later) == name_in(names, kept);
            if is_again && kept.kind == FileKind::Directory && later.kind != FileKind::Directory {
                hidden.add(&format!("{prefix}{}", name_in(names, later)), HiddenReason::ShadowedByDirectory);
            }
            is_again
        });
    }

    /// Objects of rclone that stand for links get the names of the links.
    fn rename_links(&mut self, prefix: &str) {
        let Self { names, entries, hidden, .. } = self;
        let is_link =
            |entry: &SnapshotEntry| entry.kind == FileKind::File && link_name(name_in(names, entry)).is_some();
        let links: Vec<usize> = (0..entries.len()).filter(|at| is_link(&entries[*at])).collect();
        let (shadowed, renamed): (Vec<usize>, Vec<usize>) = links.into_iter().partition(|at| {
            let target = link_name(name_in(names, &entries[*at])).unwrap_or_default();
            entries.binary_search_by(|entry| name_in(names, entry).cmp(target)).is_ok()
        });
        for at in &renamed {
            let entry = &mut entries[*at];
            let length = link_name(name_in(names, entry)).and_then(|name| u8::try_from(name.len()).ok());
            entry.name_length = length.unwrap_or(entry.name_length);
            entry.kind = FileKind::Symlink;
        }
        let mut shadowed = shadowed.into_iter().peekable();
        let mut at = 0..;
        entries.retain(|entry| {
            let is_shadowed = at.next().is_some_and(|at| shadowed.next_if_eq(&at).is_some());
            if is_shadowed {
                hidden.add(&format!("{prefix}{}", name_in(names, entry)), HiddenReason::ShadowedByFile);
            }
            !is_shadowed
        });
        if !renamed.is_empty() {
            entries.sort_unstable_by(|a, b| name_in(names, a).cmp(name_in(names, b)));
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
        self.sort(prefix);
        self.rename_links(prefix);
        let Self { mut names, mut entries, hidden, marker } = self;
        names.shrink_to_fit();
        entries.shrink_to_fit();
        for entry in &mut entries {
            let name = name_in(&names, entry);
            entry.inode = inode(name, &entry.facts());
            let kept = old.and_then(|old| Some(old.entry(old.find(name)?)?.cookie));
            entry.cookie = kept.unwrap_or_else(|| {
                let cookie = *next_cookie;
                *next_cookie = cookie.saturating_add(1);
                cookie
            });
        }
        entries.sort_unstable_by_key(|entry| entry.cookie);
        let mut by_name: Vec<u32> = (0..u32::try_from(entries.len()).unwrap_or(u32::MAX)).collect();
        by_name.sort_unstable_by(|a, b| {
            name_in(&names, &entries[*a as usize]).cmp(name_in(&names, &entries[*b as usize]))
        });
        let HiddenKeys { named: hidden, count: hidden_count } = hidden;
        let newest = entries.iter().map(|entry| f64::from(entry.modified)).fold(marker, f64::max);
        Snapshot { entries, by_name, names, hidden, hidden_count, newest, marker, sorted: OnceLock::new() }
    }
}

/// The name of an entry, which is one of `names`.
fn name_in<'a>(names: &'a str, entry: &SnapshotEntry) -> &'a str {
    let start = entry.name_start as usize;
    &names[start..start + usize::from(entry.name_length)]
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
    use std::collections::{BTreeMap, BTreeSet};

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
        assert!(size_of::<SnapshotEntry>() <= 56, "{}", size_of::<SnapshotEntry>());
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

    /// Kinds by name, and the keys that are hidden.
    type Shown = (BTreeMap<String, FileKind>, Vec<String>);

    /// Names that a listing shows, by the plainest rules.
    fn shown(keys: &[String]) -> Shown {
        let (mut kinds, mut hidden) = (BTreeMap::new(), Vec::new());
        for key in keys.iter().filter(|key| key.ends_with('/')) {
            kinds.insert(key[2..key.len() - 1].to_owned(), FileKind::Directory);
        }
        let files: BTreeSet<&str> = keys.iter().filter(|key| !key.ends_with('/')).map(|key| &key[2..]).collect();
        for name in &files {
            if kinds.get(*name) == Some(&FileKind::Directory) {
                hidden.push(format!("p/{name}"));
            } else if let Some(target) = link_name(name) {
                if files.contains(target) || kinds.get(target) == Some(&FileKind::Directory) {
                    hidden.push(format!("p/{name}"));
                } else {
                    kinds.insert(target.to_owned(), FileKind::Symlink);
                }
            } else {
                kinds.insert((*name).to_owned(), FileKind::File);
            }
        }
        (kinds, hidden)
    }

    #[test]
    fn names_show_once_in_whatever_order_they_come() {
        let seed = fastrand::u64(..);
        println!("seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..3000 {
            let endings = ["", "/", RCLONE_LINK, ".rclonelink.rclonelink", "-", ".rclonelink/"];
            let every = ["a", "b", "ab"].iter().flat_map(|name| endings.map(|ending| format!("p/{name}{ending}")));
            let mut keys: Vec<String> = every.filter(|_| random.bool()).collect();
            random.shuffle(&mut keys);
            let chosen: Vec<&str> = keys.iter().map(String::as_str).collect();
            let snapshot = snapshot(&chosen, None, &mut 3);

            let kinds = snapshot.entries().iter().map(|entry| (snapshot.name(entry).to_owned(), entry.kind));
            let mut hidden: Vec<String> = snapshot.hidden.iter().map(|hidden| hidden.key.clone()).collect();
            hidden.sort_unstable();
            assert_eq!((kinds.collect(), hidden), shown(&keys), "seed {seed}, {keys:?}");
            assert_eq!(snapshot.hidden_count, snapshot.hidden.len() as u64);
            for entry in snapshot.entries() {
                assert_eq!(
                    snapshot.find(snapshot.name(entry)).and_then(|at| snapshot.entry(at)).map(|it| it.cookie),
                    Some(entry.cookie)
                );
            }
        }
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
                ("p//", HiddenReason::EmptySegment),
                ("p/./", HiddenReason::DotSegment),
                ("p/a", HiddenReason::ShadowedByDirectory),
                ("p/m.rclonelink", HiddenReason::ShadowedByFile),
            ]
        );
    }
}
