//! Multipart uploads.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::SystemTime;

use hyper::StatusCode;

use super::super::bucket::{Etag, FixedSum, Layout, Sum};
use super::super::checksum::{Algorithm, Value};
use super::super::content::Content;
use super::super::intake::ReceivedBody;
use super::super::reply::{ErrorReply, Reply, ReplyResult};
use super::super::scenario::{Capability, mixed};
use super::super::state::{Part, SimRequest, SimState, Upload};
use super::super::xml::{self, Xml};
use super::objects::set_encryption;
use super::{attributes_of, check_target, checksum_header, encode, full, unquote};
use crate::date::iso;

const LARGEST_PART: u64 = 5 << 30;
const MOST_PARTS: u32 = 10_000;
const LONGEST_PAGE: usize = 1_000;

/// `x-amz-checksum-algorithm`, or the name by which PUT calls it.
pub(super) fn algorithm(request: &SimRequest) -> Result<Option<Algorithm>, ErrorReply> {
    let name = request.header("x-amz-checksum-algorithm").or_else(|| request.header("x-amz-sdk-checksum-algorithm"));
    match name {
        None => Ok(None),
        Some(name) => match Algorithm::parse(name) {
            Some(algorithm) => Ok(Some(algorithm)),
            None => Err(ErrorReply::unknown(format_args!("the checksum algorithm {name}"))),
        },
    }
}

fn id_text(id: u64) -> String {
    let mut text = String::from("s3sim-");
    let _ = write!(text, "{id:016x}");
    text
}

fn id_of(text: &str) -> Option<u64> {
    let digits = text.strip_prefix("s3sim-").filter(|digits| digits.len() == 16)?;
    u64::from_str_radix(digits, 16).ok()
}

/// The upload of a request.
fn find(state: &SimState, request: &SimRequest) -> Result<u64, ErrorReply> {
    let text = request.call.upload_id.as_deref().unwrap_or_default();
    let id = id_of(text).ok_or_else(|| ErrorReply::no_upload(text))?;
    match state.uploads.get(&id) {
        Some(upload) if upload.bucket == request.bucket() && upload.key == request.key() => Ok(id),
        _ => Err(ErrorReply::no_upload(text)),
    }
}

/// The upload and part number of a request.
pub(super) fn find_part(state: &SimState, request: &SimRequest) -> Result<(u64, u32), ErrorReply> {
    let number = request.call.part_number.filter(|number| (1..=MOST_PARTS).contains(number));
    let number =
        number.ok_or_else(|| ErrorReply::invalid("Part number must be an integer between 1 and 10000, inclusive"))?;
    Ok((find(state, request)?, number))
}

pub(super) fn check_part_size(length: u64) -> Result<(), ErrorReply> {
    if length <= LARGEST_PART {
        return Ok(());
    }
    Err(ErrorReply::new(400, "EntityTooLarge", "Your proposed upload exceeds the maximum allowed size"))
}

pub(super) fn store_part(state: &mut SimState, id: u64, number: u32, part: Part) {
    if let Some(upload) = state.uploads.get_mut(&id)
        && let Some(before) = upload.parts.insert(number, part)
    {
        state.counters.wasted.parts_written_again += before.content.length();
    }
}

pub(super) fn create(state: &mut SimState, request: &SimRequest) -> ReplyResult {
    state.bucket(request)?;
    let attributes = attributes_of(request)?;
    let mut checksum = None;
    if !state.lacks(Capability::Checksums)
        && let Some(algorithm) = algorithm(request)?
    {
        let composite = match (request.header("x-amz-checksum-type"), algorithm) {
            (Some("FULL_OBJECT"), Algorithm::Crc(_)) => false,
            (Some("COMPOSITE"), algorithm) if algorithm != Algorithm::ALL[0] => true,
            (None, algorithm) => algorithm != Algorithm::ALL[0],
            (Some(kind), algorithm) => {
                let name = algorithm.name();
                return Err(ErrorReply::new(
                    400,
                    "InvalidRequest",
                    format!("The {kind} checksum type cannot be used with the {name} checksum algorithm."),
                ));
            }
        };
        checksum = Some((algorithm, composite));
    }
    let number = state.number();
    let id = mixed(state.options.seed, number);
    let attributes = state.share(attributes);
    let upload = Upload {
        bucket: request.bucket().to_owned(),
        key: request.key().to_owned(),
        attributes: Arc::clone(&attributes),
        checksum,
        parts: BTreeMap::new(),
        started: SystemTime::now(),
    };
    state.uploads.insert(id, upload);
    let mut xml = Xml::document("InitiateMultipartUploadResult");
    xml.element("Bucket", request.bucket()).element("Key", request.key()).element("UploadId", &id_text(id));
    let mut reply = Reply::xml(xml.end("InitiateMultipartUploadResult"));
    set_encryption(&mut reply, &attributes);
    if let Some((algorithm, composite)) = checksum {
        reply.set("x-amz-checksum-algorithm", algorithm.name());
        reply.set("x-amz-checksum-type", kind(composite));
    }
    Ok(reply)
}

fn kind(composite: bool) -> &'static str {
    if composite { "COMPOSITE" } else { "FULL_OBJECT" }
}

pub(super) fn put_part(state: &mut SimState, request: &SimRequest) -> ReplyResult {
    let ReceivedBody::Object(sent) = &request.received else { return Err(ErrorReply::malformed_xml()) };
    let (id, number) = find_part(state, request)?;
    let length = sent.content.length();
    check_part_size(length)?;
    let Some(upload) = state.uploads.get(&id) else { return Err(ErrorReply::no_upload("")) };
    let (attributes, checksum) = (Arc::clone(&upload.attributes), upload.checksum);
    let value = match (checksum, sent.value) {
        (Some((algorithm, _)), Some(value)) if value.algorithm() != algorithm => {
            return Err(ErrorReply::new(
                400,
                "InvalidRequest",
                format!("Checksum Type mismatch occurred, expected checksum Type: {}", algorithm.name()),
            ));
        }
        (Some((algorithm, _)), None) => Some(algorithm.of(&sent.content).map_err(|_| ErrorReply::not_kept())?),
        (_, value) => value,
    };
    let digest = sent.md5.unwrap_or_else(|| sent.content.opaque_digest());
    let digest = state.veiled(digest, &attributes);
    let part = Part { content: sent.content.clone(), digest, value, modified: SystemTime::now() };
    state.counters.bytes_received += length;
    store_part(state, id, number, part);
    let mut reply = Reply::empty(StatusCode::OK).with_etag(&Etag { digest, parts: 0 }.text());
    set_encryption(&mut reply, &attributes);
    if let Some(value) = value {
        reply.set(value.algorithm().header(), &value.base64());
    }
    Ok(reply)
}

/// A part that the client names to complete an upload.
struct NamedPart {
    number: u32,
    etag: String,
    values: Vec<(String, String)>,
}

fn parts_of(request: &SimRequest) -> Result<Vec<NamedPart>, ErrorReply> {
    let ReceivedBody::Document(body) = &request.received else { return Err(ErrorReply::malformed_xml()) };
    let text = std::str::from_utf8(body).map_err(|_| ErrorReply::malformed_xml())?;
    let items = xml::items(text, "Part").map_err(|()| ErrorReply::malformed_xml())?;
    let mut parts = Vec::with_capacity(items.len());
    for leaves in items {
        let (mut number, mut etag, mut values) = (None, None, Vec::new());
        for (name, value) in leaves {
            match name.as_str() {
                "PartNumber" => number = value.trim().parse().ok(),
                "ETag" => etag = Some(unquote(&value).to_owned()),
                _ if name.starts_with("Checksum") => values.push((name, value)),
                _ => return Err(ErrorReply::malformed_xml()),
            }
        }
        let (Some(number), Some(etag)) = (number, etag) else { return Err(ErrorReply::malformed_xml()) };
        parts.push(NamedPart { number, etag, values });
    }
    if parts.is_empty() { Err(ErrorReply::malformed_xml()) } else { Ok(parts) }
}

/// The parts that were meant, each as it was named.
fn choose_parts<'a>(upload: &'a Upload, named: &[NamedPart], minimum: u64) -> Result<Vec<&'a Part>, ErrorReply> {
    if named.windows(2).any(|pair| pair[0].number >= pair[1].number) {
        return Err(ErrorReply::new(400, "InvalidPartOrder", "The list of parts was not in ascending order."));
    }
    if upload.checksum.is_some()
        && !named.iter().map(|part| part.number).eq(1..=u32::try_from(named.len()).unwrap_or(0))
    {
        return Err(ErrorReply::new(
            400,
            "InvalidPartOrder",
            "With checksums, part numbers must begin at 1 and have no gaps.",
        ));
    }
    let mut parts = Vec::with_capacity(named.len());
    for wanted in named {
        let invalid = || {
            ErrorReply::new(
                400,
                "InvalidPart",
                "One or more of the specified parts could not be found or was another one.",
            )
            .element("PartNumber", wanted.number.to_string())
            .element("ETag", wanted.etag.clone())
        };
        let part = upload.parts.get(&wanted.number).ok_or_else(invalid)?;
        if (Etag { digest: part.digest, parts: 0 }).text() != wanted.etag {
            return Err(invalid());
        }
        for (element, text) in &wanted.values {
            let known = part.value.filter(|value| value.algorithm().element() == *element);
            if known.is_none_or(|value| value.base64() != *text) {
                return Err(invalid());
            }
        }
        if let Some((algorithm, true)) = upload.checksum
            && wanted.values.is_empty()
        {
            let name = algorithm.name().to_ascii_lowercase();
            return Err(ErrorReply::new(
                400,
                "InvalidRequest",
                format!(
                    "The upload was created using a {name} checksum. The complete request must include the checksum for each part."
                ),
            ));
        }
        parts.push(part);
    }
    let short = parts.iter().rev().skip(1).position(|part| part.content.length() < minimum);
    if let Some(short) = short {
        let number = named[parts.len() - 2 - short].number;
        return Err(ErrorReply::new(
            400,
            "EntityTooSmall",
            "Your proposed upload is smaller than the minimum allowed size",
        )
        .element("PartNumber", number.to_string()));
    }
    Ok(parts)
}

pub(super) fn complete(state: &mut SimState, request: &SimRequest) -> ReplyResult {
    let named = parts_of(request)?;
    let id = find(state, request)?;
    check_target(state, request)?;
    let lacks_checksums = state.lacks(Capability::Checksums);
    let Some(upload) = state.uploads.get(&id) else { return Err(ErrorReply::no_upload("")) };
    let parts = choose_parts(upload, &named, state.options.minimum_part.0)?;
    let content = Content::concat(parts.iter().map(|part| &part.content));
    let (size, limit) = (content.length(), state.options.maximum_object.0);
    if size > limit {
        return Err(ErrorReply::new(
            400,
            "EntityTooLarge",
            "Your proposed upload exceeds the maximum allowed object size",
        ));
    }
    if let Some(expected) = request.header("x-amz-mp-object-size")
        && expected.parse() != Ok(size)
    {
        let message = format!(
            "The provided 'x-amz-mp-object-size' header value {expected} does not match what was computed: {size}"
        );
        return Err(ErrorReply::new(400, "InvalidRequest", message));
    }
    let sum = match upload.checksum {
        _ if lacks_checksums => Sum::None,
        None => Sum::Full(Algorithm::ALL[0]),
        Some((algorithm, true)) => {
            let values: Vec<Value> = parts.iter().filter_map(|part| part.value).collect();
            let value = algorithm.composite(values.iter().copied());
            Sum::Fixed(FixedSum { value, parts: values }.into())
        }
        Some((algorithm, false)) => full(algorithm.of(&content).map_err(|_| ErrorReply::not_kept())?),
    };
    let digests = Etag::composite(parts.iter().map(|part| part.digest));
    let sizes: Vec<u64> = parts.iter().map(|part| part.content.length()).collect();
    let all: u64 = upload.parts.values().map(|part| part.content.length()).sum();
    let attributes = Arc::clone(&upload.attributes);
    let object = SimState::made(content, digests, sum, Layout::of(&sizes), Arc::clone(&attributes));
    let sum = checksum_header(&object)?;
    for algorithm in Algorithm::ALL.into_iter().filter(|_| !lacks_checksums) {
        let Some(expected) = request.header(algorithm.header()) else { continue };
        let matches = sum.as_ref().is_some_and(|sum| {
            sum.header == algorithm.header() && (sum.value == expected || sum.value.split('-').next() == Some(expected))
        });
        if !matches {
            let name = algorithm.name();
            return Err(ErrorReply::new(
                400,
                "BadDigest",
                format!("The {name} you specified did not match the calculated checksum."),
            ));
        }
    }
    state.uploads.remove(&id);
    state.counters.wasted.parts_thrown_away += all - size;
    state.store(request.bucket(), request.key(), object)?;
    let mut xml = Xml::document("CompleteMultipartUploadResult");
    xml.element("Location", &format!("/{}/{}", request.bucket(), encode(request.key())));
    xml.element("Bucket", request.bucket()).element("Key", request.key()).etag(&digests.text());
    if let Some(sum) = sum {
        xml.element(sum.element, &sum.value).element("ChecksumType", sum.kind);
    }
    let mut reply = Reply::xml(xml.end("CompleteMultipartUploadResult"));
    set_encryption(&mut reply, &attributes);
    Ok(reply)
}

pub(super) fn abort(state: &mut SimState, request: &SimRequest) -> ReplyResult {
    let id = find(state, request)?;
    if let Some(upload) = state.uploads.remove(&id) {
        let bytes: u64 = upload.parts.values().map(|part| part.content.length()).sum();
        state.counters.wasted.parts_thrown_away += bytes;
    }
    Ok(Reply::empty(StatusCode::NO_CONTENT))
}

pub(super) fn list_parts(state: &mut SimState, request: &SimRequest) -> ReplyResult {
    let id = find(state, request)?;
    let Some(upload) = state.uploads.get(&id) else { return Err(ErrorReply::no_upload("")) };
    let query = request.query();
    let number = |name: &str, default: u32| {
        query
            .get(name)
            .filter(|text| !text.is_empty())
            .map_or(Ok(default), str::parse)
            .map_err(|_| ErrorReply::invalid("Not a number"))
    };
    let (after, most) = (number("part-number-marker", 0)?, number("max-parts", 1_000)?);
    let most = usize::try_from(most).unwrap_or(LONGEST_PAGE).min(LONGEST_PAGE);
    let mut rest = upload.parts.range(after.saturating_add(1)..);
    let page: Vec<_> = rest.by_ref().take(most).collect();
    let mut xml = Xml::document("ListPartsResult");
    xml.element("Bucket", request.bucket()).element("Key", request.key()).element("UploadId", &id_text(id));
    xml.number("PartNumberMarker", after).number("MaxParts", most).number("IsTruncated", rest.next().is_some());
    if let Some((last, _)) = page.last() {
        xml.number("NextPartNumberMarker", last);
    }
    if let Some((algorithm, composite)) = upload.checksum {
        xml.element("ChecksumAlgorithm", algorithm.name()).element("ChecksumType", kind(composite));
    }
    xml.element("StorageClass", upload.attributes.storage_class.as_deref().unwrap_or("STANDARD"));
    for (number, part) in page {
        xml.open("Part").number("PartNumber", number).element("LastModified", &iso(part.modified));
        xml.etag(&Etag { digest: part.digest, parts: 0 }.text()).number("Size", part.content.length());
        if let Some(value) = part.value {
            xml.element(value.algorithm().element(), &value.base64());
        }
        xml.close("Part");
    }
    Ok(Reply::xml(xml.end("ListPartsResult")))
}

pub(super) fn list(state: &mut SimState, request: &SimRequest) -> ReplyResult {
    state.bucket(request)?;
    let query = request.query();
    if query.get("delimiter").is_some_and(|delimiter| !delimiter.is_empty()) {
        return Err(ErrorReply::unknown("ListMultipartUploads with a delimiter"));
    }
    let (prefix, url) = (query.get("prefix").unwrap_or_default(), query.get("encoding-type") == Some("url"));
    let name = |text: &str| if url { encode(text) } else { text.to_owned() };
    let (key_marker, id_marker) =
        (query.get("key-marker").unwrap_or_default(), query.get("upload-id-marker").unwrap_or_default());
    let most: usize = match query.get("max-uploads") {
        None | Some("") => LONGEST_PAGE,
        Some(text) => text.parse().map_err(|_| ErrorReply::invalid("Not a number"))?,
    };
    let mut all: Vec<(&u64, &Upload)> = state
        .uploads
        .iter()
        .filter(|(_, upload)| upload.bucket == request.bucket() && upload.key.starts_with(prefix))
        .collect();
    all.sort_by_key(|(id, upload)| (upload.key.as_str(), upload.started, **id));
    // Markers name the last upload of the page before, or the last key whose uploads are all done with.
    let begin = match id_of(id_marker) {
        Some(id) if all.iter().any(|(known, _)| **known == id) => {
            all.iter().position(|(known, _)| **known == id).map_or(0, |at| at + 1)
        }
        _ => all.partition_point(|(_, upload)| !key_marker.is_empty() && upload.key.as_str() <= key_marker),
    };
    let end = all.len().min(begin.saturating_add(most.min(LONGEST_PAGE)));
    let mut xml = Xml::document("ListMultipartUploadsResult");
    xml.element("Bucket", request.bucket())
        .element("KeyMarker", &name(key_marker))
        .element("UploadIdMarker", id_marker);
    xml.element("Prefix", &name(prefix))
        .number("MaxUploads", most.min(LONGEST_PAGE))
        .number("IsTruncated", end < all.len());
    if url {
        xml.element("EncodingType", "url");
    }
    if let Some((id, upload)) = all[begin..end].last().filter(|_| end < all.len()) {
        xml.element("NextKeyMarker", &name(&upload.key)).element("NextUploadIdMarker", &id_text(**id));
    }
    for (id, upload) in &all[begin..end] {
        xml.open("Upload").element("Key", &name(&upload.key)).element("UploadId", &id_text(**id));
        xml.element("StorageClass", upload.attributes.storage_class.as_deref().unwrap_or("STANDARD"));
        xml.element("Initiated", &iso(upload.started));
        if let Some((algorithm, composite)) = upload.checksum {
            xml.element("ChecksumAlgorithm", algorithm.name()).element("ChecksumType", kind(composite));
        }
        xml.close("Upload");
    }
    Ok(Reply::xml(xml.end("ListMultipartUploadsResult")))
}
