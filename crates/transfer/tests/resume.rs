//! The resume state machine against a simple model: a control plane that is killed at random moments.
//!
//! The model keeps what a database would: objects that ended, and upload ids. It is killed at a random request (before
//! it was done, or after, with the reply lost) or between an event and its recording. However often that happens, in
//! the end all is there, nothing is open, and no object was written and no part was copied more than once.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::common::{SOURCE, TARGET, TransferFixture, bytes, job, policy, small_limits};
use proptest::prelude::*;
use seqferry_client::{Endpoint, RecordedUpload};
use seqferry_store::prelude::*;
use seqferry_store_testing::MemoryStore;
use seqferry_store_testing::fault::{Fault, FaultStore, Latch, Rule};
use seqferry_transfer::{DataPath, IfExists, Job, JobEvent, JobItem, ObjectState, Policy};

const OPERATIONS: [&str; 9] = [
    "HeadObject",
    "CopyObject",
    "CreateMultipartUpload",
    "UploadPartCopy",
    "CompleteMultipartUpload",
    "ListParts",
    "GetObject",
    "PutObject",
    "UploadPart",
];

/// Request at which the process is killed.
#[derive(Debug, Clone)]
struct KillPoint {
    operation: &'static str,
    /// Matching requests before the fatal one.
    after: u32,
    /// True when the fatal request is carried out.
    done: bool,
    /// Events that are recorded before the process dies; the rest is lost.
    recorded: usize,
}

fn kill_point() -> impl Strategy<Value = KillPoint> {
    (proptest::sample::select(&OPERATIONS[..]), 0..12_u32, any::<bool>(), 0..30_usize)
        .prop_map(|(operation, after, done, recorded)| KillPoint { operation, after, done, recorded })
}

/// Model of the database.
#[derive(Default)]
struct Model {
    ended: HashMap<u64, ObjectState>,
    uploads: HashMap<u64, RecordedUpload>,
}

impl Model {
    fn open_items(&self, items: &[JobItem]) -> Vec<JobItem> {
        let open = items.iter().filter(|item| !self.ended.contains_key(&item.id));
        open.map(|item| JobItem { upload: self.uploads.get(&item.id).cloned(), ..item.clone() }).collect()
    }

    /// Record an event as the control plane does; the job learns of recorded uploads.
    fn record(&mut self, job: &Job, event: JobEvent) {
        match event {
            JobEvent::RecordUpload { id, upload } => {
                self.uploads.insert(id, upload);
                job.acknowledge(&[id]);
            }
            JobEvent::Ended(outcome) => {
                assert!(
                    self.ended.insert(outcome.id, outcome.state).is_none(),
                    "an ended object was handed over again"
                );
            }
        }
    }
}

/// Run one process until it is killed or done. True when it came to the end.
fn live(
    fixture: &TransferFixture,
    performed: &Arc<FaultStore>,
    model: &mut Model,
    items: &[JobItem],
    policy: Policy,
    kill: Option<&KillPoint>,
) -> bool {
    // Its own runtime: a kill ends everything that it was doing.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let store = Arc::new(FaultStore::new(Arc::clone(performed) as Arc<dyn ObjectStore>));
    let latch = Latch::default();
    if let Some(kill) = kill {
        let fault = if kill.done { Fault::HoldReply(latch.clone()) } else { Fault::Hold(latch.clone()) };
        store.rule(Rule::always(kill.operation, fault).after(kill.after));
    }
    let connection = Endpoint::new(store as Arc<dyn ObjectStore>);
    let job = Job::start(
        runtime.handle(),
        fixture.scheduler(),
        job(connection.clone(), connection, policy, model.open_items(items)),
    );
    let killed = runtime.spawn(async move { latch.reached().await });
    let mut left = kill.map_or(usize::MAX, |kill| kill.recorded);
    let survived = loop {
        if job.is_finished() {
            break true;
        }
        let events = job.wait(Duration::from_millis(5));
        let dead = left < events.len();
        for event in events.into_iter().take(left) {
            model.record(&job, event);
            left -= 1;
        }
        if dead || killed.is_finished() {
            break false;
        }
    };
    // Until its threads are gone: what a dead process had sent must not be done in the next run.
    runtime.shutdown_timeout(Duration::from_secs(10));
    survived
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn killed_at_any_moment_nothing_is_lost_leaked_or_repeated(
        sizes in proptest::collection::vec(prop_oneof![0..100_usize, 101..900_usize], 1..6),
        kills in proptest::collection::vec(kill_point(), 0..5),
        overwrite in any::<bool>(),
        stream in any::<bool>(),
        checksums in any::<bool>(),
    ) {
        let setup = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let memory = MemoryStore::new(small_limits().minimum_part);
        let fixture = TransferFixture::of(if checksums { memory } else { memory.without_checksums() });
        let performed = Arc::new(FaultStore::new(Arc::clone(&fixture.memory) as Arc<dyn ObjectStore>));
        let items: Vec<JobItem> = sizes
            .iter()
            .enumerate()
            .map(|(id, size)| setup.block_on(fixture.object(id as u64, &format!("k{id}"), &bytes(id as u64, *size))))
            .collect();
        let if_exists = if overwrite { IfExists::Overwrite } else { IfExists::Same };
        let mut model = Model::default();

        let mut first = true;
        for kill in kills.iter().map(Some).chain([None]) {
            let data_path = if stream { DataPath::Stream } else { DataPath::Copy };
            let policy = Policy { resumed: !first, if_exists, data_path, ..policy() };
            let survived = live(&fixture, &performed, &mut model, &items, policy, kill);
            first = false;
            if survived {
                break;
            }
        }

        prop_assert_eq!(model.ended.len(), items.len());
        prop_assert!(model.ended.values().all(|state| matches!(state, ObjectState::Done | ObjectState::Skipped)));
        for item in &items {
            let (source, target) = setup.block_on(async {
                (fixture.read(SOURCE, &item.source_key).await, fixture.read(TARGET, &item.target_key).await)
            });
            prop_assert_eq!(source, target);
        }
        prop_assert_eq!(setup.block_on(fixture.open_uploads()), 0);
        let mut times: HashMap<(&str, String, Option<u32>), u32> = HashMap::new();
        for request in performed.requests() {
            *times.entry((request.operation, request.key, request.part)).or_default() += 1;
        }
        for ((operation, key, part), count) in times {
            let once = ["CopyObject", "UploadPartCopy", "PutObject", "UploadPart", "CompleteMultipartUpload"];
            if once.contains(&operation) {
                prop_assert_eq!(count, 1, "{} {} {:?}", operation, key, part);
            }
        }
    }
}
