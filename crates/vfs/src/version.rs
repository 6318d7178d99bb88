//! The identity of bytes: which version of which object, and the blocks it is read in.
//!
//! Two values that are equal name the same bytes. Caches, handles and inodes are all keyed by this identity, so that
//! bytes of two versions can never be mixed.

use std::fmt;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

/// Bytes in a block, the unit of reading and caching. 128 KiB is what the kernel asks for in one step, and the size at
/// which a trace of `samtools view` over regions fetched the fewest bytes without more requests.
pub const BLOCK_SIZE: u64 = 128 << 10;

/// Identifier that pins a version of an object.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum VersionPin {
    /// The version id of a bucket with versions.
    VersionId(Arc<str>),
    /// The `ETag`, without quotes.
    Etag(Arc<str>),
}

/// One version of one object.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ObjectVersion {
    /// Endpoint that serves the bucket: its URL, or a name that stands for it.
    pub endpoint: Arc<str>,
    /// Bucket name.
    pub bucket: Arc<str>,
    /// The whole key.
    pub key: Arc<str>,
    /// Version id or `ETag`.
    pub pin: VersionPin,
    /// Bytes in the object.
    pub size: u64,
}

impl ObjectVersion {
    /// Digest of all five facts: the name of this version in tables and on disks. Collisions do not occur in practice.
    pub fn digest(&self) -> VersionDigest {
        let (kind, pin) = match &self.pin {
            VersionPin::VersionId(id) => ("version", id),
            VersionPin::Etag(etag) => ("etag", etag),
        };
        let mut hasher = Sha256::new();
        // Each part with its length before it, so that no two lists of parts give the same bytes.
        for part in [&*self.endpoint, &*self.bucket, &*self.key, kind, &**pin] {
            hasher.update((part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        hasher.update(self.size.to_le_bytes());
        VersionDigest(hasher.finalize().into())
    }

    /// Blocks that hold this version.
    pub fn blocks(&self) -> u64 {
        block_count(self.size)
    }
}

/// SHA-256 over the identity of a version.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VersionDigest(pub [u8; 32]);

impl VersionDigest {
    /// The first 64 bits: a number that stands for the version where 64 bits must do, such as an inode.
    pub fn short(&self) -> u64 {
        let mut first = [0; 8];
        first.copy_from_slice(&self.0[..8]);
        u64::from_le_bytes(first)
    }
}

impl fmt::Display for VersionDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for VersionDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Blocks in an object of `size` bytes.
pub fn block_count(size: u64) -> u64 {
    size.div_ceil(BLOCK_SIZE)
}

/// Bytes in block number `block` of an object of `size` bytes: [`BLOCK_SIZE`] for all but the last, 0 past the end.
pub fn block_length(size: u64, block: u64) -> usize {
    let length = size.saturating_sub(block.saturating_mul(BLOCK_SIZE)).min(BLOCK_SIZE);
    usize::try_from(length).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(key: &str, etag: &str, size: u64) -> ObjectVersion {
        ObjectVersion {
            endpoint: "e".into(),
            bucket: "b".into(),
            key: key.into(),
            pin: VersionPin::Etag(etag.into()),
            size,
        }
    }

    #[test]
    fn each_fact_changes_the_digest() {
        let base = version("k", "t", 1);
        let by_id = ObjectVersion { pin: VersionPin::VersionId("t".into()), ..base.clone() };
        for other in [version("kt", "", 1), version("k", "t", 2), version("k", "u", 1), version("l", "t", 1), by_id] {
            assert_ne!(base.digest(), other.digest(), "{other:?}");
        }
        assert_eq!(base.digest(), version("k", "t", 1).digest());
        assert_eq!(base.digest().to_string().len(), 64);
    }

    #[test]
    fn blocks_cover_an_object_exactly() {
        for size in [0, 1, BLOCK_SIZE - 1, BLOCK_SIZE, BLOCK_SIZE + 1, 10 * BLOCK_SIZE + 7] {
            let lengths: u64 = (0..block_count(size)).map(|block| block_length(size, block) as u64).sum();
            assert_eq!(lengths, size);
            assert_eq!(block_length(size, block_count(size)), 0);
        }
        assert_eq!(block_length(u64::MAX, u64::MAX), 0);
    }
}
