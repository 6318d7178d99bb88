//! Writing one part.

use std::sync::Arc;

use super::super::disk_failure::{DiskFailure, Result};
use super::super::o_direct::{CACHED_PIECE, PIECE, WriteBuffer};
use super::super::record::{OpenUpload, Part, RecordLine};
use super::super::sparse::write_with_holes;
use super::super::{DiskOptions, PageCache};
use super::{PARTS_MAX, UploadHandles, Uploads, gone, lock, written_part};
use crate::types::{UploadRef, WrittenPart};

/// Bytes of parts that a power cut may cost, so that not every part waits for the disk.
const SYNC_EVERY: u64 = 256 << 20;

/// A part in flight. While this exists no other task writes the part, and the upload is not completed. So a cancelled
/// request whose bytes the operating system still writes cannot damage the next attempt.
#[derive(Debug)]
pub(in super::super) struct PartWrite {
    open: Arc<UploadHandles>,
    number: u32,
    size: u64,
    offset: u64,
    /// Bytes received so far.
    came: u64,
    /// Received bytes that are not written yet.
    kept: WriteBuffer,
    past_cache: bool,
}

impl Drop for PartWrite {
    fn drop(&mut self) {
        lock(&self.open.state).under_way.remove(&self.number);
        self.open.ended.notify_all();
    }
}

impl Uploads {
    /// Begin a part of `size` bytes; waits for another writer of the same part.
    fn begin_part(&self, boot: Option<&str>, upload: UploadRef<'_>, number: u32, size: u64) -> Result<PartWrite> {
        let open = self.find(boot, upload)?;
        let mut state = open.when(|state| !state.under_way.contains(&number));
        if state.over {
            return Err(gone());
        }
        let offset = offset(&state.record.begun, number, size)?;
        state.under_way.insert(number);
        drop(state);
        let kept = WriteBuffer::new(offset, CACHED_PIECE);
        Ok(PartWrite { open, number, size, offset, came: 0, kept, past_cache: false })
    }

    /// Begin a part, and remove its old version from the record: only bytes remain to be written.
    pub(in super::super) fn begin_stream(
        &self,
        options: &DiskOptions,
        boot: Option<&str>,
        upload: UploadRef<'_>,
        number: u32,
        size: u64,
    ) -> Result<PartWrite> {
        let mut writing = self.begin_part(boot, upload, number, size)?;
        if options.cache == PageCache::Bypass && writing.open.past_cache().is_some() {
            writing.kept = WriteBuffer::new(writing.offset, PIECE);
            writing.past_cache = true;
        }
        writing.replace(options)?;
        Ok(writing)
    }

    pub(in super::super) fn put_part(
        &self,
        options: &DiskOptions,
        boot: Option<&str>,
        upload: UploadRef<'_>,
        number: u32,
        (body, crc64): (&[u8], u64),
    ) -> Result<WrittenPart> {
        let part = Part { size: body.len() as u64, crc64 };
        let mut writing = self.begin_part(boot, upload, number, part.size)?;
        {
            let state = lock(&writing.open.state);
            if state.record.parts.get(&number) == Some(&part) {
                return Ok(written_part(&state.record.begun, part));
            }
        }
        writing.replace(options)?;
        writing.write_all(body)?;
        writing.finish(options, boot, crc64)
    }
}

impl PartWrite {
    /// Buffer to append the next bytes to, and the number of bytes that fit. None: all have been received.
    pub(in super::super) fn buffer(&mut self) -> Option<(&mut Vec<u8>, usize)> {
        let left = usize::try_from(self.size - self.came).unwrap_or(usize::MAX);
        let (memory, room) = self.kept.room();
        (left > 0).then_some((memory, room.min(left)))
    }

    /// Counts appended bytes, and returns them.
    pub(in super::super) fn count_received(&mut self, bytes: usize) -> &[u8] {
        self.came += bytes as u64;
        let kept = self.kept.bytes();
        &kept[kept.len() - bytes..]
    }

    /// True when the received bytes are to be written now.
    pub(in super::super) fn is_due(&self) -> bool {
        self.kept.is_full() || !self.past_cache
    }

    /// True when writing waits for the disk, and does not only copy.
    pub(in super::super) fn is_blocking(&self) -> bool {
        self.past_cache
    }

    /// Write the received bytes.
    pub(in super::super) fn write(&mut self) -> Result<()> {
        let file = self.open.bytes.as_ref().ok_or_else(gone)?;
        match self.open.past_cache().filter(|_| self.past_cache) {
            None => self.kept.write(file).map_err(DiskFailure::of_write)?,
            Some(o_direct) => {
                if !self.kept.write_past_cache(file, &o_direct.file).map_err(DiskFailure::of_write)? {
                    o_direct.note_refusal();
                    self.past_cache = false;
                }
            }
        }
        Ok(())
    }

    /// Write bytes that are in memory already, without another copy.
    fn write_all(&mut self, bytes: &[u8]) -> Result<()> {
        let file = self.open.bytes.as_ref().ok_or_else(gone)?;
        write_with_holes(file, bytes, self.offset).map_err(DiskFailure::of_write)?;
        self.came = bytes.len() as u64;
        Ok(())
    }

    /// Record the part after all bytes are written; `crc64` is their checksum.
    pub(in super::super) fn finish(
        mut self,
        options: &DiskOptions,
        boot: Option<&str>,
        crc64: u64,
    ) -> Result<WrittenPart> {
        if self.came != self.size {
            return Err(self.length_error());
        }
        self.write()?;
        let (number, part) = (self.number, Part { size: self.size, crc64 });
        let bytes = self.open.bytes.as_ref().ok_or_else(gone)?;
        let (copied, due) = {
            let mut state = lock(&self.open.state);
            state
                .append(&RecordLine::Part(number, part, boot.unwrap_or("-").to_owned()))
                .map_err(DiskFailure::of_write)?;
            state.record.parts.insert(number, part);
            state.unsynced.push(number);
            state.unsynced_bytes += part.size;
            // Without a boot id a later process cannot tell whether the machine was restarted.
            let due = options.durable && (state.unsynced_bytes >= SYNC_EVERY || boot.is_none());
            if due {
                state.unsynced_bytes = 0;
            }
            (written_part(&state.record.begun, part), due.then(|| std::mem::take(&mut state.unsynced)))
        };
        if let Some(numbers) = due {
            let synced = rustix::fs::fdatasync(bytes);
            let mut state = lock(&self.open.state);
            // The system forgets which bytes were lost: another sync would report a false success.
            if let Err(errno) = synced {
                state.give_up();
                return Err(DiskFailure::of_write(errno));
            }
            for number in numbers {
                // A part that is being rewritten is not among them.
                if let Some(part) = state.record.parts.get(&number).copied()
                    && !state.unsynced.contains(&number)
                {
                    state.append(&RecordLine::Safe(number, part)).map_err(DiskFailure::of_write)?;
                }
            }
        }
        Ok(copied)
    }

    /// Removes the old part from the record, before the first byte is written.
    fn replace(&self, options: &DiskOptions) -> Result<()> {
        let mut state = lock(&self.open.state);
        if state.record.parts.contains_key(&self.number) {
            state.append(&RecordLine::Drop(self.number)).map_err(DiskFailure::of_write)?;
            state.record.parts.remove(&self.number);
            if options.durable {
                rustix::fs::fdatasync(&state.log).map_err(DiskFailure::of_write)?;
            }
        }
        Ok(())
    }

    pub(in super::super) fn length_error(&self) -> DiskFailure {
        DiskFailure::new("IncompleteBody", format!("part {} was said to have {} bytes", self.number, self.size))
    }
}

/// Offset in the file at which a part begins. An error for a part that the upload cannot have.
fn offset(begun: &OpenUpload, number: u32, size: u64) -> Result<u64> {
    let wrong = |message: String| Err(DiskFailure::new("InvalidArgument", message));
    if !(1..=PARTS_MAX).contains(&number) {
        return wrong(format!("part number {number} is outside 1 to {PARTS_MAX}"));
    }
    if begun.part_size == 0 && number > 1 {
        return wrong(format!("part {number} of an upload that was begun without a part size"));
    }
    if begun.part_size > 0 && size > begun.part_size {
        return wrong(format!("part {number} has {size} bytes, parts of this upload at most {}", begun.part_size));
    }
    Ok(u64::from(number - 1) * begun.part_size)
}
