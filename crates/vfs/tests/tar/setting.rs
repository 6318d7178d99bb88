//! A store in memory with archives in it, and their folders.

use std::collections::BTreeMap;
use std::sync::Arc;

use seqferry_store::Attributes;
use seqferry_store_testing::{MemoryStore, ObjectWriteExt as _};
use seqferry_vfs::disk_cache::DiskCache;
use seqferry_vfs::tar::{ArchiveContents, MemberNode, MemberNodeKind, MemberPiece, TarFolder, TarFolders, TarOptions};
use seqferry_vfs::testing::StoreSource;
use seqferry_vfs::{ObjectVersion, Pool, Reader, Result, Source, VersionPin};

pub(crate) struct Setting {
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) source: Arc<StoreSource>,
    pub(crate) reader: Arc<Reader>,
    pub(crate) folders: Arc<TarFolders>,
}

/// Kind and mode, and contents or target, by path.
pub(crate) type Picture = BTreeMap<String, (char, Option<u16>, Vec<u8>)>;

impl Setting {
    pub(crate) fn new() -> Self {
        let store = MemoryStore::with_buckets(&["b"]);
        let source = StoreSource::over(&store);
        Self::over(store, source, None)
    }

    /// A new reader and new folders over the same store.
    pub(crate) fn over(store: Arc<MemoryStore>, source: Arc<StoreSource>, cache: Option<Arc<DiskCache>>) -> Self {
        let origin = Arc::clone(&source) as Arc<dyn Source>;
        let reader = Reader::new(Arc::clone(&origin), Pool::new(64 << 20), None);
        let folders = TarFolders::new(Arc::clone(&reader), origin, cache, TarOptions::default());
        Self { store, source, reader, folders }
    }

    pub(crate) async fn put(&self, key: &str, bytes: Vec<u8>) -> ObjectVersion {
        let size = bytes.len() as u64;
        let written = self.store.put("b", key, bytes.into(), &Attributes::default()).await.unwrap();
        let (endpoint, bucket, key) = (self.source.endpoint().into(), "b".into(), key.into());
        ObjectVersion { endpoint, bucket, key, pin: VersionPin::Etag(written.etag.into()), size }
    }

    pub(crate) async fn open(&self, bytes: Vec<u8>) -> (Arc<TarFolder>, Result<Arc<ArchiveContents>>) {
        let folder = self.folders.folder(&self.put("x.tar", bytes).await);
        let contents = self.folders.contents(&folder).await;
        (folder, contents)
    }

    /// A range of a member.
    pub(crate) async fn read(&self, folder: &TarFolder, node: &MemberNode<'_>, offset: u64, len: u64) -> Vec<u8> {
        let handle = self.reader.open(folder.object().version.clone());
        let mut bytes = Vec::new();
        for piece in node.pieces(offset, len) {
            match piece {
                MemberPiece::Zeros(len) => bytes.resize(bytes.len() + usize::try_from(len).unwrap(), 0),
                MemberPiece::Stored { offset, len } => {
                    let len = usize::try_from(len).unwrap();
                    bytes.extend_from_slice(&self.reader.read(&handle, offset, len).await.unwrap().to_bytes());
                }
            }
        }
        bytes
    }

    /// The whole folder, as a program that walks it sees it.
    pub(crate) async fn picture(&self, folder: &TarFolder, contents: &ArchiveContents) -> Picture {
        let mut found = Picture::new();
        let mut todo = vec![(0, String::new())];
        while let Some((number, path)) = todo.pop() {
            for node in contents.node(number).unwrap().children(0) {
                let path = if path.is_empty() { node.name().to_owned() } else { format!("{path}/{}", node.name()) };
                assert_eq!(contents.node(number).unwrap().child(node.name()).unwrap().number(), node.number());
                assert_eq!(node.parent(), number);
                let fact = match node.kind() {
                    MemberNodeKind::Directory => {
                        todo.push((node.number(), path.clone()));
                        ('d', node.permissions(), Vec::new())
                    }
                    MemberNodeKind::File => {
                        self.folders.check(folder, node.number()).await.unwrap();
                        let bytes = self.read(folder, &node, 0, u64::MAX).await;
                        assert_eq!(bytes.len() as u64, node.size(), "{path}");
                        ('f', node.permissions(), bytes)
                    }
                    MemberNodeKind::Symlink => ('l', None, node.target().to_vec()),
                };
                found.insert(path, fact);
            }
        }
        found
    }

    pub(crate) fn gets(&self) -> u64 {
        self.source.counters.requests().2
    }
}
