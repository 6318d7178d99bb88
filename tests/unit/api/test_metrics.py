"""The metrics of the engine and of the control plane, and the page that explains them."""

from __future__ import annotations

import re
from pathlib import Path

from seqferry.api import gateway_metrics, metrics
from seqferry.engine.engine import Engine

PAGE = Path(__file__).parents[3] / "docs" / "operate" / "metrics.md"


def test_each_metric_is_on_the_page_with_its_kind_and_labels() -> None:
    rows = re.findall(r"^\| `(seqferry_\w+)` \| (\w+) \|([^|]*)\|", PAGE.read_text(), re.MULTILINE)

    named = [*Engine(max_requests=10).stats().metrics, *metrics.NAMES, *gateway_metrics.NAMES]

    assert [(name, kind, labels.strip()) for name, kind, labels in rows] == [
        (metric.name, metric.kind, ", ".join(metric.labels)) for metric in named
    ]


def test_histograms_have_a_count_for_each_bound_and_one_beyond() -> None:
    stats = Engine(max_requests=10).stats()
    bounds = stats.latency_bounds

    assert bounds == sorted(bounds)
    assert (bounds[0], bounds[1]) == (0.001, 0.002)
    for metric in stats.metrics:
        for sample in metric.samples:
            assert len(sample.labels) == len(metric.labels)
            assert len(sample.counts) == (len(bounds) + 1 if metric.kind == "histogram" else 0)
