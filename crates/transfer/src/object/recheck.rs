//! The second check of a file that was changed a moment before it was opened ([`crate::recheck`]).

use seqferry_client::UploadJournal;
use seqferry_store::{ErrorClass, StoreError};

use super::{AttemptError, CopyResult, Object};
use crate::object_outcome::ObjectState;
use crate::recheck::FileOpening;

impl<J: UploadJournal> Object<'_, J> {
    /// One attempt. A copy of a file counts only when the file had settled before, or is the same after the settling
    /// time. A copy of a file that has changed is removed: it must not look whole.
    pub(super) async fn attempt_settled(&mut self) -> Result<CopyResult, AttemptError> {
        self.opening = FileOpening::now(self.policy.settle);
        self.modified = None;
        let copy = match self.attempt().await {
            Err(AttemptError::Transformed(failure)) => self.take_decompressed(failure).await?,
            end => end?,
        };
        // An object that an interrupted run may have copied was perhaps not checked again.
        let counts = copy.state == ObjectState::Done || copy.state == ObjectState::Skipped && self.may_be_ours();
        let source = self.source.capabilities();
        if !counts || self.policy.settle.is_zero() || !source.in_place_changes || !source.write_times {
            return Ok(copy);
        }
        match self.wait_unchanged().await {
            Ok(()) => Ok(copy),
            // Nothing else may hold these bytes meanwhile.
            Err(AttemptError::Failed(gone)) => Err(AttemptError::Failed(gone)),
            Err(AttemptError::Again(changed)) if copy.state == ObjectState::Done => {
                self.remove_on_source_change(Err(AttemptError::Again(changed)), &copy.target.etag).await
            }
            Err(other) => Err(other),
        }
    }

    /// Waits for the settling time, and checks that the file was not changed after it was opened.
    async fn wait_unchanged(&mut self) -> Result<(), AttemptError> {
        let modified = match self.modified {
            Some(modified) => modified,
            None => self.head_source().await?.last_modified,
        };
        let opening = self.opening;
        if !opening.is_young(modified) {
            return Ok(());
        }
        if !opening.is_past() {
            // Many small files wait at the same time.
            self.turn.give_up();
            opening.wait_until_settled(self.source.cancel()).await?;
        }
        let rechecked = match self.head_source().await {
            Ok(now) if opening.is_within_tick(now.last_modified) => Err(self.hidden_writes()),
            Ok(_) => Ok(()),
            Err(changed) => Err(changed),
        };
        if rechecked.is_err() {
            // It may be copied again.
            self.turn.take(self.source.cancel()).await?;
        }
        rechecked
    }

    /// The failure of a file that may have been written to without a new time.
    fn hidden_writes(&self) -> AttemptError {
        let (bucket, key) = (&self.policy.source_bucket, &self.item.source_key);
        let mut error = StoreError::new("HeadObject", bucket, Some(key), "SourceChanged", None);
        error.class = ErrorClass::Precondition;
        let how = "it was opened in the very second of its last change, and its file system keeps whole seconds";
        AttemptError::Again(self.source_change_failure(&error, how))
    }
}
