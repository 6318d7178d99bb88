//! Metadata of an object, from the headers of a reply.

use aws_smithy_runtime_api::http::Headers;
use aws_smithy_types::DateTime;
use aws_smithy_types::date_time::Format;

use super::encoding::unquote;
use crate::checksum::{Checksum, ChecksumAlgorithm};
use crate::properties::{Encryption, ObjectLock};
use crate::types::{Attributes, ObjectMeta, Range};

/// Services, by `Server`, whose copies of whole objects refer to the same data, or copy it piece by piece, and have the
/// `ETag` of the source.
const COPIES_KEEP_ETAG: [&str; 2] = ["SeaweedFS", "Ceph Object Gateway"];

/// Combines a value with its type, if that is stated, into a checksum.
///
/// None for an object of several parts whose checksum has neither a type nor a number of parts. Services disagree about
/// the scope of such a value (moto: the digests of the parts, `S3Mock`: the whole object), so it cannot be compared.
/// CRC64NVME always covers the whole object.
pub(super) fn stored_checksum(
    found: Option<(ChecksumAlgorithm, String)>,
    kind: Option<&str>,
    etag: Option<&str>,
) -> Option<Checksum> {
    let (algorithm, value) = found?;
    let of_parts = etag.is_some_and(|etag| unquote(Some(etag)).contains('-'));
    if kind.is_none() && of_parts && !value.contains('-') && algorithm != ChecksumAlgorithm::Crc64Nvme {
        return None;
    }
    Some(Checksum::from_header(algorithm, &value, kind.map(|kind| kind == "COMPOSITE")))
}

/// True when the `ETag` of the written object is no digest of its content.
pub(super) fn has_opaque_etag(headers: &Headers) -> bool {
    Encryption::from_headers(|name| headers.get(name)).as_ref().is_some_and(Encryption::has_opaque_etag)
}

/// Metadata in the reply to HEAD.
pub(super) fn head_meta(headers: &Headers) -> ObjectMeta {
    let mut meta = object_meta(headers);
    let restore = headers.get("x-amz-restore").unwrap_or_default();
    // An archived object can be read only while a restored copy is there.
    let is_archive = matches!(meta.storage_class.as_deref(), Some("GLACIER" | "DEEP_ARCHIVE"))
        || headers.get("x-amz-archive-status").is_some();
    meta.archived = is_archive && !restore.contains("ongoing-request=\"false\"");
    meta.restoring = restore.contains("ongoing-request=\"true\"");
    meta
}

/// Metadata in the replies to HEAD and GET, but for the archived state: a GET of an archived object fails.
pub(super) fn object_meta(headers: &Headers) -> ObjectMeta {
    let header = |name: &str| headers.get(name).filter(|value| !value.is_empty());
    let own = |name: &str| header(name).map(str::to_owned);
    let number = |name: &str| header(name).and_then(|value| value.trim().parse().ok());
    let modified = header("last-modified").and_then(|date| DateTime::from_str(date, Format::HttpDate).ok());
    let metadata = headers.iter().filter_map(|(name, value)| {
        let name = name.strip_prefix("x-amz-meta-").filter(|name| !name.is_empty())?;
        Some((name.to_owned(), value.to_owned()))
    });
    ObjectMeta {
        size: header("content-length").and_then(|length| length.trim().parse().ok()).unwrap_or_default(),
        etag: unquote(headers.get("etag")),
        last_modified: modified.as_ref().map_or(0.0, DateTime::as_secs_f64),
        changed: 0.0,
        version_id: own("x-amz-version-id").filter(|id| id != "null"),
        storage_class: own("x-amz-storage-class"),
        checksum: stored_checksum(strongest_checksum(headers), header("x-amz-checksum-type"), headers.get("etag")),
        shown_checksums: ChecksumAlgorithm::ALL
            .into_iter()
            .filter(|sum| header(checksum_header(*sum)).is_some())
            .collect(),
        parts_count: number("x-amz-mp-parts-count"),
        attributes: Attributes {
            content_type: own("content-type"),
            content_encoding: header("content-encoding").and_then(without_transport),
            content_language: own("content-language"),
            content_disposition: own("content-disposition"),
            cache_control: own("cache-control"),
            expires: own("expires"),
            website_redirect: own("x-amz-website-redirect-location"),
            metadata: metadata.collect(),
        },
        tag_count: number("x-amz-tagging-count"),
        missing_metadata: number("x-amz-missing-meta").unwrap_or_default(),
        opaque_etag: has_opaque_etag(headers),
        copies_keep_etag: header("server").is_some_and(|name| COPIES_KEEP_ETAG.iter().any(|one| name.starts_with(one))),
        archived: false,
        restoring: false,
        encryption: Encryption::from_headers(|name| headers.get(name)),
        lock: ObjectLock::from_headers(|name| headers.get(name)),
    }
}

/// The strongest checksum in the headers.
pub(super) fn strongest_checksum(headers: &Headers) -> Option<(ChecksumAlgorithm, String)> {
    let header = |name: &str| headers.get(name).filter(|value| !value.is_empty()).map(str::to_owned);
    ChecksumAlgorithm::ALL.into_iter().find_map(|sum| Some((sum, header(checksum_header(sum))?)))
}

/// Name of the header with a checksum of this algorithm, in requests and answers.
pub(super) fn checksum_header(algorithm: ChecksumAlgorithm) -> &'static str {
    match algorithm {
        ChecksumAlgorithm::Crc64Nvme => "x-amz-checksum-crc64nvme",
        ChecksumAlgorithm::Crc32C => "x-amz-checksum-crc32c",
        ChecksumAlgorithm::Crc32 => "x-amz-checksum-crc32",
        ChecksumAlgorithm::Sha256 => "x-amz-checksum-sha256",
        ChecksumAlgorithm::Sha1 => "x-amz-checksum-sha1",
    }
}

/// Removes the transport token, which some services store by mistake: it does not describe the object.
fn without_transport(encoding: &str) -> Option<String> {
    let kept: Vec<&str> = encoding.split(',').map(str::trim).filter(|e| !e.is_empty() && *e != "aws-chunked").collect();
    (!kept.is_empty()).then(|| kept.join(", "))
}

/// Returns the size of the whole object if an answer matches the requested range, else None. Without `Content-Range`
/// only the length can match: a body as long as the range is taken for the range, although it may be a whole object of
/// that length.
pub(super) fn check_content_range(range: Range, content_range: Option<&str>, length: u64) -> Option<u64> {
    let Some(declared) = content_range else { return (length == range.len()).then_some(range.last + 1) };
    let (span, whole) = declared.trim().strip_prefix("bytes")?.trim_start().split_once('/')?;
    let (first, last) = span.split_once('-')?;
    let same = first.trim().parse() == Ok(range.first) && last.trim().parse() == Ok(range.last);
    (same && length == range.len()).then(|| whole.trim().parse().unwrap_or(range.last + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_requested_range_answers_it() {
        let range = Range { first: 10, last: 19 };
        for (content_range, length, whole) in [
            (Some("bytes 10-19/100"), 10, Some(100)),
            (Some("bytes 10-19/*"), 10, Some(20)),
            (Some("bytes 0-9/100"), 10, None),
            (Some("bytes 10-19/100"), 100, None),
            (Some("bytes 10-29/100"), 20, None),
            (Some("10-19"), 10, None),
            (None, 10, Some(20)),
            (None, 100, None),
        ] {
            assert_eq!(check_content_range(range, content_range, length), whole, "{content_range:?}, {length} bytes");
        }
    }
}
