//! Comparing with a disk. Files have no checksums: their times speak for them, else their bytes, which are cheap to read there.

use futures::TryStreamExt as _;
use seqferry_client::{RequestError, RequestSpec, RetryingClient};
use seqferry_store::{ErrorClass, MTIME, ObjectMeta, ObjectReadExt as _, PinnedObject, Range, StoreError, read_mtime};

use super::{AttemptError, Journal, Object};
use crate::outcome::VerificationLevel;
use crate::verification::{ExpectedDigest, SegmentedDigest, Side, Verdict, compare};

/// Bytes read from a file in one request.
const RANGE: u64 = 8 << 20;

/// Seconds after which what a service tells as an object's time is the time of no later version. Clocks may differ by one of them.
const SETTLED: f64 = 2.0;

impl<J: Journal> Object<'_, J> {
    pub(super) fn has_files(&self) -> bool {
        self.source.capabilities().files || self.target.capabilities().files
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
        let plain = compare(Side::from(source), Side::from(target), same_boundaries);
        if !self.has_files() || matches!(plain, Verdict::Differs(_)) {
            return Ok(plain);
        }
        if trust_times && self.have_one_time(source, target) {
            return Ok(Verdict::Proven(VerificationLevel::Time));
        }
        let (source_key, target_key) = (self.item.source_key.as_str(), self.item.target_key.as_str());
        let (source_bucket, target_bucket) = (self.policy.source_bucket.as_str(), self.policy.target_bucket.as_str());
        let version = self.item.version_id.as_deref();
        if self.source.capabilities().files {
            let first_part = self.first_part_of(self.target, target_bucket, target_key, None, target).await?;
            let file = pinned(source_bucket, source_key, source);
            self.compare_file(
                self.source,
                &file,
                source.size,
                ExpectedDigest::of(target, first_part, &self.policy.limits),
            )
            .await
        } else {
            let first_part = self.first_part_of(self.source, source_bucket, source_key, version, source).await?;
            let file = pinned(target_bucket, target_key, target);
            self.compare_file(
                self.target,
                &file,
                target.size,
                ExpectedDigest::of(source, first_part, &self.policy.limits),
            )
            .await
        }
    }

    /// True when the file's time equals the one that is kept with the object, to the nanosecond.
    fn have_one_time(&self, source: &ObjectMeta, target: &ObjectMeta) -> bool {
        let kept = |meta: &ObjectMeta| meta.attributes.metadata.get(MTIME).and_then(|text| read_mtime(text));
        // What was downloaded without a time of its own got the object's.
        let ours = kept(source).or_else(|| {
            // A service tells it in seconds: what was downloaded within the same second may have been overwritten after that.
            let made = self.target.capabilities().files
                && source.last_modified > 0.0
                && target.changed >= source.last_modified + SETTLED;
            made.then(|| read_mtime(&time_text(source.last_modified))).flatten()
        });
        ours.is_some() && ours == kept(target)
    }

    /// Read a file and compare it with what a service promises of its object.
    async fn compare_file(
        &self,
        disk: &RetryingClient,
        file: &PinnedObject,
        size: u64,
        reference: Option<ExpectedDigest>,
    ) -> Result<Verdict, AttemptError> {
        let Some(reference) = reference else { return Ok(Verdict::Unknown) };
        let mut stretches = SegmentedDigest::new(&reference);
        let mut first = 0;
        while first < size {
            let range = Range { first, last: (first + RANGE).min(size) - 1 };
            let _memory = disk.reserve_bytes(range.len()).await?;
            let call = RequestSpec::read("GetObject", &file.bucket).bytes(range.len()).once();
            let read = disk
                .call(call, &self.tries, async |store| {
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
                            stretches.update(chunk);
                        }
                        stretches
                    })
                    .await;
                    // It fails only when the runtime is being torn down.
                    let Ok(hashed) = hashed else { return Err(AttemptError::Cancelled) };
                    stretches = hashed;
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
        Ok(reference.verdict(&stretches.finish()))
    }
}

/// A service's time as the metadata of a file has it: services tell milliseconds at most.
pub(super) fn time_text(seconds: f64) -> String {
    let text = format!("{seconds:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn pinned(bucket: &str, key: &str, meta: &ObjectMeta) -> PinnedObject {
    PinnedObject {
        bucket: bucket.to_owned(),
        key: key.to_owned(),
        version_id: None,
        if_match: Some(meta.etag.clone()),
        size: meta.size,
    }
}
