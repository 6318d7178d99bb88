//! The FUSE door: a read-only folder over `seqferry-vfs`.
//!
//! The door translates requests of the kernel into calls and errors into errno, and decides nothing else. [`start`]
//! mounts a file system and serves it on threads of its own and on the given runtime. [`MountSession`] waits for its
//! end and unmounts it.

#[cfg(target_os = "linux")]
mod fuse;
#[cfg(target_os = "linux")]
mod interrupt;
#[cfg(target_os = "linux")]
mod log;
mod options;
#[cfg(target_os = "linux")]
mod service;
#[cfg(target_os = "linux")]
mod session;

pub use options::{MountError, MountOptions};
#[cfg(target_os = "linux")]
pub use service::{BucketMount, MountedBucket, audit};
#[cfg(target_os = "linux")]
pub use session::{MountSession, start};
