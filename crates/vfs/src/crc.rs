//! The checksum of files of our own.

use crc_fast::{CrcAlgorithm, Digest};

/// CRC-32C of these bytes.
pub(crate) fn crc32c(bytes: &[u8]) -> u32 {
    let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
    digest.update(bytes);
    u32::try_from(digest.finalize() & 0xffff_ffff).unwrap_or_default()
}
