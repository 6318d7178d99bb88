//! Outcomes of uploads, which stay in the journal until an upload batch holds them.

use std::collections::BTreeMap;
use std::net::IpAddr;

use seqferry_share::Caller;
use serde::{Deserialize, Serialize};

/// The caller who changed a file last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileWriter {
    pub(crate) uid: u32,
    pub(crate) address: IpAddr,
}

impl From<&Caller> for FileWriter {
    fn from(caller: &Caller) -> Self {
        Self { uid: caller.uid, address: caller.address.to_canonical() }
    }
}

/// End of an upload, or of the attempts at it. Times are seconds since 1970.
#[derive(Debug, Serialize, Deserialize)]
pub struct UploadOutcome<S = String> {
    /// Path below the share; that of a folder marker ends in a slash.
    pub path: S,
    /// Bytes.
    pub size: u64,
    /// Time of the last change of its bytes.
    pub modified: f64,
    /// Time of the first attempt.
    pub started: f64,
    /// Time of the end.
    pub ended: f64,
    /// Attempts in all.
    pub attempts: u32,
    /// The caller who wrote the file; None where the share does not know.
    pub uid: Option<u32>,
    /// Address of that caller.
    pub address: Option<String>,
    /// The version that was made. None: none was.
    pub version: Option<OutcomeVersion<S>>,
    /// Cause of the failure, where no version was made.
    pub failure: Option<OutcomeFailure<S>>,
}

/// A version of an object.
#[derive(Debug, Serialize, Deserialize)]
pub struct OutcomeVersion<S = String> {
    /// `ETag`.
    pub etag: S,
    /// Empty in a bucket without versions.
    pub version_id: S,
    /// Algorithm of the checksum. None: the service stored none.
    pub checksum_algorithm: Option<S>,
    /// The checksum.
    pub checksum: Option<S>,
    /// Way in which the bytes were sent.
    pub method: S,
    /// Kind of the verification of the version.
    pub verified: S,
}

/// Cause of a failure: its class and code, and a sentence with the next step.
#[derive(Debug, Serialize, Deserialize)]
pub struct OutcomeFailure<S = String> {
    /// Class.
    pub class: S,
    /// Code.
    pub code: S,
    /// Operation that failed.
    pub operation: S,
    /// Cause and next step.
    pub message: S,
}

impl UploadOutcome<&str> {
    /// One line of JSON.
    pub(crate) fn line(&self) -> Box<str> {
        serde_json::to_string(self).unwrap_or_default().into()
    }
}

/// Outcomes that no batch holds yet, in their order.
#[derive(Debug, Default)]
pub(crate) struct UnbatchedOutcomes {
    /// Name of this journal alone: batches of different journals are different ones.
    pub(crate) journal: Option<Box<str>>,
    /// Number of the next batch.
    pub(crate) next_batch: u64,
    pub(crate) lines: Vec<Box<str>>,
    /// Those of folders that were renamed, by their rename.
    pub(crate) renames: BTreeMap<u64, Vec<Box<str>>>,
    /// Time of the first that is of no rename, in nanoseconds since 1970.
    pub(crate) since: Option<u64>,
}

impl UnbatchedOutcomes {
    /// Number of all.
    pub(crate) fn count(&self) -> usize {
        self.lines.len() + self.renames.values().map(Vec::len).sum::<usize>()
    }

    /// Those of a rename, or of none.
    pub(crate) fn lines_of(&self, rename: Option<u64>) -> &[Box<str>] {
        match rename {
            Some(rename) => self.renames.get(&rename).map_or(&[], Vec::as_slice),
            None => &self.lines,
        }
    }

    pub(super) fn add(&mut self, at: u64, rename: Option<u64>, line: Box<str>) {
        if let Some(rename) = rename {
            return self.renames.entry(rename).or_default().push(line);
        }
        self.since.get_or_insert(at);
        self.lines.push(line);
    }

    /// A rename has ended: outcomes of it that are in no batch join those of no rename.
    pub(super) fn end_rename(&mut self, rename: u64) {
        for line in self.renames.remove(&rename).unwrap_or_default() {
            self.add(rename, None, line);
        }
    }

    /// The first of them are in a batch.
    pub(super) fn freeze(&mut self, batch: u64, rename: Option<u64>, count: u64) {
        self.next_batch = batch + 1;
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        match rename {
            Some(rename) => {
                if let Some(lines) = self.renames.get_mut(&rename) {
                    lines.drain(..count.min(lines.len()));
                }
                self.renames.retain(|_, lines| !lines.is_empty());
            }
            None => drop(self.lines.drain(..count.min(self.lines.len()))),
        }
        if self.lines.is_empty() {
            self.since = None;
        }
    }
}
