//! Requests about whole buckets, versions of objects, removals of up to 1,000 objects, and presigned addresses.

use std::time::Duration;

use async_trait::async_trait;

use super::METADATA_TIMEOUT;
use super::page_check::PageCheck;
use super::page_order::{PageEntries, PageOrders};
use super::read::{parse_key, parse_object};
use crate::error::Result;
use crate::error::StoreError;
use crate::error::classify::code;
use crate::s3::S3Store;
use crate::s3::encoding::quote;
use crate::s3::xml::{Element, document, push_text};
use crate::store::BucketService;
use crate::types::{
    AbortRule, BucketInfo, ListedVersion, ObjectRef, Removal, RemovedObject, VersionsPage, VersionsRequest,
};

/// Largest number of pages of buckets: an account has at most a million, a thousand to a page.
const MAX_BUCKET_PAGES: usize = 1000;
/// Time limit of a request with a thousand keys.
const BATCH_TIMEOUT: Duration = Duration::from_mins(5);
/// The region of a bucket if none is named.
const DEFAULT_REGION: &str = "us-east-1";

/// Longest validity of a presigned address, in seconds: a week.
const MAX_PRESIGN_SECONDS: u64 = 7 * 24 * 60 * 60;

/// Compares a page of versions with what it states of itself, with the request, and with the page before.
fn check_page(page: &Element<'_>, listed: &VersionsPage, request: &VersionsRequest, orders: &PageOrders) -> Result<()> {
    let VersionsRequest { bucket, prefix, after } = request;
    let check = PageCheck {
        operation: "ListObjectVersions",
        bucket,
        prefix,
        max_keys: None,
        entries: listed.versions.len(),
        common_prefixes: page.all("CommonPrefixes").count(),
    };
    check.check_bucket(page.text("Name"))?;
    check.check_echo("prefix", page.text("Prefix"), Some(prefix))?;
    check.check_echo("delimiter", page.text("Delimiter"), None)?;
    check.check_echo("key marker", page.text("KeyMarker"), after.as_ref().map(|(key, _)| key.as_str()))?;
    let id = after.as_ref().and_then(|(_, id)| id.as_deref());
    check.check_echo("version id marker", page.text("VersionIdMarker"), id)?;
    check.check_encoding(page.text("EncodingType"))?;
    check.check_counts(None, page.value("MaxKeys"))?;
    check.check_truncation(page.value("IsTruncated"), page.text("NextKeyMarker"), listed.next == *after)?;
    check.check_sizes(page.all("Version"))?;
    if let Some(group) = page.child("CommonPrefixes") {
        check.check_common_prefix(group.text("Prefix").unwrap_or_default(), None)?;
    }
    listed.versions.iter().try_for_each(|version| check.check_key(&version.object.key))?;
    let keys = |is_marker| {
        let versions = listed.versions.iter().filter(move |version| version.is_delete_marker == is_marker);
        versions.map(|version| version.object.key.as_str()).collect()
    };
    let ids = listed.versions.iter().map(|version| version.version_id.as_str()).collect();
    let entries = PageEntries { lists: [keys(false), keys(true)], ids, repeats_second: false };
    let listing = ("ListObjectVersions", bucket, prefix);
    orders.check(listing, after.as_ref(), listed.next.as_ref(), &entries).map_err(|what| check.contradiction(&what))
}

/// Reads a version, or a delete marker, of a page.
fn parse_version(page: &Element<'_>, version: &Element<'_>, is_delete_marker: bool) -> ListedVersion {
    ListedVersion {
        object: parse_object(page, version),
        version_id: version.text("VersionId").unwrap_or("null").to_owned(),
        is_latest: version.value("IsLatest") == Some(true),
        is_delete_marker,
    }
}

/// The document that removes these objects.
fn delete_document(objects: &[Removal]) -> String {
    let mut content = String::new();
    for object in objects {
        content.push_str("<Object>");
        push_text(&mut content, "Key", &object.key);
        if let Some(version) = &object.version {
            push_text(&mut content, "VersionId", version);
        }
        if let Some(etag) = &object.etag {
            push_text(&mut content, "ETag", &quote(etag));
        }
        content.push_str("</Object>");
    }
    content + "<Quiet>false</Quiet>"
}

#[async_trait]
impl BucketService for S3Store {
    async fn list_buckets(&self) -> Result<Vec<BucketInfo>> {
        let (mut found, orders) = (Vec::new(), PageOrders::default());
        let mut token: Option<String> = None;
        for _ in 0..MAX_BUCKET_PAGES {
            let request = self.request("GET", "ListBuckets", "", None).query("continuation-token", token.as_deref());
            let reply = self.call(&request, METADATA_TIMEOUT).await?;
            let page = reply.document(request.context, &["ListAllMyBucketsResult"])?;
            let check = PageCheck { operation: "ListBuckets", ..PageCheck::default() };
            let buckets = || page.child("Buckets").into_iter().flat_map(|all| all.all("Bucket"));
            let names: Vec<&str> = buckets().map(|bucket| bucket.text("Name").unwrap_or_default()).collect();
            if names.contains(&"") {
                return Err(check.contradiction("a bucket has no name"));
            }
            let next = page.text("ContinuationToken").filter(|next| !next.is_empty()).map(str::to_owned);
            if next.is_some() && next == token {
                return Err(check.contradiction("its marker for the next page is that of its own request"));
            }
            let entries = PageEntries { lists: [names, Vec::new()], ..PageEntries::default() };
            let followed = orders.check("ListBuckets", token.as_ref(), next.as_ref(), &entries);
            followed.map_err(|what| check.contradiction(&what))?;
            found.extend(buckets().map(|bucket| BucketInfo {
                name: bucket.owned("Name"),
                created: bucket.time("CreationDate").unwrap_or_default(),
            }));
            token = next;
            if token.is_none() {
                return Ok(found);
            }
        }
        Err(StoreError::new("ListBuckets", "", None, code::MALFORMED, Some(200))
            .with_message(format!("the listing of buckets has no end: {MAX_BUCKET_PAGES} pages were read")))
    }

    async fn abort_rules(&self, bucket: &str) -> Result<Vec<AbortRule>> {
        let request = self.request("GET", "GetBucketLifecycleConfiguration", bucket, None).query_flag("lifecycle");
        let reply = match self.call(&request, METADATA_TIMEOUT).await {
            Err(error) if error.code == "NoSuchLifecycleConfiguration" => return Ok(Vec::new()),
            reply => reply?,
        };
        let configuration = reply.document(request.context, &["LifecycleConfiguration"])?;
        let enabled = configuration.all("Rule").filter(|rule| rule.text("Status") == Some("Enabled"));
        let rules = enabled.filter_map(|rule| {
            let days = rule.child("AbortIncompleteMultipartUpload")?.value("DaysAfterInitiation")?;
            // Three places in the versions of the format.
            let filter = rule.child("Filter");
            let both = filter.and_then(|filter| filter.child("And"));
            let prefix = [both, filter, Some(rule)].into_iter().flatten().find_map(|holder| holder.text("Prefix"));
            Some(AbortRule { prefix: prefix.unwrap_or_default().to_owned(), days })
        });
        Ok(rules.collect())
    }

    async fn create_bucket(&self, bucket: &str) -> Result<()> {
        let region = self.client(bucket).region.clone();
        let mut request = self.request("PUT", "CreateBucket", bucket, None);
        // Other services define their own regions, and most have none.
        if self.is_aws() && region != DEFAULT_REGION {
            let mut constraint = String::new();
            push_text(&mut constraint, "LocationConstraint", &region);
            request = request.xml_body(document("CreateBucketConfiguration", &constraint));
        }
        self.call(&request, METADATA_TIMEOUT).await?;
        Ok(())
    }

    async fn delete_bucket(&self, bucket: &str) -> Result<()> {
        self.call(&self.request("DELETE", "DeleteBucket", bucket, None), METADATA_TIMEOUT).await?;
        Ok(())
    }

    async fn list_versions(&self, request: &VersionsRequest) -> Result<VersionsPage> {
        let after = request.after.as_ref();
        let asked = self
            .request("GET", "ListObjectVersions", &request.bucket, None)
            .query_flag("versions")
            .query("prefix", request.prefix.as_str())
            .query("key-marker", after.map(|(key, _)| key.as_str()))
            .query("version-id-marker", after.and_then(|(_, id)| id.as_deref()))
            .query("encoding-type", "url");
        let reply = self.call(&asked, METADATA_TIMEOUT).await?;
        let page = reply.document(asked.context, &["ListVersionsResult"])?;
        let versions = page.all("Version").map(|version| parse_version(&page, version, false));
        let markers = page.all("DeleteMarker").map(|marker| parse_version(&page, marker, true));
        let next = (page.value("IsTruncated") == Some(true)).then(|| {
            (parse_key(&page, page.text("NextKeyMarker")), page.text("NextVersionIdMarker").map(str::to_owned))
        });
        let listed = VersionsPage { versions: versions.chain(markers).collect(), next };
        check_page(&page, &listed, request, &self.page_orders)?;
        Ok(listed)
    }

    async fn delete_many(&self, bucket: &str, objects: &[Removal]) -> Result<Vec<Option<Result<RemovedObject>>>> {
        let request = self.request("POST", "DeleteObjects", bucket, None);
        let request = request
            .query_flag("delete")
            .xml_body(document("Delete", &delete_document(objects)))
            .with_crc32()
            .with_md5();
        let reply = self.call(&request, BATCH_TIMEOUT).await?;
        let answer = reply.document(request.context, &["DeleteResult"])?;
        let find = |key: Option<&str>, version: Option<&str>| {
            objects.iter().position(|object| {
                Some(object.key.as_str()) == key && (object.version.is_none() || object.version.as_deref() == version)
            })
        };
        let mut found: Vec<Option<Result<RemovedObject>>> = objects.iter().map(|_| None).collect();
        for (n, removed) in answer.all("Deleted").enumerate() {
            let (key, version) = (removed.text("Key"), removed.text("VersionId"));
            // The answers nearly always have the order of the request.
            let same = |object: &Removal| Some(object.key.as_str()) == key && object.version.is_none();
            let index = if objects.get(n).is_some_and(same) { Some(n) } else { find(key, version) };
            let is_marker = removed.value("DeleteMarker") == Some(true);
            let marker = removed.text("DeleteMarkerVersionId").filter(|_| is_marker);
            if let Some(slot) = index.and_then(|index| found.get_mut(index)) {
                *slot = Some(Ok(RemovedObject { marker: marker.map(str::to_owned) }));
            }
        }
        for refused in answer.all("Error") {
            let key = refused.text("Key");
            let code = refused.text("Code").unwrap_or("Unknown");
            let error =
                StoreError::new("DeleteObjects", bucket, key, code, None).with_message(refused.owned("Message"));
            if let Some(slot) = find(key, refused.text("VersionId")).and_then(|index| found.get_mut(index)) {
                *slot = Some(Err(error));
            }
        }
        Ok(found)
    }

    async fn presign(&self, object: ObjectRef<'_>, put: bool, seconds: u64) -> Result<String> {
        let (method, operation) = if put { ("PUT", "PutObject") } else { ("GET", "GetObject") };
        let request = self
            .request(method, operation, object.bucket, Some(object.key))
            .query("versionId", object.version.filter(|_| !put));
        if seconds > MAX_PRESIGN_SECONDS {
            let error = request.context.error("InvalidRequest", None);
            return Err(error.with_message("a presigned address is valid for a week at most"));
        }
        let request = &request;
        self.in_region(request, METADATA_TIMEOUT, |client| async move { client.presign(request, seconds).await }).await
    }
}
