//! Checks of single objects: writing, reading, facts, removal.

use bytes::Bytes;

use super::{Bench, attributes, collect, md5_of, refused, sorted, tags};
use crate::ObjectWriteExt as _;
use seqferry_store::checksum::{ChecksumAlgorithm, ChecksumKind, crc64nvme};
use seqferry_store::error::ErrorClass;
use seqferry_store::{Attributes, Digests, ObjectMeta, ObjectReadExt as _, ObjectRef, PinnedObject, PutObject, Range};

async fn head(bench: &Bench<'_>, key: &str) -> ObjectMeta {
    bench
        .store
        .head(ObjectRef::new(bench.bucket, key), None)
        .await
        .unwrap_or_else(|error| panic!("head {key:?}: {error}"))
}

pub(super) async fn what_is_put_is_read_back(bench: &Bench<'_>) {
    for size in [0, 1, 100, 65_536, 200_001] {
        let (key, body) = (bench.key(&format!("size-{size}")), bench.bytes("body", size));

        let written = bench.store.put(bench.bucket, &key, body.clone(), &Attributes::default()).await.expect("written");

        bench.check_etag(&written.etag, &md5_of(&body), &key);
        assert_eq!(written.etag, head(bench, &key).await.etag, "{size}");
        assert_eq!(bench.get(&key).await, body, "{size}");
    }
}

pub(super) async fn a_write_that_is_to_replace_nothing_replaces_nothing(bench: &Bench<'_>) {
    let (key, body) = (bench.key("object"), bench.bytes("body", 100));
    let object = PutObject {
        bucket: bench.bucket.to_owned(),
        key: key.clone(),
        digests: Digests::crc64nvme(&body),
        if_absent: true,
        ..PutObject::default()
    };
    bench.store.put_object(&object, body.clone()).await.expect("nothing was there");

    let other = bench.bytes("other", 100);
    let object = PutObject { digests: Digests::crc64nvme(&other), ..object };
    let error = bench.store.put_object(&object, other).await.expect_err("something is there");

    assert_eq!(error.class, ErrorClass::Precondition);
    assert_eq!(bench.get(&key).await, body);
}

pub(super) async fn a_write_that_is_to_replace_one_object_replaces_no_other(bench: &Bench<'_>) {
    if !bench.store.capabilities().conditions {
        return; // files have no condition like this
    }
    let (key, body) = (bench.key("object"), bench.bytes("body", 100));
    bench.put(&key).await;
    let seen = head(bench, &key).await.etag;
    let object = PutObject {
        bucket: bench.bucket.to_owned(),
        key: key.clone(),
        digests: Digests::crc64nvme(&body),
        if_match: Some(seen),
        ..PutObject::default()
    };
    bench.store.put_object(&object, body.clone()).await.expect("what was seen is there");

    let other = bench.bytes("other", 100);
    let late = PutObject { digests: Digests::crc64nvme(&other), ..object };
    let error = bench.store.put_object(&late, other.clone()).await.expect_err("something else is there");
    assert_eq!(error.class, ErrorClass::Precondition);
    assert_eq!(bench.get(&key).await, body);

    bench.store.delete(ObjectRef::new(bench.bucket, &key)).await.expect("removed");
    let error = bench.store.put_object(&late, other).await.expect_err("nothing is there");
    assert!(matches!(error.class, ErrorClass::Precondition | ErrorClass::NotFound), "{error}");
}

pub(super) async fn head_returns_facts_of_the_object(bench: &Bench<'_>) {
    let key = bench.key("object");
    let body = bench.put(&key).await;

    let meta = head(bench, &key).await;

    assert_eq!((meta.size, meta.etag), (100, md5_of(&body)));
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a clock").as_secs_f64();
    assert!((now - meta.last_modified).abs() < 3600.0, "modified at {}, now is {now}", meta.last_modified);
    let checksum = meta.checksum.expect("the checksum that it was put with");
    assert_eq!((checksum.algorithm, checksum.kind), (ChecksumAlgorithm::Crc64Nvme, ChecksumKind::FullObject));
    assert_eq!(checksum.value, crc64nvme(&body));
    assert!(meta.storage_class.is_none_or(|class| class == "STANDARD"));
    assert_eq!((meta.version_id, meta.parts_count, meta.missing_metadata), (None, None, 0));
    assert!(!meta.opaque_etag && !meta.archived);

    let first = bench
        .store
        .head(ObjectRef::new(bench.bucket, &key), Some(1))
        .await
        .expect("an object that was put whole is its own first part");
    assert_eq!(first.size, 100);
}

pub(super) async fn attributes_are_kept(bench: &Bench<'_>) {
    let (key, attributes) = (bench.key("object"), attributes(bench.quirks));

    bench.store.put(bench.bucket, &key, Bytes::from_static(b"body"), &attributes).await.expect("written");

    assert_eq!(head(bench, &key).await.attributes, attributes);
}

pub(super) async fn ranges_are_read(bench: &Bench<'_>) {
    let (key, body) = (bench.key("object"), bench.bytes("body", 100_000));
    bench.put_bytes(&key, body.clone()).await;

    for (first, last) in [(0, 0), (0, 99_999), (1, 65_536), (65_535, 65_536), (99_999, 99_999)] {
        let range = Range { first: first as u64, last: last as u64 };
        let read = bench.read(&bench.source(&key), Some(range)).await.expect("a range");

        assert_eq!(read, body.slice(first..=last), "{first}-{last}");
    }
}

pub(super) async fn ranges_outside_are_refused(bench: &Bench<'_>) {
    let (key, empty) = (bench.key("object"), bench.key("empty"));
    bench.put(&key).await;
    bench.put_bytes(&empty, Bytes::new()).await;

    for (key, first) in [(&key, 100), (&key, 5000), (&empty, 0)] {
        let answer = bench.read(&bench.source(key), Some(Range { first, last: first + 10 })).await;
        let error = refused(answer, ErrorClass::Object, "a range after the end");
        assert_eq!((error.code.as_str(), error.status), ("InvalidRange", bench.status(416)));
    }
    // A caller that knows the object never requests more bytes than there are: fewer bytes than requested are never a
    // success.
    let answer = bench.read(&bench.source(&key), Some(Range { first: 90, last: 200 })).await;
    answer.expect_err("a range beyond the end");
}

pub(super) async fn reads_are_pinned(bench: &Bench<'_>) {
    let key = bench.key("object");
    let body = bench.put(&key).await;
    let etag = head(bench, &key).await.etag;
    bench.check_etag(&etag, &md5_of(&body), &key);
    let pinned = PinnedObject { if_match: Some(etag), ..bench.source(&key) };

    let chunks = collect(bench.store.get(&pinned, None).await.expect("the pin holds")).await;
    assert_eq!(chunks.into_iter().map(|chunk| chunk.expect("a chunk").len()).sum::<usize>(), 100);

    bench.put_bytes(&key, Bytes::from_static(b"another")).await;
    for range in [None, Some(Range { first: 0, last: 3 })] {
        let error = refused(bench.read(&pinned, range).await, ErrorClass::Precondition, "a read of what has changed");
        assert_eq!(error.status, bench.status(412));
    }
}

pub(super) async fn an_overwrite_replaces_all(bench: &Bench<'_>) {
    let key = bench.key("object");
    bench.store.put(bench.bucket, &key, bench.bytes("old", 5000), &attributes(bench.quirks)).await.expect("written");
    bench.store.put_tags(ObjectRef::new(bench.bucket, &key), &tags()).await.expect("tagged");

    let body = bench.put(&key).await;

    let meta = head(bench, &key).await;
    assert_eq!((meta.size, meta.tag_count.unwrap_or_default()), (100, 0));
    assert!(meta.attributes.metadata.is_empty() && meta.attributes.content_encoding.is_none(), "{:?}", meta.attributes);
    assert_eq!(bench.get(&key).await, body);
}

pub(super) async fn deletion_is_repeatable(bench: &Bench<'_>) {
    let key = bench.key("object");
    bench.put(&key).await;

    for _ in 0..2 {
        bench.store.delete(ObjectRef::new(bench.bucket, &key)).await.expect("deleted, or not there");
        refused(
            bench.store.head(ObjectRef::new(bench.bucket, &key), None).await,
            ErrorClass::NotFound,
            "a deleted object",
        );
    }
    bench
        .store
        .delete(ObjectRef::new(bench.bucket, &bench.key("never-was")))
        .await
        .expect("an absent object counts as deleted");
}

pub(super) async fn tags_are_replaced(bench: &Bench<'_>) {
    let key = bench.key("object");
    bench.put(&key).await;
    assert_eq!(bench.store.get_tags(ObjectRef::new(bench.bucket, &key)).await.expect("no tags"), []);

    let other = vec![("only".to_owned(), "one".to_owned())];
    for set in [tags(), other, Vec::new()] {
        bench.store.put_tags(ObjectRef::new(bench.bucket, &key), &set).await.expect("tagged");

        assert_eq!(
            sorted(bench.store.get_tags(ObjectRef::new(bench.bucket, &key)).await.expect("tags")),
            sorted(set.clone())
        );
        assert_eq!(head(bench, &key).await.tag_count.unwrap_or_default() as usize, set.len());
    }
}

pub(super) async fn odd_keys_are_kept(bench: &Bench<'_>) {
    let keys: Vec<String> = bench.quirks.keys.iter().map(|key| bench.key(key)).collect();
    // All objects are written before any is read, so that no object can have replaced another unnoticed.
    for key in &keys {
        bench.put(key).await;
    }
    for key in &keys {
        assert_eq!(bench.get(key).await, bench.bytes(key, 100), "{key:?}");
        assert_eq!(head(bench, key).await.size, 100, "{key:?}");
        bench
            .store
            .put_tags(ObjectRef::new(bench.bucket, key), &tags()[..1])
            .await
            .unwrap_or_else(|error| panic!("tags of {key:?}: {error}"));
        assert_eq!(
            bench.store.get_tags(ObjectRef::new(bench.bucket, key)).await.expect("tags"),
            tags()[..1],
            "{key:?}"
        );
    }
    for key in &keys {
        bench
            .store
            .delete(ObjectRef::new(bench.bucket, key))
            .await
            .unwrap_or_else(|error| panic!("delete {key:?}: {error}"));
        refused(bench.store.head(ObjectRef::new(bench.bucket, key), None).await, ErrorClass::NotFound, key);
    }
}
