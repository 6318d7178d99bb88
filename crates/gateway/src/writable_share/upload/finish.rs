//! End of an upload in the journal: the file becomes clean, a folder gets its marker, or a removed file is forgotten.

use std::collections::HashSet;

use seqferry_share::FileError;
use seqferry_store::crash_point::{self, When};

use super::growing::end_grown;
use super::plan::{FileUpload, to_show};
use super::send::{UploadedObject, local};
use super::{UploadError, Uploader};
use crate::journal::Disk;
use crate::overlay::{BaseObject, Change, FileData, Node, NodeContent, Overlay, join};

/// Names that show again at a time.
const SHOWN: usize = 1024;

pub(super) fn clean(node: &mut Node, base: BaseObject) {
    if let NodeContent::File(data) = &mut node.content {
        *data = FileData { size: base.size, durable_size: base.size, ..FileData::default() };
    }
    node.uploaded = node.changed;
    node.base = Some(base);
}

pub(super) fn base_at(path: &str, uploaded: &UploadedObject) -> BaseObject {
    BaseObject { path: path.into(), etag: uploaded.etag.as_str().into(), size: uploaded.size, visible: uploaded.size }
}

/// The changes after which nothing of an upload is left to do.
pub(super) fn ended(overlay: &Overlay, file_upload: &FileUpload) -> Vec<Change> {
    let mut changes = Vec::new();
    if overlay.uploads().contains_key(&file_upload.number) {
        changes.push(Change::EndUpload(file_upload.number));
    }
    if overlay.pending_removals().contains_key(&*file_upload.path) {
        changes.push(Change::EndRemoval { path: file_upload.path.clone() });
    }
    changes.extend(end_grown(overlay, file_upload.number));
    changes
}

impl<D: Disk> Uploader<D> {
    /// The bucket has the file: it is clean if it is still the same generation.
    pub(super) async fn finish(&self, file_upload: &FileUpload, uploaded: &UploadedObject) -> Result<(), UploadError> {
        let number = file_upload.number;
        if file_upload.is_again {
            // A process before may have created an upload that it did not record.
            self.session(&file_upload.path, file_upload.changed).sweep(None).await?;
        }
        let lock = self.inner.lock_of(number);
        let alone = lock.alone().await;
        crash_point::reach(When::Before, "upload-finished");
        let recorded = self.inner.overlay.change(|overlay| {
            let mut changes = ended(overlay, file_upload);
            if let Some(written) = &uploaded.written {
                let version = (uploaded.etag.as_str(), uploaded.size);
                changes.push(self.written(overlay, (number, &file_upload.path), version, written));
            }
            let Some(mut node) = overlay.node(number).cloned() else {
                // It was removed meanwhile.
                changes
                    .push(Change::AddRemoval { path: file_upload.path.clone(), etag: uploaded.etag.as_str().into() });
                return Ok((changes, true));
            };
            let before = node.base.take();
            if let Some(before) = before.as_ref().filter(|before| before.path != file_upload.path) {
                changes.push(Change::AddRemoval { path: before.path.clone(), etag: before.etag.clone() });
            }
            let is_clean = node.changed == file_upload.changed && uploaded.has_facts;
            let mut base = base_at(&file_upload.path, uploaded);
            if is_clean {
                clean(&mut node, base);
            } else {
                // Bytes of it that were not written here are those of the object before.
                base.visible = before.map_or(0, |before| before.visible.min(base.size));
                node.base = Some(base);
                if uploaded.has_facts {
                    node.uploaded = file_upload.changed;
                }
            }
            changes.push(Change::Put(Box::new(node)));
            Ok((changes, is_clean))
        });
        let is_clean = recorded.await.map_err(local)?;
        crash_point::reach(When::After, "upload-finished");
        if is_clean {
            self.drop_data(number).await;
        }
        drop(alone);
        Ok(())
    }

    pub(super) async fn drop_data(&self, number: u64) {
        if let Err(error) = self.inner.blocking(move |data| data.remove(number)).await {
            tracing::warn!("a data file cannot be removed: {error}");
        }
    }

    /// The folder has its marker: what is below it in the bucket shows in it.
    pub(super) async fn finish_marker(
        &self,
        file_upload: &FileUpload,
        uploaded: Option<&UploadedObject>,
    ) -> Result<(), UploadError> {
        let (inner, number) = (&self.inner, file_upload.number);
        let marker: Box<str> = format!("{}/", file_upload.path).into();
        let recorded = inner.overlay.change(|overlay| {
            let mut changes = vec![Change::EndUpload(number)];
            if let Some((uploaded, written)) =
                uploaded.and_then(|uploaded| Some((uploaded, uploaded.written.as_ref()?)))
            {
                let version = (uploaded.etag.as_str(), 0);
                changes.push(self.written(overlay, (number, &marker), version, written));
            }
            if overlay.pending_removals().contains_key(&marker) {
                changes.push(Change::EndRemoval { path: marker.clone() });
            }
            let node = overlay.node(number);
            let is_there = overlay.path(&inner.file_table, number).is_ok_and(|path| *path == *file_upload.path);
            let Some(mut node) = node.filter(|_| is_there).cloned() else {
                changes.push(Change::AddRemoval { path: marker.clone(), etag: "".into() });
                return Ok((changes, ()));
            };
            if let Some(base) = node.base.take().filter(|base| base.path != file_upload.path) {
                // A file below has become one of the overlay since its files were moved.
                if !overlay.holders_in(&inner.file_table, number).is_empty() {
                    return Ok((changes, ()));
                }
                changes.push(Change::AddRemoval { path: format!("{}/", base.path).into(), etag: "".into() });
            }
            node.base = Some(BaseObject { path: file_upload.path.clone(), etag: "".into(), size: 0, visible: 0 });
            changes.push(Change::Put(Box::new(node)));
            // Names that were removed or renamed while the folder was here alone must not show again.
            let moved = overlay.nodes().filter_map(|node| node.base.as_ref()).map(|base| &*base.path);
            let written = overlay.uploads().values().map(|open| &*open.path);
            let gone = overlay.pending_removals().keys().map(|path| &**path).chain(moved).chain(written);
            let below = gone.filter_map(|path| path.strip_prefix(&*marker)?.split('/').next());
            let absent = below.filter(|name| !name.is_empty() && overlay.entry(number, name).is_none());
            let names: std::collections::BTreeSet<&str> = absent.collect();
            changes.extend(names.into_iter().map(|name| Change::Hide { parent: number, name: name.into() }));
            Ok((changes, ()))
        });
        recorded.await.map_err(local)
    }

    /// Show names of the bucket again when no removal below them is pending.
    pub(super) async fn show_again(&self) {
        let inner = &self.inner;
        let names = |overlay: &Overlay| {
            if overlay.uploads().is_empty() { to_show(overlay, &inner.file_table) } else { Vec::new() }
        };
        let mut ready = Vec::new();
        for (parent, name) in inner.overlay.read(names).into_iter().take(SHOWN) {
            if self.is_known(parent, &name).await {
                ready.push((parent, name));
            }
        }
        if ready.is_empty() {
            return;
        }
        let shown = inner.overlay.record(|overlay| {
            let still: HashSet<_> = names(overlay).into_iter().collect();
            let ready = ready.iter().filter(|name| still.contains(name)).cloned();
            Ok((ready.map(|(parent, name)| Change::Show { parent, name }).collect(), ()))
        });
        // The journal has said why; the next removal retries it.
        let _tried = shown.await;
    }

    /// True when the tree of the bucket is known to be right about a name. It may remember a folder whose last file was
    /// removed since.
    async fn is_known(&self, parent: u64, name: &str) -> bool {
        let inner = &self.inner;
        let Ok(Some(prefix)) = inner.overlay.read(|overlay| overlay.lower(&inner.file_table, parent)) else {
            return true;
        };
        let path = join(&prefix, name);
        match inner.walk(&path).await {
            Ok(_) => inner.files.tree().check_path(&path).await.is_ok(),
            Err(FileError::Stale) => true,
            Err(_) => false,
        }
    }
}
