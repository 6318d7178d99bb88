//! Writes of whole objects. An answer that is not understood is followed by one look at the target: the write may have
//! had its effect, and repeating it blindly costs minutes and bytes.
//!
//! The write counts as done only with evidence that the target holds these bytes. Else it is made once more, and a
//! second answer that is not understood is its end. Attempts that are answered with failures, or with nothing, are
//! followed by a look as well ([`RetryingClient::call_looking`]).

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use seqferry_store::checksum::hex;
use seqferry_store::{
    CopyTarget, DigestAlgorithm, Digester, ObjectMeta, ObjectRef, ObjectStore, PinnedObject, PutObject, WrittenObject,
};

use crate::absent::AbsentCondition;
use crate::client::RetryingClient;
use crate::request::{RequestError, RequestSpec, RetryContext};
use crate::retry::is_unclear;

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
        let target = ObjectRef::new(&object.bucket, &object.key);
        let mut condition = AbsentCondition::new(target, object.if_absent);
        let mut sent = Cow::Borrowed(object);
        loop {
            let answer = self.write_object(ObjectWriting::Put(&sent, bytes), retry_context).await;
            if !condition.is_sent_again(self, &answer).await? {
                return answer;
            }
            if !condition.is_sent() {
                sent.to_mut().if_absent = false;
            }
        }
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
        loop {
            let unclear = match self.send_object(write, retry_context).await {
                Err(RequestError::Failed(error)) if is_unclear(&error) => error,
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

    /// The object, where one HEAD proves it. Asked once: what fails now has failed before.
    async fn look_once(
        &self,
        write: ObjectWriting<'_>,
        retry_context: &RetryContext,
    ) -> Result<Option<WrittenObject>, RequestError> {
        let spec = RequestSpec::read("HeadObject", write.target().bucket).once();
        let there =
            self.call(spec, retry_context, async |store| Ok(store.head(write.target(), None).await.ok())).await?;
        Ok(there.filter(|there| write.is_proven_by(there)).map(written_object))
    }

    async fn send_object(
        &self,
        write: ObjectWriting<'_>,
        retry_context: &RetryContext,
    ) -> Result<WrittenObject, RequestError> {
        let look = || self.look_once(write, retry_context);
        match write {
            ObjectWriting::Put(object, bytes) => {
                let spec = RequestSpec::write("PutObject", &object.bucket).bytes(bytes.len() as u64);
                let permit = self.reserve(spec, retry_context).await?;
                let send = async |store: Arc<dyn ObjectStore>| store.put_object(object, bytes.clone()).await;
                self.call_looking(spec, permit, retry_context, send, look).await
            }
            ObjectWriting::Copy(source, target) => {
                let spec = RequestSpec::write("CopyObject", target.object.bucket).bytes(source.size);
                let permit = self.reserve(spec, retry_context).await?;
                let send = async |store: Arc<dyn ObjectStore>| store.copy(source, target).await;
                self.call_looking(spec, permit, retry_context, send, look).await
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
