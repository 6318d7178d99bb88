//! The names of all metrics of the engine, with their kinds, labels and meaning, for all interfaces and samplers.
//!
//! Names follow Prometheus: a unit as suffix, `_total` for counters. Labels are never keys: `bucket` and `prefix` are
//! those of a prefix class ([`crate::budget::stats`]), of which a bounded number exists; both are empty for
//! all others together. `docs/operate/metrics.md` explains them to people.

/// Type of a metric: it says how the values are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// Grows, or begins again.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts in buckets of [`latency_bounds`](crate::budget::stats::latency_bounds) seconds.
    Histogram,
}

impl MetricKind {
    /// Prometheus' word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// A metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// Type of its values.
    pub kind: MetricKind,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// One sentence.
    pub help: &'static str,
}

const CLASS: &[&str] = &["bucket", "prefix", "access"];
const OPERATION: &[&str] = &["bucket", "prefix", "access", "operation"];
const OUTCOME: &[&str] = &["bucket", "prefix", "access", "operation", "outcome"];
const PRIORITY: &[&str] = &["priority"];
const NONE: &[&str] = &[];

const fn counter(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Metric {
    Metric { name, kind: MetricKind::Counter, labels, help }
}

const fn gauge(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Metric {
    Metric { name, kind: MetricKind::Gauge, labels, help }
}

const fn histogram(name: &'static str, labels: &'static [&'static str], help: &'static str) -> Metric {
    Metric { name, kind: MetricKind::Histogram, labels, help }
}

/// Requests by outcome.
pub const REQUESTS: Metric = counter(
    "seqferry_requests_total",
    OUTCOME,
    "Requests that have ended; the outcome is ok, throttled, failed or abandoned.",
);
/// Latencies.
pub const REQUEST_SECONDS: Metric = histogram(
    "seqferry_request_duration_seconds",
    OPERATION,
    "Requests that did their work, from their start to the last byte.",
);
/// Bytes.
pub const REQUEST_BYTES: Metric = counter(
    "seqferry_request_bytes_total",
    OPERATION,
    "Object bytes that requests moved, within the service or through the process.",
);
/// Retries.
pub const RETRIES: Metric = counter("seqferry_request_retries_total", CLASS, "Requests sent again after a failure.");
/// Hedged requests.
pub const HEDGES: Metric =
    counter("seqferry_request_hedges_total", CLASS, "Requests sent a second time because the first was slow.");
/// Requests in flight.
pub const IN_FLIGHT: Metric = gauge("seqferry_requests_in_flight", CLASS, "Requests that have not ended.");
/// Requests that wait.
pub const WAITING: Metric = gauge("seqferry_requests_waiting", CLASS, "Requests that wait to begin.");
/// Windows.
pub const WINDOW: Metric = gauge("seqferry_request_window", CLASS, "Requests that may be in flight.");
/// Rates.
pub const RATE_LIMIT: Metric =
    gauge("seqferry_request_rate_limit", CLASS, "Requests that may begin per second, where the service has throttled.");
/// Waits for a permit.
pub const BUDGET_WAIT: Metric =
    histogram("seqferry_budget_wait_seconds", CLASS, "Waits of requests for the right to begin.");
/// Waits for memory.
pub const MEMORY_WAIT: Metric =
    histogram("seqferry_memory_wait_seconds", PRIORITY, "Waits for memory to hold object bytes.");
/// Waits for bandwidth.
pub const BANDWIDTH_WAIT: Metric =
    histogram("seqferry_bandwidth_wait_seconds", PRIORITY, "Waits for bandwidth before a request begins.");
/// Reserved memory.
pub const MEMORY_RESERVED: Metric =
    gauge("seqferry_memory_reserved_bytes", NONE, "Memory that is reserved for object bytes.");
/// The limit of memory.
pub const MEMORY_LIMIT: Metric = gauge("seqferry_memory_limit_bytes", NONE, "Memory that may be reserved.");
/// The limit of requests.
pub const MAX_REQUESTS: Metric = gauge("seqferry_max_requests", NONE, "Requests that may be in flight in the process.");
/// The limit of bandwidth.
pub const MAX_BANDWIDTH: Metric = gauge(
    "seqferry_max_bandwidth_bytes_per_second",
    NONE,
    "Bytes per second that may pass through the process, where there is a limit.",
);

/// All of them, in the order in which they are shown.
pub const ALL: [Metric; 16] = [
    REQUESTS,
    REQUEST_SECONDS,
    REQUEST_BYTES,
    RETRIES,
    HEDGES,
    IN_FLIGHT,
    WAITING,
    WINDOW,
    RATE_LIMIT,
    BUDGET_WAIT,
    MEMORY_WAIT,
    BANDWIDTH_WAIT,
    MEMORY_RESERVED,
    MEMORY_LIMIT,
    MAX_REQUESTS,
    MAX_BANDWIDTH,
];
