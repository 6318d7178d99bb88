//! Requests that read: objects, their metadata and listings.

use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_s3::operation::head_object::HeadObjectOutput;
use aws_sdk_s3::operation::list_objects_v2::ListObjectsV2Output;
use aws_sdk_s3::types::{
    ChecksumMode, EncodingType, GlacierJobParameters, RestoreRequest, ServerSideEncryptionConfiguration, Tier,
};

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
use crate::s3::by_sdk::{ShortAnswer, fetch_by_sdk, part_number};
use crate::s3::convert::{
    answers_range, decode_key, facts_of_headers, object_meta, query, quote, seconds, size, unquote,
};
use crate::s3::failures::{failure, malformed_answer};
use crate::s3::fast_path::{ErrorContext, RequestHeaders};
use crate::s3::stored_form::{FetchAnswer, Form, transformation_error};
use crate::store::{FetchedObject, ObjectRead, ObjectReadExt, ObjectStore as _};
use crate::types::{ListPage, ListRequest, ListedObject, ObjectMeta, ObjectRef, PinnedObject, Range};

/// Compares a page with what it states of itself, with the request, and with the page before.
fn held_against_request(
    page: &ListObjectsV2Output,
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
    stated.bucket_is(page.name())?;
    stated.echoes("prefix", page.prefix(), Some(&request.prefix))?;
    stated.echoes("delimiter", page.delimiter(), request.delimiter.as_deref())?;
    // versitygw states the key to begin after as a token too.
    let token = request.continuation.as_deref().or(request.start_after.as_deref());
    stated.echoes("continuation token", page.continuation_token(), token)?;
    if request.continuation.is_none() {
        stated.echoes("start-after", page.start_after(), request.start_after.as_deref())?;
    }
    stated.encoding(page.encoding_type().map(EncodingType::as_str))?;
    stated.counts(page.key_count(), page.max_keys())?;
    let next = page.next_continuation_token();
    stated.ends(page.is_truncated(), next, next == request.continuation.as_deref())?;
    if page.contents().iter().any(|object| object.size().is_none_or(|size| size < 0)) {
        return Err(stated.contradiction("an entry has no size"));
    }
    if page.contents().iter().any(|object| object.last_modified().is_none()) {
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

/// The headers of a customer's key.
const CUSTOMER_KEY: [&str; 3] = [
    "x-amz-server-side-encryption-customer-algorithm",
    "x-amz-server-side-encryption-customer-key",
    "x-amz-server-side-encryption-customer-key-md5",
];

impl S3Store {
    /// GET of an object in one form.
    async fn fetch_as(&self, source: &PinnedObject, range: Option<Range>, form: Form) -> Result<FetchAnswer> {
        let (bucket, key) = (source.bucket.as_str(), source.key.as_str());
        let about = ErrorContext { operation: "GetObject", bucket, key };
        self.in_region("GetObject", bucket, Some(key), SHORT, async |regional| {
            let Some(bucket_endpoint) = regional.fast_path.bucket_endpoint(bucket, key).await else {
                let (meta, content_range, has_length, body) =
                    Box::pin(fetch_by_sdk(&regional.client, about, source, range, form)).await?;
                return Ok(FetchAnswer { meta, content_range, has_length, has_end: has_length, body });
            };
            let mut headers = RequestHeaders::default();
            headers.add("if-match", source.if_match.as_deref().map(quote));
            headers.add("range", range.map(|range| range.header()));
            headers.add("accept-encoding", Some(form.header().to_owned()));
            // A range has no checksum.
            headers.add("x-amz-checksum-mode", range.is_none().then(|| "ENABLED".to_owned()));
            headers.add_all(self.options.headers("GetObject"));
            let version = source.version_id.as_deref().map(|id| format!("?versionId={}", query(id)));
            let answer =
                regional.fast_path.get(&bucket_endpoint, about, &version.unwrap_or_default(), &headers).await?;
            let content_range = answer.headers.get("content-range").map(str::to_owned);
            let has_length = answer.headers.get("content-length").is_some();
            let has_end = has_length || answer.headers.get("transfer-encoding").is_some();
            let meta = facts_of_headers(&answer.headers);
            Ok(FetchAnswer { meta, content_range, has_length, has_end, body: answer.body })
        })
        .await
    }
}

#[async_trait]
impl ObjectRead for S3Store {
    async fn head_bucket(&self, bucket: &str) -> Result<()> {
        let answer = self
            .in_bucket_region("HeadBucket", bucket, None, SHORT, async |client| {
                client.head_bucket().bucket(bucket).send().await.map_err(|e| failure("HeadBucket", bucket, None, &e))
            })
            .await;
        match answer {
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
        let bucket = request.bucket.as_str();
        let page = self
            .in_bucket_region("ListObjectsV2", bucket, None, SHORT, async |client| {
                client
                    .list_objects_v2()
                    .bucket(bucket)
                    .prefix(&request.prefix)
                    .set_delimiter(request.delimiter.clone())
                    .set_start_after(request.start_after.clone().filter(|_| request.continuation.is_none()))
                    .set_continuation_token(request.continuation.clone())
                    .set_max_keys(request.max_keys)
                    .encoding_type(EncodingType::Url)
                    .send()
                    .await
                    .map_err(|e| failure("ListObjectsV2", bucket, None, &e))
            })
            .await?;
        // A service that ignores the requested encoding omits it from the answer.
        let encoded = page.encoding_type() == Some(&EncodingType::Url);
        let key = |raw: &str| if encoded { decode_key(raw) } else { raw.to_owned() };
        let objects: Vec<ListedObject> = page
            .contents()
            .iter()
            .map(|object| ListedObject {
                key: key(object.key().unwrap_or_default()),
                size: size(object.size()),
                etag: unquote(object.e_tag()),
                last_modified: seconds(object.last_modified()),
                storage_class: object.storage_class().map(|class| class.as_str().to_owned()),
                refusal: None,
            })
            .collect();
        let common_prefixes: Vec<String> =
            page.common_prefixes().iter().map(|group| key(group.prefix().unwrap_or_default())).collect();
        let continuation =
            page.next_continuation_token().filter(|_| page.is_truncated() == Some(true)).map(str::to_owned);
        let listed = ListPage { objects, common_prefixes, continuation };
        held_against_request(&page, &listed, request, &self.orders)?;
        Ok(listed)
    }

    async fn head(&self, object: ObjectRef<'_>, part: Option<u32>) -> Result<ObjectMeta> {
        let ObjectRef { bucket, key, version } = object;
        let head = async |keyless: bool| {
            self.in_bucket_region("HeadObject", bucket, Some(key), SHORT, async |client| {
                client
                    .head_object()
                    .bucket(bucket)
                    .key(key)
                    .set_version_id(version.map(str::to_owned))
                    .set_part_number(part.map(part_number))
                    .checksum_mode(ChecksumMode::Enabled)
                    .customize()
                    .mutate_request(move |http| {
                        for name in CUSTOMER_KEY.iter().filter(|_| keyless) {
                            http.headers_mut().remove(*name);
                        }
                    })
                    .send()
                    .await
                    .map_err(|e| failure("HeadObject", bucket, Some(key), &e))
            })
            .await
        };
        // A size that a proxy has removed is not zero.
        let with_size = |head: HeadObjectOutput| match head.content_length() {
            Some(_) => Ok(object_meta(&head)),
            None => Err(malformed_answer("HeadObject", bucket, key, "Content-Length")),
        };
        match head(false).await {
            Ok(head) => with_size(head),
            // A customer's key is refused for objects without one.
            Err(error) if error.status == Some(400) && self.options.customer_key.is_some() => {
                with_size(head(true).await?)
            }
            Err(error) if is_mute(&error) => {
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
                    Ok(_) if error.status == Some(400) => with_size(head(false).await?),
                    _ => Err(error),
                }
            }
            Err(error) => Err(error),
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
                    .with_message(format!("{} was asked for, and {came} came, {expected} bytes", range.header())));
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
        let answer = self
            .in_bucket_region("GetBucketEncryption", bucket, None, SHORT, async |client| {
                client
                    .get_bucket_encryption()
                    .bucket(bucket)
                    .send()
                    .await
                    .map_err(|e| failure("GetBucketEncryption", bucket, None, &e))
            })
            .await;
        match answer {
            Ok(answer) => {
                let rules = answer.server_side_encryption_configuration().map(ServerSideEncryptionConfiguration::rules);
                let default = rules.unwrap_or_default().iter().find_map(|rule| {
                    Some(rule.apply_server_side_encryption_by_default()?.sse_algorithm().as_str().to_owned())
                });
                Ok(default.map_or(BucketEncryption::None, BucketEncryption::Default))
            }
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
        let ObjectRef { bucket, key, version } = object;
        let job = GlacierJobParameters::builder().tier(Tier::from(tier)).build();
        let job = job.map_err(|error| {
            StoreError::new("RestoreObject", bucket, Some(key), "InvalidRequest", None).with_message(error.to_string())
        })?;
        let request =
            RestoreRequest::builder().days(i32::try_from(days).unwrap_or(i32::MAX)).glacier_job_parameters(job).build();
        // The future is boxed: its state is many times larger than that of nearly all requests.
        let answer = Box::pin(self.in_bucket_region("RestoreObject", bucket, Some(key), SHORT, async |client| {
            client
                .restore_object()
                .bucket(bucket)
                .key(key)
                .set_version_id(version.map(str::to_owned))
                .restore_request(request.clone())
                .send()
                .await
                .map_err(|e| failure("RestoreObject", bucket, Some(key), &e))
        }))
        .await;
        match answer {
            Err(error) if error.code != "RestoreAlreadyInProgress" => Err(error),
            _ => Ok(()),
        }
    }

    fn forget(&self, _source: &PinnedObject) {}

    async fn get_tags(&self, object: ObjectRef<'_>) -> Result<Vec<(String, String)>> {
        let ObjectRef { bucket, key, version } = object;
        let answer = self
            .in_bucket_region("GetObjectTagging", bucket, Some(key), SHORT, async |client| {
                client
                    .get_object_tagging()
                    .bucket(bucket)
                    .key(key)
                    .set_version_id(version.map(str::to_owned))
                    .customize()
                    .interceptor(ShortAnswer)
                    .send()
                    .await
                    .map_err(|e| failure("GetObjectTagging", bucket, Some(key), &e))
            })
            .await?;
        Ok(answer.tag_set().iter().map(|tag| (tag.key().to_owned(), tag.value().to_owned())).collect())
    }
}
