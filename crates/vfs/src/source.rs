//! The two traits that this crate stands on: where objects come from, and a tier of blocks below the memory.
//!
//! A [`Source`] makes whole, retried and budgeted requests; it hides nothing and remembers nothing. Dropping the future
//! of a request, or the body of an answer, cancels the request.

use std::fmt::Debug;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures::StreamExt as _;
use seqferry_store::{ByteStream, ListPage, ListRequest, ObjectMeta, ObjectRef, Range, StoreError};

use crate::version::ObjectVersion;

/// Urgency of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Urgency {
    /// Background: read-ahead, warming a cache.
    ReadAhead,
    /// A program waits for it.
    Demand,
}

/// The answer to a ranged GET.
pub struct RangeBody {
    /// Attributes of the whole object, as the service gave them with the bytes.
    pub meta: ObjectMeta,
    /// The bytes of the range in order. A body that breaks ends with an error, never silently early.
    pub bytes: ByteStream,
}

impl RangeBody {
    /// All bytes in one piece.
    pub async fn collect(mut self) -> Result<Bytes, StoreError> {
        let mut all = BytesMut::new();
        while let Some(chunk) = self.bytes.next().await {
            all.extend_from_slice(&chunk?);
        }
        Ok(all.freeze())
    }
}

/// Source of objects: listings, facts and ranges of bytes.
///
/// Errors are those of the last attempt: a caller does not retry. Cancel a request by dropping its future.
#[async_trait]
pub trait Source: Send + Sync + Debug + 'static {
    /// The endpoint, as [`ObjectVersion::endpoint`] names it.
    fn endpoint(&self) -> &str;

    /// Bytes per second that the user allows. None: no limit.
    fn max_bandwidth(&self) -> Option<u64> {
        None
    }

    /// One page of a listing. Each key and common prefix starts with the prefix of the request.
    async fn list(&self, request: &ListRequest, priority: Urgency) -> Result<ListPage, StoreError>;

    /// Attributes of the current version of an object.
    async fn head(&self, object: ObjectRef<'_>) -> Result<ObjectMeta, StoreError>;

    /// A range of exactly this version. The result is an error of class `Precondition` or `NotFound` where the service
    /// no longer has it, never bytes of another one. `version_id` pins more firmly where it is known.
    async fn get(
        &self,
        version: &ObjectVersion,
        version_id: Option<&str>,
        range: Range,
        priority: Urgency,
    ) -> Result<RangeBody, StoreError>;
}

/// A tier of blocks below the memory, such as a disk cache.
///
/// A tier makes reads faster and never returns wrong bytes: a block that it cannot verify is a miss.
#[async_trait]
pub trait BlockTier: Send + Sync + Debug + 'static {
    /// The bytes of `count` blocks from `first` on ([`block_length`](crate::block_length) of them each), verified. None
    /// for a miss, also on errors; fewer past the end of the object.
    async fn load(&self, version: &ObjectVersion, first: u64, count: u64) -> Vec<Option<Bytes>>;

    /// Keep a block. Returns immediately; a tier that is busy, full or failing drops the block.
    fn keep(&self, version: &ObjectVersion, block: u64, bytes: &Bytes);

    /// Use of the tier in bytes.
    fn usage(&self) -> TierUse {
        TierUse::default()
    }
}

/// Use of a tier and its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TierUse {
    /// Bytes that it takes.
    pub used: u64,
    /// Bytes that it may take. 0: there is no tier; the largest number: there is no limit.
    pub limit: u64,
}
