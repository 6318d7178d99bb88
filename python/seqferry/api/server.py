"""``seqferry serve``: the HTTP API, and by default a worker in the same process."""

from __future__ import annotations

import gc
import ipaddress
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from queue import SimpleQueue
from types import FrameType
from typing import Any, Final

from pydantic import ValidationError
from starlette.types import ASGIApp, Receive, Scope, Send

from seqferry.api import connections
from seqferry.api.app import create_app
from seqferry.api.checks import StorageChecks
from seqferry.api.problems import problem
from seqferry.api.schemas import TransferRequest
from seqferry.api.streams import EventHub
from seqferry.api.tls import Tls
from seqferry.db import outage
from seqferry.model.errors import ConfigError, UsageError
from seqferry.model.workers import NO_ACTIVITY, URL
from seqferry.places.endpoints import is_loopback
from seqferry.places.service_manager import ServiceManager
from seqferry.service.presence import Presence
from seqferry.service.service import Service
from seqferry.service.tokens import TokenStore
from seqferry.settings import tokens
from seqferry.settings.config import Settings
from seqferry.settings.memory_limits import resident
from seqferry.spec import job_defaults
from seqferry.workflows.worker import Worker

log: Final = logging.getLogger("seqferry.serve")

_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_STARTING_SECONDS: Final = 0.01


def check_exposure(settings: Settings, host: str, *, no_token: bool) -> None:
    """Refuse a token that is easy to guess, and a server without tokens where other machines can connect.

    Raises:
        ConfigError: ``host`` is not a loopback address, and no token would be required.
        UsageError: SEQFERRY_TOKEN is too short, or set although no token is required.
    """
    if no_token and not is_loopback(host):
        raise ConfigError(
            f"Listening on {host} with --no-token would let every machine of the network start transfers. "
            "Leave --no-token out, or listen on 127.0.0.1."
        )
    if no_token and settings.token is not None:
        raise UsageError("--no-token and SEQFERRY_TOKEN contradict each other; leave one of them out.")
    if settings.token is not None:
        tokens.check_environment_token(settings.token)


def serve(
    settings: Settings,
    host: str = "127.0.0.1",
    port: int = 8080,
    allow_crash: bool = False,
    ready: Callable[[str], None] | None = None,
    *,
    no_token: bool = False,
    no_worker: bool = False,
    tls: Tls | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT, then let the worker suspend its work. A second signal ends the process.

    The server answers while the worker suspends its work and requests are under way; ``/readyz`` reports the shutdown.

    Args:
        port: 0 lets the system choose one.
        ready: called with the address once it accepts connections.
        no_token: require no token; every process of this machine can connect.
        no_worker: start no worker; other processes do the work.
        tls: serve HTTPS with this certificate.

    Raises:
        ConfigError: no token for a public address, or address, certificate, state folder or database cannot be used.
        UsageError: SEQFERRY_TOKEN is too short.
        WorkerBusyError: another worker holds the state folder.
    """
    check_exposure(settings, host, no_token=no_token)
    defaults = _job_defaults()
    context = None if tls is None else tls.context()
    listener = _listen(host, port)
    manager = ServiceManager()
    try:
        manager.waiting("the database")
        outage.wait_until_available(settings)
        with Service.open(settings) as service:
            service.serves = True
            service.record_autoscale_limits()
            store = None if no_token else _token_store(service)
            log.info("configuration file: %s; clients may %s", settings.config_file or "none", settings.policy)
            _warn_of_exposure(host, no_token=no_token, encrypted=tls is not None)
            checks = StorageChecks(service)
            # The queue is brought up once requests are answered: DBOS takes as long to import as half of all this.
            url = _url(listener, encrypted=tls is not None)
            work = _ServerRow(service, url) if no_worker else _EmbeddedWorker(service, url)
            try:
                hub = EventHub(service)
                made = create_app(
                    settings, service, store, allow_crash=allow_crash, checks=checks, hub=hub, defaults=defaults
                )
                app: ASGIApp = _LocalOriginGuard(made) if no_token else made
                server = connections.server(app, trusted_proxies=settings.trusted_proxies, tls=context)

                def begin() -> None:
                    manager.ready()
                    work.begin()

                def end() -> None:
                    manager.stopping()
                    made.state.context.readiness.end()
                    server.drain()
                    work.stop()

                def close() -> None:
                    server.should_exit = True
                    hub.close()  # the server waits for connections before anything else ends

                with manager.feed_watchdog(service.engine.answers, server.answers):
                    _run(_Lifecycle(server, begin, end, close), listener, url, ready)
            finally:
                # Threads that wait in the engine cannot be ended, and may not meet the end of the interpreter.
                if not work.stop() or checks.under_way:
                    logging.shutdown()
                    os._exit(0)
    finally:
        listener.close()


class _EmbeddedWorker:
    """The worker of this process."""

    def __init__(self, service: Service, url: str) -> None:
        self._worker = Worker.start(service.settings, service, queue=False, kind="serve", url=url)
        self._has_ended = True

    def begin(self) -> None:
        self._worker.take_queue()

    def stop(self) -> bool:
        """Stop the worker. Returns False if a thread still runs, then or at an earlier call."""
        self._has_ended = self._worker.stop() and self._has_ended
        return self._has_ended


class _ServerRow:
    """The row of a server without a worker, in the table of workers."""

    def __init__(self, service: Service, url: str) -> None:
        service.check_audit_key()
        activity = replace(NO_ACTIVITY, facts={URL: url})
        self._presence = Presence(service.settings, "http", lambda: replace(activity, resident=resident() or None))
        self._presence.__enter__()
        log.info("--no-worker: transfers wait for a worker at the database (seqferry worker)")

    def begin(self) -> None:
        pass

    def stop(self) -> bool:
        self._presence.__exit__()
        return True


def _job_defaults() -> dict[str, Any]:
    """Defaults of jobs from the environment.

    Raises:
        UsageError: a value is not valid.
    """
    found = job_defaults.read(os.environ)
    if found:
        try:
            TransferRequest.model_validate({"source": "s3://source/", "target": "s3://target/", **found})
        except ValidationError as why:
            first = why.errors()[0]
            raise UsageError(f"{job_defaults.variable_of(str(first['loc'][0]))}: {first['msg']}.") from None
        named = ", ".join(map(job_defaults.variable_of, found))
        log.info("defaults of jobs from the environment: %s", named)
    return found


def _token_store(service: Service) -> TokenStore:
    folder = service.settings.state_dir
    tokens.owner_token(folder)
    log.info("clients need a token; this machine's is in %s", tokens.owner_file(folder))
    return TokenStore(service)


def _warn_of_exposure(host: str, *, no_token: bool, encrypted: bool) -> None:
    if no_token:
        log.warning(
            "--no-token: every user and program of this machine can start and cancel transfers here, with this "
            "process's access to storage"
        )
    if not encrypted and not is_loopback(host):
        log.warning(
            "listening on %s without TLS: others on the network can read tokens and names of objects; put a proxy "
            "with TLS in front of this server, or give --tls-cert and --tls-key",
            host,
        )


class _LocalOriginGuard:
    """Middleware of a server without tokens: refuses requests of other sites' pages in a browser on this machine.

    It accepts local host names only, against DNS rebinding. It refuses changes from other origins, since a browser
    sends such requests and only withholds the answer from the page.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not _is_local(_host(scope)):
            answer = problem(403, "Without a token this server answers only to localhost and 127.0.0.1.", "forbidden")
            await answer(scope, receive, send)
            return
        if scope["type"] == "http" and scope["method"] not in _READING and not _is_own_origin(scope):
            answer = problem(403, "Without a token this server refuses changes by pages of other sites.", "forbidden")
            await answer(scope, receive, send)
            return
        await self._app(scope, receive, send)


def _is_local(host: str) -> bool:
    """True for names of this machine that no page of another site can have pointed here.

    Clients write 0.0.0.0 for the machine they run on, as the examples of S3Mirror do: an address, and no name.
    """
    if is_loopback(host):
        return True
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


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


def _run(lifecycle: _Lifecycle, listener: socket.socket, url: str, ready: Callable[[str], None] | None) -> None:
    """Answer until a signal comes and the work has ended.

    Raises:
        Exception: what the begin or the end of the work has raised; it ends the server.
    """

    def on_signal(number: int, _frame: FrameType | None) -> None:
        if lifecycle.is_ending:
            os._exit(128 + number)
        lifecycle.end()

    previous = {number: signal.signal(number, on_signal) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        log.info("listening on %s", url)
        if ready is not None:
            # The socket listens already: connections wait in its queue until the loop runs.
            ready(url)
        lifecycle.start()
        lifecycle.server.run(sockets=[listener])
        lifecycle.finish()
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _url(listener: socket.socket, *, encrypted: bool) -> str:
    host, port = listener.getsockname()[:2]
    scheme = "https" if encrypted else "http"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


class _Lifecycle:
    """Runs the work in a thread: it begins once the server answers, and ends before the server does.

    A failure of ``begin`` or ``end`` ends the server.

    Args:
        close: shut the server down; it still answers the requests that are under way.
    """

    def __init__(
        self,
        server: connections.Server,
        begin: Callable[[], None],
        end: Callable[[], None],
        close: Callable[[], None],
    ) -> None:
        self.server = server
        self.is_ending = False
        self._begin, self._end, self._close = begin, end, close
        self._failure: Exception | None = None
        # Its put may be called from a signal handler, those of events and conditions may not.
        self._end_requested: SimpleQueue[None] = SimpleQueue()
        self._thread = threading.Thread(target=self._act, name="seqferry-lifecycle", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        """End the work, and then the server. Safe in a signal handler."""
        self.is_ending = True
        self._end_requested.put(None)

    def finish(self) -> None:
        self.end()
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def _act(self) -> None:
        while not (self.server.started or self.is_ending):
            time.sleep(_STARTING_SECONDS)
        try:
            if not self.is_ending:
                self._begin()
                # Modules and routes live as long as the process. A full collection that walks them holds up answers
                # for 40 ms.
                gc.collect()
                gc.freeze()
                self._end_requested.get()
            self._end()
        except Exception as why:  # noqa: BLE001 - raised where the server has been waited for
            self._failure = why
        finally:
            self._close()


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
