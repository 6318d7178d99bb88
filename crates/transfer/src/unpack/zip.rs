//! Members of a zip: listed by its central directory, and read by the local headers that it names.
//!
//! Invariants: a member whose name or method in its local header is not that of the directory is refused, so that no
//! two readers see different files; a member gives exactly the bytes that the directory states, or an error.

use std::cell::RefCell;
use std::io::{self, Read};
use std::sync::Arc;

use bytes::Bytes;
use futures::stream;
use rawzip::{CompressionMethod, RECOMMENDED_BUFFER_SIZE, ReaderAt, ZipLocator};
use seqferry_archive::{Member, MemberKind, Refusal};
use seqferry_client::{RequestError, RetryingClient};
use seqferry_store::{Body, ObjectStore, PinnedObject, Range, StoreError};
use tokio::runtime::Handle;

use super::place::{Format, MemberPlace, PlaceKind, name_hash};
use super::plain::PlainStream;

/// Bytes of a local header before its name.
const LOCAL: usize = 30;
/// Bytes of the object that are read at a time for the directory.
const STEP: u64 = 1 << 20;

/// A member as the directory has it.
#[derive(Debug)]
pub(super) struct ZipMember {
    /// Member as a header reader would return it; `header_offset` is that of the local header.
    pub(super) member: Member,
    /// Place of the member; None when it is refused.
    pub(super) place: Option<MemberPlace>,
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

/// Reason why a zip cannot be listed.
pub(super) enum ZipError {
    Request(RequestError),
    /// The zip is refused as a whole.
    Bad(String),
}

/// Lists the members of a zip in the order of their local headers, `most` at most.
pub(super) async fn list(client: RetryingClient, object: PinnedObject, most: u64) -> Result<Vec<ZipMember>, ZipError> {
    let runtime = Handle::current();
    let read = tokio::task::spawn_blocking(move || {
        let ranges =
            Ranges { client, object, runtime, here: RefCell::new((0, Bytes::new())), failed: RefCell::new(None) };
        entries(&ranges, most).map_err(|cause| match ranges.failed.take() {
            Some(error) => ZipError::Request(error),
            None => ZipError::Bad(cause),
        })
    });
    read.await.unwrap_or_else(|_| Err(ZipError::Bad("reading it was stopped".to_owned())))
}

fn entries(ranges: &Ranges, most: u64) -> Result<Vec<ZipMember>, String> {
    let mut buffer = vec![0; RECOMMENDED_BUFFER_SIZE];
    let zip = ZipLocator::new()
        .locate_in_reader(ranges, &mut buffer, ranges.object.size)
        .map_err(|(_, error)| error.to_string())?;
    let directory = zip.directory_offset();
    let mut found: Vec<(ZipMember, Format)> = Vec::new();
    let mut entries = zip.entries(&mut buffer);
    while let Some(entry) = entries.next_entry().map_err(|error| error.to_string())? {
        if found.len() as u64 >= most {
            return Err(format!("it has more than {most} members"));
        }
        let name = entry.file_path().as_bytes().to_vec();
        let mode = entry.mode();
        let kind = if entry.is_dir() {
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
            _ if entry.flags().is_encrypted() => Some(Refusal::Encrypted),
            // Their targets are contents, which nothing here has read.
            MemberKind::SymbolicLink => Some(Refusal::UnsupportedType),
            MemberKind::File if !known => Some(Refusal::Compression),
            _ => None,
        };
        let header_offset = entry.local_header_offset();
        let mtime = match entry.last_modified() {
            rawzip::time::ZipDateTimeKind::Utc(at) => at.to_unix(),
            rawzip::time::ZipDateTimeKind::Local(at) => {
                civil(at.year(), at.month(), at.day(), [at.hour(), at.minute(), at.second()])
            }
        };
        let place = MemberPlace {
            format,
            kind: if kind == MemberKind::Directory { PlaceKind::Directory } else { PlaceKind::File },
            header: header_offset,
            data: header_offset.checked_add(size).ok_or("a size is out of range")?,
            stored: 0,
            name: name_hash(&name),
            crc32c: Some(entry.crc32()),
        };
        let member = Member {
            kind,
            link: Vec::new(),
            header_offset,
            data_offset: header_offset,
            stored_size: stored,
            size: if kind == MemberKind::Directory { 0 } else { size },
            sparse: None,
            mode: mode.permissions(),
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
        found.push((ZipMember { member, place: refusal.is_none().then_some(place) }, format));
    }
    placed(found, directory)
}

/// Every member reaches up to the next one: what lies between is its header, its contents and what follows them.
fn placed(mut found: Vec<(ZipMember, Format)>, directory: u64) -> Result<Vec<ZipMember>, String> {
    found.sort_by_key(|(entry, _)| entry.member.header_offset);
    let starts: Vec<u64> = found.iter().map(|(entry, _)| entry.member.header_offset).collect();
    for (at, (entry, _)) in found.iter_mut().enumerate() {
        let start = starts[at];
        let end = starts.get(at + 1).copied().unwrap_or(directory).min(directory);
        let room = end.checked_sub(start).ok_or("a member lies behind the directory")?;
        let least = (LOCAL + entry.member.name.len()) as u64;
        if room < least.saturating_add(entry.member.stored_size) {
            return Err("two of its members overlap".to_owned());
        }
        if let Some(place) = &mut entry.place {
            place.stored = room;
        }
    }
    Ok(found.into_iter().map(|(entry, _)| entry).collect())
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
pub(super) fn header_room(place: &MemberPlace) -> u64 {
    place.stored.min(LOCAL as u64 + 2 * 65_535)
}

/// Offset of the contents behind the local header that `bytes` begin with. None where it is not that of the member.
pub(super) fn contents(place: &MemberPlace, bytes: &[u8]) -> Option<u64> {
    let header = bytes.get(..LOCAL)?;
    let short = |at: usize| usize::from(u16::from_le_bytes([header[at], header[at + 1]]));
    let (method, name, extra) = (short(8), short(26), short(28));
    let wanted = if place.format == Format::ZipStored { 0 } else { 8 };
    let same = header.starts_with(b"PK\x03\x04")
        && (method == wanted || place.kind == PlaceKind::Directory)
        && name_hash(bytes.get(LOCAL..LOCAL + name)?) == place.name;
    let start = place.header + (LOCAL + name + extra) as u64;
    (same && start <= place.end()).then_some(start)
}

/// All of a member whose local header and contents are in memory.
pub(super) fn unpacked(place: &MemberPlace, region: &Bytes, start: u64) -> Option<Bytes> {
    let data = region.slice(usize::try_from(start - place.header).ok()?.min(region.len())..);
    let size = usize::try_from(place.zip_size()).ok()?;
    if place.format == Format::ZipStored {
        return (size <= data.len()).then(|| data.slice(..size));
    }
    let mut plain = Vec::with_capacity(size.min(data.len().saturating_mul(8)));
    // One byte more than the directory states shows that more comes.
    flate2::read::DeflateDecoder::new(&data[..]).take(place.zip_size() + 1).read_to_end(&mut plain).ok()?;
    (plain.len() == size).then(|| plain.into())
}

/// A member as a stream of exactly the bytes that the directory states.
pub(super) fn body(store: Arc<dyn ObjectStore>, object: PinnedObject, place: &MemberPlace, start: u64) -> Body {
    let size = place.zip_size();
    let end = if place.format == Format::ZipStored { (start + size).min(place.end()) } else { place.end() };
    let stream = PlainStream::open(store, object, (start, end), place.format);
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
    Body::of_chunks(Box::pin(chunks))
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
