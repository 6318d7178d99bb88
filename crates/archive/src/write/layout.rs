//! The place of every byte of an archive, known before a byte of contents is read.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use crate::block::{BLOCK, pad, padding};
use crate::path::MemberPath;
use crate::refusal::MemberRefusal;
use crate::tree::{LinkPolicy, MemberTree, TreePolicy};
use crate::write::{ArchiveEntry, EntryKind};

/// Two blocks of zeros close an archive.
const END: u64 = 2 * BLOCK;

/// Offsets of one member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placement {
    /// First byte of its headers.
    pub header: u64,
    /// First byte of its contents.
    pub data: u64,
}

/// A range of an archive by its origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArchivePiece {
    /// Header bytes.
    Header(Vec<u8>),
    /// Contents of the member with this ordinal.
    Contents {
        /// Ordinal.
        member: usize,
        /// Bytes of the member.
        range: Range<u64>,
    },
    /// Number of zeros: padding, or the end mark.
    Zeros(u64),
}

impl ArchivePiece {
    /// Bytes of the archive.
    pub fn size(&self) -> u64 {
        match self {
            Self::Header(bytes) => bytes.len() as u64,
            Self::Contents { range, .. } => range.end - range.start,
            Self::Zeros(size) => *size,
        }
    }
}

/// An archive cannot be planned.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum LayoutError {
    /// An entry cannot be a member of this archive.
    ArchiveEntry {
        /// Ordinal.
        member: usize,
        /// Name.
        name: String,
        /// Reason.
        refusal: MemberRefusal,
    },
    /// A record of an entry is not valid, or is one that the writer itself sets.
    Record {
        /// Ordinal.
        member: usize,
        /// Key of the record.
        key: String,
    },
    /// The archive would be longer than any offset.
    TooLarge,
    /// An upload of the archive needs more parts than the service takes.
    TooManyParts {
        /// Fewest parts that were found.
        parts: u64,
        /// Most parts that the service takes.
        maximum: u64,
    },
    /// A hard link and its file fall into two shards.
    LinkAcrossShards {
        /// Ordinal of the link.
        member: usize,
    },
}

impl fmt::Display for LayoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ArchiveEntry { member, name, refusal } => {
                write!(f, "{name:?} cannot be member {member} of the archive: {refusal}")
            }
            Self::Record { member, key } => write!(f, "member {member} has an invalid PAX record {key:?}"),
            Self::TooLarge => f.write_str("the archive is too large for a tar; split it into shards"),
            Self::TooManyParts { parts, maximum } => write!(
                f,
                "the upload needs at least {parts} parts and the service takes {maximum}; split the archive into shards"
            ),
            Self::LinkAcrossShards { member } => {
                write!(
                    f,
                    "member {member} is a hard link to a file of another shard; use larger shards or copy the file"
                )
            }
        }
    }
}

impl std::error::Error for LayoutError {}

/// An archive before it is written. See [`write`](crate::write) for what its bytes depend on.
///
/// # Examples
///
/// ```
/// use seqferry_archive::write::{ArchiveEntry, Layout, ArchivePiece};
///
/// let entries = [ArchiveEntry::file("a", 600), ArchiveEntry::file("b", 1)];
/// let layout = Layout::plan(&entries)?;
/// assert_eq!((layout.placement(1).header, layout.placement(1).data), (1536, 2048));
/// assert_eq!(layout.total(), 2048 + 512 + 1024);
/// // Any range can be assembled by itself, for example as one part of an upload.
/// let pieces: Vec<ArchivePiece> = layout.pieces(1000..1100).collect();
/// assert_eq!(pieces, [ArchivePiece::Contents { member: 0, range: 488..588 }]);
/// # Ok::<(), seqferry_archive::write::LayoutError>(())
/// ```
#[derive(Debug)]
pub struct Layout<'a> {
    entries: Cow<'a, [ArchiveEntry]>,
    placements: Vec<Placement>,
    contents_end: u64,
}

impl<'a> Layout<'a> {
    /// Place all entries in their order. A layout of a `Vec` owns them.
    ///
    /// # Errors
    /// When two entries collide, when a name is not a normalised relative path, or when the sum exceeds all offsets.
    pub fn plan(entries: impl Into<Cow<'a, [ArchiveEntry]>>) -> Result<Self, LayoutError> {
        let entries = entries.into();
        check_entries(&entries)?;
        let mut placements = Vec::with_capacity(entries.len());
        let mut offset = 0u64;
        for entry in entries.iter() {
            let data = offset.checked_add(entry.header_len()).ok_or(LayoutError::TooLarge)?;
            placements.push(Placement { header: offset, data });
            let end = pad(entry.size()).and_then(|len| data.checked_add(len));
            // Base-256 sizes and offsets of all readers are signed.
            offset = end.filter(|end| *end < i64::MAX.cast_unsigned() - END).ok_or(LayoutError::TooLarge)?;
        }
        Ok(Self { entries, placements, contents_end: offset })
    }

    /// The entries.
    pub fn entries(&self) -> &[ArchiveEntry] {
        &self.entries
    }

    /// The place of a member.
    pub fn placement(&self, member: usize) -> Placement {
        self.placements[member]
    }

    /// Bytes of the archive.
    pub fn total(&self) -> u64 {
        self.contents_end + END
    }

    /// The pieces that make up a range of the archive, in order. Bytes beyond its end are left out.
    pub fn pieces(&self, range: Range<u64>) -> impl Iterator<Item = ArchivePiece> {
        let end = range.end.min(self.total());
        let mut at = range.start;
        std::iter::from_fn(move || {
            (at < end).then(|| {
                let (piece, len) = self.piece(at, end);
                at += len;
                piece
            })
        })
    }

    fn piece(&self, at: u64, end: u64) -> (ArchivePiece, u64) {
        let member = self.placements.partition_point(|placement| placement.header <= at).wrapping_sub(1);
        if at >= self.contents_end {
            return (ArchivePiece::Zeros(end - at), end - at);
        }
        let (entry, placement) = (&self.entries[member], self.placements[member]);
        let contents_end = placement.data + entry.size();
        if at < placement.data {
            let header = entry.header_bytes();
            let until = end.min(placement.data);
            let slice = |offset: u64| usize::try_from(offset - placement.header).unwrap_or(header.len());
            return (ArchivePiece::Header(header[slice(at)..slice(until)].to_vec()), until - at);
        }
        if at < contents_end {
            let until = end.min(contents_end);
            return (ArchivePiece::Contents { member, range: at - placement.data..until - placement.data }, until - at);
        }
        let until = end.min(contents_end + padding(entry.size()));
        (ArchivePiece::Zeros(until - at), until - at)
    }

    /// The whole archive in memory. `contents` returns the bytes of each member. For small archives and tests.
    ///
    /// # Panics
    /// When contents do not have the size of their entry.
    pub fn assemble(&self, mut contents: impl FnMut(usize) -> Vec<u8>) -> Vec<u8> {
        let mut tar = Vec::new();
        for piece in self.pieces(0..self.total()) {
            match piece {
                ArchivePiece::Header(bytes) => tar.extend_from_slice(&bytes),
                ArchivePiece::Zeros(len) => tar.resize(tar.len() + usize::try_from(len).expect("fits memory"), 0),
                ArchivePiece::Contents { member, range } => {
                    let bytes = contents(member);
                    assert_eq!(bytes.len() as u64, range.end, "member {member} has another size than its entry");
                    tar.extend_from_slice(&bytes);
                }
            }
        }
        tar
    }
}

/// Keys that follow from the fields of an entry.
const OWN_KEYS: [&str; 11] =
    ["path", "linkpath", "size", "hdrcharset", "mtime", "uid", "gid", "uname", "gname", "atime", "ctime"];

fn check_entries(entries: &[ArchiveEntry]) -> Result<(), LayoutError> {
    let mut tree = MemberTree::new(TreePolicy { links: LinkPolicy::All, ..TreePolicy::default() });
    for (at, entry) in entries.iter().enumerate() {
        let refuse = |refusal| LayoutError::ArchiveEntry {
            member: at,
            name: String::from_utf8_lossy(&entry.name).into_owned(),
            refusal,
        };
        let bare = if entry.kind == EntryKind::Directory {
            entry.name.strip_suffix(b"/").unwrap_or(&entry.name)
        } else {
            &entry.name
        };
        let path = MemberPath::new(&entry.name).map_err(refuse)?;
        if path.as_bytes() != bare {
            return Err(refuse(MemberRefusal::AmbiguousName));
        }
        if let EntryKind::SymbolicLink(target) | EntryKind::HardLink(target) = &entry.kind
            && target.contains(&0)
        {
            return Err(refuse(MemberRefusal::NulInName));
        }
        if entry.mtime_nanos > 999_999_999 {
            return Err(refuse(MemberRefusal::MalformedField));
        }
        tree.admit(at as u64, &entry.member()).map_err(refuse)?;
        check_records(at, entry)?;
    }
    Ok(())
}

fn check_records(member: usize, entry: &ArchiveEntry) -> Result<(), LayoutError> {
    let mut keys: Vec<&str> = entry.records.iter().map(|(key, _)| key.as_str()).collect();
    keys.sort_unstable();
    let repeated = keys.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0]);
    let wrong = |key: &&str| {
        key.is_empty() || key.contains(['=', '\0', '\n']) || OWN_KEYS.contains(key) || key.starts_with("GNU.sparse.")
    };
    let empty = || entry.records.iter().find(|(_, value)| value.is_empty()).map(|(key, _)| key.as_str());
    match repeated.or_else(|| keys.iter().copied().find(|key| wrong(key))).or_else(empty) {
        Some(key) => Err(LayoutError::Record { member, key: key.to_owned() }),
        None => Ok(()),
    }
}
