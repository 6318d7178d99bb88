//! FUSE file system over a share: each request of the kernel becomes one call of the share.
//!
//! A request that can be answered from memory is answered on the thread that took it. Other requests run in the
//! runtime. Those of a read-only share, and reads, are cancelled when their program is interrupted.
//!
//! The kernel checks permissions (`default_permissions`): calls are made as root, and new files belong to the caller. A
//! share that answers "try later", for example when its cache is full, is called again until it answers or the program
//! is interrupted.

mod call;

use std::ffi::OsStr;
use std::future::Future;
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::ffi::OsStrExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use fuser::{
    BsdFileFlags, CopyFileRangeFlags, Errno, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenAccMode, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow,
    WriteFlags,
};
use rustix::fs::{OFlags, XattrFlags};
use seqferry_share::{ATTRIBUTE_TTL, Caller, NameLookup, SetAttributes, Share, Stability, TimeUpdate, XattrCondition};
use seqferry_vfs::filesystem::MOUNT_XATTR_PREFIX;
use tokio::runtime::Handle;

use self::call::{FuseResult, PERMISSIONS, ShareCall, generation_of};
use crate::known_files::{BLOCK_SIZE, KnownFiles};

/// Requests of the kernel's own read-ahead under way at most: its default of 16 is too few for a slow network.
const MAX_BACKGROUND: u16 = 64;
/// Bit of the handle of a file that is open for writing: its bytes are made durable when it is closed. The other bits
/// are the handle of the share.
const WRITE_BIT: u64 = 1;
/// Prefix of the attributes that users set. The others are of the kernel, and of other file systems.
const USER_PREFIX: &[u8] = b"user.";
/// Prefix of an attribute of folders, with a name behind it: Samba asks so for the name as it is written there.
const REAL_NAME: &[u8] = b"glusterfs.get_real_filename:";

pub(crate) struct ShareFuse {
    share: Arc<dyn Share>,
    known: Arc<KnownFiles>,
    runtime: Handle,
}

impl ShareFuse {
    pub(crate) fn new(share: Arc<dyn Share>, runtime: Handle) -> Self {
        let known = Arc::new(KnownFiles::new(share.root(), share.identifies_versions()));
        Self { share, known, runtime }
    }

    fn call(&self, request: &Request) -> ShareCall {
        let caller =
            Caller { address: IpAddr::V4(Ipv4Addr::LOCALHOST), uid: 0, gid: request.gid(), groups: Vec::new() };
        let (share, known) = (Arc::clone(&self.share), Arc::clone(&self.known));
        let is_cancellable = share.is_read_only();
        ShareCall { share, known, caller, uid: request.uid(), thread: request.pid(), is_cancellable }
    }

    /// Answer from memory if that is possible, else in the runtime.
    fn spawn(&self, answer: impl Future<Output = ()> + Send + 'static) {
        let _inside = self.runtime.enter();
        let mut answer = Box::pin(answer);
        let poll = || answer.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        // A call that panics is one that failed, as in the runtime: the thread goes on.
        if let Ok(Poll::Pending) = catch_unwind(AssertUnwindSafe(poll)) {
            self.runtime.spawn(answer);
        }
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
        if name.starts_with(MOUNT_XATTR_PREFIX.as_bytes()) {
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
fn handle_of(handle: u64, flags: OpenFlags) -> (FileHandle, FopenFlags) {
    let handle = handle << 1;
    match flags.acc_mode() {
        OpenAccMode::O_RDONLY => (FileHandle(handle), FopenFlags::FOPEN_NOFLUSH),
        OpenAccMode::O_WRONLY | OpenAccMode::O_RDWR => (FileHandle(handle | WRITE_BIT), FopenFlags::empty()),
    }
}

/// The kernel asks for the size first, then for the value.
fn send_xattr(reply: ReplyXattr, size: u32, value: &[u8]) {
    match u32::try_from(value.len()) {
        Ok(length) if size == 0 => reply.size(length),
        Ok(length) if length <= size => reply.data(value),
        _ => reply.error(Errno::ERANGE),
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
        let links = if self.share.identifies_versions() { InitFlags::FUSE_CACHE_SYMLINKS } else { InitFlags::empty() };
        // NFS servers on this machine find files by their numbers.
        let export = if self.share.is_read_only() { InitFlags::empty() } else { InitFlags::FUSE_EXPORT_SUPPORT };
        for flag in [InitFlags::FUSE_PARALLEL_DIROPS, InitFlags::FUSE_DO_READDIRPLUS, links, export] {
            let _lacking = config.add_capabilities(flag);
        }
        let _lower = config.set_max_background(MAX_BACKGROUND);
        Ok(())
    }

    fn lookup(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let (call, name) = (self.call(request), name.as_bytes().to_vec());
        self.spawn(async move {
            let found = async { call.lookup_name(call.file(parent)?, &name).await };
            match found.await {
                Ok(NameLookup::Found(found)) => reply.entry(&found.valid, &call.entry(&found), generation_of(&found)),
                Ok(NameLookup::Absent(valid)) => reply.entry(&valid, &KnownFiles::absent(), Generation(0)),
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
                Ok(found) => reply.attr(&found.valid, &call.known.facts(&found)),
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
            call.answer_created(reply, created.await);
        });
    }

    fn mkdir(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, _umask: u32, reply: ReplyEntry) {
        let (call, name) = (self.call(request), name.as_bytes().to_vec());
        self.spawn(async move {
            let created = async {
                let (directory, set) = (call.file(parent)?, call.new_attributes(Some(mode)));
                call.retry_while_busy(|share, caller| share.create_directory(caller, directory, &name, set)).await
            };
            call.answer_created(reply, created.await.map(|created| created.attributes));
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
            call.answer_created(reply, created.await.map(|created| created.attributes));
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
            let opened = async { call.open(call.file(inode)?).await };
            match opened.await {
                Ok(handle) => {
                    let (handle, mut flags) = handle_of(handle, flags);
                    // Pages that the kernel kept of one version are right permanently.
                    flags.set(FopenFlags::FOPEN_KEEP_CACHE, call.share.identifies_versions());
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
                    // Shares whose files can be made have no handles of their own.
                    let (handle, flags) = handle_of(0, OpenFlags(flags));
                    reply.created(&ATTRIBUTE_TTL, &facts, generation_of(&created), handle, flags);
                }
                Err(error) => reply.error(error),
            }
        });
    }

    fn read(
        &self,
        request: &Request,
        inode: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        // Nothing is half-done by a read: one that waits for the bucket ends with its program.
        let call = ShareCall { is_cancellable: true, ..self.call(request) };
        self.spawn(async move {
            let data = async {
                let (file, handle) = (call.file(inode)?, handle.0 >> 1);
                call.retry_while_busy(|share, caller| share.read_opened(caller, file, handle, offset, size)).await
            };
            match data.await {
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
        if handle.0 & WRITE_BIT == 0 {
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
        handle: FileHandle,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        self.share.close(handle.0 >> 1);
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
                let valid = if entry.is_known { entry.attributes.valid } else { Duration::ZERO };
                let name = OsStr::from_bytes(&entry.name);
                // Known before the kernel has it: it may forget it immediately.
                let is_counted = !matches!(&*entry.name, b"." | b"..");
                if is_counted {
                    call.known.add_lookup(entry.attributes.file);
                }
                if reply.add(facts.ino, entry.cookie, name, &valid, &facts, generation_of(&entry.attributes)) {
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
        if let Some(wanted) = name.strip_prefix(REAL_NAME).filter(|_| !self.share.is_read_only()) {
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
        let (call, name) = (self.call(request), name.to_vec());
        self.spawn(async move {
            let value = async {
                let file = call.file(inode)?;
                call.retry_while_busy(|share, caller| share.extended_attribute(caller, file, &name)).await
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
