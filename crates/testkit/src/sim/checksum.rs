//! The checksums that the simulator can compute truly.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

use super::content::{Content, DiscardedBodyError};
use super::crc::Crc;

/// A checksum algorithm as S3 names it; SHA1 and the younger ones are not known here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Algorithm {
    Crc(Crc),
    Sha256,
}

impl Algorithm {
    pub(super) const ALL: [Self; 4] =
        [Self::Crc(Crc::Crc64Nvme), Self::Crc(Crc::Crc32C), Self::Crc(Crc::Crc32), Self::Sha256];

    pub(super) fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.name().eq_ignore_ascii_case(name))
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Crc(Crc::Crc64Nvme) => "CRC64NVME",
            Self::Crc(Crc::Crc32C) => "CRC32C",
            Self::Crc(Crc::Crc32) => "CRC32",
            Self::Sha256 => "SHA256",
        }
    }

    pub(super) fn header(self) -> &'static str {
        match self {
            Self::Crc(Crc::Crc64Nvme) => "x-amz-checksum-crc64nvme",
            Self::Crc(Crc::Crc32C) => "x-amz-checksum-crc32c",
            Self::Crc(Crc::Crc32) => "x-amz-checksum-crc32",
            Self::Sha256 => "x-amz-checksum-sha256",
        }
    }

    /// Name of the XML element.
    pub(super) fn element(self) -> &'static str {
        match self {
            Self::Crc(Crc::Crc64Nvme) => "ChecksumCRC64NVME",
            Self::Crc(Crc::Crc32C) => "ChecksumCRC32C",
            Self::Crc(Crc::Crc32) => "ChecksumCRC32",
            Self::Sha256 => "ChecksumSHA256",
        }
    }

    /// The true value. SHA-256 reads the bytes.
    pub(super) fn of(self, content: &Content) -> Result<Value, DiscardedBodyError> {
        match self {
            Self::Crc(crc) => content.crc(crc).map(|value| Value::Crc(crc, value)),
            Self::Sha256 => {
                if let Some(known) = content.known_sha256() {
                    return Ok(Value::Sha256(known));
                }
                let mut digest = Sha256::new();
                content.for_each_block(|bytes| digest.update(bytes))?;
                Ok(Value::Sha256(digest.finalize().into()))
            }
        }
    }

    /// The value over the raw values of parts.
    pub(super) fn composite(self, parts: impl Iterator<Item = Value>) -> Value {
        let raw: Vec<u8> = parts.flat_map(|value| value.raw()).collect();
        match self {
            Self::Crc(crc) => Value::Crc(crc, crc.of(&raw)),
            Self::Sha256 => Value::Sha256(Sha256::digest(&raw).into()),
        }
    }
}

/// A value of one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Value {
    Crc(Crc, u64),
    Sha256([u8; 32]),
}

impl Value {
    pub(super) fn algorithm(&self) -> Algorithm {
        match self {
            Self::Crc(crc, _) => Algorithm::Crc(*crc),
            Self::Sha256(_) => Algorithm::Sha256,
        }
    }

    fn raw(&self) -> Vec<u8> {
        match self {
            Self::Crc(crc, value) => value.to_be_bytes()[8 - crc.size()..].to_vec(),
            Self::Sha256(value) => value.to_vec(),
        }
    }

    /// Base64 of the big-endian bytes, as S3 writes it.
    pub(super) fn base64(&self) -> String {
        match self {
            Self::Crc(crc, value) => STANDARD.encode(&value.to_be_bytes()[8 - crc.size()..]),
            Self::Sha256(value) => STANDARD.encode(value),
        }
    }
}
