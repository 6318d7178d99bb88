//! Reading the headers of an archive through the reader, so that the blocks are there when members are read.

use std::sync::Arc;

use bytes::Bytes;
use seqferry_client::forward::{ForwardReader, ForwardSizes, RangeSource};

use crate::error::{Result, VfsError};
use crate::fetch::OpenObject;
use crate::reader::{ReadHandle, Reader};
use crate::version::BLOCK_SIZE;

/// Longest range, and ranges ahead: 16 MiB, what a link of 800 MB/s carries in 20 ms.
const SIZES: ForwardSizes = ForwardSizes { block: BLOCK_SIZE, longest: 2 << 20, ahead: 8 };

/// Ranges of one object, read through a [`Reader`].
#[derive(Clone)]
struct ReaderRangeSource {
    reader: Arc<Reader>,
    object: Arc<OpenObject>,
}

impl RangeSource for ReaderRangeSource {
    type Error = VfsError;

    async fn read(&self, start: u64, end: u64) -> Result<Bytes> {
        // A handle of its own: ranges concurrently are no pattern to follow.
        let handle = ReadHandle::new(Arc::clone(&self.object));
        let length = usize::try_from(end - start).unwrap_or_default();
        Ok(self.reader.read(&handle, start, length).await?.to_bytes())
    }

    fn stop_error(&self) -> VfsError {
        VfsError::Stale
    }
}

/// Bytes of an archive, front to back.
pub(super) struct Windows(ForwardReader<ReaderRangeSource>);

impl Windows {
    pub(super) fn new(reader: Arc<Reader>, object: Arc<OpenObject>) -> Self {
        let size = object.version.size;
        Self(ForwardReader::new(ReaderRangeSource { reader, object }, size, SIZES))
    }

    /// Bytes that begin at `offset`: at least one, none behind the end. Offsets only grow.
    pub(super) async fn at(&mut self, offset: u64) -> Result<Bytes> {
        self.0.at(offset).await
    }
}
