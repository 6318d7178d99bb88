//! Archives among the files of a tree.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use seqferry_vfs::filesystem::REFUSED_XATTR;
use seqferry_vfs::tar::{TarFolders, TarOptions};
use seqferry_vfs::{
    Archives, Attributes, FileSystem, Freshness, Pool, ROOT, Reader, Source, Tree, TreeOptions, VfsError,
};

use crate::raw::Tar;
use crate::setting::Setting;

fn files(setting: &Setting, freshness: Freshness) -> (Arc<FileSystem>, Arc<TarFolders>) {
    let source = Arc::clone(&setting.source) as Arc<dyn Source>;
    let reader = Reader::new(Arc::clone(&source), Pool::new(64 << 20), None);
    let folders = TarFolders::new(Arc::clone(&reader), Arc::clone(&source), None, TarOptions::default());
    let tree = Tree::new(source, TreeOptions { lifetime: Some(Duration::from_hours(1)), ..TreeOptions::bucket("b") });
    let archives = Archives::new(Arc::clone(&folders));
    (FileSystem::with_archives(tree, reader, freshness, Some(archives)), folders)
}

async fn find(files: &FileSystem, path: &str) -> Option<Attributes> {
    let mut found = files.attributes(ROOT).ok();
    for name in path.split('/') {
        found = files.lookup(found?.inode, name).await.unwrap().attributes;
    }
    found
}

async fn read(files: &Arc<FileSystem>, path: &str) -> Result<Vec<u8>, VfsError> {
    let handle = files.open(find(files, path).await.unwrap().inode).await?;
    let read = files.read(handle, 0, 1 << 20).await;
    files.close(handle);
    read.map(|slices| slices.to_bytes().to_vec())
}

fn time(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds)
}

#[tokio::test]
async fn an_archive_is_a_file_and_a_folder_that_is_not_listed() {
    let setting = Setting::new();
    let tar = Tar::default().file("d/1", b"one").file("2", b"two").end();
    setting.put("in/x.tar", tar.clone()).await;
    setting.put("in/real.tar", tar.clone()).await;
    setting.put("in/real.tar.d/file", b"real".to_vec()).await;
    let (files, _) = files(&setting, Freshness::Ttl);

    assert_eq!(read(&files, "in/x.tar.d/d/1").await.unwrap(), b"one");
    assert_eq!(read(&files, "in/x.tar.d/2").await.unwrap(), b"two");
    assert!(read(&files, "in/x.tar").await.unwrap() == tar);
    assert_eq!(read(&files, "in/real.tar.d/file").await.unwrap(), b"real");
    assert!(find(&files, "in/x.tar.d/absent").await.is_none());
    assert!(find(&files, "in/absent.tar.d").await.is_none());

    let folder = find(&files, "in").await.unwrap().inode;
    let names = |entries: Vec<seqferry_vfs::DirectoryEntry>| entries.into_iter().map(|entry| entry.name);
    let listed: Vec<_> = names(files.read_directory(folder, 0, 100).await.unwrap()).collect();
    assert!(!listed.contains(&"x.tar.d".to_owned()), "{listed:?}");
    let archive = find(&files, "in/x.tar.d").await.unwrap().inode;
    let entries = files.read_directory(archive, 0, 100).await.unwrap();
    for (place, entry) in entries.iter().enumerate() {
        let rest: Vec<_> = names(files.read_directory(archive, entry.cookie, 100).await.unwrap()).collect();
        assert_eq!(rest, entries[place + 1..].iter().map(|entry| entry.name.clone()).collect::<Vec<_>>());
    }
    assert_eq!(names(entries).collect::<Vec<_>>(), [".", "..", "2", "d"]);
    assert!(matches!(files.open(archive).await, Err(VfsError::IsADirectory)));
}

#[tokio::test]
async fn a_replaced_archive_is_stale_once_and_then_the_new_one() {
    let setting = Setting::new();
    setting.put("x.tar", Tar::default().file("a", b"old").end()).await;
    let (files, _) = files(&setting, Freshness::Open);
    assert_eq!(read(&files, "x.tar.d/a").await.unwrap(), b"old");

    setting.put("x.tar", Tar::default().file("a", b"newer").end()).await;

    assert!(matches!(read(&files, "x.tar.d/a").await, Err(VfsError::Stale)));
    assert_eq!(read(&files, "x.tar.d/a").await.unwrap(), b"newer");
}

#[tokio::test]
async fn one_archive_is_the_root() {
    let setting = Setting::new();
    let version = setting.put("x.tar", Tar::default().file("d/1", b"one").end()).await;
    let source = Arc::clone(&setting.source) as Arc<dyn Source>;
    let reader = Reader::new(Arc::clone(&source), Pool::new(64 << 20), None);
    let folders = TarFolders::new(Arc::clone(&reader), Arc::clone(&source), None, TarOptions::default());
    let archives = Archives::rooted(folders, &version, time(7)).await.unwrap();
    let tree = Tree::new(source, TreeOptions::bucket("b"));
    let files = FileSystem::with_archives(tree, reader, Freshness::Ttl, Some(archives));

    assert_eq!(read(&files, "d/1").await.unwrap(), b"one");
    let root = files.attributes(ROOT).unwrap();
    assert_eq!((root.inode, root.modified), (ROOT, time(7)));
    assert_eq!(files.read_directory(ROOT, 2, 10).await.unwrap()[0].name, "d");
}

#[tokio::test]
async fn reading_a_quarter_of_an_archive_fetches_the_rest_at_once() {
    let setting = Setting::new();
    let body = |number: usize| vec![u8::try_from(number % 251).unwrap(); 60_000 + number];
    let tar = (0..200).fold(Tar::default(), |tar, number| tar.file(&format!("{number:03}"), &body(number))).end();
    let size = tar.len() as u64;
    setting.put("x.tar", tar).await;
    let (files, _) = files(&setting, Freshness::Ttl);
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut order: Vec<usize> = (0..200).collect();
    fastrand::Rng::with_seed(seed).shuffle(&mut order);

    for number in order {
        assert!(read(&files, &format!("x.tar.d/{number:03}")).await.unwrap() == body(number), "seed {seed}");
    }

    let fetched = setting.source.counters.bytes_fetched();
    assert!(fetched <= size + size / 2, "{fetched} bytes of {size}, seed {seed}");
    assert!(setting.gets() < 130, "{} requests, seed {seed}", setting.gets());
}

#[tokio::test]
async fn members_that_do_not_appear_are_counted_and_named() {
    let setting = Setting::new();
    let tar = Tar::default().file("good", b"1").file("../bad", b"2").file("/etc/bad", b"3").end();
    setting.put("x.tar", tar).await;
    let (files, _) = files(&setting, Freshness::Ttl);
    let folder = find(&files, "x.tar.d").await.unwrap().inode;
    let member = find(&files, "x.tar.d/good").await.unwrap().inode;

    let text = files.xattr(folder, REFUSED_XATTR).await.unwrap().unwrap();

    assert_eq!(text.lines().next(), Some("2"));
    assert!(text.contains("../bad: ") && text.contains("/etc/bad: "), "{text}");
    assert_eq!(files.list_xattrs(folder).unwrap(), [REFUSED_XATTR]);
    assert_eq!(files.xattr(member, REFUSED_XATTR).await.unwrap(), None);
    assert_eq!(files.xattr(ROOT, REFUSED_XATTR).await.unwrap(), None);
}
