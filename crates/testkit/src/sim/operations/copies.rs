//! Copies inside the service: whole objects and parts.

use std::sync::Arc;

use hyper::StatusCode;

use super::super::bucket::{Attributes, Etag, FixedSum, Layout, Object, Sum};
use super::super::checksum::{Algorithm, Value};
use super::super::content::Content;
use super::super::reply::{ErrorReply, Reply, ReplyResult};
use super::super::scenario::Capability;
use super::super::state::{Part, SimRequest, SimState, archived_error, fault, no_version};
use super::super::xml::Xml;
use super::objects::set_encryption;
use super::{attributes_of, check_target, checksum_header, decode, names, uploads};
use crate::date::iso;

/// Object that `x-amz-copy-source` names.
pub(super) struct CopySource {
    pub(super) bucket: String,
    pub(super) key: String,
    version: Option<String>,
}

impl CopySource {
    pub(super) fn parse(raw: &str) -> Result<Self, ErrorReply> {
        let (path, version) = match raw.split_once("?versionId=") {
            Some((path, version)) => (path, Some(decode(version)?)),
            None => (raw, None),
        };
        let path = decode(path.strip_prefix('/').unwrap_or(path))?;
        match path.split_once('/') {
            Some((bucket, key)) if !bucket.is_empty() && !key.is_empty() => {
                Ok(Self { bucket: bucket.to_owned(), key: key.to_owned(), version })
            }
            _ => Err(ErrorReply::invalid("Invalid copy source object key")),
        }
    }
}

/// `bytes=first-last`.
pub(super) fn closed_range(text: &str) -> Option<(u64, u64)> {
    let (first, last) = text.strip_prefix("bytes=")?.split_once('-')?;
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (first <= last).then_some((first, last))
}

/// The source, if it may be read and is the one that was meant.
fn open(state: &mut SimState, request: &SimRequest) -> Result<(CopySource, Object), ErrorReply> {
    let raw = request.header("x-amz-copy-source").ok_or_else(|| ErrorReply::invalid("Copy Source must be US-ASCII"))?;
    let source = CopySource::parse(raw)?;
    if let Some(version) = source.version.as_deref().filter(|version| *version != "null") {
        return Err(no_version(&source.key, version));
    }
    let access_key = request.call.access_key.as_deref();
    if let Some(denied) = state.faults.strike_source(&source.bucket, &source.key, access_key) {
        return Err(fault(&denied, state.date()));
    }
    let bucket = state.buckets.get_mut(&source.bucket).ok_or_else(|| ErrorReply::no_bucket(&source.bucket))?;
    let object = bucket.get(&source.key).ok_or_else(|| ErrorReply::no_key(&source.key))?;
    let conditions = ["x-amz-copy-source-if-match", "x-amz-copy-source-if-none-match"];
    if conditions.iter().any(|name| request.headers.contains_key(*name)) {
        if state.lacks(Capability::Conditions) {
            return Err(ErrorReply::unknown("conditions on the source of a copy"));
        }
        let etag = object.etag.text();
        for (name, wanted) in conditions.into_iter().zip([true, false]) {
            if request.header(name).is_some_and(|condition| names(condition, &etag) != wanted) {
                return Err(ErrorReply::precondition(name));
            }
        }
    }
    if object.attributes.is_archived() {
        return Err(archived_error(Some(&object.attributes)));
    }
    Ok((source, object))
}

pub(super) fn copy(state: &mut SimState, request: &SimRequest) -> ReplyResult {
    if state.lacks(Capability::Copy) {
        return Err(ErrorReply::unknown("the operation CopyObject"));
    }
    state.bucket(request)?;
    let (source, object) = open(state, request)?;
    let size = object.content.length();
    if size > state.options.maximum_copy.0 {
        let limit = state.options.maximum_copy.0;
        return Err(ErrorReply::new(
            400,
            "InvalidRequest",
            format!("The specified copy source is larger than the maximum allowable size for a copy source: {limit}"),
        ));
    }
    check_target(state, request)?;
    let replaces = |name: &str| request.header(name).is_some_and(|directive| directive == "REPLACE");
    let requested = attributes_of(request)?;
    let metadata = replaces("x-amz-metadata-directive");
    let attributes = Attributes {
        headers: if metadata { requested.headers } else { object.attributes.headers.clone() },
        tags: if replaces("x-amz-tagging-directive") { requested.tags } else { object.attributes.tags.clone() },
        storage_class: requested.storage_class,
        kms_key: requested.kms_key,
    };
    let same = source.bucket == request.bucket() && source.key == request.key();
    if same && !metadata && attributes == *object.attributes {
        return Err(ErrorReply::new(
            400,
            "InvalidRequest",
            "This copy request is illegal because it is trying to copy an object to itself without changing it.",
        ));
    }
    let sum = copied_sum(state, request, &object)?;
    let attributes =
        if attributes == *object.attributes { Arc::clone(&object.attributes) } else { state.share(attributes) };
    // A digest of the whole stays; that of an upload in parts becomes one of the whole.
    let digest = object.etag.parts == 0 && object.attributes.kms_key.is_none();
    let etag = if digest {
        Etag { digest: state.veiled(object.etag.digest, &attributes), parts: 0 }
    } else {
        state.etag_of(&object.content, &attributes)
    };
    let made = SimState::made(object.content, etag, sum, Layout::Single, attributes);
    let mut xml = Xml::document("CopyObjectResult");
    xml.element("LastModified", &iso(made.modified())).etag(&etag.text());
    if let Some(sum) = checksum_header(&made)? {
        xml.element(sum.element, &sum.value).element("ChecksumType", sum.kind);
    }
    let mut reply = Reply::xml(xml.end("CopyObjectResult"));
    set_encryption(&mut reply, &made.attributes);
    state.counters.bytes_copied += size;
    state.store(request.bucket(), request.key(), made)?;
    Ok(reply)
}

/// The algorithm of the source's checksum, unless another is requested; always over the full object.
fn copied_sum(state: &SimState, request: &SimRequest, object: &Object) -> Result<Sum, ErrorReply> {
    if state.lacks(Capability::Checksums) {
        return Ok(Sum::None);
    }
    let requested = uploads::algorithm(request)?;
    let kept = match &object.sum {
        Sum::None => None,
        Sum::Full(algorithm) => Some(*algorithm),
        Sum::Fixed(fixed) => Some(fixed.value.algorithm()),
    };
    if let (Sum::Fixed(fixed), None) = (&object.sum, requested)
        && fixed.parts.is_empty()
    {
        return Ok(Sum::Fixed(Arc::clone(fixed)));
    }
    match requested.or(kept).unwrap_or(Algorithm::ALL[0]) {
        algorithm @ Algorithm::Crc(_) => Ok(Sum::Full(algorithm)),
        algorithm @ Algorithm::Sha256 => {
            let value = compute_checksum(state, algorithm, &object.content)?;
            Ok(Sum::Fixed(FixedSum { value, parts: Vec::new() }.into()))
        }
    }
}

/// Returns a checksum of the copied bytes, where it can be computed truly and at a bearable cost.
fn compute_checksum(state: &SimState, algorithm: Algorithm, content: &Content) -> Result<Value, ErrorReply> {
    let limit = state.options.sha_limit.0;
    if algorithm == Algorithm::Sha256 && content.known_sha256().is_none() && content.length() > limit {
        return Err(ErrorReply::unknown(format_args!(
            "SHA-256 of more than {limit} bytes without reading them (sha_limit)"
        )));
    }
    algorithm.of(content).map_err(|_| ErrorReply::not_kept())
}

pub(super) fn copy_part(state: &mut SimState, request: &SimRequest) -> ReplyResult {
    if state.lacks(Capability::PartCopy) {
        return Err(ErrorReply::unknown("the operation UploadPartCopy"));
    }
    let (id, number) = uploads::find_part(state, request)?;
    let (_, object) = open(state, request)?;
    let size = object.content.length();
    let content = match request.header("x-amz-copy-source-range") {
        None => object.content,
        Some(text) => {
            let wrong =
                || ErrorReply::invalid("The x-amz-copy-source-range value must be of the form bytes=first-last");
            let (first, last) = closed_range(text).ok_or_else(wrong)?;
            if size <= state.options.minimum_part.0 {
                return Err(ErrorReply::new(
                    400,
                    "InvalidRequest",
                    "The specified copy source is not valid for a byte-range copy",
                ));
            }
            if last >= size {
                return Err(ErrorReply::invalid(format!(
                    "Range specified is not valid for source object of size: {size}"
                )));
            }
            object.content.range(first, last - first + 1)
        }
    };
    let length = content.length();
    uploads::check_part_size(length)?;
    let (attributes, checksum) = match state.uploads.get(&id) {
        Some(upload) => (Arc::clone(&upload.attributes), upload.checksum),
        None => return Err(ErrorReply::no_upload("")),
    };
    let value = match checksum {
        Some((algorithm, _)) => Some(compute_checksum(state, algorithm, &content)?),
        None => None,
    };
    // The bytes of a part copy are not there to compute its MD5 from; see the page on the simulator.
    let digest = state.veiled(content.opaque_digest(), &attributes);
    let part = Part { content, digest, value, modified: std::time::SystemTime::now() };
    let mut xml = Xml::document("CopyPartResult");
    xml.element("LastModified", &iso(part.modified)).etag(&Etag { digest, parts: 0 }.text());
    if let Some(value) = value {
        xml.element(value.algorithm().element(), &value.base64());
    }
    state.counters.bytes_copied += length;
    uploads::store_part(state, id, number, part);
    let mut reply = Reply::xml(xml.end("CopyPartResult"));
    set_encryption(&mut reply, &attributes);
    reply.status = StatusCode::OK;
    Ok(reply)
}
