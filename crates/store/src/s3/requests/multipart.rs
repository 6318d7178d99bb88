//! Requests of multipart uploads: creating, parts, completing, aborting, listing.

use async_trait::async_trait;
use aws_sdk_s3::operation::list_multipart_uploads::ListMultipartUploadsOutput;
use aws_sdk_s3::types::{ChecksumType, CompletedMultipartUpload, EncodingType, ServerSideEncryption, StorageClass};
use bytes::Bytes;

use super::order::{Entries, ListingOrders};
use super::stated::StatedPage;
use super::{COMPLETE, PartsReply, SHORT, UPLOAD_PAGES, etag};
use crate::ChecksumAlgorithm;
use crate::body::Body;
use crate::error::Result;
use crate::error::StoreError;
use crate::error::classify::code;
use crate::properties::Encryption;
use crate::s3::by_sdk::{copy_part_by_sdk, expires, put_part_by_sdk, with_attributes, with_headers};
use crate::s3::convert::{
    checksum, completed_part, decode_key, of_other_root, parts_of, query, quote, sdk_algorithm, sdk_kind, seconds,
    size, strongest, tagging, unquote, upload_id_of,
};
use crate::s3::failures::{failure, malformed_answer};
use crate::s3::fast_path::ErrorContext;
use crate::s3::headers::{body_headers, copied_from};
use crate::s3::{Patience, S3Store, time_limit};
use crate::store::MultipartUpload;
use crate::store::put_whole_part;
use crate::types::{
    CompleteUpload, CreateUpload, Digests, PartInfo, PartsPage, PinnedObject, Range, UploadInfo, UploadRef,
    WrittenObject, WrittenPart,
};

/// Largest number of a part.
const LARGEST_PART: u32 = 10_000;

/// Checks that parts ascend, that they follow the one that was asked for, and that a page that is not the last one has
/// a next one.
fn held_together(stated: &StatedPage<'_>, page: &PartsPage, after: Option<u32>, truncated: bool) -> Result<()> {
    let after = after.unwrap_or_default();
    let mut last = after;
    for part in &page.parts {
        // SeaweedFS lists a part twice that was sent twice.
        if part.number < last || part.number == after || part.number > LARGEST_PART {
            return Err(stated.contradiction(&format!("part {} follows part {last}", part.number)));
        }
        if part.etag.is_empty() {
            return Err(stated.contradiction(&format!("part {} has no ETag", part.number)));
        }
        last = part.number;
    }
    match page.next {
        Some(next) if next < last => Err(stated.contradiction("the next page begins before the last part of this one")),
        Some(next) if next == after => Err(stated.contradiction("it names its own beginning as that of the next one")),
        None if truncated => Err(stated.contradiction("it is not the last one, and does not name the next one")),
        _ => Ok(()),
    }
}

/// Request for a page of open uploads.
struct UploadsAsked<'a> {
    bucket: &'a str,
    prefix: &'a str,
    key: Option<&'a str>,
    id: Option<&'a str>,
}

impl<'a> UploadsAsked<'a> {
    /// Compares the page with what it states of itself, and with the request. Services name a next page also where
    /// there is none, AWS among them.
    fn held_against(&self, page: &ListMultipartUploadsOutput) -> Result<StatedPage<'a>> {
        let stated = StatedPage {
            operation: "ListMultipartUploads",
            bucket: self.bucket,
            prefix: self.prefix,
            entries: page.uploads().len(),
            groups: page.common_prefixes().len(),
            ..StatedPage::default()
        };
        stated.bucket_is(page.bucket())?;
        stated.echoes("prefix", page.prefix(), Some(self.prefix))?;
        stated.echoes("key marker", page.key_marker(), self.key)?;
        stated.echoes("upload id marker", page.upload_id_marker(), self.id)?;
        stated.encoding(page.encoding_type().map(EncodingType::as_str))?;
        stated.counts(None, page.max_uploads())?;
        if page.uploads().iter().any(|upload| upload.upload_id().is_none_or(str::is_empty)) {
            return Err(stated.contradiction("an upload has no id"));
        }
        for key in page.uploads().iter().map(|upload| upload.key().unwrap_or_default()) {
            // Some services claim an encoding that they do not apply.
            stated.belongs(key).or_else(|_| stated.belongs(&decode_key(key)))?;
        }
        Ok(stated)
    }
}

#[async_trait]
impl MultipartUpload for S3Store {
    async fn create_upload(&self, upload: &CreateUpload) -> Result<String> {
        let (bucket, key) = (upload.bucket.as_str(), upload.key.as_str());
        let attributes = &upload.attributes;
        let upload_id = self
            .in_bucket_region("CreateMultipartUpload", bucket, Some(key), SHORT, async |client| {
                let answer = with_attributes!(client.create_multipart_upload(), attributes)
                    .bucket(bucket)
                    .key(key)
                    .set_tagging(tagging(&upload.tags))
                    .set_storage_class(upload.storage_class.as_deref().map(StorageClass::from))
                    .set_checksum_algorithm(upload.checksum.map(|(algorithm, _)| sdk_algorithm(algorithm)))
                    .set_checksum_type(upload.checksum.map(|(_, kind)| sdk_kind(kind)))
                    .customize()
                    .mutate_request(expires(attributes))
                    .mutate_request(with_headers(upload.write.headers()))
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
        upload_id
            .filter(|id| !id.is_empty())
            .ok_or_else(|| malformed_answer("CreateMultipartUpload", bucket, key, "UploadId"))
    }

    async fn copy_part(
        &self,
        source: &PinnedObject,
        range: Range,
        upload: UploadRef<'_>,
        part: u32,
    ) -> Result<WrittenPart> {
        let UploadRef { bucket, key, upload_id } = upload;
        let about = ErrorContext { operation: "UploadPartCopy", bucket, key };
        let answer = self
            .in_region("UploadPartCopy", bucket, Some(key), time_limit(range.len()), async |regional| {
                let Some(bucket_endpoint) = regional.fast_path.bucket_endpoint(bucket, key).await else {
                    return Box::pin(copy_part_by_sdk(&regional.client, about, source, range, upload_id, part)).await;
                };
                let mut headers = copied_from(source);
                headers.add("x-amz-copy-source-range", Some(range.header()));
                headers.add_all(self.options.headers("UploadPartCopy"));
                let place = format!("?partNumber={part}&uploadId={}", query(upload_id));
                regional.fast_path.copy(&bucket_endpoint, about, &place, &headers, "CopyPartResult").await
            })
            .await?;
        Ok(WrittenPart {
            etag: etag(answer.etag.as_deref(), "UploadPartCopy", bucket, key)?,
            checksum: answer.checksum.map(|(_, value)| value),
            opaque_etag: answer.opaque_etag,
        })
    }

    async fn put_part(&self, upload: UploadRef<'_>, part: u32, body: Bytes, digests: &Digests) -> Result<WrittenPart> {
        let UploadRef { bucket, key, upload_id } = upload;
        let about = ErrorContext { operation: "UploadPart", bucket, key };
        let answer = self
            .in_region("UploadPart", bucket, Some(key), Patience::to_send(body.len() as u64), async |regional| {
                let Some(bucket_endpoint) = regional.fast_path.bucket_endpoint(bucket, key).await else {
                    return Box::pin(put_part_by_sdk(&regional.client, about, upload_id, part, &body, digests)).await;
                };
                let query = format!("?partNumber={part}&uploadId={}", query(upload_id));
                let mut headers = body_headers(None, digests);
                headers.add_all(self.options.headers("UploadPart"));
                regional.fast_path.put(&bucket_endpoint, about, &query, &headers, body.clone()).await
            })
            .await?;
        Ok(WrittenPart {
            etag: etag(answer.etag.as_deref(), "UploadPart", bucket, key)?,
            checksum: answer.checksum.map(|(_, value)| value),
            opaque_etag: answer.opaque_etag,
        })
    }

    async fn stream_part(&self, upload: UploadRef<'_>, part: u32, size: u64, body: Body) -> Result<WrittenPart> {
        put_whole_part(self, upload, part, size, body).await
    }

    async fn list_parts(&self, upload: UploadRef<'_>, after: Option<u32>) -> Result<PartsPage> {
        let UploadRef { bucket, key, upload_id } = upload;
        let answer = self
            .in_bucket_region("ListParts", bucket, Some(key), SHORT, async |client| {
                let answer = client
                    .list_parts()
                    .bucket(bucket)
                    .key(key)
                    .upload_id(upload_id)
                    .set_part_number_marker(after.map(|part| part.to_string()))
                    .send()
                    .await;
                match answer {
                    Ok(answer) => Ok(PartsReply::Known(Box::new(answer))),
                    Err(error) => {
                        match of_other_root(&error, &["ListPartsResponse"]).and_then(|body| parts_of(&body)) {
                            Some(page) => Ok(PartsReply::Read(page)),
                            None => Err(failure("ListParts", bucket, Some(key), &error)),
                        }
                    }
                }
            })
            .await?;
        let answer = match answer {
            PartsReply::Known(answer) => answer,
            PartsReply::Read(page) => {
                let stated = StatedPage {
                    operation: "ListParts",
                    bucket,
                    prefix: key,
                    entries: page.parts.len(),
                    ..StatedPage::default()
                };
                held_together(&stated, &page, after, page.next.is_some())?;
                return Ok(page);
            }
        };
        let parts: Vec<PartInfo> = answer
            .parts()
            .iter()
            .map(|part| PartInfo {
                number: part.part_number().and_then(|n| u32::try_from(n).ok()).unwrap_or_default(),
                size: size(part.size()),
                etag: unquote(part.e_tag()),
                checksum: strongest!(part).map(|(_, value)| value),
            })
            .collect();
        // The last number seen is the marker if the service omits one.
        let next = (answer.is_truncated() == Some(true))
            .then(|| answer.next_part_number_marker().and_then(|m| m.parse().ok()).or(parts.last().map(|p| p.number)))
            .flatten();
        let stated =
            StatedPage { operation: "ListParts", bucket, prefix: key, entries: parts.len(), ..StatedPage::default() };
        stated.bucket_is(answer.bucket())?;
        stated.echoes("key", answer.key(), Some(key))?;
        stated.echoes("upload id", answer.upload_id(), Some(upload_id))?;
        stated.counts(None, answer.max_parts())?;
        let marker = answer.part_number_marker().and_then(|marker| marker.parse::<u32>().ok());
        if marker.unwrap_or_default() != after.unwrap_or_default() && marker.is_some_and(|marker| marker > 0) {
            return Err(stated.contradiction("it begins at another part than was asked for"));
        }
        if answer.parts().iter().any(|part| part.size().is_none_or(|size| size < 0)) {
            return Err(stated.contradiction("a part has no size"));
        }
        let page = PartsPage { parts, next };
        held_together(&stated, &page, after, answer.is_truncated() == Some(true))?;
        Ok(page)
    }

    async fn complete_upload(&self, upload: &CompleteUpload) -> Result<WrittenObject> {
        let (bucket, key) = (upload.bucket.as_str(), upload.key.as_str());
        let parts = upload.parts.iter().map(|part| completed_part(part, upload.checksum)).collect();
        let completed = CompletedMultipartUpload::builder().set_parts(Some(parts)).build();
        let whole =
            |algorithm| upload.whole.as_ref().filter(|sum| sum.algorithm == algorithm).map(|sum| sum.value.clone());
        let answer = self
            .in_bucket_region("CompleteMultipartUpload", bucket, Some(key), COMPLETE, async |client| {
                client
                    .complete_multipart_upload()
                    .bucket(bucket)
                    .key(key)
                    .upload_id(&upload.upload_id)
                    .multipart_upload(completed.clone())
                    .set_if_none_match(upload.if_absent.then(|| "*".to_owned()))
                    .set_if_match(upload.if_match.as_deref().map(quote))
                    .set_mpu_object_size(
                        Some(i64::try_from(upload.size).unwrap_or(i64::MAX)).filter(|_| upload.size > 0),
                    )
                    .set_checksum_crc64_nvme(whole(ChecksumAlgorithm::Crc64Nvme))
                    .set_checksum_crc32_c(whole(ChecksumAlgorithm::Crc32C))
                    .set_checksum_crc32(whole(ChecksumAlgorithm::Crc32))
                    // The type is repeated: Garage takes a CRC32 without a type for a composite one, against the type
                    // at the start.
                    .set_checksum_type(upload.whole.as_ref().map(|_| ChecksumType::FullObject))
                    .send()
                    .await
                    .map_err(|e| failure("CompleteMultipartUpload", bucket, Some(key), &e))
            })
            .await?;
        Ok(WrittenObject {
            etag: etag(answer.e_tag(), "CompleteMultipartUpload", bucket, key)?,
            version_id: answer.version_id().filter(|id| *id != "null").map(str::to_owned),
            checksum: checksum(strongest!(answer), answer.checksum_type(), answer.e_tag()),
            // The SDK has no field for a customer's key here.
            encryption: Encryption::from_headers(|name| match name {
                "x-amz-server-side-encryption" => answer.server_side_encryption().map(ServerSideEncryption::as_str),
                "x-amz-server-side-encryption-aws-kms-key-id" => answer.ssekms_key_id(),
                _ => None,
            }),
        })
    }

    async fn abort_upload(&self, upload: UploadRef<'_>) -> Result<()> {
        let UploadRef { bucket, key, upload_id } = upload;
        self.in_bucket_region("AbortMultipartUpload", bucket, Some(key), SHORT, async |client| {
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
        let mut uploads: Vec<UploadInfo> = Vec::new();
        let (mut key_marker, mut id_marker) = (None, None);
        let orders = ListingOrders::default();
        for number in 0..UPLOAD_PAGES {
            let page = self
                .in_bucket_region("ListMultipartUploads", bucket, Some(prefix), SHORT, async |client| {
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
            let came = uploads.len();
            uploads.extend(page.uploads().iter().map(|upload| {
                let raw = upload.key().unwrap_or_default();
                let key = if encoded { decode_key(raw) } else { raw.to_owned() };
                // SeaweedFS claims an encoding that it does not apply here: the requested prefix reveals it.
                let claimed = !key.starts_with(prefix) && raw.starts_with(prefix);
                UploadInfo {
                    key: if claimed { raw.to_owned() } else { key },
                    upload_id: upload.upload_id().unwrap_or_default().to_owned(),
                    initiated: seconds(upload.initiated()),
                }
            }));
            let next = page.next_key_marker().map(|raw| if encoded { decode_key(raw) } else { raw.to_owned() });
            let markers = (next, page.next_upload_id_marker().map(str::to_owned));
            let asked = UploadsAsked { bucket, prefix, key: key_marker.as_deref(), id: id_marker.as_deref() };
            let stated = asked.held_against(&page)?;
            let entries = Entries {
                lists: [uploads[came..].iter().map(|upload| upload.key.as_str()).collect(), Vec::new()],
                ids: uploads[came..].iter().map(|upload| upload.upload_id.as_str()).collect(),
                repeats_second: false,
            };
            let followed = orders.follow("uploads", (number > 0).then_some(number), Some(number + 1), &entries);
            followed.map_err(|what| stated.contradiction(&what))?;
            if page.is_truncated() != Some(true) {
                return Ok(uploads);
            }
            // Without a marker, or with the one that was sent, the listing would end early or never.
            if markers.0.as_ref().is_none_or(String::is_empty) || (&markers.0, &markers.1) == (&key_marker, &id_marker)
            {
                return Err(stated.contradiction("it is not the last one, and does not name the next one"));
            }
            (key_marker, id_marker) = markers;
        }
        Err(StoreError::new("ListMultipartUploads", bucket, Some(prefix), code::MALFORMED, Some(200))
            .with_message(format!("the listing of open uploads has no end: {UPLOAD_PAGES} pages were read")))
    }
}
