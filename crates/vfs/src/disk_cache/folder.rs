//! The folder of a cache: which folders are accepted, and where the files in it are.
//!
//! The folder must be on a local disk and belong to this user. It must be empty or a cache already, since the evictor
//! removes files in it. Folders have the mode 0700, files 0600.

use std::fs::{DirBuilder, File, Metadata, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use super::{CacheOpenError, NAMES};
use crate::own_file;
use crate::version::{ObjectVersion, VersionDigest};

/// File that excludes the folder from backups (bford.info/cachedir).
const TAG: &str = "CACHEDIR.TAG";
const TAG_TEXT: &[u8] = b"Signature: 8a477f597d28d172789f06886806bc55\n# Block cache of Seqferry, format 1.\n";

/// Network and user-space file systems. Some do not share `flock` between hosts, and a cache there is no nearer than
/// the object storage.
const REMOTE: [(u32, &str); 16] = [
    (0x0000_6969, "NFS"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB"),
    (0x0000_517b, "SMB"),
    (0x6573_5546, "FUSE"),
    (0x0102_1997, "9P"),
    (0x0bd0_0bd0, "Lustre"),
    (0x4750_4653, "GPFS"),
    (0x00c3_6400, "CephFS"),
    (0x1983_0326, "BeeGFS"),
    (0x5346_414f, "AFS"),
    (0x6b41_4653, "AFS"),
    (0x7375_7245, "Coda"),
    (0xaad7_aaea, "PanFS"),
    (0x0116_1970, "GFS2"),
    (0x7461_636f, "OCFS2"),
];

/// File systems in memory: what is written to them is gone with the power.
const IN_MEMORY: [(u32, &str); 2] = [(0x0102_1994, "tmpfs"), (0x8584_58f6, "ramfs")];

/// Name of the files of an object version: the first 128 bits of its digest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct FileName(pub(super) [u8; 16]);

impl FileName {
    pub(super) fn of(object: &ObjectVersion) -> Self {
        let VersionDigest(digest) = object.digest();
        let mut name = [0; 16];
        name.copy_from_slice(&digest[..16]);
        Self(name)
    }

    /// The name in hexadecimal.
    pub(super) fn hex(self) -> String {
        format!("{:032x}", u128::from_be_bytes(self.0))
    }

    /// The name that this text has; None for any other text.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let lower = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        (text.len() == 32 && lower).then(|| u128::from_str_radix(text, 16).ok())?.map(|name| Self(name.to_be_bytes()))
    }
}

/// Paths in the folder of a cache.
#[derive(Debug, Clone)]
pub(super) struct CacheFolder {
    root: PathBuf,
}

/// Folders of objects, by the first byte of the name.
pub(super) const SHARDS: u16 = 256;
/// Files directly in the folder that all processes share.
const SHARED: [&str; 5] = ["usage", "ghosts", "pins.json", "pins.lock", "evictor.lock"];
/// Suffix of side files.
pub(super) const SIDE: &str = ".side";
/// Suffix of data files.
pub(super) const DATA: &str = ".data";
/// Prefix of side files that are being made.
pub(super) const NEW: &str = "new-";

impl CacheFolder {
    /// Make or accept the folder of a cache. Looks at nothing but the folder itself, so that a mount does not wait.
    pub(super) fn open(path: &Path) -> Result<Self, CacheOpenError> {
        let error = |cause| CacheOpenError::Io { path: path.to_owned(), cause };
        match DirBuilder::new().mode(0o700).create(path) {
            Err(cause) if cause.kind() == io::ErrorKind::AlreadyExists => {}
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => {
                DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(error)?;
            }
            result => result.map_err(error)?,
        }
        // The working folder of a daemon changes.
        let root = path.canonicalize().map_err(error)?;
        let opened = File::open(&root).map_err(error)?;
        let facts = opened.metadata().map_err(error)?;
        if !facts.is_dir() {
            return Err(CacheOpenError::NotFolder(root));
        }
        if let Some(system) = remote_file_system(&opened).map_err(error)? {
            return Err(CacheOpenError::Remote { path: root, system });
        }
        let folder = Self { root };
        folder.claim(&facts)?;
        Ok(folder)
    }

    fn claim(&self, facts: &Metadata) -> Result<(), CacheOpenError> {
        let error = |cause| CacheOpenError::Io { path: self.root.clone(), cause };
        let tag = self.root.join(TAG);
        let known = match own_file::read(&tag) {
            Ok(text) => text == TAG_TEXT,
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => false,
            Err(cause) if own_file::is_foreign(&cause) => return Err(self.planted(&tag)),
            Err(cause) if cause.kind() == io::ErrorKind::PermissionDenied => return Err(self.foreign(facts)),
            Err(cause) => return Err(error(cause)),
        };
        // A file of this process has the user of this process, whatever user namespaces and capabilities say.
        let probe = self.root.join(format!("{NEW}{}-{:016x}", std::process::id(), random_id()));
        let own = new_file(&probe).and_then(|file| file.metadata()).map(|metadata| metadata.uid());
        let _ = std::fs::remove_file(&probe);
        match own {
            Ok(user) if user == facts.uid() => {}
            Ok(_) => return Err(self.foreign(facts)),
            Err(cause) if cause.kind() == io::ErrorKind::PermissionDenied => return Err(self.foreign(facts)),
            Err(cause) => return Err(error(cause)),
        }
        if !known {
            self.make_tag(&tag)?;
        }
        if facts.mode() & 0o077 != 0 {
            std::fs::set_permissions(&self.root, std::fs::Permissions::from_mode(0o700)).map_err(error)?;
        }
        match DirBuilder::new().mode(0o700).create(self.objects()) {
            Err(cause) if cause.kind() != io::ErrorKind::AlreadyExists => return Err(error(cause)),
            _ => {}
        }
        // From here on no other user can put anything into the folder. Existing entries are checked.
        self.check_contents(facts)
    }

    /// Refuse a cache in which a folder is a link or another user's, or one of the shared files is no file of ours.
    fn check_contents(&self, root: &Metadata) -> Result<(), CacheOpenError> {
        let shards = (0..=u8::MAX).map(|shard| self.shard(shard));
        for folder in [self.objects(), self.file(NAMES)].into_iter().chain(shards) {
            let facts = folder.symlink_metadata();
            if facts.is_ok_and(|facts| !facts.is_dir() || facts.uid() != root.uid()) {
                return Err(self.planted(&folder));
            }
        }
        for name in SHARED {
            let file = self.file(name);
            let opened = own_file::open(&file, OpenOptions::new().read(true));
            if opened.is_err_and(|cause| own_file::is_foreign(&cause)) {
                return Err(self.planted(&file));
            }
        }
        Ok(())
    }

    fn planted(&self, path: &Path) -> CacheOpenError {
        CacheOpenError::Planted { folder: self.root.clone(), path: path.to_owned() }
    }

    fn foreign(&self, facts: &Metadata) -> CacheOpenError {
        CacheOpenError::Foreign { path: self.root.clone(), user: facts.uid() }
    }

    /// Mark an empty folder as a cache. Several processes may do so concurrently.
    fn make_tag(&self, tag: &Path) -> Result<(), CacheOpenError> {
        let error = |cause| CacheOpenError::Io { path: self.root.clone(), cause };
        for entry in std::fs::read_dir(&self.root).map_err(error)? {
            let name = entry.map_err(error)?.file_name();
            let ours = name == TAG || name == "objects" || name.to_string_lossy().starts_with(NEW);
            // Another process may have made the cache in the meantime.
            if !ours && !own_file::read(tag).is_ok_and(|text| text == TAG_TEXT) {
                return Err(CacheOpenError::NotEmpty {
                    path: self.root.clone(),
                    name: name.to_string_lossy().into_owned(),
                });
            }
        }
        let new = self.new_path();
        let written = new_file(&new).and_then(|mut file| file.write_all(TAG_TEXT));
        let result = written.and_then(|()| std::fs::rename(&new, tag));
        if result.is_err() {
            let _ = std::fs::remove_file(&new);
        }
        result.map_err(error)
    }

    /// The folder itself.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// A file directly in the folder.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// An unused name for a file that is renamed or linked once it is complete.
    pub(super) fn new_path(&self) -> PathBuf {
        self.root.join(format!("{NEW}{}-{:016x}", std::process::id(), random_id()))
    }

    fn objects(&self) -> PathBuf {
        self.root.join("objects")
    }

    /// Folder of all objects whose name begins with this byte.
    pub(super) fn shard(&self, shard: u8) -> PathBuf {
        self.objects().join(format!("{shard:02x}"))
    }

    pub(super) fn side(&self, name: FileName) -> PathBuf {
        self.shard(name.0[0]).join(name.hex() + SIDE)
    }

    pub(super) fn data(&self, name: FileName, data_id: u64) -> PathBuf {
        self.shard(name.0[0]).join(format!("{}-{data_id:016x}{DATA}", name.hex()))
    }

    /// Free bytes of the file system for this user.
    pub(super) fn space(&self) -> io::Result<u64> {
        let facts = rustix::fs::statvfs(&self.root)?;
        Ok(facts.f_bavail.saturating_mul(facts.f_frsize))
    }
}

/// An exclusive lock that ends with this value, also where a process that was just forked still has the file open.
#[derive(Debug)]
pub(super) struct ExclusiveLock<'a>(&'a File);

impl<'a> ExclusiveLock<'a> {
    /// Takes the lock without waiting. None while another handle of the file has a lock.
    pub(super) fn take(file: &'a File) -> io::Result<Option<Self>> {
        match file.try_lock() {
            Ok(()) => Ok(Some(Self(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(cause)) => Err(cause),
        }
    }

    /// The file.
    pub(super) fn file(&self) -> &File {
        self.0
    }
}

impl Drop for ExclusiveLock<'_> {
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
}

fn remote_file_system(folder: &File) -> io::Result<Option<&'static str>> {
    Ok(remote_name(kind_of(folder)?))
}

fn kind_of(folder: &File) -> io::Result<u32> {
    let kind = rustix::fs::fstatfs(folder)?.f_type;
    // Numbers of 32 bits, in a field that is wider and signed on some machines.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "see above")]
    let kind = kind as u32;
    Ok(kind)
}

/// The file system of a folder where a file that was synced may be lost with the power, or belong to another machine as
/// well: one in memory, of the network, or in user space. None for a local disk.
///
/// # Errors
/// When the folder cannot be opened.
pub fn unsafe_file_system(folder: &Path) -> io::Result<Option<&'static str>> {
    let kind = kind_of(&File::open(folder)?)?;
    let in_memory = IN_MEMORY.iter().find(|(number, _)| *number == kind).map(|(_, name)| *name);
    Ok(in_memory.or_else(|| remote_name(kind)))
}

fn remote_name(kind: u32) -> Option<&'static str> {
    REMOTE.iter().find(|(number, _)| *number == kind).map(|(_, name)| *name)
}

/// A new file that only this user may read.
pub(super) fn new_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)
}

/// An existing or new file that only this user may read.
pub(super) fn shared_file(path: &Path) -> io::Result<File> {
    own_file::open(path, OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600))
}

pub(super) fn random_id() -> u64 {
    fastrand::u64(..)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_file_systems_are_known_by_their_numbers() {
        // `linux/magic.h`, and `man 2 statfs`.
        assert_eq!(remote_name(0x6969), Some("NFS"));
        assert_eq!(remote_name(0xff53_4d42), Some("CIFS"));
        for (local, number) in [("ext4", 0xef53), ("xfs", 0x5846_5342), ("tmpfs", 0x0102_1994), ("btrfs", 0x9123_683e)]
        {
            assert_eq!(remote_name(number), None, "{local}");
        }
    }

    #[test]
    fn names_of_files_are_read_back() {
        let name = FileName([0, 1, 2, 0xff, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);
        assert_eq!(name.hex(), "000102ff0405060708090a0b0c0d0e0f");
        assert_eq!(FileName::parse(&name.hex()), Some(name));
        for other in [
            "",
            "000102FF0405060708090A0B0C0D0E0F",
            "000102ff0405060708090a0b0c0d0e0",
            "+00102ff0405060708090a0b0c0d0e0f",
        ] {
            assert_eq!(FileName::parse(other), None, "{other}");
        }
    }
}
