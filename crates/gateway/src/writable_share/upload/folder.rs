//! A folder of the bucket that was renamed here: its files become files of the overlay, each of which is then copied to
//! its new key and removed from the old one, as any file that was renamed.

use bytes::Bytes;
use seqferry_share::{EntryDetail, FileError, FileId};
use seqferry_store::ObjectMeta;
use seqferry_store::crash_point::{self, When};
use seqferry_transfer::pipe::ReplaceCondition;
use seqferry_vfs::FileKind;

use super::plan::{FileUpload, may_send};
use super::send::{FolderMarker, local};
use super::{UploadError, Uploader};
use crate::journal::Disk;
use crate::overlay::{BaseObject, Change, Node, NodeContent, OF_BUCKET, join};
use crate::share::{status, within_call_timeout};
use crate::writable_share::find::BucketEntry;

/// Names that are taken up at a time.
const NAMES: usize = 128;

impl<D: Disk> Uploader<D> {
    pub(super) async fn move_folder(&self, number: u64) -> Result<(), UploadError> {
        let inner = &self.inner;
        let prefix = inner.overlay.read(|overlay| overlay.node(number).and_then(|node| node.base.clone()));
        let Some(base) = prefix else { return Err(UploadError::Superseded) };
        // Where the tree of the bucket takes the folder for absent, its files would stay behind.
        let tree = inner.files.tree();
        within_call_timeout(async { tree.check_path(&base.path).await.map_err(status) }).await.map_err(local)?;
        let mut after: Option<String> = None;
        loop {
            let page = inner
                .lower_names(Some(&base.path), (after.as_deref(), NAMES), EntryDetail::All)
                .await
                .map_err(local)?;
            for (name, attributes) in &page.entries {
                let path = join(&base.path, name);
                let target = if attributes.kind == FileKind::Symlink {
                    within_call_timeout(async { inner.files.read_link(attributes.inode).await.map_err(status) })
                        .await
                        .map_err(local)?
                } else {
                    Bytes::new()
                };
                let lower = BucketEntry { path, attributes: attributes.clone() };
                let adopted = inner.overlay.record(|overlay| {
                    let is_same = overlay.node(number).is_some_and(|node| node.base.as_ref() == Some(&base));
                    if !is_same || overlay.entry(number, name).is_some() {
                        return Ok((Vec::new(), ()));
                    }
                    let file = overlay.bucket_file(&inner.file_table, number, name).ok_or(FileError::Io)?;
                    let node = inner.adopted(file, (number, name), &lower, &target)?;
                    let counted = overlay.count_renamed(&node);
                    Ok((counted.into_iter().chain([Change::Put(Box::new(node))]).collect(), ()))
                });
                adopted.await.map_err(local)?;
            }
            after = page.entries.into_iter().last().map(|(name, _)| name);
            if page.is_end || after.is_none() {
                break;
            }
        }
        self.hold_folders(number, &base).await?;
        let marker = match self.find_marker(&format!("{}/", base.path)).await? {
            FolderMarker::Object(marker) => Some(marker),
            FolderMarker::Absent | FolderMarker::Implied => None,
        };
        crash_point::reach(When::Before, "folder-moved");
        if let Some(marker) = &marker
            && self.move_marker(number, &base, marker).await?
        {
            crash_point::reach(When::After, "folder-moved");
            return Ok(());
        }
        let moved = inner.overlay.change(|overlay| {
            let node = overlay.node(number).filter(|node| node.base.as_ref() == Some(&base));
            let Some(mut node) = node.cloned() else { return Ok((Vec::new(), ())) };
            // Renamed back meanwhile.
            if overlay.path(&inner.file_table, number).is_ok_and(|path| *path == *base.path) {
                return Ok((Vec::new(), ()));
            }
            // A file below has become one of the overlay since.
            if !overlay.holders_in(&inner.file_table, number).is_empty() {
                return Err(FileError::Stale);
            }
            node.base = None;
            // What it states of the folder is stated by the new one.
            if let Some(marker) = &marker {
                inner.take_unstated(&mut node, &seqferry_vfs::Attributes::of_object(marker));
            }
            let doom = Change::AddRemoval { path: format!("{}/", base.path).into(), etag: "".into() };
            Ok((vec![Change::Put(Box::new(node)), doom], ()))
        });
        moved.await.map_err(local)?;
        crash_point::reach(When::After, "folder-moved");
        Ok(())
    }

    /// Put the marker of a folder whose files have moved to its new path, with all metadata that it has. False when
    /// another object is in the way there.
    async fn move_marker(&self, number: u64, base: &BaseObject, marker: &ObjectMeta) -> Result<bool, UploadError> {
        let inner = &self.inner;
        let planned = inner.overlay.read(|overlay| {
            let node = overlay.node(number).filter(|node| node.base.as_ref() == Some(base))?;
            let path = overlay.path(&inner.file_table, number).ok().filter(|path| *path != *base.path)?.into();
            let replaces = ReplaceCondition::Nothing;
            let file_upload = FileUpload { number, changed: node.changed, path, replaces, is_again: false };
            may_send(overlay, &inner.file_table, &file_upload).then(|| (file_upload, node.clone()))
        });
        let Some((file_upload, node)) = planned else { return Ok(false) };
        let (open, _) = self.announce(&file_upload, &node).await?;
        self.send_marker(&file_upload, &node, &open, Some(marker)).await?;
        Ok(true)
    }

    /// Folders that hold files of the overlay become folders of it, whether the bucket still shows them or not: files
    /// below were perhaps copied to their new keys already.
    async fn hold_folders(&self, number: u64, base: &BaseObject) -> Result<(), UploadError> {
        let inner = &self.inner;
        let held = inner.overlay.read(|overlay| overlay.holders_in(&inner.file_table, number));
        for (folder, name) in held {
            let recorded = inner.overlay.record(|overlay| {
                let parent = overlay.node(number).filter(|node| node.base.as_ref() == Some(base));
                let is_decided = overlay.node(folder).is_some() || overlay.entry(number, &name).is_some();
                let Some(parent) = parent.filter(|_| !is_decided) else { return Ok((Vec::new(), ())) };
                let path = join(&base.path, &name).into();
                let node = Node {
                    file: FileId { number: folder, generation: OF_BUCKET },
                    parent: number,
                    name: name.clone(),
                    mode: inner.defaults.directory_mode,
                    uid: inner.defaults.uid,
                    gid: inner.defaults.gid,
                    uploaded: 0,
                    stated: 0,
                    exclusive: None,
                    writer: None,
                    base: Some(BaseObject { path, etag: "".into(), size: 0, visible: 0 }),
                    content: NodeContent::Directory,
                    ..parent.clone()
                };
                Ok((vec![Change::Put(Box::new(node))], ()))
            });
            recorded.await.map_err(local)?;
        }
        Ok(())
    }
}
