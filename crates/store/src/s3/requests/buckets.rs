//! Requests about whole buckets, versions of objects, removals of up to 1,000 objects, and presigned addresses.

use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_s3::operation::list_object_versions::ListObjectVersionsOutput;
use aws_sdk_s3::presigning::PresigningConfig;
use aws_sdk_s3::types::{BucketLocationConstraint, CreateBucketConfiguration, Delete, EncodingType, ObjectIdentifier};
use md5::{Digest as _, Md5};

use super::SHORT;
use super::order::{Entries, ListingOrders};
use super::stated::StatedPage;
use crate::checksum::base64;
use crate::error::Result;
use crate::error::StoreError;
use crate::error::classify::code;
use crate::s3::S3Store;
use crate::s3::convert::{decode_key, quote, seconds, size, unquote};
use crate::s3::failures::failure;
use crate::store::BucketService;
use crate::types::{
    BucketInfo, ListedObject, ListedVersion, ObjectRef, Removal, RemovedObject, VersionsPage, VersionsRequest,
};

/// Largest number of pages of buckets: an account has at most a million, a thousand to a page.
const BUCKET_PAGES: usize = 1000;
/// Time limit of a request with a thousand keys.
const MANY: Duration = Duration::from_mins(5);
/// The region of a bucket if none is named.
const FIRST_REGION: &str = "us-east-1";

/// Compares a page of versions with what it states of itself, with the request, and with the page before.
fn held_against_request(
    page: &ListObjectVersionsOutput,
    listed: &VersionsPage,
    request: &VersionsRequest,
    orders: &ListingOrders,
) -> Result<()> {
    let VersionsRequest { bucket, prefix, after } = request;
    let stated = StatedPage {
        operation: "ListObjectVersions",
        bucket,
        prefix,
        most: None,
        entries: listed.versions.len(),
        groups: page.common_prefixes().len(),
    };
    stated.bucket_is(page.name())?;
    stated.echoes("prefix", page.prefix(), Some(prefix))?;
    stated.echoes("delimiter", page.delimiter(), None)?;
    stated.echoes("key marker", page.key_marker(), after.as_ref().map(|(key, _)| key.as_str()))?;
    let id = after.as_ref().and_then(|(_, id)| id.as_deref());
    stated.echoes("version id marker", page.version_id_marker(), id)?;
    stated.encoding(page.encoding_type().map(EncodingType::as_str))?;
    stated.counts(None, page.max_keys())?;
    stated.ends(page.is_truncated(), page.next_key_marker(), listed.next == *after)?;
    if page.versions().iter().any(|version| version.size().is_none_or(|size| size < 0)) {
        return Err(stated.contradiction("an entry has no size"));
    }
    if let Some(group) = page.common_prefixes().first() {
        stated.check_group(group.prefix().unwrap_or_default(), None)?;
    }
    listed.versions.iter().try_for_each(|version| stated.belongs(&version.object.key))?;
    let keys = |is_marker| {
        let versions = listed.versions.iter().filter(move |version| version.is_delete_marker == is_marker);
        versions.map(|version| version.object.key.as_str()).collect()
    };
    let ids = listed.versions.iter().map(|version| version.version_id.as_str()).collect();
    let entries = Entries { lists: [keys(false), keys(true)], ids, repeats_second: false };
    let asked = ("ListObjectVersions", bucket, prefix);
    orders.follow(asked, after.as_ref(), listed.next.as_ref(), &entries).map_err(|what| stated.contradiction(&what))
}

#[async_trait]
impl BucketService for S3Store {
    async fn list_buckets(&self) -> Result<Vec<BucketInfo>> {
        let (mut found, orders) = (Vec::new(), ListingOrders::default());
        let mut token: Option<String> = None;
        for _ in 0..BUCKET_PAGES {
            let page = self
                .in_bucket_region("ListBuckets", "", None, SHORT, async |client| {
                    client
                        .list_buckets()
                        .set_continuation_token(token.clone())
                        .send()
                        .await
                        .map_err(|e| failure("ListBuckets", "", None, &e))
                })
                .await?;
            let stated = StatedPage { operation: "ListBuckets", ..StatedPage::default() };
            let names: Vec<&str> = page.buckets().iter().map(|bucket| bucket.name().unwrap_or_default()).collect();
            if names.contains(&"") {
                return Err(stated.contradiction("a bucket has no name"));
            }
            let next = page.continuation_token().filter(|next| !next.is_empty()).map(str::to_owned);
            if next.is_some() && next == token {
                return Err(stated.contradiction("it names its own beginning as that of the next one"));
            }
            let entries = Entries { lists: [names, Vec::new()], ..Entries::default() };
            let followed = orders.follow("ListBuckets", token.as_ref(), next.as_ref(), &entries);
            followed.map_err(|what| stated.contradiction(&what))?;
            found.extend(page.buckets().iter().map(|bucket| BucketInfo {
                name: bucket.name().unwrap_or_default().to_owned(),
                created: seconds(bucket.creation_date()),
            }));
            token = next;
            if token.is_none() {
                return Ok(found);
            }
        }
        Err(StoreError::new("ListBuckets", "", None, code::MALFORMED, Some(200))
            .with_message(format!("the listing of buckets has no end: {BUCKET_PAGES} pages were read")))
    }

    async fn create_bucket(&self, bucket: &str) -> Result<()> {
        let region = self.regional(bucket).name.clone();
        // Other services define their own regions, and most have none.
        let constraint = (self.is_aws() && region != FIRST_REGION).then(|| {
            CreateBucketConfiguration::builder()
                .location_constraint(BucketLocationConstraint::from(region.as_str()))
                .build()
        });
        self.in_bucket_region("CreateBucket", bucket, None, SHORT, async |client| {
            client
                .create_bucket()
                .bucket(bucket)
                .set_create_bucket_configuration(constraint.clone())
                .send()
                .await
                .map_err(|e| failure("CreateBucket", bucket, None, &e))
        })
        .await?;
        Ok(())
    }

    async fn delete_bucket(&self, bucket: &str) -> Result<()> {
        self.in_bucket_region("DeleteBucket", bucket, None, SHORT, async |client| {
            client.delete_bucket().bucket(bucket).send().await.map_err(|e| failure("DeleteBucket", bucket, None, &e))
        })
        .await?;
        Ok(())
    }

    async fn list_versions(&self, request: &VersionsRequest) -> Result<VersionsPage> {
        let VersionsRequest { bucket, prefix, after } = request;
        let (key_marker, id_marker) = after.clone().map_or((None, None), |(key, id)| (Some(key), id));
        let page = self
            .in_bucket_region("ListObjectVersions", bucket, None, SHORT, async |client| {
                client
                    .list_object_versions()
                    .bucket(bucket)
                    .prefix(prefix)
                    .set_key_marker(key_marker.clone())
                    .set_version_id_marker(id_marker.clone())
                    .encoding_type(EncodingType::Url)
                    .send()
                    .await
                    .map_err(|e| failure("ListObjectVersions", bucket, None, &e))
            })
            .await?;
        let encoded = page.encoding_type() == Some(&EncodingType::Url);
        let key = |raw: &str| if encoded { decode_key(raw) } else { raw.to_owned() };
        let mut versions: Vec<ListedVersion> = page
            .versions()
            .iter()
            .map(|version| ListedVersion {
                object: ListedObject {
                    key: key(version.key().unwrap_or_default()),
                    size: size(version.size()),
                    etag: unquote(version.e_tag()),
                    last_modified: seconds(version.last_modified()),
                    storage_class: version.storage_class().map(|class| class.as_str().to_owned()),
                    refusal: None,
                },
                version_id: version.version_id().unwrap_or("null").to_owned(),
                is_latest: version.is_latest() == Some(true),
                is_delete_marker: false,
            })
            .collect();
        versions.extend(page.delete_markers().iter().map(|marker| ListedVersion {
            object: ListedObject {
                key: key(marker.key().unwrap_or_default()),
                size: 0,
                etag: String::new(),
                last_modified: seconds(marker.last_modified()),
                storage_class: None,
                refusal: None,
            },
            version_id: marker.version_id().unwrap_or("null").to_owned(),
            is_latest: marker.is_latest() == Some(true),
            is_delete_marker: true,
        }));
        let next = (page.is_truncated() == Some(true)).then(|| {
            (page.next_key_marker().map(key).unwrap_or_default(), page.next_version_id_marker().map(str::to_owned))
        });
        let listed = VersionsPage { versions, next };
        held_against_request(&page, &listed, request, &self.orders)?;
        Ok(listed)
    }

    async fn delete_many(&self, bucket: &str, objects: &[Removal]) -> Result<Vec<Option<Result<RemovedObject>>>> {
        const OPERATION: &str = "DeleteObjects";
        let wrong = |why: &dyn std::fmt::Display| {
            StoreError::new(OPERATION, bucket, None, "InvalidRequest", None).with_message(why.to_string())
        };
        let named: Vec<ObjectIdentifier> = objects
            .iter()
            .map(|object| {
                ObjectIdentifier::builder()
                    .key(&object.key)
                    .set_version_id(object.version.clone())
                    .set_e_tag(object.etag.as_deref().map(quote))
                    .build()
            })
            .collect::<std::result::Result<_, _>>()
            .map_err(|e| wrong(&e))?;
        let delete = Delete::builder().set_objects(Some(named)).quiet(false).build().map_err(|e| wrong(&e))?;
        let answer = self
            .in_bucket_region(OPERATION, bucket, None, MANY, async |client| {
                client
                    .delete_objects()
                    .bucket(bucket)
                    .delete(delete.clone())
                    .customize()
                    // Older services require this digest, and none of those that the SDK sends.
                    .mutate_request(|http| {
                        if let Some(digest) = http.body().bytes().map(|bytes| base64(&Md5::digest(bytes))) {
                            let _ = http.headers_mut().try_insert("content-md5", digest);
                        }
                    })
                    .send()
                    .await
                    .map_err(|e| failure(OPERATION, bucket, None, &e))
            })
            .await?;
        let at = |key: Option<&str>, version: Option<&str>| {
            objects.iter().position(|object| {
                Some(object.key.as_str()) == key && (object.version.is_none() || object.version.as_deref() == version)
            })
        };
        let mut found: Vec<Option<Result<RemovedObject>>> = objects.iter().map(|_| None).collect();
        for (n, removed) in answer.deleted().iter().enumerate() {
            // The answers nearly always have the order of the request.
            let same = |object: &Removal| Some(object.key.as_str()) == removed.key() && object.version.is_none();
            let place =
                if objects.get(n).is_some_and(same) { Some(n) } else { at(removed.key(), removed.version_id()) };
            let marker = removed.delete_marker_version_id().filter(|_| removed.delete_marker() == Some(true));
            if let Some(slot) = place.and_then(|place| found.get_mut(place)) {
                *slot = Some(Ok(RemovedObject { marker: marker.map(str::to_owned) }));
            }
        }
        for refused in answer.errors() {
            let key = refused.key();
            let error = StoreError::new(OPERATION, bucket, key, refused.code().unwrap_or("Unknown"), None)
                .with_message(refused.message().unwrap_or_default());
            if let Some(slot) = at(key, refused.version_id()).and_then(|place| found.get_mut(place)) {
                *slot = Some(Err(error));
            }
        }
        Ok(found)
    }

    async fn presign(&self, object: ObjectRef<'_>, put: bool, seconds: u64) -> Result<String> {
        let ObjectRef { bucket, key, version } = object;
        let operation = if put { "PutObject" } else { "GetObject" };
        let wrong = |why: &dyn std::fmt::Display| {
            StoreError::new(operation, bucket, Some(key), "InvalidRequest", None).with_message(why.to_string())
        };
        let expires = PresigningConfig::expires_in(Duration::from_secs(seconds)).map_err(|e| wrong(&e))?;
        let signed = self.in_bucket_region(operation, bucket, Some(key), SHORT, async |client| {
            let signed = if put {
                let request = client.put_object().bucket(bucket).key(key);
                request.presigned(expires.clone()).await.map_err(|e| failure(operation, bucket, Some(key), &e))?
            } else {
                let request = client.get_object().bucket(bucket).key(key).set_version_id(version.map(str::to_owned));
                request.presigned(expires.clone()).await.map_err(|e| failure(operation, bucket, Some(key), &e))?
            };
            Ok(signed.uri().to_owned())
        });
        Box::pin(signed).await
    }
}
