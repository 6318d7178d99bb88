//! Outcomes of uploads, recorded in the journal together with the end of the upload.

use seqferry_store::{Checksum, ErrorClass, ObjectMeta};
use seqferry_transfer::{CopyMethod, FailureClass, ObjectFailure};

use super::Uploader;
use super::plan::{FileUpload, UploadTask};
use crate::journal::Disk;
use crate::overlay::{Change, Node, OutcomeFailure, OutcomeVersion, Overlay, UploadOutcome, now};

/// Attempt whose failure goes on record.
const RECORDED_ATTEMPT: u32 = 3;
/// The same for a failure that passes by itself, some 18 minutes after the first: an outage only delays.
const RECORDED_LATER: u32 = 12;

/// A version of an object that was written.
#[derive(Debug, Clone)]
pub(super) struct WrittenVersion {
    pub(super) version_id: Option<String>,
    pub(super) checksum: Option<Checksum>,
    pub(super) method: CopyMethod,
    pub(super) verified: &'static str,
}

impl From<&ObjectMeta> for WrittenVersion {
    /// Of an object that an attempt before has written.
    fn from(meta: &ObjectMeta) -> Self {
        let method = if meta.etag.contains('-') { CopyMethod::Multipart } else { CopyMethod::Stream };
        let verified = if meta.checksum.is_some() { "checksum" } else { "size" };
        Self { version_id: meta.version_id.clone(), checksum: meta.checksum.clone(), method, verified }
    }
}

fn seconds(nanoseconds: u64) -> f64 {
    std::time::Duration::from_nanos(nanoseconds).as_secs_f64()
}

fn outcome<'a>(path: &'a str, node: Option<&Node>, begun: Option<u64>, attempts: u32) -> (u64, UploadOutcome<&'a str>) {
    let at = now();
    let writer = node.and_then(|node| node.writer);
    let outcome = UploadOutcome {
        path,
        size: node.map_or(0, |node| node.attributes().size),
        modified: node.map_or(0.0, |node| seconds(node.modified)),
        started: seconds(begun.unwrap_or(at)),
        ended: seconds(at),
        attempts,
        uid: writer.map(|writer| writer.uid),
        address: writer.map(|writer| writer.address.to_string()),
        version: None,
        failure: None,
    };
    (at, outcome)
}

/// The change that records an outcome: with those of the renamed folder that the file was in, if it was in one.
fn recorded(overlay: &Overlay, node: Option<&Node>, at: u64, outcome: &UploadOutcome<&str>) -> Change {
    let rename = node.and_then(|node| overlay.rename_of(node)).map(|rename| rename.since);
    Change::UploadOutcome { at, rename, line: outcome.line() }
}

impl<D: Disk> Uploader<D> {
    /// The record of a version that was written of a file.
    pub(super) fn written(
        &self,
        overlay: &Overlay,
        (number, path): (u64, &str),
        (etag, size): (&str, u64),
        written: &WrittenVersion,
    ) -> Change {
        let (begun, failed) = self.inner.control.attempt_of(number);
        let node = overlay.node(number);
        let (at, outcome) = outcome(path, node, begun, failed + 1);
        let version = OutcomeVersion {
            etag,
            version_id: written.version_id.as_deref().unwrap_or_default(),
            checksum_algorithm: written.checksum.as_ref().map(|sum| sum.algorithm.name()),
            checksum: written.checksum.as_ref().map(|sum| sum.value.as_str()),
            method: written.method.as_str(),
            verified: written.verified,
        };
        recorded(overlay, node, at, &UploadOutcome { size, version: Some(version), ..outcome })
    }

    /// The record of a file that did not get to its key.
    pub(super) fn not_written(
        &self,
        overlay: &Overlay,
        (file_upload, node): (&FileUpload, &Node),
        failure: OutcomeFailure<&str>,
    ) -> Change {
        let (begun, failed) = self.inner.control.attempt_of(file_upload.number);
        let (at, outcome) = outcome(&file_upload.path, Some(node), begun, failed + 1);
        recorded(overlay, Some(node), at, &UploadOutcome { failure: Some(failure), ..outcome })
    }

    /// Put a file that fails on record, once for each time that it begins to fail.
    pub(super) async fn note_failure(&self, work: &UploadTask, failure: &ObjectFailure) {
        let UploadTask::Send(file_upload) = work else { return };
        let (begun, attempts) = self.inner.control.attempt_of(file_upload.number);
        let passes = matches!(failure.class, FailureClass::Store(ErrorClass::Retry | ErrorClass::Throttle));
        if attempts != if passes { RECORDED_LATER } else { RECORDED_ATTEMPT } {
            return;
        }
        let recorded = self.inner.overlay.record(|overlay| {
            let node = overlay.node(file_upload.number);
            let (at, outcome) = outcome(&file_upload.path, node, begun, attempts);
            let (class, operation, message) = (failure.class.as_str(), failure.operation, failure.message.as_str());
            let failure = OutcomeFailure { class, code: "UploadFailed", operation, message };
            Ok((vec![recorded(overlay, node, at, &UploadOutcome { failure: Some(failure), ..outcome })], ()))
        });
        // The journal has said why.
        let _recorded = recorded.await;
    }
}
