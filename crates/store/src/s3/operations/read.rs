//! Requests that read: objects, their metadata and listings.

use std::time::Duration;

use async_trait::async_trait;

use super::body::WatchedBody;
use super::order::{Entries, ListingOrders};
use super::stated::StatedPage;
use super::{SHORT, is_mute};
use crate::body::Body;
use crate::error::Result;
use crate::error::StoreError;
use crate::error::classify::code;
use crate::properties::BucketEncryption;
use crate::s3::S3Store;
use crate::s3::encoding::{decode_key, quote, unquote};
use crate::s3::object_meta::{answers_range, head_meta, object_meta};
use crate::s3::reply::WholeReply;
use crate::s3::stored_form::{FetchAnswer, Form, transformation_error};
use crate::s3::xml::{Element, document, push_text};
use crate::store::{FetchedObject, ObjectRead, ObjectReadExt, ObjectStore as _};
use crate::types::{ListPage, ListRequest, ListedObject, ObjectMeta, ObjectRef, PinnedObject, Range};

/// Reads a key of a page. A service that ignores the requested encoding omits it from the page.
pub(super) fn key_of(page: &Element<'_>, raw: Option<&str>) -> String {
    let raw = raw.unwrap_or_default();
    if page.text("EncodingType") == Some("url") { decode_key(raw) } else { raw.to_owned() }
}

/// Reads an object of a page.
pub(super) fn listed_object(page: &Element<'_>, object: &Element<'_>) -> ListedObject {
    ListedObject {
        key: key_of(page, object.text("Key")),
        size: object.value("Size").unwrap_or_default(),
        etag: unquote(object.text("ETag")),
        last_modified: object.time("LastModified").unwrap_or_default(),
        storage_class: object.text("StorageClass").map(str::to_owned),
        refusal: None,
    }
}

/// Compares a page with what it states of itself, with the request, and with the page before.
fn compare_with_request(
    page: &Element<'_>,
    listed: &ListPage,
    request: &ListRequest,
    orders: &ListingOrders,
) -> Result<()> {
    let stated = StatedPage {
        operation: "ListObjectsV2",
        bucket: &request.bucket,
        prefix: &request.prefix,
        most: request.max_keys,
        entries: listed.objects.len(),
        groups: listed.common_prefixes.len(),
    };
    stated.bucket_is(page.text("Name"))?;
    stated.echoes("prefix", page.text("Prefix"), Some(&request.prefix))?;
    stated.echoes("delimiter", page.text("Delimiter"), request.delimiter.as_deref())?;
    // versitygw states the key to begin after as a token too.
    let token = request.continuation.as_deref().or(request.start_after.as_deref());
    stated.echoes("continuation token", page.text("ContinuationToken"), token)?;
    if request.continuation.is_none() {
        stated.echoes("start-after", page.text("StartAfter"), request.start_after.as_deref())?;
    }
    stated.encoding(page.text("EncodingType"))?;
    stated.counts(page.value("KeyCount"), page.value("MaxKeys"))?;
    let next = page.text("NextContinuationToken");
    stated.ends(page.value("IsTruncated"), next, next == request.continuation.as_deref())?;
    stated.have_sizes(page.all("Contents"))?;
    if page.all("Contents").any(|object| object.time("LastModified").is_none()) {
        return Err(stated.contradiction("an entry has no time"));
    }
    for object in &listed.objects {
        stated.belongs(&object.key)?;
        stated.check_ungrouped(&object.key, request.delimiter.as_deref())?;
    }
    for group in &listed.common_prefixes {
        stated.belongs(group)?;
        stated.check_group(group, request.delimiter.as_deref())?;
    }
    let entries = Entries {
        lists: [
            listed.objects.iter().map(|object| object.key.as_str()).collect(),
            listed.common_prefixes.iter().map(String::as_str).collect(),
        ],
        repeats_second: true,
        ..Entries::default()
    };
    let asked = ("ListObjectsV2", &request.bucket, &request.prefix, &request.delimiter);
    let (marker, next) = (request.continuation.as_deref(), listed.continuation.as_deref());
    orders.follow(asked, marker, next, &entries).map_err(|what| stated.contradiction(&what))
}

impl S3Store {
    /// GET of an object in one form.
    async fn fetch_as(&self, source: &PinnedObject, range: Option<Range>, form: Form) -> Result<FetchAnswer> {
        let request = self
            .request("GET", "GetObject", &source.bucket, Some(&source.key))
            .query("versionId", source.version_id.as_deref())
            .header("if-match", source.if_match.as_deref().map(quote))
            .header("range", range.map(|range| range.header()))
            .header("accept-encoding", Some(form.header().to_owned()))
            // A range has no checksum.
            .header("x-amz-checksum-mode", range.is_none().then(|| "ENABLED".to_owned()));
        let request = &request;
        let reply = self.in_region(request, SHORT, |client| async move { client.send(request).await }).await?;
        let content_range = reply.headers.get("content-range").map(str::to_owned);
        let has_length = reply.headers.get("content-length").is_some();
        let has_end = has_length || reply.headers.get("transfer-encoding").is_some();
        Ok(FetchAnswer { meta: object_meta(&reply.headers), content_range, has_length, has_end, body: reply.body })
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
        let reply = self.call(&request, SHORT).await?;
        // A size that a proxy has removed is not zero.
        match reply.headers.get("content-length") {
            Some(_) => Ok(head_meta(&reply.headers)),
            None => Err(request.about.lacks("Content-Length")),
        }
    }
}

#[async_trait]
impl ObjectRead for S3Store {
    async fn head_bucket(&self, bucket: &str) -> Result<()> {
        match self.call(&self.request("HEAD", "HeadBucket", bucket, None), SHORT).await {
            Ok(_) => Ok(()),
            Err(error) if error.code == "NotFound" => {
                Err(StoreError::new("HeadBucket", bucket, None, "NoSuchBucket", Some(404))
                    .with_message("there is no such bucket"))
            }
            // A listing is requested, since its answer has a body. A caller without permission to list gets
            // AccessDenied from it.
            Err(error) if is_mute(&error) => {
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
        let reply = self.call(&asked, SHORT).await?;
        let page = reply.document(asked.about, &["ListBucketResult"])?;
        let next = page.text("NextContinuationToken").filter(|_| page.value("IsTruncated") == Some(true));
        let listed = ListPage {
            objects: page.all("Contents").map(|object| listed_object(&page, object)).collect(),
            common_prefixes: page.all("CommonPrefixes").map(|group| key_of(&page, group.text("Prefix"))).collect(),
            continuation: next.map(str::to_owned),
        };
        compare_with_request(&page, &listed, request, &self.orders)?;
        Ok(listed)
    }

    async fn head(&self, object: ObjectRef<'_>, part: Option<u32>) -> Result<ObjectMeta> {
        let ObjectRef { bucket, key, version } = object;
        let error = match self.head_as(object, part, false).await {
            // A customer's key is refused for objects without one.
            Err(error) if error.status == Some(400) && self.options.customer_key.is_some() => {
                return self.head_as(object, part, true).await;
            }
            Err(error) if is_mute(&error) => error,
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
        let form = self.form.get();
        let mut answer = self.fetch_as(source, range, form).await?;
        if answer.is_transformed(source, range) {
            // Its connection is given back, or closed, before the object is requested once more.
            let came = answer.meta.size;
            drop(answer);
            answer = self.fetch_as(source, range, form.other()).await?;
            if answer.is_transformed(source, range) {
                return Err(transformation_error(source, came));
            }
            self.form.learn(form.other());
        }
        if source.size == 0 && source.if_match.is_some() && range.is_none() && !answer.has_end {
            // Nothing would show a body that was cut off.
            return Err(StoreError::new("GetObject", bucket, Some(key), code::TRANSFORMED, Some(200)).with_message(
                "the answer has neither a Content-Length nor chunks: nothing would show that its body was cut off",
            ));
        }
        let is_chunked = answer.has_end && !answer.has_length;
        let FetchAnswer { mut meta, content_range, body, .. } = answer;
        let is_pinned = source.if_match.as_ref() == Some(&meta.etag);
        let expected = meta.size;
        if let Some(range) = range {
            let Some(whole) = answers_range(range, content_range.as_deref(), expected) else {
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
            chunks_of: (range.is_none() && is_chunked && is_pinned).then(|| source.clone()),
            arrived: 0,
            waited: Duration::ZERO,
            came: 0,
        };
        Ok(FetchedObject { meta, body: Body::of(body) })
    }

    async fn bucket_encryption(&self, bucket: &str) -> Result<BucketEncryption> {
        let request = self.request("GET", "GetBucketEncryption", bucket, None).flag("encryption");
        let algorithm = |reply: &WholeReply| {
            if reply.is_empty() {
                return Ok(None);
            }
            let rules = reply.document(request.about, &["ServerSideEncryptionConfiguration"])?;
            let mut defaults = rules.all("Rule").filter_map(|rule| rule.child("ApplyServerSideEncryptionByDefault"));
            Ok(defaults.find_map(|default| default.text("SSEAlgorithm")).map(str::to_owned))
        };
        match self.call(&request, SHORT).await.and_then(|reply| algorithm(&reply)) {
            Ok(algorithm) => Ok(algorithm.map_or(BucketEncryption::None, BucketEncryption::Default)),
            Err(error) if error.code == "ServerSideEncryptionConfigurationNotFoundError" => Ok(BucketEncryption::None),
            Err(_) if self.encrypts_all() => Ok(BucketEncryption::Default("AES256".to_owned())),
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
            .flag("restore")
            .query("versionId", object.version)
            .document(document("RestoreRequest", &restore));
        match self.call(&request, SHORT).await {
            Err(error) if error.code != "RestoreAlreadyInProgress" => Err(error),
            _ => Ok(()),
        }
    }

    fn forget(&self, _source: &PinnedObject) {}

    async fn get_tags(&self, object: ObjectRef<'_>) -> Result<Vec<(String, String)>> {
        let request = self
            .request("GET", "GetObjectTagging", object.bucket, Some(object.key))
            .flag("tagging")
            .query("versionId", object.version);
        let reply = self.call(&request, SHORT).await?;
        let tagging = reply.document(request.about, &["Tagging"])?;
        let tags = tagging.child("TagSet").into_iter().flat_map(|set| set.all("Tag"));
        Ok(tags.map(|tag| (tag.owned("Key"), tag.owned("Value"))).collect())
    }
}
