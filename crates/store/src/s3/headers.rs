//! Headers of requests about objects: their source, their body, their attributes.

use super::encoding::{copy_source, encode_tags, quote};
use super::object_meta::checksum_header;
use super::request::RequestHeaders;
use crate::checksum::ChecksumKind;
use crate::properties::WriteOptions;
use crate::types::{Attributes, CopyTarget, CreateUpload, Digests, PinnedObject, PutObject};

/// The content type of bytes without a known type.
const OCTET_STREAM: &str = "application/octet-stream";

/// Headers about the source, for copies of objects and of parts.
pub(super) fn copy_source_headers(source: &PinnedObject) -> RequestHeaders {
    let mut headers = RequestHeaders::default();
    headers.add("x-amz-copy-source", Some(copy_source(source)));
    headers.add("x-amz-copy-source-if-match", source.if_match.as_deref().map(quote));
    headers
}

/// Headers about the body, for writes of objects and of parts.
pub(super) fn body_headers(content_type: Option<&String>, digests: &Digests) -> RequestHeaders {
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
pub(super) fn copy_target_headers(target: &CopyTarget<'_>) -> RequestHeaders {
    let mut headers = RequestHeaders::default();
    headers.add_all(target.write.map(WriteOptions::headers).unwrap_or_default());
    headers.add("x-amz-storage-class", target.storage_class.map(str::to_owned));
    headers.add("x-amz-checksum-algorithm", target.checksum.map(|algorithm| algorithm.name().to_owned()));
    if let Some(attributes) = target.attributes {
        headers.add("x-amz-metadata-directive", Some("REPLACE".to_owned()));
        headers.add("content-type", Some(attributes.content_type.as_deref().unwrap_or(OCTET_STREAM).to_owned()));
        headers.add_all(attribute_headers(attributes));
    }
    if let Some(tags) = target.tags {
        headers.add("x-amz-tagging-directive", Some("REPLACE".to_owned()));
        // An empty value removes all tags.
        headers.add("x-amz-tagging", Some(encode_tags(tags).unwrap_or_default()));
    }
    headers.add("if-none-match", target.if_absent.then(|| "*".to_owned()));
    headers.add("if-match", target.if_match.map(quote));
    headers
}

/// Headers of a PUT of a whole object.
pub(super) fn object_headers(object: &PutObject) -> RequestHeaders {
    let attributes = &object.attributes;
    let mut headers = body_headers(attributes.content_type.as_ref(), &object.digests);
    headers.add_all(attribute_headers(attributes));
    headers.add_all(object.write.headers());
    headers.add("x-amz-tagging", encode_tags(&object.tags));
    headers.add("x-amz-storage-class", object.storage_class.clone());
    headers.add("if-none-match", object.if_absent.then(|| "*".to_owned()));
    headers.add("if-match", object.if_match.as_deref().map(quote));
    headers
}

/// Headers of a new multipart upload.
pub(super) fn upload_headers(upload: &CreateUpload) -> RequestHeaders {
    let mut headers = RequestHeaders::default();
    headers.add("content-type", upload.attributes.content_type.clone());
    headers.add_all(attribute_headers(&upload.attributes));
    headers.add_all(upload.write.headers());
    headers.add("x-amz-tagging", encode_tags(&upload.tags));
    headers.add("x-amz-storage-class", upload.storage_class.clone());
    headers.add("x-amz-checksum-algorithm", upload.checksum.map(|(algorithm, _)| algorithm.name().to_owned()));
    headers.add("x-amz-checksum-type", upload.checksum.map(|(_, kind)| checksum_type(kind).to_owned()));
    headers
}

/// Name of a kind of checksums.
pub(super) fn checksum_type(kind: ChecksumKind) -> &'static str {
    match kind {
        ChecksumKind::FullObject => "FULL_OBJECT",
        ChecksumKind::Composite => "COMPOSITE",
    }
}
