//! Counters of a budget: requests by prefix class and operation, their latencies, and their waits.
//!
//! A **prefix class** is the scope of a prefix limiter: reads or writes below one prefix of a bucket. At most
//! [`PREFIX_CLASSES`] have a name. All others count together, reads and writes separately, so that the size of the
//! counters does not grow with the number of prefixes. Counters never fall, with one exception: a class that loses its
//! name to a busier one starts again at zero, and its counts are added to the others'.

use std::time::Duration;

use super::{AccessKind, RequestOutcome};

/// Prefix classes that are reported by name: 16 prefixes, read and written. A scrape of all of them takes some 15 ms.
pub const PREFIX_CLASSES: usize = 32;

/// Buckets of a histogram. The first holds durations up to a millisecond, each further one doubles the bound, and the
/// last holds durations above 131 s.
pub const LATENCY_BUCKETS: usize = 19;

/// The upper ends of the buckets in seconds, without the last bucket, which has none.
pub fn latency_bounds() -> [f64; LATENCY_BUCKETS - 1] {
    let mut seconds = 0.0005;
    [(); LATENCY_BUCKETS - 1].map(|()| {
        seconds *= 2.0;
        seconds
    })
}

/// Histogram of durations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LatencyHistogram {
    /// Number of durations in each bucket (see [`latency_bounds`]).
    pub counts: [u64; LATENCY_BUCKETS],
    /// Sum of all durations.
    pub sum: Duration,
}

impl LatencyHistogram {
    /// Counts one duration.
    pub fn count(&mut self, took: Duration) {
        self.counts[bucket(took)] += 1;
        self.sum += took;
    }

    /// Number of durations counted.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Adds the counts of another.
    pub fn add(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            *count += more;
        }
        self.sum += other.sum;
    }
}

fn bucket(took: Duration) -> usize {
    // Whole milliseconds that have passed: their bits count the doublings.
    let passed = took.as_micros().saturating_sub(1) / 1000;
    ((u128::BITS - passed.leading_zeros()) as usize).min(LATENCY_BUCKETS - 1)
}

/// Outcomes of the requests of one operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OperationStats {
    /// S3's name.
    pub operation: &'static str,
    /// Requests that did their work.
    pub worked: u64,
    /// Requests that the service refused for lack of capacity.
    pub throttled: u64,
    /// Requests that failed for other reasons.
    pub failed: u64,
    /// Requests cancelled before their answer, by the caller or because a hedged request was faster.
    pub abandoned: u64,
    /// Object bytes that the requests which did their work moved.
    pub bytes: u64,
    /// Times from the start to the last byte of requests that did their work.
    pub latency: LatencyHistogram,
}

impl OperationStats {
    fn new(operation: &'static str) -> Self {
        let latency = LatencyHistogram::default();
        Self { operation, worked: 0, throttled: 0, failed: 0, abandoned: 0, bytes: 0, latency }
    }

    /// Requests that have ended.
    pub fn ended(&self) -> u64 {
        self.worked + self.throttled + self.failed + self.abandoned
    }

    fn add(&mut self, other: &Self) {
        self.worked += other.worked;
        self.throttled += other.throttled;
        self.failed += other.failed;
        self.abandoned += other.abandoned;
        self.bytes += other.bytes;
        self.latency.add(&other.latency);
    }
}

/// Counts and present state of one prefix class.
#[derive(Debug, Clone, PartialEq)]
pub struct PrefixClassStats {
    /// Bucket; empty for all classes without a name.
    pub bucket: String,
    /// Prefix of the keys; empty also for all classes without a name.
    pub prefix: String,
    /// Reads or writes.
    pub access: AccessKind,
    /// Requests that have not ended.
    pub in_flight: usize,
    /// Requests that wait to begin.
    pub waiting: usize,
    /// Requests that may be in flight; for classes without a name, their sum.
    pub window: usize,
    /// Requests that may begin per second; None while the service has never throttled, and for classes without a name.
    pub rate: Option<f64>,
    /// The counters.
    pub counted: RequestCounts,
}

impl PrefixClassStats {
    /// Statistics of all classes without a name, before the requests in flight are added.
    pub(super) fn of_others(access: AccessKind, counted: RequestCounts) -> Self {
        let (bucket, prefix) = (String::new(), String::new());
        Self { bucket, prefix, access, in_flight: 0, waiting: 0, window: 0, rate: None, counted }
    }
}

/// Counters of requests.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestCounts {
    /// Requests begun.
    pub begun: u64,
    /// Requests sent again after a failure.
    pub retries: u64,
    /// Requests sent a second time because the first was slow.
    pub hedges: u64,
    /// Waits for the right to begin.
    pub wait: LatencyHistogram,
    /// Counters by operation, in the order of first use.
    pub operations: Vec<OperationStats>,
}

impl RequestCounts {
    /// Records the end of a request.
    pub(super) fn note_end(&mut self, operation: &'static str, bytes: u64, took: Duration, how: RequestOutcome) {
        let counted = self.operation(operation);
        match how {
            RequestOutcome::Worked => {
                counted.worked += 1;
                counted.bytes += bytes;
                counted.latency.count(took);
            }
            RequestOutcome::Throttled => counted.throttled += 1,
            RequestOutcome::Failed => counted.failed += 1,
            RequestOutcome::Abandoned => counted.abandoned += 1,
        }
    }

    fn operation(&mut self, operation: &'static str) -> &mut OperationStats {
        let known = self.operations.iter().position(|one| one.operation == operation);
        let index = known.unwrap_or_else(|| {
            self.operations.push(OperationStats::new(operation));
            self.operations.len() - 1
        });
        &mut self.operations[index]
    }

    /// Adds the counts of another.
    pub(super) fn add(&mut self, other: &Self) {
        self.begun += other.begun;
        self.retries += other.retries;
        self.hedges += other.hedges;
        self.wait.add(&other.wait);
        for operation in &other.operations {
            self.operation(operation.operation).add(operation);
        }
    }

    /// Requests that the service refused for lack of capacity.
    pub fn throttled(&self) -> u64 {
        self.operations.iter().map(|one| one.throttled).sum()
    }

    /// Object bytes that were moved.
    pub fn bytes(&self) -> u64 {
        self.operations.iter().map(|one| one.bytes).sum()
    }
}

/// Waits of one priority for the resources that all prefix classes share.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SharedWaits {
    /// Waits for memory.
    pub memory: LatencyHistogram,
    /// Waits for bandwidth, before a request begins.
    pub bandwidth: LatencyHistogram,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_holds_what_took_up_to_its_bound() {
        for (index, seconds) in latency_bounds().into_iter().enumerate() {
            let bound = Duration::from_secs_f64(seconds);
            assert_eq!(bucket(bound), index, "{seconds} s");
            assert_eq!(bucket(bound + Duration::from_micros(1)), index + 1, "more than {seconds} s");
        }
        assert_eq!(bucket(Duration::ZERO), 0);
        assert_eq!(bucket(Duration::MAX), LATENCY_BUCKETS - 1);
    }

    #[test]
    fn counters_add_up() {
        let mut one = RequestCounts::default();
        one.note_end("GetObject", 10, Duration::from_millis(3), RequestOutcome::Worked);
        one.note_end("GetObject", 10, Duration::from_millis(3), RequestOutcome::Throttled);
        let mut both = RequestCounts { retries: 1, ..RequestCounts::default() };
        both.note_end("HeadObject", 0, Duration::from_millis(1), RequestOutcome::Abandoned);

        both.add(&one);
        both.add(&one);

        assert_eq!((both.bytes(), both.throttled(), both.retries), (20, 2, 1));
        let names: Vec<_> = both.operations.iter().map(|one| (one.operation, one.ended())).collect();
        assert_eq!(names, [("HeadObject", 1), ("GetObject", 4)]);
        assert_eq!((both.operations[1].latency.total(), both.operations[1].latency.sum.as_millis()), (2, 6));
    }
}
