"""Metrics and health of a gateway, at an address of their own without a token.

The values are those of ``seqferry gateway status``; ``docs/operate/metrics.md`` explains them. Labels are names of
shares, never keys.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from seqferry.api.metrics import MetricDefinition

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment
    from prometheus_client.core import Metric

_SHARE: Final = ("share",)

METRICS: Final = (
    MetricDefinition(
        "seqferry_gateway_healthy", "gauge", (), "1, or 0 when a share acknowledges or uploads nothing any more"
    ),
    MetricDefinition("seqferry_gateway_draining", "gauge", (), "1 while the gateway takes no changes"),
    MetricDefinition(
        "seqferry_gateway_dirty_files", "gauge", _SHARE, "files that the bucket does not have as the share shows them"
    ),
    MetricDefinition("seqferry_gateway_dirty_bytes", "gauge", _SHARE, "their bytes"),
    MetricDefinition(
        "seqferry_gateway_oldest_dirty_seconds", "gauge", _SHARE, "since the last change of the oldest of them"
    ),
    MetricDefinition("seqferry_gateway_uploading_files", "gauge", _SHARE, "files that are sent just now"),
    MetricDefinition("seqferry_gateway_failing_files", "gauge", _SHARE, "files and removals whose last attempt failed"),
    MetricDefinition(
        "seqferry_gateway_held_markers", "gauge", _SHARE, "completion markers that wait for older files, up to 100"
    ),
    MetricDefinition("seqferry_gateway_conflicts", "gauge", _SHARE, "files that lost against another program's object"),
    MetricDefinition(
        "seqferry_gateway_unrecorded_outcomes", "gauge", _SHARE, "ends of uploads that are not on record yet"
    ),
    MetricDefinition("seqferry_gateway_upload_window_open", "gauge", _SHARE, "1, or 0 outside the upload windows"),
    MetricDefinition("seqferry_gateway_free_bytes", "gauge", _SHARE, "room for files that wait"),
    MetricDefinition(
        "seqferry_gateway_sync_p99_seconds", "gauge", _SHARE, "of syncs of the cache's disk in the last minutes"
    ),
    MetricDefinition("seqferry_gateway_uploaded_files_total", "counter", _SHARE, "files that were uploaded"),
    MetricDefinition("seqferry_gateway_uploaded_bytes_total", "counter", _SHARE, "bytes that were sent"),
    MetricDefinition(
        "seqferry_gateway_repeats_total", "counter", _SHARE, "calls that clients were asked to repeat (JUKEBOX)"
    ),
    MetricDefinition("seqferry_gateway_read_bytes_total", "counter", _SHARE, "bytes that clients have read of objects"),
    MetricDefinition(
        "seqferry_gateway_fetched_bytes_total", "counter", _SHARE, "bytes that were fetched from the bucket for it"
    ),
)
"""The metrics of a gateway."""

_SLOWEST: Final = 10.0
"""Seconds for a client to send its request."""

_CONNECTIONS: Final = 64
"""Each is a thread."""

Sample = tuple[tuple[str, ...], float]


class _Collector(Collector):
    def __init__(self, status: Callable[[], dict[str, Any]]) -> None:
        self._status = status

    def collect(self) -> Iterator[Metric]:
        found = self._status()
        samples = _samples(found)
        for name in METRICS:
            family = CounterMetricFamily if name.kind == "counter" else GaugeMetricFamily
            metric = family(name.name, name.help, labels=name.labels)
            for labels, value in samples.get(name.name, ()):
                metric.add_metric(labels, value)
            yield metric

    def describe(self) -> Iterable[Metric]:
        return ()


def _samples(found: dict[str, Any]) -> dict[str, list[Sample]]:
    samples: dict[str, list[Sample]] = {
        "seqferry_gateway_healthy": [((), float(found["is_healthy"]))],
        "seqferry_gateway_draining": [((), float(found["is_draining"]))],
    }
    for share in found["shares"]:
        writing = share["writing"]
        values: dict[str, float | None] = {
            "repeats_total": share["repeats"],
            "read_bytes_total": share["read_bytes"],
            "fetched_bytes_total": share["fetched_bytes"],
        }
        if writing is not None:
            oldest = writing["oldest"]
            values |= {
                "dirty_files": writing["dirty_files"],
                "dirty_bytes": writing["dirty_bytes"],
                "oldest_dirty_seconds": 0.0 if oldest is None else oldest["age_seconds"],
                "uploading_files": writing["uploading_files"],
                "failing_files": writing["failing_files"],
                "held_markers": len(writing["held"]),
                "conflicts": writing["conflicts"],
                "unrecorded_outcomes": writing["unrecorded"],
                "upload_window_open": float(writing["window_is_open"]),
                "free_bytes": writing["free_bytes"],
                "sync_p99_seconds": writing["sync_p99_seconds"],
                "uploaded_files_total": writing["uploaded_files"],
                "uploaded_bytes_total": writing["uploaded_bytes"],
            }
        for name, value in values.items():
            if value is not None:
                samples.setdefault(f"seqferry_gateway_{name}", []).append(((share["share"],), float(value)))
    return samples


def application(status: Callable[[], str]) -> WSGIApplication:
    """``/metrics`` and ``/healthz`` over the state of a gateway, as JSON."""

    def look() -> dict[str, Any]:
        return json.loads(status())

    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    registry.register(_Collector(look))

    def answer(environment: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        match environment["PATH_INFO"]:
            case "/metrics":
                encode, media_type = choose_encoder(environment.get("HTTP_ACCEPT", ""))
                body = encode(registry)
                start("200 OK", [("Content-Type", media_type)])
                return [body]
            case "/healthz":
                found = look()
                is_healthy = bool(found["is_healthy"])
                failing = {
                    share["share"]: share["writing"]["failure"]
                    for share in found["shares"]
                    if share["writing"] is not None and share["writing"]["failure"] is not None
                }
                facts: dict[str, Any] = {"status": "ok"} if is_healthy else {"status": "failed", "shares": failing}
                start("200 OK" if is_healthy else "503 Service Unavailable", [("Content-Type", "application/json")])
                return [json.dumps(facts).encode() + b"\n"]
            case _:
                start("404 Not Found", [("Content-Type", "text/plain")])
                return [b"There are /metrics and /healthz.\n"]

    return answer


class _Server(ThreadingMixIn, WSGIServer):
    """A thread for each connection. Beyond ``_CONNECTIONS`` a new one takes the place of the oldest."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, *arguments: Any) -> None:
        self._open: dict[socket.socket, None] = {}
        self._lock = threading.Lock()
        super().__init__(*arguments)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            while len(self._open) >= _CONNECTIONS:
                oldest = next(iter(self._open))
                del self._open[oldest]
                with suppress(OSError):  # the client has gone
                    oldest.shutdown(socket.SHUT_RDWR)
            self._open[request] = None
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.pop(request, None)
        super().shutdown_request(request)


class _Ipv6Server(_Server):
    address_family = socket.AF_INET6


class _Handler(WSGIRequestHandler):
    timeout = _SLOWEST

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name in the base class
        """Nothing: a line for each look would be noise."""


def serve(host: str, port: int, status: Callable[[], str]) -> int:
    """Answer at an address for as long as the process lives. Returns the port.

    Raises:
        OSError: the address cannot be used.
    """
    kind = _Ipv6Server if ":" in host else _Server
    server = make_server(host, port, application(status), kind, _Handler)
    threading.Thread(target=server.serve_forever, name="gateway-metrics", daemon=True).start()
    return int(server.server_port)
