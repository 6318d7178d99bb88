//! Heads of answers: status, headers, and where the body ends.
//!
//! A head of at most [`MAX_HEAD`] bytes is found in time linear in its length, however small its pieces are. At
//! most [`MAX_INTERIM_REPLIES`] interim answers (1xx) come before the final one.

use std::error::Error;
use std::fmt;
use std::io::{self, ErrorKind};
use std::mem::MaybeUninit;

use aws_smithy_runtime_api::http::Headers;
use bytes::{Buf as _, BytesMut};

/// Largest number of bytes and lines of a head. S3 sends some twenty lines of its own and 2 KiB of metadata, which is
/// at most some 600 more.
pub(super) const MAX_HEAD: usize = 64 << 10;
const MAX_HEADERS: usize = 1024;
/// Lines that fit without an allocation.
const USUAL_HEADERS: usize = 100;
/// Largest number of interim answers to one request. Services send one (100), proxies perhaps a few more.
pub(super) const MAX_INTERIM_REPLIES: u32 = 16;

/// Status, headers and framing that precede a body.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) status: u16,
    pub(super) headers: Headers,
    pub(super) framing: Framing,
    /// True when another request may follow on the same connection.
    pub(super) keep_alive: bool,
}

/// End of a body: by length, by chunks, or with the connection.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Framing {
    /// The body ends after this number of bytes.
    Length(u64),
    /// The body ends after a chunk of no bytes. The value is the rest of the present chunk; None: the next line has the
    /// length of a chunk.
    Chunks(Option<u64>),
    /// The body ends with the connection.
    Close,
}

/// Finds the head of the answer to one request as bytes arrive.
#[derive(Debug, Default)]
pub(super) struct HeadReader {
    /// True for the answer to a HEAD, which has no body.
    is_head: bool,
    /// Number of bytes that were searched without finding the end of a head.
    searched: usize,
    /// Length at which the bytes are parsed without an end as well, so that invalid HTTP is noticed early. It doubles
    /// each time.
    parse_at: usize,
    interim: u32,
    /// Bytes that were parsed, counting repeated ones again.
    #[cfg(test)]
    pub(super) parsed: usize,
}

impl HeadReader {
    pub(super) fn new(is_head: bool) -> Self {
        Self { is_head, ..Self::default() }
    }

    /// Returns the final head and its length, once it is complete. Interim answers before it are removed from `bytes`.
    pub(super) fn find(&mut self, bytes: &mut BytesMut) -> io::Result<Option<(Head, usize)>> {
        while self.is_worth_parsing(bytes) {
            #[cfg(test)]
            (self.parsed += bytes.len());
            match parse_head(bytes, self.is_head)? {
                None => {
                    self.searched = bytes.len();
                    break;
                }
                // `searched` stays, so that the head is found again.
                Some((head, length)) if head.status >= 200 => return Ok(Some((head, length))),
                Some((_, length)) => {
                    bytes.advance(length);
                    self.interim += 1;
                    if self.interim > MAX_INTERIM_REPLIES {
                        return Err(invalid_data("one interim answer follows another without an end"));
                    }
                    (self.searched, self.parse_at) = (0, 0);
                }
            }
        }
        Ok(None)
    }

    fn is_worth_parsing(&mut self, bytes: &[u8]) -> bool {
        if bytes.is_empty() {
            return false;
        }
        // An end may have begun in the bytes before.
        let from = self.searched.saturating_sub(2);
        if has_empty_line(&bytes[from..]) {
            return true;
        }
        self.searched = bytes.len();
        let due = bytes.len() >= self.parse_at.min(MAX_HEAD);
        if due {
            self.parse_at = 2 * bytes.len();
        }
        due
    }
}

/// True when an empty line follows a line.
fn has_empty_line(bytes: &[u8]) -> bool {
    let mut rest = bytes;
    while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
        rest = &rest[end + 1..];
        if rest.starts_with(b"\n") || rest.starts_with(b"\r\n") {
            return true;
        }
    }
    false
}

/// Error for a head with more than [`MAX_HEAD`] bytes or [`MAX_HEADERS`] lines.
#[derive(Debug)]
pub(crate) struct OversizedHead;

impl fmt::Display for OversizedHead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the answer has more than {MAX_HEADERS} headers, or more than {} KiB of them", MAX_HEAD >> 10)
    }
}

impl Error for OversizedHead {}

/// Parses a number of decimal digits only, without sign or blanks.
pub(super) fn parse_digits(text: &str) -> Option<u64> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}

pub(super) fn invalid_data(what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what)
}

/// Parses a head and its length, once it is complete. An ambiguous length of the body is refused, so that no bytes of
/// one answer are taken for another's. The answer to a HEAD ends with its head.
pub(super) fn parse_head(bytes: &[u8], is_head: bool) -> io::Result<Option<(Head, usize)>> {
    if matches!(bytes.first(), Some(b'\r' | b'\n')) {
        return Err(invalid_data("an empty line stands where the answer begins"));
    }
    let (mut few, mut many) = ([const { MaybeUninit::uninit() }; USUAL_HEADERS], Vec::new());
    let mut answer = httparse::Response::new(&mut []);
    let parser = httparse::ParserConfig::default();
    let mut parsed = parser.parse_response_with_uninit_headers(&mut answer, bytes, &mut few);
    if matches!(parsed, Err(httparse::Error::TooManyHeaders)) {
        many.resize(MAX_HEADERS, MaybeUninit::uninit());
        answer = httparse::Response::new(&mut []);
        parsed = parser.parse_response_with_uninit_headers(&mut answer, bytes, &mut many);
    }
    let length = match parsed {
        Ok(httparse::Status::Complete(length)) if length <= MAX_HEAD => length,
        Ok(httparse::Status::Partial) if bytes.len() < MAX_HEAD => return Ok(None),
        Ok(_) | Err(httparse::Error::TooManyHeaders) => {
            return Err(io::Error::new(ErrorKind::InvalidData, OversizedHead));
        }
        Err(error) => return Err(invalid_data(&format!("the answer is no HTTP: {error}"))),
    };
    let status = answer.code.unwrap_or_default();
    let mut headers = Headers::new();
    let (mut declared, mut chunked, mut keep_alive) = (None, false, answer.version == Some(1));
    for header in answer.headers.iter() {
        let value = std::str::from_utf8(header.value)
            .map_err(|_| invalid_data(&format!("header {} is no text", header.name)))?;
        if header.name.eq_ignore_ascii_case("content-length") {
            let length = parse_digits(value.trim_matches([' ', '\t']))
                .ok_or_else(|| invalid_data("Content-Length is no number"))?;
            if declared.is_some_and(|before| before != length) {
                return Err(invalid_data("there are two lengths"));
            }
            declared = Some(length);
        } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
            if !value.trim().eq_ignore_ascii_case("chunked") {
                return Err(invalid_data(&format!("transfer encoding {value:?}, which was not requested")));
            }
            if chunked || answer.version != Some(1) {
                return Err(invalid_data("the transfer encoding stands twice, or in an answer of HTTP/1.0"));
            }
            chunked = true;
        } else if header.name.eq_ignore_ascii_case("connection") {
            let says = |word| value.split(',').any(|token| token.trim().eq_ignore_ascii_case(word));
            keep_alive = !says("close") && (keep_alive || says("keep-alive"));
        }
        headers
            .try_append(header.name.to_ascii_lowercase(), value.trim().to_owned())
            .map_err(|error| invalid_data(&format!("header {}: {error}", header.name)))?;
    }
    if chunked && declared.is_some() {
        return Err(invalid_data("the answer has a length and chunks, and only one of them can be right"));
    }
    if status == 101 {
        return Err(invalid_data("another protocol, which was not requested"));
    }
    let has_no_body = matches!(status, 100..=199 | 204 | 304);
    if has_no_body && (chunked || declared.is_some_and(|length| length > 0)) {
        // A body is announced that this status cannot have: its bytes would be taken for the next answer.
        keep_alive = false;
    }
    let framing = match declared {
        _ if has_no_body || is_head => Framing::Length(0),
        _ if chunked => Framing::Chunks(None),
        Some(length) => Framing::Length(length),
        None => Framing::Close,
    };
    Ok(Some((Head { status, headers, framing, keep_alive: keep_alive && framing != Framing::Close }, length)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Pieces of heads, valid and malformed.
    const PIECES: &[&str] = &[
        "HTTP/1.1 200 OK\r\n",
        "HTTP/1.0 404 \r\n",
        "HTTP/1.1 100 Continue\r\n\r\n",
        "content-length: 5\r\n",
        "Content-Length: +5\r\n",
        "transfer-encoding: chunked\r\n",
        "transfer-encoding: gzip, chunked\r\n",
        "connection: close\r\n",
        "etag: \"e\"\r\n",
        "\r\n",
        "\n",
        "\r",
        ":",
        " ",
        "\0",
        "\u{e9}",
        "x",
        "content-length:18446744073709551616\r\n",
        "x-amz-meta-a: b\r\n c\r\n",
    ];

    proptest! {
        #[test]
        fn a_head_is_read_the_same_however_much_of_it_has_come(
            pieces in proptest::collection::vec(proptest::sample::select(PIECES), 0..12),
            noise in proptest::collection::vec(any::<u8>(), 0..40),
            noise_first: bool,
        ) {
            let mut bytes = pieces.concat().into_bytes();
            if noise_first { bytes.splice(0..0, noise); } else { bytes.extend(noise); }
            let whole = parse_head(&bytes, false);
            if let Ok(Some((head, length))) = &whole {
                prop_assert!(*length <= bytes.len());
                for end in 0..*length {
                    prop_assert!(!matches!(parse_head(&bytes[..end], false), Ok(Some(_))), "{end} of {length} bytes are no head");
                }
                let again = parse_head(&bytes[..*length], false).unwrap().unwrap();
                prop_assert_eq!((again.0.status, again.0.framing, again.1), (head.status, head.framing, *length));
            }
        }

        #[test]
        fn only_plain_numbers_are_lengths(text in "[0-9a-fxX+ \\-_]{0,20}") {
            let decimal = !text.is_empty() && text.chars().all(|one| one.is_ascii_digit());
            prop_assert!(parse_digits(&text).is_none() || decimal);
        }
    }

    #[test]
    fn a_head_that_drips_is_parsed_a_few_times_and_not_for_each_byte() {
        let long = format!("HTTP/1.1 200 OK\r\n{}\r\n", "x-amz-meta-a: 0123456789\r\n".repeat(1000));
        let (mut reader, mut bytes) = (HeadReader::default(), BytesMut::new());

        for (sent, byte) in long.bytes().enumerate() {
            bytes.extend_from_slice(&[byte]);
            let found = reader.find(&mut bytes).unwrap();
            assert_eq!(found.is_some(), sent + 1 == long.len());
        }

        assert!(reader.parsed <= 4 * long.len(), "{} bytes parsed of {}", reader.parsed, long.len());
    }

    #[test]
    fn a_head_without_an_end_is_refused_at_the_longest_length() {
        for line in ["x-amz-meta-a: 0123456789\r\n", "x"] {
            let (mut reader, mut bytes) = (HeadReader::default(), BytesMut::from("HTTP/1.1 200 OK\r\na: "));
            let refused = loop {
                bytes.extend_from_slice(line.as_bytes());
                match reader.find(&mut bytes) {
                    Ok(found) => assert!(found.is_none()),
                    Err(error) => break error,
                }
            };
            assert!(refused.get_ref().is_some_and(<dyn Error + Send + Sync>::is::<OversizedHead>), "{refused}");
            assert!(bytes.len() <= MAX_HEAD + line.len());
        }
    }

    #[test]
    fn interim_answers_without_an_end_are_refused() {
        for interim in ["HTTP/1.1 100 Continue\r\n\r\n", "HTTP/1.1 103 Early Hints\r\nlink: a\r\n\r\n"] {
            let answer = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
            for (count, accepted) in
                [(0, true), (1, true), (MAX_INTERIM_REPLIES, true), (MAX_INTERIM_REPLIES + 1, false)]
            {
                let mut reader = HeadReader::default();
                let mut bytes = BytesMut::from((interim.repeat(count as usize) + answer).as_str());
                let found = reader.find(&mut bytes);
                assert_eq!(found.is_ok(), accepted, "{count} times {interim:?}");
                if let Ok(Some((head, _))) = found {
                    assert_eq!(head.status, 200);
                    assert!(reader.find(&mut bytes).unwrap().is_some(), "it is found again");
                }
            }
        }
    }

    #[test]
    fn what_is_no_http_is_refused_before_its_end() {
        for text in ["220 mail.example.org ESMTP\r\n", "\r\n", "\n", "SSH-2.0-OpenSSH_9.6\r\n"] {
            assert!(HeadReader::default().find(&mut BytesMut::from(text)).is_err(), "{text:?}");
        }
    }
}
