//! Uploads to a store in memory, with kills of the process and losses of power at any step.

use std::collections::BTreeMap;

use bytes::Bytes;
use seqferry_client::{Budget, BudgetLimits, ConditionalRequest, Endpoint, RequestMetrics, RetryPolicy};
use seqferry_share::{SetAttributes, Share as _, Stability, TimeUpdate};
use seqferry_store::prelude::*;
use seqferry_store::{ChecksumKind, ListRequest, ObjectMeta, ObjectRef, PinnedObject, StoredMetadata};
use seqferry_store_testing::ObjectWriteExt as _;
use seqferry_store_testing::fault::{Fault, FaultStore, Latch, Rule};
use tokio::task::JoinHandle;

use super::super::tests::{Setting, random, root};
use super::*;

pub(super) const QUIET: Duration = Duration::from_millis(20);

pub(super) fn spec(store: Arc<dyn ObjectStore>) -> UploadSpec {
    let (budget, metrics) = (Budget::new(BudgetLimits::default()), Arc::new(RequestMetrics::default()));
    let client =
        RetryingClient::new(Endpoint::new(store), budget, RetryPolicy::impatient(), CancellationToken::new(), metrics);
    let (bucket, prefix) = ("b".to_owned(), "p/".to_owned());
    // Found out by an earlier file: most tests count requests.
    for request in [ConditionalRequest::Copy, ConditionalRequest::Complete] {
        client.quirks().learn_kept_conditions(request);
    }
    UploadSpec {
        client,
        bucket,
        prefix,
        objects: ObjectProperties::default(),
        quiet: QUIET,
        part_size: Some(1000),
        long: None,
        largest_copy: Some(2000),
    }
}

/// An uploader that runs until it is killed or has nothing left to do.
pub(super) struct Running {
    task: JoinHandle<()>,
    stop: CancellationToken,
}

impl Running {
    pub(super) fn start(setting: &Setting, store: Arc<dyn ObjectStore>) -> Self {
        Self::with_settle_time(setting, store, QUIET)
    }

    /// An uploader of files that were quiet for this time.
    pub(super) fn with_settle_time(setting: &Setting, store: Arc<dyn ObjectStore>, quiet: Duration) -> Self {
        Self::with(setting, UploadSpec { quiet, ..spec(store) })
    }

    /// An uploader that knows nothing of the conditions that the service keeps.
    pub(super) fn probing(setting: &Setting, store: Arc<dyn ObjectStore>) -> Self {
        let (budget, metrics) = (Budget::new(BudgetLimits::default()), Arc::new(RequestMetrics::default()));
        let (policy, cancel) = (RetryPolicy::impatient(), CancellationToken::new());
        let client = RetryingClient::new(Endpoint::new(Arc::clone(&store)), budget, policy, cancel, metrics);
        Self::with(setting, UploadSpec { client, ..spec(store) })
    }

    pub(super) fn with(setting: &Setting, spec: UploadSpec) -> Self {
        let (share, stop) = (setting.share.clone(), CancellationToken::new());
        let until = stop.clone();
        Self { task: tokio::spawn(async move { share.upload(spec, until).await }), stop }
    }

    pub(super) async fn kill(self) {
        self.task.abort();
        let _ended = self.task.await;
    }

    pub(super) async fn drain(self, setting: &Setting) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while setting.share.waiting() > 0 {
            assert!(Instant::now() < deadline, "it still has work to do");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        self.stop.cancel();
        self.task.await.unwrap();
    }
}

pub(super) fn store_of(setting: &Setting) -> Arc<FaultStore> {
    Arc::new(FaultStore::new(Arc::clone(&setting.store) as Arc<dyn ObjectStore>))
}

pub(super) async fn drained(setting: &Setting) -> Arc<FaultStore> {
    let store = store_of(setting);
    Running::start(setting, Arc::clone(&store) as Arc<dyn ObjectStore>).drain(setting).await;
    store
}

/// Objects of the bucket below the share, and their bytes.
pub(super) async fn objects(setting: &Setting) -> BTreeMap<String, Vec<u8>> {
    let request = ListRequest { bucket: "b".to_owned(), prefix: "p/".to_owned(), ..ListRequest::default() };
    let mut found = BTreeMap::new();
    for object in setting.store.list(&request).await.unwrap().objects {
        let meta = setting.store.head(ObjectRef::new("b", &object.key), None).await.unwrap();
        let pinned = PinnedObject::of("b", &object.key, &meta);
        let mut body = setting.store.get(&pinned, None).await.unwrap();
        let bytes = body.take(usize::try_from(meta.size).unwrap(), |_| ()).await.unwrap();
        found.insert(object.key["p/".len()..].to_owned(), bytes.to_vec());
    }
    found
}

pub(super) async fn head(setting: &Setting, path: &str) -> ObjectMeta {
    setting.store.head(ObjectRef::new("b", &format!("p/{path}")), None).await.unwrap()
}

pub(super) async fn keys(setting: &Setting) -> Vec<String> {
    objects(setting).await.into_keys().collect()
}

/// Requests that made a version of an object, the probe apart.
fn versions(store: &FaultStore) -> Vec<(&'static str, String)> {
    let makes = ["PutObject", "CompleteMultipartUpload", "CopyObject"];
    let made = store.requests().into_iter().filter(|request| makes.contains(&request.operation));
    made.map(|request| (request.operation, request.key)).filter(|(_, key)| !key.ends_with(".seqferry-probe")).collect()
}

#[tokio::test]
async fn each_file_that_has_settled_becomes_one_version_with_its_facts_and_checksum() {
    let setting = Setting::new(&[]).await;
    let top = setting.share.root();
    let made = setting.share.create_directory(&root(), top, b"run", SetAttributes::default()).await;
    made.unwrap();
    let small = setting.put("run/small", "hello").await;
    let large: String = "0123456789".repeat(350);
    let large_file = setting.put("run/large", &large).await;
    // Written without a commit: the quiet time is all that says that it is whole.
    setting.write(large_file, 3500, "end", Stability::Unstable).await.unwrap();
    let target = Bytes::from_static(b"small");
    setting.share.create_link(&root(), top, b"link", target, SetAttributes::default()).await.unwrap();
    let at = std::time::UNIX_EPOCH + Duration::from_nanos(1_600_000_000_123_456_789);
    let set = SetAttributes {
        mode: Some(0o640),
        uid: Some(7),
        gid: Some(8),
        modified: Some(TimeUpdate::At(at)),
        ..SetAttributes::default()
    };
    setting.share.set_attributes(&root(), small, set, None).await.unwrap();
    let store = drained(&setting).await;
    let expected = BTreeMap::from([
        ("link".to_owned(), b"small".to_vec()),
        ("run/".to_owned(), Vec::new()),
        ("run/large".to_owned(), format!("{large}end").into_bytes()),
        ("run/small".to_owned(), b"hello".to_vec()),
    ]);
    assert_eq!(objects(&setting).await, expected);
    let mut made = versions(&store);
    made.sort();
    let made: Vec<(&str, &str)> = made.iter().map(|(operation, key)| (*operation, key.as_str())).collect();
    let put = "PutObject";
    assert_eq!(
        made,
        [("CompleteMultipartUpload", "p/run/large"), (put, "p/link"), (put, "p/run/"), (put, "p/run/small")]
    );
    let meta = head(&setting, "run/small").await;
    let facts = StoredMetadata::of(&meta.attributes.metadata);
    assert_eq!(facts.modified, Some((1_600_000_000, 123_456_789)));
    assert_eq!((facts.mode, facts.uid, facts.gid), (Some(0o100_640), Some(7), Some(8)));
    let checksum = head(&setting, "run/large").await.checksum.unwrap();
    assert_eq!((checksum.algorithm.name(), checksum.kind), ("CRC64NVME", ChecksumKind::FullObject));
    assert!(StoredMetadata::of(&head(&setting, "link").await.attributes.metadata).is_link());
    // The files are what they were, with their handles, also for the next process; nothing is kept twice.
    let setting = setting.restarted(&mut random(), true).await;
    assert_eq!((setting.id("run/small").await, setting.id("run/large").await), (small, large_file));
    assert_eq!(setting.text("run/large").await, format!("{large}end"));
    let shown = setting.find("run/small").await.unwrap();
    assert_eq!((shown.mode, shown.uid, shown.gid, shown.modified), (0o640, 7, 8, at));
    assert!(setting.data.names().unwrap().is_empty());
    assert_eq!(versions(&*drained(&setting).await), []);
}

#[tokio::test]
async fn removals_and_renames_of_what_the_bucket_has_are_made_there() {
    let objects_before = [("d/a", b"a".to_vec()), ("d/b", b"bb".to_vec()), ("d/c", b"c".to_vec())];
    let setting = Setting::new(&objects_before).await;
    let directory = setting.id("d").await;
    let b = setting.id("d/b").await;
    setting.share.remove(&root(), directory, b"a").await.unwrap();
    setting.share.rename(&root(), directory, b"b", directory, b"renamed").await.unwrap();
    // A new file at the name of one that was renamed, and one over another.
    setting.put("d/b", "new").await;
    setting.put("d/temporary", "over c").await;
    setting.share.rename(&root(), directory, b"temporary", directory, b"c").await.unwrap();
    let store = drained(&setting).await;
    let expected = [("d/b", "new"), ("d/c", "over c"), ("d/renamed", "bb")];
    let found = objects(&setting).await;
    assert_eq!(
        found.iter().map(|(key, body)| (key.as_str(), &body[..])).collect::<Vec<_>>(),
        expected.map(|(key, text)| (key, text.as_bytes()))
    );
    assert_eq!(versions(&store).len(), 3);
    assert_eq!(store.count("GetObject"), 0, "a rename is a copy within the service");
    assert_eq!(setting.id("d/renamed").await, b);
    for (path, text) in expected {
        assert_eq!(setting.text(path).await, text);
    }
    assert_eq!(setting.names("d", 9).await, ["b", "c", "renamed"]);
    // Two files that change places need each other's object.
    setting.share.rename(&root(), directory, b"b", directory, b"between").await.unwrap();
    setting.share.rename(&root(), directory, b"c", directory, b"b").await.unwrap();
    setting.share.rename(&root(), directory, b"between", directory, b"c").await.unwrap();
    drained(&setting).await;
    let found = objects(&setting).await;
    assert_eq!((&found["d/b"][..], &found["d/c"][..], found.len()), (&b"over c"[..], &b"new"[..], 3));
    // Other attributes of an object stay with it when a part of it is overwritten.
    let attributes = seqferry_store::Attributes {
        content_type: Some("text/x".to_owned()),
        metadata: BTreeMap::from([("own".to_owned(), "value".to_owned())]),
        ..seqferry_store::Attributes::default()
    };
    setting.store.put("b", "p/d/facts", Bytes::from_static(b"0123456789"), &attributes).await.unwrap();
    let setting = setting.restarted(&mut random(), false).await;
    setting.write(setting.id("d/facts").await, 3, "xyz", Stability::File).await.unwrap();
    drained(&setting).await;
    let meta = head(&setting, "d/facts").await;
    assert_eq!(meta.attributes.content_type.as_deref(), Some("text/x"));
    assert_eq!(meta.attributes.metadata["own"], "value");
    assert_eq!(objects(&setting).await["d/facts"], b"012xyz6789");
    for name in ["b", "c", "renamed", "facts"] {
        setting.share.remove(&root(), setting.id("d").await, name.as_bytes()).await.unwrap();
    }
    setting.share.remove_directory(&root(), setting.share.root(), b"d").await.unwrap();
    drained(&setting).await;
    assert_eq!(keys(&setting).await, [""; 0]);
    // An object that another program puts there later shows: no name stays hidden.
    setting.store.put("b", "p/d/a", Bytes::from_static(b"again"), &<_>::default()).await.unwrap();
    let setting = setting.restarted(&mut random(), false).await;
    assert_eq!(setting.text("d/a").await, "again");
}

#[tokio::test]
async fn what_another_program_wrote_stays_and_the_file_is_kept_beside_it() {
    let setting = Setting::new(&[("there", b"before".to_vec())]).await;
    let there = setting.id("there").await;
    setting
        .share
        .set_attributes(&root(), there, SetAttributes { size: Some(0), ..<_>::default() }, None)
        .await
        .unwrap();
    setting.write(there, 0, "mine", Stability::File).await.unwrap();
    setting.put("new", "my new").await;
    for (key, text) in [("p/there", &b"theirs"[..]), ("p/new", b"their new")] {
        setting.store.put("b", key, Bytes::from_static(text), &<_>::default()).await.unwrap();
    }
    drained(&setting).await;
    let found = objects(&setting).await;
    assert_eq!((&found["there"][..], &found["new"][..], found.len()), (&b"theirs"[..], &b"their new"[..], 4));
    let kept = |name: &str| {
        let start = format!(".seqferry-conflicts/{name}.");
        found.iter().find(|(key, _)| key.starts_with(&start)).map(|(_, body)| body.as_slice())
    };
    assert_eq!((kept("there"), kept("new")), (Some(&b"mine"[..]), Some(&b"my new"[..])));
    assert_eq!((setting.text("there").await, setting.text("new").await), ("theirs".into(), "their new".into()));
    assert_eq!(setting.id("there").await, there);
    // Removed here, and replaced by another program meanwhile: theirs stays.
    setting.share.remove(&root(), setting.share.root(), b"there").await.unwrap();
    setting.store.put("b", "p/there", Bytes::from_static(b"newest"), &<_>::default()).await.unwrap();
    drained(&setting).await;
    assert_eq!(objects(&setting).await["there"], b"newest");
    let setting = setting.restarted(&mut random(), false).await;
    assert_eq!(setting.text("there").await, "newest");
}

#[tokio::test]
async fn a_file_that_changes_while_it_is_uploaded_is_uploaded_again_and_whole() {
    let setting = Setting::new(&[]).await;
    let file = setting.put("log", &"a".repeat(2500)).await;
    let (store, latch) = (store_of(&setting), Latch::default());
    store.rule(Rule::once("UploadPart", Fault::Hold(latch.clone())).part(1));
    let running = Running::start(&setting, Arc::clone(&store) as Arc<dyn ObjectStore>);
    latch.reached().await;
    setting.write(file, 2, "b", Stability::File).await.unwrap();
    setting.write(file, 2499, "bc", Stability::File).await.unwrap();
    latch.open();
    running.drain(&setting).await;
    let expected = format!("aab{}bc", "a".repeat(2496));
    assert_eq!(objects(&setting).await["log"], expected.as_bytes());
    assert_eq!(versions(&store).len(), 1, "{:?}", versions(&store));
    assert!(setting.store.list_uploads("b", "").await.unwrap().is_empty());
    assert_eq!(setting.text("log").await, expected);
}

#[tokio::test]
async fn an_upload_in_parts_goes_on_after_a_kill_and_one_that_was_finished_is_not_repeated() {
    let setting = Setting::new(&[]).await;
    let text = "0123456789".repeat(550);
    setting.put("large", &text).await;
    let (store, latch) = (store_of(&setting), Latch::default());
    store.rule(Rule::once("UploadPart", Fault::Hold(latch.clone())).part(6));
    let running = Running::start(&setting, Arc::clone(&store) as Arc<dyn ObjectStore>);
    latch.reached().await;
    let sent = async || {
        let uploads = setting.store.list_uploads("b", "").await.unwrap();
        let upload = seqferry_store::UploadRef::new("b", &uploads[0].key, &uploads[0].upload_id);
        setting.store.list_parts(upload, None).await.unwrap().parts.len()
    };
    while sent().await < 5 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    running.kill().await;
    let setting = setting.restarted(&mut random(), true).await;
    let (store, latch) = (store_of(&setting), Latch::default());
    store.rule(Rule::once("CompleteMultipartUpload", Fault::HoldReply(latch.clone())));
    let running = Running::start(&setting, Arc::clone(&store) as Arc<dyn ObjectStore>);
    latch.reached().await;
    assert_eq!((store.count("CreateMultipartUpload"), store.count("UploadPart")), (0, 1), "only what was missing");
    running.kill().await;
    let setting = setting.restarted(&mut random(), true).await;
    let store = drained(&setting).await;
    assert_eq!((store.count("CreateMultipartUpload"), store.count("UploadPart")), (0, 0));
    assert_eq!(versions(&store), [], "the finished upload is known");
    assert_eq!(objects(&setting).await["large"], text.as_bytes());
    assert!(setting.store.list_uploads("b", "").await.unwrap().is_empty());
}
