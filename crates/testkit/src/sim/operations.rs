//! Effects of each S3 operation on the state, and its cost.

mod buckets;
mod copies;
mod objects;
mod tags;
mod uploads;

use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use super::bucket::{Attributes, FixedSum, Object, Sum};
use super::content::DiscardedBodyError;
use super::model::{Load, ModelWork};
use super::reply::{ErrorReply, Reply, ReplyResult};
use super::state::{SimRequest, SimState};

/// Load and work of a request, for the model; a request whose object is missing counts as empty.
pub(super) fn cost(state: &SimState, request: &SimRequest, body_length: u64) -> (Load, ModelWork) {
    let size = |bucket: &str, key: &str| state.buckets.get(bucket).and_then(|bucket| bucket.size(key));
    match request.call.operation {
        "GetObject" => {
            let bytes = size(request.bucket(), request.key()).map_or(0, |size| objects::expected_length(request, size));
            (Load::Read, ModelWork::Get { bytes })
        }
        "ListObjects" | "ListObjectsV2" | "ListMultipartUploads" | "ListParts" => (Load::Read, ModelWork::List),
        "PutObject" | "UploadPart" => (Load::Write, ModelWork::Put { bytes: body_length }),
        "CopyObject" | "UploadPartCopy" => {
            let source = request.header("x-amz-copy-source").and_then(|raw| copies::CopySource::parse(raw).ok());
            let bytes = source.and_then(|source| size(&source.bucket, &source.key)).unwrap_or(0);
            if request.call.operation == "CopyObject" {
                return (Load::Write, ModelWork::Copy { bytes });
            }
            let part = request.call.range.as_deref().and_then(copies::closed_range);
            (Load::Write, ModelWork::PartCopy { bytes: part.map_or(bytes, |(first, last)| last - first + 1) })
        }
        "CreateBucket"
        | "DeleteBucket"
        | "CreateMultipartUpload"
        | "CompleteMultipartUpload"
        | "AbortMultipartUpload"
        | "DeleteObject"
        | "DeleteObjects"
        | "PutObjectTagging"
        | "DeleteObjectTagging" => (Load::Write, ModelWork::Small),
        _ => (Load::Read, ModelWork::Small),
    }
}

/// Type of a request's body: none, a document, or the bytes of an object or part.
pub(super) enum Body {
    None,
    Document,
    Object,
}

pub(super) fn body_of(operation: &str) -> Body {
    match operation {
        "PutObject" | "UploadPart" => Body::Object,
        "CompleteMultipartUpload" | "DeleteObjects" | "PutObjectTagging" | "CreateBucket" => Body::Document,
        _ => Body::None,
    }
}

/// Carries a request out.
pub(super) fn perform(state: &mut SimState, request: &SimRequest) -> ReplyResult {
    if let Some(header) = request.headers.keys().find(|name| is_unknown(name.as_str())) {
        return Err(ErrorReply::unknown(format_args!("the header {header}")));
    }
    match request.call.operation {
        "ListBuckets" => Ok(buckets::list_buckets(state)),
        "HeadBucket" => buckets::head_bucket(state, request),
        "CreateBucket" => buckets::create_bucket(state, request),
        "DeleteBucket" => buckets::delete_bucket(state, request),
        "GetBucketLocation" => buckets::location(state, request),
        "GetBucketVersioning" => buckets::versioning(state, request),
        "GetBucketEncryption" => buckets::encryption(state, request),
        "ListObjectsV2" => buckets::list_v2(state, request),
        "ListObjects" => buckets::list_v1(state, request),
        "HeadObject" | "GetObject" => objects::get(state, request),
        "GetObjectAttributes" => objects::attributes(state, request),
        "PutObject" => objects::put(state, request),
        "DeleteObject" => objects::delete(state, request),
        "DeleteObjects" => objects::delete_many(state, request),
        "CopyObject" => copies::copy(state, request),
        "UploadPartCopy" => copies::copy_part(state, request),
        "CreateMultipartUpload" => uploads::create(state, request),
        "UploadPart" => uploads::put_part(state, request),
        "CompleteMultipartUpload" => uploads::complete(state, request),
        "AbortMultipartUpload" => uploads::abort(state, request),
        "ListParts" => uploads::list_parts(state, request),
        "ListMultipartUploads" => uploads::list(state, request),
        "GetObjectTagging" => tags::get(state, request),
        "PutObjectTagging" => tags::put(state, request),
        "DeleteObjectTagging" => tags::delete(state, request),
        other => {
            let query = request.query.as_deref().map_or_else(String::new, |query| format!(" (?{query})"));
            Err(ErrorReply::unknown(format_args!("the operation {other}{query}")))
        }
    }
}

/// Headers that would change the operation in ways that are not modelled.
fn is_unknown(name: &str) -> bool {
    name.starts_with("x-amz-server-side-encryption-customer")
        || name.starts_with("x-amz-copy-source-server-side-encryption")
        || name.starts_with("x-amz-object-lock")
        || name.starts_with("x-amz-grant")
        || matches!(
            name,
            "if-modified-since"
                | "if-unmodified-since"
                | "x-amz-copy-source-if-modified-since"
                | "x-amz-copy-source-if-unmodified-since"
                | "x-amz-write-offset-bytes"
        )
}

fn unquote(etag: &str) -> &str {
    etag.trim().trim_matches('"')
}

/// Returns true when a condition such as `If-Match` names this `ETag`.
fn names(condition: &str, etag: &str) -> bool {
    condition.trim() == "*" || condition.split(',').any(|one| unquote(one.trim().trim_start_matches("W/")) == etag)
}

fn decode(text: &str) -> Result<String, ErrorReply> {
    let decoded = percent_decode_str(text).decode_utf8();
    decoded.map(std::borrow::Cow::into_owned).map_err(|_| ErrorReply::invalid("A name is not UTF-8."))
}

/// Encodes a text as `encoding-type=url` requires for keys.
fn encode(text: &str) -> String {
    const KEPT: &percent_encoding::AsciiSet =
        &NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'_').remove(b'.').remove(b'~');
    utf8_percent_encode(text, KEPT).to_string()
}

/// The checksum of an object as headers or elements want it: name, value and type.
struct ChecksumHeader {
    header: &'static str,
    element: &'static str,
    value: String,
    kind: &'static str,
}

fn checksum_header(object: &Object) -> Result<Option<ChecksumHeader>, ErrorReply> {
    let (value, text, kind) = match &object.sum {
        Sum::None => return Ok(None),
        Sum::Full(algorithm) => {
            let value = algorithm.of(&object.content).map_err(|DiscardedBodyError| ErrorReply::not_kept())?;
            (value, value.base64(), "FULL_OBJECT")
        }
        Sum::Fixed(fixed) => {
            (fixed.value, fixed.text(), if fixed.parts.is_empty() { "FULL_OBJECT" } else { "COMPOSITE" })
        }
    };
    let algorithm = value.algorithm();
    Ok(Some(ChecksumHeader { header: algorithm.header(), element: algorithm.element(), value: text, kind }))
}

fn set_checksum(reply: &mut Reply, header: Option<ChecksumHeader>) {
    if let Some(checksum) = header {
        reply.set(checksum.header, &checksum.value);
        reply.set("x-amz-checksum-type", checksum.kind);
    }
}

fn full(value: super::checksum::Value) -> Sum {
    match value.algorithm() {
        // Not stored: computed from the extents, at a negligible cost.
        algorithm @ super::checksum::Algorithm::Crc(_) => Sum::Full(algorithm),
        super::checksum::Algorithm::Sha256 => Sum::Fixed(FixedSum { value, parts: Vec::new() }.into()),
    }
}

/// Reads the properties of an object from a request's headers.
fn attributes_of(request: &SimRequest) -> Result<Attributes, ErrorReply> {
    const CONTENT: [&str; 7] = [
        "content-type",
        "content-language",
        "content-disposition",
        "cache-control",
        "expires",
        "x-amz-website-redirect-location",
        "content-encoding",
    ];
    let mut headers = Vec::new();
    for name in CONTENT {
        if let Some(value) = request.header(name) {
            // How the body came is not how the object is.
            let value = if name == "content-encoding" {
                let kept: Vec<&str> =
                    value.split(',').map(str::trim).filter(|coding| *coding != "aws-chunked").collect();
                kept.join(",")
            } else {
                value.to_owned()
            };
            if !value.is_empty() {
                headers.push((name.to_owned(), value));
            }
        }
    }
    let mut metadata = 0;
    for (name, value) in &request.headers {
        if let Some(short) = name.as_str().strip_prefix("x-amz-meta-") {
            let value = String::from_utf8_lossy(value.as_bytes()).into_owned();
            metadata += short.len() + value.len();
            headers.push((name.as_str().to_owned(), value));
        }
    }
    if metadata > 2_048 {
        return Err(ErrorReply::new(
            400,
            "MetadataTooLarge",
            "Your metadata headers exceed the maximum allowed metadata size.",
        ));
    }
    let kms = request.header("x-amz-server-side-encryption").is_some_and(|how| how.starts_with("aws:kms"));
    let key = request.header("x-amz-server-side-encryption-aws-kms-key-id").unwrap_or("alias/aws/s3");
    Ok(Attributes {
        headers,
        tags: match request.header("x-amz-tagging") {
            Some(raw) => tags::parse_header(raw)?,
            None => Vec::new(),
        },
        storage_class: request.header("x-amz-storage-class").filter(|class| *class != "STANDARD").map(str::to_owned),
        kms_key: kms.then(|| key.to_owned()),
    })
}

/// Checks `If-Match` and `If-None-Match` of a write against the present object.
fn check_target(state: &mut SimState, request: &SimRequest) -> Result<(), ErrorReply> {
    let (wanted, unwanted) = (request.header("if-match"), request.header("if-none-match"));
    if wanted.is_none() && unwanted.is_none() {
        return Ok(());
    }
    if state.lacks(super::scenario::Capability::Conditions) {
        return Err(ErrorReply::unknown("conditions on writes"));
    }
    let there = state.bucket(request)?.get(request.key()).map(|object| object.etag.text());
    if let Some(condition) = unwanted
        && there.as_deref().is_some_and(|etag| names(condition, etag))
    {
        return Err(ErrorReply::precondition("If-None-Match"));
    }
    match (wanted, there) {
        (Some(_), None) => Err(ErrorReply::no_key(request.key())),
        (Some(condition), Some(etag)) if !names(condition, &etag) => Err(ErrorReply::precondition("If-Match")),
        _ => Ok(()),
    }
}
