//! The FUSE file system over a share: a writable one of `seqferry-gateway`, or a read-only one over `seqferry-vfs`.
//!
//! The interface translates requests of the kernel into calls and errors into errno, and decides nothing else. [`start`]
//! mounts a file system and serves it on threads of its own and on the given runtime. [`MountSession`] waits for its
//! end and unmounts it.

#[cfg(target_os = "linux")]
mod fuse;
#[cfg(target_os = "linux")]
mod interrupt;
#[cfg(target_os = "linux")]
mod kernel_pages;
#[cfg(target_os = "linux")]
mod known_files;
#[cfg(target_os = "linux")]
mod log;
mod options;
#[cfg(target_os = "linux")]
mod read_only_share;
#[cfg(target_os = "linux")]
mod service;
#[cfg(target_os = "linux")]
mod session;
#[cfg(target_os = "linux")]
mod share_mount;

pub use options::{MountError, MountOptions};
#[cfg(target_os = "linux")]
pub use service::{BucketMount, MountedBucket, audit};
#[cfg(target_os = "linux")]
pub use session::{MountSession, start};
#[cfg(target_os = "linux")]
pub use share_mount::{MountedShare, ShareMount};
