//! Bounds of what is read in one step, checked before memory is taken for it.

use std::fs::File;
use std::io::{BufRead as _, BufReader};

use bytes::Bytes;
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};

/// Bytes of a page or of the metadata at most, packed and unpacked. Writers make pages of about 1 MiB.
const MOST_BYTES: u64 = 8 * 1024 * 1024;

/// Bytes of a value in a dictionary at least: a number, or the length of a text.
const LEAST_IN_DICTIONARY: u64 = 4;

/// A file that checks each page against `MOST_BYTES` before it is read: pages state their size themselves.
pub(crate) struct BoundedFile(pub(crate) File);

impl Length for BoundedFile {
    fn len(&self) -> u64 {
        self.0.len()
    }
}

impl ChunkReader for BoundedFile {
    type T = BufReader<File>;

    /// The reader of columns begins each page with this, at its header.
    fn get_read(&self, start: u64) -> Result<Self::T> {
        let mut reader = self.0.get_read(start)?;
        check_page(reader.fill_buf()?)?;
        Ok(reader)
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        check(length as u64, "a part")?;
        self.0.get_bytes(start, length)
    }
}

fn check(bytes: u64, what: &str) -> Result<()> {
    if bytes <= MOST_BYTES {
        return Ok(());
    }
    Err(ParquetError::General(format!("{what} of it has {bytes} bytes, and {MOST_BYTES} at most are read")))
}

/// Check the header of a page; anything else passes.
fn check_page(head: &[u8]) -> Result<()> {
    let Some(page) = PageSizes::of(head) else { return Ok(()) };
    check(page.packed.max(page.unpacked), "a page")?;
    if page.dictionary && page.values.saturating_mul(LEAST_IN_DICTIONARY) > page.unpacked {
        let (values, bytes) = (page.values, page.unpacked);
        return Err(ParquetError::General(format!("a dictionary of it has {values} values in {bytes} bytes")));
    }
    Ok(())
}

/// First fields of the header of a page, which is in Thrift's compact protocol: type, sizes and number of values.
struct PageSizes {
    dictionary: bool,
    unpacked: u64,
    packed: u64,
    values: u64,
}

impl PageSizes {
    /// Fields 1, 2 and 3 are type and sizes, 4 is a checksum or left out; the field after that begins with a count.
    fn of(head: &[u8]) -> Option<Self> {
        let mut head = head.iter().copied();
        let page_type = int_field(&mut head)?;
        let (unpacked, packed) = (int_field(&mut head)?, int_field(&mut head)?);
        let mut next = head.next()?;
        if next == NEXT_INT {
            varint(&mut head)?;
            next = head.next()?;
        }
        let values = (next & 0x0f == STRUCT).then(|| int_field(&mut head)).flatten().unwrap_or_default();
        Some(Self { dictionary: page_type == DICTIONARY, unpacked, packed, values })
    }
}

/// Type of a page that holds a dictionary.
const DICTIONARY: u64 = 2;
/// Header of an i32 field with the number of the field before plus one.
const NEXT_INT: u8 = 0x15;
/// Type of a structure, in the lower half of a field's header.
const STRUCT: u8 = 0x0c;

/// A negative number counts as a huge one.
fn int_field(head: &mut impl Iterator<Item = u8>) -> Option<u64> {
    (head.next()? == NEXT_INT).then(|| varint(head)).flatten().map(
        |zigzag| {
            if zigzag & 1 == 0 { zigzag >> 1 } else { u64::MAX }
        },
    )
}

fn varint(head: &mut impl Iterator<Item = u8>) -> Option<u64> {
    let mut found = 0;
    for shift in (0..63).step_by(7) {
        let byte = head.next()?;
        found |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(found);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Header of a dictionary page: type, sizes, checksum, and the count of values in field 7.
    fn dictionary(unpacked: u8, values: u8) -> Vec<u8> {
        vec![0x15, 2 << 1, 0x15, unpacked << 1, 0x15, 20 << 1, 0x15, 8, 0x3c, 0x15, values << 1]
    }

    #[test]
    fn a_dictionary_that_says_more_values_than_fit_is_refused() {
        assert!(check_page(&dictionary(40, 10)).is_ok());

        let refused = check_page(&dictionary(40, 11));

        assert!(refused.is_err_and(|why| why.to_string().contains("a dictionary of it has 11 values in 40 bytes")));
    }

    #[test]
    fn sizes_beyond_the_bound_and_negative_ones_are_refused() {
        let huge = [0x15, 0, 0x15, 0xff, 0xff, 0xff, 0xff, 0x0f, 0x15, 2, 0x2c, 0x15, 2];

        assert!(check_page(&huge).is_err());
        assert!(check_page(&[0x15, 0, 0x15, 3, 0x15, 2, 0x2c, 0x15, 2]).is_err());
        assert!(check_page(b"PAR1").is_ok() && check_page(&[]).is_ok());
    }
}
