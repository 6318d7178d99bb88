//! Control requests and their replies.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use seqferry_client::RequestError;
use seqferry_share::{Attributes, Caller, EntryDetail, FileError, FileKind};
use seqferry_store::ListRequest;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{GatewayControl, POLL_INTERVAL, ShareControl};
use crate::writable_share::{CONFLICTS, FlushCounts, NameState, ObjectFilter, is_range_list};

/// Names and conflicts of one answer at most.
const MAX_NAMES: usize = 10_000;
/// Entries that are read at a time.
const PAGE_ENTRIES: usize = 1000;
/// Folders that a refresh has still to list at most: paths of about 100 bytes.
const MAX_QUEUED_FOLDERS: usize = 1_000_000;
/// Longest wait for the bucket in one answer about names.
const BUCKET_TIMEOUT: Duration = Duration::from_mins(1);
/// Objects of a folder that are counted at most: 100 requests.
const MAX_COUNTED: usize = 100_000;
/// Longest time for the count, and for the search of the folder before it: a person waits.
const COUNT_TIMEOUT: Duration = Duration::from_secs(10);
const FIND_TIMEOUT: Duration = Duration::from_secs(5);

/// A request. Paths begin with the name of a share.
#[derive(Debug, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum ControlRequest {
    Status,
    Ls {
        path: String,
        /// Names of the answer at most.
        limit: Option<usize>,
    },
    /// State of the files at a path and below it. `count`: list the bucket as well.
    Files {
        path: String,
        #[serde(default)]
        count: bool,
    },
    Flush {
        path: Option<String>,
        #[serde(default)]
        wait: bool,
    },
    Refresh {
        path: String,
        #[serde(default)]
        recursive: bool,
    },
    Conflicts,
    Drain,
    HandOver {
        source: String,
    },
}

/// An answer, or a sentence with the cause and the next step.
pub(super) type ControlReply = Result<Value, String>;

/// An answer as a line of JSON.
pub(super) fn encode_reply(answer: ControlReply) -> String {
    let line = match answer {
        Ok(value) => json!({"ok": value}),
        Err(text) => json!({"error": text}),
    };
    line.to_string()
}

/// Objects of a folder.
#[derive(Debug, Default)]
struct ObjectCount {
    /// Files that the bucket has as the share shows them, and their bytes.
    files: usize,
    bytes: u64,
    /// Files at their paths before a rename that do not count as waiting, and their bytes.
    to_move: usize,
    bytes_to_move: u64,
    /// There are more.
    is_cut: bool,
}

/// The text about a request that cannot be read.
pub(super) fn invalid_request_text(error: &serde_json::Error) -> String {
    format!("the gateway does not understand the request ({error}): its version is another one")
}

fn failure_text(what: &str, path: &str, error: FileError) -> String {
    let next = match error {
        FileError::TryLater => return format!("{what} of {path} failed: the bucket does not answer; try again later"),
        FileError::NotFound | FileError::Stale => "list the names with seqferry gateway ls",
        _ => "the gateway has written the cause to stderr",
    };
    format!("{what} of {path} failed: {error}; {next}")
}

/// The user of this machine that may see everything.
fn superuser() -> Caller {
    Caller { address: IpAddr::V4(Ipv4Addr::LOCALHOST), uid: 0, gid: 0, groups: Vec::new() }
}

fn state_of(state: NameState) -> &'static str {
    match state {
        NameState { failing: 1.., .. } => "failing",
        NameState { uploading: 1.., .. } => "uploading",
        NameState { waiting: 1.., .. } => "waiting",
        NameState { ignored: 1.., .. } => "ignored",
        _ => "in_s3",
    }
}

impl ShareControl {
    /// The file or folder at a path of the share.
    async fn find(&self, path: &str) -> Result<Attributes, FileError> {
        let mut found = self.share.attributes(&superuser(), self.share.root()).await?;
        for name in path.split('/').filter(|name| !name.is_empty()) {
            if found.kind != FileKind::Directory {
                return Err(FileError::NotFound);
            }
            found = self.share.lookup(&superuser(), found.file, name.as_bytes()).await?;
        }
        Ok(found)
    }

    fn states_in(&self, folder: u64) -> HashMap<u64, NameState> {
        self.writable.as_ref().map(|writable| writable.states_in(folder)).unwrap_or_default()
    }

    async fn names(&self, path: &str, limit: usize) -> Result<Value, FileError> {
        let found = self.find(path).await?;
        if found.kind != FileKind::Directory {
            let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
            let parent = self.find(folder).await?;
            let states = self.states_in(parent.file.number);
            return Ok(json!({"names": [name_row(name, &found, &states)], "is_cut": false}));
        }
        let states = self.states_in(found.file.number);
        let (mut names, mut cookie) = (Vec::new(), 2);
        loop {
            let page =
                self.share.read_directory(&superuser(), found.file, cookie, PAGE_ENTRIES, EntryDetail::All).await?;
            for entry in &page.entries {
                if names.len() >= limit {
                    return Ok(json!({"names": names, "is_cut": true}));
                }
                cookie = entry.cookie;
                names.push(name_row(&String::from_utf8_lossy(&entry.name), &entry.attributes, &states));
            }
            if page.is_end || page.entries.is_empty() {
                return Ok(json!({"names": names, "is_cut": false}));
            }
        }
    }

    /// State of the files at a path and below it, as a command shows it. `kind` is null where the share has none.
    async fn file_status(&self, path: &str, count: bool) -> Result<Value, FileError> {
        let found = tokio::time::timeout(FIND_TIMEOUT, self.find(path)).await.unwrap_or(Err(FileError::TryLater));
        let found = match found {
            Ok(found) => Some(found),
            Err(FileError::NotFound | FileError::Stale) => return Ok(json!({"kind": null})),
            // The waiting files are known all the same.
            Err(FileError::TryLater) => None,
            Err(error) => return Err(error),
        };
        let (status, filter) = self.writable.as_ref().map(|writable| writable.file_status(path)).unwrap_or_default();
        let mut answer = serde_json::to_value(&status).map_err(|_| FileError::Io)?;
        answer["kind"] = json!(found.as_ref().map_or("folder", |found| kind_of(found.kind)));
        answer["in_s3"] = Value::Null;
        answer["in_s3_error"] = Value::Null;
        if let Some(file) = found.filter(|found| found.kind != FileKind::Directory) {
            let is_there = status.dirty_files == 0 && status.ignored_files == 0;
            let (files, bytes) = if is_there { (1, file.size) } else { (0, 0) };
            answer["in_s3"] = json!({"files": files, "bytes": bytes, "is_cut": false});
        } else if count {
            match self.count_objects(path, &filter).await {
                Ok(counted) => {
                    answer["dirty_files"] = json!(status.dirty_files + counted.to_move);
                    answer["dirty_bytes"] = json!(status.dirty_bytes + counted.bytes_to_move);
                    answer["in_s3"] = json!({"files": counted.files, "bytes": counted.bytes, "is_cut": counted.is_cut});
                }
                Err(text) => answer["in_s3_error"] = json!(text),
            }
        }
        Ok(answer)
    }

    /// Count the files of a folder that the bucket has as the share shows them, and those that it has at the paths
    /// before a rename.
    async fn count_objects(&self, path: &str, filter: &ObjectFilter) -> Result<ObjectCount, String> {
        let deadline = tokio::time::Instant::now() + COUNT_TIMEOUT;
        let mut found = ObjectCount::default();
        let mut listed = 0;
        let folders = [(path, false)].into_iter().chain(filter.to_move().iter().map(|path| (path.as_str(), true)));
        for (folder, is_former) in folders {
            let end = if folder.is_empty() { "" } else { "/" };
            let prefix = format!("{}{folder}{end}", self.prefix);
            let mut continuation = None;
            loop {
                let (bucket, prefix) = (self.bucket.clone(), prefix.clone());
                let request = ListRequest { bucket, prefix, continuation: continuation.take(), ..Default::default() };
                let page = match tokio::time::timeout_at(deadline, self.client.list_page(&request)).await {
                    Ok(page) => page.map_err(|error| request_failure_text("the objects", &self.name, error))?,
                    Err(_) if listed > 0 => return Ok(ObjectCount { is_cut: true, ..found }),
                    Err(_) => return Err("the bucket does not answer; try again later".to_owned()),
                };
                listed += page.objects.len();
                for object in page.objects {
                    let Some(path) = object.key.strip_prefix(&self.prefix) else { continue };
                    if is_former && filter.is_to_move(path) {
                        found.to_move += 1;
                        found.bytes_to_move += object.size;
                    } else if !is_former && filter.is_current(path) {
                        found.files += 1;
                        found.bytes += object.size;
                    }
                }
                match page.continuation {
                    None => break,
                    Some(_) if listed >= MAX_COUNTED => return Ok(ObjectCount { is_cut: true, ..found }),
                    token => continuation = token,
                }
            }
        }
        Ok(found)
    }

    /// Read listings again: that of a folder, or of all folders below it as well. Returns how many.
    async fn refresh(&self, path: &str, recursive: bool) -> Result<usize, FileError> {
        let tree = self.files.tree();
        let path = path.trim_matches('/');
        let top = if path.is_empty() {
            seqferry_vfs::ROOT
        } else {
            let found = tree.check_path(path).await.map_err(crate::share::status)?;
            match found {
                Some(found) if found.kind == seqferry_vfs::FileKind::Directory => found.inode,
                // It was checked, which is all there is to refresh.
                Some(_) => return Ok(0),
                None => return Err(FileError::NotFound),
            }
        };
        let (mut todo, mut listed) = (vec![top], 0);
        while let Some(folder) = todo.pop() {
            match tree.list_again(folder).await {
                Ok(()) => listed += 1,
                // It was replaced or removed meanwhile.
                Err(seqferry_vfs::VfsError::Stale) if folder != top => continue,
                Err(error) => return Err(crate::share::status(error)),
            }
            if !recursive {
                break;
            }
            let mut after: Option<String> = None;
            loop {
                let page =
                    tree.read_names(folder, after.as_deref(), PAGE_ENTRIES).await.map_err(crate::share::status)?;
                let folders = page.entries.iter().filter(|(_, found)| found.kind == seqferry_vfs::FileKind::Directory);
                todo.extend(folders.map(|(_, found)| found.inode).take(MAX_QUEUED_FOLDERS.saturating_sub(todo.len())));
                after = page.entries.into_iter().last().map(|(name, _)| name);
                if page.is_end || after.is_none() {
                    break;
                }
            }
        }
        if let Some(writable) = &self.writable {
            writable.forget_checks();
        }
        Ok(listed)
    }

    /// Files that lost against another program's object, as the bucket has them.
    pub(crate) async fn conflicts(&self) -> Result<(Vec<Value>, bool), RequestError> {
        let folder = format!("{}{CONFLICTS}/", self.prefix);
        let (mut found, mut continuation) = (Vec::new(), None);
        loop {
            let bucket = self.bucket.clone();
            let request =
                ListRequest { bucket, prefix: folder.clone(), continuation: continuation.take(), ..Default::default() };
            let page = self.client.list_page(&request).await?;
            for object in page.objects {
                let Some(kept) =
                    object.key.strip_prefix(&folder).filter(|kept| !kept.ends_with('/') && !is_range_list(kept))
                else {
                    continue;
                };
                let (path, changed) = kept.rsplit_once('.').unwrap_or((kept, ""));
                let changed = changed.parse::<u64>().ok().map(|nanoseconds| nanoseconds as f64 / 1e9);
                if found.len() >= MAX_NAMES {
                    return Ok((found, true));
                }
                found.push(json!({
                    "share": self.name, "path": path, "kept": format!("{CONFLICTS}/{kept}"), "size": object.size,
                    "changed": changed,
                }));
            }
            let Some(token) = page.continuation else { return Ok((found, false)) };
            continuation = Some(token);
        }
    }

    /// Count the conflicts that the bucket holds.
    pub(crate) async fn load_conflict_count(&self) {
        if let Some(writable) = &self.writable
            && let Ok((found, _)) = self.conflicts().await
        {
            writable.set_conflicts(found.len() as u64);
        }
    }
}

fn kind_of(kind: FileKind) -> &'static str {
    match kind {
        FileKind::File => "file",
        FileKind::Directory => "folder",
        FileKind::Symlink => "link",
    }
}

fn request_failure_text(what: &str, share: &str, error: RequestError) -> String {
    match error {
        RequestError::Failed(error) => {
            format!("{what} of /{share} cannot be listed: {error}. {}", error.advice())
        }
        RequestError::Cancelled => "the gateway ends".to_owned(),
    }
}

fn name_row(name: &str, found: &Attributes, states: &HashMap<u64, NameState>) -> Value {
    let state = states.get(&found.file.number).copied().unwrap_or_default();
    let modified = found.modified.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    json!({
        "name": name, "kind": kind_of(found.kind), "size": found.size, "modified": modified, "state": state_of(state),
        "waiting": state.waiting, "uploading": state.uploading, "failing": state.failing, "ignored": state.ignored,
    })
}

/// The state of a flush or a drain, by share. None: some of it may still go by itself.
fn flush_result(left: &[(&str, FlushCounts)]) -> Option<Value> {
    let waiting: usize = left.iter().map(|(_, left)| left.waiting).sum();
    let stuck: usize = left.iter().map(|(_, left)| left.stuck).sum();
    if waiting > stuck {
        return None;
    }
    let failing = left.iter().flat_map(|(share, left)| {
        left.failing
            .iter()
            .map(move |file| json!({"share": share, "path": file.path, "cause": file.cause, "attempts": file.attempts}))
    });
    let failing: Vec<Value> = failing.collect();
    Some(json!({"is_done": waiting == 0, "waiting": waiting, "failing": failing}))
}

impl GatewayControl {
    /// The answer to a request. Dropped when its client has gone.
    pub(super) async fn answer(self: &Arc<Self>, request: ControlRequest) -> ControlReply {
        match request {
            ControlRequest::Status => {
                serde_json::to_value(self.collect_status().await).map_err(|error| error.to_string())
            }
            ControlRequest::Ls { path, limit } => {
                let (share, below) = self.split_share_path(&path)?;
                let limit = limit.unwrap_or(MAX_NAMES).min(MAX_NAMES);
                let names = tokio::time::timeout(BUCKET_TIMEOUT, share.names(below, limit)).await;
                names.unwrap_or(Err(FileError::TryLater)).map_err(|error| failure_text("the listing", &path, error))
            }
            ControlRequest::Files { path, count } => {
                let (share, below) = self.split_share_path(&path)?;
                let found = share.file_status(below, count).await;
                found.map_err(|error| failure_text("the status", &path, error))
            }
            ControlRequest::Flush { path, wait } => self.flush(path.as_deref(), wait).await,
            ControlRequest::Refresh { path, recursive } => {
                let (share, below) = self.split_share_path(&path)?;
                let listed = share.refresh(below, recursive).await;
                let folders = listed.map_err(|error| failure_text("the refresh", &path, error))?;
                Ok(json!({"folders": folders}))
            }
            ControlRequest::Conflicts => self.conflicts().await,
            ControlRequest::Drain => Ok(self.drain().await),
            ControlRequest::HandOver { source } => self.hand_over(&source).map(|()| json!({})),
        }
    }

    /// The share of a path, and the path below it.
    fn split_share_path<'a>(&self, path: &'a str) -> Result<(&ShareControl, &'a str), String> {
        let (name, below) = path.trim_start_matches('/').split_once('/').unwrap_or((path.trim_start_matches('/'), ""));
        let found = self.shares.iter().find(|share| share.name == name);
        found.map(|share| (share, below.trim_matches('/'))).ok_or_else(|| {
            let names: Vec<String> = self.shares.iter().map(|share| format!("/{}", share.name)).collect();
            format!("there is no share /{name}; name one of {}, or a path below it", names.join(", "))
        })
    }

    async fn flush(&self, path: Option<&str>, wait: bool) -> ControlReply {
        let mut flushed = Vec::new();
        match path {
            None => flushed.extend(self.writable().map(|(one, writable)| (one, writable, ""))),
            Some(path) => {
                let (share, below) = self.split_share_path(path)?;
                let Some(writable) = &share.writable else {
                    return Err(format!("the share /{} is read-only: nothing of it waits", share.name));
                };
                // Where the bucket does not answer, the waiting files are still known.
                if let Ok(Err(error @ (FileError::NotFound | FileError::Stale))) =
                    tokio::time::timeout(BUCKET_TIMEOUT, share.find(below)).await
                {
                    return Err(failure_text("the flush", path, error));
                }
                flushed.push((share, writable, below));
            }
        }
        let begun: Vec<_> =
            flushed.iter().map(|(share, writable, below)| (share, writable, writable.flush(below))).collect();
        let look = || -> Vec<(&str, FlushCounts)> {
            begun.iter().map(|(share, writable, scope)| (share.name.as_str(), writable.left(scope))).collect()
        };
        if !wait {
            let waiting: usize = look().iter().map(|(_, left)| left.waiting).sum();
            return Ok(json!({"is_done": waiting == 0, "waiting": waiting, "failing": []}));
        }
        loop {
            if let Some(mut end) = flush_result(&look()) {
                // Outcomes of finished uploads are batched immediately. A failed batch is repeated later.
                end["not_batched"] = json!(self.freeze().await.err());
                return Ok(end);
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }

    async fn conflicts(&self) -> ControlReply {
        let (mut conflicts, mut is_cut) = (Vec::new(), false);
        for (share, writable) in self.writable() {
            let listed = share.conflicts().await;
            let (found, is_more) = listed.map_err(|error| request_failure_text("the conflicts", &share.name, error))?;
            writable.set_conflicts(found.len() as u64);
            is_cut |= is_more;
            conflicts.extend(found);
        }
        Ok(json!({"conflicts": conflicts, "is_cut": is_cut}))
    }

    async fn drain(self: &Arc<Self>) -> Value {
        self.begin_drain();
        let ignored = || async {
            let mut ignored = 0;
            for (_, writable) in self.writable() {
                ignored += writable.write_status().await.files.ignored_files;
            }
            ignored
        };
        loop {
            if self.is_drained() {
                let (ignored, failure) = (ignored().await, self.freeze().await.err());
                return json!({
                    "is_done": true, "waiting": 0, "failing": [], "ignored": ignored, "not_batched": failure,
                });
            }
            if self.is_idle()
                && let Some(mut end) = flush_result(&self.drain_remainder()).filter(|end| end["waiting"] != 0)
            {
                end["ignored"] = json!(ignored().await);
                return end;
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    }
}
