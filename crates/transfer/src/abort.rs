//! Jobs that abort open uploads.

use std::sync::Arc;

use seqferry_client::upload::abort_once;
use seqferry_client::{RequestError, RetryContext, RetryingClient};
use seqferry_store::UploadRef;
use tokio::runtime::Handle;
use tracing::Instrument as _;

use crate::job::{Job, JobSpec};
use crate::object::Item;
use crate::outcome::Method;
use crate::place_job::{PlaceEnd, PlaceJob, PlaceOptions};
use crate::schedule::Scheduler;

/// Uploads of one job that are aborted at a time.
const AT_ONCE: usize = 32;

impl Job {
    /// Start aborting uploads at the target of `spec`: the version of each item is the id of its upload. An upload that
    /// is gone counts as aborted.
    pub fn start_abort(runtime: &Handle, scheduler: &Arc<Scheduler>, spec: JobSpec) -> Self {
        let (place, job, span) = PlaceJob::prepare(scheduler, spec, Method::Abort, PlaceOptions::default());
        runtime.spawn(abort_items(place).instrument(span));
        job
    }
}

async fn abort_items(mut place: PlaceJob) {
    let _grace = place.grant_grace();
    if !place.is_stopped() {
        let all = (0..place.items.len()).collect();
        place.each(all, AT_ONCE, abort_single).await;
    }
    place.finish();
}

async fn abort_single(client: RetryingClient, bucket: Arc<str>, item: Item) -> Result<PlaceEnd, RequestError> {
    let upload = UploadRef::new(&bucket, &item.source_key, item.version_id.as_deref().unwrap_or_default());
    abort_once(&client, &RetryContext::default(), upload).await.map(|_| PlaceEnd::Done(None))
}
