//! Evidence that the bytes contradict: a mismatch on every path, unless the `ETag`s are known to be no digests.

use std::time::Duration;

use bytes::Bytes;
use seqferry_store::prelude::*;
use seqferry_store::{Attributes, ChecksumAlgorithm, ChecksumKind, CompleteUpload, CompletedPart, CreateUpload};
use seqferry_store::{Digests, UploadRef};
use seqferry_store_testing::fault::{Fault, Rule};
use seqferry_store_testing::{MemoryStore, ObjectWriteExt as _};
use seqferry_transfer::{
    DataPath, FailureClass, IfExists, JobItem, ObjectOutcome, ObjectState, PackOptions, Policy, VerificationLevel,
    VerificationRule,
};

use crate::common::{SOURCE, ServicePair, TARGET, TransferFixture, bytes, drain, job, policy, small_limits, streaming};

const RULES: [VerificationRule; 3] = [VerificationRule::Auto, VerificationRule::Checksum, VerificationRule::Content];

fn plain() -> MemoryStore {
    MemoryStore::new(small_limits().minimum_part).without_checksums()
}

/// Spoils the same byte of an object at every read.
fn spoil(fixture: &TransferFixture, key: &str) {
    fixture.store.rule(Rule::always("GetObject", Fault::Corrupt).key(key));
}

fn assert_mismatch(outcome: &ObjectOutcome) {
    let failure = outcome.failure.as_ref().unwrap_or_else(|| panic!("no failure: {outcome:?}"));
    assert_eq!((failure.class, failure.code.as_str()), (FailureClass::Mismatch, "ContentMismatch"), "{failure}");
    assert!(failure.message.contains("ETag"), "{failure}");
}

/// An object of parts of these lengths.
async fn of_parts(
    fixture: &TransferFixture,
    id: u64,
    checksum: Option<(ChecksumAlgorithm, ChecksumKind)>,
    lengths: &[usize],
) -> JobItem {
    let key = format!("parts{id}");
    let upload = CreateUpload { bucket: SOURCE.into(), key: key.clone(), checksum, ..CreateUpload::default() };
    let upload_id = fixture.memory.create_upload(&upload).await.unwrap();
    let (mut parts, mut size) = (Vec::new(), 0);
    for (number, length) in (1..).zip(lengths) {
        let body = Bytes::from(bytes(id + u64::from(number), *length));
        let upload = UploadRef::new(SOURCE, &key, &upload_id);
        let sent = fixture.memory.put_part(upload, number, body, &Digests::default()).await.unwrap();
        parts.push(CompletedPart { number, etag: sent.etag, checksum: sent.checksum });
        size += *length as u64;
    }
    let complete =
        CompleteUpload { bucket: SOURCE.into(), key: key.clone(), upload_id, parts, size, ..CompleteUpload::default() };
    let written = fixture.memory.complete_upload(&complete).await.unwrap();
    JobItem { id, target_key: format!("copy/{key}"), source_key: key, size, etag: written.etag, ..JobItem::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_that_the_etag_of_their_source_contradicts_never_arrive() {
    for target in [plain(), MemoryStore::new(10), plain().as_disk()] {
        let services = ServicePair::of(plain(), target);
        let items = [
            services.from.object(1, "small", b"small").await,
            services.from.object(2, "large", &bytes(2, 300)).await,
            of_parts(&services.from, 3, None, &[60, 60, 30]).await,
            of_parts(&services.from, 4, None, &[300, 300, 20]).await,
        ];
        for item in &items {
            spoil(&services.from, &item.source_key);
        }
        for verify in RULES {
            let outcomes = services.run(Policy { verify, ..streaming() }, items.to_vec()).await;

            for item in &items {
                assert_mismatch(&outcomes[&item.id]);
                assert_eq!(services.to.read(TARGET, &item.target_key).await, None, "{verify:?}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn both_sides_spoiled_alike_are_not_equal_contents() {
    let fixture = TransferFixture::of(plain());
    let items = vec![fixture.object(1, "small", b"small").await, of_parts(&fixture, 2, None, &[60, 60, 30]).await];
    fixture.run(policy(), items.clone()).await;
    fixture.store.rule(Rule::always("GetObject", Fault::Corrupt));

    let comparing = Policy { verify: VerificationRule::Content, compare_only: true, ..policy() };
    let compared = fixture.run(comparing, items.clone()).await;
    let again = Policy { verify: VerificationRule::Content, if_exists: IfExists::Overwrite, ..policy() };
    let copied = fixture.run(again, items).await;

    for id in [1, 2] {
        let failure = compared[&id].failure.as_ref().unwrap();
        assert_eq!(failure.code, "Differs", "{failure}");
        assert!(failure.message.contains("not what the source states"), "{failure}");
        assert_mismatch(&copied[&id]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_that_are_spoiled_on_their_way_to_the_target_are_a_mismatch() {
    for operation in ["PutObject", "UploadPart"] {
        let services = ServicePair::of(plain(), plain());
        let item = services.from.object(1, "k", &bytes(1, if operation == "PutObject" { 50 } else { 300 })).await;
        services.to.store.rule(Rule::always(operation, Fault::Corrupt));

        let outcomes = services.run(streaming(), vec![item.clone()]).await;

        assert_eq!(outcomes[&1].state, ObjectState::Failed, "{:?}", outcomes[&1]);
        assert_eq!(services.to.read(TARGET, &item.target_key).await, None);
        assert_eq!(services.to.store.count("GetObject"), 0);
        assert_eq!(services.to.open_uploads().await, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn etags_of_a_source_that_an_empty_object_shows_to_be_no_digests_are_no_evidence() {
    for (beside, state) in [("run/empty", ObjectState::Done), ("elsewhere/empty", ObjectState::Failed)] {
        let services = ServicePair::of(plain().with_salted_etags(), plain());
        services.from.object(9, beside, b"").await;
        let items =
            vec![services.from.object(1, "run/a", b"a").await, services.from.object(2, "run/b", &bytes(2, 300)).await];

        let outcomes = services.run(streaming(), items.clone()).await;

        for item in &items {
            assert_eq!(outcomes[&item.id].state, state, "{:?}", outcomes[&item.id]);
            if state == ObjectState::Done {
                assert_eq!(outcomes[&item.id].verified, VerificationLevel::Content);
                assert!(services.is_copied(item).await);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn etags_of_a_target_that_an_empty_part_shows_to_be_no_digests_are_no_evidence() {
    let services = ServicePair::of(plain(), plain().with_salted_etags());
    let small = services.from.object(1, "a", b"a").await;
    let items = vec![small.clone(), services.from.object(2, "b", &bytes(2, 300)).await];

    let outcomes = services.run(streaming(), items.clone()).await;
    let again = services.run(Policy { if_exists: IfExists::Overwrite, ..streaming() }, vec![small]).await;

    for item in &items {
        assert_eq!(outcomes[&item.id].verified, VerificationLevel::Content, "{:?}", outcomes[&item.id]);
        assert!(services.is_copied(item).await);
    }
    assert_eq!(again[&1].verified, VerificationLevel::Content);
    // The object in parts, and one probe.
    assert_eq!(services.to.store.count("CreateMultipartUpload"), 2);
    assert_eq!(services.to.open_uploads().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn parts_of_other_boundaries_than_the_first_suggests_are_no_contradiction() {
    let sha256 = Some((ChecksumAlgorithm::Sha256, ChecksumKind::Composite));
    let services = ServicePair::of(MemoryStore::new(10), MemoryStore::new(10));
    // As many parts as the first one suggests.
    let composite = of_parts(&services.from, 1, sha256, &[40, 30, 35]).await;
    let plain_pair = ServicePair::of(plain(), plain());
    let md5 = of_parts(&plain_pair.from, 1, None, &[40, 30, 35]).await;

    let by_checksum = services.run(streaming(), vec![composite.clone()]).await;
    let by_etag = plain_pair.run(streaming(), vec![md5.clone()]).await;

    for (pair, item, outcomes) in [(&services, composite, by_checksum), (&plain_pair, md5, by_etag)] {
        assert_eq!(outcomes[&1].state, ObjectState::Done, "{:?}", outcomes[&1]);
        assert!(pair.is_copied(&item).await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn etags_in_upper_case_are_the_same_digests() {
    let fixture = TransferFixture::of(plain());
    let item = fixture.object(1, "k", b"content").await;
    let verdict = |etag: &str| {
        let side = |etag| seqferry_transfer::verification::CopySide {
            size: Some(7),
            etag,
            opaque_etag: false,
            checksum: None,
        };
        seqferry_transfer::verification::compare(side(etag), side(&item.etag), false)
    };

    let expected = seqferry_transfer::verification::Verdict::Verified(VerificationLevel::Etag);

    assert_eq!(verdict(&item.etag.to_uppercase()), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_its_etag_contradicts_is_not_packed() {
    let fixture = TransferFixture::of(plain());
    let put = fixture.memory.put(SOURCE, "run/a", Bytes::from_static(b"member"), &Attributes::default()).await.unwrap();
    let member = JobItem {
        id: 1,
        source_key: "run/a".into(),
        target_key: "run.tar".into(),
        size: 6,
        etag: put.etag,
        ..JobItem::default()
    };
    spoil(&fixture, "run/a");
    let limits = seqferry_transfer::CopyLimits {
        minimum_part: 700,
        maximum_part: 20_000,
        maximum_object: 1 << 30,
        ..small_limits()
    };
    let packing = Policy { limits, data_path: DataPath::Stream, ..policy() };
    let connection = fixture.connection.clone();
    let spec = job(connection.clone(), connection, packing, vec![member]);
    let options = PackOptions { strip: "run/".into(), index: false };

    let packed =
        seqferry_transfer::Job::start_pack(&tokio::runtime::Handle::current(), fixture.scheduler(), spec, options);
    let outcomes = drain(packed).await.0;

    assert_mismatch(&outcomes[&1]);
    assert_eq!(fixture.read(TARGET, "run.tar").await, None);
}

/// Lengths of parts: the first one suggests another number of parts, or the right one of other lengths.
const UNEVEN: [&[usize]; 4] = [&[60, 50, 10], &[40, 30, 35], &[300, 40, 290, 20], &[30, 60, 60]];

#[tokio::test(flavor = "multi_thread")]
async fn digests_over_parts_of_uneven_lengths_are_evidence_as_well() {
    let sha256 = Some((ChecksumAlgorithm::Sha256, ChecksumKind::Composite));
    for checksum in [None, sha256] {
        for (to_disk, verify) in RULES.iter().flat_map(|verify| [(false, *verify), (true, *verify)]) {
            let from = if checksum.is_none() { plain() } else { MemoryStore::new(10) };
            let services = ServicePair::of(from, if to_disk { plain().as_disk() } else { plain() });
            let mut items = Vec::new();
            for (id, lengths) in (1..).zip(UNEVEN) {
                items.push(of_parts(&services.from, id, checksum, lengths).await);
            }
            let policy = Policy { verify, ..streaming() };

            let whole = services.run(policy.clone(), items.clone()).await;
            for item in &mut items {
                spoil(&services.from, &item.source_key);
                item.target_key = format!("again/{}", item.source_key);
            }
            let spoiled = services.run(policy, items.clone()).await;

            for item in &items {
                let (whole, spoiled) = (&whole[&item.id], &spoiled[&item.id]);
                assert_eq!(whole.state, ObjectState::Done, "{verify:?} {whole:?}");
                assert_ne!(whole.verified, VerificationLevel::Size, "{verify:?} {whole:?}");
                let failure = spoiled.failure.as_ref().map(|failure| failure.code.as_str());
                assert_eq!(failure, Some("ContentMismatch"), "{verify:?} {spoiled:?}");
                assert_eq!(services.to.read(TARGET, &item.target_key).await, None);
            }
        }
    }
}

fn packing(data_path: DataPath) -> Policy {
    let limits = seqferry_transfer::CopyLimits {
        minimum_part: 700,
        maximum_part: 20_000,
        stream_threshold: 100_000,
        stream_part_grown: 2000,
        maximum_object: 1 << 30,
        ..small_limits()
    };
    Policy { limits, data_path, ..policy() }
}

async fn pack(fixture: &TransferFixture, items: &[JobItem]) -> std::collections::HashMap<u64, ObjectOutcome> {
    let connection = fixture.connection.clone();
    let spec = job(connection.clone(), connection, packing(DataPath::Stream), items.to_vec());
    let options = PackOptions { strip: String::new(), index: false };
    let handle = tokio::runtime::Handle::current();
    drain(seqferry_transfer::Job::start_pack(&handle, fixture.scheduler(), spec, options)).await.0
}

async fn members_of_several_parts(fixture: &TransferFixture) -> Vec<JobItem> {
    let sha256 = Some((ChecksumAlgorithm::Sha256, ChecksumKind::Composite));
    let mut items = vec![
        fixture.object(1, "across", &bytes(1, 3000)).await,
        fixture.object(2, "small", &bytes(2, 10)).await,
        fixture.object(6, "long", &bytes(6, 9000)).await,
        of_parts(fixture, 10, None, &[2000, 2000, 2000, 700]).await,
        of_parts(fixture, 20, None, &[800, 700, 2000, 900]).await,
        of_parts(fixture, 30, sha256, &[2000, 2000, 500]).await,
        // They lie in one part of the archive, and are themselves of parts.
        of_parts(fixture, 40, None, &[100]).await,
        of_parts(fixture, 50, None, &[30, 70]).await,
    ];
    for item in &mut items {
        item.target_key = "run.tar".into();
    }
    items
}

#[tokio::test(flavor = "multi_thread")]
async fn members_in_several_parts_of_an_archive_are_compared_with_their_etag() {
    let fixture = TransferFixture::of(plain());
    let items = members_of_several_parts(&fixture).await;

    let outcomes = pack(&fixture, &items).await;

    for item in &items {
        let outcome = &outcomes[&item.id];
        assert_eq!((outcome.state, outcome.verified), (ObjectState::Done, VerificationLevel::Etag), "{outcome:?}");
    }
    assert_eq!(fixture.budget.memory_reserved(), 0, "buffer bytes leaked");
}

#[tokio::test(flavor = "multi_thread")]
async fn members_in_several_parts_that_their_etag_contradicts_are_not_packed() {
    for number in 0..8 {
        let fixture = TransferFixture::of(plain());
        let items = members_of_several_parts(&fixture).await;
        let spoiled = &items[number];
        spoil(&fixture, &spoiled.source_key);

        let outcomes = pack(&fixture, &items).await;

        assert_mismatch(&outcomes[&spoiled.id]);
        assert_eq!(fixture.read(TARGET, "run.tar").await, None);
        assert_eq!(fixture.open_uploads().await, 0);
        // A thread that hashes bytes when the job fails gives them back a moment later.
        let given_back = async {
            while fixture.budget.memory_reserved() > 0 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), given_back).await.expect("buffer bytes leaked");
    }
}
