//! Tests of files in parts.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt as _;
use proptest::prelude::*;
use seqferry_store::prelude::*;
use seqferry_store::{
    Body, Checksum, ChecksumAlgorithm, ChecksumKind, CompleteUpload, CompletedPart, Digests, DiskOptions, DiskStore,
    ErrorClass, ObjectRef, PageCache, UploadRef, checksum,
};

use super::{Scratch, cached, code, completion, creation, failure, mode, mtime, pattern, store, with};

const PART: usize = 1000;

async fn send(store: &DiskStore, scratch: &Scratch, key: &str, id: &str, number: u32, body: &[u8]) -> CompletedPart {
    let copied = store
        .put_part(UploadRef::new(scratch.bucket(), key, id), number, Bytes::copy_from_slice(body), &Digests::default())
        .await
        .unwrap();
    assert_eq!(copied.checksum, Some(checksum::crc64nvme(body)));
    CompletedPart { number, etag: copied.etag, checksum: copied.checksum }
}

fn parts(body: &[u8]) -> Vec<(u32, &[u8])> {
    (1..).zip(body.chunks(PART)).collect()
}

#[tokio::test]
async fn parts_in_any_order_make_the_file_with_its_time_and_permissions() {
    let (scratch, store) = (Scratch::new(), store());
    let body = pattern(3 * PART + 7, 1);
    let attributes = with(&[("mtime", "1500000000.25"), ("mode", "33184")]);
    let request =
        seqferry_store::CreateUpload { attributes, ..creation(&scratch, "a/b", PART as u64, body.len() as u64) };
    let id = store.create_upload(&request).await.unwrap();
    let mut done = BTreeMap::new();
    for number in [4, 2, 1, 3] {
        let part = send(&store, &scratch, "a/b", &id, number, parts(&body)[number as usize - 1].1).await;
        done.insert(number, part);
        assert!(!scratch.path("a/b").exists(), "not before it is whole");
    }

    let whole = Checksum {
        algorithm: ChecksumAlgorithm::Crc64Nvme,
        value: checksum::crc64nvme(&body),
        kind: ChecksumKind::FullObject,
    };
    let mut request = completion(&scratch, "a/b", &id, done.into_values().collect(), body.len() as u64);
    request.whole = Some(whole.clone());
    let written = store.complete_upload(&request).await.unwrap();

    assert_eq!(scratch.files(), [("a/b".to_owned(), body)].into());
    assert_eq!((mtime(&scratch.path("a/b")), mode(&scratch.path("a/b"))), ((1_500_000_000, 250_000_000), 0o640));
    assert_eq!(written.checksum, Some(whole));
    assert_eq!(written.etag, store.head(ObjectRef::new(scratch.bucket(), "a/b"), None).await.unwrap().etag);
}

#[tokio::test]
async fn parts_that_do_not_make_the_file_are_refused_and_it_can_still_be_made() {
    let (scratch, store) = (Scratch::new(), store());
    let body = pattern(2 * PART + 7, 2);
    let size = body.len() as u64;
    let id = store.create_upload(&creation(&scratch, "k", PART as u64, size)).await.unwrap();
    let mut done = Vec::new();
    for (number, part) in parts(&body) {
        done.push(send(&store, &scratch, "k", &id, number, part).await);
    }
    let complete = async |parts: Vec<CompletedPart>, size, whole: Option<&[u8]>| {
        let mut request = completion(&scratch, "k", &id, parts, size);
        request.whole = whole.map(|bytes| Checksum {
            algorithm: ChecksumAlgorithm::Crc64Nvme,
            value: checksum::crc64nvme(bytes),
            kind: ChecksumKind::FullObject,
        });
        failure(store.complete_upload(&request).await)
    };
    let other = CompletedPart { etag: "0".repeat(16), ..done[0].clone() };

    for (error, wanted) in [
        (complete(Vec::new(), 0, None).await, "InvalidPartOrder"),
        (complete(vec![done[1].clone(), done[0].clone()], size, None).await, "InvalidPartOrder"),
        (complete(vec![other, done[1].clone(), done[2].clone()], size, None).await, "InvalidPart"),
        (complete(done[..2].to_vec(), size, None).await, "InvalidRequest"),
        (complete(done.clone(), size + 1, None).await, "InvalidRequest"),
        (complete(done.clone(), size, Some(b"other")).await, "BadDigest"),
    ] {
        assert_eq!((error.code.as_str(), error.class), (wanted, ErrorClass::Object));
    }
    for number in [0, 10_001] {
        let answer = store
            .put_part(UploadRef::new(scratch.bucket(), "k", &id), number, Bytes::from_static(b"x"), &Digests::default())
            .await;
        assert_eq!(code(answer), "InvalidArgument");
    }
    let large = Bytes::from(vec![0; PART + 1]);
    assert_eq!(
        code(store.put_part(UploadRef::new(scratch.bucket(), "k", &id), 1, large, &Digests::default()).await),
        "InvalidArgument"
    );

    store.complete_upload(&completion(&scratch, "k", &id, done, size)).await.unwrap();
    assert_eq!(scratch.files(), [("k".to_owned(), body)].into());
}

#[tokio::test]
async fn a_part_has_one_writer_at_a_time_and_the_last_one_counts() {
    const LARGE: usize = 3 << 20;
    let (scratch, store) = (Scratch::new(), Arc::new(store()));
    let [old, half, new] = [4, 5, 6].map(|salt| Bytes::from(pattern(LARGE, salt)));
    let id = store.create_upload(&creation(&scratch, "k", LARGE as u64, LARGE as u64)).await.unwrap();
    let send = |body: Bytes| {
        let (store, bucket, id) = (Arc::clone(&store), scratch.bucket().to_owned(), id.clone());
        async move { store.put_part(UploadRef::new(&bucket, "k", &id), 1, body, &Digests::default()).await.unwrap() }
    };
    send(old).await;

    // Two thirds of the bytes arrive, and then none for a long time.
    let (more, rest) = futures::channel::mpsc::unbounded();
    more.unbounded_send(Ok(half.slice(..LARGE / 3 * 2))).unwrap();
    let (writer, bucket, upload) = (Arc::clone(&store), scratch.bucket().to_owned(), id.clone());
    let slow = tokio::spawn(async move {
        writer
            .stream_part(UploadRef::new(&bucket, "k", &upload), 1, LARGE as u64, Body::from_stream(rest.boxed()))
            .await
    });
    while !store.list_parts(UploadRef::new(scratch.bucket(), "k", &id), None).await.unwrap().parts.is_empty() {
        tokio::task::yield_now().await;
    }
    let next = tokio::spawn(send(new.clone()));
    for _ in 0..100 {
        // Any request that occupies a thread would do.
        store.head_bucket(scratch.bucket()).await.unwrap();
    }
    assert!(!next.is_finished());
    // The request is cancelled, as when its source loses its connection.
    slow.abort();
    let copied = next.await.unwrap();

    let part = CompletedPart { number: 1, etag: copied.etag, checksum: copied.checksum };
    store.complete_upload(&completion(&scratch, "k", &id, vec![part], LARGE as u64)).await.unwrap();
    assert_eq!(scratch.files(), [("k".to_owned(), new.to_vec())].into());
}

/// Changes the bytes of an upload between two processes, like another program.
fn tampered(with: &str, scratch: &Scratch) {
    let path = scratch.path(&scratch.unfinished("part"));
    match with {
        "flipped" => {
            let mut bytes = std::fs::read(&path).unwrap();
            bytes[PART + 3] ^= 1;
            std::fs::write(&path, bytes).unwrap();
        }
        "cut" => std::fs::File::options().write(true).open(&path).unwrap().set_len(PART as u64 + 5).unwrap(),
        "linked" => std::fs::hard_link(&path, scratch.path("other")).unwrap(),
        "replaced" => {
            std::fs::remove_file(&path).unwrap();
            std::fs::write(&path, vec![0; 2 * PART + 7]).unwrap();
        }
        _ => {}
    }
}

#[tokio::test]
async fn parts_of_another_process_are_read_back_before_they_count() {
    for (with, still) in [
        ("left alone", Some(&[1, 2, 3][..])),
        ("flipped", Some(&[1, 3])),
        ("cut", None),
        ("linked", None),
        ("replaced", Some(&[])),
    ] {
        let (scratch, first) = (Scratch::new(), store());
        let body = pattern(2 * PART + 7, 5);
        let id = first.create_upload(&creation(&scratch, "k", PART as u64, body.len() as u64)).await.unwrap();
        for (number, part) in parts(&body) {
            send(&first, &scratch, "k", &id, number, part).await;
        }

        tampered(with, &scratch);

        let second = store();
        let listed = second.list_parts(UploadRef::new(scratch.bucket(), "k", &id), None).await;
        let Some(still) = still else {
            assert_eq!(code(listed), "NoSuchUpload", "{with}");
            assert!(scratch.keys().iter().all(|key| key == "other"), "{with}: nothing is left behind");
            continue;
        };
        let mut listed: Vec<u32> = listed.unwrap().parts.iter().map(|part| part.number).collect();
        listed.sort_unstable();
        assert_eq!(listed, still, "{with}");
        // The missing parts are sent again, and the file is complete.
        let mut done = Vec::new();
        for (number, part) in parts(&body) {
            done.push(send(&second, &scratch, "k", &id, number, part).await);
        }
        second.complete_upload(&completion(&scratch, "k", &id, done, body.len() as u64)).await.unwrap();
        assert_eq!(scratch.files(), [("k".to_owned(), body)].into(), "{with}");
    }
}

#[tokio::test]
async fn a_record_that_is_no_plain_file_of_one_name_is_none_and_is_not_written_to() {
    for what in ["second name", "link", "pipe"] {
        let (scratch, first) = (Scratch::new(), store());
        let id = first.create_upload(&creation(&scratch, "k", PART as u64, 2 * PART as u64)).await.unwrap();
        let record = scratch.path(&scratch.unfinished("parts"));
        let (victim, text) = (scratch.path("victim"), std::fs::read(&record).unwrap());
        std::fs::rename(&record, &victim).unwrap();
        match what {
            "second name" => std::fs::hard_link(&victim, &record).unwrap(),
            "link" => std::os::unix::fs::symlink(&victim, &record).unwrap(),
            _ => rustix::fs::mknodat(rustix::fs::CWD, &record, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap(),
        }

        let upload = UploadRef::new(scratch.bucket(), "k", &id);
        let sent = store().put_part(upload, 1, Bytes::from(pattern(PART, 3)), &Digests::default()).await;

        assert_eq!(code(sent), "NoSuchUpload", "{what}");
        assert_eq!(std::fs::read(&victim).unwrap(), text, "{what}");
    }
}

#[tokio::test]
async fn bytes_that_are_cut_off_meanwhile_are_not_made_up_for_by_zeros() {
    let (scratch, store) = (Scratch::new(), store());
    let body = pattern(2 * PART + 7, 6);
    let id = store.create_upload(&creation(&scratch, "k", PART as u64, body.len() as u64)).await.unwrap();
    let mut done = Vec::new();
    for (number, part) in parts(&body) {
        done.push(send(&store, &scratch, "k", &id, number, part).await);
    }

    tampered("cut", &scratch);

    let request = completion(&scratch, "k", &id, done, body.len() as u64);
    assert_eq!(code(store.complete_upload(&request).await), "NoSuchUpload");
    assert!(!scratch.path("k").exists());
}

#[tokio::test]
async fn an_upload_belongs_to_its_key_and_ends_once() {
    let (scratch, store) = (Scratch::new(), store());
    let id = store.create_upload(&creation(&scratch, "f/k", PART as u64, 10)).await.unwrap();
    let part = send(&store, &scratch, "f/k", &id, 1, b"0123456789").await;

    for (key, id) in [("f/other", id.as_str()), ("k", &id), ("f/k", "../../etc"), ("f/k", ""), ("f/k", &"0".repeat(32))]
    {
        assert_eq!(
            code(store.list_parts(UploadRef::new(scratch.bucket(), key, id), None).await),
            "NoSuchUpload",
            "{key} {id}"
        );
        assert_eq!(
            code(store.abort_upload(UploadRef::new(scratch.bucket(), key, id)).await),
            "NoSuchUpload",
            "{key} {id}"
        );
    }
    let uploads = store.list_uploads(scratch.bucket(), "f/k").await.unwrap();
    assert_eq!(
        uploads.iter().map(|u| (u.key.as_str(), u.upload_id.as_str())).collect::<Vec<_>>(),
        [("f/k", id.as_str())]
    );
    for (prefix, found) in [("", 1), ("f", 1), ("f/", 1), ("f/k/", 0), ("g", 0), ("../", 0)] {
        assert_eq!(store.list_uploads(scratch.bucket(), prefix).await.unwrap().len(), found, "{prefix}");
    }

    store.abort_upload(UploadRef::new(scratch.bucket(), "f/k", &id)).await.unwrap();

    assert!(scratch.keys().is_empty());
    assert_eq!(code(store.abort_upload(UploadRef::new(scratch.bucket(), "f/k", &id)).await), "NoSuchUpload");
    assert_eq!(
        code(
            store
                .put_part(
                    UploadRef::new(scratch.bucket(), "f/k", &id),
                    1,
                    Bytes::from_static(b"x"),
                    &Digests::default()
                )
                .await
        ),
        "NoSuchUpload"
    );
    let request = completion(&scratch, "f/k", &id, vec![part], 10);
    assert_eq!(code(store.complete_upload(&request).await), "NoSuchUpload");
}

#[tokio::test]
async fn completing_again_after_the_rename_says_the_same() {
    let (scratch, first) = (Scratch::new(), store());
    let id = first.create_upload(&creation(&scratch, "k", PART as u64, 10)).await.unwrap();
    let part = send(&first, &scratch, "k", &id, 1, b"0123456789").await;
    let record = scratch.unfinished("parts");
    // The state after a kill between the rename and the removal of the record: the record is there again.
    let keep = scratch.path("kept");
    std::fs::hard_link(scratch.path(&record), &keep).unwrap();
    let request = completion(&scratch, "k", &id, vec![part], 10);
    let written = first.complete_upload(&request).await.unwrap();
    std::fs::rename(&keep, scratch.path(&record)).unwrap();

    let second = store();
    assert_eq!(second.list_parts(UploadRef::new(scratch.bucket(), "k", &id), None).await.unwrap().parts.len(), 1);
    let again = second.complete_upload(&request).await.unwrap();

    assert_eq!((again.etag, again.checksum), (written.etag, written.checksum));
    assert_eq!(scratch.files(), [("k".to_owned(), b"0123456789".to_vec())].into());
    assert_eq!(code(store().complete_upload(&request).await), "NoSuchUpload");
}

#[tokio::test]
async fn a_file_that_took_the_place_of_a_completed_one_is_not_taken_for_it() {
    let (scratch, first) = (Scratch::new(), store());
    let id = first.create_upload(&creation(&scratch, "k", PART as u64, 10)).await.unwrap();
    let part = send(&first, &scratch, "k", &id, 1, b"0123456789").await;
    let record = scratch.unfinished("parts");
    std::fs::hard_link(scratch.path(&record), scratch.path("kept")).unwrap();
    let request = completion(&scratch, "k", &id, vec![part], 10);
    first.complete_upload(&request).await.unwrap();
    std::fs::rename(scratch.path("kept"), scratch.path(&record)).unwrap();
    super::put(&first, &scratch, "k", b"9876543210").await.unwrap();

    assert_eq!(code(store().complete_upload(&request).await), "NoSuchUpload");
}

/// Aborts and completes an upload at the same time, `rounds` times; `elsewhere` returns the store that completes it.
async fn race_an_abort(rounds: u32, elsewhere: impl Fn(&Arc<DiskStore>) -> Arc<DiskStore>) {
    for _ in 0..rounds {
        let (scratch, store) = (Scratch::new(), Arc::new(store()));
        let id = store.create_upload(&creation(&scratch, "k", PART as u64, 10)).await.unwrap();
        let part = send(&store, &scratch, "k", &id, 1, b"0123456789").await;
        let request = completion(&scratch, "k", &id, vec![part], 10);
        let other = elsewhere(&store);
        let completing = tokio::spawn(async move { other.complete_upload(&request).await });
        let aborting = tokio::spawn({
            let (store, bucket) = (Arc::clone(&store), scratch.bucket().to_owned());
            async move { store.abort_upload(UploadRef::new(&bucket, "k", &id)).await }
        });

        let (completed, aborted) = (completing.await.unwrap(), aborting.await.unwrap());

        for failed in [completed.as_ref().err(), aborted.as_ref().err()].into_iter().flatten() {
            assert_eq!(failed.code, "NoSuchUpload");
        }
        let files = scratch.files();
        if completed.is_ok() {
            assert_eq!(files, [("k".to_owned(), b"0123456789".to_vec())].into());
        } else {
            assert!(files.is_empty(), "{files:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_is_aborted_while_it_is_completed_is_one_or_the_other() {
    race_an_abort(50, Arc::clone).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_is_aborted_while_another_process_completes_it_is_one_or_the_other() {
    race_an_abort(500, |_| Arc::new(store())).await;
}

#[tokio::test]
async fn an_upload_whose_file_is_removed_by_another_program_is_none_any_more() {
    for if_absent in [true, false] {
        let (scratch, store) = (Scratch::new(), store());
        let id = store.create_upload(&creation(&scratch, "k", PART as u64, 10)).await.unwrap();
        let part = send(&store, &scratch, "k", &id, 1, b"0123456789").await;
        std::fs::remove_file(scratch.path(&scratch.unfinished("part"))).unwrap();

        let request = CompleteUpload { if_absent, ..completion(&scratch, "k", &id, vec![part], 10) };

        assert_eq!(code(store.complete_upload(&request).await), "NoSuchUpload", "{if_absent}");
    }
}

#[tokio::test]
async fn a_line_that_lost_only_its_end_does_not_come_back() {
    let (scratch, first) = (Scratch::new(), store());
    let id = first.create_upload(&creation(&scratch, "k", PART as u64, 10)).await.unwrap();
    let record = scratch.path(&scratch.unfinished("parts"));
    let lose_one_byte = || {
        let file = std::fs::File::options().write(true).open(&record).unwrap();
        file.set_len(file.metadata().unwrap().len() - 1).unwrap();
    };
    send(&first, &scratch, "k", &id, 1, b"0123456789").await;
    lose_one_byte();
    let second = store();
    assert!(second.list_parts(UploadRef::new(scratch.bucket(), "k", &id), None).await.unwrap().parts.is_empty());
    send(&second, &scratch, "k", &id, 1, b"9876543210").await;
    lose_one_byte();

    let listed = store().list_parts(UploadRef::new(scratch.bucket(), "k", &id), None).await.unwrap().parts;

    assert!(listed.is_empty(), "neither what was written over nor what was not recorded: {listed:?}");
}

/// A step of a process that can be killed at any time.
#[derive(Debug, Clone)]
enum Step {
    Send(u32),
    /// The store is opened again, as after a restart of the process.
    Restart,
    /// The record loses its last bytes, as after a power cut.
    Tear(usize),
    /// A part is sent with other bytes first.
    Wrong(u32),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1..=5_u32).prop_map(Step::Send),
        2 => Just(Step::Restart),
        1 => (1..60_usize).prop_map(Step::Tear),
        1 => (1..=5_u32).prop_map(Step::Wrong),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// Checks after any sequence of steps that the listed parts are in the file, and that sending the missing ones
    /// completes it.
    #[test]
    fn an_upload_is_resumed_from_whatever_is_left(steps in proptest::collection::vec(step(), 0..25), seed in any::<u64>(), durable in any::<bool>()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let scratch = Scratch::new();
            let body = pattern(4 * PART + 123, seed);
            let pieces = parts(&body);
            let fresh = || DiskStore::new(DiskOptions { durable, ..DiskOptions::default() });
            let mut store = fresh();
            let id = store.create_upload(&creation(&scratch, "k", PART as u64, body.len() as u64)).await.unwrap();
            // The bytes last sent for each part.
            let mut model: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
            for step in steps {
                match step {
                    Step::Send(number) => {
                        let piece = pieces[number as usize - 1].1;
                        send(&store, &scratch, "k", &id, number, piece).await;
                        model.insert(number, piece.to_vec());
                    }
                    Step::Wrong(number) => {
                        let piece = pattern(pieces[number as usize - 1].1.len(), !seed);
                        send(&store, &scratch, "k", &id, number, &piece).await;
                        model.insert(number, piece);
                    }
                    Step::Restart => store = fresh(),
                    Step::Tear(bytes) => {
                        let record = scratch.unfinished("parts");
                        let file = std::fs::File::options().write(true).open(scratch.path(&record)).unwrap();
                        let text = std::fs::read_to_string(scratch.path(&record)).unwrap();
                        // The first line, and lines that announce new bytes of a part, are synced before any further
                        // step.
                        let mut end = 0;
                        let kept = text.split_inclusive('\n').filter_map(|line| {
                            end += line.len();
                            (end == line.len() || line.starts_with("drop")).then_some(end)
                        });
                        let kept = kept.max().unwrap();
                        file.set_len(text.len().saturating_sub(bytes).max(kept) as u64).unwrap();
                        store = fresh();
                    }
                }
            }
            let listed = store.list_parts(UploadRef::new(scratch.bucket(), "k", &id), None).await.unwrap().parts;
            let file = std::fs::read(scratch.path(&scratch.unfinished("part"))).unwrap();
            for part in &listed {
                let at = (part.number as usize - 1) * PART;
                let size = usize::try_from(part.size).unwrap();
                // A part whose last lines were torn off may be listed in its old state: then its bytes must match that
                // state.
                let there = checksum::crc64nvme(&file[at..at + size]);
                if part.checksum.as_ref() != Some(&there) {
                    return Err(TestCaseError::fail(format!("part {} is not what is listed", part.number)));
                }
            }
            let mut done = BTreeMap::new();
            for part in listed {
                let right = checksum::crc64nvme(pieces[part.number as usize - 1].1);
                if part.checksum == Some(right) {
                    done.insert(part.number, CompletedPart { number: part.number, etag: part.etag, checksum: part.checksum });
                }
            }
            for (number, piece) in &pieces {
                if !done.contains_key(number) {
                    done.insert(*number, send(&store, &scratch, "k", &id, *number, piece).await);
                }
            }
            let request = completion(&scratch, "k", &id, done.into_values().collect(), body.len() as u64);
            store.complete_upload(&request).await.unwrap();
            prop_assert_eq!(scratch.files(), [("k".to_owned(), body)].into());
            Ok(())
        })?;
    }
}

/// A body in pieces of random sizes.
fn in_pieces(body: &Bytes, rng: &mut fastrand::Rng) -> Body {
    let mut rest = body.clone();
    let mut pieces = Vec::new();
    while !rest.is_empty() {
        let at_most = 1 << rng.u32(1..22);
        pieces.push(Ok(rest.split_to(rng.usize(1..=at_most).min(rest.len()))));
    }
    Body::from_stream(futures::stream::iter(pieces).boxed())
}

#[tokio::test]
async fn parts_that_share_blocks_are_written_side_by_side() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    for part_size in [(3 << 20) + rng.usize(1..4096), 1 << 20, (2 << 20) + 1] {
        let (scratch, store) = (Scratch::new(), store());
        let body = Bytes::from(pattern(5 * part_size - rng.usize(1..part_size), seed));
        let id = store.create_upload(&creation(&scratch, "k", part_size as u64, body.len() as u64)).await.unwrap();
        let parts: Vec<Bytes> = body.chunks(part_size).map(|part| body.slice_ref(part)).collect();

        let written = (1..).zip(&parts).map(|(number, part)| {
            let pieces = in_pieces(part, &mut rng);
            let (store, bucket, id) = (&store, scratch.bucket(), &id);
            async move {
                let copied = store
                    .stream_part(UploadRef::new(bucket, "k", id), number, part.len() as u64, pieces)
                    .await
                    .unwrap();
                assert_eq!(copied.checksum, Some(checksum::crc64nvme(part)));
                CompletedPart { number, etag: copied.etag, checksum: copied.checksum }
            }
        });
        let written = futures::future::join_all(written).await;
        store.complete_upload(&completion(&scratch, "k", &id, written, body.len() as u64)).await.unwrap();

        assert!(scratch.files() == [("k".to_owned(), body.to_vec())].into(), "part size {part_size}");
    }
}

#[tokio::test]
async fn large_parts_pass_the_cache_unless_they_are_wanted_there() {
    const LARGE: usize = 4 << 20;
    for cache in [PageCache::Bypass, PageCache::Use] {
        let scratch = Scratch::new();
        let store = DiskStore::new(DiskOptions { cache, ..DiskOptions::default() });
        let body = Bytes::from(pattern(LARGE + 100, 1));
        let id = store.create_upload(&creation(&scratch, "k", LARGE as u64, body.len() as u64)).await.unwrap();
        let mut done = Vec::new();
        for (number, part) in (1..).zip(body.chunks(LARGE)) {
            let pieces = in_pieces(&body.slice_ref(part), &mut fastrand::Rng::with_seed(2));
            let size = part.len() as u64;
            let copied =
                store.stream_part(UploadRef::new(scratch.bucket(), "k", &id), number, size, pieces).await.unwrap();
            done.push(CompletedPart { number, etag: copied.etag, checksum: copied.checksum });
        }
        store.complete_upload(&completion(&scratch, "k", &id, done, body.len() as u64)).await.unwrap();

        match cached(&scratch.path("k")) {
            None => eprintln!("SKIPPED: no ext4 or XFS here, or no fincore to look with"),
            Some(bytes) if cache == PageCache::Use => {
                assert!(bytes >= LARGE as u64, "{bytes} of {} are in the cache", body.len());
            }
            // The incomplete block at the end may be cached.
            Some(bytes) => assert!(bytes <= 64 << 10, "{bytes} of {} are in the cache", body.len()),
        }
        assert!(scratch.files() == [("k".to_owned(), body.to_vec())].into());
    }
}
