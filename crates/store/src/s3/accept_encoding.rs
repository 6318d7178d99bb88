//! `Accept-Encoding` of GET requests, chosen so that objects arrive as they are stored.
//!
//! Some services and proxies decompress objects with a `Content-Encoding` in transit unless the request accepts that
//! encoding; others compress unless it accepts `identity` only. Requests accept `identity` first, as other clients do.
//! A reply for the pinned object with another length was transformed in transit: the object is requested again with
//! the other value, which is then remembered.

use std::sync::atomic::{AtomicU8, Ordering};

use crate::error::StoreError;
use crate::error::classify::code;
use crate::s3::http1::PooledBody;
use crate::types::{ObjectMeta, PinnedObject, Range};

/// Encodings that a request accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::s3) enum AcceptEncoding {
    /// `Accept-Encoding: identity`
    Identity,
    /// `Accept-Encoding` of all codings that are in use.
    Encoded,
}

impl AcceptEncoding {
    /// Value of `Accept-Encoding`.
    pub(in crate::s3) fn header(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Encoded => "gzip, deflate, br, zstd, compress",
        }
    }

    pub(super) fn other(self) -> Self {
        match self {
            Self::Identity => Self::Encoded,
            Self::Encoded => Self::Identity,
        }
    }
}

/// The value with which objects arrived as they are stored.
#[derive(Debug, Default)]
pub(in crate::s3) struct PreferredEncoding(AtomicU8);

impl PreferredEncoding {
    pub(super) fn get(&self) -> AcceptEncoding {
        if self.0.load(Ordering::Relaxed) == 0 { AcceptEncoding::Identity } else { AcceptEncoding::Encoded }
    }

    pub(super) fn set(&self, form: AcceptEncoding) {
        self.0.store(u8::from(form == AcceptEncoding::Encoded), Ordering::Relaxed);
    }
}

/// Reply to a GET.
pub(super) struct GetReply {
    pub(super) meta: ObjectMeta,
    pub(super) content_range: Option<String>,
    /// True when the answer states its length.
    pub(super) has_length: bool,
    /// True when the end of the body is marked: by its length, or by its last chunk.
    pub(super) has_end: bool,
    pub(super) body: PooledBody,
}

impl GetReply {
    /// True for a reply for the pinned object whose length shows that its bytes were transformed in transit.
    pub(super) fn is_transformed(&self, source: &PinnedObject, range: Option<Range>) -> bool {
        if source.size == 0 || source.if_match.as_ref() != Some(&self.meta.etag) {
            return false;
        }
        match (range, &self.content_range) {
            // The length of the whole object, as far as the answer states it.
            (Some(_), Some(declared)) => {
                let whole = declared.rsplit_once('/').and_then(|(_, whole)| whole.trim().parse::<u64>().ok());
                whole.is_some_and(|whole| whole != source.size)
            }
            (Some(range), None) => self.has_length && ![source.size, range.len()].contains(&self.meta.size),
            (None, _) => self.has_length && self.meta.size != source.size,
        }
    }
}

/// Error for an object that is transformed in transit with either value.
pub(super) fn transformation_error(source: &PinnedObject, came: u64) -> StoreError {
    let (bucket, key) = (source.bucket.as_str(), source.key.as_str());
    let message = format!(
        "the object has {} bytes, and an answer of {came} bytes came with the same ETag: the service, or a proxy before it, compresses or decompresses objects on the way (Content-Encoding), whatever the request accepts",
        source.size
    );
    StoreError::new("GetObject", bucket, Some(key), code::TRANSFORMED, Some(200)).with_message(message)
}
