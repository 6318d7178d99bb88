//! The unit of the format: blocks of 512 bytes.

/// Bytes of a block. Headers are one block; contents are padded to a whole number of them.
pub const BLOCK: u64 = 512;

/// The same as an array length.
pub(crate) const BLOCK_LEN: usize = 512;

/// Bytes that contents of `size` bytes occupy. None when the sum leaves the range that offsets may have.
pub(crate) fn pad(size: u64) -> Option<u64> {
    size.checked_next_multiple_of(BLOCK)
}

/// Zero bytes between the end of contents of `size` bytes and the next header.
pub(crate) fn padding(size: u64) -> u64 {
    (BLOCK - size % BLOCK) % BLOCK
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_are_padded_to_whole_blocks() {
        assert_eq!([0, 1, 512, 513].map(|size| pad(size).unwrap()), [0, 512, 512, 1024]);
        assert_eq!([0, 1, 512, 513].map(padding), [0, 511, 0, 511]);
        assert_eq!(pad(u64::MAX), None);
    }
}
