//! Options and results of a scan.

use crate::member::Member;

/// Bounds of what an archive may ask of memory and time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchiveLimits {
    /// Most bytes of one extension header (PAX records or a GNU long name). 1 MiB, as in GNU tar and bsdtar.
    pub extension: u64,
    /// Segments in the map of a sparse file. One segment costs 16 bytes of memory.
    pub sparse_segments: usize,
    /// Members of an archive. HPSS archives have tens of millions.
    pub members: u64,
    /// Zero bytes after the end mark. Tapes pad to records, of at most some MiB.
    pub trailing_zeros: u64,
}

impl Default for ArchiveLimits {
    fn default() -> Self {
        Self { extension: 1 << 20, sparse_segments: 1 << 16, members: 50_000_000, trailing_zeros: 16 << 20 }
    }
}

/// Tolerance of a reader beyond the strict rules, and its bounds. The default tolerates nothing.
#[expect(clippy::struct_excessive_bools, reason = "independent tolerances, each named by the user")]
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReadOptions {
    /// Prefer the size in a PAX record to a different one in the header, as POSIX says.
    pub lenient_sizes: bool,
    /// Accept an archive that ends after a member without end mark.
    pub missing_end: bool,
    /// Go on after an end mark with the archive that follows it.
    pub concatenated: bool,
    /// Leave out the bytes that follow an end mark and are no archive that is read.
    pub trailing_bytes: bool,
    /// Bounds.
    pub limits: ArchiveLimits,
}

/// The next action of a scan.
#[derive(Debug, PartialEq, Eq)]
pub enum ScanStep {
    /// The scanner needs `len` bytes at `offset`. Hand them, or a part of them, to
    /// [`Scanner::supply`](super::Scanner::supply).
    Need {
        /// Offset in the archive.
        offset: u64,
        /// Number of bytes.
        len: usize,
    },
    /// The next member. The bytes requested after it begin behind its contents.
    Member(Box<Member>),
    /// The end of the archive.
    End(ScanSummary),
}

/// The end of a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScanSummary {
    /// Members returned.
    pub members: u64,
    /// Bytes of the archive up to the end of its last member; the end mark begins here.
    pub contents_end: u64,
    /// Size of the archive.
    pub size: u64,
    /// True when the archive ended with an end mark.
    pub end_mark: bool,
}

/// A place between two members at which a scan can start again.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Checkpoint {
    /// Offset of the next header.
    pub offset: u64,
    /// Records of global headers in force.
    pub globals: Vec<(String, Vec<u8>)>,
}
