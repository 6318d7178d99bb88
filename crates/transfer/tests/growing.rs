//! Files that grow, shrink or are replaced around their copy: a second look finds what the first read could not.

use std::collections::HashMap;
use std::fs::{File, FileTimes};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime};

use crate::common::{TARGET, TransferFixture, bytes, drain, job, small_limits, streaming};
use seqferry_client::Endpoint;
use seqferry_store::prelude::*;
use seqferry_store::{DiskOptions, DiskStore, ObjectRef};
use seqferry_store_testing::MemoryStore;
use seqferry_store_testing::fault::{Fault, FaultStore, Hook, Rule};
use seqferry_transfer::{CopyLimits, Job, JobItem, ObjectOutcome, ObjectState, PackOptions, Policy};
use tokio::runtime::Handle;

/// Long enough that a look cannot come late by accident, short enough for a test.
const SETTLE: Duration = Duration::from_millis(400);
const ARCHIVE: &str = "run.tar";

type Change = fn(&Path);

/// A folder whose requests can be followed by a change of a file, and a service.
struct Setting {
    folder: PathBuf,
    store: Arc<FaultStore>,
    fixture: TransferFixture,
}

impl Setting {
    fn new() -> Self {
        Self::with_parts_of(small_limits().minimum_part)
    }

    /// A service that takes parts of this size and more.
    fn with_parts_of(minimum: u64) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("seqferry-growing-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let disk = DiskStore::new(DiskOptions { durable: false, ..DiskOptions::default() });
        let store = Arc::new(FaultStore::new(Arc::new(disk)));
        Self { folder, store, fixture: TransferFixture::of(MemoryStore::new(minimum)) }
    }

    fn path(&self, key: &str) -> PathBuf {
        self.folder.join(key)
    }

    async fn file(&self, id: u64, key: &str, body: &[u8]) -> JobItem {
        std::fs::write(self.path(key), body).unwrap();
        self.listed(id, key).await
    }

    async fn listed(&self, id: u64, key: &str) -> JobItem {
        let bucket = self.folder.to_str().unwrap();
        let head = self.store.head(ObjectRef::new(bucket, key), None).await.unwrap();
        JobItem {
            id,
            source_key: key.into(),
            target_key: key.into(),
            size: head.size,
            etag: head.etag,
            ..JobItem::default()
        }
    }

    /// Changes a file before each of `times` looks at it, after the first `skip` looks.
    fn change_before_look(&self, key: &str, change: Change, skip: u32, times: u32) {
        let path = self.path(key);
        let hook = Hook(Arc::new(move || {
            change(&path);
            Box::pin(async {})
        }));
        self.store.rule(Rule::once("HeadObject", Fault::Hook(hook)).key(key).after(skip).times(times));
    }

    fn policy(&self, settle: Duration) -> Policy {
        Policy { source_bucket: self.folder.to_str().unwrap().to_owned(), settle, ..streaming() }
    }

    async fn copy(&self, settle: Duration, items: Vec<JobItem>) -> HashMap<u64, ObjectOutcome> {
        let (source, target) = (Endpoint::new(self.store.clone()), self.fixture.connection.clone());
        let spec = job(source, target, self.policy(settle), items);
        self.outcomes(Job::start(&Handle::current(), self.fixture.scheduler(), spec)).await
    }

    async fn pack(&self, mut items: Vec<JobItem>) -> HashMap<u64, ObjectOutcome> {
        for item in &mut items {
            item.target_key = ARCHIVE.into();
        }
        let limits = CopyLimits {
            minimum_part: 700,
            maximum_part: 20_000,
            stream_threshold: 3000,
            part_size: 1000,
            ..small_limits()
        };
        let policy = Policy { limits, ..self.policy(SETTLE) };
        let (source, target) = (Endpoint::new(self.store.clone()), self.fixture.connection.clone());
        let spec = job(source, target, policy, items);
        let options = PackOptions::default();
        self.outcomes(Job::start_pack(&Handle::current(), self.fixture.scheduler(), spec, options)).await
    }

    async fn outcomes(&self, job: Job) -> HashMap<u64, ObjectOutcome> {
        let outcomes = drain(job).await.0;
        assert_eq!(self.fixture.budget.memory_reserved(), 0, "buffer bytes leaked");
        assert_eq!(self.fixture.open_uploads().await, 0, "an upload was left open");
        outcomes
    }

    async fn at_target(&self, key: &str) -> Option<Vec<u8>> {
        self.fixture.read(TARGET, key).await
    }
}

impl Drop for Setting {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn append(path: &Path) {
    File::options().append(true).open(path).unwrap().write_all(b"more").unwrap();
}

fn truncate(path: &Path) {
    File::options().write(true).open(path).unwrap().set_len(3).unwrap();
}

fn replace(path: &Path) {
    let beside = path.with_extension("new");
    std::fs::write(&beside, std::fs::read(path).unwrap().to_ascii_uppercase()).unwrap();
    std::fs::rename(&beside, path).unwrap();
}

fn set_time(path: &Path, time: SystemTime) {
    File::options().append(true).open(path).unwrap().set_times(FileTimes::new().set_modified(time)).unwrap();
}

/// Appends, and gives the file a time in the future again.
fn append_in_the_future(path: &Path) {
    append(path);
    set_time(path, SystemTime::now() + Duration::from_hours(1));
}

const CHANGES: [(&str, Change); 4] =
    [("append", append), ("truncate", truncate), ("replace", replace), ("future", append_in_the_future)];
/// Bytes that go in one request, and in parts.
const SIZES: [usize; 2] = [60, 400];

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_changes_after_its_copy_is_copied_again() {
    for (name, change) in CHANGES {
        for size in SIZES {
            let setting = Setting::new();
            let item = setting.file(1, "log", &bytes(1, size)).await;
            if name == "future" {
                set_time(&setting.path("log"), SystemTime::now() + Duration::from_hours(1));
            }
            let item = JobItem { etag: setting.listed(1, "log").await.etag, ..item };
            // The looks before: of a file in parts at its start, and of each at the end of its verification.
            let looks = if size > 100 { 2 } else { 1 };
            setting.change_before_look("log", change, looks, 1);

            let outcomes = setting.copy(SETTLE, vec![item]).await;

            assert_eq!(
                (outcomes[&1].state, outcomes[&1].attempts),
                (ObjectState::Done, 2),
                "{name} {size}: {outcomes:?}"
            );
            assert_eq!(setting.at_target("log").await, std::fs::read(setting.path("log")).ok(), "{name} {size}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_keeps_changing_fails_with_advice_and_leaves_no_half() {
    for (name, change) in CHANGES {
        let setting = Setting::new();
        let item = setting.file(1, "log", &bytes(1, 60)).await;
        setting.change_before_look("log", change, 1, 100);

        let outcomes = setting.copy(SETTLE, vec![item]).await;

        let failure = outcomes[&1].failure.as_ref().unwrap();
        assert_eq!((failure.class.as_str(), outcomes[&1].attempts), ("source_changed", 2), "{name}");
        assert!(failure.message.contains("wait_for_files"), "{name}: {failure}");
        assert_eq!(setting.at_target("log").await, None, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_between_listing_and_opening_does_not_use_up_the_second_copy() {
    for packed in [false, true] {
        let setting = Setting::with_parts_of(if packed { 700 } else { 10 });
        let item = setting.file(1, "log", &bytes(1, 60)).await;
        append(&setting.path("log"));
        // Looks: the first as it is now, then that of the verification, then the second look.
        setting.change_before_look("log", append, if packed { 1 } else { 2 }, 1);

        let outcomes = if packed { setting.pack(vec![item]).await } else { setting.copy(SETTLE, vec![item]).await };

        assert_eq!((outcomes[&1].state, outcomes[&1].size), (ObjectState::Done, 68), "{outcomes:?}");
        let key = if packed { ARCHIVE } else { "log" };
        assert!(setting.at_target(key).await.unwrap().windows(8).any(|bytes| bytes == b"moremore"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_vanishes_after_its_copy_fails_and_its_copy_stays() {
    let setting = Setting::new();
    let item = setting.file(1, "log", &bytes(1, 60)).await;
    setting.change_before_look("log", |path| std::fs::remove_file(path).unwrap(), 1, 1);

    let outcomes = setting.copy(SETTLE, vec![item]).await;

    assert!(outcomes[&1].failure.as_ref().unwrap().message.contains("it is gone"), "{outcomes:?}");
    assert_eq!(setting.at_target("log").await, Some(bytes(1, 60)), "perhaps the last copy");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_opened_within_the_tick_of_a_coarse_clock_is_copied_again() {
    let setting = Setting::new();
    let item = setting.file(1, "log", &bytes(1, 60)).await;
    let second = SystemTime::UNIX_EPOCH + Duration::from_secs(now().as_secs());
    set_time(&setting.path("log"), second);
    let item = JobItem { etag: setting.listed(1, "log").await.etag, ..item };
    // A write in place that leaves neither size nor time changed.
    let path = setting.path("log");
    let hook = Hook(Arc::new(move || {
        let time = std::fs::metadata(&path).unwrap().modified().unwrap();
        std::fs::write(&path, bytes(2, 60)).unwrap();
        set_time(&path, time);
        Box::pin(async {})
    }));
    setting.fixture.store.rule(Rule::once("PutObject", Fault::Hook(hook)));

    let outcomes = setting.copy(Duration::from_secs(2), vec![item]).await;

    assert_eq!(outcomes[&1].state, ObjectState::Done, "{outcomes:?}");
    assert_eq!(setting.at_target("log").await, Some(bytes(2, 60)));
}

fn now() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn many_young_files_wait_together_and_settled_ones_not_at_all() {
    let setting = Setting::new();
    // More than a job has under way at a time (1,024).
    let count = 1500;
    let mut old = Vec::new();
    for id in 0..count {
        setting.file(id, &format!("old{id}"), b"x").await;
        set_time(&setting.path(&format!("old{id}")), SystemTime::now() - Duration::from_hours(1));
        old.push(setting.listed(id, &format!("old{id}")).await);
    }
    // No file outlives this settling time.
    let settle = Duration::from_mins(1);
    let begun = Instant::now();
    assert!(setting.copy(settle, old).await.values().all(|outcome| outcome.state == ObjectState::Done));
    assert!(begun.elapsed() < settle, "settled files were waited for");

    let mut young = Vec::new();
    for id in 0..count {
        young.push(setting.file(id, &format!("young{id}"), b"x").await);
    }
    let settle = Duration::from_secs(3);
    let youngest = std::fs::metadata(setting.path(&format!("young{}", count - 1))).unwrap().modified().unwrap();
    let begun = Instant::now();
    assert!(setting.copy(settle, young).await.values().all(|outcome| outcome.state == ObjectState::Done));
    assert!(SystemTime::now() >= youngest + settle, "the youngest was not waited for");
    assert!(begun.elapsed() < 2 * settle, "{:?}: not all were waited for together", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn files_said_to_be_at_rest_are_not_looked_at_again() {
    let setting = Setting::new();
    let item = setting.file(1, "log", &bytes(1, 60)).await;
    setting.change_before_look("log", append, 1, 100);

    assert_eq!(setting.copy(Duration::ZERO, vec![item]).await[&1].state, ObjectState::Done);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archive_starts_over_once_when_a_young_member_has_changed_and_then_names_it() {
    for (times, size) in [(1, 60), (1, 0), (100, 60), (100, 0)] {
        let setting = Setting::with_parts_of(700);
        let items = vec![setting.file(1, "a", &bytes(1, 700)).await, setting.file(2, "log", &bytes(2, size)).await];
        // An empty member is read once to learn its age.
        setting.change_before_look("log", append, u32::from(size == 0), times);

        let outcomes = setting.pack(items).await;

        let archive = setting.at_target(ARCHIVE).await;
        if times == 1 {
            assert!(outcomes.values().all(|outcome| outcome.state == ObjectState::Done), "{size}: {outcomes:?}");
            assert_eq!(outcomes[&2].size, size as u64 + 4, "the outcome tells what was packed");
            assert!(archive.unwrap().windows(4).any(|bytes| bytes == b"more"), "{size}");
        } else {
            let failure = outcomes[&2].failure.as_ref().unwrap();
            assert_eq!(failure.class.as_str(), "source_changed", "{failure}");
            assert!(failure.message.contains("log") && failure.message.contains("wait_for_files"), "{failure}");
            assert_eq!(archive, None, "{size}");
        }
    }
}
