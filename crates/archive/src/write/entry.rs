//! A member to write, and its header bytes.

use crate::block::BLOCK_LEN;
use crate::header::{Block, seal};
use crate::member::{Member, MemberKind};
use crate::{number, pax};

/// Largest number in the eleven octal digits of a size or time.
const OCTAL_11: u64 = 0o77_777_777_777;

/// Kind of an entry.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum EntryKind {
    /// Regular file with this many bytes.
    File(u64),
    /// Directory.
    Directory,
    /// Symbolic link with its target.
    SymbolicLink(Vec<u8>),
    /// Hard link to an earlier entry, by its name.
    HardLink(Vec<u8>),
}

/// A member to write. Owner and group are always 0.
///
/// # Examples
///
/// ```
/// use seqferry_archive::write::ArchiveEntry;
///
/// let mut entry = ArchiveEntry::file("run42/sample.bam", 12 << 30);
/// entry.mtime = 1_700_000_000;
/// // More than 8 GiB: one PAX header and its record come before the header proper.
/// assert_eq!(entry.header_bytes().len(), 3 * 512);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ArchiveEntry {
    /// Relative path. A directory gets its last slash by itself.
    pub name: Vec<u8>,
    /// Kind.
    pub kind: EntryKind,
    /// Permission bits.
    pub mode: u32,
    /// Modification time, seconds since 1970.
    pub mtime: i64,
    /// Nanoseconds to add; written as PAX record unless 0.
    pub mtime_nanos: u32,
    /// Further PAX records, for example `SEQFERRY.etag`. Written in the order of their keys.
    pub records: Vec<(String, Vec<u8>)>,
}

impl ArchiveEntry {
    /// A regular file: mode 0644, time 0.
    pub fn file(name: impl Into<Vec<u8>>, size: u64) -> Self {
        Self::new(name.into(), EntryKind::File(size), 0o644)
    }

    /// A directory: mode 0755, time 0.
    pub fn directory(name: impl Into<Vec<u8>>) -> Self {
        Self::new(name.into(), EntryKind::Directory, 0o755)
    }

    /// A symbolic link.
    pub fn symbolic_link(name: impl Into<Vec<u8>>, target: impl Into<Vec<u8>>) -> Self {
        Self::new(name.into(), EntryKind::SymbolicLink(target.into()), 0o777)
    }

    /// A hard link to the entry `target`. Give it the mode and time of its file, since some readers apply those of a
    /// link.
    pub fn hard_link(name: impl Into<Vec<u8>>, target: impl Into<Vec<u8>>) -> Self {
        Self::new(name.into(), EntryKind::HardLink(target.into()), 0o644)
    }

    fn new(name: Vec<u8>, kind: EntryKind, mode: u32) -> Self {
        Self { name, kind, mode, mtime: 0, mtime_nanos: 0, records: Vec::new() }
    }

    /// Bytes of contents.
    pub fn size(&self) -> u64 {
        if let EntryKind::File(size) = self.kind { size } else { 0 }
    }

    fn link(&self) -> &[u8] {
        match &self.kind {
            EntryKind::SymbolicLink(target) | EntryKind::HardLink(target) => target,
            EntryKind::File(_) | EntryKind::Directory => b"",
        }
    }

    fn full_name(&self) -> Vec<u8> {
        let mut name = self.name.clone();
        if self.kind == EntryKind::Directory && !name.ends_with(b"/") {
            name.push(b'/');
        }
        name
    }

    /// The member that a reader finds, without a place.
    pub fn member(&self) -> Member {
        Member {
            name: self.full_name(),
            kind: match self.kind {
                EntryKind::File(_) => MemberKind::File,
                EntryKind::Directory => MemberKind::Directory,
                EntryKind::SymbolicLink(_) => MemberKind::SymbolicLink,
                EntryKind::HardLink(_) => MemberKind::HardLink,
            },
            link: self.link().to_vec(),
            header_offset: 0,
            data_offset: 0,
            stored_size: self.size(),
            size: self.size(),
            sparse: None,
            mode: self.mode & 0o7777,
            uid: 0,
            gid: 0,
            user: Vec::new(),
            group: Vec::new(),
            mtime: self.mtime,
            mtime_nanos: self.mtime_nanos,
            records: self.records.clone(),
            refusal: None,
        }
    }

    /// Length of [`header_bytes`](Self::header_bytes).
    pub fn header_len(&self) -> u64 {
        let body = pax::encode(self.pax_records().iter().map(|(key, value)| (key.as_str(), value.as_slice()))).len();
        let blocks = if body == 0 { 1 } else { 2 + body.div_ceil(BLOCK_LEN) };
        (blocks * BLOCK_LEN) as u64
    }

    /// All header blocks: the PAX header where one is needed, then the ustar header.
    pub fn header_bytes(&self) -> Vec<u8> {
        let name = self.full_name();
        let records = self.pax_records();
        let mut bytes = Vec::with_capacity(BLOCK_LEN);
        if !records.is_empty() {
            let body = pax::encode(records.iter().map(|(key, value)| (key.as_str(), value.as_slice())));
            let title = [b"PaxHeaders/".as_slice(), &ascii(&name, 80)].concat();
            bytes.extend_from_slice(&ustar(&title, b"", b'x', body.len() as u64, 0o644, 0));
            bytes.extend_from_slice(&body);
            bytes.resize(bytes.len().next_multiple_of(BLOCK_LEN), 0);
        }
        let flag = match self.kind {
            EntryKind::File(_) => b'0',
            EntryKind::HardLink(_) => b'1',
            EntryKind::SymbolicLink(_) => b'2',
            EntryKind::Directory => b'5',
        };
        let mtime = u64::try_from(self.mtime).unwrap_or(0).min(OCTAL_11);
        bytes.extend_from_slice(&ustar(&name, self.link(), flag, self.size(), self.mode, mtime));
        bytes
    }

    /// Records for the values that ustar cannot hold, with the caller's, in the order of their keys.
    fn pax_records(&self) -> Vec<(String, Vec<u8>)> {
        let mut records = self.records.clone();
        let name = self.full_name();
        let mut add = |key: &str, value: Vec<u8>| records.push((key.to_owned(), value));
        if !name.is_ascii() || split_name(&name).is_none() {
            add("path", name.clone());
        }
        if !self.link().is_ascii() || self.link().len() > 100 {
            add("linkpath", self.link().to_vec());
        }
        if std::str::from_utf8(&name).is_err() || std::str::from_utf8(self.link()).is_err() {
            add("hdrcharset", b"BINARY".to_vec());
        }
        if self.size() > OCTAL_11 {
            add("size", self.size().to_string().into_bytes());
        }
        if self.mtime_nanos != 0 || !u64::try_from(self.mtime).is_ok_and(|seconds| seconds <= OCTAL_11) {
            add("mtime", decimal_time(self.mtime, self.mtime_nanos).into_bytes());
        }
        records.sort();
        records
    }
}

fn decimal_time(seconds: i64, nanos: u32) -> String {
    let (sign, seconds, nanos) = match (seconds < 0, nanos) {
        (true, 0) => ("-", seconds.unsigned_abs(), 0),
        (true, nanos) => ("-", seconds.unsigned_abs() - 1, 1_000_000_000 - nanos),
        (false, nanos) => ("", seconds.unsigned_abs(), nanos),
    };
    let fraction = format!("{nanos:09}");
    let text = format!("{sign}{seconds}.{}", fraction.trim_end_matches('0'));
    text.trim_end_matches('.').to_owned()
}

/// Name and prefix as ustar holds them; None where they do not fit. The prefix is as short as possible.
fn split_name(name: &[u8]) -> Option<(&[u8], &[u8])> {
    if name.len() <= 100 {
        return Some((name, b""));
    }
    let earliest = name.len() - 101;
    let at = (earliest..name.len() - 1).find(|at| name[*at] == b'/').filter(|at| (1..=155).contains(at))?;
    Some((&name[at + 1..], &name[..at]))
}

/// Name in ASCII, cut at `len` bytes, for readers that do not know PAX.
fn ascii(name: &[u8], len: usize) -> Vec<u8> {
    name.iter().take(len).map(|byte| if byte.is_ascii_graphic() { *byte } else { b'_' }).collect()
}

fn ustar(name: &[u8], link: &[u8], flag: u8, size: u64, mode: u32, mtime: u64) -> Block {
    let mut block = [0; BLOCK_LEN];
    let short;
    let (name, prefix) = match split_name(name) {
        Some(split) if name.is_ascii() => split,
        _ => {
            short = ascii(name, 100);
            (short.as_slice(), b"".as_slice())
        }
    };
    let link = if link.is_ascii() { link[..link.len().min(100)].to_vec() } else { ascii(link, 100) };
    block[..name.len()].copy_from_slice(name);
    number::write(&mut block[100..108], u64::from(mode & 0o7777));
    number::write(&mut block[108..116], 0);
    number::write(&mut block[116..124], 0);
    // Beyond 8 GiB base-256 and the PAX record state the same size: no reader can find another one.
    number::write(&mut block[124..136], size);
    number::write(&mut block[136..148], mtime);
    block[156] = flag;
    block[157..157 + link.len()].copy_from_slice(&link);
    block[257..265].copy_from_slice(b"ustar\x0000");
    block[345..345 + prefix.len()].copy_from_slice(prefix);
    seal(&mut block);
    block
}
