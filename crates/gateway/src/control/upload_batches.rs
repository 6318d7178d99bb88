//! Control requests about upload batches, sent by the process that records them as transfers.

use serde_json::{Value, json};

use super::GatewayControl;
use super::requests::ControlReply;
use crate::writable_share::WritableShare;

impl GatewayControl {
    /// Upload batches of each share that the record has not taken.
    pub(super) fn upload_batches(&self) -> Value {
        let shares = self.writable().map(|(one, writable)| {
            let waiting = writable.pending_upload_batches();
            json!({
                "share": one.name, "bucket": one.bucket, "prefix": one.prefix, "journal": waiting.journal,
                "epochs": waiting.upload_batches,
            })
        });
        json!({"shares": shares.collect::<Vec<_>>()})
    }

    /// Put all outcomes into batches.
    pub(super) async fn freeze(&self) -> Result<(), String> {
        let mut done = Ok(());
        for (one, writable) in self.writable() {
            if let Err(text) = writable.freeze_upload_batch().await {
                done = Err(format!("share {}: {text}", one.name));
            }
        }
        done
    }

    fn written(&self, name: &str) -> Result<&WritableShare, String> {
        let found = self.writable().find(|(one, _)| one.name == name);
        found.map(|(_, writable)| writable).ok_or_else(|| format!("no share {name} is written here"))
    }

    /// Outcomes of a batch from an offset on.
    pub(super) async fn upload_batch_page(&self, share: &str, batch: u64, offset: u64) -> ControlReply {
        match self.written(share)?.upload_batch_page(batch, offset).await {
            Ok(Some(page)) => serde_json::to_value(page).map_err(|error| error.to_string()),
            Ok(None) => Err(format!("the upload batch {batch} of the share {share} was taken already")),
            Err(error) => Err(format!("the upload batch {batch} of the share {share} cannot be read: {error}")),
        }
    }

    /// The record has a batch.
    pub(super) async fn forget_upload_batch(&self, share: &str, batch: u64) -> ControlReply {
        let forgotten = self.written(share)?.forget_upload_batch(batch).await;
        forgotten
            .map_err(|error| format!("the upload batch {batch} of the share {share} cannot be removed: {error}"))?;
        Ok(json!({}))
    }
}
