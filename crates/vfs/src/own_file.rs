//! Files in folders of this program, which are opened only when they are its own.
//!
//! Another user may have put something in their place while the folder could be written to: a link to a file that must
//! not be changed, a pipe that waits without end, a file that is changed later. Only plain files are opened here with
//! one name that belongs to the owner of its folder.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;

/// Something else than a plain file of ours has its name.
#[derive(Debug)]
struct ForeignFile;

impl fmt::Display for ForeignFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("it is a link, or no plain file of this user alone")
    }
}

impl std::error::Error for ForeignFile {}

fn foreign() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, ForeignFile)
}

/// True for the error of [`open`] about what is no file of ours.
pub(crate) fn is_foreign(error: &io::Error) -> bool {
    error.get_ref().and_then(|cause| cause.downcast_ref::<ForeignFile>()).is_some()
}

/// Opens a file, and neither follows a link nor waits.
pub(crate) fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let flags = i32::try_from((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits()).map_err(io::Error::other)?;
    let file = options.custom_flags(flags).open(path).map_err(|cause| {
        let errno = Errno::from_io_error(&cause);
        // A link; a folder; a socket, or a pipe without a reader.
        if matches!(errno, Some(Errno::LOOP | Errno::ISDIR | Errno::NXIO)) { foreign() } else { cause }
    })?;
    let facts = file.metadata()?;
    let folder = path.parent().unwrap_or(Path::new("/")).symlink_metadata()?;
    // A file that has lost its name since is ours as well.
    let is_own = facts.is_file() && facts.nlink() <= 1 && folder.is_dir() && facts.uid() == folder.uid();
    if is_own { Ok(file) } else { Err(foreign()) }
}

/// Reads a whole file.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path, OpenOptions::new().read(true))?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Removes what is no file of ours from a name that is: the link, not what it leads to.
pub(crate) fn discard(path: &Path) {
    let _ = std::fs::remove_file(path);
}
