//! Writing an index: line by line, from a scan, or from a whole archive.

use std::ops::Range;

use crc_fast::{CrcAlgorithm, Digest};
use serde::Serialize;

use super::format::{IndexHead, IndexLine, IndexMember, IndexTail};
use crate::error::ArchiveError;
use crate::member::Member;
use crate::scan::{ReadOptions, ScanStep, ScanSummary, Scanner};
use crate::stream::{ArchiveEvent, StreamReader};

/// Writes the lines of an index. Every call returns the bytes that come next in the file.
#[derive(Debug)]
pub struct IndexWriter {
    crc: Digest,
    members: u64,
    stored_total: u64,
    sorted: bool,
    last: Vec<u8>,
}

impl IndexWriter {
    /// Begin an index. Returns the head line as well.
    pub fn new(head: &IndexHead) -> (Self, Vec<u8>) {
        let crc = Digest::new(CrcAlgorithm::Crc64Nvme);
        let mut writer = Self { crc, members: 0, stored_total: 0, sorted: true, last: Vec::new() };
        let line = writer.line(head);
        (writer, line)
    }

    /// The line of a member. Members must come in the order of the archive.
    pub fn member(&mut self, entry: &IndexMember) -> Vec<u8> {
        self.members += 1;
        self.stored_total += entry.member.stored_size;
        self.sorted &= self.last <= entry.member.name;
        self.last.clone_from(&entry.member.name);
        self.line(&IndexLine::of(entry))
    }

    /// The tail line.
    pub fn finish(mut self) -> Vec<u8> {
        let tail = IndexTail {
            members: self.members,
            stored_total: self.stored_total,
            sorted: self.sorted,
            crc64nvme: format!("{:016x}", self.crc.finalize()),
        };
        self.line(&tail)
    }

    fn line(&mut self, value: &impl Serialize) -> Vec<u8> {
        // Only maps with keys that are not text, and failing writers, make this fail.
        let mut line = serde_json::to_vec(value).expect("plain structures can be written as JSON");
        line.push(b'\n');
        self.crc.update(&line);
        line
    }
}

/// Builds an index from the events of a [`StreamReader`], with the CRC-32C of every member, or from the members of a
/// [`Scanner`] that hops, without.
///
/// # Examples
///
/// ```
/// use seqferry_archive::index::{IndexHead, Index, IndexLimits, TarIdentity, build_from_stream};
/// use seqferry_archive::ReadOptions;
/// use seqferry_archive::write::{ArchiveEntry, Layout};
///
/// let tar = Layout::plan(&[ArchiveEntry::file("a", 3)])?.assemble(|_| b"abc".to_vec());
/// let identity = TarIdentity { size: tar.len() as u64, etag: Some("1234".into()), ..TarIdentity::default() };
/// let head = IndexHead::new("example", identity.clone(), None);
///
/// let bytes = build_from_stream(&head, tar.chunks(1000), ReadOptions::default())?;
/// let index = Index::read(&bytes, &IndexLimits::default())?;
/// assert_eq!(index.members[0].member.data_offset, 512);
/// assert!(index.matches(&identity).is_certain());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct IndexBuilder {
    writer: IndexWriter,
    bytes: Vec<u8>,
    current: Option<(Member, Digest)>,
}

impl IndexBuilder {
    /// Begin an index.
    pub fn new(head: &IndexHead) -> Self {
        let (writer, bytes) = IndexWriter::new(head);
        Self { writer, bytes, current: None }
    }

    /// Take an event of the stream.
    pub fn event(&mut self, event: &ArchiveEvent<'_>) {
        match event {
            ArchiveEvent::Member(member) => {
                self.current = Some(((**member).clone(), Digest::new(CrcAlgorithm::Crc32Iscsi)));
            }
            ArchiveEvent::Data { bytes, .. } => {
                if let Some((_, crc)) = &mut self.current {
                    crc.update(bytes);
                }
            }
            ArchiveEvent::MemberEnd => {
                if let Some((member, crc)) = self.current.take() {
                    // Contents of a refused member may not have gone by in full.
                    let crc = member.refusal.is_none().then(|| crc.finalize() & 0xffff_ffff);
                    let crc32c = crc.and_then(|crc| u32::try_from(crc).ok());
                    self.member(&IndexMember { crc32c, ..member.into() });
                }
            }
            ArchiveEvent::End(_) => {}
        }
    }

    /// Add a member whose contents did not go by.
    pub fn member(&mut self, entry: &IndexMember) {
        let line = self.writer.member(entry);
        self.bytes.extend_from_slice(&line);
    }

    /// The lines since the last call, for a caller that stores them while the scan continues.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    /// The remaining lines. To be called after the end of the archive was seen only.
    pub fn finish(mut self) -> Vec<u8> {
        let tail = self.writer.finish();
        self.bytes.extend_from_slice(&tail);
        self.bytes
    }
}

/// The index of an archive that comes as a stream of chunks.
///
/// # Errors
/// When the archive is refused.
pub fn build_from_stream<'a>(
    head: &IndexHead,
    chunks: impl IntoIterator<Item = &'a [u8]>,
    options: ReadOptions,
) -> Result<Vec<u8>, ArchiveError> {
    let mut builder = IndexBuilder::new(head);
    let mut reader = StreamReader::new(Some(head.tar.size), options);
    for mut chunk in chunks {
        while let Some(event) = reader.next(&mut chunk)? {
            if matches!(event, ArchiveEvent::End(_)) {
                break;
            }
            builder.event(&event);
        }
    }
    // Contents of zero bytes end without further input.
    while let Some(event) = reader.next(&mut [].as_slice())? {
        if matches!(event, ArchiveEvent::End(_)) {
            break;
        }
        builder.event(&event);
    }
    reader.finish()?;
    Ok(builder.finish())
}

/// Builds the index of an archive by hopping from header to header. `read` returns bytes of the archive from the start
/// of the range: at least one, and more than the range where that is cheap.
///
/// Hopping is faster where members are larger than latency times bandwidth; otherwise stream the archive.
///
/// # Errors
/// When the archive is refused, or `read` fails.
pub fn build_by_hops<E: From<ArchiveError>>(
    head: &IndexHead,
    options: ReadOptions,
    mut read: impl FnMut(Range<u64>) -> Result<Vec<u8>, E>,
) -> Result<(Vec<u8>, ScanSummary), E> {
    let mut builder = IndexBuilder::new(head);
    let mut scanner = Scanner::new(Some(head.tar.size), options);
    let (mut start, mut window) = (0u64, Vec::new());
    loop {
        match scanner.step()? {
            ScanStep::Member(member) => builder.member(&IndexMember::from(*member)),
            ScanStep::End(summary) => return Ok((builder.finish(), summary)),
            ScanStep::Need { offset, len } => {
                let at = offset.checked_sub(start).and_then(|at| usize::try_from(at).ok());
                if let Some(bytes) = at.and_then(|at| window.get(at..)).filter(|bytes| !bytes.is_empty()) {
                    scanner.supply(offset, bytes);
                    continue;
                }
                (start, window) = (offset, read(offset..offset + len as u64)?);
                if window.is_empty() {
                    scanner.end_of_input(offset);
                }
            }
        }
    }
}
