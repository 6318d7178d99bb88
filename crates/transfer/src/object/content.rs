//! Reading both sides and comparing them, range by range, in bounded memory.

use futures::stream::{self, StreamExt as _};
use seqferry_store::{CopySource, ErrorClass, ObjectStore, Range, StoreError, Written};

use super::{Journal, Object, Trouble};
use crate::requests::{Call, Interrupted};

/// What is compared at a time: AWS's advice for ranged reads.
const RANGE: u64 = 8 << 20;
/// Ranges compared side by side.
const SIDE_BY_SIDE: usize = 4;

/// What reading both sides has shown.
pub(super) enum Compared {
    /// Byte for byte the same.
    Equal,
    /// Where they differ, for a person.
    Differs(String),
    /// The target is not what was to be compared any more.
    Gone,
}

impl<J: Journal> Object<'_, J> {
    /// Read both sides, up to the first difference that is met.
    pub(super) async fn compare_content(&self, written: &Written) -> Result<Compared, Trouble> {
        let size = self.item.size;
        let target = CopySource {
            bucket: self.policy.target_bucket.clone(),
            key: self.item.target_key.clone(),
            version_id: None,
            if_match: Some(written.etag.clone()),
            bytes: RANGE,
        };
        let source = self.pinned(RANGE);
        let ranges =
            (0..size.div_ceil(RANGE)).map(|n| Range { first: n * RANGE, last: ((n + 1) * RANGE).min(size) - 1 });
        let mut compared = stream::iter(ranges)
            .map(|range| self.compare_range(&source, &target, range))
            .buffer_unordered(SIDE_BY_SIDE);
        while let Some(range) = compared.next().await {
            match range? {
                Compared::Equal => {}
                different => return Ok(different),
            }
        }
        Ok(Compared::Equal)
    }

    async fn compare_range(&self, source: &CopySource, target: &CopySource, range: Range) -> Result<Compared, Trouble> {
        let _reserved = self.source.reserve_bytes(2 * range.len()).await?;
        let theirs = self
            .source
            .call(get(&source.bucket, range), &self.retries, async |store| read(store.as_ref(), source, range).await)
            .await;
        let theirs = match theirs {
            Ok(bytes) => bytes,
            Err(Interrupted::Failed(error)) => return Err(self.copy_trouble(error)),
            Err(Interrupted::Cancelled) => return Err(Trouble::Cancelled),
        };
        let ours = self
            .target
            .call(get(&target.bucket, range), &self.retries, async |store| read(store.as_ref(), target, range).await)
            .await;
        let ours = match ours {
            Ok(bytes) => bytes,
            // Overwritten or removed since we wrote it: not our copy any more.
            Err(Interrupted::Failed(error))
                if matches!(error.class, ErrorClass::Precondition | ErrorClass::NotFound) =>
            {
                return Ok(Compared::Gone);
            }
            Err(other) => return Err(other.into()),
        };
        let at = theirs.iter().zip(&ours).position(|(a, b)| a != b).or((theirs.len() != ours.len()).then_some(0));
        Ok(match at {
            None => Compared::Equal,
            Some(at) => Compared::Differs(format!("the bytes differ at offset {}", range.first + at as u64)),
        })
    }
}

/// Never two at a time: the second would fill buffers that were not reserved.
fn get(bucket: &str, range: Range) -> Call<'_> {
    Call::read("GetObject", bucket).bytes(range.len()).hedged(false)
}

async fn read(store: &dyn ObjectStore, from: &CopySource, range: Range) -> Result<Vec<u8>, StoreError> {
    let mut body = store.get(from, Some(range)).await?;
    let mut bytes = Vec::with_capacity(usize::try_from(range.len()).unwrap_or_default());
    while let Some(chunk) = body.next().await {
        bytes.extend_from_slice(&chunk?);
    }
    Ok(bytes)
}
