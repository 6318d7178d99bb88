//! Single signed S3 requests over plain HTTP, blocking and by hand.
//!
//! For preparing servers and for requests that no client library would send. Independent of the client under test.

use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, SystemTime};

use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

use crate::date;

/// Key pair that signs a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Credentials {
    /// Access key id.
    pub access_key: &'static str,
    /// Secret access key.
    pub secret_key: &'static str,
}

/// The region that the test servers believe to be in.
pub const REGION: &str = "us-east-1";

const TIMEOUT: Duration = Duration::from_secs(20);

/// A server's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// HTTP status.
    pub status: u16,
    /// Names in lower case, values as sent.
    pub headers: Vec<(String, String)>,
    /// The whole body.
    pub body: Vec<u8>,
}

impl Reply {
    /// The first header of that name (in lower case).
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// One request on a connection of its own.
///
/// `target` is path and query, percent-encoded; a query's parameters must be in order of their names. `headers` are
/// sent and signed as they are, with names in lower case.
///
/// # Errors
/// When there is no whole answer. An error that S3 answers is a [`Reply`].
pub fn request(
    endpoint_url: &str,
    credentials: Credentials,
    method: &str,
    target: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> io::Result<Reply> {
    let host = endpoint_url.strip_prefix("http://").unwrap_or(endpoint_url);
    let mut all: Vec<(String, String)> =
        headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    all.push(("host".to_owned(), host.to_owned()));
    all.push(("x-amz-content-sha256".to_owned(), hex(&Sha256::digest(body))));
    all.push(("x-amz-date".to_owned(), timestamp()));
    all.sort();
    let authorization = authorization(credentials, method, target, &all);

    let mut head = format!("{method} {target} HTTP/1.1\r\n");
    for (name, value) in &all {
        let _ = write!(head, "{name}: {value}\r\n");
    }
    let _ =
        write!(head, "authorization: {authorization}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
    let mut stream = TcpStream::connect(host)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    stream.write_all(head.as_bytes())?;
    stream.write_all(body)?;
    let mut raw = Vec::new();
    stream.read_to_end(&mut raw)?;
    parse_reply(&raw, method == "HEAD")
}

fn parse_reply(raw: &[u8], bodyless: bool) -> io::Result<Reply> {
    let broken = || io::Error::new(io::ErrorKind::UnexpectedEof, "the reply broke off");
    let end = raw.windows(4).position(|window| window == b"\r\n\r\n").ok_or_else(broken)?;
    let head = String::from_utf8_lossy(&raw[..end]).into_owned();
    let rest = &raw[end + 4..];
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|status| status.parse().ok());
    let status: u16 = status.ok_or_else(broken)?;
    if status == 100 {
        return parse_reply(rest, bodyless);
    }
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let mut reply = Reply { status, headers, body: Vec::new() };
    let length = reply.header("content-length").and_then(|length| length.parse::<usize>().ok());
    if bodyless {
        return Ok(reply);
    }
    reply.body = if reply.header("transfer-encoding") == Some("chunked") {
        dechunk(rest).ok_or_else(broken)?
    } else if let Some(length) = length {
        rest.get(..length).ok_or_else(broken)?.to_vec()
    } else {
        rest.to_vec()
    };
    Ok(reply)
}

/// Decodes a chunked body; None when the last chunk is missing.
fn dechunk(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let end = rest.windows(2).position(|window| window == b"\r\n")?;
        let length = usize::from_str_radix(std::str::from_utf8(&rest[..end]).ok()?.split(';').next()?, 16).ok()?;
        if length == 0 {
            return Some(body);
        }
        rest = &rest[end + 2..];
        body.extend_from_slice(rest.get(..length)?);
        rest = rest.get(length + 2..)?;
    }
}

/// Now, as `x-amz-date` has it.
pub fn timestamp() -> String {
    date::compact(SystemTime::now())
}

/// Returns the value of `Authorization` for a request with these headers. All of them are signed; their names are in
/// lower case and in order.
pub fn authorization(credentials: Credentials, method: &str, target: &str, headers: &[(String, String)]) -> String {
    let find = |name: &str| headers.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value.as_str());
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    // A parameter without a value is signed as one with an empty value.
    let query: Vec<String> = query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| if pair.contains('=') { pair.to_owned() } else { format!("{pair}=") })
        .collect();
    let names = headers.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(";");
    let lines: String = headers.iter().fold(String::new(), |lines, (name, value)| lines + &format!("{name}:{value}\n"));
    let canonical =
        format!("{method}\n{path}\n{}\n{lines}\n{names}\n{}", query.join("&"), find("x-amz-content-sha256"));
    let time = find("x-amz-date");
    let date = &time[..8];
    let scope = format!("{date}/{REGION}/s3/aws4_request");
    let to_sign = format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{}", hex(&Sha256::digest(canonical.as_bytes())));
    let key = [date, REGION, "s3", "aws4_request"]
        .iter()
        .fold(format!("AWS4{}", credentials.secret_key).into_bytes(), |key, part| hmac(&key, part));
    let signature = hex(&hmac(&key, &to_sign));
    let access_key = credentials.access_key;
    format!("AWS4-HMAC-SHA256 Credential={access_key}/{scope}, SignedHeaders={names}, Signature={signature}")
}

fn hmac(key: &[u8], text: &str) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes keys of any length");
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_that_breaks_off_is_an_error() {
        let whole = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc";
        let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n";

        for reply in [&whole[..], &chunked[..]] {
            assert_eq!(parse_reply(reply, false).expect("a reply").body, b"abc");
        }
        assert!(parse_reply(&whole[..whole.len() - 1], false).is_err());
        assert!(parse_reply(&chunked[..chunked.len() - 8], false).is_err());
    }
}
