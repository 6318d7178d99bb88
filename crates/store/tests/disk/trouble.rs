//! Tests of disks that are full, closed or lost, and of processes that are killed.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use bytes::Bytes;
use seqferry_store::prelude::*;
use seqferry_store::{Attributes, CompletedPart, Digests, ErrorClass, ObjectRef, Scope, UploadRef, checksum};
use seqferry_store_testing::ObjectWriteExt as _;

use super::{Scratch, code, completion, creation, failure, pattern, put, read, store};

/// A small temporary file system, where mounting is allowed.
struct TmpfsMount {
    scratch: Scratch,
}

impl TmpfsMount {
    fn new(options: &str) -> Option<Self> {
        let scratch = Scratch::new();
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(&scratch.folder).output();
        match mounted {
            Ok(output) if output.status.success() => Some(Self { scratch }),
            other => {
                eprintln!("SKIPPED: file systems cannot be mounted here: {other:?}");
                None
            }
        }
    }

    fn remount(&self, options: &str) {
        let done = Command::new("mount").args(["-o", options]).arg(&self.scratch.folder).status().unwrap();
        assert!(done.success());
    }
}

impl Drop for TmpfsMount {
    fn drop(&mut self) {
        let _best_effort = Command::new("umount").arg(&self.scratch.folder).status();
    }
}

fn full(error: &seqferry_store::StoreError) {
    assert_eq!(
        (error.code.as_str(), error.class, error.scope),
        ("DiskFull", ErrorClass::Person, Scope::Job),
        "{error}"
    );
    assert_eq!(error.advice(), seqferry_store::Advice::FreeDisk);
}

#[tokio::test]
async fn a_full_disk_stops_the_job_and_leaves_nothing_half_done() {
    let Some(mounted) = TmpfsMount::new("size=1m") else { return };
    let (scratch, store) = (&mounted.scratch, store());
    put(&store, scratch, "a", &pattern(100_000, 1)).await.unwrap();

    full(&failure(put(&store, scratch, "b", &pattern(2 << 20, 2)).await));
    full(&failure(put(&store, scratch, "a", &pattern(2 << 20, 2)).await));
    full(&failure(store.create_upload(&creation(scratch, "c", 100_000, 2 << 20)).await));

    assert_eq!(scratch.files(), [("a".to_owned(), pattern(100_000, 1))].into(), "also the old file stays");
    put(&store, scratch, "d", b"small").await.unwrap();
}

#[tokio::test]
async fn no_file_left_is_a_full_disk_too() {
    let Some(mounted) = TmpfsMount::new("size=1m,nr_inodes=4") else { return };
    let (scratch, store) = (&mounted.scratch, store());

    let mut written = 0;
    let error = loop {
        match put(&store, scratch, &format!("{written}"), b"x").await {
            Ok(_) => written += 1,
            Err(error) => break error,
        }
    };

    full(&error);
    assert!((1..4).contains(&written), "{written}");
}

#[tokio::test]
async fn an_upload_goes_on_when_there_is_room_again() {
    let Some(mounted) = TmpfsMount::new("size=1m") else { return };
    let scratch = &mounted.scratch;
    let body = pattern(700_000, 3);
    scratch.file("ballast", &pattern(600_000, 4));
    let first = store();
    // The size is unknown, so no space was reserved.
    let id = first.create_upload(&creation(scratch, "k", 100_000, 0)).await.unwrap();
    let mut sent = 0;
    let error = loop {
        let part = Bytes::copy_from_slice(&body[sent * 100_000..(sent + 1) * 100_000]);
        match first
            .put_part(
                UploadRef::new(scratch.bucket(), "k", &id),
                u32::try_from(sent + 1).unwrap(),
                part,
                &Digests::default(),
            )
            .await
        {
            Ok(_) => sent += 1,
            Err(error) => break error,
        }
    };
    full(&error);
    assert!(sent >= 1);
    drop(first);
    std::fs::remove_file(scratch.path("ballast")).unwrap();

    let second = store();
    let there = second.list_parts(UploadRef::new(scratch.bucket(), "k", &id), None).await.unwrap().parts;
    assert_eq!(there.len(), sent);
    let mut parts: Vec<CompletedPart> =
        there.into_iter().map(|part| CompletedPart { number: part.number, etag: part.etag, checksum: None }).collect();
    for number in sent + 1..=7 {
        let part = Bytes::copy_from_slice(&body[(number - 1) * 100_000..number * 100_000]);
        let number = u32::try_from(number).unwrap();
        let copied = second
            .put_part(UploadRef::new(scratch.bucket(), "k", &id), number, part, &Digests::default())
            .await
            .unwrap();
        parts.push(CompletedPart { number, etag: copied.etag, checksum: None });
    }
    second.complete_upload(&completion(scratch, "k", &id, parts, 700_000)).await.unwrap();

    assert_eq!(scratch.files(), [("k".to_owned(), body)].into());
}

#[tokio::test]
async fn a_disk_mounted_for_reading_stops_the_job() {
    let Some(mounted) = TmpfsMount::new("size=1m") else { return };
    let (scratch, store) = (&mounted.scratch, store());
    put(&store, scratch, "f/a", b"here").await.unwrap();
    mounted.remount("remount,ro");

    for error in [
        failure(put(&store, scratch, "f/b", b"x").await),
        failure(put(&store, scratch, "g/b", b"x").await),
        failure(store.create_upload(&creation(scratch, "f/c", 10, 10)).await),
        failure(store.delete(ObjectRef::new(scratch.bucket(), "f/a")).await),
    ] {
        assert_eq!(
            (error.code.as_str(), error.class, error.scope),
            ("ReadOnlyFileSystem", ErrorClass::Person, Scope::Job)
        );
    }
    assert_eq!(read(&store, &scratch.source("f/a"), None).await.unwrap(), b"here");
}

/// A folder without write permission, even for root; None where that is impossible.
struct ReadOnlyFolder(PathBuf);

impl ReadOnlyFolder {
    fn new(folder: PathBuf) -> Option<Self> {
        std::fs::set_permissions(&folder, std::os::unix::fs::PermissionsExt::from_mode(0o555)).unwrap();
        let closed = Self(folder);
        let probe = closed.0.join("probe");
        if std::fs::write(&probe, b"").is_ok() {
            std::fs::remove_file(&probe).unwrap();
            let done = Command::new("chattr").arg("+i").arg(&closed.0).stderr(Stdio::null()).status();
            if !done.is_ok_and(|status| status.success()) || std::fs::write(&probe, b"").is_ok() {
                eprintln!("SKIPPED: root cannot be kept from writing here");
                return None;
            }
        }
        Some(closed)
    }
}

impl Drop for ReadOnlyFolder {
    fn drop(&mut self) {
        let _was_not = Command::new("chattr").arg("-i").arg(&self.0).stderr(Stdio::null()).status();
        let _best_effort = std::fs::set_permissions(&self.0, std::os::unix::fs::PermissionsExt::from_mode(0o755));
    }
}

#[tokio::test]
async fn a_closed_target_stops_the_job_and_a_closed_folder_only_its_files() {
    let (scratch, store) = (Scratch::new(), store());
    std::fs::create_dir(scratch.path("below")).unwrap();
    {
        let Some(_below) = ReadOnlyFolder::new(scratch.path("below")) else { return };
        for key in ["below/file", "below/more/file"] {
            let error = failure(put(&store, &scratch, key, b"x").await);
            assert_eq!(
                (error.code.as_str(), error.class, error.scope),
                ("PermissionDenied", ErrorClass::Person, Scope::Object),
                "{key}"
            );
        }
        put(&store, &scratch, "beside", b"x").await.unwrap();
    }
    let Some(_root) = ReadOnlyFolder::new(scratch.folder.clone()) else { return };
    for key in ["file", "more/file"] {
        let error = failure(put(&store, &scratch, key, b"x").await);
        assert_eq!(
            (error.code.as_str(), error.class, error.scope),
            ("FolderPermissionDenied", ErrorClass::Person, Scope::Job),
            "{key}"
        );
    }
}

const PART: usize = 64 << 10;

fn body() -> Vec<u8> {
    pattern(40 * PART + 11, 5)
}

/// Part of another test, which starts it in a process, in the process's folder, and kills it.
#[tokio::test]
#[ignore = "run by processes_killed_at_any_moment_leave_what_can_be_resumed"]
async fn write_until_killed() {
    let folder = std::env::current_dir().unwrap();
    let (bucket, store, body) = (folder.to_str().unwrap(), store(), body());
    for round in 0_u32.. {
        let (key, small) = (format!("small/{}", round % 3), Bytes::copy_from_slice(&body[..PART]));
        store.put(bucket, &key, small, &Attributes::default()).await.unwrap();
        let uploads = store.list_uploads(bucket, "large").await.unwrap();
        let id = if let Some(upload) = uploads.first() {
            upload.upload_id.clone()
        } else {
            let request = seqferry_store::CreateUpload {
                bucket: bucket.to_owned(),
                key: "large".to_owned(),
                part_size: PART as u64,
                size: body.len() as u64,
                ..Default::default()
            };
            store.create_upload(&request).await.unwrap()
        };
        finish(&store, bucket, &id, &body).await;
    }
}

/// Sends the missing parts of an upload, and completes it. Returns how many parts were there already.
async fn finish(store: &seqferry_store::DiskStore, bucket: &str, id: &str, body: &[u8]) -> usize {
    let mut parts = store.list_parts(UploadRef::new(bucket, "large", id), None).await.unwrap().parts;
    let there = parts.len();
    for part in &parts {
        let at = (part.number as usize - 1) * PART;
        let piece = &body[at..body.len().min(at + PART)];
        assert_eq!(part.checksum, Some(checksum::crc64nvme(piece)), "part {}", part.number);
    }
    for (number, piece) in (1_u32..).zip(body.chunks(PART)) {
        if !parts.iter().any(|part| part.number == number) {
            let piece = Bytes::copy_from_slice(piece);
            let copied = store
                .put_part(UploadRef::new(bucket, "large", id), number, piece.clone(), &Digests::default())
                .await
                .unwrap();
            let (etag, checksum) = (copied.etag, copied.checksum);
            parts.push(seqferry_store::PartInfo { number, size: piece.len() as u64, etag, checksum });
        }
    }
    parts.sort_by_key(|part| part.number);
    let request = seqferry_store::CompleteUpload {
        bucket: bucket.to_owned(),
        key: "large".to_owned(),
        upload_id: id.to_owned(),
        parts: parts
            .into_iter()
            .map(|p| CompletedPart { number: p.number, etag: p.etag, checksum: p.checksum })
            .collect(),
        size: body.len() as u64,
        ..Default::default()
    };
    store.complete_upload(&request).await.unwrap();
    there
}

#[tokio::test]
async fn processes_killed_at_any_moment_leave_what_can_be_resumed() {
    let scratch = Scratch::new();
    let (body, mut resumed) = (body(), 0);
    for round in 0..12 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "trouble::write_until_killed", "--ignored", "--test-threads=1", "-q"])
            .current_dir(&scratch.folder)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // The writer is at work once the folder has an entry; then some rounds are killed early, some late.
        while std::fs::read_dir(&scratch.folder).unwrap().next().is_none() {
            assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
            tokio::task::yield_now().await;
        }
        std::thread::sleep(std::time::Duration::from_micros(fastrand::u64(0..60_000)));
        child.kill().unwrap();
        child.wait().unwrap();

        let store = store();
        for (key, bytes) in scratch.files() {
            match key.as_str() {
                "large" => assert!(bytes == body, "round {round}: half a file has the name"),
                key if key.starts_with("small/.") || key.starts_with('.') => {}
                key => assert!(bytes == body[..PART], "round {round}: {key} is half a file"),
            }
        }
        for upload in store.list_uploads(scratch.bucket(), "large").await.unwrap() {
            resumed += finish(&store, scratch.bucket(), &upload.upload_id, &body).await;
        }
        put(&store, &scratch, "small/0", &body[..PART]).await.unwrap();
        put(&store, &scratch, "last", &body[..PART]).await.unwrap();
        let left: Vec<String> = scratch.keys().into_iter().filter(|key| key.contains(".seqferry-")).collect();
        assert!(left.is_empty(), "round {round}: {left:?}");
        for key in scratch.keys() {
            std::fs::remove_file(scratch.path(&key)).unwrap();
        }
        std::fs::remove_dir(scratch.path("small")).unwrap();
    }
    println!("{resumed} parts did not have to be sent again");
    assert_eq!(
        code(store().list_parts(UploadRef::new(scratch.bucket(), "large", &"0".repeat(32)), None).await),
        "NoSuchUpload"
    );
}
