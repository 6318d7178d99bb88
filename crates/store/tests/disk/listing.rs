//! Tests of listings.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;

use proptest::prelude::*;
use seqferry_store::prelude::*;
use seqferry_store::{DiskOptions, DiskStore, ListRequest, ListedObject, ObjectRef, Symlinks};

use super::{Scratch, everything, list, store};

fn keys(objects: &[ListedObject]) -> Vec<String> {
    objects.iter().filter(|object| object.refusal.is_none()).map(|object| object.key.clone()).collect()
}

fn refused(objects: &[ListedObject]) -> Vec<(String, &'static str)> {
    objects
        .iter()
        .filter_map(|object| object.refusal.as_ref().map(|refusal| (object.key.clone(), refusal.code)))
        .collect()
}

/// Folders of few names, some with a name that sorts about `/`, so that a walk's order could go wrong.
fn tree() -> impl Strategy<Value = BTreeSet<String>> {
    let name = prop_oneof!["[ab]", "[ab][!.0-]", "[ab]{2}", "\u{e9}"];
    let key = proptest::collection::vec(name, 1..4).prop_map(|names| names.join("/"));
    proptest::collection::btree_set(key, 0..40)
}

/// Creates a file for each key that can exist beside the others, and returns these keys.
fn planted(scratch: &Scratch, keys: &BTreeSet<String>) -> BTreeSet<String> {
    keys.iter()
        .filter(|key| !keys.iter().any(|other| other.starts_with(&format!("{key}/"))))
        .inspect(|key| scratch.file(key, key.as_bytes()))
        .cloned()
        .collect()
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn every_key_is_listed_once_in_the_order_of_keys(
        tree in tree(),
        prefix in prop_oneof![Just(""), Just("a"), Just("a/"), Just("a/b"), Just("b/a/"), Just("/"), Just("a//")],
        after in prop_oneof![Just(None), "[ab/!.0-]{1,5}".prop_map(Some)],
        page in 1..7_i32,
        forgets in any::<bool>(),
        names in 1..5_usize,
    ) {
        let scratch = Scratch::new();
        let keys = planted(&scratch, &tree);
        let expected: Vec<String> = keys
            .into_iter()
            .filter(|key| key.starts_with(prefix) && after.as_ref().is_none_or(|after| key > after))
            .collect();
        let listed = runtime().block_on(async {
            let options = || DiskOptions { names_per_pass: names, ..DiskOptions::default() };
            let mut store = DiskStore::new(options());
            let mut request = ListRequest {
                prefix: prefix.to_owned(), start_after: after.clone(), max_keys: Some(page), ..everything(&scratch)
            };
            let mut listed = Vec::new();
            loop {
                let answer = store.list(&request).await.unwrap();
                prop_assert!(answer.objects.len() <= usize::try_from(page).unwrap());
                listed.extend(answer.objects.into_iter().map(|object| object.key));
                request.continuation = answer.continuation;
                if request.continuation.is_none() { return Ok(listed) }
                // The store acts like a process that continues with another one's token.
                if forgets { store = DiskStore::new(options()); }
            }
        })?;
        prop_assert_eq!(listed, expected);
    }

    #[test]
    fn groups_are_folders(tree in tree(), page in 1..5_i32, forgets in any::<bool>()) {
        let scratch = Scratch::new();
        let keys = planted(&scratch, &tree);
        for prefix in ["", "a", "a/", "b/a"] {
            let (mut single, mut groups) = (BTreeSet::new(), BTreeSet::new());
            for key in keys.iter().filter(|key| key.starts_with(prefix)) {
                match key[prefix.len()..].find('/') {
                    Some(at) => groups.insert(key[..=prefix.len() + at].to_owned()),
                    None => single.insert(key.clone()),
                };
            }
            let (objects, prefixes) = runtime().block_on(async {
                let mut store = store();
                let (mut objects, mut prefixes) = (Vec::new(), Vec::new());
                let mut request = ListRequest {
                    prefix: prefix.to_owned(), delimiter: Some("/".to_owned()), max_keys: Some(page), ..everything(&scratch)
                };
                loop {
                    let answer = store.list(&request).await.unwrap();
                    objects.extend(answer.objects.into_iter().map(|object| object.key));
                    prefixes.extend(answer.common_prefixes);
                    request.continuation = answer.continuation;
                    if request.continuation.is_none() { return (objects, prefixes) }
                    if forgets { store = super::store(); }
                }
            });
            prop_assert_eq!(objects, single.into_iter().collect::<Vec<_>>());
            prop_assert_eq!(prefixes, groups.into_iter().collect::<Vec<_>>());
        }
    }
}

#[tokio::test]
async fn listed_facts_are_those_of_head() {
    let (scratch, store) = (Scratch::new(), store());
    scratch.file("a/b", b"12345");

    let [object] = &list(&store, everything(&scratch)).await[..] else { panic!("one object") };
    let meta = store.head(ObjectRef::new(scratch.bucket(), "a/b"), None).await.unwrap();
    assert_eq!((object.size, &object.etag), (5, &meta.etag));
    assert!((object.last_modified - meta.last_modified).abs() < 1e-6);
}

#[tokio::test]
async fn what_cannot_be_an_object_is_listed_with_its_reason() {
    let (scratch, store) = (Scratch::new(), store());
    scratch.file("a", b"a");
    scratch.file("z/z", b"z");
    for name in [&b"bad-\xff"[..], b"bad-\xff-too"] {
        std::fs::write(scratch.folder.join(OsStr::from_bytes(name)), b"x").unwrap();
    }
    std::fs::create_dir(scratch.folder.join(OsStr::from_bytes(b"folder-\xfe"))).unwrap();
    std::fs::write(scratch.folder.join(OsStr::from_bytes(b"folder-\xfe/in")), b"x").unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, scratch.path("pipe"), rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(scratch.path("socket")).unwrap();
    symlink("nowhere", scratch.path("dangling")).unwrap();
    symlink("itself", scratch.path("itself")).unwrap();
    symlink(".", scratch.path("z/loop")).unwrap();
    symlink("..", scratch.path("z/up")).unwrap();

    for max_keys in [None, Some(1), Some(3)] {
        let listed = list(&store, ListRequest { max_keys, ..everything(&scratch) }).await;

        assert_eq!(keys(&listed), ["a", "z/z"]);
        let expected = [
            ("bad-\\xff", "NameNotUtf8"),
            ("bad-\\xff-too", "NameNotUtf8"),
            ("dangling", "SymlinkDangling"),
            ("folder-\\xfe/", "NameNotUtf8"),
            ("itself", "SymlinkLoop"),
            ("pipe", "SpecialFile"),
            ("socket", "SpecialFile"),
            ("z/loop/", "SymlinkLoop"),
            ("z/up/", "SymlinkLoop"),
        ];
        assert_eq!(refused(&listed), expected.map(|(key, code)| (key.to_owned(), code)));
    }
}

#[tokio::test]
async fn links_are_listed_as_was_chosen() {
    let (scratch, elsewhere) = (Scratch::new(), Scratch::new());
    elsewhere.file("far/file", b"far away");
    symlink(elsewhere.path("far"), scratch.path("folder")).unwrap();
    symlink(elsewhere.path("far/file"), scratch.path("file")).unwrap();
    let listed = async |symlinks| {
        let store = DiskStore::new(DiskOptions { symlinks, ..DiskOptions::default() });
        list(&store, everything(&scratch)).await
    };

    let follow = listed(Symlinks::Follow).await;
    assert_eq!(follow.iter().map(|o| (o.key.as_str(), o.size)).collect::<Vec<_>>(), [("file", 8), ("folder/file", 8)]);
    let skip = listed(Symlinks::Skip).await;
    assert_eq!(refused(&skip), [("file".to_owned(), "SymlinkSkipped"), ("folder".to_owned(), "SymlinkSkipped")]);
    let keep = listed(Symlinks::Keep).await;
    assert_eq!(keys(&keep), ["file", "folder"]);
    assert_eq!(keep[1].size, elsewhere.path("far").to_str().unwrap().len() as u64);
}

#[tokio::test]
async fn empty_folders_are_listed_when_that_is_wished() {
    let scratch = Scratch::new();
    scratch.file("a/file", b"x");
    scratch.file(&format!("ours/.seqferry-{}.part", "0".repeat(32)), b"half");
    std::fs::create_dir_all(scratch.path("b/empty")).unwrap();
    let wishing = DiskStore::new(DiskOptions { empty_folders: true, ..DiskOptions::default() });

    assert_eq!(keys(&list(&store(), everything(&scratch)).await), ["a/file"]);
    for max_keys in [None, Some(1)] {
        let listed = list(&wishing, ListRequest { max_keys, ..everything(&scratch) }).await;
        assert_eq!(keys(&listed), ["a/file", "b/empty/", "ours/"]);
        let folder = wishing.head(ObjectRef::new(scratch.bucket(), "b/empty/"), None).await.unwrap();
        assert_eq!((listed[1].size, &listed[1].etag), (0, &folder.etag));
    }
    let below = ListRequest { prefix: "b/empty/".to_owned(), ..everything(&scratch) };
    assert_eq!(keys(&list(&wishing, below).await), ["b/empty/"]);
}

#[tokio::test]
async fn deep_trees_are_walked_with_few_open_folders() {
    let (scratch, store) = (Scratch::new(), store());
    let deep = vec!["d"; 60].join("/");
    scratch.file(&format!("{deep}/file"), b"x");
    for depth in [1, 10, 40] {
        scratch.file(&format!("{}/z", vec!["d"; depth].join("/")), b"x");
    }

    let listed = list(&store, ListRequest { max_keys: Some(1), ..everything(&scratch) }).await;

    assert_eq!(listed.len(), 4);
    assert_eq!(listed[0].key, format!("{deep}/file"));
}

#[tokio::test]
async fn a_listing_of_a_root_that_is_not_there_is_an_error_and_of_nothing_is_empty() {
    let (scratch, store) = (Scratch::new(), store());
    let absent = ListRequest { bucket: format!("{}/absent", scratch.bucket()), ..ListRequest::default() };
    assert_eq!(super::code(store.list(&absent).await), "NoSuchFolder");
    for prefix in ["nothing", "nothing/at/all", "..", "../", "/", "a//b"] {
        let request = ListRequest { prefix: prefix.to_owned(), ..everything(&scratch) };
        assert!(list(&store, request).await.is_empty(), "{prefix}");
    }
}
