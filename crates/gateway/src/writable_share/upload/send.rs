//! Upload of one file: a server-side copy where its bytes are in the bucket already, else its bytes.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use seqferry_client::{RecordedUpload, RequestError, RetryContext, UploadSession};
use seqferry_share::FileError;
use seqferry_store::crash_point::{self, When};
use seqferry_store::{
    Attributes, CopyTarget, Digests, ErrorClass, ListRequest, ObjectMeta, ObjectRef, ObjectStore, PinnedObject,
    PutObject, StoreError, WrittenObject,
};
use seqferry_transfer::pipe::{
    InputOptions, InputTarget, PipeError, ReplaceCondition, ResumableInput, store_resumable,
};
use seqferry_transfer::{CopyMethod, FailureClass, IfExists, ObjectFailure, Properties};

use super::super::Inner;
use super::copy_parts::LargeCopy;
use super::generation::{GenerationReader, ShareUploadJournal};
use super::metadata::attributes_of;
use super::outcomes::WrittenVersion;
use super::plan::{FileUpload, may_send};
use super::verify::WriteMatch;
use super::{UploadError, Uploader};
use crate::journal::Disk;
use crate::overlay::{Change, Node, NodeContent, OpenUpload, new_token};

/// An object that has the bytes of a file.
#[derive(Debug, Clone)]
pub(super) struct UploadedObject {
    pub(super) etag: String,
    pub(super) size: u64,
    /// It has the attributes of the file as well.
    pub(super) has_facts: bool,
    /// The version, where one was written.
    pub(super) written: Option<WrittenVersion>,
}

impl From<&ObjectMeta> for UploadedObject {
    fn from(meta: &ObjectMeta) -> Self {
        Self { etag: meta.etag.clone(), size: meta.size, has_facts: true, written: Some(meta.into()) }
    }
}

/// Object at the key of a folder.
#[derive(Debug)]
pub(super) enum FolderMarker {
    Absent,
    /// No object: some services answer HEAD for a folder that has, or had, files.
    Implied,
    Object(Box<ObjectMeta>),
}

impl From<RequestError> for UploadError {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::Cancelled => Self::Stopped,
            RequestError::Failed(error) => Self::Failed(Box::new(error.into())),
        }
    }
}

/// A failure of the share's own disk, or of a read from the bucket.
pub(super) fn local(error: FileError) -> UploadError {
    match error {
        FileError::Stale => UploadError::Superseded,
        other => UploadError::local(format!("the bytes of a file cannot be had: {other}.")),
    }
}

impl<D: Disk> Uploader<D> {
    pub(super) async fn send(&self, file_upload: &FileUpload) -> Result<(), UploadError> {
        let node = self.settled_node(file_upload).await?;
        let conditions_hold = self.keeps_conditions(self.request_of(&node)).await?;
        let (open, is_again) = self.announce(file_upload, &node).await?;
        if node.content == NodeContent::Directory {
            return self.send_marker(file_upload, &node, &open, None).await;
        }
        // One that was not tried before is not there: the write has the condition that nothing is.
        let is_fresh =
            file_upload.replaces == ReplaceCondition::Nothing && conditions_hold && node.base.is_none() && !is_again;
        let there = if is_fresh { None } else { self.head(&file_upload.path).await? };
        if let Some(there) = &there {
            match self.match_write((file_upload, &open, is_again), &node, there).await? {
                WriteMatch::File => {
                    if is_again {
                        // An earlier attempt may have left an upload open beside the one that was completed.
                        self.abort_parts(&open).await?;
                    }
                    let is_base = node.base.as_ref().is_some_and(|base| *base.etag == *there.etag);
                    let mut found = UploadedObject::from(there);
                    found.written = found.written.filter(|_| open.has_made(there) || !is_base);
                    return self.finish(file_upload, &found).await;
                }
                // It is the object that the file is made of from now on. Bytes that were written over it are sent then.
                WriteMatch::Earlier => {
                    self.abort_parts(&open).await?;
                    return self.finish(file_upload, &UploadedObject { has_facts: false, ..there.into() }).await;
                }
                WriteMatch::Other => {}
            }
        }
        let replaces = match (&file_upload.replaces, &there) {
            (ReplaceCondition::Version(etag), Some(there)) if there.etag == *etag => {
                ReplaceCondition::Version(etag.clone())
            }
            // It was removed from the bucket meanwhile.
            (ReplaceCondition::Version(_) | ReplaceCondition::Nothing | ReplaceCondition::Anything, None) => {
                ReplaceCondition::Nothing
            }
            (_, Some(there)) => return Box::pin(self.conflict(file_upload, &node, Some(there))).await,
        };
        match Box::pin(self.write(file_upload, &node, &open, there, replaces)).await? {
            Some(uploaded) => self.finish(file_upload, &uploaded).await,
            None => Box::pin(self.resolve_missing_object(file_upload, &node)).await,
        }
    }

    /// Record that a file is about to be written. Returns the record, and true when a write of the same was recorded
    /// before.
    pub(super) async fn announce(
        &self,
        file_upload: &FileUpload,
        node: &Node,
    ) -> Result<(OpenUpload, bool), UploadError> {
        let slash = if node.content == NodeContent::Directory { "/" } else { "" };
        let open = OpenUpload {
            number: file_upload.number,
            changed: file_upload.changed,
            path: format!("{}{slash}", file_upload.path).into(),
            modified: node.modified,
            size: if slash.is_empty() { node.attributes().size } else { 0 },
            upload_id: "".into(),
            part_size: 0,
            token: new_token(),
            is_of_this_process: true,
        };
        let found = self.inner.overlay.read(|overlay| overlay.uploads().get(&file_upload.number).cloned());
        let is_again = found.is_some();
        let open = match found {
            Some(found) if found.changed != open.changed || found.path != open.path => {
                self.resolve(file_upload.number).await?;
                return Err(UploadError::Superseded);
            }
            Some(found) if !found.token.is_empty() => return Ok((found, true)),
            // An earlier version of this program has announced it: what it left open makes an object without a mark.
            Some(found) => {
                self.abort_parts(&found).await?;
                OpenUpload { is_of_this_process: false, ..open }
            }
            None => open,
        };
        crash_point::reach(When::Before, "upload-announced");
        let announced = open.clone();
        let recorded = self.inner.overlay.change(|overlay| {
            // From here on others see it, and wait for it.
            if may_send(overlay, &self.inner.file_table, file_upload) {
                Ok((vec![Change::BeginUpload(announced)], ()))
            } else {
                Err(FileError::Stale)
            }
        });
        recorded.await.map_err(local)?;
        crash_point::reach(When::After, "upload-announced");
        Ok((open, is_again))
    }

    /// Write the bytes and attributes of a file to the path of its record. None: bytes of it are those of an object of
    /// the bucket that is not there any more.
    pub(super) async fn write(
        &self,
        file_upload: &FileUpload,
        node: &Node,
        open: &OpenUpload,
        there: Option<ObjectMeta>,
        replaces: ReplaceCondition,
    ) -> Result<Option<UploadedObject>, UploadError> {
        let path = &*open.path;
        // Other attributes of the object that the file was stay with it.
        let source = match &node.base {
            None => None,
            // The object is the one that the file was made of, or an attempt to write the file, which has the same
            // facts.
            Some(base) if &*base.path == path => there
                .filter(|there| replaces == ReplaceCondition::Version(there.etag.clone()) || there.etag == *base.etag),
            Some(base) => self.head(&base.path).await?.filter(|found| found.etag == *base.etag),
        };
        if source.is_none() && !node.gaps().is_empty() {
            return Ok(None);
        }
        let attributes = attributes_of(node, open, source.as_ref());
        let tags = match (&node.base, &source) {
            (Some(base), Some(source)) if source.tag_count.is_some_and(|count| count > 0) => {
                self.tags(&base.path).await?
            }
            _ => Vec::new(),
        };
        let tags = self.spec.objects.tags(tags);
        let grown = if node.is_as_base() { None } else { Box::pin(self.grown(file_upload, node)).await? };
        let below = node.base.as_ref().filter(|_| node.is_as_base()).map(|base| (&*base.path, source.as_ref()));
        if let Some((from, source)) = below.or(grown.as_ref().map(|(path, there)| (&**path, Some(there)))) {
            let Some(source) = source else { return Ok(None) };
            let copied = if source.size <= self.largest_copy() {
                self.copy(from, source, (path, &replaces), &attributes).await?
            } else {
                let (tags, attributes, replaces) = (tags.clone(), &attributes, &replaces);
                let copy = LargeCopy { from, source, to: path, attributes, tags, replaces };
                let copied = Box::pin(self.copy_parts(file_upload, copy)).await?;
                copied.map(|written| copied_object(source, written, CopyMethod::Multipart))
            };
            if copied.is_some() {
                return Ok(copied);
            }
        }
        let bytes = GenerationReader::new(Arc::clone(&self.inner), file_upload.number, file_upload.changed);
        self.stream(file_upload, bytes, path, (attributes, tags), replaces).await.map(Some)
    }

    /// The file as it is, if it is still the generation that was settled. All its bytes are on the disk.
    async fn settled_node(&self, file_upload: &FileUpload) -> Result<Node, UploadError> {
        let number = file_upload.number;
        let look = |inner: &Inner<D>| {
            inner.overlay.read(|overlay| {
                let node = overlay.node(number).filter(|node| node.changed == file_upload.changed);
                let is_there = overlay.path(&inner.file_table, number).is_ok_and(|path| *path == *file_upload.path);
                node.filter(|_| is_there).cloned().ok_or(UploadError::Superseded)
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
            committed.await.map_err(|_| UploadError::Stopped)?.map_err(local)?;
        }
        look(&self.inner)
    }

    async fn copy(
        &self,
        from: &str,
        source: &ObjectMeta,
        (path, replaces): (&str, &ReplaceCondition),
        attributes: &Attributes,
    ) -> Result<Option<UploadedObject>, UploadError> {
        let bucket = self.spec.bucket.as_str();
        let (from, to) = (self.key(from), self.key(path));
        let pinned = PinnedObject::of(bucket, &from, source);
        let (storage_class, write) = (self.spec.objects.storage_class(path), self.spec.objects.write_options());
        let target = CopyTarget {
            storage_class: storage_class.as_deref(),
            write: Some(&write),
            attributes: Some(attributes),
            if_absent: *replaces == ReplaceCondition::Nothing,
            if_match: if let ReplaceCondition::Version(etag) = replaces { Some(etag) } else { None },
            ..CopyTarget::new(bucket, &to)
        };
        match self.spec.client.copy_object(&pinned, target, &RetryContext::default()).await {
            Ok(written) => Ok(Some(copied_object(source, written, CopyMethod::Copy))),
            // The service offers no copies: the bytes pass through this process.
            Err(RequestError::Failed(error)) if error.class == ErrorClass::Capability => Ok(None),
            Err(RequestError::Failed(error))
                if matches!(error.class, ErrorClass::Precondition | ErrorClass::NotFound) =>
            {
                Err(UploadError::Superseded)
            }
            Err(other) => Err(other.into()),
        }
    }

    async fn tags(&self, path: &str) -> Result<Vec<(String, String)>, UploadError> {
        let (bucket, key) = (&self.spec.bucket, self.key(path));
        let spec = seqferry_client::RequestSpec::read("GetObjectTagging", bucket);
        let get = async |store: Arc<dyn ObjectStore>| store.get_tags(ObjectRef::new(bucket, &key)).await;
        Ok(self.spec.client.call(spec, &RetryContext::default(), get).await?)
    }

    /// Send the bytes of a file to a path.
    pub(super) async fn stream(
        &self,
        file_upload: &FileUpload,
        bytes: GenerationReader<D>,
        path: &str,
        (attributes, tags): (Attributes, Vec<(String, String)>),
        replaces: ReplaceCondition,
    ) -> Result<UploadedObject, UploadError> {
        let recorded = self.recorded(file_upload, path);
        if file_upload.is_again && recorded.is_none() {
            self.session(path, file_upload.changed).sweep(None).await?;
        }
        let properties = Properties {
            carry_attributes: false,
            attributes,
            carry_tags: false,
            tags: Some(tags),
            ..self.spec.objects.properties.clone()
        };
        let options = InputOptions {
            part_size: recorded.as_ref().map(|upload| upload.part_size).or(self.spec.part_size),
            storage_class: self.spec.objects.storage_class(path),
            properties,
            if_exists: IfExists::Overwrite,
            journal: None,
        };
        let target = InputTarget { bucket: self.spec.bucket.clone(), key: self.key(path) };
        let has_changed = Arc::clone(&bytes.has_changed);
        let journal =
            ShareUploadJournal { inner: Arc::clone(&self.inner), file_upload: file_upload.clone(), path: path.into() };
        let input = ResumableInput { bytes, journal, recorded, replaces };
        match store_resumable(self.spec.client.clone(), target, options, input).await {
            Ok(report) => {
                let method = if report.etag.contains('-') { CopyMethod::Multipart } else { CopyMethod::Stream };
                let (version_id, checksum, verified) = (report.version_id, report.checksum, report.verified.as_str());
                let written = Some(WrittenVersion { version_id, checksum, method, verified });
                Ok(UploadedObject { etag: report.etag, size: report.bytes, has_facts: true, written })
            }
            Err(_) if has_changed.load(Ordering::Acquire) => {
                self.abort(file_upload.number).await?;
                Err(UploadError::Superseded)
            }
            Err(PipeError::Cancelled) => Err(UploadError::Stopped),
            Err(PipeError::Descriptor(error)) => Err(UploadError::local(format!("{}: {error}.", self.address(path)))),
            Err(PipeError::Failed(failure)) => {
                // It may have been written: the next attempt checks.
                if is_conflict(&failure) { Err(UploadError::Superseded) } else { Err(UploadError::Failed(failure)) }
            }
        }
    }

    /// The upload that the journal has of this file, if it is of the same generation and path.
    pub(super) fn recorded(&self, file_upload: &FileUpload, path: &str) -> Option<RecordedUpload> {
        let found = self.inner.overlay.read(|overlay| overlay.uploads().get(&file_upload.number).cloned())?;
        let is_same = found.changed == file_upload.changed && &*found.path == path && !found.upload_id.is_empty();
        is_same.then(|| RecordedUpload { upload_id: found.upload_id.into(), part_size: found.part_size, etag: None })
    }

    /// Uploads in parts to a path. One that a killed process created and did not record is younger than the change of
    /// its file.
    pub(super) fn session(&self, path: &str, changed: u64) -> UploadSession {
        let since = std::time::Duration::from_nanos(changed).as_secs_f64();
        UploadSession::new(self.spec.client.clone(), &self.spec.bucket, &self.key(path), since, Arc::default())
    }

    pub(super) async fn head(&self, path: &str) -> Result<Option<ObjectMeta>, UploadError> {
        match self.spec.client.head(ObjectRef::new(&self.spec.bucket, &self.key(path))).await {
            Ok(found) => Ok(Some(found)),
            Err(RequestError::Failed(error)) if error.class == ErrorClass::NotFound => Ok(None),
            Err(other) => Err(other.into()),
        }
    }

    /// Put a folder marker, so that the folder is there without files and keeps its attributes.
    pub(super) async fn send_marker(
        &self,
        file_upload: &FileUpload,
        node: &Node,
        open: &OpenUpload,
        source: Option<&ObjectMeta>,
    ) -> Result<(), UploadError> {
        let attributes = attributes_of(node, open, source);
        let put = match self.find_marker(&open.path).await? {
            FolderMarker::Object(there) => {
                // Another program's stays; one that an attempt before has put is this one.
                let uploaded = open.has_made(&there).then(|| UploadedObject::from(&*there));
                return self.finish_marker(file_upload, uploaded.as_ref()).await;
            }
            FolderMarker::Absent => self.put_small(&open.path, Bytes::new(), attributes).await,
            FolderMarker::Implied => self.put_unlisted_marker(&open.path, attributes).await,
        };
        let put = match put {
            Err(RequestError::Failed(error)) if error.class == ErrorClass::Precondition => {
                return Err(UploadError::Superseded);
            }
            put => put?,
        };
        let (version_id, checksum, method) = (put.version_id, put.checksum, CopyMethod::Stream);
        let written = Some(WrittenVersion { version_id, checksum, method, verified: "checksum" });
        let uploaded = UploadedObject { etag: put.etag, size: 0, has_facts: true, written };
        self.finish_marker(file_upload, Some(&uploaded)).await
    }

    /// The marker of a folder; its path ends in a slash.
    pub(super) async fn find_marker(&self, path: &str) -> Result<FolderMarker, UploadError> {
        let Some(found) = self.head(path).await? else { return Ok(FolderMarker::Absent) };
        let (bucket, key) = (&self.spec.bucket, self.key(path));
        let list = async |store: Arc<dyn ObjectStore>| is_listed(&*store, bucket, &key).await;
        let spec = seqferry_client::RequestSpec::read("ListObjectsV2", bucket);
        let is_object = self.spec.client.call(spec, &RetryContext::default(), list).await?;
        Ok(if is_object { FolderMarker::Object(Box::new(found)) } else { FolderMarker::Implied })
    }

    /// Put a marker that is implied: the service refuses it under a condition, so each attempt lists the key first.
    async fn put_unlisted_marker(&self, path: &str, attributes: Attributes) -> Result<WrittenObject, RequestError> {
        let object = PutObject { if_absent: false, ..self.small_object(path, &Bytes::new(), attributes) };
        let (bucket, key) = (&*object.bucket, &*object.key);
        let put = async |store: Arc<dyn ObjectStore>| {
            if is_listed(&*store, bucket, key).await? {
                return Err(StoreError::new("PutObject", bucket, Some(key), "PreconditionFailed", Some(412)));
            }
            store.put_object(&object, Bytes::new()).await
        };
        let spec = seqferry_client::RequestSpec::write("PutObject", bucket);
        self.spec.client.call(spec, &RetryContext::default(), put).await
    }

    /// Put a small object where there is none; else the error is of the class [`ErrorClass::Precondition`].
    pub(super) async fn put_small(
        &self,
        path: &str,
        bytes: Bytes,
        attributes: Attributes,
    ) -> Result<WrittenObject, RequestError> {
        let object = self.small_object(path, &bytes, attributes);
        self.spec.client.put_object(&object, &bytes, &RetryContext::default()).await
    }

    fn small_object(&self, path: &str, bytes: &Bytes, attributes: Attributes) -> PutObject {
        PutObject {
            bucket: self.spec.bucket.clone(),
            key: self.key(path),
            attributes,
            write: self.spec.objects.write_options(),
            digests: Digests::crc64nvme(bytes),
            if_absent: true,
            ..PutObject::default()
        }
    }
}

/// A copy, as it is recorded.
fn copied_object(source: &ObjectMeta, written: WrittenObject, method: CopyMethod) -> UploadedObject {
    let WrittenObject { etag, version_id, checksum, .. } = written;
    let is_same = checksum.is_some() && checksum == source.checksum;
    let verified = if is_same { "checksum" } else { "size" };
    let written = Some(WrittenVersion { version_id, checksum, method, verified });
    UploadedObject { etag, size: source.size, has_facts: true, written }
}

/// True when a listing has this key.
async fn is_listed(store: &dyn ObjectStore, bucket: &str, key: &str) -> Result<bool, StoreError> {
    let request =
        ListRequest { bucket: bucket.into(), prefix: key.into(), max_keys: Some(1), ..ListRequest::default() };
    Ok(store.list(&request).await?.objects.iter().any(|object| object.key == key))
}

/// The target is not what may be replaced.
fn is_conflict(failure: &ObjectFailure) -> bool {
    matches!(failure.class, FailureClass::Store(ErrorClass::Precondition | ErrorClass::NotFound))
        || failure.code == "TargetChanged"
}
