//! Reading of pinned objects: pieces of a body, their digests, the check of the pin, and what follows a broken body.
//!
//! [`fetch_pinned`] and [`read_pinned`] return bytes of the pinned version or an error, also where the service ignores
//! the condition of a request. A body is taken apart into pieces of known length. [`Resumption`] decides whether the
//! rest of a body that broke is requested, [`WholeReads`] whether a read without ranges starts over.

mod whole;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use seqferry_store::error::classify::code;
use seqferry_store::{
    Body, DigestAlgorithm, Digester, ErrorClass, FetchedObject, ObjectMeta, ObjectRef, ObjectStore, PinnedObject,
    Range, StoreError,
};

use crate::retry::Backoff;

pub use whole::{WholeReads, fetch_whole};

/// Bytes that were read, and what was computed over them on the way.
#[derive(Debug)]
pub struct DigestedBytes {
    /// The bytes.
    pub bytes: Bytes,
    digests: Vec<(DigestAlgorithm, Vec<u8>)>,
}

impl DigestedBytes {
    /// Bytes that are in memory, with these digests of them.
    pub fn of(bytes: Bytes, algorithms: &[DigestAlgorithm]) -> Self {
        let digests = algorithms.iter().map(|algorithm| (*algorithm, Digester::of(*algorithm, &bytes))).collect();
        Self { bytes, digests }
    }

    /// A digest of the bytes: as computed on the way, else computed now.
    pub fn digest(&self, algorithm: DigestAlgorithm) -> Vec<u8> {
        let known = self.digests.iter().find(|(known, _)| *known == algorithm).map(|(_, digest)| digest.clone());
        known.unwrap_or_else(|| Digester::of(algorithm, &self.bytes))
    }
}

/// Passes a body on unchanged and computes its digests on the way.
pub fn with_digests(body: Body, algorithms: &[DigestAlgorithm]) -> (Body, RunningDigests) {
    let digesters = algorithms.iter().map(|algorithm| (*algorithm, Digester::new(*algorithm))).collect();
    let gone_by = RunningDigests(Arc::new(Mutex::new(digesters)));
    let seen = gone_by.clone();
    let body = body.inspect(move |bytes| {
        for (_, digester) in &mut *seen.digesters() {
            digester.update(bytes);
        }
    });
    (body, gone_by)
}

/// Digests of the bytes that were passed on so far.
#[derive(Debug, Clone)]
pub struct RunningDigests(Arc<Mutex<Vec<(DigestAlgorithm, Digester)>>>);

impl RunningDigests {
    fn digesters(&self) -> MutexGuard<'_, Vec<(DigestAlgorithm, Digester)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The digests of all bytes so far.
    pub fn finish(self) -> HashMap<DigestAlgorithm, Vec<u8>> {
        self.digesters().drain(..).map(|(algorithm, digester)| (algorithm, digester.finish())).collect()
    }
}

/// Requests a pinned object, or a range of it. An answer about another version is an error.
///
/// # Errors
/// Those of the request. [`ErrorClass::Precondition`] where the object is another version meanwhile.
pub async fn fetch_pinned(
    store: &dyn ObjectStore,
    source: &PinnedObject,
    range: Option<Range>,
) -> Result<FetchedObject, StoreError> {
    let fetched = store.fetch(source, range).await?;
    check_pin(source, &fetched.meta)?;
    Ok(fetched)
}

/// Attributes of a pinned object. An answer about another version is an error.
///
/// # Errors
/// Those of the request. [`ErrorClass::Precondition`] where the object is another version meanwhile.
pub async fn head_pinned(store: &dyn ObjectStore, source: &PinnedObject) -> Result<ObjectMeta, StoreError> {
    let object = ObjectRef::new(&source.bucket, &source.key).at_version(source.version_id.as_deref());
    let meta = store.head(object, None).await?;
    check_pin(source, &meta)?;
    Ok(meta)
}

/// Reads a range of a pinned object, and computes these digests on the way.
///
/// # Errors
/// Those of [`fetch_pinned`], and when the body breaks or ends early.
pub async fn read_pinned(
    store: &dyn ObjectStore,
    source: &PinnedObject,
    range: Range,
    algorithms: &[DigestAlgorithm],
) -> Result<DigestedBytes, StoreError> {
    let fetched = fetch_pinned(store, source, Some(range)).await?;
    PinnedReader::new(fetched.body, source).take(range.len(), algorithms).await
}

/// Pauses before the rest of a broken body is requested, by the breaks in a row that brought no bytes.
const PAUSES: Backoff = Backoff { first: Duration::from_millis(100), longest: Duration::from_secs(20) };

/// Decides whether the rest of a body that broke is requested.
#[derive(Debug)]
pub struct Resumption {
    fruitless: u32,
    limit: u32,
}

impl Resumption {
    /// Gives up after `limit` breaks in a row that brought no bytes.
    pub fn new(limit: u32) -> Self {
        Self { fruitless: 0, limit }
    }

    /// Returns the pause after which the rest is requested. `is_gain`: bytes came since the last break.
    ///
    /// # Errors
    /// The error itself, when its class is final or the limit is reached.
    pub fn pause(&mut self, error: StoreError, is_gain: bool) -> Result<Duration, StoreError> {
        self.fruitless = if is_gain { 0 } else { self.fruitless + 1 };
        if self.fruitless >= self.limit || !matches!(error.class, ErrorClass::Retry | ErrorClass::Throttle) {
            return Err(error);
        }
        Ok(PAUSES.after(self.fruitless))
    }
}

/// Takes the body of a pinned object apart.
pub struct PinnedReader<'a> {
    body: Body,
    source: &'a PinnedObject,
}

impl<'a> PinnedReader<'a> {
    /// A reader of the answer to a GET of `source`.
    pub fn new(body: Body, source: &'a PinnedObject) -> Self {
        Self { body, source }
    }

    /// The next `size` bytes.
    ///
    /// # Errors
    /// When the body breaks, or ends before `size` bytes.
    pub async fn take(&mut self, size: u64, algorithms: &[DigestAlgorithm]) -> Result<DigestedBytes, StoreError> {
        let piece = self.take_up_to(size, algorithms).await?;
        if (piece.bytes.len() as u64) < size {
            return Err(self.body_error(code::TRUNCATED, "the body ended early"));
        }
        Ok(piece)
    }

    /// The next `size` bytes; fewer only at the end of the body.
    ///
    /// # Errors
    /// When the body breaks.
    pub async fn take_up_to(&mut self, size: u64, algorithms: &[DigestAlgorithm]) -> Result<DigestedBytes, StoreError> {
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        let mut digesters: Vec<(DigestAlgorithm, Digester)> =
            algorithms.iter().map(|algorithm| (*algorithm, Digester::new(*algorithm))).collect();
        let see = |bytes: &[u8]| digesters.iter_mut().for_each(|(_, digester)| digester.update(bytes));
        let bytes = self.body.take(size, see).await?;
        let digests = digesters.into_iter().map(|(algorithm, digester)| (algorithm, digester.finish())).collect();
        Ok(DigestedBytes { bytes, digests })
    }

    /// Checks that the body ends here.
    ///
    /// # Errors
    /// When more bytes come (the object is longer than was listed), or the body breaks.
    pub async fn end(&mut self) -> Result<(), StoreError> {
        while let Some(chunk) = self.body.next().await {
            if chunk?.is_empty() {
                continue;
            }
            let is_pinned = self.source.if_match.is_some() && !is_file(self.source);
            return Err(if is_pinned {
                let how = "more bytes came than the object has, with its ETag: the service, or a proxy before it, compresses or decompresses objects on the way (Content-Encoding)";
                self.body_error(code::TRANSFORMED, how)
            } else {
                change_error(self.source, "it is longer than was listed")
            });
        }
        Ok(())
    }

    fn body_error(&self, code: &str, message: &str) -> StoreError {
        StoreError::new("GetObject", &self.source.bucket, Some(&self.source.key), code, Some(200)).with_message(message)
    }
}

/// True for a file, which may grow while it is read. The name of a bucket never begins with a slash.
fn is_file(source: &PinnedObject) -> bool {
    source.bucket.starts_with('/')
}

/// The error that the object is not the listed one, although the service accepted the condition of the request.
fn change_error(source: &PinnedObject, how: &str) -> StoreError {
    let mut error =
        StoreError::new("GetObject", &source.bucket, Some(&source.key), "SourceChanged", None).with_message(how);
    error.class = ErrorClass::Precondition;
    error
}

/// Checks that an answer is about the pinned object: some services ignore the condition, or the version id.
///
/// # Errors
/// When the answer is about another object or version.
fn check_pin(source: &PinnedObject, answered: &ObjectMeta) -> Result<(), StoreError> {
    match &source.if_match {
        Some(wanted) if *wanted != answered.etag => {
            Err(change_error(source, &format!("ETag {wanted} became {}", answered.etag)))
        }
        Some(_) => Ok(()),
        None => match (&source.version_id, &answered.version_id) {
            (Some(wanted), Some(version)) if wanted != version => {
                Err(change_error(source, &format!("version {wanted} was requested and {version} answered")))
            }
            _ => Ok(()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(code: &str) -> StoreError {
        StoreError::new("GetObject", "b", Some("k"), code, None)
    }

    #[test]
    fn a_body_is_resumed_while_bytes_come_and_given_up_after_the_limit() {
        let mut resumption = Resumption::new(3);
        for _ in 0..10 {
            assert_eq!(resumption.pause(error(code::TRUNCATED), true).ok(), Some(PAUSES.first));
        }
        assert_eq!(resumption.pause(error(code::TRUNCATED), false).ok(), Some(PAUSES.first * 2));
        assert_eq!(resumption.pause(error("SlowDown"), false).ok(), Some(PAUSES.first * 4));
        assert_eq!(
            resumption.pause(error(code::TIMED_OUT), false).err().map(|error| error.code).as_deref(),
            Some(code::TIMED_OUT)
        );
    }

    #[test]
    fn a_final_error_ends_a_read_at_once() {
        let mut resumption = Resumption::new(3);
        assert!(resumption.pause(error("NoSuchKey"), true).is_err());
        assert!(resumption.pause(error("AccessDenied"), false).is_err());
    }
}
