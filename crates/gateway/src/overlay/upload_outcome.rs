//! Outcomes of uploads, which stay in the journal until an upload batch holds them.

use std::net::IpAddr;

use seqferry_share::Caller;
use serde::Serialize;

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
#[derive(Debug, Default, Serialize)]
pub(crate) struct UploadOutcome<'a> {
    /// Path below the share; that of a folder marker ends in a slash.
    pub(crate) path: &'a str,
    pub(crate) size: u64,
    pub(crate) modified: f64,
    pub(crate) started: f64,
    pub(crate) ended: f64,
    pub(crate) attempts: u32,
    /// The caller who wrote the file; None where the share does not know.
    pub(crate) uid: Option<u32>,
    pub(crate) address: Option<String>,
    /// The version that was made. None: none was.
    pub(crate) version: Option<OutcomeVersion<'a>>,
    /// Cause of the failure, where no version was made.
    pub(crate) failure: Option<OutcomeFailure<'a>>,
}

/// A version of an object.
#[derive(Debug, Serialize)]
pub(crate) struct OutcomeVersion<'a> {
    pub(crate) etag: &'a str,
    /// Empty in a bucket without versions.
    pub(crate) version_id: &'a str,
    pub(crate) checksum_algorithm: Option<&'a str>,
    pub(crate) checksum: Option<&'a str>,
    pub(crate) method: &'a str,
    pub(crate) verified: &'a str,
}

/// Cause of a failure: its class and code, and a sentence with the next step.
#[derive(Debug, Serialize)]
pub(crate) struct OutcomeFailure<'a> {
    pub(crate) class: &'a str,
    pub(crate) code: &'a str,
    pub(crate) operation: &'a str,
    pub(crate) message: &'a str,
}

impl UploadOutcome<'_> {
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
    /// Time of the first of them, in nanoseconds since 1970.
    pub(crate) since: Option<u64>,
}

impl UnbatchedOutcomes {
    pub(super) fn add(&mut self, at: u64, line: Box<str>) {
        self.since.get_or_insert(at);
        self.lines.push(line);
    }

    /// The first of them are in a batch.
    pub(super) fn freeze(&mut self, batch: u64, count: u64) {
        self.next_batch = batch + 1;
        let count = usize::try_from(count).unwrap_or(usize::MAX).min(self.lines.len());
        self.lines.drain(..count);
        if self.lines.is_empty() {
            self.since = None;
        }
    }
}
