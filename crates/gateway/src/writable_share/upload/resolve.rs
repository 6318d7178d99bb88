//! Writes that were cut off: their outcome is found out, and what is open of them is aborted.

use seqferry_client::RecordedUpload;
use seqferry_store::{ObjectMeta, StoredMetadata};
use seqferry_transfer::pipe::Replaces;

use super::plan::{Sending, is_beside};
use super::send::{NO_FILE, Uploaded, has_facts, local, time_of};
use super::{Trouble, Uploader};
use crate::journal::Disk;
use crate::overlay::{Change, Node, OpenUpload, Overlay};

impl<D: Disk> Uploader<D> {
    /// Find out what became of a write that was cut off, of a file that is another one by now, or none.
    pub(super) async fn resolve(&self, number: u64) -> Result<(), Trouble> {
        if number == NO_FILE {
            return self.conditions_hold().await.map(drop);
        }
        let open = self.inner.ledger.read(|overlay| overlay.uploads().get(&number).cloned());
        let Some(open) = open else { return Ok(()) };
        if is_beside(&open) {
            return self.abort(number).await;
        }
        // An upload in parts that is still open was not completed: the object is the one before, or of a later time.
        self.abort_parts(&open).await?;
        let there = self.head(&open.path).await?;
        let time = Some(time_of(open.modified));
        let is_it = |there: &&ObjectMeta| {
            there.size == open.size && StoredMetadata::of(&there.attributes.metadata).modified == time
        };
        let Some(there) = there.as_ref().filter(is_it) else { return self.abort(number).await };
        let path = open.path.trim_end_matches('/').into();
        // Bytes and time may be those of a generation before, which had another mode or owner.
        let has_all = |overlay: &Overlay| overlay.node(number).is_none_or(|node| has_facts(node, there));
        let has_all = self.inner.ledger.read(has_all);
        let sending = Sending { number, changed: open.changed, path, replaces: Replaces::Nothing, is_again: true };
        if open.path.ends_with('/') {
            return self.finish_marker(&sending, Some(&there.into())).await;
        }
        // Bytes that were never acknowledged may have been written over it before this process was started.
        let is_written = |node: &Node| node.data().is_some_and(|data| !data.written.is_empty());
        let is_here = |node: &Node| node.changed == open.changed && is_written(node);
        let is_here = self.inner.ledger.read(|overlay| overlay.node(number).is_some_and(is_here));
        let has_all = has_all && (!is_here || self.has_bytes(&sending, there).await?);
        // An object with other facts, and the bytes that the file had, was there before: nothing was written.
        let is_base =
            |node: &Node| node.base.as_ref().is_some_and(|base| base.path == open.path && *base.etag == *there.etag);
        let was_there = !has_all && self.inner.ledger.read(|overlay| overlay.node(number).is_some_and(is_base));
        let mut uploaded = Uploaded { has_facts: has_all, ..there.into() };
        uploaded.written = uploaded.written.filter(|_| !was_there);
        self.finish(&sending, &uploaded).await
    }

    /// Abort uploads in parts of a file, the recorded one and those that were created and not recorded.
    pub(super) async fn abort_parts(&self, open: &OpenUpload) -> Result<(), Trouble> {
        let session = self.session(&open.path, open.changed);
        session.sweep(None).await?;
        if !open.upload_id.is_empty() {
            let upload = RecordedUpload { upload_id: open.upload_id.clone().into(), part_size: open.part_size };
            session.recorded(Some(upload)).abort(true).await;
        }
        Ok(())
    }

    /// Abort the open upload of a file, if the journal has one.
    pub(super) async fn abort(&self, number: u64) -> Result<(), Trouble> {
        let found = self.inner.ledger.read(|overlay| overlay.uploads().get(&number).cloned());
        let Some(found) = found else { return Ok(()) };
        self.abort_parts(&found).await?;
        let ended = self.inner.ledger.change(|overlay| {
            let is_same = overlay.uploads().get(&number).is_some_and(|now| now.upload_id == found.upload_id);
            Ok((if is_same { vec![Change::Sent(number)] } else { Vec::new() }, ()))
        });
        ended.await.map_err(local)
    }
}
