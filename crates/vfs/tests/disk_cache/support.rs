//! Folders that go when the test ends, and objects whose bytes follow from their names.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use seqferry_testkit::data;
use seqferry_vfs::disk_cache::{CacheLimits, DiskCache};
use seqferry_vfs::{BLOCK_SIZE, ObjectVersion, VersionPin, block_length};

/// A folder of this test.
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Scratch {
    pub(crate) fn new() -> Self {
        let name = format!("seqferry-cache-{}-{:016x}", std::process::id(), fastrand::u64(..));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    /// A folder for a cache in it, not made yet.
    pub(crate) fn cache(&self) -> PathBuf {
        self.0.join("cache")
    }

    pub(crate) fn open(&self, limits: CacheLimits) -> DiskCache {
        DiskCache::open_passive(&self.cache(), limits).unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Limits without a demand on the free space of the machine.
pub(crate) fn limits(max_size: u64) -> CacheLimits {
    CacheLimits { max_size, min_free: 0, ..CacheLimits::default() }
}

pub(crate) fn object(key: &str, size: u64) -> ObjectVersion {
    ObjectVersion {
        endpoint: "https://s3.example.com".into(),
        bucket: "b".into(),
        key: key.into(),
        pin: VersionPin::Etag("0123456789abcdef".into()),
        size,
    }
}

/// The bytes of a block.
pub(crate) fn block(object: &ObjectVersion, block: u64) -> Bytes {
    let seed = object.digest().short() ^ block.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    Bytes::from(data::bytes(seed, block_length(object.size, block)))
}

/// All files below a folder.
pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

/// Bytes on the disk below a folder. Files may come and go meanwhile.
pub(crate) fn disk_usage(folder: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    files(folder).iter().filter_map(|path| path.metadata().ok()).map(|facts| facts.blocks() * 512).sum()
}

/// `blocks` blocks and a bit.
pub(crate) fn size(blocks: u64) -> u64 {
    (blocks - 1) * BLOCK_SIZE + 1234
}
