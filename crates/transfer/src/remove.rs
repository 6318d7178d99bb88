//! Removal of objects, each only while it is as listed.

use std::sync::atomic::{AtomicBool, Ordering};

use futures::stream::StreamExt as _;
use seqferry_client::{RequestError, RequestSpec, RetryContext, RetryingClient};
use seqferry_store::{ErrorClass, ObjectRef, Removal, Scope, StoreError};

/// Objects of one call that may wait at a time.
const AT_ONCE: usize = 64;
/// Objects of one request: S3 takes no more.
const MANY: usize = 1000;

/// Outcome for an object that was to be removed.
#[derive(Debug)]
pub enum RemovalOutcome {
    /// The object is gone, or was not there; with the version of the delete marker that hides it now.
    Removed(Option<String>),
    /// Something else is there by now, and was left.
    Left,
    /// The object could not be removed.
    Failed(StoreError),
}

/// Remove these objects by the thousand, where the service can. Returns the outcome of each, in their order.
///
/// `Careful` looks at each object first, as some services pass over `ETag`s: for a run that follows another.
///
/// # Errors
///
/// [`RequestError::Cancelled`] alone: all other failures are those of objects.
pub async fn remove_each(
    requests: &RetryingClient,
    bucket: &str,
    objects: &[Removal],
    careful: bool,
) -> Result<Vec<RemovalOutcome>, RequestError> {
    let mut ended: Vec<Option<RemovalOutcome>> = objects.iter().map(|_| None).collect();
    if !careful && requests.connection().store.bucket_service().is_some() {
        let plain: Vec<usize> = (0..objects.len()).filter(|n| is_plain(&objects[*n].key)).collect();
        for chunk in plain.chunks(MANY) {
            if chunk.len() > 1 && !requests.quirks().refuses_delete_many() {
                remove_many(requests, bucket, objects, chunk, &mut ended).await?;
            }
        }
    }
    let left: Vec<usize> = (0..objects.len()).filter(|n| ended[*n].is_none()).collect();
    let removals = left.into_iter().map(|n| async move { (n, remove_single(requests, bucket, &objects[n]).await) });
    let single: Vec<_> = futures::stream::iter(removals).buffer_unordered(AT_ONCE).collect().await;
    for (n, outcome) in single {
        ended[n] = Some(outcome?);
    }
    Ok(ended.into_iter().map(|outcome| outcome.unwrap_or(RemovalOutcome::Left)).collect())
}

/// True when a key can stand in XML as it is: control characters cannot, and some services cut blanks off.
fn is_plain(key: &str) -> bool {
    !key.chars().any(|c| c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}')) && key.trim() == key
}

/// One request for many. What it does not settle is left open in `ended`.
async fn remove_many(
    requests: &RetryingClient,
    bucket: &str,
    objects: &[Removal],
    chunk: &[usize],
    ended: &mut [Option<RemovalOutcome>],
) -> Result<(), RequestError> {
    let wanted: Vec<Removal> = chunk.iter().map(|n| objects[*n].clone()).collect();
    let spec = RequestSpec::write("DeleteObjects", bucket);
    let answer = requests
        .call(spec, &RetryContext::default(), async |store| match store.bucket_service() {
            Some(service) => service.delete_many(bucket, &wanted).await,
            None => Err(StoreError::new("DeleteObjects", bucket, None, "NotImplemented", None)),
        })
        .await;
    match answer {
        Ok(answers) => {
            for (n, answer) in chunk.iter().zip(answers) {
                ended[*n] = match answer {
                    Some(Ok(removed)) => Some(RemovalOutcome::Removed(removed.marker)),
                    Some(Err(error)) => settle(error),
                    None => None,
                };
            }
            Ok(())
        }
        Err(RequestError::Cancelled) => Err(RequestError::Cancelled),
        // Nothing of these objects can be removed, whatever the request.
        Err(RequestError::Failed(error)) if error.scope == Scope::Job => {
            for n in chunk {
                ended[*n] = Some(RemovalOutcome::Failed(error.clone()));
            }
            Ok(())
        }
        Err(RequestError::Failed(error)) => {
            if matches!(error.class, ErrorClass::Capability | ErrorClass::Object) {
                requests.quirks().learn_refused_delete_many();
            }
            Ok(())
        }
    }
}

/// Outcome that an error for one object of many settles; None: the object is removed by a request of its own.
fn settle(error: StoreError) -> Option<RemovalOutcome> {
    match error.class {
        ErrorClass::NotFound => Some(RemovalOutcome::Removed(None)),
        ErrorClass::Person if error.scope == Scope::Object => Some(RemovalOutcome::Failed(error)),
        _ => None,
    }
}

async fn remove_single(
    requests: &RetryingClient,
    bucket: &str,
    object: &Removal,
) -> Result<RemovalOutcome, RequestError> {
    let etag = object.etag.as_deref().filter(|etag| !etag.is_empty());
    // Where a removal can have no condition, the look before is all there is.
    if let Some(etag) = etag.filter(|_| object.version.is_none() && !requests.capabilities().conditions) {
        match requests.head(ObjectRef::new(bucket, &object.key)).await {
            Ok(now) if now.etag != etag => return Ok(RemovalOutcome::Left),
            Ok(_) => {}
            Err(RequestError::Cancelled) => return Err(RequestError::Cancelled),
            Err(RequestError::Failed(error)) if error.is_of_no_object() => return Ok(RemovalOutcome::Left),
            Err(RequestError::Failed(error)) if error.class == ErrorClass::NotFound => {
                return Ok(RemovalOutcome::Removed(None));
            }
            Err(RequestError::Failed(error)) => return Ok(RemovalOutcome::Failed(error)),
        }
    }
    let removed = match &object.version {
        None => remove_one(requests, ObjectRef::new(bucket, &object.key), etag).await,
        Some(version) => requests
            .call(RequestSpec::write("DeleteObject", bucket), &RetryContext::default(), async |store| {
                store.delete(ObjectRef::new(bucket, &object.key).at_version(Some(version))).await
            })
            .await
            .map(|()| true),
    };
    match removed {
        Ok(true) => Ok(RemovalOutcome::Removed(None)),
        Ok(false) => Ok(RemovalOutcome::Left),
        Err(RequestError::Failed(error)) if error.class == ErrorClass::NotFound => Ok(RemovalOutcome::Removed(None)),
        Err(RequestError::Failed(error)) => Ok(RemovalOutcome::Failed(error)),
        Err(RequestError::Cancelled) => Err(RequestError::Cancelled),
    }
}

/// Remove these keys, those with an `ETag` only while they have it. One that is not there counts as removed.
///
/// Returns the keys that hold something else by now, and were left.
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
    let ended: Vec<_> = futures::stream::iter(removals).buffer_unordered(AT_ONCE).collect().await;
    Ok(ended.into_iter().collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
}

/// False when something else is there.
async fn remove_one(
    requests: &RetryingClient,
    object: ObjectRef<'_>,
    etag: Option<&str>,
) -> Result<bool, RequestError> {
    let retry_context = RetryContext::default();
    if let Some(etag) = etag.filter(|_| requests.capabilities().conditions) {
        // Looked at first as well: some services pass over the condition without a word.
        let there = requests
            .call(RequestSpec::read("HeadObject", object.bucket), &retry_context, async |store| {
                store.head(object, None).await
            })
            .await;
        match there {
            Ok(now) if now.etag != etag => return Ok(false),
            Ok(_) => {}
            Err(RequestError::Failed(error)) if error.class == ErrorClass::NotFound => return Ok(true),
            Err(other) => return Err(other),
        }
        if !requests.quirks().refuses_delete_matches() {
            let removed = requests
                .call(RequestSpec::write("DeleteObject", object.bucket), &retry_context, async |store| {
                    store.delete_if(object, etag).await
                })
                .await;
            match removed {
                Ok(()) => return Ok(true),
                Err(RequestError::Failed(error)) => match error.class {
                    ErrorClass::Precondition => return Ok(false),
                    ErrorClass::NotFound => return Ok(true),
                    ErrorClass::Capability => requests.quirks().learn_refused_delete_matches(),
                    _ if error.message.to_ascii_lowercase().contains("if-match") => {
                        requests.quirks().learn_refused_delete_matches();
                    }
                    _ => return Err(RequestError::Failed(error)),
                },
                Err(other) => return Err(other),
            }
        }
    }
    requests
        .call(RequestSpec::write("DeleteObject", object.bucket), &retry_context, async |store| {
            store.delete(object).await
        })
        .await
        .map(|()| true)
}
