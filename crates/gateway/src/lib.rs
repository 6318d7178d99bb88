//! Shares of buckets, served over NFS.
//!
//! [`BucketShare`] is a read-only share: it gives each file of an export of `seqferry-vfs` an identity that outlives
//! versions and restarts, and checks permissions. [`WritableShare`] adds writing. [`GatewaySpec::start`] serves many
//! shares on one port.
//!
//! # The writable part
//!
//! A write meets these, in this order:
//!
//! | term | meaning | file |
//! |---|---|---|
//! | write | a call of NFS or FUSE: checked, applied, and acknowledged | `writable_share/read_write.rs` |
//! | data file | sparse file in the cache with the written bytes of one file | `data_folder.rs` |
//! | overlay | files and names that differ from the bucket, in memory | `overlay.rs` |
//! | journal | log of all changes of the overlay; a change is acknowledged once its record is synced | `journal.rs` |
//! | node | a file, folder or link of the overlay; dirty until the bucket has it as it is, clean afterwards | `overlay/node.rs` |
//! | generation | a version of a node's contents and attributes; each change begins a new one | `overlay/node.rs` |
//! | settle time | time without a change after which a generation is uploaded | `writable_share/upload/schedule.rs` |
//! | claim | object at the top of the prefix that names the one gateway that may write below it | `prefix_claim.rs` |
//! | upload | one version of an object for one generation, written under a condition on the `ETag` | `writable_share/upload.rs` |
//! | mark | metadata of the object that identifies this write after a crash | `overlay/token.rs` |
//! | conflict | another program has changed the object: the file is kept beside it | `writable_share/upload/conflict.rs` |
//! | outcome | result of an upload, in the journal until a batch holds it | `overlay/upload_outcome.rs` |
//! | upload batch | file of outcomes that becomes one transfer in the control plane's record | `upload_batches.rs` |
//! | eviction | a clean node leaves the overlay: the bucket alone shows the file | `writable_share/upload/evict.rs` |
//!
//! The journal, the data files and the upload batches are stored words: batches are called `epoch` in journal records,
//! file names and JSON.

mod claimed_cache;
mod control;
mod data_folder;
mod error;
mod file_table;
pub mod journal;
mod journaled_overlay;
mod name_list;
mod object_properties;
mod overlay;
mod prefix_claim;
mod service;
mod share;
mod share_overlaps;
mod upload_batches;
mod upload_window;
mod writable_share;
mod write_probe;
mod write_settings;

pub use control::UploadBatch;
pub use error::GatewayError;
pub use file_table::FileTable;
pub use object_properties::ObjectProperties;
pub use overlay::{OutcomeFailure, OutcomeVersion, UploadOutcome};
pub use service::{Gateway, GatewayMonitor, GatewaySpec, ShareSpec};
pub use share::{BucketShare, ShareDefaults};
pub use upload_batches::RenamedFolder;
pub use upload_window::UploadWindow;
pub use writable_share::{REMOVED, UploadSpec, WritableShare, WritableSpec};
pub use write_settings::WriteSettings;
