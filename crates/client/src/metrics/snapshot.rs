//! A reading of all metrics of a budget.

use crate::budget::Budget;
use crate::budget::stats::{LatencyHistogram, OperationStats, PrefixClassStats};
use crate::budget::{AccessKind, Priority};

use super::names::{self, Metric};

/// A metric with its values. Without samples there is nothing to tell.
#[derive(Debug, Clone, PartialEq)]
pub struct Family {
    /// Name, type, labels and help text of the metric.
    pub metric: Metric,
    /// One for each set of labels.
    pub samples: Vec<Sample>,
}

/// A value with its labels.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// Values of the labels, in the order of their names.
    pub labels: Vec<String>,
    /// The value.
    pub value: Value,
}

/// Value of a metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value {
    /// Value of a counter or a gauge.
    Number(f64),
    /// Counts of a histogram.
    Histogram(LatencyHistogram),
}

/// Reads all metrics of the clients of this budget: totals so far, and present values. The number of samples is
/// bounded; the metrics are in the order of [`names::ALL`].
pub fn snapshot(budget: &Budget) -> Vec<Family> {
    let mut reading = MetricFamilies(names::ALL.map(|metric| Family { metric, samples: Vec::new() }).into());
    for class in budget.classes() {
        reading.class(&class);
    }
    for priority in Priority::ALL {
        let waits = budget.shared_waits(priority);
        for (metric, histogram) in [(names::MEMORY_WAIT, waits.memory), (names::BANDWIDTH_WAIT, waits.bandwidth)] {
            reading.add(metric, vec![priority.name().to_owned()], Value::Histogram(histogram));
        }
    }
    let stats = budget.stats();
    let limits = [
        (names::MEMORY_RESERVED, Some(budget.memory_reserved())),
        (names::MEMORY_LIMIT, Some(budget.memory_limit())),
        (names::MAX_REQUESTS, Some(stats.max_requests as u64)),
        (names::MAX_BANDWIDTH, stats.max_bandwidth),
    ];
    for (metric, value) in limits {
        if let Some(value) = value {
            reading.add(metric, Vec::new(), Value::Number(value as f64));
        }
    }
    reading.0
}

/// The families of all metrics, filled one sample at a time.
struct MetricFamilies(Vec<Family>);

impl MetricFamilies {
    fn add(&mut self, metric: Metric, labels: Vec<String>, value: Value) {
        if let Some(family) = self.0.iter_mut().find(|family| family.metric.name == metric.name) {
            family.samples.push(Sample { labels, value });
        }
    }

    fn class(&mut self, class: &PrefixClassStats) {
        let access = match class.access {
            AccessKind::Read => "read",
            AccessKind::Write => "write",
        };
        let labels = vec![class.bucket.clone(), class.prefix.clone(), access.to_owned()];
        let counted = &class.counted;
        let numbers = [
            (names::RETRIES, Some(counted.retries as f64)),
            (names::HEDGES, Some(counted.hedges as f64)),
            (names::IN_FLIGHT, Some(class.in_flight as f64)),
            (names::WAITING, Some(class.waiting as f64)),
            (names::WINDOW, Some(class.window as f64)),
            (names::RATE_LIMIT, class.rate),
        ];
        for (metric, value) in numbers {
            if let Some(value) = value {
                self.add(metric, labels.clone(), Value::Number(value));
            }
        }
        self.add(names::BUDGET_WAIT, labels.clone(), Value::Histogram(counted.wait));
        for operation in &counted.operations {
            self.operation(&labels, operation);
        }
    }

    fn operation(&mut self, class: &[String], stats: &OperationStats) {
        let with = |more: &[&str]| class.iter().cloned().chain(more.iter().map(|&one| one.to_owned())).collect();
        let outcomes = [
            ("ok", stats.worked),
            ("throttled", stats.throttled),
            ("failed", stats.failed),
            ("abandoned", stats.abandoned),
        ];
        for (outcome, count) in outcomes.into_iter().filter(|(_, count)| *count > 0) {
            self.add(names::REQUESTS, with(&[stats.operation, outcome]), Value::Number(count as f64));
        }
        self.add(names::REQUEST_BYTES, with(&[stats.operation]), Value::Number(stats.bytes as f64));
        self.add(names::REQUEST_SECONDS, with(&[stats.operation]), Value::Histogram(stats.latency));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::sync::Arc;

    use crate::budget::BudgetLimits;
    use seqferry_store::{Attributes, ObjectRef};
    use seqferry_store_testing::{MemoryStore, ObjectWriteExt as _};
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::{Endpoint, RequestMetrics, RetryPolicy, RetryingClient};

    fn number(families: &[Family], name: &str, labels: &[&str]) -> Option<f64> {
        let family = families.iter().find(|family| family.metric.name == name)?;
        match family.samples.iter().find(|sample| sample.labels == labels)?.value {
            Value::Number(number) => Some(number),
            Value::Histogram(histogram) => Some(histogram.total() as f64),
        }
    }

    #[tokio::test]
    async fn a_reading_tells_what_requests_came_to_by_prefix_class_and_operation() {
        let store = MemoryStore::default();
        store.create_bucket("runs");
        store.put("runs", "r1/a", "ACGT".into(), &Attributes::default()).await.expect("a bucket");
        let budget = Budget::new(BudgetLimits::default());
        let (cancel, metrics) = (CancellationToken::new(), Arc::new(RequestMetrics::default()));
        let client = RetryingClient::new(
            Endpoint::new(Arc::new(store)),
            Arc::clone(&budget),
            RetryPolicy::default(),
            cancel,
            metrics,
        )
        .within("r1/");
        for _ in 0..3 {
            client.head(ObjectRef::new("runs", "r1/a")).await.expect("an object");
        }
        client.head(ObjectRef::new("runs", "r1/b")).await.expect_err("no object");

        let families = snapshot(&budget);

        let class = ["runs", "r1/", "read"];
        let head = [class.as_slice(), &["HeadObject"]].concat();
        let outcome = |outcome| number(&families, "seqferry_requests_total", &[head.as_slice(), &[outcome]].concat());
        assert_eq!((outcome("ok"), outcome("failed"), outcome("throttled")), (Some(3.0), Some(1.0), None));
        assert_eq!(number(&families, "seqferry_request_duration_seconds", &head), Some(3.0));
        assert_eq!(number(&families, "seqferry_budget_wait_seconds", &class), Some(4.0));
        assert_eq!(number(&families, "seqferry_requests_in_flight", &class), Some(0.0));
        assert_eq!(number(&families, "seqferry_memory_limit_bytes", &[]), Some(f64::from(256 << 20)));
    }

    #[test]
    fn names_are_unique_and_say_their_unit_and_kind() {
        let names: HashSet<_> = names::ALL.iter().map(|metric| metric.name).collect();
        assert_eq!(names.len(), names::ALL.len());
        for metric in names::ALL {
            assert!(metric.name.starts_with("seqferry_"), "{metric:?}");
            assert_eq!(metric.name.ends_with("_total"), metric.kind == names::MetricKind::Counter, "{metric:?}");
            assert!(metric.kind != names::MetricKind::Histogram || metric.name.ends_with("_seconds"), "{metric:?}");
        }
    }

    #[test]
    fn families_come_in_the_order_of_their_names_and_with_all_their_labels() {
        let families = snapshot(&Budget::new(BudgetLimits::default()));

        assert!(families.iter().map(|family| family.metric).eq(names::ALL));
        for family in families {
            assert!(family.samples.iter().all(|sample| sample.labels.len() == family.metric.labels.len()));
        }
    }
}
