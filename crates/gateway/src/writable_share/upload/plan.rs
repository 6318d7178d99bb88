//! Plan of the uploads and removals, computed from the overlay alone: files, their keys, and the order.
//!
//! - A file is uploaded to the key of its path. It waits while the object at that key is still the source of another
//!   file: one that was renamed and is not copied yet. Files that wait for each other in a cycle are downloaded first.
//! - The same applies where an object makes a folder of the file's name, or a file of the name of a folder above it: a
//!   bucket can hold both, and a tree shows one of them.
//! - A file waits while its folder, which the bucket alone has, is below a folder that was renamed and has its files at
//!   its old path still: with its last object there, the folder would not show any more.
//! - A pending removal is made when no file replaces the object at its key, and no file takes bytes from it.

use std::collections::{HashMap, HashSet};
use std::ops::Bound;

use seqferry_transfer::pipe::ReplaceCondition;

use crate::file_table::{FileTable, ROOT};
use crate::overlay::{Node, NodeContent, OpenUpload, Overlay, is_below};

/// Folder of the share for files that lost against another program's. It shows as others do, for people to compare.
pub(super) const CONFLICTS: &str = ".seqferry-conflicts";

/// Folder of the parts of files that grow. It is no folder of the share, and there while one of them is copied.
pub(super) const PARTS: &str = ".seqferry-parts";

/// Ending of the list of ranges that are not known, beside a kept file.
pub(super) const UNKNOWN: &str = ".unknown";

/// True for such a list, by its path below [`CONFLICTS`].
pub(crate) fn is_range_list(kept: &str) -> bool {
    let changed = kept.strip_suffix(UNKNOWN).and_then(|file| file.rsplit_once('.'));
    changed.is_some_and(|(_, changed)| changed.parse::<u64>().is_ok())
}

/// One task of the uploader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum UploadTask {
    /// Upload this file.
    Send(FileUpload),
    /// Download the bytes of a file: its object is to be replaced before they are copied.
    Fetch(u64),
    /// A write of a file that is no more was cut off: its outcome must be determined.
    Resolve(u64),
    /// A folder that was renamed here has its files elsewhere in the bucket.
    Move(u64),
    /// An object or folder marker is to be removed. Of a marker the version is not known.
    Remove { path: Box<str>, etag: Box<str> },
    /// Clean files have become many: the bucket alone is to show them.
    Evict,
    /// Upload parts of a file that still grows.
    Grow(u64),
    /// Parts of a file are not needed: it is no more, or the bucket has it as it is.
    AbortGrowing(u64),
}

/// A file as it is to be uploaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FileUpload {
    pub(super) number: u64,
    /// Its `changed`: another value is another generation.
    pub(super) changed: u64,
    pub(super) path: Box<str>,
    pub(super) replaces: ReplaceCondition,
    /// An attempt of it, or of another generation, was recorded before.
    pub(super) is_again: bool,
}

/// Path of a file that is kept beside another program's object, where so many are taken by other files.
pub(super) fn conflict_path(path: &str, changed: u64, taken: u32) -> String {
    if taken == 0 { format!("{CONFLICTS}/{path}.{changed}") } else { format!("{CONFLICTS}/{path}.{taken}.{changed}") }
}

/// True for a write of a file beside another program's object. Files that users put into that folder are as others.
pub(super) fn is_conflict_copy(open: &OpenUpload) -> bool {
    open.path.starts_with(CONFLICTS) && open.path.ends_with(&format!(".{}", open.changed))
}

fn is_directory(node: &Node) -> bool {
    node.content == NodeContent::Directory
}

/// Path of a file that the bucket does not have as it is, or not there.
fn path_of(overlay: &Overlay, file_table: &FileTable, node: &Node) -> Option<String> {
    let path = overlay.path(file_table, node.file.number).ok().filter(|path| !path.is_empty())?;
    (node.is_changed() || !stands_at(node, &path)).then_some(path)
}

/// All that is to be done, and of what is to be done with files `most`. `is_settled` tells of a file, and its
/// generation, whether it was left alone for long enough. `may_resolve`: nothing that a process before has sent is on
/// its way any more.
pub(super) fn find_tasks(
    overlay: &Overlay,
    file_table: &FileTable,
    may_resolve: bool,
    most: usize,
    mut is_settled: impl FnMut(u64, u64) -> bool,
) -> Vec<UploadTask> {
    let mut work = Vec::new();
    for node in overlay.upload_candidates().filter(|node| !overlay.is_local_only(node)) {
        let number = node.file.number;
        let known = if node.is_changed() { None } else { path_of(overlay, file_table, node) };
        // Each that has changed is seen: how long it is left alone counts from here.
        if known.is_none() && !node.is_changed() || !is_settled(number, node.changed) || work.len() >= most {
            continue;
        }
        let Some(path) = known.or_else(|| path_of(overlay, file_table, node)) else { continue };
        if is_directory(node) && node.base.is_some() {
            work.push(UploadTask::Move(number));
            continue;
        }
        match blocker_of(overlay, file_table, node, &path) {
            Blocker::No => work.push(UploadTask::Send(file_upload(overlay, node, &path))),
            Blocker::Yes => {}
            Blocker::Fetch(other) => work.push(UploadTask::Fetch(other)),
        }
    }
    // Writes of files that have gone or have another path meanwhile.
    let is_cut_off = |open: &&OpenUpload| {
        let path = overlay.node(open.number).and_then(|node| overlay.path(file_table, node.file.number).ok());
        path.is_none_or(|path| !is_conflict_copy(open) && path != open.path.trim_end_matches('/'))
    };
    let cut_off = overlay.uploads().values().filter(|_| may_resolve);
    work.extend(cut_off.filter(is_cut_off).map(|open| UploadTask::Resolve(open.number)));
    let grown = overlay.growing().values().filter(|_| may_resolve);
    work.extend(
        grown.filter(|grown| !needs_parts(overlay, grown.number)).map(|grown| UploadTask::AbortGrowing(grown.number)),
    );
    let node_paths: HashMap<String, bool> = if overlay.pending_removals().is_empty() {
        HashMap::new()
    } else {
        let files = overlay.upload_candidates().filter(|node| !overlay.is_local_only(node));
        files.filter_map(|node| Some((path_of(overlay, file_table, node)?, is_directory(node)))).collect()
    };
    for (path, etag) in overlay.pending_removals() {
        let (name, is_marker) = path.strip_suffix('/').map_or((&**path, false), |name| (name, true));
        let is_replaced = node_paths.get(name) == Some(&is_marker);
        if !is_replaced && overlay.nodes_of_object(path).all(|number| !is_elsewhere(overlay, file_table, number)) {
            work.push(UploadTask::Remove { path: path.clone(), etag: etag.clone() });
        }
    }
    work
}

/// True for a file whose bytes the bucket does not have, and is to have.
pub(super) fn needs_parts(overlay: &Overlay, number: u64) -> bool {
    let is_wanted = |node: &Node| node.is_changed() && node.data().is_some() && !overlay.is_local_only(node);
    overlay.node(number).is_some_and(is_wanted)
}

fn stands_at(node: &Node, path: &str) -> bool {
    node.base.as_ref().is_some_and(|base| &*base.path == path)
}

/// Wait of a file for others.
enum Blocker {
    No,
    Yes,
    /// Until the bytes of this file are on this machine: it waits for itself, or has no other object ever.
    Fetch(u64),
}

/// True when a file, link or folder has another path than it has in the bucket.
pub(super) fn is_elsewhere(overlay: &Overlay, file_table: &FileTable, number: u64) -> bool {
    overlay.node(number).is_some_and(|node| overlay.is_elsewhere(file_table, node))
}

/// Paths that are above a path.
fn above(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').map(|(at, _)| &path[..at])
}

/// True when a file, or folder, and an object exclude each other: a name is either a file or a folder.
fn are_in_the_way(path: &str, object: &str, is_folder: bool) -> bool {
    path == object || above(path).any(|above| above == object) || !is_folder && is_below(object, path)
}

/// True when the object of an open write and a file, or folder, exclude each other. A marker excludes no file in its
/// folder.
fn is_write_in_the_way(path: &str, open: &OpenUpload, is_folder: bool) -> bool {
    match open.path.strip_suffix('/') {
        Some(folder) => path == folder || !is_folder && is_below(folder, path),
        None => are_in_the_way(path, &open.path, is_folder),
    }
}

/// True when a file, or folder, waits for another whose last attempt has failed.
pub(super) fn waits_for_failed(
    overlay: &Overlay,
    file_table: &FileTable,
    node: &Node,
    has_failed: impl Fn(u64) -> bool,
    has_failed_key: impl Fn(&str) -> bool,
) -> bool {
    let Ok(path) = overlay.path(file_table, node.file.number) else { return false };
    let is_folder = is_directory(node);
    let in_the_way =
        |open: &&OpenUpload| open.number != node.file.number && is_write_in_the_way(&path, open, is_folder);
    let mut removals = overlay.pending_removals().keys();
    overlay.uploads().values().filter(in_the_way).any(|open| has_failed(open.number))
        || blockers(overlay, file_table, &path, is_folder).iter().any(|other| has_failed(other.file.number))
        || moving_folder(overlay, file_table, node).is_some_and(&has_failed)
        || removals.any(|key| has_failed_key(key) && is_removal_in_the_way(&path, key, is_folder))
}

/// True when an object must be removed first that makes a folder of a file's name, or a file of the name of a folder
/// above it.
fn has_doomed_in_the_way(overlay: &Overlay, path: &str, is_folder: bool) -> bool {
    let below = format!("{path}/");
    let first = overlay.pending_removals().range::<str, _>((Bound::Included(&*below), Bound::Unbounded)).next();
    let has_below = first.is_some_and(|(pending_removals, _)| pending_removals.starts_with(&*below));
    !is_folder && has_below || above(path).any(|above| overlay.pending_removals().contains_key(above))
}

/// The same of one of them.
fn is_removal_in_the_way(path: &str, removed: &str, is_folder: bool) -> bool {
    !is_folder && is_below(removed, path) && removed != path || above(path).any(|above| above == removed)
}

/// Files and folders of other paths meanwhile that have a path in the bucket, or what must not be beside it there.
fn blockers<'a>(overlay: &'a Overlay, file_table: &FileTable, path: &str, is_folder: bool) -> Vec<&'a Node> {
    let mut found: Vec<u64> = above(path).chain([path]).flat_map(|at| overlay.nodes_of_object(at)).collect();
    if !is_folder {
        found.extend(overlay.nodes_of_prefix(path));
    }
    found.retain(|number| is_elsewhere(overlay, file_table, *number));
    found.into_iter().filter_map(|number| overlay.node(number)).collect()
}

/// The renamed folder above a file whose own folder the bucket alone has, at a path below the old one.
fn moving_folder(overlay: &Overlay, file_table: &FileTable, node: &Node) -> Option<u64> {
    let mut above = node.parent;
    if overlay.node(above).is_some() || overlay.lower(file_table, above).ok()? == overlay.path(file_table, above).ok() {
        return None;
    }
    while above != ROOT && overlay.node(above).is_none() {
        above = overlay.parent(file_table, above);
    }
    Some(above)
}

/// Wait of a file, or folder, for what is in its way in the bucket.
fn blocker_of(overlay: &Overlay, file_table: &FileTable, node: &Node, path: &str) -> Blocker {
    let (number, is_folder) = (node.file.number, is_directory(node));
    // The object there is unknown, or about to be removed.
    let mut written = overlay.uploads().values().filter(|open| open.number != number);
    if written.any(|open| is_write_in_the_way(path, open, is_folder))
        || has_doomed_in_the_way(overlay, path, is_folder)
        || moving_folder(overlay, file_table, node).is_some()
    {
        return Blocker::Yes;
    }
    let mut todo = blockers(overlay, file_table, path, is_folder);
    let mut seen = HashSet::new();
    let wait = if todo.is_empty() { Blocker::No } else { Blocker::Yes };
    while let Some(other) = todo.pop() {
        if other.file.number == number || overlay.is_local_only(other) {
            return Blocker::Fetch(other.file.number);
        }
        if seen.insert(other.file.number)
            && !is_directory(other)
            && let Ok(path) = overlay.path(file_table, other.file.number)
        {
            todo.extend(blockers(overlay, file_table, &path, false));
        }
    }
    wait
}

/// True when a file that is to be sent is what it was when that was planned, and nothing is in its way meanwhile.
pub(super) fn may_send(overlay: &Overlay, file_table: &FileTable, file_upload: &FileUpload) -> bool {
    let Some(node) = overlay.node(file_upload.number).filter(|node| node.changed == file_upload.changed) else {
        return false;
    };
    let is_there = overlay.path(file_table, file_upload.number).is_ok_and(|path| *path == *file_upload.path);
    is_there && matches!(blocker_of(overlay, file_table, node, &file_upload.path), Blocker::No)
}

fn file_upload(overlay: &Overlay, node: &Node, path: &str) -> FileUpload {
    let replaces = match &node.base {
        Some(base) if &*base.path == path => ReplaceCondition::Version(base.etag.to_string()),
        _ => match overlay.pending_removals().get(path) {
            Some(etag) => ReplaceCondition::Version(etag.to_string()),
            None => ReplaceCondition::Nothing,
        },
    };
    let is_again = overlay.uploads().contains_key(&node.file.number);
    FileUpload { number: node.file.number, changed: node.changed, path: path.into(), replaces, is_again }
}

/// True when the bucket has a file as it is, at its path, and nothing there is under way.
pub(super) fn is_clean(overlay: &Overlay, node: &Node) -> bool {
    let Some(base) = &node.base else { return false };
    let is_whole = node.data().is_some_and(|data| data.written.is_empty() && data.unsynced.is_empty());
    is_whole && node.is_as_base() && !node.is_changed() && !overlay.uploads().contains_key(&node.file.number) && {
        let (_, name) = base.path.rsplit_once('/').unwrap_or(("", &base.path));
        *name == *node.name && !overlay.is_local_only(node)
    }
}

/// True when the bucket shows a clean file as the overlay does, where its tree has its object.
pub(super) fn may_evict(overlay: &Overlay, file_table: &FileTable, node: &Node) -> bool {
    let Some(base) = node.base.as_ref().filter(|_| is_clean(overlay, node)) else { return false };
    let (above, _) = base.path.rsplit_once('/').unwrap_or(("", &base.path));
    let is_in_its_folder = |prefix: Option<String>| prefix.is_some_and(|prefix| *prefix == *above);
    overlay.path(file_table, node.file.number).is_ok_and(|path| *path == *base.path)
        && overlay.lower(file_table, node.parent).is_ok_and(is_in_its_folder)
        && !overlay.pending_removals().contains_key(&base.path)
        && overlay.nodes_of_object(&base.path).all(|number| number == node.file.number)
        && matches!(blocker_of(overlay, file_table, node, &base.path), Blocker::No)
}

/// True when a file has another path than its object.
pub(super) fn has_any_moved(overlay: &Overlay, file_table: &FileTable) -> bool {
    let has_moved = |node: &Node| {
        let path = overlay.path(file_table, node.file.number);
        node.base.is_some() && path.is_ok_and(|path| !stands_at(node, &path))
    };
    overlay.nodes().any(has_moved)
}

/// Names of the bucket that may show again: nothing of theirs is to be removed, nor to be copied from.
pub(super) fn to_show(overlay: &Overlay, file_table: &FileTable) -> Vec<(u64, Box<str>)> {
    if overlay.hidden().next().is_none() {
        return Vec::new();
    }
    let moved: Vec<&str> = overlay
        .nodes()
        .filter(|_| overlay.has_moved())
        .filter_map(|node| {
            let base = node.base.as_ref()?;
            let is_there = overlay.path(file_table, node.file.number).is_ok_and(|path| *path == *base.path);
            (!is_there).then_some(&*base.path)
        })
        .collect();
    let hidden = overlay.hidden().filter_map(|(parent, name)| {
        let prefix = overlay.lower(file_table, parent).ok();
        // A directory that is gone, or has nothing in the bucket, hides nothing.
        let Some(Some(prefix)) = prefix else { return Some((parent, name.into())) };
        let path = crate::overlay::join(&prefix, name);
        let below = format!("{path}/");
        let first = overlay.pending_removals().range::<str, _>((Bound::Included(&*below), Bound::Unbounded)).next();
        let is_doomed = overlay.pending_removals().contains_key(&*path)
            || first.is_some_and(|(pending_removals, _)| pending_removals.starts_with(&*below));
        let is_source = moved.iter().any(|base| is_below(base, &path));
        (!is_doomed && !is_source).then(|| (parent, name.into()))
    });
    hidden.collect()
}
