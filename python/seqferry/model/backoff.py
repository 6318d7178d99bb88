"""Pauses between attempts, which grow up to a limit."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

_MOST_STEPS: Final = 64
"""Steps after which a pause has reached its limit; a power of more of them would overflow."""


@dataclass(frozen=True)
class Backoff:
    """Pauses in seconds: ``first``, then ``factor`` times longer each time, at most ``longest``.

    With ``random``, which returns numbers from 0 to 1, a pause is shortened by up to a half. Processes that wait for
    the same service then do not send their requests together.
    """

    first: float
    longest: float
    factor: float = 2.0
    random: Callable[[], float] | None = None

    def pause(self, failures: int) -> float:
        """Seconds to wait after so many failures in sequence, from 1."""
        pause = min(self.first * self.factor ** min(failures - 1, _MOST_STEPS), self.longest)
        return pause if self.random is None else pause * (1 - self.random() / 2)

    def pauses(self) -> Iterator[float]:
        """All pauses, without end."""
        return (self.pause(failures) for failures in itertools.count(1))
