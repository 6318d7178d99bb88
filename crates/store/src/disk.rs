//! A file system as an object store.
//!
//! A bucket is the absolute path of a folder, a key the path of a file below it. Objects are pinned by size, time of
//! the last change and inode. A file appears under its name whole or not at all: it is written in the same folder under
//! a temporary name (see `disk/names.rs`) and renamed. A multipart upload survives the process, and with
//! [`DiskOptions::durable`] also a restart of the machine; `disk/upload.rs` lists what is left after a kill at any
//! point.
//!
//! | module | content |
//! |---|---|
//! | `names` | keys as paths, keys that are no paths, names of unfinished files |
//! | `folders` | opening and making folders; changes never follow links |
//! | `walk` | listing |
//! | `read` | reading of bytes and facts |
//! | `write` | writing of whole files |
//! | `groups` | writing of several whole files by one thread |
//! | `upload`, `record` | files in parts, and the record of the parts that are whole |
//! | `sparse` | holes instead of runs of zeros |
//! | `inline_writes` | choice of the thread that writes |
//! | `o_direct` | writing with `O_DIRECT`, past the page cache |
//! | `content_type` | MIME types by the extension of a name |
//! | `facts` | facts from a file's status; times and permissions as metadata |
//! | `disk_failure` | errors of the operating system as error codes |
//!
//! A disk has no tags, storage classes, versions, content headers, stored checksums, or copies within itself.

mod content_type;
mod deferred_sync;
mod disk_failure;
mod facts;
mod folders;
mod groups;
mod inline_writes;
mod names;
mod o_direct;
mod positioned;
mod read;
mod record;
mod sparse;
mod upload;
mod walk;
mod write;

pub use disk_failure::file_error;
pub use names::path_refusal;

use std::sync::Arc;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use tokio::sync::Semaphore;

use write::PutRequest;

use crate::body::Body;
use crate::checksum::{Checksum, ChecksumAlgorithm, ChecksumKind};
use crate::error::Result;
use crate::error::StoreError;
use crate::error::classify::code;
use crate::properties::BucketEncryption;
use crate::store::BucketService;
use crate::store::{DeferredSync, FetchedObject, MultipartUpload, ObjectRead, ObjectStore, ObjectWrite};
use crate::types::{
    Capabilities, CompleteUpload, CopyTarget, CreateUpload, Digests, ListPage, ListRequest, ObjectMeta, ObjectRef,
    PartsPage, PinnedObject, PutObject, Range, UploadInfo, UploadRef, WrittenObject, WrittenPart,
};

/// Requests that may block a thread at the same time: enough to keep a fast disk or a slow file server busy.
const THREADS: usize = 32;

/// Bytes of a body that are read in one step: checksums over them are computed while they are in the processor's cache.
const READ: usize = 256 << 10;

const UPLOAD_PART: &str = "UploadPart";

/// Treatment of symbolic links.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Symlinks {
    /// Reading follows links, wherever they lead. Writing never goes through a link, whatever is chosen.
    #[default]
    Follow,
    /// Links are listed as refused.
    Skip,
    /// Links are objects: their text, with a `mode` that marks them. Writing such an object makes a link again.
    Keep,
}

/// Use of the system's page cache for large enough files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum PageCache {
    /// Writes bypass the cache where the file system allows it: this takes less CPU, and leaves the cache to others.
    #[default]
    Bypass,
    /// Writes go through the cache, for a program that reads the file next.
    Use,
}

/// Effect of permissions in objects' metadata. Setuid, setgid and sticky bits are never applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Permissions {
    /// Permissions narrow those that a new file or folder gets here from the umask or the folder's default ACL.
    #[default]
    Narrow,
    /// Permissions are set unchanged.
    Preserve,
}

/// Options for reading and writing a disk.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct DiskOptions {
    /// Treatment of symbolic links.
    pub symlinks: Symlinks,
    /// True when empty folders are listed, as keys that end in `/`.
    pub empty_folders: bool,
    /// True when written data is synced to the disk before a write counts as done. Without it a power cut may cost
    /// files that were reported as written.
    pub durable: bool,
    /// Use of the page cache for large enough files.
    pub cache: PageCache,
    /// Effect of the permissions in objects' metadata on files and folders.
    pub permissions: Permissions,
    /// True when a missing target folder is made.
    pub create_root: bool,
    /// Names of one folder that a listing keeps at a time. They bound its memory for folders of any size.
    pub names_per_pass: usize,
}

impl Default for DiskOptions {
    fn default() -> Self {
        Self {
            symlinks: Symlinks::default(),
            empty_folders: false,
            durable: true,
            cache: PageCache::default(),
            permissions: Permissions::default(),
            create_root: false,
            names_per_pass: walk::PASS,
        }
    }
}

/// See the module.
#[derive(Debug)]
pub struct DiskStore {
    disk: Arc<Disk>,
}

/// State that all requests of a store share.
#[derive(Debug)]
struct Disk {
    options: DiskOptions,
    /// Boot id, which changes when the machine is restarted; None where it cannot be read.
    boot: Option<String>,
    folders: folders::Folders,
    uploads: upload::Uploads,
    walks: walk::Walks,
    groups: groups::Groups,
    threads: Arc<Semaphore>,
    inline_writes: inline_writes::InlineWrites,
}

impl DiskStore {
    /// A store over the file systems of this machine.
    pub fn new(options: DiskOptions) -> Self {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok();
        let disk = Disk {
            options,
            boot: boot.map(|id| id.trim().to_owned()).filter(|id| !id.is_empty() && !id.contains(char::is_whitespace)),
            folders: folders::Folders::default(),
            uploads: upload::Uploads::default(),
            walks: walk::Walks::default(),
            groups: groups::Groups::default(),
            threads: Arc::new(Semaphore::new(THREADS)),
            inline_writes: inline_writes::InlineWrites::new(),
        };
        Self { disk: Arc::new(disk) }
    }
}

impl Disk {
    /// Run blocking work on a thread for it. The work continues when the caller is dropped.
    async fn blocking<T: Send + 'static>(
        self: &Arc<Self>,
        operation: &'static str,
        bucket: &str,
        key: Option<&str>,
        work: impl FnOnce(&Arc<Self>) -> disk_failure::Result<T> + Send + 'static,
    ) -> Result<T> {
        let stopped = || stop_error(operation, bucket, key);
        let turn = Arc::clone(&self.threads).acquire_owned().await.map_err(|_| stopped())?;
        let disk = Arc::clone(self);
        let done = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            work(&disk)
        });
        // The work ends without a result only when the runtime is shut down.
        let done = done.await.map_err(|_| stopped())?;
        done.map_err(|fail| fail.into_error(operation, bucket, key))
    }
}

fn stop_error(operation: &'static str, bucket: &str, key: Option<&str>) -> StoreError {
    StoreError::new(operation, bucket, key, code::DISK_ERROR, None).with_message("stopped")
}

fn crc64(bytes: &[u8]) -> u64 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Nvme, bytes)
}

fn base64(crc64: u64) -> String {
    STANDARD.encode(crc64.to_be_bytes())
}

/// The checksum of bytes to be written: the sender's value, or else computed now.
fn crc64_of(digests: &Digests, body: &[u8]) -> u64 {
    let given = digests.checksum.as_ref().filter(|(algorithm, _)| *algorithm == ChecksumAlgorithm::Crc64Nvme);
    let given = given.and_then(|(_, value)| <[u8; 8]>::try_from(STANDARD.decode(value).ok()?).ok());
    given.map_or_else(|| crc64(body), u64::from_be_bytes)
}

/// Full-object CRC64NVME of the bytes written, as S3 reports it.
fn full(crc64: u64) -> Checksum {
    Checksum { algorithm: ChecksumAlgorithm::Crc64Nvme, value: base64(crc64), kind: ChecksumKind::FullObject }
}

#[async_trait]
impl ObjectRead for DiskStore {
    async fn head_bucket(&self, bucket: &str) -> Result<()> {
        let root = bucket.to_owned();
        self.disk.blocking("HeadBucket", bucket, None, move |_| folders::root(&root).map(drop)).await
    }

    async fn list(&self, request: &ListRequest) -> Result<ListPage> {
        let asked = request.clone();
        let work = move |disk: &Arc<Disk>| disk.walks.page(&disk.options, &asked);
        self.disk.blocking("ListObjectsV2", &request.bucket, None, work).await
    }

    async fn head(&self, object: ObjectRef<'_>, part: Option<u32>) -> Result<ObjectMeta> {
        let ObjectRef { bucket, key, .. } = object;
        let (root, name) = (bucket.to_owned(), key.to_owned());
        let work = move |disk: &Arc<Disk>| read::head(disk, ObjectRef::new(&root, &name), part);
        self.disk.blocking("HeadObject", bucket, Some(key), work).await
    }

    async fn fetch(&self, source: &PinnedObject, range: Option<Range>) -> Result<FetchedObject> {
        let asked = source.clone();
        let work = move |disk: &Arc<Disk>| read::fetch(disk, &asked, range);
        self.disk.blocking("GetObject", &source.bucket, Some(&source.key), work).await
    }

    async fn bucket_encryption(&self, _bucket: &str) -> Result<BucketEncryption> {
        Ok(BucketEncryption::Unsupported)
    }

    async fn restore(&self, object: ObjectRef<'_>, _days: u32, _tier: &str) -> Result<()> {
        Err(StoreError::new("RestoreObject", object.bucket, Some(object.key), "NotImplemented", None))
    }

    fn invalidate(&self, _source: &PinnedObject) {}

    async fn get_tags(&self, _object: ObjectRef<'_>) -> Result<Vec<(String, String)>> {
        Ok(Vec::new())
    }
}

#[async_trait]
impl ObjectWrite for DiskStore {
    async fn put_object(&self, object: &PutObject, body: Bytes) -> Result<WrittenObject> {
        let (receiver, begins) = self.disk.groups.add(PutRequest { object: object.clone(), body });
        if begins {
            let disk = Arc::clone(&self.disk);
            tokio::task::spawn_blocking(move || {
                disk.groups.write(|group| write::put_all(&disk.folders, &disk.options, group));
            });
        }
        let (bucket, key) = (object.bucket.as_str(), Some(object.key.as_str()));
        let done = receiver.await.map_err(|_| stop_error("PutObject", bucket, key))?;
        done.map_err(|fail| fail.into_error("PutObject", bucket, key))
    }

    async fn delete(&self, object: ObjectRef<'_>) -> Result<()> {
        let ObjectRef { bucket, key, .. } = object;
        let (root, name) = (bucket.to_owned(), key.to_owned());
        let work = move |disk: &Arc<Disk>| write::delete(&disk.folders, &disk.options, ObjectRef::new(&root, &name));
        self.disk.blocking("DeleteObject", bucket, Some(key), work).await
    }

    async fn delete_if(&self, object: ObjectRef<'_>, _etag: &str) -> Result<()> {
        Err(StoreError::new("DeleteObject", object.bucket, Some(object.key), "NotImplemented", None))
    }

    async fn put_tags(&self, object: ObjectRef<'_>, tags: &[(String, String)]) -> Result<()> {
        let ObjectRef { bucket, key, .. } = object;
        if tags.is_empty() { Ok(()) } else { Err(not_offered("PutObjectTagging", bucket, key, "a file has no tags")) }
    }

    async fn copy(&self, _source: &PinnedObject, target: CopyTarget<'_>) -> Result<WrittenObject> {
        let CopyTarget { object: ObjectRef { bucket, key, .. }, .. } = target;
        Err(not_offered("CopyObject", bucket, key, "a disk does not copy by itself"))
    }
}

#[async_trait]
impl MultipartUpload for DiskStore {
    async fn create_upload(&self, upload: &CreateUpload) -> Result<String> {
        let asked = upload.clone();
        let work = move |disk: &Arc<Disk>| disk.uploads.create(&disk.folders, &disk.options, &asked);
        self.disk.blocking("CreateMultipartUpload", &upload.bucket, Some(&upload.key), work).await
    }

    async fn copy_part(
        &self,
        _source: &PinnedObject,
        _range: Range,
        upload: UploadRef<'_>,
        _part: u32,
    ) -> Result<WrittenPart> {
        let UploadRef { bucket, key, .. } = upload;
        Err(not_offered("UploadPartCopy", bucket, key, "a disk does not copy by itself"))
    }

    async fn put_part(&self, upload: UploadRef<'_>, part: u32, body: Bytes, digests: &Digests) -> Result<WrittenPart> {
        let UploadRef { bucket, key, upload_id } = upload;
        let (root, name, id) = (bucket.to_owned(), key.to_owned(), upload_id.to_owned());
        let digests = digests.clone();
        let work = move |disk: &Arc<Disk>| {
            let crc64 = crc64_of(&digests, &body);
            let upload = UploadRef::new(&root, &name, &id);
            disk.uploads.put_part(&disk.options, disk.boot.as_deref(), upload, part, (&body, crc64))
        };
        self.disk.blocking(UPLOAD_PART, bucket, Some(key), work).await
    }

    async fn stream_part(&self, upload: UploadRef<'_>, part: u32, size: u64, mut body: Body) -> Result<WrittenPart> {
        let UploadRef { bucket, key, upload_id } = upload;
        let (root, name, id) = (bucket.to_owned(), key.to_owned(), upload_id.to_owned());
        let begin = move |disk: &Arc<Disk>| {
            let upload = UploadRef::new(&root, &name, &id);
            disk.uploads.begin_stream(&disk.options, disk.boot.as_deref(), upload, part, size)
        };
        let mut writing = self.disk.blocking(UPLOAD_PART, bucket, Some(key), begin).await?;
        let mut crc64 = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc64Nvme);
        let failed = |fail: disk_failure::DiskFailure| fail.into_error(UPLOAD_PART, bucket, Some(key));
        while let Some((into, at_most)) = writing.buffer() {
            let came = body.read(into, at_most.min(READ)).await?;
            if came == 0 {
                break;
            }
            crc64.update(writing.count_received(came));
            if !writing.is_due() {
                continue;
            }
            let waits = writing.is_blocking();
            let write = move || writing.write().map(|()| writing);
            let here = if waits { Err(write) } else { self.disk.inline_writes.here(write) };
            writing = match here {
                Ok(written) => written.map_err(failed)?,
                Err(write) => self.disk.blocking(UPLOAD_PART, bucket, Some(key), move |_| write()).await?,
            };
        }
        if body.next().await.transpose()?.is_some() {
            return Err(failed(writing.length_error()));
        }
        let finish = move |disk: &Arc<Disk>| writing.finish(&disk.options, disk.boot.as_deref(), crc64.finalize());
        self.disk.blocking(UPLOAD_PART, bucket, Some(key), finish).await
    }

    async fn list_parts(&self, upload: UploadRef<'_>, after: Option<u32>) -> Result<PartsPage> {
        let UploadRef { bucket, key, upload_id } = upload;
        let (root, name, id) = (bucket.to_owned(), key.to_owned(), upload_id.to_owned());
        let work = move |disk: &Arc<Disk>| {
            disk.uploads.list_parts(disk.boot.as_deref(), UploadRef::new(&root, &name, &id), after)
        };
        let (parts, next) = self.disk.blocking("ListParts", bucket, Some(key), work).await?;
        Ok(PartsPage { parts, next })
    }

    async fn complete_upload(&self, upload: &CompleteUpload) -> Result<WrittenObject> {
        let asked = upload.clone();
        let work =
            move |disk: &Arc<Disk>| disk.uploads.complete(&disk.folders, &disk.options, disk.boot.as_deref(), &asked);
        self.disk.blocking("CompleteMultipartUpload", &upload.bucket, Some(&upload.key), work).await
    }

    async fn abort_upload(&self, upload: UploadRef<'_>) -> Result<()> {
        let UploadRef { bucket, key, upload_id } = upload;
        let (root, name, id) = (bucket.to_owned(), key.to_owned(), upload_id.to_owned());
        let work = move |disk: &Arc<Disk>| disk.uploads.abort(UploadRef::new(&root, &name, &id));
        self.disk.blocking("AbortMultipartUpload", bucket, Some(key), work).await
    }

    async fn list_uploads(&self, bucket: &str, prefix: &str) -> Result<Vec<UploadInfo>> {
        let (root, start) = (bucket.to_owned(), prefix.to_owned());
        let work = move |_: &Arc<Disk>| upload::list(&root, &start);
        self.disk.blocking("ListMultipartUploads", bucket, None, work).await
    }
}

#[async_trait]
impl ObjectStore for DiskStore {
    fn capabilities(&self) -> Capabilities {
        Capabilities::DISK
    }

    fn bucket_service(&self) -> Option<&dyn BucketService> {
        None
    }

    fn is_amazon(&self) -> bool {
        false
    }

    fn max_attempts(&self) -> Option<u32> {
        None
    }

    fn take_notes(&self, _sends_bodies: bool) -> Vec<String> {
        Vec::new()
    }

    fn deferred_sync(&self, bucket: &str) -> Option<Box<dyn DeferredSync>> {
        deferred_sync::FileSystem::of(bucket, &self.disk.options).map(|found| Box::new(found) as Box<dyn DeferredSync>)
    }

    async fn refresh_credentials(&self) -> Result<()> {
        Ok(())
    }
}

fn not_offered(operation: &'static str, bucket: &str, key: &str, why: &str) -> StoreError {
    StoreError::new(operation, bucket, Some(key), "NotImplemented", None).with_message(why)
}
