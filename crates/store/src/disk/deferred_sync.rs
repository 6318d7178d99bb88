//! One sync for all files of a batch.
//!
//! A sync of one file waits for the file system's journal, so that thousands of small files cost thousands of waits.
//! `syncfs` writes all that the file system holds and waits once. It is used only where it is known to do both, and to
//! report errors: on ext4, XFS and Btrfs of Linux 5.8 and later. File servers and FUSE may not hand it on.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::fstatfs;

use super::DiskOptions;
use super::disk_failure::DiskFailure;
use super::folders;
use crate::error::StoreError;
use crate::store::DeferredSync;

/// Magic numbers of the file systems.
const KNOWN: [u64; 3] = [0xEF53, 0x5846_5342, 0x9123_683E];
/// First version of Linux whose `syncfs` reports that writing back has failed.
const REPORTS: (u32, u32) = (5, 8);

/// The file system of a folder. It is held open, so that errors since then are reported.
#[derive(Debug)]
pub(super) struct FileSystem {
    bucket: String,
    root: OwnedFd,
}

impl FileSystem {
    /// The file system of a root folder; None where each file has to be synced by itself.
    pub(super) fn of(bucket: &str, options: &DiskOptions) -> Option<Self> {
        if !options.durable || !reports_errors() {
            return None;
        }
        let root = folders::root_for_writing(bucket, options).ok()?;
        is_known(&root).then(|| Self { bucket: bucket.to_owned(), root })
    }
}

impl DeferredSync for FileSystem {
    fn sync(&self) -> Result<(), StoreError> {
        rustix::fs::syncfs(&self.root)
            .map_err(|errno| DiskFailure::of_write(errno).into_error("PutObject", &self.bucket, None))
    }
}

/// True when a folder is on a file system of this kind.
pub(super) fn is_known(folder: impl AsFd) -> bool {
    fstatfs(folder).is_ok_and(|about| u64::try_from(about.f_type).is_ok_and(|magic| KNOWN.contains(&magic)))
}

fn reports_errors() -> bool {
    std::fs::read_to_string("/proc/sys/kernel/osrelease").is_ok_and(|release| version(&release) >= Some(REPORTS))
}

/// The first two numbers of a release such as `6.1.0-44-amd64`.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|character: char| !character.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_linux_are_compared_as_numbers() {
        for (release, reports) in [
            ("6.1.0-44-amd64", true),
            ("5.10.0", true),
            ("5.8", true),
            ("5.4.0-150-generic", false),
            ("4.18.0-553.el8", false),
            ("", false),
            ("unknown", false),
        ] {
            assert_eq!(version(release) >= Some(REPORTS), reports, "{release}");
        }
    }
}
