"""Connections of the server: their number, and the time that one may be idle."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import Any, Final, cast

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from seqferry.api.problems import problem

log: Final = logging.getLogger("seqferry.serve")

MAX_CONNECTIONS: Final = 512
"""Each is a file that the worker in this process cannot open."""

HEADER_SECONDS: Final = 10.0
"""Time limit for the headers of a request, from its first byte or, for the first request, from the connection."""

SEND_SECONDS: Final = 30.0
"""A client that reads so little that the server can send nothing for this long is gone, whatever token it has."""

_KEEP_ALIVE_SECONDS: Final = 15
_HEADER_BYTES: Final = 32 * 1024
_HANDSHAKE_SECONDS: Final = 10.0
_GRACE_SECONDS: Final = 5
_RETRY_ACCEPT_SECONDS: Final = 0.1
_LOOK_SECONDS: Final = 0.02


class _Connection(H11Protocol):
    """HTTP/1.1 that is closed when the headers of a request do not come, or its answer is not read, in time."""

    def __init__(self, gone: asyncio.Future[None], **options: Any) -> None:
        """Args: ``gone`` is resolved when the connection is closed; ``options`` are uvicorn's."""
        super().__init__(**options)
        self._gone = gone
        self._deadline: asyncio.TimerHandle | None = None
        self._reading: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect_headers()

    def data_received(self, data: bytes) -> None:
        if self._deadline is None and not self.answers:
            self._expect_headers()
        super().data_received(data)
        if self.answers:
            self._stop_expecting()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.answers:  # the next request was there already
            self._stop_expecting()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._reading = self.loop.call_later(SEND_SECONDS, self.close)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_waiting_for_reader()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_expecting()
        self._stop_waiting_for_reader()
        super().connection_lost(exc)
        if not self._gone.done():
            self._gone.set_result(None)

    @property
    def answers(self) -> bool:
        """True while a request is under way."""
        cycle = cast("RequestResponseCycle | None", self.cycle)  # declared without the None that it begins with
        return cycle is not None and not cycle.response_complete

    @property
    def is_trusted(self) -> bool:
        """True while a request with a known token is under way."""
        return self.answers and "identity" in self.scope.get("state", {})

    def close(self) -> None:
        self.transport.abort()

    def _stop_waiting_for_reader(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None

    def _expect_headers(self) -> None:
        self._stop_expecting()
        self._deadline = self.loop.call_later(HEADER_SECONDS, self.close)

    def _stop_expecting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


@dataclass
class _Opened:
    """A connection that counts: its address, and what speaks HTTP over it once there is TLS."""

    address: str
    connection: _Connection | None = None


class Server(uvicorn.Server):
    """Accepts connections itself, so that those in a TLS handshake are counted as well.

    With ``MAX_CONNECTIONS`` open, a new one takes the place of one that has no request with a token under way: of the
    address with the most connections, there of one without any request, there of the oldest.
    Leaves signals to the caller: uvicorn would raise them again at the end, before the worker has left.
    """

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.is_ending = False
        self._accepting: list[asyncio.Task[None]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        # In the order in which they came.
        self._open: dict[asyncio.Task[None], _Opened] = {}

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield

    def answers(self, within: float) -> bool:
        """True when the event loop gets round to something new within so many seconds, and before and after it runs."""
        ran = threading.Event()
        if self._loop is None:
            return True
        try:
            self._loop.call_soon_threadsafe(ran.set)
        except RuntimeError:  # it is closed
            return True
        return ran.wait(within)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        await self.lifespan.startup()
        self.servers = []
        for listener in sockets or []:
            listener.setblocking(False)
            self._accepting.append(asyncio.create_task(self._accept(listener)))
        self.started = True

    def drain(self) -> None:
        """Go on answering, and have clients use no connection for a further request. Safe from any thread."""
        self.config.encoded_headers.append((b"connection", b"close"))  # uvicorn looks at it each second

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End once the requests under way are answered, or after ``_GRACE_SECONDS``; until then accept others."""
        self.is_ending = True
        until = time.monotonic() + _GRACE_SECONDS
        while time.monotonic() < until and any(  # noqa: ASYNC110
            (one := opened.connection) is not None and one.answers for opened in self._open.values()
        ):
            await asyncio.sleep(_LOOK_SECONDS)
        for task in self._accepting:
            task.cancel()
        await asyncio.gather(*self._accepting, return_exceptions=True)
        for task, opened in list(self._open.items()):
            if opened.connection is None:
                task.cancel()
        await super().shutdown(sockets)

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, peer = await loop.sock_accept(listener)
            except OSError as why:
                # No files left, or the client is gone already: neither is a reason to stop listening.
                log.warning("cannot accept a connection: %s", why.strerror or why)
                await asyncio.sleep(_RETRY_ACCEPT_SECONDS)
                continue
            if len(self._open) >= MAX_CONNECTIONS and not self._evict():
                accepted.close()
                continue
            opened = _Opened(str(peer[0]))
            task = asyncio.create_task(self._serve_connection(accepted, opened))
            self._open[task] = opened
            task.add_done_callback(partial(self._forget, accepted))

    def _forget(self, accepted: socket.socket, task: asyncio.Task[None]) -> None:
        self._open.pop(task, None)
        accepted.close()  # else one that was evicted before it began would stay

    async def _serve_connection(self, accepted: socket.socket, opened: _Opened) -> None:
        with suppress(OSError):  # asyncio sets it for some listeners only; without it a short answer waits for 40 ms
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        loop = asyncio.get_running_loop()
        gone = loop.create_future()

        def protocol() -> _Connection:
            return _Connection(gone, config=self.config, server_state=self.server_state, app_state=self.lifespan.state)

        context: ssl.SSLContext | None = self.config.ssl
        handshake = None if context is None else _HANDSHAKE_SECONDS
        # Clients that break off a handshake, or speak no TLS.
        with suppress(OSError, ssl.SSLError, TimeoutError):
            _, opened.connection = await loop.connect_accepted_socket(
                protocol, accepted, ssl=context, ssl_handshake_timeout=handshake
            )
            await gone

    def _evict(self) -> bool:
        """Close a connection for a new one; False when each has a request with a token."""
        count = Counter(opened.address for opened in self._open.values())
        candidates = [
            ((-count[opened.address], connection is not None and connection.answers), task)
            for task, opened in self._open.items()
            if (connection := opened.connection) is None or not connection.is_trusted
        ]
        if not candidates:
            return False
        _, task = min(candidates, key=itemgetter(0))  # the first of equal ones is the oldest
        connection = self._open.pop(task).connection
        if connection is None:
            task.cancel()
        else:
            connection.close()
        return True


class _Framing:
    """Refuses requests whose end is in doubt, and closes their connection, whatever else is asked."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        fault = _framing_fault(scope) if scope["type"] == "http" else None
        app = self._app if fault is None else problem(400, fault, "bad_request", {"Connection": "close"})
        await app(scope, receive, send)


def _framing_fault(scope: Scope) -> str | None:
    """Reason why a proxy may see another end of this request than the server does; None when both see the same.

    Such a request can hide a second one that the proxy has not checked (RFC 9112, section 6.1).
    """
    names = {name for name, _ in scope["headers"]}
    if b"transfer-encoding" not in names:
        return None
    if b"content-length" in names:
        return "The request has both Content-Length and Transfer-Encoding; send one of them."
    if scope["http_version"] == "1.0":
        return "A request of HTTP/1.0 has no Transfer-Encoding; send Content-Length, or use HTTP/1.1."
    return None


def server(
    app: ASGIApp,
    *,
    trusted_proxies: tuple[str, ...] = (),
    tls: ssl.SSLContext | None = None,
) -> Server:
    """A server for ``app`` with all bounds in place; run it with the sockets to listen on."""

    def context(_config: uvicorn.Config, _default: Callable[[], ssl.SSLContext]) -> ssl.SSLContext:
        assert tls is not None
        return tls

    return Server(
        uvicorn.Config(
            _Framing(app),
            http="h11",
            ws="none",
            loop="asyncio",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            headers=[("X-Content-Type-Options", "nosniff")],
            # What X-Forwarded-For says counts from these addresses only: then the rightmost that is not among them.
            proxy_headers=bool(trusted_proxies),
            forwarded_allow_ips=list(trusted_proxies),
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=_GRACE_SECONDS,
            h11_max_incomplete_event_size=_HEADER_BYTES,
            ssl_context_factory=None if tls is None else context,
        )
    )
