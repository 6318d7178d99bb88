//! Upload batches, for the code of this process that records them as transfers.

use std::fmt::Display;

use tokio::runtime::Handle;

use super::GatewayControl;
use crate::error::GatewayError;
use crate::overlay::UploadOutcome;
use crate::upload_batches::RenamedFolder;
use crate::writable_share::WritableShare;

/// An upload batch that is not on record. Its methods block.
#[derive(Debug)]
pub struct UploadBatch {
    /// Name of the share.
    pub share: String,
    /// Beginning of the keys before the paths of the share.
    pub prefix: String,
    /// Name of the share's journal: batches of different journals are different ones.
    pub journal: String,
    /// Number of the batch in its journal.
    pub number: u64,
    writable: WritableShare,
    runtime: Handle,
}

impl UploadBatch {
    /// Its outcomes, in their order, and the folder by whose rename they came.
    ///
    /// # Errors
    /// When its file cannot be read or is damaged.
    pub fn outcomes(&self) -> Result<(Vec<UploadOutcome>, Option<RenamedFolder>), GatewayError> {
        let read = self.runtime.block_on(self.writable.read_upload_batch(self.number));
        read.map_err(|error| self.error("read", &error))
    }

    /// Remove it: the record has it. A batch that is not known is removed already.
    ///
    /// # Errors
    /// When its file cannot be removed.
    pub fn forget(&self) -> Result<(), GatewayError> {
        let forgotten = self.runtime.block_on(self.writable.forget_upload_batch(self.number));
        forgotten.map_err(|error| self.error("removed", &error))
    }

    fn error(&self, what: &str, error: &dyn Display) -> GatewayError {
        let Self { number, share, .. } = self;
        GatewayError(format!("the upload batch {number} of the share {share} cannot be {what}: {error}"))
    }
}

impl GatewayControl {
    /// Upload batches of all shares that the record has not taken, the oldest of each share first.
    pub(crate) fn upload_batches(&self, runtime: &Handle) -> Vec<UploadBatch> {
        let pending =
            self.writable().filter_map(|(one, writable)| Some((one, writable, writable.pending_upload_batches()?)));
        let batches = pending.flat_map(|(one, writable, (journal, numbers))| {
            numbers.into_iter().map(move |number| UploadBatch {
                share: one.name.clone(),
                prefix: one.prefix.clone(),
                journal: journal.clone(),
                number,
                writable: writable.clone(),
                runtime: runtime.clone(),
            })
        });
        batches.collect()
    }

    /// Put all outcomes into batches.
    pub(crate) async fn freeze(&self) -> Result<(), String> {
        let mut done = Ok(());
        for (one, writable) in self.writable() {
            if let Err(text) = writable.freeze_upload_batch().await {
                done = Err(format!("share {}: {text}", one.name));
            }
        }
        done
    }
}
