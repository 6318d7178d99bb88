//! The few operations on files that a journal needs. Tests have a disk that loses power at each of them.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Seek as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::sync_times::SyncTimes;

/// A folder with the files of one journal. Clones are the same folder.
pub trait Disk: Clone + Send + Sync + 'static {
    /// An open file.
    type File: Send + Sync;

    /// Names of all files.
    fn names(&self) -> io::Result<Vec<String>>;
    /// A new, empty file in place of any that there is.
    fn create(&self, name: &str) -> io::Result<Self::File>;
    /// A file to be read, and written at offsets.
    fn open(&self, name: &str) -> io::Result<Self::File>;
    /// Give a file another name, in place of any file that has it.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Remove a file.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Names that were made, changed or removed before are so after a loss of power.
    fn sync_names(&self) -> io::Result<()>;

    /// Bytes of a file.
    fn length(&self, file: &Self::File) -> io::Result<u64>;
    /// Read exactly these bytes.
    fn read_at(&self, file: &Self::File, offset: u64, bytes: &mut [u8]) -> io::Result<()>;
    /// Write at the end.
    fn append(&self, file: &mut Self::File, bytes: &[u8]) -> io::Result<()>;
    /// Write at an offset; bytes between the end and it become zeros.
    fn write_at(&self, file: &Self::File, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Cut a file off, or extend it by zeros.
    fn set_length(&self, file: &Self::File, length: u64) -> io::Result<()>;
    /// Bytes of the disk that are free for this user, and all.
    fn space(&self) -> io::Result<(u64, u64)>;
    /// Bytes and length of the file are the same after a loss of power.
    fn sync(&self, file: &Self::File) -> io::Result<()>;

    /// Run blocking work on this disk on a thread for it, and not on a thread of the runtime.
    fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> impl Future<Output = io::Result<T>> + Send {
        async { tokio::task::spawn_blocking(work).await.map_err(io::Error::other)? }
    }

    /// Times that syncs have taken lately. None: they are not measured.
    fn sync_times(&self) -> Option<&SyncTimes> {
        None
    }

    /// Time that a group of records takes, where a task writes the journal and not a thread of its own: tests repeat an
    /// order of events.
    fn group_delay(&self) -> Option<std::time::Duration> {
        None
    }
}

/// True for an error of a disk that has no space, or may not be written now.
pub(crate) fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded | ReadOnlyFilesystem)
}

/// Make a folder for its owner alone, and those above it that are missing. Each is on the disk in the one that holds it
/// when this returns: `sync` brings the names of a folder there.
pub(crate) fn make_folder(path: &Path, mut sync: impl FnMut(&Path) -> io::Result<()>) -> io::Result<()> {
    // The last one is empty for a relative path, and the root for others.
    let mut folders: Vec<&Path> = path.ancestors().filter(|folder| !folder.as_os_str().is_empty()).collect();
    folders.reverse();
    for folder in folders {
        let is_made = match fs::DirBuilder::new().mode(0o700).create(folder) {
            Ok(()) => true,
            Err(_) if folder.is_dir() => false,
            Err(error) => return Err(error),
        };
        let Some(parent) = folder.parent() else { continue };
        let holder = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        match sync(holder) {
            // A process that was killed before it synced may have made the folder; in one that cannot even be read it
            // has not.
            Err(error) if is_made || error.kind() != io::ErrorKind::PermissionDenied => return Err(error),
            Err(_) | Ok(()) => {}
        }
    }
    Ok(())
}

/// A folder of this machine, which no other process uses.
#[derive(Debug, Clone)]
pub struct Folder {
    path: Arc<Path>,
    times: Arc<SyncTimes>,
    _lock: Arc<File>,
}

impl Folder {
    /// Make the folder, for its owner alone, and keep other processes out of it.
    ///
    /// # Errors
    /// `WouldBlock` when another process uses it; else when it cannot be made or opened.
    pub fn claim(path: &Path) -> io::Result<Self> {
        make_folder(path, |folder| File::open(folder)?.sync_all())?;
        let options = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).to_owned();
        let lock = options.open(path.join("lock"))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(io::ErrorKind::WouldBlock.into()),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        Ok(Self { path: path.into(), times: Arc::default(), _lock: Arc::new(lock) })
    }

    fn at(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

impl Disk for Folder {
    type File = File;

    fn names(&self) -> io::Result<Vec<String>> {
        // Names of a journal are text: others are not its files.
        fs::read_dir(&self.path)?
            .filter_map(|entry| entry.map(|entry| entry.file_name().into_string().ok()).transpose())
            .collect()
    }

    fn create(&self, name: &str) -> io::Result<File> {
        OpenOptions::new().create(true).truncate(true).write(true).read(true).mode(0o600).open(self.at(name))
    }

    fn open(&self, name: &str) -> io::Result<File> {
        OpenOptions::new().read(true).write(true).open(self.at(name))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.at(from), self.at(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.at(name))
    }

    fn sync_names(&self) -> io::Result<()> {
        let folder = File::open(&self.path)?;
        self.times.measure(|| folder.sync_all())
    }

    fn length(&self, file: &File) -> io::Result<u64> {
        Ok(file.metadata()?.len())
    }

    fn read_at(&self, file: &File, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        file.read_exact_at(bytes, offset)
    }

    fn append(&self, file: &mut File, bytes: &[u8]) -> io::Result<()> {
        // One that was there before is at its beginning.
        file.seek(io::SeekFrom::End(0))?;
        file.write_all(bytes)
    }

    fn write_at(&self, file: &File, offset: u64, bytes: &[u8]) -> io::Result<()> {
        file.write_all_at(bytes, offset)
    }

    fn set_length(&self, file: &File, length: u64) -> io::Result<()> {
        file.set_len(length)
    }

    fn space(&self) -> io::Result<(u64, u64)> {
        let facts = rustix::fs::statvfs(&*self.path)?;
        let bytes = |blocks: u64| blocks.saturating_mul(facts.f_frsize);
        Ok((bytes(facts.f_bavail), bytes(facts.f_blocks)))
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        // The length is brought to the disk with the bytes.
        self.times.measure(|| file.sync_data())
    }

    fn sync_times(&self) -> Option<&SyncTimes> {
        Some(&self.times)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_folder_that_is_made_is_synced_in_the_one_that_holds_it() {
        let scratch = std::env::temp_dir().join(format!("seqferry-folders-{:016x}", fastrand::u64(..)));
        fs::create_dir(&scratch).unwrap();
        let mut synced = Vec::new();
        make_folder(&scratch.join("a/b/c"), |folder| {
            assert!(!scratch.join("a/b/c").exists() || folder.ends_with("a/b"), "{}", folder.display());
            synced.push(folder.to_owned());
            Ok(())
        })
        .unwrap();
        let above: Vec<_> = scratch.ancestors().collect();
        let expected: Vec<PathBuf> = above.iter().rev().map(|path| (*path).to_owned()).collect();
        assert_eq!(synced, [expected, vec![scratch.join("a"), scratch.join("a/b")]].concat());

        // A folder that cannot be read holds nothing that was made now; one that was made must be there.
        let denied = |_: &Path| Err(io::ErrorKind::PermissionDenied.into());
        make_folder(&scratch.join("a/b"), denied).unwrap();
        assert!(make_folder(&scratch.join("a/d"), denied).is_err());
        let full = |_: &Path| Err(io::ErrorKind::StorageFull.into());
        assert!(make_folder(&scratch.join("a/b"), full).is_err());
        fs::write(scratch.join("file"), b"").unwrap();
        assert!(make_folder(&scratch.join("file/x"), |_| Ok(())).is_err());
        fs::remove_dir_all(&scratch).unwrap();
    }

    #[test]
    fn a_relative_folder_is_synced_in_the_one_of_the_process() {
        let name = format!("seqferry-relative-{:016x}", fastrand::u64(..));
        let mut synced = Vec::new();
        make_folder(Path::new(&name), |folder| {
            synced.push(folder.to_owned());
            Ok(())
        })
        .unwrap();
        fs::remove_dir(&name).unwrap();
        assert_eq!(synced, [PathBuf::from(".")]);
    }
}
