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

    @property
    def facts(self) -> dict[str, float]:
        """As reports hold it."""
        return {"median": self.median, "low": self.low, "high": self.high}

    def overlaps(self, other: Spread) -> bool:
        """True when the ranges of both, lowest to highest, share a value."""
        return self.low <= other.high and other.low <= self.high


def facts_of(values: Sequence[float]) -> dict[str, float] | None:
    """Median and range of the values as reports hold them; None when there are none."""
    spread = Spread.of(values)
    return None if spread is None else spread.facts


def text_of(facts: dict[str, float] | None, unit: float, digits: int) -> str:
    """``median [low..high]`` in a unit; a dash for None."""
    if facts is None:
        return "-"
    middle, low, high = (f"{facts[name] / unit:,.{digits}f}" for name in ("median", "low", "high"))
    return middle if low == high else f"{middle} [{low}..{high}]"
