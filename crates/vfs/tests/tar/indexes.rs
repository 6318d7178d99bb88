//! Sources of the list of members, how much each reads, and indexes that do not fit.

use std::sync::Arc;

use seqferry_archive::ReadOptions;
use seqferry_archive::index::{Index, IndexHead, IndexLimits, IndexWriter, TarIdentity, build_from_stream};
use seqferry_vfs::disk_cache::{CacheLimits, DiskCache};
use seqferry_vfs::{BLOCK_SIZE, ObjectVersion, VersionPin, VfsError};

use crate::raw::Tar;
use crate::setting::Setting;
use crate::support::Folder;

fn identity(version: &ObjectVersion) -> TarIdentity {
    let VersionPin::Etag(etag) = &version.pin else { panic!("no ETag") };
    TarIdentity { size: version.size, etag: Some(etag.to_string()), ..TarIdentity::default() }
}

fn index(tar: &[u8], identity: TarIdentity) -> Vec<u8> {
    build_from_stream(&IndexHead::new("test", identity, None), tar.chunks(1 << 20), ReadOptions::default()).unwrap()
}

/// The index without the line of one member; all else fits.
fn lacking(index: &[u8], member: usize) -> Vec<u8> {
    let Index { head, mut members } = Index::read(index, &IndexLimits::default()).unwrap();
    members.remove(member);
    let (mut writer, mut bytes) = IndexWriter::new(&head);
    for entry in &members {
        bytes.extend(writer.member(entry));
    }
    bytes.extend(writer.finish());
    bytes
}

/// Members of this size, `0`, `1` and so on.
fn archive(members: usize, size: usize) -> Vec<u8> {
    let tar = (0..members).fold(Tar::default(), |tar, number| {
        let byte = u8::try_from(number % 251).unwrap();
        tar.file(&number.to_string(), &vec![byte; size])
    });
    tar.end()
}

#[tokio::test]
async fn a_sidecar_that_fits_is_read_instead_of_the_archive() {
    let setting = Setting::new();
    let tar = archive(400, 100_000);
    let version = setting.put("x.tar", tar.clone()).await;
    let sidecar = index(&tar, identity(&version));
    setting.put("x.tar.sfidx", sidecar.clone()).await;
    let folder = setting.folders.folder(&version);

    let contents = setting.folders.contents(&folder).await.unwrap();

    assert!(!contents.is_proven());
    assert_eq!(contents.len(), 401);
    // Besides the index, the end of the archive: members that the index lacks would lie there.
    let besides = setting.source.counters.bytes_fetched() - sidecar.len() as u64;
    assert!((1024..=BLOCK_SIZE).contains(&besides), "{besides}");
    let node = contents.node(0).unwrap().child("77").unwrap();
    setting.folders.check(&folder, node.number()).await.unwrap();
    assert!(setting.read(&folder, &node, 0, u64::MAX).await == vec![77; 100_000]);
}

#[tokio::test]
async fn an_index_of_another_archive_shows_no_bytes() {
    let setting = Setting::new();
    // As large, with a member at another place and of another name.
    let other = Tar::default().file("0", &[1; 512]).file("9", &[2; 1024]).end();
    let tar = Tar::default().file("0", &[1; 1024]).file("1", &[2; 512]).end();
    let version = setting.put("x.tar", tar.clone()).await;
    // It says that it belongs to this very object.
    setting.put("x.tar.sfidx", index(&other, identity(&version))).await;
    let folder = setting.folders.folder(&version);
    let contents = setting.folders.contents(&folder).await.unwrap();

    for name in ["0", "9"] {
        let node = contents.node(0).unwrap().child(name).unwrap();
        let error = setting.folders.check(&folder, node.number()).await.unwrap_err();
        assert!(matches!(&error, VfsError::BadArchive(text) if text.contains("remove the index")), "{error}");
    }
}

#[tokio::test]
async fn an_index_that_does_not_fit_or_is_damaged_is_passed_over() {
    let tar = archive(3, 1000);
    let other = Tar::default().file("evil", b"x").end();
    let damaged = |setting_index: &[u8]| {
        let mut bytes = setting_index.to_vec();
        let at = bytes.len() - 30;
        bytes[at] ^= 1;
        bytes
    };
    for case in ["other size", "other etag", "damaged", "cut", "no index", "lacks the last", "lacks the first"] {
        let setting = Setting::new();
        let version = setting.put("x.tar", tar.clone()).await;
        let right = index(&tar, identity(&version));
        let bytes = match case {
            "other size" => index(&other, TarIdentity { size: other.len() as u64, ..identity(&version) }),
            "other etag" => {
                let shifted = Tar::default().file("evil", &[1; 1024]).file("1", &[2; 600]).file("2", &[3; 900]).end();
                assert_eq!(shifted.len(), tar.len());
                index(&shifted, TarIdentity { etag: Some("other".into()), ..identity(&version) })
            }
            "damaged" => damaged(&right),
            "lacks the last" => lacking(&right, 2),
            "lacks the first" => lacking(&right, 0),
            "cut" => right[..right.len() - 5].to_vec(),
            _ => b"\x28\xb5\x2f\xfd".to_vec(),
        };
        setting.put("x.tar.sfidx", bytes).await;
        let folder = setting.folders.folder(&version);

        let contents = setting.folders.contents(&folder).await.unwrap();

        assert!(contents.is_proven(), "{case}");
        assert!(contents.node(0).unwrap().child("evil").is_none(), "{case}");
        assert_eq!(contents.len(), 4, "{case}");
    }
}

#[tokio::test]
async fn an_index_of_a_copy_is_taken_after_samples() {
    let setting = Setting::new();
    let tar = archive(60, 1000);
    let version = setting.put("x.tar", tar.clone()).await;
    let sidecar = index(&tar, TarIdentity { etag: Some("of the original".into()), ..identity(&version) });
    setting.put("x.tar.sfidx", sidecar).await;
    let folder = setting.folders.folder(&version);

    let contents = setting.folders.contents(&folder).await.unwrap();

    assert!(!contents.is_proven());
    assert_eq!(contents.len(), 61);
}

#[tokio::test]
async fn an_index_that_was_made_is_kept_in_the_cache() {
    let scratch = Folder::new();
    let limits = CacheLimits { min_free: 0, ..CacheLimits::default() };
    let cache = Arc::new(DiskCache::open_passive(&scratch.0.join("cache"), limits).unwrap());
    let first = Setting::new();
    let first = Setting::over(Arc::clone(&first.store), Arc::clone(&first.source), Some(Arc::clone(&cache)));
    let version = first.put("x.tar", archive(300, 100)).await;
    let folder = first.folders.folder(&version);
    first.folders.contents(&folder).await.unwrap();
    // It is written beside: one block, and the head.
    while cache.stats().stored < 2 {
        tokio::task::yield_now().await;
    }
    let before = first.source.counters.requests();

    let second = Setting::over(Arc::clone(&first.store), Arc::clone(&first.source), Some(Arc::clone(&cache)));
    let folder = second.folders.folder(&version);
    let contents = second.folders.contents(&folder).await.unwrap();

    assert!(contents.is_proven());
    // The service is requested one byte: another identity may have read the archive.
    let (lists, heads, gets) = before;
    assert_eq!((contents.len(), second.source.counters.requests()), (301, (lists, heads, gets + 1)));
    // Another version finds nothing.
    let other = second.put("x.tar", archive(2, 100)).await;
    let folder = second.folders.folder(&other);
    assert_eq!(second.folders.contents(&folder).await.unwrap().len(), 3);
}

#[tokio::test]
async fn large_members_are_hopped_over() {
    let setting = Setting::new();
    let tar = archive(8, 20 << 20);
    let whole = tar.len() as u64;
    let contents = setting.open(tar).await.1.unwrap();

    assert_eq!(contents.len(), 9);
    let fetched = setting.source.counters.bytes_fetched();
    assert!(fetched <= 8 * 2 * BLOCK_SIZE + (2 << 20), "{fetched} of {whole} bytes");
}

#[tokio::test]
async fn small_members_are_streamed_over() {
    let setting = Setting::new();
    let contents = setting.open(archive(5000, 4000)).await.1.unwrap();

    assert_eq!(contents.len(), 5001);
    assert!(setting.gets() <= 30, "{} requests", setting.gets());
}
