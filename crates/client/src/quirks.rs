//! Faults and limits of a service, learned from its answers and remembered while the process uses it.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};

use seqferry_store::{BucketEncryption, ChecksumAlgorithm, ObjectStore, PinnedObject};
use tokio::sync::{Mutex, MutexGuard};

/// So many buckets that cannot be copied from are remembered; then what was learned is learned anew.
const UNCOPYABLE: usize = 1000;

/// So many objects without encryption are remembered: those that were looked at just before their copy.
const PLAIN_OBJECTS: usize = 64;

/// Checksums that may be sent with bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sums {
    /// Any, as far as is known.
    Any,
    /// No newer one than CRC32C.
    Crc32C,
    /// None: MD5 instead.
    Md5,
}

/// Learned while working; every entry has a way round it.
#[derive(Debug, Default)]
pub struct Quirks {
    /// Copies of parts into an upload with a checksum end in an object with a wrong one, or in none. They are answered with the
    /// checksum of the whole source (versitygw 1.8, where source and upload have the same algorithm), they are refused since
    /// they bring no checksum (MinIO), or Complete wants checksums that were never told. Way round: an upload without one.
    useless_part_checksums: AtomicBool,
    /// An upload with a checksum took a part copy: part copies need not wait for each other to find that out.
    part_checksums_tried: AtomicBool,
    /// The same, where the source has the same algorithm.
    own_part_checksums_tried: AtomicBool,
    /// Held by the request that tries it out.
    trial: Mutex<()>,
    /// The same part of the same bytes got two `ETag`s. Way round: never have the same part under way twice.
    changing_part_etags: AtomicBool,
    /// Ranged reads are answered with something else, by the service or by a proxy before it. Way round: one read of the whole
    /// object, in order.
    ignored_ranges: AtomicBool,
    /// They were answered rightly at least once.
    ranges_tried: AtomicBool,
    /// Held by the request that tries it out.
    range_trial: Mutex<()>,
    /// Writes that name a checksum are refused (see [`Sums`], as a number). Way round: an older one, or MD5.
    refused_sums: AtomicU8,
    /// Parts are answered without the checksum that came with them: the service has never heard of it. Way round: MD5 as well.
    silent_sums: AtomicBool,
    /// Writes that are to replace nothing are refused for that wish. Way round: the look before.
    refused_conditions: AtomicBool,
    /// Writes that are to replace one object only are refused for that wish. Way round: the look before.
    refused_matches: AtomicBool,
    /// Removals of one object only are refused for that wish. Way round: the look before.
    refused_delete_matches: AtomicBool,
    /// Removals of many objects in one request are refused. Way round: one by one.
    refused_delete_many: AtomicBool,
    /// The service has no tags of objects. Way round: none are asked for.
    no_tags: AtomicBool,
    /// The service does not list open uploads. Workaround: uploads without a record are left to the bucket's lifecycle rule.
    unlisted_uploads: AtomicBool,
    /// Complete is refused for the size of the object that it names (`S3Proxy`). Way round: it names none.
    refused_sizes: AtomicBool,
    /// Source connections (by the ids of their quirks) and buckets that this service cannot copy from. Way round: streaming.
    uncopyable: std::sync::Mutex<HashSet<(u64, String)>>,
    /// Default encryption of buckets, for objects that are written without encryption headers.
    encryption: std::sync::Mutex<HashMap<String, BucketEncryption>>,
    /// Versions of objects that the latest HEADs showed without encryption.
    plain_objects: std::sync::Mutex<VecDeque<PinnedObject>>,
    id: UniqueId,
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

    /// Checksums of copied parts turned out to be wrong or missing. True: it was not known.
    pub fn learn_useless_part_checksums(&self) -> bool {
        !self.useless_part_checksums.swap(true, Ordering::Relaxed)
    }

    /// Before the first part copies into an upload with a checksum: waits for the request that tries that out. Some: it
    /// is for the caller to find out, with one part, while the others wait. None: it is known. `alike`: the source has the
    /// same algorithm.
    pub async fn try_part_checksums(&self, alike: bool) -> Option<Trial<'_>> {
        let tried = if alike { &self.own_part_checksums_tried } else { &self.part_checksums_tried };
        let known = || self.useless_part_checksums.load(Ordering::Relaxed) || tried.load(Ordering::Relaxed);
        if known() {
            return None;
        }
        let turn = self.trial.lock().await;
        (!known()).then_some(Trial { quirks: self, alike, _turn: turn })
    }

    /// Default encryption of the bucket. None: it is not known yet.
    pub fn bucket_encryption(&self, bucket: &str) -> Option<BucketEncryption> {
        self.encryption.lock().unwrap_or_else(PoisonError::into_inner).get(bucket).cloned()
    }

    /// The answer of the bucket.
    pub fn learn_bucket_encryption(&self, bucket: &str, found: &BucketEncryption) {
        let mut known = self.encryption.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= UNCOPYABLE {
            known.clear();
        }
        known.insert(bucket.to_owned(), found.clone());
    }

    /// True when one of the latest HEADs showed this version of an object without encryption.
    pub fn is_plain_object(&self, object: &PinnedObject) -> bool {
        self.plain_objects.lock().unwrap_or_else(PoisonError::into_inner).contains(object)
    }

    /// A HEAD has shown this version of an object without encryption.
    pub fn note_plain_object(&self, object: PinnedObject) {
        let mut known = self.plain_objects.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= PLAIN_OBJECTS {
            known.pop_front();
        }
        known.push_back(object);
    }

    /// True when the same part is known to have got two `ETag`s.
    pub fn changing_part_etags(&self) -> bool {
        self.changing_part_etags.load(Ordering::Relaxed)
    }

    /// The same part got two `ETag`s.
    pub fn learn_changing_part_etags(&self) {
        self.changing_part_etags.store(true, Ordering::Relaxed);
    }

    /// True when ranged reads are known to be answered with something else.
    pub fn ignores_ranges(&self) -> bool {
        self.ignored_ranges.load(Ordering::Relaxed)
    }

    /// A ranged read was answered with something else. True: that is news.
    pub fn learn_ignored_ranges(&self) -> bool {
        !self.ignored_ranges.swap(true, Ordering::Relaxed)
    }

    /// Before the first ranged read: waits for the request that tries it out. Some: it is for the caller to find
    /// out, with one read. None: it is known.
    pub async fn try_ranges(&self) -> Option<RangeTrial<'_>> {
        let known = || self.ignores_ranges() || self.ranges_tried.load(Ordering::Relaxed);
        if known() {
            return None;
        }
        let turn = self.range_trial.lock().await;
        (!known()).then_some(RangeTrial { quirks: self, _turn: turn })
    }

    /// Checksums that may be sent with bytes, as far as is known.
    pub fn sums(&self) -> Sums {
        match self.refused_sums.load(Ordering::Relaxed) {
            0 => Sums::Any,
            1 => Sums::Crc32C,
            _ => Sums::Md5,
        }
    }

    /// A checksum of this kind was refused.
    pub fn learn_refused_sum(&self, refused: ChecksumAlgorithm) {
        let level = if refused == ChecksumAlgorithm::Crc32C { 2 } else { 1 };
        self.refused_sums.fetch_max(level, Ordering::Relaxed);
    }

    /// True when checksums that come with parts are known to be ignored.
    pub fn silent_sums(&self) -> bool {
        self.silent_sums.load(Ordering::Relaxed)
    }

    /// A part was answered without the checksum that came with it.
    pub fn learn_silent_sums(&self) {
        self.silent_sums.store(true, Ordering::Relaxed);
    }

    /// True when writes on condition that no object exists are known to be refused for that condition.
    pub fn refuses_conditions(&self) -> bool {
        self.refused_conditions.load(Ordering::Relaxed)
    }

    /// They are.
    pub fn learn_refused_conditions(&self) {
        self.refused_conditions.store(true, Ordering::Relaxed);
    }

    /// True when the service is known to have no tags of objects.
    pub fn has_no_tags(&self) -> bool {
        self.no_tags.load(Ordering::Relaxed)
    }

    /// The service has no tags of objects. True: it was not known.
    pub fn learn_no_tags(&self) -> bool {
        !self.no_tags.swap(true, Ordering::Relaxed)
    }

    /// True when the service is known not to list open uploads.
    pub fn lists_no_uploads(&self) -> bool {
        self.unlisted_uploads.load(Ordering::Relaxed)
    }

    /// The service does not list open uploads. True: it was not known.
    pub fn learn_unlisted_uploads(&self) -> bool {
        !self.unlisted_uploads.swap(true, Ordering::Relaxed)
    }

    /// True when Complete is known to be refused for the size that it names.
    pub fn refuses_sizes(&self) -> bool {
        self.refused_sizes.load(Ordering::Relaxed)
    }

    /// It is.
    pub fn learn_refused_sizes(&self) {
        self.refused_sizes.store(true, Ordering::Relaxed);
    }

    /// True when writes on condition that they replace a certain object are known to be refused for that condition.
    pub fn refuses_matches(&self) -> bool {
        self.refused_matches.load(Ordering::Relaxed)
    }

    /// They are.
    pub fn learn_refused_matches(&self) {
        self.refused_matches.store(true, Ordering::Relaxed);
    }

    /// True when removals on condition that they remove a certain object are known to be refused for that condition.
    pub fn refuses_delete_matches(&self) -> bool {
        self.refused_delete_matches.load(Ordering::Relaxed)
    }

    /// They are.
    pub fn learn_refused_delete_matches(&self) {
        self.refused_delete_matches.store(true, Ordering::Relaxed);
    }

    /// True when removals of many objects in one request are known to be refused.
    pub fn refuses_delete_many(&self) -> bool {
        self.refused_delete_many.load(Ordering::Relaxed)
    }

    /// They are.
    pub fn learn_refused_delete_many(&self) {
        self.refused_delete_many.store(true, Ordering::Relaxed);
    }

    /// True when this service is known to be unable to copy from a bucket of that endpoint.
    pub fn cannot_copy_from(&self, source: &Endpoint, bucket: &str) -> bool {
        let known = self.uncopyable.lock().unwrap_or_else(PoisonError::into_inner);
        !known.is_empty() && known.contains(&(source.id(), bucket.to_owned()))
    }

    /// A copy from that bucket was refused, which can be read all the same. True: it was not known.
    pub fn learn_uncopyable(&self, source: &Endpoint, bucket: &str) -> bool {
        let mut known = self.uncopyable.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= UNCOPYABLE {
            known.clear();
        }
        known.insert((source.id(), bucket.to_owned()))
    }
}

/// The right to make the first ranged read alone. Dropped without a finding, it leaves that to the next.
#[derive(Debug)]
pub struct RangeTrial<'a> {
    quirks: &'a Quirks,
    _turn: MutexGuard<'a, ()>,
}

impl RangeTrial<'_> {
    /// The range came.
    pub fn kept(self) {
        self.quirks.ranges_tried.store(true, Ordering::Relaxed);
    }
}

/// The right to find out alone. Dropped without a finding, it leaves that to the next.
#[derive(Debug)]
pub struct Trial<'a> {
    quirks: &'a Quirks,
    alike: bool,
    _turn: MutexGuard<'a, ()>,
}

impl Trial<'_> {
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

    /// The same service, asked through another store over it.
    #[must_use]
    pub fn over(self, layer: impl FnOnce(Arc<dyn ObjectStore>) -> Arc<dyn ObjectStore>) -> Self {
        Self { store: layer(self.store), ..self }
    }

    /// Number of the endpoint, unique for as long as the process runs.
    fn id(&self) -> u64 {
        self.quirks.id.0
    }
}
