//! Parts that an upload of an earlier run holds.

use std::collections::BTreeMap;

use seqferry_client::{UploadJournal, UploadSession};
use seqferry_store::checksum::hex;
use seqferry_store::{ChecksumAlgorithm, DigestAlgorithm, Digester, PartInfo, WrittenPart};

use super::{InputUpload, PipeError, RateLimited};

/// See the module.
pub(super) struct UploadedParts {
    /// The checksum that the upload was created with. None: the service lists no checksums of parts.
    pub(super) sum: Option<ChecksumAlgorithm>,
    parts: BTreeMap<u32, PartInfo>,
}

impl UploadedParts {
    /// Returns the uploaded part if it has these bytes: it is not sent again.
    pub(super) fn find(&self, number: u32, bytes: &[u8], sum: Option<&str>) -> Option<WrittenPart> {
        let part = self.parts.get(&number).filter(|part| part.size == bytes.len() as u64)?;
        let is_same = match (&part.checksum, sum) {
            (Some(kept), Some(ours)) => kept == ours,
            _ => part.etag.eq_ignore_ascii_case(&hex(&Digester::of(DigestAlgorithm::Md5, bytes))),
        };
        let found = || WrittenPart { etag: part.etag.clone(), checksum: part.checksum.clone(), opaque_etag: false };
        is_same.then(found)
    }
}

impl<S: RateLimited, J: UploadJournal + Send> InputUpload<S, J> {
    /// Resumes the upload that an earlier run has recorded. None: the upload does not exist.
    pub(super) async fn adopt(&self, session: &mut UploadSession) -> Result<Option<UploadedParts>, PipeError> {
        let Some(parts) = session.adopt().await? else { return Ok(None) };
        if parts.is_empty() {
            // Nothing shows whether it was created with a checksum, which its end has to know. A new one costs nothing.
            session.abort(false).await;
            return Ok(None);
        }
        // Parts were sent with this one, unless the service refuses it.
        let sum = self.sum().filter(|_| parts.iter().all(|part| part.checksum.is_some()));
        let parts = parts.into_iter().map(|part| (part.number, part)).collect();
        Ok(Some(UploadedParts { sum, parts }))
    }
}
