//! CRCs of S3, with the algebra that gives the CRC of terabytes without reading them.
//!
//! A CRC is linear: `crc(A || B) = crc(A) * x^(8 |B|) + crc(B)` over GF(2) modulo the polynomial, and flipping bits of
//! a message of given length changes its CRC by what those bits alone contribute. All three start from and end with all
//! ones, reflected; values here are finished ones.

use std::sync::OnceLock;

use crc_fast::CrcAlgorithm;

/// CRC algorithm of S3.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Crc {
    /// CRC-64/NVME, S3's default.
    Crc64Nvme,
    /// CRC-32 of zip, the default of most SDKs.
    Crc32,
    /// CRC-32C, Castagnoli.
    Crc32C,
}

/// Parameters of one CRC algorithm.
#[derive(Debug)]
struct Parameters {
    fast: CrcAlgorithm,
    width: u32,
    /// Reflected.
    polynomial: u64,
    /// `x^(2^k)` for each k: shifts by any number of bits that fits 64 bits.
    powers: [u64; 64],
}

impl Parameters {
    fn new(fast: CrcAlgorithm, width: u32, polynomial: u64) -> Self {
        let mut made = Self { fast, width, polynomial, powers: [0; 64] };
        // x itself: the highest bit stands for x^0.
        let mut power = 1 << (width - 2);
        for slot in 0..64 {
            made.powers[slot] = power;
            power = made.multiply(power, power);
        }
        made
    }

    fn multiply(&self, a: u64, mut b: u64) -> u64 {
        let mut product = 0;
        let mut bit = 1_u64 << (self.width - 1);
        while bit != 0 {
            if a & bit != 0 {
                product ^= b;
                if a & (bit - 1) == 0 {
                    break;
                }
            }
            bit >>= 1;
            b = if b & 1 == 0 { b >> 1 } else { (b >> 1) ^ self.polynomial };
        }
        product
    }
}

impl Crc {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Crc64Nvme, Self::Crc32, Self::Crc32C];

    fn parameters(self) -> &'static Parameters {
        static MADE: OnceLock<[Parameters; 3]> = OnceLock::new();
        let made = MADE.get_or_init(|| {
            [
                Parameters::new(CrcAlgorithm::Crc64Nvme, 64, 0x9A6C_9329_AC4B_C9B5),
                Parameters::new(CrcAlgorithm::Crc32IsoHdlc, 32, 0xEDB8_8320),
                Parameters::new(CrcAlgorithm::Crc32Iscsi, 32, 0x82F6_3B78),
            ]
        });
        &made[self.index()]
    }

    /// Position in [`Crc::ALL`].
    pub(super) fn index(self) -> usize {
        match self {
            Self::Crc64Nvme => 0,
            Self::Crc32 => 1,
            Self::Crc32C => 2,
        }
    }

    /// Length of a value in bytes.
    pub fn size(self) -> usize {
        if self == Self::Crc64Nvme { 8 } else { 4 }
    }

    /// CRC of bytes at hand.
    pub fn of(self, bytes: &[u8]) -> u64 {
        crc_fast::checksum(self.parameters().fast, bytes)
    }

    /// Returns a digest for bytes that come in pieces.
    pub fn digest(self) -> crc_fast::Digest {
        crc_fast::Digest::new(self.parameters().fast)
    }

    /// The factor by which a CRC moves when `bytes` more follow.
    pub fn shift(self, bytes: u64) -> u64 {
        let parameters = self.parameters();
        let mut factor = 1_u64 << (parameters.width - 1);
        for bit in (0..61).filter(|bit| bytes >> bit & 1 == 1) {
            factor = parameters.multiply(parameters.powers[bit + 3], factor);
        }
        factor
    }

    /// Moves a CRC by a factor of [`Crc::shift`].
    pub fn advance(self, crc: u64, factor: u64) -> u64 {
        self.parameters().multiply(factor, crc)
    }

    /// Returns the CRC of two joined messages, of which the second has `second_bytes` bytes.
    pub fn combine(self, first: u64, second: u64, second_bytes: u64) -> u64 {
        self.advance(first, self.shift(second_bytes)) ^ second
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_values_are_the_published_ones() {
        let values = Crc::ALL.map(|crc| crc.of(b"123456789"));
        assert_eq!(values, [0xAE8B_1486_0A79_9888, 0xCBF4_3926, 0xE306_9283]);
    }

    #[test]
    fn joining_gives_the_crc_of_the_whole() {
        let bytes = crate::data::bytes(crate::data::seed(), 70_001);
        for crc in Crc::ALL {
            for cut in [0, 1, 17, 4096, 65_536, 70_000, 70_001] {
                let (first, second) = bytes.split_at(cut);
                let joined = crc.combine(crc.of(first), crc.of(second), second.len() as u64);
                assert_eq!(joined, crc.of(&bytes), "{crc:?} cut at {cut}");
            }
        }
    }
}
