"""``seqferry worker``."""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final

import typer

from seqferry.cli import exits, metrics_address, options
from seqferry.settings import logs
from seqferry.settings.config import Settings

if TYPE_CHECKING:
    from seqferry.service.service import Service


log: Final = logging.getLogger("seqferry.worker")

_METRICS: Final = "--metrics-listen"


def worker(
    max_requests: options.MaxRequests = None,
    max_bandwidth: options.MaxBandwidth = None,
    tpslimit: options.TpsLimit = None,
    memory: options.Memory = None,
    cache: options.Cache = None,
    max_cache_size: options.MaxCacheSize = None,
    metrics_listen: Annotated[
        str | None,
        typer.Option(
            _METRICS,
            envvar="SEQFERRY_METRICS_LISTEN",
            metavar="HOST:PORT",
            help="Serve /metrics (Prometheus) on HOST:PORT, without a token.",
        ),
    ] = None,
    log_format: options.LogFormat = None,
    state_dir: options.StateDir = None,
) -> int:
    """Run a worker until Ctrl-C. SQLite allows one worker, PostgreSQL many."""
    settings = Settings.load(
        state_dir=state_dir,
        max_requests=max_requests,
        max_bandwidth=max_bandwidth,
        tpslimit=tpslimit,
        memory=memory,
        cache=cache,
        max_cache_size=max_cache_size,
        log_format=log_format,
    )
    from seqferry.workflows.worker import run

    place = None if metrics_listen is None else metrics_address.parse_address(metrics_listen, _METRICS)
    logs.to_stderr(settings.log_format)
    run(settings, started=None if place is None else partial(_offer_metrics, place))
    return exits.OK


def _offer_metrics(place: tuple[str, int], service: Service) -> None:
    from prometheus_client import start_http_server

    from seqferry.api import metrics

    host, port = place
    try:
        start_http_server(port, host, metrics.registry(service))
    except OSError as why:
        raise metrics_address.unavailable_error(place, _METRICS, why) from None
    log.info("metrics are on http://%s:%d/metrics", host, port)
