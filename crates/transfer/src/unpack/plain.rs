//! The plain bytes of a compressed archive, front to back.
//!
//! One request reads the compressed object, a separate thread decompresses it, and bounded queues lie between them:
//! bytes that are not taken are not read. A broken read continues where it was; the decoder never sees it. Going back
//! starts from the beginning.

use std::io::{self, BufRead, BufReader, Read};
use std::sync::Arc;

use bytes::Bytes;
use ruzstd::decoding::StreamingDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use seqferry_client::reading::{Resumption, fetch_pinned};
use seqferry_store::{Advice, ErrorClass, ObjectStore, PinnedObject, Range, StoreError};
use tokio::sync::{mpsc, oneshot};

use super::member_location::Format;
use crate::verification::SegmentedDigest;

/// Plain bytes that the decoder gives at a time.
const CHUNK: usize = 256 << 10;
/// Chunks that wait on either side of the decoder: 2 MiB of plain bytes, and what the connection gives.
const QUEUED: usize = 8;
/// Largest window of Zstandard, as `zstd -d` accepts it. The decoder holds so much.
const WINDOW: u64 = 128 << 20;
/// Failed reads of the compressed object in a row, without a byte in between, that end the stream.
const READS: u32 = 5;

/// Bytes that may follow the compressed data of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TrailingBytes {
    /// Zeros, as `gzip -d` has it: tapes and block devices pad with them.
    Zeros,
    /// Other bytes as well, which are left out.
    Anything,
}

/// A stream of plain bytes.
#[derive(Debug)]
pub(super) struct PlainStream {
    object: PinnedObject,
    position: u64,
    left: Bytes,
    chunks: mpsc::Receiver<Result<Bytes, StoreError>>,
    ended: oneshot::Receiver<WholeRead>,
}

/// Digest and checks of a compressed object that was read to its end.
#[derive(Debug)]
pub(super) struct WholeRead {
    /// Digest of the compressed bytes, where one was requested.
    pub(super) digest: Option<SegmentedDigest>,
    /// True when the compressed data has checksums of all plain bytes, which were compared.
    pub(super) is_checked: bool,
}

impl PlainStream {
    /// The plain bytes of the part of an object between two offsets. Other bytes behind its compressed data are left
    /// out: what an archive was accepted with need not be known here.
    pub(super) fn open(store: Arc<dyn ObjectStore>, object: PinnedObject, part: (u64, u64), format: Format) -> Self {
        Self::with_end(store, object, part, format, TrailingBytes::Anything, None)
    }

    /// The plain bytes of a whole object, with the bytes that may follow its compressed data. All compressed bytes go
    /// through `digest`.
    pub(super) fn whole(
        store: Arc<dyn ObjectStore>,
        object: PinnedObject,
        format: Format,
        end: TrailingBytes,
        digest: Option<SegmentedDigest>,
    ) -> Self {
        let part = (0, object.size);
        Self::with_end(store, object, part, format, end, digest)
    }

    fn with_end(
        store: Arc<dyn ObjectStore>,
        object: PinnedObject,
        part: (u64, u64),
        format: Format,
        end: TrailingBytes,
        digest: Option<SegmentedDigest>,
    ) -> Self {
        let (compressed, input) = mpsc::channel(QUEUED);
        let (output, chunks) = mpsc::channel(QUEUED);
        let (end_sender, ended) = oneshot::channel();
        tokio::spawn(fetch(store, object.clone(), part, compressed));
        let about = object.clone();
        tokio::task::spawn_blocking(move || {
            let input = CompressedInput { chunks: input, here: Bytes::new(), digest };
            if let Some(read) = decode(input, format, end, &about, &output) {
                let _receiver_gone = end_sender.send(read);
            }
        });
        Self { object, position: 0, left: Bytes::new(), chunks, ended }
    }

    /// Offset of the next byte.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// Returns the next bytes, `most` at most; no bytes at the end.
    pub(super) async fn next(&mut self, most: u64) -> Result<Bytes, StoreError> {
        if self.left.is_empty() {
            match self.chunks.recv().await {
                None => return Ok(Bytes::new()),
                Some(chunk) => self.left = chunk?,
            }
        }
        let len = usize::try_from(most).unwrap_or(usize::MAX).min(self.left.len());
        self.position += len as u64;
        Ok(self.left.split_to(len))
    }

    /// Digest and checks of the compressed bytes. None: not all of them were read.
    pub(super) async fn ended(self) -> Option<WholeRead> {
        let Self { chunks, ended, .. } = self;
        drop(chunks);
        ended.await.ok()
    }

    /// Pass over everything before this offset.
    pub(super) async fn skip_to(&mut self, offset: u64) -> Result<(), StoreError> {
        while self.position < offset {
            if self.next(offset - self.position).await?.is_empty() {
                return Err(self.short());
            }
        }
        Ok(())
    }

    fn short(&self) -> StoreError {
        self.damaged("it ends before the archive in it does")
    }

    /// The error of an object whose compressed data is not what it should be.
    pub(super) fn damaged(&self, how: &str) -> StoreError {
        damaged(&self.object, how)
    }
}

/// Reads the compressed object in order.
async fn fetch(
    store: Arc<dyn ObjectStore>,
    object: PinnedObject,
    (mut offset, end): (u64, u64),
    chunks: mpsc::Sender<Result<Bytes, StoreError>>,
) {
    let mut resumption = Resumption::new(READS);
    while offset < end {
        let before = offset;
        let error = match fetch_pinned(&*store, &object, Some(Range { first: offset, last: end - 1 })).await {
            Err(error) => error,
            Ok(fetched) => {
                let mut body = fetched.body;
                loop {
                    match body.next().await {
                        Some(Ok(bytes)) => {
                            offset += bytes.len() as u64;
                            if chunks.send(Ok(bytes)).await.is_err() {
                                return;
                            }
                        }
                        Some(Err(error)) => break error,
                        None if offset >= end => return,
                        None => break damaged(&object, "the answer ended early"),
                    }
                }
            }
        };
        match resumption.pause(error, offset > before) {
            Ok(pause) => tokio::time::sleep(pause).await,
            Err(error) => {
                let _receiver_gone = chunks.send(Err(error)).await;
                return;
            }
        }
    }
}

/// The compressed bytes, as a decoder reads them.
struct CompressedInput {
    chunks: mpsc::Receiver<Result<Bytes, StoreError>>,
    here: Bytes,
    /// Digest of all that came.
    digest: Option<SegmentedDigest>,
}

impl CompressedInput {
    /// True when all compressed bytes were read.
    fn ended(&mut self) -> io::Result<bool> {
        while self.here.is_empty() {
            match self.chunks.blocking_recv() {
                None => return Ok(true),
                Some(Ok(bytes)) => {
                    if let Some(digest) = &mut self.digest {
                        digest.update(&bytes);
                    }
                    self.here = bytes;
                }
                Some(Err(error)) => return Err(io::Error::other(RequestFailure(error))),
            }
        }
        Ok(false)
    }

    /// Passes over what the decoder has left, where a digest over all bytes is wanted.
    fn drain(&mut self) -> io::Result<()> {
        while self.digest.is_some() && !self.ended()? {
            self.here = Bytes::new();
        }
        Ok(())
    }
}

impl Read for CompressedInput {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.ended()? {
            return Ok(0);
        }
        let len = into.len().min(self.here.len());
        into[..len].copy_from_slice(&self.here.split_to(len));
        Ok(len)
    }
}

/// A failed request on its way through a decoder.
#[derive(Debug)]
struct RequestFailure(StoreError);

impl std::fmt::Display for RequestFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for RequestFailure {}

/// Decompresses until the end, or until the receiver is gone. None: it failed.
fn decode(
    mut input: CompressedInput,
    format: Format,
    end: TrailingBytes,
    about: &PinnedObject,
    output: &mpsc::Sender<Result<Bytes, StoreError>>,
) -> Option<WholeRead> {
    let buffered = BufReader::with_capacity(CHUNK, &mut input);
    let decoded = match format {
        // Every member ends with a CRC-32, which the decoder compares.
        Format::Gzip => forward(GzipMembers::new(buffered, end), output).map(|()| true),
        Format::Zstd => frames(buffered, end, about, output),
        Format::ZipDeflated => forward(flate2::bufread::DeflateDecoder::new(buffered), output).map(|()| false),
        Format::Plain | Format::ZipStored => forward(buffered, output).map(|()| false),
    };
    let ended = decoded.and_then(|is_checked| {
        input.drain()?;
        Ok(is_checked)
    });
    match ended {
        Ok(is_checked) => Some(WholeRead { digest: input.digest, is_checked }),
        Err(error) => {
            let _receiver_gone = output.blocking_send(Err(failure(&error, about)));
            None
        }
    }
}

/// The failed request behind the error of a decoder, or what is wrong with its input.
fn failure(error: &io::Error, about: &PinnedObject) -> StoreError {
    let inner = error.get_ref();
    let failed = inner.and_then(|inner| inner.downcast_ref::<RequestFailure>()).map(|failed| failed.0.clone());
    let failed = failed.or_else(|| {
        inner.is_some_and(<dyn std::error::Error + Send + Sync>::is::<ForeignEnd>).then(|| foreign_end(about))
    });
    failed.unwrap_or_else(|| damaged(about, &format!("its compressed data is damaged: {error}")))
}

fn forward(mut plain: impl Read, output: &mpsc::Sender<Result<Bytes, StoreError>>) -> io::Result<()> {
    loop {
        let mut chunk = Vec::with_capacity(CHUNK);
        let read = plain.by_ref().take(CHUNK as u64).read_to_end(&mut chunk)?;
        if read == 0 || output.blocking_send(Ok(chunk.into())).is_err() {
            return Ok(());
        }
    }
}

/// Other bytes follow the compressed data.
#[derive(Debug)]
struct ForeignEnd;

impl std::fmt::Display for ForeignEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("other bytes follow the compressed data")
    }
}

impl std::error::Error for ForeignEnd {}

impl TrailingBytes {
    /// The end of the data where other bytes follow.
    ///
    /// # Errors
    /// They may not follow.
    fn of_foreign_bytes(self) -> io::Result<()> {
        if self == Self::Anything { Ok(()) } else { Err(io::Error::other(ForeignEnd)) }
    }
}

/// The members of a gzip file, one behind the other.
struct GzipMembers<R> {
    /// None once the end is reached or the data has shown to be damaged.
    member: Option<flate2::bufread::GzDecoder<R>>,
    end: TrailingBytes,
}

impl<R: BufRead> GzipMembers<R> {
    fn new(input: R, end: TrailingBytes) -> Self {
        Self { member: Some(flate2::bufread::GzDecoder::new(input)), end }
    }
}

impl<R: BufRead> Read for GzipMembers<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while let Some(mut member) = self.member.take() {
            let read = member.read(into)?;
            if read > 0 || into.is_empty() {
                self.member = Some(member);
                return Ok(read);
            }
            let mut input = member.into_inner();
            match next_bytes(&mut input)? {
                NextBytes::Nothing => {}
                NextBytes::Byte(GZIP) => self.member = Some(flate2::bufread::GzDecoder::new(input)),
                NextBytes::Byte(_) | NextBytes::BehindZeros => self.end.of_foreign_bytes()?,
            }
        }
        Ok(0)
    }
}

/// The first byte of a gzip member.
const GZIP: u8 = 0x1f;

/// Bytes that follow a member or frame.
enum NextBytes {
    /// Nothing but zeros.
    Nothing,
    /// This byte, which was not read.
    Byte(u8),
    /// Other bytes behind zeros.
    BehindZeros,
}

/// Passes over zeros up to other bytes or the end of the input.
fn next_bytes(input: &mut impl BufRead) -> io::Result<NextBytes> {
    let mut zeros = false;
    loop {
        let bytes = input.fill_buf()?;
        let len = bytes.len();
        match bytes.iter().position(|byte| *byte != 0) {
            None if len == 0 => return Ok(NextBytes::Nothing),
            None => {
                input.consume(len);
                zeros = true;
            }
            Some(0) if !zeros => return Ok(NextBytes::Byte(bytes[0])),
            Some(_) => return Ok(NextBytes::BehindZeros),
        }
    }
}

/// All frames of a Zstandard file; those that hold no data are skipped. True when each has a checksum, which is
/// compared.
fn frames(
    mut input: impl BufRead,
    end: TrailingBytes,
    about: &PinnedObject,
    output: &mpsc::Sender<Result<Bytes, StoreError>>,
) -> io::Result<bool> {
    let mut is_checked = true;
    for frame in 0_u64.. {
        match next_bytes(&mut input)? {
            NextBytes::Nothing => break,
            NextBytes::Byte(_) => {}
            NextBytes::BehindZeros => return end.of_foreign_bytes().map(|()| is_checked),
        }
        match StreamingDecoder::new_with_max_window_size(&mut input, WINDOW) {
            Ok(mut decoder) => {
                forward(&mut decoder, output)?;
                let decoder = decoder.into_frame_decoder();
                let promised = decoder.get_checksum_from_data();
                if promised.is_some() && decoder.get_calculated_checksum() != promised {
                    return Err(io::Error::other("the checksum of a frame is wrong"));
                }
                is_checked &= promised.is_some();
            }
            Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame { length, .. })) => {
                let skipped = io::copy(&mut input.by_ref().take(length.into()), &mut io::sink())?;
                if skipped < length.into() {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
            Err(FrameDecoderError::ReadFrameHeaderError(
                ReadFrameHeaderError::BadMagicNumber(_) | ReadFrameHeaderError::MagicNumberReadError(_),
            )) if frame > 0 => return end.of_foreign_bytes().map(|()| is_checked),
            Err(FrameDecoderError::WindowSizeTooBig { requested, .. }) => {
                return Err(io::Error::other(RequestFailure(wide_window(about, requested))));
            }
            Err(error) => return Err(io::Error::other(error.to_string())),
        }
        if output.is_closed() {
            return Ok(false);
        }
    }
    Ok(is_checked)
}

/// The error of a frame that was compressed with a longer window than decoders take without being asked.
fn wide_window(object: &PinnedObject, window: u64) -> StoreError {
    let mib = |bytes: u64| bytes.div_ceil(1 << 20);
    let mut error = StoreError::new("GetObject", &object.bucket, Some(&object.key), "WindowTooLarge", None)
        .with_message(format!(
            "it is compressed with a window of {} MiB (the long mode of zstd), and decompressing it would hold as much memory; at \
             most {} MiB are held. Nothing of it is unpacked",
            mib(window),
            mib(WINDOW),
        ));
    error.class = ErrorClass::Object;
    error
}

/// The error of an object with other bytes behind its compressed data.
fn foreign_end(object: &PinnedObject) -> StoreError {
    let mut error = StoreError::new("GetObject", &object.bucket, Some(&object.key), "InvalidArchive", None)
        .with_message(format!(
            "other bytes follow its compressed data. Nothing of it is unpacked. {}, as gzip -d does",
            Advice::TolerateTrailingBytes,
        ));
    error.class = ErrorClass::Object;
    error
}

fn damaged(object: &PinnedObject, how: &str) -> StoreError {
    let mut error = StoreError::new("GetObject", &object.bucket, Some(&object.key), "DamagedArchive", None)
        .with_message(format!("{how}. Nothing more of it is unpacked"));
    error.class = ErrorClass::Object;
    error
}
