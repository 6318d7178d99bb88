//! The job of one archive: its options, its members, and what is known of the target.

use std::sync::Arc;

use seqferry_client::{RecordedUpload, RetryContext, RetryingClient};
use seqferry_store::WrittenObject;

use super::PackOptions;
use super::parts::PackedMember;
use super::plan::Members;
use crate::job::JobState;
use crate::object::{Policy, TargetState};
use crate::object_outcome::{CopyMethod, ObjectState, VerificationLevel};
use crate::progress::ObjectTracker;

/// Metadata of an archive: a digest of the names, sizes and pins of its members.
pub(super) const MADE_OF: &str = "seqferry-pack";

/// Result for an archive that is at the target.
pub(super) struct PackedArchive {
    pub(super) state: ObjectState,
    pub(super) method: CopyMethod,
    pub(super) target: WrittenObject,
    pub(super) verified: VerificationLevel,
    /// Members that were read or copied, by ordinal. Empty when none was.
    pub(super) contents: Vec<Option<PackedMember>>,
}

/// One archive on its way.
pub(super) struct PackJob {
    pub(super) shared: Arc<JobState>,
    pub(super) source: RetryingClient,
    pub(super) target: RetryingClient,
    pub(super) policy: Policy,
    pub(super) options: PackOptions,
    pub(super) key: String,
    pub(super) members: Arc<Members>,
    pub(super) retry_context: Arc<RetryContext>,
    pub(super) id: u64,
    pub(super) active: Arc<ObjectTracker>,
    pub(super) again: bool,
    /// A third attempt was made.
    pub(super) thrice: bool,
    /// Archives whose parts were all sent, and whose members are checked again.
    pub(super) archives: u32,
    pub(super) there: TargetState,
    /// `ETag` of an archive that was made, and does not hold what was sent.
    pub(super) rejected: Option<String>,
    pub(super) recorded: Option<RecordedUpload>,
}
