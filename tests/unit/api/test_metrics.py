"""The metrics of the engine and of the control plane, and the page that explains them."""

from __future__ import annotations

import json
import re
import socket
import urllib.request
from contextlib import ExitStack
from pathlib import Path

from seqferry.api import gateway_metrics, metrics
from seqferry.engine.engine import Engine

PAGE = Path(__file__).parents[3] / "docs" / "operate" / "metrics.md"


def test_each_metric_is_on_the_page_with_its_kind_and_labels() -> None:
    rows = re.findall(r"^\| `(seqferry_\w+)` \| (\w+) \|([^|]*)\|", PAGE.read_text(), re.MULTILINE)

    named = [*Engine(max_requests=10).stats().metrics, *metrics.METRICS, *gateway_metrics.METRICS]

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


def test_health_of_a_gateway_is_told_beside_many_requests_that_are_sent_by_half() -> None:
    port = gateway_metrics.serve("127.0.0.1", 0, lambda: json.dumps({"is_healthy": True, "shares": []}))
    with ExitStack() as stack:
        half = [stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=30)) for _ in range(200)]
        for connection in half:
            connection.sendall(b"GET /healthz HTTP/1.1\r\n")

        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=30) as answer:
            assert json.loads(answer.read()) == {"status": "ok"}

        half[0].settimeout(5)  # half of the time that it has for its request
        assert half[0].recv(1) == b"", "the oldest has given its place up"
