//! Requests that write: objects put, copied and removed.

use async_trait::async_trait;
use aws_sdk_s3::types::{Tag, Tagging};
use bytes::Bytes;

use super::{SHORT, etag};
use crate::error::Result;
use crate::error::StoreError;
use crate::s3::by_sdk::{copy_by_sdk, put_by_sdk};
use crate::s3::convert::{checksum, quote};
use crate::s3::failures::failure;
use crate::s3::fast_path::ErrorContext;
use crate::s3::headers::{copied_from, copy_headers, object_headers};
use crate::s3::{Patience, S3Store, time_limit};
use crate::store::ObjectWrite;
use crate::types::{CopyTarget, ObjectRef, PinnedObject, PutObject, WrittenObject};

#[async_trait]
impl ObjectWrite for S3Store {
    async fn put_object(&self, object: &PutObject, body: Bytes) -> Result<WrittenObject> {
        let (bucket, key) = (object.bucket.as_str(), object.key.as_str());
        let about = ErrorContext { operation: "PutObject", bucket, key };
        let answer = self
            .in_region("PutObject", bucket, Some(key), Patience::to_send(body.len() as u64), async |regional| {
                let Some(bucket_endpoint) = regional.fast_path.bucket_endpoint(bucket, key).await else {
                    return Box::pin(put_by_sdk(&regional.client, about, object, &body)).await;
                };
                let mut headers = object_headers(object);
                headers.add_all(self.options.headers("PutObject"));
                regional.fast_path.put(&bucket_endpoint, about, "", &headers, body.clone()).await
            })
            .await?;
        Ok(WrittenObject {
            etag: etag(answer.etag.as_deref(), "PutObject", bucket, key)?,
            version_id: answer.version_id.filter(|id| id != "null"),
            checksum: checksum(answer.checksum, answer.checksum_kind.as_ref(), answer.etag.as_deref()),
            encryption: answer.encryption,
        })
    }

    async fn delete(&self, object: ObjectRef<'_>) -> Result<()> {
        let ObjectRef { bucket, key, version } = object;
        self.in_bucket_region("DeleteObject", bucket, Some(key), SHORT, async |client| {
            client
                .delete_object()
                .bucket(bucket)
                .key(key)
                .set_version_id(version.map(str::to_owned))
                .send()
                .await
                .map_err(|e| failure("DeleteObject", bucket, Some(key), &e))
        })
        .await?;
        Ok(())
    }

    async fn delete_if(&self, object: ObjectRef<'_>, etag: &str) -> Result<()> {
        let ObjectRef { bucket, key, .. } = object;
        self.in_bucket_region("DeleteObject", bucket, Some(key), SHORT, async |client| {
            client
                .delete_object()
                .bucket(bucket)
                .key(key)
                .if_match(quote(etag))
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
        self.in_bucket_region("PutObjectTagging", bucket, Some(key), SHORT, async |client| {
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

    async fn copy(&self, source: &PinnedObject, target: CopyTarget<'_>) -> Result<WrittenObject> {
        let CopyTarget { object: ObjectRef { bucket, key, .. }, .. } = target;
        let about = ErrorContext { operation: "CopyObject", bucket, key };
        let answer = self
            .in_region("CopyObject", bucket, Some(key), time_limit(source.size), async |regional| {
                let Some(bucket_endpoint) = regional.fast_path.bucket_endpoint(bucket, key).await else {
                    // The future is boxed: its state is many times larger than that of nearly all requests.
                    return Box::pin(copy_by_sdk(&regional.client, about, source, target)).await;
                };
                let mut headers = copied_from(source);
                headers.add_all(copy_headers(&target));
                headers.add_all(self.options.headers("CopyObject"));
                regional.fast_path.copy(&bucket_endpoint, about, "", &headers, "CopyObjectResult").await
            })
            .await?;
        Ok(WrittenObject {
            etag: etag(answer.etag.as_deref(), "CopyObject", bucket, key)?,
            version_id: answer.version_id.filter(|id| id != "null"),
            checksum: checksum(answer.checksum, answer.checksum_kind.as_ref(), answer.etag.as_deref()),
            encryption: answer.encryption,
        })
    }
}
