//! A share in memory: writable, in the order of its numbers, with a hold on reads and failures to order.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use bytes::Bytes;
use seqferry_share::{
    ATTRIBUTE_TTL, Access, Attributes, Caller, ChangeResult, ChangeStamp, CreateMode, CreateResult, DirectoryEntry,
    DirectoryPage, EntryDetail, FileError, FileId, FileKind, ReadData, Result, SetAttributes, Share, SpaceInfo,
    Stability, TimeUpdate, WriteResult,
};
use tokio::sync::Semaphore;

const ROOT: u64 = 1;

#[derive(Debug)]
enum Content {
    File(Vec<u8>),
    Directory(BTreeMap<Vec<u8>, u64>),
    Link(Bytes),
}

#[derive(Debug)]
struct Node {
    attributes: Attributes,
    content: Content,
    parent: u64,
    exclusive: Option<[u8; 8]>,
}

#[derive(Debug, Default)]
struct State {
    nodes: BTreeMap<u64, Node>,
    last: u64,
    clock: u64,
}

/// The share. Its fields are for tests to look at and to set.
#[derive(Debug)]
pub(crate) struct MemoryShare {
    state: Mutex<State>,
    pub(crate) is_read_only: bool,
    /// Reads wait for permits of it.
    pub(crate) reads: Semaphore,
    /// Removals wait for permits of it.
    pub(crate) removals: Semaphore,
    pub(crate) running: AtomicUsize,
    pub(crate) most_running: AtomicUsize,
    pub(crate) removals_begun: AtomicUsize,
    pub(crate) callers: Mutex<Vec<Caller>>,
    /// The next operation fails with this.
    pub(crate) failure: Mutex<Option<FileError>>,
    /// The next operation panics.
    pub(crate) panics: std::sync::atomic::AtomicBool,
}

impl MemoryShare {
    pub(crate) fn new(is_read_only: bool) -> Arc<Self> {
        let mut state = State { last: 10, ..State::default() };
        state.insert(ROOT, ROOT, FileKind::Directory, 0o755, Content::Directory(BTreeMap::new()));
        Arc::new(Self {
            state: Mutex::new(state),
            is_read_only,
            reads: Semaphore::new(Semaphore::MAX_PERMITS),
            removals: Semaphore::new(Semaphore::MAX_PERMITS),
            running: AtomicUsize::new(0),
            most_running: AtomicUsize::new(0),
            removals_begun: AtomicUsize::new(0),
            callers: Mutex::default(),
            failure: Mutex::default(),
            panics: false.into(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Add a file for the tests, as the owner 1000.
    pub(crate) fn add_file(&self, name: &str, bytes: &[u8]) -> FileId {
        self.lock().add(ROOT, name.as_bytes(), FileKind::File, 0o644, Content::File(bytes.to_vec()))
    }

    pub(crate) fn add_directory(&self, name: &str) -> FileId {
        self.lock().add(ROOT, name.as_bytes(), FileKind::Directory, 0o755, Content::Directory(BTreeMap::new()))
    }

    pub(crate) fn add_link(&self, name: &str, target: &'static str) -> FileId {
        let target = Bytes::from_static(target.as_bytes());
        self.lock().add(ROOT, name.as_bytes(), FileKind::Symlink, 0o777, Content::Link(target))
    }

    pub(crate) fn remove_file(&self, name: &str) {
        self.lock().unlink(ROOT, name.as_bytes()).unwrap();
    }

    pub(crate) fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        let state = self.lock();
        let Content::Directory(names) = &state.nodes[&ROOT].content else { return None };
        match &state.nodes[names.get(name.as_bytes())?].content {
            Content::File(bytes) => Some(bytes.clone()),
            Content::Directory(_) | Content::Link(_) => None,
        }
    }

    fn begin(&self, caller: &Caller) -> Result<()> {
        self.callers.lock().unwrap().push(caller.clone());
        assert!(!self.panics.swap(false, Ordering::SeqCst), "a panic that a test has asked for");
        self.failure.lock().unwrap().take().map_or(Ok(()), Err)
    }
}

impl State {
    fn now(&mut self) -> SystemTime {
        self.clock += 1;
        UNIX_EPOCH + Duration::from_secs(1_700_000_000 + self.clock)
    }

    fn insert(&mut self, number: u64, parent: u64, kind: FileKind, mode: u32, content: Content) -> FileId {
        let now = self.now();
        let size = match &content {
            Content::File(bytes) => bytes.len() as u64,
            Content::Directory(_) => 4096,
            Content::Link(target) => target.len() as u64,
        };
        let file = FileId { number, generation: 3 };
        let attributes = Attributes {
            file,
            kind,
            mode,
            links: 1,
            uid: 1000,
            gid: 1000,
            size,
            used: size,
            accessed: now,
            modified: now,
            changed: now,
            valid: ATTRIBUTE_TTL,
        };
        self.nodes.insert(number, Node { attributes, content, parent, exclusive: None });
        file
    }

    fn add(&mut self, parent: u64, name: &[u8], kind: FileKind, mode: u32, content: Content) -> FileId {
        self.last += 1;
        let number = self.last;
        let file = self.insert(number, parent, kind, mode, content);
        self.names(parent).unwrap().insert(name.to_vec(), number);
        self.touch(parent);
        file
    }

    fn touch(&mut self, number: u64) {
        let now = self.now();
        if let Some(node) = self.nodes.get_mut(&number) {
            (node.attributes.modified, node.attributes.changed) = (now, now);
        }
    }

    fn node(&mut self, file: FileId) -> Result<&mut Node> {
        self.nodes.get_mut(&file.number).filter(|node| node.attributes.file == file).ok_or(FileError::Stale)
    }

    fn names(&mut self, number: u64) -> Result<&mut BTreeMap<Vec<u8>, u64>> {
        match &mut self.nodes.get_mut(&number).ok_or(FileError::Stale)?.content {
            Content::Directory(names) => Ok(names),
            Content::File(_) | Content::Link(_) => Err(FileError::NotADirectory),
        }
    }

    fn unlink(&mut self, directory: u64, name: &[u8]) -> Result<()> {
        let number = self.names(directory)?.remove(name).ok_or(FileError::NotFound)?;
        self.nodes.remove(&number);
        self.touch(directory);
        Ok(())
    }

    fn summary(&mut self, file: FileId) -> Result<ChangeStamp> {
        Ok(ChangeStamp::from(&self.node(file)?.attributes))
    }

    fn changed(&mut self, file: FileId, before: ChangeStamp) -> ChangeResult {
        let after = self.node(file).ok().map(|node| node.attributes.clone());
        ChangeResult { before: Some(before), after }
    }

    fn create(
        &mut self,
        directory: FileId,
        name: &[u8],
        kind: FileKind,
        mode: u32,
        content: Content,
    ) -> Result<CreateResult> {
        let before = self.summary(directory)?;
        if self.names(directory.number)?.contains_key(name) {
            return Err(FileError::Exists);
        }
        let file = self.add(directory.number, name, kind, mode, content);
        let attributes = self.node(file)?.attributes.clone();
        Ok(CreateResult { attributes, directory: self.changed(directory, before) })
    }

    fn set(&mut self, file: FileId, wanted: SetAttributes) -> Result<()> {
        let now = self.now();
        let node = self.node(file)?;
        if let Some(size) = wanted.size {
            let Content::File(bytes) = &mut node.content else { return Err(FileError::IsADirectory) };
            bytes.resize(usize::try_from(size).unwrap(), 0);
            node.attributes.size = size;
        }
        let facts = &mut node.attributes;
        facts.mode = wanted.mode.unwrap_or(facts.mode);
        facts.uid = wanted.uid.unwrap_or(facts.uid);
        facts.gid = wanted.gid.unwrap_or(facts.gid);
        let time = |time| match time {
            TimeUpdate::Now => now,
            TimeUpdate::At(at) => at,
        };
        facts.accessed = wanted.accessed.map_or(facts.accessed, time);
        facts.modified = wanted.modified.map_or(facts.modified, time);
        facts.changed = now;
        Ok(())
    }
}

#[async_trait]
impl Share for MemoryShare {
    fn root(&self) -> FileId {
        FileId { number: ROOT, generation: 3 }
    }

    fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    async fn attributes(&self, _caller: &Caller, file: FileId) -> Result<Attributes> {
        Ok(self.lock().node(file)?.attributes.clone())
    }

    async fn lookup(&self, caller: &Caller, directory: FileId, name: &[u8]) -> Result<Attributes> {
        self.begin(caller)?;
        let mut state = self.lock();
        let node = state.node(directory)?;
        if node.attributes.kind == FileKind::Directory && !node.attributes.access(caller).includes(Access::LOOKUP) {
            return Err(FileError::AccessDenied);
        }
        let parent = node.parent;
        let number = match name {
            b"." => directory.number,
            b".." => parent,
            name => *state.names(directory.number)?.get(name).ok_or(FileError::NotFound)?,
        };
        Ok(state.nodes[&number].attributes.clone())
    }

    async fn read_link(&self, caller: &Caller, link: FileId) -> Result<Bytes> {
        self.begin(caller)?;
        match &self.lock().node(link)?.content {
            Content::Link(target) => Ok(target.clone()),
            Content::File(_) | Content::Directory(_) => Err(FileError::Invalid),
        }
    }

    async fn read(&self, caller: &Caller, file: FileId, offset: u64, length: u32) -> Result<ReadData> {
        self.begin(caller)?;
        let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_running.fetch_max(running, Ordering::SeqCst);
        let held = self.reads.acquire().await.unwrap();
        self.running.fetch_sub(1, Ordering::SeqCst);
        drop(held);
        let mut state = self.lock();
        let node = state.node(file)?;
        let Content::File(bytes) = &node.content else { return Err(FileError::IsADirectory) };
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
        let to = from.saturating_add(length as usize).min(bytes.len());
        let middle = usize::midpoint(from, to);
        let slices = [from..middle, middle..to].map(|range| Bytes::copy_from_slice(&bytes[range])).to_vec();
        Ok(ReadData { slices, is_end: to == bytes.len(), attributes: Some(node.attributes.clone()) })
    }

    async fn read_directory(
        &self,
        caller: &Caller,
        directory: FileId,
        cookie: u64,
        most: usize,
        _facts: EntryDetail,
    ) -> Result<DirectoryPage> {
        self.begin(caller)?;
        let mut state = self.lock();
        let parent = state.node(directory)?.parent;
        let mut names: Vec<(u64, Bytes, u64)> = state
            .names(directory.number)?
            .iter()
            .map(|(name, number)| (*number, Bytes::copy_from_slice(name), *number))
            .collect();
        names.extend([(1, Bytes::from_static(b"."), directory.number), (2, Bytes::from_static(b".."), parent)]);
        names.sort();
        let left: Vec<_> = names.into_iter().filter(|(at, ..)| *at > cookie).collect();
        let is_end = left.len() <= most;
        let entries = left.into_iter().take(most).map(|(cookie, name, number)| {
            let attributes = state.nodes[&number].attributes.clone();
            DirectoryEntry { name, cookie, attributes, is_known: true }
        });
        Ok(DirectoryPage { entries: entries.collect(), is_end })
    }

    async fn space(&self, caller: &Caller) -> Result<SpaceInfo> {
        self.begin(caller)?;
        Ok(SpaceInfo { total_bytes: u64::MAX, free_bytes: 1 << 40, total_files: u64::MAX, free_files: 1 << 30 })
    }

    async fn set_attributes(
        &self,
        caller: &Caller,
        file: FileId,
        attributes: SetAttributes,
        unchanged_since: Option<SystemTime>,
    ) -> Result<ChangeResult> {
        self.begin(caller)?;
        let mut state = self.lock();
        let before = state.summary(file)?;
        if unchanged_since.is_some_and(|since| since != before.changed) {
            return Err(FileError::NotSynchronized);
        }
        state.set(file, attributes)?;
        Ok(state.changed(file, before))
    }

    async fn write(
        &self,
        caller: &Caller,
        file: FileId,
        offset: u64,
        data: Bytes,
        stability: Stability,
    ) -> Result<WriteResult> {
        self.begin(caller)?;
        let mut state = self.lock();
        let before = state.summary(file)?;
        state.touch(file.number);
        let node = state.node(file)?;
        let Content::File(bytes) = &mut node.content else { return Err(FileError::IsADirectory) };
        let from = usize::try_from(offset).unwrap();
        let end = from + data.len();
        bytes.resize(bytes.len().max(end), 0);
        bytes[from..end].copy_from_slice(&data);
        node.attributes.size = bytes.len() as u64;
        let length = u32::try_from(data.len()).unwrap();
        Ok(WriteResult { file: state.changed(file, before), length, stability })
    }

    async fn commit(&self, caller: &Caller, file: FileId) -> Result<ChangeResult> {
        self.begin(caller)?;
        let mut state = self.lock();
        let before = state.summary(file)?;
        Ok(state.changed(file, before))
    }

    async fn create(&self, caller: &Caller, directory: FileId, name: &[u8], how: CreateMode) -> Result<CreateResult> {
        self.begin(caller)?;
        let mut state = self.lock();
        let known = state.names(directory.number)?.get(name).copied();
        let (wanted, verifier) = match how {
            CreateMode::Unchecked(wanted) | CreateMode::Guarded(wanted) => (wanted, None),
            CreateMode::Exclusive(verifier) => (SetAttributes::default(), Some(verifier)),
        };
        if let Some(number) = known {
            let before = state.summary(directory)?;
            let node = &state.nodes[&number];
            let is_same = verifier.is_some() && node.exclusive == verifier;
            if !is_same && !matches!(how, CreateMode::Unchecked(_)) {
                return Err(FileError::Exists);
            }
            let file = node.attributes.file;
            state.set(file, wanted)?;
            let attributes = state.node(file)?.attributes.clone();
            return Ok(CreateResult { attributes, directory: state.changed(directory, before) });
        }
        let mut created = state.create(directory, name, FileKind::File, 0o644, Content::File(Vec::new()))?;
        state.set(created.attributes.file, wanted)?;
        let node = state.node(created.attributes.file)?;
        node.exclusive = verifier;
        created.attributes = node.attributes.clone();
        Ok(created)
    }

    async fn create_directory(
        &self,
        caller: &Caller,
        directory: FileId,
        name: &[u8],
        attributes: SetAttributes,
    ) -> Result<CreateResult> {
        self.begin(caller)?;
        let content = Content::Directory(BTreeMap::new());
        self.lock().create(directory, name, FileKind::Directory, attributes.mode.unwrap_or(0o755), content)
    }

    async fn create_link(
        &self,
        caller: &Caller,
        directory: FileId,
        name: &[u8],
        target: Bytes,
        _attributes: SetAttributes,
    ) -> Result<CreateResult> {
        self.begin(caller)?;
        self.lock().create(directory, name, FileKind::Symlink, 0o777, Content::Link(target))
    }

    async fn remove(&self, caller: &Caller, directory: FileId, name: &[u8]) -> Result<ChangeResult> {
        self.begin(caller)?;
        self.removals_begun.fetch_add(1, Ordering::SeqCst);
        drop(self.removals.acquire().await.unwrap());
        let mut state = self.lock();
        let before = state.summary(directory)?;
        let number = *state.names(directory.number)?.get(name).ok_or(FileError::NotFound)?;
        if state.nodes[&number].attributes.kind == FileKind::Directory {
            return Err(FileError::IsADirectory);
        }
        state.unlink(directory.number, name)?;
        Ok(state.changed(directory, before))
    }

    async fn remove_directory(&self, caller: &Caller, directory: FileId, name: &[u8]) -> Result<ChangeResult> {
        self.begin(caller)?;
        let mut state = self.lock();
        let before = state.summary(directory)?;
        let number = *state.names(directory.number)?.get(name).ok_or(FileError::NotFound)?;
        if !state.names(number)?.is_empty() {
            return Err(FileError::NotEmpty);
        }
        state.unlink(directory.number, name)?;
        Ok(state.changed(directory, before))
    }

    async fn rename(
        &self,
        caller: &Caller,
        directory: FileId,
        name: &[u8],
        new_directory: FileId,
        new_name: &[u8],
    ) -> Result<(ChangeResult, ChangeResult)> {
        self.begin(caller)?;
        let mut state = self.lock();
        let before = (state.summary(directory)?, state.summary(new_directory)?);
        let number = state.names(directory.number)?.remove(name).ok_or(FileError::NotFound)?;
        state.names(new_directory.number)?.insert(new_name.to_vec(), number);
        state.touch(directory.number);
        state.touch(new_directory.number);
        Ok((state.changed(directory, before.0), state.changed(new_directory, before.1)))
    }
}
