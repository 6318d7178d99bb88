//! Files that another user has put into the folder of a cache: nothing is written through it, read from it or waited
//! for.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, mknodat};
use seqferry_vfs::disk_cache::{Admission, CacheLimits, CacheOpenError, DiskCache, Fill, Prefix};

use crate::support::{Scratch, block, files, limits, object};

const PRECIOUS: &[u8] = b"not to be changed";

#[derive(Clone, Copy, Debug)]
enum Plant {
    Symlink,
    DanglingLink,
    HardLink,
    Fifo,
    Folder,
    ForeignFile,
}

const PLANTS: [Plant; 6] =
    [Plant::Symlink, Plant::DanglingLink, Plant::HardLink, Plant::Fifo, Plant::Folder, Plant::ForeignFile];

/// Puts something in the place of a file; returns the file that it leads to. None: this user cannot.
fn plant(scratch: &Scratch, plant: Plant, at: &Path) -> Option<PathBuf> {
    let _ = std::fs::remove_file(at);
    let victim = scratch.0.join("victim");
    std::fs::write(&victim, PRECIOUS).unwrap();
    match plant {
        Plant::Symlink => symlink(&victim, at).unwrap(),
        Plant::DanglingLink => symlink(scratch.0.join("made"), at).unwrap(),
        Plant::HardLink => std::fs::hard_link(&victim, at).unwrap(),
        Plant::Fifo => mknodat(CWD, at, FileType::Fifo, 0o600.into(), 0).unwrap(),
        Plant::Folder => std::fs::create_dir(at).unwrap(),
        Plant::ForeignFile => {
            std::fs::write(at, PRECIOUS).unwrap();
            chown(at, Some(65534), Some(65534)).ok()?;
        }
    }
    Some(victim)
}

fn unharmed(scratch: &Scratch, victim: &Path, what: &str) {
    assert_eq!(std::fs::read(victim).unwrap(), PRECIOUS, "{what}");
    assert!(!scratch.0.join("made").exists(), "{what}: a file was made outside of the cache");
}

/// A cache with one object, closed again.
fn filled(scratch: &Scratch) {
    let cache = scratch.open(limits(1 << 30));
    let a = object("a", 300_000);
    for number in 0..3 {
        assert_eq!(cache.fill(&a, number, &block(&a, number), Admission::Always), Fill::Stored);
    }
    let pin = Prefix { endpoint: "e".into(), bucket: "b".into(), prefix: "p".into() };
    cache.pin(pin).unwrap();
    cache.evict().unwrap();
}

#[test]
fn a_cache_with_a_planted_shared_file_is_refused() {
    for name in ["usage", "ghosts", "pins.json", "pins.lock", "evictor.lock", "CACHEDIR.TAG"] {
        for what in PLANTS {
            let scratch = Scratch::new();
            filled(&scratch);
            let Some(victim) = plant(&scratch, what, &scratch.cache().join(name)) else { continue };

            let refused = DiskCache::open_passive(&scratch.cache(), CacheLimits::default());

            let why = format!("{what:?} in place of {name}");
            let error = refused.map(|_| ()).expect_err(&why);
            let is_named = matches!(&error, CacheOpenError::Planted { path, .. } if path.ends_with(name));
            assert!(is_named || (name == "CACHEDIR.TAG"), "{why}: {error}");
            unharmed(&scratch, &victim, &why);
        }
    }
}

#[test]
fn a_cache_with_planted_folders_is_refused() {
    for name in ["objects", "names", "objects/00", "objects/ff"] {
        let scratch = Scratch::new();
        let outside = scratch.0.join("outside");
        std::fs::create_dir(&outside).unwrap();
        std::fs::write(outside.join("victim"), PRECIOUS).unwrap();
        filled(&scratch);
        let at = scratch.cache().join(name);
        if at.exists() {
            std::fs::rename(&at, scratch.0.join("moved")).unwrap();
        }
        symlink(&outside, &at).unwrap();

        let error = DiskCache::open_passive(&scratch.cache(), CacheLimits::default()).map(|_| ()).expect_err(name);

        assert!(error.to_string().contains("is a link, or not yours alone"), "{name}: {error}");
        assert_eq!(files(&outside), [outside.join("victim")]);
        if std::fs::remove_file(&at).is_ok()
            && std::fs::create_dir(&at).is_ok()
            && chown(&at, Some(65534), Some(65534)).is_ok()
        {
            assert!(DiskCache::open_passive(&scratch.cache(), CacheLimits::default()).is_err(), "foreign {name}");
        }
    }
}

#[test]
fn nothing_is_written_through_what_was_planted_for_an_object() {
    for what in PLANTS {
        for suffix in ["side", "data"] {
            let scratch = Scratch::new();
            filled(&scratch);
            let all = files(&scratch.cache());
            let at = all.iter().find(|path| path.extension().is_some_and(|ending| ending == suffix)).unwrap();
            let Some(victim) = plant(&scratch, what, at) else { continue };
            let mode = victim.metadata().unwrap().permissions().mode();
            let a = object("a", 300_000);

            let cache = scratch.open(limits(1 << 30));
            let read = cache.read(&a, 0, 3);
            let fill = cache.fill(&a, 0, &block(&a, 0), Admission::Always);
            let again = cache.read(&a, 0, 1);
            let _ = (cache.evict(), cache.verify(None, |_| {}), cache.list(None, |_| {}));

            let why = format!("{what:?} in place of a {suffix} file");
            assert!(read.iter().all(Option::is_none), "{why}");
            assert!(again[0].is_none() || again[0] == Some(block(&a, 0)), "{why}");
            // Where only the bytes are gone, the entry is found wrong, and dropped, by the next read.
            let is_kept = matches!(fill, Fill::Stored | Fill::AlreadyThere);
            assert!(matches!(what, Plant::Folder) || is_kept, "{why}: {fill:?}");
            unharmed(&scratch, &victim, &why);
            assert_eq!(victim.metadata().unwrap().permissions().mode(), mode, "{why}");
            assert!(victim.metadata().unwrap().nlink() <= 2, "{why}");
        }
    }
}
