//! A file system as an object store.
//!
//! A bucket is the absolute path of a folder, a key the path of a file below it. Objects are pinned by size, time of the last
//! change and inode. Whatever is written appears under its name whole or not at all: it is written beside its place under a
//! name of ours (the rule stands in `disk/names.rs`) and renamed. An upload in parts survives the process, and with
//! [`DiskOptions::durable`] the machine; `disk/upload.rs` says what is left after a kill at any point.
//!
//! | part | what it does |
//! |---|---|
//! | `names` | keys as paths; which are none; names of unfinished files |
//! | `folders` | opening and making folders, never through links when something changes |
//! | `walk` | listing |
//! | `read` | bytes and facts |
//! | `write` | whole files |
//! | `groups` | several of them by one thread |
//! | `upload`, `record` | files in parts, and which of those are whole |
//! | `pace` | which thread writes |
//! | `direct` | writing past the system's cache |
//! | `facts` | what a file's status says; times and permissions as metadata |
//! | `fail` | from the operating system's errors to ours |
//!
//! What a disk has not: tags, storage classes, versions, content headers, checksums of what it holds, copies within itself.

mod facts;
mod fail;
mod folders;
mod groups;
mod inline_writes;
mod names;
mod o_direct;
mod read;
mod record;
mod sparse;
mod upload;
mod walk;
mod write;

pub use facts::{MTIME, mtime_text, read_mtime};
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
use crate::error::StoreError;
use crate::error::classify::code;
use crate::store::{FetchedObject, MultipartUpload, ObjectRead, ObjectStore, ObjectWrite, Result};
use crate::types::{
    Capabilities, CompleteUpload, CopyTarget, CreateUpload, Digests, ListPage, ListRequest, ObjectMeta, ObjectRef,
    PartsPage, PinnedObject, PutObject, Range, UploadInfo, UploadRef, WrittenObject, WrittenPart,
};

/// Requests that may block a thread at a time: enough for a fast disk or a slow file server to have work in its queue.
const THREADS: usize = 32;

/// Bytes of a body that are read at a time: checksums over them are computed while they are in the processor's cache.
const READ: usize = 256 << 10;

const UPLOAD_PART: &str = "UploadPart";

/// Treatment of symbolic links.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Symlinks {
    /// Reading takes what they point to, wherever that is. Writing never goes through one, whatever is chosen.
    #[default]
    Follow,
    /// They are listed as refused.
    Skip,
    /// They are objects: the text they hold, with a `mode` that says so. Written as links again.
    Keep,
}

/// Use of the system's page cache for large enough files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum PageCache {
    /// Past it, where the file system offers that: it takes less CPU, and the cache is left to others.
    #[default]
    Past,
    /// Through it, for a program that reads the file next.
    Through,
}

/// The effect of permissions that are kept with objects. Setuid, setgid and sticky bits are never applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Permissions {
    /// They narrow what a new file or folder gets here, by the umask or the folder's default ACL.
    #[default]
    Narrow,
    /// They are set as they are.
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
    /// True when the folder that is written to is made if it is not there.
    pub create_root: bool,
    /// Names of one folder that a listing keeps at a time: bounds its memory, whatever lies in a folder.
    pub names_at_a_time: usize,
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
            names_at_a_time: walk::PASS,
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
    /// Changes when the machine is started anew; None where there is no way to know.
    boot: Option<String>,
    folders: folders::Folders,
    uploads: upload::Uploads,
    walks: walk::Walks,
    groups: groups::Groups,
    threads: Arc<Semaphore>,
    pace: inline_writes::InlineWrites,
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
            pace: inline_writes::InlineWrites::new(),
        };
        Self { disk: Arc::new(disk) }
    }
}

impl Disk {
    /// Do what may block where that is allowed. A caller that goes away does not stop what has begun.
    async fn blocking<T: Send + 'static>(
        self: &Arc<Self>,
        operation: &'static str,
        bucket: &str,
        key: Option<&str>,
        work: impl FnOnce(&Arc<Self>) -> fail::Result<T> + Send + 'static,
    ) -> Result<T> {
        let stopped = || stopped(operation, bucket, key);
        let turn = Arc::clone(&self.threads).acquire_owned().await.map_err(|_| stopped())?;
        let disk = Arc::clone(self);
        let done = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            work(&disk)
        });
        // It does not end only when the runtime is being torn down.
        let done = done.await.map_err(|_| stopped())?;
        done.map_err(|fail| fail.into_error(operation, bucket, key))
    }
}

fn stopped(operation: &'static str, bucket: &str, key: Option<&str>) -> StoreError {
    StoreError::new(operation, bucket, key, code::DISK_ERROR, None).with_message("stopped")
}

fn crc64(bytes: &[u8]) -> u64 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Nvme, bytes)
}

fn base64(crc64: u64) -> String {
    STANDARD.encode(crc64.to_be_bytes())
}

/// The checksum of bytes that are to be written: as their sender computed it, else computed now.
fn sent(digests: &Digests, body: &[u8]) -> u64 {
    let told = digests.checksum.as_ref().filter(|(algorithm, _)| *algorithm == ChecksumAlgorithm::Crc64Nvme);
    let told = told.and_then(|(_, value)| <[u8; 8]>::try_from(STANDARD.decode(value).ok()?).ok());
    told.map_or_else(|| crc64(body), u64::from_be_bytes)
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
        let work = move |disk: &Arc<Disk>| read::head(disk, &root, &name, part);
        self.disk.blocking("HeadObject", bucket, Some(key), work).await
    }

    async fn fetch(&self, source: &PinnedObject, range: Option<Range>) -> Result<FetchedObject> {
        let asked = source.clone();
        let work = move |disk: &Arc<Disk>| read::fetch(disk, &asked, range);
        self.disk.blocking("GetObject", &source.bucket, Some(&source.key), work).await
    }

    async fn get_tags(&self, _object: ObjectRef<'_>) -> Result<Vec<(String, String)>> {
        Ok(Vec::new())
    }
}

#[async_trait]
impl ObjectWrite for DiskStore {
    async fn put_object(&self, object: &PutObject, body: Bytes) -> Result<WrittenObject> {
        let (told, begins) = self.disk.groups.add(PutRequest { object: object.clone(), body });
        if begins {
            let disk = Arc::clone(&self.disk);
            tokio::task::spawn_blocking(move || {
                disk.groups.write(|group| write::put_all(&disk.folders, &disk.options, group));
            });
        }
        let (bucket, key) = (object.bucket.as_str(), Some(object.key.as_str()));
        let done = told.await.map_err(|_| stopped("PutObject", bucket, key))?;
        done.map_err(|fail| fail.into_error("PutObject", bucket, key))
    }

    async fn delete(&self, object: ObjectRef<'_>) -> Result<()> {
        let ObjectRef { bucket, key, .. } = object;
        let (root, name) = (bucket.to_owned(), key.to_owned());
        let work = move |disk: &Arc<Disk>| write::delete(&disk.folders, &disk.options, &root, &name);
        self.disk.blocking("DeleteObject", bucket, Some(key), work).await
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
            let crc64 = sent(&digests, &body);
            disk.uploads.put_part(&disk.options, disk.boot.as_deref(), (&root, &name, &id), part, (&body, crc64))
        };
        self.disk.blocking(UPLOAD_PART, bucket, Some(key), work).await
    }

    async fn stream_part(&self, upload: UploadRef<'_>, part: u32, size: u64, mut body: Body) -> Result<WrittenPart> {
        let UploadRef { bucket, key, upload_id } = upload;
        let (root, name, id) = (bucket.to_owned(), key.to_owned(), upload_id.to_owned());
        let begin = move |disk: &Arc<Disk>| {
            let upload = (root.as_str(), name.as_str(), id.as_str());
            disk.uploads.begin_stream(&disk.options, disk.boot.as_deref(), upload, part, size)
        };
        let mut writing = self.disk.blocking(UPLOAD_PART, bucket, Some(key), begin).await?;
        let mut crc64 = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc64Nvme);
        let failed = |fail: fail::DiskFailure| fail.into_error(UPLOAD_PART, bucket, Some(key));
        while let Some((into, at_most)) = writing.room() {
            let came = body.read(into, at_most.min(READ)).await?;
            if came == 0 {
                break;
            }
            crc64.update(writing.took(came));
            if !writing.is_due() {
                continue;
            }
            let waits = writing.waits();
            let write = move || writing.write().map(|()| writing);
            let here = if waits { Err(write) } else { self.disk.pace.here(write) };
            writing = match here {
                Ok(written) => written.map_err(failed)?,
                Err(write) => self.disk.blocking(UPLOAD_PART, bucket, Some(key), move |_| write()).await?,
            };
        }
        if body.next().await.transpose()?.is_some() {
            return Err(failed(writing.other_length()));
        }
        let finish = move |disk: &Arc<Disk>| writing.finish(&disk.options, disk.boot.as_deref(), crc64.finalize());
        self.disk.blocking(UPLOAD_PART, bucket, Some(key), finish).await
    }

    async fn list_parts(&self, upload: UploadRef<'_>, after: Option<u32>) -> Result<PartsPage> {
        let UploadRef { bucket, key, upload_id } = upload;
        let (root, name, id) = (bucket.to_owned(), key.to_owned(), upload_id.to_owned());
        let work = move |disk: &Arc<Disk>| disk.uploads.list_parts(disk.boot.as_deref(), (&root, &name, &id), after);
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
        let work = move |disk: &Arc<Disk>| disk.uploads.abort(&root, &name, &id);
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

    async fn refresh_credentials(&self) -> Result<()> {
        Ok(())
    }
}

fn not_offered(operation: &'static str, bucket: &str, key: &str, why: &str) -> StoreError {
    StoreError::new(operation, bucket, Some(key), "NotImplemented", None).with_message(why)
}
