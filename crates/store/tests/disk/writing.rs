//! Tests of whole files.

use std::os::unix::fs::{FileTypeExt as _, symlink};

use bytes::Bytes;
use rustix::fs::FlockOperation;
use seqferry_store::prelude::*;
use seqferry_store::{
    Attributes, DiskOptions, DiskStore, ErrorClass, ObjectRef, PageCache, Permissions, Scope, Symlinks, UploadRef,
    checksum,
};
use seqferry_store_testing::ObjectWriteExt as _;

use super::{Scratch, cached, code, failure, mode, mtime, pattern, put, read, store, with};

#[tokio::test]
async fn a_file_is_written_with_its_folders_time_and_permissions() {
    let (scratch, store) = (Scratch::new(), store());
    let attributes = with(&[("mtime", "1600000000.123456789"), ("mode", "0104640")]);

    let written = store.put(scratch.bucket(), "a/b/c", Bytes::from_static(b"body"), &attributes).await.unwrap();

    let path = scratch.path("a/b/c");
    assert_eq!(scratch.files(), [("a/b/c".to_owned(), b"body".to_vec())].into());
    assert_eq!(mtime(&path), (1_600_000_000, 123_456_789));
    assert_eq!(mode(&path), 0o640, "no rights beyond permissions");
    assert_eq!(written.checksum.unwrap().value, checksum::crc64nvme(b"body"));
    assert_eq!(written.etag, store.head(ObjectRef::new(scratch.bucket(), "a/b/c"), None).await.unwrap().etag);
}

#[tokio::test]
async fn a_file_gets_the_time_and_permissions_that_aws_file_gateway_or_datasync_stored() {
    for (name, time, expected) in [
        ("nanoseconds", "1600000000123456789ns", (1_600_000_000, 123_456_789)),
        ("milliseconds", "1600000000250", (1_600_000_000, 250_000_000)),
        ("before the epoch", "-500000000ns", (-1, 500_000_000)),
    ] {
        let (scratch, store) = (Scratch::new(), store());
        let owner = [("file-owner", "12345"), ("file-group", "12345")];
        let attributes = with(&[&owner[..], &[("file-mtime", time), ("file-permissions", "0640")]].concat());

        store.put(scratch.bucket(), "f", Bytes::from_static(b"body"), &attributes).await.unwrap();

        let path = scratch.path("f");
        assert_eq!((mtime(&path), mode(&path)), (expected, 0o640), "{name}");
    }
}

/// Permissions of a new file with all permissions requested, reduced by the umask of this process.
fn all_that_the_umask_leaves(scratch: &Scratch) -> u32 {
    std::fs::create_dir(scratch.path("new")).unwrap();
    let left = mode(&scratch.path("new"));
    std::fs::remove_dir(scratch.path("new")).unwrap();
    left & 0o777
}

#[tokio::test]
async fn permissions_of_an_object_stay_within_the_umask_unless_they_are_to_be_preserved() {
    for permissions in [Permissions::Narrow, Permissions::Preserve] {
        let scratch = Scratch::new();
        let store = DiskStore::new(DiskOptions { permissions, ..DiskOptions::default() });
        let left = if permissions == Permissions::Preserve { 0o777 } else { all_that_the_umask_leaves(&scratch) };
        for (name, text, wanted) in [
            ("all", "0100777", 0o777),
            ("setuid", "0104755", 0o755),
            ("sticky", "0101666", 0o666),
            ("private", "0100600", 0o600),
            ("readable", "0100400", 0o400),
        ] {
            let attributes = with(&[("mode", text)]);
            store.put(scratch.bucket(), name, Bytes::from_static(b"body"), &attributes).await.unwrap();
            let upload = seqferry_store::CreateUpload {
                attributes,
                ..super::creation(&scratch, &format!("{name}.parts"), 4, 4)
            };
            let id = store.create_upload(&upload).await.unwrap();
            let body = Bytes::from_static(b"body");
            let digests = seqferry_store::Digests::default();
            let part =
                store.put_part(UploadRef::new(scratch.bucket(), &upload.key, &id), 1, body, &digests).await.unwrap();
            let parts = vec![seqferry_store::CompletedPart { number: 1, etag: part.etag, checksum: part.checksum }];
            store.complete_upload(&super::completion(&scratch, &upload.key, &id, parts, 4)).await.unwrap();

            for file in [name.to_owned(), upload.key] {
                assert_eq!(mode(&scratch.path(&file)), wanted & left, "{file} of {text}, {permissions:?}");
            }
        }
        store.put(scratch.bucket(), "open/", Bytes::new(), &with(&[("mode", "042777")])).await.unwrap();
        assert_eq!(mode(&scratch.path("open")), 0o777 & left, "{permissions:?}");
    }
}

#[tokio::test]
async fn a_root_that_is_made_is_made_with_all_above_it() {
    let (scratch, store) =
        (Scratch::new(), DiskStore::new(DiskOptions { create_root: true, ..DiskOptions::default() }));
    let root = scratch.path("a/b/c");

    store.put(root.to_str().unwrap(), "k", Bytes::from_static(b"body"), &Attributes::default()).await.unwrap();

    assert_eq!(scratch.keys(), ["a/b/c/k"]);
    scratch.file("file", b"");
    let below = scratch.path("file/c");
    let answer = store.put(below.to_str().unwrap(), "k", Bytes::from_static(b"body"), &Attributes::default()).await;
    assert_eq!(code(answer), "NoSuchFolder");
}

#[tokio::test]
async fn a_file_is_replaced_whole() {
    let (scratch, store) = (Scratch::new(), store());
    put(&store, &scratch, "a", b"the first one").await.unwrap();
    let open = std::fs::File::open(scratch.path("a")).unwrap();

    put(&store, &scratch, "a", b"second").await.unwrap();

    assert_eq!(read(&store, &scratch.source("a"), None).await.unwrap(), b"second");
    assert_eq!(std::io::read_to_string(open).unwrap(), "the first one", "who reads the old one reads on");
    assert_eq!(scratch.keys(), ["a"]);
}

#[tokio::test]
async fn keys_that_are_no_paths_are_refused_and_the_rest_goes_on() {
    let (outer, store) = (Scratch::new(), store());
    let root = outer.path("root");
    std::fs::create_dir(&root).unwrap();
    let long = format!("a/{}", "n".repeat(256));
    for (key, wanted) in [
        ("../outside", "DotSegment"),
        ("a/../../outside", "DotSegment"),
        ("./a", "DotSegment"),
        ("/etc/absolute", "EmptySegment"),
        ("a//b", "EmptySegment"),
        ("", "EmptySegment"),
        ("nul\0", "NulInKey"),
        (long.as_str(), "NameTooLong"),
        ("folder/", "FolderWithBytes"),
        (".seqferry-0123456789abcdef0123456789abcdef.part", "ReservedName"),
    ] {
        let body = Bytes::from_static(b"x");
        let error = failure(store.put(root.to_str().unwrap(), key, body, &Attributes::default()).await);
        assert_eq!(
            (error.code.as_str(), error.class, error.scope),
            (wanted, ErrorClass::Object, Scope::Object),
            "{key:?}"
        );
        assert_ne!(error.advice(), seqferry_store::Advice::CheckRequest);
        assert!(!error.message.is_empty());
        let request = seqferry_store::CreateUpload {
            bucket: root.to_str().unwrap().to_owned(),
            key: key.to_owned(),
            ..Default::default()
        };
        assert_eq!(code(store.create_upload(&request).await), wanted, "{key:?}");
    }
    assert!(outer.files().is_empty(), "{:?}", outer.files());
}

#[tokio::test]
async fn odd_names_are_kept_byte_for_byte() {
    let (scratch, store) = (Scratch::new(), store());
    let long = "n".repeat(255);
    let keys = [
        "...",
        "..a",
        "a\nb",
        " ",
        "-rf",
        "a\\b",
        "\u{e9}",
        "e\u{301}",
        "*?[x]",
        "\u{1f9ec}/x",
        "\u{7f}\u{1}",
        &long,
        "CON",
    ];
    for key in keys {
        put(&store, &scratch, key, key.as_bytes()).await.unwrap_or_else(|error| panic!("{key:?}: {error}"));
    }

    for key in keys {
        assert_eq!(read(&store, &scratch.source(key), None).await.unwrap(), key.as_bytes(), "{key:?}");
    }
    assert_eq!(scratch.files().len(), keys.len());
}

#[tokio::test]
async fn files_and_folders_do_not_take_each_others_place() {
    let (scratch, store) = (Scratch::new(), store());
    scratch.file("file", b"file");
    scratch.file("folder/in", b"in");

    assert_eq!(code(put(&store, &scratch, "file/below", b"x").await), "FileInTheWay");
    assert_eq!(code(put(&store, &scratch, "file/below/more", b"x").await), "FileInTheWay");
    assert_eq!(code(put(&store, &scratch, "folder", b"x").await), "FolderInTheWay");
    assert_eq!(code(put(&store, &scratch, "file/", b"").await), "FileInTheWay");

    assert_eq!(scratch.keys(), ["file", "folder/in"], "nothing is left behind");
}

#[tokio::test]
async fn nothing_is_written_made_or_removed_through_links() {
    let (scratch, elsewhere) = (Scratch::new(), Scratch::new());
    elsewhere.file("file", b"precious");
    elsewhere.file("folder/file", b"precious");
    symlink(elsewhere.path("folder"), scratch.path("folder")).unwrap();
    symlink(elsewhere.path("file"), scratch.path("file")).unwrap();
    symlink(elsewhere.path("new"), scratch.path("dangling")).unwrap();
    let before = elsewhere.files();

    for symlinks in [Symlinks::Follow, Symlinks::Skip, Symlinks::Keep] {
        let store = DiskStore::new(DiskOptions { symlinks, ..DiskOptions::default() });
        for key in ["folder/file", "folder/new", "folder/new/deeper"] {
            assert_eq!(code(put(&store, &scratch, key, b"x").await), "SymlinkInTheWay", "{key}");
            let request = super::creation(&scratch, key, 10, 10);
            assert_eq!(code(store.create_upload(&request).await), "SymlinkInTheWay", "{key}");
            assert_eq!(code(store.delete(ObjectRef::new(scratch.bucket(), key)).await), "SymlinkInTheWay", "{key}");
        }
        assert_eq!(code(put(&store, &scratch, "folder/", b"").await), "SymlinkInTheWay");
    }
    // A link at the target itself is replaced, not followed.
    for key in ["file", "dangling"] {
        put(&store(), &scratch, key, b"mine").await.unwrap();
        assert!(scratch.path(key).symlink_metadata().unwrap().is_file());
    }

    assert_eq!(elsewhere.files(), before);
}

#[tokio::test]
async fn folders_are_made_and_kept_links_are_made_again() {
    let scratch = Scratch::new();
    let store = DiskStore::new(DiskOptions { symlinks: Symlinks::Keep, ..DiskOptions::default() });
    let attributes = with(&[("mode", "0120777"), ("mtime", "1500000000.5")]);

    store.put(scratch.bucket(), "a/empty/", Bytes::new(), &Attributes::default()).await.unwrap();
    store.put(scratch.bucket(), "a/empty/", Bytes::new(), &Attributes::default()).await.unwrap();
    let written = store.put(scratch.bucket(), "a/link", Bytes::from_static(b"../b"), &attributes).await.unwrap();

    assert!(scratch.path("a/empty").is_dir());
    assert_eq!(std::fs::read_link(scratch.path("a/link")).unwrap().to_str(), Some("../b"));
    assert_eq!(mtime(&scratch.path("a/link")), (1_500_000_000, 500_000_000));
    assert_eq!(written.etag, store.head(ObjectRef::new(scratch.bucket(), "a/link"), None).await.unwrap().etag);
    assert_eq!(code(store.put(scratch.bucket(), "bad", Bytes::new(), &attributes).await), "NameNotAllowed");
    // Stores with other options write the text as a file.
    let follow = super::store();
    follow.put(scratch.bucket(), "a/text", Bytes::from_static(b"../b"), &attributes).await.unwrap();
    assert!(scratch.path("a/text").symlink_metadata().unwrap().is_file());
}

#[tokio::test]
async fn devices_and_pipes_are_not_replaced() {
    let (scratch, store) = (Scratch::new(), store());
    rustix::fs::mknodat(rustix::fs::CWD, scratch.path("pipe"), rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();

    assert_eq!(code(put(&store, &scratch, "pipe", b"x").await), "SpecialFileInTheWay");
    let upload = super::creation(&scratch, "pipe", 5, 5);
    assert_eq!(code(store.create_upload(&upload).await), "SpecialFileInTheWay");

    assert!(scratch.path("pipe").symlink_metadata().unwrap().file_type().is_fifo());
    assert_eq!(std::fs::read_dir(scratch.path("")).unwrap().count(), 1, "nothing is left behind");
}

#[tokio::test]
async fn an_empty_folder_gets_its_time_and_permissions_back() {
    let (scratch, store) = (Scratch::new(), store());
    let attributes = with(&[("mode", "040700"), ("mtime", "978307200")]);

    store.put(scratch.bucket(), "private/", Bytes::new(), &attributes).await.unwrap();

    assert_eq!((mtime(&scratch.path("private")), mode(&scratch.path("private"))), ((978_307_200, 0), 0o700));
    // A folder with content keeps its permissions, and so does a folder with only a file's mode in the metadata.
    scratch.file("full/file", b"x");
    let before = mode(&scratch.path("full"));
    store.put(scratch.bucket(), "full/", Bytes::new(), &attributes).await.unwrap();
    store.put(scratch.bucket(), "other/", Bytes::new(), &with(&[("mode", "0100600")])).await.unwrap();
    assert_eq!((mode(&scratch.path("full")), mode(&scratch.path("other"))), (before, before));
}

#[tokio::test]
async fn what_writers_left_that_are_gone_is_removed_and_what_others_write_is_not() {
    let (scratch, store) = (Scratch::new(), store());
    let name = |digit: &str, kind: &str| format!("f/.seqferry-{}.{kind}", digit.repeat(32));
    scratch.file(&name("a", "tmp"), b"half");
    scratch.file(&name("b", "tmp"), b"being written");
    scratch.file(&name("c", "parts"), b"a record without bytes");
    scratch.file(&name("d", "part"), b"bytes");
    scratch.file(&name("d", "parts"), b"a record");
    scratch.file("f/.seqferry-mine.tmp", b"not ours");
    let alive = std::fs::File::open(scratch.path(&name("b", "tmp"))).unwrap();
    rustix::fs::flock(&alive, FlockOperation::LockExclusive).unwrap();

    put(&store, &scratch, "f/file", b"x").await.unwrap();

    let mut left = vec![name("b", "tmp"), name("d", "part"), name("d", "parts")];
    left.extend(["f/.seqferry-mine.tmp".to_owned(), "f/file".to_owned()]);
    assert_eq!(scratch.keys(), left);
}

#[tokio::test]
async fn deletion_is_repeatable_and_spares_folders_that_hold_something() {
    let (scratch, store) = (Scratch::new(), store());
    scratch.file("a/b", b"x");
    std::fs::create_dir(scratch.path("empty")).unwrap();

    for key in ["a", "a/", "absent", "absent/below", "a/b/below", "empty"] {
        store.delete(ObjectRef::new(scratch.bucket(), key)).await.unwrap_or_else(|error| panic!("{key}: {error}"));
    }
    assert_eq!(scratch.keys(), ["a/b"]);
    assert!(scratch.path("empty").is_dir(), "only the key with a slash is the folder's");
    for _ in 0..2 {
        store.delete(ObjectRef::new(scratch.bucket(), "a/b")).await.unwrap();
        store.delete(ObjectRef::new(scratch.bucket(), "empty/")).await.unwrap();
    }
    assert!(scratch.keys().is_empty() && !scratch.path("empty").exists());
}

#[tokio::test]
async fn the_root_is_made_only_when_that_is_wished() {
    let scratch = Scratch::new();
    let root = scratch.path("new/root");
    let write = async |store: DiskStore| {
        store.put(root.to_str().unwrap(), "k", Bytes::from_static(b"x"), &Attributes::default()).await
    };

    let error = failure(write(store()).await);
    assert_eq!((error.code.as_str(), error.scope), ("NoSuchFolder", Scope::Job));
    write(DiskStore::new(DiskOptions { create_root: true, ..DiskOptions::default() })).await.unwrap();
    assert_eq!(scratch.keys(), ["new/root/k"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_writers_share_folders() {
    let (scratch, store) = (Scratch::new(), std::sync::Arc::new(store()));
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..200_u32 {
        let (store, bucket) = (std::sync::Arc::clone(&store), scratch.bucket().to_owned());
        tasks.spawn(async move {
            let key = format!("{}/{}/{number}", number % 3, number % 7);
            store.put(&bucket, &key, number.to_string().into(), &Attributes::default()).await
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap().unwrap();
    }

    let files = scratch.files();
    assert_eq!(files.len(), 200);
    assert!(files.iter().all(|(key, body)| key.ends_with(&format!("/{}", String::from_utf8_lossy(body)))));
}

/// Bytes that are aligned to blocks of a disk, like those read from a connection, or not.
fn lying(bytes: &[u8], as_blocks: bool) -> Bytes {
    const BLOCK: usize = 4096;
    let mut memory: Vec<u8> = Vec::with_capacity(bytes.len() + 2 * BLOCK);
    let begin = memory.as_ptr().align_offset(BLOCK) + usize::from(!as_blocks);
    memory.resize(begin, 0);
    memory.extend_from_slice(bytes);
    Bytes::from(memory).slice(begin..)
}

#[tokio::test]
async fn whole_files_pass_the_cache_unless_they_are_small_or_wanted_there() {
    const WORTH: usize = 64 << 10;
    const MIB: usize = 1 << 20;
    for (cache, as_blocks) in [(PageCache::Bypass, true), (PageCache::Bypass, false), (PageCache::Use, true)] {
        for size in [0, 1, WORTH - 1, WORTH, WORTH + 1, MIB, MIB + 5, 3 * MIB - 1] {
            let scratch = Scratch::new();
            let store = DiskStore::new(DiskOptions { cache, ..DiskOptions::default() });
            let body = pattern(size, 3);

            store.put(scratch.bucket(), "k", lying(&body, as_blocks), &Attributes::default()).await.unwrap();

            match cached(&scratch.path("k")) {
                None => eprintln!("SKIPPED: no ext4 or XFS here, or no fincore to look with"),
                Some(bytes) if cache == PageCache::Bypass && as_blocks && size >= WORTH => {
                    assert!(bytes <= 8 << 10, "{bytes} of {size} are in the cache");
                }
                Some(bytes) => assert!(bytes >= size as u64, "{bytes} of {size} are in the cache"),
            }
            assert!(scratch.files() == [("k".to_owned(), body)].into(), "{size} bytes");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_at_a_time_each_is_told_what_became_of_its_own() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.path("folder")).unwrap();
    std::fs::write(scratch.path("file"), "in the way").unwrap();
    let store = std::sync::Arc::new(DiskStore::new(DiskOptions::default()));
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..300_u32 {
        let (store, bucket) = (std::sync::Arc::clone(&store), scratch.bucket().to_owned());
        let key = match number % 10 {
            3 => "folder".to_owned(),
            5 => format!("file/{number}"),
            7 => format!("a/../{number}"),
            _ => format!("{}/{number}", number % 4),
        };
        tasks.spawn(async move {
            let etag = store.put(&bucket, &key, number.to_string().into(), &Attributes::default()).await;
            (number, key, etag)
        });
    }

    let mut written = 0;
    while let Some(done) = tasks.join_next().await {
        let (number, key, result) = done.unwrap();
        match (number % 10, result) {
            (3, Err(error)) => assert_eq!(error.code, "FolderInTheWay"),
            (5, Err(error)) => assert_eq!(error.code, "FileInTheWay"),
            (7, Err(error)) => assert_eq!(error.code, "DotSegment"),
            (_, Ok(object)) => {
                written += 1;
                let meta = store.head(ObjectRef::new(scratch.bucket(), &key), None).await.unwrap();
                assert_eq!(object.etag, meta.etag, "{key}");
                assert_eq!(std::fs::read_to_string(scratch.path(&key)).unwrap(), number.to_string());
            }
            (_, result) => panic!("{key}: {result:?}"),
        }
    }

    assert_eq!(written, 210);
    assert_eq!(scratch.files().len(), 211, "and the one that was there: nothing unfinished is left");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_begun_is_written_though_nobody_waits_for_it() {
    let scratch = Scratch::new();
    let store = DiskStore::new(DiskOptions::default());
    for number in 0..20_u32 {
        let (key, attributes) = (number.to_string(), Attributes::default());
        // The future is polled once, and then dropped.
        let _result = futures::poll!(Box::pin(store.put(scratch.bucket(), &key, "bytes".into(), &attributes)));
    }

    let all = async {
        // The names are checked, since unfinished files may vanish during a listing.
        while !(0..20_u32).all(|number| scratch.path(&number.to_string()).exists()) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(30), all).await.expect("all of them");
}
