//! The MD5 of a file, kept with its object as rclone keeps it, so that others can check the object against the file.
//!
//! Metadata are sent before the bytes. The bytes of a file that goes in one request are in memory by then. A file that
//! goes in parts must be read again, before its upload is created. Both reads are pinned to the same state of the file,
//! and the CRC64NVME that is computed along with the MD5 must be that of the parts. A resumed upload has its MD5
//! already.

use bytes::Bytes;
use futures::TryStreamExt as _;
use seqferry_client::{RequestError, RequestSpec, UploadJournal};
use seqferry_store::checksum::base64;
use seqferry_store::{
    Checksum, ChecksumAlgorithm, ChecksumKind, DigestAlgorithm, Digester, ErrorClass, ObjectReadExt as _, Range,
    StoreError,
};
use tokio::task::JoinHandle;

use super::{AttemptError, Object};

/// The metadata key that rclone reads: Base64 of the 16 bytes.
pub(super) const MD5: &str = "md5chksum";

/// Bytes read from a file in one request.
const RANGE: u64 = 8 << 20;

/// Computed over a file, in order.
struct FileSums {
    md5: Digester,
    crc: Digester,
}

impl FileSums {
    fn new() -> Self {
        let crc = DigestAlgorithm::Checksum(ChecksumAlgorithm::Crc64Nvme);
        Self { md5: Digester::new(DigestAlgorithm::Md5), crc: Digester::new(crc) }
    }

    fn update(mut self, chunks: &[Bytes]) -> Self {
        for chunk in chunks {
            self.md5.update(chunk);
            self.crc.update(chunk);
        }
        self
    }
}

impl<J: UploadJournal> Object<'_, J> {
    /// True when the MD5 is kept with the object: the policy asks for it, and the source can be read twice at no cost.
    pub(super) fn keeps_md5(&self) -> bool {
        self.policy.md5 && self.source.capabilities().local_reads
    }

    /// Reads the whole file and returns its MD5 in Base64. One range is read while the one before it is hashed; no more
    /// are held.
    pub(super) async fn read_md5(&mut self) -> Result<String, AttemptError> {
        let size = self.item.size;
        let pinned = self.pinned_source();
        let mut hashing = tokio::task::spawn_blocking(FileSums::new);
        let mut first = 0;
        while first < size {
            let range = Range { first, last: (first + RANGE).min(size) - 1 };
            let memory = self.source.reserve_memory(range.len()).await?;
            let call = RequestSpec::read("GetObject", &pinned.bucket).bytes(range.len()).once();
            let read = self
                .source
                .call(call, &self.retry_context, async |store| {
                    let chunks: Vec<Bytes> = store.get(&pinned, Some(range)).await?.into_stream().try_collect().await?;
                    Ok::<_, StoreError>(chunks)
                })
                .await;
            let chunks = match read {
                Ok(chunks) => chunks,
                Err(RequestError::Failed(error)) => return Err(self.copy_error(error)),
                Err(RequestError::Cancelled) => return Err(AttemptError::Cancelled),
            };
            let sums = finish(hashing).await?;
            // Hashing takes milliseconds: too long to keep others from this thread.
            hashing = tokio::task::spawn_blocking(move || {
                let _memory = memory;
                sums.update(&chunks)
            });
            first = range.last + 1;
        }
        let sums = finish(hashing).await?;
        self.read_before = Some(base64(&sums.crc.finish()));
        Ok(base64(&sums.md5.finish()))
    }

    /// Returns the failure of an object whose parts have another CRC64NVME than the read for the MD5: the file was
    /// changed without a new modification time.
    pub(super) fn differs_from_before(&self, sent: Option<&Checksum>) -> Option<AttemptError> {
        let before = self.read_before.as_deref()?;
        let sent = sent.filter(|sum| {
            sum.algorithm == ChecksumAlgorithm::Crc64Nvme && sum.kind == ChecksumKind::FullObject && sum.value != before
        })?;
        let mut error = StoreError::new(
            "GetObject",
            &self.policy.source_bucket,
            Some(&self.item.source_key),
            "SourceChanged",
            None,
        );
        error.class = ErrorClass::Precondition;
        let how = format!("it was read twice, and had CRC64NVME {before} first and {} then", sent.value);
        Some(AttemptError::Again(self.source_change_failure(&error, &how)))
    }
}

/// Returns the sums when the hashing has ended; fails only when the runtime is being torn down.
async fn finish(hashing: JoinHandle<FileSums>) -> Result<FileSums, AttemptError> {
    hashing.await.map_err(|_| AttemptError::Cancelled)
}
