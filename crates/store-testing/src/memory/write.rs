//! Writing: objects put, copied and removed, with the conditions of S3.

use async_trait::async_trait;
use bytes::Bytes;
use md5::Digest as _;
use seqferry_store::checksum::hex;
use seqferry_store::{
    ChecksumAlgorithm, CopyTarget, ObjectRef, ObjectWrite, PinnedObject, PutObject, Result, StoreError, WrittenObject,
};
use sha2::Sha256;

use super::{ConditionalWrite, CopiedEtags, Etags, MemoryStore, Object, full, now};

#[async_trait]
impl ObjectWrite for MemoryStore {
    async fn put_object(&self, object: &PutObject, body: Bytes) -> Result<WrittenObject> {
        let named = object.digests.checksum.as_ref().map(|(algorithm, _)| *algorithm);
        self.know("PutObject", &object.bucket, &object.key, named)?;
        if !self.are_sent(&object.digests, &body) {
            return Err(StoreError::new("PutObject", &object.bucket, Some(&object.key), "BadDigest", Some(400)));
        }
        let etag =
            if self.etags == Etags::Odd { format!("odd-{}", hex(&Sha256::digest(&body))) } else { self.etag_of(&body) };
        let made = Object {
            etag,
            checksum: self.keeps(full(named.unwrap_or(ChecksumAlgorithm::Crc64Nvme), &body)),
            body,
            parts: Vec::new(),
            modified: now(),
            attributes: object.attributes.clone(),
            tags: object.tags.clone(),
            storage_class: object.storage_class.clone(),
        };
        let mut state = self.state();
        let (if_absent, if_match) =
            self.conditions_of(ConditionalWrite::Put, object.if_absent, object.if_match.as_deref());
        let is_conditional = if_absent || if_match.is_some();
        if is_conditional && self.is_refused_by_folder(&state, &object.bucket, &object.key) {
            let code = "PreconditionFailed";
            return Err(StoreError::new("PutObject", &object.bucket, Some(&object.key), code, Some(412)));
        }
        state.may_be_written("PutObject", &object.bucket, &object.key, if_absent, if_match)?;
        state.write("PutObject", &object.bucket, &object.key, made)
    }

    async fn delete(&self, object: ObjectRef<'_>) -> Result<()> {
        let ObjectRef { bucket, key, .. } = object;
        let mut state = self.state();
        state.bucket("DeleteObject", bucket)?;
        if let Some(objects) = state.buckets.get_mut(bucket) {
            objects.remove(key);
        }
        Ok(())
    }

    async fn delete_if(&self, object: ObjectRef<'_>, etag: &str) -> Result<()> {
        let ObjectRef { bucket, key, .. } = object;
        self.state().may_be_written("DeleteObject", bucket, key, false, Some(etag))?;
        self.delete(ObjectRef::new(bucket, key)).await
    }

    async fn put_tags(&self, object: ObjectRef<'_>, tags: &[(String, String)]) -> Result<()> {
        let ObjectRef { bucket, key, .. } = object;
        let mut state = self.state();
        state.object("PutObjectTagging", bucket, key)?;
        if let Some(object) = state.buckets.get_mut(bucket).and_then(|objects| objects.get_mut(key)) {
            object.tags = tags.to_vec();
        }
        Ok(())
    }

    async fn copy(&self, source: &PinnedObject, target: CopyTarget<'_>) -> Result<WrittenObject> {
        let CopyTarget { object: ObjectRef { bucket, key, .. }, storage_class, attributes, tags, .. } = target;
        let mut state = self.state();
        let (if_absent, if_match) = self.conditions_of(ConditionalWrite::Copy, target.if_absent, target.if_match);
        state.may_be_written("CopyObject", bucket, key, if_absent, if_match)?;
        let object = state.source("CopyObject", source)?;
        if object.is_archived() {
            return Err(StoreError::new(
                "CopyObject",
                &source.bucket,
                Some(&source.key),
                "InvalidObjectState",
                Some(403),
            ));
        }
        let mut object = object.clone();
        if self.copied_etags != CopiedEtags::Kept {
            // A copy is written in one request: a multipart ETag becomes a plain one.
            object.etag = self.etag_of(&object.body);
        }
        object.parts = Vec::new();
        object.modified = now();
        object.storage_class = storage_class.map(str::to_owned);
        if let Some(attributes) = attributes {
            object.attributes = attributes.clone();
        }
        if let Some(tags) = tags {
            object.tags = tags.to_vec();
        }
        state.write("CopyObject", bucket, key, object)
    }
}
