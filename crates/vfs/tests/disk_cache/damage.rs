//! Flipped bytes, cut files and a full disk: misses, never wrong bytes.

use std::os::unix::fs::FileExt as _;
use std::process::Command;

use seqferry_testkit::data;
use seqferry_vfs::BLOCK_SIZE;
use seqferry_vfs::disk_cache::{Admission, DiskCache, Fill};

use crate::support::{Scratch, block, files, limits, object, size};

fn flip(path: &std::path::Path, random: &mut fastrand::Rng) -> bool {
    let file = std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    let len = file.metadata().unwrap().len();
    if len == 0 {
        return false;
    }
    let (at, mask) = (random.u64(..len), random.u8(1..));
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ mask], at).unwrap();
    true
}

#[test]
fn flipped_bytes_are_never_served() {
    let mut random = fastrand::Rng::with_seed(data::seed());
    let scratch = Scratch::new();
    let objects = [object("a", size(3)), object("b", size(70)), object("c", 100)];
    let mut lost = 0;
    for round in 0..60 {
        let cache = scratch.open(limits(1 << 30));
        for object in &objects {
            for number in 0..object.blocks() {
                cache.fill(object, number, &block(object, number), Admission::Always);
            }
        }
        let all = files(&scratch.cache());
        let victims: Vec<_> = all.iter().filter(|path| path.to_string_lossy().contains("objects")).collect();
        for _ in 0..random.usize(1..20) {
            flip(victims[random.usize(..victims.len())], &mut random);
        }
        // Open files and files opened again.
        let cache = if round % 2 == 0 { cache } else { scratch.open(limits(1 << 30)) };
        for object in &objects {
            for (number, bytes) in cache.read(object, 0, 1000).into_iter().enumerate() {
                match bytes {
                    Some(bytes) => assert!(bytes == block(object, number as u64), "round {round}: wrong bytes"),
                    None => lost += 1,
                }
            }
        }
        cache.evict().unwrap();
    }
    assert!(lost > 0, "nothing was damaged");
}

#[test]
fn a_damaged_block_is_dropped_and_filled_anew() {
    let scratch = Scratch::new();
    let cache = scratch.open(limits(1 << 30));
    let a = object("a", size(2));
    for number in 0..2 {
        assert_eq!(cache.fill(&a, number, &block(&a, number), Admission::Always), Fill::Stored);
    }
    let data = files(&scratch.cache()).into_iter().find(|path| path.extension().is_some_and(|e| e == "data")).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(&data).unwrap();
    file.write_all_at(b"x", BLOCK_SIZE + 7).unwrap();

    assert!(cache.read(&a, 0, 9) == [Some(block(&a, 0)), None]);
    assert_eq!((cache.stats().damaged, cache.stats().hits, cache.stats().misses), (1, 1, 1));
    assert_eq!(cache.present(&a, 0, 9), [true, false]);

    assert_eq!(cache.fill(&a, 1, &block(&a, 1), Admission::Always), Fill::Stored);
    assert!(cache.read(&a, 1, 1) == [Some(block(&a, 1))]);
}

#[test]
fn verify_finds_and_drops_damaged_blocks() {
    let scratch = Scratch::new();
    let cache = scratch.open(limits(1 << 30));
    let (a, b) = (object("a", size(3)), object("b", size(1)));
    for object in [&a, &b] {
        for number in 0..object.blocks() {
            cache.fill(object, number, &block(object, number), Admission::Always);
        }
    }
    let mut all = files(&scratch.cache());
    all.retain(|path| path.extension().is_some_and(|e| e == "data") && path.metadata().unwrap().len() > BLOCK_SIZE);
    let file = std::fs::OpenOptions::new().write(true).open(&all[0]).unwrap();
    file.write_all_at(b"x", 7).unwrap();
    file.set_len(2 * BLOCK_SIZE + 10).unwrap();

    let mut found = Vec::new();
    cache.verify(None, |result| found.push((result.object.key.to_string(), result.sound, result.damaged))).unwrap();

    found.sort();
    assert_eq!(found, [("a".to_owned(), 1, 2), ("b".to_owned(), 1, 0)]);
    assert_eq!(cache.present(&a, 0, 3), [false, true, false]);
}

/// A mounted file system of 6 MiB in memory.
struct SmallDisk(Scratch);

impl SmallDisk {
    fn mount() -> Option<Self> {
        let scratch = Scratch::new();
        let status = Command::new("mount").args(["-t", "tmpfs", "-o", "size=6m", "none"]).arg(&scratch.0).status();
        status.is_ok_and(|status| status.success()).then_some(Self(scratch))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0.0).status();
    }
}

#[test]
fn a_full_disk_leaves_reads_right_and_is_noted_once() {
    let Some(small) = SmallDisk::mount() else {
        eprintln!("SKIPPED a_full_disk_leaves_reads_right_and_is_noted_once: cannot mount a tmpfs");
        return;
    };
    let cache = DiskCache::open_passive(&small.0.cache(), limits(1 << 40)).unwrap();
    // Room that the free space of the file system promises, and that another program then takes.
    let a = object("a", size(200));
    assert_eq!(cache.fill(&a, 0, &block(&a, 0), Admission::Always), Fill::Stored);
    let other = small.0.0.join("other");
    let mut taken = 5 << 20;
    while std::fs::write(&other, vec![1; taken]).is_err() {
        taken -= 4096;
    }
    let mut fates = Vec::new();
    for number in 0..200 {
        fates.push(cache.fill(&a, number, &block(&a, number), Admission::Always));
        let read = cache.read(&a, number, 1).pop().flatten();
        assert!(read.is_none_or(|bytes| bytes == block(&a, number)));
    }

    assert!(fates.contains(&Fill::NoRoom), "{fates:?}");
    assert!(cache.read(&a, 0, 1)[0].is_some());
    std::fs::remove_file(other).unwrap();
    let mut notes = cache.take_notes();
    notes.retain(|note| note.contains("full"));
    assert!(notes.len() <= 1, "{notes:?}");
    assert_eq!(cache.take_notes(), Vec::<String>::new());
}

#[test]
fn a_folder_that_is_gone_makes_misses_and_one_note() {
    let scratch = Scratch::new();
    let cache = scratch.open(limits(1 << 30));
    std::fs::remove_dir_all(scratch.cache()).unwrap();
    let (a, b) = (object("a", 10), object("b", 10));

    for object in [&a, &b] {
        assert_eq!(cache.fill(object, 0, &block(object, 0), Admission::Always), Fill::Failed);
        assert!(cache.read(object, 0, 1) == [None]);
    }

    let notes = cache.take_notes();
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(notes[0].contains("Reading goes on without it"), "{notes:?}");
}
