//! Ends of uploads that become no object: aborted, swept, or cleaned up after their completion.

use std::sync::PoisonError;
use std::time::Duration;

use seqferry_store::error::classify::code::LEASE_LAPSED;
use seqferry_store::{Address, ErrorClass, PartInfo, UploadRef};

use super::UploadSession;
use crate::client::RetryingClient;
use crate::request::{RequestError, RequestSpec};

/// Clocks of a service and of this machine may differ by so many seconds.
pub const CLOCK_SLACK: f64 = 15.0 * 60.0;

/// Longest wait for parts that were sent, before the last abort.
const LINGER: Duration = Duration::from_mins(1);
/// Most aborts of one upload, which is aborted until the service has forgotten it.
const ABORTS: usize = 10;

impl UploadSession {
    /// Aborts the uploads of this key that an interrupted run created but did not live to record. They hold no part, since no
    /// part starts before its upload is recorded; another client's upload that is in progress does hold one. `except` is in use.
    ///
    /// Best effort where the service does not list uploads, or these credentials may not: the bucket's lifecycle rule has to
    /// do it then.
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
            .call(RequestSpec::read("ListMultipartUploads", bucket), &self.tries, async |store| {
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
                self.abort_upload(&self.client, &upload.upload_id).await;
            }
        }
        Ok(())
    }

    /// Aborts the open upload, if there is one, and one that was still being created.
    ///
    /// Once at once, so that it costs nothing more, and again when the requests that were sent have come to their end: a
    /// service may keep a part that arrives after the abort. With `to_the_end` also after the client was cancelled; else a
    /// cancel leaves the upload open and recorded, for a later session.
    pub async fn abort(&mut self, to_the_end: bool) {
        let recorded = self.open.take();
        let client = self.client.uncancelled();
        let (bucket, key) = (&self.bucket, &self.key);
        if !self.under_way.is_empty() {
            if let Some(upload) = &recorded {
                let _first = client
                    .call(RequestSpec::write("AbortMultipartUpload", bucket), &self.tries, async |store| {
                        store.abort_upload(UploadRef::new(bucket, key, &upload.upload_id)).await
                    })
                    .await;
            }
            self.under_way.close();
            let stopped = async {
                if to_the_end {
                    std::future::pending::<()>().await;
                }
                self.client.cancel().cancelled().await;
            };
            tokio::select! {
                _over = tokio::time::timeout(LINGER, self.under_way.wait()) => {}
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
            self.abort_upload(&client, &upload_id).await;
        }
    }

    /// After an upload was completed while a part of it was under way a second time: sees to it that a service which takes
    /// that part for a new upload keeps nothing of it. Best effort, in the background.
    pub(super) fn see_off(&self, upload_id: String) {
        if self.under_way.is_empty() {
            return;
        }
        let (under_way, client) = (self.under_way.clone(), self.client.uncancelled());
        let session = Self::new(client, &self.bucket, &self.key, self.since, std::sync::Arc::default());
        tokio::spawn(async move {
            under_way.close();
            let _over = tokio::time::timeout(LINGER, under_way.wait()).await;
            if session.list_parts(&session.client, &upload_id).await.is_ok() {
                session.abort_upload(&session.client, &upload_id).await;
            }
        });
    }

    /// Aborts until the service has forgotten the upload: parts that were under way may survive the first time. Best effort:
    /// what fails here is left to the bucket's lifecycle rule.
    pub(super) async fn abort_upload(&self, client: &RetryingClient, upload_id: &str) {
        let (bucket, key) = (&self.bucket, &self.key);
        for _ in 0..ABORTS {
            match client
                .call(RequestSpec::write("AbortMultipartUpload", bucket), &self.tries, async |store| {
                    store.abort_upload(UploadRef::new(bucket, key, upload_id)).await
                })
                .await
            {
                // The next owner has it from the record, or finds it.
                Err(RequestError::Failed(error)) if error.code == LEASE_LAPSED => return,
                Err(RequestError::Failed(error)) if error.class != ErrorClass::NotFound => {
                    if client.capabilities().paid_uploads {
                        client.note(format!(
                            "{error}. The upload {upload_id} of {} stays open, and its parts are paid for: abort it when that is possible again (aws s3api abort-multipart-upload), or have the bucket do so (a lifecycle rule).",
                            Address(bucket, Some(key))
                        ));
                    }
                    return;
                }
                Err(_) => return,
                Ok(()) => {
                    if self.list_parts(client, upload_id).await.is_err() {
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
        let (bucket, key) = (&self.bucket, &self.key);
        let mut parts = Vec::new();
        let mut after = None;
        loop {
            let page = client
                .call(RequestSpec::read("ListParts", bucket), &self.tries, async |store| {
                    store.list_parts(UploadRef::new(bucket, key, upload_id), after).await
                })
                .await?;
            parts.extend(page.parts);
            match page.next {
                // A marker that does not move would loop forever.
                Some(next) if Some(next) > after => after = Some(next),
                _ => return Ok(parts),
            }
        }
    }
}
