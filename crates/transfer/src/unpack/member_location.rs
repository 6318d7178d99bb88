//! The place of a member in its archive: one short text, recorded as the version of the member.

use seqferry_archive::{Member, MemberKind};
use seqferry_store::{ChecksumAlgorithm, DigestAlgorithm, Digester};

/// Format of an archive's object; of a zip also the compression of the member.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// A tar as it is: offsets of the archive are those of the object.
    #[default]
    Plain,
    /// A tar within gzip, BGZF included.
    Gzip,
    /// A tar within Zstandard.
    Zstd,
    /// A zip whose member is stored as it is.
    ZipStored,
    /// A zip whose member is deflated.
    ZipDeflated,
}

impl Format {
    const PREFIXES: [(Self, &'static str); 4] =
        [(Self::Gzip, "gz:"), (Self::Zstd, "zst:"), (Self::ZipStored, "zip0:"), (Self::ZipDeflated, "zip8:")];

    /// True when the object is compressed as a whole, and has to be read from its start.
    pub fn is_stream(self) -> bool {
        matches!(self, Self::Gzip | Self::Zstd)
    }

    /// True when the object is a zip.
    pub fn is_zip(self) -> bool {
        matches!(self, Self::ZipStored | Self::ZipDeflated)
    }

    fn prefix(self) -> &'static str {
        Self::PREFIXES.iter().find(|(format, _)| *format == self).map_or("", |(_, prefix)| prefix)
    }
}

/// Kind of the member at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LocationKind {
    /// A file whose bytes lie in one piece.
    File,
    /// A sparse file.
    Sparse,
    /// A symbolic link: its contents are its target.
    Link,
    /// An empty directory.
    Directory,
}

/// The place of a member.
///
/// Written as `header.prelude.stored.name.kind.crc`: the offset of its first header, the bytes from there to its
/// contents, the bytes of its contents in the archive, a CRC-64 of its raw name (and link target), its kind, and the
/// CRC-32C of its contents where an index states one. In a compressed tar, offsets are those of the plain tar, and
/// `gz:` or `zst:` stands before them. In a zip (`zip0:`, `zip8:`) the second number is the size of the file, the
/// contents are all bytes from the local header to that of the next member, and the checksum is the CRC-32 of the
/// directory; behind it follow the permissions and the time of the member. They also follow where a global header of a
/// tar states the time, and behind them its nanoseconds, if there are any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemberLocation {
    /// Format of the archive.
    pub format: Format,
    /// Kind of the member.
    pub kind: LocationKind,
    /// Offset of the first header.
    pub header: u64,
    /// Offset of the contents.
    pub data: u64,
    /// Bytes of contents in the archive.
    pub stored: u64,
    /// CRC-64 of the raw name in the headers at this place; of a link, of its name, a NUL and its target.
    pub name: u64,
    /// CRC-32C of the contents; in a zip CRC-32 of the file.
    pub crc32c: Option<u32>,
    /// Permissions and time of a member of a zip, which only its directory states (None in places of version 1), and of
    /// one of a tar whose time only a global header states.
    pub attributes: Option<MemberAttributes>,
}

/// Permissions and time of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemberAttributes {
    /// Permission bits.
    pub mode: u32,
    /// Modification time, seconds since 1970.
    pub mtime: i64,
    /// Nanoseconds to add to `mtime`.
    pub nanos: u32,
}

impl MemberLocation {
    /// The place of a member as the header reader has found it. None for kinds that are not unpacked.
    pub fn of(member: &Member, crc32c: Option<u32>) -> Option<Self> {
        let kind = match member.kind {
            MemberKind::File if member.sparse.is_some() => LocationKind::Sparse,
            MemberKind::File => LocationKind::File,
            MemberKind::SymbolicLink => LocationKind::Link,
            MemberKind::Directory => LocationKind::Directory,
            _ => return None,
        };
        let crc32c = crc32c.filter(|_| matches!(kind, LocationKind::File | LocationKind::Link));
        let (header, data, stored) = (member.header_offset, member.data_offset, member.stored_size);
        let format = Format::Plain;
        // The target of a link is text of the headers, judged before: the same text must be there when it is made.
        let name = match kind {
            LocationKind::Link => name_hash(&[member.name.as_slice(), b"\0", &member.link].concat()),
            _ => name_hash(&member.name),
        };
        let (mode, mtime, nanos) = (member.safe_mode(), member.mtime, member.mtime_nanos);
        let attributes = member.has_global_time().then_some(MemberAttributes { mode, mtime, nanos });
        Some(Self { format, kind, header, data, stored, name, crc32c, attributes })
    }

    /// Offset of the byte behind the contents.
    pub fn end(&self) -> u64 {
        let start = if self.format.is_zip() { self.header } else { self.data };
        start.saturating_add(self.stored)
    }

    /// Bytes of a file in a zip, which its local header need not state.
    pub(super) fn zip_size(&self) -> u64 {
        self.data - self.header
    }

    /// The place that a text names.
    pub fn parse(text: &str) -> Option<Self> {
        let found = Format::PREFIXES.iter().find_map(|(format, prefix)| Some((*format, text.strip_prefix(prefix)?)));
        let (format, text) = found.unwrap_or((Format::Plain, text));
        let mut fields = text.split('.');
        let mut number = || fields.next()?.parse::<u64>().ok();
        let (header, prelude, stored) = (number()?, number()?, number()?);
        let name = u64::from_str_radix(fields.next()?, 16).ok()?;
        let kind = match fields.next()? {
            "f" => LocationKind::File,
            "s" => LocationKind::Sparse,
            "l" => LocationKind::Link,
            "d" => LocationKind::Directory,
            _ => return None,
        };
        let crc32c = match fields.next()? {
            "" => None,
            crc => Some(u32::from_str_radix(crc, 16).ok()?),
        };
        let attributes = match (fields.next(), fields.next()) {
            (None, _) => None,
            (Some(mode), Some(mtime)) => {
                let nanos = fields.next().map_or(Some(0), |nanos| nanos.parse().ok().filter(|nanos| *nanos > 0))?;
                Some(MemberAttributes { mode: u32::from_str_radix(mode, 8).ok()?, mtime: mtime.parse().ok()?, nanos })
            }
            _ => return None,
        };
        let data = header.checked_add(prelude)?;
        let whole = fields.next().is_none() && data.checked_add(stored).is_some();
        whole.then_some(Self { format, kind, header, data, stored, name, crc32c, attributes })
    }

    /// True when `found`, parsed from the headers at the place, is the member of this place and is not refused.
    pub fn matches_header(&self, found: &Member) -> bool {
        let there = Self::of(found, None);
        // The bytes before these headers are not known here.
        let there =
            there.map(|there| Self { format: self.format, crc32c: self.crc32c, attributes: self.attributes, ..there });
        // Places of links that were recorded by version 1 hold the name alone.
        let recorded = there.filter(|there| there.kind == LocationKind::Link);
        let recorded = recorded.map(|there| Self { name: name_hash(&found.name), ..there });
        (there == Some(*self) || recorded == Some(*self)) && found.refusal.is_none()
    }
}

impl std::fmt::Display for MemberLocation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kind = match self.kind {
            LocationKind::File => 'f',
            LocationKind::Sparse => 's',
            LocationKind::Link => 'l',
            LocationKind::Directory => 'd',
        };
        let Self { header, stored, name, .. } = self;
        write!(f, "{}{header}.{}.{stored}.{name:x}.{kind}.", self.format.prefix(), self.data - header)?;
        self.crc32c.map_or(Ok(()), |crc| write!(f, "{crc:08x}"))?;
        let Some(MemberAttributes { mode, mtime, nanos }) = self.attributes else { return Ok(()) };
        write!(f, ".{mode:o}.{mtime}")?;
        if nanos == 0 { Ok(()) } else { write!(f, ".{nanos}") }
    }
}

/// The `ETag` of a member: that of its archive, and its place.
pub(super) fn member_etag(archive: &str, header: u64) -> String {
    format!("{archive}@{header}")
}

/// The `ETag` of the archive of a member.
pub(super) fn archive_etag(member: &str) -> Option<&str> {
    member.rsplit_once('@').map(|(archive, _)| archive)
}

/// CRC-64 of a raw name.
pub(super) fn name_hash(name: &[u8]) -> u64 {
    let digest = Digester::of(DigestAlgorithm::Checksum(ChecksumAlgorithm::Crc64Nvme), name);
    digest.try_into().map_or(0, u64::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn texts_that_name_no_place_are_refused() {
        for text in [
            "",
            "1.2.3",
            "bz2:0.512.3.ff.f.",
            "0.512.3.ff.x.",
            "0.512.3.ff.f.zz",
            "0.512.3.ff.f..",
            "0.512.3.ff.f..644",
            "0.512.3.ff.f..644.5.0",
            "0.512.3.ff.f..644.5.6.7",
            "18446744073709551615.1.0.0.f.",
        ] {
            assert_eq!(MemberLocation::parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_place_is_read_as_it_was_written(
            header in 0..1_u64 << 50, prelude in 0..1_u64 << 30, stored in 0..1_u64 << 50, name: u64, attributes: Option<(u16, i64, u32)>,
            kind in 0..4_usize, format in 0..5_usize, crc32c: Option<u32>,
        ) {
            let kind = [LocationKind::File, LocationKind::Sparse, LocationKind::Link, LocationKind::Directory][kind];
            let formats = [Format::Plain, Format::Gzip, Format::Zstd, Format::ZipStored, Format::ZipDeflated];
            let format = formats[format];
            let attributes = attributes.map(|(mode, mtime, nanos)| MemberAttributes { mode: mode.into(), mtime, nanos });
            let location = MemberLocation { format, kind, header, data: header + prelude, stored, name, crc32c, attributes };
            prop_assert_eq!(MemberLocation::parse(&location.to_string()), Some(location));
        }
    }
}
