//! The state of a simulation: buckets, open uploads, counters, the model.
//!
//! One lock holds it all; no request waits inside.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use hyper::HeaderMap;
use md5::{Digest as _, Md5};

use super::bucket::{Attributes, Bucket, Etag, Layout, Object, Sum};
use super::checksum::{Algorithm, Value};
use super::content::Content;
use super::counters::Counters;
use super::faults::{Fault, Faults};
use super::intake::ReceivedBody;
use super::model::Model;
use super::reply::ErrorReply;
use super::scenario::{BucketSpec, Capability, Scenario, mixed};
use crate::classify::{Query, RequestInfo};

/// A request with its body read.
pub(super) struct SimRequest {
    pub(super) call: RequestInfo,
    pub(super) query: Option<String>,
    pub(super) headers: HeaderMap,
    pub(super) received: ReceivedBody,
}

impl SimRequest {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    pub(super) fn query(&self) -> Query {
        Query::parse(self.query.as_deref())
    }

    pub(super) fn bucket(&self) -> &str {
        self.call.bucket.as_deref().unwrap_or_default()
    }

    pub(super) fn key(&self) -> &str {
        self.call.key.as_deref().unwrap_or_default()
    }
}

/// A part that arrived.
#[derive(Debug, Clone)]
pub(super) struct Part {
    pub(super) content: Content,
    pub(super) digest: [u8; 16],
    pub(super) value: Option<Value>,
    pub(super) modified: SystemTime,
}

/// An upload that is neither completed nor aborted.
#[derive(Debug)]
pub(super) struct Upload {
    pub(super) bucket: String,
    pub(super) key: String,
    pub(super) attributes: Arc<Attributes>,
    /// The algorithm, and whether the object's value is to be a composite one.
    pub(super) checksum: Option<(Algorithm, bool)>,
    pub(super) parts: BTreeMap<u32, Part>,
    pub(super) started: SystemTime,
}

/// State of a simulation: buckets, open uploads, counters and the model.
pub(super) struct SimState {
    pub(super) options: Scenario,
    pub(super) model: Model,
    pub(super) faults: Faults,
    pub(super) buckets: BTreeMap<String, Bucket>,
    pub(super) uploads: HashMap<u64, Upload>,
    pub(super) counters: Counters,
    /// Bytes of bodies that are kept.
    pub(super) kept: Arc<AtomicU64>,
    started: Instant,
    numbers: u64,
    attributes: Arc<Attributes>,
}

impl SimState {
    pub(super) fn new(mut options: Scenario) -> Result<Self, String> {
        options.check()?;
        let model = Model::new(options.model.clone(), options.seed);
        let faults = Faults::new(std::mem::take(&mut options.faults), mixed(options.seed, 1));
        let specs = std::mem::take(&mut options.buckets);
        let mut state = Self {
            options,
            model,
            faults,
            buckets: BTreeMap::new(),
            uploads: HashMap::new(),
            counters: Counters::default(),
            kept: Arc::default(),
            started: Instant::now(),
            numbers: 0,
            attributes: Arc::default(),
        };
        for spec in &specs {
            state.add_bucket(spec)?;
        }
        Ok(state)
    }

    pub(super) fn add_bucket(&mut self, spec: &BucketSpec) -> Result<(), String> {
        if spec.name.is_empty() || spec.name.contains('/') || spec.name.starts_with('_') {
            return Err(format!("bucket {:?}: no name for a bucket", spec.name));
        }
        if self.buckets.contains_key(&spec.name) {
            return Err(format!("bucket {}: it is there already", spec.name));
        }
        let mut spec = spec.clone();
        if self.lacks(Capability::Checksums) {
            for objects in &mut spec.objects {
                "none".clone_into(&mut objects.checksum);
            }
        }
        let bucket = Bucket::new(&spec, &self.options.region, self.options.seed, self.options.md5_limit.0)?;
        let now = self.now();
        for key in &spec.partitions {
            self.model.split(now, &spec.name, key);
        }
        self.buckets.insert(spec.name, bucket);
        Ok(())
    }

    /// Time of the model.
    pub(super) fn now(&self) -> Duration {
        self.started.elapsed().mul_f64(self.options.time_scale)
    }

    /// The service's idea of the date.
    pub(super) fn date(&self) -> SystemTime {
        let now = SystemTime::now();
        let offset = Duration::from_secs(self.options.clock_offset_seconds.unsigned_abs());
        if self.options.clock_offset_seconds < 0 { now - offset } else { now + offset }
    }

    pub(super) fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    pub(super) fn lacks(&self, capability: Capability) -> bool {
        self.options.without.contains(&capability)
    }

    /// The bucket of a request.
    pub(super) fn bucket(&mut self, request: &SimRequest) -> Result<&mut Bucket, ErrorReply> {
        let name = request.bucket();
        self.buckets.get_mut(name).ok_or_else(|| ErrorReply::no_bucket(name))
    }

    /// The object of a request.
    pub(super) fn object(&mut self, request: &SimRequest) -> Result<Object, ErrorReply> {
        if let Some(query) = &request.query
            && query.contains("versionId")
            && let Some(version) = request.query().get("versionId")
            && version != "null"
        {
            return Err(no_version(request.key(), version));
        }
        self.bucket(request)?.get(request.key()).ok_or_else(|| ErrorReply::no_key(request.key()))
    }

    /// Shares the attributes with the object written before, if they are equal. One program often writes many objects
    /// with equal attributes.
    pub(super) fn share(&mut self, attributes: Attributes) -> Arc<Attributes> {
        if *self.attributes != attributes {
            self.attributes = Arc::new(attributes);
        }
        Arc::clone(&self.attributes)
    }

    /// The `ETag` of an object made in one request out of content whose MD5 is not computed yet.
    pub(super) fn etag_of(&mut self, content: &Content, attributes: &Attributes) -> Etag {
        let digest = if content.length() <= self.options.md5_limit.0 { content.md5().ok() } else { None };
        let digest = digest.unwrap_or_else(|| content.opaque_digest());
        Etag { digest: self.veiled(digest, attributes), parts: 0 }
    }

    /// Returns the digest for an `ETag`. With KMS an `ETag` is no digest of the content: a new one each time.
    pub(super) fn veiled(&mut self, digest: [u8; 16], attributes: &Attributes) -> [u8; 16] {
        if attributes.kms_key.is_none() {
            return digest;
        }
        let number = self.number();
        Md5::new().chain_update(digest).chain_update(number.to_le_bytes()).finalize().into()
    }

    /// Writes an object and counts what that threw away.
    pub(super) fn store(&mut self, bucket: &str, key: &str, object: Object) -> Result<(), ErrorReply> {
        let content = object.content.clone();
        let target = self.buckets.get_mut(bucket).ok_or_else(|| ErrorReply::no_bucket(bucket))?;
        if let Some(before) = target.put(key, object)
            && before.content.equals(&content)
        {
            self.counters.wasted.objects_written_again += content.length();
        }
        Ok(())
    }

    /// A new object.
    pub(super) fn made(content: Content, etag: Etag, sum: Sum, layout: Layout, attributes: Arc<Attributes>) -> Object {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let modified = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        Object { content, etag, sum, layout, modified, attributes }
    }

    /// The checksum that S3 keeps when the request names none.
    pub(super) fn default_sum(&self) -> Sum {
        if self.lacks(Capability::Checksums) { Sum::None } else { Sum::Full(Algorithm::ALL[0]) }
    }

    /// Checks that a request may be carried out: the expiry of its credentials, its clock, and its bucket's region.
    pub(super) fn admit(&self, request: &SimRequest) -> Result<(), ErrorReply> {
        if let Some(access_key) = &request.call.access_key {
            let now = self.now().as_secs_f64();
            let known = self.options.credentials.iter().find(|known| known.access_key == *access_key);
            if known.is_some_and(|known| now >= known.expires_after_seconds) {
                return Err(fault(&Fault::ExpiredToken, self.date()));
            }
        }
        if self.options.clock_offset_seconds != 0
            && let Some(sent) = request.header("x-amz-date").and_then(crate::date::from_compact)
        {
            let date = self.date();
            let apart = date.duration_since(sent).or_else(|_| sent.duration_since(date)).unwrap_or_default();
            if apart > Duration::from_mins(15) {
                return Err(fault(&Fault::RequestTimeTooSkewed, date));
            }
        }
        if let Some(bucket) = request.call.bucket.as_deref().and_then(|name| self.buckets.get(name))
            && request.call.operation != "GetBucketLocation"
            && let Some(signed) = signed_region(request)
            && signed != bucket.region
        {
            return Err(elsewhere(bucket, signed));
        }
        Ok(())
    }
}

pub(super) fn no_version(key: &str, version: &str) -> ErrorReply {
    ErrorReply::new(404, "NoSuchVersion", "The specified version does not exist. s3sim keeps no versions.")
        .element("Key", key)
        .element("VersionId", version)
}

/// The region in the scope of the signature.
fn signed_region(request: &SimRequest) -> Option<&str> {
    let credential = request.header("authorization")?.split_once("Credential=")?.1;
    let region = credential.split('/').nth(2)?;
    // Set by clients that leave the choice to the service.
    (region != "*").then_some(region)
}

fn elsewhere(bucket: &Bucket, signed: &str) -> ErrorReply {
    use super::scenario::RegionRefusal;
    let region = bucket.region.clone();
    let fail = match bucket.elsewhere {
        RegionRefusal::Redirect => ErrorReply::new(
            301,
            "PermanentRedirect",
            "The bucket you are attempting to access must be addressed using the specified endpoint.",
        ),
        RegionRefusal::Malformed => ErrorReply::new(
            400,
            "AuthorizationHeaderMalformed",
            format!("The authorization header is malformed; the region '{signed}' is wrong; expecting '{region}'"),
        ),
    };
    fail.element("Region", region.clone()).header("x-amz-bucket-region", region)
}

/// The error that a fault stands for; others are 500.
pub(super) fn fault(fault: &Fault, date: SystemTime) -> ErrorReply {
    match fault {
        Fault::SlowDown => slow_down(),
        Fault::AccessDenied => ErrorReply::new(403, "AccessDenied", "Access Denied"),
        Fault::KmsDenied => ErrorReply::new(
            403,
            "AccessDenied",
            "User is not authorized to perform: kms:Decrypt on the resource associated with this ciphertext",
        ),
        Fault::KmsDisabled => ErrorReply::new(400, "KMS.DisabledException", "The KMS key is disabled."),
        Fault::Archived => archived_error(None),
        Fault::ExpiredToken => ErrorReply::new(400, "ExpiredToken", "The provided token has expired."),
        Fault::RequestTimeTooSkewed => ErrorReply::new(
            403,
            "RequestTimeTooSkewed",
            "The difference between the request time and the current time is too large.",
        )
        .element("ServerTime", crate::date::iso(date))
        .header("date", crate::date::http(date)),
        Fault::Error(status, code) => ErrorReply::new(*status, code.clone(), "By order of the simulation."),
        _ => ErrorReply::new(500, "InternalError", "We encountered an internal error. Please try again."),
    }
}

pub(super) fn slow_down() -> ErrorReply {
    ErrorReply::new(503, "SlowDown", "Please reduce your request rate.")
}

pub(super) fn archived_error(attributes: Option<&Attributes>) -> ErrorReply {
    let class = attributes.and_then(|attributes| attributes.storage_class.as_deref()).unwrap_or("GLACIER");
    ErrorReply::new(403, "InvalidObjectState", "The operation is not valid for the object's storage class")
        .element("StorageClass", class)
}
