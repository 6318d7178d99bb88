"""Conclusions from the figures: the fastest tool, the cheapest in CPU, and how sure that is, for each workload.

The rule is plain on purpose: a method is ahead of another when the ranges of their runs (lowest to highest) do not
overlap. With one run each nothing is said to be ahead. All that overlap with the best median share the first place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from seqferry.bench.methods import Direction
from seqferry.bench.spread import Spread
from seqferry.bench.workload import Workload
from seqferry.model.formatting import rate

FEWEST: Final = 2
"""Runs without which there is no spread."""
RULE: Final = (
    "A method is ahead of another when the ranges of their runs, lowest to highest, do not overlap; with fewer than "
    f"{FEWEST} runs of each nothing is said to be ahead."
)

_Tell = Callable[[Spread], str]


@dataclass(frozen=True, slots=True)
class Series:
    """One method with its settings, on one workload in one direction."""

    workload: Workload
    direction: Direction
    label: str
    method: str
    threads: int | None
    part_size: int | None
    failed: int
    """Runs that failed, those of warming up included."""
    speed: Spread | None
    """Bytes per second."""
    wall_s: Spread | None
    cpu_s: Spread | None
    cpu_per_gib: Spread | None
    peak_bytes: Spread | None
    on_disk_s: Spread | None = None
    """Seconds of a download until its bytes were on the disk itself."""


@dataclass(frozen=True, slots=True)
class Advice:
    workload: str
    direction: Direction
    fastest: tuple[str, ...]
    """Labels of the best median, and of all that do not differ from it. Empty when nothing succeeded."""
    least_cpu: tuple[str, ...]
    speed_text: str
    cpu_text: str


def advise(series: Sequence[Series]) -> list[Advice]:
    """Advice for each workload and direction, in the order in which they come."""
    cases: dict[tuple[Workload, Direction], None] = {(each.workload, each.direction): None for each in series}
    return [
        _case(
            workload, direction, [each for each in series if (each.workload, each.direction) == (workload, direction)]
        )
        for workload, direction in cases
    ]


def _case(workload: Workload, direction: Direction, series: Sequence[Series]) -> Advice:
    speeds = [(each.label, each.speed) for each in series if each.speed is not None]
    cpus = [(each.label, each.cpu_per_gib) for each in series if each.cpu_per_gib is not None]
    fastest, speed_text = _first(speeds, most=True, tell=lambda one: rate(one.median), word="fastest", unit="as fast")
    least, cpu_text = _first(
        cpus, most=False, tell=lambda one: f"{one.median:.2f} s/GiB", word="cheapest in CPU", unit="the CPU time"
    )
    return Advice(workload.name, direction, fastest, least, speed_text, cpu_text)


def _first(
    found: Sequence[tuple[str, Spread]], *, most: bool, tell: _Tell, word: str, unit: str
) -> tuple[tuple[str, ...], str]:
    if not found:
        return (), "no run succeeded"
    ranked = sorted(found, key=lambda each: each[1].median, reverse=most)
    (label, best), others = ranked[0], ranked[1:]
    if not others:
        return (label,), f"{label}: {tell(best)}; there is nothing to compare it with"
    alike = [(name, other) for name, other in others if min(best.values, other.values) < FEWEST or best.overlaps(other)]
    behind = [each for each in others if each not in alike]
    if not alike:
        name, second = behind[0]
        ratio = best.median / second.median if most else second.median / best.median
        if most:
            return (label,), f"{label} is {word}: {tell(best)}, {ratio:.2f} times {unit} as {name} ({tell(second)})"
        return (label,), f"{label} is {word}: {tell(best)}; {name} takes {ratio:.2f} times {unit} ({tell(second)})"
    names = (label, *(name for name, _ in alike))
    told = ", ".join(f"{name} ({tell(one)})" for name, one in ((label, best), *alike))
    why = "one run of each tells no difference" if best.values < FEWEST else "no difference beyond the spread"
    ahead = f"; all of them ahead of {', '.join(name for name, _ in behind)}" if _apart(names, found, behind) else ""
    return names, f"{why} between {told}{ahead}"


def _apart(names: Sequence[str], found: Sequence[tuple[str, Spread]], behind: Sequence[tuple[str, Spread]]) -> bool:
    """True when each of ``names`` is ahead of each in ``behind``, and ``behind`` is not empty."""
    spreads = dict(found)
    return bool(behind) and not any(
        min(spreads[name].values, other.values) < FEWEST or spreads[name].overlaps(other)
        for name in names
        for _, other in behind
    )
