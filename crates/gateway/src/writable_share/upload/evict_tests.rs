//! Clean files that leave the overlay, with their handles, facts and bytes afterwards.

use bytes::Bytes;
use seqferry_share::{CreateMode, FileError, FileId, SetAttributes, Share as _, Stability, TimeUpdate, XattrCondition};
use seqferry_store::prelude::*;
use seqferry_store_testing::ObjectWriteExt as _;

use super::super::tests::{Setting, random, root};
use super::tests::{Running, drained, keys, objects, store_of};
use super::*;
use crate::file_table::FileTable;

fn nodes(setting: &Setting) -> usize {
    setting.share.0.overlay.read(|overlay| overlay.nodes().count())
}

fn has_node(setting: &Setting, file: FileId) -> bool {
    setting.share.0.overlay.read(|overlay| overlay.node(file.number).is_some())
}

/// Upload everything, and continue until no more than this many files and folders are in the overlay.
async fn evicted(setting: &Setting, most: usize) {
    let running = Running::start(setting, store_of(setting) as Arc<dyn ObjectStore>);
    let deadline = Instant::now() + Duration::from_mins(2);
    while setting.share.waiting() > 0 || nodes(setting) > most {
        assert!(Instant::now() < deadline, "{} nodes, {} wait", nodes(setting), setting.share.waiting());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    running.drain(setting).await;
}

async fn folder(setting: &Setting, name: &str) -> FileId {
    let plain = SetAttributes::default();
    let made = setting.share.create_directory(&root(), setting.share.root(), name.as_bytes(), plain).await;
    made.unwrap().attributes.file
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_files_that_were_uploaded_leave_overlay_and_journal_and_keep_their_handles() {
    let setting = Setting::bounded(&[], 200).await;
    folder(&setting, "run").await;
    let mut handles = Vec::new();
    for at in 0..800 {
        handles.push(setting.put(&format!("run/{at:05}"), &format!("bytes of {at}")).await);
    }
    assert!(nodes(&setting) > 200);
    // A quarter more than stay, the root and the folder.
    let most = 250 + 2;
    evicted(&setting, most).await;
    let is_right = async |setting: &Setting| {
        for at in (0..800).step_by(7).chain([0, 799]) {
            assert_eq!(setting.bytes(handles[at]).await.unwrap(), format!("bytes of {at}").as_bytes(), "{at}");
            assert_eq!(setting.id(&format!("run/{at:05}")).await, handles[at], "{at}");
        }
    };
    is_right(&setting).await;
    for lost_power in [false, true] {
        let setting = setting.share_again(lost_power).await;
        assert!(nodes(&setting) <= most, "{} nodes are in the journal", nodes(&setting));
        assert_eq!(setting.share.waiting(), 0);
        is_right(&setting).await;
    }
}

#[tokio::test]
async fn a_file_that_has_left_shows_its_facts_and_can_be_changed_as_before() {
    let setting = Setting::bounded(&[("old", b"old".to_vec())], 0).await;
    let top = setting.share.root();
    let run = folder(&setting, "run").await;
    let file = setting.put("run/file", "0123456789").await;
    let modified = std::time::UNIX_EPOCH + Duration::from_nanos(1_600_000_000_123_456_789);
    let set = SetAttributes {
        mode: Some(0o640),
        uid: Some(7),
        gid: Some(8),
        modified: Some(TimeUpdate::At(modified)),
        ..SetAttributes::default()
    };
    setting.share.set_attributes(&root(), file, set, None).await.unwrap();
    setting.share.rename(&root(), top, b"old", run, b"renamed").await.unwrap();
    let renamed = setting.id("run/renamed").await;
    let (name, value) = (b"user.x", Bytes::from_static(b"value"));
    let share = &setting.share;
    share.set_extended_attribute(&root(), file, name, Some(value.clone()), XattrCondition::Any).await.unwrap();
    let before = setting.find("run/file").await.unwrap();
    evicted(&setting, 2).await;
    for lost_power in [false, true] {
        let setting = setting.share_again(lost_power).await;
        assert_eq!(setting.find("run/file").await.unwrap(), before);
        let id = setting.id("run/file").await;
        assert_eq!(setting.share.extended_attribute(&root(), id, name).await, Ok(Some(value.clone())));
        assert_eq!(setting.names("run", 9).await, ["file", "renamed"]);
        assert_eq!(
            (setting.id("run/renamed").await, setting.bytes(renamed).await.unwrap()),
            (renamed, b"old".to_vec())
        );
    }
    // A new file at the old name of a renamed file is another file.
    let new = setting.put("old", "new").await;
    assert_ne!(new, renamed);
    setting.write(file, 3, "xyz", Stability::File).await.unwrap();
    setting.share.rename(&root(), run, b"renamed", top, b"again").await.unwrap();
    evicted(&setting, 2).await;
    assert_eq!(
        (setting.id("run/file").await, setting.id("again").await, setting.id("old").await),
        (file, renamed, new)
    );
    assert_eq!(keys(&setting).await, ["again", "old", "run/", "run/file"]);
    assert_eq!(objects(&setting).await["run/file"], b"012xyz6789");
    let shown = setting.find("run/file").await.unwrap();
    assert_eq!((shown.mode, shown.uid, shown.gid), (0o640, 7, 8));
    // Removed, its handle is that of no file, whatever has the name later.
    setting.share.remove(&root(), run, b"file").await.unwrap();
    drained(&setting).await;
    setting.store.put("b", "p/run/file", Bytes::from_static(b"theirs"), &<_>::default()).await.unwrap();
    let setting = setting.restarted(&mut random(), false).await;
    assert_eq!(setting.text("run/file").await, "theirs");
    assert_eq!(setting.share.attributes(&root(), file).await.unwrap_err(), FileError::Stale);
}

#[tokio::test]
async fn a_file_that_another_program_replaced_shows_as_the_bucket_has_it() {
    let setting = Setting::bounded(&[], 0).await;
    folder(&setting, "run").await;
    let file = setting.put("run/file", "mine").await;
    let set = SetAttributes { mode: Some(0o600), ..SetAttributes::default() };
    setting.share.set_attributes(&root(), file, set, None).await.unwrap();
    evicted(&setting, 2).await;
    setting.store.put("b", "p/run/file", Bytes::from_static(b"theirs"), &<_>::default()).await.unwrap();
    let setting = setting.restarted(&mut random(), true).await;
    let shown = setting.find("run/file").await.unwrap();
    assert_eq!((shown.file, shown.size, shown.mode), (file, 6, 0o644));
    assert_eq!(setting.bytes(file).await.unwrap(), b"theirs");
}

#[tokio::test]
async fn a_file_stays_while_a_call_works_on_it() {
    let setting = Setting::bounded(&[], 0).await;
    folder(&setting, "run").await;
    let (used, other) = (setting.put("run/used", "1").await, setting.put("run/other", "2").await);
    let lock = setting.share.0.lock_of(used.number);
    evicted(&setting, 3).await;
    assert_eq!((has_node(&setting, used), has_node(&setting, other)), (true, false));
    drop(lock);
    evicted(&setting, 2).await;
    assert!(!has_node(&setting, used));
}

#[tokio::test]
async fn a_file_whose_table_was_lost_shows_under_another_handle() {
    let setting = Setting::bounded(&[], 0).await;
    folder(&setting, "run").await;
    let file = setting.put("run/file", "text").await;
    evicted(&setting, 2).await;
    let setting = Setting { file_table: FileTable::in_memory(), ..setting }.restarted(&mut random(), false).await;
    assert_eq!(setting.text("run/file").await, "text");
    assert_ne!(setting.id("run/file").await, file);
    assert_eq!(setting.share.attributes(&root(), file).await.unwrap_err(), FileError::Stale);
}

/// Shortest of a few searches for work, and how much there is.
fn look(setting: &Setting) -> (Duration, usize) {
    let inner = &setting.share.0;
    let times = (0..5).map(|_| {
        let since = Instant::now();
        let found = inner.overlay.read(|overlay| {
            let found = find_tasks(overlay, &inner.file_table, true, PLANNED, |_, _| true).len();
            found + usize::from(evict::is_due(overlay, inner.clean_files))
        });
        (since.elapsed(), found)
    });
    times.min().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_of_files_leave_when_they_were_uploaded_and_a_look_for_work_sees_what_has_changed() {
    const FILES: usize = 4 * PLANNED;
    let setting = Setting::bounded(&[], 2 * FILES).await;
    let run = folder(&setting, "run").await;
    let mut handles = Vec::new();
    for at in 0..FILES {
        let how = CreateMode::Guarded(SetAttributes::default());
        let made = setting.share.create(&root(), run, format!("{at:05}").as_bytes(), how).await;
        handles.push(made.unwrap().attributes.file);
    }
    println!("a look with all to do: {:?}", look(&setting));
    assert_eq!(look(&setting).1, PLANNED);
    // A look each 100 ms, as often for its size as one each second for a share in use.
    let quiet = Duration::from_millis(400);
    let running = Running::with_settle_time(&setting, store_of(&setting) as Arc<dyn ObjectStore>, quiet);
    let deadline = Instant::now() + Duration::from_mins(2);
    while look(&setting).1 > 0 {
        assert!(Instant::now() < deadline, "{:?}", look(&setting));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    running.drain(&setting).await;
    println!("a look with nothing to do: {:?}", look(&setting));
    assert!(nodes(&setting) > FILES);
    let setting = setting.with_clean_files(1000).await;
    assert_eq!(look(&setting).1, 1, "they may leave");
    evicted(&setting, 1250 + 2).await;
    for at in (0..FILES).step_by(997).chain([0, FILES - 1]) {
        assert_eq!(setting.id(&format!("run/{at:05}")).await, handles[at], "{at}");
    }
    let setting = setting.restarted(&mut random(), true).await;
    assert!(nodes(&setting) <= 1250 + 2, "{} nodes are in the journal", nodes(&setting));
    assert_eq!(setting.id("run/00000").await, handles[0]);
}
