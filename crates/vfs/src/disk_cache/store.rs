//! An object store whose reads go through a disk cache: blocks that are there come from the disk, the others are kept.
//!
//! A read that names an `ETag` is widened to whole blocks. Its bytes reach the caller as they come. A block is written
//! to the cache when it is complete, before the next bytes are requested, so that memory holds one block for each read.
//! The cache never changes which bytes come: a block that it cannot verify is fetched. Nor does it change who may read
//! them: before bytes of an object are taken from the disk, the service has let this identity read that version.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures::StreamExt as _;
use seqferry_client::reading::fetch_pinned;
use seqferry_store::BucketEncryption;
use seqferry_store::prelude::*;
use seqferry_store::{
    Body, FetchedObject, ListPage, ListRequest, ObjectMeta, ObjectRef, PinnedObject, Range, Result, StoreError,
};

use super::{Admission, DiskCache, lock};
use crate::access::AccessCache;
use crate::version::{BLOCK_SIZE, ObjectVersion, VersionPin, block_length};

/// Blocks that are read from the disk in one step: 1 MiB of memory for each read under way.
const MAX_RUN_BLOCKS: u64 = 8;

/// A store behind a cache. Everything but reading goes to the store as it is.
pub struct CachedStore {
    store: Arc<dyn ObjectStore>,
    cache: Arc<DiskCache>,
    endpoint: Arc<str>,
    /// For the time of one job.
    proofs: Arc<AccessCache>,
}

impl fmt::Debug for CachedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CachedStore").field("store", &self.store).finish_non_exhaustive()
    }
}

impl CachedStore {
    /// Reads of `store` through `cache`, where its endpoint has this name.
    pub fn new(store: Arc<dyn ObjectStore>, cache: Arc<DiskCache>, endpoint: &str) -> Self {
        Self { store, cache, endpoint: endpoint.into(), proofs: Arc::new(AccessCache::new(None)) }
    }

    /// Attributes of a version of which the disk has bytes: those that the service gives with its first byte, once,
    /// since an identity that may not read it must not get it from the disk.
    async fn proven(&self, source: &PinnedObject, object: &ObjectVersion) -> Result<ObjectMeta> {
        let digest = object.digest();
        if self.proofs.holds(digest) {
            return Ok(ObjectMeta {
                size: source.size,
                etag: source.if_match.clone().unwrap_or_default(),
                version_id: source.version_id.clone(),
                ..ObjectMeta::default()
            });
        }
        let answer = fetch_pinned(&*self.store, source, Some(Range { first: 0, last: 0 })).await?;
        self.proofs.add(digest);
        Ok(answer.meta)
    }

    /// The version as the cache names it; None for one without an `ETag` or without bytes.
    fn version(&self, source: &PinnedObject) -> Option<ObjectVersion> {
        let etag = source.if_match.as_deref().filter(|etag| !etag.is_empty())?;
        (source.size > 0).then(|| ObjectVersion {
            endpoint: Arc::clone(&self.endpoint),
            bucket: source.bucket.as_str().into(),
            key: source.key.as_str().into(),
            pin: VersionPin::Etag(etag.into()),
            size: source.size,
        })
    }
}

/// A disk cache in front of the source of one job, or none.
#[derive(Debug, Default)]
pub struct SourceCache {
    /// The cache, and the name that the source's endpoint has in it.
    cache: Option<(Arc<DiskCache>, String)>,
    /// Notes of the cache so far: it hands out each note only once.
    notes: Mutex<Vec<String>>,
}

impl SourceCache {
    /// A source read through `cache`, in which its endpoint has this name; None: a source that is read as it is.
    pub fn new(cache: Option<(Arc<DiskCache>, String)>) -> Self {
        Self { cache, notes: Mutex::default() }
    }

    /// The store of the source, behind the cache if there is one.
    pub fn over(&self, store: Arc<dyn ObjectStore>) -> Arc<dyn ObjectStore> {
        match &self.cache {
            Some((cache, endpoint)) => Arc::new(CachedStore::new(store, Arc::clone(cache), endpoint)),
            None => store,
        }
    }

    /// All notes of the cache for the user of the job.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = lock(&self.notes);
        notes.extend(self.cache.iter().flat_map(|(cache, _)| cache.take_notes()));
        notes.clone()
    }
}

#[async_trait]
impl ObjectRead for CachedStore {
    async fn head_bucket(&self, bucket: &str) -> Result<()> {
        self.store.head_bucket(bucket).await
    }

    async fn list(&self, request: &ListRequest) -> Result<ListPage> {
        self.store.list(request).await
    }

    async fn head(&self, object: ObjectRef<'_>, part: Option<u32>) -> Result<ObjectMeta> {
        self.store.head(object, part).await
    }

    async fn fetch(&self, source: &PinnedObject, range: Option<Range>) -> Result<FetchedObject> {
        let Some(object) = self.version(source) else { return self.store.fetch(source, range).await };
        let wanted = range.unwrap_or(Range { first: 0, last: source.size - 1 });
        if wanted.last >= source.size {
            return self.store.fetch(source, range).await;
        }
        let (first, end) = (wanted.first / BLOCK_SIZE, wanted.last / BLOCK_SIZE + 1);
        let object = Arc::new(object);
        let present = {
            let (cache, object) = (Arc::clone(&self.cache), Arc::clone(&object));
            let look = move || cache.present(&object, first, end - first);
            tokio::task::spawn_blocking(look).await.unwrap_or_default()
        };
        let mut reading = CachedRead {
            store: Arc::clone(&self.store),
            cache: Arc::clone(&self.cache),
            proofs: Arc::clone(&self.proofs),
            source: source.clone(),
            object,
            block: first,
            first,
            present,
            end,
            ready: VecDeque::new(),
            network: None,
            skip: wanted.first - first * BLOCK_SIZE,
            left: wanted.len(),
        };
        let complete = reading.present.len() as u64 == end - first && reading.present.iter().all(|there| *there);
        let meta = match range {
            // The attributes of the whole object, which only the service has, are part of this answer.
            None if complete => {
                let version = source.version_id.as_deref();
                let object = ObjectRef::new(&source.bucket, &source.key).at_version(version);
                let meta = self.store.head(object, None).await?;
                // A HEAD needs no permission for a key of KMS.
                if meta.opaque_etag {
                    self.proven(source, &reading.object).await?;
                }
                meta
            }
            None => {
                let FetchedObject { meta, body } = self.store.fetch(source, None).await?;
                self.proofs.add(reading.object.digest());
                reading.present.clear();
                reading.network = Some(FetchedBlocks { body, partial: BytesMut::new(), end });
                meta
            }
            // The service's refusal must come with the answer, not among the bytes.
            Some(_) if !reading.is_present(first) => reading.open().await?,
            Some(_) => self.proven(source, &reading.object).await?,
        };
        let chunks = futures::stream::try_unfold(reading, async |mut reading| {
            Ok(reading.next().await?.map(|bytes| (bytes, reading)))
        });
        Ok(FetchedObject { meta, body: Body::from_stream(chunks.boxed()) })
    }

    async fn bucket_encryption(&self, bucket: &str) -> Result<BucketEncryption> {
        self.store.bucket_encryption(bucket).await
    }

    async fn restore(&self, object: ObjectRef<'_>, days: u32, tier: &str) -> Result<()> {
        self.store.restore(object, days, tier).await
    }

    async fn get_tags(&self, object: ObjectRef<'_>) -> Result<Vec<(String, String)>> {
        self.store.get_tags(object).await
    }

    fn invalidate(&self, source: &PinnedObject) {
        if let Some(object) = self.version(source) {
            self.cache.forget(&object);
        }
        self.store.invalidate(source);
    }
}

/// One read of an object through the cache.
struct CachedRead {
    store: Arc<dyn ObjectStore>,
    cache: Arc<DiskCache>,
    proofs: Arc<AccessCache>,
    source: PinnedObject,
    object: Arc<ObjectVersion>,
    /// The next block that is neither ready nor under way.
    block: u64,
    /// Block of the first element of `present`.
    first: u64,
    /// Blocks that the cache claimed to have.
    present: Vec<bool>,
    /// The block after the last one.
    end: u64,
    /// Bytes from the cache.
    ready: VecDeque<Bytes>,
    network: Option<FetchedBlocks>,
    /// Bytes before the wanted ones.
    skip: u64,
    /// Wanted bytes that have not been handed out.
    left: u64,
}

/// An answer of the service.
struct FetchedBlocks {
    body: Body,
    /// The beginning of the next block.
    partial: BytesMut,
    /// The block after the last one of this answer.
    end: u64,
}

impl CachedRead {
    fn is_present(&self, block: u64) -> bool {
        let place = usize::try_from(block - self.first).ok();
        place.and_then(|place| self.present.get(place)).is_some_and(|there| *there)
    }

    /// The block after the run of blocks from here on that are all present, or all absent.
    fn run_end(&self) -> u64 {
        let here = self.is_present(self.block);
        (self.block..self.end).find(|block| self.is_present(*block) != here).unwrap_or(self.end)
    }

    /// The next bytes that are wanted. None: those were all.
    async fn next(&mut self) -> Result<Option<Bytes>> {
        while self.left > 0 {
            let bytes = match self.ready.pop_front() {
                Some(bytes) => bytes,
                None => match self.more().await? {
                    Some(bytes) => bytes,
                    None => continue,
                },
            };
            let bytes = self.trimmed(bytes);
            if !bytes.is_empty() {
                return Ok(Some(bytes));
            }
        }
        Ok(None)
    }

    fn trimmed(&mut self, mut bytes: Bytes) -> Bytes {
        let skipped = self.skip.min(bytes.len() as u64);
        self.skip -= skipped;
        let _before = bytes.split_to(usize::try_from(skipped).unwrap_or(bytes.len()));
        bytes.truncate(usize::try_from(self.left).unwrap_or(usize::MAX));
        self.left -= bytes.len() as u64;
        bytes
    }

    /// The next bytes in order; None where they came to be ready, or are to be requested.
    async fn more(&mut self) -> Result<Option<Bytes>> {
        if let Some(network) = &mut self.network {
            if let Some(chunk) = network.body.next().await.transpose()? {
                self.keep(&chunk).await;
                return Ok(Some(chunk));
            }
            self.network = None;
            // Shorter than was requested: the missing bytes are wanted and have no other source.
            return if self.block < self.end && !self.is_present(self.block) {
                Err(self.broken("the body ended early"))
            } else {
                Ok(None)
            };
        }
        if self.block >= self.end {
            return Err(self.broken("the object is shorter than was listed"));
        }
        if !self.is_present(self.block) {
            self.open().await?;
            return Ok(None);
        }
        self.load().await;
        Ok(None)
    }

    /// Read blocks from the cache. One that it does not have after all is fetched next.
    async fn load(&mut self) {
        let (cache, object, block) = (Arc::clone(&self.cache), Arc::clone(&self.object), self.block);
        let count = (self.run_end() - block).min(MAX_RUN_BLOCKS);
        let read = tokio::task::spawn_blocking(move || cache.read(&object, block, count)).await;
        let mut read = read.unwrap_or_default().into_iter();
        while let Some(Some(bytes)) = read.next() {
            self.ready.push_back(bytes);
            self.block += 1;
        }
        if self.block < block + count
            && let Some(missing) = usize::try_from(self.block - self.first).ok().and_then(|at| self.present.get_mut(at))
        {
            *missing = false;
        }
    }

    /// Ask the service for the blocks from here on that the cache does not have.
    async fn open(&mut self) -> Result<ObjectMeta> {
        let end = self.run_end();
        let range = Range { first: self.block * BLOCK_SIZE, last: self.object.size.min(end * BLOCK_SIZE) - 1 };
        let FetchedObject { meta, body } = fetch_pinned(&*self.store, &self.source, Some(range)).await?;
        self.proofs.add(self.object.digest());
        self.network = Some(FetchedBlocks { body, partial: BytesMut::new(), end });
        Ok(meta)
    }

    /// Write the blocks that these bytes complete. Blocks that the cache does not take are skipped.
    async fn keep(&mut self, chunk: &[u8]) {
        let Some(network) = &mut self.network else { return };
        network.partial.extend_from_slice(chunk);
        let mut complete = Vec::new();
        while self.block < network.end && network.partial.len() >= block_length(self.object.size, self.block) {
            let bytes = network.partial.split_to(block_length(self.object.size, self.block)).freeze();
            complete.push((self.block, bytes));
            self.block += 1;
        }
        if complete.is_empty() {
            return;
        }
        let (cache, object) = (Arc::clone(&self.cache), Arc::clone(&self.object));
        let write = move || {
            for (block, bytes) in complete {
                cache.fill(&object, block, &bytes, Admission::Always);
            }
        };
        // It fails only when the runtime is being torn down.
        let _written = tokio::task::spawn_blocking(write).await;
    }

    fn broken(&self, message: &str) -> StoreError {
        let (bucket, key) = (&self.source.bucket, Some(self.source.key.as_str()));
        StoreError::new("GetObject", bucket, key, seqferry_store::error::classify::code::TRUNCATED, Some(200))
            .with_message(message)
    }
}

impl DiskCache {
    /// Drop all blocks of an object version: its bytes are not what the service promises.
    pub fn forget(&self, object: &ObjectVersion) {
        #[expect(
            clippy::redundant_closure_for_method_calls,
            reason = "the method is not general enough over lifetimes"
        )]
        let dropped = self.shared.files.with(&self.shared.folder, object, false, |files| files.drop_all());
        self.shared.checked("write to", dropped);
    }
}

seqferry_store::forward_object_write!(CachedStore, store, [put_object, delete, delete_if, put_tags, copy]);
seqferry_store::forward_multipart_upload!(
    CachedStore,
    store,
    [create_upload, copy_part, put_part, stream_part, list_parts, complete_upload, abort_upload, list_uploads]
);
seqferry_store::forward_object_store!(CachedStore, store);
