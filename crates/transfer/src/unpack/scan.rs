//! The members of an archive: by the index beside it where there is one, else by its headers.
//!
//! All names are known before the first member is handed out, so that an archive that is refused as a whole leaves
//! nothing behind, and links and repeated names are judged by the whole tree. Memory grows with the number of members
//! (about 150 bytes each, and 200 more where there is no index), up to [`ScanOptions::members`].
//!
//! Invariants: an index is used only for the archive that it names, after headers at some of its places were parsed and
//! are those of its members; the bytes between the members that it lists hold no member; a member is left out only
//! after its headers have shown that it is what the index says.

mod admission;
mod format;
mod headers;
mod lines;
mod whole;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use seqferry_archive::index::{Gaps, IndexMatch};
use seqferry_archive::scan::ZEROS_AFTER_END;
use seqferry_archive::tree::{DuplicatePolicy, LinkPolicy};
use seqferry_archive::{ArchiveError, ArchiveFault, ReadOptions};
use seqferry_client::{RequestError, RetryContext, RetryingClient};
use seqferry_store::{Advice, ErrorClass, ObjectMeta, ObjectRef, PinnedObject, StoreError};
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use super::ArchiveRef;

use super::member_location::Format;
use super::retained::{RetainedBytes, WindowPool};
use super::zip::{self, ZipError};
use crate::LONGEST_WAIT;
use crate::limits::CopyLimits;
use crate::pack::sidecar;
use crate::stated_digest::{DigestComparison, LookupCost, StatedDigest};
use crate::verification::SegmentedDigest;
use admission::MemberAdmission;
use format::{is_named_compressed, is_named_volume};
use lines::identity;

pub use admission::FoundMember;
pub(super) use lines::{Chunks, Lines, Ranges, SIZES, reader as lines_reader};

/// Members of a page.
const PAGE: usize = 1000;
/// Pages that wait to be taken.
const PAGES: usize = 4;

/// Use of the index beside the archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IndexUse {
    /// The index is used where there is one. One that belongs to another archive ends the scan.
    #[default]
    Auto,
    /// Never: the headers are read.
    Never,
}

/// Rules and bounds of a scan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScanOptions {
    /// Use of the index.
    pub index: IndexUse,
    /// Options of the header reader: deviations that it tolerates, and its limits.
    pub read: ReadOptions,
    /// Symbolic links.
    pub links: LinkPolicy,
    /// Repeated paths.
    pub duplicates: DuplicatePolicy,
    /// Most members.
    pub members: u64,
    /// Most bytes of holes of a sparse file: they are written out as zeros.
    pub holes: u64,
    /// True when each member must be verified: where it has no checksum, the whole archive is read first and compared
    /// with the digest that its storage states.
    pub proven: bool,
}

impl Default for ScanOptions {
    fn default() -> Self {
        Self {
            index: IndexUse::default(),
            read: ReadOptions::default(),
            links: LinkPolicy::default(),
            duplicates: DuplicatePolicy::default(),
            members: 10_000_000,
            holes: 64 << 30,
            proven: false,
        }
    }
}

type Page = Result<Vec<FoundMember>, RequestError>;

/// A scan under way.
#[derive(Debug)]
pub struct ArchiveScan {
    runtime: Handle,
    /// Receiver of the pages; None once closed.
    pages: Mutex<Option<mpsc::Receiver<Page>>>,
}

impl ArchiveScan {
    /// Begin to read the members of an archive. With a pool, the bytes read are kept in it for a job over the members.
    pub fn start(
        runtime: &Handle,
        client: RetryingClient,
        archive: ArchiveRef,
        options: ScanOptions,
        pool: Option<Arc<WindowPool>>,
    ) -> Self {
        let (sender, pages) = mpsc::channel(PAGES);
        runtime.spawn(async move {
            let scan = Scan { client, archive, options, pool, pages: sender.clone() };
            // The receiver is gone: the caller does not need the result.
            if let Err(ScanError::Failed(error)) = scan.run().await {
                let _receiver_gone = sender.send(Err(error)).await;
            }
        });
        Self { runtime: runtime.clone(), pages: Mutex::new(Some(pages)) }
    }

    /// The next page: empty when none came in time, None after the last. A minute is the longest wait.
    ///
    /// # Errors
    /// When the archive cannot be read, or is refused as a whole, which also closes the scan.
    pub fn next(&self, timeout: Duration) -> Result<Option<Vec<FoundMember>>, RequestError> {
        let mut pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(receiver) = pages.as_mut() else { return Ok(None) };
        let timeout = timeout.min(LONGEST_WAIT);
        let page = self.runtime.block_on(async { tokio::time::timeout(timeout, receiver.recv()).await });
        match page {
            Err(_elapsed) => Ok(Some(Vec::new())),
            Ok(None) => Ok(None),
            Ok(Some(Ok(members))) => Ok(Some(members)),
            Ok(Some(Err(error))) => {
                *pages = None;
                Err(error)
            }
        }
    }

    /// Stop the scan.
    pub fn close(&self) {
        *self.pages.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// Reason why a scan ended early.
pub(super) enum ScanError {
    Failed(RequestError),
    /// Its pages are no longer taken.
    Closed,
}

impl From<RequestError> for ScanError {
    fn from(error: RequestError) -> Self {
        Self::Failed(error)
    }
}

impl From<StoreError> for ScanError {
    fn from(error: StoreError) -> Self {
        Self::Failed(error.into())
    }
}

pub(super) struct Scan {
    pub(super) client: RetryingClient,
    pub(super) archive: ArchiveRef,
    pub(super) options: ScanOptions,
    pool: Option<Arc<WindowPool>>,
    pages: mpsc::Sender<Page>,
}

impl Scan {
    async fn run(&self) -> Result<(), ScanError> {
        let ArchiveRef { bucket, key } = &self.archive;
        let meta = self.client.head(ObjectRef::new(bucket, key)).await?;
        let pinned = PinnedObject::of(bucket, key, &meta);
        if pinned.size == 0 && is_named_compressed(key) {
            return Err(self.without_bytes().into());
        }
        let named = self.format_by_name(&pinned);
        let format = match named {
            Some(format) => format,
            None => self.format(&pinned).await?,
        };
        let read = self.members(&pinned, format, &meta).await;
        let read = match read {
            // An object that is named a tar may have another supported format.
            Err(error) if named.is_some() && is_other_format(&error) => match self.format(&pinned).await? {
                Format::Plain => Err(error),
                format => self.members(&pinned, format, &meta).await,
            },
            read => read,
        };
        match read {
            Err(ScanError::Failed(RequestError::Failed(error))) if is_broken(&error) && is_named_volume(key) => {
                Err(self.volume().into())
            }
            read => read,
        }
    }

    /// Hand out the members of an archive of this format.
    async fn members(&self, pinned: &PinnedObject, format: Format, meta: &ObjectMeta) -> Result<(), ScanError> {
        let (mut admission, etag) = (MemberAdmission::new(&self.options), &meta.etag);
        if format.is_zip() {
            return self.zip(pinned.clone(), admission, etag).await;
        }
        admission.format = format;
        let lines = match self.index(pinned, &mut admission).await? {
            Some(lines) if !self.options.proven || admission.has_all_sums() => lines,
            // Boxed, as what it awaits: several kilobytes each.
            found => Box::pin(self.read_lines(pinned, meta, found, &mut admission)).await?,
        };
        admission.close();
        let mut page = Vec::with_capacity(PAGE);
        let mut ordinal = 0;
        let mut chunks = lines.chunks(self);
        let mut reader = lines::reader(&self.options);
        while let Some(chunk) = chunks.next().await? {
            let mut full = Vec::new();
            let read = reader.push(&chunk, |entry| {
                page.extend(admission.admit_listed(ordinal, &entry, etag));
                ordinal += 1;
                if page.len() >= PAGE {
                    full.push(std::mem::replace(&mut page, Vec::with_capacity(PAGE)));
                }
            });
            read.map_err(|error| self.refusal(FOREIGN, &error))?;
            for page in full {
                self.send_page(page).await?;
            }
        }
        self.send_page(page).await
    }

    /// The members of an archive without an index, or with one (`found`) that lacks checksums which are wanted.
    async fn read_lines(
        &self,
        archive: &PinnedObject,
        meta: &ObjectMeta,
        found: Option<Lines>,
        admission: &mut MemberAdmission,
    ) -> Result<Lines, ScanError> {
        let format = admission.format;
        let cost = if self.options.proven || format.is_stream() { LookupCost::Whole } else { LookupCost::Cheap };
        let stated = StatedDigest::of(&self.client, archive, meta, &CopyLimits::default(), cost).await?;
        match (found, stated.digest().filter(|_| self.options.proven && !format.is_stream())) {
            (_, Some(digest)) => {
                *admission = MemberAdmission::new(&self.options);
                Box::pin(Lines::of_whole(self, archive, (&stated, digest), admission)).await
            }
            (Some(lines), None) => Ok(lines),
            (None, None) if format.is_stream() => {
                Box::pin(Lines::of_stream(self, archive, format, &stated, admission)).await
            }
            (None, None) => Box::pin(Lines::of_headers(self, archive, &stated, admission)).await,
        }
    }

    /// True when the bytes of an archive are those that its storage states; false where it states nothing of them.
    ///
    /// # Errors
    /// When the statement contradicts the bytes: the archive is refused as a whole.
    async fn is_proven(&self, stated: &StatedDigest, read: Option<SegmentedDigest>) -> Result<bool, RequestError> {
        match stated.compare(read).await? {
            DigestComparison::Equal(_) => Ok(true),
            DigestComparison::Nothing => Ok(false),
            DigestComparison::Differs(how) => {
                let message = format!("{how}. Nothing of it is unpacked. {}", Advice::RepeatOrAskAboutArchive);
                Err(self.error("ContentMismatch", message).into())
            }
        }
    }

    /// The members of a zip.
    async fn zip(&self, archive: PinnedObject, mut admission: MemberAdmission, etag: &str) -> Result<(), ScanError> {
        let members = match zip::list(self.client.clone(), archive, self.options.members).await {
            Ok(members) => members,
            Err(ZipError::Request(error)) => return Err(error.into()),
            Err(ZipError::Split) => return Err(self.volume().into()),
            Err(ZipError::Bad(cause)) => {
                let message = format!("the zip is damaged: {cause}. Nothing of it is unpacked");
                return Err(self.error("InvalidArchive", message).into());
            }
        };
        for found in &members {
            admission.admit(&found.member);
        }
        admission.close();
        let mut page = Vec::with_capacity(PAGE);
        for (ordinal, found) in members.iter().enumerate() {
            page.extend(admission.decide(ordinal as u64, &found.member, found.location, etag));
            if page.len() >= PAGE {
                self.send_page(std::mem::replace(&mut page, Vec::with_capacity(PAGE))).await?;
            }
        }
        self.send_page(page).await
    }

    /// A scan without a receiver.
    pub(super) fn silent(client: RetryingClient, archive: ArchiveRef, options: ScanOptions) -> Self {
        let (pages, _receiver) = mpsc::channel(1);
        Self { client, archive, options, pool: None, pages }
    }

    /// Begin to keep bytes of the archive in the pool, for unpacking. None without a pool.
    fn retained(&self, archive: &PinnedObject, format: Format) -> Option<Arc<RetainedBytes>> {
        let source = self.client.connection().clone();
        self.pool.as_ref().map(|pool| RetainedBytes::of(pool, source, archive, format))
    }

    /// See that an index belongs to the archive.
    pub(super) async fn belongs(&self, index: &Lines, archive: &PinnedObject) -> Result<(), ScanError> {
        let mut reader = lines_reader(&self.options);
        let mut chunks = index.chunks(self);
        while reader.head().is_none() {
            let Some(chunk) = chunks.next().await? else { break };
            reader.push(&chunk, |_| ()).map_err(|error| self.foreign(&error))?;
        }
        match reader.head() {
            Some(head) if lines::belongs(head, &identity(archive)) != IndexMatch::Different => Ok(()),
            _ => Err(self.other_archive().into()),
        }
    }

    /// An index that is damaged.
    pub(super) fn foreign(&self, cause: &dyn std::fmt::Display) -> StoreError {
        self.refusal(FOREIGN, cause)
    }

    async fn send_page(&self, page: Vec<FoundMember>) -> Result<(), ScanError> {
        self.pages.send(Ok(page)).await.map_err(|_| ScanError::Closed)
    }

    /// The index beside the archive, if there is one and it is wanted, with all its members admitted or refused.
    async fn index(&self, archive: &PinnedObject, admission: &mut MemberAdmission) -> Result<Option<Lines>, ScanError> {
        if self.options.index == IndexUse::Never || admission.format != Format::Plain {
            return Ok(None);
        }
        let Some(index) = Lines::beside(self, archive).await? else { return Ok(None) };
        let live = identity(archive);
        let mut reader = lines::reader(&self.options);
        let mut chunks = index.chunks(self);
        let (mut known, mut samples) = (false, lines::Samples::default());
        let (mut gaps, mut proof) = (Gaps::default(), lines::ClaimCheck::new(self, archive));
        while let Some(chunk) = chunks.next().await? {
            let mut doubts = Vec::new();
            let read = reader.push(&chunk, |entry| {
                doubts.extend(gaps.before(&entry).map(lines::UnprovenClaim::Gap));
                samples.offer(&entry);
                admission.admit(&entry.member);
                admission.lacks_sums |= lines::lacks_sum(&entry);
                if lines::is_left_out(&entry) {
                    doubts.push(lines::UnprovenClaim::Member(Box::new(entry)));
                }
            });
            read.map_err(|error| self.refusal(FOREIGN, &error))?;
            if let Some(head) = reader.head().filter(|_| !known) {
                known = true;
                if lines::belongs(head, &live) == IndexMatch::Different {
                    return Err(self.other_archive().into());
                }
            }
            for claim in doubts {
                proof.check_claim(claim).await?;
            }
        }
        reader.finish().map_err(|error| self.refusal(FOREIGN, &error))?;
        proof.check_claim(lines::UnprovenClaim::Gap(gaps.last())).await?;
        for entry in samples.take() {
            lines::check(self, archive, &entry).await?;
        }
        Ok(Some(index))
    }

    /// The archive is one volume of a split zip.
    fn volume(&self) -> StoreError {
        let message = "it is one volume of a split (multi-disk) zip, and members may lie in several. Nothing of it is \
                       unpacked";
        self.error("SplitArchive", message.to_owned())
    }

    /// The object has the name of a compressed archive, and no bytes.
    fn without_bytes(&self) -> StoreError {
        let message = "it has 0 bytes, and a compressed archive has at least 18: its writer has written nothing, or was \
                       cut off. Nothing is unpacked";
        self.error("EmptyArchive", message.to_owned())
    }

    fn error(&self, code: &str, message: String) -> StoreError {
        let ArchiveRef { bucket, key } = &self.archive;
        let mut error = StoreError::new("GetObject", bucket, Some(key), code, None).with_message(message);
        error.class = ErrorClass::Object;
        error
    }

    fn other_archive(&self) -> StoreError {
        self.error(FOREIGN, "its index belongs to another archive or another version of it".to_owned())
    }

    fn refusal(&self, code: &str, cause: &dyn std::fmt::Display) -> StoreError {
        self.error(code, cause.to_string())
    }

    /// The archive is refused as a whole.
    pub(super) fn bad(&self, error: &ArchiveError) -> StoreError {
        let code = match error.fault {
            ArchiveFault::Truncated { .. } | ArchiveFault::MissingEnd => TRUNCATED,
            ArchiveFault::NotTar(_) => NOT_AN_ARCHIVE,
            ArchiveFault::Limit(..) => "ArchiveTooLarge",
            _ => "InvalidArchive",
        };
        let advice = match error.fault {
            ArchiveFault::MissingEnd => format!(". {}", Advice::TolerateMissingEnd),
            ArchiveFault::SizeConflict { .. } => format!(". {}", Advice::TolerateTwoSizes),
            ArchiveFault::DataAfterEnd { archive: true } => {
                format!(". {}, as tar does", Advice::TolerateConcatenated)
            }
            ArchiveFault::DataAfterEnd { archive: false }
            | ArchiveFault::LoneZeroBlock
            | ArchiveFault::Limit(ZEROS_AFTER_END, _) => {
                format!(". {}, as tar does", Advice::TolerateTrailingBytes)
            }
            _ => String::new(),
        };
        self.error(code, format!("{error}. Nothing of it is unpacked{advice}"))
    }
}

/// Read the headers of an archive and write the index beside it. Returns the number of its members.
///
/// The archive is pinned: an index is never written for a version that was replaced meanwhile.
///
/// # Errors
/// When the archive cannot be read or is refused as a whole, or the index cannot be written. An earlier index stays
/// then.
pub async fn index_archive(client: RetryingClient, archive: ArchiveRef) -> Result<u64, RequestError> {
    let (pages, _receiver) = mpsc::channel(1);
    let scan = Scan { client, archive, options: ScanOptions::default(), pool: None, pages };
    let ArchiveRef { bucket, key } = &scan.archive;
    let meta = scan.client.head(ObjectRef::new(bucket, key)).await?;
    let pinned = PinnedObject::of(bucket, key, &meta);
    let mut admission = MemberAdmission::new(&scan.options);
    let stated = StatedDigest::of(&scan.client, &pinned, &meta, &CopyLimits::default(), LookupCost::Cheap).await?;
    let lines = match Box::pin(Lines::of_headers(&scan, &pinned, &stated, &mut admission)).await {
        Ok(Lines::Made(lines)) => lines,
        Ok(Lines::Beside(_)) | Err(ScanError::Closed) => return Err(RequestError::Cancelled),
        Err(ScanError::Failed(error)) => return Err(error),
    };
    // Besides the members there are the head, the tail, and nothing behind the last end of a line.
    let members = lines.split(|byte| *byte == b'\n').count().saturating_sub(3) as u64;
    sidecar::put(&scan.client, &RetryContext::default(), bucket, &sidecar::key(key), lines).await?;
    Ok(members)
}

/// True when an archive was refused in a way in which others than tars are.
fn is_other_format(error: &ScanError) -> bool {
    let ScanError::Failed(RequestError::Failed(error)) = error else { return false };
    matches!(error.code.as_str(), NOT_AN_ARCHIVE | TRUNCATED)
}

/// True when an archive was refused for what its bytes are.
fn is_broken(error: &StoreError) -> bool {
    matches!(error.code.as_str(), NOT_AN_ARCHIVE | TRUNCATED | "InvalidArchive")
}

const FOREIGN: &str = super::members::FOREIGN;
const NOT_AN_ARCHIVE: &str = "NotAnArchive";
const TRUNCATED: &str = "TruncatedArchive";
