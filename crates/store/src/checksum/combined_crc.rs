//! The CRC of a whole object joined from those of its parts, without the bytes.
//!
//! A CRC is a remainder of polynomials over GF(2). The CRC of the whole is the CRC of the first part times x^(8·length
//! of the second), plus the CRC of the second (Mark Adler explains it in zlib's `crc32_combine`). `crc_fast` can join
//! CRCs too, but squares matrices again for each part: 0.2 ms each, seconds for an object of 10,000 parts. Here the
//! factor is a number, and it is kept while parts have the same length.

use super::ChecksumAlgorithm;

/// A CRC that parts are added to.
#[derive(Debug, Clone)]
pub(crate) struct CombinedCrc {
    /// The polynomial without its highest term, its lowest power in the highest of the CRC's bits.
    polynomial: u64,
    /// x^0 in this representation.
    one: u64,
    crc: u64,
    /// A length, and x^(8·length).
    factor: (u64, u64),
}

impl CombinedCrc {
    /// The CRC of no bytes. None for algorithms other than CRCs.
    pub(crate) fn new(algorithm: ChecksumAlgorithm) -> Option<Self> {
        match algorithm {
            ChecksumAlgorithm::Crc64Nvme => Some(Self::crc64nvme()),
            ChecksumAlgorithm::Crc32C => Some(Self::of(0x82f6_3b78, 32)),
            ChecksumAlgorithm::Crc32 => Some(Self::of(0xedb8_8320, 32)),
            ChecksumAlgorithm::Sha256 | ChecksumAlgorithm::Sha1 => None,
        }
    }

    /// The CRC64NVME of no bytes.
    pub(crate) fn crc64nvme() -> Self {
        Self::of(0x9a6c_9329_ac4b_c9b5, 64)
    }

    fn of(polynomial: u64, width: u32) -> Self {
        let one = 1 << (width - 1);
        Self { polynomial, one, crc: 0, factor: (0, one) }
    }

    /// Appends a part with this CRC and length.
    pub(crate) fn push(&mut self, crc: u64, length: u64) {
        if self.factor.0 != length {
            self.factor = (length, self.power(length));
        }
        self.crc = self.times(self.factor.1, self.crc) ^ crc;
    }

    /// The CRC of all parts.
    pub(crate) fn crc(&self) -> u64 {
        self.crc
    }

    /// x^(8·bytes).
    fn power(&self, mut bytes: u64) -> u64 {
        let (mut power, mut square) = (self.one, self.one >> 8);
        while bytes > 0 {
            if bytes & 1 == 1 {
                power = self.times(power, square);
            }
            square = self.times(square, square);
            bytes >>= 1;
        }
        power
    }

    fn times(&self, a: u64, mut b: u64) -> u64 {
        let (mut product, mut term) = (0, self.one);
        while term > 0 {
            if a & term != 0 {
                product ^= b;
            }
            // Times x: what falls off is x^width, which is the rest of the polynomial.
            b = if b & 1 == 1 { b >> 1 ^ self.polynomial } else { b >> 1 };
            term >>= 1;
        }
        product
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn parts_make_the_checksum_of_the_whole(
            parts in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..300), 0..8),
            long in any::<u32>(),
        ) {
            let whole = parts.concat();
            for algorithm in [ChecksumAlgorithm::Crc64Nvme, ChecksumAlgorithm::Crc32C, ChecksumAlgorithm::Crc32] {
                let (crc, _) = algorithm.crc().unwrap();
                let mut joined = CombinedCrc::new(algorithm).unwrap();
                for part in &parts {
                    joined.push(crc_fast::checksum(crc, part), part.len() as u64);
                }
                prop_assert_eq!(joined.crc(), crc_fast::checksum(crc, &whole));

                // Lengths that no test holds in memory.
                let (first, length) = (joined.crc(), u64::from(long) << 8);
                joined.push(first, length);
                prop_assert_eq!(joined.crc(), crc_fast::checksum_combine(crc, first, first, length));
            }
        }
    }
}
