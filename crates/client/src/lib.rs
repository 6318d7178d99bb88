//! Requests to object storage, done well: retried by error class, within one budget, hedged, pinned.
//!
//! `crates/store` makes each request once and says precisely how it went. This crate makes requests succeed where they
//! can. Transfers stand on it, and so does everything else that reads or writes objects (a mount, a gateway).
//!
//! | to do | use |
//! |---|---|
//! | a client for one endpoint and identity | [`ClientPool::client`], one pool for each process |
//! | attributes of an object, or whether a bucket may be used | [`RetryingClient::head`], [`RetryingClient::check_bucket`] |
//! | a range of an object, never mixing two versions of it | [`RetryingClient::read_range`] |
//! | headers of an archive, with jumps over its contents | [`forward::ForwardReader`] |
//! | a listing by pages, with or without a delimiter | [`RetryingClient::pages`], [`RetryingClient::list_page`] |
//! | a complete listing, many pages at a time | [`list::list`] |
//! | a multipart upload that survives kills | [`upload::UploadSession`] |
//! | any other request of the store | [`RetryingClient::call`] |
//! | what requests have come to, by prefix class | [`metrics::snapshot`] |
//! | spans of requests, listings and all above as lines | [`trace::start`] |
//!
//! Invariants: every request of a process draws from the one [`Budget`]; whether a
//! failed request is sent again is decided in [`retry`] alone, by the class that the store gave the error; a read of a
//! pinned object returns bytes of that version or an error; nothing here outlives its client.
//!
//! The engine of transfers, a mount (with its audit of names) and the warming of a cache make one `Budget` each. Each
//! of them runs in a process of its own: whatever puts two of them into one process has to pass one `Budget` to both.
//!
//! ```
//! use std::sync::Arc;
//!
//! use seqferry_client::{Endpoint, RequestMetrics, RetryPolicy, RetryingClient};
//! use seqferry_store::prelude::*;
//! use seqferry_client::{Budget, BudgetLimits};
//! use seqferry_store::{Attributes, ListRequest, ObjectRef, PinnedObject, Range};
//! use seqferry_store_testing::{MemoryStore, ObjectWriteExt as _};
//! use tokio_util::sync::CancellationToken;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let store = MemoryStore::default();
//! store.create_bucket("runs");
//! store.put("runs", "r1/s1.fastq", "ACGTACGT".into(), &Attributes::default()).await?;
//!
//! let endpoint = Endpoint::new(Arc::new(store));
//! let budget = Budget::new(BudgetLimits::default());
//! let (cancel, metrics) = (CancellationToken::new(), Arc::new(RequestMetrics::default()));
//! let client = RetryingClient::new(endpoint, budget, RetryPolicy::default(), cancel, Arc::clone(&metrics));
//!
//! let request = ListRequest { bucket: "runs".into(), delimiter: Some("/".into()), ..ListRequest::default() };
//! let mut pages = client.pages(request);
//! while let Some(page) = pages.next().await? {
//!     assert_eq!(page.common_prefixes, ["r1/"]);
//! }
//!
//! let meta = client.head(ObjectRef::new("runs", "r1/s1.fastq")).await?;
//! let object = PinnedObject::of("runs", "r1/s1.fastq", &meta);
//! let read = client.read_range(&object, Range { first: 2, last: 5 }).await?;
//! assert_eq!(&read.bytes[..], b"GTAC");
//! assert_eq!(metrics.requests(), 3);
//! # Ok(())
//! # }
//! ```

mod absent;
pub mod budget;
pub mod client;
pub mod connections;
pub mod forward;
pub mod lease;
pub mod list;
pub mod metrics;
mod objects;
pub mod pages;
pub mod pool;
pub mod quirks;
pub mod reading;
pub mod request;
pub mod retry;
mod runtime_probe;
mod target_check;
pub mod trace;
pub mod upload;
mod writes;

pub use budget::{Budget, BudgetLimits};
pub use client::RetryingClient;
pub use connections::ConnectionCache;
pub use lease::{Lease, LeaseHolder, LeasedStore};
pub use metrics::RequestMetrics;
pub use objects::{KeyLookup, LookupResult, RangeRead};
pub use pages::Pages;
pub use pool::{ClientPool, EndpointSpec};
pub use quirks::{ChecksumSupport, ConditionalRequest, Endpoint, Quirks};
pub use request::{RequestError, RequestSpec, RetryContext};
pub use retry::{Backoff, RetryPolicy};
pub use runtime_probe::RuntimeProbe;
pub use upload::{RecordedUpload, UploadJournal, UploadSession};
