//! From a body that comes in chunks to pieces of known length, with their digests.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use seqferry_store::error::classify::code;
use seqferry_store::{Body, CopySource, DigestAlgorithm, Digester, ErrorClass, ObjectMeta, StoreError};

/// Bytes that were read, and what was computed over them on the way.
#[derive(Debug)]
pub(in crate::object) struct Piece {
    pub(in crate::object) bytes: Bytes,
    digests: Vec<(DigestAlgorithm, Vec<u8>)>,
}

impl Piece {
    /// A digest of the bytes: as computed on the way, else computed now.
    pub(in crate::object) fn digest(&self, algorithm: DigestAlgorithm) -> Vec<u8> {
        let known = self.digests.iter().find(|(known, _)| *known == algorithm).map(|(_, digest)| digest.clone());
        known.unwrap_or_else(|| Digester::of(algorithm, &self.bytes))
    }
}

/// A body as it is, whose digests are computed as it goes by.
pub(in crate::object) fn digested(body: Body, algorithms: &[DigestAlgorithm]) -> (Body, GoneBy) {
    let digesters = algorithms.iter().map(|algorithm| (*algorithm, Digester::new(*algorithm))).collect();
    let gone_by = GoneBy(Arc::new(Mutex::new(digesters)));
    let seen = gone_by.clone();
    let body = body.seen_by(move |bytes| {
        for (_, digester) in &mut *seen.digesters() {
            digester.update(bytes);
        }
    });
    (body, gone_by)
}

/// Digests of what has gone by.
#[derive(Debug, Clone)]
pub(in crate::object) struct GoneBy(Arc<Mutex<Vec<(DigestAlgorithm, Digester)>>>);

impl GoneBy {
    fn digesters(&self) -> MutexGuard<'_, Vec<(DigestAlgorithm, Digester)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(in crate::object) fn finish(self) -> HashMap<DigestAlgorithm, Vec<u8>> {
        self.digesters().drain(..).map(|(algorithm, digester)| (algorithm, digester.finish())).collect()
    }
}

/// Takes a body apart.
pub(in crate::object) struct Reader<'a> {
    body: Body,
    source: &'a CopySource,
}

impl<'a> Reader<'a> {
    pub(in crate::object) fn new(body: Body, source: &'a CopySource) -> Self {
        Self { body, source }
    }

    /// The next `size` bytes.
    ///
    /// # Errors
    /// When the body breaks or ends before.
    pub(in crate::object) async fn take(
        &mut self,
        size: u64,
        algorithms: &[DigestAlgorithm],
    ) -> Result<Piece, StoreError> {
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        let mut digesters: Vec<(DigestAlgorithm, Digester)> =
            algorithms.iter().map(|algorithm| (*algorithm, Digester::new(*algorithm))).collect();
        let see = |bytes: &[u8]| digesters.iter_mut().for_each(|(_, digester)| digester.update(bytes));
        let bytes = self.body.take(size, see).await?;
        if bytes.len() < size {
            return Err(self.broken(code::TRUNCATED, "the body ended early"));
        }
        let digests = digesters.into_iter().map(|(algorithm, digester)| (algorithm, digester.finish())).collect();
        Ok(Piece { bytes, digests })
    }

    /// Nothing may come any more.
    ///
    /// # Errors
    /// When something does: the object is longer than was listed.
    pub(in crate::object) async fn end(&mut self) -> Result<(), StoreError> {
        while let Some(chunk) = self.body.next().await {
            if !chunk?.is_empty() {
                return Err(changed(self.source, "it is longer than was listed"));
            }
        }
        Ok(())
    }

    fn broken(&self, code: &str, message: &str) -> StoreError {
        StoreError::new("GetObject", &self.source.bucket, Some(&self.source.key), code, Some(200)).with_message(message)
    }
}

/// Not the object that was listed, although the service has found nothing wrong with the condition.
fn changed(source: &CopySource, how: &str) -> StoreError {
    let mut error =
        StoreError::new("GetObject", &source.bucket, Some(&source.key), "SourceChanged", None).with_message(how);
    error.class = ErrorClass::Precondition;
    error
}

/// Whether an answer is about the object that was asked for: some services pass conditions over.
///
/// # Errors
/// When it is about another.
pub(in crate::object) fn is_pinned(source: &CopySource, answered: &ObjectMeta) -> Result<(), StoreError> {
    match &source.if_match {
        Some(wanted) if *wanted != answered.etag => {
            Err(changed(source, &format!("ETag {wanted} became {}", answered.etag)))
        }
        _ => Ok(()),
    }
}
