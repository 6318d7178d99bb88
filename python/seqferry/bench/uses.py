"""Recommendations by use: mostly downloads, mostly uploads, as much of both, and whatever comes.

A method stands in them with its best settings for each direction, as one would use it. Its figure for a mix is the time
of ten transfers of each workload, so many of them in each direction; for whatever comes it is its worst case.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from seqferry.bench.baselines import by_case
from seqferry.bench.recommend import display_name, few_runs, join_names
from seqferry.bench.spread import FEWEST, Spread
from seqferry.model.formatting import duration
from seqferry.model.frozen import frozen

_MIXES: Final = (
    ("download-heavy", "9 downloads for each upload", 1, 9),
    ("upload-heavy", "9 uploads for each download", 9, 1),
    ("balanced", "as many uploads as downloads", 5, 5),
)

Row = dict[str, Any]


@frozen
class UseAdvice:
    """The methods to take for one use."""

    use: str
    methods: tuple[str, ...]
    """Names, the best first; those that do not differ from it beyond the spread follow. Empty: nothing succeeded."""
    text: str


def advise(rows: Sequence[Row]) -> list[UseAdvice]:
    """Advice for each use; none where not both directions were measured."""
    directions = {each["direction"] for each in rows}
    best = _best(rows)
    if not best:
        return []
    found: list[UseAdvice] = []
    if {"upload", "download"} <= directions:
        found = [_mix(use, words, up, down, best) for use, words, up, down in _MIXES]
    return [*found, _all(best)]


def _best(rows: Sequence[Row]) -> dict[str, dict[tuple[str, str], Row]]:
    """By method, then by case: its best settings. Only methods that succeeded in every case."""
    cases = by_case(rows)
    found: dict[str, dict[tuple[str, str], Row]] = {}
    for case, own in cases:
        for each in sorted((each for each in own if each["wall_s"]), key=lambda each: _seconds(each)["median"]):
            found.setdefault(each["method"], {}).setdefault(case, each)
    return {method: own for method, own in found.items() if len(own) == len(cases)}


def _seconds(row: Row) -> dict[str, float]:
    """Time of a transfer; of a download until its bytes were on the disk, which is the same end for all methods."""
    found: dict[str, float] = row.get("on_disk_s") or row["wall_s"]
    return found


def _mix(use: str, words: str, up: int, down: int, best: dict[str, dict[tuple[str, str], Row]]) -> UseAdvice:
    times = {method: _time(own, {"upload": up, "download": down, "copy": 0}) for method, own in best.items()}
    ranked = sorted(times, key=lambda method: times[method].median)
    first = times[ranked[0]]
    alike = [
        name for name in ranked[1:] if min(first.values, times[name].values) < FEWEST or first.overlaps(times[name])
    ]
    names = (ranked[0], *alike)
    took = f"{duration(first.median)} for ten transfers of each workload, {words}"
    least = min(times[name].values for name in names)
    return UseAdvice(use, names, f"{use}: {_describe_best(names, ranked, least)}: {took}")


def _describe_best(names: Sequence[str], ranked: Sequence[str], runs: int) -> str:
    best = display_name(names[0])
    if len(ranked) == 1:
        return f"{best}, with nothing to compare it with"
    if len(names) == 1:
        return f"{best}, ahead of {display_name(ranked[1])}"
    others = join_names([display_name(name) for name in names[1:3]])
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    if runs < FEWEST:
        return f"{best} was the fastest, before {others}{more}; {few_runs(runs)}"
    return f"{best}; no difference beyond the spread from {others}{more}"


def _time(own: dict[tuple[str, str], Row], weights: dict[str, int]) -> Spread:
    """Seconds of all transfers of a mix: the least and the most are sums of those of its parts."""
    parts = [(weights[direction], each) for (_, direction), each in own.items()]
    middle, low, high = (
        sum(weight * _seconds(each)[name] for weight, each in parts) for name in ("median", "low", "high")
    )
    return Spread(middle, low, high, min(each["runs"] for _, each in parts))


def _all(best: dict[str, dict[tuple[str, str], Row]]) -> UseAdvice:
    """The method whose worst case is nearest to the best of that case."""
    fastest = {case: min(_seconds(own[case])["median"] for own in best.values()) for case in next(iter(best.values()))}
    worst = {
        method: max((_seconds(own[case])["median"] / fastest[case], case) for case in fastest)
        for method, own in best.items()
    }
    method = min(worst, key=lambda name: worst[name])
    ratio, (workload, direction) = worst[method]
    where = f"its worst case, {direction} of {workload}, takes {ratio:.2f} times the best"
    text = "the fastest in every case" if ratio <= 1 else where
    least = min(each["runs"] for own in best.values() for each in own.values())
    if least < FEWEST and len(best) > 1:
        text += f"; {few_runs(least)}"
    return UseAdvice("all", (method,), f"all workloads: {display_name(method)}: {text}")
