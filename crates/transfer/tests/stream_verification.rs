//! Evidence of streamed bytes: which digest proves them, how it is named, and what is not copied because of it.

use crate::common::streams::{assert_done, item, memory, put, upload};
use crate::common::{SOURCE, ServicePair, bytes, streaming};
use seqferry_store::prelude::*;
use seqferry_store::{Attributes, ChecksumAlgorithm, ChecksumKind, ObjectRef};
use seqferry_store_testing::ObjectWriteExt as _;
use seqferry_transfer::{IfExists, ObjectState, Policy, VerificationLevel, VerificationRule};

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_evidence_is_used_and_named() {
    use ChecksumAlgorithm::{Crc32, Crc32C, Crc64Nvme, Sha1, Sha256};
    use ChecksumKind::{Composite, FullObject};
    let services = ServicePair::new();
    let mut items = Vec::new();
    let mut id = 0;
    for size in [1, 60, 333, 1000] {
        for algorithm in ChecksumAlgorithm::ALL {
            id += 1;
            items.push((put(&services.from, id, algorithm, &bytes(id, size)).await, algorithm, FullObject));
        }
        for (checksum, part_size) in [
            (Some((Crc64Nvme, FullObject)), 40),
            (Some((Crc32, FullObject)), 300),
            (Some((Crc32C, Composite)), 40),
            (Some((Sha256, Composite)), 60),
            // Too long to be read as one part: computed in order across several.
            (Some((Sha1, Composite)), 300),
        ] {
            id += 1;
            let (algorithm, kind) = checksum.unwrap();
            items.push((upload(&services.from, id, checksum, &bytes(id, size), part_size).await, algorithm, kind));
        }
    }

    let outcomes = services.run(streaming(), items.iter().map(|(item, ..)| item.clone()).collect()).await;

    for (item, algorithm, kind) in &items {
        let outcome = &outcomes[&item.id];
        assert_done(&services, item, outcome, VerificationLevel::Checksum).await;
        let kept = services.to.head(&item.target_key).await.checksum.unwrap();
        // The same algorithm on both sides, where it can be had: so that they can be compared later.
        if *kind == FullObject && (algorithm.supports_full_object() || item.size <= 100) {
            assert_eq!(kept.algorithm, *algorithm, "{outcome:?}");
        }
    }
    // Once everything is there it is known to be the same, by headers alone.
    let again = services.run(streaming(), items.iter().map(|(item, ..)| item.clone()).collect()).await;
    for (item, algorithm, kind) in items {
        if kind == FullObject && (algorithm.supports_full_object() || item.size <= 100) {
            assert_eq!(again[&item.id].state, ObjectState::Skipped, "{:?}", again[&item.id]);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn where_there_are_no_checksums_etags_prove_the_bytes() {
    let services = ServicePair::of(memory().without_checksums(), memory().without_checksums());
    let mut items = Vec::new();
    for (id, size) in (0..).zip([1, 99, 101, 500, 1234]) {
        items.push(services.from.object(id, &format!("plain{id}"), &bytes(id, size)).await);
    }
    for (id, part_size) in (10..).zip([40, 60, 300]) {
        items.push(upload(&services.from, id, None, &bytes(id, 777), part_size).await);
    }

    let outcomes = services.run(streaming(), items.clone()).await;

    for item in &items {
        assert_done(&services, item, &outcomes[&item.id], VerificationLevel::Etag).await;
    }
    // Parts that are the source's own give the target its ETag.
    assert_eq!(outcomes[&10].target_etag.as_ref(), Some(&items[5].etag));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nothing_proves_is_said_to_be_of_the_same_size_unless_more_is_asked_for() {
    for (verify, verified) in [
        (VerificationRule::Auto, VerificationLevel::Size),
        (VerificationRule::Checksum, VerificationLevel::Content),
        (VerificationRule::Content, VerificationLevel::Content),
    ] {
        let services = ServicePair::of(memory().without_checksums().with_odd_etags(), memory());
        let items =
            vec![services.from.object(1, "small", b"x").await, services.from.object(2, "large", &bytes(2, 300)).await];

        let outcomes = services.run(Policy { verify, ..streaming() }, items.clone()).await;

        for item in &items {
            assert_done(&services, item, &outcomes[&item.id], verified).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_is_read_once_and_its_checksums_are_the_targets() {
    let services = ServicePair::of(memory().as_disk(), memory());
    let items =
        vec![services.from.object(1, "small", b"x").await, services.from.object(2, "large", &bytes(2, 300)).await];

    let outcomes = services.run(streaming(), items.clone()).await;

    for item in &items {
        assert_done(&services, item, &outcomes[&item.id], VerificationLevel::Checksum).await;
        assert_eq!(outcomes[&item.id].checksum.as_ref().unwrap().algorithm, ChecksumAlgorithm::Crc64Nvme);
    }
    assert_eq!(services.from.store.count("GetObject"), 7);
    assert_eq!(services.from.store.count("GetObjectTagging"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_gets_the_time_of_the_object_and_rests_on_its_evidence() {
    let services = ServicePair::of(memory(), memory().as_disk());
    let timed = Attributes {
        metadata: [("mtime".to_owned(), "1700000000.123456789".to_owned())].into(),
        ..Attributes::default()
    };
    let body = bytes(1, 20);
    let written = services.from.memory.put(SOURCE, "timed", body.clone().into(), &timed).await.unwrap();
    let items = vec![
        item(1, "timed", &body, written.etag),
        services.from.object(2, "large", &bytes(2, 300)).await,
        upload(&services.from, 3, Some((ChecksumAlgorithm::Sha256, ChecksumKind::Composite)), &bytes(3, 200), 60).await,
    ];

    let outcomes = services.run(streaming(), items.clone()).await;

    for item in &items {
        assert_done(&services, item, &outcomes[&item.id], VerificationLevel::Checksum).await;
    }
    assert_eq!(services.to.head("copy/timed").await.attributes.metadata["mtime"], "1700000000.123456789");
    let made = services.from.memory.head(ObjectRef::new(SOURCE, "large"), None).await.unwrap().last_modified;
    let kept: f64 = services.to.head("copy/large").await.attributes.metadata["mtime"].parse().unwrap();
    assert!((made - kept).abs() < 0.001, "{made} {kept}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_of_the_same_size_and_time_is_the_same_and_is_not_read() {
    for disk_at_source in [true, false] {
        let (from, to) = if disk_at_source { (memory().as_disk(), memory()) } else { (memory(), memory().as_disk()) };
        let services = ServicePair::of(from, to);
        let items =
            vec![services.from.object(1, "small", b"x").await, services.from.object(2, "large", &bytes(2, 300)).await];
        for item in &items {
            // Not of the second in which it is downloaded.
            services.from.memory.backdate(SOURCE, &item.source_key, 10.0);
        }
        services.run(streaming(), items.clone()).await;
        let reads = services.from.store.count("GetObject") + services.to.store.count("GetObject");

        let again = services.run(streaming(), items.clone()).await;

        for outcome in again.values() {
            assert_eq!(
                (outcome.state, outcome.verified),
                (ObjectState::Skipped, VerificationLevel::Time),
                "{outcome:?}"
            );
        }
        assert_eq!(services.from.store.count("GetObject") + services.to.store.count("GetObject"), reads);
        // More than a time when more is requested: the file is read, the object is not.
        let checked = services.run(Policy { verify: VerificationRule::Checksum, ..streaming() }, items).await;
        for outcome in checked.values() {
            assert_eq!(
                (outcome.state, outcome.verified),
                (ObjectState::Skipped, VerificationLevel::Checksum),
                "{outcome:?}"
            );
        }
        let (disk, service) =
            if disk_at_source { (&services.from, &services.to) } else { (&services.to, &services.from) };
        let uploaded = if disk_at_source { 7 } else { 0 };
        assert_eq!(disk.store.count("GetObject"), uploaded + 2);
        assert_eq!(service.store.count("GetObject"), if disk_at_source { 0 } else { 7 });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_of_another_time_is_read_and_copied_only_when_its_bytes_differ() {
    let services = ServicePair::of(memory().as_disk(), memory());
    let items =
        vec![services.from.object(1, "same", &bytes(1, 300)).await, services.from.object(2, "other", b"old").await];
    services.run(streaming(), items).await;
    let touched =
        |time: &str| Attributes { metadata: [("mtime".to_owned(), time.to_owned())].into(), ..Attributes::default() };
    let mut items = Vec::new();
    for (id, key, body) in [(1, "same", bytes(1, 300)), (2, "other", b"new".to_vec())] {
        let written = services.from.memory.put(SOURCE, key, body.clone().into(), &touched("17.5")).await.unwrap();
        items.push(item(id, key, &body, written.etag));
    }

    let outcomes = services.run(streaming(), items.clone()).await;

    assert_eq!((outcomes[&1].state, outcomes[&1].verified), (ObjectState::Skipped, VerificationLevel::Checksum));
    assert_eq!(outcomes[&2].state, ObjectState::Done);
    assert!(services.is_copied(&items[1]).await);
    assert_eq!(services.to.head("copy/other").await.attributes.metadata["mtime"], "17.5");
}

#[tokio::test(flavor = "multi_thread")]
async fn services_that_refuse_a_checksum_get_an_older_one() {
    for (known, verified) in
        [(Some(ChecksumAlgorithm::Crc32C), VerificationLevel::Checksum), (None, VerificationLevel::Etag)]
    {
        let services = ServicePair::of(memory(), memory().with_checksums(known));
        let items = vec![
            services.from.object(1, "small", b"abc").await,
            services.from.object(2, "large", &bytes(2, 300)).await,
        ];

        let outcomes = services.run(streaming(), items.clone()).await;

        for item in &items {
            assert_done(&services, item, &outcomes[&item.id], verified).await;
        }
        assert_eq!(services.to.open_uploads().await, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_small_object_made_of_parts_is_known_again() {
    for part_size in [40, 80] {
        let services = ServicePair::of(memory().without_checksums(), memory().without_checksums());
        let item = upload(&services.from, 1, None, &bytes(1, 80), part_size).await;

        let first = services.run(streaming(), vec![item.clone()]).await;
        let second = services.run(Policy { if_exists: IfExists::Same, ..streaming() }, vec![item]).await;

        assert_eq!(first[&1].state, ObjectState::Done, "{first:?}");
        assert_eq!(
            (second[&1].state, second[&1].verified),
            (ObjectState::Skipped, VerificationLevel::Etag),
            "{second:?}"
        );
    }
}
