//! A share whose changes can be held, and whose calls that clients have to repeat are counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::SystemTime;

use async_trait::async_trait;
use bytes::Bytes;
use seqferry_nfs::{
    Access, Attributes, Caller, Changed, Created, Creation, DirectoryPage, EntryFacts, FileError, FileId, FileLimits,
    Presence, ReadData, Result, SetAttributes, Share, Space, Stability, Written,
};

/// Changes of one or more shares, which can be held: clients ask again until another process serves the share.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    are_held: AtomicBool,
    under_way: AtomicUsize,
}

/// A change under way.
struct UnderWay<'a>(&'a Changes);

impl Changes {
    fn begin(&self) -> Result<UnderWay<'_>> {
        // Counted before the look: whoever holds changes sees each that was let through.
        self.under_way.fetch_add(1, Ordering::SeqCst);
        let begun = UnderWay(self);
        if self.are_held.load(Ordering::SeqCst) { Err(FileError::TryLater) } else { Ok(begun) }
    }

    /// Let no change begin any more.
    pub(crate) fn hold(&self) {
        self.are_held.store(true, Ordering::SeqCst);
    }

    /// True when changes are held.
    pub(crate) fn are_held(&self) -> bool {
        self.are_held.load(Ordering::SeqCst)
    }

    /// True when no change is under way.
    pub(crate) fn have_ended(&self) -> bool {
        self.under_way.load(Ordering::SeqCst) == 0
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::SeqCst);
    }
}

/// See the module.
pub(crate) struct HeldShare {
    pub(crate) inner: Arc<dyn Share>,
    pub(crate) changes: Arc<Changes>,
    /// Calls that clients were asked to repeat.
    pub(crate) repeats: Arc<AtomicU64>,
}

impl HeldShare {
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
impl Share for HeldShare {
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
        facts: EntryFacts,
    ) -> Result<DirectoryPage> {
        self.counted(self.inner.read_directory(caller, dir, cookie, most, facts).await)
    }

    async fn space(&self, caller: &Caller) -> Result<Space> {
        self.counted(self.inner.space(caller).await)
    }

    // Bytes that were taken are made durable also while changes are held.
    async fn commit(&self, caller: &Caller, file: FileId) -> Result<Changed> {
        self.counted(self.inner.commit(caller, file).await)
    }

    async fn set_attributes(
        &self,
        caller: &Caller,
        file: FileId,
        attributes: SetAttributes,
        unchanged_since: Option<SystemTime>,
    ) -> Result<Changed> {
        self.change(self.inner.set_attributes(caller, file, attributes, unchanged_since)).await
    }

    async fn write(
        &self,
        caller: &Caller,
        file: FileId,
        offset: u64,
        data: Bytes,
        stability: Stability,
    ) -> Result<Written> {
        self.change(self.inner.write(caller, file, offset, data, stability)).await
    }

    async fn create(&self, caller: &Caller, directory: FileId, name: &[u8], how: Creation) -> Result<Created> {
        self.change(self.inner.create(caller, directory, name, how)).await
    }

    async fn create_directory(
        &self,
        caller: &Caller,
        directory: FileId,
        name: &[u8],
        attributes: SetAttributes,
    ) -> Result<Created> {
        self.change(self.inner.create_directory(caller, directory, name, attributes)).await
    }

    async fn create_link(
        &self,
        caller: &Caller,
        directory: FileId,
        name: &[u8],
        target: Bytes,
        attributes: SetAttributes,
    ) -> Result<Created> {
        self.change(self.inner.create_link(caller, directory, name, target, attributes)).await
    }

    async fn remove(&self, caller: &Caller, directory: FileId, name: &[u8]) -> Result<Changed> {
        self.change(self.inner.remove(caller, directory, name)).await
    }

    async fn remove_directory(&self, caller: &Caller, directory: FileId, name: &[u8]) -> Result<Changed> {
        self.change(self.inner.remove_directory(caller, directory, name)).await
    }

    async fn rename(
        &self,
        caller: &Caller,
        directory: FileId,
        name: &[u8],
        new_directory: FileId,
        new_name: &[u8],
    ) -> Result<(Changed, Changed)> {
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
        presence: Presence,
    ) -> Result<()> {
        self.change(self.inner.set_extended_attribute(caller, file, name, value, presence)).await
    }
}
