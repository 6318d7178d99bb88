//! Faults and limits of a service, learned from its answers and remembered while the process uses it.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use seqferry_store::{BucketEncryption, ChecksumAlgorithm, ObjectMeta, ObjectRef, ObjectStore, PinnedObject};
use tokio::sync::{Mutex, MutexGuard, OnceCell};

/// Most buckets that one table of quirks remembers. A full table is emptied, and its entries are learned again.
const UNCOPYABLE: usize = 1000;

/// Most objects without encryption that are remembered. A copy follows its HEAD closely, so a few are enough.
const PLAIN_OBJECTS: usize = 64;

/// Age up to which a HEAD counts as the one that a transfer begins with: a command submits what it has looked up.
const LAST_HEAD: Duration = Duration::from_secs(5);

/// Most probes of the nature of `ETag`s: where this many show nothing, no further one will.
const ETAG_PROBES: u8 = 16;

/// Checksums that may be sent with bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChecksumSupport {
    /// Any, as far as is known.
    Any,
    /// No newer one than CRC32C.
    Crc32C,
    /// No checksum at all: MD5 instead.
    Md5,
}

/// Requests that make an object and may have a condition. Services ignore conditions request by request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConditionalRequest {
    /// `PutObject`.
    Put,
    /// `CopyObject`.
    Copy,
    /// `CompleteMultipartUpload`.
    Complete,
}

impl ConditionalRequest {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Put, Self::Copy, Self::Complete];

    fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// Faults and limits of one service, learned while working. Each has a workaround.
#[derive(Debug, Default)]
pub struct Quirks {
    /// Part copies into an upload with a checksum end in an object with a wrong checksum, or in no object. The service
    /// answers with the checksum of the whole source (versitygw 1.8, where source and upload have the same algorithm),
    /// refuses copies because they bring no checksum (MinIO), or wants checksums in Complete that it never returned.
    /// Workaround: an upload without a checksum.
    useless_part_checksums: AtomicBool,
    /// An upload with a checksum took a part copy: part copies need not wait for each other to find that out.
    part_checksums_tried: AtomicBool,
    /// An upload with a checksum took a part copy from a source with the same algorithm.
    own_part_checksums_tried: AtomicBool,
    /// Lock of the one part copy that probes checksums.
    trial: Mutex<()>,
    /// Checksums in the answers to part copies, as a number: 0 not known, 1 those of the copied bytes, 2 others or
    /// none. Workaround where they are needed: the bytes pass through this process.
    copied_sums: AtomicU8,
    /// The same part of the same bytes got two `ETag`s. Workaround: part copies are not hedged.
    changing_part_etags: AtomicBool,
    /// A copy of a whole object got another `ETag` than its source, where the service was taken for one that keeps it.
    /// Workaround: copies in parts.
    changed_copied_etags: AtomicBool,
    /// Nature of plain `ETag`s, as a number: 0 not known, 1 digests of the bytes, 2 no digests (see
    /// [`Quirks::etags_are_digests`]).
    etags: AtomicU8,
    /// Probes of `ETag`s so far.
    etag_probes: AtomicU8,
    /// Lock of the one probe of `ETag`s.
    etag_probe: Mutex<()>,
    /// Ranged reads are answered with other bytes than the range, by the service or by a proxy before it. Workaround:
    /// one read of the whole object, in order.
    ignored_ranges: AtomicBool,
    /// A ranged read was answered with exactly its range.
    ranges_tried: AtomicBool,
    /// Lock of the one read that probes ranges.
    range_trial: Mutex<()>,
    /// Writes that name a checksum are refused (see [`ChecksumSupport`], as a number). Workaround: an older checksum,
    /// or MD5.
    refused_sums: AtomicU8,
    /// The service ignores the checksum that comes with a part: its answer has none. Workaround: MD5 as well.
    silent_sums: AtomicBool,
    /// Writes with `If-None-Match: *` are refused for that condition. Workaround: a HEAD of the target before them.
    refused_conditions: AtomicBool,
    /// Writes with `If-None-Match: *` are refused under keys whose latest version is a delete marker (versitygw 1.8).
    /// Workaround: a listing of the key's versions after the refusal, then a write without the condition.
    counted_delete_markers: AtomicBool,
    /// Writes with `If-Match` are refused for that condition. Workaround: a HEAD of the target before them.
    refused_matches: AtomicBool,
    /// Requests, by their bits, whose conditions a probe has shown to be kept.
    kept_conditions: AtomicU8,
    /// Removals with `If-Match` are refused for that condition. Workaround: a HEAD of the object before them.
    refused_delete_matches: AtomicBool,
    /// Removals of many objects in one request are refused. Workaround: one request for each object.
    refused_delete_many: AtomicBool,
    /// The service has no tags of objects. Workaround: no request for tags.
    no_tags: AtomicBool,
    /// The service does not list open uploads. Workaround: a lifecycle rule of the bucket removes unrecorded ones.
    unlisted_uploads: AtomicBool,
    /// Complete is refused for the size of the object that it names (`S3Proxy`). Workaround: it names no size.
    refused_sizes: AtomicBool,
    /// Sources that this service cannot copy from: the endpoint, by its id, and the bucket. Workaround: streaming.
    uncopyable: std::sync::Mutex<HashSet<(u64, String)>>,
    /// Default encryption of buckets, for objects that are written without encryption headers.
    encryption: std::sync::Mutex<HashMap<String, Arc<OnceCell<BucketEncryption>>>>,
    /// Versions of objects that the latest HEADs showed without encryption.
    plain_objects: std::sync::Mutex<VecDeque<PinnedObject>>,
    /// The latest look-up of an object, until it is used.
    last_head: std::sync::Mutex<Option<LastHead>>,
    id: UniqueId,
}

/// Attributes of an object that a HEAD has just shown.
#[derive(Debug)]
struct LastHead {
    bucket: String,
    key: String,
    meta: ObjectMeta,
    /// Time that the request took.
    latency: Duration,
    at: Instant,
}

/// A number that nothing else has for as long as the process runs.
#[derive(Debug)]
struct UniqueId(u64);

impl Default for UniqueId {
    fn default() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

impl Quirks {
    /// True when checksums of copied parts are known to be wrong or missing.
    pub fn useless_part_checksums(&self) -> bool {
        self.useless_part_checksums.load(Ordering::Relaxed)
    }

    /// Records that checksums of copied parts are wrong or missing. True: it was not known.
    pub fn learn_useless_part_checksums(&self) -> bool {
        !self.useless_part_checksums.swap(true, Ordering::Relaxed)
    }

    /// Waits until it is known whether part copies into an upload with a checksum work. Some: the caller finds out with
    /// its first part, while others wait. None: it is known. `alike`: the source has the same algorithm.
    pub async fn try_part_checksums(&self, alike: bool) -> Option<PartCopyTrial<'_>> {
        let tried = if alike { &self.own_part_checksums_tried } else { &self.part_checksums_tried };
        let known = || self.useless_part_checksums.load(Ordering::Relaxed) || tried.load(Ordering::Relaxed);
        if known() {
            return None;
        }
        let turn = self.trial.lock().await;
        (!known()).then_some(PartCopyTrial { quirks: self, alike, _turn: turn })
    }

    /// True when part copies into an upload with a checksum are known to be answered with that of the copied bytes.
    /// None: it is not known.
    pub fn states_copied_sums(&self) -> Option<bool> {
        match self.copied_sums.load(Ordering::Relaxed) {
            _ if self.useless_part_checksums() => Some(false),
            0 => None,
            known => Some(known == 1),
        }
    }

    /// Records how a part copy into an upload with a checksum was answered. One answer without counts permanently.
    pub fn learn_copied_sums(&self, stated: bool) {
        self.copied_sums.fetch_max(if stated { 1 } else { 2 }, Ordering::Relaxed);
    }

    /// Waits until it is known how part copies into an upload with a checksum are answered. Some: the caller finds out,
    /// while others wait. None: it is known.
    pub async fn try_copied_sums(&self) -> Option<MutexGuard<'_, ()>> {
        let turn = self.trial.lock().await;
        self.states_copied_sums().is_none().then_some(turn)
    }

    /// The cell of the bucket's default encryption: the first one that needs the answer asks, and others wait for it.
    pub fn bucket_encryption(&self, bucket: &str) -> Arc<OnceCell<BucketEncryption>> {
        let mut known = self.encryption.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cell) = known.get(bucket) {
            return Arc::clone(cell);
        }
        if known.len() >= UNCOPYABLE {
            known.clear();
        }
        Arc::clone(known.entry(bucket.to_owned()).or_default())
    }

    /// True when one of the latest HEADs showed this version of an object without encryption.
    pub fn is_plain_object(&self, object: &PinnedObject) -> bool {
        self.plain_objects.lock().unwrap_or_else(PoisonError::into_inner).contains(object)
    }

    /// Records that a HEAD showed this version of an object without encryption.
    pub fn note_plain_object(&self, object: PinnedObject) {
        let mut known = self.plain_objects.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= PLAIN_OBJECTS {
            known.pop_front();
        }
        known.push_back(object);
    }

    /// Keeps what a HEAD showed, for the transfer that may follow it. `latency` is the time that it took.
    pub fn note_head(&self, object: ObjectRef<'_>, meta: &ObjectMeta, latency: Duration) {
        let (bucket, key) = (object.bucket.to_owned(), object.key.to_owned());
        let head = LastHead { bucket, key, meta: meta.clone(), latency, at: Instant::now() };
        *self.last_head.lock().unwrap_or_else(PoisonError::into_inner) = Some(head);
    }

    /// Takes the attributes of a version of an object, and the time that their HEAD took. None: the latest HEAD showed
    /// another one, is some seconds old, or was taken before.
    pub fn take_head(&self, object: ObjectRef<'_>, etag: &str) -> Option<(ObjectMeta, Duration)> {
        let mut last = self.last_head.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same = |head: &LastHead| {
            (head.bucket.as_str(), head.key.as_str(), head.meta.etag.as_str()) == (object.bucket, object.key, etag)
                && !etag.is_empty()
                && object.version.is_none_or(|version| head.meta.version_id.as_deref() == Some(version))
                && head.at.elapsed() < LAST_HEAD
        };
        last.take_if(|head| is_same(head)).map(|head| (head.meta, head.latency))
    }

    /// True when the same part is known to have got two `ETag`s.
    pub fn changing_part_etags(&self) -> bool {
        self.changing_part_etags.load(Ordering::Relaxed)
    }

    /// Records that the same part got two `ETag`s.
    pub fn learn_changing_part_etags(&self) {
        self.changing_part_etags.store(true, Ordering::Relaxed);
    }

    /// True when a copy of a whole object is known to have got another `ETag` than its source.
    pub fn changes_copied_etags(&self) -> bool {
        self.changed_copied_etags.load(Ordering::Relaxed)
    }

    /// Records that a copy of a whole object got another `ETag` than its source.
    pub fn learn_changed_copied_etags(&self) {
        self.changed_copied_etags.store(true, Ordering::Relaxed);
    }

    /// Nature of plain `ETag`s where the service names no encryption: digests of the bytes, or not. None: nothing has
    /// shown it yet. Only a probe that does not depend on transferred bytes may set it.
    pub fn etags_are_digests(&self) -> Option<bool> {
        match self.etags.load(Ordering::Relaxed) {
            0 => None,
            nature => Some(nature == 1),
        }
    }

    /// Records what a probe showed of plain `ETag`s.
    pub fn learn_etags(&self, are_digests: bool) {
        self.etags.store(if are_digests { 1 } else { 2 }, Ordering::Relaxed);
    }

    /// The right to probe the nature of `ETag`s. None: it is known meanwhile, or as many probes as are made showed
    /// nothing.
    pub async fn probe_etags(&self) -> Option<MutexGuard<'_, ()>> {
        let turn = self.etag_probe.lock().await;
        let due = self.etags_are_digests().is_none() && self.etag_probes.load(Ordering::Relaxed) < ETAG_PROBES;
        self.etag_probes.fetch_add(u8::from(due), Ordering::Relaxed);
        due.then_some(turn)
    }

    /// True when ranged reads are known to be answered with something else.
    pub fn ignores_ranges(&self) -> bool {
        self.ignored_ranges.load(Ordering::Relaxed)
    }

    /// Records that a ranged read was answered with something else. True: it was not known.
    pub fn learn_ignored_ranges(&self) -> bool {
        !self.ignored_ranges.swap(true, Ordering::Relaxed)
    }

    /// Waits until it is known whether the service answers ranged reads. Some: the caller finds out with its first
    /// read, while others wait. None: it is known.
    pub async fn try_ranges(&self) -> Option<RangeTrial<'_>> {
        let known = || self.ignores_ranges() || self.ranges_tried.load(Ordering::Relaxed);
        if known() {
            return None;
        }
        let turn = self.range_trial.lock().await;
        (!known()).then_some(RangeTrial { quirks: self, _turn: turn })
    }

    /// Checksums that may be sent with bytes, as far as is known.
    pub fn sums(&self) -> ChecksumSupport {
        match self.refused_sums.load(Ordering::Relaxed) {
            0 => ChecksumSupport::Any,
            1 => ChecksumSupport::Crc32C,
            _ => ChecksumSupport::Md5,
        }
    }

    /// Records that a checksum of this kind was refused.
    pub fn learn_refused_sum(&self, refused: ChecksumAlgorithm) {
        let level = if refused == ChecksumAlgorithm::Crc32C { 2 } else { 1 };
        self.refused_sums.fetch_max(level, Ordering::Relaxed);
    }

    /// True when checksums that come with parts are known to be ignored.
    pub fn silent_sums(&self) -> bool {
        self.silent_sums.load(Ordering::Relaxed)
    }

    /// Records that a part was answered without the checksum that came with it.
    pub fn learn_silent_sums(&self) {
        self.silent_sums.store(true, Ordering::Relaxed);
    }

    /// True when writes on condition that no object exists are known to be refused for that condition.
    pub fn refuses_conditions(&self) -> bool {
        self.refused_conditions.load(Ordering::Relaxed)
    }

    /// Records that a write was refused for the condition that no object exists.
    pub fn learn_refused_conditions(&self) {
        self.refused_conditions.store(true, Ordering::Relaxed);
    }

    /// True when the service is known to count a delete marker as an object, where a write must find nothing.
    pub fn counts_delete_markers(&self) -> bool {
        self.counted_delete_markers.load(Ordering::Relaxed)
    }

    /// Records that a delete marker was counted as an object. True: it was not known.
    pub fn learn_counted_delete_markers(&self) -> bool {
        !self.counted_delete_markers.swap(true, Ordering::Relaxed)
    }

    /// True when the service is known to have no tags of objects.
    pub fn has_no_tags(&self) -> bool {
        self.no_tags.load(Ordering::Relaxed)
    }

    /// Records that the service has no tags of objects. True: it was not known.
    pub fn learn_no_tags(&self) -> bool {
        !self.no_tags.swap(true, Ordering::Relaxed)
    }

    /// True when the service is known not to list open uploads.
    pub fn lists_no_uploads(&self) -> bool {
        self.unlisted_uploads.load(Ordering::Relaxed)
    }

    /// Records that the service does not list open uploads. True: it was not known.
    pub fn learn_unlisted_uploads(&self) -> bool {
        !self.unlisted_uploads.swap(true, Ordering::Relaxed)
    }

    /// True when Complete is known to be refused for the size that it names.
    pub fn refuses_sizes(&self) -> bool {
        self.refused_sizes.load(Ordering::Relaxed)
    }

    /// Records that Complete was refused for the size that it named.
    pub fn learn_refused_sizes(&self) {
        self.refused_sizes.store(true, Ordering::Relaxed);
    }

    /// True when writes on condition that they replace a certain object are known to be refused for that condition.
    pub fn refuses_matches(&self) -> bool {
        self.refused_matches.load(Ordering::Relaxed)
    }

    /// Records that a write was refused for the condition that it replaces a certain object.
    pub fn learn_refused_matches(&self) {
        self.refused_matches.store(true, Ordering::Relaxed);
    }

    /// True when a probe has shown that the service keeps the conditions of these requests.
    pub fn keeps_conditions(&self, request: ConditionalRequest) -> bool {
        self.kept_conditions.load(Ordering::Relaxed) & request.bit() != 0
    }

    /// Records that a probe has shown that the service keeps the conditions of these requests.
    pub fn learn_kept_conditions(&self, request: ConditionalRequest) {
        self.kept_conditions.fetch_or(request.bit(), Ordering::Relaxed);
    }

    /// True when removals on condition that they remove a certain object are known to be refused for that condition.
    pub fn refuses_delete_matches(&self) -> bool {
        self.refused_delete_matches.load(Ordering::Relaxed)
    }

    /// Records that a removal was refused for the condition that it removes a certain object.
    pub fn learn_refused_delete_matches(&self) {
        self.refused_delete_matches.store(true, Ordering::Relaxed);
    }

    /// True when removals of many objects in one request are known to be refused.
    pub fn refuses_delete_many(&self) -> bool {
        self.refused_delete_many.load(Ordering::Relaxed)
    }

    /// Records that a removal of many objects in one request was refused.
    pub fn learn_refused_delete_many(&self) {
        self.refused_delete_many.store(true, Ordering::Relaxed);
    }

    /// True when this service is known to be unable to copy from a bucket of that endpoint.
    pub fn cannot_copy_from(&self, source: &Endpoint, bucket: &str) -> bool {
        let known = self.uncopyable.lock().unwrap_or_else(PoisonError::into_inner);
        !known.is_empty() && known.contains(&(source.id(), bucket.to_owned()))
    }

    /// Records that the service refused a copy from a bucket that can be read. True: it was not known.
    pub fn learn_uncopyable(&self, source: &Endpoint, bucket: &str) -> bool {
        let mut known = self.uncopyable.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= UNCOPYABLE {
            known.clear();
        }
        known.insert((source.id(), bucket.to_owned()))
    }
}

/// The right to make the first ranged read alone. When it is dropped without a result, the next caller gets it.
#[derive(Debug)]
pub struct RangeTrial<'a> {
    quirks: &'a Quirks,
    _turn: MutexGuard<'a, ()>,
}

impl RangeTrial<'_> {
    /// Records that the service answered with the range.
    pub fn kept(self) {
        self.quirks.ranges_tried.store(true, Ordering::Relaxed);
    }
}

/// The right to make the first part copy alone. When it is dropped without a result, the next caller gets it.
#[derive(Debug)]
pub struct PartCopyTrial<'a> {
    quirks: &'a Quirks,
    alike: bool,
    _turn: MutexGuard<'a, ()>,
}

impl PartCopyTrial<'_> {
    /// Records what the first part showed: useless checksums or good ones.
    pub fn found(self, useless: bool) {
        if useless {
            self.quirks.learn_useless_part_checksums();
        } else {
            self.quirks.part_checksums_tried.store(true, Ordering::Relaxed);
            self.quirks.own_part_checksums_tried.fetch_or(self.alike, Ordering::Relaxed);
        }
    }
}

/// A store, and what was learned of its service.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// The store.
    pub store: Arc<dyn ObjectStore>,
    /// Shared by all clients of the endpoint.
    pub quirks: Arc<Quirks>,
}

impl Endpoint {
    /// A store of which nothing is known yet.
    pub fn new(store: Arc<dyn ObjectStore>) -> Self {
        Self { store, quirks: Arc::default() }
    }

    /// True when both talk to the same service with the same credentials.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.quirks, &other.quirks)
    }

    /// The same service through another store on top of it.
    #[must_use]
    pub fn over(self, layer: impl FnOnce(Arc<dyn ObjectStore>) -> Arc<dyn ObjectStore>) -> Self {
        Self { store: layer(self.store), ..self }
    }

    /// Number of the endpoint, unique for as long as the process runs.
    fn id(&self) -> u64 {
        self.quirks.id.0
    }
}
