//! Removal from the bucket of objects and folder markers that were removed here.

use seqferry_store::crash_point::{self, When};
use seqferry_transfer::remove::remove;

use super::send::{FolderMarker, local};
use super::{UploadError, Uploader};
use crate::journal::Disk;
use crate::overlay::Change;
use crate::share::{status, within_call_timeout};

impl<D: Disk> Uploader<D> {
    pub(super) async fn remove(&self, path: &str, etag: &str) -> Result<(), UploadError> {
        let is_marker = path.ends_with('/');
        let mut wanted = (!etag.is_empty()).then(|| etag.to_owned());
        let mut left = Vec::new();
        if is_marker {
            // Where there is no marker, a removal would only leave a mark of itself in a bucket with versions.
            if let FolderMarker::Object(there) = self.find_marker(path).await? {
                if there.size == 0 {
                    wanted = Some(there.etag);
                } else {
                    // No client of the share has seen these bytes, nor written them.
                    left.push(path.to_owned());
                }
            }
        }
        if !is_marker || wanted.is_some() {
            let stays = remove(&self.spec.client, &self.spec.bucket, vec![(self.key(path), wanted)]).await?;
            // Removed, and the answer was lost: some services then show the folder in its place.
            if !is_marker || stays.is_empty() || matches!(self.find_marker(path).await?, FolderMarker::Object(_)) {
                left.extend(stays);
            }
        }
        if left.is_empty() {
            self.forget(path).await?;
        } else {
            tracing::warn!(
                "{} stays, though it was removed here: another program has replaced it, or has stored bytes under the \
                 name of a folder",
                self.address(path)
            );
        }
        crash_point::reach(When::Before, "removal-finished");
        let recorded = self.inner.overlay.change(|overlay| {
            let is_same = overlay.pending_removals().get(path).is_some_and(|now| **now == *etag);
            Ok((if is_same { vec![Change::EndRemoval { path: path.into() }] } else { Vec::new() }, ()))
        });
        recorded.await.map_err(local)?;
        crash_point::reach(When::After, "removal-finished");
        Ok(())
    }

    /// The tree of the bucket learns that an object has gone. Below a marker there may still be files.
    async fn forget(&self, path: &str) -> Result<(), UploadError> {
        let tree = self.inner.files.tree();
        match path.strip_suffix('/') {
            Some(folder) => {
                let found = within_call_timeout(async { tree.check_path(folder).await.map_err(status) })
                    .await
                    .map_err(local)?;
                if found.is_none() {
                    tree.note_removed(folder);
                }
            }
            None => tree.note_removed(path),
        }
        Ok(())
    }
}
