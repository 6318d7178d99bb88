//! The data plane of Seqferry: list, plan parts, copy, verify, report.
//!
//! A [`Job`] copies many objects within one service. Each goes its own way ([`object`]): look at the target, choose the
//! method and the evidence that will prove the copy, copy (at once, or in parts that survive a crash), verify, report one
//! [`Outcome`]. Requests are made through [`requests::Requests`], the one place that waits for the budget, retries by error
//! class, and stops when the job is cancelled. [`list::list`] lists in parallel. Nothing here outlives a call: what must be
//! remembered is handed to the caller as an [`Event`] before it matters.

pub mod connections;
pub mod evidence;
pub mod job;
pub mod lease;
pub mod limits;
pub mod list;
pub mod object;
pub mod outcome;
pub mod plan;
pub mod progress;
pub mod quirks;
pub mod remove;
pub mod requests;
pub mod results;

pub use job::{Event, Failure, Job, Stop};
pub use lease::{Lease, LeaseHolder, LeasedStore};
pub use limits::Limits;
pub use object::{IfExists, Item, Policy, Verify, Way};
pub use outcome::{FailureClass, Method, ObjectFailure, Outcome, State, Verified};
pub use plan::{PartPlan, PlanError, plan_parts};
pub use progress::{ActiveObject, Progress};
pub use quirks::{Connection, Quirks};
pub use requests::RetryPolicy;
pub use results::Results;
