//! One header block: fields, magic and checksum. Extension records are applied by [`prelude`](crate::prelude).

use crate::block::BLOCK_LEN;
use crate::error::ArchiveFault;
use crate::member::MemberKind;
use crate::number;
use crate::refusal::MemberRefusal;

/// A header block.
pub(crate) type Block = [u8; BLOCK_LEN];

/// The variants of the format that differ in how a header block is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TarDialect {
    /// Format before POSIX, without a prefix field.
    V7,
    /// POSIX.
    Ustar,
    /// GNU, with times and a sparse map where POSIX has the prefix.
    Gnu,
}

#[derive(Debug, Clone)]
pub(crate) struct Header {
    pub(crate) dialect: TarDialect,
    pub(crate) flag: u8,
    pub(crate) name: Vec<u8>,
    pub(crate) link: Vec<u8>,
    pub(crate) size: u64,
    pub(crate) mode: u32,
    pub(crate) uid: u64,
    pub(crate) gid: u64,
    pub(crate) mtime: i64,
    pub(crate) user: Vec<u8>,
    pub(crate) group: Vec<u8>,
    /// First reason to refuse the member.
    pub(crate) refusal: Option<MemberRefusal>,
}

impl Header {
    pub(crate) fn parse(block: &Block) -> Result<Self, ArchiveFault> {
        if !checksum_matches(block) {
            return Err(ArchiveFault::Header);
        }
        let dialect = match (&block[257..263], &block[263..265]) {
            (b"ustar\0", _) => TarDialect::Ustar,
            (b"ustar ", b" \0") => TarDialect::Gnu,
            (b"\0\0\0\0\0\0", b"\0\0") => TarDialect::V7,
            _ => return Err(ArchiveFault::Header),
        };
        let size = match number::parse(&block[124..136]) {
            // GNU tar leaves the size of a label blank, old writers that of what has no contents.
            Ok(None) if matches!(block[156], b'V' | b'1'..=b'6') => Some(0),
            size => size.ok().flatten().and_then(|size| u64::try_from(size).ok()),
        };
        let mut refusal = None;
        let (mut name, clean_name) = text(&block[..100]);
        let (link, clean_link) = text(&block[157..257]);
        if !clean_name || !clean_link {
            refusal = Some(MemberRefusal::NulInName);
        }
        let (prefix, _) = text(&block[345..500]);
        match dialect {
            TarDialect::Ustar if !prefix.is_empty() => name = [prefix.as_slice(), b"/", &name].concat(),
            // Python takes the prefix where there is no magic; GNU tar and bsdtar do not.
            TarDialect::V7 if !prefix.is_empty() => refusal = refusal.or(Some(MemberRefusal::AmbiguousName)),
            _ => {}
        }
        let mut numeric = |field: &[u8]| {
            let value = number::parse(field);
            if value.is_err() {
                refusal = refusal.or(Some(MemberRefusal::MalformedField));
            }
            value.ok().flatten().unwrap_or_default()
        };
        let (mode, uid, gid) = (numeric(&block[100..108]), numeric(&block[108..116]), numeric(&block[116..124]));
        let mtime = numeric(&block[136..148]);
        let unsigned = |value: i64| u64::try_from(value);
        if u32::try_from(mode).is_err() || unsigned(uid).is_err() || unsigned(gid).is_err() {
            refusal = refusal.or(Some(MemberRefusal::MalformedField));
        }
        Ok(Self {
            dialect,
            flag: block[156],
            name,
            link,
            size: size.ok_or(ArchiveFault::Size)?,
            mode: u32::try_from(mode).unwrap_or(0) & 0o7777,
            uid: unsigned(uid).unwrap_or(0),
            gid: unsigned(gid).unwrap_or(0),
            mtime,
            user: text(&block[265..297]).0,
            group: text(&block[297..329]).0,
            refusal,
        })
    }

    pub(crate) fn kind(&self) -> MemberKind {
        match self.flag {
            // Before POSIX a directory was a file whose name ends with a slash.
            0 if self.name.ends_with(b"/") => MemberKind::Directory,
            0 | b'0' | b'7' | b'S' => MemberKind::File,
            b'1' => MemberKind::HardLink,
            b'2' => MemberKind::SymbolicLink,
            b'3' => MemberKind::CharacterDevice,
            b'4' => MemberKind::BlockDevice,
            // A directory of an incremental archive of GNU tar; its contents are the names of its files.
            b'5' | b'D' => MemberKind::Directory,
            b'6' => MemberKind::Fifo,
            other => MemberKind::Other(other),
        }
    }
}

/// The text of a field up to its first NUL, and whether only NULs follow.
fn text(field: &[u8]) -> (Vec<u8>, bool) {
    let len = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
    (field[..len].to_vec(), field[len..].iter().all(|byte| *byte == 0))
}

/// True when the checksum field is the sum of all bytes, with itself taken as spaces. Some old writers added signed
/// bytes; all readers accept both.
fn checksum_matches(block: &Block) -> bool {
    let Ok(Some(expected)) = number::parse(&block[148..156]) else { return false };
    let bytes = || block[..148].iter().chain(&[b' '; 8]).chain(&block[156..]);
    let unsigned: i64 = bytes().map(|byte| i64::from(*byte)).sum();
    expected == unsigned || expected == bytes().map(|byte| i64::from(byte.cast_signed())).sum::<i64>()
}

/// Fill in the checksum of a header.
pub(crate) fn seal(block: &mut Block) {
    block[148..156].fill(b' ');
    let sum: u64 = block.iter().map(|byte| u64::from(*byte)).sum();
    number::write(&mut block[148..155], sum);
}

/// The format that the first bytes of a file suggest, where it is one that arrives under the name of a tar.
pub(crate) fn other_format(block: &[u8]) -> Option<&'static str> {
    let magics: [(&[u8], &str); 7] = [
        (b"\x1f\x8b", "gzip"),
        (b"\x28\xb5\x2f\xfd", "zstd"),
        (b"BZh", "bzip2"),
        (b"\xfd7zXZ\0", "xz"),
        (b"PK\x03\x04", "zip"),
        (b"\x04\x22\x4d\x18", "lz4"),
        (b"7z\xbc\xaf\x27\x1c", "7-Zip"),
    ];
    magics.iter().find(|(magic, _)| block.starts_with(magic)).map(|(_, format)| *format)
}
