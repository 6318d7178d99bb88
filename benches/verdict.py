"""Whether a build is better than another, by one figure: an estimate of the ratio, its interval, and a plain word.

The rounds of the two builds alternate, so what the machine does meanwhile hits both. The ratio new / old is estimated
by the median of all pairs of rounds (Hodges and Lehmann's estimate on a scale of ratios); its interval is the exact one
that belongs to the rank sum test, so no distribution is assumed, few rounds are named as few, and outliers do no harm.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import comb
from typing import Final, Literal

from figures import PreferredDirection

CONFIDENCE: Final = 0.95
SMALLEST: Final = 0.03
"""A smaller difference is within noise whatever the spread: where code lies in memory makes as much."""
FEWEST_ROUNDS: Final = 4
"""Fewest rounds of each build: three of each are in order by chance once in ten times."""

RULE: Final = (
    f"A figure is better or worse when the {CONFIDENCE:.0%} interval of the ratio new / old (exact, from the rank sum "
    f"test over all pairs of rounds) does not hold 1 and the ratio itself, the median of all pairs, is at least "
    f"{SMALLEST:.0%} away from 1; else it is within noise. With fewer than {FEWEST_ROUNDS} rounds of each build "
    f"there is no verdict. Of figures that did not change about one in {round(1 / (1 - CONFIDENCE))} would pass the "
    "first condition by chance: look at a lonely verdict twice."
)

Word = Literal["better", "worse", "different", "within noise"]


@dataclass(frozen=True)
class Verdict:
    ratio: float
    """new / old"""
    low: float
    high: float
    """Ends of the interval; of all pairs when the rounds are too few for one."""
    word: Word
    why: str = ""


def verdict(new: Sequence[float], old: Sequence[float], better: PreferredDirection) -> Verdict | None:
    """Verdict on two builds; None when there is no ratio: a side is empty or holds a zero."""
    if not new or not old or min(*new, *old) <= 0:
        return None
    pairs = sorted(one / other for one in new for other in old)
    ratio = statistics.median(pairs)
    if min(len(new), len(old)) < FEWEST_ROUNDS:
        return Verdict(ratio, pairs[0], pairs[-1], "within noise", "too few rounds to tell")
    rank = _rank(len(new), len(old))
    low, high = pairs[rank], pairs[-1 - rank]
    if low <= 1 <= high:
        return Verdict(ratio, low, high, "within noise")
    if abs(ratio - 1) < SMALLEST:
        return Verdict(ratio, low, high, "within noise", "too small to matter")
    if not better:
        return Verdict(ratio, low, high, "different")
    return Verdict(ratio, low, high, "better" if (ratio < 1) == (better == "lower") else "worse")


def _rank(new: int, old: int) -> int:
    """How many pairs lie outside of the interval on each side; for as many rounds as ``FEWEST_ROUNDS`` or more."""
    below, statistic = 1, 0
    while True:
        below += _ways(new, old, statistic + 1)
        if 2 * below / comb(new + old, new) > 1 - CONFIDENCE:
            return statistic
        statistic += 1


@cache
def _ways(new: int, old: int, statistic: int) -> int:
    """Number of orders of all rounds in which ``statistic`` pairs have the new one below the old one."""
    if statistic < 0:
        return 0
    if new == 0 or old == 0:
        return int(statistic == 0)
    # The last in the order is a new one (above all old ones), or an old one (above all new ones).
    return _ways(new - 1, old, statistic) + _ways(new, old - 1, statistic - new)
