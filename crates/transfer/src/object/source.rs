//! The source of one object: its attributes, its pin, and the failures when it is not as listed.

use std::time::Duration;

use seqferry_client::{RequestError, RequestSpec, RetryingClient, UploadJournal};
use seqferry_store::error::classify::code;
use seqferry_store::{
    Advice, Cause, ChecksumKind, ErrorClass, ObjectMeta, ObjectRef, ObjectUri, PinnedObject, StoreError,
};

use super::{AttemptError, Object, RecheckError};
use crate::etags::{ObjectOrigin, StatedEtag};
use crate::object_outcome::{FailureClass, ObjectFailure};
use crate::plan::etag_parts;

impl<J: UploadJournal> Object<'_, J> {
    /// Updates the source to its present state, after an attempt that found another source than was listed.
    pub(super) async fn recheck_source(&mut self, failure: ObjectFailure) -> Result<(), RecheckError> {
        if self.item.version_id.is_some() && failure.class == FailureClass::SourceChanged {
            // A version never changes.
            return Err(RecheckError::Failed(failure));
        }
        let (bucket, key) = (&self.policy.source_bucket, &self.item.source_key);
        let version = self.item.version_id.as_deref();
        let head = self
            .source
            .call(RequestSpec::read("HeadObject", bucket), &self.retry_context, async |store| {
                store.head(ObjectRef::new(bucket, key).at_version(version), None).await
            })
            .await;
        match head {
            Ok(now) => {
                if self.source.capabilities().in_place_changes && failure.class == FailureClass::SourceChanged {
                    self.source.note(format!(
                        "{}: files changed after they were listed, and were copied again as they are now. {}",
                        ObjectUri(bucket, None),
                        Advice::WaitForFiles
                    ));
                }
                (self.item.size, self.item.etag, self.stored_size) = (now.size, now.etag, None);
                Ok(())
            }
            Err(RequestError::Failed(error)) if error.class == ErrorClass::NotFound => {
                Err(RecheckError::Failed(self.source_change_failure(&error, "it was deleted while it was copied")))
            }
            Err(RequestError::Failed(error)) => Err(RecheckError::Failed(error.into())),
            Err(RequestError::Cancelled) => Err(RecheckError::Cancelled),
        }
    }

    /// URI of the source, for messages.
    pub(super) fn source_address(&self) -> ObjectUri<'_> {
        ObjectUri(&self.policy.source_bucket, Some(&self.item.source_key))
    }

    pub(super) fn source_change_failure(&self, error: &StoreError, how: &str) -> ObjectFailure {
        let settle = if self.source.capabilities().in_place_changes {
            format!(" {}", Advice::WaitForFiles)
        } else {
            String::new()
        };
        let message = format!(
            "{} {}: the source is not what was listed: {how} ({}). {}{settle}",
            error.operation,
            self.source_address(),
            error.code,
            Advice::RepeatAfterSender
        );
        ObjectFailure::new(FailureClass::SourceChanged, &error.code, error.operation, message)
    }

    /// Takes what a HEAD showed of the source a moment before the transfer, and the time that it took.
    pub(super) fn take_looked_up(&self) -> Option<(ObjectMeta, Duration)> {
        let source = ObjectRef::new(&self.policy.source_bucket, &self.item.source_key);
        let source = source.at_version(self.item.version_id.as_deref());
        let found = self.source.quirks().take_head(source, &self.item.etag)?;
        (found.0.size == self.stored_size.unwrap_or(self.item.size)).then_some(found)
    }

    /// Returns the attributes of the source, which must be as listed.
    pub(super) async fn head_source(&self) -> Result<ObjectMeta, AttemptError> {
        let (bucket, key) = (&self.policy.source_bucket, &self.item.source_key);
        let version = self.item.version_id.as_deref();
        let listed = self.stored_size.unwrap_or(self.item.size);
        let head = self
            .source
            .call(RequestSpec::read("HeadObject", bucket), &self.retry_context, async |store| {
                store.head(ObjectRef::new(bucket, key).at_version(version), None).await
            })
            .await;
        match head {
            Ok(source) if source.etag == self.item.etag && source.size == listed => Ok(source),
            Ok(source) if self.is_transformed_head(&source) => {
                let message = format!(
                    "the listing states {listed} bytes and the answer {}, with the same ETag: the service, or a proxy before it, compresses or decompresses objects on the way (Content-Encoding)",
                    source.size
                );
                let error = StoreError::new("HeadObject", bucket, Some(key), code::TRANSFORMED, Some(200));
                Err(AttemptError::Failed(error.with_message(message).into()))
            }
            Ok(source) => {
                let error = StoreError::new("HeadObject", bucket, Some(key), "SourceChanged", None);
                let now = source.size;
                let how = if !self.source.capabilities().in_place_changes {
                    format!("ETag {} ({listed} bytes) became {} ({now} bytes)", self.item.etag, source.etag)
                } else if now > listed {
                    format!("it grew from {listed} to {now} bytes")
                } else if now < listed {
                    format!("it shrank from {listed} to {now} bytes")
                } else {
                    "it was written to or replaced meanwhile".to_owned()
                };
                Err(AttemptError::Again(self.source_change_failure(&error, &how)))
            }
            Err(RequestError::Failed(error)) if error.class == ErrorClass::NotFound => {
                Err(AttemptError::Failed(self.source_change_failure(&error, "it is gone")))
            }
            Err(other) => Err(other.into()),
        }
    }

    /// True for an answer with the listed `ETag`: the object is the listed one, whatever size the answer states.
    fn is_transformed_head(&self, source: &ObjectMeta) -> bool {
        !source.etag.is_empty() && source.etag == self.item.etag && !self.source.capabilities().in_place_changes
    }

    pub(super) fn archived_error(&self, source: &ObjectMeta) -> AttemptError {
        let (bucket, key) = (&self.policy.source_bucket, &self.item.source_key);
        let error = StoreError::new("HeadObject", bucket, Some(key), "InvalidObjectState", None)
            .with_message(format!("storage class {}", source.storage_class.as_deref().unwrap_or("archive")));
        AttemptError::Failed(error.into())
    }

    /// Returns the length of the source's first part, where its digest depends on the boundaries of its parts.
    pub(super) async fn first_part(&self, source: &ObjectMeta) -> Result<Option<u64>, AttemptError> {
        let (bucket, key) = (&self.policy.source_bucket, &self.item.source_key);
        let object = ObjectRef::new(bucket, key).at_version(self.item.version_id.as_deref());
        self.first_part_of(self.source, object, source).await
    }

    /// The same of any side.
    pub(super) async fn first_part_of(
        &self,
        side: &RetryingClient,
        object: ObjectRef<'_>,
        meta: &ObjectMeta,
    ) -> Result<Option<u64>, AttemptError> {
        let by_boundaries = etag_parts(&meta.etag).is_some()
            && !meta.opaque_etag
            && meta.checksum.as_ref().is_none_or(|sum| sum.kind == ChecksumKind::Composite);
        if !by_boundaries {
            return Ok(None);
        }
        let part = side
            .call(RequestSpec::read("HeadObject", object.bucket), &self.retry_context, async |store| {
                store.head(object, Some(1)).await
            })
            .await;
        match part {
            Ok(part) if part.etag == meta.etag => Ok(Some(part.size)),
            // A service that does not support part numbers gives us no boundaries, which is no failure.
            Ok(_) | Err(RequestError::Failed(_)) => Ok(None),
            Err(other) => Err(other.into()),
        }
    }

    /// Returns the source, pinned to the listed state.
    pub(crate) fn pinned_source(&self) -> PinnedObject {
        let object = ObjectRef::new(&self.policy.source_bucket, &self.item.source_key);
        let object = object.at_version(self.item.version_id.as_deref());
        PinnedObject::listed(object, &self.item.etag, self.item.size)
    }

    /// The source, with its size, `ETag` and checksum, for a comparison.
    pub(super) fn stated_source(&self) -> StatedEtag<'_> {
        let (bucket, key) = (&self.policy.source_bucket, &self.item.source_key);
        let object = ObjectRef::new(bucket, key).at_version(self.item.version_id.as_deref());
        let (etag, size) = (&self.item.etag, self.item.size);
        StatedEtag { client: self.source, object, etag, size, origin: ObjectOrigin::Found, is_exact: false }
    }

    /// The target, with its size, `ETag` and checksum, for a comparison; with the `ETag` of the source.
    pub(super) fn stated_target<'s>(&'s self, origin: ObjectOrigin<'s>) -> StatedEtag<'s> {
        let object = ObjectRef::new(&self.policy.target_bucket, &self.item.target_key);
        StatedEtag { client: self.target, object, origin, ..self.stated_source() }
    }

    /// Returns the failure of a read whose bytes go to the target.
    pub(super) fn stream_error(&self, error: StoreError) -> AttemptError {
        if error.cause() == Cause::Transformed {
            AttemptError::Transformed(error.into())
        } else {
            self.copy_error(error)
        }
    }

    /// Returns the failure of a refused copy or read. A failed precondition means that the source was overwritten: the
    /// condition is its pin.
    pub(crate) fn copy_error(&self, error: StoreError) -> AttemptError {
        match error.class {
            ErrorClass::Precondition => {
                AttemptError::Again(self.source_change_failure(&error, "it was overwritten while it was copied"))
            }
            ErrorClass::NotFound if error.cause() == Cause::SourceGone => {
                AttemptError::Failed(self.source_change_failure(&error, "it is gone"))
            }
            _ => AttemptError::Failed(error.into()),
        }
    }
}
