//! Maps of sparse files: GNU's own header (type `S`), and the PAX formats 0.0, 0.1 and 1.0.

use crate::block::BLOCK;
use crate::header::Block;
use crate::member::SparseMap;
use crate::number;
use crate::pax::decimal;
use crate::refusal::MemberRefusal;

/// Bytes of one entry in the blocks of the GNU format: offset and length of 12 bytes each.
const ENTRY: usize = 24;

/// The sparse records of a PAX header.
#[derive(Debug, Clone, Default)]
pub(crate) struct PaxSparse {
    pub(crate) records: Vec<(String, Vec<u8>)>,
}

/// Place of the map of a sparse member.
#[derive(Debug)]
pub(crate) enum SparseMapSource {
    /// Map from the PAX records (formats 0.0 and 0.1): the size of the file, and offset and length of each segment.
    Known(u64, Vec<(u64, u64)>),
    /// Map at the beginning of the contents (format 1.0). Holds the size of the file.
    Contents(u64),
}

impl PaxSparse {
    fn get(&self, key: &str) -> Option<&[u8]> {
        let found = self.records.iter().find(|(name, _)| name.strip_prefix("GNU.sparse.") == Some(key));
        found.map(|(_, value)| value.as_slice())
    }

    /// The name of the file: the header holds a made-up one in the formats 0.1 and 1.0.
    pub(crate) fn name(&self) -> Option<&[u8]> {
        self.get("name")
    }

    /// The place of the map; None for a member that is not sparse.
    pub(crate) fn place(&self, limit: usize) -> Result<Option<SparseMapSource>, MemberRefusal> {
        if self.records.is_empty() {
            return Ok(None);
        }
        let number = |key| self.get(key).and_then(decimal).ok_or(MemberRefusal::SparseMap);
        match (self.get("major"), self.get("minor")) {
            (Some(b"1"), Some(b"0")) => return Ok(Some(SparseMapSource::Contents(number("realsize")?))),
            (None, None) => {}
            _ => return Err(MemberRefusal::SparseMap),
        }
        let (size, count) = (number("size")?, number("numblocks")?);
        if count > limit as u64 {
            return Err(MemberRefusal::SparseTooLarge);
        }
        let numbers = match self.get("map") {
            Some(map) => {
                let parts: Option<Vec<u64>> = map.split(|byte| *byte == b',').map(decimal).collect();
                if map.is_empty() { Vec::new() } else { parts.ok_or(MemberRefusal::SparseMap)? }
            }
            None => self.alternating()?,
        };
        if numbers.len() as u64 != count * 2 {
            return Err(MemberRefusal::SparseMap);
        }
        Ok(Some(SparseMapSource::Known(size, pairs(&numbers))))
    }

    /// Format 0.0: records `offset` and `numbytes` in turn.
    fn alternating(&self) -> Result<Vec<u64>, MemberRefusal> {
        let mut numbers = Vec::new();
        for (key, value) in &self.records {
            let position = match key.as_str() {
                "GNU.sparse.offset" => 0,
                "GNU.sparse.numbytes" => 1,
                _ => continue,
            };
            if numbers.len() % 2 != position {
                return Err(MemberRefusal::SparseMap);
            }
            numbers.push(decimal(value).ok_or(MemberRefusal::SparseMap)?);
        }
        Ok(numbers)
    }
}

fn pairs(numbers: &[u64]) -> Vec<(u64, u64)> {
    numbers.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect()
}

/// Entries in a GNU header block, and whether an extension block follows.
pub(crate) fn gnu_header(block: &Block) -> (Result<Vec<(u64, u64)>, MemberRefusal>, bool) {
    (entries(&block[386..482]), block[482] != 0)
}

/// Size of the file in a GNU header block.
pub(crate) fn gnu_size(block: &Block) -> Result<u64, MemberRefusal> {
    let size = number::parse(&block[483..495]).ok().flatten();
    size.and_then(|size| u64::try_from(size).ok()).ok_or(MemberRefusal::SparseMap)
}

/// Entries in a GNU extension block, and whether another one follows.
pub(crate) fn gnu_extension(block: &Block) -> (Result<Vec<(u64, u64)>, MemberRefusal>, bool) {
    (entries(&block[..504]), block[504] != 0)
}

fn entries(bytes: &[u8]) -> Result<Vec<(u64, u64)>, MemberRefusal> {
    let unsigned = |field: &[u8]| {
        let value = number::parse(field).map_err(|_| MemberRefusal::SparseMap)?;
        value.map(u64::try_from).transpose().map_err(|_| MemberRefusal::SparseMap)
    };
    let mut found = Vec::new();
    for entry in bytes.chunks_exact(ENTRY) {
        match (unsigned(&entry[..12])?, unsigned(&entry[12..])?) {
            (Some(offset), Some(len)) => found.push((offset, len)),
            (None, None) => break,
            _ => return Err(MemberRefusal::SparseMap),
        }
    }
    Ok(found)
}

/// The map at the start of contents (format 1.0), read block by block: a count, then offset and length of each segment,
/// one decimal number per line, padded to a whole block.
#[derive(Debug, Default)]
pub(crate) struct MapText {
    text: Vec<u8>,
    checked: usize,
    lines: u64,
    count: Option<u64>,
}

impl MapText {
    /// Add a block. Some once the map is complete.
    pub(crate) fn push(&mut self, block: &[u8], limit: usize) -> Result<Option<Vec<(u64, u64)>>, MemberRefusal> {
        self.text.extend_from_slice(block);
        while let Some(len) = self.text[self.checked..].iter().position(|byte| *byte == b'\n') {
            self.checked += len + 1;
            self.lines += 1;
            if self.count.is_none() {
                let count = decimal(&self.text[..len]).ok_or(MemberRefusal::SparseMap)?;
                if count > limit as u64 {
                    return Err(MemberRefusal::SparseTooLarge);
                }
                self.count = Some(count);
            }
            if Some(self.lines) == self.count.map(|count| 1 + 2 * count) {
                return self.parse().map(Some);
            }
        }
        // Twenty digits and a newline are the longest line.
        if self.text.len() - self.checked > 21 { Err(MemberRefusal::SparseMap) } else { Ok(None) }
    }

    fn parse(&self) -> Result<Vec<(u64, u64)>, MemberRefusal> {
        let lines = self.text[..self.checked - 1].split(|byte| *byte == b'\n').skip(1);
        let numbers: Option<Vec<u64>> = lines.map(decimal).collect();
        numbers.map(|numbers| pairs(&numbers)).ok_or(MemberRefusal::SparseMap)
    }
}

/// The map of a member. Its last segment, which may be empty, must end where the file ends: GNU tar takes that for the
/// size.
pub(crate) fn complete_map(segments: &[(u64, u64)], size: u64, stored: u64) -> Result<SparseMap, MemberRefusal> {
    let end = segments.last().map_or(Some(0), |(offset, len)| offset.checked_add(*len));
    if end == Some(size) { check_map(segments, size, stored) } else { Err(MemberRefusal::SparseMap) }
}

/// The map of a file of `size` bytes with `stored` bytes of contents, without its empty segments.
pub(crate) fn check_map(segments: &[(u64, u64)], size: u64, stored: u64) -> Result<SparseMap, MemberRefusal> {
    let (mut end, mut total) = (0, 0u64);
    for (offset, len) in segments {
        // GNU tar reads every segment from a new block; bsdtar and Python do not. They agree on whole blocks only.
        if *len > 0 && total % BLOCK != 0 {
            return Err(MemberRefusal::SparseMap);
        }
        let next = offset.checked_add(*len).filter(|next| *offset >= end && *next <= size);
        end = next.ok_or(MemberRefusal::SparseMap)?;
        total += len; // No overflow: segments lie beside each other within `size`.
    }
    if total != stored {
        return Err(MemberRefusal::SparseMap);
    }
    Ok(SparseMap(segments.iter().copied().filter(|(_, len)| *len > 0).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_must_fit_the_sizes() {
        assert_eq!(complete_map(&[(0, 512)], 900, 512), Err(MemberRefusal::SparseMap));
        assert_eq!(complete_map(&[], 0, 0), Ok(SparseMap(vec![])));
        assert_eq!(complete_map(&[(0, 512), (600, 5), (900, 0)], 900, 517), Ok(SparseMap(vec![(0, 512), (600, 5)])));
        for (segments, size, stored) in [
            (vec![(0, 512), (511, 5)], 2000, 517),
            (vec![(1000, 512), (0, 5)], 2000, 517),
            (vec![(0, 512), (1000, 11)], 1010, 523),
            (vec![(0, 5), (1000, 5)], 2000, 10),
            (vec![(0, 5)], 20, 6),
            (vec![(u64::MAX, 5)], u64::MAX, 5),
        ] {
            assert_eq!(check_map(&segments, size, stored), Err(MemberRefusal::SparseMap), "{segments:?}");
        }
    }

    #[test]
    fn a_map_in_contents_is_read_whatever_the_blocks() {
        let text = b"2\n0\n5\n10\n7\n\0\0\0";
        for cut in 0..text.len() {
            let mut map = MapText::default();
            let early = map.push(&text[..cut], 10).unwrap();
            let found = early.or_else(|| map.push(&text[cut..], 10).unwrap());
            assert_eq!(found, Some(vec![(0, 5), (10, 7)]));
        }
        assert_eq!(MapText::default().push(b"0\n", 10), Ok(Some(vec![])));
        assert_eq!(MapText::default().push(b"11\n", 10), Err(MemberRefusal::SparseTooLarge));
        assert_eq!(MapText::default().push(b"-1\n", 10), Err(MemberRefusal::SparseMap));
        assert_eq!(MapText::default().push(&[0; 512], 10), Err(MemberRefusal::SparseMap));
    }
}
