"""Metrics for Prometheus: those of this process's engine, and those of the control plane, from the database.

The engine names its own (``crates/client/src/metrics/names.rs``); those of the control plane are named here and nowhere
else. ``docs/operate/metrics.md`` explains both. Series are per transfer, for those that have not ended; never per key.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import TYPE_CHECKING, Final, Literal

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from seqferry.db.notice_rows import GIVEN_UP, PENDING, SENT
from seqferry.db.paging import TransferFilter
from seqferry.engine.engine import version
from seqferry.model.frozen import frozen
from seqferry.model.models import ENDED_TRANSFER_STATES, Status

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from seqferry.engine.engine import EngineStats
    from seqferry.service.service import Service

MOST_TRANSFERS: Final = 200
"""Unfinished transfers with series of their own, the newest: each has some 15 lines."""


@frozen
class MetricDefinition:
    name: str
    kind: Literal["counter", "gauge"]
    labels: tuple[str, ...]
    help: str


_TRANSFER: Final = ("transfer", "operation")

METRICS: Final = (
    MetricDefinition("seqferry_build_info", "gauge", ("version",), "always 1"),
    MetricDefinition("seqferry_workers", "gauge", (), "workers that are alive"),
    MetricDefinition("seqferry_wanted_workers", "gauge", (), "workers that the open work asks for, for an autoscaler"),
    MetricDefinition(
        "seqferry_wanted_workers_knee", "gauge", (), "workers beyond which more are of no use, where that was seen"
    ),
    MetricDefinition(
        "seqferry_backlog_bytes", "gauge", (), "bytes that are not at the target, of transfers that can go on"
    ),
    MetricDefinition("seqferry_backlog_requests", "gauge", (), "requests that these need, estimated"),
    MetricDefinition(
        "seqferry_backlog_batches", "gauge", (), "batches that have not ended, of transfers that can go on"
    ),
    MetricDefinition(
        "seqferry_worker_alone_bytes_per_second", "gauge", (), "what one worker does by itself, for the wish"
    ),
    MetricDefinition("seqferry_worker_alone_requests_per_second", "gauge", (), "the same in requests"),
    MetricDefinition("seqferry_transfers", "gauge", ("state",), "transfers on record"),
    MetricDefinition(
        "seqferry_queue_batches", "gauge", ("state",), "batches of unfinished transfers, queued or active"
    ),
    MetricDefinition("seqferry_queue_objects", "gauge", (), "objects that were found and have not ended"),
    MetricDefinition("seqferry_queue_bytes", "gauge", (), "bytes that were found and are not at the target"),
    MetricDefinition(
        "seqferry_oldest_waiting_seconds", "gauge", (), "since the oldest transfer was submitted that none has begun"
    ),
    MetricDefinition("seqferry_oldest_running_seconds", "gauge", (), "since the oldest unfinished transfer was begun"),
    MetricDefinition("seqferry_notices", "gauge", ("state",), "notices on record: pending, sent, or given_up"),
    MetricDefinition(
        "seqferry_oldest_notice_seconds", "gauge", (), "since the oldest notice was made that is still to be sent"
    ),
    MetricDefinition("seqferry_database_reading_seconds", "gauge", (), "that the database took for these metrics"),
    MetricDefinition(
        "seqferry_objects_total", "counter", ("outcome",), "objects that have ended, of all transfers on record"
    ),
    MetricDefinition("seqferry_bytes_total", "counter", (), "bytes at their target, of all transfers on record"),
    MetricDefinition("seqferry_transfer_objects", "gauge", (*_TRANSFER, "state"), "objects of an unfinished transfer"),
    MetricDefinition("seqferry_transfer_size_bytes", "gauge", _TRANSFER, "bytes that were found"),
    MetricDefinition(
        "seqferry_transfer_done_bytes", "gauge", _TRANSFER, "bytes at the target, with parts of unfinished objects"
    ),
    MetricDefinition(
        "seqferry_transfer_bytes_per_second", "gauge", _TRANSFER, "what its workers moved in the last seconds"
    ),
    MetricDefinition("seqferry_transfer_requests_in_flight", "gauge", _TRANSFER, "requests that its workers wait for"),
    MetricDefinition("seqferry_transfer_requests", "gauge", _TRANSFER, "requests since its workers took it up"),
    MetricDefinition("seqferry_transfer_retries", "gauge", _TRANSFER, "of these, sent again after a failure"),
    MetricDefinition(
        "seqferry_transfer_throttled", "gauge", _TRANSFER, "of these, that the service asked to slow down for"
    ),
    MetricDefinition("seqferry_transfer_workers", "gauge", _TRANSFER, "workers at it"),
)
"""The metrics of the control plane."""

Sample = tuple[tuple[str, ...], float]


def registry(service: Service) -> CollectorRegistry:
    """The metrics of this process and its database, read at each scrape."""
    made = CollectorRegistry()
    ProcessCollector(registry=made)
    made.register(_EngineCollector(service))
    made.register(_DatabaseCollector(service))
    return made


class _EngineCollector(Collector):
    def __init__(self, service: Service) -> None:
        self._service = service

    def describe(self) -> Iterable[Metric]:
        return ()  # else all would be read at the registration

    def collect(self) -> Iterator[Metric]:
        return engine_samples(self._service.engine.stats())


class _DatabaseCollector(Collector):
    def __init__(self, service: Service) -> None:
        self._service = service

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterator[Metric]:
        samples = control_samples(self._service)
        for one in METRICS:
            family = (CounterMetricFamily if one.kind == "counter" else GaugeMetricFamily)(
                one.name.removesuffix("_total"), one.help, labels=one.labels
            )
            for labels, value in samples[one.name]:
                family.add_metric(labels, value)
            yield family


def engine_samples(stats: EngineStats) -> Iterator[Metric]:
    """The engine's own metrics."""
    bounds = [*map(repr, stats.latency_bounds), "+Inf"]
    for metric in stats.metrics:
        if metric.kind == "histogram":
            histogram = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
            for sample in metric.samples:
                buckets = list(zip(bounds, accumulate(sample.counts), strict=True))
                histogram.add_metric(sample.labels, buckets=buckets, sum_value=sample.value)
            yield histogram
            continue
        kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
        family = kind(metric.name.removesuffix("_total"), metric.help, labels=metric.labels)
        for sample in metric.samples:
            family.add_metric(sample.labels, sample.value)
        yield family


def control_samples(service: Service) -> dict[str, list[Sample]]:
    """Values of all ``METRICS``."""
    began = time.monotonic()
    gauges = service.gauges()
    samples: dict[str, list[Sample]] = {one.name: [] for one in METRICS}
    samples["seqferry_build_info"].append(((version(),), 1))
    samples["seqferry_workers"].append(((), gauges.workers))
    wish = service.autoscale()
    samples["seqferry_wanted_workers"].append(((), wish.wanted_workers))
    if wish.knee is not None:
        samples["seqferry_wanted_workers_knee"].append(((), wish.knee))
    samples["seqferry_backlog_bytes"].append(((), wish.backlog_bytes))
    samples["seqferry_backlog_requests"].append(((), wish.backlog_requests))
    samples["seqferry_backlog_batches"].append(((), wish.open_batches))
    samples["seqferry_worker_alone_bytes_per_second"].append(((), wish.bytes_per_second_alone))
    samples["seqferry_worker_alone_requests_per_second"].append(((), wish.requests_per_second_alone))
    samples["seqferry_transfers"] += [((state,), count) for state, count in sorted(gauges.transfers.items())]
    for state in ("queued", "active"):
        samples["seqferry_queue_batches"].append(((state,), gauges.batches.get(state, 0)))
    samples["seqferry_queue_objects"].append(((), gauges.objects_left))
    samples["seqferry_queue_bytes"].append(((), gauges.bytes_left))
    samples["seqferry_oldest_waiting_seconds"].append(((), gauges.oldest_waiting))
    samples["seqferry_oldest_running_seconds"].append(((), gauges.oldest_running))
    for state in (PENDING, SENT, GIVEN_UP):
        samples["seqferry_notices"].append(((state,), gauges.notices.get(state, 0)))
    samples["seqferry_oldest_notice_seconds"].append(((), gauges.oldest_notice))
    samples["seqferry_objects_total"] += [((outcome,), count) for outcome, count in gauges.objects.items()]
    samples["seqferry_bytes_total"].append(((), gauges.bytes_done))
    unfinished = tuple(sorted(gauges.transfers.keys() - ENDED_TRANSFER_STATES))
    if unfinished:
        for status in service.transfer_page(TransferFilter(states=unfinished), limit=MOST_TRANSFERS).entries:
            _add_transfer(samples, status)
    samples["seqferry_database_reading_seconds"].append(((), time.monotonic() - began))
    return samples


def _add_transfer(samples: dict[str, list[Sample]], status: Status) -> None:
    labels = (status.id, status.spec.operation)
    totals, live = status.totals, status.live
    states = {"open": totals.objects - totals.ended} | {
        name: getattr(totals, name) for name in ("done", "skipped", "failed", "cancelled")
    }
    samples["seqferry_transfer_objects"] += [((*labels, state), count) for state, count in states.items()]
    for name, value in {
        "size_bytes": totals.bytes,
        "done_bytes": totals.bytes_done,
        "bytes_per_second": live.bytes_per_second,
        "requests_in_flight": live.in_flight,
        "requests": live.requests,
        "retries": live.retries,
        "throttled": live.throttled,
        "workers": live.workers,
    }.items():
        samples[f"seqferry_transfer_{name}"].append((labels, value))
