//! Comparison with a disk. Files have no checksums: their times are compared, else their bytes, which are cheap to
//! read.

use futures::TryStreamExt as _;
use seqferry_client::{RequestError, RequestSpec, RetryingClient, UploadJournal};
use seqferry_store::{
    ErrorClass, ObjectMeta, ObjectReadExt as _, ObjectRef, PinnedObject, Range, StoreError, StoredMetadata, parse_mtime,
};

use super::{AttemptError, Object};
use crate::object_outcome::VerificationLevel;
use crate::verification::{CopySide, ExpectedDigest, SegmentedDigest, Verdict, compare};

/// Bytes read from a file in one request.
const RANGE: u64 = 8 << 20;

/// Seconds after an object's time, as a service states it, from which no later version can have the same time. Services
/// state whole seconds, and clocks may differ by one.
const SETTLED: f64 = 2.0;

impl<J: UploadJournal> Object<'_, J> {
    /// True when the `ETag`s of a side are no digests of its bytes.
    pub(super) fn has_opaque_etags(&self) -> bool {
        self.source.capabilities().opaque_etags || self.target.capabilities().opaque_etags
    }

    /// True when the bytes of a side may be read to compare it with the other.
    fn has_local_side(&self) -> bool {
        self.source.capabilities().local_reads || self.target.capabilities().local_reads
    }

    /// Compare both sides by their metadata. A side that is a file may be read; an object at a service never is.
    ///
    /// With `trust_times` a file of the same size whose time is kept with the object counts as the same.
    pub(super) async fn compare_sides(
        &self,
        source: &ObjectMeta,
        target: &ObjectMeta,
        same_boundaries: bool,
        trust_times: bool,
    ) -> Result<Verdict, AttemptError> {
        let plain = compare(CopySide::from(source), CopySide::from(target), same_boundaries);
        if !self.has_local_side() || matches!(plain, Verdict::Differs(_)) {
            return Ok(plain);
        }
        if trust_times && self.have_one_time(source, target) {
            return Ok(Verdict::Verified(VerificationLevel::Time));
        }
        let (source_key, target_key) = (self.item.source_key.as_str(), self.item.target_key.as_str());
        let (source_bucket, target_bucket) = (self.policy.source_bucket.as_str(), self.policy.target_bucket.as_str());
        if self.source.capabilities().local_reads {
            let first_part = self.first_part_of(self.target, ObjectRef::new(target_bucket, target_key), target).await?;
            let file = PinnedObject::of(source_bucket, source_key, source);
            self.compare_file(
                self.source,
                &file,
                source.size,
                ExpectedDigest::of(target, first_part, &self.policy.limits),
            )
            .await
        } else {
            let file = PinnedObject::of(target_bucket, target_key, target);
            self.compare_file(self.target, &file, target.size, self.reference(source).await?).await
        }
    }

    /// True when the file's time equals the one that is kept with the object, to the nanosecond.
    fn have_one_time(&self, source: &ObjectMeta, target: &ObjectMeta) -> bool {
        let kept = |meta: &ObjectMeta| StoredMetadata::of(&meta.attributes.metadata).modified;
        // A file that was downloaded from an object without a kept time has got the object's time.
        let ours = kept(source).or_else(|| {
            // Services state whole seconds: an object that was downloaded within the same second may have been
            // overwritten later in it.
            let made = self.target.capabilities().settable_times
                && source.last_modified > 0.0
                && target.changed >= source.last_modified + SETTLED;
            made.then(|| parse_mtime(&time_text(source.last_modified))).flatten()
        });
        ours.is_some() && ours == kept(target)
    }

    /// Read a file and compare it with the digest that a service states of its object.
    async fn compare_file(
        &self,
        disk: &RetryingClient,
        file: &PinnedObject,
        size: u64,
        reference: Option<ExpectedDigest>,
    ) -> Result<Verdict, AttemptError> {
        let Some(reference) = reference else { return Ok(Verdict::Unknown) };
        let mut segments = SegmentedDigest::new(&reference);
        let mut first = 0;
        while first < size {
            let range = Range { first, last: (first + RANGE).min(size) - 1 };
            let _memory = disk.reserve_bytes(range.len()).await?;
            let call = RequestSpec::read("GetObject", &file.bucket).bytes(range.len()).once();
            let read = disk
                .call(call, &self.retry_context, async |store| {
                    let chunks: Vec<bytes::Bytes> =
                        store.get(file, Some(range)).await?.into_stream().try_collect().await?;
                    Ok::<_, StoreError>(chunks)
                })
                .await;
            match read {
                Ok(chunks) => {
                    // Hashing takes milliseconds: too long to keep others from this thread.
                    let hashed = tokio::task::spawn_blocking(move || {
                        for chunk in &chunks {
                            segments.update(chunk);
                        }
                        segments
                    })
                    .await;
                    // It fails only when the runtime is being torn down.
                    let Ok(hashed) = hashed else { return Err(AttemptError::Cancelled) };
                    segments = hashed;
                }
                // Another process writes or removes it: it is not the same in any case.
                Err(RequestError::Failed(error))
                    if matches!(error.class, ErrorClass::Precondition | ErrorClass::NotFound) =>
                {
                    return Ok(Verdict::Differs(error.to_string()));
                }
                Err(other) => return Err(other.into()),
            }
            first = range.last + 1;
        }
        Ok(reference.verdict(&segments.finish()))
    }
}

/// Returns a service's time in the form of a file's metadata: services state milliseconds at most.
pub(super) fn time_text(seconds: f64) -> String {
    let text = format!("{seconds:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
