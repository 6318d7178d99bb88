//! The cap, the order of eviction, pins, and what a stream may take.

use seqferry_vfs::disk_cache::{Admission, CacheLimits, DiskCache, Fill, Prefix};
use seqferry_vfs::{BLOCK_SIZE, ObjectVersion};

use crate::support::{Scratch, block, disk_usage, limits, object, size};

const MIB: u64 = 1 << 20;

fn prefix(prefix: &str) -> Prefix {
    Prefix { endpoint: "https://s3.example.com".into(), bucket: "b".into(), prefix: prefix.into() }
}

fn fill(cache: &DiskCache, object: &ObjectVersion) -> usize {
    let stored = |number: &u64| cache.fill(object, *number, &block(object, *number), Admission::Always) == Fill::Stored;
    (0..object.blocks()).filter(stored).count()
}

fn hits(cache: &DiskCache, object: &ObjectVersion) -> usize {
    cache.read(object, 0, object.blocks()).iter().flatten().count()
}

#[test]
fn nothing_is_written_beyond_the_cap() {
    let scratch = Scratch::new();
    let cache = scratch.open(limits(10 * MIB));
    let stored: usize = (0..20).map(|number| fill(&cache, &object(&number.to_string(), 8 * BLOCK_SIZE))).sum();

    assert!((60..80).contains(&stored), "{stored} blocks");
    assert!(disk_usage(&scratch.cache()) <= 10 * MIB, "{} bytes", disk_usage(&scratch.cache()));
    assert!(cache.stats().no_room > 0);
}

#[test]
fn eviction_makes_room_and_the_counter_is_true_after_it() {
    let scratch = Scratch::new();
    let cache = scratch.open(limits(10 * MIB));
    for number in 0..40 {
        fill(&cache, &object(&number.to_string(), 8 * BLOCK_SIZE));
        cache.evict().unwrap().unwrap();
        assert!(disk_usage(&scratch.cache().join("objects")) <= 10 * MIB);
    }
    let report = cache.evict().unwrap().unwrap();

    assert!(report.used <= 10 * MIB && report.used > 8 * MIB, "{report:?}");
    assert!(cache.stats().evicted > 25 * MIB);
    let last = object("39", 8 * BLOCK_SIZE);
    assert_eq!(hits(&cache, &last), 8);
}

#[test]
fn the_evictor_of_a_cache_works_by_itself() {
    let scratch = Scratch::new();
    let cache = DiskCache::open(&scratch.cache(), limits(10 * MIB)).unwrap();
    let mut stored = 0;
    let deadline = std::time::Instant::now() + std::time::Duration::from_mins(2);
    for number in 0.. {
        stored += fill(&cache, &object(&number.to_string(), 8 * BLOCK_SIZE));
        if stored > 240 {
            break;
        }
        assert!(std::time::Instant::now() < deadline, "{:?}", cache.stats());
    }
}

#[test]
fn what_is_read_again_survives_a_long_scan() {
    let scratch = Scratch::new();
    let cache = scratch.open(limits(40 * MIB));
    let index = object("reads.bam.bai", size(30));
    fill(&cache, &index);
    for _ in 0..2 {
        assert_eq!(hits(&cache, &index), 30);
    }
    for number in 0..40 {
        fill(&cache, &object(&format!("scan/{number}"), 32 * BLOCK_SIZE));
        cache.evict().unwrap();
    }

    assert_eq!(hits(&cache, &index), 30);
    assert_eq!(hits(&cache, &object("scan/0", 32 * BLOCK_SIZE)), 0);
}

#[test]
fn parts_of_a_large_object_go_and_the_rest_stays() {
    let scratch = Scratch::new();
    let cache = scratch.open(limits(40 * MIB));
    let large = object("large", 400 * BLOCK_SIZE);
    for number in 0..280 {
        cache.fill(&large, number, &block(&large, number), Admission::Always);
        // The second segment is read again.
        if number == 127 {
            cache.read(&large, 64, 64);
        }
    }
    let before = disk_usage(&scratch.cache());
    cache.evict().unwrap();
    for number in 280..310 {
        cache.fill(&large, number, &block(&large, number), Admission::Always);
    }
    cache.evict().unwrap();

    assert!(before > 34 * MIB);
    let present = cache.present(&large, 0, 400);
    assert_eq!(present[..64], [false; 64], "the first segment is oldest and was read once");
    assert_eq!(present[64..128], [true; 64], "the second was read again");
    assert!(disk_usage(&scratch.cache()) < 38 * MIB);
}

#[test]
fn pinned_prefixes_stay_whatever_comes() {
    let scratch = Scratch::new();
    let cache = scratch.open(limits(20 * MIB));
    cache.pin(prefix("ref/")).unwrap();
    let pinned = object("ref/genome.fa", 80 * BLOCK_SIZE);
    fill(&cache, &pinned);
    for number in 0..40 {
        fill(&cache, &object(&number.to_string(), 16 * BLOCK_SIZE));
        cache.evict().unwrap();
    }

    // Reading it would be a reason of its own to keep it.
    let present = |cache: &DiskCache| cache.present(&pinned, 0, 80).into_iter().filter(|there| *there).count();
    assert_eq!(present(&cache), 80);
    assert!(disk_usage(&scratch.cache()) <= 20 * MIB);

    // Another process sees the pin, and that it is gone.
    let other = scratch.open(limits(20 * MIB));
    assert_eq!(other.pins().unwrap(), [prefix("ref/")]);
    assert!(other.unpin(&prefix("ref/")).unwrap());
    assert!(!other.unpin(&prefix("ref/")).unwrap());
    for number in 0..40 {
        fill(&cache, &object(&format!("x{number}"), 16 * BLOCK_SIZE));
        cache.evict().unwrap();
    }
    assert!(present(&cache) < 80);
}

#[test]
fn a_cache_full_of_pinned_objects_refuses_others_and_says_so() {
    let scratch = Scratch::new();
    let cache = scratch.open(limits(10 * MIB));
    cache.pin(prefix("")).unwrap();
    for number in 0..20 {
        fill(&cache, &object(&number.to_string(), 8 * BLOCK_SIZE));
        cache.evict().unwrap();
    }

    let a = object("a", 8 * BLOCK_SIZE);
    assert_eq!(cache.fill(&a, 0, &block(&a, 0), Admission::Always), Fill::NoRoom);
    let notes = cache.take_notes();
    assert!(notes.iter().any(|note| note.contains("Pinned prefixes take")), "{notes:?}");
}

#[test]
fn a_damaged_list_of_pins_stops_eviction_with_a_note() {
    let scratch = Scratch::new();
    let cache = scratch.open(limits(10 * MIB));
    fill(&cache, &object("a", 80 * BLOCK_SIZE));
    std::fs::write(scratch.cache().join("pins.json"), "{").unwrap();

    assert!(cache.evict().is_err());
    assert!(cache.take_notes()[0].contains("pin them again"));
    assert_eq!(cache.stats().evicted, 0);
    cache.pin(prefix("b")).unwrap();
    assert!(cache.evict().unwrap().is_some());
}

#[test]
fn a_long_stream_that_has_room_is_kept_at_once() {
    let scratch = Scratch::new();
    let cache = scratch.open(CacheLimits { stream_bypass: MIB, ..limits(64 * MIB) });
    let pass = |object: &ObjectVersion| -> usize {
        let admission = |number| Admission::Stream { passed: (number + 1) * BLOCK_SIZE };
        let saved_names =
            |number: &u64| cache.fill(object, *number, &block(object, *number), admission(*number)) == Fill::Stored;
        (0..object.blocks()).filter(saved_names).count()
    };

    assert_eq!(pass(&object("first", 240 * BLOCK_SIZE)), 240, "30 MiB of 64");
    let second = pass(&object("second", 320 * BLOCK_SIZE));
    assert!(second < 20, "40 MiB have no room beside them: {second} blocks");
    assert_eq!(hits(&cache, &object("first", 240 * BLOCK_SIZE)), 240, "nothing was evicted for the second");
}

#[test]
fn a_long_stream_without_room_is_passed_by_once_and_kept_the_second_time() {
    // 21 of 24 MiB are taken: with two more it would be above 95 %.
    let nearly_full = || {
        let scratch = Scratch::new();
        let cache = scratch.open(CacheLimits { stream_bypass: MIB, ..limits(24 * MIB) });
        assert_eq!(fill(&cache, &object("other", 168 * BLOCK_SIZE)), 168);
        (scratch, cache)
    };
    let (_scratch, cache) = nearly_full();
    let large = object("large", 16 * BLOCK_SIZE);
    let pass = |cache: &DiskCache, object: &ObjectVersion| -> Vec<Fill> {
        let admission = |number| Admission::Stream { passed: (number + 1) * BLOCK_SIZE };
        (0..16).map(|number| cache.fill(object, number, &block(object, number), admission(number))).collect()
    };

    let first = pass(&cache, &large);
    assert_eq!(first[..8], [Fill::Stored; 8]);
    assert_eq!(first[8..], [Fill::Bypassed; 8]);
    let second = pass(&cache, &large);
    assert_eq!(second[8..], [Fill::Stored; 8]);

    let (_scratch, cache) = nearly_full();
    cache.pin(prefix("pinned/")).unwrap();
    assert_eq!(pass(&cache, &object("pinned/large", 16 * BLOCK_SIZE)), [Fill::Stored; 16]);
}

#[test]
fn the_minimum_of_free_space_is_kept() {
    let scratch = Scratch::new();
    let cache = scratch.open(CacheLimits { min_free: u64::MAX / 2, ..limits(1 << 30) });
    let a = object("a", 10);

    assert_eq!(cache.fill(&a, 0, &block(&a, 0), Admission::Always), Fill::NoRoom);
    assert!(cache.read(&a, 0, 1) == [None]);
}

#[test]
fn versions_of_one_key_are_never_mixed() {
    let scratch = Scratch::new();
    let cache = scratch.open(limits(1 << 30));
    let old = object("a", 1000);
    let new = ObjectVersion { pin: seqferry_vfs::VersionPin::Etag("other".into()), ..old.clone() };
    let unknown = ObjectVersion { pin: seqferry_vfs::VersionPin::Etag("".into()), ..old.clone() };
    cache.fill(&old, 0, &block(&old, 0), Admission::Always);

    assert!(cache.read(&new, 0, 1) == [None]);
    assert_eq!(cache.fill(&unknown, 0, &block(&old, 0), Admission::Always), Fill::Refused);
    assert_eq!(cache.fill(&old, 0, b"short", Admission::Always), Fill::Refused);
    assert_eq!(cache.fill(&old, 0, &block(&old, 0), Admission::Always), Fill::AlreadyThere);
}

#[test]
fn objects_are_listed_and_removed_by_prefix() {
    let scratch = Scratch::new();
    let cache = scratch.open(limits(1 << 30));
    let (a, b) = (object("a/1", size(3)), object("b/1", size(2)));
    fill(&cache, &a);
    cache.fill(&b, 1, &block(&b, 1), Admission::Always);
    cache.pin(prefix("b/")).unwrap();

    let mut listed = Vec::new();
    cache.list(None, |entry| listed.push((entry.object, entry.blocks, entry.bytes, entry.pinned))).unwrap();
    listed.sort_by_key(|entry| entry.0.key.clone());
    assert_eq!(listed, [(a.clone(), 3, size(3), false), (b.clone(), 1, 1234, true)]);

    let report = cache.remove(Some(&prefix("a/"))).unwrap();
    assert_eq!((report.objects, report.busy), (1, 0));
    assert!(report.bytes >= size(3));
    assert_eq!(hits(&cache, &a), 0);
    assert_eq!(hits(&cache, &b), 1);
    // Removed files are made again by a process that had them open.
    assert_eq!(fill(&cache, &a), 3);
    assert_eq!(hits(&cache, &a), 3);
}
