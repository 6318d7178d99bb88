//! Shares of buckets, served over NFS.
//!
//! [`BucketShare`] gives the files of an export of `seqferry-vfs` an identity that outlives versions and restarts, and
//! decides who may do what. [`GatewaySpec::start`] serves many of them on one port.

mod control;
mod data_folder;
mod epochs;
mod error;
mod held_share;
mod ids;
pub mod journal;
mod ledger;
mod name_list;
mod overlay;
mod prefix_claim;
mod service;
mod share;
mod upload_window;
mod writable_share;
mod writes;

pub use error::GatewayError;
pub use ids::FileTable;
pub use service::{Gateway, GatewayMonitor, GatewaySpec, ShareSpec};
pub use share::{BucketShare, ShareDefaults};
pub use upload_window::UploadWindow;
pub use writable_share::{REMOVED, UploadSpec, WritableShare, WritableSpec};
pub use writes::WritesSpec;
