//! Requests to S3, one call each: by the SDK, or for copies, GETs and PUTs by [`super::fast_path`].

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_s3::operation::list_parts::ListPartsOutput;

use super::S3Store;
use super::address::{is_aws, without_userinfo};
use super::convert::{checksum_header, copy_source, quoted, tagging, unquoted};
use super::failures::malformed;
use super::fast_path::RequestHeaders;
use crate::error::StoreError;
use crate::error::classify::code;
use crate::properties::WriteOptions;
use crate::store::{BucketService, ObjectStore, Result};
use crate::types::{Attributes, Capabilities, CopyTarget, Digests, PartsPage, PinnedObject, PutObject};

mod body;
mod buckets;
mod multipart;
mod read;
mod stated;
mod stored_form;
mod write;

pub(super) use stored_form::{Form, PreferredForm};

/// The content type of bytes without a known type.
const OCTET_STREAM: &str = "application/octet-stream";
/// Time limit of requests that move no object bytes.
const SHORT: Duration = Duration::from_mins(1);
/// Time limit of completing an upload, which may take minutes while the service sends white space.
const COMPLETE: Duration = Duration::from_mins(15);
/// Largest number of pages of open uploads: a million uploads. The bound ends a listing whose markers repeat.
const UPLOAD_PAGES: usize = 1000;
/// Time without any bytes after which a body is given up.
const STALLED: Duration = Duration::from_secs(30);
/// Least number of bytes in this time of waiting: a slower body is given up, since another connection may be faster.
const TRICKLE: (Duration, u64) = (Duration::from_mins(1), 64 << 10);

/// The `ETag` of the written object, which every success holds.
fn etag(answered: Option<&str>, operation: &'static str, bucket: &str, key: &str) -> Result<String> {
    Some(unquoted(answered)).filter(|etag| !etag.is_empty()).ok_or_else(|| malformed(operation, bucket, key, "ETag"))
}

/// HEAD errors carry no body, hence no code.
fn is_mute(error: &StoreError) -> bool {
    matches!(error.code.as_str(), "BadRequest" | "Forbidden")
}

/// List of parts, parsed by the SDK or by us.
enum PartsReply {
    Known(Box<ListPartsOutput>),
    Read(PartsPage),
}

/// Headers about the source, for copies of objects and of parts.
fn copied_from(source: &PinnedObject) -> RequestHeaders {
    let mut headers = RequestHeaders::default();
    headers.add("x-amz-copy-source", Some(copy_source(source)));
    headers.add("x-amz-copy-source-if-match", source.if_match.as_deref().map(quoted));
    headers
}

/// Headers about the body, for writes of objects and of parts.
fn body_headers(content_type: Option<&String>, digests: &Digests) -> RequestHeaders {
    let mut headers = RequestHeaders::default();
    headers.add("content-type", Some(content_type.map_or(OCTET_STREAM, String::as_str).to_owned()));
    headers.add("content-md5", digests.md5.clone());
    if let Some((algorithm, value)) = &digests.checksum {
        headers.add(checksum_header(*algorithm), Some(value.clone()));
    }
    headers
}

/// Attributes but for the content type.
fn attribute_headers(attributes: &Attributes) -> Vec<(String, String)> {
    let named = [
        ("content-encoding", &attributes.content_encoding),
        ("content-language", &attributes.content_language),
        ("content-disposition", &attributes.content_disposition),
        ("cache-control", &attributes.cache_control),
        ("expires", &attributes.expires),
        ("x-amz-website-redirect-location", &attributes.website_redirect),
    ];
    let named = named.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value.clone()?)));
    let metadata = attributes.metadata.iter();
    let metadata = metadata.map(|(name, value)| (format!("x-amz-meta-{}", name.to_ascii_lowercase()), value.clone()));
    named.chain(metadata).collect()
}

/// Headers of the properties that the target of a copy does not take from its source.
pub(super) fn copy_headers(target: &CopyTarget<'_>) -> Vec<(String, String)> {
    let mut headers: Vec<(String, String)> = target.write.map(WriteOptions::headers).unwrap_or_default();
    let mut add = |name: &str, value: String| headers.push((name.to_owned(), value));
    if let Some(class) = target.storage_class {
        add("x-amz-storage-class", class.to_owned());
    }
    if let Some(algorithm) = target.checksum {
        add("x-amz-checksum-algorithm", algorithm.name().to_owned());
    }
    if let Some(attributes) = target.attributes {
        add("x-amz-metadata-directive", "REPLACE".to_owned());
        add("content-type", attributes.content_type.clone().unwrap_or_else(|| OCTET_STREAM.to_owned()));
    }
    if let Some(tags) = target.tags {
        add("x-amz-tagging-directive", "REPLACE".to_owned());
        // An empty value removes all tags.
        add("x-amz-tagging", tagging(tags).unwrap_or_default());
    }
    headers.extend(target.attributes.map(attribute_headers).unwrap_or_default());
    headers
}

/// Headers of a PUT of a whole object.
fn object_headers(object: &PutObject) -> RequestHeaders {
    let attributes = &object.attributes;
    let mut headers = body_headers(attributes.content_type.as_ref(), &object.digests);
    headers.add_all(attribute_headers(attributes));
    headers.add_all(object.write.headers());
    headers.add("x-amz-tagging", tagging(&object.tags));
    headers.add("x-amz-storage-class", object.storage_class.clone());
    headers.add("if-none-match", object.if_absent.then(|| "*".to_owned()));
    headers.add("if-match", object.if_match.as_deref().map(quoted));
    headers
}

#[async_trait]
impl ObjectStore for S3Store {
    fn capabilities(&self) -> Capabilities {
        Capabilities::SERVICE
    }

    fn bucket_service(&self) -> Option<&dyn BucketService> {
        Some(self)
    }

    fn encrypts_all(&self) -> bool {
        let base = Arc::clone(&self.state.read().unwrap_or_else(PoisonError::into_inner).base);
        base.endpoint.as_deref().is_none_or(is_aws)
    }

    fn max_attempts(&self) -> Option<u32> {
        self.max_attempts
    }

    fn take_notes(&self, sends_bodies: bool) -> Vec<String> {
        let mut notes = std::mem::take(&mut *self.notes.lock().unwrap_or_else(PoisonError::into_inner));
        if sends_bodies && self.has_open_bodies.swap(false, Ordering::Relaxed) {
            let base = Arc::clone(&self.state.read().unwrap_or_else(PoisonError::into_inner).base);
            notes.push(format!(
                "{}: over plain HTTP, uploads are protected by checksums against damage, not by signatures against people who can change them on the way. Use https, or set payload_signing_enabled = true in the s3 section of the AWS profile (more CPU).",
                without_userinfo(base.endpoint.as_deref().unwrap_or_default())
            ));
        }
        notes
    }

    async fn refresh_credentials(&self) -> Result<()> {
        if self.options.anonymous {
            return Err(StoreError::new("RefreshCredentials", "", None, code::NO_CREDENTIALS, None));
        }
        self.reload().await;
        Ok(())
    }
}
