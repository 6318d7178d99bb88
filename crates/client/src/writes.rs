//! Writes of whole objects. An answer that is not understood is followed by one check of the target: the write may have
//! had its effect, and repeating it blindly costs minutes and bytes.
//!
//! The write counts as done only when the `ETag` or a checksum shows that the target holds these bytes. Else it is made
//! again, and a second answer that is not understood is its end. Attempts that are answered with failures, or with
//! nothing, are followed by a look as well ([`RetryingClient::call_looking`]).

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use seqferry_store::checksum::hex;
use seqferry_store::{
    Attributes, CopyTarget, DigestAlgorithm, Digester, ObjectMeta, ObjectRef, ObjectStore, PinnedObject, PutObject,
    WrittenObject,
};

use crate::absent::AbsentCondition;
use crate::client::RetryingClient;
use crate::quirks::ConditionalRequest;
use crate::request::{RequestError, RequestSpec, RetryContext};
use crate::retry::is_unclear;
use crate::target_check::{TargetCheck, WriteCondition};

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

    /// True when the target's own facts prove that it is what this write makes: the bytes, and what was requested
    /// besides them. The object before may have had the same bytes.
    fn is_proven_by(&self, there: &ObjectMeta) -> bool {
        match self {
            Self::Put(object, bytes) => {
                there.size == bytes.len() as u64
                    && holds(there, object, bytes)
                    && has_attributes(there, &object.attributes)
                    && has_class(there, object.storage_class.as_deref())
            }
            Self::Copy(source, target) => {
                let has_bytes = there.size == source.size
                    && !there.etag.is_empty()
                    && source.if_match.as_ref() == Some(&there.etag);
                // A copy onto itself is made for what it changes besides the bytes: that alone can show it.
                let is_shown = target.attributes.is_some() || target.storage_class.is_some();
                let is_onto_itself = source.bucket == target.object.bucket && source.key == target.object.key;
                has_bytes
                    && (is_shown || !is_onto_itself)
                    && target.attributes.is_none_or(|attributes| has_attributes(there, attributes))
                    && has_class(there, target.storage_class)
            }
        }
    }
}

/// True when an object has the metadata and headers of a write. A service may give a content type of its own, and may
/// add metadata.
fn has_attributes(there: &ObjectMeta, sent: &Attributes) -> bool {
    let found = &there.attributes;
    let has = |found: &Option<String>, sent: &Option<String>| sent.is_none() || found == sent;
    has(&found.content_type, &sent.content_type)
        && has(&found.content_encoding, &sent.content_encoding)
        && has(&found.content_language, &sent.content_language)
        && has(&found.content_disposition, &sent.content_disposition)
        && has(&found.cache_control, &sent.cache_control)
        && sent.metadata.iter().all(|(name, value)| found.metadata.get(&name.to_ascii_lowercase()) == Some(value))
}

/// True when an object has the storage class of a write. The default class is not shown.
fn has_class(there: &ObjectMeta, sent: Option<&str>) -> bool {
    sent.is_none_or(|sent| there.storage_class.as_deref().unwrap_or("STANDARD") == sent)
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
        let wanted = WriteCondition { if_absent: object.if_absent, if_match: object.if_match.as_deref() };
        let mut sent = Cow::Borrowed(object);
        if self.looks_before_writes() {
            let known = self.sent_condition(ConditionalRequest::Put, wanted);
            if known != wanted {
                let object = sent.to_mut();
                (object.if_absent, object.if_match) = (known.if_absent, known.if_match.map(str::to_owned));
            }
        }
        let mut condition = AbsentCondition::new(target, sent.if_absent);
        loop {
            let has = WriteCondition { if_absent: sent.if_absent, if_match: sent.if_match.as_deref() };
            let look = self.target_check(ConditionalRequest::Put, target, wanted, has);
            let answer = self.write_object(ObjectWriting::Put(&sent, bytes), look.as_ref(), retry_context).await;
            if !condition.is_sent_again(self, &answer).await? {
                return answer;
            }
            if !condition.is_sent() {
                sent.to_mut().if_absent = false;
            }
        }
    }

    /// Has the service copy an object in one request. Its condition is sent where a probe has shown that the service
    /// keeps it; else the target is checked before each attempt but the first, and before that as well where the client
    /// [looks before writes](RetryingClient::looking_before_writes).
    ///
    /// # Errors
    /// When the service refuses, or answers twice with something that is not understood.
    pub async fn copy_object(
        &self,
        source: &PinnedObject,
        target: CopyTarget<'_>,
        retry_context: &RetryContext,
    ) -> Result<WrittenObject, RequestError> {
        let wanted = WriteCondition { if_absent: target.if_absent, if_match: target.if_match };
        let sent = self.sent_condition(ConditionalRequest::Copy, wanted);
        let look = self.target_check(ConditionalRequest::Copy, target.object, wanted, sent);
        let target = CopyTarget { if_absent: sent.if_absent, if_match: sent.if_match, ..target };
        let write = ObjectWriting::Copy(source, target);
        match self.write_object(write, look.as_ref(), retry_context).await {
            // An attempt whose answer was lost may have made what the look of the next one has found.
            Err(RequestError::Failed(error)) if look.is_some() && error.operation == "HeadObject" => {
                self.head_target(write, retry_context).await?.ok_or(RequestError::Failed(error))
            }
            answer => answer,
        }
    }

    /// Sends a write at most twice, with a look at the target after each answer that is not understood.
    async fn write_object(
        &self,
        write: ObjectWriting<'_>,
        target_check: Option<&TargetCheck<'_>>,
        retry_context: &RetryContext,
    ) -> Result<WrittenObject, RequestError> {
        let mut before = None;
        loop {
            let is_last = before.is_some();
            let unclear = match (self.send_object(write, target_check, retry_context).await, before.take()) {
                (Err(RequestError::Failed(error)), _) if is_unclear(&error) => error,
                // The look before the second write has found an object, which the first one may have made.
                (Err(RequestError::Failed(error)), Some(first)) if error.operation == "HeadObject" => first,
                (answer, _) => return answer,
            };
            match self.head_target(write, retry_context).await {
                Ok(Some(written)) => return Ok(written),
                // The look is all that fails: the write is made again, or its answer is the error.
                Ok(None) | Err(RequestError::Failed(_)) => {}
                Err(RequestError::Cancelled) => return Err(RequestError::Cancelled),
            }
            if is_last {
                let message = format!("{}; the object was looked for, and is not proven to be there", unclear.message);
                return Err(unclear.with_message(message).into());
            }
            before = Some(unclear);
            retry_context.count_retry();
        }
    }

    /// The object, where a HEAD proves it. Asked until the service answers.
    async fn head_target(
        &self,
        write: ObjectWriting<'_>,
        retry_context: &RetryContext,
    ) -> Result<Option<WrittenObject>, RequestError> {
        let spec = RequestSpec::read("HeadObject", write.target().bucket);
        let there = self.call(spec, retry_context, async |store| store.head(write.target(), None).await).await?;
        Ok(write.is_proven_by(&there).then(|| written_object(there)))
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
        target_check: Option<&TargetCheck<'_>>,
        retry_context: &RetryContext,
    ) -> Result<WrittenObject, RequestError> {
        let look = || self.look_once(write, retry_context);
        match write {
            ObjectWriting::Put(object, bytes) => {
                let spec = RequestSpec::write("PutObject", &object.bucket).bytes(bytes.len() as u64);
                let permit = self.reserve(spec, retry_context).await?;
                let send = async |store: Arc<dyn ObjectStore>| {
                    TargetCheck::look_if_any(target_check, &store).await?;
                    store.put_object(object, bytes.clone()).await
                };
                self.call_looking(spec, permit, retry_context, send, look).await
            }
            ObjectWriting::Copy(source, target) => {
                let spec = RequestSpec::write("CopyObject", target.object.bucket).bytes(source.size);
                let permit = self.reserve(spec, retry_context).await?;
                let send = async |store: Arc<dyn ObjectStore>| {
                    TargetCheck::look_if_any(target_check, &store).await?;
                    store.copy(source, target).await
                };
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
