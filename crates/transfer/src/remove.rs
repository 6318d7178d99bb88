//! Removal of objects, each only while it is as listed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::stream::StreamExt as _;
use seqferry_client::{RequestError, RequestSpec, RetryContext, RetryingClient};
use seqferry_store::{Advice, ErrorClass, ObjectRef, ObjectStore, ObjectUri, Removal, Scope, StoreError};
use tokio::runtime::Handle;
use tracing::Instrument as _;

use crate::job::{Job, JobSpec};
use crate::location_job::{LocationJob, LocationOptions, LocationResult};
use crate::object::JobItem;
use crate::object_outcome::{CopyMethod, FailureClass, ObjectFailure};
use crate::schedule::Scheduler;

/// Largest number of concurrent removals of one call.
const MAX_CONCURRENT: usize = 64;
/// Objects of one request: S3 takes no more.
const MAX_BATCH: usize = 1000;

impl Job {
    /// Start removing the items at the target of `spec`: a version of an item permanently, an `ETag` only while it is
    /// the object's. One that is not there counts as removed. Where the service can, they are removed by the thousand.
    pub fn start_remove(runtime: &Handle, scheduler: &Arc<Scheduler>, spec: JobSpec, options: LocationOptions) -> Self {
        let (location_job, job, span) = LocationJob::prepare(scheduler, spec, CopyMethod::Remove, options);
        runtime.spawn(remove_items(location_job).instrument(span));
        job
    }
}

async fn remove_items(mut job: LocationJob) {
    let _grace = job.grant_grace();
    let items = Arc::clone(&job.items);
    if !job.options.check_first && job.client.connection().store.bucket_service().is_some() {
        let plain: Vec<usize> = (0..items.len()).filter(|n| is_plain(&items[*n].source_key)).collect();
        for chunk in plain.chunks(MAX_BATCH) {
            if chunk.len() > 1 && !job.is_stopped() && !job.client.quirks().refuses_delete_many() {
                remove_many(&mut job, chunk).await;
            }
        }
    }
    if !job.is_stopped() {
        let left = (0..items.len()).filter(|n| !job.has_ended(*n)).collect();
        job.each(left, MAX_CONCURRENT, remove_single).await;
    }
    job.finish();
}

/// True when a key can stand in XML as it is: control characters cannot, and some services cut blanks off.
fn is_plain(key: &str) -> bool {
    !key.chars().any(|c| c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}')) && key.trim() == key
}

/// One request for many. Objects without a result in the reply stay open.
async fn remove_many(job: &mut LocationJob, chunk: &[usize]) {
    let wanted: Vec<Removal> = chunk.iter().map(|n| removal(&job.items[*n])).collect();
    let (client, bucket) = (job.client.clone(), job.bucket.clone());
    let answer = client
        .call(RequestSpec::write("DeleteObjects", &bucket), &RetryContext::default(), async |store| {
            match store.bucket_service() {
                Some(service) => service.delete_many(&bucket, &wanted).await,
                None => Err(StoreError::new("DeleteObjects", &bucket, None, "NotImplemented", None)),
            }
        })
        .await;
    match answer {
        Ok(answers) => {
            for (n, answer) in chunk.iter().zip(answers) {
                match answer {
                    Some(Ok(removed)) => job.end(*n, LocationResult::Done(removed.marker)),
                    Some(Err(error)) if error.class == ErrorClass::NotFound => job.end(*n, LocationResult::Done(None)),
                    Some(Err(error)) if error.class == ErrorClass::Person && error.scope == Scope::Object => {
                        job.fail(*n, error);
                    }
                    // The object is removed by a request of its own.
                    Some(Err(_)) | None => {}
                }
            }
        }
        // The failure applies to all objects.
        Err(RequestError::Failed(error)) if error.scope == Scope::Job => {
            for n in chunk {
                job.fail(*n, error.clone());
            }
        }
        Err(RequestError::Failed(error)) => {
            if matches!(error.class, ErrorClass::Capability | ErrorClass::Object) {
                client.quirks().learn_refused_delete_many();
            }
        }
        Err(RequestError::Cancelled) => {}
    }
}

fn removal(item: &JobItem) -> Removal {
    let etag = Some(item.etag.clone()).filter(|etag| !etag.is_empty());
    Removal { key: item.source_key.clone(), version: item.version_id.clone(), etag }
}

async fn remove_single(
    client: RetryingClient,
    bucket: Arc<str>,
    item: JobItem,
) -> Result<LocationResult, RequestError> {
    let (requests, bucket) = (&client, &*bucket);
    let (key, etag) = (item.source_key.as_str(), Some(item.etag.as_str()).filter(|etag| !etag.is_empty()));
    // Without conditional removals, only this HEAD protects a newer object.
    if let Some(etag) = etag.filter(|_| item.version_id.is_none() && !requests.capabilities().conditions) {
        match requests.head(ObjectRef::new(bucket, key)).await {
            Ok(now) if now.etag != etag => return Ok(left(bucket, key)),
            Ok(_) => {}
            Err(RequestError::Failed(error)) if error.is_not_an_object() => return Ok(left(bucket, key)),
            Err(RequestError::Failed(error)) if error.class == ErrorClass::NotFound => {
                return Ok(LocationResult::Done(None));
            }
            Err(other) => return Err(other),
        }
    }
    let removed = match &item.version_id {
        None => remove_one(requests, ObjectRef::new(bucket, key), etag).await,
        Some(version) => requests
            .call(RequestSpec::write("DeleteObject", bucket), &RetryContext::default(), async |store| {
                store.delete(ObjectRef::new(bucket, key).at_version(Some(version))).await
            })
            .await
            .map(|()| true),
    };
    match removed {
        Ok(true) => Ok(LocationResult::Done(None)),
        Ok(false) => Ok(left(bucket, key)),
        Err(RequestError::Failed(error)) if error.class == ErrorClass::NotFound => Ok(LocationResult::Done(None)),
        Err(other) => Err(other),
    }
}

/// Result for a key with another object now, which stays.
fn left(bucket: &str, key: &str) -> LocationResult {
    let message = format!(
        "DeleteObject {}: it was written to after it was listed, and was left. {}",
        ObjectUri(bucket, Some(key)),
        Advice::Repeat
    );
    LocationResult::Failed(ObjectFailure::new(FailureClass::SourceChanged, "SourceChanged", "DeleteObject", message))
}

/// Remove these keys, those with an `ETag` only while they have it. One that is not there counts as removed.
///
/// Returns the keys that hold something else meanwhile, and were left.
///
/// # Errors
///
/// The first failure. After it no other removal is begun, and those under way come to their end.
pub async fn remove(
    requests: &RetryingClient,
    bucket: &str,
    objects: Vec<(String, Option<String>)>,
) -> Result<Vec<String>, RequestError> {
    let failed = AtomicBool::new(false);
    let removals = objects.into_iter().map(|(key, etag)| {
        let failed = &failed;
        async move {
            if failed.load(Ordering::Relaxed) {
                return Ok(None);
            }
            let etag = etag.as_deref().filter(|etag| !etag.is_empty());
            let removed = remove_one(requests, ObjectRef::new(bucket, &key), etag).await;
            failed.fetch_or(removed.is_err(), Ordering::Relaxed);
            removed.map(|removed| (!removed).then_some(key))
        }
    });
    let ended: Vec<_> = futures::stream::iter(removals).buffer_unordered(MAX_CONCURRENT).collect().await;
    Ok(ended.into_iter().collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
}

/// Returns false when another object is at the key.
async fn remove_one(
    requests: &RetryingClient,
    object: ObjectRef<'_>,
    etag: Option<&str>,
) -> Result<bool, RequestError> {
    let retry_context = RetryContext::default();
    let Some(etag) = etag.filter(|_| requests.capabilities().conditions) else {
        let delete = async |store: Arc<dyn ObjectStore>| store.delete(object).await.map(|()| true);
        return requests.call(RequestSpec::write("DeleteObject", object.bucket), &retry_context, delete).await;
    };
    let mut has_condition = !requests.quirks().refuses_delete_matches();
    loop {
        let delete = async |store: Arc<dyn ObjectStore>| {
            // In each attempt: some services silently ignore the condition.
            if store.head(object, None).await?.etag != etag {
                return Ok(false);
            }
            if has_condition {
                store.delete_if(object, etag).await?;
            } else {
                store.delete(object).await?;
            }
            Ok(true)
        };
        let removed = requests.call(RequestSpec::write("DeleteObject", object.bucket), &retry_context, delete).await;
        let Err(RequestError::Failed(error)) = removed else { return removed };
        let is_refused =
            error.class == ErrorClass::Capability || error.message.to_ascii_lowercase().contains("if-match");
        match error.class {
            ErrorClass::Precondition => return Ok(false),
            ErrorClass::NotFound => return Ok(true),
            _ if has_condition && is_refused => requests.quirks().learn_refused_delete_matches(),
            _ => return Err(RequestError::Failed(error)),
        }
        has_condition = false;
    }
}
