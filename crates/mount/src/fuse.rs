//! Read-only FUSE file system over `seqferry-vfs`: each request of the kernel becomes one call.
//!
//! A request that can be answered from memory is answered on the thread that took it. Other requests run in the
//! runtime, and are cancelled when their program is interrupted. Requests that would change something are refused with
//! EROFS.

use std::ffi::OsStr;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{
    CopyFileRangeFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow,
    WriteFlags,
};
use seqferry_vfs::{Attributes, FileKind, FileSystem, VfsError};
use tokio::runtime::Handle;

use crate::interrupt::wait_for_interrupt;
use crate::log::RateLimitedLog;
use crate::options::MountOptions;

/// Requests of the kernel's own read-ahead under way at most: its default of 16 is too few for a slow network.
pub(crate) const MAX_BACKGROUND: u16 = 64;

/// Entries that are made for one request for a directory: more never fit.
pub(crate) const MAX_ENTRIES: usize = 512;

/// A size of blocks that copying programs go by.
pub(crate) const BLOCK_SIZE: u32 = 128 << 10;

pub(crate) struct ReadOnlyFuse {
    files: Arc<FileSystem>,
    runtime: Handle,
    defaults: MountAttributes,
    log: Arc<RateLimitedLog>,
}

/// File attributes set by the mount: owner, group, default permissions, and the change time of directories.
#[derive(Debug, Clone, Copy)]
struct MountAttributes {
    uid: u32,
    gid: u32,
    file_mode: u16,
    directory_mode: u16,
    /// Time of the mount: the change time of directories. Programs such as tar compare it before and after they read a
    /// directory, and the modification time becomes another one when a directory is listed.
    since: SystemTime,
}

impl MountAttributes {
    fn attributes(self, found: &Attributes) -> FileAttr {
        let modified = found.modified;
        let changed = if found.kind == FileKind::Directory { self.since } else { modified };
        let (kind, perm) = match found.kind {
            FileKind::File => (FileType::RegularFile, found.permissions.unwrap_or(self.file_mode)),
            FileKind::Directory => (FileType::Directory, self.directory_mode),
            FileKind::Symlink => (FileType::Symlink, 0o777),
        };
        FileAttr {
            ino: INodeNo(found.inode),
            size: found.size,
            blocks: found.size.div_ceil(512),
            atime: modified,
            mtime: modified,
            ctime: changed,
            crtime: modified,
            kind,
            perm,
            // For directories 1 says that their subdirectories were not counted.
            nlink: 1,
            uid: self.uid,
            gid: self.gid,
            rdev: 0,
            blksize: BLOCK_SIZE,
            flags: 0,
        }
    }

    /// The entry of a name that does not exist: inode 0, believed for a while.
    fn absent(self) -> FileAttr {
        let nothing = Attributes {
            inode: 0,
            kind: FileKind::File,
            size: 0,
            modified: UNIX_EPOCH,
            permissions: None,
            uid: None,
            gid: None,
            is_known: true,
            valid: Duration::ZERO,
        };
        self.attributes(&nothing)
    }
}

/// Cause of a failed request: an error of the file system, or a signal that asks the program to stop.
enum FuseError {
    Failed(VfsError),
    Interrupted,
}

impl From<VfsError> for FuseError {
    fn from(error: VfsError) -> Self {
        Self::Failed(error)
    }
}

impl ReadOnlyFuse {
    pub(crate) fn new(files: Arc<FileSystem>, options: &MountOptions, runtime: Handle) -> Self {
        let MountOptions { uid, gid, file_mode, directory_mode, .. } = *options;
        let defaults = MountAttributes { uid, gid, file_mode, directory_mode, since: SystemTime::now() };
        Self { files, runtime, defaults, log: Arc::default() }
    }

    /// Answer from memory if that is possible, else when the call has ended or its program is interrupted.
    fn serve<T: Send + 'static>(
        &self,
        request: &Request,
        call: impl Future<Output = Result<T, VfsError>> + Send + 'static,
        reply: impl FnOnce(Result<T, Errno>) + Send + 'static,
    ) {
        let _inside = self.runtime.enter();
        let mut call: Pin<Box<dyn Future<Output = Result<T, VfsError>> + Send>> = Box::pin(call);
        if let Poll::Ready(answer) = call.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return reply(answer.map_err(|error| errno(&error.into(), &self.log)));
        }
        let (thread, log) = (request.pid(), Arc::clone(&self.log));
        self.runtime.spawn(async move {
            let answer = tokio::select! {
                biased;
                answer = call => answer.map_err(FuseError::from),
                () = wait_for_interrupt(thread) => Err(FuseError::Interrupted),
            };
            reply(answer.map_err(|error| errno(&error, &log)));
        });
    }
}

fn errno(error: &FuseError, log: &RateLimitedLog) -> Errno {
    let error = match error {
        FuseError::Interrupted => return Errno::EINTR,
        FuseError::Failed(error) => error,
    };
    let (errno, is_worth_a_line) = match error {
        VfsError::NotFound => (Errno::ENOENT, false),
        VfsError::Stale => (Errno::ESTALE, false),
        VfsError::NotADirectory => (Errno::ENOTDIR, false),
        VfsError::IsADirectory => (Errno::EISDIR, false),
        VfsError::Invalid => (Errno::EINVAL, false),
        VfsError::Denied(_) => (Errno::EACCES, true),
        VfsError::ReadOnly => (Errno::EROFS, false),
        VfsError::Exists => (Errno::EEXIST, false),
        VfsError::NotEmpty => (Errno::ENOTEMPTY, false),
        VfsError::NoSpace => (Errno::ENOSPC, true),
        VfsError::NameTooLong => (Errno::ENAMETOOLONG, false),
        VfsError::CrossDevice => (Errno::EXDEV, false),
        VfsError::TryLater => (Errno::EAGAIN, false),
        VfsError::Archived(_) | VfsError::Failed(_) | VfsError::BadArchive(_) => (Errno::EIO, true),
    };
    if is_worth_a_line {
        log.line(&error.to_string());
    }
    errno
}

impl Filesystem for ReadOnlyFuse {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        // Optional: a mount on an older kernel without them is slower.
        for flag in [InitFlags::FUSE_PARALLEL_DIROPS, InitFlags::FUSE_DO_READDIRPLUS, InitFlags::FUSE_CACHE_SYMLINKS] {
            let _lacking = config.add_capabilities(flag);
        }
        let _lower = config.set_max_background(MAX_BACKGROUND);
        Ok(())
    }

    fn lookup(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        // Keys are UTF-8: no object has another name.
        let Some(name) = name.to_str().map(str::to_owned) else { return reply.error(Errno::ENOENT) };
        let (files, defaults) = (Arc::clone(&self.files), self.defaults);
        let call = async move { files.lookup(parent.0, &name).await };
        self.serve(request, call, move |answer| match answer {
            Ok(found) => {
                let attributes =
                    found.attributes.map_or_else(|| defaults.absent(), |found| defaults.attributes(&found));
                reply.entry(&found.valid, &attributes, Generation(0));
            }
            Err(errno) => reply.error(errno),
        });
    }

    fn getattr(&self, request: &Request, inode: INodeNo, _handle: Option<FileHandle>, reply: ReplyAttr) {
        let (files, defaults) = (Arc::clone(&self.files), self.defaults);
        let call = async move { files.learned_attributes(inode.0).await };
        self.serve(request, call, move |answer| match answer {
            Ok(found) => reply.attr(&found.valid, &defaults.attributes(&found)),
            Err(errno) => reply.error(errno),
        });
    }

    fn readlink(&self, request: &Request, inode: INodeNo, reply: ReplyData) {
        let files = Arc::clone(&self.files);
        let call = async move { files.read_link(inode.0).await };
        self.serve(request, call, move |answer| match answer {
            Ok(target) => reply.data(&target),
            Err(errno) => reply.error(errno),
        });
    }

    fn open(&self, request: &Request, inode: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let files = Arc::clone(&self.files);
        let opened = OpenHandle { files: Arc::clone(&self.files), handle: None };
        let call = async move {
            let mut opened = opened;
            opened.handle = Some(files.open(inode.0).await?);
            Ok(opened)
        };
        self.serve(request, call, move |answer| match answer {
            // An inode stands for one version: pages that the kernel kept of it are right permanently.
            Ok(mut opened) => {
                let handle = opened.handle.take().unwrap_or_default();
                reply.opened(FileHandle(handle), FopenFlags::FOPEN_KEEP_CACHE | FopenFlags::FOPEN_NOFLUSH);
            }
            Err(errno) => reply.error(errno),
        });
    }

    fn read(
        &self,
        request: &Request,
        _inode: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let files = Arc::clone(&self.files);
        let call = async move { files.read(handle.0, offset, size as usize).await };
        self.serve(request, call, move |answer| match answer {
            Ok(slices) => reply.data(&slices.to_bytes()),
            Err(errno) => reply.error(errno),
        });
    }

    fn release(
        &self,
        _request: &Request,
        _inode: INodeNo,
        handle: FileHandle,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        self.files.close(handle.0);
        reply.ok();
    }

    fn readdir(&self, request: &Request, inode: INodeNo, _handle: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let (files, defaults) = (Arc::clone(&self.files), self.defaults);
        let call = async move { files.read_directory(inode.0, offset, MAX_ENTRIES).await };
        self.serve(request, call, move |answer| match answer {
            Ok(entries) => {
                for entry in entries {
                    let kind = defaults.attributes(&entry.attributes).kind;
                    if reply.add(INodeNo(entry.attributes.inode), entry.cookie, kind, &entry.name) {
                        break;
                    }
                }
                reply.ok();
            }
            Err(errno) => reply.error(errno),
        });
    }

    fn readdirplus(
        &self,
        request: &Request,
        inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let (files, defaults) = (Arc::clone(&self.files), self.defaults);
        let call = async move { files.read_directory(inode.0, offset, MAX_ENTRIES).await };
        self.serve(request, call, move |answer| match answer {
            Ok(entries) => {
                for entry in entries {
                    let found = &entry.attributes;
                    let attributes = defaults.attributes(found);
                    let number = INodeNo(found.inode);
                    // The kernel shows no fact without a lifetime: it asks first.
                    let valid = if found.is_known { found.valid } else { Duration::ZERO };
                    if reply.add(number, entry.cookie, &entry.name, &valid, &attributes, Generation(0)) {
                        break;
                    }
                }
                reply.ok();
            }
            Err(errno) => reply.error(errno),
        });
    }

    fn statfs(&self, _request: &Request, _inode: INodeNo, reply: ReplyStatfs) {
        // A bucket has no size and is never full: `df` shows an exabyte with 0 % in use, of inodes as well. Monitors
        // would report a disk that is full. Writes fail since the mount is read-only, and not for lack of space.
        let blocks = (1_u64 << 60) / u64::from(BLOCK_SIZE);
        let inodes = u64::from(u32::MAX);
        reply.statfs(blocks, blocks, blocks, inodes, inodes, BLOCK_SIZE, 255, BLOCK_SIZE);
    }

    fn getxattr(&self, request: &Request, inode: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let files = Arc::clone(&self.files);
        let Some(name) = name.to_str().map(str::to_owned) else { return reply.error(Errno::NO_XATTR) };
        let call = async move { files.xattr(inode.0, &name).await };
        self.serve(request, call, move |answer| match answer {
            Ok(Some(value)) => send_xattr(reply, size, value.as_bytes()),
            Ok(None) => reply.error(Errno::NO_XATTR),
            Err(errno) => reply.error(errno),
        });
    }

    fn listxattr(&self, _request: &Request, inode: INodeNo, size: u32, reply: ReplyXattr) {
        match self.files.list_xattrs(inode.0) {
            Ok(names) => {
                let names: String = names.into_iter().map(|name| name + "\0").collect();
                send_xattr(reply, size, names.as_bytes());
            }
            Err(error) => reply.error(errno(&error.into(), &self.log)),
        }
    }

    fn setattr(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _mode: Option<u32>,
        _uid: Option<u32>,
        _gid: Option<u32>,
        _size: Option<u64>,
        _atime: Option<TimeOrNow>,
        _mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _handle: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<fuser::BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        reply.error(Errno::EROFS);
    }

    fn mknod(&self, _: &Request, _: INodeNo, _: &OsStr, _: u32, _: u32, _: u32, reply: ReplyEntry) {
        reply.error(Errno::EROFS);
    }

    fn mkdir(&self, _: &Request, _: INodeNo, _: &OsStr, _: u32, _: u32, reply: ReplyEntry) {
        reply.error(Errno::EROFS);
    }

    fn unlink(&self, _: &Request, _: INodeNo, _: &OsStr, reply: ReplyEmpty) {
        reply.error(Errno::EROFS);
    }

    fn rmdir(&self, _: &Request, _: INodeNo, _: &OsStr, reply: ReplyEmpty) {
        reply.error(Errno::EROFS);
    }

    fn symlink(&self, _: &Request, _: INodeNo, _: &OsStr, _: &std::path::Path, reply: ReplyEntry) {
        reply.error(Errno::EROFS);
    }

    fn rename(&self, _: &Request, _: INodeNo, _: &OsStr, _: INodeNo, _: &OsStr, _: RenameFlags, reply: ReplyEmpty) {
        reply.error(Errno::EROFS);
    }

    fn link(&self, _: &Request, _: INodeNo, _: INodeNo, _: &OsStr, reply: ReplyEntry) {
        reply.error(Errno::EROFS);
    }

    fn create(&self, _: &Request, _: INodeNo, _: &OsStr, _: u32, _: u32, _: i32, reply: ReplyCreate) {
        reply.error(Errno::EROFS);
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _: u64,
        _: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        reply.error(Errno::EROFS);
    }

    fn setxattr(&self, _: &Request, _: INodeNo, _: &OsStr, _: &[u8], _: i32, _: u32, reply: ReplyEmpty) {
        reply.error(Errno::EROFS);
    }

    fn removexattr(&self, _: &Request, _: INodeNo, _: &OsStr, reply: ReplyEmpty) {
        reply.error(Errno::EROFS);
    }

    fn fallocate(&self, _: &Request, _: INodeNo, _: FileHandle, _: u64, _: u64, _: i32, reply: ReplyEmpty) {
        reply.error(Errno::EROFS);
    }

    fn copy_file_range(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _: u64,
        _: INodeNo,
        _: FileHandle,
        _: u64,
        _: u64,
        _: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        // The kernel copies by reading and writing then.
        reply.error(Errno::EXDEV);
    }
}

/// A handle that is closed on drop, unless it was handed to the program: a cancelled open leaves none behind.
struct OpenHandle {
    files: Arc<FileSystem>,
    handle: Option<u64>,
}

impl Drop for OpenHandle {
    fn drop(&mut self) {
        if let Some(handle) = self.handle.take() {
            self.files.close(handle);
        }
    }
}

/// The kernel asks for the size first, then for the value.
pub(crate) fn send_xattr(reply: ReplyXattr, size: u32, value: &[u8]) {
    match u32::try_from(value.len()) {
        Ok(length) if size == 0 => reply.size(length),
        Ok(length) if length <= size => reply.data(value),
        _ => reply.error(Errno::ERANGE),
    }
}
