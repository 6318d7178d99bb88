//! The model of the service: the time that a request takes, and `SlowDown`: a state machine over given times.
//!
//! It has no clock and no tasks: its user says when a request arrives and does the waiting. The HTTP server drives it
//! by the real clock, tests of the request governor by a paused one. The same options, seed and arrivals give the same
//! verdicts.
//!
//! **Time of a request**: `(base + bytes / rate) * (1 ± jitter)`; some requests, the slow tail, take a multiple of it.
//!
//! **Partitions**: a bucket begins as one partition, the range of all its keys. Each partition has a token bucket for
//! reads and one for writes; a request that finds none is answered `SlowDown`. A partition that has refused requests
//! for long enough splits at the middle of the keys that it refused, until the bucket has as many partitions as
//! allowed. A single key cannot be split.

use std::collections::HashMap;
use std::time::Duration;

use fastrand::Rng;
use serde::{Deserialize, Serialize};

const MIB: f64 = 1024.0 * 1024.0;

/// Refused keys that a partition remembers, to know where its load lies.
const REMEMBERED: usize = 64;
/// Refused requests for each key that is remembered.
const REMEMBER_EVERY: u64 = 16;

/// Time of one kind of request: `(base_seconds + bytes / rate) * (1 ± jitter)`, the factor evenly distributed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timing {
    /// Seconds, before the first byte.
    pub base_seconds: f64,
    /// Rate of one request in MiB/s; 0 for no limit.
    pub mib_per_second: f64,
    /// Half the width of the spread, as a share: 0.1 is ± 10 %. At most 1.
    pub jitter: f64,
}

impl Timing {
    const fn new(base_seconds: f64, mib_per_second: f64, jitter: f64) -> Self {
        Self { base_seconds, mib_per_second, jitter }
    }

    fn body_seconds(&self, bytes: u64) -> f64 {
        if self.mib_per_second > 0.0 { bytes as f64 / MIB / self.mib_per_second } else { 0.0 }
    }
}

/// Options of the service model. Seconds are of its own time; see the server's time scale.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelOptions {
    /// Requests that move no object bytes: HEAD, DELETE, tags, creating, completing, aborting. 0.15 s ± 1/3: S3's
    /// performance guidelines give roughly 100-200 ms for small objects and first bytes.
    pub small: Timing,
    /// A page of a listing: as `small`.
    pub list: Timing,
    /// GET: first byte as `small`; 85-90 MB/s for one request (the same guidelines), so 81 MiB/s.
    pub get: Timing,
    /// PUT and `UploadPart`: as `get`; no source gives another figure.
    pub put: Timing,
    /// `CopyObject`: `small`, then 57 MB/s = 54 MiB/s (renaming 4 GB took 72 s by one copy, s3fs-fuse PR 940).
    pub copy: Timing,
    /// `UploadPartCopy`: 0.8 s + bytes / 78 MiB/s ± 10 %. The line fits three sources: the `S3Mirror` paper (300 parts
    /// of 16 MiB in flight gave 4.1 GiB/s, 1,500 gave 24.9), AWS's C client (parts of 128 MiB about 4 s with everything
    /// around them, of 1 GiB 14-17 s; aws-c-s3 PR 288), and `S3Mirror`'s own code against a fake S3 with 1 s per part
    /// of 16 MiB (4.24 GiB/s). The jitter is assumed.
    pub part_copy: Timing,
    /// Share of requests in the slow tail. 0.01: S3's guidelines say to send the slowest 1 % again.
    pub tail_probability: f64,
    /// Factor by which requests in the slow tail take longer. 4, assumed.
    pub tail_factor: f64,
    /// PUT, COPY, POST and DELETE per second and partition. 3,500: S3's guidelines.
    pub writes_per_second: f64,
    /// GET and HEAD (here also LIST) per second and partition. 5,500: S3's guidelines.
    pub reads_per_second: f64,
    /// Seconds of its rate that an idle partition has saved up. 0.5, assumed.
    pub burst_seconds: f64,
    /// Seconds after which a `SlowDown` is answered. 0.02, assumed.
    pub slow_down_seconds: f64,
    /// Seconds of refusals after which a partition splits; null: never. 300: S3 documents "gradual", observers minutes.
    pub split_after_seconds: Option<f64>,
    /// Seconds without a refusal that end the overload, so that the wait for a split begins again. 10, assumed.
    pub calm_seconds: f64,
    /// Partitions that a bucket can have. 64, assumed.
    pub maximum_partitions: usize,
}

impl Default for ModelOptions {
    fn default() -> Self {
        let third = 1.0 / 3.0;
        Self {
            small: Timing::new(0.15, 0.0, third),
            list: Timing::new(0.15, 0.0, third),
            get: Timing::new(0.15, 81.0, third),
            put: Timing::new(0.15, 81.0, third),
            copy: Timing::new(0.15, 54.0, third),
            part_copy: Timing::new(0.8, 78.0, 0.1),
            tail_probability: 0.01,
            tail_factor: 4.0,
            writes_per_second: 3_500.0,
            reads_per_second: 5_500.0,
            burst_seconds: 0.5,
            slow_down_seconds: 0.02,
            split_after_seconds: Some(300.0),
            calm_seconds: 10.0,
            maximum_partitions: 64,
        }
    }
}

impl ModelOptions {
    /// A service that answers everything immediately and refuses nothing.
    pub fn instant() -> Self {
        let none = Timing::new(0.0, 0.0, 0.0);
        Self {
            small: none,
            list: none,
            get: none,
            put: none,
            copy: none,
            part_copy: none,
            tail_probability: 0.0,
            writes_per_second: 1e9,
            reads_per_second: 1e9,
            ..Self::default()
        }
    }

    /// Checks that each option is in its range.
    ///
    /// # Errors
    /// The first option that makes no sense, by name.
    pub fn check(&self) -> Result<(), String> {
        let timings = [
            ("small", &self.small),
            ("list", &self.list),
            ("get", &self.get),
            ("put", &self.put),
            ("copy", &self.copy),
            ("part_copy", &self.part_copy),
        ];
        for (name, timing) in timings {
            at_least(&format!("{name}.base_seconds"), timing.base_seconds, 0.0)?;
            at_least(&format!("{name}.mib_per_second"), timing.mib_per_second, 0.0)?;
            share(&format!("{name}.jitter"), timing.jitter)?;
        }
        share("tail_probability", self.tail_probability)?;
        at_least("tail_factor", self.tail_factor, 1.0)?;
        for (name, rate) in [("writes_per_second", self.writes_per_second), ("reads_per_second", self.reads_per_second)]
        {
            at_least(name, rate, f64::MIN_POSITIVE)?;
            // A bucket that never holds a whole token refuses everything.
            if rate * self.burst_seconds < 1.0 {
                return Err(format!(
                    "model: burst_seconds {} of {name} {rate} is less than one request",
                    self.burst_seconds
                ));
            }
        }
        at_least("burst_seconds", self.burst_seconds, 0.0)?;
        at_least("slow_down_seconds", self.slow_down_seconds, 0.0)?;
        at_least("split_after_seconds", self.split_after_seconds.unwrap_or(0.0), 0.0)?;
        at_least("calm_seconds", self.calm_seconds, 0.0)?;
        if self.maximum_partitions == 0 {
            return Err("model: maximum_partitions must be at least 1".to_owned());
        }
        Ok(())
    }
}

/// Longer times, higher rates and larger factors than this are mistakes.
const LARGEST: f64 = 1e12;

fn at_least(name: &str, value: f64, least: f64) -> Result<(), String> {
    if value >= least && value <= LARGEST {
        return Ok(());
    }
    let least = if least > 0.0 && least < 1.0 { "more than 0".to_owned() } else { format!("at least {least}") };
    Err(format!("model: {name} must be {least} and finite, not {value}"))
}

fn share(name: &str, value: f64) -> Result<(), String> {
    if (0.0..=1.0).contains(&value) {
        Ok(())
    } else {
        Err(format!("model: {name} must be between 0 and 1, not {value}"))
    }
}

/// Rate of a partition, reads or writes, that a request counts against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Load {
    /// GET, HEAD, LIST.
    Read,
    /// PUT, COPY, POST, DELETE.
    Write,
}

/// Work that a request asks of the service, as far as its time depends on it. Sizes in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelWork {
    /// No object bytes.
    Small,
    /// A page of a listing.
    List,
    /// Bytes to the client.
    Get {
        /// Length of the answer's body.
        bytes: u64,
    },
    /// Bytes from the client.
    Put {
        /// Length of the request's body.
        bytes: u64,
    },
    /// A whole object inside the service.
    Copy {
        /// Size of the object.
        bytes: u64,
    },
    /// A part inside the service.
    PartCopy {
        /// Length of the part.
        bytes: u64,
    },
}

/// Outcome of a request in the model. Times count from its arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModelVerdict {
    /// The request is carried out.
    Serve {
        /// Time until its answer is complete.
        after: Duration,
        /// Time until the answer's first byte can be sent: shorter than `after` only for GET.
        first_byte: Duration,
    },
    /// The request is refused.
    SlowDown {
        /// Time until the refusal is sent.
        after: Duration,
    },
}

/// The service: partitions with their tokens, and a source of chance.
#[derive(Debug)]
pub struct Model {
    options: ModelOptions,
    random: Rng,
    buckets: HashMap<Box<str>, Vec<Partition>>,
}

/// A range of keys, from `first` to the first key of the next partition.
#[derive(Debug)]
struct Partition {
    first: Box<str>,
    reads: Tokens,
    writes: Tokens,
    overload: Option<Overload>,
}

#[derive(Debug, Clone, Copy)]
struct Tokens {
    left: f64,
    at: f64,
}

impl Tokens {
    fn full(rate: f64, burst_seconds: f64, at: f64) -> Self {
        Self { left: rate * burst_seconds, at }
    }

    fn take(&mut self, rate: f64, burst_seconds: f64, now: f64) -> bool {
        let passed = (now - self.at).max(0.0);
        self.left = (self.left + passed * rate).min(rate * burst_seconds);
        self.at = self.at.max(now);
        let taken = self.left >= 1.0;
        if taken {
            self.left -= 1.0;
        }
        taken
    }
}

/// A time of refusals.
#[derive(Debug)]
struct Overload {
    since: f64,
    last: f64,
    refused: u64,
    keys: Vec<Box<str>>,
}

impl Partition {
    fn new(first: &str, options: &ModelOptions, now: f64) -> Self {
        Self {
            first: first.into(),
            reads: Tokens::full(options.reads_per_second, options.burst_seconds, now),
            writes: Tokens::full(options.writes_per_second, options.burst_seconds, now),
            overload: None,
        }
    }

    fn refuse(&mut self, key: &str, now: f64, calm: f64) {
        let begin = || Overload { since: now, last: now, refused: 0, keys: Vec::new() };
        let overload = self.overload.get_or_insert_with(begin);
        if now - overload.last > calm {
            *overload = begin();
        }
        overload.last = now;
        if overload.refused.is_multiple_of(REMEMBER_EVERY) {
            let slot = usize::try_from(overload.refused / REMEMBER_EVERY).unwrap_or(0) % REMEMBERED;
            if slot < overload.keys.len() {
                overload.keys[slot] = key.into();
            } else {
                overload.keys.push(key.into());
            }
        }
        overload.refused += 1;
    }

    /// Key at which to split, when the refusals have lasted long enough and touch more than one key.
    fn middle(&self, now: f64, split_after: f64) -> Option<Box<str>> {
        let overload = self.overload.as_ref().filter(|overload| now - overload.since >= split_after)?;
        let mut keys: Vec<&str> = overload.keys.iter().map(|key| &**key).collect();
        keys.sort_unstable();
        // The lower part keeps at least one of the keys.
        let middle = keys[keys.len() / 2];
        let middle = if middle > keys[0] { middle } else { keys.iter().copied().find(|key| *key > keys[0])? };
        (*middle > *self.first).then(|| middle.into())
    }
}

impl Model {
    /// A service at time 0, with nothing continuing.
    ///
    /// # Panics
    /// When the options fail [`ModelOptions::check`].
    pub fn new(options: ModelOptions, seed: u64) -> Self {
        if let Err(problem) = options.check() {
            panic!("{problem}");
        }
        Self { options, random: Rng::with_seed(seed), buckets: HashMap::new() }
    }

    /// Options of the service model.
    pub fn options(&self) -> &ModelOptions {
        &self.options
    }

    /// Takes a request that arrives at `now`, counted from the start. Times must not go back; one that does counts as
    /// the latest seen.
    pub fn arrive(&mut self, now: Duration, load: Load, bucket: &str, key: &str, work: ModelWork) -> ModelVerdict {
        let now = now.as_secs_f64();
        if !self.buckets.contains_key(bucket) {
            self.buckets.insert(bucket.into(), vec![Partition::new("", &self.options, now)]);
        }
        let admitted = match self.buckets.get_mut(bucket) {
            Some(partitions) => admit(partitions, &self.options, now, load, key),
            None => true,
        };
        if admitted {
            self.time(work)
        } else {
            ModelVerdict::SlowDown { after: Duration::from_secs_f64(self.options.slow_down_seconds) }
        }
    }

    /// Makes a partition begin at `key`, as the service does after long load. Does nothing where one begins already.
    pub fn split(&mut self, now: Duration, bucket: &str, key: &str) {
        let now = now.as_secs_f64();
        let options = &self.options;
        let partitions = self.buckets.entry(bucket.into()).or_insert_with(|| vec![Partition::new("", options, now)]);
        let index = partitions.partition_point(|partition| *partition.first < *key);
        if partitions.get(index).is_none_or(|partition| *partition.first != *key) {
            partitions.insert(index, Partition::new(key, options, now));
        }
    }

    /// First keys of a bucket's partitions, in order; the first one is empty.
    pub fn partitions(&self, bucket: &str) -> Vec<String> {
        self.buckets.get(bucket).into_iter().flatten().map(|partition| partition.first.to_string()).collect()
    }

    fn time(&mut self, work: ModelWork) -> ModelVerdict {
        let options = &self.options;
        let (timing, bytes) = match work {
            ModelWork::Small => (&options.small, 0),
            ModelWork::List => (&options.list, 0),
            ModelWork::Get { bytes } => (&options.get, bytes),
            ModelWork::Put { bytes } => (&options.put, bytes),
            ModelWork::Copy { bytes } => (&options.copy, bytes),
            ModelWork::PartCopy { bytes } => (&options.part_copy, bytes),
        };
        // Both drawn always, so that a run with other options meets the same chance.
        let (spread, tail) = (self.random.f64(), self.random.f64());
        let mut factor = 1.0 + timing.jitter * (2.0 * spread - 1.0);
        if tail < options.tail_probability {
            factor *= options.tail_factor;
        }
        let seconds = |value: f64| Duration::try_from_secs_f64(value).unwrap_or(Duration::MAX);
        let after = seconds(factor * (timing.base_seconds + timing.body_seconds(bytes)));
        let first_byte =
            if matches!(work, ModelWork::Get { .. }) { seconds(factor * timing.base_seconds) } else { after };
        ModelVerdict::Serve { after, first_byte }
    }
}

fn admit(partitions: &mut Vec<Partition>, options: &ModelOptions, now: f64, load: Load, key: &str) -> bool {
    let index = partitions.partition_point(|partition| *partition.first <= *key).saturating_sub(1);
    let room = partitions.len() < options.maximum_partitions;
    let partition = &mut partitions[index];
    let (tokens, rate) = match load {
        Load::Read => (&mut partition.reads, options.reads_per_second),
        Load::Write => (&mut partition.writes, options.writes_per_second),
    };
    if tokens.take(rate, options.burst_seconds, now) {
        return true;
    }
    partition.refuse(key, now, options.calm_seconds);
    let middle = options.split_after_seconds.filter(|_| room).and_then(|after| partition.middle(now, after));
    if let Some(middle) = middle {
        partition.overload = None;
        partitions.insert(index + 1, Partition::new(&middle, options, now));
    }
    false
}
