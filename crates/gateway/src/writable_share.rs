//! A share of a bucket that can be written: its files, with what was changed here laid over them.
//!
//! A change is acknowledged when its record, and the bytes that it names, are on the disk of this machine. Bytes of an
//! unstable write are so once they are committed. [`upload`] brings them to the bucket.

mod attributes;
mod change_pause;
mod checks;
mod file_lock;
mod find;
mod inspect;
mod names;
mod object_filter;
mod read_write;
mod recent_writes;
mod upload;
mod upload_batches;
mod waiting_writers;
mod walk;

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use async_trait::async_trait;
use bytes::Bytes;
use seqferry_share::{
    Attributes, Caller, ChangeResult, CreateMode, CreateResult, DirectoryPage, EntryDetail, FileError, FileId,
    ReadData, Result, SetAttributes, Share, SpaceInfo, Stability, WriteResult, XattrCondition,
};
use seqferry_vfs::FileSystem;
use seqferry_vfs::filesystem::MOUNT_XATTR_PREFIX;

use crate::data_folder::DataFolder;
use crate::file_table::{FileTable, ROOT};
use crate::journal::{Disk, Folder, JournalError};
use crate::journaled_overlay::{JournaledOverlay, SEGMENT};
use crate::overlay::{Node, OF_BUCKET, Overlay, OverlayEntry};
use crate::share::{RepeatCount, ShareDefaults};
use crate::upload_batches::UploadBatches;
use change_pause::ChangePause;
use file_lock::FileLock;
pub(crate) use inspect::{FlushCounts, NameState, WriteStatus};
pub(crate) use object_filter::ObjectFilter;
use recent_writes::RecentWrites;
pub use upload::UploadSpec;
use upload::control::UploadControl;
pub(crate) use upload::control::{CONFLICTS, PARTS, UploadRules, is_range_list};
use waiting_writers::WaitingWriters;
use walk::LastOutage;

/// Beginning of the names at the top of a share that files have which a mount has removed while programs have them
/// open. They stay on this machine, as all names that begin with `.nfs`, and go when the share is opened again.
pub const REMOVED: &str = ".nfs-removed-";
/// Locks of files that are kept, and times of questions to the bucket.
const MAX_LOCKS: usize = 4096;
/// Clean files that stay in the overlay: those that are written again soon need not be made nodes again.
const CLEAN_FILES: usize = 1024;

/// Bounds on what a share keeps.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ShareLimits {
    /// Bytes of a segment of the journal after which a checkpoint is written.
    pub(crate) segment: u64,
    /// Clean files of the overlay. When a quarter more are there, those above leave.
    pub(crate) clean_files: usize,
}

impl Default for ShareLimits {
    fn default() -> Self {
        Self { segment: SEGMENT, clean_files: CLEAN_FILES }
    }
}

/// Parts of a writable share.
#[derive(Debug)]
pub struct WritableSpec {
    /// The files of the bucket, without archives as folders.
    pub files: Arc<FileSystem>,
    /// Names by number.
    pub file_table: FileTable,
    /// Attributes of files that state none.
    pub defaults: ShareDefaults,
    /// Identity of the share: its journal belongs to it alone.
    pub identity: String,
    /// Bytes of keys before the paths of the share.
    pub prefix_length: usize,
    /// Time for which a file that the bucket has as it is need not be looked for again.
    pub stale_after: Duration,
}

/// A writable share. Clones are the same share.
#[derive(Debug, Clone)]
pub struct WritableShare<D: Disk = Folder>(Arc<Inner<D>>);

#[derive(Debug)]
struct Inner<D: Disk> {
    files: Arc<FileSystem>,
    file_table: FileTable,
    defaults: ShareDefaults,
    prefix_length: usize,
    overlay: JournaledOverlay<D>,
    data: Arc<DataFolder<D>>,
    upload_batches: UploadBatches<D>,
    locks: Mutex<HashMap<u64, Arc<FileLock>>>,
    stale_after: Duration,
    /// Times of the last questions to the bucket about files that are as it has them.
    looked: Mutex<HashMap<u64, Instant>>,
    waiting_writers: WaitingWriters,
    recent_writes: RecentWrites,
    changes: Arc<ChangePause>,
    repeats: Arc<RepeatCount>,
    clean_files: usize,
    /// Control of the uploads.
    control: Arc<UploadControl>,
    outage: LastOutage,
    /// The disk has failed: bytes that were written may not be on it, and nothing is acknowledged any more.
    is_failed: AtomicBool,
}

impl WritableShare<Folder> {
    /// Open a share with its journal and data in a folder of this machine. Blocks on the disk.
    ///
    /// # Errors
    /// When another process uses the folder, or its journal is damaged or of another share.
    pub async fn open(spec: WritableSpec, folder: &Path) -> std::result::Result<Self, JournalError> {
        let claim = |name: &str| {
            let path = folder.join(name);
            Folder::claim(&path).map_err(|error| match error.kind() {
                io::ErrorKind::WouldBlock => {
                    JournalError(format!("another gateway uses {}: stop it, or name another folder", path.display()))
                }
                _ => JournalError(format!("the folder {} cannot be used: {error}", path.display())),
            })
        };
        Self::over(spec, claim("journal")?, claim("data")?, ShareLimits::default()).await
    }
}

impl<D: Disk> WritableShare<D> {
    pub(crate) async fn over(
        spec: WritableSpec,
        journal: D,
        data: D,
        bounds: ShareLimits,
    ) -> std::result::Result<Self, JournalError> {
        let journaled_overlay = JournaledOverlay::open(journal.clone(), &spec.identity, bounds.segment).await?;
        let upload_batches =
            UploadBatches::open(journal, journaled_overlay.read(|overlay| overlay.outcomes().next_batch));
        let upload_batches =
            upload_batches.map_err(|error| JournalError(format!("the outcomes of uploads cannot be read: {error}")))?;
        journaled_overlay.read(|overlay| restore_parent_names(overlay, &spec.file_table));
        let opened = journaled_overlay.read(|overlay| DataFolder::open(data, |number| overlay.node(number).is_some()));
        let (data, unknown) = opened.map_err(|error| JournalError(format!("the data cannot be read: {error}")))?;
        // The process before was killed when it had uploaded a file, before it removed the bytes.
        let has_bytes = |overlay: &Overlay, number| {
            let data = overlay.node(number).and_then(Node::data);
            data.is_some_and(|data| !data.durable.is_empty())
        };
        for number in data.left() {
            if !journaled_overlay.read(|overlay| has_bytes(overlay, number)) {
                data.remove(number).map_err(|error| JournalError(format!("the data cannot be changed: {error}")))?;
            }
        }
        if unknown > 0 {
            tracing::warn!("{unknown} data files are of no file of the share: they are kept as *.unknown");
        }
        let share = Self(Arc::new(Inner {
            files: spec.files,
            file_table: spec.file_table,
            defaults: spec.defaults,
            prefix_length: spec.prefix_length,
            overlay: journaled_overlay,
            data: Arc::new(data),
            upload_batches,
            locks: Mutex::default(),
            stale_after: spec.stale_after,
            looked: Mutex::default(),
            waiting_writers: WaitingWriters::default(),
            recent_writes: RecentWrites::default(),
            changes: Arc::default(),
            repeats: Arc::default(),
            clean_files: bounds.clean_files,
            control: Arc::default(),
            outage: LastOutage::default(),
            is_failed: AtomicBool::new(false),
        }));
        share.drop_removed().await;
        Ok(share)
    }

    /// No program of the process before has files open any more.
    async fn drop_removed(&self) {
        let is_removed = |node: &&Node| node.parent == ROOT && node.name.starts_with(REMOVED);
        let names =
            |overlay: &Overlay| overlay.nodes().filter(is_removed).map(|node| node.name.clone()).collect::<Vec<_>>();
        let caller = Caller { address: IpAddr::V4(Ipv4Addr::LOCALHOST), uid: 0, gid: 0, groups: Vec::new() };
        for name in self.0.overlay.read(names) {
            if let Err(error) = self.0.remove(&caller, self.root(), name.as_bytes(), false).await {
                tracing::warn!("{name} cannot be removed: {error}. It is tried again when the share is opened again");
            }
        }
    }

    /// Objects and folder markers of the bucket to be removed, and their version.
    pub fn pending_removals(&self) -> Vec<(String, String)> {
        self.0.overlay.read(|overlay| {
            let pending_removals = overlay.pending_removals().iter();
            pending_removals.map(|(path, etag)| (path.to_string(), etag.to_string())).collect()
        })
    }

    /// Run a call to its end, whatever becomes of the connection that it came from.
    async fn run<T: Send + 'static, F>(&self, call: impl FnOnce(Arc<Inner<D>>) -> F) -> Result<T>
    where
        F: Future<Output = Result<T>> + Send + 'static,
    {
        // A call that panics is one that failed.
        tokio::spawn(call(Arc::clone(&self.0))).await.unwrap_or(Err(FileError::Io))
    }

    /// Run a change to its end, unless changes are paused.
    async fn change<T: Send + 'static, F>(&self, call: impl FnOnce(Arc<Inner<D>>) -> F + Send) -> Result<T>
    where
        F: Future<Output = Result<T>> + Send + 'static,
    {
        let changed = async {
            let running = self.0.changes.begin()?;
            self.run(|inner| {
                let change = call(inner);
                async move {
                    let _until_its_end = running;
                    change.await
                }
            })
            .await
        };
        self.answer(changed).await
    }

    async fn answer<T>(&self, answer: impl Future<Output = Result<T>>) -> Result<T> {
        self.0.repeats.count(answer.await)
    }

    pub(crate) fn repeats(&self) -> Arc<RepeatCount> {
        Arc::clone(&self.0.repeats)
    }
}

/// Numbers that a folder above a file may have had, at most.
const CANDIDATES: usize = 64;

/// The table of names is not synced: a loss of power may have taken folders above files that wait to be uploaded. The
/// paths of files and folders in the bucket tell them. A number is that of a name in a folder: to ask for it is to
/// remember the name.
fn restore_parent_names(overlay: &Overlay, file_table: &FileTable) {
    for node in overlay.nodes() {
        let is_lost = || overlay.path(file_table, node.file.number).is_err();
        let Some((folder, _)) = node.base.as_ref().and_then(|base| base.path.rsplit_once('/')) else { continue };
        if !is_lost() {
            continue;
        }
        // It is below the top, or below a folder that was changed here, which the bucket has at a path above its own.
        let above = folder.match_indices('/').map(|(at, _)| (&folder[..at], &folder[at + 1..]));
        let changed = above.flat_map(|(path, rest)| overlay.nodes_of_object(path).map(move |number| (number, rest)));
        for (number, rest) in changed.chain([(ROOT, folder)]) {
            let mut numbers = vec![number];
            for name in rest.split('/') {
                let names = numbers.iter().flat_map(|parent| {
                    // The number of a name may have gone with a file that was renamed, or that is no more.
                    let marked = file_table.number(*parent, &format!("{name}\0"));
                    let shown = overlay.bucket_file(file_table, *parent, name).map(|file| file.number);
                    // A folder that was renamed here, below which the bucket has the file at its new key already.
                    let changed = match overlay.entry(*parent, name) {
                        Some(OverlayEntry::Node(number)) => Some(number),
                        Some(OverlayEntry::Hidden) | None => None,
                    };
                    [file_table.number(*parent, name), shown, marked, changed]
                });
                let found: BTreeSet<u64> = names.flatten().take(CANDIDATES).collect();
                numbers = found.into_iter().collect();
            }
            if !is_lost() {
                break;
            }
        }
    }
}

impl<D: Disk> Inner<D> {
    fn lock_of(&self, number: u64) -> Arc<FileLock> {
        let mut locks = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
        if locks.len() >= MAX_LOCKS {
            locks.retain(|_, lock| Arc::strong_count(lock) > 1);
        }
        Arc::clone(locks.entry(number).or_default())
    }

    /// True while a call works on a file.
    fn is_in_use(&self, number: u64) -> bool {
        let locks = self.locks.lock().unwrap_or_else(PoisonError::into_inner);
        locks.get(&number).is_some_and(|lock| Arc::strong_count(lock) > 1)
    }

    /// Work on the data, which blocks.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&DataFolder<D>) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let data = Arc::clone(&self.data);
        self.data.disk().run(move || work(&data)).await
    }

    /// Nothing is acknowledged any more.
    fn fail(&self, error: &io::Error) -> FileError {
        tracing::warn!("the disk of the gateway failed: {error}. Nothing more is written: check the disk");
        self.is_failed.store(true, Ordering::Release);
        FileError::Io
    }

    fn check_disk(&self) -> Result<()> {
        if self.is_failed.load(Ordering::Acquire) { Err(FileError::Io) } else { Ok(()) }
    }
}

#[async_trait]
impl<D: Disk> Share for WritableShare<D> {
    fn root(&self) -> FileId {
        FileId { number: ROOT, generation: OF_BUCKET }
    }

    fn file_of_number(&self, number: u64) -> Option<FileId> {
        self.0.overlay.read(|overlay| overlay.file_of_number(&self.0.file_table, number))
    }

    fn is_read_only(&self) -> bool {
        false
    }

    async fn attributes(&self, _caller: &Caller, file: FileId) -> Result<Attributes> {
        Ok(self.answer(self.0.find(file)).await?.attributes)
    }

    async fn lookup(&self, caller: &Caller, directory: FileId, name: &[u8]) -> Result<Attributes> {
        if name.len() > self.limits().max_name as usize {
            return Err(FileError::NameTooLong);
        }
        self.answer(self.0.lookup(caller, directory, name)).await
    }

    async fn read_link(&self, _caller: &Caller, link: FileId) -> Result<Bytes> {
        self.answer(self.0.target(link)).await
    }

    async fn read(&self, caller: &Caller, file: FileId, offset: u64, length: u32) -> Result<ReadData> {
        self.answer(self.0.read(caller, file, offset, length)).await
    }

    async fn read_directory(
        &self,
        caller: &Caller,
        dir: FileId,
        cookie: u64,
        most: usize,
        facts: EntryDetail,
    ) -> Result<DirectoryPage> {
        self.answer(self.0.list(caller, dir, (cookie, most), facts)).await
    }

    async fn space(&self, _caller: &Caller) -> Result<SpaceInfo> {
        // Written bytes have to fit on the disk of this machine before it is uploaded. Less is shown where less is set.
        let most = self.0.defaults.free_space;
        let (free, all) = self.0.blocking(DataFolder::space).await.map_err(|_| FileError::Io)?;
        let files = u64::from(u32::MAX);
        Ok(SpaceInfo { total_bytes: all.min(most), free_bytes: free.min(most), total_files: files, free_files: files })
    }

    async fn set_attributes(
        &self,
        caller: &Caller,
        file: FileId,
        attributes: SetAttributes,
        unchanged_since: Option<SystemTime>,
    ) -> Result<ChangeResult> {
        let caller = caller.clone();
        self.change(|inner| async move { inner.set(&caller, file, attributes, unchanged_since).await }).await
    }

    async fn write(
        &self,
        caller: &Caller,
        file: FileId,
        offset: u64,
        data: Bytes,
        stability: Stability,
    ) -> Result<WriteResult> {
        let caller = caller.clone();
        self.change(|inner| async move { inner.write(&caller, file, offset, data, stability).await }).await
    }

    async fn commit(&self, _caller: &Caller, file: FileId) -> Result<ChangeResult> {
        // Bytes that were accepted are made durable also while changes are paused.
        self.answer(self.run(|inner| async move { inner.commit(file).await })).await
    }

    async fn create(&self, caller: &Caller, directory: FileId, name: &[u8], how: CreateMode) -> Result<CreateResult> {
        let (caller, name) = (caller.clone(), name.to_vec());
        self.change(|inner| async move { inner.create(&caller, directory, &name, how).await }).await
    }

    async fn create_directory(
        &self,
        caller: &Caller,
        directory: FileId,
        name: &[u8],
        attributes: SetAttributes,
    ) -> Result<CreateResult> {
        let (caller, name) = (caller.clone(), name.to_vec());
        self.change(|inner| async move { inner.make_directory(&caller, directory, &name, attributes).await }).await
    }

    async fn create_link(
        &self,
        caller: &Caller,
        directory: FileId,
        name: &[u8],
        target: Bytes,
        attributes: SetAttributes,
    ) -> Result<CreateResult> {
        let (caller, name) = (caller.clone(), name.to_vec());
        self.change(|inner| async move { inner.make_link(&caller, directory, &name, target, attributes).await }).await
    }

    async fn remove(&self, caller: &Caller, directory: FileId, name: &[u8]) -> Result<ChangeResult> {
        let (caller, name) = (caller.clone(), name.to_vec());
        self.change(|inner| async move { inner.remove(&caller, directory, &name, false).await }).await
    }

    async fn remove_directory(&self, caller: &Caller, directory: FileId, name: &[u8]) -> Result<ChangeResult> {
        let (caller, name) = (caller.clone(), name.to_vec());
        self.change(|inner| async move { inner.remove(&caller, directory, &name, true).await }).await
    }

    async fn rename(
        &self,
        caller: &Caller,
        directory: FileId,
        name: &[u8],
        new_directory: FileId,
        new_name: &[u8],
    ) -> Result<(ChangeResult, ChangeResult)> {
        let (caller, from, to) = (caller.clone(), name.to_vec(), new_name.to_vec());
        self.change(|inner| async move { inner.rename(&caller, (directory, &from), (new_directory, &to)).await }).await
    }

    async fn extended_attribute(&self, caller: &Caller, file: FileId, name: &[u8]) -> Result<Option<Bytes>> {
        if let Some(name) = std::str::from_utf8(name).ok().filter(|name| name.starts_with(MOUNT_XATTR_PREFIX)) {
            return Ok(self.0.mount_attribute(file, name).await);
        }
        self.answer(self.0.attribute(caller, file, name)).await
    }

    async fn extended_attribute_names(&self, _caller: &Caller, file: FileId) -> Result<Vec<Bytes>> {
        self.answer(self.0.attribute_names(file)).await
    }

    async fn set_extended_attribute(
        &self,
        caller: &Caller,
        file: FileId,
        name: &[u8],
        value: Option<Bytes>,
        presence: XattrCondition,
    ) -> Result<()> {
        let (caller, name) = (caller.clone(), name.to_vec());
        self.change(|inner| async move { inner.set_attribute(&caller, file, &name, value, presence).await }).await
    }
}

#[cfg(test)]
mod absent_tests;
#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
