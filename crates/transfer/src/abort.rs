//! Jobs that abort open uploads.

use std::sync::Arc;

use seqferry_client::upload::abort_once;
use seqferry_client::{RequestError, RetryContext, RetryingClient};
use seqferry_store::UploadRef;
use tokio::runtime::Handle;
use tracing::Instrument as _;

use crate::job::{Job, JobSpec};
use crate::location_job::{LocationJob, LocationOptions, LocationResult};
use crate::object::JobItem;
use crate::object_outcome::CopyMethod;
use crate::schedule::Scheduler;

/// Uploads of one job that are aborted at a time.
const MAX_CONCURRENT: usize = 32;

impl Job {
    /// Start aborting uploads at the target of `spec`: the version of each item is the id of its upload. An upload that
    /// is gone counts as aborted.
    pub fn start_abort(runtime: &Handle, scheduler: &Arc<Scheduler>, spec: JobSpec) -> Self {
        let (location_job, job, span) =
            LocationJob::prepare(scheduler, spec, CopyMethod::Abort, LocationOptions::default());
        runtime.spawn(abort_items(location_job).instrument(span));
        job
    }
}

async fn abort_items(mut job: LocationJob) {
    let _grace = job.grant_grace();
    if !job.is_stopped() {
        let all = (0..job.items.len()).collect();
        job.each(all, MAX_CONCURRENT, abort_single).await;
    }
    job.finish();
}

async fn abort_single(client: RetryingClient, bucket: Arc<str>, item: JobItem) -> Result<LocationResult, RequestError> {
    let upload = UploadRef::new(&bucket, &item.source_key, item.version_id.as_deref().unwrap_or_default());
    abort_once(&client, &RetryContext::default(), upload).await.map(|_| LocationResult::Done(None))
}
