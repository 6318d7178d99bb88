//! Members of an archive as objects: the key is for texts, the version says where the member lies.
//!
//! Invariants: bytes of a member are handed out only after the headers at its place were parsed and are those of the
//! member; a read is pinned to the version of the archive that the member was found in.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{self, StreamExt as _};
use seqferry_archive::member::{MemberPiece, pieces};
use seqferry_archive::scan::Checkpoint;
use seqferry_archive::{Member, ReadOptions, ScanStep, Scanner};
use seqferry_client::Endpoint;
use seqferry_store::Result;
use seqferry_store::checksum::base64;
use seqferry_store::{
    Attributes, Body, ByteStream, Capabilities, Checksum, ChecksumAlgorithm, ChecksumKind, CompleteUpload, CopyTarget,
    CreateUpload, ErrorClass, FetchedObject, ListPage, ListRequest, MultipartUpload, ObjectMeta, ObjectRead, ObjectRef,
    ObjectStore, ObjectWrite, PartsPage, PinnedObject, PutObject, Range, StoreError, StoredMetadata, UploadInfo,
    UploadRef, WrittenObject, WrittenPart,
};
use seqferry_store::{BucketEncryption, BucketService, DeferredSync, put_buffered_part};

use super::bytes::{ArchiveBytes, Span};
use super::member_location::{Format, LocationKind, MemberAttributes, MemberLocation, archive_etag, member_etag};
use super::retained::WindowPool;
use super::{ArchiveRef, location_of, zip};
use crate::object::JobItem;

/// Code of an error of ours: the archive has something else at the place of a member.
pub(super) const FOREIGN: &str = "ForeignIndex";
/// Members up to this size are read whole before their first byte is handed out.
const WHOLE: u64 = 4 << 20;
/// Zeros of a hole that are made at a time.
const ZEROS: usize = 256 << 10;

/// See the module.
#[derive(Debug)]
pub struct MemberStore {
    store: Arc<dyn ObjectStore>,
    bytes: Arc<ArchiveBytes>,
}

impl MemberStore {
    /// Creates a store of the members among `items` of an archive at `source`, in the order of the archive.
    pub fn new(source: Endpoint, archive: ArchiveRef, pool: Arc<WindowPool>, items: &[JobItem]) -> Self {
        let spans = items.iter().filter_map(location_of);
        let spans = spans.map(|location| Span { start: location.header, end: location.end() });
        let format = items.iter().find_map(location_of).map_or(Format::Plain, |location| location.format);
        let bytes = ArchiveBytes::new(source.clone(), archive, format, pool, spans);
        Self { store: source.store, bytes: Arc::new(bytes) }
    }

    /// The headers at a place, parsed.
    async fn member(&self, wanted: &WantedMember<'_>) -> Result<Member> {
        let WantedMember { location, .. } = *wanted;
        let headers = self.bytes.read(wanted.archive, location.header, location.data).await?;
        parse(&location, &headers).ok_or_else(|| wanted.foreign())
    }

    /// A file in a zip, from its first byte or a later one.
    async fn fetch_zipped(&self, wanted: &WantedMember<'_>, range: Option<Range>) -> Result<FetchedObject> {
        let location = wanted.location;
        let meta = wanted.zip_meta();
        let body = if location.stored <= WHOLE && location.zip_size() <= WHOLE {
            let region = self.bytes.read(wanted.archive, location.header, location.end()).await?;
            let start = zip::contents(&location, &region).ok_or_else(|| wanted.foreign())?;
            whole(zip::unpack_stored(&location, &region, start).ok_or_else(|| wanted.foreign())?)
        } else {
            let headers =
                self.bytes.read(wanted.archive, location.header, location.header + zip::header_room(&location)).await?;
            let start = zip::contents(&location, &headers).ok_or_else(|| wanted.foreign())?;
            zip::body(self.bytes.store(), self.bytes.pinned_part(wanted.archive), &location, start)
        };
        let Some(range) = range else { return Ok(FetchedObject { meta, body }) };
        // Only a comparison of contents asks for a part: it is read from the start.
        let mut body = body;
        let mut skip = range.first;
        while skip > 0 {
            let step = usize::try_from(skip).unwrap_or(usize::MAX).min(ZEROS);
            let passed = body.take(step, |_| ()).await?.len() as u64;
            if passed == 0 {
                return Err(wanted.foreign());
            }
            skip -= passed;
        }
        let chunks = stream::unfold((body, range.len()), async |(mut body, left)| {
            let mut chunk = Vec::new();
            let most = usize::try_from(left).unwrap_or(usize::MAX).min(ZEROS);
            if most == 0 {
                return None;
            }
            match body.read(&mut chunk, most).await {
                Ok(0) => None,
                Ok(read) => Some((Ok(Bytes::from(chunk)), (body, left - read as u64))),
                Err(error) => Some((Err(error), (body, 0))),
            }
        });
        Ok(FetchedObject { meta, body: Body::from_stream(chunks.boxed()) })
    }
}

/// A member that is requested.
struct WantedMember<'a> {
    bucket: &'a str,
    key: &'a str,
    etag: String,
    archive: &'a str,
    location: MemberLocation,
    size: Option<u64>,
}

impl<'a> WantedMember<'a> {
    fn of(source: &'a PinnedObject) -> Result<Self> {
        let location = source.version_id.as_deref().and_then(MemberLocation::parse);
        let archive = source.if_match.as_deref().and_then(archive_etag);
        let (Some(location), Some(archive)) = (location, archive) else {
            return Err(no_member(&source.bucket, &source.key));
        };
        let etag = source.if_match.clone().unwrap_or_default();
        Ok(Self { bucket: &source.bucket, key: &source.key, etag, archive, location, size: Some(source.size) })
    }

    /// Attributes of a file in a zip.
    fn zip_meta(&self) -> ObjectMeta {
        let checksum = self.location.crc32c.map(|crc| Checksum {
            algorithm: ChecksumAlgorithm::Crc32,
            value: base64(&crc.to_be_bytes()),
            kind: ChecksumKind::FullObject,
        });
        let location = self.location;
        let attributes =
            location.attributes.map(|stated| attributes(location.kind, stated.mode, (stated.mtime, stated.nanos)));
        let attributes = attributes.unwrap_or_default();
        ObjectMeta { size: location.zip_size(), checksum, attributes, ..self.meta(None) }
    }

    fn to_fetched(&self, member: &Member, body: Body) -> FetchedObject {
        FetchedObject { meta: self.meta(Some(member)), body }
    }

    fn foreign(&self) -> StoreError {
        let (code, cause) = if self.location.format.is_zip() {
            (
                "DamagedArchive",
                "the zip is damaged: the member is not as its directory states. Nothing of it is unpacked",
            )
        } else {
            (FOREIGN, "the archive has another member at this place: its index does not belong to it, or it is damaged")
        };
        let mut error = StoreError::new("GetObject", self.bucket, Some(self.key), code, None).with_message(cause);
        error.class = ErrorClass::Object;
        error
    }

    fn meta(&self, member: Option<&Member>) -> ObjectMeta {
        let location = self.location;
        let size = match (location.kind, member) {
            (LocationKind::Directory, _) | (_, None) => 0,
            (LocationKind::Link, Some(member)) => member.link.len() as u64,
            (_, Some(member)) => member.size,
        };
        // Nothing has to be read of a member without contents.
        let is_empty = size == 0 && (member.is_some() || location.kind == LocationKind::Directory);
        let crc32c = location.crc32c.or_else(|| is_empty.then_some(0));
        let checksum = crc32c.map(|crc| Checksum {
            algorithm: ChecksumAlgorithm::Crc32C,
            value: base64(&crc.to_be_bytes()),
            kind: ChecksumKind::FullObject,
        });
        ObjectMeta {
            size,
            etag: self.etag.clone(),
            last_modified: member.map_or(0.0, |member| member.mtime as f64),
            version_id: Some(location.to_string()),
            checksum,
            attributes: member.map(|member| of_headers(location.kind, member)).unwrap_or_default(),
            tag_count: Some(0),
            opaque_etag: true,
            ..ObjectMeta::default()
        }
    }
}

/// Time and permissions under the names that files have them in object storage.
fn attributes(kind: LocationKind, permissions: u32, time: (i64, u32)) -> Attributes {
    let mode = match kind {
        LocationKind::File | LocationKind::Sparse => 0o100_000 | permissions,
        LocationKind::Link => 0o120_777,
        LocationKind::Directory => 0o040_000 | permissions,
    };
    let stored = StoredMetadata { modified: Some(time), mode: Some(mode), ..StoredMetadata::default() };
    Attributes { metadata: stored.to_metadata(), ..Attributes::default() }
}

fn of_headers(kind: LocationKind, member: &Member) -> Attributes {
    attributes(kind, member.safe_mode(), (member.mtime, member.mtime_nanos))
}

/// The member that headers describe, if they are those of the place.
pub(super) fn parse(location: &MemberLocation, headers: &[u8]) -> Option<Member> {
    // The place says where the contents end: what an archive was accepted with need not be known here.
    let options = ReadOptions { missing_end: true, lenient_sizes: true, ..ReadOptions::default() };
    let checkpoint = Checkpoint { offset: location.header, globals: Vec::new() };
    let mut scanner = Scanner::resume(None, options, checkpoint);
    loop {
        match scanner.step().ok()? {
            ScanStep::Need { offset, .. } => {
                let at = usize::try_from(offset.checked_sub(location.header)?).ok()?;
                if scanner.supply(offset, headers.get(at..)?) == 0 {
                    return None;
                }
            }
            ScanStep::Member(mut found) => {
                if let Some(MemberAttributes { mtime, nanos, .. }) = location.attributes {
                    (found.mtime, found.mtime_nanos) = (mtime, nanos);
                }
                return location.matches_header(&found).then_some(*found);
            }
            ScanStep::End(_) => return None,
        }
    }
}

fn no_member(bucket: &str, key: &str) -> StoreError {
    StoreError::new("GetObject", bucket, Some(key), "NoSuchKey", Some(404)).with_message("it names no member")
}

fn refuse<T>(operation: &'static str, bucket: &str, key: &str) -> Result<T> {
    Err(StoreError::new(operation, bucket, Some(key), "NotImplemented", None)
        .with_message("members of an archive are read and not written"))
}

fn whole(bytes: Bytes) -> Body {
    Body::from_stream(stream::iter([Ok(bytes)]).boxed())
}

/// Pieces of a sparse file, one after another.
fn join_pieces(bytes: Arc<ArchiveBytes>, archive: String, pieces: Vec<MemberPiece>) -> Body {
    let chunks = stream::iter(pieces).then(move |piece| {
        let (bytes, archive) = (Arc::clone(&bytes), archive.clone());
        async move {
            let chunks: ByteStream = match piece {
                MemberPiece::Stored { offset, len } => match bytes.body(&archive, offset, offset + len).await {
                    Ok(body) => body.into_stream(),
                    Err(error) => stream::iter([Err(error)]).boxed(),
                },
                MemberPiece::Zeros(len) => zeros(len),
            };
            chunks
        }
    });
    Body::from_stream(chunks.flatten().boxed())
}

fn zeros(len: u64) -> ByteStream {
    static BLOCK: [u8; ZEROS] = [0; ZEROS];
    let step = move |left: u64| async move {
        let now = usize::try_from(left).unwrap_or(ZEROS).min(ZEROS);
        (now > 0).then(|| (Ok(Bytes::from_static(&BLOCK[..now])), left - now as u64))
    };
    stream::unfold(len, step).boxed()
}

#[async_trait]
impl ObjectRead for MemberStore {
    async fn head_bucket(&self, bucket: &str) -> Result<()> {
        self.store.head_bucket(bucket).await
    }

    async fn list(&self, request: &ListRequest) -> Result<ListPage> {
        refuse("ListObjectsV2", &request.bucket, &request.prefix)
    }

    async fn head(&self, object: ObjectRef<'_>, _part: Option<u32>) -> Result<ObjectMeta> {
        let location = object.version.and_then(MemberLocation::parse);
        let location = location.ok_or_else(|| no_member(object.bucket, object.key))?;
        // Of the archive as it is now: a member of another version is another member.
        let end = if location.format.is_zip() { location.header + zip::header_room(&location) } else { location.data };
        let (archive, headers) = self.bytes.current(location.header, end).await?;
        let etag = member_etag(&archive, location.header);
        let wanted =
            WantedMember { bucket: object.bucket, key: object.key, etag, archive: &archive, location, size: None };
        if location.kind == LocationKind::Directory {
            return Ok(wanted.meta(None));
        }
        if location.format.is_zip() {
            return zip::contents(&location, &headers).map(|_| wanted.zip_meta()).ok_or_else(|| wanted.foreign());
        }
        let member = parse(&location, &headers).ok_or_else(|| wanted.foreign())?;
        Ok(wanted.meta(Some(&member)))
    }

    async fn fetch(&self, source: &PinnedObject, range: Option<Range>) -> Result<FetchedObject> {
        let wanted = WantedMember::of(source)?;
        let location = wanted.location;
        if location.format.is_zip() && location.kind != LocationKind::Directory {
            return self.fetch_zipped(&wanted, range).await;
        }
        match (location.kind, range) {
            (LocationKind::Directory, _) => {
                if !location.format.is_zip() {
                    self.member(&wanted).await?;
                }
                Ok(FetchedObject { meta: wanted.meta(None), body: whole(Bytes::new()) })
            }
            (LocationKind::Link, range) => {
                let member = self.member(&wanted).await?;
                let target = Bytes::from(member.link.clone());
                let cut = range.and_then(|range| {
                    let (first, last) = (usize::try_from(range.first).ok()?, usize::try_from(range.last).ok()?);
                    (last < target.len()).then(|| target.slice(first..=last))
                });
                Ok(wanted.to_fetched(&member, whole(cut.unwrap_or(target))))
            }
            (LocationKind::File, None) if location.end() - location.header <= WHOLE => {
                let read = self.bytes.read(wanted.archive, location.header, location.end()).await?;
                let data = usize::try_from(location.data - location.header).unwrap_or(usize::MAX).min(read.len());
                let member = parse(&location, &read[..data]).ok_or_else(|| wanted.foreign())?;
                Ok(wanted.to_fetched(&member, whole(read.slice(data..))))
            }
            (LocationKind::File, None) => {
                let mut body = self.bytes.body(wanted.archive, location.header, location.end()).await?;
                let prelude = usize::try_from(location.data - location.header).unwrap_or(usize::MAX);
                let headers = body.take(prelude, |_| ()).await?;
                let member = parse(&location, &headers).ok_or_else(|| wanted.foreign())?;
                Ok(wanted.to_fetched(&member, Body::from_stream(body.into_stream())))
            }
            // Parts of a member whose headers `head` has read before the first of them.
            (LocationKind::File, Some(range)) => {
                let (first, end) = (location.data + range.first, location.data + range.last + 1);
                if end > location.end() {
                    return Err(wanted.foreign());
                }
                let body = self.bytes.body(wanted.archive, first, end).await?;
                let size = wanted.size.unwrap_or(location.stored);
                Ok(FetchedObject { meta: ObjectMeta { size, ..wanted.meta(None) }, body })
            }
            (LocationKind::Sparse, range) => {
                let member = self.member(&wanted).await?;
                let (first, len) = range.map_or((0, member.size), |range| (range.first, range.len()));
                let segments = member.sparse.as_ref().map(|map| map.0.as_slice());
                let pieces = pieces(location.data, member.size, segments, first, len);
                let body = join_pieces(Arc::clone(&self.bytes), wanted.archive.to_owned(), pieces);
                Ok(wanted.to_fetched(&member, body))
            }
        }
    }

    async fn bucket_encryption(&self, _bucket: &str) -> Result<BucketEncryption> {
        Ok(BucketEncryption::Unsupported)
    }

    async fn restore(&self, object: ObjectRef<'_>, _days: u32, _tier: &str) -> Result<()> {
        Err(StoreError::new("RestoreObject", object.bucket, Some(object.key), "NotImplemented", None))
    }

    fn invalidate(&self, _source: &PinnedObject) {}

    async fn get_tags(&self, _object: ObjectRef<'_>) -> Result<Vec<(String, String)>> {
        Ok(Vec::new())
    }
}

#[async_trait]
impl ObjectWrite for MemberStore {
    async fn put_object(&self, object: &PutObject, _body: Bytes) -> Result<WrittenObject> {
        refuse("PutObject", &object.bucket, &object.key)
    }

    async fn delete(&self, object: ObjectRef<'_>) -> Result<()> {
        refuse("DeleteObject", object.bucket, object.key)
    }

    async fn delete_if(&self, object: ObjectRef<'_>, _etag: &str) -> Result<()> {
        Err(StoreError::new("DeleteObject", object.bucket, Some(object.key), "NotImplemented", None))
    }

    async fn put_tags(&self, object: ObjectRef<'_>, _tags: &[(String, String)]) -> Result<()> {
        refuse("PutObjectTagging", object.bucket, object.key)
    }

    async fn copy(&self, source: &PinnedObject, _target: CopyTarget<'_>) -> Result<WrittenObject> {
        refuse("CopyObject", &source.bucket, &source.key)
    }
}

#[async_trait]
impl MultipartUpload for MemberStore {
    async fn create_upload(&self, upload: &CreateUpload) -> Result<String> {
        refuse("CreateMultipartUpload", &upload.bucket, &upload.key)
    }

    async fn copy_part(&self, source: &PinnedObject, _: Range, _: UploadRef<'_>, _: u32) -> Result<WrittenPart> {
        refuse("UploadPartCopy", &source.bucket, &source.key)
    }

    async fn put_part(
        &self,
        upload: UploadRef<'_>,
        _: u32,
        _: Bytes,
        _: &seqferry_store::Digests,
    ) -> Result<WrittenPart> {
        refuse("UploadPart", upload.bucket, upload.key)
    }

    async fn stream_part(&self, upload: UploadRef<'_>, part: u32, size: u64, body: Body) -> Result<WrittenPart> {
        put_buffered_part(self, upload, part, size, body).await
    }

    async fn list_parts(&self, upload: UploadRef<'_>, _after: Option<u32>) -> Result<PartsPage> {
        refuse("ListParts", upload.bucket, upload.key)
    }

    async fn complete_upload(&self, upload: &CompleteUpload) -> Result<WrittenObject> {
        refuse("CompleteMultipartUpload", &upload.bucket, &upload.key)
    }

    async fn abort_upload(&self, upload: UploadRef<'_>) -> Result<()> {
        refuse("AbortMultipartUpload", upload.bucket, upload.key)
    }

    async fn list_uploads(&self, bucket: &str, prefix: &str) -> Result<Vec<UploadInfo>> {
        refuse("ListMultipartUploads", bucket, prefix)
    }
}

#[async_trait]
impl ObjectStore for MemberStore {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            conditions: false,
            tags: false,
            reliable_ranges: true,
            streamed_parts: false,
            write_times: false,
            ..self.store.capabilities()
        }
    }

    fn bucket_service(&self) -> Option<&dyn BucketService> {
        None
    }

    fn is_amazon(&self) -> bool {
        false
    }

    fn max_attempts(&self) -> Option<u32> {
        self.store.max_attempts()
    }

    fn take_notes(&self, sends_bodies: bool) -> Vec<String> {
        self.store.take_notes(sends_bodies)
    }

    fn deferred_sync(&self, _bucket: &str) -> Option<Box<dyn DeferredSync>> {
        None
    }

    async fn refresh_credentials(&self) -> Result<()> {
        self.store.refresh_credentials().await
    }
}
