//! A share whose changes can be paused, and which counts the calls that clients have to repeat.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::SystemTime;

use async_trait::async_trait;
use bytes::Bytes;
use seqferry_share::{
    Access, Attributes, Caller, ChangeResult, CreateMode, CreateResult, DirectoryPage, EntryDetail, FileError, FileId,
    FileLimits, ReadData, Result, SetAttributes, Share, SpaceInfo, Stability, WriteResult, XattrCondition,
};

/// Changes of one or more shares, which can be held: clients ask again until another process serves the share.
#[derive(Debug, Default)]
pub(crate) struct ChangePause {
    is_paused: AtomicBool,
    under_way: AtomicUsize,
}

/// A change under way.
struct RunningChange<'a>(&'a ChangePause);

impl ChangePause {
    fn begin(&self) -> Result<RunningChange<'_>> {
        // Counted before the check: a caller of `pause` sees every change that was admitted.
        self.under_way.fetch_add(1, Ordering::SeqCst);
        let begun = RunningChange(self);
        if self.is_paused.load(Ordering::SeqCst) { Err(FileError::TryLater) } else { Ok(begun) }
    }

    /// Let no change begin any more.
    pub(crate) fn pause(&self) {
        self.is_paused.store(true, Ordering::SeqCst);
    }

    /// True when changes are held.
    pub(crate) fn is_paused(&self) -> bool {
        self.is_paused.load(Ordering::SeqCst)
    }

    /// True when no change is under way.
    pub(crate) fn is_idle(&self) -> bool {
        self.under_way.load(Ordering::SeqCst) == 0
    }
}

impl Drop for RunningChange<'_> {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::SeqCst);
    }
}

/// See the module.
pub(crate) struct PausableShare {
    pub(crate) inner: Arc<dyn Share>,
    pub(crate) changes: Arc<ChangePause>,
    /// Calls that clients were asked to repeat.
    pub(crate) repeats: Arc<AtomicU64>,
}

impl PausableShare {
    fn counted<T>(&self, answer: Result<T>) -> Result<T> {
        if matches!(answer, Err(FileError::TryLater)) {
            self.repeats.fetch_add(1, Ordering::Relaxed);
        }
        answer
    }

    async fn change<T>(&self, call: impl Future<Output = Result<T>> + Send) -> Result<T> {
        let answer = match self.changes.begin() {
            Ok(_under_way) => call.await,
            Err(error) => Err(error),
        };
        self.counted(answer)
    }
}

#[async_trait]
impl Share for PausableShare {
    fn root(&self) -> FileId {
        self.inner.root()
    }

    fn limits(&self) -> FileLimits {
        self.inner.limits()
    }

    fn is_read_only(&self) -> bool {
        self.inner.is_read_only()
    }

    async fn access(&self, caller: &Caller, file: FileId) -> Result<(Access, Attributes)> {
        self.counted(self.inner.access(caller, file).await)
    }

    async fn attributes(&self, caller: &Caller, file: FileId) -> Result<Attributes> {
        self.counted(self.inner.attributes(caller, file).await)
    }

    async fn lookup(&self, caller: &Caller, directory: FileId, name: &[u8]) -> Result<Attributes> {
        self.counted(self.inner.lookup(caller, directory, name).await)
    }

    async fn read_link(&self, caller: &Caller, link: FileId) -> Result<Bytes> {
        self.counted(self.inner.read_link(caller, link).await)
    }

    async fn read(&self, caller: &Caller, file: FileId, offset: u64, length: u32) -> Result<ReadData> {
        self.counted(self.inner.read(caller, file, offset, length).await)
    }

    async fn read_directory(
        &self,
        caller: &Caller,
        dir: FileId,
        cookie: u64,
        most: usize,
        facts: EntryDetail,
    ) -> Result<DirectoryPage> {
        self.counted(self.inner.read_directory(caller, dir, cookie, most, facts).await)
    }

    async fn space(&self, caller: &Caller) -> Result<SpaceInfo> {
        self.counted(self.inner.space(caller).await)
    }

    // Bytes that were taken are made durable also while changes are held.
    async fn commit(&self, caller: &Caller, file: FileId) -> Result<ChangeResult> {
        self.counted(self.inner.commit(caller, file).await)
    }

    async fn set_attributes(
        &self,
        caller: &Caller,
        file: FileId,
        attributes: SetAttributes,
        unchanged_since: Option<SystemTime>,
    ) -> Result<ChangeResult> {
        self.change(self.inner.set_attributes(caller, file, attributes, unchanged_since)).await
    }

    async fn write(
        &self,
        caller: &Caller,
        file: FileId,
        offset: u64,
        data: Bytes,
        stability: Stability,
    ) -> Result<WriteResult> {
        self.change(self.inner.write(caller, file, offset, data, stability)).await
    }

    async fn create(&self, caller: &Caller, directory: FileId, name: &[u8], how: CreateMode) -> Result<CreateResult> {
        self.change(self.inner.create(caller, directory, name, how)).await
    }

    async fn create_directory(
        &self,
        caller: &Caller,
        directory: FileId,
        name: &[u8],
        attributes: SetAttributes,
    ) -> Result<CreateResult> {
        self.change(self.inner.create_directory(caller, directory, name, attributes)).await
    }

    async fn create_link(
        &self,
        caller: &Caller,
        directory: FileId,
        name: &[u8],
        target: Bytes,
        attributes: SetAttributes,
    ) -> Result<CreateResult> {
        self.change(self.inner.create_link(caller, directory, name, target, attributes)).await
    }

    async fn remove(&self, caller: &Caller, directory: FileId, name: &[u8]) -> Result<ChangeResult> {
        self.change(self.inner.remove(caller, directory, name)).await
    }

    async fn remove_directory(&self, caller: &Caller, directory: FileId, name: &[u8]) -> Result<ChangeResult> {
        self.change(self.inner.remove_directory(caller, directory, name)).await
    }

    async fn rename(
        &self,
        caller: &Caller,
        directory: FileId,
        name: &[u8],
        new_directory: FileId,
        new_name: &[u8],
    ) -> Result<(ChangeResult, ChangeResult)> {
        self.change(self.inner.rename(caller, directory, name, new_directory, new_name)).await
    }

    async fn extended_attribute(&self, caller: &Caller, file: FileId, name: &[u8]) -> Result<Option<Bytes>> {
        self.counted(self.inner.extended_attribute(caller, file, name).await)
    }

    async fn extended_attribute_names(&self, caller: &Caller, file: FileId) -> Result<Vec<Bytes>> {
        self.counted(self.inner.extended_attribute_names(caller, file).await)
    }

    async fn set_extended_attribute(
        &self,
        caller: &Caller,
        file: FileId,
        name: &[u8],
        value: Option<Bytes>,
        presence: XattrCondition,
    ) -> Result<()> {
        self.change(self.inner.set_extended_attribute(caller, file, name, value, presence)).await
    }
}
