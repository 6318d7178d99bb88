//! The scenario of a simulation: the service's buckets and their objects, its model, its limits and its faults.
//!
//! Read from JSON or made in Rust; every field has a default, an unknown one is an error.

use std::collections::BTreeMap;

use fastrand::Rng;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::checksum::Algorithm;
use super::faults::FaultRule;
use super::keys::KeyPattern;
use super::model::ModelOptions;

/// All options of a simulation.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Scenario {
    /// All chance and all content derive from it.
    pub seed: u64,
    /// Model of the service: the time that requests take, and the rates above which it refuses them.
    pub model: ModelOptions,
    /// Seconds of the model that pass in one real second.
    pub time_scale: f64,
    /// The region that requests are expected to be signed for, unless their bucket is elsewhere.
    pub region: String,
    /// The buckets that there are from the start.
    pub buckets: Vec<BucketSpec>,
    /// Rules of the faults that strike requests.
    pub faults: Vec<FaultRule>,
    /// Capabilities that the service lacks.
    pub without: Vec<Capability>,
    /// Access keys that die. All others are taken permanently.
    pub credentials: Vec<CredentialSpec>,
    /// The service's clock minus the real one, in seconds.
    pub clock_offset_seconds: i64,
    /// Bytes of bodies that are kept; bodies beyond are remembered by their checksums only.
    pub memory: ByteSize,
    /// Up to this size the `ETag` of an object made in one request is its true MD5; above it is an opaque digest.
    pub md5_limit: ByteSize,
    /// True when uploads of any size have their true MD5 for `ETag`. Hashing costs about 1.5 s per GiB.
    pub upload_md5: bool,
    /// Up to this size a checksum that must read the bytes (SHA-256) is computed for copies.
    pub sha_limit: ByteSize,
    /// Size above which `CopyObject` is refused. 5 GiB.
    pub maximum_copy: ByteSize,
    /// Least size of a part that is not the last. 5 MiB.
    pub minimum_part: ByteSize,
    /// Largest object. 50 TB.
    pub maximum_object: ByteSize,
}

impl Default for Scenario {
    fn default() -> Self {
        Self {
            seed: 1,
            model: ModelOptions::default(),
            time_scale: 1.0,
            region: "us-east-1".to_owned(),
            buckets: Vec::new(),
            faults: Vec::new(),
            without: Vec::new(),
            credentials: Vec::new(),
            clock_offset_seconds: 0,
            memory: ByteSize(256 << 20),
            md5_limit: ByteSize(8 << 20),
            upload_md5: true,
            sha_limit: ByteSize(64 << 20),
            maximum_copy: ByteSize(5 << 30),
            minimum_part: ByteSize(5 << 20),
            maximum_object: ByteSize(10_000 * (5 << 30)),
        }
    }
}

impl Scenario {
    /// A service that answers immediately, for tests of its replies.
    pub fn instant() -> Self {
        Self { model: ModelOptions::instant(), ..Self::default() }
    }

    /// Reads a scenario from JSON. Its options of the model override those of the default model, or of one that answers
    /// immediately; `sets` such as `model.part_copy.base_seconds=1` override both, their values JSON or plain text.
    ///
    /// # Errors
    /// The first thing that is unknown or makes no sense, by name.
    pub fn read(given: Value, sets: &[String], instant: bool) -> Result<Self, String> {
        let model = if instant { ModelOptions::instant() } else { ModelOptions::default() };
        let mut all = serde_json::json!({ "model": model });
        lay_over(&mut all, given);
        for set in sets {
            let (path, value) = set.split_once('=').ok_or_else(|| format!("--set {set}: not NAME=VALUE"))?;
            let value = serde_json::from_str(value).unwrap_or_else(|_| Value::from(value));
            let nested = path.rsplit('.').fold(value, |value, name| serde_json::json!({ name: value }));
            lay_over(&mut all, nested);
        }
        let scenario: Self = serde_json::from_value(all).map_err(|error| format!("scenario: {error}"))?;
        scenario.check()?;
        Ok(scenario)
    }

    /// Checks the model, the time scale, the faults and the names of the buckets.
    ///
    /// # Errors
    /// The first thing that makes no sense, by name.
    pub fn check(&self) -> Result<(), String> {
        self.model.check()?;
        if !(self.time_scale > 0.0 && self.time_scale <= 1e9) {
            return Err(format!("time_scale must be more than 0 and at most 1e9, not {}", self.time_scale));
        }
        for rule in &self.faults {
            rule.check()?;
        }
        let mut names: Vec<&str> = self.buckets.iter().map(|bucket| bucket.name.as_str()).collect();
        names.sort_unstable();
        if let Some([name, _]) = names.array_windows().find(|[a, b]| a == b) {
            return Err(format!("bucket {name}: named twice"));
        }
        Ok(())
    }
}

/// Objects are laid over objects, field by field; anything else takes the other's place.
fn lay_over(below: &mut Value, above: Value) {
    match (below, above) {
        (Value::Object(below), Value::Object(above)) => {
            for (name, value) in above {
                lay_over(below.entry(name).or_insert(Value::Null), value);
            }
        }
        (below, above) => *below = above,
    }
}

/// Something that some services lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Capability {
    /// Additional checksums: none is computed, kept or returned.
    Checksums,
    /// `UploadPartCopy`: 501.
    PartCopy,
    /// `CopyObject`: 501.
    Copy,
    /// Object tags: 501.
    Tagging,
    /// `GetObjectAttributes`: 501.
    Attributes,
    /// `x-amz-copy-source-if-match`, `If-Match`, `If-None-Match` on writes: 501.
    Conditions,
    /// `Range` and `partNumber` on GET: the whole object is answered with 200.
    Ranges,
}

/// An access key that dies.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CredentialSpec {
    /// Access key id.
    pub access_key: String,
    /// Seconds of the model after the start; later requests are answered `ExpiredToken`.
    pub expires_after_seconds: f64,
}

/// A bucket, and the objects in it from the start.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BucketSpec {
    /// Its name.
    pub name: String,
    /// Region of the bucket; requests signed for another one are refused.
    #[serde(default)]
    pub region: Option<String>,
    /// Refusal for another region: 301 `PermanentRedirect`, or 400 `AuthorizationHeaderMalformed` as regions opened
    /// since 2019 do.
    #[serde(default)]
    pub elsewhere: RegionRefusal,
    /// Its objects.
    #[serde(default)]
    pub objects: Vec<ObjectsSpec>,
    /// Keys at which partitions begin already.
    #[serde(default)]
    pub partitions: Vec<String>,
}

/// Refusal of a request that is signed for another region.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RegionRefusal {
    /// 301 `PermanentRedirect`.
    #[default]
    Redirect,
    /// 400 `AuthorizationHeaderMalformed`.
    Malformed,
}

/// A family of objects, of which none is stored.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ObjectsSpec {
    /// Their keys: text with counters `{i:06}` and choices `{1,2}`.
    pub keys: String,
    /// Number of objects.
    #[serde(default = "one")]
    pub count: u64,
    /// Size of each object.
    #[serde(default)]
    pub size: SizeSpec,
    /// Size of all together: sizes are scaled to give just that.
    #[serde(default)]
    pub total: Option<ByteSize>,
    /// Larger ones look as if uploaded in parts of this size; 0: as if uploaded in one request. 8 MiB, as AWS's tools
    /// do.
    #[serde(default = "eight_mib")]
    pub part_size: ByteSize,
    /// The checksum that S3 keeps for them: `CRC64NVME`, `CRC32`, `CRC32C` (over the full object) or `none`.
    #[serde(default = "crc64nvme")]
    pub checksum: String,
    /// True when the `ETag`s of small objects are true MD5s.
    #[serde(default = "yes")]
    pub true_etags: bool,
    /// Storage class. `GLACIER` and `DEEP_ARCHIVE` must be restored before they can be read.
    #[serde(default)]
    pub storage_class: Option<String>,
    /// `Content-Type`.
    #[serde(default)]
    pub content_type: Option<String>,
    /// User metadata.
    #[serde(default)]
    pub metadata: BTreeMap<String, String>,
    /// Tags.
    #[serde(default)]
    pub tags: BTreeMap<String, String>,
    /// Encrypted with this KMS key: `ETag`s are no digests then.
    #[serde(default)]
    pub kms_key: Option<String>,
}

fn one() -> u64 {
    1
}

fn eight_mib() -> ByteSize {
    ByteSize(8 << 20)
}

fn crc64nvme() -> String {
    "CRC64NVME".to_owned()
}

fn yes() -> bool {
    true
}

/// Sizes of objects, drawn for each from the seed and its number.
#[derive(Debug, Clone, PartialEq)]
pub enum SizeSpec {
    /// The same size for all objects: in JSON the size alone.
    Each(ByteSize),
    /// Sizes drawn from a distribution.
    Drawn(Distribution),
}

/// Distribution of object sizes.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Distribution {
    /// A uniform distribution between two sizes.
    Uniform(ByteSize, ByteSize),
    /// A log-normal distribution.
    Lognormal {
        /// Median size.
        median: ByteSize,
        /// Standard deviation of the logarithm.
        sigma: f64,
    },
    /// One after the other, from the start again when there are more objects.
    List(Vec<ByteSize>),
}

impl<'de> Deserialize<'de> for SizeSpec {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        // By hand, since an untagged enum would hide what is wrong.
        let value = Value::deserialize(from)?;
        let read = if value.is_object() {
            serde_json::from_value(value).map(Self::Drawn)
        } else {
            serde_json::from_value(value).map(Self::Each)
        };
        read.map_err(|error| serde::de::Error::custom(format!("size: {error}")))
    }
}

impl Default for SizeSpec {
    fn default() -> Self {
        Self::Each(ByteSize(1024))
    }
}

/// A number of bytes, in JSON a number or a text such as `"128 MiB"` or `"5GB"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(pub u64);

impl std::str::FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const UNITS: [(&str, f64); 10] = [
            ("KiB", 1024.0),
            ("MiB", 1_048_576.0),
            ("GiB", 1_073_741_824.0),
            ("TiB", 1_099_511_627_776.0),
            ("kB", 1e3),
            ("KB", 1e3),
            ("MB", 1e6),
            ("GB", 1e9),
            ("TB", 1e12),
            ("B", 1.0),
        ];
        let wrong = || format!("{text:?} is no size such as 1048576, \"1 MiB\" or \"5 GB\"");
        if let Ok(bytes) = text.trim().parse() {
            return Ok(Self(bytes));
        }
        let (unit, factor) = UNITS.iter().find(|(unit, _)| text.ends_with(unit)).ok_or_else(wrong)?;
        let number: f64 = text[..text.len() - unit.len()].trim().parse().map_err(|_| wrong())?;
        let bytes = (number * factor).round();
        if !(0.0..=1e18).contains(&bytes) {
            return Err(wrong());
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "in range")]
        Ok(Self(bytes as u64))
    }
}

impl<'de> Deserialize<'de> for ByteSize {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum SizeInput {
            Number(u64),
            Text(String),
        }
        match SizeInput::deserialize(from).map_err(|_| serde::de::Error::custom("a size is a number or a text"))? {
            SizeInput::Number(bytes) => Ok(Self(bytes)),
            SizeInput::Text(text) => text.parse().map_err(serde::de::Error::custom),
        }
    }
}

/// Parses the value of `--bucket`: `NAME`, `NAME={...}` (a bucket's JSON without its name), or
/// `NAME=keys=PATTERN;count=N;size=S;...` (one family of objects, `;` between its fields).
///
/// # Errors
/// The text names the error in the bucket.
pub fn parse_bucket(text: &str) -> Result<BucketSpec, String> {
    let (name, rest) = text.split_once('=').unwrap_or((text, ""));
    let wrong = |what: &dyn std::fmt::Display| format!("bucket {name}: {what}");
    let value = if rest.trim_start().starts_with('{') {
        serde_json::from_str::<Value>(rest).map_err(|error| wrong(&error))?
    } else if rest.is_empty() {
        serde_json::json!({})
    } else {
        let mut family = serde_json::Map::new();
        for pair in rest.split(';').filter(|pair| !pair.is_empty()) {
            let (field, value) =
                pair.split_once('=').ok_or_else(|| wrong(&format_args!("{pair:?} is not FIELD=VALUE")))?;
            // Texts that read as numbers or flags are meant so; keys and names never are.
            let plain = matches!(field, "keys" | "checksum" | "storage_class" | "content_type" | "kms_key");
            let value =
                if plain { None } else { serde_json::from_str(value).ok() }.unwrap_or_else(|| Value::from(value));
            family.insert(field.replace('-', "_"), value);
        }
        serde_json::json!({ "objects": [family] })
    };
    let mut value = value;
    if let Some(fields) = value.as_object_mut() {
        fields.insert("name".to_owned(), name.into());
    }
    serde_json::from_value(value).map_err(|error| wrong(&error))
}

/// The sizes of a family, by number.
#[derive(Debug, Clone)]
pub(super) enum Sizes {
    Each(u64),
    Drawn(Distribution, u64),
    /// Object i ends at `total * (i + 1) / count`.
    Even {
        total: u64,
        count: u64,
    },
    Table(Vec<u64>),
}

/// Families with a total and unequal sizes are summed up when made.
const MOST_SUMMED: u64 = 1_000_000;

impl Sizes {
    fn of(spec: &ObjectsSpec, seed: u64) -> Result<Self, String> {
        match &spec.size {
            SizeSpec::Drawn(Distribution::Uniform(least, most)) if least > most => {
                return Err("uniform sizes: the first is larger".to_owned());
            }
            SizeSpec::Drawn(Distribution::List(sizes)) if sizes.is_empty() => {
                return Err("an empty list of sizes".to_owned());
            }
            SizeSpec::Drawn(Distribution::Lognormal { sigma, .. }) if !(0.0..=10.0).contains(sigma) => {
                return Err(format!("sigma must be between 0 and 10, not {sigma}"));
            }
            _ => {}
        }
        let drawn = match &spec.size {
            SizeSpec::Each(size) => Self::Each(size.0),
            SizeSpec::Drawn(distribution) => Self::Drawn(distribution.clone(), seed),
        };
        let Some(ByteSize(total)) = spec.total else { return Ok(drawn) };
        if matches!(spec.size, SizeSpec::Each(_)) {
            return Ok(Self::Even { total, count: spec.count.max(1) });
        }
        if spec.count > MOST_SUMMED {
            return Err(format!("a total of unequal sizes is for at most {MOST_SUMMED} objects"));
        }
        let sizes: Vec<u64> = (0..spec.count).map(|index| drawn.size(index)).collect();
        let sum: u128 = sizes.iter().map(|size| u128::from(*size)).sum();
        if sum == 0 {
            return Err("a total of nothing".to_owned());
        }
        let mut position = 0_u128;
        let ends = sizes.iter().map(|size| {
            position += u128::from(*size);
            u64::try_from(position * u128::from(total) / sum).unwrap_or(u64::MAX)
        });
        let ends: Vec<u64> = std::iter::once(0).chain(ends).collect();
        Ok(Self::Table(ends.windows(2).map(|pair| pair[1] - pair[0]).collect()))
    }

    pub(super) fn size(&self, index: u64) -> u64 {
        match self {
            Self::Even { total, count } => {
                let end = |index: u64| u128::from(*total) * u128::from(index) / u128::from(*count);
                u64::try_from(end(index + 1) - end(index)).unwrap_or(u64::MAX)
            }
            Self::Table(sizes) => usize::try_from(index).ok().and_then(|index| sizes.get(index)).copied().unwrap_or(0),
            Self::Each(size) => *size,
            Self::Drawn(Distribution::List(sizes), _) => {
                sizes[usize::try_from(index % sizes.len() as u64).unwrap_or(0)].0
            }
            Self::Drawn(Distribution::Uniform(least, most), seed) => {
                Rng::with_seed(mixed(*seed, index)).u64(least.0..=most.0)
            }
            Self::Drawn(Distribution::Lognormal { median, sigma }, seed) => {
                let mut random = Rng::with_seed(mixed(*seed, index));
                // Box and Muller; 1 - u is never 0.
                let radius = (-2.0 * (1.0 - random.f64()).ln()).sqrt();
                let normal = radius * (std::f64::consts::TAU * random.f64()).cos();
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
                let size = (median.0 as f64 * (sigma * normal).exp()) as u64;
                size
            }
        }
    }
}

/// One number out of two, as if by chance.
pub(super) fn mixed(a: u64, b: u64) -> u64 {
    // The finaliser of SplitMix64.
    let mut value = a ^ b.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

/// A family, checked and ready.
#[derive(Debug, Clone)]
pub(super) struct Family {
    pub(super) pattern: KeyPattern,
    pub(super) sizes: Sizes,
    pub(super) seed: u64,
    pub(super) part_size: u64,
    pub(super) checksum: Option<Algorithm>,
    pub(super) true_etags: bool,
}

impl Family {
    pub(super) fn new(spec: &ObjectsSpec, seed: u64) -> Result<Self, String> {
        let checksum = match spec.checksum.as_str() {
            "none" => None,
            name => match Algorithm::parse(name) {
                Some(found @ Algorithm::Crc(_)) => Some(found),
                _ => return Err(format!("checksum {name:?} must be one of CRC64NVME, CRC32, CRC32C, none")),
            },
        };
        Ok(Self {
            pattern: KeyPattern::parse(&spec.keys, spec.count)?,
            sizes: Sizes::of(spec, seed)?,
            seed,
            part_size: spec.part_size.0,
            checksum,
            true_etags: spec.true_etags && spec.kms_key.is_none(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(json: &str) -> Result<Vec<u64>, String> {
        let spec: ObjectsSpec = serde_json::from_str(json).map_err(|error| error.to_string())?;
        let family = Family::new(&spec, 7)?;
        Ok((0..spec.count).map(|index| family.sizes.size(index)).collect())
    }

    #[test]
    fn sizes_are_as_told() {
        assert_eq!(sizes(r#"{"keys": "{i:01}", "count": 2, "size": "1.5 KiB"}"#), Ok(vec![1536, 1536]));
        assert_eq!(sizes(r#"{"keys": "{i:01}", "count": 3, "size": {"list": [1, "2 kB"]}}"#), Ok(vec![1, 2000, 1]));
        assert_eq!(sizes(r#"{"keys": "{i:01}", "count": 3, "total": 10}"#), Ok(vec![3, 3, 4]));
        let uniform = sizes(r#"{"keys": "{i:03}", "count": 500, "size": {"uniform": [5, 9]}}"#).unwrap();
        assert!((5..=9).all(|size| uniform.contains(&size)) && uniform.iter().all(|size| (5..=9).contains(size)));
        let drawn = sizes(
            r#"{"keys": "{i:03}", "count": 448, "size": {"lognormal": {"median": "20 GiB", "sigma": 0.5}}, "total": "11.88 TiB"}"#,
        )
        .unwrap();
        assert_eq!(drawn.iter().sum::<u64>(), "11.88TiB".parse::<ByteSize>().unwrap().0);
        assert!(drawn.iter().max() > drawn.iter().min());
    }

    #[test]
    fn wrong_families_are_refused_by_name() {
        for (json, told) in [
            (r#"{"keys": "k", "size": "many"}"#, "size"),
            (r#"{"keys": "k", "colour": 1}"#, "colour"),
            (r#"{"keys": "k", "checksum": "MD4"}"#, "MD4"),
            (r#"{"keys": "k", "size": {"uniform": [2, 1]}}"#, "uniform"),
        ] {
            let problem = sizes(json).unwrap_err();
            assert!(problem.contains(told), "{problem}");
        }
    }

    #[test]
    fn buckets_are_read_from_one_option() {
        let spec = parse_bucket("b=keys=r_{1,2}/{i:03};count=20;size=1 MiB;part-size=0").unwrap();
        let [family] = &spec.objects[..] else { panic!("one family") };
        assert_eq!((spec.name.as_str(), family.count, family.part_size), ("b", 20, ByteSize(0)));
        assert_eq!(family.size, SizeSpec::Each(ByteSize(1 << 20)));
        assert!(parse_bucket("b").unwrap().objects.is_empty());
        assert_eq!(parse_bucket(r#"b={"region": "eu-west-1"}"#).unwrap().region.as_deref(), Some("eu-west-1"));
        assert!(parse_bucket("b=size").unwrap_err().contains("FIELD=VALUE"));
    }
}
