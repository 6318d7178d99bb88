"""The limit on what a client may send: bodies are read into memory as a whole."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from seqferry.api.problems import problem

MAX_BODY: Final = 64 * 1024 * 1024
"""Bytes: as many as the longest list of keys (``spec.MAX_KEYS``) takes when they are of 600 bytes each."""


class _TooLargeError(Exception):
    pass


class BodyLimit:
    """Answers 413 to a longer body, by its announced length or as soon as more has come in."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if _announced(scope) > MAX_BODY:
            await _refuse(scope, receive, send)
            return
        answering = False
        come_in = 0

        async def counted() -> Message:
            nonlocal come_in
            message = await receive()
            come_in += len(message.get("body", b""))
            if come_in > MAX_BODY:
                raise _TooLargeError
            return message

        async def unless_too_large(message: Message) -> None:
            nonlocal answering
            # What the application says to a body that it could not read to its end is not the reason.
            if answering or come_in <= MAX_BODY:
                answering = True
                await send(message)

        with suppress(_TooLargeError):
            await self._app(scope, counted, unless_too_large)
        if not answering:
            await _refuse(scope, receive, send)


async def _refuse(scope: Scope, receive: Receive, send: Send) -> None:
    detail = f"The body is larger than the {MAX_BODY // 1024**2} MiB that are taken. Name fewer keys at once."
    await problem(413, detail, "too_large")(scope, receive, send)


def _announced(scope: Scope) -> int:
    text = next((value for name, value in scope["headers"] if name == b"content-length"), b"")
    return int(text) if text.isdigit() else 0
