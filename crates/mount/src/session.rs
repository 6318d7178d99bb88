//! Mounting and unmounting: checks of the folder before, words for what is wrong, and the end of the session.

use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fuser::{BackgroundSession, Config, MountOption, Session, SessionACL};
use seqferry_share::Share;
use seqferry_vfs::FileSystem;
use tokio::runtime::Handle;

use crate::fuse::ShareFuse;
use crate::kernel_pages::KernelPages;
use crate::log::log_line;
use crate::options::{MountError, MountOptions};
use crate::read_only_share::ReadOnlyShare;

/// Threads that take requests from the kernel. Two: one more costs CPU and gains nothing (measured with fio).
const THREADS: usize = 2;

/// Interval between checks whether the session has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A mounted folder and the session that serves it.
#[derive(Debug)]
pub struct MountSession {
    session: Option<BackgroundSession>,
    directory: std::path::PathBuf,
}

/// Mount `files`. The folder can be used when this returns.
///
/// # Errors
/// When the folder cannot be used or the mount is not allowed; nothing is left mounted then.
pub fn start(files: &Arc<FileSystem>, options: &MountOptions, runtime: &Handle) -> Result<MountSession, MountError> {
    let mounted = start_share(Arc::new(ReadOnlyShare::new(Arc::clone(files), options)), options, runtime)?;
    if let Some(session) = &mounted.session {
        // Without it, memory alone keeps what was read ahead.
        match KernelPages::start(session.notifier()) {
            Ok(pages) => files.set_page_cache(pages),
            Err(error) => log_line(&format!("cannot start the thread that fills the page cache: {error}")),
        }
    }
    Ok(mounted)
}

/// Mount a share. The folder can be used when this returns.
///
/// # Errors
/// See [`start`].
pub(crate) fn start_share(
    share: Arc<dyn Share>,
    options: &MountOptions,
    runtime: &Handle,
) -> Result<MountSession, MountError> {
    check_directory(options)?;
    check_device()?;
    let acl = if options.allow_other { SessionACL::All } else { SessionACL::Owner };
    let mut config = Config::default();
    config.mount_options = vec![
        if share.is_read_only() { MountOption::RO } else { MountOption::RW },
        MountOption::NoDev,
        MountOption::NoSuid,
        MountOption::NoAtime,
        MountOption::DefaultPermissions,
        MountOption::FSName(options.source.replace(',', "\\,")),
        MountOption::Subtype("seqferry".to_owned()),
    ];
    config.acl = acl;
    config.n_threads = Some(THREADS);
    config.clone_fd = true;
    let session =
        Session::new(ShareFuse::new(share, runtime.clone()), &options.directory, &config).and_then(Session::spawn);
    let session = session.map_err(|error| explain(&error, options))?;
    let directory = options.directory.clone();
    Ok(MountSession { session: Some(session), directory })
}

impl MountSession {
    /// Waits up to `limit` until the folder is unmounted by any process. True when it is.
    pub fn wait(&mut self, limit: Duration) -> bool {
        let end = Instant::now() + limit;
        loop {
            match &self.session {
                None => return true,
                Some(session) if session.guard.is_finished() => {
                    self.session = None;
                    return true;
                }
                Some(_) if Instant::now() >= end => return false,
                Some(_) => std::thread::sleep(POLL_INTERVAL.min(limit)),
            }
        }
    }

    /// Unmount. A folder in use is detached: it is out of sight immediately, and its session ends with the last open
    /// file.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn unmount(&self) -> Result<(), MountError> {
        unmount(&self.directory)
    }
}

/// Unmount a folder as root or by `fusermount3`, lazily where it is in use.
fn unmount(directory: &Path) -> Result<(), MountError> {
    use rustix::mount::{UnmountFlags, unmount};
    if unmount(directory, UnmountFlags::empty()).is_ok() || unmount(directory, UnmountFlags::DETACH).is_ok() {
        return Ok(());
    }
    for program in ["fusermount3", "fusermount"] {
        let output = std::process::Command::new(program).args(["-u", "-z", "--"]).arg(directory).output();
        match output {
            Ok(output) if output.status.success() => return Ok(()),
            Ok(output) => {
                let said = String::from_utf8_lossy(&output.stderr);
                return Err(MountError(format!("cannot unmount {}: {}", directory.display(), said.trim())));
            }
            Err(_) => {}
        }
    }
    Err(MountError(format!("cannot unmount {}: fusermount3 is not installed", directory.display())))
}

fn check_directory(options: &MountOptions) -> Result<(), MountError> {
    let shown = options.directory.display();
    let refuse = |text: String| Err(MountError(text));
    let entries = match fs::read_dir(&options.directory) {
        Ok(mut entries) => entries.next().is_some(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return refuse(format!("{shown} does not exist: create it with mkdir"));
        }
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            return refuse(format!("{shown} is not a folder: name an empty one"));
        }
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NOTCONN.raw_os_error()) => {
            return refuse(format!("{shown} is a mount whose process has ended: run seqferry umount {shown} first"));
        }
        Err(error) => return refuse(format!("{shown} cannot be read: {error}")),
    };
    if is_mount_point(&options.directory) {
        return refuse(format!(
            "{shown} is a mount already: name another folder, or run seqferry umount {shown} first"
        ));
    }
    if entries && !options.allow_non_empty {
        return refuse(format!("{shown} is not empty: name an empty folder, or add --allow-non-empty"));
    }
    Ok(())
}

fn is_mount_point(directory: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let Ok(directory) = directory.canonicalize() else { return false };
    let parent = directory.parent().unwrap_or(&directory);
    let device = |path: &Path| fs::metadata(path).map(|meta| meta.dev()).ok();
    device(&directory) != device(parent)
}

fn check_device() -> Result<(), MountError> {
    match fs::metadata("/dev/fuse") {
        Ok(meta) if meta.file_type().is_char_device() => Ok(()),
        _ => Err(MountError(
            "this machine has no /dev/fuse: load the kernel module with modprobe fuse, or start the container with \
             --device /dev/fuse --cap-add SYS_ADMIN"
                .to_owned(),
        )),
    }
}

fn explain(error: &io::Error, options: &MountOptions) -> MountError {
    let shown = options.directory.display();
    let text = error.to_string();
    MountError(if text.contains("user_allow_other") {
        "--allow-other is not permitted to ordinary users here: have root add the line user_allow_other to /etc/fuse.conf, \
         or mount as root"
            .to_owned()
    } else if error.kind() == io::ErrorKind::NotFound {
        format!("cannot mount {shown}: fusermount3 is not installed (Debian: apt-get install fuse3)")
    } else if error.kind() == io::ErrorKind::PermissionDenied {
        format!("cannot mount {shown}: {}; the folder must be yours and /dev/fuse open to you (mode 0666)", text.trim())
    } else {
        format!("cannot mount {shown}: {}", text.trim())
    })
}
