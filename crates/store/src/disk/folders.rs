//! Folders: opening, making and syncing them.
//!
//! **Invariant**: every write and removal reaches its place from the root's handle name by name, and follows no
//! symbolic link on the path. Nothing outside the root is ever changed, even when links appear while a transfer runs.

use std::collections::{HashMap, HashSet};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fs::{AtFlags, CWD, Dir, FileType, FlockOperation, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use super::DiskOptions;
use super::disk_failure::{DiskFailure, Result};
use super::facts::file_type;
use super::names::FilePurpose;
use crate::error::classify::code;

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Identity of a file on this machine: device and inode.
pub(super) type Identity = (u64, u64);

/// Cleaned folders that are remembered. When there are more, all may be cleaned again.
const CLEANED: usize = 65_536;

/// State of folders that all requests of a store share.
#[derive(Debug, Default)]
pub(super) struct Folders {
    /// Folders whose own names are synced. When there are more than [`CLEANED`], all are synced again.
    named: Mutex<HashSet<Identity>>,
    made: Mutex<()>,
    syncs: Mutex<HashMap<Identity, Arc<SharedSync>>>,
    cleaned: Mutex<HashSet<Identity>>,
    folding: Mutex<HashMap<Identity, bool>>,
}

/// A sync of one folder that several writers share: it serves every writer that asked before it began.
#[derive(Debug, Default)]
struct SharedSync {
    asked: AtomicU64,
    done: Mutex<u64>,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Open the root folder of a transfer. Links in its own path are the user's choice.
pub(super) fn root(path: &str) -> Result<OwnedFd> {
    if !path.starts_with('/') {
        return Err(DiskFailure::new(code::NO_SUCH_FOLDER, "the folder is not given by its absolute path"));
    }
    rustix::fs::openat(CWD, path, FOLDER, Mode::empty()).map_err(DiskFailure::of_root)
}

/// Open the root folder for writing. Make it if it is missing and the options allow that.
pub(super) fn root_for_writing(path: &str, options: &DiskOptions) -> Result<OwnedFd> {
    match root(path) {
        Err(fail) if options.create_root && fail.code == code::NO_SUCH_FOLDER && path.starts_with('/') => {
            make_root(Path::new(path), options.durable)
                .map_err(|error| DiskFailure::of_root(Errno::from_io_error(&error).unwrap_or(Errno::IO)))?;
            root(path)
        }
        answer => answer,
    }
}

/// Make a folder and its missing ancestors. With `durable` each is synced in its parent before the next is made.
fn make_root(path: &Path, durable: bool) -> std::io::Result<()> {
    let sync_above = |folder: &Path| match folder.parent().map(std::fs::File::open) {
        // Names in a parent without read permission cannot be synced.
        Some(Ok(above)) if durable => above.sync_all(),
        _ => Ok(()),
    };
    let missing: Vec<&Path> = path.ancestors().take_while(|each| !each.is_dir()).collect();
    // The existing folder is synced as well: a process that was killed may have made it without a sync.
    if let Some(there) = path.ancestors().nth(missing.len()) {
        sync_above(there)?;
    }
    for folder in missing.into_iter().rev() {
        match std::fs::create_dir(folder) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                if !folder.is_dir() {
                    return Err(Errno::NOTDIR.into());
                }
            }
            made => made?,
        }
        sync_above(folder)?;
    }
    Ok(())
}

/// Open a folder below the root for reading. With `follow`, links are followed wherever they lead.
pub(super) fn descend(root: OwnedFd, names: &[&str], follow: bool) -> Result<OwnedFd> {
    let flags = if follow { FOLDER } else { FOLDER.union(OFlags::NOFOLLOW) };
    names.iter().try_fold(root, |folder, name| {
        rustix::fs::openat(&folder, *name, flags, Mode::empty()).map_err(|errno| match errno {
            // A file, or a link that is not followed, has nothing below it.
            Errno::NOTDIR | Errno::NOENT => DiskFailure::from(Errno::NOENT),
            Errno::LOOP if !follow => DiskFailure::from(Errno::NOENT),
            other => other.into(),
        })
    })
}

/// Open an existing folder below the root for changes. None: a folder on the path is missing.
pub(super) fn descend_to_change(root: OwnedFd, names: &[&str]) -> Result<Option<OwnedFd>> {
    let mut folder = root;
    for name in names {
        folder = match rustix::fs::openat(&folder, *name, FOLDER.union(OFlags::NOFOLLOW), Mode::empty()) {
            Ok(below) => below,
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => match obstacle_error(&folder, name, errno) {
                // A file has nothing below it.
                fail if fail.code == code::FILE_IN_THE_WAY => return Ok(None),
                fail => return Err(fail),
            },
        };
    }
    Ok(Some(folder))
}

/// Error for a name that cannot be entered as a folder.
fn obstacle_error(folder: &OwnedFd, name: &str, errno: Errno) -> DiskFailure {
    if !matches!(errno, Errno::NOTDIR | Errno::LOOP) {
        return errno.into();
    }
    match rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).map(|stat| file_type(&stat)) {
        Ok(FileType::Symlink) => DiskFailure::new(code::SYMLINK_IN_THE_WAY, format!("{name} is a symbolic link")),
        Ok(_) => DiskFailure::new(code::FILE_IN_THE_WAY, format!("{name} is a file, and a folder is needed")),
        Err(errno) => errno.into(),
    }
}

pub(super) fn identity(file: impl AsFd) -> std::result::Result<Identity, Errno> {
    let stat = rustix::fs::fstat(file)?;
    // The type of a device number differs on other platforms.
    #[allow(clippy::useless_conversion, clippy::unnecessary_cast)]
    Ok((stat.st_dev as u64, stat.st_ino))
}

/// True when a folder is empty.
pub(super) fn is_empty(folder: &OwnedFd) -> bool {
    let Ok(mut names) = Dir::read_from(folder) else { return false };
    names.all(|entry| entry.is_ok_and(|entry| matches!(entry.file_name().to_bytes(), b"." | b"..")))
}

impl Folders {
    /// Open a folder below the root for writing, and make missing ones. Files of dead writers are removed once per
    /// folder.
    pub(super) fn descend_and_make(&self, root: OwnedFd, names: &[&str], durable: bool) -> Result<OwnedFd> {
        let mut folder = root;
        for (depth, name) in names.iter().enumerate() {
            let flags = FOLDER.union(OFlags::NOFOLLOW);
            let mut made = false;
            let below = match rustix::fs::openat(&folder, *name, flags, Mode::empty()) {
                Ok(below) => {
                    self.check_spelling(&folder, name)?;
                    below
                }
                Err(Errno::NOENT) => {
                    made = true;
                    self.make(&folder, name)
                        .map_err(|errno| if depth == 0 { of_target(errno) } else { DiskFailure::of_write(errno) })?;
                    let below = rustix::fs::openat(&folder, *name, flags, Mode::empty()).map_err(|errno| {
                        if errno == Errno::NOENT {
                            DiskFailure::of_write(errno)
                        } else {
                            obstacle_error(&folder, name, errno)
                        }
                    })?;
                    // Another process may have made it first, in another spelling.
                    self.check_spelling(&folder, name)?;
                    below
                }
                Err(errno) => return Err(obstacle_error(&folder, name, errno)),
            };
            if durable {
                self.sync_name(&folder, &below, made).map_err(DiskFailure::of_write)?;
            }
            folder = below;
        }
        self.clean_once(&folder);
        Ok(folder)
    }

    fn make(&self, folder: &OwnedFd, name: &str) -> std::result::Result<(), Errno> {
        let _alone = lock(&self.made);
        match rustix::fs::mkdirat(folder, name, Mode::from_raw_mode(0o777)) {
            // Another writer was faster.
            Err(Errno::EXIST) => Ok(()),
            other => other,
        }
    }

    /// Sync the name of a folder to the disk, once for each folder in the life of a process. An existing folder is
    /// synced as well: another process may be about to sync it, or was killed before it could.
    fn sync_name(&self, above: &OwnedFd, folder: &OwnedFd, made: bool) -> std::result::Result<(), Errno> {
        let id = identity(folder)?;
        if !made && lock(&self.named).contains(&id) {
            return Ok(());
        }
        self.sync(above)?;
        let mut named = lock(&self.named);
        if named.len() >= CLEANED {
            named.clear();
        }
        named.insert(id);
        Ok(())
    }

    /// Sync the names in a folder to the disk.
    pub(super) fn sync(&self, folder: &OwnedFd) -> std::result::Result<(), Errno> {
        let id = identity(folder)?;
        let shared = Arc::clone(lock(&self.syncs).entry(id).or_default());
        let ticket = shared.asked.fetch_add(1, Ordering::SeqCst) + 1;
        let synced = {
            let mut done = lock(&shared.done);
            if *done >= ticket {
                Ok(())
            } else {
                let upto = shared.asked.load(Ordering::SeqCst);
                rustix::fs::fsync(folder).map(|()| *done = upto)
            }
        };
        {
            let mut syncs = lock(&self.syncs);
            // Two references, the caller's and the map's, mean that no other task waits.
            if Arc::strong_count(&shared) == 2 {
                syncs.remove(&id);
            }
        }
        synced
    }

    /// Remove the files of dead writers, which are not locked any more. Best effort.
    pub(super) fn clean_once(&self, folder: &OwnedFd) {
        let Ok(id) = identity(folder) else { return };
        {
            let mut cleaned = lock(&self.cleaned);
            if cleaned.len() >= CLEANED {
                cleaned.clear();
            }
            if !cleaned.insert(id) {
                return;
            }
        }
        let Ok(entries) = Dir::read_from(folder) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name();
            match FilePurpose::read(name.to_bytes()) {
                Some((FilePurpose::Whole, _)) => remove_if_abandoned(folder, name, || true),
                // A record without its file of bytes belongs to an upload that was never begun, or is over.
                Some((FilePurpose::Record, id)) => {
                    let bytes = FilePurpose::Parts.name(id);
                    let there = || rustix::fs::statat(folder, bytes.as_str(), AtFlags::SYMLINK_NOFOLLOW);
                    remove_if_abandoned(folder, name, || matches!(there(), Err(Errno::NOENT)));
                }
                _ => {}
            }
        }
    }

    /// Checks that a file of this name may be made here, or may replace the one that is there.
    pub(super) fn check_free(&self, folder: &OwnedFd, name: &str) -> Result<()> {
        match rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).map(|stat| file_type(&stat)) {
            Ok(FileType::Directory) => {
                Err(DiskFailure::new(code::FOLDER_IN_THE_WAY, format!("{name} is a folder, and a file is to be made")))
            }
            Ok(FileType::RegularFile | FileType::Symlink) => self.check_spelling(folder, name),
            // A device or pipe is wanted by the process that made it, and no file is a version of it.
            Ok(_) => {
                Err(DiskFailure::new(code::SPECIAL_FILE_IN_THE_WAY, format!("{name} is a device, socket or pipe")))
            }
            Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Rename a finished file to its final name; with `if_absent` only if the name is free. Where names are folded,
    /// only if the existing name has the same spelling.
    pub(super) fn rename(&self, folder: &OwnedFd, from: &str, to: &str, if_absent: bool) -> Result<()> {
        let rename = || {
            if if_absent { rename_to_nothing(folder, from, to) } else { rustix::fs::renameat(folder, from, folder, to) }
                .map_err(|errno| match errno {
                    Errno::EXIST => DiskFailure::new("PreconditionFailed", format!("{to} has come there meanwhile")),
                    other => DiskFailure::of_write(other),
                })
        };
        if !self.folds_names(folder) {
            self.check_free(folder, to)?;
            return rename();
        }
        // The lock keeps two spellings from finding the place free at the same time.
        let _alone = lock(&self.made);
        self.check_free(folder, to)?;
        rename()
    }

    /// Checks that an existing name has exactly this spelling, and is not one that the folder treats as equal.
    pub(super) fn check_spelling(&self, folder: &OwnedFd, name: &str) -> Result<()> {
        if !self.folds_names(folder) || rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW).is_err() {
            return Ok(());
        }
        let mut other = None;
        for entry in Dir::read_from(folder)?.flatten() {
            let found = entry.file_name().to_bytes();
            if found == name.as_bytes() {
                return Ok(());
            }
            let found = String::from_utf8_lossy(found);
            if found.to_lowercase() == name.to_lowercase() {
                other = Some(found.into_owned());
            }
        }
        let other = other.unwrap_or_else(|| "another name".to_owned());
        Err(DiskFailure::new(code::CASE_COLLISION, format!("the file system takes {name} for {other}")))
    }

    /// True when a folder treats other spellings of a name as equal. The folder itself is probed, with a name that
    /// exists in one spelling only.
    fn folds_names(&self, folder: &OwnedFd) -> bool {
        let Ok(id) = identity(folder) else { return false };
        if let Some(known) = lock(&self.folding).get(&id) {
            return *known;
        }
        let folds = probe_folding(folder);
        // The result is unknown for a folder whose names have no letters; it is probed again later.
        if let Some(folds) = folds {
            let mut folding = lock(&self.folding);
            if folding.len() >= CLEANED {
                folding.clear();
            }
            folding.insert(id, folds);
        }
        folds.unwrap_or(false)
    }
}

fn rename_to_nothing(folder: &OwnedFd, from: &str, to: &str) -> std::result::Result<(), Errno> {
    match rustix::fs::renameat_with(folder, from, folder, to, RenameFlags::NOREPLACE) {
        // This file system has no exclusive rename. A check before the rename is weaker, and the best alternative.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
            match rustix::fs::statat(folder, to, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(_) => Err(Errno::EXIST),
                Err(Errno::NOENT) => rustix::fs::renameat(folder, from, folder, to),
                Err(errno) => Err(errno),
            }
        }
        other => other,
    }
}

/// Probes whether a folder folds names. None: it holds no name to probe with.
///
/// A spelling that can be opened but is not listed is another spelling of a listed name. Inodes do not show this: file
/// systems in user space may give each spelling one of its own.
fn probe_folding(folder: &OwnedFd) -> Option<bool> {
    for entry in Dir::read_from(folder).ok()?.flatten() {
        let Ok(name) = std::str::from_utf8(entry.file_name().to_bytes()) else { continue };
        let upper = name.to_ascii_uppercase();
        let other = if upper == name { name.to_ascii_lowercase() } else { upper };
        if other == name {
            continue;
        }
        if rustix::fs::statat(folder, other.as_str(), AtFlags::SYMLINK_NOFOLLOW).is_err() {
            return Some(false);
        }
        let mut listed = Dir::read_from(folder).ok()?.flatten();
        return Some(!listed.any(|entry| entry.file_name().to_bytes() == other.as_bytes()));
    }
    None
}

/// Remove a file of a dead writer, if `is_of_no_use` still holds when the file is locked. Best effort.
///
/// **Invariant**: the lock is held until the name is gone. A writer that has created the file and not locked it yet
/// finds it locked or nameless afterwards, and starts again with another name ([`super::write::create`]).
fn remove_if_abandoned(folder: &OwnedFd, name: &std::ffi::CStr, is_of_no_use: impl Fn() -> bool) {
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let Ok(file) = rustix::fs::openat(folder, name, flags, Mode::empty()) else { return };
    #[cfg(test)]
    interleave::run(interleave::Moment::CleanerOpened, folder);
    if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        return;
    }
    #[cfg(test)]
    interleave::run(interleave::Moment::CleanerLocked, folder);
    if is_of_no_use() {
        let _best_effort = rustix::fs::unlinkat(folder, name, AtFlags::empty());
    }
}

/// Error for a write directly in the target folder of the transfer: other files fail too.
pub(super) fn of_target(errno: Errno) -> DiskFailure {
    match errno {
        Errno::ACCESS | Errno::PERM => DiskFailure::of_root(errno),
        _ => DiskFailure::of_write(errno),
    }
}

/// Lets a test do something in the middle of another thread's steps, without another thread.
#[cfg(test)]
pub(super) mod interleave {
    use std::cell::RefCell;
    use std::os::fd::OwnedFd;

    /// Between which steps.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(in crate::disk) enum Moment {
        /// A writer has created a file and not locked it.
        WriterCreated,
        /// A cleaner has opened a file and not locked it.
        CleanerOpened,
        /// A cleaner has locked a file and not removed it.
        CleanerLocked,
    }

    type TestAction = Box<dyn FnOnce(&OwnedFd)>;

    thread_local! {
        static ACTS: RefCell<Vec<(Moment, TestAction)>> = const { RefCell::new(Vec::new()) };
    }

    /// Have `act` run at the next such moment of this thread that no earlier act waits for.
    pub(in crate::disk) fn at(moment: Moment, act: impl FnOnce(&OwnedFd) + 'static) {
        ACTS.with_borrow_mut(|acts| acts.push((moment, Box::new(act))));
    }

    pub(in crate::disk) fn run(moment: Moment, folder: &OwnedFd) {
        let act = ACTS.with_borrow_mut(|acts| {
            let place = acts.iter().position(|(when, _)| *when == moment)?;
            Some(acts.remove(place).1)
        });
        if let Some(act) = act {
            act(folder);
        }
    }

    /// True when all acts have run.
    pub(in crate::disk) fn all_done() -> bool {
        ACTS.with_borrow(Vec::is_empty)
    }
}
