//! The requests of the kernel on a share that can be written, each translated into one call.
//!
//! The kernel checks permissions (`default_permissions`): calls are made as root, and what is made belongs to the caller.
//! A share that asks for patience, as with a full cache, is asked again until it answers or the program is interrupted.

use std::ffi::OsStr;
use std::future::Future;
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use fuser::{
    BsdFileFlags, CopyFileRangeFlags, Errno, FileAttr, FileHandle, Filesystem, FopenFlags, Generation, INodeNo,
    InitFlags, KernelConfig, LockOwner, OpenAccMode, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr,
    Request, TimeOrNow, WriteFlags,
};
use rustix::fs::{OFlags, XattrFlags};
use seqferry_nfs::{
    Attributes, Caller, Creation, DirectoryEntry, FileError, FileId, FileKind, NewTime, Presence, SetAttributes, Share,
    Stability,
};
use seqferry_vfs::FileSystem;
use tokio::runtime::Handle;

use crate::fuse::{BACKGROUND, BLOCK_SIZE, ENTRIES, send_xattr};
use crate::interrupt::wait_for_interrupt;
use crate::known_files::{KnownFiles, hidden_name};

/// Time for which the kernel believes names and attributes. Another program may change the bucket.
const VALID: Duration = Duration::from_secs(1);
/// First pause before a share that asked for patience is asked again; it doubles up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// Handle of a file that is open for writing: its bytes are made durable when it is closed.
const WRITING: FileHandle = FileHandle(1);
const READING: FileHandle = FileHandle(0);
/// Permission bits of a mode, with those for set-user-id, set-group-id and sticky.
const PERMISSIONS: u32 = 0o7777;
/// Prefix of the attributes that users set. The others are of the kernel, and of other file systems.
const OF_USERS: &[u8] = b"user.";
/// Prefix of an attribute of folders, with a name behind it: Samba asks so for the name as it is written there.
const REAL_NAME: &[u8] = b"glusterfs.get_real_filename:";
/// Prefix of the attributes that describe a mount as a whole.
const OF_MOUNT: &str = "user.seqferry.";

/// Result of a call, in terms of the kernel.
type Answer<T> = Result<T, Errno>;
type Call<'a, T> = Pin<Box<dyn Future<Output = Result<T, FileError>> + Send + 'a>>;

pub(crate) struct ShareDoor {
    share: Arc<dyn Share>,
    /// Files below the share: their counts describe the mount.
    files: Arc<FileSystem>,
    known: Arc<KnownFiles>,
    runtime: Handle,
}

/// One request: the share, what the kernel knows of it, and who asks.
struct Asked {
    share: Arc<dyn Share>,
    known: Arc<KnownFiles>,
    caller: Caller,
    uid: u32,
    thread: u32,
}

impl ShareDoor {
    pub(crate) fn new(share: Arc<dyn Share>, files: Arc<FileSystem>, runtime: Handle) -> Self {
        let known = Arc::new(KnownFiles::new(share.root()));
        Self { share, files, known, runtime }
    }

    fn asked(&self, request: &Request) -> Asked {
        let caller =
            Caller { address: IpAddr::V4(Ipv4Addr::LOCALHOST), uid: 0, gid: request.gid(), groups: Vec::new() };
        let (share, known) = (Arc::clone(&self.share), Arc::clone(&self.known));
        Asked { share, known, caller, uid: request.uid(), thread: request.pid() }
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
        presence: Presence,
        reply: ReplyEmpty,
    ) {
        let name = name.as_bytes();
        if !name.starts_with(OF_USERS) {
            return reply.error(Errno::EOPNOTSUPP);
        }
        if name.starts_with(OF_MOUNT.as_bytes()) {
            return reply.error(Errno::EPERM);
        }
        let (asked, name) = (self.asked(request), name.to_vec());
        self.spawn(async move {
            let changed = async {
                let file = asked.file(inode)?;
                asked
                    .ask(|share, caller| share.set_extended_attribute(caller, file, &name, value.clone(), presence))
                    .await
            };
            // The file is there, its attribute is not.
            let missing = |error| if error == Errno::ENOENT { Errno::NO_XATTR } else { error };
            finish(reply, changed.await.map_err(missing));
        });
    }
}

impl Asked {
    fn file(&self, inode: INodeNo) -> Answer<FileId> {
        self.known.file(inode).ok_or(Errno::ESTALE)
    }

    /// Ask the share, again and again while it asks for patience. A call under way is never broken off.
    async fn ask<'a, T>(&'a self, mut call: impl FnMut(&'a dyn Share, &'a Caller) -> Call<'a, T>) -> Answer<T> {
        let mut pause = FIRST_PAUSE;
        loop {
            match call(self.share.as_ref(), &self.caller).await {
                Err(FileError::TryLater) => {}
                answer => return answer.map_err(errno),
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => pause = LONGEST_PAUSE.min(pause * 2),
                () = wait_for_interrupt(self.thread) => return Err(Errno::EINTR),
            }
        }
    }

    async fn attributes(&self, file: FileId) -> Answer<Attributes> {
        self.ask(|share, caller| share.attributes(caller, file)).await
    }

    async fn lookup(&self, directory: FileId, name: &[u8]) -> Answer<Attributes> {
        if name.len() > self.share.limits().max_name as usize {
            return Err(Errno::ENAMETOOLONG);
        }
        self.ask(|share, caller| share.lookup(caller, directory, name)).await
    }

    /// Facts that a new file, folder or link gets.
    fn facts_of_new(&self, mode: Option<u32>) -> SetAttributes {
        SetAttributes { mode: mode.map(|mode| mode & PERMISSIONS), uid: Some(self.uid), ..SetAttributes::default() }
    }

    async fn create(&self, directory: FileId, name: &[u8], mode: u32, is_exclusive: bool) -> Answer<Attributes> {
        let set = self.facts_of_new(Some(mode));
        let how = if is_exclusive { Creation::Guarded(set) } else { Creation::Unchecked(set) };
        Ok(self.ask(|share, caller| share.create(caller, directory, name, how)).await?.attributes)
    }

    /// Give a file that programs have open another name, under which it is out of sight, until they close it.
    async fn hide_if_open(&self, directory: FileId, name: &[u8]) -> Answer<bool> {
        let found = match self.lookup(directory, name).await {
            Ok(found) if found.kind != FileKind::Directory => found.file,
            Ok(_) | Err(Errno::ENOENT) => return Ok(false),
            Err(error) => return Err(error),
        };
        if !self.known.is_open(found) {
            return Ok(false);
        }
        let hidden = hidden_name(found);
        self.ask(|share, caller| share.rename(caller, directory, name, directory, hidden.as_bytes())).await?;
        self.known.hide(found, directory, hidden);
        Ok(true)
    }

    async fn remove(&self, directory: FileId, name: &[u8]) -> Answer<()> {
        if self.hide_if_open(directory, name).await? {
            return Ok(());
        }
        self.ask(|share, caller| share.remove(caller, directory, name)).await.map(drop)
    }

    async fn rename(&self, old: (FileId, &[u8]), new: (FileId, &[u8])) -> Answer<()> {
        if old != new {
            let source = self.lookup(old.0, old.1).await?;
            let is_itself = self.lookup(new.0, new.1).await.is_ok_and(|target| target.file == source.file);
            if !is_itself {
                self.hide_if_open(new.0, new.1).await?;
            }
        }
        self.ask(|share, caller| share.rename(caller, old.0, old.1, new.0, new.1)).await.map(drop)
    }

    async fn release(&self, inode: INodeNo) {
        if let Some((directory, name)) = self.known.close(inode) {
            // A name that is left is removed with its folder, or stays out of the bucket as all of its kind.
            let _gone = self.ask(|share, caller| share.remove(caller, directory, name.as_bytes())).await;
        }
    }

    /// Facts for the kernel about a file that it now knows.
    fn entry(&self, found: &Attributes) -> FileAttr {
        self.known.look_up(found.file);
        self.known.facts(found)
    }

    async fn set(&self, inode: INodeNo, set: SetAttributes) -> Answer<FileAttr> {
        let file = self.file(inode)?;
        let changed = self.ask(|share, caller| share.set_attributes(caller, file, set, None)).await?;
        let found = match changed.after {
            Some(found) => found,
            None => self.attributes(file).await?,
        };
        Ok(self.known.facts(&found))
    }

    async fn entries(&self, inode: INodeNo, offset: u64) -> Answer<Vec<DirectoryEntry>> {
        let directory = self.file(inode)?;
        Ok(self.ask(|share, caller| share.read_directory(caller, directory, offset, ENTRIES)).await?.entries)
    }

    /// The name of a folder that is this one but for its case. `ENOENT`: there is none.
    async fn real_name(&self, inode: INodeNo, wanted: &[u8]) -> Answer<Bytes> {
        let directory = self.file(inode)?;
        match self.lookup(directory, wanted).await {
            Ok(_) => return Ok(Bytes::copy_from_slice(wanted)),
            Err(Errno::ENOENT) => {}
            Err(error) => return Err(error),
        }
        let mut cookie = 0;
        loop {
            let page = self.ask(|share, caller| share.read_directory(caller, directory, cookie, ENTRIES)).await?;
            if let Some(found) = page.entries.iter().find(|entry| is_same_but_for_case(&entry.name, wanted)) {
                return Ok(found.name.clone());
            }
            match page.entries.last() {
                Some(last) if !page.is_end => cookie = last.cookie,
                Some(_) | None => return Err(Errno::ENOENT),
            }
        }
    }

    async fn commit(&self, inode: INodeNo) -> Answer<()> {
        let file = self.file(inode)?;
        self.ask(|share, caller| share.commit(caller, file)).await.map(drop)
    }
}

fn errno(error: FileError) -> Errno {
    match error {
        FileError::NotPermitted => Errno::EPERM,
        FileError::NotFound => Errno::ENOENT,
        FileError::Io => Errno::EIO,
        FileError::AccessDenied => Errno::EACCES,
        FileError::Exists => Errno::EEXIST,
        FileError::CrossDevice => Errno::EXDEV,
        FileError::NotADirectory => Errno::ENOTDIR,
        FileError::IsADirectory => Errno::EISDIR,
        FileError::Invalid | FileError::BadCookie | FileError::NotSynchronized => Errno::EINVAL,
        FileError::TooLarge => Errno::EFBIG,
        FileError::NoSpace => Errno::ENOSPC,
        FileError::ReadOnly => Errno::EROFS,
        FileError::NameTooLong => Errno::ENAMETOOLONG,
        FileError::NotEmpty => Errno::ENOTEMPTY,
        FileError::QuotaExceeded => Errno::EDQUOT,
        FileError::Stale => Errno::ESTALE,
        FileError::NotSupported => Errno::EOPNOTSUPP,
        FileError::TryLater => Errno::EAGAIN,
    }
}

fn new_time(time: TimeOrNow) -> NewTime {
    match time {
        TimeOrNow::Now => NewTime::Now,
        TimeOrNow::SpecificTime(time) => NewTime::At(time),
    }
}

fn is_same_but_for_case(name: &[u8], wanted: &[u8]) -> bool {
    if name.is_ascii() || wanted.is_ascii() {
        return name.eq_ignore_ascii_case(wanted);
    }
    match (std::str::from_utf8(name), std::str::from_utf8(wanted)) {
        (Ok(name), Ok(wanted)) => name.to_lowercase() == wanted.to_lowercase(),
        _ => false,
    }
}

/// Handle for the flags of an open file, and what the kernel need not do for it.
fn handle_of(flags: OpenFlags) -> (FileHandle, FopenFlags) {
    match flags.acc_mode() {
        OpenAccMode::O_RDONLY => (READING, FopenFlags::FOPEN_NOFLUSH),
        OpenAccMode::O_WRONLY | OpenAccMode::O_RDWR => (WRITING, FopenFlags::empty()),
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

impl Filesystem for ShareDoor {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        // Optional: a mount on an older kernel without them is slower.
        for flag in [InitFlags::FUSE_PARALLEL_DIROPS, InitFlags::FUSE_DO_READDIRPLUS] {
            let _lacking = config.add_capabilities(flag);
        }
        let _lower = config.set_max_background(BACKGROUND);
        Ok(())
    }

    fn lookup(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let (asked, name) = (self.asked(request), name.as_bytes().to_vec());
        self.spawn(async move {
            let found = async { asked.lookup(asked.file(parent)?, &name).await };
            match found.await {
                Ok(found) => reply.entry(&VALID, &asked.entry(&found), Generation(0)),
                Err(error) => reply.error(error),
            }
        });
    }

    fn forget(&self, _request: &Request, inode: INodeNo, lookups: u64) {
        self.known.forget(inode, lookups);
    }

    fn getattr(&self, request: &Request, inode: INodeNo, _handle: Option<FileHandle>, reply: ReplyAttr) {
        let asked = self.asked(request);
        self.spawn(async move {
            let found = async { asked.attributes(asked.file(inode)?).await };
            match found.await {
                Ok(found) => reply.attr(&VALID, &asked.known.facts(&found)),
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
        let asked = self.asked(request);
        self.spawn(async move {
            match asked.set(inode, set).await {
                Ok(facts) => reply.attr(&VALID, &facts),
                Err(error) => reply.error(error),
            }
        });
    }

    fn readlink(&self, request: &Request, inode: INodeNo, reply: ReplyData) {
        let asked = self.asked(request);
        self.spawn(async move {
            let target = async {
                let link = asked.file(inode)?;
                asked.ask(|share, caller| share.read_link(caller, link)).await
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
        let (asked, name) = (self.asked(request), name.as_bytes().to_vec());
        self.spawn(async move {
            let created = async { asked.create(asked.file(parent)?, &name, mode, true).await };
            match created.await {
                Ok(created) => reply.entry(&VALID, &asked.entry(&created), Generation(0)),
                Err(error) => reply.error(error),
            }
        });
    }

    fn mkdir(&self, request: &Request, parent: INodeNo, name: &OsStr, mode: u32, _umask: u32, reply: ReplyEntry) {
        let (asked, name) = (self.asked(request), name.as_bytes().to_vec());
        self.spawn(async move {
            let created = async {
                let (directory, set) = (asked.file(parent)?, asked.facts_of_new(Some(mode)));
                asked.ask(|share, caller| share.create_directory(caller, directory, &name, set)).await
            };
            match created.await {
                Ok(created) => reply.entry(&VALID, &asked.entry(&created.attributes), Generation(0)),
                Err(error) => reply.error(error),
            }
        });
    }

    fn unlink(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let (asked, name) = (self.asked(request), name.as_bytes().to_vec());
        self.spawn(async move {
            let removed = async { asked.remove(asked.file(parent)?, &name).await };
            finish(reply, removed.await);
        });
    }

    fn rmdir(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let (asked, name) = (self.asked(request), name.as_bytes().to_vec());
        self.spawn(async move {
            let removed = async {
                let directory = asked.file(parent)?;
                asked.ask(|share, caller| share.remove_directory(caller, directory, &name)).await.map(drop)
            };
            finish(reply, removed.await);
        });
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let (asked, name) = (self.asked(request), name.as_bytes().to_vec());
        let target = Bytes::copy_from_slice(target.as_os_str().as_bytes());
        self.spawn(async move {
            let created = async {
                let (directory, set) = (asked.file(parent)?, asked.facts_of_new(None));
                asked.ask(|share, caller| share.create_link(caller, directory, &name, target.clone(), set)).await
            };
            match created.await {
                Ok(created) => reply.entry(&VALID, &asked.entry(&created.attributes), Generation(0)),
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
        if !flags.is_empty() {
            // Programs then look first, and rename without conditions.
            return reply.error(Errno::EINVAL);
        }
        let (name, new_name) = (name.as_bytes().to_vec(), new_name.as_bytes().to_vec());
        let asked = self.asked(request);
        self.spawn(async move {
            let renamed = async {
                let (old, new) = (asked.file(parent)?, asked.file(new_parent)?);
                asked.rename((old, &name), (new, &new_name)).await
            };
            finish(reply, renamed.await);
        });
    }

    fn link(&self, _: &Request, _: INodeNo, _: INodeNo, _: &OsStr, reply: ReplyEntry) {
        // An object has one key.
        reply.error(Errno::EOPNOTSUPP);
    }

    fn open(&self, request: &Request, inode: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let asked = self.asked(request);
        self.spawn(async move {
            let found = async { asked.attributes(asked.file(inode)?).await };
            match found.await {
                Ok(found) => {
                    asked.known.open(found.file);
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
        let (asked, name) = (self.asked(request), name.as_bytes().to_vec());
        let is_exclusive = OFlags::from_bits_retain(u32::from_ne_bytes(flags.to_ne_bytes())).contains(OFlags::EXCL);
        self.spawn(async move {
            let created = async { asked.create(asked.file(parent)?, &name, mode, is_exclusive).await };
            match created.await {
                Ok(created) => {
                    let facts = asked.entry(&created);
                    asked.known.open(created.file);
                    let (handle, flags) = handle_of(OpenFlags(flags));
                    reply.created(&VALID, &facts, Generation(0), handle, flags);
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
        let asked = self.asked(request);
        self.spawn(async move {
            let data = async {
                let file = asked.file(inode)?;
                asked.ask(|share, caller| share.read(caller, file, offset, size)).await
            };
            // Nothing is half-done by a read: one that waits for the bucket ends with its program.
            let data = tokio::select! {
                biased;
                data = data => data,
                () = wait_for_interrupt(asked.thread) => Err(Errno::EINTR),
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
        let (asked, data, stability) = (self.asked(request), Bytes::copy_from_slice(data), stability_of(flags));
        self.spawn(async move {
            let written = async {
                let file = asked.file(inode)?;
                asked.ask(|share, caller| share.write(caller, file, offset, data.clone(), stability)).await
            };
            match written.await {
                Ok(written) => reply.written(written.length),
                Err(error) => reply.error(error),
            }
        });
    }

    fn flush(&self, request: &Request, inode: INodeNo, handle: FileHandle, _owner: LockOwner, reply: ReplyEmpty) {
        if handle != WRITING {
            return reply.ok();
        }
        let asked = self.asked(request);
        self.spawn(async move { finish(reply, asked.commit(inode).await) });
    }

    fn fsync(&self, request: &Request, inode: INodeNo, _handle: FileHandle, _data_only: bool, reply: ReplyEmpty) {
        let asked = self.asked(request);
        self.spawn(async move { finish(reply, asked.commit(inode).await) });
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
        let asked = self.asked(request);
        self.spawn(async move {
            asked.release(inode).await;
            reply.ok();
        });
    }

    fn readdir(&self, request: &Request, inode: INodeNo, _handle: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let asked = self.asked(request);
        self.spawn(async move {
            let entries = match asked.entries(inode, offset).await {
                Ok(entries) => entries,
                Err(error) => return reply.error(error),
            };
            for entry in entries {
                let facts = asked.known.facts(&entry.attributes);
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
        let asked = self.asked(request);
        self.spawn(async move {
            let entries = match asked.entries(inode, offset).await {
                Ok(entries) => entries,
                Err(error) => return reply.error(error),
            };
            for entry in entries {
                let facts = asked.known.facts(&entry.attributes);
                let name = OsStr::from_bytes(&entry.name);
                // Known before the kernel has it: it may forget it at once.
                let is_counted = !matches!(&*entry.name, b"." | b"..");
                if is_counted {
                    asked.known.look_up(entry.attributes.file);
                }
                if reply.add(facts.ino, entry.cookie, name, &VALID, &facts, Generation(0)) {
                    if is_counted {
                        asked.known.forget(facts.ino, 1);
                    }
                    break;
                }
            }
            reply.ok();
        });
    }

    fn statfs(&self, request: &Request, _inode: INodeNo, reply: ReplyStatfs) {
        let asked = self.asked(request);
        self.spawn(async move {
            match asked.ask(|share, caller| share.space(caller)).await {
                Ok(space) => {
                    let [total, free] =
                        [space.total_bytes, space.free_bytes].map(|bytes| bytes / u64::from(BLOCK_SIZE));
                    let name = asked.share.limits().max_name;
                    reply.statfs(total, free, free, space.total_files, space.free_files, BLOCK_SIZE, name, BLOCK_SIZE);
                }
                Err(error) => reply.error(error),
            }
        });
    }

    fn getxattr(&self, request: &Request, inode: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let name = name.as_bytes();
        if let Some(wanted) = name.strip_prefix(REAL_NAME) {
            let (asked, wanted) = (self.asked(request), wanted.to_vec());
            self.spawn(async move {
                match asked.real_name(inode, &wanted).await {
                    Ok(name) => send_xattr(reply, size, &[&name, &b"\0"[..]].concat()),
                    Err(error) => reply.error(error),
                }
            });
            return;
        }
        if !name.starts_with(OF_USERS) {
            // Asked for with each write, as are those that say what a program may do.
            return reply.error(Errno::NO_XATTR);
        }
        let of_mount = std::str::from_utf8(name).ok().filter(|name| name.starts_with(OF_MOUNT)).map(str::to_owned);
        let (asked, files, name) = (self.asked(request), Arc::clone(&self.files), name.to_vec());
        self.spawn(async move {
            let value = async {
                match of_mount {
                    Some(name) if inode == INodeNo::ROOT => {
                        let value = files.xattr(seqferry_vfs::ROOT, &name).await;
                        Ok(value.ok().flatten().map(|value| Bytes::from(value.into_bytes())))
                    }
                    Some(_) => Ok(None),
                    None => {
                        let file = asked.file(inode)?;
                        asked.ask(|share, caller| share.extended_attribute(caller, file, &name)).await
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
        let asked = self.asked(request);
        self.spawn(async move {
            let names = async {
                let file = asked.file(inode)?;
                asked.ask(|share, caller| share.extended_attribute_names(caller, file)).await
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
            flags if flags.contains(XattrFlags::CREATE) => Presence::Absent,
            flags if flags.contains(XattrFlags::REPLACE) => Presence::Present,
            _ => Presence::Any,
        };
        self.change_attribute(request, inode, name, Some(Bytes::copy_from_slice(value)), presence, reply);
    }

    fn removexattr(&self, request: &Request, inode: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.change_attribute(request, inode, name, None, Presence::Present, reply);
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

fn finish(reply: ReplyEmpty, answer: Answer<()>) {
    match answer {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(error),
    }
}
