"""The limits on what a client may send: bodies are read into memory as a whole, and parsed there."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from seqferry.api.authentication import DELIVERY_MAIL, has_body
from seqferry.api.problems import problem
from seqferry.model.frozen import frozen
from seqferry.spec.validation import MAX_KEYS

_MIB: Final = 1024 * 1024

_SILENCE_SECONDS: Final = 20.0
_BYTES_PER_SECOND: Final = 250_000
"""After the silence that is allowed, a body comes at 2 Mbit/s: 64 MiB in five minutes."""

_MAX_LARGE: Final = 2
_LARGE_WAIT_SECONDS: Final = 10.0

_SCANNED_INLINE: Final = 256 * 1024
"""A longer body is scanned in a thread: this many bytes take about a millisecond."""

# Possessive: a string of any length is passed without a state to go back to.
_TOKEN: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[{,]', re.DOTALL)


@frozen
class Limit:
    """Bytes of a body; and of its JSON the texts, commas and opening brackets, each of which may become an object."""

    size: int
    values: int


USUAL: Final = Limit(_MIB, 10_000)
OTHERS: Final[Mapping[str, Limit]] = {
    # A key and an address; who sends it has no token.
    DELIVERY_MAIL: Limit(1024, 100),
    # The longest list of keys when they are of 600 bytes each, with its commas and some room.
    "/start_transfer": Limit(64 * _MIB, 2 * MAX_KEYS + 1000),
}


class _RefusedError(Exception):
    def __init__(self, status: int, code: str, detail: str) -> None:
        super().__init__(status, code, detail)
        self.status, self.code, self.detail = status, code, detail


class BodyLimit:
    """Reads the body before the application does, and refuses a body that is too large or too slow.

    The number of large bodies in memory is limited, each from its first byte until its request is answered.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._large = asyncio.Semaphore(_MAX_LARGE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not has_body(scope):
            await self._app(scope, receive, send)
            return
        limit = OTHERS.get(scope["path"], USUAL)
        announced = _content_length(scope)
        try:
            if announced is not None and announced > limit.size:
                raise _too_large(limit)
            async with self._reserve(large=min(announced or limit.size, limit.size) > USUAL.size):
                body = await _read(receive, limit)
                if await _too_many_values(body, limit.values):
                    detail = f"The body holds more than {limit.values:,} values."
                    raise _RefusedError(413, "too_large", detail)
                scope.setdefault("state", {})["body"] = body  # a refusal looks for the field that it is about
                await self._app(scope, _replay(body, receive), send)
        except _RefusedError as why:
            headers = {"Retry-After": "5"} if why.status == 503 else None
            await problem(why.status, why.detail, why.code, headers)(scope, receive, send)

    @asynccontextmanager
    async def _reserve(self, *, large: bool) -> AsyncGenerator[None]:
        if not large:
            yield
            return
        try:
            async with asyncio.timeout(_LARGE_WAIT_SECONDS):
                await self._large.acquire()
        except TimeoutError:
            detail = f"{_MAX_LARGE} requests with large bodies are under way; try again later."
            raise _RefusedError(503, "busy", detail) from None
        try:
            yield
        finally:
            self._large.release()


async def _read(receive: Receive, limit: Limit) -> bytes:
    pieces: list[bytes] = []
    size = 0
    clock = asyncio.get_running_loop().time
    end = clock() + _SILENCE_SECONDS + limit.size / _BYTES_PER_SECOND
    try:
        # Not ``wait_for`` within it: until Python 3.12 that loses a timeout that comes together with a message.
        async with asyncio.timeout(None) as timeout:
            while True:
                timeout.reschedule(min(end, clock() + _SILENCE_SECONDS))
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise _RefusedError(400, "bad_request", "The connection ended within the body.")
                pieces.append(message.get("body", b""))
                size += len(pieces[-1])
                if size > limit.size:
                    raise _too_large(limit)
                if not message.get("more_body", False):
                    return b"".join(pieces)
    except TimeoutError:
        raise _RefusedError(408, "request_timeout", "The body came too slowly.") from None


def _too_large(limit: Limit) -> _RefusedError:
    most = f"{limit.size // _MIB} MiB" if limit.size >= _MIB else f"{limit.size} bytes"
    detail = f"The body is larger than {most}."
    more = " Send fewer keys in one request." if limit.size > USUAL.size else ""
    return _RefusedError(413, "too_large", detail + more)


async def _too_many_values(body: bytes, most: int) -> bool:
    if len(body) <= _SCANNED_INLINE:
        return _has_more_values(body, most)
    return await asyncio.to_thread(_has_more_values, body, most)


def _has_more_values(body: bytes, most: int) -> bool:
    return any(number >= most for number, _ in enumerate(_TOKEN.finditer(body)))


def _replay(body: bytes, receive: Receive) -> Receive:
    """The body as one message, then what the connection has to say."""
    left: list[bytes] = [body]

    async def replay() -> Message:
        if left:
            return {"type": "http.request", "body": left.pop(), "more_body": False}
        return await receive()

    return replay


def _content_length(scope: Scope) -> int | None:
    """The length in the header; None without one, as for a chunked body."""
    headers = dict(scope["headers"])
    text = headers.get(b"content-length", b"")
    return int(text) if text.isdigit() and b"transfer-encoding" not in headers else None
