//! Counters of the engine, converted to Python.

use std::path::PathBuf;

use pyo3::prelude::*;
use seqferry_client::budget::stats::latency_bounds;
use seqferry_client::metrics::{Family, Value};
use seqferry_client::trace;

#[pyclass(frozen, get_all, module = "seqferry._native")]
pub struct EngineStats {
    requests: u64,
    in_flight: u64,
    throttled: u64,
    hedges: u64,
    retries: u64,
    bytes: u64,
    waited: f64,
    busy: f64,
    max_requests: u64,
    max_bandwidth: Option<u64>,
    latency_bounds: Vec<f64>,
    metrics: Vec<Metric>,
}

#[pyclass(frozen, get_all, module = "seqferry._native")]
#[derive(Clone)]
pub struct Metric {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    labels: Vec<&'static str>,
    samples: Vec<MetricSample>,
}

#[pyclass(frozen, get_all, module = "seqferry._native")]
#[derive(Clone)]
pub struct MetricSample {
    labels: Vec<String>,
    value: f64,
    counts: Vec<u64>,
}

impl From<Family> for Metric {
    fn from(family: Family) -> Self {
        let samples = family.samples.into_iter().map(|sample| {
            let (value, counts) = match sample.value {
                Value::Number(number) => (number, Vec::new()),
                Value::Histogram(histogram) => (histogram.sum.as_secs_f64(), histogram.counts.to_vec()),
            };
            MetricSample { labels: sample.labels, value, counts }
        });
        Self {
            name: family.metric.name,
            kind: family.metric.kind.word(),
            help: family.metric.help,
            labels: family.metric.labels.to_vec(),
            samples: samples.collect(),
        }
    }
}

impl From<seqferry_transfer::EngineStats> for EngineStats {
    fn from(stats: seqferry_transfer::EngineStats) -> Self {
        let seqferry_transfer::EngineStats { budget, metrics } = stats;
        Self {
            requests: budget.requests,
            in_flight: budget.in_flight as u64,
            throttled: budget.throttled,
            hedges: budget.hedges,
            retries: budget.retries,
            bytes: budget.bytes,
            waited: budget.waited.as_secs_f64(),
            busy: budget.busy.as_secs_f64(),
            max_requests: budget.max_requests as u64,
            max_bandwidth: budget.max_bandwidth,
            latency_bounds: latency_bounds().to_vec(),
            metrics: metrics.into_iter().map(Metric::from).collect(),
        }
    }
}

#[pyfunction]
#[pyo3(signature = (file))]
pub fn start_trace(file: Option<PathBuf>) -> PyResult<()> {
    Ok(trace::start(file.as_deref())?)
}
