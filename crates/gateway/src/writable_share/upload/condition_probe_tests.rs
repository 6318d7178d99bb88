//! Conditions of all writes to the bucket, on services that keep them, ignore them and refuse them.

use std::collections::BTreeSet;

use bytes::Bytes;
use seqferry_share::{SetAttributes, Share as _, Stability};
use seqferry_store::prelude::*;
use seqferry_store_testing::fault::{Fault, FaultStore, Hook, Latch, Rule};
use seqferry_store_testing::{ConditionalWrite, MemoryStore, ObjectWriteExt as _};

use super::super::tests::{Setting, random, root};
use super::tests::{Running, keys, objects, store_of};
use super::*;

/// A write request of a share, and the change that makes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Write {
    NewSmall,
    NewLarge,
    RewrittenSmall,
    RewrittenLarge,
    Renamed,
    RenamedLarge,
    RenamedOver,
    Attributes,
    Marker,
    /// A marker of a folder that the service shows as an object without one.
    ImpliedMarker,
}

const WRITES: [Write; 10] = [
    Write::NewSmall,
    Write::NewLarge,
    Write::RewrittenSmall,
    Write::RewrittenLarge,
    Write::Renamed,
    Write::RenamedLarge,
    Write::RenamedOver,
    Write::Attributes,
    Write::Marker,
    Write::ImpliedMarker,
];

impl Write {
    /// The request that makes the object, and the key of the object.
    fn request(self) -> (&'static str, &'static str) {
        match self {
            Self::NewSmall => ("PutObject", "p/d/new"),
            Self::NewLarge => ("CompleteMultipartUpload", "p/d/new"),
            Self::RewrittenSmall => ("PutObject", "p/d/small"),
            Self::RewrittenLarge => ("CompleteMultipartUpload", "p/d/large"),
            Self::Renamed | Self::RenamedOver => ("CopyObject", "p/d/target"),
            Self::RenamedLarge => ("CompleteMultipartUpload", "p/d/target"),
            Self::Attributes => ("CopyObject", "p/d/small"),
            Self::Marker | Self::ImpliedMarker => ("PutObject", "p/d/folder/"),
        }
    }

    async fn prepare(self, store: MemoryStore) -> Setting {
        let mut before = vec![("d/small", b"small".to_vec()), ("d/large", b"l".repeat(2500))];
        if self == Self::RenamedOver {
            before.push(("d/target", b"to be replaced".to_vec()));
        }
        let store = if self == Self::ImpliedMarker { store.with_implied_folders() } else { store };
        let setting = Setting::over(store, &before).await;
        let directory = setting.id("d").await;
        let rename = async |from: &str| {
            setting.share.rename(&root(), directory, from.as_bytes(), directory, b"target").await.unwrap();
        };
        match self {
            Self::NewSmall => {
                let _file = setting.put("d/new", "mine").await;
            }
            Self::NewLarge => {
                let _file = setting.put("d/new", &"m".repeat(2500)).await;
            }
            Self::RewrittenSmall | Self::RewrittenLarge => {
                let (path, size) = if self == Self::RewrittenSmall { ("d/small", 5) } else { ("d/large", 2500) };
                let file = setting.id(path).await;
                setting.write(file, 0, &"m".repeat(size), Stability::File).await.unwrap();
            }
            Self::Renamed | Self::RenamedOver => rename("small").await,
            Self::RenamedLarge => rename("large").await,
            Self::Attributes => {
                let mode = SetAttributes { mode: Some(0o600), ..SetAttributes::default() };
                setting.share.set_attributes(&root(), setting.id("d/small").await, mode, None).await.unwrap();
            }
            Self::Marker | Self::ImpliedMarker => {
                let plain = SetAttributes::default();
                setting.share.create_directory(&root(), directory, b"folder", plain).await.unwrap();
                if self == Self::ImpliedMarker {
                    setting.store.put("b", "p/d/folder/f", Bytes::new(), &<_>::default()).await.unwrap();
                }
            }
        }
        setting
    }
}

/// A service, by the requests whose conditions it ignores.
const SERVICES: [(&str, &[ConditionalWrite]); 5] = [
    ("keeps all", &[]),
    ("ignores those of puts", &[ConditionalWrite::Put]),
    ("ignores those of copies", &[ConditionalWrite::Copy]),
    ("ignores those of completions", &[ConditionalWrite::Complete]),
    ("ignores all", &[ConditionalWrite::Put, ConditionalWrite::Copy, ConditionalWrite::Complete]),
];

/// A hook by which another program writes an object of its own under a key.
fn another_program(setting: &Setting, key: &'static str) -> Hook {
    let other = Arc::clone(&setting.store);
    Hook(Arc::new(move || {
        let other = Arc::clone(&other);
        Box::pin(async move {
            other.put("b", key, Bytes::from_static(b"theirs"), &<_>::default()).await.unwrap();
        })
    }))
}

/// The table of writes in docs/use/gateway.md, request by request.
#[tokio::test(start_paused = true)]
async fn no_write_replaces_an_object_that_came_between_two_attempts() {
    for (name, ignored) in SERVICES {
        for write in WRITES {
            let setting = write.prepare(MemoryStore::new(1).ignoring_conditions_of(ignored)).await;
            let (operation, key) = write.request();
            let store = store_of(&setting);
            let fault = Fault::FailAfter(another_program(&setting, key), "InternalError", 500);
            store.rule(Rule::once(operation, fault).key(key));

            Running::probing(&setting, Arc::clone(&store) as Arc<dyn ObjectStore>).drain(&setting).await;

            let found = objects(&setting).await;
            assert_eq!(found[&key["p/".len()..]], b"theirs", "{name}: {write:?}");
            let keys = keys(&setting).await;
            assert!(!keys.iter().any(|key| key.contains("probe")), "{name}: {write:?}: {keys:?}");
            assert!(setting.store.list_uploads("b", "").await.unwrap().is_empty(), "{name}: {write:?}");
            if !matches!(write, Write::Marker | Write::ImpliedMarker | Write::Attributes) {
                assert!(keys.iter().any(|key| key.starts_with(".seqferry-conflicts/")), "{name}: {write:?}: {keys:?}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn no_write_replaces_an_object_that_came_right_before_it_where_conditions_are_kept() {
    // An implied marker can have no condition.
    for write in WRITES.into_iter().filter(|write| *write != Write::ImpliedMarker) {
        let setting = write.prepare(MemoryStore::new(1)).await;
        let (operation, key) = write.request();
        let store = store_of(&setting);
        store.rule(Rule::once(operation, Fault::Hook(another_program(&setting, key))).key(key));

        Running::probing(&setting, Arc::clone(&store) as Arc<dyn ObjectStore>).drain(&setting).await;

        assert_eq!(objects(&setting).await[&key["p/".len()..]], b"theirs", "{write:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn each_kind_of_request_is_probed_once_and_alone() {
    let setting = Setting::over(
        MemoryStore::new(1).ignoring_conditions_of(&[ConditionalWrite::Copy]),
        &[("d/one", b"1".to_vec()), ("d/two", b"2".to_vec())],
    )
    .await;
    let directory = setting.id("d").await;
    let store = store_of(&setting);
    let probes = |store: &FaultStore| {
        let probes = store.requests().into_iter().filter(|request| request.key.contains(".seqferry-probe"));
        let made = probes
            .filter(|request| ["PutObject", "CopyObject", "CompleteMultipartUpload"].contains(&request.operation));
        made.map(|request| request.operation).collect::<BTreeSet<_>>()
    };
    setting.put("d/new", "new").await;
    let running = Running::probing(&setting, Arc::clone(&store) as Arc<dyn ObjectStore>);
    while setting.share.waiting() > 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(probes(&store), BTreeSet::from(["PutObject"]), "a share that only puts probes no more");
    for name in ["one", "two"] {
        let to = format!("{name}.moved");
        setting.share.rename(&root(), directory, name.as_bytes(), directory, to.as_bytes()).await.unwrap();
    }
    running.drain(&setting).await;

    assert_eq!(probes(&store), BTreeSet::from(["CopyObject", "PutObject"]));
    let copies = store.requests().into_iter().filter(|request| request.operation == "CopyObject");
    let probing = copies.filter(|request| request.key.contains("probe")).count();
    assert_eq!(probing, 1, "the first answer shows that the condition is ignored");
    assert_eq!(keys(&setting).await, ["d/new", "d/one.moved", "d/two.moved"]);
}

#[tokio::test]
async fn probes_that_a_kill_has_cut_off_are_removed() {
    for (write, operation) in [
        (Write::NewSmall, "PutObject"),
        (Write::Renamed, "CopyObject"),
        (Write::NewLarge, "UploadPart"),
        (Write::NewLarge, "AbortMultipartUpload"),
    ] {
        let setting = write.prepare(MemoryStore::new(1)).await;
        let (store, latch) = (store_of(&setting), Latch::default());
        let key = if operation == "CopyObject" { "p/.seqferry-probe-copy" } else { "p/.seqferry-probe" };
        store.rule(Rule::once(operation, Fault::HoldReply(latch.clone())).key(key));
        let running = Running::probing(&setting, Arc::clone(&store) as Arc<dyn ObjectStore>);
        latch.reached().await;
        running.kill().await;
        assert!(setting.names("", 9).await.iter().all(|name| !name.contains("probe")), "{write:?}");

        let setting = setting.restarted(&mut random(), true).await;
        Running::probing(&setting, store_of(&setting) as Arc<dyn ObjectStore>).drain(&setting).await;

        assert!(keys(&setting).await.iter().all(|key| !key.contains("probe")), "{write:?}");
        assert!(setting.store.list_uploads("b", "").await.unwrap().is_empty(), "{write:?}");
    }
}
