//! Bodies that clients send: decoded, verified, and kept as little as possible.
//!
//! A body that is a piece of a synthetic stream is recognised by its first bytes and followed to its end, byte by
//! byte: it needs no memory. Other bodies are kept while the memory option lasts; beyond it only their checksums are
//! kept.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::HeaderMap;
use hyper::body::Incoming;
use md5::{Digest as _, Md5};
use sha2::Sha256;

use super::checksum::{Algorithm, Value};
use super::content::{BLOCK, Content, DiscardedBody, HEAD, StoredBody, fill, recognise};
use super::crc::Crc;
use super::reply::ErrorReply;

/// Larger documents are no requests.
const LONGEST_DOCUMENT: usize = 8 << 20;

/// A body that was read.
#[derive(Debug, Default)]
pub(super) enum ReceivedBody {
    #[default]
    Nothing,
    Document(Vec<u8>),
    Object(ReceivedObject),
}

/// Decoded and verified body of an object or part.
#[derive(Debug)]
pub(super) struct ReceivedObject {
    pub(super) content: Content,
    /// MD5 of the body; None when the request did not need it.
    pub(super) md5: Option<[u8; 16]>,
    /// The checksum that the client sent along; it was right.
    pub(super) value: Option<Value>,
}

/// Limits and checks for receiving a body.
#[derive(Clone)]
pub(super) struct Terms {
    /// Bytes that are kept in all.
    pub(super) kept: Arc<AtomicU64>,
    pub(super) memory: u64,
    pub(super) md5: bool,
    pub(super) checksums: bool,
}

fn incomplete() -> ErrorReply {
    ErrorReply::new(
        400,
        "IncompleteBody",
        "You did not provide the number of bytes specified by the Content-Length header.",
    )
}

/// Reads a document such as a list of parts.
pub(super) async fn document(body: Incoming) -> Result<ReceivedBody, ErrorReply> {
    let body = http_body_util::Limited::new(body, LONGEST_DOCUMENT).collect().await.map_err(|_| incomplete())?;
    Ok(ReceivedBody::Document(body.to_bytes().to_vec()))
}

/// Reads the body of an object or part.
pub(super) async fn object(headers: &HeaderMap, mut body: Incoming, terms: Terms) -> Result<ReceivedBody, ErrorReply> {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let chunked = header("x-amz-content-sha256").is_some_and(|sum| sum.starts_with("STREAMING-"));
    let content_md5 = header("content-md5").map(str::to_owned);
    let declared: Vec<(Algorithm, String)> =
        Algorithm::ALL.into_iter().filter_map(|a| Some((a, header(a.header())?.to_owned()))).collect();
    if terms.checksums
        && let Some(other) = headers.keys().find(|name| is_unknown_checksum(name.as_str()))
    {
        return Err(ErrorReply::unknown(other));
    }
    let decoded_length: Option<u64> = header("x-amz-decoded-content-length").and_then(|length| length.parse().ok());
    let mut taking = ObjectIntake::new(&terms, content_md5.is_some());
    let mut chunks = chunked.then(Chunks::default);
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|_| incomplete())?.into_data() else { continue };
        match &mut chunks {
            None => taking.take(&data),
            Some(chunks) => chunks.decode(&data, |bytes| taking.take(bytes))?,
        }
    }
    let trailers = match chunks {
        Some(chunks) => chunks.end()?,
        None => Vec::new(),
    };
    let (content, md5) = taking.end();
    if decoded_length.is_some_and(|length| length != content.length()) {
        return Err(incomplete());
    }
    if let Some(expected) = content_md5 {
        let raw = STANDARD.decode(&expected).ok().filter(|raw| raw.len() == 16);
        let raw =
            raw.ok_or_else(|| ErrorReply::new(400, "InvalidDigest", "The Content-MD5 you specified is not valid."))?;
        if md5.is_none_or(|md5| md5[..] != raw[..]) {
            return Err(ErrorReply::new(
                400,
                "BadDigest",
                "The Content-MD5 you specified did not match what we received.",
            ));
        }
    }
    let in_trailer = trailers.into_iter().filter_map(|(name, value)| {
        let algorithm = Algorithm::ALL.into_iter().find(|algorithm| algorithm.header() == name)?;
        Some((algorithm, value))
    });
    let mut value = None;
    for (algorithm, expected) in declared.into_iter().chain(in_trailer).filter(|_| terms.checksums) {
        let actual = algorithm.of(&content).map_err(|_| ErrorReply::not_kept())?;
        if actual.base64() != expected {
            let name = algorithm.name();
            return Err(ErrorReply::new(
                400,
                "BadDigest",
                format!("The {name} you specified did not match the calculated checksum."),
            ));
        }
        value = Some(actual);
    }
    Ok(ReceivedBody::Object(ReceivedObject { content, md5, value }))
}

fn is_unknown_checksum(name: &str) -> bool {
    name.strip_prefix("x-amz-checksum-")
        .is_some_and(|rest| !matches!(rest, "type" | "mode" | "algorithm") && Algorithm::parse(rest).is_none())
}

/// Receiver of the body of an object or part.
struct ObjectIntake<'a> {
    terms: &'a Terms,
    length: u64,
    md5: Option<Md5>,
    state: State,
}

enum State {
    /// The first bytes, too few to recognise a stream.
    Prefix(Vec<u8>),
    /// A piece of a stream so far: seed and offset.
    Stream(u64, u64),
    /// A body that is no stream, which counts against the allowance.
    Keeping(Vec<u8>),
    /// A body beyond the allowance, of which only checksums are kept.
    Forgetting(Box<(Sha256, [crc_fast::Digest; 3])>),
}

impl<'a> ObjectIntake<'a> {
    fn new(terms: &'a Terms, md5: bool) -> Self {
        Self { terms, length: 0, md5: (md5 || terms.md5).then(Md5::new), state: State::Prefix(Vec::new()) }
    }

    fn take(&mut self, bytes: &[u8]) {
        if let Some(md5) = &mut self.md5 {
            md5.update(bytes);
        }
        self.follow(bytes);
        self.length += bytes.len() as u64;
    }

    fn follow(&mut self, bytes: &[u8]) {
        match &mut self.state {
            State::Prefix(first) => {
                first.extend_from_slice(bytes);
                // Longer than its head, or any 16 bytes would be a stream.
                if first.len() > HEAD {
                    let first = std::mem::take(first);
                    let (seed, offset) = recognise(&first).unwrap_or((0, 0));
                    if continues(seed, offset, &first) {
                        self.state = State::Stream(seed, offset);
                    } else {
                        self.keep(&first);
                    }
                }
            }
            State::Stream(seed, offset) => {
                let (seed, offset) = (*seed, *offset);
                if !continues(seed, offset + self.length, bytes) {
                    // The body leaves the stream: make the bytes again that have passed.
                    let mut piece = vec![0; usize::try_from(BLOCK).unwrap_or(0)];
                    self.state = State::Keeping(Vec::new());
                    let mut done = 0;
                    while done < self.length {
                        let piece_length = (self.length - done).min(BLOCK);
                        let piece = &mut piece[..usize::try_from(piece_length).unwrap_or(0)];
                        fill(seed, offset + done, piece);
                        self.keep(piece);
                        done += piece_length;
                    }
                    self.keep(bytes);
                }
            }
            State::Keeping(_) | State::Forgetting(_) => self.keep(bytes),
        }
    }

    fn keep(&mut self, bytes: &[u8]) {
        if matches!(self.state, State::Prefix(_) | State::Stream(..)) {
            self.state = State::Keeping(Vec::new());
        }
        if let State::Keeping(all) = &mut self.state {
            let more = bytes.len() as u64;
            if self.terms.kept.fetch_add(more, Ordering::Relaxed) + more <= self.terms.memory {
                all.extend_from_slice(bytes);
                return;
            }
            self.terms.kept.fetch_sub(more + all.len() as u64, Ordering::Relaxed);
            let mut sums = Box::new((Sha256::new(), Crc::ALL.map(Crc::digest)));
            add(&mut sums, all);
            self.state = State::Forgetting(sums);
        }
        if let State::Forgetting(sums) = &mut self.state {
            add(sums, bytes);
        }
    }

    fn end(mut self) -> (Content, Option<[u8; 16]>) {
        if let State::Prefix(first) = &mut self.state {
            let first = std::mem::take(first);
            self.keep(&first);
        }
        let content = match std::mem::replace(&mut self.state, State::Stream(0, 0)) {
            State::Stream(seed, offset) => Content::stream(seed, offset, self.length),
            State::Keeping(bytes) => {
                Content::kept(StoredBody::new(bytes.into_boxed_slice(), Arc::clone(&self.terms.kept)))
            }
            State::Forgetting(sums) => {
                let (sha256, crcs) = *sums;
                let crcs = crcs.map(|digest| digest.finalize());
                Content::forgotten(Arc::new(DiscardedBody {
                    length: self.length,
                    sha256: sha256.finalize().into(),
                    crcs,
                }))
            }
            State::Prefix(_) => Content::default(),
        };
        (content, self.md5.take().map(|digest| digest.finalize().into()))
    }
}

impl Drop for ObjectIntake<'_> {
    fn drop(&mut self) {
        // A client that left in the middle.
        if let State::Keeping(bytes) = &self.state {
            self.terms.kept.fetch_sub(bytes.len() as u64, Ordering::Relaxed);
        }
    }
}

fn add(sums: &mut (Sha256, [crc_fast::Digest; 3]), bytes: &[u8]) {
    sums.0.update(bytes);
    for digest in &mut sums.1 {
        digest.update(bytes);
    }
}

fn continues(seed: u64, offset: u64, bytes: &[u8]) -> bool {
    let mut expected = [0; 16 << 10];
    let mut offset = offset;
    bytes.chunks(expected.len()).all(|piece| {
        let expected = &mut expected[..piece.len()];
        fill(seed, offset, expected);
        offset += piece.len() as u64;
        *expected == *piece
    })
}

/// `aws-chunked` on its way in: `SIZE[;chunk-signature=...]\r\n BYTES \r\n ... 0\r\n NAME:VALUE\r\n ... \r\n`.
#[derive(Default)]
struct Chunks {
    waiting: BytesMut,
    /// Bytes of the current chunk that are still to come.
    left: u64,
    stage: Stage,
    trailers: Vec<(String, String)>,
}

#[derive(Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Size,
    Data,
    /// The line end after a chunk.
    DataEnd,
    Trailers,
}

impl Chunks {
    fn decode(&mut self, data: &Bytes, mut take: impl FnMut(&[u8])) -> Result<(), ErrorReply> {
        let mut data = data.clone();
        loop {
            if self.stage == Stage::Data {
                let length = usize::try_from(self.left).unwrap_or(usize::MAX).min(data.len());
                take(&data.split_to(length));
                self.left -= length as u64;
                if self.left > 0 {
                    return Ok(());
                }
                self.stage = Stage::DataEnd;
            }
            // Lines are short, and may come in pieces.
            let Some(end) = data.iter().position(|byte| *byte == b'\n') else {
                self.waiting.extend_from_slice(&data);
                if self.waiting.len() > 4_096 {
                    return Err(malformed_error());
                }
                return Ok(());
            };
            self.waiting.extend_from_slice(&data.split_to(end + 1));
            let line = std::mem::take(&mut self.waiting);
            let line = std::str::from_utf8(&line).map_err(|_| malformed_error())?.trim_end();
            match self.stage {
                Stage::Size => {
                    let size = line.split(';').next().unwrap_or_default();
                    self.left = u64::from_str_radix(size, 16).map_err(|_| malformed_error())?;
                    self.stage = if self.left == 0 { Stage::Trailers } else { Stage::Data };
                }
                Stage::DataEnd if line.is_empty() => self.stage = Stage::Size,
                Stage::Trailers => {
                    if let Some((name, value)) = line.split_once(':') {
                        self.trailers.push((name.trim().to_ascii_lowercase(), value.trim().to_owned()));
                    }
                }
                _ => return Err(malformed_error()),
            }
        }
    }

    fn end(self) -> Result<Vec<(String, String)>, ErrorReply> {
        if self.stage == Stage::Trailers { Ok(self.trailers) } else { Err(incomplete()) }
    }
}

fn malformed_error() -> ErrorReply {
    ErrorReply::new(400, "InvalidRequest", "The body is not in the form aws-chunked.")
}
