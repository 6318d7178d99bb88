//! Evidence for members and archives in the first pack of a process, which knows nothing of its service yet.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use seqferry_client::{Endpoint, RecordedUpload};
use seqferry_store::prelude::*;
use seqferry_store::{
    ChecksumAlgorithm, ChecksumKind, CompleteUpload, CompletedPart, CreateUpload, DigestAlgorithm, Digester, Digests,
    ObjectRef, PartInfo, PutObject, UploadRef, checksum::base64,
};
use seqferry_store_testing::MemoryStore;
use seqferry_store_testing::fault::{Fault, Latch, Rule};
use seqferry_transfer::{
    DataPath, IfExists, JobEvent, JobItem, ObjectOutcome, ObjectState, Policy, StopMode, VerificationLevel,
};

use crate::common::{SOURCE, TARGET, TransferFixture, bytes, drain};
use crate::pack::{ARCHIVE, expected, limits, member_with_sum, members, pack, packing, start};

fn store() -> MemoryStore {
    MemoryStore::new(700)
}

/// Verification levels of all members, which must be packed, by id.
fn levels(outcomes: &HashMap<u64, ObjectOutcome>) -> Vec<VerificationLevel> {
    let mut ids: Vec<u64> = outcomes.keys().copied().collect();
    ids.sort_unstable();
    assert!(outcomes.values().all(|outcome| outcome.state == ObjectState::Done), "{outcomes:?}");
    ids.iter().map(|id| outcomes[id].verified).collect()
}

#[tokio::test]
async fn an_archive_without_checksums_counts_by_its_etag_from_the_first_part_on() {
    for data_path in [DataPath::Copy, DataPath::Stream] {
        let fixture = TransferFixture::of(store().without_checksums());
        let items = members(&fixture, &[10, 500, 0, 1900, 2999]).await;

        let outcomes = pack(&fixture, Policy { data_path, ..packing() }, &items).await;

        assert_eq!(levels(&outcomes), [VerificationLevel::Etag; 5], "{data_path:?}");
    }
}

#[tokio::test]
async fn an_empty_member_counts_as_its_archive_does() {
    for (memory, level) in [
        (store(), VerificationLevel::Checksum),
        (store().without_checksums(), VerificationLevel::Etag),
        (store().without_checksums().with_opaque_etags(), VerificationLevel::Size),
    ] {
        let fixture = TransferFixture::of(memory);
        let items = members(&fixture, &[0, 0]).await;

        let outcomes = pack(&fixture, packing(), &items).await;

        assert_eq!(levels(&outcomes), [level; 2]);
    }
}

#[tokio::test]
async fn an_archive_that_may_not_be_looked_at_counts_by_what_its_completion_stated() {
    let fixture = TransferFixture::of(store());
    let items = members(&fixture, &[10, 500]).await;
    fixture.store.rule(Rule::always("HeadObject", Fault::Fail("AccessDenied", 403)).key(ARCHIVE));

    let outcomes = pack(&fixture, Policy { if_exists: IfExists::Overwrite, ..packing() }, &items).await;

    assert_eq!(levels(&outcomes), [VerificationLevel::Checksum; 2]);
}

/// Number of copies of parts, without the one byte of the trial.
fn copies(fixture: &TransferFixture) -> usize {
    let trial = u32::try_from(limits().maximum_parts).ok();
    let is_copy = |operation, part| operation == "UploadPartCopy" && part != trial;
    fixture.store.requests().iter().filter(|request| is_copy(request.operation, request.part)).count()
}

/// A member that was sent with this checksum, or with none.
async fn member_sent_with(fixture: &TransferFixture, id: u64, size: usize, sum: Option<ChecksumAlgorithm>) -> JobItem {
    let contents = Bytes::from(bytes(id, size));
    let digest = |algorithm| base64(&Digester::of(DigestAlgorithm::Checksum(algorithm), &contents));
    let digests = Digests { checksum: sum.map(|algorithm| (algorithm, digest(algorithm))), md5: None };
    let (bucket, key) = (SOURCE.to_owned(), format!("run/{id:03}.bin"));
    let object = PutObject { bucket, key, digests, ..PutObject::default() };
    let etag = fixture.memory.put_object(&object, contents).await.unwrap().etag;
    let (source_key, target_key) = (object.key, ARCHIVE.into());
    JobItem { id, source_key, target_key, size: size as u64, etag, ..JobItem::default() }
}

/// A member that is itself of parts, with a composite checksum by this algorithm or none.
async fn member_of_parts(fixture: &TransferFixture, id: u64, sum: Option<ChecksumAlgorithm>) -> JobItem {
    let (key, lengths) = (format!("run/{id:03}.parts"), [4000, 4000, 1000]);
    let checksum = sum.map(|algorithm| (algorithm, ChecksumKind::Composite));
    let upload = CreateUpload { bucket: SOURCE.into(), key: key.clone(), checksum, ..CreateUpload::default() };
    let upload_id = fixture.memory.create_upload(&upload).await.unwrap();
    let mut parts = Vec::new();
    for (number, length) in (1..).zip(lengths) {
        let body = Bytes::from(bytes(id + u64::from(number), length));
        let upload = UploadRef::new(SOURCE, &key, &upload_id);
        let sent = fixture.memory.put_part(upload, number, body, &Digests::default()).await.unwrap();
        parts.push(CompletedPart { number, etag: sent.etag, checksum: sent.checksum });
    }
    let complete = CompleteUpload { bucket: SOURCE.into(), key: key.clone(), upload_id, parts, ..Default::default() };
    let etag = fixture.memory.complete_upload(&complete).await.unwrap().etag;
    JobItem { id, source_key: key, target_key: ARCHIVE.into(), size: 9000, etag, ..JobItem::default() }
}

#[tokio::test]
async fn no_member_counts_by_size_whatever_the_service_states_of_copied_parts() {
    use VerificationLevel::{Checksum, Etag};
    for (name, memory, level, copied) in [
        ("as on AWS", store(), Checksum, true),
        ("encrypted", store().with_opaque_etags(), Checksum, true),
        ("without checksums", store().without_checksums(), Etag, false),
        ("checksums refused", store().with_checksums(None), Etag, false),
        ("checksums of whole sources", store().with_whole_checksums_of_parts(), Checksum, false),
        ("copies into checksums refused", store().requiring_part_checksums(), Checksum, false),
    ] {
        let fixture = TransferFixture::of(memory);
        let mut items = Vec::new();
        for (id, size) in [10, 30_000, 0, 513, 9000, 1, 3000, 800, 4000].into_iter().enumerate() {
            items.push(member_sent_with(&fixture, id as u64, size, None).await);
        }
        items.push(member_of_parts(&fixture, 9, None).await);
        let source = fixture.memory.head(ObjectRef::new(SOURCE, &items[9].source_key), None).await.unwrap();
        // Its source states what the service keeps of it.
        let of_parts = if source.checksum.is_some() { Checksum } else { Etag };
        let wanted = [[level; 9].as_slice(), &[level.weaker(of_parts)]].concat();

        let outcomes = pack(&fixture, packing(), &items).await;

        assert_eq!(levels(&outcomes), wanted, "{name}");
        assert_eq!(copies(&fixture) > 0, copied, "{name}");
        assert!(fixture.read(TARGET, ARCHIVE).await == Some(expected(&fixture, &items).await), "{name}");
        let crc = fixture.head(ARCHIVE).await.checksum.map(|sum| sum.kind);
        assert_eq!(crc, (level == Checksum).then_some(ChecksumKind::FullObject), "{name}");

        // The learned quirk holds for the next archive.
        let trials = fixture.store.count("UploadPartCopy") - copies(&fixture);
        let policy = Policy { if_exists: IfExists::Overwrite, ..packing() };
        assert_eq!(levels(&pack(&fixture, policy, &items).await), wanted, "{name}");
        assert_eq!(fixture.store.count("UploadPartCopy") - copies(&fixture), trials, "{name}");
    }
}

#[tokio::test]
async fn members_whose_source_states_no_crc_of_the_archive_are_read() {
    use ChecksumAlgorithm::{Crc32, Crc32C, Crc64Nvme, Sha1, Sha256};
    let fixture = TransferFixture::of(store());
    let mut items = Vec::new();
    for (id, sum) in [Crc64Nvme, Crc32C, Crc32, Sha256, Sha1].into_iter().enumerate() {
        items.push(member_with_sum(&fixture, id as u64, 9000, sum).await);
    }
    for (id, sum) in [(5, None), (6, Some(Crc32C)), (7, Some(Sha256))] {
        items.push(member_of_parts(&fixture, id, sum).await);
    }

    let outcomes = pack(&fixture, packing(), &items).await;

    assert_eq!(levels(&outcomes), [VerificationLevel::Checksum; 8]);
    let copied: BTreeSet<u64> = outcomes
        .values()
        .filter(|outcome| outcome.checksum.as_ref().is_some_and(|sum| sum.algorithm == Crc64Nvme))
        .map(|outcome| outcome.id)
        .collect();
    assert_eq!(copied, [0, 5].into(), "the others passed through this process, which computes CRC-32C");
    assert!(fixture.read(TARGET, ARCHIVE).await == Some(expected(&fixture, &items).await));
}

#[tokio::test]
async fn a_service_that_takes_crc_32c_alone_proves_copies_by_that() {
    let fixture = TransferFixture::of(store().with_checksums(Some(ChecksumAlgorithm::Crc32C)));
    let mut items = Vec::new();
    for (id, size) in [(0, 10), (1, 9000)] {
        items.push(member_sent_with(&fixture, id, size, Some(ChecksumAlgorithm::Crc32C)).await);
    }

    let outcomes = pack(&fixture, packing(), &items).await;

    assert_eq!(levels(&outcomes), [VerificationLevel::Checksum; 2]);
    assert!(copies(&fixture) > 0);
}

/// Numbers of the parts that are copied of an archive of these members.
async fn copied_parts(sizes: &[usize]) -> Vec<u32> {
    let fixture = TransferFixture::of(store());
    let items = members(&fixture, sizes).await;
    pack(&fixture, packing(), &items).await;
    let trial = u32::try_from(limits().maximum_parts).ok();
    let copies = fixture.store.requests().into_iter().filter(|request| request.operation == "UploadPartCopy");
    let mut parts: Vec<u32> = copies.filter(|copy| copy.part != trial).filter_map(|copy| copy.part).collect();
    parts.sort_unstable();
    parts
}

#[tokio::test]
async fn a_member_whose_copy_has_other_bytes_is_named_and_no_archive_is_made() {
    let sizes = [10, 30_000, 3000, 500, 9000];
    let parts = copied_parts(&sizes).await;
    assert!(parts.len() > 3, "{parts:?}");
    for part in parts {
        let fixture = TransferFixture::of(store());
        let items = members(&fixture, &sizes).await;
        fixture.store.rule(Rule::always("UploadPartCopy", Fault::Corrupt).part(part));

        let outcomes = pack(&fixture, packing(), &items).await;

        let failures: HashMap<u64, _> = outcomes.iter().map(|(id, end)| (*id, end.failure.as_ref().unwrap())).collect();
        let culprits: Vec<_> = failures.values().filter(|failure| failure.code == "ContentMismatch").collect();
        let [culprit] = culprits[..] else { panic!("{failures:?}") };
        assert!(culprit.message.contains("run/0") && culprit.message.contains("the parts of its copy"), "{culprit}");
        assert_eq!((culprit.operation, culprit.class.as_str()), ("UploadPartCopy", "mismatch"));
        assert!(fixture.read(TARGET, ARCHIVE).await.is_none());
    }
}

#[tokio::test]
async fn a_copy_that_went_wrong_once_is_made_again() {
    let fixture = TransferFixture::of(store());
    let items = members(&fixture, &[10, 30_000, 500]).await;
    // The first one is the trial's.
    fixture.store.rule(Rule::once("UploadPartCopy", Fault::Corrupt).after(1));

    let outcomes = pack(&fixture, packing(), &items).await;

    assert_eq!(levels(&outcomes), [VerificationLevel::Checksum; 3]);
    assert!(fixture.read(TARGET, ARCHIVE).await == Some(expected(&fixture, &items).await));
}

#[tokio::test]
async fn each_large_member_costs_one_look_and_each_process_one_trial() {
    let fixture = TransferFixture::of(store());
    let items = members(&fixture, &[10, 30_000, 500, 9000, 600]).await;

    pack(&fixture, packing(), &items).await;

    let looks = fixture.store.requests().into_iter().filter(|look| look.operation == "HeadObject");
    let mut looks: Vec<String> = looks.map(|look| look.key).filter(|key| key.starts_with("run/")).collect();
    looks.sort_unstable();
    assert_eq!(looks, ["run/001.bin", "run/003.bin"]);
    assert_eq!(fixture.store.count("UploadPartCopy"), copies(&fixture) + 1);
    assert_eq!(fixture.store.count("CreateMultipartUpload"), 2, "one of them is the trial's");
}

/// An upload as an earlier version began it, without a checksum, which holds the parts that `is_there` says.
async fn begun_by_earlier_version(
    fixture: &TransferFixture,
    items: &[JobItem],
    is_there: impl Fn(&PartInfo) -> bool,
) -> (RecordedUpload, Vec<PartInfo>) {
    // An archive of the same parts, up to its completion.
    let latch = Latch::default();
    fixture.store.rule(Rule::always("CompleteMultipartUpload", Fault::Hold(latch.clone())));
    let job = start(fixture, packing(), items.to_vec());
    // The first upload is that of the trial, and the second is recorded again before its completion.
    let mut recorded = Vec::new();
    tokio::task::block_in_place(|| {
        while recorded.len() < 3 {
            for event in job.wait(Duration::from_secs(5)) {
                let JobEvent::RecordUpload { id, upload } = event else { panic!("{event:?}") };
                recorded.push(upload);
                job.acknowledge(&[id]);
            }
        }
    });
    latch.reached().await;
    let recorded = recorded.swap_remove(1);
    let id = UploadRef::new(TARGET, ARCHIVE, &recorded.upload_id);
    let parts = fixture.memory.list_parts(id, None).await.unwrap().parts;
    let parts: Vec<PartInfo> =
        parts.into_iter().filter(|part| u64::from(part.number) < limits().maximum_parts).collect();
    job.stop(StopMode::Cancel);
    drain(job).await;
    fixture.store.clear_rules();

    let upload = CreateUpload { bucket: TARGET.into(), key: ARCHIVE.into(), ..CreateUpload::default() };
    let upload_id = fixture.memory.create_upload(&upload).await.unwrap();
    let (tar, mut at) = (expected(fixture, items).await, 0);
    for part in &parts {
        let end = at + usize::try_from(part.size).unwrap();
        if is_there(part) {
            let body = Bytes::copy_from_slice(&tar[at..end]);
            let id = UploadRef::new(TARGET, ARCHIVE, &upload_id);
            fixture.memory.put_part(id, part.number, body, &Digests::default()).await.unwrap();
        }
        at = end;
    }
    (RecordedUpload { upload_id, etag: None, ..recorded }, parts)
}

/// The items as a later run gets them, in a process that knows nothing of the service.
fn resumed(fixture: &mut TransferFixture, items: &[JobItem], upload: RecordedUpload) -> Vec<JobItem> {
    fixture.connection = Endpoint::new(Arc::clone(&fixture.store) as Arc<dyn ObjectStore>);
    let mut items = items.to_vec();
    items[0].upload = Some(upload);
    items
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_of_an_earlier_version_goes_on_and_its_copies_count_by_size() {
    for is_proven in [true, false] {
        let mut fixture = TransferFixture::of(store());
        let items = members(&fixture, &[10, 30_000, 500, 9000]).await;
        let (upload, parts) = begun_by_earlier_version(&fixture, &items, |part| part.number != 2).await;
        assert!(parts.len() > 4, "{parts:?}");
        if !is_proven {
            fixture.store.rule(Rule::always("HeadObject", Fault::Fail("AccessDenied", 403)).key("run/001.bin"));
        }
        let (creations, before) = (fixture.store.count("CreateMultipartUpload"), fixture.store.count("UploadPartCopy"));
        let items = resumed(&mut fixture, &items, upload);

        let outcomes = pack(&fixture, Policy { resumed: true, ..packing() }, &items).await;

        assert_eq!(levels(&outcomes), [VerificationLevel::Size; 4], "the other parts were sent by another process");
        assert_eq!(fixture.store.count("CreateMultipartUpload"), creations);
        assert_eq!(fixture.store.count("UploadPartCopy"), before + 1, "the missing part, and no trial");
        assert!(fixture.read(TARGET, ARCHIVE).await == Some(expected(&fixture, &items).await));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_of_an_earlier_version_without_a_part_is_begun_again() {
    for is_proven in [true, false] {
        let mut fixture = TransferFixture::of(store());
        let items = members(&fixture, &[10, 30_000, 500]).await;
        let (upload, _) = begun_by_earlier_version(&fixture, &items, |_| false).await;
        if !is_proven {
            fixture.store.rule(Rule::always("HeadObject", Fault::Fail("AccessDenied", 403)).key("run/001.bin"));
        }
        let before = copies(&fixture);
        let items = resumed(&mut fixture, &items, upload);

        let outcomes = pack(&fixture, Policy { resumed: true, ..packing() }, &items).await;

        assert_eq!(copies(&fixture) > before, is_proven);
        let level = if is_proven { VerificationLevel::Checksum } else { VerificationLevel::Size };
        assert_eq!(outcomes[&1].verified, level);
        assert!(fixture.read(TARGET, ARCHIVE).await == Some(expected(&fixture, &items).await));
    }
}
