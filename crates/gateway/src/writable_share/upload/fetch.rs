//! Download of the bytes that a file still takes from its object, before that object is replaced.

use seqferry_share::FileError;
use seqferry_transfer::pipe::ReplaceCondition;

use super::plan::FileUpload;
use super::send::local;
use super::{UploadError, Uploader};
use crate::journal::Disk;
use crate::overlay::{Change, Node};

/// Bytes that are read at a time.
const PIECE: u64 = 1 << 20;

impl<D: Disk> Uploader<D> {
    pub(super) async fn fetch(&self, number: u64) -> Result<(), UploadError> {
        let inner = &self.inner;
        let lock = inner.lock_of(number);
        loop {
            let alone = lock.alone().await;
            let (gap, base) = inner.overlay.read(|overlay| {
                let node = overlay.node(number).ok_or(UploadError::Superseded)?;
                let pieces = node.data().map(|data| data.written.pieces(0, data.size)).unwrap_or_default();
                Ok::<_, UploadError>((pieces.into_iter().find(|(_, _, is_written)| !is_written), node.base.clone()))
            })?;
            let Some((start, end, _)) = gap else { break };
            let end = end.min(start + PIECE);
            let bytes = match inner.read_below(number, base.as_ref(), start, end).await {
                Err(FileError::Stale) => {
                    drop(alone);
                    return self.without_source(number).await;
                }
                read => read.map_err(local)?,
            };
            inner.write_bytes(number, start, bytes).await.map_err(local)?;
            inner.overlay.note(|overlay| {
                if let Some(data) = overlay.data_mut(number) {
                    data.written.add(start, end);
                    data.unsynced.add(start, end);
                }
            });
            drop(alone);
        }
        let is_file = inner.overlay.read(|overlay| overlay.node(number).is_some_and(|node| node.data().is_some()));
        if is_file {
            inner.commit_node(number, &lock).await.map_err(local)?;
        }
        let recorded = inner.overlay.change(|overlay| {
            let mut node = overlay.node(number).cloned().ok_or(FileError::Stale)?;
            let is_whole = |node: &Node| {
                node.data().is_none_or(|data| data.durable.pieces(0, data.size).iter().all(|(_, _, is_in)| *is_in))
            };
            let Some(base) = node.base.take().filter(|_| is_whole(&node)) else { return Ok((Vec::new(), ())) };
            let doom = Change::AddRemoval { path: base.path, etag: base.etag };
            Ok((vec![Change::Put(Box::new(node)), doom], ()))
        });
        recorded.await.map_err(local)
    }

    /// The object that is to be read is not there any more: what was written of the file here is kept.
    async fn without_source(&self, number: u64) -> Result<(), UploadError> {
        let inner = &self.inner;
        let (node, path) =
            inner.overlay.read(|overlay| (overlay.node(number).cloned(), overlay.path(&inner.file_table, number)));
        let (Some(node), Ok(path)) = (node, path) else { return Err(UploadError::Superseded) };
        let file_upload = FileUpload {
            number,
            changed: node.changed,
            path: path.into(),
            replaces: ReplaceCondition::Nothing,
            is_again: false,
        };
        Box::pin(self.resolve_missing_object(&file_upload, &node)).await
    }
}
