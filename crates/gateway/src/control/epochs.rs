//! Requests of the process that puts epochs on record.

use serde_json::{Value, json};

use super::Controlled;
use super::requests::Answer;
use crate::writable_share::WritableShare;

impl Controlled {
    /// Epochs of each share that the record has not taken.
    pub(super) fn epochs(&self) -> Value {
        let shares = self.writable().map(|(one, writable)| {
            let waiting = writable.waiting_epochs();
            json!({
                "share": one.name, "bucket": one.bucket, "prefix": one.prefix, "journal": waiting.journal,
                "epochs": waiting.epochs,
            })
        });
        json!({"shares": shares.collect::<Vec<_>>()})
    }

    /// Put all outcomes into epochs.
    pub(super) async fn freeze(&self) -> Result<(), String> {
        let mut done = Ok(());
        for (one, writable) in self.writable() {
            if let Err(text) = writable.freeze_epoch().await {
                done = Err(format!("share {}: {text}", one.name));
            }
        }
        done
    }

    fn written(&self, name: &str) -> Result<&WritableShare, String> {
        let found = self.writable().find(|(one, _)| one.name == name);
        found.map(|(_, writable)| writable).ok_or_else(|| format!("no share {name} is written here"))
    }

    /// Outcomes of an epoch from an offset on.
    pub(super) async fn epoch_page(&self, share: &str, epoch: u64, offset: u64) -> Answer {
        match self.written(share)?.epoch_page(epoch, offset).await {
            Ok(Some(page)) => serde_json::to_value(page).map_err(|error| error.to_string()),
            Ok(None) => Err(format!("the epoch {epoch} of the share {share} was taken already")),
            Err(error) => Err(format!("the epoch {epoch} of the share {share} cannot be read: {error}")),
        }
    }

    /// The record has an epoch.
    pub(super) async fn forget_epoch(&self, share: &str, epoch: u64) -> Answer {
        let forgotten = self.written(share)?.forget_epoch(epoch).await;
        forgotten.map_err(|error| format!("the epoch {epoch} of the share {share} cannot be removed: {error}"))?;
        Ok(json!({}))
    }
}
