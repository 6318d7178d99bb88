//! Requests that write: objects put, copied and removed.

use async_trait::async_trait;
use bytes::Bytes;

use super::METADATA_TIMEOUT;
use crate::error::Result;
use crate::s3::encoding::quote;
use crate::s3::headers::{copy_source_headers, copy_target_headers, object_headers};
use crate::s3::reply::WriteReply;
use crate::s3::request::Request;
use crate::s3::xml::{document, push_text};
use crate::s3::{ReplyTimeout, S3Store, time_limit};
use crate::store::ObjectWrite;
use crate::types::{CopyTarget, ObjectRef, PinnedObject, PutObject, WrittenObject};

impl S3Store {
    /// Makes a copy of `size` bytes. `roots` are the root elements of a success.
    pub(super) async fn copy_as(&self, request: &Request<'_>, size: u64, roots: &[&str]) -> Result<WriteReply> {
        let reply = self.call(request, time_limit(size)).await?;
        if reply.is_put_reply() {
            return Err(request.context.ignored_copy());
        }
        reply.write_reply_in_body(request.context, roots)
    }
}

#[async_trait]
impl ObjectWrite for S3Store {
    async fn put_object(&self, object: &PutObject, body: Bytes) -> Result<WrittenObject> {
        let limit = ReplyTimeout::to_send(body.len() as u64);
        let request = self.request("PUT", "PutObject", &object.bucket, Some(&object.key));
        let request = request.headers(object_headers(object)).object_body(body);
        Ok(self.call(&request, limit).await?.write_reply_in_headers(request.context)?.object)
    }

    async fn delete(&self, object: ObjectRef<'_>) -> Result<()> {
        let request = self.request("DELETE", "DeleteObject", object.bucket, Some(object.key));
        self.call(&request.query("versionId", object.version), METADATA_TIMEOUT).await?;
        Ok(())
    }

    async fn delete_if(&self, object: ObjectRef<'_>, etag: &str) -> Result<()> {
        let request = self.request("DELETE", "DeleteObject", object.bucket, Some(object.key));
        self.call(&request.header("if-match", Some(quote(etag))), METADATA_TIMEOUT).await?;
        Ok(())
    }

    async fn put_tags(&self, object: ObjectRef<'_>, tags: &[(String, String)]) -> Result<()> {
        let mut set = String::from("<TagSet>");
        for (name, value) in tags {
            set.push_str("<Tag>");
            push_text(&mut set, "Key", name);
            push_text(&mut set, "Value", value);
            set.push_str("</Tag>");
        }
        set.push_str("</TagSet>");
        let request = self.request("PUT", "PutObjectTagging", object.bucket, Some(object.key));
        let request = request.query_flag("tagging").xml_body(document("Tagging", &set)).with_crc32();
        self.call(&request, METADATA_TIMEOUT).await?;
        Ok(())
    }

    async fn copy(&self, source: &PinnedObject, target: CopyTarget<'_>) -> Result<WrittenObject> {
        let request = self.request("PUT", "CopyObject", target.object.bucket, Some(target.object.key));
        let request = request.headers(copy_source_headers(source)).headers(copy_target_headers(&target));
        Ok(self.copy_as(&request, source.size, &["CopyObjectResult"]).await?.object)
    }
}
