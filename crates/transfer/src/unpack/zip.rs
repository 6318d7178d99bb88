//! Members of a zip: listed by its central directory, and read by the local headers that it names.
//!
//! Invariants: a member whose name or method in its local header is not that of the directory is refused, so that no
//! two readers see different files; a member gives exactly the bytes that the directory states, or an error; a zip with
//! two directories that both fit is refused.

mod names;

use std::cell::RefCell;
use std::io::{self, Read};
use std::sync::Arc;

use bytes::Bytes;
use futures::stream;
use rawzip::{
    CompressionMethod, CreatorSystem, RECOMMENDED_BUFFER_SIZE, ReaderAt, ZipArchive, ZipFileHeaderRecord, ZipLocator,
};
use seqferry_archive::path::MAXIMUM_PATH;
use seqferry_archive::{Member, MemberKind, MemberRefusal};
use seqferry_client::{RequestError, RetryingClient};
use seqferry_store::{Body, ObjectStore, PinnedObject, Range, StoreError};
use tokio::runtime::Handle;

use super::member_location::{Format, LocationKind, MemberAttributes, MemberLocation, name_hash};
use super::plain::PlainStream;

/// Bytes of a local header before its name.
const LOCAL: usize = 30;
/// The bits of a mode that tell what a file is, and their value for a folder.
const FILE_TYPE: u32 = 0o170_000;
const FOLDER: u32 = 0o040_000;
/// Bytes of the object that are read at a time for the directory.
const STEP: u64 = 1 << 20;

/// A member as the directory has it.
#[derive(Debug)]
pub(super) struct ZipMember {
    /// Member as a header reader would return it; `header_offset` is that of the local header.
    pub(super) member: Member,
    /// Place of the member; None when it is refused.
    pub(super) location: Option<MemberLocation>,
    /// Bytes of its name in the zip.
    raw_name: usize,
}

/// Reads ranges of a pinned object for a thread that may block.
struct Ranges {
    client: RetryingClient,
    object: PinnedObject,
    runtime: Handle,
    here: RefCell<(u64, Bytes)>,
    failed: RefCell<Option<RequestError>>,
}

impl ReaderAt for &Ranges {
    fn read_at(&self, into: &mut [u8], offset: u64) -> io::Result<usize> {
        if offset >= self.object.size || into.is_empty() {
            return Ok(0);
        }
        let mut here = self.here.borrow_mut();
        let at = offset.checked_sub(here.0).and_then(|at| usize::try_from(at).ok()).filter(|at| *at < here.1.len());
        let at = if let Some(at) = at {
            at
        } else {
            let start = offset / STEP * STEP;
            let range = Range { first: start, last: (start + STEP).min(self.object.size) - 1 };
            let read = self.runtime.block_on(self.client.read_range(&self.object, range));
            match read {
                Ok(read) => *here = (start, read.bytes),
                Err(error) => {
                    *self.failed.borrow_mut() = Some(error);
                    return Err(io::ErrorKind::Other.into());
                }
            }
            usize::try_from(offset - start).unwrap_or(usize::MAX)
        };
        let bytes = here.1.get(at..).unwrap_or_default();
        let len = bytes.len().min(into.len());
        into[..len].copy_from_slice(&bytes[..len]);
        Ok(len)
    }
}

impl Ranges {
    /// Fill a buffer with the bytes from `offset` on.
    fn fill(&self, mut into: &mut [u8], mut offset: u64) -> io::Result<()> {
        while !into.is_empty() {
            let read = self.read_at(into, offset)?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            into = &mut into[read..];
            offset += read as u64;
        }
        Ok(())
    }
}

/// Reason why a zip cannot be listed.
pub(super) enum ZipError {
    Request(RequestError),
    /// The zip is refused as a whole.
    Bad(String),
    /// It is one volume of several.
    Split,
}

/// Lists the members of a zip in the order of their local headers, `most` at most.
pub(super) async fn list(client: RetryingClient, object: PinnedObject, most: u64) -> Result<Vec<ZipMember>, ZipError> {
    let runtime = Handle::current();
    let read = tokio::task::spawn_blocking(move || {
        let ranges =
            Ranges { client, object, runtime, here: RefCell::new((0, Bytes::new())), failed: RefCell::new(None) };
        let listed =
            if is_volume(&ranges) { Err(ZipError::Split) } else { entries(&ranges, most).map_err(ZipError::Bad) };
        listed.map_err(|error| ranges.failed.take().map_or(error, ZipError::Request))
    });
    read.await.unwrap_or_else(|_| Err(ZipError::Bad("reading it was stopped".to_owned())))
}

/// Bytes at the end of a zip that hold its end record: 22, and a comment of up to 64 KiB.
pub(super) const LONGEST_END: u64 = 22 + 65_535;
/// Most signatures of end records that a comment can hold, and most records among them whose directory is read.
const SIGNATURES: usize = 65_535 / 4;
const DIRECTORIES: usize = 16;
const END_SIGNATURE: &[u8] = b"PK\x05\x06";

/// True when the end record of a zip lies in these last bytes of an object, with a comment up to their end.
pub(super) fn is_end(tail: &[u8]) -> bool {
    end_records(tail).next().is_some()
}

/// The records in these last bytes of an object that end it, with their comments. A comment may hold further ones.
fn end_records(tail: &[u8]) -> impl Iterator<Item = &[u8]> {
    let ends_it = |&(at, record): &(usize, &[u8])| {
        let comment = usize::from(u16::from_le_bytes([record[20], record[21]]));
        record.starts_with(END_SIGNATURE) && at + 22 + comment == tail.len()
    };
    tail.windows(22).enumerate().filter(ends_it).map(|(_, record)| record)
}

/// First bytes of the first volume of a split zip.
pub(super) const FIRST_VOLUME: &[u8] = b"PK\x07\x08";

/// True when the zip is the last of several volumes: its end record states the number of this volume, which is not 0,
/// or that its directory begins in another one.
fn is_volume(ranges: &Ranges) -> bool {
    let size = ranges.object.size;
    let mut tail = vec![0; usize::try_from(size.min(LONGEST_END)).unwrap_or(0)];
    let start = size - tail.len() as u64;
    if ranges.fill(&mut tail, start).is_err() {
        return false;
    }
    let of_volume = |record: &[u8]| {
        let short = |at: usize| u16::from_le_bytes([record[at], record[at + 1]]);
        // The numbers of a large zip stand elsewhere; such volumes still have this number.
        let (this, of_directory, here, all) = (short(4), short(6), short(8), short(10));
        this != u16::MAX && (this != 0 || of_directory != u16::MAX && of_directory != 0 || here != all)
    };
    let mut records = end_records(&tail).peekable();
    records.peek().is_some() && records.all(of_volume)
}

type Listed = Result<Vec<ZipMember>, String>;

/// The members by the directory that the end record names. Where several records end with the object (its comment
/// holds the signature), exactly one of them must name a directory: which one counts is a matter of the reader.
fn entries(ranges: &Ranges, most: u64) -> Listed {
    let mut buffer = vec![0; RECOMMENDED_BUFFER_SIZE];
    let size = ranges.object.size;
    let (mut end, mut loose, mut listed, mut failed) = (size, None, None, None);
    let mut tried = 0;
    for _ in 0..=SIGNATURES {
        let near = LONGEST_END.saturating_sub(size - end).max(22);
        let locator = if end == size { ZipLocator::new() } else { ZipLocator::new().max_search_space(near) };
        let (at, exact) = match locator.locate_in_reader(ranges, &mut buffer, end) {
            Ok(zip) if zip.end_offset() == size && tried < DIRECTORIES => {
                let at = zip.eocd_offset();
                tried += 1;
                match of_directory(ranges, &zip, most) {
                    Ok(_) if listed.is_some() => {
                        return Err("it has two directories, and readers disagree on which one counts".to_owned());
                    }
                    Ok(members) => listed = Some(members),
                    Err(cause) => failed = failed.or(Some(cause)),
                }
                (at, true)
            }
            Ok(zip) => (zip.eocd_offset(), false),
            Err((_, error)) => {
                let Some(at) = error.eocd_offset() else {
                    failed = failed.or(Some(error.to_string()));
                    break;
                };
                (at, false)
            }
        };
        if !exact {
            loose = loose.or(Some(at));
        }
        if at == 0 || size - at >= LONGEST_END {
            break;
        }
        // The signature at this place is not found again, and one right before it is.
        end = at;
    }
    if let Some(members) = listed {
        return Ok(members);
    }
    // Other bytes follow the zip.
    let Some(at) = loose else { return Err(failed.unwrap_or_else(|| "it has no directory".to_owned())) };
    let zip = ZipLocator::new().locate_in_reader(ranges, &mut buffer, size.min(at + 22));
    of_directory(ranges, &zip.map_err(|(_, error)| failed.unwrap_or_else(|| error.to_string()))?, most)
}

fn of_directory(ranges: &Ranges, zip: &ZipArchive<&Ranges>, most: u64) -> Listed {
    let mut buffer = vec![0; RECOMMENDED_BUFFER_SIZE];
    let mut found: Vec<ZipMember> = Vec::new();
    let mut entries = zip.entries(&mut buffer);
    loop {
        let entry = match entries.next_entry() {
            Ok(Some(entry)) => entry,
            Ok(None) => break,
            // A record of no members counts, wherever it says that its directory is.
            Err(_) if found.is_empty() && zip.entries_hint() == 0 => break,
            Err(error) => return Err(error.to_string()),
        };
        if found.len() as u64 >= most {
            return Err(format!("it has more than {most} members"));
        }
        found.push(member(&entry)?);
    }
    if found.is_empty() && zip.entries_hint() > 0 {
        return Err("its directory is not where its end record says".to_owned());
    }
    let mut found = locate_members(found, zip.directory_offset())?;
    for link in found.iter_mut().filter(|found| found.member.kind == MemberKind::SymbolicLink) {
        read_target(ranges, link);
    }
    Ok(found)
}

/// A member as its entry in the directory has it.
fn member(entry: &ZipFileHeaderRecord<'_>) -> Result<ZipMember, String> {
    let raw = entry.file_path().as_bytes().to_vec();
    let name = names::text(&raw, entry);
    let mode = entry.mode();
    // Some writers mark folders by their mode or their MS-DOS attribute alone.
    let kind = if entry.is_dir() || name.ends_with(b"/") || mode.value() & FILE_TYPE == FOLDER {
        MemberKind::Directory
    } else if mode.is_symlink() {
        MemberKind::SymbolicLink
    } else {
        MemberKind::File
    };
    let (size, stored) = (entry.uncompressed_size_hint(), entry.compressed_size_hint());
    let (format, known) = match entry.compression_method() {
        CompressionMethod::STORE => (Format::ZipStored, size == stored),
        CompressionMethod::DEFLATE => (Format::ZipDeflated, true),
        _ => (Format::ZipStored, false),
    };
    let refusal = match kind {
        _ if entry.flags().is_encrypted() => Some(MemberRefusal::Encrypted),
        // Unpacking a folder would lose them.
        MemberKind::Directory if size > 0 => Some(MemberRefusal::AmbiguousKind),
        MemberKind::File | MemberKind::SymbolicLink if !known => Some(MemberRefusal::Compression),
        MemberKind::SymbolicLink if size > MAXIMUM_PATH as u64 => Some(MemberRefusal::LinkTooLong),
        _ => None,
    };
    let header_offset = entry.local_header_offset();
    let mtime = match entry.last_modified() {
        rawzip::time::ZipDateTimeKind::Utc(at) => at.to_unix(),
        rawzip::time::ZipDateTimeKind::Local(at) => {
            civil(at.year(), at.month(), at.day(), [at.hour(), at.minute(), at.second()])
        }
    };
    let unix = matches!(entry.version_made_by().creator_system(), CreatorSystem::UNIX | CreatorSystem::MACOS);
    let permissions = match kind {
        // MS-DOS has no permissions, and a folder that only its slash shows has not even the mark of one.
        MemberKind::Directory if !unix => 0o777,
        _ => mode.permissions() & 0o777,
    };
    let location = MemberLocation {
        format,
        kind: match kind {
            MemberKind::Directory => LocationKind::Directory,
            MemberKind::SymbolicLink => LocationKind::Link,
            _ => LocationKind::File,
        },
        header: header_offset,
        data: header_offset.checked_add(size).ok_or("a size is out of range")?,
        stored: 0,
        name: name_hash(&raw),
        crc32c: Some(entry.crc32()),
        attributes: Some(MemberAttributes { mode: permissions, mtime, nanos: 0 }),
    };
    let member = Member {
        kind,
        link: Vec::new(),
        header_offset,
        data_offset: header_offset,
        stored_size: stored,
        size: if kind == MemberKind::Directory { 0 } else { size },
        sparse: None,
        mode: permissions,
        uid: 0,
        gid: 0,
        user: Vec::new(),
        group: Vec::new(),
        mtime,
        mtime_nanos: 0,
        records: Vec::new(),
        refusal,
        name,
    };
    Ok(ZipMember { member, location: refusal.is_none().then_some(location), raw_name: raw.len() })
}

/// The target of a symbolic link: its contents, which no header states.
fn read_target(ranges: &Ranges, link: &mut ZipMember) {
    let Some(location) = link.location else { return };
    let most = (LOCAL + 2 * 65_535 + MAXIMUM_PATH * 2) as u64;
    let mut region = vec![0; usize::try_from(location.stored.min(most)).unwrap_or(0)];
    let target = ranges.fill(&mut region, location.header).ok().and_then(|()| {
        let region = Bytes::from(region);
        unpack_stored(&location, &region, contents(&location, &region)?)
    });
    let mut sum = flate2::Crc::new();
    sum.update(target.as_deref().unwrap_or_default());
    match target {
        Some(target) if location.crc32c == Some(sum.sum()) => link.member.link = target.to_vec(),
        _ => (link.member.refusal, link.location) = (Some(MemberRefusal::LinkUnreadable), None),
    }
}

/// Every member reaches up to the next one: what lies between is its header, its contents and what follows them.
fn locate_members(mut found: Vec<ZipMember>, directory: u64) -> Listed {
    found.sort_by_key(|entry| entry.member.header_offset);
    let starts: Vec<u64> = found.iter().map(|entry| entry.member.header_offset).collect();
    for (at, entry) in found.iter_mut().enumerate() {
        let start = starts[at];
        let end = starts.get(at + 1).copied().unwrap_or(directory).min(directory);
        let room = end.checked_sub(start).ok_or("a member lies behind the directory")?;
        let least = (LOCAL + entry.raw_name) as u64;
        if room < least.saturating_add(entry.member.stored_size) {
            return Err("two of its members overlap".to_owned());
        }
        if let Some(location) = &mut entry.location {
            location.stored = room;
        }
    }
    Ok(found)
}

/// Seconds since 1970 of a date without a zone, taken for UTC.
fn civil(year: u16, month: u8, day: u8, [hour, minute, second]: [u8; 3]) -> i64 {
    let (month, day) = (i64::from(month), i64::from(day));
    let year = i64::from(year) - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + day - 1;
    let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468;
    ((days * 24 + i64::from(hour)) * 60 + i64::from(minute)) * 60 + i64::from(second)
}

/// The bytes that a local header needs at most: name and extra fields are up to 64 KiB each.
pub(super) fn header_room(location: &MemberLocation) -> u64 {
    location.stored.min(LOCAL as u64 + 2 * 65_535)
}

/// Offset of the contents behind the local header that `bytes` begin with. None where it is not that of the member.
pub(super) fn contents(location: &MemberLocation, bytes: &[u8]) -> Option<u64> {
    let header = bytes.get(..LOCAL)?;
    let short = |at: usize| usize::from(u16::from_le_bytes([header[at], header[at + 1]]));
    let (method, name, extra) = (short(8), short(26), short(28));
    let wanted = if location.format == Format::ZipStored { 0 } else { 8 };
    let same = header.starts_with(b"PK\x03\x04")
        && (method == wanted || location.kind == LocationKind::Directory)
        && name_hash(bytes.get(LOCAL..LOCAL + name)?) == location.name;
    let start = location.header + (LOCAL + name + extra) as u64;
    (same && start <= location.end()).then_some(start)
}

/// All of a member whose local header and contents are in memory.
pub(super) fn unpack_stored(location: &MemberLocation, region: &Bytes, start: u64) -> Option<Bytes> {
    let data = region.slice(usize::try_from(start - location.header).ok()?.min(region.len())..);
    let size = usize::try_from(location.zip_size()).ok()?;
    if location.format == Format::ZipStored {
        return (size <= data.len()).then(|| data.slice(..size));
    }
    let mut plain = Vec::with_capacity(size.min(data.len().saturating_mul(8)));
    // One byte more than the directory states shows that more comes.
    flate2::read::DeflateDecoder::new(&data[..]).take(location.zip_size() + 1).read_to_end(&mut plain).ok()?;
    (plain.len() == size).then(|| plain.into())
}

/// A member as a stream of exactly the bytes that the directory states.
pub(super) fn body(store: Arc<dyn ObjectStore>, object: PinnedObject, location: &MemberLocation, start: u64) -> Body {
    let size = location.zip_size();
    let end = if location.format == Format::ZipStored { (start + size).min(location.end()) } else { location.end() };
    let stream = PlainStream::open(store, object, (start, end), location.format);
    let chunks = stream::unfold(Some((stream, size)), async |state| {
        let (mut stream, left) = state?;
        // At the end it must be the end for the decoder as well.
        let chunk = stream.next(left.max(1)).await;
        match chunk {
            Ok(bytes) if left == 0 && bytes.is_empty() => None,
            Ok(bytes) if left == 0 || bytes.is_empty() => {
                Some((Err(stream.damaged("a member has another size than its directory states")), None))
            }
            Ok(bytes) => {
                let left = left - bytes.len() as u64;
                Some((Ok(bytes), Some((stream, left))))
            }
            Err(error) => Some((Err::<Bytes, StoreError>(error), None)),
        }
    });
    Body::from_stream(Box::pin(chunks))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_become_seconds() {
        assert_eq!(civil(1970, 1, 1, [0, 0, 0]), 0);
        assert_eq!(civil(2000, 3, 1, [12, 0, 1]), 951_912_001);
        assert_eq!(civil(2026, 11, 24, [23, 59, 58]), 1_795_564_798);
    }
}
