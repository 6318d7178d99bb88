"""Limits the rate of requests with one share link that write to the database."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

MAX_REQUESTS: Final = 30
"""Requests of one link in one window: enough for a group of 20 people who make some typing errors. A choice."""

WINDOW_SECONDS: Final = 60.0

_LINKS: Final = 1000
"""Links that are remembered; the one that began its window first is forgotten for another."""


class LinkRate:
    """Counts requests of each link in fixed windows. Used in the event loop."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock: Final = clock
        self._windows: Final = OrderedDict[str, tuple[float, int]]()

    def admit(self, link_id: str) -> float:
        """Count a request. Returns 0 if it is admitted, otherwise the seconds until the link may try again."""
        now = self._clock()
        began, count = self._windows.get(link_id, (now, 0))
        if now - began >= WINDOW_SECONDS:
            began, count = now, 0
            self._windows.pop(link_id, None)
        if count >= MAX_REQUESTS:
            return began + WINDOW_SECONDS - now
        self._windows[link_id] = (began, count + 1)
        if len(self._windows) > _LINKS:
            self._windows.popitem(last=False)
        return 0.0
