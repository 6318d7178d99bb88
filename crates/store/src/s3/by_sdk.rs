//! Copies, GETs and PUTs by the SDK's operations, for buckets and keys that only the SDK knows how to reach, or to
//! refuse. All other requests are sent by [`super::fast_path`].

use aws_sdk_s3::Client;
use aws_sdk_s3::config::http::HttpRequest;
use aws_sdk_s3::config::interceptors::{
    BeforeDeserializationInterceptorContextMut, BeforeTransmitInterceptorContextMut,
};
use aws_sdk_s3::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_s3::error::BoxError;
use aws_sdk_s3::primitives::{ByteStream as SdkStream, SdkBody};
use aws_sdk_s3::types::StorageClass;
use bytes::Bytes;

use super::convert::{copy_source, fetched_meta, opaque_etag, quote, sdk_encryption, strongest, tagging};
use super::failures::{failure, malformed_answer};
use super::fast_path::{BodyReader, ErrorContext, WriteAnswer};
use super::headers::copy_headers;
use super::stored_form::Form;
use crate::ChecksumAlgorithm;
use crate::error::Result;
use crate::types::{Attributes, CopyTarget, Digests, ObjectMeta, PinnedObject, PutObject, Range};

/// Adds an object's properties besides its bytes to the request; `Expires` goes in by [`expires`].
macro_rules! with_attributes {
    ($request:expr, $attributes:expr) => {
        $request
            .set_content_type($attributes.content_type.clone())
            .set_content_encoding($attributes.content_encoding.clone())
            .set_content_language($attributes.content_language.clone())
            .set_content_disposition($attributes.content_disposition.clone())
            .set_cache_control($attributes.cache_control.clone())
            .set_website_redirect_location($attributes.website_redirect.clone())
            .set_metadata(Some($attributes.metadata.clone().into_iter().collect()))
    };
}
pub(super) use with_attributes;

/// Adds the expected digests of the body to the request.
macro_rules! with_digests {
    ($request:expr, $digests:expr) => {{
        let digests: &Digests = $digests;
        let of = |wanted| {
            digests.checksum.as_ref().filter(|(algorithm, _)| *algorithm == wanted).map(|(_, value)| value.clone())
        };
        $request
            .set_checksum_crc64_nvme(of(ChecksumAlgorithm::Crc64Nvme))
            .set_checksum_crc32_c(of(ChecksumAlgorithm::Crc32C))
            .set_checksum_crc32(of(ChecksumAlgorithm::Crc32))
            .set_checksum_sha256(of(ChecksumAlgorithm::Sha256))
            .set_checksum_sha1(of(ChecksumAlgorithm::Sha1))
            .set_content_md5(digests.md5.clone())
    }};
}

/// Adds `Expires` as a header. The SDK models it as a time, but it may be any text.
pub(super) fn expires(attributes: &Attributes) -> impl Fn(&mut HttpRequest) + Send + Sync + 'static {
    let text = attributes.expires.clone();
    move |http| {
        // The text came from a header, so it is a valid header value.
        if let Some(text) = &text {
            let _ = http.headers_mut().try_insert("expires", text.clone());
        }
    }
}

/// Adds headers that the SDK does not model, or replaces its own.
pub(super) fn with_headers(headers: Vec<(String, String)>) -> impl Fn(&mut HttpRequest) + Send + Sync + 'static {
    move |http| {
        for (name, value) in &headers {
            // The values were checked when they were set, or came from headers.
            let _ = http.headers_mut().try_insert(name.clone(), value.clone());
        }
    }
}

/// Adds range and form after the request is signed, so that the signature does not cover them (as in
/// [`super::sign`]).
#[derive(Debug)]
struct UnsignedHeaders(Option<Range>, Form);

impl Intercept for UnsignedHeaders {
    fn name(&self) -> &'static str {
        "unsigned headers"
    }

    fn modify_before_transmit(
        &self,
        context: &mut BeforeTransmitInterceptorContextMut<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> std::result::Result<(), BoxError> {
        let headers = context.request_mut().headers_mut();
        if let Some(range) = self.0 {
            headers.try_insert("range", range.header())?;
        }
        headers.try_insert("accept-encoding", self.1.header())?;
        Ok(())
    }
}

/// Rejects an answer that is too long for the requested document before it is read into memory: a service that does not
/// know `?tagging` answers with the object.
#[derive(Debug)]
pub(super) struct ShortAnswer;

impl ShortAnswer {
    /// A document of at most ten tags has some 20 KiB.
    const LONGEST: u64 = 1 << 20;
}

impl Intercept for ShortAnswer {
    fn name(&self) -> &'static str {
        "ShortAnswer"
    }

    fn modify_before_deserialization(
        &self,
        context: &mut BeforeDeserializationInterceptorContextMut<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> std::result::Result<(), BoxError> {
        let response = context.response_mut();
        let length = response.headers().get("content-length").and_then(|length| length.trim().parse::<u64>().ok());
        if response.status().is_success() && length.is_some_and(|length| length > Self::LONGEST) {
            *response.body_mut() = SdkBody::from("too long for a document");
        }
        Ok(())
    }
}

pub(super) fn part_number(part: u32) -> i32 {
    i32::try_from(part).unwrap_or(i32::MAX)
}

pub(super) async fn put_by_sdk(
    client: &Client,
    about: ErrorContext<'_>,
    object: &PutObject,
    body: &Bytes,
) -> Result<WriteAnswer> {
    let ErrorContext { operation, bucket, key } = about;
    let answer = with_digests!(with_attributes!(client.put_object(), &object.attributes), &object.digests)
        .bucket(bucket)
        .key(key)
        .set_tagging(tagging(&object.tags))
        .set_storage_class(object.storage_class.as_deref().map(StorageClass::from))
        .set_if_none_match(object.if_absent.then(|| "*".to_owned()))
        .set_if_match(object.if_match.as_deref().map(quote))
        .body(SdkStream::from(body.clone()))
        .customize()
        // The same payload rule as in `FastPath::put`.
        .disable_payload_signing()
        .mutate_request(expires(&object.attributes))
        .mutate_request(with_headers(object.write.headers()))
        .send()
        .await
        .map_err(|e| failure(operation, bucket, Some(key), &e))?;
    Ok(WriteAnswer {
        etag: answer.e_tag().map(str::to_owned),
        checksum: strongest!(answer),
        checksum_kind: answer.checksum_type().cloned(),
        version_id: answer.version_id().map(str::to_owned),
        opaque_etag: opaque_etag(answer.sse_customer_algorithm(), answer.server_side_encryption()),
        encryption: sdk_encryption!(answer),
    })
}

/// Sends a part, like [`put_by_sdk`] for an object.
pub(super) async fn put_part_by_sdk(
    client: &Client,
    about: ErrorContext<'_>,
    upload_id: &str,
    part: u32,
    body: &Bytes,
    digests: &Digests,
) -> Result<WriteAnswer> {
    let ErrorContext { operation, bucket, key } = about;
    let answer = with_digests!(client.upload_part(), digests)
        .bucket(bucket)
        .key(key)
        .upload_id(upload_id)
        .part_number(part_number(part))
        .body(SdkStream::from(body.clone()))
        .customize()
        .disable_payload_signing()
        .send()
        .await
        .map_err(|e| failure(operation, bucket, Some(key), &e))?;
    Ok(WriteAnswer {
        etag: answer.e_tag().map(str::to_owned),
        checksum: strongest!(answer),
        opaque_etag: opaque_etag(answer.sse_customer_algorithm(), answer.server_side_encryption()),
        ..WriteAnswer::default()
    })
}

pub(super) async fn copy_by_sdk(
    client: &Client,
    about: ErrorContext<'_>,
    source: &PinnedObject,
    target: CopyTarget<'_>,
) -> Result<WriteAnswer> {
    let ErrorContext { operation, bucket, key } = about;
    let answer = client
        .copy_object()
        .bucket(bucket)
        .key(key)
        .copy_source(copy_source(source))
        .set_copy_source_if_match(source.if_match.as_deref().map(quote))
        .customize()
        .mutate_request(with_headers(copy_headers(&target)))
        .send()
        .await
        .map_err(|e| failure(operation, bucket, Some(key), &e))?;
    let result =
        answer.copy_object_result().ok_or_else(|| malformed_answer(operation, bucket, key, "CopyObjectResult"))?;
    Ok(WriteAnswer {
        etag: result.e_tag().map(str::to_owned),
        checksum: strongest!(result),
        checksum_kind: result.checksum_type().cloned(),
        version_id: answer.version_id().map(str::to_owned),
        opaque_etag: opaque_etag(answer.sse_customer_algorithm(), answer.server_side_encryption()),
        encryption: sdk_encryption!(answer),
    })
}

/// Copies a part, like [`copy_by_sdk`] for an object.
pub(super) async fn copy_part_by_sdk(
    client: &Client,
    about: ErrorContext<'_>,
    source: &PinnedObject,
    range: Range,
    upload_id: &str,
    part: u32,
) -> Result<WriteAnswer> {
    let ErrorContext { operation, bucket, key } = about;
    let answer = client
        .upload_part_copy()
        .bucket(bucket)
        .key(key)
        .upload_id(upload_id)
        .part_number(part_number(part))
        .copy_source(copy_source(source))
        .set_copy_source_if_match(source.if_match.as_deref().map(quote))
        .copy_source_range(range.header())
        .send()
        .await
        .map_err(|e| failure(operation, bucket, Some(key), &e))?;
    let result = answer.copy_part_result().ok_or_else(|| malformed_answer(operation, bucket, key, "CopyPartResult"))?;
    Ok(WriteAnswer {
        etag: result.e_tag().map(str::to_owned),
        checksum: strongest!(result),
        opaque_etag: opaque_etag(answer.sse_customer_algorithm(), answer.server_side_encryption()),
        ..WriteAnswer::default()
    })
}

pub(super) async fn fetch_by_sdk(
    client: &Client,
    about: ErrorContext<'_>,
    source: &PinnedObject,
    range: Option<Range>,
    form: Form,
) -> Result<(ObjectMeta, Option<String>, bool, BodyReader)> {
    let ErrorContext { operation, bucket, key } = about;
    let answer = client
        .get_object()
        .bucket(bucket)
        .key(key)
        .set_version_id(source.version_id.clone())
        .set_if_match(source.if_match.as_deref().map(quote))
        .customize()
        .interceptor(UnsignedHeaders(range, form))
        .mutate_request(move |http| {
            // The checksum is requested by a header: through its own setting the SDK would also compute the checksum
            // over the body, which the caller does.
            if range.is_none() {
                http.headers_mut().insert("x-amz-checksum-mode", "ENABLED");
            }
        })
        .send()
        .await
        .map_err(|e| failure(operation, bucket, Some(key), &e))?;
    let (content_range, has_length) = (answer.content_range().map(str::to_owned), answer.content_length().is_some());
    Ok((fetched_meta(&answer), content_range, has_length, BodyReader::by_sdk(answer.body)))
}
