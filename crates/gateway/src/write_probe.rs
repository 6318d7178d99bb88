//! Probe of write access to a bucket before its share is served.

use std::sync::Arc;

use seqferry_client::{RecordedUpload, RequestError, RetryingClient, UploadJournal, UploadSession};
use seqferry_store::CreateUpload;

use crate::error::GatewayError;

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
    storage_class: Option<&str>,
) -> Result<(), GatewayError> {
    let mut session = UploadSession::new(client, bucket, &format!("{prefix}{PROBE}"), 0.0, Arc::default());
    // Where uploads cannot be listed there is nothing to look for.
    let _swept = session.sweep(None).await;
    let request = CreateUpload { storage_class: storage_class.map(str::to_owned), ..session.request() };
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
