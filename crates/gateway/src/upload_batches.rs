//! Upload batches of a share: files of upload outcomes that the control plane has not recorded yet.
//!
//! A batch is written and synced under its number, and counts once the journal records that it is frozen: its outcomes
//! then leave the journal. A file whose number is not in the journal is left over from a process that was killed
//! between the two steps; it is replaced. The contents of a batch never change, and its number is never used again.
//!
//! Stored words call a batch an epoch: the extension of its file, and the header.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use seqferry_store::crash_point::{self, When};
use serde::{Deserialize, Serialize};

use crate::journal::Disk;
use crate::overlay::UploadOutcome;

/// Form of the files that this program writes and reads.
const FORMAT: u32 = 1;
const ENDING: &str = ".epoch";
const NEW: &str = ".new";
/// Bytes of the first line at most.
const MAX_HEADER_BYTES: u64 = 16 << 10;

/// First line of a file.
#[derive(Debug, Serialize, Deserialize)]
struct BatchHeader {
    form: u32,
    /// Name of the journal.
    journal: String,
    epoch: u64,
    outcomes: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    renamed: Option<RenamedFolder>,
}

/// A folder whose files are at new keys since it was renamed: its paths below the share.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RenamedFolder {
    /// Before.
    pub from: String,
    /// Afterwards. Empty: it is no more.
    pub to: String,
}

/// The batches that were frozen and not taken yet.
#[derive(Debug)]
pub(crate) struct UploadBatches<D: Disk> {
    disk: D,
    /// Number of outcomes of each.
    frozen: Mutex<BTreeMap<u64, u64>>,
    /// Held while one is frozen.
    pub(crate) freezing: tokio::sync::Mutex<()>,
}

fn name_of(batch: u64) -> String {
    format!("{batch:020}{ENDING}")
}

fn parse(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(ENDING).filter(|digits| digits.len() == 20)?;
    digits.parse().ok()
}

fn damaged(name: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("{name} is damaged, or of another version of this program"))
}

impl<D: Disk> UploadBatches<D> {
    /// The batches of a folder whose journal froze those before `next`. Others are removed.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub(crate) fn open(disk: D, next: u64) -> io::Result<Self> {
        let mut frozen = BTreeMap::new();
        for name in disk.names()? {
            match parse(&name) {
                Some(batch) if batch < next => match read_header(&disk, &name) {
                    Ok((header, _)) => drop(frozen.insert(batch, header.outcomes)),
                    Err(error) => {
                        tracing::warn!("outcomes of uploads cannot be put on record: {error}. The file is kept");
                    }
                },
                Some(_) => disk.remove(&name)?,
                None if name.strip_suffix(NEW).and_then(parse).is_some() => disk.remove(&name)?,
                None => {}
            }
        }
        Ok(Self { disk, frozen: Mutex::new(frozen), freezing: tokio::sync::Mutex::default() })
    }

    pub(crate) fn disk(&self) -> &D {
        &self.disk
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, u64>> {
        self.frozen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A batch is frozen.
    pub(crate) fn insert(&self, batch: u64, outcomes: u64) {
        self.lock().insert(batch, outcomes);
    }

    /// Numbers of the oldest batches, at most so many.
    pub(crate) fn numbers(&self, most: usize) -> Vec<u64> {
        self.lock().keys().take(most).copied().collect()
    }

    /// Outcomes of all batches.
    pub(crate) fn outcome_count(&self) -> u64 {
        self.lock().values().sum()
    }

    pub(crate) fn contains(&self, batch: u64) -> bool {
        self.lock().contains_key(&batch)
    }

    /// The record has a batch, whose file was removed.
    pub(crate) fn remove(&self, batch: u64) {
        self.lock().remove(&batch);
    }
}

fn read_header<D: Disk>(disk: &D, name: &str) -> io::Result<(BatchHeader, u64)> {
    let file = disk.open(name)?;
    let length = disk.length(&file)?.min(MAX_HEADER_BYTES);
    let mut bytes = vec![0; usize::try_from(length).unwrap_or_default()];
    disk.read_at(&file, 0, &mut bytes)?;
    let end = bytes.iter().position(|byte| *byte == b'\n').ok_or_else(|| damaged(name))?;
    let header: BatchHeader = serde_json::from_slice(&bytes[..end]).map_err(|_| damaged(name))?;
    if header.form == FORMAT && parse(name) == Some(header.epoch) {
        Ok((header, end as u64 + 1))
    } else {
        Err(damaged(name))
    }
}

/// Write the file of a batch. It is on the disk, with its name, when this returns. Blocks.
pub(crate) fn write<D: Disk>(
    disk: &D,
    journal: &str,
    batch: u64,
    lines: &[Box<str>],
    renamed: Option<RenamedFolder>,
) -> io::Result<()> {
    let (journal, outcomes) = (journal.to_owned(), lines.len() as u64);
    let header = BatchHeader { form: FORMAT, journal, epoch: batch, outcomes, renamed };
    let mut text = serde_json::to_string(&header)?;
    text.push('\n');
    for line in lines {
        text.push_str(line);
        text.push('\n');
    }
    let name = name_of(batch);
    let new = name.clone() + NEW;
    crash_point::reach(When::Before, "epoch-written");
    let written = disk.create(&new).and_then(|mut file| {
        disk.append(&mut file, text.as_bytes())?;
        disk.sync(&file)
    });
    if let Err(error) = written {
        // It occupies space on a disk that is full; the next start removes it.
        let _left = disk.remove(&new);
        return Err(error);
    }
    disk.rename(&new, &name)?;
    disk.sync_names()?;
    crash_point::reach(When::After, "epoch-written");
    Ok(())
}

/// Outcomes of a batch, and the folder by whose rename they came. Blocks.
pub(crate) fn read<D: Disk>(disk: &D, batch: u64) -> io::Result<(Vec<UploadOutcome>, Option<RenamedFolder>)> {
    let name = name_of(batch);
    let (header, first) = read_header(disk, &name)?;
    let file = disk.open(&name)?;
    let size = disk.length(&file)?.saturating_sub(first);
    let mut bytes = vec![0; usize::try_from(size).unwrap_or_default()];
    disk.read_at(&file, first, &mut bytes)?;
    let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let outcomes: io::Result<Vec<_>> =
        lines.map(|line| serde_json::from_slice(line).map_err(|_| damaged(&name))).collect();
    Ok((outcomes?, header.renamed))
}

/// Remove the file of a batch that the record has. Blocks.
pub(crate) fn delete<D: Disk>(disk: &D, batch: u64) -> io::Result<()> {
    crash_point::reach(When::Before, "epoch-forgotten");
    match disk.remove(&name_of(batch)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Err(_) | Ok(()) => {}
    }
    disk.sync_names()?;
    crash_point::reach(When::After, "epoch-forgotten");
    Ok(())
}
