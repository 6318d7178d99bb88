//! Folders that a cache accepts, and their permissions.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};

use seqferry_vfs::disk_cache::{Admission, CacheLimits, CacheOpenError, DiskCache, Fill};

use crate::support::{Scratch, block, files, limits, object};

#[test]
fn only_the_user_may_read_the_folder_and_its_files() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.cache()).unwrap();
    std::fs::set_permissions(scratch.cache(), std::fs::Permissions::from_mode(0o755)).unwrap();

    let cache = scratch.open(limits(1 << 30));
    let a = object("a", 1000);
    assert_eq!(cache.fill(&a, 0, &block(&a, 0), Admission::Always), Fill::Stored);
    cache.evict().unwrap();

    assert_eq!(scratch.cache().metadata().unwrap().mode() & 0o777, 0o700);
    let all = files(&scratch.cache());
    assert!(all.len() >= 4, "{all:?}");
    for file in all {
        assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o600, "{}", file.display());
        assert_eq!(file.parent().unwrap().metadata().unwrap().mode() & 0o777, 0o700);
    }
}

#[test]
fn a_folder_with_other_files_is_refused_and_left_as_it_is() {
    let scratch = Scratch::new();
    std::fs::write(scratch.0.join("thesis.tex"), "text").unwrap();

    let error = DiskCache::open(&scratch.0, CacheLimits::default()).unwrap_err();

    assert!(matches!(&error, CacheOpenError::NotEmpty { name, .. } if name == "thesis.tex"));
    assert!(error.to_string().contains("Name an empty or new folder"), "{error}");
    assert_eq!(files(&scratch.0), [scratch.0.join("thesis.tex")]);
}

#[test]
fn a_file_is_refused() {
    let scratch = Scratch::new();
    std::fs::write(scratch.cache(), "text").unwrap();

    let error = DiskCache::open(&scratch.cache(), CacheLimits::default()).unwrap_err();

    assert!(matches!(error, CacheOpenError::NotFolder(_)), "{error}");
}

#[test]
fn a_folder_of_another_user_is_refused() {
    let scratch = Scratch::new();
    std::fs::create_dir(scratch.cache()).unwrap();
    if chown(scratch.cache(), Some(65534), Some(65534)).is_err() {
        eprintln!("SKIPPED a_folder_of_another_user_is_refused: only root can give a folder away");
        return;
    }

    let error = DiskCache::open(&scratch.cache(), CacheLimits::default()).unwrap_err();

    assert!(matches!(error, CacheOpenError::Foreign { user: 65534, .. }), "{error}");
    assert_eq!(files(&scratch.cache()).len(), 0);
}

#[test]
fn many_threads_open_a_new_cache_at_once() {
    let scratch = Scratch::new();
    std::thread::scope(|scope| {
        for number in 0..8 {
            let path = scratch.cache();
            scope.spawn(move || {
                let cache = DiskCache::open(&path, limits(1 << 30)).unwrap();
                let a = object(&format!("{}", number % 3), 300_000);
                // A miss while an evictor looks at the object is allowed.
                let there = || {
                    cache.fill(&a, 1, &block(&a, 1), Admission::Always);
                    cache.read(&a, 1, 1).pop().flatten().is_some_and(|bytes| bytes == block(&a, 1))
                };
                assert!((0..1000).any(|_| there()), "{:?}", cache.stats());
            });
        }
    });
}
