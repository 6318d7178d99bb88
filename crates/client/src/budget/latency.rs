//! Latencies by request class: an operation and an order of magnitude of bytes.
//!
//! The module measures the **base** of a class, its latency on a service that is not crowded, from which the window
//! computes crowding. It also decides when a request is so much slower than its class that a hedged request is
//! worthwhile.

use std::collections::HashMap;

/// Answers whose mean may become a base: a single fast answer is not representative.
const BLOCK: u32 = 16;
/// Classes that are remembered. A dozen operations with a few sizes each stay far below.
const CLASSES: usize = 256;
/// Buckets of the histogram. The first ends at a millisecond, each further one is 2^(1/4) wider, and the last begins
/// after 17 min.
const BUCKETS: usize = 81;
const SMALLEST: f64 = 0.001;
const PER_DOUBLING: f64 = 4.0;
/// Answers in a histogram at which all its counts are halved, so that it follows a service that changes.
const FULL: u32 = 2048;
/// Least number of answers from which a slow request can be recognised.
const ENOUGH: u32 = 64;
/// Factor over the 95th percentile from which a request is slow. With S3's guidelines (send the slowest 1-5 % again)
/// and a tail of four times the usual time, three times the median would come too late to win.
const SLOW: f64 = 1.5;
/// Least time in seconds of a slow request: below it another request costs more than the wait.
const SLOW_LEAST: f64 = 1.0;

/// Requests that take about the same time on the same service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct RequestClass {
    operation: &'static str,
    /// Bits of the number of bytes.
    magnitude: u32,
}

impl RequestClass {
    /// Returns the class of a request that moves `bytes`.
    pub(super) fn new(operation: &'static str, bytes: u64) -> Self {
        Self { operation, magnitude: u64::BITS - bytes.leading_zeros() }
    }

    pub(super) fn operation(self) -> &'static str {
        self.operation
    }
}

/// Latencies of one request class.
#[derive(Debug)]
struct ClassLatencies {
    base: Option<f64>,
    block: (u32, f64),
    histogram: [u32; BUCKETS],
    total: u32,
}

/// Latencies at one limiter, in seconds. Times are seconds since some start.
#[derive(Debug, Default)]
pub(super) struct Latencies {
    classes: HashMap<RequestClass, ClassLatencies>,
    /// Time from which requests count for the base.
    learn_from: f64,
}

impl Latencies {
    /// Records an answer. Returns the base of its class; None while the base is unknown, or when the request started
    /// before the base is measured.
    pub(super) fn note_answer(&mut self, class: RequestClass, started: f64, latency: f64) -> Option<f64> {
        if self.classes.len() >= CLASSES && !self.classes.contains_key(&class) {
            self.classes.clear();
        }
        let seen = self.classes.entry(class).or_insert_with(|| ClassLatencies {
            base: None,
            block: (0, 0.0),
            histogram: [0; BUCKETS],
            total: 0,
        });
        seen.count(latency);
        if started < self.learn_from {
            return None;
        }
        seen.block.0 += 1;
        seen.block.1 += latency;
        if seen.block.0 >= BLOCK {
            let mean = seen.block.1 / f64::from(seen.block.0);
            // A class that first appears on a crowded service gets too high a base until the bases are measured again.
            // The crowding of other classes is no substitute: theirs may be due to new connections.
            seen.base = Some(seen.base.map_or(mean, |base| base.min(mean)));
            seen.block = (0, 0.0);
        }
        seen.base
    }

    /// Measure all bases again, from requests that start from now on.
    pub(super) fn relearn(&mut self, now: f64) {
        self.learn_from = now;
        for seen in self.classes.values_mut() {
            (seen.base, seen.block) = (None, (0, 0.0));
        }
    }

    /// Seconds after which a request of this class is much slower than its peers. None while there are too few.
    pub(super) fn slow_after(&self, class: RequestClass) -> Option<f64> {
        let seen = self.classes.get(&class).filter(|seen| seen.total >= ENOUGH)?;
        Some((seen.quantile(0.95) * SLOW).max(SLOW_LEAST))
    }
}

impl ClassLatencies {
    fn count(&mut self, latency: f64) {
        if self.total >= FULL {
            self.histogram.iter_mut().for_each(|count| *count /= 2);
            self.total = self.histogram.iter().sum();
        }
        self.histogram[bucket(latency)] += 1;
        self.total += 1;
    }

    /// Upper end of the bucket in which this share of the answers is reached.
    fn quantile(&self, share: f64) -> f64 {
        let wanted = share * f64::from(self.total);
        let mut sum = 0.0;
        for (index, count) in self.histogram.iter().enumerate() {
            sum += f64::from(*count);
            if sum >= wanted {
                return SMALLEST * (index as f64 / PER_DOUBLING).exp2();
            }
        }
        f64::INFINITY
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to the buckets")]
fn bucket(latency: f64) -> usize {
    ((latency / SMALLEST).log2() * PER_DOUBLING).ceil().clamp(0.0, (BUCKETS - 1) as f64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part() -> RequestClass {
        RequestClass::new("UploadPartCopy", 128 << 20)
    }

    #[test]
    fn kinds_are_operations_of_about_the_same_size() {
        assert_eq!(RequestClass::new("UploadPartCopy", 128 << 20), RequestClass::new("UploadPartCopy", 200 << 20));
        assert_ne!(RequestClass::new("UploadPartCopy", 128 << 20), RequestClass::new("UploadPartCopy", 16 << 20));
        assert_ne!(RequestClass::new("UploadPartCopy", 0), RequestClass::new("HeadObject", 0));
    }

    #[test]
    fn the_base_is_the_least_mean_of_a_block_of_answers() {
        let mut latencies = Latencies::default();

        for _ in 0..BLOCK - 1 {
            assert_eq!(latencies.note_answer(part(), 0.0, 2.0), None);
        }
        assert_eq!(latencies.note_answer(part(), 0.0, 2.0), Some(2.0));
        for _ in 0..100 {
            assert_eq!(latencies.note_answer(part(), 0.0, 5.0), Some(2.0));
        }

        latencies.relearn(10.0);
        assert_eq!(latencies.note_answer(part(), 9.0, 5.0), None);
        for _ in 0..BLOCK {
            latencies.note_answer(part(), 10.0, 3.0);
        }
        assert_eq!(latencies.note_answer(part(), 10.0, 3.0), Some(3.0));
    }

    #[test]
    fn slow_is_what_peers_of_the_same_kind_hardly_ever_take() {
        let mut latencies = Latencies::default();
        assert_eq!(latencies.slow_after(part()), None);

        for _ in 0..10_000 {
            latencies.note_answer(part(), 0.0, 2.4);
        }
        let slow = latencies.slow_after(part()).unwrap_or_default();
        assert!((3.6..4.4).contains(&slow), "{slow}");
        assert_eq!(latencies.slow_after(RequestClass::new("HeadObject", 0)), None);
        for _ in 0..ENOUGH {
            latencies.note_answer(RequestClass::new("HeadObject", 0), 0.0, 0.03);
        }
        assert_eq!(latencies.slow_after(RequestClass::new("HeadObject", 0)), Some(SLOW_LEAST));
    }

    #[test]
    fn any_latency_has_a_bucket() {
        for latency in [0.0, 1e-9, 0.001, 1.0, 1e9, f64::INFINITY] {
            assert!(bucket(latency) < BUCKETS, "{latency}");
        }
        assert_eq!(bucket(0.001), 0);
    }
}
