//! Checks of copies by one request.

use bytes::Bytes;

use super::{Bench, attributes, md5_of, refused, sorted, tags, uploads};
use crate::ObjectWriteExt as _;
use seqferry_store::checksum::{ChecksumAlgorithm, crc64nvme};
use seqferry_store::error::ErrorClass;
use seqferry_store::{CopyTarget, ObjectRef, PinnedObject, WrittenObject};

async fn copy(bench: &Bench<'_>, source: &str, target: &str) -> WrittenObject {
    let answer = bench.store.copy(&bench.source(source), CopyTarget::new(bench.bucket, target)).await;
    answer.unwrap_or_else(|error| panic!("copy of {source:?}: {error}"))
}

pub(super) async fn attributes_and_tags_travel(bench: &Bench<'_>) {
    let (source, target) = (bench.key("source"), bench.key("target"));
    let (body, attributes) = (bench.bytes("body", 5000), attributes(bench.quirks));
    bench.store.put(bench.bucket, &source, body.clone(), &attributes).await.expect("written");
    bench.store.put_tags(ObjectRef::new(bench.bucket, &source), &tags()).await.expect("tagged");

    let written = copy(bench, &source, &target).await;

    let meta = bench.store.head(ObjectRef::new(bench.bucket, &target), None).await.expect("the copy");
    assert_eq!((written.etag.as_str(), meta.etag.as_str()), (md5_of(&body).as_str(), md5_of(&body).as_str()));
    assert_eq!((meta.size, meta.tag_count.unwrap_or_default() as usize), (5000, tags().len()));
    // S3 does not copy the redirect.
    let mut expected = attributes;
    expected.website_redirect = None;
    let mut copied = meta.attributes;
    copied.website_redirect = None;
    assert_eq!(copied, expected);
    assert_eq!(
        sorted(bench.store.get_tags(ObjectRef::new(bench.bucket, &target)).await.expect("tags")),
        sorted(tags())
    );
    assert_eq!(bench.get(&target).await, body);
}

pub(super) async fn copies_are_pinned(bench: &Bench<'_>) {
    let (source, target) = (bench.key("source"), bench.key("target"));
    let body = bench.put(&source).await;
    let pinned = PinnedObject { if_match: Some(md5_of(&body)), ..bench.source(&source) };

    bench.store.copy(&pinned, CopyTarget::new(bench.bucket, &target)).await.expect("the pin holds");

    bench.put_bytes(&source, Bytes::from_static(b"another")).await;
    let answer = bench.store.copy(&pinned, CopyTarget::new(bench.bucket, &target)).await;
    refused(answer, ErrorClass::Precondition, "a copy of what has changed");
    assert_eq!(bench.get(&target).await, body, "the copy made before is untouched");
}

pub(super) async fn sources_are_encoded(bench: &Bench<'_>) {
    let plain = ["a+b", "a%2Bb", "a?b=c", "a&b", "a#b", "a b", "\u{fc}\u{1f9ec}", "a=b;c:d@e,f$g!h*i'j(k)"];
    let keys = plain.iter().map(|key| (*key).to_owned()).chain(bench.quirks.keys.iter().cloned());
    let keys: Vec<String> = keys.collect::<std::collections::BTreeSet<_>>().into_iter().collect();
    for key in &keys {
        bench.put(&bench.key(&format!("from/{key}"))).await;
    }
    for key in &keys {
        let (from, to) = (bench.key(&format!("from/{key}")), bench.key(&format!("to/{key}")));
        copy(bench, &from, &to).await;
        assert_eq!(bench.get(&to).await, bench.bytes(&from, 100), "{key:?}");
    }
}

pub(super) async fn storage_classes_are_set(bench: &Bench<'_>) {
    let Some(class) = bench.quirks.storage_class else { return };
    let (source, target) = (bench.key("source"), bench.key("target"));
    bench.put(&source).await;

    bench
        .store
        .copy(
            &bench.source(&source),
            CopyTarget { storage_class: Some(class), ..CopyTarget::new(bench.bucket, &target) },
        )
        .await
        .expect("copied");
    let meta = bench.store.head(ObjectRef::new(bench.bucket, &target), None).await.expect("the copy");
    assert_eq!(meta.storage_class.as_deref(), Some(class));
    let listed = bench.list_all(seqferry_store::ListRequest { prefix: target.clone(), ..Default::default() }).await.0;
    assert_eq!(listed[0].storage_class.as_deref(), Some(class));

    if bench.quirks.copies_storage_class {
        return;
    }
    // The storage class is not copied: a copy gets the default class unless another is requested.
    let again = bench.key("again");
    copy(bench, &target, &again).await;
    let meta = bench.store.head(ObjectRef::new(bench.bucket, &again), None).await.expect("the copy");
    assert!(meta.storage_class.as_deref().is_none_or(|class| class == "STANDARD"), "{meta:?}");
}

pub(super) async fn a_copy_replaces_what_was_there(bench: &Bench<'_>) {
    let (source, target) = (bench.key("source"), bench.key("target"));
    let body = bench.put(&source).await;
    bench.store.put(bench.bucket, &target, bench.bytes("old", 9000), &attributes(bench.quirks)).await.expect("written");
    bench.store.put_tags(ObjectRef::new(bench.bucket, &target), &tags()).await.expect("tagged");

    copy(bench, &source, &target).await;

    let meta = bench.store.head(ObjectRef::new(bench.bucket, &target), None).await.expect("the copy");
    assert_eq!((meta.size, meta.tag_count.unwrap_or_default()), (100, 0));
    assert!(meta.attributes.metadata.is_empty(), "{:?}", meta.attributes);
    assert_eq!(bench.get(&target).await, body);
}

pub(super) async fn a_copy_of_parts_has_their_bytes(bench: &Bench<'_>) {
    let (source, target) = (bench.key("source"), bench.key("target"));
    let parts = uploads::two_parts(bench);
    let made = uploads::upload(bench, &source, &parts).await;

    let pinned = PinnedObject { if_match: Some(made.etag.clone()), ..bench.source(&source) };
    let written = bench.store.copy(&pinned, CopyTarget::new(bench.bucket, &target)).await.expect("copied");

    let body = parts.concat();
    let etag = if bench.quirks.copy_is_one_part { md5_of(&body) } else { made.etag };
    let meta = bench.store.head(ObjectRef::new(bench.bucket, &target), None).await.expect("the copy");
    assert_eq!((written.etag.as_str(), meta.etag.as_str()), (etag.as_str(), etag.as_str()));
    assert_eq!(bench.get(&target).await, body);
}

pub(super) async fn a_checksum_can_be_requested(bench: &Bench<'_>) {
    let (source, target) = (bench.key("source"), bench.key("target"));
    let body = bench.put(&source).await;

    let algorithm = Some(ChecksumAlgorithm::Crc64Nvme);
    bench
        .store
        .copy(&bench.source(&source), CopyTarget { checksum: algorithm, ..CopyTarget::new(bench.bucket, &target) })
        .await
        .expect("copied");

    let meta = bench.store.head(ObjectRef::new(bench.bucket, &target), None).await.expect("the copy");
    assert_eq!(
        meta.checksum.map(|sum| (sum.algorithm, sum.value)),
        Some((ChecksumAlgorithm::Crc64Nvme, crc64nvme(&body)))
    );
}

pub(super) async fn empty_objects_are_copied(bench: &Bench<'_>) {
    let (source, target) = (bench.key("source"), bench.key("target"));
    bench.put_bytes(&source, Bytes::new()).await;

    let written = copy(bench, &source, &target).await;

    assert_eq!(written.etag, md5_of(b""));
    assert_eq!(bench.get(&target).await, Bytes::new());
}
