//! Answers, before they become HTTP.

use std::borrow::Cow;

use bytes::Bytes;
use hyper::header::{HeaderName, HeaderValue};
use hyper::{HeaderMap, StatusCode};

use super::content::Content;
use super::xml::Xml;

/// A success.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Payload,
}

/// The body of a success.
#[derive(Debug)]
pub(super) enum Payload {
    /// No body; for HEAD, with the length that GET would have.
    Empty(Option<u64>),
    Text(Bytes),
    Content {
        content: Content,
        offset: u64,
        length: u64,
    },
}

impl Payload {
    pub(super) fn length(&self) -> u64 {
        match self {
            Self::Empty(_) => 0,
            Self::Text(text) => text.len() as u64,
            Self::Content { length, .. } => *length,
        }
    }
}

impl Reply {
    pub(super) fn empty(status: StatusCode) -> Self {
        Self { status, headers: HeaderMap::new(), body: Payload::Empty(None) }
    }

    pub(super) fn xml(text: String) -> Self {
        let mut reply = Self { body: Payload::Text(Bytes::from(text)), ..Self::empty(StatusCode::OK) };
        reply.headers.insert("content-type", HeaderValue::from_static("application/xml"));
        reply
    }

    /// A header; values that no header can hold are left out.
    pub(super) fn set(&mut self, name: &str, value: &str) {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            self.headers.insert(name, value);
        }
    }

    pub(super) fn with(mut self, name: &str, value: &str) -> Self {
        self.set(name, value);
        self
    }

    pub(super) fn with_etag(self, etag: &str) -> Self {
        self.with("etag", &format!("\"{etag}\""))
    }
}

/// An error as S3 answers it.
#[derive(Debug)]
pub(super) struct ErrorReply {
    pub(super) status: u16,
    pub(super) code: Cow<'static, str>,
    message: String,
    elements: Vec<(&'static str, String)>,
    pub(super) headers: Vec<(&'static str, String)>,
}

pub(super) type ReplyResult = Result<Reply, ErrorReply>;

impl ErrorReply {
    pub(super) fn new(status: u16, code: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        Self { status, code: code.into(), message: message.into(), elements: Vec::new(), headers: Vec::new() }
    }

    pub(super) fn element(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.elements.push((name, value.into()));
        self
    }

    pub(super) fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// Failure for a request that the simulator does not know: answered 501, never skipped.
    pub(super) fn unknown(what: impl std::fmt::Display) -> Self {
        Self::new(501, "NotImplemented", format!("s3sim does not know {what}."))
    }

    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::new(400, "InvalidArgument", message)
    }

    pub(super) fn malformed_xml() -> Self {
        Self::new(400, "MalformedXML", "The XML you provided was not well-formed or did not validate.")
    }

    pub(super) fn no_bucket(bucket: &str) -> Self {
        Self::new(404, "NoSuchBucket", "The specified bucket does not exist").element("BucketName", bucket)
    }

    pub(super) fn no_key(key: &str) -> Self {
        Self::new(404, "NoSuchKey", "The specified key does not exist.").element("Key", key)
    }

    pub(super) fn no_upload(id: &str) -> Self {
        Self::new(404, "NoSuchUpload", "The specified upload does not exist.").element("UploadId", id)
    }

    pub(super) fn precondition(condition: &str) -> Self {
        Self::new(412, "PreconditionFailed", "At least one of the pre-conditions you specified did not hold")
            .element("Condition", condition)
    }

    pub(super) fn not_kept() -> Self {
        Self::unknown(
            "the bytes of this object: its body was beyond the memory option, and only its checksums were kept",
        )
    }

    pub(super) fn xml(&self, resource: &str, request_id: &str) -> String {
        let mut xml = Xml::error();
        xml.element("Code", &self.code).element("Message", &self.message);
        for (name, value) in &self.elements {
            xml.element(name, value);
        }
        xml.element("Resource", resource).element("RequestId", request_id);
        xml.end("Error")
    }
}
