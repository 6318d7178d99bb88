//! The policy for all objects of a job, and the facts known of each object before it begins.

use std::time::Duration;

use seqferry_client::RecordedUpload;

use super::properties::Properties;
use super::stream::DataPath;
use crate::clock::now;
use crate::limits::CopyLimits;
use crate::object_outcome::{CopyMethod, ObjectOutcome, ObjectState, VerificationLevel};
use crate::recorded_digest::RecordedContent;
use crate::verification::PartOptions;

/// Rule for a target that exists already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IfExists {
    /// Skip it only if it holds the same bytes, else copy.
    #[default]
    Same,
    /// Skip it if it is of the same size, else copy.
    Size,
    /// Skip it whatever it holds.
    Skip,
    /// Copy without a check of the target.
    Overwrite,
    /// Fail the object.
    Fail,
}

/// Required verification of a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum VerificationRule {
    /// The strongest verification that needs no second read.
    #[default]
    Auto,
    /// A checksum or a digest; where there is none, both sides are read.
    Checksum,
    /// Both sides are read and compared.
    Content,
}

/// Settings shared by all objects of a job.
#[derive(Debug, Clone, Default)]
#[allow(clippy::struct_excessive_bools)] // facts that do not depend on each other
pub struct Policy {
    /// Flow for fair queueing: jobs of one transfer share one turn. Empty: the job is its own flow.
    pub transfer: String,
    /// Bucket to read from.
    pub source_bucket: String,
    /// Bucket to write to.
    pub target_bucket: String,
    /// Prefix that the transfer reads below; empty: the whole bucket. Services limit each prefix on its own.
    pub source_prefix: String,
    /// Prefix that the transfer writes below; empty: the whole bucket.
    pub target_prefix: String,
    /// Path of the bytes: inside the service, or through this process.
    pub data_path: DataPath,
    /// Rule for targets that exist already.
    pub if_exists: IfExists,
    /// Verification required of each target.
    pub verify: VerificationRule,
    /// Part size and threshold.
    pub part_options: PartOptions,
    /// Storage class of the targets; None for the bucket's default.
    pub storage_class: Option<String>,
    /// Properties of the targets besides their bytes.
    pub properties: Properties,
    /// True to store the MD5 of each file in the metadata of its object, as rclone does. Sources that are no files keep
    /// their metadata.
    pub md5: bool,
    /// True when an earlier run of these items may have been interrupted.
    pub resumed: bool,
    /// True when no object was at the target when the transfer began: objects there were written by an earlier run.
    pub target_was_empty: bool,
    /// Creation time of the transfer, seconds since the epoch.
    pub since: f64,
    /// True to copy nothing and abort the uploads that earlier runs left open: every object ends as cancelled.
    pub only_clean: bool,
    /// True to write nothing: an object whose target does not hold the same bytes fails as a mismatch.
    pub compare_only: bool,
    /// True if equal sizes and times do not verify equal bytes: the source is removed afterwards.
    pub ignore_times: bool,
    /// True when items of one target are versions of one object: each begins after the success of the one before.
    pub in_order: bool,
    /// Limit of the objects under way at a time; they begin in the order of the items. None: the job's own limit.
    pub max_objects: Option<usize>,
    /// Settling time of files: one that was younger when it was opened is checked again after its copy. Zero: the files
    /// are at rest.
    pub settle: Duration,
    /// True to sync whole files together before their outcomes are reported, where the target supports that.
    pub defer_sync: bool,
    /// True to never sync whole files: the target is scratch, and lost files are made again.
    pub no_sync: bool,
    /// The service's limits.
    pub limits: CopyLimits,
}

impl Policy {
    /// Returns the state to record for an object that has ended in this one: identical bytes that only an earlier run
    /// can have written were copied by that run, which was interrupted before it recorded them.
    pub(crate) fn ended_state(&self, state: ObjectState) -> ObjectState {
        if state == ObjectState::Skipped && self.resumed && self.target_was_empty { ObjectState::Done } else { state }
    }
}

/// One object to copy.
#[derive(Debug, Clone, Default)]
pub struct JobItem {
    /// Id chosen by the caller; events have it.
    pub id: u64,
    /// Key to read.
    pub source_key: String,
    /// Key to write.
    pub target_key: String,
    /// Bytes, as listed.
    pub size: u64,
    /// `ETag` as listed: the source is pinned to it.
    pub etag: String,
    /// Version to copy, where one was chosen.
    pub version_id: Option<String>,
    /// True when a listing has no object at the target key.
    pub target_absent: bool,
    /// True to stream the bytes through this process whatever the job's data path is: the source is no object that a
    /// service could copy.
    pub streamed: bool,
    /// Upload that an earlier run has recorded.
    pub upload: Option<RecordedUpload>,
    /// Copy that an earlier run has made: it is reported as the outcome, and nothing is copied.
    pub written: Option<FoundCopy>,
    /// Recorded content, for a job that compares it: see [`Job::start_verify`](crate::Job::start_verify).
    pub recorded: Option<Box<RecordedContent>>,
}

/// A copy that was found at the target, and is not recorded.
#[derive(Debug, Clone)]
pub struct FoundCopy {
    /// `ETag` of the target.
    pub etag: String,
    /// Version id of the target, where it has versions.
    pub version_id: Option<String>,
    /// Verification that it holds the bytes of its source.
    pub verified: VerificationLevel,
}

impl FoundCopy {
    pub(crate) fn outcome(&self, item: &JobItem) -> ObjectOutcome {
        ObjectOutcome {
            size: item.size,
            source_etag: item.etag.clone(),
            state: ObjectState::Done,
            method: CopyMethod::Copy,
            target_etag: Some(self.etag.clone()),
            target_version_id: self.version_id.clone(),
            verified: self.verified,
            ..ObjectOutcome::of(item.id, now())
        }
    }
}
