//! Whole objects: reading, writing, deleting.

use hyper::StatusCode;

use super::super::bucket::{Attributes, Etag, Layout, Object, Sum};
use super::super::intake::ReceivedBody;
use super::super::reply::{ErrorReply, Payload, Reply, ReplyResult};
use super::super::scenario::Capability;
use super::super::state::{SimRequest, SimState, archived_error};
use super::super::xml::{self, Xml};
use super::{attributes_of, check_target, checksum_header, full, names, set_checksum};

/// `bytes=first-last`, `bytes=first-` or `bytes=-length` of an object of this size: offset and length.
fn resolve(range: &str, size: u64) -> Result<(u64, u64), ErrorReply> {
    let Some(spec) = range.strip_prefix("bytes=").filter(|spec| !spec.contains(',')) else {
        return Err(ErrorReply::unknown(format_args!("the range {range:?}")));
    };
    let invalid = || {
        ErrorReply::new(416, "InvalidRange", "The requested range is not satisfiable")
            .element("RangeRequested", range)
            .element("ActualObjectSize", size.to_string())
            .header("content-range", format!("bytes */{size}"))
    };
    let (first, last) = spec.split_once('-').ok_or_else(invalid)?;
    let number = |text: &str| text.trim().parse::<u64>().map_err(|_| invalid());
    let (first, last) = match (first.trim(), last.trim()) {
        ("", length) => {
            let length = number(length)?;
            if length == 0 {
                return Err(invalid());
            }
            (size.saturating_sub(length), size)
        }
        (first, "") => (number(first)?, size),
        (first, last) => (number(first)?, number(last)?.saturating_add(1).min(size)),
    };
    if first >= size || first >= last {
        return Err(invalid());
    }
    Ok((first, last - first))
}

/// Length of a GET's body in bytes, by the request's head and the object's size.
pub(super) fn expected_length(request: &SimRequest, size: u64) -> u64 {
    match request.call.range.as_deref() {
        Some(range) => resolve(range, size).map_or(0, |(_, length)| length),
        None => size,
    }
}

pub(super) fn get(state: &mut SimState, request: &SimRequest) -> ReplyResult {
    let head_only = request.call.operation == "HeadObject";
    if request.query.as_deref().is_some_and(|query| query.contains("response-")) {
        return Err(ErrorReply::unknown("response headers of the client's choice"));
    }
    let object = state.object(request)?;
    let etag = object.etag.text();
    if request.header("if-match").is_some_and(|condition| !names(condition, &etag)) {
        return Err(ErrorReply::precondition("If-Match"));
    }
    if request.header("if-none-match").is_some_and(|condition| names(condition, &etag)) {
        return Ok(Reply::empty(StatusCode::NOT_MODIFIED).with_etag(&etag));
    }
    if !head_only && object.attributes.is_archived() {
        return Err(archived_error(Some(&object.attributes)));
    }
    let size = object.content.length();
    let parts = object.layout.parts(size);
    let whole = state.lacks(Capability::Ranges);
    let range = match (request.call.part_number, request.call.range.as_deref()) {
        _ if whole => None,
        (Some(number), _) => {
            let part = object.layout.part(size, u64::from(number));
            Some(part.ok_or_else(|| {
                ErrorReply::new(416, "InvalidPartNumber", "The requested partnumber is not satisfiable")
            })?)
        }
        (None, Some(range)) => Some(resolve(range, size)?),
        (None, None) => None,
    };
    let (offset, length) = range.unwrap_or((0, size));
    let mut reply = describe(&object, &etag);
    if range.is_some() {
        reply.status = StatusCode::PARTIAL_CONTENT;
        if length > 0 {
            reply.set("content-range", &format!("bytes {offset}-{}/{size}", offset + length - 1));
        }
    }
    if request.call.part_number.is_some()
        && let Some(parts) = parts
    {
        reply.set("x-amz-mp-parts-count", &parts.to_string());
    }
    let requested = request.header("x-amz-checksum-mode").is_some_and(|mode| mode.eq_ignore_ascii_case("enabled"));
    if requested && (range.is_none() || range == Some((0, size))) {
        set_checksum(&mut reply, checksum_header(&object)?);
    }
    if head_only {
        reply.body = Payload::Empty(Some(length));
        return Ok(reply);
    }
    let content = object.content;
    if !content.range(offset, length).is_readable() {
        return Err(ErrorReply::not_kept());
    }
    state.counters.bytes_sent += length;
    reply.body = Payload::Content { content, offset, length };
    Ok(reply)
}

/// Encryption, which every reply about an object, a part or an upload states, to reads and to writes.
pub(super) fn set_encryption(reply: &mut Reply, attributes: &Attributes) {
    match &attributes.kms_key {
        Some(key) => {
            reply.set("x-amz-server-side-encryption", "aws:kms");
            reply.set("x-amz-server-side-encryption-aws-kms-key-id", key);
        }
        None => reply.set("x-amz-server-side-encryption", "AES256"),
    }
}

fn describe(object: &Object, etag: &str) -> Reply {
    let attributes = &object.attributes;
    let mut reply = Reply::empty(StatusCode::OK).with_etag(etag);
    reply.set("last-modified", &crate::date::http(object.modified()));
    reply.set("accept-ranges", "bytes");
    reply.set("content-type", "binary/octet-stream");
    for (name, value) in &attributes.headers {
        reply.set(name, value);
    }
    if let Some(class) = &attributes.storage_class {
        reply.set("x-amz-storage-class", class);
    }
    set_encryption(&mut reply, attributes);
    if !attributes.tags.is_empty() {
        reply.set("x-amz-tagging-count", &attributes.tags.len().to_string());
    }
    reply
}

pub(super) fn attributes(state: &mut SimState, request: &SimRequest) -> ReplyResult {
    if state.lacks(Capability::Attributes) {
        return Err(ErrorReply::unknown("the operation GetObjectAttributes"));
    }
    let object = state.object(request)?;
    let wanted = request.headers.get_all("x-amz-object-attributes");
    let wanted: Vec<&str> = wanted
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .collect();
    let size = object.content.length();
    let sum = checksum_header(&object)?;
    let mut xml = Xml::document("GetObjectAttributesResponse");
    for name in wanted {
        match name {
            "ETag" => {
                xml.element("ETag", &object.etag.text());
            }
            "Checksum" => {
                if let Some(sum) = &sum {
                    xml.open("Checksum").element(sum.element, &sum.value).element("ChecksumType", sum.kind);
                    xml.close("Checksum");
                }
            }
            "ObjectParts" => write_parts(&mut xml, request, &object, size)?,
            "StorageClass" => {
                xml.element("StorageClass", object.attributes.storage_class.as_deref().unwrap_or("STANDARD"));
            }
            "ObjectSize" => {
                xml.number("ObjectSize", size);
            }
            _ => return Err(ErrorReply::invalid(format!("Invalid attribute name {name}"))),
        }
    }
    let reply = Reply::xml(xml.end("GetObjectAttributesResponse"));
    Ok(reply.with("last-modified", &crate::date::http(object.modified())))
}

fn write_parts(xml: &mut Xml, request: &SimRequest, object: &Object, size: u64) -> Result<(), ErrorReply> {
    let Some(parts) = object.layout.parts(size) else { return Ok(()) };
    xml.open("ObjectParts").number("TotalPartsCount", parts);
    // S3 lists them only of objects that have a checksum of their own choice.
    if !matches!(object.sum, Sum::None) {
        let number = |name: &str, default: u64| {
            request.header(name).map_or(Ok(default), str::parse).map_err(|_| ErrorReply::invalid("Not a number"))
        };
        let (most, after) = (number("x-amz-max-parts", 1_000)?.min(1_000), number("x-amz-part-number-marker", 0)?);
        let last = parts.min(after.saturating_add(most));
        xml.number("PartNumberMarker", after).number("MaxParts", most).number("IsTruncated", last < parts);
        xml.number("NextPartNumberMarker", last);
        for part in after + 1..=last {
            let (_, length) = object.layout.part(size, part).unwrap_or((0, 0));
            xml.open("Part").number("PartNumber", part).number("Size", length);
            if let Sum::Fixed(fixed) = &object.sum
                && let Some(value) = usize::try_from(part - 1).ok().and_then(|index| fixed.parts.get(index))
            {
                xml.element(value.algorithm().element(), &value.base64());
            }
            xml.close("Part");
        }
    }
    xml.close("ObjectParts");
    Ok(())
}

pub(super) fn put(state: &mut SimState, request: &SimRequest) -> ReplyResult {
    let ReceivedBody::Object(sent) = &request.received else { return Err(ErrorReply::malformed_xml()) };
    state.bucket(request)?;
    check_target(state, request)?;
    let length = sent.content.length();
    if length > 5 << 30 {
        return Err(ErrorReply::new(400, "EntityTooLarge", "Your proposed upload exceeds the maximum allowed size"));
    }
    let attributes = state.share(attributes_of(request)?);
    let etag = match sent.md5 {
        Some(md5) => Etag { digest: state.veiled(md5, &attributes), parts: 0 },
        None => state.etag_of(&sent.content, &attributes),
    };
    let sum = sent.value.map_or_else(|| state.default_sum(), full);
    let object = SimState::made(sent.content.clone(), etag, sum, Layout::Single, attributes);
    let mut reply = Reply::empty(StatusCode::OK).with_etag(&etag.text());
    set_checksum(&mut reply, checksum_header(&object)?);
    set_encryption(&mut reply, &object.attributes);
    state.counters.bytes_received += length;
    state.store(request.bucket(), request.key(), object)?;
    Ok(reply)
}

pub(super) fn delete(state: &mut SimState, request: &SimRequest) -> ReplyResult {
    if request.query().get("versionId").is_some_and(|version| version != "null") {
        return Err(super::super::state::no_version(
            request.key(),
            request.query().get("versionId").unwrap_or_default(),
        ));
    }
    if request.header("if-match").is_some() {
        return Err(ErrorReply::unknown("conditions on deletes"));
    }
    state.bucket(request)?.delete(request.key());
    Ok(Reply::empty(StatusCode::NO_CONTENT))
}

pub(super) fn delete_many(state: &mut SimState, request: &SimRequest) -> ReplyResult {
    let ReceivedBody::Document(body) = &request.received else { return Err(ErrorReply::malformed_xml()) };
    let text = std::str::from_utf8(body).map_err(|_| ErrorReply::malformed_xml())?;
    let objects = xml::items(text, "Object").map_err(|()| ErrorReply::malformed_xml())?;
    if objects.is_empty() || objects.len() > 1_000 {
        return Err(ErrorReply::malformed_xml());
    }
    let quiet = xml::items(text, "Delete").map_err(|()| ErrorReply::malformed_xml())?;
    let quiet = quiet.iter().flatten().any(|(name, value)| name == "Quiet" && value == "true");
    let bucket = state.bucket(request)?;
    let mut xml = Xml::document("DeleteResult");
    for leaves in objects {
        let leaf = |wanted: &str| leaves.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.as_str());
        let key = leaf("Key").ok_or_else(ErrorReply::malformed_xml)?;
        if leaf("VersionId").is_some_and(|version| version != "null") {
            xml.open("Error").element("Key", key).element("Code", "NoSuchVersion");
            xml.element("Message", "s3sim keeps no versions.").close("Error");
            continue;
        }
        bucket.delete(key);
        if !quiet {
            xml.open("Deleted").element("Key", key).close("Deleted");
        }
    }
    Ok(Reply::xml(xml.end("DeleteResult")))
}
