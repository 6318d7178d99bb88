//! Interrupted writes: find out their outcome, and abort their open multipart uploads.

use seqferry_client::RecordedUpload;
use seqferry_store::ObjectMeta;
use seqferry_transfer::pipe::ReplaceCondition;

use super::condition_probe::NO_FILE;
use super::metadata::has_facts;
use super::plan::{FileUpload, is_conflict_copy};
use super::send::{UploadedObject, local};
use super::verify::ContentMatch;
use super::{UploadError, Uploader};
use crate::journal::Disk;
use crate::overlay::{Change, Node, OpenUpload};

impl<D: Disk> Uploader<D> {
    /// Find out the outcome of a write that was cut off, of a file that has changed meanwhile, or none.
    pub(super) async fn resolve(&self, number: u64) -> Result<(), UploadError> {
        if number == NO_FILE {
            return self.end_probe().await;
        }
        let open = self.inner.overlay.read(|overlay| overlay.uploads().get(&number).cloned());
        let Some(open) = open else { return Ok(()) };
        if is_conflict_copy(&open) {
            return self.resolve_beside(&open).await;
        }
        // An upload in parts that is still open was not completed: the object is the one before, or of a later time.
        self.abort_parts(&open).await?;
        let there = self.head(&open.path).await?;
        let path = open.path.trim_end_matches('/').into();
        let file_upload =
            FileUpload { number, changed: open.changed, path, replaces: ReplaceCondition::Nothing, is_again: true };
        let Some(there) = there.as_ref().filter(|there| open.has_made(there)) else {
            return self.abort(number).await;
        };
        if open.path.ends_with('/') {
            return self.finish_marker(&file_upload, Some(&there.into())).await;
        }
        let has_facts = self.has_all(&file_upload, &open, there).await?;
        self.finish(&file_upload, &UploadedObject { has_facts, ..there.into() }).await
    }

    /// True when the object of a write is the file as it is now. Bytes that were never acknowledged may have been
    /// written over it before this process was started.
    async fn has_all(
        &self,
        file_upload: &FileUpload,
        open: &OpenUpload,
        there: &ObjectMeta,
    ) -> Result<bool, UploadError> {
        let node = self.inner.overlay.read(|overlay| overlay.node(open.number).cloned());
        let Some(node) = node.filter(|node| node.changed == open.changed) else { return Ok(true) };
        if !has_facts(&node, there) {
            return Ok(false);
        }
        let is_written = |node: &Node| node.data().is_some_and(|data| !data.written.is_empty());
        if open.is_of_this_process || !is_written(&node) {
            return Ok(true);
        }
        Ok(self.compare(file_upload, open.part_size, there).await? == ContentMatch::Same)
    }

    /// Abort uploads in parts of a file, the recorded one and those that were created and not recorded.
    pub(super) async fn abort_parts(&self, open: &OpenUpload) -> Result<(), UploadError> {
        let session = self.session(&open.path, open.changed);
        session.sweep(None).await?;
        if !open.upload_id.is_empty() {
            let upload =
                RecordedUpload { upload_id: open.upload_id.clone().into(), part_size: open.part_size, etag: None };
            session.recorded(Some(upload)).abort(true).await;
        }
        Ok(())
    }

    /// Abort the open upload of a file, if the journal has one.
    pub(super) async fn abort(&self, number: u64) -> Result<(), UploadError> {
        let found = self.inner.overlay.read(|overlay| overlay.uploads().get(&number).cloned());
        let Some(found) = found else { return Ok(()) };
        self.abort_parts(&found).await?;
        let ended = self.inner.overlay.change(|overlay| {
            let is_same = overlay.uploads().get(&number).is_some_and(|now| now.upload_id == found.upload_id);
            Ok((if is_same { vec![Change::EndUpload(number)] } else { Vec::new() }, ()))
        });
        ended.await.map_err(local)
    }
}
