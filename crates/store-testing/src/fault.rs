//! A store that injects faults and records every request.
//!
//! [`FaultStore`] wraps any store. Rules say which requests fail, and how: with an error before the request takes
//! effect, with the reply lost after it did, late, held until the test releases it, or with a body cut short or
//! altered. Without rules it is transparent, as the conformance suite shows.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _};
use seqferry_store::ObjectReadExt as _;
use seqferry_store::error::classify::code;
use seqferry_store::{
    Body, BucketEncryption, BucketService, Capabilities, CompleteUpload, CopyTarget, CreateUpload, DeferredSync,
    Digests, FetchedObject, ListPage, ListRequest, MultipartUpload, ObjectMeta, ObjectRead, ObjectRef, ObjectStore,
    ObjectWrite, PartsPage, PinnedObject, PutObject, Range, Result, StoreError, UploadInfo, UploadRef, WrittenObject,
    WrittenPart,
};
use tokio::sync::Notify;

/// Effect of a fault on a request.
#[derive(Debug, Clone)]
pub enum Fault {
    /// The request is not made; it fails with this code and status.
    Fail(&'static str, u16),
    /// The request is made, and its reply is lost: the caller sees a broken connection.
    LoseReply,
    /// The request is made, and its reply is a success that holds no result.
    Garble,
    /// The request is made after this delay.
    Delay(Duration),
    /// The request is made, and its reply comes after this delay.
    DelayReply(Duration),
    /// The request is not made; the test's hook runs, and it fails with this code and status.
    FailAfter(Hook, &'static str, u16),
    /// The request waits for [`Latch::open`], then is made.
    Hold(Latch),
    /// The request is made, and its reply waits for [`Latch::open`].
    HoldReply(Latch),
    /// The request is made after the test's hook has run.
    Hook(Hook),
    /// The bytes of a GET wait for [`Latch::open`]; its reply does not.
    HoldBody(Latch),
    /// The body of a GET ends early.
    Truncate,
    /// One byte of the body of a GET, of a write or of a copied part is altered. Other requests are unchanged.
    Corrupt,
}

/// An action of a test between two requests, such as overwriting the source.
#[derive(Clone)]
pub struct Hook(pub Arc<dyn Fn() -> futures::future::BoxFuture<'static, ()> + Send + Sync>);

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hook")
    }
}

/// A latch that holds requests until it is opened, and reports the arrival of the first.
#[derive(Debug, Clone, Default)]
pub struct Latch {
    arrived: Arc<Notify>,
    open: Arc<(Mutex<bool>, Notify)>,
}

impl Latch {
    /// Waits until a request has arrived.
    pub async fn reached(&self) {
        self.arrived.notified().await;
    }

    /// Releases all waiting and later requests.
    pub fn open(&self) {
        *self.open.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.open.1.notify_waiters();
    }

    async fn pass(&self) {
        loop {
            let opened = self.open.1.notified();
            if *self.open.0.lock().unwrap_or_else(PoisonError::into_inner) {
                return;
            }
            self.arrived.notify_one();
            opened.await;
        }
    }
}

/// Rule that applies a fault to matching requests, by operation, key, part and count.
#[derive(Debug, Clone)]
pub struct Rule {
    operation: &'static str,
    key: Option<String>,
    part: Option<u32>,
    /// Number of matching requests that pass first.
    skip: u32,
    /// Number of matching requests that fail after that; None for all.
    times: Option<u32>,
    fault: Fault,
}

impl Rule {
    /// Applies to the first request of this operation.
    pub fn once(operation: &'static str, fault: Fault) -> Self {
        Self { operation, key: None, part: None, skip: 0, times: Some(1), fault }
    }

    /// Applies to every request of this operation.
    pub fn always(operation: &'static str, fault: Fault) -> Self {
        Self { times: None, ..Self::once(operation, fault) }
    }

    /// Limits the rule to this key.
    #[must_use]
    pub fn key(mut self, key: &str) -> Self {
        self.key = Some(key.to_owned());
        self
    }

    /// Limits the rule to this part number.
    #[must_use]
    pub fn part(mut self, part: u32) -> Self {
        self.part = Some(part);
        self
    }

    /// Lets `skip` matching requests pass first.
    #[must_use]
    pub fn after(mut self, skip: u32) -> Self {
        self.skip = skip;
        self
    }

    /// Limits the rule to `times` requests.
    #[must_use]
    pub fn times(mut self, times: u32) -> Self {
        self.times = Some(times);
        self
    }
}

/// A request as it arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedRequest {
    /// S3 operation.
    pub operation: &'static str,
    /// Key of the object, or the prefix of a listing.
    pub key: String,
    /// Part number of a part request.
    pub part: Option<u32>,
}

/// See the module.
#[derive(Debug)]
pub struct FaultStore {
    inner: Arc<dyn ObjectStore>,
    rules: Mutex<Vec<Rule>>,
    requests: Mutex<Vec<RecordedRequest>>,
    random: Mutex<Option<Random>>,
}

#[derive(Debug)]
struct Random {
    rng: fastrand::Rng,
    share: f64,
    faults: Vec<Fault>,
}

impl FaultStore {
    /// Wraps a store; transparent until rules are added.
    pub fn new(inner: Arc<dyn ObjectStore>) -> Self {
        Self { inner, rules: Mutex::default(), requests: Mutex::default(), random: Mutex::default() }
    }

    /// Adds a rule. The first rule that matches a request decides.
    pub fn rule(&self, rule: Rule) -> &Self {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner).push(rule);
        self
    }

    /// Removes all rules.
    pub fn clear_rules(&self) {
        self.rules.lock().unwrap_or_else(PoisonError::into_inner).clear();
        *self.random.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Applies one of the faults, chosen by a seeded generator, to this share of all requests.
    pub fn inject_randomly(&self, seed: u64, share: f64, faults: Vec<Fault>) {
        let random = Random { rng: fastrand::Rng::with_seed(seed), share, faults };
        *self.random.lock().unwrap_or_else(PoisonError::into_inner) = Some(random);
    }

    /// All requests so far, in the order of their arrival.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Number of requests of an operation so far.
    pub fn count(&self, operation: &str) -> usize {
        self.requests().iter().filter(|request| request.operation == operation).count()
    }

    /// Requests by operation.
    pub fn counts(&self) -> HashMap<&'static str, usize> {
        self.requests().iter().fold(HashMap::new(), |mut counts, request| {
            *counts.entry(request.operation).or_default() += 1;
            counts
        })
    }

    fn fault(&self, operation: &'static str, key: &str, part: Option<u32>) -> Option<Fault> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).push(RecordedRequest {
            operation,
            key: key.to_owned(),
            part,
        });
        let mut rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        let matching = rules.iter_mut().find(|rule| {
            rule.operation == operation
                && rule.key.as_deref().is_none_or(|wanted| wanted == key)
                && rule.part.is_none_or(|wanted| Some(wanted) == part)
                && rule.times != Some(0)
        });
        if let Some(rule) = matching {
            if rule.skip > 0 {
                rule.skip -= 1;
                return None;
            }
            rule.times = rule.times.map(|left| left - 1);
            return Some(rule.fault.clone());
        }
        let mut random = self.random.lock().unwrap_or_else(PoisonError::into_inner);
        let random = random.as_mut()?;
        (random.rng.f64() < random.share).then(|| random.rng.choice(&random.faults).cloned()).flatten()
    }

    async fn request<T>(
        &self,
        operation: &'static str,
        bucket: &str,
        key: &str,
        part: Option<u32>,
        request: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        self.meet(self.fault(operation, key, part), operation, bucket, key, request).await
    }

    async fn meet<T>(
        &self,
        fault: Option<Fault>,
        operation: &'static str,
        bucket: &str,
        key: &str,
        request: impl Future<Output = Result<T>> + Send,
    ) -> Result<T> {
        tracing::debug!(operation, key, ?fault, "request");
        let request = async {
            let answer = request.await;
            tracing::debug!(operation, key, error = ?answer.as_ref().err().map(|error| &error.code), "made");
            answer
        };
        match fault {
            None | Some(Fault::HoldBody(_) | Fault::Truncate | Fault::Corrupt) => request.await,
            Some(Fault::Fail(code, status)) => {
                Err(StoreError::new(operation, bucket, Some(key), code, Some(status)).with_message("made to fail"))
            }
            Some(Fault::FailAfter(hook, code, status)) => {
                (hook.0)().await;
                Err(StoreError::new(operation, bucket, Some(key), code, Some(status)).with_message("made to fail"))
            }
            Some(Fault::LoseReply) => {
                request.await?;
                Err(StoreError::new(operation, bucket, Some(key), code::CONNECTION_FAILED, None)
                    .with_message("reply lost"))
            }
            Some(Fault::Garble) => {
                request.await?;
                Err(StoreError::new(operation, bucket, Some(key), code::MALFORMED, Some(200))
                    .with_message("the answer has no ETag"))
            }
            Some(Fault::Delay(time)) => {
                tokio::time::sleep(time).await;
                request.await
            }
            Some(Fault::DelayReply(time)) => {
                let answer = request.await;
                tokio::time::sleep(time).await;
                answer
            }
            Some(Fault::Hold(latch)) => {
                latch.pass().await;
                request.await
            }
            Some(Fault::HoldReply(latch)) => {
                let answer = request.await;
                latch.pass().await;
                answer
            }
            Some(Fault::Hook(hook)) => {
                (hook.0)().await;
                request.await
            }
        }
    }
}

/// Body of a write, as the wrapped store gets it. It is altered in another way than the body of a GET, so that the two
/// faults remain distinguishable.
fn sent(fault: Option<&Fault>, body: Bytes) -> Bytes {
    if !matches!(fault, Some(Fault::Corrupt)) {
        return body;
    }
    let mut bytes = body.to_vec();
    if let Some(byte) = bytes.last_mut() {
        *byte ^= 2;
    }
    bytes.into()
}

#[async_trait]
impl ObjectRead for FaultStore {
    async fn head_bucket(&self, bucket: &str) -> Result<()> {
        self.request("HeadBucket", bucket, "", None, self.inner.head_bucket(bucket)).await
    }

    async fn list(&self, request: &ListRequest) -> Result<ListPage> {
        self.request("ListObjectsV2", &request.bucket, &request.prefix, None, self.inner.list(request)).await
    }

    async fn head(&self, object: ObjectRef<'_>, part: Option<u32>) -> Result<ObjectMeta> {
        let ObjectRef { bucket, key, .. } = object;
        self.request("HeadObject", bucket, key, part, self.inner.head(object, part)).await
    }

    async fn fetch(&self, source: &PinnedObject, range: Option<Range>) -> Result<FetchedObject> {
        let (bucket, key) = (source.bucket.clone(), source.key.clone());
        match self.fault("GetObject", &key, None) {
            Some(Fault::HoldBody(latch)) => {
                let FetchedObject { meta, body } = self.inner.fetch(source, range).await?;
                let held = futures::stream::once(async move { latch.pass().await }).flat_map({
                    let mut body = Some(body.into_stream());
                    move |()| body.take().unwrap_or_else(|| futures::stream::empty().boxed())
                });
                Ok(FetchedObject { meta, body: Body::from_stream(held.boxed()) })
            }
            Some(Fault::Truncate) => {
                let FetchedObject { meta, body } = self.inner.fetch(source, range).await?;
                let half = body.into_stream().take(1);
                let end = Err(StoreError::new("GetObject", &bucket, Some(&key), code::TRUNCATED, Some(200)));
                Ok(FetchedObject { meta, body: Body::from_stream(half.chain(futures::stream::iter([end])).boxed()) })
            }
            Some(Fault::Corrupt) => {
                let FetchedObject { meta, body } = self.inner.fetch(source, range).await?;
                let altered = body.into_stream().map_ok(|chunk| {
                    let mut bytes = chunk.to_vec();
                    if let Some(byte) = bytes.first_mut() {
                        *byte ^= 1;
                    }
                    Bytes::from(bytes)
                });
                Ok(FetchedObject { meta, body: Body::from_stream(altered.boxed()) })
            }
            fault => self.meet(fault, "GetObject", &bucket, &key, self.inner.fetch(source, range)).await,
        }
    }

    async fn get_tags(&self, object: ObjectRef<'_>) -> Result<Vec<(String, String)>> {
        let ObjectRef { bucket, key, .. } = object;
        self.request("GetObjectTagging", bucket, key, None, self.inner.get_tags(object)).await
    }

    async fn bucket_encryption(&self, bucket: &str) -> Result<BucketEncryption> {
        self.request("GetBucketEncryption", bucket, "", None, self.inner.bucket_encryption(bucket)).await
    }

    async fn restore(&self, object: ObjectRef<'_>, days: u32, tier: &str) -> Result<()> {
        let ObjectRef { bucket, key, .. } = object;
        self.request("RestoreObject", bucket, key, None, self.inner.restore(object, days, tier)).await
    }

    fn invalidate(&self, source: &PinnedObject) {
        self.inner.invalidate(source);
    }
}

#[async_trait]
impl ObjectWrite for FaultStore {
    async fn put_object(&self, object: &PutObject, body: Bytes) -> Result<WrittenObject> {
        let fault = self.fault("PutObject", &object.key, None);
        let request = self.inner.put_object(object, sent(fault.as_ref(), body));
        self.meet(fault, "PutObject", &object.bucket, &object.key, request).await
    }

    async fn delete(&self, object: ObjectRef<'_>) -> Result<()> {
        let ObjectRef { bucket, key, .. } = object;
        self.request("DeleteObject", bucket, key, None, self.inner.delete(object)).await
    }

    async fn delete_if(&self, object: ObjectRef<'_>, etag: &str) -> Result<()> {
        let ObjectRef { bucket, key, .. } = object;
        self.request("DeleteObject", bucket, key, None, self.inner.delete_if(object, etag)).await
    }

    async fn put_tags(&self, object: ObjectRef<'_>, tags: &[(String, String)]) -> Result<()> {
        let ObjectRef { bucket, key, .. } = object;
        self.request("PutObjectTagging", bucket, key, None, self.inner.put_tags(object, tags)).await
    }

    async fn copy(&self, source: &PinnedObject, target: CopyTarget<'_>) -> Result<WrittenObject> {
        let CopyTarget { object: ObjectRef { bucket, key, .. }, .. } = target;
        self.request("CopyObject", bucket, key, None, self.inner.copy(source, target)).await
    }
}

#[async_trait]
impl MultipartUpload for FaultStore {
    async fn create_upload(&self, upload: &CreateUpload) -> Result<String> {
        self.request("CreateMultipartUpload", &upload.bucket, &upload.key, None, self.inner.create_upload(upload)).await
    }

    async fn copy_part(
        &self,
        source: &PinnedObject,
        range: Range,
        upload: UploadRef<'_>,
        part: u32,
    ) -> Result<WrittenPart> {
        let UploadRef { bucket, key, .. } = upload;
        let fault = self.fault("UploadPartCopy", key, Some(part));
        if matches!(fault, Some(Fault::Corrupt)) {
            // The service copies other bytes than the source has, and answers for those.
            let body = self.inner.get(source, Some(range)).await?.into_stream();
            let chunks: Vec<Bytes> = body.try_collect().await?;
            let bytes = sent(fault.as_ref(), chunks.concat().into());
            return self.inner.put_part(upload, part, bytes, &Digests::default()).await;
        }
        let request = self.inner.copy_part(source, range, upload, part);
        self.meet(fault, "UploadPartCopy", bucket, key, request).await
    }

    async fn put_part(&self, upload: UploadRef<'_>, part: u32, body: Bytes, digests: &Digests) -> Result<WrittenPart> {
        let UploadRef { bucket, key, .. } = upload;
        let fault = self.fault("UploadPart", key, Some(part));
        let request = self.inner.put_part(upload, part, sent(fault.as_ref(), body), digests);
        self.meet(fault, "UploadPart", bucket, key, request).await
    }

    async fn stream_part(&self, upload: UploadRef<'_>, part: u32, size: u64, body: Body) -> Result<WrittenPart> {
        let UploadRef { bucket, key, .. } = upload;
        let fault = self.fault("UploadPart", key, Some(part));
        let spoiled = fault.clone();
        let body = Body::from_stream(body.into_stream().map_ok(move |chunk| sent(spoiled.as_ref(), chunk)).boxed());
        let request = self.inner.stream_part(upload, part, size, body);
        self.meet(fault, "UploadPart", bucket, key, request).await
    }

    async fn list_parts(&self, upload: UploadRef<'_>, after: Option<u32>) -> Result<PartsPage> {
        let UploadRef { bucket, key, .. } = upload;
        self.request("ListParts", bucket, key, None, self.inner.list_parts(upload, after)).await
    }

    async fn complete_upload(&self, upload: &CompleteUpload) -> Result<WrittenObject> {
        let request = self.inner.complete_upload(upload);
        self.request("CompleteMultipartUpload", &upload.bucket, &upload.key, None, request).await
    }

    async fn abort_upload(&self, upload: UploadRef<'_>) -> Result<()> {
        let UploadRef { bucket, key, .. } = upload;
        self.request("AbortMultipartUpload", bucket, key, None, self.inner.abort_upload(upload)).await
    }

    async fn list_uploads(&self, bucket: &str, prefix: &str) -> Result<Vec<UploadInfo>> {
        self.request("ListMultipartUploads", bucket, prefix, None, self.inner.list_uploads(bucket, prefix)).await
    }
}

#[async_trait]
impl ObjectStore for FaultStore {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn bucket_service(&self) -> Option<&dyn BucketService> {
        self.inner.bucket_service()
    }

    fn is_amazon(&self) -> bool {
        self.inner.is_amazon()
    }

    fn max_attempts(&self) -> Option<u32> {
        self.inner.max_attempts()
    }

    fn take_notes(&self, sends_bodies: bool) -> Vec<String> {
        self.inner.take_notes(sends_bodies)
    }

    fn deferred_sync(&self, bucket: &str) -> Option<Box<dyn DeferredSync>> {
        self.inner.deferred_sync(bucket)
    }

    async fn refresh_credentials(&self) -> Result<()> {
        self.request("RefreshCredentials", "", "", None, self.inner.refresh_credentials()).await
    }
}
