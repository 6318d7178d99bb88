//! Bytes of one generation of a file, and the journal of its upload in parts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::{Bytes, BytesMut};
use seqferry_client::{RecordedUpload, RequestError, UploadJournal};
use seqferry_share::FileError;
use seqferry_store::StoreError;
use seqferry_store::crash_point::{self, When};
use seqferry_transfer::pipe::{InputBytes, PipeError, RateLimited};
use tokio::sync::Mutex;

use super::super::Inner;
use super::plan::FileUpload;
use crate::journal::Disk;
use crate::overlay::{Change, Node, NodeContent, OpenUpload};

/// Bytes that are read at a time.
const PIECE: u64 = 1 << 20;

/// The bytes of one generation of a file.
pub(super) struct GenerationReader<D: Disk> {
    inner: Arc<Inner<D>>,
    number: u64,
    changed: u64,
    at: Mutex<u64>,
    /// The file is another generation meanwhile, or its object is not what it was: it is to be checked again.
    pub(super) has_changed: Arc<AtomicBool>,
    /// The object of the file, which has the bytes that were not written here, is not there any more: they are zeros.
    is_over_zeros: bool,
}

impl<D: Disk> GenerationReader<D> {
    pub(super) fn new(inner: Arc<Inner<D>>, number: u64, changed: u64) -> Self {
        Self { inner, number, changed, at: Mutex::new(0), has_changed: Arc::default(), is_over_zeros: false }
    }

    /// The bytes that were written here, and zeros in place of all others.
    pub(super) fn over_zeros(inner: Arc<Inner<D>>, number: u64, changed: u64) -> Self {
        Self { is_over_zeros: true, ..Self::new(inner, number, changed) }
    }

    pub(super) fn is_same(&self) -> bool {
        let is_same = |node: &Node| node.changed == self.changed;
        self.inner.overlay.read(|overlay| overlay.node(self.number).is_some_and(is_same))
    }
}

/// Bytes of a file as it is, from an offset on. `is_over_zeros`: as [`GenerationReader::over_zeros`].
pub(super) async fn read_range<D: Disk>(
    inner: &Inner<D>,
    number: u64,
    (start, size): (u64, u64),
    is_over_zeros: bool,
) -> Result<Bytes, FileError> {
    let target = inner.overlay.read(|overlay| match overlay.node(number).map(|node| &node.content) {
        Some(NodeContent::Link(target)) => Some(target.clone()),
        _ => None,
    });
    if let Some(target) = target {
        let end = target.len().min(usize::try_from(start.saturating_add(size)).unwrap_or(usize::MAX));
        return Ok(target.slice(usize::try_from(start).unwrap_or(usize::MAX).min(end)..end));
    }
    let lock = inner.lock_of(number);
    let mut bytes = BytesMut::new();
    while (bytes.len() as u64) < size {
        let length = PIECE.min(size - bytes.len() as u64);
        let offset = start + bytes.len() as u64;
        let read = {
            let _stays = lock.shared().await;
            let length = u32::try_from(length).unwrap_or(u32::MAX);
            if is_over_zeros {
                inner.read_written(number, offset, length).await?
            } else {
                inner.read_node(number, offset, length).await?
            }
        };
        read.slices.iter().for_each(|slice| bytes.extend_from_slice(slice));
        if read.is_end {
            break;
        }
    }
    // A write under way may have changed bytes, and not yet said so.
    drop(lock.alone().await);
    Ok(bytes.freeze())
}

impl<D: Disk> RateLimited for GenerationReader<D> {
    async fn admit(&self, bytes: u64) {
        self.inner.control.admit(bytes).await;
    }
}

impl<D: Disk> InputBytes for GenerationReader<D> {
    async fn next(&self, size: u64) -> Result<Bytes, PipeError> {
        let mut at = self.at.lock().await;
        let read = read_range(&self.inner, self.number, (*at, size), self.is_over_zeros).await;
        if !self.is_same() || matches!(read, Err(FileError::Stale)) {
            self.has_changed.store(true, Ordering::Release);
            return Err(PipeError::Cancelled);
        }
        let bytes = read.map_err(|error| {
            PipeError::Descriptor(std::io::Error::other(format!("the bytes of the file cannot be had ({error})")))
        })?;
        *at += bytes.len() as u64;
        Ok(bytes)
    }
}

/// The journal of the share, which knows of uploads in parts before their first part.
pub(super) struct ShareUploadJournal<D: Disk> {
    pub(super) inner: Arc<Inner<D>>,
    pub(super) file_upload: FileUpload,
    pub(super) path: Box<str>,
}

impl<D: Disk> UploadJournal for ShareUploadJournal<D> {
    async fn record(&self, upload: &RecordedUpload) -> Result<(), RequestError> {
        crash_point::reach(When::Before, "upload-id-recorded");
        let recorded = self.inner.overlay.change(|overlay| {
            // The announced write, under its path beside another program's object if that is where it goes.
            let open = overlay.uploads().get(&self.file_upload.number).ok_or(FileError::Stale)?;
            let (upload_id, part_size) = (upload.upload_id.as_str().into(), upload.part_size);
            let open = OpenUpload { path: self.path.clone(), upload_id, part_size, ..open.clone() };
            Ok((vec![Change::BeginUpload(open)], ()))
        });
        recorded.await.map_err(|_| {
            let error = StoreError::new("RecordUpload", "", Some(&self.path), "JournalFailed", None);
            RequestError::Failed(error.with_message("the journal of the share cannot be written"))
        })?;
        crash_point::reach(When::After, "upload-id-recorded");
        Ok(())
    }
}
