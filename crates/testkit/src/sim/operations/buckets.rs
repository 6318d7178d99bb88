//! Buckets and listings.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::super::bucket::{Bucket, Page, Position, Sum};
use super::super::reply::{ErrorReply, Reply, ReplyResult};
use super::super::scenario::BucketSpec;
use super::super::state::{SimRequest, SimState};
use super::super::xml::{self, Xml};
use super::encode;
use crate::date::iso;

const LONGEST_PAGE: usize = 1_000;

pub(super) fn list_buckets(state: &SimState) -> Reply {
    let mut xml = Xml::document("ListAllMyBucketsResult");
    xml.open("Owner").element("ID", "s3sim").close("Owner").open("Buckets");
    for (name, bucket) in &state.buckets {
        xml.open("Bucket").element("Name", name).element("CreationDate", &iso(bucket.created)).close("Bucket");
    }
    xml.close("Buckets");
    Reply::xml(xml.end("ListAllMyBucketsResult"))
}

pub(super) fn head_bucket(state: &mut SimState, request: &SimRequest) -> ReplyResult {
    let region = state.bucket(request)?.region.clone();
    Ok(Reply::empty(hyper::StatusCode::OK).with("x-amz-bucket-region", &region))
}

pub(super) fn create_bucket(state: &mut SimState, request: &SimRequest) -> ReplyResult {
    let super::super::intake::ReceivedBody::Document(body) = &request.received else {
        return Err(ErrorReply::malformed_xml());
    };
    let text = std::str::from_utf8(body).map_err(|_| ErrorReply::malformed_xml())?;
    let mut region = None;
    if !text.trim().is_empty() {
        let leaves = xml::items(text, "CreateBucketConfiguration").map_err(|()| ErrorReply::malformed_xml())?;
        region = leaves
            .into_iter()
            .flatten()
            .find_map(|(name, value)| (name == "LocationConstraint" && !value.is_empty()).then_some(value));
    }
    let name = request.bucket().to_owned();
    if state.buckets.contains_key(&name) {
        return Err(
            ErrorReply::new(409, "BucketAlreadyOwnedByYou", "The bucket is yours already.").element("BucketName", name)
        );
    }
    let spec = BucketSpec {
        name: name.clone(),
        region,
        elsewhere: super::super::scenario::RegionRefusal::default(),
        objects: Vec::new(),
        partitions: Vec::new(),
    };
    state.add_bucket(&spec).map_err(|problem| ErrorReply::new(400, "InvalidBucketName", problem))?;
    Ok(Reply::empty(hyper::StatusCode::OK).with("location", &format!("/{name}")))
}

pub(super) fn delete_bucket(state: &mut SimState, request: &SimRequest) -> ReplyResult {
    if !state.bucket(request)?.is_empty() || state.uploads.values().any(|upload| upload.bucket == request.bucket()) {
        return Err(ErrorReply::new(409, "BucketNotEmpty", "The bucket you tried to delete is not empty"));
    }
    state.buckets.remove(request.bucket());
    Ok(Reply::empty(hyper::StatusCode::NO_CONTENT))
}

pub(super) fn location(state: &mut SimState, request: &SimRequest) -> ReplyResult {
    let region = state.bucket(request)?.region.clone();
    // The oldest region has no name here.
    let region = if region == "us-east-1" { "" } else { &region };
    let mut text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
                    <LocationConstraint xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
        .to_owned();
    text.push_str(region);
    text.push_str("</LocationConstraint>");
    Ok(Reply::xml(text))
}

pub(super) fn versioning(state: &mut SimState, request: &SimRequest) -> ReplyResult {
    state.bucket(request)?;
    Ok(Reply::xml(Xml::document("VersioningConfiguration").end("VersioningConfiguration")))
}

/// Every bucket encrypts by default with keys of the service.
pub(super) fn encryption(state: &mut SimState, request: &SimRequest) -> ReplyResult {
    state.bucket(request)?;
    let mut xml = Xml::document("ServerSideEncryptionConfiguration");
    xml.open("Rule").open("ApplyServerSideEncryptionByDefault").element("SSEAlgorithm", "AES256");
    xml.close("ApplyServerSideEncryptionByDefault").close("Rule");
    Ok(Reply::xml(xml.end("ServerSideEncryptionConfiguration")))
}

/// Parameters that both versions of the listing have.
struct ListingParameters {
    prefix: String,
    delimiter: Option<String>,
    most: usize,
    url: bool,
}

impl ListingParameters {
    fn read(request: &SimRequest) -> Result<Self, ErrorReply> {
        let query = request.query();
        let most = match query.get("max-keys") {
            None | Some("") => LONGEST_PAGE,
            Some(text) => text.parse().map_err(|_| ErrorReply::invalid("Provided max-keys not an integer"))?,
        };
        let url = match query.get("encoding-type") {
            None | Some("") => false,
            Some("url") => true,
            Some(_) => return Err(ErrorReply::invalid("Invalid Encoding Method specified in Request")),
        };
        Ok(Self {
            prefix: query.get("prefix").unwrap_or_default().to_owned(),
            delimiter: query.get("delimiter").filter(|delimiter| !delimiter.is_empty()).map(str::to_owned),
            most,
            url,
        })
    }

    fn name(&self, text: &str) -> String {
        if self.url { encode(text) } else { text.to_owned() }
    }

    fn page(&self, bucket: &mut Bucket, after: Option<&Position>) -> Page {
        bucket.list(&self.prefix, self.delimiter.as_deref(), after, self.most.min(LONGEST_PAGE))
    }

    fn write(&self, xml: &mut Xml, request: &SimRequest, page: &Page) {
        xml.element("Name", request.bucket()).element("Prefix", &self.name(&self.prefix));
        if let Some(delimiter) = &self.delimiter {
            xml.element("Delimiter", &self.name(delimiter));
        }
        xml.number("MaxKeys", self.most.min(LONGEST_PAGE));
        if self.url {
            xml.element("EncodingType", "url");
        }
        xml.number("IsTruncated", page.next.is_some());
        for object in &page.objects {
            xml.open("Contents").element("Key", &self.name(&object.key));
            xml.element("LastModified", &iso(object.modified)).etag(&object.etag.text()).number("Size", object.size);
            let algorithm = match &object.sum {
                Sum::None => None,
                Sum::Full(algorithm) => Some((algorithm.name(), "FULL_OBJECT")),
                Sum::Fixed(fixed) => {
                    let kind = if fixed.parts.is_empty() { "FULL_OBJECT" } else { "COMPOSITE" };
                    Some((fixed.value.algorithm().name(), kind))
                }
            };
            if let Some((name, kind)) = algorithm {
                xml.element("ChecksumAlgorithm", name).element("ChecksumType", kind);
            }
            let class = object.attributes.storage_class.as_deref().unwrap_or("STANDARD");
            xml.element("StorageClass", class).close("Contents");
        }
        for prefix in &page.prefixes {
            xml.open("CommonPrefixes").element("Prefix", &self.name(prefix)).close("CommonPrefixes");
        }
    }
}

fn token(position: &Position) -> String {
    let text = match position {
        Position::AfterKey(key) => format!("k{key}"),
        Position::AfterPrefix(prefix) => format!("p{prefix}"),
    };
    URL_SAFE_NO_PAD.encode(text)
}

fn position(token: &str) -> Result<Position, ErrorReply> {
    let wrong = || ErrorReply::invalid("The continuation token provided is incorrect");
    let text = URL_SAFE_NO_PAD.decode(token).ok().and_then(|raw| String::from_utf8(raw).ok()).ok_or_else(wrong)?;
    match text.split_at_checked(1) {
        Some(("k", key)) => Ok(Position::AfterKey(key.to_owned())),
        Some(("p", prefix)) => Ok(Position::AfterPrefix(prefix.to_owned())),
        _ => Err(wrong()),
    }
}

pub(super) fn list_v2(state: &mut SimState, request: &SimRequest) -> ReplyResult {
    let parameters = ListingParameters::read(request)?;
    let query = request.query();
    let start_after = query.get("start-after").filter(|text| !text.is_empty());
    let given = query.get("continuation-token").filter(|text| !text.is_empty());
    let after = match given {
        Some(given) => Some(position(given)?),
        None => start_after.map(|key| Position::AfterKey(key.to_owned())),
    };
    let page = parameters.page(state.bucket(request)?, after.as_ref());
    let mut xml = Xml::document("ListBucketResult");
    parameters.write(&mut xml, request, &page);
    xml.number("KeyCount", page.objects.len() + page.prefixes.len());
    if let Some(text) = given {
        xml.element("ContinuationToken", text);
    }
    if let Some(text) = start_after {
        xml.element("StartAfter", &parameters.name(text));
    }
    if let Some(next) = &page.next {
        xml.element("NextContinuationToken", &token(next));
    }
    Ok(Reply::xml(xml.end("ListBucketResult")))
}

pub(super) fn list_v1(state: &mut SimState, request: &SimRequest) -> ReplyResult {
    let parameters = ListingParameters::read(request)?;
    let query = request.query();
    let marker = query.get("marker").unwrap_or_default();
    // A marker may be the group that the last page ended with.
    let after = match &parameters.delimiter {
        Some(delimiter) if marker.len() > parameters.prefix.len() && marker.ends_with(delimiter.as_str()) => {
            Some(Position::AfterPrefix(marker.to_owned()))
        }
        _ => Some(marker).filter(|marker| !marker.is_empty()).map(|marker| Position::AfterKey(marker.to_owned())),
    };
    let page = parameters.page(state.bucket(request)?, after.as_ref());
    let mut xml = Xml::document("ListBucketResult");
    parameters.write(&mut xml, request, &page);
    xml.element("Marker", &parameters.name(marker));
    if let Some(Position::AfterKey(next) | Position::AfterPrefix(next)) = &page.next {
        // S3 states this only with a delimiter; clients take the last key otherwise. It does no harm.
        xml.element("NextMarker", &parameters.name(next));
    }
    Ok(Reply::xml(xml.end("ListBucketResult")))
}
