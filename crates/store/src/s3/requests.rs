//! The trait's requests, one call each: the SDK's, or for copies, GETs and PUTs one of [`super::fast_path`].

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_s3::operation::head_object::HeadObjectOutput;
use aws_sdk_s3::operation::list_parts::ListPartsOutput;
use aws_sdk_s3::types::{
    ChecksumMode, ChecksumType, CompletedMultipartUpload, EncodingType, StorageClass, Tag, Tagging,
};
use bytes::Bytes;
use tokio::time::Instant;

use super::address::without_userinfo;
use super::by_sdk::{
    ShortAnswer, copy_by_sdk, copy_part_by_sdk, expires, fetch_by_sdk, part_number, put_by_sdk, put_part_by_sdk,
    with_attributes,
};
use super::convert::{
    answers_range, chain, checksum, checksum_header, completed_part, copy_source, decoded, facts_of_headers, failure,
    malformed, object_meta, of_other_root, parts_of, query, quoted, sdk_algorithm, sdk_kind, seconds, size, strongest,
    tagging, unquoted, upload_id_of,
};
use super::fast_path::{BodyReader, ErrorContext, RequestHeaders};
use super::{Patience, S3Store, time_limit};
use crate::ChecksumAlgorithm;
use crate::body::{Body, Source};
use crate::budget::ByteThrottle;
use crate::error::StoreError;
use crate::error::classify::code;
use crate::store::{Fetched, MultipartUpload, ObjectRead, ObjectReadExt, ObjectStore, ObjectWrite, Result};
use crate::types::{
    CompleteUpload, Copied, CopyTarget, CreateUpload, Digests, ListPage, ListRequest, ListedObject, ObjectMeta,
    ObjectRef, PartInfo, PartsPage, PinnedObject, PutObject, Range, UploadInfo, UploadRef, Written,
};

/// For requests that move no object bytes.
const SHORT: Duration = Duration::from_mins(1);
/// Complete may take minutes while the service sends white space.
const COMPLETE: Duration = Duration::from_mins(15);
/// Pages of open uploads: a million of them. A service whose markers go in a circle would be asked for ever.
const UPLOAD_PAGES: usize = 1000;
/// A body from which nothing comes for so long is given up.
const STALLED: Duration = Duration::from_secs(30);
/// In so much time spent waiting so many bytes must come: else it is not worth going on, and another connection may be better.
const TRICKLE: (Duration, u64) = (Duration::from_mins(1), 64 << 10);

/// The `ETag` of what was written, which every success holds.
fn etag(answered: Option<&str>, operation: &'static str, bucket: &str, key: &str) -> Result<String> {
    Some(unquoted(answered)).filter(|etag| !etag.is_empty()).ok_or_else(|| malformed(operation, bucket, key, "ETag"))
}

/// HEAD errors carry no body, hence no code.
fn is_mute(error: &StoreError) -> bool {
    matches!(error.code.as_str(), "BadRequest" | "Forbidden")
}

/// Parts as the SDK has read them, or as we have.
enum Listed {
    Known(Box<ListPartsOutput>),
    Read(PartsPage),
}

/// What both ways of copying say of the source.
fn copied_from(source: &PinnedObject) -> RequestHeaders {
    let mut headers = RequestHeaders::default();
    headers.add("x-amz-copy-source", Some(copy_source(source)));
    headers.add("x-amz-copy-source-if-match", source.if_match.as_deref().map(quoted));
    headers
}

/// What both ways of writing say of the body.
fn body_headers(content_type: Option<&String>, digests: &Digests) -> RequestHeaders {
    let mut headers = RequestHeaders::default();
    headers.add("content-type", Some(content_type.map_or("application/octet-stream", String::as_str).to_owned()));
    headers.add("content-md5", digests.md5.clone());
    if let Some((algorithm, value)) = &digests.checksum {
        headers.add(checksum_header(*algorithm), Some(value.clone()));
    }
    headers
}

/// What an object is written with.
fn object_headers(object: &PutObject) -> RequestHeaders {
    let attributes = &object.attributes;
    let mut headers = body_headers(attributes.content_type.as_ref(), &object.digests);
    headers.add("content-encoding", attributes.content_encoding.clone());
    headers.add("content-language", attributes.content_language.clone());
    headers.add("content-disposition", attributes.content_disposition.clone());
    headers.add("cache-control", attributes.cache_control.clone());
    headers.add("expires", attributes.expires.clone());
    headers.add("x-amz-website-redirect-location", attributes.website_redirect.clone());
    headers.add("x-amz-tagging", tagging(&object.tags));
    headers.add("x-amz-storage-class", object.storage_class.clone());
    headers.add("if-none-match", object.if_absent.then(|| "*".to_owned()));
    headers.add("if-match", object.if_match.as_deref().map(quoted));
    for (name, value) in &attributes.metadata {
        headers.add(format!("x-amz-meta-{}", name.to_ascii_lowercase()), Some(value.clone()));
    }
    headers
}

/// A body on its way, which is watched.
struct Watched {
    bucket: String,
    key: String,
    body: BodyReader,
    throttle: ByteThrottle,
    /// Bytes that were announced, and have not come yet.
    left: u64,
    /// How long was waited for bytes, and how many came, since that was last looked at.
    waited: Duration,
    came: u64,
}

impl Watched {
    fn broken(&self, how: &str) -> StoreError {
        StoreError::new("GetObject", &self.bucket, Some(&self.key), code::TRUNCATED, Some(200)).with_message(how)
    }
}

#[async_trait]
impl Source for Watched {
    async fn read(&mut self, into: &mut Vec<u8>, at_most: usize) -> Result<usize> {
        let at_most = self.throttle.piece().map_or(at_most, |piece| at_most.min(piece));
        let since = Instant::now();
        match tokio::time::timeout(STALLED, self.body.read(into, at_most)).await {
            Err(_) => Err(self.broken("the body stalled")),
            Ok(Ok(0)) if self.left > 0 => Err(self.broken(&format!("the body ended {} bytes early", self.left))),
            Ok(Ok(came)) => {
                self.left = self.left.saturating_sub(came as u64);
                // Time that is spent on the disk, or by a limit, is not waited for the service.
                self.waited += since.elapsed();
                self.came += came as u64;
                if self.waited >= TRICKLE.0 {
                    if self.came < TRICKLE.1 && self.left > 0 {
                        let (came, seconds) = (self.came, self.waited.as_secs());
                        return Err(self.broken(&format!("the body stalled: {came} bytes came in {seconds} s")));
                    }
                    (self.waited, self.came) = (Duration::ZERO, 0);
                }
                self.throttle.received(came).await;
                Ok(came)
            }
            Ok(Err(error)) => Err(self.broken(&chain(&error))),
        }
    }
}

#[async_trait]
impl ObjectRead for S3Store {
    async fn head_bucket(&self, bucket: &str) -> Result<()> {
        let answer = self
            .at_home("HeadBucket", bucket, None, SHORT, async |client| {
                client.head_bucket().bucket(bucket).send().await.map_err(|e| failure("HeadBucket", bucket, None, &e))
            })
            .await;
        match answer {
            Ok(_) => Ok(()),
            Err(error) if error.code == "NotFound" => {
                Err(StoreError::new("HeadBucket", bucket, None, "NoSuchBucket", Some(404))
                    .with_message("there is no such bucket"))
            }
            // Ask again in a way whose answer has a body. A caller that may not list learns AccessDenied from it.
            Err(error) if is_mute(&error) => {
                let request = ListRequest { bucket: bucket.to_owned(), max_keys: Some(1), ..ListRequest::default() };
                match self.list(&request).await {
                    // Classified as what it is an answer to.
                    Err(told) => Err(StoreError {
                        message: told.message,
                        request_id: told.request_id,
                        region: told.region,
                        retry_after: told.retry_after,
                        ..StoreError::new("HeadBucket", bucket, None, &told.code, told.status)
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
            .at_home("ListObjectsV2", bucket, None, SHORT, async |client| {
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
        // A service that ignores the wish for an encoding says so by leaving it out of the answer.
        let encoded = page.encoding_type() == Some(&EncodingType::Url);
        let key = |raw: &str| if encoded { decoded(raw) } else { raw.to_owned() };
        let objects = page
            .contents()
            .iter()
            .map(|object| ListedObject {
                key: key(object.key().unwrap_or_default()),
                size: size(object.size()),
                etag: unquoted(object.e_tag()),
                last_modified: seconds(object.last_modified()),
                storage_class: object.storage_class().map(|class| class.as_str().to_owned()),
                refusal: None,
            })
            .collect();
        let common_prefixes = page.common_prefixes().iter().filter_map(|group| group.prefix()).map(key).collect();
        let continuation =
            page.next_continuation_token().filter(|_| page.is_truncated() == Some(true)).map(str::to_owned);
        // Without a token, or with the one that was sent, the listing would end early or never.
        if page.is_truncated() == Some(true) && (continuation.is_none() || continuation == request.continuation) {
            return Err(malformed("ListObjectsV2", bucket, &request.prefix, "continuation token of the next page"));
        }
        Ok(ListPage { objects, common_prefixes, continuation })
    }

    async fn head(&self, object: ObjectRef<'_>, part: Option<u32>) -> Result<ObjectMeta> {
        let ObjectRef { bucket, key, version } = object;
        let head = || {
            self.at_home("HeadObject", bucket, Some(key), SHORT, async |client| {
                client
                    .head_object()
                    .bucket(bucket)
                    .key(key)
                    .set_version_id(version.map(str::to_owned))
                    .set_part_number(part.map(part_number))
                    .checksum_mode(ChecksumMode::Enabled)
                    .send()
                    .await
                    .map_err(|e| failure("HeadObject", bucket, Some(key), &e))
            })
        };
        // A size that a proxy has dropped is not zero.
        let told = |head: HeadObjectOutput| match head.content_length() {
            Some(_) => Ok(object_meta(&head)),
            None => Err(malformed("HeadObject", bucket, key, "Content-Length")),
        };
        match head().await {
            Ok(head) => told(head),
            Err(error) if is_mute(&error) => {
                let source = PinnedObject {
                    bucket: bucket.to_owned(),
                    key: key.to_owned(),
                    version_id: version.map(str::to_owned),
                    if_match: None,
                    size: 1,
                };
                match self.get(&source, Some(Range { first: 0, last: 0 })).await {
                    Err(told) if told.status == error.status => Err(told),
                    // The way there has shown the right region.
                    Ok(_) if error.status == Some(400) => told(head().await?),
                    _ => Err(error),
                }
            }
            Err(error) => Err(error),
        }
    }

    async fn fetch(&self, source: &PinnedObject, range: Option<Range>) -> Result<Fetched> {
        let (bucket, key) = (source.bucket.as_str(), source.key.as_str());
        let about = ErrorContext { operation: "GetObject", bucket, key };
        let (mut meta, content_range, body) = self
            .in_region("GetObject", bucket, Some(key), SHORT, async |regional| {
                let Some(bucket_endpoint) = regional.fast_path.bucket_endpoint(bucket, key).await else {
                    return Box::pin(fetch_by_sdk(&regional.client, about, source, range)).await;
                };
                let mut headers = RequestHeaders::default();
                headers.add("if-match", source.if_match.as_deref().map(quoted));
                headers.add("range", range.map(|range| range.header()));
                // Of a range none is told.
                headers.add("x-amz-checksum-mode", range.is_none().then(|| "ENABLED".to_owned()));
                let version = source.version_id.as_deref().map(|id| format!("?versionId={}", query(id)));
                let answer =
                    regional.fast_path.get(&bucket_endpoint, about, &version.unwrap_or_default(), &headers).await?;
                let content_range = answer.headers.get("content-range").map(str::to_owned);
                Ok((facts_of_headers(&answer.headers), content_range, answer.body))
            })
            .await?;
        let expected = meta.size;
        if let Some(range) = range {
            let Some(whole) = answers_range(range, content_range.as_deref(), expected) else {
                let came = content_range.as_deref().unwrap_or("the whole object");
                return Err(StoreError::new("GetObject", bucket, Some(key), code::RANGE_IGNORED, None)
                    .with_message(format!("{} was asked for, and {came} came, {expected} bytes", range.header())));
            };
            (meta.size, meta.checksum) = (whole, None);
        }
        let body = Watched {
            bucket: bucket.to_owned(),
            key: key.to_owned(),
            body,
            throttle: self.throttle.clone(),
            left: expected,
            waited: Duration::ZERO,
            came: 0,
        };
        Ok(Fetched { meta, body: Body::of(body) })
    }

    async fn get_tags(&self, object: ObjectRef<'_>) -> Result<Vec<(String, String)>> {
        let ObjectRef { bucket, key, version } = object;
        let answer = self
            .at_home("GetObjectTagging", bucket, Some(key), SHORT, async |client| {
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

#[async_trait]
impl ObjectWrite for S3Store {
    async fn put_object(&self, object: &PutObject, body: Bytes) -> Result<Written> {
        let (bucket, key) = (object.bucket.as_str(), object.key.as_str());
        let about = ErrorContext { operation: "PutObject", bucket, key };
        let answer = self
            .in_region("PutObject", bucket, Some(key), Patience::to_send(body.len() as u64), async |regional| {
                let Some(bucket_endpoint) = regional.fast_path.bucket_endpoint(bucket, key).await else {
                    return Box::pin(put_by_sdk(&regional.client, about, object, &body)).await;
                };
                regional.fast_path.put(&bucket_endpoint, about, "", &object_headers(object), body.clone()).await
            })
            .await?;
        Ok(Written {
            etag: etag(answer.etag.as_deref(), "PutObject", bucket, key)?,
            version_id: answer.version_id.filter(|id| id != "null"),
            checksum: checksum(answer.checksum, answer.checksum_kind.as_ref(), answer.etag.as_deref()),
        })
    }

    async fn delete(&self, object: ObjectRef<'_>) -> Result<()> {
        let ObjectRef { bucket, key, .. } = object;
        self.at_home("DeleteObject", bucket, Some(key), SHORT, async |client| {
            client
                .delete_object()
                .bucket(bucket)
                .key(key)
                .send()
                .await
                .map_err(|e| failure("DeleteObject", bucket, Some(key), &e))
        })
        .await?;
        Ok(())
    }

    async fn delete_if(&self, object: ObjectRef<'_>, etag: &str) -> Result<()> {
        let ObjectRef { bucket, key, .. } = object;
        self.at_home("DeleteObject", bucket, Some(key), SHORT, async |client| {
            client
                .delete_object()
                .bucket(bucket)
                .key(key)
                .if_match(quoted(etag))
                .send()
                .await
                .map_err(|e| failure("DeleteObject", bucket, Some(key), &e))
        })
        .await?;
        Ok(())
    }

    async fn put_tags(&self, object: ObjectRef<'_>, tags: &[(String, String)]) -> Result<()> {
        let ObjectRef { bucket, key, .. } = object;
        let build = |e: aws_smithy_types::error::operation::BuildError| {
            StoreError::new("PutObjectTagging", bucket, Some(key), "InvalidTag", None).with_message(e.to_string())
        };
        let set: Vec<Tag> = tags
            .iter()
            .map(|(k, v)| Tag::builder().key(k).value(v).build())
            .collect::<std::result::Result<_, _>>()
            .map_err(build)?;
        let tagging = Tagging::builder().set_tag_set(Some(set)).build().map_err(build)?;
        self.at_home("PutObjectTagging", bucket, Some(key), SHORT, async |client| {
            client
                .put_object_tagging()
                .bucket(bucket)
                .key(key)
                .tagging(tagging.clone())
                .send()
                .await
                .map_err(|e| failure("PutObjectTagging", bucket, Some(key), &e))
        })
        .await?;
        Ok(())
    }

    async fn copy(&self, source: &PinnedObject, target: CopyTarget<'_>) -> Result<Written> {
        let CopyTarget { object: ObjectRef { bucket, key, .. }, storage_class, checksum: algorithm } = target;
        let about = ErrorContext { operation: "CopyObject", bucket, key };
        let answer = self
            .in_region("CopyObject", bucket, Some(key), time_limit(source.size), async |regional| {
                let Some(bucket_endpoint) = regional.fast_path.bucket_endpoint(bucket, key).await else {
                    // Boxed: its state is many times that of what nearly all requests are.
                    return Box::pin(copy_by_sdk(&regional.client, about, source, storage_class, algorithm)).await;
                };
                let mut headers = copied_from(source);
                headers.add("x-amz-storage-class", storage_class.map(str::to_owned));
                headers.add("x-amz-checksum-algorithm", algorithm.map(|sum| sum.name().to_owned()));
                regional.fast_path.copy(&bucket_endpoint, about, "", &headers, "CopyObjectResult").await
            })
            .await?;
        Ok(Written {
            etag: etag(answer.etag.as_deref(), "CopyObject", bucket, key)?,
            version_id: answer.version_id.filter(|id| id != "null"),
            checksum: checksum(answer.checksum, answer.checksum_kind.as_ref(), answer.etag.as_deref()),
        })
    }
}

#[async_trait]
impl MultipartUpload for S3Store {
    async fn create_upload(&self, upload: &CreateUpload) -> Result<String> {
        let (bucket, key) = (upload.bucket.as_str(), upload.key.as_str());
        let attributes = &upload.attributes;
        let upload_id = self
            .at_home("CreateMultipartUpload", bucket, Some(key), SHORT, async |client| {
                let answer = with_attributes!(client.create_multipart_upload(), attributes)
                    .bucket(bucket)
                    .key(key)
                    .set_tagging(tagging(&upload.tags))
                    .set_storage_class(upload.storage_class.as_deref().map(StorageClass::from))
                    .set_checksum_algorithm(upload.checksum.map(|(algorithm, _)| sdk_algorithm(algorithm)))
                    .set_checksum_type(upload.checksum.map(|(_, kind)| sdk_kind(kind)))
                    .customize()
                    .mutate_request(expires(attributes))
                    .send()
                    .await;
                match answer {
                    Ok(answer) => Ok(answer.upload_id().map(str::to_owned)),
                    Err(error) => match of_other_root(&error, &["InitiateMultipartUpload"]) {
                        Some(body) => Ok(upload_id_of(&body)),
                        None => Err(failure("CreateMultipartUpload", bucket, Some(key), &error)),
                    },
                }
            })
            .await?;
        upload_id.filter(|id| !id.is_empty()).ok_or_else(|| malformed("CreateMultipartUpload", bucket, key, "UploadId"))
    }

    async fn copy_part(&self, source: &PinnedObject, range: Range, upload: UploadRef<'_>, part: u32) -> Result<Copied> {
        let UploadRef { bucket, key, upload_id } = upload;
        let about = ErrorContext { operation: "UploadPartCopy", bucket, key };
        let answer = self
            .in_region("UploadPartCopy", bucket, Some(key), time_limit(range.len()), async |regional| {
                let Some(bucket_endpoint) = regional.fast_path.bucket_endpoint(bucket, key).await else {
                    return Box::pin(copy_part_by_sdk(&regional.client, about, source, range, upload_id, part)).await;
                };
                let mut headers = copied_from(source);
                headers.add("x-amz-copy-source-range", Some(range.header()));
                let place = format!("?partNumber={part}&uploadId={}", query(upload_id));
                regional.fast_path.copy(&bucket_endpoint, about, &place, &headers, "CopyPartResult").await
            })
            .await?;
        Ok(Copied {
            etag: etag(answer.etag.as_deref(), "UploadPartCopy", bucket, key)?,
            checksum: answer.checksum.map(|(_, value)| value),
            opaque_etag: answer.opaque_etag,
        })
    }

    async fn put_part(&self, upload: UploadRef<'_>, part: u32, body: Bytes, digests: &Digests) -> Result<Copied> {
        let UploadRef { bucket, key, upload_id } = upload;
        let about = ErrorContext { operation: "UploadPart", bucket, key };
        let answer = self
            .in_region("UploadPart", bucket, Some(key), Patience::to_send(body.len() as u64), async |regional| {
                let Some(bucket_endpoint) = regional.fast_path.bucket_endpoint(bucket, key).await else {
                    return Box::pin(put_part_by_sdk(&regional.client, about, upload_id, part, &body, digests)).await;
                };
                let query = format!("?partNumber={part}&uploadId={}", query(upload_id));
                regional
                    .fast_path
                    .put(&bucket_endpoint, about, &query, &body_headers(None, digests), body.clone())
                    .await
            })
            .await?;
        Ok(Copied {
            etag: etag(answer.etag.as_deref(), "UploadPart", bucket, key)?,
            checksum: answer.checksum.map(|(_, value)| value),
            opaque_etag: answer.opaque_etag,
        })
    }

    async fn list_parts(&self, upload: UploadRef<'_>, after: Option<u32>) -> Result<PartsPage> {
        let UploadRef { bucket, key, upload_id } = upload;
        let answer = self
            .at_home("ListParts", bucket, Some(key), SHORT, async |client| {
                let answer = client
                    .list_parts()
                    .bucket(bucket)
                    .key(key)
                    .upload_id(upload_id)
                    .set_part_number_marker(after.map(|part| part.to_string()))
                    .send()
                    .await;
                match answer {
                    Ok(answer) => Ok(Listed::Known(Box::new(answer))),
                    Err(error) => {
                        match of_other_root(&error, &["ListPartsResponse"]).and_then(|body| parts_of(&body)) {
                            Some(page) => Ok(Listed::Read(page)),
                            None => Err(failure("ListParts", bucket, Some(key), &error)),
                        }
                    }
                }
            })
            .await?;
        let answer = match answer {
            Listed::Known(answer) => answer,
            Listed::Read(page) => return Ok(page),
        };
        let parts: Vec<PartInfo> = answer
            .parts()
            .iter()
            .map(|part| PartInfo {
                number: part.part_number().and_then(|n| u32::try_from(n).ok()).unwrap_or_default(),
                size: size(part.size()),
                etag: unquoted(part.e_tag()),
                checksum: strongest!(part).map(|(_, value)| value),
            })
            .collect();
        // The last number seen serves as the marker where a service forgets to name one.
        let next = (answer.is_truncated() == Some(true))
            .then(|| answer.next_part_number_marker().and_then(|m| m.parse().ok()).or(parts.last().map(|p| p.number)))
            .flatten();
        Ok(PartsPage { parts, next })
    }

    async fn complete_upload(&self, upload: &CompleteUpload) -> Result<Written> {
        let (bucket, key) = (upload.bucket.as_str(), upload.key.as_str());
        let parts = upload.parts.iter().map(|part| completed_part(part, upload.checksum)).collect();
        let completed = CompletedMultipartUpload::builder().set_parts(Some(parts)).build();
        let whole =
            |algorithm| upload.whole.as_ref().filter(|sum| sum.algorithm == algorithm).map(|sum| sum.value.clone());
        let answer = self
            .at_home("CompleteMultipartUpload", bucket, Some(key), COMPLETE, async |client| {
                client
                    .complete_multipart_upload()
                    .bucket(bucket)
                    .key(key)
                    .upload_id(&upload.upload_id)
                    .multipart_upload(completed.clone())
                    .set_if_none_match(upload.if_absent.then(|| "*".to_owned()))
                    .set_if_match(upload.if_match.as_deref().map(quoted))
                    .set_mpu_object_size(
                        Some(i64::try_from(upload.size).unwrap_or(i64::MAX)).filter(|_| upload.size > 0),
                    )
                    .set_checksum_crc64_nvme(whole(ChecksumAlgorithm::Crc64Nvme))
                    .set_checksum_crc32_c(whole(ChecksumAlgorithm::Crc32C))
                    .set_checksum_crc32(whole(ChecksumAlgorithm::Crc32))
                    // Said again: Garage takes a CRC32 without a type for a composite one, against what was said at the start.
                    .set_checksum_type(upload.whole.as_ref().map(|_| ChecksumType::FullObject))
                    .send()
                    .await
                    .map_err(|e| failure("CompleteMultipartUpload", bucket, Some(key), &e))
            })
            .await?;
        Ok(Written {
            etag: etag(answer.e_tag(), "CompleteMultipartUpload", bucket, key)?,
            version_id: answer.version_id().filter(|id| *id != "null").map(str::to_owned),
            checksum: checksum(strongest!(answer), answer.checksum_type(), answer.e_tag()),
        })
    }

    async fn abort_upload(&self, upload: UploadRef<'_>) -> Result<()> {
        let UploadRef { bucket, key, upload_id } = upload;
        self.at_home("AbortMultipartUpload", bucket, Some(key), SHORT, async |client| {
            client
                .abort_multipart_upload()
                .bucket(bucket)
                .key(key)
                .upload_id(upload_id)
                .send()
                .await
                .map_err(|e| failure("AbortMultipartUpload", bucket, Some(key), &e))
        })
        .await?;
        Ok(())
    }

    async fn list_uploads(&self, bucket: &str, prefix: &str) -> Result<Vec<UploadInfo>> {
        let mut uploads = Vec::new();
        let (mut key_marker, mut id_marker) = (None, None);
        for _ in 0..UPLOAD_PAGES {
            let page = self
                .at_home("ListMultipartUploads", bucket, Some(prefix), SHORT, async |client| {
                    client
                        .list_multipart_uploads()
                        .bucket(bucket)
                        .prefix(prefix)
                        .set_key_marker(key_marker.clone())
                        .set_upload_id_marker(id_marker.clone())
                        .encoding_type(EncodingType::Url)
                        .send()
                        .await
                        .map_err(|e| failure("ListMultipartUploads", bucket, Some(prefix), &e))
                })
                .await?;
            let encoded = page.encoding_type() == Some(&EncodingType::Url);
            uploads.extend(page.uploads().iter().map(|upload| {
                let raw = upload.key().unwrap_or_default();
                let key = if encoded { decoded(raw) } else { raw.to_owned() };
                // SeaweedFS claims an encoding that it does not apply here: what was asked for gives it away.
                let claimed = !key.starts_with(prefix) && raw.starts_with(prefix);
                UploadInfo {
                    key: if claimed { raw.to_owned() } else { key },
                    upload_id: upload.upload_id().unwrap_or_default().to_owned(),
                    initiated: seconds(upload.initiated()),
                }
            }));
            let next = page.next_key_marker().map(|raw| if encoded { decoded(raw) } else { raw.to_owned() });
            let markers = (next, page.next_upload_id_marker().map(str::to_owned));
            let stands = markers == (key_marker, id_marker);
            if page.is_truncated() != Some(true) || markers.0.is_none() || stands {
                return Ok(uploads);
            }
            (key_marker, id_marker) = markers;
        }
        Err(StoreError::new("ListMultipartUploads", bucket, Some(prefix), code::MALFORMED, Some(200))
            .with_message(format!("the listing of open uploads has no end: {UPLOAD_PAGES} pages were read")))
    }
}

#[async_trait]
impl ObjectStore for S3Store {
    fn max_attempts(&self) -> Option<u32> {
        self.max_attempts
    }

    fn take_notes(&self, sends_bodies: bool) -> Vec<String> {
        let mut notes = std::mem::take(&mut *self.notes.lock().unwrap_or_else(PoisonError::into_inner));
        if sends_bodies && self.has_open_bodies.swap(false, Ordering::Relaxed) {
            let base = Arc::clone(&self.state.read().unwrap_or_else(PoisonError::into_inner).base);
            notes.push(format!(
                "{}: over plain HTTP, uploads are protected by checksums against damage, not by signatures against people who can change them on the way. Use https, or set payload_signing_enabled = true in the s3 section of the AWS profile (more CPU).",
                without_userinfo(base.endpoint.as_deref().unwrap_or_default())
            ));
        }
        notes
    }

    async fn refresh_credentials(&self) -> Result<()> {
        if self.options.anonymous {
            return Err(StoreError::new("RefreshCredentials", "", None, code::NO_CREDENTIALS, None));
        }
        self.reload().await;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;

    use super::*;
    use crate::budget::{Budget, BudgetLimits, Priority};

    /// Read a body of `size` bytes of which `at_a_time` come each second, and do something else for `pause` seconds between reads.
    async fn read(size: u64, at_a_time: usize, pause: u64, throttle: ByteThrottle) -> Result<u64> {
        let (ours, mut theirs) = tokio::io::duplex(1 << 20);
        tokio::spawn(async move {
            let mut left = usize::try_from(size).unwrap();
            while left > 0 && theirs.write_all(&vec![0; left.min(at_a_time)]).await.is_ok() {
                left -= left.min(at_a_time);
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        });
        let body = BodyReader::Sdk(Box::pin(ours));
        let (bucket, key) = ("bucket".to_owned(), "key".to_owned());
        let mut watched = Watched { bucket, key, body, throttle, left: size, waited: Duration::ZERO, came: 0 };
        let (mut all, mut into) = (0, Vec::new());
        while all < size {
            into.clear();
            let came = watched.read(&mut into, 1 << 16).await?;
            all += came as u64;
            tokio::time::sleep(Duration::from_secs(pause)).await;
        }
        Ok(all)
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_trickles_is_given_up_and_a_slow_one_is_not() {
        let free = ByteThrottle::default;
        assert_eq!(read(300_000, 2000, 0, free()).await.unwrap(), 300_000);
        assert_eq!(read(60, 1, 0, free()).await.unwrap(), 60, "little is left of it");
        assert_eq!(
            read(6000, 10, 60, free()).await.unwrap(),
            6000,
            "what the reader does meanwhile is not the service's fault"
        );
        assert_eq!(read(1 << 20, 10, 0, free()).await.unwrap_err().code, code::TRUNCATED);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_comes_at_the_pace_of_the_limit_however_slow_that_is() {
        let budget = Budget::new(BudgetLimits { max_bandwidth: Some(100), ..BudgetLimits::default() });
        let start = Instant::now();

        assert_eq!(read(20_000, 1 << 20, 0, budget.throttle(Priority::Bulk)).await.unwrap(), 20_000);

        // What came last is counted, and waited for by what comes next.
        let seconds = start.elapsed().as_secs();
        assert!((158..=201).contains(&seconds), "{seconds} s");
    }
}
