//! The table of names kept in a file, so that a mount begins with what the one before had listed.
//!
//! A directory is believed for what is left of its lifetime since it was listed, by the clock of the machine. The file
//! is written beside its place and renamed. It holds what objects state as well, by version, which is believed without
//! an end. It consists of frames with a CRC-32C each: a damaged one ends the reading, and what follows it is listed
//! again. A table of another source is not read.

use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use seqferry_store::StoredMetadata;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::names::{HiddenKey, HiddenReason};
use super::snapshot::{Snapshot, SnapshotBuilder, SnapshotEntry};
use super::{FileKind, NameFacts, ROOT, Tree};
use crate::crc::crc32c;
use crate::own_file;

/// Number of this format.
const FORMAT: u32 = 4;
/// Names that are kept at most, some 100 bytes each: those of the directories used last.
const MOST_NAMES: usize = 2_000_000;
/// Names in a frame: neither side holds more of them twice.
pub(super) const NAMES: usize = 10_000;
/// Largest frame, with names of 255 bytes that JSON escapes.
const LARGEST_FRAME: u32 = 1 << 26;

/// Header of a table: its format and the source of its names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TableHeader {
    format: u32,
    pub(crate) endpoint: String,
    pub(crate) bucket: String,
    pub(crate) prefix: String,
}

/// One directory of a table, or a part of it.
#[derive(Debug, Serialize, Deserialize)]
struct SavedDirectory {
    prefix: String,
    /// Seconds since the epoch.
    listed: f64,
    entries: Vec<SavedEntry>,
    hidden: Vec<(String, u8)>,
    hidden_count: u64,
    /// Time of the directory's own object.
    marker: f64,
    /// The next frame has more names of it, and the last one what is said of the whole.
    is_continued: bool,
}

/// Facts that were learned, by the inode of the version as a file.
#[derive(Debug, Serialize, Deserialize)]
struct SavedFacts {
    facts: Vec<SavedFact>,
}

/// Inode, time, mode, owner, group, upload time.
type SavedFact = (u64, Option<(i64, u32)>, Option<u32>, Option<u32>, Option<u32>, f64);

/// Facts in a frame.
const FACTS: usize = 10_000;

/// Name, kind, size, time, `ETag`, whether archived, whether a link whose key is its name.
type SavedEntry = (String, u8, u64, f64, String, bool, bool);

/// Result of restoring a table: the directories and names taken over, and whether the file is damaged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RestoreReport {
    /// Directories.
    pub directories: u64,
    /// Names in them.
    pub names: u64,
    /// The file ended before its end, or has other bytes than were written.
    pub is_damaged: bool,
}

/// A directory to save: last use, prefix, names, and the time of their listing.
type ListedDirectory = (u64, Arc<str>, Arc<Snapshot>, Instant);

const KINDS: [FileKind; 3] = [FileKind::File, FileKind::Directory, FileKind::Symlink];
const REASONS: [HiddenReason; 7] = [
    HiddenReason::EmptySegment,
    HiddenReason::DotSegment,
    HiddenReason::NameTooLong,
    HiddenReason::Nul,
    HiddenReason::DirectoryWithBytes,
    HiddenReason::ShadowedByDirectory,
    HiddenReason::ShadowedByFile,
];

/// Place in a list of at most 256 values.
fn number<T: PartialEq>(all: &[T], value: &T) -> u8 {
    all.iter().position(|each| each == value).and_then(|place| u8::try_from(place).ok()).unwrap_or_default()
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

impl Tree {
    fn table_header(&self) -> TableHeader {
        TableHeader {
            format: FORMAT,
            endpoint: self.endpoint.to_string(),
            bucket: self.bucket.to_string(),
            prefix: self.options.prefix.clone(),
        }
    }

    /// Number of directories that were listed so far, and of versions whose attributes were learned. A table that was
    /// saved at the same number is up to date.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    /// Write the names that are known, and the attributes of at most `facts` versions, to a file of this user. Blocks
    /// on the disk.
    ///
    /// # Errors
    /// When the file cannot be written; the one before stays.
    pub fn save(&self, path: &Path, facts: usize) -> io::Result<()> {
        let new = path.with_extension(format!("{}-{:016x}", std::process::id(), fastrand::u64(..)));
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        let written = self.write_table(file, facts).and_then(|()| std::fs::rename(&new, path));
        if written.is_err() {
            let _ = std::fs::remove_file(&new);
        }
        written
    }

    fn write_table(&self, file: File, facts: usize) -> io::Result<()> {
        let mut file = BufWriter::new(file);
        write_frame(&mut file, &self.table_header())?;
        let (mut saved_names, learned): (Vec<ListedDirectory>, Vec<u64>) = {
            let state = self.read();
            let known = |directory: &super::Directory| {
                let (snapshot, listed) = (directory.snapshot.clone()?, directory.listed?);
                Some((directory.used, Arc::clone(&directory.prefix), snapshot, listed))
            };
            (state.directories.iter().filter_map(known).collect(), state.facts.numbers().take(facts).collect())
        };
        for part in learned.chunks(FACTS) {
            let facts = {
                let state = self.read();
                let fact = |number: &u64| {
                    let (stored, uploaded) = state.facts.to_keep(*number)?;
                    Some((*number, stored.modified, stored.mode, stored.uid, stored.gid, uploaded))
                };
                part.iter().filter_map(fact).collect()
            };
            write_frame(&mut file, &SavedFacts { facts })?;
        }
        saved_names.sort_unstable_by_key(|(used, ..)| std::cmp::Reverse(*used));
        let mut names = 0;
        saved_names.retain(|(_, _, snapshot, _)| {
            names += snapshot.len();
            names <= MOST_NAMES
        });
        // A directory is found through the one that holds it.
        saved_names.sort_unstable_by(|(_, a, ..), (_, b, ..)| a.cmp(b));
        let mut frames = 0_usize;
        for (_, prefix, snapshot, listed) in &saved_names {
            let entry = |entry: &SnapshotEntry| {
                let facts = entry.facts();
                let kind = number(&KINDS, &facts.kind);
                let name = snapshot.name(entry).to_owned();
                (name, kind, facts.size, facts.modified, facts.etag, facts.archived, facts.is_plain_link)
            };
            let hidden = |key: &HiddenKey| (key.key.clone(), number(&REASONS, &key.reason));
            let mut rest = snapshot.entries();
            let mut part = SavedDirectory {
                prefix: prefix.to_string(),
                listed: now() - listed.elapsed().as_secs_f64(),
                entries: Vec::new(),
                hidden: Vec::new(),
                hidden_count: snapshot.hidden_count,
                marker: snapshot.marker,
                is_continued: true,
            };
            while part.is_continued {
                let (entries, others) = rest.split_at(rest.len().min(NAMES));
                (rest, part.is_continued) = (others, !others.is_empty());
                part.entries = entries.iter().map(entry).collect();
                if !part.is_continued {
                    part.hidden = snapshot.hidden.iter().map(hidden).collect();
                }
                write_frame(&mut file, &part)?;
                frames += 1;
            }
        }
        write_frame(&mut file, &frames)?;
        file.flush()
    }

    /// Take over the names of a file that are still to be believed. Blocks on the disk. A missing file holds none.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn restore(self: &Arc<Self>, path: &Path) -> io::Result<RestoreReport> {
        let mut report = RestoreReport::default();
        let mut file = match own_file::open(path, OpenOptions::new().read(true)) {
            Ok(file) => BufReader::new(file),
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(report),
            Err(cause) => return Err(cause),
        };
        match read_frame::<TableHeader>(&mut file)? {
            TableFrame::Sound(header) if header == self.table_header() => {}
            TableFrame::Sound(_) => return Ok(report),
            TableFrame::Other(_) | TableFrame::Damaged => return Ok(RestoreReport { is_damaged: true, ..report }),
        }
        let mut read = 0_usize;
        let mut builder = SnapshotBuilder::default();
        loop {
            match read_frame::<SavedDirectory>(&mut file)? {
                TableFrame::Sound(mut part) => {
                    read += 1;
                    add_names(&mut builder, std::mem::take(&mut part.entries));
                    if part.is_continued {
                        continue;
                    }
                    if let Some(names) = self.restore_directory(part, std::mem::take(&mut builder)) {
                        report.directories += 1;
                        report.names += names;
                    }
                }
                TableFrame::Other(other) => {
                    if let Ok(saved_names) = serde_json::from_slice::<SavedFacts>(&other) {
                        let mut state = self.write();
                        // Those that were learned last come first.
                        for (number, modified, mode, uid, gid, uploaded) in saved_names.facts.into_iter().rev() {
                            state.facts.restore(number, StoredMetadata { modified, mode, uid, gid }, uploaded);
                        }
                        continue;
                    }
                    report.is_damaged = serde_json::from_slice::<usize>(&other).ok() != Some(read);
                    return Ok(report);
                }
                TableFrame::Damaged => return Ok(RestoreReport { is_damaged: true, ..report }),
            }
        }
    }

    /// Put a directory into the tree, by its last part; the number of its names, or None where it is too old or not in
    /// the tree.
    fn restore_directory(self: &Arc<Self>, saved_names: SavedDirectory, mut builder: SnapshotBuilder) -> Option<u64> {
        let age = now() - saved_names.listed;
        let listed = match self.options.lifetime {
            None => Instant::now(),
            // A clock that was set back gives no age.
            Some(_) if age < 0.0 => return None,
            Some(lifetime) if age >= lifetime.as_secs_f64() => return None,
            Some(_) => Instant::now().checked_sub(Duration::try_from_secs_f64(age).ok()?)?,
        };
        let inode =
            if saved_names.prefix == self.options.prefix { ROOT } else { self.inode_of_prefix(&saved_names.prefix)? };
        let directory = self.directory(inode).ok()?;
        let names = builder.len() as u64;
        let reason = |place: u8| REASONS.get(usize::from(place)).copied();
        let hidden =
            saved_names.hidden.into_iter().filter_map(|(key, place)| Some(HiddenKey { key, reason: reason(place)? }));
        builder.restore_hidden(hidden.collect(), saved_names.hidden_count);
        builder.restore_marker(saved_names.marker);
        self.install(directory, inode, &saved_names.prefix, builder, listed);
        Some(names)
    }
}

fn add_names(builder: &mut SnapshotBuilder, entries: Vec<SavedEntry>) {
    for (name, kind, size, modified, etag, archived, is_plain_link) in entries {
        let Some(kind) = KINDS.get(usize::from(kind)) else { continue };
        // As the service has listed it: its attributes make a link of it.
        let kind = if is_plain_link { FileKind::File } else { *kind };
        builder.add(&name, &NameFacts { kind, size, modified, etag, archived, is_plain_link: false });
    }
}

/// Reads the header of a file; None if the file is no table.
pub(crate) fn read_header(path: &Path) -> Option<TableHeader> {
    match read_frame(&mut BufReader::new(own_file::open(path, OpenOptions::new().read(true)).ok()?)) {
        Ok(TableFrame::Sound(header)) => Some(header),
        _ => None,
    }
}

enum TableFrame<T> {
    Sound(T),
    /// Sound bytes of another shape.
    Other(Vec<u8>),
    Damaged,
}

fn write_frame(file: &mut impl io::Write, value: &impl Serialize) -> io::Result<()> {
    let bytes = serde_json::to_vec(value)?;
    let len = u32::try_from(bytes.len()).ok().filter(|len| *len <= LARGEST_FRAME);
    let len = len.ok_or_else(|| io::Error::other("a directory is too large for the table of names"))?;
    file.write_all(&len.to_le_bytes())?;
    file.write_all(&crc32c(&bytes).to_le_bytes())?;
    file.write_all(&bytes)
}

fn read_frame<T: for<'a> Deserialize<'a>>(file: &mut impl io::Read) -> io::Result<TableFrame<T>> {
    let mut head = [0; 8];
    match file.read_exact(&mut head) {
        Err(cause) if cause.kind() == io::ErrorKind::UnexpectedEof => return Ok(TableFrame::Damaged),
        result => result?,
    }
    let [a, b, c, d, crc @ ..] = head;
    let len = u32::from_le_bytes([a, b, c, d]);
    if len > LARGEST_FRAME {
        return Ok(TableFrame::Damaged);
    }
    // Not reserved in one step: a damaged length must not cost memory.
    let mut bytes = Vec::new();
    file.take(u64::from(len)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 != u64::from(len) || crc32c(&bytes) != u32::from_le_bytes(crc) {
        return Ok(TableFrame::Damaged);
    }
    Ok(serde_json::from_slice(&bytes).map_or(TableFrame::Other(bytes), TableFrame::Sound))
}
