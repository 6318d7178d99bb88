//! Writing to shares: what is set for it, and what has to be so before the first share is served.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use seqferry_client::{RecordedUpload, RequestError, RetryingClient, UploadJournal, UploadSession};
use seqferry_store::{Address, CreateUpload};
use seqferry_vfs::disk_cache::unsafe_file_system;

use crate::error::GatewayError;
use crate::journal::make_folder;
use crate::ledger::leftover;
use crate::name_list::{IGNORED, MARKERS, NameList};
use crate::upload_window::UploadWindow;
use crate::writable_share::UploadRules;

/// Folder of the cache with the journals and data of shares that can be written.
const FOLDER: &str = "writes";
/// File in the cache that is locked by the gateway that uses it.
const LOCK: &str = "gateway.lock";
/// File beside the journals with the id of the cache, which moves with it.
const ID: &str = "cache.id";
/// Key of the upload that is created and aborted before a share is served. It never becomes an object.
const PROBE: &str = ".seqferry-write-probe";

/// Settings of a share that can be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WritesSpec {
    /// Time for which a file must not change before it is uploaded.
    pub settle: Duration,
    /// Storage class of objects; None for the bucket's default.
    pub storage_class: Option<String>,
    /// Patterns of names that stay on this machine.
    pub ignore: Vec<String>,
    /// Patterns of names that are uploaded after all older files of their folder and of those below it.
    pub markers: Vec<String>,
    /// Times of the day for uploads; none: always.
    pub windows: Vec<UploadWindow>,
    /// Bytes per second that are uploaded at most. The limit of the gateway holds as well.
    pub max_bandwidth: Option<u64>,
}

impl Default for WritesSpec {
    fn default() -> Self {
        Self {
            settle: Duration::from_secs(5),
            storage_class: None,
            ignore: IGNORED.map(str::to_owned).to_vec(),
            markers: MARKERS.map(str::to_owned).to_vec(),
            windows: Vec::new(),
            max_bandwidth: None,
        }
    }
}

impl WritesSpec {
    /// Names that stay on this machine, and the rules for uploads.
    pub(crate) fn rules(&self) -> (NameList, UploadRules) {
        let (windows, max_bandwidth) = (self.windows.clone(), self.max_bandwidth);
        let markers = NameList::new(&self.markers);
        (NameList::new(&self.ignore), UploadRules { markers, windows, max_bandwidth })
    }
}

/// Place of a share in S3, for the comparison with others.
pub(crate) struct Place<'a> {
    pub(crate) name: &'a str,
    pub(crate) endpoint: &'a str,
    pub(crate) bucket: &'a str,
    pub(crate) prefix: &'a str,
    pub(crate) is_writable: bool,
}

/// Refuse shares of which one could write what another one shows or writes.
pub(crate) fn check_overlaps(places: &[Place<'_>]) -> Result<(), GatewayError> {
    for (index, one) in places.iter().enumerate() {
        for other in &places[..index] {
            let is_same_bucket = (one.endpoint, one.bucket) == (other.endpoint, other.bucket);
            let overlap = one.prefix.starts_with(other.prefix) || other.prefix.starts_with(one.prefix);
            let writable = [one, other].into_iter().find(|place| place.is_writable);
            if let Some(writable) = writable.filter(|_| is_same_bucket && overlap) {
                return Err(GatewayError(format!(
                    "the shares {} and {} overlap in s3://{}, and {} can be written: give them prefixes apart, or make \
                     both read-only",
                    other.name, one.name, one.bucket, writable.name
                )));
            }
        }
    }
    Ok(())
}

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
            let found = leftover(&entry.path().join("journal")).map_err(|error| GatewayError(error.0))?;
            if let Some(found) = found.filter(|found| found.changes > 0) {
                let mut parts = found.share.split('\n');
                let [name, _, bucket, prefix] = [(); 4].map(|()| parts.next().unwrap_or_default());
                return Err(GatewayError(format!(
                    "the cache {} holds {} changes of the share {name} ({}) that are not in the bucket, and no share of \
                     this name and source can be written: configure it again with read_only = false, or name another \
                     folder with --cache",
                    self.path.display(),
                    found.changes,
                    Address(bucket, Some(prefix))
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

/// The probe is aborted, and the next start sweeps one of a process that was killed: it needs no record.
struct NoRecord;

impl UploadJournal for NoRecord {
    async fn record(&self, _upload: &RecordedUpload) -> Result<(), RequestError> {
        Ok(())
    }
}

/// Refuse a bucket that does not let this gateway write. Nothing is left there: an upload is created and aborted.
pub(crate) async fn probe(
    client: RetryingClient,
    bucket: &str,
    prefix: &str,
    storage_class: Option<&str>,
) -> Result<(), GatewayError> {
    let mut session = UploadSession::new(client, bucket, &format!("{prefix}{PROBE}"), 0.0, Arc::default());
    // Where uploads cannot be listed there is nothing to look for.
    let _swept = session.sweep(None).await;
    let request = CreateUpload { storage_class: storage_class.map(str::to_owned), ..session.request() };
    match session.begin(&request, &NoRecord).await {
        Ok(()) => {
            session.abort(true).await;
            Ok(())
        }
        Err(RequestError::Failed(error)) => Err(GatewayError(format!(
            "it cannot be written: {error}. {} To serve it all the same, set read_only = true",
            error.advice()
        ))),
        Err(RequestError::Cancelled) => Err(GatewayError("the request was cancelled".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place<'a>(name: &'a str, bucket: &'a str, prefix: &'a str, is_writable: bool) -> Place<'a> {
        Place { name, endpoint: "aws", bucket, prefix, is_writable }
    }

    #[test]
    fn prefixes_overlap_where_one_is_in_the_other_and_a_share_is_written() {
        let runs = place("runs", "b", "runs/", true);
        for (other, overlaps) in [
            (place("all", "b", "", false), true),
            (place("same", "b", "runs/", false), true),
            (place("below", "b", "runs/a/", true), true),
            (place("beside", "b", "runs2/", true), false),
            (place("elsewhere", "c", "runs/", true), false),
            (Place { endpoint: "http://other", ..place("other", "b", "runs/", true) }, false),
        ] {
            let name = other.name;
            let found = check_overlaps(&[other, Place { ..place("runs", "b", "runs/", true) }]);
            assert_eq!(found.is_err(), overlaps, "{name}");
        }
        check_overlaps(&[place("one", "b", "runs/", false), place("two", "b", "", false)]).unwrap();
        assert!(check_overlaps(&[runs, place("all", "b", "", false)]).unwrap_err().0.contains("runs can be written"));
    }
}
