//! Multipart copies within the service, for objects too large to be copied in one request.

use std::sync::Arc;

use futures::{StreamExt as _, TryStreamExt as _};
use seqferry_client::{RequestError, UploadSession, upload::Completion};
use seqferry_store::{
    Attributes, CompleteUpload, CompletedPart, CreateUpload, ErrorClass, ObjectMeta, PartInfo, PinnedObject, Range,
};
use seqferry_transfer::pipe::ReplaceCondition;

use super::generation::ShareUploadJournal;
use super::plan::FileUpload;
use super::{UploadError, Uploader};
use crate::journal::Disk;

/// Bytes of a part: 10,000 of them are the largest object of 5 TB. Bytes do not pass through this process.
const PART: u64 = 512 << 20;
/// Parts that an object has at most.
const MOST_PARTS: u64 = 10_000;
/// Parts that are copied at a time. The budget of the process decides how many requests are under way.
const MAX_COPIES: usize = 8;

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
    /// Copy an object in parts. An upload that the journal has continues with the parts that it holds. Returns the
    /// `ETag` and version id. None: the service offers no copies.
    pub(super) async fn copy_parts(
        &self,
        file_upload: &FileUpload,
        copy: LargeCopy<'_>,
    ) -> Result<Option<(String, Option<String>)>, UploadError> {
        let size = copy.source.size;
        let recorded = self.recorded(file_upload, copy.to);
        if file_upload.is_again && recorded.is_none() {
            self.session(copy.to, file_upload.changed).sweep(None).await?;
        }
        let mut session = self.session(copy.to, file_upload.changed).recorded(recorded);
        let known = if let Some(parts) = session.adopt().await? {
            parts
        } else {
            let request = CreateUpload {
                attributes: copy.attributes.clone(),
                tags: copy.tags,
                storage_class: self.spec.objects.storage_class(copy.to),
                write: self.spec.objects.write_options(),
                part_size: self.spec.part_size.unwrap_or(PART).max(size.div_ceil(MOST_PARTS)),
                size,
                ..session.request()
            };
            let (inner, path) = (Arc::clone(&self.inner), copy.to.into());
            session.begin(&request, &ShareUploadJournal { inner, file_upload: file_upload.clone(), path }).await?;
            Vec::new()
        };
        let source = PinnedObject::of(&self.spec.bucket, &self.key(copy.from), copy.source);
        let parts = match Self::copied(&session, &source, size, &known).await {
            Ok(parts) => parts,
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
        let request = CompleteUpload { parts, size, if_absent, if_match, ..CompleteUpload::default() };
        match session.complete(request).await {
            Ok(Completion::Object(written)) => Ok(Some((written.etag, written.version_id))),
            // The next attempt looks whether it was completed, or which object is there.
            Ok(Completion::Gone(_)) => Err(UploadError::Superseded),
            Err(RequestError::Failed(error)) if error.class == ErrorClass::Precondition => Err(UploadError::Superseded),
            Err(other) => Err(other.into()),
        }
    }

    /// All parts, in their order: those that the upload holds, and the others copied now.
    async fn copied(
        session: &UploadSession,
        source: &PinnedObject,
        size: u64,
        known: &[PartInfo],
    ) -> Result<Vec<CompletedPart>, RequestError> {
        let part_size = session.open().map_or(PART, |upload| upload.part_size).max(1);
        let ranges = (0..size).step_by(usize::try_from(part_size).unwrap_or(usize::MAX));
        let ranges = ranges.map(|first| Range { first, last: (first + part_size).min(size) - 1 });
        let copies = (1_u32..).zip(ranges).map(|(number, range)| async move {
            if let Some(part) = known.iter().find(|part| part.number == number && part.size == range.len()) {
                return Ok(CompletedPart { number, etag: part.etag.clone(), checksum: None });
            }
            let reserved = session.reserve_copy(number, range).await?;
            let part = session.copy_part(source, reserved).await?;
            Ok::<_, RequestError>(CompletedPart { number, etag: part.etag, checksum: None })
        });
        futures::stream::iter(copies).buffered(MAX_COPIES).try_collect().await
    }
}
