//! Comparison of both sides by reading them, range by range, in bounded memory. A side that ignores ranges is read
//! once, in order.

use std::pin::pin;

use bytes::Bytes;
use futures::stream::{self, StreamExt as _};
use seqferry_client::budget::MemoryPermit;
use seqferry_client::reading::{DigestedBytes, PinnedReader, fetch_pinned, read_pinned};
use seqferry_client::{RequestError, RequestSpec, RetryingClient, UploadJournal};
use seqferry_store::{Cause, ErrorClass, ObjectRef, PinnedObject, Range, WrittenObject};

use super::{AttemptError, Object, TargetAfterWrite};
use crate::etags::{ObjectOrigin, StatedEtag, resolve_contradiction};
use crate::verification::{ExpectedDigest, SegmentLengths, SegmentedDigest, Verdict};

/// Bytes of each side that are compared at a time: 8 MiB, AWS's advice for ranged reads.
const RANGE: u64 = 8 << 20;
/// Ranges compared concurrently.
const PARALLEL_RANGES: usize = 4;

/// Result of reading both sides.
pub(super) enum ContentComparison {
    /// Byte for byte the same.
    Equal,
    /// Different bytes. The text names the offset of the first difference found, for the user.
    Differs(String),
    /// The target was replaced or removed meanwhile.
    Gone,
}

/// The digests that both sides state, and what their bytes give as they are read.
#[derive(Default)]
struct SideDigests {
    source: Option<(ExpectedDigest, SegmentedDigest)>,
    target: Option<(ExpectedDigest, SegmentedDigest)>,
}

impl SideDigests {
    fn new(source: Option<ExpectedDigest>, target: Option<ExpectedDigest>) -> Self {
        let begin = |stated: Option<ExpectedDigest>| {
            stated.map(|stated| {
                let digest = SegmentedDigest::new(&stated);
                (stated, digest)
            })
        };
        Self { source: begin(source), target: begin(target) }
    }

    /// The same before the first byte.
    fn begun_again(&self) -> Self {
        let stated = |side: &Option<(ExpectedDigest, SegmentedDigest)>| side.as_ref().map(|(stated, _)| stated.clone());
        Self::new(stated(&self.source), stated(&self.target))
    }

    /// Adds the next bytes of both sides. Hashing takes milliseconds: too long to keep others from this thread.
    async fn update(&mut self, theirs: Bytes, ours: Bytes) -> Result<(), AttemptError> {
        if self.source.is_none() && self.target.is_none() {
            return Ok(());
        }
        let mut digests = std::mem::take(self);
        let hashed = tokio::task::spawn_blocking(move || {
            for (side, bytes) in [(&mut digests.source, &theirs), (&mut digests.target, &ours)] {
                if let Some((_, digest)) = side {
                    digest.update(bytes);
                }
            }
            digests
        });
        // It fails only when the runtime is being torn down.
        *self = hashed.await.map_err(|_| AttemptError::Cancelled)?;
        Ok(())
    }
}

/// Both sides of one range, and the memory that is reserved for them.
struct ReadRange {
    theirs: Bytes,
    ours: Bytes,
    _memory: Option<MemoryPermit>,
}

/// Reason why the comparison ended before the last byte.
enum ComparisonEnd {
    Different(ContentComparison),
    Other(AttemptError),
}

impl<T: Into<AttemptError>> From<T> for ComparisonEnd {
    fn from(other: T) -> Self {
        Self::Other(other.into())
    }
}

impl<J: UploadJournal> Object<'_, J> {
    /// Reads both sides up to the first difference. Equal bytes must also have the digest that each side states: both
    /// may be corrupted in the same way while they are read.
    pub(super) async fn compare_content(&self, written: &WrittenObject) -> Result<ContentComparison, AttemptError> {
        let size = self.item.size;
        let target = PinnedObject {
            bucket: self.policy.target_bucket.clone(),
            key: self.item.target_key.clone(),
            version_id: None,
            if_match: Some(written.etag.clone()),
            size,
        };
        let source = self.pinned_source();
        let Some(mut digests) = self.stated_digests(written).await? else { return Ok(ContentComparison::Gone) };
        let in_order = || self.source.quirks().ignores_ranges() || self.target.quirks().ignores_ranges();
        let mut read = if size > RANGE && in_order() {
            Err(ComparisonEnd::Other(AttemptError::RangesIgnored))
        } else {
            self.compare_ranges(&source, &target, &mut digests).await
        };
        if matches!(read, Err(ComparisonEnd::Other(AttemptError::RangesIgnored))) {
            digests = digests.begun_again();
            read = self.compare_in_order(&source, &target, &mut digests).await;
        }
        match read {
            Ok(()) => self.compare_stated(digests, written).await,
            Err(ComparisonEnd::Different(different)) => Ok(different),
            Err(ComparisonEnd::Other(error)) => Err(error),
        }
    }

    /// The digests that both sides state. None: the target is another object meanwhile.
    async fn stated_digests(&self, written: &WrittenObject) -> Result<Option<SideDigests>, AttemptError> {
        let source = if self.source.capabilities().digests {
            let meta = self.head_source().await?;
            match self.reference(&meta).await? {
                // The last word on the bytes: no boundary is guessed.
                Some(guessed) if matches!(guessed.cut, Some(SegmentLengths::Even(_))) => {
                    self.exact_reference(&meta).await?.or(Some(guessed))
                }
                found => found,
            }
        } else {
            None
        };
        if !self.target.capabilities().digests {
            return Ok(Some(SideDigests::new(source, None)));
        }
        let target = match self.head_written_target().await? {
            TargetAfterWrite::Found(target) if target.etag == written.etag => {
                let object = ObjectRef::new(&self.policy.target_bucket, &self.item.target_key);
                let first_part = self.first_part_of(self.target, object, &target).await?;
                ExpectedDigest::of(&target, first_part, &self.policy.limits)
            }
            TargetAfterWrite::Found(_) | TargetAfterWrite::Gone => return Ok(None),
            TargetAfterWrite::Denied => None,
        };
        Ok(Some(SideDigests::new(source, target)))
    }

    /// Compares the bytes that were read, which are equal, with the digest that each side states.
    async fn compare_stated(
        &self,
        read: SideDigests,
        written: &WrittenObject,
    ) -> Result<ContentComparison, AttemptError> {
        let sides = [
            ("source", read.source, self.stated_source()),
            ("target", read.target, StatedEtag { etag: &written.etag, ..self.stated_target(ObjectOrigin::Sent) }),
        ];
        for (side, digest, stated) in sides {
            let Some((expected, digest)) = digest else { continue };
            let verdict = expected.verdict(&digest.finish());
            let stated = StatedEtag { is_exact: expected.is_exact(), ..stated };
            if let Verdict::Differs(how) = resolve_contradiction(verdict, &[stated], &self.retry_context).await? {
                let how = format!("both were read and are equal, but they are not what the {side} states: {how}");
                return Ok(ContentComparison::Differs(how));
            }
        }
        Ok(ContentComparison::Equal)
    }

    async fn compare_ranges(
        &self,
        source: &PinnedObject,
        target: &PinnedObject,
        digests: &mut SideDigests,
    ) -> Result<(), ComparisonEnd> {
        // Memory is reserved in the order of the ranges: the one that is hashed next does not wait for later ones.
        let ranges = stream::iter(ranges(self.item.size))
            .map(|range| self.compare_range(source, target, range))
            .buffered(PARALLEL_RANGES);
        let mut ranges = pin!(ranges);
        while let Some(range) = ranges.next().await {
            let ReadRange { theirs, ours, _memory } = range?;
            digests.update(theirs, ours).await?;
        }
        Ok(())
    }

    async fn compare_range(
        &self,
        source: &PinnedObject,
        target: &PinnedObject,
        range: Range,
    ) -> Result<ReadRange, ComparisonEnd> {
        let memory = self.source.reserve_bytes(2 * range.len()).await?;
        let theirs = self.read_pinned(self.source, source, range).await;
        let theirs = theirs.map_err(|error| self.source_error(error))?;
        let ours = self.read_pinned(self.target, target, range).await.map_err(explain_target_error)?;
        difference(&theirs, &ours, range)?;
        Ok(ReadRange { theirs: theirs.bytes, ours: ours.bytes, _memory: memory })
    }

    /// The same with one read of each side that ignores ranges.
    async fn compare_in_order(
        &self,
        source: &PinnedObject,
        target: &PinnedObject,
        digests: &mut SideDigests,
    ) -> Result<(), ComparisonEnd> {
        let mut theirs = self.whole(self.source, source).await.map_err(|error| self.source_error(error))?;
        let mut ours = self.whole(self.target, target).await.map_err(explain_target_error)?;
        for range in ranges(self.item.size) {
            let _reserved = self.source.reserve_bytes(2 * range.len()).await?;
            let read = self.next(self.source, source, &mut theirs, range).await;
            let theirs = read.map_err(|error| self.source_error(error))?;
            let ours = self.next(self.target, target, &mut ours, range).await.map_err(explain_target_error)?;
            difference(&theirs, &ours, range)?;
            digests.update(theirs.bytes, ours.bytes).await?;
        }
        Ok(())
    }

    /// Opens a side that ignores ranges as one stream, from its first byte. None: the side answers ranged requests.
    async fn whole<'s>(
        &self,
        side: &RetryingClient,
        from: &'s PinnedObject,
    ) -> Result<Option<PinnedReader<'s>>, RequestError> {
        if !side.quirks().ignores_ranges() {
            return Ok(None);
        }
        let call = RequestSpec::read("GetObject", &from.bucket).bytes(self.item.size).once();
        let fetched =
            side.call(call, &self.retry_context, async |store| fetch_pinned(&*store, from, None).await).await?;
        Ok(Some(PinnedReader::new(fetched.body, from)))
    }

    async fn next(
        &self,
        side: &RetryingClient,
        from: &PinnedObject,
        reader: &mut Option<PinnedReader<'_>>,
        range: Range,
    ) -> Result<DigestedBytes, RequestError> {
        let Some(reader) = reader else { return self.read_pinned(side, from, range).await };
        tokio::select! {
            biased;
            () = side.cancel().cancelled() => Err(RequestError::Cancelled),
            piece = reader.take(range.len(), &[]) => Ok(piece?),
        }
    }

    async fn read_pinned(
        &self,
        side: &RetryingClient,
        from: &PinnedObject,
        range: Range,
    ) -> Result<DigestedBytes, RequestError> {
        // Never two at a time: the second would fill buffers that were not reserved.
        let call = RequestSpec::read("GetObject", &from.bucket).bytes(range.len()).once();
        side.call(call, &self.retry_context, async |store| read_pinned(&*store, from, range, &[]).await).await
    }

    fn source_error(&self, why: RequestError) -> AttemptError {
        match why {
            RequestError::Failed(error) if error.cause() == Cause::RangeIgnored => AttemptError::RangesIgnored,
            RequestError::Failed(error) => self.copy_error(error),
            RequestError::Cancelled => AttemptError::Cancelled,
        }
    }
}

fn explain_target_error(why: RequestError) -> ComparisonEnd {
    match why {
        RequestError::Failed(error) if error.cause() == Cause::RangeIgnored => {
            ComparisonEnd::Other(AttemptError::RangesIgnored)
        }
        // Overwritten or removed since we wrote it: not our copy any more.
        RequestError::Failed(error) if matches!(error.class, ErrorClass::Precondition | ErrorClass::NotFound) => {
            ComparisonEnd::Different(ContentComparison::Gone)
        }
        other => ComparisonEnd::Other(other.into()),
    }
}

fn ranges(size: u64) -> impl Iterator<Item = Range> {
    (0..size.div_ceil(RANGE)).map(move |n| Range { first: n * RANGE, last: ((n + 1) * RANGE).min(size) - 1 })
}

fn difference(theirs: &DigestedBytes, ours: &DigestedBytes, range: Range) -> Result<(), ComparisonEnd> {
    let at = theirs.bytes.iter().zip(&ours.bytes).position(|(a, b)| a != b);
    match at {
        None => Ok(()),
        Some(at) => {
            let how = format!("the bytes differ at offset {}", range.first + at as u64);
            Err(ComparisonEnd::Different(ContentComparison::Differs(how)))
        }
    }
}
