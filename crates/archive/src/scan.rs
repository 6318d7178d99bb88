//! The strict header reader: a state machine that names the bytes it needs and returns members.
//!
//! [`Scanner::step`] either asks for bytes at an offset ([`ScanStep::Need`]), or returns the next [`Member`], or the
//! end. Contents are never requested (except the map of a sparse file that lies in them), so the caller chooses: stream
//! the whole archive, or hop from header to header with ranged reads and fetch contents at will.
//!
//! The offset of the next header comes from one size only, and every case in which other readers would look elsewhere
//! is a [`ArchiveFault`]. Memory is one extension header or sparse map, within [`ArchiveLimits`].

mod types;

pub use types::{ArchiveLimits, Checkpoint, ReadOptions, ScanStep, ScanSummary};

use crate::block::{BLOCK, BLOCK_LEN, pad};
use crate::error::{ArchiveError, ArchiveFault};
use crate::header::{self, Block, Header};
use crate::member::Member;
use crate::prelude::{self, AppliedHeader, Prelude};
use crate::refusal::MemberRefusal;
use crate::sparse::{self, MapText, SparseMapSource};

/// Reads headers. See the [module](self).
///
/// # Examples
///
/// List an archive by hopping over its contents:
///
/// ```
/// use seqferry_archive::write::{ArchiveEntry, Layout};
/// use seqferry_archive::{ReadOptions, Scanner, ScanStep};
///
/// let entries = [ArchiveEntry::file("reads/a.fastq", 3), ArchiveEntry::file("reads/b.fastq", 2)];
/// let tar = Layout::plan(&entries)?.assemble(|member| [b"abc".to_vec(), b"de".to_vec()][member].clone());
///
/// let mut scanner = Scanner::new(Some(tar.len() as u64), ReadOptions::default());
/// let mut names = Vec::new();
/// loop {
///     match scanner.step()? {
///         ScanStep::Need { offset, len } => {
///             let at = offset as usize; // a ranged read in real life
///             scanner.supply(offset, &tar[at..at + len]);
///         }
///         ScanStep::Member(member) => names.push(member.display_name()),
///         ScanStep::End(_) => break,
///     }
/// }
/// assert_eq!(names, ["reads/a.fastq", "reads/b.fastq"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Scanner {
    options: ReadOptions,
    size: Option<u64>,
    /// Offset of the bytes that `pending` begins with.
    start: u64,
    pending: Vec<u8>,
    want: usize,
    state: ScanState,
    prelude: Prelude,
    globals: Vec<(String, Vec<u8>)>,
    members: u64,
    contents_end: u64,
    /// True once a PAX header was read.
    is_pax: bool,
    /// Type and stated size of the last member, if it is one without contents.
    ignored: Option<(u8, u64)>,
    failed: Option<ArchiveError>,
}

/// Name of the limit [`ArchiveLimits::trailing_zeros`] in errors.
pub const ZEROS_AFTER_END: &str = "zero bytes after the end mark";

/// Pairs of offset and length.
type Segments = Vec<(u64, u64)>;

#[derive(Debug)]
enum ScanState {
    Header,
    Extension { flag: u8, header: u64, len: usize },
    GnuMap { member: Box<Member>, segments: Result<Segments, MemberRefusal> },
    ContentsMap { member: Box<Member>, text: MapText, next: u64 },
    Ready(Box<Member>),
    Trailer { zeros: u64 },
    Ended(bool),
}

impl Scanner {
    /// A scan of an archive from its start. With its size known, no member is returned whose contents lie beyond it.
    pub fn new(size: Option<u64>, options: ReadOptions) -> Self {
        Self::resume(size, options, Checkpoint::default())
    }

    /// A scan that continues at a checkpoint.
    pub fn resume(size: Option<u64>, options: ReadOptions, checkpoint: Checkpoint) -> Self {
        Self {
            options,
            size,
            start: checkpoint.offset,
            pending: Vec::new(),
            want: BLOCK_LEN,
            state: ScanState::Header,
            prelude: Prelude::default(),
            globals: checkpoint.globals,
            members: 0,
            contents_end: checkpoint.offset,
            is_pax: false,
            ignored: None,
            failed: None,
        }
    }

    /// The place at which a scan continues with the members that were not returned yet. None in the middle of headers.
    pub fn checkpoint(&self) -> Option<Checkpoint> {
        let between = matches!(self.state, ScanState::Header) && self.pending.is_empty() && self.prelude.is_empty();
        between.then(|| Checkpoint { offset: self.start, globals: self.globals.clone() })
    }

    /// Size of the archive, where it is known.
    pub fn size(&self) -> Option<u64> {
        self.size
    }

    /// Offset of the byte that is needed next.
    pub fn offset(&self) -> u64 {
        self.start + self.pending.len() as u64
    }

    /// Give bytes of the archive that begin at `offset`. Returns how many were taken: at most as many as were
    /// requested, and none when `offset` is not the one that was requested.
    pub fn supply(&mut self, offset: u64, bytes: &[u8]) -> usize {
        if offset != self.offset() || matches!(self.state, ScanState::Ready(_) | ScanState::Ended(_)) {
            return 0;
        }
        let taken = bytes.len().min(self.want - self.pending.len());
        self.pending.extend_from_slice(&bytes[..taken]);
        taken
    }

    /// Say that the archive has `size` bytes. A stream calls this at its end.
    pub fn end_of_input(&mut self, size: u64) {
        self.size = Some(size);
    }

    /// The next action. An error is final: every later call returns it again.
    pub fn step(&mut self) -> Result<ScanStep, ArchiveError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let offset = self.start;
        self.advance().map_err(|fault| {
            let error = ArchiveError::new(offset, fault);
            self.failed = Some(error.clone());
            self.pending = Vec::new();
            error
        })
    }

    fn advance(&mut self) -> Result<ScanStep, ArchiveFault> {
        loop {
            match &self.state {
                ScanState::Ready(_) => return Ok(self.take_member()),
                ScanState::Ended(end_mark) => return Ok(ScanStep::End(self.summary(*end_mark))),
                _ => {}
            }
            if self.pending.len() < self.want {
                match self.size {
                    Some(size) if size < self.start.saturating_add(self.want as u64) => {
                        if self.at_end(size)? {
                            continue;
                        }
                    }
                    _ => return Ok(ScanStep::Need { offset: self.offset(), len: self.want - self.pending.len() }),
                }
                if self.pending.len() < self.want {
                    return Ok(ScanStep::Need { offset: self.offset(), len: self.want - self.pending.len() });
                }
            }
            let bytes = std::mem::take(&mut self.pending);
            let start = self.start;
            self.start += bytes.len() as u64;
            self.want = BLOCK_LEN;
            match std::mem::replace(&mut self.state, ScanState::Header) {
                ScanState::Header => self.header(start, &bytes)?,
                ScanState::Extension { flag, header, len } => self.extension(flag, header, &bytes[..len])?,
                ScanState::GnuMap { member, segments } => self.gnu_map(member, segments, &bytes)?,
                ScanState::ContentsMap { member, text, next } => self.contents_map(member, text, next, &bytes)?,
                ScanState::Trailer { zeros } => self.trailer(zeros, start, &bytes)?,
                ended => self.state = ended,
            }
            // A long name is handed on; the next header is 512 bytes.
            self.pending = bytes;
            self.pending.clear();
            self.pending.shrink_to(BLOCK_LEN);
        }
    }

    /// The archive ends before the bytes that are needed. Whether that ends the scan; otherwise fewer bytes are needed.
    fn at_end(&mut self, size: u64) -> Result<bool, ArchiveFault> {
        let left = size.saturating_sub(self.start);
        match self.state {
            ScanState::Header if size == self.start && self.prelude.is_empty() => {
                if !self.options.missing_end {
                    let empty = ArchiveFault::Truncated { expected: BLOCK, size };
                    return Err(if size == 0 { empty } else { ArchiveFault::MissingEnd });
                }
                self.state = ScanState::Ended(false);
                Ok(true)
            }
            ScanState::Header if size == self.start => Err(ArchiveFault::Dangling),
            ScanState::Trailer { .. } if left == 0 => {
                self.state = ScanState::Ended(true);
                Ok(true)
            }
            ScanState::Trailer { .. } => {
                self.want = usize::try_from(left).unwrap_or(BLOCK_LEN);
                Ok(false)
            }
            _ => Err(ArchiveFault::Truncated { expected: self.start.saturating_add(self.want as u64), size }),
        }
    }

    fn header(&mut self, start: u64, bytes: &[u8]) -> Result<(), ArchiveFault> {
        let block: &Block = bytes.try_into().map_err(|_| ArchiveFault::Header)?;
        if block.iter().all(|byte| *byte == 0) {
            if !self.prelude.is_empty() {
                return Err(ArchiveFault::Dangling);
            }
            self.contents_end = start;
            self.state = ScanState::Trailer { zeros: BLOCK };
            return Ok(());
        }
        let ignored = self.ignored.take();
        let header = Header::parse(block).map_err(|fault| match (fault, ignored) {
            (ArchiveFault::Header, _) if start == 0 => ArchiveFault::NotTar(header::other_format(block)),
            // The bytes may be the contents that the member before stated.
            (_, Some((flag, size))) => ArchiveFault::SizeOfNonFile { flag, size },
            (fault, None) => fault,
        })?;
        if prelude::is_unsupported(header.flag) {
            return Err(ArchiveFault::Extension(header.flag));
        }
        if prelude::is_extension(header.flag) {
            return self.announce(start, &header);
        }
        if prelude::is_label(header.flag) {
            return self.label(&header);
        }
        let prelude = std::mem::take(&mut self.prelude);
        let header_offset = prelude.start.unwrap_or(start);
        let flag = header.flag;
        let AppliedHeader { mut member, sparse, ignored } =
            prelude.apply(header, &self.globals, self.options.lenient_sizes, self.is_pax)?;
        self.ignored = (ignored > 0).then_some((flag, ignored));
        member.header_offset = header_offset;
        member.data_offset = self.start;
        let member = Box::new(member);
        if flag == b'S' {
            return self.gnu_sparse(member, block);
        }
        match sparse.place(self.options.limits.sparse_segments) {
            Ok(None) => self.finish(member, None),
            Ok(Some(SparseMapSource::Known(size, segments))) => self.finish(member, Some((size, Ok(segments)))),
            Ok(Some(SparseMapSource::Contents(size))) => {
                let next = self.end_of(&member)?;
                let member = Box::new(Member { size, ..*member });
                if next == self.start {
                    return self.finish(member, Some((size, Err(MemberRefusal::SparseMap))));
                }
                self.state = ScanState::ContentsMap { member, text: MapText::default(), next };
                Ok(())
            }
            Err(refusal) => self.finish(member, Some((0, Err(refusal)))),
        }
    }

    /// Pass over the label of a volume.
    fn label(&mut self, header: &Header) -> Result<(), ArchiveFault> {
        self.prelude.check_order(header.flag)?;
        self.start = self.contents_end_of(self.start, header.size)?;
        Ok(())
    }

    fn announce(&mut self, start: u64, header: &Header) -> Result<(), ArchiveFault> {
        self.prelude.check_order(header.flag)?;
        self.is_pax |= matches!(header.flag, b'x' | b'X' | b'g');
        let limit = self.options.limits.extension;
        if header.size > limit {
            return Err(ArchiveFault::Limit("extension header bytes", limit));
        }
        if header.size == 0 {
            return Err(ArchiveFault::Pax("it is empty"));
        }
        let len = usize::try_from(header.size).map_err(|_| ArchiveFault::Limit("extension header bytes", limit))?;
        self.want = len.next_multiple_of(BLOCK_LEN);
        self.state = ScanState::Extension { flag: header.flag, header: start, len };
        Ok(())
    }

    fn extension(&mut self, flag: u8, header: u64, body: &[u8]) -> Result<(), ArchiveFault> {
        if flag == b'g' {
            return prelude::merge_globals(&mut self.globals, body, self.options.limits.extension);
        }
        self.prelude.add(flag, header, body)
    }

    fn gnu_sparse(&mut self, mut member: Box<Member>, block: &Block) -> Result<(), ArchiveFault> {
        let (segments, more) = sparse::gnu_header(block);
        match sparse::gnu_size(block) {
            Ok(size) => member.size = size,
            Err(refusal) => member.refusal = member.refusal.or(Some(refusal)),
        }
        self.gnu_segments(member, segments, more)
    }

    fn gnu_map(
        &mut self,
        member: Box<Member>,
        segments: Result<Segments, MemberRefusal>,
        bytes: &[u8],
    ) -> Result<(), ArchiveFault> {
        let block: &Block = bytes.try_into().map_err(|_| ArchiveFault::Header)?;
        let (found, more) = sparse::gnu_extension(block);
        let joined = segments.and_then(|mut all| {
            all.extend(found?);
            Ok(all)
        });
        self.gnu_segments(member, joined, more)
    }

    fn gnu_segments(
        &mut self,
        mut member: Box<Member>,
        segments: Result<Segments, MemberRefusal>,
        more: bool,
    ) -> Result<(), ArchiveFault> {
        // Extension blocks lie between header and contents: their chain must be followed, refused or not.
        let limit = self.options.limits.sparse_segments as u64;
        if more {
            if self.start - member.data_offset >= limit.saturating_mul(24) {
                return Err(ArchiveFault::Limit("sparse segments", limit));
            }
            self.state = ScanState::GnuMap { member, segments };
            return Ok(());
        }
        member.data_offset = self.start;
        let size = member.size;
        self.finish(member, Some((size, segments)))
    }

    fn contents_map(
        &mut self,
        mut member: Box<Member>,
        mut text: MapText,
        next: u64,
        bytes: &[u8],
    ) -> Result<(), ArchiveFault> {
        let found = text.push(bytes, self.options.limits.sparse_segments);
        let map_len = self.start - member.data_offset;
        let result = match found {
            Ok(Some(_)) if map_len > member.stored_size => Err(MemberRefusal::SparseMap),
            Ok(None) if self.start >= next => Err(MemberRefusal::SparseMap),
            Ok(None) => {
                self.state = ScanState::ContentsMap { member, text, next };
                return Ok(());
            }
            Ok(Some(segments)) => Ok(segments),
            Err(refusal) => Err(refusal),
        };
        if result.is_ok() {
            member.data_offset = self.start;
            member.stored_size -= map_len;
        }
        let size = member.size;
        self.finish(member, Some((size, result)))
    }

    /// The member is complete: check its map and its place, and hand it out next.
    fn finish(
        &mut self,
        mut member: Box<Member>,
        sparse: Option<(u64, Result<Segments, MemberRefusal>)>,
    ) -> Result<(), ArchiveFault> {
        if let Some((size, segments)) = sparse {
            let map = segments.and_then(|segments| sparse::complete_map(&segments, size, member.stored_size));
            match map {
                Ok(map) => {
                    member.size = size;
                    member.sparse = Some(map);
                }
                Err(refusal) => {
                    member.size = member.stored_size;
                    member.refusal = member.refusal.or(Some(refusal));
                }
            }
        }
        let end = self.end_of(&member)?;
        self.members += 1;
        if self.members > self.options.limits.members {
            return Err(ArchiveFault::Limit("members", self.options.limits.members));
        }
        self.start = end;
        self.contents_end = end;
        self.state = ScanState::Ready(member);
        Ok(())
    }

    /// Offset behind the contents, which must lie within the archive.
    fn end_of(&self, member: &Member) -> Result<u64, ArchiveFault> {
        self.contents_end_of(member.data_offset, member.stored_size)
    }

    fn contents_end_of(&self, start: u64, len: u64) -> Result<u64, ArchiveFault> {
        let expected = pad(len).and_then(|len| start.checked_add(len));
        let size = self.size.unwrap_or(i64::MAX.cast_unsigned());
        match expected {
            Some(expected) if expected <= size => Ok(expected),
            expected => Err(ArchiveFault::Truncated { expected: expected.unwrap_or(u64::MAX), size }),
        }
    }

    fn trailer(&mut self, zeros: u64, start: u64, bytes: &[u8]) -> Result<(), ArchiveFault> {
        if bytes.iter().all(|byte| *byte == 0) {
            let zeros = zeros + bytes.len() as u64;
            if zeros > self.options.limits.trailing_zeros {
                if self.options.trailing_bytes {
                    self.state = ScanState::Ended(true);
                    return Ok(());
                }
                return Err(ArchiveFault::Limit(ZEROS_AFTER_END, self.options.limits.trailing_zeros));
            }
            self.state = ScanState::Trailer { zeros };
            return Ok(());
        }
        let archive = Block::try_from(bytes).is_ok_and(|block| Header::parse(&block).is_ok());
        let end = match zeros {
            BLOCK => ArchiveFault::LoneZeroBlock,
            _ if archive && self.options.concatenated => {
                self.globals.clear();
                return self.header(start, bytes);
            }
            _ => ArchiveFault::DataAfterEnd { archive },
        };
        if !self.options.trailing_bytes {
            return Err(end);
        }
        self.state = ScanState::Ended(true);
        Ok(())
    }

    fn take_member(&mut self) -> ScanStep {
        match std::mem::replace(&mut self.state, ScanState::Header) {
            ScanState::Ready(member) => ScanStep::Member(member),
            _ => unreachable!("the caller checked the state"),
        }
    }

    fn summary(&self, end_mark: bool) -> ScanSummary {
        ScanSummary {
            members: self.members,
            contents_end: self.contents_end,
            size: self.size.unwrap_or(self.start),
            end_mark,
        }
    }
}
