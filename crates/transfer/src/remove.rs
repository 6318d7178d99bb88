//! Removing objects, each only while it is what was listed.

use std::sync::atomic::{AtomicBool, Ordering};

use futures::stream::StreamExt as _;
use seqferry_client::{RequestError, RequestSpec, RetryContext, RetryingClient};
use seqferry_store::{ErrorClass, ObjectRef};

/// Objects of one call that may wait at a time.
const AT_ONCE: usize = 64;

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
            let removed = remove_one(requests, bucket, &key, etag.as_deref().filter(|etag| !etag.is_empty())).await;
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
    bucket: &str,
    key: &str,
    etag: Option<&str>,
) -> Result<bool, RequestError> {
    let tries = RetryContext::default();
    if let Some(etag) = etag.filter(|_| requests.capabilities().conditions) {
        // Looked at first as well: some services pass over the condition without a word.
        let there = requests
            .call(RequestSpec::read("HeadObject", bucket), &tries, async |store| {
                store.head(ObjectRef::new(bucket, key), None).await
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
                .call(RequestSpec::write("DeleteObject", bucket), &tries, async |store| {
                    store.delete_if(ObjectRef::new(bucket, key), etag).await
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
        .call(RequestSpec::write("DeleteObject", bucket), &tries, async |store| {
            store.delete(ObjectRef::new(bucket, key)).await
        })
        .await
        .map(|()| true)
}
