//! Archives packed in memory, behind a store that can fail: contents, determinism, changes under way, kills, refusals.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::common::{self, SOURCE, TARGET, TransferFixture, bytes, drain, job, policy};
use bytes::Bytes;
use proptest::prelude::*;
use seqferry_archive::index::{Index, IndexLimits, TarIdentity};
use seqferry_archive::write::{ArchiveEntry, Layout};
use seqferry_client::{Endpoint, RecordedUpload};
use seqferry_store::checksum::base64;
use seqferry_store::prelude::*;
use seqferry_store::{
    Attributes, ChecksumAlgorithm, DigestAlgorithm, Digester, Digests, ObjectMeta, ObjectRef, PutObject,
};
use seqferry_store_testing::ObjectWriteExt as _;
use seqferry_store_testing::fault::{Fault, FaultStore, Hook, Latch, Rule};
use seqferry_transfer::pack::MAX_MEMBER_SIZE;
use seqferry_transfer::verification::PartOptions;
use seqferry_transfer::{
    CopyLimits, DataPath, IfExists, Job, JobEvent, JobItem, ObjectOutcome, ObjectState, PackOptions, Policy,
    VerificationLevel,
};
use tokio::runtime::Handle;

pub(crate) const ARCHIVE: &str = "out/run.tar";
pub(crate) const INDEX: &str = "out/run.tar.sfidx";

pub(crate) fn limits() -> CopyLimits {
    // An archive has headers of 512 bytes: parts of ten bytes would be too small for any.
    CopyLimits {
        minimum_part: 700,
        maximum_part: 20_000,
        stream_threshold: 3000,
        stream_part_grown: 2000,
        part_size: 1000,
        maximum_object: 1 << 30,
        maximum_parts: 1000,
        ..common::small_limits()
    }
}

pub(crate) fn packing() -> Policy {
    Policy { limits: limits(), ..policy() }
}

pub(crate) fn options() -> PackOptions {
    PackOptions { strip: "run/".into(), index: true }
}

pub(crate) async fn member(fixture: &TransferFixture, id: u64, name: &str, contents: &[u8]) -> JobItem {
    let item = fixture.object(id, &format!("run/{name}"), contents).await;
    JobItem { target_key: ARCHIVE.into(), ..item }
}

pub(crate) async fn members(fixture: &TransferFixture, sizes: &[usize]) -> Vec<JobItem> {
    let mut items = Vec::new();
    for (id, size) in sizes.iter().enumerate() {
        items.push(member(fixture, id as u64, &format!("{id:03}.bin"), &bytes(id as u64, *size)).await);
    }
    // A listing has no order.
    items.reverse();
    items
}

pub(crate) fn start(fixture: &TransferFixture, policy: Policy, items: Vec<JobItem>) -> Job {
    let (from, to) = (fixture.connection.clone(), fixture.connection.clone());
    Job::start_pack(&Handle::current(), fixture.scheduler(), job(from, to, policy, items), options())
}

pub(crate) async fn pack(fixture: &TransferFixture, policy: Policy, items: &[JobItem]) -> HashMap<u64, ObjectOutcome> {
    let outcomes = drain(start(fixture, policy, items.to_vec())).await.0;
    assert_eq!(fixture.budget.stats().in_flight, 0, "a request permit leaked");
    assert_eq!(fixture.budget.memory_reserved(), 0, "buffer bytes leaked");
    assert_eq!(fixture.open_uploads().await, 0, "an upload was left open");
    outcomes
}

pub(crate) async fn expected(fixture: &TransferFixture, items: &[JobItem]) -> Vec<u8> {
    let mut items = items.to_vec();
    items.sort_by(|a, b| a.source_key.cmp(&b.source_key));
    let mut contents = Vec::new();
    for item in &items {
        contents.push(fixture.read(SOURCE, &item.source_key).await.unwrap());
    }
    let entries: Vec<ArchiveEntry> = items
        .iter()
        .zip(&contents)
        .map(|(item, contents)| {
            ArchiveEntry::file(item.source_key.strip_prefix("run/").unwrap(), contents.len() as u64)
        })
        .collect();
    Layout::plan(&entries).unwrap().assemble(|member| contents[member].clone())
}

async fn index(fixture: &TransferFixture) -> Index {
    Index::read(&fixture.read(TARGET, INDEX).await.unwrap(), &IndexLimits::default()).unwrap()
}

fn identity(meta: &ObjectMeta) -> TarIdentity {
    TarIdentity { size: meta.size, etag: Some(meta.etag.clone()), ..TarIdentity::default() }
}

fn states(outcomes: &HashMap<u64, ObjectOutcome>) -> Vec<ObjectState> {
    let mut ids: Vec<_> = outcomes.keys().copied().collect();
    ids.sort_unstable();
    ids.iter().map(|id| outcomes[id].state).collect()
}

#[tokio::test]
async fn small_and_big_members_make_one_archive_with_an_index() {
    let fixture = TransferFixture::of(seqferry_store_testing::MemoryStore::new(700));
    let items = members(&fixture, &[10, 0, 30_000, 513, 9000, 1, 2000, 100]).await;

    let outcomes = pack(&fixture, packing(), &items).await;

    assert_eq!(states(&outcomes), [ObjectState::Done; 8]);
    let tar = fixture.read(TARGET, ARCHIVE).await.unwrap();
    assert_eq!(tar, expected(&fixture, &items).await);
    let index = index(&fixture).await;
    assert!(index.matches(&identity(&fixture.head(ARCHIVE).await)).is_certain());
    assert_eq!(index.members.len(), 8);
    for entry in &index.members {
        let (start, size) = (entry.member.data_offset, entry.member.stored_size);
        let contents = &tar[usize::try_from(start).unwrap()..usize::try_from(start + size).unwrap()];
        let crc = Digester::of(DigestAlgorithm::Checksum(ChecksumAlgorithm::Crc32C), contents);
        let is_copied = size >= 9000;
        assert_eq!(entry.crc32c.map(u32::to_be_bytes).map(|crc| crc.to_vec()), (!is_copied).then_some(crc));
        assert_eq!(entry.source.as_ref().unwrap().key, format!("run/{}", String::from_utf8_lossy(&entry.member.name)));
    }
    let copied: u64 = fixture.store.count("UploadPartCopy") as u64;
    assert!(copied > 1, "big members are copied inside the storage");
    let target = fixture.head(ARCHIVE).await;
    assert!(outcomes.values().all(|outcome| outcome.target_etag.as_ref() == Some(&target.etag)));
    assert!(outcomes.values().all(|outcome| outcome.verified == VerificationLevel::Checksum));
}

#[tokio::test]
async fn bytes_do_not_depend_on_part_sizes_nor_on_the_data_path() {
    let fixture = TransferFixture::of(seqferry_store_testing::MemoryStore::new(700));
    let items = members(&fixture, &[10, 30_000, 513, 9000, 1, 4000, 100]).await;
    let wanted = expected(&fixture, &items).await;

    for (part_size, data_path) in
        [(1400, DataPath::Copy), (5000, DataPath::Copy), (20_000, DataPath::Stream), (1400, DataPath::Stream)]
    {
        let part_options = PartOptions { part_size: Some(part_size), ..PartOptions::default() };
        let policy = Policy { part_options, data_path, if_exists: IfExists::Overwrite, ..packing() };
        let outcomes = pack(&fixture, policy, &items).await;
        assert_eq!(states(&outcomes), [ObjectState::Done; 7]);
        assert_eq!(fixture.read(TARGET, ARCHIVE).await.unwrap(), wanted, "{part_size} {data_path:?}");
    }
}

/// A member whose source keeps this checksum.
pub(crate) async fn member_with_sum(
    fixture: &TransferFixture,
    id: u64,
    size: usize,
    sum: ChecksumAlgorithm,
) -> JobItem {
    let contents = bytes(id, size);
    let item = member(fixture, id, &format!("{id:03}.bin"), &contents).await;
    let value = base64(&Digester::of(DigestAlgorithm::Checksum(sum), &contents));
    let object = PutObject {
        bucket: SOURCE.into(),
        key: item.source_key.clone(),
        digests: Digests { checksum: Some((sum, value)), md5: None },
        ..PutObject::default()
    };
    let written = fixture.memory.put_object(&object, contents.into()).await.unwrap();
    JobItem { etag: written.etag, ..item }
}

pub(crate) fn streamed_in_small_parts() -> Policy {
    let part_options = PartOptions { part_size: Some(1400), ..PartOptions::default() };
    Policy { part_options, data_path: DataPath::Stream, ..packing() }
}

#[tokio::test]
async fn members_read_in_several_parts_are_verified_by_the_checksum_that_the_source_states() {
    use ChecksumAlgorithm::{Crc32, Crc32C, Crc64Nvme, Sha256};
    let fixture = TransferFixture::of(seqferry_store_testing::MemoryStore::new(700));
    let mut items = Vec::new();
    for (id, sum) in [Crc64Nvme, Crc32C, Crc32, Sha256].into_iter().enumerate() {
        items.push(member_with_sum(&fixture, id as u64, 5000, sum).await);
    }

    let outcomes = pack(&fixture, streamed_in_small_parts(), &items).await;

    let verified: Vec<VerificationLevel> = (0..4).map(|id| outcomes[&id].verified).collect();
    let proven = VerificationLevel::Checksum;
    assert_eq!(verified, [proven; 4], "CRCs are joined, and SHA-256 is computed in the order of the parts");
    assert_eq!(fixture.read(TARGET, ARCHIVE).await.unwrap(), expected(&fixture, &items).await);
}

#[tokio::test]
async fn a_part_of_a_member_that_was_read_wrong_makes_no_archive() {
    use ChecksumAlgorithm::{Crc32, Crc32C, Crc64Nvme, Sha256};
    for sum in [Crc64Nvme, Crc32C, Crc32, Sha256] {
        let fixture = TransferFixture::of(seqferry_store_testing::MemoryStore::new(700));
        let items = [member_with_sum(&fixture, 0, 5000, sum).await];
        fixture.store.rule(Rule::always("GetObject", Fault::Corrupt));

        let outcomes = pack(&fixture, streamed_in_small_parts(), &items).await;

        let failure = outcomes[&0].failure.as_ref().unwrap();
        assert_eq!(failure.code, "ContentMismatch", "{failure}");
        assert!(failure.message.contains(sum.name()), "{failure}");
        assert!(fixture.read(TARGET, ARCHIVE).await.is_none());
    }
}

#[tokio::test]
async fn the_same_archive_is_not_made_twice() {
    let fixture = TransferFixture::of(seqferry_store_testing::MemoryStore::new(700));
    let items = members(&fixture, &[10, 30_000]).await;
    pack(&fixture, packing(), &items).await;
    let before = fixture.store.count("CompleteMultipartUpload");
    fixture.memory.delete(seqferry_store::ObjectRef::new(TARGET, INDEX)).await.unwrap();

    let outcomes = pack(&fixture, packing(), &items).await;

    assert_eq!(states(&outcomes), [ObjectState::Skipped; 2]);
    assert_eq!(fixture.store.count("CompleteMultipartUpload"), before);
    assert!(
        index(&fixture).await.matches(&identity(&fixture.head(ARCHIVE).await)).is_certain(),
        "a lost index is written"
    );

    let changed = member(&fixture, 0, "000.bin", b"other").await;
    let outcomes = pack(&fixture, packing(), &[changed, items[0].clone()]).await;
    assert_eq!(states(&outcomes), [ObjectState::Done; 2]);
    let outcomes = pack(&fixture, Policy { if_exists: IfExists::Fail, ..packing() }, &items).await;
    assert_eq!(outcomes[&0].failure.as_ref().unwrap().code, "TargetExists");
}

/// The outcomes of an archive, and its upload as it was recorded last.
async fn recorded_pack(
    fixture: &TransferFixture,
    policy: Policy,
    items: &[JobItem],
    upload: Option<RecordedUpload>,
) -> (HashMap<u64, ObjectOutcome>, Option<RecordedUpload>) {
    let mut items = items.to_vec();
    items[0].upload = upload;
    common::drain_recorded(&Arc::new(start(fixture, policy, items))).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archive_found_after_a_kill_is_ours_by_the_recorded_etag_alone() {
    let fixture = TransferFixture::of(seqferry_store_testing::MemoryStore::new(700));
    let policy = Policy { if_exists: IfExists::Overwrite, ..packing() };
    let items = members(&fixture, &[10, 30_000]).await;
    let (_, recorded) = recorded_pack(&fixture, policy.clone(), &items, None).await;
    let recorded = recorded.unwrap();
    assert_eq!(recorded.etag.as_ref(), Some(&fixture.head(ARCHIVE).await.etag));
    let before = fixture.store.count("CompleteMultipartUpload");
    let resume = async |etag: Option<&String>| {
        let upload = RecordedUpload { etag: etag.cloned(), ..recorded.clone() };
        let policy = Policy { resumed: true, ..policy.clone() };
        let (outcomes, _) = recorded_pack(&fixture, policy, &items, Some(upload)).await;
        assert_eq!(states(&outcomes), [ObjectState::Done; 2]);
        assert_eq!(fixture.read(TARGET, ARCHIVE).await.unwrap(), expected(&fixture, &items).await);
        fixture.store.count("CompleteMultipartUpload") - before
    };

    assert_eq!(resume(recorded.etag.as_ref()).await, 0, "what was finished is not repeated");
    assert_eq!(resume(None).await, 1, "it was not about to be completed");
    overwrite_archive(&fixture.memory).await;
    assert_eq!(resume(recorded.etag.as_ref()).await, 2, "of the same size and metadata");
}

/// Writes an object of the same size and metadata, as another program does, in place of the archive.
async fn overwrite_archive(memory: &seqferry_store_testing::MemoryStore) {
    let there = memory.head(ObjectRef::new(TARGET, ARCHIVE), None).await.unwrap();
    let body = bytes(99, usize::try_from(there.size).unwrap());
    memory.put(TARGET, ARCHIVE, body.into(), &there.attributes).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archive_that_does_not_hold_what_was_sent_is_made_again() {
    for if_exists in [IfExists::Same, IfExists::Size, IfExists::Overwrite] {
        let fixture = TransferFixture::of(seqferry_store_testing::MemoryStore::new(700));
        let items = members(&fixture, &[10, 30_000]).await;
        let memory = Arc::clone(&fixture.memory);
        let hook = Hook(Arc::new(move || {
            let memory = Arc::clone(&memory);
            Box::pin(async move { overwrite_archive(&memory).await })
        }));
        fixture.store.rule(Rule::once("HeadObject", Fault::Hook(hook)).key(ARCHIVE).after(1));

        let outcomes = pack(&fixture, Policy { if_exists, ..packing() }, &items).await;

        assert_eq!(states(&outcomes), [ObjectState::Done; 2], "{if_exists:?}");
        assert_eq!(fixture.read(TARGET, ARCHIVE).await.unwrap(), expected(&fixture, &items).await, "{if_exists:?}");
    }
}

/// Overwrites a member when it is read, for the first `times` reads.
pub(crate) fn overwriting(fixture: &TransferFixture, operation: &'static str, key: &str, times: u32) {
    let (memory, name) = (Arc::clone(&fixture.memory), key.to_owned());
    let hook = Hook(Arc::new(move || {
        let (memory, name) = (Arc::clone(&memory), name.clone());
        Box::pin(async move {
            let body = Bytes::from(bytes(fastrand::u64(..), 777));
            memory.put(SOURCE, &name, body, &Attributes::default()).await.unwrap();
        })
    }));
    fixture.store.rule(Rule::once(operation, Fault::Hook(hook)).key(key).times(times));
}

#[tokio::test]
async fn an_archive_starts_over_once_when_a_member_changes() {
    let fixture = TransferFixture::of(seqferry_store_testing::MemoryStore::new(700));
    let items = members(&fixture, &[10, 30_000, 500]).await;
    overwriting(&fixture, "GetObject", "run/002.bin", 1);

    let outcomes = pack(&fixture, packing(), &items).await;

    assert_eq!(states(&outcomes), [ObjectState::Done; 3]);
    assert_eq!(outcomes[&2].size, 777, "the outcome tells what was packed");
    assert_eq!(fixture.read(TARGET, ARCHIVE).await.unwrap(), expected(&fixture, &items).await);
}

#[tokio::test]
async fn a_member_that_keeps_changing_is_named_and_no_archive_is_made() {
    let fixture = TransferFixture::of(seqferry_store_testing::MemoryStore::new(700));
    let items = members(&fixture, &[10, 30_000, 500]).await;
    overwriting(&fixture, "GetObject", "run/002.bin", 100);

    let outcomes = pack(&fixture, packing(), &items).await;

    assert_eq!(states(&outcomes), [ObjectState::Failed; 3]);
    let culprit = outcomes[&2].failure.as_ref().unwrap();
    assert_eq!(culprit.class.as_str(), "source_changed");
    assert!(culprit.message.contains("run/002.bin") && culprit.message.contains("while it was packed"), "{culprit}");
    let other = outcomes[&0].failure.as_ref().unwrap();
    assert!(other.message.contains("run/002.bin could not be packed"), "{other}");
    assert_eq!(fixture.read(TARGET, ARCHIVE).await, None);
}

#[tokio::test]
async fn a_member_that_is_removed_fails_the_archive() {
    let fixture = TransferFixture::of(seqferry_store_testing::MemoryStore::new(700));
    let items = members(&fixture, &[10, 500]).await;
    fixture.memory.delete(seqferry_store::ObjectRef::new(SOURCE, "run/001.bin")).await.unwrap();

    let outcomes = pack(&fixture, packing(), &items).await;

    assert!(outcomes[&1].failure.as_ref().unwrap().message.contains("it is gone"));
    assert_eq!(fixture.read(TARGET, ARCHIVE).await, None);
}

#[tokio::test]
async fn archives_that_the_service_cannot_take_are_refused_before_a_byte() {
    let fixture = TransferFixture::of(seqferry_store_testing::MemoryStore::new(700));
    let huge = |id: u64, key: &str, size| JobItem {
        id,
        source_key: format!("run/{key}"),
        target_key: ARCHIVE.into(),
        size,
        etag: "e".into(),
        ..JobItem::default()
    };
    let wide = CopyLimits { maximum_object: u64::MAX, ..limits() };

    for (items, policy, code, text) in [
        (vec![huge(0, "a", MAX_MEMBER_SIZE + 1)], packing(), "MemberRefused", "a member has at most 5 TiB"),
        (vec![huge(0, "a", 1), huge(1, "a/b", 1)], packing(), "MemberRefused", "is a member that is not a directory"),
        (vec![huge(0, "../a", 1)], packing(), "MemberRefused", ".."),
        (vec![huge(0, "a", 2 << 30)], packing(), "ArchiveTooLarge", "split it into shards"),
        (
            vec![huge(0, "a", 64 << 20), huge(1, "b", 1)],
            Policy { limits: wide, ..packing() },
            "TooManyParts",
            "the service takes 1000; split the archive into shards",
        ),
    ] {
        let outcomes = pack(&fixture, policy, &items).await;
        assert!(outcomes.values().all(|outcome| outcome.state == ObjectState::Failed));
        let failures: Vec<_> = outcomes.values().filter_map(|outcome| outcome.failure.as_ref()).collect();
        let found = failures.iter().find(|failure| failure.code == code).expect(code);
        assert!(found.message.contains(text) && found.message.contains("Nothing was written"), "{found}");
    }
    assert!(fixture.store.requests().is_empty(), "no request was made");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_archive_leaves_no_upload() {
    let fixture = TransferFixture::of(seqferry_store_testing::MemoryStore::new(700));
    let items = members(&fixture, &[10, 30_000, 500]).await;
    let latch = Latch::default();
    fixture.store.rule(Rule::always("UploadPartCopy", Fault::Hold(latch.clone())));
    let job = start(&fixture, packing(), items);
    let events = tokio::task::block_in_place(|| {
        loop {
            let events = job.wait(Duration::from_secs(5));
            if !events.is_empty() {
                break events;
            }
        }
    });
    let [JobEvent::RecordUpload { id, .. }] = events[..] else { panic!("{events:?}") };
    job.acknowledge(&[id]);
    latch.reached().await;

    job.stop(seqferry_transfer::StopMode::Cancel);
    latch.open();
    let outcomes = drain(job).await.0;

    assert_eq!(states(&outcomes), [ObjectState::Cancelled; 3]);
    assert_eq!(fixture.open_uploads().await, 0);
    assert_eq!(fixture.read(TARGET, ARCHIVE).await, None);
}

/// Request at which the process is killed.
#[derive(Debug, Clone)]
struct KillPoint {
    operation: &'static str,
    after: u32,
    done: bool,
}

fn kill_point() -> impl Strategy<Value = KillPoint> {
    let operations = [
        "HeadObject",
        "CreateMultipartUpload",
        "UploadPartCopy",
        "CompleteMultipartUpload",
        "ListParts",
        "GetObject",
        "PutObject",
        "UploadPart",
    ];
    (proptest::sample::select(operations.to_vec()), 0..8_u32, any::<bool>())
        .prop_map(|(operation, after, done)| KillPoint { operation, after, done })
}

/// Run one process until it is killed or done. Its outcomes when it came to the end.
fn live(
    fixture: &TransferFixture,
    performed: &Arc<FaultStore>,
    recorded: &mut Option<RecordedUpload>,
    items: &[JobItem],
    policy: Policy,
    kill: Option<&KillPoint>,
) -> Option<Vec<ObjectOutcome>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let store = Arc::new(FaultStore::new(Arc::clone(performed) as Arc<dyn ObjectStore>));
    let latch = Latch::default();
    if let Some(kill) = kill {
        let fault = if kill.done { Fault::HoldReply(latch.clone()) } else { Fault::Hold(latch.clone()) };
        store.rule(Rule::always(kill.operation, fault).after(kill.after));
    }
    let endpoint = Endpoint::new(store as Arc<dyn ObjectStore>);
    let mut items = items.to_vec();
    items[0].upload.clone_from(recorded);
    let spec = job(endpoint.clone(), endpoint, policy, items);
    let job = Job::start_pack(runtime.handle(), fixture.scheduler(), spec, options());
    let killed = runtime.spawn(async move { latch.reached().await });
    let mut outcomes = Vec::new();
    let survived = loop {
        if job.is_finished() {
            break true;
        }
        for event in job.wait(Duration::from_millis(5)) {
            match event {
                JobEvent::RecordUpload { id, upload } => {
                    *recorded = Some(upload);
                    job.acknowledge(&[id]);
                }
                JobEvent::Ended(outcome) => outcomes.push(*outcome),
            }
        }
        if killed.is_finished() {
            break false;
        }
    };
    // Until its threads are gone: what a dead process had sent must not be done in the next run.
    runtime.shutdown_timeout(Duration::from_secs(10));
    survived.then_some(outcomes)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn killed_at_any_moment_an_archive_is_made_once(
        sizes in proptest::collection::vec(prop_oneof![0..2000_usize, 4000..30_000_usize], 1..8),
        kills in proptest::collection::vec(kill_point(), 0..4),
        stream in any::<bool>(),
        proves_copies in any::<bool>(),
    ) {
        let setup = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let memory = seqferry_store_testing::MemoryStore::new(700);
        let memory = if proves_copies { memory } else { memory.with_whole_checksums_of_parts() };
        let fixture = TransferFixture::of(memory);
        let performed = Arc::new(FaultStore::new(Arc::clone(&fixture.memory) as Arc<dyn ObjectStore>));
        let items = setup.block_on(members(&fixture, &sizes));
        let mut recorded = None;
        let mut ends = None;

        for (number, kill) in kills.iter().map(Some).chain([None]).enumerate() {
            let data_path = if stream { DataPath::Stream } else { DataPath::Copy };
            let policy = Policy { resumed: number > 0, data_path, ..packing() };
            ends = live(&fixture, &performed, &mut recorded, &items, policy, kill);
            if ends.is_some() {
                break;
            }
        }

        let ends = ends.unwrap();
        prop_assert_eq!(ends.len(), items.len());
        prop_assert!(ends.iter().all(|end| end.state == ObjectState::Done), "{:?}", ends);
        let (tar, wanted) = setup.block_on(async {
            (fixture.read(TARGET, ARCHIVE).await.unwrap(), expected(&fixture, &items).await)
        });
        prop_assert!(tar == wanted);
        let (index, head) = setup.block_on(async { (index(&fixture).await, fixture.head(ARCHIVE).await) });
        prop_assert!(index.matches(&identity(&head)).is_certain());
        prop_assert_eq!(setup.block_on(fixture.open_uploads()), 0);
        let mut times: HashMap<(&str, String, Option<u32>), u32> = HashMap::new();
        for request in performed.requests() {
            *times.entry((request.operation, request.key, request.part)).or_default() += 1;
        }
        // Each process may copy one byte, as a part that no archive has, to learn how copies are answered.
        times.remove(&("UploadPartCopy", ARCHIVE.to_owned(), u32::try_from(limits().maximum_parts).ok()));
        for ((operation, key, part), count) in times {
            if ["UploadPartCopy", "UploadPart", "CompleteMultipartUpload"].contains(&operation) {
                prop_assert_eq!(count, 1, "{} {} {:?}", operation, key, part);
            }
        }
    }
}
