//! Several processes on one cache, and processes that are killed at any moment.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use seqferry_testkit::data;
use seqferry_vfs::ObjectVersion;
use seqferry_vfs::disk_cache::{Admission, DiskCache, Fill};

use crate::support::{Scratch, block, disk_usage, limits, object, size};

const CAP: u64 = 24 << 20;

fn objects() -> Vec<ObjectVersion> {
    (0..12).map(|number| object(&format!("shared/{number}"), size(1 + 13 * number))).collect()
}

/// A process that runs [`work_on_a_cache`] on this folder.
fn worker(folder: &Path, seed: u64, calls: u64) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "processes::work_on_a_cache", "--ignored", "--test-threads=1", "--nocapture", "-q"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    writeln!(child.stdin.as_mut().unwrap(), "{}\n{seed}\n{calls}", folder.display()).unwrap();
    child
}

#[test]
#[ignore = "the process that other tests start"]
fn work_on_a_cache() {
    let mut lines = std::io::stdin().lock().lines().map(Result::unwrap);
    let folder = lines.next().unwrap();
    let mut random = fastrand::Rng::with_seed(lines.next().unwrap().parse().unwrap());
    let calls: u64 = lines.next().unwrap().parse().unwrap();
    let cache = DiskCache::open(Path::new(&folder), limits(CAP)).unwrap();
    let objects = objects();
    let mut hits = 0;
    println!("ready");
    for _ in 0..calls {
        let object = &objects[random.usize(..objects.len())];
        let number = random.u64(..object.blocks());
        let expected = block(object, number);
        if let Some(bytes) = cache.read(object, number, 1).pop().flatten() {
            assert!(bytes == expected, "wrong bytes");
            hits += 1;
        } else {
            let fill = cache.fill(object, number, &expected, Admission::Always);
            assert!(!matches!(fill, Fill::Failed | Fill::Refused), "{fill:?}: {:?}", cache.take_notes());
        }
    }
    println!("hits {hits}");
}

#[test]
fn processes_share_a_cache_within_its_cap() {
    let seed = data::seed();
    let scratch = Scratch::new();
    let children: Vec<Child> = (0..4).map(|number| worker(&scratch.cache(), seed + number, 1500)).collect();
    let mut hits = 0;
    for mut child in children {
        let mut output = String::new();
        child.stdout.take().unwrap().read_to_string(&mut output).unwrap();
        assert!(child.wait().unwrap().success(), "{output}");
        let found = output.lines().find_map(|line| line.split_once("hits ")).unwrap_or_else(|| panic!("{output}"));
        hits += found.1.trim().parse::<u64>().unwrap();
    }

    assert!(hits > 500, "{hits} hits");
    let used = disk_usage(&scratch.cache().join("objects"));
    assert!(used <= CAP, "{used} bytes");
    let cache = scratch.open(limits(CAP));
    cache.verify(None, |result| assert_eq!(result.damaged, 0, "{}", result.object.key)).unwrap();
}

#[test]
fn killed_processes_leave_a_cache_that_is_right() {
    let mut random = fastrand::Rng::with_seed(data::seed());
    let scratch = Scratch::new();
    for round in 0..12 {
        let mut children: Vec<Child> =
            (0..2).map(|_| worker(&scratch.cache(), random.u64(..1 << 40), u64::MAX)).collect();
        for child in &mut children {
            let mut output = BufReader::new(child.stdout.as_mut().unwrap());
            let mut line = String::new();
            while !line.contains("ready") {
                line.clear();
                assert!(output.read_line(&mut line).unwrap() > 0, "round {round}: it ended by itself");
            }
        }
        // At work now; some rounds die early, some late.
        std::thread::sleep(std::time::Duration::from_micros(random.u64(..150_000)));
        for child in &mut children {
            assert!(child.try_wait().unwrap().is_none(), "round {round}: it ended by itself");
            child.kill().unwrap();
            child.wait().unwrap();
        }
        let cache = scratch.open(limits(CAP));
        for object in objects() {
            for (number, bytes) in cache.read(&object, 0, 1000).into_iter().enumerate() {
                assert!(bytes.is_none_or(|bytes| bytes == block(&object, number as u64)), "round {round}: wrong bytes");
            }
        }
        // Room that the dead had reserved comes back with the next scan of all files.
        cache.evict().unwrap().unwrap();
        let used = disk_usage(&scratch.cache().join("objects"));
        assert!(used <= CAP && cache.stats().used <= used + 4096, "round {round}: {used}, {:?}", cache.stats());
    }
}

#[test]
fn an_object_in_use_by_another_process_stays() {
    let scratch = Scratch::new();
    let cache = scratch.open(limits(1 << 30));
    let a = object("a", size(2));
    assert_eq!(cache.fill(&a, 0, &block(&a, 0), Admission::Always), Fill::Stored);
    let side =
        crate::support::files(&scratch.cache()).into_iter().find(|path| path.extension().is_some_and(|e| e == "side"));
    let other = std::fs::File::open(side.unwrap()).unwrap();

    other.lock_shared().unwrap();
    assert_eq!(cache.remove(None).unwrap().busy, 1);
    assert!(cache.read(&a, 0, 1) == [Some(block(&a, 0))]);

    // While an evictor holds it, it is a miss without a wait.
    other.unlock().unwrap();
    other.lock().unwrap();
    assert!(cache.read(&a, 0, 1) == [None]);
    assert_eq!(cache.fill(&a, 1, &block(&a, 1), Admission::Always), Fill::Busy);

    other.unlock().unwrap();
    assert_eq!(cache.remove(None).unwrap().objects, 1);
}
