//! Bodies: the bytes of an object as a stream.

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures::StreamExt as _;
use futures::stream::{self, BoxStream, Fuse};

use crate::error::Result;

/// A body in chunks. One that ends early yields an error, never a silent end.
pub type ByteStream = BoxStream<'static, Result<Bytes>>;

/// Bytes read into a chunk where the caller chose no size.
const CHUNK: usize = 256 << 10;

/// Alignment of blocks in memory and on disk, in bytes: a multiple of the block size of every disk.
pub(crate) const BLOCK: usize = 4096;
/// Least size in bytes of a whole file that is written past the page cache: smaller files gain nothing
/// (`docs/develop/performance.md`). Larger bodies are kept in aligned memory for this.
pub(crate) const WORTH_PASSING: usize = 64 << 10;

/// A source of bytes that are read into a given buffer.
#[async_trait]
pub(crate) trait ByteSource: Send {
    /// Appends the next available bytes, between 1 and `at_most`. 0: the end. Makes space for them.
    async fn read(&mut self, into: &mut Vec<u8>, at_most: usize) -> Result<usize>;
}

/// The bytes of an object or of a range. A body that ends early ends with an error.
pub struct Body {
    from: BodyKind,
    /// Rest of a chunk that was not consumed whole.
    left: Bytes,
    seen: Option<Box<BodyObserver>>,
    /// True after an error: [`Body::next`] yields nothing after it.
    failed: bool,
}

/// Observer of all bytes of a body, in order.
type BodyObserver = dyn FnMut(&[u8]) + Send;

enum BodyKind {
    Chunks(Fuse<ByteStream>),
    Source(Box<dyn ByteSource>),
}

impl Body {
    /// A body of chunks: bytes that are in memory already, or arrive in pieces of another's choice.
    pub fn from_stream(chunks: ByteStream) -> Self {
        Self { from: BodyKind::Chunks(chunks.fuse()), left: Bytes::new(), seen: None, failed: false }
    }

    pub(crate) fn from_source(source: impl ByteSource + 'static) -> Self {
        Self { from: BodyKind::Source(Box::new(source)), left: Bytes::new(), seen: None, failed: false }
    }

    /// The same body with an observer: `see` receives all bytes in order as they are read. Must be called before the
    /// first byte is read.
    #[must_use]
    pub fn inspect(mut self, see: impl FnMut(&[u8]) + Send + 'static) -> Self {
        self.seen = Some(Box::new(see));
        self
    }

    /// Appends the next available bytes, between 1 and `at_most`. 0: the end.
    pub async fn read(&mut self, into: &mut Vec<u8>, at_most: usize) -> Result<usize> {
        let before = into.len();
        if let BodyKind::Source(source) = &mut self.from {
            source.read(into, at_most).await?;
        } else if let Some(chunk) = self.chunk(at_most).await {
            into.extend_from_slice(&chunk?);
        }
        if let Some(see) = &mut self.seen {
            see(&into[before..]);
        }
        Ok(into.len() - before)
    }

    /// Returns the next bytes, as many as are available.
    pub async fn next(&mut self) -> Option<Result<Bytes>> {
        if self.failed {
            return None;
        }
        let next = match &mut self.from {
            BodyKind::Chunks(_) => self.chunk(usize::MAX).await?,
            BodyKind::Source(source) => {
                let mut bytes = Vec::new();
                match source.read(&mut bytes, CHUNK).await {
                    Ok(0) => return None,
                    Ok(_) => Ok(bytes.into()),
                    Err(error) => Err(error),
                }
            }
        };
        self.failed = next.is_err();
        if let (Ok(bytes), Some(see)) = (&next, &mut self.seen) {
            see(bytes);
        }
        Some(next)
    }

    /// Returns the next `size` bytes in one piece; fewer only at the end. Large enough pieces that are read from a
    /// connection are aligned to the blocks of a disk.
    pub async fn take(&mut self, size: usize, mut see: impl FnMut(&[u8])) -> Result<Bytes> {
        if let BodyKind::Source(_) = self.from {
            let (mut bytes, begin) = aligned_buffer(size);
            let end = begin + size;
            while bytes.len() < end {
                let before = bytes.len();
                if self.read(&mut bytes, end - before).await? == 0 {
                    break;
                }
                see(&bytes[before..]);
            }
            return Ok(Bytes::from(bytes).slice(begin..));
        }
        let mut bytes = BytesMut::new();
        while bytes.len() < size {
            let Some(chunk) = self.chunk(size - bytes.len()).await else { break };
            let chunk = chunk?;
            see(&chunk);
            if let Some(see) = &mut self.seen {
                see(&chunk);
            }
            if chunk.len() == size {
                // One chunk holds all bytes: no copy is needed.
                return Ok(chunk);
            }
            bytes.reserve(size - bytes.len());
            bytes.extend_from_slice(&chunk);
        }
        Ok(bytes.freeze())
    }

    /// Returns the next chunk, or its first `at_most` bytes.
    async fn chunk(&mut self, at_most: usize) -> Option<Result<Bytes>> {
        while self.left.is_empty() {
            let BodyKind::Chunks(chunks) = &mut self.from else { return None };
            match chunks.next().await? {
                Ok(chunk) => self.left = chunk,
                error => return Some(error),
            }
        }
        Some(Ok(self.left.split_to(at_most.min(self.left.len()))))
    }

    /// Converts the body into a stream of chunks.
    pub fn into_stream(self) -> ByteStream {
        stream::unfold(self, |mut body| async { body.next().await.map(|next| (next, body)) }).boxed()
    }
}

/// Joins pieces to one, which is aligned to the blocks of a disk where it is large enough.
pub fn join_aligned<'a>(pieces: impl Iterator<Item = &'a Bytes> + Clone) -> Bytes {
    let (mut bytes, begin) = aligned_buffer(pieces.clone().map(Bytes::len).sum());
    for piece in pieces {
        bytes.extend_from_slice(piece);
    }
    Bytes::from(bytes).slice(begin..)
}

/// Returns memory for `size` bytes and the offset in it at which they begin.
fn aligned_buffer(size: usize) -> (Vec<u8>, usize) {
    if size < WORTH_PASSING {
        return (Vec::with_capacity(size), 0);
    }
    let mut bytes: Vec<u8> = Vec::with_capacity(size + BLOCK);
    let begin = bytes.as_ptr().align_offset(BLOCK);
    bytes.resize(begin, 0);
    (bytes, begin)
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use proptest::prelude::*;

    use super::*;

    /// A source that yields its bytes a few at a time.
    struct PieceSource(Bytes, usize);

    #[async_trait]
    impl ByteSource for PieceSource {
        async fn read(&mut self, into: &mut Vec<u8>, at_most: usize) -> Result<usize> {
            let bytes = self.0.split_to(self.1.min(at_most).min(self.0.len()));
            into.extend_from_slice(&bytes);
            Ok(bytes.len())
        }
    }

    fn body(bytes: &[u8], piece: usize, chunks: bool) -> Body {
        if chunks {
            let chunks: Vec<_> = bytes.chunks(piece).map(|chunk| Ok(Bytes::copy_from_slice(chunk))).collect();
            Body::from_stream(stream::iter(chunks).boxed())
        } else {
            Body::from_source(PieceSource(Bytes::copy_from_slice(bytes), piece))
        }
    }

    #[tokio::test]
    async fn what_is_worth_passing_the_cache_lies_as_blocks_do() {
        for size in [WORTH_PASSING, WORTH_PASSING + 1, 3 * WORTH_PASSING - 1] {
            let sent: Vec<u8> = (0..=250).cycle().take(size).collect();
            let mut body = body(&sent, 10_000, false);

            let taken = body.take(size, |_| ()).await.unwrap();

            assert_eq!(taken.as_ptr().align_offset(BLOCK), 0);
            assert!(taken == sent);
        }
    }

    proptest! {
        #[test]
        fn however_it_is_read_the_bytes_are_the_same_and_each_is_seen_once(
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
            piece in 1_usize..50,
            chunks: bool,
            reads in proptest::collection::vec((0..3, 1_usize..70), 1..100),
        ) {
            let seen = Arc::new(Mutex::new(Vec::new()));
            let sees = Arc::clone(&seen);
            let mut body = body(&bytes, piece, chunks).inspect(move |bytes| sees.lock().unwrap().extend_from_slice(bytes));
            let mut read = Vec::new();
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let ended = runtime.block_on(async {
                for (kind, size) in reads {
                    let before = read.len();
                    match kind {
                        0 => {
                            let came = body.read(&mut read, size).await.unwrap();
                            assert!(came <= size && came == read.len() - before);
                        }
                        1 => read.extend(body.next().await.transpose().unwrap().unwrap_or_default()),
                        _ => {
                            let mut here = Vec::new();
                            let taken = body.take(size, |bytes| here.extend_from_slice(bytes)).await.unwrap();
                            assert_eq!(taken, here);
                            assert_eq!(taken.len(), size.min(bytes.len() - before), "all of them at once");
                            read.extend(taken);
                        }
                    }
                    if read.len() == before {
                        return true;
                    }
                }
                false
            });

            prop_assert_eq!(&read[..], &bytes[..read.len()]);
            prop_assert_eq!(&read, &*seen.lock().unwrap());
            prop_assert!(!ended || read == bytes);
        }
    }
}
