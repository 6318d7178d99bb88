//! Shares of buckets, served over NFS.
//!
//! [`BucketShare`] gives the files of an export of `seqferry-vfs` an identity that outlives versions and restarts, and
//! decides who may do what. [`GatewaySpec::start`] serves many of them on one port.

mod data_folder;
mod ids;
pub mod journal;
mod ledger;
mod overlay;
mod service;
mod share;
mod writable_share;

pub use ids::FileTable;
pub use service::{Gateway, GatewayError, GatewaySpec, ShareSpec};
pub use share::{BucketShare, ShareDefaults};
pub use writable_share::{UploadSpec, WritableShare, WritableSpec};
