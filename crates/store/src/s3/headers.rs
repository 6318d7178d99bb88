//! Headers of requests about objects: their source, their body, their attributes.

use super::convert::{checksum_header, copy_source, quote, tagging};
use super::fast_path::RequestHeaders;
use crate::properties::WriteOptions;
use crate::types::{Attributes, CopyTarget, Digests, PinnedObject, PutObject};

/// The content type of bytes without a known type.
const OCTET_STREAM: &str = "application/octet-stream";

/// Headers about the source, for copies of objects and of parts.
pub(super) fn copied_from(source: &PinnedObject) -> RequestHeaders {
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
    if target.if_absent {
        add("if-none-match", "*".to_owned());
    }
    if let Some(etag) = target.if_match {
        add("if-match", quote(etag));
    }
    headers.extend(target.attributes.map(attribute_headers).unwrap_or_default());
    headers
}

/// Headers of a PUT of a whole object.
pub(super) fn object_headers(object: &PutObject) -> RequestHeaders {
    let attributes = &object.attributes;
    let mut headers = body_headers(attributes.content_type.as_ref(), &object.digests);
    headers.add_all(attribute_headers(attributes));
    headers.add_all(object.write.headers());
    headers.add("x-amz-tagging", tagging(&object.tags));
    headers.add("x-amz-storage-class", object.storage_class.clone());
    headers.add("if-none-match", object.if_absent.then(|| "*".to_owned()));
    headers.add("if-match", object.if_match.as_deref().map(quote));
    headers
}
