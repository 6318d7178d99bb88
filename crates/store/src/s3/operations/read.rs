//! Requests that read: objects, their metadata and listings.

use std::time::Duration;

use async_trait::async_trait;

use super::body::WatchedBody;
use super::page_check::PageCheck;
use super::page_order::{PageEntries, PageOrders};
use super::{METADATA_TIMEOUT, has_no_error_code};
use crate::body::Body;
use crate::error::Result;
use crate::error::StoreError;
use crate::error::classify::code;
use crate::properties::BucketEncryption;
use crate::s3::S3Store;
use crate::s3::accept_encoding::{AcceptEncoding, GetReply, transformation_error};
use crate::s3::encoding::{decode_key, quote, unquote};
use crate::s3::object_meta::{check_content_range, head_meta, object_meta};
use crate::s3::reply::WholeReply;
use crate::s3::xml::{Element, document, push_text};
use crate::store::{FetchedObject, ObjectRead, ObjectReadExt, ObjectStore as _};
use crate::types::{ListPage, ListRequest, ListedObject, ObjectMeta, ObjectRef, PinnedObject, Range};

/// Reads a key of a page. A service that ignores the requested encoding omits it from the page.
pub(super) fn parse_key(page: &Element<'_>, raw: Option<&str>) -> String {
    let raw = raw.unwrap_or_default();
    if page.text("EncodingType") == Some("url") { decode_key(raw) } else { raw.to_owned() }
}

/// Reads an object of a page.
pub(super) fn parse_object(page: &Element<'_>, object: &Element<'_>) -> ListedObject {
    ListedObject {
        key: parse_key(page, object.text("Key")),
        size: object.value("Size").unwrap_or_default(),
        etag: unquote(object.text("ETag")),
        last_modified: object.time("LastModified").unwrap_or_default(),
        storage_class: object.text("StorageClass").map(str::to_owned),
        refusal: None,
    }
}

/// Compares a page with what it states of itself, with the request, and with the page before.
fn check_page(page: &Element<'_>, listed: &ListPage, request: &ListRequest, orders: &PageOrders) -> Result<()> {
    let check = PageCheck {
        operation: "ListObjectsV2",
        bucket: &request.bucket,
        prefix: &request.prefix,
        max_keys: request.max_keys,
        entries: listed.objects.len(),
        common_prefixes: listed.common_prefixes.len(),
    };
    check.check_bucket(page.text("Name"))?;
    check.check_echo("prefix", page.text("Prefix"), Some(&request.prefix))?;
    check.check_echo("delimiter", page.text("Delimiter"), request.delimiter.as_deref())?;
    // versitygw states the key to begin after as a token too.
    let token = request.continuation.as_deref().or(request.start_after.as_deref());
    check.check_echo("continuation token", page.text("ContinuationToken"), token)?;
    if request.continuation.is_none() {
        check.check_echo("start-after", page.text("StartAfter"), request.start_after.as_deref())?;
    }
    check.check_encoding(page.text("EncodingType"))?;
    check.check_counts(page.value("KeyCount"), page.value("MaxKeys"))?;
    let next = page.text("NextContinuationToken");
    check.check_truncation(page.value("IsTruncated"), next, next == request.continuation.as_deref())?;
    check.check_sizes(page.all("Contents"))?;
    if page.all("Contents").any(|object| object.time("LastModified").is_none()) {
        return Err(check.contradiction("an entry has no time"));
    }
    for object in &listed.objects {
        check.check_key(&object.key)?;
        check.check_ungrouped(&object.key, request.delimiter.as_deref())?;
    }
    for group in &listed.common_prefixes {
        check.check_key(group)?;
        check.check_common_prefix(group, request.delimiter.as_deref())?;
    }
    let entries = PageEntries {
        lists: [
            listed.objects.iter().map(|object| object.key.as_str()).collect(),
            listed.common_prefixes.iter().map(String::as_str).collect(),
        ],
        repeats_second: true,
        ..PageEntries::default()
    };
    let listing = ("ListObjectsV2", &request.bucket, &request.prefix, &request.delimiter);
    let (marker, next) = (request.continuation.as_deref(), listed.continuation.as_deref());
    orders.check(listing, marker, next, &entries).map_err(|what| check.contradiction(&what))
}

impl S3Store {
    /// GET of an object with this `Accept-Encoding`.
    async fn get_as(&self, source: &PinnedObject, range: Option<Range>, encoding: AcceptEncoding) -> Result<GetReply> {
        let request = self
            .request("GET", "GetObject", &source.bucket, Some(&source.key))
            .query("versionId", source.version_id.as_deref())
            .header("if-match", source.if_match.as_deref().map(quote))
            .header("range", range.map(|range| range.header()))
            .header("accept-encoding", Some(encoding.header().to_owned()))
            // A range has no checksum.
            .header("x-amz-checksum-mode", range.is_none().then(|| "ENABLED".to_owned()));
        let request = &request;
        let reply =
            self.in_region(request, METADATA_TIMEOUT, |client| async move { client.send(request).await }).await?;
        let content_range = reply.headers.get("content-range").map(str::to_owned);
        let has_length = reply.headers.get("content-length").is_some();
        let has_end = has_length || reply.headers.get("transfer-encoding").is_some();
        Ok(GetReply { meta: object_meta(&reply.headers), content_range, has_length, has_end, body: reply.body })
    }

    /// HEAD of an object, without the customer's key if `keyless`.
    async fn head_as(&self, object: ObjectRef<'_>, part: Option<u32>, keyless: bool) -> Result<ObjectMeta> {
        let part = part.map(|part| part.to_string());
        let mut request = self
            .request("HEAD", "HeadObject", object.bucket, Some(object.key))
            .query("versionId", object.version)
            .query("partNumber", part.as_deref())
            .header("x-amz-checksum-mode", Some("ENABLED".to_owned()));
        if keyless {
            request.headers.0.retain(|(name, _)| !name.starts_with("x-amz-server-side-encryption-customer-"));
        }
        let reply = self.call(&request, METADATA_TIMEOUT).await?;
        // A proxy may have removed the header.
        match reply.headers.get("content-length") {
            Some(_) => Ok(head_meta(&reply.headers)),
            None => Err(request.context.missing_field("Content-Length")),
        }
    }
}

#[async_trait]
impl ObjectRead for S3Store {
    async fn head_bucket(&self, bucket: &str) -> Result<()> {
        match self.call(&self.request("HEAD", "HeadBucket", bucket, None), METADATA_TIMEOUT).await {
            Ok(_) => Ok(()),
            Err(error) if error.code == "NotFound" => {
                Err(StoreError::new("HeadBucket", bucket, None, "NoSuchBucket", Some(404))
                    .with_message("there is no such bucket"))
            }
            // A listing is requested, since its answer has a body. A caller without permission to list gets
            // AccessDenied from it.
            Err(error) if has_no_error_code(&error) => {
                let request = ListRequest { bucket: bucket.to_owned(), max_keys: Some(1), ..ListRequest::default() };
                match self.list(&request).await {
                    // The error is classified as an answer to HeadBucket.
                    Err(refusal) => Err(StoreError {
                        message: refusal.message,
                        request_id: refusal.request_id,
                        region: refusal.region,
                        retry_after: refusal.retry_after,
                        ..StoreError::new("HeadBucket", bucket, None, &refusal.code, refusal.status)
                    }),
                    Ok(_) => Ok(()),
                }
            }
            Err(error) => Err(error),
        }
    }

    async fn list(&self, request: &ListRequest) -> Result<ListPage> {
        let max_keys = request.max_keys.map(|most| most.to_string());
        let asked = self
            .request("GET", "ListObjectsV2", &request.bucket, None)
            .query("list-type", "2")
            .query("prefix", request.prefix.as_str())
            .query("delimiter", request.delimiter.as_deref())
            .query("start-after", request.start_after.as_deref().filter(|_| request.continuation.is_none()))
            .query("continuation-token", request.continuation.as_deref())
            .query("max-keys", max_keys.as_deref())
            .query("encoding-type", "url");
        let reply = self.call(&asked, METADATA_TIMEOUT).await?;
        let page = reply.document(asked.context, &["ListBucketResult"])?;
        let next = page.text("NextContinuationToken").filter(|_| page.value("IsTruncated") == Some(true));
        let listed = ListPage {
            objects: page.all("Contents").map(|object| parse_object(&page, object)).collect(),
            common_prefixes: page.all("CommonPrefixes").map(|group| parse_key(&page, group.text("Prefix"))).collect(),
            continuation: next.map(str::to_owned),
        };
        check_page(&page, &listed, request, &self.page_orders)?;
        Ok(listed)
    }

    async fn head(&self, object: ObjectRef<'_>, part: Option<u32>) -> Result<ObjectMeta> {
        let ObjectRef { bucket, key, version } = object;
        let error = match self.head_as(object, part, false).await {
            // A customer's key is refused for objects without one.
            Err(error) if error.status == Some(400) && self.options.customer_key.is_some() => {
                return self.head_as(object, part, true).await;
            }
            Err(error) if has_no_error_code(&error) => error,
            answer => return answer,
        };
        let source = PinnedObject {
            bucket: bucket.to_owned(),
            key: key.to_owned(),
            version_id: version.map(str::to_owned),
            if_match: None,
            size: 1,
        };
        match self.get(&source, Some(Range { first: 0, last: 0 })).await {
            Err(refusal) if refusal.status == error.status => Err(refusal),
            // The GET has found the right region.
            Ok(_) if error.status == Some(400) => self.head_as(object, part, false).await,
            _ => Err(error),
        }
    }

    async fn fetch(&self, source: &PinnedObject, range: Option<Range>) -> Result<FetchedObject> {
        let (bucket, key) = (source.bucket.as_str(), source.key.as_str());
        let encoding = self.preferred_encoding.get();
        let mut answer = self.get_as(source, range, encoding).await?;
        if answer.is_transformed(source, range) {
            // Its connection is given back, or closed, before the object is requested once more.
            let came = answer.meta.size;
            drop(answer);
            answer = self.get_as(source, range, encoding.other()).await?;
            if answer.is_transformed(source, range) {
                return Err(transformation_error(source, came));
            }
            self.preferred_encoding.set(encoding.other());
        }
        if source.size == 0 && source.if_match.is_some() && range.is_none() && !answer.has_end {
            // A truncated body could not be detected.
            return Err(StoreError::new("GetObject", bucket, Some(key), code::TRANSFORMED, Some(200)).with_message(
                "the answer has neither a Content-Length nor chunks: a truncated body could not be detected",
            ));
        }
        let is_chunked = answer.has_end && !answer.has_length;
        let GetReply { mut meta, content_range, body, .. } = answer;
        let is_pinned = source.if_match.as_ref() == Some(&meta.etag);
        let expected = meta.size;
        if let Some(range) = range {
            let Some(whole) = check_content_range(range, content_range.as_deref(), expected) else {
                let came = content_range.as_deref().unwrap_or("the whole object");
                return Err(StoreError::new("GetObject", bucket, Some(key), code::RANGE_IGNORED, None)
                    .with_message(format!("{} was requested, and {came} came, {expected} bytes", range.header())));
            };
            (meta.size, meta.checksum) = (whole, None);
        }
        let body = WatchedBody {
            bucket: bucket.to_owned(),
            key: key.to_owned(),
            body,
            throttle: self.throttle.clone(),
            left: expected,
            chunked_source: (range.is_none() && is_chunked && is_pinned).then(|| source.clone()),
            arrived: 0,
            waited: Duration::ZERO,
            came: 0,
        };
        Ok(FetchedObject { meta, body: Body::from_source(body) })
    }

    async fn bucket_encryption(&self, bucket: &str) -> Result<BucketEncryption> {
        let request = self.request("GET", "GetBucketEncryption", bucket, None).query_flag("encryption");
        let algorithm = |reply: &WholeReply| {
            if reply.is_empty() {
                return Ok(None);
            }
            let rules = reply.document(request.context, &["ServerSideEncryptionConfiguration"])?;
            let mut defaults = rules.all("Rule").filter_map(|rule| rule.child("ApplyServerSideEncryptionByDefault"));
            Ok(defaults.find_map(|default| default.text("SSEAlgorithm")).map(str::to_owned))
        };
        match self.call(&request, METADATA_TIMEOUT).await.and_then(|reply| algorithm(&reply)) {
            Ok(algorithm) => Ok(algorithm.map_or(BucketEncryption::None, BucketEncryption::Default)),
            Err(error) if error.code == "ServerSideEncryptionConfigurationNotFoundError" => Ok(BucketEncryption::None),
            Err(_) if self.is_amazon() => Ok(BucketEncryption::Default("AES256".to_owned())),
            Err(error) if error.is_denied() => Ok(BucketEncryption::Unknown),
            // Some services take an unknown sub-resource for another request: that answer, and any refusal, means that
            // there is no encryption.
            Err(error) if error.code == code::UNEXPECTED_ANSWER => Ok(BucketEncryption::Unsupported),
            Err(error) if error.status.is_some_and(|status| (400..500).contains(&status) || status == 501) => {
                Ok(BucketEncryption::Unsupported)
            }
            Err(error) => Err(error),
        }
    }

    async fn restore(&self, object: ObjectRef<'_>, days: u32, tier: &str) -> Result<()> {
        let mut restore = format!("<Days>{days}</Days><GlacierJobParameters>");
        push_text(&mut restore, "Tier", tier);
        restore.push_str("</GlacierJobParameters>");
        let request = self
            .request("POST", "RestoreObject", object.bucket, Some(object.key))
            .query_flag("restore")
            .query("versionId", object.version)
            .xml_body(document("RestoreRequest", &restore));
        match self.call(&request, METADATA_TIMEOUT).await {
            Err(error) if error.code != "RestoreAlreadyInProgress" => Err(error),
            _ => Ok(()),
        }
    }

    fn invalidate(&self, _source: &PinnedObject) {}

    async fn get_tags(&self, object: ObjectRef<'_>) -> Result<Vec<(String, String)>> {
        let request = self
            .request("GET", "GetObjectTagging", object.bucket, Some(object.key))
            .query_flag("tagging")
            .query("versionId", object.version);
        let reply = self.call(&request, METADATA_TIMEOUT).await?;
        let tagging = reply.document(request.context, &["Tagging"])?;
        let tags = tagging.child("TagSet").into_iter().flat_map(|set| set.all("Tag"));
        Ok(tags.map(|tag| (tag.owned("Key"), tag.owned("Value"))).collect())
    }
}
