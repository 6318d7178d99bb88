//! The end of an upload in the journal: a clean file, a conflict, or a file that is no more.

use std::collections::HashSet;

use seqferry_nfs::FileError;
use seqferry_store::ObjectMeta;
use seqferry_store::crash_point::{self, When};
use seqferry_transfer::pipe::Replaces;

use super::plan::{self, Sending, to_show};
use super::send::{Uploaded, has_facts, local};
use super::{Trouble, Uploader};
use crate::journal::Disk;
use crate::overlay::{Base, Change, Content, Data, FailedUpload, Node, OpenUpload, Overlay, join};

/// Names that show again at a time.
const SHOWN: usize = 1024;
/// Longest key of S3, in bytes.
const LONGEST_KEY: usize = 1024;

fn clean(node: &mut Node, base: Base) {
    if let Content::File(data) = &mut node.content {
        *data = Data { size: base.size, durable_size: base.size, ..Data::default() };
    }
    node.uploaded = node.changed;
    node.base = Some(base);
}

fn base_at(path: &str, uploaded: &Uploaded) -> Base {
    Base { path: path.into(), etag: uploaded.etag.as_str().into(), size: uploaded.size, visible: uploaded.size }
}

/// The changes after which nothing of an upload is left to do.
fn ended(overlay: &Overlay, sending: &Sending) -> Vec<Change> {
    let mut changes = Vec::new();
    if overlay.uploads().contains_key(&sending.number) {
        changes.push(Change::Sent(sending.number));
    }
    if overlay.doomed().contains_key(&*sending.path) {
        changes.push(Change::Gone { path: sending.path.clone() });
    }
    changes
}

impl<D: Disk> Uploader<D> {
    /// The bucket has the file: it is clean if it is still the same generation.
    pub(super) async fn finish(&self, sending: &Sending, uploaded: &Uploaded) -> Result<(), Trouble> {
        let number = sending.number;
        if sending.is_again {
            // A process before may have created an upload that it did not record.
            self.session(&sending.path, sending.changed).sweep(None).await?;
        }
        let lock = self.inner.lock_of(number);
        let alone = lock.alone().await;
        crash_point::reach(When::Before, "upload-finished");
        let recorded = self.inner.ledger.change(|overlay| {
            let mut changes = ended(overlay, sending);
            if let Some(written) = &uploaded.written {
                let version = (uploaded.etag.as_str(), uploaded.size);
                changes.push(self.written((number, &sending.path), overlay.node(number), version, written));
            }
            let Some(mut node) = overlay.node(number).cloned() else {
                // It was removed meanwhile.
                changes.push(Change::Doom { path: sending.path.clone(), etag: uploaded.etag.as_str().into() });
                return Ok((changes, true));
            };
            let before = node.base.take();
            if let Some(before) = before.as_ref().filter(|before| before.path != sending.path) {
                changes.push(Change::Doom { path: before.path.clone(), etag: before.etag.clone() });
            }
            let is_clean = node.changed == sending.changed && uploaded.has_facts;
            let mut base = base_at(&sending.path, uploaded);
            if is_clean {
                clean(&mut node, base);
            } else {
                // Bytes of it that were not written here are those of the object before.
                base.visible = before.map_or(0, |before| before.visible.min(base.size));
                node.base = Some(base);
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

    async fn drop_data(&self, number: u64) {
        if let Err(error) = self.inner.blocking(move |data| data.remove(number)).await {
            tracing::warn!("a data file cannot be removed: {error}");
        }
    }

    /// The folder has its marker: what is below it in the bucket shows in it.
    pub(super) async fn finish_marker(&self, sending: &Sending, uploaded: Option<&Uploaded>) -> Result<(), Trouble> {
        let (inner, number) = (&self.inner, sending.number);
        let marker: Box<str> = format!("{}/", sending.path).into();
        let recorded = inner.ledger.change(|overlay| {
            let mut changes = vec![Change::Sent(number)];
            if let Some((uploaded, written)) =
                uploaded.and_then(|uploaded| Some((uploaded, uploaded.written.as_ref()?)))
            {
                let version = (uploaded.etag.as_str(), 0);
                changes.push(self.written((number, &marker), overlay.node(number), version, written));
            }
            if overlay.doomed().contains_key(&marker) {
                changes.push(Change::Gone { path: marker.clone() });
            }
            let node = overlay.node(number);
            let is_there = overlay.path(&inner.ids, number).is_ok_and(|path| *path == *sending.path);
            let Some(mut node) = node.filter(|_| is_there).cloned() else {
                changes.push(Change::Doom { path: marker.clone(), etag: "".into() });
                return Ok((changes, ()));
            };
            node.base = Some(Base { path: sending.path.clone(), etag: "".into(), size: 0, visible: 0 });
            changes.push(Change::Put(Box::new(node)));
            // Names that were removed or renamed while the folder was here alone must not show again.
            let moved = overlay.nodes().filter_map(|node| node.base.as_ref()).map(|base| &*base.path);
            let written = overlay.uploads().values().map(|open| &*open.path);
            let gone = overlay.doomed().keys().map(|path| &**path).chain(moved).chain(written);
            let below = gone.filter_map(|path| path.strip_prefix(&*marker)?.split('/').next());
            let absent = below.filter(|name| !name.is_empty() && overlay.entry(number, name).is_none());
            let names: std::collections::BTreeSet<&str> = absent.collect();
            changes.extend(names.into_iter().map(|name| Change::Hide { parent: number, name: name.into() }));
            Ok((changes, ()))
        });
        recorded.await.map_err(local)
    }

    /// The bucket has another object than the file was: that object stays, and the file is put beside it.
    pub(super) async fn conflict(&self, sending: &Sending, node: &Node, there: &ObjectMeta) -> Result<(), Trouble> {
        let number = sending.number;
        let mut beside = plan::beside(&sending.path, sending.changed);
        if self.key(&beside).len() > LONGEST_KEY {
            beside = plan::beside(&format!("{number:016x}"), sending.changed);
        }
        self.announce_beside(sending, &beside).await?;
        let found = self.head(&beside).await?;
        let is_kept = match &found {
            Some(found) => has_facts(node, found) && self.has_bytes(sending, found).await?,
            None => false,
        };
        let kept = if let Some(found) = found.as_ref().filter(|_| is_kept) {
            found.into()
        } else {
            let written = Box::pin(self.write(sending, node, &beside, None, Replaces::Nothing)).await?;
            let Some(written) = written else { return self.lost(sending).await };
            self.inner.control.note_conflict();
            written
        };
        tracing::warn!(
            "{} was written by another program. It stays as it is; the file of this share is kept as {}: compare them",
            self.address(&sending.path),
            self.address(&beside)
        );
        self.follow_object(sending, &there.into(), (&beside, &kept)).await
    }

    /// Record the write beside another program's object before it begins. What was open for the path itself is aborted.
    async fn announce_beside(&self, sending: &Sending, beside: &str) -> Result<(), Trouble> {
        let number = sending.number;
        let open = self.inner.ledger.read(|overlay| overlay.uploads().get(&number).cloned());
        let Some(open) = open else { return Err(Trouble::Changed) };
        self.abort_parts(&open).await?;
        let open = OpenUpload { path: beside.into(), upload_id: "".into(), part_size: 0, ..open };
        let recorded = self.inner.ledger.change(|overlay| {
            let is_open = overlay.uploads().contains_key(&number);
            Ok((is_open.then_some(Change::Sending(open)).into_iter().collect(), is_open))
        });
        if recorded.await.map_err(local)? { Ok(()) } else { Err(Trouble::Changed) }
    }

    /// The file is the object that the bucket has, if it is still the same generation. It is kept beside that object.
    async fn follow_object(
        &self,
        sending: &Sending,
        there: &Uploaded,
        (beside, kept): (&str, &Uploaded),
    ) -> Result<(), Trouble> {
        let number = sending.number;
        let lock = self.inner.lock_of(number);
        let alone = lock.alone().await;
        let recorded = self.inner.ledger.change(|overlay| {
            let mut outcomes = Vec::new();
            if let Some(written) = &kept.written {
                let version = (kept.etag.as_str(), kept.size);
                outcomes.push(self.written((number, beside), overlay.node(number), version, written));
            }
            let Some(mut node) = overlay.node(number).filter(|node| node.changed == sending.changed).cloned() else {
                return Ok((outcomes, false));
            };
            let message = format!(
                "{} was written by another program. It stays as it is; the file of this share is kept as {}: compare them.",
                self.address(&sending.path),
                self.address(beside)
            );
            let failure =
                FailedUpload { class: "exists", code: "Conflict", operation: "upload", message: &message };
            outcomes.push(self.not_written(sending, &node, failure));
            let mut changes = ended(overlay, sending);
            changes.append(&mut outcomes);
            if let Some(before) = node.base.take().filter(|before| before.path != sending.path) {
                changes.push(Change::Doom { path: before.path, etag: before.etag });
            }
            if matches!(node.content, Content::Link(_)) {
                // The object may be no link: the bucket decides.
                changes.push(Change::Drop(number));
                return Ok((changes, true));
            }
            node.stated = 0;
            node.touch_bytes();
            clean(&mut node, base_at(&sending.path, there));
            changes.push(Change::Put(Box::new(node)));
            Ok((changes, true))
        });
        let is_done = recorded.await.map_err(local)?;
        if is_done {
            self.drop_data(number).await;
        }
        drop(alone);
        Ok(())
    }

    /// The object that the file was is not in the bucket any more, and none of its bytes are here: the file has gone.
    pub(super) async fn lost(&self, sending: &Sending) -> Result<(), Trouble> {
        tracing::warn!(
            "{} was removed or replaced in the bucket before it was renamed or got other attributes there",
            self.address(&sending.path)
        );
        self.abort(sending.number).await?;
        let recorded = self.inner.ledger.change(|overlay| {
            let node = overlay.node(sending.number).filter(|node| node.changed == sending.changed);
            let Some(node) = node else { return Ok((Vec::new(), ())) };
            let message = format!(
                "The object that {} was made of was removed or replaced in the bucket before it was renamed or got other \
                 attributes there. Look for a version of it.",
                self.address(&sending.path)
            );
            let failure =
                FailedUpload { class: "source_changed", code: "SourceGone", operation: "upload", message: &message };
            let mut changes = ended(overlay, sending);
            changes.push(self.not_written(sending, node, failure));
            changes.push(Change::Drop(sending.number));
            changes.extend(overlay.without_attributes(sending.number));
            Ok((changes, ()))
        });
        recorded.await.map_err(local)
    }

    /// Names of the bucket show again of which nothing has to go any more.
    pub(super) async fn show_again(&self) {
        let inner = &self.inner;
        let names = |overlay: &Overlay| {
            if overlay.uploads().is_empty() { to_show(overlay, &inner.ids) } else { Vec::new() }
        };
        let mut ready = Vec::new();
        for (parent, name) in inner.ledger.read(names).into_iter().take(SHOWN) {
            if self.is_known(parent, &name).await {
                ready.push((parent, name));
            }
        }
        if ready.is_empty() {
            return;
        }
        let shown = inner.ledger.record(|overlay| {
            let still: HashSet<_> = names(overlay).into_iter().collect();
            let ready = ready.iter().filter(|name| still.contains(name)).cloned();
            Ok((ready.map(|(parent, name)| Change::Show { parent, name }).collect(), ()))
        });
        // The journal has said why; the next removal tries again.
        let _tried = shown.await;
    }

    /// True when the tree of the bucket is known to be right about a name. It may remember a folder whose last file was
    /// removed since.
    async fn is_known(&self, parent: u64, name: &str) -> bool {
        let inner = &self.inner;
        let Ok(Some(prefix)) = inner.ledger.read(|overlay| overlay.lower(&inner.ids, parent)) else { return true };
        let path = join(&prefix, name);
        match inner.walk(&path).await {
            Ok(_) => inner.files.tree().look_again(&path).await.is_ok(),
            Err(FileError::Stale) => true,
            Err(_) => false,
        }
    }
}
