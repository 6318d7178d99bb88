//! Object storage for Seqferry.
//!
//! Layers above this crate use storage through [`ObjectStore`]: small traits by role ([`ObjectRead`], [`ObjectWrite`],
//! [`MultipartUpload`]) and the [`Capabilities`] of a store. The crate holds two implementations ([`S3Store`],
//! [`DiskStore`] on file systems), the classification of every error ([`error`]), and the limit of bandwidth
//! that their bodies keep ([`ByteThrottle`]). `crates/store-testing` holds a store in memory, the suite that
//! every implementation passes, and a wrapper that injects faults.
//!
//! This crate imports no other crate of ours and knows nothing of transfers. It offers single requests, makes each of
//! them once, and reports the result precisely. The layers above decide about retries.

mod body;
pub mod checksum;
pub mod crash_point;
mod disk;
pub mod error;
mod forward;
pub mod priority;
mod properties;
mod s3;
mod store;
mod stored_metadata;
mod throttle;
mod types;

pub use async_trait::async_trait;
pub use body::{Body, ByteStream, join_aligned};
pub use bytes::Bytes;
pub use checksum::{Checksum, ChecksumAlgorithm, ChecksumKind, DigestAlgorithm, Digester};
pub use disk::{DiskOptions, DiskStore, PageCache, Permissions, Symlinks, file_error, path_refusal};
pub use error::{Advice, Cause, ErrorClass, ObjectUri, Result, Scope, StoreError};
pub use priority::Priority;
pub use properties::{BucketEncryption, CustomerKey, Encryption, ObjectLock, WriteOptions};
pub use s3::address;
pub use s3::{Credentials, EndpointOptions, ResolvedSettings, S3Store};
pub use store::{
    BucketService, DeferredSync, FetchedObject, MultipartUpload, ObjectRead, ObjectReadExt, ObjectStore, ObjectWrite,
    put_buffered_part,
};
pub use stored_metadata::{MTIME, StoredMetadata, format_mtime, parse_mtime};
pub use throttle::ByteThrottle;
pub use types::{
    AbortRule, Attributes, BucketInfo, Capabilities, CompleteUpload, CompletedPart, CopyTarget, CreateUpload, Digests,
    EntryRefusal, ListPage, ListRequest, ListedObject, ListedVersion, ObjectMeta, ObjectRef, PartInfo, PartsPage,
    PinnedObject, PutObject, Range, Removal, RemovedObject, UploadInfo, UploadRef, VersionsPage, VersionsRequest,
    WrittenObject, WrittenPart,
};

/// The traits of stores, for glob imports.
pub mod prelude {
    pub use crate::store::{MultipartUpload, ObjectRead, ObjectReadExt, ObjectStore, ObjectWrite};
}
