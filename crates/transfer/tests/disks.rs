//! Uploads and downloads: a real disk on one side, a service in memory on the other.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::common::{self, SOURCE, TARGET, TransferFixture, bytes, job, small_limits, streaming};
use seqferry_client::{Endpoint, RecordedUpload};
use seqferry_store::checksum::base64;
use seqferry_store::prelude::*;
use seqferry_store::{
    ChecksumAlgorithm, ChecksumKind, CreateUpload, DigestAlgorithm, Digester, DiskOptions, DiskStore, ObjectRef,
    UploadRef,
};
use seqferry_store_testing::MemoryStore;
use seqferry_store_testing::fault::{Fault, FaultStore, Hook, Latch, Rule};
use seqferry_transfer::{
    CopyMethod, FailureClass, Job, JobItem, ObjectState, PackOptions, Policy, StopMode, VerificationLevel,
    VerificationRule,
};
use tokio::runtime::Handle;

const SIZES: [usize; 9] = [0, 1, 50, 99, 100, 101, 149, 500, 4999];

/// A folder that is removed in the end, behind a store that can fail.
struct Folder {
    path: PathBuf,
    store: Arc<FaultStore>,
    connection: Endpoint,
}

impl Folder {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("seqferry-transfer-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        let disk = DiskStore::new(DiskOptions { durable: false, ..DiskOptions::default() });
        let store = Arc::new(FaultStore::new(Arc::new(disk)));
        let connection = Endpoint::new(Arc::clone(&store) as Arc<dyn ObjectStore>);
        Self { path, store, connection }
    }

    fn bucket(&self) -> String {
        self.path.to_str().unwrap().to_owned()
    }

    /// A file, and the item that uploads it.
    async fn file(&self, id: u64, key: &str, body: &[u8]) -> JobItem {
        std::fs::write(self.path.join(key), body).unwrap();
        let head = self.store.head(ObjectRef::new(&self.bucket(), key), None).await.unwrap();
        JobItem {
            id,
            source_key: key.into(),
            target_key: key.into(),
            size: head.size,
            etag: head.etag,
            ..JobItem::default()
        }
    }

    /// Everything below the folder, unfinished files too.
    fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
        let entries = std::fs::read_dir(&self.path).unwrap().map(|entry| entry.unwrap().path());
        entries.map(|path| (name(&path), std::fs::read(&path).unwrap())).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

fn service() -> TransferFixture {
    TransferFixture::of(MemoryStore::new(small_limits().minimum_part))
}

fn upload(folder: &Folder, policy: Policy) -> Policy {
    Policy { source_bucket: folder.bucket(), ..policy }
}

fn download(folder: &Folder, policy: Policy) -> Policy {
    Policy { target_bucket: folder.bucket(), ..policy }
}

fn start(fixture: &TransferFixture, source: &Endpoint, target: &Endpoint, policy: Policy, items: &[JobItem]) -> Job {
    Job::start(&Handle::current(), fixture.scheduler(), job(source.clone(), target.clone(), policy, items.to_vec()))
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_uploaded_with_their_time_and_the_same_again_is_skipped() {
    let (folder, fixture) = (Folder::new(), service());
    let mut items = Vec::new();
    for (id, size) in (0..).zip(SIZES) {
        items.push(folder.file(id, &format!("f{size}"), &bytes(id, size)).await);
    }
    let run = || start(&fixture, &folder.connection, &fixture.connection, upload(&folder, streaming()), &items);

    let (outcomes, _) = common::drain(run()).await;
    let (again, _) = common::drain(run()).await;

    for item in &items {
        let outcome = &outcomes[&item.id];
        assert_eq!((outcome.state, outcome.method), (ObjectState::Done, CopyMethod::Stream), "{outcome:?}");
        assert_eq!(outcome.verified, VerificationLevel::Checksum, "{outcome:?}");
        assert_eq!(fixture.read(TARGET, &item.target_key).await.as_ref(), folder.files().get(&item.source_key));
        assert!(fixture.head(&item.target_key).await.attributes.metadata.contains_key("mtime"));
        assert_eq!((again[&item.id].state, again[&item.id].verified), (ObjectState::Skipped, VerificationLevel::Time));
    }
    assert_eq!(fixture.budget.memory_reserved(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_downloaded_whole_or_not_at_all_and_the_same_again_is_skipped() {
    // The time of an object that was written in the second of its download may be that of a later version too.
    for (age, by) in [(10.0, VerificationLevel::Time), (0.0, VerificationLevel::Checksum)] {
        let (folder, fixture) = (Folder::new(), service());
        let mut items = Vec::new();
        for (id, size) in (0..).zip(SIZES) {
            let item = fixture.object(id, &format!("f{size}"), &bytes(id, size)).await;
            fixture.memory.backdate(SOURCE, &item.source_key, age);
            items.push(JobItem { target_key: item.source_key.clone(), ..item });
        }
        let run = |policy| start(&fixture, &fixture.connection, &folder.connection, download(&folder, policy), &items);

        let (outcomes, _) = common::drain(run(streaming())).await;
        let reads = fixture.store.count("GetObject");
        let (again, _) = common::drain(run(streaming())).await;
        let (checked, _) = common::drain(run(Policy { verify: VerificationRule::Checksum, ..streaming() })).await;

        for item in &items {
            let outcome = &outcomes[&item.id];
            assert_eq!(
                (outcome.state, outcome.verified),
                (ObjectState::Done, VerificationLevel::Checksum),
                "{outcome:?}"
            );
            assert_eq!(folder.files().get(&item.target_key), fixture.read(SOURCE, &item.source_key).await.as_ref());
            assert_eq!((again[&item.id].state, again[&item.id].verified), (ObjectState::Skipped, by));
            assert_eq!(
                (checked[&item.id].state, checked[&item.id].verified),
                (ObjectState::Skipped, VerificationLevel::Checksum)
            );
        }
        assert_eq!(folder.files().len(), items.len(), "nothing unfinished is left: {:?}", folder.files().keys());
        assert_eq!(fixture.store.count("GetObject"), reads, "the objects were read once");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transfer_that_is_stopped_goes_on_with_the_parts_that_are_missing() {
    for uploading in [true, false] {
        let (folder, fixture) = (Folder::new(), service());
        let (body, latch) = (bytes(1, 1000), Latch::default());
        let item = if uploading {
            folder.file(1, "k", &body).await
        } else {
            JobItem { target_key: "k".into(), ..fixture.object(1, "k", &body).await }
        };
        let (source, target) =
            if uploading { (&folder.store, &fixture.store) } else { (&fixture.store, &folder.store) };
        let connections = if uploading {
            (&folder.connection, &fixture.connection)
        } else {
            (&fixture.connection, &folder.connection)
        };
        let policy = if uploading { upload(&folder, streaming()) } else { download(&folder, streaming()) };
        target.rule(Rule::always("UploadPart", Fault::Hold(latch.clone())).after(7));
        let job = start(&fixture, connections.0, connections.1, policy.clone(), std::slice::from_ref(&item));
        let job = Arc::new(job);
        let running = Arc::clone(&job);
        let recording = tokio::spawn(async move { common::drain_recorded(&running).await.1 });
        latch.reached().await;
        // The first seven are whole, the others are held.
        while target.count("UploadPart") < 20 || job.progress().bytes_done < 7 * 50 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }

        job.stop(StopMode::Suspend);
        let recorded = recording.await.unwrap();
        let (read, sent) = (source.count("GetObject"), target.count("UploadPart"));
        latch.open();
        target.clear_rules();
        assert!(!folder.files().contains_key("k") || uploading, "nothing has the final name yet");
        let item = JobItem { upload: recorded, ..item };
        let resumed = Policy { resumed: true, since: later(), ..policy };
        let (outcomes, _) = common::drain(start(&fixture, connections.0, connections.1, resumed, &[item])).await;

        assert_eq!(
            (outcomes[&1].state, outcomes[&1].verified),
            (ObjectState::Done, VerificationLevel::Checksum),
            "{:?}",
            outcomes[&1]
        );
        let kept = if uploading { fixture.read(TARGET, "k").await } else { folder.files().remove("k") };
        assert_eq!(kept, Some(body));
        assert!(source.count("GetObject") - read <= 13, "parts that were there are not read again");
        assert!(target.count("UploadPart") - sent <= 13, "nor sent");
    }
}

/// Creation time of a transfer that begins after all files here were written.
fn later() -> f64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs_f64() + 1.0
}

#[tokio::test]
async fn parts_of_a_file_that_was_rewritten_with_its_size_and_time_are_not_used() {
    let (folder, fixture) = (Folder::new(), service());
    let (old, new) = (bytes(1, 300), bytes(2, 300));
    let item = folder.file(1, "k", &old).await;
    let create = CreateUpload { bucket: TARGET.into(), key: "k".into(), ..CreateUpload::default() };
    let upload_id = fixture.memory.create_upload(&create).await.unwrap();
    let open = UploadRef::new(TARGET, "k", &upload_id);
    fixture.memory.put_part(open, 1, old[..50].to_vec().into(), &<_>::default()).await.unwrap();
    let path = folder.path.join("k");
    let modified = std::fs::metadata(&path).unwrap().modified().unwrap();
    std::fs::write(&path, &new).unwrap();
    std::fs::File::options().write(true).open(&path).unwrap().set_modified(modified).unwrap();
    let item = JobItem { upload: Some(RecordedUpload { upload_id, part_size: 50, etag: None }), ..item };

    let policy = upload(&folder, Policy { resumed: true, since: later() - 2.0, ..streaming() });
    let (outcomes, _) = common::drain(start(&fixture, &folder.connection, &fixture.connection, policy, &[item])).await;

    assert_eq!(outcomes[&1].state, ObjectState::Done, "{:?}", outcomes[&1]);
    assert_eq!(fixture.read(TARGET, "k").await, Some(new));
    assert_eq!(fixture.open_uploads().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archive_does_not_use_parts_of_a_file_that_was_rewritten_with_its_size_and_time() {
    let (folder, fixture) = (Folder::new(), service());
    let mut items = vec![folder.file(1, "a", &bytes(1, 2000)).await, folder.file(2, "b", &bytes(2, 3000)).await];
    for item in &mut items {
        item.target_key = "k.tar".into();
    }
    let latch = Latch::default();
    fixture.store.rule(Rule::always("CompleteMultipartUpload", Fault::Hold(latch.clone())));
    let since = later() - 2.0;
    let policy = upload(&folder, Policy { since, ..streaming() });
    let pack = |policy: Policy, items: Vec<JobItem>| {
        let spec = common::job(folder.connection.clone(), fixture.connection.clone(), policy, items);
        Job::start_pack(&Handle::current(), fixture.scheduler(), spec, PackOptions::default())
    };
    let job = Arc::new(pack(policy.clone(), items.clone()));
    let running = Arc::clone(&job);
    let recording = tokio::spawn(async move { common::drain_recorded(&running).await.1 });
    latch.reached().await;
    job.stop(StopMode::Suspend);
    items[0].upload = recording.await.unwrap();
    assert!(items[0].upload.is_some());
    fixture.store.clear_rules();
    let path = folder.path.join("a");
    let modified = std::fs::metadata(&path).unwrap().modified().unwrap();
    std::fs::write(&path, bytes(9, 2000)).unwrap();
    std::fs::File::options().write(true).open(&path).unwrap().set_modified(modified).unwrap();

    let (outcomes, _) = common::drain(pack(Policy { resumed: true, ..policy }, items)).await;

    assert!(outcomes.values().all(|outcome| outcome.state == ObjectState::Done), "{outcomes:?}");
    let archive = fixture.read(TARGET, "k.tar").await.unwrap();
    let holds = |body: Vec<u8>| archive.windows(body.len()).any(|bytes| bytes == body);
    assert!(holds(bytes(9, 2000)) && holds(bytes(2, 3000)) && !holds(bytes(1, 2000)));
    assert_eq!(fixture.open_uploads().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_changes_while_it_is_read_is_started_over() {
    for size in [80, 300] {
        let (folder, fixture) = (Folder::new(), service());
        let item = folder.file(1, "k", &bytes(1, size)).await;
        let path = folder.path.join("k");
        let hook = Hook(Arc::new(move || {
            // The file is replaced by a rename: reads of other parts continue meanwhile, and a file half-way rewritten
            // would change again.
            let beside = path.with_extension("new");
            std::fs::write(&beside, bytes(9, 280)).unwrap();
            std::fs::rename(&beside, &path).unwrap();
            Box::pin(async {})
        }));
        folder.store.rule(Rule::once("GetObject", Fault::Hook(hook)).after(u32::from(size > 100) * 3));

        let policy = upload(&folder, streaming());
        let (outcomes, _) =
            common::drain(start(&fixture, &folder.connection, &fixture.connection, policy, &[item])).await;

        assert_eq!((outcomes[&1].state, outcomes[&1].attempts), (ObjectState::Done, 2), "{:?}", outcomes[&1]);
        assert_eq!(fixture.read(TARGET, "k").await, Some(bytes(9, 280)));
        assert_eq!(fixture.open_uploads().await, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_that_change_on_the_way_to_a_disk_leave_no_file() {
    let (folder, fixture) = (Folder::new(), service());
    let mut items = Vec::new();
    for (id, size) in [(1, 80), (2, 300)] {
        let item = fixture.object(id, &format!("k{id}"), &bytes(id, size)).await;
        items.push(JobItem { target_key: item.source_key.clone(), ..item });
    }
    fixture.store.rule(Rule::always("GetObject", Fault::Corrupt));

    let policy = download(&folder, streaming());
    let (outcomes, _) = common::drain(start(&fixture, &fixture.connection, &folder.connection, policy, &items)).await;

    for outcome in outcomes.values() {
        assert_eq!(outcome.failure.as_ref().unwrap().class, FailureClass::Mismatch, "{outcome:?}");
    }
    assert_eq!(folder.files().len(), 0, "{:?}", folder.files().keys());
}

fn md5(body: &[u8]) -> String {
    base64(&Digester::of(DigestAlgorithm::Md5, body))
}

async fn kept_md5(fixture: &TransferFixture, key: &str) -> Option<String> {
    fixture.head(key).await.attributes.metadata.get("md5chksum").cloned()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_md5_of_a_file_is_kept_when_asked_for_and_only_files_in_parts_are_read_once_more() {
    for asked in [false, true] {
        for (size, reads) in [(0, 1), (80, 1), (300, 6 + usize::from(asked))] {
            let (folder, fixture) = (Folder::new(), service());
            let body = bytes(1, size);
            let item = folder.file(1, "k", &body).await;

            let policy = upload(&folder, Policy { md5: asked, ..streaming() });
            let (outcomes, _) =
                common::drain(start(&fixture, &folder.connection, &fixture.connection, policy, &[item])).await;

            assert_eq!(outcomes[&1].state, ObjectState::Done, "{:?}", outcomes[&1]);
            assert_eq!(kept_md5(&fixture, "k").await, asked.then(|| md5(&body)), "{size}");
            assert_eq!(folder.store.count("GetObject"), reads, "{size}");
            assert_eq!(fixture.read(TARGET, "k").await, Some(body));
            assert_eq!(fixture.budget.memory_reserved(), 0);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_service_holds_is_not_read_for_an_md5() {
    let services = common::ServicePair::new();
    let item = services.from.object(1, "k", &bytes(1, 300)).await;

    let outcomes = services.run(Policy { md5: true, ..streaming() }, vec![item.clone()]).await;

    assert_eq!(outcomes[&1].state, ObjectState::Done, "{:?}", outcomes[&1]);
    assert_eq!(services.from.store.count("GetObject"), 6);
    assert_eq!(kept_md5(&services.to, &item.target_key).await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_goes_on_is_not_read_again_for_its_md5() {
    let (folder, fixture) = (Folder::new(), service());
    let item = folder.file(1, "k", &bytes(1, 300)).await;
    let create = CreateUpload {
        bucket: TARGET.into(),
        key: "k".into(),
        checksum: Some((ChecksumAlgorithm::Crc64Nvme, ChecksumKind::FullObject)),
        ..CreateUpload::default()
    };
    let upload_id = fixture.memory.create_upload(&create).await.unwrap();
    let item = JobItem { upload: Some(RecordedUpload { upload_id, part_size: 50, etag: None }), ..item };

    let policy = upload(&folder, Policy { md5: true, resumed: true, since: later(), ..streaming() });
    let (outcomes, _) = common::drain(start(&fixture, &folder.connection, &fixture.connection, policy, &[item])).await;

    assert_eq!(outcomes[&1].state, ObjectState::Done, "{:?}", outcomes[&1]);
    assert_eq!(folder.store.count("GetObject"), 6);
}

/// A file that is another between the read for its MD5 and that of its parts.
async fn changed_between_the_reads(change: impl Fn(&Path) + Send + Sync + 'static, now: Vec<u8>) {
    let (folder, fixture) = (Folder::new(), service());
    let item = folder.file(1, "k", &bytes(1, 300)).await;
    let path = folder.path.join("k");
    let hook = Hook(Arc::new(move || {
        change(&path);
        Box::pin(async {})
    }));
    fixture.store.rule(Rule::once("CreateMultipartUpload", Fault::Hook(hook)));

    let policy = upload(&folder, Policy { md5: true, ..streaming() });
    let (outcomes, _) = common::drain(start(&fixture, &folder.connection, &fixture.connection, policy, &[item])).await;

    assert_eq!((outcomes[&1].state, outcomes[&1].attempts), (ObjectState::Done, 2), "{:?}", outcomes[&1]);
    assert_eq!(kept_md5(&fixture, "k").await, Some(md5(&now)));
    assert_eq!(fixture.read(TARGET, "k").await, Some(now));
    assert_eq!(fixture.open_uploads().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_changes_after_it_was_read_for_its_md5_is_started_over() {
    changed_between_the_reads(|path| std::fs::write(path, bytes(2, 280)).unwrap(), bytes(2, 280)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_that_change_without_a_trace_after_the_md5_are_noticed() {
    let change = |path: &Path| {
        let time = std::fs::metadata(path).unwrap().modified().unwrap();
        std::fs::write(path, bytes(2, 300)).unwrap();
        std::fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
    };

    changed_between_the_reads(change, bytes(2, 300)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_read_for_its_md5_can_be_cancelled() {
    let (folder, fixture) = (Folder::new(), service());
    let (item, latch) = (folder.file(1, "k", &bytes(1, 300)).await, Latch::default());
    folder.store.rule(Rule::always("GetObject", Fault::Hold(latch.clone())));
    let policy = upload(&folder, Policy { md5: true, ..streaming() });
    let job = start(&fixture, &folder.connection, &fixture.connection, policy, &[item]);
    latch.reached().await;

    job.stop(StopMode::Cancel);
    let (outcomes, _) = common::drain(job).await;

    assert_eq!(outcomes[&1].state, ObjectState::Cancelled);
    assert_eq!(fixture.store.count("CreateMultipartUpload"), 0);
    assert_eq!(fixture.budget.memory_reserved(), 0);
    latch.open();
}
