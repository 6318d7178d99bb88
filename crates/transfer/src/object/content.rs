//! Reading both sides and comparing them, range by range, in bounded memory.

use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use seqferry_store::{CopySource, ErrorClass, ObjectStore, Range, StoreError, Written};

use super::{Journal, Object, Trouble};
use crate::requests::Interrupted;

/// What is compared at a time: AWS's advice for ranged reads.
const RANGE: u64 = 8 << 20;
/// Ranges compared side by side.
const SIDE_BY_SIDE: usize = 4;

impl<J: Journal> Object<'_, J> {
    /// Read both sides. None: they are equal; else where they differ.
    pub(super) async fn compare_content(&self, written: &Written) -> Result<Option<String>, Trouble> {
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
        let differences: Vec<Option<u64>> = stream::iter(ranges)
            .map(|range| self.differs(&source, &target, range))
            .buffer_unordered(SIDE_BY_SIDE)
            .try_collect()
            .await?;
        Ok(differences.into_iter().flatten().min().map(|at| format!("the bytes differ from offset {at} on")))
    }

    async fn differs(&self, source: &CopySource, target: &CopySource, range: Range) -> Result<Option<u64>, Trouble> {
        let _reserved = self.source.budget().memory(2 * range.len()).await;
        self.source.budget().bandwidth(2 * range.len()).await;
        let theirs = self
            .source
            .call(&source.bucket, range.len(), &self.retries, async |store| read(store.as_ref(), source, range).await)
            .await;
        let theirs = match theirs {
            Ok(bytes) => bytes,
            Err(Interrupted::Failed(error)) => return Err(self.copy_trouble(error)),
            Err(Interrupted::Cancelled) => return Err(Trouble::Cancelled),
        };
        let ours = self
            .target
            .call(&target.bucket, range.len(), &self.retries, async |store| read(store.as_ref(), target, range).await)
            .await;
        let ours = match ours {
            Ok(bytes) => bytes,
            // Overwritten or removed since we wrote it: not our copy any more.
            Err(Interrupted::Failed(error))
                if matches!(error.class, ErrorClass::Precondition | ErrorClass::NotFound) =>
            {
                return Ok(Some(range.first));
            }
            Err(other) => return Err(other.into()),
        };
        let at = theirs.iter().zip(&ours).position(|(a, b)| a != b);
        Ok(at.or((theirs.len() != ours.len()).then_some(0)).map(|at| range.first + at as u64))
    }
}

async fn read(store: &dyn ObjectStore, from: &CopySource, range: Range) -> Result<Vec<u8>, StoreError> {
    let mut body = store.get(from, Some(range)).await?;
    let mut bytes = Vec::with_capacity(usize::try_from(range.len()).unwrap_or_default());
    while let Some(chunk) = body.next().await {
        bytes.extend_from_slice(&chunk?);
    }
    Ok(bytes)
}
