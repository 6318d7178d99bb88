//! Status of a writable share for people: waiting and failing files, by share, folder and path.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde::Serialize;

use super::WritableShare;
use super::object_filter::{ObjectFilter, touches};
use super::upload::control::{UploadFailure, UploadRules, UploadSnapshot, is_dirty, is_within};
use super::upload::flush::FlushScope;
use crate::data_folder::DataFolder;
use crate::file_table::ROOT;
use crate::journal::{Disk, SyncTimes};
use crate::name_list::NameList;
use crate::overlay::{FolderRename, Node, NodeContent, Overlay, system_time};
use crate::prefix_claim::PrefixClaim;

/// Files of each kind that are named.
const NAMED: usize = 100;

/// Files of a share, or of a folder of it, and their way to the bucket.
#[derive(Debug, Default, Serialize)]
pub(crate) struct FileStatus {
    /// Files, links and folders that the bucket does not have as the share shows them, and their bytes.
    pub(crate) dirty_files: usize,
    pub(crate) dirty_bytes: u64,
    /// The folders of them.
    pub(crate) dirty_folders: usize,
    /// Objects that were removed or renamed here and must be removed from the bucket.
    pub(crate) removals: usize,
    /// Folders that were renamed, while their objects are copied and removed.
    pub(crate) renames: Vec<RenameProgress>,
    /// The file that was left alone for longest of those.
    pub(crate) oldest: Option<OldestFile>,
    pub(crate) uploading_files: usize,
    pub(crate) uploading: Vec<String>,
    pub(crate) failing_files: usize,
    pub(crate) failing: Vec<FailingFile>,
    /// Completion markers that wait for older files.
    pub(crate) held: Vec<WaitingMarker>,
    /// Files that stay on this machine by their names.
    pub(crate) ignored_files: usize,
}

/// State of a share that is written.
#[derive(Debug, Default, Serialize)]
pub(crate) struct WriteStatus {
    #[serde(flatten)]
    pub(crate) files: FileStatus,
    /// Files that lost against another program's object.
    pub(crate) conflicts: u64,
    /// Since the start of this process.
    pub(crate) uploaded_files: u64,
    pub(crate) uploaded_bytes: u64,
    pub(crate) bytes_per_second: f64,
    /// Outcomes of uploads that are not on the record of transfers.
    pub(crate) unrecorded: u64,
    /// False outside the upload windows.
    pub(crate) window_is_open: bool,
    pub(crate) free_bytes: Option<u64>,
    /// Time within which 99 of 100 syncs of the cache's disk were done in the last minutes. None: there was none.
    pub(crate) sync_p99_seconds: Option<f64>,
    /// The cause, when nothing is acknowledged any more.
    pub(crate) failure: Option<String>,
    /// The line about another gateway that has claimed the prefix, while nothing is uploaded for it.
    pub(crate) claimed_by: Option<String>,
}

/// A folder that was renamed, on its way to its new keys.
#[derive(Debug, Serialize)]
pub(crate) struct RenameProgress {
    pub(crate) from: String,
    /// Empty: the folder is no more.
    pub(crate) to: String,
    /// Files that were found in it so far, and their bytes.
    pub(crate) files: u64,
    pub(crate) bytes: u64,
    /// Those of them that are at their old keys alone.
    pub(crate) waiting_files: u64,
    pub(crate) waiting_bytes: u64,
    /// Old keys that are to be removed.
    pub(crate) removals: usize,
    pub(crate) seconds: f64,
}

#[derive(Debug, Serialize)]
pub(crate) struct OldestFile {
    pub(crate) path: String,
    /// Since its last change.
    pub(crate) age_seconds: f64,
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct FailingFile {
    pub(crate) path: String,
    /// The cause and the next step.
    pub(crate) cause: String,
    pub(crate) attempts: u32,
    pub(crate) seconds: f64,
}

#[derive(Debug, Serialize)]
pub(crate) struct WaitingMarker {
    pub(crate) path: String,
    /// One of the files that it waits for.
    pub(crate) waits_for: String,
    pub(crate) cause: Option<String>,
}

/// Rest of a flush.
#[derive(Debug, Default)]
pub(crate) struct FlushCounts {
    /// Files that are not in the bucket as they were when it came, and objects that were to be removed before.
    pub(crate) waiting: usize,
    /// Those of them that wait after a failure, or for a file that failed.
    pub(crate) stuck: usize,
    pub(crate) failing: Vec<FailingFile>,
}

/// Files that wait below a name of a folder, or the file of that name.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct NameState {
    pub(crate) waiting: usize,
    pub(crate) uploading: usize,
    pub(crate) failing: usize,
    /// Files that stay on this machine.
    pub(crate) ignored: usize,
}

fn seconds_since(time: SystemTime) -> f64 {
    SystemTime::now().duration_since(time).unwrap_or(Duration::ZERO).as_secs_f64()
}

fn failing(path: String, failure: &UploadFailure) -> FailingFile {
    let (cause, attempts) = (failure.text.clone(), failure.attempts);
    FailingFile { path, cause, attempts, seconds: seconds_since(failure.since) }
}

impl<D: Disk> WritableShare<D> {
    /// Set rules for its names and uploads. Before it is served.
    pub(crate) fn set_rules(&self, ignored: NameList, rules: UploadRules) {
        self.0.control.set_rules(rules);
        self.0.overlay.note(|overlay| overlay.ignore(ignored));
    }

    /// Set the claim without which nothing is uploaded. Before it is served.
    pub(crate) fn set_claim(&self, claim: Arc<PrefixClaim>) {
        self.0.control.set_claim(claim);
    }

    /// The bucket has so many files that were kept beside other programs' objects.
    pub(crate) fn set_conflicts(&self, count: u64) {
        self.0.control.set_conflicts(count);
    }

    fn path(&self, overlay: &Overlay, number: u64) -> String {
        overlay.path(&self.0.file_table, number).unwrap_or_else(|_| format!("#{number:016x}"))
    }

    /// The state of the share. Reads no more than memory and the room of the disk.
    pub(crate) async fn write_status(&self) -> WriteStatus {
        let inner = &self.0;
        let snapshot = inner.control.snapshot();
        let files = inner.overlay.read(|overlay| self.counted(overlay, &snapshot, ""));
        let mut status = WriteStatus { files, ..WriteStatus::default() };
        let (uploaded_bytes, bytes_per_second) = inner.control.bytes();
        status.conflicts = inner.control.conflicts();
        status.uploaded_files = inner.control.files();
        status.unrecorded = inner.unrecorded();
        (status.uploaded_bytes, status.bytes_per_second) = (uploaded_bytes, bytes_per_second);
        status.window_is_open = inner.control.is_open();
        status.free_bytes = inner.blocking(DataFolder::space).await.ok().map(|(free, _)| free);
        let disks = [inner.upload_batches.disk().sync_times(), inner.data.disk().sync_times()];
        status.sync_p99_seconds = SyncTimes::p99(disks.into_iter().flatten()).map(|time| time.as_secs_f64());
        let disk = inner.check_disk().is_err().then(|| "the disk of the gateway failed: check it".to_owned());
        status.failure = inner.overlay.failure().or(disk);
        status.claimed_by = inner.control.refusal();
        status
    }

    /// The state of what is at a path and below it. Reads no more than memory.
    pub(crate) fn file_status(&self, path: &str) -> (FileStatus, ObjectFilter) {
        let snapshot = self.0.control.snapshot();
        self.0.overlay.read(|overlay| {
            let filter = ObjectFilter::new(overlay, &self.0.file_table, path);
            (self.counted(overlay, &snapshot, path), filter)
        })
    }

    fn counted(&self, overlay: &Overlay, snapshot: &UploadSnapshot, top: &str) -> FileStatus {
        let is_here = |number: u64| top.is_empty() || is_within(&self.path(overlay, number), top);
        let removals = overlay.pending_removals().keys().filter(|path| is_within(path, top)).count();
        let mut status = FileStatus { removals, ..FileStatus::default() };
        let mut oldest: Option<&Node> = None;
        for node in overlay.nodes() {
            let is_ignored = overlay.is_local_only(node) && node.is_changed();
            if !is_ignored && !is_dirty(overlay, &self.0.file_table, node) || !is_here(node.file.number) {
                continue;
            }
            if is_ignored {
                status.ignored_files += 1;
                continue;
            }
            status.dirty_files += 1;
            status.dirty_folders += usize::from(node.content == NodeContent::Directory);
            status.dirty_bytes += node.attributes().size;
            if oldest.is_none_or(|oldest| node.changed < oldest.changed) {
                oldest = Some(node);
            }
        }
        status.oldest = oldest.map(|node| OldestFile {
            path: self.path(overlay, node.file.number),
            age_seconds: seconds_since(system_time(node.changed)),
        });
        let renames = overlay.renames().filter(|rename| touches(overlay, &self.0.file_table, rename, top));
        status.renames = renames.take(NAMED).map(|rename| self.progress(overlay, rename)).collect();
        let running: Vec<u64> = snapshot.running.keys().copied().filter(|number| is_here(*number)).collect();
        status.uploading_files = running.len();
        status.uploading = running.iter().take(NAMED).map(|number| self.path(overlay, *number)).collect();
        status.uploading.sort_unstable();
        let files = snapshot.files.iter().filter(|(number, _)| is_here(**number));
        let files = files.map(|(number, failure)| (self.path(overlay, *number), failure));
        let keys = snapshot.keys.iter().filter(|(path, _)| is_within(path, top));
        let failed: Vec<_> = files.chain(keys.map(|(path, failure)| (path.to_string(), failure))).collect();
        status.failing_files = failed.len();
        status.failing = failed.into_iter().take(NAMED).map(|(path, failure)| failing(path, failure)).collect();
        status.failing.sort_unstable_by(|one, other| one.path.cmp(&other.path));
        let held = snapshot.held.iter().filter(|(number, _)| overlay.node(**number).is_some() && is_here(**number));
        status.held = held
            .take(NAMED)
            .map(|(number, other)| WaitingMarker {
                path: self.path(overlay, *number),
                waits_for: self.path(overlay, *other),
                cause: snapshot.files.get(other).map(|failure| failure.text.clone()),
            })
            .collect();
        status.held.sort_unstable_by(|one, other| one.path.cmp(&other.path));
        status
    }

    fn progress(&self, overlay: &Overlay, rename: &FolderRename) -> RenameProgress {
        let not_renamed = overlay.not_renamed(&self.0.file_table, rename);
        let files = not_renamed.filter(|node| node.content != NodeContent::Directory);
        let sizes = files.map(|node| node.attributes().size);
        let (waiting_files, waiting_bytes) = sizes.fold((0, 0), |(files, bytes), size| (files + 1, bytes + size));
        RenameProgress {
            from: rename.from.to_string(),
            to: overlay.path(&self.0.file_table, rename.number).unwrap_or_default(),
            files: rename.files,
            bytes: rename.bytes,
            waiting_files,
            waiting_bytes,
            removals: overlay.removals_of(rename).count(),
            seconds: seconds_since(system_time(rename.since)),
        }
    }

    /// Upload everything at a path and below it immediately. Returns what counts.
    pub(crate) fn flush(&self, path: &str) -> FlushScope {
        self.0.overlay.read(|overlay| {
            let files = self.0.control.flush(overlay, &self.0.file_table, path);
            FlushScope::new(overlay, &self.0.file_table, path, files)
        })
    }

    /// Pause changes, and upload everything immediately from now on.
    pub(crate) fn drain(&self) {
        self.0.changes.pause();
        self.0.control.drain();
    }

    /// True when no change is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.0.changes.is_idle()
    }

    /// The rest of a flush.
    pub(crate) fn left(&self, scope: &FlushScope) -> FlushCounts {
        let (snapshot, file_table) = (self.0.control.snapshot(), &self.0.file_table);
        self.0.overlay.read(|overlay| {
            let rest = scope.remaining(overlay, file_table);
            let (waiting, stuck) = (rest.files.len() + rest.keys.len(), rest.stuck(overlay, file_table, &snapshot));
            let files =
                rest.files.iter().filter_map(|number| Some((self.path(overlay, *number), snapshot.files.get(number)?)));
            let keys = rest.keys.iter().filter_map(|key| Some((key.to_string(), snapshot.keys.get(key)?)));
            let failing = files.chain(keys).take(NAMED).map(|(path, failure)| failing(path, failure)).collect();
            FlushCounts { waiting, stuck, failing }
        })
    }

    /// True when the bucket has all that it is to have, and nothing else is to be done.
    pub(crate) fn is_drained(&self) -> bool {
        let file_table = &self.0.file_table;
        self.0.overlay.read(|overlay| {
            overlay.pending_removals().is_empty()
                && overlay.uploads().is_empty()
                && overlay.growing().is_empty()
                && !overlay.nodes().any(|node| is_dirty(overlay, file_table, node))
        })
    }

    /// Files and removals to be done before the share is drained.
    pub(crate) fn drain_remainder(&self) -> FlushCounts {
        let mut left = self.left(&FlushScope::everything());
        let snapshot = self.0.control.snapshot();
        self.0.overlay.read(|overlay| {
            // Parts of files that are no more, or that the bucket has.
            let is_clean =
                |number| overlay.node(number).is_none_or(|node| !is_dirty(overlay, &self.0.file_table, node));
            let parts: Vec<u64> = overlay.growing().keys().copied().filter(|number| is_clean(*number)).collect();
            left.waiting += overlay.pending_removals().len() + parts.len();
            left.stuck += parts.iter().filter(|number| snapshot.files.contains_key(number)).count();
        });
        left.stuck += snapshot.keys.len();
        let room = NAMED.saturating_sub(left.failing.len());
        left.failing.extend(snapshot.keys.iter().take(room).map(|(path, failure)| failing(path.to_string(), failure)));
        left
    }

    /// Files that wait in a folder, by the number of the file or folder in it.
    pub(crate) fn states_in(&self, folder: u64) -> HashMap<u64, NameState> {
        let snapshot = self.0.control.snapshot();
        let file_table = &self.0.file_table;
        self.0.overlay.read(|overlay| {
            let mut states: HashMap<u64, NameState> = HashMap::new();
            for node in overlay.nodes() {
                let is_ignored = overlay.is_local_only(node) && node.is_changed();
                if !is_ignored && !is_dirty(overlay, file_table, node) {
                    continue;
                }
                let number = node.file.number;
                let (mut child, mut at) = (number, node.parent);
                while at != folder && at != ROOT {
                    (child, at) = (at, overlay.parent(file_table, at));
                }
                if at != folder {
                    continue;
                }
                let state = states.entry(child).or_default();
                if is_ignored {
                    state.ignored += 1;
                } else if snapshot.files.contains_key(&number) {
                    state.failing += 1;
                } else if snapshot.running.contains_key(&number) {
                    state.uploading += 1;
                } else if matches!(node.content, NodeContent::File(_) | NodeContent::Link(_)) || number == child {
                    state.waiting += 1;
                }
            }
            states
        })
    }

    /// The listing of the bucket was read again: files that were asked about lately are asked about again.
    pub(crate) fn forget_checks(&self) {
        self.0.looked.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clear();
    }
}
