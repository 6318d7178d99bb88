//! The digest that a storage states of a whole object, compared with the bytes that were read of it in order.
//!
//! It verifies what has no checksum of its own: members of an archive, and members that are packed in several parts. A
//! digest that contradicts the bytes is a difference ([`crate::etags`] names the exceptions). Two equal
//! reads verify nothing, since both may be corrupted in the same way.

use bytes::Bytes;
use seqferry_client::{RequestError, RequestSpec, RetryContext, RetryingClient};
use seqferry_store::{ChecksumKind, ObjectMeta, ObjectRef, PinnedObject, Range};

use crate::etags::{ObjectOrigin, StatedEtag, resolve_contradiction};
use crate::limits::CopyLimits;
use crate::object_outcome::VerificationLevel;
use crate::plan::etag_parts;
use crate::verification::{ExpectedDigest, SegmentedDigest, Verdict};

/// Bytes that are read at a time where an object is read again, with the boundaries of parts that it really has.
const RANGE: u64 = 8 << 20;

/// The digest that the storage states of an object. A disk states none.
#[derive(Debug)]
pub(crate) struct StatedDigest {
    client: RetryingClient,
    object: PinnedObject,
    meta: ObjectMeta,
    cost: LookupCost,
    expected: Option<ExpectedDigest>,
}

/// Result of comparing bytes with the digest that is stated of them.
#[derive(Debug)]
pub(crate) enum DigestComparison {
    /// The bytes are those that the storage states.
    Equal(VerificationLevel),
    /// The storage states nothing that can be compared.
    Nothing,
    /// The statement contradicts the bytes; the text names both values.
    Differs(String),
}

/// Requests that are made to learn the digest, and to compare it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LookupCost {
    /// One at most: perhaps it turns out that not all bytes are read.
    Cheap,
    /// One for each part, and another read of all bytes, where parts have uneven lengths.
    Whole,
}

impl StatedDigest {
    /// Asks for the digest of `object`, whose attributes are `meta`.
    pub(crate) async fn of(
        client: &RetryingClient,
        object: &PinnedObject,
        meta: &ObjectMeta,
        limits: &CopyLimits,
        cost: LookupCost,
    ) -> Result<Self, RequestError> {
        let (client, object, meta) = (client.clone(), object.clone(), meta.clone());
        let mut stated = Self { client, object, meta, cost, expected: None };
        if stated.client.capabilities().digests {
            stated.expected = stated.fetch_expected(limits).await?;
        }
        Ok(stated)
    }

    async fn fetch_expected(&self, limits: &CopyLimits) -> Result<Option<ExpectedDigest>, RequestError> {
        let first_part = self.first_part().await?;
        match ExpectedDigest::of(&self.meta, first_part, limits) {
            None if first_part.is_some() && self.cost == LookupCost::Whole => self.exact().await,
            found => Ok(found),
        }
    }

    /// Length of the first part, where a digest rests on the boundaries of parts.
    async fn first_part(&self) -> Result<Option<u64>, RequestError> {
        let meta = &self.meta;
        let by_boundaries = etag_parts(&meta.etag).is_some()
            && !meta.opaque_etag
            && meta.checksum.as_ref().is_none_or(|sum| sum.kind == ChecksumKind::Composite);
        if !by_boundaries {
            return Ok(None);
        }
        if etag_parts(&meta.etag) == Some(1) {
            return Ok(Some(meta.size));
        }
        let call = RequestSpec::read("HeadObject", &self.object.bucket);
        let context = RetryContext::default();
        let head = self.client.call(call, &context, async |store| store.head(self.object(), Some(1)).await);
        match head.await {
            Ok(part) => Ok((part.etag == meta.etag).then_some(part.size)),
            Err(RequestError::Failed(_)) => Ok(None),
            Err(RequestError::Cancelled) => Err(RequestError::Cancelled),
        }
    }

    /// The digest over parts of the lengths that the storage states.
    async fn exact(&self) -> Result<Option<ExpectedDigest>, RequestError> {
        let lengths = self.stated_etag(false).part_sizes(&RetryContext::default()).await?;
        Ok(lengths.and_then(|lengths| ExpectedDigest::over(&self.meta, lengths)))
    }

    fn object(&self) -> ObjectRef<'_> {
        ObjectRef::new(&self.object.bucket, &self.object.key).at_version(self.object.version_id.as_deref())
    }

    fn stated_etag(&self, is_exact: bool) -> StatedEtag<'_> {
        let (object, etag, size) = (self.object(), self.meta.etag.as_str(), self.meta.size);
        StatedEtag { client: &self.client, object, etag, size, origin: ObjectOrigin::Found, is_exact }
    }

    /// Returns a digest to be fed with all bytes of the object in order. None: the storage states none.
    pub(crate) fn digest(&self) -> Option<SegmentedDigest> {
        self.expected.as_ref().map(SegmentedDigest::new)
    }

    /// Compares the bytes that were read with what the storage states of them.
    pub(crate) async fn compare(&self, read: Option<SegmentedDigest>) -> Result<DigestComparison, RequestError> {
        let (Some(expected), Some(read)) = (&self.expected, read) else { return Ok(DigestComparison::Nothing) };
        let mut verdict = self.verdict(expected, read).await?;
        if matches!(verdict, Verdict::Doubtful(_)) && !expected.is_exact() && self.cost == LookupCost::Whole {
            // Nothing is wrong, perhaps, but the boundaries that the first part suggested.
            if let Some(exact) = self.exact().await?.filter(|exact| exact.cut != expected.cut) {
                let read = self.read_whole(SegmentedDigest::new(&exact)).await?;
                verdict = self.verdict(&exact, read).await?;
            }
        }
        Ok(match verdict {
            Verdict::Verified(level) => DigestComparison::Equal(level),
            Verdict::Differs(how) => DigestComparison::Differs(how),
            Verdict::Doubtful(_) | Verdict::Unknown => DigestComparison::Nothing,
        })
    }

    async fn verdict(&self, expected: &ExpectedDigest, read: SegmentedDigest) -> Result<Verdict, RequestError> {
        let stated = self.stated_etag(expected.is_exact());
        resolve_contradiction(expected.verdict(&read.finish()), &[stated], &RetryContext::default()).await
    }

    async fn read_whole(&self, mut digest: SegmentedDigest) -> Result<SegmentedDigest, RequestError> {
        let mut first = 0;
        while first < self.object.size {
            let range = Range { first, last: (first + RANGE).min(self.object.size) - 1 };
            let _memory = self.client.reserve_memory(range.len()).await?;
            digest.update(&self.client.read_range(&self.object, range).await?.bytes);
            first = range.last + 1;
        }
        Ok(digest)
    }
}

/// The first bytes of a chunk.
pub(crate) fn first(chunk: &Bytes, len: u64) -> Bytes {
    chunk.slice(..usize::try_from(len).unwrap_or(usize::MAX).min(chunk.len()))
}

/// Adds bytes to a digest: milliseconds of work, too long to keep others from a thread of the engine. None: no digest
/// is computed.
pub(crate) async fn hash(digest: Option<SegmentedDigest>, bytes: Bytes) -> Option<SegmentedDigest> {
    let mut digest = digest?;
    let hashing = tokio::task::spawn_blocking(move || {
        digest.update(&bytes);
        digest
    });
    // It fails only when the runtime is being torn down.
    hashing.await.ok()
}
