//! Multipart copies within the service, for objects that one request copies slowly or not at all.

use std::sync::Arc;

use futures::{StreamExt as _, TryStreamExt as _};
use seqferry_client::{RequestError, UploadSession, upload::Completion};
use seqferry_store::{
    Attributes, Checksum, ChecksumKind, CompleteUpload, CompletedPart, CreateUpload, ErrorClass, ObjectMeta, PartInfo,
    PinnedObject, Range, StoreError, WrittenObject,
};
use seqferry_transfer::CopyLimits;
use seqferry_transfer::pipe::ReplaceCondition;

use super::generation::ShareUploadJournal;
use super::plan::FileUpload;
use super::{UploadError, Uploader};
use crate::journal::Disk;

/// Parts that are copied at a time. The budget of the process decides how many requests are under way.
const MAX_COPIES: usize = 32;

/// A copy: the object, and the path and facts that it gets.
pub(super) struct LargeCopy<'a> {
    pub(super) from: &'a str,
    pub(super) source: &'a ObjectMeta,
    pub(super) to: &'a str,
    pub(super) attributes: &'a Attributes,
    pub(super) tags: Vec<(String, String)>,
    pub(super) replaces: &'a ReplaceCondition,
}

impl<D: Disk> Uploader<D> {
    /// Bytes of the largest object that one request copies.
    pub(super) fn largest_copy(&self) -> u64 {
        self.spec.largest_copy.unwrap_or(CopyLimits::default().copy_threshold)
    }

    /// Copy an object in parts, with the checksum of its source where the service computes that of parts. An upload that
    /// the journal has continues with the parts that it holds. None: the service offers no copies.
    pub(super) async fn copy_parts(
        &self,
        file_upload: &FileUpload,
        copy: LargeCopy<'_>,
    ) -> Result<Option<WrittenObject>, UploadError> {
        let (size, limits, quirks) = (copy.source.size, CopyLimits::default(), self.spec.client.quirks());
        let is_kept = |sum: &&Checksum| sum.kind == ChecksumKind::FullObject && !quirks.useless_part_checksums();
        let sum = copy.source.checksum.as_ref().filter(is_kept);
        let recorded = self.recorded(file_upload, copy.to);
        if file_upload.is_again && recorded.is_none() {
            self.session(copy.to, file_upload.changed).sweep(None).await?;
        }
        let mut session = self.session(copy.to, file_upload.changed).recorded(recorded);
        let known = session.adopt().await?.unwrap_or_default();
        if known.is_empty() {
            // Whether it was created with a checksum is not known of one without parts.
            session.abort(false).await;
            let request = CreateUpload {
                attributes: copy.attributes.clone(),
                tags: copy.tags,
                storage_class: self.spec.objects.storage_class(copy.to),
                write: self.spec.objects.write_options(),
                checksum: sum.map(|sum| (sum.algorithm, sum.kind)),
                part_size: self.spec.part_size.unwrap_or(limits.part_size).max(size.div_ceil(limits.maximum_parts)),
                size,
                ..session.request()
            };
            let (inner, path) = (Arc::clone(&self.inner), copy.to.into());
            session.begin(&request, &ShareUploadJournal { inner, file_upload: file_upload.clone(), path }).await?;
        }
        let sum = sum.filter(|_| known.iter().all(|part| part.checksum.is_some()));
        // The checksum of a part is that of the whole, or the service takes none: it is copied again without.
        let is_useless = |part: &CompletedPart| sum.is_some_and(|sum| part.checksum.as_ref() == Some(&sum.value));
        let is_refused = |error: &StoreError| sum.is_some() && error.is_about_checksums();
        let source = PinnedObject::of(&self.spec.bucket, &self.key(copy.from), copy.source);
        let parts = match Self::copied(&session, &source, size, &known).await {
            Ok(parts) if parts.len() > 1 && parts.iter().any(is_useless) => {
                return self.copy_without_checksum(file_upload.number).await;
            }
            Ok(parts) => parts,
            Err(RequestError::Failed(error)) if is_refused(&error) => {
                return self.copy_without_checksum(file_upload.number).await;
            }
            Err(RequestError::Failed(error)) => match error.class {
                ErrorClass::Capability => {
                    session.abort(true).await;
                    return Ok(None);
                }
                ErrorClass::Precondition | ErrorClass::NotFound => {
                    self.abort(file_upload.number).await?;
                    return Err(UploadError::Superseded);
                }
                _ => return Err(RequestError::Failed(error).into()),
            },
            Err(other) => return Err(other.into()),
        };
        let if_match = if let ReplaceCondition::Version(etag) = copy.replaces { Some(etag.clone()) } else { None };
        let if_absent = *copy.replaces == ReplaceCondition::Nothing;
        let (checksum, whole) = (sum.map(|sum| sum.algorithm), sum.cloned());
        let request = CompleteUpload { parts, size, checksum, whole, if_absent, if_match, ..CompleteUpload::default() };
        match session.complete(request).await {
            Ok(Completion::Object(written)) => Ok(Some(written)),
            // The next attempt looks whether it was completed, or which object is there.
            Ok(Completion::Gone(_)) => Err(UploadError::Superseded),
            Err(RequestError::Failed(error)) if error.class == ErrorClass::Precondition => Err(UploadError::Superseded),
            Err(RequestError::Failed(error)) if is_refused(&error) => {
                self.copy_without_checksum(file_upload.number).await
            }
            Err(other) => Err(other.into()),
        }
    }

    /// Give an upload up whose checksum the service gets wrong. The next attempt has none.
    async fn copy_without_checksum(&self, number: u64) -> Result<Option<WrittenObject>, UploadError> {
        self.spec.client.quirks().learn_useless_part_checksums();
        self.abort(number).await?;
        Err(UploadError::Superseded)
    }

    /// All parts, in their order: those that the upload holds, and the others copied now.
    async fn copied(
        session: &UploadSession,
        source: &PinnedObject,
        size: u64,
        known: &[PartInfo],
    ) -> Result<Vec<CompletedPart>, RequestError> {
        let part_size = session.open().map_or(size, |upload| upload.part_size).max(1);
        let ranges = (0..size).step_by(usize::try_from(part_size).unwrap_or(usize::MAX));
        let ranges = ranges.map(|first| Range { first, last: (first + part_size).min(size) - 1 });
        let copies = (1_u32..).zip(ranges).map(|(number, range)| async move {
            if let Some(part) = known.iter().find(|part| part.number == number && part.size == range.len()) {
                let (etag, checksum) = (part.etag.clone(), part.checksum.clone());
                return Ok(CompletedPart { number, etag, checksum });
            }
            let reserved = session.reserve_copy(number, range).await?;
            let part = session.copy_part(source, reserved).await?;
            Ok::<_, RequestError>(CompletedPart { number, etag: part.etag, checksum: part.checksum })
        });
        futures::stream::iter(copies).buffered(MAX_COPIES).try_collect().await
    }
}
