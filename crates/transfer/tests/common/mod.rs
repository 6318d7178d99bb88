//! Shared parts of the tests of jobs: two buckets in memory behind a store that can fail.

#![allow(dead_code, unreachable_pub, missing_docs)] // each test file uses a part of it

pub mod pairs;
pub mod streams;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use seqferry_client::{Budget, BudgetLimits};
use seqferry_client::{Endpoint, RecordedUpload, RetryPolicy};
use seqferry_store::prelude::*;
use seqferry_store::{Attributes, ObjectMeta, ObjectRef, PinnedObject};
use seqferry_store_testing::fault::FaultStore;
use seqferry_store_testing::{MemoryStore, ObjectWriteExt as _};
use seqferry_transfer::{CopyLimits, DataPath, Job, JobEvent, JobItem, JobSpec, ObjectOutcome, Policy, Scheduler};
use tokio::runtime::Handle;

/// Bucket to read from.
pub const SOURCE: &str = "source";
/// Bucket to write to.
pub const TARGET: &str = "target";

/// Limits so small that bytes suffice where S3 wants megabytes.
pub fn small_limits() -> CopyLimits {
    CopyLimits {
        minimum_part: 10,
        maximum_part: 1000,
        maximum_parts: 100,
        maximum_copy: 500,
        maximum_object: 100_000,
        copy_threshold: 100,
        etag_copy: 100,
        part_size: 50,
        stream_threshold: 100,
        stream_range: 30,
        stream_part: 50,
        stream_part_grown: 50,
        stream_boundaries: 200,
    }
}

/// A policy with small limits.
pub fn policy() -> Policy {
    Policy { source_bucket: SOURCE.into(), target_bucket: TARGET.into(), limits: small_limits(), ..Policy::default() }
}

/// The same for what passes through this process.
pub fn streaming() -> Policy {
    Policy { data_path: DataPath::Stream, ..policy() }
}

/// Retry policy with negligible pauses.
pub fn quick() -> RetryPolicy {
    let moment = Duration::from_millis(1);
    RetryPolicy { base: moment, throttled_base: moment, most: Duration::from_millis(4), ..RetryPolicy::default() }
}

/// A job without a lease whose retries are quick.
pub fn job(source: Endpoint, target: Endpoint, policy: Policy, items: Vec<JobItem>) -> JobSpec {
    JobSpec { source, target, policy, retry: quick(), items, lease: None }
}

/// Two buckets in memory behind a store that can fail.
pub struct TransferFixture {
    pub memory: Arc<MemoryStore>,
    pub store: Arc<FaultStore>,
    pub budget: Arc<Budget>,
    pub connection: Endpoint,
    /// Made with the first job, of the budget as it is then.
    pub scheduler: OnceLock<Arc<Scheduler>>,
}

impl TransferFixture {
    pub fn new() -> Self {
        Self::of(MemoryStore::new(small_limits().minimum_part))
    }

    pub fn of(memory: MemoryStore) -> Self {
        let memory = Arc::new(memory);
        memory.create_bucket(SOURCE);
        memory.create_bucket(TARGET);
        let store = Arc::new(FaultStore::new(Arc::clone(&memory) as Arc<dyn ObjectStore>));
        let connection = Endpoint::new(Arc::clone(&store) as Arc<dyn ObjectStore>);
        Self { memory, store, budget: Budget::new(BudgetLimits::default()), connection, scheduler: OnceLock::new() }
    }

    /// Write a source object (past the faults); the item that copies it.
    pub async fn object(&self, id: u64, key: &str, bytes: &[u8]) -> JobItem {
        let attributes = Attributes {
            content_type: Some("application/gzip".into()),
            metadata: [("sample".to_owned(), key.to_owned())].into(),
            ..Attributes::default()
        };
        let written = self.memory.put(SOURCE, key, Bytes::copy_from_slice(bytes), &attributes).await.unwrap();
        JobItem {
            id,
            source_key: key.to_owned(),
            target_key: format!("copy/{key}"),
            size: bytes.len() as u64,
            etag: written.etag,
            ..JobItem::default()
        }
    }

    /// The scheduler of all jobs of this fixture.
    pub fn scheduler(&self) -> &Arc<Scheduler> {
        self.scheduler.get_or_init(|| Scheduler::new(Arc::clone(&self.budget)))
    }

    pub fn start(&self, policy: Policy, items: Vec<JobItem>) -> Job {
        let (source, target) = (self.connection.clone(), self.connection.clone());
        Job::start(&Handle::current(), self.scheduler(), job(source, target, policy, items))
    }

    /// Run a job to its end, acknowledging every upload; outcomes by item id.
    pub async fn run(&self, policy: Policy, items: Vec<JobItem>) -> HashMap<u64, ObjectOutcome> {
        let job = self.start(policy, items);
        let outcomes = drain(job).await.0;
        assert_eq!(self.budget.stats().in_flight, 0, "a request permit leaked");
        assert_eq!(self.budget.memory_reserved(), 0, "buffer bytes leaked");
        outcomes
    }

    /// Bytes of an object; None when it is not there.
    pub async fn read(&self, bucket: &str, key: &str) -> Option<Vec<u8>> {
        let source = PinnedObject { bucket: bucket.into(), key: key.into(), version_id: None, if_match: None, size: 0 };
        let mut body = self.memory.get(&source, None).await.ok()?;
        let mut bytes = Vec::new();
        while let Some(chunk) = body.next().await {
            bytes.extend_from_slice(&chunk.unwrap());
        }
        Some(bytes)
    }

    pub async fn head(&self, key: &str) -> ObjectMeta {
        self.memory.head(ObjectRef::new(TARGET, key), None).await.unwrap()
    }

    pub async fn open_uploads(&self) -> usize {
        self.memory.list_uploads(TARGET, "").await.unwrap().len()
    }
}

/// Two services that know nothing of each other, within one budget.
pub struct ServicePair {
    pub from: TransferFixture,
    pub to: TransferFixture,
}

impl ServicePair {
    pub fn new() -> Self {
        let memory = || MemoryStore::new(small_limits().minimum_part);
        Self::of(memory(), memory())
    }

    pub fn of(from: MemoryStore, to: MemoryStore) -> Self {
        Self { from: TransferFixture::of(from), to: TransferFixture::of(to) }
    }

    /// Limits the buffers to `memory` bytes.
    pub fn with_memory(mut self, memory: u64) -> Self {
        self.to.budget = Budget::new(BudgetLimits { memory, ..BudgetLimits::default() });
        self
    }

    pub fn start(&self, policy: Policy, items: Vec<JobItem>) -> Job {
        let (source, target) = (self.from.connection.clone(), self.to.connection.clone());
        Job::start(&Handle::current(), self.to.scheduler(), job(source, target, policy, items))
    }

    /// Runs a job like [`TransferFixture::run`].
    pub async fn run(&self, policy: Policy, items: Vec<JobItem>) -> HashMap<u64, ObjectOutcome> {
        let outcomes = drain(self.start(policy, items)).await.0;
        assert_eq!(self.to.budget.stats().in_flight, 0, "a request permit leaked");
        assert_eq!(self.to.budget.memory_reserved(), 0, "buffer bytes leaked");
        outcomes
    }

    /// Returns true when the target of this item is byte for byte its source.
    pub async fn is_copied(&self, item: &JobItem) -> bool {
        let source = self.from.read(SOURCE, &item.source_key).await;
        source.is_some() && source == self.to.read(TARGET, &item.target_key).await
    }
}

/// Wait for a job's end; its outcomes by item id, and the job.
pub async fn drain(job: Job) -> (HashMap<u64, ObjectOutcome>, Job) {
    let job = Arc::new(job);
    let (outcomes, _) = drain_recorded(&job).await;
    (outcomes, Arc::into_inner(job).unwrap())
}

/// Wait for a job's end; its outcomes by item id, and the upload that was recorded last.
pub async fn drain_recorded(job: &Arc<Job>) -> (HashMap<u64, ObjectOutcome>, Option<RecordedUpload>) {
    let job = Arc::clone(job);
    tokio::task::spawn_blocking(move || {
        let (mut outcomes, mut recorded) = (HashMap::new(), None);
        while !job.is_finished() {
            for event in job.wait(Duration::from_secs(30)) {
                match event {
                    JobEvent::RecordUpload { id, upload } => {
                        recorded = Some(upload);
                        job.acknowledge(&[id]);
                    }
                    JobEvent::Ended(outcome) => assert!(outcomes.insert(outcome.id, *outcome).is_none(), "ended twice"),
                }
            }
        }
        (outcomes, recorded)
    })
    .await
    .unwrap()
}

/// Bytes that differ from place to place.
pub fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut rng = fastrand::Rng::with_seed(seed);
    std::iter::repeat_with(|| rng.u8(..)).take(len).collect()
}
