//! Parts of an input that still grows, uploaded before its end is known.
//!
//! [`send_parts`] adds parts to an upload, in any order. [`store_resumable`](super::store_resumable) ends it: it compares
//! each part with the bytes as they are then, and sends those again that differ. So a part may be sent at any time.

use std::sync::Arc;

use bytes::Bytes;
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use seqferry_client::{RecordedUpload, RetryingClient, UploadJournal, UploadSession};

use super::{
    FilledPart, InputOptions, InputTarget, InputUpload, MAX_CONCURRENT_PARTS, RateLimited, ReplaceCondition,
    ResumableInput,
};
use crate::clock::now;
use crate::pipe::PipeError;

/// Bytes of an input that still grows.
pub trait PartBytes: RateLimited {
    /// Bytes from an offset on: as many as were requested, and fewer where the input ends.
    fn read(&self, offset: u64, size: u64) -> impl Future<Output = Result<Bytes, PipeError>> + Send;
}

/// An input that still grows.
#[derive(Debug)]
pub struct GrowingInput<S, J> {
    /// Its bytes.
    pub bytes: S,
    /// Journal that records its upload.
    pub journal: J,
    /// Upload that holds parts of it. None: one is created.
    pub recorded: Option<RecordedUpload>,
    /// A process before has recorded the upload: parts that it holds are not sent again.
    pub is_resumed: bool,
}

/// Upload whole parts of an input, by their numbers. One that is not whole any more is left out. The upload stays open.
/// False: there is no such upload any more, and nothing was sent.
///
/// # Errors
/// Errors of the bytes, the journal and the service.
pub async fn send_parts<S: PartBytes, J: UploadJournal + Send>(
    client: RetryingClient,
    target: InputTarget,
    options: InputOptions,
    input: GrowingInput<S, J>,
    parts: &[u32],
) -> Result<bool, PipeError> {
    let GrowingInput { bytes, journal, recorded, is_resumed } = input;
    let input = ResumableInput { bytes, journal, recorded, replaces: ReplaceCondition::Anything };
    InputUpload::new(client, target, options, input).send_parts(is_resumed, parts).await
}

impl<S: PartBytes, J: UploadJournal + Send> InputUpload<S, J> {
    async fn send_parts(&self, is_resumed: bool, parts: &[u32]) -> Result<bool, PipeError> {
        let InputTarget { bucket, key } = &self.target;
        let session = UploadSession::new(self.client.clone(), bucket, key, now(), Arc::clone(&self.retry_context));
        let mut session = session.recorded(self.recorded.clone());
        let uploaded = if is_resumed { self.adopt(&mut session).await? } else { None };
        if self.recorded.is_some() && session.open().is_none() {
            return Ok(false);
        }
        let mut parts = parts;
        let sum = match &uploaded {
            Some(uploaded) => uploaded.sum,
            None if self.recorded.is_some() => self.sum(),
            None => {
                let Some((first, others)) = parts.split_first() else { return Ok(true) };
                let Some(filled) = self.part(*first).await? else { return Ok(true) };
                parts = others;
                self.begin(&mut session, *first, filled).await?.0
            }
        };
        let (session, uploaded) = (&session, uploaded.as_ref());
        let sent = stream::iter(parts.iter().copied()).map(|number| async move {
            if let Some(filled) = self.part(number).await? {
                self.send(session, number, sum, filled, uploaded).await?;
            }
            Ok::<_, PipeError>(())
        });
        sent.buffer_unordered(MAX_CONCURRENT_PARTS).try_collect::<()>().await?;
        Ok(true)
    }

    /// The bytes of a part. None: the input does not have all of them.
    async fn part(&self, number: u32) -> Result<Option<FilledPart>, PipeError> {
        let (offset, size) = ((1..number).map(|before| self.part_size(before)).sum(), self.part_size(number));
        let memory = self.client.reserve_bytes(size).await?;
        let bytes = self.source.read(offset, size).await?;
        Ok((bytes.len() as u64 == size).then_some(FilledPart { bytes, memory, is_last: false }))
    }
}
