//! Reading an index: line by line in bounded memory, and strict, because its offsets are used for ranged reads.

use std::fmt;

use crc_fast::{CrcAlgorithm, Digest};

use super::format::{FORMAT, IndexHead, IndexLine, IndexMember, IndexTail, VERSION};
use crate::block::{BLOCK, pad};
use crate::member::MemberKind;
use crate::sparse::check_map;

/// Bounds of an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexLimits {
    /// Bytes of a line. PAX records and sparse maps of a member are in its line.
    pub line: usize,
    /// Members.
    pub members: u64,
}

impl Default for IndexLimits {
    fn default() -> Self {
        Self { line: 8 << 20, members: 50_000_000 }
    }
}

/// An index that is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexError {
    /// Line, from 1 on.
    pub line: Option<u64>,
    /// The fault.
    pub fault: IndexFault,
}

/// A fault of an index.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum IndexFault {
    /// The first line is not the head of an index.
    NotAnIndex,
    /// A version of the format that this program does not know.
    Version(u32),
    /// A line is not valid JSON with the known fields.
    Json(String),
    /// A field has a value that it cannot have.
    Field(&'static str),
    /// The member overlaps the one before or lies outside the tar, or its offsets are not those of a header and
    /// contents.
    Place,
    /// The count, the sum or the checksum in the tail does not fit the lines.
    Tail(&'static str),
    /// The tail is missing.
    Truncated,
    /// Lines follow the tail.
    AfterTail,
    /// A limit is reached.
    Limit(&'static str, u64),
    /// The tar has other headers at the place of this member.
    Foreign(String),
    /// The tar has a member that the index does not list.
    Unlisted {
        /// Its name.
        name: String,
        /// Offset of its headers.
        offset: u64,
    },
}

impl fmt::Display for IndexError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.fault {
            IndexFault::Foreign(name) => {
                return write!(
                    f,
                    "the index does not belong to this tar: there is no {name:?} at its offset; rebuild the index"
                );
            }
            IndexFault::Unlisted { name, offset } => {
                return write!(
                    f,
                    "the index is not complete: it lacks {name:?}, which the archive has at byte {offset}; \
                     rebuild the index"
                );
            }
            IndexFault::NotAnIndex => f.write_str("the file is not an index of a tar")?,
            IndexFault::Version(version) => write!(f, "the index has version {version}; this program reads {VERSION}")?,
            IndexFault::Json(cause) => write!(f, "the index is damaged: {cause}")?,
            IndexFault::Field(field) => write!(f, "the index is damaged: the field {field} is missing or invalid")?,
            IndexFault::Place => {
                f.write_str("the index is damaged: a member overlaps another or lies outside the tar")?;
            }
            IndexFault::Tail(field) => write!(f, "the index is damaged: {field} in its tail does not fit its lines")?,
            IndexFault::Truncated => f.write_str("the index is truncated")?,
            IndexFault::AfterTail => f.write_str("the index has lines after its tail")?,
            IndexFault::Limit(limit, value) => write!(f, "the index exceeds the limit {limit} of {value}")?,
        }
        if let Some(line) = self.line {
            write!(f, " (line {line})")?;
        }
        f.write_str("; rebuild the index")
    }
}

impl std::error::Error for IndexError {}

/// An index in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Index {
    /// The tar that it belongs to.
    pub head: IndexHead,
    /// Members in the order of the tar.
    pub members: Vec<IndexMember>,
}

impl Index {
    /// Read a whole index.
    ///
    /// # Errors
    /// When any line is not as [`IndexReader`] demands.
    pub fn read(bytes: &[u8], limits: &IndexLimits) -> Result<Self, IndexError> {
        let mut reader = IndexReader::new(limits.clone());
        let mut members = Vec::new();
        reader.push(bytes, |member| members.push(member))?;
        let head = reader.finish()?;
        Ok(Self { head, members })
    }
}

/// Reads an index from chunks.
///
/// Members ascend without overlap within the size of the tar, every header and its contents begin at a block, and the
/// tail must agree. Names are not checked here: [`MemberTree::admit`](crate::MemberTree::admit) applies to members of
/// an index as to any other. **Members are proven only once [`finish`](Self::finish) succeeds**, which checks the CRC.
#[derive(Debug)]
pub struct IndexReader {
    limits: IndexLimits,
    head: Option<IndexHead>,
    tail: Option<IndexTail>,
    partial: Vec<u8>,
    crc: Digest,
    line: u64,
    members: u64,
    stored_total: u64,
    sorted: bool,
    last: Vec<u8>,
    end: u64,
}

impl IndexReader {
    /// A reader of a new index.
    pub fn new(limits: IndexLimits) -> Self {
        let crc = Digest::new(CrcAlgorithm::Crc64Nvme);
        Self {
            limits,
            head: None,
            tail: None,
            partial: Vec::new(),
            crc,
            line: 0,
            members: 0,
            stored_total: 0,
            sorted: true,
            last: Vec::new(),
            end: 0,
        }
    }

    /// The head, once its line is complete.
    pub fn head(&self) -> Option<&IndexHead> {
        self.head.as_ref()
    }

    /// Take the next bytes of the file. Every member whose line is complete goes to `member`.
    pub fn push(&mut self, mut bytes: &[u8], mut member: impl FnMut(IndexMember)) -> Result<(), IndexError> {
        while let Some(at) = bytes.iter().position(|byte| *byte == b'\n') {
            let (line, rest) = bytes.split_at(at + 1);
            bytes = rest;
            self.keep(line)?;
            let line = std::mem::take(&mut self.partial);
            self.line += 1;
            if let Some(entry) = self.take_line(&line).map_err(|fault| self.error(fault))? {
                member(entry);
            }
            self.partial = line;
            self.partial.clear();
        }
        self.keep(bytes)
    }

    /// The head, when the index is complete and its tail fits.
    pub fn finish(mut self) -> Result<IndexHead, IndexError> {
        match (self.head.take(), &self.tail) {
            (Some(head), Some(_)) if self.partial.is_empty() => Ok(head),
            (Some(_), Some(_)) => Err(self.error(IndexFault::AfterTail)),
            (None, _) => Err(self.error(IndexFault::NotAnIndex)),
            (Some(_), None) => Err(self.error(IndexFault::Truncated)),
        }
    }

    fn error(&self, fault: IndexFault) -> IndexError {
        IndexError { line: Some(self.line), fault }
    }

    fn keep(&mut self, bytes: &[u8]) -> Result<(), IndexError> {
        if self.partial.len() + bytes.len() > self.limits.line {
            let fault = if self.head.is_none() {
                IndexFault::NotAnIndex
            } else {
                IndexFault::Limit("line bytes", self.limits.line as u64)
            };
            return Err(self.error(fault));
        }
        self.partial.extend_from_slice(bytes);
        Ok(())
    }

    fn take_line(&mut self, line: &[u8]) -> Result<Option<IndexMember>, IndexFault> {
        if self.tail.is_some() {
            return Err(IndexFault::AfterTail);
        }
        let Some(head) = &self.head else {
            self.head = Some(read_head(line)?);
            self.crc.update(line);
            return Ok(None);
        };
        // Each of both lines has fields that the other has not.
        if let Ok(tail) = serde_json::from_slice::<IndexTail>(line) {
            self.check_tail(&tail)?;
            self.tail = Some(tail);
            return Ok(None);
        }
        let tar_size = head.tar.size;
        let line_fields: IndexLine =
            serde_json::from_slice(line).map_err(|error| IndexFault::Json(error.to_string()))?;
        let entry = line_fields.entry().map_err(IndexFault::Field)?;
        self.end = check_place(&entry, self.end, tar_size)?;
        self.members += 1;
        if self.members > self.limits.members {
            return Err(IndexFault::Limit("members", self.limits.members));
        }
        self.stored_total += entry.member.stored_size; // No overflow: members lie beside each other in the tar.
        self.sorted &= self.last <= entry.member.name;
        self.last.clone_from(&entry.member.name);
        self.crc.update(line);
        Ok(Some(entry))
    }

    fn check_tail(&self, tail: &IndexTail) -> Result<(), IndexFault> {
        let in_head = self.head.as_ref().and_then(|head| head.members).unwrap_or(self.members);
        if tail.members != self.members || in_head != self.members {
            return Err(IndexFault::Tail("the number of members"));
        }
        if tail.stored_total != self.stored_total || tail.sorted != self.sorted {
            return Err(IndexFault::Tail("the sum of sizes or the order"));
        }
        if tail.crc64nvme != format!("{:016x}", self.crc.finalize()) {
            return Err(IndexFault::Tail("the checksum"));
        }
        Ok(())
    }
}

fn read_head(line: &[u8]) -> Result<IndexHead, IndexFault> {
    // Of an unknown version only these two fields are known.
    #[derive(serde::Deserialize)]
    struct IndexVersion {
        format: String,
        version: u32,
    }
    let found: IndexVersion = serde_json::from_slice(line).map_err(|_| IndexFault::NotAnIndex)?;
    match (found.format.as_str(), found.version) {
        (FORMAT, VERSION) => serde_json::from_slice(line).map_err(|error| IndexFault::Json(error.to_string())),
        (FORMAT, version) => Err(IndexFault::Version(version)),
        _ => Err(IndexFault::NotAnIndex),
    }
}

/// The end of the member's contents, which must fit behind `before` and within the tar.
fn check_place(entry: &IndexMember, before: u64, tar_size: u64) -> Result<u64, IndexFault> {
    let member = &entry.member;
    let aligned = member.header_offset.is_multiple_of(BLOCK) && member.data_offset.is_multiple_of(BLOCK);
    let header_end = member.header_offset.checked_add(BLOCK).ok_or(IndexFault::Place)?;
    let end = pad(member.stored_size).and_then(|len| member.data_offset.checked_add(len)).ok_or(IndexFault::Place)?;
    if !aligned || member.header_offset < before || header_end > member.data_offset || end > tar_size {
        return Err(IndexFault::Place);
    }
    match (&member.sparse, member.kind) {
        (Some(map), MemberKind::File) => {
            let checked =
                check_map(&map.0, member.size, member.stored_size).map_err(|_| IndexFault::Field("sparse"))?;
            if checked != *map {
                return Err(IndexFault::Field("sparse"));
            }
        }
        (Some(_), _) => return Err(IndexFault::Field("sparse")),
        (None, _) if member.size != member.stored_size => return Err(IndexFault::Field("real_size")),
        // Contents of a folder are the names in it, in incremental archives of GNU tar.
        (None, MemberKind::File | MemberKind::Directory | MemberKind::Other(_)) => {}
        (None, _) if member.stored_size != 0 => return Err(IndexFault::Field("size")),
        (None, _) => {}
    }
    Ok(end)
}
