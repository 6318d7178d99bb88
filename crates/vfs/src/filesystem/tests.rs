//! Tests of the file system.

use std::sync::Arc;
use std::time::Duration;

use seqferry_store::ObjectRef;
use seqferry_store::prelude::*;
use seqferry_store_testing::{MemoryStore, ObjectWriteExt as _};

use super::*;
use crate::pool::{Pool, SMALLEST_POOL};
use crate::source::Source;
use crate::testing::StoreSource;
use crate::tree::{ROOT, TreeOptions};

struct Setting {
    store: Arc<MemoryStore>,
    source: Arc<StoreSource>,
    files: Arc<FileSystem>,
}

impl Setting {
    async fn new(keys: &[&str], freshness: Freshness) -> Self {
        let store = MemoryStore::with_buckets(&["b"]);
        let source = StoreSource::over(&store);
        let tree = Tree::new(Arc::clone(&source) as Arc<dyn Source>, TreeOptions::bucket("b"));
        let reader = Reader::new(Arc::clone(&source) as Arc<dyn Source>, Pool::new(SMALLEST_POOL), None);
        let setting = Self { store, source, files: FileSystem::new(tree, reader, freshness) };
        for key in keys {
            setting.put(key, format!("bytes of {key}").into()).await;
        }
        setting
    }

    async fn put(&self, key: &str, bytes: Bytes) {
        self.store.put("b", key, bytes, &seqferry_store::Attributes::default()).await.unwrap();
    }

    async fn inode(&self, path: &str) -> u64 {
        let mut inode = ROOT;
        for name in path.split('/') {
            inode = self.files.tree().lookup(inode, name).await.unwrap().attributes.unwrap().inode;
        }
        inode
    }

    async fn read(&self, handle: u64) -> Bytes {
        self.files.read(handle, 0, 1 << 20).await.unwrap().to_bytes()
    }

    fn requests(&self) -> (u64, u64, u64) {
        self.source.counters.requests()
    }
}

#[tokio::test]
async fn a_small_file_costs_one_request() {
    let setting = Setting::new(&["d/a"], Freshness::Ttl).await;
    let inode = setting.inode("d/a").await;

    let handle = setting.files.open(inode).await.unwrap();
    assert_eq!(setting.read(handle).await, "bytes of d/a");
    setting.files.close(handle);
    let again = setting.files.open(inode).await.unwrap();
    assert_eq!(setting.read(again).await, "bytes of d/a");

    assert_eq!(setting.requests(), (2, 0, 1));
    assert_eq!(setting.files.open_handles(), 1);
}

#[tokio::test]
async fn a_read_without_a_handle_keeps_one_and_a_replaced_object_is_stale_until_it_is_looked_up() {
    let setting = Setting::new(&["d/a"], Freshness::Ttl).await;
    let inode = setting.inode("d/a").await;

    assert_eq!(setting.files.read_at(inode, 9, 100).await.unwrap().to_bytes(), "d/a");
    assert_eq!(setting.files.read_at(inode, 0, 5).await.unwrap().to_bytes(), "bytes");
    assert_eq!(setting.requests(), (2, 0, 1), "one request for both");
    assert_eq!(setting.files.open_handles(), 1);

    assert!(matches!(setting.files.read_at(ROOT, 0, 1).await, Err(VfsError::IsADirectory)));
    assert!(matches!(setting.files.read_at(12_345, 0, 1).await, Err(VfsError::Stale)));
    assert_eq!(setting.files.open_handles(), 1);
}

#[tokio::test]
async fn names_are_read_in_their_order_after_any_name_that_was_or_is_there() {
    let setting = Setting::new(&["d/b", "d/c/x", "d/a", "d/e"], Freshness::Ttl).await;
    let inode = setting.inode("d").await;
    let read = async |after: Option<&str>, most| {
        let page = setting.files.tree().read_names(inode, after, most).await.unwrap();
        (page.entries.into_iter().map(|(name, _)| name).collect::<Vec<_>>().join(" "), page.is_end)
    };
    assert_eq!(read(None, 10).await, ("a b c e".to_owned(), true));
    assert_eq!(read(None, 2).await, ("a b".to_owned(), false));
    assert_eq!(read(Some("b"), 2).await, ("c e".to_owned(), true));
    assert_eq!(read(Some("d"), 2).await, ("e".to_owned(), true));
    assert_eq!(read(Some("z"), 2).await, (String::new(), true));
    assert!(read(None, 4).await.1);
    let file = setting.inode("d/a").await;
    assert!(matches!(setting.files.tree().read_names(file, None, 1).await, Err(VfsError::NotADirectory)));
}

#[tokio::test]
async fn a_replaced_object_is_stale_at_open_and_the_next_lookup_has_the_new_one() {
    for freshness in [Freshness::Ttl, Freshness::Open] {
        let setting = Setting::new(&["a"], freshness).await;
        let inode = setting.inode("a").await;
        setting.put("a", "other".into()).await;

        assert!(matches!(setting.files.open(inode).await, Err(VfsError::Stale)));
        let handle = setting.files.open(setting.inode("a").await).await.unwrap();
        assert_eq!(setting.read(handle).await, "other");

        setting.store.delete(ObjectRef::new("b", "a")).await.unwrap();
        let gone = setting.inode("a").await;
        if freshness == Freshness::Open {
            assert!(matches!(setting.files.open(gone).await, Err(VfsError::Stale)));
            assert_eq!(setting.files.tree().lookup(ROOT, "a").await.unwrap().attributes, None);
        }
        assert_eq!(setting.files.attributes(gone).unwrap().size, 5, "it is open");
        assert_eq!(setting.read(handle).await, "other");
    }
}

#[tokio::test]
async fn files_opened_in_order_are_fetched_ahead_and_one_out_of_order_ends_it() {
    let keys: Vec<String> = (0..40).map(|number| format!("d/{number:02}")).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let setting = Setting::new(&keys, Freshness::Ttl).await;
    let mut inodes = Vec::new();
    for key in &keys {
        inodes.push(setting.inode(key).await);
    }
    for sorted in [false, true] {
        if sorted {
            inodes.sort_unstable();
        }
        let setting = Setting::new(&keys, Freshness::Ttl).await;
        for key in &keys {
            setting.inode(key).await;
        }
        for inode in &inodes[..3] {
            setting.files.open(*inode).await.unwrap();
        }
        while setting.requests().2 < 7 {
            tokio::task::yield_now().await;
        }
        for inode in &inodes[3..] {
            let handle = setting.files.open(*inode).await.unwrap();
            assert!(setting.read(handle).await.starts_with(b"bytes of d/"));
        }
        assert_eq!(setting.requests().2, 40, "each file is fetched once");
    }
}

#[tokio::test]
async fn the_index_beside_a_file_is_fetched_with_it() {
    let setting = Setting::new(&["x.bam", "x.bam.bai", "x.csi", "y.bam"], Freshness::Ttl).await;
    setting.files.open(setting.inode("x.bam").await).await.unwrap();
    while setting.requests().2 < 3 {
        tokio::task::yield_now().await;
    }
    setting.files.open(setting.inode("x.bam.bai").await).await.unwrap();
    assert_eq!(setting.requests().2, 3);
}

#[tokio::test]
async fn links_of_rclone_are_links() {
    let setting = Setting::new(&[], Freshness::Ttl).await;
    setting.put("d/l.rclonelink", "../target".into()).await;
    let inode = setting.inode("d/l").await;

    assert_eq!(setting.files.attributes(inode).unwrap().kind, FileKind::Symlink);
    assert_eq!(setting.files.read_link(inode).await.unwrap(), "../target");
    assert!(matches!(setting.files.open(inode).await, Err(VfsError::Invalid)));
}

#[tokio::test]
async fn extended_attributes_tell_of_the_object_and_of_hidden_keys() {
    let setting = Setting::new(&["a", "b//c", "../d"], Freshness::Ttl).await;
    let inode = setting.inode("a").await;
    setting.inode("b").await;
    setting.files.tree().read_directory(setting.inode("b").await, 0, 10).await.unwrap();
    let xattr = async |inode, name| setting.files.xattr(inode, name).await.unwrap();

    assert_eq!(setting.files.list_xattrs(inode).unwrap(), ["user.s3.etag", "user.s3.key"]);
    assert_eq!(xattr(inode, "user.s3.key").await.as_deref(), Some("a"));
    assert_eq!(setting.requests().1, 0);
    assert_eq!(xattr(inode, "user.s3.storage-class").await.as_deref(), Some("STANDARD"));
    assert_eq!(setting.requests().1, 1);
    assert_eq!(xattr(inode, "security.selinux").await, None);
    let hidden = xattr(ROOT, HIDDEN_XATTR).await.unwrap();
    assert_eq!(hidden, "2\n../: segment . or .. in the key\nb//: empty segment in the key");
}

#[tokio::test]
async fn an_open_that_is_given_up_leaves_nothing_behind() {
    let setting = Setting::new(&["a"], Freshness::Ttl).await;
    let inode = setting.inode("a").await;
    {
        let _network_down = setting.source.hold().await;
        let open = setting.files.open(inode);
        assert!(tokio::time::timeout(Duration::from_millis(1), open).await.is_err());
    }
    assert_eq!(setting.files.open_handles(), 0);
    let handle = setting.files.open(inode).await.unwrap();
    assert_eq!(setting.read(handle).await, "bytes of a");
}
