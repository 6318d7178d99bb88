//! Conflicts: another program has changed the object of a file. Its object stays, and the file is kept beside it with
//! every acknowledged byte.
//!
//! A file that was changed in part takes the rest from its object. If another program has replaced or removed that
//! object, the rest is lost: the kept file has zeros there, and a list of these ranges is stored beside it.

use std::fmt::Write as _;
use std::sync::Arc;

use seqferry_client::RequestError;
use seqferry_store::{Attributes, ErrorClass, ObjectMeta};
use seqferry_transfer::CopyMethod;
use seqferry_transfer::pipe::ReplaceCondition;
use seqferry_vfs::tree::names::check_name;

use super::finish::{base_at, clean, ended};
use super::generation::GenerationReader;
use super::metadata::attributes_of;
use super::outcomes::WrittenVersion;
use super::plan::{self, FileUpload, UNKNOWN};
use super::send::{UploadedObject, local};
use super::{UploadError, Uploader};
use crate::journal::Disk;
use crate::overlay::{Change, Node, NodeContent, OpenUpload, OutcomeFailure, new_token};
use crate::writable_share::checks::LONGEST_KEY;

/// Ranges that a message names.
const NAMED_RANGES: usize = 8;
/// Names that are tried for one file.
const MOST_NAMES: u32 = 100;

/// A range of bytes: from, and up to.
type ByteRange = (u64, u64);

/// A file that is kept beside another program's object.
struct ConflictCopy {
    path: String,
    object: UploadedObject,
    /// The list of ranges that are not known, where some are.
    list: Option<(String, UploadedObject)>,
}

impl<D: Disk> Uploader<D> {
    /// The bucket has another object than the file was, or none: what is there stays, and the file is put beside it.
    pub(super) async fn conflict(
        &self,
        file_upload: &FileUpload,
        node: &Node,
        there: Option<&ObjectMeta>,
    ) -> Result<(), UploadError> {
        let unknown = self.unknown_ranges(node).await?;
        let Some(kept) = Box::pin(self.keep(file_upload, node, &unknown)).await? else {
            return self.drop_lost(file_upload).await;
        };
        self.end_conflict(file_upload, there, &kept, &unknown).await
    }

    /// Ranges of a file whose bytes were those of an object that is not there any more.
    async fn unknown_ranges(&self, node: &Node) -> Result<Vec<ByteRange>, UploadError> {
        let gaps = node.gaps();
        let Some(base) = node.base.as_ref().filter(|_| !gaps.is_empty()) else { return Ok(Vec::new()) };
        let is_there = self.head(&base.path).await?.is_some_and(|found| *found.etag == *base.etag);
        Ok(if is_there { Vec::new() } else { gaps })
    }

    /// Put a file into the folder of conflicts. None: all its bytes are those of an object that is not there any more.
    async fn keep(
        &self,
        file_upload: &FileUpload,
        node: &Node,
        unknown: &[ByteRange],
    ) -> Result<Option<ConflictCopy>, UploadError> {
        for taken in 0..MOST_NAMES {
            let path = self.conflict_path(file_upload, taken);
            let open = self.announce_beside(file_upload, node, &path).await?;
            let found = self.head(&path).await?;
            if let Some(found) = &found {
                let is_conflict_copy_of =
                    unknown.is_empty() && self.is_conflict_copy_of(file_upload, &open, node, found).await?;
                if !is_conflict_copy_of {
                    continue;
                }
                return Ok(Some(ConflictCopy { path, object: found.into(), list: None }));
            }
            if unknown.is_empty() {
                let written = Box::pin(self.write(file_upload, node, &open, None, ReplaceCondition::Nothing)).await?;
                let Some(object) = written else {
                    // The object has gone since it was looked for.
                    return if node.is_as_base() { Ok(None) } else { Err(UploadError::Superseded) };
                };
                self.inner.control.note_conflict();
                return Ok(Some(ConflictCopy { path, object, list: None }));
            }
            let Some(list) = self.put_list(file_upload, node, &path, unknown).await? else { continue };
            let bytes = GenerationReader::over_zeros(Arc::clone(&self.inner), file_upload.number, file_upload.changed);
            let facts = (attributes_of(node, &open, None), Vec::new());
            let object = self.stream(file_upload, bytes, &path, facts, ReplaceCondition::Nothing).await?;
            self.inner.control.note_conflict();
            return Ok(Some(ConflictCopy { path, object, list: Some(list) }));
        }
        Err(UploadError::local(format!(
            "{}: {MOST_NAMES} names in the folder of conflicts are taken: look through {}.",
            self.address(&file_upload.path),
            self.address(plan::CONFLICTS)
        )))
    }

    /// Path beside another program's object, where so many are taken by other files.
    fn conflict_path(&self, file_upload: &FileUpload, taken: u32) -> String {
        let conflict_path = plan::conflict_path(&file_upload.path, file_upload.changed, taken);
        let (_, name) = conflict_path.rsplit_once('/').unwrap_or(("", &conflict_path));
        if self.key(&conflict_path).len() + UNKNOWN.len() <= LONGEST_KEY
            && check_name(&format!("{name}{UNKNOWN}")).is_ok()
        {
            return conflict_path;
        }
        plan::conflict_path(&format!("{:016x}", file_upload.number), file_upload.changed, taken)
    }

    /// Put the list of the ranges that are not known. None: its name is taken.
    async fn put_list(
        &self,
        file_upload: &FileUpload,
        node: &Node,
        conflict_path: &str,
        unknown: &[ByteRange],
    ) -> Result<Option<(String, UploadedObject)>, UploadError> {
        let path = format!("{conflict_path}{UNKNOWN}");
        let etag = node.base.as_ref().map_or("", |base| &base.etag);
        let mut text = format!(
            "# Ranges of {} that are not known: first and last byte. They were those of the object with the ETag {etag},\n\
             # which another program has replaced or removed. In {} they are zeros.\n",
            self.address(&file_upload.path),
            self.address(conflict_path),
        );
        for (start, end) in unknown {
            // A string takes all that is written.
            let _written = writeln!(text, "{start} {}", end - 1);
        }
        let size = text.len() as u64;
        match self.put_small(&path, text.into(), Attributes::default()).await {
            Ok(put) => {
                let (version_id, checksum, method) = (put.version_id, put.checksum, CopyMethod::Stream);
                let written = Some(WrittenVersion { version_id, checksum, method, verified: "checksum" });
                Ok(Some((path, UploadedObject { etag: put.etag, size, has_facts: true, written })))
            }
            Err(RequestError::Failed(error)) if error.class == ErrorClass::Precondition => Ok(None),
            Err(other) => Err(other.into()),
        }
    }

    /// Record the write beside another program's object before it begins. An open upload of the path itself is aborted.
    async fn announce_beside(
        &self,
        file_upload: &FileUpload,
        node: &Node,
        conflict_path: &str,
    ) -> Result<OpenUpload, UploadError> {
        let number = file_upload.number;
        let found = self.inner.overlay.read(|overlay| overlay.uploads().get(&number).cloned());
        if let Some(found) = &found {
            self.abort_parts(found).await?;
        }
        let known = found.filter(|found| found.changed == file_upload.changed && !found.token.is_empty());
        let open = OpenUpload {
            number,
            changed: file_upload.changed,
            path: conflict_path.into(),
            modified: node.modified,
            size: node.attributes().size,
            upload_id: "".into(),
            part_size: 0,
            token: known.as_ref().map_or_else(new_token, |known| known.token.clone()),
            is_of_this_process: known.is_none_or(|known| known.is_of_this_process),
        };
        let announced = open.clone();
        let recorded = self.inner.overlay.change(|overlay| {
            let is_same = overlay.node(number).is_some_and(|node| node.changed == file_upload.changed);
            Ok((is_same.then_some(Change::BeginUpload(announced)).into_iter().collect(), is_same))
        });
        if recorded.await.map_err(local)? { Ok(open) } else { Err(UploadError::Superseded) }
    }

    /// A write beside another program's object was cut off, and its file has not changed: where it was written whole,
    /// the conflict ends. Else the next attempt looks at everything again.
    pub(super) async fn resolve_beside(&self, open: &OpenUpload) -> Result<(), UploadError> {
        let number = open.number;
        let (node, path) = self.inner.overlay.read(|overlay| {
            let node = overlay.node(number).filter(|node| node.changed == open.changed).cloned();
            (node, overlay.path(&self.inner.file_table, number))
        });
        let (Some(node), Ok(path)) = (node, path) else { return self.abort(number).await };
        let replaces = ReplaceCondition::Nothing;
        let file_upload = FileUpload { number, changed: open.changed, path: path.into(), replaces, is_again: true };
        if !self.unknown_ranges(&node).await?.is_empty() {
            return self.abort(number).await;
        }
        let found = self.head(&open.path).await?;
        let (found, there) = match found {
            Some(found) if self.is_conflict_copy_of(&file_upload, open, &node, &found).await? => {
                (found, self.head(&file_upload.path).await?)
            }
            _ => return self.abort(number).await,
        };
        let is_base = |there: &ObjectMeta| node.base.as_ref().is_some_and(|base| *base.etag == *there.etag);
        let Some(there) = there.filter(|there| !is_base(there)) else { return self.abort(number).await };
        self.abort_parts(open).await?;
        let kept = ConflictCopy { path: open.path.to_string(), object: (&found).into(), list: None };
        self.inner.control.note_conflict();
        self.end_conflict(&file_upload, Some(&there), &kept, &[]).await
    }

    /// The sentences about a conflict.
    fn describe(&self, file_upload: &FileUpload, is_there: bool, kept: &ConflictCopy, unknown: &[ByteRange]) -> String {
        let (address, conflict_path) = (self.address(&file_upload.path), self.address(&kept.path));
        let mut text = if is_there {
            format!(
                "{address} was written by another program. It stays as it is; the file of this share is kept as {conflict_path}: compare them."
            )
        } else {
            format!(
                "{address} was changed at this share in part, and another program has replaced or removed its object. The file is kept as {conflict_path}."
            )
        };
        if let Some((list, _)) = &kept.list {
            let bytes: u64 = unknown.iter().map(|(start, end)| end - start).sum();
            let named = unknown.iter().take(NAMED_RANGES).map(|(start, end)| format!("{start}-{}", end - 1));
            let (named, rest) = (named.collect::<Vec<_>>().join(", "), unknown.len().saturating_sub(NAMED_RANGES));
            let rest = if rest > 0 { format!(" and {rest} more") } else { String::new() };
            // A string takes all that is written.
            let _written = write!(
                text,
                " The bytes that were not written at this share are not known any more, and are zeros in it: {bytes} bytes, \
                 at {named}{rest} (all in {}). A version of the object before has them, where the bucket keeps versions.",
                self.address(list)
            );
        }
        text
    }

    /// The file is what the bucket has at its path, if it is still the same generation: another program's object, or
    /// nothing. It is kept beside that.
    async fn end_conflict(
        &self,
        file_upload: &FileUpload,
        there: Option<&ObjectMeta>,
        kept: &ConflictCopy,
        unknown: &[ByteRange],
    ) -> Result<(), UploadError> {
        let number = file_upload.number;
        let message = self.describe(file_upload, there.is_some(), kept, unknown);
        tracing::warn!("{message}");
        if there.is_none() {
            self.inner.files.tree().note_removed(&file_upload.path);
        }
        let lock = self.inner.lock_of(number);
        let alone = lock.alone().await;
        let recorded = self.inner.overlay.change(|overlay| {
            let mut outcomes = Vec::new();
            let objects = kept.list.iter().map(|(path, list)| (path, list)).chain([(&kept.path, &kept.object)]);
            for (path, object) in objects {
                if let Some(written) = &object.written {
                    let version = (object.etag.as_str(), object.size);
                    outcomes.push(self.written(overlay, (number, path.as_str()), version, written));
                }
            }
            let Some(mut node) = overlay.node(number).filter(|node| node.changed == file_upload.changed).cloned()
            else {
                return Ok((outcomes, false));
            };
            let failure = OutcomeFailure { class: "exists", code: "Conflict", operation: "upload", message: &message };
            outcomes.push(self.not_written(overlay, (file_upload, &node), failure));
            let mut changes = ended(overlay, file_upload);
            changes.append(&mut outcomes);
            if let Some(before) = node.base.take().filter(|before| before.path != file_upload.path) {
                changes.push(Change::AddRemoval { path: before.path, etag: before.etag });
            }
            let facts = there.map(seqferry_vfs::Attributes::of_object);
            let is_file = facts.as_ref().is_some_and(|facts| facts.kind == seqferry_vfs::FileKind::File);
            let is_same_kind = is_file && !matches!(node.content, NodeContent::Link(_));
            let (Some(there), Some(facts), true) = (there, &facts, is_same_kind) else {
                // Nothing is there; or one of the two is a link, and the bucket decides.
                changes.push(Change::Remove(number));
                changes.extend(overlay.without_attributes(number));
                return Ok((changes, true));
            };
            node.touch();
            self.inner.take_facts(&mut node, facts);
            clean(&mut node, base_at(&file_upload.path, &there.into()));
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

    /// The object that the file was is not in the bucket any more. Bytes that were written here are kept beside;
    /// without any the file has gone.
    pub(super) async fn resolve_missing_object(
        &self,
        file_upload: &FileUpload,
        node: &Node,
    ) -> Result<(), UploadError> {
        if node.data().is_some_and(|data| !data.written.is_empty()) {
            let there = self.head(&file_upload.path).await?;
            return Box::pin(self.conflict(file_upload, node, there.as_ref())).await;
        }
        self.drop_lost(file_upload).await
    }

    /// A file without bytes of its own has gone with its object.
    async fn drop_lost(&self, file_upload: &FileUpload) -> Result<(), UploadError> {
        let message = format!(
            "The object that {} was made of was removed or replaced in the bucket before it was renamed or got other \
             attributes there. Look for a version of it.",
            self.address(&file_upload.path)
        );
        tracing::warn!("{message}");
        self.abort(file_upload.number).await?;
        let recorded = self.inner.overlay.change(|overlay| {
            let node = overlay.node(file_upload.number).filter(|node| node.changed == file_upload.changed);
            let Some(node) = node else { return Ok((Vec::new(), ())) };
            let failure =
                OutcomeFailure { class: "source_changed", code: "SourceGone", operation: "upload", message: &message };
            let mut changes = ended(overlay, file_upload);
            changes.push(self.not_written(overlay, (file_upload, node), failure));
            changes.push(Change::Remove(file_upload.number));
            changes.extend(overlay.without_attributes(file_upload.number));
            Ok((changes, ()))
        });
        recorded.await.map_err(local)
    }
}
