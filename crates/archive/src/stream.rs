//! The scanner over a stream: headers become members, contents become slices of the input.

use crate::error::{ArchiveError, ArchiveFault};
use crate::member::Member;
use crate::scan::{ReadOptions, ScanStep, ScanSummary, Scanner};

/// Part of an archive, in its order.
#[derive(Debug, PartialEq, Eq)]
pub enum ArchiveEvent<'a> {
    /// A member begins.
    Member(Box<Member>),
    /// Stored bytes of this member, from `offset` in the archive on. Never more than its stored size in all.
    Data {
        /// Offset of the first byte in the archive.
        offset: u64,
        /// The bytes, a slice of the input.
        bytes: &'a [u8],
    },
    /// The stored bytes of the member are complete.
    MemberEnd,
    /// The end of the archive.
    End(ScanSummary),
}

/// Reads an archive from chunks of any size, without copying contents.
///
/// # Examples
///
/// ```
/// use seqferry_archive::write::{ArchiveEntry, Layout};
/// use seqferry_archive::{ArchiveEvent, ReadOptions, StreamReader};
///
/// let tar = Layout::plan(&[ArchiveEntry::file("a.txt", 5)])?.assemble(|_| b"hello".to_vec());
///
/// let mut reader = StreamReader::new(None, ReadOptions::default());
/// let mut contents = Vec::new();
/// for mut chunk in tar.chunks(100) {
///     while let Some(event) = reader.next(&mut chunk)? {
///         if let ArchiveEvent::Data { bytes, .. } = event {
///             contents.extend_from_slice(bytes);
///         }
///     }
/// }
/// let summary = reader.finish()?;
/// assert_eq!((contents.as_slice(), summary.members), (b"hello".as_slice(), 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct StreamReader {
    scanner: Scanner,
    /// Bytes of the archive that went by.
    position: u64,
    /// End of the contents of the member under way.
    contents: Option<u64>,
}

impl StreamReader {
    /// A reader from the start of an archive, of a known size or not.
    pub fn new(size: Option<u64>, options: ReadOptions) -> Self {
        Self::with_scanner(Scanner::new(size, options))
    }

    /// A reader that begins where `scanner` is.
    pub fn with_scanner(scanner: Scanner) -> Self {
        Self { position: scanner.offset(), scanner, contents: None }
    }

    /// Offset in the archive of the next byte of input.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The next event. Consumes `input` from its front; None when it is used up.
    pub fn next<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<ArchiveEvent<'a>>, ArchiveError> {
        loop {
            if let Some(end) = self.contents {
                if self.position == end {
                    self.contents = None;
                    return Ok(Some(ArchiveEvent::MemberEnd));
                }
                let bytes = self.consume(input, end - self.position);
                let offset = self.position - bytes.len() as u64;
                return Ok((!bytes.is_empty()).then_some(ArchiveEvent::Data { offset, bytes }));
            }
            match self.scanner.step()? {
                ScanStep::Member(member) => {
                    // A refused map leaves its contents partly read: they are not handed out.
                    let partly_read = self.position > member.data_offset;
                    self.contents =
                        Some(if partly_read { self.position } else { member.data_offset + member.stored_size });
                    return Ok(Some(ArchiveEvent::Member(member)));
                }
                ScanStep::End(summary) => {
                    // Padding at the very end belongs to the archive as well, and so does what is left out there.
                    let size = self.scanner.size().map_or(u64::MAX, |_| summary.size);
                    self.consume(input, size.saturating_sub(self.position));
                    return Ok((self.position >= summary.size).then_some(ArchiveEvent::End(summary)));
                }
                ScanStep::Need { offset, len } => {
                    if offset > self.position {
                        self.consume(input, offset - self.position);
                    }
                    if input.is_empty() {
                        return Ok(None);
                    }
                    let bytes = self.consume(input, len as u64);
                    self.scanner.supply(offset, bytes);
                }
            }
        }
    }

    /// Say that the input is complete.
    ///
    /// # Errors
    /// When the archive is not complete.
    pub fn finish(&mut self) -> Result<ScanSummary, ArchiveError> {
        let expected = self.contents.unwrap_or(self.scanner.offset()).max(self.scanner.size().unwrap_or(0));
        self.scanner.end_of_input(self.position);
        if expected > self.position {
            return Err(ArchiveError::new(self.position, ArchiveFault::Truncated { expected, size: self.position }));
        }
        loop {
            match self.next(&mut [].as_slice())? {
                Some(ArchiveEvent::End(summary)) => return Ok(summary),
                Some(_) => {}
                None => {
                    let fault = ArchiveFault::Truncated { expected: self.scanner.offset(), size: self.position };
                    return Err(ArchiveError::new(self.position, fault));
                }
            }
        }
    }

    fn consume<'a>(&mut self, input: &mut &'a [u8], most: u64) -> &'a [u8] {
        let len = usize::try_from(most).unwrap_or(usize::MAX).min(input.len());
        let (taken, rest) = input.split_at(len);
        *input = rest;
        self.position += len as u64;
        taken
    }
}
