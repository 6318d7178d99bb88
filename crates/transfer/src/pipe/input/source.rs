//! Sources of an input: a descriptor, which is read once, and bytes that can be read again.

use std::fs::File;
use std::io::{self, Read as _};
use std::sync::Arc;

use bytes::Bytes;
use seqferry_client::{RecordedUpload, RetryingClient, UploadJournal};
use tokio_util::sync::CancellationToken;

use super::{InputOptions, InputTarget, InputUpload};
use crate::pipe::{PipeError, PipeResult};

/// Object that an input may replace. Any other object at the target is a failure where the service supports conditions,
/// of class [`Precondition`](seqferry_store::ErrorClass::Precondition) or
/// [`NotFound`](seqferry_store::ErrorClass::NotFound).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ReplaceCondition {
    /// Any object.
    #[default]
    Anything,
    /// No object.
    Nothing,
    /// The object with this `ETag`.
    Version(String),
}

/// An input that is sent at a limited rate.
pub trait RateLimited: Send + Sync {
    /// Waits until so many bytes may be sent.
    fn admit(&self, bytes: u64) -> impl Future<Output = ()> + Send;
}

/// Bytes of an input, read once from the first to the last.
pub trait InputBytes: RateLimited {
    /// The next bytes: as many as were requested, and fewer at the end.
    fn next(&self, size: u64) -> impl Future<Output = Result<Bytes, PipeError>> + Send;
}

/// An input that can be read again, and continues where an earlier run was cut off.
#[derive(Debug)]
pub struct ResumableInput<S, J> {
    /// Its bytes.
    pub bytes: S,
    /// Journal that records its upload.
    pub journal: J,
    /// Upload that an earlier run has recorded, of the same bytes and attributes.
    pub recorded: Option<RecordedUpload>,
    /// Object that it may replace, besides the rule of its options.
    pub replaces: ReplaceCondition,
}

/// Bytes that come from a descriptor, until they are cancelled.
pub(super) struct Descriptor {
    pub(super) source: Arc<File>,
    pub(super) cancel: CancellationToken,
}

impl RateLimited for Descriptor {
    /// The limit of the client's bandwidth is its only one.
    async fn admit(&self, _bytes: u64) {}
}

impl InputBytes for Descriptor {
    async fn next(&self, size: u64) -> Result<Bytes, PipeError> {
        let source = Arc::clone(&self.source);
        let reading = tokio::task::spawn_blocking(move || {
            let mut bytes = Vec::new();
            (&*source).take(size).read_to_end(&mut bytes)?;
            Ok::<_, io::Error>(bytes)
        });
        let read = tokio::select! {
            biased;
            // The thread stays until bytes come or the process ends, which it does then.
            () = self.cancel.cancelled() => return Err(PipeError::Cancelled),
            read = reading => read,
        };
        Ok(read.map_err(|_| PipeError::Cancelled)?.map_err(PipeError::Descriptor)?.into())
    }
}

/// Stores an input that can be read again: by one request, or in parts, of which a later run sends only those that are
/// missing. An upload that fails stays open.
///
/// # Errors
/// Errors of the bytes and of the service. When the target is not what may be replaced, class
/// [`Precondition`](seqferry_store::ErrorClass::Precondition) or [`NotFound`](seqferry_store::ErrorClass::NotFound).
pub async fn store_resumable<S: InputBytes, J: UploadJournal + Send>(
    client: RetryingClient,
    target: InputTarget,
    options: InputOptions,
    input: ResumableInput<S, J>,
) -> PipeResult {
    InputUpload::new(client, target, options, input).store().await
}
