//! Multipart uploads: parts kept until they are completed, with the limits of S3.

use std::collections::BTreeMap;

use async_trait::async_trait;
use bytes::Bytes;
use md5::{Digest as _, Md5};
use seqferry_store::{Body, put_buffered_part};
use seqferry_store::{
    Checksum, ChecksumAlgorithm, ChecksumKind, CompleteUpload, CreateUpload, Digests, MultipartUpload, PartInfo,
    PartsPage, PinnedObject, Range, Result, StoreError, UploadInfo, UploadRef, WrittenObject, WrittenPart,
};

use super::{Checksums, ConditionalWrite, CopiedParts, MemoryStore, Object, Upload, full, now, slice, value};

#[async_trait]
impl MultipartUpload for MemoryStore {
    async fn create_upload(&self, upload: &CreateUpload) -> Result<String> {
        self.know(
            "CreateMultipartUpload",
            &upload.bucket,
            &upload.key,
            upload.checksum.map(|(algorithm, _)| algorithm),
        )?;
        let mut state = self.state();
        state.bucket("CreateMultipartUpload", &upload.bucket)?;
        state.next_upload += 1;
        let id = format!("upload-{:08}", state.next_upload);
        let open =
            Upload { bucket: upload.bucket.clone(), request: upload.clone(), initiated: now(), parts: BTreeMap::new() };
        state.uploads.insert(id.clone(), open);
        Ok(id)
    }

    async fn copy_part(
        &self,
        source: &PinnedObject,
        range: Range,
        upload: UploadRef<'_>,
        part: u32,
    ) -> Result<WrittenPart> {
        let UploadRef { bucket, key, .. } = upload;
        let mut state = self.state();
        let object = state.source("UploadPartCopy", source)?;
        let body = slice(object, Some(range))
            .ok_or_else(|| StoreError::new("UploadPartCopy", bucket, Some(key), "InvalidRange", Some(416)))?;
        let whole = object.checksum.as_ref().map(|sum| sum.value.clone());
        if let Some((algorithm, _)) = state.upload("UploadPartCopy", upload)?.request.checksum
            && self.copied_parts == CopiedParts::Refused
        {
            return Err(StoreError::new("UploadPartCopy", bucket, Some(key), "InvalidArgument", Some(400))
                .with_message(format!("checksum missing, want {:?}, got \"\"", algorithm.name())));
        }
        let etag = self.etag_of(&body);
        let mut copied = WrittenPart { etag, ..state.put_part("UploadPartCopy", upload, part, body)? };
        if self.copied_parts == CopiedParts::Misread && copied.checksum.is_some() {
            copied.checksum = whole;
        }
        Ok(self.answered(copied))
    }

    async fn put_part(&self, upload: UploadRef<'_>, part: u32, body: Bytes, digests: &Digests) -> Result<WrittenPart> {
        let UploadRef { bucket, key, .. } = upload;
        self.know("UploadPart", bucket, key, digests.checksum.as_ref().map(|(algorithm, _)| *algorithm))?;
        if !self.are_sent(digests, &body) {
            return Err(StoreError::new("UploadPart", bucket, Some(key), "BadDigest", Some(400)));
        }
        let etag = self.etag_of(&body);
        let copied = WrittenPart { etag, ..self.state().put_part("UploadPart", upload, part, body)? };
        Ok(self.answered(copied))
    }

    async fn stream_part(&self, upload: UploadRef<'_>, part: u32, size: u64, body: Body) -> Result<WrittenPart> {
        put_buffered_part(self, upload, part, size, body).await
    }

    async fn list_parts(&self, upload: UploadRef<'_>, after: Option<u32>) -> Result<PartsPage> {
        let checksums = self.checksums != Checksums::Unheard;
        let mut state = self.state();
        let upload = state.upload("ListParts", upload)?;
        let algorithm = upload.request.checksum.map(|(algorithm, _)| algorithm).filter(|_| checksums);
        let mut parts: Vec<PartInfo> = upload
            .parts
            .iter()
            .filter(|(number, _)| after.is_none_or(|after| **number > after))
            .map(|(number, body)| PartInfo {
                number: *number,
                size: body.len() as u64,
                etag: self.etag_of(body),
                checksum: algorithm.map(|algorithm| value(algorithm, body)),
            })
            .collect();
        let more = parts.len() > self.page;
        parts.truncate(self.page);
        let next = if more { parts.last().map(|part| part.number) } else { None };
        Ok(PartsPage { parts, next })
    }

    async fn complete_upload(&self, upload: &CompleteUpload) -> Result<WrittenObject> {
        let operation = "CompleteMultipartUpload";
        let (bucket, key) = (upload.bucket.as_str(), upload.key.as_str());
        let bad = |code: &str| Err(StoreError::new(operation, bucket, Some(key), code, Some(400)));
        let mut state = self.state();
        let open = state.upload(operation, UploadRef::new(bucket, key, &upload.upload_id))?;
        if upload.parts.is_empty() || upload.parts.windows(2).any(|pair| pair[0].number >= pair[1].number) {
            return bad("InvalidPartOrder");
        }
        let (mut body, mut digests, mut lengths, mut sums) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (i, part) in upload.parts.iter().enumerate() {
            let Some(bytes) = open.parts.get(&part.number).filter(|bytes| self.etag_of(bytes) == part.etag) else {
                return bad("InvalidPart");
            };
            if i + 1 < upload.parts.len() && (bytes.len() as u64) < self.minimum_part {
                return bad("EntityTooSmall");
            }
            body.extend_from_slice(bytes);
            digests.extend_from_slice(&Md5::digest(bytes));
            lengths.push(bytes.len() as u64);
            sums.extend(open.request.checksum.map(|(algorithm, _)| value(algorithm, bytes)));
        }
        if self.copied_parts == CopiedParts::Refused && upload.size > 0 {
            // The same answer as from S3Proxy.
            return Err(StoreError::new(operation, bucket, Some(key), "NotImplemented", Some(501)));
        }
        if upload.size > 0 && body.len() as u64 != upload.size {
            return bad("InvalidRequest");
        }
        let checksum = match open.request.checksum {
            Some((algorithm, ChecksumKind::Composite)) => {
                let value = algorithm.composite(sums.iter().map(String::as_str)).unwrap_or_default();
                Checksum { algorithm, value, kind: ChecksumKind::Composite }
            }
            Some((algorithm, ChecksumKind::FullObject)) => full(algorithm, &body),
            None if self.copied_parts == CopiedParts::Refused && upload.whole.is_some() => {
                return bad("InvalidRequest");
            }
            None => full(ChecksumAlgorithm::Crc64Nvme, &body),
        };
        let unkept = self.copied_parts == CopiedParts::Refused && open.request.checksum.is_none();
        if upload.whole.as_ref().is_some_and(|expected| expected.matches(&checksum) == Some(false)) {
            return bad("BadDigest");
        }
        let request = open.request.clone();
        let (if_absent, if_match) =
            self.conditions_of(ConditionalWrite::Complete, upload.if_absent, upload.if_match.as_deref());
        state.may_be_written(operation, bucket, key, if_absent, if_match)?;
        state.uploads.remove(&upload.upload_id);
        let object = Object {
            etag: format!("{}-{}", self.etag_of(&digests), lengths.len()),
            checksum: self.keeps(checksum).filter(|_| !unkept),
            body: body.into(),
            parts: lengths,
            modified: now(),
            attributes: request.attributes,
            tags: request.tags,
            storage_class: request.storage_class,
        };
        state.write(operation, bucket, key, object)
    }

    async fn abort_upload(&self, upload: UploadRef<'_>) -> Result<()> {
        let mut state = self.state();
        state.upload("AbortMultipartUpload", upload)?;
        state.uploads.remove(upload.upload_id);
        Ok(())
    }

    async fn list_uploads(&self, bucket: &str, prefix: &str) -> Result<Vec<UploadInfo>> {
        self.sub_resource("ListMultipartUploads", bucket, prefix)?;
        let state = self.state();
        state.bucket("ListMultipartUploads", bucket)?;
        let uploads = state.uploads.iter().filter(|(_, u)| u.bucket == bucket && u.request.key.starts_with(prefix));
        Ok(uploads
            .map(|(id, u)| UploadInfo { key: u.request.key.clone(), upload_id: id.clone(), initiated: u.initiated })
            .collect())
    }
}
