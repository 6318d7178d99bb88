"""Median and range of several values of one quantity."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Final

from seqferry.model.frozen import frozen

FEWEST: Final = 3
"""Runs of each without which there is no verdict: with two, one that was disturbed moves the median to half-way."""


@frozen
class Spread:
    median: float
    low: float
    high: float
    values: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread | None:
        """Spread of the values; None when there are none."""
        if not values:
            return None
        return cls(statistics.median(values), min(values), max(values), len(values))

    def overlaps(self, other: Spread) -> bool:
        """True when the ranges of both, lowest to highest, share a value."""
        return self.low <= other.high and other.low <= self.high
