//! Packing: many objects or files into one tar, as one upload.
//!
//! 1. **Plan** ([`plan`]) from names, sizes and pins alone: the place of every byte, and the parts of the upload. An
//!    archive that exceeds a limit of the service is refused here, before a byte is sent.
//! 2. **Send** ([`parts`]) all parts in any order, concurrently within the budget. Big members are copied inside the
//!    storage where it can; headers and small members pass through this process. Every read and copy is pinned.
//! 3. **Complete and verify** ([`complete`]), then write the sidecar index ([`sidecar`]), last: its presence means that
//!    the archive is complete.
//!
//! Invariants:
//!
//! - The bytes of an archive depend on the names and contents of its members only.
//! - The upload is recorded before its first part, together with a fingerprint of the plan. So parts of another plan
//!   are never used for this one.
//! - An archive holds all of its members or is not made.
//! - A member that changes meanwhile is named, and the archive starts over once, from the new state of the members.
//! - Files that were changed a moment before they were read are checked again before Complete ([`recheck`]).

mod complete;
mod copied;
mod error;
mod job;
mod member_report;
mod parts;
mod plan;
mod recent_members;
mod recheck;
mod run;
pub(crate) mod sidecar;
mod split;
mod split_members;

use std::sync::Arc;

use tokio::runtime::Handle;
use tracing::Instrument as _;

use crate::job::{Job, JobSpec, PreparedJob};
use crate::schedule::Scheduler;

pub use plan::{MAX_MEMBER_SIZE, MAX_MEMBERS, shards};

/// Options of an archive besides its members and its target.
#[derive(Debug, Clone, Default)]
pub struct PackOptions {
    /// Prefix of keys that the names of members leave out.
    pub strip: String,
    /// True when the sidecar index is written.
    pub index: bool,
}

impl Job {
    /// Start packing the items into one archive, whose key is the target key of all of them. One item may have the
    /// upload of an earlier run.
    pub fn start_pack(runtime: &Handle, scheduler: &Arc<Scheduler>, spec: JobSpec, options: PackOptions) -> Self {
        let PreparedJob { shared, source, target, policy, items, span } = spec.prepare(scheduler);
        runtime.spawn(run::run(Arc::clone(&shared), source, target, policy, options, items).instrument(span));
        Self::of(shared)
    }
}
