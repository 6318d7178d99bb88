//! Listing a tree in the order of keys, in bounded memory.
//!
//! Within a folder, files sort by their name and folders by their name followed by `/`. A walk that enters each folder
//! at its place meets keys in the order of their bytes, as S3 lists them. A folder is read in passes, each of which
//! keeps the next names in order: a folder of ten million files takes more passes, not more memory.
//!
//! A walk that stops at the end of a page waits for the next one. A few waiting walks are kept. A page whose walk is
//! gone is served by a new walk that begins after the last key, which costs a pass for each folder on the path.
//!
//! No entry is left out silently: one that cannot be an object is listed with its reason. Only our own unfinished
//! files, and files that vanish during the walk, are not listed.

use std::collections::{BinaryHeap, VecDeque};
use std::fmt::Write as _;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, percent_encode};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::disk_failure::{DiskFailure, Result};
use super::facts::{Pin, file_type};
use super::folders::{self, Identity};
use super::names::{is_unfinished_file, path_of_key};
use super::read::stat_at;
use super::{DiskOptions, Symlinks};
use crate::error::classify::code;
use crate::types::{EntryRefusal, ListPage, ListRequest, ListedObject};

/// Entries in a page, as in S3.
const PAGE: usize = 1000;
/// Names of one folder that are kept at a time: a few megabytes.
pub(super) const PASS: usize = 65_536;
/// Folders of a walk that stay open; those above are opened again when the walk comes back to them.
const OPEN: usize = 8;
/// Walks that wait for their next page. Further ones are resumed at the cost of another pass.
const WAITING: usize = 32;

/// The walks that wait.
#[derive(Debug, Default)]
pub(super) struct Walks {
    waiting: Mutex<VecDeque<(WalkKey, Walk)>>,
}

/// Key of a waiting walk: its listing, and the token of its next page.
#[derive(Debug, PartialEq, Eq)]
struct WalkKey {
    bucket: String,
    prefix: String,
    grouped: bool,
    token: String,
}

impl Walks {
    fn lock(&self) -> MutexGuard<'_, VecDeque<(WalkKey, Walk)>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn page(&self, options: &DiskOptions, request: &ListRequest) -> Result<ListPage> {
        let grouped = match request.delimiter.as_deref() {
            None => false,
            Some("/") => true,
            Some(other) => {
                return Err(DiskFailure::new("InvalidArgument", format!("a disk groups by '/', not by '{other}'")));
            }
        };
        let mut place = WalkKey {
            bucket: request.bucket.clone(),
            prefix: request.prefix.clone(),
            grouped,
            token: request.continuation.clone().unwrap_or_default(),
        };
        let waiting = {
            let mut all = self.lock();
            let at = all.iter().position(|(other, _)| !place.token.is_empty() && *other == place);
            at.and_then(|at| all.remove(at))
        };
        let mut walk = match (waiting, &request.continuation) {
            (Some((_, walk)), _) => walk,
            (None, Some(token)) => Walk::begin(options, &place, WalkStart::read(token)?)?,
            (None, None) => {
                let after = request.start_after.as_ref().map(|key| WalkStart { key: key.clone().into(), group: false });
                Walk::begin(options, &place, after.unwrap_or_default())?
            }
        };
        let most = request.max_keys.and_then(|most| usize::try_from(most).ok()).unwrap_or(PAGE).clamp(1, PAGE);
        let mut page = ListPage::default();
        let mut last = WalkStart::default();
        while page.objects.len() + page.common_prefixes.len() < most {
            let Some(found) = walk.next()? else { return Ok(page) };
            last = WalkStart { key: found.key, group: matches!(found.what, WalkItem::Group(_)) };
            match found.what {
                WalkItem::Object(object) => page.objects.push(object),
                WalkItem::Group(group) => page.common_prefixes.push(group),
            }
        }
        walk.ahead = walk.next()?;
        if walk.ahead.is_some() {
            place.token = last.text();
            page.continuation = Some(place.token.clone());
            let mut all = self.lock();
            if all.len() >= WAITING {
                all.pop_front();
            }
            all.push_back((place, walk));
        }
        Ok(page)
    }
}

/// Start of a walk: after this key, or after everything in this group.
#[derive(Debug, Clone, Default)]
struct WalkStart {
    /// Key as bytes: names need not be UTF-8.
    key: Vec<u8>,
    group: bool,
}

impl WalkStart {
    fn text(&self) -> String {
        format!("{}{}", if self.group { 'g' } else { 'k' }, percent_encode(&self.key, NON_ALPHANUMERIC))
    }

    fn read(token: &str) -> Result<Self> {
        let wrong = || DiskFailure::new("InvalidArgument", "this is no continuation of a listing of a disk");
        let (group, key) = token
            .strip_prefix('g')
            .map(|key| (true, key))
            .or_else(|| token.strip_prefix('k').map(|key| (false, key)))
            .ok_or_else(wrong)?;
        Ok(Self { key: percent_decode_str(key).collect(), group })
    }

    /// True when this place lies before the start. A folder's place ends in `/` and stands for all below it.
    fn passes(&self, place: &[u8], is_folder: bool) -> bool {
        if is_folder {
            (place < self.key.as_slice() && !self.key.starts_with(place)) || (self.group && place == self.key)
        } else {
            place <= self.key.as_slice()
        }
    }
}

/// An entry of the listing, and the key at which the walk found it.
#[derive(Debug)]
struct WalkEntry {
    key: Vec<u8>,
    what: WalkItem,
}

#[derive(Debug)]
enum WalkItem {
    Object(ListedObject),
    Group(String),
}

/// A name in a folder, ordered as keys are.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Name {
    /// Name; a folder's ends in `/`.
    place: Box<[u8]>,
}

impl Name {
    fn is_folder(&self) -> bool {
        self.place.ends_with(b"/")
    }

    fn name(&self) -> &[u8] {
        self.place.strip_suffix(b"/").unwrap_or(&self.place)
    }
}

#[derive(Debug)]
struct Level {
    /// Handle of the folder. None: it must be opened again.
    folder: Option<OwnedFd>,
    id: Identity,
    /// Prefix of the keys below: empty, or with a `/` at the end.
    path: Vec<u8>,
    names: std::vec::IntoIter<Name>,
    /// Last name of this pass if more names follow.
    more: Option<Box<[u8]>>,
}

/// One walk.
#[derive(Debug)]
struct Walk {
    options: DiskOptions,
    bucket: String,
    /// Prefix of the names in the first folder.
    start: Vec<u8>,
    after: WalkStart,
    grouped: bool,
    levels: Vec<Level>,
    /// Entry found already, for the next page.
    ahead: Option<WalkEntry>,
}

impl Walk {
    fn begin(options: &DiskOptions, what: &WalkKey, after: WalkStart) -> Result<Self> {
        let root = folders::root(&what.bucket)?;
        let (base, start) = what.prefix.rsplit_once('/').unwrap_or(("", &what.prefix));
        let mut walk = Self {
            options: options.clone(),
            bucket: what.bucket.clone(),
            start: start.into(),
            after,
            grouped: what.grouped,
            levels: Vec::new(),
            ahead: None,
        };
        let names: Vec<&str> = if base.is_empty() { Vec::new() } else { base.split('/').collect() };
        // No valid path starts with an invalid one.
        if what.prefix.starts_with('/') || (!base.is_empty() && path_of_key(base).is_err()) {
            return Ok(walk);
        }
        let folder = match folders::descend(root, &names, walk.follows()) {
            Ok(folder) => folder,
            Err(fail) if fail.code == "NoSuchKey" => return Ok(walk),
            Err(fail) => return Err(fail),
        };
        let path = if base.is_empty() { Vec::new() } else { format!("{base}/").into_bytes() };
        walk.ahead = walk.enter(folder, path)?;
        Ok(walk)
    }

    fn follows(&self) -> bool {
        self.options.symlinks == Symlinks::Follow
    }

    fn next(&mut self) -> Result<Option<WalkEntry>> {
        if let Some(found) = self.ahead.take() {
            return Ok(Some(found));
        }
        while let Some(level) = self.levels.last_mut() {
            let Some(name) = level.names.next() else {
                match level.more.take() {
                    None => {
                        self.levels.pop();
                    }
                    Some(after) => self.read_on(&after)?,
                }
                continue;
            };
            if let Some(found) = self.list_entry(&name)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Reads the next names of the present folder.
    fn read_on(&mut self, after: &[u8]) -> Result<()> {
        let at = self.levels.len() - 1;
        self.open(at)?;
        let level = &self.levels[at];
        let Some(folder) = &level.folder else { return Ok(()) };
        let (names, more, _) = self.names(folder, &level.path, at == 0, Some(after))?;
        (self.levels[at].names, self.levels[at].more) = (names.into_iter(), more);
        Ok(())
    }

    /// Opens the folder of a level if it is closed.
    fn open(&mut self, at: usize) -> Result<()> {
        if self.levels[at].folder.is_some() {
            return Ok(());
        }
        // Folders whose names are no UTF-8 are not entered.
        let path = String::from_utf8_lossy(&self.levels[at].path).into_owned();
        let names: Vec<&str> = path.split('/').filter(|name| !name.is_empty()).collect();
        self.levels[at].folder = Some(folders::descend(folders::root(&self.bucket)?, &names, self.follows())?);
        Ok(())
    }

    /// Enter a folder. Some: it is empty, and is to be listed.
    fn enter(&mut self, folder: OwnedFd, path: Vec<u8>) -> Result<Option<WalkEntry>> {
        let stat = rustix::fs::fstat(&folder)?;
        let (names, more, empty) = self.names(&folder, &path, self.levels.is_empty(), None)?;
        let id = folders::identity(&folder)?;
        let wanted = empty
            && self.options.empty_folders
            && !path.is_empty()
            && self.start.is_empty() | !self.levels.is_empty()
            && !self.after.passes(&path, false);
        let found = wanted.then(|| WalkEntry { key: path.clone(), what: WalkItem::Object(to_listed(&path, &stat)) });
        self.levels.push(Level { folder: Some(folder), id, path, names: names.into_iter(), more });
        if let Some(above) = self.levels.len().checked_sub(OPEN + 1) {
            self.levels[above].folder = None;
        }
        Ok(found)
    }

    /// Returns the names of a folder in order, as many as a pass keeps; the start of the next pass; and true if there
    /// are none.
    #[allow(clippy::type_complexity)]
    fn names(
        &self,
        folder: &OwnedFd,
        path: &[u8],
        is_first: bool,
        after: Option<&[u8]>,
    ) -> Result<(Vec<Name>, Option<Box<[u8]>>, bool)> {
        // The greatest name is on top, so that a smaller one can replace it.
        let mut kept: BinaryHeap<Name> = BinaryHeap::new();
        let (mut left_out, mut empty) = (false, true);
        let mut whole = path.to_vec();
        for entry in Dir::read_from(folder)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") || is_unfinished_file(name) {
                continue;
            }
            empty = false;
            if is_first && !name.starts_with(&self.start) {
                continue;
            }
            let is_folder = match entry.file_type() {
                FileType::Directory => true,
                FileType::Symlink | FileType::Unknown => self.is_folder(folder, entry.file_name()),
                _ => false,
            };
            whole.truncate(path.len());
            whole.extend_from_slice(name);
            if is_folder {
                whole.push(b'/');
            }
            let place = &whole[path.len()..];
            if after.is_some_and(|after| place <= after) || self.after.passes(&whole, is_folder) {
                continue;
            }
            if kept.len() >= self.options.names_per_pass.max(1) {
                left_out = true;
                if kept.peek().is_some_and(|greatest| *place >= *greatest.place) {
                    continue;
                }
                kept.pop();
            }
            kept.push(Name { place: place.into() });
        }
        let kept = kept.into_sorted_vec();
        let more = if left_out { kept.last().map(|name| name.place.clone()) } else { None };
        Ok((kept, more, empty))
    }

    fn is_folder(&self, folder: &OwnedFd, name: &std::ffi::CStr) -> bool {
        let flags = if self.follows() { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
        rustix::fs::statat(folder, name, flags).is_ok_and(|stat| file_type(&stat) == FileType::Directory)
    }

    /// Returns the entry of the listing for a name. None: no entry, or a folder that the walk has entered.
    fn list_entry(&mut self, name: &Name) -> Result<Option<WalkEntry>> {
        let at = self.levels.len() - 1;
        self.open(at)?;
        let level = &self.levels[at];
        let Some(folder) = &level.folder else { return Ok(None) };
        let key = [&level.path, &*name.place].concat();
        let refused = |code, message: &str| {
            let object = ListedObject {
                key: shown(&key),
                size: 0,
                etag: String::new(),
                last_modified: 0.0,
                storage_class: None,
                refusal: Some(EntryRefusal { code, message: message.to_owned() }),
            };
            Ok(Some(WalkEntry { key: key.clone(), what: WalkItem::Object(object) }))
        };
        if std::str::from_utf8(name.name()).is_err() {
            let what = if name.is_folder() { "The folder's name is" } else { "The file's name is" };
            let rest = if name.is_folder() { " Nothing below it is copied." } else { "" };
            return refused(code::NAME_NOT_UTF8, &format!("{what} not valid UTF-8, which keys are: rename it.{rest}"));
        }
        if !name.is_folder() {
            let stat = match stat_at(folder, name.name(), self.follows()) {
                Ok(stat) => stat,
                Err(fail) if matches!(fail.code, code::SYMLINK_LOOP | code::SYMLINK_DANGLING) => {
                    return refused(fail.code, &fail.message);
                }
                // Removed since the folder was read.
                Err(fail) if fail.code == "NoSuchKey" => return Ok(None),
                Err(fail) if fail.code == code::PERMISSION_DENIED => {
                    return refused(fail.code, "Its attributes cannot be read: permission denied.");
                }
                Err(fail) => return Err(fail),
            };
            let no_object = |code| {
                let fail = DiskFailure::no_object(code);
                refused(fail.code, &fail.message)
            };
            return match file_type(&stat) {
                FileType::RegularFile => Ok(Some(WalkEntry { what: WalkItem::Object(to_listed(&key, &stat)), key })),
                FileType::Symlink if self.options.symlinks == Symlinks::Keep => {
                    Ok(Some(WalkEntry { what: WalkItem::Object(to_listed(&key, &stat)), key }))
                }
                FileType::Symlink => no_object(code::SYMLINK_SKIPPED),
                // The type has changed since the folder was read.
                FileType::Directory => Ok(None),
                _ => no_object(code::SPECIAL_FILE),
            };
        }
        if self.grouped {
            return Ok(Some(WalkEntry { what: WalkItem::Group(shown(&key)), key }));
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let flags = if self.follows() { flags } else { flags | OFlags::NOFOLLOW };
        // A folder with read and without search permission shows names, but no attributes of them.
        let entered = |below: OwnedFd| rustix::fs::statat(&below, ".", AtFlags::empty()).map(|_| below);
        let below = match rustix::fs::openat(folder, name.name(), flags, Mode::empty()).and_then(entered) {
            Ok(below) => below,
            Err(Errno::ACCESS | Errno::PERM) => {
                return refused(code::PERMISSION_DENIED, "The folder may not be read: nothing below it is copied.");
            }
            // Removed, or replaced, since the folder was read.
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
            Err(Errno::LOOP) if !self.follows() => return Ok(None),
            Err(errno) => return Err(errno.into()),
        };
        let id = folders::identity(&below)?;
        if self.levels.iter().any(|level| level.id == id) {
            return refused(code::SYMLINK_LOOP, "A symbolic link to a folder that holds it.");
        }
        self.enter(below, key)
    }
}

fn to_listed(key: &[u8], stat: &rustix::fs::Stat) -> ListedObject {
    let pin = Pin::of(stat);
    ListedObject {
        key: shown(key),
        size: pin.size,
        etag: pin.etag(),
        last_modified: pin.last_modified(),
        storage_class: None,
        refusal: None,
    }
}

/// A key as text: bytes that are not UTF-8 become `\xNN`.
fn shown(key: &[u8]) -> String {
    let mut text = String::with_capacity(key.len());
    for chunk in key.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            // Writing to a text cannot fail.
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}
