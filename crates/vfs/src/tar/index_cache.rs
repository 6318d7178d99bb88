//! Indexes of archives, kept in the disk cache.
//!
//! An index consists of blocks like those of objects: capped, evicted, checked and shared in the same way.
//!
//! An index has two entries: a head of fixed size that says how long the index is, and the index. Both are named after
//! the version of the archive, so that a replaced archive finds none.

use crate::disk_cache::{Admission, DiskCache, Fill};
use crate::version::{BLOCK_SIZE, ObjectVersion, VersionPin};

/// Endpoint under which indexes are kept: no URL, so that it is no service's.
const ENDPOINT: &str = "tar-index";
const HEAD: u64 = 8;
/// Longest index that is kept: 256 MiB are some million members.
pub(super) const LONGEST: usize = 256 << 20;

fn entry(archive: &ObjectVersion, part: &str, size: u64) -> ObjectVersion {
    ObjectVersion {
        endpoint: ENDPOINT.into(),
        bucket: archive.bucket.clone(),
        key: format!("{}{}", archive.key, seqferry_archive::index::SUFFIX).into(),
        pin: VersionPin::Etag(format!("{part}-{}", archive.digest()).into()),
        size,
    }
}

/// The index of an archive, if the cache has all of it. Blocks on the disk.
pub(super) fn read(cache: &DiskCache, archive: &ObjectVersion) -> Option<Vec<u8>> {
    let head = cache.read(&entry(archive, "head", HEAD), 0, 1).pop().flatten()?;
    let size = u64::from_le_bytes(head.as_ref().try_into().ok()?);
    let body = entry(archive, "body", size);
    let mut index = Vec::with_capacity(usize::try_from(size).ok().filter(|size| *size <= LONGEST)?);
    for block in 0..body.blocks() {
        index.extend_from_slice(&cache.read(&body, block, 1).pop().flatten()?);
    }
    Some(index)
}

/// Keep the index of an archive. An index without space is not kept. Blocks on the disk.
pub(super) fn keep(cache: &DiskCache, archive: &ObjectVersion, index: &[u8]) {
    let body = entry(archive, "body", index.len() as u64);
    #[expect(clippy::cast_possible_truncation, reason = "128 KiB")]
    let blocks = index.chunks(BLOCK_SIZE as usize);
    for (block, bytes) in blocks.enumerate() {
        let fill = cache.fill(&body, block as u64, bytes, Admission::Always);
        if !matches!(fill, Fill::Stored | Fill::AlreadyThere) {
            return;
        }
    }
    let head = (index.len() as u64).to_le_bytes();
    cache.fill(&entry(archive, "head", HEAD), 0, &head, Admission::Always);
}
