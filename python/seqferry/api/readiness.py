"""Readiness: the database answers, as one thread finds out for all clients that ask, and the server is not ending."""

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
    """Answers from the last look for a second, then looks again, with a thread of its own and one at a time."""

    def __init__(self, look: Callable[[], object]) -> None:
        """Args: ``look`` raises SeqferryError when the database cannot be used; it may take long."""
        self._look = look
        self._trouble: str | None = None
        self._looked_at = -_KEPT_SECONDS
        self._looking: asyncio.Future[None] | None = None
        self._is_ending = False

    def end(self) -> None:
        """The server ends: others are to be asked from now on. Safe from any thread."""
        self._is_ending = True

    async def trouble(self) -> str | None:
        """Reason why no further request is to be sent here, for clients with a token; None when there is none."""
        if self._is_ending:
            return "The server is ending; it answers until its work is suspended."
        if self._looking is None:
            if time.monotonic() - self._looked_at < _KEPT_SECONDS:
                return self._trouble
            self._begin()
        assert self._looking is not None
        done, _ = await asyncio.wait({self._looking}, timeout=_WAIT_SECONDS)
        return self._trouble if done else f"The database has not answered within {_WAIT_SECONDS:g} seconds."

    def _begin(self) -> None:
        loop = asyncio.get_running_loop()
        ended = self._looking = loop.create_future()

        def end(trouble: str | None) -> None:
            self._trouble, self._looked_at, self._looking = trouble, time.monotonic(), None
            ended.set_result(None)

        def look() -> None:
            trouble = None
            try:
                self._look()
            except SeqferryError as why:
                trouble = why.message
            except Exception as why:  # noqa: BLE001 - whatever it is, the database was of no use
                trouble = f"The database cannot be used: {type(why).__name__}."
            if not loop.is_closed():
                loop.call_soon_threadsafe(end, trouble)

        threading.Thread(target=look, name="seqferry-ready", daemon=True).start()
