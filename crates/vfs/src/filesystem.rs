//! Files as interfaces see them: opening, reading, links and attributes, over the tree and the reader.
//!
//! Opening binds a handle to one version of an object. Where possible, the open finds a version that the service no
//! longer has and answers `Stale`: the client of the interface looks the name up again and gets the new version.

mod archives;
mod open_predictor;
mod stateless_reads;
mod xattrs;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bytes::Bytes;
use seqferry_store::{ErrorClass, ObjectRef, StoreError};

use crate::ahead::PageCache;
use crate::error::{Result, VfsError};
use crate::fetch::OpenObject;
use crate::reader::{ReadHandle, ReadStats, Reader, Slices, WHOLE_OBJECT};
use crate::tree::{Attributes, FileKind, LONGEST_TARGET, Tree};
pub use archives::Archives;
use archives::MemberHandle;
use open_predictor::OpenPredictor;
use stateless_reads::HandleCache;
pub use xattrs::{HIDDEN_XATTR, MOUNT_XATTR_PREFIX, REFUSED_XATTR, STATS_XATTR, XATTR_PREFIX};

/// Freshness that an object needs when it is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Freshness {
    /// The version that was listed, until the lifetime of the listing ends. The first read of a small object checks it.
    #[default]
    Ttl,
    /// Each open asks the service.
    Open,
    /// The version that was listed stays; no newer one is requested.
    Frozen,
}

/// A tree of files over one prefix.
#[derive(Debug)]
pub struct FileSystem {
    tree: Arc<Tree>,
    reader: Arc<Reader>,
    freshness: Freshness,
    handles: Mutex<HashMap<u64, Arc<Handle>>>,
    next_handle: AtomicU64,
    objects: Mutex<Objects>,
    archives: Option<Archives>,
    open_predictor: Mutex<OpenPredictor>,
    /// Handles that are kept for reads that name an inode alone.
    kept: Mutex<HandleCache>,
}

/// An open file.
#[derive(Debug)]
struct Handle {
    read: ReadHandle,
    inode: u64,
    /// The member that is open, where `read` is over its archive. None: the object itself is open.
    member: Option<MemberHandle>,
}

/// Objects that are open or being fetched, by inode.
#[derive(Debug, Default)]
struct Objects {
    by_inode: HashMap<u64, Weak<OpenObject>>,
    /// Attributes of inodes that are open, which the tree may have forgotten, and how often each is open.
    open: HashMap<u64, (u32, Attributes)>,
    /// Size at which dead entries are looked for.
    full: usize,
}

impl FileSystem {
    /// Files of this tree, read by this reader.
    pub fn new(tree: Arc<Tree>, reader: Arc<Reader>, freshness: Freshness) -> Arc<Self> {
        Self::with_archives(tree, reader, freshness, None)
    }

    /// Files of this tree, with archives as folders.
    pub fn with_archives(
        tree: Arc<Tree>,
        reader: Arc<Reader>,
        freshness: Freshness,
        archives: Option<Archives>,
    ) -> Arc<Self> {
        Arc::new(Self {
            tree,
            reader,
            freshness,
            handles: Mutex::default(),
            next_handle: AtomicU64::new(1),
            objects: Mutex::default(),
            archives,
            open_predictor: Mutex::default(),
            kept: Mutex::default(),
        })
    }

    /// The names.
    pub fn tree(&self) -> &Arc<Tree> {
        &self.tree
    }

    /// Counters of reads and fetches so far.
    pub fn stats(&self) -> ReadStats {
        self.reader.stats()
    }

    /// Let the interface keep pages of these files that memory has no space for; inodes are those of this file system.
    pub fn set_page_cache(&self, pages: Arc<dyn PageCache>) {
        self.reader.pool().set_page_cache(pages);
    }

    /// Files that are open.
    pub fn open_handles(&self) -> usize {
        lock(&self.handles).len()
    }

    /// Attributes of an inode. Those of an open file stay available when its name has gone.
    ///
    /// # Errors
    /// `Stale` for an unknown inode.
    pub fn attributes(&self, inode: u64) -> Result<Attributes> {
        if let Some((folder, node)) = self.member(inode) {
            return self.member_attributes(&folder, node);
        }
        self.tree.attributes(inode).or_else(|error| {
            let objects = lock(&self.objects);
            objects.open.get(&inode).map(|(_, attributes)| attributes.clone()).ok_or(error)
        })
    }

    /// Attributes of an inode, with those that its object states.
    ///
    /// # Errors
    /// `Stale` for an unknown inode; else why the service did not answer.
    pub async fn learned_attributes(&self, inode: u64) -> Result<Attributes> {
        let found = self.attributes(inode)?;
        if found.is_known {
            return Ok(found);
        }
        let learned = self.tree.learned(found).await.map_err(|error| match error {
            VfsError::NotFound => VfsError::Stale,
            other => other,
        })?;
        // Another version, or a link: its name has to be looked up again.
        if learned.inode == inode { Ok(learned) } else { Err(VfsError::Stale) }
    }

    /// Open a file for reading; returns its handle.
    ///
    /// # Errors
    /// `Stale` when the object was replaced or removed: look the name up again. `Archived` until it is restored.
    pub async fn open(&self, inode: u64) -> Result<u64> {
        if let Some((folder, node)) = self.member(inode) {
            let handle = self.open_member(inode, &folder, node).await?;
            let number = self.next_handle.fetch_add(1, Ordering::Relaxed);
            lock(&self.handles).insert(number, Arc::new(handle));
            return Ok(number);
        }
        let attributes = self.tree.attributes(inode)?;
        match attributes.kind {
            FileKind::Directory => return Err(VfsError::IsADirectory),
            FileKind::Symlink => return Err(VfsError::Invalid),
            FileKind::File => {}
        }
        let object = self.object(inode)?;
        if self.tree.is_archived(inode) {
            return Err(archived(&object));
        }
        let pattern = self.predict(inode);
        let read = ReadHandle::with_pattern(Arc::clone(&object), pattern).with_pages(inode);
        if let Err(error) = self.validate(&read).await {
            if matches!(error, VfsError::Stale) {
                self.tree.replaced(inode).await?;
            }
            return Err(error);
        }
        if let Some(meta) = object.meta() {
            self.tree.learn(inode, meta);
            if self.tree.attributes(inode).is_err() {
                // Nothing was known of it. The name leads to a link from its next lookup on, which the client of the
                // interface makes by itself.
                return Err(VfsError::Stale);
            }
        }
        let number = self.next_handle.fetch_add(1, Ordering::Relaxed);
        let attributes = self.tree.attributes(inode).unwrap_or(attributes);
        lock(&self.objects).open.entry(inode).or_insert((0, attributes)).0 += 1;
        lock(&self.handles).insert(number, Arc::new(Handle { read, inode, member: None }));
        Ok(number)
    }

    /// Find out whether the service still has this version, as far as the freshness asks for it.
    async fn validate(&self, read: &ReadHandle) -> Result<()> {
        let version = &read.object().version;
        match self.freshness {
            Freshness::Open => {
                let meta = match self.tree.source().head(ObjectRef::new(&version.bucket, &version.key)).await {
                    Err(error) if error.class == ErrorClass::NotFound => return Err(VfsError::Stale),
                    other => other?,
                };
                read.object().is_same(&meta).then_some(()).ok_or(VfsError::Stale)
            }
            // The first read of a small object brings all of it: what is checked now is not requested again.
            _ if version.size > 0 && version.size <= WHOLE_OBJECT => self.reader.read(read, 0, 1).await.map(drop),
            _ => Ok(()),
        }
    }

    /// Read from an open file.
    ///
    /// # Errors
    /// `Stale` when the version is gone; `Invalid` for an unknown handle; else why the service did not answer.
    pub async fn read(self: &Arc<Self>, handle: u64, offset: u64, length: usize) -> Result<Slices> {
        let handle = lock(&self.handles).get(&handle).cloned().ok_or(VfsError::Invalid)?;
        if let Some(member) = &handle.member {
            return self.read_member(&handle, member, offset, length).await;
        }
        let known = handle.read.object().meta().is_some();
        let read = self.reader.read(&handle.read, offset, length).await;
        if let (false, Some(meta)) = (known, handle.read.object().meta()) {
            self.tree.learn(handle.inode, meta);
        }
        if matches!(read, Err(VfsError::Stale)) {
            // The name shows the new version from its next lookup on.
            let (files, inode) = (Arc::clone(self), handle.inode);
            tokio::spawn(async move { files.tree.replaced(inode).await.map(drop) });
        }
        read
    }

    /// Close a file.
    pub fn close(&self, handle: u64) {
        let Some(closed) = lock(&self.handles).remove(&handle) else { return };
        let mut objects = lock(&self.objects);
        if let Some((count, _)) = objects.open.get_mut(&closed.inode) {
            *count -= 1;
            if *count == 0 {
                objects.open.remove(&closed.inode);
            }
        }
    }

    /// The target of a link.
    ///
    /// # Errors
    /// `Invalid` for an object that is not a link, and for a target that is empty, too long or holds a NUL.
    pub async fn read_link(&self, inode: u64) -> Result<Bytes> {
        if let Some((folder, node)) = self.member(inode) {
            return Self::member_target(&folder, node).map(Bytes::from);
        }
        if self.tree.attributes(inode)?.kind != FileKind::Symlink {
            return Err(VfsError::Invalid);
        }
        let object = self.object(inode)?;
        if object.version.size == 0 || object.version.size > LONGEST_TARGET {
            return Err(VfsError::Invalid);
        }
        let handle = ReadHandle::new(object);
        let target = self.reader.read(&handle, 0, usize::MAX).await;
        if matches!(target, Err(VfsError::Stale)) {
            self.tree.replaced(inode).await?;
        }
        let target = target?.to_bytes();
        if target.contains(&0) {
            return Err(VfsError::Invalid);
        }
        Ok(target)
    }

    /// The object of an inode; concurrent users share one value.
    fn object(&self, inode: u64) -> Result<Arc<OpenObject>> {
        if let Some(object) = lock(&self.objects).by_inode.get(&inode).and_then(Weak::upgrade) {
            return Ok(object);
        }
        let object = OpenObject::new(self.tree.version(inode)?);
        let mut objects = lock(&self.objects);
        if objects.by_inode.len() >= objects.full.max(1024) {
            objects.by_inode.retain(|_, object| object.strong_count() > 0);
            objects.full = 2 * objects.by_inode.len();
        }
        objects.by_inode.insert(inode, Arc::downgrade(&object));
        Ok(object)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn archived(object: &OpenObject) -> VfsError {
    let version = &object.version;
    let error = StoreError::new("GetObject", &version.bucket, Some(&version.key), "InvalidObjectState", None);
    VfsError::Archived(error.with_message("the object is archived"))
}

#[cfg(test)]
mod facts_tests;
#[cfg(test)]
mod tests;
