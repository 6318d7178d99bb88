//! Requests to S3 before they are signed: method, query, headers, body.

use std::borrow::Cow;
use std::fmt;
use std::fmt::Write as _;

use bytes::Bytes;

use super::encoding::encode_query;
use super::errors::ErrorContext;
use super::object_meta::checksum_header;
use crate::checksum::{ChecksumAlgorithm, DigestAlgorithm, Digester, base64};

/// Headers of a request, names in lower case.
#[derive(Clone, Default)]
pub(super) struct RequestHeaders(pub(super) Vec<(Cow<'static, str>, String)>);

/// The output has names only: a value may be a signature or a session token.
impl fmt::Debug for RequestHeaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

impl RequestHeaders {
    /// Adds a header, if there is a value for it.
    pub(super) fn add(&mut self, name: impl Into<Cow<'static, str>>, value: Option<String>) {
        self.0.extend(value.map(|value| (name.into(), value)));
    }

    /// Adds all of these headers.
    pub(super) fn add_all(&mut self, headers: Vec<(String, String)>) {
        self.0.extend(headers.into_iter().map(|(name, value)| (name.into(), value)));
    }

    /// Name of a header that HTTP cannot hold: by its name, or by its value.
    pub(super) fn find_invalid(&self) -> Option<&str> {
        let is_name = |name: &str| {
            !name.is_empty()
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
        };
        let is_value = |value: &str| value.bytes().all(|byte| byte == b'\t' || byte >= b' ' && byte != 0x7f);
        self.0.iter().find(|(name, value)| !is_name(name) || !is_value(value)).map(|(name, _)| name.as_ref())
    }
}

/// Kind of a body, which decides how the signature covers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestBodyKind {
    /// There is no body.
    None,
    /// A document, always signed.
    Document,
    /// Bytes of an object, with a checksum of their own.
    Object,
}

/// A request before it is signed.
#[derive(Debug, Clone)]
pub(super) struct Request<'a> {
    pub(super) context: ErrorContext<'a>,
    pub(super) method: &'static str,
    /// The key in the address.
    pub(super) key: Option<&'a str>,
    /// Path and query behind the key: empty, or with its question mark.
    pub(super) query: String,
    pub(super) headers: RequestHeaders,
    pub(super) body: Bytes,
    pub(super) kind: RequestBodyKind,
}

impl<'a> Request<'a> {
    pub(super) fn new(method: &'static str, operation: &'static str, bucket: &'a str, key: Option<&'a str>) -> Self {
        Self {
            context: ErrorContext { operation, bucket, key },
            method,
            key,
            query: String::new(),
            headers: RequestHeaders::default(),
            body: Bytes::new(),
            kind: RequestBodyKind::None,
        }
    }

    /// Adds a parameter without a value to the query.
    pub(super) fn query_flag(mut self, name: &str) -> Self {
        self.query.push(if self.query.is_empty() { '?' } else { '&' });
        self.query.push_str(name);
        self
    }

    /// Adds a parameter to the query, if there is a value for it.
    pub(super) fn query<'b>(mut self, name: &str, value: impl Into<Option<&'b str>>) -> Self {
        if let Some(value) = value.into() {
            self = self.query_flag(name);
            let _never_fails = write!(self.query, "={}", encode_query(value));
        }
        self
    }

    /// Adds a header, if there is a value for it.
    pub(super) fn header(mut self, name: &'static str, value: Option<String>) -> Self {
        self.headers.add(name, value);
        self
    }

    /// Adds all of these headers.
    pub(super) fn headers(mut self, headers: RequestHeaders) -> Self {
        self.headers.0.extend(headers.0);
        self
    }

    /// Sends bytes of an object.
    pub(super) fn object_body(self, body: Bytes) -> Self {
        Self { body, kind: RequestBodyKind::Object, ..self }
    }

    /// Sends a document.
    pub(super) fn xml_body(self, body: Bytes) -> Self {
        let kind = RequestBodyKind::Document;
        Self { body, kind, ..self }.header("content-type", Some("application/xml".to_owned()))
    }

    /// Adds the checksum that the service requires of some documents.
    pub(super) fn with_crc32(self) -> Self {
        let crc32 = ChecksumAlgorithm::Crc32;
        let sum = base64(&Digester::of(DigestAlgorithm::Checksum(crc32), &self.body));
        self.header(checksum_header(crc32), Some(sum))
            .header("x-amz-sdk-checksum-algorithm", Some(crc32.name().to_owned()))
    }

    /// Adds the MD5 of the body. Older services require it, and know no other checksum.
    pub(super) fn with_md5(self) -> Self {
        let md5 = base64(&Digester::of(DigestAlgorithm::Md5, &self.body));
        self.header("content-md5", Some(md5))
    }

    /// Returns the reason why this request cannot be sent. Without a name the request would be one about the bucket, or
    /// about all buckets; without the id of an upload, one about the object.
    pub(super) fn find_fault(&self) -> Option<String> {
        let is_blank = |text: &str| text.trim().is_empty();
        let lacks = |what: &str| Some(format!("{what} is empty, or has only blanks"));
        if is_blank(self.context.bucket) && self.context.operation != "ListBuckets" {
            return lacks("the name of the bucket");
        }
        if self.key.is_some_and(is_blank) {
            return lacks("the key");
        }
        if self.query.split(['?', '&']).any(|pair| pair == "uploadId=") {
            return lacks("the id of the upload");
        }
        self.headers
            .find_invalid()
            .map(|name| format!("the header {name} has a name or value that HTTP does not allow"))
    }
}
