//! Tests of reading: bytes and facts.

use std::io::Write as _;
use std::os::unix::fs::symlink;

use futures::StreamExt as _;
use seqferry_store::prelude::*;
use seqferry_store::{Capabilities, DiskOptions, DiskStore, ErrorClass, ObjectRef, PinnedObject, Range, Symlinks};

use super::{Scratch, code, failure, mtime, pattern, read, store};

#[tokio::test]
async fn facts_are_those_of_the_file() {
    let (scratch, store) = (Scratch::new(), store());
    scratch.file("a/b.fastq.gz", b"12345");
    let path = scratch.path("a/b.fastq.gz");
    std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o640)).unwrap();

    let meta = store.head(ObjectRef::new(scratch.bucket(), "a/b.fastq.gz"), None).await.unwrap();

    let (seconds, nanoseconds) = mtime(&path);
    let text = format!("{seconds}.{nanoseconds:09}");
    assert_eq!(store.capabilities(), Capabilities::DISK);
    assert_eq!((meta.size, meta.opaque_etag, meta.tag_count), (5, true, Some(0)));
    assert_eq!(meta.attributes.metadata["mtime"], text.trim_end_matches('0').trim_end_matches('.'));
    assert_eq!(meta.attributes.metadata["mode"], "0100640");
    let nanoseconds = i128::from(seconds) * 1_000_000_000 + i128::from(nanoseconds);
    assert_eq!(meta.attributes.metadata["file-mtime"], format!("{nanoseconds}ns"));
    assert_eq!(meta.attributes.metadata["file-permissions"], "0100640");
    assert_eq!(meta.attributes.content_type.as_deref(), Some("application/gzip"));
    assert!((meta.last_modified - (seconds as f64)).abs() <= 1.0);
}

#[tokio::test]
async fn ranges_over_many_chunks_are_read() {
    let (scratch, store) = (Scratch::new(), store());
    let body = pattern((3 << 20) + 17, 1);
    scratch.file("big", &body);
    scratch.file("empty", b"");

    assert_eq!(read(&store, &scratch.source("big"), None).await.unwrap(), body);
    let last = body.len() - 1;
    for (first, last) in [(0, 0), (1, 1 << 20), ((1 << 20) - 1, last), (last, last)] {
        let range = Range { first: first as u64, last: last as u64 };
        assert_eq!(read(&store, &scratch.source("big"), Some(range)).await.unwrap(), body[first..=last]);
    }
    assert_eq!(read(&store, &scratch.source("empty"), None).await.unwrap(), b"");
    for range in [Range { first: 0, last: 0 }, Range { first: 5, last: 9 }] {
        assert_eq!(code(read(&store, &scratch.source("empty"), Some(range)).await), "InvalidRange");
    }
    let beyond = Range { first: 0, last: body.len() as u64 };
    assert_eq!(code(read(&store, &scratch.source("big"), Some(beyond)).await), "InvalidRange");
}

#[tokio::test]
async fn holes_are_read_as_zeros() {
    let (scratch, store) = (Scratch::new(), store());
    let file = std::fs::File::create(scratch.path("sparse")).unwrap();
    file.set_len(5 << 20).unwrap();
    (&file).write_all(b"begin").unwrap();

    let bytes = read(&store, &scratch.source("sparse"), None).await.unwrap();

    assert_eq!((bytes.len(), &bytes[..5]), (5 << 20, b"begin".as_slice()));
    assert!(bytes[5..].iter().all(|byte| *byte == 0));
}

#[tokio::test]
async fn reads_are_pinned_to_the_file_that_was_listed() {
    let (scratch, store) = (Scratch::new(), store());
    scratch.file("a", b"first");
    let etag = store.head(ObjectRef::new(scratch.bucket(), "a"), None).await.unwrap().etag;
    let pinned = PinnedObject { if_match: Some(etag), ..scratch.source("a") };
    assert_eq!(read(&store, &pinned, None).await.unwrap(), b"first");

    // Another file of the same length and the same time.
    let times = std::fs::metadata(scratch.path("a")).unwrap();
    std::fs::write(scratch.path("b"), b"other").unwrap();
    let other = std::fs::File::options().write(true).open(scratch.path("b")).unwrap();
    other.set_modified(times.modified().unwrap()).unwrap();
    std::fs::rename(scratch.path("b"), scratch.path("a")).unwrap();

    for range in [None, Some(Range { first: 0, last: 1 })] {
        assert_eq!(failure(read(&store, &pinned, range).await).class, ErrorClass::Precondition);
    }
}

#[tokio::test]
async fn a_file_that_changes_while_it_is_read_is_never_taken_for_whole() {
    for change in ["append", "truncate", "overwrite"] {
        let (scratch, store) = (Scratch::new(), store());
        scratch.file("a", &pattern(3 << 20, 2));
        let mut body = store.get(&scratch.source("a"), None).await.unwrap();
        body.next().await.unwrap().unwrap();

        let mut file = std::fs::File::options().write(true).open(scratch.path("a")).unwrap();
        match change {
            "append" => {
                file = std::fs::File::options().append(true).open(scratch.path("a")).unwrap();
                file.write_all(b"more").unwrap();
            }
            "truncate" => file.set_len(1 << 20).unwrap(),
            _ => {
                file.write_all(b"other").unwrap();
                // A file system's clock may have a resolution of some milliseconds.
                file.set_modified(std::time::SystemTime::UNIX_EPOCH).unwrap();
            }
        }

        let rest: Vec<_> = body.into_stream().collect().await;
        let error = rest.into_iter().next_back().unwrap().expect_err(change);
        assert_eq!(error.class, ErrorClass::Precondition, "{change}");
    }
}

#[tokio::test]
async fn what_is_no_object_is_not_there() {
    let (scratch, store) = (Scratch::new(), store());
    scratch.file("folder/file", b"x");

    for key in ["absent", "folder", "folder/file/below", "folder/file/", "../x", "/folder/file", "folder//file", "a\0b"]
    {
        let head = failure(store.head(ObjectRef::new(scratch.bucket(), key), None).await);
        assert_eq!((head.class, head.code.as_str()), (ErrorClass::NotFound, "NoSuchKey"), "{key:?}");
        let get = failure(read(&store, &scratch.source(key), None).await);
        assert_eq!((get.class, get.code.as_str()), (ErrorClass::NotFound, "NoSuchKey"), "{key:?}");
    }
}

#[tokio::test]
async fn what_has_a_name_and_is_no_object_is_told_apart_from_nothing() {
    let (scratch, follow) = (Scratch::new(), store());
    let skip = DiskStore::new(DiskOptions { symlinks: Symlinks::Skip, ..DiskOptions::default() });
    let keep = DiskStore::new(DiskOptions { symlinks: Symlinks::Keep, ..DiskOptions::default() });
    scratch.file("file", b"x");
    rustix::fs::mknodat(rustix::fs::CWD, scratch.path("pipe"), rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    symlink("file", scratch.path("link")).unwrap();
    symlink("nowhere", scratch.path("dangling")).unwrap();
    symlink("loop", scratch.path("loop")).unwrap();

    for (store, key, wanted) in [
        (&follow, "pipe", Some("SpecialFile")),
        (&follow, "link", None),
        (&follow, "dangling", Some("SymlinkDangling")),
        (&follow, "loop", Some("SymlinkLoop")),
        (&skip, "link", Some("SymlinkSkipped")),
        (&skip, "dangling", Some("SymlinkSkipped")),
        (&keep, "dangling", None),
        (&keep, "pipe", Some("SpecialFile")),
    ] {
        let head = store.head(ObjectRef::new(scratch.bucket(), key), None).await;
        let Some(code) = wanted else {
            head.unwrap();
            continue;
        };
        let error = failure(head);
        assert_eq!(
            (error.class, error.code.as_str(), error.is_not_an_object()),
            (ErrorClass::NotFound, code, true),
            "{key}"
        );
    }
    assert!(!failure(follow.head(ObjectRef::new(scratch.bucket(), "absent"), None).await).is_not_an_object());
}

#[tokio::test]
async fn a_root_that_is_not_there_stops_the_job_and_names_the_path() {
    let (scratch, store) = (Scratch::new(), store());
    let absent = scratch.path("absent");

    let error = failure(store.head_bucket(absent.to_str().unwrap()).await);
    assert_eq!((error.code.as_str(), error.scope), ("NoSuchFolder", seqferry_store::Scope::Job));
    assert!(error.to_string().starts_with(&format!("HeadBucket {}: NoSuchFolder", absent.display())), "{error}");
    store.head_bucket(scratch.bucket()).await.unwrap();
    assert_eq!(code(store.head_bucket("relative").await), "NoSuchFolder");
    scratch.file("file", b"");
    assert_eq!(code(store.head_bucket(scratch.path("file").to_str().unwrap()).await), "NoSuchFolder");
}

#[tokio::test]
async fn links_are_read_as_was_chosen() {
    let (scratch, elsewhere) = (Scratch::new(), Scratch::new());
    elsewhere.file("far/file", b"far away");
    symlink(elsewhere.path("far"), scratch.path("folder")).unwrap();
    symlink(elsewhere.path("far/file"), scratch.path("file")).unwrap();
    let with = |symlinks| DiskStore::new(DiskOptions { symlinks, ..DiskOptions::default() });

    let follow = with(Symlinks::Follow);
    for key in ["file", "folder/file"] {
        assert_eq!(read(&follow, &scratch.source(key), None).await.unwrap(), b"far away");
        assert_eq!(
            follow.head(ObjectRef::new(scratch.bucket(), key), None).await.unwrap().attributes.metadata["mode"],
            "0100644"
        );
    }
    for store in [with(Symlinks::Skip), with(Symlinks::Keep)] {
        assert_eq!(code(read(&store, &scratch.source("folder/file"), None).await), "NoSuchKey");
    }
    assert_eq!(code(read(&with(Symlinks::Skip), &scratch.source("file"), None).await), "NoSuchKey");
    let keep = with(Symlinks::Keep);
    let text = elsewhere.path("far/file").to_str().unwrap().to_owned();
    let meta = keep.head(ObjectRef::new(scratch.bucket(), "file"), None).await.unwrap();
    assert_eq!((meta.size, meta.attributes.metadata["mode"].as_str()), (text.len() as u64, "0120777"));
    assert_eq!(read(&keep, &scratch.source("file"), None).await.unwrap(), text.as_bytes());
    let some = Some(Range { first: 1, last: 3 });
    assert_eq!(read(&keep, &scratch.source("file"), some).await.unwrap(), &text.as_bytes()[1..=3]);
}
