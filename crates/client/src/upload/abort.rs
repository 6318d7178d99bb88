//! Ends of uploads that become no object: aborted, swept, or cleaned up after their completion.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use seqferry_store::{Cause, ErrorClass, ObjectUri, PartInfo, UploadRef};

use super::UploadSession;
use crate::client::RetryingClient;
use crate::request::{RequestError, RequestSpec, RetryContext};

/// Seconds by which the clocks of a service and of this machine may differ.
pub const CLOCK_SLACK: f64 = 15.0 * 60.0;

/// Longest wait for parts that were sent, before the last abort.
const LINGER: Duration = Duration::from_mins(1);
/// The same after a cancel, which must not wait for a service that does not answer. Most parts end within a second or
/// two. A part that the service ends later may stay, until a cleanup or the bucket's lifecycle rule removes it.
const LINGER_CANCELLED: Duration = Duration::from_secs(3);
/// Most aborts of one upload, which is aborted until the service has forgotten it.
const ABORTS: usize = 10;

/// Result of one abort.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AbortResult {
    /// The service has accepted it. A part that was under way may survive.
    Aborted,
    /// The upload was gone already: completed, aborted, or never there.
    Gone,
}

/// Aborts an upload by its id, once.
///
/// # Errors
/// The service refuses, or the call was cancelled. An upload that is gone is no error.
pub async fn abort_once(
    client: &RetryingClient,
    retry_context: &RetryContext,
    upload: UploadRef<'_>,
) -> Result<AbortResult, RequestError> {
    let spec = RequestSpec::write("AbortMultipartUpload", upload.bucket);
    match client.call(spec, retry_context, async |store| store.abort_upload(upload).await).await {
        Ok(()) => Ok(AbortResult::Aborted),
        Err(RequestError::Failed(error)) if error.class == ErrorClass::NotFound => Ok(AbortResult::Gone),
        Err(error) => Err(error),
    }
}

/// Lists the parts that an upload holds, in order of their number, and hands each page of them to `visit`.
///
/// # Errors
/// When a page cannot be had: class [`ErrorClass::NotFound`] where there is no such upload.
pub async fn for_each_page_of_parts(
    client: &RetryingClient,
    retry_context: &RetryContext,
    upload: UploadRef<'_>,
    mut visit: impl FnMut(Vec<PartInfo>),
) -> Result<(), RequestError> {
    let mut after = None;
    loop {
        let spec = RequestSpec::read("ListParts", upload.bucket);
        let page = client.call(spec, retry_context, async |store| store.list_parts(upload, after).await).await?;
        visit(page.parts);
        match page.next {
            // A marker that does not move would loop forever.
            Some(next) if Some(next) > after => after = Some(next),
            _ => return Ok(()),
        }
    }
}

impl UploadSession {
    /// Aborts uploads of this key that an interrupted run created and did not record. They hold no part, since no part
    /// starts before its upload is recorded. Uploads in progress of other clients do hold parts. `except` is in use.
    ///
    /// Best effort: where the service does not list uploads, or the credentials may not, the bucket's lifecycle rule
    /// removes them.
    ///
    /// # Errors
    /// When the uploads cannot be listed for another reason.
    pub async fn sweep(&self, except: Option<&str>) -> Result<(), RequestError> {
        if self.client.quirks().lists_no_uploads() {
            return Ok(());
        }
        let (bucket, key) = (&self.bucket, &self.key);
        let listed = self
            .client
            .call(RequestSpec::read("ListMultipartUploads", bucket), &self.retry_context, async |store| {
                store.list_uploads(bucket, key).await
            })
            .await;
        let uploads = match listed {
            Ok(uploads) => uploads,
            Err(RequestError::Failed(error)) if error.class == ErrorClass::Capability => {
                if self.client.quirks().learn_unlisted_uploads() {
                    self.client.note(format!(
                        "s3://{bucket}: the endpoint does not list open uploads ({} {}): one that was created right before a crash stays until the bucket's lifecycle rule aborts it.",
                        error.operation, error.code
                    ));
                }
                return Ok(());
            }
            Err(RequestError::Failed(error)) if matches!(error.class, ErrorClass::Person | ErrorClass::NotFound) => {
                return Ok(());
            }
            Err(other) => return Err(other),
        };
        let stale = uploads.into_iter().filter(|upload| {
            upload.key == *key
                && upload.initiated >= self.since - CLOCK_SLACK
                && Some(upload.upload_id.as_str()) != except
        });
        for upload in stale {
            let parts = self.list_parts(&self.client, &upload.upload_id).await;
            if matches!(&parts, Ok(parts) if parts.is_empty()) {
                self.abort_upload(&self.client, &upload.upload_id, true).await;
            }
        }
        Ok(())
    }

    /// Aborts the open upload, if there is one, and one that was still being created.
    ///
    /// The first abort is sent immediately, so that the upload costs nothing more. The second follows when the requests
    /// in flight have ended, since a service may keep a part that arrives after the abort. With `to_the_end` that wait
    /// continues after the client was cancelled; else a cancel leaves the upload open and recorded, for a later
    /// session.
    pub async fn abort(&mut self, to_the_end: bool) {
        let recorded = self.open.take();
        let client = self.client.uncancelled();
        let (bucket, key) = (&self.bucket, &self.key);
        if !self.under_way.is_empty() {
            if let Some(upload) = &recorded {
                let _first =
                    abort_once(&client, &self.retry_context, UploadRef::new(bucket, key, &upload.upload_id)).await;
            }
            self.under_way.close();
            let stopped = async {
                if to_the_end {
                    std::future::pending::<()>().await;
                }
                self.client.cancel().cancelled().await;
            };
            tokio::select! {
                () = self.under_way.wait() => {}
                () = self.has_lingered() => self.give_up_requests().await,
                () = stopped => {
                    self.open = recorded;
                    self.under_way.reopen();
                    return;
                }
            }
            self.under_way.reopen();
        }
        let mut open = std::mem::take(&mut *self.created.lock().unwrap_or_else(PoisonError::into_inner));
        open.extend(recorded.map(|upload| upload.upload_id));
        for upload_id in open {
            self.abort_upload(&client, &upload_id, self.may_hold_parts.load(Ordering::Relaxed)).await;
        }
    }

    /// Returns when requests under way have been waited for long enough.
    async fn has_lingered(&self) {
        let cancelled = async {
            self.client.cancel().cancelled().await;
            tokio::time::sleep(LINGER_CANCELLED).await;
        };
        tokio::select! {
            () = tokio::time::sleep(LINGER) => {}
            () = cancelled => {}
        }
    }

    /// Ends the requests under way: their connections are closed.
    async fn give_up_requests(&mut self) {
        std::mem::take(&mut self.give_up).cancel();
        self.under_way.wait().await;
    }

    /// Aborts what late parts leave behind after their upload was completed: some services begin a new upload for them.
    /// Waits until all parts in flight have ended. Best effort, in the background.
    pub(super) fn clean_up_late_parts(&self, upload_id: String) {
        if self.under_way.is_empty() {
            return;
        }
        let (under_way, client) = (self.under_way.clone(), self.client.uncancelled());
        let session = Self::new(client, &self.bucket, &self.key, self.since, std::sync::Arc::default());
        tokio::spawn(async move {
            under_way.close();
            let _over = tokio::time::timeout(LINGER, under_way.wait()).await;
            if session.list_parts(&session.client, &upload_id).await.is_ok() {
                session.abort_upload(&session.client, &upload_id, true).await;
            }
        });
    }

    /// Aborts until the service has forgotten an upload that may hold parts: those in flight may survive the first
    /// abort. Best effort: the bucket's lifecycle rule removes an upload that could not be aborted.
    pub(super) async fn abort_upload(&self, client: &RetryingClient, upload_id: &str, may_hold_parts: bool) {
        let (bucket, key) = (&self.bucket, &self.key);
        for _ in 0..ABORTS {
            match abort_once(client, &self.retry_context, UploadRef::new(bucket, key, upload_id)).await {
                // The next owner has it from the record, or finds it.
                Err(RequestError::Failed(error)) if error.cause() == Cause::LeaseLapsed => return,
                Err(RequestError::Failed(error)) => {
                    if client.capabilities().paid_uploads {
                        client.note(format!(
                            "{error}. The upload {upload_id} of {} stays open, and its parts are paid for: abort it when that is possible again (aws s3api abort-multipart-upload), or have the bucket do so (a lifecycle rule).",
                            ObjectUri(bucket, Some(key))
                        ));
                    }
                    return;
                }
                Err(RequestError::Cancelled) | Ok(AbortResult::Gone) => return,
                Ok(AbortResult::Aborted) => {
                    if !may_hold_parts || self.list_parts(client, upload_id).await.is_err() {
                        return;
                    }
                }
            }
        }
    }

    /// Every part that an upload holds.
    pub(super) async fn list_parts(
        &self,
        client: &RetryingClient,
        upload_id: &str,
    ) -> Result<Vec<PartInfo>, RequestError> {
        let upload = UploadRef::new(&self.bucket, &self.key, upload_id);
        let mut parts = Vec::new();
        for_each_page_of_parts(client, &self.retry_context, upload, |page| parts.extend(page)).await?;
        Ok(parts)
    }
}
