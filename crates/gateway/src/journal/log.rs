//! Segments and checkpoints of a journal on a disk: reading them at the start, writing frames, and ending old ones.
//!
//! `NUMBER.log` holds the records of a segment, `NUMBER.checkpoint` stands for all records before it. Both are made
//! under another name, synced, and renamed. The state is the newest checkpoint and all segments from its number on.

use std::io;

use seqferry_store::crash_point::{self, When};

use super::JournalError;
use super::disk::{Disk, is_full};
use super::frame::{
    BadHeader, FRAME, Frame, HEADER, JournalFileHeader, JournalFileKind, RecordGroup, VERSION, is_followed, read_frame,
};

const LOG: &str = ".log";
const CHECKPOINT: &str = ".checkpoint";
/// Ending of a file that is not whole yet.
const NEW: &str = ".new";

/// Result of reading a journal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReplaySummary {
    /// Records of the checkpoint and of the segments.
    pub records: u64,
    /// Bytes at the end that no call had been acknowledged for: a loss of power or a kill cut them off.
    pub torn_bytes: u64,
}

/// The segment that is written.
#[derive(Debug)]
pub(super) struct SegmentLog<D: Disk> {
    disk: D,
    file: D::File,
    header: JournalFileHeader,
    /// Number of the next record.
    next: u64,
    /// Bytes in this segment.
    length: u64,
    /// A write or sync failed: what is on the disk is not known any more.
    is_broken: bool,
    /// Calls of sync so far, those of names included.
    syncs: u64,
}

fn name_of(kind: JournalFileKind, segment: u64) -> String {
    let ending = if kind == JournalFileKind::Log { LOG } else { CHECKPOINT };
    format!("{segment:020}{ending}")
}

/// Kind and number of a file of a journal.
fn parse(name: &str) -> Option<(JournalFileKind, u64)> {
    let (kind, number) = match (name.strip_suffix(LOG), name.strip_suffix(CHECKPOINT)) {
        (Some(number), _) => (JournalFileKind::Log, number),
        (_, Some(number)) => (JournalFileKind::Checkpoint, number),
        _ => return None,
    };
    let digits = number.len() == 20 && number.bytes().all(|byte| byte.is_ascii_digit());
    Some((kind, digits.then(|| number.parse().ok())??))
}

fn failed(what: &str, name: &str) -> impl FnOnce(io::Error) -> JournalError {
    let text = format!("{what} {name} of the journal failed");
    move |error| JournalError(format!("{text}: {error}. Check the disk, then start the gateway again"))
}

fn broken() -> JournalError {
    JournalError("the journal cannot be written since an earlier error of its disk".to_owned())
}

fn damaged(name: &str, how: &str) -> JournalError {
    JournalError(format!(
        "the journal is damaged: {name} {how}. What was written to the shares may be in it: keep the folder, and copy it \
         before anything else. With an empty folder the gateway starts without it"
    ))
}

/// Make a file with its header under its name.
fn make<D: Disk>(disk: &D, header: &JournalFileHeader) -> io::Result<(D::File, String)> {
    let name = name_of(header.kind, header.segment) + NEW;
    let mut file = disk.create(&name)?;
    if let Err(error) = disk.append(&mut file, &header.encode()) {
        // Removed at the next start.
        let _left = disk.remove(&name);
        return Err(error);
    }
    Ok((file, name))
}

fn publish<D: Disk>(disk: &D, file: &D::File, new: &str) -> io::Result<()> {
    disk.sync(file)?;
    disk.rename(new, new.trim_end_matches(NEW))?;
    disk.sync_names()
}

/// Result of reading a file behind its header.
struct SegmentScan {
    next: u64,
    records: u64,
    /// Offset behind the last sound frame, and the length of the file.
    sound: u64,
    length: u64,
    is_ended: bool,
}

fn header<D: Disk>(disk: &D, file: &D::File, name: &str) -> Result<JournalFileHeader, JournalError> {
    let mut bytes = [0; HEADER];
    let length = disk.length(file).map_err(failed("reading", name))?;
    if length < HEADER as u64 {
        return Err(damaged(name, "is too short for a header"));
    }
    disk.read_at(file, 0, &mut bytes).map_err(failed("reading", name))?;
    let (kind, segment) = parse(name).ok_or_else(|| damaged(name, "has no name of a journal's file"))?;
    match JournalFileHeader::decode(&bytes) {
        Ok(header) if (header.kind, header.segment) == (kind, segment) => Ok(header),
        Ok(_) => Err(damaged(name, "is another file")),
        Err(BadHeader::Damaged) => Err(damaged(name, "has no sound header")),
        Err(BadHeader::Version(version)) => Err(JournalError(format!(
            "the journal {name} is of format {version}, and this program reads format {VERSION}. Start the program that \
             wrote it, let it upload all files, then start this one"
        ))),
    }
}

/// Hand the records of a file to `replay`, a frame in memory at a time.
fn read<D: Disk>(
    disk: &D,
    file: &D::File,
    (name, header): (&str, &JournalFileHeader),
    replay: &mut impl FnMut(&[u8]) -> Result<(), String>,
) -> Result<SegmentScan, JournalError> {
    let length = disk.length(file).map_err(failed("reading", name))?;
    let mut reading = SegmentScan { next: header.first, records: 0, sound: HEADER as u64, length, is_ended: false };
    // A checkpoint counts its own records.
    let mut expected = if header.kind == JournalFileKind::Log { header.first } else { 0 };
    while let Some(frame) =
        read_frame(disk, file, reading.sound, length, header.salt).map_err(failed("reading", name))?
    {
        if frame.first != expected || reading.is_ended {
            return Err(damaged(name, "holds records in another order than they were written"));
        }
        // Ends a checkpoint.
        reading.is_ended = frame.count == 0;
        deliver(&frame, name, replay)?;
        expected += u64::from(frame.count);
        reading.records += u64::from(frame.count);
        reading.sound += (FRAME + frame.records.len()) as u64;
    }
    if header.kind == JournalFileKind::Log {
        reading.next = expected;
    }
    Ok(reading)
}

fn deliver(
    frame: &Frame,
    name: &str,
    replay: &mut impl FnMut(&[u8]) -> Result<(), String>,
) -> Result<(), JournalError> {
    let records = frame.records().ok_or_else(|| damaged(name, "holds records that do not fit their frame"))?;
    records.into_iter().try_for_each(|record| {
        replay(record).map_err(|why| JournalError(format!("a record of the journal {name} cannot be used: {why}")))
    })
}

impl<D: Disk> SegmentLog<D> {
    /// Read the journal of a folder, or begin one in an empty folder. Leftovers of a crash are removed.
    pub(super) fn open(
        disk: D,
        mut replay: impl FnMut(&[u8]) -> Result<(), String>,
    ) -> Result<(Self, ReplaySummary), JournalError> {
        let names = disk.names().map_err(failed("listing", "the files"))?;
        let mut found: Vec<(JournalFileKind, u64)> = names.iter().filter_map(|name| parse(name)).collect();
        found.sort_by_key(|(_, segment)| *segment);
        let checkpoint =
            found.iter().filter(|(kind, _)| *kind == JournalFileKind::Checkpoint).map(|(_, number)| *number).max();
        let segments: Vec<u64> = found
            .iter()
            .filter(|(kind, number)| *kind == JournalFileKind::Log && Some(*number) >= checkpoint)
            .map(|(_, number)| *number)
            .collect();
        if found.is_empty() {
            return Ok((Self::begin(disk, 1, 0, &names)?, ReplaySummary::default()));
        }
        let mut total = ReplaySummary::default();
        let mut next = 0;
        if let Some(number) = checkpoint {
            let name = name_of(JournalFileKind::Checkpoint, number);
            let file = disk.open(&name).map_err(failed("opening", &name))?;
            let header = header(&disk, &file, &name)?;
            let reading = read(&disk, &file, (&name, &header), &mut replay)?;
            if !reading.is_ended || reading.sound != reading.length {
                return Err(damaged(&name, "does not end as it was written"));
            }
            (next, total.records) = (reading.next, reading.records);
        }
        let mut log = None;
        for (expected, number) in (checkpoint.unwrap_or(1)..).zip(&segments) {
            let name = name_of(JournalFileKind::Log, expected);
            if expected != *number {
                return Err(damaged(&name, "is missing"));
            }
            let is_last = segments.last() == Some(number);
            let (opened, torn) = Self::continued(&disk, &name, (next, is_last), &mut replay)?;
            total.records += opened.next - next;
            total.torn_bytes += torn;
            next = opened.next;
            log = Some(opened);
        }
        let mut log =
            log.ok_or_else(|| damaged(&name_of(JournalFileKind::Log, checkpoint.unwrap_or(1)), "is missing"))?;
        // A killed process may have renamed what it did not sync.
        log.disk.sync_names().map_err(failed("syncing", "the folder"))?;
        log.syncs += 1;
        let first = checkpoint.unwrap_or(0);
        let old = found.iter().filter(|(_, number)| *number < first).map(|(kind, number)| name_of(*kind, *number));
        log.clear(&names, old)?;
        Ok((log, total))
    }

    /// Read a segment that there is. The last one is written again up to its torn end.
    fn continued(
        disk: &D,
        name: &str,
        (first, is_last): (u64, bool),
        replay: &mut impl FnMut(&[u8]) -> Result<(), String>,
    ) -> Result<(Self, u64), JournalError> {
        let file = disk.open(name).map_err(failed("opening", name))?;
        let header = header(disk, &file, name)?;
        if header.first != first {
            return Err(damaged(name, "does not follow the one before"));
        }
        let reading = read(disk, &file, (name, &header), replay)?;
        let torn = reading.length - reading.sound;
        let is_followed = torn > 0
            && is_followed(disk, &file, reading.sound, reading.length, header.salt).map_err(failed("reading", name))?;
        if torn > 0 && (!is_last || is_followed) {
            return Err(damaged(name, &format!("has bytes at {} that were not written so", reading.sound)));
        }
        let (disk, length) = (disk.clone(), reading.sound);
        let mut log = Self { disk, file, header, next: reading.next, length, is_broken: false, syncs: 0 };
        if is_last {
            log.rewrite(name).map_err(failed("writing", name))?;
        }
        Ok((log, torn))
    }

    /// Write the segment again. A killed process may have written what it did not sync, and after a failed sync the
    /// system shows bytes that it never brings to the disk: what was read counts from now on.
    fn rewrite(&mut self, name: &str) -> io::Result<()> {
        let new = name.to_owned() + NEW;
        match self.copied_to(&new) {
            Ok(file) => {
                self.file = file;
                self.syncs += 2;
                Ok(())
            }
            Err(error) if is_full(&error) => {
                match self.disk.remove(&new) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    _ => {}
                }
                self.rewrite_in_place()
            }
            Err(error) => Err(error),
        }
    }

    /// The segment in a new file of its name.
    fn copied_to(&self, new: &str) -> io::Result<D::File> {
        let mut file = self.disk.create(new)?;
        self.pieces(|_, piece| self.disk.append(&mut file, piece))?;
        publish(&self.disk, &file, new)?;
        Ok(file)
    }

    /// Write the same bytes in the place of those that were read, which needs no space. All groups but the last one
    /// were synced before, so that a loss of power meanwhile leaves what a torn end is.
    fn rewrite_in_place(&mut self) -> io::Result<()> {
        self.disk.set_length(&self.file, self.length)?;
        self.pieces(|at, piece| self.disk.write_at(&self.file, at, piece))?;
        self.disk.sync(&self.file)?;
        self.syncs += 1;
        Ok(())
    }

    /// Hand the bytes of the segment on, with their offsets.
    fn pieces(&self, mut take: impl FnMut(u64, &[u8]) -> io::Result<()>) -> io::Result<()> {
        let mut at = 0;
        while at < self.length {
            let mut piece = vec![0; usize::try_from(self.length - at).unwrap_or(PIECE).min(PIECE)];
            self.disk.read_at(&self.file, at, &mut piece)?;
            take(at, &piece)?;
            at += piece.len() as u64;
        }
        Ok(())
    }

    /// Begin a segment.
    fn begin(disk: D, segment: u64, first: u64, names: &[String]) -> Result<Self, JournalError> {
        let header = JournalFileHeader { kind: JournalFileKind::Log, segment, first, salt: fastrand::u64(..) };
        let made = make(&disk, &header).and_then(|(file, new)| publish(&disk, &file, &new).map(|()| file));
        let file = made.map_err(failed("making", &name_of(JournalFileKind::Log, segment)))?;
        let log = Self { disk, file, header, next: first, length: HEADER as u64, is_broken: false, syncs: 2 };
        log.clear(names, std::iter::empty())?;
        Ok(log)
    }

    /// Remove files that are not whole, and old ones.
    fn clear(&self, names: &[String], old: impl Iterator<Item = String>) -> Result<(), JournalError> {
        let unfinished = names.iter().filter(|name| name.strip_suffix(NEW).and_then(parse).is_some()).cloned();
        unfinished.chain(old).try_for_each(|name| match self.disk.remove(&name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("removing", &name)(error)),
            _ => Ok(()),
        })
    }

    /// Number of the next record.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Bytes in the segment that is written.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Calls of sync so far.
    pub(super) fn syncs(&self) -> u64 {
        self.syncs
    }

    fn guarded<T>(&mut self, work: impl FnOnce(&mut Self) -> Result<T, JournalError>) -> Result<T, JournalError> {
        if self.is_broken {
            return Err(broken());
        }
        self.is_broken = true;
        let done = work(self)?;
        self.is_broken = false;
        Ok(done)
    }

    /// Write these records and sync them. They are on the disk when this returns. After an error nothing is written any
    /// more: a second sync of pages that could not be written would report success.
    pub(super) fn write(&mut self, group: RecordGroup) -> Result<(), JournalError> {
        self.guarded(|log| {
            let name = name_of(JournalFileKind::Log, log.header.segment);
            let next = log.next + u64::from(group.count);
            let frame = group.frame(log.header.salt);
            crash_point::reach(When::Before, "journal-written");
            log.disk.append(&mut log.file, &frame).map_err(failed("writing", &name))?;
            crash_point::reach(When::After, "journal-written");
            log.disk.sync(&log.file).map_err(failed("syncing", &name))?;
            crash_point::reach(When::After, "journal-synced");
            log.syncs += 1;
            log.length += frame.len() as u64;
            log.next = next;
            Ok(())
        })
    }

    /// Go on in a new segment. The result writes the checkpoint that stands for all records before it. Where a file
    /// cannot be made, as on a full disk, the log continues in its segment.
    pub(super) fn rotate(&mut self) -> Result<CheckpointWriter<D>, JournalError> {
        if self.is_broken {
            return Err(broken());
        }
        let (segment, first) = (self.header.segment + 1, self.next);
        let header = |kind| JournalFileHeader { kind, segment, first, salt: fastrand::u64(..) };
        let header_of_checkpoint = header(JournalFileKind::Checkpoint);
        let made = make(&self.disk, &header_of_checkpoint);
        let (file, name) = made.map_err(|error| self.not_rotated(segment, error))?;
        let writer = CheckpointWriter {
            disk: self.disk.clone(),
            file,
            name,
            header: header_of_checkpoint,
            group: RecordGroup::new(0),
            is_finished: false,
        };
        let header = header(JournalFileKind::Log);
        let (file, new) = make(&self.disk, &header).map_err(|error| self.not_rotated(segment, error))?;
        self.disk.sync(&file).map_err(|error| self.not_rotated(segment, error))?;
        self.disk.rename(&new, new.trim_end_matches(NEW)).map_err(|error| self.not_rotated(segment, error))?;
        // From here on the new segment may be on the disk: the old one must not continue.
        self.guarded(|log| {
            log.disk.sync_names().map_err(failed("syncing", "the folder"))?;
            (log.file, log.header, log.length) = (file, header, HEADER as u64);
            log.syncs += 2;
            Ok(writer)
        })
    }

    /// Remove what a rotation has made that cannot continue.
    fn not_rotated(&self, segment: u64, error: io::Error) -> JournalError {
        let name = name_of(JournalFileKind::Log, segment);
        // Made again by the next rotation, and removed at the next start.
        let _left = self.disk.remove(&(name.clone() + NEW));
        failed("making", &name)(error)
    }

    /// True when nothing is written any more.
    pub(super) const fn is_broken(&self) -> bool {
        self.is_broken
    }
}

/// Writes the records that stand for all those before a segment, beside the segment being written.
#[derive(Debug)]
pub struct CheckpointWriter<D: Disk> {
    disk: D,
    file: D::File,
    name: String,
    header: JournalFileHeader,
    group: RecordGroup,
    is_finished: bool,
}

/// Bytes that are written at a time.
const PIECE: usize = 1 << 20;

impl<D: Disk> CheckpointWriter<D> {
    /// Add a record.
    ///
    /// # Errors
    /// When it cannot be written. The journal continues without the checkpoint.
    pub fn add(&mut self, record: &[u8]) -> Result<(), JournalError> {
        super::check_size(record)?;
        if self.group.len() > 0 && self.group.len() + record.len() > PIECE {
            let next = self.group.first + u64::from(self.group.count);
            self.flush(RecordGroup::new(next))?;
        }
        self.group.push(record);
        Ok(())
    }

    fn flush(&mut self, next: RecordGroup) -> Result<(), JournalError> {
        let frame = std::mem::replace(&mut self.group, next).frame(self.header.salt);
        self.disk.append(&mut self.file, &frame).map_err(failed("writing", &self.name))
    }

    /// The checkpoint counts from now on; what it stands for is removed.
    ///
    /// # Errors
    /// When it cannot be written; the files before stay.
    pub fn finish(mut self) -> Result<(), JournalError> {
        let next = self.group.first + u64::from(self.group.count);
        if self.group.count > 0 {
            self.flush(RecordGroup::new(next))?;
        }
        // A frame without records is the end.
        self.flush(RecordGroup::new(next))?;
        publish(&self.disk, &self.file, &self.name).map_err(failed("writing", &self.name))?;
        self.is_finished = true;
        let names = self.disk.names().map_err(failed("listing", "the files"))?;
        let old = names.iter().filter(|name| parse(name).is_some_and(|(_, number)| number < self.header.segment));
        old.into_iter().try_for_each(|name| self.disk.remove(name)).map_err(failed("removing", "old files"))
    }
}

impl<D: Disk> Drop for CheckpointWriter<D> {
    /// Removes the file of a checkpoint that was not finished: it takes up no space.
    fn drop(&mut self) {
        if !self.is_finished {
            // Removed at the next start.
            let _left = self.disk.remove(&self.name);
        }
    }
}
