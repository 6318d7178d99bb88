//! Digests that are on record of an object's bytes: checksums, and `ETag`s that are MD5. One of them is chosen to be
//! compared with what its bytes have now.

use std::num::NonZeroU64;

use seqferry_store::{Checksum, DigestAlgorithm};

const MIB: u64 = 1 << 20;
/// Sizes of parts that clients use in MiB, those that are likely first.
const PART_SIZES: [u64; 14] = [5, 8, 16, 32, 64, 128, 256, 512, 1024, 10, 15, 25, 50, 100];
/// Largest number of part sizes that are tested where no fitting one is recorded.
const GUESSES: usize = 3;
/// Most digits of the number of parts in an `ETag`: S3 has 10,000 parts at most.
const COUNT_DIGITS: usize = 5;

/// Content of an object, as a record has it.
#[derive(Debug, Clone, Default)]
pub struct RecordedContent {
    /// `ETag` of the object.
    pub target_etag: Option<String>,
    /// Bytes of each part but the last. 0: parts of unknown sizes.
    pub part_size: Option<u64>,
    /// Checksum that the service kept.
    pub checksum: Option<Checksum>,
}

/// A digest on record that the bytes of an object are compared with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedDigest {
    /// Name for a person: that of the checksum, or `ETag`.
    pub name: &'static str,
    /// Value as headers have it: base64 of a checksum, hexadecimal digits of an `ETag`; with the number of parts at its
    /// end when it is over the digests of parts.
    pub value: String,
    /// Algorithm of the digest.
    pub algorithm: DigestAlgorithm,
    /// Sizes that the parts may have, where it is over the digests of parts. Empty: it is over all bytes.
    pub part_sizes: Vec<NonZeroU64>,
}

impl RecordedDigest {
    /// The digest that an object of `size` bytes is compared with: its checksum, else its `ETag`. `part_size` is that
    /// of the record. None where no digest on record covers its bytes.
    pub fn of(size: u64, checksum: Option<&Checksum>, etag: Option<&str>, part_size: Option<u64>) -> Option<Self> {
        let by_checksum = checksum.and_then(|checksum| Self::of_checksum(size, checksum, part_size));
        by_checksum.or_else(|| Self::of_etag(size, etag?, part_size))
    }

    fn of_checksum(size: u64, checksum: &Checksum, part_size: Option<u64>) -> Option<Self> {
        let (digest, count) = checksum.value.split_once('-').unwrap_or((&checksum.value, ""));
        let (value, part_sizes) = if count.is_empty() {
            (digest.to_owned(), Vec::new())
        } else {
            (checksum.value.clone(), part_sizes(size, number(count)?, part_size)?)
        };
        let algorithm = DigestAlgorithm::Checksum(checksum.algorithm);
        (!digest.is_empty()).then_some(Self { name: checksum.algorithm.name(), value, algorithm, part_sizes })
    }

    fn of_etag(size: u64, etag: &str, part_size: Option<u64>) -> Option<Self> {
        let value = etag.trim_matches('"').to_ascii_lowercase();
        let (digest, count) = value.split_once('-').map_or((value.as_str(), None), |(md5, count)| (md5, Some(count)));
        if digest.len() != 32 || !digest.bytes().all(|b| b.is_ascii_hexdigit()) {
            return None;
        }
        let part_sizes = match count {
            None => Vec::new(),
            Some(count) if count.len() > COUNT_DIGITS || count.starts_with('0') => return None,
            Some(count) => part_sizes(size, number(count)?, part_size)?,
        };
        Some(Self { name: "ETag", value, algorithm: DigestAlgorithm::Md5, part_sizes })
    }
}

/// A number of digits alone.
fn number(digits: &str) -> Option<u64> {
    digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
}

/// Part sizes that cut this many bytes into `count` parts: the recorded one, else those that clients use. None where
/// none does.
fn part_sizes(size: u64, count: u64, recorded: Option<u64>) -> Option<Vec<NonZeroU64>> {
    let fits = |part: &NonZeroU64| size.div_ceil(part.get()) == count;
    if count == 1 {
        return NonZeroU64::new(size.max(1)).map(|whole| vec![whole]);
    }
    if let Some(recorded) = recorded.and_then(NonZeroU64::new).filter(fits) {
        return Some(vec![recorded]);
    }
    let known = PART_SIZES.iter().filter_map(|mib| NonZeroU64::new(mib * MIB));
    let fitting: Vec<NonZeroU64> = known.filter(fits).take(GUESSES).collect();
    (!fitting.is_empty()).then_some(fitting)
}
