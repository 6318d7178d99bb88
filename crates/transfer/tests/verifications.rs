//! Jobs that compare objects with their record: what ends how, also after a stop, an outage, or a failure of all.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::common::{TARGET, TransferFixture, bytes, drain, job};
use bytes::Bytes;
use seqferry_client::{Budget, BudgetLimits, Endpoint, Lease, LeaseHolder};
use seqferry_store::checksum::{base64, hex};
use seqferry_store::prelude::*;
use seqferry_store::{
    Attributes, Checksum, ChecksumAlgorithm, DigestAlgorithm, Digester, DiskOptions, DiskStore, ObjectRef,
};
use seqferry_store_testing::ObjectWriteExt as _;
use seqferry_store_testing::fault::{Fault, Latch, Rule};
use seqferry_transfer::{
    CopyMethod, Job, JobItem, JobSpec, ObjectOutcome, ObjectState, Policy, Progress, RecordedContent, StopMode,
    VerificationLevel, VerifyOptions,
};
use tokio::runtime::Handle;

const MIB: usize = 1 << 20;
const BY_HEAD: VerifyOptions = VerifyOptions { content: false, archives: false };
const BY_CONTENT: VerifyOptions = VerifyOptions { content: true, archives: false };

fn crc64(content: &[u8]) -> Checksum {
    let algorithm = ChecksumAlgorithm::Crc64Nvme;
    Checksum::from_header(algorithm, &base64(&Digester::of(DigestAlgorithm::Checksum(algorithm), content)), None)
}

/// Puts an object at the target, and records it as it is.
async fn recorded(fixture: &TransferFixture, id: u64, key: &str, content: &[u8]) -> JobItem {
    let body = Bytes::copy_from_slice(content);
    let written = fixture.memory.put(TARGET, key, body, &Attributes::default()).await.unwrap();
    let content = RecordedContent { target_etag: Some(written.etag), ..RecordedContent::default() };
    let (size, etag) = (written_size(fixture, key).await, "source".to_owned());
    JobItem { id, source_key: key.to_owned(), size, etag, recorded: Some(Box::new(content)), ..JobItem::default() }
}

async fn written_size(fixture: &TransferFixture, key: &str) -> u64 {
    fixture.memory.head(ObjectRef::new(TARGET, key), None).await.unwrap().size
}

/// Small objects that are as recorded.
async fn many(fixture: &TransferFixture, number: u64) -> Vec<JobItem> {
    let mut items = Vec::new();
    for id in 0..number {
        items.push(recorded(fixture, id, &format!("k{id:03}"), b"x").await);
    }
    items
}

fn start(fixture: &TransferFixture, items: Vec<JobItem>, options: VerifyOptions) -> Job {
    let policy = Policy { target_bucket: TARGET.into(), ..Policy::default() };
    start_spec(fixture, job(fixture.connection.clone(), fixture.connection.clone(), policy, items), options)
}

fn start_spec(fixture: &TransferFixture, spec: JobSpec, options: VerifyOptions) -> Job {
    Job::start_verify(&Handle::current(), fixture.scheduler(), spec, options)
}

async fn ends(
    fixture: &TransferFixture,
    items: Vec<JobItem>,
    options: VerifyOptions,
) -> (HashMap<u64, ObjectOutcome>, Job) {
    let found = drain(start(fixture, items, options)).await;
    assert_eq!(fixture.budget.memory_reserved(), 0, "buffer bytes leaked");
    found
}

/// Waits until this holds.
async fn until(holds: impl Fn() -> bool) {
    let wait = async {
        while !holds() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), wait).await.expect("it never holds");
}

/// Code, operation and text of a failure.
fn failure(outcome: &ObjectOutcome) -> (&str, &str, &str) {
    let failure = outcome.failure.as_ref().expect("failed");
    (&failure.code, failure.operation, &failure.message)
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_that_are_gone_or_others_are_told_with_what_was_recorded() {
    let fixture = TransferFixture::new();
    let mut items = many(&fixture, 4).await;
    items[3].recorded = None;
    let etag = items[2].recorded.as_ref().unwrap().target_etag.clone().unwrap();
    fixture.memory.delete(ObjectRef::new(TARGET, "k001")).await.unwrap();
    let other = fixture.memory.put(TARGET, "k002", Bytes::from_static(b"yy"), &Attributes::default()).await.unwrap();

    let (found, job) = ends(&fixture, items, BY_HEAD).await;

    let states: Vec<_> = (0..4).map(|id| (found[&id].state, found[&id].verified, found[&id].method)).collect();
    let (failed, none) = (ObjectState::Failed, VerificationLevel::No);
    assert_eq!(
        states,
        [
            (ObjectState::Done, VerificationLevel::Etag, CopyMethod::Head),
            (failed, none, CopyMethod::Head),
            (failed, none, CopyMethod::Head),
            (ObjectState::Done, VerificationLevel::Size, CopyMethod::Head),
        ]
    );
    assert_eq!(found[&0].target_etag.as_deref(), Some(etag.as_str()), "what it was compared with");
    assert_eq!((found[&0].source_etag.as_str(), found[&2].size), ("source", 1), "of the record");
    assert_eq!(found[&1].failure.as_ref().unwrap().class.as_str(), "mismatch");
    let was = format!("was 1 bytes, ETag {etag}");
    let gone = format!("s3://target/k001: {was}; now: nothing");
    let changed = format!("s3://target/k002: {was}; now: 2 bytes, ETag {}", other.etag);
    assert_eq!(failure(&found[&1]), ("MissingAtTarget", "HeadObject", gone.as_str()));
    assert_eq!(failure(&found[&2]), ("ChangedAtTarget", "HeadObject", changed.as_str()));
    let progress = job.progress();
    assert_eq!((progress.objects_done, progress.objects_failed, progress.bytes_done), (2, 2, 2));
    assert_eq!(progress.requests, 4, "one look-up of each");
    assert_eq!(fixture.store.count("GetObject"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_are_read_where_a_digest_is_on_record_and_the_object_looks_the_same() {
    let fixture = TransferFixture::new();
    let content = bytes(1, 17 * MIB);
    let mut items = Vec::new();
    for id in 0..5 {
        items.push(recorded(&fixture, id, &format!("k{id}"), &content).await);
    }
    // By its ETag, by its checksum, by another checksum, without a digest, and gone.
    items[1].recorded.as_mut().unwrap().checksum = Some(crc64(&content));
    items[2].recorded.as_mut().unwrap().checksum = Some(crc64(b"others"));
    items[3].recorded.as_mut().unwrap().target_etag = None;
    fixture.memory.delete(ObjectRef::new(TARGET, "k4")).await.unwrap();

    let (found, job) = ends(&fixture, items, BY_CONTENT).await;

    let ends: Vec<_> = (0..5).map(|id| (found[&id].verified, found[&id].method)).collect();
    let (content_level, none) = (VerificationLevel::Content, VerificationLevel::No);
    assert_eq!(
        ends,
        [
            (content_level, CopyMethod::Read),
            (content_level, CopyMethod::Read),
            (none, CopyMethod::Read),
            (VerificationLevel::Size, CopyMethod::Head),
            (none, CopyMethod::Head),
        ]
    );
    let etag = found[&2].target_etag.as_deref().unwrap();
    let message = format!(
        "s3://target/k2: was {} bytes, ETag {etag}, CRC64NVME {}; now: CRC64NVME {}",
        17 * MIB,
        crc64(b"others").value,
        crc64(&content).value
    );
    assert_eq!(failure(&found[&2]), ("ChangedAtTarget", "GetObject", message.as_str()));
    assert_eq!(found[&1].checksum, Some(crc64(&content)), "what it was compared with");
    assert_eq!(job.progress().bytes_done, 3 * 17 * MIB as u64);
    assert_eq!(fixture.store.count("GetObject"), 9, "three ranges of each");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_an_archive_only_its_own_etag_is_compared() {
    let fixture = TransferFixture::new();
    let mut items = many(&fixture, 3).await;
    for item in &mut items {
        item.size = 0;
    }
    items[0].recorded.as_mut().unwrap().checksum = Some(crc64(b"a member"));
    items[1].recorded.as_mut().unwrap().target_etag = None;
    fixture.memory.put(TARGET, "k002", Bytes::from_static(b"yy"), &Attributes::default()).await.unwrap();

    for (options, level) in [(BY_HEAD, VerificationLevel::Etag), (BY_CONTENT, VerificationLevel::Content)] {
        let (found, _job) = ends(&fixture, items.clone(), VerifyOptions { archives: true, ..options }).await;

        let ends: Vec<_> = (0..3).map(|id| (found[&id].verified, found[&id].size)).collect();
        assert_eq!(ends, [(level, 1), (VerificationLevel::Size, 1), (VerificationLevel::No, 0)]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_compared_with_the_digest_of_its_source() {
    let folder = std::env::temp_dir().join(format!("seqferry-verify-{:x}", fastrand::u64(..)));
    std::fs::create_dir_all(&folder).unwrap();
    let fixture = TransferFixture::new();
    let store: Arc<dyn ObjectStore> = Arc::new(DiskStore::new(DiskOptions::default()));
    let (content, policy) =
        (bytes(1, 100), || Policy { target_bucket: folder.to_str().unwrap().to_owned(), ..Policy::default() });
    std::fs::write(folder.join("file"), &content).unwrap();
    let etag = hex(&Digester::of(DigestAlgorithm::Md5, &content));
    // The ETag of a file changes when it is copied elsewhere.
    let record = RecordedContent { target_etag: Some("other".to_owned()), ..RecordedContent::default() };
    let recorded = Some(Box::new(record));
    let item = JobItem { source_key: "file".to_owned(), size: 100, etag, recorded, ..JobItem::default() };
    let verify = async || {
        let spec = job(Endpoint::new(store.clone()), Endpoint::new(store.clone()), policy(), vec![item.clone()]);
        drain(start_spec(&fixture, spec, BY_CONTENT)).await.0.remove(&0).unwrap()
    };

    assert_eq!(verify().await.verified, VerificationLevel::Content);
    std::fs::write(folder.join("file"), bytes(2, 100)).unwrap();
    let found = verify().await;
    assert_eq!(failure(&found).0, "ChangedAtTarget");
    assert!(failure(&found).2.contains(": was 100 bytes, ETag "), "{found:?}");
    std::fs::remove_file(folder.join("file")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, folder.join("file"), rustix::fs::Mode::RWXU).unwrap();
    let found = verify().await;
    std::fs::remove_dir_all(&folder).unwrap();
    assert_eq!(failure(&found).0, "ChangedAtTarget", "no file: {found:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_cannot_be_looked_up_or_read_keeps_no_other_from_it() {
    let fixture = TransferFixture::new();
    let items = many(&fixture, 5).await;
    fixture.store.rule(Rule::always("HeadObject", Fault::Fail("Forbidden", 403)).key("k001"));
    fixture.store.rule(Rule::always("HeadObject", Fault::Fail("InternalError", 500)).key("k002"));
    fixture.store.rule(Rule::always("GetObject", Fault::Fail("InternalError", 500)).key("k003"));

    let (found, job) = ends(&fixture, items, BY_CONTENT).await;

    let codes: Vec<_> = (1..4).map(|id| (failure(&found[&id]).0, failure(&found[&id]).1)).collect();
    assert_eq!(
        codes,
        [("AccessDenied", "HeadObject"), ("InternalError", "HeadObject"), ("InternalError", "GetObject")]
    );
    let classes: Vec<_> = (1..4).map(|id| found[&id].failure.as_ref().unwrap().class.as_str()).collect();
    assert_eq!(classes, ["person", "retry", "retry"]);
    assert!(failure(&found[&2]).2.starts_with("s3://target/k002: was 1 bytes, ETag "), "{found:?}");
    assert!(failure(&found[&2]).2.contains("; now: HeadObject s3://target/k002: InternalError (500)"), "{found:?}");
    assert!([0, 4].iter().all(|id| found[id].verified == VerificationLevel::Content));
    assert!(job.failure().is_none());
    assert!(job.progress().retries > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_without_an_answer_fail_only_when_the_storage_answers() {
    for (bucket, failed) in [(Some(("InternalError", 500)), 0), (Some(("Forbidden", 403)), 300), (None, 300)] {
        let fixture = TransferFixture::new();
        let items = many(&fixture, 300).await;
        fixture.store.rule(Rule::always("HeadObject", Fault::Fail("InternalError", 500)));
        if let Some((code, status)) = bucket {
            fixture.store.rule(Rule::always("HeadBucket", Fault::Fail(code, status)));
        }

        let (found, job) = ends(&fixture, items, BY_HEAD).await;

        assert_eq!(found.len(), failed, "HeadBucket: {bucket:?}");
        assert!(found.values().all(|outcome| failure(outcome).0 == "InternalError"));
        assert!(job.failure().is_none(), "the work may be repeated");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_of_the_whole_job_is_no_failure_of_an_object() {
    for (operation, code) in [("HeadObject", "NoSuchBucket"), ("GetObject", "InvalidAccessKeyId")] {
        let fixture = TransferFixture::new();
        let items = many(&fixture, 2).await;
        fixture.store.rule(Rule::always(operation, Fault::Fail(code, 404)));

        let (found, job) = ends(&fixture, items, BY_CONTENT).await;

        assert_eq!(job.failure().map(|failure| failure.code), Some(code.to_owned()));
        assert!(found.is_empty(), "{found:?}");
        assert_eq!(job.progress().objects_active, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_ends_the_reads_and_leaves_what_was_not_compared() {
    for mode in [StopMode::Cancel, StopMode::Suspend] {
        let mut fixture = TransferFixture::new();
        // Too little for both ranges of the big one at a time.
        fixture.budget = Budget::new(BudgetLimits { memory: 9 << 20, ..BudgetLimits::default() });
        let mut items = many(&fixture, 40).await;
        items.push(recorded(&fixture, 40, "big", &bytes(1, 12 * MIB)).await);
        let latch = Latch::default();
        fixture.store.rule(Rule::always("GetObject", Fault::Hold(latch.clone())).key("big").after(1));
        let job = start(&fixture, items, BY_CONTENT);
        latch.reached().await;
        // The first range of the big one, and all of the others.
        let is_held = |seen: Progress| (seen.objects_done, seen.bytes_done) == (40, 8 * MIB as u64 + 40);
        until(|| is_held(job.progress())).await;
        let slowest = job.progress().slowest;
        assert_eq!(slowest.iter().map(|one| (one.id, one.bytes_done)).collect::<Vec<_>>(), [(40, 8 * MIB as u64)]);
        assert!(job.progress().in_flight > 0);

        job.stop(mode);
        let (found, job) = drain(job).await;

        let left = found.get(&40).map(|outcome| outcome.state);
        assert_eq!(left, (mode == StopMode::Cancel).then_some(ObjectState::Cancelled));
        assert!((0..40).all(|id| found[&id].verified == VerificationLevel::Content));
        assert_eq!(job.progress().objects_active, 0);
        until(|| fixture.budget.memory_reserved() == 0 && fixture.budget.stats().in_flight == 0).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_cleans_up_looks_at_nothing() {
    let fixture = TransferFixture::new();
    let items = many(&fixture, 2).await;
    let policy = Policy { target_bucket: TARGET.into(), only_clean: true, ..Policy::default() };
    let spec = job(fixture.connection.clone(), fixture.connection.clone(), policy, items);

    let (found, _job) = drain(start_spec(&fixture, spec, BY_CONTENT)).await;

    assert!(found.values().all(|outcome| outcome.state == ObjectState::Cancelled), "{found:?}");
    assert_eq!((found.len(), fixture.store.count("HeadObject")), (2, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_written_so_that_no_lease_is_waited_for() {
    let fixture = TransferFixture::new();
    let items = many(&fixture, 2).await;
    let policy = Policy { target_bucket: TARGET.into(), ..Policy::default() };
    let spec = job(fixture.connection.clone(), fixture.connection.clone(), policy, items);
    let lease = Some(Arc::new(LeaseHolder::new(Arc::new(Lease::default()), 1)));

    let ended = drain(start_spec(&fixture, JobSpec { lease, ..spec }, BY_CONTENT));

    let (found, _job) = tokio::time::timeout(Duration::from_secs(30), ended).await.expect("it waits");
    assert!(found.values().all(|outcome| outcome.state == ObjectState::Done), "{found:?}");
}
