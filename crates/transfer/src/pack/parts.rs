//! The parts of an archive: assembled in memory from headers and members, or copied inside the storage.
//!
//! A part that passes through this process is held from its first byte read to its last one written. Its memory is
//! reserved first, for one part at a time, so that no two wait for each other. The members of a part are fetched
//! concurrently, straight into their places.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::stream::{FuturesUnordered, StreamExt as _};
use seqferry_archive::write::{ArchivePiece, PartSource};
use seqferry_client::budget::MemoryPermit;
use seqferry_client::reading::fetch_pinned;
use seqferry_client::upload::PartBody;
use seqferry_client::{RequestError, RequestSpec, RetryContext, RetryingClient, UploadSession};
use seqferry_store::checksum::base64;
use seqferry_store::error::classify::code;
use seqferry_store::{
    Cause, Checksum, ChecksumAlgorithm, ChecksumKind, CompletedPart, DigestAlgorithm, Digester, Digests, ErrorClass,
    FetchedObject, ObjectMeta, ObjectRef, PinnedObject, Range as ByteRange, StoreError,
};
use tokio::sync::{Mutex, RwLock};
use tokio::task::JoinSet;

use super::plan::{Members, Plan};
use super::recent_members::RecentMembers;
use super::split_members::{OTHER_CRCS, SplitMembers};
use crate::etags::{ObjectOrigin, StatedEtag, resolve_contradiction};
use crate::limits::CopyLimits;
use crate::object_outcome::VerificationLevel;
use crate::progress::ObjectTracker;
use crate::schedule::JobSlots;
use crate::stated_digest::{DigestComparison, LookupCost, StatedDigest};
use crate::verification::{ExpectedDigest, Verdict, format_digest, is_digest};

/// Largest number of members of one part that are fetched concurrently. The budget decides how many requests are in
/// flight.
const FETCHES: usize = 64;
/// Largest number of copies that wait for the budget: enough to use the share of the job.
const AHEAD: usize = 8;
/// Bytes that are hashed at a time: about 2 ms of a thread of the engine.
const HASHED: usize = 1 << 20;

/// CRCs over whole members, as their sources state them, by ordinal.
pub(super) type StatedCrcs = HashMap<usize, Checksum>;

/// Reason why a part could not be made.
#[derive(Debug)]
pub(super) enum PartError {
    Cancelled,
    /// A member (by its ordinal) could not be read, or has changed since it was found.
    Member(usize, StoreError),
    /// The bytes read of a member do not have the digest that the source states.
    Misread(usize, String),
    /// A member cannot be copied inside the storage.
    Copy(usize, StoreError),
    /// The copied bytes of a member do not have the CRC that the source states.
    Miscopied(usize, String),
    /// The service does not return the CRC of copied bytes.
    NoSums,
    /// The part could not be written.
    Write(StoreError),
}

impl PartError {
    pub(super) fn of(request: RequestError, failed: impl FnOnce(StoreError) -> Self) -> Self {
        match request {
            RequestError::Cancelled => Self::Cancelled,
            RequestError::Failed(error) => failed(error),
        }
    }
}

/// Range of a member that was read for one part, with its CRCs and verification level.
#[derive(Debug, Clone)]
pub(super) struct FetchedRange {
    pub(super) member: usize,
    pub(super) range: Range<u64>,
    pub(super) crc32c: String,
    /// The other CRCs of a range that is not the whole member.
    pub(super) other_crcs: Vec<(ChecksumAlgorithm, String)>,
    pub(super) verified: VerificationLevel,
}

impl FetchedRange {
    /// Returns the CRC of the range by this algorithm, where it was computed.
    pub(super) fn crc(&self, algorithm: ChecksumAlgorithm) -> Option<&str> {
        if algorithm == ChecksumAlgorithm::Crc32C {
            return Some(&self.crc32c);
        }
        self.other_crcs.iter().find(|(known, _)| *known == algorithm).map(|(_, value)| value.as_str())
    }
}

/// Bytes of a part, with their memory: it is given back when nothing holds the bytes any more.
struct HeldBytes {
    buffer: Vec<u8>,
    _memory: Option<MemoryPermit>,
}

impl AsRef<[u8]> for HeldBytes {
    fn as_ref(&self) -> &[u8] {
        &self.buffer
    }
}

/// A part that is in the upload.
#[derive(Debug)]
pub(super) struct SentPart {
    pub(super) part: CompletedPart,
    /// The upload's checksum of it, where the upload has one.
    pub(super) sum: Option<String>,
    /// MD5 of its bytes: computed, or the `ETag` that the storage states of a part that this run did not send.
    pub(super) md5: Option<Vec<u8>>,
    /// True when this run has sent its bytes.
    pub(super) is_sent: bool,
    pub(super) fetches: Vec<FetchedRange>,
}

/// Sender of the parts of one archive, with the state that all of them share.
pub(super) struct Sender {
    pub(super) source: RetryingClient,
    pub(super) source_bucket: String,
    pub(super) target: RetryingClient,
    pub(super) session: RwLock<UploadSession>,
    pub(super) members: Arc<Members>,
    /// Members that are read for several parts.
    pub(super) split: SplitMembers,
    pub(super) plan: Arc<Plan>,
    pub(super) sum: Option<ChecksumAlgorithm>,
    /// CRCs that the copied parts of members are compared with.
    pub(super) stated: StatedCrcs,
    pub(super) limits: CopyLimits,
    pub(super) active: Arc<ObjectTracker>,
    pub(super) retry_context: Arc<RetryContext>,
    pub(super) slots: JobSlots,
    /// Members that were changed a moment before they were read.
    pub(super) young: RecentMembers,
}

impl Sender {
    /// Sends every part that is not in `sent`. After a failure no part is in flight any more.
    pub(super) async fn send_missing(self: &Arc<Self>, sent: &mut BTreeMap<u32, SentPart>) -> Result<(), PartError> {
        let mut tasks = JoinSet::new();
        let outcome = self.run(&mut tasks, sent).await;
        tasks.shutdown().await;
        outcome
    }

    async fn run(
        self: &Arc<Self>,
        tasks: &mut JoinSet<Result<(u32, SentPart), PartError>>,
        sent: &mut BTreeMap<u32, SentPart>,
    ) -> Result<(), PartError> {
        let missing: Vec<u32> = (1..=self.plan.count()).filter(|number| !sent.contains_key(number)).collect();
        let assembled = |number: &u32| self.plan.part(*number).is_some_and(|part| part.source == PartSource::Assembled);
        let (assembled, copied): (Vec<u32>, Vec<u32>) = missing.into_iter().partition(assembled);
        let (mut assembled, mut copied) = (assembled.into_iter(), copied.into_iter());
        let mut turn = Some(self.slots.multipart().await.map_err(|request| PartError::of(request, PartError::Write))?);
        let mut room = FuturesUnordered::new();
        let mut reserved_copies = FuturesUnordered::new();
        loop {
            if room.is_empty() {
                match assembled.next() {
                    Some(number) => room.push(self.reserve(number)),
                    // The last parts are under way: another object's may follow them.
                    None => drop(turn.take()),
                }
            }
            while reserved_copies.len() < AHEAD
                && let Some(number) = copied.next()
            {
                reserved_copies.push(self.reserve_copy(number));
            }
            tokio::select! {
                Some(reserved) = room.next() => {
                    let (number, memory) = reserved?;
                    let sender = Arc::clone(self);
                    tasks.spawn(async move { Ok((number, sender.assemble(number, memory).await?)) });
                }
                Some(reserved) = reserved_copies.next() => {
                    let (member, reserved) = reserved?;
                    let sender = Arc::clone(self);
                    tasks.spawn(async move { Ok((reserved.number, sender.copy(member, reserved).await?)) });
                }
                Some(part) = tasks.join_next() => {
                    // A task ends early only when it is torn down with the runtime.
                    let (number, part) = part.unwrap_or(Err(PartError::Cancelled))?;
                    sent.insert(number, part);
                }
                else => return Ok(()),
            }
        }
    }

    async fn reserve(&self, number: u32) -> Result<(u32, Option<MemoryPermit>), PartError> {
        let len = self.plan.part(number).map_or(0, |part| part.range.end - part.range.start);
        let memory = self.source.reserve_passing(len, len).await;
        Ok((number, memory.map_err(|request| PartError::of(request, PartError::Write))?))
    }

    /// Assembles a part and sends it.
    async fn assemble(&self, number: u32, memory: Option<MemoryPermit>) -> Result<SentPart, PartError> {
        let Some(part) = self.plan.part(number) else { return Err(PartError::Cancelled) };
        let mut buffer = vec![0; usize::try_from(part.range.end - part.range.start).unwrap_or(usize::MAX)];
        let fetches = self.fill(&part.range, &mut buffer).await?;
        let bytes = Bytes::from_owner(HeldBytes { buffer, _memory: memory });
        let in_order = self.feed_split_members(&part.range, &bytes);
        let sent = self.send(number, &part.range, bytes.clone(), fetches);
        let (sent, ()) = futures::future::try_join(sent, in_order).await?;
        Ok(sent)
    }

    /// Writes a range of the archive into a buffer of zeros.
    async fn fill(&self, range: &Range<u64>, buffer: &mut [u8]) -> Result<Vec<FetchedRange>, PartError> {
        let mut wanted = Vec::new();
        let mut rest = buffer;
        for piece in self.plan.layout().pieces(range.clone()) {
            let (place, after) = rest.split_at_mut(usize::try_from(piece.size()).unwrap_or(usize::MAX));
            rest = after;
            match piece {
                ArchivePiece::Header(bytes) => place.copy_from_slice(&bytes),
                ArchivePiece::Zeros(_) => {}
                ArchivePiece::Contents { member, range } => wanted.push((member, range, place)),
            }
        }
        let (mut wanted, mut under_way) = (wanted.into_iter(), FuturesUnordered::new());
        let mut fetches = Vec::new();
        loop {
            while under_way.len() < FETCHES
                && let Some((member, range, place)) = wanted.next()
            {
                under_way.push(self.fetch(member, range, place));
            }
            match under_way.next().await {
                Some(fetch) => fetches.push(fetch?),
                None => return Ok(fetches),
            }
        }
    }

    /// Reads a range of a member into its place.
    async fn fetch(&self, member: usize, range: Range<u64>, place: &mut [u8]) -> Result<FetchedRange, PartError> {
        let object = self.members.pin(&self.source_bucket, member);
        let len = range.end - range.start;
        // Services state the checksum of an object only with all of its bytes.
        let partly = (len < object.size).then(|| ByteRange { first: range.start, last: range.end - 1 });
        let spec = RequestSpec::read("GetObject", &self.source_bucket).bytes(len);
        // A hedged read waits until the first has abandoned its place.
        let place = Mutex::new(place);
        let read = self
            .source
            .call(spec, &self.retry_context, async |store| {
                let opening = self.young.opening();
                let fetched = fetch_pinned(&*store, &object, partly).await?;
                self.young.note(member, fetched.meta.last_modified, opening);
                let meta = fetched.meta.clone();
                let mut place = place.lock().await;
                Ok((self.read(&object, fetched, partly.is_none(), &mut place).await?, meta))
            })
            .await;
        let of_member = |request| PartError::of(request, |error| PartError::Member(member, error));
        let ((crc32c, other_crcs, mut verdict), meta) = read.map_err(of_member)?;
        if verdict == Verdict::Unknown && partly.is_none() {
            verdict = self.over_parts(&object, &meta, place.into_inner()).await.map_err(of_member)?;
        }
        let stated = StatedEtag {
            client: &self.source,
            object: ObjectRef::new(&self.source_bucket, &object.key).at_version(object.version_id.as_deref()),
            etag: object.if_match.as_deref().unwrap_or_default(),
            size: object.size,
            origin: ObjectOrigin::Found,
            is_exact: false,
        };
        let verified = match resolve_contradiction(verdict, &[stated], &self.retry_context).await.map_err(of_member)? {
            Verdict::Differs(how) => return Err(PartError::Misread(member, how)),
            Verdict::Verified(verified) => verified,
            Verdict::Doubtful(_) | Verdict::Unknown => VerificationLevel::Size,
        };
        Ok(FetchedRange { member, range, crc32c, other_crcs, verified })
    }

    /// Verdict on the bytes of a whole member by a digest over parts: an `ETag`, or a composite checksum.
    async fn over_parts(
        &self,
        object: &PinnedObject,
        meta: &ObjectMeta,
        bytes: &[u8],
    ) -> Result<Verdict, RequestError> {
        let stated = StatedDigest::of(&self.source, object, meta, &self.limits, LookupCost::Whole).await?;
        let Some(mut digest) = stated.digest() else { return Ok(Verdict::Unknown) };
        for chunk in bytes.chunks(HASHED) {
            digest.update(chunk);
            tokio::task::yield_now().await;
        }
        Ok(match stated.compare(Some(digest)).await? {
            DigestComparison::Equal(level) => Verdict::Verified(level),
            DigestComparison::Differs(how) => Verdict::Differs(how),
            DigestComparison::Nothing => Verdict::Unknown,
        })
    }

    /// Reads the bytes of a reply into their place. Returns their CRC-32C, the other CRCs of a part of a member, and
    /// the verification by the digest that the source states.
    async fn read(
        &self,
        object: &PinnedObject,
        mut fetched: FetchedObject,
        whole: bool,
        place: &mut [u8],
    ) -> Result<(String, Vec<(ChecksumAlgorithm, String)>, Verdict), StoreError> {
        let expected = whole.then(|| ExpectedDigest::of(&fetched.meta, None, &self.limits)).flatten();
        let mut crc32c = Digester::new(DigestAlgorithm::Checksum(ChecksumAlgorithm::Crc32C));
        let joins = !whole && self.source.capabilities().digests;
        let mut others: Vec<(ChecksumAlgorithm, Digester)> = OTHER_CRCS
            .into_iter()
            .filter(|_| joins)
            .map(|algorithm| (algorithm, Digester::new(DigestAlgorithm::Checksum(algorithm))))
            .collect();
        let mut digester = expected.as_ref().map(|expected| Digester::new(expected.algorithm));
        let mut at = 0;
        while let Some(chunk) = fetched.body.next().await {
            let chunk = chunk?;
            let Some(into) = place.get_mut(at..at + chunk.len()) else {
                return Err(body_error(object, code::TRUNCATED, "more bytes came than were requested"));
            };
            into.copy_from_slice(&chunk);
            crc32c.update(&chunk);
            for (_, digester) in &mut others {
                digester.update(&chunk);
            }
            if let Some(digester) = &mut digester {
                digester.update(&chunk);
            }
            at += chunk.len();
        }
        if at < place.len() {
            return Err(body_error(object, code::TRUNCATED, "the body ended early"));
        }
        let verdict = match (expected, digester) {
            (Some(expected), Some(digester)) => {
                expected.verdict(&format_digest(expected.algorithm, &digester.finish()))
            }
            // Bytes read from a disk count as what it holds.
            _ if !self.source.capabilities().digests => Verdict::Verified(VerificationLevel::Checksum),
            _ => Verdict::Unknown,
        };
        let others = others.into_iter().map(|(algorithm, digester)| (algorithm, base64(&digester.finish()))).collect();
        Ok((base64(&crc32c.finish()), others, verdict))
    }

    /// Sends an assembled part.
    async fn send(
        &self,
        number: u32,
        range: &Range<u64>,
        bytes: Bytes,
        fetches: Vec<FetchedRange>,
    ) -> Result<SentPart, PartError> {
        let sum =
            self.sum.map(|algorithm| (algorithm, base64(&Digester::of(DigestAlgorithm::Checksum(algorithm), &bytes))));
        let keeps_digests = self.target.capabilities().digests;
        let md5 = (keeps_digests && (sum.is_none() || self.target.quirks().silent_sums()))
            .then(|| Digester::of(DigestAlgorithm::Md5, &bytes));
        let digests = Digests { checksum: sum.clone(), md5: md5.as_deref().map(base64) };
        let body = PartBody { bytes: bytes.clone(), digests, memory: None };
        let sent = self.session.read().await.put_part(number, body).await;
        let copied = sent.map_err(|request| PartError::of(request, PartError::Write))?;
        let sum = sum.map(|(_, value)| value);
        if let (Some(ours), Some(theirs)) = (&sum, &copied.checksum)
            && ours != theirs
        {
            let message = format!("part {number} was sent with checksum {ours}, and the service holds {theirs}");
            let session = self.session.read().await;
            let request = session.request();
            let error = StoreError::new("UploadPart", &request.bucket, Some(&request.key), "ContentMismatch", None);
            return Err(PartError::Write(error.with_message(message)));
        }
        self.active.add(self.plan.contents(range));
        if keeps_digests && sum.is_some() && copied.checksum.is_none() {
            self.target.quirks().learn_silent_sums();
        }
        // The answer alone shows that the service ignores the checksum, and the bytes are still here.
        let unproven = keeps_digests && copied.checksum.is_none();
        let md5 = md5.or_else(|| unproven.then(|| Digester::of(DigestAlgorithm::Md5, &bytes)));
        let md5 = md5.filter(|_| !copied.opaque_etag && is_digest(&copied.etag));
        let checksum = copied.checksum.or_else(|| sum.clone());
        let part = CompletedPart { number, etag: copied.etag, checksum };
        Ok(SentPart { part, sum, md5, is_sent: true, fetches })
    }
}

fn body_error(object: &PinnedObject, code: &str, message: &str) -> StoreError {
    StoreError::new("GetObject", &object.bucket, Some(&object.key), code, Some(200)).with_message(message)
}

/// True when the error says that a member is gone, or has changed since the archive was planned.
pub(super) fn is_change(error: &StoreError) -> bool {
    error.class == ErrorClass::Precondition || error.cause() == Cause::SourceGone
}

/// A member of which the bytes in the archive are known.
#[derive(Debug, Clone)]
pub(super) struct PackedMember {
    /// CRC over the whole member.
    pub(super) crc: Checksum,
    /// Verification level of its bytes.
    pub(super) verified: VerificationLevel,
}

/// Checksums and verification levels of the members that were read or copied.
pub(super) struct PackedContents {
    /// By ordinal. None where this run has neither read nor verified all bytes.
    pub(super) of: Vec<Option<PackedMember>>,
}

impl PackedContents {
    /// Returns the contents of the parts that this run has sent, and the members with these CRCs that it has copied.
    /// Those that an earlier run has read are unknown.
    pub(super) fn of(members: &Members, sent: &BTreeMap<u32, SentPart>, copied: StatedCrcs) -> Self {
        let crc32c = |value| Checksum { algorithm: ChecksumAlgorithm::Crc32C, value, kind: ChecksumKind::FullObject };
        let mut of = vec![None; members.items().len()];
        let mut pieces: HashMap<usize, Vec<&FetchedRange>> = HashMap::new();
        for fetch in sent.values().flat_map(|part| &part.fetches) {
            if fetch.range == (0..members.items()[fetch.member].size) {
                let (crc, verified) = (crc32c(fetch.crc32c.clone()), fetch.verified);
                of[fetch.member] = Some(PackedMember { crc, verified });
            } else {
                pieces.entry(fetch.member).or_default().push(fetch);
            }
        }
        for (member, mut pieces) in pieces {
            pieces.sort_by_key(|piece| piece.range.start);
            let read: u64 = pieces.iter().map(|piece| piece.range.end - piece.range.start).sum();
            let levels = pieces.iter().map(|piece| piece.verified);
            let verified = levels.reduce(VerificationLevel::weaker).unwrap_or(VerificationLevel::Size);
            let values = pieces.iter().map(|piece| (piece.crc32c.as_str(), piece.range.end - piece.range.start));
            if read == members.items()[member].size
                && let Some(joined) = ChecksumAlgorithm::Crc32C.combine(values)
            {
                of[member] = Some(PackedMember { crc: crc32c(joined), verified });
            }
        }
        for (member, crc) in copied {
            of[member] = Some(PackedMember { crc, verified: VerificationLevel::Checksum });
        }
        Self { of }
    }
}
