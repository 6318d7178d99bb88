//! Tests of the disk as a store: guarantees for users when files are read and written.

mod conformance;
mod listing;
mod reading;
mod trouble;
mod uploads;
mod writing;

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use futures::TryStreamExt as _;
use seqferry_store::prelude::*;
use seqferry_store::{
    Attributes, CompleteUpload, CompletedPart, CreateUpload, DiskOptions, DiskStore, ListRequest, ListedObject,
    PinnedObject, Range, Result, StoreError,
};
use seqferry_store_testing::ObjectWriteExt as _;

/// A folder that is removed with the test.
struct Scratch {
    folder: PathBuf,
}

impl Scratch {
    fn new() -> Self {
        static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("seqferry-disk-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self { folder }
    }

    fn bucket(&self) -> &str {
        self.folder.to_str().unwrap()
    }

    fn path(&self, key: &str) -> PathBuf {
        self.folder.join(key)
    }

    fn file(&self, key: &str, bytes: &[u8]) {
        let path = self.path(key);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }

    /// All files below the folder, including hidden and unfinished ones, without folders.
    fn files(&self) -> BTreeMap<String, Vec<u8>> {
        fn see(folder: &Path, root: &Path, files: &mut BTreeMap<String, Vec<u8>>) {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.symlink_metadata().unwrap().is_dir() {
                    see(&path, root, files);
                } else {
                    let key = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
                    files.insert(key, std::fs::read(&path).unwrap_or_default());
                }
            }
        }
        let mut files = BTreeMap::new();
        see(&self.folder, &self.folder, &mut files);
        files
    }

    fn keys(&self) -> Vec<String> {
        self.files().into_keys().collect()
    }

    /// The first of our unfinished files of a kind: `tmp`, `part` or `parts`.
    fn unfinished(&self, kind: &str) -> String {
        self.keys().into_iter().find(|key| key.rsplit('.').next() == Some(kind)).unwrap()
    }

    fn source(&self, key: &str) -> PinnedObject {
        PinnedObject {
            bucket: self.bucket().to_owned(),
            key: key.to_owned(),
            version_id: None,
            if_match: None,
            size: 0,
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _best_effort = std::fs::remove_dir_all(&self.folder);
    }
}

fn store() -> DiskStore {
    DiskStore::new(DiskOptions::default())
}

async fn read(store: &DiskStore, source: &PinnedObject, range: Option<Range>) -> Result<Vec<u8>> {
    let chunks: Vec<Bytes> = store.get(source, range).await?.into_stream().try_collect().await?;
    Ok(chunks.concat())
}

async fn put(store: &DiskStore, scratch: &Scratch, key: &str, body: &[u8]) -> Result<seqferry_store::WrittenObject> {
    store.put(scratch.bucket(), key, Bytes::copy_from_slice(body), &Attributes::default()).await
}

fn with(metadata: &[(&str, &str)]) -> Attributes {
    let metadata = metadata.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Attributes { metadata, ..Attributes::default() }
}

/// Every entry of a listing, in pages of `max_keys`.
async fn list(store: &DiskStore, mut request: ListRequest) -> Vec<ListedObject> {
    let mut objects = Vec::new();
    for _ in 0..100_000 {
        let page = store.list(&request).await.unwrap();
        assert!(page.common_prefixes.is_empty());
        objects.extend(page.objects);
        request.continuation = page.continuation;
        if request.continuation.is_none() {
            return objects;
        }
    }
    panic!("the listing does not end");
}

fn everything(scratch: &Scratch) -> ListRequest {
    ListRequest { bucket: scratch.bucket().to_owned(), ..ListRequest::default() }
}

fn code<T: std::fmt::Debug>(answer: Result<T>) -> String {
    failure(answer).code
}

fn failure<T: std::fmt::Debug>(answer: Result<T>) -> StoreError {
    answer.expect_err("refused")
}

fn creation(scratch: &Scratch, key: &str, part_size: u64, size: u64) -> CreateUpload {
    CreateUpload {
        bucket: scratch.bucket().to_owned(),
        key: key.to_owned(),
        part_size,
        size,
        ..CreateUpload::default()
    }
}

fn completion(scratch: &Scratch, key: &str, id: &str, parts: Vec<CompletedPart>, size: u64) -> CompleteUpload {
    CompleteUpload {
        bucket: scratch.bucket().to_owned(),
        key: key.to_owned(),
        upload_id: id.to_owned(),
        parts,
        size,
        ..CompleteUpload::default()
    }
}

fn mtime(path: &Path) -> (i64, i64) {
    let facts = path.symlink_metadata().unwrap();
    (facts.mtime(), facts.mtime_nsec())
}

fn mode(path: &Path) -> u32 {
    path.symlink_metadata().unwrap().mode() & 0o7777
}

/// Bytes that differ from offset to offset.
fn pattern(size: usize, salt: u64) -> Vec<u8> {
    let mut bytes = vec![0; size];
    fastrand::Rng::with_seed(salt).fill(&mut bytes);
    bytes
}

/// Cached bytes of a file; None where they are unknown, or where files are not written past the cache.
fn cached(path: &std::path::Path) -> Option<u64> {
    let kind = std::process::Command::new("stat").args(["-f", "-c", "%T"]).arg(path).output().ok()?;
    if !matches!(String::from_utf8_lossy(&kind.stdout).trim(), "ext2/ext3" | "xfs") {
        return None;
    }
    let output =
        std::process::Command::new("fincore").args(["--bytes", "--noheadings", "--output", "RES"]).arg(path).output();
    String::from_utf8_lossy(&output.ok()?.stdout).trim().parse().ok()
}
