//! The few operations on files that a journal needs. Tests have a disk that loses power at each of them.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A folder with the files of one journal. Clones are the same folder.
pub trait Disk: Clone + Send + 'static {
    /// An open file.
    type File: Send;

    /// Names of all files.
    fn names(&self) -> io::Result<Vec<String>>;
    /// A new, empty file in place of any that there is.
    fn create(&self, name: &str) -> io::Result<Self::File>;
    /// A file to be read and continued at its end.
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
    /// Bytes and length of the file are the same after a loss of power.
    fn sync(&self, file: &Self::File) -> io::Result<()>;
    /// Cut a file off.
    fn truncate(&self, file: &Self::File, length: u64) -> io::Result<()>;
}

/// A folder of this machine, which no other process uses.
#[derive(Debug, Clone)]
pub struct Folder {
    path: Arc<Path>,
    _lock: Arc<File>,
}

impl Folder {
    /// Make the folder, for its owner alone, and keep other processes out of it.
    ///
    /// # Errors
    /// `WouldBlock` when another process uses it; else when it cannot be made or opened.
    pub fn claim(path: &Path) -> io::Result<Self> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        let options = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).to_owned();
        let lock = options.open(path.join("lock"))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(io::ErrorKind::WouldBlock.into()),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        // The folder itself, in the one that holds it.
        if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            File::open(parent)?.sync_all()?;
        }
        Ok(Self { path: path.into(), _lock: Arc::new(lock) })
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
        OpenOptions::new().read(true).append(true).open(self.at(name))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.at(from), self.at(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.at(name))
    }

    fn sync_names(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }

    fn length(&self, file: &File) -> io::Result<u64> {
        Ok(file.metadata()?.len())
    }

    fn read_at(&self, file: &File, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        file.read_exact_at(bytes, offset)
    }

    fn append(&self, file: &mut File, bytes: &[u8]) -> io::Result<()> {
        file.write_all(bytes)
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        // The length is brought to the disk with the bytes.
        file.sync_data()
    }

    fn truncate(&self, file: &File, length: u64) -> io::Result<()> {
        file.set_len(length)
    }
}
