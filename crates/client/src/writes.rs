//! Writes of whole objects. An answer that is not understood is followed by one look at the target: the write may have
//! had its effect, and repeating it blindly costs minutes and bytes.
//!
//! The write counts as done only with evidence that the target holds these bytes. Else it is made once more, and a
//! second answer that is not understood is its end. Where attempts are answered with failures, or with nothing, one
//! look decides as well, after a few of them and after the last: a proxy may lose the answers of a service that has done
//! its work.

use bytes::Bytes;
use seqferry_store::checksum::hex;
use seqferry_store::{
    CopyTarget, DigestAlgorithm, Digester, ErrorClass, ObjectMeta, ObjectRef, PinnedObject, PutObject, WrittenObject,
};

use crate::client::RetryingClient;
use crate::request::{RequestError, RequestSpec, RetryContext};
use crate::retry::is_unclear;

/// Attempts at a write before the first look at the target: what fails this often rarely passes at once, and each
/// further attempt sends the bytes again.
pub(crate) const ATTEMPTS_BEFORE_LOOK: u32 = 3;

/// A write of a whole object.
#[derive(Clone, Copy)]
enum ObjectWriting<'a> {
    Put(&'a PutObject, &'a Bytes),
    Copy(&'a PinnedObject, CopyTarget<'a>),
}

impl ObjectWriting<'_> {
    fn target(&self) -> ObjectRef<'_> {
        match self {
            Self::Put(object, _) => ObjectRef::new(&object.bucket, &object.key),
            Self::Copy(_, target) => target.object,
        }
    }

    /// True when the target's own facts prove that it holds the bytes of this write.
    fn is_proven_by(&self, there: &ObjectMeta) -> bool {
        match self {
            Self::Put(object, bytes) => there.size == bytes.len() as u64 && holds(there, object, bytes),
            Self::Copy(source, _) => {
                there.size == source.size && !there.etag.is_empty() && source.if_match.as_ref() == Some(&there.etag)
            }
        }
    }
}

impl RetryingClient {
    /// Writes an object in one request.
    ///
    /// # Errors
    /// When the service refuses, or answers twice with something that is not understood.
    pub async fn put_object(
        &self,
        object: &PutObject,
        bytes: &Bytes,
        retry_context: &RetryContext,
    ) -> Result<WrittenObject, RequestError> {
        self.write_object(ObjectWriting::Put(object, bytes), retry_context).await
    }

    /// Has the service copy an object in one request.
    ///
    /// # Errors
    /// When the service refuses, or answers twice with something that is not understood.
    pub async fn copy_object(
        &self,
        source: &PinnedObject,
        target: CopyTarget<'_>,
        retry_context: &RetryContext,
    ) -> Result<WrittenObject, RequestError> {
        self.write_object(ObjectWriting::Copy(source, target), retry_context).await
    }

    /// Sends a write at most twice, with a look at the target after each answer that is not understood.
    async fn write_object(
        &self,
        write: ObjectWriting<'_>,
        retry_context: &RetryContext,
    ) -> Result<WrittenObject, RequestError> {
        let mut is_last = false;
        let mut attempts = (0, Some(ATTEMPTS_BEFORE_LOOK));
        loop {
            let unclear = match self.send_object(write, attempts, retry_context).await {
                Err(RequestError::Failed(error)) if is_unclear(&error) => error,
                Err(RequestError::Failed(error)) if error.class == ErrorClass::Retry => {
                    match self.look_once(write, retry_context).await? {
                        Some(there) if write.is_proven_by(&there) => return Ok(written_object(there)),
                        _ if attempts.0 == 0 && self.allows_more_than(ATTEMPTS_BEFORE_LOOK) => {
                            attempts = (ATTEMPTS_BEFORE_LOOK, None);
                            retry_context.count_retry();
                            continue;
                        }
                        _ => return Err(error.into()),
                    }
                }
                answer => return answer,
            };
            let spec = RequestSpec::read("HeadObject", write.target().bucket);
            match self.call(spec, retry_context, async |store| store.head(write.target(), None).await).await {
                Ok(there) if write.is_proven_by(&there) => return Ok(written_object(there)),
                // The look is all that fails: the write is made once more, or its answer is the error.
                Ok(_) | Err(RequestError::Failed(_)) => {}
                Err(RequestError::Cancelled) => return Err(RequestError::Cancelled),
            }
            if is_last {
                let message = format!("{}; the object was looked for, and is not proven to be there", unclear.message);
                return Err(unclear.with_message(message).into());
            }
            is_last = true;
            retry_context.count_retry();
        }
    }

    /// One HEAD of the target, without repeats: what fails now has failed for long. None: it tells nothing.
    async fn look_once(
        &self,
        write: ObjectWriting<'_>,
        retry_context: &RetryContext,
    ) -> Result<Option<ObjectMeta>, RequestError> {
        let spec = RequestSpec::read("HeadObject", write.target().bucket).once();
        self.call(spec, retry_context, async |store| Ok(store.head(write.target(), None).await.ok())).await
    }

    async fn send_object(
        &self,
        write: ObjectWriting<'_>,
        (made, until): (u32, Option<u32>),
        retry_context: &RetryContext,
    ) -> Result<WrittenObject, RequestError> {
        let spec = |operation, bucket, bytes| RequestSpec::write(operation, bucket).bytes(bytes).attempts(made, until);
        match write {
            ObjectWriting::Put(object, bytes) => {
                let spec = spec("PutObject", &object.bucket, bytes.len() as u64);
                self.call(spec, retry_context, async |store| store.put_object(object, bytes.clone()).await).await
            }
            ObjectWriting::Copy(source, target) => {
                let spec = spec("CopyObject", target.object.bucket, source.size);
                self.call(spec, retry_context, async |store| store.copy(source, target).await).await
            }
        }
    }
}

/// True when the target's own digests prove that it holds these bytes.
fn holds(there: &ObjectMeta, object: &PutObject, bytes: &[u8]) -> bool {
    if let (Some((algorithm, sent)), Some(kept)) = (&object.digests.checksum, &there.checksum)
        && kept.algorithm == *algorithm
    {
        return kept.value == *sent;
    }
    !there.opaque_etag && there.etag.eq_ignore_ascii_case(&hex(&Digester::of(DigestAlgorithm::Md5, bytes)))
}

fn written_object(there: ObjectMeta) -> WrittenObject {
    let ObjectMeta { etag, version_id, checksum, encryption, .. } = there;
    WrittenObject { etag, version_id, checksum, encryption }
}
