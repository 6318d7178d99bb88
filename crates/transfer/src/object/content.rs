//! Comparison of both sides by reading them, range by range, in bounded memory. A side that ignores ranges is read
//! once, in order.

use futures::stream::{self, StreamExt as _};
use seqferry_client::reading::{DigestedBytes, PinnedReader, check_pin};
use seqferry_client::{RequestError, RequestSpec, RetryingClient};
use seqferry_store::error::classify::code;
use seqferry_store::{ErrorClass, PinnedObject, Range, WrittenObject};

use super::{AttemptError, Journal, Object};

/// Bytes of each side that are compared at a time: 8 MiB, AWS's advice for ranged reads.
const RANGE: u64 = 8 << 20;
/// Ranges compared side by side.
const SIDE_BY_SIDE: usize = 4;

/// Result of reading both sides.
pub(super) enum ContentComparison {
    /// Byte for byte the same.
    Equal,
    /// Different bytes. The text names the offset of the first difference found, for the user.
    Differs(String),
    /// The target is not what was to be compared any more.
    Gone,
}

impl<J: Journal> Object<'_, J> {
    /// Read both sides, up to the first difference that is met.
    pub(super) async fn compare_content(&self, written: &WrittenObject) -> Result<ContentComparison, AttemptError> {
        let size = self.item.size;
        let target = PinnedObject {
            bucket: self.policy.target_bucket.clone(),
            key: self.item.target_key.clone(),
            version_id: None,
            if_match: Some(written.etag.clone()),
            size,
        };
        let source = self.pinned();
        let in_order = || self.source.quirks().ignores_ranges() || self.target.quirks().ignores_ranges();
        if size > RANGE && in_order() {
            return self.compare_in_order(&source, &target).await;
        }
        let mut compared = stream::iter(ranges(size))
            .map(|range| self.compare_range(&source, &target, range))
            .buffer_unordered(SIDE_BY_SIDE);
        while let Some(range) = compared.next().await {
            match range {
                Ok(ContentComparison::Equal) => {}
                Ok(different) => return Ok(different),
                Err(AttemptError::RangesIgnored) => return self.compare_in_order(&source, &target).await,
                Err(trouble) => return Err(trouble),
            }
        }
        Ok(ContentComparison::Equal)
    }

    async fn compare_range(
        &self,
        source: &PinnedObject,
        target: &PinnedObject,
        range: Range,
    ) -> Result<ContentComparison, AttemptError> {
        let _reserved = self.source.reserve_bytes(2 * range.len()).await?;
        let theirs = self.read_pinned(self.source, source, range).await;
        let theirs = theirs.map_err(|error| self.source_trouble(error))?;
        Ok(match self.read_pinned(self.target, target, range).await {
            Ok(ours) => difference(&theirs, &ours, range),
            Err(error) => target_gone(error)?,
        })
    }

    /// The same with one read of each side that ignores ranges.
    async fn compare_in_order(
        &self,
        source: &PinnedObject,
        target: &PinnedObject,
    ) -> Result<ContentComparison, AttemptError> {
        let mut theirs = self.whole(self.source, source).await.map_err(|error| self.source_trouble(error))?;
        let mut ours = match self.whole(self.target, target).await {
            Ok(ours) => ours,
            Err(error) => return target_gone(error),
        };
        for range in ranges(self.item.size) {
            let _reserved = self.source.reserve_bytes(2 * range.len()).await?;
            let read = self.next(self.source, source, &mut theirs, range).await;
            let theirs = read.map_err(|error| self.source_trouble(error))?;
            match self.next(self.target, target, &mut ours, range).await {
                Ok(ours) => match difference(&theirs, &ours, range) {
                    ContentComparison::Equal => {}
                    different => return Ok(different),
                },
                Err(error) => return target_gone(error),
            }
        }
        Ok(ContentComparison::Equal)
    }

    /// A side that ignores ranges from its first byte; None for one that can be asked for any.
    async fn whole<'s>(
        &self,
        side: &RetryingClient,
        from: &'s PinnedObject,
    ) -> Result<Option<PinnedReader<'s>>, RequestError> {
        if !side.quirks().ignores_ranges() {
            return Ok(None);
        }
        let call = RequestSpec::read("GetObject", &from.bucket).bytes(self.item.size).once();
        let fetched = side.call(call, &self.retry_context, async |store| store.fetch(from, None).await).await?;
        check_pin(from, &fetched.meta)?;
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
        let read = side
            .call(call, &self.retry_context, async |store| {
                let fetched = store.fetch(from, Some(range)).await?;
                PinnedReader::new(fetched.body, from).take(range.len(), &[]).await
            })
            .await;
        if let Err(RequestError::Failed(error)) = &read
            && error.code == code::RANGE_IGNORED
        {
            side.note_ignored_ranges(error);
        }
        read
    }

    fn source_trouble(&self, why: RequestError) -> AttemptError {
        match why {
            RequestError::Failed(error) if error.code == code::RANGE_IGNORED => AttemptError::RangesIgnored,
            RequestError::Failed(error) => self.copy_trouble(error),
            RequestError::Cancelled => AttemptError::Cancelled,
        }
    }
}

fn target_gone(why: RequestError) -> Result<ContentComparison, AttemptError> {
    match why {
        RequestError::Failed(error) if error.code == code::RANGE_IGNORED => Err(AttemptError::RangesIgnored),
        // Overwritten or removed since we wrote it: not our copy any more.
        RequestError::Failed(error) if matches!(error.class, ErrorClass::Precondition | ErrorClass::NotFound) => {
            Ok(ContentComparison::Gone)
        }
        other => Err(other.into()),
    }
}

fn ranges(size: u64) -> impl Iterator<Item = Range> {
    (0..size.div_ceil(RANGE)).map(move |n| Range { first: n * RANGE, last: ((n + 1) * RANGE).min(size) - 1 })
}

fn difference(theirs: &DigestedBytes, ours: &DigestedBytes, range: Range) -> ContentComparison {
    let at = theirs.bytes.iter().zip(&ours.bytes).position(|(a, b)| a != b);
    match at {
        None => ContentComparison::Equal,
        Some(at) => ContentComparison::Differs(format!("the bytes differ at offset {}", range.first + at as u64)),
    }
}
