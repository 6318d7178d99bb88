"""``seqferry gateway``: shares of buckets over NFS."""

from __future__ import annotations

import signal
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated, Final

import typer

from seqferry.cli import exits, metrics_address, options
from seqferry.cli.commands import gateway_control
from seqferry.cli.mount_process import ending_signals, resolve_path
from seqferry.cli.output import display, text
from seqferry.cli.output.findings import show_findings
from seqferry.engine.gateways import GatewaySpec, mount_command, port_options
from seqferry.engine.mounts import GATEWAY_MEMORY, check_sizes
from seqferry.model.errors import UsageError
from seqferry.model.locations import S3Location
from seqferry.places.endpoints import is_loopback
from seqferry.settings.config import Settings
from seqferry.spec.addresses import parse_uri
from seqferry.spec.validation import check_place

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from seqferry.settings.shares import Share

_LOOK: Final = 0.2
"""Seconds between two checks for a signal."""

_METRICS: Final = "--metrics-listen"

_PREVIEW: Final = (
    "seqferry: Shares that clients write to are a preview: keep what instruments have written until it is in the "
    "bucket (seqferry gateway status)."
)

gateway = typer.Typer(help="Serve buckets as NFS shares.", rich_markup_mode=None)


@gateway.callback()
def _group() -> None: ...


@gateway.command()
def serve(
    host: Annotated[
        str,
        typer.Option(
            "--host",
            envvar="SEQFERRY_GATEWAY_HOST",
            metavar="ADDRESS",
            help="Address to listen on. A non-loopback address requires a client list for each share.",
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int,
        typer.Option(
            "--port",
            envvar="SEQFERRY_GATEWAY_PORT",
            metavar="N",
            min=0,
            max=65535,
            help="Port for NFS and MOUNT. 0: a free port.",
        ),
    ] = 2049,
    port_mapper: Annotated[
        bool | None,
        typer.Option(
            "--port-mapper/--no-port-mapper",
            envvar="SEQFERRY_GATEWAY_PORT_MAPPER",
            help="Serve the port mapper at port 111, or register with rpcbind, so that clients mount without port "
            "options. Default: on, except for a loopback address.",
        ),
    ] = None,
    memory: options.BlockMemory = None,
    cache: options.BlockCache = None,
    max_cache_size: options.MaxCacheSize = None,
    max_bandwidth: options.PlainBandwidth = None,
    unsafe_cache: Annotated[
        bool,
        typer.Option(
            "--unsafe-cache",
            envvar="SEQFERRY_UNSAFE_CACHE",
            help="Allow a cache in memory or on a network file system for writable shares. Files may be lost.",
            rich_help_panel="Cache",
        ),
    ] = False,
    take_over: options.TakeOver = False,
    metrics: Annotated[
        str | None,
        typer.Option(
            _METRICS,
            "--metrics",
            envvar="SEQFERRY_GATEWAY_METRICS",
            metavar="HOST:PORT",
            help="Serve /metrics (Prometheus) and /healthz on HOST:PORT, without a token.",
        ),
    ] = None,
    state_dir: options.StateDir = None,
    as_json: options.Json = False,
) -> int:
    """Serve the shares of the configuration file until Ctrl-C or SIGTERM.

    Shares with read_only = false are writable.
    """
    settings = Settings.load(state_dir=state_dir)
    if not settings.shares:
        raise UsageError(
            "No share is configured: write [[share]] with a name and a source into the file that "
            "SEQFERRY_CONFIG names (docs/use/gateway.md)."
        )
    check_sizes(memory, max_cache_size)
    settings.prepare_state_dir(database=False)
    host = "127.0.0.1" if host == "localhost" else host
    spec = GatewaySpec(
        shares=tuple((share, _place(share)) for share in settings.shares),
        host=host,
        port=port,
        port_mapper=not is_loopback(host) if port_mapper is None else port_mapper,
        state=settings.state_dir / "gateway",
        cache=None if cache is None else resolve_path(cache),
        max_cache_size=max_cache_size,
        unsafe_cache=unsafe_cache,
        take_over=take_over,
        memory=GATEWAY_MEMORY if memory is None else memory,
        max_bandwidth=max_bandwidth,
    )
    place = None if metrics is None else metrics_address.parse_address(metrics, _METRICS)
    return _serve(spec, settings, place, as_json=as_json)


@gateway.command()
def check(
    host: Annotated[str, typer.Argument(metavar="HOST", help="Name or address of the gateway.")],
    share: Annotated[
        str | None, typer.Argument(metavar="SHARE", help="Share to try to mount, as /runs.", show_default=False)
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            "--port", metavar="N", min=1, max=65535, help="Port of the gateway. Default: the port mapper is asked."
        ),
    ] = None,
    as_json: options.Json = False,
) -> int:
    """Check from a client's machine whether it can mount the shares of a gateway, and print the command."""
    from seqferry.doctor.nfs import check_server

    name = None if share is None else f"/{share.strip('/')}"
    return show_findings(check_server(host, name, port), as_json=as_json)


def _place(share: Share) -> S3Location:
    bucket, key = parse_uri(share.source)
    place = S3Location(
        bucket=bucket,
        key=key,
        endpoint_url=share.endpoint_url,
        region=share.region,
        profile=share.profile,
        request_payer=share.request_payer,
    )
    check_place(place)
    return place


def _serve(spec: GatewaySpec, settings: Settings, metrics: tuple[str, int] | None, *, as_json: bool) -> int:
    # Imported here: the engine's threads must be made in the process that serves.
    from seqferry.engine.gateways import activity_of, start
    from seqferry.engine.traces import trace
    from seqferry.places.service_manager import ServiceManager
    from seqferry.service.presence import Presence
    from seqferry.service.share_answers import ShareAnswers
    from seqferry.service.upload_batches import UploadBatchRecorder

    asked: list[int] = []

    def stop(number: int, _frame: FrameType | None) -> None:
        asked.append(number)

    for number in set(ending_signals()) & {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}:
        signal.signal(number, stop)
    trace(settings.trace)
    served = start(spec)
    if metrics is not None:
        _offer(metrics, served.status)
    host, port = served.address
    if served.publish_error is not None:
        display.say(f"seqferry: {text.printable(served.publish_error)}")
    for share, place in spec.shares:
        command = mount_command(host, f"/{share.name}", () if served.published is not None else port_options(port))
        if as_json:
            source = place.at(place.key)
            display.emit("served", share=f"/{share.name}", source=source, host=host, port=port, mount=command)
        else:
            display.say(text.printable(f"{place.at(place.key)} is served at {host}:/{share.name}, port {port}."))
            display.say(text.printable(f"  {command}"))
    if any(not share.read_only for share, _ in spec.shares):
        display.say(_PREVIEW)
    manager = ServiceManager()
    with manager.feed_watchdog(served.answers):
        manager.ready()
        written = {share.name: place for share, place in spec.shares if not share.read_only}
        with UploadBatchRecorder(settings, written, served) if written else nullcontext():
            with (
                Presence(settings, "gateway", lambda: activity_of(served, spec)) as presence,
                nullcontext() if spec.cache is None else ShareAnswers(presence, spec.cache),
            ):
                while not asked and not served.wait(_LOOK):
                    pass
                manager.stopping()
            served.stop()
            while not served.wait(_LOOK):
                pass
    return exits.OK


def _offer(place: tuple[str, int], status: Callable[[], str]) -> None:
    from seqferry.api import gateway_metrics

    host, port = place
    try:
        gateway_metrics.serve(host, port, status)
    except OSError as why:
        raise metrics_address.unavailable_error(place, _METRICS, why) from None


gateway_control.add_to(gateway)
