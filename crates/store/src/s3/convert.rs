//! Conversion between the SDK's types and ours: errors, facts, checksums, encodings.

use aws_sdk_s3::error::SdkError;
use aws_sdk_s3::operation::get_object::GetObjectOutput;
use aws_sdk_s3::operation::head_object::HeadObjectOutput;
use aws_sdk_s3::types::{ChecksumType, CompletedPart as SdkCompletedPart, ServerSideEncryption};
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::http::Headers;
use aws_smithy_types::DateTime;
use aws_smithy_types::date_time::Format;
use aws_smithy_xml::decode::{Document, ScopedDecoder, try_data};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, PercentEncode, percent_decode_str, utf8_percent_encode};

use crate::checksum::{Checksum, ChecksumAlgorithm, ChecksumKind};
use crate::properties::{Encryption, ObjectLock};
use crate::types::{Attributes, CompletedPart, ObjectMeta, PartInfo, PartsPage, PinnedObject, Range};

/// Characters that are encoded in a query: all but the unreserved ones of RFC 3986.
const QUERY: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// Characters that are encoded in `bucket/key`, whose slashes stay.
const PATH: &AsciiSet = &QUERY.remove(b'/');

/// The value of `x-amz-copy-source`. Copy tools often fail here, on `+`, `?`, `%` and `#` in keys.
pub(super) fn copy_source(source: &PinnedObject) -> String {
    let mut header = format!("{}/{}", source.bucket, path(&source.key));
    if let Some(version) = &source.version_id {
        header.push_str("?versionId=");
        header.push_str(version);
    }
    header
}

/// Encodes a key for a path. An encoded key must not be encoded again, whatever it looks like.
pub(super) fn path(key: &str) -> PercentEncode<'_> {
    utf8_percent_encode(key, PATH)
}

/// Encodes a value for a query.
pub(super) fn query(value: &str) -> PercentEncode<'_> {
    utf8_percent_encode(value, QUERY)
}

/// The value of `x-amz-tagging`.
pub(super) fn tagging(tags: &[(String, String)]) -> Option<String> {
    let pairs: Vec<String> = tags.iter().map(|(name, value)| format!("{}={}", query(name), query(value))).collect();
    (!pairs.is_empty()).then(|| pairs.join("&"))
}

/// Decodes `encoding-type=url`: a `+` stands for a space, and `%2B` for a plus.
pub(super) fn decode_key(text: &str) -> String {
    percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned()
}

/// Removes the quotes of an `ETag`.
pub(super) fn unquote(etag: Option<&str>) -> String {
    etag.unwrap_or_default().trim_matches('"').to_owned()
}

/// Adds the quotes that an `ETag` has in conditions.
pub(super) fn quote(etag: &str) -> String {
    format!("\"{etag}\"")
}

/// Seconds since the epoch; 0 when the service gave no time.
pub(super) fn seconds(time: Option<&DateTime>) -> f64 {
    time.map_or(0.0, DateTime::as_secs_f64)
}

/// Converts a length. A negative one counts as missing, and a missing one as 0.
pub(super) fn size(length: Option<i64>) -> u64 {
    length.and_then(|n| u64::try_from(n).ok()).unwrap_or_default()
}

/// The checksums in the fields that several SDK outputs share, the strongest first.
macro_rules! checksums {
    ($output:expr) => {{
        use $crate::checksum::ChecksumAlgorithm::{Crc32, Crc32C, Crc64Nvme, Sha1, Sha256};
        let output = &$output;
        [
            (Crc64Nvme, output.checksum_crc64_nvme()),
            (Crc32C, output.checksum_crc32_c()),
            (Crc32, output.checksum_crc32()),
            (Sha256, output.checksum_sha256()),
            (Sha1, output.checksum_sha1()),
        ]
        .into_iter()
        .filter_map(|(algorithm, value)| value.filter(|v| !v.is_empty()).map(|v| (algorithm, v.to_owned())))
    }};
}
pub(super) use checksums;

/// The strongest checksum in the fields of an SDK output.
macro_rules! strongest {
    ($output:expr) => {
        $crate::s3::convert::checksums!($output).next()
    };
}
pub(super) use strongest;

/// Combines the result of [`strongest!`] with the type header into a checksum.
///
/// None for an object of several parts whose checksum has neither a type nor a number of parts. Services disagree about
/// the scope of such a value (moto: the digests of the parts, `S3Mock`: the whole object), so it proves nothing.
/// CRC64NVME always covers the whole object.
pub(super) fn checksum(
    found: Option<(ChecksumAlgorithm, String)>,
    kind: Option<&ChecksumType>,
    etag: Option<&str>,
) -> Option<Checksum> {
    let (algorithm, value) = found?;
    let of_parts = etag.is_some_and(|etag| unquote(Some(etag)).contains('-'));
    if kind.is_none() && of_parts && !value.contains('-') && algorithm != ChecksumAlgorithm::Crc64Nvme {
        return None;
    }
    Some(Checksum::read(algorithm, &value, kind.map(|kind| *kind == ChecksumType::Composite)))
}

/// Converts an algorithm to the SDK's type.
pub(super) fn sdk_algorithm(algorithm: ChecksumAlgorithm) -> aws_sdk_s3::types::ChecksumAlgorithm {
    aws_sdk_s3::types::ChecksumAlgorithm::from(algorithm.name())
}

/// Converts a checksum kind to the SDK's type.
pub(super) fn sdk_kind(kind: ChecksumKind) -> ChecksumType {
    match kind {
        ChecksumKind::FullObject => ChecksumType::FullObject,
        ChecksumKind::Composite => ChecksumType::Composite,
    }
}

/// Converts a part of the list that completes an upload; its checksum goes into the field of the upload's algorithm.
pub(super) fn completed_part(part: &CompletedPart, algorithm: Option<ChecksumAlgorithm>) -> SdkCompletedPart {
    let builder = SdkCompletedPart::builder()
        .part_number(i32::try_from(part.number).unwrap_or(i32::MAX))
        .e_tag(quote(&part.etag));
    let value = part.checksum.clone();
    match algorithm {
        Some(ChecksumAlgorithm::Crc64Nvme) => builder.set_checksum_crc64_nvme(value),
        Some(ChecksumAlgorithm::Crc32C) => builder.set_checksum_crc32_c(value),
        Some(ChecksumAlgorithm::Crc32) => builder.set_checksum_crc32(value),
        Some(ChecksumAlgorithm::Sha256) => builder.set_checksum_sha256(value),
        Some(ChecksumAlgorithm::Sha1) => builder.set_checksum_sha1(value),
        None => builder,
    }
    .build()
}

/// True when an `ETag` under this encryption is no digest of the content.
pub(super) fn opaque_etag(customer_algorithm: Option<&str>, encryption: Option<&ServerSideEncryption>) -> bool {
    opaque_sse(customer_algorithm, encryption.map(ServerSideEncryption::as_str))
}

/// True when an `ETag` is no digest of the content, judged by the values of the headers.
pub(super) fn opaque_sse(customer_algorithm: Option<&str>, encryption: Option<&str>) -> bool {
    let stated = Encryption::from_headers(|name| match name {
        "x-amz-server-side-encryption" => encryption,
        "x-amz-server-side-encryption-customer-algorithm" => customer_algorithm,
        _ => None,
    });
    stated.as_ref().is_some_and(Encryption::hides_digest)
}

/// Reads the encryption from an answer of the SDK.
macro_rules! sdk_encryption {
    ($output:expr) => {{
        let output = &$output;
        $crate::properties::Encryption::from_headers(|name| match name {
            "x-amz-server-side-encryption" => output.server_side_encryption().map(|sse| sse.as_str()),
            "x-amz-server-side-encryption-aws-kms-key-id" => output.ssekms_key_id(),
            "x-amz-server-side-encryption-customer-algorithm" => output.sse_customer_algorithm(),
            _ => None,
        })
    }};
}
pub(super) use sdk_encryption;

/// Facts that the answers to HEAD and GET share. They do not include the archived state: a GET of an archived object
/// fails.
macro_rules! facts {
    ($output:expr) => {{
        let output = $output;
        let own = |value: Option<&str>| value.filter(|v| !v.is_empty()).map(str::to_owned);
        ObjectMeta {
            size: size(output.content_length()),
            etag: unquote(output.e_tag()),
            last_modified: seconds(output.last_modified()),
            changed: 0.0,
            version_id: own(output.version_id()).filter(|id| id != "null"),
            storage_class: own(output.storage_class().map(|class| class.as_str())),
            checksum: checksum(strongest!(output), output.checksum_type(), output.e_tag()),
            shown_checksums: checksums!(output).map(|(algorithm, _)| algorithm).collect(),
            parts_count: output.parts_count().and_then(|n| u32::try_from(n).ok()),
            attributes: Attributes {
                content_type: own(output.content_type()),
                content_encoding: output.content_encoding().and_then(without_transport),
                content_language: own(output.content_language()),
                content_disposition: own(output.content_disposition()),
                cache_control: own(output.cache_control()),
                expires: own(output.expires_string()),
                website_redirect: own(output.website_redirect_location()),
                metadata: output
                    .metadata()
                    .map(|m| m.iter().map(|(k, v)| (k.clone(), v.clone())).collect())
                    .unwrap_or_default(),
            },
            tag_count: output.tag_count().and_then(|n| u32::try_from(n).ok()),
            missing_metadata: output.missing_meta().and_then(|n| u32::try_from(n).ok()).unwrap_or_default(),
            opaque_etag: opaque_etag(output.sse_customer_algorithm(), output.server_side_encryption()),
            archived: false,
            restoring: false,
            encryption: sdk_encryption!(output),
            lock: ObjectLock {
                retention: own(output.object_lock_mode().map(|mode| mode.as_str()))
                    .zip(output.object_lock_retain_until_date().and_then(|until| until.fmt(Format::DateTime).ok())),
                legal_hold: output.object_lock_legal_hold_status().is_some_and(|hold| hold.as_str() == "ON"),
            },
        }
    }};
}

/// Facts of HEAD.
pub(super) fn object_meta(head: &HeadObjectOutput) -> ObjectMeta {
    let mut meta = facts!(head);
    // An archived object can be read only while a restored copy is there.
    let restored = head.restore().is_some_and(|restore| restore.contains("ongoing-request=\"false\""));
    meta.archived = (matches!(meta.storage_class.as_deref(), Some("GLACIER" | "DEEP_ARCHIVE"))
        || head.archive_status().is_some())
        && !restored;
    meta.restoring = head.restore().is_some_and(|restore| restore.contains("ongoing-request=\"true\""));
    meta
}

/// Facts of GET.
pub(super) fn fetched_meta(answer: &GetObjectOutput) -> ObjectMeta {
    facts!(answer)
}

/// Facts of GET, read from the headers.
pub(super) fn facts_of_headers(headers: &Headers) -> ObjectMeta {
    let header = |name: &str| headers.get(name).filter(|value| !value.is_empty());
    let own = |name: &str| header(name).map(str::to_owned);
    let number = |name: &str| header(name).and_then(|value| value.trim().parse().ok());
    let kind = header("x-amz-checksum-type").map(ChecksumType::from);
    let modified = header("last-modified").and_then(|date| DateTime::from_str(date, Format::HttpDate).ok());
    let metadata = headers.iter().filter_map(|(name, value)| {
        let name = name.strip_prefix("x-amz-meta-").filter(|name| !name.is_empty())?;
        Some((name.to_owned(), value.to_owned()))
    });
    ObjectMeta {
        size: header("content-length").and_then(|length| length.trim().parse().ok()).unwrap_or_default(),
        etag: unquote(headers.get("etag")),
        last_modified: seconds(modified.as_ref()),
        changed: 0.0,
        version_id: own("x-amz-version-id").filter(|id| id != "null"),
        storage_class: own("x-amz-storage-class"),
        checksum: checksum(strongest_of_headers(headers), kind.as_ref(), headers.get("etag")),
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
        opaque_etag: opaque_sse(
            headers.get("x-amz-server-side-encryption-customer-algorithm"),
            headers.get("x-amz-server-side-encryption"),
        ),
        archived: false,
        restoring: false,
        encryption: Encryption::from_headers(|name| headers.get(name)),
        lock: ObjectLock::from_headers(|name| headers.get(name)),
    }
}

/// Returns the strongest checksum in the headers, like [`strongest!`].
pub(super) fn strongest_of_headers(headers: &Headers) -> Option<(ChecksumAlgorithm, String)> {
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
pub(super) fn answers_range(range: Range, content_range: Option<&str>, length: u64) -> Option<u64> {
    let Some(declared) = content_range else { return (length == range.len()).then_some(range.last + 1) };
    let (span, whole) = declared.trim().strip_prefix("bytes")?.trim_start().split_once('/')?;
    let (first, last) = span.split_once('-')?;
    let same = first.trim().parse() == Ok(range.first) && last.trim().parse() == Ok(range.last);
    (same && length == range.len()).then(|| whole.trim().parse().unwrap_or(range.last + 1))
}

/// Root elements of successes, for requests that differ from others by their query alone. A service that does not know
/// the query answers the other request: GET of the object, or a listing.
pub(super) const SUB_RESOURCES: [(&str, &str); 3] = [
    ("GetObjectTagging", "Tagging"),
    ("ListMultipartUploads", "ListMultipartUploadsResult"),
    ("GetBucketEncryption", "ServerSideEncryptionConfiguration"),
];

/// Describes a complete body that does not answer a request of [`SUB_RESOURCES`]. None: the body answers it, or the
/// operation is not one of them.
pub(super) fn other_answer(operation: &str, body: &[u8]) -> Option<String> {
    let (_, element) = SUB_RESOURCES.into_iter().find(|(known, _)| *known == operation)?;
    let mut document = Document::try_from(body).ok();
    let root = document.as_mut().and_then(|document| document.root_element().ok());
    match root.as_ref().map(|root| root.start_el().local()) {
        Some(root) if root == element => None,
        Some(root) => Some(format!("the answer holds {root} where {element} belongs")),
        None => Some(format!("the answer is no {element}")),
    }
}

/// Returns the document of a success whose root has a name that the SDK does not accept: rclone begins uploads with
/// `InitiateMultipartUpload`, moto lists parts in a `ListPartsResponse`.
pub(super) fn of_other_root<E>(error: &SdkError<E, HttpResponse>, roots: &[&str]) -> Option<Vec<u8>> {
    let raw = error.raw_response().filter(|raw| raw.status().is_success())?;
    let body = raw.body().bytes()?;
    let mut document = Document::try_from(body).ok()?;
    let root = document.root_element().ok()?;
    roots.contains(&root.start_el().local()).then(|| body.to_vec())
}

/// The upload id in a document of [`of_other_root`].
pub(super) fn upload_id_of(body: &[u8]) -> Option<String> {
    let mut document = Document::try_from(body).ok()?;
    let mut root = document.root_element().ok()?;
    while let Some(mut tag) = root.next_tag() {
        if tag.start_el().local() == "UploadId" {
            return try_data(&mut tag).ok().map(std::borrow::Cow::into_owned);
        }
    }
    None
}

/// The parts in a document of [`of_other_root`].
pub(super) fn parts_of(body: &[u8]) -> Option<PartsPage> {
    let mut document = Document::try_from(body).ok()?;
    let mut root = document.root_element().ok()?;
    let (mut parts, mut more) = (Vec::new(), false);
    while let Some(mut tag) = root.next_tag() {
        match tag.start_el().local() {
            "IsTruncated" => more = try_data(&mut tag).ok()?.trim() == "true",
            "Part" => parts.push(part_of(&mut tag)?),
            _ => {}
        }
    }
    let next = if more { parts.last().map(|part: &PartInfo| part.number) } else { None };
    Some(PartsPage { parts, next })
}

fn part_of(part: &mut ScopedDecoder<'_, '_>) -> Option<PartInfo> {
    let mut found = PartInfo { number: 0, size: 0, etag: String::new(), checksum: None };
    while let Some(mut tag) = part.next_tag() {
        let name = tag.start_el().local().to_owned();
        let value = try_data(&mut tag).ok()?.into_owned();
        match name.as_str() {
            "PartNumber" => found.number = value.trim().parse().ok()?,
            "Size" => found.size = value.trim().parse().ok()?,
            "ETag" => found.etag = unquote(Some(&value)),
            _ => {}
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copy_source_encodes_all_but_unreserved_and_slashes() {
        let source = PinnedObject {
            bucket: "b".into(),
            key: "a//b/../c d+e?f%g#h&i=j~k_l-m.n\u{fc}\n".into(),
            version_id: Some("v.1_-".into()),
            if_match: None,
            size: 0,
        };

        assert_eq!(copy_source(&source), "b/a//b/../c%20d%2Be%3Ff%25g%23h%26i%3Dj~k_l-m.n%C3%BC%0A?versionId=v.1_-");
    }

    #[test]
    fn tags_are_encoded_as_a_query() {
        let tags = [("a b".to_owned(), "c&d=e+f/\u{fc}".to_owned()), ("x".to_owned(), String::new())];

        assert_eq!(tagging(&tags).unwrap(), "a%20b=c%26d%3De%2Bf%2F%C3%BC&x=");
        assert_eq!(tagging(&[]), None);
    }

    #[test]
    fn a_plus_in_a_listing_is_a_space() {
        assert_eq!(decode_key("a+b%20c%2Bd%0Ae%C3%BC"), "a b c+d\ne\u{fc}");
    }

    #[test]
    fn only_the_range_that_was_asked_for_answers_it() {
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
            assert_eq!(answers_range(range, content_range, length), whole, "{content_range:?}, {length} bytes");
        }
    }

    proptest::proptest! {
        #[test]
        fn a_copy_source_decodes_back_to_its_key(key: String, version in "[A-Za-z0-9._-]{0,32}") {
            let version_id = Some(version.clone()).filter(|version| !version.is_empty());
            let source = PinnedObject { bucket: "b".into(), key: key.clone(), version_id, if_match: None, size: 0 };
            let header = copy_source(&source);
            // As a service reads it: the first question mark ends the path, and there a plus is a plus.
            let (path, query) = header.split_once('?').unwrap_or((&header, ""));

            let read = percent_decode_str(path).decode_utf8().unwrap();
            assert_eq!(read.strip_prefix("b/"), Some(key.as_str()));
            assert_eq!(query.strip_prefix("versionId=").unwrap_or_default(), version);
            assert!(header.bytes().all(|byte| byte.is_ascii_graphic()));
        }

        #[test]
        fn an_encoded_key_of_a_listing_is_read_back(key: String) {
            let encoded = utf8_percent_encode(&key, QUERY).to_string();

            assert_eq!(decode_key(&encoded), key);
            assert_eq!(decode_key(&encoded.replace("%20", "+")), key);
        }

        #[test]
        fn tags_are_read_back_from_their_header(tags: Vec<(String, String)>) {
            let read = tagging(&tags).unwrap_or_default();
            let read = read.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
                let (name, value) = pair.split_once('=').unwrap();
                (decode_key(name), decode_key(value))
            });

            assert_eq!(read.collect::<Vec<_>>(), tags);
        }
    }
}
