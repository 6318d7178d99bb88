"""``seqferry serve``: the HTTP door and a worker in one process."""

from __future__ import annotations

import ipaddress
import logging
import os
import signal
import socket
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType
from typing import Final

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from seqferry.api.app import create_app
from seqferry.api.problems import problem
from seqferry.config import Settings
from seqferry.errors import ConfigError
from seqferry.service import Service
from seqferry.worker import Worker

log: Final = logging.getLogger("seqferry.serve")

_GRACE_SECONDS: Final = 5
_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})


def check_exposure(settings: Settings, host: str) -> None:
    """Refuse to be reachable from elsewhere without a token.

    Raises:
        ConfigError: ``host`` is not this machine alone, and no token is set.
    """
    if settings.token is None and not is_loopback(host):
        raise ConfigError(
            f"Listening on {host} would let everybody on the network start transfers. "
            "Set SEQFERRY_TOKEN to a secret that clients must send, or listen on 127.0.0.1."
        )


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def serve(
    settings: Settings,
    host: str = "127.0.0.1",
    port: int = 8080,
    allow_crash: bool = False,
    ready: Callable[[str], None] | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT, then let the worker leave its work resumable. A second signal ends at once.

    Args:
        port: 0 lets the system choose one.
        ready: called with the address once it accepts connections.

    Raises:
        ConfigError: no token for a public address, the address cannot be used, or neither state folder nor database.
        WorkerBusyError: another worker holds the state folder.
    """
    check_exposure(settings, host)
    listener = _listen(host, port)
    try:
        with Service.open(settings) as service:
            worker = Worker.start(settings, service)
            try:
                app: ASGIApp = create_app(settings, service, allow_crash=allow_crash)
                if settings.token is None:
                    app = _OnlyLocal(app)
                _run(app, listener, ready)
            finally:
                if not worker.stop():
                    logging.shutdown()
                    os._exit(0)
    finally:
        listener.close()


class _OnlyLocal:
    """Without a token, keeps out the web pages that a browser on this machine shows.

    Answers only to local names: else a page could point its own name at this server and be taken for part of it. And
    lets nothing be changed by a page of another origin: a browser sends its requests all the same, and only keeps the
    answer from it.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not is_loopback(_host(scope)):
            answer = problem(403, "Without a token this server answers only to localhost and 127.0.0.1.", "forbidden")
            await answer(scope, receive, send)
            return
        if scope["type"] == "http" and scope["method"] not in _READING and not _is_own_origin(scope):
            answer = problem(403, "Without a token this server takes no orders from pages of other sites.", "forbidden")
            await answer(scope, receive, send)
            return
        await self._app(scope, receive, send)


def _is_own_origin(scope: Scope) -> bool:
    """True when no browser sent it, or for a page of this server itself."""
    host = _headers(scope, b"host")
    return all(host == [given.partition("://")[2]] for given in _headers(scope, b"origin"))


def _headers(scope: Scope, wanted: bytes) -> list[str]:
    return [value.decode("latin-1").lower() for name, value in scope["headers"] if name == wanted]


def _host(scope: Scope) -> str:
    given = next(iter(_headers(scope, b"host")), "")
    if given.startswith("["):
        return given[1:].partition("]")[0]
    return given.partition(":")[0]


class _Server(uvicorn.Server):
    """Leaves signals to us: uvicorn would raise them again at the end, before the worker has left."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


def _run(app: ASGIApp, listener: socket.socket, ready: Callable[[str], None] | None) -> None:
    server = _Server(
        uvicorn.Config(app, log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=_GRACE_SECONDS)
    )

    def ask(number: int, _frame: FrameType | None) -> None:
        if server.should_exit:
            os._exit(128 + number)
        server.should_exit = True

    previous = {number: signal.signal(number, ask) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        host, port = listener.getsockname()[:2]
        url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        log.info("listening on %s", url)
        if ready is not None:
            # The socket listens already: connections wait in its queue until the loop runs.
            ready(url)
        server.run(sockets=[listener])
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(128)
        except OSError:
            listener.close()
            raise
    except OSError as why:
        raise ConfigError(
            f"Cannot listen on {host}:{port}: {why.strerror or why}. Choose another address with --host and --port."
        ) from None
    return listener
