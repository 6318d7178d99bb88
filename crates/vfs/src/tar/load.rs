//! The list of members of an archive: from the disk cache, from a sidecar index that fits, or from the archive itself.

use std::sync::Arc;

use seqferry_archive::index::{
    Gap, GapCheck, GapStep, Gaps, Index, IndexBuilder, IndexHead, IndexLimits, IndexMatch, IndexMember, IndexReader,
    SUFFIX, TarIdentity, spot_checks,
};
use seqferry_archive::scan::Checkpoint;
use seqferry_archive::{ReadOptions, ScanStep, Scanner};
use seqferry_store::{ErrorClass, ObjectRef};

use super::contents::{ArchiveContents, ContentsBuilder, MemberNode, MemberNodeKind};
use super::windows::Windows;
use super::{TarFolders, index_cache};
use crate::error::{Result, VfsError};
use crate::fetch::OpenObject;
use crate::reader::ReadHandle;
use crate::version::{ObjectVersion, VersionPin};

/// Bytes of an index that are read in one step.
const STEP: usize = 2 << 20;

pub(super) async fn load(folders: &TarFolders, archive: &Arc<OpenObject>) -> Result<Arc<ArchiveContents>> {
    if let Some(contents) = from_cache(folders, &archive.version).await {
        // Another identity may have made the index.
        folders.reader.check_access(archive).await?;
        return Ok(Arc::new(contents));
    }
    if let Some(contents) = from_sidecar(folders, archive).await? {
        return Ok(Arc::new(contents));
    }
    from_archive(folders, archive).await.map(Arc::new)
}

fn identity(archive: &ObjectVersion) -> TarIdentity {
    let (etag, version_id) = match &archive.pin {
        VersionPin::Etag(etag) => (Some(etag.to_string()), None),
        VersionPin::VersionId(id) => (None, Some(id.to_string())),
    };
    TarIdentity { size: archive.size, etag, version_id, ..TarIdentity::default() }
}

fn bad(archive: &ObjectVersion, cause: &dyn std::fmt::Display) -> VfsError {
    VfsError::BadArchive(format!("s3://{}/{} cannot be used as a folder: {cause}", archive.bucket, archive.key))
}

/// An index that this program made of this very version: its places are those of the headers.
async fn from_cache(folders: &TarFolders, archive: &ObjectVersion) -> Option<ArchiveContents> {
    let cache = Arc::clone(folders.cache.as_ref()?);
    let (archive, most) = (archive.clone(), folders.options.members);
    let read = tokio::task::spawn_blocking(move || {
        let bytes = index_cache::read(&cache, &archive)?;
        let mut builder = ContentsBuilder::new(most);
        let mut reader = IndexReader::new(IndexLimits { members: most as u64, ..IndexLimits::default() });
        reader.push(&bytes, |entry| builder.add(&entry.member)).ok()?;
        let head = reader.finish().ok()?;
        let index = Index { head, members: Vec::new() };
        (index.matches(&identity(&archive)) == IndexMatch::Object).then(|| builder.finish(true))
    });
    read.await.ok()?
}

/// The index beside the archive, if one fits. A faulty index is no error: the archive itself is read.
async fn from_sidecar(folders: &TarFolders, archive: &Arc<OpenObject>) -> Result<Option<ArchiveContents>> {
    let version = &archive.version;
    let key = format!("{}{SUFFIX}", version.key);
    let meta = match folders.source.head(ObjectRef::new(&version.bucket, &key)).await {
        Ok(meta) if meta.size <= folders.options.index_size && !meta.etag.is_empty() => meta,
        Ok(_) => return Ok(None),
        // Reading it may be denied where reading the archive is not.
        Err(error) if matches!(error.class, ErrorClass::NotFound | ErrorClass::Person) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let sidecar = ObjectVersion {
        endpoint: version.endpoint.clone(),
        bucket: version.bucket.clone(),
        key: key.into(),
        pin: VersionPin::Etag(meta.etag.into()),
        size: meta.size,
    };
    let handle = folders.reader.open(sidecar);
    let most = folders.options.members;
    let mut builder = ContentsBuilder::new(most);
    let mut reader = IndexReader::new(IndexLimits { members: most as u64, ..IndexLimits::default() });
    let (mut offset, mut fit) = (0, None);
    let (mut gaps, mut windows) = (Gaps::default(), Windows::new(Arc::clone(&folders.reader), Arc::clone(archive)));
    while offset < meta.size {
        let read = match folders.reader.read(&handle, offset, STEP).await {
            Ok(read) => read.to_bytes(),
            Err(VfsError::Stale | VfsError::NotFound) => return Ok(None),
            Err(error) => return Err(error),
        };
        offset += read.len() as u64;
        let mut left = Vec::new();
        let line = |entry: IndexMember| {
            left.extend(gaps.before(&entry));
            builder.add(&entry.member);
        };
        if read.is_empty() || reader.push(&read, line).is_err() {
            return Ok(None);
        }
        // One look at the head tells whether the rest is worth reading.
        if fit.is_none()
            && let Some(head) = reader.head()
        {
            let index = Index { head: head.clone(), members: Vec::new() };
            let found = index.matches(&identity(version));
            if found == IndexMatch::Different {
                return Ok(None);
            }
            fit = Some(found);
        }
        for gap in left {
            if !is_empty(&mut windows, gap, version.size).await? {
                return Ok(None);
            }
        }
    }
    if !is_empty(&mut windows, gaps.last(), version.size).await? {
        return Ok(None);
    }
    let Some(fit) = fit.filter(|_| reader.finish().is_ok()) else { return Ok(None) };
    let contents = builder.finish(false);
    if !fit.is_certain() && !agrees(folders, archive, &contents).await? {
        return Ok(None);
    }
    Ok(Some(contents))
}

/// Returns true when no member of the archive lies in a gap between those that its index lists.
async fn is_empty(windows: &mut Windows, gap: Gap, size: u64) -> Result<bool> {
    let mut check = GapCheck::new(gap, size, &ReadOptions::default());
    loop {
        match check.step() {
            Ok(GapStep::Empty) => return Ok(true),
            Ok(GapStep::Need { offset }) => check.supply(offset, &windows.at(offset).await?),
            Err(_) => return Ok(false),
        }
    }
}

/// Returns true when samples of an index that nothing else proves agree with the archive.
async fn agrees(folders: &TarFolders, archive: &Arc<OpenObject>, contents: &ArchiveContents) -> Result<bool> {
    let node = |number: usize| contents.node(u32::try_from(number).unwrap_or(u32::MAX));
    let files = |number: &usize| node(*number).is_some_and(|node| node.kind() == MemberNodeKind::File);
    let files: Vec<usize> = (0..contents.len()).filter(files).collect();
    for sample in spot_checks(files.len(), archive.digest.short()) {
        let Some(member) = files.get(sample).and_then(|number| node(*number)) else { continue };
        match check(folders, archive, &member).await {
            Ok(()) => {}
            Err(VfsError::BadArchive(_)) => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

/// Read the headers of the archive, and keep the index.
async fn from_archive(folders: &TarFolders, archive: &Arc<OpenObject>) -> Result<ArchiveContents> {
    let version = &archive.version;
    let head = IndexHead::new(concat!("seqferry ", env!("CARGO_PKG_VERSION")), identity(version), None);
    let mut index = IndexBuilder::new(&head);
    let mut lines = Vec::new();
    let mut builder = ContentsBuilder::new(folders.options.members);
    let mut options = ReadOptions::default();
    options.limits.members = folders.options.members as u64;
    let mut scanner = Scanner::new(Some(version.size), options);
    let mut windows = Windows::new(Arc::clone(&folders.reader), Arc::clone(archive));
    loop {
        match scanner.step().map_err(|error| bad(version, &error))? {
            ScanStep::Need { offset, .. } => {
                let bytes = windows.at(offset).await?;
                if bytes.is_empty() {
                    scanner.end_of_input(offset);
                } else {
                    scanner.supply(offset, &bytes);
                }
            }
            ScanStep::Member(member) => {
                builder.add(&member);
                if lines.len() <= index_cache::LONGEST {
                    index.member(&IndexMember::from(*member));
                    lines.append(&mut index.take());
                }
            }
            ScanStep::End(_) => break,
        }
    }
    if let Some(cache) = &folders.cache {
        lines.append(&mut index.finish());
        if lines.len() <= index_cache::LONGEST {
            let (cache, archive) = (Arc::clone(cache), version.clone());
            // Not waited for: the folder can be used without it.
            tokio::task::spawn_blocking(move || index_cache::keep(&cache, &archive, &lines));
        }
    }
    Ok(builder.finish(true))
}

/// Compare a file with the headers at its place. Directories and links have no bytes that could be others'.
pub(super) async fn check(folders: &TarFolders, archive: &Arc<OpenObject>, member: &MemberNode<'_>) -> Result<()> {
    let Some(start) = member.header_offset() else { return Ok(()) };
    let version = &archive.version;
    let foreign = || {
        let name = member.name();
        bad(version, &format!("its index does not belong to it: there is no {name:?} at its offset; remove the index"))
    };
    let handle = ReadHandle::new(Arc::clone(archive));
    let options = ReadOptions { missing_end: true, ..ReadOptions::default() };
    let checkpoint = Checkpoint { offset: start, globals: Vec::new() };
    let mut scanner = Scanner::resume(Some(version.size), options, checkpoint);
    loop {
        match scanner.step().map_err(|_| foreign())? {
            ScanStep::Need { offset, len } => {
                let bytes = folders.reader.read(&handle, offset, len).await?.to_bytes();
                if scanner.supply(offset, &bytes) == 0 {
                    return Err(foreign());
                }
            }
            ScanStep::Member(found) => return if member.is(&found) { Ok(()) } else { Err(foreign()) },
            ScanStep::End(_) => return Err(foreign()),
        }
    }
}
