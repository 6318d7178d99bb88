//! A share over a store in memory.

use std::net::IpAddr;

use seqferry_store::prelude::*;
use seqferry_store_testing::fault::{Fault, FaultStore, Rule};
use seqferry_store_testing::{MemoryStore, ObjectWriteExt as _};
use seqferry_vfs::testing::StoreSource;
use seqferry_vfs::{Freshness, Pool, Reader, Source, Tree, TreeOptions};

use super::*;

struct Setting {
    store: Arc<MemoryStore>,
    share: BucketShare,
}

impl Setting {
    async fn new(keys: &[&str]) -> Self {
        let store = MemoryStore::with_buckets(&["b"]);
        let setting = Self { share: share(&store), store };
        for key in keys {
            setting.put(key, &format!("bytes of {key}")).await;
        }
        setting
    }

    async fn put(&self, key: &str, text: &str) {
        let bytes = Bytes::from(text.to_owned());
        self.store.put("b", key, bytes, &seqferry_store::Attributes::default()).await.unwrap();
    }

    async fn find(&self, path: &str) -> Result<Attributes> {
        let mut found = self.share.attributes(&user(), self.share.root()).await?;
        for name in path.split('/') {
            found = self.share.lookup(&user(), found.file, name.as_bytes()).await?;
        }
        Ok(found)
    }

    async fn text(&self, file: FileId) -> Result<String> {
        let read = self.share.read(&user(), file, 0, 1 << 20).await?;
        assert!(read.is_end);
        Ok(String::from_utf8(read.slices.concat()).unwrap())
    }
}

/// A share that asks for names each time.
fn share<S: ObjectStore + 'static>(store: &Arc<S>) -> BucketShare {
    let source = StoreSource::over(store) as Arc<dyn Source>;
    let options = TreeOptions { lifetime: Some(Duration::ZERO), ..TreeOptions::bucket("b") };
    let tree = Tree::new(Arc::clone(&source), options);
    let files = FileSystem::new(tree, Reader::new(source, Pool::new(0), None), Freshness::Ttl);
    BucketShare::new(files, FileTable::in_memory(), ShareDefaults { uid: 1000, gid: 1000, ..ShareDefaults::default() })
}

fn user() -> Caller {
    Caller { address: IpAddr::from([127, 0, 0, 1]), uid: 1000, gid: 1000, groups: Vec::new() }
}

#[tokio::test]
async fn an_identity_stays_when_its_object_is_replaced_and_in_another_process() {
    let setting = Setting::new(&["runs/1/a.bam"]).await;
    let file = setting.find("runs/1/a.bam").await.unwrap().file;
    assert_eq!(setting.text(file).await.unwrap(), "bytes of runs/1/a.bam");
    setting.put("runs/1/a.bam", "other and longer bytes of the file").await;
    assert_eq!(setting.text(file).await.unwrap(), "other and longer bytes of the file");
    assert_eq!(setting.find("runs/1/a.bam").await.unwrap().file, file);
    let again = Setting { share: share(&setting.store), store: Arc::clone(&setting.store) };
    assert_eq!(again.find("runs/1/a.bam").await.unwrap().file, file);
    setting.store.delete(seqferry_store::ObjectRef::new("b", "runs/1/a.bam")).await.unwrap();
    assert_eq!(setting.text(file).await, Err(FileError::Stale));
}

#[tokio::test]
async fn listings_go_on_after_a_name_whatever_has_come_and_gone() {
    let names: Vec<String> = (0..25).map(|number| format!("d/{number:02}")).collect();
    let setting = Setting::new(&names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let directory = setting.find("d").await.unwrap().file;
    let (mut seen, mut cookie) = (Vec::new(), 0);
    loop {
        let page = setting.share.read_directory(&user(), directory, cookie, 4, EntryDetail::All).await.unwrap();
        assert!(page.entries.len() <= 4);
        for entry in &page.entries {
            seen.push(String::from_utf8(entry.name.to_vec()).unwrap());
            cookie = entry.cookie;
        }
        if page.is_end {
            break;
        }
        // Another process knows the position as well once it has seen the name.
        let other = share(&setting.store);
        assert_eq!(
            other.read_directory(&user(), directory, cookie, 4, EntryDetail::All).await.unwrap_err(),
            FileError::Stale
        );
    }
    let expected: Vec<String> =
        [".", ".."].into_iter().map(str::to_owned).chain((0..25).map(|number| format!("{number:02}"))).collect();
    assert_eq!(seen, expected);
    assert_eq!(
        setting.share.read_directory(&user(), directory, 12_345, 4, EntryDetail::All).await.unwrap_err(),
        FileError::BadCookie
    );
}

#[tokio::test]
async fn callers_have_the_rights_of_owner_group_and_mode() {
    let setting = Setting::new(&[]).await;
    let attributes = seqferry_store::Attributes {
        metadata: [("mode", "0100600"), ("uid", "7")].map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        ..seqferry_store::Attributes::default()
    };
    setting.store.put("b", "private", Bytes::from_static(b"bytes"), &attributes).await.unwrap();
    let file = setting.find("private").await.unwrap().file;
    // Stored attributes of an object are known once it was opened.
    let _opened = setting.share.read(&user(), file, 0, 1).await;
    assert_eq!(setting.share.read(&user(), file, 0, 1).await.unwrap_err(), FileError::AccessDenied);
    let owner = Caller { uid: 7, ..user() };
    assert!(setting.share.read(&owner, file, 0, 1).await.is_ok());
    assert_eq!(setting.share.read(&user(), setting.share.root(), 0, 1).await.unwrap_err(), FileError::IsADirectory);
    let listed = setting.share.read_directory(&user(), file, 0, 4, EntryDetail::All).await.unwrap_err();
    assert_eq!(listed, FileError::AccessDenied);
    assert_eq!(setting.share.remove(&user(), setting.share.root(), b"private").await.unwrap_err(), FileError::ReadOnly);
}

#[tokio::test]
async fn names_that_no_key_has_are_absent() {
    let setting = Setting::new(&["a"]).await;
    let root = setting.share.root();
    for name in [&b"absent"[..], b"\xff\xfe", b"A"] {
        assert_eq!(setting.share.lookup(&user(), root, name).await.unwrap_err(), FileError::NotFound, "{name:?}");
    }
    assert_eq!(setting.share.lookup(&user(), root, b"..").await.unwrap().file, root);
    let file = setting.find("a").await.unwrap().file;
    assert_eq!(setting.share.lookup(&user(), file, b"x").await.unwrap_err(), FileError::NotADirectory);
}

#[tokio::test]
async fn clients_wait_for_an_outage_and_are_told_what_is_denied() {
    let memory = MemoryStore::with_buckets(&["b"]);
    let store = Arc::new(FaultStore::new(memory));
    store.put("b", "a", Bytes::from_static(b"bytes"), &seqferry_store::Attributes::default()).await.unwrap();
    let share = share(&store);
    let file = share.lookup(&user(), share.root(), b"a").await.unwrap().file;
    for (fault, expected) in [
        (Fault::Fail("ServiceUnavailable", 503), FileError::TryLater),
        (Fault::Fail("SlowDown", 503), FileError::TryLater),
        (Fault::Fail("AccessDenied", 403), FileError::AccessDenied),
    ] {
        store.rule(Rule::always("GetObject", fault));
        assert_eq!(share.read(&user(), file, 0, 10).await.unwrap_err(), expected);
        store.clear_rules();
    }
    assert_eq!(share.read(&user(), file, 0, 10).await.unwrap().slices.concat(), b"bytes");
}
