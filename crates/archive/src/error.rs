//! Reasons to refuse a whole archive: the place of the next header is in doubt, or a limit is reached.

use std::fmt;

/// Reading stops here. Members before `offset` are sound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchiveError {
    /// Offset of the header or block that is refused.
    pub offset: u64,
    /// The fault.
    pub fault: ArchiveFault,
}

/// A fault of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ArchiveFault {
    /// The first block is not a tar header. Holds the name of the format that its first bytes suggest.
    NotTar(Option<&'static str>),
    /// A block that should be a header fails its checksum, or has no known magic.
    Header,
    /// The size field is missing or is not a number that all readers understand alike.
    Size,
    /// The PAX record and the header state different sizes.
    SizeConflict {
        /// Size in the header.
        header: u64,
        /// Size in the PAX record.
        pax: u64,
    },
    /// A link, folder, device or FIFO states a size, and what follows it is no header: some readers skip contents here,
    /// others do not.
    SizeOfNonFile {
        /// Type flag of the member.
        flag: u8,
        /// The size.
        size: u64,
    },
    /// A PAX extended header is malformed.
    Pax(&'static str),
    /// A global PAX header sets a name, a size or a sparse map for all later members.
    GlobalRecord(String),
    /// An extension header is repeated or comes out of order.
    Order(u8),
    /// An extension header of a kind that changes how later blocks are read, and is not supported.
    Extension(u8),
    /// Extension headers are followed by the end of the archive instead of a member.
    Dangling,
    /// The archive ends inside a header or inside contents.
    Truncated {
        /// Offset up to which there should be bytes.
        expected: u64,
        /// Size of the archive.
        size: u64,
    },
    /// The archive ends without a block of zeros: it may be cut off after a member.
    MissingEnd,
    /// One block of zeros is followed by other bytes: some readers stop here, others continue.
    LoneZeroBlock,
    /// Bytes other than zero follow the end mark.
    DataAfterEnd {
        /// True when they begin with a header.
        archive: bool,
    },
    /// A limit is reached. Names the limit and its value.
    Limit(&'static str, u64),
}

impl ArchiveError {
    pub(crate) fn new(offset: u64, fault: ArchiveFault) -> Self {
        Self { offset, fault }
    }
}

impl fmt::Display for ArchiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (at byte {} of the archive)", self.fault, self.offset)
    }
}

impl std::error::Error for ArchiveError {}

impl fmt::Display for ArchiveFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotTar(Some(format)) => write!(f, "the file is not a tar archive but looks like {format}"),
            Self::NotTar(None) => f.write_str("the file is not a tar archive"),
            Self::Header => f.write_str("a header is damaged: its checksum or magic is wrong"),
            Self::Size => f.write_str("the size of a member is not a valid number"),
            Self::SizeConflict { header, pax } => {
                write!(f, "a member has two sizes: {header} in its header and {pax} in its PAX record")
            }
            Self::SizeOfNonFile { flag, size } => {
                write!(f, "a member of type {} states {size} bytes of contents, which it cannot have", flag_name(*flag))
            }
            Self::Pax(cause) => write!(f, "a PAX header is malformed: {cause}"),
            Self::GlobalRecord(key) => write!(f, "a global PAX header sets {key} for all later members"),
            Self::Order(flag) => {
                write!(f, "an extension header of type {} is repeated or out of order", flag_name(*flag))
            }
            Self::Extension(flag) => write!(f, "extension headers of type {} are not supported", flag_name(*flag)),
            Self::Dangling => f.write_str("extension headers at the end belong to no member"),
            Self::Truncated { expected, size } => {
                write!(f, "the archive is truncated: it has {size} bytes and should have at least {expected}")
            }
            Self::MissingEnd => f.write_str("the archive has no end mark and may be truncated"),
            Self::LoneZeroBlock => f.write_str("one block of zeros is followed by other bytes"),
            Self::DataAfterEnd { archive: true } => f.write_str("another archive follows the end mark"),
            Self::DataAfterEnd { archive: false } => f.write_str("other bytes than an archive follow the end mark"),
            Self::Limit(limit, value) => write!(f, "the archive exceeds the limit {limit} of {value}"),
        }
    }
}

fn flag_name(flag: u8) -> String {
    format!("'{}'", flag.escape_ascii())
}
