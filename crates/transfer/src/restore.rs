//! Readable copies of archived objects: requested once, and polled until they are there.

use std::sync::Arc;

use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use seqferry_client::{RequestError, RequestSpec, RetryContext, RetryingClient};
use seqferry_store::{ErrorClass, ObjectRef, Scope};

/// Objects that are checked concurrently.
const MAX_CONCURRENT: usize = 16;

/// Returns for each key whether it can be read now. Requests a readable copy, for `days` days, of each archived object
/// that is not being restored.
///
/// A key that is refused by itself counts as readable: its copy then fails with the reason; the others are waited for.
pub(crate) async fn restore(
    client: &RetryingClient,
    bucket: &str,
    keys: Vec<String>,
    days: u32,
    tier: &str,
) -> Result<Vec<bool>, RequestError> {
    let retry_context = Arc::<RetryContext>::default();
    let one = async |key: String| {
        let object = ObjectRef::new(bucket, &key);
        let call = RequestSpec::read("HeadObject", bucket);
        let head = client.call(call, &retry_context, async |store| store.head(object, None).await).await?;
        if head.archived && !head.restoring {
            let call = RequestSpec::read("RestoreObject", bucket);
            client.call(call, &retry_context, async |store| store.restore(object, days, tier).await).await?;
        }
        Ok(!head.archived)
    };
    let one_or_passed = async |key: String| match one(key).await {
        Err(RequestError::Failed(error))
            if error.scope != Scope::Job && !matches!(error.class, ErrorClass::Retry | ErrorClass::Throttle) =>
        {
            Ok(true)
        }
        found => found,
    };
    stream::iter(keys).map(one_or_passed).buffered(MAX_CONCURRENT).try_collect().await
}
