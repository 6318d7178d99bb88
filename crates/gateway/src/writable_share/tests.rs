//! A writable share over a store in memory, on simulated disks.

use std::net::IpAddr;
use std::time::Duration;

use seqferry_share::{Access, FileKind, TimeUpdate};
use seqferry_store::ObjectStore;
use seqferry_store_testing::fault::{Fault, FaultStore};
use seqferry_store_testing::{MemoryStore, ObjectWriteExt as _};
use seqferry_vfs::testing::StoreSource;
use seqferry_vfs::{Freshness, Pool, Reader, Source, Tree, TreeOptions};

use super::*;
use crate::journal::simulated::{DiskStep, SPACE, SimulatedDisk};

/// A bucket, its share and the disks of the share.
pub(super) struct Setting {
    pub(super) store: Arc<MemoryStore>,
    pub(super) file_table: FileTable,
    pub(super) bounds: ShareLimits,
    /// The store that names and bytes are requested from.
    pub(super) asked: Arc<FaultStore>,
    pub(super) source: Arc<StoreSource>,
    pub(super) share: WritableShare<SimulatedDisk>,
    pub(super) journal: SimulatedDisk,
    pub(super) data: SimulatedDisk,
}

/// A checkpoint now and then.
pub(super) const BOUNDS: ShareLimits = ShareLimits { segment: 4096, clean_files: 1024 };

pub(super) fn spec(source: &Arc<StoreSource>, file_table: FileTable, identity: &str) -> WritableSpec {
    let source = Arc::clone(source) as Arc<dyn Source>;
    let options = TreeOptions { prefix: "p/".to_owned(), ..TreeOptions::bucket("b") };
    let tree = Tree::new(Arc::clone(&source), options);
    let files = FileSystem::new(tree, Reader::new(source, Pool::new(0), None), Freshness::Ttl);
    let defaults = ShareDefaults { uid: 1000, gid: 1000, ..ShareDefaults::default() };
    WritableSpec {
        files,
        file_table,
        defaults,
        identity: identity.to_owned(),
        prefix_length: 2,
        stale_after: Duration::from_mins(1),
    }
}

impl Setting {
    pub(super) async fn new(objects: &[(&str, Vec<u8>)]) -> Self {
        Self::on(SimulatedDisk::default(), objects).await
    }

    /// A bucket and disks on the runtime's clock: each request and each work of a disk takes a random time. One service
    /// in three shows a checksum of each object, one the MD5s of its parts, and one nothing of the bytes.
    pub(super) async fn timed(objects: &[(&str, Vec<u8>)], seed: u64) -> Self {
        let store = match seed % 3 {
            0 => MemoryStore::new(1),
            1 => MemoryStore::new(1).without_checksums(),
            _ => MemoryStore::new(1).without_checksums().with_opaque_etags(),
        };
        store.create_bucket("b");
        let setting = Self::of(SimulatedDisk::timed(), Arc::new(store), objects).await;
        setting.asked.inject_randomly(seed, 1.0, late_answers(6));
        setting
    }

    /// A bucket whose share keeps this many clean files.
    pub(super) async fn bounded(objects: &[(&str, Vec<u8>)], clean_files: usize) -> Self {
        Self::on(SimulatedDisk::default(), objects).await.with_clean_files(clean_files).await
    }

    /// The same share, which keeps this many clean files.
    pub(super) async fn with_clean_files(mut self, clean_files: usize) -> Self {
        self.bounds.clean_files = clean_files;
        self.restarted(&mut random(), false).await
    }

    /// A bucket of a service that keeps other digests, or none.
    pub(super) async fn over(store: MemoryStore, objects: &[(&str, Vec<u8>)]) -> Self {
        store.create_bucket("b");
        Self::of(SimulatedDisk::default(), Arc::new(store), objects).await
    }

    async fn on(journal: SimulatedDisk, objects: &[(&str, Vec<u8>)]) -> Self {
        Self::of(journal, MemoryStore::with_buckets(&["b"]), objects).await
    }

    async fn of(journal: SimulatedDisk, store: Arc<MemoryStore>, objects: &[(&str, Vec<u8>)]) -> Self {
        for (key, bytes) in objects {
            let (key, bytes) = (format!("p/{key}"), Bytes::from(bytes.clone()));
            store.put("b", &key, bytes, &seqferry_store::Attributes::default()).await.unwrap();
        }
        let asked = Arc::new(FaultStore::new(Arc::clone(&store) as Arc<dyn ObjectStore>));
        let source = StoreSource::over(&asked);
        let data = journal.fresh();
        let file_table = FileTable::in_memory();
        let spec = spec(&source, file_table.clone(), "share");
        let share = WritableShare::over(spec, journal.clone(), data.clone(), BOUNDS).await.unwrap();
        Self { store, file_table, bounds: BOUNDS, asked, source, share, journal, data }
    }

    /// The share as the next process finds it.
    pub(super) async fn restarted(self, random: &mut fastrand::Rng, lost_power: bool) -> Self {
        let Self { store, file_table, bounds, asked, source, share, journal, data } = self;
        drop(share);
        let (journal, data) = (journal.restarted(random, lost_power), data.restarted(random, lost_power));
        let file_table = if lost_power { file_table.synced() } else { file_table };
        let spec = spec(&source, file_table.clone(), "share");
        let share = WritableShare::over(spec, journal.clone(), data.clone(), bounds).await.unwrap();
        Self { store, file_table, bounds, asked, source, share, journal, data }
    }

    /// The share as another process would find it now. This one must do nothing any more.
    pub(super) async fn share_again(&self, lost_power: bool) -> Self {
        let Self { store, file_table, bounds, asked, source, share, journal, data } = self;
        let parts = (Arc::clone(store), Arc::clone(asked), Arc::clone(source));
        let again = Self {
            store: parts.0,
            file_table: file_table.clone(),
            bounds: *bounds,
            asked: parts.1,
            source: parts.2,
            share: share.clone(),
            journal: journal.clone(),
            data: data.clone(),
        };
        again.restarted(&mut random(), lost_power).await
    }

    pub(super) async fn find(&self, path: &str) -> Result<Attributes> {
        let mut found = self.share.attributes(&root(), self.share.root()).await?;
        for name in path.split('/').filter(|name| !name.is_empty()) {
            found = self.share.lookup(&root(), found.file, name.as_bytes()).await?;
        }
        Ok(found)
    }

    pub(super) async fn id(&self, path: &str) -> FileId {
        self.find(path).await.unwrap().file
    }

    pub(super) async fn bytes(&self, file: FileId) -> Result<Vec<u8>> {
        let read = self.share.read(&root(), file, 0, 1 << 20).await?;
        assert!(read.is_end);
        Ok(read.slices.concat())
    }

    pub(super) async fn text(&self, path: &str) -> String {
        String::from_utf8(self.bytes(self.id(path).await).await.unwrap()).unwrap()
    }

    async fn create(&self, caller: &Caller, directory: FileId, name: &str, how: CreateMode) -> Result<CreateResult> {
        self.share.create(caller, directory, name.as_bytes(), how).await
    }

    /// A file with these bytes, committed.
    pub(super) async fn put(&self, path: &str, text: &str) -> FileId {
        let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
        let how = CreateMode::Guarded(SetAttributes::default());
        let file = self.create(&root(), self.id(directory).await, name, how).await.unwrap().attributes.file;
        self.write(file, 0, text, Stability::File).await.unwrap();
        file
    }

    pub(super) async fn write(
        &self,
        file: FileId,
        offset: u64,
        text: &str,
        stability: Stability,
    ) -> Result<WriteResult> {
        self.share.write(&root(), file, offset, Bytes::from(text.to_owned()), stability).await
    }

    pub(super) async fn names(&self, path: &str, most: usize) -> Vec<String> {
        let directory = self.id(path).await;
        let (mut names, mut cookie) = (Vec::new(), 2);
        loop {
            let page = self.share.read_directory(&root(), directory, cookie, most, EntryDetail::All).await.unwrap();
            assert!(page.entries.len() <= most);
            for entry in page.entries {
                cookie = entry.cookie;
                names.push(String::from_utf8(entry.name.to_vec()).unwrap());
            }
            if page.is_end {
                return names;
            }
        }
    }
}

/// Delays of requests and of their answers, from one millisecond to the longest.
pub(super) fn late_answers(longest: u64) -> Vec<Fault> {
    let delays = (1..=longest).map(Duration::from_millis);
    delays.flat_map(|delay| [Fault::Delay(delay), Fault::DelayReply(delay)]).collect()
}

pub(super) fn root() -> Caller {
    user(0)
}

fn user(uid: u32) -> Caller {
    Caller { address: IpAddr::from([127, 0, 0, 1]), uid, gid: uid, groups: Vec::new() }
}

pub(super) fn random() -> fastrand::Rng {
    fastrand::Rng::with_seed(7)
}

#[tokio::test]
async fn what_was_committed_is_there_after_a_loss_of_power_and_what_was_not_is_told_by_its_size() {
    let setting = Setting::new(&[]).await;
    let file = setting.put("new", "committed").await;
    let unstable = setting.write(file, 9, " and more", Stability::Unstable).await.unwrap();
    assert_eq!((unstable.stability, unstable.file.after.unwrap().size), (Stability::Unstable, 18));
    assert_eq!(setting.text("new").await, "committed and more");
    let setting = setting.restarted(&mut random(), true).await;
    assert_eq!(setting.id("new").await, file, "the identity stays");
    assert_eq!(setting.text("new").await, "committed");
    setting.write(file, 9, " again", Stability::Unstable).await.unwrap();
    let committed = setting.share.commit(&root(), file).await.unwrap();
    assert_eq!(committed.after.unwrap().size, 15);
    let setting = setting.restarted(&mut random(), true).await;
    assert_eq!(setting.text("new").await, "committed again");
}

#[tokio::test]
async fn bytes_that_were_shown_after_a_kill_are_not_taken_back_by_a_loss_of_power() {
    // The effect of a power loss is random.
    for seed in 0..20 {
        let mut random = fastrand::Rng::with_seed(seed);
        let setting = Setting::new(&[]).await;
        let file = setting.put("a", "old bytes").await;
        // Written over by a process that is killed before its journal has it.
        setting.share.0.data.write(file.number, 0, b"new").unwrap();
        let setting = setting.restarted(&mut random, false).await;
        assert_eq!(setting.text("a").await, "new bytes");
        let setting = setting.restarted(&mut random, true).await;
        assert_eq!(setting.text("a").await, "new bytes", "seed {seed}");
    }
}

#[tokio::test]
async fn a_part_of_an_object_is_overwritten_without_reading_it() {
    let object: Vec<u8> = (0..1_000_000_u32).map(|at| (at % 251) as u8).collect();
    let setting = Setting::new(&[("runs/large", object.clone())]).await;
    let file = setting.id("runs/large").await;
    setting.write(file, 500_000, "hello", Stability::File).await.unwrap();
    setting.write(file, 1_000_000, "end", Stability::File).await.unwrap();
    assert_eq!(setting.source.counters.bytes_fetched(), 0);
    let mut expected = object.clone();
    expected[500_000..500_005].copy_from_slice(b"hello");
    expected.extend(b"end");
    let setting = setting.restarted(&mut random(), true).await;
    assert_eq!(setting.id("runs/large").await, file);
    assert!(setting.bytes(file).await.unwrap() == expected);
    // Cut off and extended, the rest of the object does not come back.
    let size = |size| SetAttributes { size: Some(size), ..SetAttributes::default() };
    setting.share.set_attributes(&root(), file, size(10), None).await.unwrap();
    setting.share.set_attributes(&root(), file, size(500_003), None).await.unwrap();
    let setting = setting.restarted(&mut random(), true).await;
    let found = setting.bytes(file).await.unwrap();
    assert!(found[..10] == object[..10] && found[10..].iter().all(|byte| *byte == 0) && found.len() == 500_003);
    // Where another program has replaced the object, its bytes are not mixed in.
    setting.store.put("b", "p/runs/large", Bytes::from_static(b"x"), &<_>::default()).await.unwrap();
    let again = setting.restarted(&mut random(), false).await;
    assert_eq!(again.share.read(&root(), file, 0, 20).await.unwrap_err(), FileError::Io);
}

#[tokio::test]
async fn creations_keep_their_conditions_when_they_come_twice_and_after_a_restart() {
    let setting = Setting::new(&[("there", b"bytes".to_vec())]).await;
    let top = setting.share.root();
    let made = setting.create(&user(0), top, "lock", CreateMode::Exclusive([1; 8])).await.unwrap();
    let setting = setting.restarted(&mut random(), true).await;
    let again = setting.create(&user(0), top, "lock", CreateMode::Exclusive([1; 8])).await.unwrap();
    assert_eq!(again.attributes.file, made.attributes.file);
    let plain = SetAttributes::default();
    for (name, how, expected) in [
        ("lock", CreateMode::Exclusive([2; 8]), Err(FileError::Exists)),
        ("lock", CreateMode::Guarded(plain), Err(FileError::Exists)),
        ("there", CreateMode::Exclusive([1; 8]), Err(FileError::Exists)),
        ("there", CreateMode::Guarded(plain), Err(FileError::Exists)),
        ("there", CreateMode::Unchecked(plain), Ok(5)),
        ("there", CreateMode::Unchecked(SetAttributes { size: Some(0), ..plain }), Ok(0)),
        ("new", CreateMode::Unchecked(SetAttributes { size: Some(3), mode: Some(0o600), ..plain }), Ok(3)),
    ] {
        let created = setting.create(&root(), top, name, how).await;
        assert_eq!(created.map(|created| created.attributes.size), expected, "{name} {how:?}");
    }
    assert_eq!((setting.find("new").await.unwrap().mode, setting.text("new").await.as_str()), (0o600, "\0\0\0"));
    setting.share.create_directory(&root(), top, b"folder", plain).await.unwrap();
    let over = setting.create(&root(), top, "folder", CreateMode::Unchecked(plain)).await;
    assert_eq!(over.unwrap_err(), FileError::Exists);
}

#[tokio::test]
async fn a_folder_that_is_renamed_keeps_all_handles_below_it() {
    let objects = [("runs/1/a", b"a".to_vec()), ("runs/1/deep/b", b"b".to_vec()), ("runs/2/c", b"c".to_vec())];
    let setting = Setting::new(&objects).await;
    let (a, b) = (setting.id("runs/1/a").await, setting.id("runs/1/deep/b").await);
    let new = setting.put("runs/1/new", "new").await;
    let (top, runs) = (setting.share.root(), setting.id("runs").await);
    setting.share.rename(&root(), runs, b"1", top, b"moved").await.unwrap();
    let setting = setting.restarted(&mut random(), true).await;
    assert_eq!(setting.names("", 1).await, ["moved", "runs"]);
    assert_eq!(setting.names("runs", 9).await, ["2"]);
    assert_eq!(setting.names("moved", 2).await, ["a", "deep", "new"]);
    assert_eq!(setting.find("runs/1").await.unwrap_err(), FileError::NotFound);
    for (path, file, text) in [("moved/a", a, "a"), ("moved/deep/b", b, "b"), ("moved/new", new, "new")] {
        assert_eq!((setting.id(path).await, setting.text(path).await.as_str()), (file, text));
    }
    // A folder and a file of the old names are others.
    setting.share.create_directory(&root(), runs, b"1", SetAttributes::default()).await.unwrap();
    let other = setting.put("runs/1/a", "other").await;
    assert_ne!(other, a);
    assert_eq!((setting.text("runs/1/a").await, setting.text("moved/a").await), ("other".into(), "a".into()));
    let moved = setting.id("moved").await;
    let below = setting.share.rename(&root(), top, b"moved", moved, b"below").await;
    assert_eq!(below.unwrap_err(), FileError::Invalid);
    let full = setting.share.rename(&root(), top, b"moved", runs, b"1").await;
    assert_eq!(full.unwrap_err(), FileError::NotEmpty);
    assert_eq!(setting.share.pending_removals(), []);
    setting.share.remove(&root(), moved, b"a").await.unwrap();
    assert_eq!(
        setting.share.pending_removals().iter().map(|(path, _)| path.as_str()).collect::<Vec<_>>(),
        ["runs/1/a"]
    );
    assert_eq!(setting.bytes(a).await.unwrap_err(), FileError::Stale);
}

#[tokio::test]
async fn callers_change_what_owner_group_mode_and_sticky_bit_allow() {
    let setting = Setting::new(&[]).await;
    let top = setting.share.root();
    let set = |mode| SetAttributes { mode: Some(mode), ..SetAttributes::default() };
    setting.share.set_attributes(&root(), top, set(0o1777), None).await.unwrap();
    let made = setting.create(&user(5), top, "mine", CreateMode::Guarded(set(0o400))).await.unwrap().attributes;
    assert_eq!((made.uid, made.gid, made.mode), (5, 5, 0o400));
    let write = async |uid| {
        let data = Bytes::from_static(b"x");
        setting.share.write(&user(uid), made.file, 0, data, Stability::Unstable).await.map(drop)
    };
    assert_eq!(write(5).await, Ok(()), "the owner has it open");
    assert_eq!(write(6).await, Err(FileError::AccessDenied));
    assert!(!setting.share.access(&user(5), made.file).await.unwrap().0.includes(Access::MODIFY));
    assert_eq!(setting.share.remove(&user(6), top, b"mine").await.unwrap_err(), FileError::AccessDenied);
    let renamed = setting.share.rename(&user(6), top, b"mine", top, b"theirs").await;
    assert_eq!(renamed.unwrap_err(), FileError::AccessDenied);
    let at = TimeUpdate::At(SystemTime::UNIX_EPOCH + Duration::from_nanos(1_234_567_891));
    for (uid, set, expected) in [
        (6, set(0o777), Err(FileError::NotPermitted)),
        (5, SetAttributes { uid: Some(6), ..SetAttributes::default() }, Err(FileError::NotPermitted)),
        (5, SetAttributes { gid: Some(6), ..SetAttributes::default() }, Err(FileError::NotPermitted)),
        (6, SetAttributes { modified: Some(at), ..SetAttributes::default() }, Err(FileError::NotPermitted)),
        (
            6,
            SetAttributes { modified: Some(TimeUpdate::Now), ..SetAttributes::default() },
            Err(FileError::AccessDenied),
        ),
        (6, SetAttributes { size: Some(0), ..SetAttributes::default() }, Err(FileError::AccessDenied)),
        (5, SetAttributes { modified: Some(at), mode: Some(0o4755), ..SetAttributes::default() }, Ok(())),
        (0, SetAttributes { uid: Some(8), gid: Some(9), ..SetAttributes::default() }, Ok(())),
    ] {
        let done = setting.share.set_attributes(&user(uid), made.file, set, None).await.map(drop);
        assert_eq!(done, expected, "{uid} {set:?}");
    }
    let setting = setting.restarted(&mut random(), true).await;
    let facts = setting.find("mine").await.unwrap();
    let modified = facts.modified.duration_since(SystemTime::UNIX_EPOCH).unwrap();
    assert_eq!((facts.uid, facts.gid, facts.mode, modified.as_nanos()), (8, 9, 0o4755, 1_234_567_891));
    setting.share.write(&user(8), facts.file, 0, Bytes::from_static(b"y"), Stability::File).await.unwrap();
    assert_eq!(setting.find("mine").await.unwrap().mode, 0o755, "the set-user-id bit is cleared");
    let guard = Some(facts.changed);
    let late = setting.share.set_attributes(&root(), facts.file, set(0o700), guard).await;
    assert_eq!(late.unwrap_err(), FileError::NotSynchronized);
    setting.share.set_attributes(&root(), top, set(0o755), None).await.unwrap();
    let denied = setting.create(&user(5), top, "other", CreateMode::Guarded(set(0o600))).await;
    assert_eq!(denied.unwrap_err(), FileError::AccessDenied);
}

#[tokio::test]
async fn names_that_no_object_can_have_are_refused_when_they_are_made() {
    let setting = Setting::new(&[]).await;
    let top = setting.share.root();
    let how = CreateMode::Guarded(SetAttributes::default());
    for name in [&b"\xff\xfe"[..], b"link.rclonelink", b"nul\0"] {
        assert_eq!(setting.share.create(&root(), top, name, how).await.unwrap_err(), FileError::Invalid, "{name:?}");
    }
    let mut directory = top;
    for depth in 0..4 {
        let name = [b'a' + depth; 250];
        let made = setting.share.create_directory(&root(), directory, &name, SetAttributes::default()).await;
        directory = made.unwrap().attributes.file;
    }
    // The prefix, four names with their slashes, and what is left of 1,024 bytes.
    let left = 1024 - 2 - 4 * 251;
    for (length, expected) in [(left, Ok(())), (left + 1, Err(FileError::NameTooLong))] {
        let name = "x".repeat(length);
        assert_eq!(setting.create(&root(), directory, &name, how).await.map(drop), expected, "{length}");
    }
    let folder = "y".repeat(left);
    let made = setting.share.create_directory(&root(), directory, folder.as_bytes(), SetAttributes::default()).await;
    assert_eq!(made.unwrap_err(), FileError::NameTooLong, "its marker has a slash more");
    setting.put("short", "x").await;
    let deep = setting.share.rename(&root(), top, b"short", directory, "z".repeat(left + 1).as_bytes()).await;
    assert_eq!(deep.unwrap_err(), FileError::NameTooLong);
    // A folder that holds long paths cannot go where they would be too long.
    setting.share.create_directory(&root(), top, b"holder", SetAttributes::default()).await.unwrap();
    let holder = setting.id("holder").await;
    let moved = setting.share.rename(&root(), top, &[b'a'; 250], holder, &[b'a'; 250]).await;
    assert_eq!(moved.unwrap_err(), FileError::NameTooLong);
}

#[tokio::test]
async fn a_folder_is_emptied_while_it_is_listed() {
    let objects: Vec<(String, Vec<u8>)> = (0..20).map(|at| (format!("d/{at:02}"), vec![1])).collect();
    let objects: Vec<(&str, Vec<u8>)> = objects.iter().map(|(key, bytes)| (key.as_str(), bytes.clone())).collect();
    let setting = Setting::new(&objects).await;
    for at in 0..20 {
        setting.put(&format!("d/{at:02}-new"), "x").await;
    }
    let directory = setting.id("d").await;
    let before = setting.find("d").await.unwrap();
    let (mut cookie, mut count) = (2, 0);
    loop {
        let page = setting.share.read_directory(&root(), directory, cookie, 3, EntryDetail::All).await.unwrap();
        for entry in &page.entries {
            setting.share.remove(&root(), directory, &entry.name).await.unwrap();
            cookie = entry.cookie;
            count += 1;
        }
        if page.is_end {
            break;
        }
    }
    assert_eq!(count, 40);
    let after = setting.find("d").await.unwrap();
    assert!(after.modified > before.modified && after.changed > before.changed);
    setting.share.remove_directory(&root(), setting.share.root(), b"d").await.unwrap();
    let setting = setting.restarted(&mut random(), true).await;
    assert_eq!(setting.names("", 5).await, [""; 0]);
    assert_eq!(setting.share.pending_removals().len(), 21, "the objects, and the marker of the folder");
}

#[tokio::test]
async fn a_full_disk_makes_writers_wait_and_a_bad_one_ends_all_acknowledgements() {
    let setting = Setting::new(&[("there", b"bytes".to_vec())]).await;
    let file = setting.put("new", "committed").await;
    setting.data.set_free(4);
    assert_eq!(setting.write(file, 0, "x", Stability::Unstable).await.unwrap_err(), FileError::TryLater);
    let how = CreateMode::Guarded(SetAttributes::default());
    assert_eq!(setting.create(&root(), setting.share.root(), "x", how).await.unwrap_err(), FileError::TryLater);
    setting.data.set_free(50);
    setting.data.fail(&[DiskStep::Write]);
    assert_eq!(setting.write(file, 0, "x", Stability::File).await.unwrap_err(), FileError::TryLater);
    setting.data.fail(&[]);
    setting.write(file, 0, "C", Stability::File).await.unwrap();
    setting.write(file, 0, "lost", Stability::Unstable).await.unwrap();
    setting.data.fail(&[DiskStep::Sync]);
    assert_eq!(setting.share.commit(&root(), file).await.unwrap_err(), FileError::Io);
    setting.data.fail(&[]);
    assert_eq!(setting.share.commit(&root(), file).await.unwrap_err(), FileError::Io, "a second sync proves nothing");
    assert_eq!(setting.write(file, 0, "x", Stability::Unstable).await.unwrap_err(), FileError::Io);
    assert_eq!(setting.create(&root(), setting.share.root(), "x", how).await.unwrap_err(), FileError::Io);
    assert_eq!(setting.text("there").await, "bytes", "what is in the bucket is read");
    let setting = setting.restarted(&mut random(), false).await;
    setting.journal.fail(&[DiskStep::Sync]);
    assert_eq!(setting.create(&root(), setting.share.root(), "y", how).await.unwrap_err(), FileError::Io);
    setting.journal.fail(&[]);
    assert_eq!(setting.create(&root(), setting.share.root(), "z", how).await.unwrap_err(), FileError::Io);
}

#[tokio::test]
async fn a_file_that_is_written_in_very_many_places_stays_small_in_the_journal() {
    let object = vec![b'.'; 12_000];
    let setting = Setting::new(&[("there", object.clone())]).await;
    let (there, new) = (setting.id("there").await, setting.put("new", "").await);
    let mut expected = [object, vec![0; 11_999]];
    for at in (0..12_000).step_by(2) {
        for (file, bytes) in [there, new].into_iter().zip(&mut expected) {
            setting.write(file, at, "x", Stability::Unstable).await.unwrap();
            bytes[usize::try_from(at).unwrap()] = b'x';
        }
    }
    setting.share.commit(&root(), there).await.unwrap();
    setting.share.commit(&root(), new).await.unwrap();
    let setting = setting.restarted(&mut random(), true).await;
    assert!(setting.bytes(there).await.unwrap() == expected[0]);
    assert!(setting.bytes(new).await.unwrap() == expected[1]);
}

#[tokio::test]
async fn links_are_made_renamed_and_read() {
    let setting = Setting::new(&[]).await;
    let top = setting.share.root();
    let target = Bytes::from_static(b"../elsewhere/\xff");
    let made = setting.share.create_link(&root(), top, b"link", target.clone(), SetAttributes::default()).await;
    let made = made.unwrap().attributes;
    assert_eq!((made.kind, made.size, made.mode), (FileKind::Symlink, 14, 0o777));
    setting.share.rename(&root(), top, b"link", top, b"other").await.unwrap();
    let setting = setting.restarted(&mut random(), true).await;
    let link = setting.id("other").await;
    assert_eq!((link, setting.share.read_link(&root(), link).await.unwrap()), (made.file, target));
    assert_eq!(setting.share.read(&root(), link, 0, 1).await.unwrap_err(), FileError::Invalid);
    assert_eq!(setting.share.read_link(&root(), top).await.unwrap_err(), FileError::Invalid);
    assert_eq!(setting.share.remove_directory(&root(), top, b"other").await.unwrap_err(), FileError::NotADirectory);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_of_this_machine_holds_one_share_and_keeps_data_that_it_does_not_know() {
    let folder = std::env::temp_dir().join(format!("seqferry-writable-{:016x}", fastrand::u64(..)));
    let source = StoreSource::over(&MemoryStore::with_buckets(&["b"]));
    let share = WritableShare::open(spec(&source, FileTable::in_memory(), "one"), &folder).await.unwrap();
    let twice = WritableShare::open(spec(&source, FileTable::in_memory(), "one"), &folder).await.unwrap_err();
    assert!(twice.0.contains("another gateway uses"), "{twice}");
    let how = CreateMode::Guarded(SetAttributes::default());
    let file = share.create(&root(), share.root(), b"new", how).await.unwrap().attributes.file;
    let bytes = Bytes::from(vec![7; 300_000]);
    share.write(&root(), file, 5, bytes.clone(), Stability::File).await.unwrap();
    drop(share);
    std::fs::write(folder.join("data/00000000000000ff.data"), b"unknown").unwrap();
    let other = WritableShare::open(spec(&source, FileTable::in_memory(), "other"), &folder).await.unwrap_err();
    assert!(other.0.contains("belongs to another share (one)"), "{other}");
    let share = WritableShare::open(spec(&source, FileTable::in_memory(), "one"), &folder).await.unwrap();
    let read = share.read(&root(), file, 0, 1 << 20).await.unwrap().slices.concat();
    assert!(read[..5] == [0; 5] && read[5..] == bytes);
    assert_eq!(std::fs::read(folder.join("data/00000000000000ff.data.unknown")).unwrap(), b"unknown");
    std::fs::remove_file(folder.join("data/00000000000000ff.data.unknown")).unwrap();
    share.remove(&root(), share.root(), b"new").await.unwrap();
    let data = std::fs::read_dir(folder.join("data"))
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().file_name().to_str().unwrap().contains(".data"));
    assert_eq!(data.count(), 0, "a removed file takes no room");
    drop(share);
    std::fs::remove_dir_all(folder).unwrap();
}

#[tokio::test]
async fn the_room_that_shows_is_that_of_the_disk_or_less_where_less_is_set() {
    let setting = Setting::new(&[]).await;
    let space = async || setting.share.space(&root()).await.unwrap();
    let usable = SPACE - SPACE / 20;
    assert_eq!((space().await.free_bytes, space().await.total_bytes), (usable, usable));
    setting.data.set_free(25);
    assert_eq!((space().await.free_bytes, space().await.total_bytes), (SPACE / 4 - SPACE / 20, usable));
    setting.data.set_free(4);
    assert_eq!(space().await.free_bytes, 0, "the rest is for the journal");
    let mut spec = spec(&setting.source, FileTable::in_memory(), "small");
    spec.defaults.free_space = 1 << 30;
    let (journal, data) = (SimulatedDisk::default(), SimulatedDisk::default());
    let share = WritableShare::over(spec, journal, data, BOUNDS).await.unwrap();
    let shown = share.space(&root()).await.unwrap();
    assert_eq!((shown.free_bytes, shown.total_bytes), (1 << 30, 1 << 30));
}
