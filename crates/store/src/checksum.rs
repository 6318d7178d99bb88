//! The checksums that S3 keeps for objects, as far as Seqferry uses them.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Algorithms in order of preference: the first that a service returns for an object is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChecksumAlgorithm {
    /// The default of AWS since December 2024; always over the full object.
    Crc64Nvme,
    /// Castagnoli.
    Crc32C,
    /// The default of most SDKs.
    Crc32,
    /// Composite only in multipart uploads.
    Sha256,
    /// Composite only in multipart uploads.
    Sha1,
}

impl ChecksumAlgorithm {
    /// All of them, preferred first.
    pub const ALL: [Self; 5] = [Self::Crc64Nvme, Self::Crc32C, Self::Crc32, Self::Sha256, Self::Sha1];

    /// Name as in S3 headers.
    pub fn name(self) -> &'static str {
        match self {
            Self::Crc64Nvme => "CRC64NVME",
            Self::Crc32C => "CRC32C",
            Self::Crc32 => "CRC32",
            Self::Sha256 => "SHA256",
            Self::Sha1 => "SHA1",
        }
    }

    /// Whether a multipart upload can be given one value over the full object: only CRCs can be combined.
    pub fn spans_parts(self) -> bool {
        matches!(self, Self::Crc64Nvme | Self::Crc32C | Self::Crc32)
    }
}

/// What the value was computed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChecksumKind {
    /// All bytes of the object.
    FullObject,
    /// The checksums of its parts: equal only for equal part boundaries.
    Composite,
}

/// A checksum kept by the service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checksum {
    /// Algorithm.
    pub algorithm: ChecksumAlgorithm,
    /// Base64 of the big-endian bytes; a composite one may end in `-` and the number of parts.
    pub value: String,
    /// What it was computed over.
    pub kind: ChecksumKind,
}

impl Checksum {
    /// A value read from a header, with the type header when there was one.
    ///
    /// Some services leave the type out: `-N` at the end then marks a composite value.
    pub fn read(algorithm: ChecksumAlgorithm, value: &str, composite: Option<bool>) -> Self {
        let marked =
            value.rsplit_once('-').is_some_and(|(_, n)| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
        let kind =
            if composite.unwrap_or(marked) || marked { ChecksumKind::Composite } else { ChecksumKind::FullObject };
        Self { algorithm, value: value.to_owned(), kind }
    }

    /// Whether both say the same of the bytes. None when they cannot be compared.
    pub fn agrees(&self, other: &Self) -> Option<bool> {
        let comparable = self.algorithm == other.algorithm
            && self.kind == ChecksumKind::FullObject
            && other.kind == ChecksumKind::FullObject;
        comparable.then(|| self.value == other.value)
    }
}

/// CRC64NVME of bytes as S3 writes it.
pub fn crc64nvme(bytes: &[u8]) -> String {
    STANDARD.encode(crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Nvme, bytes).to_be_bytes())
}

/// Lower-case hexadecimal digits, as `ETag`s have them.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        // Writing to a text cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crc64nvme_has_the_published_check_value() {
        assert_eq!(crc64nvme(b"123456789"), STANDARD.encode(0xAE8B_1486_0A79_9888_u64.to_be_bytes()));
    }

    #[test]
    fn a_marked_value_is_composite_whatever_the_type_header_says() {
        let read = |value, kind| Checksum::read(ChecksumAlgorithm::Crc32, value, kind).kind;

        assert_eq!(read("AAAAAA==-3", None), ChecksumKind::Composite);
        assert_eq!(read("AAAAAA==-3", Some(false)), ChecksumKind::Composite);
        assert_eq!(read("AAAAAA==", Some(true)), ChecksumKind::Composite);
        assert_eq!(read("AAAAAA==", None), ChecksumKind::FullObject);
    }

    #[test]
    fn only_full_object_values_of_one_algorithm_are_compared() {
        let full = |algorithm, value: &str| Checksum::read(algorithm, value, Some(false));
        let a = full(ChecksumAlgorithm::Crc64Nvme, "x");

        assert_eq!(a.agrees(&full(ChecksumAlgorithm::Crc64Nvme, "x")), Some(true));
        assert_eq!(a.agrees(&full(ChecksumAlgorithm::Crc64Nvme, "y")), Some(false));
        assert_eq!(a.agrees(&full(ChecksumAlgorithm::Crc32, "x")), None);
        assert_eq!(a.agrees(&Checksum::read(ChecksumAlgorithm::Crc64Nvme, "x", Some(true))), None);
    }
}
