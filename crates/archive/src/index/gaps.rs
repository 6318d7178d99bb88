//! The bytes of a tar that its index says nothing about: they must hold no member.
//!
//! Global headers, labels of volumes and end marks belong to no member, so that a whole index may leave gaps. A header
//! of a member in a gap shows that lines of the index are missing.

use super::format::IndexMember;
use super::read::{IndexError, IndexFault};
use crate::error::ArchiveError;
use crate::member::Member;
use crate::scan::{Checkpoint, ReadOptions, ScanStep, Scanner};

/// Bytes of a tar between the members of its index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// Offset of the first byte.
    pub start: u64,
    /// Offset of the headers of the next member that the index lists; None behind the last one.
    pub next: Option<u64>,
}

/// Finds the gaps of an index whose lines come one by one.
#[derive(Debug, Default)]
pub struct Gaps {
    end: u64,
}

impl Gaps {
    /// The gap before the next member, if there is one.
    pub fn before(&mut self, entry: &IndexMember) -> Option<Gap> {
        let (start, next) = (self.end, entry.member.header_offset);
        self.end = entry.member.end_offset().unwrap_or(u64::MAX);
        (start != next).then_some(Gap { start, next: Some(next) })
    }

    /// The gap behind the last member: the end mark lies there.
    pub fn last(self) -> Gap {
        Gap { start: self.end, next: None }
    }
}

/// The next action of a look into a gap.
#[derive(Debug, PartialEq, Eq)]
pub enum GapStep {
    /// It needs bytes at `offset`, as [`Scanner`] does.
    Need {
        /// Offset in the archive.
        offset: u64,
    },
    /// No member lies in the gap.
    Empty,
}

/// A look into a gap.
#[derive(Debug)]
pub struct GapCheck {
    gap: Gap,
    scanner: Scanner,
}

/// Reason why a gap may hold something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GapFault {
    /// The archive is refused there.
    Archive(ArchiveError),
    /// A member of the archive is missing in the index.
    Index(IndexError),
}

impl GapCheck {
    /// Look into a gap of an archive of `size` bytes.
    pub fn new(gap: Gap, size: u64, options: &ReadOptions) -> Self {
        let checkpoint = Checkpoint { offset: gap.start, globals: Vec::new() };
        Self { gap, scanner: Scanner::resume(Some(size), options.clone(), checkpoint) }
    }

    /// The next action.
    ///
    /// # Errors
    /// When a member lies in the gap, or something that no archive may have there.
    pub fn step(&mut self) -> Result<GapStep, GapFault> {
        match self.scanner.step().map_err(GapFault::Archive)? {
            ScanStep::Need { offset, .. } => Ok(GapStep::Need { offset }),
            ScanStep::Member(member) if self.gap.next == Some(member.header_offset) => Ok(GapStep::Empty),
            ScanStep::Member(member) => Err(unlisted_fault(&member)),
            ScanStep::End(_) => match self.gap.next {
                None => Ok(GapStep::Empty),
                Some(next) => {
                    let fault = IndexFault::Foreign(format!("member at byte {next}"));
                    Err(GapFault::Index(IndexError { line: None, fault }))
                }
            },
        }
    }

    /// Give bytes of the archive that begin at `offset`; no bytes where the archive ends.
    pub fn supply(&mut self, offset: u64, bytes: &[u8]) {
        if bytes.is_empty() {
            self.scanner.end_of_input(offset);
        } else {
            self.scanner.supply(offset, bytes);
        }
    }
}

fn unlisted_fault(member: &Member) -> GapFault {
    let fault = IndexFault::Unlisted { name: member.display_name(), offset: member.header_offset };
    GapFault::Index(IndexError { line: None, fault })
}
