//! The file of a table of names. It is no larger than twice the names that the table holds, and some more.
//!
//! A disk that takes no more is no reason to serve nothing: the table continues in memory, and is written again when
//! the disk takes it again. Until then [`TableFile::is_behind`], and no assignment counts as synced.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::journal::is_full;

/// Records beyond twice the names of the table after which the file is written again.
const SPARE_RECORDS: usize = 1024;
/// Time between two attempts to write the file again, where nothing waits for it.
const REWRITE_PAUSE: Duration = Duration::from_mins(1);

/// Records to be appended.
#[derive(Debug, Default)]
pub(super) struct RecordBuffer {
    bytes: Vec<u8>,
    count: usize,
}

impl RecordBuffer {
    pub(super) fn push(&mut self, record: &[u8]) {
        self.bytes.extend(record);
        self.count += 1;
    }
}

#[derive(Debug)]
pub(super) struct TableFile {
    path: PathBuf,
    /// None: it cannot be opened now.
    file: Option<File>,
    /// Bytes and number of whole records.
    length: u64,
    records: usize,
    /// It lacks records of the table since then.
    behind_since: Option<Instant>,
    /// Bytes that the disk takes, in tests.
    #[cfg(test)]
    pub(super) room: Option<u64>,
}

/// The bytes of a file; none where it is missing.
pub(super) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    match File::open(path) {
        Ok(mut file) => drop(file.read_to_end(&mut bytes)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    Ok(bytes)
}

impl TableFile {
    /// The file of these records, which end at an offset. The file is truncated there.
    ///
    /// # Errors
    /// When it cannot be written for another reason than that the disk is full.
    pub(super) fn open(path: &Path, length: u64, records: usize) -> io::Result<Self> {
        let opened = OpenOptions::new().append(true).create(true).open(path).and_then(|file| {
            if file.metadata()?.len() > length {
                file.set_len(length)?;
            }
            Ok(file)
        });
        let mut found = Self {
            path: path.to_owned(),
            file: None,
            length,
            records,
            behind_since: None,
            #[cfg(test)]
            room: None,
        };
        match opened {
            Ok(file) => found.file = Some(file),
            Err(error) if is_full(&error) => found.fall_behind(&error),
            Err(error) => return Err(error),
        }
        Ok(found)
    }

    fn fall_behind(&mut self, error: &io::Error) {
        if self.behind_since.is_none() {
            tracing::warn!(
                "the table of file handles {} cannot be written: {error}. Names that clients see from now on have new \
                 handles after a restart, until the disk has room again",
                self.path.display()
            );
        }
        self.behind_since = Some(Instant::now());
    }

    /// Append records. Where the disk does not take them the file is behind.
    pub(super) fn append(&mut self, records: &RecordBuffer) {
        if records.count == 0 || self.is_behind() {
            return;
        }
        match self.write(&records.bytes) {
            Ok(()) => {
                self.length += records.bytes.len() as u64;
                self.records += records.count;
            }
            Err(error) => {
                self.fall_behind(&error);
                // A part of a record at the end is cut off by the next process at the latest.
                let _cut = self.file.as_ref().map(|file| file.set_len(self.length));
            }
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        #[cfg(test)]
        if self.room.is_some_and(|room| self.length + bytes.len() as u64 > room) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        match &mut self.file {
            Some(file) => file.write_all(bytes),
            None => Err(io::ErrorKind::StorageFull.into()),
        }
    }

    /// True when records of the table are missing in the file.
    pub(super) fn is_behind(&self) -> bool {
        self.behind_since.is_some()
    }

    /// True when the file is to be written again, for a table of this many names: records are missing in it, and were
    /// so for a while, or most of it counts no more.
    pub(super) fn is_due(&self, names: usize) -> bool {
        self.behind_since.is_some_and(|since| since.elapsed() >= REWRITE_PAUSE)
            || self.records > 2 * names + SPARE_RECORDS
    }

    /// Write the file again. The old one stays until the new one is on the disk.
    pub(super) fn replace(&mut self, records: &RecordBuffer) -> io::Result<()> {
        let mut name = self.path.as_os_str().to_owned();
        name.push(".new");
        let new = PathBuf::from(name);
        let replaced = self.replace_by(&new, &records.bytes);
        match replaced {
            Ok(file) => {
                if self.is_behind() {
                    tracing::warn!("the table of file handles {} is written again", self.path.display());
                }
                (self.file, self.behind_since) = (Some(file), None);
                (self.length, self.records) = (records.bytes.len() as u64, records.count);
                Ok(())
            }
            Err(error) => {
                // It occupies space that is missing.
                let _left = fs::remove_file(&new);
                if self.is_behind() {
                    self.fall_behind(&error);
                }
                Err(error)
            }
        }
    }

    fn replace_by(&self, new: &Path, bytes: &[u8]) -> io::Result<File> {
        #[cfg(test)]
        if self.room.is_some_and(|room| bytes.len() as u64 > room) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let mut file = OpenOptions::new().create(true).truncate(true).write(true).open(new)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(new, &self.path)?;
        if let Some(folder) = self.path.parent() {
            File::open(folder)?.sync_all()?;
        }
        OpenOptions::new().append(true).open(&self.path)
    }

    /// The file, for a sync. None: it is behind.
    pub(super) fn to_sync(&self) -> io::Result<Option<File>> {
        self.file.as_ref().filter(|_| !self.is_behind()).map(File::try_clone).transpose()
    }
}
