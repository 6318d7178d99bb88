//! A contradicted `ETag` or checksum: a difference, unless the `ETag` is known for another reason to be no digest of
//! the bytes.
//!
//! An `ETag` in the form of an MD5 that is not the MD5 of the bytes indicates that the bytes are wrong. Another read
//! decides nothing: whatever corrupts bytes in transit may corrupt them each time. The contradiction is dismissed only
//! for a reason that does not rest on the bytes in question:
//!
//! 1. the service names an encryption that makes the `ETag` opaque (the caller has asked), or the bucket is a directory
//!    bucket, whose `ETag`s are random;
//! 2. the digest was computed over parts as the first one suggests them, and the service states other sizes: then the
//!    digest over parts of those sizes counts;
//! 3. a probe shows that the service's `ETag`s are no digests. A probe transfers no bytes that could be corrupted:
//!    it reads the `ETag` of an empty object, sends an empty part, or has the service copy one byte twice.
//!
//! After a probe that fails, or finds no empty object, the contradiction counts as a difference.

use std::sync::Arc;

use bytes::Bytes;
use futures::stream::{self, StreamExt as _};
use seqferry_client::upload::abort_once;
use seqferry_client::{RequestError, RequestSpec, RetryContext, RetryingClient};
use seqferry_store::{CreateUpload, Digests, ListRequest, ListedObject, ObjectRef, PinnedObject, Range, UploadRef};

use crate::plan::{PartPlan, etag_parts};
use crate::verification::{Verdict, is_digest};

/// MD5 of no bytes.
const MD5_OF_NOTHING: &str = "d41d8cd98f00b204e9800998ecf8427e";
/// Suffix of the names of directory buckets of S3 Express One Zone. AWS: their `ETag`s are no MD5.
const DIRECTORY_BUCKET: &str = "--x-s3";
/// Largest number of concurrent HEAD requests for the parts of one object.
const CONCURRENT_PARTS: usize = 8;
/// Largest number of parts of an object.
const MAX_PARTS: u32 = 10_000;
/// Largest number of empty objects of a listing that a probe checks with HEAD.
const EMPTY_OBJECTS: usize = 3;

/// Origin of an object, which decides how its service can be probed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ObjectOrigin<'a> {
    /// It was found: nothing may be written beside it.
    Found,
    /// This process sent its bytes.
    Sent,
    /// Its service copied it from this object.
    Copied(&'a PinnedObject),
}

/// An object whose `ETag` or checksum contradicts the bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StatedEtag<'a> {
    /// Client of its service.
    pub(crate) client: &'a RetryingClient,
    /// The object.
    pub(crate) object: ObjectRef<'a>,
    /// Its `ETag`.
    pub(crate) etag: &'a str,
    /// Its bytes.
    pub(crate) size: u64,
    /// Its origin.
    pub(crate) origin: ObjectOrigin<'a>,
    /// True when the digest was computed over parts of the sizes that the service states.
    pub(crate) is_exact: bool,
}

/// Result of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Probe {
    /// `ETag`s are digests.
    Digests,
    /// `ETag`s are no digests.
    NoDigests,
    /// The bucket encrypts, so that `ETag`s of this kind of object are no digests.
    Encrypted,
    /// Nothing.
    Nothing,
}

impl Probe {
    /// Result for the `ETag` of an empty object or part.
    fn of_nothing(etag: &str) -> Self {
        if etag.eq_ignore_ascii_case(MD5_OF_NOTHING) { Self::Digests } else { Self::NoDigests }
    }
}

/// Decides on a contradiction between the bytes and the `ETag` or checksum of `stated`: it becomes a difference, or
/// stays doubtful where the `ETag` of one of them is no digest of the bytes. Other verdicts are returned as they are.
///
/// # Errors
/// When the client was cancelled.
pub(crate) async fn resolve_contradiction(
    verdict: Verdict,
    stated: &[StatedEtag<'_>],
    retry_context: &RetryContext,
) -> Result<Verdict, RequestError> {
    let Verdict::Doubtful(how) = verdict else { return Ok(verdict) };
    for one in stated {
        // Rare: boxed, so that each object under way does not reserve space for it.
        if Box::pin(one.has_no_digest(retry_context)).await? {
            return Ok(Verdict::Doubtful(how));
        }
    }
    Ok(Verdict::Differs(how))
}

impl StatedEtag<'_> {
    async fn has_no_digest(&self, retry_context: &RetryContext) -> Result<bool, RequestError> {
        if !self.client.capabilities().digests || self.object.bucket.ends_with(DIRECTORY_BUCKET) {
            return Ok(true);
        }
        if matches!(self.origin, ObjectOrigin::Found)
            && !self.is_exact
            && let Some(parts) = etag_parts(self.etag)
            && !self.has_even_parts(parts, retry_context).await?
        {
            return Ok(true);
        }
        let known = |digests: bool| !digests;
        if let Some(digests) = self.client.quirks().etags_are_digests() {
            return Ok(known(digests));
        }
        let Some(turn) = self.client.quirks().probe_etags().await else {
            return Ok(self.client.quirks().etags_are_digests().is_some_and(known));
        };
        let found = match self.origin {
            ObjectOrigin::Found => self.find_empty_object(retry_context).await?,
            ObjectOrigin::Sent => self.send_empty_part(retry_context).await?,
            ObjectOrigin::Copied(source) => self.copy_byte_twice(source, retry_context).await?,
        };
        match found {
            Probe::Digests => self.client.quirks().learn_etags(true),
            Probe::NoDigests => self.client.quirks().learn_etags(false),
            Probe::Encrypted | Probe::Nothing => {}
        }
        drop(turn);
        Ok(matches!(found, Probe::NoDigests | Probe::Encrypted))
    }

    /// True when the service states for each part the size that its first part suggests.
    async fn has_even_parts(&self, parts: u32, retry_context: &RetryContext) -> Result<bool, RequestError> {
        let Some((_, part_size)) = self.part_size(1, retry_context).await? else { return Ok(false) };
        let plan = PartPlan { size: self.size, part_size: part_size.max(1) };
        if plan.count() != parts {
            return Ok(false);
        }
        let Some(sizes) = self.part_sizes(retry_context).await? else { return Ok(false) };
        let is_even = |(number, size)| plan.range(number).is_some_and(|range| range.len() == size);
        Ok((1..).zip(sizes.iter().copied()).all(is_even))
    }

    /// Sizes of all parts, as the service states them. None: it states no such sizes.
    pub(crate) async fn part_sizes(&self, retry_context: &RetryContext) -> Result<Option<Arc<[u64]>>, RequestError> {
        let Some(parts) = etag_parts(self.etag).filter(|parts| *parts <= MAX_PARTS) else { return Ok(None) };
        let mut all =
            stream::iter(1..=parts).map(|number| self.part_size(number, retry_context)).buffered(CONCURRENT_PARTS);
        let mut sizes = Vec::new();
        while let Some(part) = all.next().await {
            let Some((_, size)) = part? else { return Ok(None) };
            sizes.push(size);
        }
        let total = sizes.iter().try_fold(0_u64, |total, size| total.checked_add(*size));
        Ok((total == Some(self.size)).then(|| sizes.into()))
    }

    /// Number and size of a part, as the service states it. None: it does not.
    async fn part_size(&self, number: u32, retry_context: &RetryContext) -> Result<Option<(u32, u64)>, RequestError> {
        let call = RequestSpec::read("HeadObject", self.object.bucket);
        match self.client.call(call, retry_context, async |store| store.head(self.object, Some(number)).await).await {
            Ok(part) => Ok((part.etag == self.etag).then_some((number, part.size))),
            Err(RequestError::Failed(_)) => Ok(None),
            Err(RequestError::Cancelled) => Err(RequestError::Cancelled),
        }
    }

    /// Looks for an empty object beside this one: its `ETag` is the MD5 of nothing, or no digest.
    async fn find_empty_object(&self, retry_context: &RetryContext) -> Result<Probe, RequestError> {
        let bucket = self.object.bucket;
        let folder = self.object.key.rfind('/').map_or("", |at| &self.object.key[..=at]);
        let request = ListRequest { bucket: bucket.to_owned(), prefix: folder.to_owned(), ..ListRequest::default() };
        let listing = RequestSpec::read("ListObjectsV2", bucket);
        let page = match self.client.call(listing, retry_context, async |store| store.list(&request).await).await {
            Ok(page) => page,
            Err(RequestError::Failed(_)) => return Ok(Probe::Nothing),
            Err(RequestError::Cancelled) => return Err(RequestError::Cancelled),
        };
        // The markers of folders have ETags of their own on some services.
        let empty = |object: &&ListedObject| object.size == 0 && is_digest(&object.etag) && !object.key.ends_with('/');
        for object in page.objects.iter().filter(empty).take(EMPTY_OBJECTS) {
            let call = RequestSpec::read("HeadObject", bucket);
            let head = self
                .client
                .call(call, retry_context, async |store| store.head(ObjectRef::new(bucket, &object.key), None).await);
            match head.await {
                Ok(head) if !head.opaque_etag && head.etag == object.etag => return Ok(Probe::of_nothing(&head.etag)),
                Ok(_) | Err(RequestError::Failed(_)) => {}
                Err(RequestError::Cancelled) => return Err(RequestError::Cancelled),
            }
        }
        Ok(Probe::Nothing)
    }

    /// Sends an empty part into an upload that is aborted immediately.
    async fn send_empty_part(&self, retry_context: &RetryContext) -> Result<Probe, RequestError> {
        let Some(upload_id) = self.begin_scratch(retry_context).await? else { return Ok(Probe::Nothing) };
        let upload = UploadRef::new(self.object.bucket, self.object.key, &upload_id);
        let call = RequestSpec::write("UploadPart", upload.bucket);
        let none = Digests::default();
        let sent = self
            .client
            .call(call, retry_context, async |store| store.put_part(upload, 1, Bytes::new(), &none).await)
            .await;
        self.end_scratch(upload, retry_context).await;
        match sent {
            Ok(part) if part.opaque_etag => Ok(Probe::Encrypted),
            Ok(part) if is_digest(&part.etag) => Ok(Probe::of_nothing(&part.etag)),
            Ok(_) | Err(RequestError::Failed(_)) => Ok(Probe::Nothing),
            Err(RequestError::Cancelled) => Err(RequestError::Cancelled),
        }
    }

    /// Has the service copy one byte of the source twice: digests are equal. Equal `ETag`s leave it undecided.
    async fn copy_byte_twice(
        &self,
        source: &PinnedObject,
        retry_context: &RetryContext,
    ) -> Result<Probe, RequestError> {
        if self.size == 0 {
            return Ok(Probe::Nothing);
        }
        let Some(upload_id) = self.begin_scratch(retry_context).await? else { return Ok(Probe::Nothing) };
        let upload = UploadRef::new(self.object.bucket, self.object.key, &upload_id);
        let mut copies = Vec::new();
        for number in 1..=2 {
            let call = RequestSpec::write("UploadPartCopy", upload.bucket);
            let byte = Range { first: 0, last: 0 };
            copies.push(
                self.client
                    .call(call, retry_context, async |store| store.copy_part(source, byte, upload, number).await)
                    .await,
            );
        }
        self.end_scratch(upload, retry_context).await;
        match copies.as_slice() {
            [Err(RequestError::Cancelled), _] | [_, Err(RequestError::Cancelled)] => Err(RequestError::Cancelled),
            [Ok(first), Ok(_)] if first.opaque_etag => Ok(Probe::Encrypted),
            [Ok(first), Ok(second)] if first.etag != second.etag => Ok(Probe::NoDigests),
            _ => Ok(Probe::Nothing),
        }
    }

    /// Begins an upload for a probe; None where that fails.
    async fn begin_scratch(&self, retry_context: &RetryContext) -> Result<Option<String>, RequestError> {
        let ObjectRef { bucket, key, .. } = self.object;
        let request = CreateUpload { bucket: bucket.to_owned(), key: key.to_owned(), ..CreateUpload::default() };
        let create = RequestSpec::write("CreateMultipartUpload", bucket);
        match self.client.call(create, retry_context, async |store| store.create_upload(&request).await).await {
            Ok(upload_id) => Ok(Some(upload_id)),
            Err(RequestError::Failed(_)) => Ok(None),
            Err(RequestError::Cancelled) => Err(RequestError::Cancelled),
        }
    }

    async fn end_scratch(&self, upload: UploadRef<'_>, retry_context: &RetryContext) {
        // An upload that stays is aborted with the others of this transfer, or by a rule of the bucket.
        let _best_effort = abort_once(&self.client.uncancelled(), retry_context, upload).await;
    }
}
