//! One FUSE request: the calls of the share that answer it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fuser::{Errno, FileAttr, Generation, INodeNo, ReplyEntry};
use seqferry_client::Backoff;
use seqferry_share::{
    Attributes, Caller, CreateMode, DirectoryEntry, DirectoryPage, EntryDetail, FileError, FileId, FileKind,
    NameLookup, SetAttributes, Share,
};
use seqferry_vfs::LONGEST_TARGET;

use crate::interrupt::wait_for_interrupt;
use crate::known_files::{KnownFiles, hidden_name};

/// Pauses before a share that answered "try later" is asked again.
const PAUSES: Backoff = Backoff { first: Duration::from_millis(50), longest: Duration::from_secs(1) };
/// Entries that are made for one request for a directory: more never fit.
const MAX_ENTRIES: usize = 512;
/// Permission bits of a mode, with those for set-user-id, set-group-id and sticky.
pub(super) const PERMISSIONS: u32 = 0o7777;

/// Tells a file from another one that had its number before.
pub(super) fn generation_of(file: &Attributes) -> Generation {
    Generation(file.file.generation.into())
}

/// Result of a call, in terms of the kernel.
pub(super) type FuseResult<T> = Result<T, Errno>;
type ShareFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, FileError>> + Send + 'a>>;

/// One request: the share, what the kernel knows of it, and who asks.
pub(super) struct ShareCall {
    pub(super) share: Arc<dyn Share>,
    pub(super) known: Arc<KnownFiles>,
    pub(super) caller: Caller,
    pub(super) uid: u32,
    pub(super) thread: u32,
    /// A call under way is cancelled when the program is interrupted.
    pub(super) is_cancellable: bool,
}

impl ShareCall {
    pub(super) fn file(&self, inode: INodeNo) -> FuseResult<FileId> {
        // The kernel may have forgotten a file that an NFS server on this machine has a handle of.
        self.known.file(inode).or_else(|| self.share.file_of_number(inode.0)).ok_or(Errno::ESTALE)
    }

    /// Ask the share, again and again while it answers "try later".
    pub(super) async fn retry_while_busy<'a, T>(
        &'a self,
        mut call: impl FnMut(&'a dyn Share, &'a Caller) -> ShareFuture<'a, T>,
    ) -> FuseResult<T> {
        let mut refusals = 0;
        loop {
            let answer = call(self.share.as_ref(), &self.caller);
            let answer = if self.is_cancellable {
                tokio::select! {
                    biased;
                    answer = answer => answer,
                    () = wait_for_interrupt(self.thread) => return Err(Errno::EINTR),
                }
            } else {
                answer.await
            };
            match answer {
                Err(FileError::TryLater) => {}
                answer => return answer.map_err(errno),
            }
            tokio::select! {
                () = tokio::time::sleep(PAUSES.after(refusals)) => refusals += 1,
                () = wait_for_interrupt(self.thread) => return Err(Errno::EINTR),
            }
        }
    }

    pub(super) async fn attributes(&self, file: FileId) -> FuseResult<Attributes> {
        self.retry_while_busy(|share, caller| share.attributes(caller, file)).await
    }

    pub(super) async fn lookup(&self, directory: FileId, name: &[u8]) -> FuseResult<Attributes> {
        match self.lookup_name(directory, name).await? {
            NameLookup::Found(found) => Ok(found),
            NameLookup::Absent(_) => Err(Errno::ENOENT),
        }
    }

    pub(super) async fn lookup_name(&self, directory: FileId, name: &[u8]) -> FuseResult<NameLookup> {
        if name == b"." {
            // A file by its number alone, which may be no folder.
            return self.attributes(directory).await.map(NameLookup::Found);
        }
        if self.known.is_hidden(directory, name) {
            return Err(Errno::ENOENT);
        }
        self.retry_while_busy(|share, caller| share.lookup_name(caller, directory, name)).await
    }

    /// Open a file; returns the share's handle.
    pub(super) async fn open(&self, file: FileId) -> FuseResult<u64> {
        let handle = self.retry_while_busy(|share, caller| share.open(caller, file)).await?;
        self.known.open(file);
        Ok(handle)
    }

    /// Facts that a new file, folder or link gets.
    pub(super) fn new_attributes(&self, mode: Option<u32>) -> SetAttributes {
        SetAttributes { mode: mode.map(|mode| mode & PERMISSIONS), uid: Some(self.uid), ..SetAttributes::default() }
    }

    pub(super) async fn create(
        &self,
        directory: FileId,
        name: &[u8],
        mode: u32,
        is_exclusive: bool,
    ) -> FuseResult<Attributes> {
        let set = self.new_attributes(Some(mode));
        let how = if is_exclusive { CreateMode::Guarded(set) } else { CreateMode::Unchecked(set) };
        Ok(self.retry_while_busy(|share, caller| share.create(caller, directory, name, how)).await?.attributes)
    }

    /// Give a file that programs have open another name, at the top of the share and out of sight, until they close it.
    /// Its folder can be removed meanwhile.
    pub(super) async fn hide_if_open(&self, directory: FileId, name: &[u8]) -> FuseResult<bool> {
        let found = match self.lookup(directory, name).await {
            Ok(found) if found.kind != FileKind::Directory => found.file,
            Ok(_) | Err(Errno::ENOENT) => return Ok(false),
            Err(error) => return Err(error),
        };
        if !self.known.is_open(found) {
            return Ok(false);
        }
        let (hidden, root) = (hidden_name(found), self.known.root());
        self.known.set_shown(&hidden, false);
        let renamed =
            self.retry_while_busy(|share, caller| share.rename(caller, directory, name, root, hidden.as_bytes())).await;
        if let Err(error) = renamed {
            self.known.set_shown(&hidden, true);
            return Err(error);
        }
        if !self.known.hide(found, &hidden) {
            self.remove_hidden(&hidden).await;
        }
        Ok(true)
    }

    pub(super) async fn remove(&self, directory: FileId, name: &[u8]) -> FuseResult<()> {
        if self.hide_if_open(directory, name).await? {
            return Ok(());
        }
        self.retry_while_busy(|share, caller| share.remove(caller, directory, name)).await.map(drop)
    }

    /// Rename. With `replaces` false a name in use is refused: the kernel holds both folders meanwhile, so that no
    /// program of this machine makes the name between the look and the rename.
    pub(super) async fn rename(&self, old: (FileId, &[u8]), new: (FileId, &[u8]), replaces: bool) -> FuseResult<()> {
        if !replaces {
            match self.lookup(new.0, new.1).await {
                Err(Errno::ENOENT) => {}
                Ok(_) => return Err(Errno::EEXIST),
                Err(error) => return Err(error),
            }
        } else if old != new {
            let source = self.lookup(old.0, old.1).await?;
            let is_itself = self.lookup(new.0, new.1).await.is_ok_and(|target| target.file == source.file);
            if !is_itself {
                self.hide_if_open(new.0, new.1).await?;
            }
        }
        self.retry_while_busy(|share, caller| share.rename(caller, old.0, old.1, new.0, new.1)).await.map(drop)
    }

    pub(super) async fn release(&self, inode: INodeNo) {
        if let Some(name) = self.known.close(inode) {
            self.remove_hidden(&name).await;
        }
    }

    /// A removed file was closed. One that is left goes when the share is served again.
    async fn remove_hidden(&self, name: &str) {
        let root = self.known.root();
        if self.retry_while_busy(|share, caller| share.remove(caller, root, name.as_bytes())).await.is_ok() {
            self.known.set_shown(name, true);
        }
    }

    /// Facts for the kernel about a file that it now knows.
    pub(super) fn entry(&self, found: &Attributes) -> FileAttr {
        self.known.add_lookup(found.file);
        self.known.facts(found)
    }

    /// Answer with a file, folder or link that was made.
    pub(super) fn answer_created(&self, reply: ReplyEntry, created: FuseResult<Attributes>) {
        match created {
            Ok(created) => reply.entry(&created.valid, &self.entry(&created), generation_of(&created)),
            Err(error) => reply.error(error),
        }
    }

    pub(super) async fn set(&self, inode: INodeNo, set: SetAttributes) -> FuseResult<FileAttr> {
        let file = self.file(inode)?;
        let changed = self.retry_while_busy(|share, caller| share.set_attributes(caller, file, set, None)).await?;
        let found = match changed.after {
            Some(found) => found,
            None => self.attributes(file).await?,
        };
        Ok(self.known.facts(&found))
    }

    /// Entries of a directory after a position, as far as programs see them.
    pub(super) async fn entries(&self, inode: INodeNo, mut offset: u64) -> FuseResult<Vec<DirectoryEntry>> {
        let directory = self.file(inode)?;
        loop {
            let page = self.retry_while_busy(|share, caller| known_kinds(share, caller, directory, offset)).await?;
            let last = page.entries.last().map_or(offset, |entry| entry.cookie);
            let shown = page.entries.into_iter().filter(|entry| !self.known.is_hidden(directory, &entry.name));
            let shown: Vec<DirectoryEntry> = shown.collect();
            // The kernel takes an empty page for the end.
            if !shown.is_empty() || page.is_end || last == offset {
                return Ok(shown);
            }
            offset = last;
        }
    }

    /// Name in a directory that differs from `wanted` in case only. `ENOENT`: there is none.
    pub(super) async fn real_name(&self, inode: INodeNo, wanted: &[u8]) -> FuseResult<Bytes> {
        let directory = self.file(inode)?;
        match self.lookup(directory, wanted).await {
            Ok(_) => return Ok(Bytes::copy_from_slice(wanted)),
            Err(Errno::ENOENT) => {}
            Err(error) => return Err(error),
        }
        let mut cookie = 0;
        loop {
            let page = self
                .retry_while_busy(|share, caller| {
                    share.read_directory(caller, directory, cookie, MAX_ENTRIES, EntryDetail::Names)
                })
                .await?;
            if let Some(found) = page.entries.iter().find(|entry| is_same_but_for_case(&entry.name, wanted)) {
                return Ok(found.name.clone());
            }
            match page.entries.last() {
                Some(last) if !page.is_end => cookie = last.cookie,
                Some(_) | None => return Err(Errno::ENOENT),
            }
        }
    }

    pub(super) async fn commit(&self, inode: INodeNo) -> FuseResult<()> {
        let file = self.file(inode)?;
        self.retry_while_busy(|share, caller| share.commit(caller, file)).await.map(drop)
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

/// A page of a directory whose kinds are no guesses. While the bucket does not answer, a file may be a link.
fn known_kinds<'a>(
    share: &'a dyn Share,
    caller: &'a Caller,
    directory: FileId,
    offset: u64,
) -> ShareFuture<'a, DirectoryPage> {
    Box::pin(async move {
        let page = share.read_directory(caller, directory, offset, MAX_ENTRIES, EntryDetail::Kinds).await?;
        if page.entries.iter().any(is_guess) { Err(FileError::TryLater) } else { Ok(page) }
    })
}

/// True when the kind of an entry is not known.
fn is_guess(entry: &DirectoryEntry) -> bool {
    let may_be_link = (1..=LONGEST_TARGET).contains(&entry.attributes.size);
    !entry.is_known && entry.attributes.kind == FileKind::File && may_be_link
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
