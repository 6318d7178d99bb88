//! Probe of write access to a bucket before its share is served.

use std::sync::Arc;

use seqferry_client::{RecordedUpload, RequestError, RetryingClient, UploadJournal, UploadSession};
use seqferry_store::CreateUpload;

use crate::error::GatewayError;
use crate::object_properties::ObjectProperties;

/// Key of the multipart upload that the probe creates and aborts. It never becomes an object.
const PROBE: &str = ".seqferry-write-probe";

/// The probe needs no record: it is aborted, and the next start aborts one that a killed process has left.
struct NoJournal;

impl UploadJournal for NoJournal {
    async fn record(&self, _upload: &RecordedUpload) -> Result<(), RequestError> {
        Ok(())
    }
}

/// Check that the bucket lets this gateway write: a multipart upload is created and aborted.
///
/// # Errors
/// When the bucket refuses the upload.
pub(crate) async fn probe_write_access(
    client: RetryingClient,
    bucket: &str,
    prefix: &str,
    objects: &ObjectProperties,
) -> Result<(), GatewayError> {
    let mut session = UploadSession::new(client, bucket, &format!("{prefix}{PROBE}"), 0.0, Arc::default());
    // Where uploads cannot be listed there is nothing to look for.
    let _swept = session.sweep(None).await;
    // As the files: a bucket may refuse another class, or writes without this encryption, and the key may be refused.
    let (storage_class, write) = (objects.storage_class(PROBE), objects.write_options());
    let request = CreateUpload { storage_class, write, tags: objects.tags(Vec::new()), ..session.request() };
    match session.begin(&request, &NoJournal).await {
        Ok(()) => {
            session.abort(true).await;
            Ok(())
        }
        Err(RequestError::Failed(error)) => Err(GatewayError(format!(
            "it cannot be written: {error}. {} To serve it without writing, set read_only = true",
            error.advice()
        ))),
        Err(RequestError::Cancelled) => Err(GatewayError("the request was cancelled".to_owned())),
    }
}
