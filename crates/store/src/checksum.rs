//! The checksums that S3 keeps for objects, as far as Seqferry uses them.

mod combined_crc;

pub(crate) use combined_crc::CombinedCrc;

use std::fmt::{self, Write as _};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use crc_fast::CrcAlgorithm;
use md5::{Digest as _, Md5};
use sha1::Sha1;
use sha2::Sha256;

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
    /// All algorithms, in order of preference.
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

    /// The algorithm that S3 headers call so.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.name() == name)
    }

    /// True when a multipart upload can be given one value over the full object: only CRCs can be combined.
    pub fn supports_full_object(self) -> bool {
        self.crc().is_some()
    }

    fn crc(self) -> Option<(CrcAlgorithm, usize)> {
        match self {
            Self::Crc64Nvme => Some((CrcAlgorithm::Crc64Nvme, 8)),
            Self::Crc32C => Some((CrcAlgorithm::Crc32Iscsi, 4)),
            Self::Crc32 => Some((CrcAlgorithm::Crc32IsoHdlc, 4)),
            Self::Sha256 | Self::Sha1 => None,
        }
    }

    /// Joins the values of parts, in order and each with the part's length, into the value over the full object. None
    /// for algorithms that cannot be combined, and for malformed values.
    pub fn combine<'a>(self, parts: impl IntoIterator<Item = (&'a str, u64)>) -> Option<String> {
        let (_, width) = self.crc()?;
        let mut whole = CombinedCrc::new(self)?;
        for (value, len) in parts {
            let raw = STANDARD.decode(value).ok().filter(|raw| raw.len() == width)?;
            whole.push(big_endian(&raw), len);
        }
        Some(base64(&whole.crc().to_be_bytes()[8 - width..]))
    }

    /// Computes the composite value over the checksums of parts in order, as S3 writes it. None for malformed values.
    pub fn composite<'a>(self, parts: impl IntoIterator<Item = &'a str>) -> Option<String> {
        let mut digester = Digester::new(DigestAlgorithm::Checksum(self));
        let mut count = 0;
        for value in parts {
            digester.update(&STANDARD.decode(value).ok()?);
            count += 1;
        }
        Some(format!("{}-{count}", base64(&digester.finish())))
    }
}

fn big_endian(raw: &[u8]) -> u64 {
    raw.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Algorithms that can be computed over bytes: the checksums that services keep, and the digest behind `ETag`s.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DigestAlgorithm {
    /// A checksum.
    Checksum(ChecksumAlgorithm),
    /// MD5: the `ETag` of an object that was written in one request and is not encrypted with a key of its own.
    Md5,
}

impl DigestAlgorithm {
    /// The algorithm of this name: `MD5`, or that of a checksum.
    pub fn from_name(name: &str) -> Option<Self> {
        if name == "MD5" { Some(Self::Md5) } else { ChecksumAlgorithm::from_name(name).map(Self::Checksum) }
    }
}

/// Computes a digest of bytes as they arrive.
pub struct Digester(State);

enum State {
    Crc(crc_fast::Digest, usize),
    Sha256(Sha256),
    Sha1(Sha1),
    Md5(Md5),
}

impl fmt::Debug for Digester {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Digester")
    }
}

impl Digester {
    /// A digester without input.
    pub fn new(algorithm: DigestAlgorithm) -> Self {
        Self(match algorithm {
            DigestAlgorithm::Md5 => State::Md5(Md5::new()),
            DigestAlgorithm::Checksum(ChecksumAlgorithm::Sha256) => State::Sha256(Sha256::new()),
            DigestAlgorithm::Checksum(ChecksumAlgorithm::Sha1) => State::Sha1(Sha1::new()),
            DigestAlgorithm::Checksum(ChecksumAlgorithm::Crc64Nvme) => {
                State::Crc(crc_fast::Digest::new(CrcAlgorithm::Crc64Nvme), 8)
            }
            DigestAlgorithm::Checksum(ChecksumAlgorithm::Crc32C) => {
                State::Crc(crc_fast::Digest::new(CrcAlgorithm::Crc32Iscsi), 4)
            }
            DigestAlgorithm::Checksum(ChecksumAlgorithm::Crc32) => {
                State::Crc(crc_fast::Digest::new(CrcAlgorithm::Crc32IsoHdlc), 4)
            }
        })
    }

    /// Adds the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        match &mut self.0 {
            State::Crc(digest, _) => digest.update(bytes),
            State::Sha256(digest) => digest.update(bytes),
            State::Sha1(digest) => digest.update(bytes),
            State::Md5(digest) => digest.update(bytes),
        }
    }

    /// Returns the digest of all bytes, the most significant byte first.
    pub fn finish(self) -> Vec<u8> {
        match self.0 {
            State::Crc(digest, width) => digest.finalize().to_be_bytes()[8 - width..].to_vec(),
            State::Sha256(digest) => digest.finalize().to_vec(),
            State::Sha1(digest) => digest.finalize().to_vec(),
            State::Md5(digest) => digest.finalize().to_vec(),
        }
    }

    /// Returns the digest of these bytes.
    pub fn of(algorithm: DigestAlgorithm, bytes: &[u8]) -> Vec<u8> {
        let mut digester = Self::new(algorithm);
        digester.update(bytes);
        digester.finish()
    }
}

/// Encodes a digest as headers have it (Base64).
pub fn base64(digest: &[u8]) -> String {
    STANDARD.encode(digest)
}

/// Input of a checksum value: the object's bytes, or the checksums of its parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChecksumKind {
    /// All bytes of the object.
    FullObject,
    /// The checksums of its parts: values are equal only for equal part boundaries.
    Composite,
}

/// A checksum kept by the service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checksum {
    /// Algorithm.
    pub algorithm: ChecksumAlgorithm,
    /// Base64 of the big-endian bytes; a composite one may end in `-` and the number of parts.
    pub value: String,
    /// Input that the value was computed over.
    pub kind: ChecksumKind,
}

impl Checksum {
    /// Reads a value from a header, with the type header if there is one.
    ///
    /// Some services omit the type: `-N` at the end then marks a composite value.
    pub fn from_header(algorithm: ChecksumAlgorithm, value: &str, composite: Option<bool>) -> Self {
        let marked =
            value.rsplit_once('-').is_some_and(|(_, n)| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
        let kind =
            if composite.unwrap_or(marked) || marked { ChecksumKind::Composite } else { ChecksumKind::FullObject };
        Self { algorithm, value: value.to_owned(), kind }
    }

    /// True when both values are equal. None when they cannot be compared: other algorithms, or a composite value.
    pub fn matches(&self, other: &Self) -> Option<bool> {
        let comparable = self.algorithm == other.algorithm
            && self.kind == ChecksumKind::FullObject
            && other.kind == ChecksumKind::FullObject;
        comparable.then(|| self.value == other.value)
    }
}

/// CRC64NVME of bytes as S3 writes it.
pub fn crc64nvme(bytes: &[u8]) -> String {
    base64(&crc_fast::checksum(CrcAlgorithm::Crc64Nvme, bytes).to_be_bytes())
}

/// Decodes a digest from a header. None when it is not Base64.
pub fn decode_base64(value: &str) -> Option<Vec<u8>> {
    STANDARD.decode(value).ok()
}

/// Lower-case hexadecimal digits, as `ETag`s have them.
pub fn hex(bytes: &[u8]) -> String {
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
    fn algorithms_are_found_by_their_names() {
        for algorithm in ChecksumAlgorithm::ALL {
            assert_eq!(DigestAlgorithm::from_name(algorithm.name()), Some(DigestAlgorithm::Checksum(algorithm)));
        }
        assert_eq!(DigestAlgorithm::from_name("MD5"), Some(DigestAlgorithm::Md5));
        assert_eq!(ChecksumAlgorithm::from_name("MD5"), None);
        assert_eq!(DigestAlgorithm::from_name("crc32"), None);
    }

    #[test]
    fn digests_have_their_published_check_values() {
        for (algorithm, value) in [
            (ChecksumAlgorithm::Crc64Nvme, "ae8b14860a799888"),
            (ChecksumAlgorithm::Crc32C, "e3069283"),
            (ChecksumAlgorithm::Crc32, "cbf43926"),
            (ChecksumAlgorithm::Sha1, "f7c3bc1d808e04732adf679965ccc34ca7ae3441"),
            (ChecksumAlgorithm::Sha256, "15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225"),
        ] {
            assert_eq!(hex(&Digester::of(DigestAlgorithm::Checksum(algorithm), b"123456789")), value, "{algorithm:?}");
        }
        assert_eq!(hex(&Digester::of(DigestAlgorithm::Md5, b"123456789")), "25f9e794323b453885f5181f1b624d0b");
    }

    proptest::proptest! {
        #[test]
        fn checksums_of_parts_add_up_to_that_of_the_whole(parts: Vec<Vec<u8>>) {
            for algorithm in ChecksumAlgorithm::ALL {
                let value = |bytes: &[u8]| base64(&Digester::of(DigestAlgorithm::Checksum(algorithm), bytes));
                let values: Vec<(String, u64)> = parts.iter().map(|part| (value(part), part.len() as u64)).collect();

                let joined = algorithm.combine(values.iter().map(|(value, len)| (value.as_str(), *len)));

                assert_eq!(joined, algorithm.supports_full_object().then(|| value(&parts.concat())));
            }
        }
    }

    #[test]
    fn values_that_are_none_are_not_joined() {
        assert_eq!(ChecksumAlgorithm::Crc32.combine([("AAAA", 3)]), None);
        assert_eq!(ChecksumAlgorithm::Crc32.composite(["no Base64"]), None);
    }

    #[test]
    fn a_marked_value_is_composite_whatever_the_type_header_says() {
        let read = |value, kind| Checksum::from_header(ChecksumAlgorithm::Crc32, value, kind).kind;

        assert_eq!(read("AAAAAA==-3", None), ChecksumKind::Composite);
        assert_eq!(read("AAAAAA==-3", Some(false)), ChecksumKind::Composite);
        assert_eq!(read("AAAAAA==", Some(true)), ChecksumKind::Composite);
        assert_eq!(read("AAAAAA==", None), ChecksumKind::FullObject);
    }

    #[test]
    fn only_full_object_values_of_one_algorithm_are_compared() {
        let full = |algorithm, value: &str| Checksum::from_header(algorithm, value, Some(false));
        let a = full(ChecksumAlgorithm::Crc64Nvme, "x");

        assert_eq!(a.matches(&full(ChecksumAlgorithm::Crc64Nvme, "x")), Some(true));
        assert_eq!(a.matches(&full(ChecksumAlgorithm::Crc64Nvme, "y")), Some(false));
        assert_eq!(a.matches(&full(ChecksumAlgorithm::Crc32, "x")), None);
        assert_eq!(a.matches(&Checksum::from_header(ChecksumAlgorithm::Crc64Nvme, "x", Some(true))), None);
    }
}
