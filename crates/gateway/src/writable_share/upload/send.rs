//! The upload of one file: a copy within the service where its bytes are there already, else its bytes.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use seqferry_client::{RecordedUpload, RequestError, RetryContext, UploadSession};
use seqferry_nfs::FileError;
use seqferry_store::crash_point::{self, When};
use seqferry_store::{
    Attributes, ChecksumKind, CopyTarget, DigestAlgorithm, Digester, Digests, ErrorClass, ObjectMeta, ObjectRef,
    PinnedObject, PutObject, StoredMetadata, WrittenObject, checksum::base64,
};
use seqferry_transfer::pipe::{
    InputBytes, InputOptions, InputTarget, PipeError, Replaces, ResumableInput, store_resumable,
};
use seqferry_transfer::{FailureClass, IfExists, Method, ObjectFailure, Properties};
use tokio::sync::OnceCell;

use super::super::Inner;
use super::super::checks::PROBE;
use super::control::Paced;
use super::copy_parts::LargeCopy;
use super::generation::{FileBytes, Rows};
use super::outcomes::WrittenVersion;
use super::plan::{Sending, may_send};
use super::{Trouble, Uploader};
use crate::journal::Disk;
use crate::overlay::{Change, Content, Node, OpenUpload, STATED_GID, STATED_MODE, STATED_UID};

/// Largest object that S3 copies in one request.
const LARGEST_COPY: u64 = 5 << 30;
/// Bytes that are read at a time.
const PIECE: u64 = 1 << 20;
/// Types of files, as modes have them.
const REGULAR: u32 = 0o100_000;
const DIRECTORY: u32 = 0o040_000;
const LINK: u32 = 0o120_000;
/// Number in the journal of a write that is of no file: that of the probe.
pub(super) const NO_FILE: u64 = 0;

/// Treatment of conditions of writes by the service. Some pass over them without a word.
#[derive(Debug, Default)]
pub(in super::super) struct Conditions {
    hold: OnceCell<bool>,
}

/// An object that has the bytes of a file.
#[derive(Debug, Clone)]
pub(super) struct Uploaded {
    pub(super) etag: String,
    pub(super) size: u64,
    /// It has the facts of the file as well.
    pub(super) has_facts: bool,
    /// The version, where one was written.
    pub(super) written: Option<WrittenVersion>,
}

impl From<&ObjectMeta> for Uploaded {
    fn from(meta: &ObjectMeta) -> Self {
        Self { etag: meta.etag.clone(), size: meta.size, has_facts: true, written: Some(meta.into()) }
    }
}

impl From<RequestError> for Trouble {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::Cancelled => Self::Stopped,
            RequestError::Failed(error) => Self::Failed(Box::new(error.into())),
        }
    }
}

/// A failure of the share's own disk, or of a read from the bucket.
pub(super) fn local(error: FileError) -> Trouble {
    match error {
        FileError::Stale => Trouble::Changed,
        other => Trouble::local(format!("the bytes of a file cannot be had: {other}.")),
    }
}

/// Facts of a file, as objects keep them.
pub(super) fn stored(node: &Node) -> StoredMetadata {
    let kind = match node.content {
        Content::File(_) => REGULAR,
        Content::Directory => DIRECTORY,
        Content::Link(_) => LINK,
    };
    let is_stated = |bit: u8| node.base.is_none() || node.stated & bit != 0 || kind == LINK;
    StoredMetadata {
        modified: Some(time_of(node.modified)),
        mode: is_stated(STATED_MODE).then_some(kind | node.mode),
        uid: (node.stated & STATED_UID != 0).then_some(node.uid),
        gid: (node.stated & STATED_GID != 0).then_some(node.gid),
    }
}

/// True when an object has the size, time, mode and owner of a file.
pub(super) fn has_facts(node: &Node, there: &ObjectMeta) -> bool {
    let (ours, theirs) = (stored(node), StoredMetadata::of(&there.attributes.metadata));
    there.size == node.attributes().size
        && ours.modified == theirs.modified
        && ours.mode.is_none_or(|mode| theirs.mode == Some(mode))
        && ours.uid.is_none_or(|uid| theirs.uid == Some(uid))
        && ours.gid.is_none_or(|gid| theirs.gid == Some(gid))
}

/// Seconds and nanoseconds of a time.
pub(super) fn time_of(nanoseconds: u64) -> (i64, u32) {
    let seconds = i64::try_from(nanoseconds / 1_000_000_000).unwrap_or(i64::MAX);
    (seconds, u32::try_from(nanoseconds % 1_000_000_000).unwrap_or_default())
}

impl<D: Disk> Uploader<D> {
    pub(super) async fn send(&self, sending: &Sending) -> Result<(), Trouble> {
        let node = self.frozen(sending).await?;
        let conditions_hold = self.conditions_hold().await?;
        let is_again = self.announce(sending, &node).await?;
        if node.content == Content::Directory {
            return self.send_marker(sending, &node).await;
        }
        // One that was not tried before is not there: the write has the condition that nothing is.
        let is_fresh = sending.replaces == Replaces::Nothing && conditions_hold && node.base.is_none() && !is_again;
        let there = if is_fresh { None } else { self.head(&sending.path).await? };
        let mut replaces = None;
        if let Some(there) = there.as_ref().filter(|there| has_facts(&node, there)) {
            let is_base = node.base.as_ref().is_some_and(|base| *base.etag == *there.etag);
            if node.is_as_base() && (is_base || is_again) || is_again && self.has_bytes(sending, there).await? {
                let open = self.inner.ledger.read(|overlay| overlay.uploads().get(&sending.number).cloned());
                if let Some(open) = open.filter(|_| is_again) {
                    // The object may be that of a generation before, with the same facts.
                    self.abort_parts(&open).await?;
                }
                let mut found = Uploaded::from(there);
                // Nothing was written by an attempt that there was not.
                found.written = found.written.filter(|_| is_again);
                return self.finish(sending, &found).await;
            }
            // Bytes that were never acknowledged were written over it before this process was started.
            replaces = is_again.then(|| Replaces::Version(there.etag.clone()));
        }
        let replaces = match (replaces.as_ref().unwrap_or(&sending.replaces), &there) {
            (Replaces::Version(etag), Some(there)) if there.etag == *etag => Replaces::Version(etag.clone()),
            // It was removed from the bucket meanwhile.
            (Replaces::Version(_) | Replaces::Nothing | Replaces::Anything, None) => Replaces::Nothing,
            (_, Some(there)) => return Box::pin(self.conflict(sending, &node, there)).await,
        };
        match Box::pin(self.write(sending, &node, &sending.path, there, replaces)).await? {
            Some(uploaded) => self.finish(sending, &uploaded).await,
            None => self.lost(sending).await,
        }
    }

    /// Record that a file is about to be written. True when a write of the same was recorded before.
    async fn announce(&self, sending: &Sending, node: &Node) -> Result<bool, Trouble> {
        let slash = if node.content == Content::Directory { "/" } else { "" };
        let open = OpenUpload {
            number: sending.number,
            changed: sending.changed,
            path: format!("{}{slash}", sending.path).into(),
            modified: node.modified,
            size: if slash.is_empty() { node.attributes().size } else { 0 },
            upload_id: "".into(),
            part_size: 0,
        };
        let is_same = |found: &OpenUpload| found.changed == open.changed && found.path == open.path;
        match self.inner.ledger.read(|overlay| overlay.uploads().get(&sending.number).map(is_same)) {
            Some(true) => return Ok(true),
            Some(false) => {
                self.resolve(sending.number).await?;
                return Err(Trouble::Changed);
            }
            None => {}
        }
        crash_point::reach(When::Before, "upload-announced");
        let recorded = self.inner.ledger.change(|overlay| {
            // From here on others see it, and wait for it.
            if may_send(overlay, &self.inner.ids, sending) {
                Ok((vec![Change::Sending(open)], ()))
            } else {
                Err(FileError::Stale)
            }
        });
        recorded.await.map_err(local)?;
        crash_point::reach(When::After, "upload-announced");
        Ok(false)
    }

    /// Write the bytes and facts of a file to a path. None: its bytes were an object of the bucket that is not there any
    /// more.
    pub(super) async fn write(
        &self,
        sending: &Sending,
        node: &Node,
        path: &str,
        there: Option<ObjectMeta>,
        replaces: Replaces,
    ) -> Result<Option<Uploaded>, Trouble> {
        // Other facts of the object that the file was stay with it.
        let source = match &node.base {
            None => None,
            // The object is the one that the file was made of, or an attempt to write the file, which has the same facts.
            Some(base) if &*base.path == path => {
                there.filter(|there| replaces == Replaces::Version(there.etag.clone()) || there.etag == *base.etag)
            }
            Some(base) => self.head(&base.path).await?.filter(|found| found.etag == *base.etag),
        };
        let mut attributes = source.as_ref().map(|source| source.attributes.clone()).unwrap_or_default();
        stored(node).write(&mut attributes.metadata);
        let tags = match (&node.base, &source) {
            (Some(base), Some(source)) if source.tag_count.is_some_and(|count| count > 0) => {
                self.tags(&base.path).await?
            }
            _ => Vec::new(),
        };
        if let Some(base) = node.base.as_ref().filter(|_| node.is_as_base()) {
            let Some(source) = &source else { return Ok(None) };
            let copied = if base.size <= self.spec.largest_copy.unwrap_or(LARGEST_COPY) {
                self.copy(&base.path, source, path, &attributes).await?
            } else {
                let (tags, attributes, replaces) = (tags.clone(), &attributes, &replaces);
                let copy = LargeCopy { from: &base.path, source, to: path, attributes, tags, replaces };
                let copied = Box::pin(self.copy_parts(sending, copy)).await?;
                copied.map(|(etag, version_id)| {
                    let method = Method::Multipart;
                    let written = WrittenVersion { version_id, checksum: None, method, verified: "size" };
                    Uploaded { etag, size: base.size, has_facts: true, written: Some(written) }
                })
            };
            if copied.is_some() {
                return Ok(copied);
            }
        }
        self.stream(sending, path, attributes, tags, replaces).await.map(Some)
    }

    /// The file as it is, if it is still the generation that was settled. All its bytes are on the disk.
    async fn frozen(&self, sending: &Sending) -> Result<Node, Trouble> {
        let number = sending.number;
        let look = |inner: &Inner<D>| {
            inner.ledger.read(|overlay| {
                let node = overlay.node(number).filter(|node| node.changed == sending.changed);
                let is_there = overlay.path(&inner.ids, number).is_ok_and(|path| *path == *sending.path);
                node.filter(|_| is_there).cloned().ok_or(Trouble::Changed)
            })
        };
        let node = look(&self.inner)?;
        if node.data().is_some_and(|data| !data.unsynced.is_empty()) {
            let inner = Arc::clone(&self.inner);
            // To its end, whatever becomes of this upload.
            let committed = tokio::spawn(async move {
                let order = inner.lock_of(number);
                inner.commit_node(number, &order).await
            });
            committed.await.map_err(|_| Trouble::Stopped)?.map_err(local)?;
        }
        look(&self.inner)
    }

    async fn copy(
        &self,
        from: &str,
        source: &ObjectMeta,
        to: &str,
        attributes: &Attributes,
    ) -> Result<Option<Uploaded>, Trouble> {
        let bucket = self.spec.bucket.as_str();
        let (from, to) = (self.key(from), self.key(to));
        let pinned = PinnedObject::of(bucket, &from, source);
        let target = CopyTarget {
            storage_class: self.spec.storage_class.as_deref(),
            attributes: Some(attributes),
            ..CopyTarget::new(bucket, &to)
        };
        match self.spec.client.copy_object(&pinned, target, &RetryContext::default()).await {
            Ok(written) => {
                let (version_id, checksum, method) = (written.version_id, written.checksum, Method::Copy);
                let version = WrittenVersion { version_id, checksum, method, verified: "size" };
                Ok(Some(Uploaded { etag: written.etag, size: source.size, has_facts: true, written: Some(version) }))
            }
            // The service offers no copies: the bytes pass through this process.
            Err(RequestError::Failed(error)) if error.class == ErrorClass::Capability => Ok(None),
            Err(RequestError::Failed(error))
                if matches!(error.class, ErrorClass::Precondition | ErrorClass::NotFound) =>
            {
                Err(Trouble::Changed)
            }
            Err(other) => Err(other.into()),
        }
    }

    async fn tags(&self, path: &str) -> Result<Vec<(String, String)>, Trouble> {
        let (bucket, key) = (&self.spec.bucket, self.key(path));
        let spec = seqferry_client::RequestSpec::read("GetObjectTagging", bucket);
        let get =
            async |store: Arc<dyn seqferry_store::ObjectStore>| store.get_tags(ObjectRef::new(bucket, &key)).await;
        Ok(self.spec.client.call(spec, &RetryContext::default(), get).await?)
    }

    async fn stream(
        &self,
        sending: &Sending,
        path: &str,
        attributes: Attributes,
        tags: Vec<(String, String)>,
        replaces: Replaces,
    ) -> Result<Uploaded, Trouble> {
        let recorded = self.recorded(sending, path);
        if sending.is_again && recorded.is_none() {
            self.session(path, sending.changed).sweep(None).await?;
        }
        let properties = Properties {
            carry_attributes: false,
            attributes,
            carry_tags: false,
            tags: Some(tags),
            ..Properties::default()
        };
        let options = InputOptions {
            part_size: recorded.as_ref().map(|upload| upload.part_size).or(self.spec.part_size),
            storage_class: self.spec.storage_class.clone(),
            properties,
            if_exists: IfExists::Overwrite,
            journal: None,
        };
        let target = InputTarget { bucket: self.spec.bucket.clone(), key: self.key(path) };
        let bytes = FileBytes::new(Arc::clone(&self.inner), sending.number, sending.changed);
        let has_changed = Arc::clone(&bytes.has_changed);
        let bytes = Paced { bytes, control: Arc::clone(&self.inner.control) };
        let journal = Rows { inner: Arc::clone(&self.inner), sending: sending.clone(), path: path.into() };
        let replaces = if self.conditions_hold().await? { replaces } else { Replaces::Anything };
        let input = ResumableInput { bytes, journal, recorded, replaces };
        match store_resumable(self.spec.client.clone(), target, options, input).await {
            Ok(report) => {
                let method = if report.etag.contains('-') { Method::Multipart } else { Method::Stream };
                let (version_id, checksum, verified) = (report.version_id, report.checksum, report.verified.word());
                let written = Some(WrittenVersion { version_id, checksum, method, verified });
                Ok(Uploaded { etag: report.etag, size: report.bytes, has_facts: true, written })
            }
            Err(_) if has_changed.load(Ordering::Acquire) => {
                self.abort(sending.number).await?;
                Err(Trouble::Changed)
            }
            Err(PipeError::Cancelled) => Err(Trouble::Stopped),
            Err(PipeError::Descriptor(error)) => Err(Trouble::local(format!("{}: {error}.", self.address(path)))),
            Err(PipeError::Failed(failure)) => {
                // It may have been written all the same: the next attempt looks.
                if is_conflict(&failure) { Err(Trouble::Changed) } else { Err(Trouble::Failed(failure)) }
            }
        }
    }

    /// The upload that the journal has of this file, if it is of the same generation and path.
    pub(super) fn recorded(&self, sending: &Sending, path: &str) -> Option<RecordedUpload> {
        let found = self.inner.ledger.read(|overlay| overlay.uploads().get(&sending.number).cloned())?;
        let is_same = found.changed == sending.changed && &*found.path == path && !found.upload_id.is_empty();
        is_same.then(|| RecordedUpload { upload_id: found.upload_id.into(), part_size: found.part_size })
    }

    /// Uploads in parts to a path. One that a killed process created and did not record is younger than the change of
    /// its file.
    pub(super) fn session(&self, path: &str, changed: u64) -> UploadSession {
        let since = std::time::Duration::from_nanos(changed).as_secs_f64();
        UploadSession::new(self.spec.client.clone(), &self.spec.bucket, &self.key(path), since, Arc::default())
    }

    /// True when an object has the bytes of a file.
    pub(super) async fn has_bytes(&self, sending: &Sending, there: &ObjectMeta) -> Result<bool, Trouble> {
        let bytes = FileBytes::new(Arc::clone(&self.inner), sending.number, sending.changed);
        let kept = there.checksum.as_ref().filter(|sum| sum.kind == ChecksumKind::FullObject);
        let algorithm = match kept {
            Some(sum) => DigestAlgorithm::Checksum(sum.algorithm),
            None => DigestAlgorithm::Md5,
        };
        let mut digester = Digester::new(algorithm);
        loop {
            let piece = bytes.next(PIECE).await.map_err(|_| Trouble::Changed)?;
            digester.update(&piece);
            if (piece.len() as u64) < PIECE {
                break;
            }
        }
        let digest = digester.finish();
        Ok(match kept {
            Some(sum) => sum.value == base64(&digest),
            // Of an object in parts the `ETag` is no digest; its time, to the nanosecond, is that of this file alone.
            None => {
                there.etag.contains('-') || there.opaque_etag || there.etag == seqferry_store::checksum::hex(&digest)
            }
        })
    }

    pub(super) async fn head(&self, path: &str) -> Result<Option<ObjectMeta>, Trouble> {
        match self.spec.client.head(ObjectRef::new(&self.spec.bucket, &self.key(path))).await {
            Ok(found) => Ok(Some(found)),
            Err(RequestError::Failed(error)) if error.class == ErrorClass::NotFound => Ok(None),
            Err(other) => Err(other.into()),
        }
    }

    /// Put a folder marker, so that the folder is there without files and keeps its facts.
    async fn send_marker(&self, sending: &Sending, node: &Node) -> Result<(), Trouble> {
        let path = format!("{}/", sending.path);
        let uploaded = if let Some(there) = self.head(&path).await? {
            // An attempt before may have put it.
            sending.is_again.then(|| Uploaded::from(&there))
        } else {
            let metadata = stored(node).to_metadata();
            let put = self.put_empty(&path, Attributes { metadata, ..Attributes::default() }, false).await?;
            let (version_id, checksum, method) = (put.version_id, put.checksum, Method::Stream);
            let written = Some(WrittenVersion { version_id, checksum, method, verified: "checksum" });
            Some(Uploaded { etag: put.etag, size: 0, has_facts: true, written })
        };
        self.finish_marker(sending, uploaded.as_ref()).await
    }

    async fn put_empty(
        &self,
        path: &str,
        attributes: Attributes,
        if_absent: bool,
    ) -> Result<WrittenObject, RequestError> {
        let object = PutObject {
            bucket: self.spec.bucket.clone(),
            key: self.key(path),
            attributes,
            digests: Digests::crc64nvme(b""),
            if_absent,
            ..PutObject::default()
        };
        self.spec.client.put_object(&object, &Bytes::new(), &RetryContext::default()).await
    }

    /// True when the service keeps conditions, found out once by writing an object twice that must be absent.
    pub(super) async fn conditions_hold(&self) -> Result<bool, Trouble> {
        self.conditions.hold.get_or_try_init(|| self.probe()).await.copied()
    }

    async fn probe(&self) -> Result<bool, Trouble> {
        // A process that is killed leaves it to the next one.
        let (path, upload_id) = (PROBE.into(), "".into());
        let open = OpenUpload { number: NO_FILE, changed: 0, path, modified: 0, size: 0, upload_id, part_size: 0 };
        self.inner.ledger.change(|_| Ok((vec![Change::Sending(open)], ()))).await.map_err(local)?;
        let mut hold = false;
        for _ in 0..2 {
            match self.put_empty(PROBE, Attributes::default(), true).await {
                Ok(_) => {}
                Err(RequestError::Failed(error)) if error.class == ErrorClass::Precondition => hold = true,
                Err(RequestError::Failed(error)) if error.class == ErrorClass::Capability => {
                    self.spec.client.quirks().learn_refused_conditions();
                    self.spec.client.quirks().learn_refused_matches();
                    break;
                }
                Err(other) => return Err(other.into()),
            }
        }
        let probe = vec![(self.key(PROBE), None)];
        seqferry_transfer::remove::remove(&self.spec.client, &self.spec.bucket, probe).await?;
        self.inner.ledger.change(|_| Ok((vec![Change::Sent(NO_FILE)], ()))).await.map_err(local)?;
        if !hold {
            tracing::warn!(
                "{}: the endpoint does not keep conditions of writes. Each file is looked for before it is written; let no other program write below the share",
                self.address("")
            );
        }
        Ok(hold)
    }
}

/// The target is not what may be replaced.
fn is_conflict(failure: &ObjectFailure) -> bool {
    matches!(failure.class, FailureClass::Store(ErrorClass::Precondition | ErrorClass::NotFound))
        || failure.code == "TargetChanged"
}
