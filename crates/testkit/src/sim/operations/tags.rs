//! Object tags.

use std::sync::Arc;

use hyper::StatusCode;

use super::super::bucket::Attributes;
use super::super::intake::ReceivedBody;
use super::super::reply::{ErrorReply, Reply, ReplyResult};
use super::super::scenario::Capability;
use super::super::state::{SimRequest, SimState};
use super::super::xml::{self, Xml};
use super::decode;

fn invalid() -> ErrorReply {
    ErrorReply::new(400, "InvalidTag", "The tags are not valid: at most 10, keys of 128 and values of 256 characters.")
}

fn check(tags: Vec<(String, String)>) -> Result<Vec<(String, String)>, ErrorReply> {
    let fits = tags.len() <= 10
        && tags.iter().all(|(key, value)| (1..=128).contains(&key.chars().count()) && value.chars().count() <= 256)
        && tags.iter().enumerate().all(|(i, (key, _))| tags[..i].iter().all(|(other, _)| other != key));
    if fits { Ok(tags) } else { Err(invalid()) }
}

/// `x-amz-tagging: a=1&b=2`.
pub(super) fn parse_header(raw: &str) -> Result<Vec<(String, String)>, ErrorReply> {
    let pairs = raw.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        Ok((decode(&key.replace('+', " "))?, decode(&value.replace('+', " "))?))
    });
    check(pairs.collect::<Result<_, ErrorReply>>()?)
}

fn able(state: &SimState) -> Result<(), ErrorReply> {
    if state.lacks(Capability::Tagging) { Err(ErrorReply::unknown("object tags")) } else { Ok(()) }
}

pub(super) fn get(state: &mut SimState, request: &SimRequest) -> ReplyResult {
    able(state)?;
    let object = state.object(request)?;
    let mut xml = Xml::document("Tagging");
    xml.open("TagSet");
    for (key, value) in &object.attributes.tags {
        xml.open("Tag").element("Key", key).element("Value", value).close("Tag");
    }
    xml.close("TagSet");
    Ok(Reply::xml(xml.end("Tagging")))
}

pub(super) fn put(state: &mut SimState, request: &SimRequest) -> ReplyResult {
    able(state)?;
    let ReceivedBody::Document(body) = &request.received else { return Err(ErrorReply::malformed_xml()) };
    let text = std::str::from_utf8(body).map_err(|_| ErrorReply::malformed_xml())?;
    let items = xml::items(text, "Tag").map_err(|()| ErrorReply::malformed_xml())?;
    let mut tags = Vec::new();
    for leaves in items {
        let leaf = |wanted: &str| leaves.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.clone());
        tags.push((leaf("Key").ok_or_else(invalid)?, leaf("Value").ok_or_else(invalid)?));
    }
    set(state, request, check(tags)?)?;
    Ok(Reply::empty(StatusCode::OK))
}

pub(super) fn delete(state: &mut SimState, request: &SimRequest) -> ReplyResult {
    able(state)?;
    set(state, request, Vec::new())?;
    Ok(Reply::empty(StatusCode::NO_CONTENT))
}

fn set(state: &mut SimState, request: &SimRequest, tags: Vec<(String, String)>) -> Result<(), ErrorReply> {
    let mut object = state.object(request)?;
    object.attributes = Arc::new(Attributes { tags, ..(*object.attributes).clone() });
    state.bucket(request)?.put(request.key(), object);
    Ok(())
}
