//! The cache folder of a gateway with writable shares: its lock, its id, and leftover journals of shares not served
//! now.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use seqferry_store::ObjectUri;
use seqferry_vfs::disk_cache::unsafe_file_system;

use crate::error::GatewayError;
use crate::journal::make_folder;
use crate::journaled_overlay::read_leftover_journal;

/// Folder of the cache with the journals and data of writable shares.
const FOLDER: &str = "writes";
/// Lock file in the cache; the gateway that uses the cache holds the lock.
const LOCK: &str = "gateway.lock";
/// File with the id of the cache, beside the journals: a cache that is moved keeps its id.
const ID: &str = "cache.id";

/// A cache folder that this gateway has claimed.
#[derive(Debug)]
pub(crate) struct ClaimedCache {
    path: PathBuf,
    /// Held as long as the gateway is there.
    _lock: File,
}

impl ClaimedCache {
    /// Claim a cache. None: another gateway has claimed it, and this one writes nothing to it.
    ///
    /// # Errors
    /// When it cannot be used, or is to be written and another gateway uses it, or it is another user's.
    pub(crate) fn claim(path: &Path, is_written: bool) -> Result<Option<Self>, GatewayError> {
        let cannot = |error| GatewayError(format!("the cache {} cannot be used: {error}", path.display()));
        let lock = path.join(LOCK);
        let lock =
            OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(lock).map_err(cannot)?;
        if is_written && lock.metadata().map_err(cannot)?.uid() != fs::metadata(path).map_err(cannot)?.uid() {
            return Err(GatewayError(format!(
                "the cache {} belongs to another user, who could change what clients write: name a folder of your own \
                 with --cache",
                path.display()
            )));
        }
        let writes = path.join(FOLDER);
        let is_planted =
            |facts: fs::Metadata| !facts.is_dir() || lock.metadata().is_ok_and(|own| own.uid() != facts.uid());
        if is_written && fs::symlink_metadata(&writes).is_ok_and(is_planted) {
            return Err(GatewayError(format!(
                "{} is a link, or not yours alone, and what clients write could go elsewhere: remove it, or name another \
                 folder with --cache",
                writes.display()
            )));
        }
        match lock.try_lock() {
            Ok(()) => Ok(Some(Self { path: path.to_owned(), _lock: lock })),
            Err(TryLockError::WouldBlock) if !is_written => Ok(None),
            Err(TryLockError::WouldBlock) => Err(GatewayError(format!(
                "another gateway uses the cache {}: stop it, or name another folder with --cache",
                path.display()
            ))),
            Err(TryLockError::Error(error)) => Err(cannot(error)),
        }
    }

    /// True when no gateway has claimed a cache.
    pub(crate) fn is_free(path: &Path) -> bool {
        File::open(path.join(LOCK)).map_or(true, |lock| lock.try_lock().is_ok())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The folder of a share's journal and data.
    pub(crate) fn folder_of(&self, digest: u64) -> PathBuf {
        self.path.join(FOLDER).join(format!("{digest:016x}"))
    }

    /// Id of the cache, which is made at the first call: 32 hexadecimal digits.
    ///
    /// # Errors
    /// When it cannot be read or written, or is damaged.
    pub(crate) fn id(&self) -> Result<String, GatewayError> {
        let folder = self.path.join(FOLDER);
        let path = folder.join(ID);
        let cannot = |error: io::Error| GatewayError(format!("the id {} cannot be used: {error}", path.display()));
        match fs::read_to_string(&path) {
            Ok(id) if id.len() == 32 && id.bytes().all(|digit| digit.is_ascii_hexdigit()) => return Ok(id),
            Ok(_) => {
                return Err(GatewayError(format!(
                    "{} is damaged: remove it, and start once with --take-over",
                    path.display()
                )));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(cannot(error)),
        }
        make_folder(&folder, |folder| File::open(folder)?.sync_all()).map_err(cannot)?;
        let id = format!("{:032x}", fastrand::u128(..));
        let new = folder.join(format!("{ID}.new"));
        let write = || -> io::Result<()> {
            let mut file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&new)?;
            file.write_all(id.as_bytes())?;
            file.sync_all()?;
            fs::rename(&new, &path)?;
            File::open(&folder)?.sync_all()
        };
        write().map_err(cannot)?;
        Ok(id)
    }

    /// Refuse a cache with files that no share in `written` would bring to their bucket.
    pub(crate) fn check_leftovers(&self, written: &[u64]) -> Result<(), GatewayError> {
        let folder = self.path.join(FOLDER);
        let entries = match fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(GatewayError(format!("{} cannot be read: {error}", folder.display()))),
        };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let digest = name.to_str().filter(|name| name.len() == 16);
            let digest = digest.and_then(|digits| u64::from_str_radix(digits, 16).ok());
            if digest.is_none_or(|digest| written.contains(&digest)) {
                continue;
            }
            let found = read_leftover_journal(&entry.path().join("journal")).map_err(|error| GatewayError(error.0))?;
            if let Some(found) = found.filter(|found| found.changes > 0) {
                let mut parts = found.share.split('\n');
                let [name, _, bucket, prefix] = [(); 4].map(|()| parts.next().unwrap_or_default());
                return Err(GatewayError(format!(
                    "the cache {} holds {} changes of the share {name} ({}) that are not in the bucket, and no share of \
                     this name and source can be written: configure it again with read_only = false, or name another \
                     folder with --cache",
                    self.path.display(),
                    found.changes,
                    ObjectUri(bucket, Some(prefix))
                )));
            }
        }
        Ok(())
    }
}

/// Make the folder of a cache that is to be written, if it is not there. Refuse one that is not on a local disk, unless
/// that is allowed.
pub(crate) fn check_file_system(path: &Path, is_allowed: bool) -> Result<(), GatewayError> {
    let look = |folder: &Path| unsafe_file_system(folder).map(|system| system.filter(|_| !is_allowed));
    let existing = path.ancestors().find(|folder| folder.is_dir()).unwrap_or(Path::new("."));
    // Before the folder is made: a refusal leaves nothing. A folder that cannot be opened is no answer.
    let refused = match look(existing) {
        Ok(Some(system)) => Ok(Some(system)),
        Ok(None) | Err(_) => make_folder(path, |made| File::open(made)?.sync_all()).and_then(|()| look(path)),
    };
    match refused {
        Ok(None) => Ok(()),
        Ok(Some(system)) => Err(GatewayError(format!(
            "the cache {} is on {system}, where files that clients have written could be lost: name a folder on a local \
             disk with --cache, or accept the loss with --unsafe-cache",
            path.display()
        ))),
        Err(error) => Err(GatewayError(format!("the cache {} cannot be used: {error}", path.display()))),
    }
}
