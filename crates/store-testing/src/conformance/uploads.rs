//! Checks of multipart uploads, with copied and with sent parts.

use bytes::Bytes;
use futures::StreamExt as _;

use super::{Bench, CopiedPartChecksums, attributes, composite_etag, md5_of, refused, sorted, tags};
use seqferry_store::Result;
use seqferry_store::checksum::{Checksum, ChecksumAlgorithm, ChecksumKind, crc64nvme};
use seqferry_store::error::classify::code;
use seqferry_store::error::{ErrorClass, StoreError};
use seqferry_store::{
    CompleteUpload, CompletedPart, CreateUpload, Digests, ObjectRef, PartInfo, PinnedObject, Range, UploadRef,
    WrittenObject, WrittenPart,
};

const ALGORITHM: ChecksumAlgorithm = ChecksumAlgorithm::Crc64Nvme;

/// The smallest upload of more than one part.
pub(super) fn two_parts(bench: &Bench<'_>) -> Vec<Bytes> {
    vec![bench.bytes("first part", bench.quirks.minimum_part), bench.bytes("second part", 1000)]
}

fn creation(bench: &Bench<'_>, key: &str) -> CreateUpload {
    CreateUpload {
        bucket: bench.bucket.to_owned(),
        key: key.to_owned(),
        checksum: Some((ALGORITHM, ChecksumKind::FullObject)),
        part_size: bench.quirks.minimum_part as u64,
        ..CreateUpload::default()
    }
}

async fn create(bench: &Bench<'_>, key: &str) -> String {
    let id = bench.store.create_upload(&creation(bench, key)).await;
    let id = id.unwrap_or_else(|error| panic!("create an upload of {key:?}: {error}"));
    assert!(!id.is_empty());
    id
}

async fn send(bench: &Bench<'_>, key: &str, id: &str, number: u32, body: &Bytes) -> CompletedPart {
    let WrittenPart { etag, checksum, .. } = bench
        .store
        .put_part(UploadRef::new(bench.bucket, key, id), number, body.clone(), &Digests::crc64nvme(body))
        .await
        .expect("a part");
    bench.check_etag(&etag, &md5_of(body), key);
    assert_eq!(checksum, Some(crc64nvme(body)));
    CompletedPart { number, etag, checksum }
}

fn completion(bench: &Bench<'_>, key: &str, id: &str, parts: Vec<CompletedPart>, body: &[Bytes]) -> CompleteUpload {
    let whole = Checksum { algorithm: ALGORITHM, value: crc64nvme(&body.concat()), kind: ChecksumKind::FullObject };
    CompleteUpload {
        bucket: bench.bucket.to_owned(),
        key: key.to_owned(),
        upload_id: id.to_owned(),
        parts,
        size: body.iter().map(|part| part.len() as u64).sum(),
        checksum: Some(ALGORITHM),
        whole: Some(whole),
        if_absent: false,
        if_match: None,
    }
}

pub(super) async fn a_completion_that_is_to_replace_nothing_replaces_nothing(bench: &Bench<'_>) {
    let (key, body) = (bench.key("object"), [bench.bytes("part", 100)]);
    for there in [false, true] {
        let id = create(bench, &key).await;
        let part = send(bench, &key, &id, 1, &body[0]).await;
        let completion = CompleteUpload { if_absent: true, ..completion(bench, &key, &id, vec![part], &body) };

        let completed = bench.store.complete_upload(&completion).await;

        if there {
            assert_eq!(completed.expect_err("something is there").class, ErrorClass::Precondition);
            abort(bench, &key, &id).await;
        } else {
            completed.expect("nothing was there");
            bench.put(&key).await;
        }
    }
    assert_ne!(bench.get(&key).await, body[0], "what had come meanwhile");
}

pub(super) async fn a_completion_that_is_to_replace_one_object_replaces_no_other(bench: &Bench<'_>) {
    if !bench.store.capabilities().conditions {
        return; // files have no condition like this
    }
    let (key, body) = (bench.key("object"), [bench.bytes("part", 100)]);
    bench.put(&key).await;
    let seen = bench.store.head(ObjectRef::new(bench.bucket, &key), None).await.expect("there").etag;
    for changed in [true, false] {
        let id = create(bench, &key).await;
        let part = send(bench, &key, &id, 1, &body[0]).await;
        let if_match = Some(if changed { md5_of(b"something else") } else { seen.clone() });
        let completion = CompleteUpload { if_match, ..completion(bench, &key, &id, vec![part], &body) };

        let completed = bench.store.complete_upload(&completion).await;

        if changed {
            assert_eq!(completed.expect_err("something else is there").class, ErrorClass::Precondition);
            abort(bench, &key, &id).await;
        } else {
            completed.expect("what was seen is there");
        }
    }
    assert_eq!(bench.get(&key).await, body[0]);
}

/// Makes an object of sent parts.
pub(super) async fn upload(bench: &Bench<'_>, key: &str, body: &[Bytes]) -> WrittenObject {
    let id = create(bench, key).await;
    let mut parts = Vec::new();
    for (number, part) in (1..).zip(body) {
        parts.push(send(bench, key, &id, number, part).await);
    }
    bench.store.complete_upload(&completion(bench, key, &id, parts, body)).await.expect("completed")
}

async fn abort(bench: &Bench<'_>, key: &str, id: &str) {
    bench.store.abort_upload(UploadRef::new(bench.bucket, key, id)).await.expect("aborted");
}

/// The ids of open uploads of a key or prefix.
async fn open_uploads(bench: &Bench<'_>, prefix: &str) -> Vec<(String, String)> {
    let uploads = bench.store.list_uploads(bench.bucket, prefix).await.expect("uploads");
    uploads.into_iter().map(|upload| (upload.key, upload.upload_id)).collect()
}

async fn listed_parts(bench: &Bench<'_>, key: &str, id: &str, mut after: Option<u32>) -> Vec<PartInfo> {
    let mut parts = Vec::new();
    for _ in 0..100 {
        let page = bench.store.list_parts(UploadRef::new(bench.bucket, key, id), after).await.expect("a page of parts");
        parts.extend(page.parts);
        if page.next.is_none() {
            return parts;
        }
        after = page.next;
    }
    panic!("the list of parts does not end");
}

/// Checks an object of parts against all known facts.
async fn check_object(bench: &Bench<'_>, key: &str, written: &WrittenObject, body: &[Bytes]) {
    let whole: Bytes = body.concat().into();
    let meta = bench.store.head(ObjectRef::new(bench.bucket, key), None).await.expect("the object");
    bench.check_etag(&meta.etag, &composite_etag(body), key);
    assert_eq!(written.etag, meta.etag);
    assert_eq!(meta.size, whole.len() as u64);
    if !bench.quirks.digests {
        assert_eq!(bench.get(key).await, whole);
        return;
    }
    let sum = meta.checksum.expect("a checksum over the object");
    assert_eq!((sum.algorithm, sum.kind, sum.value), (ALGORITHM, ChecksumKind::FullObject, crc64nvme(&whole)));
    for (number, part) in (1..).zip(body) {
        let meta = bench.store.head(ObjectRef::new(bench.bucket, key), Some(number)).await.expect("a part");
        assert_eq!(meta.size, part.len() as u64, "part {number}");
        assert_eq!(meta.parts_count.map(|count| count as usize), Some(body.len()), "part {number}");
    }
    assert_eq!(bench.get(key).await, whole);
}

pub(super) async fn parts_are_sent(bench: &Bench<'_>) {
    let (key, body) = (bench.key("object"), two_parts(bench));

    let written = upload(bench, &key, &body).await;

    check_object(bench, &key, &written, &body).await;

    // A single part may be of any size, and its object has a multipart `ETag`.
    let (key, body) = (bench.key("lone"), vec![bench.bytes("lone", 10)]);
    let written = upload(bench, &key, &body).await;
    check_object(bench, &key, &written, &body).await;
}

pub(super) async fn parts_come_in_pieces(bench: &Bench<'_>) {
    let (key, body) = (bench.key("object"), two_parts(bench));
    let id = create(bench, &key).await;
    let stream = async |number: u32, size: usize, pieces: Vec<Result<Bytes>>| {
        let pieces = seqferry_store::Body::from_stream(futures::stream::iter(pieces).boxed());
        bench.store.stream_part(UploadRef::new(bench.bucket, &key, &id), number, size as u64, pieces).await
    };
    let whole = |part: &Bytes| -> Vec<Result<Bytes>> {
        let pieces: Vec<Bytes> = part.chunks(300_001).map(Bytes::copy_from_slice).collect();
        pieces.into_iter().map(Ok).collect()
    };
    let broken = StoreError::new("GetObject", "elsewhere", Some("source"), code::TRUNCATED, Some(200));

    // A part whose bytes do not all arrive is not stored at all.
    let mut pieces = whole(&body[0]);
    *pieces.last_mut().expect("a piece") = Err(broken.clone());
    let answer = refused(stream(1, body[0].len(), pieces).await, ErrorClass::Retry, "a body that breaks");
    assert_eq!((answer.operation, answer.code), (broken.operation, broken.code), "the error of the body itself");
    let short = body[1].slice(1..);
    for (size, pieces) in [(body[1].len(), whole(&short)), (short.len(), whole(&body[1]))] {
        refused(stream(2, size, pieces).await, ErrorClass::Retry, "another length");
    }
    assert!(listed_parts(bench, &key, &id, None).await.is_empty());

    let mut parts = Vec::new();
    for (number, part) in (1..).zip(&body) {
        let WrittenPart { etag, checksum, .. } = stream(number, part.len(), whole(part)).await.expect("a part");
        bench.check_etag(&etag, &md5_of(part), &key);
        assert_eq!(checksum, Some(crc64nvme(part)));
        parts.push(CompletedPart { number, etag, checksum });
    }
    let written = bench.store.complete_upload(&completion(bench, &key, &id, parts, &body)).await.expect("completed");
    check_object(bench, &key, &written, &body).await;
}

pub(super) async fn parts_are_copied(bench: &Bench<'_>) {
    let (source, target) = (bench.key("source"), bench.key("target"));
    let body = two_parts(bench);
    bench.put_bytes(&source, body.concat().into()).await;
    let pinned = PinnedObject { if_match: Some(md5_of(&body.concat())), ..bench.source(&source) };
    let checked = bench.quirks.copied_part_checksums != CopiedPartChecksums::Wrong;
    let creation = creation(bench, &target);
    let creation = CreateUpload { checksum: creation.checksum.filter(|_| checked), ..creation };
    let id = bench.store.create_upload(&creation).await.expect("created");

    let (mut parts, mut first) = (Vec::new(), 0);
    for (number, part) in (1..).zip(&body) {
        let range = Range { first, last: first + part.len() as u64 - 1 };
        first += part.len() as u64;
        let copied = bench
            .store
            .copy_part(&pinned, range, UploadRef::new(bench.bucket, &target, &id), number)
            .await
            .expect("a copied part");
        assert_eq!(copied.etag, md5_of(part), "with a checksum to compute, the service reads the bytes");
        if bench.quirks.copied_part_checksums == CopiedPartChecksums::Right {
            assert_eq!(copied.checksum, Some(crc64nvme(part)), "part {number}");
        }
        parts.push(CompletedPart { number, etag: copied.etag, checksum: copied.checksum.filter(|_| checked) });
    }
    for (part, info) in body.iter().zip(listed_parts(bench, &target, &id, None).await) {
        assert_eq!((info.size, info.etag), (part.len() as u64, md5_of(part)));
    }
    let completion = completion(bench, &target, &id, parts, &body);
    let completion = CompleteUpload { whole: completion.whole.filter(|_| checked), ..completion };
    let written = bench.store.complete_upload(&completion).await.expect("completed");

    check_object(bench, &target, &written, &body).await;
}

pub(super) async fn what_was_requested_at_creation_is_kept(bench: &Bench<'_>) {
    let (key, body) = (bench.key("object"), vec![bench.bytes("body", 100)]);
    let creation = CreateUpload {
        attributes: attributes(bench.quirks),
        tags: tags(),
        storage_class: bench.quirks.storage_class.map(str::to_owned),
        ..creation(bench, &key)
    };
    let id = bench.store.create_upload(&creation).await.expect("created");
    let part = send(bench, &key, &id, 1, &body[0]).await;

    bench.store.complete_upload(&completion(bench, &key, &id, vec![part], &body)).await.expect("completed");

    let meta = bench.store.head(ObjectRef::new(bench.bucket, &key), None).await.expect("the object");
    assert_eq!(meta.attributes, creation.attributes);
    assert_eq!(meta.tag_count.unwrap_or_default() as usize, tags().len());
    assert_eq!(sorted(bench.store.get_tags(ObjectRef::new(bench.bucket, &key)).await.expect("tags")), sorted(tags()));
    if bench.quirks.storage_class.is_some() {
        assert_eq!(meta.storage_class.as_deref(), bench.quirks.storage_class);
    }
}

pub(super) async fn parts_are_listed_by_number(bench: &Bench<'_>) {
    let key = bench.key("object");
    let id = create(bench, &key).await;
    assert_eq!(listed_parts(bench, &key, &id, None).await, []);

    // The parts are sent out of order and with gaps, and 10 comes after 9.
    let numbers = [12, 2, 10, 1, 9, 11, 10_000, 3];
    let body = |number: u32| bench.bytes(&format!("part {number}"), 10 + number as usize);
    for number in numbers {
        send(bench, &key, &id, number, &body(number)).await;
    }

    let checked = bench.quirks.listed_parts_have_checksums;
    let expected: Vec<PartInfo> = sorted(numbers.to_vec())
        .into_iter()
        .map(|number| {
            let body = body(number);
            PartInfo {
                number,
                size: body.len() as u64,
                etag: md5_of(&body),
                checksum: checked.then(|| crc64nvme(&body)),
            }
        })
        .collect();
    assert_eq!(listed_parts(bench, &key, &id, None).await, expected);
    for after in [1, 3, 5, 9, 12, 10_000] {
        let rest: Vec<PartInfo> = expected.iter().filter(|part| part.number > after).cloned().collect();
        assert_eq!(listed_parts(bench, &key, &id, Some(after)).await, rest, "after {after}");
    }
    abort(bench, &key, &id).await;
}

pub(super) async fn a_part_sent_again_replaces_the_first(bench: &Bench<'_>) {
    let (key, body) = (bench.key("object"), vec![bench.bytes("second try", 500)]);
    let id = create(bench, &key).await;
    let stale = send(bench, &key, &id, 1, &bench.bytes("first try", 700)).await;

    let part = send(bench, &key, &id, 1, &body[0]).await;

    let listed = listed_parts(bench, &key, &id, None).await;
    if bench.quirks.forgets_replaced_parts {
        assert_eq!(listed.iter().map(|part| (part.number, part.size)).collect::<Vec<_>>(), [(1, 500)]);
        let answer = bench.store.complete_upload(&completion(bench, &key, &id, vec![stale], &body)).await;
        refused(answer, ErrorClass::Object, "a part that was replaced");
    }
    let written =
        bench.store.complete_upload(&completion(bench, &key, &id, vec![part], &body)).await.expect("completed");
    check_object(bench, &key, &written, &body).await;
}

pub(super) async fn the_old_object_stays_until_completion(bench: &Bench<'_>) {
    let (key, body) = (bench.key("object"), vec![bench.bytes("new", 500)]);
    let old = bench.put(&key).await;
    let id = create(bench, &key).await;
    let part = send(bench, &key, &id, 1, &body[0]).await;

    assert_eq!(bench.get(&key).await, old);
    assert_eq!(bench.keys().await, std::slice::from_ref(&key), "parts are not listed");
    bench.store.complete_upload(&completion(bench, &key, &id, vec![part], &body)).await.expect("completed");
    assert_eq!(bench.get(&key).await, body[0]);
}

pub(super) async fn part_copies_are_pinned(bench: &Bench<'_>) {
    let (source, target) = (bench.key("source"), bench.key("target"));
    let body = bench.bytes("body", bench.quirks.minimum_part + 10);
    bench.put_bytes(&source, body.clone()).await;
    let pinned = PinnedObject { if_match: Some(md5_of(&body)), ..bench.source(&source) };
    let id = create(bench, &target).await;
    let range = Range { first: 0, last: 99 };
    bench.store.copy_part(&pinned, range, UploadRef::new(bench.bucket, &target, &id), 1).await.expect("the pin holds");

    bench.put_bytes(&source, bench.bytes("another", bench.quirks.minimum_part + 10)).await;

    let answer = bench.store.copy_part(&pinned, range, UploadRef::new(bench.bucket, &target, &id), 2).await;
    refused(answer, ErrorClass::Precondition, "a part copy of what has changed");
    abort(bench, &target, &id).await;
}

pub(super) async fn small_parts_are_refused(bench: &Bench<'_>) {
    let (key, body) = (bench.key("object"), vec![bench.bytes("a", 100), bench.bytes("b", 100)]);
    let id = create(bench, &key).await;
    let parts = vec![send(bench, &key, &id, 1, &body[0]).await, send(bench, &key, &id, 2, &body[1]).await];

    let answer = bench.store.complete_upload(&completion(bench, &key, &id, parts, &body)).await;

    assert_eq!(refused(answer, ErrorClass::Object, "a small part").code, "EntityTooSmall");
    refused(
        bench.store.head(ObjectRef::new(bench.bucket, &key), None).await,
        ErrorClass::NotFound,
        "an object that was not made",
    );
    abort(bench, &key, &id).await;
}

pub(super) async fn unknown_parts_are_refused(bench: &Bench<'_>) {
    let (key, body) = (bench.key("object"), vec![bench.bytes("a", 100)]);
    let id = create(bench, &key).await;
    let part = send(bench, &key, &id, 1, &body[0]).await;

    for wrong in [CompletedPart { number: 2, ..part.clone() }, CompletedPart { etag: md5_of(b"other"), ..part.clone() }]
    {
        let answer = bench.store.complete_upload(&completion(bench, &key, &id, vec![wrong], &body)).await;
        refused(answer, ErrorClass::Object, "a part that is not there");
    }
    refused(
        bench.store.head(ObjectRef::new(bench.bucket, &key), None).await,
        ErrorClass::NotFound,
        "an object that was not made",
    );
    abort(bench, &key, &id).await;
}

pub(super) async fn a_wrong_size_is_refused(bench: &Bench<'_>) {
    let (key, body) = (bench.key("object"), vec![bench.bytes("a", 100)]);
    let id = create(bench, &key).await;
    let part = send(bench, &key, &id, 1, &body[0]).await;
    let wrong = CompleteUpload { size: 101, ..completion(bench, &key, &id, vec![part], &body) };

    let answer = bench.store.complete_upload(&wrong).await;

    if bench.quirks.checks_size {
        refused(answer, ErrorClass::Object, "another size");
        let absent = bench.store.head(ObjectRef::new(bench.bucket, &key), None).await;
        refused(absent, ErrorClass::NotFound, "an object that was not made");
        abort(bench, &key, &id).await;
    }
}

pub(super) async fn a_wrong_whole_checksum_is_refused(bench: &Bench<'_>) {
    let (key, body) = (bench.key("object"), vec![bench.bytes("a", 100)]);
    let id = create(bench, &key).await;
    let part = send(bench, &key, &id, 1, &body[0]).await;
    let other = [bench.bytes("b", 100)];
    let wrong = completion(bench, &key, &id, vec![part.clone()], &other);

    let answer = bench.store.complete_upload(&wrong).await;

    if bench.quirks.checks_whole {
        // Another attempt could not correct the mismatch.
        refused(answer, ErrorClass::Object, "another checksum");
        let absent = bench.store.head(ObjectRef::new(bench.bucket, &key), None).await;
        refused(absent, ErrorClass::NotFound, "an object that was not made");
        let right = completion(bench, &key, &id, vec![part], &body);
        bench.store.complete_upload(&right).await.expect("the upload is still there");
    }
}

pub(super) async fn uploads_are_listed_until_they_end(bench: &Bench<'_>) {
    let (one, two) = (bench.key("one"), bench.key("two"));
    let began = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a clock").as_secs_f64();
    let ids = [create(bench, &one).await, create(bench, &one).await, create(bench, &two).await];
    assert!(ids[0] != ids[1], "two uploads of a key are two");
    let [first, second, third] = ids.clone();

    let all = vec![(one.clone(), first.clone()), (one.clone(), second.clone()), (two.clone(), third.clone())];
    assert_eq!(sorted(open_uploads(bench, &bench.prefix).await), sorted(all.clone()));
    assert_eq!(sorted(open_uploads(bench, &one).await), sorted(all[..2].to_vec()));
    assert_eq!(open_uploads(bench, &bench.key("three")).await, []);
    for upload in bench.store.list_uploads(bench.bucket, &bench.prefix).await.expect("uploads") {
        assert!((upload.initiated - began).abs() < 3600.0, "begun at {}, now is {began}", upload.initiated);
    }

    abort(bench, &one, &second).await;
    let body = [bench.bytes("a", 10)];
    let part = send(bench, &one, &first, 1, &body[0]).await;
    bench.store.complete_upload(&completion(bench, &one, &first, vec![part], &body)).await.expect("completed");
    assert_eq!(open_uploads(bench, &bench.prefix).await, [(two.clone(), third.clone())]);
    abort(bench, &two, &third).await;
    assert_eq!(open_uploads(bench, &bench.prefix).await, []);
}

pub(super) async fn an_aborted_upload_is_gone(bench: &Bench<'_>) {
    let (key, body) = (bench.key("object"), vec![bench.bytes("a", 10)]);
    let id = create(bench, &key).await;
    let part = send(bench, &key, &id, 1, &body[0]).await;

    abort(bench, &key, &id).await;

    let (store, bucket, gone) = (bench.store, bench.bucket, ErrorClass::NotFound);
    refused(store.head(ObjectRef::new(bucket, &key), None).await, gone, "an object that was not made");
    let again = store.abort_upload(UploadRef::new(bucket, &key, &id)).await;
    let again = bench.quirks.abort_reports_absence.then(|| refused(again, gone, "abort"));
    let errors = [
        refused(store.list_parts(UploadRef::new(bucket, &key, &id), None).await, gone, "list parts"),
        refused(
            store.put_part(UploadRef::new(bucket, &key, &id), 2, body[0].clone(), &Digests::default()).await,
            gone,
            "send a part",
        ),
        refused(store.complete_upload(&completion(bench, &key, &id, vec![part], &body)).await, gone, "complete"),
    ];
    for error in errors.into_iter().chain(again) {
        assert_eq!((error.code.as_str(), error.status), ("NoSuchUpload", bench.status(404)), "{error:?}");
    }
}

pub(super) async fn odd_keys_are_uploaded(bench: &Bench<'_>) {
    for key in &bench.quirks.keys {
        let (key, body) = (bench.key(key), vec![bench.bytes(key, 10)]);
        let id = create(bench, &key).await;
        let part = send(bench, &key, &id, 1, &body[0]).await;
        if bench.quirks.encodes_listed_uploads || !key.contains(char::is_control) {
            assert_eq!(open_uploads(bench, &key).await, [(key.clone(), id.clone())], "{key:?}");
        }
        bench
            .store
            .complete_upload(&completion(bench, &key, &id, vec![part], &body))
            .await
            .unwrap_or_else(|error| panic!("complete {key:?}: {error}"));
        assert_eq!(bench.get(&key).await, body[0], "{key:?}");
    }
}
