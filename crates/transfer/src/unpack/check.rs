//! Check of an archive: its headers, the index beside it, and the contents by the checksums of the index.
//!
//! The whole archive is read once, many ranges at a time. Memory is that of the ranges and of some lines of the index.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use seqferry_archive::index::{IndexMember, IndexReader, same_member};
use seqferry_archive::{ArchiveEvent, Scanner, StreamReader};
use seqferry_client::forward::ForwardReader;
use seqferry_client::{RequestError, RetryingClient};
use seqferry_store::{ChecksumAlgorithm, DigestAlgorithm, Digester, ObjectRef, PinnedObject};
use tokio::runtime::Handle;
use tokio::sync::mpsc;

use super::ArchiveRef;
use super::scan::{Chunks, Lines, Ranges, SIZES, Scan, ScanError, ScanOptions, lines_reader};
use crate::LONGEST_WAIT;
use crate::limits::CopyLimits;
use crate::stated_digest::{self, DigestComparison, LookupCost, StatedDigest, hash};

/// Reports that wait to be taken.
const MAX_REPORTS: usize = 16;
/// Bytes between two reports.
const STEP: u64 = 64 << 20;

/// Findings of a check: numbers since its start, and problems since its last report.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// Members that were read.
    pub members: u64,
    /// Bytes of the archive that were read.
    pub bytes: u64,
    /// Members whose contents were compared with the checksum in the index.
    pub compared: u64,
    /// True when the archive has an index.
    pub indexed: bool,
    /// Names of members, each with its problem.
    pub problems: Vec<(String, String)>,
}

type ReportResult = Result<CheckReport, RequestError>;

/// A check under way.
#[derive(Debug)]
pub struct ArchiveCheck {
    runtime: Handle,
    /// Receiver of the reports; None once closed.
    reports: Mutex<Option<mpsc::Receiver<ReportResult>>>,
}

impl ArchiveCheck {
    /// Begin to check an archive.
    pub fn start(runtime: &Handle, client: RetryingClient, archive: ArchiveRef, options: ScanOptions) -> Self {
        let (sender, reports) = mpsc::channel(MAX_REPORTS);
        runtime.spawn(async move {
            let scan = Scan::silent(client, archive, options);
            let check = RunningCheck { scan, reports: sender.clone() };
            // The receiver is gone: the caller does not need the result.
            if let Err(ScanError::Failed(error)) = check.run().await {
                let _receiver_gone = sender.send(Err(error)).await;
            }
        });
        Self { runtime: runtime.clone(), reports: Mutex::new(Some(reports)) }
    }

    /// The next report: an empty one when none came in time, None after the last. A minute is the longest wait.
    ///
    /// # Errors
    /// When the archive cannot be read, or is refused as a whole, or its index is damaged.
    pub fn next(&self, timeout: Duration) -> Result<Option<CheckReport>, RequestError> {
        let mut reports = self.reports.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(receiver) = reports.as_mut() else { return Ok(None) };
        let timeout = timeout.min(LONGEST_WAIT);
        match self.runtime.block_on(async { tokio::time::timeout(timeout, receiver.recv()).await }) {
            Err(_elapsed) => Ok(Some(CheckReport::default())),
            Ok(None) => Ok(None),
            Ok(Some(Ok(report))) => Ok(Some(report)),
            Ok(Some(Err(error))) => {
                *reports = None;
                Err(error)
            }
        }
    }
}

struct RunningCheck {
    scan: Scan,
    reports: mpsc::Sender<ReportResult>,
}

/// The lines of the index, one at a time.
struct IndexCursor<'a> {
    chunks: Chunks<'a>,
    reader: Option<IndexReader>,
    ready: VecDeque<IndexMember>,
}

impl IndexCursor<'_> {
    /// The next line, which stays until it is taken.
    async fn front(&mut self, scan: &Scan) -> Result<Option<&IndexMember>, ScanError> {
        while self.ready.is_empty() {
            let Some(reader) = &mut self.reader else { break };
            if let Some(chunk) = self.chunks.next().await? {
                let ready = &mut self.ready;
                reader.push(&chunk, |entry| ready.push_back(entry)).map_err(|error| scan.foreign(&error))?;
            } else if let Some(reader) = self.reader.take() {
                reader.finish().map_err(|error| scan.foreign(&error))?;
            }
        }
        Ok(self.ready.front())
    }
}

impl RunningCheck {
    async fn run(&self) -> Result<(), ScanError> {
        let scan = &self.scan;
        let (archive, stated) = scan.pin().await?;
        let mut digest = stated.digest();
        let lines = Lines::beside(scan, &archive).await?;
        let mut listed = None;
        if let Some(lines) = &lines {
            scan.belongs(lines, &archive).await?;
            let reader = Some(lines_reader(&scan.options));
            listed = Some(IndexCursor { chunks: lines.chunks(scan), reader, ready: VecDeque::new() });
        }
        let mut options = scan.options.read.clone();
        options.limits.members = scan.options.members;
        let mut stream = StreamReader::with_scanner(Scanner::new(Some(archive.size), options));
        let source = Ranges { client: scan.client.clone(), object: archive.clone(), retained: None };
        let mut bytes = ForwardReader::new(source, archive.size, SIZES);
        let mut state =
            CheckState { report: CheckReport { indexed: lines.is_some(), ..CheckReport::default() }, current: None };
        let mut reported = 0;
        while stream.position() < archive.size {
            let chunk = bytes.at(stream.position()).await?;
            let (mut input, before) = (&chunk[..], stream.position());
            while let Some(event) = stream.next(&mut input).map_err(|error| scan.bad(&error))? {
                if matches!(event, ArchiveEvent::End(_)) {
                    break;
                }
                state.event(&event, listed.as_mut(), scan).await?;
            }
            digest = hash(digest, stated_digest::first(&chunk, stream.position() - before)).await;
            if stream.position() - reported >= STEP || state.report.problems.len() >= 1000 {
                reported = stream.position();
                self.send_report(&mut state, stream.position()).await?;
            }
        }
        while let Some(event) = stream.next(&mut [].as_slice()).map_err(|error| scan.bad(&error))? {
            if matches!(event, ArchiveEvent::End(_)) {
                break;
            }
            state.event(&event, listed.as_mut(), scan).await?;
        }
        stream.finish().map_err(|error| scan.bad(&error))?;
        if let Some(listed) = &mut listed {
            while let Some(entry) = listed.front(scan).await? {
                let name = entry.member.display_name();
                state.problem(name, "the index has it, and the archive has not");
                listed.ready.pop_front();
            }
        }
        if let DigestComparison::Differs(how) = stated.compare(digest).await? {
            state.problem(archive.key, &how);
        }
        self.send_report(&mut state, archive.size).await
    }

    async fn send_report(&self, state: &mut CheckState, bytes: u64) -> Result<(), ScanError> {
        state.report.bytes = bytes;
        let report = state.report.clone();
        state.report.problems.clear();
        self.reports.send(Ok(report)).await.map_err(|_| ScanError::Closed)
    }
}

struct CheckState {
    report: CheckReport,
    /// Member under way: its name, the checksum in the index, and that of the bytes so far.
    current: Option<(String, u32, Digester)>,
}

impl CheckState {
    fn problem(&mut self, name: String, what: &str) {
        self.report.problems.push((name, what.to_owned()));
    }

    async fn event(
        &mut self,
        event: &ArchiveEvent<'_>,
        listed: Option<&mut IndexCursor<'_>>,
        scan: &Scan,
    ) -> Result<(), ScanError> {
        match event {
            ArchiveEvent::Member(member) => {
                self.report.members += 1;
                if let Some(refusal) = member.refusal {
                    self.problem(member.display_name(), &refusal.to_string());
                }
                let Some(listed) = listed else { return Ok(()) };
                while let Some(entry) = listed.front(scan).await?
                    && entry.member.header_offset < member.header_offset
                {
                    let name = entry.member.display_name();
                    self.problem(name, "the index has it, and the archive has not");
                    listed.ready.pop_front();
                }
                let entry =
                    listed.front(scan).await?.filter(|entry| entry.member.header_offset == member.header_offset);
                let Some(entry) = entry else {
                    self.problem(member.display_name(), "the archive has it, and the index has not");
                    return Ok(());
                };
                if same_member(&entry.member, member) {
                    let crc = Digester::new(DigestAlgorithm::Checksum(ChecksumAlgorithm::Crc32C));
                    self.current = entry.crc32c.map(|promised| (member.display_name(), promised, crc));
                } else {
                    self.problem(member.display_name(), "the index contradicts its headers");
                }
                listed.ready.pop_front();
            }
            ArchiveEvent::Data { bytes, .. } => {
                if let Some((_, _, crc)) = &mut self.current {
                    crc.update(bytes);
                }
            }
            ArchiveEvent::MemberEnd => {
                if let Some((name, promised, crc)) = self.current.take() {
                    self.report.compared += 1;
                    if crc.finish() != promised.to_be_bytes() {
                        self.problem(name, "its contents are not those that the index promises (CRC-32C)");
                    }
                }
            }
            ArchiveEvent::End(_) => {}
        }
        Ok(())
    }
}

/// Attributes of the archive for a check.
impl Scan {
    /// The archive as it is now, and what its storage states of it.
    async fn pin(&self) -> Result<(PinnedObject, StatedDigest), ScanError> {
        let ArchiveRef { bucket, key } = &self.archive;
        let meta = self.client.head(ObjectRef::new(bucket, key)).await?;
        let pinned = PinnedObject::of(bucket, key, &meta);
        let stated = StatedDigest::of(&self.client, &pinned, &meta, &CopyLimits::default(), LookupCost::Whole).await?;
        Ok((pinned, stated))
    }
}
