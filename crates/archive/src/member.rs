//! One member of an archive, as the headers describe it.

use crate::refusal::MemberRefusal;

/// Kind of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MemberKind {
    /// Regular file, also a sparse one.
    File,
    /// Directory.
    Directory,
    /// Hard link to an earlier member.
    HardLink,
    /// Symbolic link.
    SymbolicLink,
    /// Character device.
    CharacterDevice,
    /// Block device.
    BlockDevice,
    /// FIFO.
    Fifo,
    /// Any other type flag.
    Other(u8),
}

/// Data segments of a sparse file: offset in the file and length, ascending, without overlap. Holes read as zeros.
///
/// **Invariant**: the lengths add up to the stored size of the member, and the last segment ends within its size.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SparseMap(pub Vec<(u64, u64)>);

/// A member and the place of its bytes.
///
/// **Invariant**: `header_offset + 512 <= data_offset`, `data_offset + stored_size` lies within the archive where its
/// size is known, and members of one archive never overlap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Name as the archive has it, not yet checked as a path. [`MemberPath`](crate::MemberPath) does that.
    pub name: Vec<u8>,
    /// Kind.
    pub kind: MemberKind,
    /// Target of a link; empty for all other kinds.
    pub link: Vec<u8>,
    /// Offset of the first header that belongs to the member, extension headers included. Reading may start again here.
    pub header_offset: u64,
    /// Offset of the first byte of contents.
    pub data_offset: u64,
    /// Bytes of contents in the archive.
    pub stored_size: u64,
    /// Bytes of the file. Differs from `stored_size` for sparse files only.
    pub size: u64,
    /// Segments of a sparse file.
    pub sparse: Option<SparseMap>,
    /// Permission bits, with the set-id and sticky bits.
    pub mode: u32,
    /// Owner.
    pub uid: u64,
    /// Group.
    pub gid: u64,
    /// Name of the owner.
    pub user: Vec<u8>,
    /// Name of the group.
    pub group: Vec<u8>,
    /// Modification time, seconds since 1970.
    pub mtime: i64,
    /// Nanoseconds to add to `mtime`.
    pub mtime_nanos: u32,
    /// PAX records that have no field here, for example `SEQFERRY.*` and `SCHILY.xattr.*`; and the time, where it is
    /// not in the headers of the member but in a global one.
    pub records: Vec<(String, Vec<u8>)>,
    /// Reason in the headers to refuse the member. [`MemberTree::admit`](crate::MemberTree::admit) adds the reasons in
    /// its path.
    pub refusal: Option<MemberRefusal>,
}

impl Member {
    /// Permission bits without set-id and sticky bits.
    pub fn safe_mode(&self) -> u32 {
        self.mode & 0o777
    }

    /// True when a global header gives the time, and the headers of the member another one or none.
    pub fn has_global_time(&self) -> bool {
        self.records.iter().any(|(key, _)| key == "mtime")
    }

    /// Name for messages: invalid UTF-8 and control characters are escaped.
    pub fn display_name(&self) -> String {
        match std::str::from_utf8(&self.name) {
            Ok(name) if !name.chars().any(char::is_control) => name.to_owned(),
            _ => self.name.escape_ascii().to_string(),
        }
    }

    /// Offset of the header that follows the contents. None when the sum leaves the range of offsets.
    pub fn end_offset(&self) -> Option<u64> {
        self.data_offset.checked_add(self.stored_size)?.checked_next_multiple_of(crate::BLOCK)
    }
}

/// Part of the contents of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemberPiece {
    /// Bytes of the archive.
    Stored {
        /// Offset in the archive.
        offset: u64,
        /// Number of bytes.
        len: u64,
    },
    /// Zeros: a hole of a sparse file.
    Zeros(u64),
}

/// The pieces that `len` bytes from `offset` on of a file consist of, cut at its end. The contents of the file begin at
/// `data_offset` of the archive; `segments` is the map of a sparse file of `size` bytes.
pub fn pieces(data_offset: u64, size: u64, segments: Option<&[(u64, u64)]>, offset: u64, len: u64) -> Vec<MemberPiece> {
    let end = size.min(offset.saturating_add(len));
    if offset >= end {
        return Vec::new();
    }
    let Some(segments) = segments else {
        return vec![MemberPiece::Stored { offset: data_offset + offset, len: end - offset }];
    };
    let (mut pieces, mut at, mut stored) = (Vec::new(), offset, data_offset);
    for (start, length) in segments {
        let segment_end = start + length;
        if at < end && segment_end > at {
            if *start > at {
                let hole = end.min(*start) - at;
                pieces.push(MemberPiece::Zeros(hole));
                at += hole;
            }
            if at < end && at >= *start {
                let len = end.min(segment_end) - at;
                if len > 0 {
                    pieces.push(MemberPiece::Stored { offset: stored + (at - start), len });
                }
                at += len;
            }
        }
        stored += length;
    }
    if at < end {
        pieces.push(MemberPiece::Zeros(end - at));
    }
    pieces
}
