//! The store of the target, which copies ranges of an archive for parts of its members.

use std::sync::Arc;

use seqferry_store::Result;
use seqferry_store::{CopyTarget, ObjectStore, PinnedObject, Range, StoreError, UploadRef, WrittenObject, WrittenPart};

use super::ArchiveRef;
use super::member_location::{Format, LocationKind, MemberLocation, archive_etag};

/// A store whose copies read members of an archive in the same service. All else is that of the store.
#[derive(Debug)]
pub struct RangeTarget {
    store: Arc<dyn ObjectStore>,
    archive: ArchiveRef,
}

impl RangeTarget {
    /// The store of the target of members of `archive`.
    pub fn new(store: Arc<dyn ObjectStore>, archive: ArchiveRef) -> Self {
        Self { store, archive }
    }
}

seqferry_store::forward_object_read!(
    RangeTarget,
    store,
    [head_bucket, list, head, fetch, get_tags, bucket_encryption, restore, invalidate]
);

seqferry_store::forward_object_write! {
    RangeTarget, store, [put_object, delete, delete_if, put_tags]

    async fn copy(&self, source: &PinnedObject, _target: CopyTarget<'_>) -> Result<WrittenObject> {
        // CopyObject takes whole objects only.
        Err(StoreError::new("CopyObject", &source.bucket, Some(&source.key), "NotImplemented", None))
    }
}

seqferry_store::forward_multipart_upload! {
    RangeTarget, store,
    [create_upload, put_part, stream_part, list_parts, complete_upload, abort_upload, list_uploads]

    async fn copy_part(
        &self,
        source: &PinnedObject,
        range: Range,
        upload: UploadRef<'_>,
        part: u32,
    ) -> Result<WrittenPart> {
        let location = source.version_id.as_deref().and_then(MemberLocation::parse);
        let location = location.filter(|location| {
            location.format == Format::Plain && location.kind == LocationKind::File && range.last < location.stored
        });
        let (Some(location), Some(etag)) = (location, source.if_match.as_deref().and_then(archive_etag)) else {
            return Err(StoreError::new("UploadPartCopy", &source.bucket, Some(&source.key), "NotImplemented", None));
        };
        let archive = PinnedObject {
            bucket: self.archive.bucket.clone(),
            key: self.archive.key.clone(),
            version_id: None,
            if_match: Some(etag.to_owned()),
            size: source.size,
        };
        let range = Range { first: location.data + range.first, last: location.data + range.last };
        self.store.copy_part(&archive, range, upload, part).await
    }
}

seqferry_store::forward_object_store!(RangeTarget, store);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn all_but_copies_of_whole_objects_reaches_the_store_of_the_target() {
        let archive = ArchiveRef { bucket: "b".to_owned(), key: "x.tar".to_owned() };
        let kept = seqferry_store_testing::methods_not_forwarded(|store| RangeTarget::new(store, archive)).await;
        // A source without a place in the archive is no member, and no part can be copied of it.
        assert_eq!(kept, ["copy", "copy_part"]);
    }
}
