//! FUSE file system over a writable share: each request of the kernel becomes one call of the share.
//!
//! The kernel checks permissions (`default_permissions`): calls are made as root, and new files belong to the caller. A
//! share that answers "try later", for example when its cache is full, is called again until it answers or the program
//! is interrupted.

mod call;

use std::ffi::OsStr;
use std::future::Future;
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use fuser::{
    BsdFileFlags, CopyFileRangeFlags, Errno, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenAccMode, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow,
    WriteFlags,
};
use rustix::fs::{OFlags, XattrFlags};
use seqferry_share::{Caller, SetAttributes, Share, Stability, TimeUpdate, XattrCondition};
use seqferry_vfs::FileSystem;
use tokio::runtime::Handle;

use self::call::{FuseResult, PERMISSIONS, ShareCall};
use crate::fuse::{BLOCK_SIZE, MAX_BACKGROUND, send_xattr};
use crate::interrupt::wait_for_interrupt;
use crate::known_files::KnownFiles;

/// Time for which the kernel believes names and attributes. Another program may change the bucket.
const ATTRIBUTE_TTL: Duration = Duration::from_secs(1);
/// Handle of a file that is open for writing: its bytes are made durable when it is closed.
const WRITE_HANDLE: FileHandle = FileHandle(1);
const READ_HANDLE: FileHandle = FileHandle(0);
/// Prefix of the attributes that users set. The others are of the kernel, and of other file systems.
const USER_PREFIX: &[u8] = b"user.";
/// Prefix of an attribute of folders, with a name behind it: Samba asks so for the name as it is written there.
const REAL_NAME: &[u8] = b"glusterfs.get_real_filename:";
/// Prefix of the attributes that describe a mount as a whole.
const MOUNT_PREFIX: &str = "user.seqferry.";

pub(crate) struct ShareFuse {
    share: Arc<dyn Share>,
    /// Files below the share: their counts describe the mount.
    files: Arc<FileSystem>,
    known: Arc<KnownFiles>,
    runtime: Handle,
}

impl ShareFuse {
    pub(crate) fn new(share: Arc<dyn Share>, files: Arc<FileSystem>, runtime: Handle) -> Self {
        let known = Arc::new(KnownFiles::new(share.root()));
        Self { share, files, known, runtime }
    }

    fn call(&self, request: &Request) -> ShareCall {
        let caller =
            Caller { address: IpAddr::V4(Ipv4Addr::LOCALHOST), uid: 0, gid: request.gid(), groups: Vec::new() };
        let (share, known) = (Arc::clone(&self.share), Arc::clone(&self.known));
        ShareCall { share, known, caller, uid: request.uid(), thread: request.pid() }
    }

    fn spawn(&self, answer: impl Future<Output = ()> + Send + 'static) {
        self.runtime.spawn(answer);
    }

    /// Set an extended attribute, or remove it.
    fn change_attribute(
        &self,
        request: &Request,
        inode: INodeNo,
        name: &OsStr,
        value: Option<Bytes>,
        presence: XattrCondition,
        reply: ReplyEmpty,
    ) {
        let name = name.as_bytes();
        if !name.starts_with(USER_PREFIX) {
            return reply.error(Errno::EOPNOTSUPP);
        }
        if name.starts_with(MOUNT_PREFIX.as_bytes()) {
            return reply.error(Errno::EPERM);
        }
        let (call, name) = (self.call(request), name.to_vec());
        self.spawn(async move {
            let changed = async {
                let file = call.file(inode)?;
                call.retry_while_busy(|share, caller| {
                    share.set_extended_attribute(caller, file, &name, value.clone(), presence)
                })
                .await
            };
            // The file is there, its attribute is not.
            let missing = |error| if error == Errno::ENOENT { Errno::NO_XATTR } else { error };
            finish(reply, changed.await.map_err(missing));
        });
    }
}

fn new_time(time: TimeOrNow) -> TimeUpdate {
    match time {
        TimeOrNow::Now => TimeUpdate::Now,
        TimeOrNow::SpecificTime(time) => TimeUpdate::At(time),
    }
}

/// Handle for the flags of an open file, and what the kernel need not do for it.
fn handle_of(flags: OpenFlags) -> (FileHandle, FopenFlags) {
    match flags.acc_mode() {
        OpenAccMode::O_RDONLY => (READ_HANDLE, FopenFlags::FOPEN_NOFLUSH),
        OpenAccMode::O_WRONLY | OpenAccMode::O_RDWR => (WRITE_HANDLE, FopenFlags::empty()),
    }
}

fn stability_of(flags: OpenFlags) -> Stability {
    let flags = OFlags::from_bits_retain(u32::from_ne_bytes(flags.0.to_ne_bytes()));
    if flags.contains(OFlags::SYNC) {
        Stability::File
    } else if flags.contains(OFlags::DSYNC) {
        Stability::Data
    } else {
        Stability::Unstable
    }
}

impl Filesystem for ShareFuse {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        // Optional: a mount on an older kernel without them is slower.
        for flag in [InitFlags::FUSE_PARALLEL_DIROPS, InitFlags::FUSE_DO_READDIRPLUS] {
            let _lacking = config.add_capabilities(flag);
        }
        let _lower = config.set_max_background(MAX_BACKGROUND);
        Ok(())
    }

    fn lookup(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let (call, name) = (self.call(request), name.as_bytes().to_vec());
        self.spawn(async move {
            let found = async { call.lookup(call.file(parent)?, &name).await };
            match found.await {
                Ok(found) => reply.entry(&ATTRIBUTE_TTL, &call.entry(&found), Generation(0)),
                Err(error) => reply.error(error),
            }
        });
    }

    fn forget(&self, _request: &Request, inode: INodeNo, lookups: u64) {
        self.known.forget(inode, lookups);
    }

    fn getattr(&self, request: &Request, inode: INodeNo, _handle: Option<FileHandle>, reply: ReplyAttr) {
        let call = self.call(request);
        self.spawn(async move {
            let found = async { call.attributes(call.file(inode)?).await };
            match found.await {
                Ok(found) => reply.attr(&ATTRIBUTE_TTL, &call.known.facts(&found)),
                Err(error) => reply.error(error),
            }
        });
    }

    fn setattr(
        &self,
        request: &Request,
        inode: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _handle: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let (accessed, modified) = (atime.map(new_time), mtime.map(new_time));
        let mode = mode.map(|mode| mode & PERMISSIONS);
        let set = SetAttributes { mode, uid, gid, size, accessed, modified };
        let call = self.call(request);
        self.spawn(async move {
            match call.set(inode, set).await {
                Ok(facts) => reply.attr(&ATTRIBUTE_TTL, &facts),
                Err(error) => reply.error(error),
            }
        });
    }

    fn readlink(&self, request: &Request, inode: INodeNo, reply: ReplyData) {
        let call = self.call(request);
        self.spawn(async move {
            let target = async {
                let link = call.file(inode)?;
                call.retry_while_busy(|share, caller| share.read_link(caller, link)).await
            };
            match target.await {
                Ok(target) => reply.data(&target),
                Err(error) => reply.error(error),
            }
        });
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        _device: u32,
        reply: ReplyEntry,
    ) {
        if rustix::fs::FileType::from_raw_mode(mode) != rustix::fs::FileType::RegularFile {
            // As over NFS: S3 holds no devices, pipes or sockets.
            return reply.error(Errno::EOPNOTSUPP);
        }
        let (call, name) = (self.call(request), name.as_bytes().to_vec());
        self.spawn(async move {
            let created = async { call.create(call.file(parent)?, &name, mode, true).await };
            match created.await {
                Ok(created) => reply.entry(&ATTRIBUTE_TTL, &call.entry(&created), Generation(0)),
                Err(error) => reply.error(error),
            }
        });
    }

    fn mkdir(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, _umask: u32, reply: ReplyEntry) {
        let (call, name) = (self.call(request), name.as_bytes().to_vec());
        self.spawn(async move {
            let created = async {
                let (directory, set) = (call.file(parent)?, call.new_attributes(Some(mode)));
                call.retry_while_busy(|share, caller| share.create_directory(caller, directory, &name, set)).await
            };
            match created.await {
                Ok(created) => reply.entry(&ATTRIBUTE_TTL, &call.entry(&created.attributes), Generation(0)),
                Err(error) => reply.error(error),
            }
        });
    }

    fn unlink(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let (call, name) = (self.call(request), name.as_bytes().to_vec());
        self.spawn(async move {
            let removed = async { call.remove(call.file(parent)?, &name).await };
            finish(reply, removed.await);
        });
    }

    fn rmdir(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let (call, name) = (self.call(request), name.as_bytes().to_vec());
        self.spawn(async move {
            let removed = async {
                let directory = call.file(parent)?;
                call.retry_while_busy(|share, caller| share.remove_directory(caller, directory, &name)).await.map(drop)
            };
            finish(reply, removed.await);
        });
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let (call, name) = (self.call(request), name.as_bytes().to_vec());
        let target = Bytes::copy_from_slice(target.as_os_str().as_bytes());
        self.spawn(async move {
            let created = async {
                let (directory, set) = (call.file(parent)?, call.new_attributes(None));
                call.retry_while_busy(|share, caller| share.create_link(caller, directory, &name, target.clone(), set))
                    .await
            };
            match created.await {
                Ok(created) => reply.entry(&ATTRIBUTE_TTL, &call.entry(&created.attributes), Generation(0)),
                Err(error) => reply.error(error),
            }
        });
    }

    fn rename(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let replaces = match flags {
            flags if flags.is_empty() => true,
            RenameFlags::RENAME_NOREPLACE => false,
            // Two names cannot be exchanged in one step in a bucket.
            _ => return reply.error(Errno::EINVAL),
        };
        let (name, new_name) = (name.as_bytes().to_vec(), new_name.as_bytes().to_vec());
        let call = self.call(request);
        self.spawn(async move {
            let renamed = async {
                let (old, new) = (call.file(parent)?, call.file(new_parent)?);
                call.rename((old, &name), (new, &new_name), replaces).await
            };
            finish(reply, renamed.await);
        });
    }

    fn link(&self, _: &Request, _: INodeNo, _: INodeNo, _: &OsStr, reply: ReplyEntry) {
        // An object has one key.
        reply.error(Errno::EOPNOTSUPP);
    }

    fn open(&self, request: &Request, inode: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let call = self.call(request);
        self.spawn(async move {
            let found = async { call.attributes(call.file(inode)?).await };
            match found.await {
                Ok(found) => {
                    call.known.open(found.file);
                    let (handle, flags) = handle_of(flags);
                    reply.opened(handle, flags);
                }
                Err(error) => reply.error(error),
            }
        });
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let (call, name) = (self.call(request), name.as_bytes().to_vec());
        let is_exclusive = OFlags::from_bits_retain(u32::from_ne_bytes(flags.to_ne_bytes())).contains(OFlags::EXCL);
        self.spawn(async move {
            let created = async { call.create(call.file(parent)?, &name, mode, is_exclusive).await };
            match created.await {
                Ok(created) => {
                    let facts = call.entry(&created);
                    call.known.open(created.file);
                    let (handle, flags) = handle_of(OpenFlags(flags));
                    reply.created(&ATTRIBUTE_TTL, &facts, Generation(0), handle, flags);
                }
                Err(error) => reply.error(error),
            }
        });
    }

    fn read(
        &self,
        request: &Request,
        inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let call = self.call(request);
        self.spawn(async move {
            let data = async {
                let file = call.file(inode)?;
                call.retry_while_busy(|share, caller| share.read(caller, file, offset, size)).await
            };
            // Nothing is half-done by a read: one that waits for the bucket ends with its program.
            let data = tokio::select! {
                biased;
                data = data => data,
                () = wait_for_interrupt(call.thread) => Err(Errno::EINTR),
            };
            match data {
                Ok(data) => match data.slices.as_slice() {
                    [one] => reply.data(one),
                    slices => reply.data(&slices.concat()),
                },
                Err(error) => reply.error(error),
            }
        });
    }

    fn write(
        &self,
        request: &Request,
        inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let (call, data, stability) = (self.call(request), Bytes::copy_from_slice(data), stability_of(flags));
        self.spawn(async move {
            let written = async {
                let file = call.file(inode)?;
                call.retry_while_busy(|share, caller| share.write(caller, file, offset, data.clone(), stability)).await
            };
            match written.await {
                Ok(written) => reply.written(written.length),
                Err(error) => reply.error(error),
            }
        });
    }

    fn flush(&self, request: &Request, inode: INodeNo, handle: FileHandle, _owner: LockOwner, reply: ReplyEmpty) {
        if handle != WRITE_HANDLE {
            return reply.ok();
        }
        let call = self.call(request);
        self.spawn(async move { finish(reply, call.commit(inode).await) });
    }

    fn fsync(&self, request: &Request, inode: INodeNo, _handle: FileHandle, _data_only: bool, reply: ReplyEmpty) {
        let call = self.call(request);
        self.spawn(async move { finish(reply, call.commit(inode).await) });
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        // Each change of a folder is durable before it is answered.
        reply.ok();
    }

    fn release(
        &self,
        request: &Request,
        inode: INodeNo,
        _handle: FileHandle,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        let call = self.call(request);
        self.spawn(async move {
            call.release(inode).await;
            reply.ok();
        });
    }

    fn readdir(&self, request: &Request, inode: INodeNo, _handle: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let call = self.call(request);
        self.spawn(async move {
            let entries = match call.entries(inode, offset).await {
                Ok(entries) => entries,
                Err(error) => return reply.error(error),
            };
            for entry in entries {
                let facts = call.known.facts(&entry.attributes);
                if reply.add(facts.ino, entry.cookie, facts.kind, OsStr::from_bytes(&entry.name)) {
                    break;
                }
            }
            reply.ok();
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
        let call = self.call(request);
        self.spawn(async move {
            let entries = match call.entries(inode, offset).await {
                Ok(entries) => entries,
                Err(error) => return reply.error(error),
            };
            for entry in entries {
                let facts = call.known.facts(&entry.attributes);
                // The kernel shows no fact without a lifetime: it asks first.
                let valid = if entry.is_known { ATTRIBUTE_TTL } else { Duration::ZERO };
                let name = OsStr::from_bytes(&entry.name);
                // Known before the kernel has it: it may forget it immediately.
                let is_counted = !matches!(&*entry.name, b"." | b"..");
                if is_counted {
                    call.known.add_lookup(entry.attributes.file);
                }
                if reply.add(facts.ino, entry.cookie, name, &valid, &facts, Generation(0)) {
                    if is_counted {
                        call.known.forget(facts.ino, 1);
                    }
                    break;
                }
            }
            reply.ok();
        });
    }

    fn statfs(&self, request: &Request, _inode: INodeNo, reply: ReplyStatfs) {
        let call = self.call(request);
        self.spawn(async move {
            match call.retry_while_busy(|share, caller| share.space(caller)).await {
                Ok(space) => {
                    let [total, free] =
                        [space.total_bytes, space.free_bytes].map(|bytes| bytes / u64::from(BLOCK_SIZE));
                    let name = call.share.limits().max_name;
                    reply.statfs(total, free, free, space.total_files, space.free_files, BLOCK_SIZE, name, BLOCK_SIZE);
                }
                Err(error) => reply.error(error),
            }
        });
    }

    fn getxattr(&self, request: &Request, inode: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let name = name.as_bytes();
        if let Some(wanted) = name.strip_prefix(REAL_NAME) {
            let (call, wanted) = (self.call(request), wanted.to_vec());
            self.spawn(async move {
                match call.real_name(inode, &wanted).await {
                    Ok(name) => send_xattr(reply, size, &[&name, &b"\0"[..]].concat()),
                    Err(error) => reply.error(error),
                }
            });
            return;
        }
        if !name.starts_with(USER_PREFIX) {
            // Requested with each write, as are those that say what a program may do.
            return reply.error(Errno::NO_XATTR);
        }
        let of_mount = std::str::from_utf8(name).ok().filter(|name| name.starts_with(MOUNT_PREFIX)).map(str::to_owned);
        let (call, files, name) = (self.call(request), Arc::clone(&self.files), name.to_vec());
        self.spawn(async move {
            let value = async {
                match of_mount {
                    Some(name) if inode == INodeNo::ROOT => {
                        let value = files.xattr(seqferry_vfs::ROOT, &name).await;
                        Ok(value.ok().flatten().map(|value| Bytes::from(value.into_bytes())))
                    }
                    Some(_) => Ok(None),
                    None => {
                        let file = call.file(inode)?;
                        call.retry_while_busy(|share, caller| share.extended_attribute(caller, file, &name)).await
                    }
                }
            };
            match value.await {
                Ok(Some(value)) => send_xattr(reply, size, &value),
                Ok(None) => reply.error(Errno::NO_XATTR),
                Err(error) => reply.error(error),
            }
        });
    }

    fn listxattr(&self, request: &Request, inode: INodeNo, size: u32, reply: ReplyXattr) {
        let call = self.call(request);
        self.spawn(async move {
            let names = async {
                let file = call.file(inode)?;
                call.retry_while_busy(|share, caller| share.extended_attribute_names(caller, file)).await
            };
            match names.await {
                Ok(names) => {
                    let ended = names.iter().flat_map(|name| [&**name, b"\0"]);
                    send_xattr(reply, size, &ended.collect::<Vec<_>>().concat());
                }
                Err(error) => reply.error(error),
            }
        });
    }

    fn setxattr(
        &self,
        request: &Request,
        inode: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        let presence = match XattrFlags::from_bits_retain(flags.cast_unsigned()) {
            flags if flags.contains(XattrFlags::CREATE) => XattrCondition::Absent,
            flags if flags.contains(XattrFlags::REPLACE) => XattrCondition::Present,
            _ => XattrCondition::Any,
        };
        self.change_attribute(request, inode, name, Some(Bytes::copy_from_slice(value)), presence, reply);
    }

    fn removexattr(&self, request: &Request, inode: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.change_attribute(request, inode, name, None, XattrCondition::Present, reply);
    }

    fn fallocate(&self, _: &Request, _: INodeNo, _: FileHandle, _: u64, _: u64, _: i32, reply: ReplyEmpty) {
        // The C library writes zeros then.
        reply.error(Errno::EOPNOTSUPP);
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

fn finish(reply: ReplyEmpty, answer: FuseResult<()>) {
    match answer {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error),
    }
}
