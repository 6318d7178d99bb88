"""Readiness: the database answers, as one thread checks for all clients, and the server is not shutting down."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Final

from seqferry.model.errors import SeqferryError

_KEPT_SECONDS: Final = 1.0
_WAIT_SECONDS: Final = 3.0


class Readiness:
    """Keeps the result of a check for a second. One check runs at a time, in its own thread."""

    def __init__(self, check: Callable[[], object]) -> None:
        """Args: ``check`` raises SeqferryError when the database cannot be used; it may take long."""
        self._check = check
        self._refusal: str | None = None
        self._checked_at = -_KEPT_SECONDS
        self._checking: asyncio.Future[None] | None = None
        self._is_ending = False

    def end(self) -> None:
        """Be not ready from now on, since the server shuts down. Safe from any thread."""
        self._is_ending = True

    async def find_refusal(self) -> str | None:
        """Reason why this server is not ready, for clients with a token; None if it is ready."""
        if self._is_ending:
            return "The server is ending; it answers until its work is suspended."
        if self._checking is None:
            if time.monotonic() - self._checked_at < _KEPT_SECONDS:
                return self._refusal
            self._begin()
        assert self._checking is not None
        done, _ = await asyncio.wait({self._checking}, timeout=_WAIT_SECONDS)
        return self._refusal if done else f"The database has not answered within {_WAIT_SECONDS:g} seconds."

    def _begin(self) -> None:
        loop = asyncio.get_running_loop()
        ended = self._checking = loop.create_future()

        def end(refusal: str | None) -> None:
            self._refusal, self._checked_at, self._checking = refusal, time.monotonic(), None
            ended.set_result(None)

        def run() -> None:
            refusal = None
            try:
                self._check()
            except SeqferryError as why:
                refusal = why.message
            except Exception as why:  # noqa: BLE001 - any failure means that the database cannot be used
                refusal = f"The database cannot be used: {type(why).__name__}."
            if not loop.is_closed():
                loop.call_soon_threadsafe(end, refusal)

        threading.Thread(target=run, name="seqferry-ready", daemon=True).start()
