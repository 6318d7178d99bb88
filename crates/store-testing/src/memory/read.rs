//! Reading: objects, their metadata and listings, with the conditions of S3.

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt as _;
use seqferry_store::BucketEncryption;
use seqferry_store::error::classify::code;
use seqferry_store::{
    Body, FetchedObject, ListPage, ListRequest, ListedObject, ObjectMeta, ObjectRead, ObjectRef, PinnedObject, Range,
    Result, StoreError,
};

use super::{MemoryStore, slice};

#[async_trait]
impl ObjectRead for MemoryStore {
    async fn head_bucket(&self, bucket: &str) -> Result<()> {
        self.state().bucket("HeadBucket", bucket).map(|_| ())
    }

    async fn list(&self, request: &ListRequest) -> Result<ListPage> {
        let state = self.state();
        let objects = state.bucket("ListObjectsV2", &request.bucket)?;
        let after = request.continuation.as_ref().or(request.start_after.as_ref());
        let most = request.max_keys.and_then(|n| usize::try_from(n).ok()).unwrap_or(self.page).min(self.page);
        let mut page = ListPage::default();
        let mut last: Option<String> = None;
        let mut keys: Vec<(String, &String)> =
            objects.keys().filter(|key| key.starts_with(&request.prefix)).map(|key| ((self.order)(key), key)).collect();
        keys.sort();
        let after_place = after.map(|after| (self.order)(after));
        for (place, key) in keys {
            if after_place.as_ref().is_some_and(|after| place <= *after) {
                continue;
            }
            let Some(object) = objects.get(key) else { continue };
            let group = request.delimiter.as_ref().and_then(|delimiter| {
                let rest = &key[request.prefix.len()..];
                rest.find(delimiter.as_str()).map(|at| key[..request.prefix.len() + at + delimiter.len()].to_owned())
            });
            // A group at the end of the previous page is not repeated.
            if let Some(group) = &group
                && (page.common_prefixes.last() == Some(group)
                    || request.continuation.as_ref().is_some_and(|after| after.starts_with(group.as_str())))
            {
                last = Some(key.clone());
                continue;
            }
            if page.objects.len() + page.common_prefixes.len() == most {
                page.continuation = last;
                return Ok(page);
            }
            match group {
                Some(group) => page.common_prefixes.push(group),
                None => page.objects.push(ListedObject {
                    key: key.clone(),
                    size: object.body.len() as u64,
                    etag: object.etag.clone(),
                    last_modified: object.modified,
                    storage_class: object.storage_class.clone(),
                    refusal: None,
                }),
            }
            last = Some(key.clone());
        }
        Ok(page)
    }

    async fn head(&self, object: ObjectRef<'_>, part: Option<u32>) -> Result<ObjectMeta> {
        let ObjectRef { bucket, key, .. } = object;
        let state = self.state();
        if let Some(folder) = self.implied_folder(&state, bucket, key) {
            return Ok(self.meta(&folder));
        }
        let object = state.object("HeadObject", bucket, key)?;
        let size = match part {
            None => object.body.len() as u64,
            Some(1) if object.parts.is_empty() => object.body.len() as u64,
            Some(n) => *object
                .parts
                .get(n as usize - 1)
                .ok_or_else(|| StoreError::new("HeadObject", bucket, Some(key), "InvalidPartNumber", Some(416)))?,
        };
        let parts_count = part.and(u32::try_from(object.parts.len()).ok()).filter(|n| *n > 0);
        Ok(ObjectMeta { size, parts_count, ..self.meta(object) })
    }

    async fn fetch(&self, source: &PinnedObject, range: Option<Range>) -> Result<FetchedObject> {
        let state = self.state();
        let object = state.source("GetObject", source)?;
        if object.is_archived() {
            return Err(StoreError::new(
                "GetObject",
                &source.bucket,
                Some(&source.key),
                "InvalidObjectState",
                Some(403),
            ));
        }
        if let Some(range) = range
            && self.ignores_ranges
            && range.len() < object.body.len() as u64
        {
            let error = StoreError::new("GetObject", &source.bucket, Some(&source.key), code::RANGE_IGNORED, None);
            return Err(error.with_message(format!("{} was requested, and the whole object came", range.header())));
        }
        let body = slice(object, range).ok_or_else(|| {
            StoreError::new("GetObject", &source.bucket, Some(&source.key), "InvalidRange", Some(416))
        })?;
        // The body has several chunks, as from a network.
        let chunks: Vec<Result<Bytes>> = body.chunks(1 << 16).map(|chunk| Ok(body.slice_ref(chunk))).collect();
        let checksum = object.checksum.clone().filter(|_| range.is_none());
        let meta = ObjectMeta { checksum, ..self.meta(object) };
        Ok(FetchedObject { meta, body: Body::from_stream(futures::stream::iter(chunks).boxed()) })
    }

    async fn bucket_encryption(&self, _bucket: &str) -> Result<BucketEncryption> {
        Ok(BucketEncryption::Unsupported)
    }

    async fn restore(&self, object: ObjectRef<'_>, _days: u32, _tier: &str) -> Result<()> {
        Err(StoreError::new("RestoreObject", object.bucket, Some(object.key), "NotImplemented", None))
    }

    fn invalidate(&self, _source: &PinnedObject) {}

    async fn get_tags(&self, object: ObjectRef<'_>) -> Result<Vec<(String, String)>> {
        let ObjectRef { bucket, key, .. } = object;
        self.sub_resource("GetObjectTagging", bucket, key)?;
        Ok(self.state().object("GetObjectTagging", bucket, key)?.tags.clone())
    }
}
