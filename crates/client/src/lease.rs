//! The lease: until when this process may write to the storage.
//!
//! Where several workers share the work, one that the others no longer hear of must stop before they take its work
//! over. The control plane extends the [`Lease`] with each sign of life that was acknowledged. Past its end no write
//! request starts, and one that is under way is abandoned, without a word from a thread or a database: each request has
//! a timer of its own. After a lapse the lease begins a new epoch, in which only jobs may write that were found to be
//! still this process's own.
//!
//! Times are nanoseconds of `CLOCK_BOOTTIME`, which continues while the machine is suspended.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use rustix::time::{ClockId, clock_gettime};
use seqferry_store::error::classify::code::LEASE_LAPSED;
use seqferry_store::prelude::*;
use seqferry_store::{
    AbortRule, Body, BucketInfo, BucketService, CompleteUpload, CopyTarget, CreateUpload, Digests, ObjectRef,
    PartsPage, PinnedObject, PutObject, Range, Removal, RemovedObject, Result, StoreError, UploadInfo, UploadRef,
    VersionsPage, VersionsRequest, WrittenObject, WrittenPart,
};
use tokio::sync::Notify;

/// No epoch of any lease.
const NEVER: u64 = u64::MAX;

/// Nanoseconds by the clock of leases.
pub fn now() -> i64 {
    #[cfg(target_os = "linux")]
    let clock = ClockId::Boottime;
    // Goes on during sleep on macOS.
    #[cfg(not(target_os = "linux"))]
    let clock = ClockId::Monotonic;
    let at = clock_gettime(clock);
    at.tv_sec.saturating_mul(1_000_000_000).saturating_add(at.tv_nsec)
}

/// The lease of the process: the time of its end, and its epoch. A new one has lapsed.
#[derive(Debug)]
pub struct Lease {
    until: AtomicI64,
    epoch: AtomicU64,
    changed: Notify,
}

impl Default for Lease {
    fn default() -> Self {
        Self { until: AtomicI64::new(i64::MIN), epoch: AtomicU64::new(0), changed: Notify::new() }
    }
}

impl Lease {
    /// Sets the end of the lease and its epoch. A new epoch shuts out all jobs that are not admitted to it.
    pub fn set(&self, until: i64, epoch: u64) {
        // In this order: a reader that sees the new end sees the new epoch as well.
        self.epoch.store(epoch, Ordering::SeqCst);
        self.until.store(until, Ordering::SeqCst);
        self.changed.notify_waiters();
    }

    fn holds(&self, epoch: u64) -> bool {
        now() < self.until.load(Ordering::SeqCst) && self.epoch.load(Ordering::SeqCst) == epoch
    }
}

/// Right of one job to write in one epoch of the lease.
#[derive(Debug)]
pub struct LeaseHolder {
    lease: Arc<Lease>,
    epoch: AtomicU64,
    disowned: Notify,
}

impl LeaseHolder {
    /// Leave to write in this epoch, which was the present one when the job was found to be this process's own.
    pub fn new(lease: Arc<Lease>, epoch: u64) -> Self {
        Self { lease, epoch: AtomicU64::new(epoch), disowned: Notify::new() }
    }

    /// True when a write may start now.
    pub fn may_write(&self) -> bool {
        self.lease.holds(self.epoch.load(Ordering::SeqCst))
    }

    /// The job is still this process's own in this epoch. Never again after [`LeaseHolder::disown`].
    pub fn admit(&self, epoch: u64) {
        let admitted =
            self.epoch.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |present| (present != NEVER).then_some(epoch));
        if admitted.is_ok() {
            self.lease.changed.notify_waiters();
        }
    }

    /// Another process has the job's work: nothing of it is written here any more.
    pub fn disown(&self) {
        self.epoch.store(NEVER, Ordering::SeqCst);
        self.disowned.notify_waiters();
    }

    /// Wait until writes may start.
    pub async fn wait_until_regained(&self) {
        loop {
            let mut changed = pin!(self.lease.changed.notified());
            changed.as_mut().enable();
            if self.may_write() {
                return;
            }
            changed.await;
        }
    }

    /// Wait until writes must end. A lease that was extended meanwhile is waited for again.
    async fn lapsed(&self) {
        loop {
            let mut disowned = pin!(self.disowned.notified());
            disowned.as_mut().enable();
            if !self.may_write() {
                return;
            }
            let left = self.lease.until.load(Ordering::SeqCst).saturating_sub(now());
            // At least a millisecond, the resolution of the timer: it never fires again and again immediately.
            let left = Duration::from_nanos(u64::try_from(left).unwrap_or(0)).max(Duration::from_millis(1));
            tokio::select! {
                () = disowned => {}
                () = tokio::time::sleep(left) => {}
            }
        }
    }

    /// The answer to a write, or an error as soon as the lease has lapsed: its connection is then abandoned, so that a
    /// body that was not sent to its end never takes effect.
    async fn write<T>(&self, about: ErrorContext<'_>, request: impl Future<Output = Result<T>>) -> Result<T> {
        let mut request = pin!(request);
        // Wakes this task at the lapse, also where the network is silent. The first poll that finds no answer starts
        // it.
        let mut lapsed = pin!(self.lapsed());
        std::future::poll_fn(|context| {
            // The clock is asked at each check: the timer stands still while the machine is suspended.
            if !self.may_write() {
                return Poll::Ready(Err(about.lapsed()));
            }
            if let Poll::Ready(answer) = request.as_mut().poll(context) {
                return Poll::Ready(answer);
            }
            lapsed.as_mut().poll(context).map(|()| Err(about.lapsed()))
        })
        .await
    }
}

/// Operation, bucket and key of a request, for its errors.
#[derive(Clone, Copy)]
struct ErrorContext<'a>(&'static str, &'a str, &'a str);

impl ErrorContext<'_> {
    fn lapsed(self) -> StoreError {
        let Self(operation, bucket, key) = self;
        StoreError::new(operation, bucket, Some(key), LEASE_LAPSED, None)
            .with_message("this worker has not reached the database for too long to write to the storage")
    }
}

/// A store whose writes start only within the lease.
#[derive(Debug)]
pub struct LeasedStore {
    store: Arc<dyn ObjectStore>,
    holder: Arc<LeaseHolder>,
}

impl LeasedStore {
    /// The same store for a job that holds the lease.
    pub fn new(store: Arc<dyn ObjectStore>, holder: Arc<LeaseHolder>) -> Self {
        Self { store, holder }
    }
}

seqferry_store::forward_object_read!(
    LeasedStore,
    store,
    [head_bucket, list, head, fetch, get_tags, bucket_encryption, restore, invalidate]
);

#[async_trait]
impl ObjectWrite for LeasedStore {
    async fn put_object(&self, object: &PutObject, body: Bytes) -> Result<WrittenObject> {
        let about = ErrorContext("PutObject", &object.bucket, &object.key);
        self.holder.write(about, self.store.put_object(object, body)).await
    }

    async fn delete(&self, object: ObjectRef<'_>) -> Result<()> {
        let ObjectRef { bucket, key, .. } = object;
        self.holder.write(ErrorContext("DeleteObject", bucket, key), self.store.delete(object)).await
    }

    async fn delete_if(&self, object: ObjectRef<'_>, etag: &str) -> Result<()> {
        let ObjectRef { bucket, key, .. } = object;
        self.holder.write(ErrorContext("DeleteObject", bucket, key), self.store.delete_if(object, etag)).await
    }

    async fn put_tags(&self, object: ObjectRef<'_>, tags: &[(String, String)]) -> Result<()> {
        let ObjectRef { bucket, key, .. } = object;
        self.holder.write(ErrorContext("PutObjectTagging", bucket, key), self.store.put_tags(object, tags)).await
    }

    async fn copy(&self, source: &PinnedObject, target: CopyTarget<'_>) -> Result<WrittenObject> {
        let CopyTarget { object: ObjectRef { bucket, key, .. }, .. } = target;
        let request = self.store.copy(source, target);
        self.holder.write(ErrorContext("CopyObject", bucket, key), request).await
    }
}

#[async_trait]
impl MultipartUpload for LeasedStore {
    async fn create_upload(&self, upload: &CreateUpload) -> Result<String> {
        // Not abandoned once it has started: an upload whose id is lost stays open, and an empty one does no harm.
        if self.holder.may_write() {
            self.store.create_upload(upload).await
        } else {
            Err(ErrorContext("CreateMultipartUpload", &upload.bucket, &upload.key).lapsed())
        }
    }

    async fn copy_part(
        &self,
        source: &PinnedObject,
        range: Range,
        upload: UploadRef<'_>,
        part: u32,
    ) -> Result<WrittenPart> {
        let UploadRef { bucket, key, .. } = upload;
        let request = self.store.copy_part(source, range, upload, part);
        self.holder.write(ErrorContext("UploadPartCopy", bucket, key), request).await
    }

    async fn put_part(&self, upload: UploadRef<'_>, part: u32, body: Bytes, digests: &Digests) -> Result<WrittenPart> {
        let UploadRef { bucket, key, .. } = upload;
        let request = self.store.put_part(upload, part, body, digests);
        self.holder.write(ErrorContext("UploadPart", bucket, key), request).await
    }

    async fn stream_part(&self, upload: UploadRef<'_>, part: u32, size: u64, body: Body) -> Result<WrittenPart> {
        let UploadRef { bucket, key, .. } = upload;
        let request = self.store.stream_part(upload, part, size, body);
        self.holder.write(ErrorContext("UploadPart", bucket, key), request).await
    }

    async fn list_parts(&self, upload: UploadRef<'_>, after: Option<u32>) -> Result<PartsPage> {
        self.store.list_parts(upload, after).await
    }

    async fn complete_upload(&self, upload: &CompleteUpload) -> Result<WrittenObject> {
        let about = ErrorContext("CompleteMultipartUpload", &upload.bucket, &upload.key);
        self.holder.write(about, self.store.complete_upload(upload)).await
    }

    async fn abort_upload(&self, upload: UploadRef<'_>) -> Result<()> {
        let UploadRef { bucket, key, .. } = upload;
        let request = self.store.abort_upload(upload);
        self.holder.write(ErrorContext("AbortMultipartUpload", bucket, key), request).await
    }

    async fn list_uploads(&self, bucket: &str, prefix: &str) -> Result<Vec<UploadInfo>> {
        self.store.list_uploads(bucket, prefix).await
    }
}

#[async_trait]
impl BucketService for LeasedStore {
    async fn list_buckets(&self) -> Result<Vec<BucketInfo>> {
        self.service("ListBuckets", "")?.list_buckets().await
    }

    async fn create_bucket(&self, bucket: &str) -> Result<()> {
        let about = ErrorContext("CreateBucket", bucket, "");
        self.holder.write(about, self.service("CreateBucket", bucket)?.create_bucket(bucket)).await
    }

    async fn delete_bucket(&self, bucket: &str) -> Result<()> {
        let about = ErrorContext("DeleteBucket", bucket, "");
        self.holder.write(about, self.service("DeleteBucket", bucket)?.delete_bucket(bucket)).await
    }

    async fn abort_rules(&self, bucket: &str) -> Result<Vec<AbortRule>> {
        self.service("GetBucketLifecycleConfiguration", bucket)?.abort_rules(bucket).await
    }

    async fn list_versions(&self, request: &VersionsRequest) -> Result<VersionsPage> {
        self.service("ListObjectVersions", &request.bucket)?.list_versions(request).await
    }

    async fn delete_many(&self, bucket: &str, objects: &[Removal]) -> Result<Vec<Option<Result<RemovedObject>>>> {
        let about = ErrorContext("DeleteObjects", bucket, "");
        self.holder.write(about, self.service("DeleteObjects", bucket)?.delete_many(bucket, objects)).await
    }

    async fn presign(&self, object: ObjectRef<'_>, put: bool, seconds: u64) -> Result<String> {
        self.service("Presign", object.bucket)?.presign(object, put, seconds).await
    }
}

impl LeasedStore {
    fn service(&self, operation: &'static str, bucket: &str) -> Result<&dyn BucketService> {
        let lacking = || StoreError::new(operation, bucket, None, "NotImplemented", None);
        self.store.bucket_service().ok_or_else(lacking)
    }
}

// Writes to buckets need the lease as those to objects do.
seqferry_store::forward_object_store!(LeasedStore, store, |leased| {
    leased.store.bucket_service().map(|_| leased as &dyn BucketService)
});

#[cfg(test)]
mod tests {
    use seqferry_store::{Credentials, EndpointOptions};
    use seqferry_store_testing::connect;

    use super::*;

    const SECOND: i64 = 1_000_000_000;

    fn held(until: i64) -> (Arc<Lease>, LeaseHolder) {
        let lease = Arc::new(Lease::default());
        lease.set(until, 1);
        (Arc::clone(&lease), LeaseHolder::new(lease, 1))
    }

    #[test]
    fn writes_start_before_the_end_only() {
        assert!(held(now() + 60 * SECOND).1.may_write());
        assert!(!held(now()).1.may_write());
        assert!(!LeaseHolder::new(Arc::default(), 0).may_write(), "a lease begins lapsed");
    }

    #[test]
    fn a_new_epoch_shuts_out_all_jobs_that_are_not_admitted() {
        let (lease, holder) = held(now());

        lease.set(now() + 60 * SECOND, 2);
        assert!(!holder.may_write());

        holder.admit(2);
        assert!(holder.may_write());
    }

    #[test]
    fn a_job_that_was_disowned_is_never_admitted_again() {
        let (_lease, holder) = held(now() + 60 * SECOND);

        holder.disown();
        holder.admit(1);

        assert!(!holder.may_write());
    }

    #[tokio::test]
    async fn a_job_that_holds_the_lease_reaches_every_method_of_its_store() {
        let holder = held(now() + 60 * SECOND).1;
        let kept =
            seqferry_store_testing::methods_not_forwarded(|store| LeasedStore::new(store, Arc::new(holder))).await;
        assert!(kept.is_empty(), "{kept:?}");
    }

    #[tokio::test]
    async fn a_write_under_way_is_given_up_at_the_lapse() {
        let (lease, holder) = held(now() + 60 * SECOND);
        let wake = Arc::new(Notify::new());
        let body = async {
            wake.notified().await;
            Ok(())
        };
        let mut write = pin!(holder.write(ErrorContext("PutObject", "b", "k"), body));
        assert!(futures::poll!(write.as_mut()).is_pending());

        lease.set(now(), 1);
        wake.notify_one();

        assert_eq!(write.await.expect_err("given up").code, LEASE_LAPSED);
    }

    #[tokio::test]
    async fn a_write_that_nothing_wakes_is_given_up_at_the_lapse() {
        let (_lease, holder) = held(now() + SECOND / 20);

        let silent = std::future::pending::<Result<()>>();

        assert_eq!(
            holder.write(ErrorContext("PutObject", "b", "k"), silent).await.expect_err("given up").code,
            LEASE_LAPSED
        );
    }

    #[tokio::test]
    async fn a_write_goes_on_where_the_lease_was_extended() {
        let (lease, holder) = held(now() + SECOND / 20);
        let answer = async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            Ok(())
        };
        let mut write = pin!(holder.write(ErrorContext("PutObject", "b", "k"), answer));
        assert!(futures::poll!(write.as_mut()).is_pending());

        lease.set(now() + 60 * SECOND, 1);

        write.await.expect("within the lease");
    }

    #[tokio::test]
    async fn a_write_of_a_disowned_job_is_given_up_at_once() {
        let (_lease, holder) = held(now() + 60 * SECOND);
        let mut write = pin!(holder.write(ErrorContext("PutObject", "b", "k"), std::future::pending::<Result<()>>()));
        assert!(futures::poll!(write.as_mut()).is_pending());

        holder.disown();

        assert_eq!(write.await.expect_err("given up").code, LEASE_LAPSED);
    }

    #[tokio::test]
    async fn what_waits_goes_on_when_the_lease_is_back() {
        let (lease, holder) = held(now());
        let mut regained = pin!(holder.wait_until_regained());
        assert!(futures::poll!(regained.as_mut()).is_pending());

        lease.set(now() + 60 * SECOND, 2);
        assert!(futures::poll!(regained.as_mut()).is_pending());
        holder.admit(2);

        regained.await;
    }

    #[tokio::test]
    async fn a_leased_store_can_do_what_its_store_can_and_leases_writes_to_buckets() {
        let key = "unused".to_owned();
        let store = connect(EndpointOptions {
            endpoint_url: Some("https://s3.us-east-1.amazonaws.com".to_owned()),
            region: Some("us-east-1".to_owned()),
            credentials: Some(Credentials { access_key: key.clone(), secret_key: key }),
            ..EndpointOptions::default()
        })
        .await;
        assert!(store.is_amazon());

        let leased = LeasedStore::new(Arc::new(store), Arc::new(held(now()).1));

        assert!(leased.is_amazon());
        let service = leased.bucket_service().expect("that of the store");
        let refused = service.delete_many("b", &[]).await.expect_err("the lease has lapsed");
        assert_eq!(refused.code, LEASE_LAPSED);
    }
}
