"""Requests under way at a time, and a fair queue of those that wait for one of them to end.

All of it happens in the thread of the event loop.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Final

from seqferry.model.frozen import frozen

PART_OF_ONE: Final = 2
"""One holder, which is a token, or an address without one, has at most this part (half) of each limit."""


@frozen
class Limit:
    """Attributes: ``most`` requests are under way, and ``waiting`` ones wait for so many ``seconds``."""

    most: int
    waiting: int = 0
    seconds: float = 0.0


@dataclass(eq=False, slots=True)
class _Waiter:
    holder: str
    admitted: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class RequestQueue:
    """Admits requests: of the holder with the fewest under way first, and those of one in their order."""

    def __init__(self, limit: Limit) -> None:
        self.limit: Final = limit
        self._of_one = max(limit.most // PART_OF_ONE, 1)
        self._under_way = Counter[str]()
        self._waiting = deque[_Waiter]()

    async def enter(self, holder: str) -> bool:
        """Wait until a request of this holder may begin; False when it is refused. After it, ``leave`` is called."""
        if not self._has_room(holder):  # else none of this holder waits: each that ends admits one
            return await self._wait(holder)
        self._under_way[holder] += 1
        return True

    def leave(self, holder: str) -> None:
        """Count a request as ended, and admit the next one."""
        self._under_way[holder] -= 1
        if not self._under_way[holder]:
            del self._under_way[holder]
        able = [one for one in self._waiting if self._has_room(one.holder)]
        if able:
            chosen = min(able, key=lambda one: self._under_way[one.holder])  # the first of equal ones
            self._waiting.remove(chosen)
            self._under_way[chosen.holder] += 1
            chosen.admitted.set_result(None)

    def count(self, holder: str) -> int | None:
        """Requests under way of a holder that has its whole part; None where all holders together have all."""
        return None if self._under_way.total() >= self.limit.most else self._under_way[holder]

    def _has_room(self, holder: str) -> bool:
        return self._under_way.total() < self.limit.most and self._under_way[holder] < self._of_one

    async def _wait(self, holder: str) -> bool:
        mine = sum(one.holder == holder for one in self._waiting)
        if len(self._waiting) >= self.limit.waiting or mine >= self.limit.waiting // PART_OF_ONE:
            return False
        waiter = _Waiter(holder)
        self._waiting.append(waiter)
        try:
            await asyncio.wait({waiter.admitted}, timeout=self.limit.seconds)
        except asyncio.CancelledError:
            if waiter.admitted.done():
                self.leave(holder)
            raise
        finally:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
        return waiter.admitted.done()
