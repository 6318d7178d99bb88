//! Outcomes of all members, which are the same: an archive holds all of them or is not made.

use seqferry_store::ErrorClass;

use super::error::ArchiveFailure;
use super::job::{PackJob, PackedArchive};
use crate::clock::now;
use crate::job::JobEvent;
use crate::object::JobItem;
use crate::object_outcome::{CopyMethod, FailureClass, ObjectFailure, ObjectOutcome, ObjectState, VerificationLevel};

/// Reports the outcomes of the members.
pub(super) struct MemberReport<'a> {
    pub(super) pack: &'a PackJob,
    pub(super) started_at: f64,
}

impl MemberReport<'_> {
    /// Reports that all members are in the archive.
    pub(super) fn report_packed(&self, packed: &PackedArchive) {
        for (ordinal, item) in self.pack.members.items().iter().enumerate() {
            let read = packed.contents.get(ordinal).and_then(Option::as_ref);
            let verified = match read {
                Some(member) => member.verified.weaker(packed.verified),
                // It has no bytes, and the archive says so.
                None if item.size == 0 => packed.verified,
                // Read or copied by an earlier run: every part was answered for.
                None if packed.state == ObjectState::Done && packed.verified != VerificationLevel::No => {
                    VerificationLevel::Size
                }
                None => packed.verified,
            };
            self.report(ObjectOutcome {
                state: self.pack.policy.ended_state(packed.state),
                method: packed.method,
                target_etag: Some(packed.target.etag.clone()).filter(|etag| !etag.is_empty()),
                target_version_id: packed.target.version_id.clone(),
                checksum: read.map(|member| member.crc.clone()),
                verified,
                ..self.outcome(item, ObjectState::Done)
            });
        }
    }

    /// Reports that no archive was made: the failed member has the cause, the others name that member.
    pub(super) fn report_failed(&self, failed: &ArchiveFailure) {
        let culprit = failed.member.map(|member| self.pack.members.items()[member].source_key.as_str());
        for (ordinal, item) in self.pack.members.items().iter().enumerate() {
            let failure = match culprit {
                Some(key) if failed.member != Some(ordinal) => {
                    let message = format!(
                        "{} was not made, since an archive lacks no member: {key} could not be packed. See the cause there.",
                        self.pack.address()
                    );
                    let class = match failed.failure.class {
                        FailureClass::Mismatch => FailureClass::Mismatch,
                        _ => FailureClass::Store(ErrorClass::Object),
                    };
                    ObjectFailure::new(class, "ArchiveNotMade", "pack", message)
                }
                _ => failed.failure.clone(),
            };
            self.report(ObjectOutcome { failure: Some(failure), ..self.outcome(item, ObjectState::Failed) });
        }
    }

    /// Reports that the job was cancelled and the upload aborted.
    pub(super) fn report_cancelled(&self) {
        for item in self.pack.members.items() {
            self.report(self.outcome(item, ObjectState::Cancelled));
        }
    }

    fn outcome(&self, item: &JobItem, state: ObjectState) -> ObjectOutcome {
        ObjectOutcome {
            id: item.id,
            size: item.size,
            source_etag: item.etag.clone(),
            state,
            method: CopyMethod::None,
            started_at: self.started_at,
            ended_at: now(),
            attempts: 1,
            retries: 0,
            target_etag: None,
            target_version_id: None,
            checksum: None,
            verified: VerificationLevel::No,
            not_carried: Vec::new(),
            failure: None,
        }
    }

    fn report(&self, outcome: ObjectOutcome) {
        let counters = &self.pack.shared.counters;
        let state = outcome.state;
        let active = counters.begin(outcome.id, "", outcome.size);
        self.pack.shared.report(JobEvent::Ended(Box::new(outcome)));
        counters.end(&active, Some(state));
    }
}
