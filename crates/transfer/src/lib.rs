//! The data plane of Seqferry: list, plan parts, copy, verify, report.
//!
//! A [`Job`] copies many objects within one service. Each object takes the same steps ([`object`]): check the target,
//! choose the method and the verification, copy (in one request, or in parts that survive a crash), verify, report one
//! [`ObjectOutcome`]. Requests are made through [`RetryingClient`](seqferry_client::RetryingClient), the only place
//! that waits for the budget and retries by error class. No state is kept between calls: facts that must be remembered
//! are passed to the caller as a [`JobEvent`] first.

use std::time::Duration;

mod abort;
mod clock;
pub mod content_digest;
pub mod engine;
mod etags;
mod history;
pub mod job;
pub mod limits;
mod location_job;
pub mod object;
pub mod object_outcome;
pub mod pack;
pub mod pipe;
pub mod plan;
pub mod progress;
mod recheck;
mod recorded_digest;
pub mod remove;
mod restore;
pub mod schedule;
mod stated_digest;
pub mod unpack;
pub mod verification;
mod verify_job;

/// Longest wait of a call that blocks its caller, so that the caller can react to a request to stop.
const LONGEST_WAIT: Duration = Duration::from_mins(1);

pub use content_digest::{ContentDigests, DigestRequest, ObjectDigest};
pub use engine::{Engine, EngineStats, JobLocation, JobRequest, Listing};
pub use job::{Job, JobEvent, JobSpec, StopMode};
pub use limits::CopyLimits;
pub use location_job::LocationOptions;
pub use object::{
    DataPath, EncryptionRule, FoundCopy, IfExists, JobItem, LockRule, Policy, Properties, PropertyConflict,
    VerificationRule,
};
pub use object_outcome::{CopyMethod, FailureClass, ObjectFailure, ObjectOutcome, ObjectState, VerificationLevel};
pub use pack::PackOptions;
pub use plan::{PartPlan, PlanError, plan_parts};
pub use progress::{ActiveObject, Progress};
pub use recorded_digest::{RecordedContent, RecordedDigest};
pub use schedule::Scheduler;
pub use verify_job::VerifyOptions;
