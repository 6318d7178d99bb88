"""``seqferry serve``: the HTTP API and a worker."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from seqferry.cli import exits, options
from seqferry.model.errors import UsageError
from seqferry.settings import logs
from seqferry.settings.config import Settings


def serve(
    host: Annotated[
        str,
        typer.Option(
            "--host",
            envvar="SEQFERRY_HOST",
            help="Address to listen on.",
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", envvar="SEQFERRY_PORT", min=0, max=65535, help="Port to listen on. 0: a free port.")
    ] = 8080,
    allow_crash: Annotated[
        bool,
        typer.Option(
            "--allow-crash",
            envvar="SEQFERRY_ALLOW_CRASH",
            help="Serve POST /crash_application and /crash, which kill this process. For tests only.",
        ),
    ] = False,
    no_token: Annotated[
        bool,
        typer.Option(
            "--no-token",
            envvar="SEQFERRY_NO_TOKEN",
            help="Disable authentication: every user of this machine can start transfers with your credentials.",
            rich_help_panel="Security",
        ),
    ] = False,
    no_worker: Annotated[
        bool,
        typer.Option(
            "--no-worker",
            envvar="SEQFERRY_NO_WORKER",
            help="Serve HTTP only. Transfers wait for `seqferry worker`.",
        ),
    ] = False,
    tls_cert: Annotated[
        str | None,
        typer.Option(
            "--tls-cert",
            envvar="SEQFERRY_TLS_CERT",
            metavar="FILE",
            help="TLS certificate (PEM, with its chain) for HTTPS.",
            rich_help_panel="Security",
        ),
    ] = None,
    tls_key: Annotated[
        str | None,
        typer.Option(
            "--tls-key",
            envvar="SEQFERRY_TLS_KEY",
            metavar="FILE",
            help="Private key of --tls-cert (PEM, without passphrase).",
            rich_help_panel="Security",
        ),
    ] = None,
    max_requests: options.MaxRequests = None,
    max_bandwidth: options.MaxBandwidth = None,
    tpslimit: options.TpsLimit = None,
    memory: options.Memory = None,
    cache: options.Cache = None,
    max_cache_size: options.MaxCacheSize = None,
    log_format: options.LogFormat = None,
    state_dir: options.StateDir = None,
) -> int:
    """Run the HTTP API, the web page and a worker."""
    if (tls_cert is None) != (tls_key is None):
        raise UsageError("--tls-cert and --tls-key belong together; give both or none.")
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
    # Imported here: FastAPI and DBOS take longer to import than `seqferry status` may take as a whole.
    from seqferry.api.server import serve as run
    from seqferry.api.tls import Tls

    logs.to_stderr(settings.log_format)
    # The address on stdout: with --port 0 a script learns it from there.
    run(
        settings,
        host=host,
        port=port,
        allow_crash=allow_crash,
        ready=_print_address,
        no_token=no_token,
        no_worker=no_worker,
        tls=Tls(Path(tls_cert), Path(tls_key)) if tls_cert and tls_key else None,
    )
    return exits.OK


def _print_address(url: str) -> None:
    print(url, flush=True)
